/* The ring: letters come out as they went in, what is not published is not seen, room is never exceeded, and two
 * threads lose nothing. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/ring.h"

#define ROOM 1024U
#define ROOM_LARGE 65536U
#define LETTERS 50000U

struct rig {
    struct hr_ring ring;
    _Alignas(8) uint8_t memory[ROOM_LARGE];
};

static struct hr_span text(const char *at)
{
    return (struct hr_span){at, strlen(at)};
}

static void assert_next(struct hr_ring *ring, uint8_t kind, const char *body)
{
    uint8_t got_kind;
    struct hr_span got;
    assert_true(hr_ring_next(ring, &got_kind, &got));
    assert_int_equal(got_kind, kind);
    assert_true(hr_span_equal(got, text(body)));
}

static void assert_empty(struct hr_ring *ring)
{
    uint8_t kind;
    struct hr_span body;
    assert_false(hr_ring_next(ring, &kind, &body));
}

static void what_is_not_published_is_not_seen(void **state)
{
    (void)state;
    static struct rig rig;
    hr_ring_init(&rig.ring, rig.memory, ROOM);
    assert_empty(&rig.ring);
    assert_false(hr_ring_publish(&rig.ring));
    assert_true(hr_ring_put(&rig.ring, 3, text("one")));
    assert_true(hr_ring_put(&rig.ring, 4, text("")));
    assert_empty(&rig.ring);
    assert_true(hr_ring_publish(&rig.ring));
    assert_false(hr_ring_publish(&rig.ring)); /* nothing more was put */
    assert_true(hr_ring_put(&rig.ring, 5, text("later")));
    assert_next(&rig.ring, 3, "one");
    assert_next(&rig.ring, 4, "");
    assert_empty(&rig.ring);
    assert_true(hr_ring_publish(&rig.ring));
    assert_next(&rig.ring, 5, "later");
    assert_empty(&rig.ring);
}

static void the_longest_letter_fits_wherever_an_empty_ring_stands(void **state)
{
    (void)state;
    static struct rig rig;
    static char bytes[ROOM_LARGE];
    static const uint32_t rooms[] = {ROOM, 4096, ROOM_LARGE};
    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
        const struct hr_span longest = {bytes, hr_ring_letter_bytes_max(rooms[i])};
        for (uint32_t moved = 0; moved < rooms[i]; moved += 8) {
            uint8_t kind;
            struct hr_span body;
            hr_ring_init(&rig.ring, rig.memory, rooms[i]);
            for (uint32_t n = 0; n < moved; n += 8) {
                assert_true(hr_ring_put(&rig.ring, 1, text("")));
                (void)hr_ring_publish(&rig.ring);
                assert_true(hr_ring_next(&rig.ring, &kind, &body));
                assert_empty(&rig.ring);
            }
            if (!hr_ring_has_room(&rig.ring, longest.bytes) || !hr_ring_put(&rig.ring, 2, longest)) {
                fail_msg("room %u, at %u", rooms[i], moved);
            }
            (void)hr_ring_publish(&rig.ring);
            assert_true(hr_ring_next(&rig.ring, &kind, &body));
            assert_int_equal(body.bytes, longest.bytes);
            assert_empty(&rig.ring);
        }
        assert_false(hr_ring_has_room(&rig.ring, longest.bytes + 1));
        assert_false(hr_ring_put(&rig.ring, 1, (struct hr_span){bytes, longest.bytes + 1}));
    }
}

static void a_full_ring_takes_nothing_until_something_is_given_back(void **state)
{
    (void)state;
    static struct rig rig;
    uint32_t put = 0;
    hr_ring_init(&rig.ring, rig.memory, ROOM);
    while (hr_ring_put(&rig.ring, 1, text("12345678"))) {
        put++;
    }
    assert_int_equal(put, ROOM / 16);
    (void)hr_ring_publish(&rig.ring);
    for (uint32_t i = 0; i < put; i++) {
        assert_false(hr_ring_has_room(&rig.ring, 0)); /* taken, but not given back before the last */
        assert_next(&rig.ring, 1, "12345678");
    }
    assert_empty(&rig.ring);
    assert_true(hr_ring_put(&rig.ring, 1, text("12345678")));
}

/* The letter of a number: its length and its bytes follow from it. */
static size_t fill(uint64_t number, char *bytes)
{
    struct hr_rng rng = {number};
    size_t length = 8 + (size_t)hr_rng_below(&rng, number % 64 == 0 ? ROOM_LARGE / 4 : 200);
    memset(bytes, (int)(number % 251), length);
    memcpy(bytes, &number, sizeof(number));
    return length;
}

static void *write_letters(void *user)
{
    struct hr_ring *ring = user;
    static char bytes[ROOM_LARGE];
    for (uint64_t i = 0; i < LETTERS; i++) {
        size_t length = fill(i, bytes);
        while (!hr_ring_put(ring, (uint8_t)i, (struct hr_span){bytes, length})) {
            (void)hr_ring_publish(ring);
            (void)sched_yield(); /* there may be one processor for both */
        }
        if (i % 7 == 0) {
            (void)hr_ring_publish(ring);
        }
    }
    (void)hr_ring_publish(ring);
    return NULL;
}

static void two_threads_lose_nothing_and_change_nothing(void **state)
{
    (void)state;
    static struct rig rig;
    static char want[ROOM_LARGE];
    pthread_t writer;
    hr_ring_init(&rig.ring, rig.memory, ROOM_LARGE);
    assert_int_equal(pthread_create(&writer, NULL, write_letters, &rig.ring), 0);
    for (uint64_t i = 0; i < LETTERS;) {
        uint8_t kind;
        struct hr_span body;
        if (!hr_ring_next(&rig.ring, &kind, &body)) {
            (void)sched_yield();
            continue;
        }
        size_t length = fill(i, want);
        if (kind != (uint8_t)i || body.bytes != length || memcmp(body.at, want, length) != 0) {
            fail_msg("letter %u came out otherwise", (unsigned)i);
        }
        i++;
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_empty(&rig.ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_published_is_not_seen),
        cmocka_unit_test(the_longest_letter_fits_wherever_an_empty_ring_stands),
        cmocka_unit_test(a_full_ring_takes_nothing_until_something_is_given_back),
        cmocka_unit_test(two_threads_lose_nothing_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
