#include "rpc/hex.h"

#include <stdint.h>

static void write_word(uint64_t word, char *ret_digits)
{
    for (unsigned i = 0; i < 16; i++) {
        ret_digits[i] = "0123456789abcdef"[(word >> (60 - 4 * i)) & 0xf];
    }
}

void hr_hex_write(struct hr_id128 id, char ret_digits[HR_LEASE_TEXT_BYTES])
{
    write_word(id.hi, ret_digits);
    write_word(id.lo, ret_digits + 16);
}

static bool read_digit(char digit, unsigned *ret_value)
{
    if (digit >= '0' && digit <= '9') {
        *ret_value = (unsigned)(digit - '0');
        return true;
    }
    unsigned letter = ((unsigned)(unsigned char)digit | 0x20) - 'a'; /* wraps far above for what comes before 'a' */
    *ret_value = letter + 10;
    return letter < 6;
}

static bool read_word(const char *digits, uint64_t *ret_word)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 16; i++) {
        unsigned value;
        if (!read_digit(digits[i], &value)) {
            return false;
        }
        word = word << 4 | value;
    }
    *ret_word = word;
    return true;
}

bool hr_hex_read(struct hr_span digits, struct hr_id128 *ret_id)
{
    struct hr_id128 id;
    if (digits.bytes != HR_LEASE_TEXT_BYTES || !read_word(digits.at, &id.hi) || !read_word(digits.at + 16, &id.lo)) {
        return false;
    }
    *ret_id = id;
    return true;
}
