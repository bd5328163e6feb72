#include "node/limits_yaml.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "node/amount_text.h"
#include "node/doc_yaml.h"
#include "node/zone_file.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A piece of memory that lives as long as the file. */
struct block {
    struct block *next;
    max_align_t memory[];
};

struct loaded {
    struct hr_limits_file file; /* first, so that one pointer stands for both */
    struct hr_doc *doc;         /* owns all text */
    struct hr_zone_list zones;
    struct block *blocks;
};

struct reader {
    struct loaded *loaded;
    const struct hr_doc *doc;
    struct hr_problem *problem;
};

enum field {
    FIELD_NAME,
    FIELD_KEY,
    FIELD_WHEN,
    FIELD_ALGORITHM,
    FIELD_RATE,
    FIELD_BURST,
    FIELD_QUOTA,
    FIELD_TIME_ZONE,
    FIELD_SLOTS,
    FIELD_TTL,
    FIELD_SCOPE,
    FIELD_RESERVE,
    FIELD_SLACK,
    FIELD_MODE,
    FIELD_DURABILITY,
    FIELD_ON_UNAVAILABLE,
    FIELD_COUNT,
};

static const char *const field_names[FIELD_COUNT] = {
    "name",  "key", "when",  "algorithm", "rate",  "burst", "quota",      "time_zone",
    "slots", "ttl", "scope", "reserve",   "slack", "mode",  "durability", "on_unavailable",
};

/* The parameters of each algorithm, the one that it cannot do without first. */
static const struct parameters {
    const char *names;
    enum field needed, optional;
} parameters_of[] = {
    [HR_TOKEN_BUCKET] = {"rate, burst", FIELD_RATE, FIELD_BURST},
    [HR_GCRA] = {"rate, burst", FIELD_RATE, FIELD_BURST},
    [HR_LEAKY_BUCKET] = {"rate, burst", FIELD_RATE, FIELD_BURST},
    [HR_FIXED_WINDOW] = {"rate", FIELD_RATE, FIELD_RATE},
    [HR_SLIDING_WINDOW] = {"rate", FIELD_RATE, FIELD_RATE},
    [HR_SLIDING_LOG] = {"rate", FIELD_RATE, FIELD_RATE},
    [HR_QUOTA] = {"quota, time_zone", FIELD_QUOTA, FIELD_TIME_ZONE},
    [HR_CONCURRENCY] = {"slots, ttl", FIELD_SLOTS, FIELD_TTL},
};

/* Zero-filled memory for `count` items of the limit at node; NULL with the problem filled in. */
static void *take(struct reader *r, hr_doc_node node, size_t count, size_t item_bytes)
{
    struct block *block = calloc(1, sizeof(*block) + count * item_bytes); /* both bounded: no overflow */
    if (block == NULL) {
        (void)hr_doc_fault(r->doc, node, r->problem, "not enough memory for the limits");
        return NULL;
    }
    block->next = r->loaded->blocks;
    r->loaded->blocks = block;
    return block->memory;
}

/* Conditions. */

/* "10.1.0.0/8" was written: say which network that /8 is. */
static bool fault_of_host_bits(struct reader *r, hr_doc_node node, struct hr_span text)
{
    uint8_t address[16];
    char copy[INET6_ADDRSTRLEN + 4], network[INET6_ADDRSTRLEN] = "?"; /* hr_cidr_parse has bounded the text */
    memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    char *slash = strchr(copy, '/');
    *slash = '\0';
    int family = strchr(copy, ':') == NULL ? AF_INET : AF_INET6;
    unsigned bits = (unsigned)strtoul(slash + 1, NULL, 10);
    (void)inet_pton(family, copy, address); /* it was one a moment ago */
    for (unsigned bit = bits; bit < (family == AF_INET ? 32U : 128U); bit++) {
        address[bit / 8] &= (uint8_t) ~(0x80U >> bit % 8);
    }
    (void)inet_ntop(family, address, network, sizeof(network));
    return hr_doc_fault(r->doc, node, r->problem, "\"%s/%u\" has bits set behind its prefix; the network is %s/%u",
                        copy, bits, network, bits);
}

