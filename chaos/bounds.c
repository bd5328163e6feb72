#include "chaos/bounds.h"

#include <inttypes.h>
#include <stdlib.h>

#include "chaos/model.h"
#include "limiter/calendar.h"

/* How long after the last fault a region is taken as not well yet: members are found again, voted in, and get theirs.
 */
#define SETTLES_NS (12 * HR_NS_PER_S)

/* How far apart the clocks of two nodes are, by which they tell windows. */
#define SKEW_NS (10 * HR_NS_PER_S)

/* A hold of a request that was denied is given back by then, where nothing strikes. */
#define GIVEN_BACK_NS (200 * HR_NS_PER_MS)

/* So long after the last fault every letter that it held back has come. */
#define LATE_NS (5 * HR_NS_PER_S)

/* An answer takes less than this, where nothing strikes. */
#define LEASE_SPARE_NS (2 * HR_NS_PER_S)

#define NO_LEASE ((struct hr_id128){0, 0})

struct bound {
    struct hr_model low, high;
    struct hr_model kept; /* of a global cap: the region's reserve, charged with all that may have been spent */
    hr_ns span;           /* the longest from sending to answer, since the low model was untouched */
    uint64_t pending;     /* cost that is on its way, or held */
    hr_ns charged_at;     /* when last an answer told of a charge, */
    hr_ns freed_at;       /* ... and of a lease that was given back: what was asked before may not know of it */
};

/* A charge that may be forgotten. */
struct charge {
    hr_ns at;
    uint32_t counter;
    uint64_t cost;
    struct hr_id128 lease;
};

/* The cost of a request that was denied: its counters may hold it a little longer. */
struct held {
    hr_ns until;
    const struct hr_shape *shape;
};

struct ring {
    void *all;
    uint32_t first, count, room; /* a power of two */
};

/* The cost of a client's request that nobody waits for any more. A delayed or clogged link may bring it to its node
 * much later, and it is decided then. */
struct late {
    const struct hr_shape *shape;
};

struct region {
    struct bound *bounds; /* of each counter */
    struct ring charges, held, late;
    bool is_shaky, is_wide;
    uint32_t faults;
    hr_ns safe_until;
    hr_ns struck_at;        /* when last anything struck or moved */
    hr_ns shifted_at;       /* when last a right moved */
    uint64_t moves, shifts; /* as they were when last looked at */
    uint64_t forgot;        /* the moves that were forgiven last */
    struct hr_wall wall_min, wall_max;
};

/* What a node has decided alone of a counter. */
struct alone {
    struct hr_model model;
    hr_ns span; /* as in struct bound */
};

struct hr_bounds {
    struct hr_bounds_config config;
    struct region *regions;
    struct region world;        /* all regions as one, for global caps: its low bounds alone */
    struct hr_rule *low, *high; /* of each limit */
    struct hr_rule *reserve;    /* of a global cap: what each region keeps for itself; capacity 0: nothing */
    struct alone *alone;        /* of each node and counter: what was decided degraded */
};

/* --- rules --- */

static struct hr_rule low_rule(const struct hr_rule *rule)
{
    struct hr_rule low = *rule;
    switch (rule->algorithm) {
    case HR_FIXED_WINDOW:
    case HR_SLIDING_WINDOW:
        low.algorithm = HR_TOKEN_BUCKET;
        low.rate = rule->capacity;
        low.capacity = 2 * rule->capacity + rule->capacity * (uint64_t)SKEW_NS / rule->period_ns + 1;
        break;
    case HR_QUOTA: /* its periods are counted when it is asked */
        low.algorithm = HR_TOKEN_BUCKET;
        low.rate = 0;
        low.period_ns = 1;
        break;
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
    case HR_SLIDING_LOG:
    case HR_CONCURRENCY:
        break;
    }
    return low;
}

/* Entries of a log that is handed over are joined, at the time of the younger. */
static struct hr_rule high_rule(const struct hr_rule *rule)
{
    struct hr_rule high = low_rule(rule);
    switch (rule->algorithm) {
    case HR_FIXED_WINDOW:
    case HR_SLIDING_WINDOW:
    case HR_SLIDING_LOG:
        high.algorithm = HR_SLIDING_LOG;
        high.capacity = rule->capacity;
        high.period_ns = 2 * rule->period_ns + (uint64_t)SKEW_NS;
        break;
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
    case HR_QUOTA:
    case HR_CONCURRENCY:
        break;
    }
    return high;
}

static hr_ns fast(hr_ns at)
{
    return at + at / 1000;
}

static hr_ns slow(hr_ns at)
{
    return at - at / 1000;
}

static struct hr_now steady(hr_ns at)
{
    return (struct hr_now){at, {at}};
}

static bool is_bucket(const struct hr_rule *rule)
{
    return rule->algorithm < HR_FIXED_WINDOW;
}

