/* A stream: all messages, once each, in order, whatever becomes of the letters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/stream.h"

#define RING_BYTES (256U << 10)
#define FLIGHTS_MAX 64

struct end {
    struct hr_stream stream;
    void *memory;
    uint64_t put, taken; /* messages */
};

struct flight {
    uint8_t *body;
    size_t bytes;
    int to;
};

static uint8_t letter[HR_STREAM_LETTER_BYTES_MAX];

static void open_end(struct end *end, uint64_t life)
{
    end->memory = calloc(1, RING_BYTES + 64);
    struct hr_bump bump = {.at = end->memory};
    hr_stream_init(&end->stream, life, RING_BYTES, &bump);
    end->put = end->taken = 0;
}

/* A message that says which it is, in its first bytes and in its length. */
static size_t length_of(uint64_t number)
{
    static const size_t lengths[] = {8, 9, 100, 5000, 20000, HR_STREAM_MESSAGE_BYTES_MAX};
    return lengths[(number * 7) % (number % 11 == 0 ? 6 : 4)];
}

static void put_some(struct end *end)
{
    static char body[HR_STREAM_MESSAGE_BYTES_MAX];
    while (hr_stream_room(&end->stream) >= length_of(end->put)) {
        memset(body, (int)(end->put & 0x7f), sizeof(body));
        memcpy(body, &end->put, sizeof(end->put));
        size_t bytes = length_of(end->put);
        (void)hr_stream_put(&end->stream, (struct hr_span){body, 5}, (struct hr_span){body + 5, bytes - 5});
        end->put++;
    }
}

static void check_message(const struct end *end, struct hr_span message)
{
    uint64_t number;
    assert_int_equal(message.bytes, length_of(end->taken));
    memcpy(&number, message.at, sizeof(number));
    assert_int_equal(number, end->taken);
    assert_int_equal((uint8_t)message.at[message.bytes - 1],
                     message.bytes > 8 ? (end->taken & 0x7f) : end->taken >> 56);
}

static void receive(struct end *end, const struct flight *flight, hr_ns now, struct hr_rng *rng)
{
    struct hr_stream_letter read;
    struct hr_span message, body = {(char *)flight->body, flight->bytes};
    (void)hr_stream_open(&end->stream, hr_stream_peer_life(body));
    if (hr_stream_receive(&end->stream, body, now, &read) != HR_OK) {
        return;
    }
    while (hr_stream_next_message(&read, &message)) {
        check_message(end, message);
        if (hr_rng_chance(rng, 1, 20)) {
            return; /* not ready: it has to come again */
        }
        hr_stream_take(&end->stream);
        end->taken++;
    }
}

static void all_messages_come_once_and_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct hr_rng rng = {seed};
        uint64_t loss = hr_rng_below(&rng, 30), twice = hr_rng_below(&rng, 20);
        bool reorders = hr_rng_chance(&rng, 1, 2);
        struct end ends[2];
        struct flight flights[FLIGHTS_MAX];
        uint32_t flight_count = 0;
        open_end(&ends[0], 5);
        open_end(&ends[1], 9);
        (void)hr_stream_open(&ends[0].stream, 9);
        (void)hr_stream_open(&ends[1].stream, 5);
        hr_ns now = 1;
        for (uint32_t step = 0; ends[0].taken < 300 || ends[1].taken < 300; step++) {
            if (step > 100000) {
                fail_msg("seed %lu: it does not come on", (unsigned long)seed);
            }
            now += (hr_ns)hr_rng_below(&rng, (uint64_t)(10 * HR_NS_PER_MS));
            for (int i = 0; i < 2; i++) {
                size_t bytes;
                put_some(&ends[i]);
                while (flight_count + 1 < FLIGHTS_MAX &&
                       (bytes = hr_stream_next_letter(&ends[i].stream, now, letter)) > 0) {
                    for (int copy = 0; copy < (hr_rng_chance(&rng, twice, 100) ? 2 : 1); copy++) {
                        if (!hr_rng_chance(&rng, loss, 100)) {
                            flights[flight_count] = (struct flight){malloc(bytes), bytes, 1 - i};
                            memcpy(flights[flight_count++].body, letter, bytes);
                        }
                    }
                }
            }
            for (uint32_t k = 0; k < 4 && flight_count > 0; k++) {
                uint32_t at = reorders ? (uint32_t)hr_rng_below(&rng, flight_count) : 0;
                struct flight flight = flights[at];
                memmove(&flights[at], &flights[at + 1], (flight_count - at - 1) * sizeof(flight));
                flight_count--;
                receive(&ends[flight.to], &flight, now, &rng);
                free(flight.body);
            }
        }
        while (flight_count > 0) {
            free(flights[--flight_count].body);
        }
        free(ends[0].memory);
        free(ends[1].memory);
    }
}

