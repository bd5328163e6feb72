#include "chaos/model.h"

#include <stdlib.h>
#include <string.h>

#include "limiter/calendar.h"

enum form { BUCKET, FIXED, SLIDING, LOG, QUOTA, LEASES };

static enum form form_of(const struct hr_rule *rule)
{
    switch (rule->algorithm) {
    case HR_FIXED_WINDOW:
        return FIXED;
    case HR_SLIDING_WINDOW:
        return SLIDING;
    case HR_SLIDING_LOG:
        return LOG;
    case HR_QUOTA:
        return QUOTA;
    case HR_CONCURRENCY:
        return LEASES;
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return BUCKET;
    }
    return BUCKET;
}

void hr_model_deinit(struct hr_model *model, const struct hr_rule *rule)
{
    if (form_of(rule) == LOG || form_of(rule) == LEASES) {
        free(model->list.list);
    }
    *model = (struct hr_model){0};
}

/* --- lists --- */

static void remove_at(struct hr_model *model, uint32_t at)
{
    model->list.held -= model->list.list[at].cost;
    if (at == model->list.first) {
        model->list.first++;
    } else {
        uint32_t behind = model->list.first + model->list.count - at - 1;
        memmove(&model->list.list[at], &model->list.list[at + 1], behind * sizeof(*model->list.list));
    }
    model->list.count--;
}

/* Both are ordered by time. */
static void drop_before(struct hr_model *model, hr_ns instant)
{
    while (model->list.count > 0 && model->list.list[model->list.first].at <= instant) {
        remove_at(model, model->list.first);
    }
}

static enum hr_err append(struct hr_model *model, struct hr_model_entry entry)
{
    if (model->list.first + model->list.count == model->list.room && model->list.first > model->list.room / 2) {
        memmove(model->list.list, &model->list.list[model->list.first], model->list.count * sizeof(*model->list.list));
        model->list.first = 0;
    }
    if (model->list.first + model->list.count == model->list.room) {
        uint32_t room = model->list.room == 0 ? 16 : model->list.room * 2;
        struct hr_model_entry *list = reallocarray(model->list.list, room, sizeof(*list));
        if (list == NULL) {
            return HR_E_MEMORY;
        }
        model->list.list = list;
        model->list.room = room;
    }
    uint32_t at = model->list.first + model->list.count++;
    for (; at > model->list.first && model->list.list[at - 1].at > entry.at; at--) {
        model->list.list[at] = model->list.list[at - 1];
    }
    model->list.list[at] = entry;
    model->list.held += entry.cost;
    return HR_OK;
}

static bool remove_lease(struct hr_model *model, struct hr_id128 lease)
{
    for (uint32_t i = model->list.first; i < model->list.first + model->list.count; i++) {
        if (hr_id128_equal(model->list.list[i].lease, lease)) {
            remove_at(model, i);
            return true;
        }
    }
    return false;
}

/* --- time --- */

static void enter_window(struct hr_model *model, int64_t index)
{
    if (index > model->window.index) {
        model->window.previous = index == model->window.index + 1 ? model->window.current : 0;
        model->window.current = 0;
        model->window.index = index;
    }
}

/* A step back never leaves a period in which something was spent. */
static void enter_period(struct hr_model *model, const struct hr_rule *rule, struct hr_wall wall)
{
    int64_t number = hr_period_at(rule->zone, rule->unit, wall.ns / HR_NS_PER_S).number;
    if (number > model->quota.last || model->quota.used == 0) {
        model->quota.first = model->quota.last = number;
        model->quota.used = 0;
    }
}

void hr_model_loosen(struct hr_model *model, const struct hr_rule *rule, struct hr_wall latest)
{
    if (form_of(rule) != QUOTA) {
        return;
    }
    int64_t number = hr_period_at(rule->zone, rule->unit, latest.ns / HR_NS_PER_S).number;
    model->quota.last = number > model->quota.last ? number : model->quota.last;
}

/* Of all periods that it may stand in. */
static uint64_t capacity_of(const struct hr_model *model, const struct hr_rule *rule)
{
    uint64_t capacity = rule->capacity;
    if (form_of(rule) != QUOTA) {
        return capacity;
    }
    for (int64_t number = model->quota.first; number < model->quota.last;) {
        int64_t end_s = hr_period_numbered(rule->zone, rule->unit, number).end_s;
        number = hr_period_at(rule->zone, rule->unit, end_s).number;
        capacity += rule->capacity;
    }
    return capacity;
}

static void drain(struct hr_model *model, const struct hr_rule *rule, hr_ns now)
{
    uint64_t elapsed = now > model->bucket.at ? (uint64_t)(now - model->bucket.at) : 0;
    struct hr_u128 drained = hr_u128_mul(elapsed, rule->rate);
    model->bucket.debt = hr_u128_sub_floor(model->bucket.debt, drained);
    model->bucket.worst = hr_u128_sub_floor(model->bucket.worst, drained);
    model->bucket.at = now;
}

void hr_model_doubt(struct hr_model *model, const struct hr_rule *rule)
{
    if (form_of(rule) == BUCKET) {
        model->bucket.worst =
            hr_u128_mul(rule->capacity + 1, rule->period_ns); /* what a part of a unit is rounded to */
    }
}

bool hr_model_is_settled(const struct hr_model *model, const struct hr_rule *rule)
{
    return form_of(rule) != BUCKET || hr_u128_le(model->bucket.worst, model->bucket.debt);
}

