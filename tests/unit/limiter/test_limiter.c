/* Limiter: whole decisions. All or nothing, who decided and how long to wait, identities, full pools, clocks, memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/lib/limiter_fixture.h"

/* ---- Every allocation of this program is counted: a decision must make none ---- */

static volatile uint64_t allocations; /* a compiler takes it that malloc changes no variable */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER_HOOKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER_HOOKS 1
#endif
#endif

#ifdef HAS_SANITIZER_HOOKS
/* As sanitizer/allocator_interface.h has it, which gcc does not bring along.
 * NOLINTNEXTLINE(bugprone-reserved-identifier) */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));

static void count_malloc(const volatile void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
    allocations++;
}

static void ignore_free(const volatile void *at)
{
    (void)at;
}

static void start_counting(void)
{
    (void)__sanitizer_install_malloc_and_free_hooks(count_malloc, ignore_free);
}
#else
/* Where the program has these, every library calls them in place of glibc's, which stay under their other names.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *at, size_t bytes);

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *at, size_t bytes)
{
    allocations++;
    return __libc_realloc(at, bytes);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */

static void start_counting(void)
{
}
#endif

static void a_decision_of_any_algorithm_allocates_nothing(void **state)
{
    (void)state;
    start_counting();
    uint64_t before = allocations;
    void *volatile block = malloc(1);
    free(block);
    assert_true(allocations > before); /* the counter counts */
    struct fixture fixture;
    fixture_open_ample(&fixture);
    struct fixture_limit limits[ALGORITHM_COUNT + 1];
    char names[COUNT(limits)][8];
    for (size_t i = 0; i < COUNT(limits); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "l%zu", i);
        limits[i] = (struct fixture_limit){.name = names[i], .key = "user", .rule = any_rule((enum hr_algorithm)i, 50)};
    }
    limits[HR_QUOTA].rule.capacity = 100000; /* of a day, which all of this fits into */
    limits[ALGORITHM_COUNT].rule = quota(10000, HR_MONTH, NULL);
    limits[ALGORITHM_COUNT].when = "plan=p*";
    fixture_load(&fixture, limits, COUNT(limits));
    static const char *const requests[] = {"user=a plan=pro", "user=b", "user=c plan=", "user=d plan=pro"};
    uint64_t denied = 0;
    before = allocations;
    for (uint64_t i = 0; i < 100000; i++) {
        fixture_pass(&fixture, MS(100));
        if (fixture_try(&fixture, requests[i % COUNT(requests)], 1 + i % 3) == HR_OK) {
            denied += !fixture.decision.allowed;
        }
        if (i % 64 == 0) {
            hr_limiter_sweep(fixture.limiter, 100, fixture.now);
            (void)hr_limiter_release_serial(fixture.limiter, fixture.serial, fixture.now);
        }
    }
    assert_int_equal(allocations, before);
    assert_in_range(denied, 1000, 99000); /* both kinds of decision were made */
    fixture_close(&fixture);
}

/* ---- All or nothing ---- */

static void a_request_that_one_limit_denies_is_charged_to_none(void **state)
{
    (void)state;
    for (int denier = 0; denier < ALGORITHM_COUNT; denier++) {
        for (int other = 0; other < ALGORITHM_COUNT; other++) {
            struct fixture fixture;
            fixture_open_ample(&fixture);
            const struct fixture_limit limits[] = {
                {.name = "before", .rule = any_rule((enum hr_algorithm)other, 10)},
                {.name = "denies", .key = "user", .rule = any_rule((enum hr_algorithm)denier, 3)},
                {.name = "after", .rule = any_rule((enum hr_algorithm)other, 10)},
            };
            fixture_load(&fixture, limits, COUNT(limits));
            assert_true(fixture_take(&fixture, "user=ann", 2));
            for (int i = 0; i < 5; i++) {
                assert_false(fixture_take(&fixture, "user=ann", 2));
                assert_string_equal(fixture_decided_by(&fixture), "denies");
                assert_int_equal(fixture_row(&fixture, "before")->remaining, 8);
                assert_int_equal(fixture_row(&fixture, "denies")->remaining, 1);
                assert_int_equal(fixture_row(&fixture, "after")->remaining, 8);
            }
            assert_true(fixture_take(&fixture, "user=ann", 1));
            assert_int_equal(fixture_row(&fixture, "after")->remaining, 7);
            fixture_close(&fixture);
        }
    }
}

static void one_user_who_is_over_does_not_starve_the_others_of_the_site(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "site", .rule = any_rule(HR_TOKEN_BUCKET, 20)},
        {.name = "user", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    int admitted = 0;
    for (int i = 0; i < 1000; i++) {
        admitted += fixture_take(&fixture, "user=greedy", 1);
    }
    assert_int_equal(admitted, 5);
    for (int i = 0; i < 5; i++) {
        assert_true(fixture_take(&fixture, "user=a", 1));
        assert_true(fixture_take(&fixture, "user=b", 1));
        assert_true(fixture_take(&fixture, "user=c", 1));
    }
    assert_false(fixture_take(&fixture, "user=d", 1));
    assert_string_equal(fixture_decided_by(&fixture), "site");
    fixture_close(&fixture);
}

