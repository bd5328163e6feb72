/* Cap wire: the bytes of a letter about global caps (HR_LETTER_CAPS), version 3. Little-endian.
 *
 *   version 1, flags 1, incarnation 8, known 8, stamp 8, echo 8, number 4, heard 4, heard_bits 8, session 4, lapsed 4,
 *   epoch 4, low 4, count 2: 68 bytes; then `count` records: key 8, flags 1, where the record introduces its counter
 * the other half of the identity 8 and the limit 4, and numbers of as many bytes as they need (LEB128: seven bits in
 * each byte, the low ones first, the top bit says that more follow; at most ten, no zeros in front); of those amounts
 * of units as sixteen times what is left of them without the zeros at their end, in hexadecimal, and how many zeros
 *
 * The key is a half of the counter's identity: a keyed hash, of which two hot counters have the same half once in 2^64
 * pairs. A letter is read whole or not at all. Thread: the caller's. Pure. Memory: borrowed. */
#ifndef HR_REGION_CAP_WIRE_H
#define HR_REGION_CAP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "region/cap_link.h"
#include "region/cover.h"
#include "region/lend.h"
#include "storage/le.h"

#define HR_CAP_HEADER_BYTES 68U
#define HR_CAP_RECORD_BYTES_MAX 128U
#define HR_CAP_RECORDS_MAX 1024U
#define HR_CAP_LETTER_BYTES_MAX (HR_CAP_HEADER_BYTES + HR_CAP_RECORDS_MAX * HR_CAP_RECORD_BYTES_MAX)

struct hr_cap_record {
    struct hr_id128 id; /* lo and limit: 0 where it does not introduce */
    uint32_t limit;
    bool introduces;
    bool is_cover;
    union {
        struct hr_lend_record lend;
        struct hr_cover_record cover;
    };
};

/* A letter being written: the header first, then records one by one. */
struct hr_cap_writer {
    struct hr_le_writer bytes;
    uint32_t count;
};

/* Requires: memory holds HR_CAP_LETTER_BYTES_MAX bytes. */
void hr_cap_write_header(struct hr_cap_writer *writer, uint8_t *memory, const struct hr_cap_header *header);

/* Requires: fewer than HR_CAP_RECORDS_MAX are in it. */
void hr_cap_write_record(struct hr_cap_writer *writer, const struct hr_cap_record *record);

/* The whole letter. */
struct hr_span hr_cap_write_end(struct hr_cap_writer *writer);

struct hr_cap_reader {
    struct hr_le_reader bytes;
    uint32_t left;
};

/* HR_E_TRUNCATED, HR_E_CORRUPT (another version, unknown flags, a number out of range, bytes left over), HR_E_TOO_MANY.
 */
HR_MUST enum hr_err hr_cap_read_header(struct hr_span letter, struct hr_cap_reader *ret_reader,
                                       struct hr_cap_header *ret_header);

/* The next record; false: there is none. Requires: the reader came from a header that was read. */
bool hr_cap_read_record(struct hr_cap_reader *reader, struct hr_cap_record *ret_record);

#endif
