/* Replies: against a naive model in random runs, with bytes that tell whose they are; and the edges of room and time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/replies.h"

#define IDS 40
#define START (HR_NS_PER_S * 1000)

struct opened {
    struct hr_replies replies;
    void *memory;
};

static void open_replies(struct opened *opened, uint32_t count_max, uint64_t bytes_max)
{
    struct hr_replies_sizes sizes = {count_max, bytes_max};
    struct hr_bump measure = {.at = NULL};
    hr_replies_init(&opened->replies, &sizes, &measure);
    opened->memory = malloc(measure.taken);
    assert_non_null(opened->memory);
    struct hr_bump bump = {.at = opened->memory};
    hr_replies_init(&opened->replies, &sizes, &bump);
    assert_int_equal(bump.taken, measure.taken);
}

static struct hr_id128 id_of(uint64_t number)
{
    return (struct hr_id128){number, number % 3};
}

struct model_id {
    enum hr_reply_state state; /* HR_REPLY_NEW: nothing is known of it */
    uint32_t bytes, salt;
    hr_ns expires_at;
};

struct model {
    struct model_id ids[IDS];
    uint32_t count_max;
    uint64_t bytes_max;
    hr_ns now;
};

static void fill(char *answer, uint32_t bytes, uint32_t salt)
{
    for (uint32_t i = 0; i < bytes; i++) {
        answer[i] = (char)(salt * 31 + i * 7);
    }
}

static void expect_answer(const struct hr_reply *reply, uint32_t bytes, uint32_t salt)
{
    static char expected[HR_REPLY_BYTES_MAX];
    fill(expected, bytes, salt);
    assert_int_equal(reply->parts[0].bytes + reply->parts[1].bytes, bytes);
    assert_memory_equal(reply->parts[0].at, expected, reply->parts[0].bytes);
    assert_memory_equal(reply->parts[1].at, expected + reply->parts[0].bytes, reply->parts[1].bytes);
}

static void model_expire(struct model *model)
{
    for (size_t i = 0; i < IDS; i++) {
        if (model->ids[i].state == HR_REPLY_KNOWN && model->ids[i].expires_at <= model->now) {
            model->ids[i].state = HR_REPLY_NEW;
        }
    }
}

static bool model_has_room(const struct model *model, uint32_t bytes)
{
    uint64_t taken = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < IDS; i++) {
        taken += model->ids[i].state == HR_REPLY_NEW ? 0 : model->ids[i].bytes;
        count += model->ids[i].state != HR_REPLY_NEW;
    }
    return count < model->count_max && taken + bytes <= model->bytes_max;
}

static void begin_both(struct opened *opened, struct model *model, uint64_t number, uint32_t bytes)
{
    struct model_id *expected = &model->ids[number];
    enum hr_reply_state state = HR_REPLY_NEW;
    struct hr_reply reply;
    model_expire(model);
    enum hr_err err = hr_replies_begin(&opened->replies, id_of(number), bytes, model->now, &state, &reply);
    if (expected->state == HR_REPLY_NEW && !model_has_room(model, bytes)) {
        assert_int_equal(err, HR_E_FULL);
        return;
    }
    assert_int_equal(err, HR_OK);
    assert_int_equal(state, expected->state);
    if (state == HR_REPLY_KNOWN) {
        expect_answer(&reply, expected->bytes, expected->salt);
    } else if (state == HR_REPLY_NEW) {
        expected->state = HR_REPLY_PENDING;
        expected->bytes = bytes;
    }
}

static void finish_both(struct opened *opened, struct model *model, uint64_t number, struct hr_rng *rng)
{
    static char answer[HR_REPLY_BYTES_MAX + 1];
    struct model_id *expected = &model->ids[number];
    if (expected->state != HR_REPLY_PENDING) {
        return;
    }
    if (hr_rng_chance(rng, 1, 6)) {
        hr_replies_abandon(&opened->replies, id_of(number));
        expected->state = HR_REPLY_NEW;
        return;
    }
    struct hr_span too_long = {answer, expected->bytes + 1};
    assert_int_equal(hr_replies_finish(&opened->replies, id_of(number), too_long, model->now), HR_E_RANGE);
    uint32_t bytes = (uint32_t)hr_rng_below(rng, expected->bytes + 1);
    *expected = (struct model_id){HR_REPLY_KNOWN, bytes, (uint32_t)hr_rng_next(rng), model->now + HR_REPLY_KEPT_NS};
    fill(answer, bytes, expected->salt);
    struct hr_span span = {answer, bytes};
    assert_int_equal(hr_replies_finish(&opened->replies, id_of(number), span, model->now), HR_OK);
}

