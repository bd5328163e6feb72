#include <inttypes.h>
#include <stdlib.h>

#include "chaos/sim_state.h"

#define ANSWER_BYTES_MAX (64U << 10)

/* A client and its node are in one region. */
#define CLIENT_DELAY_NS (300 * HR_NS_PER_US)

#define IDS_ONE_IN 16                 /* requests that carry an id */
#define AGAIN_ONE_IN 4                /* of those, requests that are sent once more although they were answered */
#define PERSISTS_ONE_IN 4             /* denied clients that ask again when they may */
#define RETRY_NS (100 * HR_NS_PER_MS) /* after a connection that failed */
#define PERSIST_MS_MAX 5000
#define HELD_MAX 4096 /* connections that wait at a node that stands still: its backlog */

/* What a request may wait for the store, and a turn more. */
#define WAITS_NS_MAX (HR_WAITING_NS_MAX + 200 * HR_NS_PER_MS)

/* In a cluster: for a partition that moves, for another node, for the store, and for another's hold. */
#define WAITS_CLUSTER_NS_MAX (2 * HR_WAITING_NS_MAX + 2 * HR_CALL_KEPT_NS)

/* Answers to requests with an id are kept for 60 s. Clients give up well before, so that no answer is ever in doubt. */
#define GIVES_UP_NS (30 * HR_NS_PER_S)

/* --- slots of requests --- */

static bool grow_asks(struct hr_sim *sim)
{
    uint32_t chunk = sim->ask_count / HR_SIM_ASK_CHUNK;
    struct hr_sim_query *asks = chunk == HR_SIM_ASK_CHUNKS ? NULL : calloc(HR_SIM_ASK_CHUNK, sizeof(*asks));
    if (asks == NULL) {
        sim->err = HR_E_MEMORY;
        return false;
    }
    sim->asks[chunk] = asks;
    for (uint32_t i = HR_SIM_ASK_CHUNK; i-- > (chunk == 0 ? 1U : 0U);) {
        asks[i].next = sim->ask_free;
        sim->ask_free = chunk * HR_SIM_ASK_CHUNK + i;
    }
    sim->ask_count += HR_SIM_ASK_CHUNK;
    return true;
}

/* 0: there is no memory, and the run ends. */
static uint32_t new_ask(struct hr_sim *sim)
{
    if (sim->ask_free == 0 && !grow_asks(sim)) {
        return 0;
    }
    uint32_t slot = sim->ask_free;
    sim->ask_free = hr_sim_ask_at(sim, slot)->next;
    *hr_sim_ask_at(sim, slot) = (struct hr_sim_query){.asked_at = sim->at};
    return slot;
}

static struct hr_bounds_query query_of(const struct hr_sim *sim, const struct hr_sim_query *ask)
{
    return (struct hr_bounds_query){
        .region = hr_sim_region_of(sim->options->shape, ask->node),
        .node = ask->node,
        .shape = &sim->universe->shapes[ask->shape],
        .sent = ask->sent_at,
        .at = sim->at,
    };
}

static bool costs(const struct hr_sim *sim, const struct hr_sim_query *ask)
{
    return sim->bounds != NULL && !ask->is_release && !ask->is_look;
}

/* What it has cost, if anything, nobody will know. */
static void note_lost(struct hr_sim *sim, const struct hr_sim_query *ask)
{
    if (costs(sim, ask) && ask->served_at > 0) {
        const struct hr_bounds_query query = query_of(sim, ask);
        enum hr_err err = hr_bounds_lose(sim->bounds, &query);
        sim->err = sim->err != HR_OK ? sim->err : err;
    }
}

static void free_ask(struct hr_sim *sim, uint32_t slot)
{
    hr_sim_ask_at(sim, slot)->is_waiting = false;
    hr_sim_ask_at(sim, slot)->next = sim->ask_free;
    sim->ask_free = slot;
}

