/* Counter log: how a shard's counters come to the store. Segments (storage/segment.h) of what has changed, under
 * numbers that go up, put into the shard's batch; and when the oldest may go.
 *
 * Folding: when the log has grown to twice what it held after the last fold, and some more, a refresh of the limiter
 * begins (limiter/save.h). When it has ended and all that was to be saved is in the store, every live counter stands in
 * a segment younger than the refresh; all older ones are deleted. So the log is a few times as large as what is live,
 * and nothing is ever read to clean it up.
 *
 * Thread: the shard's. Pure. Memory: the struct alone. */
#ifndef HR_NODE_COUNTER_LOG_H
#define HR_NODE_COUNTER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "limiter/limiter.h"
#include "limiter/save.h"
#include "node/slice.h"
#include "storage/batch.h"
#include "storage/segment.h"

/* The log is not folded below this. */
#define HR_COUNTER_LOG_BYTES_MIN (UINT64_C(1) << 20)

struct hr_counter_log {
    struct hr_slice slice;
    uint64_t first, next; /* numbers of the segments that may be in the store: from first to below next */
    uint64_t fold_from;   /* segments below it go when the fold ends, or are going; 0: nothing to be deleted */
    bool is_folding;
    uint64_t bytes_before, bytes_since; /* of segments below fold_from, and of those from there on */
    uint64_t bytes_folded;              /* after the last fold; 0: none yet */
    struct hr_segment_writer segment;   /* what is not in the batch yet */
    uint8_t memory[HR_SEGMENT_BYTES_MAX];
};

void hr_counter_log_init(struct hr_counter_log *log, struct hr_slice slice);

/* Is there room in the batch for one more counter, and for all that is to be closed with it? */
bool hr_counter_log_has_room(const struct hr_counter_log *log, const struct hr_store_batch *batch);

/* Require room. */
void hr_counter_log_put(struct hr_counter_log *log, struct hr_store_batch *batch, const struct hr_counter_image *image);
void hr_counter_log_put_debts(struct hr_counter_log *log, struct hr_store_batch *batch,
                              const struct hr_counter_image *shared, const struct hr_debt *debts, uint32_t count);
void hr_counter_log_forget(struct hr_counter_log *log, struct hr_store_batch *batch, struct hr_id128 counter,
                           hr_ns now);

/* Puts what is left into the batch, before the batch goes. */
void hr_counter_log_close(struct hr_counter_log *log, struct hr_store_batch *batch);

/* Folding, before anything else is put into a batch: begins a refresh where it is time, and adds deletes of segments
 * that nobody needs, as many as have room. */
void hr_counter_log_fold(struct hr_counter_log *log, struct hr_limiter *limiter, struct hr_store_batch *batch);

/* All that there was to be saved when the refresh had ended is in the store. */
void hr_counter_log_end_fold(struct hr_counter_log *log);

/* At start, for each segment that was loaded, in order: its place in the log. One of another slice only says where this
 * one goes on. is_moved: so do all, for the store is laid out for another number of slices. HR_E_CORRUPT: it has none.
 */
HR_MUST enum hr_err hr_counter_log_note_loaded(struct hr_counter_log *log, const struct hr_record *record,
                                               bool is_moved, bool *ret_is_own);

#endif
