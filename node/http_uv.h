/* HTTP server: a listener that serves a few pages over http_session.h, for health checks and scrapers.
 *
 * At most connections_max connections are open. Where one more comes, the one that has been idle longest is closed for
 * it, or else the slowest, so that they never keep a health check waiting; each has HR_HTTP_GRACE_MS at least, and as
 * long the new one waits. One that has begun a request and does
 * not send the whole of it within header_ms is closed, however much it trickles; and one that does not begin one, or
 * does not take its answer, within idle_ms. While an answer is being
 * taken, its connection is not read.
 *
 * Thread: the loop's. Memory: all at open, but for what of an answer the kernel does not take at once. */
#ifndef HR_NODE_HTTP_UV_H
#define HR_NODE_HTTP_UV_H

#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "node/http_session.h"

#define HR_HTTP_CONNECTIONS_MAX 64
#define HR_HTTP_IDLE_MS 10000
#define HR_HTTP_HEADER_MS 5000
#define HR_HTTP_GRACE_MS 100

struct hr_http_server_options {
    struct hr_http_pages pages;
    uint32_t connections_max; /* 1 or more; HR_HTTP_CONNECTIONS_MAX is usual */
    uint32_t idle_ms;         /* 1 or more; HR_HTTP_IDLE_MS is usual */
    uint32_t header_ms;       /* 1 or more; HR_HTTP_HEADER_MS is usual */
};

struct hr_http_server;

/* Listens at address and serves from the loop's next turn on. HR_E_MEMORY; HR_E_IO: errno says why. After an error,
 * what was begun is freed by the loop's next turns. */
HR_MUST enum hr_err hr_http_server_open(uv_loop_t *loop, const struct sockaddr *address,
                                        const struct hr_http_server_options *options,
                                        struct hr_http_server **ret_server);

/* The port it listens at, also where the address left the choice (0) to the kernel. */
uint16_t hr_http_server_port(const struct hr_http_server *server);

/* Connections: open now, and accepted since start. */
uint32_t hr_http_server_open_count(const struct hr_http_server *server);
uint64_t hr_http_server_accepted_count(const struct hr_http_server *server);

/* Closes the listener and all connections, answers that are under way included. When that is done, the server is freed,
 * then closed(context) is called, if it is not NULL. */
void hr_http_server_close(struct hr_http_server *server, void (*closed)(void *context), void *context);

#endif
