#include "storage/segment.h"

#include <assert.h>

#define TAG_RULE 0x10
#define TAG_FORGOTTEN 0x20
#define TAG_ENTRIES 0x40
#define TAG_DEBT 0x60
#define SLOT_MASK (HR_SEGMENT_RULES_MAX - 1)

#define ID_KEY_BYTES 17 /* kind, id */
#define VARINT_BYTES_MAX 10

static_assert(HR_SEGMENT_COUNTER_BYTES_MAX >= (1 + 16 + 1 + 2 * VARINT_BYTES_MAX) +
                                                  (1 + 16 + 4 * VARINT_BYTES_MAX + 1) +
                                                  HR_IMAGE_ENTRIES_MAX * (VARINT_BYTES_MAX + 5),
              "a rule, a counter and its entries");
static_assert(HR_SEGMENT_COUNTER_BYTES_MAX >= 8 + (1 + 16 + 1 + 2 * VARINT_BYTES_MAX) + HR_DEBTS_MAX * (1 + 16 + 8),
              "the head, a rule and some debts");

/* --- keys --- */

struct hr_store_key hr_segment_key(uint64_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

enum hr_err hr_segment_number(struct hr_span key, uint64_t *ret_number)
{
    if (key.bytes != ID_KEY_BYTES || (uint8_t)key.at[0] != HR_RECORD_COUNTER) {
        return HR_E_CORRUPT;
    }
    uint64_t high = 0, low = 0; /* big-endian (record.h) */
    for (size_t i = 0; i < 8; i++) {
        high = high << 8 | (uint8_t)key.at[1 + i];
        low = low << 8 | (uint8_t)key.at[9 + i];
    }
    if (high != 0) {
        return HR_E_CORRUPT;
    }
    *ret_number = low;
    return HR_OK;
}

/* --- writing --- */

void hr_segment_clear(struct hr_segment_writer *writer, uint8_t *memory)
{
    writer->at = memory;
    writer->used = 0;
    writer->rule_count = writer->slot = 0;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    for (size_t i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
    return at + 8;
}

static uint8_t *put_id(uint8_t *at, struct hr_id128 id)
{
    return put_u64(put_u64(at, id.hi), id.lo);
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *begin(struct hr_segment_writer *writer, hr_ns saved_at)
{
    uint8_t *at = writer->at + writer->used;
    return writer->used == 0 ? put_u64(at, (uint64_t)saved_at) : at;
}

static bool is_rule_of(const struct hr_segment_rule *rule, const struct hr_counter_image *image)
{
    return hr_id128_equal(rule->limit, image->limit) && rule->algorithm == image->algorithm &&
           rule->rate == image->rate && rule->period_ns == image->period_ns;
}

/* Turns to the image's rule, which as a rule is the one before's; files it where it is new, over the oldest. */
static uint8_t *put_rule(struct hr_segment_writer *writer, uint8_t *at, const struct hr_counter_image *image)
{
    uint32_t filed = writer->rule_count < HR_SEGMENT_RULES_MAX ? writer->rule_count : HR_SEGMENT_RULES_MAX;
    for (uint32_t i = 0; i < filed; i++, writer->slot = (writer->slot + 1) % filed) {
        if (is_rule_of(&writer->rules[writer->slot], image)) {
            return at;
        }
    }
    writer->slot = writer->rule_count++ & SLOT_MASK;
    writer->rules[writer->slot] =
        (struct hr_segment_rule){image->limit, image->algorithm, image->rate, image->period_ns};
    *at++ = (uint8_t)(TAG_RULE | writer->slot);
    at = put_id(at, image->limit);
    *at++ = image->algorithm;
    return put_varint(put_varint(at, image->rate), image->period_ns);
}

static uint8_t *put_entries(uint8_t *at, const struct hr_counter_image *image)
{
    *at++ = (uint8_t)image->entry_count;
    for (uint32_t i = 0; i < image->entry_count; i++) {
        at = put_varint(put_varint(at, image->entries[i].age_ns), image->entries[i].cost);
    }
    return at;
}

void hr_segment_put(struct hr_segment_writer *writer, const struct hr_counter_image *image)
{
    uint8_t *at = put_rule(writer, begin(writer, image->saved_at), image);
    *at++ = (uint8_t)(writer->slot | (image->entry_count > 0 ? TAG_ENTRIES : 0));
    at = put_varint(put_id(at, image->id), image->ahead);
    for (size_t i = 0; i < 3; i++) {
        at = put_varint(at, image->words[i]);
    }
    if (image->entry_count > 0) {
        at = put_entries(at, image);
    }
    writer->used = (size_t)(at - writer->at);
}

void hr_segment_put_debts(struct hr_segment_writer *writer, const struct hr_counter_image *shared,
                          const struct hr_debt *debts, uint32_t count)
{
    uint8_t *at = put_rule(writer, begin(writer, shared->saved_at), shared);
    uint8_t tag = (uint8_t)(writer->slot | TAG_DEBT);
    for (uint32_t i = 0; i < count; i++) {
        *at = tag;
        at = put_u64(put_id(at + 1, debts[i].id), debts[i].debt);
    }
    writer->used = (size_t)(at - writer->at);
}

void hr_segment_forget(struct hr_segment_writer *writer, struct hr_id128 counter, hr_ns now)
{
    uint8_t *at = begin(writer, now);
    *at++ = TAG_FORGOTTEN;
    writer->used = (size_t)(put_id(at, counter) - writer->at);
}

/* --- reading --- */

static uint64_t read_varint(struct hr_le_reader *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = hr_le_read_u8(in);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            in->failed |= shift == 63 && byte > 1; /* more than 64 bits */
            return value;
        }
    }
    in->failed = true;
    return 0;
}

enum hr_err hr_segment_open(const struct hr_record *record, struct hr_segment_reader *ret_reader)
{
    uint64_t number;
    enum hr_err err = hr_segment_number(record->key, &number);
    if (err != HR_OK || record->kind != HR_RECORD_COUNTER) {
        return HR_E_CORRUPT;
    }
    ret_reader->in = hr_le_reader_of(record->payload);
    ret_reader->filed = 0;
    ret_reader->saved_at = hr_le_read_i64(&ret_reader->in);
    bool is_instant = ret_reader->saved_at >= 0 && ret_reader->saved_at <= HR_TIME_NS_MAX;
    return ret_reader->in.failed || !is_instant ? HR_E_CORRUPT : HR_OK;
}

static void read_rule(struct hr_segment_reader *reader, uint32_t slot)
{
    struct hr_segment_rule *rule = &reader->rules[slot];
    rule->limit = hr_le_read_id(&reader->in);
    rule->algorithm = hr_le_read_u8(&reader->in);
    rule->rate = read_varint(&reader->in);
    rule->period_ns = read_varint(&reader->in);
    reader->filed |= 1U << slot;
}

static void read_entries(struct hr_le_reader *in, struct hr_counter_image *image)
{
    uint32_t count = hr_le_read_u8(in);
    in->failed |= count > HR_IMAGE_ENTRIES_MAX;
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        image->entries[i].age_ns = read_varint(in);
        uint64_t cost = read_varint(in);
        in->failed |= cost > UINT32_MAX;
        image->entries[i].cost = (uint32_t)cost;
    }
    image->entry_count = in->failed ? 0 : count;
}

