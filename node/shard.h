/* Shard: one worker's share of a node: its limiter, its requests, and what of it the store is to know.
 *
 * A shard is a state machine. Events go in: a request (serve), a result of the store (persisted), a new limit set
 * (load). Effects come out as data: the answer, at once or by next_answer; the batch that is due, by next_batch; and
 * when to come back, by deadline. It knows no socket, file, clock or thread, and shares nothing with other shards; the
 * production driver and the simulator drive it alike.
 *
 * A request whose limit spends only what the store knows (durability reserved) may have to wait for the store. It is
 * then kept here, and answered when the store has answered. There is one batch on its way at a time: what comes
 * meanwhile goes with the next.
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
#include "node/metrics_text.h"
#include "node/replies.h"
#include "node/topk.h"
#include "rpc/fault.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/method.h"
#include "rpc/params.h"
#include "rpc/reply.h"
#include "storage/batch.h"

/* A request that waits for the store is kept with what of its answer there is already: a check_many may stop in the
 * middle. */
#define HR_WAITING_PARAMS_BYTES_MAX HR_FRAME_BYTES_MAX
#define HR_WAITING_ANSWER_BYTES_MAX (1U << 20)

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
};

/* A request, and whom to answer. */
struct hr_call {
    uint64_t connection; /* the driver's name for it, never used twice */
    uint64_t msgid;
    enum hr_method method;
    struct hr_span params; /* a whole map; borrowed for the call */
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
    uint64_t records;                 /* put or deleted */
    uint64_t restored, restored_late; /* counters and leases at start; those left out because there was no room */
};

struct hr_shard;

size_t hr_shard_bytes(const struct hr_shard_config *config);

/* NULL: memory is too small, or a size out of range. The memory is zero-filled, 64-byte aligned, and borrowed for the
 * shard's life. */
HR_MUST struct hr_shard *hr_shard_init(const struct hr_shard_config *config, void *memory, size_t memory_bytes);

/* As hr_limiter_load. */
HR_MUST enum hr_err hr_shard_load(struct hr_shard *shard, const struct hr_limit_set *set, struct hr_now now);

/* Carries out one request. The packer begins empty. */
enum hr_served hr_shard_serve(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                              struct hr_packer *out);

/* What to give to the store now, if anything is due and nothing is on its way: borrowed until persisted is called with
 * the ticket. force: all that has changed, whether due or not. */
const struct hr_store_batch *hr_shard_next_batch(struct hr_shard *shard, struct hr_now now, bool force,
                                                 uint64_t *ret_ticket);

/* The store has answered the ticket. */
void hr_shard_persisted(struct hr_shard *shard, uint64_t ticket, enum hr_err err, struct hr_now now);

/* The next answer of a request that waited; *ret_call says whose (its params are not to be looked at). False: none is
 * ready. */
bool hr_shard_next_answer(struct hr_shard *shard, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call);

/* Until when nothing need be done but on events: the next flush, or a deadline of the sweep. */
hr_ns hr_shard_deadline(const struct hr_shard *shard);

/* Work that comes with time: sweeps a part of the table, so that a whole pass takes some ten seconds. */
void hr_shard_tick(struct hr_shard *shard, struct hr_now now);

/* Before a clean stop: no request will come any more, nothing is on its way. The batches that next_batch then gives
 * (with force) say just what was spent. */
void hr_shard_drain(struct hr_shard *shard);

/* At start, once for each record that was loaded; elapsed_ns: since it was saved. */
void hr_shard_restore_counter(struct hr_shard *shard, const struct hr_counter_image *image, int64_t elapsed_ns,
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

#endif
