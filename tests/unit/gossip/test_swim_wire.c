/* SWIM's letters: their bytes are these and no others, and no prefix or nonsense of them is taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/life.h"
#include "gossip/swim.h"
#include "gossip/swim_wire.h"
#include "tests/unit/gossip/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LETTER_BYTES_MAX 1024

static struct hr_member member_of(const char *region, const char *name, enum hr_member_state state)
{
    struct hr_member member = {.incarnation = hr_life_begin(7) + 2, .state = state, .weight = 3};
    member.id = hr_member_id(hr_span_of(region), hr_span_of(name));
    (void)snprintf(member.name, sizeof(member.name), "%s", name);
    (void)snprintf(member.region, sizeof(member.region), "%s", region);
    (void)snprintf(member.host, sizeof(member.host), "rack-1");
    (void)snprintf(member.rpc, sizeof(member.rpc), "10.0.0.1:7400");
    (void)snprintf(member.gossip, sizeof(member.gossip), "tcp://10.0.0.1:7401");
    return member;
}

static const struct {
    const char *name;
    struct hr_swim_head head;
} heads[] = {
    {"swim_ping.v1", {.type = HR_SWIM_PING, .seq = 0x01020304}},
    {"swim_ack.v1", {.type = HR_SWIM_ACK, .seq = UINT32_MAX}},
    {"swim_ping_req.v1", {.type = HR_SWIM_PING_REQ, .seq = 1, .target = 0x1122334455667788, .wait_us = 100000}},
    {"swim_nack.v1", {.type = HR_SWIM_NACK, .seq = 2}},
    {"swim_hello.v1", {.type = HR_SWIM_HELLO, .digest = 0x8877665544332211}},
    {"swim_table.v1", {.type = HR_SWIM_TABLE, .flags = HR_SWIM_TABLE_LAST | HR_SWIM_TABLE_ASKS, .digest = 5}},
    {"swim_news.v1", {.type = HR_SWIM_NEWS}},
};

/* A letter with one rumor of each state, the first with meta. */
static size_t write_letter(const struct hr_swim_head *head, uint8_t out[LETTER_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, LETTER_BYTES_MAX);
    hr_swim_write_head(&writer, head);
    hr_le_write_u16(&writer, 4);
    for (unsigned state = HR_MEMBER_ALIVE; state <= HR_MEMBER_LEFT; state++) {
        struct hr_member member = member_of("eu", "n1", (enum hr_member_state)state);
        struct hr_rumor rumor = hr_rumor_of(&member, 0xacc, state == HR_MEMBER_ALIVE);
        hr_rumor_write(&writer, &rumor);
    }
    assert_false(writer.failed);
    return writer.used;
}

static void every_letter_has_the_bytes_of_its_golden_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        uint8_t letter[LETTER_BYTES_MAX];
        size_t bytes = write_letter(&heads[i].head, letter);
        golden_check(heads[i].name, (struct hr_span){(const char *)letter, bytes});
    }
}

static bool read_letter(struct hr_span letter, struct hr_swim_head *head, struct hr_rumor rumors[4])
{
    struct hr_le_reader reader = hr_le_reader_of(letter);
    uint16_t count;
    if (!hr_swim_read_head(&reader, head, &count) || count != 4) {
        return false;
    }
    for (uint16_t i = 0; i < count; i++) {
        if (!hr_rumor_read(&reader, &rumors[i])) {
            return false;
        }
    }
    return hr_le_is_at_end(&reader);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        uint8_t letter[LETTER_BYTES_MAX];
        struct hr_swim_head head;
        struct hr_rumor rumors[4];
        struct hr_span span = {(const char *)letter, write_letter(&heads[i].head, letter)};
        if (!read_letter(span, &head, rumors)) {
            fail_msg("row %zu", i);
        }
        assert_int_equal(head.type, heads[i].head.type);
        assert_int_equal(head.seq, heads[i].head.seq);
        assert_int_equal(head.target, heads[i].head.target);
        assert_int_equal(head.wait_us, heads[i].head.wait_us);
        assert_int_equal(head.flags, heads[i].head.flags);
        assert_int_equal(head.digest, heads[i].head.digest);
        assert_int_equal(rumors[0].weight, 3);
        assert_true(hr_span_equal(rumors[0].host, HR_SPAN("rack-1")));
        assert_true(hr_span_equal(rumors[0].gossip, HR_SPAN("tcp://10.0.0.1:7401")));
        assert_int_equal(rumors[1].accuser, 0xacc);
        assert_false(rumors[1].has_meta);
        assert_int_equal(rumors[3].state, HR_MEMBER_LEFT);
        assert_int_equal(rumors[3].incarnation, hr_life_begin(7) + 2);
    }
}

