/* Token bucket, leaky bucket and GCRA: against the definition in random runs, at the bounds of every number, and over
 * runs long enough for any rounding to add up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/gcra.h"
#include "tests/lib/history.h"
#include "tests/lib/limiter_fixture.h"

static const struct {
    uint64_t rate;
    hr_ns period_ns;
    uint64_t burst;
    hr_ns step_ns; /* about a token's worth of time */
} buckets[] = {
    {1, SECONDS(1), 1, SECONDS(1)},
    {50, SECONDS(1), 100, MS(20)},
    {10000, SECONDS(1), 10000, 100000},
    {700, SECONDS(1), 700, MS(1)},
    {3, 7, 5, 2},
    {7, 3, 1000, 50},
    {2000000, SECONDS(1), 2000000, 500},
    {1000000000, SECONDS(1), 10, 1},
    {999999999999, SECONDS(1), 1000000, 1},
    {10, SECONDS(30), 20, SECONDS(3)},
    {30, SECONDS(60), 16, SECONDS(2)},
    {1, DAYS(366), 3, DAYS(200)},
    {1000, DAYS(30), 1000, DAYS(1)},
    {999983, 999979, 17, 1},
    {1, 1, 1, 1},
};

static void every_number_follows_from_the_definition(void **state)
{
    (void)state;
    struct hr_rng rng = {20260101};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (size_t i = 0; i < 24 * COUNT(buckets); i++) {
        size_t row = i % COUNT(buckets);
        enum hr_algorithm algorithm = i % 2 == 0 ? HR_TOKEN_BUCKET : HR_LEAKY_BUCKET;
        struct history_run run = {
            .rule = bucket(algorithm, buckets[row].rate, buckets[row].period_ns, buckets[row].burst),
            .start = i % 3 == 0 ? 0 : SECONDS(FIXTURE_START_S) + (hr_ns)hr_rng_below(&rng, 1000000007),
            .step_ns = buckets[row].step_ns,
            .cost_max = 1 + hr_rng_below(&rng, buckets[row].burst < 40 ? buckets[row].burst : 40),
            .steps = 256,
            .seed = hr_rng_next(&rng),
        };
        history_run(&run);
    }
}

/* Asks for one token at every instant of a span; what is admitted is the burst and what flowed back, to the token. */
static void admission_does_not_drift_over_a_long_run(void **state)
{
    (void)state;
    static const uint64_t rates[][2] = {{3, 7}, {1, 3}, {7, 11}, {99, 100}, {997, 1009}, {1, 1000}};
    for (size_t i = 0; i < COUNT(rates); i++) {
        struct hr_rule rule = bucket(HR_GCRA, rates[i][0], (int64_t)rates[i][1], 5);
        struct hr_gcra gcra = {{0, 0}};
        uint64_t admitted = 0, span = 1000000;
        for (uint64_t at = 0; at < span; at++) {
            while (hr_gcra_fits(&gcra, &rule, 1, SECONDS(FIXTURE_START_S) + (hr_ns)at)) {
                hr_gcra_take(&gcra, &rule, 1, SECONDS(FIXTURE_START_S) + (hr_ns)at);
                admitted++;
            }
        }
        if (admitted != 5 + (span - 1) * rates[i][0] / rates[i][1]) {
            fail_msg("row %zu: %llu admitted", i, (unsigned long long)admitted);
        }
    }
}

static void nothing_overflows_at_the_bounds_of_every_number(void **state)
{
    (void)state;
    static const uint64_t ends[] = {1, HR_COST_MAX};
    static const hr_ns periods[] = {1, HR_PERIOD_NS_MAX}, instants[] = {0, HR_TIME_NS_MAX};
    for (int i = 0; i < 16; i++) {
        struct hr_rule rule = bucket(HR_TOKEN_BUCKET, ends[i & 1], periods[i >> 1 & 1], ends[i >> 2 & 1]);
        hr_ns now = instants[i >> 3 & 1];
        struct hr_gcra gcra = {{0, 0}};
        assert_true(hr_gcra_fits(&gcra, &rule, rule.capacity, now));
        assert_int_equal(hr_gcra_fits(&gcra, &rule, HR_COST_MAX, now), rule.capacity == HR_COST_MAX);
        hr_gcra_take(&gcra, &rule, rule.capacity, now);
        assert_int_equal(hr_gcra_remaining(&gcra, &rule, now), 0);
        assert_false(hr_gcra_fits(&gcra, &rule, 1, now));
        int64_t retry_ms = hr_gcra_retry_ms(&gcra, &rule, rule.capacity, now);
        assert_true(retry_ms > 0 && retry_ms <= HR_ANSWER_MAX);
        assert_int_equal(retry_ms, hr_gcra_reset_ms(&gcra, &rule, now));
        assert_false(hr_gcra_is_untouched(&gcra, &rule, now));
    }
}

