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

/* Reads the head at the start of bytes.
 * HR_E_TRUNCATED: it does not end within bytes. HR_E_CORRUPT: no value begins like that (0xc1). O(1). */
HR_MUST enum hr_err hr_head_read(struct hr_span bytes, struct hr_head *ret_head);

#endif
