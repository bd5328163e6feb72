/* Zone rule: a POSIX TZ string, as the footer of a TZif file holds it: a standard offset, and perhaps the two changes
 * that begin and end daylight saving in every year (RFC 8536 section 3.3; POSIX.1-2017 section 8.3).
 *
 * Thread: any once parsed (read-only). Memory: none. Pure. */
#ifndef HR_LIMITER_ZONE_RULE_H
#define HR_LIMITER_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* Every offset lies strictly between minus this and plus this. A POSIX TZ string reaches 25:59:59. */
#define HR_ZONE_OFFSET_S_MAX (26 * 3600)

/* The offset in force at an instant, and an extent around that instant over which it does not change. */
struct hr_zone_offset {
    int32_t offset_s; /* seconds east of UTC */
    int64_t since_s;  /* Unix seconds; INT64_MIN: it was never another */
    int64_t until_s;  /* first second after the extent; INT64_MAX: it will never be another */
};

enum hr_zone_change_kind {
    HR_CHANGE_JULIAN,      /* Jn: day n, 1 to 365, of a year whose 29 February is not counted */
    HR_CHANGE_DAY_OF_YEAR, /* n: day n, 0 to 365, of the year */
    HR_CHANGE_WEEKDAY,     /* Mm.w.d: weekday d (0: Sunday) in week w of month m, week 5 being the last */
};

/* On which day of each year daylight saving begins or ends, and when. */
struct hr_zone_change {
    enum hr_zone_change_kind kind;
    int16_t day;        /* n, or the weekday d */
    int8_t month, week; /* of Mm.w.d */
    int32_t time_s;     /* from that day's midnight, -167:59:59 to 167:59:59, in the local time in force just before */
};

struct hr_zone_rule {
    int32_t standard_offset_s;
    int32_t daylight_offset_s; /* may be the lower of the two, as in Europe/Dublin */
    bool has_daylight;
    struct hr_zone_change begin, end; /* of daylight saving */
};

/* Decodes a whole TZ string. HR_E_CORRUPT where it is none, or one that names daylight saving but not its changes;
 * *ret_rule is then unspecified. */
HR_MUST enum hr_err hr_zone_rule_parse(struct hr_span text, struct hr_zone_rule *ret_rule);

/* at_s: within the years 4 to 9996. O(1). */
struct hr_zone_offset hr_zone_rule_offset_at(const struct hr_zone_rule *rule, int64_t at_s);

#endif
