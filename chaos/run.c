#include "chaos/run.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "node/command/client.h"
#include "node/command/cmd.h"
#include "node/command/local_files.h"
#include "node/command/local_links.h"
#include "rpc/pairs.h"
#include "rpc/told.h"

#define ASK_MS 500
#define WELL_NS_MAX (60 * HR_NS_PER_S) /* until a new cluster has formed its regions */
#define LOOK_NS (200 * HR_NS_PER_MS)
#define LATE_NS HR_NS_PER_S /* for the last answers */
#define PATH_BYTES (HR_CONFIG_PATH_BYTES_MAX + 16)

/* --- is all well? --- */

static bool are_all_alive(struct hr_span members, uint32_t wanted)
{
    struct hr_unpacker in = {members};
    uint32_t count = 0, alive = 0;
    if (hr_unpack_array(&in, &count) != HR_OK) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct hr_span member, state;
        if (hr_unpack_skip(&in, &member) != HR_OK || hr_unpack_word(member, HR_SPAN("state"), &state) != HR_OK) {
            return false;
        }
        alive += hr_span_equal(state, HR_SPAN("alive"));
    }
    return alive == wanted;
}

static bool knows_all(struct hr_client *client, uint32_t wanted)
{
    static const struct hr_params none;
    struct hr_span result;
    struct hr_pairs pairs;
    struct hr_pair pair;
    if (hr_client_call(client, HR_METHOD_MEMBERS, &none, &result) != HR_CLIENT_ANSWERED ||
        hr_pairs_begin(&pairs, result) != HR_OK) {
        return false;
    }
    while (hr_pairs_next(&pairs, &pair) == HR_OK) {
        if (hr_span_equal(pair.key, HR_SPAN("members"))) {
            return are_all_alive(pair.value, wanted);
        }
    }
    return false;
}

/* From the counter's owner, that is, whether it admits or not. */
static bool decides(struct hr_client *client)
{
    static struct hr_params params = {
        .present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(HR_PARAM_PEEK),
        .attribute_count = 1,
        .attributes = {{{"tenant", 6}, {"k0000000000", 11}}},
        .peek = true,
    };
    struct hr_span result;
    bool flag = false;
    if (hr_client_call(client, HR_METHOD_CHECK, &params, &result) != HR_CLIENT_ANSWERED ||
        hr_unpack_flag(result, HR_SPAN("allowed"), &flag) != HR_OK) {
        return false;
    }
    bool is_degraded = hr_unpack_flag(result, HR_SPAN("degraded"), &flag) == HR_OK && flag;
    return !is_degraded;
}

static bool is_well(const struct hr_run *run)
{
    const struct hr_local_plan *plan = &run->local.plan;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        struct hr_client client;
        if (!hr_client_open(&client, &plan->nodes[i].rpc, ASK_MS)) {
            return false;
        }
        bool is_node_well = knows_all(&client, plan->node_count) && decides(&client);
        hr_client_close(&client);
        if (!is_node_well) {
            return false;
        }
    }
    return true;
}

/* --- strikes --- */

static uint32_t find_region(const struct hr_local_plan *plan, struct hr_span name)
{
    uint32_t i = 0;
    while (i < plan->region_count && !hr_span_equal(hr_span_of(plan->regions[i]), name)) {
        i++;
    }
    return i;
}

/* us-1; or us-owner, as it is now. node_count: there is none. */
static uint32_t find_node(const struct hr_run *run, const char *name)
{
    const struct hr_local_plan *plan = &run->local.plan;
    const char *dash = strrchr(name, '-');
    if (dash != NULL && strcmp(dash, "-owner") == 0) {
        uint32_t region = find_region(plan, (struct hr_span){name, (size_t)(dash - name)});
        return region < plan->region_count ? hr_run_load_owner(run->load, region) : plan->node_count;
    }
    uint32_t i = 0;
    while (i < plan->node_count && strcmp(plan->nodes[i].name, name) != 0) {
        i++;
    }
    return i;
}

static int set_links(const struct hr_run *run, const struct hr_fault_plan *fault, bool is_over)
{
    static const enum hr_local_cut cuts[] = {
        [HR_DEED_CUT] = HR_LOCAL_CUT, [HR_DEED_MUTE] = HR_LOCAL_MUTE, [HR_DEED_DEAF] = HR_LOCAL_DEAF};
    struct hr_problem problem;
    char path[PATH_BYTES];
    bool is_set;
    (void)snprintf(path, sizeof(path), "%s/links", run->local.folder);
    if (fault->deed == HR_DEED_DELAY) {
        is_set = hr_local_links_tune(path, "delay", is_over ? run->scenario.delay : fault->subject, &problem);
    } else if (fault->deed == HR_DEED_LOSS) {
        is_set = hr_local_links_tune(path, "loss", is_over ? "0%" : fault->subject, &problem);
    } else {
        is_set = hr_local_links_set(path, fault->subject, is_over ? HR_LOCAL_HEALED : cuts[fault->deed], &problem);
    }
    return is_set ? HR_EXIT_DONE : hr_cmd_fail(&problem);
}

