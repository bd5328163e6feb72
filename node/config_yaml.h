/* Node file: what one node is, where it listens, whom it joins, and how much it may use (contract, section 4, and
 * docs/OPERATIONS.md). Strict: an unknown key, a key given twice or an impossible value is a problem with file, line
 * and column; nothing half-loaded is ever returned.
 *
 * Thread: any. Memory: one struct of plain data, the caller's; nothing in it has to be freed and it may be copied. It
 * is some 52 KiB: keep it off small stacks. Reads only the node file itself; limits and the secret are read by
 * hr_limits_file_load, hr_secret_read and hr_secret_keep. */
#ifndef HR_NODE_CONFIG_YAML_H
#define HR_NODE_CONFIG_YAML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "node/address_text.h"
#include "node/doc_yaml.h"
#include "node/log.h"
#include "node/problem.h"
#include "region/waterfill.h" /* HR_REGIONS_MAX */

#define HR_CONFIG_NAME_BYTES_MAX 64
#define HR_CONFIG_PATH_BYTES_MAX 4095
#define HR_WORKERS_MAX 64
#define HR_JOINS_MAX 64
#define HR_WEIGHT_MAX 1000000
#define HR_HOST_NAME_BYTES_MAX 64 /* as a member's (gossip/member.h) */

struct hr_region_config {
    char name[HR_CONFIG_NAME_BYTES_MAX + 1];
    uint32_t weight; /* 0 to HR_WEIGHT_MAX; not of all regions 0 */
};

/* Files of PEM. All are given, or none: then gossip is not encrypted. */
struct hr_tls_config {
    char ca[HR_CONFIG_PATH_BYTES_MAX + 1];
    char certificate[HR_CONFIG_PATH_BYTES_MAX + 1];
    char key[HR_CONFIG_PATH_BYTES_MAX + 1];
};

/* Each without host: there is none. */
struct hr_endpoints {
    struct hr_address rpc, gossip, http;
};

/* Paths are relative to the working folder of this process, or absolute: those in the file are relative to the file's
 * own folder. An empty path: none was given. */
struct hr_node_config {
    /* node */
    char name[HR_CONFIG_NAME_BYTES_MAX + 1];
    char region[HR_CONFIG_NAME_BYTES_MAX + 1];
    char data[HR_CONFIG_PATH_BYTES_MAX + 1]; /* empty in --dev only: a fresh temporary folder */
    uint32_t workers;                        /* 1 to HR_WORKERS_MAX, or 0: as many as there are processors */
    char host[HR_HOST_NAME_BYTES_MAX + 1];   /* what fails together with this node; empty: not known */
    uint32_t weight;                         /* its part of the region's counters, 1 to HR_WEIGHT_MAX */

    struct hr_endpoints listen;    /* rpc always; no gossip: the node is alone; no http: it does not serve it */
    struct hr_endpoints advertise; /* rpc and gossip, as others reach them; never http. Port 0: the one listened at */

    /* cluster */
    char cluster[HR_CONFIG_NAME_BYTES_MAX + 1];
    char secret_file[HR_CONFIG_PATH_BYTES_MAX + 1]; /* always with listen.gossip; empty: data/secret, made at need */
    uint32_t join_count;
    struct hr_address joins[HR_JOINS_MAX];
    struct hr_tls_config tls;
    uint64_t call_deadline_ns; /* how long a counter's owner, another node, may take to answer */

    uint32_t region_count; /* 1 or more: this node's own is always among them */
    struct hr_region_config regions[HR_REGIONS_MAX];

    char limits[HR_CONFIG_PATH_BYTES_MAX + 1];

    /* memory: of the whole node, to be shared out among its workers */
    uint32_t counters_max, leases_max, log_blocks_max, reserves_max;

    /* storage */
    uint64_t flush_interval_ns;
    uint64_t map_bytes_max;

    /* rpc */
    uint32_t connections_max;
    uint32_t in_flight_max;     /* requests of one connection */
    uint64_t partial_bytes_max; /* of messages that have arrived in part, over all connections */

    /* log */
    enum hr_log_format log_format;
    enum hr_log_level log_level_min;

    bool chaos; /* faults may be injected from outside */
};

/* False on failure, with *ret_problem filled in. */
HR_MUST bool hr_node_config_load(const char *path, struct hr_node_config *ret_config, struct hr_problem *ret_problem);

/* The same over bytes in memory; `path` is what problems call it, and its folder is where relative paths begin. */
HR_MUST bool hr_node_config_parse(struct hr_span text, const char *path, struct hr_node_config *ret_config,
                                  struct hr_problem *ret_problem);

/* `headroomd --dev`: one node, one region, loopback, rpc at its default, http at any free port, no gossip, no limits.
 */
void hr_node_config_dev(struct hr_node_config *ret_config);

/* Is this a node file rather than a limits file? Told by its top-level keys: any but `limits` that a node file has. */
bool hr_doc_is_node_config(const struct hr_doc *doc);

/* What is allowed, but hardly meant, in one sentence; NULL: nothing. */
const char *hr_node_config_doubt(const struct hr_node_config *config);

#endif
