#include <stdio.h>
#include <string.h>

#include "chaos/run.h"
#include "node/value_text.h"

void hr_run_print_strike(const struct hr_run *run, const struct hr_strike_plan *strike)
{
    const struct hr_fault_plan *fault = &run->scenario.faults[strike->fault];
    uint32_t node = run->struck[strike->strike].node;
    const char *subject = node < run->local.plan.node_count ? run->local.plan.nodes[node].name : fault->subject;
    hr_ns at = hr_run_load_elapsed(run->load);
    if (run->is_quiet) {
        return;
    }
    (void)printf("%4lld.%lld s  %s%s %s\n", (long long)(at / HR_NS_PER_S),
                 (long long)(at % HR_NS_PER_S / (HR_NS_PER_S / 10)), strike->is_over ? "end of " : "",
                 hr_deed_name(fault->deed), subject);
    (void)fflush(stdout); /* whether it could be written, main asks at the end */
}

/* Requests that nobody answered. */
static uint32_t lost(const struct hr_run_slot *slot)
{
    uint32_t answered = slot->admitted + slot->denied;
    return slot->offered > answered ? slot->offered - answered : 0;
}

static void print_phase(const struct hr_run *run, const struct hr_run_phase *phase)
{
    for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
        const struct hr_run_slot *slot = &phase->regions[region];
        (void)printf("%-8s %-8s %9u %9u %9u %9u\n", phase->name, run->local.plan.regions[region], slot->offered,
                     slot->admitted, slot->denied, lost(slot));
    }
    unsigned long long over = phase->admitted > phase->bound ? phase->admitted - phase->bound : 0;
    (void)printf("%-8s %-8s %9s %9llu %31s%llu, overshoot %llu\n", phase->name, "all", "",
                 (unsigned long long)phase->admitted, "cap ", (unsigned long long)phase->bound, over);
}

void hr_run_print(const struct hr_run *run)
{
    const struct hr_scenario *scenario = &run->scenario;
    (void)printf("\n%s: %s\ncap %llu/s, burst %llu, over %u regions; %llu/s asked in each\n\n", scenario->name,
                 scenario->about, (unsigned long long)scenario->cap_per_second, (unsigned long long)scenario->burst,
                 run->local.plan.region_count, (unsigned long long)scenario->load_per_second);
    (void)printf("%-8s %-8s %9s %9s %9s %9s\n", "phase", "region", "offered", "admitted", "denied", "no answer");
    for (uint32_t i = 0; i < run->phase_count; i++) {
        print_phase(run, &run->phases[i]);
    }
    (void)printf("\n%-10s %-34s %-26s %s\n", "check", "bound", "measured", "verdict");
    for (uint32_t i = 0; i < run->check_count; i++) {
        const struct hr_run_check *check = &run->checks[i];
        (void)printf("%-10s %-34s %-26s %s\n", check->name, check->bound, check->measured,
                     check->is_held ? "held" : "VIOLATED");
    }
}

static void print_phase_json(const struct hr_run *run, const struct hr_run_phase *phase)
{
    (void)printf("{\"phase\":\"%s\",\"from_ms\":%lld,\"to_ms\":%lld,\"regions\":[", phase->name,
                 (long long)(phase->from / HR_NS_PER_MS), (long long)(phase->to / HR_NS_PER_MS));
    for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
        const struct hr_run_slot *slot = &phase->regions[region];
        (void)printf("%s{\"region\":\"%s\",\"offered\":%u,\"admitted\":%u,\"denied\":%u,\"no_answer\":%u,"
                     "\"degraded\":%u}",
                     region == 0 ? "" : ",", run->local.plan.regions[region], slot->offered, slot->admitted,
                     slot->denied, lost(slot), slot->degraded);
    }
    const struct hr_histogram *latency = phase->latency;
    (void)printf("],\"admitted\":%llu,\"cap\":%llu,\"latency_us\":{\"count\":%llu,\"p50\":%llu,\"p99\":%llu,"
                 "\"p999\":%llu,\"max\":%llu}}",
                 (unsigned long long)phase->admitted, (unsigned long long)phase->bound,
                 (unsigned long long)latency->count, (unsigned long long)hr_histogram_quantile(latency, 500) / 1000,
                 (unsigned long long)hr_histogram_quantile(latency, 990) / 1000,
                 (unsigned long long)hr_histogram_quantile(latency, 999) / 1000,
                 (unsigned long long)latency->max_ns / 1000);
}

void hr_run_print_json(const struct hr_run *run)
{
    bool has_held = true;
    (void)fputs("{\"scenario\":", stdout);
    hr_text_print_json(stdout, hr_span_of(run->scenario.name));
    (void)fputs(",\"command\":", stdout);
    hr_text_print_json(stdout, hr_span_of(run->command));
    (void)fputs(",\"phases\":[", stdout);
    for (uint32_t i = 0; i < run->phase_count; i++) {
        (void)fputs(i == 0 ? "" : ",", stdout);
        print_phase_json(run, &run->phases[i]);
    }
    (void)fputs("],\"checks\":[", stdout);
    for (uint32_t i = 0; i < run->check_count; i++) {
        const struct hr_run_check *check = &run->checks[i];
        has_held = has_held && check->is_held;
        (void)printf("%s{\"check\":\"%s\",\"bound\":\"%s\",\"measured\":\"%s\",\"held\":%s}", i == 0 ? "" : ",",
                     check->name, check->bound, check->measured, check->is_held ? "true" : "false");
    }
    (void)printf("],\"held\":%s}\n", has_held ? "true" : "false");
}
