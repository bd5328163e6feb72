/* The worker with real sockets, on loopback: its loop runs on a thread of its own, the clients are plain sockets of the
 * test. What the test wants to know of the worker, or to do to it, it does on the loop's thread. Every test ends with a
 * drain, after which the loop must close clean. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/peer_wire.h"
#include "node/temp_folder.h"
#include "node/worker_uv.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/told.h"
#include "storage/segment.h"
#include "storage/storage_lmdb.h"
#include "storage/storage_memory.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TIMEOUT_S 60 /* of a socket: a test that hangs fails */
#define WAITING_MAX 128
#define WORKER_NUMBER 3
#define MIB ((size_t)1 << 20)

/* A span in a table. */
#define ROW(literal)                   \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

/* --- the rig --- */

struct rig {
    /* Set before the loop runs. */
    enum { NO_STORE, MEMORY_STORE, LMDB_STORE, REFUSING_STORE } kind;
    uint32_t connections_max, in_flight_max;
    hr_worker_control *control;

    uv_loop_t loop;
    pthread_t thread;
    struct hr_clock clock;
    struct hr_core *core;
    struct hr_shard *shard;
    void *shard_memory, *set_memory;
    size_t shard_bytes;
    struct hr_limit_set set;
    struct hr_memory_disk *disk;
    struct hr_store *store;
    struct hr_store refusing;
    uint64_t partial_bytes_max;
    unsigned refusals;  /* to come */
    const char *gossip; /* where it listens to other nodes; NULL: it has none */
    char dir[256];
    struct hr_worker *worker;

    /* Of the loop's thread. */
    uv_async_t ask;
    uv_timer_t store_timer;
    bool store_runs; /* the store in memory does its work */

    /* A job for the loop's thread, and what the last one saw. */
    void (*job)(struct rig *rig);
    sem_t job_done;
    sem_t held, released; /* while a job holds the loop up */
    struct hr_connections_stats stats;
    struct hr_shard_counts counts;
};

static const struct hr_span user_key[] = {{"user", 4}};
static const struct hr_span account_key[] = {{"account", 7}};

static const struct hr_limit limits[] = {
    {.name = {"ten", 3},
     .key = user_key,
     .key_count = 1,
     .rule = {.algorithm = HR_TOKEN_BUCKET, .capacity = 10, .rate = 1, .period_ns = (uint64_t)HR_PERIOD_NS_MAX},
     .durability = HR_MEMORY},
    {.name = {"kept", 4},
     .key = account_key,
     .key_count = 1,
     .rule = {.algorithm = HR_FIXED_WINDOW, .capacity = 1000000, .period_ns = (uint64_t)HR_PERIOD_NS_MAX},
     .durability = HR_RESERVED},
};

static void open_shard(struct rig *rig)
{
    const struct hr_shard_config shard = {
        .sizes = {.counters_max = 4096,
                  .leases_max = 16,
                  .log_blocks_max = 16,
                  .limits_max = 16,
                  .reserves_max = 1024,
                  .saves = rig->kind != NO_STORE},
        .node = HR_SPAN("eu-1"),
        .region = HR_SPAN("eu"),
        .flush_interval_ns = 10 * HR_NS_PER_MS,
        .waiting_max = WAITING_MAX,
        .replies_bytes = 4 * MIB,
        .replies_max = 64,
        .hot_keys_max = 64,
    };
    const struct hr_core_config config = {.shard = shard, .is_alone = true};
    rig->shard_bytes = hr_core_bytes(&config);
    rig->shard_memory =
        mmap(NULL, rig->shard_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(rig->shard_memory, MAP_FAILED);
    rig->core = hr_core_init(&config, hr_clock_now(&rig->clock), rig->shard_memory, rig->shard_bytes);
    assert_non_null(rig->core);
    rig->shard = hr_core_shard(rig->core);
    size_t set_bytes = hr_limit_set_bytes(limits, COUNT(limits));
    rig->set_memory = malloc(set_bytes);
    assert_non_null(rig->set_memory);
    assert_int_equal(hr_limit_set_build(&rig->set, limits, COUNT(limits), rig->set_memory, set_bytes), HR_OK);
    assert_int_equal(hr_shard_load(rig->shard, &rig->set, hr_clock_now(&rig->clock)), HR_OK);
}

static void on_persisted(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    for (size_t i = 0; i < count; i++) {
        if (hr_worker_number_of(results[i].ticket) == WORKER_NUMBER) {
            hr_worker_persisted(rig->worker, &results[i]);
        }
    }
}

static enum hr_err refuse_commit(struct hr_store *store, uint64_t ticket, const struct hr_store_batch *batch)
{
    struct rig *rig = (struct rig *)(void *)((char *)store - offsetof(struct rig, refusing));
    (void)batch;
    if (rig->refusals > 0) {
        rig->refusals--;
        return HR_E_FULL;
    }
    const struct hr_store_result result = {.ticket = ticket, .err = HR_OK};
    on_persisted(rig, &result, 1);
    return HR_OK;
}

static void close_refusing(struct hr_store *store)
{
    (void)store;
}

static void open_store(struct rig *rig)
{
    static const struct hr_store_ops refusing = {.commit = refuse_commit, .close = close_refusing};
    if (rig->kind == REFUSING_STORE) {
        rig->refusing.ops = &refusing;
        rig->store = &rig->refusing;
    }
    if (rig->kind == MEMORY_STORE) {
        rig->disk = hr_memory_disk_new();
        assert_non_null(rig->disk);
        rig->store = hr_store_memory_open(rig->disk, on_persisted, rig);
    } else if (rig->kind == LMDB_STORE) {
        assert_true(hr_temp_folder("worker", rig->dir, sizeof(rig->dir)));
        const struct hr_store_lmdb_options options = {
            .dir = rig->dir, .cluster = HR_SPAN("c"), .node = HR_SPAN("eu-1"), .done = on_persisted, .user = rig};
        struct hr_store_problem problem = {{0}};
        enum hr_err err = hr_store_lmdb_open(&options, &rig->store, &problem);
        if (err != HR_OK) {
            fail_msg("%s", problem.text);
        }
    }
}

static void remove_dir(struct rig *rig)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "headroom.lock"};
    for (size_t i = 0; rig->kind == LMDB_STORE && i < COUNT(names); i++) {
        char path[sizeof(rig->dir) + 32];
        (void)snprintf(path, sizeof(path), "%s/%s", rig->dir, names[i]);
        (void)unlink(path); /* not there: just as well */
    }
    if (rig->kind == LMDB_STORE) {
        assert_int_equal(rmdir(rig->dir), 0);
    }
}

static void on_ask(uv_async_t *ask)
{
    struct rig *rig = ask->data;
    void (*job)(struct rig *) = rig->job;
    rig->job = NULL;
    if (job != NULL) {
        job(rig);
        sem_post(&rig->job_done);
    }
}

static void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        assert_int_equal(errno, EINTR);
    }
}

/* Carries out a job on the loop's thread, and returns when it is done. */
static void on_loop(struct rig *rig, void (*job)(struct rig *rig))
{
    rig->job = job;
    assert_int_equal(uv_async_send(&rig->ask), 0);
    wait_for(&rig->job_done);
}

static void do_hold(struct rig *rig)
{
    sem_post(&rig->held);
    wait_for(&rig->released);
}

/* The loop stands still until it is released: it then finds all at once that has arrived meanwhile. */
static void hold(struct rig *rig)
{
    rig->job = do_hold;
    assert_int_equal(uv_async_send(&rig->ask), 0);
    wait_for(&rig->held);
}

