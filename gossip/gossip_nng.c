#include "gossip/gossip_nng.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <nng/nng.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <nng/supplemental/tls/tls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "gossip/envelope.h"

#define RECONNECT_MS_MIN 50
#define RECONNECT_MS_MAX 2000
#define RECEIVED_MAX 256 /* packets that wait for `take` */

#define PLAIN "tcp://"
#define SECURE "tls+tcp://"

/* One address that is written to. */
struct peer {
    uint64_t hash; /* of the address; 0: the slot is free */
    uint64_t used; /* by the count of sends */
    nng_socket socket;
};

struct hr_gossip {
    hr_gossip_take *take;
    void *user;
    bool is_secure;
    char loopback[INET_ADDRSTRLEN]; /* the host listened at, where that is on IPv4's loopback; else empty */
    uint16_t port;
    nng_socket pull;
    nng_aio *receiving;
    nng_tls_config *server, *client; /* NULL over plain TCP */
    uint64_t sends;
    struct hr_gossip_counts counts; /* but those below, which other threads count */
    atomic_uint_least64_t received, turned_away;
    atomic_uint pipes;
    struct hr_gossip *next_left;
    struct peer peers[HR_GOSSIP_PEERS_MAX];
};

/* nng's own threads end with the last one of this process. */
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct hr_gossip *first_left; /* nng's threads may look at what was left to the system until the very end */

static void begin_use(void)
{
    (void)pthread_mutex_lock(&users_lock);
    users++;
    (void)pthread_mutex_unlock(&users_lock);
}

static void end_use(void)
{
    (void)pthread_mutex_lock(&users_lock);
    if (--users == 0) {
        nng_fini();
    }
    (void)pthread_mutex_unlock(&users_lock);
}

static bool fail(struct hr_gossip_problem *problem, const char *what, const char *of, const char *why)
{
    (void)snprintf(problem->what, sizeof(problem->what), "%s %.160s: %s", what, of, why);
    return false;
}

/* Addresses. */

static bool begins_with(struct hr_span text, struct hr_span with)
{
    return text.bytes > with.bytes && memcmp(text.at, with.at, with.bytes) == 0;
}

/* The scheme of an address that nodes may be reached at; empty: it is none. */
static struct hr_span scheme_of(struct hr_span address)
{
    if (begins_with(address, HR_SPAN(SECURE))) {
        return HR_SPAN(SECURE);
    }
    return begins_with(address, HR_SPAN(PLAIN)) ? HR_SPAN(PLAIN) : HR_SPAN("");
}

/* Takes "tcp://HOST:PORT" or "tcp://[HOST]:PORT" apart. */
static bool split(struct hr_span address, char host[HR_MEMBER_ADDRESS_BYTES_MAX + 1], char port[6])
{
    char text[HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    struct hr_span scheme = scheme_of(address);
    if (scheme.bytes == 0 || address.bytes >= sizeof(text)) {
        return false;
    }
    memcpy(text, address.at + scheme.bytes, address.bytes - scheme.bytes);
    text[address.bytes - scheme.bytes] = '\0';
    char *colon = strrchr(text, ':'), *begin = text;
    if (colon == NULL || colon == text || strlen(colon + 1) > 5) {
        return false;
    }
    char *end = colon;
    if (text[0] == '[' && end[-1] == ']') {
        begin++;
        end--;
    }
    (void)snprintf(host, HR_MEMBER_ADDRESS_BYTES_MAX + 1, "%.*s", (int)(end - begin), begin);
    (void)snprintf(port, 6, "%s", colon + 1);
    return host[0] != '\0' && port[0] != '\0' && strspn(port, "0123456789") == strlen(port);
}

static bool write_numeric(struct hr_span scheme, const struct addrinfo *info,
                          char ret_address[HR_MEMBER_ADDRESS_BYTES_MAX + 1])
{
    char host[INET6_ADDRSTRLEN + 16], port[6];
    if (getnameinfo(info->ai_addr, info->ai_addrlen, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return false;
    }
    bool is_6 = info->ai_family == AF_INET6;
    (void)snprintf(ret_address, HR_MEMBER_ADDRESS_BYTES_MAX + 1, "%.*s%s%s%s:%s", (int)scheme.bytes, scheme.at,
                   is_6 ? "[" : "", host, is_6 ? "]" : "", port);
    return true;
}

uint32_t hr_gossip_resolve(struct hr_span address, char (*ret_addresses)[HR_MEMBER_ADDRESS_BYTES_MAX + 1],
                           uint32_t count_max)
{
    char host[HR_MEMBER_ADDRESS_BYTES_MAX + 1], port[6];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *infos;
    if (!split(address, host, port) || getaddrinfo(host, port, &hints, &infos) != 0) {
        return 0;
    }
    uint32_t count = 0;
    for (const struct addrinfo *info = infos; info != NULL && count < count_max; info = info->ai_next) {
        bool is_internet = info->ai_family == AF_INET || info->ai_family == AF_INET6;
        count += is_internet && write_numeric(scheme_of(address), info, ret_addresses[count]) ? 1 : 0;
    }
    freeaddrinfo(infos);
    return count;
}

/* TLS. */

/* The text of a file, to be freed. NULL: it cannot be read, is empty or too long. */
static char *read_pem(const char *path)
{
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, HR_GOSSIP_PEM_BYTES_MAX + 1);
    size_t bytes = text == NULL ? 0 : fread(text, 1, HR_GOSSIP_PEM_BYTES_MAX + 1, file);
    (void)fclose(file); /* it was only read */
    if (bytes == 0 || bytes > HR_GOSSIP_PEM_BYTES_MAX) {
        free(text);
        return NULL;
    }
    return text;
}

static int make_tls(nng_tls_mode mode, const char *ca, const char *certificate, const char *key,
                    nng_tls_config **ret_config)
{
    nng_tls_config *config;
    int rc = nng_tls_config_alloc(&config, mode);
    if (rc != 0) {
        return rc;
    }
    rc = nng_tls_config_ca_chain(config, ca, NULL);
    if (rc == 0) {
        rc = nng_tls_config_own_cert(config, certificate, key, NULL);
    }
    if (rc == 0) {
        rc = nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED);
    }
    if (rc != 0) {
        nng_tls_config_free(config);
        return rc;
    }
    *ret_config = config;
    return 0;
}

