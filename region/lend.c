#include "region/lend.h"

#include <string.h>

#include "base/u128.h"
#include "region/cap_mutant.h"
#include "region/lend_state.h"

/* A pooled burst that takes this long to come in, and is of so many tokens, is dealt out token by token. A slot is away
 * from home until its token is spent, and for two messages' time: of few, or fast ones, too many would be. */
#define SLOW_NS HR_NS_PER_S
#define SLOW_TOKENS 4

void hr_lend_rule_init(struct hr_lend_rule *rule, const struct hr_lend_numbers *numbers, uint32_t count,
                       const uint32_t *weights)
{
    uint32_t shift = hr_share_shift(numbers->rate, numbers->burst);
    *rule = (struct hr_lend_rule){
        .scale = {.period_ns = numbers->period_ns, .shift = shift},
        .rate = (int64_t)(numbers->rate << shift),
        .depth = (int64_t)(numbers->burst << shift),
        .token = INT64_C(1) << shift,
        .reserve_permille = numbers->reserve_permille,
        .count = count,
    };
    rule->depth += hr_mul_div(rule->depth, numbers->slack_permille, 1000);
    int64_t sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        rule->weights[k] = weights[k];
        sum += weights[k];
    }
    for (uint32_t k = 0; k < count; k++) {
        rule->is_pooled |= weights[k] > 0 && hr_mul_div(rule->depth, weights[k], sum) < 2 * rule->token;
    }
    if (rule->is_pooled) {
        rule->reserve_permille = 0;
        int64_t fill_ns = hr_mul_div(rule->depth, (int64_t)numbers->period_ns, rule->rate);
        rule->mints_at_home = rule->depth >= SLOW_TOKENS * rule->token && fill_ns >= SLOW_NS;
    }
}

/* The region that is at home with everything: by the hash, in proportion to the weights. */
static uint32_t pool_home(const struct hr_lend_rule *rule, uint64_t hash)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < rule->count; k++) {
        sum += (uint64_t)rule->weights[k];
    }
    uint64_t at = sum == 0 ? 0 : hash % sum;
    uint32_t k = 0;
    while (k + 1 < rule->count && at >= (uint64_t)rule->weights[k]) {
        at -= (uint64_t)rule->weights[k++];
    }
    return k;
}

void hr_lend_homes_of(const struct hr_lend_rule *rule, uint64_t hash, struct hr_lend_homes *ret_homes)
{
    *ret_homes = (struct hr_lend_homes){{0}, {0}};
    if (rule->is_pooled) {
        uint32_t home = pool_home(rule, hash);
        ret_homes->rate[home] = rule->rate;
        ret_homes->depth[home] = rule->depth;
        return;
    }
    hr_split(rule->count, rule->weights, rule->rate, hash, ret_homes->rate);
    hr_split(rule->count, rule->weights, rule->depth, hash, ret_homes->depth);
}

int64_t hr_lend_home_rate(const struct hr_lend *lend, uint32_t region)
{
    int64_t now = lend->homes.rate[region];
    bool is_done = lend->epoch_done == lend->epoch || HR_IS_MUTANT(HR_MUTANT_EARLY_RAISE);
    return is_done ? now : hr_min(now, lend->homes_before.rate[region]);
}

int64_t hr_lend_home_depth(const struct hr_lend *lend)
{
    int64_t now = lend->homes.depth[lend->self];
    bool is_done = lend->epoch_done == lend->epoch || HR_IS_MUTANT(HR_MUTANT_EARLY_RAISE);
    return is_done ? now : hr_min(now, lend->homes_before.depth[lend->self]);
}

int64_t hr_lend_reserve(const struct hr_lend *lend)
{
    return hr_mul_div(hr_lend_home_rate(lend, lend->self), lend->rule->reserve_permille, 1000);
}

