/* Counters of global caps as a limiter decides them: by stakes that somebody else prices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/part.h"
#include "limiter/stakes.h"
#include "tests/lib/limiter_fixture.h"

#define RATE 100
#define UNITS 1000

/* A limiter with one limit of each kind, all global, each for a route of its own. */
struct world {
    struct hr_limiter *limiter;
    void *memory, *set_memory;
    struct hr_limit limits[3];
    struct hr_pattern patterns[3];
    struct hr_condition conditions[3];
    struct hr_limit_set set;
    struct hr_now now;
    struct hr_decision decision;
    uint64_t serial;
    /* what the pricer gives */
    struct hr_price price;
    uint64_t permission, charged;
    uint32_t priced;
};

enum { BUCKET, QUOTA, SLOTS };
static const char *const routes[] = {"bucket", "quota", "slots"};

static void price(void *context, struct hr_id128 id, uint32_t number, struct hr_now now)
{
    struct world *world = context;
    world->priced++;
    struct hr_share *share = hr_limiter_share(world->limiter, id, number, now);
    if (share != NULL) {
        hr_share_set_price(share, world->price, world->price, INT64_MAX);
        hr_share_add(share, share->is_fresh ? world->price.cap : 0);
        share->is_fresh = share->wants_notice = false;
        return;
    }
    struct hr_escrow *escrow = hr_limiter_escrow(world->limiter, id, number, now);
    assert_non_null(escrow);
    escrow->permission = world->permission;
    escrow->charged = world->charged;
}

static struct hr_price tokens(int64_t rate, int64_t depth)
{
    uint32_t shift = hr_share_shift(RATE, RATE);
    return (struct hr_price){rate << shift, depth << shift};
}

static void fill_limit(struct world *world, int which, struct hr_rule rule)
{
    world->patterns[which] = (struct hr_pattern){.kind = HR_MATCH_EXACT, .text = hr_span_of(routes[which])};
    world->conditions[which] =
        (struct hr_condition){.attribute = HR_SPAN("route"), .pattern_count = 1, .patterns = &world->patterns[which]};
    world->limits[which] = (struct hr_limit){.name = hr_span_of(routes[which]),
                                             .when_count = 1,
                                             .when = &world->conditions[which],
                                             .rule = rule,
                                             .scope = HR_SCOPE_GLOBAL};
}

static void load(struct world *world)
{
    size_t bytes = hr_limit_set_bytes(world->limits, COUNT(world->limits));
    void *memory = malloc(bytes);
    assert_non_null(memory);
    assert_int_equal(hr_limit_set_build(&world->set, world->limits, COUNT(world->limits), memory, bytes), HR_OK);
    assert_int_equal(hr_limiter_load(world->limiter, &world->set, world->now), HR_OK);
    free(world->set_memory);
    world->set_memory = memory;
}

static void open_world(struct world *world, uint32_t shares_max)
{
    static const struct hr_hash_key secret = {{7}};
    const struct hr_limiter_sizes sizes = {
        .counters_max = 16, .leases_max = 16, .limits_max = 4, .shares_max = shares_max};
    *world = (struct world){.now = {SECONDS(FIXTURE_START_S), {SECONDS(FIXTURE_START_S)}},
                            .price = tokens(RATE / 2, RATE / 2),
                            .permission = UNITS / 2,
                            .charged = UINT64_MAX};
    size_t bytes = (hr_limiter_bytes(&sizes) + 63) / 64 * 64;
    world->memory = aligned_alloc(64, bytes);
    assert_non_null(world->memory);
    memset(world->memory, 0, bytes);
    world->limiter = hr_limiter_init(&sizes, &secret, world->memory, bytes);
    assert_non_null(world->limiter);
    hr_limiter_set_pricer(world->limiter, (struct hr_pricer){price, world});
    fill_limit(world, BUCKET, bucket(HR_TOKEN_BUCKET, RATE, SECONDS(1), RATE));
    fill_limit(world, QUOTA, quota(UNITS, HR_DAY, NULL));
    fill_limit(world, SLOTS, slots(10, SECONDS(60)));
    load(world);
}

