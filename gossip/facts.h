/* Facts: a small map from names to bytes that every node of the cluster comes to hold: limits put at run time.
 *
 * Each fact has a version, made of its writer's wall clock, the versions it had seen, and the writer's id; the greater
 * one wins everywhere, so the order in which facts arrive does not matter (a last-writer-wins map). A deletion is a
 * fact without bytes. A write is told to every live member at once. What that misses is found by comparing, each
 * second, with one member: first a sum over all facts, and only where the sums differ the versions, in ranges of the
 * names' hashes.
 *
 * Letters: HR_LETTER_CATALOG on the gossip lane; bodies as in facts.c. Thread: the owner's. Pure. Memory: handed in;
 * bytes of facts that were replaced are won back when room is short. */
#ifndef HR_GOSSIP_FACTS_H
#define HR_GOSSIP_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/span.h"
#include "base/units.h"
#include "gossip/member.h"
#include "gossip/outbox.h"

#define HR_FACT_NAME_BYTES_MAX 64
#define HR_FACT_VALUE_BYTES_MAX (60U << 10)
#define HR_FACTS_COMPARE_NS HR_NS_PER_S

/* Greater wins: first by time, then by writer. */
struct hr_fact_version {
    uint64_t time; /* milliseconds of Unix time, shifted by 16, and a counter below */
    uint64_t writer;
};

struct hr_fact {
    uint64_t hash; /* of the name; the array is sorted by it */
    struct hr_fact_version version;
    uint32_t value_bytes; /* 0: deleted */
    uint8_t name_bytes;
    bool is_changed; /* by another node, and not taken out by next_change yet */
    size_t at;       /* name, then value, in the arena */
};

struct hr_facts {
    struct hr_fact *all; /* sorted by hash */
    uint32_t count, count_max;
    uint8_t *arena;
    size_t arena_bytes, arena_used, arena_live;
    uint8_t *letter;       /* room to write one */
    uint64_t self, latest; /* the writer's id, and the greatest time of a version so far */
    uint32_t changed_count;
    struct hr_rng rng;
    hr_ns compare_at;
    uint64_t refused; /* letters that made no sense, and facts for which there was no room */
};

void hr_facts_init(struct hr_facts *facts, uint32_t count_max, size_t arena_bytes, uint64_t self, uint64_t rng_seed,
                   struct hr_bump *bump);

/* The version that a write of this node now is to have. */
struct hr_fact_version hr_facts_next_version(const struct hr_facts *facts, struct hr_now now);

/* A write of this node's own, which is told to all live members; members NULL: there are none. An empty value deletes.
 * HR_E_RANGE: name or value is too long, or the name empty. HR_E_FULL: no room. HR_E_INVALID: there is a newer one. */
HR_MUST enum hr_err hr_facts_write(struct hr_facts *facts, struct hr_span name, struct hr_span value,
                                   struct hr_fact_version version, const struct hr_members *members,
                                   struct hr_outbox *outbox);

/* The fact of that name; false: there is none. The span is good until the next call on the facts. */
bool hr_facts_find(const struct hr_facts *facts, struct hr_span name, struct hr_span *ret_value);

/* At start: a fact as it was kept. */
HR_MUST enum hr_err hr_facts_restore(struct hr_facts *facts, struct hr_span name, struct hr_span value,
                                     struct hr_fact_version version);

/* A letter of another member. */
void hr_facts_receive(struct hr_facts *facts, uint64_t from, struct hr_span body, struct hr_outbox *outbox);

/* Compares with one live member, if it is time. */
void hr_facts_tick(struct hr_facts *facts, const struct hr_members *members, struct hr_outbox *outbox, hr_ns now);

/* The next fact that another node wrote, to be put in force and kept; the spans are good until the next call on the
 * facts. False: there is none. */
bool hr_facts_next_change(struct hr_facts *facts, struct hr_span *ret_name, struct hr_span *ret_value,
                          struct hr_fact_version *ret_version);

#endif
