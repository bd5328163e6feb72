/* SWIM's letters: a type, what that type says, and rumors behind it.
 *
 *     type     u8
 *     PING     seq u32                              is answered by ACK with the same seq
 *     ACK      seq u32
 *     PING_REQ seq u32, target u64, wait u32        ask the target in my place; I wait so many microseconds
 *     NACK     seq u32                              I asked, and have no answer yet
 *     HELLO    digest u64                           here I am, and this is what my table hashes to
 *     TABLE    flags u8, digest u64                 a part of my whole table; digest counts in the last part only
 *     NEWS                                          rumors only
 *     count    u16
 *     rumors   id u64, incarnation u64, state u8 (bit 7: meta follows), accuser u64 where the state is suspect, meta:
 *              weight u32, then name, region, host, rpc and gossip address, each a length u8 and its bytes
 *
 * in little-endian. A letter ends where its rumors end. Encode and decode stand side by side; a decoder takes nothing
 * that the bounds of member.h exclude. Thread: any. Pure. */
#ifndef HR_GOSSIP_SWIM_WIRE_H
#define HR_GOSSIP_SWIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "gossip/member.h"
#include "storage/le.h"

enum hr_swim_type {
    HR_SWIM_PING = 1,
    HR_SWIM_ACK = 2,
    HR_SWIM_PING_REQ = 3,
    HR_SWIM_NACK = 4,
    HR_SWIM_HELLO = 5,
    HR_SWIM_TABLE = 6,
    HR_SWIM_NEWS = 7,
};

enum { HR_SWIM_TABLE_LAST = 1, HR_SWIM_TABLE_ASKS = 2 };

struct hr_swim_head {
    enum hr_swim_type type;
    uint8_t flags;    /* TABLE */
    uint32_t seq;     /* PING, ACK, PING_REQ, NACK */
    uint32_t wait_us; /* PING_REQ */
    uint64_t target;  /* PING_REQ */
    uint64_t digest;  /* HELLO, TABLE */
};

/* What somebody says about a member. */
struct hr_rumor {
    uint64_t id, incarnation;
    enum hr_member_state state;
    uint64_t accuser; /* who suspects it, where the state is suspect; else 0 */
    bool has_meta;    /* what follows is meant */
    uint32_t weight;
    struct hr_span name, region, host, rpc, gossip;
};

/* The head of a letter; rumors follow behind their count. */
void hr_swim_write_head(struct hr_le_writer *writer, const struct hr_swim_head *head);

/* False: no letter of this protocol. *ret_count rumors are said to follow: read them one by one. */
bool hr_swim_read_head(struct hr_le_reader *reader, struct hr_swim_head *ret_head, uint16_t *ret_count);

void hr_rumor_write(struct hr_le_writer *writer, const struct hr_rumor *rumor);

/* False: it is cut off, or makes no sense; nothing behind it can be read. Its spans lie in the letter. */
bool hr_rumor_read(struct hr_le_reader *reader, struct hr_rumor *ret_rumor);

/* What is known of a member, as a rumor whose spans lie in the member. */
struct hr_rumor hr_rumor_of(const struct hr_member *member, uint64_t accuser, bool has_meta);

/* May a member be called that, or be reached there? Printable ASCII without blanks, of at most bytes_max. */
bool hr_member_text_is_valid(struct hr_span text, size_t bytes_max);

#endif
