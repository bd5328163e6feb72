#include "limiter/range.h"

#include "limiter/limiter_state.h"
#include "limiter/save.h"

void hr_range_cursor_init(struct hr_range_cursor *cursor, struct hr_range range)
{
    *cursor = (struct hr_range_cursor){.range = range};
}

static bool is_after(struct hr_id128 a, struct hr_id128 b)
{
    return a.hi != b.hi ? a.hi > b.hi : a.lo > b.lo;
}

/* A counter of this node's part of a limit is its own, and goes with no range. */
static bool stays(const struct hr_limiter *limiter, const struct hr_cell *cell)
{
    return limiter->versions.versions[cell->version].is_share;
}

/* The cell with the least id after `after`, or from the range's beginning on. Cells that share their first word stand
 * in no order, so all of those are looked at. */
static struct hr_cell *next_cell(struct hr_limiter *limiter, const struct hr_range_cursor *cursor)
{
    uint64_t from = cursor->is_begun ? cursor->at.hi : cursor->range.first;
    struct hr_cell *best = NULL, *cell = hr_table_seek(&limiter->table, from, cursor->range.last);
    for (; cell != NULL; cell = hr_table_from(&limiter->table, cell + 1, cursor->range.last)) {
        if (best != NULL && cell->id.hi != best->id.hi) {
            break;
        }
        bool is_next = !stays(limiter, cell) && (!cursor->is_begun || is_after(cell->id, cursor->at));
        if (is_next && (best == NULL || is_after(best->id, cell->id))) {
            best = cell;
        }
    }
    return best;
}

/* --- taking out --- */

/* The lease behind the one that came last; the first one that runs out no earlier, where that one is gone or has
 * moved. */
static uint32_t next_lease(const struct hr_limiter *limiter, const struct hr_cell *cell,
                           const struct hr_range_cursor *cursor)
{
    const struct hr_lease *leases = limiter->leases.leases, *last = &leases[cursor->lease_index];
    if (cursor->lease_index != 0 && hr_id128_equal(last->id, cursor->lease) && !last->is_ended &&
        hr_id128_equal(last->counter, cell->id) && last->expires_at == cursor->expires_at) {
        return last->next;
    }
    uint32_t index = cell->state.concurrency.head;
    while (index != 0 && leases[index].expires_at < cursor->expires_at) {
        index = leases[index].next;
    }
    return index;
}

static bool take_lease(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_range_cursor *cursor, hr_ns now,
                       struct hr_lease_image *ret_lease)
{
    uint32_t index = next_lease(limiter, cell, cursor);
    if (index == 0) {
        return false;
    }
    const struct hr_lease *lease = &limiter->leases.leases[index];
    cursor->lease_index = index;
    cursor->lease = lease->id;
    cursor->expires_at = lease->expires_at;
    *ret_lease = (struct hr_lease_image){
        .id = lease->id,
        .counter = lease->counter,
        .limit = limiter->versions.versions[cell->version].limit_id,
        .slots = lease->slots,
        .remaining_ns = lease->expires_at - now,
        .saved_at = now,
    };
    return true;
}

/* A rule given on the spot has no name: its capacity says what the image's own numbers do not. */
static void mark_spot(const struct hr_limiter *limiter, const struct hr_cell *cell, struct hr_counter_image *image)
{
    if (cell->version >= limiter->versions.version_count) {
        image->limit = hr_limiter_spot_mark(limiter->versions.versions[cell->version].rule.capacity);
    }
}

static uint64_t units_ahead(const struct hr_limiter *limiter, const struct hr_cell *cell)
{
    const struct hr_reserve *reserve = &limiter->reserves.reserves[cell->reserve];
    return cell->reserve == 0 ? 0 : reserve->left + reserve->asked;
}

/* What another place may have spent of a copy, it has spent by now. */
static void charge_copy(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_context *context)
{
    if (cell->reserve == 0 || !limiter->reserves.reserves[cell->reserve].is_copy) {
        return;
    }
    struct hr_version *version = hr_limiter_bring_up_to_date(limiter, cell, context);
    uint64_t units = hr_reserve_own(&limiter->reserves, cell->reserve);
    if (version != NULL) {
        hr_limiter_charge_ahead(cell, version, units, context);
    }
}

