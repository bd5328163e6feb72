/* Top-k: what it promises (topk.h), held against exact counts in random streams; its edges; its list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/topk.h"

#define KEYS 300
#define START (HR_NS_PER_S * 1000)

struct exact {
    uint64_t count[KEYS], denied[KEYS];
};

struct opened {
    struct hr_topk topk;
    void *memory;
};

static void open_topk(struct opened *opened, uint32_t capacity)
{
    struct hr_bump measure = {.at = NULL};
    hr_topk_init(&opened->topk, capacity, START, &measure);
    opened->memory = malloc(measure.taken);
    assert_non_null(opened->memory);
    struct hr_bump bump = {.at = opened->memory};
    hr_topk_init(&opened->topk, capacity, START, &bump);
    assert_int_equal(bump.taken, measure.taken);
}

/* Few distinct low words, so that identities crowd in the index and share homes. */
static struct hr_id128 id_of(uint64_t key)
{
    return (struct hr_id128){key * UINT64_C(0x9e3779b97f4a7c15), key % 17};
}

static void expect_bounds(const struct hr_topk *topk, const struct exact *exact)
{
    uint64_t listed = 0, total = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        const struct hr_topk_entry *entry = hr_topk_find(topk, id_of(key));
        if (entry == NULL) {
            assert_true(exact->count[key] <= topk->total / topk->capacity);
            continue;
        }
        assert_true(hr_id128_equal(entry->id, id_of(key)));
        assert_int_equal(entry->limit, key % 5);
        assert_true(exact->count[key] <= entry->count);
        assert_true(entry->count - entry->error <= exact->count[key]);
        assert_true(entry->error <= entry->count && entry->denied <= exact->denied[key]);
        total += entry->count;
        listed++;
    }
    assert_int_equal(listed, topk->count);
    assert_int_equal(total, topk->total);
}

static void halve_all(struct exact *exact)
{
    for (size_t key = 0; key < KEYS; key++) {
        exact->count[key] /= 2;
        exact->denied[key] /= 2;
    }
}

/* A key below `reach`, small ones much more often. */
static uint64_t draw_key(struct hr_rng *rng, uint64_t reach)
{
    return hr_rng_below(rng, 1 + hr_rng_below(rng, 1 + hr_rng_below(rng, reach)));
}

static void run_stream(uint64_t seed, uint32_t capacity)
{
    struct hr_rng rng = {seed};
    struct opened opened;
    struct exact exact = {0};
    hr_ns now = START;
    uint64_t reach = 1 + hr_rng_below(&rng, KEYS);
    open_topk(&opened, capacity);
    for (int step = 0; step < 3000; step++) {
        uint64_t key = draw_key(&rng, reach);
        bool is_denied = hr_rng_chance(&rng, 1, 3);
        exact.count[key]++;
        exact.denied[key] += is_denied;
        hr_topk_add(&opened.topk, id_of(key), (uint32_t)(key % 5), is_denied);
        if (hr_rng_chance(&rng, 1, 500)) {
            now += HR_TOPK_HALF_LIFE_NS;
            halve_all(&exact);
            hr_topk_tick(&opened.topk, now + (hr_ns)hr_rng_below(&rng, HR_TOPK_HALF_LIFE_NS));
        }
        if (step % 50 == 0) {
            expect_bounds(&opened.topk, &exact);
        }
    }
    expect_bounds(&opened.topk, &exact);
    free(opened.memory);
}

static void counts_stay_within_their_bounds(void **state)
{
    (void)state;
    static const uint32_t capacities[] = {1, 2, 3, 7, 16, 64, 299, 300, 1000};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            print_message("capacity %u, seed %lu\n", capacities[i], (unsigned long)seed);
            run_stream(seed, capacities[i]);
        }
    }
}

