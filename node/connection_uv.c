#include "node/connection_uv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* One read. */
#define READ_BYTES (64U << 10)

/* Left over bytes up to this many are put before the next read in the shared buffer; more stay in a buffer of their
 * own, which grows as they do, so that a long message is never copied for each piece of it that arrives. */
#define LEFT_OVER_SMALL (4U << 10)

/* The outbox: address space for one more answer of any length behind what makes it be sent. Pages beyond the first
 * megabyte are given back when a long answer has left. */
#define OUTBOX_BYTES (HR_ANSWER_BYTES_MAX + HR_UNSENT_BYTES_HIGH)
#define OUTBOX_BYTES_KEPT (1U << 20)

/* Runs of answers in the outbox, and how many of them one write takes. */
#define RUNS_MAX 512U
#define RUNS_OF_WRITE 32U

#define KEEPALIVE_S 60

/* A check that is all that was read, and no longer than this, waits for those of other connections: what one by itself
 * asks cannot be prepared, as it is wanted at once. */
#define SMALL_READ_BYTES 512

/* A member of a circular list; alone it points to itself. */
struct link {
    struct link *prev, *next;
};

/* SERVING -> ENDING -> CLOSED, or straight to CLOSED. The memory is freed in libuv's close callback. */
enum state { SERVING, ENDING, CLOSED };

struct hr_connection {
    struct link link;    /* SERVING: of those due, or alone. ENDING: of those ending. First: see of_link */
    struct link partial; /* of those that owe the rest of a message, or alone */
    hr_ns partial_ends_at;
    struct hr_connections *all;
    uint64_t id; /* a serial number and, in the low bits, the slot */
    enum state state;
    bool is_node;                 /* another node's: it brings packets */
    bool has_small;               /* one of the small reads that wait is its */
    bool is_choked;               /* its peer does not read */
    bool is_paused;               /* too many in flight */
    bool is_reading;              /* libuv is told to */
    bool has_ended;               /* the peer will send no more */
    bool is_shut;                 /* we will send no more, and all was sent */
    hr_ns ends_at;                /* ENDING: the latest */
    uint32_t first_run, last_run; /* of what the outbox has for it; 0: nothing */
    char *kept;                   /* what has arrived and no event has consumed yet */
    size_t kept_bytes, kept_room;
    struct hr_session session;
    uv_tcp_t tcp;
    uv_shutdown_t shutdown;
};

/* Bytes that the socket did not take. */
struct unsent {
    uv_write_t write;
    struct hr_connection *connection;
    size_t bytes;
    char data[];
};

/* A run of answers to one connection: bytes [from, to) of the outbox. */
struct run {
    struct hr_connection *owner; /* NULL: it has been sent, or has nobody to go to */
    size_t from, to;
    uint32_t next; /* of the same owner; 0: the last. Runs are numbered from 1 on */
};

/* Answers that are not written yet. Those to one connection may lie between others, and leave in one write all the
 * same. */
struct outbox {
    char *at;
    size_t to;
    uint32_t count;
    hr_ns held_since; /* the end of a turn at which some of it stayed; 0: none has */
    struct run runs[RUNS_MAX];
};

struct hr_connections {
    struct hr_connections_config config;
    struct hr_connections_stats stats;
    struct hr_connection **slots; /* NULL: free */
    uint32_t *free_slots;         /* a stack */
    uint32_t free_count;
    uint64_t serial;
    uint64_t handles; /* on the loop, those that are closing included */
    bool is_draining; /* only packets of other nodes are read any more: answers to what waits are among them */
    bool is_stopped;  /* nothing is read any more */
    struct link due, ending, partial;
    struct outbox outbox;
    struct hr_call small[HR_TOGETHER_MAX]; /* each a part of the read buffer */
    uint32_t small_count;
    hr_ns small_since;             /* the first of them was read */
    struct hr_session_event event; /* of the session that is served, where has_event: it comes first */
    bool has_event;
    char read_buffer[HR_TOGETHER_MAX * SMALL_READ_BYTES + LEFT_OVER_SMALL + READ_BYTES];
};

/* --- lists --- */

static void link_init(struct link *link)
{
    link->prev = link;
    link->next = link;
}

static bool link_is_alone(const struct link *link)
{
    return link->next == link;
}

