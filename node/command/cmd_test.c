#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/answer.h"
#include "node/command/cases_yaml.h"
#include "node/command/cmd.h"
#include "node/command/replay.h"

static const char help[] =
    "usage: headroom test [OPTION...] CASES.yaml...\n"
    "\n"
    "Runs if-then tables (requests at times, expected answers) against the limits file that each\n"
    "names, under a virtual clock, and prints what differs.\n"
    "\n"
    "  --json     print the differences and the counts as JSON\n"
    "  --help     print this\n"
    "  --version  print the version\n"
    "\n"
    "  limits: limits.yaml\n"
    "  tests:\n"
    "    - name: a burst passes, then two a second\n"
    "      steps:\n"
    "        - {attributes: {api_key: k1}, times: 8, expect: {allowed: 5, denied: 3}}\n"
    "        - {at: 1.1s, attributes: {api_key: k1}, expect: {allowed: true, limits: {key-rps: {remaining: 1}}}}\n"
    "\n"
    "Exit status: 0 all tests passed, 1 something differs, 2 wrong usage or invalid input.\n";

/* Room for the counters of one test, which a person wrote. */
#define COUNTERS_MAX (1024 * 1024)

/* A value as text: a limit's name is the longest, with its quotes. */
#define VALUE_TEXT_BYTES (HR_LIMIT_NAME_BYTES_MAX + 3)

struct run {
    bool json;
    uint32_t tests, failed, differences;
    /* where it is */
    const char *path;
    const struct hr_cases *cases;
    const struct hr_case_test *test;
    uint32_t step; /* counted from 0 */
    struct hr_replay *replay;
    uint64_t serial; /* of the request before */
    struct hr_problem problem;
};

/* Values as text */

static void value_text(const struct run *run, enum hr_want_field field, int64_t value, char ret_text[VALUE_TEXT_BYTES])
{
    const char *quote = run->json ? "\"" : "";
    enum hr_want_kind kind = hr_want_field_kind(field);
    if (kind == HR_WANT_BOOL) {
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "%s", value != 0 ? "true" : "false");
    } else if (kind == HR_WANT_ACTION) {
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "%s%s%s", quote, hr_action_name((enum hr_action)value), quote);
    } else if (kind == HR_WANT_LIMIT && value == HR_WANT_NO_LIMIT) {
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "null");
    } else if (kind == HR_WANT_LIMIT) {
        struct hr_span name = run->cases->limits->limits[value].name;
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "%s%.*s%s", quote, (int)name.bytes, name.at, quote);
    } else if (kind == HR_WANT_WAIT && value == HR_NEVER_MS && !run->json) {
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "never");
    } else {
        (void)snprintf(ret_text, VALUE_TEXT_BYTES, "%" PRId64, value);
    }
}

static void print_json_text(struct hr_span text)
{
    (void)putchar('"');
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte < 0x20) {
            (void)printf("\\u%04x", byte);
            continue;
        }
        if (byte == '"' || byte == '\\') {
            (void)putchar('\\');
        }
        (void)putchar(byte);
    }
    (void)putchar('"');
}

/* A name may hold anything, also what moves a terminal's cursor. */
static void print_clean(struct hr_span text)
{
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        (void)putchar(byte < 0x20 || byte == 0x7f ? '?' : byte);
    }
}

/* Differences */

static void print_difference(const struct run *run, const struct hr_want *want, const char *wanted, const char *got)
{
    print_clean(hr_span_of(run->path));
    (void)printf(":%" PRIu32 ": ", want->line);
    print_clean(run->test->name);
    (void)printf(", step %" PRIu32 ": ", run->step + 1);
    if (want->limit != NULL) {
        (void)printf("limits.%.*s.", (int)want->limit->name.bytes, want->limit->name.at);
    }
    (void)printf("%s: wanted %s, got %s\n", hr_want_field_name(want->field), wanted, got);
}

static void print_difference_json(const struct run *run, const struct hr_want *want, const char *wanted,
                                  const char *got)
{
    (void)fputs(run->differences > 0 ? ",{\"file\":" : "{\"file\":", stdout);
    print_json_text(hr_span_of(run->path));
    (void)printf(",\"line\":%" PRIu32 ",\"test\":", want->line);
    print_json_text(run->test->name);
    (void)printf(",\"step\":%" PRIu32 ",\"limit\":", run->step + 1);
    if (want->limit != NULL) {
        print_json_text(want->limit->name);
    } else {
        (void)fputs("null", stdout);
    }
    (void)printf(",\"field\":\"%s\",\"wanted\":%s,\"got\":%s}", hr_want_field_name(want->field), wanted, got);
}

