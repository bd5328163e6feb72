/* Storage on LMDB: one directory on a local disk, one thread that commits.
 *
 * Every commit is synced before it is answered. The memory map starts small and is doubled, up to map_bytes_max,
 * whenever a batch does not fit. What LMDB cannot recover from by itself (it gives up on a failed write of its meta
 * page) is answered by opening the environment anew. docs/STORAGE.md lists every fault and its answer.
 *
 * LMDB's own caveats: never on a network file system; one process at a time, which a lock on a file of its own
 * enforces. Thread: as storage.h says. The done callback comes on the store's own thread. */
#ifndef HR_STORAGE_STORAGE_LMDB_H
#define HR_STORAGE_STORAGE_LMDB_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "storage/storage.h"

#define HR_STORE_MAP_BYTES_START (UINT64_C(64) << 20)
#define HR_STORE_MAP_BYTES_MAX (UINT64_C(64) << 30)

struct hr_store_lmdb_options {
    const char *dir;              /* made, with mode 0700, where missing; its parent must exist */
    struct hr_span cluster, node; /* whose data this is: up to HR_STORE_NAME_BYTES_MAX each */
    uint64_t map_bytes_start;     /* 0: HR_STORE_MAP_BYTES_START */
    uint64_t map_bytes_max;       /* 0: HR_STORE_MAP_BYTES_MAX. Address space, and the bound of the file */
    hr_store_done *done;
    void *user;
};

/* One line for the operator. */
struct hr_store_problem {
    char text[512];
};

/* Opens the store, or makes an empty one. On error *ret_problem says what is wrong and what to do.
 * HR_E_IO: the directory or its files could not be used, or another process has the store open. HR_E_CORRUPT: damaged.
 * HR_E_INVALID: written by a newer version. HR_E_NOT_FOUND: another node's or cluster's. HR_E_RANGE: a name too long.
 * HR_E_MEMORY: the heap is used up. */
HR_MUST enum hr_err hr_store_lmdb_open(const struct hr_store_lmdb_options *options, struct hr_store **ret_store,
                                       struct hr_store_problem *ret_problem);

#endif
