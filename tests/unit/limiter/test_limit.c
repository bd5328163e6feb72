/* A limit's plain rules: names, values, networks, and what is wrong with its numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define SECOND_NS UINT64_C(1000000000)
#define PERIOD_MAX ((uint64_t)HR_PERIOD_NS_MAX)

static void every_algorithm_has_the_name_of_the_contract(void **state)
{
    (void)state;
    static const char *const names[] = {"token_bucket",   "gcra",        "leaky_bucket", "fixed_window",
                                        "sliding_window", "sliding_log", "quota",        "concurrency"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_string_equal(hr_algorithm_name((enum hr_algorithm)i), names[i]);
    }
    assert_string_equal(hr_algorithm_name((enum hr_algorithm)COUNT_OF(names)), "unknown");
}

#define CAPACITY "the limit must be a whole number from 1 to 2^53 - 1"
#define RATE "the rate must be a whole number from 1 to 2^53 - 1"
#define PERIOD "the period must be above 0 and at most 366 days"
#define LOG "a sliding_log remembers each request: its rate may be at most 100000 per period"
#define TTL "the ttl must be from 1ms to 366 days"

static void each_number_out_of_its_range_is_named(void **state)
{
    (void)state;
    static const struct {
        struct hr_rule rule;
        const char *fault;
    } rows[] = {
        {{HR_TOKEN_BUCKET, .capacity = 1, .rate = 1, .period_ns = 1}, NULL},
        {{HR_GCRA, .capacity = HR_COST_MAX, .rate = HR_COST_MAX, .period_ns = PERIOD_MAX}, NULL},
        {{HR_LEAKY_BUCKET, .capacity = 0, .rate = 1, .period_ns = 1}, CAPACITY},
        {{HR_TOKEN_BUCKET, .capacity = HR_COST_MAX + 1, .rate = 1, .period_ns = 1}, CAPACITY},
        {{HR_TOKEN_BUCKET, .capacity = 1, .rate = 0, .period_ns = 1}, RATE},
        {{HR_GCRA, .capacity = 1, .rate = HR_COST_MAX + 1, .period_ns = 1}, RATE},
        {{HR_LEAKY_BUCKET, .capacity = 1, .rate = 1, .period_ns = 0}, PERIOD},
        {{HR_TOKEN_BUCKET, .capacity = 1, .rate = 1, .period_ns = PERIOD_MAX + 1}, PERIOD},
        {{HR_FIXED_WINDOW, .capacity = 1, .period_ns = SECOND_NS}, NULL},
        {{HR_FIXED_WINDOW, .capacity = 0, .period_ns = SECOND_NS}, CAPACITY},
        {{HR_SLIDING_WINDOW, .capacity = 1, .period_ns = 0}, PERIOD},
        {{HR_SLIDING_WINDOW, .capacity = 1, .period_ns = UINT64_MAX}, PERIOD},
        {{HR_SLIDING_LOG, .capacity = HR_LOG_LIMIT_MAX, .period_ns = SECOND_NS}, NULL},
        {{HR_SLIDING_LOG, .capacity = HR_LOG_LIMIT_MAX + 1, .period_ns = SECOND_NS}, LOG},
        {{HR_SLIDING_LOG, .capacity = 1, .period_ns = 0}, PERIOD},
        {{HR_QUOTA, .unit = HR_YEAR, .capacity = 1}, NULL},
        {{HR_QUOTA, .unit = (enum hr_calendar_unit)(HR_YEAR + 1), .capacity = 1},
         "a quota's period must be hour, day, week, month or year"},
        {{HR_QUOTA, .unit = HR_DAY, .capacity = 0}, CAPACITY},
        {{HR_CONCURRENCY, .capacity = 1, .ttl_ns = SECOND_NS / 1000}, NULL},
        {{HR_CONCURRENCY, .capacity = 1, .ttl_ns = PERIOD_MAX}, NULL},
        {{HR_CONCURRENCY, .capacity = 1, .ttl_ns = SECOND_NS / 1000 - 1}, TTL},
        {{HR_CONCURRENCY, .capacity = 1, .ttl_ns = PERIOD_MAX + 1}, TTL},
        {{(enum hr_algorithm)(HR_CONCURRENCY + 1), .capacity = 1}, "the algorithm is unknown"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *fault = hr_rule_fault(&rows[i].rule);
        if ((fault == NULL) != (rows[i].fault == NULL) || (fault != NULL && strcmp(fault, rows[i].fault) != 0)) {
            fail_msg("row %zu: %s", i, fault == NULL ? "no fault" : fault);
        }
    }
}

/* Every byte alone, and every length up to one too many. */
static void names_hold_their_bytes_and_lengths_and_no_others(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool is_limit = hr_limit_name_is_valid((struct hr_span){&c, 1});
        bool is_attribute = hr_attribute_name_is_valid((struct hr_span){&c, 1});
        if (is_limit != (is_word || c == '-') || is_attribute != (is_word || c == '-' || c == '_' || c == '.')) {
            fail_msg("byte %u", byte);
        }
    }
    char name[66];
    memset(name, 'a', sizeof(name));
    for (size_t bytes = 0; bytes <= sizeof(name); bytes++) {
        assert_int_equal(hr_limit_name_is_valid((struct hr_span){name, bytes}), bytes >= 1 && bytes <= 64);
        assert_int_equal(hr_attribute_name_is_valid((struct hr_span){name, bytes}), bytes >= 1 && bytes <= 64);
    }
}

