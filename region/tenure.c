#include "region/tenure.h"

#include <assert.h>
#include <string.h>

#include "base/bump.h"
#include "region/tenure_state.h"

/* A node that sees others which know of no charter either makes one sooner than one that sees nobody, if it is the one
 * of the least id. */
#define FOUND_NS (HR_NS_PER_S / 2)

/* A node that has just started looks for the others so long, before it says that nobody can be asked. */
#define STARTING_NS (400 * HR_NS_PER_MS)

/* It is ticked at least so often, on the beat. */
#define TICK_NS (25 * HR_NS_PER_MS)

/* --- start --- */

static bool is_valid(const struct hr_tenure_config *config)
{
    bool has_stream =
        config->stream_bytes == 0 || (config->stream_bytes >= (HR_COPY_MESSAGES + 1) * HR_STREAM_MESSAGE_BYTES_MAX &&
                                      config->stream_bytes <= (1U << 30));
    return config->nodes_max >= 1 && config->nodes_max <= HR_REGION_NODES_MAX && has_stream && config->life != 0;
}

static struct hr_tenure *lay_out(const struct hr_tenure_config *config, struct hr_peer **ret_peers,
                                 struct hr_bump *bump)
{
    uint32_t stream_bytes = config->stream_bytes == 0 ? HR_TENURE_STREAM_BYTES : config->stream_bytes;
    struct hr_tenure *tenure = hr_bump_take(bump, 1, sizeof(*tenure), 64);
    struct hr_peer *peers = hr_bump_take(bump, config->nodes_max, sizeof(*peers), 64);
    for (uint32_t i = 0; i < config->nodes_max; i++) {
        struct hr_stream stream;
        hr_stream_init(&stream, config->life, stream_bytes, bump);
        if (peers != NULL) {
            peers[i].stream = stream;
        }
    }
    *ret_peers = peers;
    return tenure;
}

size_t hr_tenure_bytes(const struct hr_tenure_config *config)
{
    struct hr_bump bump = {0};
    struct hr_peer *peers;
    if (!is_valid(config)) {
        return 0;
    }
    (void)lay_out(config, &peers, &bump);
    return bump.taken;
}

struct hr_tenure *hr_tenure_init(const struct hr_tenure_config *config, hr_ns now, void *memory, size_t memory_bytes)
{
    size_t needed = hr_tenure_bytes(config);
    if (needed == 0 || memory_bytes < needed) {
        return NULL;
    }
    struct hr_bump bump = {.at = memory};
    struct hr_peer *peers;
    struct hr_tenure *tenure = lay_out(config, &peers, &bump);
    tenure->config = *config;
    tenure->self_id = config->members->all[config->members->self].id;
    tenure->self = HR_NODE_NONE;
    tenure->peers = peers;
    tenure->started_at = tenure->remade_at = tenure->adopted_at = now;
    tenure->self_granted = INT64_MAX;
    tenure->lease_until = INT64_MIN;
    hr_tenure_members_changed(tenure, now);
    return tenure;
}

/* --- who is there --- */

static bool is_of_region(const struct hr_tenure *tenure, uint32_t member)
{
    const struct hr_members *members = tenure->config.members;
    return member != members->self && strcmp(members->all[member].region, members->all[members->self].region) == 0;
}

/* Whoever is in no charter and gone makes way. */
static bool may_be_replaced(const struct hr_tenure *tenure, const struct hr_peer *peer)
{
    return peer->id == 0 || (hr_charter_find(&tenure->current, peer->id) == HR_NODE_NONE &&
                             !hr_member_is_live(&tenure->config.members->all[peer->member]));
}

static struct hr_peer *slot_for(struct hr_tenure *tenure, uint64_t id)
{
    struct hr_peer *slot = NULL;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        if (tenure->peers[i].id == id) {
            return &tenure->peers[i];
        }
        if (slot == NULL && may_be_replaced(tenure, &tenure->peers[i])) {
            slot = &tenure->peers[i];
        }
    }
    if (slot == NULL && tenure->peer_count < tenure->config.nodes_max) {
        slot = &tenure->peers[tenure->peer_count++];
    }
    return slot;
}