enum hr_err hr_sim_clients_init(struct hr_sim *sim)
{
    sim->rng = hr_dice_fork(sim->options->seed, 4);
    hr_dice_waits_init(&sim->waits);
    sim->load = (struct hr_load){
        .seed = sim->options->seed,
        .regions = sim->options->shape.regions,
        .rps = sim->options->rps,
        .shape_count = sim->universe->shape_count,
        .rng = hr_dice_fork(sim->options->seed, 6),
        .waits = sim->waits,
    };
    sim->answer = malloc(ANSWER_BYTES_MAX);
    sim->ids = calloc(HR_SIM_IDS, sizeof(*sim->ids));
    if (sim->answer == NULL || sim->ids == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t region = 0; region < sim->options->shape.regions; region++) {
        hr_sim_put(sim, hr_load_wait(&sim->load, region, 0), HR_SIM_ARRIVAL, region, 0);
    }
    return sim->err;
}

void hr_sim_clients_deinit(struct hr_sim *sim)
{
    free(sim->answer);
    free(sim->ids);
    for (uint32_t i = 0; i < HR_SIM_ASK_CHUNKS; i++) {
        free(sim->asks[i]);
    }
}

/* --- what clients do next --- */

static uint32_t draw_node(struct hr_sim *sim, uint32_t region)
{
    uint32_t nodes = sim->options->shape.nodes;
    return region * nodes + (uint32_t)hr_rng_below(&sim->rng, nodes);
}

/* The same request once more, later. */
static void ask_again(struct hr_sim *sim, const struct hr_sim_query *ask, uint32_t node, hr_ns in)
{
    uint32_t slot = new_ask(sim);
    if (slot == 0) {
        return;
    }
    struct hr_sim_query *again = hr_sim_ask_at(sim, slot);
    *again = *ask;
    again->node = node;
    again->tries++;
    again->is_waiting = again->was_slowed = false;
    again->served_at = 0;
    again->sent_at = again->id != 0 ? again->sent_at : 0; /* without an id it is another request */
    again->asked_at = sim->at + in;
    hr_sim_put(sim, sim->at + in, HR_SIM_ASK, 0, slot);
}

/* The connection failed: the client goes to another node, with the same id where it has one. What was a lease at the
 * node is of no use elsewhere. */
static void lose(struct hr_sim *sim, uint32_t slot)
{
    struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    sim->outcome->counts.lost++;
    hr_sim_fold(sim, 3);
    note_lost(sim, ask);
    if (!ask->is_release && !ask->is_look && ask->tries < HR_SIM_TRIES_MAX) {
        ask_again(sim, ask, draw_node(sim, hr_sim_region_of(sim->options->shape, ask->node)), RETRY_NS);
    }
    free_ask(sim, slot);
}

static void plan_release(struct hr_sim *sim, const struct hr_sim_query *ask, struct hr_id128 lease, uint64_t ttl_ns)
{
    hr_ns in = hr_dice_wait(&sim->waits, &sim->rng, (hr_ns)(ttl_ns / 2));
    uint32_t slot = new_ask(sim);
    if (slot == 0) {
        return;
    }
    *hr_sim_ask_at(sim, slot) = (struct hr_sim_query){
        .is_release = true,
        .node = ask->node,
        .shape = ask->shape,
        .lease = lease,
        .asked_at = sim->at + in,
    };
    hr_sim_put(sim, sim->at + in, HR_SIM_ASK, 0, slot);
}

static uint64_t ttl_of(const struct hr_sim *sim, struct hr_span name)
{
    for (uint32_t i = 0; i < sim->options->limits->limit_count; i++) {
        if (hr_span_equal(sim->options->limits->limits[i].name, name)) {
            return sim->options->limits->limits[i].rule.ttl_ns;
        }
    }
    return 0;
}

