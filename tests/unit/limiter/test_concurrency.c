/* Concurrency and leases: against their definition in random runs; release, renewal and expiry; the pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/concurrency.h"
#include "tests/lib/history.h"
#include "tests/lib/limiter_fixture.h"

static void every_number_follows_from_the_definition_where_no_lease_is_released(void **state)
{
    (void)state;
    struct hr_rng rng = {8};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (int i = 0; i < 300; i++) {
        uint64_t n = 1 + hr_rng_below(&rng, 50);
        struct history_run run = {
            .rule = slots(n, MS(1 + (int64_t)hr_rng_below(&rng, 5000))),
            .start = i % 3 == 0 ? 0 : SECONDS(FIXTURE_START_S),
            .step_ns = MS(1 + (int64_t)hr_rng_below(&rng, 300)),
            .cost_max = 1 + hr_rng_below(&rng, n),
            .steps = 256,
            .seed = hr_rng_next(&rng),
        };
        history_run(&run);
    }
}

/* ---- A naive model with release and renewal: an array of leases ---- */

#define MODEL_LEASES 256

struct model_lease {
    struct hr_id128 id;
    int user;
    uint64_t slots;
    hr_ns expires_at; /* 0: ended */
};

static uint64_t model_held(const struct model_lease *leases, size_t count, int user, hr_ns now)
{
    uint64_t held = 0;
    for (size_t i = 0; i < count; i++) {
        held += leases[i].user == user && leases[i].expires_at > now ? leases[i].slots : 0;
    }
    return held;
}

static void take_both(struct fixture *fixture, struct hr_rng *rng, struct model_lease *leases, size_t *count)
{
    static const char *const users[] = {"user=a", "user=b", "user=c"};
    int user = (int)hr_rng_below(rng, COUNT(users));
    uint64_t cost = 1 + hr_rng_below(rng, 4), held = model_held(leases, *count, user, fixture->now.steady);
    bool allowed = fixture_take(fixture, users[user], cost);
    assert_int_equal(allowed, held + cost <= 10);
    const struct hr_row *row = fixture_row(fixture, "slots");
    assert_int_equal(row->remaining, 10 - held - (allowed ? cost : 0));
    assert_int_equal(row->has_lease, allowed);
    if (allowed) {
        leases[(*count)++] = (struct model_lease){row->lease, user, cost, fixture->now.steady + SECONDS(5)};
    }
}

static void end_both(struct fixture *fixture, struct hr_rng *rng, struct model_lease *leases, size_t count)
{
    struct model_lease *lease = &leases[hr_rng_below(rng, count)];
    bool is_live = lease->expires_at > fixture->now.steady;
    int64_t ttl_ms = 0;
    if (hr_rng_chance(rng, 1, 2)) {
        assert_int_equal(hr_limiter_release(fixture->limiter, lease->id, fixture->now), is_live);
        lease->expires_at = 0;
        return;
    }
    assert_int_equal(hr_limiter_renew(fixture->limiter, lease->id, fixture->now, &ttl_ms), is_live);
    if (is_live) {
        assert_int_equal(ttl_ms, 5000);
        lease->expires_at = fixture->now.steady + SECONDS(5);
    }
}

static void leases_behave_as_an_array_of_them_would(void **state)
{
    (void)state;
    print_message("seeds 0 to 99\n");
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct hr_rng rng = {seed};
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limits[] = {{.name = "slots", .key = "user", .rule = slots(10, SECONDS(5))}};
        fixture_load(&fixture, limits, COUNT(limits));
        struct model_lease leases[MODEL_LEASES];
        size_t count = 0;
        while (count < MODEL_LEASES) {
            fixture_pass(&fixture, (hr_ns)hr_rng_below(&rng, 600) * HR_NS_PER_MS);
            if (count == 0 || hr_rng_chance(&rng, 3, 5)) {
                take_both(&fixture, &rng, leases, &count);
            } else {
                end_both(&fixture, &rng, leases, count);
            }
            if (hr_rng_chance(&rng, 1, 40)) {
                fixture_sweep(&fixture);
            }
        }
        fixture_pass(&fixture, SECONDS(5));
        fixture_sweep(&fixture);
        assert_int_equal(hr_limiter_usage(fixture.limiter).leases, 0);
        assert_int_equal(fixture_counters(&fixture), 0);
        fixture_close(&fixture);
    }
}

static void a_lease_ends_at_its_ttl_to_the_nanosecond_and_not_before(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "slots", .rule = slots(1, SECONDS(5))}};
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "a=b", 1));
    fixture_pass(&fixture, SECONDS(5) - 1);
    assert_false(fixture_take(&fixture, "a=b", 1));
    assert_int_equal(fixture.decision.retry_after_ms, 1);
    fixture_pass(&fixture, 1);
    assert_true(fixture_take(&fixture, "a=b", 1));
    fixture_close(&fixture);
}

