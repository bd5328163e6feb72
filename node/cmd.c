#include "node/cmd.h"

#include <stdarg.h>
#include <stdio.h>

int hr_cmd_fail(const struct hr_problem *problem)
{
    (void)fflush(stdout); /* what was answered before comes first; whether it could be written, main asks at the end */
    if (problem->where[0] == '\0') {
        (void)fprintf(stderr, "headroom: %s\n", problem->what);
    } else {
        (void)fprintf(stderr, "headroom: %s (%s)\n", problem->what, problem->where);
    }
    return HR_EXIT_INVALID;
}

int hr_cmd_usage(const char *command, const char *format, ...)
{
    struct hr_problem problem;
    char what[sizeof(problem.what)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args); /* a cut line is still a line */
    va_end(args);
    hr_problem_what(&problem, "%s", what);
    hr_problem_where(&problem, "see headroom %s --help", command);
    return hr_cmd_fail(&problem);
}

static int complain(char **argv)
{
    if (optopt >= HR_OPTION_HELP) {
        return hr_cmd_usage(argv[0], "option %s takes no value", argv[optind - 1]);
    }
    if (optopt != 0) {
        return hr_cmd_usage(argv[0], "unknown option -%c", optopt);
    }
    return hr_cmd_usage(argv[0], "unknown option %s", argv[optind - 1]);
}

int hr_cmd_option(int argc, char **argv, const struct option *options, const char *help, int *ret_exit)
{
    opterr = 0; /* getopt's own lines do not look like ours */
    int option = getopt_long(argc, argv, ":", options, NULL);
    switch (option) {
    case HR_OPTION_HELP:
        (void)fputs(help, stdout);
        *ret_exit = HR_EXIT_DONE;
        return HR_OPTION_EXIT;
    case HR_OPTION_VERSION:
        *ret_exit = hr_cmd_version();
        return HR_OPTION_EXIT;
    case ':':
        *ret_exit = hr_cmd_usage(argv[0], "option %s needs a value", argv[optind - 1]);
        return HR_OPTION_EXIT;
    case '?':
        *ret_exit = complain(argv);
        return HR_OPTION_EXIT;
    default:
        return option;
    }
}

const char *hr_cmd_version_text(void)
{
    return HEADROOM_VERSION;
}

int hr_cmd_version(void)
{
    (void)puts("headroom " HEADROOM_VERSION);
    return HR_EXIT_DONE;
}
