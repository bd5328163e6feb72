/* The golden messages, in both directions: what is encoded is the file byte for byte, and the file decodes to what was
 * encoded. The files come from tests/golden/rpc/write.py, which shares no code with this. Then what a hostile network
 * makes of them: every prefix, and random changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "rpc/params.h"
#include "rpc/reply.h"
#include "rpc/session.h"
#include "rpc/told.h"
#include "tests/unit/rpc/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BIT(param) HR_PARAM_BIT(HR_PARAM_##param)

static const struct hr_session_limits session_limits = {HR_FRAME_BYTES_MAX, 16};

static const char *const names[] = {
    "request_check",         "request_check_least", "request_check_many",  "request_throttle",   "request_release",
    "request_renew",         "request_refund",      "request_limits_list", "request_limits_get", "request_limits_put",
    "request_limits_delete", "request_members",     "request_status",      "request_hot_keys",   "liberal_check",
    "liberal_status",        "notification",        "answer_allow",        "answer_deny",        "answer_delay",
    "answer_lease",          "answer_brief",        "answer_degraded",     "answer_check_many",  "answer_released",
    "answer_renewed",        "answer_refunded",     "answer_members",      "answer_error",
};

/* --- requests --- */

struct request {
    const char *name;
    uint64_t msgid;
    enum hr_method method;
    struct hr_params params;
};

static const struct request requests[] = {
    {"request_check",
     1,
     HR_METHOD_CHECK,
     {.present = BIT(ATTRIBUTES) | BIT(COST) | BIT(ID) | BIT(PEEK) | BIT(DETAIL),
      .attribute_count = 2,
      .attributes = {{{"api_key", 7}, {"k1", 2}}, {{"route", 5}, {"payments.write", 14}}},
      .cost = 2,
      .id = {"order-17", 8},
      .detail = true}},
    {"request_check_least",
     2,
     HR_METHOD_CHECK,
     {.present = BIT(ATTRIBUTES),
      .attribute_count = 1,
      .attributes = {{{"api_key", 7}, {"k1", 2}}},
      .cost = 1,
      .detail = true}},
    {"request_throttle",
     4,
     HR_METHOD_THROTTLE,
     {.present = BIT(KEY) | BIT(RATE) | BIT(BURST) | BIT(COST) | BIT(ALGORITHM) | BIT(SCOPE),
      .cost = 1,
      .detail = true,
      .key = {"user 17", 7},
      .rate = {"50/s", 4},
      .burst = 100,
      .algorithm = HR_GCRA,
      .scope = HR_SCOPE_GLOBAL}},
    {"request_release",
     5,
     HR_METHOD_RELEASE,
     {.present = BIT(LEASE), .cost = 1, .detail = true, .lease = {0x0011223344556677, 0x8899aabbccddeeff}}},
    {"request_renew",
     6,
     HR_METHOD_RENEW,
     {.present = BIT(LEASE), .cost = 1, .detail = true, .lease = {0x0011223344556677, 0x8899aabbccddeeff}}},
    {"request_refund",
     7,
     HR_METHOD_REFUND,
     {.present = BIT(ATTRIBUTES) | BIT(COST) | BIT(ID),
      .attribute_count = 1,
      .attributes = {{{"api_key", 7}, {"k1", 2}}},
      .cost = 2,
      .id = {"order-17", 8},
      .detail = true}},
    {"request_limits_list", 8, HR_METHOD_LIMITS_LIST, {.cost = 1, .detail = true}},
    {"request_limits_get",
     9,
     HR_METHOD_LIMITS_GET,
     {.present = BIT(NAME), .cost = 1, .detail = true, .name = {"key-rps", 7}}},
    {"request_limits_delete",
     11,
     HR_METHOD_LIMITS_DELETE,
     {.present = BIT(NAME), .cost = 1, .detail = true, .name = {"key-rps", 7}}},
    {"request_members",
     12,
     HR_METHOD_MEMBERS,
     {.present = BIT(PARTITIONS), .cost = 1, .detail = true, .partitions = true}},
    {"request_status", 13, HR_METHOD_STATUS, {.cost = 1, .detail = true}},
    {"request_hot_keys", UINT32_MAX, HR_METHOD_HOT_KEYS, {.cost = 1, .detail = true}},
};

