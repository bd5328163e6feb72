/* What is believed: a rumor against what is known. The greater of the two holds, by incarnation, then by state. */
#include <string.h>

#include "base/defect.h"
#include "gossip/life.h"
#include "gossip/swim_state.h"

/* Of log(1 + confirmations) / log(1 + confirmations wanted), in thousandths: how far suspicion has shrunk towards its
 * shortest time (Lifeguard, section IV-B). Row: how many are wanted, column: how many there are. */
static const uint16_t shrunk_milli[HR_SWIM_ACCUSERS_MAX][HR_SWIM_ACCUSERS_MAX] = {
    {1000, 1000, 1000, 1000},
    {0, 1000, 1000, 1000},
    {0, 631, 1000, 1000},
    {0, 500, 792, 1000},
};

static int compare(const struct hr_rumor *rumor, const struct hr_member *member)
{
    if (rumor->incarnation != member->incarnation) {
        return rumor->incarnation > member->incarnation ? 1 : -1;
    }
    return (int)rumor->state - (int)member->state;
}

static void copy_text(char *to, struct hr_span from)
{
    if (from.bytes > 0) {
        memcpy(to, from.at, from.bytes);
    }
    to[from.bytes] = '\0';
}

static void copy_meta(struct hr_member *member, const struct hr_rumor *rumor)
{
    member->weight = rumor->weight;
    copy_text(member->name, rumor->name);
    copy_text(member->region, rumor->region);
    copy_text(member->host, rumor->host);
    copy_text(member->rpc, rumor->rpc);
    copy_text(member->gossip, rumor->gossip);
}

static bool is_at(const struct hr_rumor *rumor, const struct hr_member *member)
{
    return hr_span_equal(rumor->gossip, hr_span_of(member->gossip));
}

