/* Fixed window: N in each window [kP, (k+1)P) of Unix time, on the steady clock.
 *
 * Thread: the caller's. Pure. `rule` is valid, cost is at most HR_COST_MAX, now lies in [0, HR_TIME_NS_MAX]. advance
 * comes before every other call of the same now. */
#ifndef HR_LIMITER_FIXED_WINDOW_H
#define HR_LIMITER_FIXED_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/limit.h"

struct hr_fixed_window {
    int64_t index; /* k of the window that `used` belongs to */
    uint64_t used; /* at most HR_COST_MAX */
};

/* Enters the window that holds now. */
void hr_fixed_window_advance(struct hr_fixed_window *window, const struct hr_rule *rule, hr_ns now);

bool hr_fixed_window_fits(const struct hr_fixed_window *window, const struct hr_rule *rule, uint64_t cost);
void hr_fixed_window_take(struct hr_fixed_window *window, uint64_t cost);

/* Gives cost back; never above untouched. */
void hr_fixed_window_give_back(struct hr_fixed_window *window, uint64_t cost);
uint64_t hr_fixed_window_remaining(const struct hr_fixed_window *window, const struct hr_rule *rule);

/* Until this window ends: the wait for a cost (at most N) that does not fit, and for an untouched counter. */
int64_t hr_fixed_window_end_ms(const struct hr_fixed_window *window, const struct hr_rule *rule, hr_ns now);

/* Restates the count under another period: what the window in force admitted stays charged to the one that holds now.
 */
void hr_fixed_window_adopt(struct hr_fixed_window *window, const struct hr_rule *from, const struct hr_rule *to,
                           hr_ns now);

#endif
