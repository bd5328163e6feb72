#include "limiter/part.h"

#include "base/defect.h"
#include "base/u128.h"
#include "limiter/limiter_state.h"

enum hr_err hr_limiter_touches(struct hr_limiter *limiter, const struct hr_request *request,
                               struct hr_touches *ret_touches)
{
    enum hr_err err = hr_limiter_touch(limiter, request);
    if (err != HR_OK) {
        return err;
    }
    ret_touches->count = limiter->match.count;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        ret_touches->at[i] = (struct hr_touch){limiter->touched[i].limit, limiter->touched[i].id};
    }
    return HR_OK;
}

struct hr_id128 hr_limiter_spot_counter(const struct hr_limiter *limiter, struct hr_span key)
{
    return hr_keyed_hash(&limiter->spot_key, key.at, key.bytes);
}

static bool has_counter(struct hr_counters part, struct hr_id128 id)
{
    for (uint32_t i = 0; i < part.count; i++) {
        if (hr_id128_equal(part.ids[i], id)) {
            return true;
        }
    }
    return false;
}

/* Leaves out the touched counters that are not of the part. */
static enum hr_err touch_part(struct hr_limiter *limiter, const struct hr_request *request, struct hr_counters part)
{
    enum hr_err err = hr_limiter_touch(limiter, request);
    if (err != HR_OK) {
        return err;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        if (has_counter(part, limiter->touched[i].id)) {
            limiter->touched[count] = limiter->touched[i];
            limiter->match.limits[count++] = limiter->match.limits[i];
        }
    }
    limiter->match.count = count;
    return count == part.count ? HR_OK : HR_E_NOT_FOUND;
}

/* --- what was taken --- */

/* A bucket's arrival time less this cost is what it would have been, were the cost not taken: take added just that. */
static void note_bucket(const struct hr_gcra *gcra, const struct hr_rule *rule, struct hr_taken *taken)
{
    taken->before = hr_u128_sub_floor(gcra->arrival, hr_u128_mul(taken->cost, rule->period_ns));
}

/* A share's tokens are given back less what has come in since; an escrow's in the same window. */
static void note_stake(const struct hr_touched *touched, struct hr_now now, struct hr_taken *taken)
{
    bool is_share = touched->version->cap.kind == HR_STAKE_SHARE;
    taken->number = touched->version->cap.number;
    taken->mark = is_share ? now.steady : touched->stake->escrow.label;
}

static void note_taken(struct hr_limiter *limiter, const struct hr_touched *touched, const struct hr_row *row,
                       uint64_t cost, struct hr_taken *taken)
{
    hr_ns now = limiter->steady;
    *taken = (struct hr_taken){
        .counter = touched->id, .cost = cost, .version = hr_limiter_version_number(limiter, touched->version)};
    if (hr_limiter_has_no_cell(touched->version)) {
        note_stake(touched, (struct hr_now){.steady = now}, taken);
        return;
    }
    const union hr_state *state = &touched->cell->state;
    const struct hr_rule *rule = &touched->version->rule;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        note_bucket(&state->gcra, rule, taken);
        return;
    case HR_FIXED_WINDOW:
        taken->mark = state->fixed_window.index;
        return;
    case HR_SLIDING_WINDOW:
        taken->mark = state->sliding_window.index;
        return;
    case HR_SLIDING_LOG:
        taken->mark = now;
        return;
    case HR_QUOTA:
        taken->mark = state->quota.period;
        return;
    case HR_CONCURRENCY:
        taken->lease = row->lease;
        return;
    }
}

/* What the decision has charged: a shadow without room for it was spared. */
static uint32_t note_all_taken(struct hr_limiter *limiter, const struct hr_request *request,
                               const struct hr_decision *decision, struct hr_taken *ret_taken)
{
    uint32_t count = 0;
    bool is_charged = decision->allowed && !request->peek && request->cost > 0;
    for (uint32_t i = 0; is_charged && i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        if (touched->is_charged) {
            note_taken(limiter, touched, &decision->rows[i], request->cost, &ret_taken[count++]);
        }
    }
    return count;
}

