/* Units of time, and the bounds of every number that crosses the outside contract.
 *
 * Two clocks, two types:
 *   hr_ns          steady time: nanoseconds, anchored to Unix time once at start, never runs backwards.
 *                  Rates and windows live on it.
 *   struct hr_wall wall time: nanoseconds of Unix time as the machine's clock shows it; it may step either
 *                  way. Only calendar periods look at it. A struct, so that the two cannot be mixed up. */
#ifndef HR_BASE_UNITS_H
#define HR_BASE_UNITS_H

#include <stdint.h>

typedef int64_t hr_ns;

struct hr_wall {
    int64_t ns;
};

/* One instant as both clocks show it. It arrives with each event; nothing inside asks for it. */
struct hr_now {
    hr_ns steady;
    struct hr_wall wall;
};

#define HR_NS_PER_US INT64_C(1000)
#define HR_NS_PER_MS INT64_C(1000000)
#define HR_NS_PER_S INT64_C(1000000000)
#define HR_S_PER_DAY INT64_C(86400)

/* Instants lie in [0, HR_TIME_NS_MAX]: 1970 to 2255. The room above, up to 2^63, holds any end of a window
 * or expiry of a lease that is computed from an instant, so that no such sum can overflow. */
#define HR_TIME_NS_MAX (INT64_C(9000000000) * HR_NS_PER_S)

/* The longest period of a rate and the longest ttl of a lease: 366 days. */
#define HR_PERIOD_NS_MAX (INT64_C(366) * HR_S_PER_DAY * HR_NS_PER_S)

/* The largest cost, burst, rate or quota, and the largest integer in any answer: 2^53 - 1, which every
 * JSON and MessagePack reader can hold. */
#define HR_COST_MAX ((UINT64_C(1) << 53) - 1)
#define HR_ANSWER_MAX ((INT64_C(1) << 53) - 1)

/* A wait that never ends: the request can never be admitted. */
#define HR_NEVER_MS INT64_C(-1)

static inline int64_t hr_clamp_time(int64_t ns)
{
    if (ns < 0) {
        return 0;
    }
    return ns > HR_TIME_NS_MAX ? HR_TIME_NS_MAX : ns;
}

/* The next whole multiple of `every` after now. What is done on beats is done together: a node that has little to do
 * is woken less often. */
static inline hr_ns hr_next_beat(hr_ns now, hr_ns every)
{
    return (now / every + 1) * every;
}

/* Nanoseconds (0 or more) to milliseconds, rounded up. */
static inline int64_t hr_ms_ceil(int64_t ns)
{
    return ns / HR_NS_PER_MS + (ns % HR_NS_PER_MS != 0);
}

#endif
