#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "node/time_text.h"
#include "node/value_text.h"
#include "rpc/pairs.h"
#include "rpc/unpack.h"

/* hr_value_print: a value for people. */

#define COLUMNS_MAX 16
#define CELL_BYTES 80 /* of a scalar in a list or table; a longer text is cut, and says so */

static struct hr_head head_of(struct hr_span value)
{
    struct hr_head head = {.kind = HR_KIND_NIL};
    return hr_head_read(value, &head) == HR_OK ? head : (struct hr_head){.kind = HR_KIND_NIL};
}

static bool is_container(struct hr_span value)
{
    enum hr_kind kind = head_of(value).kind;
    return kind == HR_KIND_ARRAY || kind == HR_KIND_MAP;
}

struct cell {
    char text[CELL_BYTES + 8];
    int width;
};

static void cut_text(FILE *out, struct hr_span text)
{
    bool is_long = text.bytes > CELL_BYTES;
    hr_text_print(out, is_long ? (struct hr_span){text.at, CELL_BYTES} : text);
    if (is_long) {
        (void)fputs("...", out);
    }
}

/* "-" for nothing: it is what an absent error or name comes as. */
static void print_cell(FILE *out, struct hr_span value)
{
    struct hr_unpacker in = {value};
    struct hr_span text;
    enum hr_kind kind = head_of(value).kind;
    if (hr_unpack_text(&in, &text) == HR_OK) {
        cut_text(out, text);
    } else if (kind == HR_KIND_NIL) {
        (void)fputc('-', out);
    } else if (is_container(value)) {
        (void)fputs(kind == HR_KIND_ARRAY ? "[...]" : "{...}", out);
    } else if (hr_value_print_json(out, value) != HR_OK) { /* a number or a boolean, which is there whole */
        (void)fputc('?', out);
    }
}

/* A value's cell, or that of a column's name. The bytes are taken for the width: names and numbers are ASCII. */
static void make_cell(struct hr_span bytes, bool is_name, struct cell *ret_cell)
{
    *ret_cell = (struct cell){.width = 0};
    FILE *out = fmemopen(ret_cell->text, sizeof(ret_cell->text) - 1, "w");
    if (out == NULL) {
        return;
    }
    if (is_name) {
        cut_text(out, bytes);
    } else {
        print_cell(out, bytes);
    }
    (void)fclose(out); /* what did not fit is cut */
    ret_cell->width = (int)strlen(ret_cell->text);
}

static int key_width(struct hr_span map)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    int width = 0;
    if (hr_pairs_begin(&pairs, map) != HR_OK) {
        return 0;
    }
    while (hr_pairs_next(&pairs, &pair) == HR_OK) {
        int bytes = pair.key.bytes < CELL_BYTES ? (int)pair.key.bytes : CELL_BYTES;
        if (!is_container(pair.value) && bytes > width) {
            width = bytes;
        }
    }
    return width;
}

/* A time of a second or more in milliseconds is hard to read. */
static void print_wait(FILE *out, const struct hr_pair *pair)
{
    struct hr_head head = head_of(pair->value);
    bool is_ms = pair->key.bytes > 3 && memcmp(pair->key.at + pair->key.bytes - 3, "_ms", 3) == 0;
    if (is_ms && head.kind == HR_KIND_WHOLE && head.number >= 1000 && head.number < INT64_MAX) {
        char wait[HR_WAIT_TEXT_BYTES];
        hr_wait_text((int64_t)head.number, wait);
        (void)fprintf(out, " (%s)", wait);
    }
}

static void print_key(FILE *out, struct hr_span key, int indent, int width)
{
    (void)fprintf(out, "%*s", indent, "");
    cut_text(out, key);
    for (int i = (int)(key.bytes < CELL_BYTES ? key.bytes : CELL_BYTES); i < width; i++) {
        (void)fputc(' ', out);
    }
}

/* Maps of one array, all with the same keys: their first map's. */
struct table {
    uint32_t column_count;
    struct hr_span names[COLUMNS_MAX];
    int widths[COLUMNS_MAX];
    bool is_text[COLUMNS_MAX]; /* aligned to the left */
};

static bool begin_table(struct table *table, struct hr_span map)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    table->column_count = 0;
    if (hr_pairs_begin(&pairs, map) != HR_OK || pairs.left > COLUMNS_MAX) {
        return false;
    }
    while (hr_pairs_next(&pairs, &pair) == HR_OK) {
        table->is_text[table->column_count] = head_of(pair.value).kind == HR_KIND_TEXT;
        table->widths[table->column_count] = pair.key.bytes < CELL_BYTES ? (int)pair.key.bytes : CELL_BYTES;
        table->names[table->column_count++] = pair.key;
    }
    return table->column_count > 0;
}

