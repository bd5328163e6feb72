/* Match: globs against a plain recursive matcher and at their worst, networks, negation and absence. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/match.h"
#include "tests/lib/limiter_fixture.h"

/* ---- Globs ---- */

static void a_star_matches_any_run_and_nothing_else_is_special(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *value;
        bool matches;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"**", "", true},
        {"a", "", false},
        {"a*", "a", true},
        {"*a", "a", true},
        {"a*a", "a", false},
        {"a*a", "aa", true},
        {"payments.*", "payments.write", true},
        {"payments.*", "payments", false},
        {"payments.*", "paymentsXwrite", false},
        {"*.write", "a.b.write", true},
        {"*.write", "a.write.x", false},
        {"a?c", "abc", false},
        {"a?c", "a?c", true},
        {"[ab]", "a", false},
        {"[ab]", "[ab]", true},
        {"a\\*", "a\\x", true},
        {"a\\*", "a*", false},
        {"*ab*", "xxabab", true},
        {"*abc", "ababc", true},
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "a-c-b", false},
        {"A", "a", false},
        {"*\xc3\xa9", "caf\xc3\xa9", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (hr_glob_matches(hr_span_of(rows[i].pattern), hr_span_of(rows[i].value)) != rows[i].matches) {
            fail_msg("row %zu: %s on %s", i, rows[i].pattern, rows[i].value);
        }
    }
}

/* Straight from the definition; exponential, so for short texts only. */
static bool glob_by_definition(struct hr_span pattern, struct hr_span value)
{
    if (pattern.bytes == 0) {
        return value.bytes == 0;
    }
    struct hr_span rest = {pattern.at + 1, pattern.bytes - 1};
    if (pattern.at[0] == '*') {
        for (size_t skip = 0; skip <= value.bytes; skip++) {
            if (glob_by_definition(rest, (struct hr_span){value.at + skip, value.bytes - skip})) {
                return true;
            }
        }
        return false;
    }
    return value.bytes > 0 && value.at[0] == pattern.at[0] &&
           glob_by_definition(rest, (struct hr_span){value.at + 1, value.bytes - 1});
}

#define SPELLED_BYTES_MAX 8

/* The number-th text of so many letters of an alphabet. */
static struct hr_span spell(uint32_t number, size_t bytes, const char *alphabet, char *ret_text)
{
    size_t letters = strlen(alphabet);
    for (size_t i = 0; i < bytes && i < SPELLED_BYTES_MAX; i++) {
        ret_text[i] = alphabet[number % letters];
        number /= (uint32_t)letters;
    }
    return (struct hr_span){ret_text, bytes};
}

static uint32_t power(uint32_t base, size_t exponent)
{
    uint32_t result = 1;
    while (exponent-- > 0) {
        result *= base;
    }
    return result;
}

static void every_short_glob_agrees_with_the_definition(void **state)
{
    (void)state;
    char pattern_text[SPELLED_BYTES_MAX], value_text[SPELLED_BYTES_MAX];
    for (size_t p = 0; p <= 5; p++) {
        for (uint32_t i = 0; i < power(3, p); i++) {
            struct hr_span pattern = spell(i, p, "ab*", pattern_text);
            for (size_t v = 0; v <= 6; v++) {
                for (uint32_t k = 0; k < power(2, v); k++) {
                    struct hr_span value = spell(k, v, "ab", value_text);
                    if (hr_glob_matches(pattern, value) != glob_by_definition(pattern, value)) {
                        fail_msg("%.*s on %.*s", (int)p, pattern.at, (int)v, value.at);
                    }
                }
            }
        }
    }
}

