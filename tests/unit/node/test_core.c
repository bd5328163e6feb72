/* Cores of one region on a virtual network, with all their protocols: sealed packets are all that passes between them.
 * Nothing here sleeps; schedules follow from a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/rng.h"
#include "gossip/life.h"
#include "node/core.h"
#include "rpc/told.h"
#include "storage/segment.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS(n) ((n)*HR_NS_PER_MS)
#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define NODES_MAX 4
#define PACKETS_MAX 65536
#define REQUESTS_MAX 8192

struct packet {
    hr_ns at;
    uint32_t to, life;
    size_t bytes;
    char *data;
};

struct request {
    bool is_answered, is_fault, flag;
    uint32_t answers;
    enum hr_code code;
    bool allowed, degraded;
    uint64_t remaining;
    struct hr_id128 lease;
};

struct node {
    struct hr_core *core;
    void *memory;
    size_t bytes;
    uint32_t life;
    uint64_t ticket; /* on its way to the store, which answers at `stored_at`; 0: none */
    hr_ns stored_at;
};

struct cluster {
    struct hr_rng rng;
    struct hr_now now;
    uint32_t count;
    bool saves;
    hr_ns flush_ns; /* 0: 100 ms */
    struct node nodes[NODES_MAX];
    struct hr_limit limits[4];
    uint32_t limit_count;
    struct hr_limit_set set;
    void *set_memory;
    struct packet packets[PACKETS_MAX]; /* in order of arrival: all take the same time */
    size_t first, end;
    struct request requests[REQUESTS_MAX];
    uint32_t request_count;
    char answer[HR_FRAME_BYTES_MAX];
};

static const char *const node_names[] = {"eu-1", "eu-2", "eu-3", "eu-4"};
static const char *const addresses[] = {"tcp://10.0.0.1:7401", "tcp://10.0.0.2:7401", "tcp://10.0.0.3:7401",
                                        "tcp://10.0.0.4:7401"};
static const char *const rpc_addresses[] = {"10.0.0.1:7400", "10.0.0.2:7400", "10.0.0.3:7400", "10.0.0.4:7400"};

static void begin_life(struct cluster *cluster, uint32_t index)
{
    struct node *node = &cluster->nodes[index];
    struct hr_core_config config = {
        .shard = {.sizes = {.counters_max = 1024,
                            .leases_max = 64,
                            .log_blocks_max = 64,
                            .limits_max = 8,
                            .reserves_max = 64,
                            .saves = cluster->saves},
                  .secret = {{1}},
                  .node = hr_span_of(node_names[index]),
                  .region = HR_SPAN("eu"),
                  .first_serial = (uint64_t)index << 56 | (uint64_t)node->life << 40,
                  .flush_interval_ns = cluster->flush_ns > 0 ? cluster->flush_ns : MS(100),
                  .waiting_max = 16,
                  .replies_bytes = 4U << 20,
                  .replies_max = 256,
                  .hot_keys_max = 8},
        .secret = {{1}},
        .cluster = HR_SPAN("prod"),
        .self = {.incarnation = ++node->life, .weight = 1, .region = "eu"},
        .seed_count = cluster->count > 1 ? 1 : 0,
        .seeds = {hr_span_of(addresses[index == 0 ? 1 : 0])},
        .rng_seed = hr_rng_next(&cluster->rng),
        .is_alone = cluster->count == 1,
        .calls_max = 1024,
    };
    (void)snprintf(config.self.name, sizeof(config.self.name), "%s", node_names[index]);
    (void)snprintf(config.self.gossip, sizeof(config.self.gossip), "%s", addresses[index]);
    (void)snprintf(config.self.rpc, sizeof(config.self.rpc), "%s", rpc_addresses[index]);
    node->bytes = hr_core_bytes(&config);
    assert_true(node->bytes > 0);
    node->memory = mmap(NULL, node->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(node->memory, MAP_FAILED);
    node->core = hr_core_init(&config, cluster->now, node->memory, node->bytes);
    assert_non_null(node->core);
    assert_int_equal(hr_core_load(node->core, &cluster->set, cluster->now), HR_OK);
}

static void end_life(struct cluster *cluster, uint32_t index)
{
    struct node *node = &cluster->nodes[index];
    if (node->core != NULL) {
        (void)munmap(node->memory, node->bytes);
        node->core = NULL;
    }
}

static struct cluster *open_cluster_with(uint64_t seed, uint32_t count, const struct hr_limit *limits,
                                         uint32_t limit_count, bool saves)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    assert_non_null(cluster);
    cluster->rng.state = seed;
    cluster->now = (struct hr_now){START_NS, {START_NS}};
    cluster->count = count;
    cluster->saves = saves;
    memcpy(cluster->limits, limits, limit_count * sizeof(*limits));
    size_t bytes = hr_limit_set_bytes(cluster->limits, limit_count);
    cluster->set_memory = malloc(bytes);
    assert_non_null(cluster->set_memory);
    assert_int_equal(hr_limit_set_build(&cluster->set, cluster->limits, limit_count, cluster->set_memory, bytes),
                     HR_OK);
    for (uint32_t i = 0; i < count; i++) {
        begin_life(cluster, i);
    }
    return cluster;
}

