#include "node/catalog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limit.h"
#include "node/limits_yaml.h"

#define PUT_PATH "limits.put"

/* One change at run time. */
struct change {
    char name[HR_LIMIT_NAME_BYTES_MAX];
    size_t name_bytes;
    uint64_t ordinal;
    struct hr_limits_file *file; /* of one limit; NULL: deleted */
    unsigned users;              /* sets that point into it, and the list of changes */
};

/* The file's limits are shared by the sets made of them. */
struct base {
    struct hr_limits_file *file;
    unsigned users;
};

/* A set with all that it points into. */
struct edition {
    struct hr_limit_set set;
    struct base *base;
    struct change **changes; /* in the order of their ordinals */
    uint32_t change_count;
    const struct change *added; /* the one that made it another edition; NULL: a reload did */
    struct hr_limit *limits;
    void *memory;
};

struct hr_catalog {
    char *path; /* NULL: none */
    struct edition *before, *current, *prepared;
    struct change **restored; /* at start, until the edition of them all is made */
    uint32_t restored_count;
};

/* --- what several sets share --- */

static void release_base(struct base *base)
{
    if (base != NULL && --base->users == 0) {
        hr_limits_file_free(base->file);
        free(base);
    }
}

static void release_change(struct change *change)
{
    if (change != NULL && --change->users == 0) {
        hr_limits_file_free(change->file);
        free(change);
    }
}

static void edition_free(struct edition *edition)
{
    if (edition == NULL) {
        return;
    }
    for (uint32_t i = 0; i < edition->change_count; i++) {
        release_change(edition->changes[i]);
    }
    release_base(edition->base);
    free(edition->changes);
    free(edition->limits);
    free(edition->memory);
    free(edition);
}

static void out_of_memory(struct hr_problem *problem)
{
    hr_problem_what(problem, "not enough memory for the limits");
    hr_problem_where(problem, "limits");
}

/* --- making a set --- */

static struct hr_span name_of(const struct change *change)
{
    return (struct hr_span){change->name, change->name_bytes};
}

static const struct change *change_of(const struct edition *edition, struct hr_span name)
{
    for (uint32_t i = 0; i < edition->change_count; i++) {
        if (hr_span_equal(name_of(edition->changes[i]), name)) {
            return edition->changes[i];
        }
    }
    return NULL;
}

