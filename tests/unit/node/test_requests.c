/* One line of a requests file: what is accepted, and that everything else is refused with words that name the fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/command/requests_jansson.h"

#define NUMBER 8 /* of the line that is decoded */

static int setup(void **state)
{
    *state = hr_request_decoder_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    hr_request_decoder_free(*state);
    return 0;
}

static enum hr_err decode(void **state, const char *text, struct hr_request_line *ret_line,
                          struct hr_problem *ret_problem)
{
    memset(ret_problem, 0, sizeof(*ret_problem));
    return hr_request_decode(*state, hr_span_of(text), NUMBER, ret_line, ret_problem);
}

static void must_decode(void **state, const char *text, struct hr_request_line *ret_line)
{
    struct hr_problem problem;
    if (decode(state, text, ret_line, &problem) != HR_OK) {
        fail_msg("%s: %s", text, problem.what);
    }
}

static void assert_span(struct hr_span span, const char *text)
{
    assert_int_equal(span.bytes, strlen(text));
    assert_memory_equal(span.at, text, span.bytes);
}

static void a_check_has_all_its_fields(void **state)
{
    struct hr_request_line line;
    must_decode(
        state,
        "{\"at_us\":1700000000000001,\"attributes\":{\"api_key\":\"k1\",\"route\":\"\"},\"cost\":3,\"peek\":true}",
        &line);
    assert_int_equal(line.at_us, 1700000000000001);
    assert_int_equal(line.release_line, 0);
    assert_int_equal(line.request.cost, 3);
    assert_true(line.request.peek);
    assert_int_equal(line.request.serial, NUMBER);
    assert_int_equal(line.request.attribute_count, 2);
    assert_span(line.request.attributes[0].name, "api_key");
    assert_span(line.request.attributes[0].value, "k1");
    assert_span(line.request.attributes[1].name, "route");
    assert_span(line.request.attributes[1].value, "");
}

static void cost_is_one_and_peek_is_false_by_default(void **state)
{
    struct hr_request_line line;
    must_decode(state, "{\"attributes\":{\"a\":\"b\"},\"at_us\":0}", &line);
    assert_int_equal(line.request.cost, 1);
    assert_false(line.request.peek);
}

static void a_release_names_an_earlier_line(void **state)
{
    struct hr_request_line line;
    must_decode(state, "{\"at_us\":5,\"op\":\"release\",\"line\":7}", &line);
    assert_int_equal(line.at_us, 5);
    assert_int_equal(line.release_line, 7);
}

