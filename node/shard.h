/* Shard: one worker's share of a node: its limiter, its requests, and what of it the store is to know.
 *
 * A shard is a state machine. Events go in: a request (serve), a result of the store (persisted), a new limit set
 * (load). Effects come out as data: the answer, at once or by next_answer; the batch that is due, by next_batch; and
 * when to come back, by deadline. It knows no socket, file, clock or thread, and shares nothing with other shards; the
 * production driver and the simulator drive it alike.
 *
 * A request whose limit spends only what the store knows (durability reserved) may have to wait for the store. It is
 * then kept here (waiting.h), and answered when the store has answered. There is one batch on its way at a time: what
 * comes meanwhile goes with the next. Counters go to the store as a log (counter_log.h).
 *
 * Thread: one at a time. Memory: handed in, hr_shard_bytes(); no heap. Time: supplied. */
#ifndef HR_NODE_SHARD_H
#define HR_NODE_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "limiter/limiter.h"
#include "limiter/save.h"
#include "node/counter_log.h"
#include "node/metrics_text.h"
#include "node/replies.h"
#include "node/topk.h"
#include "node/waiting.h"
#include "rpc/fault.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/method.h"
#include "rpc/params.h"
#include "rpc/reply.h"
#include "storage/batch.h"
#include "storage/record.h"

/* The texts of all requests that wait for the store, with what of their answers there is already (a check_many may stop
 * in the middle), take at most this much for each of waiting_max, and this much more. */
#define HR_WAITING_BYTES_EACH 1024
#define HR_WAITING_BYTES_MORE (4U << 20)

/* Longer than this no request waits for the store: it is refused as UNAVAILABLE. */
#define HR_WAITING_NS_MAX HR_NS_PER_S

/* Bytes of one batch for the store. */
#define HR_SHARD_BATCH_BYTES (4U << 20)

struct hr_shard_config {
    struct hr_limiter_sizes sizes; /* saves: false where the node keeps nothing */
    struct hr_hash_key secret;
    struct hr_span node, region; /* names; borrowed for init only */
    uint64_t first_serial;       /* random, so that leases of two runs never share a name */
    hr_ns flush_interval_ns;     /* how long a change may wait before it is given to the store */
    uint32_t waiting_max;        /* requests that may wait for the store */
    size_t replies_bytes;        /* answers to requests with an id, kept for 60 s */
    uint32_t replies_max;
    uint32_t hot_keys_max;
    struct hr_slice slice; /* among the shards of its node */
};

enum hr_served {
    HR_SERVED_ANSWERED,  /* the whole answer has been packed */
    HR_SERVED_WAITING,   /* it will come out of next_answer */
    HR_SERVED_ELSEWHERE, /* not a shard's method: the node answers it */
};

struct hr_shard_counts {
    uint64_t decisions, denied; /* requests decided, and denied */
    uint64_t peeks;
    uint64_t waited;   /* for the store */
    uint64_t repeated; /* answered from an earlier one, by id */
    uint64_t faults;   /* requests answered with an error */
    uint64_t batches, batches_failed;
    uint64_t records;                 /* put or deleted, each counter one */
    uint64_t restored, restored_late; /* counters and leases at start; those left out because there was no room */
};

struct hr_shard;

size_t hr_shard_bytes(const struct hr_shard_config *config);

/* NULL: memory is too small, or a size out of range. The memory is zero-filled, 64-byte aligned, and borrowed for the
 * shard's life. */
HR_MUST struct hr_shard *hr_shard_init(const struct hr_shard_config *config, void *memory, size_t memory_bytes);

/* As hr_limiter_load. */
HR_MUST enum hr_err hr_shard_load(struct hr_shard *shard, const struct hr_limit_set *set, struct hr_now now);

/* Before requests that came together are carried out: reads the checks among the first HR_TOGETHER_MAX and has the
 * memory of their counters fetched. Answers are the same without. What it notes in the calls holds until it is called
 * again; what their params point to must stay until then. */
#define HR_TOGETHER_MAX 16
void hr_shard_prepare(struct hr_shard *shard, struct hr_call *calls, uint32_t count);

/* The same for one by itself: what was noted in others holds on. */
void hr_shard_prepare_one(struct hr_shard *shard, struct hr_call *call);

