/* If-then tables: what is read, and that every mistake is refused at its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/command/cases_yaml.h"
#include "node/temp_folder.h"

#define LIMITS                                                                  \
    "limits:\n"                                                                 \
    "  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 2/s}\n" \
    "  - {name: jobs, key: [org], algorithm: concurrency, slots: 2, ttl: 60s}\n"

struct folder {
    char limits[272], cases[272], path[256];
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    static struct folder folder;
    if (!hr_temp_folder("test", folder.path, sizeof(folder.path))) {
        return -1;
    }
    (void)snprintf(folder.limits, sizeof(folder.limits), "%s/limits.yaml", folder.path);
    (void)snprintf(folder.cases, sizeof(folder.cases), "%s/cases.yaml", folder.path);
    write_file(folder.limits, LIMITS);
    *state = &folder;
    return 0;
}

static int teardown(void **state)
{
    struct folder *folder = *state;
    (void)unlink(folder->cases);
    (void)unlink(folder->limits);
    return rmdir(folder->path);
}

static struct hr_cases *load(void **state, const char *text, struct hr_problem *ret_problem)
{
    struct folder *folder = *state;
    memset(ret_problem, 0, sizeof(*ret_problem));
    write_file(folder->cases, text);
    return hr_cases_load(folder->cases, ret_problem);
}

static void assert_want(const struct hr_want *want, enum hr_want_field field, const char *limit, int64_t value)
{
    assert_int_equal(want->field, field);
    assert_int_equal(want->value, value);
    if (limit == NULL) {
        assert_null(want->limit);
    } else {
        assert_true(hr_span_equal(want->limit->name, hr_span_of(limit)));
    }
}

static void a_table_is_read_whole(void **state)
{
    struct hr_problem problem;
    struct hr_cases *cases =
        load(state,
             "limits: limits.yaml\n"
             "tests:\n"
             "  - name: one\n"
             "    start: 2024-01-02T00:00:00Z\n"
             "    steps:\n"
             "      - {label: held, attributes: {org: acme}, cost: 2, peek: false, expect: {action: delay}}\n"
             "      - at: 1.5s\n"
             "        attributes: {api_key: k, org: acme}\n"
             "        expect:\n"
             "          decided_by: jobs\n"
             "          retry_after_ms: never\n"
             "          limits: {key-rps: untouched, jobs: {remaining: 3}}\n"
             "      - {attributes: {org: acme}, times: 9, expect: {allowed: 4, denied: 5}}\n"
             "      - {at: 2s, release: held, expect: {released: true}}\n"
             "      - {at: 2s, release: 3}\n"
             "  - {name: two, steps: [{attributes: {a: b}, expect: {decided_by: null}}]}\n",
             &problem);
    if (cases == NULL) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    assert_int_equal(cases->test_count, 2);
    const struct hr_case_test *test = &cases->tests[0];
    assert_int_equal(test->step_count, 5);
    assert_int_equal(test->steps[0].at_us, 1704153600000000);
    assert_int_equal(test->steps[0].request.cost, 2);
    assert_want(&test->steps[0].wants[0], HR_WANT_DOES, NULL, 1);
    assert_int_equal(test->steps[1].at_us, 1704153601500000);
    assert_int_equal(test->steps[1].want_count, 4);
    assert_want(&test->steps[1].wants[0], HR_WANT_DECIDED_BY, NULL, 1);
    assert_want(&test->steps[1].wants[1], HR_WANT_RETRY, NULL, -1);
    assert_want(&test->steps[1].wants[2], HR_WANT_ROW_TOUCHED, "key-rps", 0);
    assert_want(&test->steps[1].wants[3], HR_WANT_ROW_REMAINING, "jobs", 3);
    assert_int_equal(test->steps[1].wants[3].line, 12);
    assert_int_equal(test->steps[2].at_us, test->steps[1].at_us);
    assert_int_equal(test->steps[2].times, 9);
    assert_want(&test->steps[2].wants[1], HR_WANT_DENIED_COUNT, NULL, 5);
    assert_int_equal(test->steps[3].release_step, 0);
    assert_int_equal(test->steps[4].release_step, 2);
    assert_int_equal(cases->tests[1].start_us, 1704067200000000);
    assert_want(&cases->tests[1].steps[0].wants[0], HR_WANT_DECIDED_BY, NULL, HR_WANT_NO_LIMIT);
    hr_cases_free(cases);
}

/* One step, in a file where it stands on line 5 from column 9 on. */
#define STEP(text) "limits: limits.yaml\ntests:\n  - name: n\n    steps:\n      - " text "\n"
#define OK_STEP "{attributes: {a: b}, expect: {allowed: true}}"

