/* Span: borrowed bytes and how many. Not NUL-terminated; the owner outlives it. */
#ifndef HR_BASE_SPAN_H
#define HR_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct hr_span {
    const char *at;
    size_t bytes;
};

/* A span over a string literal. */
#define HR_SPAN(literal) ((struct hr_span){(literal), sizeof(literal) - 1})

/* Is the text, which is known to be as long, this literal? Compared in a few words, without a call. */
#define HR_SPAN_IS(text, literal) (memcmp((text).at, (literal), sizeof(literal) - 1) == 0)

static inline struct hr_span hr_span_of(const char *text)
{
    return (struct hr_span){text, strlen(text)};
}

static inline bool hr_span_equal(struct hr_span a, struct hr_span b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

#endif
