#include "node/core_config.h"

#include <string.h>
#include <unistd.h>

#include "gossip/gossip_nng.h"
#include "node/self.h"

/* What a shard holds besides what the node file says. */
#define WAITING_MAX 16384
#define REPLIES_MAX 262144
#define REPLIES_BYTES (64U << 20)
#define HOT_KEYS_MAX 256
#define SHARES_MAX 65536 /* counters of global caps */

static struct hr_shard_config shard_of(const struct hr_node_config *config, const struct hr_hash_key *secret,
                                       uint64_t first_serial)
{
    return (struct hr_shard_config){
        .sizes = {.counters_max = config->counters_max,
                  .leases_max = config->leases_max,
                  .log_blocks_max = config->log_blocks_max,
                  .reserves_max = config->reserves_max,
                  .limits_max = HR_LIMITS_MAX,
                  .shares_max = config->region_count > 1 ? SHARES_MAX : 0,
                  .saves = true},
        .secret = *secret,
        .node = hr_span_of(config->name),
        .region = hr_span_of(config->region),
        .first_serial = first_serial,
        .flush_interval_ns = (hr_ns)config->flush_interval_ns,
        .waiting_max = WAITING_MAX,
        .replies_bytes = REPLIES_BYTES,
        .replies_max = REPLIES_MAX,
        .hot_keys_max = HOT_KEYS_MAX,
    };
}

/* In the order of their names, so that every node numbers them alike. */
static void fill_regions(struct hr_core_config *core, const struct hr_node_config *config)
{
    core->region_count = config->region_count;
    for (uint32_t i = 0; i < config->region_count; i++) {
        uint32_t at = i;
        for (; at > 0 && strcmp(core->regions[at - 1].name.at, config->regions[i].name) > 0; at--) {
            core->regions[at] = core->regions[at - 1];
        }
        core->regions[at].name = hr_span_of(config->regions[i].name);
        core->regions[at].weight = config->regions[i].weight;
    }
}

/* A name may stand for many seeds. One that is not known now is kept as it is: the driver looks it up again each time
 * that it connects. */
static bool add_seeds(struct hr_core_draft *draft, const struct hr_node_config *config, const struct hr_address *join)
{
    char url[HR_MEMBER_ADDRESS_BYTES_MAX + 1];
    uint32_t first = draft->core.seed_count, room = HR_SEEDS_MAX - first;
    if (!hr_self_gossip_url(config, join, url)) {
        return false;
    }
    uint32_t count = hr_gossip_resolve(hr_span_of(url), &draft->seeds[first], room);
    if (count == 0 && room > 0) {
        memcpy(draft->seeds[first], url, sizeof(url));
        count = 1;
    }
    for (uint32_t i = first; i < first + count; i++) {
        draft->core.seeds[i] = hr_span_of(draft->seeds[i]);
    }
    draft->core.seed_count = first + count;
    return true;
}

static bool fill_cluster(struct hr_core_draft *draft, const struct hr_node_config *config, uint64_t life,
                         struct hr_problem *problem)
{
    hr_problem_where(problem, "node %s", config->name);
    if (config->listen.rpc.port == 0 || config->listen.gossip.port == 0) {
        hr_problem_what(problem, "a node that joins others needs ports of its own: listen.rpc and listen.gossip");
        return false;
    }
    const struct hr_self_ports ports = {config->listen.rpc.port, config->listen.gossip.port};
    hr_problem_what(problem, "an address is longer than %d bytes", HR_MEMBER_ADDRESS_BYTES_MAX);
    if (!hr_self_describe(config, ports, &draft->core.self) ||
        !hr_self_gossip_url(config, &config->listen.gossip, draft->listen)) {
        return false;
    }
    draft->core.self.incarnation = life;
    for (uint32_t i = 0; i < config->join_count; i++) {
        if (!add_seeds(draft, config, &config->joins[i])) {
            return false;
        }
    }
    return true;
}

bool hr_core_draft_fill(struct hr_core_draft *draft, const struct hr_node_config *config,
                        const struct hr_hash_key *secret, uint64_t life, struct hr_core_draws draws,
                        struct hr_problem *ret_problem)
{
    *draft = (struct hr_core_draft){0};
    struct hr_core_config *core = &draft->core;
    core->shard = shard_of(config, secret, draws.serial);
    core->secret = *secret;
    core->cluster = hr_span_of(config->cluster);
    core->is_alone = config->listen.gossip.host[0] == '\0';
    core->rng_seed = draws.seed;
    core->call_deadline_ns = (hr_ns)config->call_deadline_ns;
    fill_regions(core, config);
    return core->is_alone || fill_cluster(draft, config, life, ret_problem);
}

/* Each core has as much of it as any other. */
static uint32_t part_of(uint32_t whole, uint32_t count)
{
    return whole / count + (whole % count != 0);
}

struct hr_core_config hr_core_slice(const struct hr_core_config *whole, struct hr_slice slice)
{
    struct hr_core_config core = *whole;
    struct hr_limiter_sizes *sizes = &core.shard.sizes;
    if (slice.count <= 1) {
        return core;
    }
    sizes->counters_max = part_of(sizes->counters_max, slice.count);
    sizes->leases_max = part_of(sizes->leases_max, slice.count);
    sizes->log_blocks_max = part_of(sizes->log_blocks_max, slice.count);
    sizes->reserves_max = part_of(sizes->reserves_max, slice.count);
    core.shard.replies_max = part_of(core.shard.replies_max, slice.count);
    core.shard.replies_bytes /= slice.count;
    core.shard.slice = slice;
    sizes->first_id = hr_partition_first(hr_slice_first(slice));
    sizes->last_id = hr_partition_last(hr_slice_beyond(slice) - 1);
    /* No two cores ever name a lease, or a request between them, alike. */
    core.shard.first_serial ^= (uint64_t)slice.number << 56;
    core.rng_seed ^= (uint64_t)slice.number << 56;
    return core;
}

uint32_t hr_core_worker_count(const struct hr_node_config *config)
{
    if (config->listen.gossip.host[0] != '\0') {
        return 1;
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t all = processors > 1 ? (uint32_t)processors : 1;
    uint32_t workers = config->workers > 0 ? config->workers : all;
    return workers < HR_WORKERS_MAX ? workers : HR_WORKERS_MAX;
}
