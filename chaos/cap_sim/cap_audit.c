/* The invariants of the global caps, over all regions at one instant: what no region can see. Names as in
 * docs/CONSISTENCY.md. Rates in units per period, depths and tokens in units. */
#include "chaos/cap_sim/cap_world.h"
#include "region/caps_state.h"
#include "region/cover_state.h"
#include "region/lend_state.h"

/* One region as the audit sees it. */
struct view {
    hr_ns now;
    const struct hr_lend *lend; /* NULL: its share goes alone */
    struct hr_price price, own;
    int64_t level;
};

static void look(struct cap_world *world, uint32_t k, struct view *ret_view)
{
    struct cap_region *region = &world->regions[k];
    hr_ns now = cap_world_clock(world, k);
    struct hr_caps_counter *counter = hr_caps_find(region->caps, world->id.hi);
    hr_caps_advance_links(region->caps, now);
    if (counter != NULL) {
        hr_caps_advance(region->caps, counter, now);
    } else {
        hr_share_advance(&region->share, &world->limits[0].lend.scale, now);
    }
    *ret_view = (struct view){.now = now, .price = region->share.price, .level = region->share.level};
    ret_view->lend = counter == NULL ? NULL : &counter->lend;
    ret_view->own = ret_view->price;
    for (uint32_t j = 0; j < world->scenario->regions && counter != NULL; j++) {
        ret_view->own.mint -= counter->lend.debts[j].rate;
        ret_view->own.cap -= counter->lend.debts[j].depth;
    }
}

/* I0, I3, and that nothing is negative. */
static void check_alone(struct cap_world *world, uint32_t k, const struct view *view)
{
    cap_world_fail(world, "I3 level above depth", view->level - view->price.cap);
    cap_world_fail(world, "I3 level below nothing", -view->level);
    cap_world_fail(world, "I1 own rate below nothing", -view->own.mint);
    for (uint32_t j = 0; j < world->scenario->regions && view->lend != NULL; j++) {
        const struct hr_lend_loan *loan = &view->lend->loans[j];
        const struct hr_lend_debt *debt = &view->lend->debts[j];
        cap_world_fail(world, "I0 granted above the top", loan->grant.rate - loan->rate_top);
        cap_world_fail(world, "I0 slice above the top", loan->grant.depth - loan->depth_top);
        cap_world_fail(world, "I0 parcels known before they were given", -hr_lend_on_its_way(loan));
        cap_world_fail(world, "I0 negative loan", -hr_min(debt->rate, debt->depth));
    }
    (void)k;
}

/* What others can truly use of a home, now, by their own clocks; dead lives included. */
static struct hr_price used_of(struct cap_world *world, uint32_t home, const struct view *views)
{
    struct hr_price used = {0, 0};
    for (uint32_t j = 0; j < world->scenario->regions; j++) {
        const struct cap_region *region = &world->regions[j];
        if (region->is_up && views[j].lend != NULL && j != home) {
            used.mint += views[j].lend->debts[home].rate;
            used.cap += views[j].lend->debts[home].depth;
        }
        if (region->zombies[home].until > world->now) {
            used.mint += region->zombies[home].rate;
            used.cap += region->zombies[home].depth;
        }
    }
    return used;
}

static void check_home(struct cap_world *world, uint32_t k, const struct view *views)
{
    const struct hr_lend_homes *homes = world->homes;
    struct hr_price used = used_of(world, k, views);
    if (world->regions[k].is_up) {
        used.mint += views[k].own.mint;
        used.cap += views[k].own.cap;
    }
    cap_world_fail(world, "I1 home rate lent twice", used.mint - hr_max(homes[0].rate[k], homes[1].rate[k]));
    cap_world_fail(world, "I2 home depth lent twice", used.cap - hr_max(homes[0].depth[k], homes[1].depth[k]));
}

/* Tokens from one region to another that may still be credited. */
static int64_t on_the_way(struct cap_world *world, uint32_t i, uint32_t j, const struct view *views)
{
    const struct hr_lend_loan *loan = &views[i].lend->loans[j];
    const struct hr_cap_link *there = hr_caps_link(world->regions[j].caps, i, 0);
    const struct hr_cap_link *here = hr_caps_link(world->regions[i].caps, j, 0);
    static const struct hr_lend_debt none = {0};
    const struct hr_lend_debt *debt = views[j].lend == NULL ? &none : &views[j].lend->debts[i];
    int64_t units = 0;
    if (here->peer != world->regions[j].life) {
        return 0;
    }
    bool is_same = there->peer == world->regions[i].life && debt->session == loan->session;
    bool is_over = is_same && (debt->number >= loan->grant.number || there->is_lapsed);
    if (loan->grant.tokens > 0 && !is_over &&
        views[i].now <= here->echoed_at + world->regions[i].caps->times.lease_void) {
        units += loan->grant.tokens;
    }
    if (is_same && !there->is_lapsed && debt->number == loan->grant.number && debt->returned > loan->returned) {
        units += debt->returned - loan->returned;
    }
    bool has_count = is_same && debt->has_parcels && (int64_t)(debt->parcels - loan->grant.parcels_known) > 0;
    return units + (int64_t)(loan->grant.parcels - (has_count ? debt->parcels : loan->grant.parcels_known));
}

