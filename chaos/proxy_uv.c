#include "chaos/proxy_uv.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/dice.h"

#define BACKLOG 128
#define READ_BYTES 65536
#define MILLION 1000000U

/* Bytes on their way, or with no bytes the end of them. */
struct piece {
    struct piece *next;
    uv_write_t write;
    struct pair *pair;
    enum hr_proxy_way way;
    uint64_t due_ms; /* on the loop's clock */
    size_t bytes;
    char at[];
};

/* One direction: read from one socket, held, written to the other. */
struct flow {
    struct piece *first, **end;
    size_t held;     /* bytes, those that are being written too */
    bool is_stopped; /* reading: too much is held */
    bool is_ended;   /* the end of it has been passed on */
};

/* Two connections that are one. It goes when its three handles are closed and nothing is being written. */
struct pair {
    struct pair *next, **link;
    struct hr_proxy *proxy;
    struct in_addr from; /* the client */
    uv_tcp_t ends[2];    /* by the way that is read from it: [HR_PROXY_OUT] is the client's */
    uv_timer_t timer;
    uv_connect_t connect;
    struct flow flows[2];
    bool is_connected, is_closing;
    uint32_t handles;
};

/* The faults of one address's connections. */
struct source {
    struct in_addr from;
    struct hr_proxy_fault faults[2];
};

struct hr_proxy {
    struct hr_proxy_config config;
    uv_tcp_t listener;
    uint16_t port;
    struct hr_proxy_fault faults[2]; /* of all who are no source */
    struct source sources[HR_PROXY_SOURCES_MAX];
    uint32_t source_count;
    struct hr_rng rng;
    struct pair *pairs;
    uint32_t pair_count;
    struct hr_proxy_counts counts;
    char *buffer; /* what is read goes through it: one read at a time */
    bool is_closing, is_listener_closed;
    void (*closed)(void *user);
    void *user;
};

static void pump(struct pair *pair, enum hr_proxy_way way);

/* --- faults --- */

/* NULL: none. */
static struct source *find_source(struct hr_proxy *proxy, struct in_addr from)
{
    for (uint32_t i = 0; i < proxy->source_count; i++) {
        if (proxy->sources[i].from.s_addr == from.s_addr) {
            return &proxy->sources[i];
        }
    }
    return NULL;
}

static const struct hr_proxy_fault *fault_of(const struct pair *pair, enum hr_proxy_way way)
{
    const struct source *source = find_source(pair->proxy, pair->from);
    return source != NULL ? &source->faults[way] : &pair->proxy->faults[way];
}

/* --- the end --- */

static void free_if_done(struct hr_proxy *proxy)
{
    if (!proxy->is_listener_closed || proxy->pairs != NULL) {
        return;
    }
    void (*closed)(void *) = proxy->closed;
    void *user = proxy->user;
    free(proxy->buffer);
    free(proxy);
    if (closed != NULL) {
        closed(user);
    }
}