/* Carries out one request. The packer begins empty. */
enum hr_served hr_shard_serve(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                              struct hr_packer *out);

/* What to give to the store now, if anything is due and nothing is on its way: borrowed until persisted is called with
 * the ticket. force: all that has changed, whether due or not. */
const struct hr_store_batch *hr_shard_next_batch(struct hr_shard *shard, struct hr_now now, bool force,
                                                 uint64_t *ret_ticket);

/* The store has answered the ticket. */
void hr_shard_persisted(struct hr_shard *shard, uint64_t ticket, enum hr_err err, struct hr_now now);

/* While a request waits, its counters may move to another node, and must not be spent here any more. So before it is
 * tried again this is asked whether it is still to be decided here. NULL: always. The user is borrowed for the life of
 * the shard. */
typedef bool hr_shard_is_here(void *user, const struct hr_call *call, struct hr_now now);
void hr_shard_set_is_here(struct hr_shard *shard, hr_shard_is_here *is_here, void *user);

/* The next answer of a request that waited; *ret_call says whose (its params are not to be looked at). Nothing packed:
 * it is not to be decided here any more, nothing was charged, and it may go elsewhere (its params are good until the
 * next call on the shard). False: none is ready. */
bool hr_shard_next_answer(struct hr_shard *shard, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call);

/* Until when nothing need be done but on events: the next flush, or a deadline of the sweep. */
hr_ns hr_shard_deadline(const struct hr_shard *shard);

/* Work that comes with time: sweeps a part of the table, so that a whole pass takes some ten seconds. */
void hr_shard_tick(struct hr_shard *shard, struct hr_now now);

/* Before a clean stop: no request will come any more, nothing is on its way. The batches that next_batch then gives
 * (with force) say just what was spent. */
void hr_shard_drain(struct hr_shard *shard);

/* At start, once for each record that was loaded, in order; elapsed_ns: since it was saved. Counters first. A lease
 * that is over is deleted from the store. What belongs to another shard of the node is left out. HR_E_CORRUPT: the
 * record makes no sense (from some place on). */
HR_MUST enum hr_err hr_shard_restore_counters(struct hr_shard *shard, const struct hr_record *segment,
                                              int64_t elapsed_ns, struct hr_now now);

/* The same where the store was written by another number of shards: any segment may hold counters of any shard, and
 * what this one takes will be saved anew. */
HR_MUST enum hr_err hr_shard_restore_moved(struct hr_shard *shard, const struct hr_record *segment, int64_t elapsed_ns,
                                           struct hr_now now);
void hr_shard_restore_lease(struct hr_shard *shard, const struct hr_lease_image *image, int64_t elapsed_ns,
                            struct hr_now now);

struct hr_shard_counts hr_shard_counts(const struct hr_shard *shard);
struct hr_limiter *hr_shard_limiter(struct hr_shard *shard);
struct hr_metrics_use hr_shard_replies(const struct hr_shard *shard); /* bytes of kept answers */

/* One decision in so many is looked at for hot keys: a sketch costs more than a decision. What it counts is to be
 * multiplied. */
#define HR_HOT_KEYS_SAMPLE 8U
const struct hr_topk *hr_shard_hot_keys(const struct hr_shard *shard);

/* Since when the oldest change has waited for the store, or now where none has. */
hr_ns hr_shard_oldest_change(const struct hr_shard *shard, hr_ns now);

/* What a node that decides together with others needs of its shard (core.h). */
struct hr_shard_parts {
    struct hr_replies *replies; /* of checks under id_secret, of refunds under refund_secret */
    const struct hr_hash_key *id_secret, *refund_secret;
    const struct hr_origin *origin;
    uint64_t *serial; /* of the next request: leases are named by it */
    struct hr_shard_counts *counts;
};
struct hr_shard_parts hr_shard_parts(struct hr_shard *shard);

/* The counters that a prepared call touches; NULL: it was not prepared, or they are not known. */
const struct hr_prepared *hr_shard_prepared(const struct hr_shard *shard, const struct hr_call *call);

/* Requests that wait are to be tried again: the log of a global cap has gone on. */
void hr_shard_wake(struct hr_shard *shard);

/* A counter has changed by other hands: the store is to know. */
void hr_shard_note_change(struct hr_shard *shard, hr_ns now);

#endif
