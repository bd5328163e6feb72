/* Stream: messages to one other node, all of them, once each, in order, over letters that may be lost, doubled, late or
 * out of order. Go-back-N: what is not acknowledged in time is sent again from there on; the receiver takes the next
 * message only.
 *
 * A stream joins one life of this node and one of the other. When the other is started anew, all that was on its way is
 * forgotten, on both sides, and the owner of the stream is told (hr_stream_open). A message may be taken later: a
 * receiver that is not ready for it leaves it, and it comes again.
 *
 * A letter's body, little-endian: sender's life 8, receiver's life 8 (0: not known), the number of the first message 8
 * (0: none), the number of the next message awaited 8, then messages, each behind its length 4. Small ones share a
 * letter.
 *
 * Thread: the owner's. Pure. Memory: handed in, a ring of bytes for what is not acknowledged. */
#ifndef HR_REGION_STREAM_H
#define HR_REGION_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/span.h"
#include "base/units.h"

#define HR_STREAM_MESSAGE_BYTES_MAX (72U << 10)
#define HR_STREAM_HEAD_BYTES 32
#define HR_STREAM_LETTER_BYTES_MAX (HR_STREAM_HEAD_BYTES + 4 + HR_STREAM_MESSAGE_BYTES_MAX)

/* No message is added to a letter that is as long as this. */
#define HR_STREAM_SHARE_BYTES (16U << 10)

/* Messages that may be on their way at a time, beside the bound in bytes. */
#define HR_STREAM_MESSAGES_MAX 1024

/* So many bare acknowledgements of the same message say that the next one was lost: it is sent again, once, before its
 * time. */
#define HR_STREAM_REPEATS 3

#define HR_STREAM_RESEND_NS_MIN (50 * HR_NS_PER_MS)
#define HR_STREAM_RESEND_NS_MAX (400 * HR_NS_PER_MS)

struct hr_stream {
    uint64_t own_life, peer_life; /* peer_life 0: not open */
    uint8_t *ring;
    size_t bytes_max;
    uint64_t begin, end;          /* of the bytes in the ring, counted since it was opened */
    uint64_t first, next, unsent; /* numbers: not acknowledged from here; the next one put; not sent from here */
    uint64_t ends[HR_STREAM_MESSAGES_MAX]; /* by number: where its bytes end */
    uint64_t awaited;                      /* of the other's messages */
    hr_ns resend_at, resend_after;
    uint32_t repeats;
    bool owes_ack;
};

/* bytes_max: at least HR_STREAM_MESSAGE_BYTES_MAX. */
void hr_stream_init(struct hr_stream *stream, uint64_t own_life, size_t bytes_max, struct hr_bump *bump);

/* The other node's life is known, or there is a later one. True: this is another life than before, and all that was put
 * is gone. One that is earlier than what is known changes nothing. */
bool hr_stream_open(struct hr_stream *stream, uint64_t peer_life);

/* How long a message may be now; 0 where none fits, or the stream is not open. */
size_t hr_stream_room(const struct hr_stream *stream);

/* Puts one message, in two pieces; returns its number. Requires: there is room. */
uint64_t hr_stream_put(struct hr_stream *stream, struct hr_span head, struct hr_span body);

/* Has the other taken the message of that number (of this opening)? */
static inline bool hr_stream_is_taken(const struct hr_stream *stream, uint64_t number)
{
    return number < stream->first;
}

/* Bytes on their way. */
static inline size_t hr_stream_used(const struct hr_stream *stream)
{
    return (size_t)(stream->end - stream->begin);
}

/* Writes the next letter that is due: its length; 0: none is. */
size_t hr_stream_next_letter(struct hr_stream *stream, hr_ns now, uint8_t out[HR_STREAM_LETTER_BYTES_MAX]);

/* The other may be ready for what it left before: all that it has not acknowledged is due at once. */
void hr_stream_hurry(struct hr_stream *stream);

/* When the next one may be due; INT64_MAX: none. */
hr_ns hr_stream_deadline(const struct hr_stream *stream);

/* Messages of a letter, from the next one awaited on. */
struct hr_stream_letter {
    const char *at;
    size_t bytes, used;
};

/* Takes a letter's body; its messages are to be asked for by hr_stream_next_message. The peer's life is to be looked at
 * first (hr_stream_peer_life), and the stream opened for it. HR_E_CORRUPT: it is no such letter. HR_E_NOT_FOUND: it is
 * of another life of either. */
HR_MUST enum hr_err hr_stream_receive(struct hr_stream *stream, struct hr_span body, hr_ns now,
                                      struct hr_stream_letter *ret_letter);

/* The next message of the other: taken by hr_stream_take when it was carried out, else it comes again, and what is
 * behind it too. False: the letter has no more. */
bool hr_stream_next_message(struct hr_stream_letter *letter, struct hr_span *ret_message);
void hr_stream_take(struct hr_stream *stream);

/* Which life of its sender a letter is from; 0: it is no letter. */
uint64_t hr_stream_peer_life(struct hr_span body);

#endif
