/* Feeds arbitrary bytes to the decoders of the letters by which nodes decide together. What one accepts must encode to
 * the same bytes again. The input: which letter, and its body. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "region/call_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define OUT_BYTES (1U << 20)

static void require_same(const struct hr_le_writer *out, struct hr_span body)
{
    if (out->failed || out->used != body.bytes || memcmp(out->at, body.at, body.bytes) != 0) {
        abort();
    }
}

static bool again_calls(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_le_reader in;
    struct hr_wire_call call;
    struct hr_wire_age age = {0, 0};
    enum hr_err err = hr_wire_open_calls(body, &in, &age);
    hr_wire_begin_calls(out, age);
    while (err == HR_OK && !hr_le_is_at_end(&in)) {
        err = hr_wire_get_call(&in, &call);
        if (err == HR_OK) {
            hr_wire_put_call(out, &call);
        }
    }
    return err == HR_OK;
}

static bool again_answers(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_le_reader in;
    struct hr_wire_answer answer;
    enum hr_err err = hr_wire_open(body, &in);
    hr_wire_begin(out);
    while (err == HR_OK && !hr_le_is_at_end(&in)) {
        err = hr_wire_get_answer(&in, &answer);
        if (err == HR_OK) {
            hr_wire_put_answer(out, &answer);
        }
    }
    return err == HR_OK;
}

static bool again_hold(struct hr_span body, struct hr_le_writer *out)
{
    static struct hr_wire_hold hold;
    bool is_read = hr_wire_get_hold(body, &hold) == HR_OK;
    if (is_read) {
        hr_wire_put_hold(out, &hold);
    }
    return is_read;
}

static bool again_held(struct hr_span body, struct hr_le_writer *out)
{
    static struct hr_wire_held held;
    bool is_read = hr_wire_get_held(body, &held) == HR_OK;
    if (is_read) {
        hr_wire_put_held(out, &held);
    }
    return is_read;
}

static bool again_settle(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_wire_settle settle;
    bool is_read = hr_wire_get_settle(body, &settle) == HR_OK;
    if (is_read) {
        hr_wire_put_settle(out, &settle);
    }
    return is_read;
}

static bool again_settled(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_wire_settled settled;
    bool is_read = hr_wire_get_settled(body, &settled) == HR_OK;
    if (is_read) {
        hr_wire_put_settled(out, &settled);
    }
    return is_read;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static bool (*const again[])(struct hr_span body, struct hr_le_writer * out) = {
        again_calls, again_answers, again_hold, again_held, again_settle, again_settled,
    };
    static uint8_t written[OUT_BYTES];
    if (bytes < 1 || bytes > OUT_BYTES) {
        return 0;
    }
    struct hr_le_writer out = hr_le_writer_of(written, sizeof(written));
    const struct hr_span body = {(const char *)data + 1, bytes - 1};
    if (again[data[0] % (sizeof(again) / sizeof(again[0]))](body, &out)) {
        require_same(&out, body);
    }
    return 0;
}
