/* What the contract promises of buckets, derived from the contracts of limiter/gcra.h alone: each function below is a
 * theorem whose proof is its assertions. Never compiled into a program.
 *
 * hr_gcra_fits and its kin are called here as any caller would; the prover sees their contracts, not their bodies. */
#include "limiter/gcra.h"

/* A caller, and the cost and instant of its next request: anything. */
/*@ assigns \nothing; */
extern bool another_request(void);

/*@ assigns \nothing;
    ensures \result <= HR_COST_MAX; */
extern uint64_t any_cost(void);

/*@ assigns \nothing;
    ensures from <= \result <= HR_TIME_NS_MAX; */
extern hr_ns any_instant(hr_ns from);

/* One request as the algorithm's inventors put it: the arrival time is caught up with now, then moved on by the cost.
 */
/*@ requires hr_gcra_is_sound(gcra, rule, before) && before <= now <= HR_TIME_NS_MAX && cost <= HR_COST_MAX;
    requires \valid(gcra) && \separated(gcra, rule);
    assigns gcra->arrival;
    ensures hr_gcra_is_sound(gcra, rule, now);
    ensures !\result ==> hr_u128_value(gcra->arrival) == \old(hr_u128_value(gcra->arrival));
    ensures \result ==> hr_u128_value(gcra->arrival) ==
      \max(\old(hr_u128_value(gcra->arrival)), now * rule->rate) + cost * rule->period_ns;
    ensures \result ==> hr_u128_value(gcra->arrival) <= now * rule->rate + hr_gcra_full(rule); */
bool ask(struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns before, hr_ns now)
{
    /*@ assert before * rule->rate <= now * rule->rate; */
    if (!hr_gcra_fits(gcra, rule, cost, now)) {
        return false;
    }
    hr_gcra_take(gcra, rule, cost, now);
    return true;
}

/* Over no interval is one unit more admitted than the definition allows: from begin to now, whatever was asked for,
 * what was admitted is at most b + N x (now - begin) / P. Here with both sides times P. */
/*@ requires hr_gcra_is_sound(gcra, rule, begin);
    requires \valid(gcra) && \separated(gcra, rule);
    assigns gcra->arrival; */
void no_interval_admits_more_than_burst_and_refill(struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns begin)
{
    struct hr_u128 admitted = {0, 0};
    hr_ns now = begin;
    uint64_t rate = rule->rate, period_ns = rule->period_ns, capacity = rule->capacity;
    /*@ loop invariant begin <= now <= HR_TIME_NS_MAX;
        loop invariant rule->rate == rate && rule->period_ns == period_ns && rule->capacity == capacity;
        loop invariant hr_gcra_is_sound(gcra, rule, now);
        loop invariant hr_u128_value(admitted) == 0 ||
          begin * rate + hr_u128_value(admitted) * period_ns <= hr_u128_value(gcra->arrival);
        loop invariant hr_u128_value(admitted) * period_ns <= capacity * period_ns + (now - begin) * rate;
        loop assigns now, admitted, gcra->arrival; */
    while (another_request()) {
        uint64_t cost = any_cost();
        hr_ns before = now;
        now = any_instant(before);
        /*@ assert begin * rate <= before * rate <= now * rate; */
        /*@ assert (now - begin) * rate < HR_TIME_NS_MAX * 0x20000000000000; */
        /*@ assert capacity * period_ns < HR_PERIOD_NS_MAX * 0x20000000000000; */
        /*@ assert hr_u128_value(admitted) <= hr_u128_value(admitted) * period_ns; */
        struct hr_u128 arrival = gcra->arrival;
        if (ask(gcra, rule, cost, before, now)) {
            /*@ assert hr_u128_value(gcra->arrival) == \max(hr_u128_value(arrival), now * rate) + cost * period_ns; */
            /*@ assert hr_u128_value(gcra->arrival) <= now * rate + capacity * period_ns; */
            /*@ assert begin * rate + (hr_u128_value(admitted) + cost) * period_ns <= hr_u128_value(gcra->arrival); */
            admitted = hr_u128_add(admitted, (struct hr_u128){0, cost});
            /*@ assert begin * rate + hr_u128_value(admitted) * period_ns <= hr_u128_value(gcra->arrival); */
        }
    }
}

/* The same request, retry_after_ms later and alone, is always admitted; a millisecond earlier it is not. */
/*@ requires hr_gcra_is_sound(gcra, rule, now) && cost <= rule->capacity;
    assigns \nothing; */
void retry_is_the_shortest_wait(const struct hr_gcra *gcra, const struct hr_rule *rule, uint64_t cost, hr_ns now)
{
    int64_t wait_ms = hr_gcra_retry_ms(gcra, rule, cost, now);
    if (wait_ms > (HR_TIME_NS_MAX - now) / HR_NS_PER_MS) {
        return; /* beyond the last instant */
    }
    bool is_enough = hr_gcra_fits(gcra, rule, cost, now + wait_ms * HR_NS_PER_MS);
    /*@ assert is_enough; */
    if (wait_ms > 0) {
        bool is_early_enough = hr_gcra_fits(gcra, rule, cost, now + (wait_ms - 1) * HR_NS_PER_MS);
        /*@ assert !is_early_enough; */
    }
}

/* What is said to remain can be taken, and no more than that. */
/*@ requires hr_gcra_is_sound(gcra, rule, now);
    requires hr_gcra_debt(gcra, rule, now) <= hr_gcra_full(rule);
    assigns \nothing; */
void remaining_is_the_largest_cost_that_fits(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    uint64_t remaining = hr_gcra_remaining(gcra, rule, now);
    bool all_fits = hr_gcra_fits(gcra, rule, remaining, now);
    /*@ assert all_fits; */
    if (remaining < HR_COST_MAX) {
        bool more_fits = hr_gcra_fits(gcra, rule, remaining + 1, now);
        /*@ assert !more_fits; */
    }
}

/* After reset_after_ms the counter is as if untouched. */
/*@ requires hr_gcra_is_sound(gcra, rule, now);
    assigns \nothing; */
void reset_ends_untouched(const struct hr_gcra *gcra, const struct hr_rule *rule, hr_ns now)
{
    int64_t wait_ms = hr_gcra_reset_ms(gcra, rule, now);
    if (wait_ms > (HR_TIME_NS_MAX - now) / HR_NS_PER_MS) {
        return; /* beyond the last instant */
    }
    bool is_untouched = hr_gcra_is_untouched(gcra, rule, now + wait_ms * HR_NS_PER_MS);
    /*@ assert is_untouched; */
}

/* Another rule, then the first one again: nothing is won by it. */
/*@ requires hr_gcra_is_sound(gcra, from, now) && hr_gcra_is_rule(to);
    requires \valid(gcra) && \separated(gcra, from) && \separated(gcra, to);
    assigns gcra->arrival;
    ensures hr_gcra_debt(gcra, from, now) >= \old(hr_gcra_debt(gcra, from, now)); */
void there_and_back_forgives_nothing(struct hr_gcra *gcra, const struct hr_rule *from, const struct hr_rule *to,
                                     hr_ns now)
{
    hr_gcra_adopt(gcra, from, to, now);
    hr_gcra_adopt(gcra, to, from, now);
}
