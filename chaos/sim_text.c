#include "chaos/sim_text.h"

#include <inttypes.h>

#define MS(ns) ((ns) / HR_NS_PER_MS)

static void print_strikes(const struct hr_sim_outcome *outcome, FILE *out)
{
    bool is_first = true;
    (void)fputs("faults  ", out);
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (outcome->strikes[strike] > 0) {
            (void)fprintf(out, "%s%s %" PRIu64, is_first ? "" : ", ", hr_strike_forms[strike].name,
                          outcome->strikes[strike]);
            is_first = false;
        }
    }
    (void)fputs(is_first ? "none\n" : "\n", out);
}

static void print_counts(const struct hr_sim_outcome *outcome, FILE *out)
{
    const struct hr_sim_counts *counts = &outcome->counts;
    (void)fprintf(out,
                  "asked %" PRIu64 ", admitted %" PRIu64 ", denied %" PRIu64 ", refused %" PRIu64 ", lost %" PRIu64
                  ", repeated %" PRIu64 ", waited %" PRIu64 ", degraded %" PRIu64 "\n",
                  counts->asked, counts->admitted, counts->denied, counts->refused, counts->lost, counts->repeated,
                  counts->waited, counts->degraded);
    (void)fprintf(out, "crashes %" PRIu64 ", syncs %" PRIu64 ", failed %" PRIu64 ", batches lost %" PRIu64 "\n",
                  counts->crashes, counts->syncs, counts->syncs_failed, counts->batches_lost);
}

void hr_sim_print(const struct hr_sim_told *told, FILE *out)
{
    const struct hr_sim_options *options = told->options;
    const struct hr_sim_outcome *outcome = told->outcome;
    bool has_failed = outcome->first != HR_CHECK_COUNT;
    (void)fprintf(out, "seed %" PRIu64 ": %s, trace %016" PRIx64 ", %u regions of %u nodes, %" PRId64 " s, %u faults\n",
                  options->seed, has_failed ? "FAILED" : "passed", outcome->trace, options->shape.regions,
                  options->shape.nodes, options->lasts_ns / HR_NS_PER_S, told->schedule->count);
    print_strikes(outcome, out);
    print_counts(outcome, out);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        const struct hr_verdict *verdict = &outcome->verdicts[check];
        const char *word = verdict->violated > 0 ? "VIOLATED" : verdict->checked > 0 ? "held" : "not asked";
        (void)fprintf(out, "  %-24s %-9s %12" PRIu64 " checks", hr_check_forms[check].name, word, verdict->checked);
        if (verdict->violated > 0) {
            (void)fprintf(out, ", %" PRIu64 " violations, first at %" PRId64 " ms: %s", verdict->violated,
                          MS(verdict->first_at), verdict->first);
        }
        (void)fputc('\n', out);
    }
}

/* --- JSON --- */

static void json_text(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            (void)fprintf(out, "\\%c", c);
        } else if (c < 0x20) {
            (void)fprintf(out, "\\u%04x", c);
        } else {
            (void)fputc(c, out);
        }
    }
    (void)fputc('"', out);
}

static void json_verdicts(const struct hr_sim_outcome *outcome, FILE *out)
{
    (void)fputs("\"invariants\":[", out);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        const struct hr_verdict *verdict = &outcome->verdicts[check];
        (void)fprintf(out, "%s{\"name\":\"%s\",\"checked\":%" PRIu64 ",\"violated\":%" PRIu64, check > 0 ? "," : "",
                      hr_check_forms[check].name, verdict->checked, verdict->violated);
        if (verdict->violated > 0) {
            (void)fprintf(out, ",\"first_ms\":%" PRId64 ",\"first\":", MS(verdict->first_at));
            json_text(verdict->first, out);
        }
        (void)fputc('}', out);
    }
    (void)fputs("]", out);
}

