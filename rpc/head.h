/* Head: the first bytes of a MessagePack value: what it is, and how much comes after (the format's spec.md). All that
 * reads MessagePack here, reads it through this.
 *
 * Thread: any. Pure, no memory. Nothing that a head claims is believed here: the caller holds it against what is there.
 */
#ifndef HR_RPC_HEAD_H
#define HR_RPC_HEAD_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum hr_kind {
    HR_KIND_NIL,
    HR_KIND_BOOL,
    HR_KIND_WHOLE,    /* an integer of 0 or more, whatever its format */
    HR_KIND_NEGATIVE, /* an integer below 0 */
    HR_KIND_REAL,     /* floating point, which nothing here wants: its value is not read */
    HR_KIND_TEXT,     /* str or bin */
    HR_KIND_ARRAY,
    HR_KIND_MAP,
    HR_KIND_EXT,
};

struct hr_head {
    enum hr_kind kind;
    uint32_t bytes;  /* of the head itself; numbers are wholly in it */
    uint32_t length; /* TEXT, EXT: bytes that follow. ARRAY: values that follow. MAP: pairs that follow. Else 0 */
    uint64_t number; /* BOOL: 0 or 1. WHOLE: its value. NEGATIVE: its value in two's complement. Else 0 */
};

/* As hr_head_read, for heads that begin with 0xc0 to 0xdf. */
HR_MUST enum hr_err hr_head_read_long(struct hr_span bytes, struct hr_head *ret_head);

/* What a head of one byte is, by the byte's upper four bits: small numbers, short texts, small containers. */
struct hr_head_short {
    enum hr_kind kind;
    uint32_t length_mask;
    uint64_t number_mask;
};
extern const struct hr_head_short hr_head_shorts[16];

/* Reads the head at the start of bytes. Inline for what most heads are.
 * HR_E_TRUNCATED: it does not end within bytes. HR_E_CORRUPT: no value begins like that (0xc1). O(1). */
HR_MUST static inline enum hr_err hr_head_read(struct hr_span bytes, struct hr_head *ret_head)
{
    if (bytes.bytes == 0) {
        return HR_E_TRUNCATED;
    }
    uint8_t first = (uint8_t)bytes.at[0];
    if (first >= 0xc0 && first < 0xe0) {
        return hr_head_read_long(bytes, ret_head);
    }
    const struct hr_head_short *form = &hr_head_shorts[first >> 4];
    ret_head->kind = form->kind;
    ret_head->bytes = 1;
    ret_head->length = first & form->length_mask;
    ret_head->number = (uint64_t)(int64_t)(int8_t)first & form->number_mask;
    return HR_OK;
}

#endif
