/* Feeds arbitrary bytes to the decoder of records, as they are and, since no chance input has a valid checksum, sealed
 * anew. What a payload's decoder accepts must encode to the same bytes again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/identity.h"
#include "storage/images.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void require_same(const struct hr_record *record, const uint8_t *payload, size_t bytes)
{
    require(record->payload.bytes == bytes);
    require(memcmp(record->payload.at, payload, bytes) == 0);
}

static void try_payload(const struct hr_record *record)
{
    static uint8_t payload[HR_LEASE_BYTES + HR_SAVED_IDENTITY_BYTES_MAX];
    struct hr_lease_image lease;
    struct hr_saved_identity identity;
    if (hr_lease_decode(record, &lease) == HR_OK) {
        require_same(record, payload, hr_lease_encode(&lease, payload));
    }
    if (hr_saved_identity_decode(record, &identity) == HR_OK && identity.format <= HR_STORE_FORMAT) {
        require(identity.cluster.bytes <= HR_STORE_NAME_BYTES_MAX && identity.node.bytes <= HR_STORE_NAME_BYTES_MAX);
        require_same(record, payload, hr_saved_identity_encode(&identity, payload));
    }
}

/* The input: a key's length, the key, and a value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t sealed[HR_RECORD_BYTES_MAX];
    struct hr_store_key key = {.bytes = 0};
    struct hr_record record;
    if (bytes < 1 || data[0] < 1 || data[0] > HR_STORE_KEY_BYTES_MAX || bytes - 1 < data[0]) {
        return 0;
    }
    key.bytes = data[0];
    memcpy(key.at, data + 1, key.bytes);
    struct hr_span value = {(const char *)data + 1 + key.bytes, bytes - 1 - key.bytes};
    if (hr_record_decode(hr_store_key_span(&key), value, &record) == HR_OK) {
        try_payload(&record);
    }
    if (value.bytes < HR_RECORD_HEAD_BYTES || value.bytes > HR_RECORD_BYTES_MAX) {
        return 0;
    }
    struct hr_span payload = {value.at + HR_RECORD_HEAD_BYTES, value.bytes - HR_RECORD_HEAD_BYTES};
    hr_record_encode(&key, payload, sealed);
    require(hr_record_decode(hr_store_key_span(&key), (struct hr_span){(const char *)sealed, value.bytes}, &record) ==
            HR_OK);
    try_payload(&record);
    return 0;
}
