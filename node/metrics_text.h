/* Metrics text: what a node counts, in Prometheus' text format, version 0.0.4. Names and units follow Prometheus'
 * conventions (`promtool check metrics` has no remark). No key of a counter is ever a label: the only labels are names
 * out of the operator's files and out of this program.
 *
 * Thread: any, over numbers that do not change meanwhile. Pure. Memory: the caller's. */
#ifndef HR_NODE_METRICS_TEXT_H
#define HR_NODE_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "node/histogram.h"

#define HR_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* A global cap, by its hot counters here: tokens for each period, or units. */
struct hr_metrics_cap {
    bool is_global;
    uint64_t share, reserve, lent, borrowed;
};

/* Another region, and when it was last heard about caps. */
struct hr_metrics_region {
    struct hr_span name;
    uint64_t word_age_ns;
};

struct hr_metrics_limit {
    struct hr_span name;
    struct hr_metrics_cap cap;
    uint64_t allowed, denied; /* as the limit alone would have it */
    uint64_t shadow_denied;   /* denied while in mode shadow: the answer was not changed */
};

/* A count under a name: requests by method, errors by code. */
struct hr_metrics_tally {
    struct hr_span name;
    uint64_t count;
};

struct hr_metrics_tallies {
    const struct hr_metrics_tally *at;
    uint32_t count;
};

struct hr_metrics_use {
    uint64_t used, max;
};

struct hr_metrics_listener {
    struct hr_span name; /* rpc, http */
    uint64_t open, accepted, refused;
};

struct hr_metrics_store {
    uint64_t lag_ns; /* age of the oldest change that is not committed */
    const struct hr_histogram *commits;
    uint64_t failures, damaged_records, damaged_bytes, map_bytes, map_bytes_max;
};

struct hr_metrics_reload {
    bool is_ok;             /* the last one */
    uint64_t ok_at_unix_ns; /* the last that succeeded */
    uint64_t limits_loaded;
};

/* All is borrowed for the call. */
struct hr_metrics_source {
    struct hr_span version;
    uint64_t started_at_unix_ns;
    const struct hr_metrics_limit *limits;
    uint32_t limit_count;
    const struct hr_histogram *decisions; /* from a request's last byte to its answer's first */
    struct hr_metrics_tallies methods, errors;
    uint64_t degraded; /* decisions made without asking a counter's owner */
    struct hr_metrics_use counters, leases, log_blocks, replies;
    struct hr_metrics_store store;
    struct hr_metrics_reload reload;
    const struct hr_metrics_listener *listeners;
    uint32_t listener_count;
    const struct hr_metrics_region *regions; /* others that were heard */
    uint32_t region_count;
    struct hr_metrics_tallies members; /* of the cluster, by state */
    uint64_t view;                     /* of the members; greater after each change */
};

/* Writes the whole text at ret_text, up to `room` bytes of it. How many bytes the text has: where that is more than
 * room, the text is not usable. room may be 0. No NUL follows. */
size_t hr_metrics_write(const struct hr_metrics_source *source, size_t room, char *ret_text);

#endif
