/* The cores of one node, each a slice of it, as nodes inside a node: letters through rings are all that passes between
 * them, in turns whose order follows from a seed, under virtual time, with a store that is slow and fails now and then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/core.h"
#include "node/ring.h"
#include "rpc/told.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS(n) ((n)*HR_NS_PER_MS)
#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define CORES_MAX 4
#define RING_BYTES (256U << 10)
#define REQUESTS_MAX 8192

struct request {
    uint32_t answers, allowed_count;
    bool is_fault, allowed, degraded, flag;
    char fault[96];
    uint64_t remaining;
    struct hr_id128 leases[2];
};

struct mate {
    struct hr_core *core;
    void *memory;
    size_t bytes;
    uint64_t ticket; /* on its way to the store; 0: none */
    hr_ns stored_at;
};

struct crew {
    struct hr_rng rng;
    struct hr_now now;
    uint32_t count, calls_max;
    struct mate mates[CORES_MAX];
    struct hr_ring rings[CORES_MAX][CORES_MAX];
    struct hr_limit limits[3];
    struct hr_limit_set set;
    void *set_memory;
    struct request requests[REQUESTS_MAX];
    uint32_t request_count;
    char answer[HR_FRAME_BYTES_MAX];
};

static void open_mate(struct crew *crew, uint32_t number)
{
    struct mate *mate = &crew->mates[number];
    const struct hr_core_config config = {
        .shard = {.sizes = {.counters_max = 4096,
                            .leases_max = 256,
                            .log_blocks_max = 64,
                            .limits_max = 8,
                            .reserves_max = 64,
                            .saves = true},
                  .secret = {{1}},
                  .node = HR_SPAN("eu-1"),
                  .region = HR_SPAN("eu"),
                  .first_serial = (uint64_t)number << 56,
                  .flush_interval_ns = MS(100),
                  .waiting_max = 1024,
                  .replies_bytes = 4U << 20,
                  .replies_max = 1024,
                  .hot_keys_max = 8,
                  .slice = {number, crew->count}},
        .secret = {{1}},
        .is_alone = true,
        .rng_seed = (uint64_t)(number + 1) << 40,
        .calls_max = crew->calls_max,
    };
    mate->bytes = hr_core_bytes(&config);
    assert_true(mate->bytes > 0);
    mate->memory = mmap(NULL, mate->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(mate->memory, MAP_FAILED);
    mate->core = hr_core_init(&config, crew->now, mate->memory, mate->bytes);
    assert_non_null(mate->core);
    assert_int_equal(hr_core_load(mate->core, &crew->set, crew->now), HR_OK);
    for (uint32_t to = 0; to < crew->count; to++) {
        void *memory = aligned_alloc(8, RING_BYTES);
        assert_non_null(memory);
        hr_ring_init(&crew->rings[number][to], memory, RING_BYTES);
    }
}

static struct crew *open_small_crew(uint64_t seed, uint32_t count, uint32_t calls_max, const struct hr_limit *limits,
                                    uint32_t limit_count)
{
    struct crew *crew = aligned_alloc(64, (sizeof(*crew) + 63) & ~(size_t)63);
    assert_non_null(crew);
    memset(crew, 0, sizeof(*crew));
    crew->rng.state = seed;
    crew->now = (struct hr_now){START_NS, {START_NS}};
    crew->count = count;
    crew->calls_max = calls_max;
    memcpy(crew->limits, limits, limit_count * sizeof(*limits));
    size_t bytes = hr_limit_set_bytes(crew->limits, limit_count);
    crew->set_memory = malloc(bytes);
    assert_non_null(crew->set_memory);
    assert_int_equal(hr_limit_set_build(&crew->set, crew->limits, limit_count, crew->set_memory, bytes), HR_OK);
    for (uint32_t i = 0; i < count; i++) {
        open_mate(crew, i);
    }
    return crew;
}

static struct crew *open_crew(uint64_t seed, uint32_t count, const struct hr_limit *limits, uint32_t limit_count)
{
    return open_small_crew(seed, count, 8192, limits, limit_count);
}

static void close_crew(struct crew *crew)
{
    for (uint32_t i = 0; i < crew->count; i++) {
        (void)munmap(crew->mates[i].memory, crew->mates[i].bytes);
        for (uint32_t to = 0; to < crew->count; to++) {
            free(crew->rings[i][to].memory);
        }
    }
    free(crew->set_memory);
    free(crew);
}

static void note_decision(struct request *request, struct hr_span result)
{
    static struct hr_told_decision decision;
    struct hr_unpacker in = {result};
    assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
    request->allowed = decision.allowed;
    request->degraded = decision.degraded;
    request->remaining = decision.row_count > 0 ? decision.rows[0].remaining : 0;
    for (uint32_t i = 0; i < decision.row_count && i < COUNT(request->leases); i++) {
        request->leases[i] = decision.rows[i].lease;
    }
}

static void note_many(struct request *request, struct hr_span result)
{
    static struct hr_told_decision decision;
    struct hr_unpacker in = {result};
    uint32_t count;
    assert_int_equal(hr_unpack_array(&in, &count), HR_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
        request->allowed_count += decision.allowed;
    }
}

static void note_answer(struct crew *crew, const struct hr_call *call, struct hr_span frame)
{
    struct hr_message message;
    struct hr_fault fault;
    assert_true(call->msgid < crew->request_count);
    struct request *request = &crew->requests[call->msgid];
    assert_int_equal(hr_message_decode(frame, &message), HR_OK);
    assert_int_equal(message.msgid, call->msgid);
    request->answers++;
    request->is_fault = hr_unpack_error(message.error, &fault);
    if (request->is_fault) {
        (void)snprintf(request->fault, sizeof(request->fault), "%.*s", (int)fault.bytes, fault.text);
        return;
    }
    if (call->method == HR_METHOD_CHECK || call->method == HR_METHOD_THROTTLE) {
        note_decision(request, message.result);
    } else if (call->method == HR_METHOD_CHECK_MANY) {
        note_many(request, message.result);
    } else {
        struct hr_span name = call->method == HR_METHOD_RELEASE ? HR_SPAN("released") : HR_SPAN("refunded");
        assert_int_equal(hr_unpack_flag(message.result, name, &request->flag), HR_OK);
    }
}

/* --- turns --- */

static void take_letters(struct crew *crew, uint32_t number)
{
    for (uint32_t from = 0; from < crew->count; from++) {
        uint8_t kind;
        struct hr_span body;
        while (hr_ring_next(&crew->rings[from][number], &kind, &body)) {
            hr_core_receive_letter(crew->mates[number].core, from, (enum hr_letter_kind)kind, body, crew->now);
        }
    }
}

static bool has_room(struct crew *crew, uint32_t number)
{
    bool has = true;
    for (uint32_t to = 0; to < crew->count; to++) {
        has &= hr_ring_has_room(&crew->rings[number][to], HR_CORE_LETTER_BYTES_MAX);
    }
    return has;
}

static void send_letters(struct crew *crew, uint32_t number)
{
    struct hr_core_letter letter;
    while (has_room(crew, number) && hr_core_next_letter(crew->mates[number].core, crew->now, &letter)) {
        assert_true(letter.to < crew->count && letter.to != number);
        assert_true(hr_ring_put(&crew->rings[number][letter.to], (uint8_t)letter.kind, letter.body));
    }
    for (uint32_t to = 0; to < crew->count; to++) {
        (void)hr_ring_publish(&crew->rings[number][to]);
    }
}

static void tend_store(struct crew *crew, struct mate *mate)
{
    uint64_t ticket;
    if (mate->ticket != 0 && crew->now.steady >= mate->stored_at) {
        ticket = mate->ticket;
        mate->ticket = 0;
        hr_core_persisted(mate->core, ticket, hr_rng_chance(&crew->rng, 1, 50) ? HR_E_IO : HR_OK, crew->now);
    }
    if (mate->ticket == 0 && hr_core_next_batch(mate->core, crew->now, false, &ticket) != NULL) {
        mate->ticket = ticket;
        mate->stored_at = crew->now.steady + MS(3);
    }
}

/* As a worker's (worker_uv.c). */
static void turn(struct crew *crew, uint32_t number)
{
    struct mate *mate = &crew->mates[number];
    struct hr_packer out = {.at = crew->answer, .room = sizeof(crew->answer)};
    struct hr_call call;
    tend_store(crew, mate);
    take_letters(crew, number);
    hr_core_tick(mate->core, crew->now);
    for (; hr_core_next_answer(mate->core, crew->now, &out, &call); out.wanted = 0) {
        note_answer(crew, &call, hr_packer_bytes(&out));
    }
    send_letters(crew, number);
}

/* Cores take their turns as it comes: some often, some seldom. */
static void run(struct crew *crew, hr_ns ns)
{
    hr_ns end = crew->now.steady + ns;
    while (crew->now.steady < end) {
        crew->now.steady += MS(1) / 20;
        crew->now.wall.ns = crew->now.steady;
        turn(crew, (uint32_t)hr_rng_below(&crew->rng, crew->count));
    }
}

static uint32_t ask(struct crew *crew, uint32_t core, enum hr_method method, const struct hr_params *params)
{
    static char bytes[HR_FRAME_BYTES_MAX];
    uint32_t number = crew->request_count++;
    struct hr_packer encoded = {.at = bytes, .room = sizeof(bytes)};
    struct hr_packer out = {.at = crew->answer, .room = sizeof(crew->answer)};
    assert_true(number < REQUESTS_MAX);
    hr_params_encode(params, &encoded);
    struct hr_call call = {.connection = 1, .msgid = number, .method = method, .params = hr_packer_bytes(&encoded)};
    if (number % 2 == 0) {
        hr_core_prepare(crew->mates[core].core, &call, 1);
    }
    if (hr_core_serve(crew->mates[core].core, &call, crew->now, &out) == HR_SERVED_ANSWERED) {
        note_answer(crew, &call, hr_packer_bytes(&out));
    }
    return number;
}

/* --- requests --- */

static const char *const names[] = {"user", "plan"};

/* Either may be NULL: not given. */
static void params_of(const char *user, const char *plan, struct hr_params *params)
{
    const char *const values[] = {user, plan};
    *params = (struct hr_params){.cost = 1, .detail = true};
    params->present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(HR_PARAM_COST);
    for (uint32_t i = 0; i < COUNT(values); i++) {
        if (values[i] != NULL) {
            params->attributes[params->attribute_count++] =
                (struct hr_attribute){hr_span_of(names[i]), hr_span_of(values[i])};
        }
    }
}

static uint32_t check(struct crew *crew, uint32_t core, const char *user, const char *plan, const char *id)
{
    static struct hr_params params;
    params_of(user, plan, &params);
    if (id != NULL) {
        params.id = hr_span_of(id);
        params.present |= HR_PARAM_BIT(HR_PARAM_ID);
    }
    return ask(crew, core, HR_METHOD_CHECK, &params);
}

static const struct hr_span user_key = {"user", 4}, plan_key = {"plan", 4};

static struct crew *open_quotas(uint64_t seed, uint32_t cores, uint64_t user_n, uint64_t plan_n,
                                enum hr_durability durability)
{
    const struct hr_rule user = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = user_n};
    const struct hr_rule plan = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = plan_n};
    const struct hr_limit limits[] = {
        {.name = HR_SPAN("user"), .key = &user_key, .key_count = 1, .rule = user, .durability = durability},
        {.name = HR_SPAN("plan"), .key = &plan_key, .key_count = 1, .rule = plan, .durability = durability},
    };
    return open_crew(seed, cores, limits, COUNT(limits));
}