static void note_member(struct hr_tenure *tenure, uint32_t member, hr_ns now)
{
    const struct hr_member *of = &tenure->config.members->all[member];
    struct hr_peer *peer = slot_for(tenure, of->id);
    if (peer == NULL) {
        return; /* more nodes than there are slots: the others form the region */
    }
    if (peer->id != of->id) {
        struct hr_stream stream = peer->stream;
        stream.peer_life = 0;
        *peer = (struct hr_peer){
            .id = of->id, .heard_at = -1, .contact_at = -1, .stamp = -1, .clock = {-1, 0}, .acked = -1};
        peer->node = HR_NODE_NONE;
        peer->granted_at = now;
        peer->copy_offset = SIZE_MAX;
        peer->stream = stream;
    }
    peer->member = member;
}

void hr_tenure_members_changed(struct hr_tenure *tenure, hr_ns now)
{
    const struct hr_members *members = tenure->config.members;
    for (uint32_t i = 0; i < members->count; i++) {
        bool is_known = hr_charter_find(&tenure->current, members->all[i].id) != HR_NODE_NONE;
        if (is_of_region(tenure, i) && (hr_member_is_live(&members->all[i]) || is_known)) {
            note_member(tenure, i, now);
        }
    }
    hr_tenure_seat_peers(tenure);
    hr_tenure_renew_lease(tenure);
}

static struct hr_peer *peer_of_member(struct hr_tenure *tenure, uint32_t member)
{
    uint64_t id = tenure->config.members->all[member].id;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        if (tenure->peers[i].id == id) {
            return &tenure->peers[i];
        }
    }
    return NULL;
}

/* --- events --- */

void hr_tenure_send(struct hr_tenure *tenure, const struct hr_peer *peer, enum hr_letter_kind kind, struct hr_span body)
{
    const struct hr_letter letter = {
        .to = peer->id, .lane = HR_LANE_PEER, .kind = kind, .address = {"", 0}, .body = body};
    (void)hr_outbox_put(tenure->config.outbox, &letter); /* one that has no room is as one that is lost */
}

static void send_streams(struct hr_tenure *tenure, hr_ns now)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        size_t bytes;
        while (peer->id != 0 && (bytes = hr_stream_next_letter(&peer->stream, now, tenure->letter)) > 0) {
            hr_tenure_send(tenure, peer, HR_LETTER_STREAM, (struct hr_span){(char *)tenure->letter, bytes});
        }
    }
}

static void receive_stream(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span body, struct hr_now now)
{
    uint64_t life = hr_stream_peer_life(body);
    struct hr_stream_letter letter;
    struct hr_span message;
    if (hr_stream_open(&peer->stream, life)) {
        hr_handover_restart(tenure, peer);
    }
    enum hr_err err = hr_stream_receive(&peer->stream, body, now.steady, &letter);
    tenure->counts.refused += err == HR_E_CORRUPT;
    while (err == HR_OK && hr_stream_next_message(&letter, &message) && hr_handover_take(tenure, peer, message, now)) {
        hr_stream_take(&peer->stream);
    }
}

static bool is_alone(struct hr_tenure *tenure, hr_ns now)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        if (tenure->peers[i].id != 0 && hr_tenure_is_in_contact(&tenure->peers[i], now)) {
            return false;
        }
    }
    return true;
}

/* Is it the one to make a charter among those that it sees, none of which has one? */
static bool is_first(struct hr_tenure *tenure, hr_ns now)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        if (peer->id != 0 && hr_tenure_is_in_contact(peer, now) && (peer->lineage != 0 || peer->id < tenure->self_id)) {
            return false;
        }
    }
    return true;
}

/* A node that knows of no charter waits for one; or makes one, when it is its turn. */
static void look_for_charter(struct hr_tenure *tenure, hr_ns now)
{
    hr_ns waited = now - tenure->started_at;
    bool is_turn = !tenure->config.has_seeds ||
                   (is_first(tenure, now) && waited >= (is_alone(tenure, now) ? HR_TENURE_ALONE_NS : FOUND_NS));
    if (tenure->current.lineage == 0 && is_turn && !tenure->is_leaving) {
        hr_charter_found(&tenure->scratch, tenure->config.lineage, tenure->self_id);
        hr_tenure_adopt(tenure, &tenure->scratch, now);
    }
}

static void look_for_lost(struct hr_tenure *tenure, hr_ns now)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        bool is_lost = peer->id != 0 && (peer->heard_at < 0 || now - peer->heard_at > HR_HEARD_NS);
        if (is_lost && !peer->is_lost) {
            peer->is_lost = true;
            hr_tenure_lose_copies(tenure, peer);
        }
    }
}

