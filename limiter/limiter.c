#include "limiter/limiter.h"

#include <string.h>

#include "base/bump.h"
#include "base/defect.h"
#include "limiter/limiter_state.h"

static bool sizes_are_valid(const struct hr_limiter_sizes *sizes)
{
    return sizes->counters_max >= 1 && sizes->counters_max < UINT32_MAX / 2 && sizes->leases_max < UINT32_MAX / 2 &&
           sizes->log_blocks_max < UINT32_MAX / 2 && sizes->reserves_max < UINT32_MAX / 2 &&
           sizes->shares_max < UINT32_MAX / 4 && sizes->limits_max >= 1 && sizes->limits_max <= HR_LIMITS_MAX;
}

/* Each pool has one part more than its size: the one that stands for "none". */
static struct hr_limiter *lay_out(const struct hr_limiter_sizes *sizes, struct hr_limiter *parts, struct hr_bump *bump)
{
    struct hr_limiter *limiter = hr_bump_take(bump, 1, sizeof(*limiter), 64);
    uint32_t lease_count = sizes->leases_max + 1, block_count = sizes->log_blocks_max + 1;
    struct hr_lease *leases = hr_bump_take(bump, lease_count, sizeof(*leases), 64);
    uint32_t *buckets = hr_bump_take(bump, hr_lease_bucket_count(lease_count), sizeof(*buckets), 64);
    struct hr_log_block *blocks = hr_bump_take(bump, block_count, sizeof(*blocks), 64);
    hr_lease_pool_init(&parts->leases, leases, lease_count, buckets);
    hr_log_pool_init(&parts->logs, blocks, block_count);
    uint32_t reserve_count = sizes->reserves_max + 1;
    struct hr_reserve *reserves = hr_bump_take(bump, reserve_count, sizeof(*reserves), 64);
    hr_reserve_pool_init(&parts->reserves, reserves, reserve_count);
    hr_stake_pool_init(&parts->stakes, sizes->shares_max, bump);
    parts->versions.has_stakes = sizes->shares_max > 0;
    parts->forgotten.ids = hr_bump_take(bump, sizes->saves ? HR_FORGOTTEN_MAX : 0, sizeof(struct hr_id128), 64);
    hr_versions_init(&parts->versions, sizes->limits_max, bump);
    const struct hr_table_range ids = {sizes->first_id, sizes->last_id > 0 ? sizes->last_id : UINT64_MAX};
    hr_table_init(&parts->table, sizes->counters_max, ids, bump);
    hr_journal_init(&parts->journal, sizes->saves ? sizes->counters_max : 0, bump);
    return limiter;
}

size_t hr_limiter_bytes(const struct hr_limiter_sizes *sizes)
{
    if (!sizes_are_valid(sizes)) {
        return 0;
    }
    struct hr_limiter parts;
    struct hr_bump bump = {0};
    (void)lay_out(sizes, &parts, &bump); /* measuring, it lays out nothing */
    return bump.taken;
}

struct hr_limiter *hr_limiter_init(const struct hr_limiter_sizes *sizes, const struct hr_hash_key *secret, void *memory,
                                   size_t memory_bytes)
{
    size_t needed = hr_limiter_bytes(sizes);
    if (needed == 0 || memory_bytes < needed) {
        return NULL;
    }
    struct hr_limiter parts = {.sizes = *sizes};
    struct hr_bump bump = {.at = memory};
    struct hr_limiter *limiter = lay_out(sizes, &parts, &bump);
    *limiter = parts;
    limiter->counter_secret = hr_hash_subkey(secret, "counter", 7);
    limiter->lease_secret = hr_hash_subkey(secret, "lease", 5);
    limiter->spot_key = hr_hash_subkey(secret, "on the spot", 11);
    return limiter;
}

struct hr_now hr_limiter_settle_now(struct hr_limiter *limiter, struct hr_now now)
{
    hr_ns steady = hr_clamp_time(hr_defect(WALL_RATES) ? now.wall.ns : now.steady);
    limiter->steady = steady > limiter->steady ? steady : limiter->steady;
    limiter->wall = (struct hr_wall){hr_clamp_time(now.wall.ns)};
    return (struct hr_now){.steady = limiter->steady, .wall = limiter->wall};
}

void hr_limiter_note_restated(struct hr_limiter *limiter, struct hr_cell *cell, const struct hr_version *version)
{
    hr_limiter_note_change(limiter, cell, version);
    if (cell->reserve != 0) {
        hr_reserve_void(&limiter->reserves, cell->reserve);
    }
}

