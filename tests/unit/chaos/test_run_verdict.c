/* Verdicts over what a load has counted, which is made up here: each check is held up to its bound, and not beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "chaos/run.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define SLOTS 200 /* 20 s; the scenario lasts 10 s */
#define NODES 4   /* two in each of two regions */

static struct hr_run_slot slots[NODES][SLOTS];
static struct hr_run run;

/* The load's own, which this program does not link. */
uint32_t hr_run_load_slot_count(const struct hr_run_load *load)
{
    (void)load;
    return SLOTS;
}

const struct hr_run_slot *hr_run_load_slots(const struct hr_run_load *load, uint32_t node)
{
    (void)load;
    return slots[node];
}

/* A cap of 100/s and a burst of 50 over 10 s: 1050, and 1 + 1 for the clocks; a fault from 2 s to 5 s. */
static int set_up(void **state)
{
    struct hr_problem problem;
    (void)state;
    memset(slots, 0, sizeof(slots));
    memset(&run, 0, sizeof(run));
    run.scenario.cap_per_second = 100;
    run.scenario.burst = 50;
    run.scenario.reserve_ppm = 200000;
    run.scenario.lasts = 10 * HR_NS_PER_S;
    run.scenario.fault_count = 1;
    run.scenario.faults[0] =
        (struct hr_fault_plan){.at = 2 * HR_NS_PER_S, .lasts = 3 * HR_NS_PER_S, .deed = HR_DEED_CUT};
    run.strike_count = hr_scenario_strikes(&run.scenario, run.strikes);
    run.struck[0].node = NODES;
    return hr_local_plan_init(&run.local.plan, "eu,us", 2, &problem) ? 0 : -1;
}

static const struct hr_run_check *judge(const char *name)
{
    hr_run_judge(&run);
    for (uint32_t i = 0; i < run.check_count; i++) {
        if (strcmp(run.checks[i].name, name) == 0) {
            return &run.checks[i];
        }
    }
    fail_msg("no check %s", name);
    return NULL;
}

static void the_cap_holds_up_to_its_bound_and_not_beyond(void **state)
{
    (void)state;
    slots[0][0].admitted = 500;
    slots[3][99].admitted = 552;
    assert_true(judge("cap")->is_held);
    assert_string_equal(judge("cap")->bound, "1052");
    assert_string_equal(judge("cap")->measured, "1052, overshoot 0");
    slots[2][50].admitted = 1;
    assert_false(judge("cap")->is_held);
    assert_string_equal(judge("cap")->measured, "1053, overshoot 1");
}

static void an_answer_that_comes_late_is_within_a_longer_time(void **state)
{
    (void)state;
    slots[0][0].admitted = 1053;
    assert_false(judge("cap")->is_held);
    slots[1][109].denied = 1; /* 11 s: 100 more */
    assert_true(judge("cap")->is_held);
    assert_string_equal(judge("cap")->bound, "1152");
}

static void a_kill_may_have_forgotten_what_its_region_admitted_just_before(void **state)
{
    (void)state;
    run.scenario.faults[0].deed = HR_DEED_KILL;
    run.struck[0].node = 2; /* of us */
    run.struck[0].at = 2050 * HR_NS_PER_MS;
    slots[0][19].admitted = 1000; /* of the other region: not forgotten */
    slots[3][16].admitted = 30;   /* too long ago */
    slots[3][18].admitted = 7;
    slots[2][20].admitted = 8;
    assert_string_equal(judge("cap")->bound, "1067, of which 15 for the faults");
    run.struck[0].node = NODES; /* it struck nobody */
    assert_string_equal(judge("cap")->bound, "1052");
}

static void a_clock_that_jumps_ahead_mints_its_jump_but_no_more_than_the_burst(void **state)
{
    static const struct {
        int64_t steady_ms, wall_ms;
        const char *bound;
    } rows[] = {
        {300, 0, "1082, of which 30 for the faults"},
        {5000, 0, "1102, of which 50 for the faults"},
        {-5000, 0, "1052"},
        {0, 3600000, "1052"},
    };
    (void)state;
    run.scenario.faults[0].deed = HR_DEED_CLOCK;
    run.struck[0].node = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run.scenario.faults[0].steady_ms = rows[i].steady_ms;
        run.scenario.faults[0].wall_ms = rows[i].wall_ms;
        if (strcmp(judge("cap")->bound, rows[i].bound) != 0) {
            fail_msg("row %zu: %s", i, judge("cap")->bound);
        }
    }
}

