/* The envelope: what a holder of the secret sealed for this node, in this life, opens once; nothing else opens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/envelope.h"
#include "gossip/life.h"
#include "tests/unit/gossip/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define A 0xa1
#define B 0xb2

/* One node of a pair that know each other. */
struct node {
    struct hr_envelope envelope;
    struct hr_member all[2];
    struct hr_members members;
    void *memory;
};

struct sealed {
    uint8_t bytes[HR_ENVELOPE_BYTES + 256];
    size_t count;
};

static void init_node(struct node *node, uint64_t self, uint64_t life, const char *cluster, const char *secret)
{
    struct hr_hash_key key;
    memcpy(key.bytes, secret, sizeof(key.bytes));
    struct hr_envelope_config config = {&key, hr_span_of(cluster), self, life};
    struct hr_bump measure = {NULL, 0};
    memset(node, 0, sizeof(*node));
    hr_envelope_init(&node->envelope, &config, &measure);
    node->memory = malloc(measure.taken);
    assert_non_null(node->memory);
    struct hr_bump bump = {node->memory, 0};
    hr_envelope_init(&node->envelope, &config, &bump);
    node->all[0] = (struct hr_member){.id = A, .incarnation = hr_life_begin(3) + 7};
    node->all[1] = (struct hr_member){.id = B, .incarnation = hr_life_begin(5)};
    node->members = (struct hr_members){.all = node->all, .count = 2, .count_max = 2};
}

static void init_pair(struct node *a, struct node *b)
{
    init_node(a, A, 3, "prod", "0123456789abcdef");
    init_node(b, B, 5, "prod", "0123456789abcdef");
}

static void free_pair(struct node *a, struct node *b)
{
    free(a->memory);
    free(b->memory);
}

static struct sealed seal(struct node *from, uint64_t to, enum hr_letter_kind kind, enum hr_lane lane, const char *text)
{
    struct hr_letter letter = {.to = to, .kind = kind, .lane = lane, .body = hr_span_of(text)};
    struct sealed sealed;
    sealed.count = hr_envelope_seal(&from->envelope, &letter, &from->members, sealed.bytes);
    return sealed;
}

static enum hr_refusal open_at(struct node *at, const struct sealed *sealed)
{
    struct hr_opened opened;
    struct hr_span packet = {(const char *)sealed->bytes, sealed->count};
    return hr_envelope_open(&at->envelope, packet, &opened);
}

static void what_was_sealed_opens_with_all_that_was_said(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed sealed = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "a body");
    struct hr_opened opened;
    struct hr_span packet = {(const char *)sealed.bytes, sealed.count};
    assert_int_equal(sealed.count, HR_ENVELOPE_BYTES + 6);
    assert_int_equal(hr_envelope_open(&b.envelope, packet, &opened), HR_REFUSED_NOT);
    assert_int_equal(opened.from, A);
    assert_int_equal(opened.from_life, 3);
    assert_int_equal(opened.lane, HR_LANE_PEER);
    assert_int_equal(opened.kind, HR_LETTER_CALL);
    assert_true(hr_span_equal(opened.body, HR_SPAN("a body")));
    sealed = seal(&a, B, HR_LETTER_CAPS, HR_LANE_GOSSIP, "");
    assert_int_equal(open_at(&b, &sealed), HR_REFUSED_NOT);
    free_pair(&a, &b);
}

static void packets_have_the_bytes_of_their_golden_files(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed call = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "a body");
    struct sealed hello = seal(&a, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "hello");
    golden_check("envelope_call.v1", (struct hr_span){(const char *)call.bytes, call.count});
    golden_check("envelope_anyone.v1", (struct hr_span){(const char *)hello.bytes, hello.count});
    free_pair(&a, &b);
}

