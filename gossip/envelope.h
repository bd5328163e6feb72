/* Envelope: every byte between two nodes lies in one, sealed by the cluster's secret.
 *
 *      0  magic           "HRE" and HR_ENVELOPE_VERSION
 *      4  kind            u8   enum hr_letter_kind
 *      5  lane            u8   enum hr_lane
 *      6  reserved        u16  zero
 *      8  cluster         u64  plain hash of the cluster's name
 *     16  sender          u64  its member id
 *     24  sender's life   u64  life.h
 *     32  receiver        u64  its member id; 0: whoever is there, for HR_LETTER_SWIM only
 *     40  receiver's life u64  as the sender knows it; 0: any, for HR_LETTER_SWIM only
 *     48  sequence        u64  rises by one for each letter to this receiver on this lane
 *     56  body
 *   last  MAC             16 bytes, hr_keyed_hash of all before, under a subkey of the secret
 *
 * in little-endian. What opens was written by a holder of the secret, for this node in this life, and is seen for the
 * first time: each sender's life has a window of 64 sequence numbers for each lane, and one for letters to whoever is
 * there (the window of RFC 4303, section 3.4.3). SWIM's letters are good for any life of the receiver, since a node
 * that restarted has to hear from those who knew it before; and those to whoever is there for any life of the sender,
 * since a node that is out of date has to be told. An old letter of these kinds is harmless by SWIM's own rules.
 *
 * The body is not hidden: where the path is not trusted, gossip goes over TLS. The cluster's name is hashed without the
 * key, so that a wrong secret and a wrong cluster can be told apart; it proves nothing.
 *
 * Thread: the owner's. Pure. Memory: handed in. */
#ifndef HR_GOSSIP_ENVELOPE_H
#define HR_GOSSIP_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/hash.h"
#include "base/span.h"
#include "gossip/member.h"
#include "gossip/outbox.h"

#define HR_ENVELOPE_VERSION 1
#define HR_ENVELOPE_HEAD_BYTES 56
#define HR_ENVELOPE_MAC_BYTES 16
#define HR_ENVELOPE_BYTES (HR_ENVELOPE_HEAD_BYTES + HR_ENVELOPE_MAC_BYTES) /* what it adds to a body */
#define HR_PACKET_BYTES_MAX (HR_ENVELOPE_BYTES + HR_LETTER_BYTES_MAX)

/* Ids that may ever write to this node, or be written to, in its life. */
#define HR_ENVELOPE_PEERS_MAX (2 * HR_MEMBERS_MAX)

/* name, text for the operator */
#define HR_REFUSAL_LIST(X)                                                                              \
    X(HR_REFUSED_NOT, "opened")                                                                         \
    X(HR_REFUSED_TRUNCATED, "a packet is shorter than its envelope")                                    \
    X(HR_REFUSED_TOO_LONG, "a packet is longer than any letter")                                        \
    X(HR_REFUSED_NO_PACKET, "bytes are no packet of Headroom's")                                        \
    X(HR_REFUSED_VERSION, "a node speaks another version of the protocol")                              \
    X(HR_REFUSED_CLUSTER, "a node of another cluster wrote (cluster: name)")                            \
    X(HR_REFUSED_SECRET, "a packet does not hold against this cluster's secret (cluster: secret_file)") \
    X(HR_REFUSED_MALFORMED, "a sealed packet makes no sense")                                           \
    X(HR_REFUSED_OWN, "a node heard itself")                                                            \
    X(HR_REFUSED_NAMESAKE, "another node has this node's name and region")                              \
    X(HR_REFUSED_NOT_FOR_ME, "a packet is for another node")                                            \
    X(HR_REFUSED_FOR_OTHER_LIFE, "a packet is for this node before it restarted")                       \
    X(HR_REFUSED_OLD_LIFE, "a node wrote from before its restart, or has lost its data and its clock")  \
    X(HR_REFUSED_REPLAYED, "a packet came again, or far too late")                                      \
    X(HR_REFUSED_TOO_MANY, "too many nodes wrote")

enum hr_refusal {
#define X(name, text) name,
    HR_REFUSAL_LIST(X)
#undef X
        HR_REFUSALS
};

const char *hr_refusal_text(enum hr_refusal refusal);

/* By the letters' lane, and for letters to whoever is there. */
enum { HR_WINDOW_ANYONE = HR_LANE_PEER + 1, HR_WINDOWS };

/* Which sequence numbers were seen: the newest, and those up to 63 before it. */
struct hr_replay_window {
    uint64_t newest;
    uint64_t seen; /* bit i: newest - i */
};

struct hr_envelope_peer {
    uint64_t id; /* 0: the slot is free */
    uint64_t life;
    uint64_t sent[HR_WINDOWS]; /* the last sequence number to this peer */
    struct hr_replay_window windows[HR_WINDOWS];
};

struct hr_envelope {
    struct hr_hash_key key;
    uint64_t cluster, self, life;
    uint64_t sent_to_anyone;
    struct hr_envelope_peer *slots; /* open addressing by id; never more than half full */
    uint32_t peers;
    uint64_t refused[HR_REFUSALS]; /* how often, by reason */
};

struct hr_envelope_config {
    const struct hr_hash_key *secret; /* the cluster's */
    struct hr_span cluster;           /* its name */
    uint64_t self;                    /* this node's member id */
    uint64_t life;                    /* of this node, 1 or more */
};

void hr_envelope_init(struct hr_envelope *envelope, const struct hr_envelope_config *config, struct hr_bump *bump);

/* Writes the packet of a letter at `out`, which has room for HR_ENVELOPE_BYTES and the body, and does not overlap it.
 * `members` knows the receiver's life. Returns its bytes; 0: the body is too long, or the receiver is no member (only a
 * letter of SWIM goes to id 0), or there were too many receivers. */
size_t hr_envelope_seal(struct hr_envelope *envelope, const struct hr_letter *letter, const struct hr_members *members,
                        uint8_t *out);

struct hr_opened {
    uint64_t from; /* a member id; not necessarily a known member */
    uint64_t from_life;
    enum hr_lane lane;
    enum hr_letter_kind kind;
    struct hr_span body; /* lies in the packet */
};

/* Where it is refused *ret_opened is not written. Each reason is counted; refused[HR_REFUSED_NOT] are those that
 * opened. O(packet). */
enum hr_refusal hr_envelope_open(struct hr_envelope *envelope, struct hr_span packet, struct hr_opened *ret_opened);

#endif
