#include "chaos/sim.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/sim_state.h"

#define AUDIT_NS (20 * HR_NS_PER_S) /* of each node */
#define AUDIT_SHAPES 8
#define AUDIT_SHAPES_LAST 100
#define LAST_AUDIT_NS HR_NS_PER_S /* before the end */
#define WATCH_NS HR_NS_PER_S
#define OWNERS_NS (100 * HR_NS_PER_MS)
#define AUDIT_CLUSTER_NS (5 * HR_NS_PER_S)
#define FACT_NS (2 * HR_NS_PER_S) /* an operator puts a limit as often as that */

/* At the end nothing has struck for this long at least: what must be well again by then. */
#define HEALS_NS (10 * HR_NS_PER_S)

const char *const hr_phase_names[HR_PHASE_COUNT] = {"calm", "faults", "healed"};

/* A twentieth of a run is calm, a tenth heals, but no less than a few seconds of either. */
struct hr_sim_phases hr_sim_phases(hr_ns lasts_ns)
{
    hr_ns calm = lasts_ns / 20 > 2 * HR_NS_PER_S ? lasts_ns / 20 : 2 * HR_NS_PER_S;
    hr_ns heals = lasts_ns / 10 > HEALS_NS ? lasts_ns / 10 : HEALS_NS;
    hr_ns max = 10 * 60 * HR_NS_PER_S;
    return (struct hr_sim_phases){calm < max ? calm : max, lasts_ns - (heals < max ? heals : max)};
}

void hr_sim_put(struct hr_sim *sim, hr_ns at, enum hr_sim_kind kind, uint32_t who, uint64_t what)
{
    enum hr_err err =
        hr_queue_put(&sim->queue, (struct hr_sim_event){.at = at, .kind = kind, .who = who, .what = what});
    sim->err = sim->err != HR_OK ? sim->err : err;
}

/* --- nodes --- */

static void commit(struct hr_sim *sim, uint32_t node, const struct hr_store_batch *batch, uint64_t ticket)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_now now = hr_sim_now(sim, member);
    hr_ns took_ns;
    enum hr_err err = hr_sim_disk_commit(&member->disk, ticket, batch, &took_ns);
    if (err != HR_OK) {
        hr_sim_node_persisted(&member->node, ticket, err, now);
        return;
    }
    member->is_committing = true;
    member->built_at = now.steady;
    hr_sim_put(sim, sim->at + took_ns, HR_SIM_SYNC, node, member->node.lives);
}

static void plan_turn(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    hr_ns deadline = hr_sim_node_deadline(&member->node);
    if (deadline == member->planned_for && member->turn_at != INT64_MAX) {
        return; /* most requests change nothing about it */
    }
    member->planned_for = deadline;
    hr_ns at = hr_sim_clock_when(&member->clock, deadline);
    at = at > sim->at ? at : sim->at + HR_NS_PER_MS;
    if (at < member->turn_at) {
        member->turn_at = at;
        hr_sim_put(sim, at, HR_SIM_TURN, node, 0);
    }
}

static void send_packets(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_packet packet;
    uint32_t to;
    while (hr_sim_node_next_packet(&member->node, hr_sim_now(sim, member), &packet, &to)) {
        const struct hr_sim_packet sent = {node, to, packet.lane, packet.bytes};
        hr_net_send(sim->net, &sent, sim->at);
    }
}

void hr_sim_turn(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    uint64_t ticket;
    if (sim->bounds != NULL) {
        hr_sim_take_answers(sim, node);
        hr_sim_take_facts(sim, node);
        send_packets(sim, node);
    }
    if (!member->is_committing) {
        const struct hr_store_batch *batch = hr_sim_node_next_batch(&member->node, hr_sim_now(sim, member), &ticket);
        if (batch != NULL) {
            commit(sim, node, batch, ticket);
        }
    }
    plan_turn(sim, node);
}

static void on_turn(struct hr_sim *sim, uint32_t node);

static void free_packets(struct hr_sim_member *member)
{
    for (uint32_t i = 0; i < member->packet_count; i++) {
        free(member->packets[i].at);
    }
    member->packet_count = 0;
}

