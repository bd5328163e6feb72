/* The letters by which nodes decide together: golden vectors of each, every truncated prefix, values out of bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/call_wire.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BYTES_MAX HR_HOLD_BYTES_MAX

#define KEY                      \
    {                            \
        1001, 0xfedcba9876543210 \
    }
static const struct hr_hold_key key = KEY;
static const struct hr_id128 first_counter = {0xabc0000000000001, 2};
static const struct hr_span params = {"\x81\xa1"
                                      "a\x01",
                                      4};

static void put_calls(struct hr_le_writer *out)
{
    const struct hr_wire_call one = {0x1122334455667788, 1001, 1, HR_METHOD_CHECK, 15000, params};
    const struct hr_wire_call two = {7, 1002, 2, HR_METHOD_REFUND, 10000000, {"", 0}};
    hr_wire_begin_calls(out, (struct hr_wire_age){0x0102030405060708, 50000000});
    hr_wire_put_call(out, &one);
    hr_wire_put_call(out, &two);
}

static void put_answers(struct hr_le_writer *out)
{
    const struct hr_wire_answer one = {0x1122334455667788, HR_VERDICT_RESULT, {"\x80", 1}};
    const struct hr_wire_answer two = {7, HR_VERDICT_FAULT, {"UNAVAILABLE: no", 15}};
    const struct hr_wire_answer three = {8, HR_VERDICT_NOT_NOW, {"", 0}};
    hr_wire_begin(out);
    hr_wire_put_answer(out, &one);
    hr_wire_put_answer(out, &two);
    hr_wire_put_answer(out, &three);
}

static void put_hold(struct hr_le_writer *out)
{
    static const struct hr_wire_hold hold = {
        .key = KEY,
        .priority = 42,
        .left_us = 9000,
        .verb = HR_HOLD_TAKE,
        .owner_count = 2,
        .counter_count = 1,
        .owners = {1001, 1003},
        .counters = {{0xabc0000000000001, 2}},
        .params = {"\x81\xa1"
                   "a\x01",
                   4},
    };
    hr_wire_put_hold(out, &hold);
}

static void put_held(struct hr_le_writer *out)
{
    static const struct hr_wire_held held = {
        .key = KEY,
        .result = HR_HELD_NO,
        .delay_ms = 250,
        .row_count = 2,
        .rows = {{.counter = {0xabc0000000000001, 2},
                  .lease = {0xabc1111111111111, 3},
                  .allowed = true,
                  .has_lease = true,
                  .remaining_before = 10,
                  .remaining_after = 9,
                  .reset_before_ms = 5,
                  .reset_after_ms = 1000},
                 {.counter = {0xdef0000000000000, 4}, .retry_after_ms = HR_NEVER_MS, .reset_after_ms = HR_ANSWER_MAX}},
    };
    hr_wire_put_held(out, &held);
}

static void put_settle(struct hr_le_writer *out)
{
    const struct hr_wire_settle settle = {key, HR_SETTLE_ASK};
    hr_wire_put_settle(out, &settle);
}

static void put_settled(struct hr_le_writer *out)
{
    const struct hr_wire_settled settled = {key, HR_SETTLED_GIVEN_BACK};
    hr_wire_put_settled(out, &settled);
}

/* Each reads a whole body and, where it can be read, writes it again. */
static enum hr_err again_calls(struct hr_span body, struct hr_le_writer *out)
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
    return err;
}

static enum hr_err again_answers(struct hr_span body, struct hr_le_writer *out)
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
    return err;
}

static enum hr_err again_hold(struct hr_span body, struct hr_le_writer *out)
{
    static struct hr_wire_hold hold;
    enum hr_err err = hr_wire_get_hold(body, &hold);
    if (err == HR_OK) {
        hr_wire_put_hold(out, &hold);
    }
    return err;
}

static enum hr_err again_held(struct hr_span body, struct hr_le_writer *out)
{
    static struct hr_wire_held held;
    enum hr_err err = hr_wire_get_held(body, &held);
    if (err == HR_OK) {
        hr_wire_put_held(out, &held);
    }
    return err;
}