/* ---- Shadow ---- */

static void a_shadow_limit_never_changes_the_answer(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "shadow", .rule = any_rule(HR_LEAKY_BUCKET, 2), .mode = HR_SHADOW},
        {.name = "real", .rule = any_rule(HR_FIXED_WINDOW, 5)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    for (int i = 0; i < 5; i++) {
        assert_true(fixture_take(&fixture, "user=ann", 1));
        assert_int_equal(fixture.decision.action, HR_ALLOW); /* nor does it delay */
        assert_int_equal(fixture.decision.delay_ms, 0);
        assert_int_equal(fixture.decision.retry_after_ms, 0);
        assert_int_equal(fixture_row(&fixture, "shadow")->allowed, i < 2);
        assert_int_equal(fixture_row(&fixture, "shadow")->retry_after_ms > 0, i >= 2);
    }
    assert_false(fixture_take(&fixture, "user=ann", 1));
    assert_string_equal(fixture_decided_by(&fixture), "real");
    fixture_close(&fixture);
}

static void a_shadow_limit_is_charged_exactly_where_all_enforced_admit_and_it_fits_itself(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "shadow", .rule = any_rule(HR_TOKEN_BUCKET, 10), .mode = HR_SHADOW},
        {.name = "real", .rule = any_rule(HR_TOKEN_BUCKET, 20)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    static const struct {
        uint64_t cost;
        bool allowed;
        uint64_t shadow_left, real_left;
    } steps[] = {{7, true, 3, 13}, {4, true, 3, 9}, {10, false, 3, 9}, {3, true, 0, 6}, {1, true, 0, 5}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        assert_int_equal(fixture_take(&fixture, "user=ann", steps[i].cost), steps[i].allowed);
        assert_int_equal(fixture_row(&fixture, "shadow")->remaining, steps[i].shadow_left);
        assert_int_equal(fixture_row(&fixture, "real")->remaining, steps[i].real_left);
    }
    fixture_close(&fixture);
}

/* There is one cell, and the limit in shadow would need a second. */
static void a_shadow_limit_makes_no_request_fail_for_want_of_room(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 1, .leases_max = 0, .log_blocks_max = 0, .limits_max = 4});
    const struct fixture_limit limits[] = {
        {.name = "shadow", .rule = any_rule(HR_TOKEN_BUCKET, 10), .mode = HR_SHADOW},
        {.name = "log", .rule = any_rule(HR_SLIDING_LOG, 10), .mode = HR_SHADOW},
        {.name = "slots", .rule = any_rule(HR_CONCURRENCY, 10), .mode = HR_SHADOW},
        {.name = "real", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    for (int i = 0; i < 6; i++) {
        assert_int_equal(fixture_take(&fixture, "user=ann", 1), i < 5);
        assert_false(fixture_row(&fixture, "slots")->has_lease);
        assert_int_equal(fixture_row(&fixture, "real")->remaining, i < 5 ? 4 - i : 0);
    }
    fixture_close(&fixture);
}

/* ---- Who decided, and how long to wait ---- */

static void the_first_enforced_limit_that_denies_decides_and_the_longest_wait_counts(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "roomy", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 100)},
        {.name = "shadow", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(900), 1), .mode = HR_SHADOW},
        {.name = "short", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 1)},
        {.name = "long", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(50), 1)},
        {.name = "middle", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(10), 1)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "a=b", 1));
    assert_false(fixture_take(&fixture, "a=b", 1));
    assert_string_equal(fixture_decided_by(&fixture), "short");
    assert_int_equal(fixture.decision.retry_after_ms, 50000);
    assert_int_equal(fixture_row(&fixture, "short")->retry_after_ms, 1000);
    assert_int_equal(fixture_row(&fixture, "shadow")->retry_after_ms, 900000);
    assert_int_equal(fixture_row(&fixture, "roomy")->retry_after_ms, 0);
    fixture_pass(&fixture, MS(49999));
    assert_false(fixture_take(&fixture, "a=b", 1));
    fixture_pass(&fixture, MS(1));
    assert_true(fixture_take(&fixture, "a=b", 1));
    fixture_close(&fixture);
}

static void a_cost_that_one_limit_can_never_hold_has_no_wait_in_any_order(void **state)
{
    (void)state;
    for (int first = 0; first <= 1; first++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limits[] = {
            {.name = "small", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 3)},
            {.name = "large", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(50), 5)},
            {.name = "small-2", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 3)},
        };
        fixture_load(&fixture, limits + first, 2);
        assert_true(fixture_take(&fixture, "a=b", 3));
        assert_false(fixture_take(&fixture, "a=b", 4));
        assert_int_equal(fixture.decision.retry_after_ms, HR_NEVER_MS);
        assert_int_equal(fixture_row(&fixture, "large")->retry_after_ms, 100000);
        fixture_close(&fixture);
    }
}

