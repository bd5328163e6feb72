/* Core config: what a node's core is made from, out of its node file.
 *
 * Thread: one at a time, before the node serves. Memory: one struct, the caller's; it holds the texts that the core's
 * config points to. Looks names of seeds up, which may take a while. */
#ifndef HR_NODE_CORE_CONFIG_H
#define HR_NODE_CORE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "node/config_yaml.h"
#include "node/core.h"
#include "node/problem.h"

struct hr_core_draft {
    struct hr_core_config core;
    char listen[HR_MEMBER_ADDRESS_BYTES_MAX + 1]; /* of gossip, as its driver takes it; empty: the node is alone */
    char seeds[HR_SEEDS_MAX][HR_MEMBER_ADDRESS_BYTES_MAX + 1];
};

/* Random numbers of this start. */
struct hr_core_draws {
    uint64_t serial, seed;
};

/* The file and the draft are borrowed for the life of the core's config. False, with *ret_problem filled in: an address
 * is too long, or a port of a node that joins others is left open. */
HR_MUST bool hr_core_draft_fill(struct hr_core_draft *draft, const struct hr_node_config *config,
                                const struct hr_hash_key *secret, uint64_t life, struct hr_core_draws draws,
                                struct hr_problem *ret_problem);

/* How many workers the node is to have. */
uint32_t hr_core_worker_count(const struct hr_node_config *config);

/* The config of one of several cores of a node that is alone: its slice of what the whole node may use. */
struct hr_core_config hr_core_slice(const struct hr_core_config *whole, struct hr_slice slice);

#endif
