/* A load client that speaks what it is told to (tongue.h), so that servers of different protocols are asked for the
 * same keys, over as many connections, as deep, at the same cost to the client.
 *
 * usage: load PORT TONGUE REQUEST_FILE CONNECTIONS DEPTH KEYS SECONDS RATE
 *
 *   REQUEST_FILE  a request as it is sent; each k0000000000 in it becomes a key: k and ten digits, below KEYS, drawn
 *                 evenly. Several make it a batch: a request is then so many checks.
 *   SECONDS       0: each key once, in order, and nothing more
 *   RATE          requests a second; 0: as answers come. A request that has to wait counts its latency from when it was
 *                 due. What is due at one time goes to one connection, as far as DEPTH allows, and what is due next to
 *                 the next: as from clients that pipeline. The client does not sleep then.
 *
 * Prints one line of JSON. Exit status: 0 done, 1 the server failed, 2 wrong usage. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "bench/tongue.h"
#include "node/command/loadgen.h"

#define INPUT_BYTES ((size_t)512 * 1024)
#define REQUEST_BYTES_MAX ((size_t)64 * 1024)
#define BATCH_MAX 1024
#define CONNECTIONS_MAX 10000
#define CONTROL_BYTES ((size_t)16 * 1024) /* of a hello and acknowledgements: before requests, and behind them */
#define EVENTS 256
#define NS_PER_S UINT64_C(1000000000)
#define SILENCE_NS (30 * NS_PER_S)
#define WAIT_MS 50
#define SEED UINT64_C(1)

struct request {
    size_t bytes;
    uint32_t key_count;
    uint32_t keys[BATCH_MAX]; /* where their digits are */
    char at[REQUEST_BYTES_MAX];
};

struct connection {
    int fd;
    uint32_t sent, answered; /* requests, numbered from 0 */
    bool waits_for_room;     /* for the socket to take more */
    size_t input_bytes;
    size_t from, to; /* of the output that the socket has not taken */
    char *input, *output;
    uint64_t *since_ns; /* by number; 0: not in flight */
    struct tongue_wire wire;
};

struct load {
    struct tongue tongue;
    struct request request;
    struct hr_load_keys keys;
    struct hr_load_schedule schedule;
    struct hr_load_result result;
    uint64_t requests_max, keys_in_order; /* keys_in_order: the next one, where they are not drawn */
    uint64_t issued, answered, end_ns, last_ns;
    size_t output_bytes;
    uint32_t connection_count, depth, turn;
    bool in_order;
    int epoll;
    struct connection *connections;
};

static void fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "load: %s%s%s\n", what, why[0] != '\0' ? ": " : "", why);
    exit(1);
}

static uint64_t clock_ns(void)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec;
}

static void *room(size_t count, size_t each)
{
    void *memory = calloc(count, each);
    if (memory == NULL) {
        fail("no memory", "");
    }
    return memory;
}

/* --- out --- */

static void watch(struct load *load, struct connection *connection, bool for_room, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (for_room ? (uint32_t)EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(load->epoll, operation, connection->fd, &event) != 0) {
        fail("epoll", strerror(errno));
    }
    connection->waits_for_room = for_room;
}

static void flush(struct load *load, struct connection *connection)
{
    while (connection->from < connection->to) {
        ssize_t sent = send(connection->fd, connection->output + connection->from, connection->to - connection->from,
                            MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            fail("the server closed a connection", strerror(errno));
        }
        if (sent < 0) {
            break;
        }
        connection->from += (size_t)sent;
    }
    if (connection->from == connection->to) {
        connection->from = connection->to = 0;
    }
    if (connection->waits_for_room != (connection->to > 0)) {
        watch(load, connection, connection->to > 0, EPOLL_CTL_MOD);
    }
}

static void put(struct load *load, struct connection *connection, const void *bytes, size_t count)
{
    if (connection->to + count > load->output_bytes) {
        fail("the server reads too slowly", "");
    }
    if (count > 0) {
        memcpy(connection->output + connection->to, bytes, count);
    }
    connection->to += count;
}

static void write_key(char *digits, uint64_t key)
{
    for (int i = HR_LOAD_KEY_DIGITS - 1; i >= 0; i--, key /= 10) {
        digits[i] = (char)('0' + key % 10);
    }
}

static uint64_t next_key(struct load *load)
{
    return load->in_order ? load->keys_in_order++ % load->keys.count : hr_load_keys_next(&load->keys);
}

