/* Bump: lays out parts in memory that was handed in, in order, each aligned. Run once over no memory (at = NULL)
 * it only measures, so that a size and the layout it is for can never disagree. Nothing is freed. */
#ifndef HR_BASE_BUMP_H
#define HR_BASE_BUMP_H

#include <stddef.h>
#include <stdint.h>

struct hr_bump {
    uint8_t *at;  /* NULL: measure only */
    size_t taken; /* bytes so far, padding and all */
};

/* The next `count` objects of `bytes` each, on a multiple of align (a power of two). NULL while measuring. The product
 * is below 2^63: the callers' bounds see to it. */
static inline void *hr_bump_take(struct hr_bump *bump, size_t count, size_t bytes, size_t align)
{
    size_t begin = (bump->taken + align - 1) & ~(align - 1);
    bump->taken = begin + count * bytes;
    return bump->at == NULL ? NULL : bump->at + begin;
}

#endif