static void a_cost_that_can_never_be_held_touches_no_later_call(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture_load(&fixture, &limit, 1);
        static const uint64_t costs[] = {11, 1000, HR_COST_MAX};
        for (size_t k = 0; k < COUNT(costs); k++) {
            assert_false(fixture_take(&fixture, "a=b", costs[k]));
            assert_int_equal(fixture.decision.retry_after_ms, HR_NEVER_MS);
            assert_int_equal(fixture.decision.rows[0].remaining, 10);
            assert_int_equal(fixture.decision.rows[0].reset_after_ms, 0);
        }
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_true(fixture_take(&fixture, "a=b", 10));
        fixture_close(&fixture);
    }
}

/* ---- Peeks and cost 0 ---- */

static void a_peek_says_what_a_check_would_and_consumes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture_load(&fixture, &limit, 1);
        assert_true(fixture_peek(&fixture, "a=b", 10));
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_true(fixture_take(&fixture, "a=b", 4));
        for (int k = 0; k < 20; k++) {
            assert_true(fixture_peek(&fixture, "a=b", 6));
            assert_int_equal(fixture.decision.rows[0].remaining, 6);
            assert_false(fixture.decision.rows[0].has_lease);
            assert_false(fixture_peek(&fixture, "a=b", 7));
            assert_true(fixture.decision.retry_after_ms > 0);
        }
        assert_true(fixture_take(&fixture, "a=b", 6));
        fixture_close(&fixture);
    }
}

static void cost_zero_is_admitted_even_where_nothing_is_left_and_consumes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture_load(&fixture, &limit, 1);
        assert_true(fixture_take(&fixture, "a=b", 0));
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_true(fixture_take(&fixture, "a=b", 10));
        for (int k = 0; k < 20; k++) {
            assert_true(fixture_take(&fixture, "a=b", 0));
            assert_int_equal(fixture.decision.rows[0].remaining, 0);
            assert_false(fixture.decision.rows[0].has_lease);
        }
        assert_int_equal(hr_limiter_usage(fixture.limiter).leases, i == HR_CONCURRENCY);
        fixture_close(&fixture);
    }
}

/* ---- Identity ---- */

static void different_keys_are_different_counters_however_their_parts_join(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "a=x_y b=z", "a=x b=y_z", "a=xy b=z",  "a=x b=yz", "a= b=xyz",  "a=xyz b=",  "a= b=",
        "a=z b=x_y", "a=x\1 b=y", "a=x b=\1y", "a=X b=yz", "a=x,y b=z", "a=x b=,yz",
    };
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "both", .key = "a b", .rule = any_rule(HR_TOKEN_BUCKET, 1)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    for (size_t i = 0; i < COUNT(requests); i++) {
        if (!fixture_take(&fixture, requests[i], 1)) {
            fail_msg("request %zu meets the counter of one before", i);
        }
    }
    assert_int_equal(fixture_counters(&fixture), COUNT(requests));
    for (size_t i = 0; i < COUNT(requests); i++) {
        assert_false(fixture_take(&fixture, requests[i], 1));
    }
    fixture_close(&fixture);
}

/* The byte \1 stands where a length, or half of one, would: "p" \1 "q\1r" and "p\1q" \1 "r" must stay apart at any
 * length. */
static void long_values_do_not_run_into_each_other(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "both", .key = "a b", .rule = any_rule(HR_TOKEN_BUCKET, 1)}};
    fixture_load(&fixture, limits, COUNT(limits));
    static const int lengths[][3] = {{1, 1, 1}, {255, 0, 255}, {256, 0, 256}, {256, 100, 256}, {257, 254, 257}};
    static char letters[512], request[2048];
    memset(letters, 'x', sizeof(letters));
    for (size_t i = 0; i < COUNT(lengths); i++) {
        int p = lengths[i][0], q = lengths[i][1], r = lengths[i][2];
        (void)snprintf(request, sizeof(request), "a=%.*s b=%.*s\1%.*s", p, letters, q, letters, r, letters);
        assert_true(fixture_take(&fixture, request, 1));
        (void)snprintf(request, sizeof(request), "a=%.*s\1%.*s b=%.*s", p, letters, q, letters, r, letters);
        assert_true(fixture_take(&fixture, request, 1));
    }
    fixture_close(&fixture);
}

