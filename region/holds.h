/* Holds: one request whose counters belong to several owners, decided all or nothing.
 *
 * One node leads it. It asks every owner at once to hold what the request costs in the owner's counters (HOLD), itself
 * included. An owner that has room takes the cost and says so (HELD); what it took is a hold until the lead settles it.
 * When all have held, the lead commits, and the caller is answered when the owners have said that they know (SETTLED);
 * when one cannot, all give back. This is two-phase commit (Gray 1978), made short:
 *
 *  - A request that does not fit only because of another's hold waits for that hold's outcome. So that no two wait for
 *    each other, only the older one waits (wait-die; Rosenkrantz, Stearns and Lewis 1978): the younger gives back and
 *    tries again, keeping its age.
 *  - An owner whose lead falls silent asks the other owners of the hold. If one has seen a commit, it commits. If none
 *    has, no caller was told "allowed": it gives back. If they cannot all be asked, it keeps the charge: never too
 *    little is counted.
 *  - Every step can be repeated: HOLD and SETTLE are known by the hold's key, what was settled is remembered.
 *  - An owner that does not answer by the deadline, and a counter that nobody owns, are decided by the limit's
 *    on_unavailable: by a fair part of the limit (limiter/part.h), or allowed, or denied.
 *
 * Thread: the owner's. Pure. Memory: handed in. Time: supplied. */
#ifndef HR_REGION_HOLDS_H
#define HR_REGION_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/units.h"
#include "gossip/member.h"
#include "gossip/outbox.h"
#include "limiter/part.h"
#include "region/call_wire.h"
#include "region/place.h"

/* A lead that has not settled a hold for so long is asked about; after as long again the charge is kept. A lead decides
 * within its request's deadline, which is far shorter. */
#define HR_HOLD_SILENCE_NS (500 * HR_NS_PER_MS)
#define HR_HOLD_KEPT_NS (1500 * HR_NS_PER_MS)

struct hr_holds_config {
    uint32_t holds_max; /* asked of this node and not settled, 1 or more */
    uint32_t leads_max; /* requests that it leads, 1 or more; twice that are under way while some are being settled */
    struct hr_limiter *limiter;       /* this and all below is borrowed for the life of the holds */
    const struct hr_members *members; /* who is there, and who this is */
    struct hr_places places;
    struct hr_outbox *outbox;
    uint64_t *request_serial; /* the limiter's: leases are named by it */
    uint64_t first_serial;    /* random, so that holds of two lives never share a key */
    bool is_one_process;      /* no member falls silent alone, and no letter is lost: leads are waited for */
};

struct hr_holds;

/* A request to be led. Its params are borrowed until it is done. */
struct hr_lead_request {
    uint64_t job; /* the caller's name for it */
    enum hr_hold_verb verb;
    bool has_id;           /* comes back when it is done */
    struct hr_span params; /* of a check or a refund, valid */
    hr_ns deadline;
    uint64_t silent;  /* a member that did not answer lately and is not to be asked; 0: none */
    hr_ns expires_at; /* whoever asked may have gone on without an answer: nothing is committed from then on */
};

struct hr_lead_done {
    uint64_t job;
    enum hr_hold_verb verb;
    bool has_id;           /* as it was said */
    struct hr_span params; /* as they were lent: they may go now */
    bool is_moving;        /* a counter is changing hands all the while; nothing was done, and it may be led again */
    bool is_fault;         /* code and words say why; else the rest holds */
    enum hr_code code;
    const char *words;
    bool degraded;                      /* the owner of one of its counters could not be asked */
    bool refunded;                      /* of a refund */
    bool detail;                        /* as the params ask */
    struct hr_id128 first_counter;      /* that it touches; 0: none */
    const struct hr_decision *decision; /* of a check; good until the next call */
};

struct hr_holds_counts {
    uint64_t led, admitted, denied, retried, faults, degraded;
    uint64_t held, waited, died, asked; /* at this node as an owner; asked: whose lead fell silent */
    uint64_t given_back, kept;          /* resolved without the lead */
};

/* Takes its memory, zero-filled, from the bump; while that only measures, it returns NULL. */
struct hr_holds *hr_holds_init(const struct hr_holds_config *config, struct hr_bump *bump);

/* HR_E_FULL: too many requests are led already. */
HR_MUST enum hr_err hr_holds_lead(struct hr_holds *holds, const struct hr_lead_request *request, struct hr_now now);

/* The next request that has come to its end. False: none has. */
bool hr_holds_next_done(struct hr_holds *holds, struct hr_now now, struct hr_lead_done *ret_done);

/* A letter of kind HOLD, HELD, SETTLE or SETTLED. What cannot be read is ignored. */
void hr_holds_receive(struct hr_holds *holds, uint64_t from, enum hr_letter_kind kind, struct hr_span body,
                      struct hr_now now);

/* Would this request, which is denied now, perhaps fit were it not for another's hold? */
bool hr_holds_are_in_the_way(const struct hr_holds *holds, const struct hr_touches *touches);

/* Is there an unsettled hold on this counter? */
bool hr_holds_has(const struct hr_holds *holds, struct hr_id128 counter);

/* Are there unsettled holds on counters of this partition? It is handed over when there are none. */
bool hr_holds_of_partition(const struct hr_holds *holds, uint32_t partition);

/* The store has answered, or partitions have moved: what waits is tried again. */
void hr_holds_stir(struct hr_holds *holds, struct hr_now now);
void hr_holds_tick(struct hr_holds *holds, struct hr_now now);
hr_ns hr_holds_deadline(const struct hr_holds *holds);

struct hr_holds_counts hr_holds_counts(const struct hr_holds *holds);
uint32_t hr_holds_open_count(const struct hr_holds *holds); /* unsettled, at this node as an owner */

#endif
