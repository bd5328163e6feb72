#include "node/decision_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/answer.h"
#include "node/time_text.h"
#include "node/value_text.h"
#include "rpc/hex.h"

#define GREEN "\033[32m"
#define RED "\033[31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

#define NUMBER_BYTES 21 /* 2^64 - 1 and a NUL */

bool hr_colour_is_wanted(FILE *out)
{
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if ((no_colour != NULL && no_colour[0] != '\0') || terminal == NULL || strcmp(terminal, "dumb") == 0) {
        return false;
    }
    return isatty(fileno(out)) == 1;
}

/* For people */

static void print_painted(FILE *out, bool colour, const char *paint, const char *text)
{
    (void)fprintf(out, "%s%s%s", colour ? paint : "", text, colour ? PLAIN : "");
}

static void print_denial(FILE *out, const struct hr_told_decision *decision)
{
    char retry[HR_WAIT_TEXT_BYTES];
    if (decision->decided_by.bytes > 0) {
        (void)fputs(" by ", out);
        hr_text_print(out, decision->decided_by);
    }
    if (decision->retry_after_ms == HR_NEVER_MS) {
        (void)fputs(", never to be admitted: the cost is above what the limit can hold", out);
    } else {
        hr_wait_text(decision->retry_after_ms, retry);
        (void)fprintf(out, ", retry after %s", retry);
    }
}

static void print_verdict(FILE *out, const struct hr_told_decision *decision, const struct hr_decision_look *look)
{
    if (!decision->allowed) {
        print_painted(out, look->colour, RED, look->peek ? "would be denied" : "denied");
        print_denial(out, decision);
    } else {
        print_painted(out, look->colour, GREEN, look->peek ? "would be allowed" : "allowed");
    }
    if (decision->action == HR_DELAY) {
        char delay[HR_WAIT_TEXT_BYTES];
        hr_wait_text(decision->delay_ms, delay);
        (void)fprintf(out, " after a delay of %s", delay);
    }
    (void)fputc('\n', out);
}

/* The widest of each column. */
struct widths {
    int name, remaining, limit, retry, reset;
};

static int wider(int width, int other)
{
    return other > width ? other : width;
}

static int number_width(uint64_t number)
{
    char text[NUMBER_BYTES];
    return snprintf(text, sizeof(text), "%" PRIu64, number);
}

static int wait_width(int64_t wait_ms)
{
    char text[HR_WAIT_TEXT_BYTES];
    hr_wait_text(wait_ms, text);
    return (int)strlen(text);
}

static struct widths measure(const struct hr_told_decision *decision)
{
    struct widths widths = {sizeof("limit") - 1, sizeof("remaining") - 1, sizeof("of") - 1, sizeof("retry") - 1,
                            sizeof("reset") - 1};
    for (uint32_t i = 0; i < decision->row_count; i++) {
        const struct hr_told_row *row = &decision->rows[i];
        widths.name = wider(
            widths.name, (int)(row->name.bytes < HR_LIMIT_NAME_BYTES_MAX ? row->name.bytes : HR_LIMIT_NAME_BYTES_MAX));
        widths.remaining = wider(widths.remaining, number_width(row->remaining));
        widths.limit = wider(widths.limit, number_width(row->limit));
        widths.retry = wider(widths.retry, wait_width(row->retry_after_ms));
        widths.reset = wider(widths.reset, wait_width(row->reset_after_ms));
    }
    return widths;
}

/* What only some rows have. */
static void print_notes(FILE *out, const struct hr_told_row *row)
{
    if (row->mode == HR_SHADOW) {
        (void)fputs("  shadow", out);
    }
    if (row->wants_share) {
        (void)fputs("  this region's share is spent", out);
    }
    if (row->has_lease) {
        char digits[HR_LEASE_TEXT_BYTES];
        hr_hex_write(row->lease, digits);
        (void)fprintf(out, "  lease %.*s", HR_LEASE_TEXT_BYTES, digits);
    }
}

