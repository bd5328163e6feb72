#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/lend.h"
#include "region/lend_plan.h"

static const uint32_t WEIGHTS[] = {3, 1, 2, 1, 1};

static struct hr_lend_rule rule_of(uint64_t rate, uint64_t period_ns, uint64_t burst)
{
    struct hr_lend_numbers numbers = {rate, period_ns, burst, 200, 0};
    struct hr_lend_rule rule;
    hr_lend_rule_init(&rule, &numbers, 5, WEIGHTS);
    return rule;
}

/* From one in 366 days to the largest numbers that a limit may have. */
static void homes_add_up_to_exactly_the_rate_and_the_burst(void **state)
{
    static const struct {
        uint64_t rate, period_ns, burst;
        bool is_pooled, mints_at_home;
    } rows[] = {
        {1, HR_PERIOD_NS_MAX, 1, true, false},
        {1, 1000000000, 3, true, false},
        {1, 1000000000, 4, true, true},
        {16, 1000000000, 15, true, false},
        {1, 1000000000, 15, true, true},
        {1, 1000000000, 16, false, false},
        {1000, 1000000000, 1000, false, false},
        {UINT64_C(1000000000), 1000000000, UINT64_C(1000000000), false, false},
        {HR_COST_MAX, 1, HR_COST_MAX, false, false},
        {HR_COST_MAX, HR_PERIOD_NS_MAX, 1, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hr_lend_rule rule = rule_of(rows[i].rate, rows[i].period_ns, rows[i].burst);
        for (uint64_t hash = 0; hash < 100; hash++) {
            struct hr_lend_homes homes;
            int64_t rate = 0, depth = 0;
            hr_lend_homes_of(&rule, hash, &homes);
            for (uint32_t k = 0; k < 5; k++) {
                rate += homes.rate[k];
                depth += homes.depth[k];
            }
            if (rate != rule.rate || depth != rule.depth || rule.is_pooled != rows[i].is_pooled ||
                rule.mints_at_home != rows[i].mints_at_home) {
                fail_msg("row %zu, hash %llu", i, (unsigned long long)hash);
            }
        }
        assert_true(rule.rate >> rule.scale.shift == (int64_t)rows[i].rate);
        assert_true(rule.depth >> rule.scale.shift == (int64_t)rows[i].burst);
    }
}

static void a_pooled_counter_is_at_home_in_one_region_as_often_as_its_weight_says(void **state)
{
    struct hr_lend_rule rule = rule_of(1, 1000000000, 1);
    uint32_t homes_at[5] = {0};
    (void)state;
    for (uint64_t hash = 0; hash < 800; hash++) {
        struct hr_lend_homes homes;
        hr_lend_homes_of(&rule, hash, &homes);
        for (uint32_t k = 0; k < 5; k++) {
            homes_at[k] += homes.depth[k] > 0;
            assert_true(homes.depth[k] == 0 || homes.depth[k] == rule.depth);
        }
    }
    for (uint32_t k = 0; k < 5; k++) {
        assert_int_equal(homes_at[k], 100 * WEIGHTS[k]);
    }
}

static void a_plan_lends_what_is_over_to_those_who_lack(void **state)
{
    static const struct {
        int64_t demands[3], gives[3]; /* homes 100 each, reserve 20; as region 0 sees it */
    } rows[] = {
        {{0, 0, 0}, {0, 0, 0}},       {{90, 90, 90}, {0, 0, 0}}, {{0, 0, 300}, {0, 0, 80}}, /* all but the reserve */
        {{0, 300, 300}, {0, 40, 40}},                                                       /* shared */
        {{300, 300, 300}, {0, 0, 0}},                                                       /* to each its home */
        {{50, 0, 110}, {0, 0, 10}}, /* 110 and a quarter of headroom, half of it from each lender */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hr_lend_view view = {
            .count = 3, .reserve_permille = 200, .homes = {100, 100, 100}, .weights = {1, 1, 1}};
        struct hr_lend_plan plan;
        for (uint32_t k = 0; k < 3; k++) {
            view.demands[k] = rows[i].demands[k];
        }
        hr_lend_plan(&view, &plan);
        for (uint32_t k = 0; k < 3; k++) {
            if (plan.gives[k] > rows[i].gives[k] + 5 || plan.gives[k] < rows[i].gives[k] - 5) {
                fail_msg("row %zu: %lld to region %u", i, (long long)plan.gives[k], k);
            }
        }
    }
}

static void nobody_plans_to_lend_its_reserve(void **state)
{
    struct hr_rng rng = {20261130};
    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct hr_lend_view view = {.count = 1 + (uint32_t)hr_rng_below(&rng, HR_REGIONS_MAX), .reserve_permille = 300};
        struct hr_lend_plan plan;
        int64_t given = 0;
        view.self = (uint32_t)hr_rng_below(&rng, view.count);
        for (uint32_t k = 0; k < view.count; k++) {
            view.homes[k] = (int64_t)(hr_rng_next(&rng) >> (9 + hr_rng_below(&rng, 50)));
            view.demands[k] = (int64_t)(hr_rng_next(&rng) >> (9 + hr_rng_below(&rng, 50)));
            view.weights[k] = (int64_t)hr_rng_below(&rng, 1000);
        }
        hr_lend_plan(&view, &plan);
        for (uint32_t k = 0; k < view.count; k++) {
            assert_true(plan.gives[k] >= 0 && plan.gets[k] >= 0);
            given += plan.gives[k];
        }
        int64_t home = view.homes[view.self];
        assert_true(given <= home - hr_mul_div(home, 300, 1000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(homes_add_up_to_exactly_the_rate_and_the_burst),
        cmocka_unit_test(a_pooled_counter_is_at_home_in_one_region_as_often_as_its_weight_says),
        cmocka_unit_test(a_plan_lends_what_is_over_to_those_who_lack),
        cmocka_unit_test(nobody_plans_to_lend_its_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