static const char *text_of(const char *prefix, uint32_t number)
{
    static char texts[4][32];
    static uint32_t next;
    char *text = texts[next++ % 4];
    (void)snprintf(text, sizeof(texts[0]), "%s%u", prefix, number);
    return text;
}

/* Every request has one answer, none of them a fault or a guess. How many were admitted. */
static uint32_t admitted(const struct crew *crew, uint32_t first)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < crew->request_count; i++) {
        const struct request *request = &crew->requests[i];
        if (request->answers != 1 || request->is_fault || request->degraded) {
            fail_msg("request %u: %u answers, fault \"%s\", degraded %d", i, request->answers, request->fault,
                     request->degraded);
        }
        count += request->allowed;
    }
    return count;
}

/* What is left of a user's quota, as any core says it. */
static uint64_t left_of(struct crew *crew, uint32_t core, const char *user, const char *plan)
{
    static struct hr_params params;
    params_of(user, plan, &params);
    params.peek = true;
    params.present |= HR_PARAM_BIT(HR_PARAM_PEEK);
    uint32_t number = ask(crew, core, HR_METHOD_CHECK, &params);
    run(crew, MS(20));
    assert_int_equal(crew->requests[number].answers, 1);
    return crew->requests[number].remaining;
}

/* --- tests --- */