static void a_limits_name_and_its_key_values_do_not_run_into_each_other(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "a-b", .key = "user", .when = "which=1", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
        {.name = "a", .key = "user", .when = "which=2", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
        {.name = "b", .key = "other", .when = "which=2", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
        {.name = "c", .when = "which=2", .rule = any_rule(HR_TOKEN_BUCKET, 5)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=c which=1 other=c", 2));
    assert_true(fixture_take(&fixture, "user=-bc which=2 other=c", 1));
    for (size_t i = 1; i < COUNT(limits); i++) {
        assert_int_equal(fixture_row(&fixture, limits[i].name)->remaining, 4);
    }
    assert_int_equal(fixture_remaining(&fixture, "user=c which=2 other=x", "a"), 5);
    assert_int_equal(fixture_counters(&fixture), 4);
    fixture_close(&fixture);
}

/* The order of attributes in a request, and attributes that no limit keys by, say nothing about the counter. */
static void a_counter_is_found_again_whatever_else_the_request_carries(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "both", .key = "a b", .rule = any_rule(HR_TOKEN_BUCKET, 4)}};
    fixture_load(&fixture, limits, COUNT(limits));
    static const char *const requests[] = {"a=x b=y", "b=y a=x", "c=z a=x b=y", "b=y c= a=x d=1"};
    for (size_t i = 0; i < COUNT(requests); i++) {
        assert_true(fixture_take(&fixture, requests[i], 1));
        assert_int_equal(fixture_row(&fixture, "both")->remaining, 3 - i);
    }
    assert_true(fixture_take(&fixture, "a=x", 1)); /* without all of its key a request is not touched */
    assert_int_equal(fixture.decision.row_count, 0);
    fixture_close(&fixture);
}

/* A limiter under another secret, fed the same request. */
static struct hr_id128 lease_under(const struct hr_hash_key *secret)
{
    static const struct hr_limiter_sizes sizes = {
        .counters_max = 8, .leases_max = 8, .log_blocks_max = 8, .limits_max = 8};
    struct fixture fixture;
    fixture_open(&fixture, sizes);
    memset(fixture.memory, 0, hr_limiter_bytes(&sizes));
    fixture.limiter = hr_limiter_init(&sizes, secret, fixture.memory, hr_limiter_bytes(&sizes));
    assert_non_null(fixture.limiter);
    const struct fixture_limit limit = {.name = "slots", .rule = any_rule(HR_CONCURRENCY, 5)};
    fixture_load(&fixture, &limit, 1);
    assert_true(fixture_take(&fixture, "a=b", 1));
    struct hr_id128 lease = fixture.decision.rows[0].lease;
    fixture_close(&fixture);
    return lease;
}

static void lease_ids_cannot_be_told_without_the_secret(void **state)
{
    (void)state;
    const struct hr_hash_key one = {"secret 000000001"}, two = {"secret 000000002"};
    assert_true(hr_id128_equal(lease_under(&one), lease_under(&one)));
    assert_false(hr_id128_equal(lease_under(&one), lease_under(&two)));
}

static void every_lease_has_an_id_of_its_own(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {{.name = "a", .rule = any_rule(HR_CONCURRENCY, 200)},
                                           {.name = "b", .rule = any_rule(HR_CONCURRENCY, 200)}};
    fixture_load(&fixture, limits, COUNT(limits));
    static struct hr_id128 seen[400];
    for (size_t i = 0; i < COUNT(seen); i += 2) {
        assert_true(fixture_take(&fixture, "a=b", 1));
        seen[i] = fixture.decision.rows[0].lease;
        seen[i + 1] = fixture.decision.rows[1].lease;
        for (size_t k = 0; k < i + 1; k++) {
            assert_false(hr_id128_equal(seen[k], seen[i + 1]));
            assert_true(k == i || !hr_id128_equal(seen[k], seen[i]));
        }
    }
    fixture_close(&fixture);
}

/* ---- Full ---- */

static void a_full_table_refuses_new_counters_charges_nothing_and_serves_the_old(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 11, .leases_max = 1, .log_blocks_max = 1, .limits_max = 4});
    const struct fixture_limit limits[] = {
        {.name = "site", .rule = any_rule(HR_TOKEN_BUCKET, 1000)},
        {.name = "user", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 10)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    char user[32];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(user, sizeof(user), "user=u%d", i);
        assert_true(fixture_take(&fixture, user, 10));
    }
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fixture_try(&fixture, "user=one-too-many", 1), HR_E_FULL);
    }
    assert_int_equal(fixture_counters(&fixture), 11);
    assert_int_equal(fixture_remaining(&fixture, "user=one-too-many", "site"), 900);
    assert_int_equal(fixture_row(&fixture, "user")->remaining, 10);
    assert_false(fixture_take(&fixture, user, 1));
    fixture_pass(&fixture, SECONDS(100));
    fixture_sweep(&fixture);
    assert_int_equal(fixture_counters(&fixture), 0);
    assert_true(fixture_take(&fixture, "user=one-too-many", 10));
    fixture_close(&fixture);
}

/* Nobody sweeps; what is untouched makes room after a few askings, for each of them sweeps a little. */
static void a_full_limiter_finds_room_by_being_asked_again(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 500, .leases_max = 1, .log_blocks_max = 1, .limits_max = 4});
    const struct fixture_limit limit = {.name = "user", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 10)};
    fixture_load(&fixture, &limit, 1);
    char user[32];
    for (int i = 0; i < 500; i++) {
        (void)snprintf(user, sizeof(user), "user=u%d", i);
        assert_true(fixture_take(&fixture, user, 10));
    }
    assert_int_equal(fixture_try(&fixture, "user=new", 1), HR_E_FULL);
    fixture_pass(&fixture, SECONDS(100));
    int tries = 1;
    while (fixture_try(&fixture, "user=new", 1) == HR_E_FULL && tries < 100) {
        tries++;
    }
    assert_in_range(tries, 1, 5); /* 1,138 cells, 256 a try */
    fixture_close(&fixture);
}

