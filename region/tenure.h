/* Tenure: who may answer for a partition of the region, now; and what that takes: pulses, votes, hand-over, standby
 * copies. The one face of the region's protocols to the node core.
 *
 * The map by rendezvous (partition.h) says who *should* own a partition. Who *does* stands in the charter (charter.h),
 * which the nodes of the region agree on, version by version, by vote (ballot.h). A node answers for a partition only
 * while
 *
 *   1. it holds the partition: the charter gives it, outright or once the node named to give it has done so
 *      (handover.h), and
 *   2. it has a lease: a majority of the charter's nodes has lately answered its pulses (quorum.h).
 *
 * Why no two nodes ever answer for one partition: of the nodes that a charter names for it (its owner and its giver)
 * one holds it at a time, for holding is passed on by one message, sent once the giver has ceased; and a charter that
 * takes a right away unasked needs the votes of a majority of which each has left the loser's pulses unanswered for
 * longer than a lease lasts. The arguments in full are in quorum.h and ballot.h. They hold whatever is cut, lost, late
 * or doubled, and over pauses and restarts, given clocks whose rates differ by at most 1000 ppm, and stores that keep
 * what they said they keep.
 *
 * Two exceptions, both of nodes that know nothing of each other. A node that has never been in touch with another
 * starts alone when it finds nobody for HR_TENURE_ALONE_NS; when two such groups meet, the one of the lower version (of
 * the greater lineage, where they are the same) gives its charter up, and what its counters held is dropped. And an
 * operator's word that a dead member will not return (state LEFT) is believed.
 *
 * Thread: the owner's. Pure. Memory: handed in, hr_tenure_bytes(). Time: supplied, steady. */
#ifndef HR_REGION_TENURE_H
#define HR_REGION_TENURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "gossip/member.h"
#include "gossip/outbox.h"
#include "limiter/limiter.h"
#include "region/partition.h"
#include "region/place.h"
#include "storage/batch.h"

/* How long a node that has never known a charter looks for one before it makes its own. */
#define HR_TENURE_ALONE_NS (3 * HR_NS_PER_S)

enum hr_standing {
    HR_STANDING_MINE,   /* answer it here, now */
    HR_STANDING_MOVING, /* keep the request for some ms and ask again: the partition is on its way to or from here */
    HR_STANDING_AT,     /* ask that member. What comes *from* that member is to be kept, as MOVING: it has just passed
                           the partition on, and the message that says so is behind the request */
    HR_STANDING_NOBODY, /* nobody may answer, as far as is known here: on_unavailable */
};

/* Kept answers of idempotency ids move with their partition. next: the next one of the partition, from *cursor (0 at
 * first), as bytes of at most HR_TENURE_REPLY_BYTES_MAX; false: no more. apply: puts one in place on the other side.
 * drop: those of a partition that is not this node's any more. is_busy: is something under way that will still change
 * counters of the partition, which takes no new requests any more (a hold that is not settled)? It is handed over when
 * there is not. Each may be NULL. */
#define HR_TENURE_REPLY_BYTES_MAX 65536U /* what else there is to say of a partition goes the same way: core.c */
struct hr_tenure_replies {
    bool (*next)(void *user, uint32_t partition, uint64_t *cursor, struct hr_span *ret_reply);
    void (*apply)(void *user, uint32_t partition, struct hr_span reply, hr_ns now);
    void (*drop)(void *user, uint32_t partition);
    bool (*is_busy)(void *user, uint32_t partition);
    void *user;
};

struct hr_tenure_config {
    const struct hr_members *members; /* with self in it; this and the next two are borrowed for life */
    struct hr_outbox *outbox;
    struct hr_limiter *limiter;
    struct hr_tenure_replies replies;
    uint64_t life;         /* greater than in any life of this node before: its incarnation at start */
    uint64_t lineage;      /* for a charter of its own, should it need one: random, not 0 */
    bool has_seeds;        /* there are others to look for */
    bool saves;            /* its records are kept (hr_tenure_next_record); else it says nothing by vote for a while
                              after each start, and trusts that no two restarts come close */
    uint32_t nodes_max;    /* of the region, 1 to HR_REGION_NODES_MAX */
    uint32_t stream_bytes; /* in flight to each other node; 0: HR_TENURE_STREAM_BYTES */
};

#define HR_TENURE_STREAM_BYTES (256U << 10)

struct hr_tenure;

/* 0: a size is out of range. */
size_t hr_tenure_bytes(const struct hr_tenure_config *config);

/* NULL: memory is too small, or a size is out of range. Memory is zero-filled and 64-byte aligned. */
HR_MUST struct hr_tenure *hr_tenure_init(const struct hr_tenure_config *config, hr_ns now, void *memory,
                                         size_t memory_bytes);

/* --- what it knows survives --- */

