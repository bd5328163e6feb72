#include "node/command/top.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "node/time_text.h"
#include "rpc/pairs.h"

/* Where the values of a map go. */
struct field {
    const char *key;
    size_t offset;
    size_t bytes; /* of a text and its NUL; 0: a number, or a bool as 0 or 1 */
};

/* What is no printable ASCII becomes '?': it goes to a terminal. */
static void copy_text(struct hr_span text, char *ret_text, size_t bytes_max)
{
    size_t bytes = text.bytes < bytes_max ? text.bytes : bytes_max - 1;
    for (size_t i = 0; i < bytes; i++) {
        ret_text[i] = text.at[i] >= ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    }
    ret_text[bytes] = '\0';
}

/* A value of another kind is left out, as if it were not there. */
static void read_field(const struct field *field, struct hr_span value, char *object)
{
    struct hr_unpacker in = {value};
    struct hr_span text;
    uint64_t number;
    bool flag;
    if (field->bytes > 0 && hr_unpack_text(&in, &text) == HR_OK) {
        copy_text(text, object + field->offset, field->bytes);
    } else if (field->bytes == 0 && hr_unpack_whole(&in, &number) == HR_OK) {
        memcpy(object + field->offset, &number, sizeof(number));
    } else if (field->bytes == 0 && hr_unpack_bool(&in, &flag) == HR_OK) {
        number = flag;
        memcpy(object + field->offset, &number, sizeof(number));
    }
}

static enum hr_err read_fields(struct hr_span map, const struct field *fields, size_t count, void *object)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    enum hr_err err = hr_pairs_begin(&pairs, map);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        for (size_t i = 0; i < count; i++) {
            if (hr_span_equal(pair.key, hr_span_of(fields[i].key))) {
                read_field(&fields[i], pair.value, object);
            }
        }
    }
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}

/* The value under a key; empty where there is none. */
static struct hr_span find(struct hr_span map, struct hr_span key)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    if (hr_pairs_begin(&pairs, map) != HR_OK) {
        return HR_SPAN("");
    }
    while (hr_pairs_next(&pairs, &pair) == HR_OK) {
        if (hr_span_equal(pair.key, key)) {
            return pair.value;
        }
    }
    return HR_SPAN("");
}

/* An array of maps into an array of structs. */
struct rows {
    const struct field *fields;
    size_t field_count;
    char *at;
    size_t row_bytes;
    uint32_t count_max;
};

static enum hr_err read_rows(struct hr_span array, const struct rows *rows, uint32_t *ret_count)
{
    struct hr_unpacker in = {array};
    uint32_t count = 0;
    if (array.bytes == 0) {
        *ret_count = 0;
        return HR_OK;
    }
    enum hr_err err = hr_unpack_array(&in, &count);
    count = count < rows->count_max ? count : rows->count_max;
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span row;
        err = hr_unpack_skip(&in, &row);
        if (err == HR_OK) {
            err = read_fields(row, rows->fields, rows->field_count, rows->at + i * rows->row_bytes);
        }
    }
    *ret_count = err == HR_OK ? count : 0;
    return err;
}

#define TEXT(type, member)                                              \
    {                                                                   \
#member, offsetof(type, member), sizeof(((type *)NULL)->member) \
    }
#define NUMBER(type, member)               \
    {                                      \
#member, offsetof(type, member), 0 \
    }
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Of a node that knows no other region there are none. */
static enum hr_err read_caps(struct hr_span caps, struct hr_top_sample *sample)
{
    static const struct field cap_fields[] = {TEXT(struct hr_top_cap, name),      NUMBER(struct hr_top_cap, home),
                                              NUMBER(struct hr_top_cap, hot),     NUMBER(struct hr_top_cap, reserve),
                                              NUMBER(struct hr_top_cap, lent),    NUMBER(struct hr_top_cap, share),
                                              NUMBER(struct hr_top_cap, borrowed)};
    static const struct field region_fields[] = {TEXT(struct hr_top_region, name), NUMBER(struct hr_top_region, up),
                                                 NUMBER(struct hr_top_region, removed),
                                                 NUMBER(struct hr_top_region, word_age_ms)};
    const struct rows rows = {cap_fields, COUNT_OF(cap_fields), (char *)sample->caps, sizeof(sample->caps[0]),
                              HR_TOP_LIMITS_MAX};
    const struct rows regions = {region_fields, COUNT_OF(region_fields), (char *)sample->regions,
                                 sizeof(sample->regions[0]), HR_TOP_REGIONS_MAX};
    for (uint32_t i = 0; i < HR_TOP_REGIONS_MAX; i++) {
        sample->regions[i].word_age_ms = UINT64_MAX;
    }
    enum hr_err err = read_rows(find(caps, HR_SPAN("limits")), &rows, &sample->cap_count);
    return err == HR_OK ? read_rows(find(caps, HR_SPAN("regions")), &regions, &sample->region_count) : err;
}

