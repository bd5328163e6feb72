#include "chaos/page.h"
#include "chaos/run.h"

_Static_assert(HR_LOCAL_REGIONS_MAX <= HR_SIM_REGIONS_MAX, "a chart tells all regions apart");

/* The run, and its faults in the order of beginnings. */
struct page {
    const struct hr_run *run;
    uint32_t fault_count;
    struct hr_page_fault faults[HR_SCENARIO_STRIKES_MAX];
    struct hr_sim_slot slots[HR_SIM_SLOTS];
};

/* --- faults --- */

static enum hr_page_lane lane_of(enum hr_deed deed)
{
    if (deed <= HR_DEED_LOSS) {
        return HR_PAGE_NETWORK;
    }
    if (deed == HR_DEED_CLOCK) {
        return HR_PAGE_CLOCK;
    }
    return deed == HR_DEED_FILL ? HR_PAGE_DISK : HR_PAGE_PROCESS;
}

/* When a strike was undone; those that are not last to the end. */
static hr_ns end_of(const struct hr_run *run, uint32_t strike)
{
    for (uint32_t i = strike + 1; i < run->strike_count; i++) {
        if (run->strikes[i].is_over && run->strikes[i].strike == strike) {
            return run->strikes[i].at;
        }
    }
    return run->scenario.lasts;
}

/* Those that struck somebody. */
static void find_faults(struct page *page)
{
    const struct hr_run *run = page->run;
    const struct hr_local_plan *plan = &run->local.plan;
    for (uint32_t i = 0; i < run->strike_count; i++) {
        const struct hr_strike_plan *strike = &run->strikes[i];
        const struct hr_fault_plan *fault = &run->scenario.faults[strike->fault];
        uint32_t node = run->struck[i].node;
        bool is_of_node = fault->deed > HR_DEED_LOSS;
        if (strike->is_over || strike->drifted_ms != 0 || (is_of_node && node >= plan->node_count)) {
            continue;
        }
        struct hr_page_fault *it = &page->faults[page->fault_count++];
        *it = (struct hr_page_fault){strike->at, end_of(run, i), lane_of(fault->deed), ""};
        (void)snprintf(it->title, sizeof(it->title), "%s %s", hr_deed_name(fault->deed),
                       is_of_node ? plan->nodes[node].name : fault->subject);
    }
}

static struct hr_page_fault fault_at(const void *of, uint32_t index)
{
    const struct page *page = of;
    return page->faults[index];
}

/* --- the top of the page --- */

static void put_head(const struct page *page, FILE *out)
{
    const struct hr_run *run = page->run;
    struct hr_run_slot sum = {0};
    bool has_held = true;
    for (uint32_t i = 0; i < run->phase_count; i++) {
        for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
            const struct hr_run_slot *slot = &run->phases[i].regions[region];
            sum.offered += slot->offered;
            sum.admitted += slot->admitted;
            sum.denied += slot->denied;
        }
    }
    for (uint32_t i = 0; i < run->check_count; i++) {
        has_held = has_held && run->checks[i].is_held;
    }
    hr_page_begin(run->scenario.name, out);
    hr_page_text(hr_span_of(run->scenario.about), out);
    (void)fprintf(out, "<br>%u region%s of %u node%s, real processes, for ", run->local.plan.region_count,
                  run->local.plan.region_count == 1 ? "" : "s", run->local.plan.nodes_each,
                  run->local.plan.nodes_each == 1 ? "" : "s");
    hr_page_time(run->scenario.lasts, out);
    hr_page_badge(has_held, has_held ? "Everything held" : "Violated", out);
    uint32_t answered = sum.admitted + sum.denied;
    hr_page_fact(sum.offered, "requests", out);
    hr_page_fact(sum.admitted, "admitted", out);
    hr_page_fact(sum.denied, "denied", out);
    hr_page_fact(sum.offered > answered ? sum.offered - answered : 0, "without an answer", out);
    hr_page_fact(page->fault_count, "faults", out);
    hr_page_facts_end(out);
}

