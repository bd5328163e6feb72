#include "limiter/version.h"

#include <stdalign.h>
#include <string.h>

/* A version in force, one that just retired, one that retired just before and waits for the sweep. */
#define VERSIONS_PER_LIMIT 3

void hr_versions_init(struct hr_versions *versions, uint32_t limits_max, struct hr_bump *bump)
{
    uint32_t names = 1;
    while (names < 4 * limits_max) { /* while a set is loaded, the old limits and the new stand in it */
        names <<= 1;
    }
    versions->version_count = VERSIONS_PER_LIMIT * limits_max + 1;
    versions->name_mask = names - 1;
    versions->versions = hr_bump_take(bump, versions->version_count + HR_SPOT_RULES_MAX, sizeof(struct hr_version),
                                      alignof(struct hr_version));
    versions->of_limit = hr_bump_take(bump, limits_max, sizeof(uint16_t), alignof(uint16_t));
    versions->by_name = hr_bump_take(bump, names, sizeof(uint16_t), alignof(uint16_t));
}

void hr_versions_free_passed(struct hr_versions *versions, uint32_t pass)
{
    for (uint32_t i = 1; i < versions->version_count; i++) {
        struct hr_version *version = &versions->versions[i];
        if (version->in_use && version->is_retired && pass - version->retired_pass >= 2) {
            *version = (struct hr_version){.in_use = false};
        }
    }
}

struct hr_id128 hr_versions_limit_id(const struct hr_hash_key *secret, struct hr_span name)
{
    struct hr_hash_key purpose = hr_hash_subkey(secret, "limit id", 8);
    return hr_keyed_hash(&purpose, name.at, name.bytes);
}

/* The place of the version in force of this limit: its number, or 0 where it would stand. */
static uint16_t *place_of(const struct hr_versions *versions, struct hr_id128 limit_id)
{
    uint32_t at = (uint32_t)limit_id.lo & versions->name_mask;
    while (versions->by_name[at] != 0 &&
           !hr_id128_equal(versions->versions[versions->by_name[at]].limit_id, limit_id)) {
        at = (at + 1) & versions->name_mask;
    }
    return &versions->by_name[at];
}

uint16_t hr_versions_in_force(const struct hr_versions *versions, struct hr_id128 limit_id)
{
    return *place_of(versions, limit_id);
}

static void index_by_name(struct hr_versions *versions)
{
    memset(versions->by_name, 0, ((size_t)versions->name_mask + 1) * sizeof(*versions->by_name));
    for (uint32_t i = 1; i < versions->version_count; i++) {
        const struct hr_version *version = &versions->versions[i];
        if (version->in_use && !version->is_retired) {
            *place_of(versions, version->limit_id) = (uint16_t)i;
        }
    }
}

static struct hr_id128 shape_of(const struct hr_limit *limit)
{
    static const struct hr_hash_key no_secret = {{0}};
    struct hr_id128 shape = {limit->key_count, 0};
    for (uint32_t i = 0; i < limit->key_count; i++) {
        struct hr_id128 part = hr_keyed_hash(&no_secret, limit->key[i].at, limit->key[i].bytes);
        struct hr_id128 chain[2] = {shape, part};
        shape = hr_keyed_hash(&no_secret, chain, sizeof(chain));
    }
    return shape;
}

/* A counter with a stake has no other state but a guard's: from or to such a limit it starts afresh. */
static bool has_shape(const struct hr_version *version, const struct hr_version *other)
{
    return hr_algorithm_is_same(version->rule.algorithm, other->rule.algorithm) &&
           version->cap.kind == other->cap.kind && hr_id128_equal(version->key_shape, other->key_shape);
}

static bool zone_is_same(const struct hr_zone *a, const struct hr_zone *b)
{
    return a == b || (a != NULL && b != NULL && a->digest == b->digest);
}

static bool rule_is_same(const struct hr_rule *a, const struct hr_rule *b)
{
    return a->algorithm == b->algorithm && a->unit == b->unit && a->capacity == b->capacity && a->rate == b->rate &&
           a->period_ns == b->period_ns && a->ttl_ns == b->ttl_ns && zone_is_same(a->zone, b->zone);
}