static void close_world(struct world *world)
{
    free(world->memory);
    free(world->set_memory);
}

static void pass(struct world *world, int64_t ns)
{
    world->now.steady += ns;
    world->now.wall.ns += ns;
}

static struct hr_request request_of(struct world *world, const char *route, uint64_t cost,
                                    struct hr_attribute *attribute)
{
    *attribute = (struct hr_attribute){HR_SPAN("route"), hr_span_of(route)};
    return (struct hr_request){.attributes = attribute, .attribute_count = 1, .cost = cost, .serial = ++world->serial};
}

static enum hr_err try(struct world *world, const char *route, uint64_t cost, bool is_peek)
{
    struct hr_attribute attribute;
    struct hr_request request = request_of(world, route, cost, &attribute);
    request.peek = is_peek;
    return hr_limiter_check(world->limiter, &request, world->now, &world->decision);
}

static bool take(struct world *world, const char *route, uint64_t cost)
{
    assert_int_equal(try(world, route, cost, false), HR_OK);
    return world->decision.allowed;
}

static const struct hr_row *row(const struct world *world)
{
    assert_int_equal(world->decision.row_count, 1);
    return &world->decision.rows[0];
}

static void a_share_is_spent_and_no_more(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    assert_true(take(&world, "bucket", 50));
    assert_int_equal(row(&world)->remaining, 0);
    assert_false(row(&world)->wants_share);
    assert_false(take(&world, "bucket", 1));
    assert_true(row(&world)->wants_share);
    assert_int_equal(row(&world)->retry_after_ms, 20);
    pass(&world, MS(20));
    assert_true(take(&world, "bucket", 1));
    assert_false(take(&world, "bucket", 1));
    close_world(&world);
}

static void a_cost_above_the_cap_never_fits_and_is_not_for_want_of_share(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    assert_false(take(&world, "bucket", RATE + 1));
    assert_int_equal(row(&world)->retry_after_ms, HR_NEVER_MS);
    assert_false(row(&world)->wants_share);
    assert_false(take(&world, "bucket", RATE)); /* more than the region holds: other regions may help */
    assert_int_equal(row(&world)->retry_after_ms, 1000);
    assert_true(row(&world)->wants_share);
    close_world(&world);
}

static void a_peek_takes_nothing_and_asks_for_nothing(void **state)
{
    (void)state;
    struct world world;
    struct hr_id128 id;
    uint32_t number;
    open_world(&world, 8);
    assert_int_equal(try(&world, "bucket", 40, true), HR_OK);
    assert_true(world.decision.allowed);
    assert_false(hr_limiter_next_notice(world.limiter, &id, &number));
    assert_true(take(&world, "bucket", 50));
    close_world(&world);
}

static void a_quota_waits_for_its_log(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    world.charged = 10;
    assert_true(take(&world, "quota", 10));
    assert_int_equal(try(&world, "quota", 1, false), HR_E_PENDING);
    assert_int_equal(try(&world, "quota", 1, true), HR_OK); /* a peek need not */
    assert_true(world.decision.allowed);
    world.charged = UNITS;
    hr_limiter_reprice_stakes(world.limiter);
    assert_true(take(&world, "quota", 1));
    assert_false(take(&world, "quota", UNITS / 2));
    assert_true(row(&world)->wants_share);
    close_world(&world);
}

static void a_quota_begins_anew_with_its_period_and_not_when_the_clock_steps_back(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    assert_true(take(&world, "quota", UNITS / 2));
    assert_false(take(&world, "quota", 1));
    pass(&world, DAYS(1));
    assert_true(take(&world, "quota", UNITS / 2));
    world.now.wall.ns -= DAYS(1);
    assert_false(take(&world, "quota", 1));
    close_world(&world);
}

static void slots_are_bounded_by_permission_and_by_their_own_count(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    world.permission = 3;
    for (int i = 0; i < 3; i++) {
        assert_true(take(&world, "slots", 1));
    }
    struct hr_id128 lease = row(&world)->lease;
    assert_false(take(&world, "slots", 1));
    assert_true(row(&world)->wants_share);
    assert_int_equal(row(&world)->remaining, 0);
    assert_true(hr_limiter_release(world.limiter, lease, world.now));
    assert_true(take(&world, "slots", 1));
    world.permission = 20;
    hr_limiter_reprice_stakes(world.limiter);
    assert_true(take(&world, "slots", 7));
    assert_false(take(&world, "slots", 1));
    assert_false(row(&world)->wants_share); /* all of them are held */
    close_world(&world);
}