static void assert_spans(struct hr_span got, struct hr_span wanted)
{
    assert_int_equal(got.bytes, wanted.bytes);
    assert_true(hr_span_equal(got, wanted));
}

static void assert_params(const struct hr_params *got, const struct hr_params *wanted)
{
    assert_int_equal(got->present, wanted->present);
    assert_int_equal(got->attribute_count, wanted->attribute_count);
    for (uint32_t i = 0; i < wanted->attribute_count; i++) {
        assert_spans(got->attributes[i].name, wanted->attributes[i].name);
        assert_spans(got->attributes[i].value, wanted->attributes[i].value);
    }
    assert_true(got->cost == wanted->cost);
    assert_true(got->burst == wanted->burst);
    assert_spans(got->id, wanted->id);
    assert_spans(got->key, wanted->key);
    assert_spans(got->rate, wanted->rate);
    assert_spans(got->name, wanted->name);
    assert_int_equal(got->peek, wanted->peek);
    assert_int_equal(got->detail, wanted->detail);
    assert_int_equal(got->partitions, wanted->partitions);
    assert_int_equal(got->algorithm, wanted->algorithm);
    assert_int_equal(got->scope, wanted->scope);
    assert_true(hr_id128_equal(got->lease, wanted->lease));
    assert_int_equal(got->requests.count, wanted->requests.count);
}

/* The only event of a frame, which it must use up. */
static struct hr_session_event only_event(struct hr_span frame)
{
    struct hr_session session;
    struct hr_session_event event;
    hr_session_init(&session, &session_limits);
    hr_session_next(&session, frame, &event);
    assert_int_equal(event.consumed, frame.bytes);
    return event;
}

static struct hr_session_event expect_request(struct hr_span frame, uint64_t msgid, enum hr_method method)
{
    struct hr_session_event event = only_event(frame);
    assert_int_equal(event.kind, HR_SESSION_REQUEST);
    assert_true(event.msgid == msgid);
    assert_int_equal(event.method, method);
    return event;
}

static void must_decode(const struct hr_session_event *event, struct hr_params *ret_params)
{
    struct hr_fault fault;
    if (!hr_params_decode(event->method, event->params, ret_params, &fault)) {
        fail_msg("%.*s", (int)fault.bytes, fault.text);
    }
}

static void a_request_is_its_golden_file_in_both_directions(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(requests); i++) {
        const struct request *row = &requests[i];
        struct hr_span golden = golden_load(row->name);
        char bytes[GOLDEN_BYTES_MAX];
        struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
        struct hr_params params;
        print_message("%s\n", row->name);
        hr_pack_request_head(&packer, row->msgid, hr_method_name(row->method));
        hr_params_encode(&row->params, &packer);
        assert_true(hr_packer_fits(&packer));
        assert_spans(hr_packer_bytes(&packer), golden);
        struct hr_session_event event = expect_request(golden, row->msgid, row->method);
        must_decode(&event, &params);
        assert_params(&params, &row->params);
        span_free(golden);
    }
}

static void check_many_is_its_golden_file_in_both_directions(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("request_check_many");
    char bytes[GOLDEN_BYTES_MAX];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    const struct hr_params wanted[] = {
        requests[1].params,
        {.present = BIT(ATTRIBUTES) | BIT(COST),
         .attribute_count = 1,
         .attributes = {{{"api_key", 7}, {"k2", 2}}},
         .cost = HR_COST_MAX,
         .detail = true},
    };
    hr_pack_request_head(&packer, 3, HR_SPAN("check_many"));
    hr_pack_requests_head(&packer, COUNT(wanted));
    for (size_t i = 0; i < COUNT(wanted); i++) {
        hr_params_encode(&wanted[i], &packer);
    }
    assert_spans(hr_packer_bytes(&packer), golden);
    struct hr_session_event event = expect_request(golden, 3, HR_METHOD_CHECK_MANY);
    struct hr_params params, one;
    must_decode(&event, &params);
    assert_int_equal(params.requests.count, COUNT(wanted));
    packer.wanted = 0;
    hr_pack_request_head(&packer, 3, HR_SPAN("check_many"));
    hr_params_encode(&params, &packer);
    assert_spans(hr_packer_bytes(&packer), golden);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        assert_true(hr_requests_next(&params.requests, &one));
        assert_params(&one, &wanted[i]);
    }
    assert_false(hr_requests_next(&params.requests, &one));
    span_free(golden);
}