static struct cluster *open_cluster(uint64_t seed, uint32_t count, const struct hr_limit *limits, uint32_t limit_count)
{
    return open_cluster_with(seed, count, limits, limit_count, false);
}

static void close_cluster(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->count; i++) {
        end_life(cluster, i);
    }
    for (size_t i = cluster->first; i < cluster->end; i++) {
        free(cluster->packets[i % PACKETS_MAX].data);
    }
    free(cluster->set_memory);
    free(cluster);
}

static void note_answer(struct cluster *cluster, const struct hr_call *call, struct hr_span frame)
{
    static struct hr_told_decision decision;
    struct hr_message message;
    struct hr_fault fault;
    assert_true(call->msgid < cluster->request_count && call->connection == 1);
    struct request *request = &cluster->requests[call->msgid];
    assert_int_equal(hr_message_decode(frame, &message), HR_OK);
    assert_int_equal(message.msgid, call->msgid);
    request->is_answered = true;
    request->answers++;
    request->is_fault = hr_unpack_error(message.error, &fault);
    if (request->is_fault) {
        request->code = fault.code;
        return;
    }
    struct hr_unpacker in = {message.result};
    if (call->method == HR_METHOD_CHECK || call->method == HR_METHOD_THROTTLE) {
        assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
        request->allowed = decision.allowed;
        request->degraded = decision.degraded;
        request->remaining = decision.row_count > 0 ? decision.rows[0].remaining : 0;
        request->lease = decision.row_count > 0 ? decision.rows[0].lease : (struct hr_id128){0, 0};
        return;
    }
    struct hr_span name = call->method == HR_METHOD_RELEASE ? HR_SPAN("released") : HR_SPAN("refunded");
    assert_int_equal(hr_unpack_flag(message.result, name, &request->flag), HR_OK);
}

static uint32_t node_of(const char *const *names, struct hr_span address)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        if (hr_span_equal(hr_span_of(names[i]), address)) {
            return i;
        }
    }
    fail();
    return 0;
}

/* Takes out what a core has to say. */
static void drain(struct cluster *cluster, uint32_t index)
{
    struct hr_core *core = cluster->nodes[index].core;
    struct hr_call call;
    struct hr_packet packet;
    struct hr_packer out = {.at = cluster->answer, .room = sizeof(cluster->answer)};
    for (; hr_core_next_answer(core, cluster->now, &out, &call); out.wanted = 0) {
        note_answer(cluster, &call, hr_packer_bytes(&out));
    }
    while (hr_core_next_packet(core, cluster->now, &packet)) {
        uint32_t to = node_of(packet.lane == HR_LANE_PEER ? rpc_addresses : addresses, packet.address);
        if (to >= cluster->count || cluster->nodes[to].core == NULL) {
            continue;
        }
        assert_true(cluster->end - cluster->first < PACKETS_MAX);
        struct packet *copy = &cluster->packets[cluster->end++ % PACKETS_MAX];
        *copy = (struct packet){cluster->now.steady + MS(1) / 5, to, cluster->nodes[to].life, packet.bytes.bytes,
                                malloc(packet.bytes.bytes)};
        assert_non_null(copy->data);
        memcpy(copy->data, packet.bytes.at, packet.bytes.bytes);
    }
}

/* A store that takes 5 ms for everything, and fails now and then. */
static void tend_store(struct cluster *cluster, uint32_t index)
{
    struct node *node = &cluster->nodes[index];
    if (node->ticket != 0 && cluster->now.steady >= node->stored_at) {
        uint64_t ticket = node->ticket;
        node->ticket = 0;
        enum hr_err err = hr_rng_chance(&cluster->rng, 1, 50) ? HR_E_IO : HR_OK;
        hr_core_persisted(node->core, ticket, err, cluster->now);
        drain(cluster, index);
    }
    uint64_t ticket;
    const struct hr_store_batch *batch = hr_core_next_batch(node->core, cluster->now, false, &ticket);
    if (node->ticket != 0) {
        assert_null(batch); /* one is on its way */
    } else if (batch != NULL) {
        assert_int_equal(ticket >> HR_CORE_TICKET_BITS, 0);
        node->ticket = ticket;
        node->stored_at = cluster->now.steady + MS(5);
    }
}