struct hr_version *hr_limiter_restate(struct hr_limiter *limiter, struct hr_cell *cell,
                                      const struct hr_context *context)
{
    uint16_t number = hr_versions_restate(&limiter->versions, cell->version, &cell->state, context);
    if (number == 0) {
        return NULL;
    }
    struct hr_version *version = &limiter->versions.versions[number];
    cell->version = number;
    hr_limiter_note_restated(limiter, cell, version);
    return version;
}

/* False: its record in the store could not be forgotten with it just now. */
static bool can_forget(const struct hr_limiter *limiter, const struct hr_cell *cell)
{
    const struct hr_reserve *reserve = &limiter->reserves.reserves[cell->reserve];
    if (cell->reserve != 0 && (reserve->is_queued || reserve->asked > 0)) {
        return false;
    }
    return !(cell->flags & HR_CELL_STORED) || limiter->forgotten.count < HR_FORGOTTEN_MAX;
}

static void forget_record(struct hr_forgotten *forgotten, struct hr_id128 id)
{
    forgotten->ids[(forgotten->first + forgotten->count) % HR_FORGOTTEN_MAX] = id;
    forgotten->count++;
}

/* Drops what a cell holds, for good. */
static bool forget(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_version *version,
                   const struct hr_context *context)
{
    if (!can_forget(limiter, cell)) {
        return false;
    }
    if (cell->reserve != 0) {
        hr_reserve_free(&limiter->reserves, cell->reserve);
    }
    if (cell->flags & HR_CELL_STORED) {
        forget_record(&limiter->forgotten, cell->id);
    }
    if (version->rule.algorithm == HR_QUOTA && !version->is_retired) {
        hr_quota_clock_forget(&version->clock, &version->rule, &cell->state.quota);
    }
    (void)hr_limiter_drop_note(limiter, cell);
    hr_state_clear(&cell->state, &version->rule, context);
    hr_table_erase(&limiter->table, cell);
    return true;
}

/* Who comes back once in a while would wait for the store each time, were the units ahead of it dropped as soon as it
 * is untouched. */
static bool is_worth_keeping(const struct hr_limiter *limiter, const struct hr_cell *cell,
                             const struct hr_version *version, hr_ns now)
{
    const struct hr_table *table = &limiter->table;
    return cell->reserve != 0 && hr_limiter_durability(limiter, version) == HR_RESERVED &&
           hr_reserve_is_worth_keeping(&limiter->reserves.reserves[cell->reserve], now) &&
           hr_reserve_pool_has_room(&limiter->reserves) && table->count < table->count_max - table->count_max / 4;
}

/* True where the cell was dropped, so that another may stand in its place. */
static bool sweep_cell(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_context *context)
{
    if (cell->version == 0) {
        return false;
    }
    struct hr_version *version = hr_limiter_bring_up_to_date(limiter, cell, context);
    hr_versions_keep_spot(&limiter->versions, cell->version, limiter->sweep_pass);
    if (version == NULL) {
        return forget(limiter, cell, &limiter->versions.versions[cell->version], context);
    }
    if (hr_state_is_untouched(&cell->state, &version->rule, context) &&
        !is_worth_keeping(limiter, cell, version, context->now.steady) && forget(limiter, cell, version, context)) {
        return true;
    }
    hr_limiter_refresh_cell(limiter, cell);
    return false;
}

void hr_limiter_sweep_cells(struct hr_limiter *limiter, uint64_t cells, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, now);
    for (uint64_t i = 0; i < cells; i++) {
        if (sweep_cell(limiter, &limiter->table.cells[limiter->sweep_at], &context)) {
            continue;
        }
        if (++limiter->sweep_at == hr_table_cell_count(&limiter->table)) {
            limiter->sweep_at = 0;
            limiter->sweep_pass++;
            hr_versions_free_passed(&limiter->versions, limiter->sweep_pass);
        }
    }
}

void hr_limiter_sweep(struct hr_limiter *limiter, uint32_t cells, struct hr_now now)
{
    now = hr_limiter_settle_now(limiter, now);
    hr_limiter_sweep_cells(limiter, cells, now);
    hr_limiter_sweep_stakes(limiter, cells / 16 + 1, now);
}

