#include "node/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "limiter/civil.h"
#include "limiter/limit.h"

/* Kept free while fields are written, so that any line can still be marked and ended. */
#define TAIL_BYTES (sizeof(",\"cut\":true}\n") - 1)

#define PIECE_BYTES_MAX 64 /* of a number, an escape or a time */

struct line {
    enum hr_log_format format;
    bool is_cut;
    size_t used, room; /* used is never more than room */
    char *at;
};

/* All or nothing, and after the first that did not fit, nothing. */
static void put(struct line *line, struct hr_span piece)
{
    if (line->is_cut || piece.bytes > line->room - line->used) {
        line->is_cut = true;
        return;
    }
    memcpy(line->at + line->used, piece.at, piece.bytes);
    line->used += piece.bytes;
}

/* Into the room that was kept free. */
static void put_tail(struct line *line, struct hr_span piece)
{
    memcpy(line->at + line->used, piece.at, piece.bytes);
    line->used += piece.bytes;
}

__attribute__((format(printf, 2, 3))) static void put_format(struct line *line, const char *format, ...)
{
    char piece[PIECE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int count = vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    if (count > 0 && (size_t)count < sizeof(piece)) { /* it fits: every caller's pieces are bounded */
        put(line, (struct hr_span){piece, (size_t)count});
    }
}

/* Texts. */

/* How many bytes the character at the beginning of text has; 0: it is no UTF-8. */
static size_t character_bytes(struct hr_span text)
{
    unsigned char first = (unsigned char)text.at[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first == '\0') {
        return 1;
    }
    return bytes <= text.bytes && hr_attribute_value_is_valid((struct hr_span){text.at, bytes}) ? bytes : 0;
}

/* Of U+0080 to U+009F, which some terminals obey as they do an escape; else 0. */
static unsigned high_control(struct hr_span character)
{
    unsigned char second = character.bytes == 2 ? (unsigned char)character.at[1] : 0;
    return character.bytes == 2 && (unsigned char)character.at[0] == 0xc2 && second < 0xa0 ? second : 0;
}

static void put_character(struct line *line, struct hr_span character)
{
    static const char short_escapes[] = "\"\"\\\\\nn\rr\tt"; /* pairs */
    unsigned char byte = (unsigned char)character.at[0];
    for (size_t i = 0; i < sizeof(short_escapes) - 1; i += 2) {
        if (short_escapes[i] == (char)byte) {
            put_format(line, "\\%c", short_escapes[i + 1]);
            return;
        }
    }
    if (byte < 0x20 || byte == 0x7f) {
        put_format(line, "\\u%04x", (unsigned)byte);
    } else if (high_control(character) != 0) {
        put_format(line, "\\u%04x", high_control(character));
    } else {
        put(line, character);
    }
}

static void put_characters(struct line *line, struct hr_span text)
{
    for (size_t i = 0; i < text.bytes && !line->is_cut;) {
        struct hr_span rest = {text.at + i, text.bytes - i};
        size_t bytes = character_bytes(rest);
        put_character(line, bytes == 0 ? HR_SPAN("\xef\xbf\xbd") : (struct hr_span){rest.at, bytes});
        i += bytes == 0 ? 1 : bytes;
    }
}

/* What logfmt can show as it is: visible ASCII but for the quote, the backslash and the equals sign. */
static bool is_bare(struct hr_span text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char byte = text.at[i];
        if (byte <= ' ' || byte > '~' || byte == '"' || byte == '\\' || byte == '=') {
            return false;
        }
    }
    return text.bytes > 0;
}

/* Room for the closing quote is set aside before the opening one is written: a text that is cut is closed as well. */
static void put_quoted(struct line *line, struct hr_span text)
{
    if (line->is_cut || line->room - line->used < 2) {
        line->is_cut = true;
        return;
    }
    line->room--;
    put(line, HR_SPAN("\""));
    put_characters(line, text);
    line->room++;
    put_tail(line, HR_SPAN("\""));
}

