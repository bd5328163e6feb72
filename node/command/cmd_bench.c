#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "node/command/ask.h"
#include "node/command/loadgen_uv.h"

#define SECONDS_MAX 86400
#define REQUESTS_MAX UINT64_C(1000000000000)
#define RATE_MAX UINT64_C(1000000000)
#define SEED UINT64_C(1) /* each run asks for the same keys */

static const char help[] =
    "usage: headroom bench [OPTION...]\n"
    "\n"
    "Loads a node with checks from one thread and prints how many it answered and how quickly.\n"
    "\n"
    "  --connections N   connections (default 50)\n"
    "  --pipeline D      requests in flight on each of them (default 1)\n"
    "  --requests N      how many requests in all; or\n"
    "  --seconds S       for how long (default 5)\n"
    "  --rate R          send R requests a second, whatever the node does: a request that has to wait\n"
    "                    counts its latency from when it was due, and one that no connection had\n"
    "                    room for until the end is unsent (default: as answers come)\n"
    "  --keys N          of how many keys (default 1000000)\n"
    "  --skew S          how unevenly, the exponent of Zipf's law, as 0.99 (default 0: evenly)\n"
    "  --attribute NAME  the attribute that the key is put into (default api_key)\n"
    "  --cost N          what each request costs (default 1)\n"
    "  --spread          spread the connections over all nodes of the node's region\n"
    "  --route           the same, and ask each node for the keys that it owns, as it is learned from\n"
    "                    the answers (of at most 16777216 keys)\n"
    "  --detail on|off   ask for the numbers of each limit touched (default off)\n" HR_ASK_HELP "\n"
    "Latencies are in microseconds; a quantile is at most an eighth too high.\n"
    "\n"
    "Exit status: 0 done, 2 wrong usage, 3 the node did not answer.\n";

struct options {
    struct hr_ask ask;
    uint64_t connections, pipeline, requests, seconds, rate, keys;
    double skew;
    bool spread, route;
    struct hr_load_check check;
};

enum {
    CONNECTIONS = HR_ASK_OWN,
    PIPELINE,
    REQUESTS,
    SECONDS,
    RATE,
    KEYS,
    SKEW,
    ATTRIBUTE,
    COST,
    DETAIL,
    SPREAD,
    ROUTE
};

static int take_skew(struct options *options)
{
    char *end = NULL;
    double skew = strtod(optarg, &end);
    if (end == optarg || *end != '\0' || !isfinite(skew) || skew < 0.0 || skew > HR_LOAD_SKEW_MAX) {
        return hr_cmd_usage(options->ask.command, "--skew must be a number from 0 to %d", HR_LOAD_SKEW_MAX);
    }
    options->skew = skew;
    return HR_EXIT_DONE;
}

static int take_detail(struct options *options)
{
    bool is_on = strcmp(optarg, "on") == 0;
    if (!is_on && strcmp(optarg, "off") != 0) {
        return hr_cmd_usage(options->ask.command, "--detail must be on or off");
    }
    options->check.detail = is_on;
    return HR_EXIT_DONE;
}

static int take_attribute(struct options *options)
{
    options->check.attribute = hr_span_of(optarg);
    if (!hr_attribute_name_is_valid(options->check.attribute)) {
        return hr_cmd_usage(options->ask.command, "--attribute must be 1 to 64 of a-z, 0-9, _ . -");
    }
    return HR_EXIT_DONE;
}

static int take_number(struct options *options, int option)
{
    const struct {
        int option;
        struct hr_ask_range range;
        uint64_t *number;
    } numbers[] = {
        {CONNECTIONS, {"--connections", 1, HR_LOAD_CONNECTIONS_MAX}, &options->connections},
        {PIPELINE, {"--pipeline", 1, HR_LOAD_PIPELINE_MAX}, &options->pipeline},
        {REQUESTS, {"--requests", 1, REQUESTS_MAX}, &options->requests},
        {SECONDS, {"--seconds", 1, SECONDS_MAX}, &options->seconds},
        {RATE, {"--rate", 1, RATE_MAX}, &options->rate},
        {KEYS, {"--keys", 1, HR_LOAD_KEYS_MAX}, &options->keys},
        {COST, {"--cost", 0, HR_COST_MAX}, &options->check.cost},
    };
    size_t i = 0;
    while (numbers[i].option != option) {
        i++; /* stops: take_option hands over these alone */
    }
    return hr_ask_number(&options->ask, optarg, &numbers[i].range, numbers[i].number);
}

static int take_option(struct options *options, int option)
{
    switch (option) {
    case SKEW:
        return take_skew(options);
    case ATTRIBUTE:
        return take_attribute(options);
    case DETAIL:
        return take_detail(options);
    case SPREAD:
        options->spread = true;
        return HR_EXIT_DONE;
    case ROUTE:
        options->route = true;
        return HR_EXIT_DONE;
    default:
        return take_number(options, option);
    }
}