static void release(struct rig *rig)
{
    sem_post(&rig->released);
    wait_for(&rig->job_done);
}

static void on_store_timer(uv_timer_t *timer)
{
    struct rig *rig = timer->data;
    if (rig->store_runs && rig->kind == MEMORY_STORE) {
        (void)hr_store_memory_run(rig->store, SIZE_MAX);
    }
}

static void on_stopped(void *user)
{
    struct rig *rig = user;
    uv_close((uv_handle_t *)&rig->ask, NULL);
    uv_close((uv_handle_t *)&rig->store_timer, NULL);
}

static void *run_loop(void *user)
{
    struct rig *rig = user;
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    return NULL;
}

static struct hr_worker_config config_of(struct rig *rig)
{
    struct hr_worker_config config = {
        .loop = &rig->loop,
        .core = rig->core,
        .clock = &rig->clock,
        .store = rig->store,
        .number = WORKER_NUMBER,
        .listen = {.host = "127.0.0.1"},
        .connections_max = rig->connections_max > 0 ? rig->connections_max : 4096,
        .session = {.frame_bytes_max = HR_FRAME_BYTES_MAX,
                    .in_flight_max = rig->in_flight_max > 0 ? rig->in_flight_max : 1024},
        .partial_bytes_max = rig->partial_bytes_max,
        .gossip = {.listen = rig->gossip},
        .control = rig->control,
        .stopped = on_stopped,
        .user = rig,
    };
    return config;
}

static void open_rig(struct rig *rig)
{
    (void)signal(SIGPIPE, SIG_IGN);
    hr_clock_start(&rig->clock);
    open_shard(rig);
    open_store(rig);
    assert_int_equal(sem_init(&rig->job_done, 0, 0), 0);
    assert_int_equal(sem_init(&rig->held, 0, 0), 0);
    assert_int_equal(sem_init(&rig->released, 0, 0), 0);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    assert_int_equal(uv_async_init(&rig->loop, &rig->ask, on_ask), 0);
    assert_int_equal(uv_timer_init(&rig->loop, &rig->store_timer), 0);
    assert_int_equal(uv_timer_start(&rig->store_timer, on_store_timer, 1, 1), 0);
    rig->ask.data = rig;
    rig->store_timer.data = rig;
    const struct hr_worker_config config = config_of(rig);
    struct hr_problem problem;
    assert_int_equal(hr_worker_open(&config, &rig->worker, &problem), HR_OK);
    assert_int_equal(pthread_create(&rig->thread, NULL, run_loop, rig), 0);
}

static void do_drain(struct rig *rig)
{
    hr_worker_drain(rig->worker);
}

static void do_look(struct rig *rig)
{
    rig->stats = *hr_worker_stats(rig->worker);
    rig->counts = hr_shard_counts(rig->shard);
}

static const struct hr_connections_stats *look(struct rig *rig)
{
    on_loop(rig, do_look);
    return &rig->stats;
}

/* Joins the loop, which ends when the worker has stopped; no handle may be left. */
static void join_rig(struct rig *rig)
{
    assert_int_equal(pthread_join(rig->thread, NULL), 0);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    do_look(rig);
    assert_int_equal(rig->stats.open, 0);
    assert_int_equal(rig->stats.unsent_bytes, 0);
    hr_store_close(rig->store);
    hr_worker_free(rig->worker);
    hr_memory_disk_free(rig->disk);
    remove_dir(rig);
    (void)munmap(rig->shard_memory, rig->shard_bytes);
    free(rig->set_memory);
    sem_destroy(&rig->job_done);
    sem_destroy(&rig->held);
    sem_destroy(&rig->released);
}

static void do_run_store(struct rig *rig)
{
    rig->store_runs = true;
}

static void close_rig(struct rig *rig)
{
    on_loop(rig, do_run_store);
    on_loop(rig, do_drain);
    join_rig(rig);
}

/* --- clients --- */

struct client {
    int fd;
    size_t have, answered; /* bytes in `bytes`, and those of answers that were taken */
    size_t room;
    char *bytes;
    bool may_be_reset; /* which then counts as the end */
};

