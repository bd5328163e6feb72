#include "limiter/limit_set.h"

#include <stdalign.h>

#include "base/bump.h"
#include "base/hash.h"
#include "base/load.h"
#include "limiter/match.h"

static uint32_t power_of_two_above(uint32_t count)
{
    uint32_t power = 1;
    while (power <= count) {
        power <<= 1;
    }
    return power;
}

/* Can a limit be filed under this condition's values? Then exactly one of them must be in the request. */
static bool names_values(const struct hr_condition *condition)
{
    for (uint32_t i = 0; i < condition->pattern_count; i++) {
        if (condition->patterns[i].kind != HR_MATCH_EXACT || condition->patterns[i].negated) {
            return false;
        }
    }
    return !condition->negated;
}

/* Does the condition fail where the attribute is absent? */
static bool needs_attribute(const struct hr_condition *condition)
{
    return !hr_condition_holds(condition, NULL);
}

static void lay_out(struct hr_limit_set *set, struct hr_bump *bump)
{
    uint32_t attributes = 0, values = 0;
    for (uint32_t i = 0; i < set->limit_count; i++) {
        const struct hr_limit *limit = &set->limits[i];
        attributes += limit->key_count + limit->when_count;
        for (uint32_t k = 0; k < limit->when_count; k++) {
            values += names_values(&limit->when[k]) ? limit->when[k].pattern_count : 0;
        }
    }
    uint32_t name_places = power_of_two_above(2 * attributes), value_places = power_of_two_above(2 * values);
    set->name_mask = name_places - 1;
    set->value_mask = value_places - 1;
    set->names = hr_bump_take(bump, name_places, sizeof(struct hr_set_entry), alignof(struct hr_set_entry));
    set->values = hr_bump_take(bump, value_places, sizeof(struct hr_set_entry), alignof(struct hr_set_entry));
    set->postings =
        hr_bump_take(bump, (size_t)values + set->limit_count, sizeof(struct hr_filed), alignof(struct hr_filed));
    set->attributes = hr_bump_take(bump, attributes, sizeof(uint32_t), alignof(uint32_t));
    set->attribute_from = hr_bump_take(bump, set->limit_count, sizeof(uint32_t), alignof(uint32_t));
}

size_t hr_limit_set_bytes(const struct hr_limit *limits, uint32_t limit_count)
{
    struct hr_limit_set set = {.limits = limits, .limit_count = limit_count};
    struct hr_bump bump = {0};
    lay_out(&set, &bump);
    return bump.taken;
}

/* The first eight bytes of a text, and the last eight of one that is longer. */
struct ends {
    uint64_t head, tail;
};

/* Up to this length, two texts of the same length and ends are equal. */
#define ENDS_BYTES 16

static inline struct ends ends_of(struct hr_span text)
{
    if (text.bytes <= 8) {
        return (struct ends){.head = text.bytes == 8 ? hr_load64(text.at) : hr_load_short(text.at, text.bytes)};
    }
    return (struct ends){.head = hr_load64(text.at), .tail = hr_load64(text.at + text.bytes - 8)};
}

/* Names and values are short, and only the operator chooses which ones stand in the tables: to mix their ends by two
 * multiplications with odd numbers (from SplitMix64, Steele et al. 2014) is enough. */
static inline uint32_t hash_of(struct hr_span text, struct ends ends, uint32_t scope)
{
    if (text.bytes > ENDS_BYTES) {
        return (uint32_t)hr_plain_hash(text.at, text.bytes, scope);
    }
    uint64_t mixed = (ends.head + text.bytes) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = ((mixed >> 32) ^ mixed ^ ends.tail ^ (uint64_t)scope << 32) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(mixed >> 32);
}

static inline bool is_entry_of(const struct hr_set_entry *entry, struct hr_span text, struct ends ends, uint32_t scope)
{
    return entry->head == ends.head && entry->tail == ends.tail && entry->text.bytes == text.bytes &&
           entry->scope == scope && (text.bytes <= ENDS_BYTES || memcmp(entry->text.at, text.at, text.bytes) == 0);
}

/* The place of a name or value: its entry, or the empty one where it would stand. */
static inline struct hr_set_entry *place_of(struct hr_set_entry *entries, uint32_t mask, uint32_t scope,
                                            struct hr_span text)
{
    struct ends ends = ends_of(text);
    uint32_t at = hash_of(text, ends, scope) & mask;
    while (entries[at].used && !is_entry_of(&entries[at], text, ends, scope)) {
        at = (at + 1) & mask;
    }
    return &entries[at];
}

static void occupy(struct hr_set_entry *entry, struct hr_span text, uint32_t scope, uint32_t number)
{
    struct ends ends = ends_of(text);
    *entry = (struct hr_set_entry){
        .used = true, .text = text, .head = ends.head, .tail = ends.tail, .scope = scope, .number = number};
}

static inline struct hr_set_entry *name_entry(const struct hr_limit_set *set, struct hr_span name)
{
    return place_of(set->names, set->name_mask, 0, name);
}