enum hr_err hr_limiter_load(struct hr_limiter *limiter, const struct hr_limit_set *set, struct hr_now now)
{
    if (set->limit_count > limiter->sizes.limits_max) {
        return HR_E_TOO_MANY;
    }
    now = hr_limiter_settle_now(limiter, now);
    hr_limiter_spill_notes(limiter); /* their versions may retire */
    enum hr_err err = hr_versions_load(&limiter->versions, set, &limiter->counter_secret, now, limiter->sweep_pass);
    if (err == HR_E_FULL) { /* many changes at once, faster than the sweep: wait for two passes here */
        hr_limiter_sweep_cells(limiter, 3 * (hr_table_cell_count(&limiter->table) + limiter->table.count), now);
        err = hr_versions_load(&limiter->versions, set, &limiter->counter_secret, now, limiter->sweep_pass);
    }
    if (err == HR_OK) {
        limiter->set = set;
    }
    return err;
}

struct hr_id128 hr_limiter_lease_name(const struct hr_limiter *limiter, uint64_t serial,
                                      const struct hr_version *version)
{
    uint8_t text[8 + HR_HASH_KEY_BYTES];
    for (int i = 0; i < 8; i++) {
        text[i] = (uint8_t)(serial >> (8 * i));
    }
    memcpy(text + 8, version->name_key.bytes, HR_HASH_KEY_BYTES);
    return hr_keyed_hash(&limiter->lease_secret, text, sizeof(text));
}

/* The cell that a lease was given by, brought up to date; NULL where the lease is over or was never given. */
static struct hr_cell *cell_of_lease(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_context *context)
{
    uint32_t index = hr_lease_find(&limiter->leases, lease);
    if (index == 0) {
        return NULL;
    }
    struct hr_cell *cell = hr_table_find(&limiter->table, limiter->leases.leases[index].counter);
    if (cell == NULL || hr_limiter_bring_up_to_date(limiter, cell, context) == NULL) {
        return NULL; /* its limit is gone, and the lease with it */
    }
    return hr_lease_find(&limiter->leases, lease) == 0 ? NULL : cell;
}

bool hr_limiter_release(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = cell_of_lease(limiter, lease, &context);
    if (cell == NULL) {
        return false;
    }
    hr_concurrency_end(&cell->state.concurrency, &limiter->leases, hr_lease_find(&limiter->leases, lease));
    return true;
}

bool hr_limiter_renew(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now, int64_t *ret_ttl_ms)
{
    struct hr_context context = hr_limiter_context(limiter, hr_limiter_settle_now(limiter, now));
    struct hr_cell *cell = cell_of_lease(limiter, lease, &context);
    if (cell == NULL) {
        return false;
    }
    const struct hr_rule *rule = &limiter->versions.versions[cell->version].rule;
    hr_concurrency_renew(&cell->state.concurrency, rule, &limiter->leases, hr_lease_find(&limiter->leases, lease),
                         context.now.steady);
    *ret_ttl_ms = hr_ms_ceil((int64_t)rule->ttl_ns);
    return true;
}

bool hr_limiter_release_serial(struct hr_limiter *limiter, uint64_t serial, struct hr_now now)
{
    bool any = false;
    now = hr_limiter_settle_now(limiter, now);
    for (uint32_t i = 0; limiter->set != NULL && i < limiter->set->limit_count; i++) {
        const struct hr_version *version = &limiter->versions.versions[limiter->versions.of_limit[i]];
        bool has_leases = version->rule.algorithm == HR_CONCURRENCY;
        uint32_t lease =
            has_leases ? hr_lease_find_named(&limiter->leases, hr_limiter_lease_name(limiter, serial, version)) : 0;
        any |= lease != 0 && hr_limiter_release(limiter, limiter->leases.leases[lease].id, now);
    }
    return any;
}

struct hr_tally hr_limiter_tally(const struct hr_limiter *limiter, uint32_t limit)
{
    return limiter->versions.versions[limiter->versions.of_limit[limit]].tally;
}

struct hr_limiter_usage hr_limiter_usage(const struct hr_limiter *limiter)
{
    return (struct hr_limiter_usage){
        .counters = limiter->table.count,
        .counters_max = limiter->table.count_max,
        .leases = limiter->sizes.leases_max - hr_lease_pool_available(&limiter->leases),
        .leases_max = limiter->sizes.leases_max,
        .log_blocks = limiter->sizes.log_blocks_max - hr_log_pool_available(&limiter->logs),
        .log_blocks_max = limiter->sizes.log_blocks_max,
        .shares = limiter->stakes.used,
        .shares_max = limiter->sizes.shares_max,
    };
}

uint64_t hr_limiter_cell_count(const struct hr_limiter *limiter)
{
    return hr_table_cell_count(&limiter->table);
}
