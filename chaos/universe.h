/* Universe: the requests that a limits file can be asked, and the counters that they touch. It is made of the file
 * alone: for each attribute that some limit speaks of it knows values that the limits ask for, and for those that only
 * tell counters apart a population whose r-th member comes 1/r as often as the first (Zipf).
 *
 * Everything about a request is worked out once, here: its bytes, and its counters, numbered from 0. So a run of a
 * hundred million requests has nothing left to do but draw a number.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_UNIVERSE_H
#define HR_CHAOS_UNIVERSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "limiter/limit_set.h"
#include "node/limits_yaml.h"
#include "node/problem.h"
#include "rpc/params.h"

/* How many different requests a run draws from: a power of two. */
#define HR_SHAPES_MAX 4096

struct hr_sim_touch {
    uint32_t limit, counter;
};

struct hr_shape {
    uint64_t cost;
    bool holds;           /* a concurrency limit among its own: the answer names leases, which are to be released */
    uint32_t touch_count; /* enforced limits alone */
    struct hr_sim_touch *touches; /* in the file's order */
    struct hr_span params;        /* packed: a check without an id */
    struct hr_params *unpacked;   /* the same, for an id to be added: large, and seldom looked at */
};

struct hr_universe {
    const struct hr_limits_file *limits; /* borrowed */
    struct hr_limit_set set;
    void *set_memory;
    uint32_t shape_count, counter_count;
    struct hr_shape *shapes;
    struct hr_params *unpacked;
    uint32_t *counter_limits; /* of each counter, its limit */
    uint32_t *watched;        /* of each limit, the counter that most requests touch; UINT32_MAX: none does */
    char *text;               /* what all spans point into */
};

/* The limits are borrowed until free. NULL: *ret_problem says why. */
struct hr_universe *hr_universe_new(const struct hr_limits_file *limits, uint32_t keys, uint64_t seed,
                                    struct hr_problem *ret_problem);
void hr_universe_free(struct hr_universe *universe);

#endif
