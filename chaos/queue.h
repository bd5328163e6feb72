/* Queue: what is to happen in a simulation, earliest first; what falls on one instant happens in the order in which it
 * was put there, so that a run never depends on how a heap is shaped (libuv's timers have the same second key).
 *
 * Thread: one at a time. Memory: heap; it grows to what was ever waiting at once. */
#ifndef HR_CHAOS_QUEUE_H
#define HR_CHAOS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/units.h"

struct hr_sim_event {
    hr_ns at; /* true time */
    uint64_t order;
    uint32_t kind; /* what `who` and `what` mean is for whoever put it there */
    uint32_t who;
    uint64_t what;
};

struct hr_queue {
    struct hr_sim_event *heap;
    uint32_t count, room;
    uint64_t order;
};

/* The event's order is filled in. HR_E_MEMORY: it was not put. O(log count). */
HR_MUST enum hr_err hr_queue_put(struct hr_queue *queue, struct hr_sim_event event);

/* Takes the earliest out. False: there is none. O(log count). */
bool hr_queue_take(struct hr_queue *queue, struct hr_sim_event *ret_event);

void hr_queue_deinit(struct hr_queue *queue);

#endif