/* Puts one request more, if that may be. */
static bool put_request(struct load *load, struct connection *connection, uint64_t since_ns)
{
    uint64_t *slot = &connection->since_ns[connection->sent % TONGUE_FLIGHT_MAX];
    char *at = connection->output + connection->to;
    if (connection->sent - connection->answered >= load->depth || *slot != 0 ||
        connection->to + load->request.bytes > load->output_bytes - CONTROL_BYTES) {
        return false;
    }
    memcpy(at, load->request.at, load->request.bytes);
    if (!tongue_number(&connection->wire, at, connection->sent)) {
        return false;
    }
    for (uint32_t i = 0; i < load->request.key_count; i++) {
        write_key(at + load->request.keys[i], next_key(load));
    }
    connection->to += load->request.bytes;
    connection->sent++;
    load->issued++;
    *slot = since_ns;
    return true;
}

static bool is_over(const struct load *load, uint64_t now_ns)
{
    return now_ns >= load->end_ns || load->issued == load->requests_max;
}

/* Closed loop: each answer makes room for a request. */
static void pump(struct load *load, struct connection *connection, uint64_t now_ns)
{
    while (load->schedule.per_second == 0 && connection->from == 0 && !is_over(load, now_ns) &&
           put_request(load, connection, now_ns)) {
    }
    flush(load, connection);
}

/* Open loop: what is due now, a bunch for each connection in turn. */
static void pump_due(struct load *load, uint64_t now_ns)
{
    uint64_t due = hr_load_due_count(&load->schedule, now_ns < load->end_ns ? now_ns : load->end_ns - 1);
    for (uint32_t tries = 0; load->issued < due && tries < load->connection_count; tries++) {
        struct connection *connection = &load->connections[load->turn++ % load->connection_count];
        while (connection->from == 0 && load->issued < due &&
               put_request(load, connection, hr_load_due_ns(&load->schedule, load->issued))) {
        }
        flush(load, connection);
    }
}

/* --- in --- */

static void take_answer(struct load *load, struct connection *connection, const struct tongue_answer *answer,
                        uint64_t now_ns)
{
    uint64_t *since_ns = &connection->since_ns[answer->number % TONGUE_FLIGHT_MAX];
    if (*since_ns == 0) {
        fail("the server answered what was not asked", "");
    }
    hr_histogram_add(&load->result.latency, now_ns - *since_ns);
    *since_ns = 0;
    connection->answered++;
    load->answered++;
    load->result.errors += answer->is_error;
}

static void take_answers(struct load *load, struct connection *connection, uint64_t now_ns)
{
    struct tongue_answer answer;
    size_t begin = 0, consumed = 0;
    enum tongue_took took = TONGUE_TOOK;
    while (took == TONGUE_TOOK) {
        struct hr_span arrived = {connection->input + begin, connection->input_bytes - begin};
        took = tongue_take(&connection->wire, arrived, &consumed, &answer);
        begin += consumed;
        put(load, connection, answer.reply, answer.reply_bytes);
        if (answer.is_answer) {
            take_answer(load, connection, &answer, now_ns);
        }
    }
    if (took == TONGUE_BROKEN) {
        fail("the server does not speak as expected", "");
    }
    connection->input_bytes -= begin;
    memmove(connection->input, connection->input + begin, connection->input_bytes);
}

static void read_some(struct load *load, struct connection *connection)
{
    size_t left = INPUT_BYTES - connection->input_bytes;
    ssize_t count = recv(connection->fd, connection->input + connection->input_bytes, left, 0);
    if (count < 0 && errno == EAGAIN) {
        return;
    }
    if (count <= 0) {
        fail("the server closed a connection", count < 0 ? strerror(errno) : "");
    }
    connection->input_bytes += (size_t)count;
    uint64_t now_ns = load->last_ns = clock_ns();
    take_answers(load, connection, now_ns);
    pump(load, connection, now_ns);
}

static void run(struct load *load)
{
    struct epoll_event events[EVENTS];
    bool is_paced = load->schedule.per_second > 0;
    uint64_t now_ns = load->last_ns = clock_ns();
    while (!is_over(load, now_ns) || load->answered < load->issued) {
        int count = epoll_wait(load->epoll, events, EVENTS, is_paced ? 0 : WAIT_MS);
        for (int i = 0; i < count; i++) {
            struct connection *connection = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) != 0) {
                pump(load, connection, clock_ns());
            }
            if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
                read_some(load, connection);
            }
        }
        now_ns = clock_ns();
        if (is_paced) {
            pump_due(load, now_ns);
        }
        if (load->answered < load->issued && now_ns - load->last_ns > SILENCE_NS) {
            fail("the server does not answer any more", "");
        }
    }
}

/* --- start --- */

