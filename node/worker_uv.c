#include "node/worker_uv.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/inbox_uv.h"
#include "node/peer_wire.h"

#define BACKLOG 1024

/* While draining, the store is asked again this long after it failed, and the loop wakes up this often. */
#define DRAIN_STEP_NS (10 * HR_NS_PER_MS)

/* However far off the shard's next deadline is: a stepped clock must not put it to sleep. */
#define SLEEP_MS_MAX 1000

/* SERVING until hr_worker_drain, then each in turn:
 *
 *   LEAVING    the region takes over what this node answers for, which goes on serving
 *   FAREWELL   the others hear that it left
 *   ANSWERING  requests wait for the store
 *   SAVING     what is left to be saved goes to the store, batch by batch
 *   FLUSHING   connections are sent what is to be sent, and closed
 *   CLOSING    no connection is left, and the worker's own handles close
 *   STOPPED */
enum phase { SERVING, LEAVING, FAREWELL, ANSWERING, SAVING, FLUSHING, CLOSING, STOPPED };

/* The store's answer, on its way from the store's thread. A shard has one batch on its way at a time: there is never
 * more than one. */
struct mailbox {
    uv_mutex_t lock;
    bool is_open; /* `wake` may be sent */
    bool is_full;
    struct hr_store_result result;
};

struct hr_worker {
    struct hr_worker_config config;
    struct hr_connections *connections;
    struct hr_peers *peers; /* this and the next two: NULL where the node is alone */
    struct hr_gossip *gossip;
    struct hr_inbox *inbox;
    uint16_t port;
    enum phase phase;
    bool is_abandoned;  /* it could not be opened: it frees itself when its handles are closed */
    bool is_committing; /* the store owes a result */
    bool is_saved;      /* SAVING: nothing is left to be saved */
    bool has_answered;  /* ANSWERING: this and the next were said to the other workers */
    bool is_silent;     /* FLUSHING */
    bool is_stalled;    /* there is more to be written to the others than there is room for */
    uint64_t ticket;    /* the shard's, of what is being committed */
    uint64_t waiting;   /* requests that the shard will answer later */
    hr_ns retry_at;     /* SAVING: the store failed, and is not asked before */
    hr_ns phase_ends_at;
    hr_ns timer_is_for;
    struct mailbox mailbox;
    uint32_t handles; /* of the four below, those that are not closed */
    uv_tcp_t listener;
    uv_prepare_t turn;
    uv_timer_t timer;
    uv_async_t wake;
};

/* --- requests --- */

static void answer_elsewhere(struct hr_worker *worker, const struct hr_call *call, struct hr_now now,
                             struct hr_packer *out)
{
    if (worker->config.control != NULL) {
        worker->config.control(worker->config.user, call, now, out);
    }
    if (out->wanted == 0) {
        struct hr_fault fault;
        hr_fault_set(&fault, HR_CODE_UNIMPLEMENTED, "this node has no method ");
        hr_fault_quote(&fault, hr_method_name(call->method));
        hr_pack_error(out, call->msgid, &fault);
    }
}

static enum hr_served serve(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    struct hr_worker *worker = user;
    enum hr_served served = hr_core_serve(worker->config.core, call, now, out);
    if (served == HR_SERVED_WAITING) {
        worker->waiting++;
        return served;
    }
    if (served == HR_SERVED_ELSEWHERE) {
        answer_elsewhere(worker, call, now, out);
    }
    return HR_SERVED_ANSWERED;
}

static void prepare(void *user, struct hr_call *calls, uint32_t count)
{
    struct hr_worker *worker = user;
    hr_core_prepare(worker->config.core, calls, count);
}

static void deliver_answers(struct hr_worker *worker, struct hr_now now)
{
    for (;;) {
        struct hr_packer answer = hr_connections_begin_answer(worker->connections);
        struct hr_call call;
        if (!hr_core_next_answer(worker->config.core, now, &answer, &call)) {
            return;
        }
        worker->waiting--;
        hr_connections_end_answer(worker->connections, &call, &answer);
    }
}

/* --- other nodes --- */

