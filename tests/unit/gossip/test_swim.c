/* SWIM among many nodes, on a network that loses, doubles, delays and cuts. Seeds are printed where a test fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "bench/gossip_net.h"
#include "gossip/life.h"
#include "gossip/swim_wire.h"
#include "storage/le.h"

#define MS HR_NS_PER_MS
#define S HR_NS_PER_S
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const regions[] = {"eu", "us", "ap"};

/* `count` nodes in three regions, each seeded with the first of each region; none is up. */
static struct gossip_net *net_of(uint64_t seed, uint32_t count, uint32_t region_count)
{
    struct gossip_net *net = gossip_net_new(seed);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%u", i);
        gossip_net_add(net, regions[i % region_count], name);
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < region_count; j++) {
            gossip_net_seed(net, i, j);
        }
    }
    return net;
}

static void start_all(struct gossip_net *net)
{
    for (uint32_t i = 0; i < net->count; i++) {
        gossip_net_start(net, i);
    }
}

static void agree_within(struct gossip_net *net, uint64_t seed, hr_ns most)
{
    if (gossip_net_run_until(net, gossip_net_is_agreed, NULL, most) < 0) {
        fail_msg("seed %llu: no agreement within %lld ms", (unsigned long long)seed, (long long)(most / MS));
    }
}

static struct gossip_net *agreed(uint64_t seed, uint32_t count, uint32_t region_count)
{
    struct gossip_net *net = net_of(seed, count, region_count);
    start_all(net);
    agree_within(net, seed, 10 * S);
    return net;
}

static uint64_t events_of(const struct gossip_net *net, enum hr_swim_event_kind kind)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        sum += net->nodes[i].events[kind];
    }
    return sum;
}

static void views_agree_after_nodes_join(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, regions, loss_milli;
        hr_ns most;
    } rows[] = {{1, 1, 0, 0}, {2, 1, 0, S}, {3, 3, 0, S}, {12, 3, 0, 2 * S}, {12, 3, 300, 10 * S}, {60, 3, 50, 5 * S}};
    for (size_t row = 0; row < COUNT(rows); row++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct gossip_net *net = net_of(seed, rows[row].nodes, rows[row].regions);
            net->loss_milli = rows[row].loss_milli;
            net->twice_milli = rows[row].loss_milli;
            start_all(net);
            if (gossip_net_run_until(net, gossip_net_is_agreed, NULL, rows[row].most) < 0) {
                fail_msg("row %zu, seed %llu", row, (unsigned long long)seed);
            }
            gossip_net_free(net);
        }
    }
}

static void a_chain_of_seeds_is_enough_to_join(void **state)
{
    (void)state;
    struct gossip_net *net = gossip_net_new(1);
    for (uint32_t i = 0; i < 8; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "n%u", i);
        gossip_net_add(net, "eu", name);
        if (i > 0) {
            gossip_net_seed(net, i, i - 1);
        }
    }
    start_all(net);
    agree_within(net, 1, 5 * S);
    gossip_net_free(net);
}

static void a_node_has_contact_once_another_has_answered(void **state)
{
    (void)state;
    struct gossip_net *net = net_of(2, 2, 1);
    gossip_net_start(net, 1);
    gossip_net_run(net, 10 * S);
    assert_true(hr_swim_is_unanswered(net->nodes[1].swim));
    gossip_net_start(net, 0);
    gossip_net_run(net, S);
    assert_int_equal(hr_swim_members(net->nodes[0].swim)->count, 2);
    assert_false(hr_swim_is_unanswered(net->nodes[1].swim));
    gossip_net_free(net);
}

struct pair {
    uint32_t viewer, of;
    unsigned state;
};

static bool is_viewed(const struct gossip_net *net, void *user)
{
    const struct pair *pair = user;
    return gossip_net_view(net, pair->viewer, pair->of) == pair->state;
}

