#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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
    "  --help            print this\n"
    "  --version         print the version\n\n"
    "SIGHUP reads the limits file anew. SIGTERM and SIGINT stop the node cleanly; a second one at once.\n";

struct arguments {
    const char *config, *data, *limits, *rpc, *http;
    bool is_dev;
};

static int fail(const struct hr_problem *problem)
{
    (void)fprintf(stderr, "headroomd: %s (%s)\n", problem->what, problem->where);
    return HR_EXIT_INVALID;
}

static int usage(const char *what)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "%s", what);
    hr_problem_where(&problem, "see headroomd --help");
    return fail(&problem);
}

/* False: *ret_exit is to be returned. */
static bool read_arguments(int argc, char **argv, struct arguments *ret_arguments, int *ret_exit)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"dev", no_argument, NULL, 'd'},
        {"data", required_argument, NULL, 'D'},
        {"limits", required_argument, NULL, 'l'},
        {"rpc", required_argument, NULL, 'r'},
        {"http", required_argument, NULL, 'H'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            ret_arguments->config = optarg;
            break;
        case 'd':
            ret_arguments->is_dev = true;
            break;
        case 'D':
            ret_arguments->data = optarg;
            break;
        case 'l':
            ret_arguments->limits = optarg;
            break;
        case 'r':
            ret_arguments->rpc = optarg;
            break;
        case 'H':
            ret_arguments->http = optarg;
            break;
        case 'h':
            (void)fputs(help, stdout);
            *ret_exit = HR_EXIT_DONE;
            return false;
        case 'v':
            (void)printf("headroomd %s\n", hr_cmd_version_text());
            *ret_exit = HR_EXIT_DONE;
            return false;
        default:
            *ret_exit = usage(option == ':' ? "an option needs a value" : "unknown option");
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
           set_address(&config->listen.http, arguments->http, "--http", problem);
}

int main(int argc, char **argv)
{
    static struct hr_node_config config;
    struct arguments arguments = {0};
    struct hr_problem problem = {"", ""};
    int status = HR_EXIT_DONE;
    (void)signal(SIGPIPE, SIG_IGN); /* a peer that went away is a failed write */
    (void)signal(SIGHUP, SIG_IGN);  /* until there are limits to read again */
    if (!read_arguments(argc, argv, &arguments, &status)) {
        return status;
    }
    if (optind < argc) {
        return usage("an argument that is no option");
    }
    if (arguments.is_dev == (arguments.config != NULL)) {
        return usage("either --config FILE or --dev");
    }
    bool has_dev_option = arguments.data || arguments.limits || arguments.rpc || arguments.http;
    if (!arguments.is_dev && has_dev_option) {
        return usage("--data, --limits, --rpc and --http go with --dev; the node file says them else");
    }
    if (!configure(&arguments, &config, &problem)) {
        return fail(&problem);
    }
    const struct hr_daemon_options options = {.config = &config, .is_dev = arguments.is_dev};
    return hr_daemon_run(&options, &problem) ? HR_EXIT_DONE : fail(&problem);
}
