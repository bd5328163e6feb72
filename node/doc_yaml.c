#include "node/doc_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "node/file_bytes.h"

#define NODES_COUNT_FIRST 256
#define SHOWN_BYTES_MAX 64  /* of the input in a message: leaves room for the rest of it */
#define NAMES_BYTES_MAX 384 /* of a list of expected words in a message */

struct node {
    uint8_t kind; /* enum hr_doc_kind */
    bool is_plain;
    uint32_t line, column; /* from 1 */
    uint32_t count;        /* items or pairs */
    hr_doc_node first;     /* item or key of a list or map */
    hr_doc_node next;      /* item or key beside this one */
    hr_doc_node value;     /* of a key */
    uint32_t text_bytes;
    char *text; /* owned by the node; NULL for a list or map */
};

struct hr_doc {
    char *path;
    struct node *nodes; /* [0] is not used, so that 0 can name no node */
    uint32_t node_count, node_room;
};

/* A list or map whose end has not come yet. */
struct level {
    hr_doc_node node;
    hr_doc_node last; /* item or key */
    bool is_value_due;
};

struct builder {
    struct hr_doc *doc;
    struct hr_problem *problem;
    struct hr_span text;
    yaml_parser_t parser;
    uint32_t depth, document_count;
    struct level levels[HR_DOC_DEPTH_MAX];
};

static const struct node *node_of(const struct hr_doc *doc, hr_doc_node node)
{
    return &doc->nodes[node];
}

/* Problems. */

static bool fault_at(const struct hr_doc *doc, size_t line, size_t column, struct hr_problem *problem)
{
    hr_problem_where(problem, "%s:%zu:%zu", doc->path, line, column);
    return false;
}

static bool fault_at_mark(const struct builder *builder, yaml_mark_t mark)
{
    return fault_at(builder->doc, mark.line + 1, mark.column + 1, builder->problem);
}

void hr_doc_where(const struct hr_doc *doc, hr_doc_node node, struct hr_problem *ret_problem)
{
    (void)fault_at(doc, node_of(doc, node)->line, node_of(doc, node)->column, ret_problem);
}

bool hr_doc_fault(const struct hr_doc *doc, hr_doc_node node, struct hr_problem *ret_problem, const char *format, ...)
{
    char what[sizeof(ret_problem->what)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args); /* a cut line is still a line */
    va_end(args);
    hr_problem_what(ret_problem, "%s", what);
    hr_doc_where(doc, node, ret_problem);
    return false;
}

/* Cut between characters: never before a continuation byte of UTF-8. */
int hr_doc_shown(struct hr_span text)
{
    size_t bytes = SHOWN_BYTES_MAX;
    if (text.bytes <= bytes) {
        return (int)text.bytes;
    }
    while (bytes > 0 && ((unsigned char)text.at[bytes] & 0xc0) == 0x80) {
        bytes--;
    }
    return (int)bytes;
}

/* The reader of raw bytes counts them, not lines. Continuation bytes of UTF-8 make no column. */
static bool fault_at_byte(const struct builder *builder, size_t offset)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < offset && i < builder->text.bytes; i++) {
        unsigned char byte = (unsigned char)builder->text.at[i];
        if (byte == '\n') {
            line++;
            column = 1;
        } else if ((byte & 0xc0) != 0x80) {
            column++;
        }
    }
    return fault_at(builder->doc, line, column, builder->problem);
}

/* libyaml says of a tab only that it "cannot start any token". */
static bool is_tab_before(struct hr_span text, yaml_mark_t mark)
{
    const char *at = text.at, *end = text.at + text.bytes;
    for (size_t line = 0; line < mark.line && at != NULL; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at == NULL ? NULL : at + 1;
    }
    while (at != NULL && at < end && *at == ' ') {
        at++;
    }
    return at != NULL && at < end && *at == '\t';
}

