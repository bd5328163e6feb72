/* Scenarios: what is read, that every mistake is refused at its place, and what is to be done when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "chaos/scenario.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct hr_scenario scenario;
static struct hr_strike_plan strikes[HR_SCENARIO_STRIKES_MAX];

static bool parse(const char *text, struct hr_problem *ret_problem)
{
    return hr_scenario_parse(hr_span_of(text), "s.yaml", &scenario, ret_problem);
}

static void must_parse(const char *text)
{
    struct hr_problem problem;
    if (!parse(text, &problem)) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
}

static void those_that_come_with_the_program_are_good_and_named_as_listed(void **state)
{
    (void)state;
    assert_true(hr_scenario_count > 0);
    for (uint32_t i = 0; i < hr_scenario_count; i++) {
        struct hr_problem problem;
        if (!hr_scenario_parse(hr_scenarios[i].text, hr_scenarios[i].name, &scenario, &problem)) {
            fail_msg("%s (%s)", problem.what, problem.where);
        }
        assert_string_equal(scenario.name, hr_scenarios[i].name);
        assert_true(scenario.about[0] != '\0' && scenario.fault_count > 0);
        uint32_t count = hr_scenario_strikes(&scenario, strikes);
        assert_true(count >= 2 && strikes[count - 1].at < scenario.lasts);
    }
}

static void a_text_is_read_in_full(void **state)
{
    (void)state;
    must_parse("name: mine\nabout: all of it\ncluster: {regions: [a, b], nodes: 3, delay: 20ms}\n"
               "cap: {rate: 100/s, burst: 50, reserve: 12.5%}\nload: 70/s\nlasts: 20s\n"
               "faults:\n  - {at: 2s, for: 3s, deaf: b}\n  - {at: 1s, delay: 1s}\n"
               "  - {at: 4s, for: 1s, clock: {node: b-3, steady: -5s, wall: 1h}}\n"
               "  - {at: 5s, for: 500ms, every: 2s, until: 9s, kill: a-owner}\n"
               "expect: {reserve: 90%, answers: 99.9%, heals: 10s}\n");
    assert_string_equal(scenario.name, "mine");
    assert_string_equal(scenario.about, "all of it");
    assert_string_equal(scenario.regions, "a,b");
    assert_string_equal(scenario.delay, "20ms");
    assert_int_equal(scenario.nodes_each, 3);
    assert_int_equal(scenario.cap_per_second, 100);
    assert_int_equal(scenario.burst, 50);
    assert_int_equal(scenario.reserve_ppm, 125000);
    assert_int_equal(scenario.load_per_second, 70);
    assert_int_equal(scenario.lasts, 20 * HR_NS_PER_S);
    assert_int_equal(scenario.reserve_part_ppm, 900000);
    assert_int_equal(scenario.answers_ppm, 999000);
    assert_int_equal(scenario.heals, 10 * HR_NS_PER_S);
    assert_int_equal(scenario.fault_count, 4);
    assert_int_equal(scenario.faults[0].deed, HR_DEED_DEAF);
    assert_string_equal(scenario.faults[0].subject, "b");
    assert_string_equal(scenario.faults[1].subject, "1s");
    assert_int_equal(scenario.faults[2].steady_ms, -5000);
    assert_int_equal(scenario.faults[2].wall_ms, 3600000);
    assert_string_equal(scenario.faults[3].subject, "a-owner");
}

static void a_mistake_is_refused_at_its_place(void **state)
{
    static const struct {
        const char *text, *what, *where;
    } rows[] = {
        {"nmae: x\n", "nmae", "s.yaml:1:1"},
        {"lasts: 0s\n", "lasts must be 1s or more", "s.yaml:1:1"},
        {"lasts: 2h\n", "lasts must be a time as 500ms or 30s, 1h at most", "s.yaml:1:8"},
        {"load: 100/m\n", "load must be a rate as 900/s", "s.yaml:1:7"},
        {"load: 200k/s\n", "load must be a rate as 900/s", "s.yaml:1:7"},
        {"cap: {reserve: 101%}\n", "reserve must be a percentage", "s.yaml:1:16"},
        {"cluster: {regions: [EU]}\n", "a region's name must be", "s.yaml:1:10"},
        {"cluster: {nodes: 0}\n", "nodes in each of 3 regions", "s.yaml:1:10"},
        {"cluster: {regions: eu}\n", "regions must be a list", "s.yaml:1:20"},
        {"faults: [{at: 1s}]\n", "a fault needs one of cut,", "s.yaml:1:10"},
        {"faults: [{cut: us, kill: us-1}]\n", "a fault needs one of cut,", "s.yaml:1:10"},
        {"faults: [{cut: de}]\n", "cut needs a region of the cluster", "s.yaml:1:16"},
        {"faults: [{kill: us}]\n", "kill needs a node, as us-1 or us-owner, of the cluster", "s.yaml:1:17"},
        {"faults: [{kill: us-3}]\n", "kill needs a node", "s.yaml:1:17"},
        {"faults: [{kill: us-0}]\n", "kill needs a node", "s.yaml:1:17"},
        {"faults: [{kill: de-1}]\n", "kill needs a node", "s.yaml:1:17"},
        {"faults: [{pause: us-1x}]\n", "pause needs a node", "s.yaml:1:18"},
        {"faults: [{loss: 200%}]\n", "loss must be a percentage", "s.yaml:1:17"},
        {"faults: [{clock: {wall: 5s}}]\n", "clock needs a node", "s.yaml:1:18"},
        {"faults: [{clock: {node: us-1, wall: 5}}]\n", "wall must be a time as 5s or -1h", "s.yaml:1:37"},
        {"faults: [{fill: us}]\n", "fill needs a node", "s.yaml:1:17"},
        {"faults: [{clock: {node: us-1, drift: 5}}]\n", "drift must be as 200ppm", "s.yaml:1:38"},
        {"faults: [{clock: {node: us-1, drift: ppm}}]\n", "drift must be as 200ppm", "s.yaml:1:38"},
        {"faults: [{clock: {node: us-1, drift: -ppm}}]\n", "drift must be as 200ppm", "s.yaml:1:38"},
        {"faults: [{clock: {node: us-1, drift: 100001ppm}}]\n", "100000ppm at most", "s.yaml:1:38"},
        {"faults: [{clock: {node: us-1, drift: 99999999999999999ppm}}]\n", "100000ppm at most", "s.yaml:1:38"},
        {"faults: [{cut: us, until: 9s}]\n", "until needs every", "s.yaml:1:10"},
        {"faults: [{cut: us, every: 1s, for: 1s, until: 9s}]\n", "a for that is shorter than every", "s.yaml:1:10"},
        {"faults: [{cut: us, every: 1s, until: 9s}]\n", "a for that is shorter than every", "s.yaml:1:10"},
        {"faults: [{cut: us, every: 1s, for: 500ms}]\n", "until later than at", "s.yaml:1:10"},
        {"faults: [{cut: us, every: 10ms, for: 1ms, until: 9s}]\n", "every must be 100ms or more", "s.yaml:1:10"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_problem problem;
        if (parse(rows[i].text, &problem) || strstr(problem.what, rows[i].what) == NULL ||
            strcmp(problem.where, rows[i].where) != 0) {
            fail_msg("row %zu: %s (%s)", i, problem.what, problem.where);
        }
    }
}

static void no_prefix_of_a_text_is_read_beyond_its_end(void **state)
{
    (void)state;
    const struct hr_span text = hr_scenarios[0].text;
    for (size_t bytes = 0; bytes < text.bytes; bytes++) {
        char copy[1024];
        struct hr_problem problem = {.what = ""};
        memcpy(copy, text.at, bytes);
        bool is_read = hr_scenario_parse((struct hr_span){copy, bytes}, "s.yaml", &scenario, &problem);
        if (is_read == (problem.what[0] != '\0')) {
            fail_msg("prefix of %zu bytes", bytes);
        }
    }
}

static void strikes_come_in_the_order_of_time_and_each_is_undone(void **state)
{
    static const struct {
        hr_ns at_ms;
        uint32_t fault, strike;
        bool is_over;
    } rows[] = {
        {1000, 1, 2, false}, {2000, 0, 0, false},  {3000, 2, 4, false}, {3500, 2, 4, true},
        {5000, 0, 0, true},  {5000, 2, 6, false},  {5500, 2, 6, true},  {7000, 2, 8, false},
        {7500, 2, 8, true},  {9500, 3, 10, false}, {10000, 1, 2, true}, {10000, 3, 10, true},
    };
    (void)state;
    must_parse("lasts: 10s\nfaults:\n  - {at: 2s, for: 3s, cut: us}\n  - {at: 1s, loss: 5%}\n"
               "  - {at: 3s, every: 2s, until: 9s, for: 500ms, pause: us-1}\n  - {at: 9500ms, for: 1m, mute: ap}\n"
               "  - {at: 10s, for: 1s, kill: us-1}\n");
    assert_int_equal(hr_scenario_strikes(&scenario, strikes), COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strikes[i].at != rows[i].at_ms * HR_NS_PER_MS || strikes[i].fault != rows[i].fault ||
            strikes[i].strike != rows[i].strike || strikes[i].is_over != rows[i].is_over) {
            fail_msg("row %zu: %lld ms, fault %u, strike %u", i, (long long)(strikes[i].at / HR_NS_PER_MS),
                     strikes[i].fault, strikes[i].strike);
        }
    }
}

static void a_drift_goes_on_in_steps_until_it_is_over(void **state)
{
    static const struct {
        hr_ns at_ms;
        int64_t drifted_ms;
        bool is_over;
    } rows[] = {{1000, 0, false}, {3500, -1, false}, {6000, -2, false}, {8500, -3, false}, {9000, 0, true}};
    (void)state;
    must_parse("lasts: 10s\nfaults:\n  - {at: 1s, for: 8s, clock: {node: us-1, drift: -400ppm}}\n");
    assert_int_equal(hr_scenario_strikes(&scenario, strikes), COUNT_OF(rows));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strikes[i].at != rows[i].at_ms * HR_NS_PER_MS || strikes[i].drifted_ms != rows[i].drifted_ms ||
            strikes[i].is_over != rows[i].is_over || strikes[i].strike != 0) {
            fail_msg("row %zu: %lld ms, off by %lld ms", i, (long long)(strikes[i].at / HR_NS_PER_MS),
                     (long long)strikes[i].drifted_ms);
        }
    }
}

static void no_more_strikes_than_there_is_room_for(void **state)
{
    (void)state;
    must_parse("lasts: 1h\nfaults:\n  - {at: 0s, every: 100ms, until: 1h, for: 50ms, pause: us-1}\n");
    assert_int_equal(hr_scenario_strikes(&scenario, strikes), HR_SCENARIO_STRIKES_MAX);
    must_parse("lasts: 1h\nfaults:\n  - {at: 0s, clock: {node: us-1, drift: 100000ppm}}\n");
    assert_int_equal(hr_scenario_strikes(&scenario, strikes), HR_SCENARIO_STRIKES_MAX);
}

static void other_time_moves_faults_but_not_their_pace(void **state)
{
    (void)state;
    must_parse("lasts: 60s\nfaults:\n  - {at: 15s, for: 30s, cut: us}\n"
               "  - {at: 10s, every: 2s, until: 50s, for: 1s, kill: us-1}\n");
    hr_scenario_scale(&scenario, 12 * HR_NS_PER_S);
    assert_int_equal(scenario.lasts, 12 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[0].at, 3 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[0].lasts, 6 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[1].at, 2 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[1].until, 10 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[1].every, 2 * HR_NS_PER_S);
    assert_int_equal(scenario.faults[1].lasts, HR_NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_come_with_the_program_are_good_and_named_as_listed),
        cmocka_unit_test(a_text_is_read_in_full),
        cmocka_unit_test(a_mistake_is_refused_at_its_place),
        cmocka_unit_test(no_prefix_of_a_text_is_read_beyond_its_end),
        cmocka_unit_test(strikes_come_in_the_order_of_time_and_each_is_undone),
        cmocka_unit_test(a_drift_goes_on_in_steps_until_it_is_over),
        cmocka_unit_test(no_more_strikes_than_there_is_room_for),
        cmocka_unit_test(other_time_moves_faults_but_not_their_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
