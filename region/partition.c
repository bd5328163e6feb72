#include "region/partition.h"

#include <string.h>

#include "base/u128.h"

/* Bits of the logarithm's fraction. The least of many logarithms is what counts, and among 64 candidates it is near
 * 1/64: 24 bits tell two of them apart to one part in 250,000. */
#define LOG_FRACTION_BITS 24

/* -log2((x + 1) / 2^64), rounded, in 1 / 2^LOG_FRACTION_BITS: the base does not matter to an order. The fraction's bits
 * come out one by one, by squaring. */
static uint64_t minus_log2(uint64_t x)
{
    if (x == UINT64_MAX) {
        return 0;
    }
    x++;
    uint64_t whole = (uint64_t)__builtin_clzll(x);
    uint64_t mantissa = x << whole; /* in [1, 2), with 63 bits of fraction */
    uint64_t log = 63 - whole;
    for (int i = 0; i < LOG_FRACTION_BITS; i++) {
        uint64_t square = hr_u128_mul(mantissa, mantissa).hi; /* in [1, 4), with 62 bits of fraction */
        bool is_above_two = square >> 63 != 0;
        log = log << 1 | is_above_two;
        mantissa = is_above_two ? square : square << 1;
    }
    return ((uint64_t)64 << LOG_FRACTION_BITS) - log;
}

/* A candidate's rank for one partition: the least of -log(hash) / weight is first. */
struct rank {
    uint64_t hash, id;
    uint32_t weight;
};

static uint32_t weight_of(const struct hr_candidate *candidate)
{
    return candidate->weight == 0 ? 1 : candidate->weight;
}

static struct rank rank_of(const struct hr_candidate *candidate, uint32_t partition)
{
    const uint64_t words[2] = {candidate->id, partition};
    return (struct rank){hr_plain_hash(words, sizeof(words), 0), candidate->id, weight_of(candidate)};
}

/* Where weights are the same, as they mostly are, the greater hash has the lesser logarithm, and none need be taken. */
static bool is_before(const struct rank *a, const struct rank *b)
{
    if (a->weight == b->weight) {
        return a->hash != b->hash ? a->hash > b->hash : a->id < b->id;
    }
    uint64_t left = minus_log2(a->hash) * b->weight, right = minus_log2(b->hash) * a->weight; /* 31 and 32 bits */
    return left != right ? left < right : a->id < b->id;
}

static bool shares_host(const struct hr_candidate *a, const struct hr_candidate *b)
{
    return a->host != 0 && a->host == b->host;
}

/* What all steps of a build look at. */
struct build {
    const struct hr_candidate *candidates;
    uint32_t count;
    uint32_t shares[HR_REGION_NODES_MAX]; /* partitions owned */
    uint32_t fair[HR_REGION_NODES_MAX];   /* rounded down */
};

/* Those that a partition may go to, a bit for each candidate. */
typedef uint64_t candidate_set;

static uint8_t first_of(const struct build *build, uint32_t partition, candidate_set among)
{
    struct rank best = {0};
    uint8_t first = HR_CANDIDATE_NONE;
    for (uint8_t i = 0; i < build->count; i++) {
        if (among >> i & 1) {
            struct rank rank = rank_of(&build->candidates[i], partition);
            if (first == HR_CANDIDATE_NONE || is_before(&rank, &best)) {
                best = rank;
                first = i;
            }
        }
    }
    return first;
}

static candidate_set all_of(const struct build *build)
{
    return build->count == 0 ? 0 : UINT64_MAX >> (64 - build->count);
}

static void set_fair_shares(struct build *build)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < build->count; i++) {
        sum += weight_of(&build->candidates[i]);
    }
    for (uint32_t i = 0; i < build->count; i++) {
        build->fair[i] = (uint32_t)(weight_of(&build->candidates[i]) * (uint64_t)HR_PARTITIONS / sum);
    }
}

