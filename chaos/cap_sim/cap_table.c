#include "chaos/cap_sim/cap_table.h"

#include <string.h>

#define MS HR_NS_PER_MS
#define S HR_NS_PER_S

/* What differs from row to row; 0 is the usual: five regions, 80 ms one way, letters every 100 ms, R = 1000 a second
 * and B = 1000, or a quota of 10,000 in 300 s, offered one and a half times over. */
struct row {
    const char *name;
    enum { RATE, QUOTA, WINDOW } kind;
    enum cap_load load;
    uint32_t offered, hot; /* permille */
    uint64_t rate, burst;
    uint32_t seconds;
    uint32_t loss, doubled, drift_ppm;
    hr_ns moves[4];
    struct cap_fault faults[2];
    struct cap_goal goal;
};

static const struct row ROWS[] = {
    {.name = "balanced, 1.5 R", .load = CAP_BALANCED, .goal = {9980, 0, 1000}},
    {.name = "skew 90/10, 1.5 R", .load = CAP_SKEW, .goal = {9800, 0, 1000}},
    {.name = "one region only, 1.5 R", .load = CAP_ONE, .goal = {9800, 0, 1000}},
    {.name = "follow the sun (a day of 60 s), 1.2 R", .load = CAP_SUN, .offered = 1200, .goal = {9780, 0, 1000}},
    {.name = "hotspot flips, 90/10, 1.5 R",
     .load = CAP_FLIP,
     .moves = {20 * S, 40 * S},
     .goal = {9800, 300 * MS, 1000}},
    {.name = "flips, 20 % loss",
     .load = CAP_FLIP,
     .moves = {20 * S, 40 * S},
     .loss = 200,
     .goal = {9780, 500 * MS, 1000}},
    {.name = "flips, 20 % doubled and reordered",
     .load = CAP_FLIP,
     .moves = {20 * S, 40 * S},
     .doubled = 200,
     .goal = {9780, 500 * MS, 1000}},
    {.name = "flips, clocks off by 500 ppm",
     .load = CAP_FLIP,
     .moves = {20 * S, 40 * S},
     .drift_ppm = 500,
     .goal = {9800, 300 * MS, 1000}},
    {.name = "flash crowd x 10 everywhere, base 0.5 R",
     .load = CAP_FLASH_ALL,
     .offered = 500,
     .moves = {20 * S, 40 * S},
     .goal = {9900, 0, 1000}},
    {.name = "on-off bursts of 1 R, total 0.7 R",
     .load = CAP_ON_OFF,
     .offered = 700,
     .hot = 1000,
     .seconds = 120,
     .goal = {8700, 0, 1500}},
    {.name = "on-off bursts of 3 R, total 1.2 R",
     .load = CAP_ON_OFF,
     .offered = 1200,
     .hot = 3000,
     .seconds = 120,
     .goal = {8200, 0, 1500}},
    {.name = "R = 100,000 a second, flips",
     .load = CAP_FLIP,
     .moves = {20 * S, 40 * S},
     .rate = 100000,
     .burst = 100000,
     .goal = {9800, 300 * MS, 1000}},
    {.name = "R = 1 a second, B = 5, skew 90/10",
     .load = CAP_SKEW,
     .rate = 1,
     .burst = 5,
     .seconds = 400,
     .goal = {9000, 0, 1000}},
    {.name = "R = 1 a second, B = 5, balanced 3 R",
     .load = CAP_BALANCED,
     .offered = 3000,
     .rate = 1,
     .burst = 5,
     .seconds = 400,
     .goal = {9600, 0, 1000}},
    {.name = "R = 5 a second, B = 5, balanced 3 R",
     .load = CAP_BALANCED,
     .offered = 3000,
     .rate = 5,
     .burst = 5,
     .seconds = 200,
     .goal = {9500, 0, 1000}},
    {.name = "R = 1 a second, B = 1, skew 90/10",
     .load = CAP_SKEW,
     .rate = 1,
     .burst = 1,
     .seconds = 400,
     .goal = {9500, 0, 1000}},
    {.name = "R = 1 a second, B = 1, balanced 3 R",
     .load = CAP_BALANCED,
     .offered = 3000,
     .rate = 1,
     .burst = 1,
     .seconds = 400,
     .goal = {4700, 0, 1000}},
    {.name = "hot region cut off 30 s",
     .load = CAP_SKEW,
     .seconds = 70,
     .faults = {{CAP_CUT, 0, 20 * S, 50 * S}},
     .goal = {7300, 0, 1000}},
    {.name = "halves cut off 30 s, balanced 1.5 R",
     .load = CAP_BALANCED,
     .seconds = 70,
     .faults = {{CAP_SPLIT, 3, 20 * S, 50 * S}},
     .goal = {9950, 0, 1000}},
    {.name = "hot region restarts twice",
     .load = CAP_SKEW,
     .faults = {{CAP_CRASH, 0, 20 * S, 20500 * MS}, {CAP_CRASH, 0, 40 * S, 40500 * MS}},
     .goal = {9600, 0, 1000}},
    {.name = "lender restarts twice",
     .load = CAP_SKEW,
     .faults = {{CAP_CRASH, 1, 20 * S, 20500 * MS}, {CAP_CRASH, 1, 40 * S, 40500 * MS}},
     .goal = {9750, 0, 1000}},
    {.name = "quota: balanced, 2 Q", .kind = QUOTA, .load = CAP_BALANCED, .offered = 2000, .goal = {9950, 0, 1000}},
    {.name = "quota: skew 90/10, 1.5 Q", .kind = QUOTA, .load = CAP_SKEW, .goal = {9900, 0, 1000}},
    {.name = "quota: one region only, 1.5 Q", .kind = QUOTA, .load = CAP_ONE, .goal = {9900, 0, 1000}},
    {.name = "quota: hotspot moves, 1.5 Q",
     .kind = QUOTA,
     .load = CAP_FLIP,
     .moves = {75 * S, 150 * S, 225 * S},
     .goal = {9900, 0, 1000}},
    {.name = "quota: hot region restarts twice",
     .kind = QUOTA,
     .load = CAP_SKEW,
     .faults = {{CAP_CRASH, 0, 60 * S, 61 * S}, {CAP_CRASH, 0, 400 * S, 401 * S}},
     .goal = {9700, 0, 1000}},
    {.name = "quota: Q = 20, skew 90/10, 2 Q",
     .kind = QUOTA,
     .load = CAP_SKEW,
     .offered = 2000,
     .rate = 20,
     .goal = {9000, 0, 1000}},
    {.name = "fixed window of 1 s: N = 1000, skew 90/10, 1.5 N", .kind = WINDOW, .load = CAP_SKEW, .goal = {0, 0, 0}},
};

