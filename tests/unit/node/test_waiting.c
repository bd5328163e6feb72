/* Requests that wait: what is kept comes back as it was, in order, within the room that there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/waiting.h"

#define COUNT_MAX 8
#define BYTES_MAX 16384
#define TEXT_BYTES_MAX 4000

struct rig {
    struct hr_waiting waiting;
    void *memory;
};

static void open_rig(struct rig *rig)
{
    struct hr_bump bump = {0};
    hr_waiting_init(&rig->waiting, COUNT_MAX, BYTES_MAX, &bump);
    rig->memory = calloc(1, bump.taken);
    assert_non_null(rig->memory);
    bump = (struct hr_bump){.at = rig->memory};
    hr_waiting_init(&rig->waiting, COUNT_MAX, BYTES_MAX, &bump);
}

static void close_rig(struct rig *rig)
{
    free(rig->memory);
}

/* Bytes that tell whose they are. */
static struct hr_span text_of(uint64_t msgid, size_t bytes, char *out)
{
    for (size_t i = 0; i < bytes; i++) {
        out[i] = (char)(msgid * 31 + i);
    }
    return (struct hr_span){out, bytes};
}

static void assert_text(const struct hr_waiting *waiting, struct hr_text text, struct hr_span expected)
{
    char found[TEXT_BYTES_MAX];
    assert_int_equal(text.bytes, expected.bytes);
    hr_waiting_copy(waiting, text, found);
    assert_memory_equal(found, expected.at, expected.bytes);
}

static bool add(struct rig *rig, uint64_t msgid, size_t params_bytes, size_t answer_bytes, hr_ns now)
{
    char params[TEXT_BYTES_MAX], answer[TEXT_BYTES_MAX];
    struct hr_call call = {.msgid = msgid, .params = text_of(msgid, params_bytes, params)};
    struct hr_progress progress = {.done = (uint32_t)msgid};
    return hr_waiting_add(&rig->waiting, &call, text_of(msgid + 1, answer_bytes, answer), &progress, now);
}

static void those_who_wait_become_ready_in_their_order(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    for (uint64_t i = 0; i < COUNT_MAX; i++) {
        assert_true(add(&rig, i, 100, 0, (hr_ns)i));
    }
    assert_false(add(&rig, COUNT_MAX, 1, 0, 0)); /* no more may wait */
    assert_int_equal(hr_waiting_next_ready(&rig.waiting), 0);
    hr_waiting_wake_older(&rig.waiting, 3);
    for (uint64_t i = 0; i < COUNT_MAX; i++) {
        if (i == 3) {
            assert_int_equal(hr_waiting_next_ready(&rig.waiting), 0);
            hr_waiting_wake(&rig.waiting);
        }
        uint32_t index = hr_waiting_next_ready(&rig.waiting);
        assert_int_not_equal(index, 0);
        assert_int_equal(rig.waiting.requests[index].call.msgid, i);
        hr_waiting_drop(&rig.waiting, index);
    }
    assert_int_equal(hr_waiting_next_ready(&rig.waiting), 0);
    close_rig(&rig);
}

static void one_that_is_put_back_keeps_its_params_and_its_longer_answer(void **state)
{
    (void)state;
    struct rig rig;
    char params[TEXT_BYTES_MAX], answer[TEXT_BYTES_MAX];
    struct hr_progress progress = {.done = 77, .has_claim = true};
    open_rig(&rig);
    for (size_t bytes = 0; bytes < TEXT_BYTES_MAX; bytes += 251) {
        assert_true(add(&rig, 5, bytes, 10, 0));
        hr_waiting_wake(&rig.waiting);
        uint32_t index = hr_waiting_next_ready(&rig.waiting);
        assert_true(hr_waiting_put_back(&rig.waiting, index, text_of(9, bytes, answer), &progress));
        assert_int_equal(hr_waiting_next_ready(&rig.waiting), 0);
        hr_waiting_wake(&rig.waiting);
        assert_int_equal(hr_waiting_next_ready(&rig.waiting), index);
        const struct hr_waiting_request *request = &rig.waiting.requests[index];
        assert_text(&rig.waiting, request->params, text_of(5, bytes, params));
        assert_text(&rig.waiting, request->answer, (struct hr_span){answer, bytes});
        assert_int_equal(request->progress.done, 77);
        assert_true(request->progress.has_claim);
        hr_waiting_drop(&rig.waiting, index);
    }
    close_rig(&rig);
}

