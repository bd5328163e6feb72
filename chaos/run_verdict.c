#include <stdio.h>

#include "chaos/run.h"

#define FORGETS_NS (300 * HR_NS_PER_MS) /* a flush interval, the commit's time, and the standby's */
#define CLOCK_ERROR_PPM 1000            /* between the machines' clocks, and ours (docs/CONSISTENCY.md) */
#define MILLION UINT64_C(1000000)

/* What was counted in a region, or with region_count in all, in the slots that begin within [from, to). */
static struct hr_run_slot count(const struct hr_run *run, uint32_t region, hr_ns from, hr_ns to)
{
    const struct hr_local_plan *plan = &run->local.plan;
    struct hr_run_slot sum = {0};
    for (uint32_t node = 0; node < plan->node_count; node++) {
        const struct hr_run_slot *slots = hr_run_load_slots(run->load, node);
        if (region < plan->region_count && plan->nodes[node].region != region) {
            continue;
        }
        for (uint32_t i = 0; i < hr_run_load_slot_count(run->load); i++) {
            if (i * HR_RUN_SLOT_NS >= from && i * HR_RUN_SLOT_NS < to) {
                sum.offered += slots[i].offered;
                sum.admitted += slots[i].admitted;
                sum.denied += slots[i].denied;
                sum.errors += slots[i].errors;
                sum.degraded += slots[i].degraded;
            }
        }
    }
    return sum;
}

static uint64_t refill(const struct hr_run *run, hr_ns time)
{
    return run->scenario.cap_per_second * (uint64_t)(time / HR_NS_PER_MS) / 1000;
}

/* --- phases --- */

/* Until the last answer. */
static hr_ns end_of_answers(const struct hr_run *run)
{
    hr_ns end = run->scenario.lasts;
    hr_ns all = hr_run_load_slot_count(run->load) * HR_RUN_SLOT_NS;
    for (hr_ns at = end; at < all; at += HR_RUN_SLOT_NS) {
        const struct hr_run_slot slot = count(run, run->local.plan.region_count, at, at + HR_RUN_SLOT_NS);
        end = slot.admitted + slot.denied + slot.errors > 0 ? at + HR_RUN_SLOT_NS : end;
    }
    return end;
}

static void add_phase(struct hr_run *run, enum hr_run_time time, hr_ns from, hr_ns to)
{
    static const char *const names[] = {"calm", "faults", "after"};
    if (to - from < HR_RUN_SLOT_NS) {
        return;
    }
    struct hr_run_phase *phase = &run->phases[run->phase_count++];
    *phase = (struct hr_run_phase){.name = names[time], .latency = &run->latency[time], .from = from, .to = to};
    for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
        phase->regions[region] = count(run, region, from, to);
        phase->admitted += phase->regions[region].admitted;
    }
    phase->bound = run->scenario.burst + refill(run, to - from);
}

/* To whole slots. */
static hr_ns slotted(hr_ns time)
{
    return time / HR_RUN_SLOT_NS * HR_RUN_SLOT_NS;
}

void hr_run_find_faults(const struct hr_run *run, hr_ns *ret_from, hr_ns *ret_until)
{
    bool has_any = run->strike_count > 0;
    *ret_from = has_any ? slotted(run->strikes[0].at) : INT64_MAX;
    *ret_until = has_any ? slotted(run->strikes[run->strike_count - 1].at) : INT64_MAX;
}

static void find_phases(struct hr_run *run)
{
    hr_ns end = end_of_answers(run), from, until;
    hr_run_find_faults(run, &from, &until);
    if (run->strike_count == 0) {
        add_phase(run, HR_RUN_CALM, 0, end);
        return;
    }
    add_phase(run, HR_RUN_CALM, 0, from);
    add_phase(run, HR_RUN_FAULTS, from, until);
    add_phase(run, HR_RUN_AFTER, until, end);
}

/* --- checks --- */

static struct hr_run_check *add_check(struct hr_run *run, const char *name, bool is_held)
{
    struct hr_run_check *check = &run->checks[run->check_count++];
    check->name = name;
    check->is_held = is_held;
    return check;
}

/* What the faults may add to the cap. */
static uint64_t allowance(const struct hr_run *run)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->strike_count; i++) {
        const struct hr_strike_plan *strike = &run->strikes[i];
        const struct hr_fault_plan *fault = &run->scenario.faults[strike->fault];
        uint32_t node = run->struck[strike->strike].node;
        if (strike->is_over || strike->drifted_ms != 0 || node >= run->local.plan.node_count) {
            continue;
        }
        if (fault->deed == HR_DEED_KILL) {
            hr_ns at = run->struck[strike->strike].at;
            sum += count(run, run->local.plan.nodes[node].region, at - FORGETS_NS, at + HR_RUN_SLOT_NS).admitted;
        } else if (fault->deed == HR_DEED_CLOCK && fault->steady_ms > 0) {
            uint64_t jump = refill(run, fault->steady_ms * HR_NS_PER_MS);
            sum += jump < run->scenario.burst ? jump : run->scenario.burst;
        }
    }
    return sum;
}

