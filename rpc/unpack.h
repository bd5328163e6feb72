/* Unpack: reads MessagePack values one after another out of bytes that are all there. Ours, because the peer's bytes
 * decide nothing here but where to read: no count is believed before it is held against the bytes that remain, and
 * nothing is allocated. (Debian's msgpack-c 4.0.0 takes 512 MiB for a five-byte array header.)
 *
 * Thread: any. Pure. Memory: none; texts are borrowed from the bytes. On any error nothing was consumed.
 * All: HR_E_TRUNCATED: the value does not end within the bytes. HR_E_CORRUPT: it is no MessagePack.
 * HR_E_INVALID: it is another kind of value. */
#ifndef HR_RPC_UNPACK_H
#define HR_RPC_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/load.h"
#include "base/span.h"
#include "rpc/head.h"

struct hr_unpacker {
    struct hr_span left; /* not read yet; starts as all the bytes */
};

/* What the next value is, without reading it. */
HR_MUST enum hr_err hr_unpack_peek(const struct hr_unpacker *unpacker, enum hr_kind *ret_kind);

/* Steps over the next value whole, with all that is in it; *ret_value is its bytes.
 * HR_E_TOO_MANY: it is nested deeper than HR_NESTING_MAX. O(heads in it). */
HR_MUST enum hr_err hr_unpack_skip(struct hr_unpacker *unpacker, struct hr_span *ret_value);

HR_MUST enum hr_err hr_unpack_nil(struct hr_unpacker *unpacker);
HR_MUST static inline enum hr_err hr_unpack_bool(struct hr_unpacker *unpacker, bool *ret_value);

/* An integer of any width. HR_E_INVALID also for one below 0, and for floating point, even if it is whole. */
HR_MUST static inline enum hr_err hr_unpack_whole(struct hr_unpacker *unpacker, uint64_t *ret_value);

/* HR_E_RANGE: it is above 2^63 - 1. */
HR_MUST enum hr_err hr_unpack_signed(struct hr_unpacker *unpacker, int64_t *ret_value);

/* str or bin. */
HR_MUST static inline enum hr_err hr_unpack_text(struct hr_unpacker *unpacker, struct hr_span *ret_text);

/* The head of a container: its count values, or pairs of values, come next. As many bytes, or twice as many, remain. */
HR_MUST static inline enum hr_err hr_unpack_array(struct hr_unpacker *unpacker, uint32_t *ret_count);
HR_MUST static inline enum hr_err hr_unpack_map(struct hr_unpacker *unpacker, uint32_t *ret_count);

/* --- inline, for what most values are: small, and with a head of one byte --- */

/* The same for any value. */
HR_MUST enum hr_err hr_unpack_any_bool(struct hr_unpacker *unpacker, bool *ret_value);
HR_MUST enum hr_err hr_unpack_any_whole(struct hr_unpacker *unpacker, uint64_t *ret_value);
HR_MUST enum hr_err hr_unpack_any_text(struct hr_unpacker *unpacker, struct hr_span *ret_text);
HR_MUST enum hr_err hr_unpack_any_array(struct hr_unpacker *unpacker, uint32_t *ret_count);
HR_MUST enum hr_err hr_unpack_any_map(struct hr_unpacker *unpacker, uint32_t *ret_count);

/* The first byte of the next value; where there is none, the one that begins no value. */
static inline uint8_t hr_unpack_first(const struct hr_unpacker *unpacker)
{
    return unpacker->left.bytes > 0 ? (uint8_t)unpacker->left.at[0] : 0xc1;
}

static inline void hr_unpack_step(struct hr_unpacker *unpacker, size_t bytes)
{
    unpacker->left.at += bytes;
    unpacker->left.bytes -= bytes;
}

static inline enum hr_err hr_unpack_bool(struct hr_unpacker *unpacker, bool *ret_value)
{
    uint8_t first = hr_unpack_first(unpacker);
    if ((first & 0xfe) != 0xc2) {
        return hr_unpack_any_bool(unpacker, ret_value);
    }
    *ret_value = (first & 1) != 0;
    hr_unpack_step(unpacker, 1);
    return HR_OK;
}

/* In one byte, or in a field of 1, 2, 4 or 8, read as if it were of 8 where so many are there. */
static inline enum hr_err hr_unpack_whole(struct hr_unpacker *unpacker, uint64_t *ret_value)
{
    uint8_t first = hr_unpack_first(unpacker);
    if (first < 0x80) {
        *ret_value = first;
        hr_unpack_step(unpacker, 1);
        return HR_OK;
    }
    if ((first & 0xfc) != 0xcc || unpacker->left.bytes < 9) {
        return hr_unpack_any_whole(unpacker, ret_value);
    }
    size_t field_bytes = (size_t)1 << (first & 3);
    *ret_value = hr_load64_be(unpacker->left.at + 1) >> (64 - 8 * field_bytes);
    hr_unpack_step(unpacker, 1 + field_bytes);
    return HR_OK;
}

static inline enum hr_err hr_unpack_text(struct hr_unpacker *unpacker, struct hr_span *ret_text)
{
    uint8_t first = hr_unpack_first(unpacker);
    size_t bytes = first & 0x1f;
    if ((first & 0xe0) != 0xa0 || bytes >= unpacker->left.bytes) {
        return hr_unpack_any_text(unpacker, ret_text);
    }
    *ret_text = (struct hr_span){unpacker->left.at + 1, bytes};
    hr_unpack_step(unpacker, 1 + bytes);
    return HR_OK;
}

static inline enum hr_err hr_unpack_array(struct hr_unpacker *unpacker, uint32_t *ret_count)
{
    uint8_t first = hr_unpack_first(unpacker);
    uint32_t count = first & 0xf;
    if ((first & 0xf0) != 0x90 || count >= unpacker->left.bytes) {
        return hr_unpack_any_array(unpacker, ret_count);
    }
    *ret_count = count;
    hr_unpack_step(unpacker, 1);
    return HR_OK;
}

static inline enum hr_err hr_unpack_map(struct hr_unpacker *unpacker, uint32_t *ret_count)
{
    uint8_t first = hr_unpack_first(unpacker);
    uint32_t count = first & 0xf;
    if ((first & 0xf0) != 0x80 || 2 * count >= unpacker->left.bytes) {
        return hr_unpack_any_map(unpacker, ret_count);
    }
    *ret_count = count;
    hr_unpack_step(unpacker, 1);
    return HR_OK;
}

#endif
