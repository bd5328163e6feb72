#include "storage/record.h"

#include <assert.h>
#include <string.h>

#include "storage/le.h"

#define CHECKSUM_AT 4

static_assert(HR_STORE_KEY_BYTES_MAX <= UINT8_MAX, "a key's length fits its byte");

enum hr_err hr_store_key_make(enum hr_record_kind kind, struct hr_span which, struct hr_store_key *ret_key)
{
    if (which.bytes > HR_STORE_KEY_BYTES_MAX - 1) {
        return HR_E_RANGE;
    }
    *ret_key = (struct hr_store_key){.bytes = (uint8_t)(1 + which.bytes), .at[0] = (uint8_t)kind};
    if (which.bytes > 0) {
        memcpy(ret_key->at + 1, which.at, which.bytes);
    }
    return HR_OK;
}

static void put_be64(uint8_t *at, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

struct hr_store_key hr_store_key_of_id(enum hr_record_kind kind, struct hr_id128 id)
{
    struct hr_store_key key = {.bytes = 17, .at[0] = (uint8_t)kind};
    put_be64(key.at + 1, id.hi);
    put_be64(key.at + 9, id.lo);
    return key;
}

/* The head's first bytes are hashed apart from the payload, since the checksum lies between them. */
static uint64_t checksum(struct hr_span key, const void *head, struct hr_span payload)
{
    uint64_t seed = hr_plain_hash(key.at, key.bytes, 0);
    return hr_plain_hash(payload.at, payload.bytes, hr_plain_hash(head, CHECKSUM_AT, seed));
}

void hr_record_encode(const struct hr_store_key *key, struct hr_span payload, uint8_t *out)
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_RECORD_HEAD_BYTES + payload.bytes);
    hr_le_write_u8(&writer, HR_RECORD_VERSION);
    hr_le_write_u8(&writer, key->at[0]);
    hr_le_write_u16(&writer, 0);
    hr_le_write_u64(&writer, checksum(hr_store_key_span(key), out, payload));
    hr_le_write_bytes(&writer, payload.at, payload.bytes);
}

enum hr_err hr_record_decode(struct hr_span key, struct hr_span value, struct hr_record *ret_record)
{
    if (key.bytes < 1 || key.bytes > HR_STORE_KEY_BYTES_MAX || value.bytes > HR_RECORD_BYTES_MAX) {
        return HR_E_CORRUPT;
    }
    struct hr_le_reader reader = hr_le_reader_of(value);
    uint8_t version = hr_le_read_u8(&reader);
    uint8_t kind = hr_le_read_u8(&reader);
    uint16_t reserved = hr_le_read_u16(&reader);
    uint64_t sum = hr_le_read_u64(&reader);
    struct hr_span payload = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    if (reader.failed || sum != checksum(key, value.at, payload)) {
        return HR_E_CORRUPT;
    }
    if (version != HR_RECORD_VERSION || reserved != 0) {
        return HR_E_INVALID;
    }
    if (kind != (uint8_t)key.at[0]) {
        return HR_E_CORRUPT;
    }
    *ret_record = (struct hr_record){(enum hr_record_kind)kind, key, payload};
    return HR_OK;
}
