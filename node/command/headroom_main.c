#include "node/command/cmd.h"
#include "node/command/cmd_config.h"

static const struct hr_command commands[] = {
    {"bench", "load a node and print how quickly it answers", hr_cmd_bench},
    {"check", "ask a node to decide a request", hr_cmd_check},
    {"config", "check a node file or a limits file", hr_cmd_config},
    {"explain", "say which limits touch a request, and why", hr_cmd_explain},
    {"limits", "list, get, put or delete a node's limits", hr_cmd_limits},
    {"local", "start a whole cluster on loopback", hr_cmd_local},
    {"members", "list the nodes of the cluster", hr_cmd_members},
    {"peek", "ask a node what it would decide", hr_cmd_peek},
    {"refund", "give back what a request took", hr_cmd_refund},
    {"region", "say that a whole region is gone", hr_cmd_region},
    {"release", "end a lease", hr_cmd_release},
    {"renew", "give a lease its whole time again", hr_cmd_renew},
    {"replay", "run recorded requests through a limits file", hr_cmd_replay},
    {"status", "print how a node is", hr_cmd_status},
    {"test", "run if-then tables against a limits file", hr_cmd_test},
    {"top", "show what a node decides, live", hr_cmd_top},
};

int main(int argc, char **argv)
{
    static const struct hr_program program = {
        .name = "headroom",
        .arguments = "[OPTION...] [ARGUMENT...]",
        .exits = "0 done or allowed, 1 denied or a test that failed, 2 wrong usage or invalid input,\n"
                 "3 the node did not answer.",
        .commands = commands,
        .command_count = sizeof(commands) / sizeof(commands[0]),
    };
    return hr_program_run(&program, argc, argv);
}