/* How long until every other node of region 0 takes it for dead. */
static hr_ns time_to_detect(struct gossip_net *net, uint32_t of)
{
    hr_ns begin = net->now;
    for (uint32_t i = 0; i < net->count; i++) {
        struct pair pair = {i, of, HR_MEMBER_DEAD};
        if (i != of && net->nodes[i].is_up && strcmp(net->nodes[i].region, net->nodes[of].region) == 0 &&
            gossip_net_run_until(net, is_viewed, &pair, 60 * S) < 0) {
            return -1;
        }
    }
    return net->now - begin;
}

static void a_crash_is_found_in_time(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, regions;
        hr_ns most, average;
    } rows[] = {
        {2, 1, 1600 * MS, 1300 * MS}, {3, 1, 1900 * MS, 1300 * MS},  {6, 3, 1600 * MS, 1300 * MS},
        {5, 1, 2000 * MS, 1300 * MS}, {30, 3, 2600 * MS, 1800 * MS},
    };
    for (size_t row = 0; row < COUNT(rows); row++) {
        hr_ns sum = 0;
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct gossip_net *net = agreed(seed, rows[row].nodes, rows[row].regions);
            gossip_net_run(net, 5 * S + (hr_ns)seed * 17 * MS);
            gossip_net_crash(net, 0);
            hr_ns took = time_to_detect(net, 0);
            sum += took;
            if (took < 0 || took > rows[row].most) {
                fail_msg("row %zu, seed %llu: %lld ms", row, (unsigned long long)seed, (long long)(took / MS));
            }
            agree_within(net, seed, 5 * S);
            gossip_net_free(net);
        }
        if (sum / 12 > rows[row].average) {
            fail_msg("row %zu: %lld ms on average", row, (long long)(sum / 12 / MS));
        }
    }
}

/* Pings that nobody waits for, from one node to another: so a suspect is questioned. */
struct questions {
    uint32_t from, to, count;
};

static void count_questions(void *user, uint32_t from, uint32_t to, struct hr_span packet)
{
    struct questions *questions = user;
    struct hr_le_reader reader = hr_le_reader_of(packet);
    (void)hr_le_read_bytes(&reader, HR_ENVELOPE_HEAD_BYTES);
    uint8_t type = hr_le_read_u8(&reader);
    uint32_t seq = hr_le_read_u32(&reader);
    bool is_question = !reader.failed && type == HR_SWIM_PING && seq == 0;
    questions->count += is_question && from == questions->from && to == questions->to;
}

/* Twice in a period of 200 ms, for as long as it is suspected: one lost denial is not the end of it. */
static void a_suspect_is_questioned_again_and_again(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct gossip_net *net = agreed(seed, 3, 1);
        struct questions questions = {.from = 0, .to = 2};
        struct pair suspect = {0, 2, HR_MEMBER_SUSPECT}, dead = {0, 2, HR_MEMBER_DEAD};
        gossip_net_run(net, 3 * S);
        gossip_net_crash(net, 2);
        net->tap = count_questions;
        net->tap_user = &questions;
        assert_true(gossip_net_run_until(net, is_viewed, &suspect, 5 * S) >= 0);
        hr_ns suspected = gossip_net_run_until(net, is_viewed, &dead, 5 * S);
        if (suspected < 0 || questions.count + 1 < suspected / (100 * MS)) {
            fail_msg("seed %llu: %u questions in %lld ms", (unsigned long long)seed, questions.count,
                     (long long)(suspected / MS));
        }
        gossip_net_free(net);
    }
}

/* How often one node tells members of another region that some member is dead. */
struct told {
    struct gossip_net *net;
    uint32_t from, far, near; /* counts of those told */
    uint64_t about;
};

static bool tells(struct hr_span packet, uint64_t about)
{
    struct hr_swim_head head;
    struct hr_rumor rumor;
    struct hr_le_reader reader = hr_le_reader_of(packet);
    (void)hr_le_read_bytes(&reader, HR_ENVELOPE_HEAD_BYTES);
    uint16_t count = 0;
    for (bool is_read = hr_swim_read_head(&reader, &head, &count);
         is_read && count > 0 && hr_rumor_read(&reader, &rumor); count--) {
        if (rumor.id == about && rumor.state == HR_MEMBER_DEAD) {
            return true;
        }
    }
    return false;
}

