/* Routers and holds of several nodes together, on a virtual network. Every schedule follows from its seed, which is
 * printed where it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/route_sim.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS(n) ((n)*HR_NS_PER_MS)
#define LIMITS 12U
#define VALUES 2U
#define ATTRIBUTES_BYTES 256U
#define CHECK_SEED(seed, holds)                                            \
    do {                                                                   \
        if (!(holds)) {                                                    \
            fail_msg("seed %llu: %s", (unsigned long long)(seed), #holds); \
        }                                                                  \
    } while (0)

static const struct sim_net quiet = {.delay_min = 100000, .delay_max = 300000};
static const struct sim_net wild = {.delay_min = 50000, .delay_max = 3000000, .double_percent = 10};
static const struct sim_net lossy = {.delay_min = 50000, .delay_max = 2000000, .loss_percent = 10, .double_percent = 5};

static const char *const names[] = {"l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8", "l9", "l10", "l11"};
static const char *const key_names[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11"};
static struct hr_span keys[LIMITS];

/* LIMITS quotas, each with a key attribute of its own: a request touches those whose attribute it has. */
static void make_limits(uint64_t capacity, struct hr_limit *limits)
{
    for (uint32_t i = 0; i < LIMITS; i++) {
        keys[i] = hr_span_of(key_names[i]);
        limits[i] = (struct hr_limit){
            .name = hr_span_of(names[i]),
            .key = &keys[i],
            .key_count = 1,
            .rule = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = capacity},
            .durability = HR_MEMORY,
        };
    }
}

static struct sim *open_quotas(uint64_t seed, uint32_t nodes, uint64_t capacity, struct sim_net net)
{
    struct hr_limit limits[LIMITS];
    make_limits(capacity, limits);
    return sim_open(seed, nodes, limits, LIMITS, net);
}

/* Attributes of some limits, each with one of a few values. */
static void random_attributes(struct hr_rng *rng, uint32_t touched, char *ret_text)
{
    uint32_t first = (uint32_t)hr_rng_below(rng, LIMITS);
    size_t at = 0;
    for (uint32_t i = 0; i < touched; i++) {
        at += (size_t)snprintf(ret_text + at, ATTRIBUTES_BYTES - at, "%sk%u=v%u", i > 0 ? " " : "",
                               (first + i) % LIMITS, (unsigned)hr_rng_below(rng, VALUES));
    }
}

static bool touches(const struct sim_request *request, uint32_t limit, uint32_t value)
{
    char pair[16];
    (void)snprintf(pair, sizeof(pair), "k%u=v%u", limit, value);
    const char *found = strstr(request->attributes, pair);
    return found != NULL && (found[strlen(pair)] == ' ' || found[strlen(pair)] == '\0');
}

/* Cost that the owners admitted, of one counter; or may have admitted: where the client got no answer of theirs, too.
 */
static uint64_t admitted(const struct sim *sim, uint32_t limit, uint32_t value, bool with_doubt)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim_request_count(sim); i++) {
        const struct sim_request *request = sim_request(sim, i);
        bool is_known = request->is_answered && !request->is_fault && !request->decision.degraded;
        bool counts = is_known ? request->decision.allowed : with_doubt;
        sum += counts && touches(request, limit, value) ? request->cost : 0;
    }
    return sum;
}

static uint64_t used(struct sim *sim, uint32_t limit, uint32_t value, uint64_t capacity)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "k%u=v%u", limit, value);
    return capacity - sim_remaining(sim, limit, text);
}

static void nothing_is_left_open(uint64_t seed, const struct sim *sim, uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++) {
        if (sim_is_up(sim, i)) {
            CHECK_SEED(seed, hr_holds_open_count(sim_holds(sim, i)) == 0);
            CHECK_SEED(seed, hr_router_job_count(sim_router(sim, i)) == 0);
        }
    }
}

/* --- one counter --- */

static void the_sum_admitted_is_exactly_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t nodes = 2 + (uint32_t)(seed % 4);
        struct sim *sim = open_quotas(seed, nodes, 500, wild);
        for (uint32_t i = 0; i < 1500; i++) {
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), nodes), "k3=v0", 1, false);
            if (i % 10 == 0) {
                sim_run(sim, MS(1));
            }
        }
        sim_run(sim, MS(500));
        CHECK_SEED(seed, admitted(sim, 3, 0, false) == 500);
        for (uint32_t i = 0; i < sim_request_count(sim); i++) {
            CHECK_SEED(seed, sim_request(sim, i)->answers == 1 && !sim_request(sim, i)->is_fault);
            CHECK_SEED(seed, !sim_request(sim, i)->decision.degraded);
        }
        nothing_is_left_open(seed, sim, nodes);
        sim_close(sim);
    }
}

