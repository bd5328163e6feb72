#include "node/command/replay.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A little sweeping as requests go by: untouched counters leave long before the table is full. The more so the less
 * room is left, so that a full table is rare where what is live leaves as little as a hundredth free. */
#define SWEEP_CELLS_LOW 4    /* for each request, up to three quarters full */
#define SWEEP_CELLS_HIGH 256 /* and where there is no room at all */

/* Sweeping the whole table for one request may cost as much again on the whole, and some passes in advance. */
#define PASSES_FREE 16

/* Whatever counters_max is, one sliding log of the largest limit fits (5,000 blocks). */
#define PARTS_MIN 8192

#define SET_ALIGNMENT 16

struct hr_replay {
    struct hr_limit_set set;
    void *set_memory;
    void *memory; /* the limiter's, mapped */
    size_t memory_bytes;
    struct hr_limiter *limiter;
    int64_t now_us;
    uint64_t request_count;
    uint64_t spent_cells; /* by sweeps of the whole table */
    struct hr_decision decision;
};

static struct hr_limiter_sizes sizes_for(uint32_t limit_count, uint32_t counters_max)
{
    uint32_t part = counters_max / 16 > PARTS_MIN ? counters_max / 16 : PARTS_MIN;
    return (struct hr_limiter_sizes){
        .counters_max = counters_max,
        .leases_max = part,
        .log_blocks_max = part,
        .limits_max = limit_count > 0 ? limit_count : 1,
    };
}

static bool build_set(struct hr_replay *replay, const struct hr_limits_file *limits, struct hr_problem *problem)
{
    size_t bytes = hr_limit_set_bytes(limits->limits, limits->limit_count);
    bytes = (bytes / SET_ALIGNMENT + 1) * SET_ALIGNMENT; /* aligned_alloc wants a multiple, and more than none */
    replay->set_memory = aligned_alloc(SET_ALIGNMENT, bytes);
    if (replay->set_memory == NULL) {
        hr_problem_what(problem, "no memory for %u limits", limits->limit_count);
        return false;
    }
    enum hr_err err = hr_limit_set_build(&replay->set, limits->limits, limits->limit_count, replay->set_memory, bytes);
    if (err != HR_OK) {
        hr_problem_what(problem, "the limits cannot be used together: %s", hr_err_text(err));
    }
    return err == HR_OK;
}

/* Without MAP_NORESERVE the kernel may refuse address space that is never touched; with huge pages one counter would
 * make two megabytes real. */
static bool map_memory(struct hr_replay *replay, const struct hr_limiter_sizes *sizes, struct hr_problem *problem)
{
    size_t bytes = hr_limiter_bytes(sizes);
    if (bytes == 0) {
        hr_problem_what(problem, "room for %u counters is out of range", sizes->counters_max);
        return false;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        hr_problem_what(problem, "no address space for %u counters (%zu bytes): lower --counters", sizes->counters_max,
                        bytes);
        return false;
    }
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, rightly */
    replay->memory = memory;
    replay->memory_bytes = bytes;
    return true;
}

static bool start_limiter(struct hr_replay *replay, const struct hr_limiter_sizes *sizes, struct hr_problem *problem)
{
    const struct hr_hash_key secret = {{0}}; /* nothing here is secret, and leases must be the same in every run */
    const struct hr_now start = {0, {0}};
    replay->limiter = hr_limiter_init(sizes, &secret, replay->memory, replay->memory_bytes);
    if (replay->limiter == NULL || hr_limiter_load(replay->limiter, &replay->set, start) != HR_OK) {
        hr_problem_what(problem, "the limiter cannot be started with room for %u counters", sizes->counters_max);
        return false;
    }
    return true;
}

struct hr_replay *hr_replay_open(const struct hr_limits_file *limits, uint32_t counters_max,
                                 struct hr_problem *ret_problem)
{
    struct hr_replay *replay = calloc(1, sizeof(*replay));
    if (replay == NULL) {
        hr_problem_what(ret_problem, "no memory");
        return NULL;
    }
    const struct hr_limiter_sizes sizes = sizes_for(limits->limit_count, counters_max);
    if (!build_set(replay, limits, ret_problem) || !map_memory(replay, &sizes, ret_problem) ||
        !start_limiter(replay, &sizes, ret_problem)) {
        hr_replay_close(replay);
        return NULL;
    }
    return replay;
}