static void count_told(void *user, uint32_t from, uint32_t to, struct hr_span packet)
{
    struct told *told = user;
    if (from == told->from && tells(packet, told->about)) {
        bool is_near = strcmp(told->net->nodes[from].region, told->net->nodes[to].region) == 0;
        told->near += is_near;
        told->far += !is_near;
    }
}

/* As often as near ones, though they are written to far less often. */
static void far_members_are_told_apart_from_near_ones(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct gossip_net *net = agreed(seed, 12, 2);
        struct told told = {.net = net, .from = 0, .about = hr_member_id(HR_SPAN("eu"), HR_SPAN("n2"))};
        gossip_net_run(net, 5 * S);
        net->tap = count_told;
        net->tap_user = &told;
        gossip_net_crash(net, 2);
        gossip_net_run(net, 30 * S);
        if (told.near < 9 || told.far < 9) {
            fail_msg("seed %llu: near ones were told %u times, far ones %u", (unsigned long long)seed, told.near,
                     told.far);
        }
        gossip_net_free(net);
    }
}

static void nobody_who_lives_is_declared_dead_for_a_tenth_of_lost_packets(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, regions;
        uint64_t seeds;
    } rows[] = {{2, 1, 6}, {3, 1, 6}, {6, 3, 16}, {5, 1, 6}, {12, 3, 3}, {30, 3, 2}};
    uint64_t suspicions = 0;
    for (size_t row = 0; row < COUNT(rows); row++) {
        for (uint64_t seed = 0; seed < rows[row].seeds; seed++) {
            struct gossip_net *net = agreed(seed, rows[row].nodes, rows[row].regions);
            net->loss_milli = 100;
            net->twice_milli = 20;
            gossip_net_run(net, 150 * S);
            suspicions += events_of(net, HR_SWIM_SUSPECTED);
            if (events_of(net, HR_SWIM_DIED) != 0) {
                fail_msg("row %zu, seed %llu: %llu deaths", row, (unsigned long long)seed,
                         (unsigned long long)events_of(net, HR_SWIM_DIED));
            }
            net->loss_milli = 0;
            agree_within(net, seed, 10 * S);
            gossip_net_free(net);
        }
    }
    assert_true(suspicions > 10); /* or the loss was none */
}

static void a_cut_region_is_dead_and_comes_back_when_healed(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct gossip_net *net = agreed(seed, 9, 3);
        for (uint32_t i = 0; i < 9; i++) {
            for (uint32_t j = 0; j < 9; j++) {
                if ((i % 3 == 0) != (j % 3 == 0)) {
                    net->is_cut[i][j] = true;
                }
            }
        }
        gossip_net_run(net, 30 * S);
        for (uint32_t i = 0; i < 9; i++) {
            for (uint32_t j = 0; j < 9; j++) {
                bool is_cut = (i % 3 == 0) != (j % 3 == 0);
                if (gossip_net_view(net, i, j) != (is_cut ? HR_MEMBER_DEAD : HR_MEMBER_ALIVE)) {
                    fail_msg("seed %llu: %u sees %u as %u", (unsigned long long)seed, i, j, gossip_net_view(net, i, j));
                }
            }
        }
        memset(net->is_cut, 0, sizeof(net->is_cut));
        agree_within(net, seed, 5 * S);
        gossip_net_free(net);
    }
}

static void one_cut_link_makes_nobody_suspect(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct gossip_net *net = agreed(seed, 8, 2);
        gossip_net_cut(net, 0, 2, true);
        gossip_net_cut(net, 1, 4, true);
        gossip_net_run(net, 120 * S);
        assert_int_equal(events_of(net, HR_SWIM_SUSPECTED), 0); /* the others ask in their place */
        gossip_net_free(net);
    }
}

static uint64_t incarnation_of(const struct gossip_net *net, uint32_t viewer, uint32_t of)
{
    const struct hr_members *members = hr_swim_members(net->nodes[viewer].swim);
    const struct gossip_net_node *node = &net->nodes[of];
    uint32_t index = hr_members_find(members, hr_member_id(hr_span_of(node->region), hr_span_of(node->name)));
    assert_true(index != HR_MEMBER_NONE);
    return members->all[index].incarnation;
}

