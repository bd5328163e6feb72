#include "node/command/cases_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"
#include "node/answer.h"
#include "node/doc_yaml.h"
#include "node/time_text.h"

#define COUNT_OF(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

#define PATH_BYTES_MAX 4096

/* A Monday, and the first instant of a month and a year: calendar periods begin with the test. */
#define START_DEFAULT_US (INT64_C(1704067200) * 1000000)

#define AT_US_MAX (HR_TIME_NS_MAX / HR_NS_PER_US)

/* What a reader works on. Each read_ function is false with *problem filled in. */
struct reader {
    struct hr_cases *cases;
    const struct hr_doc *doc;
    struct hr_problem *problem;
};

const char *hr_want_field_name(enum hr_want_field field)
{
    static const char *const names[] = {
#define X(value, name, kind) name,
        HR_WANT_LIST(X)
#undef X
    };
    return names[field];
}

enum hr_want_kind hr_want_field_kind(enum hr_want_field field)
{
    static const enum hr_want_kind kinds[] = {
#define X(value, name, kind) kind,
        HR_WANT_LIST(X)
#undef X
    };
    return kinds[field];
}

/* One item or more; nothing of this is ever so large that the sum could overflow. */
static void *allocate(struct reader *r, hr_doc_node node, uint32_t count, size_t item_bytes)
{
    void *memory = calloc(count > 0 ? count : 1, item_bytes);
    if (memory == NULL) {
        (void)hr_doc_fault(r->doc, node, r->problem, "no memory for %u items", count);
    }
    return memory;
}

static bool need(struct reader *r, hr_doc_node map, hr_doc_node value, const char *what, const char *key)
{
    return value != 0 || hr_doc_fault(r->doc, map, r->problem, "%s needs a %s", what, key);
}

/* Expected values */

static const struct hr_limit *find_limit(const struct reader *r, struct hr_span name)
{
    const struct hr_limits_file *limits = r->cases->limits;
    for (uint32_t i = 0; i < limits->limit_count; i++) {
        if (hr_span_equal(limits->limits[i].name, name)) {
            return &limits->limits[i];
        }
    }
    return NULL;
}

static bool read_limit_name(struct reader *r, hr_doc_node node, const struct hr_limit **ret_limit)
{
    struct hr_span name;
    if (!hr_doc_scalar(r->doc, node, "a limit's name", &name, r->problem)) {
        return false;
    }
    *ret_limit = find_limit(r, name);
    return *ret_limit != NULL || hr_doc_fault(r->doc, node, r->problem, "the limits file has no limit named \"%.*s\"",
                                              (int)(name.bytes < 80 ? name.bytes : 80), name.at);
}

static bool want_bool(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    bool value = false;
    if (!hr_doc_bool(r->doc, node, hr_want_field_name(want->field), &value, r->problem)) {
        return false;
    }
    want->value = value;
    return true;
}

static bool want_count(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    uint64_t value = 0;
    if (!hr_doc_number(r->doc, node, hr_want_field_name(want->field), HR_ANSWER_MAX, &value, r->problem)) {
        return false;
    }
    want->value = (int64_t)value;
    return true;
}

/* A wait may be one that never ends. */
static bool want_wait(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    struct hr_span text = hr_doc_text(r->doc, node);
    if (hr_span_equal(text, HR_SPAN("never")) || hr_span_equal(text, HR_SPAN("-1"))) {
        want->value = HR_NEVER_MS;
        return true;
    }
    return want_count(r, node, want);
}

static bool want_action(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    static const char *const names[] = {"allow", "delay", "deny"}; /* as enum hr_action counts them */
    const struct hr_doc_keys words = {"action", COUNT_OF(names), names};
    uint32_t index = 0;
    if (!hr_doc_choice(r->doc, node, &words, &index, r->problem)) {
        return false;
    }
    want->value = index;
    return true;
}

