/* The load of `headroom bench`: which keys, which bytes, when, and what is made of the answers' times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limit.h"
#include "node/command/loadgen.h"
#include "rpc/message.h"
#include "rpc/params.h"

#define SEED UINT64_C(20240229)

static void the_nth_request_is_due_exactly_n_periods_after_the_start(void **state)
{
    static const struct {
        uint64_t per_second, index, due_ns;
    } rows[] = {
        {1, 0, 0},
        {1, 3, 3000000000},
        {3, 1, 333333333},
        {3, 2, 666666666},
        {3, 3, 1000000000},
        {1000000000, 7, 7},
        {7, 7000007, UINT64_C(1000001) * 1000000000},
        {999999937, UINT64_C(999999937) * 1000000, UINT64_C(1000000) * 1000000000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct hr_load_schedule schedule = {123, rows[i].per_second};
        uint64_t due_ns = hr_load_due_ns(&schedule, rows[i].index);
        if (due_ns != 123 + rows[i].due_ns) {
            fail_msg("row %zu: due after %llu ns", i, (unsigned long long)(due_ns - 123));
        }
    }
}

static void as_many_requests_are_due_as_have_come_due(void **state)
{
    struct hr_rng rng = {SEED};
    (void)state;
    for (int i = 0; i < 100000; i++) {
        const struct hr_load_schedule schedule = {hr_rng_below(&rng, 1000), 1 + hr_rng_below(&rng, 1000000000)};
        uint64_t now_ns = schedule.start_ns + hr_rng_below(&rng, UINT64_C(20000000000));
        uint64_t count = hr_load_due_count(&schedule, now_ns);
        if (count == 0 || hr_load_due_ns(&schedule, count - 1) > now_ns || hr_load_due_ns(&schedule, count) <= now_ns) {
            fail_msg("seed %llu, round %d: %llu at %llu a second", (unsigned long long)SEED, i,
                     (unsigned long long)count, (unsigned long long)schedule.per_second);
        }
    }
}

static void each_request_is_a_valid_check_of_its_own_key(void **state)
{
    static const struct {
        struct hr_load_check check;
        uint32_t msgid;
        uint64_t key;
        const char *value;
    } rows[] = {
        {{{"api_key", 7}, 1, false}, 0, 0, "k0000000000"},
        {{{"api_key", 7}, 2, true}, UINT32_MAX, 42, "k0000000042"},
        {{{"a", 1}, HR_COST_MAX, false}, 4095, HR_LOAD_KEYS_MAX, "k9999999999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_load_request request = {.bytes = 0};
        char bytes[HR_LOAD_REQUEST_BYTES_MAX];
        struct hr_message message;
        struct hr_params params;
        struct hr_fault fault;
        print_message("row %zu\n", i);
        assert_int_equal(hr_load_request_init(&request, &rows[i].check), HR_OK);
        hr_load_request_write(&request, 1, HR_LOAD_KEYS_MAX, bytes);
        hr_load_request_write(&request, rows[i].msgid, rows[i].key, bytes); /* nothing of the last one stays */
        assert_int_equal(hr_message_decode((struct hr_span){bytes, request.bytes}, &message), HR_OK);
        assert_int_equal(message.msgid, rows[i].msgid);
        assert_int_equal(hr_method_find(message.method), HR_METHOD_CHECK);
        assert_true(hr_params_decode(HR_METHOD_CHECK, message.params, &params, &fault));
        assert_int_equal(params.attribute_count, 1);
        assert_true(hr_span_equal(params.attributes[0].name, rows[i].check.attribute));
        assert_true(hr_span_equal(params.attributes[0].value, hr_span_of(rows[i].value)));
        assert_int_equal(params.cost, rows[i].check.cost);
        assert_int_equal(params.detail, rows[i].check.detail);
    }
}

static void the_longest_request_fits_its_room(void **state)
{
    static const char name[HR_ATTRIBUTE_NAME_BYTES_MAX + 1] = "";
    struct hr_load_request request = {.bytes = 0};
    const struct hr_load_check longest = {{name, HR_ATTRIBUTE_NAME_BYTES_MAX}, HR_COST_MAX, false};
    const struct hr_load_check longer = {{name, HR_ATTRIBUTE_NAME_BYTES_MAX + 1}, 1, false};
    (void)state;
    assert_int_equal(hr_load_request_init(&request, &longest), HR_OK);
    assert_true(request.bytes <= sizeof(request.at));
    assert_int_equal(hr_load_request_init(&request, &longer), HR_E_RANGE);
}

