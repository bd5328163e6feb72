#include "node/peer_uv.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "node/address_text.h"
#include "node/peer_wire.h"

#define QUEUE_BYTES_FIRST (4U << 10)
#define QUEUE_BYTES_KEPT (256U << 10) /* a larger one is given back when it is empty */

enum state { IDLE, RESOLVING, CONNECTING, OPEN, CLOSING };

/* Notifications, one behind another. */
struct queue {
    char *at;
    size_t bytes, room;
    uint32_t packets;
};

struct peer {
    struct hr_peers *all;
    uint32_t member;
    enum state state;
    bool has_moved;  /* RESOLVING: another address has come meanwhile */
    bool is_due;     /* among those that the next turn looks at */
    bool is_writing; /* the second queue is libuv's */
    hr_ns since;     /* RESOLVING, CONNECTING: begun; OPEN: the last write began */
    hr_ns retry_at, pause;
    hr_ns waits_since; /* the oldest of `waiting`, roughly: the queue was empty before */
    uint32_t tries;
    char address[HR_ADDRESS_TEXT_BYTES];
    struct hr_address parsed;
    struct queue waiting, writing;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uv_getaddrinfo_t lookup;
};

struct hr_peers {
    struct hr_peers_config config;
    struct hr_peers_stats stats;
    struct peer **all; /* by member; NULL: nothing was ever put for it */
    uint32_t *due;     /* members */
    uint32_t due_count;
    uint32_t busy; /* handles and look-ups that libuv has */
    bool is_closed;
    char unread[512]; /* what peers say to us is thrown away */
};

/* --- queues --- */

static void queue_clear(struct queue *queue)
{
    queue->bytes = 0;
    queue->packets = 0;
    if (queue->room > QUEUE_BYTES_KEPT) {
        free(queue->at);
        *queue = (struct queue){.at = NULL};
    }
}

static bool queue_grow(struct queue *queue, size_t bytes)
{
    size_t room = queue->room == 0 ? QUEUE_BYTES_FIRST : queue->room;
    while (room < bytes) {
        room *= 2;
    }
    char *at = room == queue->room ? queue->at : realloc(queue->at, room);
    if (at == NULL) {
        return false;
    }
    queue->at = at;
    queue->room = room;
    return true;
}

static bool queue_put(struct queue *queue, struct hr_span packet)
{
    struct hr_packer measure = {.room = 0};
    hr_pack_peer(&measure, packet);
    size_t bytes = queue->bytes + measure.wanted;
    if (packet.bytes > HR_PEER_PACKET_BYTES_MAX || bytes > HR_PEER_QUEUE_BYTES_MAX || !queue_grow(queue, bytes)) {
        return false;
    }
    struct hr_packer packer = {.at = queue->at + queue->bytes, .room = measure.wanted};
    hr_pack_peer(&packer, packet);
    queue->bytes = bytes;
    queue->packets++;
    return true;
}

static void drop_waiting(struct peer *peer)
{
    peer->all->stats.dropped += peer->waiting.packets;
    queue_clear(&peer->waiting);
}

/* --- the end of a connection --- */

static hr_ns now_of(const struct peer *peer)
{
    return hr_clock_now(peer->all->config.clock).steady;
}