static bool read_cidr(struct reader *r, hr_doc_node node, struct hr_pattern *pattern)
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, "cidr", &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_cidr_parse(text, &pattern->cidr);
    if (err == HR_E_RANGE) {
        return fault_of_host_bits(r, node, text);
    }
    if (err != HR_OK) {
        return hr_doc_fault(r->doc, node, r->problem,
                            "cidr must be a network, as 10.0.0.0/8 or 2001:db8::/32, not \"%.*s\"", hr_doc_shown(text),
                            text.at);
    }
    pattern->kind = HR_MATCH_CIDR;
    pattern->text = text;
    return true;
}

static bool read_text_pattern(struct reader *r, hr_doc_node node, struct hr_pattern *pattern)
{
    struct hr_span text = hr_doc_text(r->doc, node);
    if (hr_doc_is_null(r->doc, node)) {
        return hr_doc_fault(r->doc, node, r->problem,
                            "a condition on nothing: a value must be given, \"\" for an empty one");
    }
    if (!hr_attribute_value_is_valid(text)) {
        return hr_doc_fault(r->doc, node, r->problem, "a value must be at most %d bytes of UTF-8 without NUL",
                            HR_ATTRIBUTE_VALUE_BYTES_MAX);
    }
    pattern->kind = memchr(text.at, '*', text.bytes) == NULL ? HR_MATCH_EXACT : HR_MATCH_GLOB;
    pattern->text = text;
    return true;
}