static bool want_limit(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    const struct hr_limit *limit = NULL;
    if (hr_doc_is_null(r->doc, node)) {
        want->value = HR_WANT_NO_LIMIT;
        return true;
    }
    if (!read_limit_name(r, node, &limit)) {
        return false;
    }
    want->value = limit - r->cases->limits->limits;
    return true;
}

static bool read_want(struct reader *r, hr_doc_node node, struct hr_want *want)
{
    switch (hr_want_field_kind(want->field)) {
    case HR_WANT_BOOL:
        return want_bool(r, node, want);
    case HR_WANT_COUNT:
        return want_count(r, node, want);
    case HR_WANT_WAIT:
        return want_wait(r, node, want);
    case HR_WANT_ACTION:
        return want_action(r, node, want);
    case HR_WANT_LIMIT:
        break;
    }
    return want_limit(r, node, want);
}

/* The keys that a map of expected values may have. */
struct want_keys {
    const char *what;
    uint32_t count;
    enum hr_want_field fields[6];
};

static const struct want_keys decision_keys = {
    "what is expected of a request",
    5,
    {HR_WANT_ALLOWED, HR_WANT_DOES, HR_WANT_DECIDED_BY, HR_WANT_RETRY, HR_WANT_DELAY},
};
static const struct want_keys counts_keys = {
    "what is expected of many requests",
    2,
    {HR_WANT_ALLOWED_COUNT, HR_WANT_DENIED_COUNT},
};
static const struct want_keys release_keys = {"what is expected of a release", 1, {HR_WANT_RELEASED}};
static const struct want_keys row_keys = {
    "what is expected of a limit",
    6,
    {HR_WANT_ROW_TOUCHED, HR_WANT_ROW_ALLOWED, HR_WANT_ROW_LIMIT, HR_WANT_ROW_REMAINING, HR_WANT_ROW_RETRY,
     HR_WANT_ROW_RESET},
};

/* An empty map looks like a check, and checks nothing. */
static bool is_something(struct reader *r, hr_doc_node map, const char *what)
{
    return hr_doc_count(r->doc, map) > 0 || hr_doc_fault(r->doc, map, r->problem, "%s is empty", what);
}

/* Reads a map of expected values behind those the step already has; there is room. Of a decision, *ret_limits becomes
 * the node under `limits`, or 0. */
static bool read_want_map(struct reader *r, hr_doc_node map, const struct want_keys *keys, const struct hr_limit *limit,
                          struct hr_case_step *step, hr_doc_node *ret_limits)
{
    const char *names[COUNT_OF(keys->fields) + 1];
    hr_doc_node values[COUNT_OF(keys->fields) + 1] = {0};
    for (uint32_t i = 0; i < keys->count; i++) {
        names[i] = hr_want_field_name(keys->fields[i]);
    }
    names[keys->count] = "limits";
    const struct hr_doc_keys allowed = {keys->what, keys->count + (ret_limits != NULL), names};
    if (!hr_doc_fields(r->doc, map, &allowed, values, r->problem) || !is_something(r, map, keys->what)) {
        return false;
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        struct hr_want want = {.field = keys->fields[i], .limit = limit};
        if (values[i] == 0) {
            continue;
        }
        want.line = hr_doc_line(r->doc, values[i]);
        if (!read_want(r, values[i], &want)) {
            return false;
        }
        step->wants[step->want_count++] = want;
    }
    if (ret_limits != NULL) {
        *ret_limits = values[keys->count];
    }
    return true;
}

/* At most as many keys come before as there are limits. */
static bool is_first_row(struct reader *r, hr_doc_node rows, hr_doc_node key)
{
    for (hr_doc_node at = hr_doc_first(r->doc, rows); at != key; at = hr_doc_next(r->doc, at)) {
        if (hr_span_equal(hr_doc_text(r->doc, at), hr_doc_text(r->doc, key))) {
            return hr_doc_fault(r->doc, key, r->problem, "this limit is given twice; it stands already in line %u",
                                hr_doc_line(r->doc, at));
        }
    }
    return true;
}