static bool comes_before(struct hr_span a, struct hr_span b)
{
    int order = memcmp(a.at, b.at, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order < 0 || (order == 0 && a.bytes < b.bytes);
}

/* Is it a life that the one that is known must give way to? Lives of one number are two nodes of one name: one of the
 * two has to yield, and all must see it alike, so the address decides. Only meta can tell. */
static bool is_later_life(const struct hr_rumor *rumor, const struct hr_member *member)
{
    uint64_t life = hr_life_of(rumor->incarnation), known_life = hr_life_of(member->incarnation);
    if (life != known_life) {
        return life > known_life;
    }
    return rumor->has_meta && comes_before(hr_span_of(member->gossip), rumor->gossip);
}

/* Suspicion. */

static void begin_suspicion(struct hr_swim *swim, uint32_t index, uint64_t accuser, hr_ns now)
{
    struct hr_swim_peer *peer = &swim->peers[index];
    peer->suspected_at = now;
    peer->accuser_count = 1;
    peer->accusers[0] = accuser;
    peer->is_mine = accuser == hr_swim_self(swim)->id;
    swim->suspect_count++;
}

static void end_suspicion(struct hr_swim *swim, uint32_t index)
{
    swim->peers[index].accuser_count = 0;
    swim->peers[index].is_mine = false;
    swim->suspect_count--;
}

/* One more who suspects it: the time shrinks, and others are to know. */
static void confirm(struct hr_swim *swim, uint32_t index, uint64_t accuser, hr_ns now)
{
    struct hr_swim_peer *peer = &swim->peers[index];
    if (accuser == hr_swim_self(swim)->id && !peer->is_mine) {
        peer->is_mine = true;
        hr_swim_question(swim, index, now);
    }
    if (peer->accuser_count == HR_SWIM_ACCUSERS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < peer->accuser_count; i++) {
        if (peer->accusers[i] == accuser) {
            return;
        }
    }
    peer->accusers[peer->accuser_count++] = accuser;
    hr_swim_tell(swim, index);
}

static uint32_t log2_floor(uint32_t n)
{
    uint32_t bits = 0;
    while (n > 1) {
        n >>= 1;
        bits++;
    }
    return bits;
}

/* A denial takes the time of a rumor to come round, which grows with the logarithm of how many there are: from 32 on
 * suspicion lasts longer. Of a near member only near ones matter: others probe too slowly to confirm anything. */
hr_ns hr_swim_suspicion_end(const struct hr_swim *swim, uint32_t index)
{
    const struct hr_swim_peer *peer = &swim->peers[index];
    uint32_t live = hr_swim_live_count(swim, peer->is_near);
    uint32_t bits = log2_floor(live);
    hr_ns shortest = (peer->is_near ? &swim->near : &swim->far)->pace.suspicion_ns;
    shortest = bits > 4 ? shortest / 4 * bits : shortest;
    uint32_t wanted = live < 3 ? 0 : live - 2; /* neither the suspect nor the first accuser can confirm */
    wanted = wanted < HR_SWIM_ACCUSERS_MAX ? wanted : HR_SWIM_ACCUSERS_MAX - 1;
    hr_ns shrunk = shortest / 2000 * (1000 - shrunk_milli[wanted][peer->accuser_count - 1]);
    return peer->suspected_at + shortest + shrunk;
}

void hr_swim_expire_suspicions(struct hr_swim *swim, hr_ns now)
{
    for (uint32_t i = 0; i < swim->members.count && swim->suspect_count > 0; i++) {
        const struct hr_member *member = &swim->members.all[i];
        if (member->state == HR_MEMBER_SUSPECT && now >= hr_swim_suspicion_end(swim, i)) {
            struct hr_rumor rumor = {.id = member->id, .incarnation = member->incarnation, .state = HR_MEMBER_DEAD};
            swim->counts.deaths++;
            hr_swim_hear(swim, &rumor, now);
        }
    }
}

/* Others. */

uint32_t hr_swim_add(struct hr_swim *swim, const struct hr_rumor *rumor)
{
    struct hr_members *members = &swim->members;
    if (members->count == members->count_max) {
        swim->counts.table_full++;
        hr_swim_report(swim, HR_SWIM_TABLE_FULL, HR_MEMBER_NONE, hr_life_of(rumor->incarnation));
        return HR_MEMBER_NONE;
    }
    uint32_t index = members->count++;
    struct hr_member *member = &members->all[index];
    memset(member, 0, sizeof(*member));
    copy_meta(member, rumor);
    member->id = rumor->id;
    member->incarnation = rumor->incarnation;
    member->state = rumor->state;
    members->view++;
    return index;
}

/* A new place in the rotation is a random one, so that not all nodes probe the newcomer at once. */
static void enter_rotation(struct hr_swim *swim, uint32_t index)
{
    struct hr_swim_rotation *rotation = swim->peers[index].is_near ? &swim->near : &swim->far;
    uint32_t place = (uint32_t)hr_rng_below(&swim->rng, rotation->count + 1);
    rotation->order[rotation->count] = rotation->order[place];
    rotation->order[place] = index;
    rotation->count++;
}

static bool is_of_known_region(const struct hr_swim *swim, struct hr_span region)
{
    bool is_known =
        swim->region_count == 0 || hr_span_equal(region, hr_span_of(swim->members.all[swim->members.self].region));
    for (uint32_t i = 0; i < swim->region_count && !is_known; i++) {
        is_known = hr_span_equal(region, hr_span_of(swim->regions[i]));
    }
    return is_known;
}

static void note_stranger(struct hr_swim *swim, const struct hr_rumor *rumor)
{
    struct hr_swim_stranger *stranger = &swim->stranger;
    stranger->count++;
    copy_text(stranger->name, rumor->name);
    copy_text(stranger->region, rumor->region);
}

static void meet(struct hr_swim *swim, const struct hr_rumor *rumor, hr_ns now)
{
    if (!is_of_known_region(swim, rumor->region)) {
        note_stranger(swim, rumor);
        return;
    }
    uint32_t index = hr_swim_add(swim, rumor);
    if (index == HR_MEMBER_NONE) {
        return;
    }
    swim->peers[index].is_near = hr_span_equal(rumor->region, hr_span_of(hr_swim_self(swim)->region));
    enter_rotation(swim, index);
    if (rumor->state == HR_MEMBER_SUSPECT) {
        begin_suspicion(swim, index, rumor->accuser, now);
    }
    if (hr_member_is_live(&swim->members.all[index])) {
        hr_swim_report(swim, HR_SWIM_JOINED, index, hr_life_of(rumor->incarnation));
    }
    hr_swim_tell(swim, index);
    hr_swim_exchange_soon(swim, now);
}

static enum hr_swim_event_kind event_of(const struct hr_rumor *rumor, bool is_new_life)
{
    switch (rumor->state) {
    case HR_MEMBER_ALIVE:
        return is_new_life ? HR_SWIM_JOINED : HR_SWIM_RECOVERED;
    case HR_MEMBER_SUSPECT:
        return HR_SWIM_SUSPECTED;
    case HR_MEMBER_DEAD:
        return HR_SWIM_DIED;
    case HR_MEMBER_LEFT:
        break;
    }
    return HR_SWIM_LEFT;
}

/* Tells a process that takes itself for this member who the member is. */
static void notify(struct hr_swim *swim, struct hr_span address, uint32_t index)
{
    if (swim->answers_left == 0) {
        return;
    }
    swim->answers_left--;
    struct hr_swim_head head = {.type = HR_SWIM_NEWS};
    hr_swim_send_to_address(swim, address, &head, index);
}

/* Where it was reached before there may still be a process that takes itself for this member: it is told. */
static void move(struct hr_swim *swim, uint32_t index, const struct hr_rumor *rumor)
{
    struct hr_member *member = &swim->members.all[index];
    char before[HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    memcpy(before, member->gossip, sizeof(before));
    bool is_moved = !is_at(rumor, member);
    copy_meta(member, rumor);
    member->incarnation = rumor->incarnation;
    member->state = rumor->state;
    if (is_moved) {
        notify(swim, hr_span_of(before), index);
    }
}

static void believe(struct hr_swim *swim, uint32_t index, const struct hr_rumor *rumor, hr_ns now)
{
    struct hr_member *member = &swim->members.all[index];
    bool is_new_life = is_later_life(rumor, member);
    bool is_change = is_new_life || rumor->state != member->state;
    enum hr_swim_event_kind event = event_of(rumor, is_new_life);
    if (member->state == HR_MEMBER_SUSPECT) {
        end_suspicion(swim, index);
    }
    if (is_new_life) {
        move(swim, index, rumor);
    }
    member->incarnation = rumor->incarnation;
    member->state = rumor->state;
    if (rumor->state == HR_MEMBER_SUSPECT) {
        begin_suspicion(swim, index, rumor->accuser, now);
    }
    if (is_change) {
        swim->members.view++;
        hr_swim_report(swim, event, index, hr_life_of(rumor->incarnation));
    }
    hr_swim_tell(swim, index);
    if (rumor->state == HR_MEMBER_SUSPECT) {
        hr_swim_question(swim, index, now);
    }
}

static void report_conflict(struct hr_swim *swim, uint32_t index, const struct hr_rumor *rumor)
{
    uint64_t life = hr_life_of(rumor->incarnation);
    if (swim->peers[index].conflict_life != life) {
        swim->peers[index].conflict_life = life;
        hr_swim_report(swim, HR_SWIM_NAME_CONFLICT, index, life);
    }
}

bool hr_swim_tell_outlived(struct hr_swim *swim, const struct hr_rumor *rumor)
{
    uint32_t index = hr_members_find(&swim->members, rumor->id);
    if (index == HR_MEMBER_NONE || index == swim->members.self || !rumor->has_meta ||
        hr_life_of(rumor->incarnation) >= hr_life_of(swim->members.all[index].incarnation)) {
        return false;
    }
    notify(swim, rumor->gossip, index);
    return true;
}

static void hear_of_other(struct hr_swim *swim, uint32_t index, const struct hr_rumor *rumor, hr_ns now)
{
    const struct hr_member *member = &swim->members.all[index];
    uint64_t life = hr_life_of(rumor->incarnation), known_life = hr_life_of(member->incarnation);
    if (life > known_life && !rumor->has_meta) {
        return; /* where it is reached in that life, a rumor with meta will tell */
    }
    if (life == known_life && rumor->has_meta && !is_at(rumor, member)) {
        report_conflict(swim, index, rumor);
        if (!is_later_life(rumor, member)) {
            notify(swim, rumor->gossip, index);
            return;
        }
    }
    int order = compare(rumor, member);
    if (order > 0 || is_later_life(rumor, member)) {
        believe(swim, index, rumor, now);
    } else if (order == 0 && rumor->state == HR_MEMBER_SUSPECT) {
        confirm(swim, index, rumor->accuser, now);
    }
}

/* Itself. */

/* Only this node raises its incarnation, so a greater rumor is wrong about it, and is overruled. */
static void refute(struct hr_swim *swim, const struct hr_rumor *rumor)
{
    struct hr_member *self = hr_swim_self(swim);
    uint64_t incarnation = rumor->incarnation + 1;
    if (hr_defect(NEVER_REFUTES) || hr_life_of(incarnation) != hr_life_of(self->incarnation)) {
        return; /* its words are used up: after a million denials it may be dead */
    }
    self->incarnation = incarnation;
    swim->counts.refutations++;
    hr_swim_worsen(swim, 1);
    hr_swim_report(swim, HR_SWIM_REFUTED, swim->members.self, hr_life_of(incarnation));
    hr_swim_tell(swim, swim->members.self);
}

static void yield_name(struct hr_swim *swim, uint64_t life)
{
    swim->is_usurped = true;
    hr_swim_report(swim, HR_SWIM_USURPED, swim->members.self, life);
}

/* A later life of this node's name. At this node's address it is its own, forgotten past; elsewhere it is another. */
static void hear_of_later_life(struct hr_swim *swim, const struct hr_rumor *rumor, uint64_t life)
{
    bool is_live = rumor->state == HR_MEMBER_ALIVE || rumor->state == HR_MEMBER_SUSPECT;
    if (!rumor->has_meta) {
        return;
    }
    if (is_live && !is_at(rumor, hr_swim_self(swim))) {
        yield_name(swim, life);
        return;
    }
    if (!swim->is_outlived) {
        swim->is_outlived = true;
        hr_swim_report(swim, HR_SWIM_OUTLIVED, swim->members.self, life);
    }
}

static void hear_of_self(struct hr_swim *swim, const struct hr_rumor *rumor)
{
    const struct hr_member *self = hr_swim_self(swim);
    uint64_t life = hr_life_of(rumor->incarnation), own_life = hr_life_of(self->incarnation);
    if (life > own_life) {
        hear_of_later_life(swim, rumor, life);
        return;
    }
    if (life == own_life && rumor->has_meta && !is_at(rumor, self)) {
        if (is_later_life(rumor, self)) {
            yield_name(swim, life);
        } else {
            report_conflict(swim, swim->members.self, rumor);
        }
        return;
    }
    if (compare(rumor, self) > 0 && self->state == HR_MEMBER_ALIVE) {
        refute(swim, rumor);
    }
}

void hr_swim_hear(struct hr_swim *swim, const struct hr_rumor *rumor, hr_ns now)
{
    uint32_t index = hr_members_find(&swim->members, rumor->id);
    if (index == HR_MEMBER_NONE) {
        if (rumor->has_meta) {
            meet(swim, rumor, now);
        }
    } else if (index == swim->members.self) {
        hear_of_self(swim, rumor);
    } else {
        hear_of_other(swim, index, rumor, now);
    }
}
