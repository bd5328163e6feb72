/* Batches: what goes in comes out in order, and one that is full refuses whole operations and keeps what it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "storage/batch.h"

static struct hr_store_key key_of(uint64_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

static void operations_come_out_as_they_went_in(void **state)
{
    (void)state;
    uint8_t memory[1024];
    struct hr_store_batch batch;
    struct hr_store_key keys[] = {key_of(1), key_of(2), key_of(3)};
    struct hr_batch_op op;
    struct hr_record record;
    size_t offset = 0;
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_false(hr_batch_next(&batch, &offset, &op));
    assert_int_equal(hr_batch_put(&batch, &keys[0], HR_SPAN("payload")), HR_OK);
    assert_int_equal(hr_batch_delete(&batch, &keys[1]), HR_OK);
    assert_int_equal(hr_batch_put(&batch, &keys[2], (struct hr_span){NULL, 0}), HR_OK);
    assert_int_equal(batch.count, 3);
    assert_int_equal(batch.put_count, 2);
    for (size_t i = 0; i < 3; i++) {
        assert_true(hr_batch_next(&batch, &offset, &op));
        assert_true(hr_span_equal(op.key, hr_store_key_span(&keys[i])));
        assert_int_equal(op.is_put, i != 1);
        assert_int_equal(op.value.bytes, i == 0 ? HR_RECORD_HEAD_BYTES + 7 : i == 1 ? 0 : HR_RECORD_HEAD_BYTES);
        assert_int_equal(hr_record_decode(op.key, op.value, &record), i == 1 ? HR_E_CORRUPT : HR_OK);
    }
    assert_false(hr_batch_next(&batch, &offset, &op));
}

static void a_full_batch_refuses_and_stays_as_it_is(void **state)
{
    (void)state;
    uint8_t memory[256], before[256];
    struct hr_store_batch batch;
    struct hr_store_key key = key_of(1);
    size_t put_bytes = hr_batch_put_bytes(&key, 5), delete_bytes = hr_batch_delete_bytes(&key);
    for (size_t room = 0; room < put_bytes; room++) {
        hr_batch_init(&batch, memory, room);
        memset(memory, 0xa5, sizeof(memory));
        memcpy(before, memory, sizeof(before));
        assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("12345")), HR_E_FULL);
        assert_memory_equal(memory, before, sizeof(before));
        assert_int_equal(batch.bytes, 0);
        assert_int_equal(batch.count, 0);
        assert_int_equal(hr_batch_delete(&batch, &key), room < delete_bytes ? HR_E_FULL : HR_OK);
    }
    hr_batch_init(&batch, memory, put_bytes + delete_bytes);
    assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("12345")), HR_OK);
    assert_int_equal(batch.bytes, put_bytes);
    assert_int_equal(hr_batch_delete(&batch, &key), HR_OK);
    assert_int_equal(batch.bytes, batch.bytes_max);
    assert_int_equal(hr_batch_delete(&batch, &key), HR_E_FULL);
}

static void a_payload_beyond_the_bound_is_refused(void **state)
{
    (void)state;
    static uint8_t memory[2 * HR_RECORD_PAYLOAD_BYTES_MAX];
    static const char payload[HR_RECORD_PAYLOAD_BYTES_MAX + 1];
    struct hr_store_batch batch;
    struct hr_store_key key = key_of(1);
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_batch_put(&batch, &key, (struct hr_span){payload, sizeof(payload)}), HR_E_RANGE);
    assert_int_equal(batch.bytes, 0);
    assert_int_equal(hr_batch_put(&batch, &key, (struct hr_span){payload, sizeof(payload) - 1}), HR_OK);
}

static void a_cleared_batch_is_empty_and_has_its_room_again(void **state)
{
    (void)state;
    uint8_t memory[64];
    struct hr_store_batch batch;
    struct hr_store_key key = key_of(1);
    struct hr_batch_op op;
    size_t offset = 0;
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("12345")), HR_OK);
    assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("12345")), HR_E_FULL);
    hr_batch_clear(&batch);
    assert_false(hr_batch_next(&batch, &offset, &op));
    assert_int_equal(batch.put_count, 0);
    assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("12345")), HR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_come_out_as_they_went_in),
        cmocka_unit_test(a_full_batch_refuses_and_stays_as_it_is),
        cmocka_unit_test(a_payload_beyond_the_bound_is_refused),
        cmocka_unit_test(a_cleared_batch_is_empty_and_has_its_room_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
