/* Region sim: the region's part of some nodes (tenure.h, each with a limiter and a store of its own) in one process,
 * under virtual time, over a network that loses, delays, doubles and reorders, with cuts, pauses, crashes and restarts.
 * The same seed gives the same run.
 *
 * Each user has one counter: of a quota of a year, or of slots that are never given back. So what was spent stays
 * spent, and is to be found again wherever the counters go. After each step it is checked that no two nodes
 * answer for one partition, and that no counter holds more than was spent. */
#ifndef HR_TESTS_LIB_REGION_SIM_H
#define HR_TESTS_LIB_REGION_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "gossip/outbox.h"
#include "limiter/image.h"
#include "region/tenure.h"
#include "storage/batch.h"
#include "tests/lib/limiter_fixture.h"

#define SIM_NODES_MAX 7
#define SIM_USERS 24
#define SIM_SLOT_USERS 8 /* the first ones: their counter is one of slots */
#define SIM_STEP_NS (5 * HR_NS_PER_MS)
#define SIM_LEASES_MAX 4096

/* What a node's disk holds: the last committed records of the tenure, counters, leases. */
struct sim_disk {
    struct hr_store_batch tenure; /* at most the two records */
    uint8_t tenure_memory[HR_TENURE_BATCH_BYTES];
    uint32_t counter_count, lease_count;
    struct hr_counter_image counters[4 * SIM_USERS];
    struct hr_lease_image leases[SIM_LEASES_MAX];
};

struct sim_node {
    bool is_up, is_paused, has_left;
    uint64_t life;
    int64_t offset_ns, drift_ppm; /* its clock: offset + time x (1 + drift) */
    struct hr_member all[SIM_NODES_MAX];
    struct hr_members members;
    struct hr_outbox outbox;
    struct fixture fixture; /* the limiter */
    struct hr_tenure *tenure;
    void *memory, *outbox_memory;
    uint64_t seen_life[SIM_NODES_MAX];
    struct sim_disk disk;
    uint8_t *batch_memory;
    struct hr_store_batch batch;
    bool in_flight, is_committed, has_mark;
    uint64_t ticket, mark;
    hr_ns commit_at, flush_at;
    uint64_t batch_spent[SIM_USERS], safe_spent[SIM_USERS]; /* as it was put; what is stored and copied */
    hr_ns restart_at, farewell_until;
};

struct sim_faults {
    uint32_t loss_percent, double_percent;
    hr_ns delay_max;
    bool reorders;
};

struct sim {
    uint64_t seed;
    struct hr_rng rng;
    hr_ns now;
    uint32_t node_count;
    uint64_t life; /* the last that was given out */
    struct sim_node nodes[SIM_NODES_MAX];
    bool is_cut[SIM_NODES_MAX][SIM_NODES_MAX]; /* from, to */
    struct sim_faults faults;
    uint32_t letter_count;
    uint64_t letters_posted;
    hr_ns last_at[SIM_NODES_MAX][SIM_NODES_MAX];
    struct sim_letter *letters;
    uint64_t spent[SIM_USERS];
    struct hr_id128 counters[SIM_USERS];
    uint32_t hosts;                /* distinct ones; 0: unknown */
    uint64_t answered, unanswered; /* spends */
    const char *violation;
};

struct sim *region_new(uint64_t seed, uint32_t node_count);
void region_free(struct sim *sim);

/* The first time, or after a crash: from what the disk holds. */
void region_start(struct sim *sim, uint32_t index);
void region_crash(struct sim *sim, uint32_t index);
void region_wipe(struct sim *sim, uint32_t index); /* the disk of a node that is down */
void region_set_pause(struct sim *sim, uint32_t node, bool is_paused);
void region_cut(struct sim *sim, uint32_t from, uint32_t to, bool is_cut);
void region_heal(struct sim *sim);
void region_leave(struct sim *sim, uint32_t index); /* goes on leaving in the steps to come, and is down when it has */

void region_run(struct sim *sim, hr_ns ns);

/* Runs until all nodes that are up agree and every partition is answered for. False: not within ns. */
bool region_settle(struct sim *sim, hr_ns ns);
bool region_is_settled(struct sim *sim);

/* How old a letter that comes without delay would be taken to be, at most (place.h); INT64_MAX: there is no telling. */
hr_ns region_age(const struct sim *sim, uint32_t from, uint32_t to);

/* The node that answers for a partition now, or UINT32_MAX. */
uint32_t region_owner(struct sim *sim, uint32_t partition);

/* A unit for a user, at whoever answers for its counter. False: nobody does now. */
bool region_spend(struct sim *sim, uint32_t user);

/* What stands at the node as spent by a user. */
uint64_t region_spent_at(struct sim *sim, uint32_t node, uint32_t user);

#endif
