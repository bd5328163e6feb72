/* Limit: one named rule of a limits file, as plain data. Whoever reads a file or a message fills it in; the limiter
 * compiles an array of them into a limit set and never changes them.
 *
 * Everything pointed to is borrowed and outlives the limit set. Integers only, units in names. */
#ifndef HR_LIMITER_LIMIT_H
#define HR_LIMITER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "limiter/calendar.h"
#include "limiter/zone.h"

/* Bounds of the contract, section 2. */
#define HR_LIMIT_NAME_BYTES_MAX 64
#define HR_ATTRIBUTES_MAX 32
#define HR_ATTRIBUTE_NAME_BYTES_MAX 64
#define HR_ATTRIBUTE_VALUE_BYTES_MAX 1024
#define HR_LOG_LIMIT_MAX 100000 /* N of a sliding log */

/* Parts of a global cap, in millionths. */
#define HR_PPM 1000000U
#define HR_RESERVE_PPM_DEFAULT 200000U

/* Bounds of our own. */
#define HR_LIMITS_MAX 16384  /* limits in one set */
#define HR_CONDITIONS_MAX 32 /* attributes in one `when` */
#define HR_PATTERNS_MAX 1024 /* patterns in one condition's list */
#define HR_TOUCHED_MAX 128   /* limits that one request may touch */

/* value of the enum, name in files and answers */
#define HR_ALGORITHM_LIST(X)               \
    X(HR_TOKEN_BUCKET, "token_bucket")     \
    X(HR_GCRA, "gcra")                     \
    X(HR_LEAKY_BUCKET, "leaky_bucket")     \
    X(HR_FIXED_WINDOW, "fixed_window")     \
    X(HR_SLIDING_WINDOW, "sliding_window") \
    X(HR_SLIDING_LOG, "sliding_log")       \
    X(HR_QUOTA, "quota")                   \
    X(HR_CONCURRENCY, "concurrency")

enum hr_algorithm {
#define X(value, name) value,
    HR_ALGORITHM_LIST(X)
#undef X
};

enum hr_mode { HR_ENFORCE, HR_SHADOW };
enum hr_scope { HR_SCOPE_REGION, HR_SCOPE_GLOBAL };
enum hr_durability { HR_PERIODIC, HR_MEMORY, HR_RESERVED };
enum hr_on_unavailable { HR_UNAVAILABLE_LOCAL, HR_UNAVAILABLE_ALLOW, HR_UNAVAILABLE_DENY };

/* The numbers of a limit. Fields that its algorithm does not have are 0. */
struct hr_rule {
    enum hr_algorithm algorithm;
    enum hr_calendar_unit unit; /* quota */
    uint64_t capacity;          /* b, N of a window, quota or slots: what answers call `limit`. 1 to HR_COST_MAX */
    uint64_t rate;              /* N of "N per P": buckets. 1 to HR_COST_MAX */
    uint64_t period_ns;         /* P: buckets and windows. 1 to HR_PERIOD_NS_MAX */
    uint64_t ttl_ns;            /* concurrency. HR_NS_PER_MS to HR_PERIOD_NS_MAX */
    const struct hr_zone *zone; /* quota; NULL is UTC */
    struct hr_span zone_name;   /* quota: as it was written, for people */
};

/* One alternative of a condition. */
struct hr_cidr {
    uint8_t family_bytes; /* 4 or 16 */
    uint8_t prefix_bits;
    uint8_t address[16];
};

struct hr_pattern {
    enum { HR_MATCH_EXACT, HR_MATCH_GLOB, HR_MATCH_CIDR } kind;
    bool negated;        /* {not: X} as an entry of a list */
    struct hr_span text; /* exact and glob; as written for cidr */
    struct hr_cidr cidr;
};

/* One entry of `when`: holds where any pattern matches; negated turns the whole around. An absent attribute matches
 * no pattern but a negated one. */
struct hr_condition {
    struct hr_span attribute;
    bool negated;
    uint32_t pattern_count; /* 1 to HR_PATTERNS_MAX */
    const struct hr_pattern *patterns;
};

struct hr_limit {
    struct hr_span name;
    uint32_t key_count; /* 0: one counter for all requests */
    uint32_t when_count;
    const struct hr_span *key; /* attribute names, in the file's order, no duplicates */
    const struct hr_condition *when;
    struct hr_rule rule;
    enum hr_mode mode;
    enum hr_scope scope;
    uint32_t reserve_ppm; /* global: the part of its share that a region never lends, 0 to HR_PPM; else 0 */
    uint32_t slack_ppm;   /* global: how much above the cap all regions together may hold, 0 to HR_PPM; else 0 */
    enum hr_durability durability;
    enum hr_on_unavailable on_unavailable;
};

/* What one limit has decided: requests that it was charged for, and requests that it denied (in
 * shadow: would have). One that it had room for and another limit denied is neither; peeks are not counted. */
struct hr_tally {
    uint64_t admitted, denied;
};
struct hr_attribute {
    struct hr_span name, value;
};

/* One request as the limiter sees it. Names are unique among its attributes: the decoder's duty. */
struct hr_request {
    const struct hr_attribute *attributes;
    uint32_t attribute_count; /* 1 to HR_ATTRIBUTES_MAX */
    bool peek;
    bool is_ahead;   /* nothing is charged: only what it would spend is asked of the store (durability reserved) */
    bool brief;      /* leave the rows' remaining and reset_after_ms out: nobody asks for them */
    uint64_t cost;   /* 0 to HR_COST_MAX */
    uint64_t serial; /* unique among this limiter's requests: leases are named by it */
};

const char *hr_algorithm_name(enum hr_algorithm algorithm);

/* What is wrong with a rule's numbers: NULL where nothing is, else what was expected, in words for the person who wrote
 * it. */
const char *hr_rule_fault(const struct hr_rule *rule);

/* The shapes of the contract: a limit's name [a-z0-9-]{1,64}, an attribute's name [a-z0-9_.-]{1,64}, and an attribute's
 * value: 0 to 1,024 bytes of UTF-8 (RFC 3629) without NUL. */
bool hr_limit_name_is_valid(struct hr_span name);
bool hr_attribute_name_is_valid(struct hr_span name);
bool hr_attribute_value_is_valid(struct hr_span value);

/* Parses "10.0.0.0/8" or "2001:db8::/32". HR_E_INVALID: no such network. HR_E_RANGE: bits are set behind the prefix. */
HR_MUST enum hr_err hr_cidr_parse(struct hr_span text, struct hr_cidr *ret_cidr);

#endif
