#include <string.h>

#include "base/defect.h"
#include "limiter/limiter_state.h"

/* Cells that a check sweeps when room is short: enough to find what is untouched soon, and a bound on the check. */
#define SWEEP_CELLS_WHEN_SHORT 256

static enum hr_err match(struct hr_limiter *limiter, const struct hr_request *request)
{
    limiter->match.count = 0;
    return limiter->set == NULL ? HR_OK : hr_limit_set_match(limiter->set, request, &limiter->match);
}

/* A counter's identity: a keyed hash, under a key made of the limit's name, of its key's values, each behind its
 * length. */
static inline struct hr_id128 identity(struct hr_limiter *limiter, uint32_t limit, const struct hr_version *version)
{
    struct hr_key_text text = {.words = limiter->key_words};
    uint32_t key_count = limiter->set->limits[limit].key_count;
    for (uint32_t i = 0; i < key_count; i++) {
        hr_key_text_add(&text, *hr_match_key_value(limiter->set, &limiter->match, limit, i));
    }
    size_t bytes = hr_key_text_end(&text, limiter->key_words);
    return hr_keyed_hash(&version->name_key, limiter->key_words, bytes);
}

static inline void touch(struct hr_limiter *limiter, struct hr_touched *touched, uint32_t limit)
{
    touched->limit = &limiter->set->limits[limit];
    touched->version = &limiter->versions.versions[limiter->versions.of_limit[limit]];
}

/* Which counters: their identities, with the memory they stand in on its way; is_early: it is not needed at once. */
static inline void identify(struct hr_limiter *limiter, bool is_early)
{
    uint32_t count = limiter->match.count;
    for (uint32_t i = 0; i < count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        touch(limiter, touched, limiter->match.limits[i]);
        touched->id = identity(limiter, limiter->match.limits[i], touched->version);
        if (hr_limiter_has_no_cell(touched->version)) {
            hr_stake_prefetch(&limiter->stakes, touched->id);
        } else if (is_early) {
            hr_table_prefetch_all(&limiter->table, touched->id);
        } else {
            hr_table_prefetch(&limiter->table, touched->id);
        }
    }
}

/* Finds the cells, and whether what a charge could draw of any pool is there. */
static bool find_cells(struct hr_limiter *limiter)
{
    uint32_t cells = 0, log_blocks = 0, leases = 0;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        bool has_no_cell = hr_limiter_has_no_cell(touched->version);
        touched->cell = has_no_cell ? NULL : hr_table_find(&limiter->table, touched->id);
        cells += touched->cell == NULL && !has_no_cell;
        log_blocks += touched->version->rule.algorithm == HR_SLIDING_LOG;
        leases += touched->version->rule.algorithm == HR_CONCURRENCY;
    }
    limiter->draws_room = cells + log_blocks + leases > 0;
    return !limiter->draws_room ||
           (cells <= limiter->table.count_max - limiter->table.count &&
            log_blocks <= hr_log_pool_available(&limiter->logs) && leases <= hr_lease_pool_available(&limiter->leases));
}

/* Where room is short, sweeps for more. Before any counter is looked at, for the sweep moves cells. */
static void locate(struct hr_limiter *limiter, struct hr_now now)
{
    bool is_swept = false; /* if room is still short then, a charge that needs it will say so */
    while (!find_cells(limiter) && !is_swept) {
        hr_limiter_sweep_cells(limiter, SWEEP_CELLS_WHEN_SHORT, now);
        is_swept = true;
    }
}

/* False: there is no room for one more. */
static bool get_stakes(struct hr_limiter *limiter, hr_ns now)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        const struct hr_cap *cap = &touched->version->cap;
        touched->stake = cap->number == 0 ? NULL : hr_stake_get(&limiter->stakes, touched->id, cap, now);
        if (touched->stake != NULL) {
            touched->stake->version = hr_limiter_version_number(limiter, touched->version);
        } else if (cap->number != 0) {
            return false;
        }
    }
    return true;
}

