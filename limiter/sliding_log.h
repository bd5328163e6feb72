/* Sliding log: exact over every interval (t - P, t]. Each admission is an entry (time, cost) until it is P old.
 *
 * Entries stand in blocks of 256 bytes from a pool that all sliding logs of a limiter share; a counter holds its first
 * and last block. An entry costs at least 1, so a log has at most N <= HR_LOG_LIMIT_MAX of them; entries of one instant
 * are one entry. Block 0 is no block: a zero-filled state is an empty log.
 *
 * Thread: the caller's. Pure. Same conditions as fixed_window.h. */
#ifndef HR_LIMITER_SLIDING_LOG_H
#define HR_LIMITER_SLIDING_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/image.h"
#include "limiter/limit.h"

#define HR_LOG_BLOCK_ENTRIES 20

struct hr_log_block {
    uint32_t next;         /* the next newer block of this log, or of the free list */
    uint16_t first, count; /* live entries: [first, first + count) */
    uint64_t cost_sum;     /* of the live entries */
    int64_t at_ns[HR_LOG_BLOCK_ENTRIES];
    uint32_t cost[HR_LOG_BLOCK_ENTRIES];
};

struct hr_log_pool {
    struct hr_log_block *blocks; /* [0] is not used */
    uint32_t block_count;        /* with [0] */
    uint32_t fresh;              /* blocks from here on were never used */
    uint32_t free_head, free_count;
};

struct hr_sliding_log {
    uint32_t head, tail; /* oldest and newest block; 0: none */
    uint64_t used;       /* cost of all live entries */
};

/* block_count with block 0. The memory is borrowed for the pool's life and zero-filled. */
void hr_log_pool_init(struct hr_log_pool *pool, struct hr_log_block *blocks, uint32_t block_count);
uint32_t hr_log_pool_available(const struct hr_log_pool *pool);

/* Drops what is P old. */
void hr_sliding_log_advance(struct hr_sliding_log *log, const struct hr_rule *rule, struct hr_log_pool *pool,
                            hr_ns now);
bool hr_sliding_log_fits(const struct hr_sliding_log *log, const struct hr_rule *rule, uint64_t cost);

/* Would take need a block? */
bool hr_sliding_log_needs_block(const struct hr_sliding_log *log, const struct hr_log_pool *pool, hr_ns now);

/* Requires: cost fits, and a block is available where one is needed. */
void hr_sliding_log_take(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost, hr_ns now);

/* Gives cost back, of the newest entries first; never above untouched. O(blocks) for each block that it empties. */
void hr_sliding_log_give_back(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost);

/* Gives back what was taken at that instant; false: the entry is not there any more. O(blocks). */
bool hr_sliding_log_give_back_at(struct hr_sliding_log *log, struct hr_log_pool *pool, uint64_t cost, hr_ns at);
uint64_t hr_sliding_log_remaining(const struct hr_sliding_log *log, const struct hr_rule *rule);

/* Until cost (1 to N, does not fit) fits: until enough of the oldest entries are P old. O(blocks), O(1) for a cost
 * of 1. */
int64_t hr_sliding_log_retry_ms(const struct hr_sliding_log *log, const struct hr_rule *rule,
                                const struct hr_log_pool *pool, uint64_t cost, hr_ns now);
int64_t hr_sliding_log_reset_ms(const struct hr_sliding_log *log, const struct hr_rule *rule,
                                const struct hr_log_pool *pool, hr_ns now);

/* The log as at most `most` (1 or more) entries, oldest first; neighbours are joined at the time of the younger, so
 * that none ends before its time. Returns how many. */
uint32_t hr_sliding_log_save(const struct hr_sliding_log *log, const struct hr_log_pool *pool, hr_ns now,
                             struct hr_entry_image *ret_entries, uint32_t most);

/* Gives all blocks back: the log is empty. */
void hr_sliding_log_clear(struct hr_sliding_log *log, struct hr_log_pool *pool);

#endif
