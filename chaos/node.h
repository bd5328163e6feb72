/* Node: one simulated node, from its start to its crash: the production library in memory of its own, on a disk and a
 * clock that the simulation owns. This is the one file of the simulator that knows what a node is made of.
 *
 * Thread: one at a time. Memory: mapped anew at each start, so that nothing of a former life is left. */
#ifndef HR_CHAOS_NODE_H
#define HR_CHAOS_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "chaos/disk.h"
#include "chaos/place.h"
#include "limiter/limit_set.h"
#include "node/core.h"

/* Addresses of simulated nodes are made of their names: "tcp://eu-1", and "eu-1". */
#define HR_SIM_GOSSIP_SCHEME "tcp://"

#define HR_SIM_CALLS_MAX 1024U /* requests of a node on their way to or from others */

struct hr_sim_node_config {
    const char *name, *region;
    bool is_alone; /* a cluster of its own; else it joins all others by their names */
    uint32_t peer_count;
    const char (*peers)[HR_SIM_PLACE_BYTES_MAX]; /* names of all nodes, this one too; borrowed */
    uint32_t cap_regions;                        /* that share global caps: the first of all; 0: there are none */
    uint64_t seed;
    const struct hr_limit_set *set;
    hr_ns flush_interval_ns;
    uint32_t counters_max; /* more than a run has: a small table is swept fast, and 160 of them fit a machine */
};

struct hr_sim_node {
    struct hr_sim_node_config config;
    struct hr_core *core; /* NULL: it is down */
    void *memory;
    size_t memory_bytes;
    uint64_t lives; /* so far */
    uint64_t life;  /* the number of this one (gossip/life.h); its disk has it before anybody hears of it */
};

/* Starts it from what the disk holds. */
HR_MUST enum hr_err hr_sim_node_start(struct hr_sim_node *node, const struct hr_sim_disk *disk, struct hr_now now);

/* The process is gone, at once. The disk is the caller's. */
void hr_sim_node_stop(struct hr_sim_node *node);

static inline bool hr_sim_node_is_up(const struct hr_sim_node *node)
{
    return node->core != NULL;
}

/* The seam, as in node/core.h. */
enum hr_served hr_sim_node_serve(struct hr_sim_node *node, const struct hr_call *call, struct hr_now now,
                                 struct hr_packer *out);
bool hr_sim_node_next_answer(struct hr_sim_node *node, struct hr_now now, struct hr_packer *out,
                             struct hr_call *ret_call);
const struct hr_store_batch *hr_sim_node_next_batch(struct hr_sim_node *node, struct hr_now now, uint64_t *ret_ticket);
void hr_sim_node_persisted(struct hr_sim_node *node, uint64_t ticket, enum hr_err err, struct hr_now now);
hr_ns hr_sim_node_deadline(const struct hr_sim_node *node);
void hr_sim_node_tick(struct hr_sim_node *node, struct hr_now now);
void hr_sim_node_receive(struct hr_sim_node *node, struct hr_span packet, struct hr_now now);

/* The next packet it sends, and to which of its peers. False: none. A packet for nobody's address is left out. */
bool hr_sim_node_next_packet(struct hr_sim_node *node, struct hr_now now, struct hr_packet *ret_packet,
                             uint32_t *ret_peer);

/* A clean stop begins, or goes on. True: all is handed over, or time is up; drain and stop it. */
bool hr_sim_node_leave(struct hr_sim_node *node, struct hr_now now);

/* Puts all that it has onto the disk, at once. Nothing is on its way there. HR_E_MEMORY. */
HR_MUST enum hr_err hr_sim_node_drain(struct hr_sim_node *node, struct hr_sim_disk *disk, struct hr_now now);

#endif