/* Two limits have one number only where a share of the one can go on as a share of the other. */
static struct hr_cap cap_of(const struct hr_limit *limit, struct hr_id128 limit_id, struct hr_id128 key_shape)
{
    const struct hr_rule *rule = &limit->rule;
    struct hr_cap cap = {.kind = hr_stake_kind_of(rule->algorithm)};
    bool is_bucket = cap.kind == HR_STAKE_SHARE, is_quota = rule->algorithm == HR_QUOTA;
    if (is_bucket) {
        cap.scale = (struct hr_share_scale){rule->period_ns, hr_share_shift(rule->rate, rule->capacity)};
    }
    const uint64_t words[] = {
        limit_id.hi,
        limit_id.lo,
        key_shape.hi,
        key_shape.lo,
        rule->algorithm == HR_GCRA ? HR_TOKEN_BUCKET : rule->algorithm,
        is_quota ? (uint64_t)rule->unit : rule->period_ns,
        is_quota && rule->zone != NULL ? rule->zone->digest : cap.scale.shift,
    };
    cap.number = (uint32_t)hr_plain_hash(words, sizeof(words), 0) & ~UINT32_C(1);
    cap.number += cap.number == 0 ? 2 : 0;
    return cap;
}

static struct hr_version new_version(const struct hr_limit *limit, const struct hr_hash_key *secret, struct hr_now now,
                                     bool has_stakes)
{
    struct hr_version version = {
        .in_use = true,
        .rule = limit->rule,
        .key_shape = shape_of(limit),
        .name_key = hr_hash_subkey(secret, limit->name.at, limit->name.bytes),
        .limit_id = hr_versions_limit_id(secret, limit->name),
        .durability = limit->durability,
    };
    if (has_stakes && limit->scope == HR_SCOPE_GLOBAL) {
        version.cap = cap_of(limit, version.limit_id, version.key_shape);
    }
    if (limit->rule.algorithm == HR_QUOTA) {
        hr_quota_clock_set(&version.clock, &version.rule, now.wall);
        version.first_period = version.clock.current.number;
    }
    return version;
}

/* Retired, it must not look at its zone again: that goes with the old limits file. */
static void retire(struct hr_version *version, uint16_t successor, struct hr_now now, uint32_t pass)
{
    if (version->rule.algorithm == HR_QUOTA) {
        hr_quota_clock_set(&version->clock, &version->rule, now.wall);
    }
    version->rule.zone = NULL;
    version->successor = successor;
    version->retired_at = now.steady;
    version->retired_pass = pass;
    version->is_retired = true;
}

/* A version that takes the place of another does not let the calendar reopen what the other had closed. Under another
 * calendar the period in force is as near as can be told: the zone of the old one is about to go. */
static void inherit_calendar(struct hr_version *version, struct hr_version *old)
{
    const struct hr_rule *from = &old->rule, *to = &version->rule;
    old->same_calendar = from->unit == to->unit && zone_is_same(from->zone, to->zone);
    if (to->algorithm == HR_QUOTA && old->clock.has_floor) {
        version->clock.floor = old->same_calendar ? old->clock.floor : version->first_period;
        version->clock.has_floor = true;
    }
}

static uint32_t count_free(const struct hr_versions *versions)
{
    uint32_t count = 0;
    for (uint32_t i = 1; i < versions->version_count; i++) {
        count += !versions->versions[i].in_use;
    }
    return count;
}

/* Requires: one is free. *from is where the search begins, for the next call. */
static uint16_t take_free(const struct hr_versions *versions, uint32_t *from)
{
    while (versions->versions[*from].in_use) {
        (*from)++;
    }
    return (uint16_t)*from;
}

/* The version of a limit in the new set: the one in force where nothing about it changed, else `version`. */
static uint16_t settle(struct hr_versions *versions, const struct hr_version *version, uint32_t *free_from,
                       struct hr_now now, uint32_t pass)
{
    uint16_t *place = place_of(versions, version->limit_id);
    struct hr_version *old = &versions->versions[*place];
    if (*place != 0 && has_shape(old, version) && rule_is_same(&old->rule, &version->rule)) {
        old->rule.zone = version->rule.zone;
        old->durability = version->durability;
        return *place;
    }
    uint16_t fresh = take_free(versions, free_from);
    versions->versions[fresh] = *version;
    if (*place != 0) {
        versions->versions[fresh].tally = old->tally;
        inherit_calendar(&versions->versions[fresh], old);
        retire(old, fresh, now, pass);
    }
    *place = fresh;
    return fresh;
}

