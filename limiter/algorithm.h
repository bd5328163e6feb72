/* Algorithm: one face for all of them, so that the limiter treats every limit alike.
 *
 * The order of calls on a counter at one instant: advance (time passes: it changes nothing that a caller could see),
 * then fits and the numbers, then take where the whole request is admitted. Thread: the caller's. Pure. Instants in the
 * context lie in [0, HR_TIME_NS_MAX]. */
#ifndef HR_LIMITER_ALGORITHM_H
#define HR_LIMITER_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/concurrency.h"
#include "limiter/fixed_window.h"
#include "limiter/gcra.h"
#include "limiter/limit.h"
#include "limiter/quota.h"
#include "limiter/sliding_log.h"
#include "limiter/sliding_window.h"

/* A bucket, and where its last change was noted (journal.h): in what the larger states leave free. */
struct hr_bucket {
    struct hr_gcra gcra;
    uint32_t place, round;
};

/* What one counter remembers. Zero-filled is untouched, for every algorithm. */
union hr_state {
    struct hr_gcra gcra;
    struct hr_bucket bucket;
    struct hr_fixed_window fixed_window;
    struct hr_sliding_window sliding_window;
    struct hr_sliding_log sliding_log;
    struct hr_quota quota;
    struct hr_concurrency concurrency;
};

/* What counters share, and when it is. */
struct hr_context {
    struct hr_now now;
    struct hr_log_pool *logs;
    struct hr_lease_pool *leases;
    const struct hr_quota_clock *clock; /* of the limit at hand, set to now */
};

/* Is `bucket` the state of these counters? */
static inline bool hr_algorithm_is_bucket(enum hr_algorithm algorithm)
{
    return algorithm == HR_TOKEN_BUCKET || algorithm == HR_GCRA || algorithm == HR_LEAKY_BUCKET;
}

void hr_state_advance(union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* Cost 0 always fits. */
bool hr_state_fits(const union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                   const struct hr_context *context);

/* Requires: cost is 1 or more and fits, and what hr_state_needs_room asked for is there. */
void hr_state_take(union hr_state *state, const struct hr_rule *rule, uint64_t cost, struct hr_grant grant,
                   const struct hr_context *context);

/* Gives back what an admitted request of that cost took; never above untouched. Slots end with their lease instead. */
void hr_state_give_back(union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                        const struct hr_context *context);

/* What a take at this instant would draw from the pools. */
struct hr_room {
    uint32_t log_blocks, leases;
};
struct hr_room hr_state_needs_room(const union hr_state *state, const struct hr_rule *rule,
                                   const struct hr_context *context);

uint64_t hr_state_remaining(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* The wait after which a cost that does not fit would; HR_NEVER_MS where it exceeds the rule's capacity. */
int64_t hr_state_retry_ms(const union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                          const struct hr_context *context);
int64_t hr_state_reset_ms(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* How long a request that is admitted now must wait: leaky buckets only, else 0. Asked before take. */
int64_t hr_state_delay_ms(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* May it be forgotten without loss? After advance. */
bool hr_state_is_untouched(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* Gives back what it holds of the pools; it is untouched then. */
void hr_state_clear(union hr_state *state, const struct hr_rule *rule, const struct hr_context *context);

/* Do the two keep one kind of state, so that what was spent under the one can be restated under the other? */
bool hr_algorithm_is_same(enum hr_algorithm a, enum hr_algorithm b);

/* Restates a counter of rule `from` under `to` (the same kind) at the context's instant, with its clock being from's;
 * to_period is as for hr_quota_adopt. */
void hr_state_adopt(union hr_state *state, const struct hr_rule *from, const struct hr_rule *to, int64_t to_period,
                    const struct hr_context *context);

#endif