/* The exit status in *ret_exit counts only where this is false: the command ends here. */
static bool parse(int argc, char **argv, struct options *options, int *ret_exit)
{
    static const struct option table[] = {
        {"connections", required_argument, NULL, CONNECTIONS},
        {"pipeline", required_argument, NULL, PIPELINE},
        {"requests", required_argument, NULL, REQUESTS},
        {"seconds", required_argument, NULL, SECONDS},
        {"rate", required_argument, NULL, RATE},
        {"keys", required_argument, NULL, KEYS},
        {"skew", required_argument, NULL, SKEW},
        {"attribute", required_argument, NULL, ATTRIBUTE},
        {"cost", required_argument, NULL, COST},
        {"detail", required_argument, NULL, DETAIL},
        {"spread", no_argument, NULL, SPREAD},
        {"route", no_argument, NULL, ROUTE},
        HR_ASK_OPTIONS,
    };
    int option = 0;
    while ((option = hr_ask_option(&options->ask, argc, argv, table, help, ret_exit)) != HR_OPTION_END) {
        if (option == HR_OPTION_EXIT) {
            return false;
        }
        *ret_exit = take_option(options, option);
        if (*ret_exit != HR_EXIT_DONE) {
            return false;
        }
    }
    if (optind < argc) {
        *ret_exit = hr_cmd_usage(argv[0], "bench takes no argument, not %s", argv[optind]);
    } else if (options->requests > 0 && options->seconds > 0) {
        *ret_exit = hr_cmd_usage(argv[0], "either --requests or --seconds");
    } else if (options->route && options->keys > HR_LOAD_ROUTED_KEYS_MAX) {
        *ret_exit = hr_cmd_usage(argv[0], "--route takes at most 16777216 --keys");
    } else {
        return true;
    }
    return false;
}

static void print_result(const struct hr_load_result *result, uint32_t node_count)
{
    (void)printf("%" PRIu64 " answers in %.3f s: %" PRIu64 " a second\n", result->latency.count,
                 (double)result->elapsed_ns / 1e9, hr_load_per_second(result));
    (void)printf("allowed %" PRIu64 ", denied %" PRIu64 ", errors %" PRIu64 ", unsent %" PRIu64 "\n", result->allowed,
                 result->denied, result->errors, result->unsent);
    if (node_count > 1) {
        (void)printf("of %" PRIu32 " nodes; decided by another one than was asked: %" PRIu64 "\n", node_count,
                     result->elsewhere);
    }
    (void)printf("latency in us: p50 %" PRIu64 ", p90 %" PRIu64 ", p99 %" PRIu64 ", p99.9 %" PRIu64 ", max %" PRIu64
                 "\n",
                 hr_load_quantile_us(result, 500), hr_load_quantile_us(result, 900), hr_load_quantile_us(result, 990),
                 hr_load_quantile_us(result, 999), hr_load_quantile_us(result, 1000));
}

static void print_result_json(const struct hr_load_result *result)
{
    (void)printf("{\"requests\":%" PRIu64 ",\"seconds\":%.6f,\"requests_per_second\":%" PRIu64 ",\"allowed\":%" PRIu64
                 ",\"denied\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"unsent\":%" PRIu64 ",\"elsewhere\":%" PRIu64 ",",
                 result->latency.count, (double)result->elapsed_ns / 1e9, hr_load_per_second(result), result->allowed,
                 result->denied, result->errors, result->unsent, result->elsewhere);
    (void)printf("\"latency_us\":{\"p50\":%" PRIu64 ",\"p90\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"p99_9\":%" PRIu64
                 ",\"max\":%" PRIu64 "}}\n",
                 hr_load_quantile_us(result, 500), hr_load_quantile_us(result, 900), hr_load_quantile_us(result, 990),
                 hr_load_quantile_us(result, 999), hr_load_quantile_us(result, 1000));
}

static struct hr_load_plan plan_of(const struct options *options)
{
    return (struct hr_load_plan){
        .connections = (uint32_t)options->connections,
        .pipeline = (uint32_t)options->pipeline,
        .requests = options->requests > 0 ? options->requests : UINT64_MAX,
        .duration_ns = options->requests > 0 ? UINT64_MAX : options->seconds * (uint64_t)HR_NS_PER_S,
        .per_second = options->rate,
        .timeout_ns = (uint64_t)options->ask.timeout_ms * (uint64_t)HR_NS_PER_MS,
    };
}

static int run(const struct options *options, const struct hr_load_plan *partial)
{
    struct hr_load_plan plan = *partial;
    struct hr_load_request request = {.bytes = 0};
    struct hr_load_keys keys;
    struct hr_load_result result;
    struct hr_problem problem;
    hr_load_keys_init(&keys, options->keys, options->skew, SEED);
    if (hr_load_request_init(&request, &options->check) != HR_OK) {
        return HR_EXIT_INVALID; /* the name was valid */
    }
    plan.request = &request;
    plan.keys = &keys;
    if (!hr_load_run(&plan, &result, &problem)) {
        (void)hr_cmd_fail(&problem);
        return HR_EXIT_UNREACHABLE;
    }
    if (options->ask.json) {
        print_result_json(&result);
    } else {
        print_result(&result, plan.nodes->count);
    }
    return HR_EXIT_DONE;
}

static int bench(const struct options *options)
{
    static struct hr_load_nodes nodes;
    struct hr_load_owners owners = {.of = NULL};
    struct hr_load_plan plan = plan_of(options);
    bool is_region = options->spread || options->route;
    int status = is_region ? hr_load_nodes_region(&options->ask, &nodes) : hr_load_nodes_one(&options->ask, &nodes);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    plan.nodes = &nodes;
    if (options->route) {
        if (hr_load_owners_init(&owners, options->keys) != HR_OK) {
            return hr_cmd_usage(options->ask.command, "no memory for so many keys");
        }
        plan.owners = &owners;
    }
    status = run(options, &plan);
    hr_load_owners_free(&owners);
    return status;
}

int hr_cmd_bench(int argc, char **argv)
{
    struct options options = {
        .ask = HR_ASK_INIT(argv[0]),
        .connections = 50,
        .pipeline = 1,
        .keys = 1000000,
        .check = {.attribute = HR_SPAN("api_key"), .cost = 1},
    };
    int status = HR_EXIT_DONE;
    if (!parse(argc, argv, &options, &status)) {
        return status;
    }
    if (options.requests == 0 && options.seconds == 0) {
        options.seconds = 5;
    }
    return bench(&options);
}
