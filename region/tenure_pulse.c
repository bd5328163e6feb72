#include <string.h>

#include "region/tenure_state.h"

bool hr_tenure_is_in_contact(const struct hr_peer *peer, hr_ns now)
{
    return peer->contact_at >= 0 && now - peer->contact_at <= HR_HEARD_NS;
}

static bool is_heard(const struct hr_peer *peer, hr_ns now)
{
    return peer->heard_at >= 0 && now - peer->heard_at <= HR_HEARD_NS;
}

/* Grants by `self` to itself end with a vote that concerns it, as those to others do. */
void hr_tenure_renew_lease(struct hr_tenure *tenure)
{
    hr_ns granted[HR_REGION_NODES_MAX];
    if (tenure->self == HR_NODE_NONE) {
        tenure->lease_until = INT64_MIN;
        return;
    }
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        const struct hr_peer *peer = hr_tenure_peer_of(tenure, i);
        granted[i] = peer == NULL ? -1 : peer->acked;
    }
    granted[tenure->self] = tenure->self_granted;
    tenure->lease_until = hr_quorum_lease(&tenure->current, granted, tenure->gone);
}

/* --- hearing --- */

static bool is_denied(const struct hr_tenure *tenure, const struct hr_peer *peer)
{
    hr_node_set denied = hr_ballot_denied(&tenure->ballot);
    return peer->node == HR_NODE_NONE ? denied == UINT64_MAX : (denied & hr_node_bit(peer->node)) != 0;
}

static void note_contact(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_pulse *pulse, hr_ns now)
{
    if (!hr_tenure_is_in_contact(peer, now)) {
        peer->contact_since = now;
    }
    peer->contact_at = now;
    if (!is_denied(tenure, peer)) {
        peer->granted_at = now;
        peer->granted_life = pulse->life;
        peer->granted = pulse->stamp;
    }
}

/* Its grant counts where it knows of no later charter than this node does. */
static void note_grant(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_pulse *pulse, hr_ns now)
{
    bool is_own = pulse->granted_life == tenure->config.life && pulse->granted <= now;
    bool counts = pulse->lineage == tenure->current.lineage && pulse->version <= tenure->current.version;
    if (is_own && counts && pulse->granted > peer->acked) {
        peer->acked = pulse->granted;
    }
}

/* What was sent by a later charter than it knew, it left; now it may know it. */
static void note_words(struct hr_peer *peer, const struct hr_pulse *pulse)
{
    if (peer->lineage != pulse->lineage || peer->version != pulse->version) {
        hr_stream_hurry(&peer->stream);
    }
    peer->lineage = pulse->lineage;
    peer->version = pulse->version;
    peer->hears = pulse->hears;
    peer->is_leaving = pulse->is_leaving;
    peer->is_stuck = pulse->is_stuck;
    peer->is_mute = pulse->is_mute;
    peer->has_lease = pulse->has_lease;
    peer->has_held = pulse->held != NULL;
    if (pulse->held != NULL) {
        memcpy(peer->held, pulse->held, HR_PARTITION_SET_BYTES);
    }
}

/* The stamp that was quickest on its way tells most of the peer's clock, and less as time goes on. */
static void note_clock(struct hr_peer *peer, hr_ns stamp, hr_ns now)
{
    const struct hr_heard *best = &peer->clock;
    hr_ns best_took = best->at - best->stamp + (now - best->at) / HR_CLOCKS_APART; /* or so: clocks differ */
    if (best->stamp < 0 || now - stamp <= best_took) {
        peer->clock = (struct hr_heard){stamp, now};
    }
}

static void meet(struct hr_tenure *tenure, struct hr_peer *peer, uint64_t life)
{
    if (life > peer->life) {
        peer->life = life;
        peer->stamp = peer->clock.stamp = -1;
    }
    if (hr_stream_open(&peer->stream, life)) {
        hr_handover_restart(tenure, peer);
    }
}

