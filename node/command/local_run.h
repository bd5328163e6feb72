/* Local run: the processes of a local plan, from start to stop: one headroomd for each node, and headroom-chaos for the
 * links where the plan has them.
 *
 * A child is in a process group of its own, so that the terminal's Ctrl-C, which is for us, is no second order to stop
 * for it; and it ends when we do. Its standard error goes to FOLDER/NAME.log.
 *
 * Thread: the main one. Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD for the process, and waits for them.
 * Errors are printed, a line each, as the commands do. */
#ifndef HR_NODE_COMMAND_LOCAL_RUN_H
#define HR_NODE_COMMAND_LOCAL_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/units.h"
#include "node/command/local_plan.h"
#include "node/config_yaml.h"

struct hr_local_child {
    pid_t pid; /* 0: it has ended, or was not started */
    bool is_ready;
    bool is_ending; /* because we want it to */
};

struct hr_local {
    /* To be set before. */
    struct hr_local_plan plan;
    char folder[HR_CONFIG_PATH_BYTES_MAX + 1]; /* absolute; with the node files, the secret, and the links */
    char headroomd[HR_CONFIG_PATH_BYTES_MAX + 1], chaos[HR_CONFIG_PATH_BYTES_MAX + 1]; /* the programs */

    struct hr_local_child nodes[HR_LOCAL_NODES_MAX];
    struct hr_local_child links;
    uint32_t running; /* nodes */
    bool is_stopping, has_failed;
    bool has_terminal;        /* had one at its start */
    sigset_t watched, before; /* signals that are waited for; those that were blocked before */
};

/* All but hr_local_wait return an exit status, and have printed why. */

/* Starts all, and waits until all serve. HR_EXIT_DONE also where it was told to stop meanwhile: local->is_stopping.
 * Whatever it returns, hr_local_stop is to be called. */
int hr_local_start(struct hr_local *local);

/* Waits for so long, or for an order to stop: true. A node that ends meanwhile is told of, and local->has_failed. */
bool hr_local_wait(struct hr_local *local, hr_ns longest);

/* One node, which does not run, by its place in the plan. Does not wait until it serves. */
int hr_local_start_node(struct hr_local *local, uint32_t node);

/* Sends one node a signal that ends it, and waits until it has ended; kills one that takes too long. */
void hr_local_end_node(struct hr_local *local, uint32_t node, int number);

/* Any other signal. */
void hr_local_signal_node(const struct hr_local *local, uint32_t node, int number);

/* Stops all. HR_EXIT_FAILED: a node ended by itself, or not cleanly, now or before. */
int hr_local_stop(struct hr_local *local);

/* The whole of it: starts all, calls announce when all serve, and stops them when told to by SIGINT or SIGTERM; a
 * second one kills them. SIGHUP is passed on to the nodes, but where it comes because the terminal is gone: that is an
 * order to stop. Returns an exit status: HR_EXIT_FAILED: a node ended by itself, or not cleanly; HR_EXIT_UNREACHABLE:
 * one did not come up. */
int hr_local_run(struct hr_local *local, void (*announce)(const struct hr_local *local));

#endif
