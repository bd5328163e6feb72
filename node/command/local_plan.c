#include "node/command/local_plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "limiter/limit.h"
#include "node/value_text.h"

#define PORTS_EACH 4 /* rpc, http, gossip, relay */

/* --- who there is --- */

static bool fault(struct hr_problem *problem, const char *option, const char *what, struct hr_span text)
{
    hr_problem_what(problem, "%s, not \"%.*s\"", what, (int)text.bytes, text.at);
    hr_problem_where(problem, "%s", option);
    return false;
}

static bool add_region(struct hr_local_plan *plan, struct hr_span name, struct hr_problem *problem)
{
    if (!hr_limit_name_is_valid(name) || name.bytes + sizeof("-64") - 1 > HR_CONFIG_NAME_BYTES_MAX) {
        return fault(problem, "--regions", "a region's name must be 1 to 61 of a-z, 0-9 and \"-\"", name);
    }
    if (plan->region_count == HR_LOCAL_REGIONS_MAX) {
        hr_problem_what(problem, "at most %d regions", HR_LOCAL_REGIONS_MAX);
        hr_problem_where(problem, "--regions");
        return false;
    }
    for (uint32_t i = 0; i < plan->region_count; i++) {
        if (hr_span_equal(hr_span_of(plan->regions[i]), name)) {
            return fault(problem, "--regions", "each region must have a name of its own", name);
        }
    }
    memcpy(plan->regions[plan->region_count], name.at, name.bytes);
    plan->regions[plan->region_count++][name.bytes] = '\0';
    return true;
}

static bool read_regions(struct hr_local_plan *plan, const char *text, struct hr_problem *problem)
{
    for (;;) {
        size_t bytes = strcspn(text, ",");
        if (!add_region(plan, (struct hr_span){text, bytes}, problem)) {
            return false;
        }
        if (text[bytes] == '\0') {
            return true;
        }
        text += bytes + 1;
    }
}

static void name_node(struct hr_local_plan *plan, uint32_t region, uint32_t number)
{
    struct hr_local_node *node = &plan->nodes[plan->node_count++];
    char name[sizeof(plan->regions[0])]; /* a copy: for all the compiler can see, the two might overlap */
    memcpy(name, plan->regions[region], sizeof(name));
    node->region = region;
    (void)snprintf(node->name, sizeof(node->name), "%.61s-%u", name, (unsigned)number % 100);
    (void)snprintf(node->rpc.host, sizeof(node->rpc.host), "127.0.0.1");
    (void)snprintf(node->http.host, sizeof(node->http.host), "127.0.0.1");
    (void)snprintf(node->gossip.host, sizeof(node->gossip.host), "127.0.%u.1", (unsigned)region + 1);
    node->relay = node->gossip;
}

bool hr_local_plan_init(struct hr_local_plan *plan, const char *regions, uint32_t nodes_each,
                        struct hr_problem *ret_problem)
{
    *plan = (struct hr_local_plan){.nodes_each = nodes_each};
    if (!read_regions(plan, regions, ret_problem)) {
        return false;
    }
    if (nodes_each < 1 || nodes_each > HR_LOCAL_NODES_MAX / plan->region_count) {
        hr_problem_what(ret_problem, "from 1 to %u nodes in each of %u regions",
                        HR_LOCAL_NODES_MAX / plan->region_count, plan->region_count);
        hr_problem_where(ret_problem, "--nodes");
        return false;
    }
    for (uint32_t region = 0; region < plan->region_count; region++) {
        for (uint32_t number = 1; number <= nodes_each; number++) {
            name_node(plan, region, number);
        }
    }
    return true;
}

/* --- where each listens --- */

/* Ports are taken from below those that the system gives to clients (mostly from 32768 on): there, a connection could
 * take one before its node listens, or connect to itself. */
#define PORT_FIRST 10240U
#define PORT_COUNT 20480U

