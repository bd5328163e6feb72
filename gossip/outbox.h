/* Outbox: letters of one node to others, waiting to be sealed and sent. The effects of every protocol between nodes.
 *
 * A letter is a kind, whom it is for, on which lane it goes, and a body of plain bytes. Letters on one lane to one
 * member leave in order; any may be lost, doubled or late, and every protocol is made for that. When the outbox is full
 * a letter is dropped and counted: nothing ever waits for a peer.
 *
 * Thread: the owner's. Pure. Memory: handed in, a ring of bytes. */
#ifndef HR_GOSSIP_OUTBOX_H
#define HR_GOSSIP_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/span.h"

/* The longest body. One sealed letter is at most HR_LETTER_BYTES_MAX and what the envelope adds (envelope.h). */
#define HR_LETTER_BYTES_MAX (256U << 10)

/* HR_LANE_GOSSIP: nng, to any region. HR_LANE_PEER: the connection between two nodes of one region. */
enum hr_lane { HR_LANE_GOSSIP, HR_LANE_PEER };

/* On the wire: never renumbered. What a letter is about, and so which protocol reads it. */
enum hr_letter_kind {
    HR_LETTER_SWIM = 1,      /* gossip/swim.h */
    HR_LETTER_CAPS = 2,      /* region/caps.h: shares of global caps */
    HR_LETTER_PULSE = 3,     /* region/quorum.h: who hears whom within the region */
    HR_LETTER_STREAM = 4,    /* region/stream.h: hand-over and standby copies */
    HR_LETTER_CALL = 5,      /* region/router.h: a request for the owner of its counters */
    HR_LETTER_ANSWER = 6,    /* ... and its answer */
    HR_LETTER_HOLD = 7,      /* region/holds.h: one owner's part of a request with several owners */
    HR_LETTER_HELD = 8,      /* ... and what became of it */
    HR_LETTER_SETTLE = 9,    /* ... commit or give back */
    HR_LETTER_SETTLED = 10,  /* ... done */
    HR_LETTER_CATALOG = 11,  /* limits that were put at run time */
    HR_LETTER_TENURE = 12,   /* region/tenure.h: votes on who owns what */
    HR_LETTER_KIND_MAX = 15, /* no kind is greater */
};

struct hr_letter {
    uint64_t to; /* a member's id; 0: to `address`, where nobody is known yet */
    enum hr_lane lane;
    enum hr_letter_kind kind;
    struct hr_span address; /* of a seed; else empty */
    struct hr_span body;
};

struct hr_outbox {
    uint8_t *ring;
    size_t bytes_max, first, used;
    uint32_t count;
    uint64_t dropped; /* letters for which there was no room */
};

void hr_outbox_init(struct hr_outbox *outbox, size_t bytes_max, struct hr_bump *bump);

/* Copies the letter. False, and counted: there is no room. */
bool hr_outbox_put(struct hr_outbox *outbox, const struct hr_letter *letter);

/* Takes the oldest letter out; its spans are good until the next call on the outbox. False: there is none. */
bool hr_outbox_next(struct hr_outbox *outbox, struct hr_letter *ret_letter);

#endif