static void open_client_with(struct rig *rig, int receive_bytes, struct client *client)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(hr_worker_port(rig->worker)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int on = 1;
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(client->fd >= 0);
    if (receive_bytes > 0) {
        assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes)), 0);
    }
    assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
    assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)), 0);
    assert_int_equal(setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
    assert_int_equal(connect(client->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static void open_client(struct rig *rig, struct client *client)
{
    open_client_with(rig, 0, client);
}

static void close_client(struct client *client)
{
    (void)close(client->fd);
    free(client->bytes);
}

static void send_all(struct client *client, struct hr_span bytes)
{
    while (bytes.bytes > 0) {
        ssize_t sent = send(client->fd, bytes.at, bytes.bytes, MSG_NOSIGNAL);
        assert_true(sent > 0);
        bytes.at += sent;
        bytes.bytes -= (size_t)sent;
    }
}

/* Receives what there is: how many bytes, 0 at the end. With MSG_DONTWAIT -1 where there is nothing. */
static ssize_t receive(struct client *client, int flags)
{
    if (client->room - client->have < 65536) {
        client->room = 2 * client->room + 65536;
        client->bytes = realloc(client->bytes, client->room);
        assert_non_null(client->bytes);
    }
    ssize_t got = recv(client->fd, client->bytes + client->have, client->room - client->have, flags);
    if (got < 0 && errno == ECONNRESET && client->may_be_reset) {
        return 0;
    }
    if (got < 0) {
        assert_int_equal(errno, EAGAIN);
        assert_true(flags & MSG_DONTWAIT); /* else it has hung */
        return -1;
    }
    client->have += (size_t)got;
    return got;
}

static void assert_closed(struct client *client)
{
    assert_int_equal(client->answered, client->have);
    assert_int_equal(receive(client, 0), 0);
}

/* The next answer, which is borrowed until bytes are received again. */
static struct hr_message next_answer(struct client *client)
{
    struct hr_message message;
    struct hr_frame frame;
    hr_frame_init(&frame, 64U << 20);
    for (;;) {
        struct hr_span arrived = {"", client->have - client->answered};
        arrived.at = arrived.bytes > 0 ? client->bytes + client->answered : "";
        enum hr_err err = arrived.bytes > 0 ? hr_frame_scan(&frame, arrived) : HR_E_TRUNCATED;
        if (err == HR_OK) {
            assert_memory_equal(arrived.at, "\x94\x01", 2);
            assert_int_equal(hr_message_decode((struct hr_span){arrived.at, frame.at}, &message), HR_OK);
            client->answered += frame.at;
            return message;
        }
        assert_int_equal(err, HR_E_TRUNCATED);
        assert_true(receive(client, 0) > 0);
    }
}

static bool next_is_allowed(struct client *client, uint64_t msgid)
{
    struct hr_message answer = next_answer(client);
    struct hr_told_decision decision;
    struct hr_unpacker unpacker = {answer.result};
    assert_int_equal(answer.msgid, msgid);
    assert_int_equal(hr_unpack_decision(&unpacker, &decision), HR_OK);
    return decision.allowed;
}

static void assert_next_is_fault(struct client *client, uint64_t msgid, enum hr_code code)
{
    struct hr_message answer = next_answer(client);
    struct hr_fault fault;
    assert_int_equal(answer.msgid, msgid);
    assert_true(hr_unpack_error(answer.error, &fault));
    assert_int_equal(fault.code, code);
}

/* A check of one attribute, without detail. */
static void pack_check(struct hr_packer *packer, uint64_t msgid, const char *name, const char *value)
{
    hr_pack_request_head(packer, msgid, HR_SPAN("check"));
    hr_pack_map(packer, 1);
    hr_pack_text(packer, HR_SPAN("attributes"));
    hr_pack_map(packer, 1);
    hr_pack_text(packer, hr_span_of(name));
    hr_pack_text(packer, hr_span_of(value));
}

static void send_check(struct client *client, uint64_t msgid, const char *name, const char *value)
{
    char bytes[256];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    pack_check(&packer, msgid, name, value);
    assert_true(hr_packer_fits(&packer));
    send_all(client, hr_packer_bytes(&packer));
}

static bool ask(struct client *client, uint64_t msgid, const char *name, const char *value)
{
    send_check(client, msgid, name, value);
    return next_is_allowed(client, msgid);
}

/* A check_many of count checks; its `at` is to be freed. */
static struct hr_packer many_checks(uint64_t msgid, uint32_t count, const char *name)
{
    size_t room = 64 + (size_t)count * 64;
    char *bytes = malloc(room);
    struct hr_packer packer = {.at = bytes, .room = room};
    assert_non_null(bytes);
    hr_pack_request_head(&packer, msgid, HR_SPAN("check_many"));
    hr_pack_map(&packer, 1);
    hr_pack_text(&packer, HR_SPAN("requests"));
    hr_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        hr_pack_map(&packer, 1);
        hr_pack_text(&packer, HR_SPAN("attributes"));
        hr_pack_map(&packer, 1);
        hr_pack_text(&packer, hr_span_of(name));
        hr_pack_text(&packer, HR_SPAN("many"));
    }
    assert_true(hr_packer_fits(&packer));
    return packer;
}

/* --- requests and answers --- */

static void bytes_by_hand_get_the_right_decisions(void **state)
{
    struct rig rig = {0};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_all(&client, HR_SPAN("\x94\x00\x07\xa5"
                              "check\x91\x82\xaa"
                              "attributes\x81\xa4user\xa3"
                              "ann\xa4"
                              "cost\x0a"));
    struct hr_message answer = next_answer(&client);
    struct hr_unpacker unpacker = {answer.result};
    struct hr_told_decision decision;
    assert_int_equal(answer.msgid, 7);
    assert_int_equal(hr_unpack_decision(&unpacker, &decision), HR_OK);
    assert_true(decision.allowed);
    assert_int_equal(decision.row_count, 1);
    assert_int_equal(decision.rows[0].remaining, 0);
    assert_true(hr_span_equal(decision.node, HR_SPAN("eu-1")));
    assert_false(ask(&client, 8, "user", "ann"));
    assert_true(ask(&client, 9, "user", "bob"));
    look(&rig);
    assert_int_equal(rig.stats.requests[HR_METHOD_CHECK], 3);
    assert_int_equal(rig.stats.latency.count, 3);
    assert_int_equal(rig.stats.bytes_out, client.have);
    close_client(&client);
    close_rig(&rig);
}

static void answer_status(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    struct rig *rig = user;
    assert_true(now.steady > 0);
    assert_int_equal(rig->kind, NO_STORE);
    if (call->method == HR_METHOD_STATUS) {
        hr_pack_result_head(out, call->msgid);
        hr_pack_text(out, HR_SPAN("well"));
    }
}

static void what_cannot_be_done_is_an_error_and_the_connection_goes_on(void **state)
{
    static const struct {
        struct hr_span bytes;
        enum hr_code code;
    } rows[] = {
        {ROW("\x94\x00\x00\xa4nope\x91\x80"), HR_CODE_UNIMPLEMENTED},
        {ROW("\x94\x00\x01\xa7members\x90"), HR_CODE_UNIMPLEMENTED},
        {ROW("\x94\x00\x02\xa5"
             "check\x90"),
         HR_CODE_INVALID_ARGUMENT},
        {ROW("\x94\x00\x03\xa5"
             "check\x05"),
         HR_CODE_INVALID_ARGUMENT},
    };
    struct rig rig = {.control = answer_status};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    for (size_t i = 0; i < COUNT(rows); i++) {
        send_all(&client, rows[i].bytes);
        assert_next_is_fault(&client, i, rows[i].code);
    }
    send_all(&client, HR_SPAN("\x94\x00\x09\xa6status\x90"));
    assert_true(hr_span_equal(next_answer(&client).result, HR_SPAN("\xa4well")));
    assert_true(ask(&client, 10, "user", "ann"));
    close_client(&client);
    close_rig(&rig);
}

static void a_notification_is_carried_out_and_not_answered(void **state)
{
    struct rig rig = {0};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_all(&client, HR_SPAN("\x93\x02\xa5"
                              "check\x91\x82\xaa"
                              "attributes\x81\xa4user\xa3"
                              "ann\xa4"
                              "cost\x0a\x93\x02\xa4nope\x90"));
    assert_false(ask(&client, 1, "user", "ann"));
    assert_int_equal(client.answered, client.have);
    close_client(&client);
    close_rig(&rig);
}

/* Sends all and receives at the same time, until so many answers have come; in order, from msgid 0 on. */
static void pump(struct client *client, struct hr_span bytes, uint64_t answers)
{
    while (bytes.bytes > 0) {
        struct pollfd ready = {.fd = client->fd, .events = POLLIN | POLLOUT};
        assert_int_equal(poll(&ready, 1, TIMEOUT_S * 1000), 1);
        ssize_t sent = send(client->fd, bytes.at, bytes.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(sent > 0 || errno == EAGAIN);
        bytes.at += sent > 0 ? sent : 0;
        bytes.bytes -= sent > 0 ? (size_t)sent : 0;
        (void)receive(client, MSG_DONTWAIT);
    }
    for (uint64_t i = 0; i < answers; i++) {
        assert_true(next_is_allowed(client, i));
    }
}

static void ten_thousand_pipelined_requests_are_all_answered(void **state)
{
    enum { REQUESTS = 10000 };
    struct rig rig = {0};
    struct client client;
    char *bytes = malloc(REQUESTS * 64);
    struct hr_packer packer = {.at = bytes, .room = REQUESTS * 64};
    (void)state;
    assert_non_null(bytes);
    open_rig(&rig);
    open_client(&rig, &client);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        char user[16];
        (void)snprintf(user, sizeof(user), "u%u", (unsigned)i / 10);
        pack_check(&packer, i, "user", user);
    }
    assert_true(hr_packer_fits(&packer));
    pump(&client, hr_packer_bytes(&packer), REQUESTS);
    assert_int_equal(client.answered, client.have);
    look(&rig);
    assert_int_equal(rig.stats.latency.count, REQUESTS);
    assert_int_equal(rig.stats.bytes_in, packer.wanted);
    free(bytes);
    close_client(&client);
    close_rig(&rig);
}

static void a_message_may_come_byte_by_byte(void **state)
{
    struct rig rig = {0};
    struct client client;
    char bytes[128];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    pack_check(&packer, 0, "user", "ann");
    for (size_t i = 0; i < packer.wanted; i++) {
        send_all(&client, (struct hr_span){bytes + i, 1});
        while (look(&rig)->bytes_in == i) {
        }
    }
    assert_true(next_is_allowed(&client, 0));
    close_client(&client);
    close_rig(&rig);
}

/* Longer than what is put before the next read, and than one read. */
static void a_long_message_may_come_in_small_pieces(void **state)
{
    enum { CHECKS = 1000, ROUNDS = 3 };
    static const size_t pieces[ROUNDS] = {1, 777, 20000};
    struct rig rig = {0};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct hr_packer message = many_checks(round, CHECKS, "nobody");
        assert_true(message.wanted > 24000);
        for (size_t at = 0; at < message.wanted; at += pieces[round]) {
            size_t left = message.wanted - at;
            send_all(&client, (struct hr_span){message.at + at, left < pieces[round] ? left : pieces[round]});
        }
        free(message.at);
        struct hr_message answer = next_answer(&client);
        struct hr_unpacker unpacker = {answer.result};
        uint32_t count;
        assert_int_equal(answer.msgid, round);
        assert_int_equal(hr_unpack_array(&unpacker, &count), HR_OK);
        assert_int_equal(count, CHECKS);
    }
    close_client(&client);
    close_rig(&rig);
}

static void a_peer_that_sends_no_more_still_gets_its_answers(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "user", "ann");
    send_check(&client, 1, "account", "a"); /* waits */
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    assert_true(next_is_allowed(&client, 0));
    on_loop(&rig, do_run_store);
    assert_true(next_is_allowed(&client, 1));
    assert_closed(&client);
    close_client(&client);
    close_rig(&rig);
}