static const struct {
    const char *text, *says, *where; /* parts of the problem */
} refused[] = {
    {"", "", "cases.yaml"},
    {"[]", "", "cases.yaml:1:1"},
    {"tests: []\n", "limits", "cases.yaml:1:1"},
    {"limits: limits.yaml\n", "tests", "cases.yaml:1:1"},
    {"limits: limits.yaml\ntests: []\n", "no tests", "cases.yaml:2:8"},
    {"limits: limits.yaml\ntests: {}\n", "tests", "cases.yaml:2:8"},
    {"limits: limits.yaml\nlimit: x\n", "limit", "cases.yaml:2:1"},
    {"limits: none.yaml\ntests: []\n", "", "none.yaml"},
    {"limits: ''\ntests: []\n", "limits must", "cases.yaml:1:9"},
    {"limits: limits.yaml\ntests:\n  - {steps: [" OK_STEP "]}\n", "name", "cases.yaml:3:5"},
    {"limits: limits.yaml\ntests:\n  - {name: n}\n", "steps", "cases.yaml:3:5"},
    {"limits: limits.yaml\ntests:\n  - {name: n, steps: []}\n", "expects", "cases.yaml:3:22"},
    {"limits: limits.yaml\ntests:\n  - {name: n, start: today, steps: [" OK_STEP "]}\n", "start must",
     "cases.yaml:3:22"},
    {STEP("{attributes: {a: b}}"), "none of the steps expects", "cases.yaml:5"},
    {STEP("{attributes: {a: b}, expect: {}}"), "is empty", "cases.yaml:5:38"},
    {STEP(OK_STEP "\n      - {attributes: {a: b}, times: 2, expect: {}}"), "is empty", "cases.yaml:6:48"},
    {STEP(OK_STEP "\n      - {release: 1, expect: {}}"), "is empty", "cases.yaml:6:30"},
    {STEP("{attributes: {a: b}, expect: {allowed: true, limits: {}}}"), "limits is empty", "cases.yaml:5:62"},
    {STEP("{attributes: {a: b}, expect: {allowed: true, limits: {jobs: {}}}}"), "is empty", "cases.yaml:5:69"},
    {STEP("{attributes: {a: b}, expect: {limits: {jobs: untouched, jobs: untouched}}}"), "given twice",
     "cases.yaml:5:65"},
    {STEP("{attributes: {a: b}, cost: 010, expect: {allowed: true}}"), "cost", "cases.yaml:5:36"},
    {STEP("{attributes: {a: b}, times: 02, expect: {allowed: 1}}"), "times", "cases.yaml:5:37"},
    {STEP("{expect: {allowed: true}}"), "attributes", "cases.yaml:5:9"},
    {STEP("{attributes: {}, expect: {allowed: true}}"), "1 to 32", "cases.yaml:5:22"},
    {STEP("{attributes: {A: b}, expect: {allowed: true}}"), "name", "cases.yaml:5:23"},
    {STEP("{attributes: {a: b, a: c}, expect: {allowed: true}}"), "twice", "cases.yaml:5:29"},
    {STEP("{attributes: {a: [b]}, expect: {allowed: true}}"), "value", "cases.yaml:5:26"},
    {STEP("{attributes: {a: b}, cost: -1, expect: {allowed: true}}"), "cost", "cases.yaml:5:36"},
    {STEP("{attributes: {a: b}, cost: 9007199254740992, expect: {allowed: true}}"), "cost", "cases.yaml:5:36"},
    {STEP("{attributes: {a: b}, peek: 1, expect: {allowed: true}}"), "peek", "cases.yaml:5:36"},
    {STEP("{attributes: {a: b}, times: 0, expect: {allowed: true}}"), "times", "cases.yaml:5:37"},
    {STEP("{attributes: {a: b}, times: 1000001, expect: {allowed: 1}}"), "times", "cases.yaml:5:37"},
    {STEP("{attributes: {a: b}, at: 5, expect: {allowed: true}}"), "at must", "cases.yaml:5:34"},
    {STEP("{attributes: {a: b}, at: 9000000000s, expect: {allowed: true}}"), "at must", "cases.yaml:5:34"},
    {STEP("{attributes: {a: b}, every: 5s, expect: {allowed: true}}"), "every", "cases.yaml:5:30"},
    {STEP("{attributes: {a: b}, label: 1x, expect: {allowed: true}}"), "label", "cases.yaml:5:37"},
    {STEP("{attributes: {a: b}, expect: [allowed]}"), "expect", "cases.yaml:5:38"},
    {STEP("{attributes: {a: b}, expect: {allowed: 1}}"), "allowed", "cases.yaml:5:48"},
    {STEP("{attributes: {a: b}, expect: {denied: 1}}"), "denied", "cases.yaml:5:39"},
    {STEP("{attributes: {a: b}, expect: {released: true}}"), "released", "cases.yaml:5:39"},
    {STEP("{attributes: {a: b}, expect: {action: pass}}"), "action", "cases.yaml:5:47"},
    {STEP("{attributes: {a: b}, expect: {decided_by: other}}"), "no limit named \"other\"", "cases.yaml:5:51"},
    {STEP("{attributes: {a: b}, expect: {retry_after_ms: -2}}"), "retry_after_ms", "cases.yaml:5:55"},
    {STEP("{attributes: {a: b}, expect: {delay_ms: never}}"), "delay_ms", "cases.yaml:5:49"},
    {STEP("{attributes: {a: b}, expect: {limits: jobs}}"), "limits", "cases.yaml:5:47"},
    {STEP("{attributes: {a: b}, expect: {limits: {other: untouched}}}"), "no limit named", "cases.yaml:5:48"},
    {STEP("{attributes: {a: b}, expect: {limits: {jobs: gone}}}"), "", "cases.yaml:5:54"},
    {STEP("{attributes: {a: b}, expect: {limits: {jobs: {left: 1}}}}"), "left", "cases.yaml:5:55"},
    {STEP("{attributes: {a: b}, times: 2, expect: {allowed: true}}"), "allowed", "cases.yaml:5:58"},
    {STEP("{attributes: {a: b}, times: 2, expect: {limits: {}}}"), "limits", "cases.yaml:5:49"},
    {STEP("{release: 1, expect: {released: true}}"), "release must", "cases.yaml:5:19"},
    {STEP(OK_STEP "\n      - {release: 2}"), "release must", "cases.yaml:6:19"},
    {STEP(OK_STEP "\n      - {release: 01}"), "release must", "cases.yaml:6:19"},
    {STEP(OK_STEP "\n      - {release: 4294967297}"), "release must", "cases.yaml:6:19"},
    {STEP(OK_STEP "\n      - {release: ''}"), "release must", "cases.yaml:6:19"},
    {STEP(OK_STEP "\n      - {release: 1}\n      - {release: 2}"), "release must", "cases.yaml:7:19"},
    {STEP(OK_STEP "\n      - {release: 1, cost: 2}"), "has no cost", "cases.yaml:6:28"},
    {STEP(OK_STEP "\n      - {release: 1, expect: {allowed: true}}"), "allowed", "cases.yaml:6:31"},
    {STEP("{at: 2s, attributes: {a: b}}\n      - {at: 1s, attributes: {a: b}}"), "before", "cases.yaml:6:14"},
    {STEP("{label: l, attributes: {a: b}}\n      - {label: l, attributes: {a: b}}"), "label", "cases.yaml:6:17"},
};