/* Depth, and the tokens in it, that is never given away: a request's worth at least. */
int64_t hr_lend_kept(const struct hr_lend *lend)
{
    if (lend->rule->is_pooled) {
        return 0;
    }
    int64_t home = hr_lend_home_depth(lend), token = lend->rule->token;
    int64_t kept = hr_max(hr_mul_div(home, lend->rule->reserve_permille, 1000), token);
    return hr_min(home, hr_max(kept, hr_min(home / 2, 8 * token)));
}

/* Depth that is not lent with rate, but stands for parcels until they have arrived: about a second of what overflows.
 */
int64_t hr_lend_room(const struct hr_lend *lend, const struct hr_cap_times *times)
{
    if (lend->rule->is_pooled) {
        return 0;
    }
    int64_t home = hr_lend_home_rate(lend, lend->self);
    int64_t flow = hr_max(hr_lend_reserve(lend), home / 5);
    int64_t while_ns = hr_max(2 * times->tick, HR_NS_PER_S);
    int64_t surplus = hr_mul_div(flow, while_ns, (int64_t)lend->rule->scale.period_ns) + lend->rule->token;
    return hr_max(0, hr_min(surplus, (hr_lend_home_depth(lend) - hr_lend_kept(lend)) / 2));
}

int64_t hr_lend_on_its_way(const struct hr_lend_loan *loan)
{
    return (int64_t)(loan->grant.parcels - loan->grant.parcels_known);
}

struct hr_price hr_lend_lent(const struct hr_lend *lend)
{
    struct hr_price lent = {0, 0};
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        const struct hr_lend_loan *loan = &lend->loans[k];
        lent.mint += loan->rate_top + loan->zombie_rate;
        lent.cap += loan->depth_top + loan->zombie_depth;
        lent.cap += HR_IS_MUTANT(HR_MUTANT_NO_ROOM) ? 0 : hr_lend_on_its_way(loan);
    }
    return lent;
}

/* What the region has of its own home: what nobody else may be using. */
static struct hr_price own_price(const struct hr_lend *lend)
{
    struct hr_price lent = hr_lend_lent(lend);
    int64_t mint = hr_lend_home_rate(lend, lend->self) - lent.mint;
    int64_t cap = hr_lend_home_depth(lend) - lent.cap;
    if (lend->quarantine_until != HR_CAP_LONG_AGO) {
        mint = hr_min(mint, hr_lend_reserve(lend));
        cap = hr_min(cap, hr_lend_kept(lend));
    }
    return (struct hr_price){hr_max(0, mint), hr_max(0, cap)};
}

/* Sets the bucket's price by what is in force. Where a lease ends the share falls back to the home alone, until this is
 * called again: less than it may have, never more. */
void hr_lend_reprice(struct hr_lend *lend, const struct hr_lend_context *context)
{
    struct hr_price own = own_price(lend), price = own;
    hr_ns lapse_at = INT64_MAX;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        const struct hr_lend_debt *debt = &lend->debts[k];
        if (debt->rate > 0 || debt->depth > 0) {
            price.mint += debt->rate;
            price.cap += debt->depth;
            lapse_at = hr_min(lapse_at, context->links[k]->lease_until);
        }
    }
    hr_share_set_price(lend->share, price, own, lapse_at);
    lend->share->low = price.cap / 2;
}

void hr_lend_init(struct hr_lend *lend, const struct hr_lend_begin *begin, const struct hr_lend_context *context)
{
    *lend = (struct hr_lend){
        .before = begin->before,
        .rule = begin->rule,
        .epoch = begin->epoch,
        .epoch_done = begin->is_adopted ? begin->epoch : begin->epoch - 1,
        .self = begin->self,
        .share = begin->share,
        .demand_at = context->now,
        .quarantine_until = HR_IS_MUTANT(HR_MUTANT_NO_QUARANTINE) ? HR_CAP_LONG_AGO : begin->quarantine_until,
    };
    hr_lend_homes_of(begin->rule, begin->hash, &lend->homes);
    hr_lend_homes_of(begin->before, begin->hash, &lend->homes_before);
    for (uint32_t k = 0; k < begin->rule->count; k++) {
        struct hr_lend_loan *loan = &lend->loans[k];
        loan->zombie_until = loan->large_since = loan->recalled_at = loan->changed_at = HR_CAP_LONG_AGO;
        lend->told[k].at = HR_CAP_LONG_AGO;
        if (context->links[k] != NULL) {
            loan->lives = context->links[k]->lives;
            loan->session = context->links[k]->session;
        }
    }
    hr_lend_reprice(lend, context);
}

