#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chaos/limits_builtin.h"
#include "chaos/shrink.h"
#include "chaos/sim_text.h"

struct fixture {
    struct hr_limits_file *limits;
    struct hr_sim_options options;
    struct hr_schedule schedule;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct hr_problem problem = {{0}, {0}};
    assert_non_null(fixture);
    fixture->limits = hr_limits_file_parse(hr_limits_builtin, "built in", &problem);
    if (fixture->limits == NULL) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    fixture->options = (struct hr_sim_options){
        .seed = 1,
        .shape = {2, 1},
        .lasts_ns = 30 * HR_NS_PER_S,
        .rps = 100,
        .keys = 20,
        .flush_interval_ns = 100 * HR_NS_PER_MS,
        .limits = fixture->limits,
    };
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    hr_schedule_deinit(&fixture->schedule);
    hr_limits_file_free(fixture->limits);
    free(fixture);
    return 0;
}

static void draw(struct fixture *fixture, uint64_t seed)
{
    struct hr_sim_phases phases = hr_sim_phases(fixture->options.lasts_ns);
    const struct hr_schedule_wish wish = {fixture->options.shape, phases.faults_from, phases.healed_from, seed,
                                          (1U << HR_STRIKE_COUNT) - 1};
    hr_schedule_deinit(&fixture->schedule);
    assert_int_equal(hr_schedule_draw(&fixture->schedule, &wish), HR_OK);
}

static void run(const struct fixture *fixture, struct hr_sim_outcome *ret_outcome)
{
    struct hr_problem problem = {{0}, {0}};
    if (!hr_sim_run(&fixture->options, &fixture->schedule, false, ret_outcome, &problem)) {
        fail_msg("%s", problem.what);
    }
}

static void the_same_options_give_the_same_trace_and_another_seed_another(void **state)
{
    struct fixture *fixture = *state;
    struct hr_sim_outcome first, again, other;
    draw(fixture, 5);
    fixture->options.seed = 5;
    run(fixture, &first);
    run(fixture, &again);
    assert_true(first.trace == again.trace);
    assert_memory_equal(&first.counts, &again.counts, sizeof(first.counts));
    fixture->options.seed = 6;
    run(fixture, &other);
    assert_true(first.trace != other.trace);
    hr_sim_outcome_deinit(&first);
    hr_sim_outcome_deinit(&again);
    hr_sim_outcome_deinit(&other);
}

static bool is_of_clusters(enum hr_check check)
{
    return check >= HR_CHECK_DEGRADED && check <= HR_CHECK_RESERVE;
}

static void calm_nodes_lose_nothing_and_every_invariant_is_asked(void **state)
{
    struct fixture *fixture = *state;
    struct hr_sim_outcome outcome;
    run(fixture, &outcome);
    assert_int_equal(outcome.first, HR_CHECK_COUNT);
    assert_int_equal(outcome.counts.lost + outcome.counts.refused + outcome.counts.crashes, 0);
    assert_in_range(outcome.counts.asked, 1000, 6000);
    assert_true(outcome.counts.denied > 100);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        bool needs_faults = check == HR_CHECK_DURABLE || check == HR_CHECK_CLOCKS;
        if ((outcome.verdicts[check].checked == 0) != (needs_faults || is_of_clusters(check))) {
            fail_msg("%s was checked %llu times", hr_check_forms[check].name,
                     (unsigned long long)outcome.verdicts[check].checked);
        }
    }
    hr_sim_outcome_deinit(&outcome);
}

static void every_invariant_holds_under_faults(void **state)
{
    struct fixture *fixture = *state;
    for (uint64_t seed = 100; seed < 106; seed++) {
        struct hr_sim_outcome outcome;
        draw(fixture, seed);
        fixture->options.seed = seed;
        run(fixture, &outcome);
        if (outcome.first != HR_CHECK_COUNT) {
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, hr_check_forms[outcome.first].name,
                     outcome.verdicts[outcome.first].first);
        }
        hr_sim_outcome_deinit(&outcome);
    }
}

