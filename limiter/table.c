#include "limiter/table.h"

#include <assert.h>
#include <string.h>

#include "base/u128.h"

static_assert(sizeof(struct hr_cell) == 48, "60 bytes a counter with one cell in five free");

static uint64_t block_count(const struct hr_table *table)
{
    return (hr_table_cell_count(table) + HR_TABLE_BLOCK_CELLS - 1) / HR_TABLE_BLOCK_CELLS;
}

/* Ranges are taken for whole multiples of one part of so many, to reckon with small numbers. */
#define RANGE_PARTS 4096U
#define RANGE_PART_SHIFT 52

void hr_table_init(struct hr_table *table, uint32_t count_max, struct hr_table_range ids, struct hr_bump *bump)
{
    uint64_t parts = ((ids.last - ids.first) >> RANGE_PART_SHIFT) + 1;
    table->home_count = (uint64_t)count_max + count_max / 4 + 1;
    table->homes_in_all = table->home_count * RANGE_PARTS / parts;
    table->first_id = ids.first;
    table->count = 0;
    table->count_max = count_max;
    table->cells = hr_bump_take(bump, hr_table_cell_count(table), sizeof(struct hr_cell), 64);
    table->dirty = hr_bump_take(bump, (block_count(table) + 63) / 64, sizeof(uint64_t), 64);
    table->dirty_at = 0;
}

/* Grows with the identity, so that order by home and order by identity are one; what lies outside the range has the
 * first home or the last. */
static uint64_t home_of(const struct hr_table *table, struct hr_id128 id)
{
    uint64_t from = id.hi > table->first_id ? id.hi - table->first_id : 0;
    uint64_t home = hr_u128_mul(from, table->homes_in_all).hi;
    return home < table->home_count ? home : table->home_count - 1;
}

static bool is_before(const struct hr_cell *cell, struct hr_id128 id)
{
    return cell->version != 0 && cell->id.hi < id.hi;
}

/* Cells that lower_bound looks at whatever stands in them. */
#define GLANCE_CELLS 4

/* The first cell from id's home on that is empty or holds an identity not before id. Two identities that share their
 * first word stand in no order: both are looked at.
 *
 * Those before id are first counted without a branch: where a search ends is chance, and a processor that guessed
 * wrong takes longer than a few cells more. Behind an empty cell none is before id. */
static struct hr_cell *lower_bound(const struct hr_table *table, struct hr_id128 id)
{
    struct hr_cell *cell = &table->cells[home_of(table, id)];
    unsigned before = 0;
    for (unsigned i = 0; i < GLANCE_CELLS; i++) {
        before += (unsigned)(cell[i].version != 0) & (unsigned)(cell[i].id.hi < id.hi);
    }
    cell += before;
    while (before >= GLANCE_CELLS && is_before(cell, id)) {
        cell++;
    }
    return cell;
}

struct hr_cell *hr_table_find(const struct hr_table *table, struct hr_id128 id)
{
    struct hr_cell *cell = lower_bound(table, id);
    while (cell->version != 0 && cell->id.hi == id.hi) {
        if (cell->id.lo == id.lo) {
            return cell;
        }
        cell++;
    }
    return NULL;
}

struct hr_cell *hr_table_from(const struct hr_table *table, struct hr_cell *cell, uint64_t last)
{
    const struct hr_cell *end = table->cells + hr_table_cell_count(table);
    const struct hr_cell *last_home = &table->cells[home_of(table, (struct hr_id128){last, 0})];
    while (cell < end && cell->version == 0) {
        if (cell >= last_home) {
            return NULL; /* no cell stands behind an empty one that is at or behind its home */
        }
        cell++;
    }
    return cell == end || cell->id.hi > last ? NULL : cell;
}

struct hr_cell *hr_table_seek(const struct hr_table *table, uint64_t first, uint64_t last)
{
    return hr_table_from(table, lower_bound(table, (struct hr_id128){first, 0}), last);
}

void hr_table_prefetch(const struct hr_table *table, struct hr_id128 id)
{
    const char *home = (const char *)&table->cells[home_of(table, id)];
    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + 64, 1);
}

void hr_table_prefetch_all(const struct hr_table *table, struct hr_id128 id)
{
    const char *home = (const char *)&table->cells[home_of(table, id)];
    for (size_t at = 0; at < GLANCE_CELLS * sizeof(struct hr_cell); at += 64) {
        __builtin_prefetch(home + at, 1);
    }
    __builtin_prefetch(home + GLANCE_CELLS * sizeof(struct hr_cell) - 1, 1); /* cells and lines begin apart */
}

