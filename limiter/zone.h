/* Zone: the offsets of one IANA time zone from UTC, parsed from the bytes of a TZif file (RFC 8536): the 64-bit block
 * of versions 2 and later, then the footer's rule for all time after the last transition. A file of version 1 has only
 * 32-bit times and no rule; it is taken as it is.
 *
 * Reading the file is the caller's; this is the pure decoder and the lookup.
 * Thread: any once parsed (read-only). Memory: the caller's, bounded by HR_ZONE_TRANSITIONS_MAX. */
#ifndef HR_LIMITER_ZONE_H
#define HR_LIMITER_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/zone_rule.h"

#define HR_ZONE_TRANSITIONS_MAX 2048
#define HR_ZONE_TYPES_MAX 256
#define HR_ZONE_FILE_BYTES_MAX (256 * 1024)

struct hr_zone {
    size_t transition_count;
    int32_t first_offset_s;                    /* before the first transition */
    int64_t at_s[HR_ZONE_TRANSITIONS_MAX];     /* Unix seconds, ascending */
    int32_t offset_s[HR_ZONE_TRANSITIONS_MAX]; /* from at_s[i] on, seconds east of UTC, other than just before */
    bool has_rule;                             /* else the last offset holds for ever */
    int64_t rule_since_s;                      /* from here on the rule decides; INT64_MIN: always */
    struct hr_zone_rule rule;
    uint64_t digest; /* of the file's bytes: zones of one digest are one zone */
};

/* Decodes a whole TZif file. Every count is held against the bytes that are there before it is believed.
 * HR_E_TRUNCATED: the file ends early. HR_E_TOO_MANY: above a bound of this header. HR_E_CORRUPT: not a TZif file, or
 * one that contradicts itself. HR_E_INVALID: its times count leap seconds, which Unix time does not.
 * *ret_zone is unspecified then. */
HR_MUST enum hr_err hr_zone_parse(struct hr_span tzif, struct hr_zone *ret_zone);

/* at_s: Unix seconds within the years 4 to 9996. zone NULL is UTC. O(log transitions). */
struct hr_zone_offset hr_zone_offset_at(const struct hr_zone *zone, int64_t at_s);

#endif
