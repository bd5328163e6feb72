/* Records: their bytes are these and no others, and no damage goes unseen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "storage/identity.h"
#include "storage/images.h"
#include "storage/le.h"
#include "storage/record.h"
#include "storage/segment.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GOLDEN_DIR "tests/golden/record/"
#define VALUE_BYTES_MAX 4096

static const struct hr_id128 id = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};
static const struct hr_id128 other_id = {1, UINT64_MAX};

/* One sealed record and its key. */
struct sealed {
    struct hr_store_key key;
    uint8_t value[VALUE_BYTES_MAX];
    size_t bytes;
};

static void seal(struct sealed *sealed, struct hr_store_key key, const void *payload, size_t bytes)
{
    assert_true(HR_RECORD_HEAD_BYTES + bytes <= sizeof(sealed->value));
    sealed->key = key;
    sealed->bytes = HR_RECORD_HEAD_BYTES + bytes;
    hr_record_encode(&key, (struct hr_span){payload, bytes}, sealed->value);
}

static struct hr_span value_of(const struct sealed *sealed)
{
    return (struct hr_span){(const char *)sealed->value, sealed->bytes};
}

static enum hr_err decode(const struct sealed *sealed, struct hr_record *ret_record)
{
    return hr_record_decode(hr_store_key_span(&sealed->key), value_of(sealed), ret_record);
}

static struct hr_counter_image counter(void)
{
    return (struct hr_counter_image){
        .id = id,
        .limit = other_id,
        .algorithm = 6,
        .rate = HR_COST_MAX,
        .period_ns = 60000000000,
        .saved_at = HR_TIME_NS_MAX,
        .ahead = 500,
        .words = {1, UINT64_MAX, 0x1122334455667788},
        .entry_count = 2,
        .entries = {{UINT64_MAX, 0xfffffff0}, {1000, 1}},
    };
}

static struct hr_lease_image lease(void)
{
    return (struct hr_lease_image){id, other_id, id, HR_COST_MAX, HR_PERIOD_NS_MAX, HR_TIME_NS_MAX};
}

static void seal_counter(struct sealed *sealed)
{
    uint8_t payload[HR_SEGMENT_BYTES_MAX];
    struct hr_counter_image saved = counter();
    struct hr_segment_writer writer;
    hr_segment_clear(&writer, payload);
    hr_segment_put(&writer, &saved);
    hr_segment_forget(&writer, other_id, saved.saved_at);
    saved.id = other_id;
    saved.entry_count = 0;
    hr_segment_put(&writer, &saved);
    seal(sealed, hr_segment_key(0x0123456789abcdef), payload, writer.used);
}

static void seal_lease(struct sealed *sealed)
{
    uint8_t payload[HR_LEASE_BYTES];
    struct hr_lease_image saved = lease();
    assert_int_equal(hr_lease_encode(&saved, payload), sizeof(payload));
    seal(sealed, hr_store_key_of_id(HR_RECORD_LEASE, id), payload, sizeof(payload));
}

static void seal_identity(struct sealed *sealed)
{
    uint8_t payload[HR_SAVED_IDENTITY_BYTES_MAX];
    struct hr_saved_identity saved = {HR_STORE_FORMAT, HR_SPAN("prod"), HR_SPAN("eu-1")};
    size_t bytes = hr_saved_identity_encode(&saved, payload);
    seal(sealed, hr_saved_identity_key(), payload, bytes);
}

static void seal_reply(struct sealed *sealed)
{
    seal(sealed, hr_store_key_of_id(HR_RECORD_REPLY, id), "any bytes", 9);
}

static void seal_limit(struct sealed *sealed)
{
    seal(sealed, hr_store_key_of_id(HR_RECORD_LIMIT, id), NULL, 0);
}

static const struct {
    const char *name;
    void (*seal)(struct sealed *sealed);
} kinds[] = {
    {"segment", seal_counter}, {"lease", seal_lease},       {"reply", seal_reply},
    {"limit", seal_limit},     {"identity", seal_identity},
};

static size_t write_hex(char *out, size_t bytes_max, const char *name, struct hr_span span)
{
    size_t used = (size_t)snprintf(out, bytes_max, "%s ", name);
    for (size_t i = 0; i < span.bytes; i++) {
        used += (size_t)snprintf(out + used, bytes_max - used, "%02x", (unsigned)(uint8_t)span.at[i]);
    }
    return used + (size_t)snprintf(out + used, bytes_max - used, "\n");
}

static void every_kind_has_the_bytes_of_its_golden_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct sealed sealed;
        char wanted[4096] = "", found[4096], path[128];
        kinds[i].seal(&sealed);
        size_t used = write_hex(found, sizeof(found), "key", hr_store_key_span(&sealed.key));
        used += write_hex(found + used, sizeof(found) - used, "value", value_of(&sealed));
        (void)snprintf(path, sizeof(path), GOLDEN_DIR "%s.v1.hex", kinds[i].name);
        FILE *file = fopen(path, "r");
        size_t bytes = file == NULL ? 0 : fread(wanted, 1, sizeof(wanted) - 1, file);
        if (file != NULL) {
            (void)fclose(file);
        }
        if (bytes != used || memcmp(wanted, found, used) != 0) {
            fail_msg("%s is not\n%s", path, found);
        }
    }
}