/* Regions weigh the same here. A token less, for what is rounded down; and a cap of few tokens keeps nothing. */
static struct hr_rule reserve_rule(const struct hr_limit *limit, uint32_t regions)
{
    struct hr_rule reserve = limit->rule;
    bool is_shared = limit->scope == HR_SCOPE_GLOBAL && regions > 1 && is_bucket(&limit->rule);
    uint64_t home = limit->rule.capacity / regions, kept = home * limit->reserve_ppm / HR_PPM;
    if (!is_shared || limit->rule.rate > UINT32_MAX || home < 2 || kept < 2) {
        return (struct hr_rule){.algorithm = HR_TOKEN_BUCKET};
    }
    reserve.rate = limit->rule.rate * limit->reserve_ppm / HR_PPM;
    reserve.period_ns = limit->rule.period_ns * regions;
    reserve.capacity = reserve.rate == 0 ? 0 : kept - 1;
    return reserve;
}

static uint64_t drained(const struct hr_rule *rule, hr_ns span)
{
    if (!is_bucket(rule) || rule->rate == 0) {
        return 0;
    }
    struct hr_u128 units = hr_u128_mul((uint64_t)fast(span), rule->rate);
    return hr_u128_saturate(hr_u128_div_ceil(units, rule->period_ns), rule->capacity) + 1;
}

static const struct hr_limit *limit_of(const struct hr_bounds *bounds, uint32_t counter)
{
    return &bounds->config.universe->limits->limits[bounds->config.universe->counter_limits[counter]];
}

static bool is_capped(const struct hr_bounds *bounds, const struct hr_limit *limit)
{
    return limit->scope == HR_SCOPE_GLOBAL && bounds->config.regions > 1;
}

/* --- memory --- */

static bool make_room(struct hr_bounds *bounds)
{
    const struct hr_universe *universe = bounds->config.universe;
    uint32_t limits = universe->limits->limit_count, counters = universe->counter_count + 1;
    uint32_t nodes = bounds->config.regions * bounds->config.nodes;
    bounds->low = calloc(limits + 1, sizeof(*bounds->low));
    bounds->high = calloc(limits + 1, sizeof(*bounds->high));
    bounds->reserve = calloc(limits + 1, sizeof(*bounds->reserve));
    bounds->world.bounds = calloc(counters, sizeof(struct bound));
    bounds->regions = calloc(bounds->config.regions, sizeof(*bounds->regions));
    bounds->alone = calloc((size_t)nodes * counters, sizeof(*bounds->alone));
    if (bounds->low == NULL || bounds->high == NULL || bounds->reserve == NULL || bounds->world.bounds == NULL ||
        bounds->regions == NULL || bounds->alone == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < limits; i++) {
        bounds->low[i] = low_rule(&universe->limits->limits[i].rule);
        bounds->high[i] = high_rule(&universe->limits->limits[i].rule);
        bounds->reserve[i] = reserve_rule(&universe->limits->limits[i], bounds->config.regions);
    }
    bool is_made = true;
    for (uint32_t i = 0; i < bounds->config.regions; i++) {
        bounds->regions[i] = (struct region){.is_shaky = true, .is_wide = true, .wall_min = {INT64_MAX}};
        bounds->regions[i].bounds = calloc(counters, sizeof(struct bound));
        is_made = is_made && bounds->regions[i].bounds != NULL;
    }
    return is_made;
}

struct hr_bounds *hr_bounds_new(const struct hr_bounds_config *config)
{
    struct hr_bounds *bounds = calloc(1, sizeof(*bounds));
    if (bounds == NULL) {
        return NULL;
    }
    bounds->config = *config;
    if (!make_room(bounds)) {
        hr_bounds_free(bounds);
        return NULL;
    }
    return bounds;
}

static struct alone *alone_of(const struct hr_bounds *bounds, uint32_t node, uint32_t counter)
{
    return &bounds->alone[(size_t)node * (bounds->config.universe->counter_count + 1) + counter];
}

static void free_counter(struct hr_bounds *bounds, uint32_t counter)
{
    uint32_t limit = bounds->config.universe->counter_limits[counter];
    if (bounds->world.bounds != NULL) {
        hr_model_deinit(&bounds->world.bounds[counter].low, &bounds->low[limit]);
    }
    for (uint32_t i = 0; i < bounds->config.regions; i++) {
        if (bounds->regions[i].bounds != NULL) {
            hr_model_deinit(&bounds->regions[i].bounds[counter].low, &bounds->low[limit]);
            hr_model_deinit(&bounds->regions[i].bounds[counter].high, &bounds->high[limit]);
        }
    }
    for (uint32_t i = 0; bounds->alone != NULL && i < bounds->config.regions * bounds->config.nodes; i++) {
        hr_model_deinit(&alone_of(bounds, i, counter)->model, &bounds->low[limit]);
    }
}

