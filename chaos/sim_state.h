/* Sim state: what the files of the simulator share: sim.c has the clock and the events, sim_faults.c makes the
 * cluster's condition follow the schedule, sim_client.c asks and judges the answers. Nobody else includes this. */
#ifndef HR_CHAOS_SIM_STATE_H
#define HR_CHAOS_SIM_STATE_H

#include "chaos/bounds.h"
#include "chaos/clock.h"
#include "chaos/disk.h"
#include "chaos/load.h"
#include "chaos/node.h"
#include "chaos/queue.h"
#include "chaos/sim.h"

/* When a run begins, for those who look at clocks: 2026-01-01. Inside, `at` is since then. */
#define HR_SIM_EPOCH_NS (INT64_C(1767225600) * HR_NS_PER_S)

enum hr_sim_kind {
    HR_SIM_ARRIVAL, /* who: the region */
    HR_SIM_ASK,     /* what: the asker's slot */
    HR_SIM_TURN,    /* who: the node */
    HR_SIM_SYNC,    /* who: the node; what: its life */
    HR_SIM_BEGIN,   /* what: the striking */
    HR_SIM_END,     /* what: the striking */
    HR_SIM_AUDIT,   /* who: the node; what: why, enum hr_check */
    HR_SIM_WATCH,   /* all nodes are looked at */
    HR_SIM_OWNERS,  /* who answers for what, while regions are struck */
    HR_SIM_FACT,    /* an operator puts a limit */
};

/* A request of a client, from when it is made until its answer has been judged. */
struct hr_sim_query {
    uint32_t next; /* of the free ones, or of those held at a paused node; 0: none */
    uint32_t node, shape;
    uint32_t tries; /* before this one */
    bool is_release, is_waiting, was_slowed, is_surely_there;
    bool is_look; /* an audit's, for this invariant: */
    enum hr_check check;
    uint64_t id; /* 0: none */
    uint64_t life;
    hr_ns asked_at, served_at;
    hr_ns sent_at;         /* the first time, where it has an id */
    struct hr_id128 lease; /* release: which */
};

/* A client asks so often more. */
#define HR_SIM_TRIES_MAX 3

/* What a request with an id was answered first. */
struct hr_first_answer {
    uint64_t id, life;
    uint32_t node;
    hr_ns at; /* the node's steady time; in a cluster since the run began */
    uint64_t hash;
    uint64_t others[HR_SIM_TRIES_MAX]; /* in a cluster that has forgotten it: hashes of those that it gave later */
    uint32_t other_count;
    bool degraded;
};

/* Packets that have come to a node that stands still. */
#define HR_SIM_HELD_PACKETS_MAX 4096

struct hr_sim_held_packet {
    char *at;
    size_t bytes;
};

/* What operators put while it runs: a name for each node that puts, and the latest that each node knows of them. */
#define HR_SIM_FACTS 4

struct hr_sim_fact {
    struct hr_fact_version version;
    uint64_t value;
};

struct hr_sim_member {
    struct hr_sim_node node;
    struct hr_sim_disk disk;
    struct hr_sim_clock clock;
    char name[HR_SIM_PLACE_BYTES_MAX];
    bool is_paused, is_committing, is_leaving;
    uint64_t crashes;
    uint64_t inherited;                 /* partitions that came unasked, in former lives */
    uint64_t lineage;                   /* of its charter, when it was last seen */
    struct hr_sim_held_packet *packets; /* that it will read when it goes on */
    uint32_t packet_count;
    struct hr_sim_fact facts[HR_SIM_FACTS]; /* as its disk has them */
    hr_ns slow_ns;
    int64_t stepped_ns; /* the wall clock, by faults */
    hr_ns turn_at;      /* the earliest turn that is queued; INT64_MAX: none is */
    hr_ns planned_for;  /* the node's deadline that it is for */
    uint32_t held_first, held_last, held_count;
    hr_ns built_at;     /* steady time of the batch that is on its way */
    hr_ns whole_from;   /* batches built before this do not show that all before them is durable */
    uint64_t up_serial; /* requests that waited there */
};

/* Requests that are under way at once, at most: clients that many requests behind would be a finding of their own. */
#define HR_SIM_ASK_CHUNKS 1024
#define HR_SIM_ASK_CHUNK 4096

/* In a cluster clients fall silent so long before the end: what is under way must come to its end. */
#define HR_SIM_QUIET_NS (4 * HR_NS_PER_S)

#define HR_SIM_IDS 8192 /* first answers that are remembered: a power of two */

