/* What bench/count.sh counts the instructions of: checks from the bytes that arrive to the bytes that leave, by a whole
 * worker on real sockets, whose client is a thread that only sends and receives. One token bucket, no detail, a
 * thousand keys.
 *
 * usage: count_uv CHECKS TOGETHER      TOGETHER of them in each write, 1 to 64 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "node/command/loadgen.h"
#include "node/core.h"
#include "node/worker_uv.h"

#define KEYS 1024U
#define TOGETHER_MAX 64U
#define ANSWER_BYTES_MAX 256U
#define MSGID_FIRST (UINT32_C(1) << 16) /* so that all have as many bytes, and all answers, too */

struct bench {
    uv_loop_t loop;
    struct hr_clock clock;
    struct hr_limit_set set;
    struct hr_worker *worker;
    int client;
    struct hr_load_request request;
    char *requests; /* of all keys, one behind the other */
    unsigned long checks, together;
};

static void require(bool is_fine, const char *what)
{
    if (!is_fine) {
        (void)fprintf(stderr, "count_uv: %s\n", what);
        exit(1);
    }
}

static struct hr_core *new_core(struct bench *bench)
{
    const struct hr_core_config config = {
        .shard = {.sizes = {.counters_max = 4 * KEYS, .leases_max = 16, .log_blocks_max = 16, .limits_max = 16},
                  .node = HR_SPAN("bench"),
                  .region = HR_SPAN("here"),
                  .flush_interval_ns = HR_NS_PER_S,
                  .waiting_max = 16,
                  .replies_bytes = 4U << 20,
                  .replies_max = 64,
                  .hot_keys_max = 64},
        .is_alone = true};
    size_t bytes = hr_core_bytes(&config);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(memory != MAP_FAILED, "no memory");
    struct hr_core *core = hr_core_init(&config, hr_clock_now(&bench->clock), memory, bytes);
    require(core != NULL, "the core does not start");
    return core;
}

static void load_limit(struct bench *bench, struct hr_core *core)
{
    static const struct hr_span key = {"api_key", 7};
    static const struct hr_limit limit = {
        .name = {"key-day", 7},
        .key_count = 1,
        .key = &key,
        .rule = {
            .algorithm = HR_TOKEN_BUCKET, .capacity = 1000000, .rate = 1000, .period_ns = (uint64_t)HR_PERIOD_NS_MAX}};
    size_t bytes = hr_limit_set_bytes(&limit, 1);
    void *memory = calloc(1, bytes);
    require(memory != NULL && hr_limit_set_build(&bench->set, &limit, 1, memory, bytes) == HR_OK &&
                hr_core_load(core, &bench->set, hr_clock_now(&bench->clock)) == HR_OK,
            "the limit is not taken");
}

static void open_worker(struct bench *bench, struct hr_core *core)
{
    struct hr_problem problem;
    const struct hr_worker_config config = {
        .loop = &bench->loop,
        .core = core,
        .clock = &bench->clock,
        .listen = {.host = "127.0.0.1"},
        .connections_max = 16,
        .session = {.frame_bytes_max = HR_FRAME_BYTES_MAX, .in_flight_max = 1024},
    };
    require(uv_loop_init(&bench->loop) == 0 && hr_worker_open(&config, &bench->worker, &problem) == HR_OK,
            "the worker does not start");
}

static void connect_client(struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(hr_worker_port(bench->worker))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bench->client = socket(AF_INET, SOCK_STREAM, 0);
    require(bench->client >= 0 && connect(bench->client, (struct sockaddr *)&address, sizeof(address)) == 0,
            "the worker cannot be reached");
}

static void write_requests(struct bench *bench)
{
    const struct hr_load_check check = {.attribute = HR_SPAN("api_key"), .cost = 1};
    require(hr_load_request_init(&bench->request, &check) == HR_OK, "no request");
    bench->requests = malloc((size_t)KEYS * bench->request.bytes);
    require(bench->requests != NULL, "no memory");
    for (uint32_t key = 0; key < KEYS; key++) {
        hr_load_request_write(&bench->request, MSGID_FIRST + key, key,
                              bench->requests + (size_t)key * bench->request.bytes);
    }
}

/* Sends so many requests and waits for their answers. Returns the bytes of one: a denial would have others. */
static size_t ask(struct bench *bench, unsigned long first_key, unsigned long count, size_t answer_bytes)
{
    char answers[TOGETHER_MAX * ANSWER_BYTES_MAX];
    size_t bytes = count * bench->request.bytes, got = 0;
    ssize_t sent = send(bench->client, bench->requests + first_key * bench->request.bytes, bytes, 0);
    require(sent == (ssize_t)bytes, "the worker does not read");
    do {
        ssize_t received = recv(bench->client, answers + got, sizeof(answers) - got, 0);
        require(received > 0, "the worker does not answer");
        got += (size_t)received;
    } while (got < count * answer_bytes);
    require(answer_bytes == 0 || got == count * answer_bytes, "not all was allowed");
    return got / count;
}

static void *run_client(void *user)
{
    struct bench *bench = user;
    size_t answer_bytes = ask(bench, 0, 1, 0);
    for (unsigned long done = 0; done < bench->checks; done += bench->together) {
        (void)ask(bench, done % (KEYS - bench->together + 1), bench->together, answer_bytes);
    }
    exit(0); /* the kernel takes back the rest */
}

int main(int argc, char **argv)
{
    static struct bench bench;
    pthread_t client;
    bench.checks = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
    bench.together = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (bench.checks == 0 || bench.together == 0 || bench.together > TOGETHER_MAX) {
        (void)fprintf(stderr, "usage: count_uv CHECKS TOGETHER\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* there is nothing to restore it to */
    hr_clock_start(&bench.clock);
    struct hr_core *core = new_core(&bench);
    load_limit(&bench, core);
    open_worker(&bench, core);
    connect_client(&bench);
    write_requests(&bench);
    require(pthread_create(&client, NULL, run_client, &bench) == 0, "no thread");
    return uv_run(&bench.loop, UV_RUN_DEFAULT);
}