static void mark_block_of(struct hr_table *table, const struct hr_cell *cell)
{
    uint64_t block = (uint64_t)(cell - table->cells) / HR_TABLE_BLOCK_CELLS;
    table->dirty[block / 64] |= UINT64_C(1) << (block % 64);
}

void hr_table_mark_dirty(struct hr_table *table, struct hr_cell *cell)
{
    cell->flags |= HR_CELL_DIRTY;
    mark_block_of(table, cell);
}

/* Cells [from, end) have moved, perhaps into another block. */
static void mark_moved(struct hr_table *table, const struct hr_cell *from, const struct hr_cell *end)
{
    for (const struct hr_cell *cell = from; cell < end; cell++) {
        if (cell->flags & HR_CELL_DIRTY) {
            mark_block_of(table, cell);
        }
    }
}

/* The first block from `block` on that may hold a dirty cell; block_count() where there is none. */
static uint64_t next_dirty_block(const struct hr_table *table, uint64_t block)
{
    uint64_t count = block_count(table);
    while (block < count) {
        uint64_t word = table->dirty[block / 64] >> (block % 64);
        if (word != 0) {
            return block + (uint64_t)__builtin_ctzll(word);
        }
        block = (block / 64 + 1) * 64;
    }
    return count;
}

static struct hr_cell *dirty_cell_of(const struct hr_table *table, uint64_t block)
{
    uint64_t cell_count = hr_table_cell_count(table), end = (block + 1) * HR_TABLE_BLOCK_CELLS;
    end = end < cell_count ? end : cell_count;
    for (uint64_t i = block * HR_TABLE_BLOCK_CELLS; i < end; i++) {
        if (table->cells[i].flags & HR_CELL_DIRTY) {
            return &table->cells[i];
        }
    }
    return NULL;
}

/* Blocks whose memory is on its way while one is looked at: each is a miss of the cache. */
#define FETCHED_BLOCKS 8

/* Keeps FETCHED_BLOCKS on their way: one more for each that is looked at; all, where next_dirty begins. */
static void fetch_ahead(struct hr_table *table, uint64_t block)
{
    bool begins = table->dirty_fetched <= block;
    uint64_t count = block_count(table), next = begins ? block : table->dirty_fetched;
    for (int steps = begins ? FETCHED_BLOCKS : 1; steps > 0; steps--) {
        next = next_dirty_block(table, next + 1);
        if (next >= count) {
            return;
        }
        const char *cells = (const char *)&table->cells[next * HR_TABLE_BLOCK_CELLS];
        for (size_t i = 0; i < HR_TABLE_BLOCK_CELLS * sizeof(struct hr_cell); i += 64) {
            __builtin_prefetch(cells + i, 1);
        }
        table->dirty_fetched = next;
    }
}

struct hr_cell *hr_table_next_dirty(struct hr_table *table)
{
    uint64_t count = block_count(table);
    for (int round = 0; round < 2; round++) {
        uint64_t block = next_dirty_block(table, table->dirty_at);
        while (block < count) {
            struct hr_cell *cell = dirty_cell_of(table, block);
            table->dirty_at = block;
            if (cell != NULL) {
                fetch_ahead(table, block);
                return cell;
            }
            table->dirty[block / 64] &= ~(UINT64_C(1) << (block % 64));
            block = next_dirty_block(table, block + 1);
        }
        table->dirty_at = table->dirty_fetched = 0; /* from the front, once */
    }
    return NULL;
}

struct hr_cell *hr_table_insert(struct hr_table *table, struct hr_id128 id, uint16_t version)
{
    struct hr_cell *last = &table->cells[hr_table_cell_count(table) - 1]; /* stays empty: every search ends there */
    struct hr_cell *place = lower_bound(table, id);
    struct hr_cell *end = place;
    while (end->version != 0) {
        end++;
    }
    if (end == last || table->count == table->count_max) {
        return NULL;
    }
    memmove(place + 1, place, (size_t)(end - place) * sizeof(*place));
    *place = (struct hr_cell){.id = id, .version = version};
    mark_moved(table, place + 1, end + 1);
    table->count++;
    return place;
}

void hr_table_erase(struct hr_table *table, struct hr_cell *cell)
{
    struct hr_cell *end = cell + 1;
    while (end->version != 0 && &table->cells[home_of(table, end->id)] < end) {
        end++;
    }
    memmove(cell, cell + 1, (size_t)(end - cell - 1) * sizeof(*cell));
    end[-1] = (struct hr_cell){.version = 0};
    mark_moved(table, cell, end - 1);
    table->count--;
}