static void read_numbers(struct hr_le_reader *in, struct hr_counter_image *image)
{
    image->ahead = read_varint(in);
    for (size_t i = 0; i < 3; i++) {
        image->words[i] = read_varint(in);
    }
}

static void read_debt(struct hr_le_reader *in, struct hr_counter_image *image)
{
    image->ahead = image->words[0] = image->words[2] = 0;
    image->words[1] = hr_le_read_u64(in);
}

static void read_counter(struct hr_segment_reader *reader, uint8_t tag, struct hr_counter_image *image)
{
    struct hr_le_reader *in = &reader->in;
    const struct hr_segment_rule *rule = &reader->rules[tag & SLOT_MASK];
    in->failed |= (reader->filed & (1U << (tag & SLOT_MASK))) == 0;
    if (in->failed) {
        return;
    }
    image->limit = rule->limit;
    image->algorithm = rule->algorithm;
    image->rate = rule->rate;
    image->period_ns = rule->period_ns;
    image->saved_at = reader->saved_at;
    image->id = hr_le_read_id(in);
    image->entry_count = 0;
    if ((tag & ~SLOT_MASK) == TAG_DEBT) {
        read_debt(in, image);
        return;
    }
    read_numbers(in, image);
    if (tag & TAG_ENTRIES) {
        read_entries(in, image);
    }
}

enum hr_err hr_segment_next(struct hr_segment_reader *reader, struct hr_counter_image *ret_image,
                            bool *ret_is_forgotten)
{
    struct hr_le_reader *in = &reader->in;
    while (!in->failed && in->used < in->bytes) {
        uint8_t tag = hr_le_read_u8(in), what = (uint8_t)(tag & ~SLOT_MASK);
        if (what == TAG_RULE) {
            read_rule(reader, tag & SLOT_MASK);
            continue;
        }
        *ret_is_forgotten = tag == TAG_FORGOTTEN;
        if (tag == TAG_FORGOTTEN) {
            ret_image->id = hr_le_read_id(in);
        } else if (what == 0 || what == TAG_ENTRIES || what == TAG_DEBT) {
            read_counter(reader, tag, ret_image);
        } else {
            in->failed = true;
        }
        return in->failed ? HR_E_CORRUPT : HR_OK;
    }
    return in->failed ? HR_E_CORRUPT : HR_E_NOT_FOUND;
}
