/* Civil dates: the Gregorian calendar as day numbers, days since 1970-01-01.
 *
 * Integers only. Domain: the years 1 to 9999, far more than instants reach (1970 to 2255).
 * Thread: any. Memory: none. Pure. */
#ifndef HR_LIMITER_CIVIL_H
#define HR_LIMITER_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#define HR_DAYS_PER_400_YEARS INT64_C(146097)
#define HR_DAYS_FROM_YEAR_1_TO_1970 INT64_C(719162)

/* The largest whole number not above a / b, and what is left over, 0 to b - 1. Require: b > 0. */
static inline int64_t hr_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t hr_floor_mod(int64_t a, int64_t b)
{
    return a - hr_floor_div(a, b) * b;
}

static inline bool hr_civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The day number of 1 January. */
static inline int64_t hr_civil_new_year(int64_t year)
{
    int64_t past = year - 1;
    return past * 365 + past / 4 - past / 100 + past / 400 - HR_DAYS_FROM_YEAR_1_TO_1970;
}

/* Days of a year before its month; month 13 gives the length of the year. */
static inline int64_t hr_civil_days_before_month(int64_t year, int month)
{
    static const int16_t days[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    return days[month - 1] + (month > 2 && hr_civil_is_leap(year));
}

/* The day number of the first of a month; month 13 is January of the year after. */
static inline int64_t hr_civil_month_begin(int64_t year, int month)
{
    return hr_civil_new_year(year) + hr_civil_days_before_month(year, month);
}

/* The year that a day lies in. The mean length of a year gives it, or one next to it. */
static inline int64_t hr_civil_year_of(int64_t day)
{
    int64_t year = (day + HR_DAYS_FROM_YEAR_1_TO_1970) * 400 / HR_DAYS_PER_400_YEARS + 1;
    if (day < hr_civil_new_year(year)) {
        return year - 1;
    }
    return day < hr_civil_new_year(year + 1) ? year : year + 1;
}

/* The month, 1 to 12, that a day of that year lies in. No month is longer than 31 days, so day-of-year / 31 is at
 * most one too low. */
static inline int hr_civil_month_of(int64_t year, int64_t day)
{
    int64_t day_of_year = day - hr_civil_new_year(year);
    int month = (int)(day_of_year / 31) + 1;
    return day_of_year < hr_civil_days_before_month(year, month + 1) ? month : month + 1;
}

#endif
