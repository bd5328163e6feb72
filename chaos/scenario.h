/* Scenario: what `headroom-chaos run` does to a cluster of real nodes, and what must hold all the same. A YAML file,
 * read strictly, as a node's own; those that come with the program are such texts too (docs/CHAOS.md has an example).
 *
 *   cluster: {regions: [eu, us, ap], nodes: 2, delay: 80ms}
 *   cap:     {rate: 900/s, burst: 900, reserve: 20%}        # one limit over all regions
 *   load:    600/s                                          # against the cap, in each region
 *   lasts:   60s
 *   faults:
 *     - {at: 15s, for: 30s, cut: us}
 *   expect:  {reserve: 90%, answers: 99%, heals: 20s}
 *
 * Thread: any. Memory: one struct of plain data, the caller's; it is some 20 KiB. */
#ifndef HR_CHAOS_SCENARIO_H
#define HR_CHAOS_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "node/amount_text.h"
#include "node/command/local_plan.h"
#include "node/problem.h"

#define HR_SCENARIO_FAULTS_MAX 64
#define HR_SCENARIO_STRIKES_MAX 1024 /* of all faults: one that repeats strikes often */
#define HR_SCENARIO_TEXT_BYTES_MAX 255
#define HR_SCENARIO_LASTS_NS_MAX (3600 * HR_NS_PER_S)

enum hr_deed {
    HR_DEED_CUT,   /* a region: nothing passes between it and the others */
    HR_DEED_MUTE,  /* a region: nothing that it sends reaches the others */
    HR_DEED_DEAF,  /* a region: nothing that the others send reaches it */
    HR_DEED_DELAY, /* between all regions, each way */
    HR_DEED_LOSS,  /* the same */
    HR_DEED_KILL,  /* a node, with SIGKILL; it is started again when the fault is over */
    HR_DEED_STOP,  /* a node, with SIGTERM; the same */
    HR_DEED_PAUSE, /* a node, with SIGSTOP, until SIGCONT */
    HR_DEED_FILL,  /* a node's disk, a small one of its own, is full */
    HR_DEED_CLOCK, /* a node's clocks go wrong by so much, or more and more */
};
#define HR_DEED_COUNT (HR_DEED_CLOCK + 1)

const char *hr_deed_name(enum hr_deed deed);

struct hr_fault_plan {
    hr_ns at, lasts;    /* lasts 0: to the end */
    hr_ns every, until; /* every 0: it strikes once; else again and again, up to until */
    enum hr_deed deed;
    /* A region, a node as us-1, or us-owner: the node that answers for the cap in its region; of delay and loss, how
     * much. */
    char subject[HR_CONFIG_NAME_BYTES_MAX + 1];
    int64_t steady_ms, wall_ms; /* of a clock */
    int32_t drift_ppm;          /* of both clocks: of each second so many millionths more */
};

struct hr_scenario {
    char name[HR_CONFIG_NAME_BYTES_MAX + 1], about[HR_SCENARIO_TEXT_BYTES_MAX + 1];
    char regions[HR_SCENARIO_TEXT_BYTES_MAX + 1]; /* as --regions takes them */
    uint32_t nodes_each;
    char delay[32]; /* between regions, as written */
    uint64_t cap_per_second, burst;
    uint32_t reserve_ppm;
    uint64_t load_per_second; /* in each region */
    hr_ns lasts;
    uint32_t fault_count;
    struct hr_fault_plan faults[HR_SCENARIO_FAULTS_MAX];
    /* What must hold besides the cap; 0: not asked for. */
    uint32_t reserve_part_ppm; /* of its reserve, each region has at least so much at all times */
    uint32_t answers_ppm;      /* of the requests, so many are answered */
    hr_ns heals;               /* after the last fault all is well within this */
};

/* A file; or a text that problems call `path`. False: *ret_problem says what is wrong. */
HR_MUST bool hr_scenario_load(const char *path, struct hr_scenario *ret_scenario, struct hr_problem *ret_problem);
HR_MUST bool hr_scenario_parse(struct hr_span text, const char *path, struct hr_scenario *ret_scenario,
                               struct hr_problem *ret_problem);

/* The same in other time: when faults strike and how long they last, but not how often those that repeat do. */
void hr_scenario_scale(struct hr_scenario *scenario, hr_ns lasts);

/* One thing to do, and when. */
struct hr_strike_plan {
    hr_ns at;
    uint32_t fault;
    bool is_over;       /* undo what `strike` has done */
    uint32_t strike;    /* of the strikes; its own place where it is no undoing, and no step of a drift */
    int64_t drifted_ms; /* a step of that strike's drift: so far the clocks are to be off now; 0: it is none */
};

/* Clocks that drift are set anew whenever they are off by so much more. */
#define HR_SCENARIO_DRIFT_STEP_MS 1
#define HR_SCENARIO_DRIFT_PPM_MAX 100000

/* What is to be done, in the order of time; what would come after the end is left out, but for undoing. Returns how
 * many; those beyond HR_SCENARIO_STRIKES_MAX are left out. */
uint32_t hr_scenario_strikes(const struct hr_scenario *scenario, struct hr_strike_plan *ret_strikes);

/* Those that come with the program. */
struct hr_scenario_text {
    const char *name;
    struct hr_span text;
};
extern const struct hr_scenario_text hr_scenarios[];
extern const uint32_t hr_scenario_count;

#endif
