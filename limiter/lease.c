#include "limiter/lease.h"

uint32_t hr_lease_bucket_count(uint32_t lease_count)
{
    uint32_t count = 1;
    while (count < lease_count) {
        count <<= 1;
    }
    return count;
}

void hr_lease_pool_init(struct hr_lease_pool *pool, struct hr_lease *leases, uint32_t lease_count, uint32_t *buckets)
{
    *pool = (struct hr_lease_pool){
        .leases = leases,
        .buckets = buckets,
        .bucket_mask = hr_lease_bucket_count(lease_count) - 1,
        .lease_count = lease_count,
        .fresh = 1,
    };
}

uint32_t hr_lease_pool_available(const struct hr_lease_pool *pool)
{
    return pool->free_count + (pool->lease_count - pool->fresh);
}

/* Ids are keyed hashes: any of their bits spread evenly. */
static uint32_t *bucket_of(const struct hr_lease_pool *pool, struct hr_id128 id)
{
    return &pool->buckets[(uint32_t)id.lo & pool->bucket_mask];
}

uint32_t hr_lease_find(const struct hr_lease_pool *pool, struct hr_id128 id)
{
    uint32_t index = *bucket_of(pool, id);
    while (index != 0 && !hr_id128_equal(pool->leases[index].id, id)) {
        index = pool->leases[index].chain;
    }
    return index;
}

uint32_t hr_lease_find_named(const struct hr_lease_pool *pool, struct hr_id128 name)
{
    uint32_t index = *bucket_of(pool, name);
    while (index != 0 && !hr_id128_equal(pool->leases[index].id, hr_lease_id_of(name, pool->leases[index].id))) {
        index = pool->leases[index].chain;
    }
    return index;
}

uint32_t hr_lease_new(struct hr_lease_pool *pool, struct hr_id128 id)
{
    uint32_t index = pool->free_head;
    if (index == 0) {
        index = pool->fresh++;
    } else {
        pool->free_head = pool->leases[index].next;
        pool->free_count--;
    }
    uint32_t *bucket = bucket_of(pool, id);
    pool->leases[index] = (struct hr_lease){.id = id, .chain = *bucket};
    *bucket = index;
    return index;
}

static void put_free(struct hr_lease_pool *pool, uint32_t index)
{
    pool->leases[index].next = pool->free_head;
    pool->free_head = index;
    pool->free_count++;
}

void hr_lease_free(struct hr_lease_pool *pool, uint32_t index)
{
    struct hr_lease *lease = &pool->leases[index];
    uint32_t *link = bucket_of(pool, lease->id);
    while (*link != index) {
        link = &pool->leases[*link].chain;
    }
    *link = lease->chain;
    if (lease->is_saved) {
        lease->is_ended = true;
        hr_lease_mark_changed(pool, index);
        return;
    }
    put_free(pool, index);
}

void hr_lease_mark_changed(struct hr_lease_pool *pool, uint32_t index)
{
    struct hr_lease *lease = &pool->leases[index];
    if (!lease->is_saved || lease->is_queued) {
        return;
    }
    lease->is_queued = true;
    lease->next_changed = 0;
    if (pool->changed_tail == 0) {
        pool->changed_head = index;
    } else {
        pool->leases[pool->changed_tail].next_changed = index;
    }
    pool->changed_tail = index;
}

bool hr_lease_next_changed(struct hr_lease_pool *pool, struct hr_lease *ret_lease)
{
    uint32_t index = pool->changed_head;
    if (index == 0) {
        return false;
    }
    struct hr_lease *lease = &pool->leases[index];
    pool->changed_head = lease->next_changed;
    pool->changed_tail = pool->changed_head == 0 ? 0 : pool->changed_tail;
    lease->is_queued = false;
    *ret_lease = *lease;
    if (lease->is_ended) {
        put_free(pool, index);
    }
    return true;
}
