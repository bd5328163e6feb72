#include "tests/lib/limiter_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARTS_MAX 8 /* of a key, and of a when */
#define TEXT_BYTES_MAX 256

/* One limit with all that it points to. */
struct part_of_set {
    char name[TEXT_BYTES_MAX], key[TEXT_BYTES_MAX], when[TEXT_BYTES_MAX];
    struct hr_span keys[PARTS_MAX];
    struct hr_condition conditions[PARTS_MAX];
    struct hr_pattern patterns[PARTS_MAX];
    struct hr_zone *zone;
};

struct fixture_set {
    struct hr_limit_set set;
    void *memory;
    struct hr_limit *limits;
    struct part_of_set *parts;
    size_t count;
};

struct hr_rule bucket(enum hr_algorithm algorithm, uint64_t rate, int64_t period_ns, uint64_t burst)
{
    return (struct hr_rule){.algorithm = algorithm, .capacity = burst, .rate = rate, .period_ns = (uint64_t)period_ns};
}

struct hr_rule window(enum hr_algorithm algorithm, uint64_t n, int64_t period_ns)
{
    return (struct hr_rule){.algorithm = algorithm, .capacity = n, .period_ns = (uint64_t)period_ns};
}

struct hr_rule quota(uint64_t n, enum hr_calendar_unit unit, const struct hr_zone *zone)
{
    return (struct hr_rule){.algorithm = HR_QUOTA, .capacity = n, .unit = unit, .zone = zone};
}

struct hr_rule slots(uint64_t n, int64_t ttl_ns)
{
    return (struct hr_rule){.algorithm = HR_CONCURRENCY, .capacity = n, .ttl_ns = (uint64_t)ttl_ns};
}

struct hr_rule any_rule(enum hr_algorithm algorithm, uint64_t n)
{
    switch (algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return bucket(algorithm, n, SECONDS(100), n);
    case HR_FIXED_WINDOW:
    case HR_SLIDING_WINDOW:
    case HR_SLIDING_LOG:
        return window(algorithm, n, SECONDS(100));
    case HR_QUOTA:
        return quota(n, HR_DAY, NULL);
    case HR_CONCURRENCY:
        return slots(n, SECONDS(100));
    }
    return (struct hr_rule){.capacity = 0};
}

void fixture_open(struct fixture *fixture, struct hr_limiter_sizes sizes)
{
    static const struct hr_hash_key secret = {"0123456789abcde"};
    size_t bytes = (hr_limiter_bytes(&sizes) + 63) & ~(size_t)63;
    memset(fixture, 0, sizeof(*fixture));
    fixture->sizes = sizes;
    fixture->memory = calloc(1, bytes + 64); /* its pages are zero already, and most are never touched */
    assert_non_null(fixture->memory);
    uint8_t *aligned = (uint8_t *)fixture->memory + (64 - (uintptr_t)fixture->memory % 64);
    fixture->limiter = hr_limiter_init(&sizes, &secret, aligned, bytes);
    assert_non_null(fixture->limiter);
    fixture->now = (struct hr_now){SECONDS(FIXTURE_START_S), {SECONDS(FIXTURE_START_S)}};
}

void fixture_open_ample(struct fixture *fixture)
{
    fixture_open(fixture, (struct hr_limiter_sizes){
                              .counters_max = 4096, .leases_max = 4096, .log_blocks_max = 4096, .limits_max = 64});
}

static void free_set(struct fixture_set *set)
{
    for (size_t i = 0; set != NULL && i < set->count; i++) {
        free(set->parts[i].zone);
    }
    if (set != NULL) {
        free(set->memory);
        free(set->limits);
        free(set->parts);
        free(set);
    }
}

void fixture_close(struct fixture *fixture)
{
    free_set(fixture->set);
    free(fixture->memory);
}

static void copy_text(char *to, const char *from)
{
    size_t bytes = from == NULL ? 0 : strlen(from);
    assert_true(bytes < TEXT_BYTES_MAX);
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    to[bytes] = '\0';
}

/* The next word of *rest; false at the end. */
static bool next_word(const char **rest, struct hr_span *ret_word)
{
    const char *begin = *rest + strspn(*rest, " ");
    *ret_word = (struct hr_span){begin, strcspn(begin, " ")};
    *rest = begin + ret_word->bytes;
    return ret_word->bytes > 0;
}

/* Halves "name=value". */
static struct hr_attribute split_word(struct hr_span word)
{
    const char *equals = memchr(word.at, '=', word.bytes);
    assert_non_null(equals);
    size_t name_bytes = (size_t)(equals - word.at);
    return (struct hr_attribute){
        .name = {word.at, name_bytes},
        .value = {equals + 1, word.bytes - name_bytes - 1},
    };
}

static void fill_condition(struct hr_span word, struct hr_condition *condition, struct hr_pattern *pattern)
{
    struct hr_attribute pair = split_word(word);
    bool negated = pair.value.bytes > 0 && pair.value.at[0] == '!';
    struct hr_span text = {pair.value.at + negated, pair.value.bytes - negated};
    bool is_glob = text.bytes > 0 && memchr(text.at, '*', text.bytes) != NULL;
    *pattern = (struct hr_pattern){.kind = is_glob ? HR_MATCH_GLOB : HR_MATCH_EXACT, .text = text};
    *condition =
        (struct hr_condition){.attribute = pair.name, .negated = negated, .pattern_count = 1, .patterns = pattern};
}

