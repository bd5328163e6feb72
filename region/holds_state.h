/* Holds state: what the two sides of holds.h share: holds.c (the owner's) and lead.c (the lead's). Nobody else includes
 * this. */
#ifndef HR_REGION_HOLDS_STATE_H
#define HR_REGION_HOLDS_STATE_H

#include "region/blocks.h"
#include "region/holds.h"
#include "region/recent.h"
#include "rpc/params.h"

/* The index of no entry. */
#define HR_NO_ENTRY UINT32_MAX

/* Entries in use, in no order that matters: removal moves the last one into the gap. */
struct hr_active {
    uint32_t *indices;
    uint32_t count;
};

/* What one counter gave, in a chain of those of one hold or lead. */
struct hr_taken_link {
    struct hr_taken taken;
    uint32_t next; /* number; 0: none */
};

struct hr_taken_pool {
    struct hr_taken_link *links; /* [0] is not used */
    uint32_t count, fresh, head, free_count;
};

/* A request that this node holds for, as an owner.
 *
 *   WAITING --(fits)--> OPEN --(settled, or resolved without the lead)--> gone, remembered
 *      |---(denied, must not wait, time is up)--> gone                                    */
enum hr_hold_state { HR_HOLD_FREE, HR_HOLD_WAITING, HR_HOLD_OPEN };

struct hr_hold {
    enum hr_hold_state state;
    bool is_due; /* WAITING: to be tried again */
    struct hr_hold_key key;
    uint64_t priority;
    struct hr_kept body, held;  /* the HOLD as it came; what was answered */
    uint32_t taken;             /* first of the chain */
    uint32_t refused;           /* bit of each owner that has not seen a commit */
    hr_ns wait_until, again_at; /* WAITING: at the longest; when to look again */
    hr_ns move_until;           /* WAITING: for a partition that moves */
    hr_ns ask_at, keep_at;      /* OPEN: when to ask about it, and when to stop asking */
    bool has_asked;
    uint32_t next, place; /* of the free list; in `active` */
    uint32_t chain;       /* the next of the same bucket */
};

/* A request that this node leads.
 *
 *   PAUSED <--> ASKING --(all held)--> COMMITTING --(all settled)--> gone
 *                  |---(one cannot)--> UNDOING ----(all settled)--> gone
 *
 * A retry is another entry: the one before it is left to undo. */
enum hr_lead_state { HR_LEAD_FREE, HR_LEAD_PAUSED, HR_LEAD_ASKING, HR_LEAD_COMMITTING, HR_LEAD_UNDOING };

enum hr_lead_outcome { HR_LEAD_ALLOWED, HR_LEAD_DENIED, HR_LEAD_GIVEN, HR_LEAD_FAULT, HR_LEAD_MOVING };

struct hr_lead_owner {
    uint64_t member;
    bool has_answered, is_silent, is_settled, has_committed;
    enum hr_held_result result;
    enum hr_code code;
};

struct hr_lead_counter {
    uint8_t owner; /* index; HR_LEAD_NO_OWNER: nobody can be asked */
    bool has_row;
    struct hr_held_row row; /* names the counter */
};

#define HR_LEAD_NO_OWNER UINT8_MAX

struct hr_lead {
    enum hr_lead_state state;
    bool is_told;   /* the caller has its answer, or another entry will see to it */
    bool is_queued; /* to be told */
    enum hr_lead_outcome outcome;
    enum hr_code code;
    const char *words;
    struct hr_lead_request request;
    struct hr_hold_key key;
    uint64_t generation; /* of this entry: makes its serials differ */
    uint64_t priority;
    hr_ns resume_at, resend_at, give_up_at;
    bool is_degraded, refunded;
    bool was_held_up; /* an attempt before met another's hold */
    int64_t delay_ms;
    uint32_t shares;      /* chain of what was taken of fair parts */
    uint32_t next, place; /* of the free list; in `active` */
    uint32_t owner_count, counter_count;
    struct hr_lead_owner owners[HR_HOLD_OWNERS_MAX]; /* good up to their counts */
    struct hr_lead_counter counters[HR_TOUCHED_MAX];
};

/* Open holds by a part of their counters' ids: most counters are in nobody's way, and that is seen at once. */
#define HR_HELD_FILTER_COUNT 4096U

struct hr_holds {
    struct hr_holds_config config;
    struct hr_blocks blocks;
    struct hr_taken_pool taken;
    struct hr_recent settled; /* by key: an enum hr_settled_outcome, or a refund's enum hr_held_result and this */
    struct hr_hold *holds;
    struct hr_active active_holds;
    uint32_t *buckets; /* holds by key */
    uint32_t bucket_mask;
    uint32_t hold_fresh, hold_free, open_count;
    struct hr_lead *leads;
    struct hr_active active_leads;
    uint32_t lead_count, lead_fresh, lead_free;
    uint32_t untold_count;           /* leads whose caller waits */
    uint32_t queue_head, queue_tail; /* leads to be told, by number (index + 1) */
    uint64_t clock;                  /* priorities: above all that were seen */
    bool has_due;
    uint16_t filter[HR_HELD_FILTER_COUNT];
    struct hr_holds_counts counts;

    /* Scratch: of the letter at hand. */
    struct hr_wire_hold wire;
    struct hr_wire_held held;
    struct hr_params params;
    struct hr_touches touches;
    struct hr_decision before, after;
    struct hr_taken took[HR_TOUCHED_MAX];
    uint8_t letter[HR_HOLD_BYTES_MAX];
};

#define HR_SETTLED_REFUND 16U

static inline uint64_t hr_holds_self(const struct hr_holds *holds)
{
    return holds->config.members->all[holds->config.members->self].id;
}

static inline void hr_active_add(struct hr_active *active, uint32_t index, uint32_t *ret_place)
{
    *ret_place = active->count;
    active->indices[active->count++] = index;
}

/* holds.c */
void hr_holds_post(struct hr_holds *holds, uint64_t to, enum hr_letter_kind kind, const struct hr_le_writer *body);
void hr_holds_post_settle(struct hr_holds *holds, uint64_t to, struct hr_hold_key key, enum hr_settle_verb verb);
bool hr_taken_add(struct hr_taken_pool *pool, const struct hr_taken *taken, uint32_t *chain);
void hr_taken_drop(struct hr_taken_pool *pool, uint32_t *chain);
void hr_owner_hold(struct hr_holds *holds, uint64_t from, struct hr_span body, struct hr_now now);
enum hr_settled_outcome hr_owner_settle(struct hr_holds *holds, struct hr_hold_key key, enum hr_settle_verb verb,
                                        struct hr_now now);

/* lead.c */
void hr_lead_held(struct hr_holds *holds, uint64_t from, const struct hr_wire_held *held, struct hr_now now);
void hr_lead_settled(struct hr_holds *holds, uint64_t from, const struct hr_wire_settled *settled);
enum hr_settled_outcome hr_lead_word(const struct hr_holds *holds, struct hr_hold_key key);
void hr_lead_tick(struct hr_holds *holds, struct hr_now now);
hr_ns hr_lead_deadline(const struct hr_holds *holds);

#endif