/* Versions in force that the new set has no limit for. */
static void retire_left_over(struct hr_versions *versions, struct hr_now now, uint32_t pass)
{
    for (uint32_t i = 1; i < versions->version_count; i++) {
        struct hr_version *version = &versions->versions[i];
        if (version->in_use && !version->is_retired && version->generation != versions->generation) {
            retire(version, 0, now, pass);
        }
    }
}

enum hr_err hr_versions_load(struct hr_versions *versions, const struct hr_limit_set *set,
                             const struct hr_hash_key *secret, struct hr_now now, uint32_t pass)
{
    if (count_free(versions) < set->limit_count) {
        return HR_E_FULL;
    }
    index_by_name(versions);
    versions->generation++;
    uint32_t free_from = 1;
    for (uint32_t i = 0; i < set->limit_count; i++) {
        struct hr_version version = new_version(&set->limits[i], secret, now, versions->has_stakes);
        versions->of_limit[i] = settle(versions, &version, &free_from, now, pass);
        versions->versions[versions->of_limit[i]].generation = versions->generation;
    }
    retire_left_over(versions, now, pass);
    index_by_name(versions); /* without those that just retired */
    return HR_OK;
}

/* How far from its hash's place a rule may stand. */
#define SPOT_PROBES_MAX 32

static bool spot_is_free(const struct hr_version *version, uint32_t pass)
{
    return !version->in_use || pass - version->generation >= 2;
}

static uint16_t number_of(struct hr_versions *versions, const struct hr_rule *rule, bool is_share,
                          struct hr_hash_key name_key, uint32_t pass)
{
    const uint64_t numbers[4] = {(uint64_t)rule->algorithm, rule->capacity, rule->rate, rule->period_ns};
    uint64_t home = hr_plain_hash(numbers, sizeof(numbers), 0);
    uint16_t free_number = 0;
    for (uint32_t i = 0; i < SPOT_PROBES_MAX; i++) {
        uint16_t number = (uint16_t)(versions->version_count + (home + i) % HR_SPOT_RULES_MAX);
        struct hr_version *version = &versions->versions[number];
        if (version->in_use && version->is_share == is_share && rule_is_same(&version->rule, rule)) {
            version->generation = pass;
            return number;
        }
        if (free_number == 0 && spot_is_free(version, pass)) {
            free_number = number;
        }
    }
    if (free_number != 0) {
        versions->versions[free_number] = (struct hr_version){.in_use = true,
                                                              .is_share = is_share,
                                                              .rule = *rule,
                                                              .name_key = name_key,
                                                              .generation = pass,
                                                              .durability = HR_MEMORY};
    }
    return free_number;
}

uint16_t hr_versions_spot(struct hr_versions *versions, const struct hr_rule *rule, struct hr_hash_key name_key,
                          uint32_t pass)
{
    return number_of(versions, rule, false, name_key, pass);
}

uint16_t hr_versions_share(struct hr_versions *versions, const struct hr_rule *rule, struct hr_hash_key name_key,
                           uint32_t pass)
{
    return number_of(versions, rule, true, name_key, pass);
}

void hr_versions_keep_spot(struct hr_versions *versions, uint16_t number, uint32_t pass)
{
    if (number >= versions->version_count) {
        versions->versions[number].generation = pass;
    }
}

static uint16_t newest_of(const struct hr_versions *versions, uint16_t from)
{
    while (from != 0 && versions->versions[from].is_retired) {
        from = versions->versions[from].successor;
    }
    return from;
}

uint16_t hr_versions_restate(const struct hr_versions *versions, uint16_t from, union hr_state *state,
                             const struct hr_context *context)
{
    uint16_t newest = newest_of(versions, from);
    while (newest != 0 && from != newest) {
        const struct hr_version *old = &versions->versions[from], *next = &versions->versions[old->successor];
        int64_t to_period = old->same_calendar ? HR_PERIOD_SAME : next->first_period;
        struct hr_context then = *context;
        then.now.steady = old->retired_at;
        then.clock = &old->clock;
        if (has_shape(old, next)) {
            hr_state_adopt(state, &old->rule, &next->rule, to_period, &then);
        } else {
            hr_state_clear(state, &old->rule, &then);
        }
        from = old->successor;
    }
    return newest;
}