static void a_node_that_restarts_is_known_in_its_later_life(void **state)
{
    (void)state;
    for (uint32_t of = 0; of < 5; of++) { /* node 0 has no seed but itself */
        struct gossip_net *net = agreed(of, 5, 1);
        gossip_net_run(net, 5 * S);
        gossip_net_crash(net, of);
        gossip_net_run(net, 100 * MS);
        gossip_net_restart(net, of);
        gossip_net_run(net, 2 * S);
        assert_true(gossip_net_is_agreed(net, NULL));
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(hr_life_of(incarnation_of(net, i, of)), 2);
        }
        assert_false(hr_swim_is_unanswered(net->nodes[of].swim));
        assert_int_equal(events_of(net, HR_SWIM_DIED), 0);
        gossip_net_free(net);
    }
}

static void leave(struct gossip_net *net, uint32_t node)
{
    hr_swim_leave(net->nodes[node].swim, gossip_net_clock(net, node));
    gossip_net_flush(net, node);
    gossip_net_run(net, 300 * MS);
    gossip_net_crash(net, node);
}

static void leaving_is_not_death(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct gossip_net *net = agreed(seed, 12, 3);
        leave(net, 4);
        gossip_net_run(net, 60 * S);
        for (uint32_t i = 0; i < 12; i++) {
            if (i != 4 && gossip_net_view(net, i, 4) != HR_MEMBER_LEFT) {
                fail_msg("seed %llu: %u sees %u", (unsigned long long)seed, i, gossip_net_view(net, i, 4));
            }
        }
        assert_int_equal(events_of(net, HR_SWIM_DIED), 0);
        gossip_net_restart(net, 4);
        agree_within(net, seed, 3 * S);
        gossip_net_free(net);
    }
}

/* A rumor, sealed by a member, that makes it around. */
static void spread(struct gossip_net *net, uint32_t by, const struct hr_rumor *rumor)
{
    uint8_t body[512];
    struct hr_swim_head head = {.type = HR_SWIM_NEWS};
    const struct hr_members *members = hr_swim_members(net->nodes[by].swim);
    struct hr_le_writer writer = hr_le_writer_of(body, sizeof(body));
    hr_swim_write_head(&writer, &head);
    hr_le_write_u16(&writer, 1);
    hr_rumor_write(&writer, rumor);
    for (uint32_t i = 0; i < members->count; i++) {
        struct hr_letter letter = {.to = members->all[i].id, .kind = HR_LETTER_SWIM};
        letter.body = (struct hr_span){(const char *)body, writer.used};
        if (i != members->self) {
            assert_true(hr_outbox_put(&net->nodes[by].outbox, &letter));
        }
    }
    gossip_net_flush(net, by);
}

static void a_false_rumor_is_denied_everywhere(void **state)
{
    (void)state;
    static const enum hr_member_state states[] = {HR_MEMBER_SUSPECT, HR_MEMBER_DEAD, HR_MEMBER_LEFT};
    for (size_t row = 0; row < COUNT(states); row++) {
        struct gossip_net *net = agreed(row, 9, 3);
        uint64_t before = incarnation_of(net, 5, 5);
        struct hr_rumor rumor = {.id = hr_member_id(HR_SPAN("ap"), HR_SPAN("n5")),
                                 .incarnation = before,
                                 .state = states[row],
                                 .accuser = 1};
        spread(net, 1, &rumor);
        gossip_net_run(net, 10 * MS);
        gossip_net_run(net, 3 * S);
        assert_true(gossip_net_is_agreed(net, NULL));
        for (uint32_t i = 0; i < 9; i++) {
            assert_int_equal(incarnation_of(net, i, 5), before + 1);
        }
        assert_int_equal(net->nodes[5].events[HR_SWIM_REFUTED], 1);
        gossip_net_free(net);
    }
}

