/* Down time: how long a node was away, by a clock that nobody can step.
 *
 * Records carry the steady time of the process that wrote them. At its start each process writes down how its steady
 * time relates to the time since the machine's boot, and which boot that is. A later process of the same boot knows
 * from that exactly how much time has passed since any record, whatever was done to the machine's clock meanwhile.
 * After a reboot there is only the machine's clock to go by: then it is believed, but never to say less than the time
 * since boot.
 *
 * Thread: one at a time. Reads the machine's clocks, and the store. */
#ifndef HR_NODE_DOWN_TIME_H
#define HR_NODE_DOWN_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "node/clock.h"
#include "node/problem.h"
#include "storage/storage.h"

struct hr_down_time {
    bool is_same_boot;
    hr_ns old_now; /* what the old process's steady time would be now */
    int64_t since_boot_ns;
};

/* What the last process wrote down. Within one boot this one's steady time goes on where that one's would be: the clock
 * is set so, and records of several processes have one time. Before anything else is told the time. Where there is
 * nothing written, its records (there are none) are taken as after a reboot. */
bool hr_down_time_read(struct hr_store *store, struct hr_clock *clock, struct hr_down_time *ret_down,
                       struct hr_problem *ret_problem);

/* Puts it into a batch, for the next process. HR_E_FULL: no room there. */
HR_MUST enum hr_err hr_down_time_put(const struct hr_clock *clock, struct hr_store_batch *batch);

/* How long ago a record of this steady time was written, in nanoseconds, 0 or more. */
int64_t hr_down_time_since(const struct hr_down_time *down, hr_ns saved_at);

#endif
