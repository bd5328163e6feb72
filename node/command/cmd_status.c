#include <stdio.h>

#include "node/command/ask.h"
#include "node/value_text.h"

static const char help[] = "usage: headroom status [OPTION...]\n"
                           "\n"
                           "Prints how a node is: its limits, what its memory holds, its decisions, its store.\n"
                           "\n" HR_ASK_HELP "\n"
                           "Exit status: 0 done, 2 wrong usage, 3 the node did not answer.\n";

static enum hr_err print(const struct hr_ask *ask, struct hr_span result)
{
    if (!ask->json) {
        return hr_value_print(stdout, result);
    }
    enum hr_err err = hr_value_print_json(stdout, result);
    (void)fputc('\n', stdout);
    return err;
}

int hr_cmd_status(int argc, char **argv)
{
    static const struct option options[] = {HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_client client;
    struct hr_span result;
    int status = HR_EXIT_DONE;
    if (hr_ask_option(&ask, argc, argv, options, help, &status) != HR_OPTION_END) {
        return status;
    }
    if (optind < argc) {
        return hr_cmd_usage(argv[0], "status takes no argument, not %s", argv[optind]);
    }
    status = hr_ask_once(&ask, &client, HR_METHOD_STATUS, NULL, &result);
    if (status == HR_EXIT_DONE) {
        status = print(&ask, result) == HR_OK ? HR_EXIT_DONE : hr_ask_garbage(&client);
        hr_client_close(&client);
    }
    return status;
}
