#include "node/cap_rules.h"

#include <string.h>

#include "base/defect.h"
#include "limiter/stakes.h"
#include "storage/le.h"

#define PPM_PER_PERMILLE (HR_PPM / 1000U)
#define FLAG_DECAYS 1U
#define FLAG_HAS_LOG 2U

static enum hr_cap_kind kind_of(enum hr_stake_kind kind)
{
    return kind == HR_STAKE_SHARE ? HR_CAP_LEND : kind == HR_STAKE_ESCROW ? HR_CAP_COVER_WINDOWS : HR_CAP_COVER_HELD;
}

static struct hr_cap_rule rule_of(const struct hr_limit *limit, const struct hr_cap *cap, bool saves)
{
    return (struct hr_cap_rule){
        .number = cap->number,
        .kind = (uint8_t)kind_of(cap->kind),
        .decays = limit->rule.algorithm == HR_QUOTA,
        .has_log = saves && cap->kind != HR_STAKE_SHARE && limit->durability != HR_MEMORY && limit->mode == HR_ENFORCE,
        .reserve_permille = limit->reserve_ppm / PPM_PER_PERMILLE,
        .slack_permille = limit->slack_ppm / PPM_PER_PERMILLE,
        .rate = cap->kind == HR_STAKE_SHARE ? limit->rule.rate : 0,
        .period_ns = cap->kind == HR_STAKE_SHARE ? limit->rule.period_ns : 0,
        .total = limit->rule.capacity,
    };
}

/* Keeps them sorted, so that the order of a file plays no part. */
static void insert(struct hr_cap_rules *rules, const struct hr_cap_rule *rule)
{
    uint32_t at = rules->count++;
    for (; at > 0 && rules->at[at - 1].number > rule->number; at--) {
        rules->at[at] = rules->at[at - 1];
    }
    rules->at[at] = *rule;
}

uint64_t hr_cap_names_hash(const struct hr_cap_regions *regions)
{
    uint64_t hash = regions->count;
    for (uint32_t k = 0; k < regions->count; k++) {
        hash = hr_plain_hash(regions->names[k].at, regions->names[k].bytes, hash);
    }
    return hash;
}

bool hr_cap_rules_of(const struct hr_limiter *limiter, const struct hr_limit_set *set,
                     const struct hr_cap_regions *regions, bool saves, struct hr_cap_rules *ret_rules)
{
    ret_rules->names = hr_cap_names_hash(regions);
    ret_rules->region_count = regions->count;
    memcpy(ret_rules->weights, regions->weights, sizeof(ret_rules->weights));
    ret_rules->count = 0;
    for (uint32_t i = 0; i < set->limit_count; i++) {
        const struct hr_cap *cap = hr_limiter_cap(limiter, i);
        if (cap->number == 0) {
            continue;
        }
        if (ret_rules->count == HR_CAP_RULES_MAX) {
            return false;
        }
        struct hr_cap_rule rule = rule_of(&set->limits[i], cap, saves);
        insert(ret_rules, &rule);
    }
    return true;
}

