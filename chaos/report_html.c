#include <inttypes.h>

#include "chaos/page.h"
#include "chaos/sim_text.h"

static void put_string(const char *text, FILE *out)
{
    hr_page_text(hr_span_of(text), out);
}

/* --- the top of the page --- */

static void put_head(const struct hr_sim_told *told, FILE *out)
{
    const struct hr_sim_options *options = told->options;
    const struct hr_sim_counts *counts = &told->outcome->counts;
    bool has_held = told->outcome->first == HR_CHECK_COUNT;
    char title[32];
    (void)snprintf(title, sizeof(title), "Seed %" PRIu64, options->seed);
    hr_page_begin(title, out);
    (void)fprintf(out, "%u region%s of %u node%s for ", options->shape.regions, options->shape.regions == 1 ? "" : "s",
                  options->shape.nodes, options->shape.nodes == 1 ? "" : "s");
    hr_page_time(options->lasts_ns, out);
    (void)fputs(", limits: ", out);
    put_string(told->limits_name, out);
    hr_page_badge(has_held, has_held ? "Every invariant held" : "Violated", out);
    hr_page_fact(counts->asked, "requests", out);
    hr_page_fact(counts->admitted, "admitted", out);
    hr_page_fact(counts->denied, "denied", out);
    hr_page_fact(counts->refused, "refused with an error", out);
    hr_page_fact(counts->lost, "lost with their node", out);
    hr_page_fact(counts->crashes, "crashes", out);
    hr_page_fact(told->schedule->count, "faults", out);
    hr_page_facts_end(out);
}

static void put_verdict(enum hr_check check, const struct hr_verdict *verdict, FILE *out)
{
    const char *word = verdict->violated > 0 ? "violated" : verdict->checked > 0 ? "held" : "not asked";
    const char *colour = verdict->violated > 0 ? "bad" : verdict->checked > 0 ? "good" : "soft";
    (void)fprintf(out, "<tr><td><code>%s</code></td><td class=\"%s\">%s</td><td class=\"n\">",
                  hr_check_forms[check].name, colour, word);
    hr_page_whole(verdict->checked, out);
    (void)fprintf(out, "</td><td>%s", hr_check_forms[check].text);
    if (verdict->violated > 0) {
        (void)fputs("<br><span class=\"bad\">", out);
        hr_page_whole(verdict->violated, out);
        (void)fputs(" times, first after ", out);
        hr_page_time(verdict->first_at, out);
        (void)fputs(": ", out);
        put_string(verdict->first, out);
        (void)fputs("</span>", out);
    }
    (void)fputs("</td></tr>", out);
}

static void put_verdicts(const struct hr_sim_outcome *outcome, FILE *out)
{
    static const char *const columns[] = {"Invariant", "Verdict", ">Checks", "What must hold"};
    (void)fputs("<h2>Invariants</h2>", out);
    hr_page_table("invariants", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        put_verdict(check, &outcome->verdicts[check], out);
    }
    hr_page_table_end(out);
}

/* --- charts --- */

static enum hr_page_lane lane_of(enum hr_strike strike)
{
    if (strike <= HR_STRIKE_SLOW) {
        return HR_PAGE_PROCESS;
    }
    if (strike <= HR_STRIKE_DRIFT) {
        return HR_PAGE_CLOCK;
    }
    return strike <= HR_STRIKE_DISK_FULL ? HR_PAGE_DISK : HR_PAGE_NETWORK;
}

static struct hr_page_fault fault_at(const void *of, uint32_t index)
{
    const struct hr_sim_told *told = of;
    const struct hr_striking *striking = &told->schedule->all[index];
    const struct hr_strike_form *form = &hr_strike_forms[striking->strike];
    struct hr_page_fault fault = {striking->from, striking->until, lane_of(striking->strike), ""};
    char places[2][HR_SIM_PLACE_BYTES_MAX] = {"", ""};
    for (uint32_t i = 0; i < form->places; i++) {
        hr_sim_place_print(striking->places[i], told->options->shape, places[i]);
    }
    (void)snprintf(fault.title, sizeof(fault.title), "%s %s%s%s", form->name, places[0], form->places > 1 ? " " : "",
                   places[1]);
    return fault;
}

static uint64_t line_of(const struct hr_rule *rule, uint64_t domains)
{
    static const uint64_t seconds[] = {
        [HR_HOUR] = 3600, [HR_DAY] = 86400, [HR_WEEK] = 604800, [HR_MONTH] = 2592000, [HR_YEAR] = 31536000};
    if (rule->algorithm == HR_CONCURRENCY) {
        return 0;
    }
    if (rule->algorithm == HR_QUOTA) {
        return rule->capacity * domains * 1000 / seconds[rule->unit];
    }
    uint64_t amount = rule->rate > 0 ? rule->rate : rule->capacity;
    return amount * domains * 1000 / (rule->period_ns / HR_NS_PER_MS > 0 ? rule->period_ns / HR_NS_PER_MS : 1) * 1000;
}

