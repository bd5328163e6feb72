#include "chaos/page.h"

#include <inttypes.h>

/* A chart, in tenths of a pixel. */
#define LEFT 560
#define TOP 220
#define WIDTH 8900
#define HEIGHT 1700
#define LANE 90

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

void hr_page_text(struct hr_span text, FILE *out)
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

void hr_page_whole(uint64_t value, FILE *out)
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

void hr_page_time(hr_ns time, FILE *out)
{
    int64_t s = time / HR_NS_PER_S;
    if (s < 120) {
        (void)fprintf(out, "%" PRId64 " s", s);
    } else if (s < 7200) {
        (void)fprintf(out, s % 60 == 0 ? "%" PRId64 " min" : "%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    } else {
        (void)fprintf(out, s % 3600 / 60 == 0 ? "%" PRId64 " h" : "%" PRId64 " h %02" PRId64 " min", s / 3600,
                      s % 3600 / 60);
    }
}

/* --- the frame --- */

void hr_page_begin(const char *title, FILE *out)
{
    (void)fputs("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                "content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">"
                "<title>Headroom chaos, ",
                out);
    hr_page_text(hr_span_of(title), out);
    (void)fprintf(out, "</title><style>%s</style></head><body><main><header><div><h1>", style);
    hr_page_text(hr_span_of(title), out);
    (void)fputs("</h1><p class=\"soft\">", out);
}

void hr_page_badge(bool has_held, const char *verdict, FILE *out)
{
    (void)fprintf(out, "</p></div><span id=\"verdict\" class=\"badge %s\">%s</span></header><section class=\"facts\">",
                  has_held ? "good" : "bad", verdict);
}

void hr_page_fact(uint64_t value, const char *what, FILE *out)
{
    (void)fputs("<div><b>", out);
    hr_page_whole(value, out);
    (void)fprintf(out, "</b><span>%s</span></div>", what);
}

void hr_page_facts_end(FILE *out)
{
    (void)fputs("</section>", out);
}

void hr_page_end(FILE *out)
{
    (void)fputs("</main></body></html>\n", out);
}

bool hr_page_write(const char *path, void (*put)(const void *of, FILE *out), const void *of,
                   struct hr_problem *ret_problem)
{
    FILE *out = fopen(path, "we");
    if (out != NULL) {
        put(of, out);
    }
    bool is_good = out != NULL && !ferror(out);
    is_good = out != NULL && fclose(out) == 0 && is_good;
    return is_good || hr_problem_errno(ret_problem, path, "cannot write the report");
}

void hr_page_table(const char *id, const char *const *columns, uint32_t count, FILE *out)
{
    (void)fprintf(out, "<div class=\"card scroll\"><table id=\"%s\"><thead><tr>", id);
    for (uint32_t i = 0; i < count; i++) {
        bool is_number = columns[i][0] == '>';
        (void)fprintf(out, "<th%s>%s</th>", is_number ? " class=\"n\"" : "", columns[i] + is_number);
    }
    (void)fputs("</tr></thead><tbody>", out);
}

void hr_page_table_end(FILE *out)
{
    (void)fputs("</tbody></table></div>", out);
}

static void put_ms(uint64_t ns, FILE *out)
{
    (void)fprintf(out, "<td class=\"n\">%" PRIu64 ".%02" PRIu64 " ms</td>", ns / 1000000, ns % 1000000 / 10000);
}

void hr_page_latency(const char *const *phases, const struct hr_histogram *latency, uint32_t count, FILE *out)
{
    static const char *const columns[] = {"Phase", ">Answers", ">p50", ">p90", ">p99", ">p99.9", ">Worst"};
    (void)fputs("<h2>Latency, by phase</h2>", out);
    hr_page_table("latency", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "<tr><td>%s</td><td class=\"n\">", phases[i]);
        hr_page_whole(latency[i].count, out);
        (void)fputs("</td>", out);
        put_ms(hr_histogram_quantile(&latency[i], 500), out);
        put_ms(hr_histogram_quantile(&latency[i], 900), out);
        put_ms(hr_histogram_quantile(&latency[i], 990), out);
        put_ms(hr_histogram_quantile(&latency[i], 999), out);
        put_ms(latency[i].max_ns, out);
        (void)fputs("</tr>", out);
    }
    hr_page_table_end(out);
}