static void a_limit_keeps_its_bytes(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("request_limits_put");
    struct hr_session_event event = expect_request(golden, 10, HR_METHOD_LIMITS_PUT);
    struct hr_params params;
    char bytes[GOLDEN_BYTES_MAX];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    must_decode(&event, &params);
    assert_spans(params.name, HR_SPAN("key-rps"));
    assert_spans(params.limit, event.params);
    hr_pack_request_head(&packer, 10, HR_SPAN("limits.put"));
    hr_params_encode(&params, &packer);
    assert_spans(hr_packer_bytes(&packer), golden);
    span_free(golden);
}

static void the_widest_formats_say_the_same(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("liberal_check");
    struct hr_session_event event = expect_request(golden, 7, HR_METHOD_CHECK);
    struct hr_params params, wanted = requests[1].params;
    wanted.present |= BIT(COST);
    wanted.cost = 2;
    must_decode(&event, &params);
    assert_params(&params, &wanted);
    span_free(golden);
}

static void no_params_are_an_empty_map(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("liberal_status");
    struct hr_session_event event = expect_request(golden, 14, HR_METHOD_STATUS);
    struct hr_params params;
    must_decode(&event, &params);
    assert_int_equal(params.present, 0);
    span_free(golden);
}

static void a_notification_has_no_msgid(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("notification");
    struct hr_session_event event = only_event(golden);
    assert_int_equal(event.kind, HR_SESSION_NOTIFICATION);
    assert_int_equal(event.method, HR_METHOD_STATUS);
    assert_false(event.has_msgid);
    span_free(golden);
}

/* --- decisions --- */

#define LIMIT(label, shadow, number)                                                                                   \
    {                                                                                                                  \
        .name = {label, sizeof(label) - 1}, .mode = (shadow) ? HR_SHADOW : HR_ENFORCE, .rule = {.capacity = (number) } \
    }

static const struct hr_limit key_rps = LIMIT("key-rps", false, 100);
static const struct hr_limit trial = LIMIT("trial", true, 5);
static const struct hr_limit month = LIMIT("month", false, HR_COST_MAX);
static const struct hr_limit smooth = LIMIT("smooth", false, 10);
static const struct hr_limit slots = LIMIT("slots", false, 8);

static const struct hr_decision allow = {
    .allowed = true,
    .action = HR_ALLOW,
    .row_count = 2,
    .rows = {{.limit = &key_rps, .allowed = true, .remaining = 98, .reset_after_ms = 40},
             {.limit = &trial, .retry_after_ms = 1500, .reset_after_ms = 60000}}};
static const struct hr_decision deny = {
    .action = HR_DENY,
    .decided_by = &key_rps,
    .retry_after_ms = 20,
    .row_count = 2,
    .rows = {{.limit = &key_rps, .retry_after_ms = 20, .reset_after_ms = 2000},
             {.limit = &month, .remaining = 7, .retry_after_ms = HR_NEVER_MS, .reset_after_ms = INT64_C(1) << 31}}};
static const struct hr_decision delay = {
    .allowed = true,
    .action = HR_DELAY,
    .delay_ms = 250,
    .row_count = 1,
    .rows = {{.limit = &smooth, .allowed = true, .remaining = 3, .reset_after_ms = 1750}}};
static const struct hr_decision lease = {.allowed = true,
                                         .action = HR_ALLOW,
                                         .row_count = 1,
                                         .rows = {{.limit = &slots,
                                                   .allowed = true,
                                                   .has_lease = true,
                                                   .remaining = 7,
                                                   .reset_after_ms = 60000,
                                                   .lease = {0x0011223344556677, 0x8899aabbccddeeff}}}};
static const struct hr_decision nothing = {.allowed = true, .action = HR_ALLOW};

static const struct {
    const char *name;
    uint64_t msgid;
    const struct hr_decision *decision;
    bool detail, degraded;
} decisions[] = {
    {"answer_allow", 1, &allow, true, false},    {"answer_deny", 1, &deny, true, false},
    {"answer_delay", 1, &delay, true, false},    {"answer_lease", 1, &lease, true, false},
    {"answer_brief", 2, &nothing, false, false}, {"answer_degraded", 2, &nothing, true, true},
};

