/* Who is asked: two rotations of probes, and pings in others' place.
 *
 *            period begins          timeout              period ends
 *     IDLE ---- ping ----> DIRECT ---- others ask ----> INDIRECT ---- suspicion ----> (next target)
 *       ^                    |                             |
 *       +------- ack --------+------------ ack -----------+
 */
#include "gossip/swim_state.h"

#define WAIT_US_MIN 1000U
#define WAIT_US_MAX 10000000U

/* Health: Lifeguard's local health multiplier. Whoever gets no answers, or is suspected itself, doubts itself first. */

void hr_swim_worsen(struct hr_swim *swim, uint32_t by)
{
    uint32_t health = swim->counts.health + by;
    swim->counts.health = health < HR_SWIM_HEALTH_MAX ? health : HR_SWIM_HEALTH_MAX;
}

static void improve(struct hr_swim *swim)
{
    swim->counts.health -= swim->counts.health > 0 ? 1 : 0;
}

static hr_ns stretched(const struct hr_swim *swim, hr_ns ns)
{
    return ns * (1 + (hr_ns)swim->counts.health);
}

void hr_swim_ping(struct hr_swim *swim, uint32_t to, uint32_t seq)
{
    struct hr_swim_head head = {.type = HR_SWIM_PING, .seq = seq};
    bool is_live_and_well = swim->members.all[to].state == HR_MEMBER_ALIVE;
    hr_swim_send(swim, to, &head, is_live_and_well ? HR_MEMBER_NONE : to); /* a suspect is told first */
}

/* Never 0: that is a ping whose answer nobody waits for. */
static uint32_t next_seq(struct hr_swim *swim)
{
    swim->seq += swim->seq == UINT32_MAX ? 2 : 1;
    return swim->seq;
}

uint32_t hr_swim_pick_live(struct hr_swim *swim, bool near_only, uint32_t but)
{
    uint32_t picked = HR_MEMBER_NONE, seen = 0;
    for (uint32_t i = 0; i < swim->members.count; i++) {
        if (i == but || i == swim->members.self || !hr_member_is_live(&swim->members.all[i]) ||
            (near_only && !swim->peers[i].is_near)) {
            continue;
        }
        if (hr_rng_below(&swim->rng, ++seen) == 0) {
            picked = i;
        }
    }
    return picked;
}

/* Probes of this node's own. */

/* The order stays: so each member is asked once in a round of each prober, and the probers' rounds, which began at
 * random, spread over time. Drawing a new order for each round would leave gaps of nearly two. */
static uint32_t next_target(const struct hr_swim *swim, struct hr_swim_rotation *rotation)
{
    uint32_t urgent = rotation->urgent;
    rotation->urgent = HR_MEMBER_NONE;
    if (urgent != HR_MEMBER_NONE && swim->members.all[urgent].state == HR_MEMBER_SUSPECT) {
        return urgent;
    }
    for (uint32_t tried = 0; tried < rotation->count; tried++) {
        uint32_t index = rotation->order[rotation->next++ % rotation->count];
        if (hr_member_is_live(&swim->members.all[index])) {
            return index;
        }
    }
    return HR_MEMBER_NONE;
}

/* A suspect that is near, or that this node itself suspects, is asked again and again, twice in a period, however long
 * periods are stretched now: it knows early, and one lost denial is not the end. */
static bool is_questioned(const struct hr_swim *swim, uint32_t index)
{
    const struct hr_swim_peer *peer = &swim->peers[index];
    return swim->members.all[index].state == HR_MEMBER_SUSPECT && (peer->is_mine || peer->is_near);
}

void hr_swim_question(struct hr_swim *swim, uint32_t index, hr_ns now)
{
    const struct hr_swim_peer *peer = &swim->peers[index];
    struct hr_swim_rotation *rotation = peer->is_near ? &swim->near : &swim->far;
    hr_ns next_at = now + rotation->pace.period_ns / 2;
    if (!is_questioned(swim, index)) {
        return;
    }
    rotation->question_at = rotation->question_at < next_at ? rotation->question_at : next_at;
    rotation->urgent = peer->is_mine ? rotation->urgent : index;
    hr_swim_ping(swim, index, 0);
}

static void question_again(struct hr_swim *swim, struct hr_swim_rotation *rotation, hr_ns now)
{
    uint32_t left = swim->suspect_count;
    rotation->question_at = INT64_MAX;
    for (uint32_t i = 0; i < swim->members.count && left > 0; i++) {
        left -= swim->members.all[i].state == HR_MEMBER_SUSPECT ? 1 : 0;
        if (is_questioned(swim, i) && swim->peers[i].is_near == (rotation == &swim->near)) {
            rotation->question_at = now + rotation->pace.period_ns / 2;
            hr_swim_ping(swim, i, 0);
        }
    }
}

