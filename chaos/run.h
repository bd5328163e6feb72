/* Run: a scenario on a cluster of real processes on loopback: started, loaded, struck, healed, held against what it
 * promises, and stopped.
 *
 * The cap. Over any time t a cap of rate R and burst B admits R t + B, over all regions together. Two faults may add
 * to that, by so much and no more: a node that is killed may have forgotten what it admitted just before
 * (docs/CONSISTENCY.md, durability periodic), and a clock that jumps ahead refills what that time refills.
 *
 * Thread: the main one; the load has its own (chaos/run_load.h). Memory: one struct, the caller's, of some 200 KiB;
 * heap for what is counted, which run->load has when hr_run is done: the caller frees it. */
#ifndef HR_CHAOS_RUN_H
#define HR_CHAOS_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "chaos/run_load.h"
#include "chaos/scenario.h"
#include "node/command/local_run.h"

/* calm, faults, after; without faults the first alone */
#define HR_RUN_PHASES_MAX HR_RUN_TIMES

struct hr_run_phase {
    const char *name;
    const struct hr_histogram *latency;
    hr_ns from, to;
    struct hr_run_slot regions[HR_LOCAL_REGIONS_MAX]; /* by the plan's order */
    uint64_t admitted, bound;                         /* of all regions; what the cap allows for the phase by itself */
};

#define HR_RUN_CHECKS_MAX 5

struct hr_run_check {
    const char *name;
    char bound[64], measured[64]; /* in words */
    bool is_held;
};

struct hr_run {
    /* To be set before. */
    struct hr_scenario scenario;
    const char *command; /* that repeats it */
    const char *folder;  /* for the cluster's files; NULL: a temporary one, which is removed where all went well */
    bool is_quiet;       /* prints no line for each strike */

    struct hr_local local;
    bool has_disk[HR_LOCAL_NODES_MAX]; /* a small one is mounted for its data */
    struct hr_run_load *load;
    uint32_t strike_count;
    struct hr_strike_plan strikes[HR_SCENARIO_STRIKES_MAX];
    struct {
        uint32_t node; /* node_count: of none */
        hr_ns at;
    } struck[HR_SCENARIO_STRIKES_MAX]; /* what the strike of that place did */
    struct hr_histogram latency[HR_RUN_TIMES];
    hr_ns healed; /* how long after the last fault all was well; -1: it was not */

    uint32_t phase_count, check_count;
    struct hr_run_phase phases[HR_RUN_PHASES_MAX];
    struct hr_run_check checks[HR_RUN_CHECKS_MAX];
};

/* HR_EXIT_DONE: all checks were held. HR_EXIT_FAILED: not, and run->checks tell which; or it was told to stop, and
 * there are none. HR_EXIT_INVALID, HR_EXIT_UNREACHABLE: it could not be run, and why was printed. */
int hr_run(struct hr_run *run);

/* (run_disk.c) A disk of HR_RUN_DISK_MIB for each node that the scenario may fill one of: a file system in memory,
 * which only root can mount; else HR_EXIT_UNREACHABLE. Not in its place any more after close. */
#define HR_RUN_DISK_MIB 32
int hr_run_disks_open(struct hr_run *run);
void hr_run_disks_close(struct hr_run *run);
int hr_run_disk_fill(const struct hr_run *run, uint32_t node);
int hr_run_disk_free(const struct hr_run *run, uint32_t node);

/* (run_verdict.c) From when until when its strikes go on, in whole slots; without any, never. */
void hr_run_find_faults(const struct hr_run *run, hr_ns *ret_from, hr_ns *ret_until);

/* Fills in phases and checks from what was counted. */
void hr_run_judge(struct hr_run *run);

/* (run_report.c) */
void hr_run_print_strike(const struct hr_run *run, const struct hr_strike_plan *strike);
void hr_run_print(const struct hr_run *run);
void hr_run_print_json(const struct hr_run *run);

/* (run_html.c) As a page. */
void hr_run_print_html(const struct hr_run *run, FILE *out);

#endif