static void act_on_decision(struct hr_sim *sim, uint32_t slot)
{
    const struct hr_told_decision *told = &sim->told;
    for (uint32_t i = 0; told->allowed && i < told->row_count; i++) {
        if (told->rows[i].has_lease && hr_rng_chance(&sim->rng, 3, 4)) {
            plan_release(sim, hr_sim_ask_at(sim, slot), told->rows[i].lease, ttl_of(sim, told->rows[i].name));
        }
    }
    const struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    bool may_ask_again = !told->allowed && told->retry_after_ms > 0 && told->retry_after_ms <= PERSIST_MS_MAX;
    if (may_ask_again && ask->tries < HR_SIM_TRIES_MAX && ask->id == 0 &&
        hr_rng_chance(&sim->rng, 1, PERSISTS_ONE_IN)) {
        ask_again(sim, ask, ask->node, told->retry_after_ms * HR_NS_PER_MS);
    }
    if (ask->id != 0 && ask->tries < HR_SIM_TRIES_MAX && hr_rng_chance(&sim->rng, 1, AGAIN_ONE_IN)) {
        ask_again(sim, ask, ask->node, hr_dice_between(&sim->rng, HR_NS_PER_MS, 3 * HR_NS_PER_S));
    }
}

/* --- judging answers --- */

static void count_on_timelines(struct hr_sim *sim, const struct hr_sim_query *ask, bool allowed)
{
    uint64_t cost = sim->universe->shapes[ask->shape].cost;
    uint32_t region = hr_sim_region_of(sim->options->shape, ask->node);
    for (unsigned watch = sim->watch[ask->shape]; watch != 0; watch &= watch - 1) {
        struct hr_sim_slot *slot = &sim->outcome->timelines[__builtin_ctz(watch)].slots[sim->slot];
        slot->offered += cost;
        slot->admitted += allowed ? cost : 0;
        slot->of_region[region] += allowed ? cost : 0;
    }
}

/* True: it is the first answer again, and nothing was charged. */
static bool is_repeat(struct hr_sim *sim, const struct hr_sim_query *ask, struct hr_now now, struct hr_span result)
{
    struct hr_first_answer *first = &sim->ids[ask->id & (HR_SIM_IDS - 1)];
    uint64_t hash = hr_plain_hash(result.at, result.bytes, 0);
    bool is_known = first->id == ask->id && first->node == ask->node && first->life == ask->life;
    hr_ns age = now.steady - first->at;
    if (!is_known) {
        *first = (struct hr_first_answer){
            .id = ask->id, .life = ask->life, .node = ask->node, .at = now.steady, .hash = hash};
        return false;
    }
    sim->outcome->counts.repeated++;
    hr_checker_note(sim->checker, HR_CHECK_ONCE, first->hash == hash, sim->at,
                    "%s gave a request with an id two different answers within %" PRId64 " ms",
                    sim->members[ask->node].name, age / HR_NS_PER_MS);
    return true;
}

/* Has an answer of this hash come after the first one? From now on it has. */
static bool is_known_otherwise(struct hr_first_answer *first, uint64_t hash)
{
    for (uint32_t i = 0; i < first->other_count; i++) {
        if (first->others[i] == hash) {
            return true;
        }
    }
    if (first->other_count < HR_SIM_TRIES_MAX) {
        first->others[first->other_count++] = hash;
    }
    return false;
}

/* The same in a cluster, where the retry may have come to another node. What was decided degraded is kept nowhere; and
 * while anything strikes, an answer may be forgotten. */
