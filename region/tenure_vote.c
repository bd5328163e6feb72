#include <assert.h>
#include <string.h>

#include "base/defect.h"
#include "region/tenure_state.h"

/* A node that may have voted in a life that it does not remember keeps silent for so long, or until the next charter.
 */
#define FORGETFUL_NS (10 * HR_NS_PER_S)

/* The leader looks at things so often, and waits so long after a charter before it makes the next, unless it is urgent.
 */
#define PLAN_NS (100 * HR_NS_PER_MS)
#define SETTLE_NS (250 * HR_NS_PER_MS)

/* A node that owns nothing is given something after so long a contact. */
#define STEADY_NS HR_NS_PER_S

/* A node that a majority hears no more is dead after so long: then grants to it have lapsed, which are made for as long
 * as it is heard. */
#define DEAD_NS (HR_LAPSE_NS - HR_HEARD_NS + 30 * HR_NS_PER_MS)

/* A charter is sent to one who lacks it at most so often. */
#define PUSH_NS (100 * HR_NS_PER_MS)

static bool is_node(const struct hr_tenure *tenure)
{
    return tenure->self != HR_NODE_NONE;
}

/* --- letters --- */

static void send_vote(struct hr_tenure *tenure, const struct hr_peer *peer, struct hr_vote *vote,
                      const struct hr_charter *charter)
{
    static_assert(sizeof(tenure->letter) >= HR_VOTE_BYTES_MAX, "a vote's letter");
    vote->charter = (struct hr_span){"", 0};
    size_t bytes = hr_vote_encode(vote, tenure->letter);
    if (charter != NULL) { /* behind the head, in place */
        bytes += hr_charter_encode(charter, tenure->letter + bytes);
    }
    hr_tenure_send(tenure, peer, HR_LETTER_TENURE, (struct hr_span){(char *)tenure->letter, bytes});
}

void hr_tenure_push_charter(struct hr_tenure *tenure, struct hr_peer *peer, hr_ns now)
{
    if (tenure->current.lineage == 0 || now < peer->push_at) {
        return;
    }
    peer->push_at = now + PUSH_NS;
    struct hr_vote vote = {
        .kind = HR_VOTE_CHARTER, .lineage = tenure->current.lineage, .version = tenure->current.version};
    send_vote(tenure, peer, &vote, &tenure->current);
}

static struct hr_vote vote_of(const struct hr_tenure *tenure, enum hr_vote_kind kind, uint64_t number)
{
    return (struct hr_vote){
        .kind = kind, .lineage = tenure->current.lineage, .version = tenure->current.version + 1, .number = number};
}

/* --- adopting a charter --- */

/* Who has a partition that is not held here. */
static uint8_t holder_of(const struct hr_tenure *tenure, const struct hr_seat *seat)
{
    bool may_be_giver = seat->giver != HR_NODE_NONE && seat->mode != HR_GIVER_COPY && seat->giver != tenure->self;
    return may_be_giver ? seat->giver : seat->owner;
}

void hr_tenure_seat_peers(struct hr_tenure *tenure)
{
    const struct hr_charter *charter = &tenure->current;
    tenure->self = hr_charter_find(charter, tenure->self_id);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        tenure->holders[p] = holder_of(tenure, &charter->seats[p]);
    }
    for (uint32_t i = 0; i < HR_REGION_NODES_MAX; i++) {
        tenure->peer_of[i] = UINT32_MAX;
    }
    tenure->gone = 0;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        peer->node = peer->id == 0 ? HR_NODE_NONE : hr_charter_find(charter, peer->id);
        if (peer->node != HR_NODE_NONE) {
            bool has_left = tenure->config.members->all[peer->member].state == HR_MEMBER_LEFT;
            tenure->peer_of[peer->node] = i;
            tenure->gone |= has_left ? hr_node_bit(peer->node) : 0;
        }
    }
}

static bool has_same_members(const struct hr_charter *a, const struct hr_charter *b)
{
    return a->lineage == b->lineage && a->count == b->count &&
           memcmp(a->members, b->members, a->count * sizeof(a->members[0])) == 0;
}

static uint64_t name_of(const struct hr_charter *charter, uint8_t node)
{
    return node == HR_NODE_NONE ? 0 : charter->members[node];
}

