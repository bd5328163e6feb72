#include <string.h>

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
static struct hr_id128 identity(struct hr_limiter *limiter, uint32_t limit, const struct hr_version *version)
{
    uint8_t *end = limiter->key_text;
    for (uint32_t i = 0; i < limiter->set->limits[limit].key_count; i++) {
        const struct hr_span *value = hr_match_key_value(limiter->set, &limiter->match, limit, i);
        *end++ = (uint8_t)(value->bytes & 0xff);
        *end++ = (uint8_t)(value->bytes >> 8);
        memcpy(end, value->at, value->bytes);
        end += value->bytes;
    }
    return hr_keyed_hash(&version->name_key, limiter->key_text, (size_t)(end - limiter->key_text));
}

/* Which counters: their identities, with the memory they stand in on its way. */
static void identify(struct hr_limiter *limiter)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        uint32_t limit = limiter->match.limits[i];
        struct hr_touched *touched = &limiter->touched[i];
        touched->limit = &limiter->set->limits[limit];
        touched->version = &limiter->versions.versions[limiter->versions.of_limit[limit]];
        touched->id = identity(limiter, limit, touched->version);
        hr_table_prefetch(&limiter->table, touched->id);
    }
}

/* Finds the cells, and whether what a charge could draw of any pool is there. */
static bool find_cells(struct hr_limiter *limiter)
{
    uint32_t cells = 0, log_blocks = 0, leases = 0;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        touched->cell = hr_table_find(&limiter->table, touched->id);
        cells += touched->cell == NULL;
        log_blocks += touched->version->rule.algorithm == HR_SLIDING_LOG;
        leases += touched->version->rule.algorithm == HR_CONCURRENCY;
    }
    limiter->draws_room = cells + log_blocks + leases > 0;
    return cells <= limiter->table.count_max - limiter->table.count &&
           log_blocks <= hr_log_pool_available(&limiter->logs) && leases <= hr_lease_pool_available(&limiter->leases);
}

/* Where room is short, sweeps for more. Before any counter is looked at, for the sweep moves cells. */
static void locate(struct hr_limiter *limiter, struct hr_now now)
{
    if (!find_cells(limiter)) {
        hr_limiter_sweep_cells(limiter, SWEEP_CELLS_WHEN_SHORT, now);
        (void)find_cells(limiter); /* if room is still short, a charge that needs it will say so */
    }
}

/* A cell that does not come to the version at hand by itself. It was written under another rule given on the spot, and
 * is restated; or its limit was gone for a while, and the new one of that name starts afresh. */