static bool is_repeat_in_cluster(struct hr_sim *sim, const struct hr_sim_query *ask, struct hr_span result)
{
    struct hr_first_answer *first = &sim->ids[ask->id & (HR_SIM_IDS - 1)];
    uint64_t hash = hr_plain_hash(result.at, result.bytes, 0);
    uint32_t region = hr_sim_region_of(sim->options->shape, ask->node);
    if (first->id != ask->id) {
        *first = (struct hr_first_answer){.id = ask->id,
                                          .life = ask->life,
                                          .node = ask->node,
                                          .at = sim->at,
                                          .hash = hash,
                                          .degraded = sim->told.degraded};
        return false;
    }
    sim->outcome->counts.repeated++;
    if (!first->degraded && hr_bounds_was_calm(sim->bounds, region, first->at)) {
        hr_checker_note(sim->checker, HR_CHECK_ONCE, first->hash == hash, sim->at,
                        "%s gave a request with an id another answer than %s, %" PRId64 " ms before",
                        sim->members[ask->node].name, sim->members[first->node].name,
                        (sim->at - first->at) / HR_NS_PER_MS);
    }
    return first->hash == hash || is_known_otherwise(first, hash);
}

static void count_decision(struct hr_sim *sim, const struct hr_sim_query *ask)
{
    count_on_timelines(sim, ask, sim->told.allowed);
    sim->outcome->counts.admitted += sim->told.allowed;
    sim->outcome->counts.denied += !sim->told.allowed;
    sim->outcome->counts.degraded += sim->told.degraded;
}

static void note_latency(struct hr_sim *sim, const struct hr_sim_query *ask)
{
    hr_histogram_add(&sim->outcome->latency[hr_sim_phase(sim)],
                     (uint64_t)(sim->at - ask->asked_at + hr_dice_wait(&sim->waits, &sim->rng, CLIENT_DELAY_NS)));
}

static void judge_in_cluster(struct hr_sim *sim, uint32_t slot, struct hr_span result)
{
    const struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    const struct hr_bounds_query query = query_of(sim, ask);
    struct hr_unpacker unpacker = {result};
    bool is_read = hr_unpack_decision(&unpacker, &sim->told) == HR_OK;
    hr_checker_note(sim->checker, HR_CHECK_ANSWERS, is_read, sim->at, "%s gave an answer that cannot be read",
                    sim->members[ask->node].name);
    if (!is_read) {
        note_lost(sim, ask);
        return;
    }
    if (ask->is_look) {
        hr_bounds_look(sim->bounds, &query, &sim->told, ask->check);
        return;
    }
    note_latency(sim, ask);
    if (ask->id != 0 && is_repeat_in_cluster(sim, ask, result)) {
        hr_bounds_repeat(sim->bounds, &query);
        return;
    }
    enum hr_err err = hr_bounds_answer(sim->bounds, &query, &sim->told);
    sim->err = sim->err != HR_OK ? sim->err : err;
    count_decision(sim, ask);
    act_on_decision(sim, slot);
}

static void judge_decision(struct hr_sim *sim, uint32_t slot, struct hr_span result)
{
    const struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    struct hr_unpacker unpacker = {result};
    const struct hr_decided decided = {
        .domain = hr_sim_domain(sim, ask->node),
        .shape = &sim->universe->shapes[ask->shape],
        .now = hr_sim_now(sim, &sim->members[ask->node]),
        .at = sim->at,
    };
    if (hr_unpack_decision(&unpacker, &sim->told) != HR_OK) {
        hr_checker_note(sim->checker, HR_CHECK_ANSWERS, false, sim->at, "%s gave an answer that cannot be read",
                        sim->members[ask->node].name);
        return;
    }
    bool is_first = ask->id == 0 || !is_repeat(sim, ask, decided.now, result);
    if (is_first) {
        enum hr_err err = hr_checker_decide(sim->checker, &decided, &sim->told);
        sim->err = sim->err != HR_OK ? sim->err : err;
        count_decision(sim, ask);
    }
    note_latency(sim, ask);
    if (is_first) {
        act_on_decision(sim, slot);
    }
}