static bool fault_of_parser(struct builder *builder)
{
    const yaml_parser_t *parser = &builder->parser;
    const char *problem = parser->problem == NULL ? "no reason is known" : parser->problem;
    if (parser->error == YAML_MEMORY_ERROR) {
        hr_problem_what(builder->problem, "not enough memory to read the file");
        return fault_at_byte(builder, 0);
    }
    if (parser->error == YAML_READER_ERROR) {
        hr_problem_what(builder->problem, "not valid YAML: %s", problem);
        return fault_at_byte(builder, parser->problem_offset);
    }
    if (is_tab_before(builder->text, parser->problem_mark)) {
        hr_problem_what(builder->problem, "not valid YAML: a tab where YAML wants spaces");
    } else {
        hr_problem_what(builder->problem, "not valid YAML: %s%s%s", problem, parser->context == NULL ? "" : " ",
                        parser->context == NULL ? "" : parser->context);
    }
    return fault_at_mark(builder, parser->problem_mark);
}

/* Building: one event of the parser after the other, each held against the bounds before anything is kept of it. */

static bool grow(struct hr_doc *doc)
{
    if (doc->node_count < doc->node_room) {
        return true;
    }
    uint32_t room = doc->node_room == 0 ? NODES_COUNT_FIRST : doc->node_room * 2;
    struct node *nodes = realloc(doc->nodes, room * sizeof(*nodes));
    if (nodes == NULL) {
        return false;
    }
    doc->nodes = nodes;
    doc->node_room = room;
    return true;
}

static bool node_new(struct builder *builder, const yaml_event_t *event, enum hr_doc_kind kind, hr_doc_node *ret_node)
{
    struct hr_doc *doc = builder->doc;
    if (doc->node_count > HR_DOC_NODES_MAX) {
        hr_problem_what(builder->problem, "the file has more than %d values", HR_DOC_NODES_MAX);
        return fault_at_mark(builder, event->start_mark);
    }
    if (!grow(doc)) {
        hr_problem_what(builder->problem, "not enough memory to read the file");
        return fault_at_mark(builder, event->start_mark);
    }
    *ret_node = doc->node_count++;
    doc->nodes[*ret_node] = (struct node){.kind = (uint8_t)kind,
                                          .line = (uint32_t)event->start_mark.line + 1,
                                          .column = (uint32_t)event->start_mark.column + 1};
    return true;
}

static bool add_to_map(struct builder *builder, struct level *level, hr_doc_node node)
{
    struct node *nodes = builder->doc->nodes;
    if (level->is_value_due) {
        nodes[level->last].value = node;
        level->is_value_due = false;
        return true;
    }
    if (nodes[node].kind != HR_DOC_SCALAR) {
        return hr_doc_fault(builder->doc, node, builder->problem, "a key must be text");
    }
    level->is_value_due = true;
    return true;
}

/* Hangs a new node under the list or map that is open. */
static bool add(struct builder *builder, hr_doc_node node)
{
    if (builder->depth == 0) {
        return true; /* the root */
    }
    struct level *level = &builder->levels[builder->depth - 1];
    struct node *nodes = builder->doc->nodes;
    if (nodes[level->node].kind == HR_DOC_MAP) {
        bool is_value = level->is_value_due;
        if (!add_to_map(builder, level, node)) {
            return false;
        }
        if (is_value) {
            return true;
        }
    }
    if (level->last == 0) {
        nodes[level->node].first = node;
    } else {
        nodes[level->last].next = node;
    }
    level->last = node;
    nodes[level->node].count++;
    return true;
}

static bool on_scalar(struct builder *builder, yaml_event_t *event)
{
    hr_doc_node node;
    if (!node_new(builder, event, HR_DOC_SCALAR, &node)) {
        return false;
    }
    struct node *scalar = &builder->doc->nodes[node];
    scalar->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    scalar->text_bytes = (uint32_t)event->data.scalar.length; /* no longer than the file */
    scalar->text = (char *)event->data.scalar.value;
    event->data.scalar.value = NULL; /* moved */
    return add(builder, node);
}

