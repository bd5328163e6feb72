/* What nodes of a region agree by, and what their stores keep of it: the bytes, and what one member may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "region/ballot.h"
#include "region/handover.h"
#include "region/plan.h"
#include "region/quorum.h"
#include "region/stream.h"
#include "region/tenure_state.h"
#include "storage/le.h"
#include "tests/lib/region_sim.h"

static struct hr_charter charter, other;
static struct hr_ballot ballot;

static void make_charter(struct hr_charter *of, uint32_t count)
{
    hr_charter_found(of, 5, 11);
    for (uint32_t i = 1; i < count; i++) {
        of->members[i] = 11 + i;
    }
    of->count = (uint8_t)count;
    for (uint32_t p = 0; p < HR_PARTITIONS && count > 1; p++) {
        of->seats[p].owner = (uint8_t)(p % count);
        of->seats[p].standby = (uint8_t)((p + 1) % count);
    }
}

static void a_charter_comes_back_and_no_part_of_it_does(void **state)
{
    (void)state;
    static uint8_t bytes[HR_CHARTER_BYTES_MAX], again[HR_CHARTER_BYTES_MAX];
    make_charter(&charter, 3);
    charter.version = 9;
    charter.evicted = 2;
    charter.seats[7] = (struct hr_seat){.epoch = 8, .owner = 0, .giver = 2, .standby = 2, .mode = HR_GIVER_COPY};
    size_t used = hr_charter_encode(&charter, bytes);
    assert_int_equal(used, 26 + 3 * 8 + 8 * HR_PARTITIONS);
    assert_int_equal(hr_charter_decode((struct hr_span){(char *)bytes, used}, &other), HR_OK);
    assert_int_equal(hr_charter_encode(&other, again), used);
    assert_memory_equal(bytes, again, used);
    for (size_t i = 0; i < used; i += i < 200 ? 1 : 7) {
        assert_int_equal(hr_charter_decode((struct hr_span){(char *)bytes, i}, &other), HR_E_CORRUPT);
    }
    assert_int_equal(hr_charter_decode((struct hr_span){(char *)bytes, used + 1}, &other), HR_E_CORRUPT);
}

static void a_charter_that_names_what_is_not_there_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[HR_CHARTER_BYTES_MAX];
    static const struct {
        size_t at;
        uint8_t value;
    } damages[] = {
        {25, 0},       /* no member */
        {25, 65},      /* too many */
        {24, 2},       /* neither other members nor not */
        {34, 11},      /* a member twice: the second is the first */
        {50 + 4, 3},   /* an owner that is none */
        {50 + 4, 255}, /* no owner */
        {50 + 5, 0},   /* the owner gives to itself */
        {50 + 6, 0},   /* ... stands by for itself */
        {50 + 6, 9},   /* a standby that is none */
        {50 + 7, 1},   /* a mode without a giver */
    };
    for (size_t i = 0; i < COUNT(damages); i++) {
        make_charter(&charter, 3);
        size_t used = hr_charter_encode(&charter, bytes);
        bytes[damages[i].at] = damages[i].value;
        if (hr_charter_decode((struct hr_span){(char *)bytes, used}, &other) != HR_E_CORRUPT) {
            fail_msg("damage %lu", (unsigned long)i);
        }
    }
}

static void a_vote_is_these_bytes(void **state)
{
    (void)state;
    static const uint8_t expected[] = {1, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0,   0,   0,
                                       7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 'c', 'h', 'a'};
    static uint8_t bytes[HR_VOTE_BYTES_MAX];
    struct hr_vote read,
        vote = {
            .kind = HR_VOTE_PROMISE, .lineage = 5, .version = 6, .number = 7, .accepted = 8, .charter = HR_SPAN("cha")};
    assert_int_equal(hr_vote_encode(&vote, bytes), sizeof(expected));
    assert_memory_equal(bytes, expected, sizeof(expected));
    for (size_t i = 0; i <= sizeof(expected); i++) { /* a promise that tells of a vote has the charter with it */
        enum hr_err err = hr_vote_decode((struct hr_span){(char *)bytes, i}, &read);
        assert_int_equal(err, i <= HR_VOTE_HEAD_BYTES ? HR_E_CORRUPT : HR_OK);
    }
    bytes[1] = HR_VOTE_PREPARE; /* which has no charter */
    assert_int_equal(hr_vote_decode((struct hr_span){(char *)bytes, sizeof(expected)}, &read), HR_E_CORRUPT);
}

