#include "chaos/node.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "gossip/life.h"
#include "storage/images.h"
#include "storage/segment.h"

#define WAITING_MAX 64
#define REPLIES_MAX (1U << 16)
#define REPLIES_BYTES (32U << 20)
#define LEASES_MAX (1U << 14)
#define LOG_BLOCKS_MAX (1U << 15)
#define RESERVES_MAX (1U << 14)
#define HOT_KEYS_MAX 16
#define SHARES_MAX 4096
#define FACTS_MAX 64
#define FACT_BYTES (64U << 10)
#define SEEDS_MAX 8
#define DRAIN_BATCHES_MAX 64 /* far more than a run fills */

/* The cluster's secret. Not secret here: counters must have the same names in each run. */
static const struct hr_hash_key secret = {{'c', 'h', 'a', 'o', 's'}};

static struct hr_shard_config shard_config(const struct hr_sim_node *node)
{
    return (struct hr_shard_config){
        .sizes = {.counters_max = node->config.counters_max,
                  .leases_max = LEASES_MAX,
                  .log_blocks_max = LOG_BLOCKS_MAX,
                  .reserves_max = RESERVES_MAX,
                  .limits_max = HR_LIMITS_MAX,
                  .shares_max = node->config.cap_regions > 1 ? SHARES_MAX : 0,
                  .saves = true},
        .secret = secret,
        .node = hr_span_of(node->config.name),
        .region = hr_span_of(node->config.region),
        .first_serial = hr_plain_hash(node->config.name, strlen(node->config.name), node->lives) >> 24 << 24,
        .flush_interval_ns = node->config.flush_interval_ns,
        .waiting_max = WAITING_MAX,
        .replies_bytes = REPLIES_BYTES,
        .replies_max = REPLIES_MAX,
        .hot_keys_max = HOT_KEYS_MAX,
    };
}

typedef char address[HR_MEMBER_ADDRESS_BYTES_MAX + 1];

static void write_self(const struct hr_sim_node *node, struct hr_member *self)
{
    const char *name = node->config.name;
    self->weight = 1;
    self->incarnation = node->life;
    (void)snprintf(self->name, sizeof(self->name), "%s", name); /* names are short: nothing is cut off */
    (void)snprintf(self->region, sizeof(self->region), "%s", node->config.region);
    (void)snprintf(self->rpc, sizeof(self->rpc), "%s", name);
    (void)snprintf(self->gossip, sizeof(self->gossip), HR_SIM_GOSSIP_SCHEME "%s", name);
}

/* Some of the others, the nearest by number. */
static uint32_t write_seeds(const struct hr_sim_node *node, address seeds[SEEDS_MAX], struct hr_core_config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->config.peer_count && count < SEEDS_MAX; i++) {
        if (strcmp(node->config.peers[i], node->config.name) != 0) {
            (void)snprintf(seeds[count], sizeof(address), HR_SIM_GOSSIP_SCHEME "%s", node->config.peers[i]);
            config->seeds[count] = hr_span_of(seeds[count]);
            count++;
        }
    }
    return count;
}

/* In the order of their names, so that every node numbers them alike. */
static void write_regions(const struct hr_sim_node *node, struct hr_core_config *config)
{
    config->region_count = node->config.cap_regions;
    for (uint32_t i = 0; i < config->region_count; i++) {
        const char *name = hr_sim_region_name(i);
        uint32_t at = i;
        for (; at > 0 && strcmp(config->regions[at - 1].name.at, name) > 0; at--) {
            config->regions[at] = config->regions[at - 1];
        }
        config->regions[at].name = hr_span_of(name);
        config->regions[at].weight = 1;
    }
}

