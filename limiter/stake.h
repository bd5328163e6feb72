/* Stake: what this region may spend of one counter of a global cap. The counters of limits with `scope: global` have
 * one each, in a pool beside the table; region/caps.h moves shares between regions and sets what the stakes are worth.
 *
 *   share    a bucket (token_bucket, gcra, leaky_bucket). It is all there is of the counter
 *   escrow   units of a window (quota, fixed_window). It is all there is of the counter
 *   guard    slots and sliding windows: the counter itself stands in the table, as ever; an escrow bounds it besides
 *
 * A stake that was never priced, or was priced under another generation, has to be priced before it is spent: the
 * pricer is called for that, within the decision, and waits for nobody. One that wants help from other regions is noted
 * in a bounded list, which the owner of the limiter drains.
 *
 * The pool is bounded. A stake goes when it is as if untouched, and nobody else looks after it (is_held).
 * Thread: the limiter's. Pure. Memory: handed in, zero-filled. */
#ifndef HR_LIMITER_STAKE_H
#define HR_LIMITER_STAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/hash.h"
#include "limiter/algorithm.h"
#include "limiter/share.h"

/* Stakes that want help at one time; one that finds no room is noted when it is asked for again. */
#define HR_NOTICES_MAX 1024

enum hr_stake_kind { HR_STAKE_NONE, HR_STAKE_SHARE, HR_STAKE_ESCROW, HR_STAKE_GUARD };

/* What all stakes of a limit have in common. `number` names the limit in all regions: a hash of its name, key,
 * algorithm, period, and of the scale of its units; 0: its counters have no stakes. It is a multiple of 2: the lowest
 * bit is the pricer's own. */
struct hr_cap {
    uint32_t number;
    enum hr_stake_kind kind;
    struct hr_share_scale scale;
};

struct hr_stake {
    struct hr_id128 id;
    uint32_t number;
    uint32_t next;       /* of its chain, or of the free ones */
    uint32_t generation; /* under which it was priced */
    uint16_t version;    /* of the limit, when it was asked for last */
    uint8_t kind;
    bool is_priced; /* at least once */
    bool is_noted;
    union {
        struct hr_share share;
        struct hr_escrow escrow;
    };
};

/* Prices a stake: it calls hr_limiter_share or hr_limiter_escrow for where it stands. */
struct hr_pricer {
    void (*price)(void *context, struct hr_id128 id, uint32_t number, struct hr_now now);
    void *context;
};

struct hr_stake_pool {
    struct hr_stake *stakes; /* [0] is not used */
    uint32_t stake_count;    /* with [0] */
    uint32_t used, fresh, free_head;
    uint32_t *heads;
    uint32_t head_mask;
    uint32_t generation;
    uint32_t sweep_at;
    uint32_t noted[HR_NOTICES_MAX]; /* a ring */
    uint32_t noted_first, noted_count;
    struct hr_pricer pricer;
};

/* stakes_max: fewer than 2^31. */
void hr_stake_pool_init(struct hr_stake_pool *pool, uint32_t stakes_max, struct hr_bump *bump);

enum hr_stake_kind hr_stake_kind_of(enum hr_algorithm algorithm);

/* A counter's stake; NULL: it has none. */
struct hr_stake *hr_stake_find(const struct hr_stake_pool *pool, struct hr_id128 id, uint32_t number);

/* The same, made if it is not there. NULL: there is no room. Pointers stay good until the stake goes. */
struct hr_stake *hr_stake_get(struct hr_stake_pool *pool, struct hr_id128 id, const struct hr_cap *cap, hr_ns now);

void hr_stake_prefetch(const struct hr_stake_pool *pool, struct hr_id128 id);

/* Where the clock of a limit with windows stands, and how long the window goes on. */
struct hr_stake_window {
    int64_t label;
    int64_t begin_ns, end_ns; /* Unix time */
};
struct hr_stake_window hr_stake_window_of(const struct hr_rule *rule, const struct hr_quota_clock *clock,
                                          struct hr_wall wall);

/* What a counter of a guard holds now, rounded up: its escrow's `used`. */
uint64_t hr_stake_used_of(const union hr_state *state, const struct hr_rule *rule, hr_ns now);

/* One counter with its stake, at one instant: what algorithm.h is to counters without. state: of a guard. */
struct hr_staked {
    struct hr_stake *stake;
    const struct hr_cap *cap;
    const struct hr_rule *rule;
    const union hr_state *state;
    const struct hr_context *context;
};

/* Brings the stake to now: its bucket, its window, or its use. Comes before what follows. */
void hr_staked_advance(const struct hr_staked *staked);

/* Has it to be priced first? */
bool hr_staked_wants_price(const struct hr_stake_pool *pool, const struct hr_staked *staked);

/* Notes that a request wants cost. */
void hr_staked_ask(struct hr_stake_pool *pool, const struct hr_staked *staked, uint64_t cost);

/* Cost 0 always fits. A guard's own counter is asked by the caller. */
bool hr_staked_fits(const struct hr_staked *staked, uint64_t cost);

/* It fits, but the log does not know of so much yet. */
bool hr_staked_waits(const struct hr_staked *staked, uint64_t cost);
void hr_staked_take(const struct hr_staked *staked, uint64_t cost);
void hr_staked_give_back(const struct hr_staked *staked, uint64_t cost);

/* Is what the region holds of the cap less than the whole, so that a denial may be for want of share? */
bool hr_staked_is_short(const struct hr_staked *staked);

uint64_t hr_staked_remaining(const struct hr_staked *staked);

/* The wait after which a cost that does not fit would fit, by what is here; where only other regions can help, the time
 * in which the whole cap yields as much. HR_NEVER_MS: the cost is above the cap. */
int64_t hr_staked_retry_ms(const struct hr_staked *staked, uint64_t cost);
int64_t hr_staked_reset_ms(const struct hr_staked *staked);

/* How long a request that a leaky bucket admits now must wait. */
int64_t hr_staked_delay_ms(const struct hr_staked *staked);

/* The next stake that wants help, which is not noted any more then. False: there is none. */
bool hr_stake_next_noted(struct hr_stake_pool *pool, struct hr_id128 *ret_id, uint32_t *ret_number);

/* Forgets all that it says: the counter is another's now. Its memory stays where it is. */
void hr_stake_reset(struct hr_stake *stake, hr_ns now);

/* Frees it, if it may go. The kinds that have windows: `is_over` says that its window is. */
bool hr_stake_free_if_idle(struct hr_stake_pool *pool, struct hr_stake *stake, const struct hr_share_scale *scale,
                           bool is_over, hr_ns now);

#endif