static void check_cap(struct hr_run *run)
{
    hr_ns end = end_of_answers(run);
    uint64_t minted = refill(run, end), added = allowance(run);
    uint64_t bound = run->scenario.burst + minted + minted * CLOCK_ERROR_PPM / MILLION + 1 + added;
    uint64_t admitted = count(run, run->local.plan.region_count, 0, end).admitted;
    struct hr_run_check *check = add_check(run, "cap", admitted <= bound);
    if (added > 0) {
        (void)snprintf(check->bound, sizeof(check->bound), "%llu, of which %llu for the faults",
                       (unsigned long long)bound, (unsigned long long)added);
    } else {
        (void)snprintf(check->bound, sizeof(check->bound), "%llu", (unsigned long long)bound);
    }
    (void)snprintf(check->measured, sizeof(check->measured), "%llu, overshoot %llu", (unsigned long long)admitted,
                   (unsigned long long)(admitted > bound ? admitted - bound : 0));
}

static void print_percent(char *text, size_t room, const char *before, uint64_t ppm)
{
    (void)snprintf(text, room, "%s%llu.%02llu %%", before, (unsigned long long)(ppm / 10000),
                   (unsigned long long)(ppm % 10000 / 100));
}

/* How much of its reserve, or of what it asked for where that is less, a region had, in the phase that was worst. */
static uint64_t worst_part_ppm(const struct hr_run *run)
{
    const struct hr_scenario *scenario = &run->scenario;
    uint64_t worst = UINT64_MAX;
    for (uint32_t i = 0; i < run->phase_count; i++) {
        const struct hr_run_phase *phase = &run->phases[i];
        uint64_t reserve =
            refill(run, phase->to - phase->from) * scenario->reserve_ppm / MILLION / run->local.plan.region_count;
        for (uint32_t region = 0; region < run->local.plan.region_count; region++) {
            const struct hr_run_slot *slot = &phase->regions[region];
            uint64_t wanted = slot->offered < reserve ? slot->offered : reserve;
            uint64_t part = wanted > 0 ? slot->admitted * MILLION / wanted : MILLION;
            worst = part < worst ? part : worst;
        }
    }
    return worst;
}

static void check_reserve(struct hr_run *run)
{
    uint64_t part = worst_part_ppm(run);
    struct hr_run_check *check = add_check(run, "reserve", part >= run->scenario.reserve_part_ppm);
    print_percent(check->bound, sizeof(check->bound), "at least ", run->scenario.reserve_part_ppm);
    print_percent(check->measured, sizeof(check->measured), "", part);
}

static void check_answers(struct hr_run *run)
{
    const struct hr_run_slot all = count(run, run->local.plan.region_count, 0, INT64_MAX);
    uint64_t answered = (uint64_t)all.admitted + all.denied;
    uint64_t ppm = all.offered > 0 ? answered * MILLION / all.offered : 0;
    struct hr_run_check *check = add_check(run, "answers", ppm >= run->scenario.answers_ppm);
    print_percent(check->bound, sizeof(check->bound), "at least ", run->scenario.answers_ppm);
    print_percent(check->measured, sizeof(check->measured), "", ppm);
}

static void check_healed(struct hr_run *run)
{
    hr_ns healed = run->healed;
    struct hr_run_check *check = add_check(run, "heals", healed >= 0 && healed <= run->scenario.heals);
    (void)snprintf(check->bound, sizeof(check->bound), "within %lld.%03lld s",
                   (long long)(run->scenario.heals / HR_NS_PER_S),
                   (long long)(run->scenario.heals % HR_NS_PER_S / HR_NS_PER_MS));
    if (healed < 0) {
        (void)snprintf(check->measured, sizeof(check->measured), "not");
        return;
    }
    (void)snprintf(check->measured, sizeof(check->measured), "%lld.%03lld s", (long long)(healed / HR_NS_PER_S),
                   (long long)(healed % HR_NS_PER_S / HR_NS_PER_MS));
}

static void check_processes(struct hr_run *run)
{
    struct hr_run_check *check = add_check(run, "processes", !run->local.has_failed);
    (void)snprintf(check->bound, sizeof(check->bound), "none ends by itself");
    (void)snprintf(check->measured, sizeof(check->measured), run->local.has_failed ? "one did" : "none did");
}

void hr_run_judge(struct hr_run *run)
{
    run->phase_count = run->check_count = 0;
    find_phases(run);
    check_cap(run);
    if (run->scenario.reserve_part_ppm > 0) {
        check_reserve(run);
    }
    if (run->scenario.answers_ppm > 0) {
        check_answers(run);
    }
    if (run->scenario.heals > 0) {
        check_healed(run);
    }
    check_processes(run);
}
