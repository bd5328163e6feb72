#include "region/call_wire.h"

void hr_wire_begin(struct hr_le_writer *out)
{
    hr_le_write_u8(out, HR_CALL_WIRE_VERSION);
}

static enum hr_err open_version(struct hr_span body, uint8_t version, struct hr_le_reader *ret_in)
{
    *ret_in = hr_le_reader_of(body);
    uint8_t found = hr_le_read_u8(ret_in);
    if (ret_in->failed) {
        return HR_E_TRUNCATED;
    }
    return found == version ? HR_OK : HR_E_INVALID;
}

enum hr_err hr_wire_open(struct hr_span body, struct hr_le_reader *ret_in)
{
    return open_version(body, HR_CALL_WIRE_VERSION, ret_in);
}

/* What reading one thing came to: `is_valid` says of each value that it is within its bounds. */
static enum hr_err verdict(const struct hr_le_reader *in, bool is_valid)
{
    if (in->failed) {
        return HR_E_TRUNCATED;
    }
    return is_valid ? HR_OK : HR_E_CORRUPT;
}

/* The same for a body that holds one thing: nothing may be left over. */
static enum hr_err whole_verdict(const struct hr_le_reader *in, bool is_valid)
{
    return verdict(in, is_valid && in->used == in->bytes);
}

static void put_text(struct hr_le_writer *out, struct hr_span text)
{
    hr_le_write_u32(out, (uint32_t)text.bytes);
    hr_le_write_bytes(out, text.at, text.bytes);
}

static bool get_text(struct hr_le_reader *in, uint32_t bytes_max, struct hr_span *ret_text)
{
    uint32_t bytes = hr_le_read_u32(in);
    if (bytes > bytes_max) {
        return false;
    }
    *ret_text = hr_le_read_bytes(in, bytes);
    return true;
}

static void put_key(struct hr_le_writer *out, struct hr_hold_key key)
{
    hr_le_write_u64(out, key.lead);
    hr_le_write_u64(out, key.serial);
}

static struct hr_hold_key get_key(struct hr_le_reader *in)
{
    uint64_t lead = hr_le_read_u64(in);
    return (struct hr_hold_key){lead, hr_le_read_u64(in)};
}

/* --- calls and answers --- */

void hr_wire_begin_calls(struct hr_le_writer *out, struct hr_wire_age age)
{
    hr_wire_begin(out);
    hr_le_write_i64(out, age.stamp);
    hr_le_write_i64(out, age.ago_ns);
}

static bool is_time(hr_ns ns)
{
    return ns >= 0 && ns <= HR_TIME_NS_MAX;
}

enum hr_err hr_wire_open_calls(struct hr_span body, struct hr_le_reader *ret_in, struct hr_wire_age *ret_age)
{
    enum hr_err err = hr_wire_open(body, ret_in);
    if (err != HR_OK) {
        return err;
    }
    struct hr_wire_age age = {.stamp = hr_le_read_i64(ret_in)};
    age.ago_ns = hr_le_read_i64(ret_in);
    err = verdict(ret_in, is_time(age.stamp) && is_time(age.ago_ns));
    if (err == HR_OK) {
        *ret_age = age;
    }
    return err;
}

void hr_wire_put_call(struct hr_le_writer *out, const struct hr_wire_call *call)
{
    hr_le_write_u64(out, call->id);
    hr_le_write_u64(out, call->origin);
    hr_le_write_u8(out, call->hops);
    hr_le_write_u8(out, (uint8_t)call->method);
    hr_le_write_u32(out, call->left_us);
    put_text(out, call->params);
}

enum hr_err hr_wire_get_call(struct hr_le_reader *in, struct hr_wire_call *ret_call)
{
    struct hr_wire_call call = {.id = hr_le_read_u64(in), .params = HR_SPAN("")};
    call.origin = hr_le_read_u64(in);
    call.hops = hr_le_read_u8(in);
    uint8_t method = hr_le_read_u8(in);
    call.left_us = hr_le_read_u32(in);
    call.method = (enum hr_method)method;
    bool is_valid = call.origin != 0 && call.hops >= 1 && call.hops <= HR_CALL_HOPS_MAX && method <= HR_METHOD_REFUND &&
                    method != HR_METHOD_CHECK_MANY && call.left_us <= HR_CALL_LEFT_US_MAX;
    is_valid = get_text(in, HR_CALL_PARAMS_BYTES_MAX, &call.params) && is_valid;
    enum hr_err err = verdict(in, is_valid);
    if (err == HR_OK) {
        *ret_call = call;
    }
    return err;
}