static void assert_told_row(const struct hr_told_row *got, const struct hr_row *wanted)
{
    assert_spans(got->name, wanted->limit->name);
    assert_int_equal(got->allowed, wanted->allowed);
    assert_int_equal(got->mode, wanted->limit->mode);
    assert_true(got->limit == wanted->limit->rule.capacity);
    assert_true(got->remaining == wanted->remaining);
    assert_true(got->retry_after_ms == wanted->retry_after_ms);
    assert_true(got->reset_after_ms == wanted->reset_after_ms);
    assert_int_equal(got->has_lease, wanted->has_lease);
    assert_true(!wanted->has_lease || hr_id128_equal(got->lease, wanted->lease));
}

static void assert_told(const struct hr_told_decision *got, const struct hr_decision *wanted, bool degraded)
{
    assert_int_equal(got->allowed, wanted->allowed);
    assert_int_equal(got->action, wanted->action);
    assert_int_equal(got->degraded, degraded);
    assert_spans(got->decided_by, wanted->decided_by != NULL ? wanted->decided_by->name : HR_SPAN(""));
    assert_spans(got->node, HR_SPAN("eu-1"));
    assert_spans(got->region, HR_SPAN("eu"));
    assert_true(got->retry_after_ms == wanted->retry_after_ms);
    assert_true(got->delay_ms == wanted->delay_ms);
    assert_int_equal(got->row_count, wanted->row_count);
    for (uint32_t i = 0; i < wanted->row_count; i++) {
        assert_told_row(&got->rows[i], &wanted->rows[i]);
    }
}

static struct hr_origin eu_1(void)
{
    struct hr_origin origin;
    assert_int_equal(hr_origin_init(&origin, HR_SPAN("eu-1"), HR_SPAN("eu")), HR_OK);
    return origin;
}

/* The result of the one answer that the frame is. */
static struct hr_unpacker result_of(struct hr_span frame, uint64_t msgid)
{
    struct hr_session_event event = only_event(frame);
    struct hr_fault fault;
    assert_int_equal(event.kind, HR_SESSION_RESPONSE);
    assert_true(event.msgid == msgid);
    assert_false(hr_unpack_error(event.error, &fault));
    return (struct hr_unpacker){event.result};
}

static void a_decision_is_its_golden_file_in_both_directions(void **state)
{
    (void)state;
    struct hr_origin origin = eu_1();
    for (size_t i = 0; i < COUNT(decisions); i++) {
        struct hr_span golden = golden_load(decisions[i].name);
        char bytes[GOLDEN_BYTES_MAX];
        struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
        struct hr_decision_form form = {&origin, decisions[i].detail, decisions[i].degraded};
        struct hr_told_decision told;
        print_message("%s\n", decisions[i].name);
        hr_pack_result_head(&packer, decisions[i].msgid);
        hr_pack_decision(&packer, decisions[i].decision, &form);
        assert_spans(hr_packer_bytes(&packer), golden);
        struct hr_unpacker in = result_of(golden, decisions[i].msgid);
        assert_int_equal(hr_unpack_decision(&in, &told), HR_OK);
        assert_int_equal(in.left.bytes, 0);
        assert_told(&told, decisions[i].decision, decisions[i].degraded);
        span_free(golden);
    }
}

static void the_decisions_of_many_are_their_golden_file_in_both_directions(void **state)
{
    (void)state;
    struct hr_span golden = golden_load("answer_check_many");
    struct hr_origin origin = eu_1();
    struct hr_decision_form form = {.origin = &origin, .detail = true};
    char bytes[GOLDEN_BYTES_MAX];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_result_head(&packer, 3);
    hr_pack_array(&packer, 2);
    hr_pack_decision(&packer, &allow, &form);
    hr_pack_decision(&packer, &deny, &form);
    assert_spans(hr_packer_bytes(&packer), golden);
    struct hr_unpacker in = result_of(golden, 3);
    struct hr_told_decision told;
    uint32_t count;
    assert_int_equal(hr_unpack_array(&in, &count), HR_OK);
    assert_int_equal(count, 2);
    assert_int_equal(hr_unpack_decision(&in, &told), HR_OK);
    assert_told(&told, &allow, false);
    assert_int_equal(hr_unpack_decision(&in, &told), HR_OK);
    assert_told(&told, &deny, false);
    span_free(golden);
}

