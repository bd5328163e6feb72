/* Decisions as `headroom check` prints them: for people, a line that says what was decided and why, and a row for each
 * limit touched; for scripts, one line of JSON, the fields in the order of a replay's answers, then node and region.
 *
 * Thread: any. Memory: the stack. Whether all could be written is for the caller to ask of `out`. */
#ifndef HR_NODE_DECISION_TEXT_H
#define HR_NODE_DECISION_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "rpc/told.h"

struct hr_decision_look {
    bool peek;   /* nothing was consumed: the words say what would be */
    bool colour; /* a terminal that shows it */
};

void hr_decision_print(FILE *out, const struct hr_told_decision *decision, const struct hr_decision_look *look);

void hr_decision_print_json(FILE *out, const struct hr_told_decision *decision);

/* Does a person see colour here? NO_COLOR (no-color.org) and TERM=dumb say no. */
bool hr_colour_is_wanted(FILE *out);

#endif
