/* Members: the nodes of a cluster, of all its regions, as one node knows them.
 *
 * The table is written by the failure detector alone (swim.h); everybody else reads it. It grows and never shrinks but
 * by forget: a member that died or left keeps its place, so that an index names one member for good.
 *
 * Thread: the owner's. Pure. Memory: handed in. */
#ifndef HR_GOSSIP_MEMBER_H
#define HR_GOSSIP_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define HR_MEMBERS_MAX 512
#define HR_MEMBER_NAME_BYTES_MAX 64     /* of a node, and of a region */
#define HR_MEMBER_HOST_BYTES_MAX 64     /* what fails together: a machine, a rack; may be empty */
#define HR_MEMBER_ADDRESS_BYTES_MAX 255 /* "10.0.0.1:7400", "tcp://10.0.0.1:7401" */

/* The index of no member. */
#define HR_MEMBER_NONE UINT32_MAX

/* On the wire: never renumbered. */
enum hr_member_state { HR_MEMBER_ALIVE = 0, HR_MEMBER_SUSPECT = 1, HR_MEMBER_DEAD = 2, HR_MEMBER_LEFT = 3 };

struct hr_member {
    uint64_t id;          /* plain hash of region and name (hr_member_id); never 0 */
    uint64_t incarnation; /* a later life, or a later word about itself, is greater */
    enum hr_member_state state;
    uint32_t weight; /* its share of the region's partitions, 1 or more */
    char name[HR_MEMBER_NAME_BYTES_MAX + 1];
    char region[HR_MEMBER_NAME_BYTES_MAX + 1];
    char host[HR_MEMBER_HOST_BYTES_MAX + 1];
    char rpc[HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    char gossip[HR_MEMBER_ADDRESS_BYTES_MAX + 1];
};

struct hr_members {
    struct hr_member *all;
    uint32_t count, count_max;
    uint32_t self; /* the index of this node */
    uint64_t view; /* greater after each change of a state, a weight or an address, and of the count */
};

uint64_t hr_member_id(struct hr_span region, struct hr_span name);

/* HR_MEMBER_NONE where there is none. O(count). */
uint32_t hr_members_find(const struct hr_members *members, uint64_t id);

/* May it be asked? Alive, or only suspected. */
static inline bool hr_member_is_live(const struct hr_member *member)
{
    return member->state == HR_MEMBER_ALIVE || member->state == HR_MEMBER_SUSPECT;
}

const char *hr_member_state_name(enum hr_member_state state);

#endif