static void the_pricer_is_asked_once_for_each_generation(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    for (int i = 0; i < 5; i++) {
        assert_true(take(&world, "bucket", 1));
    }
    assert_int_equal(world.priced, 1);
    hr_limiter_reprice_stakes(world.limiter);
    assert_true(take(&world, "bucket", 1));
    assert_true(take(&world, "bucket", 1));
    assert_int_equal(world.priced, 2);
    close_world(&world);
}

static void a_counter_that_wants_help_is_noted_once(void **state)
{
    (void)state;
    struct world world;
    struct hr_id128 id;
    uint32_t number;
    open_world(&world, 8);
    assert_true(take(&world, "bucket", 50));
    assert_false(hr_limiter_next_notice(world.limiter, &id, &number));
    assert_false(take(&world, "bucket", 1));
    assert_false(take(&world, "bucket", 1));
    assert_true(hr_limiter_next_notice(world.limiter, &id, &number));
    assert_int_equal(number, hr_limiter_cap(world.limiter, BUCKET)->number);
    assert_false(hr_limiter_next_notice(world.limiter, &id, &number));
    close_world(&world);
}

static void a_change_of_the_numbers_keeps_the_stake_and_another_period_begins_one(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    uint32_t number = hr_limiter_cap(world.limiter, BUCKET)->number;
    assert_true(take(&world, "bucket", 50));
    world.limits[BUCKET].rule.rate = 2 * (uint64_t)RATE;
    load(&world);
    assert_int_equal(hr_limiter_cap(world.limiter, BUCKET)->number, number);
    assert_false(take(&world, "bucket", 1));
    world.limits[BUCKET].rule.period_ns *= 2;
    load(&world);
    assert_int_not_equal(hr_limiter_cap(world.limiter, BUCKET)->number, number);
    assert_true(take(&world, "bucket", 1));
    close_world(&world);
}

/* What a hold took comes back, but for what has flowed in since: taken and given back at any time, a bucket is never
 * fuller than if nobody had come. */
static void what_is_given_back_never_makes_the_bucket_fuller(void **state)
{
    (void)state;
    static const int64_t waits_ms[] = {0, 1, 20, 100, 200, 400, 5000};
    for (size_t i = 0; i < COUNT(waits_ms); i++) {
        struct world world;
        struct hr_attribute attribute;
        struct hr_touches touches;
        struct hr_taken taken;
        uint32_t count = 0;
        open_world(&world, 8);
        assert_true(take(&world, "bucket", 10)); /* 40 are left, full in 200 ms */
        struct hr_request request = request_of(&world, "bucket", 20, &attribute);
        assert_int_equal(hr_limiter_touches(world.limiter, &request, &touches), HR_OK);
        assert_int_equal(hr_limiter_take_part(world.limiter, &request, (struct hr_counters){&touches.at[0].counter, 1},
                                              world.now, &world.decision, &taken, &count),
                         HR_OK);
        assert_int_equal(count, 1);
        pass(&world, MS(waits_ms[i]));
        hr_limiter_give_back(world.limiter, &taken, world.now);
        int64_t untouched = 40 + waits_ms[i] * RATE / 2 / 1000, least = 20 + waits_ms[i] * RATE / 2 / 1000;
        assert_int_equal(try(&world, "bucket", 0, true), HR_OK);
        int64_t remaining = (int64_t)row(&world)->remaining;
        if (remaining > (untouched < 50 ? untouched : 50) || remaining < (least < 50 ? least : 50)) {
            fail_msg("after %lld ms: %lld", (long long)waits_ms[i], (long long)remaining);
        }
        if (waits_ms[i] == 0) {
            assert_int_equal(remaining, 40);
        }
        close_world(&world);
    }
}