void hr_wire_put_answer(struct hr_le_writer *out, const struct hr_wire_answer *answer)
{
    hr_le_write_u64(out, answer->id);
    hr_le_write_u8(out, (uint8_t)answer->verdict);
    put_text(out, answer->bytes);
}

enum hr_err hr_wire_get_answer(struct hr_le_reader *in, struct hr_wire_answer *ret_answer)
{
    struct hr_wire_answer answer = {.id = hr_le_read_u64(in), .bytes = HR_SPAN("")};
    uint8_t kind = hr_le_read_u8(in);
    answer.verdict = (enum hr_call_verdict)kind;
    bool is_valid = get_text(in, HR_CALL_ANSWER_BYTES_MAX, &answer.bytes) && kind <= HR_VERDICT_NOT_NOW;
    enum hr_err err = verdict(in, is_valid);
    if (err == HR_OK) {
        *ret_answer = answer;
    }
    return err;
}

/* --- holds --- */

void hr_wire_put_hold(struct hr_le_writer *out, const struct hr_wire_hold *hold)
{
    hr_le_write_u8(out, HR_HOLD_WIRE_VERSION);
    put_key(out, hold->key);
    hr_le_write_u64(out, hold->priority);
    hr_le_write_u32(out, hold->left_us);
    hr_le_write_u8(out, (uint8_t)hold->verb);
    hr_le_write_u8(out, (uint8_t)hold->owner_count);
    for (uint32_t i = 0; i < hold->owner_count; i++) {
        hr_le_write_u64(out, hold->owners[i]);
    }
    hr_le_write_u8(out, (uint8_t)hold->counter_count);
    for (uint32_t i = 0; i < hold->counter_count; i++) {
        hr_le_write_id(out, hold->counters[i]);
    }
    put_text(out, hold->params);
}

static bool get_owners(struct hr_le_reader *in, struct hr_wire_hold *hold)
{
    hold->owner_count = hr_le_read_u8(in);
    if (hold->owner_count < 1 || hold->owner_count > HR_HOLD_OWNERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < hold->owner_count; i++) {
        hold->owners[i] = hr_le_read_u64(in);
    }
    return true;
}

static bool get_counters(struct hr_le_reader *in, struct hr_wire_hold *hold)
{
    hold->counter_count = hr_le_read_u8(in);
    if (hold->counter_count < 1 || hold->counter_count > HR_TOUCHED_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < hold->counter_count; i++) {
        hold->counters[i] = hr_le_read_id(in);
    }
    return true;
}

enum hr_err hr_wire_get_hold(struct hr_span body, struct hr_wire_hold *ret_hold)
{
    struct hr_le_reader in;
    enum hr_err err = open_version(body, HR_HOLD_WIRE_VERSION, &in);
    if (err != HR_OK) {
        return err;
    }
    ret_hold->key = get_key(&in);
    ret_hold->priority = hr_le_read_u64(&in);
    ret_hold->left_us = hr_le_read_u32(&in);
    uint8_t verb = hr_le_read_u8(&in);
    ret_hold->verb = (enum hr_hold_verb)verb;
    bool is_valid = verb <= HR_HOLD_REFUND && ret_hold->left_us <= HR_CALL_LEFT_US_MAX && get_owners(&in, ret_hold) &&
                    get_counters(&in, ret_hold) && get_text(&in, HR_CALL_PARAMS_BYTES_MAX, &ret_hold->params);
    return whole_verdict(&in, is_valid);
}

#define ROW_ALLOWED 1U
#define ROW_HAS_LEASE 2U
#define ROW_WANTS_SHARE 4U

static uint8_t flags_of(const struct hr_held_row *row)
{
    return (uint8_t)((row->allowed ? ROW_ALLOWED : 0) | (row->has_lease ? ROW_HAS_LEASE : 0) |
                     (row->wants_share ? ROW_WANTS_SHARE : 0));
}

static void put_row(struct hr_le_writer *out, const struct hr_held_row *row)
{
    hr_le_write_id(out, row->counter);
    hr_le_write_u8(out, flags_of(row));
    hr_le_write_u64(out, row->remaining_before);
    hr_le_write_u64(out, row->remaining_after);
    hr_le_write_i64(out, row->retry_after_ms);
    hr_le_write_i64(out, row->reset_before_ms);
    hr_le_write_i64(out, row->reset_after_ms);
    if (row->has_lease) {
        hr_le_write_id(out, row->lease);
    }
}

static bool is_wait(int64_t ms)
{
    return ms >= HR_NEVER_MS && ms <= HR_ANSWER_MAX;
}