/* Each of a few keys must come about as often as Zipf's law says: within five standard deviations. */
static void assert_frequencies(double skew)
{
    enum { KEYS = 8, DRAWS = 400000 };
    /* 1 / k^skew for k from 1 to 8, times 10^6. */
    static const struct {
        double skew;
        uint32_t weights[KEYS];
    } tables[] = {
        {0.0, {1000000, 1000000, 1000000, 1000000, 1000000, 1000000, 1000000, 1000000}},
        {0.5, {1000000, 707107, 577350, 500000, 447214, 408248, 377964, 353553}},
        {1.0, {1000000, 500000, 333333, 250000, 200000, 166667, 142857, 125000}},
        {2.0, {1000000, 250000, 111111, 62500, 40000, 27778, 20408, 15625}},
    };
    size_t t = 0;
    while (tables[t].skew < skew) {
        t++;
    }
    uint64_t sum = 0, counts[KEYS] = {0};
    struct hr_load_keys keys;
    hr_load_keys_init(&keys, KEYS, skew, SEED);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t key = hr_load_keys_next(&keys);
        assert_true(key < KEYS);
        counts[key]++;
    }
    for (int i = 0; i < KEYS; i++) {
        sum += tables[t].weights[i];
    }
    for (int i = 0; i < KEYS; i++) {
        double expected = (double)DRAWS * tables[t].weights[i] / (double)sum;
        double off = (double)counts[i] - expected;
        if (off * off > 25.0 * expected) {
            fail_msg("seed %llu, skew %.1f, key %d: %llu times, not %.0f", (unsigned long long)SEED, skew, i,
                     (unsigned long long)counts[i], expected);
        }
    }
}

static void keys_come_as_often_as_zipf_says(void **state)
{
    (void)state;
    assert_frequencies(0.0);
    assert_frequencies(0.5);
    assert_frequencies(1.0);
    assert_frequencies(2.0);
}

static void keys_stay_in_range_for_any_skew(void **state)
{
    static const double skews[] = {0.0, 1e-9, 0.99, 1.0, 1.0 + 1e-12, 1.5, HR_LOAD_SKEW_MAX};
    static const uint64_t counts[] = {1, 2, 1000000, HR_LOAD_KEYS_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(skews) / sizeof(skews[0]); i++) {
        for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
            struct hr_load_keys keys;
            hr_load_keys_init(&keys, counts[j], skews[i], SEED);
            for (int k = 0; k < 1000; k++) {
                if (hr_load_keys_next(&keys) >= counts[j]) {
                    fail_msg("skew %zu, count %zu, round %d", i, j, k);
                }
            }
        }
    }
}

static void the_percentiles_are_those_of_the_times_rounded_up(void **state)
{
    static const struct {
        uint32_t per_mille;
        uint64_t exact_us;
    } rows[] = {{500, 500}, {900, 900}, {990, 990}, {999, 999}, {1000, 1000}};
    static struct hr_load_result result;
    (void)state;
    for (uint64_t us = 1; us <= 1000; us++) {
        hr_histogram_add(&result.latency, us * 1000);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t us = hr_load_quantile_us(&result, rows[i].per_mille);
        if (us < rows[i].exact_us || us > rows[i].exact_us + rows[i].exact_us / 8 + 1) {
            fail_msg("row %zu: %llu us", i, (unsigned long long)us);
        }
    }
    assert_int_equal(hr_load_quantile_us(&result, 1000), 1000);
}

static void the_rate_is_answers_for_each_second(void **state)
{
    static struct hr_load_result result;
    (void)state;
    assert_int_equal(hr_load_per_second(&result), 0);
    result.latency.count = 3000001;
    result.elapsed_ns = UINT64_C(1500000000);
    assert_int_equal(hr_load_per_second(&result), 2000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_request_is_due_exactly_n_periods_after_the_start),
        cmocka_unit_test(as_many_requests_are_due_as_have_come_due),
        cmocka_unit_test(each_request_is_a_valid_check_of_its_own_key),
        cmocka_unit_test(the_longest_request_fits_its_room),
        cmocka_unit_test(keys_come_as_often_as_zipf_says),
        cmocka_unit_test(keys_stay_in_range_for_any_skew),
        cmocka_unit_test(the_percentiles_are_those_of_the_times_rounded_up),
        cmocka_unit_test(the_rate_is_answers_for_each_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