static void end_life(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    if (sim->bounds != NULL) {
        member->inherited += hr_tenure_counts(hr_core_tenure(member->node.core), 0).inherited;
    }
    hr_sim_node_stop(&member->node);
    member->is_committing = member->is_leaving = false;
    free_packets(member);
    if (sim->bounds != NULL) {
        hr_bounds_end_life(sim->bounds, node);
    }
}

/* The process ends, and all that it had is on its disk first; but on a disk that takes nothing it is as after a crash.
 */
static void end_cleanly(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_now now = hr_sim_now(sim, member);
    send_packets(sim, node); /* it says that it leaves */
    if (member->disk.state.is_failing || member->disk.state.is_full) {
        hr_sim_crash(sim, node);
        return;
    }
    struct hr_store_result result;
    while (hr_sim_disk_sync(&member->disk, &result)) {
        hr_sim_node_persisted(&member->node, result.ticket, result.err, now);
    }
    sim->err = sim->err != HR_OK ? sim->err : hr_sim_node_drain(&member->node, &member->disk, now);
    end_life(sim, node);
    if (sim->bounds == NULL) {
        hr_checker_crash(sim->checker, hr_sim_domain(sim, node), now); /* what is in memory alone is gone */
    }
    hr_sim_lose_asks(sim, node);
}

void hr_sim_leave(struct hr_sim *sim, uint32_t node)
{
    sim->members[node].is_leaving = true;
    sim->members[node].turn_at = sim->at;
    on_turn(sim, node);
}

static void on_turn(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    if (sim->at != member->turn_at) {
        return; /* an earlier one has taken its place */
    }
    member->turn_at = INT64_MAX;
    if (!hr_sim_node_is_up(&member->node) || member->is_paused) {
        return;
    }
    hr_sim_node_tick(&member->node, hr_sim_now(sim, member));
    if (sim->bounds == NULL || member->is_leaving) { /* else the turn begins with them */
        hr_sim_take_answers(sim, node);
    }
    if (member->is_leaving && hr_sim_node_leave(&member->node, hr_sim_now(sim, member))) {
        end_cleanly(sim, node);
        return;
    }
    hr_sim_turn(sim, node);
}

/* All that changed a flush interval before an acknowledged batch was built is in it, or in one before it; unless one
 * before it failed, whose changes may take a flush interval to be in another. */
static void note_durable(struct hr_sim *sim, uint32_t node, enum hr_err err)
{
    struct hr_sim_member *member = &sim->members[node];
    hr_ns interval = sim->options->flush_interval_ns;
    if (err != HR_OK) {
        member->whole_from = member->built_at + interval;
        sim->outcome->counts.syncs_failed++;
        return;
    }
    sim->outcome->counts.syncs++;
    if (member->built_at >= member->whole_from && sim->bounds == NULL) {
        hr_checker_durable(sim->checker, hr_sim_domain(sim, node), member->built_at - interval);
    }
}

static void on_sync(struct hr_sim *sim, uint32_t node, uint64_t life)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_store_result result;
    if (!hr_sim_node_is_up(&member->node) || member->node.lives != life) {
        return;
    }
    if (member->is_paused) { /* the disk is done, but nobody looks */
        hr_sim_put(sim, sim->at + HR_NS_PER_MS, HR_SIM_SYNC, node, life);
        return;
    }
    if (!hr_sim_disk_sync(&member->disk, &result)) {
        return;
    }
    member->is_committing = false;
    hr_sim_fold(sim, result.ticket << 8 | (uint64_t)result.err);
    note_durable(sim, node, result.err);
    hr_sim_node_persisted(&member->node, result.ticket, result.err, hr_sim_now(sim, member));
    if (sim->bounds == NULL) {
        hr_sim_take_answers(sim, node);
    }
    hr_sim_turn(sim, node);
}

void hr_sim_start(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    enum hr_err err = hr_sim_node_start(&member->node, &member->disk, hr_sim_now(sim, member));
    err = err != HR_OK ? err : hr_sim_restore_facts(sim, node);
    if (err != HR_OK) {
        sim->err = err;
        return;
    }
    member->is_committing = false;
    member->whole_from = 0;
    member->turn_at = INT64_MAX;
    hr_sim_turn(sim, node);
    if (member->node.lives > 1 && sim->bounds == NULL) {
        hr_checker_restart(sim->checker, hr_sim_domain(sim, node), hr_sim_now(sim, member));
        hr_sim_put(sim, sim->at, HR_SIM_AUDIT, node, HR_CHECK_DURABLE);
    }
}

