#include "tests/lib/route_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bump.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/params.h"
#include "rpc/reply.h"

#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define TICK_NS (HR_NS_PER_MS / 2)
#define OUTBOX_BYTES (4U << 20)
#define PARTITIONS 4096U

struct sim_letter {
    hr_ns at;
    uint64_t order; /* ties go by it */
    uint32_t from, to, life;
    enum hr_letter_kind kind;
    size_t bytes;
    char *body;
};

struct sim_node {
    struct sim *sim;
    uint32_t index, life;
    bool is_up;
    struct hr_member members[SIM_NODES_MAX];
    struct hr_members table;
    void *memory, *limiter_memory;
    struct hr_limiter *limiter;
    struct hr_outbox outbox;
    struct hr_holds *holds;
    struct hr_router *router;
    uint64_t serial;
    struct hr_origin origin;
};

struct sim {
    struct hr_rng rng;
    struct hr_now now;
    uint32_t node_count;
    struct sim_node nodes[SIM_NODES_MAX];
    struct sim_net net;
    bool is_cut[SIM_NODES_MAX][SIM_NODES_MAX];
    uint8_t owner[PARTITIONS];
    bool is_moving[PARTITIONS], is_nobody[PARTITIONS];
    struct hr_limit limits[SIM_LIMITS_MAX];
    struct hr_limit_set set;
    void *set_memory;
    struct sim_letter *letters; /* a heap by time */
    size_t letter_count, letter_max;
    uint64_t order;
    struct sim_request *requests;
    uint32_t request_count;
    char answer[HR_FRAME_BYTES_MAX];
};

/* --- letters on their way: a binary heap --- */

static bool is_before(const struct sim_letter *a, const struct sim_letter *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct sim_letter *a, struct sim_letter *b)
{
    struct sim_letter c = *a;
    *a = *b;
    *b = c;
}

static void push(struct sim *sim, struct sim_letter letter)
{
    if (sim->letter_count == sim->letter_max) {
        sim->letter_max = sim->letter_max * 2 + 64;
        sim->letters = realloc(sim->letters, sim->letter_max * sizeof(*sim->letters));
        assert_non_null(sim->letters);
    }
    size_t i = sim->letter_count++;
    sim->letters[i] = letter;
    for (; i > 0 && is_before(&sim->letters[i], &sim->letters[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(&sim->letters[i], &sim->letters[(i - 1) / 2]);
    }
}

static struct sim_letter pop(struct sim *sim)
{
    struct sim_letter first = sim->letters[0];
    sim->letters[0] = sim->letters[--sim->letter_count];
    for (size_t i = 0, child; (child = 2 * i + 1) < sim->letter_count; i = child) {
        bool is_right = child + 1 < sim->letter_count && is_before(&sim->letters[child + 1], &sim->letters[child]);
        child += is_right;
        if (!is_before(&sim->letters[child], &sim->letters[i])) {
            break;
        }
        swap(&sim->letters[child], &sim->letters[i]);
    }
    return first;
}

static void post(struct sim *sim, const struct sim_node *from, const struct hr_letter *letter)
{
    uint32_t to = hr_members_find(&from->table, letter->to);
    assert_true(to < sim->node_count);
    if (hr_rng_chance(&sim->rng, sim->net.loss_percent, 100) || sim->is_cut[from->index][to]) {
        return;
    }
    uint32_t copies = hr_rng_chance(&sim->rng, sim->net.double_percent, 100) ? 2 : 1;
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t spread = (uint64_t)(sim->net.delay_max - sim->net.delay_min + 1);
        struct sim_letter copy = {
            .at = sim->now.steady + sim->net.delay_min + (hr_ns)hr_rng_below(&sim->rng, spread),
            .order = sim->order++,
            .from = from->index,
            .to = to,
            .life = sim->nodes[to].life,
            .kind = letter->kind,
            .bytes = letter->body.bytes,
            .body = malloc(letter->body.bytes + 1),
        };
        assert_non_null(copy.body);
        memcpy(copy.body, letter->body.at, letter->body.bytes);
        push(sim, copy);
    }
}

/* --- nodes --- */

static struct hr_place place_of(const void *teller, uint32_t partition, hr_ns now)
{
    const struct sim_node *node = teller;
    const struct sim *sim = node->sim;
    (void)now;
    if (sim->is_moving[partition]) {
        return (struct hr_place){HR_PLACE_MOVING, 0};
    }
    if (sim->is_nobody[partition]) {
        return (struct hr_place){HR_PLACE_NOBODY, 0};
    }
    uint32_t owner = sim->owner[partition];
    return owner == node->index ? (struct hr_place){HR_PLACE_HERE, 0}
                                : (struct hr_place){HR_PLACE_AT, node->members[owner].id};
}

/* All nodes have one clock, and each pulse took a while. */
static struct hr_heard heard_of(const void *teller, uint64_t member, hr_ns now)
{
    (void)teller;
    (void)member;
    return (struct hr_heard){now - 50 * HR_NS_PER_MS, now - 50 * HR_NS_PER_MS + HR_NS_PER_MS / 10};
}

static void lay_out(struct sim_node *node, struct hr_bump *bump)
{
    struct sim *sim = node->sim;
    uint64_t life = hr_plain_hash(&node->life, sizeof(node->life), node->index + 1);
    const struct hr_places places = {place_of, heard_of, node};
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, bump);
    const struct hr_holds_config holds = {
        .holds_max = 512,
        .leads_max = 256,
        .limiter = node->limiter,
        .members = &node->table,
        .places = places,
        .outbox = &node->outbox,
        .request_serial = &node->serial,
        .first_serial = life,
    };
    node->holds = hr_holds_init(&holds, bump);
    const struct hr_router_config router = {
        .jobs_max = 2048,
        .first_id = life,
        .limiter = node->limiter,
        .members = &node->table,
        .places = places,
        .outbox = &node->outbox,
        .holds = node->holds,
    };
    node->router = hr_router_init(&router, bump);
    (void)sim;
}

