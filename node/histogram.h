/* Histogram: how long things took, in nanoseconds, in 2.6 KiB.
 *
 * Two views of the same values:
 *   - fine: eight buckets to each power of two, so that a quantile is at most an eighth too high (as in HdrHistogram);
 *   - at the bounds that Prometheus is shown, exact.
 * Values of HR_HISTOGRAM_NS_END or more share the last fine bucket.
 *
 * Thread: the caller's. Pure, integers only. Memory: the struct; zero-filled, it
 * is empty. Adding is O(1): most values are below the first bounds. */
#ifndef HR_NODE_HISTOGRAM_H
#define HR_NODE_HISTOGRAM_H

#include <stdint.h>

#define HR_HISTOGRAM_BITS 3 /* significant ones behind the first */
#define HR_HISTOGRAM_OCTAVES 40
#define HR_HISTOGRAM_NS_END (UINT64_C(1) << HR_HISTOGRAM_OCTAVES) /* 18 minutes */
#define HR_HISTOGRAM_FINE ((HR_HISTOGRAM_OCTAVES - HR_HISTOGRAM_BITS + 1) << HR_HISTOGRAM_BITS)
#define HR_HISTOGRAM_BOUNDS 16

/* In ns, ascending: 10 us to 1 s. */
extern const uint64_t hr_histogram_bounds_ns[HR_HISTOGRAM_BOUNDS];

struct hr_histogram {
    uint64_t count, sum_ns, max_ns;
    uint64_t fine[HR_HISTOGRAM_FINE];
    uint64_t between[HR_HISTOGRAM_BOUNDS + 1]; /* above the bound before, up to and with this bound; last: above all */
};

void hr_histogram_add(struct hr_histogram *histogram, uint64_t ns);

/* So many of the same value. */
void hr_histogram_add_many(struct hr_histogram *histogram, uint64_t ns, uint64_t count);

/* Adds all values of another one. */
void hr_histogram_merge(struct hr_histogram *histogram, const struct hr_histogram *other);

/* A value that per_mille of 1000 of all values are not above, at most an eighth higher than the smallest such; 0 where
 * there are no values. per_mille: 0 to 1000. */
uint64_t hr_histogram_quantile(const struct hr_histogram *histogram, uint32_t per_mille);

#endif