void hr_lend_adopt(struct hr_lend *lend, const struct hr_lend_rule *rule, uint32_t epoch, uint64_t hash,
                   const struct hr_lend_context *context)
{
    lend->before = lend->rule;
    lend->homes_before = lend->homes;
    lend->rule = rule;
    lend->epoch = epoch;
    hr_lend_homes_of(rule, hash, &lend->homes);
    hr_lend_advance(lend, context);
    hr_lend_reprice(lend, context);
}

/* All that was lent in the session is over; what may still be in use there stays charged until that has surely lapsed.
 */
static void end_loan(struct hr_lend_loan *loan, const struct hr_cap_link *link, hr_ns now)
{
    if (link->zombie_until >= now && !HR_IS_MUTANT(HR_MUTANT_NO_ZOMBIE)) {
        loan->zombie_rate += loan->rate_top;
        loan->zombie_depth += loan->depth_top + hr_lend_on_its_way(loan);
        loan->zombie_until = hr_max(loan->zombie_until, link->zombie_until);
    }
    loan->session = link->session;
    loan->grant = (struct hr_lend_grant){0};
    loan->rate_top = loan->depth_top = loan->returned = 0;
    loan->large_since = loan->recalled_at = HR_CAP_LONG_AGO;
}

/* The peer lives anew: it holds nothing, and knows nothing. */
static void meet_new_life(struct hr_lend *lend, uint32_t k, const struct hr_cap_link *link)
{
    lend->loans[k].lives = link->lives;
    lend->debts[k] = (struct hr_lend_debt){0};
    lend->told[k] = (struct hr_lend_told){.at = HR_CAP_LONG_AGO};
}

void hr_lend_switch(struct hr_lend *lend, uint32_t k, const struct hr_cap_link *to, hr_ns now)
{
    end_loan(&lend->loans[k], to, now);
    meet_new_life(lend, k, to);
}

/* Follows what has become of the link. */
static void follow(struct hr_lend *lend, uint32_t k, const struct hr_cap_link *link, hr_ns now)
{
    struct hr_lend_loan *loan = &lend->loans[k];
    struct hr_lend_debt *debt = &lend->debts[k];
    if (link->session != loan->session) {
        end_loan(loan, link, now);
    }
    if (link->lives != loan->lives) {
        meet_new_life(lend, k, link);
    }
    if (loan->zombie_until != HR_CAP_LONG_AGO && now > loan->zombie_until) {
        loan->zombie_rate = loan->zombie_depth = 0;
        loan->zombie_until = HR_CAP_LONG_AGO;
    }
    if (debt->session != link->peer_session) {
        *debt = (struct hr_lend_debt){
            .session = link->peer_session, .demand = debt->demand, .is_full = debt->is_full, .report = debt->report};
    }
    if (!hr_cap_link_may_use(link, now)) {
        debt->rate = debt->depth = debt->returned = 0;
        debt->number = HR_IS_MUTANT(HR_MUTANT_REVIVE) ? 0 : debt->number;
    }
}

void hr_lend_advance(struct hr_lend *lend, const struct hr_lend_context *context)
{
    hr_share_advance(lend->share, &lend->rule->scale, context->now);
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        if (context->links[k] != NULL) {
            follow(lend, k, context->links[k], context->now);
        }
    }
    if (lend->quarantine_until != HR_CAP_LONG_AGO && context->now >= lend->quarantine_until) {
        lend->quarantine_until = HR_CAP_LONG_AGO;
    }
    hr_lend_reprice(lend, context);
}

