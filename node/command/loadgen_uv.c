#include "node/command/loadgen_uv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "rpc/session.h"
#include "rpc/told.h"

#define INPUT_BYTES ((size_t)64 * 1024) /* of each connection; no answer to a check of one attribute is larger */
#define WATCH_MS 50
#define DRAWS_MAX 64 /* of a key, until one suits the node */
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

struct connection {
    uv_tcp_t tcp;
    uv_connect_t connecting;
    uv_write_t writing;
    struct load *load;
    bool is_writing; /* `output` is in use */
    struct hr_session session;
    size_t input_bytes;
    uint32_t free_count;
    uint32_t node;        /* index of the one that it leads to */
    uint64_t *keys;       /* by slot; what was asked for */
    uint32_t *free_slots; /* stack of the slots, which are msgids, that no request is in flight for */
    uint64_t *since_ns;   /* by slot: when its request was sent, or due; 0: none is in flight */
    char *output;         /* room for a whole window */
    char input[INPUT_BYTES];
};

struct load {
    const struct hr_load_plan *plan;
    struct hr_load_result *result;
    struct hr_problem *problem;
    uv_loop_t loop;
    uv_timer_t watch;
    uv_poll_t pacer;
    int pacer_fd; /* a timerfd: libuv's own timers know milliseconds only */
    struct hr_load_schedule schedule;
    struct connection **connections;
    uint32_t connected, turn;
    uint64_t issued, answered, end_ns;
    uint64_t last_ns;                        /* of the last answer */
    uint64_t progress_ns, progress_answered; /* when the watch last saw a new one, and how many there were */
    bool is_closed;                          /* open loop: the time is over, and what was due has had its last chance */
    bool is_over, has_failed;
};

/* Ending */

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void end(struct load *load)
{
    if (!load->is_over) {
        load->is_over = true;
        uv_walk(&load->loop, close_handle, NULL);
    }
}

static void fail(struct load *load, uint32_t node, const char *what, const char *why)
{
    if (load->is_over) {
        return;
    }
    hr_problem_what(load->problem, "%s%s%s", what, why[0] != '\0' ? ": " : "", why);
    hr_problem_where(load->problem, "%s", load->plan->nodes->all[node].where);
    load->has_failed = true;
    end(load);
}

/* Is nothing more to be sent? In an open loop what came due before the end may go a little later, if there is room. */
static bool is_drained(const struct load *load, uint64_t now_ns)
{
    bool is_late = now_ns >= load->end_ns && (load->plan->per_second == 0 || load->is_closed);
    return is_late || load->issued == load->plan->requests;
}

static void end_if_done(struct load *load, uint64_t now_ns)
{
    if (load->answered == load->issued && is_drained(load, now_ns)) {
        end(load);
    }
}

/* Sending */

static void pump(struct connection *connection, uint64_t count_max);

static void on_written(uv_write_t *writing, int status)
{
    struct connection *connection = writing->data;
    connection->is_writing = false;
    if (status != 0) {
        fail(connection->load, connection->node, "the node closed the connection", uv_strerror(status));
        return;
    }
    pump(connection, UINT64_MAX);
}

static void send_output(struct connection *connection, size_t bytes)
{
    uv_stream_t *stream = (uv_stream_t *)&connection->tcp;
    uv_buf_t buffer = uv_buf_init(connection->output, (unsigned)bytes);
    int sent = uv_try_write(stream, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        fail(connection->load, connection->node, "the node closed the connection", uv_strerror(sent));
        return;
    }
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == bytes) {
        return;
    }
    buffer = uv_buf_init(connection->output + done, (unsigned)(bytes - done));
    connection->is_writing = true;
    connection->writing.data = connection;
    int status = uv_write(&connection->writing, stream, &buffer, 1, on_written);
    if (status != 0) {
        fail(connection->load, connection->node, "cannot write", uv_strerror(status));
    }
}

/* Takes the next request, if one may be sent now. *ret_since_ns: from when its latency counts. */
static bool take_request(struct load *load, uint64_t now_ns, uint64_t *ret_since_ns)
{
    if (is_drained(load, now_ns)) {
        return false;
    }
    *ret_since_ns = now_ns;
    if (load->plan->per_second > 0) {
        *ret_since_ns = hr_load_due_ns(&load->schedule, load->issued);
        if (*ret_since_ns > now_ns || *ret_since_ns >= load->end_ns) {
            return false;
        }
    }
    load->issued++;
    return true;
}