static void a_member_that_has_promised_takes_no_lesser_number(void **state)
{
    (void)state;
    make_charter(&charter, 3);
    memset(&ballot, 0, sizeof(ballot));
    assert_true(hr_ballot_promise(&ballot, 512));
    assert_true(hr_ballot_promise(&ballot, 512));
    assert_false(hr_ballot_promise(&ballot, 511));
    assert_false(hr_ballot_accept(&ballot, 511, &charter, false, 0, 1));
    assert_true(hr_ballot_accept(&ballot, 512, &charter, false, 0, 1));
    hr_ballot_begin(&ballot, 2, 1);
    assert_true(ballot.number > 512);
}

static void nobody_votes_to_evict_one_whose_grants_have_not_lapsed(void **state)
{
    (void)state;
    make_charter(&charter, 3);
    memset(&ballot, 0, sizeof(ballot));
    charter.evicted = 4;
    charter.has_other_members = false;
    assert_false(hr_ballot_accept(&ballot, 512, &charter, false, 3, 1));
    assert_int_equal(hr_ballot_denied(&ballot), 0);
    assert_false(hr_ballot_accept(&ballot, 512, &charter, true, 3, 1)); /* it has to come to that: no more grants */
    assert_int_equal(hr_ballot_denied(&ballot), 4);
    assert_true(hr_ballot_accept(&ballot, 512, &charter, true, 7, 1));
    assert_int_equal(hr_ballot_denied(&ballot), 4);
    charter.has_other_members = true;
    assert_true(hr_ballot_accept(&ballot, 513, &charter, false, 7, 1));
    assert_true(hr_ballot_denied(&ballot) == UINT64_MAX);
}

static void a_proposer_is_bound_to_what_was_voted_for(void **state)
{
    (void)state;
    static struct hr_charter in_force;
    make_charter(&in_force, 3);
    make_charter(&ballot.proposal, 3);
    hr_ballot_reset(&ballot);
    hr_ballot_begin(&ballot, 0, 1);
    struct hr_vote promise = {.kind = HR_VOTE_PROMISE, .number = ballot.number};
    assert_false(hr_ballot_promised(&ballot, &in_force, 0, &promise, NULL, 0));
    make_charter(&other, 3);
    other.seats[3].owner = 1;
    other.seats[3].standby = 2;
    promise.accepted = 7;
    assert_true(hr_ballot_promised(&ballot, &in_force, 2, &promise, &other, 0));
    assert_int_equal(ballot.proposal.seats[3].owner, 1);
    assert_true(ballot.is_adopted);
    assert_false(hr_ballot_accepted(&ballot, &in_force, 0, ballot.number, 0));
    assert_false(hr_ballot_accepted(&ballot, &in_force, 1, ballot.number - 1, 0));
    assert_true(hr_ballot_accepted(&ballot, &in_force, 1, ballot.number, 0));
}

/* Whatever a charter says and whoever is dead: what follows it is sound, moves no right away from the living, and comes
 * to rest. */
