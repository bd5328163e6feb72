#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chaos/sim_state.h"
#include "gossip/life.h"

/* By then after the last fault the nodes of a region agree; those of all regions need longer, as they probe each other
 * more seldom. */
#define AGREES_NS (10 * HR_NS_PER_S)
#define AGREES_FAR_NS (30 * HR_NS_PER_S)

static const struct hr_core *core_of(const struct hr_sim *sim, uint32_t node)
{
    return sim->members[node].node.core;
}

static bool is_awake(const struct hr_sim *sim, uint32_t node)
{
    return hr_sim_node_is_up(&sim->members[node].node) && !sim->members[node].is_paused;
}

/* --- what the bounds are to know of a region --- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* What is counted goes on from life to life, lest a count that begins anew looks like one that never changed. */
struct hr_bounds_marks hr_sim_marks(void *user, uint32_t region)
{
    const struct hr_sim *sim = user;
    struct hr_bounds_marks marks = {1, 1};
    uint32_t nodes = sim->options->shape.nodes;
    for (uint32_t i = region * nodes; i < (region + 1) * nodes; i++) {
        struct hr_sim_member *member = &sim->members[i];
        struct hr_tenure_counts counts = {0};
        if (hr_sim_node_is_up(&member->node)) {
            counts = hr_tenure_counts(hr_core_tenure(core_of(sim, i)), 0);
            member->lineage = hr_tenure_lineage(hr_core_tenure(core_of(sim, i)));
        }
        marks.moves = mix(marks.moves, member->crashes);
        marks.moves = mix(mix(marks.moves, member->inherited + counts.inherited), member->lineage);
        marks.shifts = mix(mix(marks.shifts, counts.version), counts.taken);
    }
    return marks;
}

/* Until when all that this node has spent is on its disk and at its standby, in true time and rather too early. */
static hr_ns safe_until(const struct hr_sim *sim, uint32_t node)
{
    const struct hr_sim_member *member = &sim->members[node];
    if (!hr_sim_node_is_up(&member->node)) {
        return 0;
    }
    hr_ns now = hr_sim_now(sim, member).steady;
    hr_ns since = now - hr_shard_oldest_change(hr_core_shard(member->node.core), now);
    return sim->at - since - since / 1000 - HR_NS_PER_MS;
}

void hr_sim_watch_region(struct hr_sim *sim, uint32_t region)
{
    struct hr_bounds_condition condition = {.safe_until = INT64_MAX, .wall_min = {INT64_MAX}};
    uint32_t nodes = sim->options->shape.nodes;
    condition.faults = hr_sim_faults_of(sim, region, &condition.is_wide);
    for (uint32_t i = region * nodes; i < (region + 1) * nodes; i++) {
        hr_ns safe = safe_until(sim, i), wall = hr_sim_now(sim, &sim->members[i]).wall.ns;
        condition.safe_until = safe < condition.safe_until ? safe : condition.safe_until;
        condition.wall_min.ns = wall < condition.wall_min.ns ? wall : condition.wall_min.ns;
        condition.wall_max.ns = wall > condition.wall_max.ns ? wall : condition.wall_max.ns;
    }
    hr_bounds_condition(sim->bounds, region, &condition, sim->at);
}

/* --- owners --- */

/* The first partition for which there are fewer or more than one; HR_PARTITIONS: none. */
static uint32_t find_owners(const struct hr_sim *sim, uint32_t region, bool wants_some, uint32_t *ret_owners)
{
    uint8_t owners[HR_PARTITIONS] = {0};
    uint32_t nodes = sim->options->shape.nodes;
    for (uint32_t i = region * nodes; i < (region + 1) * nodes; i++) {
        const struct hr_sim_member *member = &sim->members[i];
        if (hr_sim_node_is_up(&member->node)) {
            hr_tenure_add_mine(hr_core_tenure(core_of(sim, i)), hr_sim_now(sim, member).steady, owners);
        }
    }
    for (uint32_t partition = 0; partition < HR_PARTITIONS; partition++) {
        if (owners[partition] > 1 || (wants_some && owners[partition] == 0)) {
            *ret_owners = owners[partition];
            return partition;
        }
    }
    return HR_PARTITIONS;
}

static bool is_one_lineage(const struct hr_sim *sim, uint32_t region)
{
    uint32_t nodes = sim->options->shape.nodes;
    uint64_t lineage = 0;
    for (uint32_t i = region * nodes; i < (region + 1) * nodes; i++) {
        uint64_t own =
            hr_sim_node_is_up(&sim->members[i].node) ? hr_tenure_lineage(hr_core_tenure(core_of(sim, i))) : 0;
        if (own != 0 && lineage != 0 && own != lineage) {
            return false;
        }
        lineage = own != 0 ? own : lineage;
    }
    return true;
}

