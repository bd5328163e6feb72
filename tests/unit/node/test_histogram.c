/* Histogram: its exact view against counting, its quantiles against a sorted array, and every edge of its buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/histogram.h"

#define VALUES 500
#define LAST_BUCKET_NS (HR_HISTOGRAM_NS_END / 16 * 15) /* where it begins: it has no end */

static uint64_t quantile_of_one(uint64_t ns)
{
    struct hr_histogram histogram = {0};
    hr_histogram_add(&histogram, ns);
    hr_histogram_add(&histogram, UINT64_MAX); /* so that the greatest value does not cut the answer */
    return hr_histogram_quantile(&histogram, 500);
}

static void a_bucket_is_at_most_an_eighth_wide(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < HR_HISTOGRAM_OCTAVES; bit++) {
        for (uint64_t eighth = 0; eighth < 8; eighth++) {
            uint64_t edge = (UINT64_C(1) << bit) + ((eighth << bit) >> 3);
            for (uint64_t ns = edge - 1; ns <= edge + 1 && ns < LAST_BUCKET_NS; ns++) {
                print_message("%lu ns\n", (unsigned long)ns);
                uint64_t told = quantile_of_one(ns);
                assert_true(told >= ns && told <= ns + ns / 8);
            }
        }
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void expect_quantiles(const struct hr_histogram *histogram, const uint64_t *sorted, size_t count)
{
    for (uint32_t per_mille = 0; per_mille <= 1000; per_mille++) {
        size_t rank = (count * per_mille + 999) / 1000;
        uint64_t exact = sorted[rank > 0 ? rank - 1 : 0];
        uint64_t told = hr_histogram_quantile(histogram, per_mille);
        assert_true(told >= exact && told <= exact + exact / 8);
    }
    assert_int_equal(hr_histogram_quantile(histogram, 1000), sorted[count - 1]);
}

static void expect_bounds(const struct hr_histogram *histogram, const uint64_t *sorted, size_t count)
{
    uint64_t up_to = 0, exact = 0;
    for (unsigned i = 0; i < HR_HISTOGRAM_BOUNDS; i++) {
        up_to += histogram->between[i];
        while (exact < count && sorted[exact] <= hr_histogram_bounds_ns[i]) {
            exact++;
        }
        assert_int_equal(up_to, exact);
    }
    assert_int_equal(up_to + histogram->between[HR_HISTOGRAM_BOUNDS], histogram->count);
}

/* Any magnitude below the last bucket, and often a bound itself or one beside it. */
static uint64_t draw_ns(struct hr_rng *rng)
{
    if (hr_rng_chance(rng, 1, 4)) {
        return hr_histogram_bounds_ns[hr_rng_below(rng, HR_HISTOGRAM_BOUNDS)] + hr_rng_below(rng, 3) - 1;
    }
    return hr_rng_below(rng, UINT64_C(1) << (1 + hr_rng_below(rng, HR_HISTOGRAM_OCTAVES - 1)));
}

static void both_views_agree_with_counting(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        print_message("seed %lu\n", (unsigned long)seed);
        struct hr_rng rng = {seed};
        struct hr_histogram histogram = {0};
        uint64_t values[VALUES], sum = 0;
        size_t count = 1 + hr_rng_below(&rng, VALUES);
        for (size_t i = 0; i < count; i++) {
            values[i] = draw_ns(&rng);
            sum += values[i];
            hr_histogram_add(&histogram, values[i]);
        }
        qsort(values, count, sizeof(values[0]), by_value);
        assert_int_equal(histogram.count, count);
        assert_int_equal(histogram.sum_ns, sum);
        assert_int_equal(histogram.max_ns, values[count - 1]);
        expect_quantiles(&histogram, values, count);
        expect_bounds(&histogram, values, count);
    }
}

static void an_empty_histogram_has_no_quantile(void **state)
{
    (void)state;
    struct hr_histogram histogram = {0};
    assert_int_equal(hr_histogram_quantile(&histogram, 0), 0);
    assert_int_equal(hr_histogram_quantile(&histogram, 1000), 0);
}

static void values_past_the_end_share_the_last_bucket(void **state)
{
    (void)state;
    struct hr_histogram histogram = {0};
    hr_histogram_add(&histogram, HR_HISTOGRAM_NS_END);
    hr_histogram_add(&histogram, UINT64_MAX / 2);
    assert_int_equal(histogram.fine[HR_HISTOGRAM_FINE - 1], 2);
    assert_int_equal(histogram.between[HR_HISTOGRAM_BOUNDS], 2);
    assert_int_equal(hr_histogram_quantile(&histogram, 10), UINT64_MAX / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_is_at_most_an_eighth_wide),
        cmocka_unit_test(both_views_agree_with_counting),
        cmocka_unit_test(an_empty_histogram_has_no_quantile),
        cmocka_unit_test(values_past_the_end_share_the_last_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
