/* What a decision costs: nanoseconds, and bytes a counter, with one token bucket per api_key and keys drawn at random,
 * beside a naive chained hash map that keeps the same token bucket under the key's text, in the same run.
 *
 * usage: bench_limiter [--smoke] [SEED]      --smoke: small numbers, only to see that it runs */
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
    uint64_t bytes; /* as asked of malloc, with its 8 bytes of bookkeeping each */
};

static struct naive naive_new(uint64_t keys)
{
    struct naive map = {.mask = 1};
    while (map.mask < keys) {
        map.mask <<= 1;
    }
    map.buckets = calloc(map.mask, sizeof(*map.buckets));
    map.bytes = map.mask * sizeof(*map.buckets);
    map.mask--;
    if (map.buckets == NULL) {
        exit(1);
    }
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
    struct node *node = calloc(1, sizeof(*node) + bytes);
    if (node == NULL) {
        exit(1);
    }
    node->key_bytes = bytes;
    memcpy(node->key, key, bytes);
    map->bytes += (sizeof(*node) + bytes + 8 + 15) & ~(size_t)15;
    *link = node;
    return node;
}

static void naive_free(struct naive *map)
{
    for (uint64_t i = 0; i <= map->mask; i++) {
        while (map->buckets[i] != NULL) {
            struct node *next = map->buckets[i]->next;
            free(map->buckets[i]);
            map->buckets[i] = next;
        }
    }
    free(map->buckets);
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

static uint64_t subject_check(struct subject *subject, const char *key, hr_ns now)
{
    static struct hr_decision decision;
    const struct hr_attribute attribute = {HR_SPAN("api_key"), {key, KEY_BYTES}};
    const struct hr_request request = {.attributes = &attribute, .attribute_count = 1, .cost = 1};
    enum hr_err err = hr_limiter_check(subject->limiter, &request, (struct hr_now){now, {now}}, &decision);
    if (err != HR_OK) {
        fprintf(stderr, "bench_limiter: %s\n", hr_err_text(err));
        exit(1);
    }
    return decision.allowed + decision.rows[0].remaining + (uint64_t)decision.rows[0].reset_after_ms;
}

/* --- the measurement --- */

static volatile uint64_t sink;

#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define STEP_NS 1000 /* a million requests a second */

enum who { LIMITER, NAIVE, NOBODY };

/* Nanoseconds a call, over `count` calls with keys at random below `keys`. NOBODY: what drawing and writing the key
 * costs. */
static double run(enum who who, struct subject *subject, struct naive *map, uint64_t keys, uint64_t count, hr_ns *now,
                  struct hr_rng *rng)
{
    char key[KEY_BYTES];
    uint64_t sum = 0;
    int64_t begin = clock_ns();
    for (uint64_t i = 0; i < count; i++) {
        write_key(key, hr_rng_below(rng, keys));
        *now += STEP_NS;
        if (who == LIMITER) {
            sum += subject_check(subject, key, *now);
        } else if (who == NAIVE) {
            sum += naive_check(map, key, *now);
        } else {
            sum += (uint64_t)key[KEY_BYTES - 1] + (uint64_t)key[1];
        }
    }
    int64_t end = clock_ns();
    sink = sum;
    return (double)(end - begin) / (double)count;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(uint32_t keys, uint64_t count, uint64_t seed)
{
    struct subject subject;
    subject_open(&subject, keys);
    struct naive map = naive_new(keys);
    struct hr_rng rng = {seed};
    hr_ns now = START_NS;
    char key[KEY_BYTES];
    for (uint64_t i = 0; i < keys; i++) { /* every counter lives before the clock is looked at */
        write_key(key, i);
        sink = subject_check(&subject, key, now) + naive_check(&map, key, now);
    }
    double ns[3][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int who = LIMITER; who <= NOBODY; who++) {
            ns[who][round] = run((enum who)who, &subject, &map, keys, count, &now, &rng);
        }
    }
    for (int who = LIMITER; who <= NOBODY; who++) {
        qsort(ns[who], ROUNDS, sizeof(double), compare);
    }
    const int mid = ROUNDS / 2;
    double ours = ns[LIMITER][mid] - ns[NOBODY][mid], theirs = ns[NAIVE][mid] - ns[NOBODY][mid];
    printf("%9" PRIu32 " %9.1f (%.1f-%.1f) %12.1f (%.1f-%.1f) %7.2f %10.1f %10.1f\n", keys, ours,
           ns[LIMITER][0] - ns[NOBODY][mid], ns[LIMITER][ROUNDS - 1] - ns[NOBODY][mid], theirs,
           ns[NAIVE][0] - ns[NOBODY][mid], ns[NAIVE][ROUNDS - 1] - ns[NOBODY][mid], ours / theirs,
           (double)subject.bytes / keys, (double)map.bytes / keys);
    naive_free(&map);
    subject_close(&subject);
}

int main(int argc, char **argv)
{
    bool is_smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    uint64_t seed = argc > 1 + is_smoke ? strtoull(argv[1 + is_smoke], NULL, 10) : 1;
    static const uint32_t sizes[] = {1000, 1000000, 10000000};
    printf("seed %" PRIu64 "; median (least-most) of %d rounds; ns a decision, drawing the key taken off\n", seed,
           ROUNDS);
    printf("     keys  headroom ns                 naive map ns             ratio  headroom B   naive B\n");
    for (int i = 0; i < (is_smoke ? 1 : 3); i++) {
        measure(sizes[i], is_smoke ? 100000 : 3000000, seed);
    }
    return 0;
}