/* {cidr: ...} or {not: ...}: exactly one of the two; the other is 0. */
static bool read_operator(struct reader *r, hr_doc_node node, hr_doc_node *ret_cidr, hr_doc_node *ret_not)
{
    static const char *const names[] = {"cidr", "not"};
    static const struct hr_doc_keys keys = {"a condition", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    if (!hr_doc_fields(r->doc, node, &keys, values, r->problem)) {
        return false;
    }
    if (hr_doc_count(r->doc, node) != 1) {
        return hr_doc_fault(r->doc, node, r->problem,
                            hr_doc_count(r->doc, node) == 0
                                ? "a condition on nothing: a value, cidr or not must be given"
                                : "a condition is either cidr or not; use {not: {cidr: ...}}");
    }
    *ret_cidr = values[0];
    *ret_not = values[1];
    return true;
}

/* Peels {not: ...} off a node, however many there are; two cancel out. What is left is text, a list, or a cidr. */
static bool peel(struct reader *r, hr_doc_node *node, bool *ret_negated, hr_doc_node *ret_cidr)
{
    *ret_negated = false;
    *ret_cidr = 0;
    while (hr_doc_kind(r->doc, *node) == HR_DOC_MAP) {
        hr_doc_node inner = 0;
        if (!read_operator(r, *node, ret_cidr, &inner)) {
            return false;
        }
        if (*ret_cidr != 0) {
            return true;
        }
        *ret_negated = !*ret_negated;
        *node = inner;
    }
    return true;
}

static bool read_item(struct reader *r, hr_doc_node node, struct hr_pattern *pattern)
{
    hr_doc_node cidr;
    if (!peel(r, &node, &pattern->negated, &cidr)) {
        return false;
    }
    if (cidr != 0) {
        return read_cidr(r, cidr, pattern);
    }
    if (hr_doc_kind(r->doc, node) == HR_DOC_LIST) {
        return hr_doc_fault(r->doc, node, r->problem, "a list inside a list of a condition");
    }
    return read_text_pattern(r, node, pattern);
}

static bool read_list(struct reader *r, hr_doc_node list, struct hr_pattern *patterns)
{
    for (hr_doc_node item = hr_doc_first(r->doc, list); item != 0; item = hr_doc_next(r->doc, item)) {
        if (!read_item(r, item, patterns++)) {
            return false;
        }
    }
    return true;
}

static bool read_condition(struct reader *r, hr_doc_node node, struct hr_condition *condition)
{
    hr_doc_node cidr;
    if (!peel(r, &node, &condition->negated, &cidr)) {
        return false;
    }
    bool is_list = cidr == 0 && hr_doc_kind(r->doc, node) == HR_DOC_LIST;
    uint32_t count = is_list ? hr_doc_count(r->doc, node) : 1;
    if (count == 0) {
        return hr_doc_fault(r->doc, node, r->problem, "a condition on nothing: the list is empty");
    }
    if (count > HR_PATTERNS_MAX) {
        return hr_doc_fault(r->doc, node, r->problem, "a condition's list has at most %d entries, not %u",
                            HR_PATTERNS_MAX, count);
    }
    struct hr_pattern *patterns = take(r, node, count, sizeof(*patterns));
    if (patterns == NULL) {
        return false;
    }
    condition->pattern_count = count;
    condition->patterns = patterns;
    if (is_list) {
        return read_list(r, node, patterns);
    }
    return cidr != 0 ? read_cidr(r, cidr, patterns) : read_text_pattern(r, node, patterns);
}

static bool read_attribute_name(struct reader *r, hr_doc_node node, struct hr_span *ret_name)
{
    struct hr_span name;
    if (!hr_doc_scalar(r->doc, node, "an attribute's name", &name, r->problem)) {
        return false;
    }
    if (!hr_attribute_name_is_valid(name)) {
        return hr_doc_fault(r->doc, node, r->problem,
                            "an attribute's name must be 1 to 64 of a-z, 0-9, \"_\", \".\" and \"-\", not \"%.*s\"",
                            hr_doc_shown(name), name.at);
    }
    *ret_name = name;
    return true;
}

/* An attribute's name that stands already among the siblings before node. */
static bool is_first(struct reader *r, hr_doc_node parent, hr_doc_node node)
{
    struct hr_span name = hr_doc_text(r->doc, node);
    for (hr_doc_node at = hr_doc_first(r->doc, parent); at != node; at = hr_doc_next(r->doc, at)) {
        if (hr_span_equal(hr_doc_text(r->doc, at), name)) {
            return hr_doc_fault(r->doc, node, r->problem, "\"%.*s\" is given twice; it stands already in line %u",
                                hr_doc_shown(name), name.at, hr_doc_line(r->doc, at));
        }
    }
    return true;
}

static bool is_count_in_range(struct reader *r, hr_doc_node node, const char *what, uint32_t max)
{
    uint32_t count = hr_doc_count(r->doc, node);
    return (count >= 1 && count <= max) ||
           hr_doc_fault(r->doc, node, r->problem, "%s must have 1 to %u entries, not %u", what, max, count);
}

static bool read_when(struct reader *r, hr_doc_node node, struct hr_limit *limit)
{
    if (!hr_doc_expect(r->doc, node, HR_DOC_MAP, "when", r->problem) ||
        !is_count_in_range(r, node, "when", HR_CONDITIONS_MAX)) {
        return false;
    }
    struct hr_condition *conditions = take(r, node, hr_doc_count(r->doc, node), sizeof(*conditions));
    if (conditions == NULL) {
        return false;
    }
    limit->when = conditions;
    limit->when_count = hr_doc_count(r->doc, node);
    for (hr_doc_node key = hr_doc_first(r->doc, node); key != 0; key = hr_doc_next(r->doc, key), conditions++) {
        if (!read_attribute_name(r, key, &conditions->attribute) || !is_first(r, node, key) ||
            !read_condition(r, hr_doc_value(r->doc, key), conditions)) {
            return false;
        }
    }
    return true;
}

static bool read_key(struct reader *r, hr_doc_node node, struct hr_limit *limit)
{
    if (!hr_doc_expect(r->doc, node, HR_DOC_LIST, "key", r->problem) ||
        !is_count_in_range(r, node, "key", HR_ATTRIBUTES_MAX)) {
        return false;
    }
    struct hr_span *names = take(r, node, hr_doc_count(r->doc, node), sizeof(*names));
    if (names == NULL) {
        return false;
    }
    limit->key = names;
    limit->key_count = hr_doc_count(r->doc, node);
    for (hr_doc_node item = hr_doc_first(r->doc, node); item != 0; item = hr_doc_next(r->doc, item), names++) {
        if (!read_attribute_name(r, item, names) || !is_first(r, node, item)) {
            return false;
        }
    }
    return true;
}

/* Numbers. */

/* How an amount is written, and between which bounds, in words. */
struct amount_words {
    const char *what, *form, *range;
};

static bool fault_of_amount(struct reader *r, hr_doc_node node, enum hr_err err, const struct amount_words *words)
{
    struct hr_span text = hr_doc_text(r->doc, node);
    return hr_doc_fault(r->doc, node, r->problem, "%s must be %s, not \"%.*s\"", words->what,
                        err == HR_E_RANGE ? words->range : words->form, hr_doc_shown(text), text.at);
}

static bool read_amount(struct reader *r, hr_doc_node node, const char *what, uint64_t *ret_amount)
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    const struct amount_words words = {what, "a whole number, as 100, 10k or 2MiB", "from 1 to 2^53 - 1"};
    enum hr_err err = hr_amount_parse(text, ret_amount);
    return err == HR_OK || fault_of_amount(r, node, err, &words);
}

