#include <inttypes.h>

#include "chaos/sim_text.h"

/* A chart, in tenths of a pixel. */
#define LEFT 560
#define TOP 220
#define WIDTH 8900
#define HEIGHT 1700
#define LANE 90
#define LANES 4

static const char style[] =
    ":root{--bg:#fbfbf9;--card:#fff;--ink:#1d2327;--soft:#667077;--line:#e3e6e3;--grid:#eceeec;--accent:#0b6e69;"
    "--offered:#c4cfd4;--cap:#b3261e;--good:#1a7f37;--bad:#b3261e;--shade:#f2b84b;--node:#8250df;--clock:#bf6a02;"
    "--disk:#0969da;--net:#cf222e;--r0:#0b6e69;--r1:#4a7fc1;--r2:#9a63b8;--r3:#c96a8b;--r4:#5aa9a3;"
    "--r5:#8fb3dd;--r6:#c7a3d8;--r7:#e2a9bd}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14181b;--card:#1b2125;--ink:#e6eaec;--soft:#93a0a7;--line:#2c3439;"
    "--grid:#262d32;--accent:#3fb8ad;--offered:#47545c;--cap:#ff7b72;--good:#56d364;--bad:#ff7b72;--shade:#9a6f1c;"
    "--node:#b392f0;--clock:#e3a04f;--disk:#58a6ff;--net:#ff7b72;--r0:#3fb8ad;--r1:#6ea0e6;--r2:#b98ad6;--r3:#e38fae;--"
    "r4:#8fd6cf;"
    "--r5:#a9c8ee;--r6:#d9bfe8;--r7:#f0c3d2}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
    "main{max-width:1040px;margin:0 auto;padding:40px 24px 64px}"
    "header{display:flex;align-items:flex-start;gap:24px;justify-content:space-between;flex-wrap:wrap}"
    "h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}h2{font-size:17px;margin:40px 0 12px}"
    "h3{font-size:15px;margin:0}p{margin:0}.soft{color:var(--soft)}"
    ".badge{font-weight:650;font-size:17px;padding:8px 18px;border-radius:999px;border:1.5px solid currentColor;"
    "white-space:nowrap}.good{color:var(--good)}.bad{color:var(--bad)}"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:1px;background:var(--line);"
    "border:1px solid var(--line);border-radius:10px;overflow:hidden;margin-top:28px}"
    ".facts div{background:var(--card);padding:12px 16px}.facts b{display:block;font-size:19px;font-weight:600;"
    "font-variant-numeric:tabular-nums}.facts span{color:var(--soft);font-size:13px}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px;margin-bottom:16px;"
    "break-inside:avoid}.card svg{display:block;width:100%;height:auto;margin-top:10px}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "td:first-child,td:nth-child(2){white-space:nowrap}th,td{text-align:left;padding:7px 14px 7px 0;border-bottom:1px "
    "solid var(--line);vertical-align:top}"
    "th{font-size:13px;font-weight:500;color:var(--soft)}tr:last-child td{border-bottom:0}.n{text-align:right}"
    "code,pre{font:13px/1.5 ui-monospace,'SF Mono',Menlo,'DejaVu Sans Mono',monospace}"
    "pre{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px;margin:0;"
    "white-space:pre-wrap;overflow-wrap:anywhere}"
    ".legend{display:flex;flex-wrap:wrap;gap:6px 18px;color:var(--soft);font-size:13px;margin-bottom:12px}"
    ".legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}"
    ".figures{display:flex;flex-wrap:wrap;gap:2px 28px;margin-top:8px;color:var(--soft);font-size:13px}"
    ".figures b{color:var(--ink);font-size:15px;font-weight:600;font-variant-numeric:tabular-nums;margin-right:5px}"
    ".figures i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:6px;vertical-align:-1px}"
    "svg text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:var(--soft);font-variant-numeric:tabular-nums}"
    "summary{cursor:pointer;color:var(--soft)}details[open] summary{margin-bottom:8px}"
    "@media(max-width:600px){main{padding:24px 14px 40px}}"
    "@media print{:root{--bg:#fff;--card:#fff}body{font-size:11pt}main{max-width:none;padding:0}details{display:none}}";

/* --- text --- */

static void put_text(struct hr_span text, FILE *out)
{
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.at[i];
        if (c == '&' || c == '<' || c == '>' || c == '"') {
            (void)fprintf(out, "&#%d;", c);
        } else {
            (void)fputc(c, out);
        }
    }
}

