/* Unsigned 128-bit integers for exact intermediates: a product of two 64-bit numbers always fits.
 *
 * A struct of two words rather than the compiler's __int128, so that states can hold it at 8-byte alignment,
 * ISO C stays pedantic-clean, and a prover that knows no __int128 can reason from the contracts below.
 * All functions are pure; overflow is the caller's to exclude and is stated as a precondition.
 *
 * The declarations carry the contracts, in ACSL, which tests/proof relies on; the bodies after them are hidden from
 * the prover and held to the contracts by tests/unit/base/test_u128.c. */
#ifndef HR_BASE_U128_H
#define HR_BASE_U128_H

#include <stdbool.h>
#include <stdint.h>

struct hr_u128 {
    uint64_t hi;
    uint64_t lo;
};

/*@ logic integer hr_u128_value(struct hr_u128 a) = a.hi * 0x10000000000000000 + a.lo; */

/* a x b. Never overflows. */
/*@ assigns \nothing;
    ensures hr_u128_value(\result) == a * b; */
static inline struct hr_u128 hr_u128_mul(uint64_t a, uint64_t b);

/* a + b. Requires: the sum is below 2^128. */
/*@ requires hr_u128_value(a) + hr_u128_value(b) < 0x100000000000000000000000000000000;
    assigns \nothing;
    ensures hr_u128_value(\result) == hr_u128_value(a) + hr_u128_value(b); */
static inline struct hr_u128 hr_u128_add(struct hr_u128 a, struct hr_u128 b);

/* a - b, or 0 where b is larger. */
/*@ assigns \nothing;
    ensures hr_u128_value(\result) == \max(0, hr_u128_value(a) - hr_u128_value(b)); */
static inline struct hr_u128 hr_u128_sub_floor(struct hr_u128 a, struct hr_u128 b);

/*@ assigns \nothing;
    ensures \result <==> hr_u128_value(a) <= hr_u128_value(b); */
static inline bool hr_u128_le(struct hr_u128 a, struct hr_u128 b);

/*@ assigns \nothing;
    ensures \result <==> hr_u128_value(a) == 0; */
static inline bool hr_u128_is_zero(struct hr_u128 a);

/* floor(a / b). Requires: b > 0. */
/*@ requires b > 0;
    assigns \nothing;
    ensures hr_u128_value(\result) * b <= hr_u128_value(a) < (hr_u128_value(\result) + 1) * b; */
static inline struct hr_u128 hr_u128_div(struct hr_u128 a, uint64_t b);

/* ceil(a / b). Requires: b > 0. */
/*@ requires b > 0;
    assigns \nothing;
    ensures (hr_u128_value(\result) - 1) * b < hr_u128_value(a) <= hr_u128_value(\result) * b; */
static inline struct hr_u128 hr_u128_div_ceil(struct hr_u128 a, uint64_t b);

/* a, or max where a is larger. */
/*@ assigns \nothing;
    ensures \result == \min(hr_u128_value(a), max); */
static inline uint64_t hr_u128_saturate(struct hr_u128 a, uint64_t max);

#ifndef __FRAMAC__
__extension__ typedef unsigned __int128 hr_u128_wide;

static inline hr_u128_wide hr_u128_widen(struct hr_u128 a)
{
    return ((hr_u128_wide)a.hi << 64) | a.lo;
}

static inline struct hr_u128 hr_u128_narrow(hr_u128_wide a)
{
    return (struct hr_u128){(uint64_t)(a >> 64), (uint64_t)a};
}

static inline struct hr_u128 hr_u128_mul(uint64_t a, uint64_t b)
{
    return hr_u128_narrow((hr_u128_wide)a * b);
}

static inline struct hr_u128 hr_u128_add(struct hr_u128 a, struct hr_u128 b)
{
    return hr_u128_narrow(hr_u128_widen(a) + hr_u128_widen(b));
}

static inline struct hr_u128 hr_u128_sub_floor(struct hr_u128 a, struct hr_u128 b)
{
    hr_u128_wide x = hr_u128_widen(a), y = hr_u128_widen(b);
    return hr_u128_narrow(x > y ? x - y : 0);
}

static inline bool hr_u128_le(struct hr_u128 a, struct hr_u128 b)
{
    return hr_u128_widen(a) <= hr_u128_widen(b);
}

static inline bool hr_u128_is_zero(struct hr_u128 a)
{
    return a.hi == 0 && a.lo == 0;
}

static inline struct hr_u128 hr_u128_div(struct hr_u128 a, uint64_t b)
{
    if (a.hi == 0) {
        return (struct hr_u128){0, a.lo / b}; /* the common case: one machine division */
    }
    return hr_u128_narrow(hr_u128_widen(a) / b);
}

static inline struct hr_u128 hr_u128_div_ceil(struct hr_u128 a, uint64_t b)
{
    if (a.hi == 0) {
        return (struct hr_u128){0, a.lo / b + (a.lo % b != 0)};
    }
    hr_u128_wide x = hr_u128_widen(a);
    return hr_u128_narrow(x / b + (x % b != 0));
}

static inline uint64_t hr_u128_saturate(struct hr_u128 a, uint64_t max)
{
    return a.hi != 0 || a.lo > max ? max : a.lo;
}
#endif

#endif