static void link_append(struct link *list, struct link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static void link_remove(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

static struct hr_connection *of_link(struct link *link)
{
    return (struct hr_connection *)link;
}

static struct hr_connection *of_partial(struct link *link)
{
    return (struct hr_connection *)(void *)((char *)link - offsetof(struct hr_connection, partial));
}

/* --- the end of a connection --- */

static uv_stream_t *stream_of(struct hr_connection *connection)
{
    return (uv_stream_t *)&connection->tcp;
}

static size_t unsent_bytes(struct hr_connection *connection)
{
    return uv_stream_get_write_queue_size(stream_of(connection));
}

/* What a buffer of that size counts for in partial_bytes. */
static uint64_t counted(size_t room)
{
    return room > LEFT_OVER_SMALL ? room : 0;
}

static void drop_kept(struct hr_connection *connection)
{
    connection->all->stats.partial_bytes -= counted(connection->kept_room);
    free(connection->kept);
    connection->kept = NULL;
    connection->kept_bytes = 0;
    connection->kept_room = 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct hr_connection *connection = handle->data;
    connection->all->handles--;
    drop_kept(connection);
    free(connection);
}

static void drop_runs(struct hr_connection *connection)
{
    struct outbox *outbox = &connection->all->outbox;
    for (uint32_t run = connection->first_run; run != 0; run = outbox->runs[run - 1].next) {
        outbox->runs[run - 1].owner = NULL;
    }
    connection->first_run = connection->last_run = 0;
}

static void close_connection(struct hr_connection *connection)
{
    struct hr_connections *all = connection->all;
    if (connection->state == CLOSED) {
        return;
    }
    connection->state = CLOSED;
    link_remove(&connection->link);
    link_remove(&connection->partial);
    drop_runs(connection);
    uint32_t slot = (uint32_t)(connection->id & ((1U << HR_CONNECTIONS_BITS) - 1));
    all->slots[slot] = NULL;
    all->free_slots[all->free_count++] = slot;
    all->stats.open--;
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static void on_shut(uv_shutdown_t *shutdown, int status)
{
    struct hr_connection *connection = shutdown->data;
    connection->is_shut = true;
    if (status != 0 || connection->has_ended || connection->all->is_stopped) {
        close_connection(connection);
    }
}

static void settle_reading(struct hr_connection *connection);
static void send_runs(struct hr_connection *connection);

/* Sends what is to be sent, then closes. */
static void end_connection(struct hr_connection *connection, hr_ns now)
{
    send_runs(connection);
    if (connection->state == CLOSED) {
        return;
    }
    connection->state = ENDING;
    connection->ends_at = now + HR_ENDING_NS_MAX;
    link_remove(&connection->link);
    link_append(&connection->all->ending, &connection->link);
    link_remove(&connection->partial);
    drop_kept(connection);
    connection->shutdown.data = connection;
    if (uv_shutdown(&connection->shutdown, stream_of(connection), on_shut) != 0) {
        close_connection(connection);
        return;
    }
    settle_reading(connection);
}

static void note_peers_end(struct hr_connection *connection, hr_ns now)
{
    connection->has_ended = true;
    connection->is_reading = false; /* libuv has stopped by itself */
    if (connection->state == SERVING && connection->session.in_flight == 0) {
        end_connection(connection, now);
    } else if (connection->state == ENDING && connection->is_shut) {
        close_connection(connection);
    }
}

/* --- answers out --- */

static void make_due(struct hr_connection *connection)
{
    if (connection->state == SERVING && link_is_alone(&connection->link)) {
        link_append(&connection->all->due, &connection->link);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct unsent *unsent = write->data;
    struct hr_connection *connection = unsent->connection;
    connection->all->stats.unsent_bytes -= unsent->bytes;
    free(unsent);
    if (status != 0) {
        close_connection(connection);
        return;
    }
    if (connection->is_choked && unsent_bytes(connection) < HR_UNSENT_BYTES_LOW) {
        make_due(connection);
    }
}

static size_t total_of(const uv_buf_t *buffers, uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bytes += buffers[i].len;
    }
    return bytes;
}

/* Copies what is behind the first `done` bytes. */
static void copy_rest(const uv_buf_t *buffers, uint32_t count, size_t done, char *to)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t skipped = done < buffers[i].len ? done : buffers[i].len;
        memcpy(to, buffers[i].base + skipped, buffers[i].len - skipped);
        to += buffers[i].len - skipped;
        done -= skipped;
    }
}

/* False: no memory, or the socket is broken. */
static bool queue_copy(struct hr_connection *connection, const uv_buf_t *buffers, uint32_t count, size_t done)
{
    size_t bytes = total_of(buffers, count) - done;
    struct unsent *unsent = malloc(sizeof(*unsent) + bytes);
    if (unsent == NULL) {
        return false;
    }
    unsent->connection = connection;
    unsent->bytes = bytes;
    unsent->write.data = unsent;
    copy_rest(buffers, count, done, unsent->data);
    uv_buf_t buffer = {.base = unsent->data, .len = bytes};
    if (uv_write(&unsent->write, stream_of(connection), &buffer, 1, on_written) != 0) {
        free(unsent);
        return false;
    }
    connection->all->stats.unsent_bytes += bytes;
    return true;
}

static void queue_unsent(struct hr_connection *connection, const uv_buf_t *buffers, uint32_t count, size_t done)
{
    struct hr_connections *all = connection->all;
    size_t bytes = total_of(buffers, count) - done;
    bool is_full =
        unsent_bytes(connection) > HR_UNSENT_BYTES_MAX || all->stats.unsent_bytes + bytes > HR_UNSENT_BYTES_ALL_MAX;
    all->stats.closed_slow += is_full;
    if (is_full || !queue_copy(connection, buffers, count, done)) {
        close_connection(connection);
        return;
    }
    if (!connection->is_choked && unsent_bytes(connection) > HR_UNSENT_BYTES_HIGH) {
        connection->is_choked = true;
        all->stats.paused++;
        settle_reading(connection);
    }
}

static void send_buffers(struct hr_connection *connection, const uv_buf_t *buffers, uint32_t count)
{
    size_t bytes = total_of(buffers, count);
    int sent = uv_try_write(stream_of(connection), buffers, count);
    connection->all->stats.bytes_out += bytes;
    if (sent < 0 && sent != UV_EAGAIN) {
        close_connection(connection);
        return;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done < bytes) {
        queue_unsent(connection, buffers, count, done);
    }
}

/* Sends what the outbox holds for this connection. */
static void send_runs(struct hr_connection *connection)
{
    struct outbox *outbox = &connection->all->outbox;
    while (connection->first_run != 0) {
        uv_buf_t buffers[RUNS_OF_WRITE];
        uint32_t count = 0;
        for (; count < RUNS_OF_WRITE && connection->first_run != 0; count++) {
            struct run *run = &outbox->runs[connection->first_run - 1];
            buffers[count] = (uv_buf_t){.base = outbox->at + run->from, .len = run->to - run->from};
            run->owner = NULL;
            connection->first_run = run->next;
        }
        send_buffers(connection, buffers, count); /* where that closes it, no run is left */
    }
    connection->last_run = 0;
}

/* Sends all that the outbox holds. */
static void flush(struct hr_connections *all)
{
    struct outbox *outbox = &all->outbox;
    for (uint32_t i = 0; i < outbox->count; i++) {
        if (outbox->runs[i].owner != NULL) {
            send_runs(outbox->runs[i].owner);
        }
    }
    if (outbox->to > OUTBOX_BYTES_KEPT) { /* a refusal costs memory, no more */
        (void)madvise(outbox->at + OUTBOX_BYTES_KEPT, OUTBOX_BYTES - OUTBOX_BYTES_KEPT, MADV_DONTNEED);
    }
    outbox->count = 0;
    outbox->to = 0;
    outbox->held_since = 0;
}

/* Sends what the outbox holds for connections that wait for nothing more. Returns whether something is left. */
static bool flush_whole(struct hr_connections *all)
{
    struct outbox *outbox = &all->outbox;
    bool is_any_left = false;
    for (uint32_t i = 0; i < outbox->count; i++) {
        struct hr_connection *owner = outbox->runs[i].owner;
        if (owner != NULL && owner->session.in_flight > 0) {
            is_any_left = true;
        } else if (owner != NULL) {
            send_runs(owner);
        }
    }
    return is_any_left;
}

/* In a region the rest of what a connection asked for comes from other nodes within one or two turns: a write that
 * waits for it spares another, which costs more than a decision. */
static void flush_in_region(struct hr_connections *all, hr_ns now)
{
    struct outbox *outbox = &all->outbox;
    bool is_old = outbox->held_since != 0 && now - outbox->held_since >= HR_ANSWERS_HELD_NS_MAX;
    if (is_old || !flush_whole(all)) {
        flush(all);
    } else if (outbox->held_since == 0) {
        outbox->held_since = now;
    }
}

/* Where other nodes have the rest of what this connection asked for, what can be answered now waits for the end of the
 * loop's turn: answers that come from there may leave in the same write. */
static void send_or_wait(struct hr_connection *connection)
{
    struct outbox *outbox = &connection->all->outbox;
    bool waits = connection->state == SERVING && connection->session.in_flight > 0;
    if (!waits && outbox->count == 1) {
        flush(connection->all);
    } else if (!waits) {
        send_runs(connection);
    }
}

struct hr_packer hr_connections_begin_answer(struct hr_connections *connections)
{
    return (struct hr_packer){.at = connections->outbox.at + connections->outbox.to, .room = HR_ANSWER_BYTES_MAX};
}

static void pack_too_long(struct hr_connections *all, uint64_t msgid, struct hr_packer *answer)
{
    struct hr_fault fault;
    all->stats.answers_too_long++;
    hr_fault_set(&fault, HR_CODE_RESOURCE_EXHAUSTED, "an answer may hold at most ");
    hr_fault_add_number(&fault, HR_ANSWER_BYTES_MAX);
    hr_fault_add(&fault, " bytes: ask for less at a time, or for no detail");
    answer->wanted = 0;
    hr_pack_error(answer, msgid, &fault);
}

/* The last bytes of the outbox are for this connection. */
static void add_run(struct hr_connection *connection, size_t bytes)
{
    struct outbox *outbox = &connection->all->outbox;
    size_t from = outbox->to;
    outbox->to += bytes;
    if (connection->last_run != 0 && connection->last_run == outbox->count) {
        outbox->runs[outbox->count - 1].to = outbox->to;
        return;
    }
    outbox->runs[outbox->count++] = (struct run){connection, from, outbox->to, 0};
    if (connection->last_run == 0) {
        connection->first_run = outbox->count;
    } else {
        outbox->runs[connection->last_run - 1].next = outbox->count;
    }
    connection->last_run = outbox->count;
}

/* Puts an answer, which begin_answer's packer holds, into the outbox for its connection. */
static void put_answer(struct hr_connection *connection, uint64_t msgid, struct hr_packer *answer)
{
    struct hr_connections *all = connection->all;
    if (!hr_packer_fits(answer)) {
        pack_too_long(all, msgid, answer);
    }
    add_run(connection, answer->wanted);
    if (all->outbox.to >= HR_UNSENT_BYTES_HIGH || all->outbox.count == RUNS_MAX) {
        flush(all);
    }
}

static struct hr_connection *find(const struct hr_connections *all, uint64_t id)
{
    uint64_t slot = id & ((1U << HR_CONNECTIONS_BITS) - 1);
    struct hr_connection *connection = slot < all->config.connections_max ? all->slots[slot] : NULL;
    return connection != NULL && connection->id == id && connection->state == SERVING ? connection : NULL;
}

void hr_connections_end_answer(struct hr_connections *connections, const struct hr_call *call, struct hr_packer *answer)
{
    struct hr_connection *connection = find(connections, call->connection);
    if (connection == NULL) {
        connections->stats.unclaimed++;
        return;
    }
    hr_session_answered(&connection->session);
    put_answer(connection, call->msgid, answer);
    if (connection->is_paused || (connection->has_ended && connection->session.in_flight == 0)) {
        make_due(connection);
    }
}

/* --- requests in --- */

static struct hr_call call_of(const struct hr_connection *connection, const struct hr_session_event *event)
{
    return (struct hr_call){
        .connection = connection->id, .msgid = event->msgid, .method = event->method, .params = event->params};
}

static void serve_request(struct hr_connection *connection, const struct hr_call *call, struct hr_now now,
                          uint32_t *answered)
{
    struct hr_connections *all = connection->all;
    struct hr_packer answer = hr_connections_begin_answer(all);
    all->stats.requests[call->method]++;
    if (all->config.serve(all->config.user, call, now, &answer) == HR_SERVED_WAITING) {
        return;
    }
    hr_session_answered(&connection->session);
    put_answer(connection, call->msgid, &answer);
    (*answered)++;
}

static void serve_together(struct hr_connection *connection, struct hr_call *calls, uint32_t count, struct hr_now now,
                           uint32_t *answered)
{
    struct hr_connections *all = connection->all;
    if (count > 1 && all->config.prepare != NULL) {
        all->config.prepare(all->config.user, calls, count);
    }
    for (uint32_t i = 0; i < count && connection->state == SERVING; i++) {
        serve_request(connection, &calls[i], now, answered);
    }
}

/* Is carried out like a request, from a connection that does not exist, and its answer dropped. */
static void serve_notification(struct hr_connection *connection, const struct hr_session_event *event,
                               struct hr_now now)
{
    struct hr_connections *all = connection->all;
    const struct hr_call call = {.method = event->method, .params = event->params};
    struct hr_packer dropped = hr_connections_begin_answer(all);
    if (event->method == HR_METHOD_UNKNOWN) {
        return;
    }
    all->stats.requests[event->method]++;
    if (event->method != HR_METHOD_PEER) {
        (void)all->config.serve(all->config.user, &call, now, &dropped);
    } else if (all->config.peer != NULL) {
        connection->is_node = true;
        all->config.peer(all->config.user, event->params, now);
    }
}

static void answer_fault(struct hr_connection *connection, const struct hr_session_event *event)
{
    struct hr_packer answer = hr_connections_begin_answer(connection->all);
    connection->all->stats.requests[HR_METHOD_UNKNOWN]++;
    hr_pack_error(&answer, event->msgid, &event->fault);
    put_answer(connection, event->msgid, &answer);
}

/* False: that was all for now. */
static bool act_on(struct hr_connection *connection, const struct hr_session_event *event, struct hr_now now,
                   uint32_t *answered)
{
    switch (event->kind) {
    case HR_SESSION_REQUEST: {
        struct hr_call call = call_of(connection, event);
        serve_request(connection, &call, now, answered);
        return true;
    }
    case HR_SESSION_NOTIFICATION:
        serve_notification(connection, event, now);
        return true;
    case HR_SESSION_REFUSED:
        answer_fault(connection, event);
        return true;
    case HR_SESSION_RESPONSE: /* we have asked nothing */
        return true;
    case HR_SESSION_PAUSED:
        connection->is_paused = true;
        connection->all->stats.paused++;
        return false;
    case HR_SESSION_BROKEN:
        connection->all->stats.closed_broken++;
        if (event->has_msgid) {
            answer_fault(connection, event);
        }
        return false;
    case HR_SESSION_MORE:
        return false;
    }
    return false;
}

static void next_event(struct hr_connection *connection, struct hr_span arrived, struct hr_session_event *event)
{
    struct hr_connections *all = connection->all;
    if (all->has_event) {
        *event = all->event;
        all->has_event = false;
    } else {
        hr_session_next(&connection->session, arrived, event);
    }
}

/* Takes checks off what has arrived, as many as are prepared together; *event is the first that is no check, or the
 * last check. Returns how many bytes that were. */
static size_t gather(struct hr_connection *connection, struct hr_span arrived, struct hr_call *calls,
                     uint32_t *ret_count, struct hr_session_event *event)
{
    size_t used = 0;
    *ret_count = 0;
    do {
        next_event(connection, (struct hr_span){arrived.at + used, arrived.bytes - used}, event);
        used += event->consumed;
        if (event->kind != HR_SESSION_REQUEST || event->method != HR_METHOD_CHECK) {
            break;
        }
        calls[(*ret_count)++] = call_of(connection, event);
    } while (*ret_count < HR_TOGETHER_MAX);
    return used;
}

/* Carries out the requests that are there, as far as the peer takes the answers. Returns how many bytes that were. */
static size_t serve_all(struct hr_connection *connection, struct hr_span arrived, struct hr_now now, uint32_t *answered)
{
    struct hr_call calls[HR_TOGETHER_MAX];
    struct hr_session_event event;
    size_t used = 0;
    bool goes_on = true;
    while (goes_on && connection->state == SERVING && !connection->is_choked) {
        uint32_t count;
        struct hr_span rest = {arrived.at + used, arrived.bytes - used};
        used += gather(connection, rest, calls, &count, &event);
        serve_together(connection, calls, count, now, answered);
        bool is_check = event.kind == HR_SESSION_REQUEST && event.method == HR_METHOD_CHECK;
        bool may_resume = event.kind == HR_SESSION_PAUSED && count > 0; /* some of them may be answered by now */
        if (!is_check && !may_resume && connection->state == SERVING) {
            goes_on = act_on(connection, &event, now, answered);
        }
    }
    return used;
}

static void note_latency(struct hr_connections *all, hr_ns since, uint32_t answered)
{
    if (answered > 0) {
        hr_ns took = hr_clock_steady_now(all->config.clock) - since;
        hr_histogram_add_many(&all->stats.latency, took > 0 ? (uint64_t)took : 0, answered);
    }
}

/* --- bytes in --- */

/* A quarter is left to other nodes: a flood of clients must not cut them off from one another. Who says that it is a
 * node may not be one, so that they have a bound too. */
static bool has_room(const struct hr_connection *connection, size_t room)
{
    const struct hr_connections *all = connection->all;
    uint64_t most = all->config.partial_bytes_max / 4 * (connection->is_node ? 4 : 3);
    return room <= LEFT_OVER_SMALL || room <= connection->kept_room ||
           all->stats.partial_bytes - counted(connection->kept_room) + room <= most;
}

static bool resize_kept(struct hr_connection *connection, size_t room)
{
    char *kept = has_room(connection, room) ? realloc(connection->kept, room) : NULL;
    if (kept == NULL) {
        return false;
    }
    connection->all->stats.partial_bytes += counted(room) - counted(connection->kept_room);
    connection->kept = kept;
    connection->kept_room = room;
    return true;
}

/* Keeps what no event has consumed, and says where it is then. It lies in the shared buffer, or in what is kept
 * already. A long message has room to go on. False: no memory. */
static bool keep(struct hr_connection *connection, struct hr_span *rest, bool is_kept)
{
    if (rest->bytes == 0) {
        drop_kept(connection);
        return true;
    }
    if (!is_kept && connection->kept_room < rest->bytes && !resize_kept(connection, rest->bytes)) {
        return false;
    }
    if (rest->at != connection->kept) { /* else a long message would be moved for each of its pieces */
        memmove(connection->kept, rest->at, rest->bytes);
    }
    rest->at = connection->kept;
    connection->kept_bytes = rest->bytes;
    if (rest->bytes <= LEFT_OVER_SMALL) {
        return connection->kept_room <= LEFT_OVER_SMALL || resize_kept(connection, rest->bytes);
    }
    return connection->kept_room - rest->bytes >= LEFT_OVER_SMALL || resize_kept(connection, 2 * rest->bytes);
}

/* What is left over is the beginning of a message, whose rest must come in time; unless it is we who do not go on. */
static void note_partial(struct hr_connection *connection, hr_ns now)
{
    link_remove(&connection->partial);
    if (connection->kept_bytes > 0 && !connection->is_paused && !connection->is_choked) {
        connection->partial_ends_at = now + HR_PARTIAL_NS_MAX;
        link_append(&connection->all->partial, &connection->partial);
    }
}

/* There is no room for a message that has arrived in part. */
static void refuse_partial(struct hr_connection *connection, struct hr_span rest, hr_ns now)
{
    struct hr_session_event event;
    connection->all->stats.closed_full++;
    hr_session_refuse(&connection->session, rest, "no room for another message that has arrived in part", &event);
    if (event.has_msgid) {
        answer_fault(connection, &event);
    }
    if (connection->state == SERVING) {
        end_connection(connection, now);
    }
}

static void serve_arrived(struct hr_connection *connection, struct hr_span arrived, struct hr_now now)
{
    uint32_t answered = 0;
    size_t used = serve_all(connection, arrived, now, &answered);
    send_or_wait(connection);
    note_latency(connection->all, now.steady, answered);
    if (connection->state != SERVING) {
        return;
    }
    if (connection->session.is_broken) {
        end_connection(connection, now.steady);
        return;
    }
    struct hr_span rest = {arrived.at + used, arrived.bytes - used};
    if (!keep(connection, &rest, arrived.at == connection->kept)) {
        refuse_partial(connection, rest, now.steady);
        return;
    }
    note_partial(connection, now.steady);
    settle_reading(connection);
}

/* True: what has arrived is a small check, and waits. */
static bool put_small(struct hr_connection *connection, struct hr_span arrived)
{
    struct hr_connections *all = connection->all;
    struct hr_session_event *event = &all->event;
    if (arrived.bytes > SMALL_READ_BYTES || connection->kept_bytes > 0 || connection->is_choked) {
        return false;
    }
    hr_session_next(&connection->session, arrived, event);
    all->has_event =
        event->kind != HR_SESSION_REQUEST || event->method != HR_METHOD_CHECK || event->consumed < arrived.bytes;
    if (all->has_event) {
        return false;
    }
    if (all->small_count == 0) {
        all->small_since = hr_clock_steady_now(all->config.clock);
    }
    all->small[all->small_count++] = call_of(connection, event);
    connection->has_small = true;
    return true;
}

/* Carries out the small checks that wait. Each is answered by a write of its own. */
static void serve_small(struct hr_connections *all, struct hr_now now)
{
    uint32_t count = all->small_count, answered = 0;
    if (count == 0) {
        return;
    }
    if (count > 1 && all->config.prepare != NULL) {
        all->config.prepare(all->config.user, all->small, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct hr_connection *connection = find(all, all->small[i].connection);
        if (connection != NULL) { /* else it was closed since */
            connection->has_small = false;
            serve_request(connection, &all->small[i], now, &answered);
        }
    }
    all->small_count = 0;
    flush(all);
    note_latency(all, all->small_since, answered);
}

/* Where the next bytes go: behind what was left over. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct hr_connection *connection = handle->data;
    char *shared = connection->all->read_buffer + (size_t)connection->all->small_count * SMALL_READ_BYTES;
    size_t kept = connection->kept_bytes;
    (void)suggested;
    if (kept <= LEFT_OVER_SMALL) {
        if (kept > 0) {
            memcpy(shared, connection->kept, kept);
        }
        *ret_buffer = (uv_buf_t){.base = shared + kept, .len = READ_BYTES};
        return;
    }
    *ret_buffer = (uv_buf_t){.base = connection->kept + kept, .len = connection->kept_room - kept};
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct hr_connection *connection = stream->data;
    struct hr_connections *all = connection->all;
    if (count == 0) {
        return; /* a false alarm */
    }
    bool may_wait = !connection->has_small;
    if (!may_wait) { /* its answer comes first */
        serve_small(all, hr_clock_now(all->config.clock));
    }
    if (count == UV_EOF) {
        note_peers_end(connection, hr_clock_steady_now(all->config.clock));
        return;
    }
    if (count < 0) {
        close_connection(connection);
        return;
    }
    all->stats.bytes_in += (uint64_t)count;
    if (connection->state != SERVING) {
        return; /* nobody listens any more */
    }
    size_t kept = connection->kept_bytes;
    struct hr_span arrived = {buffer->base - kept, kept + (size_t)count};
    if (!may_wait || !put_small(connection, arrived)) {
        serve_arrived(connection, arrived, hr_clock_now(all->config.clock));
    } else if (all->small_count == HR_TOGETHER_MAX) {
        serve_small(all, hr_clock_now(all->config.clock));
    }
}

