#include <stdio.h>

#include "base/units.h"
#include "node/command/ask.h"
#include "node/decision_text.h"

#define HELP_ATTRIBUTES "An attribute is NAME=VALUE: what the limits look at, as api_key=k1 or route=payments.write.\n"

static const char check_help[] =
    "usage: headroom check ATTRIBUTE... [OPTION...]\n"
    "\n"
    "Asks a node to decide one request, which consumes what it costs if it is allowed.\n" HELP_ATTRIBUTES "\n"
    "  --cost N          what the request costs (default 1)\n"
    "  --id ID           the same ID within 60 s gets the same answer and consumes nothing\n" HR_ASK_HELP "\n"
    "Exit status: 0 allowed, 1 denied, 2 wrong usage, 3 the node did not answer.\n";

static const char peek_help[] =
    "usage: headroom peek ATTRIBUTE... [OPTION...]\n"
    "\n"
    "Asks a node whether it would allow a request, and consumes nothing.\n" HELP_ATTRIBUTES "\n"
    "  --cost N          what the request would cost (default 1)\n" HR_ASK_HELP "\n"
    "Exit status: 0 it would be allowed, 1 denied, 2 wrong usage, 3 the node did not answer.\n";

static const char refund_help[] =
    "usage: headroom refund ATTRIBUTE... --cost N [OPTION...]\n"
    "\n"
    "Gives back what an allowed request with these attributes took, never above untouched.\n"
    "Slots of a concurrency limit are not given back by this, but by headroom release.\n" HELP_ATTRIBUTES "\n"
    "  --cost N          how much to give back\n"
    "  --id ID           the same ID within 60 s gives back once\n" HR_ASK_HELP "\n"
    "Exit status: 0 given back, 1 there was nothing to give back, 2 wrong usage, 3 the node did not answer.\n";

static int take_cost(const struct hr_ask *ask, struct hr_params *params)
{
    static const struct hr_ask_range range = {"--cost", 0, HR_COST_MAX};
    params->present |= HR_PARAM_BIT(HR_PARAM_COST);
    return hr_ask_number(ask, optarg, &range, &params->cost);
}

static int take_id(const struct hr_ask *ask, struct hr_params *params)
{
    params->present |= HR_PARAM_BIT(HR_PARAM_ID);
    params->id = hr_span_of(optarg);
    if (params->id.bytes < 1 || params->id.bytes > HR_ID_BYTES_MAX) {
        return hr_cmd_usage(ask->command, "--id must have 1 to %d bytes", HR_ID_BYTES_MAX);
    }
    return HR_EXIT_DONE;
}

enum { COST = HR_ASK_OWN, ID };

struct command {
    const struct option *options;
    const char *help;
};

static const struct option with_id[] = {
    {"cost", required_argument, NULL, COST}, {"id", required_argument, NULL, ID}, HR_ASK_OPTIONS};
static const struct option without_id[] = {{"cost", required_argument, NULL, COST}, HR_ASK_OPTIONS};

static const struct command check_command = {with_id, check_help};
static const struct command peek_command = {without_id, peek_help};
static const struct command refund_command = {with_id, refund_help};

/* The exit status in *ret_exit counts only where this is false: the command ends here. */
static bool parse(const struct command *command, int argc, char **argv, struct hr_ask *ask, struct hr_params *params,
                  int *ret_exit)
{
    int option = 0;
    while ((option = hr_ask_option(ask, argc, argv, command->options, command->help, ret_exit)) != HR_OPTION_END) {
        if (option == HR_OPTION_EXIT) {
            return false;
        }
        *ret_exit = option == COST ? take_cost(ask, params) : take_id(ask, params);
        if (*ret_exit != HR_EXIT_DONE) {
            return false;
        }
    }
    *ret_exit = hr_ask_attributes(ask, argc, argv, params);
    return *ret_exit == HR_EXIT_DONE;
}

static int print_decision(const struct hr_ask *ask, struct hr_client *client, bool peek, struct hr_span result)
{
    static struct hr_told_decision decision; /* 16 KiB */
    struct hr_unpacker in = {result};
    if (hr_unpack_decision(&in, &decision) != HR_OK) {
        return hr_ask_garbage(client);
    }
    if (ask->json) {
        hr_decision_print_json(stdout, &decision);
    } else {
        const struct hr_decision_look look = {.peek = peek, .colour = hr_colour_is_wanted(stdout)};
        hr_decision_print(stdout, &decision, &look);
    }
    return decision.allowed ? HR_EXIT_DONE : HR_EXIT_FAILED;
}

static int decide(const struct hr_ask *ask, const struct hr_params *params)
{
    struct hr_client client;
    struct hr_span result;
    int status = hr_ask_once(ask, &client, HR_METHOD_CHECK, params, &result);
    if (status == HR_EXIT_DONE) {
        status = print_decision(ask, &client, params->peek, result);
        hr_client_close(&client);
    }
    return status;
}

int hr_cmd_check(int argc, char **argv)
{
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_params params = {.cost = 1};
    int status = HR_EXIT_DONE;
    return parse(&check_command, argc, argv, &ask, &params, &status) ? decide(&ask, &params) : status;
}

int hr_cmd_peek(int argc, char **argv)
{
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_params params = {.cost = 1, .peek = true, .present = HR_PARAM_BIT(HR_PARAM_PEEK)};
    int status = HR_EXIT_DONE;
    return parse(&peek_command, argc, argv, &ask, &params, &status) ? decide(&ask, &params) : status;
}

int hr_cmd_refund(int argc, char **argv)
{
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_params params = {.cost = 0};
    int status = HR_EXIT_DONE;
    if (!parse(&refund_command, argc, argv, &ask, &params, &status)) {
        return status;
    }
    if ((params.present & HR_PARAM_BIT(HR_PARAM_COST)) == 0) {
        return hr_cmd_usage(ask.command, "--cost N is missing");
    }
    const struct hr_ask_flag flag = {HR_METHOD_REFUND, "refunded", "refunded", "there was nothing to give back"};
    return hr_ask_flag(&ask, &params, &flag);
}
