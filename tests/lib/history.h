/* History: what each algorithm promises, computed the slow way from a list of all admissions, for tests.
 *
 * Nothing here is shared with the engine but the calendar: sums over the whole past, straight from the definitions of
 * the contract. A run drives a counter and the history side by side through random requests and compares every number.
 */
#ifndef HR_TESTS_LIB_HISTORY_H
#define HR_TESTS_LIB_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/limit.h"

#define HISTORY_EVENTS_MAX 512

struct history_event {
    hr_ns at;
    uint64_t cost;
};

struct history {
    size_t count;
    struct history_event events[HISTORY_EVENTS_MAX];
};

/* The largest cost that is admitted at `at`, no event lying after it. */
uint64_t history_room(const struct history *history, const struct hr_rule *rule, hr_ns at);

/* Is nothing of the past left at `at`? */
bool history_is_untouched(const struct history *history, const struct hr_rule *rule, hr_ns at);

/* `steps` random requests of one counter, at random times about step_ns apart, compared with the history after each.
 * Fails the test, naming rule and seed, where any number differs. steps is at most HISTORY_EVENTS_MAX. */
struct history_run {
    struct hr_rule rule;
    hr_ns start, step_ns;
    uint64_t cost_max;
    int steps;
    uint64_t seed;
};
void history_run(const struct history_run *run);

#endif