/* Widens the columns for a row. False: it has other keys. */
static bool fit_row(struct table *table, struct hr_span map)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    struct cell cell;
    uint32_t column = 0;
    if (hr_pairs_begin(&pairs, map) != HR_OK || pairs.left != table->column_count) {
        return false;
    }
    for (; hr_pairs_next(&pairs, &pair) == HR_OK; column++) {
        if (column == table->column_count || !hr_span_equal(pair.key, table->names[column]) ||
            is_container(pair.value)) {
            return false;
        }
        make_cell(pair.value, false, &cell);
        table->widths[column] = cell.width > table->widths[column] ? cell.width : table->widths[column];
    }
    return true;
}

static void print_column(FILE *out, const struct table *table, uint32_t column, const char *text)
{
    bool is_last = column + 1 == table->column_count;
    int width = table->widths[column];
    if (table->is_text[column]) {
        (void)fprintf(out, "%-*s%s", is_last ? 0 : width, text, is_last ? "" : "  ");
    } else {
        (void)fprintf(out, "%*s%s", width, text, is_last ? "" : "  ");
    }
}

static void print_row(FILE *out, const struct table *table, struct hr_span map, int indent)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    struct cell cell;
    (void)fprintf(out, "%*s", indent, "");
    if (hr_pairs_begin(&pairs, map) == HR_OK) {
        for (uint32_t column = 0; hr_pairs_next(&pairs, &pair) == HR_OK; column++) {
            make_cell(pair.value, false, &cell);
            print_column(out, table, column, cell.text);
        }
    }
    (void)fputc('\n', out);
}

static void print_table_head(FILE *out, const struct table *table, int indent)
{
    (void)fprintf(out, "%*s", indent, "");
    for (uint32_t i = 0; i < table->column_count; i++) {
        struct cell name;
        make_cell(table->names[i], true, &name);
        print_column(out, table, i, name.text);
    }
    (void)fputc('\n', out);
}

static bool fit_table(struct table *table, struct hr_span array)
{
    struct hr_unpacker in = {array};
    uint32_t count = 0;
    struct hr_span row;
    if (hr_unpack_array(&in, &count) != HR_OK) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (hr_unpack_skip(&in, &row) != HR_OK || (i == 0 && !begin_table(table, row)) || !fit_row(table, row)) {
            return false;
        }
    }
    return count > 0;
}

static enum hr_err print_list(FILE *out, struct hr_span map, int indent);

/* As a table where its items are alike, else item by item. */
static enum hr_err print_array(FILE *out, struct hr_span array, int indent)
{
    struct table table = {.column_count = 0};
    struct hr_unpacker in = {array};
    uint32_t count = 0;
    bool is_table = fit_table(&table, array);
    enum hr_err err = hr_unpack_array(&in, &count);
    if (is_table) {
        print_table_head(out, &table, indent);
    }
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span item;
        err = hr_unpack_skip(&in, &item);
        if (err == HR_OK && is_table) {
            print_row(out, &table, item, indent);
        } else if (err == HR_OK && head_of(item).kind == HR_KIND_MAP) {
            err = print_list(out, item, indent);
        } else if (err == HR_OK) {
            (void)fprintf(out, "%*s", indent, "");
            err = hr_value_print_flow(out, item);
            (void)fputc('\n', out);
        }
    }
    return err;
}

static enum hr_err print_pair(FILE *out, const struct hr_pair *pair, int indent, int width)
{
    struct hr_head head = head_of(pair->value);
    if (!is_container(pair->value)) {
        print_key(out, pair->key, indent, width);
        (void)fputs("  ", out);
        print_cell(out, pair->value);
        print_wait(out, pair);
        (void)fputc('\n', out);
        return HR_OK;
    }
    print_key(out, pair->key, indent, 0);
    (void)fputs(head.length == 0 ? "  none\n" : ":\n", out);
    if (head.length == 0) {
        return HR_OK;
    }
    return head.kind == HR_KIND_MAP ? print_list(out, pair->value, indent + 2)
                                    : print_array(out, pair->value, indent + 2);
}

/* Goes no deeper than HR_NESTING_MAX: see hr_value_print. */
static enum hr_err print_list(FILE *out, struct hr_span map, int indent) /* NOLINT(misc-no-recursion) */
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    int width = key_width(map);
    enum hr_err err = hr_pairs_begin(&pairs, map);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        err = print_pair(out, &pair, indent, width);
    }
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}

enum hr_err hr_value_print(FILE *out, struct hr_span map)
{
    struct hr_unpacker in = {map};
    enum hr_err err = hr_unpack_skip(&in, &map); /* it is whole, and nested no deeper than may be */
    return err == HR_OK ? print_list(out, map, 0) : err;
}