static void make_due(struct peer *peer)
{
    if (!peer->is_due) {
        peer->is_due = true;
        peer->all->due[peer->all->due_count++] = peer->member;
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    peer->state = IDLE;
    peer->is_writing = false; /* its callback has come before */
    peer->all->busy--;
    make_due(peer); /* what waits goes with the next connection */
}

static void close_tcp(struct peer *peer)
{
    peer->all->stats.open -= peer->state == OPEN;
    peer->state = CLOSING;
    uv_close((uv_handle_t *)&peer->tcp, on_closed);
}

/* It is left alone for a while, and longer each time. */
static void pause_after_failure(struct peer *peer)
{
    hr_ns pause = peer->pause == 0 ? HR_PEER_PAUSE_NS_MIN : 2 * peer->pause;
    peer->pause = pause < HR_PEER_PAUSE_NS_MAX ? pause : HR_PEER_PAUSE_NS_MAX;
    peer->retry_at = now_of(peer) + peer->pause;
    peer->all->stats.failures++;
}

static void fail(struct peer *peer)
{
    pause_after_failure(peer);
    close_tcp(peer);
}

/* Without a handle yet. */
static void fail_early(struct peer *peer)
{
    pause_after_failure(peer);
    peer->state = IDLE;
    make_due(peer);
}

/* --- connecting --- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct peer *peer = handle->data;
    (void)suggested;
    *ret_buffer = (uv_buf_t){.base = peer->all->unread, .len = sizeof(peer->all->unread)};
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct peer *peer = stream->data;
    (void)buffer;
    if (count < 0 && peer->state == OPEN) {
        fail(peer);
    }
}

/* Without these it is only slower to send, or to notice that the network is cut. */
static void tune(struct peer *peer)
{
    uv_os_fd_t fd;
    unsigned stall_ms = (unsigned)(HR_PEER_STALL_NS_MAX / HR_NS_PER_MS);
    (void)uv_tcp_nodelay(&peer->tcp, 1);
    if (uv_fileno((uv_handle_t *)&peer->tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof(stall_ms));
    }
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct peer *peer = connect->data;
    if (peer->state != CONNECTING) {
        return; /* it is being closed */
    }
    if (status != 0 || uv_read_start((uv_stream_t *)&peer->tcp, on_alloc, on_read) != 0) {
        fail(peer);
        return;
    }
    tune(peer);
    peer->state = OPEN;
    peer->since = now_of(peer);
    peer->pause = 0;
    peer->all->stats.open++;
    peer->all->stats.connects++;
    make_due(peer);
}

static void connect_to(struct peer *peer, const struct sockaddr *address)
{
    if (uv_tcp_init(peer->all->config.loop, &peer->tcp) != 0) {
        fail_early(peer);
        return;
    }
    peer->all->busy++;
    peer->state = CONNECTING;
    peer->tcp.data = peer;
    peer->connect.data = peer;
    if (uv_tcp_connect(&peer->connect, &peer->tcp, address, on_connect) != 0) {
        fail(peer);
    }
}

/* A name may have several addresses, and not all may be listened at: each try takes the next one. */
static const struct sockaddr *nth_address(const struct addrinfo *found, uint32_t n)
{
    uint32_t count = 1;
    for (const struct addrinfo *one = found; one->ai_next != NULL; one = one->ai_next) {
        count++;
    }
    for (n %= count; n > 0; n--) {
        found = found->ai_next;
    }
    return found->ai_addr;
}

static void on_found(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct peer *peer = lookup->data;
    peer->all->busy--;
    if (peer->all->is_closed || peer->has_moved) {
        peer->state = IDLE;
        make_due(peer);
    } else if (status != 0) {
        fail_early(peer);
    } else {
        connect_to(peer, nth_address(found, peer->tries));
    }
    uv_freeaddrinfo(found);
}

static void look_up(struct peer *peer)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)peer->parsed.port);
    peer->state = RESOLVING;
    peer->lookup.data = peer;
    if (uv_getaddrinfo(peer->all->config.loop, &peer->lookup, on_found, peer->parsed.host, port, &hints) != 0) {
        fail_early(peer);
        return;
    }
    peer->all->busy++;
}

static void start(struct peer *peer, hr_ns now)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    peer->since = now;
    peer->has_moved = false;
    peer->tries++;
    if (uv_ip4_addr(peer->parsed.host, peer->parsed.port, &address.v4) == 0 ||
        uv_ip6_addr(peer->parsed.host, peer->parsed.port, &address.v6) == 0) {
        connect_to(peer, &address.any);
    } else {
        look_up(peer);
    }
}

/* --- sending --- */

static void count_sent(struct peer *peer, const struct queue *queue)
{
    peer->all->stats.packets += queue->packets;
    peer->all->stats.bytes += queue->bytes;
}

static void on_written(uv_write_t *write, int status)
{
    struct peer *peer = write->data;
    if (status == 0) {
        count_sent(peer, &peer->writing);
    } else {
        peer->all->stats.dropped += peer->writing.packets;
    }
    queue_clear(&peer->writing);
    peer->is_writing = false;
    if (status != 0 && peer->state == OPEN) {
        fail(peer);
    } else if (peer->state == OPEN && peer->waiting.bytes > 0) {
        make_due(peer);
    }
}

/* What the socket had no room for, from this byte on, is libuv's to write. */
static void leave_to_uv(struct peer *peer, size_t done)
{
    struct queue empty = peer->writing;
    peer->writing = peer->waiting;
    peer->waiting = empty;
    peer->is_writing = true;
    peer->write.data = peer;
    uv_buf_t buffer = {.base = peer->writing.at + done, .len = peer->writing.bytes - done};
    if (uv_write(&peer->write, (uv_stream_t *)&peer->tcp, &buffer, 1, on_written) != 0) {
        peer->all->stats.dropped += peer->writing.packets;
        queue_clear(&peer->writing);
        peer->is_writing = false;
        fail(peer);
    }
}

/* Mostly the socket takes all of it at once, which spares the loop a turn. */
static void send_waiting(struct peer *peer)
{
    if (peer->state != OPEN || peer->is_writing || peer->waiting.bytes == 0) {
        return;
    }
    peer->since = now_of(peer);
    peer->all->stats.writes++;
    uv_buf_t buffer = {.base = peer->waiting.at, .len = peer->waiting.bytes};
    int sent = uv_try_write((uv_stream_t *)&peer->tcp, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        fail(peer);
    } else if (sent >= 0 && (size_t)sent == peer->waiting.bytes) {
        count_sent(peer, &peer->waiting);
        queue_clear(&peer->waiting);
    } else {
        leave_to_uv(peer, sent > 0 ? (size_t)sent : 0);
    }
}

