/* Partition: who should answer for which part of the counters, as every node works it out for itself.
 *
 * The range of ids is cut into HR_PARTITIONS equal parts; a counter's is the top bits of its id, so that a part is one
 * run of cells in the limiter's table. For each part the candidates are put in order by weighted rendezvous (Thaler and
 * Ravishankar 1998; weights by -ln(u) / weight, which makes a candidate first as often as its weight says): the first
 * should own it, and the next on another host be its standby. The order of two candidates depends on nothing but the
 * two and the part, so a candidate that comes or goes moves its own share and no other.
 *
 * Chance alone strays from fair shares: by 2 % among 3 nodes, but by 11 % among 50, where a share is 82 partitions. So
 * shares that are more than HR_SHARE_STRAY_PERCENT off are trimmed, by as few partitions as that takes. Few nodes need
 * none of it; among many, a candidate that comes or goes may move some of those trimmed beside its share.
 *
 * Integers only: the same candidates make the same map on every machine, in whatever order they are handed in.
 * Thread: any. Pure. Memory: the caller's. */
#ifndef HR_REGION_PARTITION_H
#define HR_REGION_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "gossip/member.h"

#define HR_PARTITION_BITS 12
#define HR_PARTITIONS (1U << HR_PARTITION_BITS)

/* Nodes of one region. */
#define HR_REGION_NODES_MAX 64

/* How far a share of the partitions may be off what its weight says, give or take one partition. */
#define HR_SHARE_STRAY_PERCENT 8

static inline uint32_t hr_partition_of(struct hr_id128 id)
{
    return (uint32_t)(id.hi >> (64 - HR_PARTITION_BITS));
}

/* The first and the last id.hi of a partition. */
static inline uint64_t hr_partition_first(uint32_t partition)
{
    return (uint64_t)partition << (64 - HR_PARTITION_BITS);
}

static inline uint64_t hr_partition_last(uint32_t partition)
{
    return hr_partition_first(partition) | (UINT64_MAX >> HR_PARTITION_BITS);
}

struct hr_candidate {
    uint64_t id;     /* of the member; no two are the same */
    uint64_t host;   /* hash of what fails together with it; 0: not known, taken for one of its own */
    uint32_t weight; /* 0 is taken for 1 */
    uint32_t member; /* index in the table of members, or whatever the caller wants to know it by */
};

#define HR_CANDIDATE_NONE UINT8_MAX

/* Indices of candidates; HR_CANDIDATE_NONE: there is none. A standby is never the owner. */
struct hr_partition_map {
    uint8_t owner[HR_PARTITIONS];
    uint8_t standby[HR_PARTITIONS];
};

/* count: at most HR_REGION_NODES_MAX. O(HR_PARTITIONS x count), some ms for 50: not for the path of a request. */
void hr_partition_map_build(struct hr_partition_map *map, const struct hr_candidate *candidates, uint32_t count);

/* What a member counts as. */
struct hr_candidate hr_partition_candidate(const struct hr_member *member, uint32_t index);

/* The live members of a region, those of the least ids where there are more than HR_REGION_NODES_MAX; how many. */
uint32_t hr_partition_candidates(const struct hr_members *members, const char *region,
                                 struct hr_candidate ret_candidates[HR_REGION_NODES_MAX]);

#endif