static bool load_tls(struct hr_gossip *gossip, const struct hr_gossip_config *config, struct hr_gossip_problem *problem)
{
    const char *const paths[] = {config->ca, config->certificate, config->key};
    char *texts[3] = {0};
    bool is_good = true;
    for (size_t i = 0; i < 3 && is_good; i++) {
        texts[i] = read_pem(paths[i]);
        is_good = texts[i] != NULL ||
                  fail(problem, "cannot read", paths[i] == NULL ? "a file of cluster.tls" : paths[i], "no PEM file");
    }
    if (is_good) {
        int rc = make_tls(NNG_TLS_MODE_SERVER, texts[0], texts[1], texts[2], &gossip->server);
        if (rc == 0) {
            rc = make_tls(NNG_TLS_MODE_CLIENT, texts[0], texts[1], texts[2], &gossip->client);
        }
        is_good = rc == 0 || fail(problem, "cannot use", config->certificate, nng_strerror(rc));
    }
    for (size_t i = 0; i < 3; i++) {
        free(texts[i]);
    }
    return is_good;
}

/* Receiving, on nng's threads. */

static void take_received(void *user)
{
    struct hr_gossip *gossip = user;
    int rc = nng_aio_result(gossip->receiving);
    if (rc == NNG_ECLOSED || rc == NNG_ECANCELED) {
        return;
    }
    if (rc == 0) {
        nng_msg *msg = nng_aio_get_msg(gossip->receiving);
        atomic_fetch_add(&gossip->received, 1);
        gossip->take(gossip->user, (struct hr_span){nng_msg_body(msg), nng_msg_len(msg)});
        nng_msg_free(msg);
    }
    nng_recv_aio(gossip->pull, gossip->receiving);
}

static void count_pipe(nng_pipe pipe, nng_pipe_ev event, void *user)
{
    struct hr_gossip *gossip = user;
    if (event == NNG_PIPE_EV_REM_POST) {
        atomic_fetch_sub(&gossip->pipes, 1);
    } else if (atomic_fetch_add(&gossip->pipes, 1) >= HR_GOSSIP_PIPES_MAX) {
        atomic_fetch_add(&gossip->turned_away, 1);
        (void)nng_pipe_close(pipe); /* its only error is that it is closed already */
    }
}