static void begin_life(struct sim_node *node)
{
    static const struct hr_limiter_sizes sizes = {
        .counters_max = 4096, .leases_max = 1024, .log_blocks_max = 1024, .limits_max = SIM_LIMITS_MAX};
    static const struct hr_hash_key secret = {{1, 2, 3}};
    size_t bytes = hr_limiter_bytes(&sizes);
    node->limiter_memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(node->limiter_memory);
    memset(node->limiter_memory, 0, bytes);
    node->limiter = hr_limiter_init(&sizes, &secret, node->limiter_memory, bytes);
    assert_non_null(node->limiter);
    assert_int_equal(hr_limiter_load(node->limiter, &node->sim->set, node->sim->now), HR_OK);
    node->serial = (uint64_t)node->index << 56 | (uint64_t)node->life << 40;
    struct hr_bump bump = {0};
    lay_out(node, &bump);
    node->memory = aligned_alloc(64, (bump.taken + 63) / 64 * 64);
    assert_non_null(node->memory);
    memset(node->memory, 0, bump.taken);
    bump = (struct hr_bump){.at = node->memory};
    lay_out(node, &bump);
    assert_int_equal(hr_origin_init(&node->origin, hr_span_of(node->members[node->index].name), HR_SPAN("eu")), HR_OK);
    node->is_up = true;
}

static void end_life(struct sim_node *node)
{
    free(node->memory);
    free(node->limiter_memory);
    node->memory = node->limiter_memory = NULL;
    node->is_up = false;
    node->life++;
}

struct sim *sim_open(uint64_t seed, uint32_t nodes, const struct hr_limit *limits, uint32_t limit_count,
                     struct sim_net net)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    sim->requests = calloc(SIM_REQUESTS_MAX, sizeof(*sim->requests));
    assert_non_null(sim->requests);
    sim->rng.state = seed;
    sim->now = (struct hr_now){START_NS, {START_NS}};
    sim->node_count = nodes;
    sim->net = net;
    memcpy(sim->limits, limits, limit_count * sizeof(*limits));
    size_t bytes = hr_limit_set_bytes(sim->limits, limit_count);
    sim->set_memory = malloc(bytes);
    assert_non_null(sim->set_memory);
    assert_int_equal(hr_limit_set_build(&sim->set, sim->limits, limit_count, sim->set_memory, bytes), HR_OK);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        sim->owner[p] = (uint8_t)hr_rng_below(&sim->rng, nodes);
    }
    for (uint32_t i = 0; i < nodes; i++) {
        struct sim_node *node = &sim->nodes[i];
        node->sim = sim;
        node->index = i;
        for (uint32_t j = 0; j < nodes; j++) {
            struct hr_member *member = &node->members[j];
            *member = (struct hr_member){.id = 1000 + j, .incarnation = 1, .weight = 1, .region = "eu"};
            (void)snprintf(member->name, sizeof(member->name), "eu-%u", j + 1);
        }
        node->table = (struct hr_members){.all = node->members, .count = nodes, .count_max = nodes, .self = i};
        begin_life(node);
    }
    return sim;
}

