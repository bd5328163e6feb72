/* HTTP session: tables of raw bytes and what is answered; every one of them also cut short at each length, in single
 * bytes, and at random; and the edges of its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/http_session.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BYTES_MAX 16384
#define ANSWERS_MAX 16

static bool find_page(void *context, struct hr_span path, struct hr_http_page *ret_page)
{
    (void)context;
    bool is_ready = hr_span_equal(path, HR_SPAN("/readyz"));
    if (!is_ready && !hr_span_equal(path, HR_SPAN("/livez"))) {
        return false;
    }
    *ret_page = (struct hr_http_page){is_ready ? 503 : 200, "text/plain", HR_SPAN("body of it\n")};
    return true;
}

static const struct hr_http_pages pages = {.find = find_page};

/* All that a session answered. */
struct outcome {
    unsigned count;
    unsigned statuses[ANSWERS_MAX];
    bool is_over;
    size_t bytes;
    char sent[BYTES_MAX];
};

static void append(struct outcome *outcome, struct hr_span span)
{
    assert_true(span.bytes <= sizeof(outcome->sent) - 1 - outcome->bytes);
    if (span.bytes > 0) {
        memcpy(outcome->sent + outcome->bytes, span.at, span.bytes);
    }
    outcome->bytes += span.bytes;
    outcome->sent[outcome->bytes] = '\0';
}

static void take_answer(struct outcome *outcome, const struct hr_http_answer *answer)
{
    assert_false(outcome->is_over);
    assert_true(outcome->count < ANSWERS_MAX);
    assert_memory_equal(answer->head.at, "HTTP/1.1 ", 9);
    assert_memory_equal(answer->head.at + answer->head.bytes - 4, "\r\n\r\n", 4);
    outcome->statuses[outcome->count++] = (unsigned)strtoul(answer->head.at + 9, NULL, 10);
    outcome->is_over = answer->is_last;
    append(outcome, answer->head);
    append(outcome, answer->body);
}

/* One piece of what arrives, in a heap block of just its size. */
static void feed(struct hr_http_session *session, struct hr_span piece, struct outcome *outcome)
{
    char *copy = malloc(piece.bytes > 0 ? piece.bytes : 1);
    assert_non_null(copy);
    memcpy(copy, piece.at, piece.bytes);
    for (size_t at = 0; at < piece.bytes;) {
        struct hr_http_answer answer;
        struct hr_span rest = {copy + at, piece.bytes - at};
        size_t consumed = hr_http_session_next(session, &pages, rest, &answer);
        assert_true(consumed <= rest.bytes && (answer.head.bytes > 0 || consumed == rest.bytes));
        at += consumed;
        if (answer.head.bytes > 0) {
            take_answer(outcome, &answer);
        }
    }
    free(copy);
}

static void run_whole(struct hr_span bytes, struct outcome *outcome)
{
    struct hr_http_session session;
    hr_http_session_init(&session);
    *outcome = (struct outcome){0};
    feed(&session, bytes, outcome);
}

struct row {
    const char *bytes;
    unsigned statuses[4];
    bool is_over;
};

#define H "Host: a\r\n"

