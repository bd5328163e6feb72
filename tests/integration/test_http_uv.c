/* HTTP server on loopback: server and clients share one loop, which runs until all is done and must then close clean.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/http_uv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIG_BYTES ((size_t)16 * 1024 * 1024) /* more than the kernel takes at once */
#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

struct test;

struct client {
    struct test *test;
    const char *request;
    bool waits_for_end; /* with reading, until the server has gone */
    bool ends_all;      /* the server goes when this one has gone */
    bool reads_late;    /* only once the server has had all it could send at once */
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uv_timer_t pause;
    size_t received;
    bool was_reset;
    char scratch[65536];
    char text[4096]; /* the first bytes */
};

struct test {
    uv_loop_t loop;
    struct hr_http_server *server;
    uint16_t port;
    struct client *clients;
    uint32_t client_count, open_clients, open_most;
    char *big;
    bool is_closing, is_closed;
};

static bool find_page(void *context, struct hr_span path, struct hr_http_page *ret_page)
{
    struct test *test = context;
    uint32_t open = hr_http_server_open_count(test->server);
    test->open_most = open > test->open_most ? open : test->open_most;
    bool is_big = hr_span_equal(path, HR_SPAN("/big"));
    struct hr_span body = is_big ? (struct hr_span){test->big, BIG_BYTES} : HR_SPAN("alive\n");
    *ret_page = (struct hr_http_page){200, "text/plain", body};
    return is_big || hr_span_equal(path, HR_SPAN("/livez"));
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address;
    assert_int_equal(uv_ip4_addr("127.0.0.1", port, &address), 0);
    return address;
}

static void open_test_with(struct test *test, uint32_t connections_max, uint32_t idle_ms, uint32_t header_ms)
{
    *test = (struct test){0};
    test->big = malloc(BIG_BYTES);
    assert_non_null(test->big);
    memset(test->big, 'b', BIG_BYTES);
    struct hr_http_server_options options = {{find_page, test}, connections_max, idle_ms, header_ms};
    struct sockaddr_in address = loopback(0);
    assert_int_equal(uv_loop_init(&test->loop), 0);
    assert_int_equal(hr_http_server_open(&test->loop, (const struct sockaddr *)&address, &options, &test->server),
                     HR_OK);
    test->port = hr_http_server_port(test->server);
    assert_int_not_equal(test->port, 0);
}

static void open_test(struct test *test, uint32_t connections_max, uint32_t idle_ms)
{
    open_test_with(test, connections_max, idle_ms, idle_ms);
}

static void on_server_closed(void *context)
{
    ((struct test *)context)->is_closed = true;
}

static void close_server(struct test *test)
{
    hr_http_server_close(test->server, on_server_closed, test);
}

static void start_reading(uv_timer_t *pause);

/* With the last client the server goes, and with it all that keeps the loop. */
static void on_client_closed(uv_handle_t *handle)
{
    struct client *client = handle->data;
    struct test *test = client->test;
    if ((--test->open_clients == 0 || client->ends_all) && !test->is_closing) {
        test->is_closing = true;
        close_server(test);
    }
    for (uint32_t i = 0; client->ends_all && i < test->client_count; i++) {
        if (test->clients[i].waits_for_end) {
            start_reading(&test->clients[i].pause);
        }
    }
}

static void on_pause_closed(uv_handle_t *handle)
{
    struct client *client = handle->data;
    uv_close((uv_handle_t *)&client->tcp, on_client_closed);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    (void)suggested;
    struct client *client = handle->data;
    *ret_buf = uv_buf_init(client->scratch, sizeof(client->scratch));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct client *client = stream->data;
    if (count < 0) {
        client->was_reset = count != UV_EOF;
        uv_close((uv_handle_t *)&client->pause, on_pause_closed);
        return;
    }
    size_t kept = 0, room = sizeof(client->text) - 1;
    if (client->received < room) {
        kept = (size_t)count < room - client->received ? (size_t)count : room - client->received;
        memcpy(client->text + client->received, buf->base, kept);
    }
    client->received += (size_t)count;
}

static void start_reading(uv_timer_t *pause)
{
    struct client *client = pause->data;
    assert_int_equal(uv_read_start((uv_stream_t *)&client->tcp, on_alloc, on_read), 0);
}