static bool may_go_on(const struct hr_connection *connection)
{
    const struct hr_connections *all = connection->all;
    return !all->is_stopped && (!all->is_draining || connection->is_node);
}

static bool wants_to_read(const struct hr_connection *connection)
{
    if (connection->has_ended) {
        return false;
    }
    bool may_serve = may_go_on(connection) && !connection->is_choked && !connection->is_paused;
    return connection->state == ENDING || (connection->state == SERVING && may_serve);
}

static void settle_reading(struct hr_connection *connection)
{
    bool wants = wants_to_read(connection);
    if (wants == connection->is_reading) {
        return;
    }
    connection->is_reading = wants;
    if (!wants) {
        (void)uv_read_stop(stream_of(connection)); /* it never fails */
    } else if (uv_read_start(stream_of(connection), on_alloc, on_read) != 0) {
        close_connection(connection);
    }
}

/* Goes on where an earlier bound has been lifted. */
static void resume(struct hr_connection *connection, struct hr_now now)
{
    connection->is_choked = unsent_bytes(connection) >= HR_UNSENT_BYTES_LOW && connection->is_choked;
    connection->is_paused = false;
    if (connection->has_ended && connection->session.in_flight == 0) {
        end_connection(connection, now.steady);
    } else if (connection->kept_bytes > 0 && may_go_on(connection)) {
        serve_arrived(connection, (struct hr_span){connection->kept, connection->kept_bytes}, now);
    } else {
        settle_reading(connection);
    }
}

