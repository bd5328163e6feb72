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
HR_MUST enum hr_err hr_unpack_bool(struct hr_unpacker *unpacker, bool *ret_value);

/* An integer of any width. HR_E_INVALID also for one below 0, and for floating point, even if it is whole. */
HR_MUST enum hr_err hr_unpack_whole(struct hr_unpacker *unpacker, uint64_t *ret_value);

/* HR_E_RANGE: it is above 2^63 - 1. */
HR_MUST enum hr_err hr_unpack_signed(struct hr_unpacker *unpacker, int64_t *ret_value);

/* str or bin. */
HR_MUST enum hr_err hr_unpack_text(struct hr_unpacker *unpacker, struct hr_span *ret_text);

/* The head of a container: its count values, or pairs of values, come next. As many bytes, or twice as many, remain. */
HR_MUST enum hr_err hr_unpack_array(struct hr_unpacker *unpacker, uint32_t *ret_count);
HR_MUST enum hr_err hr_unpack_map(struct hr_unpacker *unpacker, uint32_t *ret_count);

#endif
