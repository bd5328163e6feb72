/* Writing: formats at their edges, buffers that are too small, the largest decision; and reading what another node
 * said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/message.h"
#include "rpc/reply.h"
#include "rpc/told.h"
#include "tests/unit/rpc/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void numbers_take_the_shortest_format(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        struct hr_span bytes;
    } rows[] = {
        {0, {"\x00", 1}},
        {127, {"\x7f", 1}},
        {128, {"\xcc\x80", 2}},
        {255, {"\xcc\xff", 2}},
        {256, {"\xcd\x01\x00", 3}},
        {65536, {"\xce\x00\x01\x00\x00", 5}},
        {INT64_C(1) << 32, {"\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9}},
        {HR_ANSWER_MAX, {"\xcf\x00\x1f\xff\xff\xff\xff\xff\xff", 9}},
        {-1, {"\xff", 1}},
        {-33, {"\xd0\xdf", 2}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char bytes[16];
        struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
        print_message("row %zu\n", i);
        hr_pack_signed(&packer, rows[i].value);
        assert_true(hr_span_equal(hr_packer_bytes(&packer), rows[i].bytes));
        packer.wanted = 0;
        if (rows[i].value >= 0) {
            hr_pack_whole(&packer, (uint64_t)rows[i].value);
            assert_true(hr_span_equal(hr_packer_bytes(&packer), rows[i].bytes));
        }
    }
}

static void what_does_not_fit_is_counted_and_not_written(void **state)
{
    (void)state;
    for (size_t room = 0; room <= 9; room++) {
        char bytes[16];
        struct hr_packer packer = {.at = room > 0 ? bytes : NULL, .room = room};
        memset(bytes, '#', sizeof(bytes));
        hr_pack_array(&packer, 2);
        hr_pack_text(&packer, HR_SPAN("abcd"));
        hr_pack_bin(&packer, HR_SPAN(""));
        hr_pack_nil(&packer);
        print_message("%zu bytes of room\n", room);
        assert_int_equal(packer.wanted, 9);
        assert_int_equal(hr_packer_fits(&packer), room == 9);
        for (size_t i = room; i < sizeof(bytes); i++) {
            assert_int_equal(bytes[i], '#');
        }
    }
}

static void the_largest_decision_has_room_and_is_read_back(void **state)
{
    (void)state;
    static const char name[HR_LIMIT_NAME_BYTES_MAX + 1] =
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const struct hr_limit limit = {
        .name = {name, HR_LIMIT_NAME_BYTES_MAX}, .mode = HR_ENFORCE, .rule = {.capacity = HR_COST_MAX}};
    static char bytes[HR_DECISION_BYTES_MAX];
    static struct hr_decision decision = {.action = HR_DENY,
                                          .decided_by = &limit,
                                          .retry_after_ms = HR_ANSWER_MAX,
                                          .delay_ms = HR_ANSWER_MAX,
                                          .row_count = HR_TOUCHED_MAX};
    static struct hr_told_decision told;
    struct hr_origin origin;
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    for (uint32_t i = 0; i < HR_TOUCHED_MAX; i++) {
        decision.rows[i] = (struct hr_row){.limit = &limit,
                                           .has_lease = true,
                                           .remaining = HR_COST_MAX,
                                           .retry_after_ms = HR_ANSWER_MAX,
                                           .reset_after_ms = HR_ANSWER_MAX,
                                           .lease = {i, i}};
    }
    assert_int_equal(hr_origin_init(&origin, limit.name, limit.name), HR_OK);
    hr_pack_decision(&packer, &decision, &(struct hr_decision_form){&origin, true, true});
    print_message("%zu of %zu bytes\n", packer.wanted, packer.room);
    assert_true(hr_packer_fits(&packer));
    struct hr_unpacker in = {hr_packer_bytes(&packer)};
    assert_int_equal(hr_unpack_decision(&in, &told), HR_OK);
    assert_int_equal(told.row_count, HR_TOUCHED_MAX);
    assert_true(hr_span_equal(told.region, limit.name));
    assert_true(told.rows[HR_TOUCHED_MAX - 1].lease.lo == HR_TOUCHED_MAX - 1);
}

static void names_of_more_than_64_bytes_are_no_origin(void **state)
{
    (void)state;
    static const char name[HR_NODE_NAME_BYTES_MAX + 1] = {'n'};
    struct hr_span longest = {name, HR_NODE_NAME_BYTES_MAX}, longer = {name, HR_NODE_NAME_BYTES_MAX + 1};
    struct hr_origin origin;
    assert_int_equal(hr_origin_init(&origin, longest, longest), HR_OK);
    assert_int_equal(hr_origin_init(&origin, longer, longest), HR_E_RANGE);
    assert_int_equal(hr_origin_init(&origin, longest, longer), HR_E_RANGE);
}

/* Writes a decision as a newer node might, and then with one thing wrong. */
enum flaw { NONE, NO_NODE, WRONG_ACTION, NEGATIVE_REMAINING, SHORT_LEASE, NO_ROW_NAME, TOO_MANY_ROWS, NO_MAP, FLAWS };

static void pack_pair(struct hr_packer *packer, const char *key, const char *value)
{
    hr_pack_text(packer, hr_span_of(key));
    hr_pack_text(packer, hr_span_of(value));
}

