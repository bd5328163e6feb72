/* What a node keeps about global caps, as bytes: rules and images. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cap_images.h"
#include "node/cap_rules.h"

static const struct hr_cap_rules some_rules = {
    .names = UINT64_C(0x0123456789abcdef),
    .region_count = 2,
    .weights = {2, 1},
    .count = 2,
    .at = {{.number = 0x10,
            .kind = HR_CAP_LEND,
            .reserve_permille = 200,
            .slack_permille = 50,
            .rate = 100,
            .period_ns = UINT64_C(1000000000),
            .total = 150},
           {.number = 0x20,
            .kind = HR_CAP_COVER_WINDOWS,
            .decays = true,
            .has_log = true,
            .reserve_permille = 200,
            .total = 1000000}},
};

/* Written down by hand, field after field. */
static const uint8_t golden_rules[] = {
    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,                    /* names */
    2,    2,    0,    0,    0,    1,    0,    0,    0,                 /* regions and weights */
    2,    0,                                                           /* rules */
    0x10, 0,    0,    0,    0,    0,    200,  0,    0, 0, 50, 0, 0, 0, /* number, kind, flags, reserve, slack */
    100,  0,    0,    0,    0,    0,    0,    0,                       /* rate */
    0x00, 0xca, 0x9a, 0x3b, 0,    0,    0,    0,                       /* period */
    150,  0,    0,    0,    0,    0,    0,    0,                       /* burst */
    0x20, 0,    0,    0,    1,    3,    200,  0,    0, 0, 0,  0, 0, 0, /* */
    0,    0,    0,    0,    0,    0,    0,    0,                       /* */
    0,    0,    0,    0,    0,    0,    0,    0,                       /* */
    0x40, 0x42, 0x0f, 0,    0,    0,    0,    0,                       /* total */
};

static const struct hr_caps_write some_image = {
    .id = {UINT64_C(0x1122334455667788), UINT64_C(0x99aabbccddeeff00)},
    .limit = 0x20,
    .window = 1,
    .image = {.label = -2,
              .life = 7,
              .lost = 3,
              .charged = 500,
              .count = 2,
              .rows = {{.life = 9, .out = 4, .out_base = 5, .in_base = 6}, {.life = 0}}},
};

static const uint8_t golden_image[] = {
    'I',  0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,                      /* tag, id */
    0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,                            /* */
    0x20, 0,    0,    0,    1,                                                 /* limit, window */
    0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,                            /* label */
    7,    0,    0,    0,    0,    0,    0,    0,                               /* life */
    3,    0,    0,    0,    0,    0,    0,    0,                               /* lost */
    0xf4, 1,    0,    0,    0,    0,    0,    0,                               /* charged */
    2,                                                                         /* rows */
    9,    0,    0,    0,    0,    0,    0,    0,    4,    0, 0, 0, 0, 0, 0, 0, /* */
    5,    0,    0,    0,    0,    0,    0,    0,    6,    0, 0, 0, 0, 0, 0, 0, /* */
    0,    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, /* */
    0,    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, /* */
};

static struct hr_cap_rules rules;
static uint8_t rules_bytes[HR_CAP_RULES_BYTES_MAX];

static struct hr_span span_of(const uint8_t *bytes, size_t count)
{
    return (struct hr_span){(const char *)bytes, count};
}

static void rules_are_these_bytes_and_no_others(void **state)
{
    (void)state;
    assert_int_equal(hr_cap_rules_encode(&some_rules, rules_bytes), sizeof(golden_rules));
    assert_memory_equal(rules_bytes, golden_rules, sizeof(golden_rules));
    assert_int_equal(hr_cap_rules_decode(span_of(golden_rules, sizeof(golden_rules)), &rules), HR_OK);
    assert_int_equal(hr_cap_rules_hash(&rules), hr_cap_rules_hash(&some_rules));
    assert_true(rules.at[1].decays && rules.at[1].has_log);
    assert_int_equal(hr_cap_rules_find(&rules, 0x20)->total, 1000000);
    assert_null(hr_cap_rules_find(&rules, 0x18));
}

static void no_shorter_or_longer_rules_are_read(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < sizeof(golden_rules); bytes++) {
        uint8_t *copy = malloc(bytes + 1); /* of just this size, so that the sanitizer sees a step beyond */
        assert_non_null(copy);
        memcpy(copy, golden_rules, bytes);
        if (hr_cap_rules_decode(span_of(copy, bytes), &rules) != HR_E_CORRUPT) {
            fail_msg("%zu bytes were read", bytes);
        }
        free(copy);
    }
    memcpy(rules_bytes, golden_rules, sizeof(golden_rules));
    assert_int_equal(hr_cap_rules_decode(span_of(rules_bytes, sizeof(golden_rules) + 1), &rules), HR_E_CORRUPT);
}

static void rules_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } rows[] = {
        {8, 0},     {8, 9},  /* regions */
        {19, 0x11},          /* an odd number */
        {23, 3},             /* a kind that there is not */
        {24, 4},             /* an unknown flag */
        {26, 4},    {30, 4}, /* a reserve, a slack above all */
        {33, 0},             /* no rate */
        {49, 0},             /* no burst */
        {57, 0x10},          /* the same number twice */
        {71, 1},             /* a count with a rate */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memcpy(rules_bytes, golden_rules, sizeof(golden_rules));
        rules_bytes[rows[i].at] = rows[i].value;
        if (hr_cap_rules_decode(span_of(rules_bytes, sizeof(golden_rules)), &rules) != HR_E_CORRUPT) {
            fail_msg("row %zu was read", i);
        }
    }
}

