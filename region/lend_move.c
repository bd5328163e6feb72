#include <string.h>

#include "base/u128.h"
#include "region/cap_mutant.h"
#include "region/lend_plan.h"
#include "region/lend_state.h"

/* Demand is averaged over this long: 150 ms, or four tokens' time where tokens are rarer. */
#define AVERAGE_NS (150 * HR_NS_PER_MS)

/* Looks that are closer together than this say nothing. */
#define LOOK_NS (10 * HR_NS_PER_MS)

hr_ns hr_lend_average_ns(const struct hr_lend *lend)
{
    const struct hr_lend_rule *rule = lend->rule;
    return hr_max(AVERAGE_NS, hr_mul_div((int64_t)rule->scale.period_ns, 4 * rule->token, rule->rate));
}

/* A count of n tokens in twice the average's time has a deviation of sqrt(n); two of them, as a rate:
 * 2 sqrt(rate x token x P / (2 x average)) / P x P = 2 sqrt(rate) sqrt(token) sqrt(P / (2 x average)). */
int64_t hr_lend_noise(const struct hr_lend *lend, int64_t rate)
{
    int64_t average = 2 * hr_lend_average_ns(lend);
    int64_t ratio_q16 = hr_mul_div((int64_t)lend->rule->scale.period_ns, 1 << 16, average);
    int64_t scale_q8 = (int64_t)(hr_isqrt((uint64_t)ratio_q16) * hr_isqrt((uint64_t)lend->rule->token));
    return hr_mul_div((int64_t)hr_isqrt((uint64_t)rate), 2 * scale_q8, 1 << 8);
}

/* Down to round numbers, which take fewer bytes to tell: to less than a two-thousandth of what there is. */
static int64_t round_down(const struct hr_lend *lend, int64_t amount)
{
    int64_t grain = 1, least = hr_min(lend->rule->rate, lend->rule->depth) / 2048;
    while (grain <= least / 16) {
        grain *= 16;
    }
    return amount > 0 ? amount - amount % grain : amount;
}

bool hr_lend_is_full(const struct hr_lend *lend)
{
    const struct hr_share *share = lend->share;
    int64_t slack = lend->rule->is_pooled ? 0 : share->price.cap / 8; /* of few tokens the last one counts */
    return share->price.cap >= lend->rule->token && share->level >= share->price.cap - slack;
}

/* demand = (demand x average + what was asked in dt) / (average + dt). No more than the whole rate can be of use; and a
 * bucket that is nearly full proves that its rate suffices. */
static void look_at_demand(struct hr_lend *lend, hr_ns now)
{
    struct hr_share *share = lend->share;
    hr_ns dt = now - lend->demand_at, average = hr_lend_average_ns(lend);
    if (dt < LOOK_NS) {
        return;
    }
    struct hr_u128 sum = hr_u128_mul((uint64_t)lend->demand, (uint64_t)average);
    sum = hr_u128_add(sum, hr_u128_mul((uint64_t)share->asked, lend->rule->scale.period_ns));
    sum = hr_u128_div(sum, (uint64_t)(average + dt));
    lend->demand = (int64_t)hr_u128_saturate(sum, (uint64_t)lend->rule->rate);
    lend->demand_at = now;
    share->asked = 0;
    if (hr_lend_is_full(lend) && !lend->rule->is_pooled) {
        lend->demand = hr_min(lend->demand, hr_max(share->price.mint, hr_lend_home_rate(lend, lend->self)));
    }
}

static bool is_in_reach(const struct hr_lend *lend, uint32_t k, const struct hr_lend_context *context)
{
    const struct hr_cap_link *link = context->links[k];
    return k != lend->self && link != NULL && hr_cap_link_is_up(link, context->times, context->now);
}

static void view_of(const struct hr_lend *lend, const struct hr_lend_context *context, struct hr_lend_view *ret_view)
{
    *ret_view = (struct hr_lend_view){
        .count = lend->rule->count,
        .self = lend->self,
        .reserve_permille = lend->rule->reserve_permille,
    };
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        ret_view->weights[k] = lend->rule->weights[k];
        if (k == lend->self || is_in_reach(lend, k, context)) {
            ret_view->homes[k] = hr_lend_home_rate(lend, k);
            ret_view->demands[k] = k == lend->self ? lend->demand : lend->debts[k].demand;
        }
    }
}