static void set_time(struct cluster *cluster, hr_ns at)
{
    cluster->now = (struct hr_now){at, {at}};
}

static void deliver(struct cluster *cluster)
{
    struct packet packet = cluster->packets[cluster->first++ % PACKETS_MAX];
    struct node *node = &cluster->nodes[packet.to];
    set_time(cluster, packet.at);
    if (node->core != NULL && node->life == packet.life) {
        hr_core_receive(node->core, (struct hr_span){packet.data, packet.bytes}, cluster->now);
        drain(cluster, packet.to);
    }
    free(packet.data);
}

static void run(struct cluster *cluster, hr_ns ns)
{
    hr_ns end = cluster->now.steady + ns;
    while (cluster->now.steady < end) {
        hr_ns next = cluster->now.steady + MS(1);
        while (cluster->first < cluster->end && cluster->packets[cluster->first % PACKETS_MAX].at <= next) {
            deliver(cluster);
        }
        set_time(cluster, next);
        for (uint32_t i = 0; cluster->saves && i < cluster->count; i++) {
            if (cluster->nodes[i].core != NULL) {
                tend_store(cluster, i);
            }
        }
        for (uint32_t i = 0; i < cluster->count; i++) {
            if (cluster->nodes[i].core != NULL && hr_core_deadline(cluster->nodes[i].core) <= next) {
                hr_core_tick(cluster->nodes[i].core, cluster->now);
                drain(cluster, i);
            }
        }
    }
}

static uint32_t ask(struct cluster *cluster, uint32_t node, enum hr_method method, const struct hr_params *params)
{
    static char bytes[65536];
    uint32_t number = cluster->request_count++;
    struct hr_packer encoded = {.at = bytes, .room = sizeof(bytes)};
    struct hr_packer out = {.at = cluster->answer, .room = sizeof(cluster->answer)};
    assert_true(number < REQUESTS_MAX);
    hr_params_encode(params, &encoded);
    struct hr_call call = {.connection = 1, .msgid = number, .method = method, .params = hr_packer_bytes(&encoded)};
    if (number % 2 == 0) {
        hr_core_prepare(cluster->nodes[node].core, &call, 1);
    }
    enum hr_served served = hr_core_serve(cluster->nodes[node].core, &call, cluster->now, &out);
    assert_int_not_equal(served, HR_SERVED_ELSEWHERE);
    if (served == HR_SERVED_ANSWERED) {
        note_answer(cluster, &call, hr_packer_bytes(&out));
    }
    drain(cluster, node);
    return number;
}

static void params_of(const char *const *names, const char *const *values, uint32_t count, struct hr_params *params)
{
    *params = (struct hr_params){.cost = 1, .detail = true, .attribute_count = count};
    params->present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(HR_PARAM_COST);
    for (uint32_t i = 0; i < count; i++) {
        params->attributes[i] = (struct hr_attribute){hr_span_of(names[i]), hr_span_of(values[i])};
    }
}

static const char *const user_name[] = {"user"}, *const ann[] = {"ann"};
static const char *const three_names[] = {"user", "plan", "route"}, *const three_values[] = {"ann", "pro", "/a"};

static uint32_t check_user(struct cluster *cluster, uint32_t node)
{
    static struct hr_params params;
    params_of(user_name, ann, 1, &params);
    return ask(cluster, node, HR_METHOD_CHECK, &params);
}

/* Touches three limits, whose counters have owners of their own. */
static uint32_t check_three(struct cluster *cluster, uint32_t node, const char *id)
{
    static struct hr_params params;
    params_of(three_names, three_values, 3, &params);
    if (id != NULL) {
        params.id = hr_span_of(id);
        params.present |= HR_PARAM_BIT(HR_PARAM_ID);
    }
    return ask(cluster, node, HR_METHOD_CHECK, &params);
}

static const struct hr_span user_key = {"user", 4}, plan_key = {"plan", 4}, route_key = {"route", 5};

static struct hr_limit limit_of(const char *name, const struct hr_span *key, struct hr_rule rule)
{
    return (struct hr_limit){.name = hr_span_of(name), .key = key, .key_count = 1, .rule = rule};
}

static struct hr_rule quota_of(uint64_t n)
{
    return (struct hr_rule){.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = n};
}

static struct cluster *open_quotas(uint64_t seed, uint32_t nodes, uint64_t user_n, uint64_t other_n)
{
    const struct hr_limit limits[] = {
        limit_of("user", &user_key, quota_of(user_n)),
        limit_of("plan", &plan_key, quota_of(other_n)),
        limit_of("route", &route_key, quota_of(other_n)),
    };
    return open_cluster(seed, nodes, limits, COUNT(limits));
}