static void pack_told_row(struct hr_packer *packer, enum flaw flaw)
{
    hr_pack_map(packer, 9);
    hr_pack_text(packer, HR_SPAN("new"));
    hr_pack_raw(packer, "\x81\x01\x92\x02\x03", 5);
    pack_pair(packer, flaw == NO_ROW_NAME ? "called" : "name", "l");
    hr_pack_text(packer, HR_SPAN("allowed"));
    hr_pack_bool(packer, true);
    pack_pair(packer, "mode", "shadow");
    hr_pack_text(packer, HR_SPAN("limit"));
    hr_pack_whole(packer, 5);
    hr_pack_text(packer, HR_SPAN("remaining"));
    hr_pack_signed(packer, flaw == NEGATIVE_REMAINING ? -1 : 4);
    hr_pack_text(packer, HR_SPAN("retry_after_ms"));
    hr_pack_signed(packer, -1);
    hr_pack_text(packer, HR_SPAN("reset_after_ms"));
    hr_pack_signed(packer, 9);
    pack_pair(packer, "lease", flaw == SHORT_LEASE ? "00" : "00112233445566778899aabbccddeeff");
}

static void pack_told(struct hr_packer *packer, enum flaw flaw)
{
    uint32_t row_count = flaw == TOO_MANY_ROWS ? HR_TOUCHED_MAX + 1 : 1;
    if (flaw == NO_MAP) {
        hr_pack_array(packer, 0);
        return;
    }
    hr_pack_map(packer, 9);
    pack_pair(packer, "region", "eu");
    pack_pair(packer, flaw == NO_NODE ? "no" : "node", "eu-1");
    hr_pack_text(packer, HR_SPAN("limits"));
    hr_pack_array(packer, row_count);
    for (uint32_t i = 0; i < row_count; i++) {
        pack_told_row(packer, flaw);
    }
    hr_pack_text(packer, HR_SPAN("later"));
    hr_pack_raw(packer, "\x93\x01\xc0\xca\x00\x00\x00\x00", 8);
    hr_pack_text(packer, HR_SPAN("delay_ms"));
    hr_pack_signed(packer, 0);
    hr_pack_text(packer, HR_SPAN("retry_after_ms"));
    hr_pack_signed(packer, -1);
    pack_pair(packer, "decided_by", "l");
    pack_pair(packer, "action", flaw == WRONG_ACTION ? "wait" : "deny");
    hr_pack_text(packer, HR_SPAN("allowed"));
    hr_pack_bool(packer, false);
}

static void a_newer_nodes_decision_is_read_and_a_flawed_one_is_not(void **state)
{
    (void)state;
    static const enum hr_err wanted[FLAWS] = {
        [NO_NODE] = HR_E_INVALID,     [WRONG_ACTION] = HR_E_INVALID, [NEGATIVE_REMAINING] = HR_E_INVALID,
        [SHORT_LEASE] = HR_E_INVALID, [NO_ROW_NAME] = HR_E_INVALID,  [TOO_MANY_ROWS] = HR_E_TOO_MANY,
        [NO_MAP] = HR_E_INVALID,
    };
    static char bytes[HR_DECISION_BYTES_MAX];
    static struct hr_told_decision told;
    for (int flaw = NONE; flaw < FLAWS; flaw++) {
        struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
        pack_told(&packer, (enum flaw)flaw);
        assert_true(hr_packer_fits(&packer));
        struct hr_unpacker in = {hr_packer_bytes(&packer)};
        print_message("flaw %d\n", flaw);
        assert_int_equal(hr_unpack_decision(&in, &told), wanted[flaw]);
        if (flaw == NONE) {
            assert_int_equal(told.action, HR_DENY);
            assert_int_equal(told.rows[0].mode, HR_SHADOW);
            assert_int_equal(told.rows[0].remaining, 4);
            assert_true(told.rows[0].has_lease);
        }
    }
}

/* A refusal between two decisions; then cut short at each length. */
static void a_check_manys_answer_holds_decisions_and_refusals(void **state)
{
    (void)state;
    static char bytes[HR_DECISION_BYTES_MAX];
    static struct hr_told_decision told;
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    struct hr_fault fault;
    hr_fault_set(&fault, HR_CODE_RESOURCE_EXHAUSTED, "no room");
    pack_told(&packer, NONE);
    size_t begin = packer.wanted;
    hr_pack_refusal(&packer, &fault);
    size_t end = packer.wanted;
    pack_told(&packer, NONE);
    static const char text[] = "\x81\xa5"
                               "error"
                               "\xbb"
                               "RESOURCE_EXHAUSTED: no room";
    assert_int_equal(end - begin, sizeof(text) - 1);
    assert_memory_equal(bytes + begin, text, end - begin);
    struct hr_unpacker in = {hr_packer_bytes(&packer)};
    for (int i = 0; i < 3; i++) {
        bool is_fault = i != 1;
        fault.bytes = 0;
        assert_int_equal(hr_unpack_outcome(&in, &told, &fault, &is_fault), HR_OK);
        assert_int_equal(is_fault, i == 1);
        assert_true(i == 1 ? fault.code == HR_CODE_RESOURCE_EXHAUSTED : told.action == HR_DENY);
    }
    assert_true(hr_span_equal(hr_fault_text(&fault), HR_SPAN("")) && in.left.bytes == 0);
    for (size_t length = 0; length < end - begin; length++) {
        bool is_fault;
        in.left = (struct hr_span){bytes + begin, length};
        assert_int_not_equal(hr_unpack_outcome(&in, &told, &fault, &is_fault), HR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_the_shortest_format),
        cmocka_unit_test(what_does_not_fit_is_counted_and_not_written),
        cmocka_unit_test(the_largest_decision_has_room_and_is_read_back),
        cmocka_unit_test(names_of_more_than_64_bytes_are_no_origin),
        cmocka_unit_test(a_newer_nodes_decision_is_read_and_a_flawed_one_is_not),
        cmocka_unit_test(a_check_manys_answer_holds_decisions_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
