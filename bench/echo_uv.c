/* The least that a server on libuv can do: what the node's speed is measured against, on the same machine and with the
 * same bytes. For each REQUEST_BYTES that arrive on a connection it writes what ANSWER_FILE holds, all answers of one
 * read at once. It keeps no state but a count of bytes, and understands nothing: given an answer that a node gave, it
 * can be loaded by `headroom bench`, as far as one request in flight on each connection, which is always msgid 0.
 *
 * usage: echo_uv PORT REQUEST_BYTES ANSWER_FILE      on loopback; port 0: any that is free
 *
 * Prints the port, then serves until it is killed. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define READ_BYTES (64U << 10)
#define SIZE_MAX_BYTES 4096U /* of a request and of an answer */
#define BACKLOG 1024

struct echo {
    uv_loop_t loop;
    uv_tcp_t listener;
    size_t request_bytes, answer_bytes;
    char read_buffer[READ_BYTES];
    char *answers; /* as many as the requests of one read can be */
};

struct connection {
    uv_tcp_t tcp;
    struct echo *echo;
    size_t arrived; /* of the next request */
};

struct write {
    uv_write_t write;
    char data[];
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* the read will tell */
    free(write->data);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct connection *connection = handle->data;
    (void)suggested;
    *ret_buffer = (uv_buf_t){.base = connection->echo->read_buffer, .len = READ_BYTES};
}

static void write_copy(struct connection *connection, const char *at, size_t bytes)
{
    struct write *write = malloc(sizeof(*write) + bytes);
    if (write == NULL) {
        abort();
    }
    memcpy(write->data, at, bytes);
    write->write.data = write;
    uv_buf_t buffer = {.base = write->data, .len = bytes};
    if (uv_write(&write->write, (uv_stream_t *)&connection->tcp, &buffer, 1, on_written) != 0) {
        free(write);
    }
}

static void answer(struct connection *connection, size_t bytes)
{
    uv_buf_t buffer = {.base = connection->echo->answers, .len = bytes};
    int sent = uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1);
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done < bytes && (sent >= 0 || sent == UV_EAGAIN)) {
        write_copy(connection, buffer.base + done, bytes - done);
    }
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    const struct echo *echo = connection->echo;
    (void)buffer;
    if (count < 0) {
        uv_close((uv_handle_t *)stream, on_closed);
        return;
    }
    connection->arrived += (size_t)count;
    size_t requests = connection->arrived / echo->request_bytes;
    connection->arrived %= echo->request_bytes;
    if (requests > 0) {
        answer(connection, requests * echo->answer_bytes);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct connection *connection = status == 0 ? calloc(1, sizeof(*connection)) : NULL;
    if (connection == NULL) {
        return;
    }
    connection->echo = listener->data;
    connection->tcp.data = connection;
    (void)uv_tcp_init(listener->loop, &connection->tcp); /* it never fails without flags */
    if (uv_accept(listener, (uv_stream_t *)&connection->tcp) != 0 ||
        uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) != 0) {
        uv_close((uv_handle_t *)&connection->tcp, on_closed);
        return;
    }
    (void)uv_tcp_nodelay(&connection->tcp, 1); /* slower without, no more */
}

/* The argument as a number from least to most. False: it is none. */
static bool read_number(const char *text, unsigned long least, unsigned long most, unsigned long *ret_number)
{
    char *end;
    *ret_number = strtoul(text, &end, 10);
    return end != text && *end == '\0' && *ret_number >= least && *ret_number <= most;
}

/* As many answers, one behind the other, as one read can ask for. */
static bool read_answer(struct echo *echo, const char *path)
{
    char answer[SIZE_MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    echo->answer_bytes = fread(answer, 1, sizeof(answer), file);
    (void)fclose(file); /* it was only read */
    size_t count = READ_BYTES / echo->request_bytes + 1;
    echo->answers = echo->answer_bytes > 0 ? malloc(count * echo->answer_bytes) : NULL;
    for (size_t i = 0; echo->answers != NULL && i < count; i++) {
        memcpy(echo->answers + i * echo->answer_bytes, answer, echo->answer_bytes);
    }
    return echo->answers != NULL;
}

static int serve(struct echo *echo, uint16_t port)
{
    struct sockaddr_in address;
    int bytes = sizeof(address);
    echo->listener.data = echo;
    int status = uv_ip4_addr("127.0.0.1", port, &address);
    status = status != 0 ? status : uv_loop_init(&echo->loop);
    status = status != 0 ? status : uv_tcp_init(&echo->loop, &echo->listener);
    status = status != 0 ? status : uv_tcp_bind(&echo->listener, (const struct sockaddr *)&address, 0);
    status = status != 0 ? status : uv_listen((uv_stream_t *)&echo->listener, BACKLOG, on_connection);
    status = status != 0 ? status : uv_tcp_getsockname(&echo->listener, (struct sockaddr *)&address, &bytes);
    if (status != 0) {
        (void)fprintf(stderr, "echo_uv: %s\n", uv_strerror(status));
        return 1;
    }
    (void)printf("%u\n", (unsigned)ntohs(address.sin_port));
    (void)fflush(stdout);
    return uv_run(&echo->loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    static struct echo echo;
    unsigned long port = 0, request_bytes = 0;
    if (argc != 4 || !read_number(argv[1], 0, UINT16_MAX, &port) ||
        !read_number(argv[2], 1, SIZE_MAX_BYTES, &request_bytes)) {
        (void)fprintf(stderr, "usage: echo_uv PORT REQUEST_BYTES ANSWER_FILE\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* there is nothing to restore it to */
    echo.request_bytes = request_bytes;
    if (!read_answer(&echo, argv[3])) {
        (void)fprintf(stderr, "echo_uv: no answer in %s\n", argv[3]);
        return 2;
    }
    return serve(&echo, (uint16_t)port);
}
