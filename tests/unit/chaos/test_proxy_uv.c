/* Real sockets on loopback: a client, the proxy, and a server that sends back what it gets. Times are held to their
 * lower bounds alone, which no slow machine can break. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

#include "chaos/proxy_uv.h"

#define TURNS_MS_MAX 20000 /* a test that hangs fails */

struct peer {
    uv_tcp_t handle;
    bool is_open;
};

struct fixture {
    uv_loop_t loop;
    uv_tcp_t server;
    struct peer served[4];
    int served_count;
    struct peer client;
    uv_connect_t connect;
    int connected, ended; /* status of the connection, and of its end; 1: not yet */
    size_t received, server_received;
    uint64_t received_at_ms;
    struct hr_proxy *proxy;
    bool proxy_is_closed;
};

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char room[65536];
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(room, sizeof(room));
}

static void on_peer_closed(uv_handle_t *handle)
{
    ((struct peer *)(void *)handle)->is_open = false; /* the handle is its first member */
}

static void close_peer(struct peer *peer)
{
    if (peer->is_open && !uv_is_closing((uv_handle_t *)&peer->handle)) {
        uv_close((uv_handle_t *)&peer->handle, on_peer_closed);
    }
}

static void on_written(uv_write_t *write, int status)
{
    (void)status;
    free(write);
}

/* The bytes follow the request, and go with it. */
static void send_bytes(uv_stream_t *to, const char *at, size_t bytes)
{
    uv_write_t *write = malloc(sizeof(*write) + bytes);
    assert_non_null(write);
    char *copy = (char *)(write + 1);
    if (at != NULL) {
        memcpy(copy, at, bytes);
    } else {
        memset(copy, 'x', bytes);
    }
    const uv_buf_t buffer = uv_buf_init(copy, (unsigned)bytes);
    assert_int_equal(uv_write(write, to, &buffer, 1, on_written), 0);
}

static void on_served_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct fixture *fixture = stream->data;
    if (count > 0) {
        fixture->server_received += (size_t)count;
        send_bytes(stream, buffer->base, (size_t)count);
    } else if (count < 0) {
        close_peer((struct peer *)(void *)stream);
    }
}

static void on_served(uv_stream_t *server, int status)
{
    struct fixture *fixture = server->data;
    assert_int_equal(status, 0);
    assert_true(fixture->served_count < 4);
    struct peer *peer = &fixture->served[fixture->served_count++];
    assert_int_equal(uv_tcp_init(&fixture->loop, &peer->handle), 0);
    peer->is_open = true;
    peer->handle.data = fixture;
    assert_int_equal(uv_accept(server, (uv_stream_t *)&peer->handle), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&peer->handle, on_alloc, on_served_read), 0);
}

static void on_client_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct fixture *fixture = stream->data;
    (void)buffer;
    if (count > 0) {
        fixture->received += (size_t)count;
        fixture->received_at_ms = uv_now(&fixture->loop);
    } else if (count < 0) {
        fixture->ended = (int)count;
        close_peer(&fixture->client);
    }
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct fixture *fixture = connect->data;
    fixture->connected = status;
    if (status == 0) {
        assert_int_equal(uv_read_start((uv_stream_t *)&fixture->client.handle, on_alloc, on_client_read), 0);
    }
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in at;
    assert_int_equal(uv_ip4_addr("127.0.0.1", port, &at), 0);
    return at;
}

