#include "limiter/algorithm.h"

#include <assert.h>

#include "base/defect.h"

static_assert(sizeof(union hr_state) == 24, "the table counts on it (table.h)");

void hr_state_advance(union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return; /* an arrival time says all: nothing happens as time passes */
    case HR_FIXED_WINDOW:
        hr_fixed_window_advance(&state->fixed_window, rule, now);
        return;
    case HR_SLIDING_WINDOW:
        hr_sliding_window_advance(&state->sliding_window, rule, now);
        if (hr_defect(WINDOW_FORGETS)) {
            state->sliding_window.previous = 0;
        }
        return;
    case HR_SLIDING_LOG:
        now += hr_defect(LOG_FORGETS) ? (hr_ns)rule->period_ns / 2 : 0;
        hr_sliding_log_advance(&state->sliding_log, rule, context->logs, now);
        return;
    case HR_QUOTA:
        hr_quota_advance(&state->quota, context->clock);
        return;
    case HR_CONCURRENCY:
        hr_concurrency_advance(&state->concurrency, context->leases, now);
        return;
    }
}

bool hr_state_fits(const union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                   const struct hr_context *context)
{
    if (cost == 0) {
        return true;
    }
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return hr_gcra_fits(&state->gcra, rule, cost, now);
    case HR_FIXED_WINDOW:
        return hr_fixed_window_fits(&state->fixed_window, rule, cost);
    case HR_SLIDING_WINDOW:
        return hr_sliding_window_fits(&state->sliding_window, rule, cost, now);
    case HR_SLIDING_LOG:
        return hr_sliding_log_fits(&state->sliding_log, rule, cost);
    case HR_QUOTA:
        return hr_quota_fits(&state->quota, rule, cost);
    case HR_CONCURRENCY:
        return hr_concurrency_fits(&state->concurrency, rule, cost);
    }
    return false;
}

void hr_state_take(union hr_state *state, const struct hr_rule *rule, uint64_t cost, struct hr_grant grant,
                   const struct hr_context *context)
{
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        hr_gcra_take(&state->gcra, rule, hr_defect(FREE_TOKENS) ? cost > 0 : cost, now);
        return;
    case HR_FIXED_WINDOW:
        hr_fixed_window_take(&state->fixed_window, cost);
        return;
    case HR_SLIDING_WINDOW:
        hr_sliding_window_take(&state->sliding_window, cost);
        return;
    case HR_SLIDING_LOG:
        hr_sliding_log_take(&state->sliding_log, context->logs, cost, now);
        return;
    case HR_QUOTA:
        hr_quota_take(&state->quota, cost);
        return;
    case HR_CONCURRENCY:
        hr_concurrency_take(&state->concurrency, rule, context->leases, cost, grant, now);
        return;
    }
}

void hr_state_give_back(union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                        const struct hr_context *context)
{
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        hr_gcra_give_back(&state->gcra, rule, cost, context->now.steady);
        return;
    case HR_FIXED_WINDOW:
        hr_fixed_window_give_back(&state->fixed_window, cost);
        return;
    case HR_SLIDING_WINDOW:
        hr_sliding_window_give_back(&state->sliding_window, cost);
        return;
    case HR_SLIDING_LOG:
        hr_sliding_log_give_back(&state->sliding_log, context->logs, cost);
        return;
    case HR_QUOTA:
        hr_quota_give_back(&state->quota, cost);
        return;
    case HR_CONCURRENCY:
        return;
    }
}

struct hr_room hr_state_needs_room(const union hr_state *state, const struct hr_rule *rule,
                                   const struct hr_context *context)
{
    struct hr_room room = {0};
    if (rule->algorithm == HR_SLIDING_LOG) {
        room.log_blocks = hr_sliding_log_needs_block(&state->sliding_log, context->logs, context->now.steady);
    }
    room.leases = rule->algorithm == HR_CONCURRENCY;
    return room;
}

uint64_t hr_state_remaining(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return hr_gcra_remaining(&state->gcra, rule, now);
    case HR_FIXED_WINDOW:
        return hr_fixed_window_remaining(&state->fixed_window, rule);
    case HR_SLIDING_WINDOW:
        return hr_sliding_window_remaining(&state->sliding_window, rule, now);
    case HR_SLIDING_LOG:
        return hr_sliding_log_remaining(&state->sliding_log, rule);
    case HR_QUOTA:
        return hr_quota_remaining(&state->quota, rule);
    case HR_CONCURRENCY:
        return hr_concurrency_remaining(&state->concurrency, rule);
    }
    return 0;
}

