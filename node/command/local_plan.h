/* Local plan: a whole cluster on this machine's loopback, as `headroom local` starts it: who there is, where each
 * listens, and its node file.
 *
 * All rpc and http is at 127.0.0.1. The gossip of region number R is at 127.0.R.1, from 1 on, so that what comes from a
 * region can be told by its address.
 *
 * Thread: any. Memory: one struct of plain data, the caller's; it is some 60 KiB: keep it off small stacks. */
#ifndef HR_NODE_COMMAND_LOCAL_PLAN_H
#define HR_NODE_COMMAND_LOCAL_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "node/config_yaml.h"
#include "node/problem.h"

#define HR_LOCAL_REGIONS_MAX HR_REGIONS_MAX
#define HR_LOCAL_NODES_MAX 64 /* of all regions together */

struct hr_local_node {
    char name[HR_CONFIG_NAME_BYTES_MAX + 1]; /* REGION-NUMBER */
    uint32_t region;
    struct hr_address rpc, http, gossip;
    struct hr_address relay; /* with links: where others reach its gossip */
};

struct hr_local_plan {
    uint32_t region_count, nodes_each, node_count;
    char regions[HR_LOCAL_REGIONS_MAX][HR_CONFIG_NAME_BYTES_MAX + 1];
    struct hr_local_node nodes[HR_LOCAL_NODES_MAX]; /* those of one region together */
    char limits[HR_CONFIG_PATH_BYTES_MAX + 1];      /* empty: none; else absolute */
    bool has_chaos;                                 /* faults may be injected into the nodes */
    bool has_links;                                 /* what goes between nodes leads through relays (local_links.h) */
};

/* Who there is: regions as "eu,us,ap", and nodes_each in each of them. False: it cannot be; *ret_problem says why. */
HR_MUST bool hr_local_plan_init(struct hr_local_plan *plan, const char *regions, uint32_t nodes_each,
                                struct hr_problem *ret_problem);

/* Finds free ports for all. They are free when this returns, and are not kept. */
HR_MUST bool hr_local_plan_find_ports(struct hr_local_plan *plan, struct hr_problem *ret_problem);

/* Writes a node's file, for a folder with the file `secret` and a folder for each node's data in it. Whether all could
 * be written is for the caller to ask of `out`. */
void hr_local_plan_write(const struct hr_local_plan *plan, uint32_t node, FILE *out);

#endif