/* --- peers that mean no good --- */

static void bytes_of_another_protocol_close_only_that_connection(void **state)
{
    static const struct hr_span rows[] = {
        ROW("GET / HTTP/1.1\r\n\r\n"),
        ROW("\xc1"),
        ROW("\x16\x03\x01\x02"),
        ROW("\x94\x05\x07\xa6status\x90"),
        ROW("\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91"),
        ROW("\xdd\x01\x00\x00\x00"), /* claims 16,777,216 elements */
        ROW("\x94\x00\xdd\xff\xff\xff\xff"),
    };
    struct rig rig = {0};
    struct client good;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &good);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct client bad;
        open_client(&rig, &bad);
        send_all(&bad, rows[i]);
        assert_closed(&bad);
        assert_true(ask(&good, i, "user", "ann"));
        assert_int_equal(look(&rig)->closed_broken, i + 1);
        close_client(&bad);
    }
    close_client(&good);
    close_rig(&rig);
}

/* The answer arrives although the peer goes on sending: closing at once would have reset the connection. */
static void who_is_known_is_told_before_the_connection_closes(void **state)
{
    struct rig rig = {0};
    struct client client;
    char *much = calloc(1, 2 * MIB);
    (void)state;
    assert_non_null(much);
    open_rig(&rig);
    open_client(&rig, &client);
    send_all(&client, HR_SPAN("\x94\x00\x07\xa5"
                              "check\x91\x81\xaa"
                              "attributes\x81\xa4user\xdb\x00\x20\x00\x00"));
    send_all(&client, (struct hr_span){much, 2 * MIB});
    assert_next_is_fault(&client, 7, HR_CODE_RESOURCE_EXHAUSTED);
    assert_closed(&client);
    look(&rig);
    assert_int_equal(rig.stats.open, 1); /* until we close too */
    close_client(&client);
    while (look(&rig)->open > 0) {
    }
    free(much);
    close_rig(&rig);
}

/* Half a long request, once it has arrived. */
static void send_half(struct rig *rig, struct client *client, struct hr_span head, struct hr_span half)
{
    uint64_t before = look(rig)->bytes_in;
    send_all(client, head);
    send_all(client, half);
    while (look(rig)->bytes_in < before + head.bytes + half.bytes && rig->stats.closed_full == 0) {
    }
}

static void a_half_request_beyond_the_room_for_all_is_refused_and_no_other_harmed(void **state)
{
    enum { HALF = 100 << 10, MUCH = 800 << 10 };
    struct rig rig = {.partial_bytes_max = MIB};
    struct client first, second, small;
    char *much = calloc(1, MUCH);
    (void)state;
    assert_non_null(much);
    open_rig(&rig);
    open_client(&rig, &first);
    open_client(&rig, &second);
    open_client(&rig, &small);
    send_half(&rig, &first,
              HR_SPAN("\x94\x00\x07\xa5"
                      "check\x91\x81\xaa"
                      "attributes\x81\xa4user\xdb\x00\x03\x20\x00"),
              (struct hr_span){much, HALF});
    assert_in_range(look(&rig)->partial_bytes, HALF, MIB);
    send_half(&rig, &second,
              HR_SPAN("\x94\x00\x08\xa5"
                      "check\x91\x81\xaa"
                      "attributes\x81\xa4user\xdb\x00\x0d\x00\x00"),
              (struct hr_span){much, MUCH});
    assert_next_is_fault(&second, 8, HR_CODE_RESOURCE_EXHAUSTED);
    assert_closed(&second);
    assert_int_equal(look(&rig)->closed_full, 1);
    assert_true(ask(&small, 1, "user", "ann"));
    send_all(&first, (struct hr_span){much, HALF});
    assert_next_is_fault(&first, 7, HR_CODE_INVALID_ARGUMENT); /* no value is so long */
    close_client(&first);
    close_client(&second);
    while (look(&rig)->open > 1) {
    }
    assert_int_equal(rig.stats.partial_bytes, 0);
    close_client(&small);
    free(much);
    close_rig(&rig);
}

static void do_pass_20_s(struct rig *rig)
{
    atomic_fetch_add(&rig->clock.steady_offset_ns, 20 * HR_NS_PER_S);
}

static void a_peer_that_does_not_close_is_closed_in_time(void **state)
{
    struct rig rig = {0};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_all(&client, HR_SPAN("\xc1"));
    assert_closed(&client);
    assert_int_equal(look(&rig)->open, 1);
    on_loop(&rig, do_pass_20_s);
    while (look(&rig)->open > 0) {
    }
    close_client(&client);
    close_rig(&rig);
}

/* Of three, one has sent nothing, one whole requests, and one a part of a message only, after a whole one. */
static void a_peer_that_stops_within_a_message_is_closed_and_an_idle_one_is_not(void **state)
{
    struct rig rig = {0};
    struct client idle, whole, part;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &idle);
    open_client(&rig, &whole);
    open_client(&rig, &part);
    send_check(&whole, 0, "user", "ann");
    send_check(&part, 0, "user", "ann");
    assert_true(next_is_allowed(&whole, 0));
    assert_true(next_is_allowed(&part, 0));
    uint64_t before = look(&rig)->bytes_in;
    send_all(&part, HR_SPAN("\x94\x00\x01\xa5"
                            "che"));
    while (look(&rig)->bytes_in < before + 7) {
    }
    on_loop(&rig, do_pass_20_s);
    assert_closed(&part);
    assert_int_equal(look(&rig)->closed_slow, 1);
    assert_int_equal(look(&rig)->open, 2);
    send_check(&idle, 1, "user", "ann");
    send_check(&whole, 1, "user", "ann");
    assert_true(next_is_allowed(&idle, 1));
    assert_true(next_is_allowed(&whole, 1));
    close_client(&idle);
    close_client(&whole);
    close_client(&part);
    close_rig(&rig);
}