static void counters_live_exactly_as_long_as_they_are_touched(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .key = "user", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture_load(&fixture, &limit, 1);
        assert_true(fixture_take(&fixture, "user=ann", 5));
        int64_t reset_ms = fixture.decision.rows[0].reset_after_ms;
        fixture_pass(&fixture, MS(reset_ms - 1));
        fixture_sweep(&fixture);
        assert_int_equal(fixture_counters(&fixture), 1);
        fixture_pass(&fixture, MS(1));
        fixture_sweep(&fixture);
        assert_int_equal(fixture_counters(&fixture), 0);
        fixture_close(&fixture);
    }
}

/* ---- Refunds, and limits given on the spot ---- */

/* Was there anything to give back? */
static bool refund(struct fixture *fixture, const char *attributes, uint64_t cost)
{
    struct fixture_request request;
    fixture_request(attributes, cost, &request);
    enum hr_err err = hr_limiter_refund(fixture->limiter, &request.request, fixture->now);
    assert_true(err == HR_OK || err == HR_E_NOT_FOUND);
    return err == HR_OK;
}

static void a_refund_gives_back_what_was_taken_and_never_more_than_that(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        if (i == HR_CONCURRENCY) {
            continue; /* slots come back by their lease alone */
        }
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .key = "user", .rule = any_rule((enum hr_algorithm)i, 100)};
        fixture_load(&fixture, &limit, 1);
        assert_false(refund(&fixture, "user=ann", 50));
        assert_int_equal(fixture_counters(&fixture), 0);
        for (uint64_t taken = 1; taken <= 60; taken++) { /* a log of several blocks */
            assert_true(fixture_take(&fixture, "user=ann", 1));
            fixture_pass(&fixture, 1);
        }
        assert_true(refund(&fixture, "user=ann", 25));
        assert_int_equal(fixture_remaining(&fixture, "user=ann", "one"), 65);
        assert_false(refund(&fixture, "user=ann", 0));
        assert_int_equal(fixture_remaining(&fixture, "user=ann", "one"), 65);
        assert_int_equal(fixture_remaining(&fixture, "user=bob", "one"), 100);
        assert_true(refund(&fixture, "user=ann", HR_COST_MAX));
        assert_int_equal(fixture_remaining(&fixture, "user=ann", "one"), 100);
        assert_int_equal(fixture.decision.rows[0].reset_after_ms, 0);
        assert_false(fixture_take(&fixture, "user=ann", 101));
        fixture_sweep(&fixture);
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_int_equal(hr_limiter_usage(fixture.limiter).log_blocks, 0);
        fixture_close(&fixture);
    }
}

static void a_refund_leaves_slots_to_their_lease(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limit = {.name = "slots", .rule = any_rule(HR_CONCURRENCY, 10)};
    fixture_load(&fixture, &limit, 1);
    assert_true(fixture_take(&fixture, "a=b", 4));
    assert_false(refund(&fixture, "a=b", 4));
    assert_int_equal(fixture_remaining(&fixture, "a=b", "slots"), 6);
    assert_true(hr_limiter_release_serial(fixture.limiter, fixture.serial - 1, fixture.now));
    assert_int_equal(fixture_remaining(&fixture, "a=b", "slots"), 10);
    fixture_close(&fixture);
}

static uint64_t throttle(struct fixture *fixture, const char *key, struct hr_rule rule, uint64_t cost)
{
    const struct hr_limit limit = {.name = HR_SPAN("throttle"), .rule = rule};
    const struct hr_request request = {.cost = cost, .serial = ++fixture->serial};
    assert_int_equal(
        hr_limiter_throttle(fixture->limiter, &limit, hr_span_of(key), &request, fixture->now, &fixture->decision),
        HR_OK);
    assert_int_equal(fixture->decision.row_count, 1);
    return fixture->decision.rows[0].remaining;
}

static void a_limit_given_on_the_spot_counts_by_its_key(void **state)
{
    (void)state;
    static const enum hr_algorithm algorithms[] = {HR_TOKEN_BUCKET, HR_LEAKY_BUCKET, HR_FIXED_WINDOW, HR_SLIDING_WINDOW,
                                                   HR_SLIDING_LOG};
    for (size_t i = 0; i < COUNT(algorithms); i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        struct hr_rule rule = any_rule(algorithms[i], 10);
        assert_int_equal(throttle(&fixture, "k", rule, 3), 7);
        assert_int_equal(throttle(&fixture, "k", rule, 3), 4);
        assert_int_equal(throttle(&fixture, "other", rule, 1), 9);
        assert_int_equal(throttle(&fixture, "k", rule, 5), 4);
        assert_false(fixture.decision.allowed);
        fixture_pass(&fixture, SECONDS(200));
        fixture_sweep(&fixture);
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_int_equal(throttle(&fixture, "k", rule, 5), 5);
        fixture_close(&fixture);
    }
}