static void put_string(const char *text, FILE *out)
{
    put_text(hr_span_of(text), out);
}

/* 1234567 as 1,234,567. */
static void put_whole(uint64_t value, FILE *out)
{
    char digits[24];
    int count = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    for (int i = 0; i < count; i++) {
        (void)fputc(digits[i], out);
        if ((count - i) % 3 == 1 && i + 1 < count) {
            (void)fputc(',', out);
        }
    }
}

/* 90 s, 5 min, 2 h 30 min. */
static void put_time(hr_ns ns, FILE *out)
{
    int64_t s = ns / HR_NS_PER_S;
    if (s < 120) {
        (void)fprintf(out, "%" PRId64 " s", s);
    } else if (s < 7200) {
        (void)fprintf(out, s % 60 == 0 ? "%" PRId64 " min" : "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    } else {
        (void)fprintf(out, s % 3600 / 60 == 0 ? "%" PRId64 " h" : "%" PRId64 " h %02" PRId64 " min", s / 3600,
                      s % 3600 / 60);
    }
}

/* --- the top of the page --- */

static void put_fact(uint64_t value, const char *what, FILE *out)
{
    (void)fputs("<div><b>", out);
    put_whole(value, out);
    (void)fprintf(out, "</b><span>%s</span></div>", what);
}

static void put_head(const struct hr_sim_told *told, FILE *out)
{
    const struct hr_sim_options *options = told->options;
    bool has_failed = told->outcome->first != HR_CHECK_COUNT;
    (void)fprintf(out,
                  "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                  "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"
                  "<title>Headroom chaos, seed %" PRIu64 "</title><style>%s</style></head><body><main><header><div>",
                  options->seed, style);
    (void)fprintf(out, "<h1>Seed %" PRIu64 "</h1><p class=\"soft\">%u region%s of %u node%s for ", options->seed,
                  options->shape.regions, options->shape.regions == 1 ? "" : "s", options->shape.nodes,
                  options->shape.nodes == 1 ? "" : "s");
    put_time(options->lasts_ns, out);
    (void)fputs(", limits: ", out);
    put_string(told->limits_name, out);
    (void)fprintf(out, "</p></div><span id=\"verdict\" class=\"badge %s\">%s</span></header><section class=\"facts\">",
                  has_failed ? "bad" : "good", has_failed ? "Violated" : "Every invariant held");
    const struct hr_sim_counts *counts = &told->outcome->counts;
    put_fact(counts->asked, "requests", out);
    put_fact(counts->admitted, "admitted", out);
    put_fact(counts->denied, "denied", out);
    put_fact(counts->refused, "refused with an error", out);
    put_fact(counts->lost, "lost with their node", out);
    put_fact(counts->crashes, "crashes", out);
    put_fact(told->schedule->count, "faults", out);
    (void)fputs("</section>", out);
}

static void put_verdicts(const struct hr_sim_outcome *outcome, FILE *out)
{
    (void)fputs("<h2>Invariants</h2><div class=\"card scroll\"><table id=\"invariants\"><thead><tr><th>Invariant</th>"
                "<th>Verdict</th><th class=\"n\">Checks</th><th>What must hold</th></tr></thead><tbody>",
                out);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        const struct hr_verdict *verdict = &outcome->verdicts[check];
        const char *word = verdict->violated > 0 ? "violated" : verdict->checked > 0 ? "held" : "not asked";
        const char *colour = verdict->violated > 0 ? "bad" : verdict->checked > 0 ? "good" : "soft";
        (void)fprintf(out, "<tr><td><code>%s</code></td><td class=\"%s\">%s</td><td class=\"n\">",
                      hr_check_forms[check].name, colour, word);
        put_whole(verdict->checked, out);
        (void)fprintf(out, "</td><td>%s", hr_check_forms[check].text);
        if (verdict->violated > 0) {
            (void)fputs("<br><span class=\"bad\">", out);
            put_whole(verdict->violated, out);
            (void)fputs(" times, first after ", out);
            put_time(verdict->first_at, out);
            (void)fputs(": ", out);
            put_string(verdict->first, out);
            (void)fputs("</span>", out);
        }
        (void)fputs("</td></tr>", out);
    }
    (void)fputs("</tbody></table></div>", out);
}

