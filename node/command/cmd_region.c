#include <stdio.h>
#include <string.h>

#include "limiter/limit.h"
#include "node/command/ask.h"
#include "node/command/cmd.h"

static const char help[] =
    "usage: headroom region remove NAME --lost [OPTION...]\n"
    "\n"
    "Says that a region is gone for good: the other regions wait for it no longer when their global\n"
    "limits change. What it risks: whatever a node of it that runs after all goes on admitting may\n"
    "come on top of every cap. Stop all of its nodes first. Its part of the caps is free when the\n"
    "others have its weight as 0.\n"
    "\n"
    "  --lost            yes, all of its nodes are stopped\n" HR_ASK_HELP "\n"
    "Exit status: 0 done, 2 wrong usage, or no such other region, 3 the node did not answer.\n";

static int remove_region(const struct hr_ask *ask, const char *name)
{
    const struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_NAME), .name = hr_span_of(name)};
    const struct hr_ask_flag flag = {HR_METHOD_REGIONS_REMOVE, "removed",
                                     "removed: what any node of it still admits comes on top of every cap",
                                     "it was not removed"};
    if (!hr_limit_name_is_valid(params.name)) { /* the same alphabet and length */
        return hr_cmd_usage(ask->command, "a region's name must be 1 to 64 of a-z, 0-9 and -, not \"%s\"", name);
    }
    return hr_ask_flag(ask, &params, &flag);
}

int hr_cmd_region(int argc, char **argv)
{
    enum { LOST = HR_ASK_OWN };
    static const struct option options[] = {{"lost", no_argument, NULL, LOST}, HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    bool is_lost = false;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_ask_option(&ask, argc, argv, options, help, &status)) != HR_OPTION_END) {
        if (option != LOST) {
            return status;
        }
        is_lost = true;
    }
    if (argc - optind != 2 || strcmp(argv[optind], "remove") != 0) {
        return hr_cmd_usage(ask.command, "region takes remove and one NAME");
    }
    if (!is_lost) {
        return hr_cmd_usage(ask.command, "only a region whose nodes are all stopped may be removed: say so by --lost");
    }
    return remove_region(&ask, argv[optind + 1]);
}
