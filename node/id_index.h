/* Id index: from a 128-bit identity to the number of the slot that its owner keeps it in.
 *
 * Open addressing with linear probing, at most half full, erased by moving the followers back: no tombstones, so it
 * never needs rebuilding. The identities are keyed hashes: nobody can aim two of them at one place.
 *
 * Thread: the caller's. Pure. Memory: handed in. Every call is O(1) on average. */
#ifndef HR_NODE_ID_INDEX_H
#define HR_NODE_ID_INDEX_H

#include <stdint.h>

#include "base/bump.h"
#include "base/hash.h"

#define HR_SLOT_NONE UINT32_MAX
#define HR_ID_INDEX_COUNT_MAX (UINT32_C(1) << 30)

struct hr_id_place {
    struct hr_id128 id;
    uint64_t slot; /* HR_SLOT_NONE: the place is empty */
};

struct hr_id_index {
    struct hr_id_place *places;
    uint64_t mask; /* places - 1 */
};

/* For up to count_max identities, 1 to HR_ID_INDEX_COUNT_MAX. */
void hr_id_index_init(struct hr_id_index *index, uint32_t count_max, struct hr_bump *bump);

void hr_id_index_clear(struct hr_id_index *index);

/* The slot, or HR_SLOT_NONE. */
uint32_t hr_id_index_find(const struct hr_id_index *index, struct hr_id128 id);

/* Requires: id is not there, and fewer than count_max are; slot is not HR_SLOT_NONE. */
void hr_id_index_insert(struct hr_id_index *index, struct hr_id128 id, uint32_t slot);

/* Requires: id is there. */
void hr_id_index_erase(struct hr_id_index *index, struct hr_id128 id);

#endif