static bool on_start(struct builder *builder, const yaml_event_t *event, enum hr_doc_kind kind)
{
    if (builder->depth == HR_DOC_DEPTH_MAX) {
        hr_problem_what(builder->problem, "lists and maps are nested deeper than %d", HR_DOC_DEPTH_MAX);
        return fault_at_mark(builder, event->start_mark);
    }
    hr_doc_node node;
    if (!node_new(builder, event, kind, &node) || !add(builder, node)) {
        return false;
    }
    builder->levels[builder->depth++] = (struct level){.node = node};
    return true;
}

static bool on_document(struct builder *builder, const yaml_event_t *event)
{
    if (builder->document_count == 1) {
        hr_problem_what(builder->problem, "a second YAML document begins here; a file holds one");
        return fault_at_mark(builder, event->start_mark);
    }
    builder->document_count = 1;
    return true;
}

static const yaml_char_t *tag_of(const yaml_event_t *event)
{
    switch ((int)event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag;
    default:
        return NULL;
    }
}

static bool on_event(struct builder *builder, yaml_event_t *event)
{
    if (tag_of(event) != NULL) {
        hr_problem_what(builder->problem, "YAML tags (!...) are not supported");
        return fault_at_mark(builder, event->start_mark);
    }
    switch ((int)event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(builder, event);
    case YAML_ALIAS_EVENT: /* a few of them, nested, stand for a billion nodes */
        hr_problem_what(builder->problem, "YAML aliases (*...) are not supported");
        return fault_at_mark(builder, event->start_mark);
    case YAML_SCALAR_EVENT:
        return on_scalar(builder, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(builder, event, HR_DOC_LIST);
    case YAML_MAPPING_START_EVENT:
        return on_start(builder, event, HR_DOC_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        builder->depth--;
        return true;
    default:
        return true;
    }
}

static bool build(struct builder *builder)
{
    for (;;) {
        yaml_event_t event;
        if (yaml_parser_parse(&builder->parser, &event) == 0) {
            return fault_of_parser(builder);
        }
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        bool is_good = on_event(builder, &event);
        yaml_event_delete(&event);
        if (!is_good) {
            return false;
        }
        if (is_end) {
            break;
        }
    }
    if (builder->doc->node_count == 1 || hr_doc_is_null(builder->doc, hr_doc_root(builder->doc))) {
        hr_problem_what(builder->problem, "the file is empty");
        return fault_at_byte(builder, 0);
    }
    return true;
}

static struct hr_doc *doc_new(const char *path)
{
    struct hr_doc *doc = calloc(1, sizeof(*doc));
    if (doc == NULL) {
        return NULL;
    }
    doc->path = strdup(path);
    if (doc->path == NULL || !grow(doc)) {
        hr_doc_free(doc);
        return NULL;
    }
    doc->nodes[0] = (struct node){0};
    doc->node_count = 1;
    return doc;
}

static struct hr_doc *fail(struct hr_doc *doc, const char *path, struct hr_problem *ret_problem, const char *what)
{
    hr_problem_what(ret_problem, "%s", what);
    hr_problem_where(ret_problem, "%s", path);
    hr_doc_free(doc);
    return NULL;
}

struct hr_doc *hr_doc_parse(struct hr_span text, const char *path, struct hr_problem *ret_problem)
{
    if (text.bytes > HR_DOC_BYTES_MAX) {
        return fail(NULL, path, ret_problem, "the file is too long");
    }
    struct hr_doc *doc = doc_new(path);
    struct builder builder = {.doc = doc, .problem = ret_problem, .text = text};
    if (doc == NULL || yaml_parser_initialize(&builder.parser) == 0) {
        return fail(doc, path, ret_problem, "not enough memory to read the file");
    }
    /* Left to itself, libyaml would read UTF-16 too, and its offsets would no longer be ours. */
    yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text.at, text.bytes);
    bool is_built = build(&builder);
    yaml_parser_delete(&builder.parser);
    if (!is_built) {
        hr_doc_free(doc);
        return NULL;
    }
    return doc;
}

struct hr_doc *hr_doc_load(const char *path, struct hr_problem *ret_problem)
{
    struct hr_file_bytes file;
    if (!hr_file_read(path, HR_DOC_BYTES_MAX, &file, ret_problem)) {
        return NULL;
    }
    struct hr_doc *doc = hr_doc_parse((struct hr_span){file.at, file.bytes}, path, ret_problem);
    free(file.at);
    return doc;
}

void hr_doc_free(struct hr_doc *doc)
{
    if (doc == NULL) {
        return;
    }
    for (uint32_t i = 1; i < doc->node_count; i++) {
        free(doc->nodes[i].text);
    }
    free(doc->nodes);
    free(doc->path);
    free(doc);
}

/* Walking. */

hr_doc_node hr_doc_root(const struct hr_doc *doc)
{
    (void)doc; /* every doc that comes out of parse has one, and it came first */
    return 1;
}

enum hr_doc_kind hr_doc_kind(const struct hr_doc *doc, hr_doc_node node)
{
    return (enum hr_doc_kind)node_of(doc, node)->kind;
}

uint32_t hr_doc_count(const struct hr_doc *doc, hr_doc_node node)
{
    return node_of(doc, node)->count;
}

hr_doc_node hr_doc_first(const struct hr_doc *doc, hr_doc_node list_or_map)
{
    return node_of(doc, list_or_map)->first;
}

hr_doc_node hr_doc_next(const struct hr_doc *doc, hr_doc_node item_or_key)
{
    return node_of(doc, item_or_key)->next;
}

hr_doc_node hr_doc_value(const struct hr_doc *doc, hr_doc_node key)
{
    return node_of(doc, key)->value;
}

uint32_t hr_doc_line(const struct hr_doc *doc, hr_doc_node node)
{
    return node_of(doc, node)->line;
}

struct hr_span hr_doc_text(const struct hr_doc *doc, hr_doc_node node)
{
    const struct node *scalar = node_of(doc, node);
    return scalar->text == NULL ? HR_SPAN("") : (struct hr_span){scalar->text, scalar->text_bytes};
}

bool hr_doc_is_null(const struct hr_doc *doc, hr_doc_node node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    if (hr_doc_kind(doc, node) != HR_DOC_SCALAR || !node_of(doc, node)->is_plain) {
        return false;
    }
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
        if (hr_span_equal(hr_doc_text(doc, node), hr_span_of(nulls[i]))) {
            return true;
        }
    }
    return false;
}

