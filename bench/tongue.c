#include "bench/tongue.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/unpack.h"

#define ANSWER_BYTES_MAX (4U << 20)
#define NUMBER_MAX (UINT32_MAX >> 2) /* a stream's number has 31 bits, and only the odd ones are a client's */

static void write_u32(void *at, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                    (unsigned char)(value >> 8), (unsigned char)value};
    memcpy(at, bytes, sizeof(bytes));
}

static uint32_t read_u32(const char *at)
{
    unsigned char bytes[4];
    memcpy(bytes, at, sizeof(bytes));
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* --- HTTP/2 (RFC 9113) --- */

#define FRAME_HEAD_BYTES 9U
#define FRAME_STREAM_AT 5U
#define WINDOW_FIRST 65535 /* section 6.9.2 */
#define WINDOW_MORE (UINT32_C(1) << 30)

enum { FRAME_DATA, FRAME_HEADERS, FRAME_RST = 3, FRAME_SETTINGS, FRAME_PING = 6, FRAME_GOAWAY, FRAME_WINDOW };
enum { FLAG_END_STREAM = 1, FLAG_ACK = 1 };

struct frame {
    uint32_t bytes; /* of its payload */
    unsigned kind, flags;
    uint32_t stream;
    const char *payload;
};

/* False: it is not whole. */
static bool frame_read(struct hr_span bytes, struct frame *ret_frame)
{
    if (bytes.bytes < FRAME_HEAD_BYTES) {
        return false;
    }
    *ret_frame = (struct frame){.bytes = read_u32(bytes.at) >> 8,
                                .kind = (unsigned char)bytes.at[3],
                                .flags = (unsigned char)bytes.at[4],
                                .stream = read_u32(bytes.at + FRAME_STREAM_AT) & INT32_MAX,
                                .payload = bytes.at + FRAME_HEAD_BYTES};
    return bytes.bytes - FRAME_HEAD_BYTES >= ret_frame->bytes;
}

static void reply(struct tongue_answer *answer, unsigned kind, unsigned flags, const void *payload, size_t bytes)
{
    unsigned char *at = answer->reply + answer->reply_bytes;
    write_u32(at, (uint32_t)bytes << 8 | kind);
    at[4] = (unsigned char)flags;
    write_u32(at + FRAME_STREAM_AT, 0);
    if (bytes > 0) {
        memcpy(at + FRAME_HEAD_BYTES, payload, bytes);
    }
    answer->reply_bytes += FRAME_HEAD_BYTES + bytes;
}

static void take_data(struct tongue_wire *wire, const struct frame *frame, struct tongue_answer *answer)
{
    wire->has_data[(frame->stream >> 1) % TONGUE_FLIGHT_MAX] |= frame->bytes > 0;
    wire->unreturned += frame->bytes;
    if (wire->unreturned >= WINDOW_MORE) {
        char more[4];
        write_u32(more, WINDOW_MORE);
        reply(answer, FRAME_WINDOW, 0, more, sizeof(more));
        wire->unreturned -= WINDOW_MORE;
    }
}

static void end_stream(struct tongue_wire *wire, const struct frame *frame, bool is_reset, struct tongue_answer *answer)
{
    bool *has_data = &wire->has_data[(frame->stream >> 1) % TONGUE_FLIGHT_MAX];
    answer->is_answer = true;
    answer->is_error = is_reset || !*has_data;
    answer->number = frame->stream >> 1;
    *has_data = false;
}

/* A frame that is about the whole connection. */
static enum tongue_took take_control(struct tongue_wire *wire, const struct frame *frame, struct tongue_answer *answer)
{
    if (frame->kind == FRAME_SETTINGS && (frame->flags & FLAG_ACK) == 0) {
        reply(answer, FRAME_SETTINGS, FLAG_ACK, NULL, 0);
    } else if (frame->kind == FRAME_PING && (frame->flags & FLAG_ACK) == 0 && frame->bytes == 8) {
        reply(answer, FRAME_PING, FLAG_ACK, frame->payload, frame->bytes);
    } else if (frame->kind == FRAME_WINDOW && frame->stream == 0 && frame->bytes == 4) {
        wire->window += read_u32(frame->payload) & INT32_MAX;
    }
    return frame->kind == FRAME_GOAWAY ? TONGUE_BROKEN : TONGUE_TOOK;
}

static enum tongue_took take_frame(struct tongue_wire *wire, struct hr_span arrived, size_t *ret_consumed,
                                   struct tongue_answer *answer)
{
    struct frame frame;
    if (!frame_read(arrived, &frame)) {
        return TONGUE_MORE;
    }
    *ret_consumed = FRAME_HEAD_BYTES + frame.bytes;
    if (frame.kind == FRAME_DATA) {
        take_data(wire, &frame, answer);
    }
    bool may_end = frame.kind == FRAME_DATA || frame.kind == FRAME_HEADERS;
    if (frame.kind == FRAME_RST || (may_end && (frame.flags & FLAG_END_STREAM) != 0)) {
        end_stream(wire, &frame, frame.kind == FRAME_RST, answer);
        return TONGUE_TOOK;
    }
    return may_end ? TONGUE_TOOK : take_control(wire, &frame, answer);
}

/* Where the stream's number stands in each frame of the request. */
static bool find_streams(struct tongue *tongue, struct hr_span request)
{
    struct frame frame;
    for (size_t at = 0; at < request.bytes; at += FRAME_HEAD_BYTES + frame.bytes) {
        if (!frame_read((struct hr_span){request.at + at, request.bytes - at}, &frame) ||
            tongue->place_count == TONGUE_PLACES_MAX) {
            return false;
        }
        tongue->places[tongue->place_count++] = at + FRAME_STREAM_AT;
        tongue->window_bytes += frame.kind == FRAME_DATA ? frame.bytes : 0;
    }
    return tongue->window_bytes <= WINDOW_FIRST; /* a stream's own window is not kept count of */
}

/* --- RESP --- */

/* The line that begins at `at`, without its end. False: it has not ended. */
static bool take_line(struct hr_span arrived, size_t *at, struct hr_span *ret_line)
{
    const char *begin = arrived.at + *at;
    const char *end = *at < arrived.bytes ? memchr(begin, '\n', arrived.bytes - *at) : NULL;
    if (end == NULL) {
        return false;
    }
    *ret_line = (struct hr_span){begin, (size_t)(end - begin)};
    *at += ret_line->bytes + 1;
    return ret_line->bytes > 0;
}

/* A number behind a line's first character, at least 0 (a nil has -1). */
static size_t line_number(struct hr_span line)
{
    long number = strtol(line.at + 1, NULL, 10); /* stops at the '\r' that ends the line */
    return number > 0 ? (size_t)number : 0;
}

static enum tongue_took take_values(struct hr_span arrived, size_t *ret_consumed, struct tongue_answer *answer)
{
    size_t at = 0;
    for (size_t owed = 1; owed > 0; owed--) {
        struct hr_span line;
        if (!take_line(arrived, &at, &line)) {
            return TONGUE_MORE;
        }
        answer->is_error |= line.at[0] == '-';
        if (line.at[0] == '*') {
            owed += line_number(line);
        } else if (line.at[0] == '$' && line.at[1] != '-') {
            at += line_number(line) + 2;
        } else if (strchr("+-:$", line.at[0]) == NULL) {
            return TONGUE_BROKEN;
        }
    }
    if (at > arrived.bytes) {
        return TONGUE_MORE;
    }
    *ret_consumed = at;
    answer->is_answer = true;
    return TONGUE_TOOK;
}

/* --- MessagePack-RPC --- */

static enum tongue_took take_response(struct tongue_wire *wire, struct hr_span arrived, size_t *ret_consumed,
                                      struct tongue_answer *answer)
{
    struct hr_session_event event;
    hr_session_next(&wire->session, arrived, &event);
    *ret_consumed = event.consumed;
    if (event.kind == HR_SESSION_MORE) {
        return TONGUE_MORE;
    }
    struct hr_unpacker error = {event.error};
    answer->is_answer = event.kind == HR_SESSION_RESPONSE;
    answer->is_error = answer->is_answer && hr_unpack_nil(&error) != HR_OK;
    answer->number = (uint32_t)event.msgid;
    return answer->is_answer ? TONGUE_TOOK : TONGUE_BROKEN;
}

/* --- all of them --- */

static bool find_msgid(struct tongue *tongue, struct hr_span request)
{
    tongue->places[tongue->place_count++] = 3;
    return request.bytes > 7 && memcmp(request.at, "\x94\x00\xce", 3) == 0;
}

bool tongue_init(struct tongue *tongue, const char *name, struct hr_span request)
{
    static const char fixed[] = "fixed:";
    *tongue = (struct tongue){.kind = TONGUE_FIXED};
    if (strncmp(name, fixed, strlen(fixed)) == 0) {
        tongue->answer_bytes = strtoul(name + strlen(fixed), NULL, 10);
        return tongue->answer_bytes > 0 && tongue->answer_bytes <= ANSWER_BYTES_MAX;
    }
    if (strcmp(name, "rpc") == 0) {
        tongue->kind = TONGUE_RPC;
        return find_msgid(tongue, request);
    }
    if (strcmp(name, "grpc") == 0) {
        tongue->kind = TONGUE_GRPC;
        return find_streams(tongue, request);
    }
    tongue->kind = TONGUE_RESP;
    return strcmp(name, "resp") == 0;
}

struct hr_span tongue_hello(const struct tongue *tongue)
{
    /* The preface; settings: no pushes, and each stream may send all at once; and so may the connection. */
    static const char http2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                "\0\0\x0c\4\0\0\0\0\0"
                                "\0\2\0\0\0\0"
                                "\0\4\x7f\xff\xff\xff"
                                "\0\0\4\x8\0\0\0\0\0"
                                "\x7f\xff\0\0";
    return tongue->kind == TONGUE_GRPC ? HR_SPAN(http2) : (struct hr_span){NULL, 0};
}

void tongue_wire_init(struct tongue_wire *wire, const struct tongue *tongue)
{
    const struct hr_session_limits limits = {.frame_bytes_max = ANSWER_BYTES_MAX, .in_flight_max = 1};
    *wire = (struct tongue_wire){.tongue = tongue, .window = WINDOW_FIRST};
    hr_session_init(&wire->session, &limits);
}

bool tongue_number(struct tongue_wire *wire, char *request, uint32_t number)
{
    const struct tongue *tongue = wire->tongue;
    if (number > NUMBER_MAX || (tongue->kind == TONGUE_GRPC && wire->window < (int64_t)tongue->window_bytes)) {
        return false;
    }
    wire->window -= tongue->window_bytes;
    for (uint32_t i = 0; i < tongue->place_count; i++) {
        write_u32(request + tongue->places[i], tongue->kind == TONGUE_GRPC ? number << 1 | 1 : number);
    }
    return true;
}

enum tongue_took tongue_take(struct tongue_wire *wire, struct hr_span arrived, size_t *ret_consumed,
                             struct tongue_answer *ret_answer)
{
    *ret_consumed = 0;
    ret_answer->is_answer = ret_answer->is_error = false;
    ret_answer->reply_bytes = 0;
    if (arrived.bytes == 0) {
        return TONGUE_MORE;
    }
    if (wire->tongue->kind == TONGUE_RPC) {
        return take_response(wire, arrived, ret_consumed, ret_answer);
    }
    if (wire->tongue->kind == TONGUE_GRPC) {
        return take_frame(wire, arrived, ret_consumed, ret_answer);
    }
    ret_answer->number = wire->next;
    enum tongue_took took = TONGUE_MORE;
    if (wire->tongue->kind == TONGUE_RESP) {
        took = take_values(arrived, ret_consumed, ret_answer);
    } else if (arrived.bytes >= wire->tongue->answer_bytes) {
        *ret_consumed = wire->tongue->answer_bytes;
        ret_answer->is_answer = true;
        took = TONGUE_TOOK;
    }
    wire->next += took == TONGUE_TOOK;
    return took;
}