/* Finds the stakes of those that have one, from the first again after a sweep, for that may have freed some. */
static enum hr_err find_stakes(struct hr_limiter *limiter, struct hr_now now)
{
    if (get_stakes(limiter, now.steady)) {
        return HR_OK;
    }
    hr_limiter_sweep_stakes(limiter, SWEEP_CELLS_WHEN_SHORT, now);
    return get_stakes(limiter, now.steady) ? HR_OK : HR_E_FULL;
}

/* The period that a quota's count is charged to under another rule. Of quotas only a node's parts come here, and all
 * of those go by UTC (part.h). */
static int64_t period_under(const struct hr_rule *from, const struct hr_rule *to, struct hr_wall wall)
{
    bool is_same = to->algorithm != HR_QUOTA || from->unit == to->unit;
    return is_same ? HR_PERIOD_SAME : hr_period_at(to->zone, to->unit, wall.ns / HR_NS_PER_S).number;
}

/* A cell that does not come to the version at hand by itself. It was written under another rule given on the spot, or
 * by this node's part of a limit when other nodes were live, and is restated; or its limit was gone for a while, and
 * the new one of that name starts afresh. */
static void settle_version(struct hr_limiter *limiter, struct hr_touched *touched, struct hr_context *context)
{
    struct hr_cell *cell = touched->cell;
    const struct hr_version *old = &limiter->versions.versions[cell->version];
    const struct hr_rule *to = &touched->version->rule;
    if (!old->is_retired && hr_algorithm_is_same(old->rule.algorithm, to->algorithm)) {
        hr_state_adopt(&cell->state, &old->rule, to, period_under(&old->rule, to, context->now.wall), context);
    } else {
        hr_state_clear(&cell->state, &old->rule, context);
    }
    cell->version = hr_limiter_version_number(limiter, touched->version);
    hr_limiter_note_restated(limiter, cell, touched->version);
    (void)hr_limiter_bring_up_to_date(limiter, cell, context);
}

/* Brings the counter's state to now, and sees whether it has room for cost. */
static void judge(struct hr_limiter *limiter, struct hr_touched *touched, uint64_t cost, struct hr_context *context)
{
    if (touched->cell != NULL) {
        const struct hr_version *version = hr_limiter_bring_up_to_date(limiter, touched->cell, context);
        if (version == NULL || version != touched->version) {
            settle_version(limiter, touched, context);
        }
    }
    if (touched->cell != NULL && !hr_limiter_moves_when_charged(touched->version)) {
        touched->state = &touched->cell->state;
    } else {
        touched->fresh = (union hr_state){0};
        if (touched->cell != NULL) {
            touched->fresh = touched->cell->state;
        }
        touched->state = &touched->fresh;
        hr_limiter_face(context, touched->version);
        hr_state_advance(&touched->fresh, &touched->version->rule, context);
    }
    touched->fits = hr_state_fits(touched->state, &touched->version->rule, cost, context);
}

/* Brings a stake to now, has it priced where it must be, and sees whether it has room for what is asked: the counter's
 * own word, if it has one, is there already. */
static void judge_stake(struct hr_limiter *limiter, struct hr_touched *touched, uint64_t cost, bool asks,
                        const struct hr_context *context)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    struct hr_stake_pool *stakes = &limiter->stakes;
    hr_staked_advance(&staked);
    if (stakes->pricer.price != NULL && hr_staked_wants_price(stakes, &staked)) {
        stakes->pricer.price(stakes->pricer.context, touched->id, touched->version->cap.number, context->now);
    }
    if (asks && cost > 0) {
        hr_staked_ask(stakes, &staked, cost);
    }
    touched->fits &= hr_staked_fits(&staked, cost);
}

/* As judge, for any counter; asks: the request would spend, so that what it wants counts as demand. */
static void judge_any(struct hr_limiter *limiter, struct hr_touched *touched, uint64_t cost, bool asks,
                      struct hr_context *context)
{
    if (!hr_limiter_has_no_cell(touched->version)) {
        judge(limiter, touched, cost, context);
    } else {
        touched->fresh = (union hr_state){0};
        touched->state = &touched->fresh;
        touched->fits = true;
        hr_limiter_face(context, touched->version);
    }
    if (touched->stake != NULL) {
        judge_stake(limiter, touched, cost, asks, context);
    }
}