static void connections_above_the_bound_are_refused(void **state)
{
    struct rig rig = {.connections_max = 2};
    struct client clients[2], third;
    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < COUNT(clients); i++) {
        open_client(&rig, &clients[i]);
        assert_true(ask(&clients[i], 0, "user", "ann"));
    }
    open_client(&rig, &third);
    assert_closed(&third);
    assert_int_equal(look(&rig)->refused, 1);
    assert_int_equal(rig.stats.open, 2);
    close_client(&third);
    close_client(&clients[0]);
    while (look(&rig)->open > 1) {
    }
    open_client(&rig, &third);
    assert_true(ask(&third, 0, "user", "ann"));
    assert_int_equal(rig.stats.total, 2);
    assert_int_equal(look(&rig)->total, 3);
    close_client(&third);
    close_client(&clients[1]);
    close_rig(&rig);
}

/* Sends checks and reads no answer, until the worker reads no more from it. How many checks. */
static uint64_t stuff(struct rig *rig, struct client *client)
{
    uint64_t sent = 0;
    while (look(rig)->paused == 0) {
        for (int i = 0; i < 1000; i++) {
            char bytes[64];
            struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
            pack_check(&packer, sent, "nobody", "x");
            ssize_t done = send(client->fd, bytes, packer.wanted, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (done < 0) {
                break; /* full: it reads no more, or soon will again */
            }
            send_all(client, (struct hr_span){bytes + done, packer.wanted - (size_t)done});
            sent++;
        }
    }
    return sent;
}

static void a_slow_reader_is_paused_and_loses_nothing(void **state)
{
    struct rig rig = {0};
    struct client slow, good;
    (void)state;
    open_rig(&rig);
    open_client_with(&rig, 4096, &slow);
    open_client(&rig, &good);
    uint64_t sent = stuff(&rig, &slow);
    assert_true(rig.stats.unsent_bytes > HR_UNSENT_BYTES_LOW);
    assert_true(rig.stats.unsent_bytes < HR_UNSENT_BYTES_HIGH + MIB);
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(ask(&good, i, "nobody", "x"));
    }
    assert_int_equal(look(&rig)->open, 2);
    for (uint64_t i = 0; i < sent; i++) {
        assert_true(next_is_allowed(&slow, i));
    }
    assert_int_equal(look(&rig)->closed_slow, 0);
    close_client(&slow);
    close_client(&good);
    close_rig(&rig);
}

static void answer_a_mebibyte(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    static char zeroes[MIB];
    (void)user;
    (void)now;
    hr_pack_result_head(out, call->msgid);
    hr_pack_bin(out, (struct hr_span){zeroes, sizeof(zeroes)});
}

static void requests_that_came_together_wait_for_their_turn(void **state)
{
    enum { REQUESTS = 40 };
    struct rig rig = {.control = answer_a_mebibyte};
    struct client client;
    char bytes[REQUESTS * 16];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    (void)state;
    open_rig(&rig);
    open_client_with(&rig, 4096, &client);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        hr_pack_request_head(&packer, i, HR_SPAN("status"));
        hr_pack_map(&packer, 0);
    }
    assert_true(hr_packer_fits(&packer));
    send_all(&client, hr_packer_bytes(&packer));
    while (look(&rig)->paused == 0) {
    }
    assert_true(rig.stats.requests[HR_METHOD_STATUS] < REQUESTS / 2); /* what the kernel takes, and one or two more */
    assert_true(rig.stats.unsent_bytes <= HR_UNSENT_BYTES_HIGH + MIB + 64);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        struct hr_message answer = next_answer(&client);
        assert_int_equal(answer.msgid, i);
        assert_true(answer.result.bytes > MIB);
    }
    close_client(&client);
    close_rig(&rig);
}

static void answer_beyond_the_bound(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    (void)user;
    (void)now;
    hr_pack_result_head(out, call->msgid);
    while (hr_packer_fits(out)) {
        hr_pack_raw(out, "0123456789abcdef", 16);
    }
}

static void an_answer_that_is_too_long_becomes_an_error(void **state)
{
    struct rig rig = {.control = answer_beyond_the_bound};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_all(&client, HR_SPAN("\x94\x00\x09\xa6status\x90"));
    assert_next_is_fault(&client, 9, HR_CODE_RESOURCE_EXHAUSTED);
    assert_int_equal(look(&rig)->answers_too_long, 1);
    assert_true(ask(&client, 10, "user", "ann"));
    close_client(&client);
    close_rig(&rig);
}

static void do_turn_back_1_s(struct rig *rig)
{
    atomic_fetch_sub(&rig->clock.steady_offset_ns, HR_NS_PER_S);
}

/* What it had been promised before it was paused grows too large. Time is turned back all along, so that no request
 * waits for too long, however slow the machine. */
static void a_reader_that_never_reads_is_closed_and_others_go_on(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client slow, good;
    (void)state;
    open_rig(&rig);
    open_client_with(&rig, 4096, &slow);
    open_client(&rig, &good);
    for (uint64_t i = 0; i < WAITING_MAX; i++) {
        struct hr_packer message = many_checks(i, 1000, "account");
        send_all(&slow, hr_packer_bytes(&message));
        free(message.at);
        while (look(&rig), rig.counts.waited <= i) {
        }
        on_loop(&rig, do_turn_back_1_s);
    }
    on_loop(&rig, do_run_store);
    for (uint64_t i = 0; look(&rig)->closed_slow == 0; i++) {
        assert_true(ask(&good, i, "nobody", "x"));
    }
    assert_int_equal(rig.stats.open, 1);
    assert_true(ask(&good, 1, "account", "a"));
    close_client(&slow);
    close_client(&good);
    close_rig(&rig);
}

static void raise_file_limit(rlim_t wanted)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
}

static void thousands_of_idle_and_half_open_connections_cost_little(void **state)
{
    enum { IDLE = 2000 };
    static struct client clients[IDLE];
    struct rig rig = {0};
    struct client good;
    (void)state;
    raise_file_limit(2 * IDLE + 100);
    open_rig(&rig);
    open_client(&rig, &good);
    assert_true(ask(&good, 0, "nobody", "x"));
    struct mallinfo2 before = mallinfo2();
    for (size_t i = 0; i < IDLE; i++) {
        open_client(&rig, &clients[i]);
        send_all(&clients[i], i % 2 == 0 ? HR_SPAN("\x94\x00\x07\xa5"
                                                   "chec")
                                         : HR_SPAN("\x93\x02\xa4nope\x90"));
    }
    while (look(&rig)->open < IDLE + 1 || rig.stats.bytes_in < IDLE * 8) {
    }
    struct mallinfo2 after = mallinfo2(); /* a sanitizer's heap tells nothing: all 0 */
    assert_true(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd < IDLE * (1024 + sizeof(uv_tcp_t)));
    for (uint64_t i = 1; i < 100; i++) {
        assert_true(ask(&good, i, "nobody", "x"));
    }
    send_all(&clients[0], HR_SPAN("k\x91\x81\xaa"
                                  "attributes\x81\xa1x\xa1y"));
    assert_true(next_is_allowed(&clients[0], 7));
    for (size_t i = 0; i < IDLE; i++) {
        close_client(&clients[i]);
    }
    while (look(&rig)->open > 1) {
    }
    close_client(&good);
    close_rig(&rig);
}

/* --- the store --- */

static void only_the_first_waits_for_the_store(struct rig *rig, struct client *client)
{
    look(rig);
    assert_int_equal(rig->counts.waited, 1);
    assert_int_equal(client->answered, client->have);
    on_loop(rig, do_run_store);
    assert_true(next_is_allowed(client, 0));
}

static void what_must_be_stored_first_waits(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "account", "a");
    assert_true(ask(&client, 1, "user", "ann")); /* overtakes it */
    only_the_first_waits_for_the_store(&rig, &client);
    close_client(&client);
    close_rig(&rig);
}