/* Depth goes with rate: of what may be lent of the one, the same part as of the other. */
static void wish_depth(const struct hr_lend *lend, const struct hr_cap_times *times, struct hr_lend_wish *wish)
{
    int64_t rate_max = hr_lend_home_rate(lend, lend->self) - hr_lend_reserve(lend), sum = 0;
    int64_t depth_max = hr_lend_home_depth(lend) - hr_lend_kept(lend) - hr_lend_room(lend, times);
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        sum += wish->rate[k];
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        wish->rate[k] = sum > rate_max ? hr_mul_div(wish->rate[k], hr_max(0, rate_max), sum) : wish->rate[k];
        wish->depth[k] = rate_max > 0 ? hr_mul_div(wish->rate[k], hr_max(0, depth_max), rate_max) : 0;
    }
}

void hr_lend_wish(struct hr_lend *lend, const struct hr_lend_context *context, struct hr_lend_wish *ret_wish)
{
    struct hr_lend_view view;
    struct hr_lend_plan plan;
    view_of(lend, context, &view);
    hr_lend_plan(&view, &plan);
    memset(ret_wish, 0, sizeof *ret_wish);
    memcpy(ret_wish->rate, plan.gives, sizeof plan.gives);
    memcpy(ret_wish->gets, plan.gets, sizeof plan.gets);
    memcpy(ret_wish->shortage, plan.shortage, sizeof plan.shortage);
    if (lend->rule->is_pooled) {
        hr_lend_wish_pooled(lend, plan.fair, ret_wish);
    } else {
        wish_depth(lend, context->times, ret_wish);
    }
}

/* A change of a loan that is worth a message: at once if it is large, else once in a while. */
static bool is_settled(const struct hr_lend *lend, const struct hr_lend_loan *loan, hr_ns now)
{
    hr_ns token_ns = hr_mul_div((int64_t)lend->rule->scale.period_ns, 2 * lend->rule->token, lend->rule->rate);
    return now - loan->changed_at > hr_max(HR_NS_PER_S, token_ns);
}

static int64_t large_change(const struct hr_lend *lend)
{
    int64_t home = hr_lend_home_rate(lend, lend->self);
    return hr_max(home / 16, hr_min(hr_lend_noise(lend, lend->demand), home / 4));
}

static bool is_too_large(const struct hr_lend *lend, const struct hr_lend_loan *loan, int64_t want, int64_t want_depth,
                         hr_ns now)
{
    int64_t home = hr_lend_home_rate(lend, lend->self), rate = loan->grant.rate;
    if (lend->rule->is_pooled) {
        bool is_uneven = is_settled(lend, loan, now) && want + home / 16 < rate;
        return want_depth < loan->grant.depth || (want == 0 && rate > 0) || is_uneven;
    }
    int64_t band = is_settled(lend, loan, now) ? hr_max(home / 50, rate / 32) : hr_max(large_change(lend), rate / 16);
    return want + band < rate || (want == 0 && rate > 0);
}

/* Recalls what is too large. Mostly the borrower has given it back by itself within the grace. */
static void lower(struct hr_lend *lend, const struct hr_lend_wish *wish, const struct hr_lend_context *context)
{
    hr_ns now = context->now, grace = lend->rule->is_pooled ? 0 : context->times->grace;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        struct hr_lend_loan *loan = &lend->loans[k];
        if (!is_too_large(lend, loan, wish->rate[k], wish->depth[k], now)) {
            loan->large_since = HR_CAP_LONG_AGO;
            continue;
        }
        loan->large_since = loan->large_since == HR_CAP_LONG_AGO ? now : loan->large_since;
        if (now - loan->large_since < grace) {
            continue;
        }
        loan->recalled_at = loan->rate_top == loan->grant.rate ? now : loan->recalled_at;
        loan->large_since = HR_CAP_LONG_AGO;
        loan->grant.rate = hr_min(loan->grant.rate, round_down(lend, wish->rate[k]));
        loan->grant.depth = hr_min(loan->grant.depth, round_down(lend, wish->depth[k]));
        loan->grant.number++;
        loan->grant.tokens = loan->returned = 0;
        loan->changed_at = now;
        if (HR_IS_MUTANT(HR_MUTANT_NO_ACK)) {
            loan->rate_top = loan->grant.rate;
            loan->depth_top = loan->grant.depth;
        }
    }
}

/* How much of a wish for more there is room for. */
static int64_t part_of(int64_t more, int64_t all_more, int64_t room)
{
    if (more <= 0 || room <= 0) {
        return 0;
    }
    return all_more > room ? hr_mul_div(more, room, all_more) : more;
}

