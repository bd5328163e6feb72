#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/match.h"
#include "node/command/ask.h"
#include "node/limits_yaml.h"
#include "node/value_text.h"

#define PATTERNS_SHOWN_MAX 8

static const char help[] =
    "usage: headroom explain ATTRIBUTE... [--limits FILE] [OPTION...]\n"
    "\n"
    "Says of every limit whether it touches a request with these attributes, and why: which\n"
    "attributes of its key are there, and which of its conditions hold. The limits are those of\n"
    "FILE, or, without --limits, those of a node. Nothing is decided and nothing is consumed.\n"
    "\n"
    "  --limits FILE     the limits file; no node is asked\n" HR_ASK_HELP "\n"
    "Exit status: 0 done, 2 wrong usage or an invalid file, 3 the node did not answer.\n";

/* Explaining */

static const struct hr_span *find_attribute(const struct hr_params *request, struct hr_span name)
{
    for (uint32_t i = 0; i < request->attribute_count; i++) {
        if (hr_span_equal(request->attributes[i].name, name)) {
            return &request->attributes[i].value;
        }
    }
    return NULL;
}

static bool touches(const struct hr_limit *limit, const struct hr_params *request)
{
    for (uint32_t i = 0; i < limit->key_count; i++) {
        if (find_attribute(request, limit->key[i]) == NULL) {
            return false;
        }
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        if (!hr_condition_holds(&limit->when[i], find_attribute(request, limit->when[i].attribute))) {
            return false;
        }
    }
    return true;
}

static void print_pattern(const struct hr_pattern *pattern)
{
    (void)fputs(pattern->negated ? "not " : "", stdout);
    (void)fputs(pattern->kind == HR_MATCH_CIDR ? "in " : "", stdout);
    hr_text_print_json(stdout, pattern->text);
}

static void print_patterns(const struct hr_condition *condition)
{
    uint32_t shown = condition->pattern_count < PATTERNS_SHOWN_MAX ? condition->pattern_count : PATTERNS_SHOWN_MAX;
    (void)fputs(condition->negated ? " is not " : " is ", stdout);
    (void)fputs(condition->pattern_count > 1 ? "any of " : "", stdout);
    for (uint32_t i = 0; i < shown; i++) {
        (void)fputs(i > 0 ? ", " : "", stdout);
        print_pattern(&condition->patterns[i]);
    }
    if (shown < condition->pattern_count) {
        (void)printf(" and %u more", (unsigned)(condition->pattern_count - shown));
    }
}

static void print_value(const struct hr_span *value)
{
    if (value == NULL) {
        (void)fputs("it is missing\n", stdout);
        return;
    }
    (void)fputs("it is ", stdout);
    hr_text_print_json(stdout, *value);
    (void)fputc('\n', stdout);
}

static void print_limit(const struct hr_limit *limit, const struct hr_params *request)
{
    hr_text_print(stdout, limit->name);
    (void)puts(touches(limit, request) ? ": touched" : ": not touched");
    if (limit->key_count == 0) {
        (void)puts("  one counter for all requests");
    }
    for (uint32_t i = 0; i < limit->key_count; i++) {
        (void)fputs("  key ", stdout);
        hr_text_print(stdout, limit->key[i]);
        (void)fputs(": ", stdout);
        print_value(find_attribute(request, limit->key[i]));
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        const struct hr_span *value = find_attribute(request, limit->when[i].attribute);
        (void)fputs("  when ", stdout);
        hr_text_print(stdout, limit->when[i].attribute);
        print_patterns(&limit->when[i]);
        (void)fputs(hr_condition_holds(&limit->when[i], value) ? ": holds, " : ": fails, ", stdout);
        print_value(value);
    }
}