static void a_call_that_comes_twice_is_charged_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct sim_net net = {.delay_min = 50000, .delay_max = 2000000, .double_percent = 100};
        struct sim *sim = open_quotas(seed, 3, 1000, net);
        for (uint32_t i = 0; i < 100; i++) {
            (void)sim_check(sim, i % 3, i % 2 == 0 ? "k1=v0" : "k0=v0 k1=v0 k2=v0", 3, false);
            sim_run(sim, MS(1));
        }
        sim_run(sim, MS(500));
        CHECK_SEED(seed, used(sim, 1, 0, 1000) == 300);
        CHECK_SEED(seed, used(sim, 0, 0, 1000) == 150);
        nothing_is_left_open(seed, sim, 3);
        sim_close(sim);
    }
}

static void a_request_is_sent_to_the_owner_and_never_further(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(7, 3, 10, quiet);
    uint32_t owner = sim_owner(sim, sim_partition(sim, 0, "k0=v0"));
    uint32_t asked = (owner + 1) % 3, other = (owner + 2) % 3;
    uint32_t number = sim_check(sim, asked, "k0=v0", 1, false);
    sim_run(sim, MS(5));
    assert_true(sim_request(sim, number)->is_answered);
    assert_int_equal(hr_router_counts(sim_router(sim, asked)).sent, 1);
    assert_int_equal(hr_router_counts(sim_router(sim, owner)).received, 1);
    assert_int_equal(hr_router_counts(sim_router(sim, owner)).sent, 0);
    assert_int_equal(hr_router_counts(sim_router(sim, other)).received, 0);
    sim_close(sim);
}

static void calls_of_one_turn_leave_in_one_letter(void **state)
{
    (void)state;
    static const char *many[100];
    struct sim *sim = open_quotas(8, 2, 1000, quiet);
    for (uint32_t i = 0; i < COUNT(many); i++) {
        many[i] = "k0=v0";
    }
    uint32_t asked = 1 - sim_owner(sim, sim_partition(sim, 0, "k0=v0"));
    uint32_t number = sim_check_many(sim, asked, many, COUNT(many));
    sim_run(sim, MS(5));
    assert_true(sim_request(sim, number)->is_answered);
    assert_int_equal(hr_router_counts(sim_router(sim, asked)).sent, 100);
    assert_int_equal(hr_router_counts(sim_router(sim, asked)).letters, 1);
    assert_int_equal(hr_router_counts(sim_router(sim, 1 - asked)).letters, 1);
    assert_int_equal(used(sim, 0, 0, 1000), 100);
    sim_close(sim);
}

static void the_answers_of_a_check_many_stand_in_its_order(void **state)
{
    (void)state;
    static struct hr_told_decision decision;
    struct sim *sim = open_quotas(9, 3, 1, wild);
    const char *many[] = {"k0=a", "k1=b", "k0=a", "k2=c", "k3=d", "k1=b", "k4=e k5=f", "k5=f"};
    const bool allowed[] = {true, true, false, true, true, false, true, false};
    uint32_t number = sim_check_many(sim, 0, many, 3); /* the first three alone, so that what follows is denied */
    sim_run(sim, MS(100));
    assert_true(sim_request(sim, number)->is_answered);
    (void)sim_check_many(sim, 1, &many[3], 1);
    sim_run(sim, MS(100));
    for (uint32_t at = 0; at < 2; at++) {
        number = sim_check_many(sim, at, many, COUNT(many));
        sim_run(sim, MS(100));
        const struct sim_request *request = sim_request(sim, number);
        struct hr_unpacker in = {{request->text, request->text_bytes}};
        uint32_t count;
        assert_int_equal(hr_unpack_array(&in, &count), HR_OK);
        assert_int_equal(count, COUNT(many));
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
            bool is_first = at == 0 && i >= 4 && allowed[i];
            if (decision.allowed != is_first) {
                fail_msg("row %u of round %u: allowed is %d", i, at, decision.allowed);
            }
        }
    }
    sim_close(sim);
}