void sim_close(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        end_life(&sim->nodes[i]);
    }
    for (size_t i = 0; i < sim->letter_count; i++) {
        free(sim->letters[i].body);
    }
    free(sim->letters);
    free(sim->set_memory);
    free(sim->requests);
    free(sim);
}

struct hr_now sim_now(const struct sim *sim)
{
    return sim->now;
}

struct hr_rng *sim_rng(struct sim *sim)
{
    return &sim->rng;
}

void sim_own(struct sim *sim, uint32_t partition, uint32_t node)
{
    sim->owner[partition] = (uint8_t)node;
}

void sim_set_moving(struct sim *sim, uint32_t partition, bool is_moving)
{
    sim->is_moving[partition] = is_moving;
}

void sim_set_nobody(struct sim *sim, uint32_t partition, bool is_nobody)
{
    sim->is_nobody[partition] = is_nobody;
}

uint32_t sim_owner(const struct sim *sim, uint32_t partition)
{
    return sim->owner[partition];
}

/* --- what a node's core does --- */

/* The rate is always the same one: how a rate is read is not the router's. */
static void throttle(struct sim_node *node, const struct hr_params *params, struct hr_decision *decision)
{
    static const struct hr_limit limit = {
        .name = {"throttle", 8},
        .rule = {.algorithm = HR_TOKEN_BUCKET, .capacity = 5, .rate = 5, .period_ns = 1000000000000},
    };
    struct hr_request request = hr_params_request(params, node->serial++);
    enum hr_err err = hr_limiter_throttle(node->limiter, &limit, params->key, &request, node->sim->now, decision);
    assert_int_equal(err, HR_OK);
}

static void serve(struct sim_node *node, const struct hr_local *local)
{
    static struct hr_params params;
    static struct hr_decision decision;
    struct hr_fault fault;
    struct hr_packer out = {.at = node->sim->answer, .room = sizeof(node->sim->answer)};
    const struct hr_decision_form form = {.origin = &node->origin, .detail = true};
    int64_t ttl_ms = 0;
    assert_true(hr_params_decode(local->method, local->params, &params, &fault));
    struct hr_request request = hr_params_request(&params, node->serial++);
    switch ((int)local->method) {
    case HR_METHOD_THROTTLE:
        throttle(node, &params, &decision);
        hr_pack_decision(&out, &decision, &form);
        break;
    case HR_METHOD_CHECK:
        assert_int_equal(hr_limiter_check(node->limiter, &request, node->sim->now, &decision), HR_OK);
        hr_pack_decision(&out, &decision, &form);
        break;
    case HR_METHOD_REFUND:
        hr_pack_bool(&out, hr_limiter_refund(node->limiter, &request, node->sim->now) == HR_OK);
        break;
    case HR_METHOD_RELEASE:
        hr_pack_bool(&out, hr_limiter_release(node->limiter, params.lease, node->sim->now));
        break;
    case HR_METHOD_RENEW:
        hr_pack_bool(&out, hr_limiter_renew(node->limiter, params.lease, node->sim->now, &ttl_ms));
        break;
    default:
        fail();
    }
    hr_router_done(node->router, local->job, hr_packer_bytes(&out), false);
}

static void lead(struct sim_node *node, const struct hr_local *local)
{
    const struct hr_lead_request request = {
        .job = local->job,
        .verb = local->verb,
        .params = local->params,
        .deadline = local->deadline,
        .silent = local->silent,
        .expires_at = local->expires_at,
    };
    if (hr_holds_lead(node->holds, &request, node->sim->now) != HR_OK) {
        hr_router_fail(node->router, local->job, HR_CODE_RESOURCE_EXHAUSTED, "too many");
    }
}

