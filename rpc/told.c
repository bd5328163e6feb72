#include "rpc/told.h"

#include "rpc/hex.h"
#include "rpc/message.h"
#include "rpc/pairs.h"

#define TEXT(literal)                  \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

/* value of the enum, key. All before ROW_LEASE, and all before LIMITS, must be there. Each enum has one value more, for
 * a key that is not known. */
#define ROW_KEY_LIST(X)                  \
    X(ROW_NAME, "name")                  \
    X(ROW_ALLOWED, "allowed")            \
    X(ROW_MODE, "mode")                  \
    X(ROW_LIMIT, "limit")                \
    X(ROW_REMAINING, "remaining")        \
    X(ROW_RETRY_AFTER, "retry_after_ms") \
    X(ROW_RESET_AFTER, "reset_after_ms") \
    X(ROW_LEASE, "lease")                \
    X(ROW_SHARE, "share")

#define KEY_LIST(X)                  \
    X(ALLOWED, "allowed")            \
    X(ACTION, "action")              \
    X(DECIDED_BY, "decided_by")      \
    X(RETRY_AFTER, "retry_after_ms") \
    X(DELAY, "delay_ms")             \
    X(NODE, "node")                  \
    X(REGION, "region")              \
    X(LIMITS, "limits")              \
    X(DEGRADED, "degraded")

#define X(value, key) value,
enum { ROW_KEY_LIST(X) ROW_UNKNOWN };
enum { KEY_LIST(X) UNKNOWN };
#undef X

#define ROW_REQUIRED ((1U << ROW_LEASE) - 1)
#define REQUIRED ((1U << LIMITS) - 1)

#define X(value, key) [value] = TEXT(key),
static const struct hr_span row_keys[] = {ROW_KEY_LIST(X)};
static const struct hr_span keys[] = {KEY_LIST(X)};
#undef X

/* Where text is one of names, its index; else count. */
static unsigned find_name(struct hr_span text, const struct hr_span *names, unsigned count)
{
    unsigned i = 0;
    while (i < count && !hr_span_equal(names[i], text)) {
        i++;
    }
    return i;
}

/* A text that is one of names. */
static enum hr_err read_name(struct hr_unpacker *in, const struct hr_span *names, unsigned count, unsigned *ret_index)
{
    struct hr_span text;
    enum hr_err err = hr_unpack_text(in, &text);
    if (err != HR_OK) {
        return err;
    }
    unsigned index = find_name(text, names, count);
    if (index == count) {
        return HR_E_INVALID;
    }
    *ret_index = index;
    return HR_OK;
}

static enum hr_err read_mode(struct hr_unpacker *in, enum hr_mode *ret_mode)
{
    static const struct hr_span names[] = {[HR_ENFORCE] = TEXT("enforce"), [HR_SHADOW] = TEXT("shadow")};
    unsigned index = HR_ENFORCE;
    enum hr_err err = read_name(in, names, sizeof(names) / sizeof(names[0]), &index);
    *ret_mode = (enum hr_mode)index;
    return err;
}

static enum hr_err read_action(struct hr_unpacker *in, enum hr_action *ret_action)
{
    static const struct hr_span names[] = {
        [HR_ALLOW] = TEXT("allow"), [HR_DELAY] = TEXT("delay"), [HR_DENY] = TEXT("deny")};
    unsigned index = HR_DENY;
    enum hr_err err = read_name(in, names, sizeof(names) / sizeof(names[0]), &index);
    *ret_action = (enum hr_action)index;
    return err;
}

static enum hr_err read_lease(struct hr_unpacker *in, struct hr_told_row *row)
{
    struct hr_span digits;
    enum hr_err err = hr_unpack_text(in, &digits);
    if (err != HR_OK) {
        return err;
    }
    row->has_lease = hr_hex_read(digits, &row->lease);
    return row->has_lease ? HR_OK : HR_E_INVALID;
}

static enum hr_err read_row_value(struct hr_unpacker *in, unsigned key, struct hr_told_row *row)
{
    struct hr_span unknown;
    switch (key) {
    case ROW_NAME:
        return hr_unpack_text(in, &row->name);
    case ROW_ALLOWED:
        return hr_unpack_bool(in, &row->allowed);
    case ROW_MODE:
        return read_mode(in, &row->mode);
    case ROW_LIMIT:
        return hr_unpack_whole(in, &row->limit);
    case ROW_REMAINING:
        return hr_unpack_whole(in, &row->remaining);
    case ROW_RETRY_AFTER:
        return hr_unpack_signed(in, &row->retry_after_ms);
    case ROW_RESET_AFTER:
        return hr_unpack_signed(in, &row->reset_after_ms);
    case ROW_LEASE:
        return read_lease(in, row);
    case ROW_SHARE:
        return hr_unpack_bool(in, &row->wants_share);
    default:
        return hr_unpack_skip(in, &unknown);
    }
}