/* The three-byte form of a number: what RFC 3629 allows is exactly 0800 to FFFF without the surrogates. */
static void utf8_of_two_and_three_bytes_is_valid_exactly_where_the_rfc_says(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 0x10000; code++) {
        const char three[3] = {(char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 0x3f)),
                               (char)(0x80 | (code & 0x3f))};
        bool is_valid = code >= 0x800 && (code < 0xd800 || code > 0xdfff);
        if (hr_attribute_value_is_valid((struct hr_span){three, 3}) != is_valid) {
            fail_msg("U+%04X in three bytes", code);
        }
        assert_false(hr_attribute_value_is_valid((struct hr_span){three, 2}));
    }
    for (unsigned code = 0; code < 0x800; code++) {
        const char two[2] = {(char)(0xc0 | code >> 6), (char)(0x80 | (code & 0x3f))};
        if (hr_attribute_value_is_valid((struct hr_span){two, 2}) != (code >= 0x80)) {
            fail_msg("U+%04X in two bytes", code);
        }
        assert_false(hr_attribute_value_is_valid((struct hr_span){two, 1}));
    }
}

static void values_are_text_without_nul_of_1024_bytes_at_most(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        bool is_valid;
    } rows[] = {
        {"", 0, true},
        {"a", 1, true},
        {"\0", 1, false},
        {"a\0b", 3, false},
        {"\x7f\n", 2, true},
        {"\x80", 1, false},
        {"\xf0\x90\x80\x80", 4, true},
        {"\xf0\x8f\xbf\xbf", 4, false},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"\xf4\x90\x80\x80", 4, false},
        {"\xf5\x80\x80\x80", 4, false},
        {"\xf0\x90\x80", 3, false},
        {"\xf0\x90\x80z", 4, false},
        {"\xff", 1, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (hr_attribute_value_is_valid((struct hr_span){rows[i].text, rows[i].bytes}) != rows[i].is_valid) {
            fail_msg("row %zu", i);
        }
    }
    char value[HR_ATTRIBUTE_VALUE_BYTES_MAX + 1];
    memset(value, 'x', sizeof(value));
    assert_true(hr_attribute_value_is_valid((struct hr_span){value, sizeof(value) - 1}));
    assert_false(hr_attribute_value_is_valid((struct hr_span){value, sizeof(value)}));
}

