#include "limiter/save.h"

#include <string.h>

#include "base/defect.h"
#include "limiter/limiter_state.h"

bool hr_limiter_is_urgent(const struct hr_limiter *limiter)
{
    return limiter->forgotten.count >= HR_FORGOTTEN_MAX / 2 ||
           (limiter->reserves.is_waited_for && hr_limiter_has_raises(limiter));
}

bool hr_limiter_has_raises(const struct hr_limiter *limiter)
{
    return hr_reserve_first_wanted(&limiter->reserves) != 0;
}

bool hr_limiter_next_forgotten(struct hr_limiter *limiter, struct hr_id128 *ret_counter)
{
    struct hr_forgotten *forgotten = &limiter->forgotten;
    if (forgotten->count == 0) {
        return false;
    }
    *ret_counter = forgotten->ids[forgotten->first];
    forgotten->first = (forgotten->first + 1) % HR_FORGOTTEN_MAX;
    forgotten->count--;
    return true;
}

/* A quota's period means nothing without its unit and zone; a bucket's debt nothing without its rate. */
static void save_rule(const struct hr_rule *rule, struct hr_counter_image *image)
{
    image->algorithm = (uint8_t)rule->algorithm;
    image->rate = rule->rate;
    image->period_ns = rule->period_ns;
    if (rule->algorithm == HR_QUOTA) {
        image->rate = (uint64_t)rule->unit;
        image->period_ns = rule->zone == NULL ? 0 : rule->zone->digest;
    }
}

static void save_state(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context,
                       struct hr_counter_image *image)
{
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET: {
        struct hr_u128 paid = hr_u128_mul((uint64_t)context->now.steady, rule->rate);
        struct hr_u128 debt = hr_u128_sub_floor(state->gcra.arrival, paid);
        image->words[0] = debt.hi;
        image->words[1] = debt.lo;
        return;
    }
    case HR_FIXED_WINDOW:
        image->words[0] = (uint64_t)state->fixed_window.index;
        image->words[1] = state->fixed_window.used;
        return;
    case HR_SLIDING_WINDOW:
        image->words[0] = (uint64_t)state->sliding_window.index;
        image->words[1] = state->sliding_window.previous;
        image->words[2] = state->sliding_window.current;
        return;
    case HR_SLIDING_LOG:
        image->entry_count = hr_sliding_log_save(&state->sliding_log, context->logs, context->now.steady,
                                                 image->entries, HR_IMAGE_ENTRIES_MAX);
        return;
    case HR_QUOTA:
        image->words[0] = (uint64_t)state->quota.period;
        image->words[1] = state->quota.used;
        return;
    case HR_CONCURRENCY:
        return; /* its leases say it all */
    }
}

bool hr_limiter_image_of(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_context *context,
                         struct hr_counter_image *image)
{
    struct hr_version *version = hr_limiter_bring_up_to_date(limiter, cell, context);
    if (version == NULL || version->rule.algorithm == HR_CONCURRENCY) {
        return false;
    }
    image->id = cell->id;
    image->limit = version->limit_id;
    image->saved_at = context->now.steady;
    image->ahead = 0;
    image->words[0] = image->words[1] = image->words[2] = 0;
    image->entry_count = 0; /* the entries themselves are not cleared for each of many counters that have none */
    save_rule(&version->rule, image);
    save_state(&cell->state, &version->rule, context, image);
    return true;
}

static bool save_cell(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_context *context,
                      struct hr_counter_image *image)
{
    if (!hr_limiter_image_of(limiter, cell, context, image)) {
        return false;
    }
    cell->flags = (uint16_t)((cell->flags & ~HR_CELL_MARK) | HR_CELL_STORED | limiter->refresh.mark);
    return true;
}

