/* Worker: drives one core on one libuv loop: connections, timer, the store, and the ways to other nodes.
 *
 * In each turn of the loop, before it waits for events: what the store has answered, the packets that came by gossip,
 * the core's work that comes with time, the answers that have become ready, the packets to be sent, and the next batch,
 * so that all that one turn's requests want saved or sent goes together. Requests themselves are answered in the read
 * callbacks (connection_uv.h), and packets of the region's nodes taken there.
 *
 * A node has one or more workers, each with a loop, a core and a thread of its own; they share the clock, and the
 * store, whose tickets carry the worker's number. Several write each other letters (crew_uv.h), at the end of each
 * turn, and drain together: each serves the others until all have answered their clients.
 *
 * Thread: the loop's, but for hr_worker_persisted. Memory: heap. The process ignores SIGPIPE. */
#ifndef HR_NODE_WORKER_UV_H
#define HR_NODE_WORKER_UV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/units.h"
#include "gossip/gossip_nng.h"
#include "node/address_text.h"
#include "node/clock.h"
#include "node/connection_uv.h"
#include "node/core.h"
#include "node/crew_uv.h"
#include "node/peer_uv.h"
#include "node/problem.h"
#include "storage/storage.h"

/* A drain takes at most this long to answer and save, and once more to send. */
#define HR_DRAIN_NS_MAX (2 * HR_NS_PER_S)

/* Before that a node of a region hands its partitions over, while it goes on serving; then it stays for a moment, so
 * that the others hear that it left. */
#define HR_LEAVE_NS_MAX (10 * HR_NS_PER_S)
#define HR_FAREWELL_NS (300 * HR_NS_PER_MS)

/* Packets that came by gossip and were not looked at yet. */
#define HR_WORKER_INBOX_BYTES (8U << 20)

struct hr_worker;

/* Answers a method that is not a shard's, at once. Where it packs nothing the answer is UNIMPLEMENTED. */
typedef void hr_worker_control(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out);

/* Something to be done in each turn. */
typedef void hr_worker_turn(void *user, struct hr_now now);

/* The worker has no handle on the loop any more. */
typedef void hr_worker_stopped(void *user);

struct hr_worker_config {
    uv_loop_t *loop;      /* the caller runs it */
    struct hr_core *core; /* with its limits and what was restored; this and the next two are borrowed for life */
    const struct hr_clock *clock;
    struct hr_store *store;         /* NULL: nothing is saved */
    uint16_t number;                /* among the node's workers */
    bool shares_port;               /* other workers listen on the same port: SO_REUSEPORT */
    struct hr_crew *crew;           /* of all of them; NULL: it is alone */
    struct hr_address listen;       /* a name is looked up, which may take a while; port 0: any that is free */
    struct hr_gossip_config gossip; /* take and user are the worker's own; listen NULL: the node is alone */
    uint32_t connections_max;       /* 1 to HR_CONNECTIONS_MAX */
    struct hr_session_limits session;
    uint64_t partial_bytes_max; /* as in connection_uv.h */
    hr_worker_control *control; /* may be NULL */
    hr_worker_turn *turn;       /* may be NULL */
    hr_worker_stopped *stopped; /* may be NULL */
    void *user;                 /* of all three */
};

/* Listens; requests are answered as soon as the loop runs. HR_E_IO: it cannot listen there; *ret_problem says why.
 * HR_E_MEMORY: the heap or the process's descriptors are used up. HR_E_RANGE: connections_max. On error nothing is left
 * but handles that may still be closing: the loop must be run once more before it is closed. */
HR_MUST enum hr_err hr_worker_open(const struct hr_worker_config *config, struct hr_worker **ret_worker,
                                   struct hr_problem *ret_problem);

/* The port that it listens on. */
uint16_t hr_worker_port(const struct hr_worker *worker);

/* For the store's done callback: hands over the result of a ticket to the worker whose number it carries, while that
 * has not been freed. Any thread; O(1). */
void hr_worker_persisted(struct hr_worker *worker, const struct hr_store_result *result);

static inline uint16_t hr_worker_number_of(uint64_t ticket)
{
    return (uint16_t)(ticket >> HR_CORE_TICKET_BITS);
}

/* A clean stop: hands over what the region is to go on with; then accepts and reads no more, answers what waits, saves
 * all there is to save, sends what is to be sent, and closes all handles; then `stopped` is called. Calling it again
 * changes nothing. */
void hr_worker_drain(struct hr_worker *worker);

/* Requires: it has stopped, and the store has answered all tickets (hr_store_settle). */
void hr_worker_free(struct hr_worker *worker);

/* Borrowed, and kept up to date. */
const struct hr_connections_stats *hr_worker_stats(const struct hr_worker *worker);

/* Packets between this node and others. */
struct hr_worker_traffic {
    uint64_t gossip_sent, gossip_received;
    uint64_t peer_sent; /* to nodes of its region */
    uint64_t dropped;   /* for want of room on their way out or in, or of an address that can be reached */
};
struct hr_worker_traffic hr_worker_traffic(const struct hr_worker *worker);

#endif