static void begin_period(struct hr_swim *swim, struct hr_swim_rotation *rotation, hr_ns now)
{
    rotation->ask_at = now + stretched(swim, rotation->pace.timeout_ns);
    rotation->period_at = now + stretched(swim, rotation->pace.period_ns);
    rotation->stage = HR_SWIM_IDLE;
    rotation->asked = 0;
    rotation->nacks = 0;
    rotation->target = next_target(swim, rotation);
    if (rotation->target == HR_MEMBER_NONE || hr_swim_self(swim)->state == HR_MEMBER_LEFT) {
        return;
    }
    rotation->seq = next_seq(swim);
    rotation->stage = HR_SWIM_DIRECT;
    swim->counts.probes++;
    hr_swim_ping(swim, rotation->target, rotation->seq);
}

static void ask_one(struct hr_swim *swim, struct hr_swim_rotation *rotation, uint32_t helper, uint32_t wait_us)
{
    struct hr_swim_head head = {
        .type = HR_SWIM_PING_REQ,
        .seq = rotation->seq,
        .target = swim->members.all[rotation->target].id,
        .wait_us = wait_us,
    };
    hr_swim_send(swim, helper, &head, HR_MEMBER_NONE);
    rotation->asked++;
}

/* Draws one helper more than those there are. HR_MEMBER_NONE: this draw found nobody new. */
static uint32_t draw_helper(struct hr_swim *swim, const struct hr_swim_rotation *rotation, const uint32_t *helpers,
                            uint32_t count)
{
    /* Those of the own region ask for a near member: others could hardly answer in time. */
    uint32_t helper = hr_swim_pick_live(swim, rotation == &swim->near, rotation->target);
    for (uint32_t i = 0; i < count; i++) {
        if (helpers[i] == helper) {
            return HR_MEMBER_NONE;
        }
    }
    return helper;
}

static void ask_others(struct hr_swim *swim, struct hr_swim_rotation *rotation, hr_ns now)
{
    uint32_t helpers[HR_SWIM_HELPERS_MAX] = {0}, count = 0;
    hr_ns wait_ns = stretched(swim, rotation->pace.period_ns - rotation->pace.timeout_ns);
    uint32_t wait_us = (uint32_t)(wait_ns / HR_NS_PER_US);
    if (rotation->period_at < now + wait_ns) {
        rotation->period_at = now + wait_ns; /* this node comes late to it: its helpers get their time all the same */
    }
    rotation->stage = HR_SWIM_INDIRECT;
    swim->counts.indirect++;
    for (uint32_t draw = 0; draw < 2 * HR_SWIM_HELPERS_MAX && count < HR_SWIM_HELPERS_MAX; draw++) {
        uint32_t helper = draw_helper(swim, rotation, helpers, count);
        if (helper != HR_MEMBER_NONE) {
            helpers[count++] = helper;
            ask_one(swim, rotation, helper, wait_us);
        }
    }
    if (count == 0) {
        hr_swim_ping(swim, rotation->target, rotation->seq); /* nobody else: a second try is the next best */
    }
}

/* Helpers that were asked and said nothing at all put this node's own hearing in doubt. */
static void fail(struct hr_swim *swim, struct hr_swim_rotation *rotation, hr_ns now)
{
    const struct hr_member *member = &swim->members.all[rotation->target];
    rotation->stage = HR_SWIM_IDLE;
    swim->counts.failed++;
    if (!hr_member_is_live(member)) {
        return; /* others knew before */
    }
    if (member->state == HR_MEMBER_ALIVE) { /* that a suspect says nothing is no surprise */
        hr_swim_worsen(swim, rotation->asked == 0 ? 1 : rotation->asked - rotation->nacks);
    }
    struct hr_rumor rumor = {
        .id = member->id,
        .incarnation = member->incarnation,
        .state = HR_MEMBER_SUSPECT,
        .accuser = hr_swim_self(swim)->id,
    };
    swim->counts.suspicions += member->state == HR_MEMBER_ALIVE ? 1 : 0;
    hr_swim_hear(swim, &rumor, now);
}

static void step(struct hr_swim *swim, struct hr_swim_rotation *rotation, hr_ns now)
{
    if (now >= rotation->question_at) {
        question_again(swim, rotation, now);
    }
    if (rotation->stage == HR_SWIM_DIRECT && now >= rotation->ask_at) {
        ask_others(swim, rotation, now);
    }
    if (now < rotation->period_at) {
        return;
    }
    if (rotation->stage != HR_SWIM_IDLE) {
        fail(swim, rotation, now);
    }
    begin_period(swim, rotation, now);
    if (rotation == &swim->near) {
        swim->answers_left = HR_SWIM_ANSWERS_MAX;
    }
}

/* Pings in others' place. */

static struct hr_swim_relay *free_relay(struct hr_swim *swim)
{
    for (uint32_t i = 0; i < HR_SWIM_RELAYS_MAX; i++) {
        if (swim->relays[i].asker == 0) {
            return &swim->relays[i];
        }
    }
    return NULL;
}