static void judge_release(struct hr_sim *sim, const struct hr_sim_query *ask, struct hr_span result)
{
    bool was_there = false;
    const struct hr_decided decided = {
        .domain = hr_sim_domain(sim, ask->node),
        .shape = &sim->universe->shapes[ask->shape],
        .now = hr_sim_now(sim, &sim->members[ask->node]),
        .at = sim->at,
    };
    if (hr_unpack_flag(result, HR_SPAN("released"), &was_there) != HR_OK) {
        return;
    }
    if (sim->bounds != NULL) {
        const struct hr_bounds_query query = query_of(sim, ask);
        hr_bounds_released(sim->bounds, &query, ask->lease, ask->is_surely_there, was_there);
    } else {
        hr_checker_release(sim->checker, &decided, ask->lease, was_there);
    }
}

/* An answer has come: it is judged, and its slot is free. */
static void judge(struct hr_sim *sim, uint32_t slot, struct hr_span answer)
{
    struct hr_message message;
    struct hr_fault fault;
    bool is_message = hr_message_decode(answer, &message) == HR_OK && message.kind == HR_MESSAGE_RESPONSE;
    hr_checker_note(sim->checker, HR_CHECK_ANSWERS, is_message && message.msgid == slot, sim->at,
                    "%s gave an answer that is no answer", sim->members[hr_sim_ask_at(sim, slot)->node].name);
    if (!is_message || message.msgid != slot) {
        free_ask(sim, slot);
        return;
    }
    hr_sim_fold(sim, hr_plain_hash(answer.at, answer.bytes, slot));
    if (hr_unpack_error(message.error, &fault)) {
        sim->outcome->counts.refused++;
        note_lost(sim, hr_sim_ask_at(sim, slot));
    } else if (hr_sim_ask_at(sim, slot)->is_release) {
        judge_release(sim, hr_sim_ask_at(sim, slot), message.result);
    } else if (sim->bounds != NULL) {
        judge_in_cluster(sim, slot, message.result);
    } else {
        judge_decision(sim, slot, message.result);
    }
    free_ask(sim, slot);
}

void hr_sim_take_answers(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_call call;
    for (;;) {
        struct hr_packer out = {.at = sim->answer, .room = ANSWER_BYTES_MAX};
        if (!hr_sim_node_next_answer(&member->node, hr_sim_now(sim, member), &out, &call)) {
            return;
        }
        judge(sim, (uint32_t)call.msgid, hr_packer_bytes(&out));
    }
}

/* --- asking --- */

/* The params of a request that is not the shape's own: with an id, a look only, or of a lease. */
static struct hr_span pack_params(struct hr_sim *sim, const struct hr_sim_query *ask, char *room, size_t bytes)
{
    struct hr_packer packer = {.at = room, .room = bytes};
    char id[24];
    if (ask->is_release) {
        sim->params = (struct hr_params){.present = HR_PARAM_BIT(HR_PARAM_LEASE), .lease = ask->lease};
    } else if (ask->is_look) {
        sim->params = *sim->universe->shapes[ask->shape].unpacked;
        sim->params.present |= HR_PARAM_BIT(HR_PARAM_PEEK);
        sim->params.peek = sim->params.detail = true;
    } else {
        sim->params = *sim->universe->shapes[ask->shape].unpacked;
        sim->params.present |= HR_PARAM_BIT(HR_PARAM_ID);
        int used = snprintf(id, sizeof(id), "%" PRIx64, ask->id);
        sim->params.id = (struct hr_span){id, (size_t)used};
    }
    hr_params_encode(&sim->params, &packer);
    return hr_packer_bytes(&packer);
}

static void note_sent(struct hr_sim *sim, struct hr_sim_query *ask)
{
    ask->sent_at = ask->sent_at == 0 ? sim->at : ask->sent_at;
    if (sim->bounds == NULL) {
        return;
    }
    const struct hr_bounds_query query = query_of(sim, ask);
    if (ask->is_release) {
        ask->is_surely_there = hr_bounds_release(sim->bounds, &query, ask->lease);
    } else if (!ask->is_look) {
        hr_bounds_ask(sim->bounds, &query);
    }
}

