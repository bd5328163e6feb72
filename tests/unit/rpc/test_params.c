/* What each method takes, what it refuses, and in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/hex.h"
#include "rpc/params.h"
#include "tests/unit/rpc/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KEY \
    "\xaa"  \
    "attributes"
#define A      \
    "\x81\xa1" \
    "a\xa1"    \
    "b" /* {a: b} */

static bool decode(enum hr_method method, struct hr_span map, struct hr_params *ret_params, struct hr_fault *ret_fault)
{
    memset(ret_fault, 0, sizeof(*ret_fault));
    return hr_params_decode(method, map, ret_params, ret_fault);
}

#define REFUSED(method, bytes, words)                             \
    {                                                             \
        HR_METHOD_##method, {(bytes), sizeof(bytes) - 1}, (words) \
    }

static const struct {
    enum hr_method method;
    struct hr_span map;
    const char *words;
} refused[] = {
    REFUSED(CHECK, "\x80", "a key is missing: \"attributes\""),
    REFUSED(CHECK, "\x90", "params must be an array holding one map"),
    REFUSED(CHECK, "\xc0", "params must be an array holding one map"),
    REFUSED(CHECK, "\x81\x01\x02", "a key must be text"),
    REFUSED(CHECK, "\x82" KEY A KEY A, "a key is there twice: \"attributes\""),
    REFUSED(CHECK,
            "\x82" KEY A "\xa5"
            "costs\x01",
            "unknown key \"costs\""),
    REFUSED(CHECK,
            "\x82" KEY A "\xa5"
            "lease\x01",
            "unknown key \"lease\""),
    REFUSED(CHECK, "\x82" KEY A "\xa2\xff\n\x01", "unknown key \"??\""),
    REFUSED(CHECK, "\x81" KEY "\x80", "attributes must be a map, its pairs from 1 to 32"),
    REFUSED(CHECK, "\x81" KEY "\x90", "attributes must be a map, its pairs from 1 to 32"),
    REFUSED(CHECK, "\x81" KEY "\xdf\xff\xff\xff\xff", "attributes must be a map, its pairs from 1 to 32"),
    REFUSED(CHECK,
            "\x81" KEY "\x82\xa1"
            "a\xa1"
            "b\xa1"
            "a\xa1"
            "c",
            "an attribute is there twice: \"a\""),
    REFUSED(CHECK,
            "\x81" KEY "\x81\xa1"
            "A\xa1"
            "b",
            "an attribute's name must be 1 to 64 of a-z, 0-9, _ . -, not \"A\""),
    REFUSED(CHECK,
            "\x81" KEY "\x81\xa0\xa1"
            "b",
            "an attribute's name must be 1 to 64 of a-z, 0-9, _ . -, not \"\""),
    REFUSED(CHECK,
            "\x81" KEY "\x81\xa1"
            "a\x05",
            "an attribute must be text of at most 1024 bytes of UTF-8 without NUL: \"a\""),
    REFUSED(CHECK,
            "\x81" KEY "\x81\xa1"
            "a\xa1\x00",
            "an attribute must be text of at most 1024 bytes of UTF-8 without NUL: \"a\""),
    REFUSED(CHECK,
            "\x81" KEY "\x81\xa1"
            "a\xa1\xff",
            "an attribute must be text of at most 1024 bytes of UTF-8 without NUL: \"a\""),
    REFUSED(CHECK,
            "\x82" KEY A "\xa4"
            "cost\xff",
            "cost must be a whole number from 0 to 9007199254740991"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa4"
            "cost\xca\x40\x00\x00\x00",
            "cost must be a whole number from 0 to 9007199254740991"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa4"
            "cost\xcf\x00\x20\x00\x00\x00\x00\x00\x00",
            "cost must be a whole number from 0 to 9007199254740991"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa2"
            "id\xa0",
            "id must be text, its bytes from 1 to 128"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa2"
            "id\x07",
            "id must be text, its bytes from 1 to 128"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa4"
            "peek\x01",
            "peek must be true or false"),
    REFUSED(CHECK,
            "\x82" KEY A "\xa6"
            "detail\xc0",
            "detail must be true or false"),
    REFUSED(CHECK_MANY, "\x80", "a key is missing: \"requests\""),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\x80",
            "requests must be an array, its length from 0 to 1000"),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\xdd\x7f\xff\xff\xff",
            "requests must be an array, its length from 0 to 1000"),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\x91\x05",
            "requests[0]: a request must be a map"),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\x92\x81" KEY A "\x80",
            "requests[1]: a key is missing: \"attributes\""),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\x92\x81" KEY A "\x82" KEY A "\xa4"
            "cost\xff",
            "requests[1]: cost must be a whole number from 0 to 9007199254740991"),
    REFUSED(CHECK_MANY,
            "\x81\xa8"
            "requests\x91\x81\xa8"
            "requests\x90",
            "requests[0]: unknown key \"requests\""),
    REFUSED(THROTTLE,
            "\x81\xa3"
            "key\xa1k",
            "a key is missing: \"rate\""),
    REFUSED(THROTTLE,
            "\x81\xa3"
            "key\xa1\xc0",
            "key must be text of at most 1024 bytes of UTF-8 without NUL"),
    REFUSED(THROTTLE,
            "\x81\xa4"
            "rate\x32",
            "rate must be text as in a limits file, such as \"50/s\" or \"10 per 30s\""),
    REFUSED(THROTTLE,
            "\x81\xa5"
            "burst\x00",
            "burst must be a whole number from 1 to 9007199254740991"),
    REFUSED(THROTTLE,
            "\x81\xa9"
            "algorithm\xa5"
            "quota",
            "algorithm must be token_bucket, gcra, leaky_bucket, fixed_window, sliding_window or sliding_log"),
    REFUSED(THROTTLE,
            "\x81\xa9"
            "algorithm\x01",
            "algorithm must be token_bucket, gcra, leaky_bucket, fixed_window, sliding_window or sliding_log"),
    REFUSED(THROTTLE,
            "\x81\xa5"
            "scope\xa5"
            "world",
            "scope must be region or global"),
    REFUSED(THROTTLE,
            "\x81\xa5"
            "scope\x01",
            "scope must be region or global"),
    REFUSED(THROTTLE,
            "\x84\xa3"
            "key\xa1"
            "k\xa4"
            "rate\xa3"
            "1/s\xa5"
            "scope\xa6"
            "global\xa9"
            "algorithm\xab"
            "sliding_log",
            "a sliding_log cannot be global"),
    REFUSED(MEMBERS_FORGET, "\x80", "a key is missing: \"name\""),
    REFUSED(PEER, "\x81\xa1m\xc4\x00", "unknown key \"m\""), /* as a request: there is nothing to answer */
    REFUSED(RELEASE, "\x80", "a key is missing: \"lease\""),
    REFUSED(RELEASE,
            "\x81\xa5"
            "lease\xa2"
            "00",
            "lease must be 32 hexadecimal digits"),
    REFUSED(RENEW,
            "\x81\xa5"
            "lease\xd9\x20"
            "0011223344556677889900112233445g",
            "lease must be 32 hexadecimal digits"),
    REFUSED(REFUND, "\x81" KEY A, "a key is missing: \"cost\""),
    REFUSED(REFUND,
            "\x81\xa4"
            "peek\xc3",
            "unknown key \"peek\""),
    REFUSED(LIMITS_LIST,
            "\x81\xa4"
            "name\xa1"
            "a",
            "unknown key \"name\""),
    REFUSED(LIMITS_GET, "\x80", "a key is missing: \"name\""),
    REFUSED(LIMITS_GET,
            "\x81\xa4"
            "name\xa1_",
            "name must be 1 to 64 of a-z, 0-9 and -"),
    REFUSED(LIMITS_DELETE,
            "\x81\xa4"
            "name\x01",
            "name must be 1 to 64 of a-z, 0-9 and -"),
    REFUSED(LIMITS_PUT, "\x80", "a key is missing: \"name\""),
    REFUSED(LIMITS_PUT, "\x81\x01\x02", "a key must be text"),
    REFUSED(LIMITS_PUT, "\x90", "a limit must be a map, its keys from 1 to 32"),
    REFUSED(LIMITS_PUT,
            "\x82\xa4"
            "rate\x01\xa4"
            "rate\x01",
            "a key is there twice: \"rate\""),
    REFUSED(LIMITS_PUT,
            "\x81\xa4"
            "name\xa1 ",
            "name must be 1 to 64 of a-z, 0-9 and -"),
    REFUSED(LIMITS_PUT,
            "\x81\xa3"
            "key\x91",
            "a value cannot be read: \"key\""),
    REFUSED(MEMBERS,
            "\x81\xaa"
            "partitions\x01",
            "partitions must be true or false"),
    REFUSED(CHAOS_CLOCK,
            "\x81\xae"
            "wall_offset_ms\xa1x",
            "an offset must be a whole number of milliseconds, 366 days at most either way"),
    REFUSED(CHAOS_CLOCK,
            "\x81\xb0"
            "steady_offset_ms\xd3\x80\x00\x00\x00\x00\x00\x00\x00",
            "an offset must be a whole number of milliseconds, 366 days at most either way"),
    REFUSED(STATUS, "\x81\xa1x\x01", "unknown key \"x\""),
    REFUSED(HOT_KEYS, "\x81\xa1x\x01", "unknown key \"x\""),
    REFUSED(UNKNOWN, "\x81\xa1x\x01", "unknown key \"x\""),
};

