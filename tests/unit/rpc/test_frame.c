/* Finding the end of a value in bytes that arrive piece by piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/frame.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    struct hr_span bytes;
    uint32_t bytes_max;
    enum hr_err err;
    size_t size; /* on HR_OK */
} rows[] = {
    {{"", 0}, 64, HR_E_TRUNCATED, 0},
    {{"\x05", 1}, 64, HR_OK, 1},
    {{"\x05\x06", 2}, 64, HR_OK, 1},
    {{"\x92\x01\xa2xy\xc0", 6}, 64, HR_OK, 5},
    {{"\x92\x90\x80", 3}, 64, HR_OK, 3},
    {{"\x92\x91\x90\x81\xc0\x91\xc0", 7}, 64, HR_OK, 7},
    {{"\xd8\x01"
      "0123456789abcdef"
      "\xc0",
      19},
     64,
     HR_OK,
     18},
    {{"\x92\x01\xa2x", 4}, 64, HR_E_TRUNCATED, 0},
    {{"\x92\x01", 2}, 64, HR_E_TRUNCATED, 0},
    {{"\xc1", 1}, 64, HR_E_CORRUPT, 0},
    {{"\x92\x01\xc1", 3}, 64, HR_E_CORRUPT, 0},
    {{"\xa3xyz", 4}, 4, HR_OK, 4},
    {{"\xa4xyz", 4}, 4, HR_E_RANGE, 0},
    {{"\x93\x01\x02\x03", 4}, 4, HR_OK, 4},
    {{"\x94", 1}, 4, HR_E_RANGE, 0},
    {{"\x91\x93", 2}, 4, HR_E_RANGE, 0},
    {{"\x81\x81", 2}, 4, HR_E_RANGE, 0},
    {{"\x91\xce\x00\x00", 4}, 4, HR_E_RANGE, 0},
    {{"\xdf\xff\xff\xff\xff", 5}, UINT32_MAX, HR_E_RANGE, 0},
    {{"\xdd\xff\xff\xff\xff", 5}, UINT32_MAX, HR_E_RANGE, 0},
    {{"\xdb\xff\xff\xff\xff", 5}, UINT32_MAX, HR_E_RANGE, 0},
    {{"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x90", 16}, 64, HR_OK, 16},
    {{"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x05", 17}, 64, HR_OK, 17},
    {{"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x90", 17}, 64, HR_E_TOO_MANY, 0},
    {{"\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x80", 17}, 64, HR_E_TOO_MANY, 0},
};

static void a_frame_ends_where_its_value_does_or_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_frame frame;
        print_message("row %zu\n", i);
        hr_frame_init(&frame, rows[i].bytes_max);
        assert_int_equal(hr_frame_scan(&frame, rows[i].bytes), rows[i].err);
        if (rows[i].err == HR_OK) {
            assert_int_equal(frame.at, rows[i].size);
        }
    }
}

static void byte_by_byte_is_the_same_as_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_frame frame;
        enum hr_err err = HR_E_TRUNCATED;
        print_message("row %zu\n", i);
        hr_frame_init(&frame, rows[i].bytes_max);
        for (size_t bytes = 0; err == HR_E_TRUNCATED && bytes <= rows[i].bytes.bytes; bytes++) {
            err = hr_frame_scan(&frame, (struct hr_span){rows[i].bytes.at, bytes});
        }
        assert_int_equal(err, rows[i].err);
        if (err == HR_OK) {
            assert_int_equal(frame.at, rows[i].size);
        }
    }
}

/* Were it to begin anew with each byte, this would take 2^39 steps. */
static void a_megabyte_that_dribbles_in_is_scanned_once(void **state)
{
    (void)state;
    static char bytes[HR_FRAME_BYTES_MAX]; /* zeroes behind the head: as many small numbers as fit */
    const uint32_t count = HR_FRAME_BYTES_MAX - 5;
    struct hr_frame frame;
    bytes[0] = (char)0xdd;
    for (unsigned i = 0; i < 4; i++) {
        bytes[1 + i] = (char)(count >> (24 - 8 * i));
    }
    hr_frame_init(&frame, HR_FRAME_BYTES_MAX);
    for (size_t arrived = 0; arrived < sizeof(bytes); arrived++) {
        if (hr_frame_scan(&frame, (struct hr_span){bytes, arrived}) != HR_E_TRUNCATED) {
            fail_msg("not truncated at %zu", arrived);
        }
    }
    assert_int_equal(hr_frame_scan(&frame, (struct hr_span){bytes, sizeof(bytes)}), HR_OK);
    assert_int_equal(frame.at, sizeof(bytes));
}