void hr_bounds_free(struct hr_bounds *bounds)
{
    if (bounds == NULL) {
        return;
    }
    bool has_rules = bounds->low != NULL && bounds->high != NULL && bounds->regions != NULL;
    for (uint32_t i = 0; has_rules && i < bounds->config.universe->counter_count; i++) {
        free_counter(bounds, i);
    }
    for (uint32_t i = 0; bounds->regions != NULL && i < bounds->config.regions; i++) {
        free(bounds->regions[i].bounds);
        free(bounds->regions[i].charges.all);
        free(bounds->regions[i].held.all);
        free(bounds->regions[i].late.all);
    }
    free(bounds->world.bounds);
    free(bounds->low);
    free(bounds->high);
    free(bounds->reserve);
    free(bounds->regions);
    free(bounds->alone);
    free(bounds);
}

/* Makes room for one more entry behind all others; NULL: no memory. */
static void *push(struct ring *ring, size_t bytes)
{
    if (ring->count == ring->room) {
        uint32_t room = ring->room == 0 ? 1024 : ring->room * 2;
        uint8_t *all = calloc(room, bytes);
        if (all == NULL) {
            return NULL;
        }
        for (uint32_t i = 0; i < ring->count; i++) {
            memcpy(all + i * bytes, (uint8_t *)ring->all + ((ring->first + i) & (ring->room - 1)) * bytes, bytes);
        }
        free(ring->all);
        *ring = (struct ring){all, 0, ring->count, room};
    }
    return (uint8_t *)ring->all + ((ring->first + ring->count++) & (ring->room - 1)) * bytes;
}

static void pop(struct ring *ring)
{
    ring->first = (ring->first + 1) & (ring->room - 1);
    ring->count--;
}

/* --- what is on its way --- */

static void add_pending(struct region *region, const struct hr_shape *shape, bool adds)
{
    for (uint32_t i = 0; i < shape->touch_count; i++) {
        uint64_t *pending = &region->bounds[shape->touches[i].counter].pending;
        *pending = adds ? *pending + shape->cost : *pending - shape->cost;
    }
}

static void let_go(struct region *region, hr_ns at)
{
    while (region->held.count > 0) {
        const struct held *held = (const struct held *)region->held.all + region->held.first;
        if (held->until > at) {
            return;
        }
        add_pending(region, held->shape, false);
        pop(&region->held);
    }
}

void hr_bounds_ask(struct hr_bounds *bounds, const struct hr_bounds_query *query)
{
    add_pending(&bounds->regions[query->region], query->shape, true);
}

static enum hr_err hold_on(struct region *region, const struct hr_bounds_query *query)
{
    struct held *held = push(&region->held, sizeof(*held));
    if (held == NULL) {
        return HR_E_MEMORY;
    }
    *held = (struct held){query->at + GIVEN_BACK_NS, query->shape};
    return HR_OK;
}

static enum hr_err charge_high(struct hr_bounds *bounds, struct region *region, const struct hr_sim_touch *touch,
                               uint64_t cost, hr_ns at, struct hr_id128 lease)
{
    struct bound *bound = &region->bounds[touch->counter];
    const struct hr_rule *high = &bounds->high[touch->limit], *reserve = &bounds->reserve[touch->limit];
    enum hr_err err = HR_OK;
    if (reserve->capacity > 0) {
        hr_model_advance(&bound->kept, reserve, steady(slow(at)));
        err = hr_model_charge(&bound->kept, reserve, cost, steady(slow(at)), lease);
    }
    hr_model_advance(&bound->high, high, steady(slow(at)));
    return err != HR_OK ? err : hr_model_charge(&bound->high, high, cost, steady(slow(at)), lease);
}

static enum hr_err charge_all_high(struct hr_bounds *bounds, struct region *region, const struct hr_shape *shape,
                                   hr_ns at)
{
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < shape->touch_count && err == HR_OK; i++) {
        err = charge_high(bounds, region, &shape->touches[i], shape->cost, at, NO_LEASE);
    }
    return err;
}

static bool may_come_late(const struct region *region, hr_ns at)
{
    return region->faults > 0 || at - region->struck_at < LATE_NS;
}

/* Whatever was on its way to an owner has come to it by now. HR_E_MEMORY. */
static enum hr_err settle_late(struct hr_bounds *bounds, struct region *region, hr_ns at)
{
    enum hr_err err = HR_OK;
    while (region->late.count > 0 && !may_come_late(region, at) && err == HR_OK) {
        const struct late *late = (const struct late *)region->late.all + region->late.first;
        const struct hr_shape *shape = late->shape;
        pop(&region->late);
        add_pending(region, shape, false);
        err = charge_all_high(bounds, region, shape, at);
    }
    return err;
}

