#include "limiter/sliding_window.h"

#include "base/u128.h"

static uint64_t elapsed_ns(const struct hr_rule *rule, hr_ns now)
{
    return (uint64_t)now % rule->period_ns;
}

void hr_sliding_window_advance(struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now)
{
    int64_t index = now / (int64_t)rule->period_ns;
    if (index == window->index) {
        return;
    }
    uint64_t previous = index == window->index + 1 ? window->current : 0;
    *window = (struct hr_sliding_window){.index = index, .previous = previous};
}

/* What both windows weigh now, in units of 1/P. */
static struct hr_u128 weight(const struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now)
{
    struct hr_u128 previous = hr_u128_mul(window->previous, rule->period_ns - elapsed_ns(rule, now));
    return hr_u128_add(previous, hr_u128_mul(window->current, rule->period_ns));
}

bool hr_sliding_window_fits(const struct hr_sliding_window *window, const struct hr_rule *rule, uint64_t cost,
                            hr_ns now)
{
    struct hr_u128 after = hr_u128_add(weight(window, rule, now), hr_u128_mul(cost, rule->period_ns));
    return hr_u128_le(after, hr_u128_mul(rule->capacity, rule->period_ns));
}

void hr_sliding_window_take(struct hr_sliding_window *window, uint64_t cost)
{
    window->current += cost;
}

void hr_sliding_window_give_back(struct hr_sliding_window *window, uint64_t cost)
{
    uint64_t to_current = cost < window->current ? cost : window->current;
    window->current -= to_current;
    cost -= to_current;
    window->previous = window->previous > cost ? window->previous - cost : 0;
}

uint64_t hr_sliding_window_remaining(const struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now)
{
    struct hr_u128 full = hr_u128_mul(rule->capacity, rule->period_ns);
    struct hr_u128 room = hr_u128_sub_floor(full, weight(window, rule, now));
    return hr_u128_saturate(hr_u128_div(room, rule->period_ns), rule->capacity);
}

/* The least e in [0, P] at which a window before of `weighing` leaves `room`: weighing x (P - e) <= room x P. */
static int64_t least_elapsed_ns(uint64_t weighing, uint64_t room, uint64_t period_ns)
{
    if (weighing <= room) {
        return 0;
    }
    struct hr_u128 covered_max = hr_u128_div(hr_u128_mul(room, period_ns), weighing);
    return (int64_t)(period_ns - covered_max.lo); /* room < weighing, so covered_max < P fits a word */
}

int64_t hr_sliding_window_retry_ms(const struct hr_sliding_window *window, const struct hr_rule *rule, uint64_t cost,
                                   hr_ns now)
{
    uint64_t room = rule->capacity - cost;
    int64_t elapsed = (int64_t)elapsed_ns(rule, now);
    if (window->current <= room) { /* it will fit before this window is over, or just as it ends */
        return hr_ms_ceil(least_elapsed_ns(window->previous, room - window->current, rule->period_ns) - elapsed);
    }
    int64_t this_window = (int64_t)rule->period_ns - elapsed;
    return hr_ms_ceil(this_window + least_elapsed_ns(window->current, room, rule->period_ns));
}

int64_t hr_sliding_window_reset_ms(const struct hr_sliding_window *window, const struct hr_rule *rule, hr_ns now)
{
    if (hr_sliding_window_is_untouched(window)) {
        return 0;
    }
    int64_t this_window = (int64_t)(rule->period_ns - elapsed_ns(rule, now));
    return hr_ms_ceil(window->current == 0 ? this_window : this_window + (int64_t)rule->period_ns);
}

bool hr_sliding_window_is_untouched(const struct hr_sliding_window *window)
{
    return window->previous == 0 && window->current == 0;
}

void hr_sliding_window_adopt(struct hr_sliding_window *window, const struct hr_rule *from, const struct hr_rule *to,
                             hr_ns now)
{
    hr_sliding_window_advance(window, from, now);
    if (from->period_ns == to->period_ns) {
        return;
    }
    struct hr_u128 weighs = hr_u128_div_ceil(weight(window, from, now), from->period_ns);
    *window = (struct hr_sliding_window){
        .index = now / (int64_t)to->period_ns,
        .current = hr_u128_saturate(weighs, HR_COST_MAX),
    };
}