int64_t hr_state_retry_ms(const union hr_state *state, const struct hr_rule *rule, uint64_t cost,
                          const struct hr_context *context)
{
    if (cost > rule->capacity) {
        return HR_NEVER_MS;
    }
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return hr_gcra_retry_ms(&state->gcra, rule, cost, now);
    case HR_FIXED_WINDOW:
        return hr_fixed_window_end_ms(&state->fixed_window, rule, now);
    case HR_SLIDING_WINDOW:
        return hr_sliding_window_retry_ms(&state->sliding_window, rule, cost, now);
    case HR_SLIDING_LOG:
        return hr_sliding_log_retry_ms(&state->sliding_log, rule, context->logs, cost, now);
    case HR_QUOTA:
        return hr_quota_end_ms(&state->quota, rule, context->clock, context->now.wall);
    case HR_CONCURRENCY:
        return hr_concurrency_retry_ms(&state->concurrency, rule, context->leases, cost, now);
    }
    return HR_NEVER_MS;
}

int64_t hr_state_reset_ms(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    hr_ns now = context->now.steady;
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return hr_gcra_reset_ms(&state->gcra, rule, now);
    case HR_FIXED_WINDOW:
        return state->fixed_window.used == 0 ? 0 : hr_fixed_window_end_ms(&state->fixed_window, rule, now);
    case HR_SLIDING_WINDOW:
        return hr_sliding_window_reset_ms(&state->sliding_window, rule, now);
    case HR_SLIDING_LOG:
        return hr_sliding_log_reset_ms(&state->sliding_log, rule, context->logs, now);
    case HR_QUOTA:
        return state->quota.used == 0 ? 0 : hr_quota_end_ms(&state->quota, rule, context->clock, context->now.wall);
    case HR_CONCURRENCY:
        return hr_concurrency_reset_ms(&state->concurrency, context->leases, now);
    }
    return 0;
}

int64_t hr_state_delay_ms(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    bool is_leaky = rule->algorithm == HR_LEAKY_BUCKET;
    return is_leaky ? hr_gcra_reset_ms(&state->gcra, rule, context->now.steady) : 0;
}

bool hr_state_is_untouched(const union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        return hr_gcra_is_untouched(&state->gcra, rule, context->now.steady);
    case HR_FIXED_WINDOW:
        return state->fixed_window.used == 0;
    case HR_SLIDING_WINDOW:
        return hr_sliding_window_is_untouched(&state->sliding_window);
    case HR_SLIDING_LOG:
        return state->sliding_log.used == 0;
    case HR_QUOTA:
        return hr_quota_is_untouched(&state->quota, context->clock);
    case HR_CONCURRENCY:
        return state->concurrency.held == 0;
    }
    return false;
}

void hr_state_clear(union hr_state *state, const struct hr_rule *rule, const struct hr_context *context)
{
    if (rule->algorithm == HR_SLIDING_LOG) {
        hr_sliding_log_clear(&state->sliding_log, context->logs);
    }
    if (rule->algorithm == HR_CONCURRENCY) {
        hr_concurrency_clear(&state->concurrency, context->leases);
    }
    *state = (union hr_state){0};
}

static enum hr_algorithm kind_of(enum hr_algorithm algorithm)
{
    return algorithm == HR_GCRA ? HR_TOKEN_BUCKET : algorithm; /* one algorithm, two names */
}

bool hr_algorithm_is_same(enum hr_algorithm a, enum hr_algorithm b)
{
    return kind_of(a) == kind_of(b);
}

void hr_state_adopt(union hr_state *state, const struct hr_rule *from, const struct hr_rule *to, int64_t to_period,
                    const struct hr_context *context)
{
    hr_ns now = context->now.steady;
    switch (to->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        hr_gcra_adopt(&state->gcra, from, to, now);
        return;
    case HR_FIXED_WINDOW:
        hr_fixed_window_adopt(&state->fixed_window, from, to, now);
        return;
    case HR_SLIDING_WINDOW:
        hr_sliding_window_adopt(&state->sliding_window, from, to, now);
        return;
    case HR_SLIDING_LOG:
        hr_sliding_log_advance(&state->sliding_log, from, context->logs, now); /* entries keep their times */
        return;
    case HR_QUOTA:
        hr_quota_adopt(&state->quota, context->clock, to_period);
        return;
    case HR_CONCURRENCY:
        hr_concurrency_advance(&state->concurrency, context->leases, now); /* leases keep their ends */
        return;
    }
}