static inline struct hr_set_entry *value_entry(const struct hr_limit_set *set, uint32_t attribute, struct hr_span value)
{
    return place_of(set->values, set->value_mask, attribute, value);
}

static uint32_t number_of(struct hr_limit_set *set, struct hr_span name)
{
    struct hr_set_entry *entry = name_entry(set, name);
    if (!entry->used) {
        occupy(entry, name, 0, set->attribute_count++);
    }
    return entry->number;
}

static void count_values(struct hr_limit_set *set, const struct hr_condition *condition)
{
    uint32_t attribute = name_entry(set, condition->attribute)->number;
    for (uint32_t i = 0; i < condition->pattern_count; i++) {
        struct hr_set_entry *entry = value_entry(set, attribute, condition->patterns[i].text);
        if (!entry->used) {
            occupy(entry, condition->patterns[i].text, attribute, 0);
        }
        entry->shared_by++;
    }
}

/* Numbers the limit's attributes, and counts it where it could be filed. */
static void survey(struct hr_limit_set *set, uint32_t index, uint32_t *next)
{
    const struct hr_limit *limit = &set->limits[index];
    set->attribute_from[index] = *next;
    for (uint32_t i = 0; i < limit->key_count; i++) {
        set->attributes[(*next)++] = number_of(set, limit->key[i]);
        name_entry(set, limit->key[i])->shared_by++;
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        const struct hr_condition *condition = &limit->when[i];
        set->attributes[(*next)++] = number_of(set, condition->attribute);
        name_entry(set, condition->attribute)->shared_by += needs_attribute(condition);
        if (names_values(condition)) {
            count_values(set, condition);
        }
    }
}

/* Where one limit is filed: under the values of a condition, under a name, or (both NULL) under always. */
struct filing {
    const struct hr_condition *values;
    struct hr_set_entry *name;
    uint32_t shared_by;
};

static void prefer_name(const struct hr_limit_set *set, struct hr_span name, struct filing *best)
{
    struct hr_set_entry *entry = name_entry(set, name);
    if (entry->shared_by < best->shared_by) {
        *best = (struct filing){.name = entry, .shared_by = entry->shared_by};
    }
}

static void prefer_values(const struct hr_limit_set *set, const struct hr_condition *condition, struct filing *best)
{
    uint32_t attribute = name_entry(set, condition->attribute)->number, most = 0;
    for (uint32_t i = 0; i < condition->pattern_count; i++) {
        uint32_t shared_by = value_entry(set, attribute, condition->patterns[i].text)->shared_by;
        most = shared_by > most ? shared_by : most;
    }
    if (most < best->shared_by) {
        *best = (struct filing){.values = condition, .shared_by = most};
    }
}

/* Values before names where both are shared alike: a request has one value, and most requests have the name. */
static struct filing choose_filing(const struct hr_limit_set *set, const struct hr_limit *limit)
{
    struct filing best = {.shared_by = UINT32_MAX};
    for (uint32_t i = 0; i < limit->when_count; i++) {
        if (names_values(&limit->when[i])) {
            prefer_values(set, &limit->when[i], &best);
        }
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        if (needs_attribute(&limit->when[i])) {
            prefer_name(set, limit->when[i].attribute, &best);
        }
    }
    for (uint32_t i = 0; i < limit->key_count; i++) {
        prefer_name(set, limit->key[i], &best);
    }
    return best;
}

/* Does every request that leads to where the limit is filed meet all that it asks for? */
static bool is_enough(const struct filing *filing, const struct hr_limit *limit)
{
    if (filing->values != NULL) {
        return limit->key_count == 0 && limit->when_count == 1;
    }
    return limit->key_count <= 1 && limit->when_count == 0;
}

/* Writes the limit into the posting, whose room was reserved; or, while only counting, reserves it. A condition that
 * lists one value twice reserves twice and is written once. */
static void file_under(struct hr_limit_set *set, struct hr_posting *posting, struct hr_filed filed, bool count_only)
{
    struct hr_filed *list = set->postings + posting->first;
    if (!count_only && posting->count > 0 && list[posting->count - 1].limit == filed.limit) {
        return;
    }
    if (!count_only) {
        list[posting->count] = filed;
    }
    posting->count++;
}

static void file_limit(struct hr_limit_set *set, uint32_t index, bool count_only)
{
    struct filing filing = choose_filing(set, &set->limits[index]);
    struct hr_filed filed = {.limit = index, .is_enough = is_enough(&filing, &set->limits[index])};
    if (filing.values == NULL) {
        file_under(set, filing.name == NULL ? &set->always : &filing.name->posting, filed, count_only);
        return;
    }
    struct hr_set_entry *name = name_entry(set, filing.values->attribute);
    name->has_values = true;
    for (uint32_t i = 0; i < filing.values->pattern_count; i++) {
        struct hr_set_entry *entry = value_entry(set, name->number, filing.values->patterns[i].text);
        file_under(set, &entry->posting, filed, count_only);
    }
}

static void reserve(struct hr_posting *posting, uint32_t *next)
{
    posting->first = *next;
    *next += posting->count;
    posting->count = 0;
}

