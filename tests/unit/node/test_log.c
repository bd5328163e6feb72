/* Log lines: both formats, the escaping of each, and where a line that is too long is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "node/log.h"
#include "node/log_fd.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define AT ((struct hr_wall){INT64_C(1769851800125999999)})
#define LOGFMT_HEAD "ts=2026-01-31T09:30:00.125Z level=info event=joined "
#define JSON_HEAD "{\"ts\":\"2026-01-31T09:30:00.125Z\",\"level\":\"info\",\"event\":\"joined\","

/* The line as a string. */
struct text {
    size_t bytes;
    char at[HR_LOG_LINE_BYTES_MAX + 1];
};

static struct text line_of(const struct hr_log_event *event, enum hr_log_format format)
{
    struct text text;
    text.bytes = hr_log_line(event, format, text.at);
    assert_in_range(text.bytes, 1, HR_LOG_LINE_BYTES_MAX);
    text.at[text.bytes] = '\0';
    assert_int_equal(strlen(text.at), text.bytes);
    assert_ptr_equal(strchr(text.at, '\n'), text.at + text.bytes - 1);
    return text;
}

static struct text line_of_field(struct hr_log_field field, enum hr_log_format format)
{
    return line_of(&(struct hr_log_event){AT, HR_LOG_INFO, "joined", 1, &field}, format);
}

/* text as a field `k`, in each format without what comes before it. */
static const struct {
    const char *text, *logfmt, *json;
} texts[] = {
    {"eu-1", "k=eu-1\n", "\"k\":\"eu-1\"}\n"},
    {"", "k=\"\"\n", "\"k\":\"\"}\n"},
    {"a b", "k=\"a b\"\n", "\"k\":\"a b\"}\n"},
    {"a=b", "k=\"a=b\"\n", "\"k\":\"a=b\"}\n"},
    {"{[,:]}", "k={[,:]}\n", "\"k\":\"{[,:]}\"}\n"},
    {"say \"hi\"", "k=\"say \\\"hi\\\"\"\n", "\"k\":\"say \\\"hi\\\"\"}\n"},
    {"\"", "k=\"\\\"\"\n", "\"k\":\"\\\"\"}\n"},
    {"a\\b", "k=\"a\\\\b\"\n", "\"k\":\"a\\\\b\"}\n"},
    {"a\nlevel=error", "k=\"a\\nlevel=error\"\n", "\"k\":\"a\\nlevel=error\"}\n"},
    {"\r\t", "k=\"\\r\\t\"\n", "\"k\":\"\\r\\t\"}\n"},
    {"\x1b[31m", "k=\"\\u001b[31m\"\n", "\"k\":\"\\u001b[31m\"}\n"},
    {"\x01\x7f", "k=\"\\u0001\\u007f\"\n", "\"k\":\"\\u0001\\u007f\"}\n"},
    {"\xc2\x9b", "k=\"\\u009b\"\n", "\"k\":\"\\u009b\"}\n"},
    {"\xc2\xa0", "k=\"\xc2\xa0\"\n", "\"k\":\"\xc2\xa0\"}\n"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "k=\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\n",
     "\"k\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"}\n"},
    {"a\xff", "k=\"a\xef\xbf\xbd\"\n", "\"k\":\"a\xef\xbf\xbd\"}\n"},
    {"\xc0\xaf", "k=\"\xef\xbf\xbd\xef\xbf\xbd\"\n", "\"k\":\"\xef\xbf\xbd\xef\xbf\xbd\"}\n"},
    {"\xe2\x82", "k=\"\xef\xbf\xbd\xef\xbf\xbd\"\n", "\"k\":\"\xef\xbf\xbd\xef\xbf\xbd\"}\n"},
    {"\xe2\x82z", "k=\"\xef\xbf\xbd\xef\xbf\xbdz\"\n", "\"k\":\"\xef\xbf\xbd\xef\xbf\xbdz\"}\n"},
};

static void texts_are_escaped_as_each_format_wants(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct hr_log_field field = hr_log_text("k", hr_span_of(texts[i].text));
        struct text logfmt = line_of_field(field, HR_LOG_LOGFMT), json = line_of_field(field, HR_LOG_JSON);
        if (strncmp(logfmt.at, LOGFMT_HEAD, strlen(LOGFMT_HEAD)) != 0 ||
            strcmp(logfmt.at + strlen(LOGFMT_HEAD), texts[i].logfmt) != 0) {
            fail_msg("row %zu: %s", i, logfmt.at);
        }
        if (strncmp(json.at, JSON_HEAD, strlen(JSON_HEAD)) != 0 ||
            strcmp(json.at + strlen(JSON_HEAD), texts[i].json) != 0) {
            fail_msg("row %zu: %s", i, json.at);
        }
    }
    struct text nul = line_of_field(hr_log_text("k", HR_SPAN("a\0b")), HR_LOG_JSON);
    assert_string_equal(nul.at, JSON_HEAD "\"k\":\"a\\u0000b\"}\n");
}

