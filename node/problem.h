/* Problem: one clear line about what is wrong and where, for the person who can act.
 * Printed by main as `headroom: WHAT (WHERE)`. */
#ifndef HR_NODE_PROBLEM_H
#define HR_NODE_PROBLEM_H

#include <stdarg.h>
#include <stdbool.h>

struct hr_problem {
    char what[512];
    char where[512]; /* FILE:LINE:COLUMN, or as much of it as is known */
};

/* Fill in one part, cut to what fits; control bytes become '?', so that a line stays a line. */
__attribute__((format(printf, 2, 3))) void hr_problem_what(struct hr_problem *problem, const char *format, ...);
__attribute__((format(printf, 2, 3))) void hr_problem_where(struct hr_problem *problem, const char *format, ...);

/* Both parts at once; false, for a function that then has failed. With errno: "WHAT: why". */
bool hr_problem_set(struct hr_problem *problem, const char *where, const char *what);
bool hr_problem_errno(struct hr_problem *problem, const char *where, const char *what);

#endif
