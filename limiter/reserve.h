/* Reserve: what a counter of durability `reserved` may spend before the store knows. The record in the store says "this
 * state, and so many units ahead"; as long as the units spent since stay below that number, the record is an upper
 * bound of what was spent, and a crash admits nothing twice (architecture: reserve outside, spend inside).
 *
 * Units ahead are raised in chunks that follow the counter's pace, before they run out, so that a steady stream does
 * not wait. No more than one chunk is ever ahead, and that is what a crash loses at most: for any counter the units of
 * HR_RESERVE_CHUNK_REQUESTS requests like its last, for a busy one what it spends in about a second, and never more
 * than an eighth of what the limit holds, or of one request if that is more. Index 0 is no reserve. Thread: the
 * limiter's. Memory: handed in, zero-filled. */
#ifndef HR_LIMITER_RESERVE_H
#define HR_LIMITER_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/units.h"

/* The least chunk, in requests: so a counter that is asked rarely has the store written to once in so many of them,
 * too.
 */
#define HR_RESERVE_CHUNK_REQUESTS 64

/* The greatest chunk: this part of what the limit holds. */
#define HR_RESERVE_CHUNKS_PER_CAPACITY 8

/* For so long after its last raise a counter that is untouched again keeps what it has ahead, where there is room. */
#define HR_RESERVE_KEPT_NS (3600 * HR_NS_PER_S)

struct hr_reserve {
    struct hr_id128 counter;
    uint64_t left;   /* units that may be spent without asking */
    uint64_t asked;  /* units that a record on its way to the store adds; 0: none is */
    uint64_t chunk;  /* units to be ahead after the next raise */
    uint64_t cost;   /* of the last request, or the largest of those that wait for the raise */
    hr_ns raised_at; /* when they were last asked for */
    bool is_wanted;  /* to be raised as soon as may be */
    bool is_queued;
    bool is_void;  /* what the record on its way adds is not to be spent */
    bool is_copy;  /* another place spends what is left, without a word: it is charged when this one takes over */
    uint32_t next; /* of the queue of those wanted, of those that have asked, or of the free list */
};

struct hr_reserve_pool {
    struct hr_reserve *reserves; /* [0] is not used */
    uint32_t reserve_count;      /* with [0] */
    uint32_t used;               /* without [0] */
    uint32_t fresh, free_head;   /* as in lease.h */
    uint32_t wanted_head, wanted_tail;
    uint32_t asked_head; /* those whose raise is on its way */
    bool is_waited_for;  /* somebody waits for one of those wanted; the others have time */
};

void hr_reserve_pool_init(struct hr_reserve_pool *pool, struct hr_reserve *reserves, uint32_t reserve_count);

/* Has nothing been reserved yet? */
static inline bool hr_reserve_pool_is_unused(const struct hr_reserve_pool *pool)
{
    return pool->fresh == 1;
}

/* Is there room for a good many more? */
static inline bool hr_reserve_pool_has_room(const struct hr_reserve_pool *pool)
{
    return pool->used < pool->reserve_count - pool->reserve_count / 4;
}

/* Does a counter that is untouched keep it? While units are left, it would spend them without waiting. */
static inline bool hr_reserve_is_worth_keeping(const struct hr_reserve *reserve, hr_ns now)
{
    return reserve->left > 0 && (reserve->is_copy || now - reserve->raised_at < HR_RESERVE_KEPT_NS);
}

/* 0: none is left. */
uint32_t hr_reserve_new(struct hr_reserve_pool *pool, struct hr_id128 counter);

/* Requires: it is not queued and nothing is asked for. */
void hr_reserve_free(struct hr_reserve_pool *pool, uint32_t index);

/* Are so many units ahead? */
static inline bool hr_reserve_has(const struct hr_reserve_pool *pool, uint32_t index, uint64_t units)
{
    return pool->reserves[index].left >= units;
}

/* Is cost covered? If not, a raise that covers it is wanted. */
bool hr_reserve_covers(struct hr_reserve_pool *pool, uint32_t index, uint64_t cost);

/* Takes cost; asks for more in time. It is covered, or its limit waits for the store no longer (its durability was
 * changed while units were reserved): then all that is left is gone, and a raise tells the store as soon as may be. */
void hr_reserve_take(struct hr_reserve_pool *pool, uint32_t index, uint64_t cost);

/* Gives up all units, those on their way too: what the store knows is no bound any more. A raise,
 * which makes a new record, is wanted. */
void hr_reserve_void(struct hr_reserve_pool *pool, uint32_t index);

/* The counter is a copy of another place's, which may spend so many units before it says more. What was reserved here
 * is given up, and nothing is raised for it. */
void hr_reserve_copy(struct hr_reserve_pool *pool, uint32_t index, uint64_t units);

/* The counter is this place's own from now on: the units to charge, if it was a copy; and then a raise is wanted. */
uint64_t hr_reserve_own(struct hr_reserve_pool *pool, uint32_t index);

/* The reserve that hr_reserve_next_wanted would give, still on the queue: wanting it once more changes nothing. */
static inline uint32_t hr_reserve_first_wanted(const struct hr_reserve_pool *pool)
{
    return pool->wanted_head;
}

/* The next reserve whose raise is wanted, off the queue; 0: there is none. */
uint32_t hr_reserve_next_wanted(struct hr_reserve_pool *pool);

/* Starts a raise at now and returns the units that the record on its way must be ahead. capacity: what the limit holds
 * at most. Requires: no other raise of it is on its way, and it is off the queue. */
uint64_t hr_reserve_raise(struct hr_reserve_pool *pool, uint32_t index, uint64_t capacity, hr_ns now);

/* The records of all raises on their way came to the store, or did not. O(raises). */
void hr_reserve_settle(struct hr_reserve_pool *pool, bool is_stored);

#endif