/* Two groups that know nothing of each other each have owners of their own: tenure.h's first exception. */
static void check_owners(struct hr_sim *sim, uint32_t region)
{
    uint32_t owners = 0;
    uint32_t partition = find_owners(sim, region, false, &owners);
    hr_checker_note(sim->checker, HR_CHECK_OWNER, partition == HR_PARTITIONS || !is_one_lineage(sim, region), sim->at,
                    "region %u: %u nodes answer for partition %u", region, owners, partition);
}

/* Where all is well rights do not move. */
void hr_sim_watch_owners(struct hr_sim *sim)
{
    for (uint32_t i = 0; i < sim->options->shape.regions; i++) {
        if (!hr_bounds_was_calm(sim->bounds, i, sim->at)) {
            check_owners(sim, i);
        }
    }
}

/* --- agreement --- */

static const struct hr_member *find_member(const struct hr_members *members, uint64_t id)
{
    uint32_t at = hr_members_find(members, id);
    return at == HR_MEMBER_NONE ? NULL : &members->all[at];
}

/* Each node knows each other as alive, in its present life. */
static void check_members(struct hr_sim *sim, uint32_t node, bool far)
{
    const struct hr_members *members = hr_core_members(core_of(sim, node));
    for (uint32_t i = 0; i < sim->node_count; i++) {
        const struct hr_sim_node *other = &sim->members[i].node;
        bool is_near = hr_sim_region_of(sim->options->shape, i) == hr_sim_region_of(sim->options->shape, node);
        if (is_near == far) {
            continue;
        }
        uint64_t id = hr_member_id(hr_span_of(other->config.region), hr_span_of(other->config.name));
        const struct hr_member *member = find_member(members, id);
        bool agrees =
            member != NULL && member->state == HR_MEMBER_ALIVE && hr_life_of(member->incarnation) == other->life;
        hr_checker_note(sim->checker, HR_CHECK_VIEWS, agrees, sim->at,
                        "%s takes %s for %s, %" PRId64 " ms after the last fault", sim->members[node].name,
                        sim->members[i].name, member == NULL ? "unknown" : hr_member_state_name(member->state),
                        (sim->at - sim->struck_at) / HR_NS_PER_MS);
    }
}

static void check_region(struct hr_sim *sim, uint32_t region)
{
    uint32_t nodes = sim->options->shape.nodes, owners = 0;
    uint32_t partition = find_owners(sim, region, true, &owners);
    hr_checker_note(sim->checker, HR_CHECK_VIEWS, partition == HR_PARTITIONS, sim->at,
                    "region %u: %u nodes answer for partition %u, %" PRId64 " ms after the last fault", region, owners,
                    partition, (sim->at - sim->struck_at) / HR_NS_PER_MS);
    uint64_t version = hr_tenure_counts(hr_core_tenure(core_of(sim, region * nodes)), 0).version;
    for (uint32_t i = region * nodes; i < (region + 1) * nodes; i++) {
        uint64_t own = hr_tenure_counts(hr_core_tenure(core_of(sim, i)), 0).version;
        hr_checker_note(sim->checker, HR_CHECK_VIEWS, own == version, sim->at,
                        "%s is at version %" PRIu64 " of the charter, another node of its region at %" PRIu64,
                        sim->members[i].name, own, version);
    }
}

/* --- queues --- */

static void check_queues(struct hr_sim *sim, uint32_t node)
{
    uint32_t jobs = hr_router_job_count(hr_core_router(core_of(sim, node)));
    uint32_t holds = hr_holds_open_count(hr_core_holds(core_of(sim, node)));
    hr_checker_note(sim->checker, HR_CHECK_QUEUES, jobs <= HR_SIM_CALLS_MAX && holds <= HR_SIM_CALLS_MAX, sim->at,
                    "%s has %u requests and %u holds under way", sim->members[node].name, jobs, holds);
}

void hr_sim_watch(struct hr_sim *sim)
{
    for (uint32_t i = 0; i < sim->options->shape.regions; i++) {
        hr_sim_watch_region(sim, i);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (hr_sim_node_is_up(&sim->members[i].node)) {
            check_queues(sim, i);
        }
    }
}

/* --- facts --- */

static bool is_newer(struct hr_fact_version a, struct hr_fact_version b)
{
    return a.time != b.time ? a.time > b.time : a.writer > b.writer;
}

