#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chaos/net.h"

#define SEED 11
#define COUNT 2000

/* Numbered packets from node 0 to node 1, one each millisecond. */
static void send_all(struct hr_net *net, enum hr_lane lane)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct hr_sim_packet packet = {0, 1, lane, {(const char *)&i, sizeof(i)}};
        hr_net_send(net, &packet, i * HR_NS_PER_MS);
    }
}

struct received {
    uint32_t count, out_of_order, twice;
    hr_ns first_at;
    uint8_t seen[COUNT];
};

static struct received receive_all(struct hr_net *net)
{
    struct received received = {.first_at = -1};
    struct hr_sim_packet packet;
    uint32_t last = 0;
    for (hr_ns at = hr_net_deadline(net); at != INT64_MAX; at = hr_net_deadline(net)) {
        while (hr_net_receive(net, at, &packet)) {
            uint32_t number;
            assert_int_equal(packet.bytes.bytes, sizeof(number));
            memcpy(&number, packet.bytes.at, sizeof(number));
            received.first_at = received.first_at < 0 ? at : received.first_at;
            received.out_of_order += number < last;
            received.twice += received.seen[number];
            received.seen[number] = 1;
            received.count++;
            last = number;
        }
    }
    return received;
}

static void a_perfect_link_delivers_all_in_order_after_its_delay(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    hr_net_link(net, 0, 1)->delay_ns = 5 * HR_NS_PER_MS;
    send_all(net, HR_LANE_GOSSIP);
    struct received received = receive_all(net);
    assert_int_equal(received.count, COUNT);
    assert_int_equal(received.out_of_order + received.twice, 0);
    assert_int_equal(received.first_at, 5 * HR_NS_PER_MS);
    hr_net_free(net);
}

static const struct hr_sim_link bad_link = {.delay_ns = HR_NS_PER_MS,
                                            .jitter_ns = HR_NS_PER_MS,
                                            .loss_ppm = 200000,
                                            .twice_ppm = 100000,
                                            .overtake_ppm = 100000};

static void a_bad_link_loses_doubles_and_reorders_gossip(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    *hr_net_link(net, 0, 1) = bad_link;
    send_all(net, HR_LANE_GOSSIP);
    struct received received = receive_all(net);
    struct hr_sim_net_counts counts = hr_net_counts(net);
    assert_int_equal(counts.sent, COUNT);
    assert_in_range(counts.lost, COUNT / 8, COUNT / 3);
    assert_in_range(received.twice, COUNT / 40, COUNT / 5);
    assert_true(received.out_of_order > COUNT / 50);
    assert_int_equal(received.count, counts.delivered);
    assert_int_equal(counts.delivered, counts.sent + counts.doubled - counts.lost);
    hr_net_free(net);
}

static void the_peer_lane_is_late_but_whole_and_in_order(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    *hr_net_link(net, 0, 1) = bad_link;
    send_all(net, HR_LANE_PEER);
    struct received received = receive_all(net);
    assert_int_equal(received.count, COUNT);
    assert_int_equal(received.out_of_order + received.twice, 0);
    hr_net_free(net);
}

static void a_cut_is_of_one_direction_and_loses_what_is_under_way(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    struct hr_sim_packet packet = {0, 1, HR_LANE_PEER, HR_SPAN("a")}, got;
    hr_net_link(net, 0, 1)->delay_ns = HR_NS_PER_MS;
    hr_net_send(net, &packet, 0);
    hr_net_link(net, 0, 1)->cuts = 1;
    hr_net_send(net, &packet, 0);
    assert_false(hr_net_receive(net, HR_NS_PER_S, &got));
    packet = (struct hr_sim_packet){1, 0, HR_LANE_PEER, HR_SPAN("b")};
    hr_net_send(net, &packet, 0);
    assert_true(hr_net_receive(net, HR_NS_PER_S, &got));
    assert_int_equal(got.from, 1);
    assert_int_equal(hr_net_counts(net).cut, 2);
    hr_net_free(net);
}

