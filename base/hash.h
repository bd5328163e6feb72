/* Hashes.
 *   hr_keyed_hash  a pseudo-random function under a secret key: counter identities, lease ids. Whoever lacks the key
 *                  can neither aim two inputs at one output nor turn an output back (SipHash-2-4 with 128 bits,
 *                  Aumasson and Bernstein 2012, from libsodium).
 *   hr_plain_hash  fast and without a key: for tables whose contents only the operator chooses (XXH3).
 * Thread: any. Memory: none. */
#ifndef HR_BASE_HASH_H
#define HR_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HR_HASH_KEY_BYTES 16

struct hr_hash_key {
    uint8_t bytes[HR_HASH_KEY_BYTES];
};

/* 128 bits, as two words that are the same on every machine (little-endian reading of the hash). */
struct hr_id128 {
    uint64_t hi;
    uint64_t lo;
};

static inline bool hr_id128_equal(struct hr_id128 a, struct hr_id128 b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

struct hr_id128 hr_keyed_hash(const struct hr_hash_key *key, const void *data, size_t bytes);

/* A key for one purpose, made of a secret and the purpose's name: hr_keyed_hash(secret, purpose). */
struct hr_hash_key hr_hash_subkey(const struct hr_hash_key *secret, const void *purpose, size_t bytes);

uint64_t hr_plain_hash(const void *data, size_t bytes, uint64_t seed);

#endif