/* Tokens that go with a slice: the part of those above the kept that the slice is of the depth above it. */
static int64_t tokens_in(const struct hr_lend *lend, int64_t slice)
{
    int64_t kept = hr_lend_kept(lend), level = lend->share->level, cap = lend->share->price.cap;
    if (slice <= 0 || level <= kept || cap <= kept) {
        return 0;
    }
    return round_down(lend, hr_min(hr_mul_div(level - kept, slice, cap - kept), hr_min(slice, level - kept)));
}

static void raise_one(struct hr_lend *lend, uint32_t k, int64_t rate_more, int64_t depth_more, hr_ns now)
{
    struct hr_lend_loan *loan = &lend->loans[k];
    int64_t rate = rate_more > 0 ? loan->rate_top + rate_more : loan->grant.rate;
    int64_t depth = depth_more > 0 ? loan->depth_top + depth_more : loan->grant.depth;
    int64_t slice = hr_max(0, depth - loan->depth_top);
    int64_t tokens = lend->rule->mints_at_home ? hr_min(slice, lend->share->level) : tokens_in(lend, slice);
    lend->share->level -= tokens; /* out of here before it is told */
    loan->grant.rate = rate;
    loan->grant.depth = depth;
    loan->rate_top = hr_max(loan->rate_top, rate);
    loan->depth_top = hr_max(loan->depth_top, depth);
    loan->grant.number++;
    loan->grant.tokens = tokens;
    loan->returned = 0;
    loan->changed_at = now;
}

/* Is a raise of this size worth telling, and in order? While a lowering is pending there is none. */
static bool is_worth_raising(const struct hr_lend *lend, const struct hr_lend_loan *loan, int64_t rate_more,
                             int64_t depth_more, hr_ns now)
{
    int64_t home = hr_lend_home_rate(lend, lend->self);
    if (lend->rule->is_pooled) {
        return depth_more >= lend->rule->token || (loan->depth_top > 0 && rate_more > home / 16);
    }
    int64_t rate = loan->rate_top + rate_more;
    return rate_more > 0 && rate > loan->grant.rate + (is_settled(lend, loan, now) ? home / 100 : large_change(lend));
}

/* Lends more: only out of what nobody may be using. */
static void raise(struct hr_lend *lend, const struct hr_lend_wish *wish, const struct hr_lend_context *context)
{
    struct hr_price lent = hr_lend_lent(lend);
    int64_t rate_room = hr_lend_home_rate(lend, lend->self) - hr_lend_reserve(lend) - lent.mint;
    int64_t depth_room = hr_lend_home_depth(lend) - hr_lend_kept(lend) - lent.cap;
    int64_t all_rate = 0, all_depth = 0;
    depth_room -= hr_max(0, hr_lend_room(lend, context->times));
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        all_rate += hr_max(0, wish->rate[k] - lend->loans[k].rate_top);
        all_depth += hr_max(0, wish->depth[k] - lend->loans[k].depth_top);
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        const struct hr_lend_loan *loan = &lend->loans[k];
        if (!is_in_reach(lend, k, context)) {
            continue;
        }
        int64_t rate_more = round_down(lend, part_of(wish->rate[k] - loan->rate_top, all_rate, rate_room));
        int64_t depth_more = round_down(lend, part_of(wish->depth[k] - loan->depth_top, all_depth, depth_room));
        if (lend->rule->is_pooled) {
            depth_more -= depth_more % lend->rule->token;
        }
        if (is_worth_raising(lend, loan, rate_more, depth_more, context->now)) {
            raise_one(lend, k, rate_more, depth_more, context->now);
            hr_lend_reprice(lend, context);
        }
    }
}

/* What stands above the kept tokens of a region that is not short would overflow. It goes to those who are short; the
 * room that it takes stays taken until they have it. */
static void give_parcels(struct hr_lend *lend, const struct hr_lend_wish *wish, const struct hr_lend_context *context)
{
    struct hr_share *share = lend->share;
    int64_t kept = hr_lend_kept(lend), room = hr_lend_room(lend, context->times), on_its_way = 0, short_of = 0;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        on_its_way += hr_lend_on_its_way(&lend->loans[k]);
        short_of += is_in_reach(lend, k, context) ? wish->shortage[k] : 0;
    }
    int64_t depth_left = hr_lend_home_depth(lend) - kept - hr_lend_lent(lend).cap;
    int64_t give = hr_min(hr_min(share->level - kept, room - on_its_way), depth_left);
    bool is_worth_it = give > 0 && give >= hr_max(room / 3, hr_min(room, lend->rule->token));
    if (short_of <= 0 || lend->demand >= share->price.mint || !is_worth_it) {
        return;
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        if (is_in_reach(lend, k, context)) {
            int64_t parcel = round_down(lend, hr_mul_div(give, wish->shortage[k], short_of));
            share->level -= parcel;
            lend->loans[k].grant.parcels += (uint64_t)parcel;
        }
    }
    hr_lend_reprice(lend, context);
}