static void the_dead_are_tried_again_where_no_seed_lives(void **state)
{
    (void)state;
    struct gossip_net *net = gossip_net_new(8);
    for (uint32_t i = 0; i < 3; i++) {
        gossip_net_add(net, "eu", i == 0 ? "n0" : i == 1 ? "n1" : "n2");
        gossip_net_seed(net, i, 0);
    }
    start_all(net);
    agree_within(net, 8, 2 * S);
    gossip_net_crash(net, 0); /* for good */
    gossip_net_cut(net, 1, 2, true);
    gossip_net_run(net, 20 * S);
    assert_int_equal(gossip_net_view(net, 1, 2), HR_MEMBER_DEAD);
    gossip_net_cut(net, 1, 2, false);
    agree_within(net, 8, 5 * S);
    gossip_net_free(net);
}

static void a_suspicion_does_not_run_out_while_a_node_stands_still(void **state)
{
    (void)state;
    struct gossip_net *net = agreed(9, 4, 1);
    uint64_t before = incarnation_of(net, 2, 2);
    struct hr_rumor rumor = {.id = hr_member_id(HR_SPAN("eu"), HR_SPAN("n2")),
                             .incarnation = before,
                             .state = HR_MEMBER_SUSPECT,
                             .accuser = 1};
    spread(net, 1, &rumor);
    struct pair pair = {3, 2, HR_MEMBER_SUSPECT};
    assert_true(gossip_net_run_until(net, is_viewed, &pair, S) >= 0);
    gossip_net_pause(net, 3, true);
    gossip_net_run(net, 15 * S);
    gossip_net_pause(net, 3, false);
    gossip_net_run(net, 5 * S);
    assert_true(gossip_net_is_agreed(net, NULL));
    assert_int_equal(net->nodes[3].events[HR_SWIM_DIED], 0);
    gossip_net_free(net);
}

static void a_node_that_stood_still_declares_nobody_dead(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct gossip_net *net = agreed(seed, 6, 2);
        gossip_net_pause(net, 3, true);
        gossip_net_run(net, 15 * S);
        assert_int_equal(gossip_net_view(net, 0, 3), HR_MEMBER_DEAD);
        gossip_net_pause(net, 3, false);
        agree_within(net, seed, 2 * S);
        gossip_net_run(net, 20 * S);
        assert_true(gossip_net_is_agreed(net, NULL));
        assert_int_equal(net->nodes[3].events[HR_SWIM_DIED], 0);
        gossip_net_free(net);
    }
}

struct record {
    struct {
        uint32_t to;
        size_t bytes;
        char *at;
    } packets[200000];
    size_t count;
    uint64_t digest;
};

static void note_packet(void *user, uint32_t from, uint32_t to, struct hr_span packet)
{
    struct record *record = user;
    record->digest = hr_plain_hash(packet.at, packet.bytes, record->digest + from * 1000 + to);
    if (record->count < COUNT(record->packets)) {
        char *copy = malloc(packet.bytes);
        assert_non_null(copy);
        memcpy(copy, packet.at, packet.bytes);
        record->packets[record->count].to = to;
        record->packets[record->count].bytes = packet.bytes;
        record->packets[record->count++].at = copy;
    }
}

static struct record *record_new(struct gossip_net *net)
{
    struct record *record = calloc(1, sizeof(*record));
    assert_non_null(record);
    net->tap = note_packet;
    net->tap_user = record;
    return record;
}

static void record_free(struct record *record)
{
    for (size_t i = 0; i < record->count; i++) {
        free(record->packets[i].at);
    }
    free(record);
}

/* Everything that a cluster goes through, with all its packets. */
static struct gossip_net *eventful(uint64_t seed, struct record **ret_record)
{
    struct gossip_net *net = net_of(seed, 9, 3);
    *ret_record = record_new(net);
    net->loss_milli = 20;
    start_all(net);
    gossip_net_run(net, 5 * S);
    gossip_net_crash(net, 1);
    gossip_net_run(net, 5 * S);
    gossip_net_restart(net, 1);
    leave(net, 5);
    gossip_net_run(net, 5 * S);
    gossip_net_restart(net, 5);
    gossip_net_cut(net, 2, 3, true);
    gossip_net_crash(net, 0);
    gossip_net_run(net, 3 * S);
    gossip_net_restart(net, 0);
    gossip_net_cut(net, 2, 3, false);
    net->loss_milli = 0;
    net->tap = NULL;
    agree_within(net, seed, 10 * S);
    return net;
}

