/* Cap link: what two nodes of different regions know about each other, for the sake of all global caps that they share.
 *
 * Every letter carries a header: who lives (incarnation), that what was lent may be used for a while longer (the
 * lease), and which letters have arrived, so that no record needs an answer of its own.
 *
 *   lease      j may use what i lent it until T after j sent the newest stamp that i has echoed: a duration on j's own
 *              clock. i takes it for granted that j's use has ended T_void after that stamp came: on i's own clock.
 *   session    all loans of one lender on one link. One that has lapsed at the borrower is never revived: it says so,
 * and the lender opens the next. A session that went unechoed for T_void is over at the lender. life       an
 * incarnation of the peer. A new one holds nothing of what was lent to the former one, which may go on using that until
 * its lease lapses; the counters keep it aside until then (lend.h).
 *
 * A link is up only if it works both ways. Thread: the owner's. Pure. Instants are this node's steady clock. */
#ifndef HR_REGION_CAP_LINK_H
#define HR_REGION_CAP_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"

/* Long before any instant, with room below every difference. */
#define HR_CAP_LONG_AGO (-(INT64_C(1) << 57))

struct hr_cap_times {
    hr_ns tick;       /* G: how often letters are sent */
    hr_ns gap;        /* between letters that are sent at once */
    hr_ns lease;      /* T: at least 6 G and twice the longest way */
    hr_ns lease_void; /* T + T / 250 + 1 ms: covers clocks whose rates differ by 2 x 1000 ppm */
    hr_ns retry;      /* a record that has not arrived is sent again after this */
    hr_ns grace;      /* a loan that is too large is recalled after this, if it was not given back by then */
    hr_ns quiet;      /* a link in use sends a bare header this often */
};

/* The times that follow from a tick and a lease. Requires: both lie in 1 ms to a day. */
struct hr_cap_times hr_cap_times_of(hr_ns tick, hr_ns lease);

struct hr_cap_header {
    uint64_t incarnation; /* the sender's */
    uint64_t known;       /* the newest incarnation of the receiver that the sender has seen; 0: none */
    hr_ns stamp;          /* the sender's clock, of no meaning to the receiver */
    hr_ns echo;           /* a stamp of the receiver's: renews what it lent to the receiver */
    uint32_t number;      /* of this letter, 1 and up in each life */
    uint32_t heard;       /* the greatest number that has come; 0: none */
    uint64_t heard_bits;  /* of the 64 before that, the one before first */
    uint32_t session;     /* the sender's, as a lender */
    uint32_t lapsed;      /* the receiver's session that has lapsed at the sender; 0: none */
    uint32_t epoch;       /* config that the sender knows */
    uint32_t low;         /* ... and that it has come down to */
    bool is_settled;      /* alive for longer than any lease, or sole */
    bool is_sole;         /* the sender's former life is known to be gone */
    bool is_wanted;       /* the sender has a hot counter on this link: answer, now and then */
    bool lacks;           /* a record came of a counter that the sender does not know: introduce them again */
};

struct hr_cap_link {
    uint64_t incarnation;           /* mine */
    uint64_t peer;                  /* the newest of the peer; 0: never heard */
    uint32_t lives;                 /* of the peer, counted */
    hr_ns zombie_until;             /* its former lives may use what they hold until then; LONG_AGO: not at all */
    hr_ns stamp, stamp_at;          /* the peer's newest, and when it came */
    hr_ns echoed, echoed_at;        /* what was echoed last, and when that had come */
    hr_ns heard_at;                 /* the newest own stamp that the peer has echoed */
    hr_ns round;                    /* how long such a stamp is on its way there and back: nearly the longest of late */
    uint32_t number;                /* of the last letter sent */
    uint32_t in_number, out_number; /* the greatest received, and the greatest that the peer has received */
    uint64_t in_bits, out_bits;     /* ... and of the 64 before */
    uint32_t session;               /* mine, as a lender */
    uint32_t peer_session;          /* the peer's; 0: none seen */
    bool is_lapsed;                 /* that one, here */
    hr_ns lease_until;              /* what the peer lent in it may be used until then */
    bool lends;                     /* something is lent in the session: the owner's word */
    bool is_stuck;                  /* a recall has long been unanswered: renew nothing. The owner's word */
    bool is_unseated;               /* another node may be the owner by now: renew nothing. The owner's word */
    bool owes_word;                 /* something came that the peer does not yet know to have arrived */
    bool is_wanted_there;           /* the peer has a hot counter on this link */
    bool lacks;                     /* a record came of a counter that is not known here: the owner's word */
    uint32_t peer_epoch, peer_low;
    bool peer_is_settled;
    hr_ns sent_at;
};

/* What a header was good for. */
enum hr_cap_heard {
    HR_CAP_HEARD_OLD,      /* of a dead life: ignore all */
    HR_CAP_HEARD_HEADER,   /* its records are not to be used: it does not know my life, or its echo is too old */
    HR_CAP_HEARD_ALL,      /* use the records */
    HR_CAP_HEARD_OUTLIVED, /* it knows a later life of mine: this node must take a later incarnation still */
};

void hr_cap_link_init(struct hr_cap_link *link, uint64_t incarnation);

/* Ends all that is lent on the link, at once and without asking: the peer may go on using it until its lease lapses,
 * which is not renewed any more (zombie_until). */
void hr_cap_link_cut(struct hr_cap_link *link, const struct hr_cap_times *times);

/* Lets lapse what has lapsed: the lease that is borrowed, and the session that was not echoed. */
void hr_cap_link_advance(struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns now);

/* Takes a header in, at an advanced now. Header fields are not trusted to be in order, only to be in range. */
enum hr_cap_heard hr_cap_link_receive(struct hr_cap_link *link, const struct hr_cap_times *times,
                                      const struct hr_cap_header *header, hr_ns now);

/* The header of the letter that is sent now; epoch, low, is_settled and is_sole are the caller's to fill in. */
struct hr_cap_header hr_cap_link_send(struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns now);

/* Has the letter of this number arrived? False also where that is forgotten. */
bool hr_cap_link_has_arrived(const struct hr_cap_link *link, uint32_t number);

/* After how long a record that is not known to have arrived is to be sent again: not before word of it can have come.
 */
hr_ns hr_cap_link_retry(const struct hr_cap_link *link, const struct hr_cap_times *times);

/* Have many of the last letters not arrived? */
bool hr_cap_link_is_lossy(const struct hr_cap_link *link);

/* Both heard each other within the lease. */
static inline bool hr_cap_link_is_up(const struct hr_cap_link *link, const struct hr_cap_times *times, hr_ns now)
{
    return link->peer != 0 && now - link->stamp_at < times->lease && now - link->heard_at < times->lease;
}

/* May what the peer lent in its session be used? */
static inline bool hr_cap_link_may_use(const struct hr_cap_link *link, hr_ns now)
{
    return link->peer_session != 0 && !link->is_lapsed && now < link->lease_until;
}

#endif
