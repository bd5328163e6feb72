#include "chaos/cmd_chaos.h"

#include <stdarg.h>
#include <stdio.h>

int hr_chaos_usage(const char *command, const char *format, ...)
{
    struct hr_problem problem;
    char what[sizeof(problem.what)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args); /* a cut line is still a line */
    va_end(args);
    hr_problem_what(&problem, "%s", what);
    hr_problem_where(&problem, "see headroom-chaos %s --help", command);
    return hr_cmd_fail(&problem);
}

int hr_chaos_option(int argc, char **argv, const struct option *options, const char *help, int *ret_exit)
{
    opterr = 0; /* getopt's own lines do not look like ours */
    int option = getopt_long(argc, argv, ":", options, NULL);
    switch (option) {
    case HR_OPTION_HELP:
        (void)fputs(help, stdout);
        *ret_exit = HR_EXIT_DONE;
        return HR_OPTION_EXIT;
    case HR_OPTION_VERSION:
        (void)printf("headroom-chaos %s\n", hr_cmd_version_text());
        *ret_exit = HR_EXIT_DONE;
        return HR_OPTION_EXIT;
    case ':':
        *ret_exit = hr_chaos_usage(argv[0], "option %s needs a value", argv[optind - 1]);
        return HR_OPTION_EXIT;
    case '?':
        *ret_exit = hr_chaos_usage(argv[0], "unknown option %s", argv[optind - 1]);
        return HR_OPTION_EXIT;
    default:
        return option;
    }
}
