/* Version: one limit's numbers as one load of a limits file had them, kept in the limiter's own memory.
 *
 * A counter says by its version under which numbers its state was written. A limit whose numbers change gets a new
 * version and leaves the old one, retired, to the counters that still refer to it: each is restated, as of the instant
 * of the change, when it is next looked at. So a change holds for all counters from one instant on, and costs no more
 * at once than the limits themselves. A retired version is free again when a sweep has since passed every counter.
 *
 * Thread: the limiter's. Pure. Memory: handed in. */
#ifndef HR_LIMITER_VERSION_H
#define HR_LIMITER_VERSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "limiter/algorithm.h"
#include "limiter/limit_set.h"
#include "limiter/stake.h"

struct hr_version {
    struct hr_rule rule;
    struct hr_quota_clock clock; /* quota; of a retired version: as it stood when it retired */
    int64_t first_period;        /* quota: the calendar period in force when this version began */
    struct hr_hash_key name_key; /* made of the limit's name: the key for its counters' identities */
    struct hr_id128 limit_id;    /* made of the limit's name: says in the store whose counter a record is */
    enum hr_durability durability;
    struct hr_cap cap;         /* of a limit that holds over all regions (stake.h) */
    struct hr_id128 key_shape; /* hash of the key's attribute names */
    struct hr_tally tally;
    hr_ns retired_at;
    uint32_t retired_pass; /* of the sweep */
    uint32_t generation;   /* the last load that had it in force */
    uint16_t successor;    /* of a retired version: the one that took its place; 0: the limit is gone */
    bool in_use, is_retired;
    bool is_share;      /* of a node's part of a limit (part.h) */
    bool same_calendar; /* quota: the successor has the same unit and zone */
};

/* Rules given on the spot, with a request, stand behind the limits' versions: as many different ones at a time. */
#define HR_SPOT_RULES_MAX 1024

struct hr_versions {
    struct hr_version *versions; /* [0] is not used */
    uint32_t version_count;      /* of limits, with [0]; HR_SPOT_RULES_MAX more follow */
    uint16_t *of_limit;          /* the version of each limit of the set in force */
    uint16_t *by_name;           /* hash table over the versions in force, by limit_id */
    uint32_t name_mask;
    uint32_t generation; /* loads so far */
    bool has_stakes;     /* else limits of scope global are decided as if they were regional */
};

/* Room for sets of limits_max limits and as many retired versions twice over. */
void hr_versions_init(struct hr_versions *versions, uint32_t limits_max, struct hr_bump *bump);

/* Gives each limit of the set its version, and retires those that no limit has any more. `pass` is the sweep's.
 * HR_E_FULL, with nothing changed: too few versions are free until a sweep has passed every counter twice. */
HR_MUST enum hr_err hr_versions_load(struct hr_versions *versions, const struct hr_limit_set *set,
                                     const struct hr_hash_key *secret, struct hr_now now, uint32_t pass);

/* The limit_id of a name, and the version in force of a limit_id; 0: there is none. */
struct hr_id128 hr_versions_limit_id(const struct hr_hash_key *secret, struct hr_span name);
uint16_t hr_versions_in_force(const struct hr_versions *versions, struct hr_id128 limit_id);

/* Frees what retired two passes ago or earlier. */
void hr_versions_free_passed(struct hr_versions *versions, uint32_t pass);

/* The version of a rule given on the spot; 0: there are HR_SPOT_RULES_MAX others, or nearly. hr_versions_keep_spot says
 * at each sweep that a counter still refers to one: one that nothing referred to for a whole pass makes way for another
 * rule. hr_versions_share: the same of a rule that is this node's part of a limit. */
uint16_t hr_versions_spot(struct hr_versions *versions, const struct hr_rule *rule, struct hr_hash_key name_key,
                          uint32_t pass);
uint16_t hr_versions_share(struct hr_versions *versions, const struct hr_rule *rule, struct hr_hash_key name_key,
                           uint32_t pass);
void hr_versions_keep_spot(struct hr_versions *versions, uint16_t number, uint32_t pass);

/* Brings a state of version `from` up to the version in force and returns that; 0, with the state as it was, where the
 * limit is gone. Context as for hr_state_advance; its instant and clock are not used. */
uint16_t hr_versions_restate(const struct hr_versions *versions, uint16_t from, union hr_state *state,
                             const struct hr_context *context);

#endif