static void differ(struct run *run, const struct hr_want *want, const char *got)
{
    char wanted[VALUE_TEXT_BYTES];
    value_text(run, want->field, want->value, wanted);
    if (run->json) {
        print_difference_json(run, want, wanted, got);
    } else {
        print_difference(run, want, wanted, got);
    }
    run->differences++;
}

static void compare(struct run *run, const struct hr_want *want, int64_t got)
{
    char text[VALUE_TEXT_BYTES];
    if (got != want->value) {
        value_text(run, want->field, got, text);
        differ(run, want, text);
    }
}

/* What came of a step, as values that can be compared. */

struct outcome {
    const struct hr_decision *decision; /* of the last request; an empty one after a release */
    uint64_t allowed, denied;
    bool released;
};

static const struct hr_row *find_row(const struct hr_decision *decision, const struct hr_limit *limit)
{
    for (uint32_t i = 0; i < decision->row_count; i++) {
        if (decision->rows[i].limit == limit) {
            return &decision->rows[i];
        }
    }
    return NULL;
}

static int64_t row_value(const struct hr_row *row, enum hr_want_field field)
{
    switch ((unsigned)field) {
    case HR_WANT_ROW_ALLOWED:
        return row->allowed;
    case HR_WANT_ROW_LIMIT:
        return (int64_t)row->limit->rule.capacity;
    case HR_WANT_ROW_REMAINING:
        return (int64_t)row->remaining;
    case HR_WANT_ROW_RETRY:
        return row->retry_after_ms;
    default:
        return row->reset_after_ms;
    }
}

static int64_t outcome_value(const struct run *run, const struct outcome *outcome, enum hr_want_field field)
{
    const struct hr_decision *decision = outcome->decision;
    switch ((unsigned)field) {
    case HR_WANT_ALLOWED:
        return decision->allowed;
    case HR_WANT_DOES:
        return (int64_t)decision->action;
    case HR_WANT_DECIDED_BY:
        return decision->decided_by != NULL ? decision->decided_by - run->cases->limits->limits : HR_WANT_NO_LIMIT;
    case HR_WANT_RETRY:
        return decision->retry_after_ms;
    case HR_WANT_DELAY:
        return decision->delay_ms;
    case HR_WANT_ALLOWED_COUNT:
        return (int64_t)outcome->allowed;
    case HR_WANT_DENIED_COUNT:
        return (int64_t)outcome->denied;
    default:
        return outcome->released;
    }
}

static void compare_row(struct run *run, const struct hr_want *want, const struct hr_decision *decision)
{
    const struct hr_row *row = find_row(decision, want->limit);
    if (want->field == HR_WANT_ROW_TOUCHED) {
        compare(run, want, row != NULL);
    } else if (row == NULL) {
        differ(run, want, run->json ? "null" : "nothing: the request did not touch it");
    } else {
        compare(run, want, row_value(row, want->field));
    }
}

static void compare_all(struct run *run, const struct hr_case_step *step, const struct outcome *outcome)
{
    for (uint32_t i = 0; i < step->want_count; i++) {
        const struct hr_want *want = &step->wants[i];
        if (want->limit != NULL) {
            compare_row(run, want, outcome->decision);
        } else {
            compare(run, want, outcome_value(run, outcome, want->field));
        }
    }
}

/* Running */

/* Requests are numbered in the order of the steps, so a step's first number follows from the steps above it. */
static uint64_t first_serial(const struct hr_case_test *test, uint32_t step)
{
    uint64_t serial = 1;
    for (uint32_t i = 0; i < step; i++) {
        serial += test->steps[i].release_step == HR_CASE_NO_STEP ? test->steps[i].times : 0;
    }
    return serial;
}

static void run_release(struct run *run, const struct hr_case_step *step, struct outcome *outcome)
{
    uint64_t first = first_serial(run->test, step->release_step);
    for (uint32_t i = 0; i < run->test->steps[step->release_step].times; i++) {
        outcome->released |= hr_replay_release(run->replay, first + i, step->at_us);
    }
}

