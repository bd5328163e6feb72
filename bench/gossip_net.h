/* A network of SWIM nodes in one process, under virtual time: for benchmarks and tests of gossip/ alone.
 *
 * Each node is a swim, an envelope and an outbox, with a steady clock of its own. Packets are sealed and opened as in
 * production; the network loses, doubles, delays and cuts them by seeded chance, so that one seed is one history.
 * Thread: one. Memory: the heap's; where it runs out, or a node cannot be made, the process aborts. */
#ifndef HR_BENCH_GOSSIP_NET_H
#define HR_BENCH_GOSSIP_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/units.h"
#include "gossip/envelope.h"
#include "gossip/outbox.h"
#include "gossip/swim.h"

#define GOSSIP_NET_NODES_MAX 256

struct gossip_net_node {
    char name[32], region[32], cluster[32], secret[HR_HASH_KEY_BYTES + 1];
    char address[48];       /* tcp://node-INDEX:7401 */
    char seeds[4][48];      /* addresses; the first empty one ends them */
    const char *regions[2]; /* that it knows; none: any */
    uint64_t life;
    hr_ns clock_offset;    /* its steady clock shows the network's time and this */
    bool is_up, is_paused; /* paused: packets wait for it, its time stands still for it */
    void *memory;
    struct hr_swim *swim;
    struct hr_envelope envelope;
    struct hr_outbox outbox;
    uint64_t packets_sent, bytes_sent;
    uint64_t events[HR_SWIM_TABLE_FULL + 1]; /* how often, by kind, in this life */
};

struct gossip_net_packet;

struct gossip_net {
    struct gossip_net_node nodes[GOSSIP_NET_NODES_MAX];
    uint32_t count;
    hr_ns now;
    struct hr_rng rng;
    uint32_t loss_milli, twice_milli;           /* of 1,000 packets */
    hr_ns near_min, near_max, far_min, far_max; /* delay within a region, and between two */
    struct hr_swim_timings timings;
    bool is_cut[GOSSIP_NET_NODES_MAX][GOSSIP_NET_NODES_MAX]; /* from, to */
    struct gossip_net_packet *heap;
    size_t heap_count, heap_max;
    uint64_t order;
    void (*tap)(void *user, uint32_t from, uint32_t to, struct hr_span packet); /* sees all that is sent; may be NULL */
    void *tap_user;
};

struct gossip_net *gossip_net_new(uint64_t seed);
void gossip_net_free(struct gossip_net *net);

/* A node that is not up yet. Its life is 1, its cluster "test", its seeds none: the caller may change that. */
uint32_t gossip_net_add(struct gossip_net *net, const char *region, const char *name);
void gossip_net_seed(struct gossip_net *net, uint32_t index, uint32_t seed);

void gossip_net_start(struct gossip_net *net, uint32_t index);
void gossip_net_crash(struct gossip_net *net, uint32_t index);
void gossip_net_restart(struct gossip_net *net, uint32_t index); /* in a life one later */
void gossip_net_pause(struct gossip_net *net, uint32_t index, bool is_paused);
void gossip_net_cut(struct gossip_net *net, uint32_t a, uint32_t b, bool is_cut); /* both ways */

/* Whatever is queued in the node's outbox leaves; for calls that the tests make on a node's swim. */
void gossip_net_flush(struct gossip_net *net, uint32_t index);

/* Bytes out of nowhere, now. */
void gossip_net_inject(struct gossip_net *net, uint32_t to, struct hr_span packet);

void gossip_net_run(struct gossip_net *net, hr_ns ns);

/* Runs until the question is answered with yes, asked once a millisecond, at most for `most`. Returns how long it took,
 * or -1. */
typedef bool gossip_net_question(const struct gossip_net *net, void *user);
hr_ns gossip_net_run_until(struct gossip_net *net, gossip_net_question *question, void *user, hr_ns most);

/* Does every node that is up take for live exactly those that are up? */
bool gossip_net_is_agreed(const struct gossip_net *net, void *unused);

/* What `viewer` thinks of `of`; HR_MEMBER_LEFT + 1: it knows no such member. */
unsigned gossip_net_view(const struct gossip_net *net, uint32_t viewer, uint32_t of);

hr_ns gossip_net_clock(const struct gossip_net *net, uint32_t index);

#endif
