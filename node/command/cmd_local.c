#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "node/amount_text.h"
#include "node/command/ask.h"
#include "node/command/local_files.h"
#include "node/command/local_links.h"
#include "node/command/local_plan.h"
#include "node/command/local_run.h"
#include "node/value_text.h"

static const char help[] =
    "usage: headroom local [--regions NAMES] [--nodes N] [OPTION...]\n"
    "       headroom local cut | mute | deaf | heal REGION --data DIR\n"
    "\n"
    "Starts a whole cluster on loopback, one headroomd for each node, at free ports; prints where they\n"
    "are when all serve; and stops them all on Ctrl-C. SIGHUP makes all read the limits file anew.\n"
    "\n"
    "With --wan-delay the regions are far from one another; then cut takes a region of the running\n"
    "cluster off from the others, mute only keeps what it says from them, deaf only what they say from\n"
    "it; and heal brings it back.\n"
    "\n"
    "  --regions NAMES   as eu,us,ap (default eu)\n"
    "  --nodes N         in each region (default 1)\n"
    "  --limits FILE     the limits file of all nodes\n"
    "  --data DIR        keep the nodes' files, data and logs there (default: a fresh temporary folder,\n"
    "                    which is removed after a clean stop)\n"
    "  --wan-delay TIME  between regions, each way, as 80ms; needs headroom-chaos beside headroom\n"
    "  --json            print where they are as JSON, on one line\n"
    "  --help            print this\n"
    "  --version         print the version\n"
    "\n"
    "Exit status: 0 stopped cleanly, 1 a node ended by itself or had to be killed, 2 wrong usage or an\n"
    "invalid limits file, 3 a node did not come up.\n";

#define FILE_PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + 8)
#define WAN_DELAY_NS_MAX (10 * HR_NS_PER_S)

struct options {
    const char *regions, *nodes, *limits, *data, *wan_delay;
    bool is_json;
};

/* --- where they are --- */

struct texts {
    char rpc[HR_ADDRESS_TEXT_BYTES], http[HR_ADDRESS_TEXT_BYTES], gossip[HR_ADDRESS_TEXT_BYTES];
};

static void addresses_of(const struct hr_local_node *node, struct texts *ret_texts)
{
    (void)hr_address_text(&node->rpc, ret_texts->rpc);
    (void)hr_address_text(&node->http, ret_texts->http);
    (void)hr_address_text(&node->gossip, ret_texts->gossip);
}

static void print_json(const struct hr_local *local)
{
    (void)fputs("{\"data\":", stdout);
    hr_text_print_json(stdout, hr_span_of(local->folder));
    (void)fputs(",\"nodes\":[", stdout);
    for (uint32_t i = 0; i < local->plan.node_count; i++) {
        const struct hr_local_node *node = &local->plan.nodes[i];
        struct texts texts;
        addresses_of(node, &texts);
        (void)printf("%s{\"name\":\"%s\",\"region\":\"%s\",\"rpc\":\"%s\",\"http\":\"%s\",\"gossip\":\"tcp://%s\","
                     "\"pid\":%" PRIdMAX "}",
                     i == 0 ? "" : ",", node->name, local->plan.regions[node->region], texts.rpc, texts.http,
                     texts.gossip, (intmax_t)local->nodes[i].pid);
    }
    (void)puts("]}");
    (void)fflush(stdout); /* whether it could be written, main asks at the end */
}

static void print_table(const struct hr_local *local)
{
    int name = 4, region = 6; /* the widths of the columns' own names */
    struct texts texts;
    for (uint32_t i = 0; i < local->plan.node_count; i++) {
        int bytes = (int)strlen(local->plan.nodes[i].name);
        name = bytes > name ? bytes : name;
        bytes = (int)strlen(local->plan.regions[local->plan.nodes[i].region]);
        region = bytes > region ? bytes : region;
    }
    (void)printf("%-*s  %-*s  %-15s  %-22s  %-21s  %s\n", name, "name", region, "region", "rpc", "http", "gossip",
                 "pid");
    for (uint32_t i = 0; i < local->plan.node_count; i++) {
        const struct hr_local_node *node = &local->plan.nodes[i];
        addresses_of(node, &texts);
        (void)printf("%-*s  %-*s  %-15s  http://%-15s  tcp://%-15s  %" PRIdMAX "\n", name, node->name, region,
                     local->plan.regions[node->region], texts.rpc, texts.http, texts.gossip,
                     (intmax_t)local->nodes[i].pid);
    }
    addresses_of(&local->plan.nodes[0], &texts);
    (void)printf("\nfiles and logs are in %s\nask one with --node %s; stop all with Ctrl-C\n", local->folder,
                 texts.rpc);
    (void)fflush(stdout); /* whether it could be written, main asks at the end */
}

