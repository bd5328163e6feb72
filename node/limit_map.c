#include "node/limit_map.h"

#include <string.h>

#include "base/utf8.h"
#include "rpc/frame.h"
#include "rpc/unpack.h"

/* --- a limit as a map --- */

/* A number and a word, as in "50/s" or "10 per 3s". */
struct text {
    char at[64];
    size_t bytes;
};

static void add(struct text *text, const char *words)
{
    size_t bytes = strlen(words);
    memcpy(text->at + text->bytes, words, bytes);
    text->bytes += bytes;
}

static void add_number(struct text *text, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        text->at[text->bytes++] = digits[--count];
    }
}

/* The largest unit that the period is a whole number of: periods are whole milliseconds, as the reader sees to. */
static void add_period(struct text *text, uint64_t period_ns)
{
    static const struct {
        uint64_t ns;
        const char *name;
    } units[] = {{86400 * UINT64_C(1000000000), "d"},
                 {3600 * UINT64_C(1000000000), "h"},
                 {60 * UINT64_C(1000000000), "m"},
                 {UINT64_C(1000000000), "s"},
                 {UINT64_C(1000000), "ms"}};
    size_t unit = 0;
    while (unit < 4 && period_ns % units[unit].ns != 0) {
        unit++;
    }
    add_number(text, period_ns / units[unit].ns);
    add(text, units[unit].name);
}

static void pack_text_of(struct hr_packer *packer, const struct text *text)
{
    hr_pack_text(packer, (struct hr_span){text->at, text->bytes});
}

static void pack_words(struct hr_packer *packer, const char *words)
{
    hr_pack_text(packer, hr_span_of(words));
}

static void pack_rate(struct hr_packer *packer, uint64_t amount, uint64_t period_ns)
{
    struct text text = {.bytes = 0};
    const char *unit = period_ns == 1000000000      ? "/s"
                       : period_ns == 60000000000   ? "/m"
                       : period_ns == 3600000000000 ? "/h"
                                                    : NULL;
    add_number(&text, amount);
    add(&text, unit != NULL ? unit : " per ");
    if (unit == NULL) {
        add_period(&text, period_ns);
    }
    pack_words(packer, "rate");
    pack_text_of(packer, &text);
}

static void pack_quota(struct hr_packer *packer, const struct hr_rule *rule)
{
    static const char *const units[] = {"/hour", "/day", "/week", "/month", "/year"};
    struct text text = {.bytes = 0};
    add_number(&text, rule->capacity);
    add(&text, units[rule->unit]);
    pack_words(packer, "quota");
    pack_text_of(packer, &text);
    if (rule->zone != NULL) {
        pack_words(packer, "time_zone");
        hr_pack_text(packer, rule->zone_name);
    }
}

static void pack_slots(struct hr_packer *packer, const struct hr_rule *rule)
{
    struct text text = {.bytes = 0};
    pack_words(packer, "slots");
    hr_pack_whole(packer, rule->capacity);
    add_period(&text, rule->ttl_ns);
    pack_words(packer, "ttl");
    pack_text_of(packer, &text);
}

static void pack_rule(struct hr_packer *packer, const struct hr_rule *rule)
{
    switch (rule->algorithm) {
    case HR_TOKEN_BUCKET:
    case HR_GCRA:
    case HR_LEAKY_BUCKET:
        pack_rate(packer, rule->rate, rule->period_ns);
        pack_words(packer, "burst");
        hr_pack_whole(packer, rule->capacity);
        return;
    case HR_FIXED_WINDOW:
    case HR_SLIDING_WINDOW:
    case HR_SLIDING_LOG:
        pack_rate(packer, rule->capacity, rule->period_ns);
        return;
    case HR_QUOTA:
        pack_quota(packer, rule);
        return;
    case HR_CONCURRENCY:
        pack_slots(packer, rule);
        return;
    }
}

static uint32_t rule_pairs(const struct hr_rule *rule)
{
    bool is_window =
        rule->algorithm == HR_FIXED_WINDOW || rule->algorithm == HR_SLIDING_WINDOW || rule->algorithm == HR_SLIDING_LOG;
    return is_window || (rule->algorithm == HR_QUOTA && rule->zone == NULL) ? 1 : 2;
}

