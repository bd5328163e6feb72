/* Parts of a request: which counters it touches, deciding some of them, and giving back what was taken. Random streams
 * print their seed where they fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/lease.h"
#include "limiter/part.h"
#include "tests/lib/limiter_fixture.h"

static const struct hr_limiter_sizes small = {
    .counters_max = 8, .leases_max = 16, .log_blocks_max = 16, .limits_max = 4};

static struct hr_touches touches;
static struct hr_decision decision;
static struct hr_taken taken[HR_TOUCHED_MAX];

static void look(struct fixture *fixture, const char *attributes)
{
    struct fixture_request request;
    fixture_request(attributes, 1, &request);
    assert_int_equal(hr_limiter_touches(fixture->limiter, &request.request, &touches), HR_OK);
}

/* Takes from the touched counters of the bits in `which`. Returns how many gave; the decision says whether. */
static uint32_t take(struct fixture *fixture, const char *attributes, uint64_t cost, unsigned which)
{
    struct fixture_request request;
    struct hr_id128 ids[HR_TOUCHED_MAX];
    uint32_t count = 0, taken_count = 99;
    look(fixture, attributes);
    for (uint32_t i = 0; i < touches.count; i++) {
        if ((which >> i & 1U) != 0) {
            ids[count++] = touches.at[i].counter;
        }
    }
    fixture_request(attributes, cost, &request);
    request.request.serial = ++fixture->serial;
    const struct hr_counters part = {ids, count};
    assert_int_equal(
        hr_limiter_take_part(fixture->limiter, &request.request, part, fixture->now, &decision, taken, &taken_count),
        HR_OK);
    assert_int_equal(decision.row_count, count);
    return taken_count;
}

static void give(struct fixture *fixture, const struct hr_taken *what, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hr_limiter_give_back(fixture->limiter, &what[i], fixture->now);
    }
}

static void only_the_counters_asked_of_are_decided_and_charged(void **state)
{
    (void)state;
    struct fixture fixture;
    const struct fixture_limit limits[] = {
        {.name = "a", .key = "user", .rule = window(HR_FIXED_WINDOW, 3, SECONDS(100))},
        {.name = "b", .key = "user", .rule = window(HR_FIXED_WINDOW, 5, SECONDS(100))},
        {.name = "c", .key = "plan", .rule = window(HR_FIXED_WINDOW, 9, SECONDS(100))},
    };
    fixture_open_ample(&fixture);
    fixture_load(&fixture, limits, COUNT(limits));
    assert_int_equal(take(&fixture, "user=ann plan=pro", 2, 5), 2);
    assert_true(decision.allowed);
    assert_int_equal(fixture_remaining(&fixture, "user=ann plan=pro", "a"), 1);
    assert_int_equal(fixture_remaining(&fixture, "user=ann plan=pro", "b"), 5);
    assert_int_equal(fixture_remaining(&fixture, "user=ann plan=pro", "c"), 7);
    assert_int_equal(take(&fixture, "user=ann plan=pro", 2, 7), 0); /* a denies */
    assert_false(decision.allowed);
    assert_int_equal(fixture_remaining(&fixture, "user=ann plan=pro", "c"), 7);
    assert_int_equal(take(&fixture, "user=ann plan=pro", 2, 6), 2);
    assert_true(decision.allowed);
    fixture_close(&fixture);
}

static void a_part_that_the_request_does_not_touch_is_not_found(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_request request;
    const struct fixture_limit limit = {.name = "a", .key = "user", .rule = window(HR_FIXED_WINDOW, 3, SECONDS(100))};
    const struct hr_id128 strange = {1, 2};
    uint32_t taken_count = 99;
    fixture_open_ample(&fixture);
    fixture_load(&fixture, &limit, 1);
    fixture_request("user=ann", 1, &request);
    const struct hr_counters part = {&strange, 1};
    assert_int_equal(
        hr_limiter_take_part(fixture.limiter, &request.request, part, fixture.now, &decision, taken, &taken_count),
        HR_E_NOT_FOUND);
    assert_int_equal(taken_count, 0);
    assert_int_equal(hr_limiter_refund_part(fixture.limiter, &request.request, part, fixture.now), HR_E_NOT_FOUND);
    fixture_close(&fixture);
}

