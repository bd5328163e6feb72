#include <assert.h>
#include <math.h>

#include "chaos/cap_sim/cap_world.h"

#define BIN_NS (50 * HR_NS_PER_MS)
#define MICRO UINT64_C(1000000)

/* As many as come when so many millionths of a request are expected: a sum of sixteen and more draws, which is nearly
 * Poisson's and the same on every machine. */
uint64_t cap_load_draw(struct hr_rng *rng, uint64_t micro_expected)
{
    uint64_t whole = micro_expected / MICRO, draws = whole < 12 ? 16 + 4 * whole : 64, each = micro_expected / draws;
    uint64_t count = each / MICRO * draws;
    for (uint64_t i = 0; i < draws; i++) {
        count += hr_rng_chance(rng, each % MICRO, MICRO);
    }
    return count;
}

static uint64_t below_exponential_ms(struct hr_rng *rng, uint64_t mean_ms)
{
    uint64_t ms = 1;
    while (ms < 20 * mean_ms && !hr_rng_chance(rng, 1, mean_ms)) {
        ms++;
    }
    return ms;
}

/* The cap in micro-requests a second. */
uint64_t cap_load_cap(const struct cap_scenario *s)
{
    uint64_t period_us = s->period_ns < 1000 ? MICRO : s->period_ns / 1000;
    return s->rate * MICRO / period_us * MICRO + s->rate * MICRO % period_us * MICRO / period_us;
}

static void switch_bursts(struct cap_world *world, uint32_t k)
{
    const struct cap_scenario *s = world->scenario;
    struct cap_region *region = &world->regions[k];
    struct hr_rng *rng = &world->load_rng;
    if (world->now < region->switch_at) {
        return;
    }
    uint64_t mean_ms;
    if (s->load == CAP_ON_OFF) {
        bool was_on = region->lambda > 0;
        uint64_t off_ms = (uint64_t)s->hot_permille * s->regions * 1000 / s->offered_permille - 1000;
        bool is_on = world->now == 0 ? hr_rng_chance(rng, 1, 2) : !was_on;
        region->lambda = is_on ? cap_load_cap(s) / 1000 * s->hot_permille : 0;
        mean_ms = is_on ? 1000 : off_ms;
    } else {
        uint64_t kind = hr_rng_below(rng, 10);
        uint64_t most = kind < 3 ? 0 : kind < 6 ? cap_load_cap(s) / s->regions : 3 * cap_load_cap(s);
        region->lambda = most / 1000 * hr_rng_below(rng, 1001);
        mean_ms = s->is_cover && s->period_ns > 0 ? s->period_ns / 10000000 + 1 : 1000;
    }
    region->switch_at = world->now + (hr_ns)below_exponential_ms(rng, mean_ms) * HR_NS_PER_MS;
}

static void set_rates(struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    uint64_t total = cap_load_cap(s) / 1000 * s->offered_permille, n = s->regions;
    double sun[HR_REGIONS_MAX], sum = 0;
    uint32_t hot = 0;
    for (uint32_t i = 0; s->load == CAP_FLIP && i < s->move_count; i++) {
        hot = (hot + (world->now >= s->moves[i])) % s->regions;
    }
    for (uint32_t k = 0; s->load == CAP_SUN && k < n; k++) { /* a day of 60 s */
        double height = cos(6.283185307 * ((double)world->now / 60e9 - (double)k / (double)n)) * 0.5 + 0.5;
        sun[k] = height * height * height + 0.02;
        sum += sun[k];
    }
    for (uint32_t k = 0; k < n && world->now >= s->duration; k++) {
        world->regions[k].lambda = cap_rest_offered(world);
    }
    for (uint32_t k = 0; k < n && world->now < s->duration; k++) {
        struct cap_region *region = &world->regions[k];
        bool is_flash = s->move_count >= 2 && world->now >= s->moves[0] && world->now < s->moves[1];
        switch (s->load) {
        case CAP_BALANCED:
            region->lambda = total / n;
            break;
        case CAP_SKEW:
        case CAP_FLIP:
            region->lambda =
                k == hot ? total / 1000 * s->hot_permille : total / 1000 * (1000 - s->hot_permille) / (n - 1);
            break;
        case CAP_ONE:
            region->lambda = k == 0 ? total : 0;
            break;
        case CAP_SUN:
            region->lambda = (uint64_t)((double)total * sun[k] / sum);
            break;
        case CAP_FLASH_ONE:
        case CAP_FLASH_ALL:
            region->lambda = total / n * (is_flash && (k == 0 || s->load == CAP_FLASH_ALL) ? 10 : 1);
            break;
        case CAP_ON_OFF:
        case CAP_RANDOM:
            switch_bursts(world, k);
            break;
        }
    }
}