/* {not: X} around what comes next. */
static void pack_not(struct hr_packer *packer, bool negated)
{
    if (negated) {
        hr_pack_map(packer, 1);
        pack_words(packer, "not");
    }
}

static void pack_pattern(struct hr_packer *packer, const struct hr_pattern *pattern)
{
    pack_not(packer, pattern->negated);
    if (pattern->kind == HR_MATCH_CIDR) {
        hr_pack_map(packer, 1);
        pack_words(packer, "cidr");
    }
    hr_pack_text(packer, pattern->text);
}

static void pack_when(struct hr_packer *packer, const struct hr_limit *limit)
{
    pack_words(packer, "when");
    hr_pack_map(packer, limit->when_count);
    for (uint32_t i = 0; i < limit->when_count; i++) {
        const struct hr_condition *condition = &limit->when[i];
        hr_pack_text(packer, condition->attribute);
        pack_not(packer, condition->negated);
        if (condition->pattern_count != 1) {
            hr_pack_array(packer, condition->pattern_count);
        }
        for (uint32_t k = 0; k < condition->pattern_count; k++) {
            pack_pattern(packer, &condition->patterns[k]);
        }
    }
}

static void pack_key(struct hr_packer *packer, const struct hr_limit *limit)
{
    pack_words(packer, "key");
    hr_pack_array(packer, limit->key_count);
    for (uint32_t i = 0; i < limit->key_count; i++) {
        hr_pack_text(packer, limit->key[i]);
    }
}

/* "20%", "2.5%": as few decimals as say it exactly. */
static void pack_percent(struct hr_packer *packer, const char *key, uint32_t ppm)
{
    struct text text = {.bytes = 0};
    uint32_t decimals = ppm % 10000;
    add_number(&text, ppm / 10000);
    add(&text, decimals > 0 ? "." : "");
    for (; decimals > 0; decimals = decimals % 1000 * 10) {
        add_number(&text, decimals / 1000);
    }
    add(&text, "%");
    pack_words(packer, key);
    pack_text_of(packer, &text);
}

static bool has_own_reserve(const struct hr_limit *limit)
{
    return limit->scope == HR_SCOPE_GLOBAL && limit->reserve_ppm != HR_RESERVE_PPM_DEFAULT;
}

static void pack_global(struct hr_packer *packer, const struct hr_limit *limit)
{
    if (has_own_reserve(limit)) {
        pack_percent(packer, "reserve", limit->reserve_ppm);
    }
    if (limit->slack_ppm > 0) {
        pack_percent(packer, "slack", limit->slack_ppm);
    }
}

void hr_pack_limit(struct hr_packer *packer, const struct hr_limit *limit)
{
    static const char *const scopes[] = {"region", "global"}, *const modes[] = {"enforce", "shadow"},
                             *const durabilities[] = {"periodic", "memory", "reserved"},
                             *const unavailables[] = {"local", "allow", "deny"};
    const struct {
        const char *key, *value;
        bool is_default;
    } words[] = {
        {"scope", scopes[limit->scope], limit->scope == HR_SCOPE_REGION},
        {"mode", modes[limit->mode], limit->mode == HR_ENFORCE},
        {"durability", durabilities[limit->durability], limit->durability == HR_PERIODIC},
        {"on_unavailable", unavailables[limit->on_unavailable], limit->on_unavailable == HR_UNAVAILABLE_LOCAL},
    };
    uint32_t pairs = 2 + rule_pairs(&limit->rule) + (limit->key_count > 0) + (limit->when_count > 0) +
                     has_own_reserve(limit) + (limit->slack_ppm > 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        pairs += !words[i].is_default;
    }
    hr_pack_map(packer, pairs);
    pack_words(packer, "name");
    hr_pack_text(packer, limit->name);
    if (limit->key_count > 0) {
        pack_key(packer, limit);
    }
    if (limit->when_count > 0) {
        pack_when(packer, limit);
    }
    pack_words(packer, "algorithm");
    pack_words(packer, hr_algorithm_name(limit->rule.algorithm));
    pack_rule(packer, &limit->rule);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!words[i].is_default) {
            pack_words(packer, words[i].key);
            pack_words(packer, words[i].value);
        }
    }
    pack_global(packer, limit);
}

/* --- a value as JSON --- */

