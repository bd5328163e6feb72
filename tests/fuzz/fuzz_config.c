/* Feeds arbitrary bytes to the reader of node files. What it accepts must keep every bound of its header; what it
 * refuses must come with a reason and a place. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "limiter/limit.h"
#include "node/config_yaml.h"

#define INPUT_BYTES_MAX 8192 /* room for a path that is too long */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_text(const char *at, size_t room)
{
    return memchr(at, '\0', room) != NULL;
}

static void check_name(const char *name)
{
    require(is_text(name, HR_CONFIG_NAME_BYTES_MAX + 1));
    require(hr_limit_name_is_valid(hr_span_of(name)));
}

static bool same(const struct hr_address *a, const struct hr_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* None, or one that reads back from its own text. */
static void check_address(const struct hr_address *address)
{
    char text[HR_ADDRESS_TEXT_BYTES];
    struct hr_address again;
    require(is_text(address->host, sizeof(address->host)));
    if (address->host[0] == '\0') {
        return;
    }
    size_t bytes = hr_address_text(address, text);
    require(bytes < sizeof(text) && text[bytes] == '\0');
    require(hr_address_parse((struct hr_span){text, bytes}, &again) == HR_OK && same(&again, address));
}

static void check_endpoints(const struct hr_endpoints *endpoints)
{
    check_address(&endpoints->rpc);
    check_address(&endpoints->gossip);
    check_address(&endpoints->http);
    require(endpoints->rpc.host[0] != '\0');
}

static void check_lists(const struct hr_node_config *config)
{
    bool has_own = false;
    uint64_t weights = 0;
    require(config->join_count <= HR_JOINS_MAX);
    for (uint32_t i = 0; i < config->join_count; i++) {
        check_address(&config->joins[i]);
        require(config->joins[i].port != 0);
    }
    require(config->region_count >= 1 && config->region_count <= HR_REGIONS_MAX);
    for (uint32_t i = 0; i < config->region_count; i++) {
        check_name(config->regions[i].name);
        require(config->regions[i].weight <= HR_WEIGHT_MAX);
        weights += config->regions[i].weight;
        has_own = has_own || strcmp(config->regions[i].name, config->region) == 0;
    }
    require(has_own && weights > 0);
}

static void check_config(const struct hr_node_config *config)
{
    check_name(config->name);
    check_name(config->region);
    check_name(config->cluster);
    require(is_text(config->data, sizeof(config->data)) && config->data[0] != '\0');
    require(is_text(config->secret_file, sizeof(config->secret_file)));
    require(is_text(config->limits, sizeof(config->limits)));
    require(is_text(config->host, sizeof(config->host)));
    require(config->weight >= 1 && config->weight <= HR_WEIGHT_MAX && config->call_deadline_ns >= 1);
    require(config->listen.gossip.host[0] == '\0' || config->secret_file[0] != '\0');
    check_endpoints(&config->listen);
    check_endpoints(&config->advertise);
    require(config->workers <= HR_WORKERS_MAX);
    require(config->counters_max >= 1 && config->leases_max >= 1 && config->log_blocks_max >= 1);
    require(config->reserves_max >= 1 && config->connections_max >= 1 && config->in_flight_max >= 1);
    require(config->flush_interval_ns >= 1 && config->map_bytes_max >= 1);
    check_lists(config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_problem problem = {0};
    struct hr_node_config config;
    size_t used = bytes > INPUT_BYTES_MAX ? INPUT_BYTES_MAX : bytes;
    if (hr_node_config_parse((struct hr_span){(const char *)data, used}, "f", &config, &problem)) {
        check_config(&config);
        (void)hr_node_config_doubt(&config); /* it must only not read amiss */
    } else {
        require(problem.what[0] != '\0' && strncmp(problem.where, "f:", 2) == 0);
    }
    return 0;
}
