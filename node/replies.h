/* Replies: the answers of requests that carried an idempotency id, so that a retry gets the first answer again and
 * consumes nothing (contract, section 3). Whoever answers a request with an id goes through
 *
 *   hr_replies_begin   the id is new: it is claimed, and room for its answer is set aside
 *                      the id is pending: its first request is still being answered; the retry must wait, or be told
 *                      the id is known: here is the answer
 *   hr_replies_finish  keeps the answer of a claimed id, for HR_REPLY_KEPT_NS from now
 *   hr_replies_abandon gives a claim up: nothing was consumed, a retry starts afresh
 *
 * Room is set aside before anything is consumed, so that an answer which was paid for can always be kept. Where there
 * is none, begin says so; no answer is ever dropped before its time. A claim holds until it is finished or abandoned.
 *
 * Identities are keyed hashes of the ids: an id itself is not stored.
 * Thread: the caller's. Pure: `now` is steady time. Memory: handed in. Every call is O(1) on average, besides copying,
 * and forgetting what has expired. */
#ifndef HR_NODE_REPLIES_H
#define HR_NODE_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/units.h"
#include "node/id_index.h"
#include "region/partition.h"
#include "rpc/reply.h"

#define HR_REPLY_KEPT_NS (60 * HR_NS_PER_S)
#define HR_REPLY_BYTES_MAX 65536U

struct hr_replies_sizes {
    uint32_t count_max; /* ids, pending and known, 1 to HR_ID_INDEX_COUNT_MAX */
    uint64_t bytes_max; /* of all answers together, HR_REPLY_BYTES_MAX or more */
};

enum hr_reply_state {
    HR_REPLY_NEW,     /* now pending, for the caller to finish or to abandon */
    HR_REPLY_PENDING, /* somebody else's to finish */
    HR_REPLY_KNOWN,
};

/* An answer, in two parts because it may lie around the end of the ring; the second is often empty. Borrowed until the
 * next begin or finish. */
struct hr_reply {
    struct hr_span parts[2];
};

struct hr_reply_slot {
    struct hr_id128 id;
    hr_ns expires_at;
    uint64_t begin;         /* of its answer, in bytes since start; the place in the ring is begin modulo bytes_max */
    uint32_t bytes;         /* of its answer; while pending, set aside for it */
    uint32_t state;         /* enum hr_reply_state */
    uint32_t next;          /* the next younger known one, or the next free one; HR_SLOT_NONE: there is none */
    uint32_t partition;     /* it moves with this one; HR_REPLY_UNFILED: with none */
    uint32_t before, after; /* of those filed with that partition; HR_SLOT_NONE: none */
    uint64_t number;        /* of its filing: rises along those of a partition */
};

#define HR_REPLY_UNFILED UINT32_MAX

/* Those that move with one partition, in the order in which they were filed. */
struct hr_reply_file {
    uint32_t first, last;
};

struct hr_replies {
    struct hr_replies_sizes sizes;
    struct hr_reply_slot *slots;
    struct hr_id_index index;
    struct hr_reply_file *files; /* HR_PARTITIONS */
    uint64_t filed;              /* so far */
    char *ring;
    uint32_t free;             /* first of the free slots */
    uint32_t oldest, youngest; /* known ones, in the order in which they were finished and so expire */
    uint32_t pending_count, known_count;
    uint64_t begin, end; /* of the bytes in the ring, counted since start */
    uint64_t set_aside;  /* bytes */
};

void hr_replies_init(struct hr_replies *replies, const struct hr_replies_sizes *sizes, struct hr_bump *bump);

/* What is known of id; a new one becomes pending with bytes_max bytes set aside, at most HR_REPLY_BYTES_MAX.
 * *ret_reply is written where the state is HR_REPLY_KNOWN. HR_E_FULL: the id is new, and there is no room; nothing has
 * changed. */
HR_MUST enum hr_err hr_replies_begin(struct hr_replies *replies, struct hr_id128 id, uint32_t bytes_max, hr_ns now,
                                     enum hr_reply_state *ret_state, struct hr_reply *ret_reply);

/* Requires: id is pending. The answer is copied. HR_E_RANGE: it is longer than what was set aside for it; the id is
 * pending still. */
HR_MUST enum hr_err hr_replies_finish(struct hr_replies *replies, struct hr_id128 id, struct hr_span answer, hr_ns now);

/* Requires: id is pending. */
void hr_replies_abandon(struct hr_replies *replies, struct hr_id128 id);

/* Says with which partition of the region's counters, below HR_PARTITIONS, the answer of a known id moves. */
void hr_replies_file(struct hr_replies *replies, struct hr_id128 id, uint32_t partition);

/* Answers on their way to another node. next: the next one of a partition, from *cursor (0 at first), as at most
 * HR_REPLY_MOVED_BYTES_MAX bytes at `out`; its bytes, 0: no more. O(those of the partition) a call. apply: puts one in
 * place, where its id is not known here; it is kept for the whole time from now. False: the bytes make no sense, or
 * there is no room. */
#define HR_REPLY_MOVED_BYTES_MAX (16 + HR_DECISION_BYTES_MAX)
size_t hr_replies_next(struct hr_replies *replies, uint32_t partition, hr_ns now, uint64_t *cursor, uint8_t *out);
bool hr_replies_apply(struct hr_replies *replies, uint32_t partition, struct hr_span bytes, hr_ns now);

/* Forgets what has expired. begin and finish do it themselves. */
void hr_replies_expire(struct hr_replies *replies, hr_ns now);

#endif