static void serve(struct hr_sim *sim, uint32_t slot)
{
    char room[4096];
    struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    struct hr_sim_member *member = &sim->members[ask->node];
    bool is_plain = !ask->is_release && !ask->is_look && ask->id == 0;
    struct hr_packer out = {.at = sim->answer, .room = ANSWER_BYTES_MAX};
    const struct hr_call call = {
        .connection = 1,
        .msgid = slot,
        .method = ask->is_release ? HR_METHOD_RELEASE : HR_METHOD_CHECK,
        .params = is_plain ? sim->universe->shapes[ask->shape].params : pack_params(sim, ask, room, sizeof(room)),
    };
    uint32_t node = ask->node;
    ask->life = member->node.lives;
    ask->served_at = sim->at;
    note_sent(sim, ask);
    if (hr_sim_node_serve(&member->node, &call, hr_sim_now(sim, member), &out) == HR_SERVED_ANSWERED) {
        judge(sim, slot, hr_packer_bytes(&out));
    } else {
        ask->is_waiting = true;
        sim->outcome->counts.waited++;
    }
    hr_sim_turn(sim, node);
}

/* A node that stands still has its connections open, up to its backlog. */
static void hold(struct hr_sim *sim, uint32_t slot)
{
    struct hr_sim_member *member = &sim->members[hr_sim_ask_at(sim, slot)->node];
    if (member->held_count == HELD_MAX) {
        lose(sim, slot);
        return;
    }
    hr_sim_ask_at(sim, slot)->next = 0;
    if (member->held_first == 0) {
        member->held_first = slot;
    } else {
        hr_sim_ask_at(sim, member->held_last)->next = slot;
    }
    member->held_last = slot;
    member->held_count++;
}

static bool is_quiet(const struct hr_sim *sim)
{
    return sim->bounds != NULL && sim->at >= sim->options->lasts_ns - HR_SIM_QUIET_NS;
}

void hr_sim_ask(struct hr_sim *sim, uint32_t slot)
{
    struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    const struct hr_sim_member *member = &sim->members[ask->node];
    if (is_quiet(sim) && !ask->is_look) {
        free_ask(sim, slot);
    } else if (ask->id != 0 && sim->at - ask->asked_at > GIVES_UP_NS) {
        sim->outcome->counts.lost++;
        free_ask(sim, slot);
    } else if (!hr_sim_node_is_up(&member->node)) {
        lose(sim, slot);
    } else if (member->is_paused) {
        hold(sim, slot);
    } else if (member->slow_ns > 0 && !ask->was_slowed) {
        ask->was_slowed = true;
        hr_sim_put(sim, sim->at + member->slow_ns, HR_SIM_ASK, 0, slot);
    } else {
        serve(sim, slot);
    }
}

void hr_sim_arrive(struct hr_sim *sim, uint32_t region)
{
    hr_sim_put(sim, sim->at + hr_load_wait(&sim->load, region, sim->at), HR_SIM_ARRIVAL, region, 0);
    uint32_t slot = new_ask(sim);
    if (slot == 0) {
        return;
    }
    struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
    ask->shape = hr_load_shape(&sim->load, region, sim->at);
    ask->node = draw_node(sim, region);
    ask->id = hr_rng_chance(&sim->rng, 1, IDS_ONE_IN) ? ++sim->last_id : 0;
    sim->outcome->counts.asked++;
    hr_sim_ask(sim, slot);
}

/* Empties a node's backlog and gives its first. */
static uint32_t take_held(struct hr_sim_member *member)
{
    uint32_t held = member->held_first;
    member->held_first = member->held_last = member->held_count = 0;
    return held;
}

void hr_sim_lose_asks(struct hr_sim *sim, uint32_t node)
{
    uint32_t held = take_held(&sim->members[node]);
    while (held != 0) {
        uint32_t next = hr_sim_ask_at(sim, held)->next;
        lose(sim, held);
        held = next;
    }
    for (uint32_t slot = 1; slot < sim->ask_count; slot++) {
        if (hr_sim_ask_at(sim, slot)->is_waiting && hr_sim_ask_at(sim, slot)->node == node) {
            lose(sim, slot);
        }
    }
}