/* Patterns that make a backtracking matcher take 2^n steps; each of these must end at once. */
static void the_worst_globs_end_soon(void **state)
{
    (void)state;
    static char stars[HR_ATTRIBUTE_VALUE_BYTES_MAX], letters[HR_ATTRIBUTE_VALUE_BYTES_MAX];
    for (size_t i = 0; i < sizeof(stars); i++) {
        stars[i] = i % 2 == 0 ? 'a' : '*';
        letters[i] = 'a';
    }
    struct hr_span value = {letters, sizeof(letters)};
    assert_true(hr_glob_matches((struct hr_span){stars, sizeof(stars)}, value));
    stars[sizeof(stars) - 1] = 'b';
    assert_false(hr_glob_matches((struct hr_span){stars, sizeof(stars)}, value));
    memset(stars, '*', sizeof(stars));
    assert_true(hr_glob_matches((struct hr_span){stars, sizeof(stars)}, value));
    assert_true(hr_glob_matches((struct hr_span){stars, sizeof(stars)}, HR_SPAN("")));
    memset(stars, 'a', sizeof(stars));
    stars[0] = '*';
    stars[sizeof(stars) / 2] = 'b'; /* a long literal behind a star, that fails in its middle each time */
    for (int i = 0; i < 100; i++) {
        assert_false(hr_glob_matches((struct hr_span){stars, sizeof(stars) / 2 + 1}, value));
    }
}

/* ---- Networks ---- */

static struct hr_cidr network(const char *address, uint8_t prefix_bits)
{
    struct hr_cidr cidr = {.prefix_bits = prefix_bits, .family_bytes = 4};
    if (inet_pton(AF_INET, address, cidr.address) != 1) {
        cidr.family_bytes = 16;
        assert_int_equal(inet_pton(AF_INET6, address, cidr.address), 1);
    }
    return cidr;
}

static void a_network_holds_the_addresses_within_it(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        uint8_t prefix_bits;
        const char *value;
        bool matches;
    } rows[] = {
        {"10.0.0.0", 8, "10.0.0.0", true},
        {"10.0.0.0", 8, "10.255.255.255", true},
        {"10.0.0.0", 8, "11.0.0.0", false},
        {"10.0.0.0", 8, "9.255.255.255", false},
        {"0.0.0.0", 0, "255.255.255.255", true},
        {"192.0.2.1", 32, "192.0.2.1", true},
        {"192.0.2.1", 32, "192.0.2.2", false},
        {"192.0.2.128", 25, "192.0.2.127", false},
        {"192.0.2.128", 25, "192.0.2.255", true},
        {"172.16.0.0", 12, "172.31.255.255", true},
        {"172.16.0.0", 12, "172.32.0.0", false},
        {"10.0.0.0", 8, "::ffff:10.1.2.3", true}, /* IPv4 written as IPv6 */
        {"10.0.0.0", 8, "::ffff:a01:203", true},
        {"10.0.0.0", 8, "::10.1.2.3", false}, /* not the mapped form */
        {"2001:db8::", 32, "2001:db8::1", true},
        {"2001:db8::", 32, "2001:DB8:ffff:ffff:ffff:ffff:ffff:ffff", true},
        {"2001:db8::", 32, "2001:db9::", false},
        {"2001:db8::", 33, "2001:db8:8000::", false},
        {"::1", 128, "::1", true},
        {"::1", 128, "::2", false},
        {"::", 0, "fe80::1", true},
        {"::", 0, "10.1.2.3", false}, /* the families are apart */
        {"::", 0, "::ffff:10.1.2.3", false},
        {"0.0.0.0", 0, "::1", false},
        {"10.0.0.0", 8, "", false},
        {"10.0.0.0", 8, "10.1.2", false},
        {"10.0.0.0", 8, "10.1.2.3.4", false},
        {"10.0.0.0", 8, "10.1.2.256", false},
        {"10.0.0.0", 8, "010.1.2.3", false},
        {"10.0.0.0", 8, " 10.1.2.3", false},
        {"10.0.0.0", 8, "10.1.2.3 ", false},
        {"10.0.0.0", 8, "10.1.2.3/8", false},
        {"10.0.0.0", 8, "10.1.2.3:80", false},
        {"fe80::", 10, "fe80::1%eth0", false},
        {"::", 0, "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000", false},
        {"::", 0, "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", true}, /* the longest there is */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_cidr cidr = network(rows[i].address, rows[i].prefix_bits);
        if (hr_cidr_matches(&cidr, hr_span_of(rows[i].value)) != rows[i].matches) {
            fail_msg("row %zu: %s in %s/%d", i, rows[i].value, rows[i].address, rows[i].prefix_bits);
        }
    }
}

