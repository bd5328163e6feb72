/* Segment: what many counters have come to, in one record.
 *
 * Counters are kept as a log: each segment has a number, later ones overrule earlier ones, and a counter's state is
 * what the last segment that names it says. A record for each counter would cost a page of the store for each that
 * changed; a segment costs what its bytes do. The payload, integers little-endian, "varint" seven bits a byte, the
 * lowest first:
 *
 *     saved at i64, then any number of
 *     10 to 1f  a rule, filed under the low four bits of this byte for what comes behind it: limit 16, algorithm u8,
 *               rate varint, period varint
 *     00 to 0f  a counter under the rule that is filed there: id 16, ahead varint, three words varint
 *     40 to 4f  the same, and entries of a sliding log: count u8, for each age varint, cost varint
 *     60 to 6f  a bucket whose debt is one word, and ahead nothing: id 16, debt u64
 *     20        a counter that was forgotten: id 16
 *
 * Reader and writer stand side by side. Thread: the caller's. Pure. Memory: the caller's. */
#ifndef HR_STORAGE_SEGMENT_H
#define HR_STORAGE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "limiter/image.h"
#include "limiter/save.h"
#include "storage/batch.h"
#include "storage/le.h"
#include "storage/record.h"

/* With its record's head, and that of LMDB in front of a value that has pages of its own, just 16 pages. */
#define HR_SEGMENT_BYTES_MAX (65536 - 16 - HR_RECORD_HEAD_BYTES)

/* Rules at a time: a power of two. */
#define HR_SEGMENT_RULES_MAX 16

/* What one counter may add at most: with its rule, and 32 entries. */
#define HR_SEGMENT_COUNTER_BYTES_MAX 608
#define HR_SEGMENT_COUNTER_BYTES_MIN 20

struct hr_segment_rule {
    struct hr_id128 limit;
    uint8_t algorithm;
    uint64_t rate, period_ns;
};

struct hr_segment_writer {
    uint8_t *at;               /* HR_SEGMENT_BYTES_MAX of room, borrowed */
    size_t used;               /* 0: nothing has been written */
    uint32_t rule_count, slot; /* rules written so far; the one that was used last */
    struct hr_segment_rule rules[HR_SEGMENT_RULES_MAX];
};

/* The key of the segment of this number: segments load in the order of their numbers. */
struct hr_store_key hr_segment_key(uint64_t number);

/* HR_E_CORRUPT: it is no segment's key. */
HR_MUST enum hr_err hr_segment_number(struct hr_span key, uint64_t *ret_number);

/* Makes the writer empty. */
void hr_segment_clear(struct hr_segment_writer *writer, uint8_t *memory);

/* Room for one more of either? */
static inline bool hr_segment_has_room(const struct hr_segment_writer *writer)
{
    return writer->used + HR_SEGMENT_COUNTER_BYTES_MAX <= HR_SEGMENT_BYTES_MAX;
}

/* Require room. All images of a segment were saved at one time: saved_at of the first counts, and that of the rest is
 * the same or it is not put here. */
void hr_segment_put(struct hr_segment_writer *writer, const struct hr_counter_image *image);
/* Buckets, as many as hr_limiter_next_debts gives at a time: together they take no more room than one counter may. */
void hr_segment_put_debts(struct hr_segment_writer *writer, const struct hr_counter_image *shared,
                          const struct hr_debt *debts, uint32_t count);
void hr_segment_forget(struct hr_segment_writer *writer, struct hr_id128 counter, hr_ns now);

struct hr_segment_reader {
    struct hr_le_reader in;
    hr_ns saved_at;
    uint32_t filed; /* a bit for each rule that there is */
    struct hr_segment_rule rules[HR_SEGMENT_RULES_MAX];
};

/* HR_E_CORRUPT: it is no segment. */
HR_MUST enum hr_err hr_segment_open(const struct hr_record *record, struct hr_segment_reader *ret_reader);

/* The next counter, or the id alone of one that was forgotten. What the numbers mean is the limiter's to check.
 * HR_E_NOT_FOUND: that was the last. HR_E_CORRUPT: it makes no sense from here on. */
HR_MUST enum hr_err hr_segment_next(struct hr_segment_reader *reader, struct hr_counter_image *ret_image,
                                    bool *ret_is_forgotten);

#endif
