/* Disk: one simulated node's store. What is committed becomes durable only after a latency, one batch after another, as
 * a disk syncs; until then a crash loses it. It may be slow, full, or fail its syncs.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_DISK_H
#define HR_CHAOS_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/units.h"
#include "chaos/platter.h"
#include "storage/storage.h"

#define HR_SIM_BATCHES_MAX 4 /* that wait for their sync at once */

struct hr_sim_disk_state {
    hr_ns sync_min_ns, sync_max_ns; /* how long one batch takes */
    bool is_full;                   /* no put fits */
    bool is_failing;                /* every sync fails */
};

struct hr_sim_batch {
    uint64_t ticket;
    struct hr_store_batch batch; /* its memory is this struct's own */
};

struct hr_sim_disk {
    struct hr_platter platter;
    struct hr_sim_disk_state state;
    struct hr_rng rng;
    struct hr_sim_batch waiting[HR_SIM_BATCHES_MAX]; /* a ring */
    uint32_t first, count;
    uint64_t lost; /* batches, by crashes */
};

/* A new and empty one, with the latency of a healthy one. */
void hr_sim_disk_init(struct hr_sim_disk *disk, uint64_t seed);
void hr_sim_disk_deinit(struct hr_sim_disk *disk);

/* Takes a copy of a batch; *ret_took_ns later hr_sim_disk_sync is to be called. HR_E_FULL: too many wait.
 * HR_E_MEMORY. */
HR_MUST enum hr_err hr_sim_disk_commit(struct hr_sim_disk *disk, uint64_t ticket, const struct hr_store_batch *batch,
                                       hr_ns *ret_took_ns);

/* Syncs the oldest batch. False: a crash came first, there is none. */
bool hr_sim_disk_sync(struct hr_sim_disk *disk, struct hr_store_result *ret_result);

/* The process dies. What was not synced is lost, but for a first part of it that may have reached the platter: each
 * batch with even chances until one does not. */
void hr_sim_disk_crash(struct hr_sim_disk *disk);

#endif