static void phases_are_cut_where_the_faults_begin_and_end(void **state)
{
    (void)state;
    slots[0][19].admitted = 1;
    slots[0][20].admitted = slots[2][49].admitted = 10;
    slots[3][50].admitted = 100;
    hr_run_judge(&run);
    assert_int_equal(run.phase_count, 3);
    assert_int_equal(run.phases[0].admitted, 1);
    assert_int_equal(run.phases[1].admitted, 20);
    assert_int_equal(run.phases[2].admitted, 100);
    assert_int_equal(run.phases[1].regions[1].admitted, 10);
    assert_int_equal(run.phases[1].bound, 50 + 300);
}

/* A fifth of half the cap: 10/s for each region, that is 20, 30 and 50 for the phases. */
static void a_region_that_asks_has_its_reserve_in_each_phase(void **state)
{
    (void)state;
    run.scenario.reserve_part_ppm = 1000000;
    for (int node = 0; node < NODES; node++) {
        slots[node][5].offered = slots[node][25].offered = slots[node][60].offered = 1000;
        slots[node][5].admitted = 10;
        slots[node][25].admitted = 15;
        slots[node][60].admitted = 25;
    }
    assert_true(judge("reserve")->is_held);
    slots[2][25].admitted = 14;
    assert_false(judge("reserve")->is_held);
    assert_string_equal(judge("reserve")->measured, "96.66 %");
    slots[2][25].offered = 14; /* it asked for less than its reserve, and had all of it */
    slots[3][25].offered = 15;
    assert_true(judge("reserve")->is_held);
}

static void answers_are_counted_over_the_whole_run(void **state)
{
    (void)state;
    run.scenario.answers_ppm = 990000;
    slots[0][1].offered = 100;
    slots[0][1].admitted = 60;
    slots[0][150].denied = 39;
    assert_true(judge("answers")->is_held);
    slots[1][1].offered = 1;
    slots[1][1].errors = 1; /* an error is no answer */
    assert_false(judge("answers")->is_held);
}

static void healing_is_held_to_its_time(void **state)
{
    static const struct {
        hr_ns healed;
        bool is_held;
        const char *measured;
    } rows[] = {{0, true, "0.000 s"},
                {2 * HR_NS_PER_S, true, "2.000 s"},
                {2001 * HR_NS_PER_MS, false, "2.001 s"},
                {-1, false, "not"}};
    (void)state;
    run.scenario.heals = 2 * HR_NS_PER_S;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        run.healed = rows[i].healed;
        const struct hr_run_check *check = judge("heals");
        if (check->is_held != rows[i].is_held || strcmp(check->measured, rows[i].measured) != 0) {
            fail_msg("row %zu: %s", i, check->measured);
        }
    }
}

static void a_process_that_ends_by_itself_is_a_violation(void **state)
{
    (void)state;
    assert_true(judge("processes")->is_held);
    run.local.has_failed = true;
    assert_false(judge("processes")->is_held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_cap_holds_up_to_its_bound_and_not_beyond, set_up),
        cmocka_unit_test_setup(an_answer_that_comes_late_is_within_a_longer_time, set_up),
        cmocka_unit_test_setup(a_kill_may_have_forgotten_what_its_region_admitted_just_before, set_up),
        cmocka_unit_test_setup(a_clock_that_jumps_ahead_mints_its_jump_but_no_more_than_the_burst, set_up),
        cmocka_unit_test_setup(phases_are_cut_where_the_faults_begin_and_end, set_up),
        cmocka_unit_test_setup(a_region_that_asks_has_its_reserve_in_each_phase, set_up),
        cmocka_unit_test_setup(answers_are_counted_over_the_whole_run, set_up),
        cmocka_unit_test_setup(healing_is_held_to_its_time, set_up),
        cmocka_unit_test_setup(a_process_that_ends_by_itself_is_a_violation, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