void hr_sim_crash(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    end_life(sim, node);
    hr_sim_disk_crash(&member->disk);
    sim->outcome->counts.crashes++;
    member->crashes++;
    hr_net_drop_node(sim->net, node);
    if (sim->bounds == NULL) {
        hr_checker_crash(sim->checker, hr_sim_domain(sim, node), hr_sim_now(sim, member));
    }
    hr_sim_lose_asks(sim, node);
}

/* It goes on where it stood: with what has come meanwhile, and its overdue turn. */
void hr_sim_resume(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    if (!hr_sim_node_is_up(&member->node)) {
        return;
    }
    for (uint32_t i = 0; i < member->packet_count; i++) {
        const struct hr_span bytes = {member->packets[i].at, member->packets[i].bytes};
        hr_sim_node_receive(&member->node, bytes, hr_sim_now(sim, member));
    }
    free_packets(member);
    member->turn_at = sim->at;
    on_turn(sim, node);
    hr_sim_resume_asks(sim, node);
}

/* --- packets --- */

static void keep_packet(struct hr_sim *sim, struct hr_sim_member *member, struct hr_span bytes)
{
    if (member->packets == NULL) {
        member->packets = calloc(HR_SIM_HELD_PACKETS_MAX, sizeof(*member->packets));
    }
    char *copy = malloc(bytes.bytes > 0 ? bytes.bytes : 1);
    if (member->packets == NULL || copy == NULL) {
        free(copy);
        sim->err = HR_E_MEMORY;
        return;
    }
    memcpy(copy, bytes.at, bytes.bytes);
    struct hr_sim_held_packet *held = &member->packets[member->packet_count++];
    held->at = copy;
    held->bytes = bytes.bytes;
}

/* A packet ends with its seal, which is a hash over all before it. */
static void fold_packet(struct hr_sim *sim, const struct hr_sim_packet *packet)
{
    uint64_t seal = 0;
    if (packet->bytes.bytes >= sizeof(seal)) {
        memcpy(&seal, packet->bytes.at + packet->bytes.bytes - sizeof(seal), sizeof(seal));
    }
    hr_sim_fold(sim, le64toh(seal) ^ (uint64_t)packet->from << 8 ^ packet->to);
}

static void deliver(struct hr_sim *sim, const struct hr_sim_packet *packet)
{
    struct hr_sim_member *member = &sim->members[packet->to];
    fold_packet(sim, packet);
    if (!hr_sim_node_is_up(&member->node)) {
        return;
    }
    if (member->is_paused) {
        if (member->packet_count < HR_SIM_HELD_PACKETS_MAX) {
            keep_packet(sim, member, packet->bytes);
        }
        return;
    }
    hr_sim_node_receive(&member->node, packet->bytes, hr_sim_now(sim, member));
    hr_sim_turn(sim, packet->to);
}

/* --- a run --- */

/* A node that is alone in its region has the whole of every limit. */
static uint32_t count_cap_regions(const struct hr_sim *sim)
{
    const struct hr_limits_file *limits = sim->options->limits;
    for (uint32_t i = 0; i < limits->limit_count && sim->bounds != NULL; i++) {
        if (limits->limits[i].scope == HR_SCOPE_GLOBAL && sim->options->shape.regions > 1) {
            return sim->options->shape.regions;
        }
    }
    return 0;
}

static void name_members(struct hr_sim *sim)
{
    const struct hr_sim_options *options = sim->options;
    uint32_t cap_regions = count_cap_regions(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct hr_sim_member *member = &sim->members[i];
        hr_sim_place_print((struct hr_sim_place){HR_SIM_PLACE_NODE, i}, options->shape, member->name);
        memcpy(sim->names[i], member->name, sizeof(member->name));
        member->node.config = (struct hr_sim_node_config){
            .name = member->name,
            .is_alone = sim->bounds == NULL,
            .cap_regions = cap_regions,
            .peer_count = sim->node_count,
            .peers = (const char(*)[HR_SIM_PLACE_BYTES_MAX])sim->names,
            .seed = options->seed,
            .region = hr_sim_region_name(hr_sim_region_of(options->shape, i)),
            .set = &sim->universe->set,
            .flush_interval_ns = options->flush_interval_ns,
            .counters_max = 2 * sim->universe->counter_count + 1024,
        };
    }
}

