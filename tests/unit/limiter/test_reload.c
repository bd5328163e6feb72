/* Reload: what a change of limits does to the counters there are, at once and from one instant on, whenever they are
 * looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/algorithm.h"
#include "tests/lib/limiter_fixture.h"
#include "tests/lib/zoneinfo.h"

static struct hr_zone zone;

static void load_one(struct fixture *fixture, struct hr_rule rule)
{
    const struct fixture_limit limit = {.name = "one", .key = "user", .rule = rule};
    fixture_load(fixture, &limit, 1);
}

static void expect_left(struct fixture *fixture, uint64_t expected)
{
    uint64_t left = fixture_remaining(fixture, "user=ann", "one");
    if (left != expected) {
        fail_msg("algorithm %d: %llu left, not %llu", (int)fixture->decision.rows[0].limit->rule.algorithm,
                 (unsigned long long)left, (unsigned long long)expected);
    }
}

static void what_was_spent_stays_spent_when_a_limit_is_lowered_and_raised(void **state)
{
    (void)state;
    for (int looked_at = 0; looked_at <= 1; looked_at++) {
        for (int i = 0; i < ALGORITHM_COUNT; i++) {
            enum hr_algorithm algorithm = (enum hr_algorithm)i;
            struct fixture fixture;
            fixture_open_ample(&fixture);
            load_one(&fixture, any_rule(algorithm, 100));
            assert_true(fixture_take(&fixture, "user=ann", 2));
            load_one(&fixture, any_rule(algorithm, 10));
            if (looked_at == 1) {
                expect_left(&fixture, 8);
                assert_false(fixture_take(&fixture, "user=ann", 9));
            }
            load_one(&fixture, any_rule(algorithm, 100));
            expect_left(&fixture, 98);
            assert_false(fixture_take(&fixture, "user=ann", 99));
            assert_true(fixture_take(&fixture, "user=ann", 98));
            fixture_close(&fixture);
        }
    }
}

static void a_limit_lowered_below_what_is_spent_has_nothing_left_and_recovers(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        enum hr_algorithm algorithm = (enum hr_algorithm)i;
        struct fixture fixture;
        fixture_open_ample(&fixture);
        load_one(&fixture, any_rule(algorithm, 100));
        assert_true(fixture_take(&fixture, "user=ann", 40));
        assert_true(fixture_take(&fixture, "user=ann", 50));
        load_one(&fixture, any_rule(algorithm, 10));
        expect_left(&fixture, 0);
        assert_true(fixture_take(&fixture, "user=ann", 0));
        assert_false(fixture_take(&fixture, "user=ann", 10));
        fixture_pass(&fixture, MS(fixture.decision.retry_after_ms - 1));
        assert_false(fixture_take(&fixture, "user=ann", 10));
        fixture_pass(&fixture, MS(1));
        assert_true(fixture_take(&fixture, "user=ann", 10));
        fixture_close(&fixture);
    }
}

/* Two limiters go through the same requests and reloads; in one, the counter is looked at right after each reload, in
 * the other only much later. A change holds from its instant on in both, so all numbers are equal. */
static void a_change_holds_from_its_instant_on_although_the_counter_is_looked_at_later(void **state)
{
    (void)state;
    print_message("seeds 0 to 399\n");
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct hr_rng rng = {seed};
        enum hr_algorithm algorithm = (enum hr_algorithm)(seed % ALGORITHM_COUNT);
        struct fixture eager, lazy;
        fixture_open_ample(&eager);
        fixture_open_ample(&lazy);
        for (int step = 0; step < 40; step++) {
            hr_ns pause = (hr_ns)hr_rng_below(&rng, 2000) * (algorithm == HR_QUOTA ? SECONDS(30) : MS(23));
            fixture_pass(&eager, pause);
            fixture_pass(&lazy, pause);
            if (step == 0 || hr_rng_chance(&rng, 1, 3)) {
                struct hr_rule rule = any_rule(algorithm, 1 + hr_rng_below(&rng, 100));
                rule.period_ns = rule.period_ns == 0 ? 0 : 1 + hr_rng_below(&rng, 200 * (uint64_t)HR_NS_PER_S);
                rule.ttl_ns = rule.ttl_ns == 0 ? 0 : MS(1) + hr_rng_below(&rng, 200 * (uint64_t)HR_NS_PER_S);
                rule.unit = algorithm == HR_QUOTA ? (enum hr_calendar_unit)hr_rng_below(&rng, 3) : HR_HOUR;
                load_one(&eager, rule);
                load_one(&lazy, rule);
                (void)fixture_remaining(&eager, "user=ann", "one");
                if (hr_rng_chance(&rng, 1, 2)) {
                    fixture_sweep(&eager);
                }
            } else {
                uint64_t cost = hr_rng_below(&rng, 30);
                bool allowed = fixture_take(&eager, "user=ann", cost);
                assert_int_equal(allowed, fixture_take(&lazy, "user=ann", cost));
                const struct hr_row *a = &eager.decision.rows[0], *b = &lazy.decision.rows[0];
                if (a->remaining != b->remaining || a->retry_after_ms != b->retry_after_ms ||
                    a->reset_after_ms != b->reset_after_ms) {
                    fail_msg("seed %llu, algorithm %d, step %d", (unsigned long long)seed, (int)algorithm, step);
                }
            }
        }
        fixture_close(&eager);
        fixture_close(&lazy);
    }
}

