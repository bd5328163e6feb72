#include <stdlib.h>

#include "chaos/sim_state.h"

/* A healthy disk's sync. */
#define SYNC_MIN_NS HR_NS_PER_MS
#define SYNC_MAX_NS (8 * HR_NS_PER_MS)

/* What strikes a node now, all together. */
struct condition {
    bool is_down, is_stopped, is_paused;
    hr_ns slow_ns;
    int64_t stepped_ns;
    int64_t drift_ppm;
    struct hr_sim_disk_state disk;
};

/* Within a region a fraction of a millisecond, between two regions 20 to 140 ms, the same both ways. */
static struct hr_sim_link healthy_link(const struct hr_sim *sim, uint32_t from, uint32_t to)
{
    uint32_t a = hr_sim_region_of(sim->options->shape, from), b = hr_sim_region_of(sim->options->shape, to);
    if (a == b) {
        return (struct hr_sim_link){.delay_ns = 200 * HR_NS_PER_US, .jitter_ns = 50 * HR_NS_PER_US};
    }
    struct hr_rng rng = hr_dice_fork(sim->options->seed, 64 + (a < b ? a * 8 + b : b * 8 + a));
    hr_ns delay_ns = hr_dice_between(&rng, 20, 140) * HR_NS_PER_MS;
    return (struct hr_sim_link){.delay_ns = delay_ns, .jitter_ns = delay_ns / 20};
}

enum hr_err hr_sim_faults_init(struct hr_sim *sim)
{
    uint32_t count = sim->node_count;
    sim->links = calloc((size_t)count * count, sizeof(*sim->links));
    sim->active = calloc((size_t)sim->schedule->count + 1, sizeof(*sim->active));
    if (sim->links == NULL || sim->active == NULL) {
        return HR_E_MEMORY;
    }
    for (uint32_t from = 0; from < count; from++) {
        for (uint32_t to = 0; to < count; to++) {
            sim->links[from * count + to] = healthy_link(sim, from, to);
            *hr_net_link(sim->net, from, to) = sim->links[from * count + to];
        }
    }
    for (uint32_t i = 0; i < sim->schedule->count; i++) {
        hr_sim_put(sim, sim->schedule->all[i].from, HR_SIM_BEGIN, 0, i);
        hr_sim_put(sim, sim->schedule->all[i].until, HR_SIM_END, 0, i);
    }
    return sim->err;
}

/* --- nodes --- */

static void add_to_node(struct condition *condition, const struct hr_striking *striking)
{
    int64_t number = striking->number;
    switch ((int)striking->strike) {
    case HR_STRIKE_CRASH:
        condition->is_down = true;
        break;
    case HR_STRIKE_STOP:
        condition->is_stopped = true;
        break;
    case HR_STRIKE_PAUSE:
        condition->is_paused = true;
        break;
    case HR_STRIKE_SLOW:
        condition->slow_ns += number * HR_NS_PER_US;
        break;
    case HR_STRIKE_STEP_WALL:
        condition->stepped_ns += number * HR_NS_PER_MS;
        break;
    case HR_STRIKE_DRIFT:
        condition->drift_ppm += number;
        break;
    case HR_STRIKE_DISK_SLOW:
        condition->disk.sync_min_ns = condition->disk.sync_max_ns = number * HR_NS_PER_MS;
        break;
    case HR_STRIKE_DISK_FAIL:
        condition->disk.is_failing = true;
        break;
    case HR_STRIKE_DISK_FULL:
        condition->disk.is_full = true;
        break;
    default:
        break; /* of links */
    }
}

