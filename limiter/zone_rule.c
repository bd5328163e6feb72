#include "limiter/zone_rule.h"

#include <stddef.h>

#include "base/units.h"
#include "limiter/civil.h"

#define DEFAULT_CHANGE_TIME_S (2 * 3600)
#define DEFAULT_DAYLIGHT_SAVING_S 3600
#define NAME_CHARS_MIN 3

/* ---- Parsing: each function takes what it reads off the front of the text, and says whether it was there. ---- */

static bool is_next(const struct hr_span *text, char c)
{
    return text->bytes > 0 && text->at[0] == c;
}

static char take_char(struct hr_span *text)
{
    text->bytes--;
    return *text->at++;
}

static bool take_if(struct hr_span *text, char c)
{
    if (!is_next(text, c)) {
        return false;
    }
    (void)take_char(text);
    return true;
}

/* Not isalpha and isdigit: those ask the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A decimal number from min to max. It stops reading once above max, so that it cannot overflow. */
static bool take_number(struct hr_span *text, int min, int max, int *ret_number)
{
    if (text->bytes == 0 || !is_digit(text->at[0])) {
        return false;
    }
    int number = 0;
    while (text->bytes > 0 && is_digit(text->at[0]) && number <= max) {
        number = number * 10 + (take_char(text) - '0');
    }
    *ret_number = number;
    return number >= min && number <= max;
}

/* EST, or <+0330>. Names decide nothing, so they are checked and dropped. */
static bool take_name(struct hr_span *text)
{
    bool quoted = take_if(text, '<');
    size_t chars = 0;
    while (text->bytes > 0) {
        char c = text->at[0];
        if (!is_letter(c) && !(quoted && (is_digit(c) || c == '+' || c == '-'))) {
            break;
        }
        (void)take_char(text);
        chars++;
    }
    return chars >= NAME_CHARS_MIN && (!quoted || take_if(text, '>'));
}

/* [+|-]hh[:mm[:ss]] */
static bool take_time(struct hr_span *text, int hours_max, int32_t *ret_s)
{
    bool negative = take_if(text, '-');
    if (!negative) {
        (void)take_if(text, '+');
    }
    int hours = 0, minutes = 0, seconds = 0;
    if (!take_number(text, 0, hours_max, &hours)) {
        return false;
    }
    if (take_if(text, ':')) {
        if (!take_number(text, 0, 59, &minutes)) {
            return false;
        }
        if (take_if(text, ':') && !take_number(text, 0, 59, &seconds)) {
            return false;
        }
    }
    int32_t total_s = (hours * 60 + minutes) * 60 + seconds;
    *ret_s = negative ? -total_s : total_s;
    return true;
}

/* POSIX counts offsets west of Greenwich. */
static bool take_offset(struct hr_span *text, int32_t *ret_offset_s)
{
    int32_t west_s;
    if (!take_time(text, 24, &west_s)) {
        return false;
    }
    *ret_offset_s = -west_s;
    return true;
}

static bool take_date(struct hr_span *text, struct hr_zone_change *ret_change)
{
    int day = 0, month = 0, week = 0;
    bool ok;
    if (take_if(text, 'M')) {
        ret_change->kind = HR_CHANGE_WEEKDAY;
        ok = take_number(text, 1, 12, &month) && take_if(text, '.') && take_number(text, 1, 5, &week) &&
             take_if(text, '.') && take_number(text, 0, 6, &day);
    } else if (take_if(text, 'J')) {
        ret_change->kind = HR_CHANGE_JULIAN;
        ok = take_number(text, 1, 365, &day);
    } else {
        ret_change->kind = HR_CHANGE_DAY_OF_YEAR;
        ok = take_number(text, 0, 365, &day);
    }
    ret_change->day = (int16_t)day;
    ret_change->month = (int8_t)month;
    ret_change->week = (int8_t)week;
    return ok;
}

/* ,date[/time] */
static bool take_change(struct hr_span *text, struct hr_zone_change *ret_change)
{
    if (!take_if(text, ',') || !take_date(text, ret_change)) {
        return false;
    }
    ret_change->time_s = DEFAULT_CHANGE_TIME_S;
    return !take_if(text, '/') || take_time(text, 167, &ret_change->time_s);
}