static void no_packet_opens_that_is_cut_off(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed sealed = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "a body");
    for (size_t bytes = 0; bytes < sealed.count; bytes++) {
        char *copy = exact_copy(sealed.bytes, bytes);
        struct hr_opened opened;
        enum hr_refusal refusal = hr_envelope_open(&b.envelope, (struct hr_span){copy, bytes}, &opened);
        enum hr_refusal wanted = bytes < HR_ENVELOPE_BYTES ? HR_REFUSED_TRUNCATED : HR_REFUSED_SECRET;
        if (refusal != wanted) {
            fail_msg("%zu bytes: %s", bytes, hr_refusal_text(refusal));
        }
        free(copy);
    }
    assert_int_equal(open_at(&b, &sealed), HR_REFUSED_NOT);
    free_pair(&a, &b);
}

static void no_packet_opens_with_a_bit_changed(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed sealed = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "a body");
    for (size_t bit = 0; bit < 8 * sealed.count; bit++) {
        struct sealed changed = sealed;
        changed.bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        if (open_at(&b, &changed) == HR_REFUSED_NOT) {
            fail_msg("bit %zu", bit);
        }
    }
    assert_int_equal(open_at(&b, &sealed), HR_REFUSED_NOT);
    free_pair(&a, &b);
}

/* Seals what seal() would not. */
static struct sealed forge(struct node *from, size_t at, uint8_t byte)
{
    struct sealed sealed = seal(from, B, HR_LETTER_CALL, HR_LANE_PEER, "a body");
    sealed.bytes[at] = byte;
    struct hr_id128 mac = hr_keyed_hash(&from->envelope.key, sealed.bytes, sealed.count - HR_ENVELOPE_MAC_BYTES);
    for (unsigned i = 0; i < 8; i++) {
        sealed.bytes[sealed.count - 16 + i] = (uint8_t)(mac.hi >> (8 * i));
        sealed.bytes[sealed.count - 8 + i] = (uint8_t)(mac.lo >> (8 * i));
    }
    return sealed;
}

static void each_refusal_names_its_reason(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t byte;
        enum hr_refusal refusal;
    } rows[] = {
        {0, 'h', HR_REFUSED_NO_PACKET},
        {3, HR_ENVELOPE_VERSION + 1, HR_REFUSED_VERSION},
        {4, 0, HR_REFUSED_MALFORMED},
        {4, HR_LETTER_KIND_MAX + 1, HR_REFUSED_MALFORMED},
        {5, HR_LANE_PEER + 1, HR_REFUSED_MALFORMED},
        {6, 1, HR_REFUSED_MALFORMED},
        {8, 0x5a, HR_REFUSED_CLUSTER},
        {16, 0, HR_REFUSED_MALFORMED}, /* the sender's id is then 0 */
        {16, B, HR_REFUSED_NAMESAKE},
        {24, 0, HR_REFUSED_MALFORMED},
        {32, A, HR_REFUSED_NOT_FOR_ME},
        {32, 0, HR_REFUSED_NOT_FOR_ME}, /* to whoever is there, and not SWIM's */
        {40, 4, HR_REFUSED_FOR_OTHER_LIFE},
        {40, 0, HR_REFUSED_FOR_OTHER_LIFE}, /* any life, and not SWIM's */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct node a, b;
        init_pair(&a, &b);
        struct sealed forged = forge(&a, rows[i].at, rows[i].byte);
        enum hr_refusal refusal = open_at(&b, &forged);
        if (refusal != rows[i].refusal || b.envelope.refused[refusal] != 1) {
            fail_msg("row %zu: %s", i, hr_refusal_text(refusal));
        }
        free_pair(&a, &b);
    }
}