static enum hr_err take_touched(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                                struct hr_decision *ret_decision, struct hr_taken *ret_taken, uint32_t *ret_taken_count)
{
    enum hr_err err = hr_limiter_decide_touched(limiter, request, now, ret_decision);
    *ret_taken_count = err == HR_OK ? note_all_taken(limiter, request, ret_decision, ret_taken) : 0;
    return err;
}

enum hr_err hr_limiter_take_part(struct hr_limiter *limiter, const struct hr_request *request, struct hr_counters part,
                                 struct hr_now now, struct hr_decision *ret_decision, struct hr_taken *ret_taken,
                                 uint32_t *ret_taken_count)
{
    *ret_taken_count = 0;
    enum hr_err err = touch_part(limiter, request, part);
    return err != HR_OK ? err : take_touched(limiter, request, now, ret_decision, ret_taken, ret_taken_count);
}

enum hr_err hr_limiter_take_part_again(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                                       struct hr_decision *ret_decision, struct hr_taken *ret_taken,
                                       uint32_t *ret_taken_count)
{
    return take_touched(limiter, request, now, ret_decision, ret_taken, ret_taken_count);
}

enum hr_err hr_limiter_refund_part(struct hr_limiter *limiter, const struct hr_request *request,
                                   struct hr_counters part, struct hr_now now)
{
    enum hr_err err = touch_part(limiter, request, part);
    return err != HR_OK ? err : hr_limiter_refund_touched(limiter, request, now);
}

/* --- giving back --- */

static struct hr_u128 greater(struct hr_u128 a, struct hr_u128 b)
{
    return hr_u128_le(a, b) ? b : a;
}

/* The cost has delayed every later arrival by as much, less the time for which the bucket would have stood full without
 * it: from `before` to now, if nobody else came. Others only shorten that, so no more is given back than is owed. */
static bool give_bucket(struct hr_gcra *gcra, const struct hr_rule *rule, const struct hr_taken *taken, hr_ns now)
{
    struct hr_u128 present = hr_u128_mul((uint64_t)now, rule->rate);
    struct hr_u128 stood_full = hr_u128_sub_floor(present, taken->before);
    struct hr_u128 owed = hr_u128_sub_floor(hr_u128_mul(taken->cost, rule->period_ns), stood_full);
    if (hr_u128_is_zero(owed)) {
        return false;
    }
    gcra->arrival = greater(hr_u128_sub_floor(gcra->arrival, owed), present);
    return true;
}

static bool give_from(uint64_t *used, uint64_t cost)
{
    *used -= *used < cost ? *used : cost;
    return true;
}

/* The window before still weighs. */
static bool give_sliding(struct hr_sliding_window *window, const struct hr_taken *taken)
{
    if (window->index == taken->mark) {
        return give_from(&window->current, taken->cost);
    }
    return window->index == taken->mark + 1 && give_from(&window->previous, taken->cost);
}

static bool give_lease(struct hr_limiter *limiter, struct hr_concurrency *slots, struct hr_id128 lease)
{
    uint32_t index = hr_lease_find(&limiter->leases, lease);
    if (index == 0) {
        return false;
    }
    hr_concurrency_end(slots, &limiter->leases, index);
    return true;
}

static bool give(struct hr_limiter *limiter, union hr_state *state, const struct hr_rule *rule,
                 const struct hr_taken *taken)
{
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return give_bucket(&state->gcra, rule, taken, limiter->steady);
    case HR_FIXED_WINDOW:
        return state->fixed_window.index == taken->mark && give_from(&state->fixed_window.used, taken->cost);
    case HR_SLIDING_WINDOW:
        return give_sliding(&state->sliding_window, taken);
    case HR_SLIDING_LOG:
        return hr_sliding_log_give_back_at(&state->sliding_log, &limiter->logs, taken->cost, taken->mark);
    case HR_QUOTA:
        return state->quota.period == taken->mark && give_from(&state->quota.used, taken->cost);
    case HR_CONCURRENCY:
        return give_lease(limiter, &state->concurrency, taken->lease);
    }
    return false;
}