static void reserve_all(struct hr_limit_set *set)
{
    uint32_t next = 0;
    reserve(&set->always, &next);
    for (uint32_t i = 0; i <= set->name_mask; i++) {
        reserve(&set->names[i].posting, &next);
    }
    for (uint32_t i = 0; i <= set->value_mask; i++) {
        reserve(&set->values[i].posting, &next);
    }
}

enum hr_err hr_limit_set_build(struct hr_limit_set *set, const struct hr_limit *limits, uint32_t limit_count,
                               void *memory, size_t memory_bytes)
{
    if (limit_count > HR_LIMITS_MAX) {
        return HR_E_TOO_MANY;
    }
    size_t needed = hr_limit_set_bytes(limits, limit_count);
    if (memory_bytes < needed) {
        return HR_E_MEMORY;
    }
    memset(memory, 0, needed);
    *set = (struct hr_limit_set){.limits = limits, .limit_count = limit_count};
    struct hr_bump bump = {.at = memory};
    lay_out(set, &bump);
    uint32_t next = 0;
    for (uint32_t i = 0; i < limit_count; i++) {
        survey(set, i, &next);
    }
    for (uint32_t i = 0; i < limit_count; i++) {
        file_limit(set, i, true);
    }
    reserve_all(set);
    for (uint32_t i = 0; i < limit_count; i++) {
        file_limit(set, i, false);
    }
    return HR_OK;
}

/* A request has few attributes that any limit knows: a walk is quicker than an index. */
static inline const struct hr_span *value_of(const struct hr_match *match, uint32_t attribute)
{
    uint32_t count = match->known_count;
    for (uint32_t i = 0; i < count; i++) {
        if (match->known[i] == attribute) {
            return match->values[i];
        }
    }
    return NULL;
}

const struct hr_span *hr_match_key_value(const struct hr_limit_set *set, const struct hr_match *match, uint32_t limit,
                                         uint32_t i)
{
    uint32_t attribute = set->attributes[set->attribute_from[limit] + i], at = 0;
    while (match->known[at] != attribute) {
        at++; /* it is there: the limit would not be touched without it */
    }
    return match->values[at];
}

static bool applies(const struct hr_limit_set *set, const struct hr_match *match, uint32_t index)
{
    const struct hr_limit *limit = &set->limits[index];
    const uint32_t *attributes = &set->attributes[set->attribute_from[index]];
    for (uint32_t i = 0; i < limit->key_count; i++) {
        if (value_of(match, attributes[i]) == NULL) {
            return false;
        }
    }
    for (uint32_t i = 0; i < limit->when_count; i++) {
        if (!hr_condition_holds(&limit->when[i], value_of(match, attributes[limit->key_count + i]))) {
            return false;
        }
    }
    return true;
}

/* Keeps the limits in the file's order: each posting is in order, so what is inserted moves little. */
static void add_touched(struct hr_match *match, uint32_t index)
{
    uint32_t at = match->count++;
    while (at > 0 && match->limits[at - 1] > index) {
        match->limits[at] = match->limits[at - 1];
        at--;
    }
    match->limits[at] = index;
}

/* Adds those of the candidates that apply. False: they are more than a request may touch. */
static inline bool add_candidates(const struct hr_limit_set *set, const struct hr_posting *candidates,
                                  struct hr_match *match)
{
    const struct hr_filed *filed = set->postings + candidates->first;
    for (const struct hr_filed *end = filed + candidates->count; filed < end; filed++) {
        if (!filed->is_enough && !applies(set, match, filed->limit)) {
            continue;
        }
        if (match->count == HR_TOUCHED_MAX) {
            return false;
        }
        add_touched(match, filed->limit);
    }
    return true;
}

/* What is filed under one attribute of the request: under its name, and under its value. */
static bool add_attribute(const struct hr_limit_set *set, const struct hr_set_entry *name, uint32_t known,
                          struct hr_match *match)
{
    if (name->posting.count > 0 && !add_candidates(set, &name->posting, match)) {
        return false;
    }
    return !name->has_values ||
           add_candidates(set, &value_entry(set, name->number, *match->values[known])->posting, match);
}

enum hr_err hr_limit_set_match(const struct hr_limit_set *set, const struct hr_request *request,
                               struct hr_match *ret_match)
{
    const struct hr_set_entry *names[HR_ATTRIBUTES_MAX];
    uint32_t known = 0, attribute_count = request->attribute_count;
    for (uint32_t i = 0; i < attribute_count; i++) {
        const struct hr_attribute *attribute = &request->attributes[i];
        const struct hr_set_entry *name = name_entry(set, attribute->name);
        if (name->used) {
            ret_match->known[known] = name->number;
            ret_match->values[known] = &attribute->value;
            names[known++] = name;
        }
    }
    ret_match->known_count = known;
    ret_match->count = 0;
    bool is_within = set->always.count == 0 || add_candidates(set, &set->always, ret_match);
    for (uint32_t i = 0; i < known && is_within; i++) {
        is_within = add_attribute(set, names[i], i, ret_match);
    }
    return is_within ? HR_OK : HR_E_TOO_MANY;
}
