/* Blocks: bounded room for byte strings that outlive a call: the params and answers of requests on their way. Three
 * sizes, each with its own free list; a string takes the smallest that holds it, or the next where those are all taken.
 *
 * Thread: the owner's. Pure. Memory: handed in. Every call is O(1), besides copying. */
#ifndef HR_REGION_BLOCKS_H
#define HR_REGION_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/span.h"

#define HR_BLOCK_BYTES_MAX 49152U
#define HR_BLOCK_SIZES 3

/* Of `count` small blocks there are a quarter as many middle ones, and a 32nd as many large ones. */
struct hr_blocks {
    struct {
        char *memory;
        uint32_t *next; /* of each free block; the first is head. Numbers are 1 and up */
        uint32_t head, fresh, count;
    } of_size[HR_BLOCK_SIZES];
};

/* A string that is kept; zero-filled is none. */
struct hr_kept {
    uint32_t number; /* 0: none */
    uint32_t size;   /* which of the sizes */
    uint32_t bytes;
};

void hr_blocks_init(struct hr_blocks *blocks, uint32_t count, struct hr_bump *bump);

/* Copies the bytes. False: there is no room, or they are more than HR_BLOCK_BYTES_MAX. */
bool hr_blocks_keep(struct hr_blocks *blocks, struct hr_span bytes, struct hr_kept *ret_block);

/* Good until it is freed. */
struct hr_span hr_blocks_bytes(const struct hr_blocks *blocks, struct hr_kept block);

/* Frees a block and makes it none; none stays none. */
void hr_blocks_free(struct hr_blocks *blocks, struct hr_kept *block);

#endif