static struct condition condition_of(const struct hr_sim *sim, uint32_t node)
{
    struct condition condition = {.disk = {SYNC_MIN_NS, SYNC_MAX_NS, false, false}};
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct hr_striking *striking = &sim->schedule->all[sim->active[i]];
        if (hr_sim_place_holds(striking->places[0], sim->options->shape, node)) {
            add_to_node(&condition, striking);
        }
    }
    int64_t max = HR_SIM_DRIFT_PPM_MAX / 2; /* two clocks may differ by twice that */
    condition.drift_ppm = condition.drift_ppm > max ? max : condition.drift_ppm < -max ? -max : condition.drift_ppm;
    return condition;
}

static void set_clock(struct hr_sim *sim, uint32_t node, const struct condition *condition)
{
    struct hr_sim_member *member = &sim->members[node];
    bool is_same = condition->stepped_ns == member->stepped_ns && condition->drift_ppm == member->clock.drift_ppm;
    if (is_same) {
        return;
    }
    hr_checker_stepped(sim->checker, hr_sim_domain(sim, node), hr_sim_now(sim, member));
    hr_sim_clock_step_wall(&member->clock, condition->stepped_ns - member->stepped_ns);
    hr_sim_clock_set_drift(&member->clock, sim->at, (int32_t)condition->drift_ppm);
    member->stepped_ns = condition->stepped_ns;
    hr_checker_stepped(sim->checker, hr_sim_domain(sim, node), hr_sim_now(sim, member));
}

/* Who is not done with leaving when it is to be there again has been too slow, and is killed. */
static void set_life(struct hr_sim *sim, uint32_t node, const struct condition *condition)
{
    struct hr_sim_member *member = &sim->members[node];
    bool is_up = hr_sim_node_is_up(&member->node);
    bool is_late = member->is_leaving && !condition->is_stopped;
    if (is_up && (condition->is_down || is_late)) {
        hr_sim_crash(sim, node);
        is_up = false;
    }
    if (condition->is_stopped && is_up && !member->is_leaving && !member->is_paused) {
        hr_sim_leave(sim, node);
    } else if (!condition->is_stopped && !condition->is_down && !is_up && !member->is_paused) {
        hr_sim_start(sim, node);
    }
}

static void set_node(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    struct condition condition = condition_of(sim, node);
    member->slow_ns = condition.slow_ns;
    member->disk.state = condition.disk;
    set_clock(sim, node, &condition);
    bool was_paused = member->is_paused;
    member->is_paused = condition.is_paused;
    set_life(sim, node, &condition);
    if (was_paused && !member->is_paused) {
        hr_sim_resume(sim, node);
    }
}

/* --- links --- */

static void add_to_link(struct hr_sim_link *link, const struct hr_striking *striking)
{
    uint64_t number = (uint64_t)striking->number;
    switch ((int)striking->strike) {
    case HR_STRIKE_CUT:
    case HR_STRIKE_CUT_ONE_WAY:
        link->cuts++;
        break;
    case HR_STRIKE_LOSS:
        link->loss_ppm += (uint32_t)number;
        break;
    case HR_STRIKE_DELAY:
        link->delay_ns += striking->number * HR_NS_PER_MS;
        break;
    case HR_STRIKE_TWICE:
        link->twice_ppm += (uint32_t)number;
        break;
    case HR_STRIKE_OVERTAKE:
        link->overtake_ppm += (uint32_t)number;
        break;
    case HR_STRIKE_NARROW:
        link->bytes_per_s = link->bytes_per_s == 0 || number < link->bytes_per_s ? number : link->bytes_per_s;
        break;
    case HR_STRIKE_CLOG:
    case HR_STRIKE_SWIZZLE:
        link->clogs++;
        break;
    default:
        break; /* of nodes */
    }
}

static bool is_on_link(const struct hr_striking *striking, struct hr_sim_shape shape, uint32_t from, uint32_t to)
{
    const struct hr_sim_place all = {HR_SIM_PLACE_ALL, 0};
    struct hr_sim_place a = striking->places[0];
    struct hr_sim_place b = striking->strike == HR_STRIKE_SWIZZLE ? all : striking->places[1];
    if (hr_sim_place_holds(a, shape, from) && hr_sim_place_holds(b, shape, to)) {
        return true;
    }
    return striking->strike != HR_STRIKE_CUT_ONE_WAY && hr_sim_place_holds(a, shape, to) &&
           hr_sim_place_holds(b, shape, from);
}