static void every_kind_of_field_is_printed(void **state)
{
    (void)state;
    const struct hr_log_event event = {AT, HR_LOG_INFO, "joined",
                                       HR_LOG_FIELDS(hr_log_int("low", INT64_MIN), hr_log_uint("high", UINT64_MAX),
                                                     hr_log_bool("yes", true), hr_log_bool("no", false),
                                                     hr_log_id("counter", (struct hr_id128){0xab, UINT64_C(1) << 63}))};
    assert_string_equal(line_of(&event, HR_LOG_LOGFMT).at,
                        LOGFMT_HEAD "low=-9223372036854775808 high=18446744073709551615 yes=true no=false "
                                    "counter=00000000000000ab8000000000000000\n");
    assert_string_equal(line_of(&event, HR_LOG_JSON).at,
                        JSON_HEAD "\"low\":-9223372036854775808,\"high\":18446744073709551615,\"yes\":true,"
                                  "\"no\":false,\"counter\":\"00000000000000ab8000000000000000\"}\n");
}

static void an_event_needs_no_fields(void **state)
{
    (void)state;
    const struct hr_log_event event = {.at = AT, .level = HR_LOG_ERROR, .name = "stopped"};
    assert_string_equal(line_of(&event, HR_LOG_LOGFMT).at, "ts=2026-01-31T09:30:00.125Z level=error event=stopped\n");
    assert_string_equal(line_of(&event, HR_LOG_JSON).at,
                        "{\"ts\":\"2026-01-31T09:30:00.125Z\",\"level\":\"error\",\"event\":\"stopped\"}\n");
}

static void times_are_utc_to_the_millisecond(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1970-01-01T00:00:00.000Z"},
        {999999, "1970-01-01T00:00:00.000Z"},
        {1000000, "1970-01-01T00:00:00.001Z"},
        {INT64_C(86399999999999), "1970-01-01T23:59:59.999Z"},
        {INT64_C(1709164800000000000), "2024-02-29T00:00:00.000Z"},
        {INT64_C(1709251199999000000), "2024-02-29T23:59:59.999Z"},
        {INT64_C(4107542400000000000), "2100-03-01T00:00:00.000Z"},
        {INT64_C(1735689599999999999), "2024-12-31T23:59:59.999Z"},
        {INT64_MAX, "2255-03-14T16:00:00.000Z"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct hr_log_event event = {.at = {rows[i].ns}, .level = HR_LOG_INFO, .name = "x"};
        struct text line = line_of(&event, HR_LOG_LOGFMT);
        if (strncmp(line.at + strlen("ts="), rows[i].text, strlen(rows[i].text)) != 0) {
            fail_msg("row %zu: %s", i, line.at);
        }
    }
}

/* As many bytes of `piece`, repeated, as fit into a line, and then none. */
static void assert_cut(size_t row, const char *piece, const char *shown, enum hr_log_format format)
{
    char long_text[4096];
    size_t bytes = 0;
    const size_t piece_bytes = strlen(piece);
    while (bytes + piece_bytes <= sizeof(long_text)) {
        memcpy(long_text + bytes, piece, piece_bytes); /* NOLINT(bugprone-not-null-terminated-result): a span */
        bytes += piece_bytes;
    }
    const struct hr_log_event event = {
        AT, HR_LOG_INFO, "joined",
        HR_LOG_FIELDS(hr_log_text("k", (struct hr_span){long_text, bytes}), hr_log_uint("after", 1))};
    struct text line = line_of(&event, format);
    const char *tail = format == HR_LOG_JSON ? "\",\"cut\":true}\n" : "cut=true\n";
    if (line.bytes + strlen(shown) + 6 < HR_LOG_LINE_BYTES_MAX ||
        strcmp(line.at + line.bytes - strlen(tail), tail) != 0) {
        fail_msg("row %zu: %zu bytes: %s", row, line.bytes, line.at);
    }
    const char *at = line.at + (format == HR_LOG_JSON ? strlen(JSON_HEAD "\"k\":\"") : strlen(LOGFMT_HEAD "k="));
    at += *at == '"';
    while (strncmp(at, shown, strlen(shown)) == 0) {
        at += strlen(shown);
    }
    const char *rest = format == HR_LOG_JSON ? tail : *at == '"' ? "\" cut=true\n" : " cut=true\n";
    if (strcmp(at, rest) != 0) {
        fail_msg("row %zu: the text ends in \"%s\"", row, at);
    }
}

