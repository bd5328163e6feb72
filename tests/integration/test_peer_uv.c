/* Peers on loopback: one loop sends packets, another takes them as notifications. Both run in this thread, turn by
 * turn, until what is waited for has come; a test that waits in vain fails after WAIT_NS_MAX. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/connection_uv.h"
#include "node/peer_uv.h"
#include "node/peer_wire.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WAIT_NS_MAX (20 * HR_NS_PER_S)
#define PEERS_MAX 4
#define KIB ((size_t)1024)

/* The other node: its listener and its connections, on a loop of their own. */
struct taker {
    uv_loop_t loop;
    uv_tcp_t listener;
    struct hr_connections *connections;
    uint16_t port;
    uint64_t packets, bytes, next, damaged; /* next: the number that the next packet must begin with */
};

struct rig {
    struct hr_clock clock;
    uv_loop_t loop;
    struct hr_peers *peers;
    struct taker taker;
    char address[64];
};

static struct hr_now now_of(const struct rig *rig)
{
    return hr_clock_now(&rig->clock);
}

/* --- the other node --- */

static void take_packet(void *user, struct hr_span params, struct hr_now now)
{
    struct taker *taker = user;
    struct hr_span packet;
    uint64_t number;
    (void)now;
    if (hr_unpack_peer(params, &packet) != HR_OK || packet.bytes < sizeof(number)) {
        taker->damaged++;
        return;
    }
    memcpy(&number, packet.at, sizeof(number));
    taker->damaged += number != taker->next;
    taker->next = number + 1;
    taker->packets++;
    taker->bytes += packet.bytes;
}

static enum hr_served no_service(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    struct hr_fault fault;
    (void)user;
    (void)now;
    hr_fault_set(&fault, HR_CODE_UNIMPLEMENTED, "none");
    hr_pack_error(out, call->msgid, &fault);
    return HR_SERVED_ANSWERED;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct taker *taker = listener->data;
    hr_connections_accept(taker->connections, listener, status);
}

static void listen_at(struct taker *taker, uint16_t port)
{
    struct sockaddr_in address;
    int bytes = sizeof(address);
    assert_int_equal(uv_ip4_addr("127.0.0.1", port, &address), 0);
    assert_int_equal(uv_tcp_init(&taker->loop, &taker->listener), 0);
    taker->listener.data = taker;
    assert_int_equal(uv_tcp_bind(&taker->listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&taker->listener, 16, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&taker->listener, (struct sockaddr *)&address, &bytes), 0);
    taker->port = ntohs(address.sin_port);
}

static void open_taker(struct rig *rig, uint16_t port)
{
    struct taker *taker = &rig->taker;
    const struct hr_connections_config config = {
        .loop = &taker->loop,
        .clock = &rig->clock,
        .connections_max = 8,
        .session = {.frame_bytes_max = HR_FRAME_BYTES_MAX, .in_flight_max = 8},
        .serve = no_service,
        .peer = take_packet,
        .user = taker,
    };
    *taker = (struct taker){.port = 0};
    assert_int_equal(uv_loop_init(&taker->loop), 0);
    taker->connections = hr_connections_new(&config);
    assert_non_null(taker->connections);
    listen_at(taker, port);
    (void)snprintf(rig->address, sizeof(rig->address), "127.0.0.1:%u", (unsigned)taker->port);
}

static void close_taker(struct taker *taker)
{
    uv_close((uv_handle_t *)&taker->listener, NULL);
    hr_connections_close_all(taker->connections);
    assert_int_equal(uv_run(&taker->loop, UV_RUN_DEFAULT), 0);
    hr_connections_free(taker->connections);
    assert_int_equal(uv_loop_close(&taker->loop), 0);
}

/* --- the rig --- */

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    hr_clock_start(&rig->clock);
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    const struct hr_peers_config config = {.loop = &rig->loop, .clock = &rig->clock, .peers_max = PEERS_MAX};
    rig->peers = hr_peers_new(&config);
    assert_non_null(rig->peers);
    open_taker(rig, 0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    hr_peers_close(rig->peers);
    assert_false(hr_peers_put(rig->peers, 0, hr_span_of(rig->address), HR_SPAN("late"), now_of(rig)));
    assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
    assert_true(hr_peers_are_gone(rig->peers));
    hr_peers_free(rig->peers);
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    close_taker(&rig->taker);
    free(rig);
    return 0;
}

