/* A connection's events: what is answered, what is ignored, what ends it, and that pieces change nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rpc/session.h"
#include "tests/unit/rpc/golden.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NO_MSGID UINT64_MAX
#define TWELVE(x) x x x x x x x x x x x x
#define SIXTEEN(x) TWELVE(x) x x x x

static const struct hr_session_limits limits = {HR_FRAME_BYTES_MAX, 4};

#define ROW(bytes, kind, msgid, words)                                    \
    {                                                                     \
        {(bytes), sizeof(bytes) - 1}, HR_SESSION_##kind, (msgid), (words) \
    }

static const struct {
    struct hr_span bytes;
    enum hr_session_event_kind kind;
    uint64_t msgid;
    const char *words;
} rows[] = {
    ROW("\x94\x00\x07\xa6"
        "status\x91\x80",
        REQUEST, 7, NULL),
    ROW("\x94\x00\xcf\x00\x1f\xff\xff\xff\xff\xff\xff\xa6"
        "status\x90",
        REQUEST, HR_MSGID_MAX, NULL),
    ROW("\x94\x00\xd1\x00\x07\xa6"
        "status\x90",
        REQUEST, 7, NULL),
    ROW("\x94\x00\xce\xff\xff\xff\xff\xa6"
        "status\x91\x81\xa1x\x05",
        REQUEST, UINT32_MAX, NULL),
    ROW("\x94\x00\x07\xd9\x06"
        "status\x91\x81\xa1x\xd9\x02yz",
        REQUEST, 7, NULL),
    ROW("\x94\x00\x07\xc4\x06"
        "status\xdc\x00\x01\xde\x00\x01\xa1x\xd4\x01\x02",
        REQUEST, 7, NULL),
    ROW("\xdc\x00\x04\xd3\x00\x00\x00\x00\x00\x00\x00\x00\x07\xa6"
        "status\x91\x80",
        REQUEST, 7, NULL),
    /* A map that holds as many arrays as may be nested within each other, and one more; beside each other. */
    ROW("\x94\x00\x07\xa6"
        "status\x91\x81\x01" TWELVE("\x91") "\x90",
        REQUEST, 7, NULL),
    ROW("\x94\x00\x07\xa6"
        "status\x91\x81\x01" TWELVE("\x91") "\x91\x90",
        BROKEN, 7, "a message may be nested at most 16 deep"),
    ROW("\x94\x00\x07\xa6"
        "status\x91\x86" TWELVE("\x90"),
        REQUEST, 7, NULL),
    ROW("\x94\x00\x07\xa6"
        "status\x91\x8c" TWELVE("\x90\x90"),
        REQUEST, 7, NULL),
    ROW("\x94\x01\x07\xc0\xc3", RESPONSE, 7, NULL),
    ROW("\x93\x02\xa6"
        "status\x90",
        NOTIFICATION, NO_MSGID, NULL),
    ROW("\x93\x02\xa7"
        "unknown\x90",
        NOTIFICATION, NO_MSGID, NULL),
    ROW("\x92\x02\xa6"
        "status",
        NOTIFICATION, NO_MSGID, NULL),
    ROW("\x91\x02", NOTIFICATION, NO_MSGID, NULL),
    ROW("\x93\x02\x05\x05", NOTIFICATION, NO_MSGID, NULL),
    /* Who asks is known, and nothing else is wrong with the connection. */
    ROW("\x94\x00\x07\xa3"
        "foo\x91\x80",
        REFUSED, 7, "there is no method \"foo\""),
    ROW("\x94\x00\x07\xa0\x91\x80", REFUSED, 7, "there is no method \"\""),
    ROW("\x94\x00\x07\x05\x91\x80", REFUSED, 7, "method must be text"),
    ROW("\x94\x00\x07\xa6"
        "status\x80",
        REFUSED, 7, "params must be an array holding one map"),
    ROW("\x94\x00\x07\xa6"
        "status\x91\x05",
        REFUSED, 7, "params must be an array holding one map"),
    ROW("\x94\x00\x07\xa6"
        "status\x92\x80\x80",
        REFUSED, 7, "params must be an array holding one map"),
    ROW("\x93\x00\x07\xa6"
        "status",
        REFUSED, 7, "a request must be [0, msgid, method, params]"),
    ROW("\x95\x00\x07\xa6"
        "status\x90\x05",
        REFUSED, 7, "a request must be [0, msgid, method, params]"),
    /* The peer speaks something else. */
    ROW("GET / HTTP/1.1\r\n", BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x16\x03\x01\x02", BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x90", BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x80", BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x94\x03\x07\xa6"
        "status\x90",
        BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x94\xff\x07\xa6"
        "status\x90",
        BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x94\x00\xa1"
        "7\xa6"
        "status\x90",
        BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x94\x00\xff\xa6"
        "status\x90",
        BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x94\x00\xcf\x00\x20\x00\x00\x00\x00\x00\x00\xa6"
        "status\x90",
        BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\x93\x01\x07\xc0", BROKEN, NO_MSGID, "not a MessagePack-RPC message"),
    ROW("\xc1", BROKEN, NO_MSGID, "not MessagePack"),
    ROW("\x94\x00\xc1", BROKEN, NO_MSGID, "not MessagePack"),
    ROW("\x94\x00\x07\xc1", BROKEN, 7, "not MessagePack"),
    ROW("\x94\x00\x07\xa6"
        "status\x91\x81\xc1",
        BROKEN, 7, "not MessagePack"),
    ROW("\x94\x01\x07\xc1", BROKEN, NO_MSGID, "not MessagePack"),
    ROW("\xdd\xff\xff\xff\xff\x00\x07", BROKEN, NO_MSGID, "a message may hold at most 1048576 bytes"),
    ROW("\xdd\x00\xff\xff\xff", BROKEN, NO_MSGID, "a message may hold at most 1048576 bytes"),
    ROW("\x94\x00\x07\xa6"
        "status\xdc\xff\xff",
        MORE, NO_MSGID, NULL),
    ROW("\x94\x00\x07\xa6"
        "status\xdd\x00\x10\x00\x00",
        BROKEN, 7, "a message may hold at most 1048576 bytes"),
    ROW("\x94\x00\x07\xdb\xff\xff\xff\xff", BROKEN, 7, "a message may hold at most 1048576 bytes"),
    ROW("\x94\x00\x07\xa6"
        "status" SIXTEEN("\x91"),
        BROKEN, 7, "a message may be nested at most 16 deep"),
    ROW(SIXTEEN("\x91") "\x91", BROKEN, NO_MSGID, "a message may be nested at most 16 deep"),
};