static bool is_in_base(const struct edition *edition, struct hr_span name)
{
    for (uint32_t i = 0; i < edition->base->file->limit_count; i++) {
        if (hr_span_equal(edition->base->file->limits[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* The file's limits in its order, each as it was changed; then those that only were put. */
static uint32_t merge(const struct edition *edition, struct hr_limit *limits)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < edition->base->file->limit_count; i++) {
        const struct hr_limit *limit = &edition->base->file->limits[i];
        const struct change *change = edition->change_count > 0 ? change_of(edition, limit->name) : NULL;
        if (change == NULL) {
            limits[count++] = *limit;
        } else if (change->file != NULL) {
            limits[count++] = change->file->limits[0];
        }
    }
    for (uint32_t i = 0; i < edition->change_count; i++) {
        const struct change *change = edition->changes[i];
        if (change->file != NULL && !is_in_base(edition, name_of(change))) {
            limits[count++] = change->file->limits[0];
        }
    }
    return count;
}

/* How many limits every request touches. */
static uint32_t touch_all(const struct hr_limit *limits, uint32_t count)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += limits[i].key_count == 0 && limits[i].when_count == 0;
    }
    return all;
}

static bool compile(struct edition *edition, struct hr_problem *problem)
{
    size_t most = (size_t)edition->base->file->limit_count + edition->change_count + 1;
    edition->limits = calloc(most, sizeof(*edition->limits));
    if (edition->limits == NULL) {
        out_of_memory(problem);
        return false;
    }
    uint32_t count = merge(edition, edition->limits);
    if (count > HR_LIMITS_MAX) {
        hr_problem_what(problem, "a node has at most %d limits", HR_LIMITS_MAX);
        hr_problem_where(problem, PUT_PATH);
        return false;
    }
    if (touch_all(edition->limits, count) > HR_TOUCHED_MAX) {
        hr_problem_what(problem, "more than %d limits have neither key nor when, and no request may touch so many",
                        HR_TOUCHED_MAX);
        hr_problem_where(problem, PUT_PATH);
        return false;
    }
    size_t bytes = hr_limit_set_bytes(edition->limits, count);
    edition->memory = malloc(bytes + 1);
    if (edition->memory == NULL ||
        hr_limit_set_build(&edition->set, edition->limits, count, edition->memory, bytes) != HR_OK) {
        out_of_memory(problem);
        return false;
    }
    return true;
}

/* Puts a change, which it shares, in its place. */
static void insert(struct edition *edition, struct change *change)
{
    uint32_t at = edition->change_count++;
    for (; at > 0 && edition->changes[at - 1]->ordinal > change->ordinal; at--) {
        edition->changes[at] = edition->changes[at - 1];
    }
    edition->changes[at] = change;
    change->users++;
}

/* An edition of these parts, which it shares; `added` (or NULL) takes the place of the change of its name. */
static struct edition *edition_new(struct base *base, const struct edition *from, struct change *added,
                                   struct hr_problem *problem)
{
    struct edition *edition = calloc(1, sizeof(*edition));
    uint32_t old_count = from == NULL ? 0 : from->change_count;
    if (edition != NULL) {
        edition->changes = calloc((size_t)old_count + 1, sizeof(struct change *));
    }
    if (edition == NULL || edition->changes == NULL) {
        free(edition);
        out_of_memory(problem);
        return NULL;
    }
    edition->base = base;
    base->users++;
    for (uint32_t i = 0; i < old_count; i++) {
        bool is_replaced = added != NULL && hr_span_equal(name_of(from->changes[i]), name_of(added));
        if (!is_replaced) {
            insert(edition, from->changes[i]);
        }
    }
    if (added != NULL) {
        insert(edition, added);
        edition->added = added;
    }
    if (!compile(edition, problem)) {
        edition_free(edition);
        return NULL;
    }
    return edition;
}

static const struct hr_limit_set *prepare(struct hr_catalog *catalog, struct edition *edition)
{
    edition_free(catalog->prepared);
    catalog->prepared = edition;
    return edition == NULL ? NULL : &edition->set;
}

/* --- the outside --- */

static struct base *read_base(const char *path, struct hr_problem *problem)
{
    struct base *base = calloc(1, sizeof(*base));
    if (base == NULL) {
        out_of_memory(problem);
        return NULL;
    }
    base->file = path == NULL ? hr_limits_file_parse(HR_SPAN("limits: []\n"), "no limits file", problem)
                              : hr_limits_file_load(path, problem);
    if (base->file == NULL) {
        free(base);
        return NULL;
    }
    base->users = 1;
    return base;
}

const struct hr_limit_set *hr_catalog_prepare_reload(struct hr_catalog *catalog, struct hr_problem *ret_problem)
{
    struct base *base = read_base(catalog->path, ret_problem);
    if (base == NULL) {
        return NULL;
    }
    const struct hr_limit_set *set = prepare(catalog, edition_new(base, catalog->current, NULL, ret_problem));
    release_base(base); /* the edition holds it, if there is one */
    return set;
}

struct hr_catalog *hr_catalog_new(const char *limits_path, struct hr_problem *ret_problem)
{
    struct hr_catalog *catalog = calloc(1, sizeof(*catalog));
    char *path = limits_path == NULL ? NULL : strdup(limits_path);
    if (catalog == NULL || (limits_path != NULL && path == NULL)) {
        free(catalog);
        free(path);
        out_of_memory(ret_problem);
        return NULL;
    }
    catalog->path = path;
    if (hr_catalog_prepare_reload(catalog, ret_problem) == NULL) {
        hr_catalog_free(catalog);
        return NULL;
    }
    hr_catalog_commit(catalog);
    return catalog;
}

static void free_restored(struct hr_catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->restored_count; i++) {
        release_change(catalog->restored[i]);
    }
    free(catalog->restored);
    catalog->restored = NULL;
    catalog->restored_count = 0;
}

void hr_catalog_free(struct hr_catalog *catalog)
{
    if (catalog == NULL) {
        return;
    }
    free_restored(catalog);
    edition_free(catalog->before);
    edition_free(catalog->current);
    edition_free(catalog->prepared);
    free(catalog->path);
    free(catalog);
}

const struct hr_limit_set *hr_catalog_set(const struct hr_catalog *catalog)
{
    return &catalog->current->set;
}

/* Reads one limit in JSON with the limits file's own reader. */
static struct hr_limits_file *read_one(struct hr_span json, struct hr_problem *problem)
{
    static const char head[] = "{\"limits\":[", tail[] = "]}";
    size_t bytes = sizeof(head) - 1 + json.bytes + sizeof(tail) - 1;
    char *text = malloc(bytes + 1);
    if (text == NULL) {
        out_of_memory(problem);
        return NULL;
    }
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1, json.at, json.bytes);
    memcpy(text + sizeof(head) - 1 + json.bytes, tail, sizeof(tail));
    struct hr_limits_file *file = hr_limits_file_parse((struct hr_span){text, bytes}, PUT_PATH, problem);
    free(text);
    if (file != NULL && file->limit_count != 1) {
        hr_problem_what(problem, "expected one limit");
        hr_problem_where(problem, PUT_PATH);
        hr_limits_file_free(file);
        return NULL;
    }
    return file;
}

