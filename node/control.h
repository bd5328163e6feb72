/* Control: what a node answers besides decisions: its limits, its status, what is hot, its metrics and its health; and
 * how it takes a new limits file.
 *
 * Where the node has several workers, they stand still (crew_uv.h) while control answers, reloads or writes metrics: it
 * sums over what is theirs, and loads limits into each, so that they hold from one moment on.
 *
 * Thread: a worker's, off the hot path. Memory: the struct, and the heap for texts. */
#ifndef HR_NODE_CONTROL_H
#define HR_NODE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "node/catalog.h"
#include "node/config_yaml.h"
#include "node/core.h"
#include "node/histogram.h"
#include "node/http_session.h"
#include "node/log.h"
#include "node/members_map.h"
#include "node/shard.h"
#include "node/worker_uv.h"
#include "storage/record.h"
#include "storage/storage.h"

/* What the store has done. Written by its thread, read by the loop. */
struct hr_store_watch {
    uv_mutex_t mutex;
    struct hr_histogram commits;
    uint64_t failures;
    enum hr_err last;        /* of the last commit */
    uint64_t control_ticket; /* the last of control's own that was answered, and how */
    enum hr_err control_err;
};

struct hr_control {
    const struct hr_node_config *config;
    const struct hr_log *log;
    struct hr_clock *clock;
    struct hr_catalog *catalog;
    uint32_t worker_count;                     /* each with a core; none runs while control is asked */
    struct hr_core *cores[HR_WORKERS_MAX];     /* NULL until they are made */
    struct hr_worker *workers[HR_WORKERS_MAX]; /* NULL until they are open */
    struct hr_store *store;                    /* NULL: nothing is kept */
    struct hr_store_watch *watch;
    uint64_t damaged_records, damaged_bytes; /* of the store: found at start, and not believed */
    struct hr_http_server *http;             /* NULL: none */
    const struct hr_cluster_view *cluster;   /* NULL: the node is alone */
    struct hr_now started;
    bool is_draining;
    bool has_reload_fault;
    struct hr_now reloaded;         /* the last reload that succeeded */
    struct hr_problem reload_fault; /* of the last one, if it failed */
    uint64_t ticket;                /* of control's own commits */
    char *page;                     /* the last page of metrics */
    size_t page_room;
};

#define HR_CONTROL_TICKETS (UINT64_C(0xffff) << HR_CORE_TICKET_BITS)

/* A change of the limits as it is kept, under an id made of the limit's name: its version (time and writer,
 * little-endian, 8 bytes each), the name's length (1), the name, and the limit as JSON; nothing more where it was
 * deleted. Its time is its ordinal among all changes. */
struct hr_limit_record {
    struct hr_fact_version version;
    struct hr_span name, json;
};

struct hr_store_key hr_limit_record_key(struct hr_span name);

/* False: the payload is none. */
bool hr_limit_record_decode(struct hr_span payload, struct hr_limit_record *ret_record);

/* A hr_worker_control; user is the control. */
void hr_control_answer(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out);

/* The find of hr_http_pages; context is the control. */
bool hr_control_find_page(void *context, struct hr_span path, struct hr_http_page *ret_page);

/* Reads the limits file anew. A file that is wrong changes nothing but what status says. */
void hr_control_reload(struct hr_control *control, struct hr_now now);

/* Puts in force, and keeps, what another node put or deleted: one change at most. To be called in each turn. */
void hr_control_turn(struct hr_control *control, struct hr_now now);

/* Commits a batch under one of control's own tickets, HR_CONTROL_TICKETS and above, and waits for what comes of it. */
HR_MUST enum hr_err hr_store_watch_commit(struct hr_store_watch *watch, struct hr_store *store, uint64_t ticket,
                                          const struct hr_store_batch *batch);

/* For the store's done callback. */
void hr_store_watch_result(struct hr_store_watch *watch, const struct hr_store_result *result);

#endif
