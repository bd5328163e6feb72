#include "node/http_uv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INBOX_BYTES 4096
#define BACKLOG 64
#define LINGER_MS_MAX 1000 /* for the peer to read the last answer and to close */

/*          accept              answer not taken at once
 *   FREE ---------> READING ----------------------------> WRITING
 *    ^                 |  ^_______________________________/ |
 *    |                 | last answer sent                   | last answer sent
 *    |     closed      v                                    |
 *    '------------- LINGERING <-----------------------------'
 *
 * READING and WRITING may be closed at any time as well. LINGERING drops what arrives until the peer closes: closing a
 * socket that still has bytes unread would reset the connection, and the peer might lose the answer. */
enum phase {
    PHASE_FREE,
    PHASE_READING,
    PHASE_WRITING,
    PHASE_LINGERING,
    PHASE_CLOSING,
};

struct connection {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct hr_http_server *server;
    enum phase phase;
    bool is_last;      /* the answer that is being written */
    bool has_begun;    /* READING: a part of a request has come */
    uint64_t since_ms; /* of what it is given time for */
    struct hr_http_session session;
    char *unsent; /* what of an answer is being written; heap */
    size_t inbox_begin, inbox_end;
    char inbox[INBOX_BYTES];
};

struct hr_http_server {
    uv_tcp_t listener;
    uv_timer_t sweep;
    struct hr_http_server_options options;
    uint32_t handles; /* not closed yet: listener, sweep, connections */
    uint32_t open_count;
    uint64_t accepted_count;
    uint64_t sweep_ms; /* between two looks for what is overdue */
    bool has_waiting;  /* a connection that there was no room for */
    bool is_closing;
    void (*closed)(void *context);
    void *closed_context;
    struct connection connections[];
};

static void accept_waiting(struct hr_http_server *server);
static void on_sweep(uv_timer_t *timer);

static void release_handle(struct hr_http_server *server)
{
    if (--server->handles > 0) {
        return;
    }
    void (*closed)(void *) = server->closed;
    void *context = server->closed_context;
    free(server);
    if (closed != NULL) {
        closed(context);
    }
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct hr_http_server *server = connection->server;
    connection->phase = PHASE_FREE;
    server->open_count--;
    if (server->has_waiting && !server->is_closing) {
        accept_waiting(server);
    }
    release_handle(server);
}

/* A write that is under way is called back first, as cancelled. */
static void close_connection(struct connection *connection)
{
    if (connection->phase != PHASE_CLOSING) {
        connection->phase = PHASE_CLOSING;
        uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
    }
}

static void on_shutdown(uv_shutdown_t *request, int status)
{
    if (status < 0 && status != UV_ECANCELED) {
        close_connection(request->data);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    (void)suggested;
    struct connection *connection = handle->data;
    *ret_buf = uv_buf_init(connection->inbox + connection->inbox_end, INBOX_BYTES - (unsigned)connection->inbox_end);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf);

static void linger(struct connection *connection)
{
    connection->phase = PHASE_LINGERING;
    connection->since_ms = uv_now(connection->tcp.loop);
    connection->inbox_begin = connection->inbox_end = 0;
    connection->shutdown.data = connection;
    if (uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shutdown) != 0) {
        close_connection(connection);
    }
}

static void go_on(struct connection *connection);

static void on_written(uv_write_t *request, int status)
{
    struct connection *connection = request->data;
    free(connection->unsent);
    connection->unsent = NULL;
    if (connection->phase == PHASE_CLOSING) {
        return;
    }
    if (status < 0) {
        close_connection(connection);
        return;
    }
    connection->phase = PHASE_READING;
    connection->since_ms = uv_now(connection->tcp.loop);
    if (connection->is_last) {
        linger(connection);
    } else {
        go_on(connection);
    }
    if (connection->phase == PHASE_READING || connection->phase == PHASE_LINGERING) {
        if (uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) != 0) {
            close_connection(connection);
        }
    }
}