/* --- charts --- */

/* Which of the lanes below a chart a fault is drawn in. */
static const struct {
    const char *colour, *name;
} lanes[LANES] = {{"node", "process"}, {"clock", "clock"}, {"disk", "disk"}, {"net", "network"}};

static uint32_t lane_of(enum hr_strike strike)
{
    if (strike <= HR_STRIKE_SLOW) {
        return 0;
    }
    if (strike <= HR_STRIKE_DRIFT) {
        return 1;
    }
    return strike <= HR_STRIKE_DISK_FULL ? 2 : 3;
}

/* Tenths of a pixel, with the point where it belongs. */
#define TENTHS "%" PRId64 ".%" PRId64
#define AS_TENTHS(value) (value) / 10, (value) % 10

static int64_t x_of(const struct hr_sim_told *told, hr_ns at)
{
    return LEFT + (int64_t)((uint64_t)(at / 1000) * WIDTH / (uint64_t)(told->options->lasts_ns / 1000));
}

static void put_rect(FILE *out, int64_t x, int64_t y, int64_t width, int64_t height)
{
    (void)fprintf(out, "<rect x=\"" TENTHS "\" y=\"" TENTHS "\" width=\"" TENTHS "\" height=\"" TENTHS "\"",
                  AS_TENTHS(x), AS_TENTHS(y), AS_TENTHS(width), AS_TENTHS(height));
}

/* Where any fault struck at all: a schedule is in the order of beginnings. */
static void put_shade(const struct hr_sim_told *told, FILE *out)
{
    const struct hr_schedule *schedule = told->schedule;
    for (uint32_t i = 0; i < schedule->count;) {
        hr_ns from = schedule->all[i].from, until = schedule->all[i].until;
        for (i++; i < schedule->count && schedule->all[i].from <= until; i++) {
            until = schedule->all[i].until > until ? schedule->all[i].until : until;
        }
        put_rect(out, x_of(told, from), TOP, x_of(told, until) - x_of(told, from), HEIGHT);
        (void)fputs(" fill=\"var(--shade)\" opacity=\".16\"/>", out);
    }
}

static void put_lanes(const struct hr_sim_told *told, FILE *out)
{
    for (uint32_t i = 0; i < told->schedule->count; i++) {
        const struct hr_striking *striking = &told->schedule->all[i];
        const struct hr_strike_form *form = &hr_strike_forms[striking->strike];
        uint32_t lane = lane_of(striking->strike);
        int64_t x = x_of(told, striking->from), width = x_of(told, striking->until) - x;
        char place[HR_SIM_PLACE_BYTES_MAX];
        put_rect(out, x, TOP + HEIGHT + 60 + lane * LANE, width > 10 ? width : 10, LANE - 30);
        (void)fprintf(out, " fill=\"var(--%s)\" opacity=\".75\"><title>%s", lanes[lane].colour, form->name);
        for (uint32_t k = 0; k < form->places; k++) {
            hr_sim_place_print(striking->places[k], told->options->shape, place);
            (void)fprintf(out, " %s", place);
        }
        (void)fprintf(out, "</title></rect>");
    }
}

/* A round number at or above value: 1, 2, 3, 4, 6 or 8 and zeros. */
static uint64_t round_up(uint64_t value)
{
    static const uint64_t steps[] = {1, 2, 3, 4, 6, 8};
    for (uint64_t unit = 1;; unit *= 10) {
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            if (value <= steps[i] * unit) {
                return steps[i] * unit;
            }
        }
    }
}

