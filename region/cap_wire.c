#include "region/cap_wire.h"

#define VERSION 3U
#define COUNT_AT (HR_CAP_HEADER_BYTES - 2)

enum { HEADER_SETTLED = 1, HEADER_SOLE = 2, HEADER_WANTED = 4, HEADER_LACKS = 8, HEADER_FLAGS = 15 };
/* Of a record: what it is, and then what it has. */
enum { RECORD_COVER = 1, RECORD_INTRODUCES = 2, RECORD_FLAGS = 3 };
enum { LEND_ASKS = 4, LEND_GRANT = 8, LEND_ANSWER = 16, LEND_FULL = 32, LEND_WANTS = 64, LEND_FLAGS = 124 };
enum { COVER_DOWN = 4, COVER_ASKS = 8, COVER_FLAGS = 12 };

/* No number between regions is greater: whoever adds a few of them up stays within 63 bits. */
#define NUMBER_MAX (INT64_C(1) << 58)

static void write_number(struct hr_le_writer *writer, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        hr_le_write_u8(writer, (uint8_t)(number | 0x80));
    }
    hr_le_write_u8(writer, (uint8_t)number);
}

static uint64_t read_number(struct hr_le_reader *reader)
{
    uint64_t number = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        uint8_t byte = hr_le_read_u8(reader);
        bool is_too_great = shift == 63 && byte > 1;
        bool is_padded = shift > 0 && byte == 0;
        if (is_too_great || is_padded) {
            reader->failed = true;
            return 0;
        }
        number |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return number;
        }
    }
    reader->failed = true;
    return 0;
}

/* Amounts are round mostly (region/lend.h): the zeros at their end are counted, four at a time. The first byte has that
 * count and the lowest three bits of what is left. */
static void write_sum(struct hr_le_writer *writer, uint64_t sum)
{
    uint8_t zeros = 0;
    while (sum != 0 && sum % 16 == 0) {
        sum /= 16;
        zeros++;
    }
    uint64_t rest = sum >> 3;
    hr_le_write_u8(writer, (uint8_t)((rest != 0 ? 0x80 : 0) | (sum & 7) << 4 | zeros));
    if (rest != 0) {
        write_number(writer, rest);
    }
}

static uint64_t read_sum(struct hr_le_reader *reader)
{
    uint8_t first = hr_le_read_u8(reader), zeros = first & 15;
    uint64_t rest = (first & 0x80) != 0 ? read_number(reader) : 0, sum = rest << 3 | (first >> 4 & 7);
    bool is_padded = ((first & 0x80) != 0 && rest == 0) || (sum % 16 == 0 && (sum != 0 || zeros != 0));
    if (is_padded || rest > UINT64_MAX >> 3 || sum > UINT64_MAX >> 4 * zeros) {
        reader->failed = true;
        return 0;
    }
    return sum << 4 * zeros;
}

static void write_amount(struct hr_le_writer *writer, int64_t amount)
{
    write_sum(writer, (uint64_t)amount);
}

static int64_t read_amount(struct hr_le_reader *reader)
{
    uint64_t sum = read_sum(reader);
    if (sum > (uint64_t)NUMBER_MAX) {
        reader->failed = true;
        return 0;
    }
    return (int64_t)sum;
}

static uint32_t read_u32(struct hr_le_reader *reader)
{
    uint64_t number = read_number(reader);
    reader->failed |= number > UINT32_MAX;
    return (uint32_t)number;
}

/* Signed numbers as even and odd ones. */
static void write_signed(struct hr_le_writer *writer, int64_t number)
{
    write_number(writer, number < 0 ? (uint64_t)(-(number + 1)) * 2 + 1 : (uint64_t)number * 2);
}

static int64_t read_signed(struct hr_le_reader *reader)
{
    uint64_t number = read_number(reader);
    if (number / 2 > (uint64_t)NUMBER_MAX) {
        reader->failed = true;
        return 0;
    }
    return number % 2 == 0 ? (int64_t)(number / 2) : -(int64_t)(number / 2) - 1;
}

