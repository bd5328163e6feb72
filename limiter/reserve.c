#include "limiter/reserve.h"

#include "base/defect.h"

/* A chunk that lasted less than this is doubled; one that lasted longer than the other is halved. A commit takes some
 * 10 ms, and half a chunk is spent meanwhile: one for at least ten of them leaves time to raise it. */
#define CHUNK_LASTS_NS_MIN (100 * HR_NS_PER_MS)
#define CHUNK_LASTS_NS_MAX (2 * HR_NS_PER_S)

void hr_reserve_pool_init(struct hr_reserve_pool *pool, struct hr_reserve *reserves, uint32_t reserve_count)
{
    *pool = (struct hr_reserve_pool){.reserves = reserves, .reserve_count = reserve_count, .fresh = 1};
}

uint32_t hr_reserve_new(struct hr_reserve_pool *pool, struct hr_id128 counter)
{
    uint32_t index = pool->free_head;
    if (index != 0) {
        pool->free_head = pool->reserves[index].next;
    } else if (pool->fresh < pool->reserve_count) {
        index = pool->fresh++;
    } else {
        return 0;
    }
    pool->reserves[index] = (struct hr_reserve){.counter = counter, .chunk = 1};
    pool->used++;
    return index;
}

void hr_reserve_free(struct hr_reserve_pool *pool, uint32_t index)
{
    pool->reserves[index].next = pool->free_head;
    pool->free_head = index;
    pool->used--;
}

/* While a record is on its way, the queue can wait: settling comes back to it. */
static void want(struct hr_reserve_pool *pool, uint32_t index)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    if (reserve->is_copy) {
        return;
    }
    reserve->is_wanted = true;
    if (reserve->is_queued || reserve->asked > 0) {
        return;
    }
    reserve->is_queued = true;
    reserve->next = 0;
    if (pool->wanted_tail == 0) {
        pool->wanted_head = index;
    } else {
        pool->reserves[pool->wanted_tail].next = index;
    }
    pool->wanted_tail = index;
}

bool hr_reserve_covers(struct hr_reserve_pool *pool, uint32_t index, uint64_t cost)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    if (cost <= reserve->left || hr_defect(MARK_EARLY)) {
        return true;
    }
    reserve->cost = reserve->is_wanted && reserve->cost > cost ? reserve->cost : cost;
    pool->is_waited_for = true;
    want(pool, index);
    return false;
}

/* Is what is there, and what is on its way, less than half a chunk? */
static bool runs_low(const struct hr_reserve *reserve)
{
    return reserve->left + reserve->asked < reserve->chunk / 2 + 1;
}

void hr_reserve_void(struct hr_reserve_pool *pool, uint32_t index)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    if (reserve->is_copy) { /* it is not this place that spends them */
        return;
    }
    reserve->is_void |= reserve->asked > 0;
    reserve->left = 0;
    pool->is_waited_for = true; /* for the store still goes by a record that is wrong */
    want(pool, index);
}

void hr_reserve_copy(struct hr_reserve_pool *pool, uint32_t index, uint64_t units)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    reserve->is_void |= reserve->asked > 0;
    reserve->is_wanted = false;
    reserve->is_copy = true;
    reserve->left = units;
}

uint64_t hr_reserve_own(struct hr_reserve_pool *pool, uint32_t index)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    uint64_t units = reserve->left;
    if (!reserve->is_copy) {
        return 0;
    }
    reserve->is_copy = false;
    hr_reserve_void(pool, index);
    return units;
}

void hr_reserve_take(struct hr_reserve_pool *pool, uint32_t index, uint64_t cost)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    if (cost > reserve->left) {
        hr_reserve_void(pool, index);
        return;
    }
    reserve->left -= cost;
    reserve->cost = reserve->is_wanted ? reserve->cost : cost;
    if (runs_low(reserve)) {
        want(pool, index);
    }
}

uint32_t hr_reserve_next_wanted(struct hr_reserve_pool *pool)
{
    uint32_t index = pool->wanted_head;
    if (index != 0) {
        pool->wanted_head = pool->reserves[index].next;
        pool->wanted_tail = pool->wanted_head == 0 ? 0 : pool->wanted_tail;
        pool->is_waited_for &= pool->wanted_head != 0;
        pool->reserves[index].is_queued = false;
    }
    return index;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Follows the pace, between the least chunk and the greatest. */
static uint64_t next_chunk(const struct hr_reserve *reserve, uint64_t capacity, hr_ns now)
{
    uint64_t most = capacity / HR_RESERVE_CHUNKS_PER_CAPACITY + 1;
    uint64_t floor = reserve->cost > most ? most : least(most, HR_RESERVE_CHUNK_REQUESTS * reserve->cost);
    uint64_t chunk = reserve->chunk;
    if (now - reserve->raised_at < CHUNK_LASTS_NS_MIN) {
        chunk = least(most, 2 * chunk);
    } else if (now - reserve->raised_at > CHUNK_LASTS_NS_MAX) {
        chunk /= 2;
    }
    return chunk < floor ? floor : chunk;
}

uint64_t hr_reserve_raise(struct hr_reserve_pool *pool, uint32_t index, uint64_t capacity, hr_ns now)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    reserve->chunk = next_chunk(reserve, capacity, now);
    uint64_t wanted = reserve->chunk < reserve->cost ? reserve->cost : reserve->chunk;
    reserve->asked = wanted > reserve->left ? wanted - reserve->left : 1;
    reserve->raised_at = now;
    reserve->is_wanted = false;
    reserve->next = pool->asked_head;
    pool->asked_head = index;
    return reserve->left + reserve->asked;
}

static void settle(struct hr_reserve_pool *pool, uint32_t index, bool is_stored)
{
    struct hr_reserve *reserve = &pool->reserves[index];
    reserve->left += is_stored && !reserve->is_void ? reserve->asked : 0;
    reserve->asked = 0;
    reserve->is_void = false;
    pool->is_waited_for |= reserve->is_wanted && reserve->cost > reserve->left;
    if (reserve->is_wanted || !is_stored || runs_low(reserve)) {
        want(pool, index);
    }
}

void hr_reserve_settle(struct hr_reserve_pool *pool, bool is_stored)
{
    uint32_t index = pool->asked_head;
    pool->asked_head = 0;
    while (index != 0) {
        uint32_t next = pool->reserves[index].next;
        settle(pool, index, is_stored);
        index = next;
    }
}
