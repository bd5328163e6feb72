#include "gossip/envelope.h"

#include <assert.h>
#include <string.h>

#include "gossip/life.h"
#include "storage/le.h"

#define SLOTS (2 * HR_ENVELOPE_PEERS_MAX)
#define WINDOW_BITS 64

static_assert((SLOTS & (SLOTS - 1)) == 0, "a slot is found by a mask");

static const char magic[3] = {'H', 'R', 'E'};

const char *hr_refusal_text(enum hr_refusal refusal)
{
    static const char *const texts[] = {
#define X(name, text) text,
        HR_REFUSAL_LIST(X)
#undef X
    };
    return (unsigned)refusal < HR_REFUSALS ? texts[refusal] : "unknown refusal";
}

void hr_envelope_init(struct hr_envelope *envelope, const struct hr_envelope_config *config, struct hr_bump *bump)
{
    static const char purpose[] = "headroom envelope";
    struct hr_envelope_peer *slots = hr_bump_take(bump, SLOTS, sizeof(*slots), _Alignof(struct hr_envelope_peer));
    *envelope = (struct hr_envelope){
        .key = hr_hash_subkey(config->secret, purpose, sizeof(purpose) - 1),
        .cluster = hr_plain_hash(config->cluster.at, config->cluster.bytes, 0),
        .self = config->self,
        .life = config->life,
        .slots = slots,
    };
    if (slots != NULL) {
        memset(slots, 0, SLOTS * sizeof(*slots));
    }
}

/* The peer's slot, made where there is none. NULL: there are too many. */
static struct hr_envelope_peer *peer_of(struct hr_envelope *envelope, uint64_t id)
{
    uint32_t slot = (uint32_t)(id ^ id >> 32) & (SLOTS - 1);
    while (envelope->slots[slot].id != 0 && envelope->slots[slot].id != id) {
        slot = (slot + 1) & (SLOTS - 1);
    }
    struct hr_envelope_peer *peer = &envelope->slots[slot];
    if (peer->id == 0) {
        if (envelope->peers == HR_ENVELOPE_PEERS_MAX) {
            return NULL;
        }
        envelope->peers++;
        peer->id = id;
    }
    return peer;
}

/* The head, in the order of its bytes. */
struct head {
    uint8_t kind, lane;
    uint64_t cluster, from, from_life, to, to_life, sequence;
};

static void write_head(struct hr_le_writer *writer, const struct head *head)
{
    hr_le_write_bytes(writer, magic, sizeof(magic));
    hr_le_write_u8(writer, HR_ENVELOPE_VERSION);
    hr_le_write_u8(writer, head->kind);
    hr_le_write_u8(writer, head->lane);
    hr_le_write_u16(writer, 0);
    hr_le_write_u64(writer, head->cluster);
    hr_le_write_u64(writer, head->from);
    hr_le_write_u64(writer, head->from_life);
    hr_le_write_u64(writer, head->to);
    hr_le_write_u64(writer, head->to_life);
    hr_le_write_u64(writer, head->sequence);
}

/* Whom a letter is for, in which life, and its number. False: it can go to nobody. */
static bool address_head(struct hr_envelope *envelope, const struct hr_letter *letter, const struct hr_members *members,
                         struct head *head)
{
    if (letter->to == 0) {
        head->sequence = ++envelope->sent_to_anyone;
        return letter->kind == HR_LETTER_SWIM;
    }
    uint32_t index = hr_members_find(members, letter->to);
    struct hr_envelope_peer *peer = index == HR_MEMBER_NONE ? NULL : peer_of(envelope, letter->to);
    if (peer == NULL) {
        return false;
    }
    uint64_t life = hr_life_of(members->all[index].incarnation);
    head->to = letter->to;
    head->to_life = letter->kind == HR_LETTER_SWIM ? 0 : life > peer->life ? life : peer->life;
    head->sequence = ++peer->sent[letter->lane];
    return true;
}

size_t hr_envelope_seal(struct hr_envelope *envelope, const struct hr_letter *letter, const struct hr_members *members,
                        uint8_t *out)
{
    struct head head = {
        .kind = (uint8_t)letter->kind,
        .lane = (uint8_t)letter->lane,
        .cluster = envelope->cluster,
        .from = envelope->self,
        .from_life = envelope->life,
    };
    if (letter->body.bytes > HR_LETTER_BYTES_MAX || !address_head(envelope, letter, members, &head)) {
        return 0;
    }
    struct hr_le_writer writer = hr_le_writer_of(out, HR_ENVELOPE_BYTES + letter->body.bytes);
    write_head(&writer, &head);
    hr_le_write_bytes(&writer, letter->body.at, letter->body.bytes);
    hr_le_write_id(&writer, hr_keyed_hash(&envelope->key, out, writer.used));
    return writer.used;
}

