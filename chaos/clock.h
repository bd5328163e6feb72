/* Clock: what a simulated node's two clocks show at a true time. Each node has its own, and they differ: the steady
 * clock began at some other instant and runs too fast or too slow; the wall clock is somewhere else again, and can be
 * stepped either way.
 *
 * Thread: any. Pure. Memory: the struct. */
#ifndef HR_CHAOS_CLOCK_H
#define HR_CHAOS_CLOCK_H

#include <stdint.h>

#include "base/units.h"

#define HR_SIM_DRIFT_PPM_MAX 1000 /* what the protocols promise to bear */

struct hr_sim_clock {
    hr_ns true_base, steady_base; /* the steady clock showed steady_base at true_base */
    int32_t drift_ppm;            /* since then: of a true second, as many millionths more */
    int64_t wall_ahead_ns;        /* of steady time */
};

struct hr_now hr_sim_clock_read(const struct hr_sim_clock *clock, hr_ns at);

/* The first true time at which the steady clock shows `steady` or more, or true_base where that was before. */
hr_ns hr_sim_clock_when(const struct hr_sim_clock *clock, hr_ns steady);

/* From `at` on it runs at another speed; what it shows goes on from what it showed. */
void hr_sim_clock_set_drift(struct hr_sim_clock *clock, hr_ns at, int32_t drift_ppm);

static inline void hr_sim_clock_step_wall(struct hr_sim_clock *clock, int64_t by_ns)
{
    clock->wall_ahead_ns += by_ns;
}

#endif
