/* Peers: this node's connections to the rpc addresses of others, for the packets between nodes (peer_wire.h).
 *
 * A member has one connection, which is opened when there is first something to send, and is kept. All packets that are
 * put for a member in one turn of the loop leave as one write. Nothing waits long for a peer: what could not be sent
 * within HR_PEER_WAIT_NS_MAX, or finds its queue full, is dropped and counted, for the protocols between nodes are made
 * for loss. After a failure it is not tried again for a while, which doubles each time up to HR_PEER_PAUSE_NS_MAX; the
 * pauses are short, so that a node which comes back is reached before its callers' deadlines.
 *
 *   IDLE -> RESOLVING (a name only) -> CONNECTING -> OPEN -> CLOSING -> IDLE
 *
 * Packets come in at the listener, as notifications (connection_uv.h); these connections only send.
 *
 * Thread: the loop's. Memory: heap, at most twice HR_PEER_QUEUE_BYTES_MAX for each member. The process ignores
 * SIGPIPE. */
#ifndef HR_NODE_PEER_UV_H
#define HR_NODE_PEER_UV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "node/clock.h"

#define HR_PEER_QUEUE_BYTES_MAX (4U << 20) /* waiting for one member, while as much again is being written */
#define HR_PEER_CONNECT_NS_MAX HR_NS_PER_S
#define HR_PEER_WAIT_NS_MAX HR_NS_PER_S /* a packet, for a connection */
#define HR_PEER_PAUSE_NS_MIN (25 * HR_NS_PER_MS)
#define HR_PEER_PAUSE_NS_MAX (200 * HR_NS_PER_MS)

/* Sent, and neither taken by the peer nor refused for this long: the connection is given up. TCP alone would try for a
 * quarter of an hour, each time later than before, also after the network has healed. */
#define HR_PEER_STALL_NS_MAX (2 * HR_NS_PER_S)

struct hr_peers_config {
    uv_loop_t *loop;
    const struct hr_clock *clock; /* borrowed for life */
    uint32_t peers_max;           /* members are numbered below it */
};

struct hr_peers_stats {
    uint32_t open;
    uint64_t connects, failures; /* connections that were opened; that could not be, or broke */
    uint64_t packets, bytes;     /* handed to the system */
    uint64_t writes;
    uint64_t dropped; /* packets */
};

struct hr_peers;

/* NULL: no memory. */
HR_MUST struct hr_peers *hr_peers_new(const struct hr_peers_config *config);

/* Requires: hr_peers_are_gone. */
void hr_peers_free(struct hr_peers *peers);

/* Copies one sealed packet for a member, whose rpc address this is: "HOST:PORT". False, and counted: it is dropped. */
bool hr_peers_put(struct hr_peers *peers, uint32_t member, struct hr_span address, struct hr_span packet,
                  struct hr_now now);

/* To be called in each turn of the loop, before it waits: sends what was put, and connects again where something waits;
 * the loop is to turn at least each HR_PEER_PAUSE_NS_MAX. */
void hr_peers_turn(struct hr_peers *peers, struct hr_now now);

/* Closes all; what was not sent is dropped, and nothing can be put any more. */
void hr_peers_close(struct hr_peers *peers);

/* No handle is left on the loop. */
bool hr_peers_are_gone(const struct hr_peers *peers);

/* Borrowed, and kept up to date. */
const struct hr_peers_stats *hr_peers_stats(const struct hr_peers *peers);

#endif