static int set_clock(const struct hr_run *run, uint32_t node, int64_t steady_ms, int64_t wall_ms)
{
    const struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_STEADY_OFFSET_MS) |
                                                HR_PARAM_BIT(HR_PARAM_WALL_OFFSET_MS),
                                     .steady_offset_ms = steady_ms,
                                     .wall_offset_ms = wall_ms};
    struct hr_client client;
    struct hr_span result;
    if (!hr_client_open(&client, &run->local.plan.nodes[node].rpc, ASK_MS)) {
        (void)hr_cmd_fail(&client.problem);
        return HR_EXIT_UNREACHABLE;
    }
    bool is_set = hr_client_call(&client, HR_METHOD_CHAOS_CLOCK, &params, &result) == HR_CLIENT_ANSWERED;
    hr_client_close(&client);
    if (!is_set) {
        struct hr_problem problem;
        hr_problem_what(&problem, "the node did not take other clocks");
        hr_problem_where(&problem, "%s", run->local.plan.nodes[node].name);
        (void)hr_cmd_fail(&problem);
        return HR_EXIT_UNREACHABLE;
    }
    return HR_EXIT_DONE;
}

static int strike_node(struct hr_run *run, const struct hr_strike_plan *plan, uint32_t node)
{
    const struct hr_fault_plan *fault = &run->scenario.faults[plan->fault];
    bool is_over = plan->is_over;
    switch ((int)fault->deed) {
    case HR_DEED_KILL:
    case HR_DEED_STOP:
        if (is_over) {
            return hr_local_start_node(&run->local, node);
        }
        hr_local_end_node(&run->local, node, fault->deed == HR_DEED_KILL ? SIGKILL : SIGTERM);
        return HR_EXIT_DONE;
    case HR_DEED_PAUSE:
        hr_local_signal_node(&run->local, node, is_over ? SIGCONT : SIGSTOP);
        return HR_EXIT_DONE;
    case HR_DEED_FILL:
        return is_over ? hr_run_disk_free(run, node) : hr_run_disk_fill(run, node);
    default:
        return is_over ? set_clock(run, node, 0, 0)
                       : set_clock(run, node, fault->steady_ms + plan->drifted_ms, fault->wall_ms + plan->drifted_ms);
    }
}

/* Whoever runs no more is struck by nothing, and is not started twice. */
static int strike(struct hr_run *run, const struct hr_strike_plan *plan)
{
    const struct hr_fault_plan *fault = &run->scenario.faults[plan->fault];
    uint32_t *node = &run->struck[plan->strike].node;
    if (fault->deed <= HR_DEED_LOSS) {
        *node = run->local.plan.node_count;
        hr_run_print_strike(run, plan);
        return set_links(run, fault, plan->is_over);
    }
    bool is_step = plan->drifted_ms != 0;
    if (!plan->is_over && !is_step) {
        *node = find_node(run, fault->subject);
        bool is_running = *node < run->local.plan.node_count && run->local.nodes[*node].pid > 0;
        *node = is_running ? *node : run->local.plan.node_count;
        run->struck[plan->strike].at = hr_run_load_elapsed(run->load);
    }
    if (*node == run->local.plan.node_count) {
        return HR_EXIT_DONE;
    }
    if (!is_step) {
        hr_run_print_strike(run, plan);
    }
    return strike_node(run, plan, *node);
}

/* --- from start to end --- */

/* Where a counter's owner cannot be asked, nothing is admitted: else the cap would not bind (docs/LIMITS.md). */
static int write_limits(struct hr_run *run)
{
    const struct hr_scenario *scenario = &run->scenario;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/limits.yaml", run->local.folder);
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        return hr_cmd_fail_errno("cannot write the file", path);
    }
    (void)fprintf(
        out,
        "limits:\n  - {name: world, when: {tenant: \"*\"}, algorithm: token_bucket, rate: %llu/s, burst: %llu,\n"
        "     scope: global, reserve: \"%u.%04u%%\", on_unavailable: deny}\n",
        (unsigned long long)scenario->cap_per_second, (unsigned long long)scenario->burst,
        scenario->reserve_ppm / 10000, scenario->reserve_ppm % 10000);
    bool is_written = ferror(out) == 0;
    is_written = fclose(out) == 0 && is_written;
    return is_written ? hr_local_take_limits(&run->local, path) : hr_cmd_fail_errno("cannot write the file", path);
}

