#include "tests/lib/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/u128.h"
#include "limiter/algorithm.h"
#include "limiter/civil.h"

/* ---- The definitions ---- */

/* Units of 1/N ns that the bucket lacks: for every past admission, what was admitted from it on, less what flowed back
 * since. The largest of these, for a full bucket holds no more than b. */
static hr_u128_wide bucket_debt(const struct history *history, const struct hr_rule *rule, hr_ns at)
{
    hr_u128_wide worst = 0, admitted = 0;
    for (size_t i = history->count; i-- > 0;) {
        admitted += (hr_u128_wide)history->events[i].cost * rule->period_ns;
        hr_u128_wide back = (hr_u128_wide)(at - history->events[i].at) * rule->rate;
        if (admitted > back && admitted - back > worst) {
            worst = admitted - back;
        }
    }
    return worst;
}

/* What was admitted in [begin, end]. */
static uint64_t admitted_in(const struct history *history, hr_ns begin, hr_ns end)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < history->count; i++) {
        bool is_in = history->events[i].at >= begin && history->events[i].at <= end;
        sum += is_in ? history->events[i].cost : 0;
    }
    return sum;
}

static uint64_t room_of(uint64_t capacity, uint64_t used)
{
    return capacity > used ? capacity - used : 0;
}

/* In units of 1/P. */
static hr_u128_wide sliding_weight(const struct history *history, const struct hr_rule *rule, hr_ns at)
{
    hr_ns period = (hr_ns)rule->period_ns, begin = at - at % period;
    uint64_t previous = admitted_in(history, begin - period, begin - 1);
    return (hr_u128_wide)previous * (uint64_t)(period - (at - begin)) +
           (hr_u128_wide)admitted_in(history, begin, at) * rule->period_ns;
}

static uint64_t quota_used(const struct history *history, const struct hr_rule *rule, hr_ns at)
{
    struct hr_period period = hr_period_at(rule->zone, rule->unit, hr_floor_div(at, HR_NS_PER_S));
    return admitted_in(history, period.begin_s * HR_NS_PER_S, period.end_s * HR_NS_PER_S - 1);
}

static uint64_t wide_room(hr_u128_wide capacity, hr_u128_wide used, uint64_t unit)
{
    return capacity > used ? (uint64_t)((capacity - used) / unit) : 0;
}

uint64_t history_room(const struct history *history, const struct hr_rule *rule, hr_ns at)
{
    hr_u128_wide full = (hr_u128_wide)rule->capacity * rule->period_ns;
    hr_ns period = (hr_ns)rule->period_ns;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return wide_room(full, bucket_debt(history, rule, at), rule->period_ns);
    case HR_FIXED_WINDOW:
        return room_of(rule->capacity, admitted_in(history, at - at % period, at));
    case HR_SLIDING_WINDOW:
        return wide_room(full, sliding_weight(history, rule, at), rule->period_ns);
    case HR_SLIDING_LOG:
        return room_of(rule->capacity, admitted_in(history, at - period + 1, at));
    case HR_QUOTA:
        return room_of(rule->capacity, quota_used(history, rule, at));
    case HR_CONCURRENCY:
        return room_of(rule->capacity, admitted_in(history, at - (hr_ns)rule->ttl_ns + 1, at));
    }
    return 0;
}

bool history_is_untouched(const struct history *history, const struct hr_rule *rule, hr_ns at)
{
    hr_ns period = (hr_ns)rule->period_ns;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return bucket_debt(history, rule, at) == 0;
    case HR_SLIDING_WINDOW:
        return sliding_weight(history, rule, at) == 0;
    case HR_FIXED_WINDOW:
        return admitted_in(history, at - at % period, at) == 0;
    case HR_SLIDING_LOG:
        return admitted_in(history, at - period + 1, at) == 0;
    case HR_QUOTA:
        return quota_used(history, rule, at) == 0;
    case HR_CONCURRENCY:
        return admitted_in(history, at - (hr_ns)rule->ttl_ns + 1, at) == 0;
    }
    return false;
}

/* ---- Side by side with the engine ---- */

struct side_by_side {
    const struct history_run *run;
    struct history history;
    union hr_state state;
    struct hr_context context;
    struct hr_quota_clock clock;
    struct hr_log_pool logs;
    struct hr_lease_pool leases;
    struct hr_log_block blocks[HISTORY_EVENTS_MAX + 1];
    struct hr_lease lease_memory[HISTORY_EVENTS_MAX + 1];
    uint32_t buckets[2 * HISTORY_EVENTS_MAX];
    int step;
};

static void expect(const struct side_by_side *side, const char *what, int64_t engine, int64_t definition)
{
    if (engine != definition) {
        const struct hr_rule *rule = &side->run->rule;
        fail_msg("algorithm %d, capacity %llu, rate %llu per %llu ns, seed %llu, step %d: %s is %lld, not %lld",
                 (int)rule->algorithm, (unsigned long long)rule->capacity, (unsigned long long)rule->rate,
                 (unsigned long long)rule->period_ns, (unsigned long long)side->run->seed, side->step, what,
                 (long long)engine, (long long)definition);
    }
}