/* `limits:` of an expectation: a limit's name, and what is expected of it, or `untouched`. */
static bool read_rows(struct reader *r, hr_doc_node rows, struct hr_case_step *step)
{
    if (!hr_doc_expect(r->doc, rows, HR_DOC_MAP, "limits", r->problem) || !is_something(r, rows, "limits")) {
        return false;
    }
    for (hr_doc_node key = hr_doc_first(r->doc, rows); key != 0; key = hr_doc_next(r->doc, key)) {
        const struct hr_limit *limit = NULL;
        hr_doc_node value = hr_doc_value(r->doc, key);
        if (!read_limit_name(r, key, &limit) || !is_first_row(r, rows, key)) {
            return false;
        }
        if (hr_span_equal(hr_doc_text(r->doc, value), HR_SPAN("untouched"))) {
            step->wants[step->want_count++] =
                (struct hr_want){HR_WANT_ROW_TOUCHED, limit, false, hr_doc_line(r->doc, value)};
        } else if (!read_want_map(r, value, &row_keys, limit, step, NULL)) {
            return false;
        }
    }
    return true;
}

/* An upper bound: each expected value is one node somewhere below. */
static uint32_t want_count_max(const struct hr_doc *doc, hr_doc_node map)
{
    uint32_t count = hr_doc_count(doc, map);
    for (hr_doc_node key = hr_doc_first(doc, map); key != 0; key = hr_doc_next(doc, key)) {
        hr_doc_node value = hr_doc_value(doc, key);
        if (hr_doc_kind(doc, value) == HR_DOC_MAP) {
            count += want_count_max(doc, value);
        }
    }
    return count;
}

static bool read_expect(struct reader *r, hr_doc_node expect, struct hr_case_step *step)
{
    if (!hr_doc_expect(r->doc, expect, HR_DOC_MAP, "expect", r->problem)) {
        return false;
    }
    step->wants = allocate(r, expect, want_count_max(r->doc, expect), sizeof(step->wants[0]));
    if (step->wants == NULL) {
        return false;
    }
    if (step->release_step != HR_CASE_NO_STEP) {
        return read_want_map(r, expect, &release_keys, NULL, step, NULL);
    }
    if (step->times > 1) {
        return read_want_map(r, expect, &counts_keys, NULL, step, NULL);
    }
    hr_doc_node rows = 0;
    if (!read_want_map(r, expect, &decision_keys, NULL, step, &rows)) {
        return false;
    }
    return rows == 0 || read_rows(r, rows, step);
}

/* Requests */

static bool read_attribute(struct reader *r, hr_doc_node key, struct hr_attribute *ret_attribute)
{
    ret_attribute->name = hr_doc_text(r->doc, key);
    if (!hr_attribute_name_is_valid(ret_attribute->name)) {
        return hr_doc_fault(r->doc, key, r->problem, "an attribute's name must be 1 to %d of a-z, 0-9, _ . -",
                            HR_ATTRIBUTE_NAME_BYTES_MAX);
    }
    hr_doc_node value = hr_doc_value(r->doc, key);
    if (!hr_doc_scalar(r->doc, value, "an attribute's value", &ret_attribute->value, r->problem)) {
        return false;
    }
    return hr_attribute_value_is_valid(ret_attribute->value) ||
           hr_doc_fault(r->doc, value, r->problem, "an attribute's value must be at most %d bytes of UTF-8 without NUL",
                        HR_ATTRIBUTE_VALUE_BYTES_MAX);
}

