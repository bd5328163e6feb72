/* Storage in memory: for tests, for the simulator, and for a node that keeps nothing.
 *
 * The disk is an object of its own, so that it can outlive the store that writes on it: close the store, or crash it,
 * and open another one on the same disk. Nothing happens on its own: what was committed waits until run or settle, and
 * only then takes effect and is answered, on the thread that called. So a simulator decides when a disk is done.
 *
 * Thread: one at a time for a disk and its store (narrower than storage.h allows). Memory: heap. */
#ifndef HR_STORAGE_STORAGE_MEMORY_H
#define HR_STORAGE_STORAGE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "storage/storage.h"

struct hr_memory_disk;

/* NULL: no memory. */
struct hr_memory_disk *hr_memory_disk_new(void);
void hr_memory_disk_free(struct hr_memory_disk *disk);

/* All zero: no faults. */
struct hr_memory_faults {
    uint64_t bytes_max; /* keys and values beyond this do not fit: HR_E_FULL. 0: no bound */
    uint64_t fail_op;   /* the n-th put or delete from now, counted from 1, fails, once; 0: none */
    enum hr_err fail_err;
};
void hr_memory_disk_set_faults(struct hr_memory_disk *disk, struct hr_memory_faults faults);

/* Flips one bit of a record's value; bit counts from the value's start. False: there is no such record or bit. */
bool hr_memory_disk_flip(struct hr_memory_disk *disk, const struct hr_store_key *key, size_t bit);

/* NULL: no memory. The disk is borrowed until close or crash; it has one store at a time. */
struct hr_store *hr_store_memory_open(struct hr_memory_disk *disk, hr_store_done *done, void *user);

/* Commits up to tickets_max of the batches that wait, each by itself, in order. Returns how many were answered. */
size_t hr_store_memory_run(struct hr_store *store, size_t tickets_max);

/* The process dies: what waits is lost and never answered, and the store is freed. */
void hr_store_memory_crash(struct hr_store *store);

#endif