static void a_moving_partition_keeps_its_requests(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(10, 3, 1000, quiet);
    uint32_t partition = sim_partition(sim, 0, "k0=v0"), owner = sim_owner(sim, partition);
    sim_set_moving(sim, partition, true);
    for (uint32_t i = 0; i < 30; i++) {
        (void)sim_check(sim, i % 3, "k0=v0", 1, false);
    }
    sim_run(sim, MS(45));
    for (uint32_t i = 0; i < 30; i++) {
        assert_false(sim_request(sim, i)->is_answered);
    }
    sim_own(sim, partition, (owner + 1) % 3);
    sim_set_moving(sim, partition, false);
    sim_run(sim, MS(5));
    for (uint32_t i = 0; i < 30; i++) {
        assert_true(sim_request(sim, i)->is_answered && sim_request(sim, i)->decision.allowed);
        assert_false(sim_request(sim, i)->decision.degraded);
    }
    assert_int_equal(used(sim, 0, 0, 1000), 30);
    sim_close(sim);
}

static uint32_t open_holds(const struct sim *sim, uint32_t nodes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        count += hr_holds_open_count(sim_holds(sim, i));
    }
    return count;
}

/* The lead is a third node, and does not know yet that a partition moves. */
static void a_hold_does_not_wait_long_for_a_partition_that_moves(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(11, 3, 1000, quiet);
    sim_own(sim, sim_partition(sim, 0, "k0=v0"), 0);
    sim_own(sim, sim_partition(sim, 1, "k1=v0"), 1);
    sim_own(sim, sim_partition(sim, 2, "k2=v0"), 2);
    uint32_t number = sim_check(sim, 0, "k0=v0 k1=v0 k2=v0", 1, false);
    sim_run(sim, MS(1) / 20);
    sim_set_moving(sim, sim_partition(sim, 1, "k1=v0"), true);
    sim_run(sim, MS(1));
    assert_true(open_holds(sim, 3) > 0);
    sim_run(sim, MS(3));
    assert_int_equal(open_holds(sim, 3), 0);
    sim_set_moving(sim, sim_partition(sim, 1, "k1=v0"), false);
    sim_run(sim, MS(10));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->decision.allowed);
    assert_false(sim_request(sim, number)->decision.degraded);
    sim_close(sim);
}

/* Longer than the deadline: the lead has seen the counters where they were before. */
static void a_request_that_is_led_waits_for_a_partition_that_moves(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(13, 3, 1000, quiet);
    sim_own(sim, sim_partition(sim, 0, "k0=v0"), 0);
    sim_own(sim, sim_partition(sim, 1, "k1=v0"), 1);
    uint32_t number = sim_check(sim, 0, "k0=v0 k1=v0", 1, false);
    sim_run(sim, MS(1) / 20);
    sim_set_moving(sim, sim_partition(sim, 1, "k1=v0"), true);
    sim_run(sim, MS(60));
    assert_false(sim_request(sim, number)->is_answered);
    sim_set_moving(sim, sim_partition(sim, 1, "k1=v0"), false);
    sim_run(sim, MS(10));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->decision.allowed);
    assert_false(sim_request(sim, number)->decision.degraded);
    assert_int_equal(used(sim, 0, 0, 1000), 1);
    assert_int_equal(used(sim, 1, 0, 1000), 1);
    nothing_is_left_open(13, sim, 3);
    sim_close(sim);
}

/* --- calls that come late --- */

static void what_comes_after_its_sender_gave_up_is_not_charged(void **state)
{
    (void)state;
    const struct sim_net slow = {.delay_min = MS(21), .delay_max = MS(400), .double_percent = 20};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim *sim = open_quotas(seed, 3, 1000, slow);
        for (uint32_t i = 0; i < 60; i++) {
            (void)sim_check(sim, i % 3, "k0=v0", 1, false);
            sim_run(sim, MS(1));
        }
        sim_run(sim, MS(2000));
        CHECK_SEED(seed, used(sim, 0, 0, 1000) == 20); /* those that the owner itself was asked */
        nothing_is_left_open(seed, sim, 3);
        sim_close(sim);
    }
}

/* The call itself is in time; the partition is frozen until its sender has long decided it. */
static void what_was_kept_for_too_long_is_not_charged(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(14, 3, 1000, quiet);
    uint32_t partition = sim_partition(sim, 0, "k0=v0"), owner = sim_owner(sim, partition);
    uint32_t asked = (owner + 1) % 3;
    uint32_t number = sim_check(sim, asked, "k0=v0", 1, false);
    sim_run(sim, MS(1) / 20);
    sim_set_moving(sim, partition, true);
    sim_cut(sim, owner, asked, true); /* no answer comes through */
    sim_run(sim, MS(45));
    sim_set_moving(sim, partition, false);
    sim_run(sim, MS(50));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->decision.degraded);
    assert_int_equal(used(sim, 0, 0, 1000), 0);
    sim_close(sim);
}