static void expect_sums(const struct hr_replies *replies, struct model *model)
{
    uint64_t pending = 0, known = 0, aside = 0, kept = 0;
    model_expire(model);
    for (size_t i = 0; i < IDS; i++) {
        pending += model->ids[i].state == HR_REPLY_PENDING;
        aside += model->ids[i].state == HR_REPLY_PENDING ? model->ids[i].bytes : 0;
        known += model->ids[i].state == HR_REPLY_KNOWN;
        kept += model->ids[i].state == HR_REPLY_KNOWN ? model->ids[i].bytes : 0;
    }
    assert_int_equal(replies->pending_count, pending);
    assert_int_equal(replies->set_aside, aside);
    assert_int_equal(replies->known_count, known);
    assert_int_equal(replies->end - replies->begin, kept);
}

static void run_against_model(uint64_t seed)
{
    struct hr_rng rng = {seed};
    struct opened opened;
    struct model model = {.now = START};
    model.count_max = (uint32_t)(1 + hr_rng_below(&rng, IDS + 5));
    model.bytes_max = HR_REPLY_BYTES_MAX + hr_rng_below(&rng, 3 * HR_REPLY_BYTES_MAX);
    open_replies(&opened, model.count_max, model.bytes_max);
    for (int step = 0; step < 2000; step++) {
        uint64_t number = hr_rng_below(&rng, IDS);
        if (hr_rng_chance(&rng, 1, 2)) {
            uint64_t most = hr_rng_chance(&rng, 1, 4) ? HR_REPLY_BYTES_MAX : 600;
            begin_both(&opened, &model, number, (uint32_t)hr_rng_below(&rng, most + 1));
        } else {
            finish_both(&opened, &model, number, &rng);
        }
        model.now += (hr_ns)hr_rng_below(&rng, 4) * HR_NS_PER_S;
        hr_replies_expire(&opened.replies, model.now);
        expect_sums(&opened.replies, &model);
    }
    free(opened.memory);
}

static void replies_agree_with_a_naive_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        print_message("seed %lu\n", (unsigned long)seed);
        run_against_model(seed);
    }
}

static enum hr_reply_state state_of(struct hr_replies *replies, uint64_t number, hr_ns now)
{
    enum hr_reply_state state = HR_REPLY_NEW;
    struct hr_reply reply;
    assert_int_equal(hr_replies_begin(replies, id_of(number), 10, now, &state, &reply), HR_OK);
    return state;
}

static void an_answer_is_known_for_sixty_seconds_from_its_end(void **state)
{
    (void)state;
    struct opened opened;
    open_replies(&opened, 2, HR_REPLY_BYTES_MAX);
    assert_int_equal(state_of(&opened.replies, 1, START), HR_REPLY_NEW);
    hr_ns finished = START + 5 * HR_REPLY_KEPT_NS;
    assert_int_equal(state_of(&opened.replies, 1, finished), HR_REPLY_PENDING);
    assert_int_equal(hr_replies_finish(&opened.replies, id_of(1), HR_SPAN("yes"), finished), HR_OK);
    assert_int_equal(state_of(&opened.replies, 1, finished + HR_REPLY_KEPT_NS - 1), HR_REPLY_KNOWN);
    assert_int_equal(state_of(&opened.replies, 1, finished + HR_REPLY_KEPT_NS), HR_REPLY_NEW);
    free(opened.memory);
}

static void room_that_is_set_aside_is_never_given_away(void **state)
{
    (void)state;
    struct opened opened;
    enum hr_reply_state found;
    struct hr_reply reply;
    static char big[HR_REPLY_BYTES_MAX];
    open_replies(&opened, 8, HR_REPLY_BYTES_MAX + 5);
    struct hr_replies *replies = &opened.replies;
    assert_int_equal(hr_replies_begin(replies, id_of(1), HR_REPLY_BYTES_MAX, START, &found, &reply), HR_OK);
    assert_int_equal(hr_replies_begin(replies, id_of(2), 6, START, &found, &reply), HR_E_FULL);
    assert_int_equal(hr_replies_begin(replies, id_of(2), 5, START, &found, &reply), HR_OK);
    assert_int_equal(hr_replies_begin(replies, id_of(3), 1, START, &found, &reply), HR_E_FULL);
    assert_int_equal(hr_replies_finish(replies, id_of(2), HR_SPAN("12345"), START), HR_OK);
    assert_int_equal(hr_replies_finish(replies, id_of(1), (struct hr_span){big, sizeof(big)}, START), HR_OK);
    assert_int_equal(hr_replies_begin(replies, id_of(3), 1, START, &found, &reply), HR_E_FULL);
    assert_int_equal(hr_replies_begin(replies, id_of(3), 1, START + HR_REPLY_KEPT_NS, &found, &reply), HR_OK);
    free(opened.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_agree_with_a_naive_model),
        cmocka_unit_test(an_answer_is_known_for_sixty_seconds_from_its_end),
        cmocka_unit_test(room_that_is_set_aside_is_never_given_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
