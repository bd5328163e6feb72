#include "limiter/gcra.h"

/*@ requires hr_gcra_is_sound(gcra, rule, now);
    assigns \nothing;
    ensures hr_u128_value(\result) == hr_gcra_debt(gcra, rule, now); */
static struct hr_u128 debt_at(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    return hr_u128_sub_floor(gcra->arrival, hr_u128_mul((uint64_t)now, rule->rate));
}

bool hr_gcra_fits(const struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now)
{
    struct hr_u128 after = hr_u128_add(debt_at(gcra, rule, now), hr_u128_mul(cost, rule->period_ns));
    return hr_u128_le(after, hr_u128_mul(rule->capacity, rule->period_ns));
}

void hr_gcra_take(struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now)
{
    struct hr_u128 after = hr_u128_add(debt_at(gcra, rule, now), hr_u128_mul(cost, rule->period_ns));
    gcra->arrival = hr_u128_add(hr_u128_mul((uint64_t)now, rule->rate), after);
}

void hr_gcra_give_back(struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now)
{
    struct hr_u128 after = hr_u128_sub_floor(debt_at(gcra, rule, now), hr_u128_mul(cost, rule->period_ns));
    gcra->arrival = hr_u128_add(hr_u128_mul((uint64_t)now, rule->rate), after);
}

uint64_t hr_gcra_remaining(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    struct hr_u128 full = hr_u128_mul(rule->capacity, rule->period_ns);
    struct hr_u128 room = hr_u128_sub_floor(full, debt_at(gcra, rule, now));
    return hr_u128_saturate(hr_u128_div(room, rule->period_ns), rule->capacity);
}

/* How long it takes for `units` of debt to drain. Rounding up twice is rounding up once: ceil(ceil(x/N)/M) =
 * ceil(x/(NM)). */
/*@ requires hr_gcra_is_rule(rule);
    assigns \nothing;
    ensures hr_gcra_is_ms_ceil(\result, hr_u128_value(units), rule->rate); */
static int64_t drain_ms(struct hr_u128 units, const struct hr_rule *rule)
{
    struct hr_u128 ns = hr_u128_div_ceil(units, rule->rate);
    struct hr_u128 ms = hr_u128_div_ceil(ns, (uint64_t)HR_NS_PER_MS);
    /*@ assert hr_u128_value(units) <= hr_u128_value(ms) * HR_NS_PER_MS * rule->rate; */
    /*@ assert (hr_u128_value(ms) - 1) * HR_NS_PER_MS * rule->rate < hr_u128_value(units); */
    return (int64_t)hr_u128_saturate(ms, (uint64_t)HR_ANSWER_MAX);
}

int64_t hr_gcra_retry_ms(const struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now)
{
    struct hr_u128 after = hr_u128_add(debt_at(gcra, rule, now), hr_u128_mul(cost, rule->period_ns));
    struct hr_u128 full = hr_u128_mul(rule->capacity, rule->period_ns);
    return drain_ms(hr_u128_sub_floor(after, full), rule);
}

int64_t hr_gcra_reset_ms(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    return drain_ms(debt_at(gcra, rule, now), rule);
}

bool hr_gcra_is_untouched(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    return hr_u128_is_zero(debt_at(gcra, rule, now));
}

/* A debt is at most HR_COST_MAX tokens of either rule's burst, so whole tokens fit 64 bits. Whole and part are restated
 * apart, for their product with the other period must stay below 2^128. */
/*@ requires 1 <= from_ns <= HR_PERIOD_NS_MAX && 1 <= to_ns <= HR_PERIOD_NS_MAX;
    requires hr_u128_value(debt) <= HR_COST_MAX * from_ns;
    assigns \nothing;
    ensures hr_u128_value(debt) * to_ns <= hr_u128_value(\result) * from_ns < hr_u128_value(debt) * to_ns + from_ns;
    ensures hr_u128_value(\result) <= HR_COST_MAX * to_ns; */
static struct hr_u128 restate(struct hr_u128 debt, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t tokens = hr_u128_saturate(hr_u128_div(debt, from_ns), HR_COST_MAX);
    uint64_t part = hr_u128_sub_floor(debt, hr_u128_mul(tokens, from_ns)).lo;
    /*@ assert hr_u128_value(debt) == tokens * from_ns + part && part < from_ns; */
    struct hr_u128 part_restated = hr_u128_div_ceil(hr_u128_mul(part, to_ns), from_ns);
    /*@ assert hr_u128_value(part_restated) <= to_ns && (tokens < HR_COST_MAX || part == 0); */
    return hr_u128_add(hr_u128_mul(tokens, to_ns), part_restated);
}

void hr_gcra_adopt(struct hr_gcra *gcra, const struct hr_rule *from, const struct hr_rule *to, hr_ns now)
{
    struct hr_u128 debt = restate(debt_at(gcra, from, now), from->period_ns, to->period_ns);
    gcra->arrival = hr_u128_add(hr_u128_mul((uint64_t)now, to->rate), debt);
}
