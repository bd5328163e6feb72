#include "region/waterfill.h"

#include <stdbool.h>

uint64_t hr_isqrt(uint64_t n)
{
    uint64_t root = 0;
    for (uint64_t bit = UINT64_C(1) << 31; bit > 0; bit >>= 1) {
        uint64_t next = root | bit;
        if (next * next <= n) {
            root = next;
        }
    }
    return root;
}

static int64_t sum_of(uint32_t count, const int64_t *numbers, const bool *is_left_out)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        sum += is_left_out[k] ? 0 : numbers[k];
    }
    return sum;
}

void hr_waterfill(uint32_t count, const int64_t *needs, const int64_t *weights, int64_t whole, int64_t *ret_parts)
{
    bool is_settled[HR_REGIONS_MAX] = {false};
    for (uint32_t k = 0; k < count; k++) {
        ret_parts[k] = 0;
        is_settled[k] = weights[k] <= 0;
    }
    for (;;) {
        int64_t weight = sum_of(count, weights, is_settled), used = 0;
        bool any = false;
        if (weight <= 0 || whole <= 0) {
            return;
        }
        for (uint32_t k = 0; k < count; k++) {
            int64_t part = is_settled[k] ? 0 : hr_mul_div(whole, weights[k], weight);
            if (!is_settled[k] && needs[k] <= part) { /* satisfied: what is over goes to the rest */
                ret_parts[k] = needs[k];
                used += needs[k];
                is_settled[k] = any = true;
            }
        }
        if (any) {
            whole -= used;
            continue;
        }
        for (uint32_t k = 0; k < count; k++) {
            ret_parts[k] = is_settled[k] ? ret_parts[k] : hr_mul_div(whole, weights[k], weight);
        }
        return;
    }
}

/* What the division of whole x weight by the sum of weights leaves. */
static uint64_t remainder_of(int64_t whole, int64_t weight, int64_t sum, int64_t part)
{
    struct hr_u128 product = hr_u128_mul((uint64_t)whole, (uint64_t)weight);
    return hr_u128_sub_floor(product, hr_u128_mul((uint64_t)part, (uint64_t)sum)).lo;
}

void hr_split(uint32_t count, const int64_t *weights, int64_t whole, uint64_t turn, int64_t *ret_parts)
{
    bool none[HR_REGIONS_MAX] = {false}, has_odd[HR_REGIONS_MAX] = {false};
    int64_t sum = sum_of(count, weights, none), left = whole;
    for (uint32_t k = 0; k < count; k++) {
        ret_parts[k] = sum > 0 ? hr_mul_div(whole, weights[k], sum) : 0;
        left -= ret_parts[k];
    }
    for (; sum > 0 && left > 0; left--) {
        uint32_t best = count;
        uint64_t most = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t k = (uint32_t)((turn + i) % count);
            uint64_t rest = remainder_of(whole, weights[k], sum, ret_parts[k] - has_odd[k]);
            if (!has_odd[k] && weights[k] > 0 && (best == count || rest > most)) {
                best = k;
                most = rest;
            }
        }
        has_odd[best] = true;
        ret_parts[best]++;
    }
}