static void a_key_keeps_what_it_spent_when_the_limit_given_on_the_spot_changes(void **state)
{
    (void)state;
    static const enum hr_algorithm algorithms[] = {HR_TOKEN_BUCKET, HR_LEAKY_BUCKET, HR_FIXED_WINDOW, HR_SLIDING_WINDOW,
                                                   HR_SLIDING_LOG};
    for (size_t i = 0; i < COUNT(algorithms); i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        assert_int_equal(throttle(&fixture, "k", any_rule(algorithms[i], 100), 2), 98);
        assert_int_equal(throttle(&fixture, "k", any_rule(algorithms[i], 10), 0), 8);
        assert_int_equal(throttle(&fixture, "k", any_rule(algorithms[i], 100), 1), 97);
        fixture_close(&fixture);
    }
}

/* ---- Memory ---- */

static void ten_million_counters_take_at_most_64_bytes_each_all_in(void **state)
{
    (void)state;
    const struct hr_limiter_sizes sizes = {
        .counters_max = 10000000, .leases_max = 1000, .log_blocks_max = 1000, .limits_max = 1000};
    size_t bytes = hr_limiter_bytes(&sizes);
    assert_in_range(bytes, 48 * UINT64_C(10000000), 64 * UINT64_C(10000000));
}

static void sizes_out_of_range_want_no_memory_and_make_no_limiter(void **state)
{
    (void)state;
    static const struct hr_limiter_sizes sizes[] = {
        {.counters_max = 0, .leases_max = 1, .log_blocks_max = 1, .limits_max = 1},
        {.counters_max = 1, .leases_max = 1, .log_blocks_max = 1, .limits_max = 0},
        {.counters_max = 1, .leases_max = 1, .log_blocks_max = 1, .limits_max = HR_LIMITS_MAX + 1},
        {.counters_max = UINT32_MAX, .leases_max = 1, .log_blocks_max = 1, .limits_max = 1},
        {.counters_max = 1, .leases_max = UINT32_MAX, .log_blocks_max = 1, .limits_max = 1},
        {.counters_max = 1, .leases_max = 1, .log_blocks_max = UINT32_MAX, .limits_max = 1},
    };
    static uint8_t memory[64];
    const struct hr_hash_key secret = {{0}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_int_equal(hr_limiter_bytes(&sizes[i]), 0);
        assert_null(hr_limiter_init(&sizes[i], &secret, memory, SIZE_MAX));
    }
}

static void too_little_memory_makes_no_limiter(void **state)
{
    (void)state;
    const struct hr_limiter_sizes sizes = {.counters_max = 1, .leases_max = 0, .log_blocks_max = 0, .limits_max = 1};
    const struct hr_hash_key secret = {{0}};
    size_t bytes = hr_limiter_bytes(&sizes), rounded = (bytes + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, rounded);
    assert_non_null(memory);
    memset(memory, 0, rounded);
    assert_null(hr_limiter_init(&sizes, &secret, memory, bytes - 1));
    assert_null(hr_limiter_init(&sizes, &secret, memory, 0));
    assert_non_null(hr_limiter_init(&sizes, &secret, memory, bytes));
    free(memory);
}

static void a_limiter_without_leases_or_logs_serves_the_other_limits(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){.counters_max = 8, .leases_max = 0, .log_blocks_max = 0, .limits_max = 4});
    const struct fixture_limit limits[] = {
        {.name = "bucket", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 10)},
        {.name = "log", .when = "log=1", .rule = any_rule(HR_SLIDING_LOG, 10)},
        {.name = "slots", .when = "slots=1", .rule = any_rule(HR_CONCURRENCY, 10)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    assert_true(fixture_take(&fixture, "user=a", 3));
    assert_int_equal(fixture_try(&fixture, "user=a log=1", 3), HR_E_FULL);
    assert_int_equal(fixture_try(&fixture, "user=a slots=1", 3), HR_E_FULL);
    assert_int_equal(fixture_remaining(&fixture, "user=a", "bucket"), 7);
    fixture_close(&fixture);
}

/* ---- Clocks ---- */

static void a_steady_clock_that_steps_back_stands_still_and_then_runs_on(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        if (i == HR_QUOTA) {
            continue; /* it follows the wall clock */
        }
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "one", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture_load(&fixture, &limit, 1);
        assert_true(fixture_take(&fixture, "a=b", 10));
        fixture.now.steady -= SECONDS(3600);
        assert_false(fixture_take(&fixture, "a=b", 10));
        int64_t retry_ms = fixture.decision.retry_after_ms;
        assert_in_range(retry_ms, 1, 200000); /* no longer than it would be without the step */
        fixture.now.steady += SECONDS(3600) + MS(retry_ms);
        assert_true(fixture_take(&fixture, "a=b", 10));
        fixture_close(&fixture);
    }
}

static void instants_out_of_range_are_taken_as_the_nearest_in_range(void **state)
{
    (void)state;
    static const int64_t instants[] = {INT64_MIN, -1, 0, HR_TIME_NS_MAX, INT64_MAX};
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture fixture;
        fixture_open_ample(&fixture);
        struct fixture_limit limit = {.name = "one", .rule = any_rule((enum hr_algorithm)i, 10)};
        fixture.now = (struct hr_now){INT64_MIN, {INT64_MIN}};
        fixture_load(&fixture, &limit, 1);
        for (size_t k = 0; k < COUNT(instants); k++) {
            fixture.now = (struct hr_now){instants[k], {instants[k]}};
            (void)fixture_take(&fixture, "a=b", 4);
            const struct hr_row *row = &fixture.decision.rows[0];
            assert_in_range(row->remaining, 0, 10);
            assert_true(row->reset_after_ms >= 0 && row->retry_after_ms >= 0);
            limit.rule.capacity = 10 + k;
            fixture_load(&fixture, &limit, 1);
            limit.rule.capacity = 10;
            fixture_load(&fixture, &limit, 1);
        }
        fixture_close(&fixture);
    }
}