static void turn(struct rig *rig)
{
    hr_peers_turn(rig->peers, now_of(rig));
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
    (void)uv_run(&rig->taker.loop, UV_RUN_NOWAIT);
    hr_connections_turn(rig->taker.connections, now_of(rig));
}

static bool put(struct rig *rig, uint64_t number, size_t bytes)
{
    static char packet[HR_PEER_PACKET_BYTES_MAX + 1];
    memcpy(packet, &number, sizeof(number));
    return hr_peers_put(rig->peers, 0, hr_span_of(rig->address), (struct hr_span){packet, bytes}, now_of(rig));
}

#define UNTIL(rig, condition)                             \
    do {                                                  \
        hr_ns vain_at = now_of(rig).steady + WAIT_NS_MAX; \
        while (!(condition)) {                            \
            turn(rig);                                    \
            if (now_of(rig).steady > vain_at) {           \
                fail_msg("in vain: %s", #condition);      \
            }                                             \
        }                                                 \
    } while (0)

/* --- what must hold --- */

static void packets_arrive_whole_and_in_order(void **state)
{
    struct rig *rig = *state;
    static const size_t sizes[] = {8, 9, 255, 256, 65535, 65536, 300 * KIB, HR_PEER_PACKET_BYTES_MAX};
    size_t bytes = 0;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_true(put(rig, i, sizes[i]));
        bytes += sizes[i];
    }
    UNTIL(rig, rig->taker.packets == COUNT(sizes));
    assert_int_equal(rig->taker.damaged, 0);
    assert_int_equal(rig->taker.bytes, bytes);
    assert_int_equal(hr_peers_stats(rig->peers)->connects, 1);
    assert_int_equal(hr_peers_stats(rig->peers)->dropped, 0);
    UNTIL(rig, hr_peers_stats(rig->peers)->packets == COUNT(sizes));
}

static void all_packets_of_one_turn_leave_as_one_write(void **state)
{
    struct rig *rig = *state;
    assert_true(put(rig, 0, 8));
    UNTIL(rig, rig->taker.packets == 1);
    UNTIL(rig, hr_peers_stats(rig->peers)->packets == 1);
    uint64_t writes = hr_peers_stats(rig->peers)->writes;
    for (uint64_t i = 1; i <= 100; i++) {
        assert_true(put(rig, i, 100));
    }
    UNTIL(rig, rig->taker.packets == 101);
    assert_int_equal(hr_peers_stats(rig->peers)->writes, writes + 1);
    assert_int_equal(rig->taker.damaged, 0);
}

static void too_long_a_packet_and_a_member_that_cannot_be_are_dropped(void **state)
{
    struct rig *rig = *state;
    assert_false(put(rig, 0, HR_PEER_PACKET_BYTES_MAX + 1));
    assert_false(hr_peers_put(rig->peers, PEERS_MAX, hr_span_of(rig->address), HR_SPAN("x"), now_of(rig)));
    static const char *const addresses[] = {"", "here", "127.0.0.1:0", "127.0.0.1:65536", "tcp://127.0.0.1:1"};
    for (size_t i = 0; i < COUNT(addresses); i++) {
        if (hr_peers_put(rig->peers, 1, hr_span_of(addresses[i]), HR_SPAN("x"), now_of(rig))) {
            fail_msg("row %zu", i);
        }
    }
    assert_int_equal(hr_peers_stats(rig->peers)->dropped, 2 + COUNT(addresses));
}