/* A key of the connection's node, or one whose owner is not known yet. Where none is found soon, any: a node may own
 * none of a few keys. */
static uint64_t next_key(const struct connection *connection)
{
    const struct hr_load_plan *plan = connection->load->plan;
    uint64_t key = hr_load_keys_next(plan->keys);
    for (uint32_t i = 0; plan->owners != NULL && i < DRAWS_MAX; i++) {
        if (hr_load_owners_suits(plan->owners, key, connection->node)) {
            break;
        }
        key = hr_load_keys_next(plan->keys);
    }
    return key;
}

/* Sends as many requests as may be and as the window has room for, in one write. */
static void pump(struct connection *connection, uint64_t count_max)
{
    struct load *load = connection->load;
    const struct hr_load_request *request = load->plan->request;
    uint64_t now_ns = uv_hrtime(), since_ns = 0;
    size_t bytes = 0;
    if (connection->is_writing || load->is_over) {
        return;
    }
    while (connection->free_count > 0 && count_max > 0 && take_request(load, now_ns, &since_ns)) {
        uint32_t slot = connection->free_slots[--connection->free_count];
        connection->since_ns[slot] = since_ns;
        connection->keys[slot] = next_key(connection);
        hr_load_request_write(request, slot, connection->keys[slot], connection->output + bytes);
        bytes += request->bytes;
        count_max--;
    }
    if (bytes > 0) {
        send_output(connection, bytes);
    }
}

/* Open loop */

/* Wakes up when the next request is due; where one is overdue, an answer will make room for it, or this looks again. */
static void arm_pacer(struct load *load)
{
    uint64_t now_ns = uv_hrtime(), due_ns = hr_load_due_ns(&load->schedule, load->issued);
    if (due_ns <= now_ns) {
        due_ns = now_ns + NS_PER_MS;
    }
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(due_ns / NS_PER_S), .tv_nsec = (long)(due_ns % NS_PER_S)}};
    if (timerfd_settime(load->pacer_fd, TFD_TIMER_ABSTIME, &when, NULL) != 0) {
        fail(load, 0, "cannot set a timer", strerror(errno));
    }
}

/* What is due is spread over the connections, in turn. */
static void pump_due(struct load *load)
{
    const uint32_t connections = load->plan->connections;
    uint64_t behind = hr_load_due_count(&load->schedule, uv_hrtime()) - load->issued;
    uint64_t share = behind / connections + 1;
    for (uint32_t i = 0; i < connections && !load->is_over; i++) {
        pump(load->connections[load->turn], share);
        load->turn = (load->turn + 1) % connections;
    }
}

static void on_pacer(uv_poll_t *pacer, int status, int events)
{
    struct load *load = pacer->data;
    uint64_t expired;
    (void)status;
    (void)events;
    if (read(load->pacer_fd, &expired, sizeof(expired)) < 0) {
        return; /* nothing had expired */
    }
    pump_due(load);
    if (!load->is_over && !is_drained(load, uv_hrtime())) {
        arm_pacer(load);
    }
}

static bool start_pacer(struct load *load)
{
    load->pacer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (load->pacer_fd < 0 || uv_poll_init(&load->loop, &load->pacer, load->pacer_fd) != 0) {
        fail(load, 0, "cannot make a timer", strerror(errno));
        return false;
    }
    load->pacer.data = load;
    (void)uv_poll_start(&load->pacer, UV_READABLE, on_pacer); /* it fails for a closing handle only */
    return true;
}

/* Receiving */

static void count_answer(struct load *load, const struct hr_session_event *answer)
{
    bool allowed = false;
    struct hr_unpacker error = {answer->error};
    if (hr_unpack_nil(&error) != HR_OK || hr_unpack_flag(answer->result, HR_SPAN("allowed"), &allowed) != HR_OK) {
        load->result->errors++;
    } else if (allowed) {
        load->result->allowed++;
    } else {
        load->result->denied++;
    }
}

/* Who decided it. Of one node alone nothing is to be learned. */
static void note_owner(const struct connection *connection, uint32_t slot, struct hr_span decision)
{
    const struct hr_load_plan *plan = connection->load->plan;
    struct hr_span name;
    if (plan->nodes->count < 2 || hr_unpack_word(decision, HR_SPAN("node"), &name) != HR_OK) {
        return;
    }
    uint32_t node = hr_load_nodes_find(plan->nodes, name);
    connection->load->result->elsewhere += node != connection->node;
    if (plan->owners != NULL && node != HR_LOAD_NO_NODE) {
        hr_load_owners_learn(plan->owners, connection->keys[slot], node);
    }
}

