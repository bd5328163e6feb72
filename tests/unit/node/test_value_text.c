/* What a node answers, as text: each form, and no form of bytes that are cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/command/top.h"
#include "node/value_text.h"

typedef enum hr_err (*print_function)(FILE *out, struct hr_span value);

#define BYTES(literal)                 \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

/* {"name": "a-b", "n": [1, -1, 0.5, nil, true], "when": {"route": "p.*", "x": "no"}, "wait_ms": 61000} */
#define SAMPLE         \
    "\x84\xa4name\xa3" \
    "a-b\xa1n\x95\x01\xff\xca\x3f\0\0\0\xc0\xc3\xa4when\x82\xa5route\xa3p.*\xa1x\xa2no\xa7wait_ms\xcd\xee\x48"

static void a_value_has_its_text_in_each_form(void **state)
{
    static const struct {
        print_function print;
        struct hr_span value;
        const char *text;
    } rows[] = {
        {hr_value_print_json, BYTES(SAMPLE),
         "{\"name\":\"a-b\",\"n\":[1,-1,0.5,null,true],\"when\":{\"route\":\"p.*\",\"x\":\"no\"},\"wait_ms\":61000}"},
        {hr_value_print_flow, BYTES(SAMPLE),
         "{name: a-b, \"n\": [1, -1, 0.5, null, true], when: {route: \"p.*\", x: \"no\"}, wait_ms: 61000}"},
        {hr_value_print_item, BYTES(SAMPLE),
         "  - name: a-b\n    \"n\": [1, -1, 0.5, null, true]\n    when: {route: \"p.*\", x: \"no\"}\n"
         "    wait_ms: 61000\n"},
        {hr_value_print, BYTES(SAMPLE),
         "name     a-b\nn:\n  1\n  -1\n  0.5\n  null\n  true\nwhen:\n  route  p.*\n  x      no\n"
         "wait_ms  61000 (1m 1s)\n"},
        {hr_value_print_json, BYTES("\xcb\x7f\xf0\0\0\0\0\0\0"), "null"}, /* infinity */
        {hr_value_print_json, BYTES("\xc7\x01\x05x"), "null"},            /* ext */
        {hr_value_print_json, BYTES("\xc4\x03\xff\"\x7f"), "\"\\ufffd\\\"\\u007f\""},
        {hr_value_print_json, BYTES("\xa9\xed\xa0\x80\xe2\x82\xc2\x9b\xc3\xa9"),
         "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\u009b\xc3\xa9\""}, /* a surrogate, a cut one, a control, a letter */
        {hr_value_print, BYTES("\x81\xa1k\xa3\x1b[\xff"), "k  ?[?\n"},
        {hr_value_print, BYTES("\x81\xa1k\x90"), "k  none\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        enum hr_err err = rows[i].print(out, rows[i].value);
        assert_int_equal(fclose(out), 0);
        if (err != HR_OK || strcmp(text, rows[i].text) != 0) {
            fail_msg("row %zu: %s: %s", i, hr_err_text(err), text);
        }
        free(text);
    }
}

static void alike_maps_are_a_table_and_others_are_not(void **state)
{
    static const struct hr_span alike = BYTES("\x81\xa1t\x92\x82\xa1"
                                              "a\xa2xx\xa1"
                                              "b\x07\x82\xa1"
                                              "a\xa1y\xa1"
                                              "b\xcd\x01\x00");
    static const struct hr_span other = BYTES("\x81\xa1t\x92\x81\xa1"
                                              "a\x01\x81\xa1"
                                              "b\x02");
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    (void)state;
    assert_non_null(out);
    assert_int_equal(hr_value_print(out, alike), HR_OK);
    assert_int_equal(hr_value_print(out, other), HR_OK);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "t:\n  a     b\n  xx    7\n  y   256\nt:\n  a  1\n  b  2\n");
}

static void a_value_that_is_cut_off_is_an_error_in_each_form(void **state)
{
    static const struct hr_span value = BYTES(SAMPLE);
    static const print_function forms[] = {hr_value_print_json, hr_value_print_flow, hr_value_print_item,
                                           hr_value_print};
    static struct hr_top_sample sample;
    FILE *out = fopen("/dev/null", "w");
    (void)state;
    assert_non_null(out);
    for (size_t bytes = 0; bytes < value.bytes; bytes++) {
        char *copy = malloc(bytes + 1); /* of its own, so that a sanitizer sees the first byte too many */
        assert_non_null(copy);
        memcpy(copy + 1, value.at, bytes);
        const struct hr_span prefix = {copy + 1, bytes};
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
            if (forms[i](out, prefix) != HR_E_TRUNCATED) {
                fail_msg("form %zu, %zu bytes", i, bytes);
            }
        }
        assert_int_equal(hr_top_read_status(prefix, &sample), HR_E_TRUNCATED);
        free(copy);
    }
    assert_int_equal(fclose(out), 0);
}

static void rates_are_those_between_two_samples_and_survive_a_restart(void **state)
{
    static struct hr_top_sample before = {
        .at_ms = 1000, .decisions = 100, .denied = 50, .limit_count = 1, .limits = {{"a", "enforce", 10, 90}}};
    static struct hr_top_sample now = {.at_ms = 3000,
                                       .uptime_ms = 9000,
                                       .decisions = 600,
                                       .denied = 20,
                                       .limit_count = 2,
                                       .limits = {{"a", "enforce", 30, 90}, {"b", "shadow", 0, 40}}};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    (void)state;
    assert_non_null(out);
    hr_top_print(out, &before, &now, 9);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "decisions/s 250   denied/s 10 "));
    assert_non_null(strstr(text, "\nb      shadow              0            20\n"
                                 "a      enforce            10             0\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_has_its_text_in_each_form),
        cmocka_unit_test(alike_maps_are_a_table_and_others_are_not),
        cmocka_unit_test(a_value_that_is_cut_off_is_an_error_in_each_form),
        cmocka_unit_test(rates_are_those_between_two_samples_and_survive_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
