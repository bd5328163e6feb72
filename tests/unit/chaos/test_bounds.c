#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "chaos/bounds.h"

#define S HR_NS_PER_S

static const char text[] = "limits:\n  - {name: jobs, key: [tenant], algorithm: concurrency, slots: 20, ttl: 30s}\n";

struct fixture {
    struct hr_limits_file *limits;
    struct hr_universe *universe;
    struct hr_checker *checker;
    struct hr_bounds *bounds;
    const struct hr_shape *shape; /* a request of cost 1 */
};

static struct hr_bounds_marks marks_that_stay(void *user, uint32_t region)
{
    (void)user;
    (void)region;
    return (struct hr_bounds_marks){1, 1};
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

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct hr_problem problem = {{0}, {0}};
    assert_non_null(fixture);
    fixture->limits = hr_limits_file_parse(hr_span_of(text), "here", &problem);
    assert_non_null(fixture->limits);
    fixture->universe = hr_universe_new(fixture->limits, 10, 1, &problem);
    assert_non_null(fixture->universe);
    const struct hr_checker_config checker = {fixture->universe, 3, 100 * HR_NS_PER_MS};
    fixture->checker = hr_checker_new(&checker);
    assert_non_null(fixture->checker);
    const struct hr_bounds_config bounds = {fixture->universe, fixture->checker, 1, 3, marks_that_stay, NULL};
    fixture->bounds = hr_bounds_new(&bounds);
    fixture->shape = find_shape(fixture->universe);
    assert_non_null(fixture->bounds);
    assert_non_null(fixture->shape);
    *state = fixture;
    return 0;
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

static uint64_t violations_of_look(struct fixture *fixture, hr_ns at, uint64_t remaining)
{
    const struct hr_bounds_query looked = query(fixture, at);
    const struct hr_told_decision decision = told(false, remaining);
    const struct hr_verdict *verdict = &hr_checker_verdicts(fixture->checker)[HR_CHECK_HEALS];
    uint64_t before = verdict->violated;
    hr_bounds_look(fixture->bounds, &looked, &decision, HR_CHECK_HEALS);
    return verdict->violated - before;
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

/* A call that a slow link brings to the owner only when its node has given up, and decided it. */
static void an_owner_may_take_a_slot_until_the_slow_link_is_over_and_once_more_than_it_was_told(void **state)
{
    struct fixture *fixture = *state;
    pass(fixture, S, 60 * S, 0);
    pass(fixture, 60 * S, 80 * S, 1);
    answer(fixture, 70 * S, true);
    assert_int_equal(violations_of_look(fixture, 71 * S, 18), 0);
    assert_int_equal(violations_of_look(fixture, 71 * S, 17), 1);
    pass(fixture, 81 * S, 90 * S, 0);
    answer(fixture, 90 * S, false);
    assert_int_equal(violations_of_look(fixture, 110 * S, 18), 0);
    assert_int_equal(violations_of_look(fixture, 110 * S, 17), 1);
    assert_int_equal(violations_of_look(fixture, 121 * S, 19), 1);
    assert_int_equal(violations_of_look(fixture, 121 * S, 20), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slot_is_held_for_its_ttl_and_no_longer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_owner_may_take_a_slot_until_the_slow_link_is_over_and_once_more_than_it_was_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
