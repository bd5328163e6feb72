#include <assert.h>
#include <endian.h>
#include <sodium/crypto_shorthash_siphash24.h>
#include <string.h>

#include "base/hash.h"

static_assert(crypto_shorthash_siphashx24_BYTES == 16, "128 bits out");
static_assert(crypto_shorthash_siphashx24_KEYBYTES == HR_HASH_KEY_BYTES, "128 bits of key");

static uint64_t read_le64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

struct hr_id128 hr_keyed_hash(const struct hr_hash_key *key, const void *data, size_t bytes)
{
    unsigned char out[crypto_shorthash_siphashx24_BYTES];
    /* Its only result is 0: the function has no way to fail. */
    (void)crypto_shorthash_siphashx24(out, data, bytes, key->bytes);
    return (struct hr_id128){.hi = read_le64(out), .lo = read_le64(out + 8)};
}

struct hr_hash_key hr_hash_subkey(const struct hr_hash_key *secret, const void *purpose, size_t bytes)
{
    struct hr_hash_key subkey;
    (void)crypto_shorthash_siphashx24(subkey.bytes, purpose, bytes, secret->bytes);
    return subkey;
}
