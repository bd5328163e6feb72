/* A seeded generator for tests and simulations: the same seed gives the same numbers on every machine.
 * Never for secrets. SplitMix64 (Steele, Lea, Flood 2014). */
#ifndef HR_BASE_RNG_H
#define HR_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct hr_rng {
    uint64_t state;
};

static inline uint64_t hr_rng_next(struct hr_rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number in [0, n). Requires: n > 0. The modulo's bias is below n / 2^64. */
static inline uint64_t hr_rng_below(struct hr_rng *rng, uint64_t n)
{
    return hr_rng_next(rng) % n;
}

/* True in num of den cases. */
static inline bool hr_rng_chance(struct hr_rng *rng, uint64_t num, uint64_t den)
{
    return hr_rng_below(rng, den) < num;
}

#endif