static void what_is_refused_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct hr_span map = span_copy(refused[i].map);
        struct hr_params params;
        struct hr_fault fault;
        print_message("row %zu: %s\n", i, refused[i].words);
        assert_false(decode(refused[i].method, map, &params, &fault));
        assert_int_equal(fault.code, HR_CODE_INVALID_ARGUMENT);
        assert_int_equal(fault.bytes, strlen(refused[i].words));
        assert_memory_equal(fault.text, refused[i].words, fault.bytes);
        span_free(map);
    }
}

/* A map of so many attributes, a0, a1, ..., each with a value of so many bytes, or an id. */
static struct hr_span build_check(char *room, size_t room_bytes, uint32_t attributes, size_t value_bytes,
                                  size_t id_bytes)
{
    static const char filler[2048] = {0};
    char text[2048];
    struct hr_packer packer = {.at = room, .room = room_bytes};
    memset(text, 'v', sizeof(text));
    hr_pack_map(&packer, 2);
    hr_pack_text(&packer, HR_SPAN("attributes"));
    hr_pack_map(&packer, attributes);
    for (uint32_t i = 0; i < attributes; i++) {
        char name[3] = {(char)('a' + i % 26), (char)('a' + i / 26), '\0'};
        hr_pack_text(&packer, hr_span_of(name));
        hr_pack_text(&packer, (struct hr_span){text, value_bytes});
    }
    hr_pack_text(&packer, HR_SPAN("id"));
    hr_pack_bin(&packer, (struct hr_span){filler, id_bytes});
    assert_true(hr_packer_fits(&packer));
    return hr_packer_bytes(&packer);
}