static int prepare(struct hr_run *run)
{
    struct hr_problem problem;
    if (!hr_local_plan_init(&run->local.plan, run->scenario.regions, run->scenario.nodes_each, &problem)) {
        return hr_cmd_fail(&problem);
    }
    run->local.plan.has_links = run->local.plan.has_chaos = true;
    int status = hr_local_find_programs(&run->local);
    status = status == HR_EXIT_DONE ? hr_local_make_folder(&run->local, run->folder) : status;
    status = status == HR_EXIT_DONE ? write_limits(run) : status;
    status = status == HR_EXIT_DONE ? hr_local_write_files(&run->local, run->scenario.delay) : status;
    return status == HR_EXIT_DONE ? hr_run_disks_open(run) : status;
}

static int stop_early(const struct hr_run *run)
{
    struct hr_problem problem;
    hr_problem_what(&problem, "stopped before its end");
    hr_problem_where(&problem, "%s", run->scenario.name);
    (void)hr_cmd_fail(&problem);
    return HR_EXIT_FAILED;
}

/* All processes serve; now they are to become one cluster. */
static int wait_until_well(struct hr_run *run)
{
    for (hr_ns waited = 0; !is_well(run); waited += LOOK_NS) {
        if (hr_local_wait(&run->local, LOOK_NS)) {
            return stop_early(run);
        }
        if (waited > WELL_NS_MAX) {
            struct hr_problem problem;
            hr_problem_what(&problem, "the nodes do not become a cluster");
            hr_problem_where(&problem, "their logs are in %s", run->local.folder);
            (void)hr_cmd_fail(&problem);
            return HR_EXIT_UNREACHABLE;
        }
    }
    return run->local.is_stopping ? stop_early(run) : HR_EXIT_DONE;
}

static int strike_all(struct hr_run *run)
{
    int status = HR_EXIT_DONE;
    for (uint32_t i = 0; i < run->strike_count && status == HR_EXIT_DONE; i++) {
        if (hr_local_wait(&run->local, run->strikes[i].at - hr_run_load_elapsed(run->load))) {
            return stop_early(run);
        }
        status = strike(run, &run->strikes[i]);
    }
    return status;
}

/* Up to the end of the load, and on until all is well, or had to be. */
static int wait_until_healed(struct hr_run *run)
{
    hr_ns begin = hr_run_load_elapsed(run->load), end = run->scenario.lasts + LATE_NS, now = begin;
    bool is_waiting = run->scenario.heals > 0;
    run->healed = -1;
    while (now < end || (is_waiting && now < begin + run->scenario.heals)) {
        if (is_waiting && is_well(run)) {
            is_waiting = false;
            run->healed = hr_run_load_elapsed(run->load) - begin;
        }
        if (hr_local_wait(&run->local, LOOK_NS)) {
            return stop_early(run);
        }
        now = hr_run_load_elapsed(run->load);
    }
    return HR_EXIT_DONE;
}

static int run_loaded(struct hr_run *run)
{
    struct hr_run_load_plan plan = {&run->local.plan, run->scenario.load_per_second, run->scenario.lasts, 0, 0};
    struct hr_problem problem;
    run->strike_count = hr_scenario_strikes(&run->scenario, run->strikes);
    hr_run_find_faults(run, &plan.faults_from, &plan.faults_until);
    run->load = hr_run_load_start(&plan, &problem);
    if (run->load == NULL) {
        return hr_cmd_fail(&problem);
    }
    int status = strike_all(run);
    status = status == HR_EXIT_DONE ? wait_until_healed(run) : status;
    hr_run_load_stop(run->load);
    for (enum hr_run_time time = 0; time < HR_RUN_TIMES; time++) {
        run->latency[time] = *hr_run_load_latency(run->load, time);
    }
    return status;
}

static int run_cluster(struct hr_run *run)
{
    int status = hr_local_start(&run->local);
    if (status == HR_EXIT_DONE) {
        status = wait_until_well(run);
    }
    if (status == HR_EXIT_DONE) {
        status = run_loaded(run);
    }
    (void)hr_local_stop(&run->local); /* local->has_failed is a check of its own */
    return status;
}

static bool has_held(const struct hr_run *run)
{
    for (uint32_t i = 0; i < run->check_count; i++) {
        if (!run->checks[i].is_held) {
            return false;
        }
    }
    return true;
}

int hr_run(struct hr_run *run)
{
    int status = prepare(run);
    if (status == HR_EXIT_DONE) {
        status = run_cluster(run);
    }
    if (status == HR_EXIT_DONE) {
        hr_run_judge(run);
        status = has_held(run) ? HR_EXIT_DONE : HR_EXIT_FAILED;
    }
    hr_run_disks_close(run);
    if (run->folder == NULL && status == HR_EXIT_DONE) { /* else its logs may tell why */
        hr_local_remove_folder(&run->local);
    }
    return status;
}
