#include "node/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/pairs.h"
#include "rpc/unpack.h"

#define ITEM_INDENT 4

/* Text */

/* How many bytes the character at the start of text has (RFC 3629), or 0 where it is none. */
static size_t character_bytes(struct hr_span text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    size_t bytes = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : (at[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (bytes > text.bytes || (at[0] >= 0x80 && at[0] < 0xc2) || at[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_outside = (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf4 && at[1] >= 0x90);
    return is_overlong || is_outside ? 0 : bytes;
}

/* U+0000 to U+001F, U+007F, and U+0080 to U+009F, which some terminals obey as well. */
static bool is_control(struct hr_span text)
{
    const unsigned char *at = (const unsigned char *)text.at;
    return at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
}

void hr_text_print(FILE *out, struct hr_span text)
{
    while (text.bytes > 0) {
        size_t bytes = character_bytes(text);
        if (bytes == 0 || is_control(text)) {
            (void)fputc('?', out);
        } else {
            (void)fwrite(text.at, 1, bytes, out);
        }
        bytes = bytes > 0 ? bytes : 1;
        text = (struct hr_span){text.at + bytes, text.bytes - bytes};
    }
}

static void print_json_character(FILE *out, struct hr_span text, size_t bytes)
{
    if (bytes == 0) {
        (void)fputs("\\ufffd", out);
    } else if (text.at[0] == '"' || text.at[0] == '\\') {
        (void)fprintf(out, "\\%c", text.at[0]);
    } else if (is_control(text)) {
        unsigned code = bytes == 2 ? (unsigned char)text.at[1] : (unsigned char)text.at[0];
        (void)fprintf(out, "\\u%04x", code);
    } else {
        (void)fwrite(text.at, 1, bytes, out);
    }
}

void hr_text_print_json(FILE *out, struct hr_span text)
{
    (void)fputc('"', out);
    while (text.bytes > 0) {
        size_t bytes = character_bytes(text);
        print_json_character(out, text, bytes);
        bytes = bytes > 0 ? bytes : 1;
        text = (struct hr_span){text.at + bytes, text.bytes - bytes};
    }
    (void)fputc('"', out);
}

/* May the text stand in YAML without quotes, also between commas? Not what YAML takes for something else. */
static bool is_plain(struct hr_span text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (hr_span_equal(text, hr_span_of(words[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < text.bytes; i++) {
        char byte = text.at[i];
        bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
        if (!is_letter && (i == 0 || strchr("-_./", byte) == NULL || byte == '\0')) {
            return false;
        }
    }
    return text.bytes > 0;
}

/* Scalars */

/* IEEE 754 as it lies on the wire: big-endian, of 4 or 8 bytes. */
static double read_real(struct hr_span value)
{
    uint64_t bits = 0;
    for (size_t i = 1; i < value.bytes; i++) {
        bits = bits << 8 | (unsigned char)value.at[i];
    }
    if (value.bytes == 1 + sizeof(float)) {
        uint32_t few = (uint32_t)bits;
        float small;
        memcpy(&small, &few, sizeof(small));
        return (double)small;
    }
    double real;
    memcpy(&real, &bits, sizeof(real));
    return real;
}

static void print_real(FILE *out, struct hr_span value)
{
    double real = read_real(value);
    if (isfinite(real)) {
        (void)fprintf(out, "%.17g", real);
    } else {
        (void)fputs("null", out);
    }
}

static struct hr_head head_of(struct hr_span value)
{
    struct hr_head head = {.kind = HR_KIND_NIL};
    return hr_head_read(value, &head) == HR_OK ? head : (struct hr_head){.kind = HR_KIND_NIL};
}

static struct hr_span text_of(struct hr_span value)
{
    struct hr_unpacker in = {value};
    struct hr_span text = HR_SPAN("");
    return hr_unpack_text(&in, &text) == HR_OK ? text : HR_SPAN("");
}

/* All that is neither text nor a container. */
static void print_scalar(FILE *out, struct hr_span value)
{
    struct hr_head head = head_of(value);
    switch (head.kind) {
    case HR_KIND_BOOL:
        (void)fputs(head.number != 0 ? "true" : "false", out);
        break;
    case HR_KIND_WHOLE:
        (void)fprintf(out, "%" PRIu64, head.number);
        break;
    case HR_KIND_NEGATIVE:
        (void)fprintf(out, "%" PRId64, (int64_t)head.number);
        break;
    case HR_KIND_REAL:
        print_real(out, value);
        break;
    case HR_KIND_NIL:
    case HR_KIND_TEXT:
    case HR_KIND_ARRAY:
    case HR_KIND_MAP:
    case HR_KIND_EXT:
        (void)fputs("null", out);
        break;
    }
}

/* Containers on one line: JSON, and YAML's flow style, which differs in its quotes and spaces alone. */

struct line {
    FILE *out;
    bool is_yaml;
};

static enum hr_err print_line(const struct line *line, struct hr_span value);

static void print_line_text(const struct line *line, struct hr_span text)
{
    if (line->is_yaml && is_plain(text)) {
        (void)fwrite(text.at, 1, text.bytes, line->out);
    } else {
        hr_text_print_json(line->out, text);
    }
}

static void print_comma(const struct line *line, bool is_first)
{
    if (!is_first) {
        (void)fputs(line->is_yaml ? ", " : ",", line->out);
    }
}

static enum hr_err print_line_array(const struct line *line, struct hr_span value)
{
    struct hr_unpacker in = {value};
    uint32_t count = 0;
    enum hr_err err = hr_unpack_array(&in, &count);
    (void)fputc('[', line->out);
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span item;
        err = hr_unpack_skip(&in, &item);
        print_comma(line, i == 0);
        if (err == HR_OK) {
            err = print_line(line, item);
        }
    }
    (void)fputc(']', line->out);
    return err;
}

static enum hr_err print_line_map(const struct line *line, struct hr_span value)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    bool is_first = true;
    enum hr_err err = hr_pairs_begin(&pairs, value);
    (void)fputc('{', line->out);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        print_comma(line, is_first);
        is_first = false;
        print_line_text(line, pair.key);
        (void)fputs(line->is_yaml ? ": " : ":", line->out);
        err = print_line(line, pair.value);
    }
    (void)fputc('}', line->out);
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}

/* Goes no deeper than HR_NESTING_MAX: see check_value. */
static enum hr_err print_line(const struct line *line, struct hr_span value) /* NOLINT(misc-no-recursion) */
{
    enum hr_kind kind = head_of(value).kind;
    if (kind == HR_KIND_ARRAY) {
        return print_line_array(line, value);
    }
    if (kind == HR_KIND_MAP) {
        return print_line_map(line, value);
    }
    if (kind == HR_KIND_TEXT) {
        print_line_text(line, text_of(value));
    } else {
        print_scalar(line->out, value);
    }
    return HR_OK;
}

/* Is it a whole value, nested no deeper than may be? */
static enum hr_err check_value(struct hr_span value)
{
    struct hr_unpacker in = {value};
    return hr_unpack_skip(&in, &value);
}

enum hr_err hr_value_print_json(FILE *out, struct hr_span value)
{
    const struct line line = {out, false};
    enum hr_err err = check_value(value);
    return err == HR_OK ? print_line(&line, value) : err;
}

enum hr_err hr_value_print_flow(FILE *out, struct hr_span value)
{
    const struct line line = {out, true};
    enum hr_err err = check_value(value);
    return err == HR_OK ? print_line(&line, value) : err;
}

enum hr_err hr_value_print_item(FILE *out, struct hr_span map)
{
    const struct line line = {out, true};
    struct hr_pairs pairs;
    struct hr_pair pair;
    bool is_first = true;
    enum hr_err err = check_value(map);
    if (err == HR_OK) {
        err = hr_pairs_begin(&pairs, map);
    }
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        (void)fprintf(out, "%*s", ITEM_INDENT, is_first ? "- " : "");
        is_first = false;
        print_line_text(&line, pair.key);
        (void)fputs(": ", out);
        err = print_line(&line, pair.value);
        (void)fputc('\n', out);
    }
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}
