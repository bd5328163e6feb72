/* Sliding log: against its definition in random runs, and its blocks through growth, expiry and exhaustion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/sliding_log.h"
#include "tests/lib/history.h"
#include "tests/lib/limiter_fixture.h"

#define BLOCKS 64

static const struct {
    uint64_t n;
    hr_ns period_ns, step_ns;
} logs[] = {
    {1, SECONDS(1), MS(300)}, {10, SECONDS(1), MS(50)}, {400, SECONDS(10), MS(100)},           {3, 7, 1}, {100, 1, 1},
    {50, DAYS(366), DAYS(3)}, {300, 1000, 4},           {HR_LOG_LIMIT_MAX, SECONDS(1), MS(5)},
};

static void every_number_follows_from_the_definition(void **state)
{
    (void)state;
    struct hr_rng rng = {31};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (size_t i = 0; i < 30 * COUNT(logs); i++) {
        size_t row = i % COUNT(logs);
        struct history_run run = {
            .rule = window(HR_SLIDING_LOG, logs[row].n, logs[row].period_ns),
            .start = i % 3 == 0 ? 0 : SECONDS(FIXTURE_START_S) + (hr_ns)hr_rng_below(&rng, 1000000007),
            .step_ns = logs[row].step_ns,
            .cost_max = i % 2 == 0 ? 1 : 1 + logs[row].n / 8,
            .steps = i % 4 == 0 ? HISTORY_EVENTS_MAX : 128,
            .seed = hr_rng_next(&rng),
        };
        history_run(&run);
    }
}

struct pool {
    struct hr_log_pool pool;
    struct hr_log_block blocks[BLOCKS + 1];
};

static void open_pool(struct pool *pool)
{
    *pool = (struct pool){.pool.fresh = 0};
    hr_log_pool_init(&pool->pool, pool->blocks, BLOCKS + 1);
}

static void an_entry_leaves_exactly_when_it_is_one_period_old(void **state)
{
    (void)state;
    struct pool pool;
    open_pool(&pool);
    struct hr_rule rule = window(HR_SLIDING_LOG, 1, 1000);
    struct hr_sliding_log log = {.used = 0};
    hr_sliding_log_take(&log, &pool.pool, 1, 5000);
    hr_sliding_log_advance(&log, &rule, &pool.pool, 5999);
    assert_false(hr_sliding_log_fits(&log, &rule, 1));
    hr_sliding_log_advance(&log, &rule, &pool.pool, 6000);
    assert_true(hr_sliding_log_fits(&log, &rule, 1));
    assert_int_equal(hr_log_pool_available(&pool.pool), BLOCKS);
}

static void a_log_of_many_blocks_gives_each_back_as_it_runs_empty(void **state)
{
    (void)state;
    struct pool pool;
    open_pool(&pool);
    struct hr_rule rule = window(HR_SLIDING_LOG, HR_LOG_LIMIT_MAX, 100000);
    struct hr_sliding_log log = {.used = 0};
    for (uint32_t i = 0; i < BLOCKS * HR_LOG_BLOCK_ENTRIES; i++) {
        assert_int_equal(hr_sliding_log_needs_block(&log, &pool.pool, i), i % HR_LOG_BLOCK_ENTRIES == 0);
        hr_sliding_log_take(&log, &pool.pool, 1, i);
    }
    assert_int_equal(hr_log_pool_available(&pool.pool), 0);
    for (uint32_t i = 0; i < BLOCKS * HR_LOG_BLOCK_ENTRIES; i++) {
        hr_sliding_log_advance(&log, &rule, &pool.pool, 100000 + (hr_ns)i);
        assert_int_equal(log.used, BLOCKS * HR_LOG_BLOCK_ENTRIES - 1 - i);
        assert_int_equal(hr_log_pool_available(&pool.pool), (i + 1) / HR_LOG_BLOCK_ENTRIES);
    }
}

static void admissions_of_one_instant_are_one_entry(void **state)
{
    (void)state;
    struct pool pool;
    open_pool(&pool);
    struct hr_sliding_log log = {.used = 0};
    for (int i = 0; i < HR_LOG_LIMIT_MAX; i++) {
        hr_sliding_log_take(&log, &pool.pool, 1, 7);
    }
    assert_int_equal(hr_log_pool_available(&pool.pool), BLOCKS - 1);
    assert_int_equal(log.used, HR_LOG_LIMIT_MAX);
}

/* Logs that grow and shrink at random share one pool: no block is lost, and none has two owners. */
static void blocks_are_neither_lost_nor_shared(void **state)
{
    (void)state;
    struct pool pool;
    open_pool(&pool);
    struct hr_rng rng = {4711};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    struct hr_sliding_log shared[6] = {{.used = 0}};
    struct hr_rule rule = window(HR_SLIDING_LOG, 150, 400);
    for (hr_ns now = 0; now < 20000; now++) {
        struct hr_sliding_log *log = &shared[hr_rng_below(&rng, COUNT(shared))];
        if (hr_rng_chance(&rng, 1, 200)) {
            hr_sliding_log_clear(log, &pool.pool);
        }
        hr_sliding_log_advance(log, &rule, &pool.pool, now);
        uint64_t cost = 1 + hr_rng_below(&rng, 3);
        bool has_room = !hr_sliding_log_needs_block(log, &pool.pool, now) || hr_log_pool_available(&pool.pool) > 0;
        if (has_room && hr_sliding_log_fits(log, &rule, cost)) {
            hr_sliding_log_take(log, &pool.pool, cost, now);
        }
        bool owned[BLOCKS + 1] = {false};
        uint32_t owned_count = 0;
        for (size_t i = 0; i < COUNT(shared); i++) {
            uint64_t sum = 0;
            for (uint32_t at = shared[i].head; at != 0; at = pool.blocks[at].next) {
                assert_false(owned[at]);
                owned[at] = true;
                owned_count++;
                sum += pool.blocks[at].cost_sum;
                assert_int_equal(pool.blocks[at].next == 0, at == shared[i].tail);
            }
            assert_int_equal(sum, shared[i].used);
        }
        assert_int_equal(owned_count + hr_log_pool_available(&pool.pool), BLOCKS);
    }
}

static void a_pool_without_blocks_refuses_and_charges_nothing_until_blocks_come_free(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 64, .leases_max = 4, .log_blocks_max = 2, .limits_max = 4});
    const struct fixture_limit limits[] = {
        {.name = "other", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 10)},
        {.name = "log", .key = "user", .rule = window(HR_SLIDING_LOG, 10, SECONDS(1))},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=a", 1));
    assert_true(fixture_take(&fixture, "user=b", 1));
    assert_int_equal(fixture_try(&fixture, "user=c", 1), HR_E_FULL);
    assert_int_equal(fixture_remaining(&fixture, "user=c", "other"), 10);
    assert_true(fixture_take(&fixture, "user=a", 1)); /* there is room in its own block */
    fixture_pass(&fixture, SECONDS(1));
    fixture_sweep(&fixture);
    assert_true(fixture_take(&fixture, "user=c", 1));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_follows_from_the_definition),
        cmocka_unit_test(an_entry_leaves_exactly_when_it_is_one_period_old),
        cmocka_unit_test(a_log_of_many_blocks_gives_each_back_as_it_runs_empty),
        cmocka_unit_test(admissions_of_one_instant_are_one_entry),
        cmocka_unit_test(blocks_are_neither_lost_nor_shared),
        cmocka_unit_test(a_pool_without_blocks_refuses_and_charges_nothing_until_blocks_come_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
