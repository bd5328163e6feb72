/* Platter: what of a simulated disk is durable. It outlives the processes that write on it.
 *
 * A run of ten hours writes a hundred million records, most of them again and again under the same keys: so a hash
 * table whose values are overwritten where they lie, rather than storage_memory's tree.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_PLATTER_H
#define HR_CHAOS_PLATTER_H

#include <stdint.h>

#include "base/err.h"
#include "storage/storage.h"

struct hr_platter_record; /* one key and its value */

/* Zero-filled it is empty. */
struct hr_platter {
    struct hr_platter_record *records; /* a hash table with linear probing */
    uint32_t count, room;              /* room: 0, or a power of two */
};

void hr_platter_deinit(struct hr_platter *platter);

/* Carries out a whole batch. HR_E_MEMORY: it was carried out in part, and the run is of no more use. */
HR_MUST enum hr_err hr_platter_apply(struct hr_platter *platter, const struct hr_store_batch *batch);

/* As hr_store_load. HR_E_MEMORY. */
HR_MUST enum hr_err hr_platter_load(const struct hr_platter *platter, enum hr_record_kind kind, hr_store_visit *visit,
                                    void *user, struct hr_store_loaded *ret_loaded);

#endif
