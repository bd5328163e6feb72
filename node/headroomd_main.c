#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "node/amount_text.h"
#include "node/command/cmd.h"
#include "node/daemon_uv.h"

static const char help[] =
    "usage: headroomd --config FILE\n"
    "       headroomd --dev [OPTION...]\n\n"
    "Runs a node: it decides requests over MessagePack-RPC and serves /livez, /readyz and /metrics.\n\n"
    "  --config FILE     the node file (docs/OPERATIONS.md)\n"
    "  --dev             one node on loopback, without a file; its data in a fresh temporary folder\n"
    "  --data DIR        with --dev: keep the data there\n"
    "  --limits FILE     with --dev: the limits file\n"
    "  --rpc HOST:PORT   with --dev: where to listen (default 127.0.0.1:7400)\n"
    "  --http HOST:PORT  with --dev: where to serve http (default 127.0.0.1, any free port)\n"
    "  --workers N       with --dev: threads that decide requests, or auto (default 1)\n"
    "  --help            print this\n"
    "  --version         print the version\n\n"
    "SIGHUP reads the limits file anew. SIGTERM and SIGINT stop the node cleanly; a second one at once.\n";

struct arguments {
    const char *config, *data, *limits, *rpc, *http, *workers;
    bool is_dev;
};

/* An option with an empty value is a script whose variable was not set: it does not mean the default. */
static bool take(const char **place, const char *option, const char *value, int *ret_exit)
{
    if (value[0] == '\0') {
        *ret_exit = hr_cmd_usage("", "the value of %s is empty", option);
        return false;
    }
    *place = value;
    return true;
}

enum option_code { CONFIG = HR_OPTION_OWN, DEV, DATA, LIMITS, RPC, HTTP, WORKERS };

static bool take_option(int option, struct arguments *arguments, int *ret_exit)
{
    switch (option) {
    case CONFIG:
        return take(&arguments->config, "--config", optarg, ret_exit);
    case DEV:
        return arguments->is_dev = true;
    case DATA:
        return take(&arguments->data, "--data", optarg, ret_exit);
    case LIMITS:
        return take(&arguments->limits, "--limits", optarg, ret_exit);
    case RPC:
        return take(&arguments->rpc, "--rpc", optarg, ret_exit);
    case HTTP:
        return take(&arguments->http, "--http", optarg, ret_exit);
    case WORKERS:
        return take(&arguments->workers, "--workers", optarg, ret_exit);
    default:
        return false; /* HR_OPTION_EXIT, which has set *ret_exit */
    }
}

/* False: *ret_exit is to be returned. */
static bool read_arguments(int argc, char **argv, struct arguments *ret_arguments, int *ret_exit)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, CONFIG},   {"dev", no_argument, NULL, DEV},
        {"data", required_argument, NULL, DATA},       {"limits", required_argument, NULL, LIMITS},
        {"rpc", required_argument, NULL, RPC},         {"http", required_argument, NULL, HTTP},
        {"workers", required_argument, NULL, WORKERS}, HR_OPTIONS_COMMON};
    int option;
    while ((option = hr_cmd_option(argc, argv, options, help, ret_exit)) != HR_OPTION_END) {
        if (!take_option(option, ret_arguments, ret_exit)) {
            return false;
        }
    }
    return true;
}

static bool set_path(char *place, size_t bytes, const char *value, struct hr_problem *problem)
{
    if (value != NULL && strlen(value) >= bytes) {
        hr_problem_what(problem, "a path is too long");
        hr_problem_where(problem, "command line");
        return false;
    }
    if (value != NULL) {
        memcpy(place, value, strlen(value) + 1);
    }
    return true;
}

static bool set_address(struct hr_address *place, const char *value, const char *option, struct hr_problem *problem)
{
    if (value == NULL || hr_address_parse(hr_span_of(value), place) == HR_OK) {
        return true;
    }
    hr_problem_what(problem, "expected HOST:PORT, not \"%s\"", value);
    hr_problem_where(problem, "%s", option);
    return false;
}

static bool set_workers(const char *value, struct hr_node_config *config, struct hr_problem *problem)
{
    uint64_t workers = 0;
    if (value == NULL) {
        return true;
    }
    bool is_auto = strcmp(value, "auto") == 0;
    bool is_valid = is_auto || hr_amount_parse(hr_span_of(value), &workers) == HR_OK;
    if (!is_valid || (!is_auto && (workers == 0 || workers > HR_WORKERS_MAX))) {
        hr_problem_what(problem, "expected auto or 1 to %d, not \"%s\"", HR_WORKERS_MAX, value);
        hr_problem_where(problem, "--workers");
        return false;
    }
    config->workers = (uint32_t)workers;
    return true;
}

static bool configure(const struct arguments *arguments, struct hr_node_config *config, struct hr_problem *problem)
{
    if (!arguments->is_dev) {
        return hr_node_config_load(arguments->config, config, problem);
    }
    hr_node_config_dev(config);
    return set_path(config->data, sizeof(config->data), arguments->data, problem) &&
           set_path(config->limits, sizeof(config->limits), arguments->limits, problem) &&
           set_address(&config->listen.rpc, arguments->rpc, "--rpc", problem) &&
           set_address(&config->advertise.rpc, arguments->rpc, "--rpc", problem) &&
           set_address(&config->listen.http, arguments->http, "--http", problem) &&
           set_workers(arguments->workers, config, problem);
}

int main(int argc, char **argv)
{
    static struct hr_node_config config;
    static char no_command[] = "";
    struct arguments arguments = {0};
    struct hr_problem problem = {"", ""};
    int status = HR_EXIT_DONE;
    hr_cmd_begin("headroomd");
    (void)signal(SIGHUP, SIG_IGN); /* until there are limits to read again */
    if (argc > 0) {
        argv[0] = no_command; /* as which its help and its options are asked for */
    }
    if (!read_arguments(argc, argv, &arguments, &status)) {
        return status;
    }
    if (optind < argc) {
        return hr_cmd_usage("", "an argument that is no option: %s", argv[optind]);
    }
    if (arguments.is_dev == (arguments.config != NULL)) {
        return hr_cmd_usage("", "either --config FILE or --dev");
    }
    bool has_dev_option = arguments.data || arguments.limits || arguments.rpc || arguments.http || arguments.workers;
    if (!arguments.is_dev && has_dev_option) {
        return hr_cmd_usage(
            "", "--data, --limits, --rpc, --http and --workers go with --dev; the node file says them else");
    }
    if (!configure(&arguments, &config, &problem)) {
        return hr_cmd_fail(&problem);
    }
    const struct hr_daemon_options options = {.config = &config, .is_dev = arguments.is_dev};
    return hr_daemon_run(&options, &problem) ? HR_EXIT_DONE : hr_cmd_fail(&problem);
}
