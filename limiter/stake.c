#include "limiter/stake.h"

#include <stddef.h>

/* Asked again after this, where nothing here says when another region may help. */
#define RETRY_MS 1000

void hr_stake_pool_init(struct hr_stake_pool *pool, uint32_t stakes_max, struct hr_bump *bump)
{
    uint32_t heads = 16;
    while (heads < stakes_max) {
        heads *= 2;
    }
    pool->stake_count = stakes_max + 1;
    pool->stakes = hr_bump_take(bump, stakes_max > 0 ? pool->stake_count : 0, sizeof(struct hr_stake), 64);
    pool->heads = hr_bump_take(bump, stakes_max > 0 ? heads : 0, sizeof(uint32_t), 64);
    pool->head_mask = heads - 1;
    pool->fresh = 1;
}

enum hr_stake_kind hr_stake_kind_of(enum hr_algorithm algorithm)
{
    switch (algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return HR_STAKE_SHARE;
    case HR_QUOTA:
    case HR_FIXED_WINDOW:
        return HR_STAKE_ESCROW;
    case HR_SLIDING_WINDOW:
    case HR_CONCURRENCY:
        return HR_STAKE_GUARD;
    case HR_SLIDING_LOG:
        break; /* no limits file may have it global */
    }
    return HR_STAKE_NONE;
}

static uint32_t *head_of(const struct hr_stake_pool *pool, struct hr_id128 id)
{
    return &pool->heads[(uint32_t)id.lo & pool->head_mask];
}

struct hr_stake *hr_stake_find(const struct hr_stake_pool *pool, struct hr_id128 id, uint32_t number)
{
    uint32_t index = *head_of(pool, id);
    while (index != 0 && (pool->stakes[index].number != number || !hr_id128_equal(pool->stakes[index].id, id))) {
        index = pool->stakes[index].next;
    }
    return index == 0 ? NULL : &pool->stakes[index];
}

void hr_stake_prefetch(const struct hr_stake_pool *pool, struct hr_id128 id)
{
    __builtin_prefetch(head_of(pool, id));
}

/* Index 0: none is free. */
static uint32_t take_free(struct hr_stake_pool *pool)
{
    uint32_t index = pool->free_head;
    if (index != 0) {
        pool->free_head = pool->stakes[index].next;
    } else if (pool->fresh < pool->stake_count) {
        index = pool->fresh++;
    }
    return index;
}

struct hr_stake *hr_stake_get(struct hr_stake_pool *pool, struct hr_id128 id, const struct hr_cap *cap, hr_ns now)
{
    struct hr_stake *stake = hr_stake_find(pool, id, cap->number);
    uint32_t index = stake == NULL ? take_free(pool) : 0;
    if (index == 0) {
        return stake;
    }
    uint32_t *head = head_of(pool, id);
    stake = &pool->stakes[index];
    *stake = (struct hr_stake){.id = id, .number = cap->number, .next = *head, .kind = (uint8_t)cap->kind};
    *head = index;
    pool->used++;
    hr_stake_reset(stake, now);
    return stake;
}

void hr_stake_reset(struct hr_stake *stake, hr_ns now)
{
    stake->is_priced = false;
    if (stake->kind == HR_STAKE_SHARE) {
        hr_share_init(&stake->share, now);
        return;
    }
    stake->escrow = (struct hr_escrow){.label = INT64_MIN, .wants_notice = true};
    if (stake->kind == HR_STAKE_GUARD) {
        hr_escrow_enter(&stake->escrow, 0); /* the one window that it has */
    }
}

struct hr_stake_window hr_stake_window_of(const struct hr_rule *rule, const struct hr_quota_clock *clock,
                                          struct hr_wall wall)
{
    struct hr_stake_window window = {0};
    if (rule->algorithm == HR_FIXED_WINDOW) {
        int64_t period_ns = (int64_t)rule->period_ns;
        window.label = wall.ns / period_ns;
        window.begin_ns = window.label * period_ns;
        window.end_ns = window.begin_ns + period_ns;
    } else if (rule->algorithm == HR_QUOTA) {
        const struct hr_period *period = &clock->current;
        window.label = period->number;
        window.begin_ns = hr_clamp_time(period->begin_s < 0 ? 0 : period->begin_s * HR_NS_PER_S);
        window.end_ns = period->end_s > HR_TIME_NS_MAX / HR_NS_PER_S ? HR_TIME_NS_MAX : period->end_s * HR_NS_PER_S;
    }
    return window;
}

