/* Log: one event, one line, for people (logfmt) or for machines (JSON).
 *
 *   ts=2026-01-31T09:30:00.125Z level=info event=joined node=eu-1 members=6
 *   {"ts":"2026-01-31T09:30:00.125Z","level":"info","event":"joined","node":"eu-1","members":6}
 *
 * The value of a request's attribute may be a customer's name or a credential, so none is ever logged, nor anything
 * that was made of one, but for the keyed hash that names a counter (hr_log_id): it tells two keys apart and tells
 * nothing about either. Errors quote what they found in files of the operator's, never what came in a request.
 *
 * A line has at most HR_LOG_LINE_BYTES_MAX bytes with its '\n'. A text that does not fit ends early, at a whole
 * character; what comes after it is left out; and the line says so: cut=true. No byte of a text can end the line or
 * forge a field: controls are escaped, and bytes that are no UTF-8 become U+FFFD.
 *
 * Thread: any; a sink that is shared must say so itself. Memory: the caller's; nothing is kept. The time comes as a
 * parameter. */
#ifndef HR_NODE_LOG_H
#define HR_NODE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"
#include "base/units.h"

#define HR_LOG_LINE_BYTES_MAX 1024

enum hr_log_format { HR_LOG_LOGFMT, HR_LOG_JSON };

enum hr_log_level { HR_LOG_DEBUG, HR_LOG_INFO, HR_LOG_WARN, HR_LOG_ERROR };

enum hr_log_kind { HR_LOG_TEXT, HR_LOG_INT, HR_LOG_UINT, HR_LOG_BOOL, HR_LOG_ID };

struct hr_log_field {
    const char *key; /* [a-z0-9_]+: a literal of the source, never input. Not one of ts, level, event, cut */
    enum hr_log_kind kind;
    union {
        struct hr_span text;
        int64_t number;
        uint64_t count;
        bool truth;
        struct hr_id128 id;
    } value;
};

static inline struct hr_log_field hr_log_text(const char *key, struct hr_span text)
{
    return (struct hr_log_field){key, HR_LOG_TEXT, {.text = text}};
}

static inline struct hr_log_field hr_log_int(const char *key, int64_t number)
{
    return (struct hr_log_field){key, HR_LOG_INT, {.number = number}};
}

static inline struct hr_log_field hr_log_uint(const char *key, uint64_t count)
{
    return (struct hr_log_field){key, HR_LOG_UINT, {.count = count}};
}

static inline struct hr_log_field hr_log_bool(const char *key, bool truth)
{
    return (struct hr_log_field){key, HR_LOG_BOOL, {.truth = truth}};
}

/* The identity of a counter: 32 hex digits. */
static inline struct hr_log_field hr_log_id(const char *key, struct hr_id128 id)
{
    return (struct hr_log_field){key, HR_LOG_ID, {.id = id}};
}

struct hr_log_event {
    struct hr_wall at;
    enum hr_log_level level;
    const char *name; /* [a-z0-9_]+: a literal of the source */
    size_t field_count;
    const struct hr_log_field *fields; /* borrowed for the call */
};

/* The line with its '\n', without a NUL; how many bytes it has. */
size_t hr_log_line(const struct hr_log_event *event, enum hr_log_format format, char ret_line[HR_LOG_LINE_BYTES_MAX]);

/* Where lines go. sink is called once for each line, which is borrowed for the call. */
struct hr_log {
    enum hr_log_format format;
    enum hr_log_level level_min; /* what lies below it is dropped before it is written out */
    void (*sink)(void *context, const char *line, size_t bytes);
    void *context;
};

void hr_log_write(const struct hr_log *log, const struct hr_log_event *event);

/* The last two members of an event, for initializers: {at, HR_LOG_INFO, "joined", HR_LOG_FIELDS(hr_log_uint(...))}. */
#define HR_LOG_FIELDS(...)                                                                                          \
    sizeof((const struct hr_log_field[]){__VA_ARGS__}) / sizeof(struct hr_log_field), (const struct hr_log_field[]) \
    {                                                                                                               \
        __VA_ARGS__                                                                                                 \
    }

#endif