bool hr_limiter_next_raise(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image)
{
    now = hr_limiter_settle_now(limiter, now);
    struct hr_context context = hr_limiter_context(limiter, now);
    uint32_t index;
    while ((index = hr_reserve_first_wanted(&limiter->reserves)) != 0) {
        struct hr_cell *cell = hr_table_find(&limiter->table, limiter->reserves.reserves[index].counter);
        /* It leaves the queue when its image is made: that may restate the counter, which wants a raise of it too. */
        bool is_copy = limiter->reserves.reserves[index].is_copy; /* since it was queued */
        bool is_made = cell != NULL && !is_copy && save_cell(limiter, cell, &context, ret_image);
        (void)hr_reserve_next_wanted(&limiter->reserves);
        if (is_made) {
            uint64_t capacity = limiter->versions.versions[cell->version].rule.capacity;
            ret_image->ahead = hr_reserve_raise(&limiter->reserves, index, capacity, now.steady);
            return true;
        }
    }
    return false;
}

/* The version of what was noted, where its state can be told by a debt of one word; else the counter is saved as others
 * are. */
static const struct hr_version *version_of_debt(struct hr_limiter *limiter, const struct hr_noted *noted,
                                                hr_ns saved_at, uint64_t *ret_debt)
{
    const struct hr_version *version = &limiter->versions.versions[noted->version];
    struct hr_u128 debt = hr_u128_sub_floor(noted->gcra.arrival, hr_u128_mul((uint64_t)saved_at, version->rule.rate));
    *ret_debt = debt.lo;
    return debt.hi == 0 ? version : NULL;
}

uint32_t hr_limiter_next_debts(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_shared,
                               struct hr_debt ret_debts[HR_DEBTS_MAX])
{
    hr_ns saved_at = hr_limiter_settle_now(limiter, now).steady;
    const struct hr_version *shared = NULL;
    struct hr_noted *noted;
    uint32_t count = 0;
    while (count < HR_DEBTS_MAX && (noted = hr_journal_next(&limiter->journal)) != NULL) {
        const struct hr_version *version = version_of_debt(limiter, noted, saved_at, &ret_debts[count].debt);
        if (version == NULL) {
            hr_limiter_save_again(limiter, noted->id);
            continue;
        }
        if (shared != NULL && version != shared) {
            hr_journal_put_back(&limiter->journal);
            break;
        }
        shared = version;
        ret_debts[count++].id = noted->id;
    }
    if (shared != NULL) {
        ret_shared->limit = shared->limit_id;
        ret_shared->saved_at = saved_at;
        save_rule(&shared->rule, ret_shared);
    }
    return count;
}

bool hr_limiter_has_many_debts(const struct hr_limiter *limiter)
{
    return hr_journal_is_filling(&limiter->journal);
}

/* A record that says no more than is so already: all units that are reserved, or about to be, are ahead of it. */
static uint64_t units_ahead(const struct hr_limiter *limiter, const struct hr_cell *cell)
{
    const struct hr_reserve *reserve = &limiter->reserves.reserves[cell->reserve];
    return cell->reserve == 0 ? 0 : reserve->left + reserve->asked;
}

void hr_limiter_spill_notes(struct hr_limiter *limiter)
{
    const struct hr_noted *noted;
    while ((noted = hr_journal_next(&limiter->journal)) != NULL) {
        hr_limiter_save_again(limiter, noted->id);
    }
}

bool hr_limiter_next_changed(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image)
{
    hr_limiter_spill_notes(limiter);
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell;
    while ((cell = hr_table_next_dirty(&limiter->table)) != NULL) {
        bool is_saved = save_cell(limiter, cell, &context, ret_image);
        cell->flags &= (uint16_t)~HR_CELL_DIRTY; /* only now: saving may restate it, which is a change */
        if (is_saved) {
            ret_image->ahead = units_ahead(limiter, cell);
            return true;
        }
    }
    return false;
}

