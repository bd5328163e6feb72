/* Versions: which loads make new ones, what becomes of the retired, and when they are free again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "limiter/version.h"
#include "tests/lib/limiter_fixture.h"

#define LIMITS_MAX 4

struct bench {
    struct hr_versions versions;
    void *memory;
    struct hr_limit limits[LIMITS_MAX];
    struct hr_limit_set set; /* versions look at its limits alone */
    struct hr_now now;
    uint32_t pass;
};

static void open_bench(struct bench *bench)
{
    static const char *const names[LIMITS_MAX] = {"a", "b", "c", "d"};
    struct hr_bump measure = {.taken = 0};
    *bench = (struct bench){.now = {SECONDS(FIXTURE_START_S), {SECONDS(FIXTURE_START_S)}}};
    hr_versions_init(&bench->versions, LIMITS_MAX, &measure);
    bench->memory = calloc(1, measure.taken);
    assert_non_null(bench->memory);
    struct hr_bump bump = {.at = bench->memory};
    hr_versions_init(&bench->versions, LIMITS_MAX, &bump);
    for (int i = 0; i < LIMITS_MAX; i++) {
        bench->limits[i] = (struct hr_limit){.name = hr_span_of(names[i]), .rule = any_rule(HR_TOKEN_BUCKET, 100)};
    }
    bench->set = (struct hr_limit_set){.limits = bench->limits, .limit_count = LIMITS_MAX};
}

static enum hr_err load(struct bench *bench)
{
    static const struct hr_hash_key secret = {"a secret of 16b"};
    return hr_versions_load(&bench->versions, &bench->set, &secret, bench->now, bench->pass);
}

static uint32_t in_use(const struct bench *bench)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < bench->versions.version_count; i++) {
        count += bench->versions.versions[i].in_use;
    }
    return count;
}

static void loading_the_same_limits_again_makes_no_new_version(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    assert_int_equal(load(&bench), HR_OK);
    uint16_t before[LIMITS_MAX];
    memcpy(before, bench.versions.of_limit, sizeof(before));
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(load(&bench), HR_OK);
    }
    assert_memory_equal(before, bench.versions.of_limit, sizeof(before));
    assert_int_equal(in_use(&bench), LIMITS_MAX);
    free(bench.memory);
}

static void the_order_of_the_limits_does_not_change_their_versions(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    assert_int_equal(load(&bench), HR_OK);
    uint16_t first = bench.versions.of_limit[0], last = bench.versions.of_limit[LIMITS_MAX - 1];
    struct hr_limit swap = bench.limits[0];
    bench.limits[0] = bench.limits[LIMITS_MAX - 1];
    bench.limits[LIMITS_MAX - 1] = swap;
    assert_int_equal(load(&bench), HR_OK);
    assert_int_equal(bench.versions.of_limit[0], last);
    assert_int_equal(bench.versions.of_limit[LIMITS_MAX - 1], first);
    free(bench.memory);
}

static void every_number_of_a_rule_makes_a_new_version_and_mode_does_not(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    assert_int_equal(load(&bench), HR_OK);
    struct hr_rule changed[] = {bench.limits[0].rule, bench.limits[0].rule, bench.limits[0].rule, bench.limits[0].rule};
    changed[0].capacity++;
    changed[1].rate++;
    changed[2].period_ns++;
    changed[3].algorithm = HR_GCRA;
    for (size_t i = 0; i < COUNT(changed); i++) {
        uint16_t before = bench.versions.of_limit[0];
        bench.limits[0].mode = HR_SHADOW;
        assert_int_equal(load(&bench), HR_OK);
        assert_int_equal(bench.versions.of_limit[0], before);
        bench.limits[0].rule = changed[i];
        assert_int_equal(load(&bench), HR_OK);
        assert_int_not_equal(bench.versions.of_limit[0], before);
    }
    free(bench.memory);
}

