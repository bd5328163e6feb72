/* Load: when the clients of each region ask, and what. Arrivals are at random around a rate that follows a day (in each
 * region at another hour) and has bursts, in which half of all requests are one and the same.
 *
 * Thread: one at a time. Pure. Memory: the struct. */
#ifndef HR_CHAOS_LOAD_H
#define HR_CHAOS_LOAD_H

#include <stdint.h>

#include "base/units.h"
#include "chaos/dice.h"

struct hr_load {
    uint64_t seed;
    uint32_t regions;
    uint32_t rps; /* of all regions together, as the mean of a day without bursts */
    uint32_t shape_count;
    struct hr_rng rng;
    struct hr_dice_waits waits;
};

/* Of a region at `at` (since the run began), in thousandths of requests a second. */
uint64_t hr_load_rate(const struct hr_load *load, uint32_t region, hr_ns at);

/* How long until the region's next request comes, and which it is. */
hr_ns hr_load_wait(struct hr_load *load, uint32_t region, hr_ns at);
uint32_t hr_load_shape(struct hr_load *load, uint32_t region, hr_ns at);

#endif
