/* Cap rules: what all regions must agree on about the global limits of a limits file, as numbers alone: it is compared
 * by a hash, kept in the store as bytes, and put in force by region/caps.h.
 *
 * Thread: any. Pure. Memory: the caller's; some 40 KiB. */
#ifndef HR_NODE_CAP_RULES_H
#define HR_NODE_CAP_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limiter.h"
#include "region/caps.h"

/* Global limits of a set. */
#define HR_CAP_RULES_MAX 512U

struct hr_cap_regions {
    uint32_t count, self; /* places, in the order of the names */
    struct hr_span names[HR_REGIONS_MAX];
    uint32_t weights[HR_REGIONS_MAX];
};

enum hr_cap_kind { HR_CAP_LEND = 0, HR_CAP_COVER_WINDOWS = 1, HR_CAP_COVER_HELD = 2, HR_CAP_KIND_COUNT = 3 };

struct hr_cap_rule {
    uint32_t number; /* of the limit: hr_cap.number */
    uint8_t kind;    /* enum hr_cap_kind */
    bool decays;     /* windows: the reserve shrinks with what is left of them */
    bool has_log;
    uint32_t reserve_permille, slack_permille;
    uint64_t rate, period_ns; /* LEND */
    uint64_t total;           /* the burst, the units of a window, or what may be held at once */
};

struct hr_cap_rules {
    uint64_t names; /* hash of the regions' names */
    uint32_t region_count;
    uint32_t weights[HR_REGIONS_MAX];
    uint32_t count;
    struct hr_cap_rule at[HR_CAP_RULES_MAX]; /* by number, the least first */
};

/* The rules of the set that the limiter has in force. Shadows keep no log, for they must never make an answer wait.
 * False: there are too many global limits; those that found no room have no share anywhere. */
bool hr_cap_rules_of(const struct hr_limiter *limiter, const struct hr_limit_set *set,
                     const struct hr_cap_regions *regions, bool saves, struct hr_cap_rules *ret_rules);

/* Which regions there are, in order; and all of the rules. */
uint64_t hr_cap_names_hash(const struct hr_cap_regions *regions);
uint64_t hr_cap_rules_hash(const struct hr_cap_rules *rules);

/* A limit's rule by its number; NULL: there is none. */
const struct hr_cap_rule *hr_cap_rules_find(const struct hr_cap_rules *rules, uint32_t number);

/* As region/caps.h takes it. Its number has the lowest bit set where the cap is pooled (region/lend.h): a limit that
 * becomes so, or ceases to be, is another one for the regions. */
void hr_cap_rule_fill(const struct hr_cap_rules *rules, const struct hr_cap_rule *rule, struct hr_cap_limit *ret_limit);

/* Bytes, little-endian: names 8, regions 1, weights 4 each, count 2, then for each rule number 4, kind 1, flags 1,
 * reserve 4, slack 4, rate 8, period 8, total 8. */
#define HR_CAP_RULE_BYTES 38U
#define HR_CAP_RULES_BYTES_MAX (11U + 4U * HR_REGIONS_MAX + HR_CAP_RULE_BYTES * HR_CAP_RULES_MAX)
size_t hr_cap_rules_encode(const struct hr_cap_rules *rules, uint8_t out[HR_CAP_RULES_BYTES_MAX]);

/* HR_E_CORRUPT: too short or too long, or a number is out of its range. *ret_rules may have been written in part. */
HR_MUST enum hr_err hr_cap_rules_decode(struct hr_span bytes, struct hr_cap_rules *ret_rules);

#endif