/* A wall clock that jumps about, with sweeps in between. While it shows an earlier day than it did before, what is
 * admitted counts to the latest day seen: no day is ever spent twice. */
static void a_jumping_wall_clock_spends_no_day_twice(void **state)
{
    (void)state;
    print_message("seeds 0 to 199\n");
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct hr_rng rng = {seed};
        struct fixture fixture;
        fixture_open_ample(&fixture);
        const struct fixture_limit limit = {.name = "day", .key = "user", .rule = quota(10, HR_DAY, NULL)};
        fixture_load(&fixture, &limit, 1);
        uint64_t spent[64] = {0}, latest = 0;
        for (uint64_t step = 0; step < 200; step++) {
            uint64_t day = hr_rng_below(&rng, 5 + step * (COUNT(spent) - 5) / 200);
            latest = day > latest ? day : latest;
            fixture.now.steady += HR_NS_PER_S;
            fixture.now.wall.ns = DAYS(20000 + (int64_t)day) + (int64_t)hr_rng_below(&rng, (uint64_t)DAYS(1));
            if (hr_rng_chance(&rng, 1, 4)) {
                fixture_sweep(&fixture);
            }
            uint64_t cost = 1 + hr_rng_below(&rng, 6);
            bool allowed = fixture_take(&fixture, "user=ann", cost);
            assert_int_equal(allowed, spent[latest] + cost <= 10);
            spent[latest] += allowed ? cost : 0;
        }
        fixture_close(&fixture);
    }
}

/* Swept away on later days, twice, the counter leaves behind which days are closed. */
static void a_quota_that_was_swept_away_opens_no_day_again_when_the_wall_clock_steps_back(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limit = {.name = "day", .key = "user", .rule = quota(10, HR_DAY, NULL)};
    fixture_load(&fixture, &limit, 1);
    static const struct {
        int64_t day;
        uint64_t left; /* all of it is taken, but on the days of a sweep */
        bool is_swept;
    } steps[] = {{0, 10, false}, {1, 10, true}, {2, 10, false}, {3, 10, true},
                 {2, 10, false}, {1, 0, false}, {3, 0, false},  {4, 10, false}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        fixture.now.wall.ns = SECONDS(FIXTURE_START_S) + DAYS(steps[i].day);
        if (steps[i].is_swept) {
            fixture_sweep(&fixture);
            assert_int_equal(fixture_counters(&fixture), 0);
        }
        if (fixture_remaining(&fixture, "user=ann", "day") != steps[i].left) {
            fail_msg("step %zu: %llu left", i, (unsigned long long)fixture.decision.rows[0].remaining);
        }
        assert_true(steps[i].is_swept || fixture_take(&fixture, "user=ann", steps[i].left));
    }
    fixture_close(&fixture);
}

/* ---- Before and beside limits ---- */

static void without_limits_everything_is_admitted_with_every_field_set(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    memset(&fixture.decision, 0xa5, sizeof(fixture.decision));
    assert_true(fixture_take(&fixture, "a=b", HR_COST_MAX));
    assert_int_equal(fixture.decision.action, HR_ALLOW);
    assert_null(fixture.decision.decided_by);
    assert_int_equal(fixture.decision.retry_after_ms, 0);
    assert_int_equal(fixture.decision.delay_ms, 0);
    assert_int_equal(fixture.decision.row_count, 0);
    fixture_close(&fixture);
}

static void rows_come_in_the_files_order_with_every_field_set(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_open_ample(&fixture);
    const struct fixture_limit limits[] = {
        {.name = "z", .when = "user=ann", .rule = any_rule(HR_TOKEN_BUCKET, 4)},
        {.name = "y", .rule = any_rule(HR_QUOTA, 4)},
        {.name = "x", .key = "user", .rule = any_rule(HR_CONCURRENCY, 4)},
        {.name = "w", .when = "user=b*", .rule = any_rule(HR_QUOTA, 4)},
        {.name = "v", .when = "user=a*", .rule = any_rule(HR_SLIDING_LOG, 4)},
    };
    fixture_load(&fixture, limits, COUNT(limits));
    for (int k = 0; k < 3; k++) {
        memset(&fixture.decision, 0xa5, sizeof(fixture.decision));
        assert_int_equal(fixture_take(&fixture, "user=ann", 2), k < 2);
        static const char *const order[] = {"z", "y", "x", "v"};
        assert_int_equal(fixture.decision.row_count, COUNT(order));
        for (size_t i = 0; i < COUNT(order); i++) {
            const struct hr_row *row = &fixture.decision.rows[i];
            assert_true(hr_span_equal(row->limit->name, hr_span_of(order[i])));
            assert_int_equal(row->allowed, k < 2);
            assert_int_equal(row->has_lease, k < 2 && i == 2);
            assert_int_equal(row->remaining, k == 0 ? 2 : 0);
            assert_int_equal(row->retry_after_ms > 0, k == 2);
            assert_in_range(row->reset_after_ms, 1, 86400000);
        }
    }
    fixture_close(&fixture);
}