static void another_secret_or_cluster_is_told_apart(void **state)
{
    (void)state;
    struct node a, b, c;
    init_pair(&a, &b);
    init_node(&c, A, 3, "prod", "another secret!!");
    struct sealed sealed = seal(&c, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    assert_int_equal(open_at(&b, &sealed), HR_REFUSED_SECRET);
    free(c.memory);
    init_node(&c, A, 3, "test", "0123456789abcdef");
    sealed = seal(&c, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    assert_int_equal(open_at(&b, &sealed), HR_REFUSED_CLUSTER);
    free(c.memory);
    free_pair(&a, &b);
}

static void a_packet_opens_once_whatever_the_order(void **state)
{
    (void)state;
    static struct sealed sealed[200];
    struct node a, b;
    init_pair(&a, &b);
    for (size_t i = 0; i < COUNT(sealed); i++) {
        sealed[i] = seal(&a, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    }
    for (size_t i = 63; i < COUNT(sealed); i += 64) { /* backwards within each window */
        for (size_t j = 0; j < 64; j++) {
            assert_int_equal(open_at(&b, &sealed[i - j]), HR_REFUSED_NOT);
            assert_int_equal(open_at(&b, &sealed[i - j]), HR_REFUSED_REPLAYED);
        }
    }
    for (size_t i = 0; i < 192; i++) {
        assert_int_equal(open_at(&b, &sealed[i]), HR_REFUSED_REPLAYED);
    }
    assert_int_equal(open_at(&b, &sealed[199]), HR_REFUSED_NOT);
    assert_int_equal(open_at(&b, &sealed[199 - 63]), HR_REFUSED_REPLAYED);
    assert_int_equal(open_at(&b, &sealed[195]), HR_REFUSED_NOT); /* late, and within the window */
    assert_int_equal(open_at(&b, &sealed[195]), HR_REFUSED_REPLAYED);
    free_pair(&a, &b);
}

static void what_is_too_late_for_the_window_is_refused(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed first = seal(&a, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x"), last = first;
    for (unsigned i = 0; i < 64; i++) {
        last = seal(&a, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    }
    assert_int_equal(open_at(&b, &last), HR_REFUSED_NOT);
    assert_int_equal(open_at(&b, &first), HR_REFUSED_REPLAYED);
    free_pair(&a, &b);
}

static void lanes_are_counted_apart(void **state)
{
    (void)state;
    struct node a, b;
    init_pair(&a, &b);
    struct sealed old[3];
    old[0] = seal(&a, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    old[1] = seal(&a, B, HR_LETTER_SWIM, HR_LANE_PEER, "x");
    old[2] = seal(&a, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    for (unsigned i = 0; i < 100; i++) {
        struct sealed sealed = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "x");
        assert_int_equal(open_at(&b, &sealed), HR_REFUSED_NOT);
    }
    assert_int_equal(open_at(&b, &old[0]), HR_REFUSED_NOT);
    assert_int_equal(open_at(&b, &old[1]), HR_REFUSED_REPLAYED);
    assert_int_equal(open_at(&b, &old[2]), HR_REFUSED_NOT);
    free_pair(&a, &b);
}

static void lives_bound_what_a_packet_is_good_for(void **state)
{
    (void)state;
    struct node a, b, later;
    init_pair(&a, &b);
    struct sealed call = seal(&a, B, HR_LETTER_CALL, HR_LANE_PEER, "x");
    struct sealed ping = seal(&a, B, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    init_node(&later, B, 6, "prod", "0123456789abcdef");
    assert_int_equal(open_at(&later, &call), HR_REFUSED_FOR_OTHER_LIFE);
    assert_int_equal(open_at(&later, &ping), HR_REFUSED_NOT); /* SWIM's are for any life */
    free(later.memory);
    assert_int_equal(open_at(&b, &call), HR_REFUSED_NOT);
    init_node(&later, A, 4, "prod", "0123456789abcdef");
    struct sealed next = seal(&later, B, HR_LETTER_CALL, HR_LANE_PEER, "x");
    assert_int_equal(open_at(&b, &next), HR_REFUSED_NOT); /* its numbers begin anew */
    assert_int_equal(open_at(&b, &next), HR_REFUSED_REPLAYED);
    assert_int_equal(open_at(&b, &ping), HR_REFUSED_OLD_LIFE);
    struct sealed anyone = seal(&a, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    assert_int_equal(open_at(&b, &anyone), HR_REFUSED_NOT); /* so that it can be told */
    free(later.memory);
    free_pair(&a, &b);
}

static void the_newest_life_that_was_heard_is_written_to(void **state)
{
    (void)state;
    struct node a, later;
    init_node(&a, A, 3, "prod", "0123456789abcdef");
    init_node(&later, B, 9, "prod", "0123456789abcdef"); /* the members know life 5 */
    struct sealed word = seal(&later, A, HR_LETTER_CALL, HR_LANE_PEER, "x");
    assert_int_equal(open_at(&a, &word), HR_REFUSED_NOT);
    struct sealed answer = seal(&a, B, HR_LETTER_ANSWER, HR_LANE_PEER, "x");
    assert_int_equal(open_at(&later, &answer), HR_REFUSED_NOT);
    free_pair(&a, &later);
}

static void a_node_does_not_hear_itself(void **state)
{
    (void)state;
    struct node a, namesake;
    init_node(&a, A, 3, "prod", "0123456789abcdef");
    init_node(&namesake, A, 4, "prod", "0123456789abcdef");
    struct sealed own = seal(&a, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    struct sealed other = seal(&namesake, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
    assert_int_equal(open_at(&a, &own), HR_REFUSED_OWN);
    assert_int_equal(open_at(&a, &other), HR_REFUSED_NAMESAKE);
    free_pair(&a, &namesake);
}

static void a_letter_to_nobody_is_not_sealed(void **state)
{
    (void)state;
    static char long_body[HR_LETTER_BYTES_MAX + 1];
    static uint8_t out[sizeof(long_body) + HR_ENVELOPE_BYTES];
    struct node a, b;
    init_pair(&a, &b);
    assert_int_equal(seal(&a, 0xcc, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x").count, 0);
    assert_int_equal(seal(&a, 0, HR_LETTER_CALL, HR_LANE_PEER, "x").count, 0);
    struct hr_letter letter = {.to = B, .kind = HR_LETTER_STREAM, .body = {long_body, sizeof(long_body)}};
    assert_int_equal(hr_envelope_seal(&a.envelope, &letter, &a.members, out), 0);
    letter.body.bytes--;
    size_t bytes = hr_envelope_seal(&a.envelope, &letter, &a.members, out);
    struct hr_opened opened;
    assert_int_equal(bytes, HR_PACKET_BYTES_MAX);
    assert_int_equal(hr_envelope_open(&b.envelope, (struct hr_span){(const char *)out, bytes}, &opened),
                     HR_REFUSED_NOT);
    assert_int_equal(hr_envelope_open(&b.envelope, (struct hr_span){(const char *)out, bytes + 1}, &opened),
                     HR_REFUSED_TOO_LONG);
    free_pair(&a, &b);
}

static void more_senders_than_places_are_refused(void **state)
{
    (void)state;
    struct node b;
    init_node(&b, B, 5, "prod", "0123456789abcdef");
    for (uint64_t id = 1000; id <= 1000 + HR_ENVELOPE_PEERS_MAX; id++) {
        struct node from = b;
        from.envelope.self = id;
        from.envelope.life = 1;
        struct sealed sealed = seal(&from, 0, HR_LETTER_SWIM, HR_LANE_GOSSIP, "x");
        bool has_place = id < 1000 + HR_ENVELOPE_PEERS_MAX;
        assert_int_equal(open_at(&b, &sealed), has_place ? HR_REFUSED_NOT : HR_REFUSED_TOO_MANY);
    }
    free(b.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_opens_with_all_that_was_said),
        cmocka_unit_test(packets_have_the_bytes_of_their_golden_files),
        cmocka_unit_test(no_packet_opens_that_is_cut_off),
        cmocka_unit_test(no_packet_opens_with_a_bit_changed),
        cmocka_unit_test(each_refusal_names_its_reason),
        cmocka_unit_test(another_secret_or_cluster_is_told_apart),
        cmocka_unit_test(a_packet_opens_once_whatever_the_order),
        cmocka_unit_test(what_is_too_late_for_the_window_is_refused),
        cmocka_unit_test(lanes_are_counted_apart),
        cmocka_unit_test(lives_bound_what_a_packet_is_good_for),
        cmocka_unit_test(the_newest_life_that_was_heard_is_written_to),
        cmocka_unit_test(a_node_does_not_hear_itself),
        cmocka_unit_test(a_letter_to_nobody_is_not_sealed),
        cmocka_unit_test(more_senders_than_places_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
