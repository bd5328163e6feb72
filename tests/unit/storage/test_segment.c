/* Segments: what was written comes back in order and as it was, and nothing else is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "storage/segment.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define IMAGES_MAX 4096

static const struct hr_id128 id = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

struct rig {
    struct hr_store_key key;
    struct hr_segment_writer writer;
    uint8_t memory[HR_SEGMENT_BYTES_MAX + 1];
    struct hr_counter_image images[IMAGES_MAX];
    bool forgotten[IMAGES_MAX];
    uint32_t count;
};

static struct rig rig;

static void open_rig(void)
{
    rig.key = hr_segment_key(7);
    rig.count = 0;
    hr_segment_clear(&rig.writer, rig.memory);
}

static struct hr_record record_of(size_t bytes)
{
    return (struct hr_record){HR_RECORD_COUNTER, hr_store_key_span(&rig.key), {(const char *)rig.memory, bytes}};
}

static struct hr_counter_image image_of(uint64_t limit, uint32_t entry_count)
{
    struct hr_counter_image image = {.id = id,
                                     .limit = {limit, 1},
                                     .algorithm = 255,
                                     .rate = UINT64_MAX,
                                     .period_ns = UINT64_MAX,
                                     .saved_at = HR_TIME_NS_MAX,
                                     .ahead = UINT64_MAX,
                                     .words = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
                                     .entry_count = entry_count};
    for (uint32_t i = 0; i < entry_count; i++) {
        image.entries[i] = (struct hr_entry_image){UINT64_MAX - i, UINT32_MAX - i};
    }
    return image;
}

static void put(const struct hr_counter_image *image, bool is_forgotten)
{
    assert_true(hr_segment_has_room(&rig.writer));
    rig.images[rig.count] = *image;
    rig.forgotten[rig.count++] = is_forgotten;
    if (is_forgotten) {
        hr_segment_forget(&rig.writer, image->id, image->saved_at);
    } else {
        hr_segment_put(&rig.writer, image);
    }
}

static bool is_same(const struct hr_counter_image *a, const struct hr_counter_image *b)
{
    bool same = hr_id128_equal(a->id, b->id) && hr_id128_equal(a->limit, b->limit) && a->algorithm == b->algorithm &&
                a->rate == b->rate && a->period_ns == b->period_ns && a->saved_at == b->saved_at &&
                a->ahead == b->ahead && memcmp(a->words, b->words, sizeof(a->words)) == 0 &&
                a->entry_count == b->entry_count;
    for (uint32_t i = 0; same && i < a->entry_count; i++) {
        same = a->entries[i].age_ns == b->entries[i].age_ns && a->entries[i].cost == b->entries[i].cost;
    }
    return same;
}

/* Reads the first `bytes` bytes: how many came back as they were, and how it ended. */
static enum hr_err read_back(size_t bytes, uint32_t *ret_count)
{
    struct hr_record record = record_of(bytes);
    struct hr_segment_reader reader;
    struct hr_counter_image image;
    bool is_forgotten;
    *ret_count = 0;
    enum hr_err err = hr_segment_open(&record, &reader);
    while (err == HR_OK && (err = hr_segment_next(&reader, &image, &is_forgotten)) == HR_OK) {
        assert_true(*ret_count < rig.count);
        const struct hr_counter_image *expected = &rig.images[*ret_count];
        assert_int_equal(is_forgotten, rig.forgotten[*ret_count]);
        assert_true(is_forgotten ? hr_id128_equal(image.id, expected->id) : is_same(&image, expected));
        ++*ret_count;
    }
    return err;
}

static void fill_at_random(struct hr_rng *rng)
{
    uint64_t rules = 1 + hr_rng_below(rng, 40); /* more than are filed at a time */
    while (rig.count < IMAGES_MAX && hr_segment_has_room(&rig.writer)) {
        uint64_t limit = hr_rng_below(rng, rules);
        struct hr_counter_image image = {.id = {hr_rng_next(rng), hr_rng_next(rng)},
                                         .limit = {limit, 1},
                                         .algorithm = (uint8_t)limit,
                                         .rate = limit << 40,
                                         .period_ns = limit,
                                         .saved_at = 1700000000,
                                         .ahead = hr_rng_next(rng) >> hr_rng_below(rng, 64)};
        for (size_t i = 0; i < COUNT(image.words); i++) {
            image.words[i] = hr_rng_next(rng) >> hr_rng_below(rng, 64);
        }
        image.entry_count = hr_rng_chance(rng, 1, 8) ? (uint32_t)hr_rng_below(rng, HR_IMAGE_ENTRIES_MAX + 1) : 0;
        for (uint32_t i = 0; i < image.entry_count; i++) {
            image.entries[i] = (struct hr_entry_image){hr_rng_next(rng), (uint32_t)hr_rng_next(rng)};
        }
        put(&image, hr_rng_chance(rng, 1, 10));
    }
}