/* Plain or not: whole, and with a byte behind it. */
static const struct {
    struct hr_span bytes;
    uint32_t containers_max;
    bool is_plain;
} values[] = {
    {{"\x05", 1}, 0, true},
    {{"\xff", 1}, 0, true},
    {{"\xc0", 1}, 0, true},
    {{"\xc2", 1}, 0, true},
    {{"\xc3", 1}, 0, true},
    {{"\xc1", 1}, 0, false},
    {{"\xcc\xff", 2}, 0, true},
    {{"\xcd\xff\xff", 3}, 0, true},
    {{"\xce\xff\xff\xff\xff", 5}, 0, true},
    {{"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9}, 0, true},
    {{"\xd0\xff", 2}, 0, true},
    {{"\xd1\xff\xff", 3}, 0, true},
    {{"\xd2\xff\xff\xff\xff", 5}, 0, true},
    {{"\xd3\xff\xff\xff\xff\xff\xff\xff\xff", 9}, 0, true},
    {{"\xca\xff\xff\xff\xff", 5}, 0, true},
    {{"\xcb\xff\xff\xff\xff\xff\xff\xff\xff", 9}, 0, true},
    {{"\xa0", 1}, 0, true},
    {{"\xa2xy", 3}, 0, true},
    {{"\xbf"
      "0123456789abcdef0123456789abcde",
      32},
     0,
     true},
    {{"\xd9\x02xy", 4}, 0, true},
    {{"\xd9\x00", 2}, 0, true},
    {{"\xc4\x02xy", 4}, 0, true},
    {{"\xda\x00\x02xy", 5}, 0, false},
    {{"\xc5\x00\x02xy", 5}, 0, false},
    {{"\xdb\x00\x00\x00\x02xy", 7}, 0, false},
    {{"\xd4\x01\x02", 3}, 0, false},
    {{"\xc7\x01\x02\x03", 4}, 0, false},
    {{"\xdc\x00\x01\x05", 4}, 1, false},
    {{"\xde\x00\x01\x05\x05", 5}, 1, false},
    {{"\x90", 1}, 1, true},
    {{"\x90", 1}, 0, false},
    {{"\x80", 1}, 1, true},
    {{"\x82\xa1x\x05\xa1y\x91\xc0", 8}, 2, true},
    {{"\x82\xa1x\x05\xa1y\x91\xc0", 8}, 1, false},
    {{"\x93\x91\x90\x90\x05", 5}, 4, true}, /* three deep at most, but it is not looked at so closely */
    {{"\x93\x91\x90\x90\x05", 5}, 3, false},
    {{"\x8f\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02\x01\x02"
      "\x01\x02\x01\x02",
      31},
     1,
     true},
};

static void a_plain_value_has_the_size_that_the_scan_finds(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        char more[64] = {0};
        struct hr_frame frame;
        struct hr_span bytes = values[i].bytes;
        print_message("value %zu\n", i);
        memcpy(more, bytes.at, bytes.bytes);
        hr_frame_init(&frame, 64);
        assert_int_equal(hr_frame_scan(&frame, bytes), bytes.at[0] == '\xc1' ? HR_E_CORRUPT : HR_OK);
        assert_int_equal(hr_frame_plain_bytes(bytes, values[i].containers_max), values[i].is_plain ? frame.at : 0);
        bytes = (struct hr_span){more, bytes.bytes + 1};
        assert_int_equal(hr_frame_plain_bytes(bytes, values[i].containers_max), values[i].is_plain ? frame.at : 0);
    }
}

static void a_value_that_is_cut_short_is_not_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        print_message("value %zu\n", i);
        for (size_t bytes = 0; bytes < values[i].bytes.bytes; bytes++) {
            char *part = malloc(bytes + 1); /* so that one more byte is there, and nothing behind it */
            assert_non_null(part);
            memcpy(part + 1, values[i].bytes.at, bytes);
            assert_int_equal(hr_frame_plain_bytes((struct hr_span){part + 1, bytes}, 16), 0);
            free(part);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_value_has_the_size_that_the_scan_finds),
        cmocka_unit_test(a_value_that_is_cut_short_is_not_plain),
        cmocka_unit_test(a_frame_ends_where_its_value_does_or_is_refused),
        cmocka_unit_test(byte_by_byte_is_the_same_as_at_once),
        cmocka_unit_test(a_megabyte_that_dribbles_in_is_scanned_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
