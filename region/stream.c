#include "region/stream.h"

#include <string.h>

#include "storage/le.h"

void hr_stream_init(struct hr_stream *stream, uint64_t own_life, size_t bytes_max, struct hr_bump *bump)
{
    *stream = (struct hr_stream){.own_life = own_life, .bytes_max = bytes_max};
    stream->ring = hr_bump_take(bump, bytes_max, 1, 64);
}

bool hr_stream_open(struct hr_stream *stream, uint64_t peer_life)
{
    if (peer_life <= stream->peer_life) {
        return false;
    }
    stream->peer_life = peer_life;
    stream->begin = stream->end = 0;
    stream->first = stream->next = stream->unsent = 1;
    stream->awaited = 1;
    stream->resend_at = INT64_MAX;
    stream->resend_after = HR_STREAM_RESEND_NS_MIN;
    stream->repeats = 0;
    stream->owes_ack = true;
    return true;
}

static uint64_t *end_of(struct hr_stream *stream, uint64_t number)
{
    return &stream->ends[number % HR_STREAM_MESSAGES_MAX];
}

static uint64_t begin_of(struct hr_stream *stream, uint64_t number)
{
    return number == stream->first ? stream->begin : *end_of(stream, number - 1);
}

size_t hr_stream_room(const struct hr_stream *stream)
{
    if (stream->peer_life == 0 || stream->next - stream->first == HR_STREAM_MESSAGES_MAX) {
        return 0;
    }
    size_t room = stream->bytes_max - hr_stream_used(stream);
    return room < HR_STREAM_MESSAGE_BYTES_MAX ? room : HR_STREAM_MESSAGE_BYTES_MAX;
}

static void copy_in(struct hr_stream *stream, struct hr_span span)
{
    if (span.bytes == 0) {
        return;
    }
    size_t at = (size_t)(stream->end % stream->bytes_max), rest = stream->bytes_max - at;
    size_t first = span.bytes < rest ? span.bytes : rest;
    memcpy(stream->ring + at, span.at, first);
    memcpy(stream->ring, span.at + first, span.bytes - first);
    stream->end += span.bytes;
}

uint64_t hr_stream_put(struct hr_stream *stream, struct hr_span head, struct hr_span body)
{
    copy_in(stream, head);
    copy_in(stream, body);
    *end_of(stream, stream->next) = stream->end;
    return stream->next++;
}

static size_t bytes_of(struct hr_stream *stream, uint64_t number)
{
    return (size_t)(*end_of(stream, number) - begin_of(stream, number));
}

static void write_message(struct hr_stream *stream, uint64_t number, struct hr_le_writer *writer)
{
    size_t bytes = bytes_of(stream, number), at = (size_t)(begin_of(stream, number) % stream->bytes_max);
    size_t rest = stream->bytes_max - at, first = bytes < rest ? bytes : rest;
    hr_le_write_u32(writer, (uint32_t)bytes);
    hr_le_write_bytes(writer, stream->ring + at, first);
    hr_le_write_bytes(writer, stream->ring, bytes - first);
}

/* A letter with the next messages that were not sent, if there are any. */
static size_t write_letter(struct hr_stream *stream, uint8_t *out)
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_STREAM_LETTER_BYTES_MAX);
    hr_le_write_u64(&writer, stream->own_life);
    hr_le_write_u64(&writer, stream->peer_life);
    hr_le_write_u64(&writer, stream->unsent < stream->next ? stream->unsent : 0);
    hr_le_write_u64(&writer, stream->awaited);
    while (stream->unsent < stream->next && writer.used < HR_STREAM_SHARE_BYTES &&
           writer.used + 4 + bytes_of(stream, stream->unsent) <= HR_STREAM_LETTER_BYTES_MAX) {
        write_message(stream, stream->unsent++, &writer);
    }
    stream->owes_ack = false;
    return writer.used;
}

/* Not acknowledged for too long: all again, and more patiently. */
static void go_back(struct hr_stream *stream, hr_ns now)
{
    if (now < stream->resend_at || stream->first == stream->unsent) {
        return;
    }
    stream->unsent = stream->first;
    stream->resend_after *= 2;
    if (stream->resend_after > HR_STREAM_RESEND_NS_MAX) {
        stream->resend_after = HR_STREAM_RESEND_NS_MAX;
    }
    stream->resend_at = INT64_MAX;
}