static void settle_version(struct hr_limiter *limiter, struct hr_touched *touched, struct hr_context *context)
{
    struct hr_cell *cell = touched->cell;
    const struct hr_version *old = &limiter->versions.versions[cell->version];
    const struct hr_rule *to = &touched->version->rule;
    if (!old->is_retired && hr_algorithm_is_same(old->rule.algorithm, to->algorithm)) {
        hr_state_adopt(&cell->state, &old->rule, to, 0, context);
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
    if (touched->cell != NULL && hr_limiter_bring_up_to_date(limiter, touched->cell, context) != touched->version) {
        settle_version(limiter, touched, context);
    }
    touched->state = touched->cell == NULL ? NULL : &touched->cell->state;
    if (touched->cell == NULL || hr_limiter_moves_when_charged(touched->version)) {
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
    const struct hr_rule *rule = &touched->version->rule;
    context->clock = &touched->version->clock;
    row->limit = touched->limit;
    row->counter = touched->id;
    row->allowed = touched->fits;
    row->has_lease = false;
    row->retry_after_ms = touched->fits ? 0 : hr_state_retry_ms(touched->state, rule, cost, context);
    if (touched->limit->mode == HR_SHADOW) {
        return;
    }
    if (!touched->fits) {
        weigh_denial(touched, row->retry_after_ms, decision);
    } else if (rule->algorithm == HR_LEAKY_BUCKET) {
        int64_t delay_ms = hr_state_delay_ms(touched->state, rule, context);
        decision->delay_ms = delay_ms > decision->delay_ms ? delay_ms : decision->delay_ms;
    }
}

/* Is there room to charge all that is to be charged? Nothing has been taken when the answer is no. */
static bool has_room(const struct hr_limiter *limiter, const struct hr_context *context)
{
    uint32_t cells = 0;
    struct hr_room room = {0};
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        if (!touched->is_charged) {
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
        if (touched->is_charged && touched->cell == NULL) {
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

static void charge(struct hr_limiter *limiter, struct hr_touched *touched, const struct hr_request *request,
                   const struct hr_context *context, struct hr_row *row)
{
    struct hr_grant grant = {
        .counter = touched->id,
        .is_saved = hr_limiter_durability(limiter, touched->version) != HR_MEMORY,
    };
    row->has_lease = touched->version->rule.algorithm == HR_CONCURRENCY;
    if (row->has_lease) {
        row->lease = grant.lease = hr_limiter_lease_id(limiter, request->serial, touched->version);
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

/* Is all that is to be charged covered by what the store knows? If not, the raises that it waits for are on their way.
 */
static enum hr_err cover(struct hr_limiter *limiter, uint64_t cost)
{
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        if (!touched->is_charged || !is_reserved(limiter, touched)) {
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
    if (err != HR_OK) {
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

/* The numbers that stand after the decision. */
static void report(struct hr_limiter *limiter, struct hr_context *context, struct hr_decision *decision)
{
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        const struct hr_touched *touched = &limiter->touched[i];
        struct hr_row *row = &decision->rows[i];
        context->clock = &touched->version->clock;
        row->remaining = hr_state_remaining(touched->state, &touched->version->rule, context);
        row->reset_after_ms = hr_state_reset_ms(touched->state, &touched->version->rule, context);
    }
}

/* Decides over the limits whose counters have been identified. */
static enum hr_err decide(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                          struct hr_decision *decision)
{
    enum hr_err err = HR_OK;
    locate(limiter, now);
    struct hr_context context = hr_limiter_context(limiter, now);
    decision->row_count = limiter->match.count;
    decision->decided_by = NULL;
    decision->retry_after_ms = decision->delay_ms = 0;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        judge(limiter, &limiter->touched[i], request->cost, &context);
        weigh(&limiter->touched[i], request->cost, &context, &decision->rows[i], decision);
    }
    decision->allowed = decision->decided_by == NULL;
    decision->delay_ms = decision->allowed ? decision->delay_ms : 0;
    decision->action = !decision->allowed ? HR_DENY : decision->delay_ms > 0 ? HR_DELAY : HR_ALLOW;
    if (decision->allowed && !request->peek && request->cost > 0) {
        err = charge_all(limiter, request, &context, decision);
    }
    if (!request->peek && err == HR_OK) {
        tally(limiter, decision->allowed);
    }
    if (err == HR_OK && !request->brief) {
        report(limiter, &context, decision);
    }
    return err;
}

enum hr_err hr_limiter_check(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                             struct hr_decision *ret_decision)
{
    now = hr_limiter_settle_now(limiter, now);
    enum hr_err err = match(limiter, request);
    if (err != HR_OK) {
        return err;
    }
    identify(limiter);
    return decide(limiter, request, now, ret_decision);
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

enum hr_err hr_limiter_refund(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now)
{
    now = hr_limiter_settle_now(limiter, now);
    enum hr_err err = match(limiter, request);
    if (err != HR_OK) {
        return err;
    }
    identify(limiter);
    (void)find_cells(limiter); /* a counter without a cell is untouched: nothing to give back */
    struct hr_context context = hr_limiter_context(limiter, now);
    bool any = false;
    for (uint32_t i = 0; i < limiter->match.count; i++) {
        struct hr_touched *touched = &limiter->touched[i];
        const struct hr_rule *rule = &touched->version->rule;
        judge(limiter, touched, request->cost, &context);
        context.clock = &touched->version->clock;
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