/* --- charts --- */

/* The lanes below a chart. */
static const struct {
    const char *colour, *name;
} lanes[HR_PAGE_LANES] = {{"node", "process"}, {"clock", "clock"}, {"disk", "disk"}, {"net", "network"}};

/* Tenths of a pixel, with the point where it belongs. */
#define TENTHS "%" PRId64 ".%" PRId64
#define AS_TENTHS(value) (value) / 10, (value) % 10

/* A chart that is being drawn. */
struct drawing {
    const struct hr_page_chart *chart;
    uint64_t top; /* of the y axis, a second */
    FILE *out;
};

static int64_t x_of(const struct drawing *drawing, hr_ns at)
{
    return LEFT + (int64_t)((uint64_t)(at / 1000) * WIDTH / (uint64_t)(drawing->chart->time->lasts / 1000));
}

static int64_t x_of_slot(const struct drawing *drawing, int64_t slot)
{
    return LEFT + WIDTH * slot / drawing->chart->time->slots;
}

static uint64_t per_second_milli(const struct hr_page_chart *chart, uint64_t of_slot)
{
    return of_slot * 1000000 / chart->time->slot_ms;
}

static int64_t y_of(const struct drawing *drawing, uint64_t milli)
{
    uint64_t height = milli * HEIGHT / (drawing->top * 1000);
    return TOP + HEIGHT - (int64_t)(height > HEIGHT ? HEIGHT : height);
}

static int64_t y_of_slot(const struct drawing *drawing, uint64_t of_slot)
{
    return y_of(drawing, per_second_milli(drawing->chart, of_slot));
}

static void put_rect(FILE *out, int64_t x, int64_t y, int64_t width, int64_t height)
{
    (void)fprintf(out, "<rect x=\"" TENTHS "\" y=\"" TENTHS "\" width=\"" TENTHS "\" height=\"" TENTHS "\"",
                  AS_TENTHS(x), AS_TENTHS(y), AS_TENTHS(width), AS_TENTHS(height));
}

/* Where any fault struck at all. */
static void put_shade(const struct drawing *drawing)
{
    const struct hr_page_time_axis *time = drawing->chart->time;
    for (uint32_t i = 0; i < time->fault_count;) {
        struct hr_page_fault fault = time->fault_at(time->of, i);
        hr_ns from = fault.from, until = fault.until;
        while (++i < time->fault_count && (fault = time->fault_at(time->of, i)).from <= until) {
            until = fault.until > until ? fault.until : until;
        }
        put_rect(drawing->out, x_of(drawing, from), TOP, x_of(drawing, until) - x_of(drawing, from), HEIGHT);
        (void)fputs(" fill=\"var(--shade)\" opacity=\".16\"/>", drawing->out);
    }
}