static void open_connection(struct load *load, struct connection *connection, uint16_t port)
{
    const int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        fcntl(connection->fd, F_SETFL, O_NONBLOCK) != 0) {
        fail("the server cannot be reached", strerror(errno));
    }
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* slower without, no more */
    connection->input = room(INPUT_BYTES, 1);
    connection->output = room(load->output_bytes, 1);
    connection->since_ns = room(TONGUE_FLIGHT_MAX, sizeof(uint64_t));
    tongue_wire_init(&connection->wire, &load->tongue);
    struct hr_span hello = tongue_hello(&load->tongue);
    put(load, connection, hello.at, hello.bytes);
    watch(load, connection, false, EPOLL_CTL_ADD);
}

static void start(struct load *load, uint16_t port, uint64_t seconds, uint64_t rate)
{
    load->epoll = epoll_create1(0);
    load->connections = room(load->connection_count, sizeof(*load->connections));
    load->output_bytes = 2 * CONTROL_BYTES + (size_t)load->depth * load->request.bytes;
    for (uint32_t i = 0; i < load->connection_count; i++) {
        open_connection(load, &load->connections[i], port);
    }
    load->schedule = (struct hr_load_schedule){clock_ns(), rate};
    load->end_ns = seconds > 0 ? load->schedule.start_ns + seconds * NS_PER_S : UINT64_MAX;
    load->last_ns = load->schedule.start_ns;
    for (uint32_t i = 0; i < load->connection_count; i++) {
        pump(load, &load->connections[i], load->schedule.start_ns);
    }
}

static bool read_request(struct request *request, const char *path)
{
    static const char key[] = "k0000000000";
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    request->bytes = fread(request->at, 1, sizeof(request->at), file);
    (void)fclose(file); /* it was only read */
    const char *at = request->at, *end = at + request->bytes;
    while (request->key_count < BATCH_MAX && (at = memmem(at, (size_t)(end - at), key, strlen(key))) != NULL) {
        request->keys[request->key_count++] = (uint32_t)(at + 1 - request->at);
        at += strlen(key);
    }
    return request->bytes > 0 && request->bytes < sizeof(request->at) && request->key_count > 0;
}

static void print_result(struct load *load)
{
    const struct hr_load_result *result = &load->result;
    uint64_t elapsed_ns = load->last_ns - load->schedule.start_ns;
    uint64_t checks = (load->answered - result->errors) * load->request.key_count; /* an error decides nothing */
    uint64_t due = load->schedule.per_second > 0 ? hr_load_due_count(&load->schedule, load->end_ns - 1) : load->issued;
    (void)printf("{\"checks\": %" PRIu64 ", \"per_second\": %.0f, \"errors\": %" PRIu64 ", \"unsent\": %" PRIu64
                 ", \"latency_us\": {\"p50\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"p99_9\": %" PRIu64
                 ", \"max\": %" PRIu64 "}}\n",
                 checks, (double)checks * 1e9 / (double)(elapsed_ns > 0 ? elapsed_ns : 1), result->errors,
                 due - load->issued, hr_load_quantile_us(result, 500), hr_load_quantile_us(result, 990),
                 hr_load_quantile_us(result, 999), hr_load_quantile_us(result, 1000));
}

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
    char *end;
    *ret_number = strtoull(text, &end, 10);
    return end != text && *end == '\0' && *ret_number >= least && *ret_number <= most;
}

int main(int argc, char **argv)
{
    static struct load load;
    uint64_t port, connections, depth, keys, seconds, rate;
    if (argc != 9 || !read_number(argv[1], 1, UINT16_MAX, &port) ||
        !read_number(argv[4], 1, CONNECTIONS_MAX, &connections) ||
        !read_number(argv[5], 1, TONGUE_FLIGHT_MAX, &depth) || !read_number(argv[6], 1, HR_LOAD_KEYS_MAX, &keys) ||
        !read_number(argv[7], 0, 86400, &seconds) || !read_number(argv[8], 0, NS_PER_S, &rate) ||
        (seconds == 0 && rate > 0)) {
        (void)fprintf(stderr, "usage: load PORT TONGUE REQUEST_FILE CONNECTIONS DEPTH KEYS SECONDS RATE\n");
        return 2;
    }
    if (!read_request(&load.request, argv[3]) ||
        !tongue_init(&load.tongue, argv[2], (struct hr_span){load.request.at, load.request.bytes})) {
        (void)fprintf(stderr, "load: %s holds no request in %s\n", argv[3], argv[2]);
        return 2;
    }
    hr_load_keys_init(&load.keys, keys, 0, SEED);
    load.in_order = seconds == 0;
    load.requests_max = seconds > 0 ? UINT64_MAX : (keys + load.request.key_count - 1) / load.request.key_count;
    load.connection_count = (uint32_t)connections;
    load.depth = (uint32_t)depth;
    start(&load, (uint16_t)port, seconds, rate);
    run(&load);
    print_result(&load);
    return 0;
}
