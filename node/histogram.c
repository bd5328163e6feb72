#include "node/histogram.h"

#include "base/units.h"

#define SUB_BUCKETS (UINT64_C(1) << HR_HISTOGRAM_BITS)
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

const uint64_t hr_histogram_bounds_ns[HR_HISTOGRAM_BOUNDS] = {
    10 * US, 25 * US, 50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US,
    5 * MS,  10 * MS, 25 * MS, 50 * MS,  100 * MS, 250 * MS, 500 * MS, 1000 * MS,
};

/* Values below 8 have a bucket each; from there on the first bit and the three behind it say which. */
static unsigned fine_of(uint64_t ns)
{
    if (ns < SUB_BUCKETS) {
        return (unsigned)ns;
    }
    uint64_t capped = ns < HR_HISTOGRAM_NS_END ? ns : HR_HISTOGRAM_NS_END - 1;
    unsigned shift = 63 - HR_HISTOGRAM_BITS - (unsigned)__builtin_clzll(capped);
    return (shift << HR_HISTOGRAM_BITS) + (unsigned)(capped >> shift);
}

/* The greatest value of a bucket. */
static uint64_t fine_top(unsigned fine)
{
    if (fine < SUB_BUCKETS) {
        return fine;
    }
    unsigned shift = (fine >> HR_HISTOGRAM_BITS) - 1;
    uint64_t first_bits = SUB_BUCKETS + (fine & (SUB_BUCKETS - 1));
    return ((first_bits + 1) << shift) - 1;
}

void hr_histogram_add_many(struct hr_histogram *histogram, uint64_t ns, uint64_t count)
{
    if (count == 0) {
        return;
    }
    unsigned bound = 0;
    while (bound < HR_HISTOGRAM_BOUNDS && ns > hr_histogram_bounds_ns[bound]) {
        bound++;
    }
    histogram->between[bound] += count;
    histogram->fine[fine_of(ns)] += count;
    histogram->count += count;
    histogram->sum_ns += ns * count;
    histogram->max_ns = ns > histogram->max_ns ? ns : histogram->max_ns;
}

void hr_histogram_add(struct hr_histogram *histogram, uint64_t ns)
{
    hr_histogram_add_many(histogram, ns, 1);
}

/* ceil(count x per_mille / 1000), at least 1, without overflow. */
static uint64_t rank_of(uint64_t count, uint32_t per_mille)
{
    uint64_t rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
    return rank > 0 ? rank : 1;
}

void hr_histogram_merge(struct hr_histogram *histogram, const struct hr_histogram *other)
{
    histogram->count += other->count;
    histogram->sum_ns += other->sum_ns;
    histogram->max_ns = other->max_ns > histogram->max_ns ? other->max_ns : histogram->max_ns;
    for (uint32_t i = 0; i < HR_HISTOGRAM_FINE; i++) {
        histogram->fine[i] += other->fine[i];
    }
    for (uint32_t i = 0; i <= HR_HISTOGRAM_BOUNDS; i++) {
        histogram->between[i] += other->between[i];
    }
}

uint64_t hr_histogram_quantile(const struct hr_histogram *histogram, uint32_t per_mille)
{
    if (histogram->count == 0) {
        return 0;
    }
    uint64_t rank = rank_of(histogram->count, per_mille), seen = 0;
    for (unsigned i = 0; i + 1 < HR_HISTOGRAM_FINE; i++) {
        seen += histogram->fine[i];
        if (seen >= rank) {
            return fine_top(i) < histogram->max_ns ? fine_top(i) : histogram->max_ns;
        }
    }
    return histogram->max_ns;
}