/* Where there is no room the asker gets neither answer, as if the letter were lost. */
void hr_swim_take_ping_req(struct hr_swim *swim, uint32_t from, const struct hr_swim_head *head, hr_ns now)
{
    uint32_t target = hr_members_find(&swim->members, head->target);
    struct hr_swim_relay *relay = free_relay(swim);
    if (target == HR_MEMBER_NONE || target == swim->members.self || relay == NULL) {
        return;
    }
    uint32_t wait_us = head->wait_us < WAIT_US_MIN ? WAIT_US_MIN : head->wait_us;
    wait_us = wait_us > WAIT_US_MAX ? WAIT_US_MAX : wait_us;
    *relay = (struct hr_swim_relay){
        .asker = swim->members.all[from].id,
        .asker_seq = head->seq,
        .seq = next_seq(swim),
        .nack_at = now + wait_us * HR_NS_PER_US / 2,
        .ends_at = now + wait_us * HR_NS_PER_US,
    };
    hr_swim_ping(swim, target, relay->seq);
}

static void answer_asker(struct hr_swim *swim, const struct hr_swim_relay *relay, enum hr_swim_type type)
{
    struct hr_swim_head head = {.type = type, .seq = relay->asker_seq};
    uint32_t asker = hr_members_find(&swim->members, relay->asker);
    if (asker != HR_MEMBER_NONE) {
        hr_swim_send(swim, asker, &head, HR_MEMBER_NONE);
    }
}

static void step_relays(struct hr_swim *swim, hr_ns now)
{
    for (uint32_t i = 0; i < HR_SWIM_RELAYS_MAX; i++) {
        struct hr_swim_relay *relay = &swim->relays[i];
        if (relay->asker != 0 && !relay->is_nacked && now >= relay->nack_at) {
            relay->is_nacked = true;
            answer_asker(swim, relay, HR_SWIM_NACK);
        }
        if (relay->asker != 0 && now >= relay->ends_at) {
            relay->asker = 0;
        }
    }
}

static bool take_own_ack(struct hr_swim *swim, struct hr_swim_rotation *rotation, uint32_t seq)
{
    if (rotation->stage == HR_SWIM_IDLE || rotation->seq != seq) {
        return false;
    }
    rotation->stage = HR_SWIM_IDLE;
    improve(swim);
    return true;
}

void hr_swim_take_ack(struct hr_swim *swim, uint32_t seq)
{
    if (take_own_ack(swim, &swim->near, seq) || take_own_ack(swim, &swim->far, seq)) {
        return;
    }
    for (uint32_t i = 0; i < HR_SWIM_RELAYS_MAX; i++) {
        struct hr_swim_relay *relay = &swim->relays[i];
        if (relay->asker != 0 && relay->seq == seq) {
            answer_asker(swim, relay, HR_SWIM_ACK);
            relay->asker = 0;
        }
    }
}

void hr_swim_take_nack(struct hr_swim *swim, uint32_t seq)
{
    struct hr_swim_rotation *const rotations[] = {&swim->near, &swim->far};
    for (uint32_t i = 0; i < 2; i++) {
        struct hr_swim_rotation *rotation = rotations[i];
        if (rotation->stage == HR_SWIM_INDIRECT && rotation->seq == seq && rotation->nacks < rotation->asked) {
            rotation->nacks++;
        }
    }
}

/* Both. */

/* The first periods begin at random, so that nodes that started together do not probe in step. */
void hr_swim_begin_probes(struct hr_swim *swim, hr_ns now)
{
    swim->near.period_at = now + (hr_ns)hr_rng_below(&swim->rng, (uint64_t)swim->near.pace.period_ns);
    swim->far.period_at = now + (hr_ns)hr_rng_below(&swim->rng, (uint64_t)swim->far.pace.period_ns);
}

void hr_swim_step_probes(struct hr_swim *swim, hr_ns now)
{
    step(swim, &swim->near, now);
    step(swim, &swim->far, now);
    step_relays(swim, now);
}

void hr_swim_postpone_probes(struct hr_swim *swim, hr_ns late_ns)
{
    swim->near.ask_at += late_ns;
    swim->near.period_at += late_ns;
    swim->far.ask_at += late_ns;
    swim->far.period_at += late_ns;
    for (uint32_t i = 0; i < HR_SWIM_RELAYS_MAX; i++) {
        swim->relays[i].asker = 0; /* who asked has long given up */
    }
}

static hr_ns earlier(hr_ns a, hr_ns b)
{
    return a < b ? a : b;
}

static hr_ns rotation_deadline(const struct hr_swim_rotation *rotation)
{
    return earlier(rotation->stage == HR_SWIM_DIRECT ? rotation->ask_at : rotation->period_at, rotation->question_at);
}

hr_ns hr_swim_probes_deadline(const struct hr_swim *swim)
{
    hr_ns deadline = earlier(rotation_deadline(&swim->near), rotation_deadline(&swim->far));
    for (uint32_t i = 0; i < HR_SWIM_RELAYS_MAX; i++) {
        const struct hr_swim_relay *relay = &swim->relays[i];
        if (relay->asker != 0) {
            deadline = earlier(deadline, relay->is_nacked ? relay->ends_at : relay->nack_at);
        }
    }
    return deadline;
}