/* Zero or the first error. */
static int start_listening(struct hr_gossip *gossip, const char *address)
{
    nng_listener listener;
    int port = 0;
    int rc = nng_pipe_notify(gossip->pull, NNG_PIPE_EV_ADD_PRE, count_pipe, gossip);
    rc = rc != 0 ? rc : nng_pipe_notify(gossip->pull, NNG_PIPE_EV_REM_POST, count_pipe, gossip);
    rc = rc != 0 ? rc : nng_socket_set_size(gossip->pull, NNG_OPT_RECVMAXSZ, HR_PACKET_BYTES_MAX);
    rc = rc != 0 ? rc : nng_socket_set_int(gossip->pull, NNG_OPT_RECVBUF, RECEIVED_MAX);
    rc = rc != 0 ? rc : nng_listener_create(&listener, gossip->pull, address);
    if (rc == 0 && gossip->is_secure) {
        rc = nng_listener_set_ptr(listener, NNG_OPT_TLS_CONFIG, gossip->server);
    }
    rc = rc != 0 ? rc : nng_listener_start(listener, 0);
    rc = rc != 0 ? rc : nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port);
    gossip->port = (uint16_t)port;
    return rc;
}

static bool listen_at(struct hr_gossip *gossip, const char *address, struct hr_gossip_problem *problem)
{
    int rc = nng_pull0_open(&gossip->pull);
    if (rc != 0) {
        return fail(problem, "cannot listen on", address, nng_strerror(rc));
    }
    rc = start_listening(gossip, address);
    rc = rc != 0 ? rc : nng_aio_alloc(&gossip->receiving, take_received, gossip);
    if (rc != 0) {
        (void)nng_close(gossip->pull);
        return fail(problem, "cannot listen on", address, nng_strerror(rc));
    }
    nng_recv_aio(gossip->pull, gossip->receiving);
    return true;
}

/* Sending. */

static bool is_loopback(const char *host)
{
    struct in_addr at;
    return inet_pton(AF_INET, host, &at) == 1 && ntohl(at.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* On a machine's loopback a node calls from where it listens, so that who stands between nodes can tell them apart. */
static int set_own_address(const struct hr_gossip *gossip, nng_dialer dialer, const char *address)
{
    char host[HR_MEMBER_ADDRESS_BYTES_MAX + 1], port[6];
    struct sockaddr_in own = {.sin_family = AF_INET};
    nng_sockaddr at = {.s_in = {.sa_family = NNG_AF_INET}};
    if (gossip->loopback[0] == '\0' || !split(hr_span_of(address), host, port) || !is_loopback(host)) {
        return 0;
    }
    (void)inet_pton(AF_INET, gossip->loopback, &own.sin_addr); /* it is one: it was read before */
    at.s_in.sa_addr = own.sin_addr.s_addr;
    return nng_dialer_set_addr(dialer, NNG_OPT_LOCADDR, &at);
}

static bool dial(struct hr_gossip *gossip, const char *address, nng_socket *ret_socket)
{
    nng_socket socket;
    nng_dialer dialer;
    if (nng_push0_open(&socket) != 0) {
        return false;
    }
    int rc = nng_socket_set_int(socket, NNG_OPT_SENDBUF, HR_GOSSIP_QUEUE_MAX);
    rc = rc != 0 ? rc : nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, RECONNECT_MS_MIN);
    rc = rc != 0 ? rc : nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, RECONNECT_MS_MAX);
    rc = rc != 0 ? rc : nng_dialer_create(&dialer, socket, address);
    rc = rc != 0 ? rc : set_own_address(gossip, dialer, address);
    if (rc == 0 && gossip->is_secure) {
        rc = nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, gossip->client);
    }
    rc = rc != 0 ? rc : nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
    if (rc != 0) {
        (void)nng_close(socket);
        return false;
    }
    *ret_socket = socket;
    return true;
}

/* The peer of that hash, else a free place, else the place of the one not written to longest. */
static struct peer *find_peer(struct hr_gossip *gossip, uint64_t hash)
{
    struct peer *oldest = &gossip->peers[0];
    for (uint32_t i = 0; i < HR_GOSSIP_PEERS_MAX; i++) {
        struct peer *peer = &gossip->peers[i];
        if (peer->hash == hash) {
            return peer;
        }
        oldest = peer->used < oldest->used ? peer : oldest; /* a free one was never used */
    }
    return oldest;
}

