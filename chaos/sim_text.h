/* Sim text: an outcome for people, and as JSON for scripts. Functions of the outcome alone.
 *
 * Thread: one at a time. Whether all could be written is for the caller to ask of `out`. */
#ifndef HR_CHAOS_SIM_TEXT_H
#define HR_CHAOS_SIM_TEXT_H

#include <stdio.h>

#include "chaos/sim.h"

/* One run, as the report and the JSON show it. */
struct hr_sim_told {
    const struct hr_sim_options *options;
    const struct hr_schedule *schedule;
    const struct hr_sim_outcome *outcome;
    const char *limits_name; /* the file's path, or what stands for it */
    const char *command;     /* that repeats it */
};

/* The rows of all invariants, and what happened. */
void hr_sim_print(const struct hr_sim_told *told, FILE *out);

void hr_sim_print_json(const struct hr_sim_told *told, FILE *out);

/* (report_html.c) The same with timelines, as one page that needs nothing else. */
void hr_sim_print_html(const struct hr_sim_told *told, FILE *out);

#endif
