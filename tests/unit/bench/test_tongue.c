/* The load client's tongues: each finds the answers in what arrives, however it was cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/tongue.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ANSWERS_MAX 4

/* A span in a table. */
#define ROW(literal)                   \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

#define RPC_REQUEST            \
    "\x94\x00\xce\0\0\0\0\xa5" \
    "check\x91\x80"
#define GRPC_REQUEST         \
    "\0\0\1\1\4\0\0\0\1\x83" \
    "\0\0\2\0\1\0\0\0\1xx"

struct seen {
    uint32_t answers, replies;
    size_t reply_bytes;
    uint32_t numbers[ANSWERS_MAX];
    bool errors[ANSWERS_MAX];
};

struct row {
    const char *name;
    struct hr_span request, arrives;
    struct seen seen;
};

static const struct row rows[] = {
    {"fixed:3", ROW("k"), ROW("abcdefghi"), {.answers = 3, .numbers = {0, 1, 2}}},
    {"rpc",
     ROW(RPC_REQUEST),
     ROW("\x94\1\7\xc0\x81\xa1"
         "a\xc3"
         "\x94\1\xcd\1\0\xa4"
         "X: y\xc0"),
     {.answers = 2, .numbers = {7, 256}, .errors = {false, true}}},
    {"resp",
     ROW("k"),
     ROW(":5\r\n"
         "*3\r\n:1\r\n$2\r\n\r\n\r\n$-1\r\n"
         "-ERR no\r\n"
         "*0\r\n"),
     {.answers = 4, .numbers = {0, 1, 2, 3}, .errors = {false, false, true, false}}},
    /* Settings and a ping are acknowledged; the second stream brings no data, the third is reset. */
    {"grpc",
     ROW(GRPC_REQUEST),
     ROW("\0\0\0\4\0\0\0\0\0"
         "\0\0\0\4\1\0\0\0\0"
         "\0\0\x8\6\0\0\0\0\0"
         "12345678"
         "\0\0\1\1\4\0\0\0\1h"
         "\0\0\2\0\0\0\0\0\1dd"
         "\0\0\1\1\5\0\0\0\1t"
         "\0\0\1\1\5\0\0\0\3t"
         "\0\0\4\3\0\0\0\0\5"
         "eeee"),
     {.answers = 3, .replies = 2, .reply_bytes = 9 + 17, .numbers = {0, 1, 2}, .errors = {false, true, true}}},
};

static void take_all(struct tongue_wire *wire, struct hr_span arrived, size_t *begin, struct seen *seen)
{
    struct tongue_answer answer;
    size_t consumed;
    while (tongue_take(wire, (struct hr_span){arrived.at + *begin, arrived.bytes - *begin}, &consumed, &answer) ==
           TONGUE_TOOK) {
        *begin += consumed;
        seen->replies += answer.reply_bytes > 0;
        seen->reply_bytes += answer.reply_bytes;
        if (answer.is_answer) {
            assert_true(seen->answers < ANSWERS_MAX);
            seen->errors[seen->answers] = answer.is_error;
            seen->numbers[seen->answers++] = answer.number;
        }
    }
}

static bool is_same(const struct seen *a, const struct seen *b)
{
    return a->answers == b->answers && a->replies == b->replies && a->reply_bytes == b->reply_bytes &&
           memcmp(a->numbers, b->numbers, sizeof(a->numbers)) == 0 &&
           memcmp(a->errors, b->errors, sizeof(a->errors)) == 0;
}

/* What is seen when the bytes come in two pieces; the first one stands in memory of just its size. */
static void assert_seen(const struct row *row, size_t cut)
{
    static struct tongue_wire wire;
    struct tongue tongue;
    struct seen seen = {.answers = 0};
    size_t begin = 0;
    char *piece = malloc(cut + 1);
    assert_non_null(piece);
    memcpy(piece, row->arrives.at, cut);
    assert_true(tongue_init(&tongue, row->name, row->request));
    tongue_wire_init(&wire, &tongue);
    take_all(&wire, (struct hr_span){piece, cut}, &begin, &seen);
    free(piece);
    take_all(&wire, row->arrives, &begin, &seen);
    if (!is_same(&seen, &row->seen) || begin != row->arrives.bytes) {
        fail_msg("%s, cut at %zu: %u answers, %zu of %zu bytes", row->name, cut, seen.answers, begin,
                 row->arrives.bytes);
    }
}

