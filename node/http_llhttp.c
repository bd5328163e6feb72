#include "node/http_llhttp.h"

#include <string.h>
#include <strings.h>

static const char host[] = "host";
#define HOST_BYTES (sizeof(host) - 1)

static int on_message_begin(llhttp_t *parser)
{
    struct hr_http_reader *reader = parser->data;
    reader->hosts = 0;
    reader->matched = 0;
    reader->target_bytes = 0;
    reader->is_target_whole = false;
    return HPE_OK;
}

static int on_url(llhttp_t *parser, const char *at, size_t bytes)
{
    struct hr_http_reader *reader = parser->data;
    size_t room = HR_HTTP_TARGET_BYTES_MAX - reader->target_bytes;
    size_t kept = bytes < room ? bytes : room;
    memcpy(reader->target + reader->target_bytes, at, kept);
    reader->target_bytes += (uint32_t)kept;
    return HPE_OK;
}

static int on_url_complete(llhttp_t *parser)
{
    struct hr_http_reader *reader = parser->data;
    reader->is_target_whole = true;
    return HPE_OK;
}

/* One past HOST_BYTES stands for any other name. */
static int on_header_field(llhttp_t *parser, const char *at, size_t bytes)
{
    struct hr_http_reader *reader = parser->data;
    for (size_t i = 0; i < bytes; i++) {
        bool is_next = reader->matched < HOST_BYTES && strncasecmp(&at[i], &host[reader->matched], 1) == 0;
        reader->matched = is_next ? reader->matched + 1 : (uint32_t)HOST_BYTES + 1;
    }
    return HPE_OK;
}

static int on_header_field_complete(llhttp_t *parser)
{
    struct hr_http_reader *reader = parser->data;
    reader->hosts += reader->matched == HOST_BYTES;
    reader->matched = 0;
    return HPE_OK;
}

static enum hr_http_method method_of(const llhttp_t *parser)
{
    switch (parser->method) {
    case HTTP_GET:
        return HR_HTTP_GET;
    case HTTP_HEAD:
        return HR_HTTP_HEAD;
    default:
        return HR_HTTP_OTHER;
    }
}

static int on_headers_complete(llhttp_t *parser)
{
    struct hr_http_reader *reader = parser->data;
    reader->method = method_of(parser);
    reader->is_1_0 = parser->http_major == 1 && parser->http_minor == 0;
    reader->keeps_alive = llhttp_should_keep_alive(parser) != 0 && parser->method != HTTP_CONNECT;
    reader->in_body = true;
    return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *parser)
{
    struct hr_http_reader *reader = parser->data;
    reader->in_body = false;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_headers_complete = on_headers_complete,
    .on_message_complete = on_message_complete,
};

void hr_http_reader_init(struct hr_http_reader *reader)
{
    memset(reader, 0, sizeof(*reader));
    llhttp_init(&reader->parser, HTTP_REQUEST, &settings);
}

/* What is wrong with a head that is syntactically sound: a status, or 0. */
static unsigned head_fault(const struct hr_http_reader *reader)
{
    const llhttp_t *parser = &reader->parser;
    if (parser->http_major != 1) {
        return 505;
    }
    if (reader->hosts > 1 || (reader->hosts == 0 && !reader->is_1_0)) { /* RFC 9112, 3.2 */
        return 400;
    }
    if ((parser->flags & F_CONTENT_LENGTH) && parser->content_length > HR_HTTP_BODY_BYTES_MAX) {
        return 413;
    }
    return 0;
}

static unsigned bound_of(const struct hr_http_reader *reader)
{
    return reader->in_body ? HR_HTTP_BODY_BYTES_MAX : HR_HTTP_HEAD_BYTES_MAX;
}

/* A head or a body has used up its bytes and goes on. */
static unsigned excess_fault(const struct hr_http_reader *reader)
{
    if (reader->in_body) {
        return 413;
    }
    return reader->target_bytes > 0 && !reader->is_target_whole ? 414 : 431;
}

/* Lets llhttp read up to its next stop, and tells how much it took. */
static enum llhttp_errno run(struct hr_http_reader *reader, const char *at, size_t bytes, size_t *ret_taken)
{
    reader->parser.data = reader; /* it may have moved */
    enum llhttp_errno err = llhttp_execute(&reader->parser, at, bytes);
    *ret_taken = err == HPE_OK ? bytes : (size_t)(llhttp_get_error_pos(&reader->parser) - at);
    if (err == HPE_PAUSED) {
        llhttp_resume(&reader->parser);
    } else if (err == HPE_PAUSED_UPGRADE) {
        llhttp_resume_after_upgrade(&reader->parser);
    }
    return err;
}

static enum hr_http_event fault(struct hr_http_reader *reader, unsigned status)
{
    reader->status = status;
    return HR_HTTP_FAULT;
}

/* Reads some of the bytes. HR_HTTP_MORE: go on, unless there are none. */
static enum hr_http_event step(struct hr_http_reader *reader, struct hr_span arrived, size_t *ret_taken)
{
    bool was_in_body = reader->in_body;
    size_t room = bound_of(reader) - reader->used;
    enum llhttp_errno err = run(reader, arrived.at, arrived.bytes < room ? arrived.bytes : room, ret_taken);
    reader->used += (uint32_t)*ret_taken;
    if (err == HPE_PAUSED) {
        reader->used = 0;
        unsigned status = was_in_body ? 0 : head_fault(reader);
        if (status != 0) {
            return fault(reader, status);
        }
        return was_in_body ? HR_HTTP_REQUEST : HR_HTTP_MORE;
    }
    if (err != HPE_OK && err != HPE_PAUSED_UPGRADE) {
        return fault(reader, err == HPE_PAUSED_H2_UPGRADE ? 505 : 400);
    }
    return reader->used == bound_of(reader) ? fault(reader, excess_fault(reader)) : HR_HTTP_MORE;
}

size_t hr_http_reader_next(struct hr_http_reader *reader, struct hr_span arrived, enum hr_http_event *ret_event)
{
    size_t consumed = 0, taken;
    bool was_in_body;
    do {
        was_in_body = reader->in_body;
        struct hr_span rest = {arrived.at + consumed, arrived.bytes - consumed};
        *ret_event = step(reader, rest, &taken);
        consumed += taken;
        /* A head that has just ended is looked at once more, if only by no bytes: where no body follows, the request is
         * whole. */
    } while (*ret_event == HR_HTTP_MORE && (consumed < arrived.bytes || reader->in_body != was_in_body));
    return consumed;
}

/* The path lies behind "http://authority" where the target is in absolute form (RFC 9112, 3.2.2). */
struct hr_span hr_http_reader_path(const struct hr_http_reader *reader)
{
    struct hr_span path = {reader->target, reader->target_bytes};
    const char *query = memchr(path.at, '?', path.bytes);
    if (query != NULL) {
        path.bytes = (size_t)(query - path.at);
    }
    const char scheme[] = "http://";
    if (path.bytes < sizeof(scheme) || strncasecmp(path.at, scheme, sizeof(scheme) - 1) != 0) {
        return path;
    }
    const char *slash = memchr(path.at + sizeof(scheme) - 1, '/', path.bytes - (sizeof(scheme) - 1));
    return slash == NULL ? HR_SPAN("/") : (struct hr_span){slash, path.bytes - (size_t)(slash - path.at)};
}