static void take_answer(struct connection *connection, const struct hr_session_event *answer, uint64_t now_ns)
{
    struct load *load = connection->load;
    if (answer->msgid >= load->plan->pipeline || connection->since_ns[answer->msgid] == 0) {
        fail(load, connection->node, "the node answered what was not asked", "");
        return;
    }
    uint32_t slot = (uint32_t)answer->msgid;
    hr_histogram_add(&load->result->latency, now_ns - connection->since_ns[slot]);
    count_answer(load, answer);
    note_owner(connection, slot, answer->result);
    connection->since_ns[slot] = 0;
    connection->free_slots[connection->free_count++] = slot;
    load->answered++;
}

static void take_answers(struct connection *connection, uint64_t now_ns)
{
    size_t begin = 0;
    struct hr_session_event event;
    while (!connection->load->is_over) {
        const struct hr_span arrived = {connection->input + begin, connection->input_bytes - begin};
        hr_session_next(&connection->session, arrived, &event);
        begin += event.consumed;
        if (event.kind == HR_SESSION_RESPONSE) {
            take_answer(connection, &event, now_ns);
        } else if (event.kind == HR_SESSION_MORE) {
            break;
        } else if (event.kind != HR_SESSION_NOTIFICATION) {
            fail(connection->load, connection->node, "what answers does not speak the protocol of a node", "");
        }
    }
    connection->input_bytes -= begin;
    memmove(connection->input, connection->input + begin, connection->input_bytes);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct connection *connection = handle->data;
    (void)suggested;
    *ret_buffer =
        uv_buf_init(connection->input + connection->input_bytes, (unsigned)(INPUT_BYTES - connection->input_bytes));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;
    struct load *load = connection->load;
    (void)buffer;
    if (count < 0) {
        fail(load, connection->node, "the node closed the connection", count == UV_EOF ? "" : uv_strerror((int)count));
        return;
    }
    connection->input_bytes += (size_t)count;
    uint64_t now_ns = load->last_ns = uv_hrtime();
    take_answers(connection, now_ns);
    pump(connection, UINT64_MAX);
    end_if_done(load, now_ns);
}

/* Starting */

/* All connections are there: only now the clock starts. */
static void start(struct load *load)
{
    uint64_t now_ns = uv_hrtime();
    load->schedule = (struct hr_load_schedule){now_ns, load->plan->per_second};
    load->end_ns = load->plan->duration_ns < UINT64_MAX - now_ns ? now_ns + load->plan->duration_ns : UINT64_MAX;
    load->progress_ns = now_ns;
    if (load->plan->per_second > 0) {
        if (start_pacer(load)) {
            pump_due(load);
            arm_pacer(load);
        }
        return;
    }
    for (uint32_t i = 0; i < load->plan->connections && !load->is_over; i++) {
        pump(load->connections[i], UINT64_MAX);
    }
}

static void on_connected(uv_connect_t *connecting, int status)
{
    struct connection *connection = connecting->data;
    struct load *load = connection->load;
    if (status == 0) {
        status = uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
    }
    if (status != 0) {
        fail(load, connection->node, "the node cannot be reached", uv_strerror(status));
        return;
    }
    (void)uv_tcp_nodelay(&connection->tcp, 1); /* without it, it is only slower */
    load->connected++;
    if (load->connected == load->plan->connections && !load->is_over) {
        start(load);
    }
}

static void on_watch(uv_timer_t *watch)
{
    struct load *load = watch->data;
    uint64_t now_ns = uv_hrtime();
    if (now_ns >= load->end_ns && load->plan->per_second > 0 && !load->is_closed) {
        pump_due(load);
        load->is_closed = true;
    }
    if (load->connected == load->plan->connections) {
        end_if_done(load, now_ns);
    }
    bool is_waiting = load->answered < load->issued || load->connected < load->plan->connections;
    if (!is_waiting || load->answered != load->progress_answered) {
        load->progress_answered = load->answered;
        load->progress_ns = now_ns;
    } else if (now_ns - load->progress_ns > load->plan->timeout_ns) {
        fail(load, 0, "the node does not answer any more", "");
    }
}

