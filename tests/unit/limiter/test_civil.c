/* The day numbers of civil dates, against a calendar that is turned over day by day. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/civil.h"

static int days_in(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && hr_civil_is_leap(year));
}

static void leap_years_are_those_of_the_gregorian_calendar(void **state)
{
    (void)state;
    assert_true(hr_civil_is_leap(2024));
    assert_true(hr_civil_is_leap(2000));
    assert_false(hr_civil_is_leap(1900));
    assert_false(hr_civil_is_leap(2100));
    assert_false(hr_civil_is_leap(2023));
}

/* From 1 January 1 over two cycles of 400 years and the whole range of instants. */
static void every_day_lies_in_its_year_and_month(void **state)
{
    (void)state;
    int64_t day = -HR_DAYS_FROM_YEAR_1_TO_1970;
    for (int64_t year = 1; year <= 2400; year++) {
        assert_int_equal(hr_civil_new_year(year), day);
        for (int month = 1; month <= 12; month++) {
            assert_int_equal(hr_civil_month_begin(year, month), day);
            for (int i = 0; i < days_in(year, month); i++, day++) {
                assert_int_equal(hr_civil_year_of(day), year);
                assert_int_equal(hr_civil_month_of(year, day), month);
            }
        }
        assert_int_equal(hr_civil_month_begin(year, 13), day);
    }
}

static void known_dates_have_their_day_numbers(void **state)
{
    (void)state;
    assert_int_equal(hr_civil_new_year(1970), 0);
    assert_int_equal(hr_civil_month_begin(2000, 3), 11017);
    assert_int_equal(hr_civil_month_begin(2255, 1), 104094);
}

static void floor_division_rounds_down(void **state)
{
    (void)state;
    assert_int_equal(hr_floor_div(-1, 7), -1);
    assert_int_equal(hr_floor_div(-7, 7), -1);
    assert_int_equal(hr_floor_div(13, 7), 1);
    assert_int_equal(hr_floor_mod(-1, 7), 6);
    assert_int_equal(hr_floor_mod(-7, 7), 0);
    assert_int_equal(hr_floor_mod(13, 7), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leap_years_are_those_of_the_gregorian_calendar),
        cmocka_unit_test(every_day_lies_in_its_year_and_month),
        cmocka_unit_test(known_dates_have_their_day_numbers),
        cmocka_unit_test(floor_division_rounds_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
