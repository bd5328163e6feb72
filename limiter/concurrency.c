#include "limiter/concurrency.h"

#include "base/defect.h"

static void unlink_lease(struct hr_concurrency *slots, struct hr_lease_pool *pool, uint32_t index)
{
    struct hr_lease *lease = &pool->leases[index];
    if (lease->previous != 0) {
        pool->leases[lease->previous].next = lease->next;
    } else {
        slots->head = lease->next;
    }
    if (lease->next != 0) {
        pool->leases[lease->next].previous = lease->previous;
    } else {
        slots->tail = lease->previous;
    }
}

/* Behind all that run out no later. From the tail, where a new lease belongs unless the ttl was shortened since. */
static void link_lease(struct hr_concurrency *slots, struct hr_lease_pool *pool, uint32_t index)
{
    struct hr_lease *lease = &pool->leases[index];
    uint32_t before = slots->tail;
    while (before != 0 && pool->leases[before].expires_at > lease->expires_at) {
        before = pool->leases[before].previous;
    }
    lease->previous = before;
    lease->next = before == 0 ? slots->head : pool->leases[before].next;
    if (before == 0) {
        slots->head = index;
    } else {
        pool->leases[before].next = index;
    }
    if (lease->next == 0) {
        slots->tail = index;
    } else {
        pool->leases[lease->next].previous = index;
    }
}

void hr_concurrency_end(struct hr_concurrency *slots, struct hr_lease_pool *pool, uint32_t lease)
{
    slots->held -= pool->leases[lease].slots;
    unlink_lease(slots, pool, lease);
    hr_lease_free(pool, lease);
}

void hr_concurrency_advance(struct hr_concurrency *slots, struct hr_lease_pool *pool, hr_ns now)
{
    while (slots->head != 0 && pool->leases[slots->head].expires_at <= now && !hr_defect(SLOT_STAYS)) {
        hr_concurrency_end(slots, pool, slots->head);
    }
}

uint64_t hr_concurrency_remaining(const struct hr_concurrency *slots, const struct hr_rule *rule)
{
    return rule->capacity > slots->held ? rule->capacity - slots->held : 0;
}

bool hr_concurrency_fits(const struct hr_concurrency *slots, const struct hr_rule *rule, uint64_t cost)
{
    return cost <= hr_concurrency_remaining(slots, rule);
}

void hr_concurrency_take(struct hr_concurrency *slots, const struct hr_rule *rule, struct hr_lease_pool *pool,
                         uint64_t cost, struct hr_grant grant, hr_ns now)
{
    uint32_t index = hr_lease_new(pool, grant.lease);
    struct hr_lease *lease = &pool->leases[index];
    lease->counter = grant.counter;
    cost -= hr_defect(SLOT_TWICE) && cost > 1;
    lease->slots = cost;
    lease->is_saved = grant.is_saved;
    lease->expires_at = now + (hr_ns)rule->ttl_ns;
    link_lease(slots, pool, index);
    hr_lease_mark_changed(pool, index);
    slots->held += cost;
}

/* Each lease holds at least one slot, so this walks at most `cost` of them (more only after N was lowered). */
int64_t hr_concurrency_retry_ms(const struct hr_concurrency *slots, const struct hr_rule *rule,
                                const struct hr_lease_pool *pool, uint64_t cost, hr_ns now)
{
    uint64_t needed = slots->held - (rule->capacity - cost);
    uint32_t index = slots->head;
    while (pool->leases[index].slots < needed) {
        needed -= pool->leases[index].slots;
        index = pool->leases[index].next;
    }
    return hr_ms_ceil(pool->leases[index].expires_at - now);
}

int64_t hr_concurrency_reset_ms(const struct hr_concurrency *slots, const struct hr_lease_pool *pool, hr_ns now)
{
    return slots->tail == 0 ? 0 : hr_ms_ceil(pool->leases[slots->tail].expires_at - now);
}

void hr_concurrency_renew(struct hr_concurrency *slots, const struct hr_rule *rule, struct hr_lease_pool *pool,
                          uint32_t lease, hr_ns now)
{
    unlink_lease(slots, pool, lease);
    pool->leases[lease].expires_at = now + (hr_ns)rule->ttl_ns;
    link_lease(slots, pool, lease);
    hr_lease_mark_changed(pool, lease);
}

void hr_concurrency_clear(struct hr_concurrency *slots, struct hr_lease_pool *pool)
{
    while (slots->head != 0) {
        hr_concurrency_end(slots, pool, slots->head);
    }
}