/* In a region what is answered waits for what is still to come to the same client; and not for long, though nothing
 * else wakes the loop. */
static void no_answer_waits_for_another_that_does_not_come(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE, .gossip = "tcp://127.0.0.1:0"};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "account", "a");
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(ask(&client, i, "user", "ann"));
    }
    only_the_first_waits_for_the_store(&rig, &client);
    close_client(&client);
    close_rig(&rig);
}

static void a_client_that_goes_while_its_answers_wait_harms_nobody(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE, .gossip = "tcp://127.0.0.1:0"};
    struct client client, good;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &good);
    for (uint64_t i = 0; i < 50; i++) {
        open_client(&rig, &client);
        send_check(&client, 0, "account", "a");
        send_check(&client, 1, "user", "ann");
        send_check(&good, 2 * i, "account", "b");
        close_client(&client);
        assert_int_equal(ask(&good, 2 * i + 1, "user", "bob"), i < 10);
    }
    on_loop(&rig, do_run_store);
    for (uint64_t i = 0; i < 50; i++) {
        assert_true(next_is_allowed(&good, 2 * i));
    }
    close_client(&good);
    close_rig(&rig);
}

static void a_store_on_disk_answers_many_that_wait(void **state)
{
    enum { CLIENTS = 8, ROUNDS = 20 };
    struct rig rig = {.kind = LMDB_STORE};
    struct client clients[CLIENTS];
    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < CLIENTS; i++) {
        open_client(&rig, &clients[i]);
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < CLIENTS; i++) {
            char account[16];
            (void)snprintf(account, sizeof(account), "a%zu-%u", i, (unsigned)round);
            send_check(&clients[i], round, "account", account);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
            assert_true(next_is_allowed(&clients[i], round));
        }
    }
    look(&rig);
    assert_int_equal(rig.counts.waited, CLIENTS * ROUNDS);
    assert_true(rig.counts.batches >= ROUNDS);
    for (size_t i = 0; i < CLIENTS; i++) {
        close_client(&clients[i]);
    }
    close_rig(&rig);
}

static void do_fill_disk(struct rig *rig)
{
    hr_memory_disk_set_faults(rig->disk, (struct hr_memory_faults){.bytes_max = 1});
    rig->store_runs = true;
}

static void do_pass_1_s(struct rig *rig)
{
    atomic_fetch_add(&rig->clock.steady_offset_ns, HR_WAITING_NS_MAX);
}

static void do_drain_and_pass_20_s(struct rig *rig)
{
    do_drain(rig);
    do_pass_20_s(rig);
}

static void a_store_that_fails_is_not_waited_for_long(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    on_loop(&rig, do_fill_disk);
    send_check(&client, 0, "account", "a");
    while (look(&rig), rig.counts.batches_failed == 0) {
    }
    on_loop(&rig, do_pass_1_s);
    assert_next_is_fault(&client, 0, HR_CODE_UNAVAILABLE);
    assert_true(ask(&client, 1, "user", "ann"));
    close_client(&client);
    on_loop(&rig, do_drain_and_pass_20_s); /* else it would try to save for two seconds */
    join_rig(&rig);
}

static void a_commit_that_is_refused_is_tried_again(void **state)
{
    struct rig rig = {.kind = REFUSING_STORE, .refusals = 2};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    assert_true(ask(&client, 0, "account", "a"));
    look(&rig);
    assert_int_equal(rig.counts.batches_failed, 2);
    close_client(&client);
    close_rig(&rig);
}

static void an_answer_to_a_connection_that_is_gone_is_dropped(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE, .connections_max = 1};
    struct client client, next;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "account", "a");
    while (look(&rig), rig.counts.waited == 0) {
    }
    uint64_t arrived = rig.stats.bytes_in;
    send_all(&client, HR_SPAN("\x94")); /* of the next; were it still on its way, libuv would tell of no reset */
    while (look(&rig)->bytes_in == arrived) {
    }
    const struct linger reset = {.l_onoff = 1};
    assert_int_equal(setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close_client(&client);
    while (look(&rig)->open > 0) {
    }
    open_client(&rig, &next); /* in the same slot */
    assert_true(ask(&next, 1, "user", "ann"));
    on_loop(&rig, do_run_store);
    while (look(&rig)->unclaimed == 0) {
    }
    assert_true(ask(&next, 2, "user", "ann"));
    assert_int_equal(next.answered, next.have);
    close_client(&next);
    close_rig(&rig);
}

static void who_has_too_many_in_flight_is_paused(void **state)
{
    enum { REQUESTS = 20, IN_FLIGHT = 4 };
    struct rig rig = {.kind = MEMORY_STORE, .in_flight_max = IN_FLIGHT};
    struct client client;
    char bytes[REQUESTS * 64];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    for (uint64_t i = 0; i < REQUESTS; i++) {
        pack_check(&packer, i, "account", i % 2 == 0 ? "a" : "b");
    }
    send_all(&client, hr_packer_bytes(&packer));
    while (look(&rig)->paused == 0) {
    }
    assert_int_equal(rig.stats.requests[HR_METHOD_CHECK], IN_FLIGHT);
    on_loop(&rig, do_run_store);
    bool seen[REQUESTS] = {false};
    for (uint64_t i = 0; i < REQUESTS; i++) {
        uint64_t msgid = next_answer(&client).msgid;
        assert_true(msgid < REQUESTS);
        assert_false(seen[msgid]);
        seen[msgid] = true;
    }
    close_client(&client);
    close_rig(&rig);
}

/* A check_many of one account, with detail. */
static void send_many(struct client *client, uint64_t msgid, uint32_t count, const char *account)
{
    char bytes[8192];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_request_head(&packer, msgid, HR_SPAN("check_many"));
    hr_pack_map(&packer, 1);
    hr_pack_text(&packer, HR_SPAN("requests"));
    hr_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        hr_pack_map(&packer, 1);
        hr_pack_text(&packer, HR_SPAN("attributes"));
        hr_pack_map(&packer, 1);
        hr_pack_text(&packer, HR_SPAN("account"));
        hr_pack_text(&packer, hr_span_of(account));
    }
    assert_true(hr_packer_fits(&packer));
    send_all(client, hr_packer_bytes(&packer));
}

/* The next answer has so many decisions, each of one limit, of which one unit more is spent each time. Whose answer it
 * is: those that have waited come in any order. */
static uint64_t next_is_many(struct client *client, uint32_t count)
{
    static struct hr_told_decision decision;
    struct hr_message answer = next_answer(client);
    struct hr_unpacker in = {answer.result};
    uint32_t got;
    assert_int_equal(hr_unpack_array(&in, &got), HR_OK);
    assert_int_equal(got, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
        assert_true(decision.allowed);
        assert_int_equal(decision.row_count, 1);
        assert_int_equal(decision.rows[0].remaining, 1000000 - 1 - i);
    }
    assert_int_equal(in.left.bytes, 0);
    return answer.msgid;
}

static void do_stop_store(struct rig *rig)
{
    rig->store_runs = false;
}

/* Two clients ask in turn for what must be stored first, and all of it is stored at once, so that their answers lie
 * between each other in the outbox. */
enum {
    TURN_CLIENTS = 2,
    TURN_REQUESTS = 12,
    TURN_CHECKS = 100,
    TURNS_MAX = 40
}; /* 9 MiB a client: no socket takes it */