static struct hr_core_config core_config(const struct hr_sim_node *node, address seeds[SEEDS_MAX])
{
    struct hr_core_config config = {
        .shard = shard_config(node),
        .secret = secret,
        .cluster = HR_SPAN("chaos"),
        .is_alone = node->config.is_alone,
        .rng_seed = hr_plain_hash(node->config.name, strlen(node->config.name), node->config.seed + node->lives),
        .calls_max = HR_SIM_CALLS_MAX,
        .facts_max = FACTS_MAX,
        .fact_bytes = FACT_BYTES,
    };
    write_self(node, &config.self);
    write_regions(node, &config);
    config.seed_count = write_seeds(node, seeds, &config);
    return config;
}

/* Fresh pages: zero-filled, and made real only where they are touched. */
static bool map_memory(struct hr_sim_node *node, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == 0 || memory == MAP_FAILED) {
        return false;
    }
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages refuses, rightly */
    node->memory = memory;
    node->memory_bytes = bytes;
    return true;
}

struct restoring {
    struct hr_core *core;
    struct hr_shard *shard;
    struct hr_now now;
};

/* The machine was never rebooted, so the steady clock tells how long ago a record was written. */
static int64_t elapsed_ns(const struct restoring *restoring, hr_ns saved_at)
{
    return restoring->now.steady > saved_at ? restoring->now.steady - saved_at : 0;
}

static enum hr_err visit_counters(void *user, const struct hr_record *record)
{
    const struct restoring *restoring = user;
    struct hr_segment_reader reader;
    enum hr_err err = hr_segment_open(record, &reader);
    return err != HR_OK ? err
                        : hr_shard_restore_counters(restoring->shard, record, elapsed_ns(restoring, reader.saved_at),
                                                    restoring->now);
}

static enum hr_err visit_lease(void *user, const struct hr_record *record)
{
    const struct restoring *restoring = user;
    struct hr_lease_image image;
    enum hr_err err = hr_lease_decode(record, &image);
    if (err == HR_OK) {
        hr_shard_restore_lease(restoring->shard, &image, elapsed_ns(restoring, image.saved_at), restoring->now);
    }
    return err;
}

static enum hr_err visit_tenure(void *user, const struct hr_record *record)
{
    const struct restoring *restoring = user;
    return hr_core_restore_tenure(restoring->core, record, restoring->now);
}

static enum hr_err visit_cap(void *user, const struct hr_record *record)
{
    const struct restoring *restoring = user;
    return hr_core_restore_cap(restoring->core, record);
}

static enum hr_err restore(struct hr_sim_node *node, const struct hr_sim_disk *disk, struct hr_now now)
{
    struct restoring restoring = {node->core, hr_core_shard(node->core), now};
    struct hr_store_loaded loaded;
    enum hr_err err = hr_platter_load(&disk->platter, HR_RECORD_COUNTER, visit_counters, &restoring, &loaded);
    err = err != HR_OK ? err : hr_platter_load(&disk->platter, HR_RECORD_LEASE, visit_lease, &restoring, &loaded);
    err = err != HR_OK ? err : hr_platter_load(&disk->platter, HR_RECORD_TENURE, visit_tenure, &restoring, &loaded);
    bool has_caps = node->config.cap_regions > 1;
    return err != HR_OK || !has_caps ? err
                                     : hr_platter_load(&disk->platter, HR_RECORD_CAP, visit_cap, &restoring, &loaded);
}

/* As node/life.h has it. */
static uint64_t next_life(uint64_t last, struct hr_wall now)
{
    uint64_t seconds = (uint64_t)(now.ns / HR_NS_PER_S);
    return seconds > last ? seconds : last + 1;
}

enum hr_err hr_sim_node_start(struct hr_sim_node *node, const struct hr_sim_disk *disk, struct hr_now now)
{
    address seeds[SEEDS_MAX];
    node->lives++;
    node->life = next_life(node->life, now.wall);
    const struct hr_core_config config = core_config(node, seeds);
    if (!map_memory(node, hr_core_bytes(&config))) {
        return HR_E_MEMORY;
    }
    node->core = hr_core_init(&config, now, node->memory, node->memory_bytes);
    enum hr_err err = node->core == NULL ? HR_E_MEMORY : hr_core_load(node->core, node->config.set, now);
    err = err != HR_OK ? err : restore(node, disk, now);
    if (err != HR_OK) {
        hr_sim_node_stop(node);
    }
    return err;
}