static uint64_t or_else(uint64_t value, uint64_t usual)
{
    return value != 0 ? value : usual;
}

static void spread(const struct row *row, struct cap_scenario *s)
{
    *s = (struct cap_scenario){.name = row->name, .regions = 5, .is_cover = row->kind != RATE, .load = row->load};
    s->rate = or_else(row->rate, row->kind == QUOTA ? 10000 : 1000);
    s->period_ns = (uint64_t)(row->kind == QUOTA ? 300 * S : S);
    s->burst = or_else(row->burst, 1000);
    s->reserve_permille = 200;
    s->reserve_decays = s->has_log = row->kind == QUOTA;
    s->delay = 80 * MS;
    s->tick = 100 * MS;
    s->lease = 5 * S;
    s->duration = (hr_ns)or_else(row->seconds, row->kind == QUOTA ? 590 : 60) * S;
    s->step = row->kind == QUOTA ? 10 * MS : MS;
    s->jitter_permille = 200;
    s->loss_permille = row->loss;
    s->double_permille = s->reorder_permille = row->doubled;
    s->drift_ppm = (uint32_t)or_else(row->drift_ppm, 50);
    s->is_sole = true;
    s->offered_permille = (uint32_t)or_else(row->offered, 1500);
    s->hot_permille = (uint32_t)or_else(row->hot, 900);
    for (uint32_t i = 0; i < 2 && row->faults[i].until > 0; i++) {
        s->faults[s->fault_count++] = row->faults[i];
    }
    for (uint32_t i = 0; i < 4 && row->moves[i] > 0; i++) {
        s->moves[s->move_count++] = row->moves[i];
    }
}

uint32_t cap_table_count(void)
{
    return sizeof ROWS / sizeof ROWS[0];
}

void cap_table_row(uint32_t place, struct cap_row *ret_row)
{
    spread(&ROWS[place], &ret_row->scenario);
    ret_row->goal = ROWS[place].goal;
}

static hr_ns between(struct hr_rng *rng, hr_ns least, hr_ns most)
{
    return least + (hr_ns)hr_rng_below(rng, (uint64_t)(most - least + 1));
}

static uint32_t one_of(struct hr_rng *rng, uint32_t count)
{
    return (uint32_t)hr_rng_below(rng, count);
}