/* Is it of this protocol, this cluster and this secret? Then *ret_head and *ret_body are what was sealed. */
static enum hr_refusal unseal(const struct hr_envelope *envelope, struct hr_span packet, struct head *ret_head,
                              struct hr_span *ret_body)
{
    if (packet.bytes < HR_ENVELOPE_BYTES) {
        return HR_REFUSED_TRUNCATED;
    }
    if (packet.bytes > HR_PACKET_BYTES_MAX) {
        return HR_REFUSED_TOO_LONG;
    }
    struct hr_le_reader reader = hr_le_reader_of(packet);
    if (memcmp(hr_le_read_bytes(&reader, sizeof(magic)).at, magic, sizeof(magic)) != 0) {
        return HR_REFUSED_NO_PACKET;
    }
    if (hr_le_read_u8(&reader) != HR_ENVELOPE_VERSION) {
        return HR_REFUSED_VERSION;
    }
    struct head head = {.kind = hr_le_read_u8(&reader), .lane = hr_le_read_u8(&reader)};
    uint16_t reserved = hr_le_read_u16(&reader);
    head.cluster = hr_le_read_u64(&reader);
    head.from = hr_le_read_u64(&reader);
    head.from_life = hr_le_read_u64(&reader);
    head.to = hr_le_read_u64(&reader);
    head.to_life = hr_le_read_u64(&reader);
    head.sequence = hr_le_read_u64(&reader);
    struct hr_span body = hr_le_read_bytes(&reader, packet.bytes - HR_ENVELOPE_BYTES);
    struct hr_id128 mac = hr_le_read_id(&reader);
    if (head.cluster != envelope->cluster) {
        return HR_REFUSED_CLUSTER;
    }
    struct hr_id128 wanted = hr_keyed_hash(&envelope->key, packet.at, packet.bytes - HR_ENVELOPE_MAC_BYTES);
    if (((mac.hi ^ wanted.hi) | (mac.lo ^ wanted.lo)) != 0) { /* one branch: no byte of it shows in the time */
        return HR_REFUSED_SECRET;
    }
    if (reserved != 0 || head.kind == 0 || head.kind > HR_LETTER_KIND_MAX || head.lane > HR_LANE_PEER ||
        head.from == 0 || head.from_life == 0) {
        return HR_REFUSED_MALFORMED;
    }
    *ret_head = head;
    *ret_body = body;
    return HR_REFUSED_NOT;
}

static enum hr_refusal check_receiver(const struct hr_envelope *envelope, const struct head *head)
{
    if (head->from == envelope->self) {
        return head->from_life == envelope->life ? HR_REFUSED_OWN : HR_REFUSED_NAMESAKE;
    }
    bool is_swim = head->kind == HR_LETTER_SWIM;
    if (head->to != envelope->self && !(head->to == 0 && is_swim)) {
        return HR_REFUSED_NOT_FOR_ME;
    }
    if (head->to_life != envelope->life && !(head->to_life == 0 && is_swim)) {
        return HR_REFUSED_FOR_OTHER_LIFE;
    }
    return HR_REFUSED_NOT;
}

/* False: seen before, or too old to tell. */
static bool admit(struct hr_replay_window *window, uint64_t sequence)
{
    if (sequence > window->newest) {
        uint64_t ahead = sequence - window->newest;
        window->seen = ahead < WINDOW_BITS ? window->seen << ahead | 1 : 1;
        window->newest = sequence;
        return true;
    }
    uint64_t behind = window->newest - sequence;
    if (behind >= WINDOW_BITS || (window->seen >> behind & 1) != 0) {
        return false;
    }
    window->seen |= UINT64_C(1) << behind;
    return true;
}

static enum hr_refusal check_sender(struct hr_envelope *envelope, const struct head *head)
{
    struct hr_envelope_peer *peer = peer_of(envelope, head->from);
    if (peer == NULL) {
        return HR_REFUSED_TOO_MANY;
    }
    if (head->from_life < peer->life) {
        /* To whoever is there a node of an older life may write, so that it can be told; hr_swim_receive bounds that.
         */
        return head->to == 0 ? HR_REFUSED_NOT : HR_REFUSED_OLD_LIFE;
    }
    if (head->from_life > peer->life) {
        peer->life = head->from_life;
        memset(peer->windows, 0, sizeof(peer->windows));
    }
    unsigned lane = head->to == 0 ? HR_WINDOW_ANYONE : head->lane;
    return admit(&peer->windows[lane], head->sequence) ? HR_REFUSED_NOT : HR_REFUSED_REPLAYED;
}

enum hr_refusal hr_envelope_open(struct hr_envelope *envelope, struct hr_span packet, struct hr_opened *ret_opened)
{
    struct head head;
    struct hr_span body;
    enum hr_refusal refusal = unseal(envelope, packet, &head, &body);
    if (refusal == HR_REFUSED_NOT) {
        refusal = check_receiver(envelope, &head);
    }
    if (refusal == HR_REFUSED_NOT) {
        refusal = check_sender(envelope, &head);
    }
    envelope->refused[refusal]++;
    if (refusal == HR_REFUSED_NOT) {
        *ret_opened = (struct hr_opened){head.from, head.from_life, (enum hr_lane)head.lane,
                                         (enum hr_letter_kind)head.kind, body};
    }
    return refusal;
}