static void done(struct sim_node *node, const struct hr_lead_done *result)
{
    struct hr_packer out = {.at = node->sim->answer, .room = sizeof(node->sim->answer)};
    if (result->is_moving) {
        hr_router_keep(node->router, result->job, "its counters are being moved", node->sim->now);
        return;
    }
    if (result->is_fault) {
        hr_router_fail(node->router, result->job, result->code, result->words);
        return;
    }
    if (result->verb == HR_HOLD_REFUND) {
        hr_pack_bool(&out, result->refunded);
    } else {
        const struct hr_decision_form form = {&node->origin, true, result->degraded};
        hr_pack_decision(&out, result->decision, &form);
    }
    hr_router_done(node->router, result->job, hr_packer_bytes(&out), false);
}

static void read_decision(struct sim_request *request, struct hr_span result)
{
    struct hr_unpacker in = {result};
    assert_int_equal(hr_unpack_decision(&in, &request->decision), HR_OK);
    for (uint32_t i = 0; i < request->decision.row_count && i < SIM_LIMITS_MAX; i++) {
        request->rows[i] = request->decision.rows[i];
    }
    struct hr_span name = request->decision.decided_by;
    memcpy(request->decided_by, name.at, name.bytes);
    request->decided_by[name.bytes] = '\0';
}

static void note_answer(struct sim *sim, const struct hr_asker *asker, struct hr_span frame)
{
    struct hr_message message;
    struct hr_fault fault;
    struct sim_request *request = &sim->requests[asker->msgid];
    assert_true(asker->msgid < sim->request_count);
    assert_int_equal(hr_message_decode(frame, &message), HR_OK);
    request->answers++;
    request->is_answered = true;
    request->answered_at = sim->now.steady;
    request->is_fault = hr_unpack_error(message.error, &fault);
    if (request->is_fault) {
        request->code = fault.code;
        return;
    }
    struct hr_unpacker in = {message.result};
    switch ((int)asker->method) {
    case HR_METHOD_CHECK:
    case HR_METHOD_THROTTLE:
        read_decision(request, message.result);
        return;
    case HR_METHOD_CHECK_MANY:
        request->text_bytes = message.result.bytes < sizeof(request->text) ? message.result.bytes : 0;
        memcpy(request->text, message.result.at, request->text_bytes);
        return;
    default:
        assert_int_equal(hr_unpack_bool(&in, &request->flag), HR_OK);
    }
}

/* Every other check is read beforehand: either way must come to the same. */
static const struct hr_prepared *prepare(struct sim_node *node, enum hr_method method, struct hr_span bytes)
{
    static struct hr_prepared prepared;
    static struct hr_params params;
    struct hr_fault fault;
    if (method != HR_METHOD_CHECK || hr_rng_chance(&node->sim->rng, 1, 2)) {
        return NULL;
    }
    assert_true(hr_params_decode(method, bytes, &params, &fault));
    struct hr_request request = hr_params_request(&params, 0);
    hr_limiter_prepare(node->limiter, &request, &prepared);
    return prepared.is_known ? &prepared : NULL;
}

/* Sends some requests on their way. False: there are none. */
static bool go_on(struct sim_node *node)
{
    struct hr_ready ready[3];
    struct hr_local local;
    uint32_t count = hr_router_next_ready(node->router, ready, sizeof(ready) / sizeof(ready[0]));
    for (uint32_t i = 0; i < count; i++) {
        const struct hr_prepared *known = prepare(node, ready[i].method, ready[i].params);
        if (!hr_router_go(node->router, ready[i].job, known, node->sim->now, &local)) {
            continue;
        }
        if (local.kind == HR_LOCAL_SERVE) {
            serve(node, &local);
        } else {
            lead(node, &local);
        }
    }
    return count > 0;
}

/* Does all there is to do at a node just now. */
static void turn(struct sim_node *node)
{
    struct sim *sim = node->sim;
    struct hr_lead_done result;
    struct hr_asker asker;
    struct hr_letter letter;
    bool any = true;
    while (any) {
        any = false;
        while (go_on(node)) {
            any = true;
        }
        while (hr_holds_next_done(node->holds, sim->now, &result)) {
            any = true;
            done(node, &result);
        }
    }
    struct hr_packer out = {.at = sim->answer, .room = sizeof(sim->answer)};
    for (; hr_router_next_answer(node->router, &out, &asker); out.wanted = 0) {
        note_answer(sim, &asker, hr_packer_bytes(&out));
    }
    hr_router_flush(node->router, sim->now);
    while (hr_outbox_next(&node->outbox, &letter)) {
        post(sim, node, &letter);
    }
}

/* --- clients --- */