static void long_text_is_cut_at_a_whole_character_and_marked(void **state)
{
    (void)state;
    static const struct {
        const char *piece, *shown;
    } rows[] = {
        {"a", "a"},
        {" ", " "},
        {"\n", "\\n"},
        {"\x1b", "\\u001b"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xff", "\xef\xbf\xbd"},
        {"\"", "\\\""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_cut(i, rows[i].piece, rows[i].shown, HR_LOG_LOGFMT);
        assert_cut(i, rows[i].piece, rows[i].shown, HR_LOG_JSON);
    }
}

/* A number is never cut in the middle, where it would be another number. Every length of the text before it. */
static void fields_that_do_not_fit_are_left_out_whole(void **state)
{
    (void)state;
    char filler[HR_LOG_LINE_BYTES_MAX];
    memset(filler, 'a', sizeof(filler));
    for (size_t bytes = 0; bytes < sizeof(filler); bytes++) {
        const struct hr_log_event event = {
            AT, HR_LOG_INFO, "joined",
            HR_LOG_FIELDS(hr_log_text("k", (struct hr_span){filler, bytes}), hr_log_uint("n", 1234567))};
        struct text logfmt = line_of(&event, HR_LOG_LOGFMT), json = line_of(&event, HR_LOG_JSON);
        bool is_whole = strstr(logfmt.at, " n=1234567\n") != NULL, is_cut = strstr(logfmt.at, " cut=true\n") != NULL;
        if (is_whole == is_cut || (is_cut && strstr(logfmt.at, " n") != NULL)) {
            fail_msg("%zu bytes: %s", bytes, logfmt.at);
        }
        is_whole = strstr(json.at, "\",\"n\":1234567}\n") != NULL;
        is_cut = strstr(json.at, "\",\"cut\":true}\n") != NULL;
        if (is_whole == is_cut || (is_cut && strstr(json.at, "\"n\"") != NULL)) {
            fail_msg("%zu bytes: %s", bytes, json.at);
        }
    }
}

static void no_text_ends_the_line_or_leaves_its_quotes(void **state)
{
    (void)state;
    struct hr_rng rng = {2026};
    for (int round = 0; round < 20000; round++) {
        char bytes[64];
        size_t count = (size_t)hr_rng_below(&rng, sizeof(bytes));
        for (size_t i = 0; i < count; i++) {
            bytes[i] = (char)hr_rng_next(&rng);
        }
        struct text line = line_of_field(hr_log_text("k", (struct hr_span){bytes, count}), HR_LOG_JSON);
        const char *at = line.at + strlen(JSON_HEAD "\"k\":\"");
        while (*at != '"') {
            assert_true((unsigned char)*at >= 0x20); /* the end of the string counts as a control too */
            at += *at == '\\' ? 2 : 1;
        }
        if (strcmp(at, "\"}\n") != 0) {
            fail_msg("seed 2026, round %d: %s", round, line.at);
        }
    }
}

struct collected {
    int lines;
    struct text last;
};

static void collect(void *context, const char *line, size_t bytes)
{
    struct collected *collected = context;
    collected->lines++;
    collected->last.bytes = bytes;
    memcpy(collected->last.at, line, bytes);
    collected->last.at[bytes] = '\0';
}

static void only_levels_from_the_least_on_reach_the_sink(void **state)
{
    (void)state;
    for (int min = HR_LOG_DEBUG; min <= HR_LOG_ERROR; min++) {
        for (int level = HR_LOG_DEBUG; level <= HR_LOG_ERROR; level++) {
            struct collected collected = {0};
            const struct hr_log log = {HR_LOG_LOGFMT, (enum hr_log_level)min, collect, &collected};
            hr_log_write(&log, &(struct hr_log_event){.at = AT, .level = (enum hr_log_level)level, .name = "x"});
            if (collected.lines != (level >= min)) {
                fail_msg("level %d of at least %d: %d lines", level, min, collected.lines);
            }
        }
    }
}

static void the_sink_gets_the_line_in_the_logs_format(void **state)
{
    (void)state;
    const struct hr_log_event event = {AT, HR_LOG_WARN, "x", HR_LOG_FIELDS(hr_log_int("n", 1))};
    for (int format = HR_LOG_LOGFMT; format <= HR_LOG_JSON; format++) {
        struct collected collected = {0};
        const struct hr_log log = {(enum hr_log_format)format, HR_LOG_DEBUG, collect, &collected};
        hr_log_write(&log, &event);
        assert_string_equal(collected.last.at, line_of(&event, (enum hr_log_format)format).at);
    }
}

static void the_descriptor_gets_whole_lines_and_losses_are_counted(void **state)
{
    (void)state;
    int ends[2];
    char got[64] = "";
    assert_int_equal(pipe(ends), 0);
    struct hr_log_fd log = {.fd = ends[1]};
    hr_log_fd_sink(&log, "one\n", 4);
    hr_log_fd_sink(&log, "two\n", 4);
    assert_int_equal(read(ends[0], got, sizeof(got) - 1), 8);
    assert_string_equal(got, "one\ntwo\n");
    assert_int_equal(log.lost_lines, 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    hr_log_fd_sink(&log, "three\n", 6);
    assert_int_equal(log.lost_lines, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_escaped_as_each_format_wants),
        cmocka_unit_test(every_kind_of_field_is_printed),
        cmocka_unit_test(an_event_needs_no_fields),
        cmocka_unit_test(times_are_utc_to_the_millisecond),
        cmocka_unit_test(long_text_is_cut_at_a_whole_character_and_marked),
        cmocka_unit_test(fields_that_do_not_fit_are_left_out_whole),
        cmocka_unit_test(no_text_ends_the_line_or_leaves_its_quotes),
        cmocka_unit_test(only_levels_from_the_least_on_reach_the_sink),
        cmocka_unit_test(the_sink_gets_the_line_in_the_logs_format),
        cmocka_unit_test(the_descriptor_gets_whole_lines_and_losses_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
