/* Shrink: makes a failing run small. Of its schedule as many faults are left out as can be while the same invariant is
 * still violated (Zeller and Hildebrandt's ddmin, 2002), and what comes after the violation is cut off.
 *
 * Thread: one at a time. Memory: heap. Bounded by a number of runs, not by time, so that its outcome is a function of
 * the options too. */
#ifndef HR_CHAOS_SHRINK_H
#define HR_CHAOS_SHRINK_H

#include "base/err.h"
#include "chaos/sim.h"

#define HR_SHRINK_RUNS_MAX 200

struct hr_shrunk {
    struct hr_schedule schedule; /* freed by hr_schedule_deinit */
    hr_ns violated_at;
    uint32_t runs;
};

/* `failed` is the outcome of a run of these options under this schedule, with a violation. HR_E_MEMORY. */
HR_MUST enum hr_err hr_shrink(const struct hr_sim_options *options, const struct hr_schedule *schedule,
                              const struct hr_sim_outcome *failed, struct hr_shrunk *ret_shrunk);

#endif
