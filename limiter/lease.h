/* Leases: slots that a concurrency limit has given out, each until a time. One pool for all limits of a limiter; each
 * counter's leases form a list in the order in which they run out, and an index finds a lease by its id. Index 0 is no
 * lease.
 *
 * Thread: the caller's. Pure. Memory: handed in, borrowed for the pool's life, zero-filled. */
#ifndef HR_LIMITER_LEASE_H
#define HR_LIMITER_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/units.h"

struct hr_lease {
    struct hr_id128 id;
    struct hr_id128 counter; /* identity of the counter that gave it */
    hr_ns expires_at;        /* held while now is before this */
    uint64_t slots;
    uint32_t next, previous; /* of the same counter, by expires_at; next also links the free list */
    uint32_t chain;          /* next of the same bucket of the index */
    uint32_t next_changed;   /* of the queue of those to be saved */
    bool is_saved;           /* does its limit ask for leases to be saved? */
    bool is_queued;          /* in that queue */
    bool is_ended;           /* given back; waits in that queue for its end to be saved */
};

struct hr_lease_pool {
    struct hr_lease *leases; /* [0] is not used */
    uint32_t *buckets;
    uint32_t bucket_mask;
    uint32_t lease_count; /* with [0] */
    uint32_t fresh;       /* leases from here on were never used */
    uint32_t free_head, free_count;
    uint32_t changed_head, changed_tail;
};

/* How many buckets go with lease_count leases: the power of two at or above it. */
uint32_t hr_lease_bucket_count(uint32_t lease_count);

void hr_lease_pool_init(struct hr_lease_pool *pool, struct hr_lease *leases, uint32_t lease_count, uint32_t *buckets);
uint32_t hr_lease_pool_available(const struct hr_lease_pool *pool);

/* A lease's id: its name, which is a hash, with the first bits of its counter's id in the place of its own. So whoever
 * owns the counter, by these bits, can be told from the lease alone. */
#define HR_LEASE_COUNTER_BITS 12

static inline struct hr_id128 hr_lease_id_of(struct hr_id128 name, struct hr_id128 counter)
{
    const uint64_t own = UINT64_MAX >> HR_LEASE_COUNTER_BITS;
    return (struct hr_id128){(name.hi & own) | (counter.hi & ~own), name.lo};
}

/* 0 where there is none. O(1). */
uint32_t hr_lease_find_named(const struct hr_lease_pool *pool, struct hr_id128 name);
uint32_t hr_lease_find(const struct hr_lease_pool *pool, struct hr_id128 id);

/* Takes a lease from the pool and files it by id. Requires: one is available, and no lease has that id. */
uint32_t hr_lease_new(struct hr_lease_pool *pool, struct hr_id128 id);

/* Gives it back. Its counter's list no longer holds it. One that is saved is free again only when its end has left the
 * queue. */
void hr_lease_free(struct hr_lease_pool *pool, uint32_t index);

/* Queues a lease whose end has changed, where its limit asks for leases to be saved. */
void hr_lease_mark_changed(struct hr_lease_pool *pool, uint32_t index);

/* Takes the next lease to be saved off the queue; is_ended says that its record is to go. False: there is none. */
bool hr_lease_next_changed(struct hr_lease_pool *pool, struct hr_lease *ret_lease);

#endif
