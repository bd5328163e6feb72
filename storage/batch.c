#include "storage/batch.h"

#include <string.h>

/* In front of each operation, then its key and value. Copied in and out, as it stands on any address. */
struct head {
    uint32_t value_bytes;
    uint8_t key_bytes;
    uint8_t is_put;
    uint16_t unused;
};

void hr_batch_init(struct hr_store_batch *batch, void *memory, size_t bytes_max)
{
    *batch = (struct hr_store_batch){.memory = memory, .bytes_max = bytes_max};
}

void hr_batch_clear(struct hr_store_batch *batch)
{
    hr_batch_init(batch, batch->memory, batch->bytes_max);
}

size_t hr_batch_put_bytes(const struct hr_store_key *key, size_t payload_bytes)
{
    return hr_batch_delete_bytes(key) + HR_RECORD_HEAD_BYTES + payload_bytes;
}

size_t hr_batch_delete_bytes(const struct hr_store_key *key)
{
    return sizeof(struct head) + key->bytes;
}

/* The place for a value of this size, behind a head and key that are in place; NULL where the batch is full. */
static uint8_t *begin(struct hr_store_batch *batch, const struct hr_store_key *key, struct head head)
{
    size_t bytes = sizeof(head) + key->bytes + head.value_bytes;
    if (bytes > batch->bytes_max - batch->bytes) {
        return NULL;
    }
    uint8_t *at = batch->memory + batch->bytes;
    memcpy(at, &head, sizeof(head));
    memcpy(at + sizeof(head), key->at, key->bytes);
    batch->bytes += bytes;
    batch->count++;
    batch->put_count += head.is_put;
    return at + sizeof(head) + key->bytes;
}

enum hr_err hr_batch_put(struct hr_store_batch *batch, const struct hr_store_key *key, struct hr_span payload)
{
    if (payload.bytes > HR_RECORD_PAYLOAD_BYTES_MAX) {
        return HR_E_RANGE;
    }
    uint32_t value_bytes = (uint32_t)(HR_RECORD_HEAD_BYTES + payload.bytes);
    uint8_t *at = begin(batch, key, (struct head){value_bytes, key->bytes, 1, 0});
    if (at == NULL) {
        return HR_E_FULL;
    }
    hr_record_encode(key, payload, at);
    return HR_OK;
}

enum hr_err hr_batch_delete(struct hr_store_batch *batch, const struct hr_store_key *key)
{
    return begin(batch, key, (struct head){0, key->bytes, 0, 0}) == NULL ? HR_E_FULL : HR_OK;
}

bool hr_batch_next(const struct hr_store_batch *batch, size_t *offset, struct hr_batch_op *ret_op)
{
    if (*offset >= batch->bytes) {
        return false;
    }
    const uint8_t *at = batch->memory + *offset;
    struct head head;
    memcpy(&head, at, sizeof(head));
    const char *key = (const char *)at + sizeof(head);
    *ret_op = (struct hr_batch_op){
        .is_put = head.is_put != 0,
        .key = {key, head.key_bytes},
        .value = {key + head.key_bytes, head.value_bytes},
    };
    *offset += sizeof(head) + head.key_bytes + head.value_bytes;
    return true;
}