/* Clocks of different machines: seconds apart from the start. */
static void init_members(struct hr_sim *sim)
{
    struct hr_rng rng = hr_dice_fork(sim->options->seed, 7);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        struct hr_sim_member *member = &sim->members[i];
        member->turn_at = INT64_MAX;
        member->clock = (struct hr_sim_clock){
            .steady_base = HR_SIM_EPOCH_NS + hr_dice_between(&rng, -5 * HR_NS_PER_S, 5 * HR_NS_PER_S),
            .wall_ahead_ns = hr_dice_between(&rng, -HR_NS_PER_S, HR_NS_PER_S),
        };
        hr_sim_disk_init(&member->disk, sim->options->seed + i);
    }
}

/* The first limits of the file that anybody asks have a timeline. */
static enum hr_err init_timelines(struct hr_sim *sim)
{
    struct hr_sim_outcome *outcome = sim->outcome;
    outcome->timelines = calloc(HR_SIM_TIMELINES_MAX, sizeof(*outcome->timelines));
    sim->watch = calloc(sim->universe->shape_count, sizeof(*sim->watch));
    if (outcome->timelines == NULL || sim->watch == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t i = 0; i < sim->options->limits->limit_count; i++) {
        if (sim->universe->watched[i] != UINT32_MAX && outcome->timeline_count < HR_SIM_TIMELINES_MAX) {
            outcome->timelines[outcome->timeline_count].limit = i;
            outcome->timelines[outcome->timeline_count++].counter = sim->universe->watched[i];
        }
    }
    for (uint32_t i = 0; i < sim->universe->shape_count; i++) {
        const struct hr_shape *shape = &sim->universe->shapes[i];
        for (uint32_t k = 0; k < outcome->timeline_count * shape->touch_count; k++) {
            uint32_t timeline = k / shape->touch_count;
            bool is_on = shape->touches[k % shape->touch_count].counter == outcome->timelines[timeline].counter;
            sim->watch[i] = (uint16_t)(sim->watch[i] | (is_on ? 1U << timeline : 0));
        }
    }
    return HR_OK;
}

static enum hr_err init(struct hr_sim *sim, struct hr_problem *problem)
{
    const struct hr_sim_options *options = sim->options;
    sim->universe = hr_universe_new(options->limits, options->keys, options->seed, problem);
    sim->members = calloc(sim->node_count, sizeof(*sim->members));
    sim->net = hr_net_new(sim->node_count, options->seed);
    if (sim->universe == NULL || sim->members == NULL || sim->net == NULL) {
        return HR_E_MEMORY;
    }
    sim->names = calloc(sim->node_count, sizeof(*sim->names));
    const struct hr_checker_config checker = {sim->universe, sim->node_count, options->flush_interval_ns};
    sim->checker = hr_checker_new(&checker);
    const struct hr_bounds_config bounds = {sim->universe,        sim->checker, options->shape.regions,
                                            options->shape.nodes, hr_sim_marks, sim};
    bool is_cluster = options->shape.nodes > 1;
    sim->bounds = is_cluster && sim->checker != NULL ? hr_bounds_new(&bounds) : NULL;
    if (sim->names == NULL || sim->checker == NULL || (is_cluster && sim->bounds == NULL)) {
        return HR_E_MEMORY;
    }
    init_members(sim);
    name_members(sim);
    enum hr_err err = init_timelines(sim);
    err = err != HR_OK ? err : hr_sim_clients_init(sim);
    return err != HR_OK ? err : hr_sim_faults_init(sim);
}

