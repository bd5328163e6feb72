#include "node/layout.h"

#include "storage/le.h"
#include "storage/segment.h"

/* How partitions and workers go together (slice.h) is a part of what is kept: this is added to the number of several. A
 * number alone was kept by one that spread partitions otherwise. */
#define SIDE_BY_SIDE 0x100U

static uint32_t kept_of(uint32_t workers)
{
    return workers > 1 ? workers + SIDE_BY_SIDE : workers;
}

/* Whatever it says: another number than ours has everything laid out anew. */
static uint32_t number_of(uint32_t kept)
{
    return kept > SIDE_BY_SIDE ? kept - SIDE_BY_SIDE : kept == 1;
}

static struct hr_store_key own_key(void)
{
    return (struct hr_store_key){.bytes = 7, .at = {HR_RECORD_META, 'l', 'a', 'y', 'o', 'u', 't'}};
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    uint32_t *workers = user;
    struct hr_store_key key = own_key();
    if (!hr_span_equal(record->key, hr_store_key_span(&key))) {
        return HR_OK;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    uint64_t count = hr_le_read_uint(&reader, 4);
    if (!hr_le_is_at_end(&reader)) {
        return HR_E_CORRUPT;
    }
    *workers = number_of((uint32_t)count);
    return HR_OK;
}

enum hr_err hr_layout_read(struct hr_store *store, uint32_t *ret_workers)
{
    struct hr_store_loaded loaded;
    *ret_workers = 1;
    enum hr_err err = hr_store_load(store, HR_RECORD_META, visit, ret_workers, &loaded);
    *ret_workers = loaded.bad > 0 ? 0 : *ret_workers; /* it may have been this one that is damaged */
    return err;
}

/* --- anew --- */

void hr_relayout_note(struct hr_relayout *relayout, const struct hr_record *segment)
{
    uint64_t number;
    if (hr_segment_number(segment->key, &number) == HR_OK && number < UINT64_MAX / 2) {
        relayout->first = relayout->beyond == 0 ? number : relayout->first;
        relayout->beyond = number + 1;
    }
}

static enum hr_err commit(struct hr_relayout *relayout, const struct hr_store_batch *batch)
{
    uint64_t ticket = HR_CONTROL_TICKETS | ++*relayout->ticket;
    return hr_store_watch_commit(relayout->watch, relayout->store, ticket, batch);
}

static enum hr_err put_layout(struct hr_relayout *relayout, uint32_t workers)
{
    uint8_t memory[256], payload[4];
    struct hr_store_batch batch;
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    struct hr_store_key key = own_key();
    hr_batch_init(&batch, memory, sizeof(memory));
    hr_le_write_uint(&writer, kept_of(workers), sizeof(payload));
    enum hr_err err = hr_batch_put(&batch, &key, (struct hr_span){(const char *)payload, writer.used});
    return err == HR_OK ? commit(relayout, &batch) : err;
}

static enum hr_err save(struct hr_relayout *relayout, struct hr_core *core, struct hr_now now)
{
    const struct hr_store_batch *batch;
    uint64_t ticket;
    enum hr_err err = HR_OK;
    while (err == HR_OK && (batch = hr_core_next_batch(core, now, true, &ticket)) != NULL) {
        err = commit(relayout, batch);
        hr_core_persisted(core, ticket, err, now);
    }
    return err;
}

static enum hr_err delete_old(struct hr_relayout *relayout)
{
    uint8_t memory[16384];
    struct hr_store_batch batch;
    enum hr_err err = HR_OK;
    hr_batch_init(&batch, memory, sizeof(memory));
    for (uint64_t number = relayout->first; number < relayout->beyond && err == HR_OK; number++) {
        struct hr_store_key key = hr_segment_key(number);
        if (hr_batch_delete(&batch, &key) != HR_OK) { /* it is full */
            err = commit(relayout, &batch);
            hr_batch_clear(&batch);
            err = err == HR_OK ? hr_batch_delete(&batch, &key) : err;
        }
    }
    return err == HR_OK && batch.count > 0 ? commit(relayout, &batch) : err;
}

enum hr_err hr_relayout_run(struct hr_relayout *relayout, struct hr_now now)
{
    enum hr_err err = put_layout(relayout, 0);
    for (uint32_t i = 0; i < relayout->count && err == HR_OK; i++) {
        err = save(relayout, relayout->cores[i], now);
    }
    err = err == HR_OK ? delete_old(relayout) : err;
    return err == HR_OK ? put_layout(relayout, relayout->count) : err;
}