/* Keeps a copy of what lies behind the first `sent` bytes, and has it written as the peer takes it. */
static void write_rest(struct connection *connection, const struct hr_http_answer *answer, size_t sent)
{
    size_t head = sent < answer->head.bytes ? answer->head.bytes - sent : 0;
    size_t body = answer->head.bytes + answer->body.bytes - sent - head;
    connection->unsent = malloc(head + body);
    if (connection->unsent == NULL) {
        close_connection(connection);
        return;
    }
    if (head > 0) {
        memcpy(connection->unsent, answer->head.at + sent, head);
    }
    if (body > 0) {
        memcpy(connection->unsent + head, answer->body.at + answer->body.bytes - body, body);
    }
    uv_buf_t buf = uv_buf_init(connection->unsent, (unsigned)(head + body));
    (void)uv_read_stop((uv_stream_t *)&connection->tcp); /* it cannot fail */
    connection->phase = PHASE_WRITING;
    connection->is_last = answer->is_last;
    connection->write.data = connection;
    if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &buf, 1, on_written) != 0) {
        free(connection->unsent);
        connection->unsent = NULL;
        close_connection(connection);
    }
}

/* libuv's buffers are not const, but are only read. */
static uv_buf_t buf_over(struct hr_span span)
{
    union {
        const char *in;
        char *out;
    } at = {.in = span.at};
    return uv_buf_init(at.out, (unsigned)span.bytes);
}

static void send_answer(struct connection *connection, const struct hr_http_answer *answer)
{
    uv_buf_t bufs[2] = {buf_over(answer->head), buf_over(answer->body)};
    int sent = uv_try_write((uv_stream_t *)&connection->tcp, bufs, answer->body.bytes > 0 ? 2 : 1);
    connection->since_ms = uv_now(connection->tcp.loop);
    connection->has_begun = false;
    if (sent < 0 && sent != UV_EAGAIN) {
        close_connection(connection);
        return;
    }
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    if (taken < answer->head.bytes + answer->body.bytes) {
        write_rest(connection, answer, taken);
    } else if (answer->is_last) {
        linger(connection);
    }
}

/* From now on the whole of a request is waited for. */
static void note_begun(struct connection *connection)
{
    if (!connection->has_begun) {
        connection->has_begun = true;
        connection->since_ms = uv_now(connection->tcp.loop);
    }
}

/* Answers what is in the inbox, until it is empty or an answer is not taken at once. */
static void go_on(struct connection *connection)
{
    struct hr_http_answer answer;
    do {
        struct hr_span arrived = {connection->inbox + connection->inbox_begin,
                                  connection->inbox_end - connection->inbox_begin};
        connection->inbox_begin +=
            hr_http_session_next(&connection->session, &connection->server->options.pages, arrived, &answer);
        if (answer.head.bytes > 0) {
            send_answer(connection, &answer);
        } else if (arrived.bytes > 0) {
            note_begun(connection);
        }
    } while (connection->phase == PHASE_READING && answer.head.bytes > 0);
    if (connection->inbox_begin == connection->inbox_end) {
        connection->inbox_begin = connection->inbox_end = 0;
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)buf;
    struct connection *connection = stream->data;
    if (count < 0) {
        close_connection(connection);
        return;
    }
    if (connection->phase == PHASE_READING) {
        connection->inbox_end += (size_t)count;
        go_on(connection);
    }
}

static struct connection *free_connection(struct hr_http_server *server)
{
    for (uint32_t i = 0; i < server->options.connections_max; i++) {
        if (server->connections[i].phase == PHASE_FREE) {
            return &server->connections[i];
        }
    }
    return NULL;
}

static int busyness(const struct connection *connection)
{
    return connection->phase == PHASE_WRITING ? 2 : connection->has_begun;
}

static bool is_before(const struct connection *a, const struct connection *b)
{
    int difference = busyness(a) - busyness(b);
    return difference != 0 ? difference < 0 : a->since_ms < b->since_ms;
}

/* The one to go first where there is no room: the longest idle, else the one that is longest at its request, else at
 * taking its answer. NULL: all are so new that what they want may be on its way. */
static struct connection *find_idlest(struct hr_http_server *server)
{
    struct connection *idlest = NULL;
    for (uint32_t i = 0; i < server->options.connections_max; i++) {
        struct connection *one = &server->connections[i];
        bool may_go = (one->phase == PHASE_READING || one->phase == PHASE_WRITING) &&
                      uv_now(server->listener.loop) - one->since_ms >= HR_HTTP_GRACE_MS;
        if (may_go && (idlest == NULL || is_before(one, idlest))) {
            idlest = one;
        }
    }
    return idlest;
}

/* For the connection that waits. When the one that goes has gone, it is taken. */
static void make_room(struct hr_http_server *server)
{
    struct connection *idlest = find_idlest(server);
    if (idlest != NULL) {
        close_connection(idlest);
    } else {
        (void)uv_timer_start(&server->sweep, on_sweep, HR_HTTP_GRACE_MS, server->sweep_ms); /* it has a callback */
    }
}