/* A node may hear of it yet. HR_E_MEMORY. */
static enum hr_err expect_late(struct hr_bounds *bounds, const struct hr_bounds_query *query)
{
    struct region *region = &bounds->regions[query->region];
    if (!may_come_late(region, query->at)) {
        return HR_OK;
    }
    struct late *late = push(&region->late, sizeof(*late));
    if (late == NULL) {
        return HR_E_MEMORY;
    }
    *late = (struct late){query->shape};
    add_pending(region, query->shape, true);
    return HR_OK;
}

/* Nobody knows whether it was charged, nor when. HR_E_MEMORY. */
static enum hr_err charge_unheard(struct hr_bounds *bounds, const struct hr_bounds_query *query)
{
    enum hr_err err = charge_all_high(bounds, &bounds->regions[query->region], query->shape, query->at);
    return err != HR_OK ? err : expect_late(bounds, query);
}

/* --- what is forgotten --- */

/* What all regions have spent of it is less then by what only this one knows. */
static void forget_all(struct hr_bounds *bounds, struct region *region, uint32_t counter)
{
    hr_model_deinit(&bounds->world.bounds[counter].low, &bounds->low[bounds->config.universe->counter_limits[counter]]);
    hr_model_deinit(&region->bounds[counter].low, &bounds->low[bounds->config.universe->counter_limits[counter]]);
}

/* Rights have moved unasked, or a process died: what was not safe may be gone. */
static void forgive(struct hr_bounds *bounds, struct region *region)
{
    const struct hr_universe *universe = bounds->config.universe;
    for (uint32_t i = 0; i < universe->counter_count; i++) {
        enum hr_durability durability = limit_of(bounds, i)->durability;
        if (durability == HR_MEMORY || region->is_wide) {
            forget_all(bounds, region, i);
        }
    }
    for (uint32_t i = 0; i < region->charges.count; i++) {
        const struct charge *charge =
            (const struct charge *)region->charges.all + ((region->charges.first + i) & (region->charges.room - 1));
        const struct hr_rule *rule = &bounds->low[universe->counter_limits[charge->counter]];
        if (charge->at >= region->safe_until) {
            hr_model_forgive(&region->bounds[charge->counter].low, rule, charge->cost, charge->lease);
            hr_model_forgive(&bounds->world.bounds[charge->counter].low, rule, charge->cost, charge->lease);
        }
    }
    region->charges.first = region->charges.count = 0;
}

/* Looks whether anything has moved since it was last forgiven, and forgives it. */
static bool forgive_moved(struct hr_bounds *bounds, uint32_t index)
{
    struct region *region = &bounds->regions[index];
    uint64_t moves = bounds->config.marks(bounds->config.user, index).moves;
    if (moves == region->forgot) {
        return false;
    }
    region->forgot = moves;
    forgive(bounds, region);
    return true;
}

static void trim(struct region *region)
{
    while (region->charges.count > 0 &&
           ((const struct charge *)region->charges.all + region->charges.first)->at < region->safe_until) {
        pop(&region->charges);
    }
}

static void note_walls(struct region *region, const struct hr_bounds_condition *condition)
{
    region->wall_min.ns = condition->wall_min.ns < region->wall_min.ns ? condition->wall_min.ns : region->wall_min.ns;
    region->wall_max.ns = condition->wall_max.ns > region->wall_max.ns ? condition->wall_max.ns : region->wall_max.ns;
}

/* After a right has moved a bucket may owe anything up to a full one, and owes it as long as it is never untouched. */
static void doubt_all(struct hr_bounds *bounds, struct region *region)
{
    for (uint32_t i = 0; i < bounds->config.universe->counter_count; i++) {
        hr_model_doubt(&region->bounds[i].high, &bounds->high[bounds->config.universe->counter_limits[i]]);
    }
}

/* Has any right moved since this was asked last? */
static bool has_shifted(struct hr_bounds *bounds, uint32_t index, hr_ns at)
{
    struct region *region = &bounds->regions[index];
    const struct hr_bounds_marks marks = bounds->config.marks(bounds->config.user, index);
    bool has_shifted = marks.moves != region->moves || marks.shifts != region->shifts;
    region->moves = marks.moves;
    region->shifts = marks.shifts;
    region->shifted_at = has_shifted ? at : region->shifted_at;
    return has_shifted;
}

void hr_bounds_condition(struct hr_bounds *bounds, uint32_t index, const struct hr_bounds_condition *condition,
                         hr_ns at)
{
    struct region *region = &bounds->regions[index];
    note_walls(region, condition);
    bool is_struck = has_shifted(bounds, index, at) || condition->faults > 0 || region->faults > 0;
    region->is_wide |= condition->is_wide || (region->is_shaky && condition->faults > region->faults);
    region->struck_at = is_struck ? at : region->struck_at;
    region->faults = condition->faults;
    if (at - region->shifted_at < SETTLES_NS) {
        doubt_all(bounds, region);
    }
    bool is_shaky = is_struck || at - region->struck_at < SETTLES_NS;
    if (region->is_shaky && !is_shaky) {
        (void)forgive_moved(bounds, index);
        region->is_wide = false;
    }
    region->is_shaky = is_shaky;
    if (!is_shaky) {
        region->safe_until = condition->safe_until;
        trim(region);
    }
}