static void on_written(uv_write_t *write, int status)
{
    (void)write;
    assert_int_equal(status, 0);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct client *client = connect->data;
    assert_int_equal(status, 0);
    union {
        const char *in;
        char *out;
    } at = {.in = client->request};
    uv_buf_t buf = uv_buf_init(at.out, (unsigned)strlen(client->request));
    if (buf.len > 0) {
        assert_int_equal(uv_write(&client->write, (uv_stream_t *)&client->tcp, &buf, 1, on_written), 0);
    }
    if (!client->waits_for_end) {
        assert_int_equal(uv_timer_start(&client->pause, start_reading, client->reads_late ? 20 : 0, 0), 0);
    }
}

/* Runs the clients, all at once, to their ends, and then the server and the loop to theirs. */
static void run_clients(struct test *test, struct client *clients, uint32_t count)
{
    test->clients = clients;
    test->client_count = test->open_clients = count;
    struct sockaddr_in address = loopback(test->port);
    for (uint32_t i = 0; i < count; i++) {
        clients[i].test = test;
        clients[i].tcp.data = clients[i].connect.data = &clients[i];
        assert_int_equal(uv_tcp_init(&test->loop, &clients[i].tcp), 0);
        assert_int_equal(uv_timer_init(&test->loop, &clients[i].pause), 0);
        clients[i].tcp.data = clients[i].pause.data = &clients[i];
        assert_int_equal(
            uv_tcp_connect(&clients[i].connect, &clients[i].tcp, (const struct sockaddr *)&address, on_connected), 0);
    }
    assert_int_equal(uv_run(&test->loop, UV_RUN_DEFAULT), 0);
}

