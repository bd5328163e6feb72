/* Daemon: one node, put together: its files, its store, its shard, its listeners and its signals; from start to clean
 * stop.
 *
 * Thread: the one that runs the loop, which is the caller's; the store has its own. Memory: heap, and what the shard is
 * given. */
#ifndef HR_NODE_DAEMON_UV_H
#define HR_NODE_DAEMON_UV_H

#include <stdbool.h>

#include "node/config_yaml.h"
#include "node/problem.h"

struct hr_daemon_options {
    const struct hr_node_config *config; /* borrowed */
    bool is_dev; /* prints for a person where it listens and where its data is; a data folder that it made itself is
                    removed */
};

/* Runs the node until it is told to stop. False: it could not start; *ret_problem says why. */
HR_MUST bool hr_daemon_run(const struct hr_daemon_options *options, struct hr_problem *ret_problem);

#endif
