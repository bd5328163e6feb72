/* What a request costs a shard, from the bytes that arrived to the bytes of its answer, without a socket: nanoseconds,
 * for each durability, on a million keys drawn at random; and how much of that is what the store is to know.
 *
 * 64 requests arrive at a time, as from a client that pipelines; time passes as if so many came in a second; the store
 * takes a batch at once, copies it as the real one does (storage_lmdb.c), and has forgotten it at the next turn. So the
 * numbers do not depend on a disk, nor on how fast this machine is.
 *
 * usage: bench_shard [--smoke] [--durability memory|periodic|reserved] [--rate N] [--requests N] [--rounds N] */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/rng.h"
#include "node/shard.h"
#include "rpc/session.h"

#define KEYS 1000000U
#define ROUNDS_MAX 32
#define TOGETHER 64
#define REQUEST_BYTES 55
#define KEY_AT 37
#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)

struct options {
    uint64_t per_second, requests, fill;
    int rounds;
    int only; /* a durability, or -1 */
};

struct subject {
    enum hr_durability durability;
    struct hr_limit limit;
    struct hr_limit_set set;
    struct hr_shard *shard;
    struct hr_session session;
    struct hr_rng rng;
    struct hr_now now;
    uint64_t ticket, answered, waited, stored_bytes;
    bool in_flight;
    int64_t store_ns;
};

static char requests[TOGETHER * REQUEST_BYTES], answers[1 << 20], stored[HR_SHARD_BATCH_BYTES];

/* What all of the process has used: a neighbour that takes the processor away does not count. */
static int64_t clock_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return at.tv_sec * HR_NS_PER_S + at.tv_nsec;
}

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("bench_shard: mmap");
        exit(1);
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: fewer misses of the address cache */
    return memory;
}

static void open_subject(struct subject *subject, enum hr_durability durability)
{
    static const struct hr_span key = {"api_key", 7};
    const struct hr_shard_config config = {
        .sizes = {.counters_max = 2 * KEYS, .limits_max = 16, .reserves_max = 2 * KEYS, .saves = true},
        .secret = {{1, 2, 3}},
        .node = HR_SPAN("n"),
        .region = HR_SPAN("r"),
        .flush_interval_ns = 100 * HR_NS_PER_MS,
        .waiting_max = 4096,
        .replies_bytes = 1 << 20,
        .replies_max = 1024,
        .hot_keys_max = 1024,
    };
    const struct hr_session_limits limits = {HR_FRAME_BYTES_MAX, 1024};
    *subject = (struct subject){.durability = durability, .rng = {7}, .now = {START_NS, {START_NS}}};
    subject->limit = (struct hr_limit){
        .name = HR_SPAN("key-day"),
        .key_count = 1,
        .key = &key,
        .durability = durability,
        .rule = {
            .algorithm = HR_TOKEN_BUCKET, .capacity = 1000, .rate = 1000, .period_ns = HR_S_PER_DAY * HR_NS_PER_S}};
    size_t set_bytes = hr_limit_set_bytes(&subject->limit, 1), bytes = hr_shard_bytes(&config);
    subject->shard = hr_shard_init(&config, pages(bytes), bytes);
    hr_session_init(&subject->session, &limits);
    if (subject->shard == NULL ||
        hr_limit_set_build(&subject->set, &subject->limit, 1, pages(set_bytes), set_bytes) != HR_OK ||
        hr_shard_load(subject->shard, &subject->set, subject->now) != HR_OK) {
        (void)fprintf(stderr, "bench_shard: the shard does not start\n");
        exit(1);
    }
}

/* As `headroom bench` sends them. */
static void write_requests(struct subject *subject)
{
    for (uint32_t i = 0; i < TOGETHER; i++) {
        char *at = requests + (size_t)i * REQUEST_BYTES;
        memcpy(at,
               "\x94\x00\xce\0\0\0\0\xa5"
               "check\x91\x82\xaa"
               "attributes\x81\xa7"
               "api_key\xabk0000000000\xa6"
               "detail\xc2",
               REQUEST_BYTES);
        at[6] = (char)i;
        uint64_t key = hr_rng_below(&subject->rng, KEYS);
        for (int digit = 9; digit >= 0; digit--, key /= 10) {
            at[KEY_AT + digit] = (char)('0' + key % 10);
        }
    }
}

static void turn(struct subject *subject)
{
    int64_t begin = clock_ns();
    uint64_t ticket;
    struct hr_call call;
    if (subject->in_flight) {
        subject->in_flight = false;
        hr_shard_persisted(subject->shard, subject->ticket, HR_OK, subject->now);
    }
    hr_shard_tick(subject->shard, subject->now);
    for (;;) {
        struct hr_packer out = {.at = answers, .room = sizeof(answers)};
        if (!hr_shard_next_answer(subject->shard, subject->now, &out, &call)) {
            break;
        }
        subject->answered++;
    }
    const struct hr_store_batch *batch = hr_shard_next_batch(subject->shard, subject->now, false, &ticket);
    if (batch != NULL) {
        memcpy(stored, batch->memory, batch->bytes);
        subject->stored_bytes += batch->bytes;
        subject->ticket = ticket;
        subject->in_flight = true;
    }
    subject->store_ns += clock_ns() - begin;
}