void hr_limiter_end_reserves(struct hr_limiter *limiter)
{
    uint64_t count = hr_table_cell_count(&limiter->table);
    for (uint64_t i = 0; i < count; i++) {
        struct hr_cell *cell = &limiter->table.cells[i];
        if (cell->reserve != 0 && !limiter->reserves.reserves[cell->reserve].is_copy) {
            cell->reserve = 0;
            hr_table_mark_dirty(&limiter->table, cell);
        }
    }
    hr_reserve_pool_init(&limiter->reserves, limiter->reserves.reserves, limiter->reserves.reserve_count);
}

bool hr_limiter_next_lease(struct hr_limiter *limiter, struct hr_now now, struct hr_lease_image *ret_image,
                           bool *ret_ended)
{
    now = hr_limiter_settle_now(limiter, now);
    struct hr_lease lease;
    while (hr_lease_next_changed(&limiter->leases, &lease)) {
        const struct hr_cell *cell = hr_table_find(&limiter->table, lease.counter);
        if (cell == NULL && !lease.is_ended) {
            continue;
        }
        *ret_ended = lease.is_ended;
        *ret_image = (struct hr_lease_image){
            .id = lease.id,
            .counter = lease.counter,
            .limit = cell == NULL ? (struct hr_id128){0, 0} : limiter->versions.versions[cell->version].limit_id,
            .slots = lease.slots,
            .remaining_ns = lease.expires_at > now.steady ? lease.expires_at - now.steady : 0,
            .saved_at = now.steady,
        };
        return true;
    }
    return false;
}

void hr_limiter_settle_raises(struct hr_limiter *limiter, bool is_stored)
{
    hr_reserve_settle(&limiter->reserves, is_stored);
}

void hr_limiter_save_again(struct hr_limiter *limiter, struct hr_id128 counter)
{
    struct hr_cell *cell = hr_table_find(&limiter->table, counter);
    if (cell != NULL) {
        hr_table_mark_dirty(&limiter->table, cell);
    }
}

/* Where there is no room to note it, its old record stays until the log is folded, and says too much at worst. */
void hr_limiter_forget_again(struct hr_limiter *limiter, struct hr_id128 counter)
{
    struct hr_forgotten *forgotten = &limiter->forgotten;
    if (hr_table_find(&limiter->table, counter) == NULL && forgotten->count < HR_FORGOTTEN_MAX) {
        forgotten->ids[(forgotten->first + forgotten->count) % HR_FORGOTTEN_MAX] = counter;
        forgotten->count++;
    }
}

void hr_limiter_begin_refresh(struct hr_limiter *limiter)
{
    limiter->refresh = (struct hr_refresh){
        .mark = limiter->refresh.mark ^ HR_CELL_MARK, .pass = limiter->sweep_pass + 1, .is_going = true};
}

bool hr_limiter_is_refreshing(const struct hr_limiter *limiter)
{
    return limiter->refresh.is_going && (int32_t)(limiter->sweep_pass - limiter->refresh.pass) <= 0;
}

void hr_limiter_save_lease_again(struct hr_limiter *limiter, struct hr_id128 lease)
{
    uint32_t index = hr_lease_find(&limiter->leases, lease);
    if (index != 0) {
        hr_lease_mark_changed(&limiter->leases, index);
    }
}

/* Numbers of hours are seconds, those of longer periods are smaller; a zone west of Greenwich begins its first before
 * 1970. */
static bool period_is_sound(int64_t number)
{
    return number > -2 * HR_S_PER_DAY && number <= HR_TIME_NS_MAX / HR_NS_PER_S;
}