static int64_t retry_ms(const struct hr_touched *touched, uint64_t cost, const struct hr_context *context)
{
    const struct hr_rule *rule = &touched->version->rule;
    if (touched->stake == NULL || !hr_state_fits(touched->state, rule, cost, context)) {
        return hr_state_retry_ms(touched->state, rule, cost, context);
    }
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    return hr_staked_retry_ms(&staked, cost);
}

static int64_t delay_ms(const struct hr_touched *touched, const struct hr_context *context)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    return touched->stake == NULL ? hr_state_delay_ms(touched->state, staked.rule, context)
                                  : hr_staked_delay_ms(&staked);
}

/* Is it for want of share that the counter denies? Not where the cost is above the whole cap, nor where the region's
 * own count says no. */
static bool wants_share(const struct hr_touched *touched, uint64_t cost, const struct hr_context *context)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    return touched->stake != NULL && !touched->fits && hr_state_fits(touched->state, staked.rule, cost, context) &&
           hr_staked_is_short(&staked);
}

static void weigh_denial(const struct hr_touched *touched, int64_t retry_after_ms, struct hr_decision *decision)
{
    if (decision->decided_by == NULL) {
        decision->decided_by = touched->limit;
        decision->retry_after_ms = retry_after_ms;
    } else if (retry_after_ms == HR_NEVER_MS || decision->retry_after_ms == HR_NEVER_MS) {
        decision->retry_after_ms = HR_NEVER_MS;
    } else if (retry_after_ms > decision->retry_after_ms) {
        decision->retry_after_ms = retry_after_ms;
    }
}

/* Puts one limit's view into the decision, before anything is taken. */
static void weigh(const struct hr_touched *touched, uint64_t cost, struct hr_context *context, struct hr_row *row,
                  struct hr_decision *decision)
{
    context->clock = &touched->version->clock;
    row->limit = touched->limit;
    row->counter = touched->id;
    row->allowed = touched->fits;
    row->has_lease = false;
    row->wants_share = wants_share(touched, cost, context);
    row->retry_after_ms = touched->fits ? 0 : retry_ms(touched, cost, context);
    if (touched->limit->mode == HR_SHADOW) {
        return;
    }
    if (!touched->fits) {
        weigh_denial(touched, row->retry_after_ms, decision);
    } else if (touched->version->rule.algorithm == HR_LEAKY_BUCKET) {
        int64_t wait_ms = delay_ms(touched, context);
        decision->delay_ms = wait_ms > decision->delay_ms ? wait_ms : decision->delay_ms;
    }
}

/* Is there room to charge all that is to be charged? Nothing has been taken when the answer is no. */
static bool has_room(const struct hr_limiter *limiter, const struct hr_context *context)
{
    uint32_t cells = 0;
    struct hr_room room = {0};
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        if (!touched->is_charged || hr_limiter_has_no_cell(touched->version)) {
            continue;
        }
        struct hr_room one = hr_state_needs_room(touched->state, &touched->version->rule, context);
        cells += touched->cell == NULL;
        room.log_blocks += one.log_blocks;
        room.leases += one.leases;
    }
    return cells <= limiter->table.count_max - limiter->table.count &&
           room.log_blocks <= hr_log_pool_available(&limiter->logs) &&
           room.leases <= hr_lease_pool_available(&limiter->leases);
}

/* Gives a cell to each counter that is charged for the first time. Cells move as others come: all are looked up again.
 */
static enum hr_err settle_cells(struct hr_limiter *limiter)
{
    bool any = false;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        if (touched->is_charged && touched->cell == NULL && !hr_limiter_has_no_cell(touched->version)) {
            uint16_t number = hr_limiter_version_number(limiter, touched->version);
            struct hr_cell *cell = hr_table_insert(&limiter->table, touched->id, number);
            if (cell == NULL) {
                return HR_E_FULL; /* cells inserted so far are untouched: the sweep takes them */
            }
            any = true;
        }
    }
    for (uint32_t i = 0; any && i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        if (hr_limiter_has_no_cell(touched->version)) {
            continue;
        }
        bool is_copy = touched->state == &touched->fresh;
        touched->cell = hr_table_find(&limiter->table, touched->id);
        touched->state = touched->cell == NULL || is_copy ? &touched->fresh : &touched->cell->state;
    }
    return HR_OK;
}