static void assert_event(const struct hr_session_event *event, size_t row)
{
    assert_int_equal(event->kind, rows[row].kind);
    assert_int_equal(event->has_msgid, rows[row].msgid != NO_MSGID);
    assert_true(!event->has_msgid || event->msgid == rows[row].msgid);
    if (rows[row].words != NULL) {
        assert_int_equal(event->fault.bytes, strlen(rows[row].words));
        assert_memory_equal(event->fault.text, rows[row].words, event->fault.bytes);
    }
}

static void each_message_has_its_event(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_session session;
        struct hr_session_event event;
        print_message("row %zu\n", i);
        hr_session_init(&session, &limits);
        hr_session_next(&session, rows[i].bytes, &event);
        assert_event(&event, i);
        bool is_used_up = event.kind != HR_SESSION_MORE && event.kind != HR_SESSION_BROKEN;
        assert_int_equal(event.consumed, is_used_up ? rows[i].bytes.bytes : 0);
    }
}

static void byte_by_byte_the_events_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_session session;
        struct hr_session_event event = {.kind = HR_SESSION_MORE};
        print_message("row %zu\n", i);
        hr_session_init(&session, &limits);
        for (size_t bytes = 0; event.kind == HR_SESSION_MORE && bytes <= rows[i].bytes.bytes; bytes++) {
            struct hr_span part = span_copy((struct hr_span){rows[i].bytes.at, bytes});
            hr_session_next(&session, part, &event);
            span_free(part);
        }
        assert_event(&event, i);
    }
}