/* Bytes from a disk are bounded before they are believed: no sum below may overflow. */
static bool is_sound(const struct hr_counter_image *image, enum hr_algorithm algorithm)
{
    bool has_period = image->period_ns >= 1 && image->period_ns <= HR_PERIOD_NS_MAX;
    bool has_index = image->words[0] <= (uint64_t)HR_TIME_NS_MAX; /* of a window */
    switch (algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET: {
        struct hr_u128 most = hr_u128_mul(HR_COST_MAX, image->period_ns);
        bool has_rate = image->rate >= 1 && image->rate <= HR_COST_MAX;
        return has_period && has_rate && hr_u128_le((struct hr_u128){image->words[0], image->words[1]}, most);
    }
    case HR_FIXED_WINDOW:
        return has_period && has_index && image->words[1] <= HR_COST_MAX;
    case HR_SLIDING_WINDOW:
        return has_period && has_index && image->words[1] <= HR_COST_MAX && image->words[2] <= HR_COST_MAX;
    case HR_QUOTA:
        return image->words[1] <= HR_COST_MAX && period_is_sound((int64_t)image->words[0]);
    case HR_SLIDING_LOG:
        return image->entry_count <= HR_IMAGE_ENTRIES_MAX;
    case HR_CONCURRENCY:
        return false; /* its leases are saved, not the counter */
    }
    return false;
}

static void restore_log(const struct hr_counter_image *image, const struct hr_rule *rule, hr_ns then,
                        const struct hr_context *context, struct hr_sliding_log *log)
{
    uint64_t room = HR_LOG_LIMIT_MAX;
    for (uint32_t i = 0; i < image->entry_count; i++) {
        const struct hr_entry_image *entry = &image->entries[i];
        hr_ns at = entry->age_ns < (uint64_t)then ? then - (hr_ns)entry->age_ns : 0;
        if (entry->cost > 0 && entry->cost <= room && at + (hr_ns)rule->period_ns > context->now.steady) {
            hr_sliding_log_take(log, context->logs, entry->cost, at);
            room -= entry->cost;
        }
    }
}

/* When a restored counter was saved: in this limiter's steady time, and what the old one's would be now. */
struct moment {
    hr_ns then, old_now;
};

/* The state as it stood when it was saved, restated under the rule in force: as if the rule had changed there and then.
 */
static void restore_state(const struct hr_counter_image *image, const struct hr_version *version, struct moment moment,
                          const struct hr_context *context, union hr_state *state)
{
    const struct hr_rule *to = &version->rule;
    const struct hr_rule from = {
        .algorithm = to->algorithm, .capacity = to->capacity, .rate = image->rate, .period_ns = image->period_ns};
    const uint64_t *words = image->words;
    switch (to->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET: {
        struct hr_u128 paid = hr_u128_mul((uint64_t)moment.then, from.rate);
        state->gcra.arrival = hr_u128_add(paid, (struct hr_u128){words[0], words[1]});
        hr_gcra_adopt(&state->gcra, &from, to, moment.then);
        return;
    }
    case HR_FIXED_WINDOW:
        state->fixed_window = (struct hr_fixed_window){(int64_t)words[0], words[1]};
        hr_fixed_window_adopt(&state->fixed_window, &from, to, moment.old_now);
        state->fixed_window.index = context->now.steady / (int64_t)to->period_ns;
        return;
    case HR_SLIDING_WINDOW:
        state->sliding_window = (struct hr_sliding_window){(int64_t)words[0], words[1], words[2]};
        hr_sliding_window_adopt(&state->sliding_window, &from, to, moment.old_now);
        state->sliding_window.index = context->now.steady / (int64_t)to->period_ns;
        return;
    case HR_SLIDING_LOG:
        restore_log(image, to, moment.then, context, &state->sliding_log);
        return;
    case HR_QUOTA: {
        bool is_same = image->rate == (uint64_t)to->unit && image->period_ns == (to->zone ? to->zone->digest : 0);
        state->quota.period = is_same ? (int64_t)words[0] : version->clock.current.number;
        state->quota.used = words[1];
        return;
    }
    case HR_CONCURRENCY:
        return;
    }
}

/* No limit's id ends in this: ids are keyed hashes. */
#define SPOT_MARK UINT64_C(0x6f6e207468652073)