static void a_limit_is_counted_exactly_whichever_core_is_asked(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint32_t cores = 2 + (uint32_t)(seed % 3);
        struct crew *crew = open_quotas(seed, cores, 50, 50, seed % 2 == 0 ? HR_PERIODIC : HR_RESERVED);
        for (uint32_t i = 0; i < 800; i++) {
            (void)check(crew, (uint32_t)hr_rng_below(&crew->rng, cores), text_of("u", i % 8), NULL, NULL);
            run(crew, i % 7 == 0 ? MS(1) : 0);
        }
        run(crew, MS(200));
        if (admitted(crew, 0) != 8 * 50) {
            fail_msg("seed %u: %u admitted", (unsigned)seed, admitted(crew, 0));
        }
        for (uint32_t core = 0; core < cores; core++) {
            assert_int_equal(left_of(crew, core, text_of("u", core), NULL), 0);
        }
        close_crew(crew);
    }
}

static void several_limits_on_several_cores_are_all_or_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint32_t cores = 2 + (uint32_t)(seed % 3);
        struct crew *crew = open_quotas(seed, cores, 60, 100, seed % 2 == 0 ? HR_PERIODIC : HR_RESERVED);
        for (uint32_t i = 0; i < 900; i++) {
            const char *user = text_of("u", i % 8), *plan = text_of("p", (i / 8) % 3);
            (void)check(crew, (uint32_t)hr_rng_below(&crew->rng, cores), user, plan, NULL);
            run(crew, MS(1) / 2);
        }
        run(crew, MS(400));
        uint32_t allowed = admitted(crew, 0);
        uint64_t user_spent = 0, plan_spent = 0;
        for (uint32_t i = 0; i < 8; i++) {
            user_spent += 60 - left_of(crew, i % cores, text_of("u", i), NULL);
        }
        for (uint32_t i = 0; i < 3; i++) {
            plan_spent += 100 - left_of(crew, i % cores, NULL, text_of("p", i));
        }
        if (allowed != 300 || user_spent != allowed || plan_spent != allowed) {
            fail_msg("seed %u: %u admitted, users spent %u, plans %u", (unsigned)seed, allowed, (unsigned)user_spent,
                     (unsigned)plan_spent);
        }
        for (uint32_t core = 0; core < cores; core++) {
            assert_int_equal(hr_holds_open_count(hr_core_holds(crew->mates[core].core)), 0);
        }
        close_crew(crew);
    }
}