void hr_cap_write_header(struct hr_cap_writer *writer, uint8_t *memory, const struct hr_cap_header *header)
{
    writer->bytes = hr_le_writer_of(memory, HR_CAP_LETTER_BYTES_MAX);
    writer->count = 0;
    struct hr_le_writer *out = &writer->bytes;
    hr_le_write_u8(out, VERSION);
    hr_le_write_u8(out, (uint8_t)((header->is_settled ? HEADER_SETTLED : 0) | (header->is_sole ? HEADER_SOLE : 0) |
                                  (header->is_wanted ? HEADER_WANTED : 0) | (header->lacks ? HEADER_LACKS : 0)));
    hr_le_write_u64(out, header->incarnation);
    hr_le_write_u64(out, header->known);
    hr_le_write_i64(out, header->stamp);
    hr_le_write_i64(out, header->echo);
    hr_le_write_u32(out, header->number);
    hr_le_write_u32(out, header->heard);
    hr_le_write_u64(out, header->heard_bits);
    hr_le_write_u32(out, header->session);
    hr_le_write_u32(out, header->lapsed);
    hr_le_write_u32(out, header->epoch);
    hr_le_write_u32(out, header->low);
    hr_le_write_u16(out, 0); /* how many records: known at the end */
}

static void write_lend(struct hr_le_writer *out, const struct hr_lend_record *record)
{
    write_amount(out, record->demand);
    if (record->has_grant) {
        const struct hr_lend_grant *grant = &record->grant;
        write_number(out, grant->number);
        write_amount(out, grant->rate);
        write_amount(out, grant->depth);
        write_amount(out, grant->tokens);
        write_sum(out, grant->parcels);
        write_amount(out, (int64_t)(grant->parcels - grant->parcels_known));
    }
    if (record->has_answer) {
        const struct hr_lend_answer *answer = &record->answer;
        write_number(out, answer->session);
        write_number(out, answer->number);
        write_amount(out, answer->rate);
        write_amount(out, answer->depth);
        write_amount(out, answer->tokens);
        write_sum(out, answer->parcels);
    }
}

static void read_lend(struct hr_le_reader *in, uint8_t flags, struct hr_lend_record *record)
{
    *record = (struct hr_lend_record){
        .asks = (flags & LEND_ASKS) != 0,
        .has_grant = (flags & LEND_GRANT) != 0,
        .has_answer = (flags & LEND_ANSWER) != 0,
        .is_full = (flags & LEND_FULL) != 0,
    };
    in->failed |= (flags & ~(RECORD_FLAGS | LEND_FLAGS)) != 0 || (flags & (LEND_GRANT | LEND_WANTS)) == LEND_WANTS;
    record->demand = read_amount(in);
    if (record->has_grant) {
        struct hr_lend_grant *grant = &record->grant;
        grant->number = read_u32(in);
        grant->rate = read_amount(in);
        grant->depth = read_amount(in);
        grant->tokens = read_amount(in);
        grant->parcels = read_sum(in);
        grant->parcels_known = grant->parcels - (uint64_t)read_amount(in);
        grant->wants_answer = (flags & LEND_WANTS) != 0;
    }
    if (record->has_answer) {
        struct hr_lend_answer *answer = &record->answer;
        answer->session = read_u32(in);
        answer->number = read_u32(in);
        answer->rate = read_amount(in);
        answer->depth = read_amount(in);
        answer->tokens = read_amount(in);
        answer->parcels = read_sum(in);
    }
}

static void write_cover(struct hr_le_writer *out, const struct hr_cover_record *record)
{
    write_signed(out, record->label);
    write_number(out, record->life);
    write_number(out, record->known_life);
    write_amount(out, record->demand);
    write_signed(out, record->spare);
    write_amount(out, record->out);
    write_amount(out, record->received);
    write_number(out, record->epoch);
    write_number(out, record->low);
}

static void read_cover(struct hr_le_reader *in, uint8_t flags, struct hr_cover_record *record)
{
    *record = (struct hr_cover_record){
        .is_down = (flags & COVER_DOWN) != 0,
        .asks = (flags & COVER_ASKS) != 0,
    };
    in->failed |= (flags & ~(RECORD_FLAGS | COVER_FLAGS)) != 0;
    record->label = read_signed(in);
    record->life = read_number(in);
    record->known_life = read_number(in);
    record->demand = read_amount(in);
    record->spare = read_signed(in);
    record->out = read_amount(in);
    record->received = read_amount(in);
    record->epoch = read_u32(in);
    record->low = read_u32(in);
}

static uint8_t flags_of(const struct hr_cap_record *record)
{
    uint32_t flags = (record->is_cover ? RECORD_COVER : 0U) | (record->introduces ? RECORD_INTRODUCES : 0U);
    if (record->is_cover) {
        flags |= (record->cover.is_down ? COVER_DOWN : 0U) | (record->cover.asks ? COVER_ASKS : 0U);
    } else {
        flags |= (record->lend.asks ? LEND_ASKS : 0U) | (record->lend.has_grant ? LEND_GRANT : 0U) |
                 (record->lend.has_answer ? LEND_ANSWER : 0U) | (record->lend.is_full ? LEND_FULL : 0U) |
                 (record->lend.has_grant && record->lend.grant.wants_answer ? LEND_WANTS : 0U);
    }
    return (uint8_t)flags;
}

