#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "chaos/run_load.h"
#include "node/command/loadgen.h"
#include "rpc/session.h"
#include "rpc/told.h"

#define INPUT_BYTES ((size_t)64 * 1024)
#define TICK_MS 5
#define RETRY_NS (200 * HR_NS_PER_MS)
#define IN_FLIGHT_MAX 8192 /* at one node: what is due beyond that gets no answer */
#define BEGIN_NS_MAX UINT64_C(1000000000)
#define LATE_SLOTS 100 /* for answers that come after the end */

/* One node, and the connection to it. */
struct target {
    struct hr_run_load *load;
    uint32_t node;
    uint64_t sent; /* or due without a connection */
    uint32_t in_flight;
    bool has_handle, is_connected, is_closing, has_begun;
    uint64_t retry_ns; /* not before, a new connection */
    uv_tcp_t tcp;
    uv_connect_t connecting;
    struct hr_session session;
    size_t input_bytes;
    char input[INPUT_BYTES];
    struct hr_run_slot *slots;
};

struct hr_run_load {
    struct hr_run_load_plan plan;
    struct hr_load_request request;
    struct hr_load_schedule schedule; /* of one node */
    uint64_t start_ns, end_ns;
    uint32_t slot_count;
    _Atomic uint32_t owners[HR_LOCAL_REGIONS_MAX];
    uv_loop_t loop;
    uv_timer_t tick;
    uv_async_t stop;
    uv_thread_t thread;
    struct hr_histogram latency[HR_RUN_TIMES];
    struct target *targets; /* a node each */
};

static struct hr_run_slot *slot_at(struct target *target, uint64_t now_ns)
{
    const struct hr_run_load *load = target->load;
    uint64_t slot = (now_ns - load->start_ns) / (uint64_t)HR_RUN_SLOT_NS;
    return &target->slots[slot < load->slot_count ? slot : load->slot_count - 1];
}

/* --- the connection --- */

static void on_closed(uv_handle_t *handle)
{
    struct target *target = handle->data;
    target->has_handle = target->is_closing = false;
    target->retry_ns = uv_hrtime() + (uint64_t)RETRY_NS;
}

/* What is in flight gets no answer any more. */
static void drop(struct target *target)
{
    target->is_connected = false;
    target->in_flight = 0;
    if (target->has_handle && !target->is_closing) {
        target->is_closing = true;
        uv_close((uv_handle_t *)&target->tcp, on_closed);
    }
}

static void note_owner(const struct target *target, struct hr_span result)
{
    struct hr_run_load *load = target->load;
    const struct hr_local_plan *cluster = load->plan.cluster;
    struct hr_span name;
    if (hr_unpack_word(result, HR_SPAN("node"), &name) != HR_OK) {
        return;
    }
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        if (hr_span_equal(hr_span_of(cluster->nodes[i].name), name)) {
            atomic_store(&load->owners[cluster->nodes[i].region], i);
        }
    }
}

static enum hr_run_time time_at(const struct hr_run_load_plan *plan, hr_ns elapsed)
{
    if (elapsed < plan->faults_from) {
        return HR_RUN_CALM;
    }
    return elapsed < plan->faults_until ? HR_RUN_FAULTS : HR_RUN_AFTER;
}

/* msgid: which of all requests to that node; one that makes no sense is the node's fault. */
static void count_latency(struct hr_run_load *load, uint64_t msgid, uint64_t now_ns)
{
    uint64_t due_ns = hr_load_due_ns(&load->schedule, msgid);
    if (due_ns <= now_ns) {
        hr_histogram_add(&load->latency[time_at(&load->plan, (hr_ns)(now_ns - load->start_ns))], now_ns - due_ns);
    }
}

static void count_answer(struct target *target, const struct hr_session_event *answer, struct hr_run_slot *slot)
{
    bool allowed = false, degraded = false;
    struct hr_unpacker error = {answer->error};
    target->in_flight -= target->in_flight > 0;
    if (hr_unpack_nil(&error) != HR_OK || hr_unpack_flag(answer->result, HR_SPAN("allowed"), &allowed) != HR_OK) {
        slot->errors++;
        return;
    }
    degraded = hr_unpack_flag(answer->result, HR_SPAN("degraded"), &degraded) == HR_OK && degraded;
    slot->admitted += allowed;
    slot->denied += !allowed;
    slot->degraded += allowed && degraded;
    if (!degraded) {
        note_owner(target, answer->result);
    }
}

