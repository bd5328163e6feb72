/* Times as people write and read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "node/time_text.h"

#define REFUSED INT64_C(-1)

struct row {
    const char *text;
    int64_t us;
};

static void check_rows(bool (*parse)(struct hr_span, int64_t *), const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t us = REFUSED;
        bool good = parse(hr_span_of(rows[i].text), &us);
        if (good != (rows[i].us != REFUSED) || us != rows[i].us) {
            fail_msg("row %zu, \"%s\": wanted %lld, got %lld", i, rows[i].text, (long long)rows[i].us, (long long)us);
        }
    }
}

static void a_duration_is_exact_to_the_microsecond(void **state)
{
    static const struct row rows[] = {
        {"0s", 0},
        {"1us", 1},
        {"1.1s", 1100000},
        {"250ms", 250000},
        {"0.001ms", 1},
        {"1.5m", 90000000},
        {"2h", 7200000000},
        {"366d", 31622400000000},
        {"0.000001s", 1},
        {"1.1000000s", 1100000},
        {"9000000000s", 9000000000000000},
        {"9000000000.000001s", REFUSED},
        {"9000000001s", REFUSED},
        {"99999999999999999999999s", REFUSED},
        {"0.5us", REFUSED},
        {"0.0000001s", REFUSED},
        {"0.0000001d", REFUSED},
        {"", REFUSED},
        {"s", REFUSED},
        {"1", REFUSED},
        {"1 s", REFUSED},
        {"-1s", REFUSED},
        {"1.s", REFUSED},
        {".5s", REFUSED},
        {"1e3s", REFUSED},
        {"1h30m", REFUSED},
        {"1w", REFUSED},
        {"1S", REFUSED},
    };
    (void)state;
    check_rows(hr_duration_parse, rows, sizeof(rows) / sizeof(rows[0]));
}

static void an_instant_is_read_as_rfc_3339_says(void **state)
{
    static const struct row rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2024-01-01T00:00:00Z", 1704067200000000},
        {"2024-02-29T12:34:56.789012Z", 1709210096789012},
        {"2024-03-31T01:59:59.5+01:00", 1711846799500000},
        {"2024-03-31T01:59:59-00:30", 1711852199000000},
        {"1970-01-01T00:30:00+00:30", 0},
        {"2255-03-14T16:00:00Z", 9000000000000000},
        {"2255-03-14T16:00:00.000001Z", REFUSED},
        {"1969-12-31T23:59:59Z", REFUSED},
        {"1970-01-01T00:00:00+00:01", REFUSED},
        {"2023-02-29T00:00:00Z", REFUSED},
        {"2100-02-29T00:00:00Z", REFUSED},
        {"2024-00-01T00:00:00Z", REFUSED},
        {"2024-13-01T00:00:00Z", REFUSED},
        {"2024-04-31T00:00:00Z", REFUSED},
        {"2024-01-01T24:00:00Z", REFUSED},
        {"2024-01-01T00:60:00Z", REFUSED},
        {"2016-12-31T23:59:60Z", REFUSED},
        {"2024-01-01T00:00:00", REFUSED},
        {"2024-01-01 00:00:00Z", REFUSED},
        {"2024-01-01T00:00:00.Z", REFUSED},
        {"2024-01-01T00:00:00.0000001Z", REFUSED},
        {"2024-01-01T00:00:00Zx", REFUSED},
        {"2024-1-1T00:00:00Z", REFUSED},
        {"2024-01-01", REFUSED},
        {"", REFUSED},
    };
    (void)state;
    check_rows(hr_instant_parse, rows, sizeof(rows) / sizeof(rows[0]));
}

static void a_wait_is_told_in_two_units_rounded_up(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {HR_NEVER_MS, "never"}, {0, "0"},         {1, "1ms"},           {999, "999ms"},
        {1000, "1s"},           {1250, "1.25s"},  {1001, "1.001s"},     {59999, "59.999s"},
        {60000, "1m"},          {60001, "1m 1s"}, {125000, "2m 5s"},    {3600000, "1h"},
        {3600001, "1h 1m"},     {86400000, "1d"}, {273600000, "3d 4h"}, {HR_ANSWER_MAX, "104249991d 9h"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[HR_WAIT_TEXT_BYTES];
        hr_wait_text(rows[i].ms, text);
        if (strcmp(text, rows[i].text) != 0) {
            fail_msg("row %zu: wanted %s, got %s", i, rows[i].text, text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_is_exact_to_the_microsecond),
        cmocka_unit_test(an_instant_is_read_as_rfc_3339_says),
        cmocka_unit_test(a_wait_is_told_in_two_units_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