static void what_was_written_comes_back_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct hr_rng rng = {seed};
        uint32_t count = 0;
        open_rig();
        fill_at_random(&rng);
        assert_int_equal(read_back(rig.writer.used, &count), HR_E_NOT_FOUND);
        assert_int_equal(count, rig.count);
    }
}

static void the_largest_counter_takes_no_more_than_was_asked_for(void **state)
{
    (void)state;
    for (uint64_t limit = 0; limit < 2 * HR_SEGMENT_RULES_MAX; limit++) {
        struct hr_counter_image image = image_of(limit, HR_IMAGE_ENTRIES_MAX);
        if (limit == 0) {
            open_rig();
        }
        size_t before = rig.writer.used;
        put(&image, false);
        assert_true(rig.writer.used - before <= HR_SEGMENT_COUNTER_BYTES_MAX);
    }
    uint32_t count = 0;
    assert_int_equal(read_back(rig.writer.used, &count), HR_E_NOT_FOUND);
    assert_int_equal(count, 2 * HR_SEGMENT_RULES_MAX);
}

static void debts_come_back_as_counters_and_take_no_more_room_than_one(void **state)
{
    (void)state;
    struct hr_debt debts[HR_DEBTS_MAX];
    uint32_t found = 0;
    for (uint32_t count = 1; count <= HR_DEBTS_MAX; count++) {
        struct hr_counter_image shared = image_of(count, 0);
        open_rig();
        shared.ahead = shared.words[0] = shared.words[2] = 0;
        for (uint32_t i = 0; i < count; i++) {
            debts[i] = (struct hr_debt){{i, ~UINT64_C(0) - i}, UINT64_MAX >> (3 * i)};
            rig.images[i] = shared;
            rig.images[i].id = debts[i].id;
            rig.images[i].words[1] = debts[i].debt;
            rig.forgotten[i] = false;
        }
        rig.count = count;
        hr_segment_put_debts(&rig.writer, &shared, debts, count);
        assert_true(rig.writer.used <= HR_SEGMENT_COUNTER_BYTES_MAX);
        assert_int_equal(read_back(rig.writer.used, &found), HR_E_NOT_FOUND);
        assert_int_equal(found, count);
        size_t begin = 8 + 1 + 16 + 1 + 10 + 10, each = 1 + 16 + 8;
        for (size_t bytes = begin; bytes < rig.writer.used; bytes++) {
            bool is_boundary = (bytes - begin) % each == 0;
            assert_int_equal(read_back(bytes, &found), is_boundary ? HR_E_NOT_FOUND : HR_E_CORRUPT);
            assert_int_equal(found, (bytes - begin) / each);
        }
    }
}

static void a_debt_has_these_bytes(void **state)
{
    (void)state;
    static const char wanted[] = "\x09\0\0\0\0\0\0\0"                                   /* saved at */
                                 "\x10\x07\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x03\x04" /* the rule */
                                 "\x60\xef\xcd\xab\x89\x67\x45\x23\x01\x10\x32\x54\x76\x98\xba\xdc\xfe"
                                 "\x05\0\0\0\0\0\0\x80";
    const struct hr_counter_image shared = {.limit = {7, 1}, .algorithm = 2, .rate = 3, .period_ns = 4, .saved_at = 9};
    const struct hr_debt debt = {id, UINT64_C(0x8000000000000005)};
    open_rig();
    hr_segment_put_debts(&rig.writer, &shared, &debt, 1);
    assert_int_equal(rig.writer.used, sizeof(wanted) - 1);
    assert_memory_equal(rig.memory, wanted, sizeof(wanted) - 1);
}