static void serve_some(struct subject *subject, struct hr_call *calls, uint32_t count, struct hr_packer *out)
{
    hr_shard_prepare(subject->shard, calls, count);
    for (uint32_t i = 0; i < count; i++) {
        struct hr_packer answer = {.at = out->at + out->wanted, .room = out->room - out->wanted};
        bool waits = hr_shard_serve(subject->shard, &calls[i], subject->now, &answer) == HR_SERVED_WAITING;
        subject->waited += waits;
        subject->answered += !waits;
        out->wanted += waits ? 0 : answer.wanted;
        hr_session_answered(&subject->session);
    }
}

static void serve_requests(struct subject *subject)
{
    struct hr_span arrived = {requests, sizeof(requests)};
    struct hr_packer out = {.at = answers, .room = sizeof(answers)};
    struct hr_session_event event;
    struct hr_call calls[HR_TOGETHER_MAX];
    while (arrived.bytes > 0) {
        uint32_t count = 0;
        for (; count < HR_TOGETHER_MAX && arrived.bytes > 0; count++) {
            hr_session_next(&subject->session, arrived, &event);
            if (event.kind != HR_SESSION_REQUEST) {
                (void)fprintf(stderr, "bench_shard: a request is none\n");
                exit(1);
            }
            calls[count] = (struct hr_call){.msgid = event.msgid, .method = event.method, .params = event.params};
            arrived = (struct hr_span){arrived.at + event.consumed, arrived.bytes - event.consumed};
        }
        serve_some(subject, calls, count, &out);
    }
}

static void run(struct subject *subject, uint64_t count, uint64_t per_second)
{
    int64_t step_ns = TOGETHER * HR_NS_PER_S / (int64_t)per_second;
    for (uint64_t i = 0; i < count; i += TOGETHER) {
        write_requests(subject);
        subject->now.steady += step_ns;
        subject->now.wall.ns += step_ns;
        serve_requests(subject);
        if (i / TOGETHER % 50 == 0) { /* so many connections are read in one turn */
            turn(subject);
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *const names[] = {[HR_MEMORY] = "memory", [HR_PERIODIC] = "periodic", [HR_RESERVED] = "reserved"};

static void measure(struct subject *subjects, const struct options *options)
{
    static double ns[3][ROUNDS_MAX], store_ns[3][ROUNDS_MAX];
    for (int round = -1; round < options->rounds; round++) { /* the first makes the counters, and is not counted */
        for (int which = 0; which < 3; which++) {
            struct subject *subject = &subjects[which];
            if (subject->shard == NULL) {
                continue;
            }
            int64_t begin = clock_ns(), store_begin = subject->store_ns;
            run(subject, round < 0 ? options->fill : options->requests, options->per_second);
            if (round >= 0) {
                ns[which][round] = (double)(clock_ns() - begin) / (double)options->requests;
                store_ns[which][round] = (double)(subject->store_ns - store_begin) / (double)options->requests;
            }
        }
    }
    printf("%-10s %30s %12s %14s %10s\n", "", "ns a request (least-most)", "in turns", "bytes stored", "waited");
    for (int which = 0; which < 3; which++) {
        if (subjects[which].shard == NULL) {
            continue;
        }
        qsort(ns[which], (size_t)options->rounds, sizeof(double), compare);
        qsort(store_ns[which], (size_t)options->rounds, sizeof(double), compare);
        printf("%-10s %14.1f (%5.1f-%5.1f) %12.1f %14.1f %10" PRIu64 "\n", names[which], ns[which][options->rounds / 2],
               ns[which][0], ns[which][options->rounds - 1], store_ns[which][options->rounds / 2],
               (double)subjects[which].stored_bytes / (double)subjects[which].answered, subjects[which].waited);
    }
}

static bool read_option(const char *name, const char *value, struct options *options)
{
    uint64_t number = strtoull(value, NULL, 10);
    for (int i = 0; strcmp(name, "--durability") == 0 && i < 3; i++) {
        options->only = strcmp(value, names[i]) == 0 ? i : options->only;
    }
    options->per_second = strcmp(name, "--rate") == 0 ? number : options->per_second;
    options->requests = strcmp(name, "--requests") == 0 ? number : options->requests;
    options->rounds = strcmp(name, "--rounds") == 0 ? (int)number : options->rounds;
    return options->per_second > 0 && options->requests > 0 && options->rounds > 0 && options->rounds <= ROUNDS_MAX;
}

int main(int argc, char **argv)
{
    static struct subject subjects[3];
    struct options options = {.per_second = 2000000, .requests = 2000000, .fill = 5000000, .rounds = 5, .only = -1};
    int first = 1;
    if (argc > 1 && strcmp(argv[1], "--smoke") == 0) {
        options = (struct options){.per_second = 2000000, .requests = 100000, .fill = 100000, .rounds = 1, .only = -1};
        first = 2;
    }
    for (int i = first; i + 1 < argc; i += 2) {
        if (!read_option(argv[i], argv[i + 1], &options)) {
            (void)fprintf(stderr, "bench_shard: %s %s\n", argv[i], argv[i + 1]);
            return 2;
        }
    }
    for (int which = 0; which < 3; which++) {
        if (options.only < 0 || options.only == which) {
            open_subject(&subjects[which], (enum hr_durability)which);
        }
    }
    measure(subjects, &options);
    return 0;
}