static void close_test(struct test *test)
{
    assert_true(test->is_closed);
    assert_int_equal(uv_loop_close(&test->loop), 0);
    free(test->big);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

static void requests_are_answered_over_a_connection(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        unsigned answers_200, answers_404, answers_400;
    } cases[] = {
        {LAST("/livez"), 1, 0, 0},
        {GET("/livez") GET("/a") LAST("/livez"), 2, 1, 0},
        {GET("/livez") "no HTTP at all\r\n" GET("/livez"), 1, 0, 1},
        {LAST("/livez") GET("/livez") GET("/livez"), 1, 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        print_message("case %zu\n", i);
        struct test test;
        struct client *client = calloc(1, sizeof(*client));
        assert_non_null(client);
        client->request = cases[i].request;
        open_test(&test, 4, 5000);
        run_clients(&test, client, 1);
        assert_false(client->was_reset);
        assert_int_equal(count_of(client->text, "HTTP/1.1 200 OK\r\n"), cases[i].answers_200);
        assert_int_equal(count_of(client->text, "HTTP/1.1 404 Not Found\r\n"), cases[i].answers_404);
        assert_int_equal(count_of(client->text, "HTTP/1.1 400 Bad Request\r\n"), cases[i].answers_400);
        close_test(&test);
        free(client);
    }
}

static void a_slow_reader_gets_every_byte_of_large_answers(void **state)
{
    (void)state;
    struct test test;
    struct client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    client->request = GET("/big") GET("/livez") LAST("/big");
    client->reads_late = true;
    open_test(&test, 1, 5000);
    run_clients(&test, client, 1);
    assert_false(client->was_reset);
    assert_in_range(client->received, 2 * BIG_BYTES + 300, 2 * BIG_BYTES + 600);
    close_test(&test);
    free(client);
}

static void a_client_that_sends_no_whole_request_is_closed(void **state)
{
    (void)state;
    static const char *const requests[] = {"", "GET /livez HTTP/1.1\r\nHost: a\r\n", GET("/livez")};
    for (size_t i = 0; i < COUNT(requests); i++) {
        print_message("case %zu\n", i);
        struct test test;
        struct client *client = calloc(1, sizeof(*client));
        assert_non_null(client);
        client->request = requests[i];
        open_test(&test, 4, 30);
        run_clients(&test, client, 1);
        assert_int_equal(count_of(client->text, "HTTP/1.1 200 OK\r\n"), i == 2);
        assert_int_equal(client->received > 0, i == 2);
        close_test(&test);
        free(client);
    }
}

/* The server would let an idle connection be for ten minutes: the test ends only because these are not idle. */
static void a_request_that_has_begun_must_end_sooner(void **state)
{
    (void)state;
    static const char *const requests[] = {"G", "GET /livez HTTP/1.1\r\nHost: a\r\n", GET("/livez") "GET /li"};
    for (size_t i = 0; i < COUNT(requests); i++) {
        print_message("case %zu\n", i);
        struct test test;
        struct client *client = calloc(1, sizeof(*client));
        assert_non_null(client);
        client->request = requests[i];
        open_test_with(&test, 4, 600000, 30);
        run_clients(&test, client, 1);
        assert_int_equal(count_of(client->text, "HTTP/1.1 200 OK\r\n"), i == 2);
        close_test(&test);
        free(client);
    }
}

static void connections_above_the_bound_wait_for_their_turn(void **state)
{
    (void)state;
    struct test test;
    struct client *clients = calloc(12, sizeof(*clients));
    assert_non_null(clients);
    for (size_t i = 0; i < 12; i++) {
        clients[i].request = i % 3 == 0 ? GET("/livez") : LAST("/livez"); /* a third waits to be closed as idle */
    }
    open_test(&test, 3, 50);
    run_clients(&test, clients, 12);
    for (size_t i = 0; i < 12; i++) {
        print_message("client %zu\n", i);
        assert_int_equal(count_of(clients[i].text, "alive\n"), 1);
    }
    assert_in_range(test.open_most, 1, 3);
    close_test(&test);
    free(clients);
}

/* The server would let idle connections be for ten minutes, and those that have begun a request too. */
static void idle_connections_make_room_for_one_that_asks(void **state)
{
    (void)state;
    static const char *const others[] = {"", "GET /li", GET("/livez"), GET("/big")};
    for (size_t k = 0; k < COUNT(others); k++) {
        print_message("case %zu\n", k);
        struct test test;
        struct client *clients = calloc(5, sizeof(*clients));
        assert_non_null(clients);
        for (size_t i = 0; i < 4; i++) {
            clients[i].request = others[k];
            clients[i].waits_for_end = k == 3;
        }
        clients[4].request = LAST("/livez");
        clients[4].ends_all = true;
        open_test(&test, 3, 600000);
        run_clients(&test, clients, 5);
        assert_int_equal(count_of(clients[4].text, "alive\n"), 1);
        assert_in_range(test.open_most, 1, 3);
        close_test(&test);
        free(clients);
    }
}

static void stop_at_once(uv_timer_t *pause)
{
    struct client *client = pause->data;
    close_server(client->test);
    uv_close((uv_handle_t *)pause, NULL);
    uv_close((uv_handle_t *)&client->tcp, NULL);
}

static void on_connected_then_stop(uv_connect_t *connect, int status)
{
    struct client *client = connect->data;
    on_connected(connect, status);
    assert_int_equal(uv_timer_start(&client->pause, stop_at_once, 20, 0), 0);
}

/* The client never reads, so that the answer is still being written. */
static void closing_ends_connections_that_are_under_way(void **state)
{
    (void)state;
    struct test test;
    struct client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    client->request = GET("/big");
    open_test(&test, 4, 5000);
    client->test = &test;
    assert_int_equal(uv_tcp_init(&test.loop, &client->tcp), 0);
    assert_int_equal(uv_timer_init(&test.loop, &client->pause), 0);
    client->tcp.data = client->connect.data = client->pause.data = client;
    struct sockaddr_in address = loopback(test.port);
    assert_int_equal(
        uv_tcp_connect(&client->connect, &client->tcp, (const struct sockaddr *)&address, on_connected_then_stop), 0);
    assert_int_equal(uv_run(&test.loop, UV_RUN_DEFAULT), 0);
    close_test(&test);
    free(client);
}

static void a_port_in_use_is_told(void **state)
{
    (void)state;
    struct test test;
    struct hr_http_server *second = NULL;
    open_test(&test, 1, 5000);
    struct hr_http_server_options options = {{find_page, &test}, 1, 5000, 5000};
    struct sockaddr_in address = loopback(test.port);
    assert_int_equal(hr_http_server_open(&test.loop, (const struct sockaddr *)&address, &options, &second), HR_E_IO);
    assert_int_equal(errno, EADDRINUSE);
    assert_null(second);
    close_server(&test);
    assert_int_equal(uv_run(&test.loop, UV_RUN_DEFAULT), 0);
    close_test(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered_over_a_connection),
        cmocka_unit_test(a_slow_reader_gets_every_byte_of_large_answers),
        cmocka_unit_test(a_client_that_sends_no_whole_request_is_closed),
        cmocka_unit_test(a_request_that_has_begun_must_end_sooner),
        cmocka_unit_test(connections_above_the_bound_wait_for_their_turn),
        cmocka_unit_test(idle_connections_make_room_for_one_that_asks),
        cmocka_unit_test(closing_ends_connections_that_are_under_way),
        cmocka_unit_test(a_port_in_use_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