/* The denials of the one that was pushed out are not its successor's. */
static void a_stranger_inherits_the_least_count_as_its_error(void **state)
{
    (void)state;
    struct opened opened;
    open_topk(&opened, 2);
    for (int i = 0; i < 5; i++) {
        hr_topk_add(&opened.topk, id_of(1), 1, false);
    }
    for (int i = 0; i < 3; i++) {
        hr_topk_add(&opened.topk, id_of(2), 2, true);
    }
    hr_topk_add(&opened.topk, id_of(3), 3, true);
    assert_null(hr_topk_find(&opened.topk, id_of(2)));
    const struct hr_topk_entry *entry = hr_topk_find(&opened.topk, id_of(3));
    assert_non_null(entry);
    assert_int_equal(entry->count, 4);
    assert_int_equal(entry->error, 3);
    assert_int_equal(entry->denied, 1);
    assert_int_equal(entry->limit, 3);
    free(opened.memory);
}

static void the_list_is_sorted_and_cut(void **state)
{
    (void)state;
    static const uint64_t times[] = {3, 9, 1, 9, 4};
    static const uint64_t expected[] = {1, 3, 4, 0, 2}; /* 1 and 3 tie: 1 has the lesser identity */
    struct opened opened;
    struct hr_topk_entry list[8];
    open_topk(&opened, 8);
    for (uint64_t key = 0; key < 5; key++) {
        for (uint64_t i = 0; i < times[key]; i++) {
            hr_topk_add(&opened.topk, id_of(key), 0, false);
        }
    }
    for (uint32_t count_max = 0; count_max <= 8; count_max++) {
        print_message("at most %u\n", count_max);
        uint32_t count = hr_topk_list(&opened.topk, count_max, 0, list);
        assert_int_equal(count, count_max < 5 ? count_max : 5);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(hr_id128_equal(list[i].id, id_of(expected[i])));
            assert_int_equal(list[i].count, times[expected[i]]);
        }
    }
    free(opened.memory);
}

static void what_is_no_longer_asked_for_is_forgotten(void **state)
{
    (void)state;
    struct opened opened;
    open_topk(&opened, 4);
    for (int i = 0; i < 4; i++) {
        hr_topk_add(&opened.topk, id_of(1), 0, false);
    }
    hr_topk_add(&opened.topk, id_of(2), 0, false);
    hr_topk_tick(&opened.topk, START + HR_TOPK_HALF_LIFE_NS - 1);
    assert_int_equal(hr_topk_find(&opened.topk, id_of(1))->count, 4);
    hr_topk_tick(&opened.topk, START + HR_TOPK_HALF_LIFE_NS);
    assert_int_equal(hr_topk_find(&opened.topk, id_of(1))->count, 2);
    assert_null(hr_topk_find(&opened.topk, id_of(2)));
    hr_topk_tick(&opened.topk, HR_TIME_NS_MAX); /* ends soon, however long it was */
    assert_int_equal(opened.topk.count, 0);
    assert_int_equal(opened.topk.total, 0);
    hr_topk_add(&opened.topk, id_of(2), 0, false);
    assert_int_equal(hr_topk_find(&opened.topk, id_of(2))->error, 0);
    free(opened.memory);
}

static void a_cleared_sketch_is_empty(void **state)
{
    (void)state;
    struct opened opened;
    struct hr_topk_entry list[2];
    open_topk(&opened, 2);
    for (uint64_t key = 0; key < 7; key++) {
        hr_topk_add(&opened.topk, id_of(key), 0, false);
    }
    hr_topk_clear(&opened.topk);
    assert_int_equal(hr_topk_list(&opened.topk, 2, 0, list), 0);
    for (uint64_t key = 0; key < 7; key++) {
        assert_null(hr_topk_find(&opened.topk, id_of(key)));
    }
    free(opened.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_stay_within_their_bounds),
        cmocka_unit_test(a_stranger_inherits_the_least_count_as_its_error),
        cmocka_unit_test(the_list_is_sorted_and_cut),
        cmocka_unit_test(what_is_no_longer_asked_for_is_forgotten),
        cmocka_unit_test(a_cleared_sketch_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