static bool read_attributes(struct reader *r, hr_doc_node map, struct hr_case_step *step)
{
    if (!hr_doc_expect(r->doc, map, HR_DOC_MAP, "attributes", r->problem)) {
        return false;
    }
    uint32_t count = hr_doc_count(r->doc, map);
    if (count < 1 || count > HR_ATTRIBUTES_MAX) {
        return hr_doc_fault(r->doc, map, r->problem, "attributes must hold 1 to %d pairs, not %u", HR_ATTRIBUTES_MAX,
                            count);
    }
    step->attributes = allocate(r, map, count, sizeof(step->attributes[0]));
    if (step->attributes == NULL) {
        return false;
    }
    uint32_t *at = &step->request.attribute_count;
    for (hr_doc_node key = hr_doc_first(r->doc, map); key != 0; key = hr_doc_next(r->doc, key)) {
        if (!read_attribute(r, key, &step->attributes[*at])) {
            return false;
        }
        for (uint32_t i = 0; i < *at; i++) {
            if (hr_span_equal(step->attributes[i].name, step->attributes[*at].name)) {
                return hr_doc_fault(r->doc, key, r->problem, "the attribute comes twice");
            }
        }
        ++*at;
    }
    step->request.attributes = step->attributes;
    return true;
}

/* Steps */

enum { AT, LABEL, ATTRIBUTES, COST, PEEK, TIMES, RELEASE, EXPECT, STEP_KEYS };
static const char *const step_names[] = {"at", "label", "attributes", "cost", "peek", "times", "release", "expect"};
static const struct hr_doc_keys step_keys = {"a step", STEP_KEYS, step_names};

/* Where the step stands: after the one above, which is also what it defaults to. */
static bool read_at(struct reader *r, hr_doc_node at, const struct hr_case_test *test, struct hr_case_step *step)
{
    int64_t above_us = test->step_count > 0 ? test->steps[test->step_count - 1].at_us : test->start_us;
    struct hr_span text;
    int64_t offset_us = 0;
    step->at_us = above_us;
    if (at == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, at, "at", &text, r->problem)) {
        return false;
    }
    if (!hr_duration_parse(text, &offset_us) || offset_us > AT_US_MAX - test->start_us) {
        return hr_doc_fault(r->doc, at, r->problem,
                            "at must be the time since the test's start, such as 1.5s, 250ms or 2h");
    }
    step->at_us = test->start_us + offset_us;
    return step->at_us >= above_us || hr_doc_fault(r->doc, at, r->problem, "at must not be before the step above");
}

/* A label may not look like a number, which is how a step without one is named. */
static bool read_label(struct reader *r, hr_doc_node label, const struct hr_case_test *test, struct hr_case_step *step)
{
    if (label == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, label, "label", &step->label, r->problem)) {
        return false;
    }
    if (step->label.bytes == 0 || (step->label.at[0] >= '0' && step->label.at[0] <= '9')) {
        return hr_doc_fault(r->doc, label, r->problem, "label must be a word that does not begin with a digit");
    }
    for (uint32_t i = 0; i < test->step_count; i++) {
        if (hr_span_equal(test->steps[i].label, step->label)) {
            return hr_doc_fault(r->doc, label, r->problem, "another step has this label");
        }
    }
    return true;
}

/* The step above that has this label, or this number, from 1. */
static uint32_t find_step(const struct hr_case_test *test, struct hr_span name)
{
    for (uint32_t i = 0; name.bytes > 0 && i < test->step_count; i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%u", i + 1);
        if (hr_span_equal(test->steps[i].label, name) || hr_span_equal(hr_span_of(number), name)) {
            return i;
        }
    }
    return HR_CASE_NO_STEP;
}

static bool read_release(struct reader *r, const hr_doc_node *values, const struct hr_case_test *test,
                         struct hr_case_step *step)
{
    static const int others[] = {ATTRIBUTES, COST, PEEK, TIMES};
    for (uint32_t i = 0; i < COUNT_OF(others); i++) {
        if (values[others[i]] != 0) {
            return hr_doc_fault(r->doc, values[others[i]], r->problem, "a step that releases has no %s",
                                step_names[others[i]]);
        }
    }
    struct hr_span name;
    if (!hr_doc_scalar(r->doc, values[RELEASE], "release", &name, r->problem)) {
        return false;
    }
    step->release_step = find_step(test, name);
    if (step->release_step == HR_CASE_NO_STEP || test->steps[step->release_step].release_step != HR_CASE_NO_STEP) {
        return hr_doc_fault(r->doc, values[RELEASE], r->problem,
                            "release must be the label, or the number, of a request step above");
    }
    return true;
}

