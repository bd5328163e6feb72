/* Majorities, leases, and the bytes of a pulse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "region/quorum.h"

static struct hr_charter charter_of(uint32_t count)
{
    static struct hr_charter charter;
    hr_charter_found(&charter, 9, 100);
    for (uint32_t i = 0; i < count; i++) {
        charter.members[i] = 100 + (i * 7) % 11; /* the least is the first */
    }
    charter.count = (uint8_t)count;
    return charter;
}

/* All sets of members, up to eight of them: never are two that share none majorities at once, and one of the two halves
 * of everybody is one always. */
static void any_two_majorities_share_a_member(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 8; count++) {
        struct hr_charter charter = charter_of(count);
        hr_node_set all = hr_charter_all(&charter);
        for (hr_node_set gone = 0; gone < all; gone += 1 + gone % 3) {
            for (hr_node_set a = 0; a <= all; a++) {
                hr_node_set rest = all & ~a & ~gone;
                bool is_a = hr_charter_is_majority(&charter, a, gone),
                     is_rest = hr_charter_is_majority(&charter, rest, gone);
                if (is_a == is_rest) {
                    fail_msg("%u members, %lx gone: %lx and its rest", count, (unsigned long)gone, (unsigned long)a);
                }
            }
        }
    }
}

static void the_half_with_the_least_member_wins_a_tie(void **state)
{
    (void)state;
    struct hr_charter charter = charter_of(4);
    charter.members[2] = 3;
    assert_true(hr_charter_is_majority(&charter, 1 << 2 | 1 << 3, 0));
    assert_false(hr_charter_is_majority(&charter, 1 << 0 | 1 << 1, 0));
    assert_true(hr_charter_is_majority(&charter, 1 << 0, 1 << 2 | 1 << 1)); /* of the two left, it is the least */
    assert_false(hr_charter_is_majority(&charter, 1 << 3, 1 << 2 | 1 << 1));
}

static void a_lease_lasts_from_the_stamp_that_made_the_majority(void **state)
{
    (void)state;
    static const struct {
        uint32_t count;
        hr_ns granted[5];
        hr_ns expected; /* the stamp that counts; -1: none */
    } rows[] = {
        {1, {INT64_MAX}, INT64_MAX},          {2, {INT64_MAX, -1}, INT64_MAX}, /* the least of the two needs nobody */
        {3, {INT64_MAX, -1, -1}, -1},         {3, {INT64_MAX, 50, 70}, 70},
        {3, {INT64_MAX, 0, -1}, 0},           {5, {INT64_MAX, 50, 70, -1, -1}, 50},
        {5, {INT64_MAX, 50, 70, 60, 10}, 60}, {5, {20, 50, 70, 60, 10}, 50}, /* its own ended */
        {5, {-1, 50, 70, 60, -1}, 50},        {5, {-1, -1, -1, 60, 10}, -1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_charter charter = charter_of(rows[i].count);
        hr_ns granted[HR_REGION_NODES_MAX] = {0};
        memcpy(granted, rows[i].granted, sizeof(rows[i].granted));
        hr_ns expected = rows[i].expected == -1          ? INT64_MIN
                         : rows[i].expected == INT64_MAX ? INT64_MAX
                                                         : rows[i].expected + HR_LEASE_NS;
        if (hr_quorum_lease(&charter, granted, 0) != expected) {
            fail_msg("row %lu", (unsigned long)i);
        }
    }
}

static struct hr_pulse a_pulse(const uint8_t *held)
{
    return (struct hr_pulse){.life = 3,
                             .stamp = 4,
                             .hears_receiver = true,
                             .is_stuck = held != NULL,
                             .granted_life = 5,
                             .granted = 6,
                             .lineage = 7,
                             .version = 8,
                             .hears = 9,
                             .held = held};
}

static void a_pulse_is_these_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[58] = {1, 1, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0,
                                         0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0,
                                         0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0};
    uint8_t bytes[HR_PULSE_BYTES_MAX];
    struct hr_pulse pulse = a_pulse(NULL);
    assert_int_equal(hr_pulse_encode(&pulse, bytes), sizeof(expected));
    assert_memory_equal(bytes, expected, sizeof(expected));
}

static void a_pulse_comes_back_and_no_part_of_it_does(void **state)
{
    (void)state;
    uint8_t held[HR_PARTITION_SET_BYTES], bytes[HR_PULSE_BYTES_MAX];
    struct hr_pulse read;
    memset(held, 0x5a, sizeof(held));
    struct hr_pulse pulse = a_pulse(held);
    size_t used = hr_pulse_encode(&pulse, bytes);
    assert_int_equal(hr_pulse_decode((struct hr_span){(char *)bytes, used}, &read), HR_OK);
    assert_int_equal(read.life, 3);
    assert_int_equal(read.granted, 6);
    assert_true(read.is_stuck && read.hears_receiver && !read.is_leaving);
    assert_memory_equal(read.held, held, sizeof(held));
    for (size_t i = 0; i < used; i++) {
        assert_int_equal(hr_pulse_decode((struct hr_span){(char *)bytes, i}, &read), HR_E_CORRUPT);
    }
    static const struct {
        size_t at;
        uint8_t value;
    } damages[] = {{0, 2}, {1, 0xff}, {17, 0x80}, {33, 0x80}, {34, 0}};
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        uint8_t damaged[HR_PULSE_BYTES_MAX];
        memcpy(damaged, bytes, used);
        damaged[damages[i].at] = damages[i].value;
        if (hr_pulse_decode((struct hr_span){(char *)damaged, used}, &read) != HR_E_CORRUPT) {
            fail_msg("damage %lu", (unsigned long)i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_two_majorities_share_a_member),
        cmocka_unit_test(the_half_with_the_least_member_wins_a_tie),
        cmocka_unit_test(a_lease_lasts_from_the_stamp_that_made_the_majority),
        cmocka_unit_test(a_pulse_is_these_bytes),
        cmocka_unit_test(a_pulse_comes_back_and_no_part_of_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