static void set_link(struct hr_sim *sim, uint32_t from, uint32_t to)
{
    struct hr_sim_link *link = hr_net_link(sim->net, from, to);
    bool was_clogged = link->clogs > 0;
    uint64_t was_narrow = link->bytes_per_s;
    *link = sim->links[from * sim->node_count + to];
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct hr_striking *striking = &sim->schedule->all[sim->active[i]];
        if (is_on_link(striking, sim->options->shape, from, to)) {
            add_to_link(link, striking);
        }
    }
    if (was_narrow != 0 && (link->bytes_per_s == 0 || link->bytes_per_s > was_narrow)) {
        hr_net_widen(sim->net, from, to, sim->at);
    }
    if (was_clogged && link->clogs == 0) {
        hr_net_unclog(sim->net, from, to, sim->at);
    }
}

static bool is_of_links(enum hr_strike strike)
{
    return strike >= HR_STRIKE_CUT;
}

/* A cluster's regions are looked at before anything changes for the worse, and again when it has. */
static void note_regions(struct hr_sim *sim)
{
    sim->struck_at = sim->at;
    for (uint32_t i = 0; sim->bounds != NULL && i < sim->options->shape.regions; i++) {
        hr_sim_watch_region(sim, i);
    }
}

static void set_active(struct hr_sim *sim, uint32_t index, bool begins)
{
    if (begins) {
        sim->outcome->strikes[sim->schedule->all[index].strike]++;
        sim->active[sim->active_count++] = index;
        return;
    }
    uint32_t at = 0;
    while (sim->active[at] != index) {
        at++;
    }
    for (sim->active_count--; at < sim->active_count; at++) {
        sim->active[at] = sim->active[at + 1];
    }
}

void hr_sim_strike(struct hr_sim *sim, uint32_t index, bool begins)
{
    enum hr_strike strike = sim->schedule->all[index].strike;
    note_regions(sim);
    set_active(sim, index, begins);
    for (uint32_t node = 0; node < sim->node_count && sim->err == HR_OK; node++) {
        if (!is_of_links(strike)) {
            set_node(sim, node);
            continue;
        }
        for (uint32_t to = 0; to < sim->node_count; to++) {
            set_link(sim, node, to);
        }
    }
    note_regions(sim);
}

/* Does it strike this node: itself, or a link of its to another of its region? */
static bool strikes_node(const struct hr_sim *sim, const struct hr_striking *striking, uint32_t node)
{
    struct hr_sim_shape shape = sim->options->shape;
    if (!is_of_links(striking->strike)) {
        return hr_sim_place_holds(striking->places[0], shape, node);
    }
    uint32_t first = hr_sim_region_of(shape, node) * shape.nodes;
    for (uint32_t other = first; other < first + shape.nodes; other++) {
        if (other != node && (is_on_link(striking, shape, node, other) || is_on_link(striking, shape, other, node))) {
            return true;
        }
    }
    return false;
}

uint32_t hr_sim_faults_of(const struct hr_sim *sim, uint32_t region, bool *ret_is_wide)
{
    uint32_t nodes = sim->options->shape.nodes, faults = 0;
    bool is_wide = false;
    for (uint32_t i = 0; i < sim->active_count; i++) {
        const struct hr_striking *striking = &sim->schedule->all[sim->active[i]];
        uint32_t struck = 0;
        for (uint32_t node = region * nodes; node < (region + 1) * nodes; node++) {
            struck += strikes_node(sim, striking, node);
        }
        faults += struck > 0;
        is_wide = is_wide || struck > 1;
    }
    *ret_is_wide = is_wide || faults > 1;
    return faults;
}
