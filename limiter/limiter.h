/* Limiter: the hot path. A request in, a decision out; counters live in the memory that was handed in.
 *
 * Thread: one at a time (a shard owns its limiter). No heap, clock or entropy; `now` is a parameter. Everything is
 * bounded by the sizes given at start. */
#ifndef HR_LIMITER_LIMITER_H
#define HR_LIMITER_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "limiter/limit.h"
#include "limiter/limit_set.h"

struct hr_limiter;

struct hr_limiter_sizes {
    uint32_t counters_max;      /* live counters */
    uint32_t leases_max;        /* live leases of all concurrency limits */
    uint32_t log_blocks_max;    /* 256-byte blocks of all sliding logs, 20 entries each */
    uint32_t limits_max;        /* limits in a set, 1 to HR_LIMITS_MAX */
    uint32_t reserves_max;      /* live counters of durability reserved; 0 where nothing is saved */
    uint32_t shares_max;        /* counters of global caps (stake.h); 0: those are decided as if they were regional */
    bool saves;                 /* somebody drains what is to be saved (save.h); else durability is as `memory` */
    uint64_t first_id, last_id; /* first words of the ids that nearly all counters will have; 0 and 0: all there are */
};

enum hr_action { HR_ALLOW, HR_DELAY, HR_DENY };

/* One limit that the request touched. */
struct hr_row {
    const struct hr_limit *limit;
    bool allowed;            /* would this limit alone admit? */
    bool has_lease;          /* a concurrency limit that granted slots */
    bool wants_share;        /* a global cap denies, and this region holds less than the whole of it */
    struct hr_id128 counter; /* its identity */
    uint64_t remaining;
    int64_t retry_after_ms; /* 0 if allowed, HR_NEVER_MS if no wait helps */
    int64_t reset_after_ms;
    struct hr_id128 lease;
};

struct hr_decision {
    bool allowed;
    enum hr_action action;
    const struct hr_limit *decided_by; /* the first enforced limit that denies, or NULL */
    int64_t retry_after_ms;
    int64_t delay_ms;
    uint32_t row_count;
    struct hr_row rows[HR_TOUCHED_MAX];
};

/* How much memory these sizes want, for init to be handed. 0: the sizes are out of range. */
size_t hr_limiter_bytes(const struct hr_limiter_sizes *sizes);

/* Makes a limiter at the start of memory, which is borrowed for its life, zero-filled, and 64-byte aligned; NULL where
 * it is too small. It has no limits yet: every request is admitted. */
HR_MUST struct hr_limiter *hr_limiter_init(const struct hr_limiter_sizes *sizes, const struct hr_hash_key *secret,
                                           void *memory, size_t memory_bytes);

/* Puts a set in force from this call on, whole or not at all. Counters of a limit of the same name, key and algorithm
 * keep what they have spent; other changes of shape start afresh. The set is borrowed until the next one is loaded.
 * HR_E_TOO_MANY: more limits than sizes allow. */
HR_MUST enum hr_err hr_limiter_load(struct hr_limiter *limiter, const struct hr_limit_set *set, struct hr_now now);

/* Decides one request, all or nothing over the limits it touches. On error nothing was consumed:
 * HR_E_TOO_MANY: it touches more than HR_TOUCHED_MAX limits. HR_E_FULL: no room for a counter, lease or log entry, nor
 * among the next few hundred cells any to be had. HR_E_PENDING: a limit of durability reserved must first tell the
 * store (save.h); ask again when it has. Takes O(limits touched). */
HR_MUST enum hr_err hr_limiter_check(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now,
                                     struct hr_decision *ret_decision);

/* The same in two steps, for requests that arrived together. A counter out of many is a miss of the cache; the first
 * step finds out which counters a request touches and asks for their memory, the second decides:
 *
 *     for each request i of up to some 32:   hr_limiter_prepare(limiter, &requests[i], &prepared[i]);
 *     for each request i, in order:          hr_limiter_check_prepared(limiter, &requests[i], &prepared[i], now, ...);
 *
 * so the memory of all comes while each is prepared. The decisions are those of hr_limiter_check, whatever happens in
 * between: a request may be prepared and never decided, and one prepared before a load is looked at afresh. The
 * request is the same in both steps. A zero-filled hr_prepared is of no request yet, and as good as any. */
#define HR_PREPARED_TOUCHED_MAX 8 /* a request that touches more limits gains nothing */

struct hr_prepared {
    uint32_t generation; /* of the limits at the time */
    uint32_t count;
    bool is_known; /* count and the arrays say which counters the request touches */
    uint16_t limits[HR_PREPARED_TOUCHED_MAX];
    struct hr_id128 ids[HR_PREPARED_TOUCHED_MAX];
};

void hr_limiter_prepare(struct hr_limiter *limiter, const struct hr_request *request, struct hr_prepared *ret_prepared);

/* In between, when the memory of the counters has come: asks for that of their reserves (durability reserved). */
void hr_limiter_prepare_reserves(const struct hr_limiter *limiter, const struct hr_prepared *prepared);

HR_MUST enum hr_err hr_limiter_check_prepared(struct hr_limiter *limiter, const struct hr_request *request,
                                              const struct hr_prepared *prepared, struct hr_now now,
                                              struct hr_decision *ret_decision);

/* Decides a request by a limit given on the spot, whose counters go by a text: `limit` has a rule with a rate, and
 * lives as long as the decision. The request's attributes are not looked at. A counter keeps what it has spent when its
 * rule changes. Such counters are not saved. HR_E_TOO_MANY: too many different rules at a time. Else as check. */
HR_MUST enum hr_err hr_limiter_throttle(struct hr_limiter *limiter, const struct hr_limit *limit, struct hr_span key,
                                        const struct hr_request *request, struct hr_now now,
                                        struct hr_decision *ret_decision);

/* Gives back what an admitted request like this one took, in every limit that it touches; never above untouched. Slots
 * of concurrency limits end with their lease instead. HR_E_NOT_FOUND: there was nothing to give back. HR_E_TOO_MANY as
 * for check. */
HR_MUST enum hr_err hr_limiter_refund(struct hr_limiter *limiter, const struct hr_request *request, struct hr_now now);

/* Ends a lease early, or gives it its whole ttl again. False: there is no such lease (any more). */
bool hr_limiter_release(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now);
bool hr_limiter_renew(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now, int64_t *ret_ttl_ms);

/* Ends every lease that the request of this serial was given. False: it holds none (any more). */
bool hr_limiter_release_serial(struct hr_limiter *limiter, uint64_t serial, struct hr_now now);

/* Drops untouched counters among the next `cells` of the table, and brings those of replaced limits up to date.
 * Call it regularly: a full pass each few seconds keeps memory in step with what is live. */
void hr_limiter_sweep(struct hr_limiter *limiter, uint32_t cells, struct hr_now now);

/* What a limit of the set in force has decided since it is there. */
struct hr_tally hr_limiter_tally(const struct hr_limiter *limiter, uint32_t limit);

/* For status and tests. */
struct hr_limiter_usage {
    uint32_t counters, counters_max;
    uint32_t leases, leases_max;
    uint32_t log_blocks, log_blocks_max;
    uint32_t shares, shares_max;
};
uint64_t hr_limiter_cell_count(const struct hr_limiter *limiter); /* of the table: what a full pass of the sweep is */
struct hr_limiter_usage hr_limiter_usage(const struct hr_limiter *limiter);

#endif
