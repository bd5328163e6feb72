/* UTF-8 (RFC 3629).
 * Thread: any. Pure. */
#ifndef HR_BASE_UTF8_H
#define HR_BASE_UTF8_H

#include <stdbool.h>

#include "base/load.h"
#include "base/span.h"

/* No overlong form, no surrogate, nothing above U+10FFFF, nothing cut off. NUL is valid. */
bool hr_utf8_is_valid(struct hr_span text);

/* Eight bytes: is each one of ASCII, and none NUL? Taking 1 from each byte sets its highest bit only where it was 0;
 * the borrow of a 0 can mislead only the bytes above it, when the answer is no already. */
static inline bool hr_utf8_word_is_plain(uint64_t word)
{
    return (((word - UINT64_C(0x0101010101010101)) | word) & UINT64_C(0x8080808080808080)) == 0;
}

/* Is it nothing but ASCII without NUL, as most texts are? By eight bytes at a time; the last eight may overlap those
 * before them. */
static inline bool hr_utf8_is_plain(struct hr_span text)
{
    if (text.bytes < 8) {
        uint64_t filler = UINT64_C(0x0101010101010101) << (8 * text.bytes);
        return hr_utf8_word_is_plain(hr_load_short(text.at, text.bytes) | filler);
    }
    bool is_plain = hr_utf8_word_is_plain(hr_load64(text.at + text.bytes - 8));
    for (size_t at = 0; is_plain && at + 8 < text.bytes; at += 8) {
        is_plain = hr_utf8_word_is_plain(hr_load64(text.at + at));
    }
    return is_plain;
}

#endif
