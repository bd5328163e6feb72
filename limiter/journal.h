/* Journal: buckets that have changed, with what they have come to, noted while the counter is at hand.
 *
 * Whoever saves a changed counter would have to fetch its memory once more, which for one of millions costs more than
 * the decision did. So a bucket that is charged leaves a copy of its state here, in the order in which they come, and
 * is found here again where it changes again before the copy was taken out. Other counters, and buckets for which there
 * is no room, are marked in the table instead (hr_table_mark_dirty).
 *
 * A counter knows its place by number and round; the copy's id has the last word, so what stands in the counter's
 * memory for other reasons can do no harm.
 *
 * Thread: the limiter's. Pure. Memory: handed in. */
#ifndef HR_LIMITER_JOURNAL_H
#define HR_LIMITER_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "limiter/table.h"

/* Places: one for so many counters, but no fewer than one number and no more than the other. */
#define HR_JOURNAL_COUNTERS_PER_PLACE 16U
#define HR_JOURNAL_PLACES_MIN 16384U
#define HR_JOURNAL_PLACES_MAX 131072U

struct hr_noted {
    struct hr_id128 id;
    struct hr_gcra gcra;
    uint16_t version; /* 0: not to be saved any more */
};

struct hr_journal {
    struct hr_noted *noted; /* [taken, count) are to be taken out */
    uint32_t taken, count, count_max;
    uint32_t round; /* goes up when all have been taken out, and begins at 1 */
};

/* Lays it out for a table of so many counters; 0: one without room. */
void hr_journal_init(struct hr_journal *journal, uint32_t counters_max, struct hr_bump *bump);

/* The cell's copy, if there is one that was not taken out. */
static inline struct hr_noted *hr_journal_find(const struct hr_journal *journal, const struct hr_cell *cell)
{
    const struct hr_bucket *bucket = &cell->state.bucket;
    bool is_there =
        bucket->round == journal->round && bucket->place >= journal->taken && bucket->place < journal->count;
    struct hr_noted *noted = is_there ? &journal->noted[bucket->place] : NULL;
    return noted != NULL && hr_id128_equal(noted->id, cell->id) ? noted : NULL;
}

/* Notes what a bucket's cell holds. False: there is no room. */
static inline bool hr_journal_note(struct hr_journal *journal, struct hr_cell *cell)
{
    struct hr_noted *noted = hr_journal_find(journal, cell);
    if (noted == NULL) {
        if (journal->count == journal->count_max) {
            return false;
        }
        cell->state.bucket.place = journal->count;
        cell->state.bucket.round = journal->round;
        noted = &journal->noted[journal->count++];
        noted->id = cell->id;
    }
    /* Word by word, as they were just written: a load of both at once would wait until they are in the cache. */
    noted->gcra.arrival.hi = cell->state.bucket.gcra.arrival.hi;
    noted->gcra.arrival.lo = cell->state.bucket.gcra.arrival.lo;
    noted->version = cell->version;
    return true;
}

/* Asks for the memory of the cell's copy, if there may be one, ahead of a note. A state that is no bucket's may say
 * anything here. */
static inline void hr_journal_prefetch(const struct hr_journal *journal, const struct hr_cell *cell)
{
    const struct hr_bucket *bucket = &cell->state.bucket;
    if (bucket->round == journal->round && bucket->place < journal->count) {
        __builtin_prefetch(&journal->noted[bucket->place], 1);
    }
}

/* Should it be emptied soon, though not all of the interval has passed? */
static inline bool hr_journal_is_filling(const struct hr_journal *journal)
{
    return journal->count > journal->count_max / 2;
}

/* The next copy that is to be saved; NULL: there is none. It holds until the next is noted. */
struct hr_noted *hr_journal_next(struct hr_journal *journal);

/* Puts the one back that came last. */
static inline void hr_journal_put_back(struct hr_journal *journal)
{
    journal->taken--;
}

#endif