/* On a thread of nng's. */
static void on_gossip(void *user, struct hr_span packet)
{
    struct hr_worker *worker = user;
    if (hr_inbox_put(worker->inbox, packet)) {
        (void)uv_async_send(&worker->wake); /* fails only for what is no async handle */
    }
}

static void on_peer(void *user, struct hr_span params, struct hr_now now)
{
    struct hr_worker *worker = user;
    struct hr_span packet;
    if (hr_unpack_peer(params, &packet) == HR_OK) {
        hr_core_receive(worker->config.core, packet, now);
    }
}

static void take_packets(struct hr_worker *worker, struct hr_now now)
{
    struct hr_span packet;
    while (worker->inbox != NULL && hr_inbox_next(worker->inbox, &packet)) {
        hr_core_receive(worker->config.core, packet, now);
    }
}

/* What cannot be sent is dropped, and counted there. */
static void send_packets(struct hr_worker *worker, struct hr_now now)
{
    struct hr_packet packet;
    while (worker->peers != NULL && hr_core_next_packet(worker->config.core, now, &packet)) {
        if (packet.lane == HR_LANE_PEER) {
            (void)hr_peers_put(worker->peers, packet.member, packet.address, packet.bytes, now);
        } else if (worker->gossip != NULL) {
            (void)hr_gossip_send(worker->gossip, packet.address, packet.bytes);
        }
    }
    if (worker->peers != NULL) {
        hr_peers_turn(worker->peers, now);
    }
}

/* The ways to other nodes open last, and close first: a packet that came would wake a handle that is closing. A worker
 * goes when its process does. */
static void close_ways(struct hr_worker *worker)
{
    hr_gossip_leave(worker->gossip);
    worker->gossip = NULL;
    if (worker->peers != NULL) {
        hr_peers_close(worker->peers);
    }
}

static bool open_ways(struct hr_worker *worker, struct hr_problem *problem)
{
    struct hr_gossip_config gossip = worker->config.gossip;
    struct hr_gossip_problem why = {"out of memory"};
    const struct hr_peers_config peers = {worker->config.loop, worker->config.clock, HR_MEMBERS_MAX};
    if (gossip.listen == NULL) {
        return true;
    }
    gossip.take = on_gossip;
    gossip.user = worker;
    worker->peers = hr_peers_new(&peers);
    if (worker->peers != NULL) {
        worker->gossip = hr_gossip_open(&gossip, &why);
    }
    if (worker->gossip == NULL) {
        hr_problem_what(problem, "%s", why.what);
        hr_problem_where(problem, "listen.gossip %s", gossip.listen);
    }
    return worker->gossip != NULL;
}

/* --- other workers of this node --- */

/* A letter says when it was written, and is not looked at before: the clock is read when it is there. Returns what it
 * showed last. */
static struct hr_now take_letters(struct hr_worker *worker, struct hr_now now)
{
    uint32_t from;
    enum hr_letter_kind kind;
    struct hr_span body;
    while (hr_crew_next(worker->config.crew, worker->config.number, &from, &kind, &body)) {
        now = hr_clock_now(worker->config.clock);
        hr_core_receive_letter(worker->config.core, from, kind, body, now);
    }
    return now;
}

static void send_letters(struct hr_worker *worker, struct hr_now now)
{
    struct hr_crew *crew = worker->config.crew;
    struct hr_core_letter letter;
    worker->is_stalled = true;
    while (worker->is_stalled && hr_crew_has_room(crew, worker->config.number)) {
        worker->is_stalled = hr_core_next_letter(worker->config.core, now, &letter);
        if (worker->is_stalled) {
            hr_crew_put(crew, worker->config.number, &letter);
        }
    }
    hr_crew_publish(crew, worker->config.number);
}

/* The last letters leave with the turn in which FLUSHING begins. */
static void write_to_crew(struct hr_worker *worker, struct hr_now now)
{
    if (worker->config.crew == NULL || worker->is_silent) {
        return;
    }
    send_letters(worker, now);
    if (worker->phase >= FLUSHING) {
        worker->is_silent = true;
        hr_crew_reach(worker->config.crew, HR_CREW_SILENT);
    }
}