enum hr_err hr_top_read_status(struct hr_span answer, struct hr_top_sample *sample)
{
    static const struct field fields[] = {
        TEXT(struct hr_top_sample, node),         TEXT(struct hr_top_sample, region),
        TEXT(struct hr_top_sample, version),      NUMBER(struct hr_top_sample, uptime_ms),
        NUMBER(struct hr_top_sample, decisions),  NUMBER(struct hr_top_sample, denied),
        NUMBER(struct hr_top_sample, counters),   NUMBER(struct hr_top_sample, counters_max),
        NUMBER(struct hr_top_sample, leases),     NUMBER(struct hr_top_sample, leases_max),
        NUMBER(struct hr_top_sample, connections)};
    static const struct field limit_fields[] = {TEXT(struct hr_top_limit, name), TEXT(struct hr_top_limit, mode),
                                                NUMBER(struct hr_top_limit, admitted),
                                                NUMBER(struct hr_top_limit, denied)};
    const struct rows rows = {limit_fields, COUNT_OF(limit_fields), (char *)sample->limits, sizeof(sample->limits[0]),
                              HR_TOP_LIMITS_MAX};
    enum hr_err err = read_fields(answer, fields, COUNT_OF(fields), sample);
    if (err == HR_OK) {
        err = read_caps(find(answer, HR_SPAN("caps")), sample);
    }
    return err == HR_OK ? read_rows(find(answer, HR_SPAN("by_limit")), &rows, &sample->limit_count) : err;
}

enum hr_err hr_top_read_hot_keys(struct hr_span answer, struct hr_top_sample *sample)
{
    static const struct field fields[] = {TEXT(struct hr_top_key, counter), TEXT(struct hr_top_key, limit),
                                          NUMBER(struct hr_top_key, count), NUMBER(struct hr_top_key, error),
                                          NUMBER(struct hr_top_key, denied)};
    const struct rows rows = {fields, COUNT_OF(fields), (char *)sample->keys, sizeof(sample->keys[0]), HR_TOP_KEYS_MAX};
    struct hr_pairs pairs;
    enum hr_err err = hr_pairs_begin(&pairs, answer); /* it must at least be a map */
    return err == HR_OK ? read_rows(find(answer, HR_SPAN("keys")), &rows, &sample->key_count) : err;
}

/* Printing */

/* How a limit moved. */
struct moved {
    const struct hr_top_limit *limit;
    uint64_t admitted, denied; /* a second */
};

/* Each second. A node that was started anew counts from 0. */
static uint64_t rate(uint64_t before, uint64_t now, uint64_t elapsed_ms)
{
    uint64_t moved = now >= before ? now - before : now;
    return elapsed_ms == 0 ? 0 : moved / elapsed_ms * 1000 + moved % elapsed_ms * 1000 / elapsed_ms;
}

static const struct hr_top_limit *find_limit(const struct hr_top_sample *sample, const char *name)
{
    static const struct hr_top_limit none;
    for (uint32_t i = 0; sample != NULL && i < sample->limit_count; i++) {
        if (strcmp(sample->limits[i].name, name) == 0) {
            return &sample->limits[i];
        }
    }
    return &none;
}

/* The busiest first; among the equally busy, in the order of their names. */
static int compare_moved(const void *a, const void *b)
{
    const struct moved *one = a, *other = b;
    uint64_t one_sum = one->admitted + one->denied, other_sum = other->admitted + other->denied;
    if (one_sum != other_sum) {
        return one_sum > other_sum ? -1 : 1;
    }
    return strcmp(one->limit->name, other->limit->name);
}

