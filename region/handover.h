/* Hand-over: what of a partition goes from node to node, over the stream between the two.
 *
 * Whole: BEGIN, IMAGES.., REPLY.., END. To the owner that takes a partition over: the giver has frozen it, so that the
 * images are what it is, and the END is what passes it on; or to the standby, as a copy, while the partition is in use.
 * What stood there and does not come with it is dropped at the END. Since a partition is one in 4,096, it needs no
 * sending ahead: some hundred kilobytes at ten million counters, which take a few ms.
 *
 * In part: COPY, what of the holder's last batch for its store the standby is to have too.
 *
 * A standby gives what it has of a partition to its own store, with its next batch: so a copy outlives its restart.
 * What came within its last flush interval before a crash does not.
 *
 * Every message says by which charter it was sent, and waits with the receiver until that one knows it as well. What it
 * says is then taken from the node that the charter names, and from no other.
 *
 * A message, little-endian: kind 1, lineage 8, version 8, partition 2, epoch 4, flags 1, then
 *     IMAGES, COPY  length of a segment 4, the segment (storage/segment.h; 0: none), leases: each a kind 1, an id 16,
 *                   and for a put the payload of storage/images.h
 *     REPLY         bytes of the node's own (tenure.h)
 *     CAP           to the standby: the payload of a record of the kind HR_RECORD_CAP, as the holder gave it to its
 *                   store
 * Durations only, counted from the sending: the way is taken to last no time, which leaves a debt as it was.
 *
 * Thread: the owner's. Pure. */
#ifndef HR_REGION_HANDOVER_H
#define HR_REGION_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/range.h"
#include "storage/segment.h"

struct hr_tenure;
struct hr_peer;

/* On the wire: never renumbered. */
enum hr_hand_kind {
    HR_HAND_BEGIN = 1,
    HR_HAND_IMAGES = 2,
    HR_HAND_REPLY = 3,
    HR_HAND_END = 4,
    HR_HAND_COPY = 5,
    HR_HAND_CAP = 6,
};
enum hr_hand_lease { HR_HAND_LEASE_PUT = 1, HR_HAND_LEASE_END = 2, HR_HAND_LEASE_NONE = 3 };

#define HR_HAND_HEAD_BYTES 24
#define HR_HAND_GIVES 1U /* it passes the partition on; else it is a copy */
#define HR_HAND_EMPTY 2U /* there is nothing to add to what the receiver has */

/* A partition on its way out. */
struct hr_departure {
    bool is_active, is_begun, is_give, is_empty;
    bool has_images; /* all of them are on their way */
    uint32_t partition, epoch;
    struct hr_range_cursor cursor;
    struct hr_id128 lease_counter; /* whose leases came last */
    uint64_t reply_cursor;
    uint32_t scan;  /* where to look for the next one */
    bool has_given; /* there is none to be given, */
    bool is_idle;   /* ... nor one to be copied */
};

/* A partition on its way in. */
struct hr_arrival {
    bool is_active, is_wanted;
    uint8_t flags;
    uint32_t partition, epoch;
};

/* Messages that a stream must have room for, before part of a batch is put into it. */
#define HR_COPY_MESSAGES 3

/* A message in the making. */
#define HR_HAND_LEASE_BYTES_MAX (8U << 10)
struct hr_handover_scratch {
    struct hr_segment_writer segment;
    uint8_t memory[HR_SEGMENT_BYTES_MAX];
    uint8_t leases[HR_HAND_LEASE_BYTES_MAX];
    size_t lease_bytes;
    struct hr_counter_image counter;
    struct hr_lease_image lease;
    struct hr_segment_reader reader;
};

/* Puts into the streams what is to go and has room there. */
void hr_handover_pump(struct hr_tenure *tenure, struct hr_now now);

/* Carries one message out. False: it is by a charter that is not known here yet, and is to come again. */
bool hr_handover_take(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span message, struct hr_now now);

/* Another charter is in force: stops what it does not call for any more. */
void hr_handover_review(struct hr_tenure *tenure);

/* The peer is in another life: what was on its way is to go again. */
void hr_handover_restart(struct hr_tenure *tenure, struct hr_peer *peer);

/* Has every standby that is not lost got the batch? */
bool hr_handover_is_copied(const struct hr_tenure *tenure);

/* Drops some of what this node has no part in any more. */
void hr_handover_drop(struct hr_tenure *tenure, struct hr_now now);

#endif
