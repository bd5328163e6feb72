/* Summary: what a replay came to, limit by limit, for people; or the same as one JSON object.
 *
 * A limit's row counts as the engine's own tally does (limiter.h): asked, the requests that touched it; admitted, those
 * that were admitted and that it had room for, which it was charged for; denied, those that it denied itself. What is
 * left of the asked was denied by others. The total counts decisions. Peeks consume nothing and are counted apart.
 * Thread: one. Memory: heap, one row for each limit. */
#ifndef HR_NODE_COMMAND_SUMMARY_H
#define HR_NODE_COMMAND_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "limiter/limiter.h"
#include "node/limits_yaml.h"

struct hr_summary;

/* The limits are borrowed. NULL: the heap is exhausted. Free accepts NULL. */
struct hr_summary *hr_summary_new(const struct hr_limits_file *limits);
void hr_summary_free(struct hr_summary *summary);

void hr_summary_count(struct hr_summary *summary, const struct hr_decision *decision, bool peek);
void hr_summary_count_release(struct hr_summary *summary);

/* Whether all could be written is for the caller to ask of `out`. */
void hr_summary_print(const struct hr_summary *summary, FILE *out);
void hr_summary_print_json(const struct hr_summary *summary, FILE *out);

#endif
