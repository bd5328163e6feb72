/* Load nodes: the nodes of a region as `headroom bench --route` finds them, and which of them owns which key.
 *
 * What partition a counter is in only nodes can tell, for it is named by a hash under the cluster's secret. But every
 * decision names the node that made it: so a client learns the owner of each key by asking once.
 *
 * Thread: the main one. Memory: the structs, and the heap for what was learned. */
#ifndef HR_NODE_COMMAND_LOAD_NODES_H
#define HR_NODE_COMMAND_LOAD_NODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limit.h"
#include "node/address_text.h"
#include "node/command/ask.h"

#define HR_LOAD_NODES_MAX 64U

struct hr_load_node {
    char name[HR_LIMIT_NAME_BYTES_MAX + 1]; /* empty: it was not asked for */
    char where[HR_ADDRESS_TEXT_BYTES];
    struct sockaddr_storage at;
};

struct hr_load_nodes {
    uint32_t count;
    struct hr_load_node all[HR_LOAD_NODES_MAX];
};

/* The node that is asked, and it alone. An exit status, as all of node/command/ask.h. */
HR_MUST int hr_load_nodes_one(const struct hr_ask *ask, struct hr_load_nodes *ret_nodes);

/* All nodes of its region that are alive. */
HR_MUST int hr_load_nodes_region(const struct hr_ask *ask, struct hr_load_nodes *ret_nodes);

#define HR_LOAD_NO_NODE UINT32_MAX

/* The index of the node of that name, or HR_LOAD_NO_NODE. */
uint32_t hr_load_nodes_find(const struct hr_load_nodes *nodes, struct hr_span name);

/* Owners, as far as they are known. */
#define HR_LOAD_ROUTED_KEYS_MAX (UINT64_C(1) << 24)

struct hr_load_owners {
    uint64_t key_count;
    uint8_t *of; /* by key: the node's index and 1; 0: not known */
};

/* HR_E_MEMORY. */
HR_MUST enum hr_err hr_load_owners_init(struct hr_load_owners *owners, uint64_t key_count);
void hr_load_owners_free(struct hr_load_owners *owners);

/* May the key be asked of that node: does it own the key, as far as is known? */
static inline bool hr_load_owners_suits(const struct hr_load_owners *owners, uint64_t key, uint32_t node)
{
    return owners->of[key] == 0 || owners->of[key] == node + 1;
}

static inline void hr_load_owners_learn(struct hr_load_owners *owners, uint64_t key, uint32_t node)
{
    owners->of[key] = (uint8_t)(node + 1);
}

#endif