static void a_request_may_touch_as_many_limits_as_a_decision_has_rows_and_no_more(void **state)
{
    (void)state;
    static struct fixture_limit limits[HR_TOUCHED_MAX + 1];
    static char names[COUNT(limits)][16];
    struct fixture fixture;
    fixture_open(&fixture,
                 (struct hr_limiter_sizes){
                     .counters_max = 1000, .leases_max = 200, .log_blocks_max = 200, .limits_max = HR_TOUCHED_MAX + 1});
    for (size_t i = 0; i < COUNT(limits); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "l%zu", i);
        limits[i] =
            (struct fixture_limit){.name = names[i], .rule = any_rule((enum hr_algorithm)(i % ALGORITHM_COUNT), 10)};
    }
    fixture_load(&fixture, limits, HR_TOUCHED_MAX);
    assert_true(fixture_take(&fixture, "a=b", 3));
    for (uint32_t i = 0; i < HR_TOUCHED_MAX; i++) {
        assert_int_equal(fixture.decision.rows[i].remaining, 7);
    }
    fixture_load(&fixture, limits, HR_TOUCHED_MAX + 1);
    assert_int_equal(fixture_try(&fixture, "a=b", 3), HR_E_TOO_MANY);
    fixture_load(&fixture, limits, HR_TOUCHED_MAX);
    assert_int_equal(fixture_remaining(&fixture, "a=b", "l0"), 7);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_of_any_algorithm_allocates_nothing),
        cmocka_unit_test(a_request_that_one_limit_denies_is_charged_to_none),
        cmocka_unit_test(one_user_who_is_over_does_not_starve_the_others_of_the_site),
        cmocka_unit_test(a_shadow_limit_never_changes_the_answer),
        cmocka_unit_test(a_shadow_limit_is_charged_exactly_where_all_enforced_admit_and_it_fits_itself),
        cmocka_unit_test(a_shadow_limit_makes_no_request_fail_for_want_of_room),
        cmocka_unit_test(the_first_enforced_limit_that_denies_decides_and_the_longest_wait_counts),
        cmocka_unit_test(a_cost_that_one_limit_can_never_hold_has_no_wait_in_any_order),
        cmocka_unit_test(a_cost_that_can_never_be_held_touches_no_later_call),
        cmocka_unit_test(a_peek_says_what_a_check_would_and_consumes_nothing),
        cmocka_unit_test(cost_zero_is_admitted_even_where_nothing_is_left_and_consumes_nothing),
        cmocka_unit_test(different_keys_are_different_counters_however_their_parts_join),
        cmocka_unit_test(long_values_do_not_run_into_each_other),
        cmocka_unit_test(a_limits_name_and_its_key_values_do_not_run_into_each_other),
        cmocka_unit_test(a_counter_is_found_again_whatever_else_the_request_carries),
        cmocka_unit_test(lease_ids_cannot_be_told_without_the_secret),
        cmocka_unit_test(every_lease_has_an_id_of_its_own),
        cmocka_unit_test(a_full_table_refuses_new_counters_charges_nothing_and_serves_the_old),
        cmocka_unit_test(a_full_limiter_finds_room_by_being_asked_again),
        cmocka_unit_test(counters_live_exactly_as_long_as_they_are_touched),
        cmocka_unit_test(a_refund_gives_back_what_was_taken_and_never_more_than_that),
        cmocka_unit_test(a_refund_leaves_slots_to_their_lease),
        cmocka_unit_test(a_limit_given_on_the_spot_counts_by_its_key),
        cmocka_unit_test(a_key_keeps_what_it_spent_when_the_limit_given_on_the_spot_changes),
        cmocka_unit_test(ten_million_counters_take_at_most_64_bytes_each_all_in),
        cmocka_unit_test(sizes_out_of_range_want_no_memory_and_make_no_limiter),
        cmocka_unit_test(too_little_memory_makes_no_limiter),
        cmocka_unit_test(a_limiter_without_leases_or_logs_serves_the_other_limits),
        cmocka_unit_test(a_steady_clock_that_steps_back_stands_still_and_then_runs_on),
        cmocka_unit_test(instants_out_of_range_are_taken_as_the_nearest_in_range),
        cmocka_unit_test(a_jumping_wall_clock_spends_no_day_twice),
        cmocka_unit_test(a_quota_that_was_swept_away_opens_no_day_again_when_the_wall_clock_steps_back),
        cmocka_unit_test(without_limits_everything_is_admitted_with_every_field_set),
        cmocka_unit_test(rows_come_in_the_files_order_with_every_field_set),
        cmocka_unit_test(a_request_may_touch_as_many_limits_as_a_decision_has_rows_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