static struct peer *peer_of(struct hr_gossip *gossip, struct hr_span address)
{
    char text[HR_MEMBER_ADDRESS_BYTES_MAX + 1], host[HR_MEMBER_ADDRESS_BYTES_MAX + 1], port[6];
    uint64_t hash = hr_plain_hash(address.at, address.bytes, 1) | 1;
    struct peer *peer = find_peer(gossip, hash);
    if (peer->hash == hash) {
        return peer;
    }
    bool is_secure = scheme_of(address).bytes == sizeof(SECURE) - 1;
    if (!split(address, host, port) || is_secure != gossip->is_secure) {
        return NULL; /* a member may say any address of itself: only these two kinds are ever dialled */
    }
    if (peer->hash != 0) {
        (void)nng_close(peer->socket);
        *peer = (struct peer){.hash = 0};
    }
    memcpy(text, address.at, address.bytes);
    text[address.bytes] = '\0';
    if (!dial(gossip, text, &peer->socket)) {
        return NULL;
    }
    peer->hash = hash;
    return peer;
}

static bool push(nng_socket socket, struct hr_span packet)
{
    nng_msg *msg;
    if (nng_msg_alloc(&msg, packet.bytes) != 0) {
        return false;
    }
    memcpy(nng_msg_body(msg), packet.at, packet.bytes);
    if (nng_sendmsg(socket, msg, NNG_FLAG_NONBLOCK) != 0) {
        nng_msg_free(msg);
        return false;
    }
    return true;
}

bool hr_gossip_send(struct hr_gossip *gossip, struct hr_span address, struct hr_span packet)
{
    struct peer *peer = peer_of(gossip, address);
    if (peer == NULL) {
        gossip->counts.unreachable++;
        return false;
    }
    peer->used = ++gossip->sends;
    bool is_sent = push(peer->socket, packet);
    *(is_sent ? &gossip->counts.sent : &gossip->counts.dropped) += 1;
    return is_sent;
}

/* Open and close. */

static bool start(struct hr_gossip *gossip, const struct hr_gossip_config *config, struct hr_gossip_problem *problem)
{
    struct hr_span scheme = scheme_of(hr_span_of(config->listen));
    if (scheme.bytes == 0) {
        return fail(problem, "cannot listen on", config->listen, "it must begin with tcp:// or tls+tcp://");
    }
    char host[HR_MEMBER_ADDRESS_BYTES_MAX + 1], port[6];
    if (split(hr_span_of(config->listen), host, port) && is_loopback(host)) {
        (void)snprintf(gossip->loopback, sizeof(gossip->loopback), "%.15s", host); /* an address is no longer */
    }
    gossip->is_secure = scheme.bytes == sizeof(SECURE) - 1;
    if (gossip->is_secure && !load_tls(gossip, config, problem)) {
        return false;
    }
    return listen_at(gossip, config->listen, problem);
}

static void release(struct hr_gossip *gossip)
{
    if (gossip->server != NULL) {
        nng_tls_config_free(gossip->server);
    }
    if (gossip->client != NULL) {
        nng_tls_config_free(gossip->client);
    }
    free(gossip);
    end_use();
}

struct hr_gossip *hr_gossip_open(const struct hr_gossip_config *config, struct hr_gossip_problem *ret_problem)
{
    struct hr_gossip *gossip = calloc(1, sizeof(*gossip));
    if (gossip == NULL) {
        (void)fail(ret_problem, "cannot listen on", config->listen, "out of memory");
        return NULL;
    }
    begin_use();
    gossip->take = config->take;
    gossip->user = config->user;
    if (!start(gossip, config, ret_problem)) {
        release(gossip);
        return NULL;
    }
    return gossip;
}

uint16_t hr_gossip_port(const struct hr_gossip *gossip)
{
    return gossip->port;
}

struct hr_gossip_counts hr_gossip_counts(struct hr_gossip *gossip)
{
    struct hr_gossip_counts counts = gossip->counts;
    counts.received = atomic_load(&gossip->received);
    counts.turned_away = atomic_load(&gossip->turned_away);
    return counts;
}

void hr_gossip_close(struct hr_gossip *gossip)
{
    if (gossip == NULL) {
        return;
    }
    nng_aio_stop(gossip->receiving);
    (void)nng_close(gossip->pull); /* its only error is that it is closed already */
    nng_aio_free(gossip->receiving);
    for (uint32_t i = 0; i < HR_GOSSIP_PEERS_MAX; i++) {
        if (gossip->peers[i].hash != 0) {
            (void)nng_close(gossip->peers[i].socket);
        }
    }
    release(gossip);
}

void hr_gossip_leave(struct hr_gossip *gossip)
{
    if (gossip == NULL) {
        return;
    }
    nng_aio_stop(gossip->receiving);
    (void)pthread_mutex_lock(&users_lock);
    gossip->next_left = first_left;
    first_left = gossip;
    (void)pthread_mutex_unlock(&users_lock);
}