/* Where its first byte came before the rest, a message is scanned from there; else it may be read in one go. */
static void one_byte_ahead_the_events_are_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_session scanned, read;
        struct hr_session_event first, late, early;
        print_message("row %zu\n", i);
        hr_session_init(&scanned, &limits);
        hr_session_init(&read, &limits);
        hr_session_next(&scanned, (struct hr_span){rows[i].bytes.at, 1}, &first);
        if (first.kind != HR_SESSION_MORE) {
            continue; /* that was all */
        }
        hr_session_next(&scanned, rows[i].bytes, &late);
        hr_session_next(&read, rows[i].bytes, &early);
        assert_int_equal(early.kind, late.kind);
        assert_int_equal(early.consumed, late.consumed);
        if (early.kind == HR_SESSION_REQUEST) {
            assert_int_equal(early.method, late.method);
            assert_ptr_equal(early.params.at, late.params.at);
            assert_int_equal(early.params.bytes, late.params.bytes);
            assert_int_equal(read.in_flight, scanned.in_flight);
        }
    }
}

static void a_plain_message_may_be_as_long_as_any_and_no_longer(void **state)
{
    (void)state;
    static const char bytes[] = "\x94\x00\x07\xa6"
                                "status\x91\x81\xa1x\xa3yz!";
    const struct hr_span message = {bytes, sizeof(bytes) - 1};
    for (uint32_t less = 0; less <= 1; less++) {
        const struct hr_session_limits tight = {(uint32_t)message.bytes - less, 4};
        struct hr_session session;
        struct hr_session_event event;
        print_message("less %u\n", less);
        hr_session_init(&session, &tight);
        hr_session_next(&session, message, &event);
        assert_int_equal(event.kind, less == 0 ? HR_SESSION_REQUEST : HR_SESSION_BROKEN);
    }
}

static void what_is_broken_stays_broken_and_says_so_once(void **state)
{
    (void)state;
    struct hr_session session;
    struct hr_session_event event;
    hr_session_init(&session, &limits);
    hr_session_next(&session, HR_SPAN("\x94\x00\x07\xc1"), &event);
    assert_int_equal(event.kind, HR_SESSION_BROKEN);
    assert_true(event.has_msgid);
    hr_session_next(&session,
                    HR_SPAN("\x94\x00\x07\xa6"
                            "status\x90"),
                    &event);
    assert_int_equal(event.kind, HR_SESSION_BROKEN);
    assert_false(event.has_msgid);
    assert_int_equal(event.consumed, 0);
}

static void pipelined_requests_pause_when_too_many_wait_for_answers(void **state)
{
    (void)state;
    static const char one[] = "\x94\x00\x07\xa6"
                              "status\x90";
    const size_t size = sizeof(one) - 1;
    char bytes[8 * sizeof(one)];
    struct hr_span left = {bytes, 6 * size};
    struct hr_session session;
    struct hr_session_event event;
    for (size_t i = 0; i < 6; i++) {
        memcpy(bytes + i * size, one, size);
    }
    hr_session_init(&session, &limits);
    for (unsigned taken = 0; taken < 6; taken++) {
        hr_session_next(&session, left, &event);
        if (taken >= limits.in_flight_max) {
            assert_int_equal(event.kind, HR_SESSION_PAUSED);
            assert_int_equal(event.consumed, 0);
            hr_session_answered(&session);
            hr_session_next(&session, left, &event);
        }
        assert_int_equal(event.kind, HR_SESSION_REQUEST);
        assert_int_equal(event.consumed, size);
        left = (struct hr_span){left.at + size, left.bytes - size};
    }
    hr_session_answered(&session);
    hr_session_next(&session, left, &event);
    assert_int_equal(event.kind, HR_SESSION_MORE);
}