/* --- connections come --- */

static void on_refused(uv_handle_t *handle)
{
    struct hr_connection *connection = handle->data;
    connection->all->handles--;
    free(connection);
}

static void enter(struct hr_connection *connection)
{
    struct hr_connections *all = connection->all;
    uint32_t slot = all->free_slots[--all->free_count];
    all->slots[slot] = connection;
    connection->id = ++all->serial << HR_CONNECTIONS_BITS | slot;
    hr_session_init(&connection->session, &all->config.session);
    all->stats.open++;
    all->stats.total++;
    (void)uv_tcp_nodelay(&connection->tcp, 1); /* without either it is only slower to answer, or to notice the dead */
    (void)uv_tcp_keepalive(&connection->tcp, 1, KEEPALIVE_S);
    settle_reading(connection);
}

void hr_connections_accept(struct hr_connections *connections, uv_stream_t *listener, int status)
{
    struct hr_connection *connection = status == 0 ? calloc(1, sizeof(*connection)) : NULL;
    if (connection == NULL || uv_tcp_init(connections->config.loop, &connection->tcp) != 0) {
        connections->stats.accept_failures++;
        free(connection);
        return;
    }
    link_init(&connection->link);
    link_init(&connection->partial);
    connection->all = connections;
    connection->tcp.data = connection;
    connections->handles++;
    bool is_accepted = uv_accept(listener, stream_of(connection)) == 0;
    if (is_accepted && connections->free_count > 0 && !connections->is_stopped) {
        enter(connection);
        return;
    }
    connections->stats.accept_failures += !is_accepted;
    connections->stats.refused += is_accepted;
    connection->state = CLOSED;
    uv_close((uv_handle_t *)&connection->tcp, on_refused);
}