/* Makes the state that was looked at the counter's own, before it changes. */
static void write_back(struct hr_touched *touched)
{
    if (touched->cell != NULL && touched->state == &touched->fresh) {
        touched->cell->state = touched->fresh;
        touched->state = &touched->cell->state;
    }
}

static void charge_stake(const struct hr_touched *touched, uint64_t cost, const struct hr_context *context)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    hr_staked_take(&staked, cost);
}

static void charge(struct hr_limiter *limiter, struct hr_touched *touched, const struct hr_request *request,
                   const struct hr_context *context, struct hr_row *row)
{
    if (touched->stake != NULL) {
        charge_stake(touched, request->cost, context);
    }
    if (hr_limiter_has_no_cell(touched->version)) {
        return;
    }
    struct hr_grant grant = {
        .counter = touched->id,
        .is_saved = hr_limiter_durability(limiter, touched->version) != HR_MEMORY,
    };
    row->has_lease = touched->version->rule.algorithm == HR_CONCURRENCY;
    if (row->has_lease) {
        struct hr_id128 name = hr_limiter_lease_name(limiter, request->serial, touched->version);
        row->lease = grant.lease = hr_lease_id_of(name, touched->id);
    }
    write_back(touched);
    hr_state_take(touched->state, &touched->version->rule, request->cost, grant, context);
    if (touched->cell->reserve != 0) {
        hr_reserve_take(&limiter->reserves, touched->cell->reserve, request->cost);
    }
    hr_limiter_note_change(limiter, touched->cell, touched->version);
}

/* Does this limit spend only what the store knows? Not in shadow, which must never make an answer wait; nor slots,
 * whose leases are records of their own. */
static bool is_reserved(const struct hr_limiter *limiter, const struct hr_touched *touched)
{
    return touched->limit->mode == HR_ENFORCE && touched->version->rule.algorithm != HR_CONCURRENCY &&
           hr_limiter_durability(limiter, touched->version) == HR_RESERVED;
}

/* Is a window of a global cap about to spend more than its log knows of? The region is told, and writes it. */
static enum hr_err await_logs(struct hr_limiter *limiter, uint64_t cost, const struct hr_context *context)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        const struct hr_staked staked = hr_limiter_staked(touched, context);
        if (touched->is_charged && touched->stake != NULL && hr_staked_waits(&staked, cost)) {
            return HR_E_PENDING;
        }
    }
    return HR_OK;
}

/* Is all that is to be charged covered by what the store knows? If not, the raises that it waits for are on their way.
 */
static enum hr_err cover(struct hr_limiter *limiter, uint64_t cost)
{
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        if (!touched->is_charged || touched->cell == NULL || !is_reserved(limiter, touched)) {
            continue;
        }
        if (touched->cell->reserve == 0) {
            touched->cell->reserve = hr_reserve_new(&limiter->reserves, touched->id);
        }
        if (touched->cell->reserve == 0) {
            return HR_E_FULL;
        }
        if (!hr_reserve_covers(&limiter->reserves, touched->cell->reserve, cost)) {
            err = HR_E_PENDING;
        }
    }
    return err;
}

/* A limit in shadow never changes an answer, not even for want of room. */
static void spare_shadows(struct hr_limiter *limiter)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        limiter->touched[i].is_charged &= limiter->touched[i].limit->mode == HR_ENFORCE;
    }
}

static enum hr_err make_room(struct hr_limiter *limiter, const struct hr_context *context)
{
    if (!has_room(limiter, context)) {
        spare_shadows(limiter);
    }
    return has_room(limiter, context) ? settle_cells(limiter) : HR_E_FULL;
}

/* A request that is admitted is charged to each limit that it fits: the enforced ones, all of which it does, and those
 * in shadow as if each were enforced too. */