/* False: what answers does not speak the protocol. */
static bool take_answers(struct target *target, uint64_t now_ns)
{
    struct hr_run_slot *slot = slot_at(target, now_ns);
    size_t begin = 0;
    struct hr_session_event event = {.kind = HR_SESSION_NOTIFICATION};
    while (event.kind != HR_SESSION_MORE) {
        const struct hr_span arrived = {target->input + begin, target->input_bytes - begin};
        hr_session_next(&target->session, arrived, &event);
        begin += event.consumed;
        if (event.kind == HR_SESSION_RESPONSE) {
            count_answer(target, &event, slot);
            count_latency(target->load, event.msgid, now_ns);
        } else if (event.kind != HR_SESSION_MORE && event.kind != HR_SESSION_NOTIFICATION) {
            return false;
        }
    }
    target->input_bytes -= begin;
    memmove(target->input, target->input + begin, target->input_bytes);
    return true;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    struct target *target = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init(target->input + target->input_bytes, (unsigned)(INPUT_BYTES - target->input_bytes));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct target *target = stream->data;
    (void)buffer;
    if (count < 0) {
        drop(target);
        return;
    }
    target->input_bytes += (size_t)count;
    if (!take_answers(target, uv_hrtime())) {
        drop(target);
    }
}

static void on_connected(uv_connect_t *connecting, int status)
{
    struct target *target = connecting->data;
    if (target->is_closing) {
        return;
    }
    if (status != 0 || uv_read_start((uv_stream_t *)&target->tcp, on_alloc, on_read) != 0) {
        drop(target);
        return;
    }
    (void)uv_tcp_nodelay(&target->tcp, 1); /* without it, it is only slower */
    target->is_connected = target->has_begun = true;
}

static void connect_to(struct target *target)
{
    static const struct hr_session_limits limits = {.frame_bytes_max = INPUT_BYTES, .in_flight_max = 1};
    const struct hr_address *rpc = &target->load->plan.cluster->nodes[target->node].rpc;
    struct sockaddr_in at;
    if (uv_ip4_addr(rpc->host, rpc->port, &at) != 0 || uv_tcp_init(&target->load->loop, &target->tcp) != 0) {
        return;
    }
    target->has_handle = true;
    target->tcp.data = target->connecting.data = target;
    target->input_bytes = 0;
    hr_session_init(&target->session, &limits);
    if (uv_tcp_connect(&target->connecting, &target->tcp, (const struct sockaddr *)&at, on_connected) != 0) {
        drop(target);
    }
}

/* --- sending --- */

static void on_written(uv_write_t *write, int status)
{
    struct target *target = write->data;
    if (status != 0) {
        drop(target);
    }
    free(write);
}

/* The bytes follow the request, and go with it. */
static void send_requests(struct target *target, uint64_t count)
{
    const struct hr_load_request *request = &target->load->request;
    size_t bytes = request->bytes * (size_t)count;
    uv_write_t *write = malloc(sizeof(*write) + bytes);
    if (write == NULL) {
        return;
    }
    char *at = (char *)(write + 1);
    for (uint64_t i = 0; i < count; i++) {
        hr_load_request_write(request, (uint32_t)(target->sent + i), 0, at + i * request->bytes);
    }
    const uv_buf_t buffer = uv_buf_init(at, (unsigned)bytes);
    write->data = target;
    if (uv_write(write, (uv_stream_t *)&target->tcp, &buffer, 1, on_written) != 0) {
        free(write);
        drop(target);
        return;
    }
    target->in_flight += (uint32_t)count;
}

/* What is due before the first connection is there waits for it a while. */
static void send_due(struct target *target, uint64_t now_ns)
{
    if (!target->has_begun && now_ns - target->load->start_ns < BEGIN_NS_MAX) {
        return;
    }
    uint64_t last_ns = now_ns < target->load->end_ns ? now_ns : target->load->end_ns - 1;
    uint64_t due = hr_load_due_count(&target->load->schedule, last_ns);
    uint64_t count = due > target->sent ? due - target->sent : 0;
    slot_at(target, last_ns)->offered += (uint32_t)count;
    if (target->is_connected && count > 0) {
        uint64_t room = IN_FLIGHT_MAX - target->in_flight;
        send_requests(target, count < room ? count : room);
    }
    target->sent += count;
}

static void on_tick(uv_timer_t *tick)
{
    struct hr_run_load *load = tick->data;
    uint64_t now_ns = uv_hrtime();
    for (uint32_t i = 0; i < load->plan.cluster->node_count; i++) {
        struct target *target = &load->targets[i];
        if (!target->has_handle && now_ns >= target->retry_ns) {
            connect_to(target);
        }
        send_due(target, now_ns);
    }
}