void hr_cap_write_record(struct hr_cap_writer *writer, const struct hr_cap_record *record)
{
    struct hr_le_writer *out = &writer->bytes;
    hr_le_write_u64(out, record->id.hi);
    hr_le_write_u8(out, flags_of(record));
    if (record->introduces) {
        hr_le_write_u64(out, record->id.lo);
        hr_le_write_u32(out, record->limit);
    }
    if (record->is_cover) {
        write_cover(out, &record->cover);
    } else {
        write_lend(out, &record->lend);
    }
    writer->count++;
}

struct hr_span hr_cap_write_end(struct hr_cap_writer *writer)
{
    struct hr_le_writer count = hr_le_writer_of(writer->bytes.at + COUNT_AT, 2);
    hr_le_write_u16(&count, (uint16_t)writer->count);
    return (struct hr_span){(const char *)writer->bytes.at, writer->bytes.used};
}

static void read_record(struct hr_le_reader *in, struct hr_cap_record *record)
{
    *record = (struct hr_cap_record){.id = {hr_le_read_u64(in), 0}};
    uint8_t flags = hr_le_read_u8(in);
    record->is_cover = (flags & RECORD_COVER) != 0;
    record->introduces = (flags & RECORD_INTRODUCES) != 0;
    if (record->introduces) {
        record->id.lo = hr_le_read_u64(in);
        record->limit = hr_le_read_u32(in);
    }
    if (record->is_cover) {
        read_cover(in, flags, &record->cover);
    } else {
        read_lend(in, flags, &record->lend);
    }
}

static bool is_in_range(const struct hr_cap_header *header)
{
    return header->incarnation != 0 && header->number != 0 && header->session != 0 && header->stamp >= 0 &&
           header->stamp <= HR_TIME_NS_MAX && header->echo >= HR_CAP_LONG_AGO && header->echo <= HR_TIME_NS_MAX;
}

static void read_fields(struct hr_le_reader *in, struct hr_cap_header *header)
{
    header->incarnation = hr_le_read_u64(in);
    header->known = hr_le_read_u64(in);
    header->stamp = hr_le_read_i64(in);
    header->echo = hr_le_read_i64(in);
    header->number = hr_le_read_u32(in);
    header->heard = hr_le_read_u32(in);
    header->heard_bits = hr_le_read_u64(in);
    header->session = hr_le_read_u32(in);
    header->lapsed = hr_le_read_u32(in);
    header->epoch = hr_le_read_u32(in);
    header->low = hr_le_read_u32(in);
}

/* Are there `count` records, and nothing after them? */
static enum hr_err check_records(struct hr_le_reader in, uint32_t count)
{
    struct hr_cap_record record;
    for (uint32_t i = 0; i < count && !in.failed; i++) {
        read_record(&in, &record);
    }
    if (in.failed) {
        return in.used == in.bytes ? HR_E_TRUNCATED : HR_E_CORRUPT;
    }
    return hr_le_is_at_end(&in) ? HR_OK : HR_E_CORRUPT;
}

enum hr_err hr_cap_read_header(struct hr_span letter, struct hr_cap_reader *ret_reader,
                               struct hr_cap_header *ret_header)
{
    struct hr_le_reader in = hr_le_reader_of(letter);
    struct hr_cap_header header = {0};
    if (letter.bytes < HR_CAP_HEADER_BYTES) {
        return HR_E_TRUNCATED;
    }
    uint8_t version = hr_le_read_u8(&in), flags = hr_le_read_u8(&in);
    read_fields(&in, &header);
    uint32_t count = hr_le_read_u16(&in);
    header.is_settled = (flags & HEADER_SETTLED) != 0;
    header.is_sole = (flags & HEADER_SOLE) != 0;
    header.is_wanted = (flags & HEADER_WANTED) != 0;
    header.lacks = (flags & HEADER_LACKS) != 0;
    if (version != VERSION || (flags & ~HEADER_FLAGS) != 0 || !is_in_range(&header)) {
        return HR_E_CORRUPT;
    }
    if (count > HR_CAP_RECORDS_MAX) {
        return HR_E_TOO_MANY;
    }
    enum hr_err err = check_records(in, count);
    if (err == HR_OK) {
        *ret_reader = (struct hr_cap_reader){in, count};
        *ret_header = header;
    }
    return err;
}

bool hr_cap_read_record(struct hr_cap_reader *reader, struct hr_cap_record *ret_record)
{
    if (reader->left == 0) {
        return false;
    }
    reader->left--;
    read_record(&reader->bytes, ret_record);
    return true;
}