/* What has come in since the take would have overflowed without it, at worst: only the rest is owed. */
static void give_share(struct hr_share *share, const struct hr_share_scale *scale, const struct hr_taken *taken,
                       hr_ns now)
{
    hr_share_advance(share, scale, now);
    struct hr_u128 minted = hr_u128_mul((uint64_t)share->price.mint, (uint64_t)(now - taken->mark));
    uint64_t units = hr_u128_saturate(hr_u128_div_ceil(minted, scale->period_ns), INT64_MAX);
    uint64_t taken_units = taken->cost << scale->shift;
    if (units < taken_units) {
        hr_share_add(share, (int64_t)(taken_units - units));
    }
}

static void give_stake(struct hr_limiter *limiter, const struct hr_taken *taken)
{
    struct hr_stake *stake = hr_stake_find(&limiter->stakes, taken->counter, taken->number);
    const struct hr_version *version = &limiter->versions.versions[taken->version];
    if (stake == NULL || version->cap.number != taken->number) {
        return;
    }
    if (stake->kind == HR_STAKE_SHARE) {
        give_share(&stake->share, &version->cap.scale, taken, limiter->steady);
    } else if (stake->escrow.label == taken->mark) {
        hr_escrow_give_back(&stake->escrow, taken->cost);
    }
}

void hr_limiter_give_back(struct hr_limiter *limiter, const struct hr_taken *taken, struct hr_now now)
{
    if (taken->number != 0) {
        (void)hr_limiter_settle_now(limiter, now);
        give_stake(limiter, taken);
        return;
    }
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = hr_table_find(&limiter->table, taken->counter);
    if (cell == NULL) {
        return; /* it was untouched again, and so forgotten */
    }
    struct hr_version *version = hr_limiter_bring_up_to_date(limiter, cell, &context);
    bool is_same = version != NULL && hr_limiter_version_number(limiter, version) == taken->version;
    if (is_same && give(limiter, &cell->state, &version->rule, taken)) {
        hr_limiter_note_change(limiter, cell, version);
    }
}

/* --- a fair part --- */

static uint64_t divided(uint64_t number, uint32_t nodes)
{
    return number / nodes > 0 ? number / nodes : 1;
}

/* A rate is divided by stretching its period, which is exact; only where that would be too long, by N itself. */
struct hr_rule hr_rule_share(const struct hr_rule *rule, uint32_t nodes)
{
    struct hr_rule share = *rule;
    share.capacity = divided(rule->capacity, nodes);
    if (rule->rate == 0) {
        return share;
    }
    if (rule->period_ns <= (uint64_t)HR_PERIOD_NS_MAX / nodes) {
        share.period_ns = rule->period_ns * nodes;
    } else {
        share.rate = divided(rule->rate, nodes);
    }
    return share;
}

enum hr_err hr_limiter_take_share(struct hr_limiter *limiter, const struct hr_request *request,
                                  const struct hr_touch *touch, uint32_t nodes, struct hr_now now,
                                  struct hr_decision *ret_decision, struct hr_taken *ret_taken,
                                  uint32_t *ret_taken_count)
{
    *ret_taken_count = 0;
    if (limiter->versions.has_stakes && touch->limit->scope == HR_SCOPE_GLOBAL) {
        return HR_E_NOT_FOUND; /* whatever this node admitted would come on top of the cap */
    }
    struct hr_rule rule = hr_rule_share(&touch->limit->rule, nodes);
    rule.zone = NULL; /* the rule outlives the limit set, and the zone with it: a quota's share goes by UTC */
    rule.zone_name = HR_SPAN("");
    uint16_t number = hr_versions_share(&limiter->versions, &rule, limiter->spot_key, limiter->sweep_pass);
    if (number == 0) {
        return HR_E_TOO_MANY;
    }
    struct hr_hash_key share_key = hr_hash_subkey(&limiter->spot_key, "share", 5);
    struct hr_touched *touched = &limiter->touched[0];
    touched->limit = touch->limit;
    touched->version = &limiter->versions.versions[number];
    touched->id = hr_keyed_hash(&share_key, &touch->counter, sizeof(touch->counter));
    limiter->match.count = 1;
    if (hr_defect(SHARE_FREE)) {
        struct hr_request look = *request;
        look.peek = true;
        return take_touched(limiter, &look, now, ret_decision, ret_taken, ret_taken_count);
    }
    return take_touched(limiter, request, now, ret_decision, ret_taken, ret_taken_count);
}