static void a_wait_too_long_for_an_answer_is_the_longest_answer(void **state)
{
    (void)state;
    struct hr_rule rule = bucket(HR_TOKEN_BUCKET, 1, HR_PERIOD_NS_MAX, HR_COST_MAX);
    struct hr_gcra gcra = {{0, 0}};
    hr_gcra_take(&gcra, &rule, HR_COST_MAX, 0);
    assert_int_equal(hr_gcra_reset_ms(&gcra, &rule, 0), HR_ANSWER_MAX);
    assert_int_equal(hr_gcra_retry_ms(&gcra, &rule, 1, 0), HR_PERIOD_NS_MAX / HR_NS_PER_MS);
}

/* The level is what stands before the request; N/P of it drains. */
static void a_leaky_bucket_delays_by_the_level_before_the_request(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "leak", .rule = bucket(HR_LEAKY_BUCKET, 3, SECONDS(1), 4)}};
    fixture_load(&fixture, limits, COUNT(limits));
    static const int64_t delays_ms[] = {0, 334, 667, 1000};
    for (size_t i = 0; i < COUNT(delays_ms); i++) {
        assert_true(fixture_take(&fixture, "a=b", 1));
        assert_int_equal(fixture.decision.delay_ms, delays_ms[i]);
        assert_int_equal(fixture.decision.action, delays_ms[i] > 0 ? HR_DELAY : HR_ALLOW);
    }
    assert_false(fixture_take(&fixture, "a=b", 1));
    assert_int_equal(fixture.decision.delay_ms, 0);
    assert_int_equal(fixture.decision.retry_after_ms, 334);
    fixture_close(&fixture);
}

/* Debt of `spent` tokens under the old rule is the same under the new one, at the instant of the change, to less than a
 * unit of the new rule, and never less. */
static void a_debt_is_restated_in_tokens_and_never_forgiven(void **state)
{
    (void)state;
    struct hr_rng rng = {77};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (int i = 0; i < 20000; i++) {
        size_t a = hr_rng_below(&rng, COUNT(buckets)), b = hr_rng_below(&rng, COUNT(buckets));
        struct hr_rule from = bucket(HR_GCRA, buckets[a].rate, buckets[a].period_ns, buckets[a].burst);
        struct hr_rule to = bucket(HR_GCRA, buckets[b].rate, buckets[b].period_ns, buckets[b].burst);
        hr_ns then = SECONDS(FIXTURE_START_S), now = then + (hr_ns)hr_rng_below(&rng, (uint64_t)buckets[a].step_ns);
        struct hr_gcra gcra = {{0, 0}};
        hr_gcra_take(&gcra, &from, 1 + hr_rng_below(&rng, from.capacity), then);
        hr_u128_wide before = hr_u128_widen(gcra.arrival) - (hr_u128_wide)now * from.rate;
        if (hr_u128_widen(gcra.arrival) < (hr_u128_wide)now * from.rate) {
            before = 0;
        }
        hr_gcra_adopt(&gcra, &from, &to, now);
        hr_u128_wide after = hr_u128_widen(gcra.arrival) - (hr_u128_wide)now * to.rate;
        hr_u128_wide exact = before * to.period_ns; /* below 2^128 for these rows, in units of 1/from.period */
        if (after * from.period_ns < exact || after * from.period_ns >= exact + from.period_ns) {
            fail_msg("step %d: rows %zu to %zu", i, a, b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_follows_from_the_definition),
        cmocka_unit_test(admission_does_not_drift_over_a_long_run),
        cmocka_unit_test(nothing_overflows_at_the_bounds_of_every_number),
        cmocka_unit_test(a_wait_too_long_for_an_answer_is_the_longest_answer),
        cmocka_unit_test(a_leaky_bucket_delays_by_the_level_before_the_request),
        cmocka_unit_test(a_debt_is_restated_in_tokens_and_never_forgiven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
