#include "limiter/stakes.h"

#include <stddef.h>

#include "limiter/limiter_state.h"

void hr_limiter_set_pricer(struct hr_limiter *limiter, struct hr_pricer pricer)
{
    limiter->stakes.pricer = pricer;
}

void hr_limiter_reprice_stakes(struct hr_limiter *limiter)
{
    limiter->stakes.generation++;
}

/* O(limits): off the path of a request that comes often. */
static struct hr_version *version_of(struct hr_limiter *limiter, uint32_t number)
{
    for (uint32_t i = 0; limiter->set != NULL && i < limiter->set->limit_count; i++) {
        struct hr_version *version = &limiter->versions.versions[limiter->versions.of_limit[i]];
        if (version->cap.number == number) {
            return version;
        }
    }
    return NULL;
}

/* The version that a stake was last used under, or the one that is in force now. */
static struct hr_version *version_of_stake(struct hr_limiter *limiter, struct hr_stake *stake)
{
    struct hr_version *version = &limiter->versions.versions[stake->version];
    if (stake->version != 0 && version->in_use && !version->is_retired && version->cap.number == stake->number) {
        return version;
    }
    version = version_of(limiter, stake->number);
    stake->version = version == NULL ? 0 : hr_limiter_version_number(limiter, version);
    return version;
}

static struct hr_stake *get(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now)
{
    struct hr_stake *stake = hr_stake_find(&limiter->stakes, id, number);
    if (stake == NULL) {
        const struct hr_version *version = version_of(limiter, number);
        stake = version == NULL ? NULL : hr_stake_get(&limiter->stakes, id, &version->cap, now.steady);
    }
    if (stake != NULL) {
        stake->is_priced = true;
        stake->generation = limiter->stakes.generation;
    }
    return stake;
}

struct hr_share *hr_limiter_share(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now)
{
    struct hr_stake *stake = get(limiter, id, number, now);
    return stake == NULL || stake->kind != HR_STAKE_SHARE ? NULL : &stake->share;
}

struct hr_escrow *hr_limiter_escrow(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now)
{
    struct hr_stake *stake = get(limiter, id, number, now);
    return stake == NULL || stake->kind == HR_STAKE_SHARE ? NULL : &stake->escrow;
}

struct hr_stake_window hr_limiter_window(struct hr_limiter *limiter, uint32_t number, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_version *version = version_of(limiter, number);
    if (version == NULL) {
        return (struct hr_stake_window){0};
    }
    hr_limiter_face(&context, version);
    return hr_stake_window_of(&version->rule, &version->clock, context.now.wall);
}

void hr_limiter_update_guard(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_stake *stake = hr_stake_find(&limiter->stakes, id, number);
    if (stake == NULL || stake->kind != HR_STAKE_GUARD) {
        return;
    }
    struct hr_cell *cell = hr_table_find(&limiter->table, id);
    const struct hr_version *version = cell == NULL ? NULL : hr_limiter_bring_up_to_date(limiter, cell, &context);
    bool is_same = version != NULL && version->cap.number == number;
    stake->escrow.used = is_same ? hr_stake_used_of(&cell->state, &version->rule, context.now.steady) : 0;
}

bool hr_limiter_next_notice(struct hr_limiter *limiter, struct hr_id128 *ret_id, uint32_t *ret_number)
{
    return hr_stake_next_noted(&limiter->stakes, ret_id, ret_number);
}

void hr_limiter_drop_stakes(struct hr_limiter *limiter, bool (*is_gone)(void *context, struct hr_id128 id),
                            void *context, struct hr_now now)
{
    for (uint32_t i = 1; i < limiter->stakes.fresh; i++) {
        struct hr_stake *stake = &limiter->stakes.stakes[i];
        if (stake->kind != HR_STAKE_NONE && is_gone(context, stake->id)) {
            hr_stake_reset(stake, now.steady);
        }
    }
}

bool hr_limiter_next_stake(const struct hr_limiter *limiter, uint32_t number, uint32_t *cursor, struct hr_id128 *ret_id)
{
    for (uint32_t i = *cursor + 1; i < limiter->stakes.fresh; i++) {
        const struct hr_stake *stake = &limiter->stakes.stakes[i];
        if (stake->number == number && (stake->kind == HR_STAKE_SHARE ? stake->share.is_held : stake->escrow.is_held)) {
            *cursor = i;
            *ret_id = stake->id;
            return true;
        }
    }
    return false;
}

const struct hr_cap *hr_limiter_cap(const struct hr_limiter *limiter, uint32_t limit)
{
    return &limiter->versions.versions[limiter->versions.of_limit[limit]].cap;
}

/* A stake of a limit that is gone says nothing that would be asked for. */
static void sweep_stake(struct hr_limiter *limiter, struct hr_stake *stake, struct hr_context *context)
{
    static const struct hr_share_scale none = {.period_ns = 1};
    struct hr_version *version = version_of_stake(limiter, stake);
    bool is_over = version == NULL;
    if (version != NULL) {
        hr_limiter_face(context, version);
        int64_t label = hr_stake_window_of(&version->rule, context->clock, context->now.wall).label;
        is_over = stake->kind == HR_STAKE_ESCROW && stake->escrow.label < label;
    } else if (stake->kind == HR_STAKE_SHARE && !stake->share.is_held) {
        hr_stake_reset(stake, context->now.steady);
    }
    (void)hr_stake_free_if_idle(&limiter->stakes, stake, version == NULL ? &none : &version->cap.scale, is_over,
                                context->now.steady);
}

void hr_limiter_sweep_stakes(struct hr_limiter *limiter, uint32_t stakes, struct hr_now now)
{
    struct hr_stake_pool *pool = &limiter->stakes;
    struct hr_context context = hr_limiter_context(limiter, now);
    for (uint32_t i = 0; i < stakes && pool->used > 0; i++) {
        pool->sweep_at = pool->sweep_at + 1 >= pool->fresh ? 1 : pool->sweep_at + 1;
        if (pool->stakes[pool->sweep_at].kind != HR_STAKE_NONE) {
            sweep_stake(limiter, &pool->stakes[pool->sweep_at], &context);
        }
    }
}