/* What a region should go on using of a debt. */
static struct hr_price keep_part(const struct hr_lend *lend, const struct hr_lend_debt *debt, int64_t wish)
{
    int64_t rate = hr_min(debt->rate, round_down(lend, wish + wish / 16));
    if (rate >= debt->rate - debt->rate / 32) {
        return (struct hr_price){debt->rate, debt->depth};
    }
    return (struct hr_price){rate, round_down(lend, hr_mul_div(debt->depth, rate, debt->rate))};
}

/* Tokens that go back with a slice; from a counter that mints at home, what has no room in the slots that stay. */
static int64_t tokens_back(const struct hr_lend *lend, int64_t slice)
{
    if (lend->rule->mints_at_home) {
        return hr_min(slice, hr_max(0, lend->share->level - (lend->share->price.cap - slice)));
    }
    return tokens_in(lend, slice);
}

/* Gives back unasked what this region should have no longer, tokens and all. */
static void give_back(struct hr_lend *lend, const struct hr_lend_wish *wish, const struct hr_lend_context *context)
{
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        struct hr_lend_debt *debt = &lend->debts[k];
        struct hr_price keep =
            lend->rule->is_pooled ? hr_lend_keep_pooled(lend, debt) : keep_part(lend, debt, wish->gets[k]);
        if (keep.mint >= debt->rate - debt->rate / 32 && keep.cap >= debt->depth) {
            continue;
        }
        int64_t tokens = tokens_back(lend, debt->depth - keep.cap);
        lend->share->level -= tokens;
        debt->returned += tokens;
        debt->depth = keep.cap;
        debt->rate = keep.mint;
        hr_lend_reprice(lend, context);
    }
}

void hr_lend_move(struct hr_lend *lend, const struct hr_lend_context *context)
{
    struct hr_lend_wish wish;
    look_at_demand(lend, context->now);
    hr_lend_wish(lend, context, &wish);
    if (lend->quarantine_until == HR_CAP_LONG_AGO) {
        lower(lend, &wish, context);
        hr_lend_reprice(lend, context);
        raise(lend, &wish, context);
        give_parcels(lend, &wish, context);
    }
    give_back(lend, &wish, context);
}

/* A demand above this nears the region's home. */
static int64_t warmth(const struct hr_lend *lend, uint32_t k)
{
    int64_t home = lend->homes.rate[k];
    return home - home / 10 + lend->rule->rate / 256;
}

/* Somebody's demand nears its home, or something is lent or borrowed. */
bool hr_lend_is_hot(const struct hr_lend *lend, const struct hr_lend_context *context)
{
    if (lend->quarantine_until != HR_CAP_LONG_AGO || lend->epoch != lend->epoch_done) {
        return true;
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        int64_t demand = k == lend->self ? lend->demand : lend->debts[k].demand;
        bool is_reported = k == lend->self || is_in_reach(lend, k, context);
        if ((is_reported && demand > warmth(lend, k)) || lend->debts[k].rate > 0 || lend->debts[k].depth > 0 ||
            lend->loans[k].zombie_rate > 0 || hr_lend_has_loan(lend, k)) {
            return true;
        }
    }
    return false;
}

static void fill(const struct hr_lend *lend, uint32_t to, struct hr_lend_record *record)
{
    const struct hr_lend_loan *loan = &lend->loans[to];
    const struct hr_lend_debt *debt = &lend->debts[to];
    *record = (struct hr_lend_record){
        .demand = round_down(lend, lend->demand),
        .is_full = hr_lend_is_full(lend),
        .asks = lend->quarantine_until != HR_CAP_LONG_AGO && (lend->heard >> to & 1) == 0,
        .has_grant = loan->grant.number != 0 || loan->grant.parcels != 0,
        .has_answer = debt->number != 0 || debt->parcels != 0,
        .grant = loan->grant,
        .answer = {debt->session, debt->number, debt->rate, debt->depth, debt->returned, debt->parcels},
    };
    record->grant.wants_answer = loan->rate_top > loan->grant.rate || loan->depth_top > loan->grant.depth;
    if (!record->has_grant) {
        record->grant = (struct hr_lend_grant){0};
    }
    if (!record->has_answer) {
        record->answer = (struct hr_lend_answer){0};
    }
}

