/* What a decision costs: nanoseconds, and bytes a counter, with one token bucket per api_key and keys drawn at random.
 * In the same run: one call for each request; requests prepared 32 at a time, and then decided, as a node does with
 * what one read brought; and a naive chained hash map that keeps the same token bucket under the key's text. All three
 * have their memory in huge pages, where the kernel has any.
 *
 * usage: bench_limiter [--smoke] [SEED [KEYS]]      --smoke: small numbers, only to see that it runs
 *                                                  KEYS: this many alone; else a thousand, a million, ten million */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/hash.h"
#include "base/rng.h"
#include "limiter/gcra.h"
#include "limiter/limiter.h"

#define ROUNDS 5
#define KEY_BYTES 9

static const struct hr_rule rule = {
    .algorithm = HR_TOKEN_BUCKET, .capacity = 100, .rate = 50, .period_ns = HR_NS_PER_S};

static int64_t clock_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * HR_NS_PER_S + at.tv_nsec;
}

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("bench_limiter: mmap");
        exit(1);
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: fewer misses of the address cache */
    return memory;
}

/* The key's text: written into a warm buffer, as a request's would be by the network. */
static void write_key(char *text, uint64_t key)
{
    text[0] = 'k';
    for (int i = 1; i < KEY_BYTES; i++) {
        text[i] = "0123456789abcdef"[key & 15];
        key >>= 4;
    }
}

/* --- the naive map --- */

struct node {
    struct node *next;
    struct hr_gcra gcra;
    size_t key_bytes;
    char key[];
};

struct naive {
    struct node **buckets;
    uint64_t mask;
    char *nodes; /* one behind the other: no heap's bookkeeping, and as few pages as can be */
    uint64_t node_bytes, bytes;
};

/* A node of each key, and what malloc would round it to. */
#define NODE_BYTES ((sizeof(struct node) + KEY_BYTES + 15) & ~(size_t)15)

static struct naive naive_new(uint64_t keys)
{
    struct naive map = {.mask = 1};
    while (map.mask < keys) {
        map.mask <<= 1;
    }
    uint64_t bucket_bytes = map.mask * sizeof(*map.buckets);
    map.bytes = bucket_bytes + keys * NODE_BYTES;
    map.buckets = pages(map.bytes);
    map.nodes = (char *)map.buckets + bucket_bytes;
    map.mask--;
    return map;
}

static struct node *naive_find(struct naive *map, const char *key, size_t bytes)
{
    struct node **link = &map->buckets[hr_plain_hash(key, bytes, 0) & map->mask];
    for (; *link != NULL; link = &(*link)->next) {
        if ((*link)->key_bytes == bytes && memcmp((*link)->key, key, bytes) == 0) {
            return *link;
        }
    }
    struct node *node = (struct node *)(void *)(map->nodes + map->node_bytes);
    map->node_bytes += NODE_BYTES;
    node->key_bytes = bytes;
    memcpy(node->key, key, bytes);
    *link = node;
    return node;
}

static uint64_t naive_check(struct naive *map, const char *key, hr_ns now)
{
    struct node *node = naive_find(map, key, KEY_BYTES);
    bool fits = hr_gcra_fits(&node->gcra, &rule, 1, now);
    if (fits) {
        hr_gcra_take(&node->gcra, &rule, 1, now);
    }
    return fits + hr_gcra_remaining(&node->gcra, &rule, now) + (uint64_t)hr_gcra_reset_ms(&node->gcra, &rule, now);
}

/* --- the limiter --- */

struct subject {
    struct hr_limiter *limiter;
    struct hr_limit limit;
    struct hr_limit_set set;
    void *set_memory, *memory;
    size_t set_bytes, bytes;
};

static void subject_open(struct subject *subject, uint32_t keys)
{
    static const struct hr_span key = {"api_key", 7};
    const struct hr_limiter_sizes sizes = {.counters_max = keys, .limits_max = 16};
    const struct hr_hash_key secret = {{1, 2, 3}};
    subject->limit = (struct hr_limit){.name = HR_SPAN("key-rps"), .key_count = 1, .key = &key, .rule = rule};
    subject->set_bytes = hr_limit_set_bytes(&subject->limit, 1);
    subject->set_memory = pages(subject->set_bytes);
    subject->bytes = hr_limiter_bytes(&sizes);
    subject->memory = pages(subject->bytes);
    subject->limiter = hr_limiter_init(&sizes, &secret, subject->memory, subject->bytes);
    if (subject->limiter == NULL ||
        hr_limit_set_build(&subject->set, &subject->limit, 1, subject->set_memory, subject->set_bytes) != HR_OK ||
        hr_limiter_load(subject->limiter, &subject->set, (struct hr_now){0}) != HR_OK) {
        fprintf(stderr, "bench_limiter: the limiter does not start\n");
        exit(1);
    }
}

static void subject_close(struct subject *subject)
{
    (void)munmap(subject->set_memory, subject->set_bytes);
    (void)munmap(subject->memory, subject->bytes);
}

static uint64_t number_of(enum hr_err err, const struct hr_decision *decision)
{
    if (err != HR_OK) {
        fprintf(stderr, "bench_limiter: %s\n", hr_err_text(err));
        exit(1);
    }
    return decision->allowed + decision->rows[0].remaining + (uint64_t)decision->rows[0].reset_after_ms;
}

static uint64_t subject_check(struct subject *subject, const char *key, hr_ns now)
{
    static struct hr_decision decision;
    const struct hr_attribute attribute = {HR_SPAN("api_key"), {key, KEY_BYTES}};
    const struct hr_request request = {.attributes = &attribute, .attribute_count = 1, .cost = 1};
    enum hr_err err = hr_limiter_check(subject->limiter, &request, (struct hr_now){now, {now}}, &decision);
    return number_of(err, &decision);
}