struct chart {
    const struct hr_sim_told *told;
    const struct hr_sim_timeline *timeline;
    const struct hr_limit *limit;
    bool is_capped;      /* it holds over all regions */
    uint64_t line_milli; /* what the definition allows for long, in thousandths a second; 0: it has no rate */
    uint64_t top;        /* of the y axis, a second */
};

static uint64_t per_second_milli(const struct chart *chart, uint64_t of_slot)
{
    uint64_t slot_ms = (uint64_t)(chart->told->options->lasts_ns / HR_SIM_SLOTS / HR_NS_PER_MS) + 1;
    return of_slot * 1000000 / slot_ms;
}

static int64_t y_of(const struct chart *chart, uint64_t milli)
{
    uint64_t height = milli * HEIGHT / (chart->top * 1000);
    return TOP + HEIGHT - (int64_t)(height > HEIGHT ? HEIGHT : height);
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

static struct chart make_chart(const struct hr_sim_told *told, uint32_t index)
{
    struct chart chart = {.told = told, .timeline = &told->outcome->timelines[index], .top = 1};
    chart.limit = &told->options->limits->limits[chart.timeline->limit];
    chart.is_capped =
        chart.limit->scope == HR_SCOPE_GLOBAL && told->options->shape.regions > 1 && told->options->shape.nodes > 1;
    chart.line_milli = line_of(&chart.limit->rule, chart.is_capped ? 1 : told->outcome->domains);
    uint64_t offered = 0, max = 0;
    for (uint32_t i = 0; i < HR_SIM_SLOTS; i++) {
        uint64_t admitted = per_second_milli(&chart, chart.timeline->slots[i].admitted);
        offered += per_second_milli(&chart, chart.timeline->slots[i].offered);
        max = admitted > max ? admitted : max;
    }
    uint64_t usual = 3 * (offered / HR_SIM_SLOTS); /* bursts of what was offered may be cut off: nothing else is */
    if (chart.line_milli > 0 && usual > 3 * chart.line_milli) {
        usual = 3 * chart.line_milli; /* lest what is denied flatten what is admitted */
    }
    max = usual > max ? usual : max;
    if (chart.line_milli < 3 * max) { /* a line far above all that was asked would flatten the rest */
        max = chart.line_milli > max ? chart.line_milli : max;
    }
    chart.top = round_up(max / 1000 + 1);
    return chart;
}

static void put_axes(const struct chart *chart, FILE *out)
{
    for (uint32_t i = 0; i <= 4; i++) {
        int64_t y = TOP + HEIGHT - HEIGHT / 4 * i;
        (void)fprintf(out, "<path d=\"M" TENTHS " " TENTHS "H" TENTHS "\" stroke=\"var(--grid)\"/>",
                      AS_TENTHS((int64_t)LEFT), AS_TENTHS(y), AS_TENTHS((int64_t)LEFT + WIDTH));
        (void)fprintf(out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\" text-anchor=\"end\">",
                      AS_TENTHS((int64_t)LEFT - 70), AS_TENTHS(y + 40));
        uint64_t quarters = chart->top * i;
        (void)fprintf(out, quarters % 4 == 0 ? "%" PRIu64 "</text>" : "%" PRIu64 ".%" PRIu64 "</text>", quarters / 4,
                      quarters % 4 * 25 / (quarters % 2 == 0 ? 10 : 1));
    }
    for (uint32_t i = 0; i <= 6; i++) {
        hr_ns at = chart->told->options->lasts_ns / 6 * i;
        (void)fprintf(out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\" text-anchor=\"%s\">",
                      AS_TENTHS(x_of(chart->told, at)), AS_TENTHS((int64_t)TOP + HEIGHT + 60 + LANES * LANE + 120),
                      i == 0   ? "start"
                      : i == 6 ? "end"
                               : "middle");
        put_time(at, out);
        (void)fputs("</text>", out);
    }
}

/* An area under steps, one for each slot. */
static void put_area(const struct chart *chart, bool admitted, FILE *out)
{
    (void)fprintf(out, "<path d=\"M" TENTHS " " TENTHS, AS_TENTHS((int64_t)LEFT), AS_TENTHS((int64_t)TOP + HEIGHT));
    for (int64_t i = 0; i < HR_SIM_SLOTS; i++) {
        const struct hr_sim_slot *slot = &chart->timeline->slots[i];
        int64_t y = y_of(chart, per_second_milli(chart, admitted ? slot->admitted : slot->offered));
        (void)fprintf(out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(LEFT + WIDTH * (i + 1) / HR_SIM_SLOTS));
    }
    (void)fprintf(out, "V" TENTHS "Z\" fill=\"var(--%s)\"%s/>", AS_TENTHS((int64_t)TOP + HEIGHT),
                  admitted ? "accent" : "offered", admitted ? " opacity=\".85\"" : "");
}

/* What the first so many regions have admitted, or all of them. */
static uint64_t admitted_by(const struct hr_sim_slot *slot, uint32_t regions)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < regions; i++) {
        sum += slot->of_region[i];
    }
    return sum;
}