static void what_was_encoded_is_decoded(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct sealed sealed;
        struct hr_record record;
        kinds[i].seal(&sealed);
        assert_int_equal(decode(&sealed, &record), HR_OK);
        assert_int_equal(record.kind, sealed.key.at[0]);
        assert_ptr_equal(record.key.at, sealed.key.at);
        assert_int_equal(record.payload.bytes, sealed.bytes - HR_RECORD_HEAD_BYTES);
    }
}

static void every_record_that_is_cut_short_is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct sealed sealed;
        struct hr_record record;
        kinds[i].seal(&sealed);
        for (size_t bytes = sealed.bytes; bytes > 0; bytes--) {
            sealed.bytes = bytes - 1;
            if (decode(&sealed, &record) != HR_E_CORRUPT) {
                fail_msg("%s of %zu bytes", kinds[i].name, sealed.bytes);
            }
        }
    }
}

static void every_single_flipped_bit_is_found_in_value_and_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct sealed sealed;
        struct hr_record record;
        kinds[i].seal(&sealed);
        for (size_t bit = 0; bit < 8 * (sealed.bytes + sealed.key.bytes); bit++) {
            size_t at = bit / 8;
            uint8_t *byte = at < sealed.bytes ? &sealed.value[at] : &sealed.key.at[at - sealed.bytes];
            *byte = (uint8_t)(*byte ^ (1 << bit % 8));
            if (decode(&sealed, &record) != HR_E_CORRUPT) {
                fail_msg("%s, bit %zu", kinds[i].name, bit);
            }
            *byte = (uint8_t)(*byte ^ (1 << bit % 8));
        }
        assert_int_equal(decode(&sealed, &record), HR_OK);
    }
}

static void a_value_under_the_key_of_another_is_corrupt(void **state)
{
    (void)state;
    struct sealed sealed;
    struct hr_record record;
    seal_counter(&sealed);
    sealed.key = hr_segment_key(1);
    assert_int_equal(decode(&sealed, &record), HR_E_CORRUPT);
    sealed.key.bytes = 0;
    assert_int_equal(decode(&sealed, &record), HR_E_CORRUPT);
}

/* Makes the checksum hold again, as a newer version would. */
static void reseal(struct sealed *sealed)
{
    uint64_t sum = hr_plain_hash(sealed->key.at, sealed->key.bytes, 0);
    sum = hr_plain_hash(sealed->value, 4, sum);
    sum = hr_plain_hash(sealed->value + HR_RECORD_HEAD_BYTES, sealed->bytes - HR_RECORD_HEAD_BYTES, sum);
    struct hr_le_writer writer = hr_le_writer_of(sealed->value + 4, 8);
    hr_le_write_u64(&writer, sum);
}

static void what_a_newer_version_wrote_is_told_from_damage(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t byte;
        enum hr_err err;
    } rows[] = {
        {0, 1, HR_OK},        {0, 2, HR_E_INVALID}, {0, 0, HR_E_INVALID},
        {2, 1, HR_E_INVALID}, {3, 1, HR_E_INVALID}, {1, HR_RECORD_LEASE, HR_E_CORRUPT},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sealed sealed;
        struct hr_record record;
        seal_counter(&sealed);
        sealed.value[rows[i].at] = rows[i].byte;
        reseal(&sealed);
        if (decode(&sealed, &record) != rows[i].err) {
            fail_msg("row %zu", i);
        }
    }
}

static void keys_are_bounded_and_ordered_as_their_ids(void **state)
{
    (void)state;
    struct hr_store_key key, after;
    char which[HR_STORE_KEY_BYTES_MAX] = {0};
    assert_int_equal(hr_store_key_make(HR_RECORD_META, (struct hr_span){which, 64}, &key), HR_E_RANGE);
    assert_int_equal(hr_store_key_make(HR_RECORD_META, (struct hr_span){which, 63}, &key), HR_OK);
    assert_int_equal(key.bytes, HR_STORE_KEY_BYTES_MAX);
    assert_int_equal(hr_store_key_make(HR_RECORD_META, (struct hr_span){NULL, 0}, &key), HR_OK);
    assert_int_equal(key.bytes, 1);
    key = hr_store_key_of_id(HR_RECORD_LEASE, (struct hr_id128){0x0102, UINT64_MAX});
    after = hr_store_key_of_id(HR_RECORD_LEASE, (struct hr_id128){0x0201, 0});
    assert_true(memcmp(key.at, after.at, key.bytes) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_the_bytes_of_its_golden_file),
        cmocka_unit_test(what_was_encoded_is_decoded),
        cmocka_unit_test(every_record_that_is_cut_short_is_corrupt),
        cmocka_unit_test(every_single_flipped_bit_is_found_in_value_and_key),
        cmocka_unit_test(a_value_under_the_key_of_another_is_corrupt),
        cmocka_unit_test(what_a_newer_version_wrote_is_told_from_damage),
        cmocka_unit_test(keys_are_bounded_and_ordered_as_their_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