/* Requests that arrived together. */
#define BATCH_REQUESTS 32

struct batch {
    char keys[BATCH_REQUESTS][KEY_BYTES];
    struct hr_attribute attributes[BATCH_REQUESTS];
    struct hr_request requests[BATCH_REQUESTS];
    struct hr_prepared prepared[BATCH_REQUESTS];
};

static void batch_prepare(struct batch *batch, struct subject *subject, int i)
{
    batch->attributes[i] = (struct hr_attribute){HR_SPAN("api_key"), {batch->keys[i], KEY_BYTES}};
    batch->requests[i] = (struct hr_request){.attributes = &batch->attributes[i], .attribute_count = 1, .cost = 1};
    hr_limiter_prepare(subject->limiter, &batch->requests[i], &batch->prepared[i]);
}

static uint64_t batch_check(struct batch *batch, struct subject *subject, int i, hr_ns now)
{
    static struct hr_decision decision;
    enum hr_err err = hr_limiter_check_prepared(subject->limiter, &batch->requests[i], &batch->prepared[i],
                                                (struct hr_now){now, {now}}, &decision);
    return number_of(err, &decision);
}

/* --- the measurement --- */

static volatile uint64_t sink;

#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define STEP_NS 1000 /* a million requests a second */

/* NOBODY: what drawing and writing the key costs. */
enum who { PLAIN, BATCH, NAIVE, NOBODY, WHO_COUNT };

struct field {
    struct subject subject;
    struct naive map;
    struct hr_rng rng;
    hr_ns now;
    uint32_t keys;
};

/* Requests one by one. */
static uint64_t run_single(enum who who, struct field *field, uint64_t count)
{
    char key[KEY_BYTES];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        write_key(key, hr_rng_below(&field->rng, field->keys));
        field->now += STEP_NS;
        if (who == PLAIN) {
            sum += subject_check(&field->subject, key, field->now);
        } else if (who == NAIVE) {
            sum += naive_check(&field->map, key, field->now);
        } else {
            sum += (uint64_t)key[KEY_BYTES - 1] + (uint64_t)key[1];
        }
    }
    return sum;
}

static uint64_t run_batch(struct field *field, uint64_t count)
{
    static struct batch batch;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i += BATCH_REQUESTS) {
        for (int k = 0; k < BATCH_REQUESTS; k++) {
            write_key(batch.keys[k], hr_rng_below(&field->rng, field->keys));
            batch_prepare(&batch, &field->subject, k);
        }
        for (int k = 0; k < BATCH_REQUESTS; k++) {
            field->now += STEP_NS;
            sum += batch_check(&batch, &field->subject, k, field->now);
        }
    }
    return sum;
}

/* Nanoseconds a call, over `count` calls with keys at random. */
static double run(enum who who, struct field *field, uint64_t count)
{
    int64_t begin = clock_ns();
    sink = who == BATCH ? run_batch(field, count) : run_single(who, field, count);
    int64_t end = clock_ns();
    return (double)(end - begin) / (double)count;
}

static void field_open(struct field *field, uint32_t keys, uint64_t seed)
{
    *field = (struct field){.rng = {seed}, .now = START_NS, .keys = keys};
    subject_open(&field->subject, keys);
    field->map = naive_new(keys);
    char key[KEY_BYTES];
    for (uint64_t i = 0; i < keys; i++) { /* every counter lives before the clock is looked at */
        write_key(key, i);
        sink = subject_check(&field->subject, key, field->now) + naive_check(&field->map, key, field->now);
    }
}

static void field_close(struct field *field)
{
    (void)munmap(field->map.buckets, field->map.bytes);
    subject_close(&field->subject);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ns(double ns[ROUNDS], double nobody)
{
    char spread[32];
    (void)snprintf(spread, sizeof(spread), "(%.0f-%.0f)", ns[0] - nobody, ns[ROUNDS - 1] - nobody);
    printf(" %6.1f %-12s", ns[ROUNDS / 2] - nobody, spread);
}

static void measure(uint32_t keys, uint64_t count, uint64_t seed)
{
    static struct field field;
    field_open(&field, keys, seed);
    double ns[WHO_COUNT][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int who = PLAIN; who < WHO_COUNT; who++) {
            ns[who][round] = run((enum who)who, &field, count);
        }
    }
    printf("%9" PRIu32, keys);
    for (int who = PLAIN; who < WHO_COUNT; who++) {
        qsort(ns[who], ROUNDS, sizeof(double), compare);
    }
    for (int who = PLAIN; who < NOBODY; who++) {
        print_ns(ns[who], ns[NOBODY][ROUNDS / 2]);
    }
    printf(" %10.1f %8.1f\n", (double)field.subject.bytes / keys, (double)field.map.bytes / keys);
    field_close(&field);
}

int main(int argc, char **argv)
{
    bool is_smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    int first = 1 + is_smoke;
    uint64_t seed = argc > first ? strtoull(argv[first], NULL, 10) : 1;
    uint32_t only = argc > first + 1 ? (uint32_t)strtoul(argv[first + 1], NULL, 10) : 0;
    static const uint32_t sizes[] = {1000, 1000000, 10000000};
    printf("seed %" PRIu64 "; median (least-most) of %d rounds; ns a decision, drawing the key taken off\n", seed,
           ROUNDS);
    printf("     keys   one call              32 prepared         naive map           headroom B  naive B\n");
    for (int i = 0; i < (is_smoke || only != 0 ? 1 : 3); i++) {
        measure(only != 0 ? only : sizes[i], is_smoke ? 96000 : 3000000, seed);
    }
    return 0;
}
