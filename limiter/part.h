/* Part: decides only some of the counters that a request touches, for the others are another node's to decide.
 *
 * Which counters a request touches is known without deciding (hr_limiter_touches). Their owner is then asked for its
 * own: it looks whether they have room, and takes what the request costs, noting what it took. What was taken stays, or
 * is given back exactly: what of it has drained, run out or belongs to a window or period that is over is not given
 * back a second time, for it is free already. So give and take never leave a counter fuller than if nothing had been
 * taken.
 *
 * A limit whose owner cannot be asked may be decided by a fair part of it, on a counter of this node's own.
 *
 * Thread: the limiter's. Pure. Memory: the caller's. */
#ifndef HR_LIMITER_PART_H
#define HR_LIMITER_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/u128.h"
#include "limiter/limiter.h"

/* One limit that a request touches: where it stands in the set in force, and which counter of it. */
struct hr_touch {
    const struct hr_limit *limit;
    struct hr_id128 counter;
};

struct hr_touches {
    uint32_t count;
    struct hr_touch at[HR_TOUCHED_MAX]; /* in the file's order */
};

/* Some counters of those that a request touches, in any order. */
struct hr_counters {
    const struct hr_id128 *ids;
    uint32_t count;
};

/* What one counter gave: enough to give it back. */
struct hr_taken {
    struct hr_id128 counter, lease; /* lease: where its limit counts slots */
    uint64_t cost;
    struct hr_u128 before; /* buckets: the arrival time without this cost, at the time of the take or later */
    int64_t mark;          /* windows and quotas: the window's number; log: the time of the entry */
    uint16_t version;
    uint32_t number; /* of a global cap's stake (stake.h); else 0 */
};

/* Nothing is decided or consumed. HR_E_TOO_MANY: as for hr_limiter_check. */
HR_MUST enum hr_err hr_limiter_touches(struct hr_limiter *limiter, const struct hr_request *request,
                                       struct hr_touches *ret_touches);

/* The counter of a limit given on the spot. */
struct hr_id128 hr_limiter_spot_counter(const struct hr_limiter *limiter, struct hr_span key);

/* Decides by these counters alone, all or nothing over them; rows in the file's order. Unless the request is a peek,
 * what was taken is noted: *ret_taken has room for as many as there are counters. On error, and where the decision is
 * no, nothing was taken, and *ret_taken_count is 0. HR_E_NOT_FOUND: the request touches no such counter, by the limits
 * that are in force here. Else as hr_limiter_check. */
HR_MUST enum hr_err hr_limiter_take_part(struct hr_limiter *limiter, const struct hr_request *request,
                                         struct hr_counters part, struct hr_now now, struct hr_decision *ret_decision,
                                         struct hr_taken *ret_taken, uint32_t *ret_taken_count);

/* The same request and counters once more, with another cost or no longer as a peek: requires that nothing of the
 * limiter was called since take_part, which succeeded. They are not looked for again. */
HR_MUST enum hr_err hr_limiter_take_part_again(struct hr_limiter *limiter, const struct hr_request *request,
                                               struct hr_now now, struct hr_decision *ret_decision,
                                               struct hr_taken *ret_taken, uint32_t *ret_taken_count);

/* Gives back what was taken and is not free yet. A counter whose rule has changed since keeps the charge. */
void hr_limiter_give_back(struct hr_limiter *limiter, const struct hr_taken *taken, struct hr_now now);

/* As hr_limiter_refund, for these counters alone; HR_E_NOT_FOUND also as for take_part. */
HR_MUST enum hr_err hr_limiter_refund_part(struct hr_limiter *limiter, const struct hr_request *request,
                                           struct hr_counters part, struct hr_now now);

/* The part of a rule that is one node's of `nodes` (1 or more): capacity and rate divided, each at least 1. */
struct hr_rule hr_rule_share(const struct hr_rule *rule, uint32_t nodes);

/* Decides one touched limit by this node's fair part of it, on a counter beside the real one. Such counters are not
 * saved, and stay where they are when ranges move (range.h). The decision has one row, whose limit is the touched one.
 * HR_E_TOO_MANY: too many different rules at a time. HR_E_NOT_FOUND: it is a global cap, of which only the counter's
 * owner has a share. Else as take_part. */
HR_MUST enum hr_err hr_limiter_take_share(struct hr_limiter *limiter, const struct hr_request *request,
                                          const struct hr_touch *touch, uint32_t nodes, struct hr_now now,
                                          struct hr_decision *ret_decision, struct hr_taken *ret_taken,
                                          uint32_t *ret_taken_count);

#endif