/* Stands still where another worker wants that; begins to drain where one has been told to. */
static void heed_crew(struct hr_worker *worker)
{
    if (worker->config.crew == NULL) {
        return;
    }
    hr_crew_yield(worker->config.crew);
    if (hr_crew_is_draining(worker->config.crew)) {
        hr_worker_drain(worker);
    }
}

/* Are this worker's clients answered, and those of all others, who may need it for that? Holds that they gave back are
 * settled too then. */
static bool has_answered(struct hr_worker *worker)
{
    struct hr_crew *crew = worker->config.crew;
    if (crew == NULL) {
        return worker->waiting == 0;
    }
    if (worker->waiting == 0 && !worker->has_answered) {
        worker->has_answered = true;
        hr_crew_reach(crew, HR_CREW_ANSWERED);
    }
    return hr_crew_have_reached(crew, HR_CREW_ANSWERED) && hr_holds_open_count(hr_core_holds(worker->config.core)) == 0;
}

static bool are_all_silent(const struct hr_worker *worker)
{
    return worker->config.crew == NULL || hr_crew_have_reached(worker->config.crew, HR_CREW_SILENT);
}

/* --- the store --- */

void hr_worker_persisted(struct hr_worker *worker, const struct hr_store_result *result)
{
    struct mailbox *mailbox = &worker->mailbox;
    uv_mutex_lock(&mailbox->lock);
    mailbox->result = *result;
    mailbox->is_full = true;
    if (mailbox->is_open) {
        (void)uv_async_send(&worker->wake); /* fails only for what is no async handle */
    }
    uv_mutex_unlock(&mailbox->lock);
}

static bool take_mail(struct mailbox *mailbox, struct hr_store_result *ret_result)
{
    uv_mutex_lock(&mailbox->lock);
    bool is_full = mailbox->is_full;
    *ret_result = mailbox->result;
    mailbox->is_full = false;
    uv_mutex_unlock(&mailbox->lock);
    return is_full;
}

static void close_mailbox(struct mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->lock);
    mailbox->is_open = false;
    uv_mutex_unlock(&mailbox->lock);
}

static void settle(struct hr_worker *worker, enum hr_err err, struct hr_now now)
{
    worker->is_committing = false;
    worker->retry_at = err == HR_OK ? 0 : now.steady + DRAIN_STEP_NS;
    hr_core_persisted(worker->config.core, worker->ticket, err, now);
}

static void take_result(struct hr_worker *worker, struct hr_now now)
{
    struct hr_store_result result;
    if (worker->is_committing && take_mail(&worker->mailbox, &result)) {
        settle(worker, result.err, now);
    }
}

/* The batch is the core's, which leaves it alone until it has heard of the result; and the store is closed before the
 * core's memory goes. */
static void commit(struct hr_worker *worker, const struct hr_store_batch *batch, struct hr_now now)
{
    uint64_t number = worker->config.number, ticket = number << HR_CORE_TICKET_BITS | worker->ticket;
    struct hr_store_batch lent = *batch;
    lent.is_lent = true;
    worker->is_committing = true;
    enum hr_err err = hr_store_commit(worker->config.store, ticket, &lent);
    if (err != HR_OK) {
        settle(worker, err, now);
    }
}

/* Gives the store what is due; while saving, whatever there is. */
static void commit_next(struct hr_worker *worker, struct hr_now now)
{
    bool is_last = worker->phase == SAVING;
    if (worker->is_committing || worker->phase > SAVING || (is_last && now.steady < worker->retry_at)) {
        return;
    }
    const struct hr_store_batch *batch = NULL;
    if (worker->config.store != NULL) {
        batch = hr_core_next_batch(worker->config.core, now, is_last, &worker->ticket);
    }
    if (batch != NULL) {
        commit(worker, batch, now);
    }
    worker->is_saved = is_last && batch == NULL;
}

/* --- the end --- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct hr_worker *worker = handle->data;
    if (--worker->handles > 0) {
        return;
    }
    worker->phase = STOPPED;
    if (worker->is_abandoned) {
        hr_worker_free(worker);
    } else if (worker->config.stopped != NULL) {
        worker->config.stopped(worker->config.user);
    }
}

/* All but the listener, which goes first. */
static void close_handles(struct hr_worker *worker)
{
    close_mailbox(&worker->mailbox);
    if (worker->config.crew != NULL && !worker->is_abandoned) {
        hr_crew_leave(worker->config.crew, worker->config.number);
    }
    uv_close((uv_handle_t *)&worker->turn, on_handle_closed);
    uv_close((uv_handle_t *)&worker->timer, on_handle_closed);
    uv_close((uv_handle_t *)&worker->wake, on_handle_closed);
}