/* --- from start to end --- */

static int prepare(struct hr_local *local, const struct options *options)
{
    static const struct hr_ask_range range = {"--nodes", 1, HR_LOCAL_NODES_MAX};
    const struct hr_ask ask = HR_ASK_INIT("local");
    struct hr_problem problem;
    uint64_t nodes = 1;
    int status = hr_ask_number(&ask, options->nodes, &range, &nodes);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    if (!hr_local_plan_init(&local->plan, options->regions, (uint32_t)nodes, &problem)) {
        return hr_cmd_fail(&problem);
    }
    local->plan.has_links = options->wan_delay != NULL;
    status = hr_local_take_limits(local, options->limits);
    return status == HR_EXIT_DONE ? hr_local_find_programs(local) : status;
}

static int run(const struct options *options)
{
    static struct hr_local local;
    int status = prepare(&local, options);
    if (status == HR_EXIT_DONE) {
        status = hr_local_make_folder(&local, options->data);
    }
    if (status != HR_EXIT_DONE) {
        return status;
    }
    status = hr_local_write_files(&local, options->wan_delay);
    if (status == HR_EXIT_DONE) {
        status = hr_local_run(&local, options->is_json ? print_json : print_table);
    }
    if (options->data == NULL && status == HR_EXIT_DONE) { /* else its logs may tell why */
        hr_local_remove_folder(&local);
    }
    return status;
}

/* cut, mute, deaf or heal REGION: of a cluster that runs. */
static int change_links(int argc, char **argv, const struct options *options)
{
    struct hr_problem problem;
    char path[FILE_PATH_BYTES];
    enum hr_local_cut cut;
    if (!hr_local_cut_find(argv[optind], &cut)) {
        return hr_cmd_usage(argv[0], "local can cut, mute, deaf and heal a region, not %s", argv[optind]);
    }
    if (argc - optind != 2 || options->data == NULL) {
        return hr_cmd_usage(argv[0], "local %s takes one REGION, and --data DIR", argv[optind]);
    }
    if (snprintf(path, sizeof(path), "%s/links", options->data) > HR_CONFIG_PATH_BYTES_MAX) {
        return hr_cmd_usage(argv[0], "--data is too long");
    }
    return hr_local_links_set(path, argv[optind + 1], cut, &problem) ? HR_EXIT_DONE : hr_cmd_fail(&problem);
}

/* --- options --- */

static int take_wan_delay(struct options *options)
{
    uint64_t ns;
    if (hr_period_parse(hr_span_of(optarg), &ns) != HR_OK || ns > (uint64_t)WAN_DELAY_NS_MAX) {
        return hr_cmd_usage("local", "--wan-delay must be a time from 1ms to 10s, as 80ms");
    }
    options->wan_delay = optarg;
    return HR_EXIT_DONE;
}

enum { REGIONS = HR_OPTION_OWN, NODES, LIMITS, DATA, WAN_DELAY, JSON };

static int take_option(struct options *options, int option)
{
    switch (option) {
    case REGIONS:
        options->regions = optarg;
        break;
    case NODES:
        options->nodes = optarg;
        break;
    case LIMITS:
        options->limits = optarg;
        break;
    case DATA:
        options->data = optarg;
        break;
    case WAN_DELAY:
        return take_wan_delay(options);
    default:
        options->is_json = true;
        break;
    }
    return HR_EXIT_DONE;
}

int hr_cmd_local(int argc, char **argv)
{
    static const struct option table[] = {{"regions", required_argument, NULL, REGIONS},
                                          {"nodes", required_argument, NULL, NODES},
                                          {"limits", required_argument, NULL, LIMITS},
                                          {"data", required_argument, NULL, DATA},
                                          {"wan-delay", required_argument, NULL, WAN_DELAY},
                                          {"json", no_argument, NULL, JSON},
                                          HR_OPTIONS_COMMON};
    struct options options = {.regions = "eu", .nodes = "1"};
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        status = option == HR_OPTION_EXIT ? status : take_option(&options, option);
        if (option == HR_OPTION_EXIT || status != HR_EXIT_DONE) {
            return status;
        }
    }
    return optind < argc ? change_links(argc, argv, &options) : run(&options);
}
