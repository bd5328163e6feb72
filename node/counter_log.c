#include "node/counter_log.h"

#include "storage/images.h"

/* What a segment takes of a batch besides its payload. */
#define SEGMENT_OVERHEAD_BYTES 64

/* What a counter takes of a segment as a rule. */
#define BYTES_PER_COUNTER 32

static uint64_t stride_of(const struct hr_counter_log *log)
{
    return log->slice.count > 1 ? log->slice.count : 1;
}

/* The first number from there on that is of this slice. */
static uint64_t align(const struct hr_counter_log *log, uint64_t number)
{
    uint64_t stride = stride_of(log);
    return number + (stride + log->slice.number - number % stride) % stride;
}

void hr_counter_log_init(struct hr_counter_log *log, struct hr_slice slice)
{
    log->slice = slice;
    log->fold_from = 0;
    log->first = log->next = slice.count > 1 ? slice.number : 0;
    log->is_folding = false;
    log->bytes_before = log->bytes_since = log->bytes_folded = 0;
    hr_segment_clear(&log->segment, log->memory);
}

bool hr_counter_log_has_room(const struct hr_counter_log *log, const struct hr_store_batch *batch)
{
    size_t wanted = log->segment.used + 2 * SEGMENT_OVERHEAD_BYTES + HR_SEGMENT_COUNTER_BYTES_MAX;
    return batch->bytes_max - batch->bytes >= wanted + HR_IMAGE_BATCH_BYTES_MAX;
}

void hr_counter_log_close(struct hr_counter_log *log, struct hr_store_batch *batch)
{
    if (log->segment.used == 0) {
        return;
    }
    struct hr_store_key key = hr_segment_key(log->next);
    log->next += stride_of(log);
    struct hr_span payload = {(const char *)log->memory, log->segment.used};
    if (hr_batch_put(batch, &key, payload) == HR_OK) { /* it does not fail: room was seen to before */
        log->bytes_since += payload.bytes;
    }
    hr_segment_clear(&log->segment, log->memory);
}

static void make_room(struct hr_counter_log *log, struct hr_store_batch *batch)
{
    if (!hr_segment_has_room(&log->segment)) {
        hr_counter_log_close(log, batch);
    }
}

void hr_counter_log_put(struct hr_counter_log *log, struct hr_store_batch *batch, const struct hr_counter_image *image)
{
    make_room(log, batch);
    hr_segment_put(&log->segment, image);
}

void hr_counter_log_put_debts(struct hr_counter_log *log, struct hr_store_batch *batch,
                              const struct hr_counter_image *shared, const struct hr_debt *debts, uint32_t count)
{
    make_room(log, batch);
    hr_segment_put_debts(&log->segment, shared, debts, count);
}

void hr_counter_log_forget(struct hr_counter_log *log, struct hr_store_batch *batch, struct hr_id128 counter, hr_ns now)
{
    make_room(log, batch);
    hr_segment_forget(&log->segment, counter, now);
}

/* --- folding --- */

/* How much of the log is live: as after the last fold, or as can be told from the counters that were loaded. */
static uint64_t live_bytes(struct hr_counter_log *log, const struct hr_limiter *limiter)
{
    if (log->bytes_folded == 0) {
        log->bytes_folded = (uint64_t)hr_limiter_usage(limiter).counters * BYTES_PER_COUNTER;
    }
    return log->bytes_folded;
}

static void delete_old(struct hr_counter_log *log, struct hr_store_batch *batch)
{
    while (log->first < log->fold_from && hr_counter_log_has_room(log, batch)) {
        struct hr_store_key key = hr_segment_key(log->first);
        if (hr_batch_delete(batch, &key) != HR_OK) {
            return; /* there was room */
        }
        log->first += stride_of(log);
    }
}

void hr_counter_log_fold(struct hr_counter_log *log, struct hr_limiter *limiter, struct hr_store_batch *batch)
{
    uint64_t bytes = log->bytes_before + log->bytes_since;
    if (!log->is_folding) {
        delete_old(log, batch);
    }
    if (log->is_folding || bytes < 2 * live_bytes(log, limiter) + HR_COUNTER_LOG_BYTES_MIN) {
        return;
    }
    log->is_folding = true;
    log->fold_from = log->next;
    log->bytes_before = bytes;
    log->bytes_since = 0;
    hr_limiter_begin_refresh(limiter);
}

void hr_counter_log_end_fold(struct hr_counter_log *log)
{
    log->is_folding = false;
    log->bytes_before = 0;
    log->bytes_folded = log->bytes_since;
}

/* --- at start --- */

enum hr_err hr_counter_log_note_loaded(struct hr_counter_log *log, const struct hr_record *record, bool is_moved,
                                       bool *ret_is_own)
{
    uint64_t number;
    enum hr_err err = hr_segment_number(record->key, &number);
    if (err != HR_OK || number >= UINT64_MAX / 2) {
        return HR_E_CORRUPT;
    }
    bool is_first = log->bytes_before == 0;
    *ret_is_own = !is_moved && hr_slice_has_segment(log->slice, number);
    log->next = align(log, number + 1);
    if (*ret_is_own) {
        log->first = is_first ? number : log->first;
        log->bytes_before += record->payload.bytes;
        log->bytes_folded = 0; /* nobody knows yet what of it is live */
    } else if (is_first) {
        log->first = log->next;
    }
    return HR_OK;
}