/* One region's part of what was admitted, on top of those before it. */
static void put_part(const struct chart *chart, uint32_t region, FILE *out)
{
    (void)fprintf(out, "<path class=\"share\" d=\"M" TENTHS " " TENTHS, AS_TENTHS((int64_t)LEFT),
                  AS_TENTHS((int64_t)TOP + HEIGHT));
    for (int64_t i = 0; i < HR_SIM_SLOTS; i++) {
        int64_t y = y_of(chart, per_second_milli(chart, admitted_by(&chart->timeline->slots[i], region + 1)));
        (void)fprintf(out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(LEFT + WIDTH * (i + 1) / HR_SIM_SLOTS));
    }
    for (int64_t i = HR_SIM_SLOTS; i-- > 0;) {
        int64_t y = y_of(chart, per_second_milli(chart, admitted_by(&chart->timeline->slots[i], region)));
        (void)fprintf(out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(LEFT + WIDTH * i / HR_SIM_SLOTS));
    }
    (void)fprintf(out, "Z\" fill=\"var(--r%u)\"><title>%s</title></path>", region, hr_sim_region_name(region));
}

static void put_admitted(const struct chart *chart, FILE *out)
{
    if (!chart->is_capped) {
        put_area(chart, true, out);
        return;
    }
    for (uint32_t region = 0; region < chart->told->options->shape.regions; region++) {
        put_part(chart, region, out);
    }
}

/* Of what could be admitted: as much as the cap allows, or as was asked where that is less; in tenths of a per cent.
 * How far beyond the definition the worst interval was, seen by slots: within one, what comes and what is refilled are
 * one.
 */
static void put_figures(const struct chart *chart, FILE *out)
{
    const struct hr_rule *rule = &chart->limit->rule;
    uint64_t slot_ms = (uint64_t)(chart->told->options->lasts_ns / HR_SIM_SLOTS / HR_NS_PER_MS) + 1;
    uint64_t refill = chart->line_milli * slot_ms, debt = 0, worst = 0, admitted = 0, possible = 0;
    uint64_t full = rule->capacity * 1000000, room = full;
    for (uint32_t i = 0; i < HR_SIM_SLOTS; i++) {
        const struct hr_sim_slot *slot = &chart->timeline->slots[i];
        uint64_t offered = slot->offered * 1000000, taken = slot->admitted * 1000000;
        debt = debt + taken > refill ? debt + taken - refill : 0;
        worst = debt > worst ? debt : worst;
        room += refill;
        uint64_t could = offered < room ? offered : room;
        possible += could;
        room = room - could < full ? room - could : full;
        admitted += taken;
    }
    uint64_t used = possible == 0 ? 1000 : admitted / (possible / 1000 + (possible < 1000));
    (void)fprintf(out,
                  "<div class=\"figures\"><span><b data-figure=\"utilisation\">%" PRIu64 ".%" PRIu64
                  " %%</b>of what the cap allows of what was offered</span><span><b data-figure=\"overshoot\">%" PRIu64
                  "</b>beyond rate and burst, at worst</span>",
                  used / 10, used % 10, worst > full ? (worst - full) / 1000000 : 0);
    for (uint32_t i = 0; i < chart->told->options->shape.regions; i++) {
        (void)fprintf(out, "<span><i style=\"background:var(--r%u)\"></i>%s</span>", i, hr_sim_region_name(i));
    }
    (void)fputs("</div>", out);
}