void hr_replay_close(struct hr_replay *replay)
{
    if (replay == NULL) {
        return;
    }
    if (replay->memory != NULL) {
        (void)munmap(replay->memory, replay->memory_bytes); /* a whole mapping of our own: cannot fail */
    }
    free(replay->set_memory);
    free(replay);
}

/* Virtual time never runs backwards, and both clocks show the same. */
static struct hr_now advance(struct hr_replay *replay, int64_t at_us)
{
    if (at_us > replay->now_us) {
        replay->now_us = at_us;
    }
    int64_t ns = replay->now_us * HR_NS_PER_US;
    return (struct hr_now){ns, {ns}};
}

static void explain_full(const struct hr_replay *replay, struct hr_problem *problem)
{
    struct hr_limiter_usage usage = hr_limiter_usage(replay->limiter);
    const char *what = "counters";
    uint32_t max = usage.counters_max;
    if (usage.leases == usage.leases_max) {
        what = "leases";
        max = usage.leases_max;
    } else if (usage.counters < usage.counters_max) {
        what = "blocks of sliding logs";
        max = usage.log_blocks_max;
    }
    hr_problem_what(problem, "no room for more than %u %s: raise --counters", max, what);
}

static void explain(const struct hr_replay *replay, enum hr_err err, struct hr_problem *problem)
{
    if (err == HR_E_FULL) {
        explain_full(replay, problem);
    } else if (err == HR_E_TOO_MANY) {
        hr_problem_what(problem, "the request touches more than %d limits", HR_TOUCHED_MAX);
    } else {
        hr_problem_what(problem, "the request cannot be decided: %s", hr_err_text(err));
    }
}

/* From SWEEP_CELLS_LOW at three quarters to SWEEP_CELLS_HIGH at the brim. */
static uint32_t cells_for(uint32_t used, uint32_t max)
{
    uint64_t calm = (uint64_t)max * 3 / 4;
    if (used <= calm) {
        return SWEEP_CELLS_LOW;
    }
    return SWEEP_CELLS_LOW + (uint32_t)((used - calm) * (SWEEP_CELLS_HIGH - SWEEP_CELLS_LOW) / (max - calm));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void sweep_some(struct hr_replay *replay, struct hr_now now)
{
    struct hr_limiter_usage usage = hr_limiter_usage(replay->limiter);
    uint32_t cells = cells_for(usage.counters, usage.counters_max);
    cells = larger(cells, cells_for(usage.leases, usage.leases_max));
    cells = larger(cells, cells_for(usage.log_blocks, usage.log_blocks_max));
    hr_limiter_sweep(replay->limiter, cells, now);
}

/* Drops all that is untouched. False, and nothing done: a table that fills up again and again, because what is live
 * leaves next to no room, would be swept for nearly each request, and a replay take hours. */
static bool sweep_all(struct hr_replay *replay, struct hr_now now)
{
    /* A cell that is dropped has the next one move up: its place is looked at once more. */
    uint64_t cells = hr_limiter_cell_count(replay->limiter) + hr_limiter_usage(replay->limiter).counters;
    if (replay->spent_cells > replay->request_count * SWEEP_CELLS_HIGH + cells * PASSES_FREE) {
        return false;
    }
    replay->spent_cells += cells;
    hr_limiter_sweep(replay->limiter, (uint32_t)cells, now); /* at most 2.25 times HR_REPLAY_COUNTERS_MAX */
    return true;
}

/* A check sweeps no more than a bounded part of the table. Here nobody waits: before a replay is stopped, all that is
 * untouched has made room. */
static enum hr_err check(struct hr_replay *replay, const struct hr_request *request, struct hr_now now)
{
    enum hr_err err = hr_limiter_check(replay->limiter, request, now, &replay->decision);
    if (err != HR_E_FULL || !sweep_all(replay, now)) {
        return err;
    }
    return hr_limiter_check(replay->limiter, request, now, &replay->decision);
}

enum hr_err hr_replay_check(struct hr_replay *replay, const struct hr_request *request, int64_t at_us,
                            const struct hr_decision **ret_decision, struct hr_problem *ret_problem)
{
    struct hr_now now = advance(replay, at_us);
    replay->request_count++;
    sweep_some(replay, now);
    enum hr_err err = check(replay, request, now);
    if (err != HR_OK) {
        explain(replay, err, ret_problem);
        return err;
    }
    *ret_decision = &replay->decision;
    return HR_OK;
}

bool hr_replay_release(struct hr_replay *replay, uint64_t serial, int64_t at_us)
{
    return hr_limiter_release_serial(replay->limiter, serial, advance(replay, at_us));
}