/* What is this node's part in a partition, given what it was and what the two charters say? */
static uint8_t part_of(const struct hr_tenure *tenure, const struct hr_charter *charter, uint8_t self, uint32_t p)
{
    const struct hr_seat *old = &tenure->current.seats[p], *seat = &charter->seats[p];
    bool is_lineage = tenure->current.lineage == charter->lineage;
    uint8_t part = is_lineage ? tenure->parts[p] : 0;
    bool is_same_right = is_lineage && old->epoch == seat->epoch;
    bool is_owner = self != HR_NODE_NONE && seat->owner == self;
    bool is_giver = self != HR_NODE_NONE && seat->giver == self;
    bool is_standby = self != HR_NODE_NONE && seat->standby == self;
    bool held = (part & HR_PART_HOLDS) != 0;
    bool holds = (is_owner && (seat->giver == HR_NODE_NONE || (held && is_same_right))) ||
                 (is_giver && held && seat->mode != HR_GIVER_COPY);
    bool keeps_copy =
        is_lineage && holds && held && name_of(&tenure->current, old->standby) == name_of(charter, seat->standby);
    bool keeps_given = is_giver && !holds && is_same_right &&
                       name_of(&tenure->current, old->giver) == name_of(charter, seat->giver) &&
                       name_of(&tenure->current, old->owner) == name_of(charter, seat->owner);
    uint8_t next = holds ? HR_PART_HOLDS : 0;
    next |= holds && is_giver ? part & HR_PART_FROZEN : 0;
    next |= keeps_copy ? part & HR_PART_COPIED : 0;
    next |= keeps_given ? part & HR_PART_GIVEN : 0;
    next |= !is_owner && !is_giver && !is_standby ? HR_PART_DROPPED : 0;
    return next;
}

static void take_parts(struct hr_tenure *tenure, const struct hr_charter *charter, hr_ns now)
{
    uint8_t self = hr_charter_find(charter, tenure->self_id);
    tenure->dropped_count = 0;
    tenure->counts.held = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        uint8_t part = part_of(tenure, charter, self, p);
        bool is_new = (part & HR_PART_HOLDS) && !(tenure->parts[p] & HR_PART_HOLDS);
        if (is_new) { /* by charter alone: its owner died, or it is the first */
            hr_limiter_range_take_over(tenure->config.limiter, hr_partition_range(p), now);
            tenure->counts.inherited += tenure->current.lineage != 0;
        }
        tenure->parts[p] = part;
        tenure->counts.held += (part & HR_PART_HOLDS) != 0;
        tenure->dropped_count += (part & HR_PART_DROPPED) != 0;
    }
}

/* Votes in a life that is forgotten may have been cast under any charter of which this node is no new member. */
static void mind_forgotten_votes(struct hr_tenure *tenure, const struct hr_charter *charter, hr_ns now)
{
    bool is_stranger = tenure->current.lineage != charter->lineage;
    bool may_have_voted = charter->version > 1 && !charter->has_other_members;
    if (is_stranger && may_have_voted) {
        tenure->forgetful_version = charter->version;
        tenure->forgetful_until = now + FORGETFUL_NS;
    }
}

static void begin_support(struct hr_tenure *tenure, bool is_remade, hr_ns now)
{
    for (uint32_t i = 0; i < HR_REGION_NODES_MAX && is_remade; i++) {
        tenure->supported_at[i] = tenure->supported_since[i] = now;
    }
}

void hr_tenure_adopt(struct hr_tenure *tenure, const struct hr_charter *charter, hr_ns now)
{
    bool is_remade = !has_same_members(&tenure->current, charter);
    mind_forgotten_votes(tenure, charter, now);
    take_parts(tenure, charter, now);
    hr_charter_copy(&tenure->current, charter);
    tenure->remade_at = is_remade ? now : tenure->remade_at;
    tenure->adopted_at = now;
    hr_ballot_reset(&tenure->ballot);
    tenure->owed.is_owed = false;
    tenure->self_granted = INT64_MAX;
    hr_tenure_seat_peers(tenure);
    begin_support(tenure, is_remade, now);
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        tenure->peers[i].has_held = false; /* said under the charter before */
        tenure->peers[i].pulse_at = 0;
    }
    hr_handover_review(tenure);
    hr_tenure_renew_lease(tenure);
    hr_tenure_note_change(tenure, true);
    tenure->charter_seq = tenure->change_seq;
}

/* --- as a member --- */