void hr_bounds_end_life(struct hr_bounds *bounds, uint32_t node)
{
    const struct hr_universe *universe = bounds->config.universe;
    for (uint32_t i = 0; i < universe->counter_count; i++) {
        hr_model_deinit(&alone_of(bounds, node, i)->model, &bounds->low[universe->counter_limits[i]]);
    }
}

bool hr_bounds_was_calm(const struct hr_bounds *bounds, uint32_t region, hr_ns since)
{
    return !bounds->regions[region].is_shaky && bounds->regions[region].struck_at + SETTLES_NS <= since;
}

/* Is the high bound one, at this time? */
static bool is_known(const struct region *region, const struct hr_rule *high, hr_ns at)
{
    hr_ns drain_ns = is_bucket(high) && high->rate == 0 ? INT64_MAX : hr_model_drain_ns(high);
    hr_ns still_ns = at - region->shifted_at - SETTLES_NS;
    return drain_ns < HR_TIME_NS_MAX && slow(still_ns) > drain_ns;
}

/* --- decisions --- */

/* How often a quota may have been spent: once in each period that a clock of the region has been in. */
static uint64_t count_periods(const struct region *region, const struct hr_rule *rule)
{
    int64_t first = hr_period_at(rule->zone, rule->unit, region->wall_min.ns / HR_NS_PER_S - 1).number;
    int64_t last = hr_period_at(rule->zone, rule->unit, region->wall_max.ns / HR_NS_PER_S + 1).number;
    uint64_t count = 1;
    while (first < last && count < 1000) {
        first = hr_period_at(rule->zone, rule->unit, hr_period_numbered(rule->zone, rule->unit, first).end_s).number;
        count++;
    }
    return count;
}

/* The low rule with its slack. */
static struct hr_rule slackened(const struct hr_bounds *bounds, const struct region *region, uint32_t limit, hr_ns span)
{
    const struct hr_rule *rule = &bounds->config.universe->limits->limits[limit].rule;
    struct hr_rule low = bounds->low[limit];
    if (rule->algorithm == HR_QUOTA) {
        low.capacity *= count_periods(region, rule);
    }
    low.capacity += drained(&low, span);
    return low;
}

static bool is_untouched(const struct hr_model *model, const struct hr_rule *low)
{
    return is_bucket(low) && model->bucket.debt.hi == 0 && model->bucket.debt.lo == 0;
}

static bool fits_low(struct hr_bounds *bounds, const struct hr_bounds_query *query, const struct hr_sim_touch *touch,
                     uint64_t cost)
{
    const struct region *region = &bounds->regions[query->region];
    const struct bound *bound = &region->bounds[touch->counter];
    const struct hr_rule low = slackened(bounds, region, touch->limit, bound->span);
    return hr_model_fits(&bound->low, &low, cost, steady(fast(query->at)));
}

static const char *short_name(const struct hr_limit *limit, int *ret_bytes)
{
    *ret_bytes = (int)limit->name.bytes;
    return limit->name.at;
}

static enum hr_check check_of(const struct region *region, const struct hr_limit *limit)
{
    if (limit->rule.algorithm == HR_CONCURRENCY) {
        return HR_CHECK_LEASES;
    }
    return region->is_shaky ? HR_CHECK_DURABLE : HR_CHECK_ADMITS;
}

static void judge_admitted(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                           const struct hr_sim_touch *touch)
{
    struct region *region = &bounds->regions[query->region];
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    uint64_t cost = query->shape->cost;
    bool fits = fits_low(bounds, query, touch, cost);
    fits = fits || (forgive_moved(bounds, query->region) && fits_low(bounds, query, touch, cost));
    int bytes;
    const char *name = short_name(limit, &bytes);
    const struct hr_rule low = slackened(bounds, region, touch->limit, region->bounds[touch->counter].span);
    hr_checker_note(bounds->config.checker, check_of(region, limit), fits, query->at,
                    "%.*s, counter %u of region %u: a request of cost %" PRIu64 " was admitted with %" PRIu64
                    " of %" PRIu64 " left (and %" PRIu64 " more for what is late)",
                    bytes, name, touch->counter, query->region, cost,
                    hr_model_remaining(&region->bounds[touch->counter].low, &low, steady(fast(query->at))),
                    limit->rule.capacity, low.capacity - limit->rule.capacity);
}

