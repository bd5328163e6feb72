/* SWIM's inside, for gossip/swim*.c alone: what they share, and what each of them does for the others. */
#ifndef HR_GOSSIP_SWIM_STATE_H
#define HR_GOSSIP_SWIM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "gossip/swim.h"
#include "gossip/swim_wire.h"

#define HR_SWIM_HELPERS_MAX 3  /* asked when a direct ping is not answered */
#define HR_SWIM_ACCUSERS_MAX 4 /* the first, and three who confirm */
#define HR_SWIM_HEALTH_MAX 4   /* timeouts at most five times as long */
#define HR_SWIM_RELAYS_MAX 64  /* pings in others' place at one time */
#define HR_SWIM_EVENTS_MAX 64
#define HR_SWIM_ANSWERS_MAX 16        /* whole tables, and notices to namesakes, sent in one near period */
#define HR_SWIM_PROBE_BYTES_MAX 1400  /* with its envelope one frame of an Ethernet, nearly always */
#define HR_SWIM_TABLE_BYTES_MAX 16384 /* one part of a table */

/* What this node keeps of a member beside the table. */
struct hr_swim_peer {
    bool is_near;     /* of the own region, as this node itself is */
    bool is_news[2];  /* is to be told: to far members (0), to near ones (1) */
    bool is_mine;     /* this node itself suspects it */
    uint8_t sends[2]; /* how often it was */
    uint8_t accuser_count;
    uint64_t accusers[HR_SWIM_ACCUSERS_MAX];
    hr_ns suspected_at;
    uint64_t conflict_life; /* the life for which a conflict of names was reported */
};

enum hr_swim_stage {
    HR_SWIM_IDLE,     /* nobody is asked, or it has answered */
    HR_SWIM_DIRECT,   /* pinged */
    HR_SWIM_INDIRECT, /* others were asked to ping it */
};

struct hr_swim_rotation {
    struct hr_swim_pace pace;
    uint32_t *order; /* members by index, in random order */
    uint32_t count, next;
    uint32_t urgent; /* the next target, out of turn: it is suspected, which this node is to confirm or to refute */
    enum hr_swim_stage stage;
    uint32_t target, seq;
    uint32_t asked, nacks;
    hr_ns ask_at, period_at; /* when others are asked; when the period ends */
    hr_ns question_at;       /* when suspects are asked again; INT64_MAX: there is none */
};

struct hr_swim_relay {
    uint64_t asker; /* 0: free */
    uint64_t target;
    uint32_t asker_seq, seq;
    hr_ns nack_at, ends_at;
    bool is_nacked;
};

struct hr_swim {
    struct hr_members members;
    struct hr_swim_peer *peers; /* as members.all */
    struct hr_outbox *outbox;
    struct hr_swim_timings timings;
    struct hr_swim_rotation near, far;
    struct hr_swim_relay relays[HR_SWIM_RELAYS_MAX];
    struct hr_rng rng;
    uint32_t seq;
    uint32_t news_count[2]; /* for far members, for near ones */
    uint32_t suspect_count;
    uint32_t answers_left; /* in this near period */
    uint32_t retry_cursor; /* the member after the last dead one that was tried */
    bool has_begun, has_contact, is_usurped, is_outlived;
    hr_ns retry_at, exchange_at, exchange_wait_ns, deadline;
    struct hr_swim_event events[HR_SWIM_EVENTS_MAX];
    uint32_t event_first, event_count;
    struct hr_swim_counts counts;
    uint32_t seed_count;
    char seeds[HR_SWIM_SEEDS_MAX][HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    uint32_t region_count;
    char regions[HR_SWIM_REGIONS_MAX][HR_MEMBER_NAME_BYTES_MAX + 1];
    struct hr_swim_stranger stranger;
    uint8_t *letter; /* room to write one */
};

static inline struct hr_member *hr_swim_self(struct hr_swim *swim)
{
    return &swim->members.all[swim->members.self];
}

void hr_swim_report(struct hr_swim *swim, enum hr_swim_event_kind kind, uint32_t member, uint64_t life);

/* swim_merge.c: what is believed. */
void hr_swim_hear(struct hr_swim *swim, const struct hr_rumor *rumor, hr_ns now);
bool hr_swim_tell_outlived(struct hr_swim *swim, const struct hr_rumor *rumor); /* False: it is not */
uint32_t hr_swim_add(struct hr_swim *swim, const struct hr_rumor *rumor);       /* HR_MEMBER_NONE: no place */
hr_ns hr_swim_suspicion_end(const struct hr_swim *swim, uint32_t index);
void hr_swim_expire_suspicions(struct hr_swim *swim, hr_ns now);

/* swim_news.c: what is told. */
void hr_swim_tell(struct hr_swim *swim, uint32_t index);

/* Live members, this node too. */
uint32_t hr_swim_live_count(const struct hr_swim *swim, bool near_only);

/* Sends a letter with what news it has room for. `about` (an index, or HR_MEMBER_NONE) is told in any case,
 * first, with its meta, and this node itself behind it. */
void hr_swim_send(struct hr_swim *swim, uint32_t to, const struct hr_swim_head *head, uint32_t about);

/* The same for whoever is there: nobody who is known, or not known to be there. */
void hr_swim_send_to_address(struct hr_swim *swim, struct hr_span address, const struct hr_swim_head *head,
                             uint32_t about);
void hr_swim_put(struct hr_swim *swim, uint64_t to, struct hr_span address, size_t bytes);

/* ... to a member, by both lanes where it is near. A node that was away for a moment waits for it, and the one lane may
 * not have found it again before the other. */
void hr_swim_put_both(struct hr_swim *swim, uint32_t to, size_t bytes);

/* swim_probe.c: who is asked. */
void hr_swim_begin_probes(struct hr_swim *swim, hr_ns now);
void hr_swim_step_probes(struct hr_swim *swim, hr_ns now);
void hr_swim_postpone_probes(struct hr_swim *swim, hr_ns late_ns);
hr_ns hr_swim_probes_deadline(const struct hr_swim *swim);
void hr_swim_question(struct hr_swim *swim, uint32_t index, hr_ns now); /* a suspect, from now on */
void hr_swim_ping(struct hr_swim *swim, uint32_t to, uint32_t seq);
void hr_swim_take_ping_req(struct hr_swim *swim, uint32_t from, const struct hr_swim_head *head, hr_ns now);
void hr_swim_take_ack(struct hr_swim *swim, uint32_t seq);
void hr_swim_take_nack(struct hr_swim *swim, uint32_t seq);
void hr_swim_worsen(struct hr_swim *swim, uint32_t by);

/* A live member but this node and one other, each alike likely. HR_MEMBER_NONE: there is none. */
uint32_t hr_swim_pick_live(struct hr_swim *swim, bool near_only, uint32_t but);

/* swim_exchange.c: whole tables, and contact with who is not there. */
void hr_swim_step_exchange(struct hr_swim *swim, hr_ns now);
void hr_swim_exchange_soon(struct hr_swim *swim, hr_ns now);
void hr_swim_take_hello(struct hr_swim *swim, uint32_t from, uint64_t digest);
void hr_swim_take_table(struct hr_swim *swim, uint32_t from, const struct hr_swim_head *head);
uint64_t hr_swim_digest(const struct hr_swim *swim);

#endif
