#include "limiter/sliding_log.h"

#include <assert.h>

static_assert(sizeof(struct hr_log_block) == 256, "four cache lines");

void hr_log_pool_init(struct hr_log_pool *pool, struct hr_log_block *blocks, uint32_t block_count)
{
    *pool = (struct hr_log_pool){.blocks = blocks, .block_count = block_count, .fresh = 1};
}

uint32_t hr_log_pool_available(const struct hr_log_pool *pool)
{
    return pool->free_count + (pool->block_count - pool->fresh);
}

/* Requires: one is available. Never-used blocks come last, so that memory is touched only as it is needed. */
static uint32_t borrow_block(struct hr_log_pool *pool)
{
    uint32_t index = pool->free_head;
    if (index == 0) {
        index = pool->fresh++;
    } else {
        pool->free_head = pool->blocks[index].next;
        pool->free_count--;
    }
    pool->blocks[index] = (struct hr_log_block){.next = 0};
    return index;
}

static void return_block(struct hr_log_pool *pool, uint32_t index)
{
    pool->blocks[index].next = pool->free_head;
    pool->free_head = index;
    pool->free_count++;
}

static void drop_oldest_block(struct hr_sliding_log *log, struct hr_log_pool *pool)
{
    uint32_t index = log->head;
    log->used -= pool->blocks[index].cost_sum;
    log->head = pool->blocks[index].next;
    log->tail = log->head == 0 ? 0 : log->tail;
    return_block(pool, index);
}

/* Drops the block's entries that are P old; true where none is left. */
static bool expire_block(struct hr_log_block *block, uint64_t *used, hr_ns expired_at)
{
    while (block->count > 0 && block->at_ns[block->first] <= expired_at) {
        uint32_t cost = block->cost[block->first];
        block->cost_sum -= cost;
        *used -= cost;
        block->first++;
        block->count--;
    }
    return block->count == 0;
}

void hr_sliding_log_advance(struct hr_sliding_log *log, const struct hr_rule *rule, struct hr_log_pool *pool, hr_ns now)
{
    hr_ns expired_at = now - (hr_ns)rule->period_ns;
    while (log->head != 0 && expire_block(&pool->blocks[log->head], &log->used, expired_at)) {
        drop_oldest_block(log, pool);
    }
}

uint64_t hr_sliding_log_remaining(const struct hr_sliding_log *log, const struct hr_rule *rule)
{
    return rule->capacity > log->used ? rule->capacity - log->used : 0;
}

bool hr_sliding_log_fits(const struct hr_sliding_log *log, const struct hr_rule *rule, uint64_t cost)
{
    return cost <= hr_sliding_log_remaining(log, rule);
}

/* The entry that an admission at now can be added to, or NULL. */
static uint32_t *newest_cost_of(const struct hr_sliding_log *log, const struct hr_log_pool *pool, hr_ns now)
{
    if (log->tail == 0) {
        return NULL;
    }
    struct hr_log_block *block = &pool->blocks[log->tail];
    if (block->count == 0) {
        return NULL;
    }
    uint32_t newest = block->first + block->count - 1U;
    return block->at_ns[newest] == now ? &block->cost[newest] : NULL;
}

bool hr_sliding_log_needs_block(const struct hr_sliding_log *log, const struct hr_log_pool *pool, hr_ns now)
{
    if (log->tail == 0) {
        return true;
    }
    const struct hr_log_block *block = &pool->blocks[log->tail];
    return block->first + block->count == HR_LOG_BLOCK_ENTRIES && newest_cost_of(log, pool, now) == NULL;
}

static void append_block(struct hr_sliding_log *log, struct hr_log_pool *pool)
{
    uint32_t index = borrow_block(pool);
    if (log->tail == 0) {
        log->head = index;
    } else {
        pool->blocks[log->tail].next = index;
    }
    log->tail = index;
}

void hr_sliding_log_take(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost, hr_ns now)
{
    if (hr_sliding_log_needs_block(log, pool, now)) {
        append_block(log, pool);
    }
    struct hr_log_block *block = &pool->blocks[log->tail];
    uint32_t *newest = newest_cost_of(log, pool, now);
    if (newest == NULL) {
        uint32_t slot = (uint32_t)block->first + block->count;
        block->at_ns[slot] = now;
        block->count++;
        newest = &block->cost[slot];
    }
    *newest += (uint32_t)cost; /* fits: all live costs together are at most HR_LOG_LIMIT_MAX */
    block->cost_sum += cost;
    log->used += cost;
}

static void drop_newest_block(struct hr_sliding_log *log, struct hr_log_pool *pool)
{
    uint32_t dropped = log->tail, before = 0;
    for (uint32_t index = log->head; index != dropped; index = pool->blocks[index].next) {
        before = index;
    }
    log->tail = before;
    if (before == 0) {
        log->head = 0;
    } else {
        pool->blocks[before].next = 0;
    }
    return_block(pool, dropped);
}