/* 10 per 100 s with all spent; the rate rises tenfold after 20 s. Two tokens came at the old rate, then one each
 * second, although nobody asked at the time of the change. */
static void a_new_rate_refills_from_the_change_on_and_not_from_before(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    load_one(&fixture, bucket(HR_TOKEN_BUCKET, 10, SECONDS(100), 10));
    assert_true(fixture_take(&fixture, "user=ann", 10));
    fixture_pass(&fixture, SECONDS(20));
    load_one(&fixture, bucket(HR_TOKEN_BUCKET, 100, SECONDS(100), 10));
    fixture_pass(&fixture, SECONDS(5));
    expect_left(&fixture, 7);
    fixture_pass(&fixture, MS(2999));
    expect_left(&fixture, 9);
    fixture_pass(&fixture, MS(1));
    expect_left(&fixture, 10);
    fixture_close(&fixture);
}

static void two_changes_of_the_rate_hold_each_for_its_own_time(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    load_one(&fixture, bucket(HR_TOKEN_BUCKET, 10, SECONDS(100), 100));
    assert_true(fixture_take(&fixture, "user=ann", 100));
    static const uint64_t rates[] = {20, 40, 80, 0};
    for (size_t i = 0; rates[i] != 0; i++) { /* 1, 2 and 4 tokens come back, seen by nobody */
        fixture_pass(&fixture, SECONDS(10));
        load_one(&fixture, bucket(HR_TOKEN_BUCKET, rates[i], SECONDS(100), 100));
    }
    expect_left(&fixture, 7);
    fixture_close(&fixture);
}

static void a_name_and_key_and_algorithm_make_the_counter_and_any_other_change_starts_afresh(void **state)
{
    (void)state;
    const struct fixture_limit first = {.name = "one", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 100)};
    struct fixture_limit others[] = {first, first, first, first, first, first};
    others[0].rule.algorithm = HR_GCRA; /* two names for one algorithm */
    others[1].mode = HR_SHADOW;
    others[2].when = "user=ann";
    others[3].rule = any_rule(HR_LEAKY_BUCKET, 100);
    others[4].rule = any_rule(HR_FIXED_WINDOW, 100);
    others[5].key = "user plan";
    for (size_t i = 0; i < COUNT(others); i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        fixture_load(&fixture, &first, 1);
        assert_true(fixture_take(&fixture, "user=ann plan=", 2));
        fixture_load(&fixture, &others[i], 1);
        uint64_t left = fixture_remaining(&fixture, "user=ann plan=", "one");
        if (left != (i < 3 ? 98 : 100)) {
            fail_msg("row %zu: %llu left", i, (unsigned long long)left);
        }
        fixture_close(&fixture);
    }
}

/* Keyed by another attribute, a counter would have the same identity where the values are alike. */
static void a_key_by_another_attribute_starts_afresh_even_where_the_values_are_alike(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture_limit limit = {.name = "one", .key = "user", .rule = any_rule((enum hr_algorithm)i, 100)};
        fixture_load(&fixture, &limit, 1);
        assert_true(fixture_take(&fixture, "user=x team=x", 2));
        limit.key = "team";
        fixture_load(&fixture, &limit, 1);
        assert_int_equal(fixture_remaining(&fixture, "user=x team=x", "one"), 100);
    }
    fixture_load(&fixture, NULL, 0);
    fixture_sweep(&fixture);
    struct hr_limiter_usage usage = hr_limiter_usage(fixture.limiter);
    assert_int_equal(usage.leases + usage.log_blocks + usage.counters, 0);
    fixture_close(&fixture);
}

