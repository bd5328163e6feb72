/* Run load: asks all nodes of a cluster at a steady rate, on a thread of its own, whatever becomes of the nodes: a
 * connection that ends is made anew, and a request that finds none is one that got no answer.
 *
 * Each request is a check of {tenant: k0000000000} at cost 1. What is counted is cut into slots of time: a request
 * belongs to the slot in which it was due, an answer to the one in which it came. An answer's latency counts from when
 * its request was due, however late it was sent.
 *
 * Thread: all functions on the one that starts it; the counts are read when it was stopped. Memory: heap. */
#ifndef HR_CHAOS_RUN_LOAD_H
#define HR_CHAOS_RUN_LOAD_H

#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "node/command/local_plan.h"
#include "node/histogram.h"
#include "node/problem.h"

#define HR_RUN_SLOT_NS (100 * HR_NS_PER_MS)

struct hr_run_slot {
    uint32_t offered; /* what was due */
    uint32_t admitted, denied;
    uint32_t errors;   /* answers that are none */
    uint32_t degraded; /* of the admitted: by a node that could not ask the counter's owner */
};

/* Before the first fault, until the last is over, and after. */
enum hr_run_time { HR_RUN_CALM, HR_RUN_FAULTS, HR_RUN_AFTER, HR_RUN_TIMES };

struct hr_run_load_plan {
    const struct hr_local_plan *cluster;
    uint64_t per_second; /* in each region, over all its nodes */
    hr_ns lasts;         /* then nothing more is sent, and answers may come for a while */
    hr_ns faults_from, faults_until;
};

struct hr_run_load;

/* NULL: *ret_problem says why. */
struct hr_run_load *hr_run_load_start(const struct hr_run_load_plan *plan, struct hr_problem *ret_problem);

/* Since the start. */
hr_ns hr_run_load_elapsed(const struct hr_run_load *load);

/* The node that has answered last for the counter in a region, by its place in the plan; node_count: none has. */
uint32_t hr_run_load_owner(struct hr_run_load *load, uint32_t region);

/* Ends the thread. */
void hr_run_load_stop(struct hr_run_load *load);

/* The slots of one node, which it has until it is freed; those of answers that came late are at the end. */
uint32_t hr_run_load_slot_count(const struct hr_run_load *load);
const struct hr_run_slot *hr_run_load_slots(const struct hr_run_load *load, uint32_t node);

/* Of all answers that came at that time, errors too. */
const struct hr_histogram *hr_run_load_latency(const struct hr_run_load *load, enum hr_run_time time);

/* After it was stopped. NULL is fine. */
void hr_run_load_free(struct hr_run_load *load);

#endif
