/* SWIM: which nodes there are, and which of them answer.
 *
 * Every node probes one other each period, in turn: a ping, then pings through three others, then suspicion; a suspect
 * that does not deny it in time is dead. What is new travels on the probes themselves. (Das, Gupta, Motivala 2002:
 * "SWIM: Scalable Weakly-consistent Infection-style Process Group Membership Protocol". Dadgar, Phillips, Currey 2018:
 * "Lifeguard: Local Health Awareness for More Accurate Failure Detection", from which come the health of the prober,
 * the shrinking time of suspicion, and that a suspect is told first.)
 *
 * One membership spans all regions, probed in two rotations: the own region fast, the others slowly. Of two facts about
 * a member the greater holds, by incarnation, then by state (alive < suspect < dead < left). That is a total order, so
 * all views become the same whatever the order in which facts arrive, and a fact that comes again changes nothing. Only
 * a member itself raises its incarnation.
 *
 * Nodes that are dead, and seeds that are no live member, are tried again every retry interval, so that a healed
 * partition joins by itself. Two nodes of one region and name: the one of the later life stays, or in one
 * life the one of the greater address; the other is told (HR_SWIM_USURPED) and falls silent.
 *
 * Thread: the owner's. Pure. Memory: handed in, hr_swim_bytes(). Time: supplied, the steady clock. */
#ifndef HR_GOSSIP_SWIM_H
#define HR_GOSSIP_SWIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/span.h"
#include "base/units.h"
#include "gossip/member.h"
#include "gossip/outbox.h"

#define HR_SWIM_SEEDS_MAX 64
#define HR_SWIM_REGIONS_MAX 8
#define HR_SWIM_PERIOD_NS_MAX (60 * HR_NS_PER_S)

/* How one rotation probes. */
struct hr_swim_pace {
    hr_ns period_ns;
    hr_ns timeout_ns;   /* of a direct ping; below the period */
    hr_ns suspicion_ns; /* the shortest; up to half as much longer where nobody else suspects the member */
};

/* Where a field is 0 the default holds. */
struct hr_swim_timings {
    struct hr_swim_pace near;   /* members of the own region: 200, 100, 800 ms */
    struct hr_swim_pace far;    /* all others: 1, 0.6, 5 s */
    hr_ns retry_interval_ns;    /* 3 s */
    hr_ns exchange_interval_ns; /* the whole table, with a random member: 30 s */
};

struct hr_swim_config {
    struct hr_member self;       /* incarnation: the number of this life (life.h); id and state are set here */
    uint32_t members_max;        /* this node too; 0: HR_MEMBERS_MAX */
    uint32_t seed_count;         /* up to HR_SWIM_SEEDS_MAX */
    const struct hr_span *seeds; /* gossip addresses; borrowed for init only; the own one does no harm */
    uint32_t region_count;       /* up to HR_SWIM_REGIONS_MAX; 0: members of any region are taken in */
    struct hr_span regions[HR_SWIM_REGIONS_MAX]; /* else of these alone, and of the own one; borrowed for init only */
    uint64_t rng_seed;
    struct hr_swim_timings timings;
};

enum hr_swim_event_kind {
    HR_SWIM_JOINED,    /* a member that was not known, or a later life of one */
    HR_SWIM_SUSPECTED, /* it does not answer */
    HR_SWIM_RECOVERED, /* it denied that, or came back from the dead */
    HR_SWIM_DIED,
    HR_SWIM_LEFT,
    HR_SWIM_REFUTED,       /* this node was suspected and denied it */
    HR_SWIM_NAME_CONFLICT, /* two nodes of one region, name and life: the greater gossip address stays */
    HR_SWIM_USURPED,       /* a node of this node's region and name, of a later life or address, took its place */
    HR_SWIM_OUTLIVED,      /* this node was known in a later life: its number was lost; restart above `life` */
    HR_SWIM_TABLE_FULL,    /* a member could not be taken in */
};

struct hr_swim_event {
    enum hr_swim_event_kind kind;
    uint32_t member; /* index; HR_MEMBER_NONE for HR_SWIM_TABLE_FULL */
    uint64_t life;   /* of the fact that caused it */
};

struct hr_swim_counts {
    uint64_t probes, indirect, failed; /* periods begun; those that asked others; those without any answer */
    uint64_t suspicions, deaths;       /* that this node itself declared */
    uint64_t refutations;
    uint64_t tables;      /* answered with the whole table */
    uint64_t malformed;   /* letters, and facts, that make no sense */
    uint64_t table_full;  /* members for whom there was no place */
    uint64_t events_lost; /* nobody took them in time */
    uint32_t health;      /* Lifeguard's local health multiplier: 0 is well; timeouts are (1 + health) times as long */
};

struct hr_swim;

size_t hr_swim_bytes(const struct hr_swim_config *config);

/* NULL: memory is too small or not on a multiple of 8, or the config is out of range: a life of 0 or above HR_LIFE_MAX,
 * an empty name, region or gossip address or one that is not printable ASCII, a weight of 0, too many seeds or members,
 * a period above HR_SWIM_PERIOD_NS_MAX or a timeout that is not below it. The outbox is borrowed for the life of it. */
HR_MUST struct hr_swim *hr_swim_init(const struct hr_swim_config *config, struct hr_outbox *outbox, void *memory,
                                     size_t memory_bytes);

/* One letter of kind HR_LETTER_SWIM, as its envelope opened. */
void hr_swim_receive(struct hr_swim *swim, uint64_t from, struct hr_span body, hr_ns now);

/* What time brings. Call it at the deadline, or any time before. The first call begins; letters that came earlier
 * are not looked at. */
void hr_swim_tick(struct hr_swim *swim, hr_ns now);
hr_ns hr_swim_deadline(const struct hr_swim *swim);

/* Tells members that this node leaves. It goes on answering, and no longer probes. */
void hr_swim_leave(struct hr_swim *swim, hr_ns now);

/* The operator says that a dead member will not come back: it counts as left, everywhere. A member that lives after all
 * denies it. HR_E_NOT_FOUND: no member of that name. HR_E_INVALID: it is not dead, or several regions have that name
 * and `region` is empty. */
HR_MUST enum hr_err hr_swim_forget(struct hr_swim *swim, struct hr_span region, struct hr_span name, hr_ns now);

const struct hr_members *hr_swim_members(const struct hr_swim *swim);

/* Of nodes of regions that are not among the config's: how often one was refused, and which was the last. */
struct hr_swim_stranger {
    uint64_t count;
    char name[HR_MEMBER_NAME_BYTES_MAX + 1], region[HR_MEMBER_NAME_BYTES_MAX + 1];
};
const struct hr_swim_stranger *hr_swim_stranger(const struct hr_swim *swim);

/* It has others to look for, and none of them has ever answered. */
bool hr_swim_is_unanswered(const struct hr_swim *swim);

/* The oldest of what happened. False: nothing. */
bool hr_swim_next_event(struct hr_swim *swim, struct hr_swim_event *ret_event);

struct hr_swim_counts hr_swim_counts(const struct hr_swim *swim);
const char *hr_swim_event_text(enum hr_swim_event_kind kind);

#endif
