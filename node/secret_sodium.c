#include <assert.h>
#include <sodium/crypto_generichash.h>

#include "node/secret.h"

static_assert(HR_HASH_KEY_BYTES >= crypto_generichash_BYTES_MIN, "as short as BLAKE2b may be");

struct hr_hash_key hr_secret_key(struct hr_span secret)
{
    struct hr_hash_key key;
    /* It fails only for lengths that the assertion above excludes. */
    (void)crypto_generichash(key.bytes, sizeof(key.bytes), (const unsigned char *)secret.at, secret.bytes, NULL, 0);
    return key;
}