/* A window that slides holds what of the one before still weighs; what is left tells, rounded the safe way. */
uint64_t hr_stake_used_of(const union hr_state *state, const struct hr_rule *rule, hr_ns now)
{
    if (rule->algorithm == HR_CONCURRENCY) {
        return state->concurrency.held;
    }
    uint64_t remaining = hr_sliding_window_remaining(&state->sliding_window, rule, now);
    return remaining > 0 ? rule->capacity - remaining : state->sliding_window.previous + state->sliding_window.current;
}

void hr_staked_advance(const struct hr_staked *staked)
{
    const struct hr_now now = staked->context->now;
    struct hr_stake *stake = staked->stake;
    switch (staked->cap->kind) {
    case HR_STAKE_SHARE:
        hr_share_advance(&stake->share, &staked->cap->scale, now.steady);
        return;
    case HR_STAKE_ESCROW:
        hr_escrow_enter(&stake->escrow, hr_stake_window_of(staked->rule, staked->context->clock, now.wall).label);
        return;
    case HR_STAKE_GUARD:
        stake->escrow.used = hr_stake_used_of(staked->state, staked->rule, now.steady);
        return;
    case HR_STAKE_NONE:
        return;
    }
}

/* A window that has just begun has no price yet. */
static bool is_unpriced_window(const struct hr_stake *stake)
{
    return stake->kind != HR_STAKE_SHARE && stake->escrow.permission == 0 && stake->escrow.wants_notice;
}

bool hr_staked_wants_price(const struct hr_stake_pool *pool, const struct hr_staked *staked)
{
    const struct hr_stake *stake = staked->stake;
    return !stake->is_priced || stake->generation != pool->generation || is_unpriced_window(stake);
}

static void note(struct hr_stake_pool *pool, struct hr_stake *stake)
{
    if (stake->is_noted || pool->noted_count == HR_NOTICES_MAX) {
        return;
    }
    stake->is_noted = true;
    pool->noted[(pool->noted_first + pool->noted_count) % HR_NOTICES_MAX] = (uint32_t)(stake - pool->stakes);
    pool->noted_count++;
}

void hr_staked_ask(struct hr_stake_pool *pool, const struct hr_staked *staked, uint64_t cost)
{
    struct hr_stake *stake = staked->stake;
    if (staked->cap->kind == HR_STAKE_SHARE) {
        hr_share_ask(&stake->share, &staked->cap->scale, cost);
    } else {
        hr_escrow_ask(&stake->escrow, cost);
    }
    bool wants_notice = staked->cap->kind == HR_STAKE_SHARE ? stake->share.wants_notice : stake->escrow.wants_notice;
    if (wants_notice) {
        note(pool, stake);
    }
}

bool hr_staked_fits(const struct hr_staked *staked, uint64_t cost)
{
    const struct hr_stake *stake = staked->stake;
    if (cost == 0) {
        return true;
    }
    if (staked->cap->kind == HR_STAKE_SHARE) {
        return hr_share_fits(&stake->share, &staked->cap->scale, cost);
    }
    return cost <= hr_escrow_remaining(&stake->escrow);
}

bool hr_staked_waits(const struct hr_staked *staked, uint64_t cost)
{
    return staked->cap->kind == HR_STAKE_ESCROW && hr_escrow_waits(&staked->stake->escrow, cost);
}

void hr_staked_take(const struct hr_staked *staked, uint64_t cost)
{
    if (staked->cap->kind == HR_STAKE_SHARE) {
        hr_share_take(&staked->stake->share, &staked->cap->scale, cost);
    } else {
        hr_escrow_take(&staked->stake->escrow, cost);
    }
}

void hr_staked_give_back(const struct hr_staked *staked, uint64_t cost)
{
    if (staked->cap->kind == HR_STAKE_SHARE) {
        hr_share_give_back(&staked->stake->share, &staked->cap->scale, cost);
    } else {
        hr_escrow_give_back(&staked->stake->escrow, cost);
    }
}

bool hr_staked_is_short(const struct hr_staked *staked)
{
    const struct hr_rule *rule = staked->rule;
    if (staked->cap->kind != HR_STAKE_SHARE) {
        return staked->stake->escrow.permission < rule->capacity;
    }
    const struct hr_price *price = &staked->stake->share.price;
    uint32_t shift = staked->cap->scale.shift;
    return price->mint < (int64_t)(rule->rate << shift) || price->cap < (int64_t)(rule->capacity << shift);
}

uint64_t hr_staked_remaining(const struct hr_staked *staked)
{
    if (staked->cap->kind == HR_STAKE_SHARE) {
        return hr_share_remaining(&staked->stake->share, &staked->cap->scale);
    }
    uint64_t left = hr_escrow_remaining(&staked->stake->escrow);
    if (staked->cap->kind == HR_STAKE_ESCROW) {
        return left;
    }
    uint64_t own = hr_state_remaining(staked->state, staked->rule, staked->context);
    return own < left ? own : left;
}

