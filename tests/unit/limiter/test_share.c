#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/share.h"

#define YEAR_NS (INT64_C(366) * HR_S_PER_DAY * HR_NS_PER_S)

static void every_rate_and_burst_of_the_contract_has_a_unit(void **state)
{
    static const struct {
        uint64_t rate, burst;
        uint32_t shift;
    } rows[] = {
        {1, 1, 20},          {1000000000, 1000000000, 20}, {HR_COST_MAX, 1, 4},
        {1, HR_COST_MAX, 4}, {UINT64_C(1) << 38, 1, 20},   {(UINT64_C(1) << 38) + 1, 1, 18},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (hr_share_shift(rows[i].rate, rows[i].burst) != rows[i].shift) {
            fail_msg("row %zu", i);
        }
    }
}

/* However often it is looked at, a bucket gets exactly rate x time, rounded down once. */
static void nothing_drifts_however_often_it_is_looked_at(void **state)
{
    static const struct hr_share_scale scales[] = {
        {1000000000, 20}, {(uint64_t)YEAR_NS, 20}, {7, 4}, {1, 4}, {999999937, 20}};
    struct hr_rng rng = {11};
    (void)state;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct hr_share often, once;
        struct hr_price price = {(int64_t)(hr_rng_next(&rng) >> 40), HR_SHARE_UNITS_MAX};
        hr_ns now = 0;
        hr_share_init(&often, 0);
        hr_share_init(&once, 0);
        hr_share_set_price(&often, price, price, INT64_MAX);
        hr_share_set_price(&once, price, price, INT64_MAX);
        for (int step = 0; step < 1000; step++) {
            now += (hr_ns)hr_rng_below(&rng, scales[i].period_ns >> (i == 1 ? 3 : 0));
            hr_share_advance(&often, &scales[i], now);
        }
        hr_share_advance(&once, &scales[i], now);
        if (often.level != once.level || often.rest != once.rest) {
            fail_msg("scale %zu: %lld and %lld", i, (long long)often.level, (long long)once.level);
        }
    }
}

static void the_largest_numbers_do_not_overflow(void **state)
{
    static const struct hr_share_scale scale = {1, 4};
    struct hr_price price = {HR_SHARE_UNITS_MAX, HR_SHARE_UNITS_MAX};
    struct hr_share share;
    (void)state;
    hr_share_init(&share, 0);
    hr_share_set_price(&share, price, price, INT64_MAX);
    hr_share_advance(&share, &scale, HR_TIME_NS_MAX);
    assert_true(share.level == HR_SHARE_UNITS_MAX);
    hr_share_ask(&share, &scale, HR_COST_MAX);
    hr_share_ask(&share, &scale, UINT64_MAX);
    assert_true(share.asked <= HR_SHARE_UNITS_MAX);
    assert_false(hr_share_fits(&share, &scale, UINT64_MAX));
    hr_share_take(&share, &scale, HR_COST_MAX);
    assert_true(share.level >= 0);
    assert_int_equal(hr_share_retry_ms(&share, &scale, UINT64_MAX), HR_NEVER_MS);
}

static void a_borrowed_price_ends_at_its_time_whoever_looks_when(void **state)
{
    static const struct hr_share_scale scale = {1000000000, 20};
    struct hr_price rich = {100 << 20, 100 << 20}, poor = {10 << 20, 20 << 20};
    struct hr_share share;
    (void)state;
    hr_share_init(&share, 0);
    hr_share_set_price(&share, rich, poor, HR_NS_PER_S / 10);
    hr_share_advance(&share, &scale, HR_NS_PER_S * 6 / 10); /* 10 at the rich price, 5 at the poor */
    assert_true(share.level == 15 << 20);
    assert_true(share.price.cap == poor.cap);
    hr_share_advance(&share, &scale, 100 * HR_NS_PER_S);
    assert_true(share.level == poor.cap);
    hr_share_advance(&share, &scale, 0); /* an earlier time changes nothing */
    assert_true(share.at == 100 * HR_NS_PER_S);
}

static void waiting_as_long_as_told_is_enough(void **state)
{
    static const struct hr_share_scale scale = {1000000007, 20};
    struct hr_rng rng = {5};
    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct hr_price price = {1 + (int64_t)hr_rng_below(&rng, 1 << 22), 50 << 20};
        struct hr_share share;
        hr_share_init(&share, 0);
        hr_share_set_price(&share, price, price, INT64_MAX);
        hr_share_advance(&share, &scale, (hr_ns)hr_rng_below(&rng, 1 << 30));
        uint64_t cost = 1 + hr_rng_below(&rng, 50);
        int64_t wait_ms = hr_share_retry_ms(&share, &scale, cost);
        hr_share_advance(&share, &scale, share.at + wait_ms * HR_NS_PER_MS);
        assert_true(hr_share_fits(&share, &scale, cost));
    }
}

static void an_escrow_spends_what_is_permitted_and_known_to_the_log(void **state)
{
    struct hr_escrow escrow = {.label = INT64_MIN};
    (void)state;
    hr_escrow_enter(&escrow, 5);
    assert_true(escrow.wants_notice);
    assert_false(hr_escrow_fits(&escrow, 1));
    escrow.permission = 10;
    escrow.charged = 4;
    hr_escrow_take(&escrow, 4);
    assert_false(hr_escrow_fits(&escrow, 1));
    assert_true(hr_escrow_waits(&escrow, 6));
    assert_false(hr_escrow_waits(&escrow, 7));
    escrow.charged = UINT64_MAX;
    assert_true(hr_escrow_fits(&escrow, 6));
    hr_escrow_enter(&escrow, 4); /* a clock that steps back reopens nothing */
    assert_true(escrow.used == 4 && escrow.label == 5);
    hr_escrow_give_back(&escrow, 9);
    assert_true(escrow.used == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rate_and_burst_of_the_contract_has_a_unit),
        cmocka_unit_test(nothing_drifts_however_often_it_is_looked_at),
        cmocka_unit_test(the_largest_numbers_do_not_overflow),
        cmocka_unit_test(a_borrowed_price_ends_at_its_time_whoever_looks_when),
        cmocka_unit_test(waiting_as_long_as_told_is_enough),
        cmocka_unit_test(an_escrow_spends_what_is_permitted_and_known_to_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