static void a_plan_makes_sound_charters_and_comes_to_rest(void **state)
{
    (void)state;
    static struct hr_plan plan;
    static uint8_t bytes[HR_CHARTER_BYTES_MAX], held[HR_PARTITION_SET_BYTES];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct hr_rng rng = {seed};
        uint32_t rounds = 0;
        bool is_urgent;
        make_charter(&charter, 1 + (uint32_t)hr_rng_below(&rng, 6));
        memset(&plan, 0, sizeof(plan));
        plan.current = &charter;
        plan.count = charter.count + (uint32_t)hr_rng_below(&rng, 2);
        for (uint32_t i = 0; i < plan.count; i++) {
            plan.nodes[i].candidate = (struct hr_candidate){.id = 11 + i, .weight = 1, .member = i};
            plan.nodes[i].is_dead = i > 0 && i < charter.count && hr_rng_chance(&rng, 1, 4);
            plan.nodes[i].is_gone = i > 0 && i < charter.count && hr_rng_chance(&rng, 1, 4);
            plan.nodes[i].is_eligible = !plan.nodes[i].is_dead && !plan.nodes[i].is_gone;
            plan.nodes[i].held = held;
        }
        memset(held, 0xff, sizeof(held)); /* what is given arrives by the next round */
        while (hr_plan_next(&plan, &other, &is_urgent)) {
            size_t used = hr_charter_encode(&other, bytes);
            assert_int_equal(hr_charter_decode((struct hr_span){(char *)bytes, used}, &charter), HR_OK);
            assert_true(++rounds < 6);
            for (uint32_t i = 0, k = 0; i < plan.count; i++) { /* those that went are out of the plan, too */
                if (hr_charter_find(&charter, plan.nodes[i].candidate.id) != HR_NODE_NONE) {
                    plan.nodes[k++] = plan.nodes[i];
                }
                plan.count = i + 1 == plan.count ? k : plan.count;
            }
        }
        for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
            const struct hr_seat *seat = &charter.seats[p];
            assert_int_equal(seat->giver, HR_NODE_NONE);
            assert_true(plan.nodes[seat->owner].is_eligible);
            assert_true(seat->standby == HR_NODE_NONE || plan.nodes[seat->standby].is_eligible);
        }
    }
}

/* --- records --- */

static void records_bring_a_node_back_and_no_part_of_one_does(void **state)
{
    (void)state;
    struct sim *sim = region_new(3, 2);
    struct hr_batch_op op;
    struct hr_record record;
    size_t offset = 0;
    region_start(sim, 0);
    region_start(sim, 1);
    assert_true(region_settle(sim, SECONDS(20)));
    uint64_t version = hr_tenure_counts(sim->nodes[1].tenure, 0).version;
    uint32_t held = hr_tenure_counts(sim->nodes[1].tenure, 0).held;
    region_crash(sim, 1);
    region_start(sim, 1);
    assert_int_equal(hr_tenure_counts(sim->nodes[1].tenure, 0).version, version);
    assert_int_equal(hr_tenure_counts(sim->nodes[1].tenure, 0).held, held);
    while (hr_batch_next(&sim->nodes[1].disk.tenure, &offset, &op)) {
        assert_int_equal(hr_record_decode(op.key, op.value, &record), HR_OK);
        struct hr_span whole = record.payload;
        for (size_t bytes = 0; bytes < whole.bytes; bytes += bytes < 100 ? 1 : 97) {
            record.payload.bytes = bytes;
            assert_int_equal(hr_tenure_restore(sim->nodes[1].tenure, &record, SECONDS(1)), HR_E_CORRUPT);
        }
    }
    assert_int_equal(hr_tenure_counts(sim->nodes[1].tenure, 0).held, held);
    region_free(sim);
}

/* A node that was away for long comes back with what it once knew: it overrules nobody. */
static void an_old_store_never_overrules(void **state)
{
    (void)state;
    struct sim *sim = region_new(5, 3);
    for (uint32_t i = 0; i < 3; i++) {
        region_start(sim, i);
    }
    assert_true(region_settle(sim, SECONDS(20)));
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        assert_true(region_spend(sim, user));
    }
    region_run(sim, SECONDS(1));
    region_crash(sim, 2);
    assert_true(region_settle(sim, SECONDS(20)));
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        assert_true(region_spend(sim, user));
    }
    region_start(sim, 2);
    assert_true(region_settle(sim, SECONDS(20)));
    uint32_t back = 0;
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        uint32_t owner = region_owner(sim, hr_partition_of(sim->counters[user]));
        assert_int_equal(region_spent_at(sim, owner, user), 2);
        back += owner == 2;
    }
    assert_true(back > 0);
    assert_null(sim->violation);
    region_free(sim);
}

