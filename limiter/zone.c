#include "limiter/zone.h"

#include <string.h>

#include "base/hash.h"

#define HEADER_BYTES 44
#define TYPE_BYTES 6 /* offset (4), is daylight saving (1), index of the name (1) */

/* What is left to read. Only take moves it. */
struct reader {
    const uint8_t *at;
    size_t left;
};

/* The next bytes, or NULL where there are not as many. */
static const uint8_t *take(struct reader *reader, uint64_t bytes)
{
    if (bytes > reader->left) {
        return NULL;
    }
    const uint8_t *at = reader->at;
    reader->at += bytes;
    reader->left -= (size_t)bytes;
    return at;
}

static uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int64_t load_time(const uint8_t *at, size_t bytes)
{
    if (bytes == 4) {
        return (int32_t)load_u32(at);
    }
    return (int64_t)((uint64_t)load_u32(at) << 32 | load_u32(at + 4));
}

struct header {
    uint8_t version; /* 0 for version 1, else an ASCII digit */
    uint32_t is_ut_count, is_standard_count, leap_count, time_count, type_count, name_bytes;
};

static enum hr_err read_header(struct reader *reader, struct header *ret_header)
{
    const uint8_t *at = take(reader, HEADER_BYTES);
    if (at == NULL) {
        return HR_E_TRUNCATED;
    }
    if (memcmp(at, "TZif", 4) != 0 || (at[4] != 0 && at[4] < '2')) {
        return HR_E_CORRUPT;
    }
    const uint8_t *counts = at + 20; /* behind 15 bytes without a meaning */
    *ret_header = (struct header){
        .version = at[4],
        .is_ut_count = load_u32(counts),
        .is_standard_count = load_u32(counts + 4),
        .leap_count = load_u32(counts + 8),
        .time_count = load_u32(counts + 12),
        .type_count = load_u32(counts + 16),
        .name_bytes = load_u32(counts + 20),
    };
    return HR_OK;
}

/* Names, leap seconds and the two kinds of indicators: behind the times and types, and nothing here needs them. */
static uint64_t tail_bytes(const struct header *header, size_t time_bytes)
{
    return header->name_bytes + (uint64_t)header->leap_count * (time_bytes + 4) + header->is_standard_count +
           header->is_ut_count;
}

static uint64_t block_bytes(const struct header *header, size_t time_bytes)
{
    return (uint64_t)header->time_count * (time_bytes + 1) + (uint64_t)header->type_count * TYPE_BYTES +
           tail_bytes(header, time_bytes);
}

static enum hr_err check_header(const struct header *header)
{
    if (header->time_count > HR_ZONE_TRANSITIONS_MAX || header->type_count > HR_ZONE_TYPES_MAX) {
        return HR_E_TOO_MANY;
    }
    if (header->leap_count != 0) {
        return HR_E_INVALID;
    }
    bool ut_fits = header->is_ut_count == 0 || header->is_ut_count == header->type_count;
    bool standard_fits = header->is_standard_count == 0 || header->is_standard_count == header->type_count;
    return header->type_count > 0 && ut_fits && standard_fits ? HR_OK : HR_E_CORRUPT;
}

static enum hr_err read_offsets(const uint8_t *types, size_t count, int32_t *ret_offsets_s)
{
    for (size_t i = 0; i < count; i++) {
        int32_t offset_s = (int32_t)load_u32(types + i * TYPE_BYTES);
        if (offset_s <= -HR_ZONE_OFFSET_S_MAX || offset_s >= HR_ZONE_OFFSET_S_MAX) {
            return HR_E_CORRUPT;
        }
        ret_offsets_s[i] = offset_s;
    }
    return HR_OK;
}

/* Most files have transitions that change only the name or the daylight flag. They are dropped here, so that every
 * transition kept is one of the offset; but the rule counts from the last in the file. */
static void add_transition(struct hr_zone *zone, int64_t at_s, int32_t offset_s)
{
    size_t count = zone->transition_count;
    int32_t before_s = count == 0 ? zone->first_offset_s : zone->offset_s[count - 1];
    zone->rule_since_s = at_s;
    if (offset_s == before_s) {
        return;
    }
    zone->at_s[count] = at_s;
    zone->offset_s[count] = offset_s;
    zone->transition_count++;
}