bool hr_tenure_may_vote(const struct hr_tenure *tenure, hr_ns now)
{
    bool is_forgetful = tenure->current.version == tenure->forgetful_version && now < tenure->forgetful_until;
    return is_node(tenure) && !is_forgetful && (tenure->config.saves || now - tenure->started_at > HR_LAPSE_NS);
}

/* Nodes to which nothing was granted for longer than a lease lasts, by whatever charter. */
static hr_node_set lapsed_nodes(struct hr_tenure *tenure, hr_ns now)
{
    hr_node_set set = 0;
    if (hr_defect(EVICTS_EARLY)) {
        return UINT64_MAX;
    }
    if (now - tenure->started_at <= HR_LAPSE_NS || now - tenure->remade_at <= HR_LAPSE_NS) {
        return 0;
    }
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        const struct hr_peer *peer = hr_tenure_peer_of(tenure, i);
        bool has_lapsed =
            i == tenure->self ? tenure->lease_until <= now : peer == NULL || now - peer->granted_at > HR_LAPSE_NS;
        set |= has_lapsed ? hr_node_bit(i) : 0;
    }
    return set;
}

/* A word on a vote goes out when the store knows of it. */
static void owe(struct hr_tenure *tenure, uint8_t to, enum hr_vote_kind kind, uint64_t number)
{
    hr_tenure_note_change(tenure, true);
    tenure->owed = (struct hr_owed){true, to, kind, number, tenure->change_seq};
}

/* A vote that concerns this node ends its grants to itself, too. Where it is its own eviction that it has voted for,
 * not even those before the vote count: they were made until just now. */
static void note_own_denial(struct hr_tenure *tenure, hr_ns now)
{
    const struct hr_ballot *ballot = &tenure->ballot;
    hr_node_set self = hr_node_bit(tenure->self);
    if (ballot->accepted != 0 && (ballot->vote.evicted & self)) {
        tenure->self_granted = -1;
    } else if ((hr_ballot_denied(ballot) & self) && tenure->self_granted == INT64_MAX) {
        tenure->self_granted = now;
    }
    hr_tenure_renew_lease(tenure);
}

/* A plan of its own is given up when it cannot win any more. One that it is bound to is asked for until it does, or
 * time is up. */
static void take_refusal(struct hr_tenure *tenure, uint8_t from, uint64_t promised)
{
    struct hr_ballot *ballot = &tenure->ballot;
    hr_ballot_refused(ballot, from, promised);
    hr_node_set rest = hr_charter_all(&tenure->current) & ~ballot->refused;
    if (!ballot->is_adopted && !hr_charter_is_majority(&tenure->current, rest, tenure->gone)) {
        ballot->phase = HR_BALLOT_IDLE;
    }
}

static void refuse(struct hr_tenure *tenure, uint8_t to, uint64_t number)
{
    const struct hr_peer *peer = hr_tenure_peer_of(tenure, to);
    if (to == tenure->self) {
        take_refusal(tenure, to, tenure->ballot.promised);
        tenure->ballot.phase = tenure->ballot.is_adopted ? tenure->ballot.phase : HR_BALLOT_IDLE;
        return;
    }
    if (peer != NULL) {
        struct hr_vote vote = vote_of(tenure, HR_VOTE_REFUSED, number);
        vote.accepted = tenure->ballot.promised;
        send_vote(tenure, peer, &vote, NULL);
    }
}

static void promise(struct hr_tenure *tenure, uint8_t to, uint64_t number)
{
    if (hr_ballot_promise(&tenure->ballot, number)) {
        owe(tenure, to, HR_VOTE_PROMISE, number);
    } else {
        refuse(tenure, to, number);
    }
}

static void accept(struct hr_tenure *tenure, uint8_t to, const struct hr_vote *vote, const struct hr_charter *charter,
                   hr_ns now)
{
    bool is_done =
        hr_ballot_accept(&tenure->ballot, vote->number, charter, vote->is_adopted, lapsed_nodes(tenure, now), now);
    note_own_denial(tenure, now);
    if (is_done) {
        owe(tenure, to, HR_VOTE_ACCEPTED, vote->number);
    } else {
        refuse(tenure, to, vote->number);
    }
}

/* --- as a proposer --- */

static void agree(struct hr_tenure *tenure, hr_ns now)
{
    hr_charter_copy(&tenure->scratch, &tenure->ballot.proposal);
    hr_tenure_adopt(tenure, &tenure->scratch, now);
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        if (tenure->peers[i].id != 0) {
            tenure->peers[i].push_at = 0;
            hr_tenure_push_charter(tenure, &tenure->peers[i], now);
        }
    }
}