static void a_fair_part_of_a_global_cap_is_nobodys_to_give(void **state)
{
    (void)state;
    struct world world;
    struct hr_attribute attribute;
    struct hr_touches touches;
    struct hr_taken taken;
    uint32_t count = 0;
    open_world(&world, 8);
    struct hr_request request = request_of(&world, "bucket", 1, &attribute);
    assert_int_equal(hr_limiter_touches(world.limiter, &request, &touches), HR_OK);
    assert_int_equal(
        hr_limiter_take_share(world.limiter, &request, &touches.at[0], 2, world.now, &world.decision, &taken, &count),
        HR_E_NOT_FOUND);
    close_world(&world);
}

static bool is_any(void *context, struct hr_id128 id)
{
    (void)context;
    (void)id;
    return true;
}

static void a_stake_that_went_to_another_node_says_nothing_any_more(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 8);
    assert_true(take(&world, "bucket", 10));
    hr_limiter_drop_stakes(world.limiter, is_any, NULL, world.now);
    world.price = tokens(0, 0);
    assert_false(take(&world, "bucket", 1));
    assert_int_equal(row(&world)->remaining, 0);
    close_world(&world);
}

static void a_full_pool_makes_room_from_those_that_are_idle_and_else_says_so(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 1);
    assert_true(take(&world, "bucket", 1));
    assert_int_equal(try(&world, "quota", 1, false), HR_E_FULL);
    pass(&world, SECONDS(1)); /* the bucket is full again */
    assert_true(take(&world, "quota", 1));
    assert_int_equal(hr_limiter_usage(world.limiter).shares, 1);
    close_world(&world);
}

static void without_stakes_a_global_limit_is_regional(void **state)
{
    (void)state;
    struct world world;
    open_world(&world, 0);
    assert_int_equal(hr_limiter_cap(world.limiter, BUCKET)->number, 0);
    assert_true(take(&world, "bucket", RATE));
    assert_false(take(&world, "bucket", 1));
    assert_false(row(&world)->wants_share);
    assert_int_equal(world.priced, 0);
    close_world(&world);
}

static void a_refund_gives_back_what_was_spent(void **state)
{
    (void)state;
    static const int kinds[] = {BUCKET, QUOTA};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct world world;
        struct hr_attribute attribute;
        open_world(&world, 8);
        struct hr_request request = request_of(&world, routes[kinds[i]], 5, &attribute);
        assert_int_equal(hr_limiter_refund(world.limiter, &request, world.now), HR_E_NOT_FOUND);
        assert_true(take(&world, routes[kinds[i]], 20));
        uint64_t before = row(&world)->remaining;
        assert_int_equal(hr_limiter_refund(world.limiter, &request, world.now), HR_OK);
        assert_int_equal(try(&world, routes[kinds[i]], 0, true), HR_OK);
        assert_int_equal(row(&world)->remaining, before + 5);
        close_world(&world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_is_spent_and_no_more),
        cmocka_unit_test(a_cost_above_the_cap_never_fits_and_is_not_for_want_of_share),
        cmocka_unit_test(a_peek_takes_nothing_and_asks_for_nothing),
        cmocka_unit_test(a_quota_waits_for_its_log),
        cmocka_unit_test(a_quota_begins_anew_with_its_period_and_not_when_the_clock_steps_back),
        cmocka_unit_test(slots_are_bounded_by_permission_and_by_their_own_count),
        cmocka_unit_test(the_pricer_is_asked_once_for_each_generation),
        cmocka_unit_test(a_counter_that_wants_help_is_noted_once),
        cmocka_unit_test(a_change_of_the_numbers_keeps_the_stake_and_another_period_begins_one),
        cmocka_unit_test(what_is_given_back_never_makes_the_bucket_fuller),
        cmocka_unit_test(a_fair_part_of_a_global_cap_is_nobodys_to_give),
        cmocka_unit_test(a_stake_that_went_to_another_node_says_nothing_any_more),
        cmocka_unit_test(a_full_pool_makes_room_from_those_that_are_idle_and_else_says_so),
        cmocka_unit_test(without_stakes_a_global_limit_is_regional),
        cmocka_unit_test(a_refund_gives_back_what_was_spent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
