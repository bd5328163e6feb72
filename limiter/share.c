#include "limiter/share.h"

#include "base/u128.h"

uint32_t hr_share_shift(uint64_t rate, uint64_t capacity)
{
    uint64_t largest = rate > capacity ? rate : capacity;
    uint32_t shift = HR_SHARE_SHIFT_MAX;
    while (largest > (uint64_t)HR_SHARE_UNITS_MAX >> shift) {
        shift -= 2;
    }
    return shift;
}

void hr_share_init(struct hr_share *share, hr_ns now)
{
    *share = (struct hr_share){.at = now, .lapse_at = INT64_MAX, .is_fresh = true, .wants_notice = true};
}

static void clamp(struct hr_share *share)
{
    if (share->level >= share->price.cap) {
        share->level = share->price.cap;
        share->rest = 0;
    }
}

static void mint_until(struct hr_share *share, const struct hr_share_scale *scale, hr_ns until)
{
    if (until <= share->at) {
        return;
    }
    struct hr_u128 due = hr_u128_mul((uint64_t)share->price.mint, (uint64_t)(until - share->at));
    due = hr_u128_add(due, (struct hr_u128){0, (uint64_t)share->rest});
    struct hr_u128 minted = hr_u128_div(due, scale->period_ns);
    int64_t room = share->price.cap - share->level;
    share->at = until;
    if (!hr_u128_le(minted, (struct hr_u128){0, (uint64_t)room})) {
        share->level = share->price.cap;
        share->rest = 0;
        return;
    }
    share->level += (int64_t)minted.lo;
    share->rest = (int64_t)hr_u128_sub_floor(due, hr_u128_mul(minted.lo, scale->period_ns)).lo;
    clamp(share);
}

void hr_share_advance(struct hr_share *share, const struct hr_share_scale *scale, hr_ns now)
{
    if (now >= share->lapse_at) {
        mint_until(share, scale, share->lapse_at);
        share->price = share->lapsed;
        share->lapse_at = INT64_MAX;
        clamp(share);
    }
    mint_until(share, scale, now);
}

void hr_share_set_price(struct hr_share *share, struct hr_price price, struct hr_price lapsed, hr_ns lapse_at)
{
    share->price = price;
    share->lapsed = lapsed;
    share->lapse_at = lapse_at;
    clamp(share);
}

void hr_share_add(struct hr_share *share, int64_t units)
{
    int64_t room = share->price.cap - share->level;
    int64_t added = units > room ? room : units;
    share->level = share->level + added < 0 ? 0 : share->level + added;
}

/* A cost in units; one that no bucket can hold as more than any holds. */
static int64_t units_of(const struct hr_share_scale *scale, uint64_t cost)
{
    return cost > (uint64_t)HR_SHARE_UNITS_MAX >> scale->shift ? INT64_MAX : (int64_t)(cost << scale->shift);
}

void hr_share_ask(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost)
{
    int64_t units = units_of(scale, cost);
    int64_t room = HR_SHARE_UNITS_MAX - share->asked;
    share->asked += units < room ? units : room;
    share->wants_notice |= units > share->level || share->level - units < share->low;
}

bool hr_share_fits(const struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost)
{
    return units_of(scale, cost) <= share->level;
}

void hr_share_take(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost)
{
    share->level -= units_of(scale, cost);
}

void hr_share_give_back(struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost)
{
    hr_share_add(share, units_of(scale, cost));
}

uint64_t hr_share_remaining(const struct hr_share *share, const struct hr_share_scale *scale)
{
    return (uint64_t)share->level >> scale->shift;
}

static int64_t wait_ms(const struct hr_share *share, const struct hr_share_scale *scale, int64_t level)
{
    if (level <= share->level) {
        return 0;
    }
    if (level > share->price.cap || share->price.mint == 0) {
        return HR_NEVER_MS;
    }
    struct hr_u128 due = hr_u128_mul((uint64_t)(level - share->level), scale->period_ns);
    due = hr_u128_sub_floor(due, (struct hr_u128){0, (uint64_t)share->rest});
    struct hr_u128 ns = hr_u128_div_ceil(due, (uint64_t)share->price.mint);
    return (int64_t)hr_u128_saturate(hr_u128_div_ceil(ns, (uint64_t)HR_NS_PER_MS), (uint64_t)HR_ANSWER_MAX);
}

int64_t hr_share_retry_ms(const struct hr_share *share, const struct hr_share_scale *scale, uint64_t cost)
{
    return wait_ms(share, scale, units_of(scale, cost));
}

int64_t hr_share_reset_ms(const struct hr_share *share, const struct hr_share_scale *scale)
{
    return wait_ms(share, scale, share->price.cap);
}

void hr_escrow_enter(struct hr_escrow *escrow, int64_t label)
{
    if (label > escrow->label) {
        *escrow = (struct hr_escrow){
            .label = label, .asked = escrow->asked, .is_held = escrow->is_held, .wants_notice = true};
    }
}

void hr_escrow_ask(struct hr_escrow *escrow, uint64_t cost)
{
    uint64_t room = UINT64_MAX - escrow->asked;
    escrow->asked += cost < room ? cost : room;
    bool fits = hr_escrow_fits(escrow, cost), waits = hr_escrow_waits(escrow, cost);
    escrow->was_denied |= !fits && !waits;
    escrow->waiting = waits && cost > escrow->waiting ? cost : escrow->waiting;
    escrow->wants_notice |= !fits || hr_escrow_remaining(escrow) - cost < escrow->low;
}

static bool is_within(uint64_t used, uint64_t cost, uint64_t most)
{
    return used <= most && cost <= most - used;
}

bool hr_escrow_fits(const struct hr_escrow *escrow, uint64_t cost)
{
    return is_within(escrow->used, cost, escrow->permission) && is_within(escrow->used, cost, escrow->charged);
}

bool hr_escrow_waits(const struct hr_escrow *escrow, uint64_t cost)
{
    return is_within(escrow->used, cost, escrow->permission) && !is_within(escrow->used, cost, escrow->charged);
}

void hr_escrow_take(struct hr_escrow *escrow, uint64_t cost)
{
    escrow->used += cost;
    escrow->waiting = 0;
}

void hr_escrow_give_back(struct hr_escrow *escrow, uint64_t cost)
{
    escrow->used = escrow->used > cost ? escrow->used - cost : 0;
}

uint64_t hr_escrow_remaining(const struct hr_escrow *escrow)
{
    return escrow->permission > escrow->used ? escrow->permission - escrow->used : 0;
}
