/* A decision as JSON: the bytes that scripts rely on, and the room that they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "node/answer.h"

static void assert_line(const char *line, size_t bytes, const char *wanted)
{
    assert_int_equal(bytes, strlen(wanted));
    assert_memory_equal(line, wanted, bytes);
}

static void a_decision_has_its_fields_in_the_order_of_the_contract(void **state)
{
    static const struct hr_limit jobs = {.name = {"jobs", 4}, .rule = {.capacity = 10}};
    static const struct hr_limit trial = {.name = {"trial", 5}, .rule = {.capacity = 2}, .mode = HR_SHADOW};
    static struct hr_decision decision = {
        .allowed = true,
        .action = HR_DELAY,
        .delay_ms = 500,
        .row_count = 2,
        .rows = {{.limit = &jobs,
                  .allowed = true,
                  .has_lease = true,
                  .remaining = 9,
                  .reset_after_ms = 60000,
                  .lease = {0x0123456789abcdef, 1}},
                 {.limit = &trial, .retry_after_ms = HR_NEVER_MS}},
    };
    static char line[HR_ANSWER_BYTES_MAX];
    (void)state;
    assert_line(
        line, hr_answer_decision(&decision, line),
        "{\"allowed\":true,\"action\":\"delay\",\"decided_by\":null,\"retry_after_ms\":0,\"delay_ms\":500,\"limits\":["
        "{\"name\":\"jobs\",\"allowed\":true,\"mode\":\"enforce\",\"limit\":10,\"remaining\":9,\"retry_after_ms\":0,"
        "\"reset_after_ms\":60000,\"lease\":\"0123456789abcdef0000000000000001\"},"
        "{\"name\":\"trial\",\"allowed\":false,\"mode\":\"shadow\",\"limit\":2,\"remaining\":0,\"retry_after_ms\":-1,"
        "\"reset_after_ms\":0}]}\n");
}

static void a_denial_names_the_limit_that_decided(void **state)
{
    static const struct hr_limit jobs = {.name = {"jobs", 4}};
    static const struct hr_decision decision = {
        .action = HR_DENY, .decided_by = &jobs, .retry_after_ms = HR_ANSWER_MAX};
    static char line[HR_ANSWER_BYTES_MAX];
    (void)state;
    assert_line(line, hr_answer_decision(&decision, line),
                "{\"allowed\":false,\"action\":\"deny\",\"decided_by\":\"jobs\",\"retry_after_ms\":9007199254740991,"
                "\"delay_ms\":0,\"limits\":[]}\n");
}

static void a_release_says_whether_there_was_a_lease(void **state)
{
    static char line[HR_ANSWER_BYTES_MAX];
    (void)state;
    assert_line(line, hr_answer_released(true, line), "{\"released\":true}\n");
    assert_line(line, hr_answer_released(false, line), "{\"released\":false}\n");
}

static void the_largest_answer_fits_its_room(void **state)
{
    static char name[HR_LIMIT_NAME_BYTES_MAX];
    static struct hr_decision decision;
    static char line[HR_ANSWER_BYTES_MAX];
    memset(name, 'n', sizeof(name));
    const struct hr_limit limit = {.name = {name, sizeof(name)}, .rule = {.capacity = UINT64_MAX}};
    (void)state;
    decision = (struct hr_decision){false, HR_DELAY, &limit, INT64_MIN, INT64_MIN, HR_TOUCHED_MAX, {{0}}};
    for (uint32_t i = 0; i < HR_TOUCHED_MAX; i++) {
        decision.rows[i] = (struct hr_row){.limit = &limit,
                                           .has_lease = true,
                                           .remaining = UINT64_MAX,
                                           .retry_after_ms = INT64_MIN,
                                           .reset_after_ms = INT64_MIN};
    }
    size_t bytes = hr_answer_decision(&decision, line);
    assert_true(bytes <= sizeof(line));
    assert_int_equal(line[bytes - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_has_its_fields_in_the_order_of_the_contract),
        cmocka_unit_test(a_denial_names_the_limit_that_decided),
        cmocka_unit_test(a_release_says_whether_there_was_a_lease),
        cmocka_unit_test(the_largest_answer_fits_its_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
