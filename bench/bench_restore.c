/* How long a node takes to come back with a full store: makes one in DIR, by as many checks of different keys as there
 * are to be counters, each of them kept (periodic); then opens it as a node does at its start, the look for damage
 * included, and restores all counters into a fresh shard. Prints both by the clock and in processor time, which hardly
 * depends on what else the machine does.
 *
 * usage: bench_restore DIR [COUNTERS]      DIR does not exist yet, and stays; COUNTERS: ten million */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "node/shard.h"
#include "storage/storage_lmdb.h"

#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define DOWN_NS HR_NS_PER_S

/* Checks between two looks at what is due for the store, and the time that they take: a million a second. */
#define CHECKS_PER_TURN 1000
#define TURN_NS HR_NS_PER_MS

struct subject {
    struct hr_limit limit;
    struct hr_limit_set set;
    void *set_memory, *memory;
    size_t set_bytes, bytes;
    struct hr_shard *shard;
    struct hr_now now;
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench_restore: %s\n", what);
    exit(1);
}

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fail("out of memory");
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: fewer misses of the address cache */
    return memory;
}

static void open_subject(struct subject *subject, uint32_t counters)
{
    static const struct hr_span key = {"api_key", 7};
    const struct hr_shard_config config = {
        .sizes = {.counters_max = counters, .limits_max = 16, .saves = true},
        .secret = {{1, 2, 3}},
        .node = HR_SPAN("n"),
        .region = HR_SPAN("r"),
        .flush_interval_ns = 100 * HR_NS_PER_MS,
        .waiting_max = 16,
        .replies_bytes = 1 << 20,
        .replies_max = 16,
        .hot_keys_max = 16,
    };
    const struct hr_rule rule = {
        .algorithm = HR_TOKEN_BUCKET, .capacity = 1000, .rate = 1000, .period_ns = HR_S_PER_DAY * HR_NS_PER_S};
    *subject = (struct subject){.now = {START_NS, {START_NS}}};
    subject->limit = (struct hr_limit){
        .name = HR_SPAN("key-day"), .key_count = 1, .key = &key, .durability = HR_PERIODIC, .rule = rule};
    subject->set_bytes = hr_limit_set_bytes(&subject->limit, 1);
    subject->bytes = hr_shard_bytes(&config);
    subject->set_memory = pages(subject->set_bytes);
    subject->memory = pages(subject->bytes);
    subject->shard = hr_shard_init(&config, subject->memory, subject->bytes);
    if (subject->shard == NULL ||
        hr_limit_set_build(&subject->set, &subject->limit, 1, subject->set_memory, subject->set_bytes) != HR_OK ||
        hr_shard_load(subject->shard, &subject->set, subject->now) != HR_OK) {
        fail("the shard does not start");
    }
}

static void close_subject(struct subject *subject)
{
    (void)munmap(subject->set_memory, subject->set_bytes);
    (void)munmap(subject->memory, subject->bytes);
}

/* Results are waited for by settling: one at a time. */
static enum hr_err committed;

static void on_done(void *user, const struct hr_store_result *results, size_t count)
{
    (void)user;
    committed = results[count - 1].err;
}

static struct hr_store *open_store(const char *dir)
{
    const struct hr_store_lmdb_options options = {
        .dir = dir, .cluster = HR_SPAN("bench"), .node = HR_SPAN("n"), .done = on_done};
    struct hr_store *store;
    struct hr_store_problem problem;
    if (hr_store_lmdb_open(&options, &store, &problem) != HR_OK) {
        fail(problem.text);
    }
    return store;
}

static void save(struct subject *subject, struct hr_store *store, bool force)
{
    const struct hr_store_batch *batch;
    uint64_t ticket;
    while ((batch = hr_shard_next_batch(subject->shard, subject->now, force, &ticket)) != NULL) {
        committed = HR_E_IO;
        if (hr_store_commit(store, ticket, batch) == HR_OK) {
            hr_store_settle(store);
        }
        if (committed != HR_OK) {
            fail("the store does not take what there is");
        }
        hr_shard_persisted(subject->shard, ticket, HR_OK, subject->now);
    }
}

static void check(struct subject *subject, uint32_t number)
{
    static char answer[4096];
    char params[] = "\x82\xaa"
                    "attributes\x81\xa7"
                    "api_key\xab"
                    "k0000000000\xa6"
                    "detail\xc2";
    struct hr_packer out = {.at = answer, .room = sizeof(answer)};
    for (size_t at = 32; number > 0; number /= 10) {
        params[at--] = (char)('0' + number % 10);
    }
    const struct hr_call call = {.method = HR_METHOD_CHECK, .params = {params, sizeof(params) - 1}};
    if (hr_shard_serve(subject->shard, &call, subject->now, &out) != HR_SERVED_ANSWERED) {
        fail("a check is not answered");
    }
}

static void make_store(const char *dir, uint32_t counters)
{
    struct subject subject;
    open_subject(&subject, counters);
    struct hr_store *store = open_store(dir);
    for (uint32_t i = 0; i < counters; i++) {
        check(&subject, i);
        if (i % CHECKS_PER_TURN == 0) {
            subject.now.steady += TURN_NS;
            subject.now.wall.ns += TURN_NS;
            save(&subject, store, false);
        }
    }
    save(&subject, store, true);
    hr_store_close(store);
    close_subject(&subject);
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct subject *subject = user;
    return hr_shard_restore_counters(subject->shard, record, DOWN_NS, subject->now);
}

static double seconds(clockid_t clock)
{
    struct timespec at;
    (void)clock_gettime(clock, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* Of this process and of those that have ended for it, which look for damage. */
static double processor_s(void)
{
    struct rusage children;
    (void)getrusage(RUSAGE_CHILDREN, &children);
    return seconds(CLOCK_PROCESS_CPUTIME_ID) + (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
           (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    uint32_t counters = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000000;
    if (argc < 2 || counters == 0) {
        fail("usage: bench_restore DIR [COUNTERS]");
    }
    make_store(argv[1], counters);
    struct subject subject;
    struct hr_store_loaded loaded;
    double begin = seconds(CLOCK_MONOTONIC), begin_cpu = processor_s();
    open_subject(&subject, counters);
    subject.now.steady += 60 * HR_NS_PER_S;
    struct hr_store *store = open_store(argv[1]);
    double opened = seconds(CLOCK_MONOTONIC), opened_cpu = processor_s();
    if (hr_store_load(store, HR_RECORD_COUNTER, visit, &subject, &loaded) != HR_OK) {
        fail("the store cannot be read");
    }
    double end = seconds(CLOCK_MONOTONIC), end_cpu = processor_s();
    if (hr_shard_counts(subject.shard).restored != counters) {
        fail("not all counters came back");
    }
    printf("%" PRIu64 " counters from %" PRIu64 " segments (%" PRIu64 " bad)\n",
           hr_shard_counts(subject.shard).restored, loaded.good, loaded.bad);
    printf("%-10s %8s %12s\n", "", "s", "processor s");
    printf("%-10s %8.2f %12.2f\n", "opened", opened - begin, opened_cpu - begin_cpu);
    printf("%-10s %8.2f %12.2f\n", "restored", end - opened, end_cpu - opened_cpu);
    printf("%-10s %8.2f %12.2f\n", "in all", end - begin, end_cpu - begin_cpu);
    hr_store_close(store);
    close_subject(&subject);
    return 0;
}
