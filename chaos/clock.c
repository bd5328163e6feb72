#include "chaos/clock.h"

#define MILLION INT64_C(1000000)

static int64_t scaled(int64_t elapsed, int32_t drift_ppm)
{
    return drift_ppm == 0 ? elapsed : elapsed + elapsed / MILLION * drift_ppm + elapsed % MILLION * drift_ppm / MILLION;
}

static hr_ns steady_at(const struct hr_sim_clock *clock, hr_ns at)
{
    return clock->steady_base + scaled(at - clock->true_base, clock->drift_ppm);
}

struct hr_now hr_sim_clock_read(const struct hr_sim_clock *clock, hr_ns at)
{
    hr_ns steady = hr_clamp_time(steady_at(clock, at));
    return (struct hr_now){steady, {hr_clamp_time(steady + clock->wall_ahead_ns)}};
}

hr_ns hr_sim_clock_when(const struct hr_sim_clock *clock, hr_ns steady)
{
    int64_t wanted = steady - clock->steady_base;
    if (wanted <= 0) {
        return clock->true_base;
    }
    if (clock->drift_ppm == 0) {
        return clock->true_base + wanted;
    }
    int64_t rate = MILLION + clock->drift_ppm;
    int64_t elapsed = wanted / rate * MILLION + wanted % rate * MILLION / rate;
    while (scaled(elapsed, clock->drift_ppm) < wanted) { /* the division is off by two at most */
        elapsed++;
    }
    return clock->true_base + elapsed;
}

void hr_sim_clock_set_drift(struct hr_sim_clock *clock, hr_ns at, int32_t drift_ppm)
{
    clock->steady_base = steady_at(clock, at);
    clock->true_base = at;
    clock->drift_ppm = drift_ppm;
}
