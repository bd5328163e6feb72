/* Addresses: what is read, what is refused, and that what is printed reads back to the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/address_text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define LABEL_63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_253 LABEL_63 "." LABEL_63 "." LABEL_63 ".aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *text, *host;
    uint16_t port;
} good[] = {
    {"127.0.0.1:7400", "127.0.0.1", 7400},
    {"0.0.0.0:0", "0.0.0.0", 0},
    {"255.255.255.255:65535", "255.255.255.255", 65535},
    {"[::1]:7400", "::1", 7400},
    {"[::]:1", "::", 1},
    {"[2001:db8::ffff]:443", "2001:db8::ffff", 443},
    {"[::ffff:10.0.0.1]:443", "::ffff:10.0.0.1", 443},
    {"localhost:7400", "localhost", 7400},
    {"us-1.example:7401", "us-1.example", 7401},
    {"us-1.example.:7401", "us-1.example.", 7401},
    {"Node_1:9", "Node_1", 9},
    {"1password.com:9", "1password.com", 9},
    {"10.0.0.1.example:9", "10.0.0.1.example", 9},
    {LABEL_63 ":9", LABEL_63, 9},
    {NAME_253 ":65535", NAME_253, 65535},
};

static void addresses_read_and_print_back_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct hr_address address;
        char text[HR_ADDRESS_TEXT_BYTES];
        enum hr_err err = hr_address_parse(hr_span_of(good[i].text), &address);
        if (err != HR_OK || strcmp(address.host, good[i].host) != 0 || address.port != good[i].port) {
            fail_msg("row %zu: %s: %s", i, good[i].text, hr_err_text(err));
        }
        size_t bytes = hr_address_text(&address, text);
        if (bytes != strlen(good[i].text) || strcmp(text, good[i].text) != 0) {
            fail_msg("row %zu: %s prints as %s", i, good[i].text, text);
        }
    }
}

static const struct {
    const char *text;
    enum hr_err err;
} bad[] = {
    {"", HR_E_INVALID},
    {":", HR_E_INVALID},
    {":7400", HR_E_INVALID},
    {"127.0.0.1", HR_E_INVALID},
    {"127.0.0.1:", HR_E_INVALID},
    {"127.0.0.1:+1", HR_E_INVALID},
    {"127.0.0.1: 1", HR_E_INVALID},
    {"127.0.0.1:1 ", HR_E_INVALID},
    {"127.0.0.1:0x1", HR_E_INVALID},
    {"127.0.0.1:07", HR_E_INVALID},
    {"127.0.0.1:00", HR_E_INVALID},
    {"127.0.0.1:-1", HR_E_INVALID},
    {"127.0.0.1:65536", HR_E_RANGE},
    {"127.0.0.1:4294967297", HR_E_RANGE},
    {"127.0.0.1:99999999999999999999999", HR_E_RANGE},
    {"127.0.0.1:9999999999999999999999x", HR_E_INVALID},
    {"127.0.0:1", HR_E_INVALID},
    {"127.0.0.256:1", HR_E_INVALID},
    {"127.0.0.01:1", HR_E_INVALID},
    {"1.2.3.4.5:1", HR_E_INVALID},
    {"7400:1", HR_E_INVALID},
    {"host.7:1", HR_E_INVALID},
    {"host.7.:1", HR_E_INVALID},
    {"::1:7400", HR_E_INVALID},
    {"[::1]", HR_E_INVALID},
    {"[::1]7400", HR_E_INVALID},
    {"[]:1", HR_E_INVALID},
    {"[:1", HR_E_INVALID},
    {"[::1:1", HR_E_INVALID},
    {"[127.0.0.1]:1", HR_E_INVALID},
    {"[localhost]:1", HR_E_INVALID},
    {"[[::1]]:1", HR_E_INVALID},
    {"[fe80::1%eth0]:1", HR_E_INVALID},
    {"[:::]:1", HR_E_INVALID},
    {"*:1", HR_E_INVALID},
    {".:1", HR_E_INVALID},
    {"a..b:1", HR_E_INVALID},
    {"a..:1", HR_E_INVALID},
    {".a:1", HR_E_INVALID},
    {"-a:1", HR_E_INVALID},
    {"a-:1", HR_E_INVALID},
    {"a b:1", HR_E_INVALID},
    {"a/b:1", HR_E_INVALID},
    {"tcp://a:1", HR_E_INVALID},
    {"\xc3\xa9:1", HR_E_INVALID},
    {LABEL_63 "a:1", HR_E_INVALID},
    {NAME_253 "a:1", HR_E_INVALID},
};

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hr_address address = {.port = 77};
        enum hr_err err = hr_address_parse(hr_span_of(bad[i].text), &address);
        if (err != bad[i].err || address.port != 77 || address.host[0] != '\0') {
            fail_msg("row %zu: %s: %s", i, bad[i].text, hr_err_text(err));
        }
    }
    struct hr_address address;
    assert_int_equal(hr_address_parse((struct hr_span){"a\0b:1", 5}, &address), HR_E_INVALID);
    assert_int_equal(hr_address_parse((struct hr_span){NULL, 0}, &address), HR_E_INVALID);
}

static void gossip_addresses_need_their_scheme(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hr_err err;
    } rows[] = {
        {"tcp://10.0.0.1:7401", HR_OK},
        {"tcp://[::1]:7401", HR_OK},
        {"10.0.0.1:7401", HR_E_INVALID},
        {"udp://10.0.0.1:1", HR_E_INVALID},
        {"TCP://10.0.0.1:1", HR_E_INVALID},
        {"tcp://", HR_E_INVALID},
        {"tcp:/", HR_E_INVALID},
        {"tcp://a:1/", HR_E_INVALID},
        {"tcp://a:65536", HR_E_RANGE},
        {"", HR_E_INVALID},
        {"tcp://tcp://a:1/", HR_E_INVALID},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_address address;
        if (hr_address_parse_url(hr_span_of(rows[i].text), &address) != rows[i].err) {
            fail_msg("row %zu: %s", i, rows[i].text);
        }
    }
}

/* The bytes lie in a heap block of exactly their size, so that a sanitizer sees a read behind it. */
static void no_prefix_is_read_beyond_its_end(void **state)
{
    (void)state;
    static const char text[] = "tcp://[2001:db8::1]:65535";
    for (size_t bytes = 0; bytes < sizeof(text); bytes++) {
        struct hr_address address;
        char *copy = malloc(bytes > 0 ? bytes : 1);
        assert_non_null(copy);
        memcpy(copy, text, bytes);
        enum hr_err err = hr_address_parse_url((struct hr_span){copy, bytes}, &address);
        free(copy);
        bool is_whole = bytes > strlen("tcp://[2001:db8::1]:") && bytes < sizeof(text);
        if ((err == HR_OK) != is_whole) {
            fail_msg("%zu bytes: %s", bytes, hr_err_text(err));
        }
    }
}

static void only_the_two_wildcards_are_wildcards(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_wildcard;
    } rows[] = {
        {"0.0.0.0:1", true}, {"[::]:1", true},       {"[0:0::0]:1", true}, {"127.0.0.1:1", false},
        {"[::1]:1", false},  {"localhost:1", false}, {"0.0.0.1:1", false}, {"[::ffff:1.2.3.4]:1", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_address address;
        assert_int_equal(hr_address_parse(hr_span_of(rows[i].text), &address), HR_OK);
        if (hr_address_is_wildcard(&address) != rows[i].is_wildcard) {
            fail_msg("row %zu: %s", i, rows[i].text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_read_and_print_back_the_same), cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(gossip_addresses_need_their_scheme),     cmocka_unit_test(no_prefix_is_read_beyond_its_end),
        cmocka_unit_test(only_the_two_wildcards_are_wildcards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