static void a_crash_and_a_pause_cost_requests_and_are_healed(void **state)
{
    static const char text[] = "5000 5000 crash eu-1\n12000 5000 pause us\n";
    struct fixture *fixture = *state;
    struct hr_problem problem;
    struct hr_sim_outcome outcome;
    assert_true(hr_schedule_parse(&fixture->schedule, HR_SPAN(text), "text", fixture->options.shape, &problem));
    run(fixture, &outcome);
    assert_int_equal(outcome.first, HR_CHECK_COUNT);
    assert_int_equal(outcome.counts.crashes, 1);
    assert_true(outcome.counts.lost > 0);
    assert_true(outcome.verdicts[HR_CHECK_DURABLE].checked > 0);
    assert_true(outcome.latency[HR_PHASE_FAULTS].max_ns > 4 * (uint64_t)HR_NS_PER_S);
    hr_sim_outcome_deinit(&outcome);
}

/* --- clusters --- */

static void hold_under(struct fixture *fixture, uint64_t seed, struct hr_sim_outcome *ret_outcome)
{
    fixture->options.seed = seed;
    run(fixture, ret_outcome);
    if (ret_outcome->first != HR_CHECK_COUNT) {
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, hr_check_forms[ret_outcome->first].name,
                 ret_outcome->verdicts[ret_outcome->first].first);
    }
}

static void a_calm_region_loses_nothing_and_every_invariant_is_asked(void **state)
{
    struct fixture *fixture = *state;
    struct hr_sim_outcome outcome;
    fixture->options.shape = (struct hr_sim_shape){1, 3};
    fixture->options.lasts_ns = 60 * HR_NS_PER_S;
    hold_under(fixture, 1, &outcome);
    assert_int_equal(outcome.counts.lost + outcome.counts.crashes, 0);
    assert_true(outcome.net.delivered > 1000);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        bool is_of_caps = check == HR_CHECK_CAP || check == HR_CHECK_RESERVE;
        if (outcome.verdicts[check].checked == 0 && check != HR_CHECK_CLOCKS && !is_of_caps) {
            fail_msg("%s was never checked", hr_check_forms[check].name);
        }
    }
    hr_sim_outcome_deinit(&outcome);
}

static void regions_that_share_caps_are_held_to_them_and_to_their_reserve(void **state)
{
    struct fixture *fixture = *state;
    struct hr_problem problem = {{0}, {0}};
    struct hr_sim_outcome outcome;
    hr_limits_file_free(fixture->limits);
    fixture->limits = hr_limits_file_parse(hr_limits_builtin_caps, "built in", &problem);
    assert_non_null(fixture->limits);
    fixture->options.limits = fixture->limits;
    fixture->options.shape = (struct hr_sim_shape){2, 2};
    hold_under(fixture, 1, &outcome);
    assert_true(outcome.verdicts[HR_CHECK_CAP].checked > 500);
    assert_true(outcome.verdicts[HR_CHECK_RESERVE].checked > 500);
    hr_sim_outcome_deinit(&outcome);
}

static void a_cluster_gives_the_same_trace_for_the_same_options(void **state)
{
    struct fixture *fixture = *state;
    struct hr_sim_outcome first, again;
    fixture->options.shape = (struct hr_sim_shape){2, 3};
    draw(fixture, 3);
    run(fixture, &first);
    run(fixture, &again);
    assert_true(first.trace == again.trace);
    assert_memory_equal(&first.counts, &again.counts, sizeof(first.counts));
    hr_sim_outcome_deinit(&first);
    hr_sim_outcome_deinit(&again);
}