static void a_refund_of_a_part_leaves_the_rest_charged(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_request request;
    const struct fixture_limit limits[] = {
        {.name = "a", .key = "user", .rule = window(HR_FIXED_WINDOW, 9, SECONDS(100))},
        {.name = "b", .key = "user", .rule = window(HR_FIXED_WINDOW, 9, SECONDS(100))},
    };
    fixture_open_ample(&fixture);
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=ann", 4));
    look(&fixture, "user=ann");
    fixture_request("user=ann", 3, &request);
    const struct hr_counters part = {&touches.at[1].counter, 1};
    assert_int_equal(hr_limiter_refund_part(fixture.limiter, &request.request, part, fixture.now), HR_OK);
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "a"), 5);
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "b"), 8);
    fixture_close(&fixture);
}

/* Every algorithm, and a pause of any length between take and give: as if nothing had been taken. */
static void what_is_given_back_leaves_no_trace(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct hr_rng rng = {seed};
        const struct fixture_limit limit = {
            .name = "a", .key = "user", .rule = any_rule((enum hr_algorithm)(seed % ALGORITHM_COUNT), 20)};
        struct fixture with, without;
        fixture_open(&with, small);
        fixture_open(&without, small);
        fixture_load(&with, &limit, 1);
        fixture_load(&without, &limit, 1);
        uint64_t before = hr_rng_below(&rng, 12);
        if (before > 0) {
            assert_true(fixture_take(&with, "user=ann", before) && fixture_take(&without, "user=ann", before));
        }
        int64_t pause = (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(80));
        fixture_pass(&with, pause);
        fixture_pass(&without, pause);
        assert_int_equal(take(&with, "user=ann", 1 + hr_rng_below(&rng, 8), 1), 1);
        bool is_long = hr_rng_chance(&rng, 1, 3);
        pause = (int64_t)hr_rng_below(&rng, (uint64_t)(is_long ? SECONDS(300) : MS(100)));
        fixture_pass(&with, pause);
        fixture_pass(&without, pause);
        give(&with, taken, 1);
        for (uint32_t i = 0; i < 4; i++) {
            uint64_t left = fixture_remaining(&with, "user=ann", "a");
            uint64_t expected = fixture_remaining(&without, "user=ann", "a");
            if (left != expected) {
                fail_msg("seed %llu, look %u: %llu left, not %llu", (unsigned long long)seed, i,
                         (unsigned long long)left, (unsigned long long)expected);
            }
            pause = (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(40));
            fixture_pass(&with, pause);
            fixture_pass(&without, pause);
        }
        fixture_close(&with);
        fixture_close(&without);
    }
}

/* With others in between that both admit: never fuller than if nothing had been taken, and where no time passes,
 * exactly as full. */
static void what_is_given_back_is_never_more_than_what_was_taken(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct hr_rng rng = {seed};
        const struct fixture_limit limit = {
            .name = "a", .key = "user", .rule = any_rule((enum hr_algorithm)(seed % ALGORITHM_COUNT), 60)};
        struct fixture with, without;
        fixture_open(&with, small);
        fixture_open(&without, small);
        fixture_load(&with, &limit, 1);
        fixture_load(&without, &limit, 1);
        bool is_still = hr_rng_chance(&rng, 1, 2);
        assert_int_equal(take(&with, "user=ann", 1 + hr_rng_below(&rng, 20), 1), 1);
        struct hr_taken first = taken[0];
        for (uint32_t i = 0; i < 6; i++) {
            int64_t pause = is_still ? 0 : (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(40));
            fixture_pass(&with, pause);
            fixture_pass(&without, pause);
            uint64_t cost = 1 + hr_rng_below(&rng, 5);
            if (fixture_peek(&with, "user=ann", cost)) {
                assert_true(fixture_take(&with, "user=ann", cost) && fixture_take(&without, "user=ann", cost));
            }
        }
        give(&with, &first, 1);
        for (uint32_t i = 0; i < 6; i++) {
            uint64_t left = fixture_remaining(&with, "user=ann", "a");
            uint64_t expected = fixture_remaining(&without, "user=ann", "a");
            if (left > expected || (is_still && left != expected)) {
                fail_msg("seed %llu: %llu left, not %llu", (unsigned long long)seed, (unsigned long long)left,
                         (unsigned long long)expected);
            }
            int64_t pause = (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(40));
            fixture_pass(&with, pause);
            fixture_pass(&without, pause);
        }
        fixture_close(&with);
        fixture_close(&without);
    }
}

static void a_counter_whose_rule_has_changed_keeps_the_charge(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_limit limit = {.name = "a", .key = "user", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(100), 10)};
    fixture_open_ample(&fixture);
    fixture_load(&fixture, &limit, 1);
    assert_int_equal(take(&fixture, "user=ann", 4, 1), 1);
    limit.rule.capacity = 20;
    fixture_load(&fixture, &limit, 1);
    give(&fixture, taken, 1);
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "a"), 16);
    fixture_close(&fixture);
}

