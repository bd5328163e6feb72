/* Key text: put together in words, it is byte for byte what its definition says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/key_text.h"

#define TEXT_BYTES_MAX (HR_ATTRIBUTES_MAX * (2 + HR_ATTRIBUTE_VALUE_BYTES_MAX))

/* A value of that many random bytes in memory of just its size, which a reader must not leave. */
static struct hr_span draw_value(struct hr_rng *rng, size_t bytes)
{
    char *at = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(at);
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (char)hr_rng_next(rng);
    }
    return (struct hr_span){at, bytes};
}

static size_t append(uint8_t *text, size_t end, struct hr_span value)
{
    text[end] = (uint8_t)(value.bytes & 0xff);
    text[end + 1] = (uint8_t)(value.bytes >> 8);
    memcpy(text + end + 2, value.at, value.bytes);
    return end + 2 + value.bytes;
}

/* As many values as there are lengths, which go by i. */
static void expect_text(const size_t *lengths, size_t count)
{
    static uint8_t expected[TEXT_BYTES_MAX];
    static uint64_t words[HR_KEY_TEXT_WORDS];
    struct hr_rng rng = {count};
    struct hr_key_text text = {.words = words};
    size_t end = 0;
    memset(words, 0xa5, sizeof(words));
    for (size_t i = 0; i < count; i++) {
        struct hr_span value = draw_value(&rng, lengths[i]);
        hr_key_text_add(&text, value);
        end = append(expected, end, value);
        free((void *)(uintptr_t)value.at); /* NOLINT(performance-no-int-to-ptr): only to drop the const */
    }
    assert_int_equal(hr_key_text_end(&text, words), end);
    assert_memory_equal(words, expected, end);
}

static void values_of_all_short_lengths_follow_each_other(void **state)
{
    (void)state;
    expect_text(NULL, 0);
    for (size_t a = 0; a <= 40; a++) {
        for (size_t b = 0; b <= 40; b++) {
            const size_t lengths[] = {a, b, (a + b) % 9};
            expect_text(lengths, 1);
            expect_text(lengths, 2);
            expect_text(lengths, 3);
        }
    }
}

static void the_longest_key_has_room(void **state)
{
    (void)state;
    size_t lengths[HR_ATTRIBUTES_MAX];
    for (size_t shorter = 0; shorter < 9; shorter++) {
        for (size_t i = 0; i < HR_ATTRIBUTES_MAX; i++) {
            lengths[i] = HR_ATTRIBUTE_VALUE_BYTES_MAX - (i % 3 == 0 ? shorter : 0);
        }
        expect_text(lengths, HR_ATTRIBUTES_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_all_short_lengths_follow_each_other),
        cmocka_unit_test(the_longest_key_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
