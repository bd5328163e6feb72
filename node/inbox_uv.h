/* Inbox: packets of other nodes on their way from the threads that receive them to the loop that takes them.
 *
 * Bounded: what finds no room is dropped and counted, for every protocol between nodes is made for loss. The loop is
 * woken once for all that is waiting.
 *
 * Thread: put from any; the rest from the loop's. Memory: one block of the heap. */
#ifndef HR_NODE_INBOX_UV_H
#define HR_NODE_INBOX_UV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/span.h"

struct hr_inbox {
    uv_mutex_t lock;
    uint8_t *filling, *taken; /* the loop empties the one while the other fills: lengths and packets */
    size_t bytes_max;
    size_t filling_bytes, taken_bytes, taken_at;
    uint64_t dropped;
};

/* HR_E_MEMORY. Requires: bytes_max holds the longest packet and 4 bytes more. */
HR_MUST enum hr_err hr_inbox_open(struct hr_inbox *inbox, size_t bytes_max);
void hr_inbox_close(struct hr_inbox *inbox);

/* True: the inbox was empty, and the loop is to be woken. */
bool hr_inbox_put(struct hr_inbox *inbox, struct hr_span packet);

/* The next packet, good until the next call. False: there is none. */
bool hr_inbox_next(struct hr_inbox *inbox, struct hr_span *ret_packet);

/* Packets for which there was no room, so far. Any thread. */
uint64_t hr_inbox_dropped(struct hr_inbox *inbox);

#endif