static void check_sums(struct cap_world *world, const struct view *views)
{
    struct hr_price sum = {0, 0};
    int64_t tokens = 0;
    bool all_new = true;
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        struct cap_region *region = &world->regions[k];
        all_new &= region->epoch == 2 && region->is_up && hr_caps_is_adopted(region->caps, views[k].now);
        for (uint32_t j = 0; j < world->scenario->regions && region->is_up && views[k].lend != NULL; j++) {
            tokens += j != k && world->regions[j].is_up ? on_the_way(world, k, j, views) : 0;
        }
        if (region->is_up) {
            sum.mint += views[k].price.mint;
            sum.cap += views[k].price.cap;
            tokens += views[k].level;
        }
    }
    const struct hr_lend_rule *before = &world->limits[0].lend, *now = &world->limits[1].lend;
    int64_t rate = all_new ? now->rate : hr_max(before->rate, now->rate);
    int64_t depth = all_new ? now->depth : hr_max(before->depth, now->depth);
    cap_world_fail(world, "I4 all regions together mint more than the rate", sum.mint - rate);
    cap_world_fail(world, "I5 all depths together above the burst", sum.cap - depth);
    cap_world_fail(world, "I6 tokens in buckets and on their way above the burst", tokens - depth);
}

/* I7: a bucket of the reserve alone, charged with all that the region admits, never holds more than the region's. No
 * promise is made while a config cut is being recalled. */
void cap_audit_private(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    const struct hr_lend *lend = hr_caps_lend(region->caps, world->id);
    hr_ns now = cap_world_clock(world, k);
    bool is_void = lend == NULL || (!hr_caps_is_adopted(region->caps, now) && !hr_lend_is_low(lend));
    uint32_t epoch = region->epoch * 2 + hr_caps_is_adopted(region->caps, now);
    struct hr_lend_state state = {0};
    if (lend != NULL) {
        state = hr_lend_state(lend);
    }
    is_void |= epoch != region->private_epoch || state.reserve_rate == 0;
    if (is_void || region->private_is_void || region->private_life != region->life) {
        region->private_level = hr_min(region->share.level, state.reserve_depth);
        region->private_at = now;
        region->private_rate = state.reserve_rate;
        region->private_rest = 0;
    }
    region->private_is_void = is_void;
    region->private_life = region->life;
    region->private_epoch = epoch;
    int64_t rate = hr_min(state.reserve_rate, region->private_rate);
    int64_t made = hr_mul_div(rate, now - region->private_at, (int64_t)world->limits[0].lend.scale.period_ns);
    if (made > 0) { /* a remainder is dropped: the promise is less by it */
        region->private_at = now;
        region->private_level = hr_min(state.reserve_depth, region->private_level + made);
    }
    region->private_rate = state.reserve_rate;
    cap_world_fail(world, "I7 less than the reserve", is_void ? 0 : region->private_level - region->share.level - 2);
}

static void audit_lend(struct cap_world *world)
{
    struct view views[HR_REGIONS_MAX] = {0};
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        if (world->regions[k].is_up) {
            look(world, k, &views[k]);
            check_alone(world, k, &views[k]);
        }
    }
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        check_home(world, k, views);
        if (world->regions[k].is_up) {
            cap_audit_private(world, k);
        }
    }
    check_sums(world, views);
}

/* J2: nobody has received more than was sent. */
static void check_pair(struct cap_world *world, uint32_t i, uint32_t j, const struct hr_cover *from,
                       const struct hr_cover *to)
{
    for (uint32_t w = 0; w < HR_COVER_WINDOWS; w++) {
        const struct hr_cover_window *received = &to->windows[w], *sent = &from->windows[w];
        if (received->label == HR_COVER_NO_LABEL || sent->label != received->label) {
            continue;
        }
        bool knows = received->rows[i].life == sent->life && sent->rows[j].life == received->life;
        int64_t over = received->rows[i].in - sent->rows[j].out;
        cap_world_fail(world, "J2 received more than was sent", knows ? over : 0);
    }
}

static void audit_cover(struct cap_world *world)
{
    uint32_t n = world->scenario->regions;
    int64_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct cap_region *region = &world->regions[i];
        const struct hr_cover *from = region->is_up ? hr_caps_cover(region->caps, world->id) : NULL;
        used += (int64_t)region->escrow.used;
        for (uint32_t j = 0; j < n && from != NULL; j++) {
            const struct hr_cover *to =
                world->regions[j].is_up ? hr_caps_cover(world->regions[j].caps, world->id) : NULL;
            if (i != j && to != NULL) {
                check_pair(world, i, j, from, to);
            }
        }
        if (world->scenario->has_log && region->life == 1 && world->scenario->reserve_permille > 0) {
            bool is_cut = region->epoch != 1 || world->scenario->reserve_decays;
            cap_world_fail(world, "J3 denied within the reserve", is_cut ? 0 : (int64_t)region->denied_in_reserve);
        }
    }
    if (world->scenario->period_ns == 0) {
        int64_t total = hr_max(world->limits[0].cover.total, world->limits[1].cover.total);
        cap_world_fail(world, "J1 held at once above the total", used - total);
    }
}

void cap_audit(struct cap_world *world)
{
    if (world->scenario->is_cover) {
        audit_cover(world);
    } else {
        audit_lend(world);
    }
}
