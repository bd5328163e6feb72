/* Quota: against the calendar in random runs in several zones, and under a wall clock that steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/quota.h"
#include "tests/lib/history.h"
#include "tests/lib/limiter_fixture.h"
#include "tests/lib/zoneinfo.h"

static struct hr_zone zone;

static const struct {
    const char *zone;
    enum hr_calendar_unit unit;
    hr_ns step_ns;
} calendars[] = {
    {NULL, HR_HOUR, SECONDS(600)},
    {NULL, HR_DAY, SECONDS(20000)},
    {NULL, HR_WEEK, DAYS(1)},
    {NULL, HR_MONTH, DAYS(5)},
    {NULL, HR_YEAR, DAYS(40)},
    {"America/New_York", HR_DAY, SECONDS(20000)},
    {"America/New_York", HR_HOUR, 900},
    {"Asia/Kolkata", HR_HOUR, SECONDS(500)},
    {"Australia/Lord_Howe", HR_HOUR, SECONDS(500)},
    {"Asia/Shanghai", HR_DAY, SECONDS(20000)},
    {"America/Sao_Paulo", HR_WEEK, DAYS(1)},
    {"Pacific/Apia", HR_MONTH, DAYS(5)},
    {"Europe/Berlin", HR_YEAR, DAYS(40)},
};

static void every_number_follows_from_the_calendar(void **state)
{
    (void)state;
    struct hr_rng rng = {20260105};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (size_t i = 0; i < 10 * COUNT(calendars); i++) {
        size_t row = i % COUNT(calendars);
        if (calendars[row].zone != NULL) {
            zoneinfo_load(calendars[row].zone, &zone);
        }
        uint64_t n = 1 + hr_rng_below(&rng, 1000);
        struct history_run run = {
            .rule = quota(n, calendars[row].unit, calendars[row].zone == NULL ? NULL : &zone),
            .start = SECONDS((int64_t)hr_rng_below(&rng, 4000000000) + 100000) + (hr_ns)hr_rng_below(&rng, 1000000000),
            .step_ns = calendars[row].step_ns,
            .cost_max = 1 + n / 3,
            .steps = 128,
            .seed = hr_rng_next(&rng),
        };
        history_run(&run);
    }
}

struct counter {
    struct hr_rule rule;
    struct hr_quota_clock clock;
    struct hr_quota quota;
};

static void look(struct counter *counter, struct hr_wall wall)
{
    hr_quota_clock_set(&counter->clock, &counter->rule, wall);
    hr_quota_advance(&counter->quota, &counter->clock);
}

static void a_wall_clock_that_steps_back_does_not_reopen_a_spent_period(void **state)
{
    (void)state;
    for (int unit = HR_HOUR; unit <= HR_YEAR; unit++) {
        struct counter counter = {.rule = quota(5, (enum hr_calendar_unit)unit, NULL)};
        struct hr_wall now = {SECONDS(FIXTURE_START_S)}, back = {SECONDS(FIXTURE_START_S) - DAYS(366)};
        look(&counter, now);
        hr_quota_take(&counter.quota, 5);
        look(&counter, back);
        assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 0);
        int64_t end_ms = hr_quota_end_ms(&counter.quota, &counter.rule, &counter.clock, back);
        look(&counter, (struct hr_wall){back.ns + MS(end_ms) - 1});
        assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 0);
        look(&counter, (struct hr_wall){back.ns + MS(end_ms)});
        assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 5);
    }
}

static void a_counter_that_was_forgotten_does_not_reopen_its_period_either(void **state)
{
    (void)state;
    struct counter counter = {.rule = quota(5, HR_DAY, NULL)};
    struct hr_wall now = {SECONDS(FIXTURE_START_S)}, tomorrow = {now.ns + DAYS(1)}, yesterday = {now.ns - DAYS(1)};
    look(&counter, now);
    hr_quota_take(&counter.quota, 5);
    hr_quota_clock_set(&counter.clock, &counter.rule, tomorrow);
    assert_true(hr_quota_is_untouched(&counter.quota, &counter.clock));
    hr_quota_clock_forget(&counter.clock, &counter.rule, &counter.quota);
    counter.quota = (struct hr_quota){.period = 0};
    look(&counter, now);
    hr_quota_take(&counter.quota, 5);
    look(&counter, yesterday);
    assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 0);
    look(&counter, tomorrow);
    assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 0);
    look(&counter, (struct hr_wall){now.ns + DAYS(2)});
    assert_int_equal(hr_quota_remaining(&counter.quota, &counter.rule), 5);
}

/* West of Greenwich the first hours of Unix time are still 1969. */
static void the_first_hours_of_unix_time_are_a_period_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *zone;
        enum hr_calendar_unit unit;
        int64_t next_s; /* the first second of the period after the one that holds second 0 */
    } rows[] = {{"America/New_York", HR_DAY, 5 * 3600},
                {"America/New_York", HR_WEEK, 4 * 86400 + 5 * 3600},
                {"America/New_York", HR_YEAR, 5 * 3600},
                {"Asia/Kolkata", HR_HOUR, 1800}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        zoneinfo_load(rows[i].zone, &zone);
        struct counter counter = {.rule = quota(5, rows[i].unit, &zone)};
        look(&counter, (struct hr_wall){0});
        hr_quota_take(&counter.quota, 5);
        look(&counter, (struct hr_wall){SECONDS(rows[i].next_s)});
        if (hr_quota_remaining(&counter.quota, &counter.rule) != 5) {
            fail_msg("row %zu: the period before 1970 and the one after share a count", i);
        }
    }
}

static void a_quota_of_the_largest_number_does_not_overflow(void **state)
{
    (void)state;
    for (int unit = HR_HOUR; unit <= HR_YEAR; unit++) {
        struct counter counter = {.rule = quota(HR_COST_MAX, (enum hr_calendar_unit)unit, NULL)};
        struct hr_wall last = {HR_TIME_NS_MAX};
        look(&counter, last);
        hr_quota_take(&counter.quota, HR_COST_MAX);
        assert_false(hr_quota_fits(&counter.quota, &counter.rule, 1));
        assert_false(hr_quota_fits(&counter.quota, &counter.rule, HR_COST_MAX));
        int64_t end_ms = hr_quota_end_ms(&counter.quota, &counter.rule, &counter.clock, last);
        assert_in_range(end_ms, 1, 366 * 86400 * INT64_C(1000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_follows_from_the_calendar),
        cmocka_unit_test(a_wall_clock_that_steps_back_does_not_reopen_a_spent_period),
        cmocka_unit_test(a_counter_that_was_forgotten_does_not_reopen_its_period_either),
        cmocka_unit_test(the_first_hours_of_unix_time_are_a_period_of_their_own),
        cmocka_unit_test(a_quota_of_the_largest_number_does_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
