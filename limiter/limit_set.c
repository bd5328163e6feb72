#include "limiter/limit_set.h"

#include <stdalign.h>

#include "base/bump.h"
#include "base/hash.h"
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
    set->postings = hr_bump_take(bump, (size_t)values + set->limit_count, sizeof(uint32_t), alignof(uint32_t));
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

/* The place of a name or value: its entry, or the empty one where it would stand. */
static struct hr_set_entry *place_of(struct hr_set_entry *entries, uint32_t mask, uint32_t scope, struct hr_span text)
{
    uint32_t at = (uint32_t)hr_plain_hash(text.at, text.bytes, scope) & mask;
    while (entries[at].used && (entries[at].scope != scope || !hr_span_equal(entries[at].text, text))) {
        at = (at + 1) & mask;
    }
    return &entries[at];
}

static struct hr_set_entry *name_entry(const struct hr_limit_set *set, struct hr_span name)
{
    return place_of(set->names, set->name_mask, 0, name);
}

static struct hr_set_entry *value_entry(const struct hr_limit_set *set, uint32_t attribute, struct hr_span value)
{
    return place_of(set->values, set->value_mask, attribute, value);
}

static uint32_t number_of(struct hr_limit_set *set, struct hr_span name)
{
    struct hr_set_entry *entry = name_entry(set, name);
    if (!entry->used) {
        *entry = (struct hr_set_entry){.used = true, .text = name, .number = set->attribute_count++};
    }
    return entry->number;
}

static void count_values(struct hr_limit_set *set, const struct hr_condition *condition)
{
    uint32_t attribute = name_entry(set, condition->attribute)->number;
    for (uint32_t i = 0; i < condition->pattern_count; i++) {
        struct hr_set_entry *entry = value_entry(set, attribute, condition->patterns[i].text);
        if (!entry->used) {
            *entry = (struct hr_set_entry){.used = true, .text = condition->patterns[i].text, .scope = attribute};
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

/* Writes the limit into the posting, whose room was reserved; or, while only counting, reserves it. A condition that
 * lists one value twice reserves twice and is written once. */
static void file_under(struct hr_limit_set *set, struct hr_posting *posting, uint32_t index, bool count_only)
{
    uint32_t *list = set->postings + posting->first;
    if (!count_only && posting->count > 0 && list[posting->count - 1] == index) {
        return;
    }
    if (!count_only) {
        list[posting->count] = index;
    }
    posting->count++;
}

static void file_limit(struct hr_limit_set *set, uint32_t index, bool count_only)
{
    struct filing filing = choose_filing(set, &set->limits[index]);
    if (filing.values == NULL) {
        file_under(set, filing.name == NULL ? &set->always : &filing.name->posting, index, count_only);
        return;
    }
    struct hr_set_entry *name = name_entry(set, filing.values->attribute);
    name->has_values = true;
    for (uint32_t i = 0; i < filing.values->pattern_count; i++) {
        struct hr_set_entry *entry = value_entry(set, name->number, filing.values->patterns[i].text);
        file_under(set, &entry->posting, index, count_only);
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
static const struct hr_span *value_of(const struct hr_match *match, uint32_t attribute)
{
    for (uint32_t i = 0; i < match->known_count; i++) {
        if (match->known[i] == attribute) {
            return match->values[i];
        }
    }
    return NULL;
}

const struct hr_span *hr_match_key_value(const struct hr_limit_set *set, const struct hr_match *match, uint32_t limit,
                                         uint32_t i)
{
    return value_of(match, set->attributes[set->attribute_from[limit] + i]);
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
static enum hr_err add_touched(struct hr_match *match, uint32_t index)
{
    if (match->count == HR_TOUCHED_MAX) {
        return HR_E_TOO_MANY;
    }
    uint32_t at = match->count++;
    while (at > 0 && match->limits[at - 1] > index) {
        match->limits[at] = match->limits[at - 1];
        at--;
    }
    match->limits[at] = index;
    return HR_OK;
}

static enum hr_err add_posting(const struct hr_limit_set *set, const struct hr_posting *posting, struct hr_match *match)
{
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; i < posting->count && err == HR_OK; i++) {
        uint32_t index = set->postings[posting->first + i];
        if (applies(set, match, index)) {
            err = add_touched(match, index);
        }
    }
    return err;
}

/* The limits filed under one attribute of the request: under its name, and under its value. */
static enum hr_err add_attribute(const struct hr_limit_set *set, const struct hr_set_entry *name, uint32_t known,
                                 struct hr_match *match)
{
    enum hr_err err = add_posting(set, &name->posting, match);
    if (err == HR_OK && name->has_values) {
        err = add_posting(set, &value_entry(set, name->number, *match->values[known])->posting, match);
    }
    return err;
}

enum hr_err hr_limit_set_match(const struct hr_limit_set *set, const struct hr_request *request,
                               struct hr_match *ret_match)
{
    struct hr_match *match = ret_match;
    const struct hr_set_entry *names[HR_ATTRIBUTES_MAX];
    uint32_t known = 0;
    for (uint32_t i = 0; i < request->attribute_count; i++) {
        const struct hr_attribute *attribute = &request->attributes[i];
        const struct hr_set_entry *name = name_entry(set, attribute->name);
        if (name->used) {
            match->known[known] = name->number;
            match->values[known] = &attribute->value;
            names[known++] = name;
        }
    }
    match->known_count = known;
    match->count = 0;
    enum hr_err err = add_posting(set, &set->always, match);
    for (uint32_t i = 0; i < known && err == HR_OK; i++) {
        err = add_attribute(set, names[i], i, match);
    }
    return err;
}