static bool take_counter(struct hr_limiter *limiter, struct hr_cell *cell, enum hr_range_purpose purpose,
                         struct hr_context *context, struct hr_counter_image *ret_counter)
{
    if (purpose == HR_RANGE_EXACT) { /* a copy is given away by who never spent of it */
        charge_copy(limiter, cell, context);
    }
    if (!hr_limiter_image_of(limiter, cell, context, ret_counter)) {
        return false;
    }
    const struct hr_version *version = &limiter->versions.versions[cell->version];
    ret_counter->ahead = purpose == HR_RANGE_UPPER_BOUND ? units_ahead(limiter, cell) : 0;
    mark_spot(limiter, cell, ret_counter);
    return ret_counter->ahead > 0 || !hr_state_is_untouched(&cell->state, &version->rule, context);
}

/* The leases of the counter at the cursor, which is brought up to date first: leases that are over do not come. */
static bool go_on_amid(struct hr_limiter *limiter, struct hr_range_cursor *cursor, struct hr_context *context,
                       struct hr_lease_image *ret_lease)
{
    struct hr_cell *cell = hr_table_find(&limiter->table, cursor->at);
    const struct hr_version *version = cell == NULL ? NULL : hr_limiter_bring_up_to_date(limiter, cell, context);
    cursor->is_amid = version != NULL && version->rule.algorithm == HR_CONCURRENCY &&
                      take_lease(limiter, cell, cursor, context->now.steady, ret_lease);
    return cursor->is_amid;
}

enum hr_range_kind hr_limiter_range_next(struct hr_limiter *limiter, struct hr_range_cursor *cursor,
                                         enum hr_range_purpose purpose, struct hr_now now,
                                         struct hr_counter_image *ret_counter, struct hr_lease_image *ret_lease)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    while (true) {
        if (cursor->is_amid && go_on_amid(limiter, cursor, &context, ret_lease)) {
            return HR_RANGE_LEASE;
        }
        struct hr_cell *cell = next_cell(limiter, cursor);
        if (cell == NULL) {
            return HR_RANGE_END;
        }
        cursor->is_begun = true;
        cursor->at = cell->id;
        cursor->lease_index = 0;
        cursor->expires_at = 0;
        cursor->is_amid = limiter->versions.versions[cell->version].rule.algorithm == HR_CONCURRENCY;
        if (!cursor->is_amid && take_counter(limiter, cell, purpose, &context, ret_counter)) {
            return HR_RANGE_COUNTER;
        }
    }
}

/* --- putting in place --- */

/* Units ahead that were charged when the copy comes would drain long before the other place spends them, which it does
 * without a word. So they are kept, and charged by whoever takes over; but where room is short, now. What was reserved
 * here, while the counter was this node's own, says nothing about the copy. */
static void keep_ahead(struct hr_limiter *limiter, struct hr_cell *cell, uint64_t units, struct hr_context *context)
{
    if (cell->reserve == 0 && units > 0 && hr_reserve_pool_has_room(&limiter->reserves)) {
        cell->reserve = hr_reserve_new(&limiter->reserves, cell->id);
    }
    if (cell->reserve != 0) {
        hr_reserve_copy(&limiter->reserves, cell->reserve, units);
    } else {
        hr_limiter_charge_ahead(cell, &limiter->versions.versions[cell->version], units, context);
    }
}

enum hr_err hr_limiter_apply(struct hr_limiter *limiter, const struct hr_counter_image *image, int64_t elapsed_ns,
                             struct hr_now now)
{
    struct hr_cell *old = hr_table_find(&limiter->table, image->id);
    if (old != NULL && hr_limiter_drop_note(limiter, old)) {
        hr_table_mark_dirty(&limiter->table, old); /* what it is when it is saved counts */
    }
    uint16_t flags = old == NULL ? 0 : old->flags;
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell;
    enum hr_err err = hr_limiter_restore_state(limiter, image, elapsed_ns, &context, &cell);
    if (err != HR_OK) {
        return err;
    }
    cell->flags = flags | HR_CELL_APPLIED;
    keep_ahead(limiter, cell, image->ahead, &context);
    return HR_OK;
}

void hr_limiter_apply_lease_end(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now)
{
    (void)hr_limiter_release(limiter, lease, now); /* it may be over here already */
}

enum hr_err hr_limiter_apply_lease(struct hr_limiter *limiter, const struct hr_lease_image *image, int64_t elapsed_ns,
                                   struct hr_now now)
{
    hr_limiter_apply_lease_end(limiter, image->id, now);
    enum hr_err err = hr_limiter_restore_lease(limiter, image, elapsed_ns, now);
    struct hr_cell *cell = err == HR_OK ? hr_table_find(&limiter->table, image->counter) : NULL;
    if (cell != NULL) {
        cell->flags |= HR_CELL_APPLIED;
    }
    return err;
}