static void the_wait_is_for_as_many_leases_as_it_takes(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "slots", .rule = slots(6, SECONDS(10))}};
    fixture_load(&fixture, limits, COUNT(limits));
    for (uint64_t cost = 1; cost <= 3; cost++) { /* leases of 1, 2 and 3 slots, a second apart */
        assert_true(fixture_take(&fixture, "a=b", cost));
        fixture_pass(&fixture, SECONDS(1));
    }
    static const int64_t waits_ms[] = {0, 7000, 8000, 8000, 9000, 9000, 9000, HR_NEVER_MS};
    for (uint64_t cost = 0; cost < COUNT(waits_ms); cost++) {
        assert_int_equal(fixture_take(&fixture, "a=b", cost), cost == 0);
        assert_int_equal(fixture.decision.retry_after_ms, waits_ms[cost]);
    }
    fixture_close(&fixture);
}

static void releasing_by_serial_ends_the_leases_of_all_limits_of_that_request_alone(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "per-user", .key = "user", .rule = slots(2, SECONDS(5))},
        {.name = "all", .rule = slots(10, SECONDS(5))},
        {.name = "shadow", .rule = slots(10, SECONDS(5)), .mode = HR_SHADOW},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=a", 2));
    uint64_t serial = fixture.serial;
    assert_true(fixture_take(&fixture, "user=b", 1));
    assert_int_equal(hr_limiter_usage(fixture.limiter).leases, 6);
    assert_true(hr_limiter_release_serial(fixture.limiter, serial, fixture.now));
    assert_int_equal(hr_limiter_usage(fixture.limiter).leases, 3);
    assert_int_equal(fixture_remaining(&fixture, "user=a", "per-user"), 2);
    assert_int_equal(fixture_row(&fixture, "all")->remaining, 9);
    assert_int_equal(fixture_row(&fixture, "shadow")->remaining, 9);
    assert_false(hr_limiter_release_serial(fixture.limiter, serial, fixture.now));
    fixture_close(&fixture);
}

static void an_id_that_was_never_given_releases_and_renews_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "slots", .rule = slots(2, SECONDS(5))}};
    int64_t ttl_ms = -7;
    assert_false(hr_limiter_release(fixture.limiter, (struct hr_id128){0, 0}, fixture.now));
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "a=b", 1));
    struct hr_id128 near = fixture_row(&fixture, "slots")->lease;
    near.hi ^= 1;
    assert_false(hr_limiter_release(fixture.limiter, near, fixture.now));
    assert_false(hr_limiter_renew(fixture.limiter, near, fixture.now, &ttl_ms));
    assert_false(hr_limiter_release(fixture.limiter, (struct hr_id128){0, 0}, fixture.now));
    assert_int_equal(hr_limiter_usage(fixture.limiter).leases, 1);
    fixture_close(&fixture);
}

static void a_full_lease_pool_refuses_and_charges_nothing_until_leases_end(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 64, .leases_max = 2, .log_blocks_max = 2, .limits_max = 4});
    const struct fixture_limit limits[] = {
        {.name = "other", .rule = any_rule(HR_FIXED_WINDOW, 10)},
        {.name = "slots", .key = "user", .rule = slots(10, SECONDS(5))},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=a", 1));
    struct hr_id128 lease = fixture_row(&fixture, "slots")->lease;
    fixture_pass(&fixture, SECONDS(1));
    assert_true(fixture_take(&fixture, "user=b", 1));
    assert_int_equal(fixture_try(&fixture, "user=c", 1), HR_E_FULL);
    assert_int_equal(fixture_remaining(&fixture, "user=c", "other"), 8);
    assert_true(hr_limiter_release(fixture.limiter, lease, fixture.now));
    assert_true(fixture_take(&fixture, "user=c", 1));
    assert_int_equal(fixture_try(&fixture, "user=d", 1), HR_E_FULL);
    fixture_pass(&fixture, SECONDS(5)); /* b's runs out; nobody asks for b any more */
    fixture_sweep(&fixture);
    assert_true(fixture_take(&fixture, "user=d", 1));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_follows_from_the_definition_where_no_lease_is_released),
        cmocka_unit_test(leases_behave_as_an_array_of_them_would),
        cmocka_unit_test(a_lease_ends_at_its_ttl_to_the_nanosecond_and_not_before),
        cmocka_unit_test(the_wait_is_for_as_many_leases_as_it_takes),
        cmocka_unit_test(releasing_by_serial_ends_the_leases_of_all_limits_of_that_request_alone),
        cmocka_unit_test(an_id_that_was_never_given_releases_and_renews_nothing),
        cmocka_unit_test(a_full_lease_pool_refuses_and_charges_nothing_until_leases_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