static void a_shadow_is_charged_and_given_back_and_never_denies(void **state)
{
    (void)state;
    struct fixture fixture;
    const struct fixture_limit limits[] = {
        {.name = "a", .key = "user", .rule = window(HR_FIXED_WINDOW, 9, SECONDS(100))},
        {.name = "b", .key = "user", .rule = window(HR_FIXED_WINDOW, 2, SECONDS(100)), .mode = HR_SHADOW},
    };
    fixture_open_ample(&fixture);
    fixture_load(&fixture, limits, COUNT(limits));
    assert_int_equal(take(&fixture, "user=ann", 2, 3), 2);
    give(&fixture, taken, 2);
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "b"), 2);
    assert_int_equal(take(&fixture, "user=ann", 3, 3), 1);
    assert_true(decision.allowed);
    assert_false(decision.rows[1].allowed);
    fixture_close(&fixture);
}

static void a_lease_tells_its_counter(void **state)
{
    (void)state;
    struct fixture fixture;
    const struct fixture_limit limit = {.name = "a", .key = "user", .rule = slots(3, SECONDS(60))};
    fixture_open_ample(&fixture);
    fixture_load(&fixture, &limit, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&fixture, "user=ann", 1, 1), 1);
        assert_true(decision.rows[0].has_lease);
        assert_int_equal(decision.rows[0].lease.hi >> (64 - HR_LEASE_COUNTER_BITS),
                         decision.rows[0].counter.hi >> (64 - HR_LEASE_COUNTER_BITS));
    }
    struct hr_id128 lease = decision.rows[0].lease;
    give(&fixture, taken, 1);
    assert_false(hr_limiter_release(fixture.limiter, lease, fixture.now));
    assert_int_equal(fixture_remaining(&fixture, "user=ann", "a"), 1);
    fixture_close(&fixture);
}

static void a_share_is_a_rule_divided(void **state)
{
    (void)state;
    const struct {
        struct hr_rule rule;
        uint32_t nodes;
        uint64_t capacity, rate;
        int64_t period_ns;
    } rows[] = {
        {bucket(HR_TOKEN_BUCKET, 30, SECONDS(1), 60), 3, 20, 30, SECONDS(3)},
        {bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 1), 3, 1, 1, SECONDS(3)},
        {bucket(HR_LEAKY_BUCKET, 10, DAYS(200), 10), 4, 2, 2, DAYS(200)},
        {bucket(HR_TOKEN_BUCKET, 1, DAYS(366), 5), 4, 1, 1, DAYS(366)},
        {window(HR_FIXED_WINDOW, 10, SECONDS(1)), 4, 2, 0, SECONDS(1)},
        {window(HR_SLIDING_LOG, 2, SECONDS(1)), 4, 1, 0, SECONDS(1)},
        {quota(100, HR_DAY, NULL), 1, 100, 0, 0},
        {slots(7, SECONDS(60)), 2, 3, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_rule share = hr_rule_share(&rows[i].rule, rows[i].nodes);
        bool is_right = share.capacity == rows[i].capacity && share.rate == rows[i].rate &&
                        share.period_ns == (uint64_t)rows[i].period_ns && share.algorithm == rows[i].rule.algorithm;
        if (!is_right || hr_rule_fault(&share) != NULL) {
            fail_msg("row %zu", i);
        }
    }
}

static void a_share_has_a_counter_beside_the_real_one(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_request request;
    uint32_t taken_count, admitted = 0;
    for (int algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        const struct fixture_limit limit = {
            .name = "a", .key = "user", .rule = any_rule((enum hr_algorithm)algorithm, 20)};
        fixture_open_ample(&fixture);
        fixture_load(&fixture, &limit, 1);
        look(&fixture, "user=ann");
        admitted = 0;
        for (int i = 0; i < 12; i++) {
            fixture_request("user=ann", 1, &request);
            request.request.serial = ++fixture.serial;
            assert_int_equal(hr_limiter_take_share(fixture.limiter, &request.request, &touches.at[0], 4, fixture.now,
                                                   &decision, taken, &taken_count),
                             HR_OK);
            assert_ptr_equal(decision.rows[0].limit, touches.at[0].limit);
            admitted += decision.allowed;
        }
        if (admitted != 5 || fixture_remaining(&fixture, "user=ann", "a") != 20) {
            fail_msg("algorithm %d: %u admitted", algorithm, admitted);
        }
        fixture_close(&fixture);
    }
}

