#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chaos/bounds.h"

#define S HR_NS_PER_S

static const char slots_text[] =
    "limits:\n  - {name: jobs, key: [tenant], algorithm: concurrency, slots: 20, ttl: 30s}\n";
static const char bucket_text[] =
    "limits:\n  - {name: jobs, key: [tenant], algorithm: token_bucket, rate: 1/s, burst: 20}\n";
#define LOG_ENTRIES 10
static const char log_text[] = "limits:\n  - {name: jobs, key: [tenant], algorithm: sliding_log, rate: 10 per 30s}\n";

struct fixture {
    struct hr_limits_file *limits;
    struct hr_universe *universe;
    struct hr_checker *checker;
    struct hr_bounds *bounds;
    const struct hr_shape *shape; /* a request of cost 1 */
    struct hr_bounds_marks marks;
};

static struct hr_bounds_marks marks_of(void *user, uint32_t region)
{
    const struct fixture *fixture = user;
    (void)region;
    return fixture->marks;
}

static const struct hr_shape *find_shape(const struct hr_universe *universe)
{
    for (uint32_t i = 0; i < universe->shape_count; i++) {
        if (universe->shapes[i].cost == 1 && universe->shapes[i].touch_count == 1) {
            return &universe->shapes[i];
        }
    }
    return NULL;
}

static int set_up_with(void **state, const char *text)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct hr_problem problem = {{0}, {0}};
    assert_non_null(fixture);
    fixture->marks = (struct hr_bounds_marks){1, 1};
    fixture->limits = hr_limits_file_parse(hr_span_of(text), "here", &problem);
    assert_non_null(fixture->limits);
    fixture->universe = hr_universe_new(fixture->limits, 10, 1, &problem);
    assert_non_null(fixture->universe);
    const struct hr_checker_config checker = {fixture->universe, 3, 100 * HR_NS_PER_MS};
    fixture->checker = hr_checker_new(&checker);
    assert_non_null(fixture->checker);
    const struct hr_bounds_config bounds = {fixture->universe, fixture->checker, 1, 3, marks_of, fixture};
    fixture->bounds = hr_bounds_new(&bounds);
    fixture->shape = find_shape(fixture->universe);
    assert_non_null(fixture->bounds);
    assert_non_null(fixture->shape);
    *state = fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, slots_text);
}

static int set_up_bucket(void **state)
{
    return set_up_with(state, bucket_text);
}

static int set_up_log(void **state)
{
    return set_up_with(state, log_text);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    hr_bounds_free(fixture->bounds);
    hr_checker_free(fixture->checker);
    hr_universe_free(fixture->universe);
    hr_limits_file_free(fixture->limits);
    free(fixture);
    return 0;
}

/* Once a second, as the simulator does. */
static void pass(struct fixture *fixture, hr_ns from, hr_ns until, uint32_t faults)
{
    const struct hr_bounds_condition condition = {.faults = faults, .safe_until = INT64_MAX};
    for (hr_ns at = from; at <= until; at += S) {
        hr_bounds_condition(fixture->bounds, 0, &condition, at);
    }
}

static struct hr_bounds_query query(const struct fixture *fixture, hr_ns at)
{
    return (struct hr_bounds_query){.shape = fixture->shape, .sent = at - HR_NS_PER_MS, .at = at};
}

static struct hr_told_decision told(bool degraded, uint64_t remaining)
{
    struct hr_told_decision told = {.allowed = true, .degraded = degraded, .row_count = 1};
    told.rows[0] = (struct hr_told_row){.name = HR_SPAN("jobs"), .allowed = true, .remaining = remaining};
    return told;
}

static void answer(struct fixture *fixture, hr_ns at, bool degraded)
{
    const struct hr_bounds_query asked = query(fixture, at);
    const struct hr_told_decision decision = told(degraded, 19);
    hr_bounds_ask(fixture->bounds, &asked);
    assert_int_equal(hr_bounds_answer(fixture->bounds, &asked, &decision), HR_OK);
}

static uint64_t violations_of_slow_look(struct fixture *fixture, hr_ns sent, hr_ns at, uint64_t remaining)
{
    const struct hr_bounds_query looked = {.shape = fixture->shape, .sent = sent, .at = at};
    const struct hr_told_decision decision = told(false, remaining);
    const struct hr_verdict *verdict = &hr_checker_verdicts(fixture->checker)[HR_CHECK_HEALS];
    uint64_t before = verdict->violated;
    hr_bounds_look(fixture->bounds, &looked, &decision, HR_CHECK_HEALS);
    return verdict->violated - before;
}

static uint64_t violations_of_look(struct fixture *fixture, hr_ns at, uint64_t remaining)
{
    return violations_of_slow_look(fixture, at - HR_NS_PER_MS, at, remaining);
}

static void a_slot_is_held_for_its_ttl_and_no_longer(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    answer(fixture, 60 * S, false);
    assert_int_equal(violations_of_look(fixture, 61 * S, 19), 0);
    assert_int_equal(violations_of_look(fixture, 61 * S, 18), 1);
    pass(fixture, 61 * S, 92 * S, 0);
    assert_int_equal(violations_of_look(fixture, 92 * S, 19), 1);
    assert_int_equal(violations_of_look(fixture, 92 * S, 20), 0);
}

