/* After the last fault. First there is nothing to do, for as long as leases and quarantines may last; then all regions
 * ask for more than the cap, and are to get it; then nobody asks any more, and nothing may be left: no hot counter, and
 * no letter. */
#include "chaos/cap_sim/cap_world.h"

#define BIN_NS (50 * HR_NS_PER_MS) /* of cap_load.c */
#define IDLE_NS (100 * HR_NS_PER_MS)
#define BUSY_NS (4 * HR_NS_PER_S)
#define SILENCE_NS (5 * HR_NS_PER_S)
#define KEEP_NS (50 * HR_NS_PER_S) /* how long region/caps_letters.c keeps links warm, and then what is cold */

/* Fewer tokens than this say nothing; nor do buckets that overflow between two looks at the load. */
#define TOKENS_MIN 400
#define LOOKS_MIN 4

static hr_ns void_ns(const struct cap_scenario *s)
{
    return hr_cap_times_of(s->tick, s->lease).lease_void;
}

/* A fault may outlast the load by an eighth; a restart then makes others wait for two leases; an epoch takes 3 s. */
static hr_ns busy_from(const struct cap_scenario *s)
{
    return s->duration + s->duration / 8 + 2 * void_ns(s) + 4 * HR_NS_PER_S;
}

/* Demands are averaged over four tokens' time where that is long. */
static hr_ns silent_from(const struct cap_scenario *s)
{
    uint64_t slowest = s->rate > 1 ? s->rate / 2 : 1; /* an epoch may have halved it */
    hr_ns fade = 8 * 4 * (hr_ns)(s->period_ns / slowest);
    return busy_from(s) + BUSY_NS + KEEP_NS + 6 * void_ns(s) + 25 * HR_NS_PER_S + fade;
}

hr_ns cap_rest_end(const struct cap_scenario *s)
{
    return s->comes_to_rest ? silent_from(s) + SILENCE_NS : s->duration;
}

uint64_t cap_rest_offered(const struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    bool is_busy = !s->is_cover && world->now >= busy_from(s) && world->now < busy_from(s) + BUSY_NS;
    return is_busy ? cap_load_cap(s) * 3 / 2 / s->regions : 0;
}

/* A lease that is shorter than it may be (region/cap_link.h) lapses again and again: the bounds hold, and no more. */
static bool is_lease_long_enough(const struct cap_scenario *s)
{
    hr_ns way = s->delay + s->delay * s->jitter_permille / 1000;
    way = s->is_uneven ? way * 9 / 5 : way; /* cap_world.c */
    return s->lease >= 6 * s->tick && s->lease >= 2 * way;
}

/* In the second half of the busy time all of the rate is used, in the epoch that holds now. */
static void look_at_use(struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    const struct hr_lend_rule *rule = &world->limits[world->regions[0].epoch - 1].lend;
    hr_ns from = busy_from(s) + BUSY_NS / 2, until = busy_from(s) + BUSY_NS;
    int64_t all = hr_mul_div(rule->rate / rule->token, until - from, (int64_t)rule->scale.period_ns), used = 0;
    for (hr_ns at = from; at < until; at += BIN_NS) {
        used += (int64_t)world->bin_admitted[at / BIN_NS];
    }
    int64_t in_a_look = hr_mul_div(rule->rate, s->step, (int64_t)rule->scale.period_ns) + rule->token;
    if (is_lease_long_enough(s) && all >= TOKENS_MIN && rule->depth / s->regions >= LOOKS_MIN * in_a_look) {
        cap_world_fail(world, "L1 less than the rate is used after all has healed", all - all / 10 - used);
    }
}

static uint64_t letters_of(const struct cap_world *world)
{
    uint64_t letters = 0;
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        letters += hr_caps_counts(world->regions[k].caps).letters_out;
    }
    return letters;
}

static void look_at_silence(struct cap_world *world)
{
    cap_world_fail(world, "L2 letters are sent though nothing goes on",
                   (int64_t)(letters_of(world) - world->letters_at_rest));
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        struct cap_region *region = &world->regions[k];
        cap_world_fail(world, "L3 a counter is hot though nothing goes on", hr_caps_hot_count(region->caps));
        cap_world_fail(world, "L4 an epoch is not adopted",
                       !hr_caps_is_adopted(region->caps, cap_world_clock(world, k)));
    }
}

/* Where nothing is asked for, looks are rare. */
hr_ns cap_rest_step(const struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    bool is_idle =
        world->now >= s->duration && (world->now < busy_from(s) - IDLE_NS || world->now > busy_from(s) + BUSY_NS);
    return is_idle ? IDLE_NS : s->step;
}

/* Is this the first look at the load at or after the instant? */
static bool is_at(const struct cap_world *world, hr_ns at)
{
    return world->now >= at && world->now < at + cap_rest_step(world);
}

void cap_rest_look(struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    if (!s->comes_to_rest || world->now < busy_from(s)) {
        return;
    }
    if (!s->is_cover && is_at(world, busy_from(s) + BUSY_NS)) {
        look_at_use(world);
    }
    if (is_at(world, silent_from(s))) {
        world->letters_at_rest = letters_of(world);
    }
    if (is_at(world, silent_from(s) + SILENCE_NS - HR_NS_PER_S)) {
        look_at_silence(world);
    }
}