struct hr_id128 hr_limiter_spot_mark(uint64_t capacity)
{
    return (struct hr_id128){capacity, SPOT_MARK};
}

static struct hr_version *spot_version_of(struct hr_limiter *limiter, const struct hr_counter_image *image)
{
    struct hr_rule rule = {.algorithm = (enum hr_algorithm)image->algorithm,
                           .capacity = image->limit.hi,
                           .rate = image->rate,
                           .period_ns = image->period_ns};
    if (image->algorithm > HR_SLIDING_LOG || hr_rule_fault(&rule) != NULL) {
        return NULL;
    }
    uint16_t number = hr_versions_spot(&limiter->versions, &rule, limiter->spot_key, limiter->sweep_pass);
    return number == 0 ? NULL : &limiter->versions.versions[number];
}

/* The limit in force that a record belongs to, or NULL. */
static struct hr_version *version_of(struct hr_limiter *limiter, struct hr_id128 limit_id, uint8_t algorithm)
{
    uint16_t number = hr_versions_in_force(&limiter->versions, limit_id);
    struct hr_version *version = &limiter->versions.versions[number];
    bool is_known = number != 0 && hr_algorithm_is_same((enum hr_algorithm)algorithm, version->rule.algorithm);
    return is_known ? version : NULL;
}

/* The counter's cell, untouched, whether it was there before or not. NULL: no room. */
static struct hr_cell *fresh_cell(struct hr_limiter *limiter, struct hr_id128 id, const struct hr_version *version,
                                  const struct hr_context *context)
{
    struct hr_cell *cell = hr_table_find(&limiter->table, id);
    if (cell == NULL) {
        return hr_table_insert(&limiter->table, id, hr_limiter_version_number(limiter, version));
    }
    hr_state_clear(&cell->state, &limiter->versions.versions[cell->version].rule, context);
    cell->version = hr_limiter_version_number(limiter, version);
    return cell;
}

void hr_limiter_prepare_restore(const struct hr_limiter *limiter, struct hr_id128 counter)
{
    hr_table_prefetch_all(&limiter->table, counter);
}

void hr_limiter_restore_forgotten(struct hr_limiter *limiter, struct hr_id128 counter, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = hr_table_find(&limiter->table, counter);
    if (cell != NULL) {
        hr_state_clear(&cell->state, &limiter->versions.versions[cell->version].rule, &context);
        hr_table_erase(&limiter->table, cell);
    }
}

/* Blocks that restoring one log may take: two for its entries, one for the units ahead. */
#define LOG_BLOCKS_PER_RESTORE 3

void hr_limiter_charge_ahead(struct hr_cell *cell, struct hr_version *version, uint64_t units,
                             struct hr_context *context)
{
    const struct hr_rule *rule = &version->rule;
    hr_limiter_face(context, version);
    hr_state_advance(&cell->state, rule, context);
    /* Nobody spent more than there was; of a bucket what is left of a token, too. */
    uint64_t left = hr_state_remaining(&cell->state, rule, context) + hr_algorithm_is_bucket(rule->algorithm);
    units = units < left ? units : left;
    bool has_room = rule->algorithm != HR_SLIDING_LOG || hr_log_pool_available(context->logs) > 0;
    if (units > 0 && has_room) {
        hr_state_take(&cell->state, rule, units, (struct hr_grant){.counter = cell->id}, context);
    }
}

