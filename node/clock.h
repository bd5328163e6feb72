/* Clock: the one place where the programs read the machine's clocks; a node does so once for each event.
 *
 * Steady time is Unix time as it was at start, and since then what the monotonic clock counts, so that no step of the
 * machine's clock reaches it. Wall time is the machine's clock as it stands.
 *
 * Thread: any; all workers of a node share one clock. Memory: the struct alone. */
#ifndef HR_NODE_CLOCK_H
#define HR_NODE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/units.h"

struct hr_clock {
    int64_t anchor_ns; /* Unix time less monotonic time, at start */
    /* Faults for tests and chaos: added to what is read. They may be changed at any time, from any thread. */
    _Atomic int64_t steady_offset_ns, wall_offset_ns;
};

void hr_clock_start(struct hr_clock *ret_clock);

/* Nanoseconds of the machine's steady clock, for a program that only measures. */
hr_ns hr_clock_steady(void);

/* The steady clock alone, as it stands in what the next one reads. */
hr_ns hr_clock_steady_now(const struct hr_clock *clock);

/* Both clocks, each within [0, HR_TIME_NS_MAX]. */
struct hr_now hr_clock_now(const struct hr_clock *clock);

#endif