static void draw_fault(struct hr_rng *rng, const struct cap_scenario *s, struct cap_fault *ret_fault)
{
    static const enum cap_fault_kind kinds[] = {CAP_CUT,   CAP_CUT,   CAP_DEAF,  CAP_MUTE, CAP_SPLIT,
                                                CAP_CRASH, CAP_CRASH, CAP_CRASH, CAP_CRASH};
    enum cap_fault_kind kind = kinds[one_of(rng, 9)];
    hr_ns length = kind == CAP_CRASH ? between(rng, 50 * MS, S) : between(rng, 10 * MS, s->duration / 8);
    uint32_t who = kind == CAP_SPLIT ? one_of(rng, 1U << s->regions) : one_of(rng, s->regions);
    hr_ns from = between(rng, 0, s->duration * 9 / 10);
    *ret_fault = (struct cap_fault){kind, who, from, from + length};
}

/* Of crashes every third brings another with it, in another region: who has just begun hears from who has just begun.
 */
static void draw_faults(struct hr_rng *rng, struct cap_scenario *s)
{
    uint32_t count = 2 + one_of(rng, 10);
    while (s->fault_count < count) {
        struct cap_fault *fault = &s->faults[s->fault_count++];
        draw_fault(rng, s, fault);
        if (fault->kind == CAP_CRASH && one_of(rng, 3) == 0) {
            struct cap_fault *second = &s->faults[s->fault_count++];
            second->kind = CAP_CRASH;
            second->who = (fault->who + 1 + one_of(rng, s->regions - 1)) % s->regions;
            second->from = fault->from + between(rng, 0, S / 2);
            second->until = second->from + between(rng, 50 * MS, S);
        }
    }
}

static void draw_rate(struct hr_rng *rng, struct cap_scenario *s)
{
    static const uint64_t rates[] = {1000, 1000, 50, 3, 7919};
    static const hr_ns periods[] = {S, S, 100 * MS, 60 * S};
    s->rate = rates[one_of(rng, 5)];
    s->period_ns = (uint64_t)periods[one_of(rng, 4)];
    s->burst = one_of(rng, 2) != 0 ? s->rate : s->rate * 3 / 10 + 1;
    if (one_of(rng, 5) == 0) {
        s->burst = 1 + one_of(rng, 12);
    }
    s->duration = 10 * S;
    s->step = 5 * MS;
    s->lease = between(rng, 600 * MS, 2600 * MS);
    s->tick = between(rng, 50 * MS, 300 * MS);
}

static void draw_quota(struct hr_rng *rng, struct cap_scenario *s)
{
    s->is_cover = true;
    s->rate = one_of(rng, 3) != 0 ? 500 + one_of(rng, 5000) : 3 + one_of(rng, 40);
    s->period_ns = (uint64_t)(one_of(rng, 4) == 0 ? 2 * S : 15 * S);
    s->has_log = one_of(rng, 3) != 0;
    s->reserve_decays = one_of(rng, 2) != 0;
    s->duration = 40 * S;
    s->step = 20 * MS;
    s->lease = between(rng, 2 * S, 5 * S);
    s->tick = between(rng, 100 * MS, 500 * MS);
    s->skew = one_of(rng, 2) != 0 ? S : 0;
}

void cap_schedule(uint64_t seed, bool is_cover, struct cap_scenario *ret_scenario)
{
    struct hr_rng rng = {seed * 0x1234567 + 99};
    struct cap_scenario *s = ret_scenario;
    memset(s, 0, sizeof *s);
    s->name = "schedule";
    s->comes_to_rest = seed % 5 == 0; /* it takes twice as long */
    s->regions = 2 + one_of(&rng, 7);
    s->is_uneven = true;
    s->load = CAP_RANDOM;
    s->offered_permille = 1000;
    if (is_cover) {
        draw_quota(&rng, s);
    } else {
        draw_rate(&rng, s);
    }
    s->reserve_permille = 50 + one_of(&rng, 500);
    s->delay = between(&rng, 5 * MS, 150 * MS);
    s->jitter_permille = 500;
    s->loss_permille = one_of(&rng, 2) != 0 ? one_of(&rng, 400) : 0;
    s->double_permille = one_of(&rng, 300);
    s->reorder_permille = one_of(&rng, 400);
    s->drift_ppm = one_of(&rng, 2) != 0 ? 1000 : 0;
    s->is_sole = one_of(&rng, 4) == 0;
    draw_faults(&rng, s);
    if (one_of(&rng, 3) == 0) {
        uint32_t who = one_of(&rng, 3);
        hr_ns from = between(&rng, s->duration / 5, s->duration / 2);
        s->faults[s->fault_count++] = (struct cap_fault){CAP_NEW_EPOCH, who, from, s->duration};
    }
}