static void ask_in_turn(struct rig *rig, struct client *clients, uint32_t round)
{
    on_loop(rig, do_stop_store);
    for (uint32_t i = 0; i < TURN_CLIENTS * TURN_REQUESTS; i++) {
        char account[32];
        (void)snprintf(account, sizeof(account), "a%u-%u", round, i);
        look(rig);
        uint64_t waited = rig->counts.waited;
        send_many(&clients[i % TURN_CLIENTS], round * TURN_REQUESTS + i / TURN_CLIENTS, TURN_CHECKS, account);
        while (look(rig), rig->counts.waited == waited) {
        }
    }
    uint64_t sent = rig->stats.bytes_out;
    on_loop(rig, do_run_store);
    while (look(rig)->bytes_out - sent < (uint64_t)TURN_CLIENTS * TURN_REQUESTS * TURN_CHECKS * 150) { /* of 190 each */
    }
}

/* As neither client reads, a socket comes to take a part of what is written only. Each client gets all of its own all
 * the same. */
static void interleaved_answers_that_a_socket_takes_in_part_are_whole(void **state)
{
    static bool seen[TURN_CLIENTS][TURNS_MAX * TURN_REQUESTS];
    struct rig rig = {.kind = MEMORY_STORE};
    struct client clients[TURN_CLIENTS];
    uint32_t rounds = 0;
    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < TURN_CLIENTS; i++) {
        open_client_with(&rig, 4096, &clients[i]);
    }
    do {
        assert_true(rounds < TURNS_MAX);
        ask_in_turn(&rig, clients, rounds++);
    } while (rig.stats.unsent_bytes == 0);
    print_message("round %u: %u bytes were not taken\n", rounds, (unsigned)rig.stats.unsent_bytes);
    for (uint64_t i = 0; i < (uint64_t)rounds * TURN_REQUESTS; i++) {
        for (size_t k = 0; k < TURN_CLIENTS; k++) {
            uint64_t msgid = next_is_many(&clients[k], TURN_CHECKS);
            assert_true(msgid < (uint64_t)rounds * TURN_REQUESTS && !seen[k][msgid]);
            seen[k][msgid] = true;
        }
    }
    for (size_t i = 0; i < TURN_CLIENTS; i++) {
        close_client(&clients[i]);
    }
    close_rig(&rig);
}

static void close_with_reset(struct client *client)
{
    const struct linger reset = {.l_onoff = 1};
    assert_int_equal(setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    close_client(client);
}

/* Small checks of many connections are read before the first of them is carried out. Some of these connections end
 * meanwhile: by a reset; by an end, behind which the answer is still read; within the next message. */
static void small_checks_that_came_together_are_answered_whoever_leaves(void **state)
{
    enum { CLIENTS = 3 * HR_TOGETHER_MAX - 1, RESET = 5, ENDED = 6, PARTIAL = 7 };
    struct rig rig = {0};
    struct client clients[CLIENTS];
    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < CLIENTS; i++) {
        open_client(&rig, &clients[i]);
        assert_true(ask(&clients[i], 0, "user", "ann") || i >= 10);
    }
    hold(&rig);
    for (size_t i = 0; i < CLIENTS; i++) {
        char user[16];
        (void)snprintf(user, sizeof(user), "u%zu", i / 20);
        send_check(&clients[i], 100 + i, "user", user);
        if (i % 8 == RESET) {
            close_with_reset(&clients[i]);
        } else if (i % 8 == ENDED) {
            assert_int_equal(shutdown(clients[i].fd, SHUT_WR), 0);
        } else if (i % 8 == PARTIAL) {
            send_all(&clients[i], HR_SPAN("\x94\x00"));
        }
    }
    release(&rig);
    size_t allowed = 0, asked = 0, gone = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (i % 8 == RESET) {
            gone++;
            continue;
        }
        allowed += next_is_allowed(&clients[i], 100 + i);
        asked++;
        if (i % 8 == ENDED) {
            assert_closed(&clients[i]);
            close_client(&clients[i]);
        } else if (i % 8 == PARTIAL) {
            send_all(&clients[i], HR_SPAN("\x09\xa6status\x90"));
            assert_next_is_fault(&clients[i], 9, HR_CODE_UNIMPLEMENTED);
        }
    }
    /* Each user has ten. What those asked for who then were gone was carried out, or not, but never twice. */
    assert_true(allowed <= 30 && allowed + gone >= 27);
    assert_int_equal(asked + gone, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (i % 8 != RESET && i % 8 != ENDED) {
            assert_true(ask(&clients[i], 200, "nobody", "x"));
            assert_int_equal(clients[i].answered, clients[i].have);
            close_client(&clients[i]);
        }
    }
    while (look(&rig)->open > 0) {
    }
    assert_int_equal(rig.stats.unclaimed, 0);
    close_rig(&rig);
}

/* --- start and stop --- */

/* After a drain a counter's last record says just what was spent. */
static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct hr_segment_reader reader;
    bool is_forgotten;
    assert_int_equal(hr_segment_open(record, &reader), HR_OK);
    while (hr_segment_next(&reader, user, &is_forgotten) == HR_OK) {
        assert_false(is_forgotten);
    }
    return HR_OK;
}

static void a_drain_answers_what_waits_and_saves_all(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client client;
    struct hr_counter_image last = {.ahead = 1};
    struct hr_store_loaded loaded;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "account", "a");
    while (look(&rig), rig.counts.waited == 0) {
    }
    on_loop(&rig, do_drain);
    client.may_be_reset = true;
    send_check(&client, 1, "user", "ann"); /* too late */
    for (int i = 0; i < 100; i++) {
        assert_int_equal(look(&rig)->requests[HR_METHOD_CHECK], 1);
    }
    on_loop(&rig, do_run_store);
    assert_true(next_is_allowed(&client, 0));
    assert_closed(&client);
    assert_int_equal(pthread_join(rig.thread, NULL), 0);
    assert_int_equal(hr_store_load(rig.store, HR_RECORD_COUNTER, visit, &last, &loaded), HR_OK);
    assert_int_equal(last.ahead, 0);
    assert_true(hr_shard_counts(rig.shard).batches >= 2);                   /* the raise, and the last word */
    assert_int_equal(pthread_create(&rig.thread, NULL, run_loop, &rig), 0); /* nothing is left: it ends at once */
    join_rig(&rig);
    close_client(&client);
}

static void do_end_farewell(struct rig *rig)
{
    atomic_fetch_add(&rig->clock.steady_offset_ns, HR_FAREWELL_NS);
}

static void send_packet(struct client *client)
{
    char bytes[64];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_peer(&packer, HR_SPAN("a packet"));
    send_all(client, hr_packer_bytes(&packer));
}

/* Answers to requests that wait for other nodes are among their packets. */
static void a_drain_still_hears_other_nodes_while_it_answers(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE, .gossip = "tcp://127.0.0.1:0"};
    struct client client, node;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    open_client(&rig, &node);
    send_packet(&node);
    send_check(&client, 0, "account", "a");
    while (look(&rig), rig.counts.waited == 0 || rig.stats.requests[HR_METHOD_PEER] == 0) {
    }
    on_loop(&rig, do_drain);
    on_loop(&rig, do_end_farewell);
    client.may_be_reset = node.may_be_reset = true;
    send_check(&client, 1, "user", "ann"); /* too late */
    send_packet(&node);
    for (int i = 0; i < 100000 && look(&rig)->requests[HR_METHOD_PEER] < 2; i++) {
    }
    assert_int_equal(rig.stats.requests[HR_METHOD_PEER], 2);
    assert_int_equal(rig.stats.requests[HR_METHOD_CHECK], 1);
    on_loop(&rig, do_run_store);
    assert_true(next_is_allowed(&client, 0));
    assert_closed(&client);
    join_rig(&rig);
    close_client(&client);
    close_client(&node);
}