static void enter_phase(struct hr_worker *worker, enum phase phase, struct hr_now now)
{
    worker->phase = phase;
    worker->phase_ends_at = phase == SAVING ? worker->phase_ends_at : now.steady + HR_DRAIN_NS_MAX;
    if (phase == LEAVING) {
        worker->phase_ends_at = now.steady + HR_LEAVE_NS_MAX;
    } else if (phase == FAREWELL) {
        worker->phase_ends_at = now.steady + (worker->peers == NULL ? 0 : HR_FAREWELL_NS);
    } else if (phase == ANSWERING) {
        uv_close((uv_handle_t *)&worker->listener, on_handle_closed);
        hr_connections_stop_requests(worker->connections);
    } else if (phase == SAVING) {
        hr_connections_stop_reading(worker->connections);
        hr_core_drain(worker->config.core, now);
    } else if (phase == FLUSHING) {
        hr_connections_end_all(worker->connections, now);
        close_ways(worker);
    } else if (phase == CLOSING) {
        close_handles(worker);
    }
}

static bool phase_is_over(struct hr_worker *worker, struct hr_now now)
{
    bool is_overdue = now.steady >= worker->phase_ends_at;
    switch (worker->phase) {
    case LEAVING:
        return hr_core_leave(worker->config.core, now) || is_overdue;
    case FAREWELL:
        return is_overdue;
    case ANSWERING:
        return (has_answered(worker) && !worker->is_committing) || is_overdue;
    case SAVING:
        return worker->is_saved || is_overdue;
    case FLUSHING:
        if (is_overdue) {
            hr_connections_close_all(worker->connections);
        }
        return hr_connections_are_gone(worker->connections) && are_all_silent(worker) &&
               (worker->peers == NULL || hr_peers_are_gone(worker->peers));
    case SERVING:
    case CLOSING:
    case STOPPED:
        return false;
    }
    return false;
}

/* Goes on to the next phase where the present one is over. A store that has stalled is not waited for: there is nothing
 * that could be saved then. */
static bool advance(struct hr_worker *worker, struct hr_now now)
{
    if (!phase_is_over(worker, now)) {
        return false;
    }
    enum phase next = worker->phase + 1;
    enter_phase(worker, next == SAVING && worker->is_committing ? FLUSHING : next, now);
    return true;
}

void hr_worker_drain(struct hr_worker *worker)
{
    if (worker->phase != SERVING) {
        return;
    }
    enter_phase(worker, LEAVING, hr_clock_now(worker->config.clock));
    if (worker->config.crew != NULL) {
        hr_crew_drain(worker->config.crew);
    }
}

/* --- turns --- */

/* The timer and the store do no more than wake the loop up: what is to be done then, the turn does. */
static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

static void on_wake(uv_async_t *wake)
{
    (void)wake;
}

static void set_timer(struct hr_worker *worker, hr_ns now)
{
    hr_ns deadline = hr_core_deadline(worker->config.core);
    hr_ns held_until = hr_connections_deadline(worker->connections);
    deadline = held_until < deadline ? held_until : deadline;
    if (worker->phase != SERVING && deadline > now + DRAIN_STEP_NS) {
        deadline = now + DRAIN_STEP_NS;
    }
    deadline = worker->is_stalled ? now : deadline;
    if (uv_is_active((uv_handle_t *)&worker->timer) && deadline == worker->timer_is_for) {
        return;
    }
    int64_t sleep_ms = deadline > now ? hr_ms_ceil(deadline - now) : 1;
    worker->timer_is_for = deadline;
    (void)uv_timer_start(&worker->timer, on_timer, (uint64_t)(sleep_ms < SLEEP_MS_MAX ? sleep_ms : SLEEP_MS_MAX), 0);
}