/* Runs until the region has settled: each node knows all, and each partition has an owner who answers. */
static void settle(struct cluster *cluster)
{
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t held = 0, live = 0;
        run(cluster, MS(200));
        for (uint32_t n = 0; n < cluster->count; n++) {
            if (cluster->nodes[n].core != NULL) {
                held += hr_tenure_counts(hr_core_tenure(cluster->nodes[n].core), cluster->now.steady).held;
                live++;
            }
        }
        uint32_t most = 0;
        for (uint32_t n = 0; n < cluster->count; n++) {
            if (cluster->nodes[n].core != NULL) {
                uint32_t own = hr_tenure_counts(hr_core_tenure(cluster->nodes[n].core), cluster->now.steady).held;
                most = own > most ? own : most;
            }
        }
        if (held == HR_PARTITIONS && (live == 1 || most < HR_PARTITIONS * 3 / 4)) {
            run(cluster, MS(200));
            return;
        }
    }
    fail_msg("the region does not settle");
}

/* --- tests --- */

static void a_node_that_is_alone_answers_at_once_and_writes_nothing(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(1, 1, 5, 5);
    struct hr_packet packet;
    uint32_t allowed = 0;
    for (int i = 0; i < 8; i++) {
        uint32_t number = check_user(cluster, 0);
        assert_true(cluster->requests[number].is_answered);
        allowed += cluster->requests[number].allowed;
    }
    assert_int_equal(allowed, 5);
    assert_false(hr_core_next_packet(cluster->nodes[0].core, cluster->now, &packet));
    assert_true(hr_core_leave(cluster->nodes[0].core, cluster->now));
    close_cluster(cluster);
}

static void a_region_admits_exactly_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct cluster *cluster = open_quotas(seed, 3, 100, 100);
        uint32_t allowed = 0, degraded = 0;
        settle(cluster);
        for (uint32_t i = 0; i < 300; i++) {
            (void)check_user(cluster, i % 3);
            if (i % 5 == 0) {
                run(cluster, MS(1));
            }
        }
        run(cluster, MS(100));
        for (uint32_t i = 0; i < 300; i++) {
            assert_int_equal(cluster->requests[i].answers, 1);
            allowed += cluster->requests[i].allowed;
            degraded += cluster->requests[i].degraded;
        }
        if (allowed != 100 || degraded != 0) {
            fail_msg("seed %llu: %u allowed, %u degraded", (unsigned long long)seed, allowed, degraded);
        }
        close_cluster(cluster);
    }
}

static uint64_t sent_by(const struct cluster *cluster, uint32_t node)
{
    return hr_router_counts(hr_core_router(cluster->nodes[node].core)).sent;
}

static uint64_t letters_of(const struct cluster *cluster)
{
    uint64_t letters = 0;
    for (uint32_t i = 0; i < cluster->count; i++) {
        letters += hr_router_counts(hr_core_router(cluster->nodes[i].core)).letters;
    }
    return letters;
}

/* A node that sends ann's requests on. */
static uint32_t not_owner(struct cluster *cluster)
{
    uint64_t sent = sent_by(cluster, 0);
    (void)check_user(cluster, 0);
    run(cluster, MS(20));
    return sent_by(cluster, 0) > sent ? 0 : 1;
}

/* As a connection does that reads many requests at once: they are prepared in groups, and nothing is sent before all
 * have been served. */
static void ask_together(struct cluster *cluster, uint32_t node, const struct hr_params *params, uint32_t count)
{
    static char bytes[1024];
    struct hr_packer encoded = {.at = bytes, .room = sizeof(bytes)};
    hr_params_encode(params, &encoded);
    for (uint32_t done = 0; done < count; done += HR_TOGETHER_MAX) {
        struct hr_call calls[HR_TOGETHER_MAX];
        for (uint32_t i = 0; i < HR_TOGETHER_MAX; i++) {
            calls[i] = (struct hr_call){.connection = 1,
                                        .msgid = cluster->request_count++,
                                        .method = HR_METHOD_CHECK,
                                        .params = hr_packer_bytes(&encoded)};
        }
        hr_core_prepare(cluster->nodes[node].core, calls, HR_TOGETHER_MAX);
        for (uint32_t i = 0; i < HR_TOGETHER_MAX; i++) {
            struct hr_packer out = {.at = cluster->answer, .room = sizeof(cluster->answer)};
            enum hr_served served = hr_core_serve(cluster->nodes[node].core, &calls[i], cluster->now, &out);
            assert_int_equal(served, HR_SERVED_WAITING);
        }
    }
    drain(cluster, node);
}

