/* Members map: the members of a cluster as the answer of `members` tells them, and who may be forgotten.
 *
 * Thread: the owner's of the members. Pure. Memory: the caller's. */
#ifndef HR_NODE_MEMBERS_MAP_H
#define HR_NODE_MEMBERS_MAP_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "gossip/member.h"
#include "rpc/pack_msgpack.h"

/* The cluster as one node sees it. Members are named by their index; HR_MEMBER_NONE: nobody. */
struct hr_cluster_view {
    const struct hr_members *members; /* kept up to date by its owner */
    uint32_t partition_count;         /* of this node's region */
    uint32_t (*owner)(void *context, uint32_t partition);
    uint32_t (*standby)(void *context, uint32_t partition);
    enum hr_err (*forget)(void *context, uint64_t id); /* NULL: nobody can be forgotten. Errors: HR_E_NOT_FOUND */
    void *context;
};

/* Packs {view, members}; with partitions also {owners, standbys}: for each partition of this node's region the place of
 * a member in `members`, or -1. */
void hr_pack_members(struct hr_packer *packer, const struct hr_cluster_view *view, bool with_partitions);

/* The member of that name that is dead or left. HR_E_NOT_FOUND: there is none of that name. HR_E_INVALID: it lives. */
HR_MUST enum hr_err hr_members_find_gone(const struct hr_members *members, struct hr_span name, uint64_t *ret_id);

#endif