static enum hr_err read_row(struct hr_unpacker *in, struct hr_told_row *row)
{
    uint32_t count = 0;
    unsigned seen = 0;
    enum hr_err err = hr_unpack_map(in, &count);
    row->has_lease = row->wants_share = false;
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span text;
        err = hr_unpack_text(in, &text);
        if (err == HR_OK) {
            unsigned key = find_name(text, row_keys, ROW_UNKNOWN);
            seen |= 1U << key;
            err = read_row_value(in, key, row);
        }
    }
    return err == HR_OK && (seen & ROW_REQUIRED) != ROW_REQUIRED ? HR_E_INVALID : err;
}

static enum hr_err read_rows(struct hr_unpacker *in, struct hr_told_decision *decision)
{
    uint32_t count = 0;
    enum hr_err err = hr_unpack_array(in, &count);
    if (err == HR_OK && count > HR_TOUCHED_MAX) {
        err = HR_E_TOO_MANY;
    }
    decision->row_count = count;
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        err = read_row(in, &decision->rows[i]);
    }
    return err;
}

static enum hr_err read_decided_by(struct hr_unpacker *in, struct hr_span *ret_name)
{
    *ret_name = HR_SPAN("");
    return hr_unpack_nil(in) == HR_OK ? HR_OK : hr_unpack_text(in, ret_name);
}

static enum hr_err read_value(struct hr_unpacker *in, unsigned key, struct hr_told_decision *decision)
{
    struct hr_span unknown;
    switch (key) {
    case ALLOWED:
        return hr_unpack_bool(in, &decision->allowed);
    case ACTION:
        return read_action(in, &decision->action);
    case DECIDED_BY:
        return read_decided_by(in, &decision->decided_by);
    case RETRY_AFTER:
        return hr_unpack_signed(in, &decision->retry_after_ms);
    case DELAY:
        return hr_unpack_signed(in, &decision->delay_ms);
    case NODE:
        return hr_unpack_text(in, &decision->node);
    case REGION:
        return hr_unpack_text(in, &decision->region);
    case LIMITS:
        return read_rows(in, decision);
    case DEGRADED:
        return hr_unpack_bool(in, &decision->degraded);
    default:
        return hr_unpack_skip(in, &unknown);
    }
}

enum hr_err hr_unpack_decision(struct hr_unpacker *unpacker, struct hr_told_decision *ret_decision)
{
    uint32_t count = 0;
    unsigned seen = 0;
    enum hr_err err = hr_unpack_map(unpacker, &count);
    ret_decision->row_count = 0;
    ret_decision->degraded = false;
    for (uint32_t i = 0; err == HR_OK && i < count; i++) {
        struct hr_span text;
        err = hr_unpack_text(unpacker, &text);
        if (err == HR_OK) {
            unsigned key = find_name(text, keys, UNKNOWN);
            seen |= 1U << key;
            err = read_value(unpacker, key, ret_decision);
        }
    }
    return err == HR_OK && (seen & REQUIRED) != REQUIRED ? HR_E_INVALID : err;
}

/* The first value under this key. */
static enum hr_err find_value(struct hr_span map, struct hr_span key, struct hr_unpacker *ret_value)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    enum hr_err err = hr_pairs_begin(&pairs, map);
    while (err == HR_OK) {
        err = hr_pairs_next(&pairs, &pair);
        if (err == HR_OK && hr_span_equal(pair.key, key)) {
            ret_value->left = pair.value;
            return HR_OK;
        }
    }
    return err;
}

enum hr_err hr_unpack_outcome(struct hr_unpacker *unpacker, struct hr_told_decision *ret_decision,
                              struct hr_fault *ret_fault, bool *ret_is_fault)
{
    struct hr_unpacker after = *unpacker, value;
    struct hr_span outcome;
    enum hr_err err = hr_unpack_skip(&after, &outcome);
    if (err != HR_OK) {
        return err;
    }
    *ret_is_fault = find_value(outcome, HR_SPAN("error"), &value) == HR_OK && hr_unpack_error(value.left, ret_fault);
    if (!*ret_is_fault) {
        return hr_unpack_decision(unpacker, ret_decision);
    }
    *unpacker = after;
    return HR_OK;
}

enum hr_err hr_unpack_flag(struct hr_span map, struct hr_span key, bool *ret_flag)
{
    struct hr_unpacker value;
    enum hr_err err = find_value(map, key, &value);
    return err == HR_OK ? hr_unpack_bool(&value, ret_flag) : err;
}

enum hr_err hr_unpack_number(struct hr_span map, struct hr_span key, int64_t *ret_number)
{
    struct hr_unpacker value;
    enum hr_err err = find_value(map, key, &value);
    return err == HR_OK ? hr_unpack_signed(&value, ret_number) : err;
}

enum hr_err hr_unpack_word(struct hr_span map, struct hr_span key, struct hr_span *ret_text)
{
    struct hr_unpacker value;
    enum hr_err err = find_value(map, key, &value);
    return err == HR_OK ? hr_unpack_text(&value, ret_text) : err;
}
