#include "chaos/dice.h"

/* log2(x) with 16 bits behind the point, for x of 1 or more with 32 bits behind the point: its whole part by shifting,
 * then one bit for each squaring (Knuth, The Art of Computer Programming 1, 1.2.2, exercise 28). */
static uint64_t log2_fixed(uint64_t x)
{
    uint64_t result = 0;
    while (x >= UINT64_C(2) << 32) {
        x >>= 1;
        result += UINT64_C(1) << 16;
    }
    for (uint64_t bit = UINT64_C(1) << 15; bit > 0; bit >>= 1) {
        x = (x >> 1) * (x >> 1) >> 30; /* below 2^66 without the halves */
        if (x >= UINT64_C(2) << 32) {
            x >>= 1;
            result += bit;
        }
    }
    return result;
}

/* -ln((2i + 1) / 2n) = log2(2n / (2i + 1)) ln 2, of the middle of each step. */
void hr_dice_waits_init(struct hr_dice_waits *ret_waits)
{
    const uint64_t ln2 = 45426; /* ln 2 with 16 bits behind the point */
    for (uint64_t i = 0; i < HR_DICE_STEPS; i++) {
        uint64_t ratio = ((UINT64_C(2) * HR_DICE_STEPS) << 32) / (2 * i + 1);
        ret_waits->quantile[i] = (uint32_t)(log2_fixed(ratio) * ln2 >> 16);
    }
}
