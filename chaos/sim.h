/* Sim: a whole cluster in one thread, under virtual time, on the library that production links. Clients ask, faults
 * strike by a schedule, and every answer is held against the invariants. First comes a calm phase, then faults, then
 * all is healed and must be well again within a bound.
 *
 * A run is a function of its options: the same options give the same trace hash, on every machine.
 *
 * Thread: one at a time for each run. Memory: heap, and mappings for the nodes. */
#ifndef HR_CHAOS_SIM_H
#define HR_CHAOS_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "chaos/check.h"
#include "chaos/net.h"
#include "chaos/place.h"
#include "chaos/schedule.h"
#include "node/histogram.h"
#include "node/limits_yaml.h"
#include "node/problem.h"

struct hr_sim_options {
    uint64_t seed;
    struct hr_sim_shape shape;
    hr_ns lasts_ns; /* all phases together: HR_SIM_NS_MIN to HR_SIM_NS_MAX */
    uint32_t rps;   /* of all clients together, 1 to HR_SIM_RPS_MAX */
    uint32_t keys;  /* different values of each attribute that tells counters apart, 1 to HR_SIM_KEYS_MAX */
    hr_ns flush_interval_ns;
    const struct hr_limits_file *limits; /* borrowed */
};

#define HR_SIM_NS_MIN (20 * HR_NS_PER_S)
#define HR_SIM_NS_MAX (INT64_C(100000) * 3600 * HR_NS_PER_S)
#define HR_SIM_RPS_MAX 1000000
#define HR_SIM_KEYS_MAX 1000000

/* The phases of a run of this length: faults strike in [faults_from, healed_from). */
struct hr_sim_phases {
    hr_ns faults_from, healed_from;
};
struct hr_sim_phases hr_sim_phases(hr_ns lasts_ns);

enum hr_phase { HR_PHASE_CALM, HR_PHASE_FAULTS, HR_PHASE_HEALED, HR_PHASE_COUNT };
extern const char *const hr_phase_names[HR_PHASE_COUNT];

/* A run is cut into so many slots for its timelines. */
#define HR_SIM_SLOTS 240

struct hr_sim_slot {
    uint64_t offered, admitted;             /* costs */
    uint64_t of_region[HR_SIM_REGIONS_MAX]; /* of what was admitted, that by each region */
};

/* The counter of a limit that most requests touch, over all domains together. */
struct hr_sim_timeline {
    uint32_t limit, counter;
    struct hr_sim_slot slots[HR_SIM_SLOTS];
};

struct hr_sim_counts {
    uint64_t asked; /* by clients, each retry too */
    uint64_t admitted, denied;
    uint64_t refused;  /* answered with an error */
    uint64_t lost;     /* no answer: the node was down, or died */
    uint64_t repeated; /* the first answer again, by id */
    uint64_t degraded; /* decided by a node that could not ask the owner */
    uint64_t waited;   /* answered only after the store was */
    uint64_t crashes, syncs, syncs_failed, batches_lost;
    uint64_t events;
};

struct hr_sim_outcome {
    uint64_t trace;      /* a hash over everything that happened */
    hr_ns ended_at;      /* the end, or where it was stopped at the first violation */
    enum hr_check first; /* violated; HR_CHECK_COUNT: none was */
    struct hr_verdict verdicts[HR_CHECK_COUNT];
    struct hr_sim_counts counts;
    struct hr_sim_net_counts net;
    uint64_t strikes[HR_STRIKE_COUNT]; /* how often each kind struck */
    struct hr_histogram latency[HR_PHASE_COUNT];
    uint32_t domains;
    uint32_t timeline_count;           /* at most HR_SIM_TIMELINES_MAX */
    struct hr_sim_timeline *timelines; /* freed by hr_sim_outcome_deinit */
};

#define HR_SIM_TIMELINES_MAX 16

/* Runs to its end, or to its first violation where stops_early says so. False: it could not be run, *ret_problem says
 * why; else *ret_outcome is to be given to deinit. */
HR_MUST bool hr_sim_run(const struct hr_sim_options *options, const struct hr_schedule *schedule, bool stops_early,
                        struct hr_sim_outcome *ret_outcome, struct hr_problem *ret_problem);

void hr_sim_outcome_deinit(struct hr_sim_outcome *outcome);

#endif
