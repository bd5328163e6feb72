#include "node/command/requests_jansson.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A valid line holds at most 32 pairs of a 64-byte name and a 1,024-byte value. Written wholly in escapes, with
 * jansson's nodes, tables and scratch around them, that is below 300 KiB. So a line that outgrows the arena is
 * malformed, whatever is in it. */
#define ARENA_BYTES ((size_t)512 * 1024)
#define ARENA_ALIGNMENT 16

struct hr_request_decoder {
    size_t used;
    bool outgrown; /* something found no room: what was read cannot be trusted, as jansson may have cut it short */
    struct hr_attribute attributes[HR_ATTRIBUTES_MAX];
    _Alignas(ARENA_ALIGNMENT) char arena[ARENA_BYTES];
};

/* What one line is read into. `seen` has the bit of each key that the line had. */
struct reading {
    struct hr_request_decoder *decoder;
    struct hr_request_line line;
    uint64_t number;
    unsigned seen;
    struct hr_problem *problem;
};

enum {
    SAW_AT = 1,
    SAW_ATTRIBUTES = 2,
    SAW_COST = 4,
    SAW_PEEK = 8,
    SAW_OP = 16,
    SAW_LINE = 32,
};

/* jansson knows one allocator for the whole process and hands it no context. Within a decode, this thread's is the
 * decoder's arena; at any other time, and in any other thread, it is the heap. */
static _Thread_local struct hr_request_decoder *active;

static void *take(size_t bytes)
{
    if (active == NULL) {
        return malloc(bytes);
    }
    size_t room = ARENA_BYTES - active->used;
    if (bytes > room) {
        active->outgrown = true;
        return NULL;
    }
    void *at = active->arena + active->used;
    size_t rounded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    active->used += rounded < room ? rounded : room;
    return at;
}

/* The arena is given back as a whole, when the next line is decoded. */
static void give_back(void *at)
{
    if (active == NULL) {
        free(at);
    }
}

struct hr_request_decoder *hr_request_decoder_new(void)
{
    json_set_alloc_funcs(take, give_back);
    return aligned_alloc(_Alignof(struct hr_request_decoder), sizeof(struct hr_request_decoder));
}

void hr_request_decoder_free(struct hr_request_decoder *decoder)
{
    free(decoder);
}

static bool read_integer(const json_t *value, int64_t min, int64_t max, int64_t *ret_number)
{
    if (!json_is_integer(value)) {
        return false;
    }
    int64_t number = json_integer_value(value);
    if (number < min || number > max) {
        return false;
    }
    *ret_number = number;
    return true;
}

static bool read_at(struct reading *r, json_t *value)
{
    const int64_t max = HR_TIME_NS_MAX / HR_NS_PER_US;
    if (!read_integer(value, 0, max, &r->line.at_us)) {
        hr_problem_what(r->problem, "at_us must be a whole number from 0 to %lld", (long long)max);
        return false;
    }
    return true;
}

static bool read_cost(struct reading *r, json_t *value)
{
    int64_t cost = 0;
    if (!read_integer(value, 0, (int64_t)HR_COST_MAX, &cost)) {
        hr_problem_what(r->problem, "cost must be a whole number from 0 to %llu", (unsigned long long)HR_COST_MAX);
        return false;
    }
    r->line.request.cost = (uint64_t)cost;
    return true;
}

static bool read_peek(struct reading *r, json_t *value)
{
    if (!json_is_boolean(value)) {
        hr_problem_what(r->problem, "peek must be true or false");
        return false;
    }
    r->line.request.peek = json_is_true(value);
    return true;
}

static bool read_op(struct reading *r, json_t *value)
{
    if (!json_is_string(value) || strcmp(json_string_value(value), "release") != 0) {
        hr_problem_what(r->problem, "op must be \"release\"");
        return false;
    }
    return true;
}

static bool read_line(struct reading *r, json_t *value)
{
    int64_t line = 0;
    if (!read_integer(value, 1, (int64_t)r->number - 1, &line)) {
        hr_problem_what(r->problem, "line must be the number of an earlier line");
        return false;
    }
    r->line.release_line = (uint64_t)line;
    return true;
}

static bool read_attribute(struct reading *r, struct hr_span name, const json_t *value)
{
    if (!hr_attribute_name_is_valid(name)) {
        hr_problem_what(r->problem, "an attribute's name must be 1 to 64 of a-z, 0-9, _ . -, not \"%.*s\"",
                        (int)(name.bytes < 80 ? name.bytes : 80), name.at);
        return false;
    }
    if (!json_is_string(value)) {
        hr_problem_what(r->problem, "attribute %s must be a string", name.at);
        return false;
    }
    struct hr_span text = {json_string_value(value), json_string_length(value)};
    if (!hr_attribute_value_is_valid(text)) {
        hr_problem_what(r->problem, "attribute %s must be at most %d bytes", name.at, HR_ATTRIBUTE_VALUE_BYTES_MAX);
        return false;
    }
    r->decoder->attributes[r->line.request.attribute_count++] = (struct hr_attribute){name, text};
    return true;
}

