/* Suite: what storage.h promises, as tests that any store must pass. A store brings a driver; the suite does the rest.
 */
#ifndef HR_TESTS_UNIT_STORAGE_SUITE_H
#define HR_TESTS_UNIT_STORAGE_SUITE_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/storage.h"

struct suite_driver {
    const char *name;
    bool has_thread; /* commits on a thread of its own, and not only in settle */
    /* An empty disk, or whatever the store lies on. */
    void *(*new_disk)(void);
    void (*free_disk)(void *disk);
    /* Opens the store on it; room_bytes bounds what it may hold, 0: nothing does. Fails the test where it cannot. */
    struct hr_store *(*open)(void *disk, uint64_t room_bytes, hr_store_done *done, void *user);
};

/* Runs every test of the suite on the driver's store. Returns how many failed. */
int suite_run(struct suite_driver *driver);

#endif
