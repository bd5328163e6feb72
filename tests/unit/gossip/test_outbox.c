/* The outbox gives back what was put in, in order, whatever the sizes and wherever the ring ends; and what members are
 * called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "gossip/life.h"
#include "gossip/member.h"
#include "gossip/outbox.h"

static uint8_t memory[4096] __attribute__((aligned(8)));

static struct hr_outbox outbox_of(size_t bytes)
{
    struct hr_outbox outbox;
    struct hr_bump bump = {memory, 0};
    hr_outbox_init(&outbox, bytes, &bump);
    assert_true(bump.taken <= bytes);
    return outbox;
}

static struct hr_letter letter_of(uint64_t number, size_t address_bytes, size_t body_bytes)
{
    static char text[2048];
    memset(text, (int)('a' + number % 26), sizeof(text));
    return (struct hr_letter){
        .to = number,
        .lane = number % 2 == 0 ? HR_LANE_GOSSIP : HR_LANE_PEER,
        .kind = (enum hr_letter_kind)(1 + number % HR_LETTER_KIND_MAX),
        .address = {text, address_bytes},
        .body = {text, body_bytes},
    };
}

static void check(const struct hr_letter *letter, uint64_t number, size_t address_bytes, size_t body_bytes)
{
    struct hr_letter wanted = letter_of(number, address_bytes, body_bytes);
    assert_int_equal(letter->to, number);
    assert_int_equal(letter->lane, wanted.lane);
    assert_int_equal(letter->kind, wanted.kind);
    assert_true(hr_span_equal(letter->address, wanted.address));
    assert_true(hr_span_equal(letter->body, wanted.body));
}

/* Sizes follow from the number, so that both ends know them. */
static size_t address_bytes_of(uint64_t number)
{
    return number % 5 == 0 ? number % 40 : 0;
}

static size_t body_bytes_of(uint64_t number)
{
    struct hr_rng rng = {number};
    return hr_rng_below(&rng, 300);
}

static void letters_come_out_as_they_went_in(void **state)
{
    (void)state;
    for (size_t bytes = 64; bytes <= sizeof(memory); bytes += 61) {
        struct hr_outbox outbox = outbox_of(bytes);
        struct hr_rng rng = {bytes};
        struct hr_letter letter;
        uint64_t in[64] = {0}, put = 0, taken = 0, held = 0;
        for (uint64_t number = 1; number < 3000; number++) {
            letter = letter_of(number, address_bytes_of(number), body_bytes_of(number));
            if (held < 64 && hr_outbox_put(&outbox, &letter)) {
                in[put++ % 64] = number;
                held++;
            }
            for (uint64_t out = hr_rng_below(&rng, 3); out > 0 && held > 0; out--, held--) {
                assert_true(hr_outbox_next(&outbox, &letter));
                uint64_t wanted = in[taken++ % 64];
                check(&letter, wanted, address_bytes_of(wanted), body_bytes_of(wanted));
            }
            assert_int_equal(outbox.count, held);
            assert_true(outbox.used <= outbox.bytes_max);
        }
        for (; held > 0; held--) {
            assert_true(hr_outbox_next(&outbox, &letter));
            assert_int_equal(letter.to, in[taken++ % 64]);
        }
        assert_false(hr_outbox_next(&outbox, &letter));
        assert_true(put > 0 || bytes < 100);
    }
}

static void what_finds_no_room_is_dropped_and_counted(void **state)
{
    (void)state;
    struct hr_outbox outbox = outbox_of(256);
    struct hr_letter letter = letter_of(1, 0, 100);
    unsigned put = 0;
    while (hr_outbox_put(&outbox, &letter)) {
        put++;
    }
    assert_int_equal(put, 2);
    assert_int_equal(outbox.dropped, 1);
    assert_true(hr_outbox_next(&outbox, &letter));
    letter = letter_of(2, 0, 100);
    assert_true(hr_outbox_put(&outbox, &letter));
    assert_int_equal(outbox.dropped, 1);
}