static void copy_zone(struct part_of_set *part, struct hr_limit *limit)
{
    if (limit->rule.zone != NULL) {
        part->zone = malloc(sizeof(*part->zone));
        assert_non_null(part->zone);
        *part->zone = *limit->rule.zone;
        limit->rule.zone = part->zone;
    }
}

static void fill_limit(const struct fixture_limit *from, struct part_of_set *part, struct hr_limit *limit)
{
    copy_text(part->name, from->name);
    copy_text(part->key, from->key);
    copy_text(part->when, from->when);
    *limit = (struct hr_limit){.name = hr_span_of(part->name),
                               .key = part->keys,
                               .when = part->conditions,
                               .rule = from->rule,
                               .mode = from->mode,
                               .durability = from->durability};
    const char *rest = part->key;
    struct hr_span word;
    while (next_word(&rest, &word)) {
        assert_true(limit->key_count < PARTS_MAX);
        part->keys[limit->key_count++] = word;
    }
    rest = part->when;
    while (next_word(&rest, &word)) {
        assert_true(limit->when_count < PARTS_MAX);
        fill_condition(word, &part->conditions[limit->when_count], &part->patterns[limit->when_count]);
        limit->when_count++;
    }
    copy_zone(part, limit);
}

static struct fixture_set *build_set(const struct fixture_limit *limits, size_t count)
{
    struct fixture_set *set = calloc(1, sizeof(*set));
    assert_non_null(set);
    set->count = count;
    set->limits = calloc(count + 1, sizeof(*set->limits));
    set->parts = calloc(count + 1, sizeof(*set->parts));
    assert_non_null(set->limits);
    assert_non_null(set->parts);
    for (size_t i = 0; i < count; i++) {
        fill_limit(&limits[i], &set->parts[i], &set->limits[i]);
    }
    size_t bytes = hr_limit_set_bytes(set->limits, (uint32_t)count);
    set->memory = malloc(bytes);
    assert_non_null(set->memory);
    assert_int_equal(hr_limit_set_build(&set->set, set->limits, (uint32_t)count, set->memory, bytes), HR_OK);
    return set;
}

enum hr_err fixture_try_load(struct fixture *fixture, const struct fixture_limit *limits, size_t count)
{
    struct fixture_set *set = build_set(limits, count);
    enum hr_err err = hr_limiter_load(fixture->limiter, &set->set, fixture->now);
    if (err != HR_OK) {
        free_set(set);
        return err;
    }
    free_set(fixture->set);
    fixture->set = set;
    return HR_OK;
}

void fixture_load(struct fixture *fixture, const struct fixture_limit *limits, size_t count)
{
    assert_int_equal(fixture_try_load(fixture, limits, count), HR_OK);
}

void fixture_request(const char *text, uint64_t cost, struct fixture_request *ret_request)
{
    struct hr_request *request = &ret_request->request;
    *request = (struct hr_request){.attributes = ret_request->attributes, .cost = cost};
    struct hr_span word;
    while (next_word(&text, &word)) {
        assert_true(request->attribute_count < HR_ATTRIBUTES_MAX);
        ret_request->attributes[request->attribute_count++] = split_word(word);
    }
}

static enum hr_err ask(struct fixture *fixture, const char *attributes, uint64_t cost, bool peek)
{
    struct fixture_request request;
    fixture_request(attributes, cost, &request);
    request.request.peek = peek;
    request.request.serial = ++fixture->serial;
    return hr_limiter_check(fixture->limiter, &request.request, fixture->now, &fixture->decision);
}

bool fixture_take(struct fixture *fixture, const char *attributes, uint64_t cost)
{
    assert_int_equal(ask(fixture, attributes, cost, false), HR_OK);
    return fixture->decision.allowed;
}

bool fixture_peek(struct fixture *fixture, const char *attributes, uint64_t cost)
{
    assert_int_equal(ask(fixture, attributes, cost, true), HR_OK);
    return fixture->decision.allowed;
}

enum hr_err fixture_try(struct fixture *fixture, const char *attributes, uint64_t cost)
{
    return ask(fixture, attributes, cost, false);
}

const struct hr_row *fixture_row(const struct fixture *fixture, const char *name)
{
    for (uint32_t i = 0; i < fixture->decision.row_count; i++) {
        const struct hr_row *row = &fixture->decision.rows[i];
        if (hr_span_equal(row->limit->name, hr_span_of(name))) {
            return row;
        }
    }
    fail_msg("the decision has no row for %s", name);
    return NULL;
}

uint64_t fixture_remaining(struct fixture *fixture, const char *attributes, const char *name)
{
    (void)fixture_peek(fixture, attributes, 0);
    return fixture_row(fixture, name)->remaining;
}

const char *fixture_decided_by(const struct fixture *fixture)
{
    const struct hr_limit *limit = fixture->decision.decided_by;
    return limit == NULL ? "" : limit->name.at; /* the fixture ends its names with a NUL */
}

void fixture_pass(struct fixture *fixture, int64_t ns)
{
    fixture->now.steady += ns;
    fixture->now.wall.ns += ns;
}

void fixture_sweep(struct fixture *fixture)
{
    /* One call for each cell (table.h) and one for each counter that is dropped on the way. */
    uint32_t calls = 3 * fixture->sizes.counters_max + 1024;
    hr_limiter_sweep(fixture->limiter, calls, fixture->now);
}

uint32_t fixture_counters(const struct fixture *fixture)
{
    return hr_limiter_usage(fixture->limiter).counters;
}