/* All letters of a turn to one node leave in one write (peer_uv.h): so these are the writes between the two. */
static void a_batch_of_64_for_another_node_takes_one_letter_each_way(void **state)
{
    (void)state;
    static struct hr_params params;
    struct cluster *cluster = open_quotas(21, 3, 1000, 1000);
    settle(cluster);
    uint32_t node = not_owner(cluster), first = cluster->request_count;
    uint64_t letters = letters_of(cluster);
    params_of(user_name, ann, 1, &params);
    ask_together(cluster, node, &params, 64);
    run(cluster, MS(20));
    assert_int_equal(letters_of(cluster), letters + 2);
    for (uint32_t i = 0; i < 64; i++) {
        const struct request *request = &cluster->requests[first + i];
        if (request->answers != 1 || !request->allowed || request->degraded || request->remaining != 998 - i) {
            fail_msg("request %u: %u answers, %llu left", i, request->answers, (unsigned long long)request->remaining);
        }
    }
    close_cluster(cluster);
}

static void an_id_is_answered_once_through_any_node(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(4, 3, 10, 10);
    settle(cluster);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            (void)check_three(cluster, i, "the-same");
        }
        run(cluster, round % 2 == 0 ? MS(1) : MS(50));
    }
    run(cluster, MS(600));
    for (uint32_t i = 0; i < 12; i++) {
        struct request *request = &cluster->requests[i];
        if (request->answers != 1 || !request->allowed || request->remaining != 9) {
            fail_msg("request %u: %u answers, fault %d %d, allowed %d, %llu left", i, request->answers,
                     request->is_fault, request->code, request->allowed, (unsigned long long)request->remaining);
        }
    }
    uint32_t other = check_three(cluster, 1, NULL);
    run(cluster, MS(50));
    assert_int_equal(cluster->requests[other].remaining, 8);
    close_cluster(cluster);
}

static void a_denial_of_one_limit_spends_nothing_of_the_others(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(5, 3, 1000, 7);
    uint32_t allowed = 0;
    settle(cluster);
    for (uint32_t i = 0; i < 60; i++) {
        (void)check_three(cluster, i % 3, NULL);
        run(cluster, MS(1));
    }
    run(cluster, MS(500));
    for (uint32_t i = 0; i < 60; i++) {
        assert_int_equal(cluster->requests[i].answers, 1);
        allowed += cluster->requests[i].allowed;
    }
    assert_int_equal(allowed, 7);
    uint32_t number = check_user(cluster, 2);
    run(cluster, MS(50));
    assert_int_equal(cluster->requests[number].remaining, 1000 - 7 - 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(hr_holds_open_count(hr_core_holds(cluster->nodes[i].core)), 0);
    }
    close_cluster(cluster);
}

static void a_lease_is_released_through_any_node(void **state)
{
    (void)state;
    const struct hr_limit limit =
        limit_of("slots", &user_key,
                 (struct hr_rule){.algorithm = HR_CONCURRENCY, .capacity = 1, .ttl_ns = (uint64_t)(60 * HR_NS_PER_S)});
    struct cluster *cluster = open_cluster(6, 3, &limit, 1);
    settle(cluster);
    for (uint32_t i = 0; i < 9; i++) {
        static struct hr_params params;
        uint32_t taken = check_user(cluster, i % 3);
        run(cluster, MS(10));
        assert_true(cluster->requests[taken].allowed);
        params = (struct hr_params){.lease = cluster->requests[taken].lease, .present = HR_PARAM_BIT(HR_PARAM_LEASE)};
        uint32_t released = ask(cluster, i / 3, HR_METHOD_RELEASE, &params);
        run(cluster, MS(10));
        assert_true(cluster->requests[released].flag);
    }
    close_cluster(cluster);
}

static void a_dead_owner_is_answered_for_until_its_counters_have_another(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(7, 3, 1000, 1000);
    settle(cluster);
    uint32_t before = check_user(cluster, 0);
    run(cluster, MS(20));
    assert_true(cluster->requests[before].allowed && !cluster->requests[before].degraded);
    uint32_t dead = 0;
    for (uint32_t i = 0; i < 3; i++) { /* the owner is the one that does not send it on */
        uint64_t sent = hr_router_counts(hr_core_router(cluster->nodes[i].core)).sent;
        (void)check_user(cluster, i);
        run(cluster, MS(20));
        dead = hr_router_counts(hr_core_router(cluster->nodes[i].core)).sent == sent ? i : dead;
    }
    end_life(cluster, dead);
    uint32_t during = check_user(cluster, (dead + 1) % 3);
    run(cluster, MS(60));
    assert_true(cluster->requests[during].is_answered && cluster->requests[during].degraded);
    assert_true(cluster->requests[during].allowed);
    settle(cluster);
    uint32_t after = check_user(cluster, (dead + 2) % 3);
    run(cluster, MS(60));
    assert_true(cluster->requests[after].is_answered && !cluster->requests[after].degraded);
    close_cluster(cluster);
}