/* Does some method take a key of this name? Its value here, nil, is what no key takes. */
static bool is_key(struct hr_span name)
{
    char bytes[64];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_map(&packer, 1);
    hr_pack_text(&packer, name);
    hr_pack_nil(&packer);
    for (unsigned method = 0; method < HR_METHOD_UNKNOWN; method++) {
        struct hr_params params;
        struct hr_fault fault;
        bool is_decoded = decode((enum hr_method)method, hr_packer_bytes(&packer), &params, &fault);
        assert_true(!is_decoded || method == HR_METHOD_LIMITS_PUT);
        if (method != HR_METHOD_LIMITS_PUT && memcmp(fault.text, "unknown key ", 12) != 0) {
            return true;
        }
    }
    return false;
}

static void every_key_is_found_by_its_name_alone(void **state)
{
    (void)state;
    static const struct hr_span keys[] = {
#define X(param, key) {(key), sizeof(key) - 1},
        HR_PARAM_LIST(X)
#undef X
    };
    for (size_t i = 0; i < COUNT(keys); i++) {
        char changed[32];
        print_message("key %zu\n", i);
        assert_true(is_key(keys[i]));
        for (size_t at = 0; at < keys[i].bytes; at++) {
            memcpy(changed, keys[i].at, keys[i].bytes);
            changed[at] ^= 0x20;
            assert_false(is_key((struct hr_span){changed, keys[i].bytes}));
            assert_false(is_key((struct hr_span){keys[i].at, at}));
        }
    }
}

static void the_bounds_of_a_check_are_the_contracts(void **state)
{
    (void)state;
    static const struct {
        uint32_t attributes;
        size_t value_bytes, id_bytes;
        bool good;
    } rows[] = {
        {1, 0, 1, true},  {32, 1024, 128, true}, {33, 1, 1, false},
        {0, 1, 1, false}, {1, 1025, 1, false},   {1, 1, 129, false},
    };
    static char room[64 * 1024];
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_span map = build_check(room, sizeof(room), rows[i].attributes, rows[i].value_bytes, rows[i].id_bytes);
        struct hr_params params;
        struct hr_fault fault;
        print_message("row %zu\n", i);
        assert_int_equal(decode(HR_METHOD_CHECK, map, &params, &fault), rows[i].good);
        assert_true(!rows[i].good || params.attribute_count == rows[i].attributes);
    }
}