static void an_owner_that_cannot_yet_is_asked_again(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(15, 3, 1000, quiet);
    uint32_t partition = sim_partition(sim, 0, "k0=v0"), owner = sim_owner(sim, partition);
    uint32_t number = sim_check(sim, (owner + 1) % 3, "k0=v0", 1, false);
    sim_run(sim, MS(1) / 20);
    sim_set_moving(sim, partition, true);
    sim_run(sim, MS(60));
    assert_false(sim_request(sim, number)->is_answered);
    sim_set_moving(sim, partition, false);
    sim_run(sim, MS(5));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->decision.allowed);
    assert_false(sim_request(sim, number)->decision.degraded);
    assert_int_equal(used(sim, 0, 0, 1000), 1);
    sim_close(sim);
}

static void a_lease_is_given_back_through_any_node(void **state)
{
    (void)state;
    const struct hr_span key = HR_SPAN("user");
    const struct hr_limit limit = {
        .name = HR_SPAN("slots"),
        .key = &key,
        .key_count = 1,
        .rule = {.algorithm = HR_CONCURRENCY, .capacity = 1, .ttl_ns = (uint64_t)(60 * HR_NS_PER_S)},
    };
    for (uint64_t seed = 1; seed <= 9; seed++) {
        struct sim *sim = sim_open(seed, 3, &limit, 1, quiet);
        uint32_t taken = sim_check(sim, (uint32_t)seed % 3, "user=ann", 1, false);
        sim_run(sim, MS(5));
        const struct sim_request *request = sim_request(sim, taken);
        CHECK_SEED(seed, request->decision.allowed && request->rows[0].has_lease);
        uint32_t renewed = sim_lease(sim, 0, HR_METHOD_RENEW, request->rows[0].lease);
        sim_run(sim, MS(5));
        CHECK_SEED(seed, sim_request(sim, renewed)->flag);
        uint32_t released = sim_lease(sim, (uint32_t)(seed / 3) % 3, HR_METHOD_RELEASE, request->rows[0].lease);
        sim_run(sim, MS(5));
        CHECK_SEED(seed, sim_request(sim, released)->flag);
        uint32_t again = sim_check(sim, 2, "user=ann", 1, false);
        sim_run(sim, MS(5));
        CHECK_SEED(seed, sim_request(sim, again)->decision.allowed);
        sim_close(sim);
    }
}

static void a_rate_given_on_the_spot_has_one_counter_in_the_region(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(12, 4, 1, wild);
    uint32_t allowed = 0;
    for (uint32_t i = 0; i < 40; i++) {
        (void)sim_throttle(sim, i % 4, "ann");
        sim_run(sim, MS(2));
    }
    sim_run(sim, MS(50));
    for (uint32_t i = 0; i < 40; i++) {
        allowed += sim_request(sim, i)->decision.allowed;
    }
    assert_int_equal(allowed, 5);
    sim_close(sim);
}

/* --- several counters --- */

static void a_request_over_several_owners_is_all_or_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const uint64_t capacity = 40;
        uint32_t nodes = 3 + (uint32_t)(seed % 3);
        struct sim *sim = open_quotas(seed, nodes, capacity, wild);
        char text[ATTRIBUTES_BYTES];
        for (uint32_t i = 0; i < 600; i++) {
            random_attributes(sim_rng(sim), 1 + (uint32_t)hr_rng_below(sim_rng(sim), LIMITS), text);
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), nodes), text, 1 + i % 2, false);
            if (i % 4 == 0) {
                sim_run(sim, (hr_ns)hr_rng_below(sim_rng(sim), (uint64_t)MS(2)));
            }
        }
        sim_run(sim, MS(3000));
        for (uint32_t limit = 0; limit < LIMITS; limit++) {
            for (uint32_t value = 0; value < VALUES; value++) {
                uint64_t spent = used(sim, limit, value, capacity);
                CHECK_SEED(seed, spent >= admitted(sim, limit, value, false));
                CHECK_SEED(seed, spent <= admitted(sim, limit, value, true));
                CHECK_SEED(seed, spent <= capacity);
            }
        }
        nothing_is_left_open(seed, sim, nodes);
        sim_close(sim);
    }
}

