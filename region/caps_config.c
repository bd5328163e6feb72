#include "region/caps_state.h"
#include "region/partition.h"

static bool has_same_shape(const struct hr_cap_limit *a, const struct hr_cap_limit *b)
{
    return a->is_cover == b->is_cover &&
           (a->is_cover ? a->cover.has_windows == b->cover.has_windows
                        : a->lend.scale.period_ns == b->lend.scale.period_ns &&
                              a->lend.scale.shift == b->lend.scale.shift && a->lend.is_pooled == b->lend.is_pooled);
}

static enum hr_err check(const struct hr_caps *caps, uint32_t epoch, const struct hr_cap_limit *limits, uint32_t count)
{
    if (count > caps->config.limits_max) {
        return HR_E_TOO_MANY;
    }
    if (caps->epoch != 0 && epoch <= caps->epoch) {
        return HR_E_RANGE;
    }
    if (!caps->is_adopted) {
        return HR_E_PENDING;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct hr_caps_limit *limit = hr_caps_find_limit(caps, limits[i].number);
        if (limit != NULL && !has_same_shape(&limit->banks[caps->bank], &limits[i])) {
            return HR_E_PENDING;
        }
    }
    return HR_OK;
}

static struct hr_caps_limit *free_place(struct hr_caps *caps)
{
    for (uint32_t i = 0; i < caps->limit_count; i++) {
        if (!caps->limits[i].is_in[0] && !caps->limits[i].is_in[1]) {
            return &caps->limits[i];
        }
    }
    return caps->limit_count == caps->config.limits_max ? NULL : &caps->limits[caps->limit_count++];
}

/* Puts the limits into the other bank: those that are known in their places. */
static enum hr_err fill_bank(struct hr_caps *caps, uint32_t bank, const struct hr_cap_limit *limits, uint32_t count)
{
    for (uint32_t i = 0; i < caps->limit_count; i++) {
        caps->limits[i].is_in[bank] = false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct hr_caps_limit *limit = hr_caps_find_limit(caps, limits[i].number);
        limit = limit == NULL ? free_place(caps) : limit;
        if (limit == NULL) {
            return HR_E_TOO_MANY;
        }
        limit->banks[bank] = limits[i];
        limit->is_in[bank] = true;
    }
    return HR_OK;
}

/* Brings the counters to the rules of the new bank; those whose limit is gone are let go, with what they lent. */
static void adopt(struct hr_caps *caps, hr_ns now)
{
    for (uint32_t i = caps->counter_count; i > 0; i--) {
        struct hr_caps_counter *counter = &caps->counters[i - 1];
        struct hr_caps_limit *limit = &caps->limits[counter->limit];
        struct hr_caps_at at;
        hr_caps_at(caps, counter, now, &at);
        if (!limit->is_in[caps->bank]) {
            hr_caps_let_go(caps, counter);
        } else if (counter->is_cover) {
            hr_cover_adopt(&counter->cover, &limit->banks[caps->bank].cover, caps->epoch, &at.cover);
        } else {
            hr_lend_adopt(&counter->lend, &limit->banks[caps->bank].lend, caps->epoch, counter->id.lo, &at.lend);
            counter->lend.share->generation = caps->generation;
        }
    }
}

enum hr_err hr_caps_configure(struct hr_caps *caps, uint32_t epoch, const struct hr_cap_limit *limits, uint32_t count,
                              hr_ns now)
{
    enum hr_err err = check(caps, epoch, limits, count);
    bool is_first = caps->epoch == 0;
    uint32_t bank = caps->bank ^ 1;
    if (err == HR_OK) {
        err = fill_bank(caps, bank, limits, count);
    }
    if (err != HR_OK) {
        return err;
    }
    caps->bank = bank;
    caps->epoch = epoch;
    caps->generation++;
    caps->is_adopted = is_first;
    hr_caps_advance_links(caps, now);
    adopt(caps, now);
    caps->push_at = now;
    return HR_OK;
}

bool hr_caps_is_adopted(const struct hr_caps *caps, hr_ns now)
{
    (void)now;
    return caps->is_adopted;
}

void hr_caps_declare_stopped(struct hr_caps *caps, uint32_t region)
{
    caps->stopped |= 1U << region;
}