static struct hr_page_chart make_chart(const struct hr_sim_told *told, const struct hr_sim_timeline *timeline,
                                       const struct hr_page_time_axis *time)
{
    const struct hr_limit *limit = &told->options->limits->limits[timeline->limit];
    const struct hr_sim_shape shape = told->options->shape;
    bool is_capped = limit->scope == HR_SCOPE_GLOBAL && shape.regions > 1 && shape.nodes > 1;
    struct hr_page_chart chart = {.time = time, .slots = timeline->slots, .burst = limit->rule.capacity};
    chart.line_milli = line_of(&limit->rule, is_capped ? 1 : told->outcome->domains);
    chart.region_count = is_capped ? shape.regions : 0;
    for (uint32_t i = 0; i < chart.region_count; i++) {
        chart.regions[i] = hr_sim_region_name(i);
    }
    return chart;
}

static void put_caption(const struct hr_sim_told *told, const struct hr_limit *limit, const struct hr_page_chart *chart,
                        FILE *out)
{
    uint64_t offered = 0, admitted = 0;
    for (uint32_t i = 0; i < HR_SIM_SLOTS; i++) {
        offered += chart->slots[i].offered;
        admitted += chart->slots[i].admitted;
    }
    bool is_capped = chart->region_count > 0;
    (void)fprintf(out, "%s%s, at most ", is_capped ? "a cap over all regions, " : "",
                  hr_algorithm_name(limit->rule.algorithm));
    hr_page_whole(limit->rule.capacity, out);
    if (chart->line_milli > 0) {
        (void)fprintf(out, ", for long %" PRIu64 ".%" PRIu64 "/s", chart->line_milli / 1000,
                      chart->line_milli % 1000 / 100);
        if (!is_capped && told->outcome->domains > 1) {
            (void)fprintf(out, " in all %u places", told->outcome->domains);
        }
    }
    (void)fputs("; offered ", out);
    hr_page_whole(offered, out);
    (void)fputs(", admitted ", out);
    hr_page_whole(admitted, out);
}

static void put_charts(const struct hr_sim_told *told, FILE *out)
{
    hr_ns lasts = told->options->lasts_ns;
    struct hr_sim_phases phases = hr_sim_phases(lasts);
    const hr_ns begins[HR_PHASE_COUNT] = {0, phases.faults_from, phases.healed_from};
    const struct hr_page_time_axis time = {.lasts = lasts,
                                           .slots = HR_SIM_SLOTS,
                                           .slot_ms = (uint64_t)(lasts / HR_SIM_SLOTS / HR_NS_PER_MS) + 1,
                                           .phase_count = HR_PHASE_COUNT,
                                           .phases = hr_phase_names,
                                           .phase_begins = begins,
                                           .fault_count = told->schedule->count,
                                           .fault_at = fault_at,
                                           .of = told};
    (void)fputs("<h2>Timelines</h2><p class=\"soft\">Of each limit the counter that most requests touch, in cost a "
                "second. What was offered beyond the top of a chart is cut off.</p>",
                out);
    hr_page_legend(out);
    for (uint32_t i = 0; i < told->outcome->timeline_count; i++) {
        const struct hr_sim_timeline *timeline = &told->outcome->timelines[i];
        const struct hr_limit *limit = &told->options->limits->limits[timeline->limit];
        const struct hr_page_chart chart = make_chart(told, timeline, &time);
        hr_page_card(limit->name, out);
        put_caption(told, limit, &chart, out);
        hr_page_chart(&chart, out);
    }
}

/* --- the rest --- */

static void put_faults(const struct hr_sim_told *told, FILE *out)
{
    static const char *const columns[] = {"Kind", ">Struck", "What it does"};
    (void)fputs("<h2>Faults</h2>", out);
    hr_page_table("faults", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (told->outcome->strikes[strike] > 0) {
            (void)fprintf(out, "<tr><td><code>%s</code></td><td class=\"n\">%" PRIu64 "</td><td>%s</td></tr>",
                          hr_strike_forms[strike].name, told->outcome->strikes[strike], hr_strike_forms[strike].text);
        }
    }
    hr_page_table_end(out);
    (void)fputs("<details><summary>The schedule, as text</summary><pre>", out);
    hr_schedule_print(told->schedule, told->options->shape, out);
    (void)fputs("</pre></details>", out);
}

void hr_sim_print_html(const struct hr_sim_told *told, FILE *out)
{
    put_head(told, out);
    put_verdicts(told->outcome, out);
    put_charts(told, out);
    hr_page_latency(hr_phase_names, told->outcome->latency, HR_PHASE_COUNT, out);
    put_faults(told, out);
    (void)fputs("<h2>Again</h2><pre id=\"command\">", out);
    put_string(told->command, out);
    (void)fprintf(out,
                  "</pre><p class=\"soft\" style=\"margin-top:8px\">Trace <code>%016" PRIx64 "</code>: the same "
                  "options give the same trace on every machine.</p>",
                  told->outcome->trace);
    hr_page_end(out);
}
