/* Self: this node as the member that others know, out of its node file.
 *
 * Thread: any. Pure. Memory: the caller's. */
#ifndef HR_NODE_SELF_H
#define HR_NODE_SELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gossip/member.h"
#include "node/address_text.h"
#include "node/config_yaml.h"

/* Where it really listens, for addresses whose port the file leaves open. */
struct hr_self_ports {
    uint16_t rpc, gossip;
};

/* Its id, name, region, host, weight and advertised addresses; alive, in incarnation 1. No gossip address where it has
 * none. False: an address is longer than a member's can be. */
HR_MUST bool hr_self_describe(const struct hr_node_config *config, struct hr_self_ports ports,
                              struct hr_member *ret_self);

/* A gossip address as gossip's driver takes it: tls+tcp://HOST:PORT where the node file has cluster.tls, else
 * tcp://HOST:PORT. False: it is longer than a member's can be. */
HR_MUST bool hr_self_gossip_url(const struct hr_node_config *config, const struct hr_address *address,
                                char ret_url[HR_MEMBER_ADDRESS_BYTES_MAX + 1]);

#endif