/* Brings the ideal bucket and the backlog to now. The drift of clocks is on the backlog's side. */
static void count_time(struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    const struct hr_lend_rule *rule = &world->limits[0].lend;
    int64_t dt = world->now - world->counted_at, period = (int64_t)rule->scale.period_ns;
    world->counted_at = world->now;
    if (s->is_cover || dt <= 0) {
        return;
    }
    struct hr_u128 made = hr_u128_add(hr_u128_mul((uint64_t)rule->rate, (uint64_t)dt),
                                      (struct hr_u128){0, (uint64_t)world->central_rest});
    int64_t units = (int64_t)hr_u128_div(made, (uint64_t)period).lo;
    world->central_rest = (int64_t)hr_u128_sub_floor(made, hr_u128_mul((uint64_t)units, (uint64_t)period)).lo;
    world->central_level = hr_min(rule->depth, world->central_level + units);
    units += hr_mul_div(units, s->drift_ppm + 1, 1000000) + 1;
    world->backlog = hr_max(0, world->backlog - units);
}

static void note_label(struct cap_world *world, int64_t label, uint64_t admitted)
{
    if (label >= 0 && label < CAP_LABELS_MAX) {
        world->label_spent[label] += admitted;
        int64_t total = hr_max(world->limits[0].cover.total, world->limits[1].cover.total);
        cap_world_fail(world, "J1 a window spent above its total", (int64_t)world->label_spent[label] - total);
    }
}

static void account(struct cap_world *world, uint32_t k, uint64_t offered, uint64_t admitted)
{
    const struct cap_scenario *s = world->scenario;
    struct cap_region *region = &world->regions[k];
    uint64_t ideal = 0;
    if (s->is_cover) {
        uint64_t true_label = s->period_ns == 0 ? 0 : (uint64_t)(world->now + 10 * HR_NS_PER_S) / s->period_ns;
        uint64_t *spent = &world->label_ideal[true_label % CAP_LABELS_MAX];
        ideal = offered < s->rate - *spent ? offered : s->rate - *spent;
        *spent += ideal;
    } else {
        int64_t token = world->limits[0].lend.token;
        ideal = (uint64_t)hr_min((int64_t)offered, world->central_level / token);
        world->central_level -= (int64_t)ideal * token;
        world->backlog += (int64_t)admitted * token;
        world->backlog_peak = hr_max(world->backlog_peak, world->backlog);
        cap_world_fail(world, "I8 admitted above R t + B", world->backlog - world->limits[0].lend.depth);
    }
    region->offered += offered;
    region->admitted += admitted;
    region->ideal += ideal;
    uint64_t bin = (uint64_t)(world->now / BIN_NS);
    if (bin < sizeof world->bin_admitted / sizeof world->bin_admitted[0]) {
        world->bin_admitted[bin] += admitted;
        world->bin_ideal[bin] += ideal;
    }
}

static uint64_t spend_share(struct cap_world *world, uint32_t k, uint64_t offered)
{
    struct cap_region *region = &world->regions[k];
    const struct hr_share_scale *scale = &world->limits[0].lend.scale;
    hr_share_advance(&region->share, scale, cap_world_clock(world, k));
    if (world->checks) {
        cap_audit_private(world, k);
    }
    uint64_t left = hr_share_remaining(&region->share, scale), admitted = offered < left ? offered : left;
    hr_share_ask(&region->share, scale, offered);
    hr_share_take(&region->share, scale, admitted);
    region->private_level -= (int64_t)admitted << scale->shift;
    return admitted;
}

static uint64_t spend_escrow(struct cap_world *world, uint32_t k, uint64_t offered)
{
    struct cap_region *region = &world->regions[k];
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < offered; i++) {
        hr_escrow_ask(&region->escrow, 1);
        if (hr_escrow_fits(&region->escrow, 1)) {
            hr_escrow_take(&region->escrow, 1);
            admitted++;
        } else if (hr_escrow_waits(&region->escrow, 1)) {
            region->waiting++;
        } else {
            struct hr_cover *cover = hr_caps_cover(region->caps, world->id);
            struct hr_cover_state state = {0};
            if (cover != NULL) {
                state = hr_cover_state(cover);
            }
            region->denied_in_reserve += (int64_t)region->escrow.used < state.reserve && state.lost == 0;
        }
    }
    note_label(world, region->escrow.label, admitted);
    return admitted;
}

