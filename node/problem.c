#include "node/problem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void keep_one_line(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            *text = '?';
        }
    }
}

void hr_problem_what(struct hr_problem *problem, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->what, sizeof(problem->what), format, args); /* a cut line is still a line */
    va_end(args);
    keep_one_line(problem->what);
}

void hr_problem_where(struct hr_problem *problem, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->where, sizeof(problem->where), format, args);
    va_end(args);
    keep_one_line(problem->where);
}

bool hr_problem_set(struct hr_problem *problem, const char *where, const char *what)
{
    hr_problem_what(problem, "%s", what);
    hr_problem_where(problem, "%s", where);
    return false;
}

bool hr_problem_errno(struct hr_problem *problem, const char *where, const char *what)
{
    hr_problem_what(problem, "%s: %s", what, strerror(errno));
    hr_problem_where(problem, "%s", where);
    return false;
}
