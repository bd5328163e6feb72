/* Schedule: which faults strike a simulated cluster, where, and from when until when. It is drawn from a seed, or read
 * from a text that a person may write or keep:
 *
 *     # from_ms  for_ms  kind         where     number
 *       12500    30000   cut          eu us
 *       14000    5000    crash        us-2
 *       20000    60000   loss         eu ap     200000
 *
 * Whatever strikes is undone when its time is over: at every instant the cluster's condition is that of a healthy one,
 * and what the faults of that instant add to it. So any of a schedule's lines may be left out, which is how a failing
 * one is made small.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_SCHEDULE_H
#define HR_CHAOS_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/span.h"
#include "base/units.h"
#include "chaos/place.h"
#include "node/problem.h"

/* HR_STRIKE_ before it in C, name, places, unit of the number or "", what it does */
#define HR_STRIKE_LIST(X)                                                                             \
    X(CRASH, "crash", 1, "", "the process is killed, and started again when the time is over")        \
    X(STOP, "stop", 1, "", "the process is stopped cleanly, and started again when the time is over") \
    X(PAUSE, "pause", 1, "", "the process stands still, as on SIGSTOP; its clocks go on")             \
    X(SLOW, "slow", 1, "us", "each request waits this long before it is looked at")                   \
    X(STEP_WALL, "step-wall", 1, "ms", "the wall clock is stepped, and back when the time is over")   \
    X(DRIFT, "drift", 1, "ppm", "the steady clock runs too fast, or too slow where negative")         \
    X(DISK_SLOW, "disk-slow", 1, "ms", "each sync of the disk takes this long")                       \
    X(DISK_FAIL, "disk-fail", 1, "", "each sync of the disk fails")                                   \
    X(DISK_FULL, "disk-full", 1, "", "no record fits on the disk")                                    \
    X(CUT, "cut", 2, "", "nothing passes between two places")                                         \
    X(CUT_ONE_WAY, "cut-one-way", 2, "", "nothing passes from the first place to the second")         \
    X(LOSS, "loss", 2, "ppm", "packets between two places are lost")                                  \
    X(DELAY, "delay", 2, "ms", "packets between two places take longer")                              \
    X(TWICE, "twice", 2, "ppm", "packets between two places arrive twice")                            \
    X(OVERTAKE, "overtake", 2, "ppm", "packets between two places arrive behind later ones")          \
    X(NARROW, "narrow", 2, "B/s", "only so many bytes a second pass between two places, each way")    \
    X(CLOG, "clog", 2, "", "packets between two places are held back until the time is over")         \
    X(SWIZZLE, "swizzle", 1, "",                                                                      \
      "a node's links are clogged; the nodes of a region in turn, and freed in another order")

enum hr_strike {
#define X(strike, name, places, unit, text) HR_STRIKE_##strike,
    HR_STRIKE_LIST(X)
#undef X
        HR_STRIKE_COUNT,
};

struct hr_strike_form {
    const char *name;
    uint32_t places;
    const char *unit; /* empty: it has no number */
    const char *text;
};
extern const struct hr_strike_form hr_strike_forms[HR_STRIKE_COUNT];

struct hr_striking {
    hr_ns from, until; /* since the run began */
    enum hr_strike strike;
    struct hr_sim_place places[2];
    int64_t number;
};

#define HR_SCHEDULE_MAX 65536

struct hr_schedule {
    struct hr_striking *all; /* in the order of `from` */
    uint32_t count, room;
};

/* What a seed's schedule is drawn from. */
struct hr_schedule_wish {
    struct hr_sim_shape shape;
    hr_ns from, until; /* nothing strikes before or after */
    uint64_t seed;
    uint32_t strikes; /* bits of enum hr_strike that may be drawn */
};

/* Draws it: which of the strikes this seed has at all, how often, how long and how hard. HR_E_MEMORY. */
HR_MUST enum hr_err hr_schedule_draw(struct hr_schedule *schedule, const struct hr_schedule_wish *wish);

/* HR_E_MEMORY; HR_E_TOO_MANY: HR_SCHEDULE_MAX are there. */
HR_MUST enum hr_err hr_schedule_add(struct hr_schedule *schedule, const struct hr_striking *striking);

/* Both forms of one text. False: *ret_problem says what is wrong and in which line of `path`. */
HR_MUST bool hr_schedule_parse(struct hr_schedule *schedule, struct hr_span text, const char *path,
                               struct hr_sim_shape shape, struct hr_problem *ret_problem);
void hr_schedule_print(const struct hr_schedule *schedule, struct hr_sim_shape shape, FILE *out);

void hr_striking_print(const struct hr_striking *striking, struct hr_sim_shape shape, FILE *out);

/* False: there is no strike of that name. */
bool hr_strike_find(struct hr_span name, enum hr_strike *ret_strike);

void hr_schedule_deinit(struct hr_schedule *schedule);

#endif