static void free_pieces(struct flow *flow)
{
    while (flow->first != NULL) {
        struct piece *next = flow->first->next;
        free(flow->first);
        flow->first = next;
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pair *pair = handle->data;
    if (--pair->handles > 0) {
        return;
    }
    struct hr_proxy *proxy = pair->proxy;
    *pair->link = pair->next;
    if (pair->next != NULL) {
        pair->next->link = pair->link;
    }
    proxy->pair_count--;
    free_pieces(&pair->flows[HR_PROXY_OUT]);
    free_pieces(&pair->flows[HR_PROXY_BACK]);
    free(pair);
    free_if_done(proxy);
}

/* Whether a reset can be sent is the socket's own business: it is closed either way, and with it come the callbacks of
 * all that was being written. */
static void close_pair(struct pair *pair)
{
    if (pair->is_closing) {
        return;
    }
    pair->is_closing = true;
    uv_close((uv_handle_t *)&pair->timer, on_handle_closed);
    for (int i = 0; i < 2; i++) {
        if (uv_tcp_close_reset(&pair->ends[i], on_handle_closed) != 0) {
            uv_close((uv_handle_t *)&pair->ends[i], on_handle_closed);
        }
    }
}

/* Both ways are at their ends: nothing is left to be carried. */
static void close_if_done(struct pair *pair)
{
    if (pair->is_closing || !pair->flows[HR_PROXY_OUT].is_ended || !pair->flows[HR_PROXY_BACK].is_ended) {
        return;
    }
    pair->is_closing = true;
    uv_close((uv_handle_t *)&pair->timer, on_handle_closed);
    uv_close((uv_handle_t *)&pair->ends[HR_PROXY_OUT], on_handle_closed);
    uv_close((uv_handle_t *)&pair->ends[HR_PROXY_BACK], on_handle_closed);
}

/* --- reading --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)suggested;
    const struct pair *pair = handle->data;
    *buffer = uv_buf_init(pair->proxy->buffer, READ_BYTES);
}

static enum hr_proxy_way way_of(const struct pair *pair, const uv_stream_t *end)
{
    return end == (const uv_stream_t *)&pair->ends[HR_PROXY_OUT] ? HR_PROXY_OUT : HR_PROXY_BACK;
}

/* When what is read now is to be written: never before what was read earlier. */
static uint64_t due_ms(const struct pair *pair, enum hr_proxy_way way)
{
    const struct hr_proxy_fault *fault = fault_of(pair, way);
    struct hr_proxy *proxy = pair->proxy;
    hr_ns delay_ns = fault->delay_ns;
    delay_ns += fault->jitter_ns > 0 ? hr_dice_between(&proxy->rng, 0, fault->jitter_ns) : 0;
    if (fault->loss_ppm > 0 && hr_rng_chance(&proxy->rng, fault->loss_ppm, MILLION)) {
        delay_ns += HR_PROXY_RETRANSMIT_NS;
        proxy->counts.lost[way]++;
    }
    return uv_now(proxy->config.loop) + (uint64_t)hr_ms_ceil(delay_ns);
}

/* False: no memory. */
static bool hold(struct pair *pair, enum hr_proxy_way way, const char *at, size_t bytes)
{
    struct flow *flow = &pair->flows[way];
    struct piece *piece = malloc(sizeof(*piece) + bytes);
    if (piece == NULL) {
        return false;
    }
    *piece = (struct piece){.pair = pair, .way = way, .due_ms = due_ms(pair, way), .bytes = bytes};
    if (bytes > 0) {
        memcpy(piece->at, at, bytes);
    }
    *flow->end = piece;
    flow->end = &piece->next;
    flow->held += bytes;
    return true;
}

static void on_read(uv_stream_t *end, ssize_t count, const uv_buf_t *buffer)
{
    struct pair *pair = end->data;
    enum hr_proxy_way way = way_of(pair, end);
    if (count == 0) {
        return; /* nothing yet */
    }
    bool is_end = count == UV_EOF;
    if ((count < 0 && !is_end) || !hold(pair, way, buffer->base, is_end ? 0 : (size_t)count)) {
        close_pair(pair); /* a reset on one side is one on the other */
        return;
    }
    if (is_end || pair->flows[way].held >= HR_PROXY_HELD_BYTES_MAX) {
        (void)uv_read_stop(end); /* it always works */
        pair->flows[way].is_stopped = !is_end;
    }
    pump(pair, way);
}

static void start_reading(struct pair *pair, enum hr_proxy_way way)
{
    if (!pair->is_closing && uv_read_start((uv_stream_t *)&pair->ends[way], on_alloc, on_read) != 0) {
        close_pair(pair);
    }
}

/* --- writing --- */

static void on_written(uv_write_t *write, int status)
{
    struct piece *piece = write->data;
    struct pair *pair = piece->pair;
    struct flow *flow = &pair->flows[piece->way];
    enum hr_proxy_way way = piece->way;
    flow->held -= piece->bytes;
    pair->proxy->counts.bytes[way] += status == 0 ? piece->bytes : 0;
    free(piece);
    if (pair->is_closing) {
        return;
    }
    if (status != 0) {
        close_pair(pair);
        return;
    }
    if (flow->is_stopped && flow->held < HR_PROXY_HELD_BYTES_MAX / 2) {
        flow->is_stopped = false;
        start_reading(pair, way);
    }
}

static void on_shut_down(uv_shutdown_t *request, int status)
{
    (void)status;
    struct pair *pair = request->handle->data;
    enum hr_proxy_way other = way_of(pair, request->handle);
    pair->flows[other == HR_PROXY_OUT ? HR_PROXY_BACK : HR_PROXY_OUT].is_ended = true;
    free(request);
    close_if_done(pair);
}

/* The end of what is read from one side is told to the other. */
static void shut_down(struct pair *pair, uv_stream_t *to)
{
    uv_shutdown_t *request = malloc(sizeof(*request));
    if (request == NULL || uv_shutdown(request, to, on_shut_down) != 0) {
        free(request);
        close_pair(pair);
    }
}

static void send_piece(struct pair *pair, struct piece *piece)
{
    uv_stream_t *to = (uv_stream_t *)&pair->ends[piece->way == HR_PROXY_OUT ? HR_PROXY_BACK : HR_PROXY_OUT];
    if (piece->bytes == 0) {
        free(piece);
        shut_down(pair, to);
        return;
    }
    const uv_buf_t buffer = uv_buf_init(piece->at, (unsigned)piece->bytes);
    piece->write.data = piece;
    if (uv_write(&piece->write, to, &buffer, 1, on_written) != 0) {
        pair->flows[piece->way].held -= piece->bytes;
        free(piece);
        close_pair(pair);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct pair *pair = timer->data;
    pump(pair, HR_PROXY_OUT);
    pump(pair, HR_PROXY_BACK);
}

/* Comes back for whatever is due first; nothing is ever due on a way that is cut, nor before the other side is there:
 * what is due at once and cannot go would come back for ever, and libuv would get to nothing else. */
static void set_timer(struct pair *pair)
{
    uint64_t now = uv_now(pair->proxy->config.loop), first = UINT64_MAX;
    for (enum hr_proxy_way way = HR_PROXY_OUT; way <= HR_PROXY_BACK; way++) {
        const struct piece *piece = pair->flows[way].first;
        if (piece != NULL && !fault_of(pair, way)->is_cut && piece->due_ms < first) {
            first = piece->due_ms;
        }
    }
    if (first != UINT64_MAX && pair->is_connected && !pair->is_closing) {
        (void)uv_timer_start(&pair->timer, on_timer, first > now ? first - now : 0, 0); /* it has a callback */
    }
}

/* Writes all that is due. */
static void pump(struct pair *pair, enum hr_proxy_way way)
{
    struct flow *flow = &pair->flows[way];
    uint64_t now = uv_now(pair->proxy->config.loop);
    while (!pair->is_closing && pair->is_connected && !fault_of(pair, way)->is_cut && flow->first != NULL &&
           flow->first->due_ms <= now) {
        struct piece *piece = flow->first;
        flow->first = piece->next;
        flow->end = flow->first == NULL ? &flow->first : flow->end;
        send_piece(pair, piece);
    }
    set_timer(pair);
}

/* --- connections --- */

static void on_connected(uv_connect_t *connect, int status)
{
    struct pair *pair = connect->data;
    if (pair->is_closing) {
        return;
    }
    if (status != 0) {
        pair->proxy->counts.refused++;
        close_pair(pair);
        return;
    }
    pair->is_connected = true;
    start_reading(pair, HR_PROXY_BACK);
    pump(pair, HR_PROXY_OUT);
}

/* The pair with its handles, none of them connected; NULL: no memory. */
static struct pair *new_pair(struct hr_proxy *proxy)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    if (pair == NULL) {
        return NULL;
    }
    pair->proxy = proxy;
    pair->handles = 3;
    for (int way = 0; way < 2; way++) {
        (void)uv_tcp_init(proxy->config.loop, &pair->ends[way]); /* takes nothing from the system yet */
        pair->ends[way].data = pair;
        pair->flows[way].end = &pair->flows[way].first;
    }
    (void)uv_timer_init(proxy->config.loop, &pair->timer);
    pair->timer.data = pair;
    pair->connect.data = pair;
    pair->next = proxy->pairs;
    pair->link = &proxy->pairs;
    if (pair->next != NULL) {
        pair->next->link = &pair->next;
    }
    proxy->pairs = pair;
    proxy->pair_count++;
    return pair;
}

/* Zero where the connection has ended already. */
static struct in_addr client_of(const struct pair *pair)
{
    struct sockaddr_storage name;
    struct sockaddr_in in = {.sin_family = AF_INET};
    int bytes = sizeof(name);
    if (uv_tcp_getpeername(&pair->ends[HR_PROXY_OUT], (struct sockaddr *)&name, &bytes) == 0) {
        memcpy(&in, &name, sizeof(in));
    }
    return in.sin_addr;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct hr_proxy *proxy = listener->data;
    struct pair *pair = status != 0 ? NULL : new_pair(proxy);
    if (pair == NULL) {
        return; /* it stays in the backlog */
    }
    bool is_accepted = uv_accept(listener, (uv_stream_t *)&pair->ends[HR_PROXY_OUT]) == 0;
    bool fits = proxy->pair_count <= proxy->config.connections_max;
    if (!is_accepted || !fits ||
        uv_tcp_connect(&pair->connect, &pair->ends[HR_PROXY_BACK], (const struct sockaddr *)&proxy->config.to,
                       on_connected) != 0) {
        proxy->counts.refused++;
        close_pair(pair);
        return;
    }
    proxy->counts.accepted++;
    pair->from = client_of(pair);
    start_reading(pair, HR_PROXY_OUT);
}

/* --- the proxy itself --- */

static void on_listener_closed(uv_handle_t *handle)
{
    struct hr_proxy *proxy = handle->data;
    proxy->is_listener_closed = true;
    free_if_done(proxy);
}

static bool start_listening(struct hr_proxy *proxy)
{
    struct sockaddr_storage name;
    int bytes = sizeof(name);
    if (uv_tcp_bind(&proxy->listener, (const struct sockaddr *)&proxy->config.listen, 0) != 0 ||
        uv_listen((uv_stream_t *)&proxy->listener, BACKLOG, on_connection) != 0 ||
        uv_tcp_getsockname(&proxy->listener, (struct sockaddr *)&name, &bytes) != 0) {
        return false;
    }
    struct sockaddr_in in;
    memcpy(&in, &name, sizeof(in));
    proxy->port = ntohs(in.sin_port);
    return true;
}

enum hr_err hr_proxy_open(const struct hr_proxy_config *config, struct hr_proxy **ret_proxy)
{
    struct hr_proxy *proxy = calloc(1, sizeof(*proxy));
    char *buffer = malloc(READ_BYTES);
    if (proxy == NULL || buffer == NULL) {
        free(proxy);
        free(buffer);
        return HR_E_MEMORY;
    }
    *proxy = (struct hr_proxy){.config = *config, .buffer = buffer, .rng = hr_dice_fork(config->seed, 9)};
    (void)uv_tcp_init(config->loop, &proxy->listener); /* takes nothing from the system yet */
    proxy->listener.data = proxy;
    if (!start_listening(proxy)) {
        hr_proxy_close(proxy, NULL, NULL);
        return HR_E_IO;
    }
    *ret_proxy = proxy;
    return HR_OK;
}

uint16_t hr_proxy_port(const struct hr_proxy *proxy)
{
    return proxy->port;
}

static void pump_all(struct hr_proxy *proxy, enum hr_proxy_way way)
{
    for (struct pair *pair = proxy->pairs, *next; pair != NULL; pair = next) {
        next = pair->next;
        pump(pair, way);
    }
}

void hr_proxy_set(struct hr_proxy *proxy, enum hr_proxy_way way, struct hr_proxy_fault fault)
{
    proxy->faults[way] = fault;
    pump_all(proxy, way);
}

enum hr_err hr_proxy_set_from(struct hr_proxy *proxy, struct in_addr from, enum hr_proxy_way way,
                              struct hr_proxy_fault fault)
{
    struct source *source = find_source(proxy, from);
    if (source == NULL) {
        if (proxy->source_count == HR_PROXY_SOURCES_MAX) {
            return HR_E_FULL;
        }
        source = &proxy->sources[proxy->source_count++];
        *source = (struct source){.from = from, .faults = {proxy->faults[0], proxy->faults[1]}};
    }
    source->faults[way] = fault;
    pump_all(proxy, way);
    return HR_OK;
}

void hr_proxy_break(struct hr_proxy *proxy)
{
    for (struct pair *pair = proxy->pairs, *next; pair != NULL; pair = next) {
        next = pair->next;
        close_pair(pair);
    }
}

struct hr_proxy_counts hr_proxy_counts(const struct hr_proxy *proxy)
{
    return proxy->counts;
}

void hr_proxy_close(struct hr_proxy *proxy, void (*closed)(void *user), void *user)
{
    if (proxy->is_closing) {
        return;
    }
    proxy->is_closing = true;
    proxy->closed = closed;
    proxy->user = user;
    uv_close((uv_handle_t *)&proxy->listener, on_listener_closed);
    hr_proxy_break(proxy);
}
