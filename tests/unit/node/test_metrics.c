/* Metrics text: whole lines that must be there, the bounded writer at every size, and promtool's own judgement where it
 * is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/metrics_text.h"

#define TEXT_BYTES_MAX 32768
#define TEXT(literal)                  \
    {                                  \
        (literal), sizeof(literal) - 1 \
    } /* a constant, which HR_SPAN is not everywhere */

static struct hr_histogram decisions, commits;

static const struct hr_metrics_limit limits[] = {
    {.name = TEXT("key-rps"), .allowed = 10, .denied = 2},
    {.name = TEXT("odd\"name\\with\nall"), .allowed = UINT64_MAX, .shadow_denied = 7},
};
static const struct hr_metrics_tally methods[] = {{TEXT("check"), 11}, {TEXT("limits.put"), 1}};
static const struct hr_metrics_tally errors[] = {{TEXT("NOT_FOUND"), 3}};
static const struct hr_metrics_tally members[] = {{TEXT("alive"), 5}, {TEXT("dead"), 1}};
static const struct hr_metrics_listener listeners[] = {{TEXT("rpc"), 4, 9, 1}, {TEXT("http"), 1, 2, 0}};

static const struct hr_metrics_source source = {
    .version = TEXT("0.1.0"),
    .started_at_unix_ns = UINT64_C(1700000000000000000),
    .limits = limits,
    .limit_count = 2,
    .decisions = &decisions,
    .methods = {methods, 2},
    .errors = {errors, 1},
    .degraded = 5,
    .counters = {100, 1000},
    .leases = {1, 10},
    .log_blocks = {2, 20},
    .replies = {3, 30},
    .store = {.lag_ns = 1500000000,
              .commits = &commits,
              .failures = 6,
              .damaged_records = 7,
              .damaged_bytes = 70,
              .map_bytes = 4096,
              .map_bytes_max = 8192},
    .reload = {.is_ok = true, .ok_at_unix_ns = UINT64_C(1700000000000000007), .limits_loaded = 2},
    .listeners = listeners,
    .listener_count = 2,
    .members = {members, 2},
    .view = 17,
};

static int fill_histograms(void **state)
{
    (void)state;
    hr_histogram_add(&decisions, 10000);
    hr_histogram_add(&decisions, 10001);
    hr_histogram_add(&decisions, UINT64_C(2000000000));
    hr_histogram_add(&commits, 5000000);
    return 0;
}

/* The text as a string on the heap. */
static char *write_text(void)
{
    char *text = malloc(TEXT_BYTES_MAX);
    assert_non_null(text);
    size_t bytes = hr_metrics_write(&source, TEXT_BYTES_MAX, text);
    assert_in_range(bytes, 1, TEXT_BYTES_MAX - 1);
    text[bytes] = '\0';
    return text;
}

static void every_number_is_told_under_its_name(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "\n# TYPE headroom_decisions_total counter\n",
        "\nheadroom_build_info{version=\"0.1.0\"} 1\n",
        "\nheadroom_start_timestamp_seconds 1700000000\n",
        "\nheadroom_decisions_total{limit=\"key-rps\",result=\"allowed\"} 10\n",
        "\nheadroom_decisions_total{limit=\"key-rps\",result=\"denied\"} 2\n",
        "\nheadroom_decisions_total{limit=\"odd\\\"name\\\\with\\nall\",result=\"allowed\"} 18446744073709551615\n",
        "\nheadroom_decisions_total{limit=\"odd\\\"name\\\\with\\nall\",result=\"shadow_denied\"} 7\n",
        "\nheadroom_degraded_decisions_total 5\n",
        "\nheadroom_decision_duration_seconds_bucket{le=\"0.00001\"} 1\n",
        "\nheadroom_decision_duration_seconds_bucket{le=\"0.000025\"} 2\n",
        "\nheadroom_decision_duration_seconds_bucket{le=\"1\"} 2\n",
        "\nheadroom_decision_duration_seconds_bucket{le=\"+Inf\"} 3\n",
        "\nheadroom_decision_duration_seconds_sum 2.000020001\n",
        "\nheadroom_decision_duration_seconds_count 3\n",
        "\nheadroom_requests_total{method=\"check\"} 11\n",
        "\nheadroom_requests_total{method=\"limits.put\"} 1\n",
        "\nheadroom_errors_total{code=\"NOT_FOUND\"} 3\n",
        "\nheadroom_counters 100\n",
        "\nheadroom_counters_max 1000\n",
        "\nheadroom_leases 1\n",
        "\nheadroom_log_blocks 2\n",
        "\nheadroom_replies_bytes 3\n",
        "\nheadroom_store_lag_seconds 1.5\n",
        "\nheadroom_store_commit_duration_seconds_sum 0.005\n",
        "\nheadroom_store_failures_total 6\n",
        "\nheadroom_store_damaged_records 7\n",
        "\nheadroom_store_damaged_bytes 70\n",
        "\nheadroom_store_map_bytes 4096\n",
        "\nheadroom_limits_last_reload_successful 1\n",
        "\nheadroom_limits_last_reload_success_timestamp_seconds 1700000000.000000007\n",
        "\nheadroom_limits_loaded 2\n",
        "\nheadroom_connections{listener=\"rpc\"} 4\n",
        "\nheadroom_connections_accepted_total{listener=\"http\"} 2\n",
        "\nheadroom_connections_refused_total{listener=\"rpc\"} 1\n",
        "\n# TYPE headroom_members gauge\n",
        "\nheadroom_members{state=\"alive\"} 5\n",
        "\nheadroom_members{state=\"dead\"} 1\n",
        "\nheadroom_members_view 17\n",
    };
    char *text = write_text();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        print_message("%zu: %s", i, lines[i] + 1);
        assert_non_null(strstr(text, lines[i]));
    }
    free(text);
}

/* In a block of exactly that size, so that a sanitizer sees the first byte behind it. */
static void a_text_that_does_not_fit_is_measured_and_nothing_is_written_behind_the_room(void **state)
{
    (void)state;
    char *whole = write_text();
    size_t wanted = strlen(whole);
    for (size_t room = 0; room <= wanted; room++) {
        char *part = malloc(room + 1);
        assert_non_null(part);
        part[room] = '#';
        assert_int_equal(hr_metrics_write(&source, room, part), wanted);
        assert_int_equal(part[room], '#');
        if (room == wanted) {
            assert_memory_equal(part, whole, wanted);
        }
        free(part);
    }
    free(whole);
}

static void promtool_has_no_remark(void **state)
{
    (void)state;
    if (system("command -v promtool >/dev/null") != 0) {
        print_message("promtool is not installed: its check is skipped\n");
        skip();
    }
    char *text = write_text();
    FILE *promtool = popen("promtool check metrics 2>&1", "w");
    assert_non_null(promtool);
    assert_int_equal(fwrite(text, 1, strlen(text), promtool), strlen(text));
    assert_int_equal(pclose(promtool), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_told_under_its_name),
        cmocka_unit_test(a_text_that_does_not_fit_is_measured_and_nothing_is_written_behind_the_room),
        cmocka_unit_test(promtool_has_no_remark),
    };
    return cmocka_run_group_tests(tests, fill_histograms, NULL);
}