size_t hr_stream_next_letter(struct hr_stream *stream, hr_ns now, uint8_t out[HR_STREAM_LETTER_BYTES_MAX])
{
    if (stream->peer_life == 0) {
        return 0;
    }
    go_back(stream, now);
    if (stream->unsent < stream->next) {
        if (stream->resend_at == INT64_MAX) {
            stream->resend_at = now + stream->resend_after;
        }
        return write_letter(stream, out);
    }
    return stream->owes_ack ? write_letter(stream, out) : 0;
}

void hr_stream_hurry(struct hr_stream *stream)
{
    stream->unsent = stream->first;
    stream->resend_at = INT64_MAX;
}

hr_ns hr_stream_deadline(const struct hr_stream *stream)
{
    bool is_due = stream->peer_life != 0 && (stream->unsent < stream->next || stream->owes_ack);
    return is_due ? 0 : stream->peer_life == 0 || stream->first == stream->unsent ? INT64_MAX : stream->resend_at;
}

static void acknowledge(struct hr_stream *stream, uint64_t awaited, hr_ns now)
{
    if (awaited == stream->first && stream->first < stream->unsent) {
        stream->repeats++;
        if (stream->repeats == HR_STREAM_REPEATS) { /* something was lost, and what came behind it with it */
            stream->unsent = stream->first;
            stream->resend_at = INT64_MAX;
        }
    }
    if (awaited <= stream->first || awaited > stream->next) {
        return;
    }
    stream->repeats = 0;
    stream->begin = *end_of(stream, awaited - 1);
    stream->first = awaited;
    if (stream->unsent < awaited) {
        stream->unsent = awaited; /* went back, and need not have */
    }
    stream->resend_after = HR_STREAM_RESEND_NS_MIN;
    stream->resend_at = stream->first == stream->unsent ? INT64_MAX : now + stream->resend_after;
}

uint64_t hr_stream_peer_life(struct hr_span body)
{
    struct hr_le_reader reader = hr_le_reader_of(body);
    uint64_t life = hr_le_read_u64(&reader);
    return body.bytes < HR_STREAM_HEAD_BYTES || body.bytes > HR_STREAM_LETTER_BYTES_MAX ? 0 : life;
}

/* Steps over the messages that came before. False: the next one awaited is not among them. */
static bool skip_to(struct hr_stream_letter *letter, uint64_t number, uint64_t awaited)
{
    struct hr_span message;
    while (number < awaited && hr_stream_next_message(letter, &message)) {
        number++;
    }
    return number == awaited && letter->used < letter->bytes;
}

enum hr_err hr_stream_receive(struct hr_stream *stream, struct hr_span body, hr_ns now,
                              struct hr_stream_letter *ret_letter)
{
    if (body.bytes < HR_STREAM_HEAD_BYTES || body.bytes > HR_STREAM_LETTER_BYTES_MAX) {
        return HR_E_CORRUPT;
    }
    struct hr_le_reader reader = hr_le_reader_of(body);
    uint64_t sender_life = hr_le_read_u64(&reader), receiver_life = hr_le_read_u64(&reader);
    uint64_t number = hr_le_read_u64(&reader), awaited = hr_le_read_u64(&reader);
    if (stream->peer_life == 0 || sender_life != stream->peer_life || receiver_life != stream->own_life) {
        return HR_E_NOT_FOUND;
    }
    if (number == 0 || awaited > stream->first) { /* one with a message repeats the number for its own reasons */
        acknowledge(stream, awaited, now);
    }
    *ret_letter = (struct hr_stream_letter){body.at, number == 0 ? reader.used : body.bytes, reader.used};
    if (number != 0 && !skip_to(ret_letter, number, stream->awaited)) {
        stream->owes_ack = true; /* one was lost before it, or all came before */
        ret_letter->used = ret_letter->bytes;
    }
    return HR_OK;
}

bool hr_stream_next_message(struct hr_stream_letter *letter, struct hr_span *ret_message)
{
    struct hr_le_reader reader = hr_le_reader_of((struct hr_span){letter->at, letter->bytes});
    reader.used = letter->used;
    uint32_t bytes = hr_le_read_u32(&reader);
    *ret_message = hr_le_read_bytes(&reader, bytes);
    letter->used = reader.failed ? letter->bytes : reader.used;
    return !reader.failed;
}

void hr_stream_take(struct hr_stream *stream)
{
    stream->awaited++;
    stream->owes_ack = true;
}
