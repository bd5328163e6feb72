/* Top-k: which counters are asked for most, in memory of a fixed size, without storing a single key: an entry shows a
 * counter's identity, which is a keyed hash. Who carries the key in hand can find its own entry by the same hash.
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi 2005): a stranger takes the place of the least asked one, and inherits its
 * count as its possible error. All counts are halved every HR_TOPK_HALF_LIFE_NS, so that what shows is hot now. With
 * exact counts that are halved, rounding down, at the same moments, it holds for every identity at any time:
 *
 *   count - error <= exact <= count       where it is listed
 *   exact <= total / capacity             where it is not listed
 *
 * Each counter is counted by one shard, the one that decides it: the lists of several are put together by sorting.
 *
 * Thread: the caller's. Pure. Memory: handed in, 110 to 160 bytes for each entry. */
#ifndef HR_NODE_TOPK_H
#define HR_NODE_TOPK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/hash.h"
#include "base/units.h"
#include "node/id_index.h"

#define HR_TOPK_CAPACITY_MAX 65536
#define HR_TOPK_HALF_LIFE_NS (10 * HR_NS_PER_S)

struct hr_topk_entry {
    struct hr_id128 id;
    uint64_t count;  /* requests, an upper bound */
    uint64_t error;  /* by how much count may be too high */
    uint64_t denied; /* of those requests, seen while it was listed: a lower bound */
    uint32_t limit;  /* as it was told last */
    uint32_t heap_at;
};

struct hr_topk {
    struct hr_topk_entry *entries; /* slots */
    uint32_t *heap; /* slots in use, as a binary heap with the least count first; then those not in use */
    struct hr_id_index index;
    uint32_t capacity, count;
    uint64_t total; /* the sum of all counts */
    hr_ns halved_at;
};

/* capacity: 1 to HR_TOPK_CAPACITY_MAX. */
void hr_topk_init(struct hr_topk *topk, uint32_t capacity, hr_ns now, struct hr_bump *bump);

/* Forgets all: what `limit` means has changed. */
void hr_topk_clear(struct hr_topk *topk);

/* One request touched the counter. O(log capacity) at worst. */
void hr_topk_add(struct hr_topk *topk, struct hr_id128 id, uint32_t limit, bool is_denied);

/* Halves as often as is due. To be called at least now and then, before add or list. */
void hr_topk_tick(struct hr_topk *topk, hr_ns now);

/* The entry, or NULL. Borrowed until the next change. */
const struct hr_topk_entry *hr_topk_find(const struct hr_topk *topk, struct hr_id128 id);

/* Copies the entries asked for most, up to count_max of them, most first, ties by identity, in among the `listed` ones
 * that are there already, of other counters. How many there are then. */
uint32_t hr_topk_list(const struct hr_topk *topk, uint32_t count_max, uint32_t listed, struct hr_topk_entry *entries);

#endif