/* name[offset],change,change */
static bool take_daylight(struct hr_span *text, struct hr_zone_rule *rule)
{
    if (!take_name(text)) {
        return false;
    }
    rule->has_daylight = true;
    rule->daylight_offset_s = rule->standard_offset_s + DEFAULT_DAYLIGHT_SAVING_S;
    if (!is_next(text, ',') && !take_offset(text, &rule->daylight_offset_s)) {
        return false;
    }
    return take_change(text, &rule->begin) && take_change(text, &rule->end);
}

enum hr_err hr_zone_rule_parse(struct hr_span text, struct hr_zone_rule *ret_rule)
{
    *ret_rule = (struct hr_zone_rule){0};
    if (!take_name(&text) || !take_offset(&text, &ret_rule->standard_offset_s)) {
        return HR_E_CORRUPT;
    }
    if (text.bytes > 0 && !take_daylight(&text, ret_rule)) {
        return HR_E_CORRUPT;
    }
    return text.bytes == 0 ? HR_OK : HR_E_CORRUPT;
}

/* ---- Lookup ---- */

/* The first d-day of the month, then whole weeks; the fifth is the last even where there are only four. */
static int64_t weekday_in_month(const struct hr_zone_change *change, int64_t year)
{
    int64_t first = hr_civil_month_begin(year, change->month);
    int64_t weekday = hr_floor_mod(first + 4, 7); /* 1970-01-01 was a Thursday */
    int64_t day = first + hr_floor_mod(change->day - weekday, 7) + INT64_C(7) * (change->week - 1);
    return day < hr_civil_month_begin(year, change->month + 1) ? day : day - 7;
}

static int64_t change_day(const struct hr_zone_change *change, int64_t year)
{
    int64_t new_year = hr_civil_new_year(year);
    switch (change->kind) {
    case HR_CHANGE_JULIAN:
        return new_year + change->day - 1 + (change->day >= 60 && hr_civil_is_leap(year)); /* 60 is 1 March */
    case HR_CHANGE_WEEKDAY:
        return weekday_in_month(change, year);
    case HR_CHANGE_DAY_OF_YEAR:
    default:
        return new_year + change->day;
    }
}

static int64_t begin_in_year(const struct hr_zone_rule *rule, int64_t year)
{
    return change_day(&rule->begin, year) * HR_S_PER_DAY + rule->begin.time_s - rule->standard_offset_s;
}

static int64_t end_in_year(const struct hr_zone_rule *rule, int64_t year)
{
    return change_day(&rule->end, year) * HR_S_PER_DAY + rule->end.time_s - rule->daylight_offset_s;
}

struct extent {
    int64_t begin_s;
    int64_t end_s;
};

/* The daylight saving that begins in this year: until the first end after it, in the next year south of the equator. */
static struct extent daylight_of(const struct hr_zone_rule *rule, int64_t year)
{
    struct extent daylight = {begin_in_year(rule, year), end_in_year(rule, year)};
    while (daylight.end_s <= daylight.begin_s) { /* at most twice: ends lie about a year apart */
        daylight.end_s = end_in_year(rule, ++year);
    }
    return daylight;
}

/* Times of up to a week either way can carry a year's changes into its neighbours, so two years each way are looked at.
 * Daylight saving that goes on until the next begins is one: so a rule says that it lasts all year. */
struct hr_zone_offset hr_zone_rule_offset_at(const struct hr_zone_rule *rule, int64_t at_s)
{
    if (!rule->has_daylight) {
        return (struct hr_zone_offset){rule->standard_offset_s, INT64_MIN, INT64_MAX};
    }
    int64_t year = hr_civil_year_of(hr_floor_div(at_s, HR_S_PER_DAY));
    struct extent daylight = daylight_of(rule, year - 2); /* begins before at_s */
    for (int64_t y = year - 1; y <= year + 2; y++) {
        struct extent next = daylight_of(rule, y);
        if (next.begin_s <= daylight.end_s) {
            daylight.end_s = next.end_s;
            continue;
        }
        if (at_s < daylight.end_s) {
            break;
        }
        if (at_s < next.begin_s) {
            return (struct hr_zone_offset){rule->standard_offset_s, daylight.end_s, next.begin_s};
        }
        daylight = next;
    }
    return (struct hr_zone_offset){rule->daylight_offset_s, daylight.begin_s, daylight.end_s};
}
