#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "node/cmd.h"
#include "node/cmd_config.h"

static const struct {
    const char *name;
    const char *does;
    int (*run)(int argc, char **argv);
} commands[] = {
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

static int print_help(void)
{
    (void)puts("usage: headroom COMMAND [OPTION...] [ARGUMENT...]\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        (void)printf("  %-8s %s\n", commands[i].name, commands[i].does);
    }
    (void)puts("\n  --help     print this; headroom COMMAND --help tells more\n"
               "  --version  print the version\n\n"
               "Exit status: 0 done or allowed, 1 denied or a test that failed, 2 wrong usage or invalid input,\n"
               "3 the node did not answer.");
    return HR_EXIT_DONE;
}

static int complain(const char *what, const char *name)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "%s%s", what, name);
    hr_problem_where(&problem, "see headroom --help");
    return hr_cmd_fail(&problem);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        return complain("no command was given", "");
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0) {
        return print_help();
    }
    if (strcmp(name, "--version") == 0) {
        return hr_cmd_version();
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return complain(name[0] == '-' ? "unknown option " : "unknown command ", name);
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