static void no_prefix_of_a_letter_is_a_letter(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        uint8_t letter[LETTER_BYTES_MAX];
        size_t bytes = write_letter(&heads[i].head, letter);
        for (size_t prefix = 0; prefix < bytes; prefix++) {
            char *copy = exact_copy(letter, prefix);
            struct hr_swim_head head;
            struct hr_rumor rumors[4];
            if (read_letter((struct hr_span){copy, prefix}, &head, rumors)) {
                fail_msg("row %zu, %zu bytes", i, prefix);
            }
            free(copy);
        }
    }
}

static void nonsense_is_no_rumor(void **state)
{
    (void)state;
    static const char *const cases[] = {"id 0",         "life 0",        "incarnation", "state's bits", "weight 0",
                                        "another's id", "an empty name", "a blank",     "a control",    "8 bits"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hr_member member = member_of("eu", "n1", HR_MEMBER_ALIVE);
        uint8_t out[LETTER_BYTES_MAX];
        member.id = i == 0 ? 0 : i == 5 ? member.id + 1 : member.id;
        member.incarnation = i == 1 ? 5 : i == 2 ? HR_INCARNATION_MAX + 1 : member.incarnation;
        member.weight = i == 4 ? 0 : 1;
        member.name[0] = i == 6 ? '\0' : 'n';
        member.rpc[0] = i == 7 ? ' ' : i == 8 ? '\n' : i == 9 ? '\xe4' : '1';
        struct hr_rumor rumor = hr_rumor_of(&member, 0, i != 0 && i != 1);
        struct hr_le_writer writer = hr_le_writer_of(out, sizeof(out));
        hr_rumor_write(&writer, &rumor);
        out[16] |= i == 3 ? 0x10 : 0;
        struct hr_le_reader reader = hr_le_reader_of((struct hr_span){(const char *)out, writer.used});
        if (hr_rumor_read(&reader, &rumor)) {
            fail_msg("%s", cases[i]);
        }
    }
}

static void an_unknown_type_or_flag_is_no_letter(void **state)
{
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        char letter[32] = {(char)type};
        struct hr_swim_head head;
        uint16_t count;
        struct hr_le_reader reader = hr_le_reader_of((struct hr_span){letter, sizeof(letter)});
        assert_int_equal(hr_swim_read_head(&reader, &head, &count), type >= HR_SWIM_PING && type <= HR_SWIM_NEWS);
    }
    char table[32] = {HR_SWIM_TABLE, 4};
    struct hr_swim_head head;
    uint16_t count;
    struct hr_le_reader reader = hr_le_reader_of((struct hr_span){table, sizeof(table)});
    assert_false(hr_swim_read_head(&reader, &head, &count));
}

/* One node, and what it is made of. */
struct node {
    struct hr_swim *swim;
    struct hr_outbox outbox;
    void *memory, *ring;
};

static struct hr_swim_config config_of(void)
{
    struct hr_swim_config config = {.self = member_of("eu", "self", HR_MEMBER_ALIVE), .rng_seed = 1};
    config.self.incarnation = 1;
    return config;
}

static bool make_node(struct node *node, const struct hr_swim_config *config)
{
    struct hr_bump bump = {NULL, 0};
    size_t bytes = hr_swim_bytes(config);
    node->ring = malloc(1U << 16);
    node->memory = malloc(bytes);
    assert_true(node->ring != NULL && node->memory != NULL);
    bump.at = node->ring;
    hr_outbox_init(&node->outbox, 1U << 16, &bump);
    node->swim = hr_swim_init(config, &node->outbox, node->memory, bytes);
    return node->swim != NULL;
}

static void free_node(struct node *node)
{
    free(node->memory);
    free(node->ring);
}

