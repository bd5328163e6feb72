/* The engine under a virtual clock: time that never runs backwards, the same answers every time, and clear words at its
 * bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "node/answer.h"
#include "node/command/replay.h"

static const char limits_text[] = "limits:\n"
                                  "  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 2/s, burst: 5}\n"
                                  "  - {name: jobs, key: [org], algorithm: concurrency, slots: 2, ttl: 60s}\n";

struct fixture {
    struct hr_limits_file *limits;
    struct hr_replay *replay;
    uint64_t serial;
};

static void open_fixture(struct fixture *f, uint32_t counters_max)
{
    struct hr_problem problem = {"", ""};
    f->serial = 0;
    f->limits = hr_limits_file_parse(HR_SPAN(limits_text), "limits", &problem);
    if (f->limits == NULL) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    f->replay = hr_replay_open(f->limits, counters_max, &problem);
    if (f->replay == NULL) {
        fail_msg("%s", problem.what);
    }
}

static void close_fixture(struct fixture *f)
{
    hr_replay_close(f->replay);
    hr_limits_file_free(f->limits);
}

static enum hr_err check(struct fixture *f, const char *name, const char *value, int64_t at_us,
                         const struct hr_decision **ret_decision, struct hr_problem *ret_problem)
{
    struct hr_attribute attribute = {hr_span_of(name), hr_span_of(value)};
    struct hr_request request = {.attributes = &attribute, .attribute_count = 1, .cost = 1, .serial = ++f->serial};
    return hr_replay_check(f->replay, &request, at_us, ret_decision, ret_problem);
}

static const struct hr_decision *must_check(struct fixture *f, const char *name, const char *value, int64_t at_us)
{
    struct hr_problem problem = {"", ""};
    const struct hr_decision *decision = NULL;
    if (check(f, name, value, at_us, &decision, &problem) != HR_OK) {
        fail_msg("%s", problem.what);
    }
    return decision;
}

static void a_burst_passes_and_the_rest_waits(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, 1000);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(must_check(&f, "api_key", "k", 1000000)->allowed, i < 5);
    }
    assert_true(must_check(&f, "api_key", "k", 2100000)->allowed);
    assert_true(must_check(&f, "api_key", "k", 2100000)->allowed);
    assert_int_equal(must_check(&f, "api_key", "k", 2100000)->retry_after_ms, 400);
    close_fixture(&f);
}

/* Were the earlier time believed, the later one would refill what was never spent. */
static void a_time_before_the_last_one_counts_as_the_last_one(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, 1000);
    for (int i = 0; i < 5; i++) {
        assert_true(must_check(&f, "api_key", "k", 100000000)->allowed);
    }
    assert_false(must_check(&f, "api_key", "k", 0)->allowed);
    assert_int_equal(must_check(&f, "api_key", "k", 99999999)->retry_after_ms, 500);
    assert_true(must_check(&f, "api_key", "k", 100500000)->allowed);
    close_fixture(&f);
}

static void a_release_ends_the_leases_of_its_request_once(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, 1000);
    assert_true(must_check(&f, "org", "acme", 1)->rows[0].has_lease);
    assert_true(must_check(&f, "org", "acme", 1)->allowed);
    assert_false(must_check(&f, "org", "acme", 1)->allowed);
    assert_false(hr_replay_release(f.replay, 3, 2)); /* was denied */
    assert_true(hr_replay_release(f.replay, 1, 2));
    assert_false(hr_replay_release(f.replay, 1, 2));
    assert_true(must_check(&f, "org", "acme", 2)->allowed);
    close_fixture(&f);
}

static void the_same_requests_get_the_same_bytes(void **state)
{
    static char answers[2][HR_ANSWER_BYTES_MAX];
    (void)state;
    for (int run = 0; run < 2; run++) {
        struct fixture f;
        open_fixture(&f, 1000);
        size_t bytes = hr_answer_decision(must_check(&f, "org", "acme", 1), answers[run]);
        answers[run][bytes] = '\0';
        close_fixture(&f);
    }
    assert_string_equal(answers[0], answers[1]);
}

static void more_live_counters_than_there_is_room_for_say_what_to_raise(void **state)
{
    struct fixture f;
    struct hr_problem problem = {"", ""};
    const struct hr_decision *decision = NULL;
    enum hr_err err = HR_OK;
    (void)state;
    open_fixture(&f, 64);
    for (int i = 0; i < 100000 && err == HR_OK; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        err = check(&f, "api_key", key, 1, &decision, &problem);
    }
    assert_int_equal(err, HR_E_FULL);
    assert_non_null(strstr(problem.what, "raise --counters"));
    assert_true(must_check(&f, "api_key", "other", 10000000)->allowed); /* untouched counters make room */
    close_fixture(&f);
}

/* A hundred thousand keys that come once each, in room for a thousand. */
static void room_follows_what_is_live_and_not_what_ever_was(void **state)
{
    struct fixture f;
    (void)state;
    open_fixture(&f, 1000);
    for (int i = 0; i < 100000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        assert_true(must_check(&f, "api_key", key, INT64_C(10000) * i)->allowed);
    }
    close_fixture(&f);
}

/* What is live is all but one of what there is room for: still answered, as long as it does not last. */
static void the_last_place_is_given_while_it_does_not_take_a_sweep_for_each_request(void **state)
{
    struct fixture f;
    struct hr_problem problem = {"", ""};
    const struct hr_decision *decision = NULL;
    enum hr_err err = HR_OK;
    int i = 0;
    (void)state;
    open_fixture(&f, 20000); /* one request takes 500 ms to be forgotten, and one comes each 500 ms / 19,999 */
    for (; i < 400000 && err == HR_OK; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "k%d", i);
        err = check(&f, "api_key", key, INT64_C(500000) * i / 19999, &decision, &problem);
    }
    assert_int_equal(err, HR_E_FULL);
    assert_non_null(strstr(problem.what, "no room for more than 20000 counters: raise --counters"));
    assert_in_range(i, 20100, 300000);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_passes_and_the_rest_waits),
        cmocka_unit_test(a_time_before_the_last_one_counts_as_the_last_one),
        cmocka_unit_test(a_release_ends_the_leases_of_its_request_once),
        cmocka_unit_test(the_same_requests_get_the_same_bytes),
        cmocka_unit_test(more_live_counters_than_there_is_room_for_say_what_to_raise),
        cmocka_unit_test(room_follows_what_is_live_and_not_what_ever_was),
        cmocka_unit_test(the_last_place_is_given_while_it_does_not_take_a_sweep_for_each_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