/* One that finds no room waits: libuv accepts no more until it is taken. */
static void accept_waiting(struct hr_http_server *server)
{
    struct connection *connection = free_connection(server);
    server->has_waiting = connection == NULL;
    if (connection == NULL) {
        make_room(server);
        return;
    }
    (void)uv_tcp_init(server->listener.loop, &connection->tcp); /* it cannot fail: no socket is made yet */
    connection->tcp.data = connection;
    connection->server = server;
    connection->phase = PHASE_READING;
    connection->since_ms = uv_now(server->listener.loop);
    connection->has_begun = false;
    connection->inbox_begin = connection->inbox_end = 0;
    hr_http_session_init(&connection->session);
    server->handles++;
    server->open_count++;
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    if (uv_accept((uv_stream_t *)&server->listener, stream) != 0 || uv_read_start(stream, on_alloc, on_read) != 0) {
        close_connection(connection);
        return;
    }
    server->accepted_count++;
}

/* A failure to accept one (no descriptor is left, say) is over with the next. */
static void on_connection(uv_stream_t *listener, int status)
{
    if (status == 0) {
        accept_waiting(listener->data);
    }
}

/* What a connection is given for what it is doing. */
static uint64_t allowed_ms(const struct connection *connection)
{
    const struct hr_http_server_options *options = &connection->server->options;
    if (connection->phase == PHASE_LINGERING) {
        return options->idle_ms < LINGER_MS_MAX ? options->idle_ms : LINGER_MS_MAX;
    }
    return connection->phase == PHASE_READING && connection->has_begun ? options->header_ms : options->idle_ms;
}

static void on_sweep(uv_timer_t *timer)
{
    struct hr_http_server *server = timer->data;
    for (uint32_t i = 0; i < server->options.connections_max; i++) {
        struct connection *connection = &server->connections[i];
        if (connection->phase != PHASE_FREE && uv_now(timer->loop) - connection->since_ms >= allowed_ms(connection)) {
            close_connection(connection);
        }
    }
    if (server->has_waiting) {
        make_room(server);
    }
}

static void on_own_handle_closed(uv_handle_t *handle)
{
    release_handle(handle->data);
}

static int listen_at(struct hr_http_server *server, const struct sockaddr *address)
{
    int err = uv_tcp_bind(&server->listener, address, 0);
    if (err == 0) {
        err = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    }
    const struct hr_http_server_options *options = &server->options;
    server->sweep_ms = (options->idle_ms < options->header_ms ? options->idle_ms : options->header_ms) / 4 + 1;
    return err != 0 ? err : uv_timer_start(&server->sweep, on_sweep, server->sweep_ms, server->sweep_ms);
}

enum hr_err hr_http_server_open(uv_loop_t *loop, const struct sockaddr *address,
                                const struct hr_http_server_options *options, struct hr_http_server **ret_server)
{
    struct hr_http_server *server =
        calloc(1, sizeof(*server) + options->connections_max * sizeof(server->connections[0]));
    if (server == NULL) {
        return HR_E_MEMORY;
    }
    server->options = *options;
    (void)uv_tcp_init(loop, &server->listener); /* neither can fail */
    (void)uv_timer_init(loop, &server->sweep);
    server->listener.data = server;
    server->sweep.data = server;
    server->handles = 2;
    int err = listen_at(server, address);
    if (err != 0) {
        hr_http_server_close(server, NULL, NULL);
        errno = -err;
        return HR_E_IO;
    }
    *ret_server = server;
    return HR_OK;
}

uint16_t hr_http_server_port(const struct hr_http_server *server)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {0};
    int bytes = sizeof(address);
    (void)uv_tcp_getsockname(&server->listener, &address.any, &bytes); /* it is bound */
    static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port), "one place");
    return ntohs(address.v4.sin_port);
}

uint32_t hr_http_server_open_count(const struct hr_http_server *server)
{
    return server->open_count;
}

uint64_t hr_http_server_accepted_count(const struct hr_http_server *server)
{
    return server->accepted_count;
}

void hr_http_server_close(struct hr_http_server *server, void (*closed)(void *context), void *context)
{
    server->is_closing = true;
    server->closed = closed;
    server->closed_context = context;
    for (uint32_t i = 0; i < server->options.connections_max; i++) {
        if (server->connections[i].phase != PHASE_FREE) {
            close_connection(&server->connections[i]);
        }
    }
    uv_close((uv_handle_t *)&server->listener, on_own_handle_closed);
    uv_close((uv_handle_t *)&server->sweep, on_own_handle_closed);
}