static bool get_row(struct hr_le_reader *in, struct hr_held_row *row)
{
    row->counter = hr_le_read_id(in);
    uint8_t flags = hr_le_read_u8(in);
    row->allowed = (flags & ROW_ALLOWED) != 0;
    row->has_lease = (flags & ROW_HAS_LEASE) != 0;
    row->wants_share = (flags & ROW_WANTS_SHARE) != 0;
    row->remaining_before = hr_le_read_u64(in);
    row->remaining_after = hr_le_read_u64(in);
    row->retry_after_ms = hr_le_read_i64(in);
    row->reset_before_ms = hr_le_read_i64(in);
    row->reset_after_ms = hr_le_read_i64(in);
    row->lease = row->has_lease ? hr_le_read_id(in) : (struct hr_id128){0, 0};
    return flags <= (ROW_ALLOWED | ROW_HAS_LEASE | ROW_WANTS_SHARE) && row->remaining_before <= HR_COST_MAX &&
           row->remaining_after <= HR_COST_MAX && is_wait(row->retry_after_ms) && is_wait(row->reset_before_ms) &&
           is_wait(row->reset_after_ms);
}

void hr_wire_put_held(struct hr_le_writer *out, const struct hr_wire_held *held)
{
    hr_le_write_u8(out, HR_HOLD_WIRE_VERSION);
    put_key(out, held->key);
    hr_le_write_u8(out, (uint8_t)held->result);
    hr_le_write_u8(out, (uint8_t)held->code);
    hr_le_write_i64(out, held->delay_ms);
    hr_le_write_u8(out, (uint8_t)held->row_count);
    for (uint32_t i = 0; i < held->row_count; i++) {
        put_row(out, &held->rows[i]);
    }
}

static bool get_rows(struct hr_le_reader *in, struct hr_wire_held *held)
{
    held->row_count = hr_le_read_u8(in);
    if (held->row_count > HR_TOUCHED_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < held->row_count && !in->failed; i++) {
        if (!get_row(in, &held->rows[i])) {
            return false;
        }
    }
    return true;
}

enum hr_err hr_wire_get_held(struct hr_span body, struct hr_wire_held *ret_held)
{
    struct hr_le_reader in;
    enum hr_err err = open_version(body, HR_HOLD_WIRE_VERSION, &in);
    if (err != HR_OK) {
        return err;
    }
    ret_held->key = get_key(&in);
    uint8_t result = hr_le_read_u8(&in), code = hr_le_read_u8(&in);
    ret_held->result = (enum hr_held_result)result;
    ret_held->code = (enum hr_code)code;
    ret_held->delay_ms = hr_le_read_i64(&in);
    bool is_valid = result <= HR_HELD_NOTHING && code <= HR_CODE_INTERNAL && is_wait(ret_held->delay_ms) &&
                    ret_held->delay_ms >= 0 && get_rows(&in, ret_held);
    return whole_verdict(&in, is_valid);
}

/* --- settling --- */

static void put_word(struct hr_le_writer *out, struct hr_hold_key key, uint8_t word)
{
    hr_le_write_u8(out, HR_HOLD_WIRE_VERSION);
    put_key(out, key);
    hr_le_write_u8(out, word);
}

static enum hr_err get_word(struct hr_span body, uint8_t most, struct hr_hold_key *ret_key, uint8_t *ret_word)
{
    struct hr_le_reader in;
    enum hr_err err = open_version(body, HR_HOLD_WIRE_VERSION, &in);
    if (err != HR_OK) {
        return err;
    }
    *ret_key = get_key(&in);
    *ret_word = hr_le_read_u8(&in);
    return whole_verdict(&in, *ret_word <= most);
}

void hr_wire_put_settle(struct hr_le_writer *out, const struct hr_wire_settle *settle)
{
    put_word(out, settle->key, (uint8_t)settle->verb);
}

enum hr_err hr_wire_get_settle(struct hr_span body, struct hr_wire_settle *ret_settle)
{
    uint8_t verb = 0;
    enum hr_err err = get_word(body, HR_SETTLE_ASK, &ret_settle->key, &verb);
    ret_settle->verb = (enum hr_settle_verb)verb;
    return err;
}

void hr_wire_put_settled(struct hr_le_writer *out, const struct hr_wire_settled *settled)
{
    put_word(out, settled->key, (uint8_t)settled->outcome);
}

enum hr_err hr_wire_get_settled(struct hr_span body, struct hr_wire_settled *ret_settled)
{
    uint8_t outcome = 0;
    enum hr_err err = get_word(body, HR_SETTLED_GIVEN_BACK, &ret_settled->key, &outcome);
    ret_settled->outcome = (enum hr_settled_outcome)outcome;
    return err;
}