static void networks_are_read_and_everything_else_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hr_err err;
        struct hr_cidr cidr;
    } rows[] = {
        {"10.0.0.0/8", HR_OK, {4, 8, {10}}},
        {"0.0.0.0/0", HR_OK, {4, 0, {0}}},
        {"255.255.255.255/32", HR_OK, {4, 32, {255, 255, 255, 255}}},
        {"192.168.128.0/17", HR_OK, {4, 17, {192, 168, 128, 0}}},
        {"2001:db8::/32", HR_OK, {16, 32, {0x20, 0x01, 0x0d, 0xb8}}},
        {"::/0", HR_OK, {16, 0, {0}}},
        {"::1/128", HR_OK, {16, 128, {[15] = 1}}},
        {"::ffff:10.0.0.0/104", HR_OK, {4, 8, {10}}},
        {"::ffff:0:0/96", HR_OK, {4, 0, {0}}},
        {"::/96", HR_OK, {16, 96, {0}}},
        {"10.1.0.0/8", HR_E_RANGE, {0}},
        {"192.168.128.0/16", HR_E_RANGE, {0}},
        {"255.255.255.255/31", HR_E_RANGE, {0}},
        {"::1/127", HR_E_RANGE, {0}},
        {"::ffff:10.1.0.0/104", HR_E_RANGE, {0}},
        {"", HR_E_INVALID, {0}},
        {"/", HR_E_INVALID, {0}},
        {"/8", HR_E_INVALID, {0}},
        {"10.0.0.0", HR_E_INVALID, {0}},
        {"10.0.0.0/", HR_E_INVALID, {0}},
        {"10.0.0.0/33", HR_E_INVALID, {0}},
        {"10.0.0.0/256", HR_E_INVALID, {0}},
        {"10.0.0.0/264", HR_E_INVALID, {0}},
        {"10.0.0.0/08", HR_E_INVALID, {0}},
        {"10.0.0.0/-1", HR_E_INVALID, {0}},
        {"10.0.0.0/8 ", HR_E_INVALID, {0}},
        {" 10.0.0.0/8", HR_E_INVALID, {0}},
        {"10.0.0.0/8/8", HR_E_INVALID, {0}},
        {"10.0.0/8", HR_E_INVALID, {0}},
        {"010.0.0.0/8", HR_E_INVALID, {0}},
        {"10.0.0.256/32", HR_E_INVALID, {0}},
        {"::/129", HR_E_INVALID, {0}},
        {":::/0", HR_E_INVALID, {0}},
        {"fe80::1%eth0/128", HR_E_INVALID, {0}},
        {"example.com/8", HR_E_INVALID, {0}},
        {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/8", HR_E_INVALID, {0}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_cidr cidr = {0};
        enum hr_err err = hr_cidr_parse(hr_span_of(rows[i].text), &cidr);
        if (err != rows[i].err || memcmp(&cidr, &rows[i].cidr, sizeof(cidr)) != 0) {
            fail_msg("row %zu: %s: %s", i, rows[i].text, hr_err_text(err));
        }
    }
}

static void network_cut_short_or_holding_nul_is_refused(void **state)
{
    (void)state;
    static const char text[] = "2001:db8:ffff:ffff:ffff:ffff:192.168.100.100/128";
    struct hr_cidr cidr;
    assert_int_equal(hr_cidr_parse(HR_SPAN("10.0.0.0\0/8"), &cidr), HR_E_INVALID);
    assert_int_equal(hr_cidr_parse(HR_SPAN(text), &cidr), HR_OK);
    for (size_t bytes = 0; bytes < sizeof(text) - 1; bytes++) { /* "/1" and "/12" are networks of other addresses */
        bool has_prefix = bytes > sizeof(text) - 1 - strlen("128");
        assert_int_equal(hr_cidr_parse((struct hr_span){text, bytes}, &cidr), has_prefix ? HR_E_RANGE : HR_E_INVALID);
    }
}

/* Values are looked at by several bytes at a time. */
static void a_byte_that_is_no_text_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static const char bad[] = {'\0', '\x80', '\xff', '\xc2'};
    for (size_t bytes = 1; bytes <= 33; bytes++) {
        for (size_t at = 0; at < bytes; at++) {
            for (size_t i = 0; i < sizeof(bad); i++) {
                char *value = malloc(bytes); /* of just this size, so that a look behind it is seen */
                assert_non_null(value);
                memset(value, at % 2 == 0 ? '\x01' : '\x7f', bytes);
                bool is_good = hr_attribute_value_is_valid((struct hr_span){value, bytes});
                value[at] = bad[i];
                bool is_bad = !hr_attribute_value_is_valid((struct hr_span){value, bytes});
                free(value);
                if (!is_good || !is_bad) {
                    fail_msg("%zu bytes, byte %d at %zu", bytes, bad[i], at);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_has_the_name_of_the_contract),
        cmocka_unit_test(each_number_out_of_its_range_is_named),
        cmocka_unit_test(names_hold_their_bytes_and_lengths_and_no_others),
        cmocka_unit_test(utf8_of_two_and_three_bytes_is_valid_exactly_where_the_rfc_says),
        cmocka_unit_test(values_are_text_without_nul_of_1024_bytes_at_most),
        cmocka_unit_test(a_byte_that_is_no_text_is_found_wherever_it_stands),
        cmocka_unit_test(networks_are_read_and_everything_else_refused),
        cmocka_unit_test(network_cut_short_or_holding_nul_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
