/* Ring: letters from one thread to one other, through bounded memory, without a lock.
 *
 * One thread puts, one takes. What is put is seen by the other side when it is published, all of it together; what was
 * taken is given back when the taker finds nothing more. Each side writes one cache line that the other reads, and no
 * more than once for a batch (Lamport 1983; the cached positions are those of Giacomoni, Moseley and Vachharajani
 * 2008).
 *
 * Letters lie in one piece: where the rest of the memory is too short, it is skipped. A ring that has run empty begins
 * at its start again once it has come some way, so that a little traffic stays in a little memory.
 *
 * Thread: put, has_room and publish are one thread's, next is one other's. Pure. Memory: handed in. O(letter). */
#ifndef HR_NODE_RING_H
#define HR_NODE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define HR_RING_LINE_BYTES 64

struct hr_ring {
    uint8_t *memory;
    uint64_t bytes_max; /* a power of two */

    alignas(HR_RING_LINE_BYTES) _Atomic uint64_t published; /* written by the one that puts; this and the next three */
    uint64_t put;                                           /* positions only grow; modulo bytes_max they are places */
    uint64_t free_from;                                     /* `given_back` as it was last read */

    alignas(HR_RING_LINE_BYTES) _Atomic uint64_t given_back; /* by the one that takes; this and the next two */
    uint64_t taken;
    uint64_t there_to; /* `published` as it was last read */
};

/* Requires: bytes_max is a power of two, HR_RING_BYTES_MIN or more; the memory is aligned to 8. */
#define HR_RING_BYTES_MIN 1024U
void hr_ring_init(struct hr_ring *ring, void *memory, uint32_t bytes_max);

/* The longest letter that a ring of so many bytes holds: one of this length finds room in every ring that is empty. */
static inline size_t hr_ring_letter_bytes_max(uint32_t bytes_max)
{
    return bytes_max / 2 - 16;
}

/* Is there room for a letter of so many bytes? */
bool hr_ring_has_room(struct hr_ring *ring, size_t bytes);

/* Copies a letter. False: there is no room, and nothing was put. */
bool hr_ring_put(struct hr_ring *ring, uint8_t kind, struct hr_span body);

/* Lets the other side see what was put. True: something was. */
bool hr_ring_publish(struct hr_ring *ring);

/* The next letter; good until the next call. False: there is none. */
bool hr_ring_next(struct hr_ring *ring, uint8_t *ret_kind, struct hr_span *ret_body);

#endif