/* Cut short between two counters it is a shorter segment; anywhere else it makes no sense from there on. */
static void each_truncated_prefix_gives_what_is_whole_and_no_more(void **state)
{
    (void)state;
    size_t ends[4] = {0};
    struct hr_counter_image image = image_of(1, 2);
    open_rig();
    for (size_t i = 0; i < COUNT(ends); i++) {
        put(&image, i == 1);
        ends[i] = rig.writer.used;
        image.limit.hi += i == 1; /* the third has a rule of its own */
        image.entry_count = i == 2 ? 0 : image.entry_count;
    }
    for (size_t bytes = 0; bytes <= rig.writer.used; bytes++) {
        uint32_t count = 0, whole = 0;
        while (whole < COUNT(ends) && ends[whole] <= bytes) {
            whole++;
        }
        enum hr_err err = read_back(bytes, &count);
        bool is_boundary = bytes == 8 || (whole > 0 && ends[whole - 1] == bytes);
        bool has_rule_only = whole == 2 && bytes == ends[1] + 1 + 16 + 1 + 10 + 10;
        bool is_first_rule = whole == 0 && bytes == 8 + 1 + 16 + 1 + 10 + 10;
        if (count != whole || (err == HR_E_NOT_FOUND) != (is_boundary || has_rule_only || is_first_rule)) {
            fail_msg("%zu bytes: %u came back, %u are whole, %s", bytes, count, whole, hr_err_text(err));
        }
    }
}

static void what_nobody_writes_is_not_believed(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
    } rows[] = {
        {"\x05", 1}, /* a counter under a rule that was never filed */
        {"\x21", 1}, /* no such tag */
        {"\x30", 1},
        {"\x80", 1},
        {"\xff", 1},
        {"\x20"
         "0123456789",
         11}, /* half an id */
        {"\x10"
         "0123456789abcdef"
         "\x01"
         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"
         "\x01",
         29}, /* 65 bits */
        {"\x10"
         "0123456789abcdef"
         "\x01"
         "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"
         "\x01",
         30},
        {"\x10"
         "0123456789abcdef"
         "\x01\x01\x01"
         "\x40"
         "0123456789abcdef"
         "\x00\x00\x00\x00"
         "\x21",
         42}, /* 33 entries */
        {"\x10"
         "0123456789abcdef"
         "\x01\x01\x01"
         "\x40"
         "0123456789abcdef"
         "\x00\x00\x00\x00"
         "\x01"
         "\x01"
         "\x80\x80\x80\x80\x10",
         48}, /* a cost of more than 32 bits */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t count = 0;
        open_rig();
        memset(rig.memory, 0, 8);
        memcpy(rig.memory + 8, rows[i].bytes, rows[i].count);
        if (read_back(8 + rows[i].count, &count) != HR_E_CORRUPT) {
            fail_msg("row %zu is believed", i);
        }
    }
}

static void a_time_or_key_out_of_bounds_is_not_believed(void **state)
{
    (void)state;
    static const int64_t times[] = {0, HR_TIME_NS_MAX, HR_TIME_NS_MAX + 1, -1, INT64_MIN};
    uint32_t count = 0;
    for (size_t i = 0; i < COUNT(times); i++) {
        open_rig();
        hr_segment_forget(&rig.writer, id, times[i]);
        rig.images[0].id = id;
        rig.forgotten[0] = true;
        rig.count = 1;
        assert_int_equal(read_back(rig.writer.used, &count), i < 2 ? HR_E_NOT_FOUND : HR_E_CORRUPT);
    }
    open_rig();
    struct hr_counter_image image = image_of(1, 0);
    put(&image, false);
    rig.key = hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){1, 7}); /* no number */
    assert_int_equal(read_back(rig.writer.used, &count), HR_E_CORRUPT);
    rig.key = hr_store_key_of_id(HR_RECORD_LEASE, (struct hr_id128){0, 7});
    assert_int_equal(read_back(rig.writer.used, &count), HR_E_CORRUPT);
    rig.key = hr_segment_key(7);
    rig.key.bytes--;
    assert_int_equal(read_back(rig.writer.used, &count), HR_E_CORRUPT);
}

static void keys_are_in_the_order_of_their_numbers(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 255, 256, 65535, UINT64_C(1) << 32, UINT64_MAX};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct hr_store_key key = hr_segment_key(numbers[i]), before = hr_segment_key(i == 0 ? 0 : numbers[i - 1]);
        uint64_t number = 0;
        assert_int_equal(hr_segment_number(hr_store_key_span(&key), &number), HR_OK);
        assert_true(number == numbers[i]);
        assert_true(i == 0 || memcmp(before.at, key.at, key.bytes) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_comes_back_in_order),
        cmocka_unit_test(the_largest_counter_takes_no_more_than_was_asked_for),
        cmocka_unit_test(debts_come_back_as_counters_and_take_no_more_room_than_one),
        cmocka_unit_test(a_debt_has_these_bytes),
        cmocka_unit_test(each_truncated_prefix_gives_what_is_whole_and_no_more),
        cmocka_unit_test(what_nobody_writes_is_not_believed),
        cmocka_unit_test(a_time_or_key_out_of_bounds_is_not_believed),
        cmocka_unit_test(keys_are_in_the_order_of_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
