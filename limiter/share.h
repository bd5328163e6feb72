/* Share: this region's part of a global cap, as the hot path sees it. Two forms:
 *   hr_share    a bucket whose rate and depth others set (LEND, region/lend.h): for rates
 *   hr_escrow   units of one window that this region may spend (COVER, region/cover.h): for counts
 * Decisions read and write nothing else; whatever moves between regions arrives here as a new price, or as units.
 *
 * Unit of a bucket: one token is 2^shift units, where shift is even, at most 20, and so small that neither the whole
 * rate nor the whole burst passes 2^58 units (so 4 for the largest there are), with room for sums over regions. Rates
 * are units per period P of the limit, so that "N per P" is exactly N x 2^shift, whatever N and P are: parts of it add
 * up to it, and nothing drifts. The rest of a division by P is kept from one advance to the next.
 *
 * Thread: the limiter's. Pure. Instants lie in [0, HR_TIME_NS_MAX]. */
#ifndef HR_LIMITER_SHARE_H
#define HR_LIMITER_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

#define HR_SHARE_SHIFT_MAX 20U
#define HR_SHARE_UNITS_MAX (INT64_C(1) << 58)

/* What a bucket is worth: units per period, and units. */
struct hr_price {
    int64_t mint, cap;
};

struct hr_share {
    int64_t level; /* 0 to cap */
    int64_t rest;  /* of the last division: below the period */
    hr_ns at;      /* when level was true */
    struct hr_price price;
    struct hr_price lapsed; /* what is left of it at lapse_at: borrowed rate comes with an end */
    hr_ns lapse_at;
    int64_t asked;       /* units that requests wanted since that was last read, granted or not */
    int64_t low;         /* below this level help is wanted */
    uint32_t generation; /* of the caps' config under which it was priced (region/caps.h) */
    bool is_fresh;       /* not priced yet */
    bool is_held;        /* the region looks after it: it must stay where it is */
    bool wants_notice;   /* fresh, denied, or low: the region should look at it now */
};

/* What all counters of a limit have in common. */
struct hr_share_scale {
    uint64_t period_ns; /* P */
    uint32_t shift;
};

/* Requires: both numbers lie in 1 to HR_COST_MAX. */
uint32_t hr_share_shift(uint64_t rate, uint64_t capacity);

/* A bucket of no worth, and empty. */
void hr_share_init(struct hr_share *share, hr_ns now);

/* Brings the level to now; an earlier now changes nothing. Comes before all that follows. */
void hr_share_advance(struct hr_share *share, const struct hr_share_scale *scale, hr_ns now);

/* Sets what the bucket is worth from now on, and from lapse_at on. The level never rises by that. */
void hr_share_set_price(struct hr_share *share, struct hr_price price, struct hr_price lapsed, hr_ns lapse_at);

/* Adds or removes tokens that were handed over: never above the cap, never below 0. */
void hr_share_add(struct hr_share *share, int64_t units);

/* Notes that a request wants cost, whether it will fit or not. */
void hr_share_ask(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost);
bool hr_share_fits(const struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost);
void hr_share_take(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost);
void hr_share_give_back(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost);

uint64_t hr_share_remaining(const struct hr_share *share, const struct hr_share_scale *scale);

/* Until cost fits at the price of now, rounded up; HR_NEVER_MS where it is above the cap or nothing is minted: then
 * only another region can help. */
int64_t hr_share_retry_ms(const struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost);
int64_t hr_share_reset_ms(const struct hr_share *share, const struct hr_share_scale *scale);

struct hr_escrow {
    int64_t label;       /* the window's number */
    uint64_t permission; /* units of that window that may be spent here, spent ones included */
    uint64_t charged;    /* ... that the log knows of: no more may be spent until it does */
    uint64_t used;
    uint64_t asked;
    uint64_t low;     /* with fewer units left help is wanted */
    uint64_t waiting; /* the largest cost that waits for the log */
    bool is_held;     /* as in hr_share */
    bool wants_notice;
    bool was_denied; /* since the region looked last */
};

/* Enters a later window, in which nothing may be spent until the region says so; an earlier one changes nothing. */
void hr_escrow_enter(struct hr_escrow *escrow, int64_t label);
void hr_escrow_ask(struct hr_escrow *escrow, uint64_t cost);
bool hr_escrow_fits(const struct hr_escrow *escrow, uint64_t cost);

/* Does only the log stand in the way? Then the request is to wait for it (HR_E_PENDING), not to be denied. */
bool hr_escrow_waits(const struct hr_escrow *escrow, uint64_t cost);
void hr_escrow_take(struct hr_escrow *escrow, uint64_t cost);
void hr_escrow_give_back(struct hr_escrow *escrow, uint64_t cost);
uint64_t hr_escrow_remaining(const struct hr_escrow *escrow);

#endif
