#include "limiter/quota.h"

#include "base/defect.h"

static int64_t wall_s(struct hr_wall wall)
{
    return wall.ns / HR_NS_PER_S;
}

void hr_quota_clock_set(struct hr_quota_clock *clock, const struct hr_rule *rule, struct hr_wall wall)
{
    int64_t at_s = wall_s(wall);
    if (at_s < clock->current.begin_s || at_s >= clock->current.end_s) {
        clock->current = hr_period_at(rule->zone, rule->unit, at_s);
    }
}

/* What was spent in the counter's period stays spent: the next one is the first that may be entered. */
void hr_quota_clock_forget(struct hr_quota_clock *clock, const struct hr_rule *rule, const struct hr_quota *quota)
{
    int64_t first = quota->period;
    if (quota->used > 0) {
        struct hr_period spent = hr_period_numbered(rule->zone, rule->unit, quota->period);
        first = hr_period_at(rule->zone, rule->unit, spent.end_s).number;
    }
    if (!clock->has_floor || clock->floor < first) {
        clock->floor = first;
        clock->has_floor = true;
    }
}

/* The period that a counter without a past is in. */
static int64_t entry_period(const struct hr_quota_clock *clock)
{
    return clock->has_floor && clock->floor > clock->current.number ? clock->floor : clock->current.number;
}

void hr_quota_advance(struct hr_quota *quota, const struct hr_quota_clock *clock)
{
    int64_t entry = entry_period(clock);
    bool is_new = quota->period == 0 && quota->used == 0;
    if (hr_defect(QUOTA_REOPENS)) {
        entry = clock->current.number;
        is_new = quota->period != entry;
    }
    if (quota->period < entry || is_new) {
        *quota = (struct hr_quota){.period = entry};
    }
}

/* Subtractions, for used may be above the quota after the quota was lowered. */
uint64_t hr_quota_remaining(const struct hr_quota *quota, const struct hr_rule *rule)
{
    return rule->capacity > quota->used ? rule->capacity - quota->used : 0;
}

bool hr_quota_fits(const struct hr_quota *quota, const struct hr_rule *rule, uint64_t cost)
{
    return cost <= hr_quota_remaining(quota, rule);
}

void hr_quota_take(struct hr_quota *quota, uint64_t cost)
{
    quota->used += cost;
}

void hr_quota_give_back(struct hr_quota *quota, uint64_t cost)
{
    quota->used = quota->used > cost ? quota->used - cost : 0;
}

bool hr_quota_is_untouched(const struct hr_quota *quota, const struct hr_quota_clock *clock)
{
    return quota->used == 0 || quota->period < entry_period(clock);
}

int64_t hr_quota_end_ms(const struct hr_quota *quota, const struct hr_rule *rule, const struct hr_quota_clock *clock,
                        struct hr_wall wall)
{
    struct hr_period period = clock->current;
    if (quota->period != period.number) {
        period = hr_period_numbered(rule->zone, rule->unit, quota->period);
    }
    int64_t seconds = period.end_s - wall_s(wall); /* apart from the rest, for end_s may lie past HR_TIME_NS_MAX */
    return seconds * (HR_NS_PER_S / HR_NS_PER_MS) - wall.ns % HR_NS_PER_S / HR_NS_PER_MS;
}

void hr_quota_adopt(struct hr_quota *quota, const struct hr_quota_clock *from, int64_t to)
{
    if (to != HR_PERIOD_SAME) {
        hr_quota_advance(quota, from);
        quota->period = to;
    }
}