/* --- one node, and what others say to it --- */

#define SELF 1 /* of three members: ids 11, 12, 13 */

struct one {
    struct hr_member all[3];
    struct hr_members members;
    struct hr_outbox outbox;
    struct fixture fixture;
    struct hr_tenure *tenure;
    void *memory, *outbox_memory;
    hr_ns now, stamps[3];
    uint64_t lives[3];   /* beyond the first */
    struct hr_vote said; /* its last word on a vote */
    bool has_lease;      /* what the others say of themselves */
};

static void one_open(struct one *one)
{
    memset(one, 0, sizeof(*one));
    for (uint32_t i = 0; i < 3; i++) {
        one->all[i] = (struct hr_member){.id = 11 + i, .weight = 1, .region = "eu"};
    }
    one->members = (struct hr_members){one->all, 3, 3, SELF, 1};
    one->outbox_memory = calloc(1, 1U << 20);
    struct hr_bump bump = {.at = one->outbox_memory};
    hr_outbox_init(&one->outbox, 1U << 20, &bump);
    fixture_open_ample(&one->fixture);
    one->now = SECONDS(1000);
    one->has_lease = true;
    struct hr_tenure_config config = {.members = &one->members,
                                      .outbox = &one->outbox,
                                      .limiter = one->fixture.limiter,
                                      .life = 7,
                                      .lineage = 4,
                                      .has_seeds = true,
                                      .saves = true,
                                      .nodes_max = 3};
    size_t bytes = (hr_tenure_bytes(&config) + 63) & ~(size_t)63;
    one->memory = aligned_alloc(64, bytes);
    assert_non_null(one->memory);
    memset(one->memory, 0, bytes);
    one->tenure = hr_tenure_init(&config, one->now, one->memory, bytes);
    assert_non_null(one->tenure);
}

static void one_close(struct one *one)
{
    fixture_close(&one->fixture);
    free(one->outbox_memory);
    free(one->memory);
}

static struct hr_now one_now(const struct one *one)
{
    return (struct hr_now){one->now, {SECONDS(FIXTURE_START_S)}};
}

/* Its store keeps what it wants kept, and its letters are read. */
static void one_settle(struct one *one)
{
    static uint8_t memory[HR_TENURE_BATCH_BYTES];
    struct hr_store_batch batch;
    struct hr_letter letter;
    uint64_t mark;
    hr_batch_init(&batch, memory, sizeof(memory));
    if (hr_tenure_next_record(one->tenure, &batch, &mark)) {
        hr_tenure_saved(one->tenure, mark, true, one->now);
    }
    while (hr_outbox_next(&one->outbox, &letter)) {
        if (letter.kind == HR_LETTER_TENURE && letter.to == 11) {
            assert_int_equal(hr_vote_decode(letter.body, &one->said), HR_OK);
        }
    }
}

/* Member `from` says this about a charter. */
static void one_hear(struct one *one, uint32_t from, enum hr_vote_kind kind, uint64_t number,
                     const struct hr_charter *of)
{
    static uint8_t bytes[HR_VOTE_BYTES_MAX];
    struct hr_vote vote = {.kind = kind, .lineage = of->lineage, .version = of->version, .number = number};
    size_t used = hr_vote_encode(&vote, bytes);
    if (kind == HR_VOTE_ACCEPT || kind == HR_VOTE_CHARTER) {
        used += hr_charter_encode(of, bytes + used);
    }
    memset(&one->said, 0, sizeof(one->said));
    hr_tenure_receive(one->tenure, HR_LETTER_TENURE, from, (struct hr_span){(char *)bytes, used}, one_now(one));
    one_settle(one);
}

