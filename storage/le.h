/* Little-endian: a bounded writer and reader of fixed-width integers, the same bytes on every machine.
 *
 * Both stop at the end of their memory and remember that they had to (`failed`), so that a codec checks once, at its
 * end; what is read after that is zero. Thread: the caller's. Pure. Memory: borrowed. */
#ifndef HR_STORAGE_LE_H
#define HR_STORAGE_LE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/span.h"

struct hr_le_writer {
    uint8_t *at;
    size_t bytes_max, used;
    bool failed;
};

struct hr_le_reader {
    const char *at;
    size_t bytes, used;
    bool failed;
};

static inline struct hr_le_writer hr_le_writer_of(uint8_t *memory, size_t bytes_max)
{
    return (struct hr_le_writer){memory, bytes_max, 0, false};
}

static inline struct hr_le_reader hr_le_reader_of(struct hr_span span)
{
    return (struct hr_le_reader){span.at, span.bytes, 0, false};
}

/* Was everything read, and nothing missing? */
static inline bool hr_le_is_at_end(const struct hr_le_reader *reader)
{
    return !reader->failed && reader->used == reader->bytes;
}

static inline void hr_le_write_bytes(struct hr_le_writer *writer, const void *data, size_t bytes)
{
    if (writer->failed || bytes > writer->bytes_max - writer->used) {
        writer->failed = true;
        return;
    }
    if (bytes > 0) {
        memcpy(writer->at + writer->used, data, bytes);
        writer->used += bytes;
    }
}

/* The next bytes, where they lie; an empty span where there are not as many. */
static inline struct hr_span hr_le_read_bytes(struct hr_le_reader *reader, size_t bytes)
{
    if (reader->failed || bytes > reader->bytes - reader->used) {
        reader->failed = true;
        return (struct hr_span){"", 0};
    }
    struct hr_span span = {reader->at + reader->used, bytes};
    reader->used += bytes;
    return span;
}

/* The low `bytes` bytes of value, 1 to 8. */
static inline void hr_le_write_uint(struct hr_le_writer *writer, uint64_t value, size_t bytes)
{
    uint8_t out[8];
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
    hr_le_write_bytes(writer, out, bytes);
}

static inline uint64_t hr_le_read_uint(struct hr_le_reader *reader, size_t bytes)
{
    struct hr_span span = hr_le_read_bytes(reader, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < span.bytes; i++) {
        value |= (uint64_t)(uint8_t)span.at[i] << (8 * i);
    }
    return value;
}

static inline void hr_le_write_u8(struct hr_le_writer *writer, uint8_t value)
{
    hr_le_write_uint(writer, value, 1);
}

static inline void hr_le_write_u16(struct hr_le_writer *writer, uint16_t value)
{
    hr_le_write_uint(writer, value, 2);
}

static inline void hr_le_write_u32(struct hr_le_writer *writer, uint32_t value)
{
    hr_le_write_uint(writer, value, 4);
}

static inline void hr_le_write_u64(struct hr_le_writer *writer, uint64_t value)
{
    hr_le_write_uint(writer, value, 8);
}

static inline void hr_le_write_i64(struct hr_le_writer *writer, int64_t value)
{
    hr_le_write_uint(writer, (uint64_t)value, 8);
}

static inline void hr_le_write_id(struct hr_le_writer *writer, struct hr_id128 id)
{
    hr_le_write_u64(writer, id.hi);
    hr_le_write_u64(writer, id.lo);
}

static inline uint8_t hr_le_read_u8(struct hr_le_reader *reader)
{
    return (uint8_t)hr_le_read_uint(reader, 1);
}

static inline uint16_t hr_le_read_u16(struct hr_le_reader *reader)
{
    return (uint16_t)hr_le_read_uint(reader, 2);
}

static inline uint32_t hr_le_read_u32(struct hr_le_reader *reader)
{
    return (uint32_t)hr_le_read_uint(reader, 4);
}

static inline uint64_t hr_le_read_u64(struct hr_le_reader *reader)
{
    return hr_le_read_uint(reader, 8);
}

static inline int64_t hr_le_read_i64(struct hr_le_reader *reader)
{
    return (int64_t)hr_le_read_uint(reader, 8);
}

static inline struct hr_id128 hr_le_read_id(struct hr_le_reader *reader)
{
    uint64_t hi = hr_le_read_u64(reader);
    return (struct hr_id128){hi, hr_le_read_u64(reader)};
}

#endif