static void expect_retry(const struct side_by_side *side, uint64_t cost, hr_ns now)
{
    const struct hr_rule *rule = &side->run->rule;
    int64_t retry_ms = hr_state_retry_ms(&side->state, rule, cost, &side->context);
    if (cost > rule->capacity) {
        expect(side, "the wait for more than there ever is", retry_ms, HR_NEVER_MS);
        return;
    }
    expect(side, "a wait that is positive", retry_ms > 0, true);
    hr_ns after = now + retry_ms * HR_NS_PER_MS;
    expect(side, "admission after the wait", true, history_room(&side->history, rule, after) >= cost);
    expect(side, "admission a millisecond too early", false,
           history_room(&side->history, rule, after - HR_NS_PER_MS) >= cost);
}

static void expect_reset(const struct side_by_side *side, hr_ns now)
{
    const struct hr_rule *rule = &side->run->rule;
    int64_t reset_ms = hr_state_reset_ms(&side->state, rule, &side->context);
    bool untouched = history_is_untouched(&side->history, rule, now);
    expect(side, "untouched", hr_state_is_untouched(&side->state, rule, &side->context), untouched);
    expect(side, "a reset at once", reset_ms == 0, untouched);
    hr_ns after = now + reset_ms * HR_NS_PER_MS;
    expect(side, "untouched after the reset", true, history_is_untouched(&side->history, rule, after));
    if (reset_ms > 0) {
        expect(side, "untouched a millisecond too early", false,
               history_is_untouched(&side->history, rule, after - HR_NS_PER_MS));
    }
    int64_t delay_ms = rule->algorithm == HR_LEAKY_BUCKET ? reset_ms : 0;
    expect(side, "delay", hr_state_delay_ms(&side->state, rule, &side->context), delay_ms);
}

static void take(struct side_by_side *side, uint64_t cost, hr_ns now)
{
    struct hr_grant grant = {.lease = {.hi = (uint64_t)side->step, .lo = (uint64_t)side->step}};
    hr_state_take(&side->state, &side->run->rule, cost, grant, &side->context);
    side->history.events[side->history.count++] = (struct history_event){now, cost};
}

static void step(struct side_by_side *side, hr_ns now, uint64_t cost)
{
    const struct hr_rule *rule = &side->run->rule;
    side->context.now = (struct hr_now){now, {now}};
    if (rule->algorithm == HR_QUOTA) {
        hr_quota_clock_set(&side->clock, rule, side->context.now.wall);
    }
    hr_state_advance(&side->state, rule, &side->context);
    uint64_t room = history_room(&side->history, rule, now);
    expect(side, "remaining", (int64_t)hr_state_remaining(&side->state, rule, &side->context), (int64_t)room);
    bool fits = hr_state_fits(&side->state, rule, cost, &side->context);
    expect(side, "admission", fits, cost <= room);
    expect_reset(side, now);
    if (!fits) {
        expect_retry(side, cost, now);
    } else if (cost > 0) {
        take(side, cost, now);
        expect(side, "remaining after", (int64_t)hr_state_remaining(&side->state, rule, &side->context),
               (int64_t)(room - cost));
        expect_reset(side, now);
    }
}

/* Often the same instant or the very next, sometimes far ahead. */
static hr_ns draw_pause(struct hr_rng *rng, hr_ns step_ns)
{
    switch (hr_rng_below(rng, 8)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return (hr_ns)hr_rng_below(rng, 8 * (uint64_t)step_ns);
    case 3:
        return step_ns;
    default:
        return (hr_ns)hr_rng_below(rng, 2 * (uint64_t)step_ns);
    }
}

/* Mostly small costs, sometimes one that can never be. */
static uint64_t draw_cost(struct hr_rng *rng, const struct history_run *run)
{
    if (hr_rng_chance(rng, 1, 16)) {
        return run->rule.capacity + hr_rng_below(rng, 3);
    }
    return hr_rng_below(rng, run->cost_max + 1);
}

void history_run(const struct history_run *run)
{
    static struct side_by_side side;
    side = (struct side_by_side){.run = run};
    side.context = (struct hr_context){.logs = &side.logs, .leases = &side.leases, .clock = &side.clock};
    hr_log_pool_init(&side.logs, side.blocks, HISTORY_EVENTS_MAX + 1);
    hr_lease_pool_init(&side.leases, side.lease_memory, HISTORY_EVENTS_MAX + 1, side.buckets);
    struct hr_rng rng = {run->seed};
    hr_ns now = run->start;
    for (side.step = 0; side.step < run->steps; side.step++) {
        step(&side, now, draw_cost(&rng, run));
        now += draw_pause(&rng, run->step_ns);
    }
}