static uint32_t ask(struct sim *sim, uint32_t node, enum hr_method method, struct hr_span params)
{
    uint32_t number = sim->request_count++;
    struct sim_request *request = &sim->requests[number];
    assert_true(number < SIM_REQUESTS_MAX && sim->nodes[node].is_up);
    request->is_asked = true;
    request->node = node;
    request->asked_at = sim->now.steady;
    const struct hr_asker asker = {1, number, method};
    /* Also what could be decided at once goes this way, for all ways must come to the same. */
    (void)hr_router_is_here(sim->nodes[node].router, method, params, sim->now);
    const struct hr_prepared *known = prepare(&sim->nodes[node], method, params);
    assert_true(hr_router_take(sim->nodes[node].router, &asker, params, known, sim->now));
    turn(&sim->nodes[node]);
    return number;
}

/* Splits "a=x b=y"; the spans point into text. */
static void read_attributes(const char *text, struct hr_params *params)
{
    for (const char *at = text; *at != '\0';) {
        const char *equals = strchr(at, '='), *end = strchr(at, ' ');
        assert_non_null(equals);
        end = end == NULL ? at + strlen(at) : end;
        params->attributes[params->attribute_count++] =
            (struct hr_attribute){{at, (size_t)(equals - at)}, {equals + 1, (size_t)(end - equals - 1)}};
        at = *end == ' ' ? end + 1 : end;
    }
    params->present |= HR_PARAM_BIT(HR_PARAM_ATTRIBUTES);
}

static void make_params(const char *attributes, uint64_t cost, bool peek, struct hr_params *params)
{
    *params = (struct hr_params){.cost = cost, .detail = true, .peek = peek};
    params->present = HR_PARAM_BIT(HR_PARAM_COST) | (peek ? HR_PARAM_BIT(HR_PARAM_PEEK) : 0);
    read_attributes(attributes, params);
}

static uint32_t ask_with(struct sim *sim, uint32_t node, enum hr_method method, const struct hr_params *params)
{
    static char bytes[65536];
    struct hr_packer out = {.at = bytes, .room = sizeof(bytes)};
    hr_params_encode(params, &out);
    assert_true(hr_packer_fits(&out));
    return ask(sim, node, method, hr_packer_bytes(&out));
}

uint32_t sim_check(struct sim *sim, uint32_t node, const char *attributes, uint64_t cost, bool peek)
{
    static struct hr_params params;
    make_params(attributes, cost, peek, &params);
    struct sim_request *request = &sim->requests[sim->request_count];
    request->cost = cost;
    (void)snprintf(request->attributes, sizeof(request->attributes), "%s", attributes);
    return ask_with(sim, node, HR_METHOD_CHECK, &params);
}

uint32_t sim_refund(struct sim *sim, uint32_t node, const char *attributes, uint64_t cost)
{
    static struct hr_params params;
    make_params(attributes, cost, false, &params);
    return ask_with(sim, node, HR_METHOD_REFUND, &params);
}

uint32_t sim_lease(struct sim *sim, uint32_t node, enum hr_method method, struct hr_id128 lease)
{
    static struct hr_params params;
    params = (struct hr_params){.lease = lease, .present = HR_PARAM_BIT(HR_PARAM_LEASE)};
    return ask_with(sim, node, method, &params);
}

uint32_t sim_throttle(struct sim *sim, uint32_t node, const char *key)
{
    static struct hr_params params;
    params = (struct hr_params){.key = hr_span_of(key), .rate = HR_SPAN("5 per 1000s")};
    params.present = HR_PARAM_BIT(HR_PARAM_KEY) | HR_PARAM_BIT(HR_PARAM_RATE);
    return ask_with(sim, node, HR_METHOD_THROTTLE, &params);
}

uint32_t sim_check_many(struct sim *sim, uint32_t node, const char *const *attributes, uint32_t count)
{
    static char bytes[65536];
    static struct hr_params params;
    struct hr_packer out = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_requests_head(&out, count);
    for (uint32_t i = 0; i < count; i++) {
        make_params(attributes[i], 1, false, &params);
        hr_params_encode(&params, &out);
    }
    assert_true(hr_packer_fits(&out));
    return ask(sim, node, HR_METHOD_CHECK_MANY, hr_packer_bytes(&out));
}

const struct sim_request *sim_request(const struct sim *sim, uint32_t number)
{
    return &sim->requests[number];
}

