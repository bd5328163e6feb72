/* Sliding window: the window before counts by the part of it that a window of length P reaching back from now still
 * covers. prev x (P - e) / P + cur + c <= N, e being the time since the fixed window began Held multiplied out: prev x
 * (P - e) + (cur + c) x P <= N x P, each product below 2^108. The left side never grows while nothing is taken, so a
 * wait once served stays served.
 *
 * Thread: the caller's. Pure. Same conditions as fixed_window.h. */
#ifndef HR_LIMITER_SLIDING_WINDOW_H
#define HR_LIMITER_SLIDING_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/limit.h"

struct hr_sliding_window {
    int64_t index;     /* k of the current fixed window [kP, (k+1)P) */
    uint64_t previous; /* admitted in window k - 1 */
    uint64_t current;  /* admitted in window k */
};

void hr_sliding_window_advance(struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now);
bool hr_sliding_window_fits(const struct hr_sliding_window *window, const struct hr_rule *rule, uint64_t cost,
                            hr_ns now);
void hr_sliding_window_take(struct hr_sliding_window *window, uint64_t cost);

/* Gives cost back, to the current window first, to the one before what is over; never above untouched. */
void hr_sliding_window_give_back(struct hr_sliding_window *window, uint64_t cost);
uint64_t hr_sliding_window_remaining(const struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now);

/* Until cost (at most N) fits; until both windows are empty. */
int64_t hr_sliding_window_retry_ms(const struct hr_sliding_window *window, const struct hr_rule *rule, uint64_t cost,
                                   hr_ns now);
int64_t hr_sliding_window_reset_ms(const struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now);

bool hr_sliding_window_is_untouched(const struct hr_sliding_window *window);

/* Restates the counts under another period: what still weighs now is charged to the current window, rounded up. */
void hr_sliding_window_adopt(struct hr_sliding_window *window, const struct hr_rule *from, const struct hr_rule *to,
                             hr_ns now);

#endif
