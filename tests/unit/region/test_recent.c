#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/recent.h"

#define COUNT_MAX 16U

static void *open_recent(struct hr_recent *recent, uint32_t count_max)
{
    struct hr_bump bump = {0};
    hr_recent_init(recent, count_max, &bump);
    size_t bytes = (bump.taken + 63) / 64 * 64;
    void *memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    memset(memory, 0, bytes);
    bump = (struct hr_bump){.at = memory};
    hr_recent_init(recent, count_max, &bump);
    return memory;
}

static void exactly_the_last_are_there(void **state)
{
    (void)state;
    struct hr_recent recent;
    void *memory = open_recent(&recent, COUNT_MAX);
    for (uint64_t n = 0; n < 10U * COUNT_MAX; n++) {
        hr_recent_prefetch(&recent, n % 3, n, (uint32_t)(n % 40));
        hr_recent_add(&recent, n % 3, n, (uint8_t)n);
        for (uint64_t k = 0; k <= n + 1; k++) {
            uint8_t value = 0;
            bool is_late = k <= n && k + COUNT_MAX > n;
            if (hr_recent_find(&recent, k % 3, k, &value) != is_late || (is_late && value != (uint8_t)k)) {
                fail_msg("after %llu: %llu is %s", (unsigned long long)n, (unsigned long long)k,
                         is_late ? "gone" : "there");
            }
        }
    }
    free(memory);
}

static void both_numbers_tell_two_apart(void **state)
{
    (void)state;
    uint8_t value;
    struct hr_recent recent;
    void *memory = open_recent(&recent, COUNT_MAX);
    hr_recent_add(&recent, 1, 2, 7);
    assert_false(hr_recent_find(&recent, 2, 1, &value));
    assert_false(hr_recent_find(&recent, 1, 1, &value));
    assert_false(hr_recent_find(&recent, 2, 2, &value));
    assert_true(hr_recent_find(&recent, 1, 2, &value));
    assert_int_equal(value, 7);
    free(memory);
}

/* Numbers as they come, many of which fall into the same bucket. */
static void what_makes_way_leaves_the_others_of_its_bucket(void **state)
{
    (void)state;
    static uint64_t numbers[4096];
    uint8_t value;
    struct hr_rng rng = {.state = 5};
    struct hr_recent recent;
    void *memory = open_recent(&recent, 256);
    for (uint32_t n = 0; n < 4096; n++) {
        numbers[n] = hr_rng_next(&rng);
        hr_recent_add(&recent, 9, numbers[n], 1);
        uint32_t first = n < 256 ? 0 : n - 255;
        for (uint32_t k = first; k <= n; k += 15) {
            if (!hr_recent_find(&recent, 9, numbers[k], &value)) {
                fail_msg("after %u: %u is gone", n, k);
            }
        }
        if (first > 0 && hr_recent_find(&recent, 9, numbers[first - 1], &value)) {
            fail_msg("after %u: %u is still there", n, first - 1);
        }
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exactly_the_last_are_there),
        cmocka_unit_test(both_numbers_tell_two_apart),
        cmocka_unit_test(what_makes_way_leaves_the_others_of_its_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
