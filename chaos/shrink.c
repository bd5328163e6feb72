#include "chaos/shrink.h"

#include <string.h>

struct shrinking {
    const struct hr_sim_options *options;
    enum hr_check check; /* the invariant that is to be violated still */
    struct hr_shrunk *best;
};

/* All of `from` but those in [first, first + count). */
static enum hr_err copy_without(const struct hr_schedule *from, uint32_t first, uint32_t count,
                                struct hr_schedule *ret_to)
{
    *ret_to = (struct hr_schedule){0};
    for (uint32_t i = 0; i < from->count; i++) {
        bool is_left_out = i >= first && i < first + count;
        enum hr_err err = is_left_out ? HR_OK : hr_schedule_add(ret_to, &from->all[i]);
        if (err != HR_OK) {
            hr_schedule_deinit(ret_to);
            return err;
        }
    }
    return HR_OK;
}

static bool still_fails(struct shrinking *shrinking, const struct hr_schedule *schedule, hr_ns *ret_at)
{
    struct hr_sim_outcome outcome;
    struct hr_problem problem;
    shrinking->best->runs++;
    if (!hr_sim_run(shrinking->options, schedule, true, &outcome, &problem)) {
        return false;
    }
    bool fails = outcome.first == shrinking->check;
    *ret_at = fails ? outcome.verdicts[shrinking->check].first_at : *ret_at;
    hr_sim_outcome_deinit(&outcome);
    return fails;
}

/* Tries to do without a part. True: it is smaller now. */
static bool leave_out(struct shrinking *shrinking, uint32_t first, uint32_t count)
{
    struct hr_schedule smaller;
    struct hr_shrunk *best = shrinking->best;
    if (copy_without(&best->schedule, first, count, &smaller) != HR_OK) {
        return false;
    }
    if (!still_fails(shrinking, &smaller, &best->violated_at)) {
        hr_schedule_deinit(&smaller);
        return false;
    }
    hr_schedule_deinit(&best->schedule);
    best->schedule = smaller;
    return true;
}

/* Parts of half of it, then of a quarter, and so on to single faults, until no fault can be left out. */
static void minimize(struct shrinking *shrinking)
{
    struct hr_shrunk *best = shrinking->best;
    uint32_t part = best->schedule.count / 2 + 1;
    while (best->schedule.count > 0 && part > 0 && best->runs < HR_SHRINK_RUNS_MAX) {
        bool is_smaller = false;
        for (uint32_t first = 0; first < best->schedule.count && best->runs < HR_SHRINK_RUNS_MAX;) {
            if (leave_out(shrinking, first, part)) {
                is_smaller = true;
            } else {
                first += part;
            }
        }
        part = is_smaller && part == 1 ? 1 : part / 2;
    }
}

/* What begins after the violation had no part in it. */
static uint32_t count_before(const struct hr_schedule *schedule, hr_ns at)
{
    uint32_t count = 0;
    while (count < schedule->count && schedule->all[count].from <= at) {
        count++;
    }
    return count;
}

enum hr_err hr_shrink(const struct hr_sim_options *options, const struct hr_schedule *schedule,
                      const struct hr_sim_outcome *failed, struct hr_shrunk *ret_shrunk)
{
    hr_ns at = failed->verdicts[failed->first].first_at;
    uint32_t before = count_before(schedule, at);
    *ret_shrunk = (struct hr_shrunk){.violated_at = at};
    struct shrinking shrinking = {options, failed->first, ret_shrunk};
    enum hr_err err = copy_without(schedule, before, schedule->count - before, &ret_shrunk->schedule);
    if (err == HR_OK) {
        minimize(&shrinking);
    }
    return err;
}