static void a_limit_that_was_removed_and_comes_back_starts_afresh(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        load_one(&fixture, any_rule((enum hr_algorithm)(i / 2), 100));
        assert_true(fixture_take(&fixture, "user=ann", 2));
        fixture_load(&fixture, NULL, 0);
        assert_true(fixture_take(&fixture, "user=ann", 1000)); /* no limit, no bound */
        if (i % 2 == 1) {
            fixture_sweep(&fixture);
            assert_int_equal(fixture_counters(&fixture), 0);
        }
        load_one(&fixture, any_rule((enum hr_algorithm)(i / 2), 100));
        expect_left(&fixture, 100);
        assert_true(fixture_take(&fixture, "user=ann", 3));
        expect_left(&fixture, 97);
        fixture_close(&fixture);
    }
}

static void a_lease_outlives_a_change_of_its_limit_and_ends_with_its_removal(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    load_one(&fixture, slots(5, SECONDS(10)));
    int64_t ttl_ms = 0;
    assert_true(fixture_take(&fixture, "user=ann", 2));
    struct hr_id128 first = fixture.decision.rows[0].lease;
    assert_true(fixture_take(&fixture, "user=ann", 1));
    struct hr_id128 second = fixture.decision.rows[0].lease;
    load_one(&fixture, slots(4, SECONDS(3)));
    fixture_pass(&fixture, SECONDS(9)); /* its end is the one it was given */
    assert_true(hr_limiter_renew(fixture.limiter, first, fixture.now, &ttl_ms));
    assert_int_equal(ttl_ms, 3000); /* from here on the new ttl holds */
    fixture_pass(&fixture, SECONDS(1));
    assert_false(hr_limiter_release(fixture.limiter, second, fixture.now));
    expect_left(&fixture, 2);
    fixture_load(&fixture, NULL, 0);
    assert_false(hr_limiter_release(fixture.limiter, first, fixture.now));
    fixture_sweep(&fixture);
    assert_int_equal(hr_limiter_usage(fixture.limiter).leases, 0);
    fixture_close(&fixture);
}

/* ---- Calendars ---- */

static void a_quota_of_another_unit_or_zone_keeps_what_its_period_had_spent(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    zoneinfo_load("Asia/Shanghai", &zone);
    const struct hr_rule rules[] = {quota(100, HR_DAY, NULL),   quota(100, HR_MONTH, NULL), quota(100, HR_MONTH, &zone),
                                    quota(100, HR_YEAR, &zone), quota(100, HR_HOUR, &zone), quota(100, HR_WEEK, NULL)};
    load_one(&fixture, rules[0]);
    assert_true(fixture_take(&fixture, "user=ann", 2));
    for (size_t i = 0; i < COUNT(rules); i++) {
        load_one(&fixture, rules[i]);
        expect_left(&fixture, 98);
    }
    fixture_close(&fixture);
}

/* 22:13 UTC: 06:13 of the next day in Shanghai, whose day ends at 16:00 UTC. */
static void a_quota_in_another_zone_ends_with_the_day_of_that_zone(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    zoneinfo_load("Asia/Shanghai", &zone);
    load_one(&fixture, quota(10, HR_DAY, NULL));
    assert_true(fixture_take(&fixture, "user=ann", 10));
    load_one(&fixture, quota(10, HR_DAY, &zone));
    assert_false(fixture_take(&fixture, "user=ann", 1));
    int64_t until_16h_ms = (24 * 3600 - (FIXTURE_START_S + 8 * 3600) % 86400) * 1000;
    assert_int_equal(fixture.decision.retry_after_ms, until_16h_ms);
    fixture_pass(&fixture, MS(until_16h_ms));
    assert_true(fixture_take(&fixture, "user=ann", 10));
    fixture_close(&fixture);
}

/* A day was spent, the wall clock was put back, the limits were reloaded, and the day comes for good: what is left of
 * it then. */
static uint64_t left_of_a_spent_day_after_a_reload_before_it(bool is_forgotten)
{
    struct fixture fixture;
    fixture_open_ample(&fixture);
    load_one(&fixture, quota(10, HR_DAY, NULL));
    assert_true(fixture_take(&fixture, "user=ann", 10));
    fixture_pass(&fixture, is_forgotten ? DAYS(1) : 0);
    fixture_sweep(&fixture);
    assert_int_equal(fixture_counters(&fixture), is_forgotten ? 0 : 1);
    fixture.now.wall.ns = SECONDS(FIXTURE_START_S) - DAYS(1);
    load_one(&fixture, quota(11, HR_DAY, NULL));
    (void)fixture_take(&fixture, "user=ann", fixture_remaining(&fixture, "user=ann", "one"));
    fixture.now.wall.ns = SECONDS(FIXTURE_START_S);
    uint64_t left = fixture_remaining(&fixture, "user=ann", "one");
    fixture_close(&fixture);
    return left;
}

static void a_reload_while_the_wall_clock_is_back_does_not_reopen_a_spent_period(void **state)
{
    (void)state;
    assert_int_equal(left_of_a_spent_day_after_a_reload_before_it(false), 0);
}

