#include "node/command/cmd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whose commands these are: set once, at the start of main. */
static const char *program_name = "headroom";

int hr_cmd_fail(const struct hr_problem *problem)
{
    (void)fflush(stdout); /* what was answered before comes first; whether it could be written, main asks at the end */
    if (problem->where[0] == '\0') {
        (void)fprintf(stderr, "%s: %s\n", program_name, problem->what);
    } else {
        (void)fprintf(stderr, "%s: %s (%s)\n", program_name, problem->what, problem->where);
    }
    return HR_EXIT_INVALID;
}

int hr_cmd_fail_errno(const char *what, const char *where)
{
    struct hr_problem problem;
    (void)hr_problem_errno(&problem, where, what);
    return hr_cmd_fail(&problem);
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
    hr_problem_where(&problem, "see %s %s%s--help", program_name, command, command[0] == '\0' ? "" : " ");
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
    (void)printf("%s " HEADROOM_VERSION "\n", program_name);
    return HR_EXIT_DONE;
}

static int print_help(const struct hr_program *program)
{
    (void)printf("usage: %s COMMAND %s\n\n", program->name, program->arguments);
    for (size_t i = 0; i < program->command_count; i++) {
        (void)printf("  %-8s %s\n", program->commands[i].name, program->commands[i].does);
    }
    (void)printf("\n  --help     print this; %s COMMAND --help tells more\n"
                 "  --version  print the version\n\n"
                 "Exit status: %s\n",
                 program->name, program->exits);
    return HR_EXIT_DONE;
}

static int run(const struct hr_program *program, int argc, char **argv)
{
    if (argc < 2) {
        return hr_cmd_usage("", "no command was given");
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0) {
        return print_help(program);
    }
    if (strcmp(name, "--version") == 0) {
        return hr_cmd_version();
    }
    for (size_t i = 0; i < program->command_count; i++) {
        if (strcmp(name, program->commands[i].name) == 0) {
            return program->commands[i].run(argc - 1, argv + 1);
        }
    }
    return hr_cmd_usage("", "unknown %s %s", name[0] == '-' ? "option" : "command", name);
}

void hr_cmd_begin(const char *program)
{
    program_name = program;
    (void)signal(SIGPIPE, SIG_IGN);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1) {
            /* The lowest that is free is this one. It is not to be used, so it is opened the wrong way round. */
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int hr_program_run(const struct hr_program *program, int argc, char **argv)
{
    hr_cmd_begin(program->name);
    int status = run(program, argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const struct hr_problem problem = {"cannot write the output", "standard output"};
        return hr_cmd_fail(&problem);
    }
    return status;
}
