#include "region/ballot.h"

#include "storage/le.h"

#define VOTE_VERSION 1
#define NODE_BITS 8 /* of a number: the low bits say whose it is */

size_t hr_vote_encode(const struct hr_vote *vote, uint8_t out[HR_VOTE_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_VOTE_BYTES_MAX);
    hr_le_write_u8(&writer, VOTE_VERSION);
    hr_le_write_u8(&writer, (uint8_t)vote->kind);
    hr_le_write_u8(&writer, vote->is_adopted);
    hr_le_write_u64(&writer, vote->lineage);
    hr_le_write_u64(&writer, vote->version);
    hr_le_write_u64(&writer, vote->number);
    hr_le_write_u64(&writer, vote->accepted);
    hr_le_write_bytes(&writer, vote->charter.at, vote->charter.bytes);
    return writer.used;
}

static bool has_charter(const struct hr_vote *vote)
{
    return vote->kind == HR_VOTE_ACCEPT || vote->kind == HR_VOTE_CHARTER ||
           (vote->kind == HR_VOTE_PROMISE && vote->accepted != 0);
}

enum hr_err hr_vote_decode(struct hr_span body, struct hr_vote *ret_vote)
{
    struct hr_le_reader reader = hr_le_reader_of(body);
    uint8_t version = hr_le_read_u8(&reader), kind = hr_le_read_u8(&reader), is_adopted = hr_le_read_u8(&reader);
    struct hr_vote vote = {.kind = (enum hr_vote_kind)kind, .is_adopted = is_adopted != 0};
    vote.lineage = hr_le_read_u64(&reader);
    vote.version = hr_le_read_u64(&reader);
    vote.number = hr_le_read_u64(&reader);
    vote.accepted = hr_le_read_u64(&reader);
    if (reader.failed || version != VOTE_VERSION || is_adopted > 1 || kind < HR_VOTE_PREPARE ||
        kind > HR_VOTE_CHARTER || vote.lineage == 0 || vote.version == 0) {
        return HR_E_CORRUPT;
    }
    vote.charter = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    if ((vote.charter.bytes > 0) != has_charter(&vote) || vote.charter.bytes > HR_CHARTER_BYTES_MAX) {
        return HR_E_CORRUPT;
    }
    *ret_vote = vote;
    return HR_OK;
}

void hr_ballot_reset(struct hr_ballot *ballot)
{
    ballot->promised = ballot->accepted = 0;
    ballot->suspended = 0;
    ballot->phase = HR_BALLOT_IDLE;
    ballot->number = ballot->seen = 0;
}

static void see(struct hr_ballot *ballot, uint64_t number)
{
    ballot->seen = number > ballot->seen ? number : ballot->seen;
}

bool hr_ballot_promise(struct hr_ballot *ballot, uint64_t number)
{
    see(ballot, number);
    if (number < ballot->promised || number == 0) {
        return false;
    }
    ballot->promised = number;
    return true;
}

bool hr_ballot_accept(struct hr_ballot *ballot, uint64_t number, const struct hr_charter *charter, bool is_adopted,
                      hr_node_set lapsed, hr_ns now)
{
    if (!hr_ballot_promise(ballot, number)) {
        return false;
    }
    if ((charter->evicted & ~lapsed) != 0) {
        ballot->suspended |= is_adopted ? charter->evicted : 0;
        return false;
    }
    if (ballot->accepted == 0) {
        ballot->accepted_at = now;
    }
    ballot->accepted = number;
    hr_charter_copy(&ballot->vote, charter);
    return true;
}

hr_node_set hr_ballot_denied(const struct hr_ballot *ballot)
{
    if (ballot->accepted == 0) {
        return ballot->suspended;
    }
    return ballot->vote.has_other_members ? UINT64_MAX : ballot->suspended | ballot->vote.evicted;
}

void hr_ballot_begin(struct hr_ballot *ballot, uint8_t self, hr_ns now)
{
    uint64_t greatest = ballot->seen > ballot->promised ? ballot->seen : ballot->promised;
    ballot->number = ((greatest >> NODE_BITS) + 1) << NODE_BITS | self;
    ballot->phase = HR_BALLOT_PREPARING;
    ballot->answered = ballot->refused = 0;
    ballot->best = 0;
    ballot->is_adopted = false;
    ballot->began_at = now;
    ballot->resend_at = now;
    see(ballot, ballot->number);
}

bool hr_ballot_promised(struct hr_ballot *ballot, const struct hr_charter *in_force, uint8_t from,
                        const struct hr_vote *promise, const struct hr_charter *vote, hr_node_set gone)
{
    if (ballot->phase != HR_BALLOT_PREPARING || promise->number != ballot->number) {
        return false;
    }
    ballot->answered |= hr_node_bit(from);
    if (promise->accepted > ballot->best) {
        ballot->best = promise->accepted;
        ballot->is_adopted = true;
        hr_charter_copy(&ballot->proposal, vote);
    }
    if (!hr_charter_is_majority(in_force, ballot->answered, gone)) {
        return false;
    }
    ballot->phase = HR_BALLOT_ACCEPTING;
    ballot->answered = ballot->refused = 0;
    return true;
}

bool hr_ballot_accepted(struct hr_ballot *ballot, const struct hr_charter *in_force, uint8_t from, uint64_t number,
                        hr_node_set gone)
{
    if (ballot->phase != HR_BALLOT_ACCEPTING || number != ballot->number) {
        return false;
    }
    ballot->answered |= hr_node_bit(from);
    return hr_charter_is_majority(in_force, ballot->answered, gone);
}

void hr_ballot_refused(struct hr_ballot *ballot, uint8_t from, uint64_t promised)
{
    see(ballot, promised);
    if (promised > ballot->number && ballot->phase != HR_BALLOT_IDLE) {
        ballot->phase = HR_BALLOT_IDLE; /* somebody else's turn */
        return;
    }
    ballot->refused |= hr_node_bit(from);
}

bool hr_ballot_resend_is_due(struct hr_ballot *ballot, hr_ns now)
{
    if (ballot->phase == HR_BALLOT_IDLE || now < ballot->resend_at) {
        return false;
    }
    if (now - ballot->began_at >= HR_BALLOT_NS_MAX) {
        ballot->phase = HR_BALLOT_IDLE;
        return false;
    }
    ballot->resend_at = now + HR_BALLOT_RESEND_NS;
    return true;
}