static void old_packets_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct record *record;
        struct gossip_net *net = eventful(seed, &record);
        gossip_net_run(net, 20 * S);
        uint64_t died = events_of(net, HR_SWIM_DIED), joined = events_of(net, HR_SWIM_JOINED);
        for (size_t i = 0; i < record->count; i++) {
            struct hr_span packet = {record->packets[i].at, record->packets[i].bytes};
            gossip_net_inject(net, record->packets[i].to, packet);
            gossip_net_inject(net, (uint32_t)(i % 9), packet);
            gossip_net_run(net, i % 10 == 0 ? MS : 0);
        }
        gossip_net_run(net, 30 * S);
        if (!gossip_net_is_agreed(net, NULL) || events_of(net, HR_SWIM_DIED) != died ||
            events_of(net, HR_SWIM_JOINED) != joined) {
            fail_msg("seed %llu", (unsigned long long)seed);
        }
        record_free(record);
        gossip_net_free(net);
    }
}

static void one_seed_is_one_history(void **state)
{
    (void)state;
    struct record *records[3];
    for (size_t i = 0; i < 3; i++) {
        gossip_net_free(eventful(i / 2, &records[i]));
    }
    assert_int_equal(records[0]->digest, records[1]->digest);
    assert_int_not_equal(records[0]->digest, records[2]->digest);
    for (size_t i = 0; i < 3; i++) {
        record_free(records[i]);
    }
}

static uint64_t refused(const struct gossip_net *net, uint32_t count, enum hr_refusal refusal)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += net->nodes[i].envelope.refused[refusal];
    }
    return sum;
}

static void nobody_joins_without_the_secret_or_from_another_cluster(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *secret;
        enum hr_refusal refusal;
    } rows[] = {{"test", "0123456789abcdeF", HR_REFUSED_SECRET}, {"prod", "0123456789abcdef", HR_REFUSED_CLUSTER}};
    for (size_t row = 0; row < COUNT(rows); row++) {
        struct gossip_net *net = agreed(row, 3, 1);
        uint32_t stranger = gossip_net_add(net, "eu", "stranger");
        gossip_net_seed(net, stranger, 0);
        gossip_net_seed(net, stranger, 1);
        (void)snprintf(net->nodes[stranger].cluster, sizeof(net->nodes[0].cluster), "%s", rows[row].cluster);
        (void)snprintf(net->nodes[stranger].secret, sizeof(net->nodes[0].secret), "%s", rows[row].secret);
        gossip_net_start(net, stranger);
        gossip_net_run(net, 20 * S);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(gossip_net_view(net, i, stranger), HR_MEMBER_LEFT + 1);
        }
        assert_true(refused(net, 3, rows[row].refusal) >= 10);
        assert_int_equal(hr_swim_members(net->nodes[stranger].swim)->count, 1);
        assert_true(hr_swim_is_unanswered(net->nodes[stranger].swim));
        gossip_net_free(net);
    }
}

/* Who knows regions takes in nobody of another one, by whomever it hears of it, and the stranger finds nobody. */
static void a_node_of_a_region_that_is_not_known_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second; /* what the nodes of eu know */
        bool is_taken_in;
    } rows[] = {{"eu", NULL, false}, {"eu", "us", true}, {"us", NULL, true}, {"eu", "usa", false}, {NULL, NULL, true}};
    for (size_t row = 0; row < COUNT(rows); row++) {
        struct gossip_net *net = gossip_net_new(row);
        for (uint32_t i = 0; i < 4; i++) {
            gossip_net_add(net, i < 3 ? "eu" : "us", i == 0 ? "n0" : i == 1 ? "n1" : i == 2 ? "n2" : "n3");
            gossip_net_seed(net, i, 0);
            net->nodes[i].regions[0] = i < 3 ? rows[row].first : NULL;
            net->nodes[i].regions[1] = i < 3 ? rows[row].second : NULL;
        }
        start_all(net);
        gossip_net_run(net, 10 * S);
        for (uint32_t i = 0; i < 3; i++) {
            const struct hr_swim_stranger *stranger = hr_swim_stranger(net->nodes[i].swim);
            bool is_there = gossip_net_view(net, i, 3) == HR_MEMBER_ALIVE;
            bool is_noted = strcmp(stranger->region, "us") == 0 && strcmp(stranger->name, "n3") == 0;
            if (is_there != rows[row].is_taken_in || is_noted != (i == 0 && !rows[row].is_taken_in)) {
                fail_msg("row %zu, node %u: %d, %s of %s", row, i, is_there, stranger->name, stranger->region);
            }
        }
        assert_int_equal(hr_swim_is_unanswered(net->nodes[3].swim), !rows[row].is_taken_in);
        assert_false(hr_swim_is_unanswered(net->nodes[1].swim));
        gossip_net_free(net);
    }
}