static bool read_check(struct reader *r, hr_doc_node map, const hr_doc_node *values, struct hr_case_step *step)
{
    uint64_t times = 1;
    if (!need(r, map, values[ATTRIBUTES], "a step", "release or attributes") ||
        !read_attributes(r, values[ATTRIBUTES], step)) {
        return false;
    }
    if (values[COST] != 0 &&
        !hr_doc_number(r->doc, values[COST], "cost", HR_COST_MAX, &step->request.cost, r->problem)) {
        return false;
    }
    if (values[PEEK] != 0 && !hr_doc_bool(r->doc, values[PEEK], "peek", &step->request.peek, r->problem)) {
        return false;
    }
    if (values[TIMES] != 0 && !hr_doc_number(r->doc, values[TIMES], "times", HR_CASE_TIMES_MAX, &times, r->problem)) {
        return false;
    }
    step->times = (uint32_t)times;
    return times > 0 || hr_doc_fault(r->doc, values[TIMES], r->problem, "times must be 1 or more");
}

static bool read_step(struct reader *r, hr_doc_node map, struct hr_case_test *test)
{
    struct hr_case_step *step = &test->steps[test->step_count];
    hr_doc_node values[STEP_KEYS];
    *step = (struct hr_case_step){
        .line = hr_doc_line(r->doc, map), .times = 1, .release_step = HR_CASE_NO_STEP, .request.cost = 1};
    if (!hr_doc_fields(r->doc, map, &step_keys, values, r->problem) || !read_at(r, values[AT], test, step) ||
        !read_label(r, values[LABEL], test, step)) {
        return false;
    }
    bool good = values[RELEASE] != 0 ? read_release(r, values, test, step) : read_check(r, map, values, step);
    return good && (values[EXPECT] == 0 || read_expect(r, values[EXPECT], step));
}

/* The steps, and at least one thing expected of them: a test that cannot fail is a mistake. */
static bool read_steps(struct reader *r, hr_doc_node list, struct hr_case_test *test)
{
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "steps", r->problem)) {
        return false;
    }
    test->steps = allocate(r, list, hr_doc_count(r->doc, list), sizeof(test->steps[0]));
    if (test->steps == NULL) {
        return false;
    }
    uint32_t wants = 0;
    for (hr_doc_node item = hr_doc_first(r->doc, list); item != 0; item = hr_doc_next(r->doc, item)) {
        bool good = read_step(r, item, test);
        wants += test->steps[test->step_count].want_count;
        test->step_count++; /* also one that is half read: what it allocated is freed with the rest */
        if (!good) {
            return false;
        }
    }
    return wants > 0 || hr_doc_fault(r->doc, list, r->problem, "none of the steps expects anything");
}

/* Tests */

enum { NAME, START, STEPS, TEST_KEYS };
static const char *const test_names[] = {"name", "start", "steps"};
static const struct hr_doc_keys test_keys = {"a test", TEST_KEYS, test_names};

static bool read_start(struct reader *r, hr_doc_node start, struct hr_case_test *test)
{
    struct hr_span text;
    test->start_us = START_DEFAULT_US;
    if (start == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, start, "start", &text, r->problem)) {
        return false;
    }
    return hr_instant_parse(text, &test->start_us) ||
           hr_doc_fault(r->doc, start, r->problem, "start must be an instant such as 2024-01-01T00:00:00Z");
}