static void another_life_begins_anew_and_an_earlier_one_is_not_heard(void **state)
{
    (void)state;
    struct end a, b;
    struct hr_rng rng = {1};
    open_end(&a, 5);
    open_end(&b, 9);
    assert_int_equal(hr_stream_room(&a.stream), 0);
    assert_true(hr_stream_open(&a.stream, 9));
    assert_false(hr_stream_open(&a.stream, 9));
    assert_true(hr_stream_open(&b.stream, 5));
    put_some(&a);
    size_t bytes = hr_stream_next_letter(&a.stream, 1, letter);
    uint8_t *old = malloc(bytes);
    memcpy(old, letter, bytes);
    assert_true(hr_stream_open(&a.stream, 10)); /* the other was started anew */
    assert_int_equal(hr_stream_used(&a.stream), 0);
    assert_false(hr_stream_open(&a.stream, 9));
    free(b.memory);
    open_end(&b, 10);
    (void)hr_stream_open(&b.stream, 5);
    receive(&b, &(struct flight){old, bytes, 0}, 1, &rng); /* was for the life before */
    assert_int_equal(b.taken, 0);
    free(old);
    free(a.memory);
    free(b.memory);
}

static void an_unanswered_letter_is_sent_again_more_and_more_rarely(void **state)
{
    (void)state;
    struct end a;
    open_end(&a, 5);
    (void)hr_stream_open(&a.stream, 9);
    (void)hr_stream_put(&a.stream, HR_SPAN("hello"), HR_SPAN(""));
    assert_true(hr_stream_next_letter(&a.stream, 0, letter) > 0);
    hr_ns wait = HR_STREAM_RESEND_NS_MIN, now = 0;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(hr_stream_next_letter(&a.stream, now + wait - 1, letter), 0);
        assert_int_equal(hr_stream_deadline(&a.stream), now + wait);
        now += wait;
        assert_true(hr_stream_next_letter(&a.stream, now, letter) > 0);
        wait = 2 * wait > HR_STREAM_RESEND_NS_MAX ? HR_STREAM_RESEND_NS_MAX : 2 * wait;
    }
    free(a.memory);
}

static void a_letter_is_these_bytes_and_no_prefix_of_it_brings_more(void **state)
{
    (void)state;
    static const uint8_t expected[] = {5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0,   0,   0, 1, 0, 0, 0,   0,   0,  0,
                                       0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 'h', 'i', 3, 0, 0, 0, 'y', 'o', 'u'};
    struct end a, b;
    struct hr_stream_letter read;
    struct hr_span message;
    open_end(&a, 5);
    (void)hr_stream_open(&a.stream, 9);
    (void)hr_stream_put(&a.stream, HR_SPAN("h"), HR_SPAN("i"));
    (void)hr_stream_put(&a.stream, HR_SPAN("you"), HR_SPAN(""));
    assert_int_equal(hr_stream_next_letter(&a.stream, 1, letter), sizeof(expected));
    assert_memory_equal(letter, expected, sizeof(expected));
    for (size_t bytes = 0; bytes <= sizeof(expected); bytes++) {
        uint32_t count = 0;
        char *part = malloc(bytes + 1);
        memcpy(part, expected, bytes);
        open_end(&b, 9);
        struct hr_span body = {part, bytes};
        (void)hr_stream_open(&b.stream, hr_stream_peer_life(body));
        enum hr_err err = hr_stream_receive(&b.stream, body, 1, &read);
        assert_int_equal(err, bytes < HR_STREAM_HEAD_BYTES ? HR_E_CORRUPT : HR_OK);
        while (err == HR_OK && hr_stream_next_message(&read, &message)) {
            count++;
        }
        assert_int_equal(count, bytes < 38 ? 0 : bytes < sizeof(expected) ? 1 : 2);
        free(part);
        free(b.memory);
    }
    free(a.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_messages_come_once_and_in_order),
        cmocka_unit_test(another_life_begins_anew_and_an_earlier_one_is_not_heard),
        cmocka_unit_test(an_unanswered_letter_is_sent_again_more_and_more_rarely),
        cmocka_unit_test(a_letter_is_these_bytes_and_no_prefix_of_it_brings_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