static void on_turn(uv_prepare_t *turn)
{
    struct hr_worker *worker = turn->data;
    heed_crew(worker);
    struct hr_now now = hr_clock_now(worker->config.clock);
    take_result(worker, now);
    take_packets(worker, now);
    if (worker->config.crew != NULL) {
        now = take_letters(worker, now);
    }
    hr_core_tick(worker->config.core, now);
    if (worker->config.turn != NULL && worker->phase < SAVING) {
        worker->config.turn(worker->config.user, now);
    }
    do {
        deliver_answers(worker, now);
    } while (hr_connections_resume(worker->connections, now));
    hr_connections_turn(worker->connections, now);
    do {
        commit_next(worker, now);
    } while (advance(worker, now));
    send_packets(worker, now);
    write_to_crew(worker, now);
    if (worker->phase < CLOSING) {
        set_timer(worker, now.steady);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct hr_worker *worker = listener->data;
    hr_connections_accept(worker->connections, listener, status);
}

/* --- the start --- */

static void explain(struct hr_problem *problem, const struct hr_address *address, const char *why)
{
    char text[HR_ADDRESS_TEXT_BYTES];
    (void)hr_address_text(address, text);
    hr_problem_what(problem, "cannot listen: %s", why);
    hr_problem_where(problem, "%s", text);
}

/* The descriptor of a socket that listens on one of the addresses that a name has, or -1 with errno. */
static int listen_on(const struct addrinfo *info, bool shares_port)
{
    int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        (!shares_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0) &&
        bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    int saved = errno;
    (void)close(fd); /* what went wrong before is what counts */
    errno = saved;
    return -1;
}

/* SO_REUSEPORT would let the listener of another node share the port, and take a part of what is meant for this one. So
 * the first worker looks whether the port is free before it is shared. */
static bool is_free(const struct addrinfo *info)
{
    int fd = listen_on(info, false);
    if (fd < 0) {
        return false;
    }
    (void)close(fd); /* nobody has connected yet, or is told so */
    return true;
}

static enum hr_err open_socket(const struct hr_worker_config *config, int *ret_fd, struct hr_problem *problem)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)config->listen.port);
    int status = getaddrinfo(config->listen.host, port, &hints, &found);
    if (status != 0) {
        explain(problem, &config->listen, gai_strerror(status));
        return HR_E_IO;
    }
    bool is_first = config->crew != NULL && config->number == 0;
    *ret_fd = is_first && !is_free(found) ? -1 : listen_on(found, config->shares_port);
    if (*ret_fd < 0) {
        explain(problem, &config->listen, strerror(errno));
    }
    freeaddrinfo(found);
    return *ret_fd < 0 ? HR_E_IO : HR_OK;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t bytes = sizeof(name);
    (void)getsockname(fd, &name.any, &bytes); /* fails only for what is no socket */
    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
}

/* It closes by itself as the loop runs on. */
static void abandon(struct hr_worker *worker)
{
    worker->is_abandoned = true;
    uv_close((uv_handle_t *)&worker->listener, on_handle_closed);
    close_handles(worker);
}

/* False: descriptors or memory are used up. What was begun then closes by itself. */
static bool open_handles(struct hr_worker *worker, int fd)
{
    uv_loop_t *loop = worker->config.loop;
    if (uv_async_init(loop, &worker->wake, on_wake) != 0) {
        (void)close(fd); /* no byte was written to it */
        hr_worker_free(worker);
        return false;
    }
    (void)uv_timer_init(loop, &worker->timer); /* these three never fail: they take nothing from the system yet */
    (void)uv_prepare_init(loop, &worker->turn);
    (void)uv_tcp_init(loop, &worker->listener);
    worker->handles = 4;
    worker->wake.data = worker;
    worker->timer.data = worker;
    worker->turn.data = worker;
    worker->listener.data = worker;
    bool is_taken = uv_tcp_open(&worker->listener, fd) == 0;
    if (is_taken && uv_listen((uv_stream_t *)&worker->listener, BACKLOG, on_connection) == 0) {
        (void)uv_prepare_start(&worker->turn, on_turn); /* fails only without a callback */
        worker->mailbox.is_open = true;
        return true;
    }
    if (!is_taken) {
        (void)close(fd);
    }
    abandon(worker);
    return false;
}

