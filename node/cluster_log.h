/* Cluster log: what happens among the members, and packets that were refused, as lines for the operator.
 *
 * A reason for refusing packets is said when it first occurs, and then at most every HR_CLUSTER_LOG_NS with how often
 * it has: an attacker can fill no disk. Thread: the core's. Memory: the struct alone. */
#ifndef HR_NODE_CLUSTER_LOG_H
#define HR_NODE_CLUSTER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "node/core.h"
#include "node/log.h"

#define HR_CLUSTER_LOG_NS (60 * HR_NS_PER_S)

/* A node that nobody has answered for so long says so: that others refuse it stands in their logs, not in its own. */
#define HR_CLUSTER_UNANSWERED_NS (5 * HR_NS_PER_S)

struct hr_cluster_log {
    uint64_t said[HR_REFUSALS]; /* as often as each reason had occurred when it was said last */
    hr_ns quiet_until[HR_REFUSALS];
    uint64_t strangers; /* as often as one had been refused */
    hr_ns strangers_quiet_until, unanswered_quiet_until;
};

enum hr_cluster_word {
    HR_CLUSTER_FINE,
    HR_CLUSTER_USURPED,  /* another node has this one's name: stop */
    HR_CLUSTER_OUTLIVED, /* others know a later life of this node: start again, above *ret_life */
};

/* To be called in each turn; nothing is said of a node that is alone. *ret_life is written for HR_CLUSTER_OUTLIVED. */
enum hr_cluster_word hr_cluster_log_turn(struct hr_cluster_log *said, struct hr_core *core, const struct hr_log *log,
                                         struct hr_now now, uint64_t *ret_life);

#endif