static void an_id_is_charged_once_whichever_core_it_comes_to(void **state)
{
    (void)state;
    struct crew *crew = open_quotas(5, 4, 1000, 1000, HR_PERIODIC);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t id = i / 4;
        (void)check(crew, i % 4, text_of("u", id % 5), id % 2 == 0 ? NULL : text_of("p", id % 7), text_of("id", id));
        run(crew, i % 3 == 0 ? MS(1) : 0);
    }
    run(crew, MS(200));
    (void)admitted(crew, 0);
    uint64_t spent = 0;
    for (uint32_t i = 0; i < 5; i++) {
        spent += 1000 - left_of(crew, i % 4, text_of("u", i), NULL);
    }
    assert_int_equal(spent, 100);
    close_crew(crew);
}

static void a_lease_is_released_and_a_cost_given_back_through_any_core(void **state)
{
    (void)state;
    const struct hr_rule slots = {.algorithm = HR_CONCURRENCY, .capacity = 3, .ttl_ns = (uint64_t)(60 * HR_NS_PER_S)};
    const struct hr_rule quota = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = 20};
    const struct hr_limit limits[] = {
        {.name = HR_SPAN("user"), .key = &user_key, .key_count = 1, .rule = slots},
        {.name = HR_SPAN("plan"), .key = &plan_key, .key_count = 1, .rule = quota},
    };
    struct crew *crew = open_crew(9, 3, limits, COUNT(limits));
    static struct hr_params params;
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t got = check(crew, i % 3, text_of("u", i), NULL, NULL);
        run(crew, MS(10));
        assert_true(crew->requests[got].allowed);
        params = (struct hr_params){.present = HR_PARAM_BIT(HR_PARAM_LEASE), .lease = crew->requests[got].leases[0]};
        uint32_t first = ask(crew, (i + 1) % 3, HR_METHOD_RELEASE, &params);
        run(crew, MS(10));
        uint32_t second = ask(crew, (i + 2) % 3, HR_METHOD_RELEASE, &params);
        run(crew, MS(10));
        assert_true(crew->requests[first].flag);
        assert_false(crew->requests[second].flag);
        assert_int_equal(left_of(crew, i % 3, text_of("u", i), NULL), 3);
    }
    uint32_t both = check(crew, 0, "u1", "p1", NULL);
    run(crew, MS(20));
    assert_true(crew->requests[both].allowed);
    params_of("u1", "p1", &params);
    uint32_t refund = ask(crew, 1, HR_METHOD_REFUND, &params);
    run(crew, MS(20));
    assert_true(crew->requests[refund].flag);
    assert_int_equal(left_of(crew, 2, NULL, "p1"), 20);
    close_crew(crew);
}

