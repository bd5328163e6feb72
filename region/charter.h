/* Charter: what the nodes of a region have agreed on: who they are, and who has which right over each partition.
 *
 * Charters come one after another, by version; ballot.h agrees on each. All charters of one lineage go back to one that
 * a single node made by itself. A partition's seat names
 *
 *   owner    who answers for it, once it holds it
 *   giver    who is to hand it to the owner first; none: the owner holds it outright
 *   standby  who keeps a copy of what the owner (until it has handed over: the giver) spends
 *
 * all as indices of `members`, whose order is the same in each charter that has the same members.
 *
 * Thread: any. Pure. Memory: the caller's; some 32 KiB. */
#ifndef HR_REGION_CHARTER_H
#define HR_REGION_CHARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "region/partition.h"

#define HR_NODE_NONE UINT8_MAX

/* Nodes of a charter, a bit for each index. */
typedef uint64_t hr_node_set;

/* What the giver of a partition is known to have. On the wire: never renumbered. */
enum hr_giver_mode {
    HR_GIVER_HOLDS = 0, /* it held the partition when it was named, and answers until it has handed it over. If it does
                           not know so any more (it was started anew), it hands over what it has. */
    HR_GIVER_COPY = 1,  /* it never held it: it hands over its standby copy */
    HR_GIVER_ASKED = 2, /* it may hold it, or have handed it to one that died: then it has nothing to add to the
                           owner's own copy */
    HR_GIVER_MODE_COUNT = 3,
};

struct hr_seat {
    uint32_t epoch; /* version of the charter that last changed who may hold it */
    uint8_t owner, giver, standby;
    uint8_t mode; /* enum hr_giver_mode; 0 where there is no giver */
};

struct hr_charter {
    uint64_t lineage;       /* 0: there is no charter */
    uint64_t version;       /* 1 and up */
    hr_node_set evicted;    /* members of the charter before that lost rights unasked, by their indices there */
    bool has_other_members; /* than the charter before */
    uint8_t count;
    uint64_t members[HR_REGION_NODES_MAX]; /* ids */
    struct hr_seat seats[HR_PARTITIONS];
};

/* HR_NODE_NONE: it is none of the members. */
uint8_t hr_charter_find(const struct hr_charter *charter, uint64_t member);

static inline hr_node_set hr_charter_all(const struct hr_charter *charter)
{
    return charter->count == 0 ? 0 : UINT64_MAX >> (64 - charter->count);
}

static inline hr_node_set hr_node_bit(uint8_t node)
{
    return node == HR_NODE_NONE ? 0 : UINT64_C(1) << node;
}

/* Are these a majority of the charter's members, those in `gone` not counted? Half of them is one where it has the
 * member of the least id. Any two majorities of the same members share one. */
bool hr_charter_is_majority(const struct hr_charter *charter, hr_node_set nodes, hr_node_set gone);

/* Does the one stand above the other? None stands below any; of two of one lineage the later; of two lineages the one
 * of the higher version, or of the lesser lineage. */
bool hr_charter_outranks(uint64_t lineage, uint64_t version, uint64_t other_lineage, uint64_t other_version);

/* A first charter: one node owns all. */
void hr_charter_found(struct hr_charter *charter, uint64_t lineage, uint64_t member);

/* Copies no more than is in use. */
void hr_charter_copy(struct hr_charter *to, const struct hr_charter *from);

/* Bytes, little-endian: lineage 8, version 8, evicted 8, has other members 1, count 1, members 8 each, then 4,096 seats
 * of epoch 4, owner 1, giver 1, standby 1, mode 1. */
#define HR_CHARTER_BYTES_MAX (26 + 8 * HR_REGION_NODES_MAX + 8 * HR_PARTITIONS)

size_t hr_charter_encode(const struct hr_charter *charter, uint8_t out[HR_CHARTER_BYTES_MAX]);

/* HR_E_CORRUPT: too short or too long, or something in it names what is not there. *ret_charter may have been written
 * in part then. */
HR_MUST enum hr_err hr_charter_decode(struct hr_span bytes, struct hr_charter *ret_charter);

#endif