/* How many of thirty requests the node admits by its part, where so many nodes are live. */
static uint32_t admit_by_share(struct fixture *fixture, uint32_t nodes)
{
    struct fixture_request request;
    uint32_t taken_count, admitted = 0;
    look(fixture, "user=ann");
    for (int i = 0; i < 30; i++) {
        fixture_request("user=ann", 1, &request);
        request.request.serial = ++fixture->serial;
        assert_int_equal(hr_limiter_take_share(fixture->limiter, &request.request, &touches.at[0], nodes, fixture->now,
                                               &decision, taken, &taken_count),
                         HR_OK);
        admitted += decision.allowed;
    }
    return admitted;
}

/* A node that hears the others by fits and starts has its part grow and shrink: what it has spent is spent. */
static void a_share_keeps_what_is_spent_while_nodes_come_and_go(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes, admitted;
    } rows[] = {{4, 5}, {2, 5}, {4, 0}, {1, 10}, {2, 0}, {1, 0}, {4, 0}};
    for (int algorithm = 0; algorithm < ALGORITHM_COUNT; algorithm++) {
        struct fixture fixture;
        const struct fixture_limit limit = {
            .name = "a", .key = "user", .rule = any_rule((enum hr_algorithm)algorithm, 20)};
        fixture_open_ample(&fixture);
        fixture_load(&fixture, &limit, 1);
        for (size_t i = 0; i < COUNT(rows); i++) {
            uint32_t admitted = admit_by_share(&fixture, rows[i].nodes);
            if (admitted != rows[i].admitted) {
                fail_msg("algorithm %d, row %zu: %u admitted", algorithm, i, admitted);
            }
        }
        fixture_close(&fixture);
    }
}

/* The days that are spent are charged to the month, and the month to the day that it is. */
static void a_share_of_a_quota_stays_spent_under_another_unit(void **state)
{
    (void)state;
    struct fixture fixture;
    const struct fixture_limit day = {.name = "a", .key = "user", .rule = quota(20, HR_DAY, NULL)};
    const struct fixture_limit month = {.name = "a", .key = "user", .rule = quota(40, HR_MONTH, NULL)};
    fixture_open_ample(&fixture);
    fixture_load(&fixture, &day, 1);
    assert_int_equal(admit_by_share(&fixture, 2), 10);
    fixture_load(&fixture, &month, 1);
    assert_int_equal(admit_by_share(&fixture, 2), 10);
    fixture_load(&fixture, &day, 1);
    assert_int_equal(admit_by_share(&fixture, 1), 0);
    fixture_close(&fixture);
}

/* The set, with a zone in it, is gone with the next load; the shares' rules stay. The sanitizer would see it. */
static void a_share_outlives_the_limit_set(void **state)
{
    (void)state;
    struct fixture fixture;
    struct fixture_request request;
    uint32_t taken_count;
    const struct fixture_limit limit = {.name = "a", .key = "user", .rule = quota(20, HR_DAY, NULL)};
    fixture_open_ample(&fixture);
    for (int i = 0; i < 3; i++) {
        fixture_load(&fixture, &limit, 1);
        look(&fixture, "user=ann");
        fixture_request("user=ann", 1, &request);
        assert_int_equal(hr_limiter_take_share(fixture.limiter, &request.request, &touches.at[0], 4, fixture.now,
                                               &decision, taken, &taken_count),
                         HR_OK);
        assert_int_equal(decision.rows[0].remaining, 4 - i);
        fixture_sweep(&fixture);
    }
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_counters_asked_of_are_decided_and_charged),
        cmocka_unit_test(a_part_that_the_request_does_not_touch_is_not_found),
        cmocka_unit_test(a_refund_of_a_part_leaves_the_rest_charged),
        cmocka_unit_test(what_is_given_back_leaves_no_trace),
        cmocka_unit_test(what_is_given_back_is_never_more_than_what_was_taken),
        cmocka_unit_test(a_counter_whose_rule_has_changed_keeps_the_charge),
        cmocka_unit_test(a_shadow_is_charged_and_given_back_and_never_denies),
        cmocka_unit_test(a_lease_tells_its_counter),
        cmocka_unit_test(a_share_is_a_rule_divided),
        cmocka_unit_test(a_share_has_a_counter_beside_the_real_one),
        cmocka_unit_test(a_share_keeps_what_is_spent_while_nodes_come_and_go),
        cmocka_unit_test(a_share_of_a_quota_stays_spent_under_another_unit),
        cmocka_unit_test(a_share_outlives_the_limit_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
