/* Payloads: what was saved comes back field by field, and nothing of another length, kind or range is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "storage/identity.h"
#include "storage/images.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct hr_id128 id = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

/* A record as a decoder gets it: the checksum held. */
struct draft {
    struct hr_store_key key;
    uint8_t payload[HR_SAVED_IDENTITY_BYTES_MAX + HR_LEASE_BYTES];
    size_t bytes;
};

static struct hr_record record_of(const struct draft *draft)
{
    return (struct hr_record){(enum hr_record_kind)draft->key.at[0],
                              hr_store_key_span(&draft->key),
                              {(const char *)draft->payload, draft->bytes}};
}

static void draft_lease(struct draft *draft, struct hr_lease_image lease)
{
    draft->key = hr_store_key_of_id(HR_RECORD_LEASE, lease.id);
    draft->bytes = hr_lease_encode(&lease, draft->payload);
}

static void draft_identity(struct draft *draft, struct hr_saved_identity identity)
{
    draft->key = hr_saved_identity_key();
    draft->bytes = hr_saved_identity_encode(&identity, draft->payload);
}

static enum hr_err take_lease(const struct hr_record *record)
{
    struct hr_lease_image lease;
    return hr_lease_decode(record, &lease);
}

static enum hr_err take_identity(const struct hr_record *record)
{
    struct hr_saved_identity identity;
    return hr_saved_identity_decode(record, &identity);
}

static enum hr_err (*const takers[])(const struct hr_record *record) = {take_lease, take_identity};

static void draft_of(struct draft *draft, size_t taker)
{
    switch (taker) {
    case 0:
        draft_lease(draft, (struct hr_lease_image){.id = id, .slots = 1});
        break;
    default:
        draft_identity(draft, (struct hr_saved_identity){1, HR_SPAN("prod"), HR_SPAN("eu-1")});
        break;
    }
}

static void a_lease_comes_back_as_it_was(void **state)
{
    (void)state;
    struct hr_lease_image lease = {id, {3, 4}, {5, 6}, 7, 8, 9}, found;
    struct draft draft;
    draft_lease(&draft, lease);
    struct hr_record record = record_of(&draft);
    assert_int_equal(hr_lease_decode(&record, &found), HR_OK);
    assert_true(hr_id128_equal(found.id, id));
    assert_true(hr_id128_equal(found.counter, lease.counter));
    assert_true(hr_id128_equal(found.limit, lease.limit));
    assert_int_equal(found.slots, 7);
    assert_int_equal(found.remaining_ns, 8);
    assert_int_equal(found.saved_at, 9);
}

static void an_identity_comes_back_as_it_was(void **state)
{
    (void)state;
    char longest[HR_STORE_NAME_BYTES_MAX];
    memset(longest, 'n', sizeof(longest));
    struct hr_saved_identity identity = {1, {longest, sizeof(longest)}, {"", 0}}, found;
    struct draft draft;
    draft_identity(&draft, identity);
    struct hr_record record = record_of(&draft);
    assert_int_equal(hr_saved_identity_decode(&record, &found), HR_OK);
    assert_int_equal(found.format, 1);
    assert_true(hr_span_equal(found.cluster, identity.cluster));
    assert_int_equal(found.node.bytes, 0);
}

static void a_payload_of_another_length_is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(takers); i++) {
        struct draft draft;
        memset(&draft, 0, sizeof(draft));
        draft_of(&draft, i);
        size_t whole = draft.bytes;
        for (size_t bytes = 0; bytes <= whole + 1; bytes++) {
            draft.bytes = bytes;
            struct hr_record record = record_of(&draft);
            if ((takers[i](&record) == HR_OK) != (bytes == whole)) {
                fail_msg("decoder %zu, %zu bytes", i, bytes);
            }
        }
    }
}

static void a_record_of_another_kind_or_key_is_corrupt(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(takers); i++) {
        struct draft draft;
        draft_of(&draft, i);
        for (size_t j = 0; j < COUNT(takers); j++) {
            struct hr_record record = record_of(&draft);
            if ((takers[j](&record) == HR_OK) != (i == j)) {
                fail_msg("record %zu, decoder %zu", i, j);
            }
        }
        if (i == 0) {
            draft.key.bytes--;
            struct hr_record record = record_of(&draft);
            assert_int_equal(takers[i](&record), HR_E_CORRUPT);
        }
    }
}

static void what_is_out_of_range_is_corrupt(void **state)
{
    (void)state;
    static const struct {
        int64_t at;
        uint64_t slots;
        enum hr_err lease;
    } rows[] = {
        {0, 1, HR_OK},
        {-1, 1, HR_E_CORRUPT},
        {HR_PERIOD_NS_MAX, HR_COST_MAX, HR_OK},
        {HR_PERIOD_NS_MAX + 1, 1, HR_E_CORRUPT},
        {HR_TIME_NS_MAX, 0, HR_E_CORRUPT},
        {HR_TIME_NS_MAX + 1, 1, HR_E_CORRUPT},
        {0, 0, HR_E_CORRUPT},
        {0, HR_COST_MAX + 1, HR_E_CORRUPT},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct draft draft;
        draft_lease(&draft, (struct hr_lease_image){.slots = rows[i].slots, .remaining_ns = rows[i].at});
        struct hr_record record = record_of(&draft);
        if (take_lease(&record) != rows[i].lease) {
            fail_msg("row %zu", i);
        }
    }
}

static void a_name_beyond_its_bound_is_corrupt(void **state)
{
    (void)state;
    struct draft draft;
    memset(&draft, 0, sizeof(draft));
    draft_of(&draft, 1);
    draft.payload[4] = HR_STORE_NAME_BYTES_MAX + 1;
    draft.bytes = 4 + 1 + HR_STORE_NAME_BYTES_MAX + 1 + 1;
    draft.payload[draft.bytes - 1] = 0;
    struct hr_record record = record_of(&draft);
    assert_int_equal(take_identity(&record), HR_E_CORRUPT);
}

static void a_newer_identity_says_its_format_whatever_else_it_holds(void **state)
{
    (void)state;
    struct draft draft;
    struct hr_saved_identity found;
    draft_identity(&draft, (struct hr_saved_identity){HR_STORE_FORMAT + 1, HR_SPAN("prod"), HR_SPAN("eu-1")});
    draft.bytes = 4;
    struct hr_record record = record_of(&draft);
    assert_int_equal(hr_saved_identity_decode(&record, &found), HR_OK);
    assert_int_equal(found.format, HR_STORE_FORMAT + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_comes_back_as_it_was),
        cmocka_unit_test(an_identity_comes_back_as_it_was),
        cmocka_unit_test(a_payload_of_another_length_is_corrupt),
        cmocka_unit_test(a_record_of_another_kind_or_key_is_corrupt),
        cmocka_unit_test(what_is_out_of_range_is_corrupt),
        cmocka_unit_test(a_name_beyond_its_bound_is_corrupt),
        cmocka_unit_test(a_newer_identity_says_its_format_whatever_else_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