static enum hr_err charge_all(struct hr_limiter *limiter, const struct hr_request *request, struct hr_context *context,
                              struct hr_decision *decision)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        limiter->touched[i].is_charged = limiter->touched[i].fits;
    }
    enum hr_err err = limiter->draws_room ? make_room(limiter, context) : HR_OK;
    if (err == HR_OK && limiter->sizes.reserves_max > 0) {
        err = cover(limiter, request->cost);
    }
    if (err == HR_OK && limiter->stakes.used > 0) {
        err = await_logs(limiter, request->cost, context);
    }
    if (err != HR_OK || request->is_ahead) {
        return err;
    }
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        if (touched->is_charged) {
            context->clock = &touched->version->clock;
            charge(limiter, touched, request, context, &decision->rows[i]);
        }
    }
    return HR_OK;
}

static void tally(struct hr_limiter *limiter, bool is_charged)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        touched->version->tally.admitted += is_charged && touched->fits;
        touched->version->tally.denied += !touched->fits;
    }
}

static void report_stake(const struct hr_touched *touched, const struct hr_context *context, struct hr_row *row)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    row->remaining = hr_staked_remaining(&staked);
    row->reset_after_ms = hr_staked_reset_ms(&staked);
}

/* The numbers that stand after the decision. */
static void report(struct hr_limiter *limiter, struct hr_context *context, struct hr_decision *decision)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        struct hr_row *row = &decision->rows[i];
        context->clock = &touched->version->clock;
        if (touched->stake != NULL) {
            report_stake(touched, context, row);
            continue;
        }
        row->remaining = hr_state_remaining(touched->state, &touched->version->rule, context);
        row->reset_after_ms = hr_state_reset_ms(touched->state, &touched->version->rule, context);
    }
}

/* Decides over any limits, all or nothing. */
static enum hr_err decide_any(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                              struct hr_decision *decision)
{
    locate(limiter, now);
    enum hr_err err = find_stakes(limiter, now);
    if (err != HR_OK) {
        return err;
    }
    struct hr_context context = hr_limiter_context(limiter, now);
    decision->row_count = limiter->match.count;
    decision->decided_by = NULL;
    decision->retry_after_ms = decision->delay_ms = 0;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        bool asks = !request->peek && !request->is_ahead;
        judge_any(limiter, &limiter->touched[i], request->cost, asks, &context);
        weigh(&limiter->touched[i], request->cost, &context, &decision->rows[i], decision);
    }
    decision->allowed = decision->decided_by == NULL;
    decision->delay_ms = decision->allowed ? decision->delay_ms : 0;
    decision->action = !decision->allowed ? HR_DENY : decision->delay_ms > 0 ? HR_DELAY : HR_ALLOW;
    if ((decision->allowed || hr_defect(DENIED_CHARGES)) && !request->peek && request->cost > 0) {
        err = charge_all(limiter, request, &context, decision);
    }
    if (!request->peek && !request->is_ahead && err == HR_OK) {
        tally(limiter, decision->allowed);
    }
    if (err == HR_OK && !request->brief) {
        report(limiter, &context, decision);
    }
    return err;
}

/* Is this the common case: one enforced bucket, of this region alone? */
static inline bool is_plain(const struct hr_limiter *limiter)
{
    const struct hr_touched *touched = &limiter->touched[0];
    if (limiter->match.count != 1 || touched->limit->mode != HR_ENFORCE || touched->version->cap.number != 0) {
        return false;
    }
    enum hr_algorithm algorithm = touched->version->rule.algorithm;
    return algorithm == HR_TOKEN_BUCKET || algorithm == HR_GCRA;
}

/* The counter's cell, if it is there, under the numbers in force, and a cost need not wait for the store; else NULL. */
static inline struct hr_cell *plain_cell(const struct hr_limiter *limiter, const struct hr_touched *touched,
                                         uint64_t cost)
{
    struct hr_cell *cell = hr_table_find(&limiter->table, touched->id);
    if (cell == NULL || cell->version != hr_limiter_version_number(limiter, touched->version)) {
        return NULL;
    }
    bool is_covered =
        cell->reserve == 0 ? !is_reserved(limiter, touched) : hr_reserve_has(&limiter->reserves, cell->reserve, cost);
    return is_covered ? cell : NULL;
}

