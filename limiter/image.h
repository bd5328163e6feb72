/* Image: a counter or a lease as it outlives its process. Durations and counts, no pointers; the numbers of the rule it
 * was written under stand beside it, so that it can be restated if the limits file changed in between.
 *
 * What an image holds is never less than what was spent: restoring it gives a counter that is at most as full as the
 * one that was lost. */
#ifndef HR_LIMITER_IMAGE_H
#define HR_LIMITER_IMAGE_H

#include <stdint.h>

#include "base/hash.h"
#include "base/units.h"

/* A sliding log is saved as at most this many entries: neighbours are joined at the time of the younger. */
#define HR_IMAGE_ENTRIES_MAX 32

struct hr_entry_image {
    uint64_t age_ns; /* at saved_at */
    uint32_t cost;
};

struct hr_counter_image {
    struct hr_id128 id;
    struct hr_id128 limit; /* hr_limiter_limit_id of its limit's name */
    uint8_t algorithm;     /* enum hr_algorithm */
    uint64_t rate, period_ns;
    hr_ns saved_at;    /* steady time of the process that saved it */
    uint64_t ahead;    /* units that may have been spent since, under durability reserved */
    uint64_t words[3]; /* buckets: debt in 1/N ns, high and low word. fixed window: index, used. sliding window: index,
                          previous, current. quota: period, used */
    uint32_t entry_count;
    struct hr_entry_image entries[HR_IMAGE_ENTRIES_MAX]; /* sliding log, oldest first */
};

struct hr_lease_image {
    struct hr_id128 id, counter, limit;
    uint64_t slots;
    int64_t remaining_ns; /* of its ttl, at saved_at */
    hr_ns saved_at;
};

#endif
