#include "node/answer.h"

#include <stdint.h>
#include <string.h>

/* The longest row, every name and number at its largest: the bound in the header must hold it. */
_Static_assert(
    sizeof("{\"name\":\"\",\"allowed\":false,\"mode\":\"enforce\",\"limit\":,\"remaining\":,\"retry_after_ms\":,"
           "\"reset_after_ms\":,\"lease\":\"\"},") +
            HR_LIMIT_NAME_BYTES_MAX + 4 * 20 + 32 <=
        384,
    "a row may outgrow its room");

/* Each put_ function writes at `at` and returns where the next one goes on. */
#define PUT(at, literal) put_bytes((at), (literal), sizeof(literal) - 1)

static char *put_bytes(char *at, const char *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

static char *put_text(char *at, const char *text)
{
    return put_bytes(at, text, strlen(text));
}

static char *put_bool(char *at, bool value)
{
    return value ? PUT(at, "true") : PUT(at, "false");
}

static char *put_unsigned(char *at, uint64_t value)
{
    char digits[20]; /* 2^64 - 1 has twenty */
    size_t first = sizeof(digits);
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    return put_bytes(at, digits + first, sizeof(digits) - first);
}

static char *put_signed(char *at, int64_t value)
{
    if (value < 0) {
        *at++ = '-';
        return put_unsigned(at, UINT64_C(0) - (uint64_t)value);
    }
    return put_unsigned(at, (uint64_t)value);
}

static char *put_hex(char *at, uint64_t value)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[(value >> shift) & 0xf];
    }
    return at;
}

static char *put_row(char *at, const struct hr_row *row)
{
    at = PUT(at, "{\"name\":\"");
    at = put_bytes(at, row->limit->name.at, row->limit->name.bytes);
    at = PUT(at, "\",\"allowed\":");
    at = put_bool(at, row->allowed);
    at = PUT(at, ",\"mode\":\"");
    at = put_text(at, hr_mode_name(row->limit->mode));
    at = PUT(at, "\",\"limit\":");
    at = put_unsigned(at, row->limit->rule.capacity);
    at = PUT(at, ",\"remaining\":");
    at = put_unsigned(at, row->remaining);
    at = PUT(at, ",\"retry_after_ms\":");
    at = put_signed(at, row->retry_after_ms);
    at = PUT(at, ",\"reset_after_ms\":");
    at = put_signed(at, row->reset_after_ms);
    if (row->has_lease) {
        at = PUT(at, ",\"lease\":\"");
        at = put_hex(put_hex(at, row->lease.hi), row->lease.lo);
        *at++ = '"';
    }
    *at++ = '}';
    return at;
}

static char *put_decided_by(char *at, const struct hr_limit *limit)
{
    if (limit == NULL) {
        return PUT(at, "null");
    }
    *at++ = '"';
    at = put_bytes(at, limit->name.at, limit->name.bytes);
    *at++ = '"';
    return at;
}

size_t hr_answer_decision(const struct hr_decision *decision, char *ret_line)
{
    char *at = PUT(ret_line, "{\"allowed\":");
    at = put_bool(at, decision->allowed);
    at = PUT(at, ",\"action\":\"");
    at = put_text(at, hr_action_name(decision->action));
    at = PUT(at, "\",\"decided_by\":");
    at = put_decided_by(at, decision->decided_by);
    at = PUT(at, ",\"retry_after_ms\":");
    at = put_signed(at, decision->retry_after_ms);
    at = PUT(at, ",\"delay_ms\":");
    at = put_signed(at, decision->delay_ms);
    at = PUT(at, ",\"limits\":[");
    for (uint32_t i = 0; i < decision->row_count; i++) {
        if (i > 0) {
            *at++ = ',';
        }
        at = put_row(at, &decision->rows[i]);
    }
    at = PUT(at, "]}\n");
    return (size_t)(at - ret_line);
}

size_t hr_answer_released(bool released, char *ret_line)
{
    char *at = PUT(ret_line, "{\"released\":");
    at = put_bool(at, released);
    at = PUT(at, "}\n");
    return (size_t)(at - ret_line);
}

const char *hr_action_name(enum hr_action action)
{
    switch (action) {
    case HR_ALLOW:
        return "allow";
    case HR_DELAY:
        return "delay";
    case HR_DENY:
        break;
    }
    return "deny";
}

const char *hr_mode_name(enum hr_mode mode)
{
    return mode == HR_SHADOW ? "shadow" : "enforce";
}
