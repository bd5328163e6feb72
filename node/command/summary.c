#include "node/command/summary.h"

#include <inttypes.h>
#include <stdlib.h>

#include "node/answer.h"
#include "node/time_text.h"

struct tally {
    uint64_t asked, admitted, denied;
    int64_t worst_retry_ms;
};

struct hr_summary {
    const struct hr_limits_file *limits;
    struct tally total;
    uint64_t peeks, releases;
    struct tally rows[]; /* one for each limit, in the file's order */
};

struct hr_summary *hr_summary_new(const struct hr_limits_file *limits)
{
    struct hr_summary *summary = calloc(1, sizeof(*summary) + limits->limit_count * sizeof(struct tally));
    if (summary != NULL) {
        summary->limits = limits;
    }
    return summary;
}

void hr_summary_free(struct hr_summary *summary)
{
    free(summary);
}

/* Never is worse than any wait. */
static int64_t worse(int64_t a_ms, int64_t b_ms)
{
    if (a_ms == HR_NEVER_MS || b_ms == HR_NEVER_MS) {
        return HR_NEVER_MS;
    }
    return a_ms > b_ms ? a_ms : b_ms;
}

static void add(struct tally *tally, bool is_admitted, bool is_denied, int64_t retry_after_ms)
{
    tally->asked++;
    tally->admitted += is_admitted;
    tally->denied += is_denied;
    if (is_denied) {
        tally->worst_retry_ms = worse(tally->worst_retry_ms, retry_after_ms);
    }
}

void hr_summary_count(struct hr_summary *summary, const struct hr_decision *decision, bool peek)
{
    if (peek) {
        summary->peeks++;
        return;
    }
    add(&summary->total, decision->allowed, !decision->allowed, decision->retry_after_ms);
    for (uint32_t i = 0; i < decision->row_count; i++) {
        const struct hr_row *row = &decision->rows[i];
        add(&summary->rows[row->limit - summary->limits->limits], decision->allowed && row->allowed, !row->allowed,
            row->retry_after_ms);
    }
}

void hr_summary_count_release(struct hr_summary *summary)
{
    summary->releases++;
}

static int name_width(const struct hr_limits_file *limits)
{
    size_t width = sizeof("total") - 1;
    for (uint32_t i = 0; i < limits->limit_count; i++) {
        width = limits->limits[i].name.bytes > width ? limits->limits[i].name.bytes : width;
    }
    return (int)width;
}

static void print_row(FILE *out, int width, struct hr_span name, const char *mode, const struct tally *tally)
{
    char retry[HR_WAIT_TEXT_BYTES] = "-";
    if (tally->denied > 0) {
        hr_wait_text(tally->worst_retry_ms, retry);
    }
    (void)fprintf(out, "%-*.*s  %-7s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "  %s\n", width, (int)name.bytes, name.at,
                  mode, tally->asked, tally->admitted, tally->denied, retry);
}

void hr_summary_print(const struct hr_summary *summary, FILE *out)
{
    const struct hr_limits_file *limits = summary->limits;
    int width = name_width(limits);
    (void)fprintf(out, "%-*s  %-7s %12s %12s %12s  %s\n", width, "limit", "mode", "asked", "admitted", "denied",
                  "worst retry");
    for (uint32_t i = 0; i < limits->limit_count; i++) {
        const struct hr_limit *limit = &limits->limits[i];
        print_row(out, width, limit->name, limit->mode == HR_SHADOW ? "shadow" : "", &summary->rows[i]);
    }
    print_row(out, width, HR_SPAN("total"), "", &summary->total);
    if (summary->peeks > 0 || summary->releases > 0) {
        (void)fprintf(out, "besides: %" PRIu64 " peeks, %" PRIu64 " releases\n", summary->peeks, summary->releases);
    }
}

static void print_tally_json(FILE *out, const struct tally *tally)
{
    (void)fprintf(out,
                  "\"asked\":%" PRIu64 ",\"admitted\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"worst_retry_ms\":%" PRId64,
                  tally->asked, tally->admitted, tally->denied, tally->worst_retry_ms);
}

void hr_summary_print_json(const struct hr_summary *summary, FILE *out)
{
    const struct hr_limits_file *limits = summary->limits;
    (void)fputs("{\"limits\":[", out);
    for (uint32_t i = 0; i < limits->limit_count; i++) {
        const struct hr_limit *limit = &limits->limits[i];
        (void)fprintf(out, "%s{\"name\":\"%.*s\",\"mode\":\"%s\",", i > 0 ? "," : "", (int)limit->name.bytes,
                      limit->name.at, hr_mode_name(limit->mode));
        print_tally_json(out, &summary->rows[i]);
        (void)fputs("}", out);
    }
    (void)fputs("],\"total\":{", out);
    print_tally_json(out, &summary->total);
    (void)fprintf(out, "},\"peeks\":%" PRIu64 ",\"releases\":%" PRIu64 "}\n", summary->peeks, summary->releases);
}