static void print_limits(FILE *out, const struct hr_top_sample *before, const struct hr_top_sample *now,
                         uint64_t elapsed_ms, uint32_t rows_max)
{
    struct moved moved[HR_TOP_LIMITS_MAX] = {{NULL, 0, 0}};
    int width = (int)sizeof("limit") - 1;
    for (uint32_t i = 0; i < now->limit_count; i++) {
        const struct hr_top_limit *limit = &now->limits[i], *was = find_limit(before, limit->name);
        moved[i] = (struct moved){limit, rate(was->admitted, limit->admitted, elapsed_ms),
                                  rate(was->denied, limit->denied, elapsed_ms)};
        width = (int)strlen(limit->name) > width ? (int)strlen(limit->name) : width;
    }
    qsort(moved, now->limit_count, sizeof(moved[0]), compare_moved);
    (void)fprintf(out, "\n%-*s  %-7s  %12s  %12s\n", width, "limit", "mode", "admitted/s", "denied/s");
    for (uint32_t i = 0; i < now->limit_count && i < rows_max; i++) {
        (void)fprintf(out, "%-*s  %-7s  %12" PRIu64 "  %12" PRIu64 "\n", width, moved[i].limit->name,
                      moved[i].limit->mode, moved[i].admitted, moved[i].denied);
    }
}

static void print_region(FILE *out, const struct hr_top_region *region)
{
    char age[HR_WAIT_TEXT_BYTES];
    if (region->word_age_ms == UINT64_MAX) {
        (void)fprintf(out, "   %s never heard", region->name);
    } else {
        hr_wait_text(region->word_age_ms < INT64_MAX ? (int64_t)region->word_age_ms : INT64_MAX, age);
        (void)fprintf(out, "   %s heard %s ago", region->name, age);
    }
    (void)fputs(region->removed != 0 ? ", removed" : region->up == 0 ? ", not in touch" : "", out);
}

/* A counter that nothing goes on with has its home, and no more is to be said of it. */
static void print_caps(FILE *out, const struct hr_top_sample *now, uint32_t rows_max)
{
    int width = (int)sizeof("global limit") - 1;
    if (now->cap_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < now->cap_count; i++) {
        width = (int)strlen(now->caps[i].name) > width ? (int)strlen(now->caps[i].name) : width;
    }
    (void)fprintf(out, "\n%-*s  %10s  %10s  %8s  %10s  %10s  %10s\n", width, "global limit", "home", "reserve", "hot",
                  "share", "lent", "borrowed");
    for (uint32_t i = 0; i < now->cap_count && i < rows_max; i++) {
        const struct hr_top_cap *cap = &now->caps[i];
        (void)fprintf(out,
                      "%-*s  %10" PRIu64 "  %10" PRIu64 "  %8" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "  %10" PRIu64 "\n",
                      width, cap->name, cap->home, cap->reserve, cap->hot, cap->share, cap->lent, cap->borrowed);
    }
    (void)fputs("other regions:", out);
    for (uint32_t i = 0; i < now->region_count; i++) {
        print_region(out, &now->regions[i]);
    }
    (void)fputs("\n", out);
}

static void print_keys(FILE *out, const struct hr_top_sample *now, uint32_t rows_max)
{
    (void)fprintf(out, "\n%-32s  %10s  %10s  %8s  %s\n", "counter (1 in 8)", "count", "denied", "too high", "limit");
    for (uint32_t i = 0; i < now->key_count && i < rows_max; i++) {
        const struct hr_top_key *key = &now->keys[i];
        (void)fprintf(out, "%-32s  %10" PRIu64 "  %10" PRIu64 "  %8" PRIu64 "  %s\n", key->counter, key->count,
                      key->denied, key->error, key->limit);
    }
}

void hr_top_print(FILE *out, const struct hr_top_sample *before, const struct hr_top_sample *now, uint32_t rows_max)
{
    char uptime[HR_WAIT_TEXT_BYTES];
    uint64_t elapsed_ms = before != NULL ? (uint64_t)(now->at_ms - before->at_ms) : now->uptime_ms;
    hr_wait_text(now->uptime_ms < INT64_MAX ? (int64_t)now->uptime_ms : INT64_MAX, uptime);
    (void)fprintf(out, "%s in %s, headroom %s, up %s\n", now->node, now->region, now->version, uptime);
    (void)fprintf(out, "decisions/s %" PRIu64 "   denied/s %" PRIu64 "   connections %" PRIu64 "\n",
                  rate(before != NULL ? before->decisions : 0, now->decisions, elapsed_ms),
                  rate(before != NULL ? before->denied : 0, now->denied, elapsed_ms), now->connections);
    (void)fprintf(out, "counters %" PRIu64 " of %" PRIu64 "   leases %" PRIu64 " of %" PRIu64 "\n", now->counters,
                  now->counters_max, now->leases, now->leases_max);
    print_limits(out, before, now, elapsed_ms, rows_max);
    print_caps(out, now, rows_max);
    print_keys(out, now, rows_max);
}