static void pack_small(struct hr_packer *packer, size_t row)
{
    struct hr_fault fault;
    switch (row) {
    case 0:
        hr_pack_released(packer, 5, true);
        return;
    case 1:
        hr_pack_renewed(packer, 6, true, 60000);
        return;
    case 2:
        hr_pack_refunded(packer, 7, false);
        return;
    default:
        hr_fault_set(&fault, HR_CODE_INVALID_ARGUMENT, "unknown key ");
        hr_fault_quote(&fault, HR_SPAN("burts"));
        hr_pack_error(packer, UINT32_MAX, &fault);
        return;
    }
}

static void small_answers_are_their_golden_files(void **state)
{
    (void)state;
    static const char *const small[] = {"answer_released", "answer_renewed", "answer_refunded", "answer_error"};
    for (size_t i = 0; i < COUNT(small); i++) {
        struct hr_span golden = golden_load(small[i]);
        char bytes[GOLDEN_BYTES_MAX];
        struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
        print_message("%s\n", small[i]);
        pack_small(&packer, i);
        assert_spans(hr_packer_bytes(&packer), golden);
        span_free(golden);
    }
}

static void small_answers_are_read_back(void **state)
{
    (void)state;
    struct hr_span released = golden_load("answer_released"), renewed = golden_load("answer_renewed");
    struct hr_span refunded = golden_load("answer_refunded"), error = golden_load("answer_error");
    struct hr_fault fault;
    bool flag = false;
    int64_t ttl_ms = 0;
    assert_int_equal(hr_unpack_flag(result_of(released, 5).left, HR_SPAN("released"), &flag), HR_OK);
    assert_true(flag);
    assert_int_equal(hr_unpack_flag(result_of(released, 5).left, HR_SPAN("renewed"), &flag), HR_E_NOT_FOUND);
    assert_int_equal(hr_unpack_number(result_of(renewed, 6).left, HR_SPAN("ttl_ms"), &ttl_ms), HR_OK);
    assert_int_equal(ttl_ms, 60000);
    assert_int_equal(hr_unpack_number(result_of(renewed, 6).left, HR_SPAN("renewed"), &ttl_ms), HR_E_INVALID);
    assert_int_equal(hr_unpack_flag(result_of(refunded, 7).left, HR_SPAN("refunded"), &flag), HR_OK);
    assert_false(flag);
    assert_true(hr_unpack_error(only_event(error).error, &fault));
    assert_int_equal(fault.code, HR_CODE_INVALID_ARGUMENT);
    assert_spans(hr_fault_text(&fault), HR_SPAN("unknown key \"burts\""));
    span_free(released);
    span_free(renewed);
    span_free(refunded);
    span_free(error);
}

/* A map for machines, by the calls that any result can be written with. */
static void members_are_their_golden_file(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"name", "eu-1"},
                                           {"region", "eu"},
                                           {"state", "alive"},
                                           {"rpc", "10.0.0.1:7400"},
                                           {"gossip", "tcp://10.0.0.1:7401"}};
    struct hr_span golden = golden_load("answer_members");
    char bytes[GOLDEN_BYTES_MAX];
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_result_head(&packer, 12);
    hr_pack_map(&packer, 2);
    hr_pack_text(&packer, HR_SPAN("view"));
    hr_pack_whole(&packer, 3);
    hr_pack_text(&packer, HR_SPAN("members"));
    hr_pack_array(&packer, 1);
    hr_pack_map(&packer, COUNT(pairs) + 1);
    for (size_t i = 0; i < COUNT(pairs); i++) {
        hr_pack_text(&packer, hr_span_of(pairs[i][0]));
        hr_pack_text(&packer, hr_span_of(pairs[i][1]));
    }
    hr_pack_text(&packer, HR_SPAN("incarnation"));
    hr_pack_whole(&packer, 1);
    assert_spans(hr_packer_bytes(&packer), golden);
    span_free(golden);
}

/* --- what a network makes of them --- */

static void read_all(const struct hr_session_event *event)
{
    static struct hr_told_decision told; /* too large for a stack of many frames */
    struct hr_fault fault;
    struct hr_params params;
    struct hr_unpacker in = {event->result};
    if (event->kind == HR_SESSION_REQUEST && hr_params_decode(event->method, event->params, &params, &fault)) {
        struct hr_params one;
        while (hr_requests_next(&params.requests, &one)) {
            assert_true(one.attribute_count >= 1);
        }
    }
    if (event->kind == HR_SESSION_RESPONSE) {
        (void)hr_unpack_error(event->error, &fault);
        bool is_decision = hr_unpack_decision(&in, &told) == HR_OK;
        assert_true(!is_decision || told.row_count <= HR_TOUCHED_MAX);
    }
}