static void a_full_ring_can_be_emptied_and_filled_again(void **state)
{
    (void)state;
    struct hr_outbox outbox = outbox_of(3 * 32);
    struct hr_letter letter;
    for (uint64_t round = 0; round < 100; round++) {
        for (uint64_t i = 0; i < 3; i++) {
            letter = letter_of(i, 0, 16); /* exactly a third */
            assert_true(hr_outbox_put(&outbox, &letter));
        }
        assert_false(hr_outbox_put(&outbox, &letter));
        for (uint64_t i = 0; i <= round % 4 && i < 3; i++) {
            assert_true(hr_outbox_next(&outbox, &letter));
            check(&letter, i, 0, 16);
        }
        while (hr_outbox_next(&outbox, &letter)) {
            assert_int_equal(letter.body.bytes, 16);
        }
        assert_int_equal(outbox.used, 0);
    }
}

static void a_letter_too_long_is_never_taken(void **state)
{
    (void)state;
    static uint8_t large[2 * HR_LETTER_BYTES_MAX] __attribute__((aligned(8)));
    static char body[HR_LETTER_BYTES_MAX + 1];
    struct hr_outbox outbox;
    struct hr_bump bump = {large, 0};
    hr_outbox_init(&outbox, sizeof(large), &bump);
    struct hr_letter letter = {.to = 1, .kind = HR_LETTER_STREAM, .body = {body, sizeof(body)}};
    assert_false(hr_outbox_put(&outbox, &letter));
    letter.body.bytes = HR_LETTER_BYTES_MAX;
    assert_true(hr_outbox_put(&outbox, &letter));
    letter.body.bytes = 0;
    letter.address = (struct hr_span){body, HR_MEMBER_ADDRESS_BYTES_MAX + 1};
    assert_false(hr_outbox_put(&outbox, &letter));
    assert_int_equal(outbox.dropped, 2);
}

static void an_outbox_is_measured_as_it_is_laid_out(void **state)
{
    (void)state;
    struct hr_outbox outbox;
    struct hr_bump measure = {NULL, 0};
    hr_outbox_init(&outbox, 1000, &measure);
    assert_null(outbox.ring);
    assert_int_equal(measure.taken, 1000);
}

static void ids_tell_names_and_regions_apart(void **state)
{
    (void)state;
    uint64_t id = hr_member_id(HR_SPAN("eu"), HR_SPAN("n1"));
    assert_int_not_equal(id, 0);
    assert_int_equal(id, hr_member_id(HR_SPAN("eu"), HR_SPAN("n1")));
    assert_int_not_equal(id, hr_member_id(HR_SPAN("n1"), HR_SPAN("eu")));
    assert_int_not_equal(id, hr_member_id(HR_SPAN("e"), HR_SPAN("un1")));
    assert_int_not_equal(id, hr_member_id(HR_SPAN("eun"), HR_SPAN("1")));
}

static void members_are_found_by_id_alone(void **state)
{
    (void)state;
    struct hr_member all[3] = {{.id = 7}, {.id = 9}, {.id = 8, .state = HR_MEMBER_LEFT}};
    struct hr_members members = {.all = all, .count = 3, .count_max = 3};
    assert_int_equal(hr_members_find(&members, 9), 1);
    assert_int_equal(hr_members_find(&members, 8), 2);
    assert_int_equal(hr_members_find(&members, 1), HR_MEMBER_NONE);
    assert_true(hr_member_is_live(&all[0]));
    assert_false(hr_member_is_live(&all[2]));
    assert_string_equal(hr_member_state_name(HR_MEMBER_SUSPECT), "suspect");
    assert_string_equal(hr_member_state_name((enum hr_member_state)9), "unknown");
}

static void a_word_raises_the_incarnation_and_not_the_life(void **state)
{
    (void)state;
    assert_int_equal(hr_life_of(hr_life_begin(5)), 5);
    assert_int_equal(hr_life_of(hr_life_begin(5) + 1), 5);
    assert_true(hr_life_begin(6) > hr_life_begin(5) + 1000000);
    assert_true(hr_life_begin(HR_LIFE_MAX) < HR_INCARNATION_MAX);
    assert_true(HR_INCARNATION_MAX < UINT64_C(1) << 53);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_come_out_as_they_went_in),
        cmocka_unit_test(what_finds_no_room_is_dropped_and_counted),
        cmocka_unit_test(a_full_ring_can_be_emptied_and_filled_again),
        cmocka_unit_test(a_letter_too_long_is_never_taken),
        cmocka_unit_test(an_outbox_is_measured_as_it_is_laid_out),
        cmocka_unit_test(ids_tell_names_and_regions_apart),
        cmocka_unit_test(members_are_found_by_id_alone),
        cmocka_unit_test(a_word_raises_the_incarnation_and_not_the_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