static void what_is_refused_waits_for_no_answer(void **state)
{
    (void)state;
    struct hr_session session;
    struct hr_session_event event;
    hr_session_init(&session, &limits);
    for (unsigned i = 0; i < 3 * limits.in_flight_max; i++) {
        hr_session_next(&session,
                        HR_SPAN("\x94\x00\x07\xa3"
                                "foo\x91\x80"),
                        &event);
        assert_int_equal(event.kind, HR_SESSION_REFUSED);
        assert_int_equal(event.fault.code, HR_CODE_UNIMPLEMENTED);
    }
}

static void a_frame_of_a_megabyte_is_the_largest(void **state)
{
    (void)state;
    static char bytes[HR_FRAME_BYTES_MAX] = "\x94\x00\x07\xdb\x00\x0f\xff\xf7"; /* a text of all that is left but one */
    struct hr_session session;
    struct hr_session_event event;
    bytes[sizeof(bytes) - 1] = (char)0x90;
    hr_session_init(&session, &limits);
    hr_session_next(&session, (struct hr_span){bytes, sizeof(bytes) - 1}, &event);
    assert_int_equal(event.kind, HR_SESSION_MORE);
    hr_session_next(&session, (struct hr_span){bytes, sizeof(bytes)}, &event);
    assert_int_equal(event.kind, HR_SESSION_REFUSED); /* whole, but there is no method of a megabyte */
    assert_int_equal(event.consumed, sizeof(bytes));
    bytes[7]++;
    hr_session_init(&session, &limits);
    hr_session_next(&session, (struct hr_span){bytes, 8}, &event);
    assert_int_equal(event.kind, HR_SESSION_BROKEN);
    assert_int_equal(event.fault.code, HR_CODE_RESOURCE_EXHAUSTED);
}

/* Whoever asked is told, as far as the piece that is there says who that is. */
static void a_piece_that_the_driver_has_no_room_for_breaks_the_session(void **state)
{
    static const struct hr_span piece = {"\x94\x00\x07\xa5"
                                         "check\x91\xde\x00",
                                         12};
    (void)state;
    for (size_t bytes = 0; bytes <= piece.bytes; bytes++) {
        struct hr_session session;
        struct hr_session_event event;
        struct hr_span arrived = {piece.at, bytes};
        hr_session_init(&session, &(struct hr_session_limits){HR_FRAME_BYTES_MAX, 16});
        hr_session_next(&session, arrived, &event);
        assert_int_equal(event.kind, HR_SESSION_MORE);
        hr_session_refuse(&session, arrived, "no room", &event);
        print_message("%zu bytes\n", bytes);
        assert_int_equal(event.kind, HR_SESSION_BROKEN);
        assert_int_equal(event.has_msgid, bytes >= 3);
        assert_true(bytes < 3 || event.msgid == 7);
        assert_int_equal(event.fault.code, HR_CODE_RESOURCE_EXHAUSTED);
        hr_session_next(&session, arrived, &event);
        assert_int_equal(event.kind, HR_SESSION_BROKEN);
        assert_false(event.has_msgid);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_has_its_event),
        cmocka_unit_test(byte_by_byte_the_events_are_the_same),
        cmocka_unit_test(one_byte_ahead_the_events_are_the_same),
        cmocka_unit_test(a_plain_message_may_be_as_long_as_any_and_no_longer),
        cmocka_unit_test(what_is_broken_stays_broken_and_says_so_once),
        cmocka_unit_test(pipelined_requests_pause_when_too_many_wait_for_answers),
        cmocka_unit_test(what_is_refused_waits_for_no_answer),
        cmocka_unit_test(a_frame_of_a_megabyte_is_the_largest),
        cmocka_unit_test(a_piece_that_the_driver_has_no_room_for_breaks_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