void hr_sim_resume_asks(struct hr_sim *sim, uint32_t node)
{
    uint32_t held = take_held(&sim->members[node]);
    for (uint32_t slot = 1; slot < sim->ask_count; slot++) {
        if (hr_sim_ask_at(sim, slot)->is_waiting && hr_sim_ask_at(sim, slot)->node == node) {
            hr_sim_ask_at(sim, slot)->served_at = sim->at; /* its time goes on from here */
        }
    }
    while (held != 0 && sim->err == HR_OK) {
        uint32_t next = hr_sim_ask_at(sim, held)->next;
        hr_sim_ask(sim, held);
        held = next;
    }
}

/* --- looking on --- */

/* A look that the cluster has to answer: it goes the way of any request. */
static void look(struct hr_sim *sim, uint32_t node, enum hr_check check)
{
    uint32_t slot = new_ask(sim);
    if (slot != 0) {
        struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
        ask->node = node;
        ask->shape = (uint32_t)hr_rng_below(&sim->rng, sim->universe->shape_count);
        ask->is_look = true;
        ask->check = check;
        hr_sim_ask(sim, slot);
    }
}

/* Looks at counters of a node by requests that only look. */
void hr_sim_audit(struct hr_sim *sim, uint32_t node, enum hr_check check, uint32_t shapes)
{
    struct hr_sim_member *member = &sim->members[node];
    char room[4096];
    for (uint32_t i = 0; i < shapes && sim->bounds != NULL; i++) {
        look(sim, node, check);
    }
    for (uint32_t i = 0; i < shapes && sim->bounds == NULL && hr_sim_node_is_up(&member->node) && !member->is_paused;
         i++) {
        const struct hr_shape *shape = &sim->universe->shapes[hr_rng_below(&sim->rng, sim->universe->shape_count)];
        struct hr_packer params = {.at = room, .room = sizeof(room)};
        struct hr_packer out = {.at = sim->answer, .room = ANSWER_BYTES_MAX};
        sim->params = *shape->unpacked;
        sim->params.present |= HR_PARAM_BIT(HR_PARAM_PEEK);
        sim->params.peek = sim->params.detail = true;
        hr_params_encode(&sim->params, &params);
        const struct hr_call call = {.connection = 1, .method = HR_METHOD_CHECK, .params = hr_packer_bytes(&params)};
        const struct hr_decided decided = {hr_sim_domain(sim, node), shape, hr_sim_now(sim, member), sim->at};
        struct hr_message message;
        if (hr_sim_node_serve(&member->node, &call, decided.now, &out) != HR_SERVED_ANSWERED ||
            hr_message_decode(hr_packer_bytes(&out), &message) != HR_OK) {
            continue;
        }
        struct hr_unpacker unpacker = {message.result};
        if (hr_unpack_decision(&unpacker, &sim->told) == HR_OK) {
            hr_checker_audit(sim->checker, &decided, &sim->told, check);
            hr_sim_fold(sim, hr_plain_hash(out.at, out.wanted, 0));
        }
    }
}

void hr_sim_watch_asks(struct hr_sim *sim)
{
    hr_ns max_ns = sim->bounds == NULL ? WAITS_NS_MAX : WAITS_CLUSTER_NS_MAX;
    for (uint32_t slot = 1; slot < sim->ask_count; slot++) {
        const struct hr_sim_query *ask = hr_sim_ask_at(sim, slot);
        if (!ask->is_waiting || sim->members[ask->node].is_paused) {
            continue;
        }
        hr_checker_note(sim->checker, HR_CHECK_ANSWERS, sim->at - ask->served_at <= max_ns, sim->at,
                        "%s has not answered a request for %" PRId64 " ms", sim->members[ask->node].name,
                        (sim->at - ask->served_at) / HR_NS_PER_MS);
    }
}