static void note_lapse(struct hr_tenure *tenure, hr_ns now)
{
    bool has_lease = now < tenure->lease_until;
    tenure->counts.lapses += tenure->had_lease && !has_lease;
    tenure->had_lease = has_lease;
}

/* What was restored may have taken long: its time begins when it can hear others. */
static void begin_time(struct hr_tenure *tenure, hr_ns now)
{
    if (!tenure->has_begun) {
        tenure->has_begun = true;
        tenure->started_at = now;
    }
}

void hr_tenure_tick(struct hr_tenure *tenure, struct hr_now now)
{
    begin_time(tenure, now.steady);
    look_for_charter(tenure, now.steady);
    look_for_lost(tenure, now.steady);
    note_lapse(tenure, now.steady);
    hr_tenure_pay_owed(tenure, now.steady);
    hr_tenure_lead(tenure, now.steady);
    hr_handover_drop(tenure, now);
    hr_handover_pump(tenure, now);
    hr_tenure_pulse(tenure, now.steady);
    send_streams(tenure, now.steady);
    tenure->tick_at = hr_next_beat(now.steady, TICK_NS);
}

void hr_tenure_receive(struct hr_tenure *tenure, enum hr_letter_kind kind, uint32_t from, struct hr_span body,
                       struct hr_now now)
{
    struct hr_peer *peer =
        from < tenure->config.members->count && is_of_region(tenure, from) ? peer_of_member(tenure, from) : NULL;
    if (peer == NULL) {
        return; /* of another region, or not in the table yet: it will come again */
    }
    if (kind == HR_LETTER_PULSE) {
        hr_tenure_receive_pulse(tenure, peer, body, now.steady);
    } else if (kind == HR_LETTER_TENURE) {
        hr_tenure_receive_vote(tenure, peer, body, now.steady);
    } else if (kind == HR_LETTER_STREAM) {
        receive_stream(tenure, peer, body, now);
    }
    hr_handover_pump(tenure, now);
    send_streams(tenure, now.steady);
}

hr_ns hr_tenure_deadline(const struct hr_tenure *tenure)
{
    hr_ns deadline = tenure->tick_at;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        if (peer->id != 0) {
            hr_ns stream_at = hr_stream_deadline(&peer->stream);
            deadline = peer->pulse_at < deadline ? peer->pulse_at : deadline;
            deadline = stream_at < deadline ? stream_at : deadline;
        }
    }
    return deadline;
}

/* Out of the charter; and do so many of the others know that they get on without this node's vote? */
static bool is_out(struct hr_tenure *tenure, hr_ns now)
{
    hr_node_set knowing = 0;
    for (uint8_t i = 0; i < tenure->current.count; i++) {
        const struct hr_peer *peer = hr_tenure_peer_of(tenure, i);
        bool knows = peer != NULL && hr_tenure_is_in_contact(peer, now) && peer->lineage == tenure->current.lineage &&
                     peer->version >= tenure->current.version;
        knowing |= knows ? hr_node_bit(i) : 0;
    }
    return hr_charter_is_majority(&tenure->current, knowing, tenure->gone);
}

static void begin_to_leave(struct hr_tenure *tenure)
{
    for (uint32_t i = 0; i < tenure->peer_count && !tenure->is_leaving; i++) {
        tenure->peers[i].pulse_at = 0; /* to be told at once */
    }
    tenure->is_leaving = true;
}

bool hr_tenure_is_last(const struct hr_tenure *tenure)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        if (peer->id != 0 && !peer->is_leaving && hr_member_is_live(&tenure->config.members->all[peer->member])) {
            return false;
        }
    }
    return true;
}

bool hr_tenure_leave(struct hr_tenure *tenure, hr_ns now)
{
    begin_to_leave(tenure);
    if (tenure->current.lineage == 0) {
        return true;
    }
    if (tenure->self != HR_NODE_NONE) {
        return tenure->current.count == 1;
    }
    return is_out(tenure, now);
}

/* --- the path of a request --- */

static uint32_t member_of(const struct hr_tenure *tenure, uint8_t node)
{
    if (node == HR_NODE_NONE) {
        return HR_MEMBER_NONE;
    }
    if (node == tenure->self) {
        return tenure->config.members->self;
    }
    uint32_t slot = tenure->peer_of[node];
    return slot == UINT32_MAX ? HR_MEMBER_NONE : tenure->peers[slot].member;
}

