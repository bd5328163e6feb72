/* Top: what `headroom top` shows: a node's status and its most asked counters, and how they have moved since the sample
 * before. Keys that a node does not send count as 0, and those that are not known are stepped over.
 *
 * Thread: any. Pure but for `out`. Memory: the structs. Whether all could be written is for the caller to ask of `out`.
 */
#ifndef HR_NODE_COMMAND_TOP_H
#define HR_NODE_COMMAND_TOP_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/span.h"

#define HR_TOP_LIMITS_MAX 256 /* those behind are not shown */
#define HR_TOP_KEYS_MAX 256
#define HR_TOP_REGIONS_MAX 64
#define HR_TOP_NAME_BYTES 65 /* a name and its NUL; a longer one is cut */
#define HR_TOP_ID_BYTES 33

struct hr_top_limit {
    char name[HR_TOP_NAME_BYTES];
    char mode[16];
    uint64_t admitted, denied;
};

struct hr_top_key {
    char counter[HR_TOP_ID_BYTES]; /* its keyed hash */
    char limit[HR_TOP_NAME_BYTES];
    uint64_t count, error, denied;
};

/* A global limit, as this node's region has it; of a rate in tokens for each of its periods. */
struct hr_top_cap {
    char name[HR_TOP_NAME_BYTES];
    uint64_t home, reserve;              /* of one counter */
    uint64_t hot, share, lent, borrowed; /* over the counters that something goes on with between regions */
};

/* Another region. */
struct hr_top_region {
    char name[HR_TOP_NAME_BYTES];
    uint64_t up, removed; /* 0: no */
    uint64_t word_age_ms; /* since it was heard; UINT64_MAX: it never was */
};

struct hr_top_sample {
    int64_t at_ms; /* when it was taken: the caller's steady clock */
    char node[HR_TOP_NAME_BYTES], region[HR_TOP_NAME_BYTES], version[HR_TOP_NAME_BYTES];
    uint64_t uptime_ms, decisions, denied, connections, counters, counters_max, leases, leases_max;
    uint32_t limit_count, key_count, cap_count, region_count;
    struct hr_top_limit limits[HR_TOP_LIMITS_MAX];
    struct hr_top_key keys[HR_TOP_KEYS_MAX];
    struct hr_top_cap caps[HR_TOP_LIMITS_MAX];
    struct hr_top_region regions[HR_TOP_REGIONS_MAX];
};

/* Fill in what the answers to status and hot_keys say. Errors as in rpc/unpack.h: the answer is none of these. */
HR_MUST enum hr_err hr_top_read_status(struct hr_span answer, struct hr_top_sample *sample);
HR_MUST enum hr_err hr_top_read_hot_keys(struct hr_span answer, struct hr_top_sample *sample);

/* before NULL: the rates are those since the node's start. Limits come by their rate, all else as the node sent it. At
 * most rows_max limits, global limits, and keys each. */
void hr_top_print(FILE *out, const struct hr_top_sample *before, const struct hr_top_sample *now, uint32_t rows_max);

#endif
