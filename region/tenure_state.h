/* Tenure state: what the files of tenure.h share. Nobody else includes this, tests apart.
 *
 * tenure.c is the face; tenure_pulse.c hears and is heard; tenure_vote.c votes, leads and adopts charters;
 * handover.c moves and copies partitions; tenure_record.c is what the store keeps. */
#ifndef HR_REGION_TENURE_STATE_H
#define HR_REGION_TENURE_STATE_H

#include "limiter/range.h"
#include "region/ballot.h"
#include "region/handover.h"
#include "region/plan.h"
#include "region/quorum.h"
#include "region/stream.h"
#include "region/tenure.h"

/* What this node knows of its own part in a partition. */
#define HR_PART_HOLDS 1U    /* it holds it: nobody else does */
#define HR_PART_FROZEN 2U   /* holds it, but is handing it over: nothing may change */
#define HR_PART_GIVEN 4U    /* as giver: handed over, in this life of the owner */
#define HR_PART_COPIED 8U   /* as holder: a whole copy is on its way to the standby, or there */
#define HR_PART_DROPPED 16U /* has no part in it: what stands there is to go */

/* Another node of the region. */
struct hr_peer {
    uint64_t id; /* 0: the slot is free */
    uint32_t member;
    uint8_t node; /* in the charter in force; HR_NODE_NONE: it is not in it */
    uint64_t life;
    hr_ns stamp; /* its newest */
    struct hr_heard clock;
    hr_ns heard_at;   /* any pulse of it; before 0: never */
    hr_ns contact_at; /* one that said that it hears this node */
    hr_ns contact_since;
    hr_ns granted_at;      /* when it was last granted a stamp; at first: when this node started */
    uint64_t granted_life; /* what was granted; 0: nothing yet */
    hr_ns granted;
    hr_ns acked; /* this node's newest stamp that it has granted, and that counts; before 0: none */
    uint64_t lineage, version;
    hr_node_set hears;
    bool is_leaving, is_stuck, is_mute, has_lease, has_held;
    uint8_t held[HR_PARTITION_SET_BYTES];
    hr_ns pulse_at, push_at;
    bool is_lost; /* not waited for with copies: it will get whole ones */
    struct hr_stream stream;
    struct hr_departure out;
    struct hr_arrival in;
    size_t copy_offset;   /* in the batch that is being copied */
    uint64_t copy_number; /* the last message that was put for it; 0: none */
};

/* A word about a vote that waits for the store. */
struct hr_owed {
    bool is_owed;
    uint8_t to; /* node of the charter in force */
    enum hr_vote_kind kind;
    uint64_t number, seq;
};

struct hr_tenure {
    struct hr_tenure_config config;
    uint64_t self_id;
    uint8_t self; /* node in the charter in force */
    bool is_leaving;
    struct hr_peer *peers;
    uint32_t peer_count;                   /* slots that were ever taken: the first of config.nodes_max */
    uint32_t peer_of[HR_REGION_NODES_MAX]; /* slot of each node; UINT32_MAX: none */
    hr_node_set gone;                      /* nodes that have left */

    struct hr_charter current;
    struct hr_moving {
        uint64_t lineage, version; /* of the charter that was looked at */
        bool is_any;               /* a partition of it has a giver */
    } moving;
    hr_ns started_at, adopted_at;
    bool has_begun;             /* it was ticked: started_at is then */
    hr_ns remade_at;            /* when a charter of other members was adopted */
    uint64_t forgetful_version; /* no vote on what follows this version, */
    hr_ns forgetful_until;      /* ... until then: it may have voted in a life that is forgotten */
    hr_ns lease_until, self_granted;
    bool had_lease;
    struct hr_ballot ballot;
    struct hr_owed owed;
    struct hr_plan plan;
    hr_ns plan_at, tick_at;
    hr_ns supported_at[HR_REGION_NODES_MAX]; /* when a majority was last known to hear a node */
    hr_ns supported_since[HR_REGION_NODES_MAX];

    uint8_t parts[HR_PARTITIONS];   /* HR_PART_... */
    uint8_t holders[HR_PARTITIONS]; /* by the charter: who has what is not held here. Each request asks for that */
    uint32_t dropped_count;         /* partitions with HR_PART_DROPPED */
    struct hr_tenure_counts counts;

    uint64_t change_seq, urgent_seq,
        charter_seq; /* of the last change, of one that somebody waits for, of an adoption */
    uint64_t written_seq, saved_seq;

    const struct hr_store_batch *batch; /* being copied; NULL: none */
    uint64_t ticket;

    struct hr_charter scratch;
    uint8_t letter[HR_VOTE_BYTES_MAX > HR_STREAM_LETTER_BYTES_MAX ? HR_VOTE_BYTES_MAX : HR_STREAM_LETTER_BYTES_MAX];
    struct hr_handover_scratch hand;
};

static inline struct hr_peer *hr_tenure_peer_of(struct hr_tenure *tenure, uint8_t node)
{
    uint32_t slot = node == HR_NODE_NONE ? UINT32_MAX : tenure->peer_of[node];
    return slot == UINT32_MAX ? NULL : &tenure->peers[slot];
}

static inline struct hr_range hr_partition_range(uint32_t partition)
{
    return (struct hr_range){hr_partition_first(partition), hr_partition_last(partition)};
}

/* Letters go to the lane of the region's nodes. */
void hr_tenure_send(struct hr_tenure *tenure, const struct hr_peer *peer, enum hr_letter_kind kind,
                    struct hr_span body);

/* Something that must survive has changed. */
void hr_tenure_note_change(struct hr_tenure *tenure, bool is_urgent);

/* tenure_pulse.c */
void hr_tenure_receive_pulse(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span body, hr_ns now);
void hr_tenure_pulse(struct hr_tenure *tenure, hr_ns now);
void hr_tenure_renew_lease(struct hr_tenure *tenure);
bool hr_tenure_is_in_contact(const struct hr_peer *peer, hr_ns now);

/* Has any partition of the charter in force a giver? Looked up once for each charter: most of the time none has. */
bool hr_tenure_is_any_moving(struct hr_tenure *tenure);

/* tenure_vote.c */
void hr_tenure_receive_vote(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span body, hr_ns now);
void hr_tenure_pay_owed(struct hr_tenure *tenure, hr_ns now);
void hr_tenure_lead(struct hr_tenure *tenure, hr_ns now);
bool hr_tenure_may_vote(const struct hr_tenure *tenure, hr_ns now);
void hr_tenure_push_charter(struct hr_tenure *tenure, struct hr_peer *peer, hr_ns now);

/* Puts a charter in force; it is not tenure->current. */
void hr_tenure_adopt(struct hr_tenure *tenure, const struct hr_charter *charter, hr_ns now);

/* Finds this node, each peer, and the holders of partitions among the members of the charter in force. */
void hr_tenure_seat_peers(struct hr_tenure *tenure);

/* The peer is in another life, or was not heard for long: it has no copies of this node's any more. */
void hr_tenure_lose_copies(struct hr_tenure *tenure, struct hr_peer *peer);

#endif
