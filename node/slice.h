/* Slice: which of the shards of a node this is, and what is its own.
 *
 * Partitions that lie side by side are one shard's: the ids of its counters are then one part of the range of all ids,
 * over which its table spreads them evenly (limiter/table.h). Of every so many partitions one, and its counters would
 * stand in heaps with nothing between.
 *
 * Thread: any. Pure. */
#ifndef HR_NODE_SLICE_H
#define HR_NODE_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "region/partition.h"

struct hr_slice {
    uint32_t number, count; /* count 0: it is the only one */
};

/* The number of the slice, of so many, that a partition is of. */
static inline uint32_t hr_slice_of(uint32_t partition, uint32_t count)
{
    return partition * count / HR_PARTITIONS;
}

static inline bool hr_slice_has(struct hr_slice slice, uint32_t partition)
{
    return slice.count <= 1 || hr_slice_of(partition, slice.count) == slice.number;
}

/* The first partition of a slice, of several; and the first behind it. */
static inline uint32_t hr_slice_first(struct hr_slice slice)
{
    return (slice.number * HR_PARTITIONS + slice.count - 1) / slice.count;
}

static inline uint32_t hr_slice_beyond(struct hr_slice slice)
{
    return hr_slice_first((struct hr_slice){slice.number + 1, slice.count});
}

/* Numbers of segments are of the slice that they are equal to, modulo the count. They go up over all shards and all
 * starts, so that wherever a counter was before, its last word has the greatest number. */
static inline bool hr_slice_has_segment(struct hr_slice slice, uint64_t number)
{
    return slice.count <= 1 || number % slice.count == slice.number;
}

#endif
