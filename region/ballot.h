/* Ballot: how the nodes of a region agree on their next charter. Single-decree Paxos (Lamport 2001), one round of it
 * for each version, among the members of the version before.
 *
 * A proposer asks the members to promise that they will take no lesser number; when a majority has, it asks them to
 * vote for its charter, or for the one of the greatest number that any of them has voted for already. What a majority
 * has voted for is the charter, whatever happens afterwards. A member says what it has promised or voted for only when
 * its store has it, so that a restart forgets nothing. To that comes one rule of our own (quorum.h): a member votes for
 * a charter that evicts a node only when its grants to that node have lapsed.
 *
 * A vote that was begun must be ended, or those it concerns would go without lease: whoever leads the region proposes
 * again when members say that they are stuck. A charter that evicts is then asked for with `is_adopted`: members whose
 * grants have not lapsed stop granting, so that they can vote when they have.
 *
 * Thread: the owner's. Pure. Memory: the struct, some 100 KiB. */
#ifndef HR_REGION_BALLOT_H
#define HR_REGION_BALLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "region/charter.h"

/* A proposer that has no majority by then gives up, and may try again. */
#define HR_BALLOT_NS_MAX HR_NS_PER_S
#define HR_BALLOT_RESEND_NS (50 * HR_NS_PER_MS)

/* On the wire: never renumbered. */
enum hr_vote_kind {
    HR_VOTE_PREPARE = 1,  /* promise me this number */
    HR_VOTE_PROMISE = 2,  /* I do, and here is what I voted for, if anything */
    HR_VOTE_ACCEPT = 3,   /* vote for this charter under this number */
    HR_VOTE_ACCEPTED = 4, /* I have */
    HR_VOTE_REFUSED = 5,  /* I have promised a greater number, or grants have not lapsed */
    HR_VOTE_CHARTER = 6,  /* this charter was agreed on */
};

/* A letter of the kind TENURE. */
struct hr_vote {
    enum hr_vote_kind kind;
    uint64_t lineage, version; /* of the charter that is voted on; of the one that was agreed on */
    uint64_t number;           /* of the ballot; promised, where refused; 0 for a charter */
    uint64_t accepted;         /* of a promise: the number of the vote before, 0: none */
    bool is_adopted;           /* of an accept: the proposer is bound to this charter */
    struct hr_span charter;    /* encoded; empty where the kind has none */
};

/* version 1, kind 1, adopted 1, lineage 8, version 8, number 8, accepted 8, charter */
#define HR_VOTE_HEAD_BYTES 35
#define HR_VOTE_BYTES_MAX (HR_VOTE_HEAD_BYTES + HR_CHARTER_BYTES_MAX)

/* Requires: the charter's bytes are within HR_CHARTER_BYTES_MAX. */
size_t hr_vote_encode(const struct hr_vote *vote, uint8_t out[HR_VOTE_BYTES_MAX]);

/* HR_E_CORRUPT: too short, a kind that is not known, a charter where there is to be none. The charter is not looked
 * into. */
HR_MUST enum hr_err hr_vote_decode(struct hr_span body, struct hr_vote *ret_vote);

enum hr_ballot_phase { HR_BALLOT_IDLE, HR_BALLOT_PREPARING, HR_BALLOT_ACCEPTING };

struct hr_ballot {
    /* as a member: what must survive */
    uint64_t promised, accepted; /* numbers; 0: none */
    struct hr_charter vote;      /* where accepted is not 0 */
    /* as a member: what need not */
    hr_node_set suspended; /* granted nothing until the ballot is over */
    hr_ns accepted_at;
    /* as a proposer */
    enum hr_ballot_phase phase;
    uint64_t number, seen; /* its own number; the greatest it has heard of */
    hr_node_set answered, refused;
    uint64_t best; /* the greatest number of a vote that a promise told of */
    bool is_adopted;
    hr_ns began_at, resend_at;
    struct hr_charter proposal;
};

/* A charter was agreed on: the next ballot begins with nothing. */
void hr_ballot_reset(struct hr_ballot *ballot);

/* --- as a member --- */

/* True: number is promised, now or before. */
bool hr_ballot_promise(struct hr_ballot *ballot, uint64_t number);

/* Votes for charter under number. lapsed: members of the charter in force whose grants have lapsed. False: refused. */
bool hr_ballot_accept(struct hr_ballot *ballot, uint64_t number, const struct hr_charter *charter, bool is_adopted,
                      hr_node_set lapsed, hr_ns now);

/* Those that are to be granted nothing: a vote is under way that concerns them. */
hr_node_set hr_ballot_denied(const struct hr_ballot *ballot);

/* --- as a proposer: node `self` of the charter `in_force` --- */

/* Begins with a number above all that were heard of, for ballot->proposal, which the caller has filled in. */
void hr_ballot_begin(struct hr_ballot *ballot, uint8_t self, hr_ns now);

/* A promise, whose charter, where it tells of one, is in *vote. True: a majority has promised, and votes are asked for
 * from now on. */
bool hr_ballot_promised(struct hr_ballot *ballot, const struct hr_charter *in_force, uint8_t from,
                        const struct hr_vote *promise, const struct hr_charter *vote, hr_node_set gone);

/* A vote under number. True: a majority has voted for ballot->proposal, it is agreed on. */
bool hr_ballot_accepted(struct hr_ballot *ballot, const struct hr_charter *in_force, uint8_t from, uint64_t number,
                        hr_node_set gone);

/* A refusal. */
void hr_ballot_refused(struct hr_ballot *ballot, uint8_t from, uint64_t promised);

/* Gives up where it has taken too long; says whether the letters to those that have not answered are due again. */
bool hr_ballot_resend_is_due(struct hr_ballot *ballot, hr_ns now);

#endif
