#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/cap_wire.h"

static const struct hr_cap_header HEADER = {
    .incarnation = 0x0102030405060708,
    .known = 9,
    .stamp = 10,
    .echo = HR_CAP_LONG_AGO,
    .number = 11,
    .heard = 12,
    .heard_bits = 13,
    .session = 14,
    .lapsed = 15,
    .epoch = 16,
    .low = 17,
    .is_settled = true,
    .lacks = true,
};

static const struct hr_cap_record LEND = {
    .id = {0xaabbccddeeff0011, 0x2233445566778899},
    .limit = 7,
    .introduces = true,
    .lend = {.demand = 300,
             .has_grant = true,
             .has_answer = true,
             .grant = {1, 128, 2, 3, UINT64_MAX, UINT64_MAX - 5, true},
             .answer = {4, 5, 6, 7, 8, 9}},
};

static const struct hr_cap_record COVER = {
    .id = {0xaabbccddeeff0011, 0},
    .is_cover = true,
    .cover = {.label = -3,
              .life = 1,
              .known_life = 2,
              .spare = -64,
              .demand = 3,
              .out = 4,
              .received = 5,
              .epoch = 6,
              .low = 7,
              .is_down = true},
};

static const uint8_t GOLDEN[] = {
    3,    9,                                                          /* version; settled, lacks */
    8,    7,    6,    5,    4,    3,    2,    1,                      /* incarnation */
    9,    0,    0,    0,    0,    0,    0,    0,                      /* known */
    10,   0,    0,    0,    0,    0,    0,    0,                      /* stamp */
    0,    0,    0,    0,    0,    0,    0,    0xfe,                   /* echo: long ago */
    11,   0,    0,    0,    12,   0,    0,    0,                      /* number, heard */
    13,   0,    0,    0,    0,    0,    0,    0,                      /* bits */
    14,   0,    0,    0,    15,   0,    0,    0,                      /* session, lapsed */
    16,   0,    0,    0,    17,   0,    0,    0,                      /* epoch, low */
    2,    0,                                                          /* two records */
    0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x5a,             /* key; introduces, grant, answer, wants one */
    0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22,                   /* the other half */
    7,    0,    0,    0,                                              /* limit */
    0xc0, 0x25, 1,    0x81, 0x01, 0x20, 0x30,                         /* demand; number, rate, depth, tokens */
    0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x50, /* parcels, and those on their way */
    4,    5,    0x60, 0x70, 0x80, 0x01, 0x90, 0x01,                   /* answer */
    0x11, 0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x05,             /* key; cover, down */
    5,    1,    2,    0x30, 0x7f, 0x40, 0x50, 6,    7, /* label -3, lives, demand, spare -64, rows, epochs */
};

static uint8_t memory[HR_CAP_LETTER_BYTES_MAX];

static struct hr_span write_both(void)
{
    struct hr_cap_writer writer;
    hr_cap_write_header(&writer, memory, &HEADER);
    hr_cap_write_record(&writer, &LEND);
    hr_cap_write_record(&writer, &COVER);
    return hr_cap_write_end(&writer);
}

static void a_letter_has_the_bytes_of_version_3(void **state)
{
    struct hr_span letter = write_both();
    (void)state;
    assert_int_equal(letter.bytes, sizeof GOLDEN);
    assert_memory_equal(letter.at, GOLDEN, sizeof GOLDEN);
}

static void what_was_written_is_read(void **state)
{
    struct hr_cap_reader reader;
    struct hr_cap_header header;
    struct hr_cap_record record;
    (void)state;
    assert_int_equal(hr_cap_read_header(write_both(), &reader, &header), HR_OK);
    assert_memory_equal(&header, &HEADER, sizeof header);
    assert_true(hr_cap_read_record(&reader, &record));
    assert_memory_equal(&record.lend, &LEND.lend, sizeof record.lend);
    assert_true(hr_id128_equal(record.id, LEND.id) && record.limit == 7 && record.introduces);
    assert_true(hr_cap_read_record(&reader, &record));
    assert_memory_equal(&record.cover, &COVER.cover, sizeof record.cover);
    assert_false(hr_cap_read_record(&reader, &record));
}

static void every_prefix_is_refused(void **state)
{
    struct hr_cap_reader reader;
    struct hr_cap_header header;
    (void)state;
    for (size_t bytes = 0; bytes < sizeof GOLDEN; bytes++) {
        char *prefix = malloc(bytes + 1); /* so that a sanitizer sees a byte too many being read */
        memcpy(prefix, GOLDEN, bytes);
        enum hr_err err = hr_cap_read_header((struct hr_span){prefix, bytes}, &reader, &header);
        free(prefix);
        if (err == HR_OK) {
            fail_msg("a prefix of %zu bytes was read", bytes);
        }
    }
}

static void what_is_out_of_range_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } rows[] = {
        {0, 1},      /* version */
        {1, 0x80},   /* a flag that there is not */
        {25, 0x80},  /* a stamp before all time */
        {33, 0xfd},  /* an echo of before long ago */
        {67, 0xff},  /* more records than a letter has */
        {66, 3},     /* more records than there are */
        {66, 1},     /* fewer */
        {76, 0x9a},  /* a flag of a record that there is not */
        {90, 0x00},  /* a number with zeros in front */
        {94, 0x01},  /* an amount of nothing but zeros */
        {93, 0x02},  /* an amount with a zero at its end that is not counted */
        {105, 0x3f}, /* a number of more than 64 bits */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hr_cap_reader reader;
        struct hr_cap_header header;
        uint8_t bytes[sizeof GOLDEN];
        memcpy(bytes, GOLDEN, sizeof bytes);
        bytes[rows[i].at] = rows[i].byte;
        enum hr_err err = hr_cap_read_header((struct hr_span){(const char *)bytes, sizeof bytes}, &reader, &header);
        if (err == HR_OK) {
            fail_msg("row %zu was read", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_letter_has_the_bytes_of_version_3),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