static void free_parts(struct hr_worker *worker)
{
    if (worker->peers != NULL) {
        hr_peers_free(worker->peers);
    }
    if (worker->inbox != NULL) {
        hr_inbox_close(worker->inbox);
        free(worker->inbox);
    }
    if (worker->connections != NULL) {
        hr_connections_free(worker->connections);
    }
    free(worker);
}

/* NULL: no memory, or the node is alone and has no use for one. */
static struct hr_inbox *new_inbox(const struct hr_worker_config *config)
{
    struct hr_inbox *inbox = config->gossip.listen == NULL ? NULL : malloc(sizeof(*inbox));
    if (inbox != NULL && hr_inbox_open(inbox, HR_WORKER_INBOX_BYTES) != HR_OK) {
        free(inbox);
        return NULL;
    }
    return inbox;
}

static struct hr_worker *new_worker(const struct hr_worker_config *config)
{
    struct hr_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return NULL;
    }
    const struct hr_connections_config connections = {.loop = config->loop,
                                                      .clock = config->clock,
                                                      .connections_max = config->connections_max,
                                                      .session = config->session,
                                                      .partial_bytes_max = config->partial_bytes_max,
                                                      .serve = serve,
                                                      .prepare = prepare,
                                                      .peer = config->gossip.listen != NULL ? on_peer : NULL,
                                                      .user = worker};
    worker->config = *config;
    worker->connections = hr_connections_new(&connections);
    worker->inbox = new_inbox(config);
    bool is_whole = worker->connections != NULL && (worker->inbox != NULL || config->gossip.listen == NULL);
    if (is_whole && uv_mutex_init(&worker->mailbox.lock) == 0) {
        return worker;
    }
    free_parts(worker);
    return NULL;
}

enum hr_err hr_worker_open(const struct hr_worker_config *config, struct hr_worker **ret_worker,
                           struct hr_problem *ret_problem)
{
    int fd;
    if (config->connections_max == 0 || config->connections_max > HR_CONNECTIONS_MAX) {
        explain(ret_problem, &config->listen, "the number of connections is out of range");
        return HR_E_RANGE;
    }
    enum hr_err err = open_socket(config, &fd, ret_problem);
    if (err != HR_OK) {
        return err;
    }
    struct hr_worker *worker = new_worker(config);
    if (worker == NULL) {
        (void)close(fd); /* no byte was written to it */
    }
    uint16_t port = worker != NULL ? port_of(fd) : 0;
    if (worker == NULL || !open_handles(worker, fd)) {
        explain(ret_problem, &config->listen, "out of memory or descriptors");
        return HR_E_MEMORY;
    }
    if (!open_ways(worker, ret_problem)) {
        abandon(worker);
        return HR_E_IO;
    }
    if (config->crew != NULL) {
        hr_crew_join(config->crew, config->number, &worker->wake);
    }
    worker->port = port;
    *ret_worker = worker;
    return HR_OK;
}

void hr_worker_free(struct hr_worker *worker)
{
    uv_mutex_destroy(&worker->mailbox.lock);
    free_parts(worker);
}

uint16_t hr_worker_port(const struct hr_worker *worker)
{
    return worker->port;
}

const struct hr_connections_stats *hr_worker_stats(const struct hr_worker *worker)
{
    return hr_connections_stats(worker->connections);
}

struct hr_worker_traffic hr_worker_traffic(const struct hr_worker *worker)
{
    struct hr_worker_traffic traffic = {0};
    if (worker->gossip != NULL) {
        struct hr_gossip_counts gossip = hr_gossip_counts(worker->gossip);
        traffic.gossip_sent = gossip.sent;
        traffic.gossip_received = gossip.received;
        traffic.dropped = gossip.dropped + gossip.unreachable;
    }
    if (worker->peers != NULL) {
        const struct hr_peers_stats *peers = hr_peers_stats(worker->peers);
        traffic.peer_sent = peers->packets;
        traffic.dropped += peers->dropped;
    }
    if (worker->inbox != NULL) {
        traffic.dropped += hr_inbox_dropped(worker->inbox);
    }
    return traffic;
}
