/* Quota: Q in each calendar period of a time zone, on the wall clock.
 *
 * A counter knows its period by number (calendar.h) and only ever moves to a later one: a wall clock that steps back
 * finds the period it left still spent. The current period of a limit is worked out once and kept (struct
 * hr_quota_clock), for it changes at most once an hour while requests come by the million.
 *
 * Thread: the caller's. Pure. Same conditions as fixed_window.h; the wall time lies in [0, HR_TIME_NS_MAX]. */
#ifndef HR_LIMITER_QUOTA_H
#define HR_LIMITER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/calendar.h"
#include "limiter/limit.h"

struct hr_quota {
    int64_t period; /* number */
    uint64_t used;  /* at most HR_COST_MAX */
};

/* What a limit remembers of its calendar. Zero-filled at first. */
struct hr_quota_clock {
    struct hr_period current; /* the period that the wall clock showed last */
    int64_t floor;            /* counters of periods before this one were forgotten: no new one may enter those */
    bool has_floor;
};

/* Brings the clock to the period that holds wall. */
void hr_quota_clock_set(struct hr_quota_clock *clock, const struct hr_rule *rule, struct hr_wall wall);

/* Says that a counter is about to be forgotten: a wall clock that steps back must not reopen the periods it went
 * through. */
void hr_quota_clock_forget(struct hr_quota_clock *clock, const struct hr_rule *rule, const struct hr_quota *quota);

/* Enters the clock's period unless the counter is in a later one. */
void hr_quota_advance(struct hr_quota *quota, const struct hr_quota_clock *clock);

bool hr_quota_fits(const struct hr_quota *quota, const struct hr_rule *rule, uint64_t cost);
void hr_quota_take(struct hr_quota *quota, uint64_t cost);

/* Gives cost back; never above untouched. */
void hr_quota_give_back(struct hr_quota *quota, uint64_t cost);
uint64_t hr_quota_remaining(const struct hr_quota *quota, const struct hr_rule *rule);

/* Is its period over by the clock, or nothing spent in it? Before advance as well as after. */
bool hr_quota_is_untouched(const struct hr_quota *quota, const struct hr_quota_clock *clock);

/* Until the counter's period ends. */
int64_t hr_quota_end_ms(const struct hr_quota *quota, const struct hr_rule *rule, const struct hr_quota_clock *clock,
                        struct hr_wall wall);

/* Both limits have one calendar: a period's number says the same under either. */
#define HR_PERIOD_SAME INT64_MIN

/* Restates the count under another unit or zone: what the period in force admitted stays charged to the period of
 * number `to`, in force at the same instant; under the same calendar (HR_PERIOD_SAME) to its own. `from` is the old
 * limit's clock as it stood at that instant. */
void hr_quota_adopt(struct hr_quota *quota, const struct hr_quota_clock *from, int64_t to);

#endif
