#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/cmd_chaos.h"
#include "chaos/page.h"
#include "chaos/run.h"

static const char help[] =
    "usage: headroom-chaos run SCENARIO [OPTION...]\n"
    "\n"
    "Starts a cluster of real nodes on loopback, loads it, breaks it as SCENARIO says, and tells what was\n"
    "promised, what was measured, and whether that held. SCENARIO is one of `headroom-chaos list`, or a\n"
    "YAML file.\n"
    "\n"
    "  --seconds N    run it in N seconds instead: its faults strike sooner, and last shorter\n"
    "  --data DIR     keep the nodes' files and logs there (default: a fresh temporary folder, which\n"
    "                 is removed where all was held)\n"
    "  --report FILE  write the result as a page of HTML\n"
    "  --json         print the result as JSON, on one line\n"
    "  --print        print the scenario's text and do nothing: to begin one's own from\n"
    "  --help         print this\n"
    "  --version      print the version\n"
    "\n"
    "Exit status: 0 all was held, 1 something was not, 2 wrong usage or an invalid scenario, 3 the cluster\n"
    "did not come up.\n";

#define SECONDS_MAX 3600

struct options {
    unsigned seconds; /* 0: as the scenario says */
    const char *data, *report;
    bool is_json, is_print;
};

enum { SECONDS = HR_OPTION_OWN, DATA, REPORT, JSON, PRINT };

static int take_option(struct options *options, int option)
{
    char *end = NULL;
    unsigned long seconds;
    switch (option) {
    case SECONDS:
        seconds = strtoul(optarg, &end, 10);
        if (optarg[0] < '0' || optarg[0] > '9' || *end != '\0' || seconds < 1 || seconds > SECONDS_MAX) {
            return hr_cmd_usage("run", "--seconds must be a whole number from 1 to %d", SECONDS_MAX);
        }
        options->seconds = (unsigned)seconds;
        break;
    case DATA:
        options->data = optarg;
        break;
    case REPORT:
        options->report = optarg;
        break;
    case JSON:
        options->is_json = true;
        break;
    default:
        options->is_print = true;
        break;
    }
    return HR_EXIT_DONE;
}

/* NULL: none of those that come with the program. */
static const struct hr_scenario_text *find_text(const char *name)
{
    for (uint32_t i = 0; i < hr_scenario_count; i++) {
        if (strcmp(hr_scenarios[i].name, name) == 0) {
            return &hr_scenarios[i];
        }
    }
    return NULL;
}

static bool read_scenario(const char *name, struct hr_scenario *ret_scenario, struct hr_problem *ret_problem)
{
    const struct hr_scenario_text *text = find_text(name);
    return text != NULL ? hr_scenario_parse(text->text, name, ret_scenario, ret_problem)
                        : hr_scenario_load(name, ret_scenario, ret_problem);
}

static int print_text(const char *name)
{
    const struct hr_scenario_text *text = find_text(name);
    if (text == NULL) {
        return hr_cmd_usage("run", "--print is for the scenarios of headroom-chaos list, not %s", name);
    }
    (void)fwrite(text->text.at, 1, text->text.bytes, stdout); /* whether it could be written, main asks at the end */
    return HR_EXIT_DONE;
}

static void put_page(const void *of, FILE *out)
{
    hr_run_print_html(of, out);
}

/* Prints what came out; the exit status of all. */
static int tell(const struct hr_run *run, const struct options *options, int status)
{
    struct hr_problem problem;
    (options->is_json ? hr_run_print_json : hr_run_print)(run);
    if (status == HR_EXIT_FAILED && !options->is_json) {
        (void)printf("\nfiles and logs are in %s\n", run->local.folder);
    }
    if (options->report != NULL && !hr_page_write(options->report, put_page, run, &problem)) {
        return hr_cmd_fail(&problem);
    }
    return status;
}

static void write_command(const char *name, const struct options *options, char *text, size_t bytes)
{
    char seconds[32] = "";
    if (options->seconds > 0) {
        (void)snprintf(seconds, sizeof(seconds), " --seconds %u", options->seconds);
    }
    (void)snprintf(text, bytes, "headroom-chaos run %s%s", name, seconds);
}

static int run(const char *name, const struct options *options)
{
    static struct hr_run run;
    struct hr_problem problem;
    char command[1024];
    if (!read_scenario(name, &run.scenario, &problem)) {
        return hr_cmd_fail(&problem);
    }
    if (options->seconds > 0) {
        hr_scenario_scale(&run.scenario, options->seconds * HR_NS_PER_S);
    }
    run.folder = options->data;
    run.is_quiet = options->is_json;
    write_command(name, options, command, sizeof(command));
    run.command = command;
    int status = hr_run(&run);
    status = run.check_count > 0 ? tell(&run, options, status) : status;
    hr_run_load_free(run.load);
    return status;
}

int hr_chaos_run(int argc, char **argv)
{
    static const struct option table[] = {
        {"seconds", required_argument, NULL, SECONDS}, {"data", required_argument, NULL, DATA},
        {"report", required_argument, NULL, REPORT},   {"json", no_argument, NULL, JSON},
        {"print", no_argument, NULL, PRINT},           HR_OPTIONS_COMMON};
    struct options options = {0};
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        status = option == HR_OPTION_EXIT ? status : take_option(&options, option);
        if (option == HR_OPTION_EXIT || status != HR_EXIT_DONE) {
            return status;
        }
    }
    if (argc - optind != 1) {
        return hr_cmd_usage(argv[0], "run takes one SCENARIO");
    }
    return options.is_print ? print_text(argv[optind]) : run(argv[optind], &options);
}
