/* Life: one run of a node, from start to end, as a number that rises with each start.
 *
 * A member's incarnation is its life and, below it, how many words about itself it has said in it: each refutation of a
 * suspicion is one. So an incarnation rises often and a life only with a start, and whoever must know whether it is
 * still the same process (the envelope, for one) looks at the life alone. What a node says of its names and addresses
 * is the same for a whole life.
 *
 * The driver gives the life at start: the greater of the last one in its store plus 1 and the wall clock's seconds of
 * Unix time. The seconds keep a node whose disk was lost from being taken for its own past. With 32 bits of life and 20
 * of words an incarnation is below 2^52, which any answer can hold.
 *
 * Pure. */
#ifndef HR_GOSSIP_LIFE_H
#define HR_GOSSIP_LIFE_H

#include <stdint.h>

#define HR_LIFE_WORD_BITS 20
#define HR_LIFE_MAX UINT32_MAX
#define HR_INCARNATION_MAX ((UINT64_C(1) << (32 + HR_LIFE_WORD_BITS)) - 1)

/* The first incarnation of a life (1 to HR_LIFE_MAX). */
static inline uint64_t hr_life_begin(uint64_t life)
{
    return life << HR_LIFE_WORD_BITS;
}

static inline uint64_t hr_life_of(uint64_t incarnation)
{
    return incarnation >> HR_LIFE_WORD_BITS;
}

#endif