static void put_checks(const struct hr_run *run, FILE *out)
{
    static const char *const columns[] = {"Check", "Verdict", "Bound", "Measured"};
    (void)fputs("<h2>Checks</h2>", out);
    hr_page_table("checks", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (uint32_t i = 0; i < run->check_count; i++) {
        const struct hr_run_check *check = &run->checks[i];
        (void)fprintf(out, "<tr><td><code>%s</code></td><td class=\"%s\">%s</td><td>%s</td><td>%s</td></tr>",
                      check->name, check->is_held ? "good" : "bad", check->is_held ? "held" : "violated", check->bound,
                      check->measured);
    }
    hr_page_table_end(out);
}

/* --- the timeline --- */

/* So many of the load's slots are one of the chart's; what comes after the last whole one is left out. */
static uint32_t find_width(const struct hr_run *run)
{
    return (uint32_t)(run->scenario.lasts / HR_RUN_SLOT_NS + HR_SIM_SLOTS - 1) / HR_SIM_SLOTS;
}

static void fill_slots(struct page *page, uint32_t slot_count, uint32_t width)
{
    const struct hr_local_plan *plan = &page->run->local.plan;
    for (uint32_t node = 0; node < plan->node_count; node++) {
        const struct hr_run_slot *from = hr_run_load_slots(page->run->load, node);
        for (uint32_t i = 0; i < slot_count * width; i++) {
            struct hr_sim_slot *slot = &page->slots[i / width];
            slot->offered += from[i].offered;
            slot->admitted += from[i].admitted;
            slot->of_region[plan->nodes[node].region] += from[i].admitted;
        }
    }
}

static void put_timeline(struct page *page, FILE *out)
{
    const struct hr_run *run = page->run;
    const struct hr_scenario *scenario = &run->scenario;
    const char *phases[HR_RUN_PHASES_MAX];
    hr_ns begins[HR_RUN_PHASES_MAX];
    for (uint32_t i = 0; i < run->phase_count; i++) {
        phases[i] = run->phases[i].name;
        begins[i] = run->phases[i].from;
    }
    uint32_t width = find_width(run);
    struct hr_page_time_axis time = {.slots = (uint32_t)(scenario->lasts / HR_RUN_SLOT_NS) / width,
                                     .slot_ms = width * (uint64_t)(HR_RUN_SLOT_NS / HR_NS_PER_MS),
                                     .phase_count = run->phase_count,
                                     .phases = phases,
                                     .phase_begins = begins,
                                     .fault_count = page->fault_count,
                                     .fault_at = fault_at,
                                     .of = page};
    time.lasts = time.slots * (int64_t)time.slot_ms * HR_NS_PER_MS;
    fill_slots(page, time.slots, width);
    struct hr_page_chart chart = {.time = &time,
                                  .slots = page->slots,
                                  .burst = scenario->burst,
                                  .line_milli = scenario->cap_per_second * 1000,
                                  .region_count = run->local.plan.region_count};
    for (uint32_t i = 0; i < chart.region_count; i++) {
        chart.regions[i] = run->local.plan.regions[i];
    }
    (void)fputs("<h2>Timeline</h2><p class=\"soft\">By when answers came. What was offered beyond the top of the chart "
                "is cut off.</p>",
                out);
    hr_page_legend(out);
    hr_page_card(HR_SPAN("world"), out);
    (void)fputs("a cap over all regions, token_bucket, at most ", out);
    hr_page_whole(scenario->burst, out);
    (void)fputs(", for long ", out);
    hr_page_whole(scenario->cap_per_second, out);
    (void)fputs("/s; asked in each region ", out);
    hr_page_whole(scenario->load_per_second, out);
    (void)fputs("/s", out);
    hr_page_chart(&chart, out);
}

/* --- the rest --- */

static void put_numbers(const uint64_t *numbers, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)fputs("<td class=\"n\">", out);
        hr_page_whole(numbers[i], out);
        (void)fputs("</td>", out);
    }
}

static void put_phase(const struct hr_run *run, const struct hr_run_phase *phase, FILE *out)
{
    uint64_t all[4] = {0};
    for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
        const struct hr_run_slot *slot = &phase->regions[region];
        uint32_t answered = slot->admitted + slot->denied;
        const uint64_t numbers[4] = {slot->offered, slot->admitted, slot->denied,
                                     slot->offered > answered ? slot->offered - answered : 0};
        (void)fprintf(out, "<tr><td>%s</td><td>%s</td>", phase->name, run->local.plan.regions[region]);
        put_numbers(numbers, 4, out);
        (void)fputs("<td></td><td></td></tr>", out);
        for (uint32_t i = 0; i < 4; i++) {
            all[i] += numbers[i];
        }
    }
    const uint64_t cap[2] = {phase->bound, phase->admitted > phase->bound ? phase->admitted - phase->bound : 0};
    (void)fprintf(out, "<tr><td>%s</td><td><b>all</b></td>", phase->name);
    put_numbers(all, 4, out);
    put_numbers(cap, 2, out);
    (void)fputs("</tr>", out);
}

static void put_phases(const struct hr_run *run, FILE *out)
{
    static const char *const columns[] = {"Phase",   "Region",     ">Offered", ">Admitted",
                                          ">Denied", ">No answer", ">Cap",     ">Overshoot"};
    const char *names[HR_RUN_PHASES_MAX];
    struct hr_histogram latency[HR_RUN_PHASES_MAX];
    (void)fputs("<h2>By phase and region</h2>", out);
    hr_page_table("phases", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (uint32_t i = 0; i < run->phase_count; i++) {
        names[i] = run->phases[i].name;
        latency[i] = *run->phases[i].latency;
        put_phase(run, &run->phases[i], out);
    }
    hr_page_table_end(out);
    hr_page_latency(names, latency, run->phase_count, out);
}

static void put_tenths(hr_ns time, FILE *out)
{
    (void)fprintf(out, "<td class=\"n\">%lld.%lld s</td>", (long long)(time / HR_NS_PER_S),
                  (long long)(time % HR_NS_PER_S / (HR_NS_PER_S / 10)));
}

static void put_faults(const struct page *page, FILE *out)
{
    static const char *const columns[] = {"Fault", ">From", ">Until"};
    (void)fputs("<h2>Faults</h2>", out);
    hr_page_table("faults", columns, sizeof(columns) / sizeof(columns[0]), out);
    for (uint32_t i = 0; i < page->fault_count; i++) {
        (void)fprintf(out, "<tr><td><code>%s</code></td>", page->faults[i].title);
        put_tenths(page->faults[i].from, out);
        put_tenths(page->faults[i].until, out);
        (void)fputs("</tr>", out);
    }
    hr_page_table_end(out);
}

void hr_run_print_html(const struct hr_run *run, FILE *out)
{
    static struct page page;
    page = (struct page){.run = run};
    find_faults(&page);
    put_head(&page, out);
    put_checks(run, out);
    put_timeline(&page, out);
    put_phases(run, out);
    put_faults(&page, out);
    (void)fputs("<h2>Again</h2><pre id=\"command\">", out);
    hr_page_text(hr_span_of(run->command), out);
    (void)fputs("</pre>", out);
    hr_page_end(out);
}