/* What decide_any comes to in the plain case, in which nothing can go wrong. State and rule are copies: as nothing that
 * is written can be a part of them, what the numbers have in common is computed once. */
static inline void decide_plain(struct hr_limiter *limiter, const struct hr_touched *touched, struct hr_cell *cell,
                                const struct hr_request *request, hr_ns now, struct hr_decision *decision)
{
    const struct hr_rule rule = touched->version->rule;
    struct hr_gcra gcra = cell->state.gcra;
    struct hr_row *row = &decision->rows[0];
    uint64_t cost = request->cost;
    bool counts = !request->peek && !request->is_ahead;
    hr_journal_prefetch(&limiter->journal, cell); /* it comes while the rest is computed */
    bool fits = cost == 0 || hr_gcra_fits(&gcra, &rule, cost, now);
    int64_t retry_after_ms = fits ? 0 : cost > rule.capacity ? HR_NEVER_MS : hr_gcra_retry_ms(&gcra, &rule, cost, now);
    if (fits && counts && cost > 0) {
        hr_gcra_take(&gcra, &rule, cost, now);
        cell->state.gcra = gcra;
        if (cell->reserve != 0) {
            hr_reserve_take(&limiter->reserves, cell->reserve, cost);
        }
        hr_limiter_note_change(limiter, cell, touched->version);
    }
    touched->version->tally.admitted += counts && fits;
    touched->version->tally.denied += counts && !fits;
    if (!request->brief) {
        row->remaining = hr_gcra_remaining(&gcra, &rule, now);
        row->reset_after_ms = hr_gcra_reset_ms(&gcra, &rule, now);
    }
    row->limit = touched->limit;
    row->allowed = fits;
    row->has_lease = row->wants_share = false;
    row->counter = touched->id;
    row->retry_after_ms = decision->retry_after_ms = retry_after_ms;
    decision->allowed = fits;
    decision->action = fits ? HR_ALLOW : HR_DENY;
    decision->decided_by = fits ? NULL : touched->limit;
    decision->delay_ms = 0;
    decision->row_count = 1;
}

/* Decides over the limits whose counters have been identified. */
static inline enum hr_err decide(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                                 struct hr_decision *decision)
{
    const struct hr_touched *touched = &limiter->touched[0];
    struct hr_cell *cell = is_plain(limiter) ? plain_cell(limiter, touched, request->cost) : NULL;
    if (cell == NULL) {
        return decide_any(limiter, request, now, decision);
    }
    decide_plain(limiter, touched, cell, request, now.steady, decision);
    return HR_OK;
}

enum hr_err hr_limiter_check(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                             struct hr_decision *ret_decision)
{
    enum hr_err err = match(limiter, request);
    now = hr_limiter_settle_now(limiter, now);
    if (err != HR_OK) {
        return err;
    }
    identify(limiter, false);
    return decide(limiter, request, now, ret_decision);
}

void hr_limiter_prepare(struct hr_limiter *limiter, const struct hr_request *request, struct hr_prepared *ret_prepared)
{
    enum hr_err err = match(limiter, request);
    uint32_t count = limiter->match.count;
    ret_prepared->generation = limiter->versions.generation;
    ret_prepared->is_known = err == HR_OK && count <= HR_PREPARED_TOUCHED_MAX;
    if (!ret_prepared->is_known) {
        return;
    }
    identify(limiter, true);
    ret_prepared->count = count;
    for (uint32_t i = 0; i < count; i++) {
        ret_prepared->limits[i] = (uint16_t)limiter->match.limits[i];
        ret_prepared->ids[i] = limiter->touched[i].id;
    }
}

void hr_limiter_prepare_reserves(const struct hr_limiter *limiter, const struct hr_prepared *prepared)
{
    if (hr_reserve_pool_is_unused(&limiter->reserves) || !prepared->is_known) {
        return;
    }
    for (uint32_t i = 0; i < prepared->count; i++) {
        const struct hr_cell *cell = hr_table_find(&limiter->table, prepared->ids[i]);
        if (cell != NULL && cell->reserve != 0) {
            __builtin_prefetch(&limiter->reserves.reserves[cell->reserve], 1);
        }
    }
}

