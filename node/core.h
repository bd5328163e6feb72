/* Core: one node of a region as a state machine: a shard, and all protocols with other nodes around it.
 *
 * Events go in: a request (serve), a packet of another node (receive), a result of the store (persisted), a new limit
 * set (load), time (tick). Effects come out as data: answers, packets to send, batches for the store, when to come
 * back. It knows no socket, file, clock or thread; worker_uv drives it in production and chaos/ under virtual time.
 *
 * A node that is alone in its region has no letter to write, and a request goes straight to its shard.
 *
 * Thread: one at a time. Memory: handed in, hr_core_bytes(); no heap. Time: supplied. */
#ifndef HR_NODE_CORE_H
#define HR_NODE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/units.h"
#include "gossip/envelope.h"
#include "gossip/facts.h"
#include "gossip/member.h"
#include "gossip/outbox.h"
#include "gossip/swim.h"
#include "node/cap_keeper.h"
#include "node/shard.h"
#include "region/holds.h"
#include "region/router.h"
#include "region/tenure.h"

#define HR_SEEDS_MAX 64

#define HR_CORE_CALLS_MAX 4096
#define HR_CORE_FACTS_MAX HR_LIMITS_MAX
#define HR_CORE_FACT_BYTES (16U << 20)

struct hr_core_config {
    struct hr_shard_config shard;
    struct hr_hash_key secret; /* the cluster's */
    struct hr_span cluster;    /* its name; this and all spans below are borrowed for init only */
    struct hr_member self;     /* incarnation: the number of this life (gossip/life.h) */
    bool is_alone; /* no gossip: one node for ever. shard.slice then says with which other cores it is one */
    uint32_t seed_count;
    struct hr_span seeds[HR_SEEDS_MAX]; /* gossip addresses */
    uint64_t rng_seed;                  /* jitter and choice of peers */
    hr_ns call_deadline_ns;             /* for a request at another node; 0: 20 ms */
    uint32_t calls_max;                 /* requests on their way to and from other nodes; 0: HR_CORE_CALLS_MAX */
    uint32_t facts_max;                 /* limits put or deleted at run time; 0: HR_CORE_FACTS_MAX */
    size_t fact_bytes;                  /* of all their names and texts; 0: HR_CORE_FACT_BYTES */
    uint32_t region_count; /* every region, this one too, in the order of their names: those that share global caps, and
                              whose nodes are taken for members. 0: any node's region is */
    struct {
        struct hr_span name;
        uint32_t weight;
    } regions[64];
};

struct hr_core;

size_t hr_core_bytes(const struct hr_core_config *config);
HR_MUST struct hr_core *hr_core_init(const struct hr_core_config *config, struct hr_now now, void *memory,
                                     size_t memory_bytes);
HR_MUST enum hr_err hr_core_load(struct hr_core *core, const struct hr_limit_set *set, struct hr_now now);

/* As hr_shard_prepare, for requests that came together: holds while nothing but hr_core_serve is called. */
void hr_core_prepare(struct hr_core *core, struct hr_call *calls, uint32_t count);

/* As hr_shard_serve. HR_SERVED_WAITING also where another node is asked. UINT64_MAX is no connection's name. */
enum hr_served hr_core_serve(struct hr_core *core, const struct hr_call *call, struct hr_now now,
                             struct hr_packer *out);

/* The next answer of a request that waited; ask for them after each event, until there is none. */
bool hr_core_next_answer(struct hr_core *core, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call);

/* One sealed packet, as it came. What is wrong with it is counted, never believed. */
void hr_core_receive(struct hr_core *core, struct hr_span packet, struct hr_now now);

struct hr_packet {
    enum hr_lane lane;
    uint32_t member;        /* index of the receiver; HR_MEMBER_NONE: to `address` */
    struct hr_span address; /* where it goes: the member's gossip or rpc address by lane, or a seed */
    struct hr_span bytes;   /* sealed */
};

/* The next packet to send; its spans are good until the next call on the core. */
bool hr_core_next_packet(struct hr_core *core, struct hr_now now, struct hr_packet *ret_packet);