static uint16_t listen_somewhere(struct fixture *fixture)
{
    struct sockaddr_in at = loopback(0);
    struct sockaddr_storage name;
    struct sockaddr_in in;
    int bytes = sizeof(name);
    fixture->server.data = fixture;
    assert_int_equal(uv_tcp_init(&fixture->loop, &fixture->server), 0);
    assert_int_equal(uv_tcp_bind(&fixture->server, (const struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&fixture->server, 16, on_served), 0);
    assert_int_equal(uv_tcp_getsockname(&fixture->server, (struct sockaddr *)&name, &bytes), 0);
    memcpy(&in, &name, sizeof(in));
    return ntohs(in.sin_port);
}

static void connect_client(struct fixture *fixture)
{
    struct sockaddr_in at = loopback(hr_proxy_port(fixture->proxy));
    assert_int_equal(uv_tcp_init(&fixture->loop, &fixture->client.handle), 0);
    fixture->client.is_open = true;
    fixture->client.handle.data = fixture;
    fixture->connect.data = fixture;
    fixture->connected = fixture->ended = 1;
    fixture->received = 0;
    assert_int_equal(
        uv_tcp_connect(&fixture->connect, &fixture->client.handle, (const struct sockaddr *)&at, on_connected), 0);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    const struct hr_proxy_config config = {
        .loop = &fixture->loop,
        .listen = loopback(0),
        .to = loopback(listen_somewhere(fixture)),
        .connections_max = 4,
        .seed = 1,
    };
    assert_int_equal(hr_proxy_open(&config, &fixture->proxy), HR_OK);
    *state = fixture;
    return 0;
}

static void on_proxy_closed(void *user)
{
    ((struct fixture *)user)->proxy_is_closed = true;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    hr_proxy_close(fixture->proxy, on_proxy_closed, fixture);
    if (!uv_is_closing((uv_handle_t *)&fixture->server)) {
        uv_close((uv_handle_t *)&fixture->server, NULL);
    }
    close_peer(&fixture->client);
    for (int i = 0; i < fixture->served_count; i++) {
        close_peer(&fixture->served[i]);
    }
    assert_int_equal(uv_run(&fixture->loop, UV_RUN_DEFAULT), 0);
    assert_true(fixture->proxy_is_closed);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    free(fixture);
    return 0;
}

/* Turns the loop until a size is reached. */
static void run_until_size(struct fixture *fixture, const size_t *size, size_t wanted)
{
    uint64_t begin = uv_now(&fixture->loop);
    while (*size < wanted) {
        (void)uv_run(&fixture->loop, UV_RUN_ONCE); /* whether handles are active is no news: the listeners are */
        assert_true(uv_now(&fixture->loop) - begin < TURNS_MS_MAX);
    }
}

static void run_until_status(struct fixture *fixture, const int *status)
{
    uint64_t begin = uv_now(&fixture->loop);
    while (*status == 1) {
        (void)uv_run(&fixture->loop, UV_RUN_ONCE);
        assert_true(uv_now(&fixture->loop) - begin < TURNS_MS_MAX);
    }
}

static void say(struct fixture *fixture, size_t bytes)
{
    send_bytes((uv_stream_t *)&fixture->client.handle, NULL, bytes);
}

static void bytes_and_their_end_pass_both_ways(void **state)
{
    struct fixture *fixture = *state;
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    assert_int_equal(fixture->connected, 0);
    say(fixture, 200000);
    run_until_size(fixture, &fixture->received, 200000);
    struct hr_proxy_counts counts = hr_proxy_counts(fixture->proxy);
    assert_int_equal(counts.accepted, 1);
    assert_int_equal(counts.bytes[HR_PROXY_OUT], 200000);
    assert_int_equal(counts.bytes[HR_PROXY_BACK], 200000);
    close_peer(&fixture->served[0]);
    run_until_status(fixture, &fixture->ended);
    assert_int_equal(fixture->ended, UV_EOF);
}

static void an_answer_is_late_by_both_delays(void **state)
{
    struct fixture *fixture = *state;
    hr_proxy_set(fixture->proxy, HR_PROXY_OUT, (struct hr_proxy_fault){.delay_ns = 40 * HR_NS_PER_MS});
    hr_proxy_set(fixture->proxy, HR_PROXY_BACK, (struct hr_proxy_fault){.delay_ns = 70 * HR_NS_PER_MS});
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    uint64_t begin = uv_now(&fixture->loop);
    say(fixture, 10);
    run_until_size(fixture, &fixture->received, 10);
    assert_true(fixture->received_at_ms - begin >= 110);
}

static void a_lost_segment_costs_a_retransmission(void **state)
{
    struct fixture *fixture = *state;
    hr_proxy_set(fixture->proxy, HR_PROXY_OUT, (struct hr_proxy_fault){.loss_ppm = 1000000});
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    uint64_t begin = uv_now(&fixture->loop);
    say(fixture, 10);
    run_until_size(fixture, &fixture->received, 10);
    assert_true(fixture->received_at_ms - begin >= (uint64_t)(HR_PROXY_RETRANSMIT_NS / HR_NS_PER_MS));
    assert_int_equal(hr_proxy_counts(fixture->proxy).lost[HR_PROXY_OUT], 1);
    assert_int_equal(hr_proxy_counts(fixture->proxy).lost[HR_PROXY_BACK], 0);
}

static void a_one_way_cut_lets_requests_through_and_holds_answers_back(void **state)
{
    struct fixture *fixture = *state;
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    hr_proxy_set(fixture->proxy, HR_PROXY_BACK, (struct hr_proxy_fault){.is_cut = true});
    say(fixture, 1000);
    run_until_size(fixture, &fixture->server_received, 1000);
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(fixture->received, 0);
    hr_proxy_set(fixture->proxy, HR_PROXY_BACK, (struct hr_proxy_fault){0});
    run_until_size(fixture, &fixture->received, 1000);
}

static void a_cut_holds_no_more_than_its_bound_and_loses_nothing(void **state)
{
    const size_t all = 6 * (size_t)HR_PROXY_HELD_BYTES_MAX + 12345; /* more than the kernel holds, too */
    struct fixture *fixture = *state;
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    hr_proxy_set(fixture->proxy, HR_PROXY_OUT, (struct hr_proxy_fault){.is_cut = true});
    say(fixture, all);
    for (int i = 0; i < 2000; i++) {
        (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(fixture->server_received, 0);
    assert_true(uv_stream_get_write_queue_size((const uv_stream_t *)&fixture->client.handle) > 0);
    hr_proxy_set(fixture->proxy, HR_PROXY_OUT, (struct hr_proxy_fault){0});
    run_until_size(fixture, &fixture->received, all);
    assert_int_equal(fixture->received, all);
}

static void a_break_ends_connections_and_the_next_one_works(void **state)
{
    struct fixture *fixture = *state;
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    say(fixture, 10);
    run_until_size(fixture, &fixture->received, 10);
    hr_proxy_break(fixture->proxy);
    run_until_status(fixture, &fixture->ended);
    assert_int_equal(fixture->ended, UV_ECONNRESET);
    while (fixture->client.is_open) {
        (void)uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    say(fixture, 20);
    run_until_size(fixture, &fixture->received, 20);
}

/* The client's address is 127.0.0.1. */
static void a_fault_of_one_address_strikes_its_connections_alone(void **state)
{
    struct fixture *fixture = *state;
    const struct in_addr other = {htonl(0x7f000201)}, own = {htonl(INADDR_LOOPBACK)};
    const struct hr_proxy_fault cut = {.is_cut = true}, none = {0};
    assert_int_equal(hr_proxy_set_from(fixture->proxy, other, HR_PROXY_OUT, cut), HR_OK);
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    say(fixture, 1000);
    run_until_size(fixture, &fixture->received, 1000);
    assert_int_equal(hr_proxy_set_from(fixture->proxy, own, HR_PROXY_OUT, cut), HR_OK);
    hr_proxy_set(fixture->proxy, HR_PROXY_OUT, none); /* the source's own fault goes before it */
    say(fixture, 500);
    for (int i = 0; i < 200; i++) {
        (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(fixture->server_received, 1000);
    assert_int_equal(hr_proxy_set_from(fixture->proxy, own, HR_PROXY_OUT, none), HR_OK);
    run_until_size(fixture, &fixture->received, 1500);
}

static void no_more_sources_than_there_is_room_for(void **state)
{
    struct fixture *fixture = *state;
    const struct hr_proxy_fault none = {0};
    for (uint32_t i = 0; i < HR_PROXY_SOURCES_MAX; i++) {
        assert_int_equal(hr_proxy_set_from(fixture->proxy, (struct in_addr){i + 1}, HR_PROXY_OUT, none), HR_OK);
    }
    assert_int_equal(hr_proxy_set_from(fixture->proxy, (struct in_addr){1}, HR_PROXY_BACK, none), HR_OK);
    assert_int_equal(hr_proxy_set_from(fixture->proxy, (struct in_addr){65}, HR_PROXY_OUT, none), HR_E_FULL);
}

static void a_connection_ends_where_nobody_listens_behind(void **state)
{
    struct fixture *fixture = *state;
    uv_close((uv_handle_t *)&fixture->server, NULL);
    (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
    connect_client(fixture);
    run_until_status(fixture, &fixture->ended);
    assert_int_not_equal(fixture->ended, 0);
    assert_int_equal(hr_proxy_counts(fixture->proxy).refused, 1);
}

#define FILLERS 4

/* A socket that listens, and takes no connection any more: what comes is not answered. */
static uint16_t listen_in_vain(int ret_sockets[FILLERS + 1])
{
    struct sockaddr_in at = loopback(0);
    socklen_t bytes = sizeof(at);
    ret_sockets[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(ret_sockets[0], (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(ret_sockets[0], 0), 0);
    assert_int_equal(getsockname(ret_sockets[0], (struct sockaddr *)&at, &bytes), 0);
    for (int i = 1; i <= FILLERS; i++) {
        ret_sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(ret_sockets[i], (const struct sockaddr *)&at, sizeof(at)); /* the first is taken, no more */
    }
    return ntohs(at.sin_port);
}

/* What the client sends is due at once, and cannot go: the loop must turn on all the same. */
static void who_is_slow_to_answer_holds_up_nobody_else(void **state)
{
    struct fixture *fixture = *state;
    int sockets[FILLERS + 1];
    const struct hr_proxy_config config = {.loop = &fixture->loop,
                                           .listen = loopback(0),
                                           .to = loopback(listen_in_vain(sockets)),
                                           .connections_max = 4,
                                           .seed = 1};
    hr_proxy_close(fixture->proxy, NULL, NULL);
    assert_int_equal(hr_proxy_open(&config, &fixture->proxy), HR_OK);
    (void)alarm(TURNS_MS_MAX / 1000); /* no test could end a loop that does not turn */
    connect_client(fixture);
    run_until_status(fixture, &fixture->connected);
    say(fixture, 10);
    for (uint64_t begin = uv_now(&fixture->loop); uv_now(&fixture->loop) - begin < 50;) {
        (void)uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    (void)alarm(0);
    assert_int_equal(hr_proxy_counts(fixture->proxy).accepted, 1);
    assert_int_equal(hr_proxy_counts(fixture->proxy).bytes[HR_PROXY_OUT], 0);
    for (int i = 0; i <= FILLERS; i++) {
        (void)close(sockets[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_and_their_end_pass_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_is_late_by_both_delays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_segment_costs_a_retransmission, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_one_way_cut_lets_requests_through_and_holds_answers_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cut_holds_no_more_than_its_bound_and_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_break_ends_connections_and_the_next_one_works, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fault_of_one_address_strikes_its_connections_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_more_sources_than_there_is_room_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_slow_to_answer_holds_up_nobody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_ends_where_nobody_listens_behind, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