/* Contention makes nobody wrong: who is told that a limit denies can see that it is full for good. */
static void a_denial_is_true(void **state)
{
    (void)state;
    uint32_t faults = 0, asked = 0, waited = 0;
    for (uint64_t seed = 100; seed < 140; seed++) {
        const uint64_t capacity = 6;
        struct sim *sim = open_quotas(seed, 3, capacity, quiet);
        char text[ATTRIBUTES_BYTES];
        for (uint32_t i = 0; i < 120; i++) {
            random_attributes(sim_rng(sim), 1 + (uint32_t)hr_rng_below(sim_rng(sim), LIMITS), text);
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), 3), text, 1, false);
            if (i % 3 == 0) {
                sim_run(sim, (hr_ns)hr_rng_below(sim_rng(sim), (uint64_t)MS(1)));
            }
        }
        sim_run(sim, MS(1000));
        for (uint32_t i = 0; i < sim_request_count(sim); i++) {
            const struct sim_request *request = sim_request(sim, i);
            CHECK_SEED(seed, request->answers == 1 && !request->decision.degraded);
            faults += request->is_fault;
            asked++;
            if (request->is_fault || request->decision.allowed) {
                continue;
            }
            uint32_t limit = (uint32_t)strtoul(request->decided_by + 1, NULL, 10);
            uint32_t value = touches(request, limit, 0) ? 0 : 1;
            CHECK_SEED(seed, used(sim, limit, value, capacity) == capacity);
        }
        for (uint32_t i = 0; i < 3; i++) {
            waited += (uint32_t)hr_holds_counts(sim_holds(sim, i)).waited;
        }
        nothing_is_left_open(seed, sim, 3);
        sim_close(sim);
    }
    print_message("%u of %u requests ended in a fault, %u waits\n", faults, asked, waited);
    assert_true(waited > 0);           /* or the test has tested nothing */
    assert_true(faults * 50 <= asked); /* contention is waited out */
}

static void a_peek_over_several_owners_takes_nothing(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(14, 3, 5, wild);
    const char *all = "k0=v0 k1=v0 k2=v0 k3=v0 k4=v0 k5=v0 k6=v0 k7=v0 k8=v0 k9=v0 k10=v0 k11=v0";
    uint32_t taken = sim_check(sim, 0, all, 3, false);
    sim_run(sim, MS(100));
    uint32_t fits = sim_check(sim, 1, all, 2, true), not = sim_check(sim, 2, all, 3, true);
    sim_run(sim, MS(100));
    assert_true(sim_request(sim, taken)->decision.allowed);
    assert_true(sim_request(sim, fits)->decision.allowed);
    assert_false(sim_request(sim, not )->decision.allowed);
    for (uint32_t i = 0; i < LIMITS; i++) {
        assert_int_equal(used(sim, i, 0, 5), 3);
        assert_int_equal(sim_request(sim, taken)->rows[i].remaining, 2); /* after */
        assert_int_equal(sim_request(sim, fits)->rows[i].remaining, 2);
        assert_string_equal(names[i], (sim_request(sim, fits)->rows[i].name.bytes > 0 ? names[i] : ""));
    }
    sim_close(sim);
}

static void a_refund_goes_to_each_owner_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        const struct sim_net net = {.delay_min = 50000, .delay_max = 2000000, .double_percent = 100};
        struct sim *sim = open_quotas(seed, 3, 100, net);
        (void)sim_check(sim, 0, "k0=v0 k1=v0 k2=v0 k3=v0", 10, false);
        sim_run(sim, MS(100));
        uint32_t number = sim_refund(sim, 1, "k0=v0 k1=v0 k2=v0 k3=v0", 4);
        sim_run(sim, MS(100));
        CHECK_SEED(seed, sim_request(sim, number)->is_answered && sim_request(sim, number)->flag);
        for (uint32_t i = 0; i < 4; i++) {
            CHECK_SEED(seed, used(sim, i, 0, 100) == 6);
        }
        sim_close(sim);
    }
}

/* --- when nodes fail --- */