/* Typed reading. */

static bool find_word(const struct hr_doc_keys *words, struct hr_span text, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (hr_span_equal(text, hr_span_of(words->names[i]))) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

/* "a, b, c", cut where it would not fit. */
static void join_words(const struct hr_doc_keys *words, char ret_text[NAMES_BYTES_MAX])
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < words->count && used < NAMES_BYTES_MAX; i++) {
        int count = snprintf(ret_text + used, NAMES_BYTES_MAX - used, "%s%s", i == 0 ? "" : ", ", words->names[i]);
        used += count < 0 ? 0 : (size_t)count;
    }
}

static bool fault_of_key(const struct hr_doc *doc, hr_doc_node key, const struct hr_doc_keys *keys,
                         struct hr_problem *ret_problem)
{
    char names[NAMES_BYTES_MAX];
    struct hr_span text = hr_doc_text(doc, key);
    join_words(keys, names);
    return hr_doc_fault(doc, key, ret_problem, "unknown key \"%.*s\" in %s; expected: %s", hr_doc_shown(text), text.at,
                        keys->what, names);
}

/* The values found so far tell a key that comes twice; only where it first stood has to be looked for. */
static bool fault_of_twice(const struct hr_doc *doc, hr_doc_node map, hr_doc_node key, struct hr_problem *ret_problem)
{
    struct hr_span text = hr_doc_text(doc, key);
    hr_doc_node first = hr_doc_first(doc, map);
    while (!hr_span_equal(hr_doc_text(doc, first), text)) {
        first = hr_doc_next(doc, first);
    }
    return hr_doc_fault(doc, key, ret_problem, "\"%.*s\" is given twice; it stands already in line %u",
                        hr_doc_shown(text), text.at, hr_doc_line(doc, first));
}