static void regions_hold_under_scripted_faults(void **state)
{
    static const struct {
        uint64_t seed;
        struct hr_sim_shape shape;
        const char *schedule;
    } rows[] = {
        {1, {1, 3}, ""}, /* a node that was alone yet decided over several counters, and fell over */
        {2, {1, 3}, "15000 8000 crash eu-1\n"},
        {3, {1, 3}, "15000 8000 stop eu-2\n"},
        {4, {1, 3}, "15000 8000 pause eu-3\n"},
        {5, {1, 3}, "15000 8000 cut eu-1 all\n"},
        {6, {2, 2}, "15000 8000 cut eu us\n"},
        {7, {1, 3}, "15000 8000 cut-one-way eu-1 eu-2\n"},
        {8, {1, 3}, "15000 8000 delay all all 15\n15000 8000 loss all all 100000\n15000 8000 twice all all 300000\n"},
        {9, {1, 3}, "15000 6000 swizzle eu-1\n16000 4000 swizzle eu-2\n17000 6000 swizzle eu-3\n"},
        {10, {1, 2}, "15000 8000 disk-fail eu-1\n15000 8000 disk-full eu-2\n"},
    };
    struct fixture *fixture = *state;
    struct hr_problem problem;
    fixture->options.lasts_ns = 40 * HR_NS_PER_S;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_sim_outcome outcome;
        fixture->options.shape = rows[i].shape;
        hr_schedule_deinit(&fixture->schedule);
        assert_true(
            hr_schedule_parse(&fixture->schedule, hr_span_of(rows[i].schedule), "text", rows[i].shape, &problem));
        hold_under(fixture, rows[i].seed, &outcome);
        assert_true(outcome.verdicts[HR_CHECK_VIEWS].checked > 0);
        hr_sim_outcome_deinit(&outcome);
    }
}

/* A region of three for 40 s, of which one node is stopped as the schedule says. */
static void stop_one(struct fixture *fixture, const char *schedule, struct hr_sim_outcome *ret_outcome)
{
    struct hr_problem problem;
    fixture->options.shape = (struct hr_sim_shape){1, 3};
    fixture->options.lasts_ns = 40 * HR_NS_PER_S;
    assert_true(hr_schedule_parse(&fixture->schedule, hr_span_of(schedule), "text", fixture->options.shape, &problem));
    hold_under(fixture, 21, ret_outcome);
}

/* A node that stops cleanly hands all over: nothing is degraded for long, and nothing that it spent is forgotten. */
static void a_clean_stop_forgets_nothing(void **state)
{
    struct hr_sim_outcome outcome;
    stop_one(*state, "18000 4000 stop eu-2\n", &outcome);
    assert_int_equal(outcome.counts.crashes, 0);
    assert_int_equal(outcome.strikes[HR_STRIKE_STOP], 1);
    hr_sim_outcome_deinit(&outcome);
}

/* Nothing that a node has could be on a disk that takes nothing, however it ends. */
static void a_stop_on_a_failing_disk_is_a_crash(void **state)
{
    struct hr_sim_outcome outcome;
    stop_one(*state, "18000 8000 disk-fail eu-2\n20000 4000 stop eu-2\n", &outcome);
    assert_int_equal(outcome.counts.crashes, 1);
    hr_sim_outcome_deinit(&outcome);
}

static void what_is_printed_is_a_function_of_the_outcome(void **state)
{
    static void (*const prints[])(const struct hr_sim_told *, FILE *) = {hr_sim_print, hr_sim_print_json,
                                                                         hr_sim_print_html};
    struct fixture *fixture = *state;
    struct hr_sim_outcome outcome;
    draw(fixture, 9);
    run(fixture, &outcome);
    const struct hr_sim_told told = {&fixture->options, &fixture->schedule, &outcome, "a<b\">&", "command \"x\" <y>"};
    for (size_t i = 0; i < sizeof(prints) / sizeof(prints[0]); i++) {
        char *texts[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++) {
            size_t bytes = 0;
            FILE *out = open_memstream(&texts[k], &bytes);
            assert_non_null(out);
            prints[i](&told, out);
            assert_int_equal(fclose(out), 0);
        }
        assert_string_equal(texts[0], texts[1]);
        assert_null(strstr(texts[0], prints[i] == hr_sim_print_html ? "<y>" : "command \"x"));
        free(texts[0]);
        free(texts[1]);
    }
    hr_sim_outcome_deinit(&outcome);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_options_give_the_same_trace_and_another_seed_another, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(calm_nodes_lose_nothing_and_every_invariant_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_invariant_holds_under_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crash_and_a_pause_cost_requests_and_are_healed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_calm_region_loses_nothing_and_every_invariant_is_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_that_share_caps_are_held_to_them_and_to_their_reserve, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_cluster_gives_the_same_trace_for_the_same_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_hold_under_scripted_faults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clean_stop_forgets_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stop_on_a_failing_disk_is_a_crash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_printed_is_a_function_of_the_outcome, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