/* Takes the file, also on failure. */
static struct change *change_new(uint64_t ordinal, struct hr_span name, struct hr_limits_file *file,
                                 struct hr_problem *problem)
{
    struct change *change = calloc(1, sizeof(*change));
    if (change == NULL) {
        hr_limits_file_free(file);
        out_of_memory(problem);
        return NULL;
    }
    change->ordinal = ordinal;
    change->name_bytes = name.bytes;
    memcpy(change->name, name.at, name.bytes);
    change->file = file;
    change->users = 1;
    return change;
}

/* Takes the change, which may be NULL. */
static const struct hr_limit_set *prepare_change(struct hr_catalog *catalog, struct change *change,
                                                 struct hr_problem *problem)
{
    if (change == NULL) {
        return NULL;
    }
    const struct edition *from = catalog->current;
    const struct hr_limit_set *set = prepare(catalog, edition_new(from->base, from, change, problem));
    release_change(change);
    return set;
}

const struct hr_limit_set *hr_catalog_prepare_put(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span json,
                                                  struct hr_problem *ret_problem)
{
    struct hr_limits_file *file = read_one(json, ret_problem);
    if (file == NULL) {
        return NULL;
    }
    struct change *change = change_new(ordinal, file->limits[0].name, file, ret_problem);
    return prepare_change(catalog, change, ret_problem);
}

const struct hr_limit_set *hr_catalog_prepare_delete(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span name,
                                                     struct hr_problem *ret_problem)
{
    return prepare_change(catalog, change_new(ordinal, name, NULL, ret_problem), ret_problem);
}

struct hr_span hr_catalog_put_name(const struct hr_catalog *catalog)
{
    return name_of(catalog->prepared->added);
}

bool hr_catalog_is_in_file(const struct hr_catalog *catalog, struct hr_span name)
{
    return is_in_base(catalog->current, name);
}

void hr_catalog_commit(struct hr_catalog *catalog)
{
    edition_free(catalog->before);
    catalog->before = catalog->current;
    catalog->current = catalog->prepared;
    catalog->prepared = NULL;
}

/* Puts the change into the list that the one edition at the end is made of. Takes the change. */
static bool collect(struct hr_catalog *catalog, struct change *change, struct hr_problem *problem)
{
    uint32_t count = catalog->restored_count;
    struct change **changes = realloc(catalog->restored, ((size_t)count + 1) * sizeof(*changes));
    if (changes == NULL) {
        release_change(change);
        out_of_memory(problem);
        return false;
    }
    catalog->restored = changes;
    changes[catalog->restored_count++] = change;
    return true;
}

static int by_ordinal(const void *a, const void *b)
{
    const struct change *const *left = a, *const *right = b;
    return ((*left)->ordinal > (*right)->ordinal) - ((*left)->ordinal < (*right)->ordinal);
}

bool hr_catalog_restore(struct hr_catalog *catalog, uint64_t ordinal, struct hr_span name, struct hr_span json,
                        struct hr_problem *ret_problem)
{
    struct hr_limits_file *file = NULL;
    if (!hr_limit_name_is_valid(name)) {
        hr_problem_what(ret_problem, "a limit in the store has no valid name");
        hr_problem_where(ret_problem, "the store");
        return false;
    }
    if (json.bytes > 0) {
        file = read_one(json, ret_problem);
        if (file == NULL) {
            return false;
        }
    }
    struct change *change = change_new(ordinal, name, file, ret_problem);
    return change != NULL && collect(catalog, change, ret_problem);
}

const struct hr_limit_set *hr_catalog_prepare_restored(struct hr_catalog *catalog, struct hr_problem *ret_problem)
{
    if (catalog->restored_count > 0) {
        qsort(catalog->restored, catalog->restored_count, sizeof(struct change *), by_ordinal);
    }
    const struct edition restored = {.changes = catalog->restored, .change_count = catalog->restored_count};
    const struct hr_limit_set *set =
        prepare(catalog, edition_new(catalog->current->base, &restored, NULL, ret_problem));
    free_restored(catalog); /* the edition holds them, if there is one */
    return set;
}
