#include "node/command/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "node/time_text.h"
#include "node/value_text.h"
#include "rpc/told.h"

static int take_timeout(struct hr_ask *ask)
{
    int64_t us = 0;
    if (!hr_duration_parse(hr_span_of(optarg), &us) || us < 1000 || us / 1000 > HR_ASK_TIMEOUT_MS_MAX) {
        return hr_cmd_usage(ask->command, "--timeout must be a time from 1ms to 1h, as 250ms or 5s");
    }
    ask->timeout_ms = (uint32_t)(us / 1000);
    return HR_EXIT_DONE;
}

int hr_ask_option(struct hr_ask *ask, int argc, char **argv, const struct option *options, const char *help,
                  int *ret_exit)
{
    for (;;) {
        int option = hr_cmd_option(argc, argv, options, help, ret_exit);
        switch (option) {
        case HR_ASK_NODE:
            ask->node = optarg;
            break;
        case HR_ASK_TIMEOUT:
            *ret_exit = take_timeout(ask);
            if (*ret_exit != HR_EXIT_DONE) {
                return HR_OPTION_EXIT;
            }
            break;
        case HR_ASK_JSON:
            ask->json = true;
            break;
        default:
            return option;
        }
    }
}

int hr_ask_address(const struct hr_ask *ask, struct hr_address *ret_node)
{
    const char *from_environment = getenv("HEADROOM_NODE");
    const char *source = ask->node != NULL ? "--node" : "HEADROOM_NODE";
    const char *text = ask->node != NULL ? ask->node : from_environment;
    if (text == NULL || (ask->node == NULL && text[0] == '\0')) {
        text = HR_ASK_NODE_DEFAULT;
    }
    if (hr_address_parse(hr_span_of(text), ret_node) != HR_OK || ret_node->port == 0) {
        return hr_cmd_usage(ask->command, "%s must be HOST:PORT, as 127.0.0.1:7400 or [::1]:7400, not \"%s\"", source,
                            text);
    }
    return HR_EXIT_DONE;
}

int hr_ask_open(const struct hr_ask *ask, struct hr_client *client)
{
    struct hr_address node;
    int status = hr_ask_address(ask, &node);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    return hr_client_open(client, &node, ask->timeout_ms) ? HR_EXIT_DONE : hr_ask_fail(client, HR_CLIENT_UNREACHABLE);
}

/* Would the same request fail at any other node too? */
static bool is_askers_fault(enum hr_code code)
{
    switch (code) {
    case HR_CODE_INVALID_ARGUMENT:
    case HR_CODE_NOT_FOUND:
    case HR_CODE_UNAUTHENTICATED:
    case HR_CODE_PERMISSION_DENIED:
    case HR_CODE_UNIMPLEMENTED:
        return true;
    case HR_CODE_UNAVAILABLE:
    case HR_CODE_RESOURCE_EXHAUSTED:
    case HR_CODE_DEADLINE_EXCEEDED:
    case HR_CODE_INTERNAL:
        break;
    }
    return false;
}

int hr_ask_fail(const struct hr_client *client, enum hr_client_end end)
{
    if (end == HR_CLIENT_UNREACHABLE) {
        (void)hr_cmd_fail(&client->problem);
        return HR_EXIT_UNREACHABLE;
    }
    struct hr_problem problem;
    struct hr_span code = hr_code_name(client->fault.code), words = hr_fault_text(&client->fault);
    hr_problem_what(&problem, "%.*s: %.*s", (int)code.bytes, code.at, (int)words.bytes, words.at);
    hr_problem_where(&problem, "%s", client->where);
    (void)hr_cmd_fail(&problem);
    return is_askers_fault(client->fault.code) ? HR_EXIT_INVALID : HR_EXIT_UNREACHABLE;
}

int hr_ask_garbage(const struct hr_client *client)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "the node's answer cannot be understood");
    hr_problem_where(&problem, "%s", client->where);
    (void)hr_cmd_fail(&problem);
    return HR_EXIT_UNREACHABLE;
}

int hr_ask_call(struct hr_client *client, enum hr_method method, const struct hr_params *params,
                struct hr_span *ret_result)
{
    static const struct hr_params none;
    enum hr_client_end end = hr_client_call(client, method, params != NULL ? params : &none, ret_result);
    return end == HR_CLIENT_ANSWERED ? HR_EXIT_DONE : hr_ask_fail(client, end);
}

