/* Frame: finds where the next whole MessagePack value ends in bytes that arrive piece by piece. There is no length
 * prefix on the stream, so a value's own heads are all there is to go by. The scan goes on where it stopped: each head
 * is read once, whatever the pieces, and a text is stepped over before it has arrived.
 *
 * A frame that claims more than it may hold is refused as soon as it claims it: every value owed takes a byte at least.
 *
 * Thread: any. Pure. Memory: the struct alone. */
#ifndef HR_RPC_FRAME_H
#define HR_RPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* Bounds of the contract, section 3. */
#define HR_FRAME_BYTES_MAX (UINT32_C(1) << 20)
#define HR_NESTING_MAX 16

struct hr_frame {
    size_t at;     /* where the next head begins; it may lie behind what has arrived. At the end: the frame's size */
    uint64_t owed; /* values whose heads are still to come */
    uint32_t bytes_max;
    uint32_t depth;                /* containers that are open */
    uint32_t left[HR_NESTING_MAX]; /* values still to come in each of them */
};

void hr_frame_init(struct hr_frame *frame, uint32_t bytes_max);

/* Goes on scanning. `arrived` begins where the frame does and only ever grows from call to call.
 * HR_OK: the frame is complete, and frame->at is its size; what lies behind it is the next one's.
 * HR_E_TRUNCATED: more must arrive. HR_E_CORRUPT: no MessagePack. HR_E_RANGE: it is longer than bytes_max.
 * HR_E_TOO_MANY: containers are nested deeper than HR_NESTING_MAX. O(heads that arrived since the last call). */
HR_MUST enum hr_err hr_frame_scan(struct hr_frame *frame, struct hr_span arrived);

/* The size of the value that the bytes begin with, if it is there whole and plain: numbers, truth, nil, texts below 256
 * bytes, containers of at most 15, and so few of them that they cannot be nested deeper than containers_max, however
 * they lie. Else 0, which hr_frame_scan then explains. It keeps nothing, and so is several times quicker. O(heads). */
size_t hr_frame_plain_bytes(struct hr_span bytes, uint32_t containers_max);

#endif
