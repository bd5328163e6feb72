#include "limiter/calendar.h"

#include "base/units.h"
#include "limiter/civil.h"

#define S_PER_HOUR INT64_C(3600)

/* ---- Days, weeks, months, years: numbers of local dates ---- */

/* Day 0, 1970-01-01, was a Thursday: week 0 began three days before it. */
static int64_t number_of_day(enum hr_calendar_unit unit, int64_t day)
{
    if (unit == HR_DAY) {
        return day;
    }
    if (unit == HR_WEEK) {
        return hr_floor_div(day + 3, 7);
    }
    int64_t year = hr_civil_year_of(day);
    return unit == HR_YEAR ? year : year * 12 + hr_civil_month_of(year, day) - 1;
}

static int64_t first_day(enum hr_calendar_unit unit, int64_t number)
{
    if (unit == HR_DAY) {
        return number;
    }
    if (unit == HR_WEEK) {
        return number * 7 - 3;
    }
    return unit == HR_YEAR ? hr_civil_new_year(number) : hr_civil_month_begin(number / 12, (int)(number % 12) + 1);
}

/* The first instant whose local time is local_s or later. None is earlier than the easternmost offset could make it;
 * from there, go from one stretch of equal offset to the next. */
static int64_t first_instant(const struct hr_zone *zone, int64_t local_s)
{
    int64_t at_s = local_s - HR_ZONE_OFFSET_S_MAX;
    for (;;) {
        struct hr_zone_offset offset = hr_zone_offset_at(zone, at_s);
        int64_t shown_s = local_s - offset.offset_s;
        if (shown_s < offset.until_s) {
            return shown_s > at_s ? shown_s : at_s; /* at_s where the change jumped over local_s */
        }
        at_s = offset.until_s;
    }
}

/* The latest local time shown at or before at_s: where the clock went back, later than what it shows at at_s.
 * first_instant(local) <= at_s if and only if local <= latest_local(at_s). */
static int64_t latest_local(const struct hr_zone *zone, int64_t at_s)
{
    struct hr_zone_offset offset = hr_zone_offset_at(zone, at_s);
    int64_t latest_s = at_s + offset.offset_s;
    while (offset.since_s + HR_ZONE_OFFSET_S_MAX > latest_s) {
        int64_t before_s = offset.since_s - 1;
        offset = hr_zone_offset_at(zone, before_s);
        if (before_s + offset.offset_s > latest_s) {
            latest_s = before_s + offset.offset_s;
        }
    }
    return latest_s;
}

static struct hr_period dates_numbered(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t number)
{
    return (struct hr_period){
        .number = number,
        .begin_s = first_instant(zone, first_day(unit, number) * HR_S_PER_DAY),
        .end_s = first_instant(zone, first_day(unit, number + 1) * HR_S_PER_DAY),
    };
}

/* ---- Hours ---- */

/* Whether an hour begins at at_s, a change from one offset to another: the clock jumps to a full hour or into another
 * hour. A change inside an hour, such as from 02:00 back to 01:30, only makes that hour longer or shorter. */
static bool hour_begins_at_change(int64_t at_s, int32_t before_s, int32_t after_s)
{
    int64_t local_s = at_s + after_s;
    return hr_floor_mod(local_s, S_PER_HOUR) == 0 ||
           hr_floor_div(local_s, S_PER_HOUR) != hr_floor_div(at_s - 1 + before_s, S_PER_HOUR);
}

static int64_t hour_begin(const struct hr_zone *zone, int64_t at_s)
{
    struct hr_zone_offset offset = hr_zone_offset_at(zone, at_s);
    for (;;) {
        int64_t full_s = at_s - hr_floor_mod(at_s + offset.offset_s, S_PER_HOUR);
        if (full_s >= offset.since_s) {
            return full_s;
        }
        struct hr_zone_offset before = hr_zone_offset_at(zone, offset.since_s - 1);
        if (hour_begins_at_change(offset.since_s, before.offset_s, offset.offset_s)) {
            return offset.since_s;
        }
        at_s = offset.since_s - 1;
        offset = before;
    }
}

static int64_t hour_end(const struct hr_zone *zone, int64_t at_s)
{
    struct hr_zone_offset offset = hr_zone_offset_at(zone, at_s);
    for (;;) {
        int64_t full_s = at_s - hr_floor_mod(at_s + offset.offset_s, S_PER_HOUR) + S_PER_HOUR;
        if (full_s < offset.until_s) {
            return full_s;
        }
        struct hr_zone_offset after = hr_zone_offset_at(zone, offset.until_s);
        if (hour_begins_at_change(offset.until_s, offset.offset_s, after.offset_s)) {
            return offset.until_s;
        }
        at_s = offset.until_s;
        offset = after;
    }
}

static struct hr_period hour_at(const struct hr_zone *zone, int64_t at_s)
{
    int64_t begin_s = hour_begin(zone, at_s);
    return (struct hr_period){.number = begin_s, .begin_s = begin_s, .end_s = hour_end(zone, at_s)};
}

struct hr_period hr_period_at(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t at_s)
{
    if (unit == HR_HOUR) {
        return hour_at(zone, at_s);
    }
    int64_t day = hr_floor_div(latest_local(zone, at_s), HR_S_PER_DAY);
    return dates_numbered(zone, unit, number_of_day(unit, day));
}

struct hr_period hr_period_numbered(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t number)
{
    return unit == HR_HOUR ? hour_at(zone, number) : dates_numbered(zone, unit, number);
}