static enum hr_err again_settle(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_wire_settle settle;
    enum hr_err err = hr_wire_get_settle(body, &settle);
    if (err == HR_OK) {
        hr_wire_put_settle(out, &settle);
    }
    return err;
}

static enum hr_err again_settled(struct hr_span body, struct hr_le_writer *out)
{
    struct hr_wire_settled settled;
    enum hr_err err = hr_wire_get_settled(body, &settled);
    if (err == HR_OK) {
        hr_wire_put_settled(out, &settled);
    }
    return err;
}

static const struct {
    const char *name;
    unsigned version;
    void (*put)(struct hr_le_writer *out);
    enum hr_err (*again)(struct hr_span body, struct hr_le_writer *out);
    size_t whole_parts[3]; /* lengths before the end at which a body is whole, too */
} letters[] = {
    {"call", 2, put_calls, again_calls, {17, 47}},   {"answer", 2, put_answers, again_answers, {1, 15, 43}},
    {"hold", 1, put_hold, again_hold, {0, 0}},       {"held", 1, put_held, again_held, {0, 0}},
    {"settle", 1, put_settle, again_settle, {0, 0}}, {"settled", 1, put_settled, again_settled, {0, 0}},
};

static size_t load_golden(const char *name, unsigned version, uint8_t *ret_bytes)
{
    char path[128];
    size_t count = 0;
    char digits[3];
    (void)snprintf(path, sizeof(path), "tests/golden/region/%s.v%u.hex", name, version);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("cannot open %s", path);
        return 0;
    }
    while (count < BYTES_MAX && fgets(digits, sizeof(digits), file) != NULL && digits[0] != '\n') {
        ret_bytes[count++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    (void)fclose(file);
    return count;
}

static void every_letter_is_the_golden_one(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX], bytes[BYTES_MAX];
    for (size_t i = 0; i < COUNT(letters); i++) {
        size_t count = load_golden(letters[i].name, letters[i].version, golden);
        struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
        letters[i].put(&out);
        if (out.failed || out.used != count || memcmp(bytes, golden, count) != 0) {
            fail_msg("%s", letters[i].name);
        }
    }
}

static void what_is_read_is_what_was_written(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX], bytes[BYTES_MAX];
    for (size_t i = 0; i < COUNT(letters); i++) {
        size_t count = load_golden(letters[i].name, letters[i].version, golden);
        struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
        enum hr_err err = letters[i].again((struct hr_span){(const char *)golden, count}, &out);
        if (err != HR_OK || out.used != count || memcmp(bytes, golden, count) != 0) {
            fail_msg("%s: %s", letters[i].name, hr_err_text(err));
        }
    }
}

/* Each prefix lies in a block of its own size, so that a sanitizer sees the first byte read past its end. */
static void a_letter_cut_short_is_refused(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX], bytes[BYTES_MAX];
    for (size_t i = 0; i < COUNT(letters); i++) {
        size_t count = load_golden(letters[i].name, letters[i].version, golden);
        for (size_t cut = 0; cut < count; cut++) {
            char *part = malloc(cut + 1);
            assert_non_null(part);
            memcpy(part + 1, golden, cut);
            struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
            enum hr_err err = letters[i].again((struct hr_span){part + 1, cut}, &out);
            bool is_whole = cut > 0 && (cut == letters[i].whole_parts[0] || cut == letters[i].whole_parts[1] ||
                                        cut == letters[i].whole_parts[2]);
            if (err != (is_whole ? HR_OK : HR_E_TRUNCATED)) {
                fail_msg("%s, %zu bytes: %s", letters[i].name, cut, hr_err_text(err));
            }
            free(part);
        }
    }
}

static void a_letter_with_more_behind_it_is_refused(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX + 1], bytes[BYTES_MAX];
    for (size_t i = 0; i < COUNT(letters); i++) {
        size_t count = load_golden(letters[i].name, letters[i].version, golden);
        golden[count] = 0;
        struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
        enum hr_err err = letters[i].again((struct hr_span){(const char *)golden, count + 1}, &out);
        if (err == HR_OK) {
            fail_msg("%s", letters[i].name);
        }
    }
}

