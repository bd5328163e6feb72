/* Calendar periods: which hour, day, week, month or year of a time zone an instant lies in.
 *
 * A period has a number, the same on every node, and an extent in Unix seconds. The numbers:
 *   day    days since 1970-01-01 in local dates          week  Mondays: floor((day + 3) / 7)
 *   month  year * 12 + month - 1                         year  the year
 *   hour   the Unix second at which that hour begins (a repeated hour is an hour of its own)
 * A day, week, month or year begins at the first instant whose local time is at or past its local midnight: a midnight
 * that daylight saving skips falls on the transition, one that comes twice counts once, at its first coming, and a
 * local date that a zone skipped is a period of no length. An hour begins wherever the local clock shows a full hour,
 * or jumps into another hour; a jump within one hour makes it longer or shorter. So consecutive periods tile time
 * without gap or overlap, in every zone.
 *
 * Thread: any. Memory: none. Pure. */
#ifndef HR_LIMITER_CALENDAR_H
#define HR_LIMITER_CALENDAR_H

#include <stdint.h>

#include "limiter/zone.h"

enum hr_calendar_unit {
    HR_HOUR,
    HR_DAY,
    HR_WEEK,
    HR_MONTH,
    HR_YEAR,
};

struct hr_period {
    int64_t number;
    int64_t begin_s; /* Unix seconds, first second of the period */
    int64_t end_s;   /* first second after it */
};

/* The period that holds at_s (Unix seconds, 0 to HR_TIME_NS_MAX / 10^9). zone NULL is UTC. O(log transitions). */
struct hr_period hr_period_at(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t at_s);

/* The period of that number, which hr_period_at gave before. For an hour, the one that begins there. */
struct hr_period hr_period_numbered(const struct hr_zone *zone, enum hr_calendar_unit unit, int64_t number);

#endif
