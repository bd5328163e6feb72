#include "node/secret_mark.h"

#include "storage/le.h"
#include "storage/record.h"

#define MARK_BYTES 16

struct reading {
    struct hr_id128 own;
    enum hr_secret_mark mark;
};

static struct hr_store_key mark_key(void)
{
    return (struct hr_store_key){.bytes = 7, .at = {HR_RECORD_META, 's', 'e', 'c', 'r', 'e', 't'}};
}

static struct hr_id128 mark_of(const struct hr_hash_key *secret)
{
    return hr_keyed_hash(secret, "store", 5);
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct reading *reading = user;
    struct hr_store_key key = mark_key();
    if (!hr_span_equal(record->key, hr_store_key_span(&key))) {
        return HR_OK;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    struct hr_id128 found = hr_le_read_id(&reader);
    if (!hr_le_is_at_end(&reader)) {
        return HR_E_CORRUPT;
    }
    reading->mark = hr_id128_equal(found, reading->own) ? HR_SECRET_SAME : HR_SECRET_OTHER;
    return HR_OK;
}

enum hr_err hr_secret_mark_read(struct hr_store *store, const struct hr_hash_key *secret, enum hr_secret_mark *ret_mark)
{
    struct hr_store_loaded loaded;
    struct reading reading = {mark_of(secret), HR_SECRET_UNMARKED};
    enum hr_err err = hr_store_load(store, HR_RECORD_META, visit, &reading, &loaded);
    if (err == HR_OK) {
        *ret_mark = reading.mark;
    }
    return err;
}

enum hr_err hr_secret_mark_put(const struct hr_hash_key *secret, struct hr_store_batch *batch)
{
    uint8_t payload[MARK_BYTES];
    struct hr_store_key key = mark_key();
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    hr_le_write_id(&writer, mark_of(secret));
    return hr_batch_put(batch, &key, (struct hr_span){(const char *)payload, writer.used});
}