/* More at a time than a core has places for, so that some are refused: nobody is left without an answer, and nothing
 * is admitted that was not counted. */
static void more_than_there_is_room_for_is_refused_and_never_lost(void **state)
{
    (void)state;
    const struct hr_rule quota = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = 100000};
    const struct hr_limit limit = {.name = HR_SPAN("user"), .key = &user_key, .key_count = 1, .rule = quota};
    struct crew *crew = open_small_crew(3, 2, 512, &limit, 1);
    for (uint32_t i = 0; i < 4000; i++) {
        (void)check(crew, i % 2, text_of("u", i % 16), NULL, NULL);
        run(crew, i % 2000 == 1999 ? MS(20) : 0);
    }
    run(crew, MS(300));
    uint32_t allowed = 0, refused = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        assert_int_equal(crew->requests[i].answers, 1);
        allowed += !crew->requests[i].is_fault && crew->requests[i].allowed;
        refused += crew->requests[i].is_fault;
    }
    uint64_t spent = 0;
    for (uint32_t i = 0; i < 16; i++) {
        spent += 100000 - left_of(crew, i % 2, text_of("u", i), NULL);
    }
    assert_true(refused > 0);
    assert_int_equal(allowed + refused, 4000);
    assert_int_equal(spent, allowed);
    close_crew(crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_counted_exactly_whichever_core_is_asked),
        cmocka_unit_test(several_limits_on_several_cores_are_all_or_nothing),
        cmocka_unit_test(an_id_is_charged_once_whichever_core_it_comes_to),
        cmocka_unit_test(a_lease_is_released_and_a_cost_given_back_through_any_core),
        cmocka_unit_test(more_than_there_is_room_for_is_refused_and_never_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