static void json_strikes(const struct hr_sim_told *told, FILE *out)
{
    (void)fputs(",\"faults\":[", out);
    for (uint32_t i = 0; i < told->schedule->count; i++) {
        const struct hr_striking *striking = &told->schedule->all[i];
        const struct hr_strike_form *form = &hr_strike_forms[striking->strike];
        char place[HR_SIM_PLACE_BYTES_MAX];
        (void)fprintf(out, "%s{\"from_ms\":%" PRId64 ",\"until_ms\":%" PRId64 ",\"kind\":\"%s\",\"places\":[",
                      i > 0 ? "," : "", MS(striking->from), MS(striking->until), form->name);
        for (uint32_t k = 0; k < form->places; k++) {
            hr_sim_place_print(striking->places[k], told->options->shape, place);
            (void)fprintf(out, "%s\"%s\"", k > 0 ? "," : "", place);
        }
        (void)fputc(']', out);
        if (form->unit[0] != '\0') {
            (void)fprintf(out, ",\"number\":%" PRId64 ",\"unit\":\"%s\"", striking->number, form->unit);
        }
        (void)fputc('}', out);
    }
    (void)fputs("]", out);
}

static void json_timelines(const struct hr_sim_told *told, FILE *out)
{
    (void)fprintf(out, ",\"slot_ms\":%" PRId64 ",\"timelines\":[", MS(told->options->lasts_ns / HR_SIM_SLOTS));
    for (uint32_t i = 0; i < told->outcome->timeline_count; i++) {
        const struct hr_sim_timeline *timeline = &told->outcome->timelines[i];
        const struct hr_limit *limit = &told->options->limits->limits[timeline->limit];
        (void)fprintf(out, "%s{\"limit\":\"%.*s\",\"offered\":[", i > 0 ? "," : "", (int)limit->name.bytes,
                      limit->name.at);
        for (uint32_t slot = 0; slot < HR_SIM_SLOTS; slot++) {
            (void)fprintf(out, "%s%" PRIu64, slot > 0 ? "," : "", timeline->slots[slot].offered);
        }
        (void)fputs("],\"admitted\":[", out);
        for (uint32_t slot = 0; slot < HR_SIM_SLOTS; slot++) {
            (void)fprintf(out, "%s%" PRIu64, slot > 0 ? "," : "", timeline->slots[slot].admitted);
        }
        (void)fputs("]}", out);
    }
    (void)fputs("]", out);
}

static void json_latency(const struct hr_sim_outcome *outcome, FILE *out)
{
    (void)fputs(",\"latency_us\":{", out);
    for (enum hr_phase phase = 0; phase < HR_PHASE_COUNT; phase++) {
        const struct hr_histogram *histogram = &outcome->latency[phase];
        (void)fprintf(out,
                      "%s\"%s\":{\"count\":%" PRIu64 ",\"p50\":%" PRIu64 ",\"p99\":%" PRIu64 ",\"p999\":%" PRIu64
                      ",\"max\":%" PRIu64 "}",
                      phase > 0 ? "," : "", hr_phase_names[phase], histogram->count,
                      hr_histogram_quantile(histogram, 500) / 1000, hr_histogram_quantile(histogram, 990) / 1000,
                      hr_histogram_quantile(histogram, 999) / 1000, histogram->max_ns / 1000);
    }
    (void)fputs("}", out);
}

void hr_sim_print_json(const struct hr_sim_told *told, FILE *out)
{
    const struct hr_sim_options *options = told->options;
    const struct hr_sim_counts *counts = &told->outcome->counts;
    (void)fprintf(out,
                  "{\"seed\":%" PRIu64 ",\"passed\":%s,\"trace\":\"%016" PRIx64 "\",\"regions\":%u,\"nodes\":%u"
                  ",\"seconds\":%" PRId64 ",\"rps\":%u,\"limits\":",
                  options->seed, told->outcome->first == HR_CHECK_COUNT ? "true" : "false", told->outcome->trace,
                  options->shape.regions, options->shape.nodes, options->lasts_ns / HR_NS_PER_S, options->rps);
    json_text(told->limits_name, out);
    (void)fputs(",\"command\":", out);
    json_text(told->command, out);
    (void)fprintf(out,
                  ",\"asked\":%" PRIu64 ",\"admitted\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"refused\":%" PRIu64
                  ",\"lost\":%" PRIu64 ",\"repeated\":%" PRIu64 ",\"waited\":%" PRIu64 ",\"crashes\":%" PRIu64 ",",
                  counts->asked, counts->admitted, counts->denied, counts->refused, counts->lost, counts->repeated,
                  counts->waited, counts->crashes);
    json_verdicts(told->outcome, out);
    json_strikes(told, out);
    json_timelines(told, out);
    json_latency(told->outcome, out);
    (void)fputs("}\n", out);
}