struct hr_sim {
    const struct hr_sim_options *options;
    const struct hr_schedule *schedule;
    struct hr_sim_phases phases;
    hr_ns at;
    uint64_t trace;
    uint32_t node_count;
    struct hr_sim_member *members;
    struct hr_universe *universe;
    struct hr_checker *checker;
    struct hr_bounds *bounds; /* NULL: each node is alone, and the checker knows exactly */
    char (*names)[HR_SIM_PLACE_BYTES_MAX];
    struct hr_sim_fact facts[HR_SIM_FACTS]; /* the latest that anybody put */
    hr_ns struck_at;                        /* when last a fault began or ended */
    struct hr_net *net;
    struct hr_sim_link *links; /* as they are when nothing strikes */
    struct hr_queue queue;
    struct hr_load load;
    struct hr_rng rng; /* of the clients */
    struct hr_dice_waits waits;
    uint32_t *active, active_count;               /* indices of what strikes now */
    struct hr_sim_query *asks[HR_SIM_ASK_CHUNKS]; /* in chunks, which never move; slot 0 is not used */
    uint32_t ask_count, ask_free;
    uint64_t last_id;
    struct hr_first_answer *ids;
    uint16_t *watch; /* of each shape, the timelines that it is on */
    uint32_t slot;
    char *answer; /* the last one */
    struct hr_told_decision told;
    struct hr_params params;
    struct hr_sim_outcome *outcome;
    enum hr_err err; /* anything but HR_OK ends the run */
};

static inline struct hr_sim_query *hr_sim_ask_at(const struct hr_sim *sim, uint32_t slot)
{
    return &sim->asks[slot / HR_SIM_ASK_CHUNK][slot % HR_SIM_ASK_CHUNK];
}

static inline void hr_sim_fold(struct hr_sim *sim, uint64_t value)
{
    uint64_t mixed = (sim->trace ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    sim->trace = mixed ^ mixed >> 29;
}

static inline struct hr_now hr_sim_now(const struct hr_sim *sim, const struct hr_sim_member *member)
{
    return hr_sim_clock_read(&member->clock, sim->at);
}

/* Which nodes' counters are one to the checker; in a cluster, what the bounds are told goes by regions. */
static inline uint32_t hr_sim_domain(const struct hr_sim *sim, uint32_t node)
{
    (void)sim;
    return node;
}

static inline enum hr_phase hr_sim_phase(const struct hr_sim *sim)
{
    return sim->at < sim->phases.faults_from   ? HR_PHASE_CALM
           : sim->at < sim->phases.healed_from ? HR_PHASE_FAULTS
                                               : HR_PHASE_HEALED;
}

/* sim.c */
void hr_sim_put(struct hr_sim *sim, hr_ns at, enum hr_sim_kind kind, uint32_t who, uint64_t what);
void hr_sim_turn(struct hr_sim *sim, uint32_t node); /* what a node does when it has been given something */
void hr_sim_start(struct hr_sim *sim, uint32_t node);
void hr_sim_crash(struct hr_sim *sim, uint32_t node);
void hr_sim_leave(struct hr_sim *sim, uint32_t node);
void hr_sim_resume(struct hr_sim *sim, uint32_t node);

/* sim_faults.c */
HR_MUST enum hr_err hr_sim_faults_init(struct hr_sim *sim);
void hr_sim_strike(struct hr_sim *sim, uint32_t index, bool begins);

/* How many faults strike nodes of a region, or links within it; wide: more than one, or one that strikes several. */
uint32_t hr_sim_faults_of(const struct hr_sim *sim, uint32_t region, bool *ret_is_wide);

/* sim_client.c */
HR_MUST enum hr_err hr_sim_clients_init(struct hr_sim *sim);
void hr_sim_clients_deinit(struct hr_sim *sim);
void hr_sim_arrive(struct hr_sim *sim, uint32_t region);
void hr_sim_ask(struct hr_sim *sim, uint32_t slot);
void hr_sim_take_answers(struct hr_sim *sim, uint32_t node);
void hr_sim_lose_asks(struct hr_sim *sim, uint32_t node);   /* the node died */
void hr_sim_resume_asks(struct hr_sim *sim, uint32_t node); /* it goes on after a pause */
void hr_sim_audit(struct hr_sim *sim, uint32_t node, enum hr_check check, uint32_t shapes);
void hr_sim_watch_asks(struct hr_sim *sim);

/* sim_watch.c: what a cluster's nodes know of each other */
void hr_sim_watch(struct hr_sim *sim);
void hr_sim_watch_owners(struct hr_sim *sim);
void hr_sim_watch_region(struct hr_sim *sim, uint32_t region); /* its condition, for the bounds */
void hr_sim_check_healed(struct hr_sim *sim);
struct hr_bounds_marks hr_sim_marks(void *user, uint32_t region);
void hr_sim_put_fact(struct hr_sim *sim, uint32_t node);
void hr_sim_take_facts(struct hr_sim *sim, uint32_t node);
HR_MUST enum hr_err hr_sim_restore_facts(struct hr_sim *sim, uint32_t node);

#endif
