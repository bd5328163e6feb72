#include "region/blocks.h"

#include <string.h>

static const struct {
    uint32_t bytes, divisor;
} sizes[HR_BLOCK_SIZES] = {{512, 1}, {4096, 4}, {HR_BLOCK_BYTES_MAX, 32}};

void hr_blocks_init(struct hr_blocks *blocks, uint32_t count, struct hr_bump *bump)
{
    for (uint32_t i = 0; i < HR_BLOCK_SIZES; i++) {
        uint32_t of_size = count / sizes[i].divisor + 1;
        blocks->of_size[i].memory = hr_bump_take(bump, of_size, sizes[i].bytes, 64);
        blocks->of_size[i].next = hr_bump_take(bump, (size_t)of_size + 1, sizeof(uint32_t), 64);
        blocks->of_size[i].count = of_size;
        blocks->of_size[i].head = blocks->of_size[i].fresh = 0;
    }
}

static uint32_t take(struct hr_blocks *blocks, uint32_t size)
{
    uint32_t number = blocks->of_size[size].head;
    if (number != 0) {
        blocks->of_size[size].head = blocks->of_size[size].next[number];
        return number;
    }
    return blocks->of_size[size].fresh < blocks->of_size[size].count ? ++blocks->of_size[size].fresh : 0;
}

static char *place_of(const struct hr_blocks *blocks, struct hr_kept block)
{
    return blocks->of_size[block.size].memory + (size_t)(block.number - 1) * sizes[block.size].bytes;
}

bool hr_blocks_keep(struct hr_blocks *blocks, struct hr_span bytes, struct hr_kept *ret_block)
{
    for (uint32_t size = 0; size < HR_BLOCK_SIZES; size++) {
        uint32_t number = bytes.bytes <= sizes[size].bytes ? take(blocks, size) : 0;
        if (number == 0) {
            continue;
        }
        *ret_block = (struct hr_kept){number, size, (uint32_t)bytes.bytes};
        if (bytes.bytes > 0) {
            memcpy(place_of(blocks, *ret_block), bytes.at, bytes.bytes);
        }
        return true;
    }
    return false;
}

struct hr_span hr_blocks_bytes(const struct hr_blocks *blocks, struct hr_kept block)
{
    return block.number == 0 ? (struct hr_span){"", 0} : (struct hr_span){place_of(blocks, block), block.bytes};
}

void hr_blocks_free(struct hr_blocks *blocks, struct hr_kept *block)
{
    if (block->number != 0) {
        blocks->of_size[block->size].next[block->number] = blocks->of_size[block->size].head;
        blocks->of_size[block->size].head = block->number;
    }
    *block = (struct hr_kept){0};
}