/* A pulse of a member that hears the node, knows its charter, and has granted its newest stamp. */
static void one_feel(struct one *one, uint32_t from)
{
    uint8_t bytes[HR_PULSE_BYTES_MAX];
    one->stamps[from] += 1;
    struct hr_pulse pulse = {.life = 5 + one->lives[from],
                             .stamp = one->stamps[from],
                             .hears_receiver = true,
                             .has_lease = one->has_lease,
                             .granted_life = 7,
                             .granted = one->now,
                             .lineage = 5,
                             .version = hr_tenure_counts(one->tenure, 0).version};
    size_t used = hr_pulse_encode(&pulse, bytes);
    hr_tenure_receive(one->tenure, HR_LETTER_PULSE, from, (struct hr_span){(char *)bytes, used}, one_now(one));
    hr_tenure_tick(one->tenure, one_now(one));
    one_settle(one);
}

static enum hr_standing one_standing(const struct one *one, uint32_t partition)
{
    uint32_t member;
    return hr_tenure_standing(one->tenure, partition, one->now, &member);
}

/* A charter of the three; partition p is owned by member p % 3. Its members are new by default, so that a node that
 * never voted may vote on the next. */
static void make_three(uint64_t version)
{
    make_charter(&charter, 3);
    charter.version = version;
}

static void make_eviction(uint64_t version, uint8_t loser)
{
    make_three(version);
    charter.has_other_members = false;
    charter.evicted = hr_node_bit(loser);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_seat *seat = &charter.seats[p];
        if (seat->owner == loser) {
            *seat = (struct hr_seat){.epoch = (uint32_t)version,
                                     .owner = seat->standby,
                                     .giver = HR_NODE_NONE,
                                     .standby = (uint8_t)(3 - loser - seat->standby)};
        }
    }
}

static void a_node_answers_only_while_a_majority_has_lately_granted(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    hr_tenure_tick(one.tenure, one_now(&one));
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MOVING); /* it has just started */
    one.now += HR_NS_PER_S / 2;
    assert_int_equal(one_standing(&one, 1), HR_STANDING_NOBODY); /* it is the owner, but nobody has granted */
    one_feel(&one, 2);
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    assert_int_equal(one_standing(&one, 2), HR_STANDING_AT);
    assert_int_equal(one_standing(&one, 0), HR_STANDING_NOBODY); /* that one was not heard */
    one.now += HR_LEASE_NS - 1;
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    one.now += 1;
    assert_int_equal(one_standing(&one, 1), HR_STANDING_NOBODY);
    one_close(&one);
}

/* What is proposed is refused as long as the lease of who would be evicted may last, and not a moment longer. */
static void accepts_only_after_a_lapse(struct one *one)
{
    one->now += HR_LAPSE_NS;
    one_hear(one, 0, HR_VOTE_ACCEPT, 256, &charter);
    assert_int_equal(one->said.kind, HR_VOTE_REFUSED);
    one->now += 1;
    one_hear(one, 0, HR_VOTE_ACCEPT, 256, &charter);
    assert_int_equal(one->said.kind, HR_VOTE_ACCEPTED);
}

static void a_node_just_started_or_in_new_company_evicts_nobody(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    make_eviction(3, 2);
    accepts_only_after_a_lapse(&one); /* member 2 was never heard */

    make_three(3); /* others were agreed on meanwhile */
    charter.count = 2;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        charter.seats[p] = (struct hr_seat){.owner = p % 2, .giver = HR_NODE_NONE, .standby = 1 - p % 2};
    }
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    charter.version = 4;
    charter.evicted = 1;
    accepts_only_after_a_lapse(&one);
    one_close(&one);
}

static void a_node_that_is_granted_is_not_evicted_until_that_has_lapsed(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one.now += 2 * HR_LAPSE_NS;
    one_feel(&one, 2);
    make_eviction(3, 2);
    accepts_only_after_a_lapse(&one);
    one_close(&one);
}

static void who_voted_for_its_own_eviction_answers_for_nothing(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 2);
    one.now += 2 * HR_LAPSE_NS; /* its lease is over */
    make_eviction(3, SELF);
    one_hear(&one, 0, HR_VOTE_ACCEPT, 256, &charter);
    assert_int_equal(one.said.kind, HR_VOTE_ACCEPTED);
    one_feel(&one, 2); /* one that does not know of it grants */
    assert_int_equal(one_standing(&one, 1), HR_STANDING_NOBODY);
    one_close(&one);
}

