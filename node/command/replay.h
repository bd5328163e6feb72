/* Replay: the engine of a node under a virtual clock, in one process, with counters of its own: for `headroom replay`
 * and `headroom test`. The same requests always get the same answers.
 *
 * Thread: one. Memory: address space for all counters is mapped at the start, 60 bytes each, and a page becomes real
 * when a counter in it is first used. Counters stand in random order and pages are not given back: many keys in a row,
 * however short-lived, make all of it real. */
#ifndef HR_NODE_COMMAND_REPLAY_H
#define HR_NODE_COMMAND_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "limiter/limiter.h"
#include "node/limits_yaml.h"
#include "node/problem.h"

#define HR_REPLAY_COUNTERS_DEFAULT 4000000
#define HR_REPLAY_COUNTERS_MAX 1000000000

struct hr_replay;

/* The limits are borrowed. counters_max: 1 to HR_REPLAY_COUNTERS_MAX; leases and blocks of sliding logs get a sixteenth
 * of it each. NULL on failure, with ret_problem's what filled in. */
struct hr_replay *hr_replay_open(const struct hr_limits_file *limits, uint32_t counters_max,
                                 struct hr_problem *ret_problem);

/* NULL is allowed. */
void hr_replay_close(struct hr_replay *replay);

/* Decides a request at that instant of Unix time (0 to HR_TIME_NS_MAX / 1000), or at the latest instant seen where that
 * is later. The decision is borrowed until the next call. On an error ret_problem's what is filled in: HR_E_TOO_MANY;
 * HR_E_FULL, also where what is live leaves so little room that each request would need a sweep of the whole table. */
HR_MUST enum hr_err hr_replay_check(struct hr_replay *replay, const struct hr_request *request, int64_t at_us,
                                    const struct hr_decision **ret_decision, struct hr_problem *ret_problem);

/* Ends the leases that the request of this serial was given. False: it holds none (any more). */
bool hr_replay_release(struct hr_replay *replay, uint64_t serial, int64_t at_us);

#endif
