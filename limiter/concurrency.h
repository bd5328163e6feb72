/* Concurrency: at most N slots held at once. Each admission is a lease that ends by release or by its ttl unless it is
 * renewed.
 *
 * Thread: the caller's. Pure. Same conditions as fixed_window.h. */
#ifndef HR_LIMITER_CONCURRENCY_H
#define HR_LIMITER_CONCURRENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/lease.h"
#include "limiter/limit.h"

struct hr_concurrency {
    uint32_t head, tail; /* leases of this counter, the first to run out first; 0: none */
    uint64_t held;       /* slots of all of them */
};

/* Who is given a lease, and by which counter. */
struct hr_grant {
    struct hr_id128 lease, counter;
    bool is_saved; /* does the lease outlive the process? */
};

/* Ends the leases whose ttl is over. */
void hr_concurrency_advance(struct hr_concurrency *slots, struct hr_lease_pool *pool, hr_ns now);
bool hr_concurrency_fits(const struct hr_concurrency *slots, const struct hr_rule *rule, uint64_t cost);

/* Requires: cost (1 or more) fits, a lease is available, and none has this id. */
void hr_concurrency_take(struct hr_concurrency *slots, const struct hr_rule *rule, struct hr_lease_pool *pool,
                         uint64_t cost, struct hr_grant grant, hr_ns now);
uint64_t hr_concurrency_remaining(const struct hr_concurrency *slots, const struct hr_rule *rule);

/* Until cost (1 to N, does not fit) fits, if no lease is renewed; until all leases ran out. */
int64_t hr_concurrency_retry_ms(const struct hr_concurrency *slots, const struct hr_rule *rule,
                                const struct hr_lease_pool *pool, uint64_t cost, hr_ns now);
int64_t hr_concurrency_reset_ms(const struct hr_concurrency *slots, const struct hr_lease_pool *pool, hr_ns now);

/* Ends one lease of this counter, or starts its ttl anew. */
void hr_concurrency_end(struct hr_concurrency *slots, struct hr_lease_pool *pool, uint32_t lease);
void hr_concurrency_renew(struct hr_concurrency *slots, const struct hr_rule *rule, struct hr_lease_pool *pool,
                          uint32_t lease, hr_ns now);

/* Ends all. */
void hr_concurrency_clear(struct hr_concurrency *slots, struct hr_lease_pool *pool);

#endif
