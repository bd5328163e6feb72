/* Fixed and sliding windows: against their definitions in random runs, at their boundaries, and at the bounds of
 * numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/fixed_window.h"
#include "limiter/sliding_window.h"
#include "tests/lib/history.h"
#include "tests/lib/limiter_fixture.h"

static const struct {
    uint64_t n;
    hr_ns period_ns, step_ns;
} windows[] = {
    {1, SECONDS(1), MS(200)},
    {10, SECONDS(1), MS(50)},
    {100, SECONDS(60), MS(300)},
    {3, 7, 1},
    {1000, 1, 1},
    {5, DAYS(366), DAYS(40)},
    {60, SECONDS(3600), SECONDS(100)},
    {17, 1000003, 30000},
    {HR_COST_MAX, SECONDS(1), 1000},
};

static void run_windows(enum hr_algorithm algorithm, uint64_t seed)
{
    struct hr_rng rng = {seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < 30 * COUNT(windows); i++) {
        size_t row = i % COUNT(windows);
        uint64_t costs = windows[row].n < 12 ? windows[row].n : windows[row].n / 3;
        struct history_run run = {
            .rule = window(algorithm, windows[row].n, windows[row].period_ns),
            .start = i % 3 == 0 ? 0 : SECONDS(FIXTURE_START_S) + (hr_ns)hr_rng_below(&rng, 1000000007),
            .step_ns = windows[row].step_ns,
            .cost_max = 1 + hr_rng_below(&rng, costs),
            .steps = 256,
            .seed = hr_rng_next(&rng),
        };
        history_run(&run);
    }
}

static void a_fixed_window_follows_from_its_definition(void **state)
{
    (void)state;
    run_windows(HR_FIXED_WINDOW, 1);
}

static void a_sliding_window_follows_from_its_definition(void **state)
{
    (void)state;
    run_windows(HR_SLIDING_WINDOW, 2);
}

static void fixed_windows_begin_at_multiples_of_the_period_in_unix_time(void **state)
{
    (void)state;
    struct hr_rule rule = window(HR_FIXED_WINDOW, 1, SECONDS(60));
    hr_ns boundary = SECONDS(1700000040); /* 60 x 28333334 */
    struct hr_fixed_window counter = {.index = 0};
    static const struct {
        hr_ns from_boundary;
        bool fits;
    } asks[] = {{-SECONDS(60), true}, {-SECONDS(30), false}, {-1, false}, {0, true}, {1, false}, {SECONDS(60), true}};
    for (size_t i = 0; i < COUNT(asks); i++) {
        hr_fixed_window_advance(&counter, &rule, boundary + asks[i].from_boundary);
        bool fits = hr_fixed_window_fits(&counter, &rule, 1);
        if (fits != asks[i].fits) {
            fail_msg("ask %zu", i);
        }
        if (fits) {
            hr_fixed_window_take(&counter, 1);
        }
    }
}

/* N = 10 and all of it spent in the window before: a fraction f into the next, floor(10 f) are free. */
static void the_window_before_weighs_less_as_this_one_goes_on(void **state)
{
    (void)state;
    struct hr_rule rule = window(HR_SLIDING_WINDOW, 10, 1000);
    for (hr_ns elapsed = 0; elapsed <= 1000; elapsed++) {
        struct hr_sliding_window counter = {.index = 0};
        hr_sliding_window_advance(&counter, &rule, 500);
        hr_sliding_window_take(&counter, 10);
        hr_sliding_window_advance(&counter, &rule, 1000 + elapsed);
        assert_int_equal(hr_sliding_window_remaining(&counter, &rule, 1000 + elapsed), elapsed / 100);
    }
}

static void no_window_overflows_at_the_bounds_of_every_number(void **state)
{
    (void)state;
    static const hr_ns periods[] = {1, 3, HR_PERIOD_NS_MAX}, instants[] = {0, HR_TIME_NS_MAX};
    for (size_t i = 0; i < 2 * COUNT(periods); i++) {
        struct hr_rule rule = window(HR_SLIDING_WINDOW, HR_COST_MAX, periods[i / 2]);
        hr_ns now = instants[i % 2];
        struct hr_sliding_window sliding = {.index = now / periods[i / 2], .previous = HR_COST_MAX};
        hr_sliding_window_advance(&sliding, &rule, now);
        uint64_t room = hr_sliding_window_remaining(&sliding, &rule, now);
        assert_true(hr_sliding_window_fits(&sliding, &rule, room, now));
        assert_false(hr_sliding_window_fits(&sliding, &rule, room + 1, now));
        hr_sliding_window_take(&sliding, room);
        assert_true(hr_sliding_window_retry_ms(&sliding, &rule, HR_COST_MAX, now) > 0);
        assert_true(hr_sliding_window_reset_ms(&sliding, &rule, now) > 0);
        struct hr_fixed_window fixed = {.index = 0};
        hr_fixed_window_advance(&fixed, &rule, now);
        hr_fixed_window_take(&fixed, HR_COST_MAX);
        assert_false(hr_fixed_window_fits(&fixed, &rule, 1));
        assert_true(hr_fixed_window_end_ms(&fixed, &rule, now) > 0);
    }
}

/* N was lowered below what is spent: nothing is left, nothing wraps around, and the wait is a true one. */
static void a_window_that_is_overspent_waits_as_long_as_it_must(void **state)
{
    (void)state;
    struct hr_rule lowered = window(HR_SLIDING_WINDOW, 10, 1000 * HR_NS_PER_MS);
    hr_ns now = SECONDS(FIXTURE_START_S) + MS(250);
    struct hr_sliding_window counter = {.index = FIXTURE_START_S, .previous = 40, .current = 25};
    assert_int_equal(hr_sliding_window_remaining(&counter, &lowered, now), 0);
    for (uint64_t cost = 1; cost <= 10; cost++) {
        int64_t retry_ms = hr_sliding_window_retry_ms(&counter, &lowered, cost, now);
        hr_ns after = now + MS(retry_ms), before = after - MS(1);
        struct hr_sliding_window then = counter, sooner = counter;
        hr_sliding_window_advance(&then, &lowered, after);
        hr_sliding_window_advance(&sooner, &lowered, before);
        assert_true(hr_sliding_window_fits(&then, &lowered, cost, after));
        assert_false(hr_sliding_window_fits(&sooner, &lowered, cost, before));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_window_follows_from_its_definition),
        cmocka_unit_test(a_sliding_window_follows_from_its_definition),
        cmocka_unit_test(fixed_windows_begin_at_multiples_of_the_period_in_unix_time),
        cmocka_unit_test(the_window_before_weighs_less_as_this_one_goes_on),
        cmocka_unit_test(no_window_overflows_at_the_bounds_of_every_number),
        cmocka_unit_test(a_window_that_is_overspent_waits_as_long_as_it_must),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