/* --- turns, and the end --- */

bool hr_connections_resume(struct hr_connections *connections, struct hr_now now)
{
    bool any = connections->small_count > 0 || !link_is_alone(&connections->due);
    serve_small(connections, now);
    while (
        !link_is_alone(&connections->due)) { /* it ends: one that is resumed is not due again before it has written */
        struct hr_connection *connection = of_link(connections->due.next);
        link_remove(&connection->link);
        resume(connection, now);
    }
    return any;
}

hr_ns hr_connections_deadline(const struct hr_connections *connections)
{
    hr_ns since = connections->outbox.held_since;
    return since == 0 ? INT64_MAX : since + HR_ANSWERS_HELD_NS_MAX;
}

void hr_connections_turn(struct hr_connections *connections, struct hr_now now)
{
    if (connections->config.peer != NULL && connections->outbox.count > 0) {
        flush_in_region(connections, now.steady);
    } else {
        flush(connections);
    }
    while (!link_is_alone(&connections->ending) && of_link(connections->ending.next)->ends_at <= now.steady) {
        close_connection(of_link(connections->ending.next));
    }
    while (!link_is_alone(&connections->partial) &&
           of_partial(connections->partial.next)->partial_ends_at <= now.steady) {
        connections->stats.closed_slow++;
        close_connection(of_partial(connections->partial.next));
    }
}