static void answers_are_the_same_however_they_were_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t cut = 0; cut <= rows[i].arrives.bytes; cut++) {
            assert_seen(&rows[i], cut);
        }
    }
}

static void a_request_gets_its_number_where_its_tongue_has_it(void **state)
{
    static const struct {
        const char *name;
        struct hr_span request, sent; /* the latter as number 258 */
    } cases[] = {
        {"fixed:3", ROW("k"), ROW("k")},
        {"resp", ROW("k"), ROW("k")},
        {"rpc", ROW(RPC_REQUEST),
         ROW("\x94\x00\xce\0\0\1\2\xa5"
             "check\x91\x80")},
        {"grpc", ROW(GRPC_REQUEST),
         ROW("\0\0\1\1\4\0\0\2\5\x83"
             "\0\0\2\0\1\0\0\2\5xx")},
    };
    static struct tongue_wire wire;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tongue tongue;
        char sent[64];
        assert_true(tongue_init(&tongue, cases[i].name, cases[i].request));
        tongue_wire_init(&wire, &tongue);
        memcpy(sent, cases[i].request.at, cases[i].request.bytes);
        assert_true(tongue_number(&wire, sent, 258));
        if (memcmp(sent, cases[i].sent.at, cases[i].sent.bytes) != 0) {
            fail_msg("%s", cases[i].name);
        }
    }
}

static void a_peer_is_sent_no_more_than_its_window(void **state)
{
    static const char more[] = "\0\0\4\x8\0\0\0\0\0\0\0\0\2";
    static struct tongue_wire wire;
    struct tongue tongue;
    struct tongue_answer answer;
    char request[] = GRPC_REQUEST;
    size_t consumed;
    uint32_t sent = 0;
    (void)state;
    assert_true(tongue_init(&tongue, "grpc", HR_SPAN(GRPC_REQUEST)));
    tongue_wire_init(&wire, &tongue);
    while (tongue_number(&wire, request, sent)) {
        sent++;
    }
    assert_int_equal(sent, 65535 / 2); /* each has two bytes of data */
    assert_int_equal(tongue_take(&wire, HR_SPAN(more), &consumed, &answer), TONGUE_TOOK);
    assert_false(answer.is_answer);
    assert_true(tongue_number(&wire, request, sent));
    assert_false(tongue_number(&wire, request, sent + 1));
}

static void what_is_no_request_or_no_answer_is_refused(void **state)
{
    static const struct {
        const char *name;
        struct hr_span request;
    } cases[] = {
        {"fixed:0", ROW("k")},
        {"tongs", ROW("k")},
        {"rpc", ROW("\x94\x00\x01\xa5"
                    "check\x91\x80")},
        {"grpc", ROW("\0\0\x9\0\1\0\0\0\1xx")},
    };
    static struct tongue_wire wire;
    struct tongue tongue;
    struct tongue_answer answer;
    size_t consumed;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (tongue_init(&tongue, cases[i].name, cases[i].request)) {
            fail_msg("case %zu", i);
        }
    }
    assert_true(tongue_init(&tongue, "resp", HR_SPAN("k")));
    tongue_wire_init(&wire, &tongue);
    assert_int_equal(tongue_take(&wire, HR_SPAN("HTTP/1.1 400 Bad Request\r\n"), &consumed, &answer), TONGUE_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_however_they_were_cut),
        cmocka_unit_test(a_request_gets_its_number_where_its_tongue_has_it),
        cmocka_unit_test(a_peer_is_sent_no_more_than_its_window),
        cmocka_unit_test(what_is_no_request_or_no_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