static bool is_in_range(const struct hr_lend *lend, const struct hr_lend_record *record)
{
    int64_t rate = hr_max(lend->rule->rate, lend->before->rate), depth = hr_max(lend->rule->depth, lend->before->depth);
    const struct hr_lend_grant *grant = &record->grant;
    const struct hr_lend_answer *answer = &record->answer;
    return record->demand <= rate && grant->rate <= rate && grant->depth <= depth && grant->tokens <= depth &&
           answer->rate <= rate && answer->depth <= depth && answer->tokens <= depth;
}

/* A grant that wants no answer is accepted as it is, and the lender knows that as soon as it knows that it has arrived.
 * Only what this region does with it later is news. */
static void accept_silently(const struct hr_lend_debt *debt, const struct hr_lend_grant *grant,
                            struct hr_lend_answer *known)
{
    if (grant->wants_answer) {
        return;
    }
    *known = (struct hr_lend_answer){
        .session = debt->session,
        .number = debt->number,
        .rate = debt->rate,
        .depth = debt->depth,
        .parcels = known->session == debt->session ? known->parcels : debt->parcels,
    };
}

/* As a borrower. */
static void accept_grant(struct hr_lend *lend, uint32_t from, const struct hr_lend_grant *grant,
                         const struct hr_lend_context *context)
{
    struct hr_lend_debt *debt = &lend->debts[from];
    int64_t deeper = grant->depth - debt->depth; /* NOLINT(clang-analyzer-deadcode.DeadStores): for a mutant */
    bool is_newer = grant->number > debt->number;
    if (is_newer || (HR_IS_MUTANT(HR_MUTANT_OLD_GRANT) && grant->number != 0)) {
        debt->number = is_newer ? grant->number : debt->number;
        debt->rate = grant->rate;
        debt->depth = grant->depth;
        debt->returned = 0;
        hr_lend_reprice(lend, context);
        hr_share_add(lend->share, is_newer ? grant->tokens : 0);
        hr_share_add(lend->share, HR_IS_MUTANT(HR_MUTANT_FULL_DEPTH) && deeper > 0 ? deeper : 0);
    }
    if (!debt->has_parcels) { /* whatever is known to have come, came to a state of this counter that was forgotten */
        debt->has_parcels = true;
        debt->parcels = grant->parcels_known;
    }
    if (is_newer) {
        accept_silently(debt, grant, &lend->told[from].record.answer);
    }
    int64_t parcel = (int64_t)(grant->parcels - debt->parcels);
    if (parcel > 0) {
        hr_share_add(lend->share, parcel);
        debt->parcels = grant->parcels;
    } else if (HR_IS_MUTANT(HR_MUTANT_PARCEL_TWICE)) {
        hr_share_add(lend->share, (int64_t)(grant->parcels / 10));
    }
}

/* As a lender: what the peer says that it may use. */
static void accept_answer(struct hr_lend *lend, struct hr_lend_loan *loan, const struct hr_lend_answer *answer,
                          const struct hr_lend_context *context)
{
    struct hr_lend_grant *grant = &loan->grant;
    int64_t credited = (int64_t)(answer->parcels - grant->parcels_known);
    if (credited > 0 && credited <= hr_lend_on_its_way(loan)) {
        grant->parcels_known = answer->parcels;
    }
    if (answer->number == grant->number && grant->number != 0) {
        loan->rate_top = hr_min(loan->rate_top, answer->rate);
        loan->depth_top = hr_min(loan->depth_top, answer->depth);
        grant->rate = hr_min(grant->rate, answer->rate);
        grant->depth = hr_min(grant->depth, answer->depth);
        grant->tokens = 0;
    }
    hr_lend_reprice(lend, context);
    if (answer->number == grant->number && answer->tokens > loan->returned) {
        hr_share_add(lend->share, answer->tokens - loan->returned);
        loan->returned = answer->tokens;
    }
}

