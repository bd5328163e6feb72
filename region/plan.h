/* Plan: what the next charter should say, in the eyes of the node that leads the region.
 *
 * Rights are taken from the dead at once, and go to the standby, which has the copy. All else moves by hand-over, from
 * one that is alive to one that should own it by the map. A standby stays as long as it may, for a new one has no copy
 * at first.
 *
 * Thread: the owner's. Pure. */
#ifndef HR_REGION_PLAN_H
#define HR_REGION_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "region/charter.h"
#include "region/partition.h"

struct hr_plan_node {
    struct hr_candidate candidate; /* its id, host and weight */
    bool is_eligible;              /* may be given partitions */
    bool is_dead;                  /* a majority has not heard it for longer than a lease lasts: its rights end */
    bool is_gone;                  /* leaves, or has left: it goes when nothing names it any more */
    const uint8_t *held;           /* HR_PARTITION_SET_BYTES: what it says that it holds, under this very charter; or
                                      NULL: it has not said */
};

struct hr_plan {
    const struct hr_charter *current;
    uint32_t count; /* members of the charter, in its order, then newcomers */
    struct hr_plan_node nodes[HR_REGION_NODES_MAX];
    struct hr_partition_map map; /* of those that are eligible, as they were at the last plan */
    uint32_t drawn_count;
    struct hr_candidate drawn[HR_REGION_NODES_MAX];
    /* The charter and the nodes under which nothing was to be done, nor on its way; lineage 0: none yet. */
    uint64_t settled_lineage, settled_version;
    uint32_t settled_count;
    struct hr_plan_node settled[HR_REGION_NODES_MAX];
};

/* Writes the charter that should follow. False: the one in force is as it should be. *ret_is_urgent: it takes rights
 * from the dead, or somebody waits for it. */
bool hr_plan_next(struct hr_plan *plan, struct hr_charter *ret_next, bool *ret_is_urgent);

#endif