static void a_drain_does_not_wait_for_a_store_that_has_stalled(void **state)
{
    struct rig rig = {.kind = MEMORY_STORE};
    struct client client;
    (void)state;
    open_rig(&rig);
    open_client(&rig, &client);
    send_check(&client, 0, "account", "a");
    while (look(&rig), rig.counts.waited == 0) {
    }
    on_loop(&rig, do_drain);
    on_loop(&rig, do_pass_1_s);
    on_loop(&rig, do_pass_20_s);
    assert_next_is_fault(&client, 0, HR_CODE_UNAVAILABLE);
    assert_closed(&client);
    join_rig(&rig);
    close_client(&client);
}

static void do_pass_5_s(struct rig *rig)
{
    atomic_fetch_add(&rig->clock.steady_offset_ns, 5 * HR_NS_PER_S);
}

static void a_drain_does_not_wait_for_a_peer_that_does_not_read(void **state)
{
    struct rig rig = {0};
    struct client slow;
    (void)state;
    open_rig(&rig);
    open_client_with(&rig, 4096, &slow);
    (void)stuff(&rig, &slow);
    on_loop(&rig, do_drain);
    on_loop(&rig, do_pass_5_s);
    join_rig(&rig);
    close_client(&slow);
}

static void an_address_in_use_is_told_and_leaves_nothing_behind(void **state)
{
    struct rig rig = {0};
    struct hr_worker *second;
    struct hr_problem problem;
    uv_loop_t loop;
    (void)state;
    open_rig(&rig);
    struct hr_worker_config config = config_of(&rig);
    assert_int_equal(uv_loop_init(&loop), 0);
    config.loop = &loop;
    config.listen.port = hr_worker_port(rig.worker);
    assert_int_equal(hr_worker_open(&config, &second, &problem), HR_E_IO);
    assert_string_equal(problem.what, "cannot listen: Address already in use");
    assert_non_null(strstr(problem.where, "127.0.0.1:"));
    config.connections_max = 0;
    assert_int_equal(hr_worker_open(&config, &second, &problem), HR_E_RANGE);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    close_rig(&rig);
}

static void workers_may_share_a_port_and_a_loop(void **state)
{
    struct rig rigs[3] = {{0}};
    struct hr_problem problem;
    uv_loop_t loop;
    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    for (size_t i = 0; i < COUNT(rigs); i++) {
        hr_clock_start(&rigs[i].clock);
        open_shard(&rigs[i]);
        struct hr_worker_config config = config_of(&rigs[i]);
        config.loop = &loop;
        config.stopped = NULL;
        config.shares_port = i < 2;
        config.listen.port = i > 0 ? hr_worker_port(rigs[0].worker) : 0;
        assert_int_equal(hr_worker_open(&config, &rigs[i].worker, &problem), i < 2 ? HR_OK : HR_E_IO);
    }
    assert_int_equal(hr_worker_port(rigs[0].worker), hr_worker_port(rigs[1].worker));
    hr_worker_drain(rigs[0].worker);
    hr_worker_drain(rigs[1].worker);
    hr_worker_drain(rigs[1].worker); /* again: nothing */
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < COUNT(rigs); i++) {
        if (i < 2) {
            hr_worker_free(rigs[i].worker);
        }
        (void)munmap(rigs[i].shard_memory, rigs[i].shard_bytes);
        free(rigs[i].set_memory);
    }
}

/* --- the clock --- */

static void both_clocks_show_unix_time_and_offsets_move_them(void **state)
{
    struct hr_clock clock;
    (void)state;
    hr_clock_start(&clock);
    struct hr_now before = hr_clock_now(&clock);
    assert_true(before.steady > INT64_C(1700000000) * HR_NS_PER_S);
    assert_true(llabs(before.steady - before.wall.ns) < 60 * HR_NS_PER_S);
    atomic_store(&clock.steady_offset_ns, 1000 * HR_NS_PER_S);
    atomic_store(&clock.wall_offset_ns, -1000 * HR_NS_PER_S);
    struct hr_now after = hr_clock_now(&clock);
    assert_true(after.steady >= before.steady + 1000 * HR_NS_PER_S);
    assert_true(after.wall.ns < before.wall.ns - 900 * HR_NS_PER_S);
    atomic_store(&clock.wall_offset_ns, -HR_TIME_NS_MAX);
    assert_int_equal(hr_clock_now(&clock).wall.ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_clocks_show_unix_time_and_offsets_move_them),
        cmocka_unit_test(bytes_by_hand_get_the_right_decisions),
        cmocka_unit_test(what_cannot_be_done_is_an_error_and_the_connection_goes_on),
        cmocka_unit_test(a_notification_is_carried_out_and_not_answered),
        cmocka_unit_test(ten_thousand_pipelined_requests_are_all_answered),
        cmocka_unit_test(a_message_may_come_byte_by_byte),
        cmocka_unit_test(a_long_message_may_come_in_small_pieces),
        cmocka_unit_test(a_peer_that_sends_no_more_still_gets_its_answers),
        cmocka_unit_test(bytes_of_another_protocol_close_only_that_connection),
        cmocka_unit_test(who_is_known_is_told_before_the_connection_closes),
        cmocka_unit_test(a_peer_that_does_not_close_is_closed_in_time),
        cmocka_unit_test(a_peer_that_stops_within_a_message_is_closed_and_an_idle_one_is_not),
        cmocka_unit_test(connections_above_the_bound_are_refused),
        cmocka_unit_test(a_slow_reader_is_paused_and_loses_nothing),
        cmocka_unit_test(requests_that_came_together_wait_for_their_turn),
        cmocka_unit_test(an_answer_that_is_too_long_becomes_an_error),
        cmocka_unit_test(a_reader_that_never_reads_is_closed_and_others_go_on),
        cmocka_unit_test(a_half_request_beyond_the_room_for_all_is_refused_and_no_other_harmed),
        cmocka_unit_test(thousands_of_idle_and_half_open_connections_cost_little),
        cmocka_unit_test(what_must_be_stored_first_waits),
        cmocka_unit_test(no_answer_waits_for_another_that_does_not_come),
        cmocka_unit_test(a_client_that_goes_while_its_answers_wait_harms_nobody),
        cmocka_unit_test(a_store_on_disk_answers_many_that_wait),
        cmocka_unit_test(a_store_that_fails_is_not_waited_for_long),
        cmocka_unit_test(a_commit_that_is_refused_is_tried_again),
        cmocka_unit_test(an_answer_to_a_connection_that_is_gone_is_dropped),
        cmocka_unit_test(who_has_too_many_in_flight_is_paused),
        cmocka_unit_test(interleaved_answers_that_a_socket_takes_in_part_are_whole),
        cmocka_unit_test(small_checks_that_came_together_are_answered_whoever_leaves),
        cmocka_unit_test(a_drain_answers_what_waits_and_saves_all),
        cmocka_unit_test(a_drain_still_hears_other_nodes_while_it_answers),
        cmocka_unit_test(a_drain_does_not_wait_for_a_store_that_has_stalled),
        cmocka_unit_test(a_drain_does_not_wait_for_a_peer_that_does_not_read),
        cmocka_unit_test(an_address_in_use_is_told_and_leaves_nothing_behind),
        cmocka_unit_test(workers_may_share_a_port_and_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
