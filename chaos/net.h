/* Net: the links between simulated nodes, one for each direction. A packet that is sent is lost, or delivered once or
 * twice, later, perhaps behind packets that were sent after it.
 *
 * Two lanes, as the product has (gossip/outbox.h): on the gossip lane a packet may be lost, doubled and overtaken; the
 * peer lane is a TCP connection: in order, nothing twice, a loss costs a retransmission's time, and only a cut loses
 * what is under way.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_NET_H
#define HR_CHAOS_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/span.h"
#include "base/units.h"
#include "chaos/dice.h"
#include "gossip/outbox.h"

/* All zero: a perfect link. */
struct hr_sim_link {
    hr_ns delay_ns;        /* the least there is */
    hr_ns jitter_ns;       /* on top of it, exponential with this mean */
    uint32_t loss_ppm;     /* of packets */
    uint32_t twice_ppm;    /* delivered a second time, later */
    uint32_t overtake_ppm; /* held back for up to ten times delay and jitter */
    uint64_t bytes_per_s;  /* 0: no bound */
    uint32_t cuts;         /* faults that cut it now; 0: none does */
    uint32_t clogs;        /* faults that hold all packets back; they are delivered when none does any more */
};

struct hr_sim_packet {
    uint32_t from, to;
    enum hr_lane lane;
    struct hr_span bytes;
};

struct hr_sim_net_counts {
    uint64_t sent, delivered, lost, doubled, cut, refused;
};

struct hr_net;

/* NULL: no memory. */
struct hr_net *hr_net_new(uint32_t node_count, uint64_t seed);
void hr_net_free(struct hr_net *net);

/* For reading, and for faults to change. */
struct hr_sim_link *hr_net_link(struct hr_net *net, uint32_t from, uint32_t to);

/* Copies the packet. It is lost without a word where the link loses it, or more than the link holds is under way. */
void hr_net_send(struct hr_net *net, const struct hr_sim_packet *packet, hr_ns now);

/* When the next packet arrives; INT64_MAX: none is under way but on clogged links. */
hr_ns hr_net_deadline(const struct hr_net *net);

/* The next packet that has arrived; its bytes are good until the next call. False: none has. */
bool hr_net_receive(struct hr_net *net, hr_ns now, struct hr_sim_packet *ret_packet);

/* What was held back on this link leaves now. */
void hr_net_unclog(struct hr_net *net, uint32_t from, uint32_t to, hr_ns now);

/* The link is wider than it was: what queued up before it goes on at once. */
void hr_net_widen(struct hr_net *net, uint32_t from, uint32_t to, hr_ns now);

/* All that is under way to or from a node is lost, as its connections are. */
void hr_net_drop_node(struct hr_net *net, uint32_t node);

struct hr_sim_net_counts hr_net_counts(const struct hr_net *net);

#endif