static void print_row(FILE *out, const struct hr_told_row *row, const struct widths *widths, bool colour)
{
    char retry[HR_WAIT_TEXT_BYTES], reset[HR_WAIT_TEXT_BYTES];
    hr_wait_text(row->retry_after_ms, retry);
    hr_wait_text(row->reset_after_ms, reset);
    (void)fputs("  ", out);
    hr_text_print(out, row->name);
    (void)fprintf(out, "%*s  ", row->name.bytes < (size_t)widths->name ? widths->name - (int)row->name.bytes : 0, "");
    print_painted(out, colour,
                  row->allowed             ? GREEN
                  : row->mode == HR_SHADOW ? YELLOW
                                           : RED,
                  row->allowed ? "allows" : "denies");
    (void)fprintf(out, "  %*" PRIu64 "  %*" PRIu64 "  %*s  %*s", widths->remaining, row->remaining, widths->limit,
                  row->limit, widths->retry, row->allowed ? "-" : retry, widths->reset, reset);
    print_notes(out, row);
    (void)fputc('\n', out);
}

static void print_rows(FILE *out, const struct hr_told_decision *decision, bool colour)
{
    const struct widths widths = measure(decision);
    if (decision->row_count == 0) {
        (void)fputs("  no limit touches this request\n", out);
        return;
    }
    (void)fprintf(out, "  %-*s          %*s  %*s  %*s  %*s\n", widths.name, "limit", widths.remaining, "remaining",
                  widths.limit, "of", widths.retry, "retry", widths.reset, "reset");
    for (uint32_t i = 0; i < decision->row_count; i++) {
        print_row(out, &decision->rows[i], &widths, colour);
    }
}

void hr_decision_print(FILE *out, const struct hr_told_decision *decision, const struct hr_decision_look *look)
{
    print_verdict(out, decision, look);
    print_rows(out, decision, look->colour);
    (void)fputs("answered by ", out);
    hr_text_print(out, decision->node);
    (void)fputs(" in ", out);
    hr_text_print(out, decision->region);
    (void)fputs(decision->degraded ? ", without a counter's owner, who could not be asked\n" : "\n", out);
}

/* For scripts */

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

static void print_row_json(FILE *out, const struct hr_told_row *row)
{
    (void)fputs("{\"name\":", out);
    hr_text_print_json(out, row->name);
    (void)fprintf(out,
                  ",\"allowed\":%s,\"mode\":\"%s\",\"limit\":%" PRIu64 ",\"remaining\":%" PRIu64
                  ",\"retry_after_ms\":%" PRId64 ",\"reset_after_ms\":%" PRId64,
                  bool_text(row->allowed), hr_mode_name(row->mode), row->limit, row->remaining, row->retry_after_ms,
                  row->reset_after_ms);
    (void)fputs(row->wants_share ? ",\"share\":true" : "", out);
    if (row->has_lease) {
        char digits[HR_LEASE_TEXT_BYTES];
        hr_hex_write(row->lease, digits);
        (void)fprintf(out, ",\"lease\":\"%.*s\"", HR_LEASE_TEXT_BYTES, digits);
    }
    (void)fputc('}', out);
}

void hr_decision_print_json(FILE *out, const struct hr_told_decision *decision)
{
    (void)fprintf(out, "{\"allowed\":%s,\"action\":\"%s\",\"decided_by\":", bool_text(decision->allowed),
                  hr_action_name(decision->action));
    if (decision->decided_by.bytes > 0) {
        hr_text_print_json(out, decision->decided_by);
    } else {
        (void)fputs("null", out);
    }
    (void)fprintf(out, ",\"retry_after_ms\":%" PRId64 ",\"delay_ms\":%" PRId64 ",\"limits\":[",
                  decision->retry_after_ms, decision->delay_ms);
    for (uint32_t i = 0; i < decision->row_count; i++) {
        (void)fputs(i > 0 ? "," : "", out);
        print_row_json(out, &decision->rows[i]);
    }
    (void)fputs("],\"node\":", out);
    hr_text_print_json(out, decision->node);
    (void)fputs(",\"region\":", out);
    hr_text_print_json(out, decision->region);
    (void)fputs(decision->degraded ? ",\"degraded\":true}\n" : "}\n", out);
}