static void every_prefix_wants_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct hr_span golden = golden_load(names[i]);
        for (size_t cut = 0; cut < golden.bytes; cut++) {
            struct hr_span part = span_copy((struct hr_span){golden.at, cut});
            struct hr_session session;
            struct hr_session_event event;
            hr_session_init(&session, &session_limits);
            hr_session_next(&session, part, &event);
            if (event.kind != HR_SESSION_MORE || event.consumed != 0) {
                fail_msg("%s, %zu bytes: event %d", names[i], cut, (int)event.kind);
            }
            span_free(part);
        }
        span_free(golden);
    }
}

/* A result or a map of params that is cut short within its frame is no longer the session's business. */
static void every_prefix_of_a_body_is_refused(void **state)
{
    (void)state;
    static struct hr_told_decision told;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct hr_span golden = golden_load(names[i]);
        struct hr_session_event event = only_event(golden);
        bool is_request = event.kind == HR_SESSION_REQUEST;
        struct hr_span body = is_request                          ? event.params
                              : event.kind == HR_SESSION_RESPONSE ? event.result
                                                                  : HR_SPAN("");
        for (size_t cut = 0; cut < body.bytes; cut++) {
            struct hr_span part = span_copy((struct hr_span){body.at, cut});
            struct hr_unpacker in = {part};
            struct hr_params params;
            struct hr_fault fault;
            if (is_request ? hr_params_decode(event.method, part, &params, &fault)
                           : hr_unpack_decision(&in, &told) == HR_OK) {
                fail_msg("%s: %zu bytes are enough", names[i], cut);
            }
            span_free(part);
        }
        span_free(golden);
    }
}

static void mutate(struct hr_rng *rng, char *bytes, size_t count)
{
    for (uint64_t changes = 1 + hr_rng_below(rng, 4); changes > 0; changes--) {
        bytes[hr_rng_below(rng, count)] = (char)hr_rng_next(rng);
    }
}

static void random_changes_never_lead_beyond_the_bytes(void **state)
{
    (void)state;
    const uint64_t seed = 20240229;
    struct hr_rng rng = {seed};
    unsigned kinds[HR_SESSION_BROKEN + 1] = {0};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < COUNT(names); i++) {
        struct hr_span golden = golden_load(names[i]);
        for (unsigned round = 0; round < 2000; round++) {
            struct hr_span changed = span_copy(golden);
            struct hr_session session;
            struct hr_session_event event;
            mutate(&rng, span_bytes(changed), changed.bytes);
            hr_session_init(&session, &session_limits);
            hr_session_next(&session, changed, &event);
            assert_true(event.consumed <= changed.bytes);
            kinds[event.kind]++;
            read_all(&event);
            span_free(changed);
        }
        span_free(golden);
    }
    for (unsigned kind = HR_SESSION_REQUEST; kind <= HR_SESSION_BROKEN; kind++) {
        print_message("event %u: %u times\n", kind, kinds[kind]);
        assert_true(kinds[kind] > 0); /* or the changes are too tame to show anything */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_its_golden_file_in_both_directions),
        cmocka_unit_test(check_many_is_its_golden_file_in_both_directions),
        cmocka_unit_test(a_limit_keeps_its_bytes),
        cmocka_unit_test(the_widest_formats_say_the_same),
        cmocka_unit_test(no_params_are_an_empty_map),
        cmocka_unit_test(a_notification_has_no_msgid),
        cmocka_unit_test(a_decision_is_its_golden_file_in_both_directions),
        cmocka_unit_test(the_decisions_of_many_are_their_golden_file_in_both_directions),
        cmocka_unit_test(small_answers_are_their_golden_files),
        cmocka_unit_test(small_answers_are_read_back),
        cmocka_unit_test(members_are_their_golden_file),
        cmocka_unit_test(every_prefix_wants_more),
        cmocka_unit_test(every_prefix_of_a_body_is_refused),
        cmocka_unit_test(random_changes_never_lead_beyond_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