static void for_each(struct hr_connections *all, hr_ns now, void (*act)(struct hr_connection *connection, hr_ns now))
{
    for (uint32_t i = 0; i < all->config.connections_max; i++) {
        if (all->slots[i] != NULL) {
            act(all->slots[i], now);
        }
    }
}

static void stop_one(struct hr_connection *connection, hr_ns now)
{
    (void)now;
    settle_reading(connection);
}

static void end_one(struct hr_connection *connection, hr_ns now)
{
    if (connection->state == SERVING) {
        end_connection(connection, now);
    } else if (connection->is_shut) {
        close_connection(connection);
    }
}

static void close_one(struct hr_connection *connection, hr_ns now)
{
    (void)now;
    close_connection(connection);
}

void hr_connections_stop_requests(struct hr_connections *connections)
{
    connections->is_draining = true;
    for_each(connections, 0, stop_one);
}

void hr_connections_stop_reading(struct hr_connections *connections)
{
    connections->is_stopped = true;
    for_each(connections, 0, stop_one);
}

void hr_connections_end_all(struct hr_connections *connections, struct hr_now now)
{
    flush(connections);
    for_each(connections, now.steady, end_one);
}

void hr_connections_close_all(struct hr_connections *connections)
{
    for_each(connections, 0, close_one);
}