static void deinit(struct hr_sim *sim)
{
    for (uint32_t i = 0; sim->members != NULL && i < sim->node_count; i++) {
        hr_sim_node_stop(&sim->members[i].node);
        free_packets(&sim->members[i]);
        free(sim->members[i].packets);
        hr_sim_disk_deinit(&sim->members[i].disk);
    }
    hr_sim_clients_deinit(sim);
    hr_bounds_free(sim->bounds);
    hr_checker_free(sim->checker);
    hr_universe_free(sim->universe);
    hr_net_free(sim->net);
    hr_queue_deinit(&sim->queue);
    free(sim->members);
    free(sim->names);
    free(sim->links);
    free(sim->active);
    free(sim->watch);
}

static void on_audit(struct hr_sim *sim, uint32_t node, enum hr_check check)
{
    hr_sim_audit(sim, node, check, check == HR_CHECK_HEALS ? AUDIT_SHAPES_LAST : AUDIT_SHAPES);
    hr_ns next = sim->at + (sim->bounds == NULL ? AUDIT_NS : AUDIT_CLUSTER_NS);
    if (check == HR_CHECK_DENIES && next < sim->options->lasts_ns - LAST_AUDIT_NS) { /* the last is to be answered */
        hr_sim_put(sim, next, HR_SIM_AUDIT, node, check);
    }
}

static void on_watch(struct hr_sim *sim)
{
    hr_sim_watch_asks(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct hr_sim_member *member = &sim->members[i];
        hr_checker_note(sim->checker, HR_CHECK_QUEUES, member->disk.count <= 1, sim->at,
                        "%s has %u batches on their way to its disk at once", member->name, member->disk.count);
    }
    if (sim->bounds != NULL) {
        hr_sim_watch(sim);
    }
    hr_sim_put(sim, sim->at + WATCH_NS, HR_SIM_WATCH, 0, 0);
}

static void on_fact(struct hr_sim *sim)
{
    hr_sim_put_fact(sim, (uint32_t)hr_rng_below(&sim->rng, sim->node_count));
    hr_sim_put(sim, sim->at + FACT_NS, HR_SIM_FACT, 0, 0);
}

static void carry_out(struct hr_sim *sim, const struct hr_sim_event *event)
{
    switch ((enum hr_sim_kind)event->kind) {
    case HR_SIM_ARRIVAL:
        hr_sim_arrive(sim, event->who);
        break;
    case HR_SIM_ASK:
        hr_sim_ask(sim, (uint32_t)event->what);
        break;
    case HR_SIM_TURN:
        on_turn(sim, event->who);
        break;
    case HR_SIM_SYNC:
        on_sync(sim, event->who, event->what);
        break;
    case HR_SIM_BEGIN:
    case HR_SIM_END:
        hr_sim_strike(sim, (uint32_t)event->what, event->kind == HR_SIM_BEGIN);
        break;
    case HR_SIM_AUDIT:
        on_audit(sim, event->who, (enum hr_check)event->what);
        break;
    case HR_SIM_WATCH:
        on_watch(sim);
        break;
    case HR_SIM_OWNERS:
        hr_sim_watch_owners(sim);
        hr_sim_put(sim, sim->at + OWNERS_NS, HR_SIM_OWNERS, 0, 0);
        break;
    case HR_SIM_FACT:
        on_fact(sim);
        break;
    }
}

static void start(struct hr_sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count && sim->err == HR_OK; i++) {
        hr_sim_start(sim, i);
        hr_sim_put(sim, AUDIT_NS / sim->node_count * i, HR_SIM_AUDIT, i, HR_CHECK_DENIES);
        if (sim->bounds != NULL) { /* which the network has to carry, and to answer */
            hr_sim_put(sim, sim->options->lasts_ns - LAST_AUDIT_NS, HR_SIM_AUDIT, i, HR_CHECK_HEALS);
        }
    }
    hr_sim_put(sim, WATCH_NS, HR_SIM_WATCH, 0, 0);
    if (sim->bounds != NULL) {
        hr_sim_put(sim, FACT_NS, HR_SIM_FACT, 0, 0);
        hr_sim_put(sim, OWNERS_NS, HR_SIM_OWNERS, 0, 0);
    }
}

static hr_ns next_event_at(const struct hr_sim *sim)
{
    return sim->queue.count == 0 ? INT64_MAX : sim->queue.heap[0].at;
}

