/* Results: what `sim --json` and `run --json` have printed, a line each, summed up: of simulated clusters how much was
 * run and which failed, of scenarios the verdict of each check.
 *
 * Strict about what it goes by, blind to all else a line has: a later version may tell more.
 * Thread: any. Memory: heap, for the line that is looked at and some KiB for each run that is kept. */
#ifndef HR_CHAOS_RESULTS_JANSSON_H
#define HR_CHAOS_RESULTS_JANSSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "chaos/check.h"
#include "chaos/schedule.h"

#define HR_RESULTS_LINE_BYTES_MAX ((size_t)64 << 20) /* a run of many days has tens of thousands of faults */
#define HR_RESULTS_KEPT_MAX 10000                    /* failed runs, and scenarios, each */
#define HR_RESULTS_CHECKS_MAX 8

struct hr_results_check {
    char name[32], bound[64], measured[64];
    bool is_held;
};

struct hr_results_scenario {
    char name[64];
    bool is_held;
    uint32_t check_count;
    struct hr_results_check checks[HR_RESULTS_CHECKS_MAX];
};

struct hr_results_failure {
    char command[1024]; /* that repeats it */
    char check[32];     /* the first, in the order of invariants, that was violated */
};

struct hr_results {
    uint64_t sims, sims_failed;
    uint64_t seconds; /* of the clusters' time */
    uint64_t asked, admitted, denied, refused, lost, crashes;
    uint64_t checked[HR_CHECK_COUNT], violated[HR_CHECK_COUNT];
    uint64_t strikes[HR_STRIKE_COUNT]; /* of the schedules */
    uint32_t failure_count, scenario_count;
    struct hr_results_failure *failures;
    struct hr_results_scenario *scenarios;
};

/* Adds one line; *results is all zeros before the first. HR_E_INVALID: it is no such line; HR_E_TOO_MANY: those that
 * are to be kept are too many. After an error it may be counted in part. */
HR_MUST enum hr_err hr_results_add(struct hr_results *results, struct hr_span line);

/* Did every cluster and every scenario hold what it should? */
bool hr_results_held(const struct hr_results *results);

void hr_results_deinit(struct hr_results *results);

#endif
