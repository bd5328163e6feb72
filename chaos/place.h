/* Place: where in a simulated cluster something is: everywhere, in one region, or at one node. Regions have short
 * names, nodes the region's and a number from 1: "eu", "eu-2"; "all" is everywhere.
 *
 * Thread: any. Pure. */
#ifndef HR_CHAOS_PLACE_H
#define HR_CHAOS_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define HR_SIM_REGIONS_MAX 8
#define HR_SIM_REGION_NODES_MAX 20
#define HR_SIM_PLACE_BYTES_MAX 16 /* of a name, with its NUL */

struct hr_sim_shape {
    uint32_t regions, nodes; /* nodes in each region */
};

struct hr_sim_place {
    enum { HR_SIM_PLACE_ALL, HR_SIM_PLACE_REGION, HR_SIM_PLACE_NODE } kind;
    uint32_t index; /* of the region, or of the node among all */
};

/* The index-th of HR_SIM_REGIONS_MAX names. */
const char *hr_sim_region_name(uint32_t index);

static inline uint32_t hr_sim_region_of(struct hr_sim_shape shape, uint32_t node)
{
    return node / shape.nodes;
}

static inline bool hr_sim_place_holds(struct hr_sim_place place, struct hr_sim_shape shape, uint32_t node)
{
    if (place.kind == HR_SIM_PLACE_ALL) {
        return true;
    }
    return place.index == (place.kind == HR_SIM_PLACE_NODE ? node : hr_sim_region_of(shape, node));
}

void hr_sim_place_print(struct hr_sim_place place, struct hr_sim_shape shape, char ret_text[HR_SIM_PLACE_BYTES_MAX]);

/* False: the cluster has no such place. */
bool hr_sim_place_parse(struct hr_span text, struct hr_sim_shape shape, struct hr_sim_place *ret_place);

#endif