static uint32_t stray_of(const struct build *build, uint32_t candidate)
{
    return build->fair[candidate] * HR_SHARE_STRAY_PERCENT / 100 + 1;
}

/* Those whose share is below what is fair, or below it by more than it may be. */
static candidate_set below(const struct build *build, bool by_too_much)
{
    candidate_set set = 0;
    for (uint32_t i = 0; i < build->count; i++) {
        uint32_t slack = by_too_much ? stray_of(build, i) : 0;
        set |= (candidate_set)(build->shares[i] + slack < build->fair[i]) << i;
    }
    return set;
}

static void pass_on(struct build *build, struct hr_partition_map *map, uint32_t partition, uint8_t to)
{
    build->shares[map->owner[partition]]--;
    build->shares[to]++;
    map->owner[partition] = to;
}

/* Whoever has too much sheds to those below what is fair; whoever has too little is then filled up by those above it.
 * One pass over the partitions is enough for each: as long as one share is off, another is off the other way. */
static void trim(struct build *build, struct hr_partition_map *map)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        uint8_t owner = map->owner[p];
        candidate_set poor = below(build, false);
        if (build->shares[owner] > build->fair[owner] + stray_of(build, owner) && poor != 0) {
            pass_on(build, map, p, first_of(build, p, poor));
        }
    }
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        uint8_t owner = map->owner[p];
        candidate_set poor = below(build, true);
        if (build->shares[owner] > build->fair[owner] && poor != 0) {
            pass_on(build, map, p, first_of(build, p, poor));
        }
    }
}

static uint8_t standby_of(const struct build *build, uint32_t partition, uint8_t owner)
{
    candidate_set others = all_of(build) & ~(UINT64_C(1) << owner), apart = others;
    for (uint32_t i = 0; i < build->count; i++) {
        bool is_near = shares_host(&build->candidates[i], &build->candidates[owner]);
        apart &= ~((candidate_set)is_near << i);
    }
    return first_of(build, partition, apart != 0 ? apart : others);
}

void hr_partition_map_build(struct hr_partition_map *map, const struct hr_candidate *candidates, uint32_t count)
{
    memset(map, HR_CANDIDATE_NONE, sizeof(*map));
    if (count == 0) {
        return;
    }
    struct build build = {.candidates = candidates, .count = count};
    set_fair_shares(&build);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        map->owner[p] = first_of(&build, p, all_of(&build));
        build.shares[map->owner[p]]++;
    }
    trim(&build, map);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        map->standby[p] = standby_of(&build, p, map->owner[p]);
    }
}

struct hr_candidate hr_partition_candidate(const struct hr_member *member, uint32_t index)
{
    size_t bytes = strlen(member->host);
    uint64_t host = bytes == 0 ? 0 : hr_plain_hash(member->host, bytes, 0) | 1;
    return (struct hr_candidate){member->id, host, member->weight, index};
}

/* Keeps the list in the order of the ids, and of the last ones none where it is full. */
static uint32_t insert(struct hr_candidate *list, uint32_t count, const struct hr_candidate *candidate)
{
    uint32_t at = count;
    while (at > 0 && list[at - 1].id > candidate->id) {
        at--;
    }
    if (at == HR_REGION_NODES_MAX) {
        return count;
    }
    uint32_t behind = (count < HR_REGION_NODES_MAX ? count : HR_REGION_NODES_MAX - 1) - at;
    memmove(list + at + 1, list + at, behind * sizeof(*list));
    list[at] = *candidate;
    return at + behind + 1;
}

uint32_t hr_partition_candidates(const struct hr_members *members, const char *region,
                                 struct hr_candidate ret_candidates[HR_REGION_NODES_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct hr_member *member = &members->all[i];
        if (hr_member_is_live(member) && strcmp(member->region, region) == 0) {
            struct hr_candidate candidate = hr_partition_candidate(member, i);
            count = insert(ret_candidates, count, &candidate);
        }
    }
    return count;
}
