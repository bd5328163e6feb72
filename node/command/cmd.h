/* Commands: what the subcommands of `headroom` and `headroom-chaos` share. Each is run with its own name as argv[0] and
 * returns the exit status.
 *
 * Thread: the main one. Answers go to standard output, one line about what went wrong to standard error. */
#ifndef HR_NODE_COMMAND_CMD_H
#define HR_NODE_COMMAND_CMD_H

#include <getopt.h>
#include <stddef.h>

#include "node/problem.h"

enum hr_exit {
    HR_EXIT_DONE = 0,
    HR_EXIT_FAILED = 1,      /* a check that failed, a request that was denied */
    HR_EXIT_INVALID = 2,     /* usage, or invalid input */
    HR_EXIT_UNREACHABLE = 3, /* the node that was asked did not answer */
};

int hr_cmd_local(int argc, char **argv);
int hr_cmd_replay(int argc, char **argv);
int hr_cmd_test(int argc, char **argv);

/* Those that ask a node (node/command/ask.h). */
int hr_cmd_bench(int argc, char **argv);
int hr_cmd_check(int argc, char **argv);
int hr_cmd_explain(int argc, char **argv);
int hr_cmd_limits(int argc, char **argv);
int hr_cmd_members(int argc, char **argv);
int hr_cmd_peek(int argc, char **argv);
int hr_cmd_region(int argc, char **argv);
int hr_cmd_refund(int argc, char **argv);
int hr_cmd_release(int argc, char **argv);
int hr_cmd_renew(int argc, char **argv);
int hr_cmd_status(int argc, char **argv);
int hr_cmd_top(int argc, char **argv);

struct hr_command {
    const char *name;
    const char *does; /* in a line */
    int (*run)(int argc, char **argv);
};

/* A program that is nothing but its commands. */
struct hr_program {
    const char *name;
    const char *arguments;             /* what stands behind its name in its help */
    const char *exits;                 /* its exit statuses, for its help */
    const struct hr_command *commands; /* in the order of their names */
    size_t command_count;
};

/* To be called first of all in main. Messages then begin with the program's name. A standard stream that the caller
 * has closed stays closed: it would become the next file or socket that is opened, which would get what is printed, and
 * which libuv refuses to close. A write to a reader that went away fails, instead of ending the process. */
void hr_cmd_begin(const char *program);

/* Begins, and runs the command that argv[1] names; for main. */
int hr_program_run(const struct hr_program *program, int argc, char **argv);

/* Prints `PROGRAM: WHAT (WHERE)`, or without the parentheses where WHERE is empty. HR_EXIT_INVALID. */
int hr_cmd_fail(const struct hr_problem *problem);

/* The same for a call that has set errno: "WHAT: why (WHERE)". */
int hr_cmd_fail_errno(const char *what, const char *where);

/* The same for a wrong use of a command: WHERE says how to get its help. */
__attribute__((format(printf, 2, 3))) int hr_cmd_usage(const char *command, const char *format, ...);

/* What getopt_long gives for an option that only the command knows: from HR_OPTION_OWN on, so that no letter is one. */
enum hr_option { HR_OPTION_END = -1, HR_OPTION_EXIT = -2, HR_OPTION_HELP = 256, HR_OPTION_VERSION, HR_OPTION_OWN };

/* The end of every command's table of options. */
#define HR_OPTIONS_COMMON                                                                           \
    {"help", no_argument, NULL, HR_OPTION_HELP}, {"version", no_argument, NULL, HR_OPTION_VERSION}, \
    {                                                                                               \
        0                                                                                           \
    }

/* The next option, as in `options`, or HR_OPTION_END. HR_OPTION_EXIT: --help or --version was answered, or an option
 * complained about, and the command is to return *ret_exit. */
int hr_cmd_option(int argc, char **argv, const struct option *options, const char *help, int *ret_exit);

/* Prints the program's version. HR_EXIT_DONE. */
int hr_cmd_version(void);

/* The version alone, as in 1.2.3. */
const char *hr_cmd_version_text(void);

#endif