/* Does the record say something about loans that the last one did not? */
static bool has_new_grant(const struct hr_lend_told *told, const struct hr_lend_record *record, uint32_t session)
{
    const struct hr_lend_grant *grant = &record->grant, *old = &told->record.grant;
    if (told->session != session) {
        return record->has_grant;
    }
    return grant->number != old->number || grant->parcels != old->parcels;
}

static bool has_new_answer(const struct hr_lend_told *told, const struct hr_lend_record *record)
{
    const struct hr_lend_answer *answer = &record->answer, *old = &told->record.answer;
    if (answer->session != old->session) {
        return record->has_answer;
    }
    return answer->number != old->number || answer->rate != old->rate || answer->depth != old->depth ||
           answer->parcels != old->parcels;
}

static int64_t distance(int64_t a, int64_t b)
{
    return a > b ? a - b : b - a;
}

/* Is the demand, or what became of it, worth a letter? */
static bool has_moved(const struct hr_lend *lend, const struct hr_lend_told *told, const struct hr_lend_record *record,
                      const struct hr_lend_context *context)
{
    int64_t before = told->record.demand, warm = warmth(lend, lend->self);
    if (before > warm && record->demand <= warm / 2) {
        return true; /* or others would take the counter for hot for ever */
    }
    if (!hr_lend_is_hot(lend, context)) {
        return false;
    }
    int64_t band = hr_max(hr_max(lend->rule->rate / 64, before / 8), hr_lend_noise(lend, before));
    bool has_turned = lend->rule->is_pooled && !lend->rule->mints_at_home && record->is_full != told->record.is_full;
    return has_turned || distance(record->demand, before) > band || context->now - told->at > 10 * HR_NS_PER_S;
}

/* A slow limit is not worth a letter at each tick: two records in the time of a token will do. */
static bool is_too_soon(const struct hr_lend *lend, hr_ns since, const struct hr_cap_times *times)
{
    hr_ns token_ns = hr_mul_div((int64_t)lend->rule->scale.period_ns, lend->rule->token, lend->rule->rate);
    hr_ns pause = hr_min(token_ns / (lend->rule->is_pooled ? 8 : 2), times->lease / 8);
    return !lend->rule->mints_at_home && token_ns > 10 * HR_NS_PER_MS && since < pause;
}

bool hr_lend_tell(struct hr_lend *lend, uint32_t to, uint32_t letter, const struct hr_lend_context *context,
                  struct hr_lend_record *ret_record)
{
    struct hr_lend_told *told = &lend->told[to];
    struct hr_lend_record record;
    const struct hr_cap_link *link = context->links[to];
    hr_ns since = context->now - told->at;
    bool is_urgent = !told->is_repeated && hr_cap_link_is_lossy(link);
    hr_ns retry = is_urgent ? context->times->tick : hr_cap_link_retry(link, context->times);
    fill(lend, to, &record);
    told->has_arrived |= told->letter != 0 && hr_cap_link_has_arrived(link, told->letter);
    bool is_lost = told->letter != 0 && !told->has_arrived && since > retry;
    bool is_asking = record.asks && since > retry;
    bool says_grant = has_new_grant(told, &record, link->session) || (told->owes_grant && !told->has_arrived);
    bool says_answer = has_new_answer(told, &record) || (told->owes_answer && !told->has_arrived);
    bool is_new = has_new_grant(told, &record, link->session) || has_new_answer(told, &record);
    if (!is_new && !is_lost && !is_asking && !told->is_owed && !has_moved(lend, told, &record, context)) {
        return false;
    }
    if (is_too_soon(lend, since, context->times) && !told->is_owed) {
        return false;
    }
    *told = (struct hr_lend_told){.record = record,
                                  .letter = letter,
                                  .is_repeated = is_lost && !is_new,
                                  .session = link->session,
                                  .at = context->now};
    record.has_grant = record.has_grant && says_grant;
    record.has_answer = record.has_answer && says_answer;
    told->owes_grant = record.has_grant;
    told->owes_answer = record.has_answer;
    *ret_record = record;
    return true;
}