static const struct row rows[] = {
    {"GET /livez HTTP/1.1\r\n" H "\r\n", {200}, false},
    {"GET /readyz HTTP/1.1\r\n" H "\r\n", {503}, false},
    {"HEAD /livez HTTP/1.1\r\n" H "\r\n", {200}, false},
    {"GET /livez?full=1 HTTP/1.1\r\n" H "\r\n", {200}, false},
    {"GET http://a/livez HTTP/1.1\r\n" H "\r\n", {200}, false},
    {"GET http://a HTTP/1.1\r\n" H "\r\n", {404}, false},
    {"GET HTTP://A:1/livez?q HTTP/1.1\r\n" H "\r\n", {200}, false},
    {"GET /livez/ HTTP/1.1\r\n" H "\r\n", {404}, false},
    {"GET /live HTTP/1.1\r\n" H "\r\n", {404}, false},
    {"GET / HTTP/1.1\r\n" H "\r\n", {404}, false},
    {"GET /LIVEZ HTTP/1.1\r\n" H "\r\n", {404}, false},
    {"POST /livez HTTP/1.1\r\n" H "\r\n", {405}, false},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", {405}, false},
    {"CONNECT a:1 HTTP/1.1\r\n" H "\r\nGET /livez HTTP/1.1\r\n" H "\r\n", {405}, true},
    /* connections that stay open, or not */
    {"GET /livez HTTP/1.1\r\n" H "Connection: close\r\n\r\nGET /livez HTTP/1.1\r\n" H "\r\n", {200}, true},
    {"GET /livez HTTP/1.0\r\n\r\nGET /livez HTTP/1.0\r\n\r\n", {200}, true},
    {"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /a HTTP/1.1\r\n" H "\r\n", {200, 404}, false},
    {"GET /livez HTTP/1.1\r\n" H "\r\nHEAD /a HTTP/1.1\r\n" H "\r\nGET /readyz HTTP/1.1\r\n" H "\r\n",
     {200, 404, 503},
     false},
    {"\r\n\r\nGET /livez HTTP/1.1\r\n" H "\r\n\r\nGET /livez HTTP/1.1\r\n" H "\r\n", {200, 200}, false},
    {"GET /livez HTTP/1.1\r\n" H "Connection: upgrade\r\nUpgrade: h2c\r\n\r\nGET /a HTTP/1.1\r\n" H "\r\n",
     {200, 404},
     false},
    /* bodies: dropped while small */
    {"GET /livez HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabcGET /a HTTP/1.1\r\n" H "\r\n", {200, 404}, false},
    {"PUT /livez HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /a HTTP/1.1\r\n" H "\r\n",
     {405, 404},
     false},
    {"POST /livez HTTP/1.1\r\n" H "Content-Length: 1025\r\n\r\n", {413}, true},
    {"POST /livez HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n", {400}, true},
    {"POST /livez HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", {400}, true},
    {"POST /livez HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", {400}, true},
    {"POST /livez HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n", {400}, true},
    /* no HTTP, or not ours */
    {"GET /livez HTTP/1.1\r\n\r\n", {400}, true},
    {"GET /livez HTTP/1.1\r\n" H H "\r\n", {400}, true},
    {"GET /livez HTTP/1.1\r\nHosts: a\r\nXHost: b\r\nHos: c\r\n\r\n", {400}, true},
    {"GET /livez HTTP/1.1\r\nhOsT: a\r\n\r\n", {200}, false},
    {"GET /livez HTTP/1.0\r\n" H H "\r\n", {400}, true},
    {"GET /livez HTTP/2.0\r\n" H "\r\n", {505}, true},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {505}, true},
    {"GET /livez\r\n\r\n", {505}, true}, /* that was HTTP/0.9 */
    {"GET  HTTP/1.1\r\n" H "\r\n", {400}, true},
    {"FETCH /livez HTTP/1.1\r\n" H "\r\n", {400}, true},
    {"HTTP/1.1 200 OK\r\n\r\n", {400}, true},
    {"GET /livez HTTP/1.1\r\nA b: c\r\n" H "\r\n", {400}, true},
    {"\x16\x03\x01\x02", {400}, true},
    {"\x94\x01\xa5", {400}, true},
};

static void each_row_is_answered_as_told(void **state)
{
    (void)state;
    static struct outcome outcome;
    for (size_t i = 0; i < COUNT(rows); i++) {
        print_message("row %zu\n", i);
        run_whole(hr_span_of(rows[i].bytes), &outcome);
        for (unsigned k = 0; k < COUNT(rows[i].statuses); k++) {
            assert_int_equal(k < outcome.count ? outcome.statuses[k] : 0, rows[i].statuses[k]);
        }
        assert_int_equal(outcome.is_over, rows[i].is_over);
    }
}

static void the_cuts_between_pieces_never_change_an_answer(void **state)
{
    (void)state;
    static struct outcome whole, pieces;
    struct hr_rng rng = {1};
    for (size_t i = 0; i < COUNT(rows) * 20; i++) {
        print_message("row %zu, round %zu\n", i / 20, i % 20);
        struct hr_span rest = hr_span_of(rows[i / 20].bytes);
        struct hr_http_session session;
        hr_http_session_init(&session);
        run_whole(rest, &whole);
        pieces = (struct outcome){0};
        while (rest.bytes > 0) {
            size_t bytes = i % 20 == 0 ? 1 : 1 + hr_rng_below(&rng, rest.bytes < 20 ? rest.bytes : 20);
            struct hr_http_session moved = session; /* it holds no pointer into itself */
            feed(&moved, (struct hr_span){rest.at, bytes}, &pieces);
            session = moved;
            rest = (struct hr_span){rest.at + bytes, rest.bytes - bytes};
        }
        assert_int_equal(pieces.count, whole.count);
        assert_int_equal(pieces.is_over, whole.is_over);
        assert_string_equal(pieces.sent, whole.sent);
    }
}

