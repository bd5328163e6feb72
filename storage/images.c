#include "storage/images.h"

#include "storage/le.h"

#define ID_KEY_BYTES 17 /* kind, id */

/* Ids are big-endian in keys (record.h). */
static struct hr_id128 id_of_key(struct hr_span key)
{
    struct hr_id128 id = {0, 0};
    for (size_t i = 0; i < 8; i++) {
        id.hi = id.hi << 8 | (uint8_t)key.at[1 + i];
        id.lo = id.lo << 8 | (uint8_t)key.at[9 + i];
    }
    return id;
}

static bool is_of(const struct hr_record *record, enum hr_record_kind kind)
{
    return record->kind == kind && record->key.bytes == ID_KEY_BYTES;
}

static bool is_instant(hr_ns at)
{
    return at >= 0 && at <= HR_TIME_NS_MAX;
}

size_t hr_lease_encode(const struct hr_lease_image *image, uint8_t out[HR_LEASE_BYTES])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_LEASE_BYTES);
    hr_le_write_id(&writer, image->counter);
    hr_le_write_id(&writer, image->limit);
    hr_le_write_u64(&writer, image->slots);
    hr_le_write_i64(&writer, image->remaining_ns);
    hr_le_write_i64(&writer, image->saved_at);
    return writer.used;
}

enum hr_err hr_lease_decode(const struct hr_record *record, struct hr_lease_image *ret_image)
{
    if (!is_of(record, HR_RECORD_LEASE)) {
        return HR_E_CORRUPT;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    struct hr_lease_image image = {.id = id_of_key(record->key)};
    image.counter = hr_le_read_id(&reader);
    image.limit = hr_le_read_id(&reader);
    image.slots = hr_le_read_u64(&reader);
    image.remaining_ns = hr_le_read_i64(&reader);
    image.saved_at = hr_le_read_i64(&reader);
    bool is_sound = image.slots >= 1 && image.slots <= HR_COST_MAX && image.remaining_ns >= 0 &&
                    image.remaining_ns <= HR_PERIOD_NS_MAX && is_instant(image.saved_at);
    if (!hr_le_is_at_end(&reader) || !is_sound) {
        return HR_E_CORRUPT;
    }
    *ret_image = image;
    return HR_OK;
}

void hr_batch_put_lease(struct hr_store_batch *batch, const struct hr_lease_image *image)
{
    uint8_t payload[HR_LEASE_BYTES];
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_LEASE, image->id);
    struct hr_span span = {(const char *)payload, hr_lease_encode(image, payload)};
    enum hr_err err = hr_batch_put(batch, &key, span);
    (void)err; /* there is room */
}

void hr_batch_delete_lease(struct hr_store_batch *batch, struct hr_id128 lease)
{
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_LEASE, lease);
    enum hr_err err = hr_batch_delete(batch, &key);
    (void)err; /* there is room */
}

bool hr_batch_op_is_of(const struct hr_batch_op *op, enum hr_record_kind kind, struct hr_id128 *ret_id)
{
    if (op->key.bytes != ID_KEY_BYTES || (uint8_t)op->key.at[0] != (uint8_t)kind) {
        return false;
    }
    *ret_id = id_of_key(op->key);
    return true;
}