void hr_model_advance(struct hr_model *model, const struct hr_rule *rule, struct hr_now now)
{
    switch (form_of(rule)) {
    case BUCKET:
        drain(model, rule, now.steady);
        break;
    case FIXED:
    case SLIDING:
        enter_window(model, now.steady / (int64_t)rule->period_ns);
        break;
    case LOG:
        drop_before(model, now.steady - (int64_t)rule->period_ns);
        break;
    case QUOTA:
        enter_period(model, rule, now.wall);
        break;
    case LEASES:
        drop_before(model, now.steady);
        break;
    }
}

/* --- how much is spent, in units of 1/P where it is no whole number --- */

static struct hr_u128 spent(const struct hr_model *model, const struct hr_rule *rule, hr_ns now)
{
    switch (form_of(rule)) {
    case BUCKET:
        return model->bucket.debt;
    case SLIDING: {
        uint64_t left = rule->period_ns - (uint64_t)now % rule->period_ns;
        return hr_u128_add(hr_u128_mul(model->window.previous, left),
                           hr_u128_mul(model->window.current, rule->period_ns));
    }
    case FIXED:
        return (struct hr_u128){0, model->window.current};
    case QUOTA:
        return (struct hr_u128){0, model->quota.used};
    case LOG:
    case LEASES:
        return (struct hr_u128){0, model->list.held};
    }
    return (struct hr_u128){0, 0};
}

static uint64_t unit_of(const struct hr_rule *rule)
{
    enum form form = form_of(rule);
    return form == BUCKET || form == SLIDING ? rule->period_ns : 1;
}

bool hr_model_fits(const struct hr_model *model, const struct hr_rule *rule, uint64_t cost, struct hr_now now)
{
    uint64_t unit = unit_of(rule);
    struct hr_u128 after = hr_u128_add(spent(model, rule, now.steady), hr_u128_mul(cost, unit));
    return cost == 0 || hr_u128_le(after, hr_u128_mul(capacity_of(model, rule), unit));
}

uint64_t hr_model_remaining(const struct hr_model *model, const struct hr_rule *rule, struct hr_now now)
{
    uint64_t unit = unit_of(rule);
    struct hr_u128 room =
        hr_u128_sub_floor(hr_u128_mul(capacity_of(model, rule), unit), spent(model, rule, now.steady));
    return hr_u128_saturate(hr_u128_div(room, unit), rule->capacity);
}

/* --- spending --- */

enum hr_err hr_model_charge(struct hr_model *model, const struct hr_rule *rule, uint64_t cost, struct hr_now now,
                            struct hr_id128 lease)
{
    if (cost == 0) {
        return HR_OK;
    }
    switch (form_of(rule)) {
    case BUCKET:
        model->bucket.debt = hr_u128_add(model->bucket.debt, hr_u128_mul(cost, rule->period_ns));
        model->bucket.worst = hr_u128_add(model->bucket.worst, hr_u128_mul(cost, rule->period_ns));
        if (!hr_u128_le(model->bucket.worst, hr_u128_mul(rule->capacity, rule->period_ns))) {
            model->bucket.worst = hr_u128_mul(rule->capacity, rule->period_ns); /* no bucket owes more */
        }
        return HR_OK;
    case FIXED:
    case SLIDING:
        model->window.current += cost;
        return HR_OK;
    case QUOTA:
        model->quota.used += cost;
        return HR_OK;
    case LOG:
        return append(model, (struct hr_model_entry){now.steady, cost, {0, 0}});
    case LEASES:
        return append(model, (struct hr_model_entry){now.steady + (int64_t)rule->ttl_ns, cost, lease});
    }
    return HR_OK;
}

static uint64_t take_away(uint64_t *amount, uint64_t cost)
{
    uint64_t taken = cost < *amount ? cost : *amount;
    *amount -= taken;
    return cost - taken;
}

void hr_model_forgive(struct hr_model *model, const struct hr_rule *rule, uint64_t cost, struct hr_id128 lease)
{
    switch (form_of(rule)) {
    case BUCKET:
        model->bucket.debt = hr_u128_sub_floor(model->bucket.debt, hr_u128_mul(cost, rule->period_ns));
        break;
    case FIXED:
        (void)take_away(&model->window.current, cost);
        break;
    case QUOTA:
        (void)take_away(&model->quota.used, cost);
        break;
    case SLIDING:
        cost = take_away(&model->window.current, cost);
        (void)take_away(&model->window.previous, cost);
        break;
    case LOG: /* the latest are those that a crash forgets */
        while (cost > 0 && model->list.count > 0) {
            uint64_t before = model->list.held;
            remove_at(model, model->list.first + model->list.count - 1);
            cost -= before - model->list.held < cost ? before - model->list.held : cost;
        }
        break;
    case LEASES:
        (void)remove_lease(model, lease);
        break;
    }
}

bool hr_model_release(struct hr_model *model, struct hr_id128 lease)
{
    return remove_lease(model, lease);
}

/* ceil(a x b / c), or INT64_MAX. */
static hr_ns scale(uint64_t a, uint64_t b, uint64_t c)
{
    return (hr_ns)hr_u128_saturate(hr_u128_div_ceil(hr_u128_mul(a, b), c), INT64_MAX);
}

hr_ns hr_model_drain_ns(const struct hr_rule *rule)
{
    switch (form_of(rule)) {
    case BUCKET:
        return scale(rule->capacity, rule->period_ns, rule->rate);
    case FIXED:
    case SLIDING:
        return 2 * (hr_ns)rule->period_ns;
    case LOG:
        return (hr_ns)rule->period_ns;
    case QUOTA:
        return INT64_MAX;
    case LEASES:
        return (hr_ns)rule->ttl_ns;
    }
    return 0;
}