static void a_retired_version_is_free_after_two_passes_and_not_after_one(void **state)
{
    (void)state;
    static const uint32_t passes[] = {0, 7, UINT32_MAX, UINT32_MAX - 1};
    for (size_t i = 0; i < COUNT(passes); i++) {
        struct bench bench;
        open_bench(&bench);
        bench.pass = passes[i];
        assert_int_equal(load(&bench), HR_OK);
        bench.limits[0].rule.capacity = 5;
        bench.set.limit_count = LIMITS_MAX - 1; /* one changed, one gone */
        assert_int_equal(load(&bench), HR_OK);
        assert_int_equal(in_use(&bench), LIMITS_MAX + 1);
        for (uint32_t later = 0; later <= 1; later++) {
            hr_versions_free_passed(&bench.versions, passes[i] + later);
            assert_int_equal(in_use(&bench), LIMITS_MAX + 1);
        }
        hr_versions_free_passed(&bench.versions, passes[i] + 2);
        assert_int_equal(in_use(&bench), LIMITS_MAX - 1);
        free(bench.memory);
    }
}

static void a_load_without_room_for_it_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    enum hr_err err = HR_OK;
    uint16_t before[LIMITS_MAX] = {0};
    for (uint64_t n = 0; n < 100 && err == HR_OK; n++) {
        memcpy(before, bench.versions.of_limit, sizeof(before));
        for (int i = 0; i < LIMITS_MAX; i++) {
            bench.limits[i].rule.capacity = 100 + n;
        }
        err = load(&bench);
    }
    assert_int_equal(err, HR_E_FULL);
    uint32_t used = in_use(&bench);
    assert_memory_equal(before, bench.versions.of_limit, sizeof(before));
    bench.pass += 2;
    hr_versions_free_passed(&bench.versions, bench.pass);
    assert_true(in_use(&bench) < used);
    assert_int_equal(in_use(&bench), LIMITS_MAX);
    assert_int_equal(load(&bench), HR_OK);
    free(bench.memory);
}

static void a_state_goes_through_every_version_that_came_since(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    bench.set.limit_count = 1;
    assert_int_equal(load(&bench), HR_OK);
    uint16_t first = bench.versions.of_limit[0];
    union hr_state counter = {.gcra = {{0, 0}}};
    hr_gcra_take(&counter.gcra, &bench.limits[0].rule, 100, bench.now.steady); /* 100 at 1/s, then 2/s, then 4/s */
    static const uint64_t rates[] = {200, 400};
    for (size_t i = 0; i < COUNT(rates); i++) {
        bench.now.steady += SECONDS(10);
        bench.limits[0].rule.rate = rates[i];
        assert_int_equal(load(&bench), HR_OK);
    }
    struct hr_context context = {.now = bench.now};
    assert_int_equal(hr_versions_restate(&bench.versions, first, &counter, &context), bench.versions.of_limit[0]);
    assert_int_equal(hr_gcra_remaining(&counter.gcra, &bench.limits[0].rule, bench.now.steady), 10 + 20);
    free(bench.memory);
}

static void a_state_whose_limit_is_gone_is_left_as_it_was(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    assert_int_equal(load(&bench), HR_OK);
    uint16_t version = bench.versions.of_limit[0];
    union hr_state counter = {.gcra = {{1, 2}}};
    bench.set.limit_count = 0;
    assert_int_equal(load(&bench), HR_OK);
    struct hr_context context = {.now = bench.now};
    assert_int_equal(hr_versions_restate(&bench.versions, version, &counter, &context), 0);
    assert_true(counter.gcra.arrival.hi == 1 && counter.gcra.arrival.lo == 2);
    free(bench.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_the_same_limits_again_makes_no_new_version),
        cmocka_unit_test(the_order_of_the_limits_does_not_change_their_versions),
        cmocka_unit_test(every_number_of_a_rule_makes_a_new_version_and_mode_does_not),
        cmocka_unit_test(a_retired_version_is_free_after_two_passes_and_not_after_one),
        cmocka_unit_test(a_load_without_room_for_it_changes_nothing),
        cmocka_unit_test(a_state_goes_through_every_version_that_came_since),
        cmocka_unit_test(a_state_whose_limit_is_gone_is_left_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
