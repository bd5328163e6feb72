/* Batch: puts and deletes that are committed all or none, in order, in one flat piece of the caller's memory.
 *
 * What is put is sealed at once (record.h), on the thread that builds the batch: the checksum guards it from here on,
 * through queue and disk. Thread: the owner's. Pure. The bytes are for this process alone; the disk never sees their
 * layout. */
#ifndef HR_STORAGE_BATCH_H
#define HR_STORAGE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "storage/record.h"

struct hr_store_batch {
    uint8_t *memory; /* the caller's, borrowed for the batch's life */
    size_t bytes_max, bytes;
    uint32_t count;     /* puts and deletes */
    uint32_t put_count; /* puts among them */
    bool is_lent;       /* to a store: the memory stays as it is until the store has answered, and need not be copied */
};

void hr_batch_init(struct hr_store_batch *batch, void *memory, size_t bytes_max);

/* Makes it empty again. */
void hr_batch_clear(struct hr_store_batch *batch);

/* What an operation takes up in a batch: a put of this payload, or a delete. */
size_t hr_batch_put_bytes(const struct hr_store_key *key, size_t payload_bytes);
size_t hr_batch_delete_bytes(const struct hr_store_key *key);

/* Each adds one operation, or on error nothing. The payload is copied.
 * HR_E_FULL: no room left. HR_E_RANGE: the payload is over HR_RECORD_PAYLOAD_BYTES_MAX. */
HR_MUST enum hr_err hr_batch_put(struct hr_store_batch *batch, const struct hr_store_key *key, struct hr_span payload);
HR_MUST enum hr_err hr_batch_delete(struct hr_store_batch *batch, const struct hr_store_key *key);

struct hr_batch_op {
    bool is_put;
    struct hr_span key;
    struct hr_span value; /* the sealed record; empty for a delete */
};

/* The operation at *offset, which starts at 0 and is moved behind it. False: there are no more. */
bool hr_batch_next(const struct hr_store_batch *batch, size_t *offset, struct hr_batch_op *ret_op);

#endif