int hr_ask_once(const struct hr_ask *ask, struct hr_client *client, enum hr_method method,
                const struct hr_params *params, struct hr_span *ret_result)
{
    int status = hr_ask_open(ask, client);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    status = hr_ask_call(client, method, params, ret_result);
    if (status != HR_EXIT_DONE) {
        hr_client_close(client);
    }
    return status;
}

static int print_flag(const struct hr_ask *ask, struct hr_client *client, const struct hr_ask_flag *flag,
                      struct hr_span result)
{
    bool is_set = false;
    if (hr_unpack_flag(result, hr_span_of(flag->key), &is_set) != HR_OK) {
        return hr_ask_garbage(client);
    }
    if (!ask->json) {
        (void)puts(is_set ? flag->yes : flag->no);
    } else if (hr_value_print_json(stdout, result) == HR_OK) {
        (void)fputc('\n', stdout);
    }
    return is_set ? HR_EXIT_DONE : HR_EXIT_FAILED;
}

int hr_ask_flag(const struct hr_ask *ask, const struct hr_params *params, const struct hr_ask_flag *flag)
{
    struct hr_client client;
    struct hr_span result;
    int status = hr_ask_once(ask, &client, flag->method, params, &result);
    if (status == HR_EXIT_DONE) {
        status = print_flag(ask, &client, flag, result);
        hr_client_close(&client);
    }
    return status;
}

static bool has_attribute(const struct hr_params *params, struct hr_span name)
{
    for (uint32_t i = 0; i < params->attribute_count; i++) {
        if (hr_span_equal(params->attributes[i].name, name)) {
            return true;
        }
    }
    return false;
}

static int add_attribute(const struct hr_ask *ask, const char *argument, struct hr_params *params)
{
    const char *equals = strchr(argument, '=');
    if (equals == NULL) {
        return hr_cmd_usage(ask->command, "an attribute must be NAME=VALUE, not \"%s\"", argument);
    }
    const struct hr_attribute attribute = {{argument, (size_t)(equals - argument)}, hr_span_of(equals + 1)};
    if (!hr_attribute_name_is_valid(attribute.name)) {
        return hr_cmd_usage(ask->command, "an attribute's name must be 1 to 64 of a-z, 0-9, _ . -, not \"%.*s\"",
                            (int)(equals - argument), argument);
    }
    if (!hr_attribute_value_is_valid(attribute.value)) {
        return hr_cmd_usage(ask->command, "a value must be at most %d bytes of UTF-8: that of %.*s is not",
                            HR_ATTRIBUTE_VALUE_BYTES_MAX, (int)(equals - argument), argument);
    }
    if (has_attribute(params, attribute.name)) {
        return hr_cmd_usage(ask->command, "the attribute %.*s is there twice", (int)(equals - argument), argument);
    }
    params->attributes[params->attribute_count++] = attribute;
    return HR_EXIT_DONE;
}

int hr_ask_attributes(const struct hr_ask *ask, int argc, char **argv, struct hr_params *params)
{
    if (optind == argc) {
        return hr_cmd_usage(ask->command, "no attribute was given: NAME=VALUE");
    }
    if (argc - optind > HR_ATTRIBUTES_MAX) {
        return hr_cmd_usage(ask->command, "at most %d attributes", HR_ATTRIBUTES_MAX);
    }
    int status = HR_EXIT_DONE;
    for (int i = optind; i < argc && status == HR_EXIT_DONE; i++) {
        status = add_attribute(ask, argv[i], params);
    }
    params->present |= HR_PARAM_BIT(HR_PARAM_ATTRIBUTES);
    return status;
}

int hr_ask_number(const struct hr_ask *ask, const char *text, const struct hr_ask_range *range, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool is_number = text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
    if (!is_number || number < range->min || number > range->max) {
        return hr_cmd_usage(ask->command, "%s must be a whole number from %" PRIu64 " to %" PRIu64, range->option,
                            range->min, range->max);
    }
    *ret_number = number;
    return HR_EXIT_DONE;
}