bool hr_connections_are_gone(const struct hr_connections *connections)
{
    return connections->handles == 0;
}

const struct hr_connections_stats *hr_connections_stats(const struct hr_connections *connections)
{
    return &connections->stats;
}

static bool allocate(struct hr_connections *connections)
{
    uint32_t count = connections->config.connections_max;
    void *outbox = mmap(NULL, OUTBOX_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    connections->outbox.at = outbox == MAP_FAILED ? NULL : outbox;
    connections->slots = calloc(count, sizeof(*connections->slots));
    connections->free_slots = calloc(count, sizeof(*connections->free_slots));
    return outbox != MAP_FAILED && connections->slots != NULL && connections->free_slots != NULL;
}

struct hr_connections *hr_connections_new(const struct hr_connections_config *config)
{
    struct hr_connections *connections = calloc(1, sizeof(*connections));
    if (connections == NULL) {
        return NULL;
    }
    connections->config = *config;
    if (config->partial_bytes_max == 0) {
        connections->config.partial_bytes_max = HR_PARTIAL_BYTES_ALL_MAX;
    }
    link_init(&connections->due);
    link_init(&connections->ending);
    link_init(&connections->partial);
    if (!allocate(connections)) {
        hr_connections_free(connections);
        return NULL;
    }
    while (connections->free_count < config->connections_max) { /* slot 0 is the first to be taken */
        connections->free_slots[connections->free_count] = config->connections_max - 1 - connections->free_count;
        connections->free_count++;
    }
    return connections;
}

void hr_connections_free(struct hr_connections *connections)
{
    if (connections->outbox.at != NULL) {
        (void)munmap(connections->outbox.at, OUTBOX_BYTES);
    }
    free(connections->slots);
    free(connections->free_slots);
    free(connections);
}