enum hr_err hr_limiter_check_prepared(struct hr_limiter *limiter, const struct hr_request *request,
                                      const struct hr_prepared *prepared, struct hr_now now,
                                      struct hr_decision *ret_decision)
{
    if (!prepared->is_known || prepared->generation != limiter->versions.generation) {
        return hr_limiter_check(limiter, request, now, ret_decision);
    }
    limiter->match.count = prepared->count;
    for (uint32_t i = 0; i < prepared->count; i++) {
        touch(limiter, &limiter->touched[i], prepared->limits[i]);
        limiter->touched[i].id = prepared->ids[i];
    }
    return decide(limiter, request, hr_limiter_settle_now(limiter, now), ret_decision);
}

enum hr_err hr_limiter_throttle(struct hr_limiter *limiter, const struct hr_limit *limit, struct hr_span key,
                                const struct hr_request *request, struct hr_now now, struct hr_decision *ret_decision)
{
    now = hr_limiter_settle_now(limiter, now);
    uint16_t number = hr_versions_spot(&limiter->versions, &limit->rule, limiter->spot_key, limiter->sweep_pass);
    if (number == 0) {
        return HR_E_TOO_MANY;
    }
    struct hr_touched *touched = &limiter->touched[0];
    touched->limit = limit;
    touched->version = &limiter->versions.versions[number];
    touched->id = hr_keyed_hash(&limiter->spot_key, key.at, key.bytes);
    limiter->match.count = 1;
    return decide(limiter, request, now, ret_decision);
}

enum hr_err hr_limiter_touch(struct hr_limiter *limiter, const struct hr_request *request)
{
    enum hr_err err = match(limiter, request);
    if (err == HR_OK) {
        identify(limiter, false);
    }
    return err;
}

/* Whoever asks looks at what was touched afterwards, and the common case leaves no word there. */
enum hr_err hr_limiter_decide_touched(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                                      struct hr_decision *ret_decision)
{
    return decide_any(limiter, request, hr_limiter_settle_now(limiter, now), ret_decision);
}

/* False: there was nothing to give back, or it is not the stake's to give. */
static bool refund_stake(const struct hr_touched *touched, uint64_t cost, const struct hr_context *context)
{
    const struct hr_staked staked = hr_limiter_staked(touched, context);
    bool is_given =
        touched->stake != NULL && hr_limiter_has_no_cell(touched->version) && hr_staked_reset_ms(&staked) > 0;
    if (is_given) {
        hr_staked_give_back(&staked, cost);
    }
    return is_given;
}

enum hr_err hr_limiter_refund_touched(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now)
{
    now = hr_limiter_settle_now(limiter, now);
    (void)find_cells(limiter); /* a counter without a cell is untouched: nothing to give back */
    enum hr_err err = find_stakes(limiter, now);
    if (err != HR_OK) {
        return err;
    }
    struct hr_context context = hr_limiter_context(limiter, now);
    bool any = false;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        const struct hr_rule *rule = &touched->version->rule;
        judge_any(limiter, touched, request->cost, false, &context);
        context.clock = &touched->version->clock;
        any |= request->cost > 0 && refund_stake(touched, request->cost, &context);
        bool is_given = touched->cell != NULL && request->cost > 0 && rule->algorithm != HR_CONCURRENCY &&
                        !hr_state_is_untouched(touched->state, rule, &context);
        if (is_given) {
            write_back(touched);
            hr_state_give_back(touched->state, rule, request->cost, &context);
            hr_limiter_note_change(limiter, touched->cell, touched->version);
        }
        any |= is_given;
    }
    return any ? HR_OK : HR_E_NOT_FOUND;
}

enum hr_err hr_limiter_refund(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now)
{
    enum hr_err err = hr_limiter_touch(limiter, request);
    return err != HR_OK ? err : hr_limiter_refund_touched(limiter, request, now);
}
