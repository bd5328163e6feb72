/* Recent: the last so many pairs of numbers, each with a small value: what came lately, so that it is not done twice.
 * When it is full the oldest makes way. Most that is asked for is not there: buckets are many, so that this is seen
 * without a look at any entry.
 *
 * Thread: the owner's. Pure. Memory: handed in. Every call is O(1) on average. */
#ifndef HR_REGION_RECENT_H
#define HR_REGION_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"

struct hr_recent_entry {
    uint64_t first, second;
    uint32_t chain; /* the next of the same bucket, by number; 0: none */
    uint8_t value;
};

struct hr_recent {
    struct hr_recent_entry *entries; /* a ring; numbers are 1 and up */
    uint32_t *buckets;
    uint32_t count_max, count, next; /* next: the place of the oldest, once it is full */
    uint32_t bucket_mask;
};

/* count_max is a power of two. */
void hr_recent_init(struct hr_recent *recent, uint32_t count_max, struct hr_bump *bump);

/* Has the memory fetched that find and add will look at, where so many others are added before. */
void hr_recent_prefetch(const struct hr_recent *recent, uint64_t first, uint64_t second, uint32_t before);

/* False: it is not there. */
bool hr_recent_find(const struct hr_recent *recent, uint64_t first, uint64_t second, uint8_t *ret_value);

/* Requires: it is not there. */
void hr_recent_add(struct hr_recent *recent, uint64_t first, uint64_t second, uint8_t value);

#endif
