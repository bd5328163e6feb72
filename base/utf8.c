#include "base/utf8.h"

/* The bytes of the UTF-8 sequence that begins here; 0 where none does (RFC 3629, section 4): no overlong form, no
 * surrogate, nothing above U+10FFFF. The first byte narrows what the second may be. */
static size_t sequence_bytes(const unsigned char *at, size_t left)
{
    unsigned first = at[0], low = 0x80, high = 0xbf;
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : low;
    high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : high;
    if (left < bytes || at[1] < low || at[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return bytes;
}

bool hr_utf8_is_valid(struct hr_span text)
{
    for (size_t i = 0; i < text.bytes;) {
        size_t bytes = sequence_bytes((const unsigned char *)text.at + i, text.bytes - i);
        if (bytes == 0) {
            return false;
        }
        i += bytes;
    }
    return true;
}