static struct hr_id128 lease_of(const struct hr_told_decision *told, const struct hr_limit *limit)
{
    for (uint32_t i = 0; limit->rule.algorithm == HR_CONCURRENCY && i < told->row_count; i++) {
        if (told->rows[i].has_lease && hr_span_equal(told->rows[i].name, limit->name)) {
            return told->rows[i].lease;
        }
    }
    return NO_LEASE;
}

static enum hr_err charge_low(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                              const struct hr_sim_touch *touch, struct hr_id128 lease)
{
    struct region *region = &bounds->regions[query->region];
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    const struct hr_rule *low = &bounds->low[touch->limit];
    hr_ns at = is_bucket(low) ? query->at : query->sent;
    region->bounds[touch->counter].charged_at = query->at;
    enum hr_err err =
        hr_model_charge(&region->bounds[touch->counter].low, low, query->shape->cost, steady(fast(at)), lease);
    bool may_be_forgotten = limit->durability == HR_PERIODIC && query->shape->cost > 0;
    if (err != HR_OK || !may_be_forgotten) {
        return err;
    }
    struct charge *charge = push(&region->charges, sizeof(*charge));
    if (charge == NULL) {
        return HR_E_MEMORY;
    }
    *charge = (struct charge){query->at, touch->counter, query->shape->cost, lease};
    return HR_OK;
}

static bool forgive_moved_anywhere(struct hr_bounds *bounds)
{
    bool has_moved = false;
    for (uint32_t i = 0; i < bounds->config.regions; i++) {
        has_moved |= forgive_moved(bounds, i);
        bounds->world.wall_min.ns = bounds->regions[i].wall_min.ns < bounds->world.wall_min.ns || i == 0
                                        ? bounds->regions[i].wall_min.ns
                                        : bounds->world.wall_min.ns;
        bounds->world.wall_max.ns = bounds->regions[i].wall_max.ns > bounds->world.wall_max.ns
                                        ? bounds->regions[i].wall_max.ns
                                        : bounds->world.wall_max.ns;
    }
    return has_moved;
}

/* All regions together are held to a global cap as one region is to its limit: whatever a region's owner admits, it has
 * a share for. */
static enum hr_err admitted_of_cap(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                                   const struct hr_sim_touch *touch)
{
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    const struct hr_rule *rule = &bounds->low[touch->limit];
    struct bound *bound = &bounds->world.bounds[touch->counter];
    const struct hr_now now = steady(fast(query->at));
    hr_ns span = query->at - query->sent;
    hr_model_advance(&bound->low, rule, now);
    bound->span = is_untouched(&bound->low, rule) || span > bound->span ? span : bound->span;
    struct hr_rule low = slackened(bounds, &bounds->world, touch->limit, bound->span);
    low.capacity += limit->rule.capacity * limit->slack_ppm / HR_PPM;
    bool fits = hr_model_fits(&bound->low, &low, query->shape->cost, now);
    if (!fits && (forgive_moved_anywhere(bounds) || rule->algorithm == HR_QUOTA)) {
        low.capacity = slackened(bounds, &bounds->world, touch->limit, bound->span).capacity +
                       limit->rule.capacity * limit->slack_ppm / HR_PPM;
        fits = hr_model_fits(&bound->low, &low, query->shape->cost, now);
    }
    int bytes;
    const char *name = short_name(limit, &bytes);
    hr_checker_note(bounds->config.checker, HR_CHECK_CAP, fits, query->at,
                    "%.*s, counter %u: region %u admitted a request of cost %" PRIu64 " with %" PRIu64 " of %" PRIu64
                    " left for all regions together",
                    bytes, name, touch->counter, query->region, query->shape->cost,
                    hr_model_remaining(&bound->low, &low, now), limit->rule.capacity);
    return hr_model_charge(&bound->low, rule, query->shape->cost, now, NO_LEASE);
}

static enum hr_err admitted(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                            const struct hr_sim_touch *touch, struct hr_id128 lease)
{
    struct bound *bound = &bounds->regions[query->region].bounds[touch->counter];
    const struct hr_rule *low = &bounds->low[touch->limit];
    hr_model_advance(&bound->low, low, steady(fast(query->at)));
    hr_ns span = query->at - query->sent;
    bound->span = is_untouched(&bound->low, low) || span > bound->span ? span : bound->span;
    judge_admitted(bounds, query, touch);
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    bool has_world = is_capped(bounds, limit) && limit->rule.algorithm != HR_CONCURRENCY;
    enum hr_err err = has_world ? admitted_of_cap(bounds, query, touch) : HR_OK;
    return err != HR_OK ? err : charge_low(bounds, query, touch, lease);
}

