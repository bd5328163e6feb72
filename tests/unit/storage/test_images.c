/* Images on disk: their bytes are these and no others, and what was cut off or is out of bounds is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "storage/images.h"

#define GOLDEN_DIR "tests/golden/record/"

static const struct hr_id128 id = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};
static const struct hr_id128 limit_id = {UINT64_C(0x1122334455667788), 1};

static struct hr_counter_image golden_counter(void)
{
    return (struct hr_counter_image){
        .id = id,
        .limit = limit_id,
        .algorithm = 5,
        .rate = HR_COST_MAX,
        .period_ns = 60000000000,
        .saved_at = HR_TIME_NS_MAX,
        .ahead = 500,
        .words = {1, UINT64_MAX, 0x0102030405060708},
        .entry_count = 2,
        .entries = {{UINT64_MAX, 100000}, {7, 1}},
    };
}

static struct hr_lease_image golden_lease(void)
{
    return (struct hr_lease_image){.id = id,
                                   .counter = limit_id,
                                   .limit = {2, 3},
                                   .slots = HR_COST_MAX,
                                   .remaining_ns = HR_PERIOD_NS_MAX,
                                   .saved_at = 1700000000000000000};
}

/* A payload under its key. */
struct stored {
    struct hr_store_key key;
    enum hr_record_kind kind;
    uint8_t payload[HR_COUNTER_BYTES_MAX + 1];
    size_t bytes;
};

static struct hr_record record_of(const struct stored *stored)
{
    return (struct hr_record){
        stored->kind, hr_store_key_span(&stored->key), {(const char *)stored->payload, stored->bytes}};
}

static void store_counter(const struct hr_counter_image *image, struct stored *stored)
{
    *stored = (struct stored){.key = hr_store_key_of_id(HR_RECORD_COUNTER, image->id), .kind = HR_RECORD_COUNTER};
    stored->bytes = hr_counter_encode(image, stored->payload);
}

static void store_lease(const struct hr_lease_image *image, struct stored *stored)
{
    *stored = (struct stored){.key = hr_store_key_of_id(HR_RECORD_LEASE, image->id), .kind = HR_RECORD_LEASE};
    stored->bytes = hr_lease_encode(image, stored->payload);
}

static enum hr_err decode_counter(const struct stored *stored, struct hr_counter_image *ret_image)
{
    struct hr_record record = record_of(stored);
    return hr_counter_decode(&record, ret_image);
}

static enum hr_err decode_lease(const struct stored *stored, struct hr_lease_image *ret_image)
{
    struct hr_record record = record_of(stored);
    return hr_lease_decode(&record, ret_image);
}