static void a_word_on_a_vote_waits_for_the_store(void **state)
{
    (void)state;
    struct one one;
    struct hr_letter letter;
    static uint8_t bytes[HR_VOTE_BYTES_MAX];
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    struct hr_vote prepare = {.kind = HR_VOTE_PREPARE, .lineage = 5, .version = 3, .number = 256};
    size_t used = hr_vote_encode(&prepare, bytes);
    hr_tenure_receive(one.tenure, HR_LETTER_TENURE, 0, (struct hr_span){(char *)bytes, used}, one_now(&one));
    while (hr_outbox_next(&one.outbox, &letter)) {
        assert_int_not_equal(letter.kind, HR_LETTER_TENURE);
    }
    assert_true(hr_tenure_is_unsaved(one.tenure));
    one_settle(&one);
    assert_int_equal(one.said.kind, HR_VOTE_PROMISE);
    assert_false(hr_tenure_is_unsaved(one.tenure));
    one_close(&one);
}

/* Away while its partition went to another and is to come back: what it held then is no right now. */
static void an_old_right_is_no_right_under_a_later_charter(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 2);
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    make_three(5);
    charter.has_other_members = false;
    charter.seats[1] = (struct hr_seat){.epoch = 5, .owner = SELF, .giver = 2, .standby = 0};
    charter.seats[4].epoch = 4; /* lost and given back outright: that is a right */
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 2);
    assert_int_equal(one_standing(&one, 1), HR_STANDING_AT);
    assert_int_equal(one_standing(&one, 4), HR_STANDING_MINE);
    one_close(&one);
}

/* Member 0 is to be given partition 1, which this node has been the owner of. */
static void begin_giving(struct one *one)
{
    one_open(one);
    make_three(2);
    one_hear(one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(one, 0);
    make_three(3);
    charter.has_other_members = false;
    charter.seats[1] = (struct hr_seat){.epoch = 3, .owner = 0, .giver = SELF, .standby = 2};
}

/* Were it started anew right after, it would take what it gave for its own. */
static void nothing_is_given_before_the_store_knows_the_charter(void **state)
{
    (void)state;
    static uint8_t bytes[HR_VOTE_BYTES_MAX];
    struct one one;
    begin_giving(&one);
    struct hr_vote vote = {.kind = HR_VOTE_CHARTER, .lineage = 5, .version = 3};
    size_t used = hr_vote_encode(&vote, bytes);
    used += hr_charter_encode(&charter, bytes + used);
    hr_tenure_receive(one.tenure, HR_LETTER_TENURE, 0, (struct hr_span){(char *)bytes, used}, one_now(&one));
    one.tenure->peers[one.tenure->peer_of[0]].version = 3; /* as a pulse would say: but that would be stored first */
    hr_tenure_tick(one.tenure, one_now(&one));
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    one_settle(&one);
    hr_tenure_tick(one.tenure, one_now(&one));
    assert_int_equal(one_standing(&one, 1), HR_STANDING_AT);
    one_close(&one);
}

/* A newcomer could answer for nothing until others have granted it a lease by the charter that names it. */
static void nothing_is_given_to_one_that_cannot_answer_for_it_yet(void **state)
{
    (void)state;
    struct one one;
    begin_giving(&one);
    one.has_lease = false;
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 0);
    hr_tenure_tick(one.tenure, one_now(&one));
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    one.has_lease = true;
    one_feel(&one, 0);
    hr_tenure_tick(one.tenure, one_now(&one));
    assert_int_equal(one_standing(&one, 1), HR_STANDING_AT);
    one_close(&one);
}