/* The answers of 30 ids, some of one owner's counter and some over three; then a node leaves, and all is asked again.
 */
static void an_id_is_remembered_where_its_counters_go(void **state)
{
    (void)state;
    static struct hr_params params;
    static char users[30][8], ids[30][8];
    struct cluster *cluster = open_quotas(11, 3, 1000, 1000);
    settle(cluster);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 30; i++) {
            (void)snprintf(users[i], sizeof(users[i]), "user%u", i);
            (void)snprintf(ids[i], sizeof(ids[i]), "id%u", i);
            const char *const values[] = {users[i], "pro", "/a"};
            params_of(three_names, values, i % 2 == 0 ? 1 : 3, &params);
            params.id = hr_span_of(ids[i]);
            params.present |= HR_PARAM_BIT(HR_PARAM_ID);
            (void)ask(cluster, i % 2, HR_METHOD_CHECK, &params);
            run(cluster, MS(20));
        }
        bool has_left = round > 0;
        for (uint32_t i = 0; i < 500 && !has_left; i++) {
            has_left = hr_core_leave(cluster->nodes[2].core, cluster->now);
            run(cluster, MS(10));
        }
        run(cluster, MS(500));
        end_life(cluster, 2);
        assert_true(has_left);
    }
    for (uint32_t i = 0; i < 30; i++) {
        const struct request *first = &cluster->requests[i], *again = &cluster->requests[30 + i];
        if (first->remaining != 999 || again->remaining != 999 || again->degraded) {
            fail_msg("id %u: %llu, then %llu left", i, (unsigned long long)first->remaining,
                     (unsigned long long)again->remaining);
        }
    }
    close_cluster(cluster);
}

static void a_node_that_leaves_takes_no_count_with_it(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(8, 3, 1000, 1000);
    settle(cluster);
    for (uint32_t i = 0; i < 30; i++) {
        (void)check_three(cluster, i % 3, NULL);
        run(cluster, MS(2));
    }
    run(cluster, MS(100));
    bool has_left = false;
    for (uint32_t i = 0; i < 500 && !has_left; i++) {
        has_left = hr_core_leave(cluster->nodes[2].core, cluster->now);
        (void)check_three(cluster, i % 2, NULL);
        run(cluster, MS(10));
    }
    assert_true(has_left);
    run(cluster, MS(500));
    end_life(cluster, 2);
    settle(cluster);
    uint32_t admitted = 0, last = check_user(cluster, 0);
    run(cluster, MS(50));
    for (uint32_t i = 0; i < cluster->request_count; i++) {
        assert_int_equal(cluster->requests[i].answers, 1);
        assert_false(cluster->requests[i].is_fault);
        admitted += cluster->requests[i].allowed;
    }
    assert_int_equal(cluster->requests[last].remaining, 1000 - admitted);
    close_cluster(cluster);
}

static void what_is_reserved_at_several_owners_waits_for_their_stores(void **state)
{
    (void)state;
    struct hr_limit limits[] = {
        limit_of("user", &user_key, quota_of(40)),
        limit_of("plan", &plan_key, quota_of(1000)),
        limit_of("route", &route_key, quota_of(1000)),
    };
    for (size_t i = 0; i < COUNT(limits); i++) {
        limits[i].durability = HR_RESERVED;
    }
    struct cluster *cluster = open_cluster_with(10, 3, limits, COUNT(limits), true);
    uint32_t allowed = 0, faults = 0, degraded = 0;
    settle(cluster);
    for (uint32_t i = 0; i < 200; i++) {
        (void)check_three(cluster, i % 3, NULL);
        run(cluster, MS(5));
    }
    run(cluster, MS(2000));
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(cluster->requests[i].answers, 1);
        allowed += cluster->requests[i].allowed && !cluster->requests[i].degraded;
        degraded += cluster->requests[i].degraded;
        faults += cluster->requests[i].is_fault;
    }
    print_message("%u allowed, %u degraded, %u faults\n", allowed, degraded, faults);
    uint32_t last = check_user(cluster, 1);
    run(cluster, MS(500));
    assert_true(allowed <= 40 && allowed >= 30);
    assert_true(cluster->requests[last].is_answered && !cluster->requests[last].degraded);
    close_cluster(cluster);
}

/* Several users, so that each node has something for its store; and no more requests than there is room for. */
static void ask_around(struct cluster *cluster, uint32_t but)
{
    static const char *const users[] = {"ann", "bob", "cyd", "dan", "eve", "fay"};
    struct hr_params params;
    const char *user = users[cluster->now.steady / MS(1) % 6];
    params_of(user_name, &user, 1, &params);
    if (cluster->now.steady / MS(1) % 2 == 0 && cluster->request_count < REQUESTS_MAX) {
        (void)ask(cluster, (but + 1) % 3, HR_METHOD_CHECK, &params);
    }
}

