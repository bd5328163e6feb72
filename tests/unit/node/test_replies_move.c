/* Kept answers on their way to another node, with their partition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/replies.h"

#define S(n) ((n)*HR_NS_PER_S)
#define COUNT_MAX 16

struct kept {
    struct hr_replies replies;
    void *memory;
};

static void open_kept(struct kept *kept)
{
    const struct hr_replies_sizes sizes = {.count_max = COUNT_MAX, .bytes_max = 3 * HR_REPLY_BYTES_MAX};
    struct hr_bump bump = {0};
    hr_replies_init(&kept->replies, &sizes, &bump);
    kept->memory = calloc(1, bump.taken);
    assert_non_null(kept->memory);
    bump = (struct hr_bump){.at = kept->memory};
    hr_replies_init(&kept->replies, &sizes, &bump);
}

static struct hr_id128 id_of(uint64_t n)
{
    return (struct hr_id128){n * 0x9e3779b97f4a7c15U, n};
}

static void keep(struct kept *kept, uint64_t n, uint32_t partition, const char *answer, hr_ns now)
{
    enum hr_reply_state state;
    struct hr_reply reply;
    assert_int_equal(hr_replies_begin(&kept->replies, id_of(n), 256, now, &state, &reply), HR_OK);
    assert_int_equal(state, HR_REPLY_NEW);
    assert_int_equal(hr_replies_finish(&kept->replies, id_of(n), hr_span_of(answer), now), HR_OK);
    hr_replies_file(&kept->replies, id_of(n), partition);
}

/* Moves a partition; returns how many answers that were. */
static uint32_t move(struct kept *from, struct kept *to, uint32_t partition, hr_ns now)
{
    static uint8_t bytes[HR_REPLY_MOVED_BYTES_MAX];
    uint64_t cursor = 0;
    uint32_t count = 0;
    size_t used;
    while ((used = hr_replies_next(&from->replies, partition, now, &cursor, bytes)) > 0) {
        assert_true(hr_replies_apply(&to->replies, partition, (struct hr_span){(const char *)bytes, used}, now));
        count++;
    }
    return count;
}

static enum hr_reply_state state_of(struct kept *kept, uint64_t n, hr_ns now, char ret_answer[64])
{
    enum hr_reply_state state;
    struct hr_reply reply;
    assert_int_equal(hr_replies_begin(&kept->replies, id_of(n), 256, now, &state, &reply), HR_OK);
    ret_answer[0] = '\0';
    if (state == HR_REPLY_NEW) {
        hr_replies_abandon(&kept->replies, id_of(n));
    } else if (state == HR_REPLY_KNOWN) {
        memcpy(ret_answer, reply.parts[0].at, reply.parts[0].bytes);
        memcpy(ret_answer + reply.parts[0].bytes, reply.parts[1].at, reply.parts[1].bytes);
        ret_answer[reply.parts[0].bytes + reply.parts[1].bytes] = '\0';
    }
    return state;
}

static void the_answers_of_a_partition_move_and_no_others(void **state)
{
    (void)state;
    struct kept from, to;
    char answer[64];
    open_kept(&from);
    open_kept(&to);
    keep(&from, 1, 7, "one", S(1));
    keep(&from, 2, 8, "two", S(1));
    keep(&from, 3, 7, "three", S(2));
    keep(&from, 4, HR_REPLY_UNFILED, "four", S(2));
    assert_int_equal(move(&from, &to, 7, S(3)), 2);
    assert_int_equal(state_of(&to, 1, S(3), answer), HR_REPLY_KNOWN);
    assert_string_equal(answer, "one");
    assert_int_equal(state_of(&to, 3, S(3), answer), HR_REPLY_KNOWN);
    assert_string_equal(answer, "three");
    assert_int_equal(state_of(&to, 2, S(3), answer), HR_REPLY_NEW);
    assert_int_equal(state_of(&to, 4, S(3), answer), HR_REPLY_NEW);
    assert_int_equal(move(&to, &from, 7, S(3)), 2); /* and back, where they are known: nothing changes */
    assert_int_equal(from.replies.known_count, 4);
    free(from.memory);
    free(to.memory);
}

static void an_answer_whose_time_is_over_stays(void **state)
{
    (void)state;
    struct kept from, to;
    char answer[64];
    open_kept(&from);
    open_kept(&to);
    keep(&from, 1, 7, "one", S(1));
    keep(&from, 2, 7, "two", S(30));
    assert_int_equal(move(&from, &to, 7, S(62)), 1);
    assert_int_equal(state_of(&from, 1, S(62), answer), HR_REPLY_NEW); /* its slot is free, and still says who it was */
    assert_int_equal(move(&from, &to, 7, S(63)), 1);
    assert_int_equal(move(&from, &to, 7, S(95)), 0);
    free(from.memory);
    free(to.memory);
}

static void bytes_cut_short_are_refused_or_are_a_shorter_answer(void **state)
{
    (void)state;
    struct kept to;
    static const char bytes[] = "0123456789abcdefanswer";
    for (size_t cut = 0; cut < sizeof(bytes); cut++) {
        open_kept(&to);
        char *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_int_equal(hr_replies_apply(&to.replies, 1, (struct hr_span){part, cut}, S(1)), cut >= 16);
        assert_int_equal(to.replies.known_count, cut >= 16 ? 1 : 0);
        assert_int_equal(to.replies.pending_count, 0);
        free(part);
        free(to.memory);
    }
}

static void what_finds_no_room_is_left_out(void **state)
{
    (void)state;
    struct kept from, to;
    open_kept(&from);
    open_kept(&to);
    for (uint64_t n = 0; n < COUNT_MAX; n++) {
        keep(&to, 100 + n, 9, "there", S(1));
    }
    keep(&from, 1, 7, "one", S(1));
    uint8_t bytes[HR_REPLY_MOVED_BYTES_MAX];
    uint64_t cursor = 0;
    size_t used = hr_replies_next(&from.replies, 7, S(1), &cursor, bytes);
    assert_int_equal(used, 16 + 3);
    assert_false(hr_replies_apply(&to.replies, 7, (struct hr_span){(const char *)bytes, used}, S(1)));
    assert_int_equal(to.replies.known_count, COUNT_MAX);
    free(from.memory);
    free(to.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answers_of_a_partition_move_and_no_others),
        cmocka_unit_test(an_answer_whose_time_is_over_stays),
        cmocka_unit_test(bytes_cut_short_are_refused_or_are_a_shorter_answer),
        cmocka_unit_test(what_finds_no_room_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