static void put_lanes(const struct drawing *drawing)
{
    const struct hr_page_time_axis *time = drawing->chart->time;
    for (uint32_t i = 0; i < time->fault_count; i++) {
        const struct hr_page_fault fault = time->fault_at(time->of, i);
        int64_t x = x_of(drawing, fault.from), width = x_of(drawing, fault.until) - x;
        put_rect(drawing->out, x, TOP + HEIGHT + 60 + (int64_t)fault.lane * LANE, width > 10 ? width : 10, LANE - 30);
        (void)fprintf(drawing->out, " fill=\"var(--%s)\" opacity=\".75\"><title>%s</title></rect>",
                      lanes[fault.lane].colour, fault.title);
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

static uint64_t find_top(const struct hr_page_chart *chart)
{
    uint64_t offered = 0, max = 0;
    for (uint32_t i = 0; i < chart->time->slots; i++) {
        uint64_t admitted = per_second_milli(chart, chart->slots[i].admitted);
        offered += per_second_milli(chart, chart->slots[i].offered);
        max = admitted > max ? admitted : max;
    }
    uint64_t usual =
        3 * (offered / chart->time->slots); /* bursts of what was offered may be cut off: nothing else is */
    if (chart->line_milli > 0 && usual > 3 * chart->line_milli) {
        usual = 3 * chart->line_milli; /* lest what is denied flatten what is admitted */
    }
    max = usual > max ? usual : max;
    if (chart->line_milli < 3 * max) { /* a line far above all that was asked would flatten the rest */
        max = chart->line_milli > max ? chart->line_milli : max;
    }
    return round_up(max / 1000 + 1);
}

static void put_axes(const struct drawing *drawing)
{
    FILE *out = drawing->out;
    for (uint32_t i = 0; i <= 4; i++) {
        int64_t y = TOP + HEIGHT - HEIGHT / 4 * i;
        (void)fprintf(out, "<path d=\"M" TENTHS " " TENTHS "H" TENTHS "\" stroke=\"var(--grid)\"/>",
                      AS_TENTHS((int64_t)LEFT), AS_TENTHS(y), AS_TENTHS((int64_t)LEFT + WIDTH));
        (void)fprintf(out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\" text-anchor=\"end\">",
                      AS_TENTHS((int64_t)LEFT - 70), AS_TENTHS(y + 40));
        uint64_t quarters = drawing->top * i;
        (void)fprintf(out, quarters % 4 == 0 ? "%" PRIu64 "</text>" : "%" PRIu64 ".%" PRIu64 "</text>", quarters / 4,
                      quarters % 4 * 25 / (quarters % 2 == 0 ? 10 : 1));
    }
    hr_ns lasts = drawing->chart->time->lasts;
    uint32_t parts = lasts % (6 * HR_NS_PER_S) == 0 ? 6 : 5; /* of whole seconds, where that can be */
    for (uint32_t i = 0; i <= parts; i++) {
        hr_ns at = lasts / parts * i;
        (void)fprintf(out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\" text-anchor=\"%s\">", AS_TENTHS(x_of(drawing, at)),
                      AS_TENTHS((int64_t)TOP + HEIGHT + 60 + HR_PAGE_LANES * LANE + 120),
                      i == 0       ? "start"
                      : i == parts ? "end"
                                   : "middle");
        hr_page_time(at, out);
        (void)fputs("</text>", out);
    }
}

/* An area under steps, one for each slot. */
static void put_area(const struct drawing *drawing, bool admitted)
{
    (void)fprintf(drawing->out, "<path d=\"M" TENTHS " " TENTHS, AS_TENTHS((int64_t)LEFT),
                  AS_TENTHS((int64_t)TOP + HEIGHT));
    for (int64_t i = 0; i < drawing->chart->time->slots; i++) {
        const struct hr_sim_slot *slot = &drawing->chart->slots[i];
        int64_t y = y_of_slot(drawing, admitted ? slot->admitted : slot->offered);
        (void)fprintf(drawing->out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(x_of_slot(drawing, i + 1)));
    }
    (void)fprintf(drawing->out, "V" TENTHS "Z\" fill=\"var(--%s)\" opacity=\"%s\"/>", AS_TENTHS((int64_t)TOP + HEIGHT),
                  admitted ? "accent" : "offered", admitted ? ".85" : ".6");
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
static void put_part(const struct drawing *drawing, uint32_t region)
{
    FILE *out = drawing->out;
    int64_t slots = drawing->chart->time->slots;
    (void)fprintf(out, "<path class=\"share\" d=\"M" TENTHS " " TENTHS, AS_TENTHS((int64_t)LEFT),
                  AS_TENTHS((int64_t)TOP + HEIGHT));
    for (int64_t i = 0; i < slots; i++) {
        int64_t y = y_of_slot(drawing, admitted_by(&drawing->chart->slots[i], region + 1));
        (void)fprintf(out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(x_of_slot(drawing, i + 1)));
    }
    for (int64_t i = slots; i-- > 0;) {
        int64_t y = y_of_slot(drawing, admitted_by(&drawing->chart->slots[i], region));
        (void)fprintf(out, "V" TENTHS "H" TENTHS, AS_TENTHS(y), AS_TENTHS(x_of_slot(drawing, i)));
    }
    (void)fprintf(out, "Z\" fill=\"var(--r%u)\"><title>%s</title></path>", region, drawing->chart->regions[region]);
}

static void put_admitted(const struct drawing *drawing)
{
    if (drawing->chart->region_count == 0) {
        put_area(drawing, true);
    }
    for (uint32_t region = 0; region < drawing->chart->region_count; region++) {
        put_part(drawing, region);
    }
}

static void put_line(const struct drawing *drawing)
{
    uint64_t line = drawing->chart->line_milli;
    if (line == 0 || line > drawing->top * 1000) {
        return;
    }
    (void)fprintf(drawing->out,
                  "<path d=\"M" TENTHS " " TENTHS "H" TENTHS "\" stroke=\"var(--cap)\" stroke-width=\"1.5\" "
                  "stroke-dasharray=\"6 4\"/>",
                  AS_TENTHS((int64_t)LEFT), AS_TENTHS(y_of(drawing, line)), AS_TENTHS((int64_t)LEFT + WIDTH));
}

static void put_phases(const struct drawing *drawing)
{
    const struct hr_page_time_axis *time = drawing->chart->time;
    for (uint32_t i = 0; i < time->phase_count; i++) {
        int64_t x = x_of(drawing, time->phase_begins[i]);
        (void)fprintf(drawing->out, "<path d=\"M" TENTHS " " TENTHS "V" TENTHS "\" stroke=\"var(--line)\"/>",
                      AS_TENTHS(x), AS_TENTHS((int64_t)TOP - 120), AS_TENTHS((int64_t)TOP + HEIGHT));
        (void)fprintf(drawing->out, "<text x=\"" TENTHS "\" y=\"" TENTHS "\">%s</text>", AS_TENTHS(x + 40),
                      AS_TENTHS((int64_t)TOP - 50), time->phases[i]);
    }
}

/* Of what could be admitted: as much as the cap allows, or as was asked where that is less; in tenths of a per cent.
 * How far beyond the definition the worst interval was, seen by slots: within one, what comes and what is refilled are
 * one. */
static void put_figures(const struct hr_page_chart *chart, FILE *out)
{
    uint64_t refill = chart->line_milli * chart->time->slot_ms, debt = 0, worst = 0, admitted = 0, possible = 0;
    uint64_t full = chart->burst * 1000000, room = full;
    for (uint32_t i = 0; i < chart->time->slots; i++) {
        const struct hr_sim_slot *slot = &chart->slots[i];
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
    for (uint32_t i = 0; i < chart->region_count; i++) {
        (void)fprintf(out, "<span><i style=\"background:var(--r%u)\"></i>%s</span>", i, chart->regions[i]);
    }
    (void)fputs("</div>", out);
}

void hr_page_legend(FILE *out)
{
    (void)fputs("<div class=\"legend\" style=\"margin-top:10px\">"
                "<span><i style=\"background:var(--offered)\"></i>offered</span>"
                "<span><i style=\"background:var(--accent)\"></i>admitted; of a cap by region</span>"
                "<span><i style=\"background:var(--cap);height:3px;vertical-align:4px\"></i>what the definition allows "
                "for long</span><span><i style=\"background:var(--shade);opacity:.4\"></i>faults</span>",
                out);
    for (uint32_t lane = 0; lane < HR_PAGE_LANES; lane++) {
        (void)fprintf(out, "<span><i style=\"background:var(--%s)\"></i>%s</span>", lanes[lane].colour,
                      lanes[lane].name);
    }
    (void)fputs("</div>", out);
}

void hr_page_card(struct hr_span title, FILE *out)
{
    (void)fputs("<section class=\"card timeline\"><h3>", out);
    hr_page_text(title, out);
    (void)fputs("</h3><p class=\"soft\">", out);
}

void hr_page_chart(const struct hr_page_chart *chart, FILE *out)
{
    const struct drawing drawing = {chart, find_top(chart), out};
    (void)fputs("</p>", out);
    if (chart->region_count > 0 && chart->line_milli > 0) {
        put_figures(chart, out);
    }
    (void)fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"offered and admitted over time\">",
                  (LEFT + WIDTH + 60) / 10, (TOP + HEIGHT + 60 + HR_PAGE_LANES * LANE + 160) / 10);
    put_shade(&drawing);
    put_area(&drawing, false);
    put_axes(&drawing);
    put_admitted(&drawing);
    put_line(&drawing);
    put_phases(&drawing);
    put_lanes(&drawing);
    (void)fputs("</svg></section>", out);
}