static struct hr_span name_fact(uint32_t index, char name[HR_SIM_PLACE_BYTES_MAX])
{
    int used = snprintf(name, HR_SIM_PLACE_BYTES_MAX, "fact-%u", index);
    return (struct hr_span){name, (size_t)used};
}

/* A new value, of some name, by this node. Its disk has it at once, as the node's driver waits for that. */
void hr_sim_put_fact(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    char name[HR_SIM_PLACE_BYTES_MAX];
    uint32_t index = (uint32_t)hr_rng_below(&sim->rng, HR_SIM_FACTS);
    uint64_t value = hr_rng_next(&sim->rng);
    if (!is_awake(sim, node) || hr_sim_phase(sim) == HR_PHASE_HEALED) {
        return;
    }
    const struct hr_span bytes = {(const char *)&value, sizeof(value)};
    struct hr_fact_version version = hr_core_next_version(member->node.core, hr_sim_now(sim, member));
    if (hr_core_write_fact(member->node.core, name_fact(index, name), bytes, version) != HR_OK) {
        return; /* it knows a newer one, by another's clock */
    }
    member->facts[index] = (struct hr_sim_fact){version, value};
    if (is_newer(version, sim->facts[index].version)) {
        sim->facts[index] = member->facts[index];
    }
    hr_sim_turn(sim, node);
}

static void take_fact(struct hr_sim *sim, struct hr_sim_member *member, uint32_t index, const struct hr_sim_fact *fact)
{
    hr_checker_note(sim->checker, HR_CHECK_FACTS, !is_newer(member->facts[index].version, fact->version), sim->at,
                    "%s was told a fact that is older than what it had", member->name);
    member->facts[index] = *fact;
}

void hr_sim_take_facts(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    struct hr_span name, value;
    struct hr_sim_fact fact = {{0, 0}, 0};
    while (hr_core_next_fact(member->node.core, &name, &value, &fact.version)) {
        for (uint32_t i = 0; i < HR_SIM_FACTS; i++) {
            char own[HR_SIM_PLACE_BYTES_MAX];
            if (value.bytes == sizeof(fact.value) && hr_span_equal(name, name_fact(i, own))) {
                memcpy(&fact.value, value.at, sizeof(fact.value));
                take_fact(sim, member, i, &fact);
            }
        }
    }
}

enum hr_err hr_sim_restore_facts(struct hr_sim *sim, uint32_t node)
{
    struct hr_sim_member *member = &sim->members[node];
    enum hr_err err = HR_OK;
    for (uint32_t i = 0; sim->bounds != NULL && i < HR_SIM_FACTS && err == HR_OK; i++) {
        char name[HR_SIM_PLACE_BYTES_MAX];
        const struct hr_sim_fact *fact = &member->facts[i];
        if (fact->version.time != 0) {
            err =
                hr_core_restore_fact(member->node.core, name_fact(i, name),
                                     (struct hr_span){(const char *)&fact->value, sizeof(fact->value)}, fact->version);
        }
    }
    return err;
}

static void check_facts(struct hr_sim *sim, uint32_t node)
{
    for (uint32_t i = 0; i < HR_SIM_FACTS; i++) {
        const struct hr_sim_fact *own = &sim->members[node].facts[i], *latest = &sim->facts[i];
        bool agrees = own->version.time == latest->version.time && own->version.writer == latest->version.writer &&
                      own->value == latest->value;
        hr_checker_note(sim->checker, HR_CHECK_FACTS, agrees, sim->at, "%s does not know the latest of fact %u",
                        sim->members[node].name, i);
    }
}

/* --- the end --- */

void hr_sim_check_healed(struct hr_sim *sim)
{
    bool is_near = sim->at - sim->struck_at >= AGREES_NS, is_far = sim->at - sim->struck_at >= AGREES_FAR_NS;
    bool are_up = true;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        are_up = are_up && is_awake(sim, i);
    }
    if (!are_up || !is_near) {
        return; /* that is told as such, or too early to be told */
    }
    for (uint32_t i = 0; i < sim->options->shape.regions; i++) {
        check_region(sim, i);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        check_members(sim, i, false);
        if (is_far) {
            check_members(sim, i, true);
            check_facts(sim, i);
        }
        uint32_t jobs = hr_router_job_count(hr_core_router(core_of(sim, i)));
        hr_checker_note(sim->checker, HR_CHECK_QUEUES, jobs == 0, sim->at, "%s still has %u requests under way",
                        sim->members[i].name, jobs);
        uint32_t holds = hr_holds_open_count(hr_core_holds(core_of(sim, i)));
        hr_checker_note(sim->checker, HR_CHECK_HOLDS, holds == 0, sim->at, "%s has %u holds open", sim->members[i].name,
                        holds);
    }
}