/* By a node alone, in part at least. */
static enum hr_err admitted_alone(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                                  const struct hr_sim_touch *touch)
{
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    struct alone *alone = alone_of(bounds, query->node, touch->counter);
    struct hr_model *model = &alone->model;
    const struct hr_now now = steady(fast(query->at));
    hr_ns span = query->at - query->sent;
    if (limit->on_unavailable != HR_UNAVAILABLE_LOCAL || limit->rule.algorithm == HR_CONCURRENCY) {
        return HR_OK;
    }
    struct hr_rule low = bounds->low[touch->limit];
    low.rate *= 2;
    hr_model_advance(model, &low, now);
    alone->span = is_untouched(model, &low) || span > alone->span ? span : alone->span;
    low.capacity = 2 * slackened(bounds, &bounds->regions[query->region], touch->limit, alone->span).capacity;
    int bytes;
    const char *name = short_name(limit, &bytes);
    hr_checker_note(bounds->config.checker, HR_CHECK_DEGRADED, hr_model_fits(model, &low, query->shape->cost, now),
                    query->at,
                    "%.*s, counter %u: node %u, alone, admitted a request of cost %" PRIu64 " with %" PRIu64
                    " of twice %" PRIu64 " left",
                    bytes, name, touch->counter, query->node, query->shape->cost, hr_model_remaining(model, &low, now),
                    limit->rule.capacity);
    hr_ns at = is_bucket(&low) ? query->at : query->sent; /* as early as can be, where that says when it is over */
    return hr_model_charge(model, &low, query->shape->cost, steady(fast(at)), NO_LEASE);
}

static enum hr_err allowed(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                           const struct hr_told_decision *told)
{
    struct region *region = &bounds->regions[query->region];
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < query->shape->touch_count && err == HR_OK; i++) {
        const struct hr_sim_touch *touch = &query->shape->touches[i];
        struct hr_id128 lease = lease_of(told, &bounds->config.universe->limits->limits[touch->limit]);
        err = told->degraded ? admitted_alone(bounds, query, touch) : admitted(bounds, query, touch, lease);
        err = err != HR_OK ? err : charge_high(bounds, region, touch, query->shape->cost, query->at, lease);
    }
    /* A node that went on without the owner's answer may have had the request decided again, by another owner; but it
     * has told of that now, and nobody decides it any more. */
    bool may_be_twice = told->degraded && query->shape->touch_count > 1;
    return err == HR_OK && may_be_twice ? charge_all_high(bounds, region, query->shape, query->at) : err;
}

/* Had this counter room for so much, at any time since the request was sent? */
static bool had_room(struct hr_bounds *bounds, const struct hr_bounds_query *query, const struct hr_sim_touch *touch,
                     uint64_t cost)
{
    const struct region *region = &bounds->regions[query->region];
    struct bound *bound = &region->bounds[touch->counter];
    bool has_share = is_capped(bounds, &bounds->config.universe->limits->limits[touch->limit]);
    const struct hr_rule *rule = has_share ? &bounds->reserve[touch->limit] : &bounds->high[touch->limit];
    struct hr_model *model = has_share ? &bound->kept : &bound->high;
    if (rule->capacity == 0 || !is_known(region, rule, query->sent) || bound->freed_at >= query->sent) {
        return false;
    }
    hr_model_advance(model, rule, steady(slow(query->at)));
    if (!hr_model_is_settled(model, rule)) {
        return false;
    }
    uint64_t more = bound->pending + drained(rule, query->at - query->sent);
    return hr_model_fits(model, rule, cost + more, steady(slow(query->at)));
}

/* The limit that the answer names has no room, by the definition of decided_by. */
static void judge_denied(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                         const struct hr_told_decision *told)
{
    bool is_right = told->degraded, is_of_cap = false;
    for (uint32_t i = 0; i < query->shape->touch_count && !is_right; i++) {
        const struct hr_sim_touch *touch = &query->shape->touches[i];
        const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
        is_right = hr_span_equal(limit->name, told->decided_by) && !had_room(bounds, query, touch, query->shape->cost);
        is_of_cap |= hr_span_equal(limit->name, told->decided_by) && is_capped(bounds, limit);
    }
    is_right = is_right || has_shifted(bounds, query->region, query->at);
    hr_checker_note(bounds->config.checker, is_of_cap ? HR_CHECK_RESERVE : HR_CHECK_DENIES, is_right, query->at,
                    "region %u: %.*s denied a request of cost %" PRIu64 ", and its counter had room", query->region,
                    (int)told->decided_by.bytes, told->decided_by.at, query->shape->cost);
}

enum hr_err hr_bounds_answer(struct hr_bounds *bounds, const struct hr_bounds_query *query,
                             const struct hr_told_decision *told)
{
    struct region *region = &bounds->regions[query->region];
    enum hr_err err = settle_late(bounds, region, query->at);
    let_go(region, query->at);
    if (err != HR_OK) {
        return err;
    }
    if (told->allowed) {
        add_pending(region, query->shape, false);
        return allowed(bounds, query, told);
    }
    add_pending(region, query->shape, false); /* it asks for no more than it did */
    judge_denied(bounds, query, told);
    if (region->is_shaky) { /* an owner whose lead is not heard of keeps the charge */
        return charge_unheard(bounds, query);
    }
    add_pending(region, query->shape, true);
    return hold_on(region, query);
}