/* Puts until it was refused so often. */
static void be_refused(struct rig *rig, uint64_t failures)
{
    hr_ns until = now_of(rig).steady + WAIT_NS_MAX;
    while (hr_peers_stats(rig->peers)->failures < failures) {
        (void)put(rig, 0, 8);
        hr_peers_turn(rig->peers, now_of(rig));
        (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
        assert_true(now_of(rig).steady < until);
    }
}

static void what_is_put_while_a_peer_is_away_for_a_moment_arrives(void **state)
{
    struct rig *rig = *state;
    uint16_t port = rig->taker.port;
    close_taker(&rig->taker);
    assert_true(put(rig, 0, 8));
    hr_peers_turn(rig->peers, now_of(rig));
    while (hr_peers_stats(rig->peers)->failures == 0) {
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
    open_taker(rig, port);
    assert_true(put(rig, 1, 8)); /* it was tried a moment ago: this waits too */
    UNTIL(rig, rig->taker.packets == 2);
    assert_int_equal(rig->taker.damaged, 0);
    assert_int_equal(hr_peers_stats(rig->peers)->dropped, 0);
    assert_int_equal(hr_peers_stats(rig->peers)->connects, 1);
}

static void who_refuses_is_left_alone_for_a_while(void **state)
{
    struct rig *rig = *state;
    close_taker(&rig->taker);
    hr_ns begin = now_of(rig).steady;
    be_refused(rig, 4);
    assert_true(now_of(rig).steady - begin >= 7 * HR_PEER_PAUSE_NS_MIN); /* it doubles: 1 + 2 + 4 */
    assert_int_equal(hr_peers_stats(rig->peers)->connects, 0);
    open_taker(rig, 0);
}

/* Time is handed in: nothing of this waits. */
static void what_has_waited_too_long_is_dropped(void **state)
{
    struct rig *rig = *state;
    close_taker(&rig->taker);
    be_refused(rig, 1);
    uint64_t dropped = hr_peers_stats(rig->peers)->dropped;
    struct hr_now late = now_of(rig);
    late.steady += HR_PEER_WAIT_NS_MAX + HR_NS_PER_S;
    hr_peers_turn(rig->peers, late);
    assert_true(hr_peers_stats(rig->peers)->dropped > dropped);
    open_taker(rig, 0);
}

static void a_peer_that_goes_and_returns_is_found_again(void **state)
{
    struct rig *rig = *state;
    uint16_t port = rig->taker.port;
    assert_true(put(rig, 0, 8));
    UNTIL(rig, rig->taker.packets == 1);
    close_taker(&rig->taker);
    open_taker(rig, port);
    UNTIL(rig, hr_peers_stats(rig->peers)->failures == 1);
    UNTIL(rig, put(rig, 0, 8));
    UNTIL(rig, rig->taker.packets == 1);
    assert_int_equal(hr_peers_stats(rig->peers)->connects, 2);
}

static void a_member_that_moved_is_asked_at_its_new_address(void **state)
{
    struct rig *rig = *state;
    assert_true(put(rig, 0, 8));
    UNTIL(rig, rig->taker.packets == 1);
    close_taker(&rig->taker);
    open_taker(rig, 0);
    UNTIL(rig, put(rig, 0, 8));
    UNTIL(rig, rig->taker.packets == 1);
}

static void a_name_is_looked_up(void **state)
{
    struct rig *rig = *state;
    (void)snprintf(rig->address, sizeof(rig->address), "localhost:%u", (unsigned)rig->taker.port);
    UNTIL(rig, (put(rig, 0, 8), rig->taker.packets > 0)); /* localhost may be ::1 first, where nobody listens */
}

/* Nobody reads: the queue fills, and all beyond its bound is dropped, until the connection is given up. */
static void a_peer_that_does_not_read_costs_bounded_memory(void **state)
{
    struct rig *rig = *state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(address);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(deaf, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(deaf, 4), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&address, &bytes), 0);
    (void)snprintf(rig->address, sizeof(rig->address), "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    uint64_t taken = 0;
    hr_ns until = now_of(rig).steady + WAIT_NS_MAX;
    while (hr_peers_stats(rig->peers)->failures == 0) {
        taken += put(rig, 0, 256 * KIB);
        turn(rig);
        assert_true(now_of(rig).steady < until);
    }
    assert_true(hr_peers_stats(rig->peers)->dropped > 0);
    uint64_t kept = (taken - hr_peers_stats(rig->peers)->packets) * 256 * KIB;
    assert_true(kept <= 2 * (size_t)HR_PEER_QUEUE_BYTES_MAX + 256 * KIB);
    assert_int_equal(close(deaf), 0);
}

static void packets_that_wait_for_a_connection_end_with_it(void **state)
{
    struct rig *rig = *state;
    (void)snprintf(rig->address, sizeof(rig->address), "127.0.0.1:%u", (unsigned)rig->taker.port);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(put(rig, i, 8));
    }
    hr_peers_close(rig->peers);
    assert_int_equal(hr_peers_stats(rig->peers)->dropped, 3);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(packets_arrive_whole_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_packets_of_one_turn_leave_as_one_write, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_long_a_packet_and_a_member_that_cannot_be_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_put_while_a_peer_is_away_for_a_moment_arrives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_waited_too_long_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_refuses_is_left_alone_for_a_while, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_goes_and_returns_is_found_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_moved_is_asked_at_its_new_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_looked_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_does_not_read_costs_bounded_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(packets_that_wait_for_a_connection_end_with_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