static void no_charge_is_forgotten_when_letters_are_lost(void **state)
{
    (void)state;
    uint32_t told = 0, asked = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const uint64_t capacity = 50;
        struct sim *sim = open_quotas(seed, 4, capacity, lossy);
        char text[ATTRIBUTES_BYTES];
        for (uint32_t i = 0; i < 200; i++) {
            random_attributes(sim_rng(sim), 1 + (uint32_t)hr_rng_below(sim_rng(sim), 6), text);
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), 4), text, 1, false);
            sim_run(sim, (hr_ns)hr_rng_below(sim_rng(sim), (uint64_t)MS(3)));
        }
        sim_run(sim, MS(8000));
        for (uint32_t i = 0; i < sim_request_count(sim); i++) {
            const struct sim_request *request = sim_request(sim, i);
            CHECK_SEED(seed, request->answers == 1);
            told += !request->is_fault && !request->decision.degraded;
            asked++;
        }
        nothing_is_left_open(seed, sim, 4);
        sim_close(sim);
    }
    print_message("%u of %u requests were decided by their owners\n", told, asked);
    assert_true(told * 10 >= asked * 7);
}

/* As above, with no way to be answered but by the owners: what a client was told is charged, at every owner. */
static void what_was_admitted_is_charged_whatever_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 200; seed < 240; seed++) {
        const uint64_t capacity = 50;
        struct hr_limit limits[LIMITS];
        make_limits(capacity, limits);
        for (uint32_t i = 0; i < LIMITS; i++) {
            limits[i].on_unavailable = HR_UNAVAILABLE_DENY;
        }
        struct sim *sim = sim_open(seed, 4, limits, LIMITS, lossy);
        char text[ATTRIBUTES_BYTES];
        for (uint32_t i = 0; i < 200; i++) {
            random_attributes(sim_rng(sim), 1 + (uint32_t)hr_rng_below(sim_rng(sim), 6), text);
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), 4), text, 1, false);
            sim_run(sim, (hr_ns)hr_rng_below(sim_rng(sim), (uint64_t)MS(3)));
        }
        sim_run(sim, MS(8000));
        for (uint32_t limit = 0; limit < LIMITS; limit++) {
            for (uint32_t value = 0; value < VALUES; value++) {
                uint64_t spent = used(sim, limit, value, capacity);
                CHECK_SEED(seed, spent >= admitted(sim, limit, value, false) && spent <= capacity);
            }
        }
        nothing_is_left_open(seed, sim, 4);
        sim_close(sim);
    }
}

/* Cost of requests that were not answered at that time. Their lead may have died when it had committed and not
 * answered: they are decided once more, and charged twice. */
static uint64_t under_way(const struct sim *sim, uint32_t limit, uint32_t value, hr_ns at)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim_request_count(sim); i++) {
        const struct sim_request *request = sim_request(sim, i);
        bool was = request->asked_at <= at && (!request->is_answered || request->answered_at > at);
        sum += was && touches(request, limit, value) ? request->cost : 0;
    }
    return sum;
}

static void the_death_of_a_lead_leaves_no_hold(void **state)
{
    (void)state;
    uint64_t given_back = 0, kept = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const uint64_t capacity = 1000;
        struct hr_limit limits[LIMITS];
        make_limits(capacity, limits);
        for (uint32_t i = 0; i < LIMITS; i++) {
            limits[i].on_unavailable = HR_UNAVAILABLE_DENY;
        }
        struct sim *sim = sim_open(seed, 4, limits, LIMITS, quiet);
        char text[ATTRIBUTES_BYTES];
        for (uint32_t i = 0; i < 40; i++) {
            random_attributes(sim_rng(sim), 8, text);
            (void)sim_check(sim, (uint32_t)hr_rng_below(sim_rng(sim), 4), text, 1, false);
            sim_run(sim, (hr_ns)hr_rng_below(sim_rng(sim), (uint64_t)MS(1)) / 4);
        }
        hr_ns crashed_at = sim_now(sim).steady;
        uint32_t dead = 1 + (uint32_t)(seed % 2); /* a second one, who cannot be asked what it saw */
        for (uint32_t i = 0; i < dead; i++) {
            sim_crash(sim, i);
        }
        for (uint32_t p = 0; p < 4096; p++) {
            if (sim_owner(sim, p) < dead) {
                sim_own(sim, p, dead); /* whose counters of these partitions begin afresh */
            }
        }
        sim_run(sim, MS(5000));
        nothing_is_left_open(seed, sim, 4);
        for (uint32_t i = dead; i < 4; i++) {
            given_back += hr_holds_counts(sim_holds(sim, i)).given_back;
            kept += hr_holds_counts(sim_holds(sim, i)).kept;
        }
        for (uint32_t limit = 0; limit < LIMITS; limit++) {
            for (uint32_t value = 0; value < VALUES; value++) {
                (void)snprintf(text, sizeof(text), "k%u=v%u", limit, value);
                uint64_t spent = used(sim, limit, value, capacity);
                if (sim_owner(sim, sim_partition(sim, limit, text)) > dead) {
                    CHECK_SEED(seed, spent >= admitted(sim, limit, value, false));
                    uint64_t twice = under_way(sim, limit, value, crashed_at);
                    CHECK_SEED(seed, spent <= admitted(sim, limit, value, true) + twice);
                }
            }
        }
        sim_close(sim);
    }
    print_message("%llu holds given back, %llu kept without their lead\n", (unsigned long long)given_back,
                  (unsigned long long)kept);
    assert_true(given_back > 0 && kept > 0); /* or no lead died in time */
}

