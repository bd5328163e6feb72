/* Page: what the reports of `sim` and `run` are made of: one file of HTML that needs nothing else, light or dark as the
 * reader's system is, and printable. Numbers of the charts are whole: no page depends on a machine's floating point.
 *
 * Thread: any. Memory: the stack. Whether all could be written is for the caller to ask of `out`. */
#ifndef HR_CHAOS_PAGE_H
#define HR_CHAOS_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "chaos/sim.h"
#include "node/histogram.h"
#include "node/problem.h"

/* --- text --- */

void hr_page_text(struct hr_span text, FILE *out); /* with what HTML would take for its own escaped */
void hr_page_whole(uint64_t value, FILE *out);     /* 1234567 as 1,234,567 */
void hr_page_time(hr_ns time, FILE *out);          /* 90 s, 5 min, 2 h 30 min */

/* --- the frame --- */

/* Up to the heading, which is `title`; a paragraph about it is to follow, and then the badge. */
void hr_page_begin(const char *title, FILE *out);
void hr_page_badge(bool has_held, const char *verdict, FILE *out); /* ends the heading, and begins the facts */
void hr_page_fact(uint64_t value, const char *what, FILE *out);
void hr_page_facts_end(FILE *out);
void hr_page_end(FILE *out);

/* A whole page, as put prints it, into a file. False: it could not be written, and *ret_problem says why. */
HR_MUST bool hr_page_write(const char *path, void (*put)(const void *of, FILE *out), const void *of,
                           struct hr_problem *ret_problem);

/* A table's beginning, up to its first row. columns: "Name", or ">Name" where numbers are below it. */
void hr_page_table(const char *id, const char *const *columns, uint32_t count, FILE *out);
void hr_page_table_end(FILE *out);

/* "Latency, by phase": a row for each. */
void hr_page_latency(const char *const *phases, const struct hr_histogram *latency, uint32_t count, FILE *out);

/* --- charts --- */

/* One fault. Below each chart is a lane for each of these kinds. */
enum hr_page_lane { HR_PAGE_PROCESS, HR_PAGE_CLOCK, HR_PAGE_DISK, HR_PAGE_NETWORK, HR_PAGE_LANES };

struct hr_page_fault {
    hr_ns from, until;
    enum hr_page_lane lane;
    char title[96]; /* plain */
};

/* What all charts of a page have in common. */
struct hr_page_time_axis {
    hr_ns lasts;
    uint32_t slots;   /* 1 to HR_SIM_SLOTS, of equal length */
    uint64_t slot_ms; /* by which costs become rates */
    uint32_t phase_count;
    const char *const *phases;
    const hr_ns *phase_begins;
    uint32_t fault_count;
    struct hr_page_fault (*fault_at)(const void *of, uint32_t index); /* in the order of beginnings */
    const void *of;
};

struct hr_page_chart {
    const struct hr_page_time_axis *time;
    const struct hr_sim_slot *slots;
    uint64_t burst;        /* what may be admitted at once */
    uint64_t line_milli;   /* what may be admitted for long, in thousandths a second; 0: it has no rate */
    uint32_t region_count; /* of a cap over all of them, whose parts are told apart; else 0 */
    const char *regions[HR_SIM_REGIONS_MAX]; /* their names */
};

/* The legend of all charts; then each, within a card that its caption has begun. */
void hr_page_legend(FILE *out);
void hr_page_card(struct hr_span title, FILE *out); /* a caption is to follow, as a part of a paragraph */
void hr_page_chart(const struct hr_page_chart *chart, FILE *out);

#endif
