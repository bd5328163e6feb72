#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "chaos/cmd_chaos.h"

static const struct {
    const char *name;
    const char *does;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"links", "stand between the regions of a local cluster", hr_chaos_links},
    {"list", "list the scenarios, the faults and the invariants", hr_chaos_list},
    {"run", "run a cluster of real processes under faults", hr_chaos_run},
    {"sim", "run whole clusters under virtual time and faults", hr_chaos_sim},
};

static int print_help(void)
{
    (void)puts("usage: headroom-chaos COMMAND [OPTION...]\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        (void)printf("  %-8s %s\n", commands[i].name, commands[i].does);
    }
    (void)puts("\n  --help     print this; headroom-chaos COMMAND --help tells more\n"
               "  --version  print the version\n\n"
               "Exit status: 0 everything held, 1 something was violated, 2 wrong usage or invalid input, 3 a "
               "cluster\ndid not come up.");
    return HR_EXIT_DONE;
}

static int run(int argc, char **argv)
{
    const char *name = argc < 2 ? "--help" : argv[1];
    if (argc < 2) {
        return hr_chaos_usage("COMMAND", "no command was given");
    }
    if (strcmp(name, "--help") == 0) {
        return print_help();
    }
    if (strcmp(name, "--version") == 0) {
        (void)printf("headroom-chaos %s\n", hr_cmd_version_text());
        return HR_EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return hr_chaos_usage("COMMAND", "unknown %s %s", name[0] == '-' ? "option" : "command", name);
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that went away is a failed write, told in words */
    int status = run(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const struct hr_problem problem = {"cannot write the output", "standard output"};
        return hr_cmd_fail(&problem);
    }
    return status;
}
