#include "limiter/fixed_window.h"

static int64_t index_at(const struct hr_rule *rule, hr_ns now)
{
    return now / (int64_t)rule->period_ns;
}

void hr_fixed_window_advance(struct hr_fixed_window *window, const struct hr_rule *rule, hr_ns now)
{
    int64_t index = index_at(rule, now);
    if (window->index != index) {
        *window = (struct hr_fixed_window){.index = index};
    }
}

/* Subtractions, for a sum of used and cost need not be formed: used may be above N after N was lowered. */
bool hr_fixed_window_fits(const struct hr_fixed_window *window, const struct hr_rule *rule, uint64_t cost)
{
    return cost <= hr_fixed_window_remaining(window, rule);
}

void hr_fixed_window_take(struct hr_fixed_window *window, uint64_t cost)
{
    window->used += cost;
}

void hr_fixed_window_give_back(struct hr_fixed_window *window, uint64_t cost)
{
    window->used = window->used > cost ? window->used - cost : 0;
}

uint64_t hr_fixed_window_remaining(const struct hr_fixed_window *window, const struct hr_rule *rule)
{
    return rule->capacity > window->used ? rule->capacity - window->used : 0;
}

int64_t hr_fixed_window_end_ms(const struct hr_fixed_window *window, const struct hr_rule *rule, hr_ns now)
{
    int64_t begin = window->index * (int64_t)rule->period_ns;
    return hr_ms_ceil((int64_t)rule->period_ns - (now - begin));
}

void hr_fixed_window_adopt(struct hr_fixed_window *window, const struct hr_rule *from, const struct hr_rule *to,
                           hr_ns now)
{
    hr_fixed_window_advance(window, from, now);
    window->index = index_at(to, now);
}