/* A region that answers this life holds nothing from the life before; if it is settled, no former life of its own does.
 */
static void end_quarantine(struct hr_lend *lend, uint32_t from, const struct hr_lend_context *context)
{
    if (lend->quarantine_until == HR_CAP_LONG_AGO) {
        return;
    }
    if (context->links[from]->peer_is_settled || HR_IS_MUTANT(HR_MUTANT_UNSETTLED)) {
        lend->heard |= 1U << from;
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        if (k != lend->self && (lend->heard >> k & 1) == 0) { /* guests too: they may have borrowed */
            return;
        }
    }
    lend->quarantine_until = HR_CAP_LONG_AGO;
    hr_lend_reprice(lend, context);
}

bool hr_lend_receive(struct hr_lend *lend, uint32_t from, const struct hr_lend_record *record, uint32_t letter,
                     uint32_t session, const struct hr_lend_context *context)
{
    struct hr_lend_debt *debt = &lend->debts[from];
    struct hr_lend_loan *loan = &lend->loans[from];
    const struct hr_cap_link *link = context->links[from];
    if (!is_in_range(lend, record)) {
        return false;
    }
    bool is_news = letter > debt->report;
    if (is_news) {
        debt->report = letter;
        debt->demand = record->demand;
        debt->is_full = record->is_full;
    }
    if (record->has_grant && session == debt->session && hr_cap_link_may_use(link, context->now)) {
        accept_grant(lend, from, &record->grant, context);
    }
    if (record->has_answer && record->answer.session == loan->session) {
        accept_answer(lend, loan, &record->answer, context);
    }
    lend->told[from].is_owed |= record->asks;
    end_quarantine(lend, from, context);
    return is_news;
}

void hr_lend_tell_again(struct hr_lend *lend, uint32_t to)
{
    lend->told[to] = (struct hr_lend_told){.at = HR_CAP_LONG_AGO, .is_owed = true};
}

bool hr_lend_is_low(const struct hr_lend *lend)
{
    struct hr_price lent = hr_lend_lent(lend);
    return lend->quarantine_until == HR_CAP_LONG_AGO &&
           lent.mint <= hr_lend_home_rate(lend, lend->self) - hr_lend_reserve(lend) &&
           lent.cap <= hr_lend_home_depth(lend) - hr_lend_kept(lend);
}

bool hr_lend_has_loan(const struct hr_lend *lend, uint32_t to)
{
    const struct hr_lend_loan *loan = &lend->loans[to];
    return loan->rate_top > 0 || loan->depth_top > 0 || hr_lend_on_its_way(loan) > 0;
}

bool hr_lend_is_stuck(const struct hr_lend *lend, uint32_t to, const struct hr_lend_context *context)
{
    const struct hr_lend_loan *loan = &lend->loans[to];
    bool is_recalled = loan->rate_top > loan->grant.rate || loan->depth_top > loan->grant.depth;
    return is_recalled && context->now - loan->recalled_at > context->times->lease / 2;
}

struct hr_lend_state hr_lend_state(const struct hr_lend *lend)
{
    struct hr_price lent = hr_lend_lent(lend);
    struct hr_lend_state state = {
        .home_rate = hr_lend_home_rate(lend, lend->self),
        .home_depth = hr_lend_home_depth(lend),
        .reserve_rate = hr_lend_reserve(lend),
        .reserve_depth = hr_lend_kept(lend),
        .lent_rate = lent.mint,
        .lent_depth = lent.cap,
        .is_quarantined = lend->quarantine_until != HR_CAP_LONG_AGO,
    };
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        state.borrowed_rate += lend->debts[k].rate;
        state.borrowed_depth += lend->debts[k].depth;
    }
    return state;
}