static void put_line(const struct chart *chart, FILE *out)
{
    if (chart->line_milli == 0 || chart->line_milli > chart->top * 1000) {
        return;
    }
    int64_t y = y_of(chart, chart->line_milli);
    (void)fprintf(out,
                  "<path d=\"M" TENTHS " " TENTHS "H" TENTHS "\" stroke=\"var(--cap)\" stroke-width=\"1.5\" "
                  "stroke-dasharray=\"6 4\"/>",
                  AS_TENTHS((int64_t)LEFT), AS_TENTHS(y), AS_TENTHS((int64_t)LEFT + WIDTH));
}

static void put_phases(const struct hr_sim_told *told, FILE *out)
{
    struct hr_sim_phases phases = hr_sim_phases(told->options->lasts_ns);
    const hr_ns begins[HR_PHASE_COUNT] = {0, phases.faults_from, phases.healed_from};
    for (enum hr_phase phase = 0; phase < HR_PHASE_COUNT; phase++) {
        int64_t x = x_of(told, begins[phase]);
        (void)fprintf(out, "<path d=\"M" TENTHS " " TENTHS "V" TENTHS "\" stroke=\"var(--line)\"/>", AS_TENTHS(x),
                      AS_TENTHS((int64_t)TOP - 120), AS_TENTHS((int64_t)TOP + HEIGHT));
        (void)fprintf(out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\">%s</text>", AS_TENTHS(x + 40),
                      AS_TENTHS((int64_t)TOP - 50), hr_phase_names[phase]);
    }
}

static void put_caption(const struct chart *chart, FILE *out)
{
    const struct hr_limit *limit = chart->limit;
    const struct hr_rule *rule = &limit->rule;
    uint64_t offered = 0, admitted = 0;
    for (uint32_t i = 0; i < HR_SIM_SLOTS; i++) {
        offered += chart->timeline->slots[i].offered;
        admitted += chart->timeline->slots[i].admitted;
    }
    (void)fputs("<h3>", out);
    put_text(limit->name, out);
    (void)fprintf(out, "</h3><p class=\"soft\">%s%s, at most ", chart->is_capped ? "a cap over all regions, " : "",
                  hr_algorithm_name(rule->algorithm));
    put_whole(rule->capacity, out);
    if (chart->line_milli > 0) {
        (void)fprintf(out, ", for long %" PRIu64 ".%" PRIu64 "/s", chart->line_milli / 1000,
                      chart->line_milli % 1000 / 100);
        if (!chart->is_capped && chart->told->outcome->domains > 1) {
            (void)fprintf(out, " in all %u places", chart->told->outcome->domains);
        }
    }
    (void)fputs("; offered ", out);
    put_whole(offered, out);
    (void)fputs(", admitted ", out);
    put_whole(admitted, out);
    (void)fputs("</p>", out);
}

static void put_chart(const struct hr_sim_told *told, uint32_t index, FILE *out)
{
    const struct chart chart = make_chart(told, index);
    (void)fputs("<section class=\"card timeline\">", out);
    put_caption(&chart, out);
    if (chart.is_capped && chart.line_milli > 0) {
        put_figures(&chart, out);
    }
    (void)fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"offered and admitted over time\">",
                  (LEFT + WIDTH + 60) / 10, (TOP + HEIGHT + 60 + LANES * LANE + 160) / 10);
    put_area(&chart, false, out);
    put_shade(told, out);
    put_axes(&chart, out);
    put_admitted(&chart, out);
    put_line(&chart, out);
    put_phases(told, out);
    put_lanes(told, out);
    (void)fputs("</svg></section>", out);
}