/* One owner never hears of the commit, the caller is told when the time is up, and then the lead dies. The other owner
 * knows, and is asked. */
static void a_commit_that_one_owner_heard_of_holds_for_all(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(21, 4, 10, quiet);
    const char *const each[] = {"k0=v0", "k1=v0", "k2=v0"};
    for (uint32_t i = 0; i < COUNT(each); i++) {
        sim_own(sim, sim_partition(sim, i, each[i]), i);
    }
    uint32_t number = sim_check(sim, 0, "k0=v0 k1=v0 k2=v0", 3, false);
    sim_cut(sim, 0, 2, true); /* what holds is on its way already */
    sim_run(sim, MS(60));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->decision.allowed);
    assert_int_equal(hr_holds_open_count(sim_holds(sim, 2)), 1);
    sim_crash(sim, 0);
    sim_run(sim, MS(2000));
    assert_int_equal(used(sim, 1, 0, 10), 3);
    assert_int_equal(used(sim, 2, 0, 10), 3);
    assert_int_equal(hr_holds_open_count(sim_holds(sim, 2)), 0);
    sim_close(sim);
}

/* No owner but the lead hears of the commit. Were its caller told "allowed", the others would give back what it cost,
 * once the lead is dead. */
static void nobody_is_told_allowed_before_another_owner_knows(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(22, 4, 10, quiet);
    const char *const each[] = {"k0=v0", "k1=v0", "k2=v0"};
    for (uint32_t i = 0; i < COUNT(each); i++) {
        sim_own(sim, sim_partition(sim, i, each[i]), i);
    }
    uint32_t number = sim_check(sim, 0, "k0=v0 k1=v0 k2=v0", 3, false);
    sim_cut(sim, 0, 1, true);
    sim_cut(sim, 0, 2, true);
    sim_run(sim, MS(60));
    assert_true(sim_request(sim, number)->is_answered && sim_request(sim, number)->is_fault);
    sim_crash(sim, 0);
    sim_run(sim, MS(2000));
    assert_int_equal(used(sim, 1, 0, 10), 0);
    assert_int_equal(used(sim, 2, 0, 10), 0);
    sim_close(sim);
}

static uint32_t count_degraded(const struct sim *sim, uint32_t *ret_allowed)
{
    uint32_t degraded = 0;
    *ret_allowed = 0;
    for (uint32_t i = 0; i < sim_request_count(sim); i++) {
        const struct sim_request *request = sim_request(sim, i);
        degraded += request->decision.degraded;
        *ret_allowed += request->decision.allowed;
    }
    return degraded;
}

static void a_silent_owner_is_answered_for_as_its_limit_says(void **state)
{
    (void)state;
    static const struct {
        enum hr_on_unavailable way;
        uint32_t allowed; /* of 40 through one of 4 nodes, of a limit of 20 */
    } rows[] = {{HR_UNAVAILABLE_LOCAL, 5}, {HR_UNAVAILABLE_ALLOW, 40}, {HR_UNAVAILABLE_DENY, 0}};
    for (size_t row = 0; row < COUNT(rows); row++) {
        struct hr_limit limits[LIMITS];
        make_limits(20, limits);
        limits[0].on_unavailable = rows[row].way;
        struct sim *sim = sim_open(3, 4, limits, LIMITS, quiet);
        uint32_t owner = sim_owner(sim, sim_partition(sim, 0, "k0=v0")), allowed;
        sim_crash(sim, owner);
        for (uint32_t i = 0; i < 40; i++) {
            (void)sim_check(sim, (owner + 1) % 4, "k0=v0", 1, false);
            sim_run(sim, MS(1));
        }
        sim_run(sim, MS(100));
        uint32_t degraded = count_degraded(sim, &allowed);
        if (degraded != 40 || allowed != rows[row].allowed) {
            fail_msg("row %zu: %u degraded, %u allowed", row, degraded, allowed);
        }
        for (uint32_t i = 0; i < sim_request_count(sim); i++) {
            const struct sim_request *request = sim_request(sim, i);
            assert_true(request->answered_at - request->asked_at <= MS(45));
        }
        sim_close(sim);
    }
}