/* The first two messages of a stream, BEGIN and END, and what comes between, are put again for another life. */
static void an_owner_that_was_started_anew_is_given_the_partition_again(void **state)
{
    (void)state;
    struct one one;
    one_open(&one);
    make_three(3);
    charter.seats[1] = (struct hr_seat){.epoch = 3, .owner = 0, .giver = SELF, .standby = 2};
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 0);
    const struct hr_peer *peer = &one.tenure->peers[one.tenure->peer_of[0]];
    assert_true(one.tenure->parts[1] & HR_PART_GIVEN);
    uint64_t put = peer->stream.next;
    assert_true(put > 2);
    one.lives[0] = 1; /* later than before */
    one_feel(&one, 0);
    assert_int_equal(peer->stream.peer_life, 6);
    assert_int_equal(peer->stream.next, put);
    one_close(&one);
}

static void a_standby_keeps_its_copy_under_the_next_charter(void **state)
{
    (void)state;
    const struct fixture_limit limit = {.name = "l", .key = "user", .rule = any_rule(HR_FIXED_WINDOW, 100)};
    for (uint32_t is_standby = 0; is_standby < 2; is_standby++) {
        struct one one;
        one_open(&one);
        fixture_load(&one.fixture, &limit, 1);
        assert_true(fixture_take(&one.fixture, "user=a", 7));
        uint32_t p = hr_partition_of(one.fixture.decision.rows[0].counter);
        for (uint64_t version = 2; version < 4; version++) {
            make_three(version);
            charter.seats[p].owner = 0;
            charter.seats[p].standby = is_standby || version == 2 ? SELF : 2;
            one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
            for (int i = 0; i < 64; i++) { /* some partitions are dropped with each */
                hr_tenure_tick(one.tenure, one_now(&one));
            }
        }
        assert_int_equal(fixture_counters(&one.fixture), is_standby);
        one_close(&one);
    }
}

/* A message of member 2's stream that hands a partition over, by the charter whose version is the epoch, as it would
 * stand in the next letter. */
static void one_hand(struct one *one, enum hr_hand_kind kind, uint64_t number, struct hr_arrival what)
{
    uint8_t bytes[HR_STREAM_HEAD_BYTES + 4 + HR_HAND_HEAD_BYTES];
    struct hr_le_writer writer = hr_le_writer_of(bytes, sizeof(bytes));
    const uint64_t head[4] = {5, 7, number, 1};
    for (uint32_t i = 0; i < 4; i++) {
        hr_le_write_u64(&writer, head[i]);
    }
    hr_le_write_u32(&writer, HR_HAND_HEAD_BYTES);
    hr_le_write_u8(&writer, (uint8_t)kind);
    hr_le_write_u64(&writer, 5);
    hr_le_write_u64(&writer, what.epoch);
    hr_le_write_u16(&writer, (uint16_t)what.partition);
    hr_le_write_u32(&writer, what.epoch);
    hr_le_write_u8(&writer, what.flags);
    assert_int_equal(writer.used, sizeof(bytes));
    hr_tenure_receive(one->tenure, HR_LETTER_STREAM, 2, (struct hr_span){(char *)bytes, writer.used}, one_now(one));
    one_settle(one);
}

static void what_is_handed_over_late_or_early_is_not_taken(void **state)
{
    (void)state;
    struct one one;
    struct hr_arrival what = {.flags = HR_HAND_GIVES | HR_HAND_EMPTY, .partition = 1, .epoch = 2};
    one_open(&one);
    make_three(3);
    charter.seats[1] = (struct hr_seat){.epoch = 3, .owner = SELF, .giver = 2, .standby = 0};
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    one_feel(&one, 2);
    /* On its way since before: the giver was given it back meanwhile, and holds it. */
    one_hand(&one, HR_HAND_BEGIN, 1, what);
    one_hand(&one, HR_HAND_END, 2, what);
    assert_int_equal(one_standing(&one, 1), HR_STANDING_AT);
    what.epoch = 4; /* by a charter that is yet to come: it waits for that */
    one_hand(&one, HR_HAND_BEGIN, 3, what);
    what.epoch = 3;
    one_hand(&one, HR_HAND_BEGIN, 3, what);
    one_hand(&one, HR_HAND_END, 4, what);
    assert_int_equal(one_standing(&one, 1), HR_STANDING_MINE);
    one_close(&one);
}

