#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/waterfill.h"

#define MANY (INT64_C(1) << 58)

static void parts_are_max_min_fair(void **state)
{
    static const struct {
        uint32_t count;
        int64_t needs[4], weights[4], whole, parts[4];
    } rows[] = {
        {2, {10, 90}, {1, 1}, 100, {10, 90}},
        {2, {90, 90}, {1, 1}, 100, {50, 50}},
        {2, {90, 90}, {3, 1}, 100, {75, 25}},
        {3, {5, 90, 90}, {1, 1, 1}, 100, {5, 47, 47}},
        {3, {0, 90, 90}, {1, 0, 1}, 100, {0, 0, 90}},
        {2, {1, 1}, {0, 0}, 100, {0, 0}},
        {2, {5, 5}, {1, 1}, 0, {0, 0}},
        {2, {MANY, MANY}, {1, 1}, MANY, {MANY / 2, MANY / 2}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t parts[4] = {0};
        hr_waterfill(rows[i].count, rows[i].needs, rows[i].weights, rows[i].whole, parts);
        for (uint32_t k = 0; k < rows[i].count; k++) {
            if (parts[k] != rows[i].parts[k]) {
                fail_msg("row %zu: region %u got %lld", i, k, (long long)parts[k]);
            }
        }
    }
}

static void nobody_gets_more_than_its_need_and_all_no_more_than_there_is(void **state)
{
    struct hr_rng rng = {20261130};
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int64_t needs[HR_REGIONS_MAX], weights[HR_REGIONS_MAX], parts[HR_REGIONS_MAX], sum = 0;
        uint32_t count = 1 + (uint32_t)hr_rng_below(&rng, HR_REGIONS_MAX);
        int64_t whole = (int64_t)(hr_rng_next(&rng) >> (6 + hr_rng_below(&rng, 50)));
        for (uint32_t k = 0; k < count; k++) {
            needs[k] = (int64_t)(hr_rng_next(&rng) >> (6 + hr_rng_below(&rng, 50)));
            weights[k] = (int64_t)hr_rng_below(&rng, 1000);
        }
        hr_waterfill(count, needs, weights, whole, parts);
        for (uint32_t k = 0; k < count; k++) {
            assert_true(parts[k] >= 0 && parts[k] <= needs[k]);
            sum += parts[k];
        }
        assert_true(sum <= whole);
    }
}

static void a_split_adds_up_exactly_and_strays_by_less_than_one(void **state)
{
    struct hr_rng rng = {7};
    (void)state;
    for (int round = 0; round < 20000; round++) {
        int64_t weights[HR_REGIONS_MAX], parts[HR_REGIONS_MAX], sum = 0, all = 0;
        uint32_t count = 1 + (uint32_t)hr_rng_below(&rng, HR_REGIONS_MAX);
        int64_t whole = (int64_t)(hr_rng_next(&rng) >> (6 + hr_rng_below(&rng, 57)));
        for (uint32_t k = 0; k < count; k++) {
            weights[k] = k == 0 ? 1 : (int64_t)hr_rng_below(&rng, 5);
            all += weights[k];
        }
        hr_split(count, weights, whole, hr_rng_next(&rng), parts);
        for (uint32_t k = 0; k < count; k++) {
            int64_t least = hr_mul_div(whole, weights[k], all);
            assert_true(parts[k] == least || (parts[k] == least + 1 && weights[k] > 0));
            sum += parts[k];
        }
        assert_true(sum == whole);
    }
}

static void the_odd_units_go_round(void **state)
{
    static const int64_t weights[3] = {1, 1, 1};
    int64_t all[3] = {0};
    (void)state;
    for (uint64_t turn = 0; turn < 3; turn++) {
        int64_t parts[3];
        hr_split(3, weights, 4, turn, parts);
        for (uint32_t k = 0; k < 3; k++) {
            all[k] += parts[k];
        }
    }
    assert_true(all[0] == 4 && all[1] == 4 && all[2] == 4);
}

static void a_root_is_the_greatest_whose_square_fits(void **state)
{
    struct hr_rng rng = {3};
    (void)state;
    assert_true(hr_isqrt(UINT64_MAX) == UINT32_MAX);
    for (int round = 0; round < 10000; round++) {
        uint64_t n = hr_rng_next(&rng) >> hr_rng_below(&rng, 64), root = hr_isqrt(n);
        assert_true(root * root <= n);
        assert_true(root == UINT32_MAX || (root + 1) * (root + 1) > n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_max_min_fair),
        cmocka_unit_test(nobody_gets_more_than_its_need_and_all_no_more_than_there_is),
        cmocka_unit_test(a_split_adds_up_exactly_and_strays_by_less_than_one),
        cmocka_unit_test(the_odd_units_go_round),
        cmocka_unit_test(a_root_is_the_greatest_whose_square_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