static struct connection *new_connection(struct load *load, uint32_t node)
{
    const struct hr_session_limits limits = {.frame_bytes_max = INPUT_BYTES, .in_flight_max = 1};
    const uint32_t pipeline = load->plan->pipeline;
    struct connection *connection = malloc(sizeof(*connection)); /* not cleared: the input is large */
    if (connection == NULL) {
        return NULL;
    }
    connection->load = load;
    connection->node = node;
    connection->is_writing = false;
    connection->input_bytes = 0;
    connection->free_count = pipeline;
    connection->free_slots = calloc(pipeline, sizeof(uint32_t));
    connection->since_ns = calloc(pipeline, sizeof(uint64_t));
    connection->keys = calloc(pipeline, sizeof(uint64_t));
    connection->output = malloc((size_t)pipeline * load->plan->request->bytes);
    hr_session_init(&connection->session, &limits);
    for (uint32_t i = 0; connection->free_slots != NULL && i < pipeline; i++) {
        connection->free_slots[i] = pipeline - 1 - i;
    }
    return connection;
}

static void free_connection(struct connection *connection)
{
    if (connection != NULL) {
        free(connection->free_slots);
        free(connection->since_ns);
        free(connection->keys);
        free(connection->output);
        free(connection);
    }
}

static bool open_connection(struct load *load, uint32_t index)
{
    struct connection *connection = new_connection(load, index % load->plan->nodes->count);
    load->connections[index] = connection;
    if (connection == NULL || connection->free_slots == NULL || connection->since_ns == NULL ||
        connection->keys == NULL || connection->output == NULL) {
        fail(load, index % load->plan->nodes->count, "no memory for the connections", "");
        return false;
    }
    int status = uv_tcp_init(&load->loop, &connection->tcp);
    if (status == 0) {
        connection->tcp.data = connection->connecting.data = connection;
        status = uv_tcp_connect(&connection->connecting, &connection->tcp,
                                (const struct sockaddr *)&load->plan->nodes->all[connection->node].at, on_connected);
    }
    if (status != 0) {
        fail(load, index % load->plan->nodes->count, "the node cannot be reached", uv_strerror(status));
    }
    return status == 0;
}

static void run(struct load *load)
{
    (void)uv_timer_init(&load->loop, &load->watch); /* always succeeds */
    load->watch.data = load;
    load->progress_ns = uv_hrtime();
    load->end_ns = UINT64_MAX;
    (void)uv_timer_start(&load->watch, on_watch, WATCH_MS, WATCH_MS);
    for (uint32_t i = 0; i < load->plan->connections && open_connection(load, i); i++) {
    }
    (void)uv_run(&load->loop, UV_RUN_DEFAULT);
}

/* From the start to the last answer; or to the end of the time, which was waited for. */
static void conclude(struct load *load)
{
    const struct hr_load_schedule *schedule = &load->schedule;
    bool is_timed = load->end_ns != UINT64_MAX;
    uint64_t ended_ns = is_timed && load->end_ns > load->last_ns ? load->end_ns : load->last_ns;
    load->result->elapsed_ns = ended_ns > schedule->start_ns ? ended_ns - schedule->start_ns : 0;
    if (is_timed && schedule->per_second > 0) {
        load->result->unsent = hr_load_due_count(schedule, load->end_ns - 1) - load->issued;
    }
}

bool hr_load_run(const struct hr_load_plan *plan, struct hr_load_result *ret_result, struct hr_problem *ret_problem)
{
    struct load load = {.plan = plan, .result = ret_result, .problem = ret_problem, .pacer_fd = -1};
    *ret_result = (struct hr_load_result){0};
    load.connections = calloc(plan->connections, sizeof(*load.connections));
    int status = load.connections != NULL ? uv_loop_init(&load.loop) : UV_ENOMEM;
    if (status != 0) {
        hr_problem_what(ret_problem, "cannot start: %s", uv_strerror(status));
        hr_problem_where(ret_problem, "%s", plan->nodes->all[0].where);
        free(load.connections);
        return false;
    }
    run(&load);
    if (!load.has_failed) {
        conclude(&load);
    }
    (void)uv_loop_close(&load.loop); /* all handles were closed by end(), which is how the loop ends */
    for (uint32_t i = 0; i < plan->connections; i++) {
        free_connection(load.connections[i]);
    }
    free(load.connections);
    if (load.pacer_fd >= 0) {
        (void)close(load.pacer_fd); /* nothing was written to it */
    }
    return !load.has_failed;
}