uint32_t sim_request_count(const struct sim *sim)
{
    return sim->request_count;
}

/* --- time --- */

static void deliver(struct sim *sim)
{
    struct sim_letter letter = pop(sim);
    struct sim_node *node = &sim->nodes[letter.to];
    const struct hr_span body = {letter.body, letter.bytes};
    uint64_t from = 1000 + letter.from;
    if (node->is_up && node->life == letter.life) {
        if (letter.kind == HR_LETTER_CALL || letter.kind == HR_LETTER_ANSWER) {
            hr_router_receive(node->router, from, letter.kind, body, sim->now);
        } else {
            hr_holds_receive(node->holds, from, letter.kind, body, sim->now);
        }
        turn(node);
    }
    free(letter.body); /* NOLINT(clang-analyzer-unix.Malloc): it takes two letters of the heap for one */
}

static void set_time(struct sim *sim, hr_ns at)
{
    sim->now = (struct hr_now){at, {at}};
}

static void tick_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].is_up) {
            hr_router_tick(sim->nodes[i].router, sim->now);
            hr_holds_tick(sim->nodes[i].holds, sim->now);
            turn(&sim->nodes[i]);
        }
    }
}

void sim_run(struct sim *sim, hr_ns ns)
{
    hr_ns end = sim->now.steady + ns, tick_at = (sim->now.steady / TICK_NS + 1) * TICK_NS;
    for (;;) {
        hr_ns next = sim->letter_count > 0 && sim->letters[0].at < tick_at ? sim->letters[0].at : tick_at;
        if (next > end) {
            set_time(sim, end);
            return;
        }
        set_time(sim, next);
        if (next == tick_at) {
            tick_all(sim);
            tick_at += TICK_NS;
        } else {
            deliver(sim);
        }
    }
}

void sim_crash(struct sim *sim, uint32_t node)
{
    end_life(&sim->nodes[node]);
}

void sim_restart(struct sim *sim, uint32_t node)
{
    begin_life(&sim->nodes[node]);
}

bool sim_is_up(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].is_up;
}

void sim_cut(struct sim *sim, uint32_t from, uint32_t to, bool is_cut)
{
    sim->is_cut[from][to] = is_cut;
}

void sim_set_net(struct sim *sim, struct sim_net net)
{
    sim->net = net;
}

/* --- looking at counters --- */

static const struct hr_touch *touch_of(struct sim *sim, uint32_t node, uint32_t limit, const char *attributes)
{
    static struct hr_params params;
    static struct hr_touches touches;
    make_params(attributes, 0, true, &params);
    struct hr_request request = hr_params_request(&params, 0);
    assert_int_equal(hr_limiter_touches(sim->nodes[node].limiter, &request, &touches), HR_OK);
    for (uint32_t i = 0; i < touches.count; i++) {
        if (touches.at[i].limit == &sim->limits[limit]) {
            return &touches.at[i];
        }
    }
    fail_msg("limit %u is not touched by %s", limit, attributes);
    return NULL;
}

static uint32_t any_up(const struct sim *sim)
{
    uint32_t node = 0;
    while (!sim->nodes[node].is_up) {
        node++;
    }
    return node;
}

uint32_t sim_partition(struct sim *sim, uint32_t limit, const char *attributes)
{
    return hr_place_partition(touch_of(sim, any_up(sim), limit, attributes)->counter);
}

uint64_t sim_remaining(struct sim *sim, uint32_t limit, const char *attributes)
{
    static struct hr_params params;
    static struct hr_decision decision;
    uint32_t owner = sim->owner[sim_partition(sim, limit, attributes)];
    make_params(attributes, 0, true, &params);
    struct hr_request request = hr_params_request(&params, 0);
    assert_int_equal(hr_limiter_check(sim->nodes[owner].limiter, &request, sim->now, &decision), HR_OK);
    for (uint32_t i = 0; i < decision.row_count; i++) {
        if (decision.rows[i].limit == &sim->limits[limit]) {
            return decision.rows[i].remaining;
        }
    }
    fail_msg("limit %u is not touched by %s", limit, attributes);
    return 0;
}

const struct hr_holds *sim_holds(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].holds;
}

const struct hr_router *sim_router(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].router;
}

struct hr_limiter *sim_limiter(const struct sim *sim, uint32_t node)
{
    return sim->nodes[node].limiter;
}