const struct hr_cap_rule *hr_cap_rules_find(const struct hr_cap_rules *rules, uint32_t number)
{
    uint32_t low = 0, high = rules->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rules->at[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < rules->count && rules->at[low].number == number ? &rules->at[low] : NULL;
}

static void fill_lend(const struct hr_cap_rules *rules, const struct hr_cap_rule *rule, struct hr_cap_limit *limit)
{
    uint32_t wholes = hr_defect(CAP_WHOLE) ? rules->region_count : 1, parts = hr_defect(CAP_PART) ? 8 : 1;
    const struct hr_lend_numbers numbers = {
        .rate = rule->rate * wholes / parts,
        .period_ns = rule->period_ns,
        .burst = rule->total * wholes / parts,
        .reserve_permille = hr_defect(CAP_LENT) ? 0 : rule->reserve_permille,
        .slack_permille = rule->slack_permille,
    };
    hr_lend_rule_init(&limit->lend, &numbers, rules->region_count, rules->weights);
    limit->number |= limit->lend.is_pooled;
}

/* How much more than a whole the regions may hold has a meaning for bursts alone: a count is exact. */
static void fill_cover(const struct hr_cap_rules *rules, const struct hr_cap_rule *rule, struct hr_cap_limit *limit)
{
    limit->is_cover = true;
    limit->cover = (struct hr_cover_rule){
        .total = (int64_t)rule->total,
        .reserve_permille = rule->reserve_permille,
        .reserve_decays = rule->decays,
        .has_windows = rule->kind == HR_CAP_COVER_WINDOWS,
        .has_log = rule->has_log,
        .count = rules->region_count,
    };
    for (uint32_t k = 0; k < rules->region_count; k++) {
        limit->cover.weights[k] = rules->weights[k];
    }
}

void hr_cap_rule_fill(const struct hr_cap_rules *rules, const struct hr_cap_rule *rule, struct hr_cap_limit *ret_limit)
{
    *ret_limit = (struct hr_cap_limit){.number = rule->number};
    if (rule->kind == HR_CAP_LEND) {
        fill_lend(rules, rule, ret_limit);
    } else {
        fill_cover(rules, rule, ret_limit);
    }
}

size_t hr_cap_rules_encode(const struct hr_cap_rules *rules, uint8_t out[HR_CAP_RULES_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_CAP_RULES_BYTES_MAX);
    hr_le_write_u64(&writer, rules->names);
    hr_le_write_u8(&writer, (uint8_t)rules->region_count);
    for (uint32_t k = 0; k < rules->region_count; k++) {
        hr_le_write_u32(&writer, rules->weights[k]);
    }
    hr_le_write_u16(&writer, (uint16_t)rules->count);
    for (uint32_t i = 0; i < rules->count; i++) {
        const struct hr_cap_rule *rule = &rules->at[i];
        hr_le_write_u32(&writer, rule->number);
        hr_le_write_u8(&writer, rule->kind);
        hr_le_write_u8(&writer, (uint8_t)((rule->decays ? FLAG_DECAYS : 0) | (rule->has_log ? FLAG_HAS_LOG : 0)));
        hr_le_write_u32(&writer, rule->reserve_permille);
        hr_le_write_u32(&writer, rule->slack_permille);
        hr_le_write_u64(&writer, rule->rate);
        hr_le_write_u64(&writer, rule->period_ns);
        hr_le_write_u64(&writer, rule->total);
    }
    return writer.used;
}

uint64_t hr_cap_rules_hash(const struct hr_cap_rules *rules)
{
    uint8_t bytes[HR_CAP_RULES_BYTES_MAX];
    size_t count = hr_cap_rules_encode(rules, bytes);
    return hr_plain_hash(bytes, count, 0);
}

static bool is_sound(const struct hr_cap_rule *rule)
{
    bool is_lend = rule->kind == HR_CAP_LEND;
    bool has_rate = rule->rate >= 1 && rule->rate <= HR_COST_MAX && rule->period_ns >= 1 &&
                    rule->period_ns <= (uint64_t)HR_PERIOD_NS_MAX;
    return rule->number != 0 && (rule->number & 1) == 0 && rule->kind < HR_CAP_KIND_COUNT &&
           rule->reserve_permille <= 1000 && rule->slack_permille <= 1000 && rule->total >= 1 &&
           rule->total <= HR_COST_MAX && (is_lend ? has_rate : rule->rate == 0 && rule->period_ns == 0);
}

static bool read_rule(struct hr_le_reader *reader, struct hr_cap_rule *rule)
{
    rule->number = hr_le_read_u32(reader);
    rule->kind = hr_le_read_u8(reader);
    uint8_t flags = hr_le_read_u8(reader);
    rule->decays = (flags & FLAG_DECAYS) != 0;
    rule->has_log = (flags & FLAG_HAS_LOG) != 0;
    rule->reserve_permille = hr_le_read_u32(reader);
    rule->slack_permille = hr_le_read_u32(reader);
    rule->rate = hr_le_read_u64(reader);
    rule->period_ns = hr_le_read_u64(reader);
    rule->total = hr_le_read_u64(reader);
    return !reader->failed && flags <= (FLAG_DECAYS | FLAG_HAS_LOG) && is_sound(rule);
}

static bool read_regions(struct hr_le_reader *reader, struct hr_cap_rules *rules)
{
    uint64_t sum = 0;
    rules->names = hr_le_read_u64(reader);
    rules->region_count = hr_le_read_u8(reader);
    memset(rules->weights, 0, sizeof(rules->weights));
    for (uint32_t k = 0; k < rules->region_count && k < HR_REGIONS_MAX; k++) {
        rules->weights[k] = hr_le_read_u32(reader);
        sum += rules->weights[k];
        if (rules->weights[k] > INT32_MAX) {
            return false;
        }
    }
    return rules->region_count >= 1 && rules->region_count <= HR_REGIONS_MAX && sum > 0;
}

enum hr_err hr_cap_rules_decode(struct hr_span bytes, struct hr_cap_rules *ret_rules)
{
    struct hr_le_reader reader = hr_le_reader_of(bytes);
    bool is_valid = read_regions(&reader, ret_rules);
    uint32_t count = hr_le_read_u16(&reader);
    ret_rules->count = 0;
    for (uint32_t i = 0; is_valid && i < count; i++) {
        is_valid = i < HR_CAP_RULES_MAX && read_rule(&reader, &ret_rules->at[i]) &&
                   (i == 0 || ret_rules->at[i - 1].number < ret_rules->at[i].number);
        ret_rules->count += is_valid;
    }
    return is_valid && hr_le_is_at_end(&reader) ? HR_OK : HR_E_CORRUPT;
}