static bool read_attributes(struct reading *r, json_t *value)
{
    if (!json_is_object(value)) {
        hr_problem_what(r->problem, "attributes must be an object");
        return false;
    }
    if (json_object_size(value) < 1 || json_object_size(value) > HR_ATTRIBUTES_MAX) {
        hr_problem_what(r->problem, "attributes must hold 1 to %d pairs, not %zu", HR_ATTRIBUTES_MAX,
                        json_object_size(value));
        return false;
    }
    r->line.request.attributes = r->decoder->attributes;
    for (void *i = json_object_iter(value); i != NULL; i = json_object_iter_next(value, i)) {
        struct hr_span name = {json_object_iter_key(i), json_object_iter_key_len(i)};
        if (!read_attribute(r, name, json_object_iter_value(i))) {
            return false;
        }
    }
    return true;
}

static const struct field {
    const char *name;
    unsigned saw;
    bool (*read)(struct reading *r, json_t *value);
} fields[] = {
    {"at_us", SAW_AT, read_at},    {"attributes", SAW_ATTRIBUTES, read_attributes},
    {"cost", SAW_COST, read_cost}, {"peek", SAW_PEEK, read_peek},
    {"op", SAW_OP, read_op},       {"line", SAW_LINE, read_line},
};

static const struct field *find_field(const char *name)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool read_fields(struct reading *r, json_t *root)
{
    for (void *i = json_object_iter(root); i != NULL; i = json_object_iter_next(root, i)) {
        const char *name = json_object_iter_key(i);
        const struct field *field = find_field(name);
        if (field == NULL) {
            hr_problem_what(r->problem, "unknown key \"%.80s\"", name);
            return false;
        }
        if (!field->read(r, json_object_iter_value(i))) {
            return false;
        }
        r->seen |= field->saw;
    }
    return true;
}

/* Each key was fine by itself; together they must be a check or a release. */
static bool is_whole(struct reading *r)
{
    const unsigned release = SAW_AT | SAW_OP | SAW_LINE;
    const unsigned check = SAW_AT | SAW_ATTRIBUTES | SAW_COST | SAW_PEEK;
    bool is_release = (r->seen & SAW_OP) != 0;
    unsigned required = is_release ? release : SAW_AT | SAW_ATTRIBUTES;
    unsigned allowed = is_release ? release : check;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if ((required & ~r->seen & fields[i].saw) != 0) {
            hr_problem_what(r->problem, "%s is missing", fields[i].name);
            return false;
        }
        if ((r->seen & ~allowed & fields[i].saw) != 0) {
            hr_problem_what(r->problem, "%s has no place in a %s", fields[i].name, is_release ? "release" : "check");
            return false;
        }
    }
    return true;
}

static bool read_root(struct reading *r, json_t *root)
{
    if (!json_is_object(root)) {
        hr_problem_what(r->problem, "a request must be a JSON object");
        return false;
    }
    return read_fields(r, root) && is_whole(r);
}

static bool is_blank(struct hr_span line)
{
    for (size_t i = 0; i < line.bytes; i++) {
        if (strchr(" \t\r\n", line.at[i]) == NULL || line.at[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* NULL, with the problem's words, where the line is no JSON. */
static json_t *load(struct hr_request_decoder *decoder, struct hr_span line, struct hr_problem *problem)
{
    if (line.bytes > HR_REQUEST_LINE_BYTES_MAX) {
        hr_problem_what(problem, "a line may hold at most %zu bytes", HR_REQUEST_LINE_BYTES_MAX);
        return NULL;
    }
    if (is_blank(line)) {
        hr_problem_what(problem, "the line is blank");
        return NULL;
    }
    json_error_t error;
    json_t *root = json_loadb(line.at, line.bytes, JSON_REJECT_DUPLICATES, &error);
    if (decoder->outgrown) {
        hr_problem_what(problem, "the line holds more than any request can");
        return NULL;
    }
    if (root == NULL) {
        hr_problem_what(problem, "not valid JSON: %s", error.text);
    }
    return root;
}

enum hr_err hr_request_decode(struct hr_request_decoder *decoder, struct hr_span line, uint64_t number,
                              struct hr_request_line *ret_line, struct hr_problem *ret_problem)
{
    struct reading r = {
        .decoder = decoder,
        .line.request = {.cost = 1, .serial = number},
        .number = number,
        .problem = ret_problem,
    };
    decoder->used = 0;
    decoder->outgrown = false;
    active = decoder;
    json_t *root = load(decoder, line, ret_problem);
    bool good = root != NULL && read_root(&r, root);
    active = NULL;
    if (!good) {
        return HR_E_INVALID;
    }
    *ret_line = r.line;
    return HR_OK;
}