void hr_tenure_receive_pulse(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span body, hr_ns now)
{
    struct hr_pulse pulse;
    if (hr_pulse_decode(body, &pulse) != HR_OK) {
        tenure->counts.refused++;
        return;
    }
    if (pulse.life < peer->life) {
        return;
    }
    meet(tenure, peer, pulse.life);
    if (pulse.stamp <= peer->stamp) {
        return; /* late, or a second time */
    }
    if (!is_heard(peer, now)) {
        peer->pulse_at = 0; /* they meet: neither has to wait for the other's next pulse */
    }
    peer->stamp = pulse.stamp;
    peer->heard_at = now;
    note_clock(peer, pulse.stamp, now);
    peer->is_lost = false;
    note_words(peer, &pulse);
    if (pulse.hears_receiver) {
        note_contact(tenure, peer, &pulse, now);
    }
    note_grant(tenure, peer, &pulse, now);
    hr_tenure_renew_lease(tenure);
    const struct hr_charter *current = &tenure->current;
    if (hr_charter_outranks(current->lineage, current->version, peer->lineage, peer->version)) {
        hr_tenure_push_charter(tenure, peer, now);
    }
}

/* --- being heard --- */

static hr_node_set heard_nodes(struct hr_tenure *tenure, hr_ns now)
{
    hr_node_set set = hr_node_bit(tenure->self);
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        if (peer->id != 0 && hr_tenure_is_in_contact(peer, now)) {
            set |= hr_node_bit(peer->node);
        }
    }
    return set;
}

bool hr_tenure_is_any_moving(struct hr_tenure *tenure)
{
    const struct hr_charter *current = &tenure->current;
    struct hr_moving *moving = &tenure->moving;
    if (moving->lineage != current->lineage || moving->version != current->version) {
        *moving = (struct hr_moving){current->lineage, current->version, false};
        for (uint32_t p = 0; p < HR_PARTITIONS && !moving->is_any; p++) {
            moving->is_any = current->seats[p].giver != HR_NODE_NONE;
        }
    }
    return moving->is_any;
}

/* What this node holds of what it owns, if the leader waits for that: of some partition it is named the owner, and
 * another the giver. */
static bool list_held(const struct hr_tenure *tenure, uint8_t held[HR_PARTITION_SET_BYTES])
{
    bool is_awaited = false;
    memset(held, 0, HR_PARTITION_SET_BYTES);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        const struct hr_seat *seat = &tenure->current.seats[p];
        if (seat->owner == tenure->self && seat->giver != HR_NODE_NONE) {
            is_awaited = true;
            held[p / 8] |= (uint8_t)((tenure->parts[p] & HR_PART_HOLDS) << (p % 8));
        }
    }
    return is_awaited;
}

void hr_tenure_pulse(struct hr_tenure *tenure, hr_ns now)
{
    uint8_t held[HR_PARTITION_SET_BYTES], body[HR_PULSE_BYTES_MAX];
    bool has_charter = tenure->current.lineage != 0, is_held_listed = false, is_awaited = false;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        if (peer->id == 0 || now < peer->pulse_at) {
            continue;
        }
        if (!is_held_listed) {
            is_awaited = has_charter && tenure->self != HR_NODE_NONE && hr_tenure_is_any_moving(tenure) &&
                         list_held(tenure, held);
            is_held_listed = true;
        }
        peer->pulse_at = hr_next_beat(now, HR_PULSE_NS);
        const struct hr_pulse pulse = {
            .life = tenure->config.life,
            .stamp = now,
            .hears_receiver = is_heard(peer, now),
            .is_leaving = tenure->is_leaving,
            .is_stuck = tenure->ballot.accepted != 0 && now - tenure->ballot.accepted_at > HR_BALLOT_NS_MAX / 4,
            .is_mute = !hr_tenure_may_vote(tenure, now),
            .has_lease = now < tenure->lease_until,
            .granted_life = peer->granted_life,
            .granted = peer->granted,
            .lineage = tenure->current.lineage,
            .version = tenure->current.version,
            .hears = has_charter ? heard_nodes(tenure, now) : 0,
            .held = is_awaited ? held : NULL,
        };
        size_t bytes = hr_pulse_encode(&pulse, body);
        hr_tenure_send(tenure, peer, HR_LETTER_PULSE, (struct hr_span){(char *)body, bytes});
    }
}