static void put_text(struct line *line, struct hr_span text)
{
    if (line->format == HR_LOG_JSON || !is_bare(text)) {
        put_quoted(line, text);
    } else {
        put_characters(line, text);
    }
}

/* Fields. */

static void put_key(struct line *line, const char *key)
{
    bool is_json = line->format == HR_LOG_JSON;
    if (line->used > 0) {
        put(line, is_json ? HR_SPAN(",\"") : HR_SPAN(" "));
    } else {
        put(line, is_json ? HR_SPAN("{\"") : HR_SPAN(""));
    }
    put(line, hr_span_of(key));
    put(line, is_json ? HR_SPAN("\":") : HR_SPAN("="));
}

static void put_value(struct line *line, const struct hr_log_field *field)
{
    char hex[PIECE_BYTES_MAX];
    switch (field->kind) {
    case HR_LOG_TEXT:
        put_text(line, field->value.text);
        return;
    case HR_LOG_INT:
        put_format(line, "%" PRId64, field->value.number);
        return;
    case HR_LOG_UINT:
        put_format(line, "%" PRIu64, field->value.count);
        return;
    case HR_LOG_BOOL:
        put(line, field->value.truth ? HR_SPAN("true") : HR_SPAN("false"));
        return;
    case HR_LOG_ID:
        (void)snprintf(hex, sizeof(hex), "%016" PRIx64 "%016" PRIx64, field->value.id.hi, field->value.id.lo);
        put_text(line, hr_span_of(hex));
        return;
    }
}

/* A field whose value could not even begin leaves no trace. */
static void put_field(struct line *line, const struct hr_log_field *field)
{
    size_t before = line->used;
    put_key(line, field->key);
    size_t begin = line->used;
    put_value(line, field);
    if (line->is_cut && line->used == begin) {
        line->used = before;
    }
}

/* RFC 3339 in UTC, to the millisecond, cut and not rounded: an event is never shown after its time. */
static struct hr_log_field time_field(struct hr_wall at, char ret_text[PIECE_BYTES_MAX])
{
    int64_t ms = hr_clamp_time(at.ns) / HR_NS_PER_MS;
    int64_t day = ms / (HR_S_PER_DAY * 1000), ms_of_day = ms % (HR_S_PER_DAY * 1000);
    int64_t year = hr_civil_year_of(day), s = ms_of_day / 1000;
    int month = hr_civil_month_of(year, day);
    (void)snprintf(ret_text, PIECE_BYTES_MAX,
                   "%04" PRId64 "-%02d-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64 ".%03" PRId64 "Z", year,
                   month, day - hr_civil_month_begin(year, month) + 1, s / 3600, s / 60 % 60, s % 60, ms_of_day % 1000);
    return hr_log_text("ts", hr_span_of(ret_text));
}

size_t hr_log_line(const struct hr_log_event *event, enum hr_log_format format, char ret_line[HR_LOG_LINE_BYTES_MAX])
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct line line = {.format = format, .room = HR_LOG_LINE_BYTES_MAX - TAIL_BYTES, .at = ret_line};
    char time[PIECE_BYTES_MAX];
    const struct hr_log_field head[] = {
        time_field(event->at, time),
        hr_log_text("level", hr_span_of(levels[event->level])),
        hr_log_text("event", hr_span_of(event->name)),
    };
    for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
        put_field(&line, &head[i]);
    }
    for (size_t i = 0; i < event->field_count && !line.is_cut; i++) {
        put_field(&line, &event->fields[i]);
    }
    bool is_json = format == HR_LOG_JSON;
    if (line.is_cut) {
        put_tail(&line, is_json ? HR_SPAN(",\"cut\":true") : HR_SPAN(" cut=true"));
    }
    put_tail(&line, is_json ? HR_SPAN("}\n") : HR_SPAN("\n"));
    return line.used;
}

void hr_log_write(const struct hr_log *log, const struct hr_log_event *event)
{
    char line[HR_LOG_LINE_BYTES_MAX];
    if (event->level < log->level_min) {
        return;
    }
    log->sink(log->context, line, hr_log_line(event, log->format, line));
}
