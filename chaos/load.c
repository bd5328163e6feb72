#include "chaos/load.h"

#include <stdbool.h>

#define DAY_NS (INT64_C(86400) * HR_NS_PER_S)

/* One minute in eight has a burst of five seconds, at three times the rate. */
#define BURST_SLOT_NS (60 * HR_NS_PER_S)
#define BURST_NS (5 * HR_NS_PER_S)
#define BURST_ONE_IN 8
#define BURST_FACTOR 3

static uint64_t burst_dice(const struct hr_load *load, uint32_t region, hr_ns at)
{
    uint64_t slot = (uint64_t)(at / BURST_SLOT_NS);
    struct hr_rng rng = hr_dice_fork(load->seed + slot, 16 + region);
    return hr_rng_next(&rng);
}

static bool is_burst(const struct hr_load *load, uint32_t region, hr_ns at, uint64_t *ret_dice)
{
    if (at % BURST_SLOT_NS >= BURST_NS) {
        return false;
    }
    *ret_dice = burst_dice(load, region, at);
    return *ret_dice % BURST_ONE_IN == 0;
}

/* From a half of the mean at night to one and a half at noon, in a straight line. In thousandths. */
static uint64_t day_factor(const struct hr_load *load, uint32_t region, hr_ns at)
{
    uint64_t of_day = (uint64_t)((at + DAY_NS / load->regions * region) % DAY_NS);
    uint64_t half = (uint64_t)DAY_NS / 2;
    uint64_t from_night = of_day < half ? of_day : (uint64_t)DAY_NS - of_day;
    return 500 + 1000 * (from_night / 1000) / (half / 1000);
}

uint64_t hr_load_rate(const struct hr_load *load, uint32_t region, hr_ns at)
{
    uint64_t dice;
    uint64_t rate = load->rps * day_factor(load, region, at) / load->regions;
    return is_burst(load, region, at, &dice) ? rate * BURST_FACTOR : rate;
}

hr_ns hr_load_wait(struct hr_load *load, uint32_t region, hr_ns at)
{
    uint64_t rate = hr_load_rate(load, region, at);
    hr_ns mean = (hr_ns)((uint64_t)HR_NS_PER_S * 1000 / (rate > 0 ? rate : 1));
    return hr_dice_wait(&load->waits, &load->rng, mean) + 1;
}

uint32_t hr_load_shape(struct hr_load *load, uint32_t region, hr_ns at)
{
    uint64_t draw = hr_rng_next(&load->rng);
    uint64_t dice;
    if ((draw & 1) == 0 && is_burst(load, region, at, &dice)) {
        return (uint32_t)((dice >> 32) % load->shape_count);
    }
    return (uint32_t)((draw >> 32) % load->shape_count);
}