/* What the tenure wants stored must not be taken for stored because a batch of the shard's was: tend_store looks. */
static void one_batch_at_a_time_is_with_the_store_while_nodes_come_and_go(void **state)
{
    (void)state;
    const struct hr_limit limit = limit_of("user", &user_key, quota_of(1000000));
    struct cluster *cluster = open_cluster_with(11, 3, &limit, 1, true);
    cluster->flush_ns = MS(1); /* from the second lives on: there is always a batch */
    for (uint32_t round = 0; round < 12; round++) {
        uint32_t leaver = round % 3;
        bool has_left = false;
        settle(cluster);
        for (uint32_t i = 0; i < 2000 && !has_left; i++) {
            has_left = hr_core_leave(cluster->nodes[leaver].core, cluster->now);
            ask_around(cluster, leaver);
            run(cluster, MS(1));
        }
        if (!has_left) {
            fail_msg("round %u: a node does not get away", (unsigned)round);
        }
        run(cluster, MS(300)); /* the others hear of it */
        end_life(cluster, leaver);
        begin_life(cluster, leaver);
        for (uint32_t i = 0; i < 500; i++) {
            ask_around(cluster, leaver);
            run(cluster, MS(1));
        }
    }
    close_cluster(cluster);
}

/* The node that answers for the user at once, without asking another. */
static uint32_t owner_of_user(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->count; i++) {
        uint32_t number = check_user(cluster, i);
        if (cluster->requests[number].is_answered) {
            return i;
        }
        run(cluster, MS(5));
    }
    fail_msg("nobody owns the counter");
    return 0;
}

/* What a batch says was used of a quota that is the only one; 0: it says nothing. */
static uint64_t used_by(const struct hr_store_batch *batch)
{
    struct hr_segment_reader reader;
    struct hr_counter_image image;
    struct hr_record record;
    struct hr_batch_op op;
    size_t offset = 0;
    uint64_t used = 0;
    bool is_forgotten;
    while (hr_batch_next(batch, &offset, &op)) {
        bool is_segment = op.is_put && hr_record_decode(op.key, op.value, &record) == HR_OK &&
                          record.kind == HR_RECORD_COUNTER && hr_segment_open(&record, &reader) == HR_OK;
        while (is_segment && hr_segment_next(&reader, &image, &is_forgotten) == HR_OK) {
            used = image.words[1];
        }
    }
    return used;
}

/* Its last batch is stored, but the network is gone before its standbys have it, and something is spent after that: as
 * where a whole region is stopped at once. */
static void what_is_left_to_be_saved_is_saved_at_a_stop_though_no_standby_answers(void **state)
{
    (void)state;
    const struct hr_limit limit = limit_of("user", &user_key, quota_of(1000));
    struct cluster *cluster = open_cluster_with(12, 3, &limit, 1, true);
    settle(cluster);
    uint32_t owner = owner_of_user(cluster);
    struct node *node = &cluster->nodes[owner];
    do { /* all of that is saved */
        run(cluster, MS(300));
    } while (node->ticket != 0);
    (void)check_user(cluster, owner);
    const struct hr_store_batch *batch = NULL;
    uint64_t ticket;
    for (uint32_t i = 0; i < 300 && (batch == NULL || used_by(batch) == 0); i++) {
        set_time(cluster, cluster->now.steady + MS(1)); /* no letter comes any more */
        batch = hr_core_next_batch(node->core, cluster->now, false, &ticket);
        if (batch != NULL && used_by(batch) == 0) {
            hr_core_persisted(node->core, ticket, HR_OK, cluster->now);
        }
    }
    assert_non_null(batch);
    uint64_t before = used_by(batch), after = before;
    uint32_t last = check_user(cluster, owner);
    assert_true(cluster->requests[last].is_answered && cluster->requests[last].allowed);
    hr_core_persisted(node->core, ticket, HR_OK, cluster->now);
    assert_null(hr_core_next_batch(node->core, cluster->now, true, &ticket)); /* its standby may answer yet */
    hr_core_drain(node->core, cluster->now);
    while ((batch = hr_core_next_batch(node->core, cluster->now, true, &ticket)) != NULL) {
        after = used_by(batch) > 0 ? used_by(batch) : after;
        hr_core_persisted(node->core, ticket, HR_OK, cluster->now);
    }
    assert_int_equal(after, before + 1);
    close_cluster(cluster);
}