/* A socket that is bound there, or -1 with errno. */
static int hold(const struct hr_address *address, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (inet_pton(AF_INET, address->host, &at.sin_addr) == 1 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
        return fd;
    }
    int saved = errno;
    (void)close(fd); /* what went wrong before is what counts */
    errno = saved;
    return -1;
}

/* The next free port from *next on; a socket that holds it, or -1 with errno. */
static int hold_port(struct hr_address *address, uint32_t *next)
{
    int fd = -1;
    for (uint32_t tries = 0; tries < PORT_COUNT && fd < 0; tries++) {
        address->port = (uint16_t)(PORT_FIRST + *next % PORT_COUNT);
        *next += 1;
        fd = hold(address, address->port);
        if (fd < 0 && errno != EADDRINUSE) {
            return -1;
        }
    }
    return fd;
}

/* All are held until the last is found, so that none is found twice. */
bool hr_local_plan_find_ports(struct hr_local_plan *plan, struct hr_problem *ret_problem)
{
    int held[HR_LOCAL_NODES_MAX * PORTS_EACH];
    uint32_t count = 0;
    uint32_t next = (uint32_t)getpid() * 64; /* so that clusters that start together begin apart */
    bool has_all = true;
    for (uint32_t i = 0; i < plan->node_count && has_all; i++) {
        struct hr_address *addresses[PORTS_EACH] = {&plan->nodes[i].rpc, &plan->nodes[i].http, &plan->nodes[i].gossip,
                                                    &plan->nodes[i].relay};
        for (uint32_t k = 0; k < PORTS_EACH && has_all; k++) {
            held[count] = hold_port(addresses[k], &next);
            has_all = held[count] >= 0;
            count += has_all;
        }
    }
    if (!has_all) {
        hr_problem_what(ret_problem, "cannot find a free port: %s", strerror(errno));
        hr_problem_where(ret_problem, "loopback");
    }
    while (count > 0) {
        (void)close(held[--count]); /* nothing was written to it */
    }
    return has_all;
}

/* --- its file --- */

static void write_address(FILE *out, const char *before, const struct hr_address *address)
{
    char text[HR_ADDRESS_TEXT_BYTES];
    (void)hr_address_text(address, text);
    (void)fprintf(out, "%s%s\"", before, text);
}

/* Where others reach it. */
static const struct hr_address *reached_at(const struct hr_local_plan *plan, const struct hr_local_node *node)
{
    return plan->has_links ? &node->relay : &node->gossip;
}

/* The first node of each region is enough to find all by, its own included. */
static void write_joins(const struct hr_local_plan *plan, FILE *out)
{
    for (uint32_t region = 0; region < plan->region_count; region++) {
        const char *before = region == 0 ? "[\"tcp://" : ", \"tcp://";
        write_address(out, before, reached_at(plan, &plan->nodes[region * plan->nodes_each]));
    }
    (void)fputs("]", out);
}

void hr_local_plan_write(const struct hr_local_plan *plan, uint32_t node, FILE *out)
{
    const struct hr_local_node *own = &plan->nodes[node];
    (void)fprintf(out, "node:    {name: \"%s\", region: \"%s\", data: \"%s\"}\n", own->name, plan->regions[own->region],
                  own->name);
    write_address(out, "listen:  {rpc: \"", &own->rpc);
    write_address(out, ", gossip: \"tcp://", &own->gossip);
    write_address(out, ", http: \"", &own->http);
    write_address(out, "}\nadvertise: {gossip: \"tcp://", reached_at(plan, own));
    (void)fputs("}\ncluster: {name: local, secret_file: secret, join: ", out);
    write_joins(plan, out);
    (void)fputs("}\nregions: {", out);
    for (uint32_t region = 0; region < plan->region_count; region++) {
        (void)fprintf(out, "%s\"%s\": {}", region == 0 ? "" : ", ", plan->regions[region]);
    }
    (void)fputs(plan->has_chaos ? "}\nchaos: true\n" : "}\n", out);
    if (plan->limits[0] != '\0') {
        (void)fputs("limits:  ", out);
        hr_text_print_json(out, hr_span_of(plan->limits));
        (void)fputc('\n', out);
    }
}