static void what_does_not_come_with_a_partition_is_not_kept(void **state)
{
    (void)state;
    const struct fixture_limit limit = {.name = "l", .key = "user", .rule = any_rule(HR_FIXED_WINDOW, 100)};
    for (uint32_t is_empty = 0; is_empty < 2; is_empty++) { /* nothing to add: then what is here is good */
        struct one one;
        one_open(&one);
        fixture_load(&one.fixture, &limit, 1);
        assert_true(fixture_take(&one.fixture, "user=a", 7));
        uint32_t p = hr_partition_of(one.fixture.decision.rows[0].counter);
        struct hr_arrival what = {.flags = HR_HAND_GIVES | (is_empty ? HR_HAND_EMPTY : 0), .partition = p, .epoch = 3};
        make_three(3);
        charter.seats[p] = (struct hr_seat){.epoch = 3, .owner = SELF, .giver = 2, .standby = 0};
        one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
        one_feel(&one, 2);
        one_hand(&one, HR_HAND_BEGIN, 1, what);
        one_hand(&one, HR_HAND_END, 2, what);
        assert_int_equal(one_standing(&one, p), HR_STANDING_MINE);
        assert_int_equal(fixture_counters(&one.fixture), is_empty);
        one_close(&one);
    }
}

static void grants_by_one_who_knows_a_later_charter_do_not_count(void **state)
{
    (void)state;
    struct one one;
    uint8_t bytes[HR_PULSE_BYTES_MAX];
    one_open(&one);
    make_three(2);
    one_hear(&one, 0, HR_VOTE_CHARTER, 0, &charter);
    for (uint64_t version = 3; version > 0; version--) {
        struct hr_pulse pulse = {.life = 5,
                                 .stamp = (hr_ns)(10 - version),
                                 .granted_life = 7,
                                 .granted = one.now,
                                 .lineage = 5,
                                 .version = version};
        size_t used = hr_pulse_encode(&pulse, bytes);
        hr_tenure_receive(one.tenure, HR_LETTER_PULSE, 2, (struct hr_span){(char *)bytes, used}, one_now(&one));
        assert_int_equal(one_standing(&one, 1), version == 3 ? HR_STANDING_MOVING : HR_STANDING_MINE);
    }
    one_close(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_charter_comes_back_and_no_part_of_it_does),
        cmocka_unit_test(a_charter_that_names_what_is_not_there_is_refused),
        cmocka_unit_test(a_vote_is_these_bytes),
        cmocka_unit_test(a_member_that_has_promised_takes_no_lesser_number),
        cmocka_unit_test(nobody_votes_to_evict_one_whose_grants_have_not_lapsed),
        cmocka_unit_test(a_proposer_is_bound_to_what_was_voted_for),
        cmocka_unit_test(a_plan_makes_sound_charters_and_comes_to_rest),
        cmocka_unit_test(records_bring_a_node_back_and_no_part_of_one_does),
        cmocka_unit_test(an_old_store_never_overrules),
        cmocka_unit_test(a_node_answers_only_while_a_majority_has_lately_granted),
        cmocka_unit_test(a_node_just_started_or_in_new_company_evicts_nobody),
        cmocka_unit_test(a_node_that_is_granted_is_not_evicted_until_that_has_lapsed),
        cmocka_unit_test(who_voted_for_its_own_eviction_answers_for_nothing),
        cmocka_unit_test(a_word_on_a_vote_waits_for_the_store),
        cmocka_unit_test(an_old_right_is_no_right_under_a_later_charter),
        cmocka_unit_test(nothing_is_given_before_the_store_knows_the_charter),
        cmocka_unit_test(nothing_is_given_to_one_that_cannot_answer_for_it_yet),
        cmocka_unit_test(an_owner_that_was_started_anew_is_given_the_partition_again),
        cmocka_unit_test(a_standby_keeps_its_copy_under_the_next_charter),
        cmocka_unit_test(what_is_handed_over_late_or_early_is_not_taken),
        cmocka_unit_test(what_does_not_come_with_a_partition_is_not_kept),
        cmocka_unit_test(grants_by_one_who_knows_a_later_charter_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