/* The same between the cores of one node that is alone: letters, unsealed, which must arrive in order and are never
 * lost. So ask for the next only where there is room for one of HR_CORE_LETTER_BYTES_MAX. */
#define HR_CORE_LETTER_BYTES_MAX (96U << 10)
struct hr_core_letter {
    uint32_t to; /* the slice of whom it is for */
    enum hr_letter_kind kind;
    struct hr_span body; /* good until the next call on the core */
};
bool hr_core_next_letter(struct hr_core *core, struct hr_now now, struct hr_core_letter *ret_letter);

/* A letter of the core of that slice. What is to be done then is done with the next answers. */
void hr_core_receive_letter(struct hr_core *core, uint32_t from, enum hr_letter_kind kind, struct hr_span body,
                            struct hr_now now);

/* As the shard's. A core's tickets are below 2^48, so that those of several cores can be told apart by what is above.
 */
#define HR_CORE_TICKET_BITS 48
const struct hr_store_batch *hr_core_next_batch(struct hr_core *core, struct hr_now now, bool force,
                                                uint64_t *ret_ticket);
void hr_core_persisted(struct hr_core *core, uint64_t ticket, enum hr_err err, struct hr_now now);
hr_ns hr_core_deadline(const struct hr_core *core);
void hr_core_tick(struct hr_core *core, struct hr_now now);

/* A clean stop begins: partitions are handed over, then the node says that it left. True from then on where all that is
 * done or time is up: the driver may drain the core and stop. */
bool hr_core_leave(struct hr_core *core, struct hr_now now);

/* As hr_shard_drain: no request will come any more, and the store has answered every ticket. Whatever this node still
 * holds is then known to its store alone: the standbys, which may have stopped before, are not waited for. */
void hr_core_drain(struct hr_core *core, struct hr_now now);

/* At start, before the first tick: each record of the kind HR_RECORD_TENURE. HR_E_CORRUPT: not such a record. */
HR_MUST enum hr_err hr_core_restore_tenure(struct hr_core *core, const struct hr_record *record, struct hr_now now);

/* The same for the kind HR_RECORD_CAP, in the order of the keys. */
HR_MUST enum hr_err hr_core_restore_cap(struct hr_core *core, const struct hr_record *record);

/* Limits that were put or deleted at run time, as every node of the cluster comes to hold them (gossip/facts.h): what
 * is put here is told to the others, what others put comes out of next_fact. */
struct hr_fact_version hr_core_next_version(const struct hr_core *core, struct hr_now now);
HR_MUST enum hr_err hr_core_write_fact(struct hr_core *core, struct hr_span name, struct hr_span value,
                                       struct hr_fact_version version);
HR_MUST enum hr_err hr_core_restore_fact(struct hr_core *core, struct hr_span name, struct hr_span value,
                                         struct hr_fact_version version);
bool hr_core_next_fact(struct hr_core *core, struct hr_span *ret_name, struct hr_span *ret_value,
                       struct hr_fact_version *ret_version);

/* The operator says that a dead member will not return: see hr_swim_forget. */
HR_MUST enum hr_err hr_core_forget(struct hr_core *core, struct hr_span region, struct hr_span name, struct hr_now now);

/* The operator says that a region is gone: see hr_cap_keeper_remove_region. HR_E_NOT_FOUND also where there are no
 * other regions. */
HR_MUST enum hr_err hr_core_remove_region(struct hr_core *core, struct hr_span region, struct hr_now now);

/* The parts, for status and metrics; NULL, all but the shard, where the node is alone (router and holds: and one core);
 * the keeper of caps also where there is one region. */
struct hr_shard *hr_core_shard(struct hr_core *core);
const struct hr_members *hr_core_members(const struct hr_core *core);
struct hr_swim *hr_core_swim(struct hr_core *core);
const struct hr_tenure *hr_core_tenure(const struct hr_core *core);
const struct hr_router *hr_core_router(const struct hr_core *core);
const struct hr_holds *hr_core_holds(const struct hr_core *core);
const struct hr_envelope *hr_core_envelope(const struct hr_core *core);
struct hr_cap_keeper *hr_core_caps(const struct hr_core *core);

#endif