static void a_letter_that_is_cut_off_is_counted_and_does_no_harm(void **state)
{
    (void)state;
    struct hr_swim_config config = config_of();
    for (size_t i = 0; i < COUNT(heads); i++) {
        struct node node;
        uint8_t letter[LETTER_BYTES_MAX];
        size_t bytes = write_letter(&heads[i].head, letter);
        assert_true(make_node(&node, &config));
        hr_swim_tick(node.swim, 0);
        for (size_t prefix = 0; prefix < bytes; prefix++) {
            char *copy = exact_copy(letter, prefix);
            hr_swim_receive(node.swim, hr_member_id(HR_SPAN("eu"), HR_SPAN("n1")), (struct hr_span){copy, prefix}, 0);
            free(copy);
        }
        assert_int_equal(hr_swim_counts(node.swim).malformed, bytes);
        assert_in_range(hr_swim_members(node.swim)->count, 1, 2);
        free_node(&node);
    }
}

static void a_config_out_of_range_is_refused(void **state)
{
    (void)state;
    static const struct hr_span long_seed = {"tcp://x", 1000};
    for (unsigned row = 0; row < 11; row++) {
        struct hr_swim_config config = config_of();
        struct node node;
        config.self.incarnation = row == 1 ? 0 : row == 2 ? (uint64_t)HR_LIFE_MAX + 1 : 1;
        config.self.name[0] = row == 3 ? '\0' : 'x';
        config.self.gossip[0] = row == 4 ? '\0' : row == 5 ? ' ' : 't';
        config.self.weight = row == 6 ? 0 : 1;
        config.members_max = row == 7 ? HR_MEMBERS_MAX + 1 : 0;
        config.seed_count = row == 8 ? 1 : 0;
        config.seeds = &long_seed;
        config.timings.near.timeout_ns = row == 9 ? HR_NS_PER_S : 0;
        config.timings.far.period_ns = row == 10 ? HR_SWIM_PERIOD_NS_MAX + 1 : 0;
        if (make_node(&node, &config) != (row == 0)) {
            fail_msg("row %u", row);
        }
        free_node(&node);
    }
}

static void a_full_table_takes_nobody_in_and_says_so(void **state)
{
    (void)state;
    struct hr_swim_config config = config_of();
    struct node node;
    config.members_max = 2;
    assert_true(make_node(&node, &config));
    hr_swim_tick(node.swim, 0);
    for (unsigned i = 0; i < 3; i++) {
        char name[8];
        uint8_t letter[LETTER_BYTES_MAX];
        (void)snprintf(name, sizeof(name), "n%u", i);
        struct hr_member member = member_of("eu", name, HR_MEMBER_ALIVE);
        struct hr_rumor rumor = hr_rumor_of(&member, 0, true);
        struct hr_swim_head head = {.type = HR_SWIM_PING, .seq = i};
        struct hr_le_writer writer = hr_le_writer_of(letter, sizeof(letter));
        hr_swim_write_head(&writer, &head);
        hr_le_write_u16(&writer, 1);
        hr_rumor_write(&writer, &rumor);
        hr_swim_receive(node.swim, member.id, (struct hr_span){(const char *)letter, writer.used}, 0);
    }
    assert_int_equal(hr_swim_members(node.swim)->count, 2);
    assert_int_equal(hr_swim_counts(node.swim).table_full, 2);
    struct hr_swim_event event;
    assert_true(hr_swim_next_event(node.swim, &event));
    assert_int_equal(event.kind, HR_SWIM_JOINED);
    assert_true(hr_swim_next_event(node.swim, &event));
    assert_int_equal(event.kind, HR_SWIM_TABLE_FULL);
    assert_int_equal(event.member, HR_MEMBER_NONE);
    free_node(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_letter_has_the_bytes_of_its_golden_file),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(no_prefix_of_a_letter_is_a_letter),
        cmocka_unit_test(nonsense_is_no_rumor),
        cmocka_unit_test(an_unknown_type_or_flag_is_no_letter),
        cmocka_unit_test(a_letter_that_is_cut_off_is_counted_and_does_no_harm),
        cmocka_unit_test(a_config_out_of_range_is_refused),
        cmocka_unit_test(a_full_table_takes_nobody_in_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