static void print_limit_json(const struct hr_limit *limit, const struct hr_params *request)
{
    (void)fputs("{\"name\":", stdout);
    hr_text_print_json(stdout, limit->name);
    (void)printf(",\"touched\":%s,\"key\":[", touches(limit, request) ? "true" : "false");
    for (uint32_t i = 0; i < limit->key_count; i++) {
        (void)fputs(i > 0 ? ",{\"attribute\":" : "{\"attribute\":", stdout);
        hr_text_print_json(stdout, limit->key[i]);
        (void)printf(",\"present\":%s}", find_attribute(request, limit->key[i]) != NULL ? "true" : "false");
    }
    (void)fputs("],\"when\":[", stdout);
    for (uint32_t i = 0; i < limit->when_count; i++) {
        const struct hr_span *value = find_attribute(request, limit->when[i].attribute);
        (void)fputs(i > 0 ? ",{\"attribute\":" : "{\"attribute\":", stdout);
        hr_text_print_json(stdout, limit->when[i].attribute);
        (void)printf(",\"present\":%s,\"holds\":%s}", value != NULL ? "true" : "false",
                     hr_condition_holds(&limit->when[i], value) ? "true" : "false");
    }
    (void)fputs("]}", stdout);
}

static void explain(const struct hr_limits_file *file, const struct hr_params *request)
{
    uint32_t touched = 0;
    for (uint32_t i = 0; i < file->limit_count; i++) {
        print_limit(&file->limits[i], request);
        touched += touches(&file->limits[i], request);
    }
    (void)printf("touched: %u of %u limits\n", (unsigned)touched, (unsigned)file->limit_count);
}

static void explain_json(const struct hr_limits_file *file, const struct hr_params *request)
{
    (void)fputs("{\"limits\":[", stdout);
    for (uint32_t i = 0; i < file->limit_count; i++) {
        (void)fputs(i > 0 ? "," : "", stdout);
        print_limit_json(&file->limits[i], request);
    }
    (void)puts("]}");
}

/* Where the limits come from */

/* A node's array of limits as a limits file, of which JSON is a form. */
static struct hr_limits_file *parse_limits(const struct hr_client *client, struct hr_span limits)
{
    struct hr_problem problem;
    struct hr_limits_file *file = NULL;
    char *text = NULL, path[sizeof(client->where) + 16];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    (void)snprintf(path, sizeof(path), "limits of %s", client->where);
    if (out == NULL) {
        return NULL;
    }
    (void)fputs("{\"limits\":", out);
    enum hr_err err = hr_value_print_json(out, limits);
    (void)fputs("}", out);
    if (fclose(out) == 0 && err == HR_OK) {
        file = hr_limits_file_parse((struct hr_span){text, bytes}, path, &problem);
    }
    free(text);
    return file;
}

static int ask_for_limits(const struct hr_ask *ask, struct hr_limits_file **ret_file)
{
    struct hr_client client;
    struct hr_span limits;
    int status = hr_ask_once(ask, &client, HR_METHOD_LIMITS_LIST, NULL, &limits);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    *ret_file = parse_limits(&client, limits);
    if (*ret_file == NULL) {
        status = hr_ask_garbage(&client);
    }
    hr_client_close(&client);
    return status;
}

static int load_limits(const struct hr_ask *ask, const char *path, struct hr_limits_file **ret_file)
{
    struct hr_problem problem;
    if (path == NULL) {
        return ask_for_limits(ask, ret_file);
    }
    *ret_file = hr_limits_file_load(path, &problem);
    return *ret_file != NULL ? HR_EXIT_DONE : hr_cmd_fail(&problem);
}

int hr_cmd_explain(int argc, char **argv)
{
    enum { LIMITS = HR_ASK_OWN };
    static const struct option options[] = {{"limits", required_argument, NULL, LIMITS}, HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_params request = {.cost = 1};
    struct hr_limits_file *file = NULL;
    const char *path = NULL;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_ask_option(&ask, argc, argv, options, help, &status)) != HR_OPTION_END) {
        if (option != LIMITS) {
            return status;
        }
        path = optarg;
    }
    status = hr_ask_attributes(&ask, argc, argv, &request);
    if (status == HR_EXIT_DONE) {
        status = load_limits(&ask, path, &file);
    }
    if (status != HR_EXIT_DONE) {
        return status;
    }
    if (ask.json) {
        explain_json(file, &request);
    } else {
        explain(file, &request);
    }
    hr_limits_file_free(file);
    return HR_EXIT_DONE;
}