void hr_sliding_log_give_back(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost)
{
    while (cost > 0 && log->tail != 0) {
        struct hr_log_block *block = &pool->blocks[log->tail];
        uint32_t *newest = &block->cost[block->first + block->count - 1];
        uint32_t given = cost < *newest ? (uint32_t)cost : *newest;
        *newest -= given;
        block->cost_sum -= given;
        log->used -= given;
        cost -= given;
        block->count = (uint16_t)(block->count - (*newest == 0));
        if (block->count == 0) {
            drop_newest_block(log, pool);
        }
    }
}

static void unlink_block(struct hr_sliding_log *log, struct hr_log_pool *pool, uint32_t before, uint32_t index)
{
    uint32_t next = pool->blocks[index].next;
    if (before == 0) {
        log->head = next;
    } else {
        pool->blocks[before].next = next;
    }
    log->tail = log->tail == index ? before : log->tail;
    return_block(pool, index);
}

/* Is every entry of the block older than `at`? */
static bool ends_before(const struct hr_log_block *block, hr_ns at)
{
    return block->count == 0 || block->at_ns[block->first + block->count - 1] < at;
}

static void remove_entry(struct hr_log_block *block, uint32_t slot)
{
    uint32_t last = (uint32_t)block->first + block->count - 1;
    for (; slot < last; slot++) {
        block->at_ns[slot] = block->at_ns[slot + 1];
        block->cost[slot] = block->cost[slot + 1];
    }
    block->cost[last] = 0; /* a place that is not live holds no cost: take adds to it */
    block->count--;
}

bool hr_sliding_log_give_back_at(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost, hr_ns at)
{
    uint32_t before = 0, index = log->head;
    while (index != 0 && ends_before(&pool->blocks[index], at)) {
        before = index;
        index = pool->blocks[index].next;
    }
    if (index == 0) {
        return false;
    }
    struct hr_log_block *block = &pool->blocks[index];
    uint32_t slot = block->first;
    while (block->at_ns[slot] < at) {
        slot++; /* the block does not end before `at` */
    }
    if (block->at_ns[slot] != at) {
        return false;
    }
    uint32_t given = cost < block->cost[slot] ? (uint32_t)cost : block->cost[slot];
    block->cost[slot] -= given;
    block->cost_sum -= given;
    log->used -= given;
    if (block->cost[slot] == 0) {
        remove_entry(block, slot);
    }
    if (block->count == 0) {
        unlink_block(log, pool, before, index);
    }
    return true;
}

/* The time of the entry with which the oldest entries together cost at least `needed` (1 to used). */
static hr_ns time_of_oldest(const struct hr_sliding_log *log, const struct hr_log_pool *pool, uint64_t needed)
{
    const struct hr_log_block *block = &pool->blocks[log->head];
    while (block->cost_sum < needed) {
        needed -= block->cost_sum;
        block = &pool->blocks[block->next];
    }
    uint32_t slot = block->first;
    while (block->cost[slot] < needed) {
        needed -= block->cost[slot];
        slot++;
    }
    return block->at_ns[slot];
}

int64_t hr_sliding_log_retry_ms(const struct hr_sliding_log *log, const struct hr_rule *rule,
                                const struct hr_log_pool *pool, uint64_t cost, hr_ns now)
{
    uint64_t room = rule->capacity - cost;
    return hr_ms_ceil(time_of_oldest(log, pool, log->used - room) + (hr_ns)rule->period_ns - now);
}

int64_t hr_sliding_log_reset_ms(const struct hr_sliding_log *log, const struct hr_rule *rule,
                                const struct hr_log_pool *pool, hr_ns now)
{
    if (log->used == 0) {
        return 0;
    }
    const struct hr_log_block *block = &pool->blocks[log->tail];
    hr_ns newest = block->at_ns[block->first + block->count - 1];
    return hr_ms_ceil(newest + (hr_ns)rule->period_ns - now);
}

static uint32_t entry_count(const struct hr_sliding_log *log, const struct hr_log_pool *pool)
{
    uint32_t count = 0;
    for (uint32_t index = log->head; index != 0; index = pool->blocks[index].next) {
        count += pool->blocks[index].count;
    }
    return count;
}

uint32_t hr_sliding_log_save(const struct hr_sliding_log *log, const struct hr_log_pool *pool, hr_ns now,
                             struct hr_entry_image *ret_entries, uint32_t most)
{
    uint32_t seen = 0, joined = entry_count(log, pool) / most + 1;
    for (uint32_t index = log->head; index != 0; index = pool->blocks[index].next) {
        const struct hr_log_block *block = &pool->blocks[index];
        for (uint32_t slot = block->first; slot < (uint32_t)block->first + block->count; slot++, seen++) {
            struct hr_entry_image *entry = &ret_entries[seen / joined];
            entry->cost = (seen % joined == 0 ? 0 : entry->cost) + block->cost[slot];
            entry->age_ns = (uint64_t)(now - block->at_ns[slot]);
        }
    }
    return (seen + joined - 1) / joined;
}

void hr_sliding_log_clear(struct hr_sliding_log *log, struct hr_log_pool *pool)
{
    while (log->head != 0) {
        drop_oldest_block(log, pool);
    }
}