static void whatever_json_allows_is_read(void **state)
{
    static const struct {
        const char *text, *value;
    } rows[] = {
        {"{\"at_us\":1,\"attributes\":{\"a\":\"\\u00fc\"}}", "\xc3\xbc"},
        {"{\"at_us\":1,\"attributes\":{\"a\":\"\xc3\xbc\"}}\r", "\xc3\xbc"},
        {" { \"at_us\" : 1 , \"attributes\" : { \"a\" : \"x\" } } \t", "x"},
        {"{\"at_us\":1,\"attributes\":{\"\\u0061\":\"\\ud83d\\ude00\"}}\n", "\xf0\x9f\x98\x80"},
        {"{\"at_us\":-0,\"attributes\":{\"a\":\"\\\"\\\\\\/\\t\"}}", "\"\\/\t"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_request_line line;
        must_decode(state, rows[i].text, &line);
        assert_span(line.request.attributes[0].name, "a");
        assert_span(line.request.attributes[0].value, rows[i].value);
    }
}

#define A "\"attributes\":{\"a\":\"b\"}"

/* Each row: a line, and a part of what must be said about it. */
static const struct {
    const char *text, *says;
} refused[] = {
    {"", "blank"},
    {" \t\r", "blank"},
    {"x", "not valid JSON"},
    {"{\"at_us\":1," A "", "not valid JSON"},
    {"{\"at_us\":1," A "} {}", "not valid JSON"},
    {"{\"at_us\":1," A ",}", "not valid JSON"},
    {"{'at_us':1}", "not valid JSON"},
    {"[]", "must be a JSON object"},
    {"null", "not valid JSON"},
    {"{}", "at_us is missing"},
    {"{" A "}", "at_us is missing"},
    {"{\"at_us\":1}", "attributes is missing"},
    {"{\"at_us\":1,\"cost\":1}", "attributes is missing"},
    {"{\"at_us\":1," A ",\"id\":\"x\"}", "unknown key \"id\""},
    {"{\"at_us\":1," A ",\"\":\"x\"}", "unknown key \"\""},
    {"{\"at_us\":1,\"at_us\":1," A "}", "duplicate"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"b\",\"a\":\"b\"}}", "duplicate"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"b\",\"\\u0061\":\"b\"}}", "duplicate"},
    {"{\"at_us\":-1," A "}", "at_us must"},
    {"{\"at_us\":1.0," A "}", "at_us must"},
    {"{\"at_us\":1e3," A "}", "at_us must"},
    {"{\"at_us\":\"1\"," A "}", "at_us must"},
    {"{\"at_us\":null," A "}", "at_us must"},
    {"{\"at_us\":9000000000000001," A "}", "at_us must"},
    {"{\"at_us\":99999999999999999999," A "}", "too big integer"},
    {"{\"at_us\":01," A "}", "not valid JSON"},
    {"{\"at_us\":1," A ",\"cost\":-1}", "cost must"},
    {"{\"at_us\":1," A ",\"cost\":9007199254740992}", "cost must"},
    {"{\"at_us\":1," A ",\"cost\":1.5}", "cost must"},
    {"{\"at_us\":1," A ",\"cost\":true}", "cost must"},
    {"{\"at_us\":1," A ",\"peek\":1}", "peek must"},
    {"{\"at_us\":1," A ",\"peek\":null}", "peek must"},
    {"{\"at_us\":1,\"attributes\":{}}", "1 to 32 pairs, not 0"},
    {"{\"at_us\":1,\"attributes\":[]}", "attributes must be an object"},
    {"{\"at_us\":1,\"attributes\":{\"a\":1}}", "attribute a must be a string"},
    {"{\"at_us\":1,\"attributes\":{\"a\":null}}", "attribute a must be a string"},
    {"{\"at_us\":1,\"attributes\":{\"\":\"b\"}}", "attribute's name"},
    {"{\"at_us\":1,\"attributes\":{\"A\":\"b\"}}", "attribute's name"},
    {"{\"at_us\":1,\"attributes\":{\"a b\":\"b\"}}", "attribute's name"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\\u0000\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\x80\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\xc0\xaf\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\xed\xa0\x80\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\\ud83d\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"attributes\":{\"a\":\"\n\"}}", "not valid JSON"},
    {"{\"at_us\":1,\"op\":\"release\"}", "line is missing"},
    {"{\"at_us\":1,\"line\":1}", "attributes is missing"},
    {"{\"op\":\"release\",\"line\":1}", "at_us is missing"},
    {"{\"at_us\":1,\"op\":\"renew\",\"line\":1}", "op must"},
    {"{\"at_us\":1,\"op\":1,\"line\":1}", "op must"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":0}", "line must"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":8}", "line must"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":9}", "line must"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":1.0}", "line must"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":1," A "}", "attributes has no place in a release"},
    {"{\"at_us\":1,\"op\":\"release\",\"line\":1,\"cost\":1}", "cost has no place in a release"},
    {"{\"at_us\":1," A ",\"line\":1}", "line has no place in a check"},
};

static void a_malformed_line_is_refused_with_words(void **state)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct hr_request_line line;
        struct hr_problem problem;
        if (decode(state, refused[i].text, &line, &problem) != HR_E_INVALID) {
            fail_msg("row %zu was accepted: %s", i, refused[i].text);
        }
        if (strstr(problem.what, refused[i].says) == NULL) {
            fail_msg("row %zu: wanted words with \"%s\", got \"%s\"", i, refused[i].says, problem.what);
        }
    }
}

static void the_first_line_can_release_nothing(void **state)
{
    struct hr_request_line line;
    struct hr_problem problem;
    struct hr_span text = HR_SPAN("{\"at_us\":1,\"op\":\"release\",\"line\":1}");
    assert_int_equal(hr_request_decode(*state, text, 1, &line, &problem), HR_E_INVALID);
    assert_int_equal(hr_request_decode(*state, text, 2, &line, &problem), HR_OK);
}

static void a_raw_nul_is_refused(void **state)
{
    static const char text[] = "{\"at_us\":1,\"attributes\":{\"a\":\"x\0y\"}}";
    static const char blank[] = "\0";
    struct hr_request_line line;
    struct hr_problem problem;
    assert_int_equal(hr_request_decode(*state, HR_SPAN(text), NUMBER, &line, &problem), HR_E_INVALID);
    assert_int_equal(hr_request_decode(*state, HR_SPAN(blank), NUMBER, &line, &problem), HR_E_INVALID);
}

