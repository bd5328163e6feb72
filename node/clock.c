#include "node/clock.h"

#include <time.h>

static int64_t unix_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at); /* it always works: the clock exists and the pointer is good */
    return at.tv_sec * HR_NS_PER_S + at.tv_nsec;
}

/* It counts also while the machine sleeps: a lease that others count on runs out then too. */
hr_ns hr_clock_steady(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_BOOTTIME, &at); /* as above */
    return at.tv_sec * HR_NS_PER_S + at.tv_nsec;
}

void hr_clock_start(struct hr_clock *ret_clock)
{
    ret_clock->anchor_ns = unix_ns() - hr_clock_steady();
    atomic_init(&ret_clock->steady_offset_ns, 0);
    atomic_init(&ret_clock->wall_offset_ns, 0);
}

hr_ns hr_clock_steady_now(const struct hr_clock *clock)
{
    int64_t steady_offset_ns = atomic_load_explicit(&clock->steady_offset_ns, memory_order_relaxed);
    return hr_clamp_time(clock->anchor_ns + hr_clock_steady() + steady_offset_ns);
}

struct hr_now hr_clock_now(const struct hr_clock *clock)
{
    int64_t wall_offset_ns = atomic_load_explicit(&clock->wall_offset_ns, memory_order_relaxed);
    return (struct hr_now){
        .steady = hr_clock_steady_now(clock),
        .wall = {hr_clamp_time(unix_ns() + wall_offset_ns)},
    };
}
