/* Water filling: weighted max-min fair parts of a whole, and the exact split of a whole by weights. In integers, with
 * the same result in every region that puts in the same numbers.
 *
 * Thread: the caller's. Pure. All numbers lie in 0 to 2^62. */
#ifndef HR_REGION_WATERFILL_H
#define HR_REGION_WATERFILL_H

#include <stdint.h>

#include "base/u128.h"

#define HR_REGIONS_MAX 8U

/* floor(a x b / c), at most 2^62. Requires: none is negative, c > 0. */
static inline int64_t hr_mul_div(int64_t a, int64_t b, int64_t c)
{
    struct hr_u128 quotient = hr_u128_div(hr_u128_mul((uint64_t)a, (uint64_t)b), (uint64_t)c);
    return (int64_t)hr_u128_saturate(quotient, UINT64_C(1) << 62);
}

static inline int64_t hr_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t hr_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* floor(sqrt(n)). */
uint64_t hr_isqrt(uint64_t n);

/* Nobody gets more than its need; those who get less than that get alike, by weight. A weight of 0 gets nothing.
 * Rounded down, so the sum never passes `whole`. At most count rounds. Requires: sums of weights and of needs stay
 * below 2^63; count is at most HR_REGIONS_MAX. */
void hr_waterfill(uint32_t count, const int64_t *needs, const int64_t *weights, int64_t whole, int64_t *ret_parts);

/* Splits whole by weights so that the parts add up to exactly that (largest remainder). Who gets the odd units among
 * equals begins at place `turn` modulo count. All weights 0: nobody gets anything. */
void hr_split(uint32_t count, const int64_t *weights, int64_t whole, uint64_t turn, int64_t *ret_parts);

#endif
