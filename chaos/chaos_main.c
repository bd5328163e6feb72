#include "chaos/cmd_chaos.h"

static const struct hr_command commands[] = {
    {"links", "stand between the regions of a local cluster", hr_chaos_links},
    {"list", "list the scenarios, the faults and the invariants", hr_chaos_list},
    {"report", "sum up what many runs have printed as JSON", hr_chaos_report},
    {"run", "run a cluster of real processes under faults", hr_chaos_run},
    {"sim", "run whole clusters under virtual time and faults", hr_chaos_sim},
};

int main(int argc, char **argv)
{
    static const struct hr_program program = {
        .name = "headroom-chaos",
        .arguments = "[OPTION...]",
        .exits = "0 everything held, 1 something was violated, 2 wrong usage or invalid input, 3 a cluster\n"
                 "did not come up.",
        .commands = commands,
        .command_count = sizeof(commands) / sizeof(commands[0]),
    };
    return hr_program_run(&program, argc, argv);
}