/* What a prefix was answered is the beginning of what the whole is answered. */
static void a_prefix_is_answered_no_further_than_it_goes(void **state)
{
    (void)state;
    static struct outcome whole, prefix;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct hr_span bytes = hr_span_of(rows[i].bytes);
        print_message("row %zu\n", i);
        run_whole(bytes, &whole);
        for (size_t cut = 0; cut < bytes.bytes; cut++) {
            run_whole((struct hr_span){bytes.at, cut}, &prefix);
            assert_true(prefix.count <= whole.count && prefix.bytes <= whole.bytes);
            assert_memory_equal(prefix.sent, whole.sent, prefix.bytes);
        }
    }
}

static void answers_are_these_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *request, *answer;
    } cases[] = {
        {"GET /livez HTTP/1.1\r\n" H "\r\n",
         "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\nCache-Control: no-store\r\n\r\n"
         "body of it\n"},
        {"HEAD /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\nCache-Control: no-store\r\n"
         "Connection: keep-alive\r\n\r\n"},
        {"DELETE /livez HTTP/1.0\r\n\r\n",
         "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n"
         "Cache-Control: no-store\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\nMethod Not Allowed\n"},
        {"nonsense\r\n", "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 12\r\n"
                         "Cache-Control: no-store\r\nConnection: close\r\n\r\nBad Request\n"},
    };
    static struct outcome outcome;
    for (size_t i = 0; i < COUNT(cases); i++) {
        print_message("case %zu\n", i);
        run_whole(hr_span_of(cases[i].request), &outcome);
        assert_string_equal(outcome.sent, cases[i].answer);
    }
}

/* before, then so many 'x', then after. */
static unsigned status_of(const char *before, size_t filler, const char *after)
{
    static char bytes[4 * BYTES_MAX];
    static struct outcome outcome;
    struct hr_span begin = hr_span_of(before), end = hr_span_of(after);
    assert_true(begin.bytes + filler + end.bytes <= sizeof(bytes));
    memset(bytes, 'x', sizeof(bytes));
    memcpy(bytes, begin.at, begin.bytes);
    memcpy(bytes + begin.bytes + filler, end.at, end.bytes);
    run_whole((struct hr_span){bytes, begin.bytes + filler + end.bytes}, &outcome);
    return outcome.count == 0 ? 0 : outcome.statuses[0];
}

static void heads_and_bodies_are_bounded_to_the_byte(void **state)
{
    (void)state;
    static const char field[] = "GET /livez HTTP/1.1\r\n" H "X: ", after[] = "\r\n\r\n";
    static const char length[] = "GET /livez HTTP/1.1\r\n" H "Content-Length: 1024\r\n\r\n";
    static const char chunk[] = "GET /livez HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3f3\r\n";
    size_t room = HR_HTTP_HEAD_BYTES_MAX - (sizeof(field) - 1) - (sizeof(after) - 1);
    assert_int_equal(status_of(field, room, after), 200);
    assert_int_equal(status_of(field, room + 1, after), 431);
    assert_int_equal(status_of(field, 3 * BYTES_MAX, ""), 431);
    assert_int_equal(status_of("GET /", HR_HTTP_HEAD_BYTES_MAX - 6, ""), 0);
    assert_int_equal(status_of("GET /", HR_HTTP_HEAD_BYTES_MAX - 5, ""), 414);
    assert_int_equal(status_of("GET /livez?", 2000, " HTTP/1.1\r\n" H "\r\n"), 200);
    assert_int_equal(status_of("GET /livez", 2000, " HTTP/1.1\r\n" H "\r\n"), 404);
    assert_int_equal(status_of(length, 1023, ""), 0);
    assert_int_equal(status_of(length, 1024, ""), 200);
    /* 5 bytes of chunk head, 0x3f3 of chunk, 2 of its end: 6 are left of 1,024 */
    assert_int_equal(status_of(chunk, 0x3f3, "\r\n0\r\n\r\n"), 200);
    assert_int_equal(status_of(chunk, 0x3f3, "\r\n00\r\n\r\n"), 200);
    assert_int_equal(status_of(chunk, 0x3f3, "\r\n000\r\n\r\n"), 413);
}

static void blank_lines_ahead_are_bounded(void **state)
{
    (void)state;
    static char bytes[2 * HR_HTTP_HEAD_BYTES_MAX];
    static struct outcome outcome;
    memset(bytes, '\n', sizeof(bytes));
    run_whole((struct hr_span){bytes, sizeof(bytes)}, &outcome);
    assert_int_equal(outcome.count, 1);
    assert_int_equal(outcome.statuses[0], 431);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_answered_as_told),
        cmocka_unit_test(the_cuts_between_pieces_never_change_an_answer),
        cmocka_unit_test(a_prefix_is_answered_no_further_than_it_goes),
        cmocka_unit_test(answers_are_these_bytes),
        cmocka_unit_test(heads_and_bodies_are_bounded_to_the_byte),
        cmocka_unit_test(blank_lines_ahead_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
