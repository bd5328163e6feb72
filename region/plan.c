#include "region/plan.h"

#include <string.h>

/* One partition at a time: the seat as it is to be, and what of the plan it looks at. */
struct draft {
    struct hr_plan *plan;
    uint32_t partition;
    uint8_t first, second; /* the owner and the standby by the map */
    struct hr_seat *seat;
    uint32_t epoch; /* the new one */
};

static bool is_named(uint8_t node)
{
    return node != HR_NODE_NONE;
}

static bool is_alive(const struct hr_plan *plan, uint8_t node)
{
    return is_named(node) && !plan->nodes[node].is_dead;
}

static bool may_stand_by(const struct hr_plan *plan, uint8_t node)
{
    return is_alive(plan, node) && !plan->nodes[node].is_gone;
}

static bool holds(const struct draft *draft, uint8_t node)
{
    const uint8_t *held = draft->plan->nodes[node].held;
    return held != NULL && (held[draft->partition / 8] >> (draft->partition % 8) & 1) != 0;
}

static bool share_host(const struct hr_plan *plan, uint8_t a, uint8_t b)
{
    return plan->nodes[a].candidate.host != 0 && plan->nodes[a].candidate.host == plan->nodes[b].candidate.host;
}

/* Who should stand by for an owner. */
static uint8_t standby_for(const struct draft *draft, uint8_t owner)
{
    if (draft->second != owner) {
        return draft->second;
    }
    return draft->first != owner ? draft->first : HR_NODE_NONE;
}

static void settle_standby(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    uint8_t better = standby_for(draft, seat->owner);
    bool stays = seat->standby != seat->owner && may_stand_by(draft->plan, seat->standby);
    if (stays && is_named(better) && share_host(draft->plan, seat->owner, seat->standby)) {
        stays = share_host(draft->plan, seat->owner, better);
    }
    seat->standby = stays ? seat->standby : better;
}

static void give_outright(const struct draft *draft, uint8_t owner)
{
    draft->seat->owner = owner;
    draft->seat->giver = HR_NODE_NONE;
    draft->seat->mode = 0;
    draft->seat->epoch = draft->epoch;
    settle_standby(draft);
}

static void end_move(const struct draft *draft)
{
    draft->seat->giver = HR_NODE_NONE;
    draft->seat->mode = 0;
    settle_standby(draft);
}

/* Who takes a partition over whose owner, and giver if any, are dead: the standby, which has the copy. */
static uint8_t heir_of(const struct draft *draft)
{
    return is_alive(draft->plan, draft->seat->standby) ? draft->seat->standby : draft->first;
}

static void begin_move(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    seat->giver = seat->owner;
    seat->mode = HR_GIVER_HOLDS;
    seat->owner = draft->first;
    seat->epoch = draft->epoch;
    if (seat->standby == seat->owner && may_stand_by(draft->plan, seat->giver)) {
        seat->standby = seat->giver; /* which has it all */
    }
    settle_standby(draft);
}

static void plan_settled(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    if (!is_alive(draft->plan, seat->owner)) {
        uint8_t heir = heir_of(draft);
        if (is_named(heir)) {
            give_outright(draft, heir);
        }
    } else if (is_named(draft->first) && draft->first != seat->owner) {
        begin_move(draft);
    } else {
        settle_standby(draft);
    }
}

/* The giver is dead, and the owner does not say that it holds the partition: it is to have the standby's copy, if it
 * does not hold it after all. */
static void find_other_giver(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    if (seat->standby == seat->owner || seat->standby == seat->giver || !is_alive(draft->plan, seat->standby)) {
        seat->epoch = draft->epoch;
        end_move(draft);
        return;
    }
    seat->giver = seat->standby;
    seat->mode = HR_GIVER_COPY;
}

/* The owner died before it was known to hold the partition, and the giver is alive: either may have held it last. */
static void find_other_owner(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    uint8_t giver = seat->giver, standby = seat->standby;
    if (!is_alive(draft->plan, standby) || standby == giver) {
        give_outright(draft, giver);
        return;
    }
    seat->mode = seat->mode == HR_GIVER_COPY ? HR_GIVER_COPY : HR_GIVER_ASKED;
    seat->owner = standby;
    seat->epoch = draft->epoch;
    seat->standby = HR_NODE_NONE;
    settle_standby(draft);
}

static void plan_moving(const struct draft *draft)
{
    struct hr_seat *seat = draft->seat;
    bool has_owner = is_alive(draft->plan, seat->owner), has_giver = is_alive(draft->plan, seat->giver);
    if (has_owner && holds(draft, seat->owner)) {
        end_move(draft);
    } else if (has_owner && !has_giver) {
        find_other_giver(draft);
    } else if (!has_owner && has_giver) {
        find_other_owner(draft);
    } else if (!has_owner && is_named(heir_of(draft))) {
        give_outright(draft, heir_of(draft));
    } else if (has_owner && !may_stand_by(draft->plan, seat->standby)) {
        settle_standby(draft);
    }
}

static bool is_same(const struct hr_seat *a, const struct hr_seat *b)
{
    return a->owner == b->owner && a->giver == b->giver && a->standby == b->standby && a->mode == b->mode &&
           a->epoch == b->epoch;
}

