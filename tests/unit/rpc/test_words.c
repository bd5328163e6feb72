/* Names and words: methods, codes, and the text of a fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/message.h"
#include "rpc/method.h"
#include "tests/unit/rpc/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void every_method_is_found_by_its_name_alone(void **state)
{
    (void)state;
    for (int i = 0; i < HR_METHOD_UNKNOWN; i++) {
        struct hr_span name = hr_method_name((enum hr_method)i);
        char changed[32];
        assert_true(name.bytes > 0 && name.bytes < sizeof(changed));
        assert_int_equal(hr_method_find(name), i);
        for (size_t at = 0; at < name.bytes; at++) {
            memcpy(changed, name.at, name.bytes);
            changed[at] ^= 0x20;
            assert_int_equal(hr_method_find((struct hr_span){changed, name.bytes}), HR_METHOD_UNKNOWN);
            assert_int_not_equal(hr_method_find((struct hr_span){name.at, at}), i); /* check_many begins as check */
        }
    }
    assert_int_equal(hr_method_find(HR_SPAN("")), HR_METHOD_UNKNOWN);
    assert_int_equal(hr_method_name(HR_METHOD_UNKNOWN).bytes, 0);
}

static void every_code_is_found_by_its_name(void **state)
{
    (void)state;
    for (int i = HR_CODE_INVALID_ARGUMENT; i <= HR_CODE_INTERNAL; i++) {
        enum hr_code code;
        assert_true(hr_code_find(hr_code_name((enum hr_code)i), &code));
        assert_int_equal(code, i);
    }
    enum hr_code code;
    assert_false(hr_code_find(HR_SPAN("INTERNA"), &code));
    assert_true(hr_span_equal(hr_code_name((enum hr_code)99), HR_SPAN("INTERNAL")));
}

static void words_that_outgrow_a_fault_are_cut_off(void **state)
{
    (void)state;
    struct hr_fault fault;
    hr_fault_set(&fault, HR_CODE_INTERNAL, "");
    for (unsigned i = 0; i < 100; i++) {
        hr_fault_add(&fault, "abc");
        hr_fault_add_number(&fault, UINT64_MAX);
        hr_fault_quote(&fault, HR_SPAN("xyz"));
    }
    assert_int_equal(fault.bytes, HR_FAULT_BYTES_MAX);
    assert_memory_equal(fault.text, "abc18446744073709551615\"xyz\"abc", 31);
}

static void a_quote_is_short_and_printable(void **state)
{
    (void)state;
    static char text[HR_FAULT_QUOTE_BYTES_MAX + 1];
    struct hr_fault fault;
    memset(text, 0xc3, sizeof(text));
    hr_fault_begin(&fault, HR_CODE_INTERNAL);
    hr_fault_quote(&fault, (struct hr_span){text, sizeof(text)});
    assert_int_equal(fault.bytes, HR_FAULT_QUOTE_BYTES_MAX + 5);
    for (uint32_t i = 1; i <= HR_FAULT_QUOTE_BYTES_MAX; i++) {
        assert_int_equal(fault.text[i], '?');
    }
    assert_memory_equal(fault.text + HR_FAULT_QUOTE_BYTES_MAX + 1, "...\"", 4);
}

static void errors_of_any_form_are_understood(void **state)
{
    (void)state;
    static const struct {
        struct hr_span error;
        enum hr_code code;
        const char *words;
    } rows[] = {
        {{"\xac"
          "NOT_FOUND: x",
          13},
         HR_CODE_NOT_FOUND,
         "x"},
        {{"\xaa"
          "NOT_FOUND:",
          11},
         HR_CODE_NOT_FOUND,
         ""},
        {{"\xa4"
          "oops",
          5},
         HR_CODE_INTERNAL,
         "oops"},
        {{"\xa7"
          "OOPS: x",
          8},
         HR_CODE_INTERNAL,
         "OOPS: x"},
        {{"\xa0", 1}, HR_CODE_INTERNAL, ""},
        {{"\xa3\x1b[m", 4}, HR_CODE_INTERNAL, "?[m"},
        {{"\x05", 1}, HR_CODE_INTERNAL, "the node's error is no text"},
    };
    struct hr_fault fault;
    for (size_t i = 0; i < COUNT(rows); i++) {
        print_message("row %zu\n", i);
        assert_true(hr_unpack_error(rows[i].error, &fault));
        assert_int_equal(fault.code, rows[i].code);
        assert_int_equal(fault.bytes, strlen(rows[i].words));
        assert_memory_equal(fault.text, rows[i].words, fault.bytes);
    }
    assert_false(hr_unpack_error(HR_SPAN("\xc0"), &fault));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_is_found_by_its_name_alone), cmocka_unit_test(every_code_is_found_by_its_name),
        cmocka_unit_test(words_that_outgrow_a_fault_are_cut_off),  cmocka_unit_test(a_quote_is_short_and_printable),
        cmocka_unit_test(errors_of_any_form_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