static bool run_checks(struct run *run, const struct hr_case_step *step, struct outcome *outcome)
{
    struct hr_request request = step->request;
    for (uint32_t i = 0; i < step->times; i++) {
        request.serial = ++run->serial;
        if (hr_replay_check(run->replay, &request, step->at_us, &outcome->decision, &run->problem) != HR_OK) {
            hr_problem_where(&run->problem, "%s:%" PRIu32, run->path, step->line);
            return false;
        }
        outcome->allowed += outcome->decision->allowed;
        outcome->denied += !outcome->decision->allowed;
    }
    return true;
}

static bool run_steps(struct run *run)
{
    static const struct hr_decision nothing;
    for (run->step = 0; run->step < run->test->step_count; run->step++) {
        const struct hr_case_step *step = &run->test->steps[run->step];
        struct outcome outcome = {.decision = &nothing};
        if (step->release_step != HR_CASE_NO_STEP) {
            run_release(run, step, &outcome);
        } else if (!run_checks(run, step, &outcome)) {
            return false;
        }
        compare_all(run, step, &outcome);
    }
    return true;
}

/* Each test starts with counters that nobody has touched. */
static bool run_test(struct run *run)
{
    uint32_t differences = run->differences;
    run->serial = 0;
    run->replay = hr_replay_open(run->cases->limits, COUNTERS_MAX, &run->problem);
    if (run->replay == NULL) {
        hr_problem_where(&run->problem, "%s", run->path);
        return false;
    }
    bool good = run_steps(run);
    hr_replay_close(run->replay);
    run->tests++;
    run->failed += !good || run->differences > differences;
    return good;
}

static bool run_files(struct run *run, struct hr_cases *const *files, char *const *paths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        run->path = paths[i];
        run->cases = files[i];
        for (uint32_t j = 0; j < files[i]->test_count; j++) {
            run->test = &files[i]->tests[j];
            if (!run_test(run)) {
                return false;
            }
        }
    }
    return true;
}

static bool load_files(struct run *run, struct hr_cases **files, char *const *paths, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        files[i] = hr_cases_load(paths[i], &run->problem);
        if (files[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Behind the differences. error: what stopped the run, or NULL. */
static void print_counts(const struct run *run, const struct hr_problem *error)
{
    uint32_t passed = run->tests - run->failed;
    if (!run->json) {
        (void)printf("%" PRIu32 " tests, %" PRIu32 " passed, %" PRIu32 " failed\n", run->tests, passed, run->failed);
        return;
    }
    (void)printf("],\"tests\":%" PRIu32 ",\"passed\":%" PRIu32 ",\"failed\":%" PRIu32, run->tests, passed, run->failed);
    if (error != NULL) {
        (void)fputs(",\"error\":", stdout);
        print_json_text(hr_span_of(error->what));
        (void)fputs(",\"where\":", stdout);
        print_json_text(hr_span_of(error->where));
    }
    (void)puts("}");
}

static int run_and_report(struct run *run, struct hr_cases *const *files, char *const *paths, uint32_t count)
{
    if (run->json) {
        (void)fputs("{\"differences\":[", stdout);
    }
    if (!run_files(run, files, paths, count)) {
        print_counts(run, &run->problem);
        return hr_cmd_fail(&run->problem);
    }
    print_counts(run, NULL);
    return run->failed > 0 ? HR_EXIT_FAILED : HR_EXIT_DONE;
}

/* All files are read before the first test runs: a mistake in the last one is told at once. */
static int test_files(struct run *run, char *const *paths, uint32_t count)
{
    struct hr_cases **files = calloc(count, sizeof(struct hr_cases *));
    if (files == NULL) {
        hr_problem_what(&run->problem, "no memory");
        return hr_cmd_fail(&run->problem);
    }
    int status =
        load_files(run, files, paths, count) ? run_and_report(run, files, paths, count) : hr_cmd_fail(&run->problem);
    for (uint32_t i = 0; i < count; i++) {
        hr_cases_free(files[i]);
    }
    free(files);
    return status;
}

int hr_cmd_test(int argc, char **argv)
{
    enum { JSON = HR_OPTION_OWN };
    static const struct option table[] = {{"json", no_argument, NULL, JSON}, HR_OPTIONS_COMMON};
    struct run run = {0};
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        if (option != JSON) {
            return status;
        }
        run.json = true;
    }
    if (optind == argc) {
        return hr_cmd_usage(argv[0], "no cases file was given");
    }
    return test_files(&run, argv + optind, (uint32_t)(argc - optind));
}