static void nobody_kills_without_the_secret(void **state)
{
    (void)state;
    struct gossip_net *net = net_of(7, 4, 1);
    struct record *record = record_new(net);
    struct hr_rng rng = {7};
    start_all(net);
    gossip_net_run(net, 10 * S);
    net->tap = NULL;
    uint64_t opened = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        size_t which = hr_rng_below(&rng, record->count);
        char packet[2048];
        size_t bytes = record->packets[which].bytes;
        assert_true(bytes <= sizeof(packet));
        memcpy(packet, record->packets[which].at, bytes);
        for (uint64_t flips = 1 + hr_rng_below(&rng, 8); flips > 0; flips--) {
            packet[hr_rng_below(&rng, bytes)] ^= (char)(1 << hr_rng_below(&rng, 8));
        }
        uint32_t to = record->packets[which].to;
        opened -= net->nodes[to].envelope.refused[HR_REFUSED_NOT];
        bool is_same = memcmp(packet, record->packets[which].at, bytes) == 0; /* a bit that was flipped back */
        if (!is_same) {
            gossip_net_inject(net, to, (struct hr_span){packet, bytes});
        }
        opened += net->nodes[to].envelope.refused[HR_REFUSED_NOT];
    }
    assert_int_equal(opened, 0);
    assert_int_equal(events_of(net, HR_SWIM_SUSPECTED), 0);
    record_free(record);
    gossip_net_free(net);
}

static enum hr_err forget(struct gossip_net *net, uint32_t by, const char *region, const char *name)
{
    enum hr_err err =
        hr_swim_forget(net->nodes[by].swim, hr_span_of(region), hr_span_of(name), gossip_net_clock(net, by));
    gossip_net_flush(net, by);
    return err;
}

static void a_forgotten_member_counts_as_left_everywhere(void **state)
{
    (void)state;
    struct gossip_net *net = agreed(3, 9, 3);
    gossip_net_crash(net, 8);
    gossip_net_run(net, 20 * S);
    assert_int_equal(forget(net, 0, "", "n9"), HR_E_NOT_FOUND);
    assert_int_equal(forget(net, 0, "eu", "n8"), HR_E_NOT_FOUND);
    assert_int_equal(forget(net, 0, "", "n1"), HR_E_INVALID);
    assert_int_equal(forget(net, 0, "", "n0"), HR_E_INVALID);
    assert_int_equal(forget(net, 0, "", "n8"), HR_OK);
    gossip_net_run(net, 10 * S);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(gossip_net_view(net, i, 8), HR_MEMBER_LEFT);
    }
    gossip_net_restart(net, 8);
    agree_within(net, 3, 3 * S);
    gossip_net_free(net);
}

static void a_member_that_lives_denies_being_forgotten(void **state)
{
    (void)state;
    struct gossip_net *net = agreed(4, 4, 1);
    for (uint32_t i = 0; i < 3; i++) {
        gossip_net_cut(net, i, 3, true);
    }
    gossip_net_run(net, 20 * S);
    assert_int_equal(forget(net, 0, "eu", "n3"), HR_OK);
    gossip_net_run(net, 5 * S);
    memset(net->is_cut, 0, sizeof(net->is_cut));
    agree_within(net, 4, 6 * S);
    gossip_net_free(net);
}