/* --- start and end --- */

static void on_stop(uv_async_t *stop)
{
    struct hr_run_load *load = stop->data;
    uv_close((uv_handle_t *)&load->tick, NULL);
    uv_close((uv_handle_t *)&load->stop, NULL);
    for (uint32_t i = 0; i < load->plan.cluster->node_count; i++) {
        drop(&load->targets[i]);
    }
}

static void run(void *user)
{
    struct hr_run_load *load = user;
    (void)uv_run(&load->loop, UV_RUN_DEFAULT); /* ends with the last handle */
}

static bool make_targets(struct hr_run_load *load)
{
    uint32_t count = load->plan.cluster->node_count;
    load->targets = calloc(count, sizeof(*load->targets));
    for (uint32_t i = 0; load->targets != NULL && i < count; i++) {
        struct target *target = &load->targets[i];
        target->load = load;
        target->node = i;
        target->slots = calloc(load->slot_count, sizeof(*target->slots));
        if (target->slots == NULL) {
            return false;
        }
    }
    return load->targets != NULL;
}

/* The clock starts here. */
static int start_loop(struct hr_run_load *load)
{
    int status = uv_loop_init(&load->loop);
    if (status != 0) {
        return status;
    }
    load->tick.data = load->stop.data = load;
    (void)uv_timer_init(&load->loop, &load->tick); /* always succeeds, as the start below */
    status = uv_async_init(&load->loop, &load->stop, on_stop);
    load->start_ns = load->schedule.start_ns = uv_hrtime();
    load->end_ns = load->start_ns + (uint64_t)load->plan.lasts;
    (void)uv_timer_start(&load->tick, on_tick, 0, TICK_MS);
    return status != 0 ? status : uv_thread_create(&load->thread, run, load);
}

struct hr_run_load *hr_run_load_start(const struct hr_run_load_plan *plan, struct hr_problem *ret_problem)
{
    const struct hr_load_check check = {.attribute = HR_SPAN("tenant"), .cost = 1};
    struct hr_run_load *load = calloc(1, sizeof(*load));
    int status = UV_ENOMEM;
    if (load != NULL) {
        load->plan = *plan;
        load->schedule.per_second = plan->per_second / plan->cluster->nodes_each;
        load->schedule.per_second += load->schedule.per_second == 0;
        load->slot_count = (uint32_t)(plan->lasts / HR_RUN_SLOT_NS) + LATE_SLOTS;
        for (uint32_t i = 0; i < HR_LOCAL_REGIONS_MAX; i++) {
            atomic_init(&load->owners[i], plan->cluster->node_count);
        }
        bool is_made = hr_load_request_init(&load->request, &check) == HR_OK && make_targets(load);
        status = is_made ? start_loop(load) : UV_ENOMEM;
    }
    if (status != 0) {
        hr_problem_what(ret_problem, "cannot start the load: %s", uv_strerror(status));
        hr_problem_where(ret_problem, "%s", "");
        hr_run_load_free(load);
        return NULL;
    }
    return load;
}

hr_ns hr_run_load_elapsed(const struct hr_run_load *load)
{
    return (hr_ns)(uv_hrtime() - load->start_ns);
}

uint32_t hr_run_load_owner(struct hr_run_load *load, uint32_t region)
{
    return atomic_load(&load->owners[region]);
}

void hr_run_load_stop(struct hr_run_load *load)
{
    (void)uv_async_send(&load->stop); /* its only error is that it is closed already */
    (void)uv_thread_join(&load->thread);
    (void)uv_loop_close(&load->loop); /* all handles are closed: that is how the thread ends */
}

uint32_t hr_run_load_slot_count(const struct hr_run_load *load)
{
    return load->slot_count;
}

const struct hr_run_slot *hr_run_load_slots(const struct hr_run_load *load, uint32_t node)
{
    return load->targets[node].slots;
}

const struct hr_histogram *hr_run_load_latency(const struct hr_run_load *load, enum hr_run_time time)
{
    return &load->latency[time];
}

void hr_run_load_free(struct hr_run_load *load)
{
    if (load == NULL) {
        return;
    }
    for (uint32_t i = 0; load->targets != NULL && i < load->plan.cluster->node_count; i++) {
        free(load->targets[i].slots);
    }
    free(load->targets);
    free(load);
}