/* This node's own vote is the first. */
static void vote_self(struct hr_tenure *tenure, hr_ns now)
{
    struct hr_vote vote = vote_of(tenure, HR_VOTE_ACCEPT, tenure->ballot.number);
    vote.is_adopted = tenure->ballot.is_adopted;
    accept(tenure, tenure->self, &vote, &tenure->ballot.proposal, now);
}

static void take_promise(struct hr_tenure *tenure, uint8_t from, const struct hr_vote *vote,
                         const struct hr_charter *charter, hr_ns now)
{
    if (hr_ballot_promised(&tenure->ballot, &tenure->current, from, vote, charter, tenure->gone)) {
        tenure->ballot.resend_at = now;
        vote_self(tenure, now);
    }
}

static void take_accepted(struct hr_tenure *tenure, uint8_t from, uint64_t number, hr_ns now)
{
    if (hr_ballot_accepted(&tenure->ballot, &tenure->current, from, number, tenure->gone)) {
        agree(tenure, now);
    }
}

/* Asks those that have not answered. Its own promise comes before all others': a number that was used is known to its
 * store, and is never used again. */
static void ask(struct hr_tenure *tenure, hr_ns now)
{
    struct hr_ballot *ballot = &tenure->ballot;
    bool is_preparing = ballot->phase == HR_BALLOT_PREPARING;
    bool has_self = (ballot->answered & hr_node_bit(tenure->self)) != 0;
    if (!hr_ballot_resend_is_due(ballot, now) || (is_preparing && !has_self)) {
        return;
    }
    if (!has_self && !tenure->owed.is_owed) {
        vote_self(tenure, now); /* it refused before */
    }
    struct hr_vote vote = vote_of(tenure, is_preparing ? HR_VOTE_PREPARE : HR_VOTE_ACCEPT, ballot->number);
    vote.is_adopted = !is_preparing && ballot->is_adopted;
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        const struct hr_peer *peer = hr_tenure_peer_of(tenure, i);
        if (peer != NULL && !(ballot->answered & hr_node_bit(i))) {
            send_vote(tenure, peer, &vote, is_preparing ? NULL : &ballot->proposal);
        }
    }
}

void hr_tenure_pay_owed(struct hr_tenure *tenure, hr_ns now)
{
    const struct hr_owed owed = tenure->owed;
    if (!owed.is_owed || owed.seq > tenure->saved_seq) {
        return;
    }
    tenure->owed.is_owed = false;
    struct hr_vote vote = vote_of(tenure, owed.kind, owed.number);
    bool has_voted = owed.kind == HR_VOTE_PROMISE && tenure->ballot.accepted != 0;
    vote.accepted = has_voted ? tenure->ballot.accepted : 0;
    const struct hr_peer *peer = hr_tenure_peer_of(tenure, owed.to);
    if (owed.to == tenure->self && owed.kind == HR_VOTE_PROMISE) {
        tenure->ballot.resend_at = now;
        take_promise(tenure, owed.to, &vote, &tenure->ballot.vote, now);
    } else if (owed.to == tenure->self) {
        take_accepted(tenure, owed.to, owed.number, now);
    } else if (peer != NULL) {
        send_vote(tenure, peer, &vote, has_voted ? &tenure->ballot.vote : NULL);
    }
}

/* --- leading --- */

/* Does a majority hear a node, by what each of them says? Only words about the same members count. */
static bool is_supported(struct hr_tenure *tenure, uint8_t node, hr_ns now)
{
    hr_node_set hearers = hr_node_bit(node);
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        const struct hr_peer *peer = hr_tenure_peer_of(tenure, i);
        if (i == tenure->self) {
            const struct hr_peer *other = hr_tenure_peer_of(tenure, node);
            bool hears = node == tenure->self || (other != NULL && hr_tenure_is_in_contact(other, now));
            hearers |= hears ? hr_node_bit(i) : 0;
        } else if (peer != NULL && hr_tenure_is_in_contact(peer, now) && peer->lineage == tenure->current.lineage &&
                   peer->version == tenure->current.version && (peer->hears & hr_node_bit(node))) {
            hearers |= hr_node_bit(i);
        }
    }
    return hr_charter_is_majority(&tenure->current, hearers, tenure->gone);
}