/* Buckets hold their burst, by default one period's worth; windows have no rate beside what they hold. */
static bool read_rate(struct reader *r, const hr_doc_node *fields, struct hr_rule *rule)
{
    static const struct amount_words words = {"rate", "N/s, N/m, N/h, N/d or \"N per 10s\"",
                                              "from 1 to 2^53 - 1 per 1ms to 366d"};
    struct hr_span text;
    struct hr_rate rate;
    if (!hr_doc_scalar(r->doc, fields[FIELD_RATE], "rate", &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_rate_parse(text, &rate);
    if (err != HR_OK) {
        return fault_of_amount(r, fields[FIELD_RATE], err, &words);
    }
    rule->period_ns = rate.period_ns;
    rule->capacity = rate.amount;
    if (parameters_of[rule->algorithm].optional != FIELD_BURST) {
        return true;
    }
    rule->rate = rate.amount;
    return fields[FIELD_BURST] == 0 || read_amount(r, fields[FIELD_BURST], "burst", &rule->capacity);
}

static bool read_time_zone(struct reader *r, hr_doc_node node, struct hr_rule *rule)
{
    struct hr_span name;
    if (!hr_doc_scalar(r->doc, node, "time_zone", &name, r->problem)) {
        return false;
    }
    rule->zone_name = name;
    enum hr_err err = hr_zone_list_find(&r->loaded->zones, name, &rule->zone);
    if (err == HR_E_NOT_FOUND) {
        return hr_doc_fault(r->doc, node, r->problem, "this machine's zoneinfo has no time zone \"%.*s\"",
                            hr_doc_shown(name), name.at);
    }
    return err == HR_OK || hr_doc_fault(r->doc, node, r->problem, "cannot read the time zone \"%.*s\": %s",
                                        hr_doc_shown(name), name.at, hr_err_text(err));
}

static bool read_quota(struct reader *r, const hr_doc_node *fields, struct hr_rule *rule)
{
    static const struct amount_words words = {"quota", "N/hour, N/day, N/week, N/month or N/year",
                                              "from 1 to 2^53 - 1 per period"};
    struct hr_span text;
    struct hr_quota_text quota;
    if (!hr_doc_scalar(r->doc, fields[FIELD_QUOTA], "quota", &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_quota_parse(text, &quota);
    if (err != HR_OK) {
        return fault_of_amount(r, fields[FIELD_QUOTA], err, &words);
    }
    rule->capacity = quota.amount;
    rule->unit = quota.unit;
    return fields[FIELD_TIME_ZONE] == 0 || read_time_zone(r, fields[FIELD_TIME_ZONE], rule);
}

static bool read_concurrency(struct reader *r, const hr_doc_node *fields, struct hr_rule *rule)
{
    static const struct amount_words words = {"ttl", "a duration, as 500ms, 60s, 5m, 1h or 1d", "from 1ms to 366d"};
    struct hr_span text;
    rule->ttl_ns = 60 * (uint64_t)HR_NS_PER_S;
    if (!read_amount(r, fields[FIELD_SLOTS], "slots", &rule->capacity)) {
        return false;
    }
    if (fields[FIELD_TTL] == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, fields[FIELD_TTL], "ttl", &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_period_parse(text, &rule->ttl_ns);
    return err == HR_OK || fault_of_amount(r, fields[FIELD_TTL], err, &words);
}

static bool has_right_parameters(struct reader *r, hr_doc_node node, const hr_doc_node *fields,
                                 enum hr_algorithm algorithm)
{
    const struct parameters *parameters = &parameters_of[algorithm];
    for (enum field field = FIELD_RATE; field <= FIELD_TTL; field++) {
        if (fields[field] != 0 && field != parameters->needed && field != parameters->optional) {
            return hr_doc_fault(r->doc, fields[field], r->problem, "%s takes no %s; it takes: %s",
                                hr_algorithm_name(algorithm), field_names[field], parameters->names);
        }
    }
    return fields[parameters->needed] != 0 ||
           hr_doc_fault(r->doc, node, r->problem, "%s needs \"%s\"", hr_algorithm_name(algorithm),
                        field_names[parameters->needed]);
}

static bool read_numbers(struct reader *r, const hr_doc_node *fields, struct hr_rule *rule)
{
    enum field needed = parameters_of[rule->algorithm].needed;
    return needed == FIELD_RATE    ? read_rate(r, fields, rule)
           : needed == FIELD_QUOTA ? read_quota(r, fields, rule)
                                   : read_concurrency(r, fields, rule);
}

static bool read_rule(struct reader *r, hr_doc_node node, const hr_doc_node *fields, struct hr_rule *rule)
{
    static const char *const names[] = {
#define X(value, name) name,
        HR_ALGORITHM_LIST(X)
#undef X
    };
    static const struct hr_doc_keys words = {"algorithm", COUNT_OF(names), names};
    uint32_t index;
    if (fields[FIELD_ALGORITHM] == 0) {
        return hr_doc_fault(r->doc, node, r->problem, "a limit needs \"algorithm\"");
    }
    if (!hr_doc_choice(r->doc, fields[FIELD_ALGORITHM], &words, &index, r->problem)) {
        return false;
    }
    rule->algorithm = (enum hr_algorithm)index;
    if (!has_right_parameters(r, node, fields, rule->algorithm) || !read_numbers(r, fields, rule)) {
        return false;
    }
    const char *fault = hr_rule_fault(rule);
    return fault == NULL ||
           hr_doc_fault(r->doc, fields[parameters_of[rule->algorithm].needed], r->problem, "%s", fault);
}

/* Limits. */

static bool read_name(struct reader *r, hr_doc_node node, const hr_doc_node *fields, struct hr_limit *limit)
{
    if (fields[FIELD_NAME] == 0) {
        return hr_doc_fault(r->doc, node, r->problem, "a limit needs \"name\"");
    }
    if (!hr_doc_scalar(r->doc, fields[FIELD_NAME], "name", &limit->name, r->problem)) {
        return false;
    }
    return hr_limit_name_is_valid(limit->name) ||
           hr_doc_fault(r->doc, fields[FIELD_NAME], r->problem,
                        "name must be 1 to 64 of a-z, 0-9 and \"-\", not \"%.*s\"", hr_doc_shown(limit->name),
                        limit->name.at);
}

/* One of a few words, in the order of its enum; the first is the default. */
static bool read_word(struct reader *r, hr_doc_node node, const struct hr_doc_keys *words, uint32_t *ret_index)
{
    *ret_index = 0;
    return node == 0 || hr_doc_choice(r->doc, node, words, ret_index, r->problem);
}

static bool read_words(struct reader *r, const hr_doc_node *fields, struct hr_limit *limit)
{
    static const char *const modes[] = {[HR_ENFORCE] = "enforce", [HR_SHADOW] = "shadow"};
    static const char *const scopes[] = {[HR_SCOPE_REGION] = "region", [HR_SCOPE_GLOBAL] = "global"};
    static const char *const durabilities[] = {
        [HR_PERIODIC] = "periodic", [HR_MEMORY] = "memory", [HR_RESERVED] = "reserved"};
    static const char *const answers[] = {
        [HR_UNAVAILABLE_LOCAL] = "local", [HR_UNAVAILABLE_ALLOW] = "allow", [HR_UNAVAILABLE_DENY] = "deny"};
    static const struct hr_doc_keys mode_words = {"mode", COUNT_OF(modes), modes};
    static const struct hr_doc_keys scope_words = {"scope", COUNT_OF(scopes), scopes};
    static const struct hr_doc_keys durability_words = {"durability", COUNT_OF(durabilities), durabilities};
    static const struct hr_doc_keys answer_words = {"on_unavailable", COUNT_OF(answers), answers};
    uint32_t mode, scope, durability, answer;
    if (!read_word(r, fields[FIELD_MODE], &mode_words, &mode) ||
        !read_word(r, fields[FIELD_SCOPE], &scope_words, &scope) ||
        !read_word(r, fields[FIELD_DURABILITY], &durability_words, &durability) ||
        !read_word(r, fields[FIELD_ON_UNAVAILABLE], &answer_words, &answer)) {
        return false;
    }
    limit->mode = (enum hr_mode)mode;
    limit->scope = (enum hr_scope)scope;
    limit->durability = (enum hr_durability)durability;
    limit->on_unavailable = (enum hr_on_unavailable)answer;
    return true;
}

/* A part of the cap; where none is given, *ret_ppm stays as it is. */
static bool read_percent(struct reader *r, hr_doc_node node, const char *what, uint32_t *ret_ppm)
{
    const struct amount_words words = {what, "a percentage with at most four decimals, as 20% or 2.5%",
                                       "from 0% to 100%"};
    struct hr_span text;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_percent_parse(text, ret_ppm);
    return err == HR_OK || fault_of_amount(r, node, err, &words);
}

/* What only a cap over all regions has. */
static bool read_global(struct reader *r, const hr_doc_node *fields, struct hr_limit *limit)
{
    hr_doc_node own = fields[FIELD_RESERVE] != 0 ? fields[FIELD_RESERVE] : fields[FIELD_SLACK];
    if (limit->scope != HR_SCOPE_GLOBAL) {
        return own == 0 || hr_doc_fault(r->doc, own, r->problem, "%s needs \"scope: global\"",
                                        own == fields[FIELD_RESERVE] ? "reserve" : "slack");
    }
    if (limit->rule.algorithm == HR_SLIDING_LOG) {
        return hr_doc_fault(r->doc, fields[FIELD_SCOPE], r->problem,
                            "a sliding_log cannot be global: each region would need every request of the others; "
                            "take sliding_window or token_bucket");
    }
    limit->reserve_ppm = HR_RESERVE_PPM_DEFAULT;
    return read_percent(r, fields[FIELD_RESERVE], "reserve", &limit->reserve_ppm) &&
           read_percent(r, fields[FIELD_SLACK], "slack", &limit->slack_ppm);
}

static bool read_limit(struct reader *r, hr_doc_node node, struct hr_limit *limit, hr_doc_node *ret_name)
{
    static const struct hr_doc_keys keys = {"a limit", FIELD_COUNT, field_names};
    hr_doc_node fields[FIELD_COUNT];
    if (!hr_doc_fields(r->doc, node, &keys, fields, r->problem)) {
        return false;
    }
    *ret_name = fields[FIELD_NAME];
    return read_name(r, node, fields, limit) && read_rule(r, node, fields, &limit->rule) &&
           (fields[FIELD_KEY] == 0 || read_key(r, fields[FIELD_KEY], limit)) &&
           (fields[FIELD_WHEN] == 0 || read_when(r, fields[FIELD_WHEN], limit)) && read_words(r, fields, limit) &&
           read_global(r, fields, limit);
}

/* The names seen so far: a hash table, at most half full. */
struct names {
    uint32_t mask;
    hr_doc_node *slots;
};

static bool is_new_name(struct reader *r, struct names *names, hr_doc_node node)
{
    struct hr_span name = hr_doc_text(r->doc, node);
    uint32_t slot = (uint32_t)hr_plain_hash(name.at, name.bytes, 0) & names->mask;
    for (; names->slots[slot] != 0; slot = (slot + 1) & names->mask) {
        if (hr_span_equal(hr_doc_text(r->doc, names->slots[slot]), name)) {
            return hr_doc_fault(r->doc, node, r->problem, "the name \"%.*s\" is already taken by the limit in line %u",
                                hr_doc_shown(name), name.at, hr_doc_line(r->doc, names->slots[slot]));
        }
    }
    names->slots[slot] = node;
    return true;
}

/* Counts the limits that every request touches: with more of them than a request may touch, none could be decided. */
static bool is_touched_within_bounds(struct reader *r, hr_doc_node node, const struct hr_limit *limit,
                                     uint32_t *everywhere)
{
    *everywhere += limit->key_count == 0 && limit->when_count == 0;
    return *everywhere <= HR_TOUCHED_MAX ||
           hr_doc_fault(r->doc, node, r->problem,
                        "every request would touch more than %d limits: this is one more without key and when",
                        HR_TOUCHED_MAX);
}

static bool read_limits(struct reader *r, hr_doc_node list, struct hr_limit *limits)
{
    uint32_t everywhere = 0;
    struct names names = {.mask = 1};
    while (names.mask < 2 * hr_doc_count(r->doc, list)) {
        names.mask = names.mask * 2 + 1;
    }
    names.slots = take(r, list, (size_t)names.mask + 1, sizeof(*names.slots));
    if (names.slots == NULL) {
        return false;
    }
    for (hr_doc_node item = hr_doc_first(r->doc, list); item != 0; item = hr_doc_next(r->doc, item)) {
        hr_doc_node name;
        if (!read_limit(r, item, limits, &name) || !is_new_name(r, &names, name) ||
            !is_touched_within_bounds(r, item, limits, &everywhere)) {
            return false;
        }
        limits++;
    }
    return true;
}

static bool read_file(struct reader *r)
{
    static const char *const names[] = {"limits"};
    static const struct hr_doc_keys keys = {"a limits file", COUNT_OF(names), names};
    hr_doc_node root = hr_doc_root(r->doc), list;
    if (!hr_doc_fields(r->doc, root, &keys, &list, r->problem)) {
        return false;
    }
    if (list == 0) {
        return hr_doc_fault(r->doc, root, r->problem, "a limits file needs \"limits\"");
    }
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "limits", r->problem)) {
        return false;
    }
    uint32_t count = hr_doc_count(r->doc, list);
    if (count > HR_LIMITS_MAX) {
        return hr_doc_fault(r->doc, list, r->problem, "a file has at most %d limits, not %u", HR_LIMITS_MAX, count);
    }
    struct hr_limit *limits = take(r, list, count, sizeof(*limits));
    if (limits == NULL) {
        return false;
    }
    r->loaded->file = (struct hr_limits_file){count, limits};
    return read_limits(r, list, limits);
}

/* Takes the doc, also on failure. */
static struct hr_limits_file *from_doc(struct hr_doc *doc, struct hr_problem *ret_problem)
{
    if (doc == NULL) {
        return NULL;
    }
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded == NULL) {
        (void)hr_doc_fault(doc, hr_doc_root(doc), ret_problem, "not enough memory for the limits");
        hr_doc_free(doc);
        return NULL;
    }
    loaded->doc = doc;
    struct reader reader = {loaded, doc, ret_problem};
    if (!read_file(&reader)) {
        hr_limits_file_free(&loaded->file);
        return NULL;
    }
    return &loaded->file;
}

struct hr_limits_file *hr_limits_file_parse(struct hr_span text, const char *path, struct hr_problem *ret_problem)
{
    return from_doc(hr_doc_parse(text, path, ret_problem), ret_problem);
}

struct hr_limits_file *hr_limits_file_load(const char *path, struct hr_problem *ret_problem)
{
    return from_doc(hr_doc_load(path, ret_problem), ret_problem);
}

void hr_limits_file_free(struct hr_limits_file *file)
{
    if (file == NULL) {
        return;
    }
    struct loaded *loaded = (struct loaded *)file;
    while (loaded->blocks != NULL) {
        struct block *block = loaded->blocks;
        loaded->blocks = block->next;
        free(block);
    }
    hr_zone_list_free(&loaded->zones);
    hr_doc_free(loaded->doc);
    free(loaded);
}