static void a_counter_that_nobody_owns_is_decided_at_once(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(4, 4, 20, quiet);
    uint32_t allowed;
    sim_set_nobody(sim, sim_partition(sim, 0, "k0=v0"), true);
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t number = sim_check(sim, 2, "k0=v0", 1, false);
        assert_true(sim_request(sim, number)->is_answered);
    }
    assert_int_equal(count_degraded(sim, &allowed), 40);
    assert_int_equal(allowed, 5);
    sim_close(sim);
}

static void a_fair_part_is_given_back_where_another_limit_denies(void **state)
{
    (void)state;
    struct sim *sim = open_quotas(5, 4, 20, quiet);
    uint32_t partition = sim_partition(sim, 0, "k0=v0"), owner = sim_owner(sim, sim_partition(sim, 1, "k1=v0"));
    (void)sim_check(sim, owner, "k1=v0", 20, false);
    sim_run(sim, MS(5));
    sim_set_nobody(sim, partition, true);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t number = sim_check(sim, owner, "k0=v0 k1=v0", 1, false);
        sim_run(sim, MS(5));
        assert_false(sim_request(sim, number)->decision.allowed);
        assert_string_equal(sim_request(sim, number)->decided_by, "l1");
    }
    sim_set_nobody(sim, sim_partition(sim, 2, "k2=v0"), true); /* and once more where another part denies */
    (void)sim_check(sim, owner, "k2=v0", 5, false);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t number = sim_check(sim, owner, "k0=v0 k2=v0", 1, false);
        assert_false(sim_request(sim, number)->decision.allowed);
        assert_string_equal(sim_request(sim, number)->decided_by, "l2");
    }
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t number = sim_check(sim, owner, "k0=v0", 1, false);
        assert_true(sim_request(sim, number)->decision.allowed);
    }
    sim_close(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_admitted_is_exactly_the_limit),
        cmocka_unit_test(a_call_that_comes_twice_is_charged_once),
        cmocka_unit_test(a_request_is_sent_to_the_owner_and_never_further),
        cmocka_unit_test(calls_of_one_turn_leave_in_one_letter),
        cmocka_unit_test(the_answers_of_a_check_many_stand_in_its_order),
        cmocka_unit_test(a_moving_partition_keeps_its_requests),
        cmocka_unit_test(a_hold_does_not_wait_long_for_a_partition_that_moves),
        cmocka_unit_test(a_request_that_is_led_waits_for_a_partition_that_moves),
        cmocka_unit_test(what_comes_after_its_sender_gave_up_is_not_charged),
        cmocka_unit_test(what_was_kept_for_too_long_is_not_charged),
        cmocka_unit_test(an_owner_that_cannot_yet_is_asked_again),
        cmocka_unit_test(a_lease_is_given_back_through_any_node),
        cmocka_unit_test(a_rate_given_on_the_spot_has_one_counter_in_the_region),
        cmocka_unit_test(a_request_over_several_owners_is_all_or_nothing),
        cmocka_unit_test(a_denial_is_true),
        cmocka_unit_test(a_peek_over_several_owners_takes_nothing),
        cmocka_unit_test(a_refund_goes_to_each_owner_once),
        cmocka_unit_test(no_charge_is_forgotten_when_letters_are_lost),
        cmocka_unit_test(what_was_admitted_is_charged_whatever_is_lost),
        cmocka_unit_test(the_death_of_a_lead_leaves_no_hold),
        cmocka_unit_test(a_commit_that_one_owner_heard_of_holds_for_all),
        cmocka_unit_test(nobody_is_told_allowed_before_another_owner_knows),
        cmocka_unit_test(a_silent_owner_is_answered_for_as_its_limit_says),
        cmocka_unit_test(a_counter_that_nobody_owns_is_decided_at_once),
        cmocka_unit_test(a_fair_part_is_given_back_where_another_limit_denies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