static uint32_t held_by(const struct cluster *cluster, uint32_t node)
{
    return hr_tenure_counts(hr_core_tenure(cluster->nodes[node].core), cluster->now.steady).held;
}

/* The record of the charter, if a batch has it, is copied into the bytes. */
static bool take_charter(const struct hr_store_batch *batch, char bytes[HR_TENURE_BATCH_BYTES],
                         struct hr_record *ret_record)
{
    struct hr_record record;
    struct hr_batch_op op;
    for (size_t offset = 0; hr_batch_next(batch, &offset, &op);) {
        bool is_decoded = op.is_put && hr_record_decode(op.key, op.value, &record) == HR_OK;
        if (is_decoded && record.kind == HR_RECORD_TENURE) { /* the vote comes behind it */
            assert_true(record.key.bytes + record.payload.bytes <= HR_TENURE_BATCH_BYTES);
            memcpy(bytes, record.key.at, record.key.bytes);
            memcpy(bytes + record.key.bytes, record.payload.at, record.payload.bytes);
            record.key.at = bytes;
            record.payload.at = bytes + record.key.bytes;
            *ret_record = record;
            return true;
        }
    }
    return false;
}

static void a_stop_while_partitions_come_forgets_none_that_has_come(void **state)
{
    (void)state;
    static char bytes[HR_TENURE_BATCH_BYTES];
    const struct hr_limit limit = limit_of("user", &user_key, quota_of(1000));
    struct cluster *cluster = open_cluster_with(13, 3, &limit, 1, true);
    settle(cluster);
    struct node *node = &cluster->nodes[0];
    uint32_t before = held_by(cluster, 0);
    for (uint32_t i = 0; i < 1000 && held_by(cluster, 0) < before + 10; i++) {
        (void)hr_core_leave(cluster->nodes[2].core, cluster->now);
        run(cluster, MS(1));
    }
    uint32_t held = held_by(cluster, 0);
    assert_true(held >= before + 10);
    if (node->ticket != 0) {
        hr_core_persisted(node->core, node->ticket, HR_OK, cluster->now);
    }
    hr_core_drain(node->core, cluster->now);
    const struct hr_store_batch *batch;
    struct hr_record charter = {.payload = {"", 0}};
    uint64_t ticket;
    while ((batch = hr_core_next_batch(node->core, cluster->now, true, &ticket)) != NULL) {
        (void)take_charter(batch, bytes, &charter);
        hr_core_persisted(node->core, ticket, HR_OK, cluster->now);
    }
    end_life(cluster, 0);
    begin_life(cluster, 0);
    assert_int_equal(hr_core_restore_tenure(cluster->nodes[0].core, &charter, cluster->now), HR_OK);
    assert_int_equal(held_by(cluster, 0), held);
    close_cluster(cluster);
}

static void bytes_that_nobody_sealed_change_nothing(void **state)
{
    (void)state;
    struct cluster *cluster = open_quotas(9, 3, 10, 10);
    char bytes[600];
    settle(cluster);
    for (uint32_t i = 0; i < 2000; i++) {
        size_t count = (size_t)hr_rng_below(&cluster->rng, sizeof(bytes));
        for (size_t b = 0; b < count; b++) {
            bytes[b] = (char)hr_rng_below(&cluster->rng, 256);
        }
        hr_core_receive(cluster->nodes[i % 3].core, (struct hr_span){bytes, count}, cluster->now);
    }
    uint32_t number = check_user(cluster, 1);
    run(cluster, MS(20));
    assert_int_equal(cluster->requests[number].remaining, 9);
    close_cluster(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_is_alone_answers_at_once_and_writes_nothing),
        cmocka_unit_test(a_region_admits_exactly_the_limit),
        cmocka_unit_test(a_batch_of_64_for_another_node_takes_one_letter_each_way),
        cmocka_unit_test(an_id_is_answered_once_through_any_node),
        cmocka_unit_test(a_denial_of_one_limit_spends_nothing_of_the_others),
        cmocka_unit_test(a_lease_is_released_through_any_node),
        cmocka_unit_test(a_dead_owner_is_answered_for_until_its_counters_have_another),
        cmocka_unit_test(an_id_is_remembered_where_its_counters_go),
        cmocka_unit_test(a_node_that_leaves_takes_no_count_with_it),
        cmocka_unit_test(what_is_reserved_at_several_owners_waits_for_their_stores),
        cmocka_unit_test(one_batch_at_a_time_is_with_the_store_while_nodes_come_and_go),
        cmocka_unit_test(what_is_left_to_be_saved_is_saved_at_a_stop_though_no_standby_answers),
        cmocka_unit_test(a_stop_while_partitions_come_forgets_none_that_has_come),
        cmocka_unit_test(bytes_that_nobody_sealed_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