void hr_sim_node_stop(struct hr_sim_node *node)
{
    if (node->memory != NULL) {
        (void)munmap(node->memory, node->memory_bytes); /* a whole mapping of our own: cannot fail */
    }
    node->memory = NULL;
    node->core = NULL;
}

enum hr_served hr_sim_node_serve(struct hr_sim_node *node, const struct hr_call *call, struct hr_now now,
                                 struct hr_packer *out)
{
    return hr_core_serve(node->core, call, now, out);
}

bool hr_sim_node_next_answer(struct hr_sim_node *node, struct hr_now now, struct hr_packer *out,
                             struct hr_call *ret_call)
{
    return hr_core_next_answer(node->core, now, out, ret_call);
}

const struct hr_store_batch *hr_sim_node_next_batch(struct hr_sim_node *node, struct hr_now now, uint64_t *ret_ticket)
{
    return hr_core_next_batch(node->core, now, false, ret_ticket);
}

void hr_sim_node_persisted(struct hr_sim_node *node, uint64_t ticket, enum hr_err err, struct hr_now now)
{
    hr_core_persisted(node->core, ticket, err, now);
}

hr_ns hr_sim_node_deadline(const struct hr_sim_node *node)
{
    return hr_core_deadline(node->core);
}

void hr_sim_node_tick(struct hr_sim_node *node, struct hr_now now)
{
    hr_core_tick(node->core, now);
}

void hr_sim_node_receive(struct hr_sim_node *node, struct hr_span packet, struct hr_now now)
{
    hr_core_receive(node->core, packet, now);
}

static bool find_peer(const struct hr_sim_node *node, struct hr_span name, uint32_t *ret_peer)
{
    const struct hr_span scheme = HR_SPAN(HR_SIM_GOSSIP_SCHEME);
    if (name.bytes > scheme.bytes && memcmp(name.at, scheme.at, scheme.bytes) == 0) {
        name = (struct hr_span){name.at + scheme.bytes, name.bytes - scheme.bytes};
    }
    for (uint32_t i = 0; i < node->config.peer_count; i++) {
        const char *peer = node->config.peers[i];
        if (name.bytes < HR_SIM_PLACE_BYTES_MAX && memcmp(peer, name.at, name.bytes) == 0 && peer[name.bytes] == '\0') {
            *ret_peer = i;
            return true;
        }
    }
    return false;
}

bool hr_sim_node_next_packet(struct hr_sim_node *node, struct hr_now now, struct hr_packet *ret_packet,
                             uint32_t *ret_peer)
{
    while (hr_core_next_packet(node->core, now, ret_packet)) {
        if (find_peer(node, ret_packet->address, ret_peer)) {
            return true;
        }
    }
    return false;
}

bool hr_sim_node_leave(struct hr_sim_node *node, struct hr_now now)
{
    return hr_core_leave(node->core, now);
}

enum hr_err hr_sim_node_drain(struct hr_sim_node *node, struct hr_sim_disk *disk, struct hr_now now)
{
    const struct hr_store_batch *batch;
    uint64_t ticket;
    hr_core_drain(node->core, now);
    for (int i = 0; i < DRAIN_BATCHES_MAX; i++) {
        batch = hr_core_next_batch(node->core, now, true, &ticket);
        if (batch == NULL) {
            break;
        }
        enum hr_err err = hr_platter_apply(&disk->platter, batch);
        if (err != HR_OK) {
            return err;
        }
        hr_core_persisted(node->core, ticket, HR_OK, now);
    }
    return HR_OK;
}