static bool read_test(struct reader *r, hr_doc_node map, struct hr_case_test *test)
{
    hr_doc_node values[TEST_KEYS];
    if (!hr_doc_fields(r->doc, map, &test_keys, values, r->problem) || !need(r, map, values[NAME], "a test", "name") ||
        !need(r, map, values[STEPS], "a test", "list of steps")) {
        return false;
    }
    return hr_doc_scalar(r->doc, values[NAME], "name", &test->name, r->problem) && read_start(r, values[START], test) &&
           read_steps(r, values[STEPS], test);
}

static bool read_tests(struct reader *r, hr_doc_node list)
{
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "tests", r->problem)) {
        return false;
    }
    if (hr_doc_count(r->doc, list) == 0) {
        return hr_doc_fault(r->doc, list, r->problem, "there are no tests");
    }
    r->cases->tests = allocate(r, list, hr_doc_count(r->doc, list), sizeof(r->cases->tests[0]));
    if (r->cases->tests == NULL) {
        return false;
    }
    for (hr_doc_node item = hr_doc_first(r->doc, list); item != 0; item = hr_doc_next(r->doc, item)) {
        if (!read_test(r, item, &r->cases->tests[r->cases->test_count++])) {
            return false;
        }
    }
    return true;
}

/* A relative path of limits is relative to the cases file. */
static bool load_limits(struct reader *r, hr_doc_node node, const char *cases_path)
{
    struct hr_span name;
    char path[PATH_BYTES_MAX];
    if (!hr_doc_scalar(r->doc, node, "limits", &name, r->problem)) {
        return false;
    }
    const char *slash = strrchr(cases_path, '/');
    size_t folder = slash != NULL && (name.bytes == 0 || name.at[0] != '/') ? (size_t)(slash - cases_path) + 1 : 0;
    if (name.bytes == 0 || folder + name.bytes >= sizeof(path) || memchr(name.at, '\0', name.bytes) != NULL) {
        return hr_doc_fault(r->doc, node, r->problem, "limits must be the path of a limits file");
    }
    memcpy(path, cases_path, folder);
    memcpy(path + folder, name.at, name.bytes);
    path[folder + name.bytes] = '\0';
    r->cases->limits = hr_limits_file_load(path, r->problem);
    return r->cases->limits != NULL;
}

static bool read_cases(struct reader *r, const char *path)
{
    static const char *const names[] = {"limits", "tests"};
    const struct hr_doc_keys keys = {"a cases file", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    hr_doc_node root = hr_doc_root(r->doc);
    return hr_doc_fields(r->doc, root, &keys, values, r->problem) &&
           need(r, root, values[0], "a cases file", "path of limits") &&
           need(r, root, values[1], "a cases file", "list of tests") && load_limits(r, values[0], path) &&
           read_tests(r, values[1]);
}

struct hr_cases *hr_cases_load(const char *path, struct hr_problem *ret_problem)
{
    struct hr_cases *cases = calloc(1, sizeof(*cases));
    if (cases == NULL) {
        hr_problem_what(ret_problem, "no memory");
        hr_problem_where(ret_problem, "%s", path);
        return NULL;
    }
    cases->doc = hr_doc_load(path, ret_problem);
    struct reader r = {cases, cases->doc, ret_problem};
    if (cases->doc == NULL || !read_cases(&r, path)) {
        hr_cases_free(cases);
        return NULL;
    }
    return cases;
}

void hr_cases_free(struct hr_cases *cases)
{
    if (cases == NULL) {
        return;
    }
    for (uint32_t i = 0; i < cases->test_count; i++) {
        struct hr_case_test *test = &cases->tests[i];
        for (uint32_t j = 0; j < test->step_count; j++) {
            free(test->steps[j].wants);
            free(test->steps[j].attributes);
        }
        free(test->steps);
    }
    free(cases->tests);
    hr_limits_file_free(cases->limits);
    hr_doc_free(cases->doc);
    free(cases);
}