/* "key HEX\nvalue HEX\n", the value with its head: a whole record. */
static void assert_golden(const char *name, const struct stored *stored)
{
    char path[128], expected[4096], text[4096];
    uint8_t value[HR_RECORD_HEAD_BYTES + HR_COUNTER_BYTES_MAX + 1];
    struct hr_record record = record_of(stored);
    hr_record_encode(&stored->key, record.payload, value);
    size_t used = (size_t)snprintf(text, sizeof(text), "key ");
    for (size_t i = 0; i < stored->key.bytes; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", stored->key.at[i]);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "\nvalue ");
    for (size_t i = 0; i < HR_RECORD_HEAD_BYTES + stored->bytes; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", value[i]);
    }
    used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
    assert_true(used < sizeof(text));
    (void)snprintf(path, sizeof(path), GOLDEN_DIR "%s.hex", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s is missing; it would hold:\n%s", path, text);
        return;
    }
    expected[fread(expected, 1, sizeof(expected) - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, expected);
}

static void images_have_the_golden_bytes(void **state)
{
    (void)state;
    struct hr_counter_image counter = golden_counter();
    struct hr_lease_image lease = golden_lease();
    struct stored stored;
    store_counter(&counter, &stored);
    assert_golden("counter_image", &stored);
    store_lease(&lease, &stored);
    assert_golden("lease_image", &stored);
}

static void assert_same_counter(const struct hr_counter_image *a, const struct hr_counter_image *b)
{
    assert_true(hr_id128_equal(a->id, b->id) && hr_id128_equal(a->limit, b->limit));
    assert_int_equal(a->algorithm, b->algorithm);
    assert_true(a->rate == b->rate && a->period_ns == b->period_ns && a->saved_at == b->saved_at);
    assert_true(a->ahead == b->ahead);
    assert_memory_equal(a->words, b->words, sizeof(a->words));
    assert_int_equal(a->entry_count, b->entry_count);
    for (uint32_t i = 0; i < a->entry_count; i++) {
        assert_true(a->entries[i].age_ns == b->entries[i].age_ns && a->entries[i].cost == b->entries[i].cost);
    }
}

static void random_images_come_back_as_they_were(void **state)
{
    (void)state;
    struct hr_rng rng = {20};
    for (int round = 0; round < 3000; round++) {
        struct stored stored;
        struct hr_counter_image counter = {.id = {hr_rng_next(&rng), hr_rng_next(&rng)},
                                           .limit = {hr_rng_next(&rng), hr_rng_next(&rng)},
                                           .algorithm = (uint8_t)hr_rng_next(&rng),
                                           .rate = hr_rng_next(&rng),
                                           .period_ns = hr_rng_next(&rng),
                                           .saved_at = (hr_ns)hr_rng_below(&rng, (uint64_t)HR_TIME_NS_MAX + 1),
                                           .ahead = hr_rng_next(&rng),
                                           .words = {hr_rng_next(&rng), hr_rng_next(&rng), hr_rng_next(&rng)},
                                           .entry_count = (uint32_t)hr_rng_below(&rng, HR_IMAGE_ENTRIES_MAX + 1)};
        for (uint32_t i = 0; i < counter.entry_count; i++) {
            counter.entries[i] = (struct hr_entry_image){hr_rng_next(&rng), (uint32_t)hr_rng_next(&rng)};
        }
        struct hr_counter_image counter_back;
        store_counter(&counter, &stored);
        assert_int_equal(stored.bytes, HR_COUNTER_BYTES_MIN + 12 * counter.entry_count);
        assert_int_equal(decode_counter(&stored, &counter_back), HR_OK);
        assert_same_counter(&counter, &counter_back);
        struct hr_lease_image lease = {.id = counter.id,
                                       .counter = {hr_rng_next(&rng), 1},
                                       .limit = counter.limit,
                                       .slots = 1 + hr_rng_below(&rng, HR_COST_MAX),
                                       .remaining_ns = (int64_t)hr_rng_below(&rng, (uint64_t)HR_PERIOD_NS_MAX + 1),
                                       .saved_at = counter.saved_at};
        struct hr_lease_image lease_back = {.slots = 0};
        store_lease(&lease, &stored);
        assert_int_equal(stored.bytes, HR_LEASE_BYTES);
        assert_int_equal(decode_lease(&stored, &lease_back), HR_OK);
        assert_true(hr_id128_equal(lease.id, lease_back.id) && hr_id128_equal(lease.counter, lease_back.counter));
        assert_true(hr_id128_equal(lease.limit, lease_back.limit) && lease.slots == lease_back.slots);
        assert_true(lease.remaining_ns == lease_back.remaining_ns && lease.saved_at == lease_back.saved_at);
    }
}

static void no_other_length_is_believed(void **state)
{
    (void)state;
    struct hr_counter_image counter = golden_counter(), counter_back;
    struct hr_lease_image lease = golden_lease(), lease_back;
    struct stored stored;
    counter.entry_count = HR_IMAGE_ENTRIES_MAX;
    store_counter(&counter, &stored);
    size_t whole = stored.bytes;
    for (stored.bytes = 0; stored.bytes <= whole + 1; stored.bytes++) {
        assert_int_equal(decode_counter(&stored, &counter_back), stored.bytes == whole ? HR_OK : HR_E_CORRUPT);
    }
    store_lease(&lease, &stored);
    for (stored.bytes = 0; stored.bytes <= HR_LEASE_BYTES + 1; stored.bytes++) {
        assert_int_equal(decode_lease(&stored, &lease_back), stored.bytes == HR_LEASE_BYTES ? HR_OK : HR_E_CORRUPT);
    }
}

static void what_is_out_of_bounds_is_not_believed(void **state)
{
    (void)state;
    static const struct {
        uint64_t slots;
        int64_t remaining_ns;
        hr_ns saved_at;
    } rows[] = {{0, 1, 1},  {HR_COST_MAX + 1, 1, 1},    {UINT64_MAX, 1, 1}, {1, -1, 1}, {1, HR_PERIOD_NS_MAX + 1, 1},
                {1, 1, -1}, {1, 1, HR_TIME_NS_MAX + 1}, {1, 1, INT64_MIN}};
    struct stored stored;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_lease_image lease = golden_lease(), lease_back;
        lease.slots = rows[i].slots;
        lease.remaining_ns = rows[i].remaining_ns;
        lease.saved_at = rows[i].saved_at;
        store_lease(&lease, &stored);
        if (decode_lease(&stored, &lease_back) != HR_E_CORRUPT) {
            fail_msg("row %zu is believed", i);
        }
        struct hr_counter_image counter = golden_counter(), counter_back;
        counter.saved_at = rows[i].saved_at;
        store_counter(&counter, &stored);
        assert_int_equal(decode_counter(&stored, &counter_back), rows[i].saved_at == 1 ? HR_OK : HR_E_CORRUPT);
    }
    struct hr_counter_image counter = golden_counter();
    store_counter(&counter, &stored);
    stored.payload[HR_COUNTER_BYTES_MIN - 1] = HR_IMAGE_ENTRIES_MAX + 1;
    assert_int_equal(decode_counter(&stored, &counter), HR_E_CORRUPT);
}

static void a_record_of_another_kind_or_key_is_not_believed(void **state)
{
    (void)state;
    struct hr_counter_image counter = golden_counter();
    struct hr_lease_image lease = golden_lease();
    struct stored stored;
    store_counter(&counter, &stored);
    stored.kind = HR_RECORD_LEASE;
    assert_int_equal(decode_counter(&stored, &counter), HR_E_CORRUPT);
    stored.kind = HR_RECORD_COUNTER;
    stored.key.bytes--;
    assert_int_equal(decode_counter(&stored, &counter), HR_E_CORRUPT);
    store_lease(&lease, &stored);
    stored.kind = HR_RECORD_COUNTER;
    assert_int_equal(decode_lease(&stored, &lease), HR_E_CORRUPT);
}

static void the_largest_images_fit_into_the_room_that_is_asked_for(void **state)
{
    (void)state;
    uint8_t memory[HR_IMAGE_BATCH_BYTES_MAX];
    struct hr_counter_image counter = golden_counter();
    struct hr_lease_image lease = golden_lease();
    struct hr_store_batch batch;
    struct hr_batch_op op;
    struct hr_id128 found;
    counter.entry_count = HR_IMAGE_ENTRIES_MAX;
    for (int what = 0; what < 4; what++) {
        size_t offset = 0;
        hr_batch_init(&batch, memory, sizeof(memory));
        what == 0   ? hr_batch_put_counter(&batch, &counter)
        : what == 1 ? hr_batch_delete_counter(&batch, id)
        : what == 2 ? hr_batch_put_lease(&batch, &lease)
                    : hr_batch_delete_lease(&batch, id);
        assert_int_equal(batch.count, 1);
        assert_true(hr_batch_next(&batch, &offset, &op));
        assert_int_equal(op.is_put, what % 2 == 0);
        assert_int_equal(hr_batch_op_is_of(&op, HR_RECORD_COUNTER, &found), what < 2);
        assert_int_equal(hr_batch_op_is_of(&op, HR_RECORD_LEASE, &found), what >= 2);
        assert_true(hr_id128_equal(found, id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_have_the_golden_bytes),
        cmocka_unit_test(random_images_come_back_as_they_were),
        cmocka_unit_test(no_other_length_is_believed),
        cmocka_unit_test(what_is_out_of_bounds_is_not_believed),
        cmocka_unit_test(a_record_of_another_kind_or_key_is_not_believed),
        cmocka_unit_test(the_largest_images_fit_into_the_room_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
