/* Table: the counters of a limiter, by identity, in memory that was handed in.
 *
 * Open addressing with ordered linear probing (Amble and Knuth 1974): cells stand in the order of their identities,
 * each at or behind its home, home being its share of the id's range. So a search ends at the first greater identity,
 * found or not, after about three cells at the fullest; identities are keyed hashes, so nobody can aim two of them at
 * one place. A cell is 48 bytes and at most four of five are in use: 60 bytes a counter, all in.
 *
 * Thread: the caller's. Pure. A pointer to a cell holds until the next insert or erase. */
#ifndef HR_LIMITER_TABLE_H
#define HR_LIMITER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/hash.h"
#include "limiter/algorithm.h"

/* Cells behind the last home, for those that are pushed past it. At four of five in use a run of this length does not
 * come about by chance; were it to, insert says full. */
#define HR_TABLE_TAIL_CELLS 512

struct hr_cell {
    struct hr_id128 id;
    union hr_state state;
    uint16_t version; /* of the limit it belongs to (version.h); 0: the cell is empty */
    uint16_t flags;   /* HR_CELL_... */
    uint32_t reserve; /* of a counter with durability reserved: its reserve (reserve.h); 0: none */
};

#define HR_CELL_DIRTY 1U   /* changed since it was last saved */
#define HR_CELL_STORED 2U  /* a record of it may be in the store */
#define HR_CELL_APPLIED 8U /* came with the copy of a range that is being put in place (range.h) */
#define HR_CELL_MARK 4U    /* which of two refreshes it was last saved in (save.h) */

/* Dirty cells are found by block: a bit for each block that may hold one. Few cells, so that where one here and there
 * is dirty hardly any other is looked at. */
#define HR_TABLE_BLOCK_CELLS 4

struct hr_table {
    struct hr_cell *cells;
    uint64_t home_count; /* homes; the cells are HR_TABLE_TAIL_CELLS more */
    uint64_t first_id;
    uint64_t homes_in_all; /* as many as there would be, so close, over the whole range of ids */
    uint32_t count, count_max;
    uint64_t *dirty;        /* one bit a block, 64 blocks a word */
    uint64_t dirty_at;      /* the block that next_dirty looks at next */
    uint64_t dirty_fetched; /* the last block whose memory it has asked for */
};

/* Of ids, by their first words. */
struct hr_table_range {
    uint64_t first, last;
};

/* Lays the table out for count_max counters; the memory is zero-filled. It is quick where most ids lie in that range,
 * and right wherever they lie. */
void hr_table_init(struct hr_table *table, uint32_t count_max, struct hr_table_range ids, struct hr_bump *bump);

/* The counter's cell, or NULL. */
struct hr_cell *hr_table_find(const struct hr_table *table, struct hr_id128 id);

/* The first cell in use whose id.hi lies in [first, last], and the first such one from a cell on: cells are in the
 * order of their id.hi, with empty ones between. NULL: there is none. O(cells of the range). */
struct hr_cell *hr_table_seek(const struct hr_table *table, uint64_t first, uint64_t last);
struct hr_cell *hr_table_from(const struct hr_table *table, struct hr_cell *cell, uint64_t last);

/* Asks for the cache lines where id would stand, ahead of find: the first of them right before; and all that find
 * looks at, where there is time for them to come. */
void hr_table_prefetch(const struct hr_table *table, struct hr_id128 id);
void hr_table_prefetch_all(const struct hr_table *table, struct hr_id128 id);

/* A zero-filled state under id, which is not in the table. NULL: full. version is not 0. */
struct hr_cell *hr_table_insert(struct hr_table *table, struct hr_id128 id, uint16_t version);

/* Takes a cell out. Cells behind it may move one place towards it: look at the same place again. */
void hr_table_erase(struct hr_table *table, struct hr_cell *cell);

/* Says that the cell's state has changed. */
void hr_table_mark_dirty(struct hr_table *table, struct hr_cell *cell);

/* The next dirty cell, round and round; NULL: there is none. The caller clears its HR_CELL_DIRTY. O(blocks / 64) where
 * few are dirty. */
struct hr_cell *hr_table_next_dirty(struct hr_table *table);

static inline uint64_t hr_table_cell_count(const struct hr_table *table)
{
    return table->home_count + HR_TABLE_TAIL_CELLS;
}

#endif