/* At start, before the first tick: each record of the kind HR_RECORD_TENURE. HR_E_CORRUPT: not such a record. */
HR_MUST enum hr_err hr_tenure_restore(struct hr_tenure *tenure, const struct hr_record *record, hr_ns now);

/* Adds the records that have changed to a batch, if any have, and *ret_mark to tell the store's answer by. False: none
 * have, or the batch has less than HR_TENURE_BATCH_BYTES of room. They are few, and votes wait for them: such a batch
 * should not wait for the flush interval. */
#define HR_TENURE_BATCH_BYTES (96U << 10)
bool hr_tenure_next_record(struct hr_tenure *tenure, struct hr_store_batch *batch, uint64_t *ret_mark);
bool hr_tenure_is_unsaved(const struct hr_tenure *tenure);

/* The store has answered the batch of that mark. */
void hr_tenure_saved(struct hr_tenure *tenure, uint64_t mark, bool is_stored, hr_ns now);

/* --- events --- */

/* A letter of the kinds PULSE, STREAM and TENURE, from a member (its index) of this region. */
void hr_tenure_receive(struct hr_tenure *tenure, enum hr_letter_kind kind, uint32_t from, struct hr_span body,
                       struct hr_now now);
void hr_tenure_tick(struct hr_tenure *tenure, struct hr_now now);

/* Until when it need not be ticked but for events. */
hr_ns hr_tenure_deadline(const struct hr_tenure *tenure);

/* The table of members has another view. */
void hr_tenure_members_changed(struct hr_tenure *tenure, hr_ns now);

/* A clean stop: from the first call on everything is handed over. True: it is, and the region goes on without this
 * node; only then may it say that it left. Where it cannot be done in time, stop without a word: dead is the truth. */
bool hr_tenure_leave(struct hr_tenure *tenure, hr_ns now);

/* There is nobody to hand over to: all others are leaving too, or are gone. A node that leaves may stop then, as one
 * that goes without a word: what its store holds is what it comes back with. */
bool hr_tenure_is_last(const struct hr_tenure *tenure);

/* --- the path of a request: O(1) --- */

/* *ret_member is written for HR_STANDING_AT. */
enum hr_standing hr_tenure_standing(const struct hr_tenure *tenure, uint32_t partition, hr_ns now,
                                    uint32_t *ret_member);

/* What its pulses say of a member's clock (place.h). */
struct hr_heard hr_tenure_heard(const struct hr_tenure *tenure, uint64_t member);

/* Adds one to the count of each partition whose standing is HR_STANDING_MINE. O(HR_PARTITIONS). */
void hr_tenure_add_mine(const struct hr_tenure *tenure, hr_ns now, uint8_t counts[HR_PARTITIONS]);

/* Index of the member that the charter names, whether it can answer or not; HR_MEMBER_NONE: there is none, or it is not
 * in the table of members. */
uint32_t hr_tenure_owner(const struct hr_tenure *tenure, uint32_t partition);
uint32_t hr_tenure_standby(const struct hr_tenure *tenure, uint32_t partition);

/* Has this node the partition, and is it about to hand it over? Whatever its lease. */
enum hr_holding { HR_HOLDING_NOT, HR_HOLDING, HR_HOLDING_GIVING };
enum hr_holding hr_tenure_holding(const struct hr_tenure *tenure, uint32_t partition);

/* Version of the charter that last changed who may have the partition; and what that goes back to (0: there is no
 * charter). */
uint32_t hr_tenure_epoch(const struct hr_tenure *tenure, uint32_t partition);
uint64_t hr_tenure_lineage(const struct hr_tenure *tenure);

/* --- standby copies --- */

/* The shard's batch goes to the standbys of its records too. Borrowed until copied says true; one at a time: calling it
 * again gives the one before up. */
void hr_tenure_copy(struct hr_tenure *tenure, const struct hr_store_batch *batch, uint64_t ticket, struct hr_now now);

/* Have all standbys that are alive got what was in the batch of this ticket? One that dies meanwhile is not waited for;
 * it gets whole copies when it is back. */
bool hr_tenure_copied(const struct hr_tenure *tenure, uint64_t ticket);

/* --- for status --- */
struct hr_tenure_counts {
    uint64_t version;   /* of the charter */
    uint64_t taken;     /* partitions that came by hand-over */
    uint64_t given;     /* ... and that went */
    uint64_t inherited; /* partitions that came because their owner died */
    uint64_t lapses;    /* times that the lease ran out */
    uint64_t refused;   /* bytes of peers that made no sense */
    uint64_t left_out;  /* images for which there was no room here, or no limit */
    uint32_t held;      /* partitions held now */
    bool has_lease;
};
struct hr_tenure_counts hr_tenure_counts(const struct hr_tenure *tenure, hr_ns now);

#endif