static void put_charts(const struct hr_sim_told *told, FILE *out)
{
    (void)fputs("<h2>Timelines</h2><p class=\"soft\">Of each limit the counter that most requests touch, in cost a "
                "second. What was offered beyond the top of a chart is cut off.</p><div class=\"legend\" "
                "style=\"margin-top:10px\">"
                "<span><i style=\"background:var(--offered)\"></i>offered</span>"
                "<span><i style=\"background:var(--accent)\"></i>admitted; of a cap by region</span>"
                "<span><i style=\"background:var(--cap);height:3px;vertical-align:4px\"></i>what the definition allows "
                "for long</span><span><i style=\"background:var(--shade);opacity:.4\"></i>faults</span>",
                out);
    for (uint32_t lane = 0; lane < LANES; lane++) {
        (void)fprintf(out, "<span><i style=\"background:var(--%s)\"></i>%s</span>", lanes[lane].colour,
                      lanes[lane].name);
    }
    (void)fputs("</div>", out);
    for (uint32_t i = 0; i < told->outcome->timeline_count; i++) {
        put_chart(told, i, out);
    }
}

/* --- the rest --- */

static void put_ms(uint64_t ns, FILE *out)
{
    (void)fprintf(out, "<td class=\"n\">%" PRIu64 ".%02" PRIu64 " ms</td>", ns / 1000000, ns % 1000000 / 10000);
}

static void put_latency(const struct hr_sim_outcome *outcome, FILE *out)
{
    (void)fputs("<h2>Latency, by phase</h2><div class=\"card scroll\"><table id=\"latency\"><thead><tr><th>Phase</th>"
                "<th class=\"n\">Answers</th><th class=\"n\">p50</th><th class=\"n\">p90</th><th class=\"n\">p99</th>"
                "<th class=\"n\">p99.9</th><th class=\"n\">Worst</th></tr></thead><tbody>",
                out);
    for (enum hr_phase phase = 0; phase < HR_PHASE_COUNT; phase++) {
        const struct hr_histogram *histogram = &outcome->latency[phase];
        (void)fprintf(out, "<tr><td>%s</td><td class=\"n\">", hr_phase_names[phase]);
        put_whole(histogram->count, out);
        (void)fputs("</td>", out);
        put_ms(hr_histogram_quantile(histogram, 500), out);
        put_ms(hr_histogram_quantile(histogram, 900), out);
        put_ms(hr_histogram_quantile(histogram, 990), out);
        put_ms(hr_histogram_quantile(histogram, 999), out);
        put_ms(histogram->max_ns, out);
        (void)fputs("</tr>", out);
    }
    (void)fputs("</tbody></table></div>", out);
}

static void put_faults(const struct hr_sim_told *told, FILE *out)
{
    (void)fputs("<h2>Faults</h2><div class=\"card scroll\"><table id=\"faults\"><thead><tr><th>Kind</th>"
                "<th class=\"n\">Struck</th><th>What it does</th></tr></thead><tbody>",
                out);
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (told->outcome->strikes[strike] > 0) {
            (void)fprintf(out, "<tr><td><code>%s</code></td><td class=\"n\">%" PRIu64 "</td><td>%s</td></tr>",
                          hr_strike_forms[strike].name, told->outcome->strikes[strike], hr_strike_forms[strike].text);
        }
    }
    (void)fputs("</tbody></table></div><details><summary>The schedule, as text</summary><pre>", out);
    hr_schedule_print(told->schedule, told->options->shape, out);
    (void)fputs("</pre></details>", out);
}

void hr_sim_print_html(const struct hr_sim_told *told, FILE *out)
{
    put_head(told, out);
    put_verdicts(told->outcome, out);
    put_charts(told, out);
    put_latency(told->outcome, out);
    put_faults(told, out);
    (void)fputs("<h2>Again</h2><pre id=\"command\">", out);
    put_string(told->command, out);
    (void)fprintf(out,
                  "</pre><p class=\"soft\" style=\"margin-top:8px\">Trace <code>%016" PRIx64 "</code>: the same "
                  "options give the same trace on every machine.</p></main></body></html>\n",
                  told->outcome->trace);
}