static void nor_does_it_reopen_a_period_whose_counter_was_forgotten(void **state)
{
    (void)state;
    assert_int_equal(left_of_a_spent_day_after_a_reload_before_it(true), 0);
}

/* ---- Many reloads ---- */

static void any_number_of_reloads_in_a_row_keeps_what_was_spent(void **state)
{
    (void)state;
    for (int swept = 0; swept <= 1; swept++) {
        for (int i = 0; i < ALGORITHM_COUNT; i++) {
            struct fixture fixture;
            fixture_open(&fixture, (struct hr_limiter_sizes){
                                       .counters_max = 8, .leases_max = 8, .log_blocks_max = 8, .limits_max = 1});
            load_one(&fixture, any_rule((enum hr_algorithm)i, 1000));
            assert_true(fixture_take(&fixture, "user=ann", 2));
            for (uint64_t n = 0; n < 50; n++) {
                load_one(&fixture, any_rule((enum hr_algorithm)i, 900 + n));
                if (swept == 1 && n % 3 == 0) {
                    fixture_sweep(&fixture);
                }
            }
            load_one(&fixture, any_rule((enum hr_algorithm)i, 1000));
            expect_left(&fixture, 998);
            fixture_close(&fixture);
        }
    }
}

/* A set of as many limits as there may be, all renamed at each load, over counters of all of them. */
static void as_many_limits_as_there_may_be_can_all_be_replaced_again_and_again(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 64, .leases_max = 8, .log_blocks_max = 8, .limits_max = 16});
    char names[16][24];
    struct fixture_limit limits[16];
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 16; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "limit-%d-%d", round % 3, i);
            limits[i] = (struct fixture_limit){.name = names[i], .rule = any_rule(HR_TOKEN_BUCKET, 100)};
        }
        fixture_load(&fixture, limits, COUNT(limits));
        assert_true(fixture_take(&fixture, "user=ann", 30));
        for (int i = 0; i < 16; i++) {
            assert_int_equal(fixture_row(&fixture, names[i])->remaining, 70);
        }
    }
    fixture_load(&fixture, NULL, 0);
    fixture_sweep(&fixture);
    assert_int_equal(fixture_counters(&fixture), 0);
    fixture_close(&fixture);
}

static void a_set_of_too_many_limits_is_refused_whole(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 64, .leases_max = 8, .log_blocks_max = 8, .limits_max = 2});
    struct fixture_limit limits[] = {{.name = "a", .rule = any_rule(HR_TOKEN_BUCKET, 100)},
                                     {.name = "b", .rule = any_rule(HR_TOKEN_BUCKET, 100)},
                                     {.name = "c", .rule = any_rule(HR_TOKEN_BUCKET, 100)}};
    fixture_load(&fixture, limits, 2);
    assert_true(fixture_take(&fixture, "user=ann", 2));
    limits[0].rule.capacity = 5;
    assert_int_equal(fixture_try_load(&fixture, limits, 3), HR_E_TOO_MANY);
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "a"), 98);
    assert_int_equal(fixture.decision.row_count, 2);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_spent_stays_spent_when_a_limit_is_lowered_and_raised),
        cmocka_unit_test(a_limit_lowered_below_what_is_spent_has_nothing_left_and_recovers),
        cmocka_unit_test(a_change_holds_from_its_instant_on_although_the_counter_is_looked_at_later),
        cmocka_unit_test(a_new_rate_refills_from_the_change_on_and_not_from_before),
        cmocka_unit_test(two_changes_of_the_rate_hold_each_for_its_own_time),
        cmocka_unit_test(a_name_and_key_and_algorithm_make_the_counter_and_any_other_change_starts_afresh),
        cmocka_unit_test(a_key_by_another_attribute_starts_afresh_even_where_the_values_are_alike),
        cmocka_unit_test(a_limit_that_was_removed_and_comes_back_starts_afresh),
        cmocka_unit_test(a_lease_outlives_a_change_of_its_limit_and_ends_with_its_removal),
        cmocka_unit_test(a_quota_of_another_unit_or_zone_keeps_what_its_period_had_spent),
        cmocka_unit_test(a_quota_in_another_zone_ends_with_the_day_of_that_zone),
        cmocka_unit_test(a_reload_while_the_wall_clock_is_back_does_not_reopen_a_spent_period),
        cmocka_unit_test(nor_does_it_reopen_a_period_whose_counter_was_forgotten),
        cmocka_unit_test(any_number_of_reloads_in_a_row_keeps_what_was_spent),
        cmocka_unit_test(as_many_limits_as_there_may_be_can_all_be_replaced_again_and_again),
        cmocka_unit_test(a_set_of_too_many_limits_is_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
