/* Load: bytes at any address as numbers, the same on every machine: little-endian, where the name does not say else.
 * Thread: any. Pure. Reads the bytes that are named and none beside them. */
#ifndef HR_BASE_LOAD_H
#define HR_BASE_LOAD_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hr_load64(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static inline uint64_t hr_load64_be(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return be64toh(value);
}

static inline uint32_t hr_load32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

/* The number that 0 to 7 bytes make. Without a loop: parts that overlap say the same where they do. */
static inline uint64_t hr_load_short(const void *at, size_t bytes)
{
    const uint8_t *byte = at;
    if (bytes >= 4) {
        return hr_load32(byte) | (uint64_t)hr_load32(byte + bytes - 4) << (8 * (bytes - 4));
    }
    if (bytes == 0) {
        return 0;
    }
    size_t mid = bytes / 2, last = bytes - 1;
    return byte[0] | (uint64_t)byte[mid] << (8 * mid) | (uint64_t)byte[last] << (8 * last);
}

#endif
