/* Decisions as the command prints them: the lines for people, the bytes for scripts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/decision_text.h"

#define TEXT(literal)                  \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

static const struct hr_told_decision allowed = {
    .allowed = true,
    .action = HR_ALLOW,
    .node = TEXT("eu-1"),
    .region = TEXT("eu"),
    .row_count = 2,
    .rows = {{TEXT("a-longer-name"), true, false, HR_ENFORCE, 100, 98, 0, 40, {0, 0}, false},
             {TEXT("jobs"), true, true, HR_ENFORCE, 9007199254740991, 4, 0, 60000, {0x0123456789abcdef, 1}, false}},
};

static const struct hr_told_decision denied = {
    .action = HR_DENY,
    .decided_by = TEXT("key-rps"),
    .retry_after_ms = 1200,
    .node = TEXT("eu-1"),
    .region = TEXT("eu"),
    .degraded = true,
    .row_count = 2,
    .rows = {{TEXT("key-rps"), false, false, HR_ENFORCE, 100, 0, 1200, 2000, {0, 0}, false},
             {TEXT("trial"), false, false, HR_SHADOW, 50, 0, HR_NEVER_MS, 0, {0, 0}, false}},
};

static const struct hr_told_decision never = {
    .action = HR_DENY,
    .decided_by = TEXT("k"),
    .retry_after_ms = HR_NEVER_MS,
    .node = TEXT("n"),
    .region = TEXT("r"),
};

static const struct hr_told_decision delayed = {
    .allowed = true,
    .action = HR_DELAY,
    .delay_ms = 500,
    .node = TEXT("n\033[2J\n\xff"),
    .region = TEXT("r\"\\\xc3\xa9"),
};

static void assert_prints(const struct hr_told_decision *decision, const struct hr_decision_look *look,
                          const char *wanted)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    if (look != NULL) {
        hr_decision_print(out, decision, look);
    } else {
        hr_decision_print_json(out, decision);
    }
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void people_get_a_verdict_and_aligned_rows(void **state)
{
    static const struct hr_decision_look plain = {false, false};
    (void)state;
    assert_prints(&allowed, &plain,
                  "allowed\n"
                  "  limit                  remaining                of  retry  reset\n"
                  "  a-longer-name  allows         98               100      -   40ms\n"
                  "  jobs           allows          4  9007199254740991      -     1m"
                  "  lease 0123456789abcdef0000000000000001\n"
                  "answered by eu-1 in eu\n");
    assert_prints(&denied, &plain,
                  "denied by key-rps, retry after 1.2s\n"
                  "  limit            remaining   of  retry  reset\n"
                  "  key-rps  denies          0  100   1.2s     2s\n"
                  "  trial    denies          0   50  never      0  shadow\n"
                  "answered by eu-1 in eu, without a counter's owner, who could not be asked\n");
}

static void a_denial_for_ever_says_so(void **state)
{
    static const struct hr_decision_look plain = {false, false}, peek = {true, false};
    (void)state;
    assert_prints(&never, &plain,
                  "denied by k, never to be admitted: the cost is above what the limit can hold\n"
                  "  no limit touches this request\nanswered by n in r\n");
    assert_prints(&never, &peek,
                  "would be denied by k, never to be admitted: the cost is above what the limit can hold\n"
                  "  no limit touches this request\nanswered by n in r\n");
}

static void a_delay_is_told_and_controls_are_held_off(void **state)
{
    static const struct hr_decision_look plain = {false, false};
    (void)state;
    assert_prints(&delayed, &plain,
                  "allowed after a delay of 500ms\n  no limit touches this request\n"
                  "answered by n?[2J?? in r\"\\\xc3\xa9\n");
}

static void colour_marks_the_verdicts_alone(void **state)
{
    static const struct hr_decision_look colour = {false, true};
    (void)state;
    assert_prints(&denied, &colour,
                  "\033[31mdenied\033[0m by key-rps, retry after 1.2s\n"
                  "  limit            remaining   of  retry  reset\n"
                  "  key-rps  \033[31mdenies\033[0m          0  100   1.2s     2s\n"
                  "  trial    \033[33mdenies\033[0m          0   50  never      0  shadow\n"
                  "answered by eu-1 in eu, without a counter's owner, who could not be asked\n");
}

static void scripts_get_the_fields_in_the_order_of_the_contract(void **state)
{
    (void)state;
    assert_prints(&denied, NULL,
                  "{\"allowed\":false,\"action\":\"deny\",\"decided_by\":\"key-rps\",\"retry_after_ms\":1200,"
                  "\"delay_ms\":0,\"limits\":["
                  "{\"name\":\"key-rps\",\"allowed\":false,\"mode\":\"enforce\",\"limit\":100,\"remaining\":0,"
                  "\"retry_after_ms\":1200,\"reset_after_ms\":2000},"
                  "{\"name\":\"trial\",\"allowed\":false,\"mode\":\"shadow\",\"limit\":50,\"remaining\":0,"
                  "\"retry_after_ms\":-1,\"reset_after_ms\":0}],"
                  "\"node\":\"eu-1\",\"region\":\"eu\",\"degraded\":true}\n");
    assert_prints(&delayed, NULL,
                  "{\"allowed\":true,\"action\":\"delay\",\"decided_by\":null,\"retry_after_ms\":0,\"delay_ms\":500,"
                  "\"limits\":[],\"node\":\"n\\u001b[2J\\u000a\\ufffd\",\"region\":\"r\\\"\\\\\xc3\xa9\"}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(people_get_a_verdict_and_aligned_rows),
        cmocka_unit_test(a_denial_for_ever_says_so),
        cmocka_unit_test(a_delay_is_told_and_controls_are_held_off),
        cmocka_unit_test(colour_marks_the_verdicts_alone),
        cmocka_unit_test(scripts_get_the_fields_in_the_order_of_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