enum hr_err hr_limiter_restore_state(struct hr_limiter *limiter, const struct hr_counter_image *image,
                                     int64_t elapsed_ns, struct hr_context *context, struct hr_cell **ret_cell)
{
    struct hr_now now = context->now;
    struct hr_version *version = image->limit.lo == SPOT_MARK ? spot_version_of(limiter, image)
                                                              : version_of(limiter, image->limit, image->algorithm);
    if (version == NULL) {
        return HR_E_NOT_FOUND;
    }
    if (!is_sound(image, version->rule.algorithm)) {
        return HR_E_CORRUPT;
    }
    if (hr_log_pool_available(&limiter->logs) < LOG_BLOCKS_PER_RESTORE && version->rule.algorithm == HR_SLIDING_LOG) {
        return HR_E_FULL;
    }
    struct hr_cell *cell = fresh_cell(limiter, image->id, version, context);
    if (cell == NULL) {
        return HR_E_FULL;
    }
    elapsed_ns = hr_clamp_time(hr_defect(RESTORE_DRAINS) ? 2 * elapsed_ns : elapsed_ns);
    hr_ns saved_at = hr_clamp_time(image->saved_at);
    bool is_in_bounds = elapsed_ns < HR_TIME_NS_MAX - saved_at;
    struct moment moment = {hr_clamp_time(now.steady - elapsed_ns),
                            is_in_bounds ? saved_at + elapsed_ns : HR_TIME_NS_MAX};
    cell->flags = (uint16_t)(HR_CELL_STORED | limiter->refresh.mark);
    hr_limiter_face(context, version);
    restore_state(image, version, moment, context, &cell->state);
    hr_state_advance(&cell->state, &version->rule, context);
    *ret_cell = cell;
    return HR_OK;
}

enum hr_err hr_limiter_restore(struct hr_limiter *limiter, const struct hr_counter_image *image, int64_t elapsed_ns,
                               struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell;
    enum hr_err err = hr_limiter_restore_state(limiter, image, elapsed_ns, &context, &cell);
    if (err == HR_OK) { /* whatever of them was spent, was spent by now */
        hr_limiter_charge_ahead(cell, &limiter->versions.versions[cell->version], image->ahead, &context);
    }
    return err;
}

/* The cell of a counter whose limit gives leases, with those that it has. It may have none yet, and may be as another
 * limit of that name left it: then its state is no list of leases. NULL: no room. */
static struct hr_cell *cell_of_leases(struct hr_limiter *limiter, struct hr_id128 id, const struct hr_version *version,
                                      struct hr_context *context)
{
    struct hr_cell *cell = hr_table_find(&limiter->table, id);
    if (cell == NULL) {
        return fresh_cell(limiter, id, version, context);
    }
    if (hr_limiter_bring_up_to_date(limiter, cell, context) != version) {
        cell = fresh_cell(limiter, id, version, context);
        hr_limiter_note_restated(limiter, cell, version);
    }
    return cell;
}

enum hr_err hr_limiter_restore_lease(struct hr_limiter *limiter, const struct hr_lease_image *image, int64_t elapsed_ns,
                                     struct hr_now now)
{
    now = hr_limiter_settle_now(limiter, now);
    struct hr_context context = hr_limiter_context(limiter, now);
    struct hr_version *version = version_of(limiter, image->limit, HR_CONCURRENCY);
    int64_t remaining_ns = image->remaining_ns - hr_clamp_time(elapsed_ns);
    if (version == NULL || remaining_ns <= 0 || hr_lease_find(&limiter->leases, image->id) != 0) {
        return HR_E_NOT_FOUND;
    }
    if (image->slots < 1 || image->slots > HR_COST_MAX || remaining_ns > HR_PERIOD_NS_MAX) {
        return HR_E_CORRUPT;
    }
    struct hr_cell *cell = cell_of_leases(limiter, image->counter, version, &context);
    if (cell == NULL || hr_lease_pool_available(&limiter->leases) == 0) {
        return HR_E_FULL;
    }
    struct hr_rule rest = version->rule; /* what is left of the ttl */
    rest.ttl_ns = (uint64_t)remaining_ns;
    struct hr_grant grant = {.lease = image->id, .counter = image->counter, .is_saved = true};
    hr_concurrency_take(&cell->state.concurrency, &rest, &limiter->leases, image->slots, grant, context.now.steady);
    return HR_OK;
}
