/* Of counters that have too few tokens to be split: who should hold them. */
#include <string.h>

#include "region/lend_state.h"

int64_t hr_lend_least_claim(const struct hr_lend *lend)
{
    return lend->rule->rate / 16;
}

/* May there be several holders? */
static bool is_dealt_out(const struct hr_lend *lend)
{
    return lend->rule->depth >= 2 * lend->rule->token;
}

/* ---- fast ones: rate goes to where depth is ---- */

/* Deals depth out in whole tokens: one to each who asks, those who ask most first, and what is left by their parts. Who
 * holds one already counts half as much again, so that a token does not go to and fro. */
static void deal_depth(const struct hr_lend *lend, const int64_t *fair, int64_t *ret_tokens)
{
    const struct hr_lend_rule *rule = lend->rule;
    int64_t left = hr_lend_home_depth(lend) / rule->token, claims[HR_REGIONS_MAX] = {0}, more[HR_REGIONS_MAX];
    for (uint32_t k = 0; k < rule->count; k++) {
        bool holds = k == lend->self ? lend->share->price.cap >= rule->token : lend->loans[k].depth_top >= rule->token;
        claims[k] = fair[k] <= hr_lend_least_claim(lend) ? 0 : fair[k] + (holds ? fair[k] / 2 : 0);
        ret_tokens[k] = 0;
    }
    for (; left > 0; left--) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < rule->count; k++) {
            best = claims[k] > claims[best] ? k : best;
        }
        if (claims[best] <= 0) {
            break;
        }
        ret_tokens[best] = 1;
        claims[best] = 0;
    }
    for (uint32_t k = 0; k < rule->count; k++) {
        more[k] = ret_tokens[k] > 0 ? fair[k] : 0;
    }
    int64_t parts[HR_REGIONS_MAX];
    hr_split(rule->count, more, left, 0, parts);
    for (uint32_t k = 0; k < rule->count; k++) {
        ret_tokens[k] += parts[k];
    }
}

/* Rate goes to those who hold depth and have room in it, by their fair parts; a full bucket would only overflow. With
 * one holder there is nobody else. */
static void wish_rates(const struct hr_lend *lend, const int64_t *fair, const int64_t *tokens,
                       struct hr_lend_wish *wish)
{
    int64_t holders[HR_REGIONS_MAX];
    bool any = false;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        bool has_room = !(k == lend->self ? hr_lend_is_full(lend) : lend->debts[k].is_full);
        holders[k] = tokens[k] > 0 && has_room ? fair[k] : 0;
        any |= holders[k] > 0;
    }
    for (uint32_t k = 0; k < lend->rule->count && !any && !is_dealt_out(lend); k++) {
        holders[k] = tokens[k] > 0 ? fair[k] : 0;
    }
    hr_split(lend->rule->count, holders, hr_lend_home_rate(lend, lend->self), 0, wish->rate);
}

/* ---- slow ones: the home alone mints, and deals out what has come in ---- */

/* Whose turn it is among those who claim: each comes as often as its claim is large. None: HR_REGIONS_MAX. */
static uint32_t next_in_turn(struct hr_lend *lend, const int64_t *claims)
{
    uint32_t best = HR_REGIONS_MAX;
    int64_t all = 0;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        all += claims[k];
        lend->turns[k] += claims[k];
        if (claims[k] > 0 && (best == HR_REGIONS_MAX || lend->turns[k] > lend->turns[best])) {
            best = k;
        }
    }
    if (best != HR_REGIONS_MAX) {
        lend->turns[best] -= all;
    }
    return best;
}

/* What a region claims of the next token: nothing where it holds its part of the burst, or one at least, already. */
static void claims_of(const struct hr_lend *lend, const int64_t *fair, const int64_t *tokens, int64_t *ret_claims)
{
    int64_t all = 0, depth = hr_lend_home_depth(lend) / lend->rule->token;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        ret_claims[k] = fair[k] <= hr_lend_least_claim(lend) ? 0 : fair[k];
        all += ret_claims[k];
    }
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        bool has_part = tokens[k] > 0 && tokens[k] >= hr_mul_div(depth, ret_claims[k], hr_max(1, all));
        ret_claims[k] = has_part ? 0 : ret_claims[k];
    }
}

/* Nobody is asked to give back what it holds, but where the whole has become less. */
static int64_t keep_held(struct hr_lend *lend, int64_t *ret_tokens)
{
    int64_t token = lend->rule->token, left = hr_lend_home_depth(lend) / token;
    lend->own_tokens = hr_min(lend->own_tokens, lend->share->level / token);
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        int64_t held = k == lend->self ? lend->own_tokens : lend->loans[k].depth_top / token;
        ret_tokens[k] = hr_min(held, left);
        left -= ret_tokens[k];
    }
    return left;
}

static void deal_tokens(struct hr_lend *lend, const int64_t *fair, int64_t *ret_tokens)
{
    int64_t left = keep_held(lend, ret_tokens), claims[HR_REGIONS_MAX] = {0};
    int64_t free = hr_min(left, lend->share->level / lend->rule->token - lend->own_tokens);
    for (; free > 0; free--) {
        claims_of(lend, fair, ret_tokens, claims);
        uint32_t k = next_in_turn(lend, claims);
        if (k == HR_REGIONS_MAX) {
            break;
        }
        ret_tokens[k]++;
    }
    lend->own_tokens = ret_tokens[lend->self];
}

void hr_lend_wish_pooled(struct hr_lend *lend, const int64_t *fair, struct hr_lend_wish *wish)
{
    int64_t tokens[HR_REGIONS_MAX];
    memset(wish->rate, 0, sizeof wish->rate);
    if (lend->rule->mints_at_home) {
        deal_tokens(lend, fair, tokens);
    } else {
        deal_depth(lend, fair, tokens);
        wish_rates(lend, fair, tokens, wish);
    }
    wish->rate[lend->self] = 0;
    for (uint32_t k = 0; k < lend->rule->count; k++) {
        wish->depth[k] = k == lend->self ? 0 : tokens[k] * lend->rule->token;
    }
}

struct hr_price hr_lend_keep_pooled(const struct hr_lend *lend, const struct hr_lend_debt *debt)
{
    int64_t token = lend->rule->token;
    if (lend->demand <= hr_lend_least_claim(lend)) {
        return (struct hr_price){0, 0};
    }
    if (lend->rule->mints_at_home) { /* a slot without a token is of use at home only */
        return (struct hr_price){0, hr_min(debt->depth, lend->share->level / token * token)};
    }
    return (struct hr_price){hr_lend_is_full(lend) && is_dealt_out(lend) ? 0 : debt->rate, debt->depth};
}