static void write_words(struct hr_packer *text, const char *words)
{
    hr_pack_raw(text, words, strlen(words));
}

static void write_escaped(struct hr_packer *text, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    if (byte == '"' || byte == '\\') {
        escape[1] = (char)byte;
        hr_pack_raw(text, escape, 2);
    } else {
        hr_pack_raw(text, escape, sizeof(escape));
    }
}

static enum hr_err write_string(struct hr_packer *text, struct hr_span string)
{
    if (!hr_utf8_is_valid(string)) {
        return HR_E_INVALID;
    }
    hr_pack_raw(text, "\"", 1);
    for (size_t i = 0; i < string.bytes; i++) {
        unsigned char byte = (unsigned char)string.at[i];
        bool is_next_line = byte == 0xc2 && i + 1 < string.bytes && (unsigned char)string.at[i + 1] == 0x85;
        if (is_next_line) { /* U+0085 ends a line for a reader of YAML */
            hr_pack_raw(text, "\\u0085", 6);
            i++;
        } else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
            write_escaped(text, byte);
        } else {
            hr_pack_raw(text, &string.at[i], 1);
        }
    }
    hr_pack_raw(text, "\"", 1);
    return HR_OK;
}

static enum hr_err write_number(struct hr_unpacker *in, struct hr_packer *text)
{
    int64_t number;
    enum hr_err err = hr_unpack_signed(in, &number);
    if (err == HR_OK) {
        struct text digits = {.bytes = 0};
        if (number < 0) {
            add(&digits, "-");
        }
        add_number(&digits, number < 0 ? UINT64_C(0) - (uint64_t)number : (uint64_t)number);
        hr_pack_raw(text, digits.at, digits.bytes);
    }
    return err;
}

static enum hr_err write_value(struct hr_unpacker *in, struct hr_packer *text, unsigned depth);

static enum hr_err write_items(struct hr_unpacker *in, struct hr_packer *text, uint32_t count, bool is_map,
                               unsigned depth)
{
    enum hr_err err = HR_OK;
    write_words(text, is_map ? "{" : "[");
    for (uint32_t i = 0; i < count && err == HR_OK; i++) {
        struct hr_span key;
        write_words(text, i == 0 ? "" : ",");
        if (is_map) {
            err = hr_unpack_text(in, &key);
            err = err == HR_OK ? write_string(text, key) : err;
            write_words(text, ":");
        }
        err = err == HR_OK ? write_value(in, text, depth + 1) : err;
    }
    write_words(text, is_map ? "}" : "]");
    return err;
}

static enum hr_err write_value(struct hr_unpacker *in, struct hr_packer *text, unsigned depth)
{
    enum hr_kind kind;
    uint32_t count;
    struct hr_span string;
    bool flag;
    enum hr_err err = depth > HR_NESTING_MAX ? HR_E_TOO_MANY : hr_unpack_peek(in, &kind);
    if (err != HR_OK) {
        return err;
    }
    switch (kind) {
    case HR_KIND_NIL:
        write_words(text, "null");
        return hr_unpack_nil(in);
    case HR_KIND_BOOL:
        err = hr_unpack_bool(in, &flag);
        write_words(text, err == HR_OK && flag ? "true" : "false");
        return err;
    case HR_KIND_WHOLE:
    case HR_KIND_NEGATIVE:
        return write_number(in, text);
    case HR_KIND_TEXT:
        err = hr_unpack_text(in, &string);
        return err == HR_OK ? write_string(text, string) : err;
    case HR_KIND_ARRAY:
        err = hr_unpack_array(in, &count);
        return err == HR_OK ? write_items(in, text, count, false, depth) : err;
    case HR_KIND_MAP:
        err = hr_unpack_map(in, &count);
        return err == HR_OK ? write_items(in, text, count, true, depth) : err;
    case HR_KIND_REAL:
    case HR_KIND_EXT:
        return HR_E_INVALID;
    }
    return HR_E_INVALID;
}

enum hr_err hr_value_to_json(struct hr_span value, struct hr_packer *text)
{
    struct hr_unpacker in = {.left = value};
    enum hr_err err = write_value(&in, text, 1);
    return err == HR_OK && in.left.bytes > 0 ? HR_E_CORRUPT : err;
}
