/* Leases on disk: their bytes are these and no others, and what was cut off or is out of bounds is not believed. */
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
    uint8_t payload[HR_LEASE_BYTES + 1];
    size_t bytes;
};

static struct hr_record record_of(const struct stored *stored)
{
    return (struct hr_record){
        stored->kind, hr_store_key_span(&stored->key), {(const char *)stored->payload, stored->bytes}};
}

static void store_lease(const struct hr_lease_image *image, struct stored *stored)
{
    *stored = (struct stored){.key = hr_store_key_of_id(HR_RECORD_LEASE, image->id), .kind = HR_RECORD_LEASE};
    stored->bytes = hr_lease_encode(image, stored->payload);
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
    uint8_t value[HR_RECORD_HEAD_BYTES + HR_LEASE_BYTES + 1];
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
    struct hr_lease_image lease = golden_lease();
    struct stored stored;
    store_lease(&lease, &stored);
    assert_golden("lease_image", &stored);
}

static void random_images_come_back_as_they_were(void **state)
{
    (void)state;
    struct hr_rng rng = {20};
    for (int round = 0; round < 3000; round++) {
        struct stored stored;
        struct hr_lease_image lease = {.id = {hr_rng_next(&rng), hr_rng_next(&rng)},
                                       .counter = {hr_rng_next(&rng), 1},
                                       .limit = {hr_rng_next(&rng), hr_rng_next(&rng)},
                                       .slots = 1 + hr_rng_below(&rng, HR_COST_MAX),
                                       .remaining_ns = (int64_t)hr_rng_below(&rng, (uint64_t)HR_PERIOD_NS_MAX + 1),
                                       .saved_at = (hr_ns)hr_rng_below(&rng, (uint64_t)HR_TIME_NS_MAX + 1)};
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
    struct hr_lease_image lease = golden_lease(), lease_back;
    struct stored stored;
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
    }
}

static void a_record_of_another_kind_or_key_is_not_believed(void **state)
{
    (void)state;
    struct hr_lease_image lease = golden_lease();
    struct stored stored;
    store_lease(&lease, &stored);
    stored.kind = HR_RECORD_COUNTER;
    assert_int_equal(decode_lease(&stored, &lease), HR_E_CORRUPT);
    stored.kind = HR_RECORD_LEASE;
    stored.key.bytes--;
    assert_int_equal(decode_lease(&stored, &lease), HR_E_CORRUPT);
}

static void the_largest_images_fit_into_the_room_that_is_asked_for(void **state)
{
    (void)state;
    uint8_t memory[HR_IMAGE_BATCH_BYTES_MAX];
    struct hr_lease_image lease = golden_lease();
    struct hr_store_batch batch;
    struct hr_batch_op op;
    struct hr_id128 found;
    for (int is_put = 0; is_put < 2; is_put++) {
        size_t offset = 0;
        hr_batch_init(&batch, memory, sizeof(memory));
        if (is_put) {
            hr_batch_put_lease(&batch, &lease);
        } else {
            hr_batch_delete_lease(&batch, id);
        }
        assert_int_equal(batch.count, 1);
        assert_true(hr_batch_next(&batch, &offset, &op));
        assert_int_equal(op.is_put, is_put);
        assert_false(hr_batch_op_is_of(&op, HR_RECORD_COUNTER, &found));
        assert_true(hr_batch_op_is_of(&op, HR_RECORD_LEASE, &found));
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
