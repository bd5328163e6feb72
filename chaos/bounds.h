/* Bounds: what a region's counters have spent, as far as those outside can tell. Between a request and its answer lies
 * a while in which it was decided, by the clock of one of several nodes; an answer that was lost may have cost
 * something or not. So each counter has two models (model.h), and the truth lies between them:
 *
 *   low   what was surely spent: by requests that were answered "allowed", each as early as can be, on a clock 1000 ppm
 *         too fast. What is admitted beyond it is a violation.
 *   high  what may have been spent: by each request that was not surely denied, as late as can be, on a clock as much
 *         too slow. A denial though that left room is a violation, and so is a look that finds less. A client's
 *         request that nobody waits for any more may come to a node seconds later, where links are slow, and be charged
 *         then: until all faults are over it counts, and then as if it had come last of all. What one node sends to
 *         another has no such grace; but a degraded request over several counters counts twice, at once.
 *
 * A bucket's low bound: of the charges since it was untouched none was decided more than L before its answer came, so
 * whatever they sum up to by their answers, they were decided within a time that is L longer. Windows that nodes with
 * other clocks hand to each other are bounded as buckets of twice their size.
 *
 * What a fault makes a region forget: while all its nodes answer, what a node spends is soon on its disk and at its
 * standby, and until when is noted. Once a node dies, or rights move unasked, the limits of durability `periodic` may
 * have forgotten what was spent since; those of `memory` all; those of `reserved` nothing. Where faults strike several
 * nodes before all was well in between, an owner and its standby may both be gone: then nothing is promised. What is
 * handed over may look like more than was spent: so the high bound holds where no right has moved for long enough, and
 * that of a bucket once it has been untouched, or full, since then.
 *
 * An answer that says `degraded` was decided, in part at least, by a node that could not ask. What one node admits so
 * is held to twice the limit: once for what owners decided of it, once for the node's own part.
 *
 * Thread: one at a time. Memory: heap. Time: since the run began. */
#ifndef HR_CHAOS_BOUNDS_H
#define HR_CHAOS_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "chaos/check.h"
#include "chaos/universe.h"
#include "rpc/told.h"

struct hr_bounds;

/* Numbers that change: one whenever a region's rights move unasked, or a process of it dies; the other whenever rights
 * move at all. */
struct hr_bounds_marks {
    uint64_t moves, shifts;
};

struct hr_bounds_config {
    const struct hr_universe *universe; /* borrowed, as is all below */
    struct hr_checker *checker;         /* takes the verdicts */
    uint32_t regions, nodes;            /* nodes in each */
    struct hr_bounds_marks (*marks)(void *user, uint32_t region);
    void *user;
};

/* NULL: no memory. */
struct hr_bounds *hr_bounds_new(const struct hr_bounds_config *config);
void hr_bounds_free(struct hr_bounds *bounds);

/* One request of a client, on its way or answered. */
struct hr_bounds_query {
    uint32_t region, node; /* node: among all */
    const struct hr_shape *shape;
    hr_ns sent, at;
};

/* It is sent. */
void hr_bounds_ask(struct hr_bounds *bounds, const struct hr_bounds_query *query);

/* Its decision has come. HR_E_MEMORY. */
HR_MUST enum hr_err hr_bounds_answer(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                                     const struct hr_told_decision *told);

/* The answer is one that was given before: it cost nothing. */
void hr_bounds_repeat(struct hr_bounds *bounds, const struct hr_bounds_query *query);

/* There is none, or an error: nobody knows what it cost. HR_E_MEMORY. */
HR_MUST enum hr_err hr_bounds_lose(struct hr_bounds *bounds, const struct hr_bounds_query *query);

/* What a look at the counters has shown: the answer of a peek, with all its rows. */
void hr_bounds_look(struct hr_bounds *bounds, const struct hr_bounds_query *query, const struct hr_told_decision *told,
                    enum hr_check check);

/* A lease is about to be given back. True: it is surely still there, for some seconds. */
bool hr_bounds_release(struct hr_bounds *bounds, const struct hr_bounds_query *query, struct hr_id128 lease);

/* It is back, or was gone. */
void hr_bounds_released(struct hr_bounds *bounds, const struct hr_bounds_query *query, struct hr_id128 lease,
                        bool is_surely_there, bool was_there);

/* Faults that strike now, in the region of this index. safe_until: all that was spent before is on disks and at
 * standbys. Called before each fault begins, after each ends, and now and then. */
struct hr_bounds_condition {
    uint32_t faults;
    bool is_wide; /* more than one node is struck */
    hr_ns safe_until;
    struct hr_wall wall_min, wall_max; /* that its nodes' clocks show */
};
void hr_bounds_condition(struct hr_bounds *bounds, uint32_t index, const struct hr_bounds_condition *condition,
                         hr_ns at);

/* The node's process has ended: what it decided alone is forgotten. */
void hr_bounds_end_life(struct hr_bounds *bounds, uint32_t node);

/* Has nothing struck, started or moved in the region since then, nor lately before? */
bool hr_bounds_was_calm(const struct hr_bounds *bounds, uint32_t region, hr_ns since);

#endif
