/* Model: one counter as the page of limits defines it, and no more: what an independent checker keeps, to hold the
 * answers of a node against. It shares no code with the limiter and none of its tricks: a bucket is a debt that drains
 * (Lindley's recursion, whose value is the most that any interval up to now has had too much), a log is a list.
 *
 * Time is the deciding node's own, both clocks. Thread: one at a time. Memory: heap, for lists alone. */
#ifndef HR_CHAOS_MODEL_H
#define HR_CHAOS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/u128.h"
#include "base/units.h"
#include "limiter/limit.h"

/* One entry of a sliding log, or one lease. */
struct hr_model_entry {
    hr_ns at; /* when it came; a lease: when it ends */
    uint64_t cost;
    struct hr_id128 lease;
};

/* What a counter has spent, by the form of its rule. */
struct hr_model {
    union {
        struct {
            struct hr_u128 debt;  /* cost times period, less what has drained */
            struct hr_u128 worst; /* what it may be at most, since a crash: no more again once both are 0, or full */
            hr_ns at;             /* as of then */
        } bucket;
        struct {
            int64_t index; /* which window */
            uint64_t previous, current;
        } window;
        struct {
            int64_t first, last; /* numbers of the periods that it may stand in; but after a step of the clock, one */
            uint64_t used;       /* in all of them */
        } quota;
        struct {
            struct hr_model_entry *list;
            uint64_t held;               /* the sum of their costs */
            uint32_t first, count, room; /* list[first, first + count) */
        } list;
    };
};

/* Zero-filled it is untouched. */
void hr_model_deinit(struct hr_model *model, const struct hr_rule *rule);

/* To now: first of all, before each of the others. */
void hr_model_advance(struct hr_model *model, const struct hr_rule *rule, struct hr_now now);

/* A quota's wall clock has shown `latest` once, and was stepped back since: a counter may stand in any period up to
 * that one, and in each it may be spent once. No-op for other rules. */
void hr_model_loosen(struct hr_model *model, const struct hr_rule *rule, struct hr_wall latest);

/* A bucket's node has started after a crash: its debt may be anything up to a full one. No-op for other rules, which
 * forget by themselves. */
void hr_model_doubt(struct hr_model *model, const struct hr_rule *rule);

/* Is it known exactly what was spent? Of other rules than buckets: true. */
bool hr_model_is_settled(const struct hr_model *model, const struct hr_rule *rule);

bool hr_model_fits(const struct hr_model *model, const struct hr_rule *rule, uint64_t cost, struct hr_now now);

/* Whether it fits or not. The lease is that of a concurrency limit. HR_E_MEMORY. */
HR_MUST enum hr_err hr_model_charge(struct hr_model *model, const struct hr_rule *rule, uint64_t cost,
                                    struct hr_now now, struct hr_id128 lease);

/* As if a request had never been charged, or as little more than that as can be told. */
void hr_model_forgive(struct hr_model *model, const struct hr_rule *rule, uint64_t cost, struct hr_id128 lease);

/* False: there is no such lease. */
bool hr_model_release(struct hr_model *model, struct hr_id128 lease);

uint64_t hr_model_remaining(const struct hr_model *model, const struct hr_rule *rule, struct hr_now now);

/* How long what was spent counts at most, where nothing more is spent; INT64_MAX: there is no such time. */
hr_ns hr_model_drain_ns(const struct hr_rule *rule);

#endif