/* That many checks, all alike. */
static struct hr_span build_many(char *room, size_t room_bytes, uint32_t count)
{
    struct hr_packer packer = {.at = room, .room = room_bytes};
    hr_pack_requests_head(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        hr_pack_raw(&packer, "\x81" KEY A, sizeof("\x81" KEY A) - 1);
    }
    assert_true(hr_packer_fits(&packer));
    return hr_packer_bytes(&packer);
}

static void a_thousand_requests_are_the_most(void **state)
{
    (void)state;
    static char room[64 * 1024];
    struct hr_params params, one;
    struct hr_fault fault;
    uint32_t count = 0;
    assert_false(decode(HR_METHOD_CHECK_MANY, build_many(room, sizeof(room), 1001), &params, &fault));
    assert_true(decode(HR_METHOD_CHECK_MANY, build_many(room, sizeof(room), 0), &params, &fault));
    assert_false(hr_requests_next(&params.requests, &one));
    assert_true(decode(HR_METHOD_CHECK_MANY, build_many(room, sizeof(room), 1000), &params, &fault));
    while (hr_requests_next(&params.requests, &one)) {
        assert_int_equal(one.attribute_count, 1);
        assert_int_equal(one.cost, 1);
        count++;
    }
    assert_int_equal(count, 1000);
}

static void a_request_for_the_limiter_has_the_attributes_and_the_cost(void **state)
{
    (void)state;
    struct hr_params params;
    struct hr_fault fault;
    assert_true(decode(HR_METHOD_CHECK,
                       HR_SPAN("\x83" KEY A "\xa4"
                               "cost\x00\xa4"
                               "peek\xc3"),
                       &params, &fault));
    struct hr_request request = hr_params_request(&params, 99);
    assert_int_equal(request.attribute_count, 1);
    assert_true(hr_span_equal(request.attributes[0].value, HR_SPAN("b")));
    assert_int_equal(request.cost, 0);
    assert_true(request.peek);
    assert_int_equal(request.serial, 99);
}

static void every_algorithm_with_a_rate_can_throttle(void **state)
{
    (void)state;
    for (int algorithm = HR_TOKEN_BUCKET; algorithm <= HR_CONCURRENCY; algorithm++) {
        char room[256];
        struct hr_packer packer = {.at = room, .room = sizeof(room)};
        struct hr_params params = {.key = {"k", 1}, .rate = {"1/s", 3}, .algorithm = (enum hr_algorithm)algorithm};
        struct hr_params got;
        struct hr_fault fault;
        params.present = HR_PARAM_BIT(HR_PARAM_KEY) | HR_PARAM_BIT(HR_PARAM_RATE) | HR_PARAM_BIT(HR_PARAM_ALGORITHM);
        hr_params_encode(&params, &packer);
        bool good = decode(HR_METHOD_THROTTLE, hr_packer_bytes(&packer), &got, &fault);
        print_message("algorithm %d\n", algorithm);
        assert_int_equal(good, algorithm != HR_QUOTA && algorithm != HR_CONCURRENCY);
        assert_true(!good || got.algorithm == params.algorithm);
    }
}

static void a_lease_is_read_in_either_case_and_written_small(void **state)
{
    (void)state;
    char digits[HR_LEASE_TEXT_BYTES];
    struct hr_id128 id;
    assert_true(hr_hex_read(HR_SPAN("00112233445566778899AABBCCDDEEFF"), &id));
    assert_true(id.hi == 0x0011223344556677 && id.lo == 0x8899aabbccddeeff);
    hr_hex_write(id, digits);
    assert_memory_equal(digits, "00112233445566778899aabbccddeeff", sizeof(digits));
    static const char *const wrong[] = {"",
                                        "0011223344556677",
                                        "00112233445566778899aabbccddeeff0",
                                        "00112233445566778899aabbccddee/f",
                                        "00112233445566778899aabbccddee:f",
                                        "00112233445566778899aabbccddee@f",
                                        "00112233445566778899aabbccddee`f",
                                        "00112233445566778899aabbccddeegf",
                                        "\xff.112233445566778899aabbccddeeff"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        print_message("row %zu\n", i);
        assert_false(hr_hex_read(hr_span_of(wrong[i]), &id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_refused_is_named),
        cmocka_unit_test(every_key_is_found_by_its_name_alone),
        cmocka_unit_test(the_bounds_of_a_check_are_the_contracts),
        cmocka_unit_test(a_thousand_requests_are_the_most),
        cmocka_unit_test(a_request_for_the_limiter_has_the_attributes_and_the_cost),
        cmocka_unit_test(every_algorithm_with_a_rate_can_throttle),
        cmocka_unit_test(a_lease_is_read_in_either_case_and_written_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
