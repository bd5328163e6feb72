/* Limit set: an array of limits compiled so that a request finds the few that can touch it.
 *
 * Each limit is filed under one thing that a request must have for it: a value that an exact condition asks for, or an
 * attribute that its key or another condition needs, whichever the fewest limits share; else under "always". So the
 * cost of a match follows the limits that the request's own attributes point to, not the size of the set.
 *
 * Thread: any once built (read-only). Memory: handed in, hr_limit_set_bytes(). No heap. */
#ifndef HR_LIMITER_LIMIT_SET_H
#define HR_LIMITER_LIMIT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "limiter/limit.h"

/* A limit that is filed somewhere. */
struct hr_filed {
    uint32_t limit;
    bool is_enough; /* it asks for nothing more than what it is filed under */
};

/* Entries [first, first + count) of the set's postings. */
struct hr_posting {
    uint32_t first, count;
};

/* One attribute name that some limit speaks of, or one value of it that some limit asks for. */
struct hr_set_entry {
    struct hr_span text;
    uint64_t head, tail; /* bytes of the text that tell it from others at a glance */
    uint32_t scope;      /* names: 0; values: the number of their attribute */
    uint32_t number;     /* names: the number of the attribute */
    uint32_t shared_by;  /* limits that could be filed here */
    bool used;           /* else an empty place of the hash table */
    bool has_values;     /* names: limits are filed under values of the attribute */
    struct hr_posting posting;
};

struct hr_limit_set {
    const struct hr_limit *limits;
    uint32_t limit_count;
    uint32_t attribute_count;
    uint32_t name_mask, value_mask; /* sizes of the two hash tables, less one */
    struct hr_set_entry *names, *values;
    struct hr_filed *postings; /* by limit, ascending within each posting */
    uint32_t *attributes;      /* for each limit: the numbers of its key's, then of its conditions' attributes */
    uint32_t *attribute_from;  /* where a limit's begin */
    struct hr_posting always;
};

/* What a request's attributes are in the set's numbers, and the limits that it touches, in the file's order. */
struct hr_match {
    uint32_t known_count;
    uint32_t known[HR_ATTRIBUTES_MAX];               /* number of the attribute */
    const struct hr_span *values[HR_ATTRIBUTES_MAX]; /* borrowed from the request */
    uint32_t count;
    uint32_t limits[HR_TOUCHED_MAX];
};

/* How much memory build wants for these limits. */
size_t hr_limit_set_bytes(const struct hr_limit *limits, uint32_t limit_count);

/* HR_E_TOO_MANY: over HR_LIMITS_MAX. HR_E_MEMORY: memory_bytes is below hr_limit_set_bytes(). The memory is aligned for
 * any type; it and the limits are borrowed for the set's life. Limits are taken as valid: the reader has checked them.
 */
HR_MUST enum hr_err hr_limit_set_build(struct hr_limit_set *set, const struct hr_limit *limits, uint32_t limit_count,
                                       void *memory, size_t memory_bytes);

/* HR_E_TOO_MANY: more than HR_TOUCHED_MAX limits apply. */
HR_MUST enum hr_err hr_limit_set_match(const struct hr_limit_set *set, const struct hr_request *request,
                                       struct hr_match *ret_match);

/* The request's value for the i-th attribute of a touched limit's key. */
const struct hr_span *hr_match_key_value(const struct hr_limit_set *set, const struct hr_match *match, uint32_t limit,
                                         uint32_t i);

#endif