static void what_has_no_room_is_refused_and_takes_none(void **state)
{
    (void)state;
    struct rig rig;
    char answer[TEXT_BYTES_MAX];
    struct hr_progress progress = {0};
    open_rig(&rig);
    uint32_t whole = rig.waiting.blocks_left, kept = 0;
    while (add(&rig, kept, TEXT_BYTES_MAX, 0, 0)) {
        kept++;
    }
    assert_in_range(kept, 1, BYTES_MAX / TEXT_BYTES_MAX);
    uint32_t left = rig.waiting.blocks_left;
    assert_false(add(&rig, 99, TEXT_BYTES_MAX, 0, 0));
    assert_int_equal(rig.waiting.blocks_left, left);
    hr_waiting_wake(&rig.waiting);
    uint32_t index = hr_waiting_next_ready(&rig.waiting);
    assert_false(hr_waiting_put_back(&rig.waiting, index, text_of(0, TEXT_BYTES_MAX, answer), &progress));
    hr_waiting_drop(&rig.waiting, index);
    for (uint32_t i = 1; i < kept; i++) {
        hr_waiting_drop(&rig.waiting, hr_waiting_next_ready(&rig.waiting));
    }
    assert_int_equal(rig.waiting.blocks_left, whole);
    close_rig(&rig);
}

/* Comings, goings and puttings back at random: no text is ever another's, and nothing leaks. */
static void no_text_is_ever_that_of_another(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct hr_rng rng = {seed};
        struct rig rig;
        char text[TEXT_BYTES_MAX];
        struct hr_progress progress = {0};
        open_rig(&rig);
        uint32_t whole = rig.waiting.blocks_left, index;
        for (uint64_t step = 1; step <= 400; step++) {
            (void)add(&rig, step, hr_rng_below(&rng, 3000), hr_rng_below(&rng, 1500), 0);
            if (hr_rng_chance(&rng, 1, 3)) {
                hr_waiting_wake(&rig.waiting);
            }
            while (hr_rng_chance(&rng, 2, 3) && (index = hr_waiting_next_ready(&rig.waiting)) != 0) {
                const struct hr_waiting_request *request = &rig.waiting.requests[index];
                uint64_t msgid = request->call.msgid;
                assert_text(&rig.waiting, request->params, text_of(msgid, request->params.bytes, text));
                assert_text(&rig.waiting, request->answer, text_of(msgid + 1, request->answer.bytes, text));
                struct hr_span answer = text_of(msgid + 1, hr_rng_below(&rng, 2000), text);
                if (hr_rng_chance(&rng, 1, 2) || !hr_waiting_put_back(&rig.waiting, index, answer, &progress)) {
                    hr_waiting_drop(&rig.waiting, index);
                }
            }
        }
        hr_waiting_wake(&rig.waiting);
        while ((index = hr_waiting_next_ready(&rig.waiting)) != 0) {
            hr_waiting_drop(&rig.waiting, index);
        }
        if (rig.waiting.blocks_left != whole) {
            fail_msg("seed %lu: %u blocks of %u are left", (unsigned long)seed, rig.waiting.blocks_left, whole);
        }
        close_rig(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_wait_become_ready_in_their_order),
        cmocka_unit_test(one_that_is_put_back_keeps_its_params_and_its_longer_answer),
        cmocka_unit_test(what_has_no_room_is_refused_and_takes_none),
        cmocka_unit_test(no_text_is_ever_that_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