static void a_clog_holds_everything_back_and_then_lets_it_go(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    hr_net_link(net, 0, 1)->clogs = 1;
    send_all(net, HR_LANE_GOSSIP);
    assert_int_equal(hr_net_deadline(net), INT64_MAX);
    hr_net_link(net, 0, 1)->clogs = 0;
    hr_net_unclog(net, 0, 1, 9 * HR_NS_PER_S);
    struct received received = receive_all(net);
    assert_int_equal(received.count, COUNT);
    assert_int_equal(received.first_at, 9 * HR_NS_PER_S);
    hr_net_free(net);
}

static void a_narrow_link_takes_its_time_for_each_byte(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(2, SEED);
    hr_net_link(net, 0, 1)->bytes_per_s = 1000;
    send_all(net, HR_LANE_GOSSIP); /* four bytes each millisecond: four times what passes */
    hr_ns last = 0;
    struct hr_sim_packet packet;
    for (hr_ns at = hr_net_deadline(net); at != INT64_MAX; at = hr_net_deadline(net)) {
        assert_true(hr_net_receive(net, at, &packet));
        last = at;
    }
    assert_int_equal(last, COUNT * 4 * HR_NS_PER_MS);
    hr_net_free(net);
}

static void what_queued_up_on_a_narrow_link_goes_on_at_once_when_it_is_wide_again(void **state)
{
    (void)state;
    const enum hr_lane lanes[] = {HR_LANE_GOSSIP, HR_LANE_PEER};
    for (uint32_t i = 0; i < 2; i++) {
        struct hr_net *net = hr_net_new(2, SEED);
        *hr_net_link(net, 0, 1) = (struct hr_sim_link){.delay_ns = HR_NS_PER_MS, .bytes_per_s = 40};
        send_all(net, lanes[i]); /* for 200 s of this link */
        hr_net_link(net, 0, 1)->bytes_per_s = 0;
        hr_net_widen(net, 0, 1, 2 * HR_NS_PER_S);
        struct hr_sim_packet packet;
        uint32_t early = 0;
        while (hr_net_deadline(net) < 2 * HR_NS_PER_S && hr_net_receive(net, hr_net_deadline(net), &packet)) {
            early++;
        }
        assert_in_range(early, 10, 30);
        struct received received = receive_all(net);
        assert_int_equal(received.count, COUNT - early);
        assert_int_equal(received.out_of_order + received.twice, 0);
        assert_int_equal(received.first_at, 2 * HR_NS_PER_S + HR_NS_PER_MS);
        assert_true(hr_net_deadline(net) == INT64_MAX);
        hr_net_free(net);
    }
}

static void a_node_that_dies_takes_its_packets_along(void **state)
{
    (void)state;
    struct hr_net *net = hr_net_new(3, SEED);
    struct hr_sim_packet got;
    for (uint32_t to = 1; to < 3; to++) {
        const struct hr_sim_packet packet = {0, to, HR_LANE_GOSSIP, HR_SPAN("a")};
        hr_net_send(net, &packet, 0);
    }
    hr_net_link(net, 1, 2)->clogs = 1;
    const struct hr_sim_packet held = {1, 2, HR_LANE_GOSSIP, HR_SPAN("a")};
    hr_net_send(net, &held, 0);
    hr_net_drop_node(net, 1);
    hr_net_link(net, 1, 2)->clogs = 0;
    hr_net_unclog(net, 1, 2, 0);
    assert_true(hr_net_receive(net, HR_NS_PER_S, &got));
    assert_int_equal(got.to, 2);
    assert_false(hr_net_receive(net, HR_NS_PER_S, &got));
    assert_int_equal(hr_net_counts(net).cut, 2);
    hr_net_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_perfect_link_delivers_all_in_order_after_its_delay),
        cmocka_unit_test(a_bad_link_loses_doubles_and_reorders_gossip),
        cmocka_unit_test(the_peer_lane_is_late_but_whole_and_in_order),
        cmocka_unit_test(a_cut_is_of_one_direction_and_loses_what_is_under_way),
        cmocka_unit_test(a_clog_holds_everything_back_and_then_lets_it_go),
        cmocka_unit_test(a_narrow_link_takes_its_time_for_each_byte),
        cmocka_unit_test(what_queued_up_on_a_narrow_link_goes_on_at_once_when_it_is_wide_again),
        cmocka_unit_test(a_node_that_dies_takes_its_packets_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