static bool needs_touch(const struct cap_region *region, bool is_cover)
{
    if (is_cover) {
        return region->escrow.wants_notice;
    }
    return region->share.wants_notice || region->share.generation != hr_caps_generation(region->caps);
}

static void touch(struct cap_world *world, uint32_t k)
{
    enum hr_err err =
        hr_caps_touch(world->regions[k].caps, world->id, world->limits[0].number, cap_world_clock(world, k));
    assert(err == HR_OK);
    (void)err;
}

static void serve(struct cap_world *world, uint32_t k, uint64_t offered)
{
    const struct cap_scenario *s = world->scenario;
    struct cap_region *region = &world->regions[k];
    if (!region->is_up) {
        return;
    }
    if (s->is_cover && s->period_ns > 0) {
        hr_ns wall = world->now + region->wall_skew + 10 * HR_NS_PER_S;
        hr_escrow_enter(&region->escrow, wall / (hr_ns)s->period_ns);
    }
    if (needs_touch(region, s->is_cover)) {
        touch(world, k);
    }
    uint64_t admitted = s->is_cover ? spend_escrow(world, k, offered) : spend_share(world, k, offered);
    if (needs_touch(region, s->is_cover)) {
        touch(world, k);
    }
    account(world, k, offered - region->waiting, admitted);
}

void cap_load_step(struct cap_world *world)
{
    set_rates(world);
    count_time(world);
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        uint64_t micro = world->regions[k].lambda / MICRO * (uint64_t)(world->scenario->step / 1000) +
                         world->regions[k].lambda % MICRO * (uint64_t)(world->scenario->step / 1000) / MICRO;
        uint64_t offered = cap_load_draw(&world->load_rng, micro) + world->regions[k].waiting;
        world->regions[k].waiting = 0;
        if (offered > 0) {
            serve(world, k, offered);
        }
    }
}

static hr_ns settle_after(const struct cap_world *world, hr_ns from, hr_ns until)
{
    uint64_t first = (uint64_t)(from / BIN_NS), end = (uint64_t)(until / BIN_NS), span = 10;
    for (uint64_t bin = first; bin + span <= end; bin++) {
        uint64_t admitted = 0, ideal = 0;
        for (uint64_t i = bin; i < bin + span; i++) {
            admitted += world->bin_admitted[i];
            ideal += world->bin_ideal[i];
        }
        if (admitted * 10 >= ideal * 9) {
            return (hr_ns)(bin - first) * BIN_NS;
        }
    }
    return -1;
}

struct cap_result cap_world_result(const struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    struct cap_result result = {.worst_region_permyriad = UINT64_MAX};
    uint64_t admitted = 0, ideal = 0, records = 0, record_bytes = 0, bytes = 0;
    uint64_t seconds = (uint64_t)(s->duration / HR_NS_PER_S);
    for (uint32_t k = 0; k < s->regions; k++) {
        const struct cap_region *region = &world->regions[k];
        struct hr_caps_counts counts = hr_caps_counts(region->caps);
        admitted += region->admitted;
        ideal += region->ideal;
        records += counts.records_out;
        record_bytes += counts.record_bytes_out;
        bytes += counts.bytes_out;
        result.denied_in_reserve += region->denied_in_reserve;
        if (region->ideal > 0 && region->admitted * 10000 / region->ideal < result.worst_region_permyriad) {
            result.worst_region_permyriad = region->admitted * 10000 / region->ideal;
        }
    }
    result.utilisation_permyriad = ideal == 0 ? 0 : admitted * 10000 / ideal;
    result.over_units = s->is_cover ? 0 : world->backlog_peak - world->limits[0].lend.depth;
    result.records_per_s_x10 = records * 10 / seconds;
    result.record_bytes_per_s = record_bytes / seconds;
    result.bytes_per_s = bytes / seconds;
    for (uint32_t i = 0; i < s->move_count && result.settle >= 0; i++) {
        hr_ns until = i + 1 < s->move_count ? s->moves[i + 1] : s->duration;
        hr_ns settle = settle_after(world, s->moves[i], until);
        result.settle = settle < 0 ? -1 : hr_max(result.settle, settle);
    }
    return result;
}
