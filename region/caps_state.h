/* Caps state: what the files of the caps share. Nobody else includes this. */
#ifndef HR_REGION_CAPS_STATE_H
#define HR_REGION_CAPS_STATE_H

#include "base/rng.h"
#include "region/caps.h"

#define HR_CAPS_NONE UINT32_MAX

/* A partner: a node of another region that owns something there which this node owns here. */
struct hr_caps_partner {
    uint64_t member;
    uint32_t region;
    struct hr_cap_link link;
    bool is_wanted;  /* hot counters are on it */
    bool is_lending; /* ... and one has lent something */
    bool is_stuck;
};

struct hr_caps_limit {
    struct hr_cap_limit banks[2]; /* the one in force is caps->bank */
    bool is_in[2];
};

/* The last word by which a region was told what the counter is; later ones name it only. */
struct hr_caps_introduction {
    hr_ns at; /* HR_CAP_LONG_AGO: never to this life of the partner */
    uint32_t letter, lives;
    bool has_arrived;
};

struct hr_caps_counter {
    struct hr_id128 id;
    uint32_t limit; /* place in caps->limits */
    bool is_cover, is_due;
    hr_ns seen_at; /* when anything came or went for it */
    hr_ns hot_at;  /* when it was hot last */
    uint32_t next; /* of its chain */
    struct hr_caps_introduction introductions[HR_REGIONS_MAX];
    union {
        struct hr_lend lend;
        struct hr_cover cover;
    };
};

struct hr_caps_tenure {
    hr_ns since; /* HR_CAP_LONG_AGO: not this node's */
    bool is_new, is_forgetful;
    hr_ns forgot_at; /* where it is forgetful */
    uint64_t log;
};

struct hr_caps {
    struct hr_caps_config config;
    struct hr_caps_host host;
    struct hr_cap_times times;
    uint64_t incarnation;
    hr_ns started_at, tick_at, push_at, sent_at;
    uint32_t epoch, generation, bank;
    bool is_adopted, is_seated;
    uint32_t stopped; /* a bit for each region that an operator has declared stopped */
    struct hr_rng rng;
    struct hr_caps_limit *limits;
    uint32_t limit_count;
    struct hr_caps_partner *partners;
    uint32_t partner_count;
    struct hr_caps_counter *counters;
    uint32_t counter_count;
    uint32_t *heads; /* of chains, by hash */
    uint32_t head_count;
    uint16_t *owners; /* by region and partition: place in partners + 1; 0: nobody is known */
    struct hr_caps_tenure *tenures;
    uint8_t *letter; /* being written */
    struct hr_caps_counts counts;
};

/* Everything about one counter at one instant. */
struct hr_caps_at {
    struct hr_cap_link *links[HR_REGIONS_MAX];
    struct hr_lend_context lend;
    struct hr_cover_context cover;
};
void hr_caps_at(struct hr_caps *caps, const struct hr_caps_counter *counter, hr_ns now, struct hr_caps_at *ret_at);

struct hr_caps_partner *hr_caps_partner_of(const struct hr_caps *caps, uint32_t region, uint32_t partition);
struct hr_caps_counter *hr_caps_find(const struct hr_caps *caps, uint64_t id_hi);
struct hr_caps_limit *hr_caps_find_limit(const struct hr_caps *caps, uint32_t number);

/* Begins to look after a counter. NULL: no room, or the host has no share. */
struct hr_caps_counter *hr_caps_attach(struct hr_caps *caps, struct hr_id128 id, struct hr_caps_limit *limit,
                                       hr_ns now);
void hr_caps_let_go(struct hr_caps *caps, struct hr_caps_counter *counter);

/* Brings links and a counter to now. */
void hr_caps_advance_links(struct hr_caps *caps, hr_ns now);
void hr_caps_advance(struct hr_caps *caps, struct hr_caps_counter *counter, hr_ns now);

/* The counter moves, and tells, at the next turn. */
void hr_caps_make_due(struct hr_caps *caps, struct hr_caps_counter *counter, hr_ns now);

#endif
