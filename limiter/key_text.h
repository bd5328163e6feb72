/* Key text: what a counter's identity is the hash of, its key's values, each behind its length in two bytes.
 *
 * It is put together in whole words, in a register: the hash reads it back by words at once, and a word that was
 * written in one piece is handed over quickly, while one made of several writes is waited for.
 *
 * Thread: the caller's. Pure. Memory: handed in, of HR_KEY_TEXT_WORDS. */
#ifndef HR_LIMITER_KEY_TEXT_H
#define HR_LIMITER_KEY_TEXT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>

#include "base/load.h"
#include "base/span.h"
#include "limiter/limit.h"

/* A key of every attribute that a request may have, and a last word that is not full. */
#define HR_KEY_TEXT_WORDS (HR_ATTRIBUTES_MAX * (2 + HR_ATTRIBUTE_VALUE_BYTES_MAX) / 8 + 1)

struct hr_key_text {
    uint64_t *words;        /* where the next full one goes */
    uint64_t pending;       /* the next */
    unsigned pending_bytes; /* of it, 0 to 7; those above are 0 */
};

/* What is left of a word that was moved up by shift bits, 0 to 56. In two steps: in C, no shift is by 64. */
static inline uint64_t hr_key_text_rest(uint64_t word, unsigned shift)
{
    return word >> 1 >> (63 - shift);
}

/* The number's low bytes, 0 to 7 of them; those above are 0. */
static inline void hr_key_text_put(struct hr_key_text *text, uint64_t number, unsigned bytes)
{
    unsigned shift = 8 * text->pending_bytes;
    text->pending |= number << shift;
    text->pending_bytes += bytes;
    if (text->pending_bytes >= 8) {
        *text->words++ = htole64(text->pending);
        text->pending = hr_key_text_rest(number, shift);
        text->pending_bytes -= 8;
    }
}

/* One more value, of at most HR_ATTRIBUTE_VALUE_BYTES_MAX: its length and its bytes, word by word, all moved up by what
 * stands before them. */
static inline void hr_key_text_add(struct hr_key_text *text, struct hr_span value)
{
    hr_key_text_put(text, value.bytes, 2);
    const unsigned shift = 8 * text->pending_bytes;
    const char *at = value.at;
    size_t left = value.bytes;
    uint64_t pending = text->pending;
    uint64_t *words = text->words;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = hr_load64(at);
        *words++ = htole64(pending | word << shift);
        pending = hr_key_text_rest(word, shift);
    }
    text->pending = pending;
    text->words = words;
    hr_key_text_put(text, hr_load_short(at, left), (unsigned)left);
}

/* How many bytes the text has, which begins at words. */
static inline size_t hr_key_text_end(struct hr_key_text *text, const uint64_t *words)
{
    *text->words = htole64(text->pending);
    return (size_t)(text->words - words) * sizeof(*words) + text->pending_bytes;
}

#endif