static void give_up_old(struct peer *peer, hr_ns now)
{
    if (peer->waiting.bytes > 0 && peer->state != OPEN && now - peer->waits_since > HR_PEER_WAIT_NS_MAX) {
        drop_waiting(peer);
    }
}

/* Gives up what takes too long, and starts what may be tried again. */
static void tend(struct peer *peer, hr_ns now)
{
    switch (peer->state) {
    case IDLE:
        if (now >= peer->retry_at && !peer->all->is_closed) {
            start(peer, now);
        }
        return;
    case CONNECTING:
        if (now - peer->since > HR_PEER_CONNECT_NS_MAX) {
            fail(peer);
        }
        return;
    case OPEN:
        if (peer->is_writing && now - peer->since > HR_PEER_STALL_NS_MAX) {
            fail(peer);
        }
        return;
    case RESOLVING: /* the machine's resolver gives up by itself */
    case CLOSING:
        return;
    }
}

/* Those that are without a connection, and for which something waits, are due again in the next turn. */
void hr_peers_turn(struct hr_peers *peers, struct hr_now now)
{
    uint32_t count = peers->due_count;
    peers->due_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct peer *peer = peers->all[peers->due[i]];
        peer->is_due = false;
        give_up_old(peer, now.steady);
        send_waiting(peer);
        if (peer->waiting.bytes > 0 && peer->state != OPEN) {
            tend(peer, now.steady);
            make_due(peer);
        }
    }
}

/* A member that has come back at another address is not looked for at the old one. False: it is no address. */
static bool move(struct peer *peer, struct hr_span address)
{
    if (hr_span_equal(hr_span_of(peer->address), address)) {
        return address.bytes > 0;
    }
    struct hr_address parsed;
    if (address.bytes >= sizeof(peer->address) || hr_address_parse(address, &parsed) != HR_OK || parsed.port == 0) {
        return false;
    }
    peer->parsed = parsed;
    memcpy(peer->address, address.at, address.bytes);
    peer->address[address.bytes] = '\0';
    peer->retry_at = peer->pause = 0;
    peer->has_moved = true;
    if (peer->state == CONNECTING || peer->state == OPEN) {
        close_tcp(peer);
    }
    return true;
}

static struct peer *peer_of(struct hr_peers *peers, uint32_t member)
{
    if (member >= peers->config.peers_max || peers->is_closed) {
        return NULL;
    }
    struct peer *peer = peers->all[member];
    if (peer == NULL) {
        peer = peers->all[member] = calloc(1, sizeof(*peer));
    }
    if (peer != NULL) {
        peer->all = peers;
        peer->member = member;
    }
    return peer;
}

bool hr_peers_put(struct hr_peers *peers, uint32_t member, struct hr_span address, struct hr_span packet,
                  struct hr_now now)
{
    struct peer *peer = peer_of(peers, member);
    if (peer == NULL || !move(peer, address)) {
        peers->stats.dropped++;
        return false;
    }
    give_up_old(peer, now.steady);
    tend(peer, now.steady);
    bool was_empty = peer->waiting.bytes == 0;
    if (!queue_put(&peer->waiting, packet)) {
        peers->stats.dropped++;
        return false;
    }
    peer->waits_since = was_empty ? now.steady : peer->waits_since;
    make_due(peer);
    return true;
}

/* --- start and end --- */

void hr_peers_close(struct hr_peers *peers)
{
    peers->is_closed = true;
    for (uint32_t i = 0; i < peers->config.peers_max; i++) {
        struct peer *peer = peers->all[i];
        if (peer == NULL) {
            continue;
        }
        drop_waiting(peer);
        if (peer->state == CONNECTING || peer->state == OPEN) {
            close_tcp(peer);
        } else if (peer->state == RESOLVING) {
            (void)uv_cancel((uv_req_t *)&peer->lookup); /* one that is under way comes to its own end */
        }
    }
}

bool hr_peers_are_gone(const struct hr_peers *peers)
{
    return peers->busy == 0;
}

const struct hr_peers_stats *hr_peers_stats(const struct hr_peers *peers)
{
    return &peers->stats;
}

struct hr_peers *hr_peers_new(const struct hr_peers_config *config)
{
    struct hr_peers *peers = calloc(1, sizeof(*peers));
    if (peers == NULL) {
        return NULL;
    }
    peers->config = *config;
    peers->all = calloc(config->peers_max, sizeof(struct peer *));
    peers->due = calloc(config->peers_max, sizeof(*peers->due));
    if (peers->all == NULL || peers->due == NULL) {
        free(peers->all);
        free(peers->due);
        free(peers);
        return NULL;
    }
    return peers;
}

void hr_peers_free(struct hr_peers *peers)
{
    for (uint32_t i = 0; i < peers->config.peers_max; i++) {
        if (peers->all[i] != NULL) {
            free(peers->all[i]->waiting.at);
            free(peers->all[i]->writing.at);
            free(peers->all[i]);
        }
    }
    free(peers->all);
    free(peers->due);
    free(peers);
}