static enum hr_err read_block(struct reader *reader, const struct header *header, size_t time_bytes,
                              struct hr_zone *zone)
{
    enum hr_err err = check_header(header);
    if (err != HR_OK) {
        return err;
    }
    if (block_bytes(header, time_bytes) > reader->left) {
        return HR_E_TRUNCATED;
    }
    const uint8_t *times = take(reader, header->time_count * time_bytes);
    const uint8_t *type_of = take(reader, header->time_count);
    const uint8_t *types = take(reader, header->type_count * TYPE_BYTES);
    (void)take(reader, tail_bytes(header, time_bytes));

    int32_t offsets_s[HR_ZONE_TYPES_MAX] = {0};
    err = read_offsets(types, header->type_count, offsets_s);
    if (err != HR_OK) {
        return err;
    }
    zone->first_offset_s = offsets_s[0];
    for (size_t i = 0; i < header->time_count; i++) {
        int64_t at_s = load_time(times + i * time_bytes, time_bytes);
        if (type_of[i] >= header->type_count || (i > 0 && at_s <= zone->rule_since_s)) {
            return HR_E_CORRUPT;
        }
        add_transition(zone, at_s, offsets_s[type_of[i]]);
    }
    return HR_OK;
}

/* A newline, the rule or nothing, a newline, and the end of the file. */
static enum hr_err read_footer(struct reader *reader, struct hr_zone *zone)
{
    const uint8_t *newline = take(reader, 1);
    if (newline == NULL) {
        return HR_E_TRUNCATED;
    }
    if (*newline != '\n') {
        return HR_E_CORRUPT;
    }
    const uint8_t *text = reader->at;
    const uint8_t *end = reader->left == 0 ? NULL : memchr(text, '\n', reader->left);
    if (end == NULL) {
        return HR_E_TRUNCATED;
    }
    size_t bytes = (size_t)(end - text);
    if (bytes + 1 != reader->left) {
        return HR_E_CORRUPT;
    }
    zone->has_rule = bytes > 0;
    return zone->has_rule ? hr_zone_rule_parse((struct hr_span){(const char *)text, bytes}, &zone->rule) : HR_OK;
}

enum hr_err hr_zone_parse(struct hr_span tzif, struct hr_zone *ret_zone)
{
    if (tzif.bytes > HR_ZONE_FILE_BYTES_MAX) {
        return HR_E_TOO_MANY;
    }
    struct reader reader = {(const uint8_t *)tzif.at, tzif.bytes};
    ret_zone->transition_count = 0;
    ret_zone->has_rule = false;
    ret_zone->rule_since_s = INT64_MIN;
    ret_zone->digest = hr_plain_hash(tzif.at, tzif.bytes, 0);

    struct header header;
    enum hr_err err = read_header(&reader, &header);
    if (err == HR_OK && header.version == 0) {
        err = read_block(&reader, &header, 4, ret_zone);
        return err == HR_OK && reader.left > 0 ? HR_E_CORRUPT : err;
    }
    if (err == HR_OK && take(&reader, block_bytes(&header, 4)) == NULL) {
        err = HR_E_TRUNCATED;
    }
    if (err == HR_OK) {
        err = read_header(&reader, &header);
    }
    if (err == HR_OK) {
        err = read_block(&reader, &header, 8, ret_zone);
    }
    return err == HR_OK ? read_footer(&reader, ret_zone) : err;
}

/* How many transitions have happened by then. */
static size_t transitions_until(const struct hr_zone *zone, int64_t at_s)
{
    size_t low = 0, high = zone->transition_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->at_s[middle] <= at_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct hr_zone_offset table_offset_at(const struct hr_zone *zone, int64_t at_s)
{
    size_t past = transitions_until(zone, at_s);
    struct hr_zone_offset offset = {zone->first_offset_s, INT64_MIN, INT64_MAX};
    if (past > 0) {
        offset.offset_s = zone->offset_s[past - 1];
        offset.since_s = zone->at_s[past - 1];
    }
    if (past < zone->transition_count) {
        offset.until_s = zone->at_s[past];
    } else if (zone->has_rule) {
        offset.until_s = zone->rule_since_s;
    }
    return offset;
}

struct hr_zone_offset hr_zone_offset_at(const struct hr_zone *zone, int64_t at_s)
{
    if (zone == NULL) {
        return (struct hr_zone_offset){0, INT64_MIN, INT64_MAX};
    }
    if (!zone->has_rule || at_s < zone->rule_since_s) {
        return table_offset_at(zone, at_s);
    }
    struct hr_zone_offset offset = hr_zone_rule_offset_at(&zone->rule, at_s);
    if (offset.since_s < zone->rule_since_s) {
        offset.since_s = zone->rule_since_s;
    }
    return offset;
}