static void note_support(struct hr_tenure *tenure, hr_ns now)
{
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        if (is_supported(tenure, i, now)) {
            bool was_away = now - tenure->supported_at[i] > HR_HEARD_NS;
            tenure->supported_since[i] = was_away ? now : tenure->supported_since[i];
            tenure->supported_at[i] = now;
        }
    }
}

static bool is_present(const struct hr_tenure *tenure, uint8_t node, hr_ns now)
{
    return now - tenure->supported_at[node] <= HR_HEARD_NS;
}

static bool is_mute(struct hr_tenure *tenure, uint8_t node)
{
    const struct hr_peer *peer = hr_tenure_peer_of(tenure, node);
    return peer != NULL && peer->is_mute;
}

/* The member of the least id that is heard by a majority, and votes, leads. */
static bool is_leader(struct hr_tenure *tenure, hr_ns now)
{
    if (!is_node(tenure) || !is_supported(tenure, tenure->self, now)) {
        return false;
    }
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        if (tenure->current.members[i] < tenure->self_id && is_present(tenure, i, now) && !is_mute(tenure, i)) {
            return false;
        }
    }
    return true;
}

static bool owns_any(const struct hr_tenure *tenure, uint8_t node)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        if (tenure->current.seats[p].owner == node) {
            return true;
        }
    }
    return false;
}

static struct hr_plan_node plan_node(struct hr_tenure *tenure, uint8_t node, hr_ns now)
{
    const struct hr_peer *peer = hr_tenure_peer_of(tenure, node);
    bool is_self = node == tenure->self;
    uint32_t member = is_self ? tenure->config.members->self : peer == NULL ? HR_MEMBER_NONE : peer->member;
    struct hr_plan_node plan = {.candidate = {.id = tenure->current.members[node]}};
    if (member != HR_MEMBER_NONE) {
        plan.candidate = hr_partition_candidate(&tenure->config.members->all[member], member);
    }
    bool is_leaving = is_self ? tenure->is_leaving : peer != NULL && peer->is_leaving;
    plan.is_gone = is_leaving || (tenure->gone & hr_node_bit(node)) != 0;
    plan.is_dead = !is_self && now - tenure->supported_at[node] > (hr_defect(EVICTS_EARLY) ? 0 : DEAD_NS);
    bool is_steady = is_present(tenure, node, now) && now - tenure->supported_since[node] >= STEADY_NS;
    plan.is_eligible = !plan.is_dead && !plan.is_gone && (is_self || is_steady || owns_any(tenure, node));
    bool has_held = peer != NULL && peer->has_held && peer->version == tenure->current.version &&
                    peer->lineage == tenure->current.lineage;
    plan.held = has_held ? peer->held : NULL;
    return plan;
}

static bool is_newcomer(const struct hr_peer *peer, hr_ns now)
{
    return peer->id != 0 && peer->node == HR_NODE_NONE && !peer->is_leaving && hr_tenure_is_in_contact(peer, now) &&
           now - peer->contact_since >= HR_HEARD_NS;
}

static void add_newcomers(struct hr_tenure *tenure, hr_ns now)
{
    struct hr_plan *plan = &tenure->plan;
    for (uint32_t i = 0; i < tenure->peer_count && plan->count < tenure->config.nodes_max; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        const struct hr_member *member = &tenure->config.members->all[peer->member];
        if (is_newcomer(peer, now) && member->state != HR_MEMBER_LEFT) {
            plan->nodes[plan->count++] =
                (struct hr_plan_node){.candidate = hr_partition_candidate(member, peer->member), .is_eligible = true};
        }
    }
}

/* What this node itself holds is known without a word. */
static void list_own_held(const struct hr_tenure *tenure, uint8_t held[HR_PARTITION_SET_BYTES])
{
    memset(held, 0, HR_PARTITION_SET_BYTES);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        held[p / 8] |= (uint8_t)((tenure->parts[p] & HR_PART_HOLDS) << (p % 8));
    }
}

static bool is_anybody_stuck(const struct hr_tenure *tenure, hr_ns now)
{
    bool is_stuck = tenure->ballot.accepted != 0 && now - tenure->ballot.accepted_at > HR_BALLOT_NS_MAX / 4;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        is_stuck |= peer->id != 0 && peer->node != HR_NODE_NONE && peer->is_stuck && hr_tenure_is_in_contact(peer, now);
    }
    return is_stuck;
}