static void of_two_nodes_of_one_name_the_later_life_stays(void **state)
{
    (void)state;
    static const struct {
        uint64_t life_first, life_second;
        uint32_t yields;
    } rows[] = {{1, 2, 1}, {2, 1, 4}, {1, 1, 1}};
    for (size_t row = 0; row < COUNT(rows); row++) {
        struct gossip_net *net = net_of(row, 4, 1);
        net->nodes[1].life = rows[row].life_first;
        start_all(net);
        gossip_net_run(net, 5 * S);
        uint32_t second = gossip_net_add(net, "eu", "n1");
        gossip_net_seed(net, second, 0);
        net->nodes[second].life = rows[row].life_second;
        gossip_net_start(net, second);
        gossip_net_run(net, 10 * S);
        uint32_t yields = rows[row].yields, stays = 5 - yields;
        if (net->nodes[yields].events[HR_SWIM_USURPED] != 1 || net->nodes[stays].events[HR_SWIM_USURPED] != 0) {
            fail_msg("row %zu", row);
        }
        for (uint32_t i = 0; i < 4; i += 2) {
            const struct hr_members *members = hr_swim_members(net->nodes[i].swim);
            uint32_t index = hr_members_find(members, hr_member_id(HR_SPAN("eu"), HR_SPAN("n1")));
            assert_string_equal(members->all[index].gossip, net->nodes[stays].address);
            assert_int_equal(members->all[index].state, HR_MEMBER_ALIVE);
        }
        gossip_net_free(net);
    }
}

static void a_node_that_lost_its_life_number_is_told(void **state)
{
    (void)state;
    struct gossip_net *net = net_of(5, 3, 1);
    net->nodes[2].life = 7;
    start_all(net);
    gossip_net_run(net, 5 * S);
    gossip_net_crash(net, 2);
    net->nodes[2].life = 3;
    gossip_net_start(net, 2);
    gossip_net_run(net, 10 * S);
    assert_int_equal(net->nodes[2].events[HR_SWIM_OUTLIVED], 1);
    assert_int_equal(gossip_net_view(net, 0, 2), HR_MEMBER_DEAD);
    assert_true(refused(net, 2, HR_REFUSED_OLD_LIFE) > 0);
    gossip_net_crash(net, 2);
    net->nodes[2].life = 8;
    gossip_net_start(net, 2);
    agree_within(net, 5, 2 * S);
    gossip_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_agree_after_nodes_join),
        cmocka_unit_test(a_chain_of_seeds_is_enough_to_join),
        cmocka_unit_test(a_node_has_contact_once_another_has_answered),
        cmocka_unit_test(a_crash_is_found_in_time),
        cmocka_unit_test(a_suspect_is_questioned_again_and_again),
        cmocka_unit_test(far_members_are_told_apart_from_near_ones),
        cmocka_unit_test(nobody_who_lives_is_declared_dead_for_a_tenth_of_lost_packets),
        cmocka_unit_test(a_cut_region_is_dead_and_comes_back_when_healed),
        cmocka_unit_test(one_cut_link_makes_nobody_suspect),
        cmocka_unit_test(a_node_that_restarts_is_known_in_its_later_life),
        cmocka_unit_test(leaving_is_not_death),
        cmocka_unit_test(a_false_rumor_is_denied_everywhere),
        cmocka_unit_test(the_dead_are_tried_again_where_no_seed_lives),
        cmocka_unit_test(a_suspicion_does_not_run_out_while_a_node_stands_still),
        cmocka_unit_test(a_node_that_stood_still_declares_nobody_dead),
        cmocka_unit_test(old_packets_change_nothing),
        cmocka_unit_test(one_seed_is_one_history),
        cmocka_unit_test(nobody_joins_without_the_secret_or_from_another_cluster),
        cmocka_unit_test(a_node_of_a_region_that_is_not_known_is_refused),
        cmocka_unit_test(nobody_kills_without_the_secret),
        cmocka_unit_test(a_forgotten_member_counts_as_left_everywhere),
        cmocka_unit_test(a_member_that_lives_denies_being_forgotten),
        cmocka_unit_test(of_two_nodes_of_one_name_the_later_life_stays),
        cmocka_unit_test(a_node_that_lost_its_life_number_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
