#include "node/self.h"

#include <string.h>

#include "rpc/pack_msgpack.h" /* its packer, as a bounded text */

static bool join_text(struct hr_span scheme, const struct hr_address *address,
                      char ret_text[HR_MEMBER_ADDRESS_BYTES_MAX + 1])
{
    char text[HR_ADDRESS_TEXT_BYTES];
    struct hr_packer packer = {.at = ret_text, .room = HR_MEMBER_ADDRESS_BYTES_MAX};
    hr_pack_raw(&packer, scheme.at, scheme.bytes);
    hr_pack_raw(&packer, text, hr_address_text(address, text));
    if (!hr_packer_fits(&packer)) {
        return false;
    }
    ret_text[packer.wanted] = '\0';
    return true;
}

bool hr_self_gossip_url(const struct hr_node_config *config, const struct hr_address *address,
                        char ret_url[HR_MEMBER_ADDRESS_BYTES_MAX + 1])
{
    return join_text(config->tls.ca[0] != '\0' ? HR_SPAN("tls+tcp://") : HR_SPAN("tcp://"), address, ret_url);
}

static struct hr_address with_port(const struct hr_address *address, uint16_t port)
{
    struct hr_address real = *address;
    real.port = address->port != 0 ? address->port : port;
    return real;
}

bool hr_self_describe(const struct hr_node_config *config, struct hr_self_ports ports, struct hr_member *ret_self)
{
    struct hr_member self = {.incarnation = 1, .state = HR_MEMBER_ALIVE, .weight = config->weight};
    struct hr_address rpc = with_port(&config->advertise.rpc, ports.rpc);
    struct hr_address gossip = with_port(&config->advertise.gossip, ports.gossip);
    _Static_assert(sizeof(self.name) == sizeof(config->name) && sizeof(self.region) == sizeof(config->region) &&
                       sizeof(self.host) == sizeof(config->host),
                   "what a node file may hold fits into a member");
    self.id = hr_member_id(hr_span_of(config->region), hr_span_of(config->name));
    memcpy(self.name, config->name, sizeof(self.name));
    memcpy(self.region, config->region, sizeof(self.region));
    memcpy(self.host, config->host, sizeof(self.host));
    if (!join_text(HR_SPAN(""), &rpc, self.rpc) ||
        (gossip.host[0] != '\0' && !hr_self_gossip_url(config, &gossip, self.gossip))) {
        return false;
    }
    *ret_self = self;
    return true;
}