/* The two families at every prefix: one bit changed inside the prefix leaves the network, one behind it does not. */
static void a_prefix_decides_by_exactly_its_bits(void **state)
{
    (void)state;
    for (int bits_of_family = 32; bits_of_family <= 128; bits_of_family += 96) {
        for (int prefix = 0; prefix <= bits_of_family; prefix++) {
            for (int bit = 0; bit < bits_of_family; bit++) {
                struct hr_cidr cidr = {.family_bytes = (uint8_t)(bits_of_family / 8), .prefix_bits = (uint8_t)prefix};
                uint8_t address[16] = {0};
                char text[INET6_ADDRSTRLEN];
                cidr.address[0] = address[0] = 0x20;
                address[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
                assert_non_null(inet_ntop(bits_of_family == 32 ? AF_INET : AF_INET6, address, text, sizeof(text)));
                assert_int_equal(hr_cidr_matches(&cidr, hr_span_of(text)), bit >= prefix);
            }
        }
    }
}

/* ---- Conditions ---- */

static void conditions_hold_by_any_pattern_and_turn_around_when_negated(void **state)
{
    (void)state;
    static const struct hr_pattern exact = {.kind = HR_MATCH_EXACT, .text = {"a", 1}};
    static const struct hr_pattern glob = {.kind = HR_MATCH_GLOB, .text = {"b*", 2}};
    static const struct hr_pattern not_exact = {.kind = HR_MATCH_EXACT, .negated = true, .text = {"a", 1}};
    const struct hr_pattern star_is_exact = {.kind = HR_MATCH_EXACT, .text = {"*", 1}};
    const struct hr_pattern empty = {.kind = HR_MATCH_EXACT, .text = {"", 0}};
    const struct {
        struct hr_pattern patterns[2];
        uint32_t count;
        bool negated;
        const char *value; /* NULL: absent */
        bool holds;
    } rows[] = {
        {{exact}, 1, false, "a", true},          {{exact}, 1, false, "b", false},
        {{exact}, 1, false, NULL, false},        {{exact}, 1, true, "a", false},
        {{exact}, 1, true, "b", true},           {{exact}, 1, true, NULL, true},
        {{exact, glob}, 2, false, "bcd", true},  {{exact, glob}, 2, false, "c", false},
        {{exact, glob}, 2, true, "bcd", false},  {{exact, glob}, 2, true, NULL, true},
        {{not_exact}, 1, false, NULL, true},     {{not_exact}, 1, false, "a", false},
        {{not_exact}, 1, true, NULL, false},     {{not_exact, glob}, 2, false, "b", true},
        {{star_is_exact}, 1, false, "x", false}, {{star_is_exact}, 1, false, "*", true},
        {{empty}, 1, false, "", true},           {{empty}, 1, false, NULL, false},
        {{empty}, 1, false, "x", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_condition condition = {
            .negated = rows[i].negated, .pattern_count = rows[i].count, .patterns = rows[i].patterns};
        struct hr_span value = hr_span_of(rows[i].value == NULL ? "" : rows[i].value);
        if (hr_condition_holds(&condition, rows[i].value == NULL ? NULL : &value) != rows[i].holds) {
            fail_msg("row %zu", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_star_matches_any_run_and_nothing_else_is_special),
        cmocka_unit_test(every_short_glob_agrees_with_the_definition),
        cmocka_unit_test(the_worst_globs_end_soon),
        cmocka_unit_test(a_network_holds_the_addresses_within_it),
        cmocka_unit_test(a_prefix_decides_by_exactly_its_bits),
        cmocka_unit_test(conditions_hold_by_any_pattern_and_turn_around_when_negated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