static void another_version_is_refused(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX], bytes[BYTES_MAX];
    for (size_t i = 0; i < COUNT(letters); i++) {
        size_t count = load_golden(letters[i].name, letters[i].version, golden);
        golden[0]++;
        struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
        if (letters[i].again((struct hr_span){(const char *)golden, count}, &out) != HR_E_INVALID) {
            fail_msg("%s", letters[i].name);
        }
    }
}

static void a_value_out_of_bounds_is_refused(void **state)
{
    (void)state;
    static uint8_t golden[BYTES_MAX], bytes[BYTES_MAX];
    static const struct {
        size_t letter, at;
        uint8_t value;
    } rows[] = {
        {0, 8, 0x80},  /* a stamp before all time */
        {0, 16, 0x80}, /* that is yet to be */
        {0, 33, 0},    /* a call that was never sent */
        {0, 33, 3},    /* or too often */
        {0, 34, 1},    /* a check_many goes in parts */
        {0, 34, 6},    /* a method of the node itself */
        {0, 38, 0xff}, /* a deadline of an hour */
        {0, 42, 0xff}, /* params of 4 GiB */
        {1, 9, 3},     /* no verdict */
        {1, 13, 0xff}, /* an answer of 4 GiB */
        {2, 28, 0xff}, /* a deadline of an hour */
        {2, 29, 3},    /* no verb */
        {2, 30, 0},    /* no owner */
        {2, 30, 33},   /* too many */
        {2, 47, 0},    /* no counter */
        {2, 47, 129},  /* too many */
        {2, 67, 0xff}, /* params of 4 GiB */
        {3, 17, 8},    /* no result */
        {3, 18, 9},    /* no code */
        {3, 26, 0x80}, /* a delay below 0 */
        {3, 27, 129},  /* too many rows */
        {3, 44, 4},    /* no flag */
        {3, 52, 0xff}, /* more left than any limit has */
        {4, 17, 3},    /* no verb */
        {5, 17, 4},    /* no outcome */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t count = load_golden(letters[rows[i].letter].name, letters[rows[i].letter].version, golden);
        golden[rows[i].at] = rows[i].value;
        struct hr_le_writer out = hr_le_writer_of(bytes, sizeof(bytes));
        enum hr_err err = letters[rows[i].letter].again((struct hr_span){(const char *)golden, count}, &out);
        if (err != HR_E_CORRUPT) {
            fail_msg("row %zu (%s): %s", i, letters[rows[i].letter].name, hr_err_text(err));
        }
    }
}

static void the_largest_letters_have_room(void **state)
{
    (void)state;
    static struct hr_wire_hold hold;
    static struct hr_wire_held held;
    static char text[HR_CALL_PARAMS_BYTES_MAX];
    static uint8_t bytes[HR_HOLD_BYTES_MAX];
    hold.owner_count = HR_HOLD_OWNERS_MAX;
    hold.counter_count = HR_TOUCHED_MAX;
    hold.params = (struct hr_span){text, sizeof(text)};
    struct hr_le_writer out = hr_le_writer_of(bytes, HR_HOLD_BYTES_MAX);
    hr_wire_put_hold(&out, &hold);
    assert_false(out.failed);
    held.row_count = HR_TOUCHED_MAX;
    for (uint32_t i = 0; i < HR_TOUCHED_MAX; i++) {
        held.rows[i].counter = first_counter;
        held.rows[i].has_lease = true;
    }
    out = hr_le_writer_of(bytes, HR_HELD_BYTES_MAX);
    hr_wire_put_held(&out, &held);
    assert_false(out.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_letter_is_the_golden_one), cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(a_letter_cut_short_is_refused),  cmocka_unit_test(a_letter_with_more_behind_it_is_refused),
        cmocka_unit_test(another_version_is_refused),     cmocka_unit_test(a_value_out_of_bounds_is_refused),
        cmocka_unit_test(the_largest_letters_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