/* Appends count times the text. */
static char *repeat(char *at, const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, text);
    }
    return at;
}

/* Pairs of names and values of so many bytes, each of them written as an escape: no valid line is larger than the
 * largest of these. */
struct shape {
    size_t pairs, name_bytes, value_bytes;
};

static enum hr_err decode_shape(void **state, struct shape shape, struct hr_request_line *ret_line)
{
    struct hr_problem problem;
    char *text = malloc(HR_REQUEST_LINE_BYTES_MAX);
    assert_non_null(text);
    char *at = stpcpy(text, "{\"at_us\":1,\"attributes\":{");
    for (size_t i = 0; i < shape.pairs; i++) {
        char last[8] = {'\\', 'u', '0', '0', '6', "0123456789abcdef"[1 + i % 15], '\0'};
        char before[8] = {'\\', 'u', '0', '0', '6', "0123456789abcdef"[1 + i / 15], '\0'};
        at = stpcpy(at, i > 0 ? ",\"" : "\"");
        at = repeat(at, "\\u007a", shape.name_bytes - 2);
        at = stpcpy(stpcpy(stpcpy(at, before), last), "\":\"");
        at = stpcpy(repeat(at, "\\u0076", shape.value_bytes), "\"");
    }
    at = stpcpy(at, "}}");
    enum hr_err err =
        hr_request_decode(*state, (struct hr_span){text, (size_t)(at - text)}, NUMBER, ret_line, &problem);
    free(text);
    return err;
}

static void the_largest_valid_line_is_read_and_one_more_of_anything_is_refused(void **state)
{
    struct hr_request_line line;
    assert_int_equal(decode_shape(state, (struct shape){32, 64, 1024}, &line), HR_OK);
    assert_int_equal(line.request.attribute_count, 32);
    assert_int_equal(line.request.attributes[31].name.bytes, 64);
    assert_int_equal(line.request.attributes[31].value.bytes, 1024);
    assert_int_equal(decode_shape(state, (struct shape){33, 64, 1024}, &line), HR_E_INVALID);
    assert_int_equal(decode_shape(state, (struct shape){32, 65, 1024}, &line), HR_E_INVALID);
    assert_int_equal(decode_shape(state, (struct shape){32, 64, 1025}, &line), HR_E_INVALID);
}

static void a_line_that_holds_too_much_is_refused_and_the_next_one_is_read(void **state)
{
    static const char *const parts[] = {"[", "[1,", "{\"a\":", "1", "\"a\",", " ", "\\u0061"};
    struct hr_request_line line;
    struct hr_problem problem;
    char *text = malloc(HR_REQUEST_LINE_BYTES_MAX + 16);
    assert_non_null(text);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        char *at = repeat(stpcpy(text, "["), parts[i], HR_REQUEST_LINE_BYTES_MAX / strlen(parts[i]));
        assert_int_equal(
            hr_request_decode(*state, (struct hr_span){text, (size_t)(at - text)}, NUMBER, &line, &problem),
            HR_E_INVALID);
        must_decode(state, "{\"at_us\":1," A "}", &line);
    }
    free(text);
}

static void every_prefix_of_a_line_is_refused(void **state)
{
    static const char text[] =
        "{\"at_us\":17,\"attributes\":{\"api_key\":\"k\\u00fc\",\"r\":\"\xc3\xbc\"},\"cost\":3,\"peek\":true}";
    struct hr_request_line line;
    struct hr_problem problem;
    for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
        char *copy = malloc(cut + 1); /* of its own size, so that a sanitizer sees a read past the end */
        assert_non_null(copy);
        memcpy(copy, text, cut);
        assert_int_equal(hr_request_decode(*state, (struct hr_span){copy, cut}, NUMBER, &line, &problem), HR_E_INVALID);
        free(copy);
    }
    must_decode(state, text, &line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_check_has_all_its_fields),
        cmocka_unit_test(cost_is_one_and_peek_is_false_by_default),
        cmocka_unit_test(a_release_names_an_earlier_line),
        cmocka_unit_test(whatever_json_allows_is_read),
        cmocka_unit_test(a_malformed_line_is_refused_with_words),
        cmocka_unit_test(the_first_line_can_release_nothing),
        cmocka_unit_test(a_raw_nul_is_refused),
        cmocka_unit_test(the_largest_valid_line_is_read_and_one_more_of_anything_is_refused),
        cmocka_unit_test(a_line_that_holds_too_much_is_refused_and_the_next_one_is_read),
        cmocka_unit_test(every_prefix_of_a_line_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