/* Just started, it does not know yet who can be asked. */
static enum hr_standing nobody(const struct hr_tenure *tenure, hr_ns now)
{
    bool is_starting = tenure->config.has_seeds && now - tenure->started_at < STARTING_NS;
    return is_starting ? HR_STANDING_MOVING : HR_STANDING_NOBODY;
}

/* It is held here, and not on its way to another node: with a lease this node answers for it. */
static inline bool is_free(uint8_t part)
{
    return (part & (HR_PART_HOLDS | HR_PART_FROZEN)) == HR_PART_HOLDS;
}

enum hr_standing hr_tenure_standing(const struct hr_tenure *tenure, uint32_t partition, hr_ns now, uint32_t *ret_member)
{
    uint8_t part = tenure->parts[partition];
    if (part & HR_PART_HOLDS) {
        return now >= tenure->lease_until ? nobody(tenure, now) : is_free(part) ? HR_STANDING_MINE : HR_STANDING_MOVING;
    }
    if (tenure->current.lineage == 0) {
        return nobody(tenure, now);
    }
    uint8_t holder = tenure->holders[partition];
    if (holder == tenure->self) {
        return HR_STANDING_MOVING; /* a copy is on its way here, and nobody holds it */
    }
    uint32_t slot = tenure->peer_of[holder];
    if (slot == UINT32_MAX || tenure->peers[slot].heard_at < 0 || now - tenure->peers[slot].heard_at > HR_LEASE_NS) {
        return nobody(tenure, now);
    }
    *ret_member = tenure->peers[slot].member;
    return HR_STANDING_AT;
}

struct hr_heard hr_tenure_heard(const struct hr_tenure *tenure, uint64_t member)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        if (tenure->peers[i].id == member) {
            return tenure->peers[i].clock;
        }
    }
    return (struct hr_heard){-1, 0};
}

void hr_tenure_add_mine(const struct hr_tenure *tenure, hr_ns now, uint8_t counts[HR_PARTITIONS])
{
    for (uint32_t p = 0; p < HR_PARTITIONS && now < tenure->lease_until; p++) {
        counts[p] = (uint8_t)(counts[p] + is_free(tenure->parts[p]));
    }
}

enum hr_holding hr_tenure_holding(const struct hr_tenure *tenure, uint32_t partition)
{
    uint8_t part = tenure->parts[partition];
    return !(part & HR_PART_HOLDS) ? HR_HOLDING_NOT : part & HR_PART_FROZEN ? HR_HOLDING_GIVING : HR_HOLDING;
}

uint32_t hr_tenure_epoch(const struct hr_tenure *tenure, uint32_t partition)
{
    return tenure->current.seats[partition].epoch;
}

uint64_t hr_tenure_lineage(const struct hr_tenure *tenure)
{
    return tenure->current.lineage;
}

uint32_t hr_tenure_owner(const struct hr_tenure *tenure, uint32_t partition)
{
    return tenure->current.lineage == 0 ? HR_MEMBER_NONE : member_of(tenure, tenure->current.seats[partition].owner);
}

uint32_t hr_tenure_standby(const struct hr_tenure *tenure, uint32_t partition)
{
    return tenure->current.lineage == 0 ? HR_MEMBER_NONE : member_of(tenure, tenure->current.seats[partition].standby);
}

/* --- standby copies --- */

void hr_tenure_copy(struct hr_tenure *tenure, const struct hr_store_batch *batch, uint64_t ticket, struct hr_now now)
{
    tenure->batch = batch;
    tenure->ticket = ticket;
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        tenure->peers[i].copy_offset = 0;
        tenure->peers[i].copy_number = 0;
    }
    hr_handover_pump(tenure, now);
    send_streams(tenure, now.steady);
}

bool hr_tenure_copied(const struct hr_tenure *tenure, uint64_t ticket)
{
    return tenure->batch == NULL || tenure->ticket != ticket;
}

struct hr_tenure_counts hr_tenure_counts(const struct hr_tenure *tenure, hr_ns now)
{
    struct hr_tenure_counts counts = tenure->counts;
    counts.version = tenure->current.version;
    counts.has_lease = now < tenure->lease_until;
    return counts;
}