bool hr_doc_fields(const struct hr_doc *doc, hr_doc_node map, const struct hr_doc_keys *keys, hr_doc_node *ret_values,
                   struct hr_problem *ret_problem)
{
    if (!hr_doc_expect(doc, map, HR_DOC_MAP, keys->what, ret_problem)) {
        return false;
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        ret_values[i] = 0;
    }
    for (hr_doc_node key = hr_doc_first(doc, map); key != 0; key = hr_doc_next(doc, key)) {
        uint32_t index = 0;
        if (!find_word(keys, hr_doc_text(doc, key), &index)) {
            return fault_of_key(doc, key, keys, ret_problem);
        }
        if (ret_values[index] != 0) {
            return fault_of_twice(doc, map, key, ret_problem);
        }
        ret_values[index] = hr_doc_value(doc, key);
    }
    return true;
}

bool hr_doc_expect(const struct hr_doc *doc, hr_doc_node node, enum hr_doc_kind kind, const char *what,
                   struct hr_problem *ret_problem)
{
    static const char *const kinds[] = {"a single value", "a list", "a map of keys and values"};
    if (hr_doc_kind(doc, node) == kind) {
        return true;
    }
    const char *found = hr_doc_is_null(doc, node) ? "nothing" : kinds[hr_doc_kind(doc, node)];
    return hr_doc_fault(doc, node, ret_problem, "%s must be %s, not %s", what, kinds[kind], found);
}

bool hr_doc_scalar(const struct hr_doc *doc, hr_doc_node node, const char *what, struct hr_span *ret_text,
                   struct hr_problem *ret_problem)
{
    if (!hr_doc_expect(doc, node, HR_DOC_SCALAR, what, ret_problem)) {
        return false;
    }
    if (hr_doc_is_null(doc, node)) {
        return hr_doc_fault(doc, node, ret_problem, "%s has no value", what);
    }
    *ret_text = hr_doc_text(doc, node);
    return true;
}

static bool parse_number(struct hr_span text, uint64_t max, uint64_t *ret_number)
{
    uint64_t number = 0;
    if (text.bytes > 1 && text.at[0] == '0') {
        return false; /* to some readers of YAML an octal number */
    }
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned digit = (unsigned)(unsigned char)text.at[i] - '0';
        if (digit > 9 || digit > max || number > max / 10 || number * 10 > max - digit) {
            return false;
        }
        number = number * 10 + digit;
    }
    *ret_number = number;
    return text.bytes > 0;
}

bool hr_doc_number(const struct hr_doc *doc, hr_doc_node node, const char *what, uint64_t max, uint64_t *ret_number,
                   struct hr_problem *ret_problem)
{
    struct hr_span text = {0};
    if (!hr_doc_scalar(doc, node, what, &text, ret_problem)) {
        return false;
    }
    if (!parse_number(text, max, ret_number)) {
        return hr_doc_fault(doc, node, ret_problem, "%s must be a whole number from 0 to %llu, not \"%.*s\"", what,
                            (unsigned long long)max, hr_doc_shown(text), text.at);
    }
    return true;
}

bool hr_doc_bool(const struct hr_doc *doc, hr_doc_node node, const char *what, bool *ret_value,
                 struct hr_problem *ret_problem)
{
    static const char *const names[] = {"false", "true"};
    const struct hr_doc_keys words = {what, 2, names};
    uint32_t index = 0;
    if (!hr_doc_choice(doc, node, &words, &index, ret_problem)) {
        return false;
    }
    *ret_value = index == 1;
    return true;
}

bool hr_doc_choice(const struct hr_doc *doc, hr_doc_node node, const struct hr_doc_keys *words, uint32_t *ret_index,
                   struct hr_problem *ret_problem)
{
    struct hr_span text = {0};
    if (!hr_doc_scalar(doc, node, words->what, &text, ret_problem)) {
        return false;
    }
    if (!find_word(words, text, ret_index)) {
        char names[NAMES_BYTES_MAX];
        join_words(words, names);
        return hr_doc_fault(doc, node, ret_problem, "%s must be one of %s, not \"%.*s\"", words->what, names,
                            hr_doc_shown(text), text.at);
    }
    return true;
}