static void an_image_is_these_bytes_and_no_others(void **state)
{
    (void)state;
    uint8_t bytes[HR_CAP_IMAGE_BYTES_MAX];
    struct hr_caps_write read;
    assert_int_equal(hr_cap_image_encode(&some_image, bytes), sizeof(golden_image));
    assert_memory_equal(bytes, golden_image, sizeof(golden_image));
    assert_int_equal(hr_cap_image_decode(span_of(golden_image, sizeof(golden_image)), &read), HR_OK);
    assert_int_equal(hr_cap_image_encode(&read, bytes), sizeof(golden_image));
    assert_memory_equal(bytes, golden_image, sizeof(golden_image));
}

static void no_shorter_or_longer_image_is_read(void **state)
{
    (void)state;
    struct hr_caps_write read;
    for (size_t bytes = 0; bytes < sizeof(golden_image); bytes++) {
        uint8_t *copy = malloc(bytes + 1);
        assert_non_null(copy);
        memcpy(copy, golden_image, bytes);
        if (hr_cap_image_decode(span_of(copy, bytes), &read) != HR_E_CORRUPT) {
            fail_msg("%zu bytes were read", bytes);
        }
        free(copy);
    }
    uint8_t longer[sizeof(golden_image) + 1] = {0};
    memcpy(longer, golden_image, sizeof(golden_image));
    assert_int_equal(hr_cap_image_decode(span_of(longer, sizeof(longer)), &read), HR_E_CORRUPT);
}

static struct hr_cap_images *new_images(uint32_t count_max, void **ret_memory)
{
    struct hr_cap_images *images = calloc(1, sizeof(*images));
    struct hr_bump measure = {0};
    assert_non_null(images);
    hr_cap_images_init(images, count_max, &measure);
    *ret_memory = calloc(1, measure.taken);
    assert_non_null(*ret_memory);
    struct hr_bump bump = {.at = *ret_memory};
    hr_cap_images_init(images, count_max, &bump);
    return images;
}

static struct hr_caps_write image_of(uint64_t partition, uint64_t which, uint32_t window)
{
    struct hr_caps_write write = some_image;
    write.id = (struct hr_id128){partition << 52, which};
    write.window = window;
    return write;
}

static void an_image_takes_the_place_of_the_one_before(void **state)
{
    (void)state;
    void *memory;
    struct hr_cap_images *images = new_images(4, &memory);
    struct hr_caps_write write = image_of(3, 1, 0);
    hr_cap_images_put(images, &write)->is_restored = true;
    write.image.charged = 900;
    struct hr_cap_kept *kept = hr_cap_images_put(images, &write);
    assert_int_equal(images->used, 1);
    assert_int_equal(kept->write.image.charged, 900);
    assert_ptr_equal(hr_cap_images_next_unrestored(images, write.id, write.limit), kept);
    assert_null(hr_cap_images_next_unrestored(images, write.id, write.limit + 2));
    free(memory);
    free(images);
}

static void without_room_a_partition_is_not_whole(void **state)
{
    (void)state;
    void *memory;
    struct hr_cap_images *images = new_images(2, &memory);
    images->marks[3].trust = images->marks[4].trust = HR_CAP_TRUST_COPY;
    for (uint64_t i = 0; i < 2; i++) {
        struct hr_caps_write write = image_of(3, i, 0);
        assert_non_null(hr_cap_images_put(images, &write));
    }
    struct hr_caps_write write = image_of(4, 9, 0);
    assert_null(hr_cap_images_put(images, &write));
    assert_int_equal(images->marks[4].trust, HR_CAP_TRUST_NONE);
    assert_int_equal(images->marks[3].trust, HR_CAP_TRUST_COPY);
    uint32_t cursor = 0;
    struct hr_cap_kept *kept = hr_cap_images_next(images, 3, &cursor);
    assert_non_null(kept);
    hr_cap_images_free(images, kept);
    assert_non_null(hr_cap_images_put(images, &write));
    free(memory);
    free(images);
}

static void a_partitions_images_end_together(void **state)
{
    (void)state;
    void *memory;
    struct hr_cap_images *images = new_images(8, &memory);
    for (uint64_t i = 0; i < 6; i++) {
        struct hr_caps_write write = image_of(i % 2, i, 0);
        assert_non_null(hr_cap_images_put(images, &write));
    }
    hr_cap_images_end(images, 0);
    uint32_t cursor = 0, count = 0;
    assert_null(hr_cap_images_next(images, 0, &cursor));
    while (hr_cap_images_next(images, 1, &cursor) != NULL) {
        count++;
    }
    assert_int_equal(count, 3);
    assert_true(images->has_work);
    free(memory);
    free(images);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_these_bytes_and_no_others),
        cmocka_unit_test(no_shorter_or_longer_rules_are_read),
        cmocka_unit_test(rules_out_of_range_are_refused),
        cmocka_unit_test(an_image_is_these_bytes_and_no_others),
        cmocka_unit_test(no_shorter_or_longer_image_is_read),
        cmocka_unit_test(an_image_takes_the_place_of_the_one_before),
        cmocka_unit_test(without_room_a_partition_is_not_whole),
        cmocka_unit_test(a_partitions_images_end_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