static void step_to(struct hr_sim *sim, hr_ns at)
{
    sim->at = at;
    sim->slot = (uint32_t)(at / (sim->options->lasts_ns / HR_SIM_SLOTS + 1));
    sim->outcome->counts.events++;
}

/* What comes first, a packet or an event. False: that is after the end. */
static bool step(struct hr_sim *sim)
{
    struct hr_sim_event event;
    struct hr_sim_packet packet;
    hr_ns packet_at = hr_net_deadline(sim->net), event_at = next_event_at(sim);
    if ((packet_at < event_at ? packet_at : event_at) >= sim->options->lasts_ns) {
        return false;
    }
    if (packet_at <= event_at) {
        step_to(sim, packet_at);
        if (hr_net_receive(sim->net, packet_at, &packet)) {
            deliver(sim, &packet);
        }
        return true;
    }
    (void)hr_queue_take(&sim->queue, &event); /* there is one */
    step_to(sim, event_at);
    hr_sim_fold(sim, (uint64_t)event.at ^ (uint64_t)event.kind << 56 ^ (uint64_t)event.who << 40);
    carry_out(sim, &event);
    return true;
}

static void run(struct hr_sim *sim, bool stops_early)
{
    while (sim->err == HR_OK && step(sim)) {
        if (stops_early && hr_checker_first(sim->checker) != HR_CHECK_COUNT) {
            return;
        }
    }
    sim->at = sim->options->lasts_ns;
}

/* Nothing has struck for a while: every node is there, and every counter is what it should be. */
static void check_healed(struct hr_sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        bool is_up = hr_sim_node_is_up(&sim->members[i].node);
        hr_checker_note(sim->checker, HR_CHECK_HEALS, is_up, sim->at, "%s is not up again", sim->members[i].name);
        if (is_up && sim->bounds == NULL) {
            hr_sim_audit(sim, i, HR_CHECK_HEALS, AUDIT_SHAPES_LAST);
        }
    }
    if (sim->bounds != NULL) {
        hr_sim_check_healed(sim);
    }
}

static void report(struct hr_sim *sim)
{
    struct hr_sim_outcome *outcome = sim->outcome;
    outcome->trace = sim->trace;
    outcome->ended_at = sim->at;
    outcome->first = hr_checker_first(sim->checker);
    outcome->net = hr_net_counts(sim->net);
    outcome->domains = sim->bounds == NULL ? sim->node_count : sim->options->shape.regions;
    memcpy(outcome->verdicts, hr_checker_verdicts(sim->checker), sizeof(outcome->verdicts));
    for (uint32_t i = 0; i < sim->node_count; i++) {
        outcome->counts.batches_lost += sim->members[i].disk.lost;
    }
}

bool hr_sim_run(const struct hr_sim_options *options, const struct hr_schedule *schedule, bool stops_early,
                struct hr_sim_outcome *ret_outcome, struct hr_problem *ret_problem)
{
    *ret_outcome = (struct hr_sim_outcome){.first = HR_CHECK_COUNT};
    hr_problem_what(ret_problem, "no memory for a cluster of %u nodes", options->shape.regions * options->shape.nodes);
    struct hr_sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL) {
        return false;
    }
    sim->options = options;
    sim->schedule = schedule;
    sim->outcome = ret_outcome;
    sim->phases = hr_sim_phases(options->lasts_ns);
    sim->node_count = options->shape.regions * options->shape.nodes;
    sim->err = init(sim, ret_problem);
    if (sim->err == HR_OK) {
        start(sim);
        run(sim, stops_early);
    }
    if (sim->err == HR_OK && (!stops_early || hr_checker_first(sim->checker) == HR_CHECK_COUNT)) {
        check_healed(sim);
    }
    bool is_done = sim->err == HR_OK;
    if (is_done) {
        report(sim);
    }
    deinit(sim);
    free(sim);
    if (!is_done) {
        hr_sim_outcome_deinit(ret_outcome);
    }
    return is_done;
}

void hr_sim_outcome_deinit(struct hr_sim_outcome *outcome)
{
    free(outcome->timelines);
    outcome->timelines = NULL;
}