/* The owner's answer may have been lost; but it took nothing after the node that was asked had decided alone. */
static void an_owner_may_have_taken_a_slot_that_another_node_decided_but_takes_none_later(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    pass(fixture, 60 * S, 80 * S, 1);
    answer(fixture, 70 * S, true);
    assert_int_equal(violations_of_look(fixture, 71 * S, 19), 0);
    assert_int_equal(violations_of_look(fixture, 71 * S, 18), 1);
    pass(fixture, 81 * S, 90 * S, 0);
    answer(fixture, 90 * S, false);
    assert_int_equal(violations_of_look(fixture, 110 * S, 19), 0);
    assert_int_equal(violations_of_look(fixture, 110 * S, 18), 1);
    assert_int_equal(violations_of_look(fixture, 121 * S, 19), 1);
    assert_int_equal(violations_of_look(fixture, 121 * S, 20), 0);
}

static void a_look_that_was_sent_before_a_charge_was_told_of_need_not_show_it(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    answer(fixture, 60 * S, false);
    assert_int_equal(violations_of_slow_look(fixture, 60 * S - 1, 60 * S + 1, 20), 0);
    assert_int_equal(violations_of_slow_look(fixture, 60 * S + 1, 60 * S + 2, 20), 1);
}

static void a_look_that_was_sent_before_a_slot_was_given_back_may_show_it_as_held(void **state)
{
    struct fixture *fixture = *state;
    const struct hr_bounds_query asked = query(fixture, 61 * S);
    pass(fixture, S, 60 * S, 0);
    answer(fixture, 60 * S, false);
    assert_true(hr_bounds_release(fixture->bounds, &asked, (struct hr_id128){0, 0}));
    hr_bounds_released(fixture->bounds, &asked, (struct hr_id128){0, 0}, true, true);
    assert_int_equal(violations_of_slow_look(fixture, 61 * S - 1, 61 * S + 1, 19), 0);
    assert_int_equal(violations_of_slow_look(fixture, 61 * S + 1, 61 * S + 2, 19), 1);
}

/* What a crash has cost a bucket, it owes until it has been untouched once, however long that takes. */
static void a_bucket_that_is_never_untouched_may_owe_more_since_a_right_moved(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    for (int i = 0; i < 5; i++) {
        answer(fixture, 60 * S, false);
    }
    fixture->marks = (struct hr_bounds_marks){2, 2};
    for (hr_ns at = 61 * S; at < 120 * S; at += S) {
        pass(fixture, at, at, 0);
        answer(fixture, at, false);
    }
    assert_int_equal(violations_of_look(fixture, 120 * S, 10), 0);
    pass(fixture, 120 * S, 141 * S, 0);
    assert_int_equal(violations_of_look(fixture, 141 * S, 20), 0);
    answer(fixture, 142 * S, false);
    assert_int_equal(violations_of_look(fixture, 142 * S + 2 * HR_NS_PER_MS, 15), 1);
}

/* A bucket that is asked for all that it has is full again and again, whatever it owed before. */
static void a_bucket_that_has_been_full_owes_no_more_than_that(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    fixture->marks = (struct hr_bounds_marks){2, 2};
    for (hr_ns at = 61 * S; at < 120 * S; at += S) {
        pass(fixture, at, at, 0);
        answer(fixture, at, false);
        answer(fixture, at, false);
    }
    assert_int_equal(violations_of_look(fixture, 125 * S, 1), 1);
}

/* The answer may come long after the decision, and the entry ends with the decision's period. */
static void what_a_node_decided_alone_is_over_a_period_after_it_was_asked(void **state)
{
    struct fixture *fixture = *state;
    const struct hr_verdict *verdict = &hr_checker_verdicts(fixture->checker)[HR_CHECK_DEGRADED];
    pass(fixture, S, 60 * S, 0);
    pass(fixture, 60 * S, 95 * S, 1);
    for (hr_ns sent = 60 * S; sent <= 91 * S; sent += 31 * S) {
        for (uint32_t i = 0; i < 2 * LOG_ENTRIES; i++) {
            const struct hr_bounds_query asked = {
                .shape = fixture->shape, .sent = sent, .at = sent == 60 * S ? 62 * S : sent + 1};
            const struct hr_told_decision decision = told(true, 0);
            hr_bounds_ask(fixture->bounds, &asked);
            assert_int_equal(hr_bounds_answer(fixture->bounds, &asked, &decision), HR_OK);
        }
        assert_int_equal(verdict->violated, 0);
    }
    answer(fixture, 94 * S, true);
    assert_int_equal(verdict->violated, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slot_is_held_for_its_ttl_and_no_longer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_owner_may_have_taken_a_slot_that_another_node_decided_but_takes_none_later,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_that_was_sent_before_a_charge_was_told_of_need_not_show_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_look_that_was_sent_before_a_slot_was_given_back_may_show_it_as_held, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_bucket_that_is_never_untouched_may_owe_more_since_a_right_moved,
                                        set_up_bucket, tear_down),
        cmocka_unit_test_setup_teardown(a_bucket_that_has_been_full_owes_no_more_than_that, set_up_bucket, tear_down),
        cmocka_unit_test_setup_teardown(what_a_node_decided_alone_is_over_a_period_after_it_was_asked, set_up_log,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
