#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "chaos/clock.h"
#include "chaos/dice.h"

#define SEED 7

static void a_drifting_clock_never_runs_backwards_and_keeps_to_its_rate(void **state)
{
    static const int32_t drifts[] = {-1000, -1, 0, 1, 37, 1000};
    (void)state;
    for (size_t i = 0; i < sizeof(drifts) / sizeof(drifts[0]); i++) {
        struct hr_sim_clock clock = {.true_base = 5, .steady_base = 1000, .drift_ppm = drifts[i]};
        struct hr_rng rng = {SEED};
        hr_ns at = 5, before = 1000;
        for (int step = 0; step < 10000; step++) {
            at += (hr_ns)hr_rng_below(&rng, 3000000);
            hr_ns now = hr_sim_clock_read(&clock, at).steady;
            if (now < before) {
                fail_msg("drift %d ppm: %lld after %lld", drifts[i], (long long)now, (long long)before);
            }
            before = now;
        }
        hr_ns day = 86400 * HR_NS_PER_S;
        assert_int_equal(hr_sim_clock_read(&clock, 5 + day).steady - 1000, day + day / 1000000 * drifts[i]);
    }
}

static void when_is_the_first_instant_that_shows_a_time(void **state)
{
    static const int32_t drifts[] = {-1000, -3, 0, 999};
    (void)state;
    struct hr_rng rng = {SEED};
    for (size_t i = 0; i < 4000; i++) {
        struct hr_sim_clock clock = {.steady_base = 77, .drift_ppm = drifts[i % 4]};
        hr_ns wanted = 78 + (hr_ns)hr_rng_below(&rng, 1000000000000);
        hr_ns at = hr_sim_clock_when(&clock, wanted);
        if (hr_sim_clock_read(&clock, at).steady < wanted || hr_sim_clock_read(&clock, at - 3).steady >= wanted) {
            fail_msg("row %zu: %lld", i, (long long)wanted);
        }
    }
}

static void a_new_speed_goes_on_from_what_was_shown(void **state)
{
    (void)state;
    struct hr_sim_clock clock = {.drift_ppm = 500};
    hr_ns before = hr_sim_clock_read(&clock, HR_NS_PER_S).steady;
    hr_sim_clock_set_drift(&clock, HR_NS_PER_S, -500);
    assert_int_equal(hr_sim_clock_read(&clock, HR_NS_PER_S).steady, before);
    assert_int_equal(hr_sim_clock_read(&clock, 2 * HR_NS_PER_S).steady, before + HR_NS_PER_S - 500000);
}

static void a_step_moves_the_wall_clock_alone(void **state)
{
    (void)state;
    struct hr_sim_clock clock = {.steady_base = HR_NS_PER_S};
    hr_sim_clock_step_wall(&clock, -HR_NS_PER_MS);
    struct hr_now now = hr_sim_clock_read(&clock, 0);
    assert_int_equal(now.steady, HR_NS_PER_S);
    assert_int_equal(now.wall.ns, HR_NS_PER_S - HR_NS_PER_MS);
}

/* The exponential distribution: its mean is 1, and half of it lies below ln 2. */
static void waits_have_the_mean_and_the_median_that_they_should(void **state)
{
    (void)state;
    struct hr_dice_waits waits;
    hr_dice_waits_init(&waits);
    uint64_t sum = 0;
    for (int i = 0; i < HR_DICE_STEPS; i++) {
        sum += waits.quantile[i];
        assert_true(i == 0 || waits.quantile[i] <= waits.quantile[i - 1]);
    }
    assert_in_range(sum / HR_DICE_STEPS, 65536 - 200, 65536 + 200);
    assert_in_range(waits.quantile[HR_DICE_STEPS / 2], 45426 - 200, 45426 + 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drifting_clock_never_runs_backwards_and_keeps_to_its_rate),
        cmocka_unit_test(when_is_the_first_instant_that_shows_a_time),
        cmocka_unit_test(a_new_speed_goes_on_from_what_was_shown),
        cmocka_unit_test(a_step_moves_the_wall_clock_alone),
        cmocka_unit_test(waits_have_the_mean_and_the_median_that_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
