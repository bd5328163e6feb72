#include "gossip/outbox.h"

#include <assert.h>
#include <string.h>

#include "gossip/member.h"

/* A letter in the ring is this head, its address and its body, padded to a multiple of 8. It never wraps: where the
 * rest of the ring is too short it is skipped, which a head of kind 0 says, or a rest that is shorter than a head. */
struct head {
    uint64_t to;
    uint32_t body_bytes;
    uint16_t address_bytes;
    uint8_t lane;
    uint8_t kind;
};

static_assert(sizeof(struct head) == 16, "heads stay on multiples of 8");
static_assert(HR_MEMBER_ADDRESS_BYTES_MAX <= UINT16_MAX, "an address's length fits its field");

void hr_outbox_init(struct hr_outbox *outbox, size_t bytes_max, struct hr_bump *bump)
{
    size_t rounded = bytes_max & ~(size_t)7;
    uint8_t *ring = hr_bump_take(bump, rounded, 1, 8);
    *outbox = (struct hr_outbox){.ring = ring, .bytes_max = rounded};
}

static size_t letter_bytes(size_t address_bytes, size_t body_bytes)
{
    return (sizeof(struct head) + address_bytes + body_bytes + 7) & ~(size_t)7;
}

/* How many bytes at the ring's end must be skipped to place `need` bytes; more than the ring has: there is no room. */
static size_t skip_of(const struct hr_outbox *outbox, size_t need)
{
    size_t end = outbox->first + outbox->used;
    if (end >= outbox->bytes_max) {
        return 0; /* the free part lies in one piece, below first */
    }
    size_t rest = outbox->bytes_max - end;
    return rest >= need ? 0 : rest;
}

static size_t place_of(const struct hr_outbox *outbox)
{
    size_t end = outbox->first + outbox->used;
    return end >= outbox->bytes_max ? end - outbox->bytes_max : end;
}

static void skip(struct hr_outbox *outbox, size_t bytes)
{
    struct head none = {0};
    if (bytes >= sizeof(none)) {
        memcpy(outbox->ring + place_of(outbox), &none, sizeof(none));
    }
    outbox->used += bytes;
}

static void copy(uint8_t *to, struct hr_span from)
{
    if (from.bytes > 0) {
        memcpy(to, from.at, from.bytes);
    }
}

bool hr_outbox_put(struct hr_outbox *outbox, const struct hr_letter *letter)
{
    if (letter->body.bytes > HR_LETTER_BYTES_MAX || letter->address.bytes > HR_MEMBER_ADDRESS_BYTES_MAX) {
        outbox->dropped++;
        return false;
    }
    if (outbox->used == 0) {
        outbox->first = 0;
    }
    size_t need = letter_bytes(letter->address.bytes, letter->body.bytes);
    size_t skipped = skip_of(outbox, need);
    if (outbox->used + skipped + need > outbox->bytes_max) {
        outbox->dropped++;
        return false;
    }
    if (skipped > 0) {
        skip(outbox, skipped);
    }
    struct head head = {letter->to, (uint32_t)letter->body.bytes, (uint16_t)letter->address.bytes,
                        (uint8_t)letter->lane, (uint8_t)letter->kind};
    uint8_t *at = outbox->ring + place_of(outbox);
    memcpy(at, &head, sizeof(head));
    copy(at + sizeof(head), letter->address);
    copy(at + sizeof(head) + letter->address.bytes, letter->body);
    outbox->used += need;
    outbox->count++;
    return true;
}

static void release(struct hr_outbox *outbox, size_t bytes)
{
    outbox->first += bytes;
    outbox->used -= bytes;
    if (outbox->first >= outbox->bytes_max) {
        outbox->first -= outbox->bytes_max;
    }
}

/* The head of the oldest letter, past what was skipped. Requires: there is a letter. */
static struct head oldest(struct hr_outbox *outbox)
{
    struct head head = {0};
    size_t rest = outbox->bytes_max - outbox->first;
    if (rest >= sizeof(head)) {
        memcpy(&head, outbox->ring + outbox->first, sizeof(head));
    }
    if (head.kind == 0) {
        release(outbox, rest);
        memcpy(&head, outbox->ring, sizeof(head));
    }
    return head;
}

bool hr_outbox_next(struct hr_outbox *outbox, struct hr_letter *ret_letter)
{
    if (outbox->count == 0) {
        return false;
    }
    struct head head = oldest(outbox);
    const char *at = (const char *)outbox->ring + outbox->first + sizeof(head);
    *ret_letter = (struct hr_letter){
        .to = head.to,
        .lane = (enum hr_lane)head.lane,
        .kind = (enum hr_letter_kind)head.kind,
        .address = {at, head.address_bytes},
        .body = {at + head.address_bytes, head.body_bytes},
    };
    release(outbox, letter_bytes(head.address_bytes, head.body_bytes));
    outbox->count--;
    return true;
}
