#include "node/command/loadgen.h"

#include <math.h>
#include <string.h>

#include "limiter/limit.h"
#include "rpc/message.h"

#define NS_PER_S UINT64_C(1000000000)

/* Where the msgid's four bytes begin: behind 0x94, 0x00 and 0xce. */
#define MSGID_AT 3

/* Keys. The hat over the frequencies is x^-skew; its area up to x, from 1, and the inverse of that. Both are written so
 * that they are exact also where the skew is 1 or near to it. */

static double area(const struct hr_load_keys *keys, double x)
{
    double power = 1.0 - keys->skew, log_x = log(x);
    return fabs(power * log_x) < 1e-8 ? log_x : expm1(power * log_x) / power;
}

static double area_inverse(const struct hr_load_keys *keys, double y)
{
    double power = 1.0 - keys->skew, inner = power * y;
    if (inner <= -1.0) {
        inner = -1.0 + 1e-15; /* only rounding leads here */
    }
    return fabs(inner) < 1e-8 ? exp(y) : exp(log1p(inner) / power);
}

static double hat(const struct hr_load_keys *keys, double x)
{
    return pow(x, -keys->skew);
}

void hr_load_keys_init(struct hr_load_keys *keys, uint64_t count, double skew, uint64_t seed)
{
    *keys = (struct hr_load_keys){.rng = {seed}, .count = count, .skew = skew};
    if (skew > 0.0) {
        keys->area_first = area(keys, 1.5) - 1.0;
        keys->area_last = area(keys, (double)count + 0.5);
        keys->sure = 2.0 - area_inverse(keys, area(keys, 2.5) - hat(keys, 2.0));
    }
}

/* In (0, 1]. */
static double unit(struct hr_rng *rng)
{
    return (double)((hr_rng_next(rng) >> 11) + 1) * 0x1p-53;
}

uint64_t hr_load_keys_next(struct hr_load_keys *keys)
{
    if (!(keys->skew > 0.0)) {
        return hr_rng_below(&keys->rng, keys->count);
    }
    for (;;) {
        double y = keys->area_last + unit(&keys->rng) * (keys->area_first - keys->area_last);
        double x = area_inverse(keys, y), last = (double)keys->count;
        double rank = floor(x + 0.5);
        rank = rank < 1.0 ? 1.0 : rank > last ? last : rank;
        if (rank - x <= keys->sure || y >= area(keys, rank + 0.5) - hat(keys, rank)) {
            return (uint64_t)rank - 1;
        }
    }
}

/* Requests */

enum hr_err hr_load_request_init(struct hr_load_request *request, const struct hr_load_check *check)
{
    struct hr_packer packer = {.at = request->at, .room = sizeof(request->at)};
    if (check->attribute.bytes > HR_ATTRIBUTE_NAME_BYTES_MAX) {
        return HR_E_RANGE;
    }
    hr_pack_request_head(&packer, UINT32_MAX, HR_SPAN("check")); /* takes five bytes, as each msgid written later */
    hr_pack_map(&packer, 2 + (check->cost != 1));
    hr_pack_text(&packer, HR_SPAN("attributes"));
    hr_pack_map(&packer, 1);
    hr_pack_text(&packer, check->attribute);
    hr_pack_text(&packer, HR_SPAN("k0000000000"));
    request->key_at = (uint32_t)packer.wanted - HR_LOAD_KEY_DIGITS;
    if (check->cost != 1) {
        hr_pack_text(&packer, HR_SPAN("cost"));
        hr_pack_whole(&packer, check->cost);
    }
    hr_pack_text(&packer, HR_SPAN("detail"));
    hr_pack_bool(&packer, check->detail);
    request->bytes = (uint32_t)packer.wanted;
    return HR_OK;
}

void hr_load_request_write(const struct hr_load_request *request, uint32_t msgid, uint64_t key, char *ret_bytes)
{
    memcpy(ret_bytes, request->at, request->bytes);
    for (int i = 3; i >= 0; i--) {
        ret_bytes[MSGID_AT + i] = (char)(msgid & 0xff);
        msgid >>= 8;
    }
    for (int i = HR_LOAD_KEY_DIGITS - 1; key > 0; i--) {
        ret_bytes[request->key_at + (uint32_t)i] = (char)('0' + key % 10);
        key /= 10;
    }
}

uint64_t hr_load_due_ns(const struct hr_load_schedule *schedule, uint64_t index)
{
    uint64_t seconds = index / schedule->per_second, rest = index % schedule->per_second;
    return schedule->start_ns + seconds * NS_PER_S + rest * NS_PER_S / schedule->per_second;
}

/* An index is due while its moment, rounded down, is not after now: so its exact moment is before the next nanosecond.
 */
uint64_t hr_load_due_count(const struct hr_load_schedule *schedule, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - schedule->start_ns;
    uint64_t rest = (since_ns % NS_PER_S + 1) * schedule->per_second;
    return since_ns / NS_PER_S * schedule->per_second + rest / NS_PER_S + (rest % NS_PER_S != 0);
}

/* Results */

uint64_t hr_load_per_second(const struct hr_load_result *result)
{
    uint64_t us = result->elapsed_ns / 1000; /* so that no product overflows within 18 * 10^12 answers */
    return us > 0 ? result->latency.count * 1000000 / us : 0;
}

uint64_t hr_load_quantile_us(const struct hr_load_result *result, uint32_t per_mille)
{
    return (hr_histogram_quantile(&result->latency, per_mille) + 999) / 1000;
}
