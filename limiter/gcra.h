/* GCRA: token bucket, leaky bucket and the generic cell rate algorithm over one state, a theoretical arrival time
 * (ITU-T I.371, Annex A; the three are one algorithm seen from three sides).
 *
 * Exact for every rate N per P: the arrival time is counted in units of 1/N nanosecond, so one token is exactly P units
 * and a nanosecond exactly N; nothing is ever divided on the way to a decision. How far it lies ahead of now is the
 * debt: token bucket   tokens = b - debt / P          leaky bucket   level = debt / P Bounds: now < 2^63 and N, b <
 * 2^53, P < 2^55, so that now x N < 2^116, b x P < 2^108 and their sum is below 2^117.
 *
 * Thread: the caller's. Pure. `rule` is valid (hr_rule_fault), cost is at most HR_COST_MAX, now lies in [0,
 * HR_TIME_NS_MAX]. The contracts in ACSL, over mathematical integers, are proved by tests/proof. */
#ifndef HR_LIMITER_GCRA_H
#define HR_LIMITER_GCRA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/u128.h"
#include "base/units.h"
#include "limiter/limit.h"

struct hr_gcra {
    struct hr_u128 arrival; /* theoretical arrival time in 1/N ns; at or before now: untouched */
};

/*@ predicate hr_gcra_is_rule(struct hr_rule *rule) =
      \valid_read(rule) && 1 <= rule->capacity <= HR_COST_MAX && 1 <= rule->rate <= HR_COST_MAX &&
      1 <= rule->period_ns <= HR_PERIOD_NS_MAX;

    logic integer hr_gcra_full(struct hr_rule *rule) = rule->capacity * rule->period_ns;

    logic integer hr_gcra_debt(struct hr_gcra *gcra, struct hr_rule *rule, integer now) =
      \max(0, hr_u128_value(gcra->arrival) - now * rule->rate);

    // What every call needs and leaves behind: nobody owes more than the largest burst there can be.
    predicate hr_gcra_is_sound(struct hr_gcra *gcra, struct hr_rule *rule, integer now) =
      \valid_read(gcra) && hr_gcra_is_rule(rule) && 0 <= now <= HR_TIME_NS_MAX &&
      hr_gcra_debt(gcra, rule, now) <= HR_COST_MAX * rule->period_ns;

    // ms is units / rate in milliseconds, rounded up, or HR_ANSWER_MAX where that is less.
    predicate hr_gcra_is_ms_ceil(integer ms, integer units, integer rate) =
      0 <= ms <= HR_ANSWER_MAX && (ms - 1) * HR_NS_PER_MS * rate < units &&
      (ms == HR_ANSWER_MAX || units <= ms * HR_NS_PER_MS * rate); */

/* Is there room for cost at now? */
/*@ requires hr_gcra_is_sound(gcra, rule, now) && cost <= HR_COST_MAX;
    assigns \nothing;
    ensures \result <==> hr_gcra_debt(gcra, rule, now) + cost * rule->period_ns <= hr_gcra_full(rule); */
bool hr_gcra_fits(const struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now);

/* Takes cost. Requires: it fits. */
/*@ requires hr_gcra_is_sound(gcra, rule, now) && cost <= HR_COST_MAX;
    requires hr_gcra_debt(gcra, rule, now) + cost * rule->period_ns <= hr_gcra_full(rule);
    requires \valid(gcra) && \separated(gcra, rule);
    assigns gcra->arrival;
    ensures hr_u128_value(gcra->arrival) ==
      now * rule->rate + \old(hr_gcra_debt(gcra, rule, now)) + cost * rule->period_ns;
    ensures hr_gcra_debt(gcra, rule, now) <= hr_gcra_full(rule); */
void hr_gcra_take(struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now);

/* Gives cost back; never above untouched. */
/*@ requires hr_gcra_is_sound(gcra, rule, now);
    requires \valid(gcra) && \separated(gcra, rule);
    assigns gcra->arrival;
    ensures hr_u128_value(gcra->arrival) ==
      now * rule->rate + \max(0, \old(hr_gcra_debt(gcra, rule, now)) - cost * rule->period_ns); */
void hr_gcra_give_back(struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now);

/* Whole tokens (or whole units of room in a leaky bucket) that are left. */
/*@ requires hr_gcra_is_sound(gcra, rule, now);
    assigns \nothing;
    ensures \result <= rule->capacity;
    ensures \let room = \max(0, hr_gcra_full(rule) - hr_gcra_debt(gcra, rule, now));
      \result * rule->period_ns <= room < (\result + 1) * rule->period_ns; */
uint64_t hr_gcra_remaining(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now);

/* Milliseconds, rounded up and at most HR_ANSWER_MAX: until cost (at most b) fits; until untouched. The second is also
 * the wait that a leaky bucket imposes on a request that is admitted now. */
/*@ requires hr_gcra_is_sound(gcra, rule, now) && cost <= HR_COST_MAX;
    assigns \nothing;
    ensures \let missing = hr_gcra_debt(gcra, rule, now) + cost * rule->period_ns - hr_gcra_full(rule);
      hr_gcra_is_ms_ceil(\result, \max(0, missing), rule->rate); */
int64_t hr_gcra_retry_ms(const struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now);

/*@ requires hr_gcra_is_sound(gcra, rule, now);
    assigns \nothing;
    ensures hr_gcra_is_ms_ceil(\result, hr_gcra_debt(gcra, rule, now), rule->rate); */
int64_t hr_gcra_reset_ms(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now);

/*@ requires hr_gcra_is_sound(gcra, rule, now);
    assigns \nothing;
    ensures \result <==> hr_gcra_debt(gcra, rule, now) == 0; */
bool hr_gcra_is_untouched(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now);

/* Restates the debt under another rule: as many tokens are missing as before, rounded up by less than one unit. */
/*@ requires hr_gcra_is_sound(gcra, from, now) && hr_gcra_is_rule(to);
    requires \valid(gcra) && \separated(gcra, from) && \separated(gcra, to);
    assigns gcra->arrival;
    ensures hr_gcra_debt(gcra, to, now) <= HR_COST_MAX * to->period_ns;
    ensures hr_u128_value(gcra->arrival) == now * to->rate + hr_gcra_debt(gcra, to, now);
    ensures \let before = \old(hr_gcra_debt(gcra, from, now)) * to->period_ns;
      \let after = hr_gcra_debt(gcra, to, now) * from->period_ns;
      before <= after < before + from->period_ns; */
void hr_gcra_adopt(struct hr_gcra *gcra, const struct hr_rule *from, const struct hr_rule *to, hr_ns now);

#endif