static int64_t end_ms(const struct hr_staked *staked)
{
    struct hr_wall wall = staked->context->now.wall;
    struct hr_stake_window window = hr_stake_window_of(staked->rule, staked->context->clock, wall);
    return window.end_ns > wall.ns ? hr_ms_ceil(window.end_ns - wall.ns) : 0;
}

/* As if all that the region lacks of the cap were in use here. */
static int64_t guard_retry_ms(const struct hr_staked *staked, uint64_t cost)
{
    uint64_t permission = staked->stake->escrow.permission, capacity = staked->rule->capacity;
    uint64_t lacking = permission < capacity ? capacity - permission : 0;
    if (cost > capacity - lacking) {
        return RETRY_MS;
    }
    int64_t retry_ms = hr_state_retry_ms(staked->state, staked->rule, cost + lacking, staked->context);
    return retry_ms > 0 ? retry_ms : RETRY_MS;
}

int64_t hr_staked_retry_ms(const struct hr_staked *staked, uint64_t cost)
{
    const struct hr_rule *rule = staked->rule;
    if (cost > rule->capacity) {
        return HR_NEVER_MS;
    }
    if (staked->cap->kind == HR_STAKE_ESCROW) {
        return end_ms(staked);
    }
    if (staked->cap->kind == HR_STAKE_GUARD) {
        return guard_retry_ms(staked, cost);
    }
    int64_t retry_ms = hr_share_retry_ms(&staked->stake->share, &staked->cap->scale, cost);
    if (retry_ms != HR_NEVER_MS) {
        return retry_ms;
    }
    struct hr_gcra spent = {.arrival = hr_u128_mul((uint64_t)staked->context->now.steady, rule->rate)};
    spent.arrival = hr_u128_add(spent.arrival, hr_u128_mul(cost, rule->period_ns));
    int64_t whole_ms = hr_gcra_reset_ms(&spent, rule, staked->context->now.steady);
    return whole_ms > 0 ? whole_ms : 1;
}

int64_t hr_staked_reset_ms(const struct hr_staked *staked)
{
    switch (staked->cap->kind) {
    case HR_STAKE_SHARE: {
        int64_t reset_ms = hr_share_reset_ms(&staked->stake->share, &staked->cap->scale);
        return reset_ms == HR_NEVER_MS ? 0 : reset_ms;
    }
    case HR_STAKE_ESCROW:
        return staked->stake->escrow.used == 0 ? 0 : end_ms(staked);
    case HR_STAKE_GUARD:
        return hr_state_reset_ms(staked->state, staked->rule, staked->context);
    case HR_STAKE_NONE:
        break;
    }
    return 0;
}

int64_t hr_staked_delay_ms(const struct hr_staked *staked)
{
    return staked->rule->algorithm == HR_LEAKY_BUCKET ? hr_staked_reset_ms(staked) : 0;
}

bool hr_stake_next_noted(struct hr_stake_pool *pool, struct hr_id128 *ret_id, uint32_t *ret_number)
{
    if (pool->noted_count == 0) {
        return false;
    }
    struct hr_stake *stake = &pool->stakes[pool->noted[pool->noted_first]];
    pool->noted_first = (pool->noted_first + 1) % HR_NOTICES_MAX;
    pool->noted_count--;
    stake->is_noted = false;
    *ret_id = stake->id;
    *ret_number = stake->number;
    return true;
}

static void unlink_from(struct hr_stake_pool *pool, struct hr_stake *stake)
{
    uint32_t index = (uint32_t)(stake - pool->stakes), *place = head_of(pool, stake->id);
    while (*place != index) {
        place = &pool->stakes[*place].next;
    }
    *place = stake->next;
}

/* A share that is not full remembers what was spent; one that was never priced may stand for a counter that another
 * life left empty, but says nothing of it. */
static bool is_idle(struct hr_stake *stake, const struct hr_share_scale *scale, bool is_over, hr_ns now)
{
    if (stake->kind == HR_STAKE_SHARE) {
        hr_share_advance(&stake->share, scale, now);
        return !stake->share.is_held && stake->share.level == stake->share.price.cap;
    }
    return !stake->escrow.is_held && (is_over || stake->escrow.used == 0);
}

bool hr_stake_free_if_idle(struct hr_stake_pool *pool, struct hr_stake *stake, const struct hr_share_scale *scale,
                           bool is_over, hr_ns now)
{
    if (stake->is_noted || !is_idle(stake, scale, is_over, now)) {
        return false;
    }
    unlink_from(pool, stake);
    *stake = (struct hr_stake){.next = pool->free_head};
    pool->free_head = (uint32_t)(stake - pool->stakes);
    pool->used--;
    return true;
}
