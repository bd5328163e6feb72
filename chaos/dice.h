/* Dice: what a simulation draws, in integers alone, so that every machine and compiler draws the same.
 *
 * Thread: any. Pure. Memory: the structs. */
#ifndef HR_CHAOS_DICE_H
#define HR_CHAOS_DICE_H

#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"

#define HR_DICE_STEPS 1024

/* Waiting times of what comes at random: the quantiles of the exponential distribution with mean 65,536. */
struct hr_dice_waits {
    uint32_t quantile[HR_DICE_STEPS];
};

void hr_dice_waits_init(struct hr_dice_waits *ret_waits);

/* A waiting time of this mean, which is below 2^40. */
static inline hr_ns hr_dice_wait(const struct hr_dice_waits *waits, struct hr_rng *rng, hr_ns mean)
{
    uint64_t quantile = waits->quantile[hr_rng_next(rng) >> 54];
    return (hr_ns)(((uint64_t)mean * quantile) >> 16);
}

/* Anything from low to high, both included. Requires: low <= high. */
static inline int64_t hr_dice_between(struct hr_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)hr_rng_below(rng, (uint64_t)(high - low) + 1);
}

/* A generator of its own for one purpose, so that drawing more for one thing never changes another. */
static inline struct hr_rng hr_dice_fork(uint64_t seed, uint64_t purpose)
{
    struct hr_rng rng = {.state = seed ^ (purpose * UINT64_C(0xd1342543de82ef95))};
    (void)hr_rng_next(&rng);
    return rng;
}

#endif