void hr_bounds_repeat(struct hr_bounds *bounds, const struct hr_bounds_query *query)
{
    add_pending(&bounds->regions[query->region], query->shape, false);
}

enum hr_err hr_bounds_lose(struct hr_bounds *bounds, const struct hr_bounds_query *query)
{
    add_pending(&bounds->regions[query->region], query->shape, false);
    return charge_unheard(bounds, query);
}

/* --- looks --- */

static void look_at(struct hr_bounds *bounds, const struct hr_bounds_query *query, const struct hr_sim_touch *touch,
                    const struct hr_told_row *row, enum hr_check check)
{
    struct region *region = &bounds->regions[query->region];
    struct bound *bound = &region->bounds[touch->counter];
    const struct hr_limit *limit = &bounds->config.universe->limits->limits[touch->limit];
    hr_model_advance(&bound->low, &bounds->low[touch->limit], steady(fast(query->at)));
    bool is_few = bound->charged_at >= query->sent || fits_low(bounds, query, touch, row->remaining);
    is_few = is_few || (forgive_moved(bounds, query->region) && fits_low(bounds, query, touch, row->remaining));
    bool is_enough = row->remaining >= limit->rule.capacity || !had_room(bounds, query, touch, row->remaining + 1) ||
                     has_shifted(bounds, query->region, query->at);
    int bytes;
    const char *name = short_name(limit, &bytes);
    hr_checker_note(bounds->config.checker, check, is_few && is_enough, query->at,
                    "%.*s, counter %u of region %u: %" PRIu64 " of %" PRIu64 " are said to be left, which is too %s",
                    bytes, name, touch->counter, query->region, row->remaining, limit->rule.capacity,
                    is_few ? "few" : "many");
}

void hr_bounds_look(struct hr_bounds *bounds, const struct hr_bounds_query *query, const struct hr_told_decision *told,
                    enum hr_check check)
{
    let_go(&bounds->regions[query->region], query->at);
    for (uint32_t i = 0; i < query->shape->touch_count && !told->degraded; i++) {
        const struct hr_sim_touch *touch = &query->shape->touches[i];
        struct hr_span name = bounds->config.universe->limits->limits[touch->limit].name;
        for (uint32_t k = 0; k < told->row_count; k++) {
            if (hr_span_equal(told->rows[k].name, name)) {
                look_at(bounds, query, touch, &told->rows[k], check);
            }
        }
    }
}

/* --- leases --- */

static const struct hr_sim_touch *lease_touch(const struct hr_bounds *bounds, const struct hr_shape *shape,
                                              uint32_t *at)
{
    for (; *at < shape->touch_count; (*at)++) {
        const struct hr_sim_touch *touch = &shape->touches[*at];
        if (bounds->config.universe->limits->limits[touch->limit].rule.algorithm == HR_CONCURRENCY) {
            (*at)++;
            return touch;
        }
    }
    return NULL;
}

bool hr_bounds_release(struct hr_bounds *bounds, const struct hr_bounds_query *query, struct hr_id128 lease)
{
    struct region *region = &bounds->regions[query->region];
    const struct hr_sim_touch *touch;
    for (uint32_t at = 0; (touch = lease_touch(bounds, query->shape, &at)) != NULL;) {
        struct hr_model *low = &region->bounds[touch->counter].low;
        hr_model_advance(low, &bounds->low[touch->limit], steady(fast(query->at + LEASE_SPARE_NS)));
        if (hr_model_release(low, lease)) {
            return is_known(region, &bounds->high[touch->limit], query->at);
        }
    }
    return false;
}

void hr_bounds_released(struct hr_bounds *bounds, const struct hr_bounds_query *query, struct hr_id128 lease,
                        bool is_surely_there, bool was_there)
{
    struct region *region = &bounds->regions[query->region];
    const struct hr_sim_touch *touch;
    for (uint32_t at = 0; (touch = lease_touch(bounds, query->shape, &at)) != NULL;) {
        struct bound *bound = &region->bounds[touch->counter];
        bool was_high = hr_model_release(&bound->high, lease);
        bound->freed_at = was_high ? query->at : bound->freed_at;
    }
    bool may_be_gone = !is_surely_there || region->is_shaky || query->at - query->sent > LEASE_SPARE_NS / 2;
    hr_checker_note(bounds->config.checker, HR_CHECK_LEASES, was_there || may_be_gone, query->at,
                    "region %u: a lease that was held was gone when it was given back", query->region);
}
