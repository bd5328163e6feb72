#include "chaos/platter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define ROOM_MIN 1024

struct hr_platter_record {
    uint32_t hash;     /* the low bits of the key's: most other keys are told apart without a look at them */
    uint8_t key_bytes; /* 0: an empty place */
    uint32_t bytes, room;
    char *at; /* the key, in HR_STORE_KEY_BYTES_MAX, then the value */
};

static uint32_t hash_of(struct hr_span key)
{
    return (uint32_t)hr_plain_hash(key.at, key.bytes, 0);
}

/* The place of a key, or the empty one where it would be. Requires: there is an empty one. */
static struct hr_platter_record *find(const struct hr_platter *platter, struct hr_span key, uint32_t hash)
{
    for (uint32_t at = hash & (platter->room - 1);; at = (at + 1) & (platter->room - 1)) {
        struct hr_platter_record *record = &platter->records[at];
        if (record->key_bytes == 0) {
            return record;
        }
        if (record->hash == hash && record->key_bytes == key.bytes && memcmp(record->at, key.at, key.bytes) == 0) {
            return record;
        }
    }
}

static enum hr_err grow(struct hr_platter *platter)
{
    struct hr_platter larger = {.count = platter->count, .room = platter->room == 0 ? ROOM_MIN : platter->room * 2};
    larger.records = calloc(larger.room, sizeof(*larger.records));
    if (larger.records == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t i = 0; i < platter->room; i++) {
        const struct hr_platter_record *record = &platter->records[i];
        if (record->key_bytes > 0) {
            *find(&larger, (struct hr_span){record->at, record->key_bytes}, record->hash) = *record;
        }
    }
    free(platter->records);
    *platter = larger;
    return HR_OK;
}

static enum hr_err put(struct hr_platter *platter, const struct hr_batch_op *op)
{
    if (platter->count >= platter->room / 2 && grow(platter) != HR_OK) {
        return HR_E_MEMORY;
    }
    uint32_t hash = hash_of(op->key);
    struct hr_platter_record *record = find(platter, op->key, hash);
    if (record->key_bytes == 0 || record->room < op->value.bytes) {
        char *at = realloc(record->at, HR_STORE_KEY_BYTES_MAX + op->value.bytes);
        if (at == NULL) {
            return HR_E_MEMORY;
        }
        platter->count += record->key_bytes == 0;
        record->at = at;
        record->hash = hash;
        record->key_bytes = (uint8_t)op->key.bytes;
        record->room = (uint32_t)op->value.bytes;
        memcpy(at, op->key.at, op->key.bytes);
    }
    record->bytes = (uint32_t)op->value.bytes;
    memcpy(record->at + HR_STORE_KEY_BYTES_MAX, op->value.at, op->value.bytes);
    return HR_OK;
}

/* Whatever would no longer be found moves up (Knuth, The Art of Computer Programming 3, 6.4, algorithm R). */
static void close_gap(struct hr_platter *platter, uint32_t gap)
{
    uint32_t mask = platter->room - 1;
    for (uint32_t at = (gap + 1) & mask; platter->records[at].key_bytes > 0; at = (at + 1) & mask) {
        uint32_t home = platter->records[at].hash & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            platter->records[gap] = platter->records[at];
            gap = at;
        }
    }
    platter->records[gap] = (struct hr_platter_record){0};
}

static void erase(struct hr_platter *platter, struct hr_span key)
{
    struct hr_platter_record *record = platter->room == 0 ? NULL : find(platter, key, hash_of(key));
    if (record == NULL || record->key_bytes == 0) {
        return;
    }
    free(record->at);
    platter->count--;
    close_gap(platter, (uint32_t)(record - platter->records));
}

enum hr_err hr_platter_apply(struct hr_platter *platter, const struct hr_store_batch *batch)
{
    struct hr_batch_op op;
    size_t offset = 0;
    while (hr_batch_next(batch, &offset, &op)) {
        if (!op.is_put) {
            erase(platter, op.key);
        } else if (put(platter, &op) != HR_OK) {
            return HR_E_MEMORY;
        }
    }
    return HR_OK;
}

void hr_platter_deinit(struct hr_platter *platter)
{
    for (uint32_t i = 0; i < platter->room; i++) {
        free(platter->records[i].at);
    }
    free(platter->records);
    *platter = (struct hr_platter){0};
}

static int compare(const void *a, const void *b)
{
    const struct hr_platter_record *x = *(const struct hr_platter_record *const *)a;
    const struct hr_platter_record *y = *(const struct hr_platter_record *const *)b;
    int order = memcmp(x->at, y->at, x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes);
    return order != 0 ? order : x->key_bytes - y->key_bytes;
}

enum hr_err hr_platter_load(const struct hr_platter *platter, enum hr_record_kind kind, hr_store_visit *visit,
                            void *user, struct hr_store_loaded *ret_loaded)
{
    *ret_loaded = (struct hr_store_loaded){0};
    const struct hr_platter_record **found = calloc((size_t)platter->count + 1, sizeof(*found));
    uint32_t count = 0;
    if (found == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t i = 0; i < platter->room; i++) {
        if (platter->records[i].key_bytes > 0 && (uint8_t)platter->records[i].at[0] == kind) {
            found[count++] = &platter->records[i];
        }
    }
    qsort(found, count, sizeof(const struct hr_platter_record *), compare);
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < count && err == HR_OK; i++) {
        struct hr_span key = {found[i]->at, found[i]->key_bytes};
        struct hr_span value = {found[i]->at + HR_STORE_KEY_BYTES_MAX, found[i]->bytes};
        err = hr_store_offer(key, value, visit, user, ret_loaded);
    }
    free(found);
    return err;
}
