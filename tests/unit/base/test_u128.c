/* 128-bit integers, against the schoolbook: the same operations on four 32-bit limbs, as one would do them by hand.
 * These tests hold the bodies of base/u128.h to the contracts that tests/proof relies on. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/u128.h"

#define LIMBS 4
#define RANDOM_ROUNDS 200000
#define SEED UINT64_C(20240601)

/* Least significant first. */
struct limbs {
    uint32_t at[LIMBS];
};

static struct limbs limbs_of(struct hr_u128 a)
{
    return (struct limbs){{(uint32_t)a.lo, (uint32_t)(a.lo >> 32), (uint32_t)a.hi, (uint32_t)(a.hi >> 32)}};
}

static struct hr_u128 value_of(struct limbs a)
{
    return (struct hr_u128){.hi = (uint64_t)a.at[3] << 32 | a.at[2], .lo = (uint64_t)a.at[1] << 32 | a.at[0]};
}

static int limbs_compare(struct limbs a, struct limbs b)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a.at[i] != b.at[i]) {
            return a.at[i] < b.at[i] ? -1 : 1;
        }
    }
    return 0;
}

static bool limbs_add(struct limbs a, struct limbs b, struct limbs *ret_sum)
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)a.at[i] + b.at[i];
        ret_sum->at[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return carry == 0;
}

/* a - b, where a is not smaller. */
static struct limbs limbs_subtract(struct limbs a, struct limbs b)
{
    struct limbs difference;
    uint32_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        uint64_t taken = (uint64_t)b.at[i] + borrow;
        borrow = a.at[i] < taken;
        difference.at[i] = (uint32_t)(a.at[i] - taken);
    }
    return difference;
}

static struct limbs limbs_multiply(uint64_t a, uint64_t b)
{
    uint32_t x[2] = {(uint32_t)a, (uint32_t)(a >> 32)}, y[2] = {(uint32_t)b, (uint32_t)(b >> 32)};
    struct limbs product = {{0}};
    for (int i = 0; i < 2; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < 2; j++) {
            carry += (uint64_t)x[i] * y[j] + product.at[i + j];
            product.at[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product.at[i + 2] = (uint32_t)carry;
    }
    return product;
}

/* Long division, bit by bit. */
static struct limbs limbs_divide(struct limbs a, uint64_t b, bool *ret_is_exact)
{
    struct limbs quotient = {{0}};
    uint64_t rest = 0;
    for (int bit = 32 * LIMBS - 1; bit >= 0; bit--) {
        bool is_above_64_bits = rest >> 63 != 0;
        rest = rest << 1 | (a.at[bit / 32] >> (bit % 32) & 1);
        if (is_above_64_bits || rest >= b) {
            rest -= b; /* modulo 2^64, which is exact: the true difference is below b */
            quotient.at[bit / 32] |= UINT32_C(1) << (bit % 32);
        }
    }
    *ret_is_exact = rest == 0;
    return quotient;
}

/* Compares, and names the operands where they differ. */
static void expect(const char *operation, struct hr_u128 a, struct hr_u128 b, struct hr_u128 found,
                   struct limbs expected)
{
    struct hr_u128 value = value_of(expected);
    if (found.hi == value.hi && found.lo == value.lo) {
        return;
    }
    fail_msg("%s of %" PRIx64 ":%" PRIx64 " and %" PRIx64 ":%" PRIx64 " is %" PRIx64 ":%" PRIx64 ", expected %" PRIx64
             ":%" PRIx64,
             operation, a.hi, a.lo, b.hi, b.lo, found.hi, found.lo, value.hi, value.lo);
}

static void expect_word(const char *operation, struct hr_u128 a, uint64_t b, uint64_t found, uint64_t expected)
{
    expect(operation, a, (struct hr_u128){0, b}, (struct hr_u128){0, found}, limbs_of((struct hr_u128){0, expected}));
}

static void check_division(struct hr_u128 a, uint64_t b)
{
    bool is_exact;
    struct limbs quotient = limbs_divide(limbs_of(a), b, &is_exact);
    struct hr_u128 divisor = {0, b};
    expect("floor of the quotient", a, divisor, hr_u128_div(a, b), quotient);
    if (!is_exact) {
        assert_true(limbs_add(quotient, (struct limbs){{1}}, &quotient));
    }
    expect("ceiling of the quotient", a, divisor, hr_u128_div_ceil(a, b), quotient);
}

static void check_pair(struct hr_u128 a, struct hr_u128 b)
{
    struct limbs x = limbs_of(a), y = limbs_of(b), sum;
    int order = limbs_compare(x, y);
    if (limbs_add(x, y, &sum)) {
        expect("sum", a, b, hr_u128_add(a, b), sum);
    }
    expect("difference", a, b, hr_u128_sub_floor(a, b), order > 0 ? limbs_subtract(x, y) : (struct limbs){{0}});
    expect_word("order", a, b.lo, hr_u128_le(a, b), order <= 0);
    expect("product", a, b, hr_u128_mul(a.lo, b.lo), limbs_multiply(a.lo, b.lo));
    expect_word("saturation", a, b.lo, hr_u128_saturate(a, b.lo),
                limbs_compare(x, limbs_of((struct hr_u128){0, b.lo})) > 0 ? b.lo : a.lo);
    if (b.lo != 0) {
        check_division(a, b.lo);
    }
}

/* Where carries, borrows and the short way of the division begin and end. */
static const uint64_t edges[] = {
    0,
    1,
    2,
    UINT32_MAX - 1,
    UINT32_MAX,
    (uint64_t)UINT32_MAX + 1,
    (UINT64_C(1) << 53) - 1,
    INT64_MAX,
    UINT64_C(1) << 63,
    UINT64_MAX - 1,
    UINT64_MAX,
};
#define EDGES (sizeof(edges) / sizeof(edges[0]))

static void every_pair_of_edges_agrees_with_the_schoolbook(void **state)
{
    (void)state;
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        struct hr_u128 a = {edges[i / EDGES], edges[i % EDGES]};
        for (size_t j = 0; j < EDGES * EDGES; j++) {
            check_pair(a, (struct hr_u128){edges[j / EDGES], edges[j % EDGES]});
        }
    }
}

/* Of random length, so that short and long numbers meet. */
static struct hr_u128 random_value(struct hr_rng *rng)
{
    struct hr_u128 a = {hr_rng_next(rng), hr_rng_next(rng)};
    uint64_t dropped_bits = hr_rng_below(rng, 128);
    if (dropped_bits >= 64) {
        return (struct hr_u128){0, a.lo >> (dropped_bits - 64)};
    }
    return (struct hr_u128){a.hi >> dropped_bits, a.lo};
}

static void random_pairs_agree_with_the_schoolbook(void **state)
{
    (void)state;
    struct hr_rng rng = {SEED};
    print_message("seed %" PRIu64 "\n", SEED);
    for (int i = 0; i < RANDOM_ROUNDS; i++) {
        struct hr_u128 a = random_value(&rng);
        check_pair(a, random_value(&rng));
    }
}

static void only_zero_is_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        assert_int_equal(hr_u128_is_zero((struct hr_u128){edges[i / EDGES], edges[i % EDGES]}), i == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_edges_agrees_with_the_schoolbook),
        cmocka_unit_test(random_pairs_agree_with_the_schoolbook),
        cmocka_unit_test(only_zero_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