static bool make_plan(struct hr_tenure *tenure, hr_ns now)
{
    struct hr_plan *plan = &tenure->plan;
    uint8_t held[HR_PARTITION_SET_BYTES];
    bool is_urgent = false;
    plan->current = &tenure->current;
    plan->count = tenure->current.count;
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        plan->nodes[i] = plan_node(tenure, i, now);
    }
    if (hr_tenure_is_any_moving(tenure)) { /* else nobody asks */
        list_own_held(tenure, held);
        plan->nodes[tenure->self].held = held;
    }
    add_newcomers(tenure, now);
    bool is_changed = hr_plan_next(plan, &tenure->ballot.proposal, &is_urgent);
    plan->nodes[tenure->self].held = NULL;
    return is_changed && (is_urgent || now - tenure->adopted_at >= SETTLE_NS);
}

void hr_tenure_lead(struct hr_tenure *tenure, hr_ns now)
{
    if (tenure->current.lineage == 0 || !is_node(tenure)) {
        return;
    }
    note_support(tenure, now);
    ask(tenure, now);
    if (tenure->ballot.phase != HR_BALLOT_IDLE || now < tenure->plan_at) {
        return;
    }
    tenure->plan_at = now + PLAN_NS + tenure->self * (PLAN_NS / 8);
    if (!is_leader(tenure, now) || !hr_tenure_may_vote(tenure, now)) {
        return;
    }
    bool is_stuck = is_anybody_stuck(tenure, now);
    if (!make_plan(tenure, now)) {
        if (!is_stuck) {
            return;
        }
        hr_charter_copy(&tenure->ballot.proposal, &tenure->current); /* as it is, unless a vote was begun */
        tenure->ballot.proposal.version++;
        tenure->ballot.proposal.evicted = 0;
        tenure->ballot.proposal.has_other_members = false;
    }
    hr_ballot_begin(&tenure->ballot, tenure->self, now);
    promise(tenure, tenure->self, tenure->ballot.number);
    hr_tenure_pay_owed(tenure, now);
}

/* --- what comes --- */

static void take_charter(struct hr_tenure *tenure, const struct hr_charter *charter, hr_ns now)
{
    if (hr_charter_outranks(charter->lineage, charter->version, tenure->current.lineage, tenure->current.version)) {
        hr_tenure_adopt(tenure, charter, now);
    }
}

/* A ballot on the charter after the one in force, among its members. */
static void take_vote(struct hr_tenure *tenure, uint8_t from, const struct hr_vote *vote, hr_ns now)
{
    const struct hr_charter *charter = vote->charter.bytes > 0 ? &tenure->scratch : NULL;
    switch (vote->kind) {
    case HR_VOTE_PREPARE:
        if (hr_tenure_may_vote(tenure, now)) {
            promise(tenure, from, vote->number);
        }
        break;
    case HR_VOTE_ACCEPT:
        if (hr_tenure_may_vote(tenure, now)) {
            accept(tenure, from, vote, charter, now);
        }
        break;
    case HR_VOTE_PROMISE:
        take_promise(tenure, from, vote, charter, now);
        break;
    case HR_VOTE_ACCEPTED:
        take_accepted(tenure, from, vote->number, now);
        break;
    case HR_VOTE_REFUSED:
        take_refusal(tenure, from, vote->accepted);
        break;
    case HR_VOTE_CHARTER:
        break;
    }
    hr_tenure_pay_owed(tenure, now);
    ask(tenure, now);
}

void hr_tenure_receive_vote(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span body, hr_ns now)
{
    struct hr_vote vote;
    struct hr_charter *charter = &tenure->scratch;
    bool is_sound = hr_vote_decode(body, &vote) == HR_OK;
    if (is_sound && vote.charter.bytes > 0) {
        is_sound = hr_charter_decode(vote.charter, charter) == HR_OK && charter->lineage == vote.lineage &&
                   charter->version == vote.version;
    }
    if (!is_sound) {
        tenure->counts.refused++;
        return;
    }
    if (vote.kind == HR_VOTE_CHARTER) {
        take_charter(tenure, charter, now);
        return;
    }
    const struct hr_charter *current = &tenure->current;
    if (vote.lineage != current->lineage || vote.version <= current->version) {
        if (hr_charter_outranks(current->lineage, current->version, vote.lineage, vote.version - 1)) {
            hr_tenure_push_charter(tenure, peer, now);
        }
        return;
    }
    if (vote.version == current->version + 1 && peer->node != HR_NODE_NONE && is_node(tenure)) {
        take_vote(tenure, peer->node, &vote, now);
    }
}
