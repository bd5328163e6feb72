/* Cases: the if-then tables of `headroom test` (docs/TESTING-LIMITS.md), read and checked against their limits file, so
 * that running them can only differ, never fail. Strict: whatever is unknown, impossible or without effect is a problem
 * with file, line and column.
 *
 * Thread: any, one call at a time. Memory: heap, freed by hr_cases_free. Reads the cases file and the limits file it
 * names. */
#ifndef HR_NODE_COMMAND_CASES_YAML_H
#define HR_NODE_COMMAND_CASES_YAML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "limiter/limit.h"
#include "node/limits_yaml.h"
#include "node/problem.h"

#define HR_CASE_TIMES_MAX 1000000 /* requests of one step */

/* What an expected value is, and so how it is written: value of the enum below. */
enum hr_want_kind { HR_WANT_BOOL, HR_WANT_COUNT, HR_WANT_WAIT, HR_WANT_ACTION, HR_WANT_LIMIT };

/* field of an answer, name in files, kind. The first group is of one decision, the second of many, the third of a
 * release, the last of one limit in a decision. */
#define HR_WANT_LIST(X)                                  \
    X(HR_WANT_ALLOWED, "allowed", HR_WANT_BOOL)          \
    X(HR_WANT_DOES, "action", HR_WANT_ACTION)            \
    X(HR_WANT_DECIDED_BY, "decided_by", HR_WANT_LIMIT)   \
    X(HR_WANT_RETRY, "retry_after_ms", HR_WANT_WAIT)     \
    X(HR_WANT_DELAY, "delay_ms", HR_WANT_COUNT)          \
    X(HR_WANT_ALLOWED_COUNT, "allowed", HR_WANT_COUNT)   \
    X(HR_WANT_DENIED_COUNT, "denied", HR_WANT_COUNT)     \
    X(HR_WANT_RELEASED, "released", HR_WANT_BOOL)        \
    X(HR_WANT_ROW_TOUCHED, "touched", HR_WANT_BOOL)      \
    X(HR_WANT_ROW_ALLOWED, "allowed", HR_WANT_BOOL)      \
    X(HR_WANT_ROW_LIMIT, "limit", HR_WANT_COUNT)         \
    X(HR_WANT_ROW_REMAINING, "remaining", HR_WANT_COUNT) \
    X(HR_WANT_ROW_RETRY, "retry_after_ms", HR_WANT_WAIT) \
    X(HR_WANT_ROW_RESET, "reset_after_ms", HR_WANT_COUNT)

enum hr_want_field {
#define X(value, name, kind) value,
    HR_WANT_LIST(X)
#undef X
};

/* One expected value. A limit as a value is its place in the limits file, or HR_WANT_NO_LIMIT; an action is its enum's
 * value. */
#define HR_WANT_NO_LIMIT INT64_C(-1)

struct hr_want {
    enum hr_want_field field;
    const struct hr_limit *limit; /* of the row fields; else NULL */
    int64_t value;
    uint32_t line; /* in the cases file */
};

#define HR_CASE_NO_STEP UINT32_MAX

struct hr_case_step {
    uint32_t line;
    uint32_t times;        /* 1 to HR_CASE_TIMES_MAX */
    int64_t at_us;         /* Unix time, not before the step above */
    uint32_t release_step; /* an earlier step of the same test, counted from 0, or HR_CASE_NO_STEP: a check */
    struct hr_span label;  /* empty: none */
    struct hr_request request;
    uint32_t want_count;
    struct hr_want *wants;
    struct hr_attribute *attributes;
};

struct hr_case_test {
    struct hr_span name;
    int64_t start_us;
    uint32_t step_count;
    struct hr_case_step *steps;
};

struct hr_doc;

struct hr_cases {
    struct hr_doc *doc; /* owns all text */
    struct hr_limits_file *limits;
    uint32_t test_count;
    struct hr_case_test *tests;
};

/* NULL on failure, with *ret_problem filled in. */
struct hr_cases *hr_cases_load(const char *path, struct hr_problem *ret_problem);

/* NULL is allowed. */
void hr_cases_free(struct hr_cases *cases);

const char *hr_want_field_name(enum hr_want_field field);
enum hr_want_kind hr_want_field_kind(enum hr_want_field field);

#endif