static void a_mistake_is_refused_at_its_place(void **state)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct hr_problem problem;
        struct hr_cases *cases = load(state, refused[i].text, &problem);
        if (cases != NULL) {
            hr_cases_free(cases);
            fail_msg("row %zu was accepted:\n%s", i, refused[i].text);
        }
        if (problem.what[0] == '\0' || strstr(problem.what, refused[i].says) == NULL ||
            strstr(problem.where, refused[i].where) == NULL) {
            fail_msg("row %zu: wanted \"%s\" at %s, got \"%s\" at %s", i, refused[i].says, refused[i].where,
                     problem.what, problem.where);
        }
    }
}

static void every_prefix_of_a_table_is_read_or_refused_with_words(void **state)
{
    static const char text[] = STEP("{label: l, at: 1s, attributes: {org: b}, times: 3, expect: {allowed: 2}}\n"
                                    "      - {release: l, expect: {released: true}}");
    for (size_t cut = 0; cut < sizeof(text); cut++) {
        char part[sizeof(text)] = {0};
        struct hr_problem problem;
        memcpy(part, text, cut);
        struct hr_cases *cases = load(state, part, &problem);
        assert_true(cases != NULL || problem.what[0] != '\0');
        hr_cases_free(cases);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_read_whole),
        cmocka_unit_test(a_mistake_is_refused_at_its_place),
        cmocka_unit_test(every_prefix_of_a_table_is_read_or_refused_with_words),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
