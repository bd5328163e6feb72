/* Hashes, against what their authors published: identities and partitions must come out alike on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

/* The key of all published vectors: 00 01 02 .. 0f. */
static struct hr_hash_key published_key(void)
{
    struct hr_hash_key key;
    for (size_t i = 0; i < sizeof(key.bytes); i++) {
        key.bytes[i] = (uint8_t)i;
    }
    return key;
}

/* SipHash-2-4-128 of the first `bytes` bytes of 00 01 02 .., from vectors.h of the reference implementation
 * (https://github.com/veorq/SipHash). */
static const struct {
    size_t bytes;
    uint8_t hash[16];
} siphash_vectors[] = {
    {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
    {1, {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}},
    {2, {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff, 0xe4}},
    {3, {0x9c, 0x70, 0xb6, 0x0c, 0x52, 0x67, 0xa9, 0x4e, 0x5f, 0x33, 0xb6, 0xb0, 0x29, 0x85, 0xed, 0x51}},
};

static void siphash_gives_the_published_vectors(void **state)
{
    (void)state;
    const uint8_t input[] = {0, 1, 2};
    struct hr_hash_key key = published_key();
    for (size_t i = 0; i < sizeof(siphash_vectors) / sizeof(siphash_vectors[0]); i++) {
        struct hr_hash_key raw = hr_hash_subkey(&key, input, siphash_vectors[i].bytes);
        if (memcmp(raw.bytes, siphash_vectors[i].hash, sizeof(raw.bytes)) != 0) {
            fail_msg("vector %zu", i);
        }
    }
}

/* The first vector again: a38174.. read as two little-endian words. */
static void the_words_of_an_identity_are_read_in_little_endian_order(void **state)
{
    (void)state;
    struct hr_hash_key key = published_key();
    struct hr_id128 id = hr_keyed_hash(&key, "", 0);
    assert_true(id.hi == UINT64_C(0xe6a825ba047f81a3));
    assert_true(id.lo == UINT64_C(0x930255c71472f66d));
}

static void each_purpose_and_each_secret_has_its_own_subkey(void **state)
{
    (void)state;
    struct hr_hash_key secret = published_key(), other_secret = secret;
    other_secret.bytes[15] ^= 1;
    const struct hr_hash_key subkeys[] = {
        hr_hash_subkey(&secret, "identity", 8),
        hr_hash_subkey(&secret, "lease", 5),
        hr_hash_subkey(&secret, "leas", 4),
        hr_hash_subkey(&other_secret, "identity", 8),
        secret,
    };
    for (size_t i = 0; i < sizeof(subkeys) / sizeof(subkeys[0]); i++) {
        for (size_t j = 0; j < i; j++) {
            if (memcmp(subkeys[i].bytes, subkeys[j].bytes, sizeof(subkeys[i].bytes)) == 0) {
                fail_msg("keys %zu and %zu are the same", j, i);
            }
        }
    }
    struct hr_hash_key again = hr_hash_subkey(&secret, "identity", 8);
    assert_memory_equal(again.bytes, subkeys[0].bytes, sizeof(again.bytes));
}

static void identities_differ_in_either_word(void **state)
{
    (void)state;
    struct hr_id128 id = {1, 2};
    assert_true(hr_id128_equal(id, (struct hr_id128){1, 2}));
    assert_false(hr_id128_equal(id, (struct hr_id128){0, 2}));
    assert_false(hr_id128_equal(id, (struct hr_id128){1, 0}));
}

static void the_plain_hash_is_xxh3_on_every_machine(void **state)
{
    (void)state;
    assert_true(hr_plain_hash("", 0, 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(hr_plain_hash("headroom", 8, 0) != hr_plain_hash("headroom", 8, 1));
    assert_true(hr_plain_hash("headroom", 8, 0) != hr_plain_hash("headroom", 7, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_gives_the_published_vectors),
        cmocka_unit_test(the_words_of_an_identity_are_read_in_little_endian_order),
        cmocka_unit_test(each_purpose_and_each_secret_has_its_own_subkey),
        cmocka_unit_test(identities_differ_in_either_word),
        cmocka_unit_test(the_plain_hash_is_xxh3_on_every_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