/* Draws the map of those that may be given partitions, in the plan's own indices. It takes some ms, so it is kept. */
static uint32_t draw_map(struct hr_plan *plan)
{
    struct hr_candidate eligible[HR_REGION_NODES_MAX];
    uint32_t count = 0;
    memset(eligible, 0, sizeof(eligible)); /* padding and all: it is compared as bytes */
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->nodes[i].is_eligible) {
            eligible[count] = plan->nodes[i].candidate;
            eligible[count++].member = i;
        }
    }
    if (count == plan->drawn_count && memcmp(eligible, plan->drawn, sizeof(eligible)) == 0) {
        return count;
    }
    plan->drawn_count = count;
    memcpy(plan->drawn, eligible, sizeof(eligible));
    hr_partition_map_build(&plan->map, eligible, count);
    for (uint32_t p = 0; p < HR_PARTITIONS && count > 0; p++) {
        uint8_t standby = plan->map.standby[p];
        plan->map.owner[p] = (uint8_t)eligible[plan->map.owner[p]].member;
        plan->map.standby[p] = is_named(standby) ? (uint8_t)eligible[standby].member : HR_NODE_NONE;
    }
    return count;
}

static bool plan_seats(struct hr_plan *plan, struct hr_charter *next, bool *ret_is_urgent)
{
    bool is_changed = false;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_seat *seat = &next->seats[p];
        struct draft draft = {plan, p, plan->map.owner[p], plan->map.standby[p], seat, (uint32_t)next->version};
        const struct hr_seat before = *seat;
        if (is_named(seat->giver)) {
            plan_moving(&draft);
        } else {
            plan_settled(&draft);
        }
        is_changed |= !is_same(&before, seat);
        *ret_is_urgent |= !is_same(&before, seat) && (plan->nodes[before.owner].is_dead ||
                                                      (is_named(before.giver) && plan->nodes[before.giver].is_dead));
    }
    return is_changed;
}

/* Whom some seat of a charter names. */
static hr_node_set named_by(const struct hr_charter *charter, bool with_standbys)
{
    hr_node_set named = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        const struct hr_seat *seat = &charter->seats[p];
        named |= hr_node_bit(seat->owner) | hr_node_bit(seat->giver);
        named |= with_standbys ? hr_node_bit(seat->standby) : 0;
    }
    return named;
}

static uint8_t moved(const uint8_t *places, uint8_t node)
{
    return is_named(node) ? places[node] : HR_NODE_NONE;
}

/* Takes out those that are gone and that nothing names; the others close ranks. */
static bool take_out_gone(const struct hr_plan *plan, struct hr_charter *next)
{
    uint8_t places[HR_REGION_NODES_MAX];
    uint8_t count = 0;
    hr_node_set named = named_by(next, true);
    for (uint8_t i = 0; i < next->count && i < HR_REGION_NODES_MAX; i++) {
        bool goes = plan->nodes[i].is_gone && !(named & hr_node_bit(i));
        places[i] = count;
        next->members[count] = next->members[i];
        count = (uint8_t)(count + !goes);
    }
    if (count == next->count || count == 0) {
        return false;
    }
    next->count = count;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_seat *seat = &next->seats[p];
        seat->owner = moved(places, seat->owner);
        seat->giver = moved(places, seat->giver);
        seat->standby = moved(places, seat->standby);
    }
    return true;
}

static bool is_same_node(const struct hr_plan_node *a, const struct hr_plan_node *b)
{
    return a->candidate.id == b->candidate.id && a->candidate.host == b->candidate.host &&
           a->candidate.weight == b->candidate.weight && a->is_eligible == b->is_eligible && a->is_dead == b->is_dead &&
           a->is_gone == b->is_gone;
}

/* Mostly nothing has changed since the last plan, which was to leave all as it is. */
static bool is_settled(const struct hr_plan *plan)
{
    bool is_same = plan->settled_lineage == plan->current->lineage && plan->settled_version == plan->current->version &&
                   plan->settled_count == plan->count;
    for (uint32_t i = 0; i < plan->count && is_same; i++) {
        is_same = is_same_node(&plan->nodes[i], &plan->settled[i]);
    }
    return is_same;
}

/* Where a partition moves, the next plan depends on what its nodes say that they hold. */
static void note_settled(struct hr_plan *plan)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        if (plan->current->seats[p].giver != HR_NODE_NONE) {
            return;
        }
    }
    plan->settled_lineage = plan->current->lineage;
    plan->settled_version = plan->current->version;
    plan->settled_count = plan->count;
    memcpy(plan->settled, plan->nodes, plan->count * sizeof(plan->nodes[0]));
}

bool hr_plan_next(struct hr_plan *plan, struct hr_charter *ret_next, bool *ret_is_urgent)
{
    const struct hr_charter *current = plan->current;
    *ret_is_urgent = false;
    if (is_settled(plan)) {
        return false;
    }
    hr_charter_copy(ret_next, current);
    if (draw_map(plan) == 0) {
        return false;
    }
    ret_next->version = current->version + 1;
    for (uint32_t i = current->count; i < plan->count; i++) {
        ret_next->members[i] = plan->nodes[i].candidate.id;
    }
    ret_next->count = (uint8_t)plan->count;
    bool is_changed = plan_seats(plan, ret_next, ret_is_urgent);
    hr_node_set dead = 0;
    for (uint8_t i = 0; i < current->count; i++) {
        dead |= plan->nodes[i].is_dead ? hr_node_bit(i) : 0;
    }
    ret_next->evicted = dead & named_by(current, false);
    bool is_smaller = take_out_gone(plan, ret_next);
    ret_next->has_other_members = is_smaller || plan->count > current->count;
    *ret_is_urgent |= is_smaller;
    is_changed |= ret_next->has_other_members;
    if (!is_changed) {
        note_settled(plan);
    }
    return is_changed;
}
