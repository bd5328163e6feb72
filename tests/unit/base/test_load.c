/* Load: every number of bytes, at every alignment, reads as the sum of its bytes, and no byte beside them is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/load.h"

static uint64_t by_definition(const uint8_t *at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

/* The bytes end where their memory ends. */
static void bytes_at_any_place_are_read_low_byte_first(void **state)
{
    (void)state;
    for (size_t before = 0; before < 8; before++) {
        for (size_t bytes = 0; bytes <= 8; bytes++) {
            uint8_t *memory = malloc(before + bytes + (before + bytes == 0));
            assert_non_null(memory);
            for (size_t i = 0; i < before + bytes; i++) {
                memory[i] = (uint8_t)(0x81 + 7 * i);
            }
            const uint8_t *at = memory + before;
            uint64_t expected = by_definition(at, bytes);
            assert_int_equal(bytes == 8 ? hr_load64(at) : hr_load_short(at, bytes), expected);
            assert_true(bytes != 4 || hr_load32(at) == expected);
            free(memory);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_at_any_place_are_read_low_byte_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
