#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chaos/schedule.h"

static const struct hr_sim_shape shape = {3, 3};

static char *print(const struct hr_schedule *schedule)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    hr_schedule_print(schedule, shape, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static struct hr_schedule draw(uint64_t seed, uint32_t strikes)
{
    struct hr_schedule schedule = {0};
    const struct hr_schedule_wish wish = {shape, 10 * HR_NS_PER_S, 900 * HR_NS_PER_S, seed, strikes};
    assert_int_equal(hr_schedule_draw(&schedule, &wish), HR_OK);
    return schedule;
}

static void what_is_drawn_lies_within_its_time_and_reads_back_from_its_text(void **state)
{
    (void)state;
    uint32_t seen = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct hr_schedule schedule = draw(seed, (1U << HR_STRIKE_COUNT) - 1), again = {0};
        struct hr_problem problem;
        char *text = print(&schedule);
        if (!hr_schedule_parse(&again, hr_span_of(text), "text", shape, &problem)) {
            fail_msg("seed %llu: %s (%s)", (unsigned long long)seed, problem.what, problem.where);
        }
        char *text_again = print(&again);
        assert_string_equal(text, text_again);
        for (uint32_t i = 0; i < schedule.count; i++) {
            const struct hr_striking *striking = &schedule.all[i];
            assert_true(striking->from >= 10 * HR_NS_PER_S && striking->until <= 900 * HR_NS_PER_S);
            assert_true(striking->from <= striking->until);
            assert_true(i == 0 || schedule.all[i - 1].from <= striking->from);
            seen |= 1U << striking->strike;
        }
        free(text);
        free(text_again);
        hr_schedule_deinit(&schedule);
        hr_schedule_deinit(&again);
    }
    assert_int_equal(seen, (1U << HR_STRIKE_COUNT) - 1);
}

static void only_what_is_wished_for_is_drawn(void **state)
{
    (void)state;
    struct hr_schedule schedule = draw(3, 1U << HR_STRIKE_CRASH);
    assert_true(schedule.count > 0);
    for (uint32_t i = 0; i < schedule.count; i++) {
        assert_int_equal(schedule.all[i].strike, HR_STRIKE_CRASH);
    }
    hr_schedule_deinit(&schedule);
    schedule = draw(3, 0);
    assert_int_equal(schedule.count, 0);
    hr_schedule_deinit(&schedule);
}

static void a_line_says_where_and_when(void **state)
{
    (void)state;
    struct hr_schedule schedule = {0};
    struct hr_problem problem;
    const char *text = "# a comment\n\n 200 50 crash us-2 # another\n100\t10 loss eu all 500\r\n";
    assert_true(hr_schedule_parse(&schedule, hr_span_of(text), "text", shape, &problem));
    assert_int_equal(schedule.count, 2);
    const struct hr_striking *loss = &schedule.all[0], *crash = &schedule.all[1];
    assert_int_equal(loss->strike, HR_STRIKE_LOSS);
    assert_int_equal(loss->number, 500);
    assert_int_equal(loss->places[1].kind, HR_SIM_PLACE_ALL);
    assert_int_equal(crash->from, 200 * HR_NS_PER_MS);
    assert_int_equal(crash->until, 250 * HR_NS_PER_MS);
    assert_int_equal(crash->places[0].kind, HR_SIM_PLACE_NODE);
    assert_int_equal(crash->places[0].index, 4);
    hr_schedule_deinit(&schedule);
}

static void a_wrong_line_is_named(void **state)
{
    static const char *const rows[] = {
        "1",
        "1 2",
        "x 2 crash eu",
        "-1 2 crash eu",
        "1 -2 crash eu",
        "1 9999999999999999 crash eu",
        "1 2 crush eu",
        "1 2 crash",
        "1 2 crash eu us",
        "1 2 crash eu-4",
        "1 2 crash eu-0",
        "1 2 crash sa",
        "1 2 cut eu",
        "1 2 loss eu us",
        "1 2 loss eu us 0",
        "1 2 loss eu us 1e5",
        "1 2 loss eu us 99999999999",
        "1 2 drift eu 1001",
        "1 2 loss eu us 5 6",
        "1 2 loss eu us 5 6 7 8 9",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_schedule schedule = {0};
        struct hr_problem problem = {{0}, {0}};
        char text[128];
        (void)snprintf(text, sizeof(text), "1 2 pause all\n%s", rows[i]);
        if (hr_schedule_parse(&schedule, hr_span_of(text), "file", shape, &problem)) {
            fail_msg("row %zu was taken: %s", i, rows[i]);
        }
        assert_string_equal(problem.where, "file:2");
        hr_schedule_deinit(&schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_drawn_lies_within_its_time_and_reads_back_from_its_text),
        cmocka_unit_test(only_what_is_wished_for_is_drawn),
        cmocka_unit_test(a_line_says_where_and_when),
        cmocka_unit_test(a_wrong_line_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