/* Gives all back that a cell holds of the pools, its reserve apart, and takes it out. */
static void erase(struct hr_limiter *limiter, struct hr_cell *cell, const struct hr_context *context)
{
    (void)hr_limiter_drop_note(limiter, cell);
    hr_state_clear(&cell->state, &limiter->versions.versions[cell->version].rule, context);
    hr_table_erase(&limiter->table, cell);
}

/* Can the reserve be let go, and the record be noted as forgotten? */
static bool can_drop(const struct hr_limiter *limiter, const struct hr_cell *cell)
{
    const struct hr_reserve *reserve = &limiter->reserves.reserves[cell->reserve];
    if (cell->reserve != 0 && (reserve->is_queued || reserve->asked > 0)) {
        return false;
    }
    return !(cell->flags & HR_CELL_STORED) || limiter->forgotten.count < HR_FORGOTTEN_MAX;
}

static bool drop(struct hr_limiter *limiter, struct hr_cell *cell, const struct hr_context *context)
{
    if (!can_drop(limiter, cell)) {
        return false;
    }
    struct hr_id128 id = cell->id;
    bool is_stored = (cell->flags & HR_CELL_STORED) != 0;
    if (cell->reserve != 0) {
        hr_reserve_free(&limiter->reserves, cell->reserve);
    }
    erase(limiter, cell, context);
    if (is_stored) {
        hr_limiter_forget_again(limiter, id);
    }
    return true;
}

void hr_limiter_apply_forgotten(struct hr_limiter *limiter, struct hr_id128 counter, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = hr_table_find(&limiter->table, counter);
    if (cell != NULL) {
        (void)drop(limiter, cell, &context); /* one that stays says too much at worst, and is swept in time */
    }
}

/* --- whole ranges --- */

static struct hr_cell *first_of(struct hr_limiter *limiter, struct hr_range range)
{
    return hr_table_seek(&limiter->table, range.first, range.last);
}

static void own_leases(struct hr_limiter *limiter, const struct hr_cell *cell)
{
    struct hr_lease *leases = limiter->leases.leases;
    for (uint32_t i = cell->state.concurrency.head; i != 0; i = leases[i].next) {
        leases[i].is_saved = true;
        hr_lease_mark_changed(&limiter->leases, i);
    }
}

void hr_limiter_range_own(struct hr_limiter *limiter, struct hr_range range)
{
    struct hr_cell *cell = first_of(limiter, range);
    for (; cell != NULL; cell = hr_table_from(&limiter->table, cell + 1, range.last)) {
        const struct hr_version *version = &limiter->versions.versions[cell->version];
        if (hr_limiter_durability(limiter, version) == HR_MEMORY) {
            continue;
        }
        hr_table_mark_dirty(&limiter->table, cell);
        if (version->rule.algorithm == HR_CONCURRENCY) {
            own_leases(limiter, cell);
        }
    }
}

void hr_limiter_range_take_over(struct hr_limiter *limiter, struct hr_range range, hr_ns now)
{
    struct hr_now told = {now, limiter->wall};
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, told));
    struct hr_cell *cell = first_of(limiter, range);
    for (; cell != NULL; cell = hr_table_from(&limiter->table, cell + 1, range.last)) {
        charge_copy(limiter, cell, &context);
    }
    hr_limiter_range_own(limiter, range);
}

/* Drops the cells of a range, those with the flag apart. */
static bool drop_all_but(struct hr_limiter *limiter, struct hr_range range, uint16_t flag, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = first_of(limiter, range);
    bool is_clean = true;
    while (cell != NULL) {
        bool is_spared = (cell->flags & flag) != 0 || stays(limiter, cell);
        bool is_dropped = !is_spared && drop(limiter, cell, &context);
        is_clean &= is_spared || is_dropped;
        cell = hr_table_from(&limiter->table, is_dropped ? cell : cell + 1,
                             range.last); /* another may stand in its place */
    }
    return is_clean;
}

bool hr_limiter_range_drop(struct hr_limiter *limiter, struct hr_range range, struct hr_now now)
{
    return drop_all_but(limiter, range, 0, now);
}

void hr_limiter_range_begin(struct hr_limiter *limiter, struct hr_range range)
{
    struct hr_cell *cell = first_of(limiter, range);
    for (; cell != NULL; cell = hr_table_from(&limiter->table, cell + 1, range.last)) {
        cell->flags &= (uint16_t)~HR_CELL_APPLIED;
    }
}

bool hr_limiter_range_end(struct hr_limiter *limiter, struct hr_range range, struct hr_now now)
{
    return drop_all_but(limiter, range, HR_CELL_APPLIED, now);
}
