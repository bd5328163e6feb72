#include "storage/identity.h"

#include "storage/le.h"

struct hr_store_key hr_saved_identity_key(void)
{
    return (struct hr_store_key){.bytes = 9, .at = {HR_RECORD_META, 'i', 'd', 'e', 'n', 't', 'i', 't', 'y'}};
}

static void write_name(struct hr_le_writer *writer, struct hr_span name)
{
    hr_le_write_u8(writer, (uint8_t)name.bytes);
    hr_le_write_bytes(writer, name.at, name.bytes);
}

size_t hr_saved_identity_encode(const struct hr_saved_identity *identity, uint8_t out[HR_SAVED_IDENTITY_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_SAVED_IDENTITY_BYTES_MAX);
    hr_le_write_u32(&writer, identity->format);
    write_name(&writer, identity->cluster);
    write_name(&writer, identity->node);
    return writer.used;
}

static struct hr_span read_name(struct hr_le_reader *reader)
{
    uint8_t bytes = hr_le_read_u8(reader);
    if (bytes > HR_STORE_NAME_BYTES_MAX) {
        reader->failed = true;
    }
    return hr_le_read_bytes(reader, bytes);
}

/* A newer format may say more behind the format's number; that number alone is then enough to know. */
enum hr_err hr_saved_identity_decode(const struct hr_record *record, struct hr_saved_identity *ret_identity)
{
    if (record->kind != HR_RECORD_META) {
        return HR_E_CORRUPT;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    struct hr_saved_identity identity = {.format = hr_le_read_u32(&reader)};
    if (!reader.failed && identity.format > HR_STORE_FORMAT) {
        *ret_identity = identity;
        return HR_OK;
    }
    identity.cluster = read_name(&reader);
    identity.node = read_name(&reader);
    if (!hr_le_is_at_end(&reader)) {
        return HR_E_CORRUPT;
    }
    *ret_identity = identity;
    return HR_OK;
}
