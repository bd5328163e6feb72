/* What membership costs and how quickly it learns, by the number of nodes: three regions, 200 us to 2 ms apart within
 * one and 40 to 80 ms between two, under virtual time. The same seed prints the same table on every machine.
 *
 * usage: bench_gossip [--smoke] [SEED]      --smoke: few nodes, only to see that it runs
 *
 *   start     all nodes start at once: until all know all
 *   join      one more node starts: until all know it
 *   rest      bytes and packets that a node sends in a second when nothing happens
 *   crash     one node crashes: until its region knows, until all know */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gossip_net.h"

#define STEP_NS (5 * HR_NS_PER_MS) /* asking all nodes about all after each packet would take too long */
#define REST_S 60
#define CRASHES 5

static const char *const regions[] = {"eu", "us", "ap"};

static uint32_t add(struct gossip_net *net)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "n%" PRIu32, net->count);
    uint32_t node = gossip_net_add(net, regions[net->count % 3], name);
    for (uint32_t seed = 0; seed < 3 && seed < node; seed++) {
        gossip_net_seed(net, node, seed);
    }
    return node;
}

/* Milliseconds, or -1 where a minute is not enough. */
static int64_t until(struct gossip_net *net, bool (*holds)(const struct gossip_net *net, void *user), void *user)
{
    hr_ns begin = net->now;
    while (!holds(net, user)) {
        if (net->now - begin > 60 * HR_NS_PER_S) {
            return -1;
        }
        gossip_net_run(net, STEP_NS);
    }
    return (net->now - begin) / HR_NS_PER_MS;
}

struct crash {
    uint32_t node;
    bool near_only;
};

static bool is_known(const struct gossip_net *net, void *user)
{
    const struct crash *crash = user;
    for (uint32_t i = 0; i < net->count; i++) {
        bool counts = !crash->near_only || strcmp(net->nodes[i].region, net->nodes[crash->node].region) == 0;
        if (counts && net->nodes[i].is_up && gossip_net_view(net, i, crash->node) != HR_MEMBER_DEAD) {
            return false;
        }
    }
    return true;
}

/* A node's bytes and packets in a second. */
static void measure_rest(struct gossip_net *net, uint64_t *ret_bytes, uint64_t *ret_packets)
{
    uint64_t bytes = 0, packets = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        bytes -= net->nodes[i].bytes_sent;
        packets -= net->nodes[i].packets_sent;
    }
    gossip_net_run(net, REST_S * HR_NS_PER_S);
    for (uint32_t i = 0; i < net->count; i++) {
        bytes += net->nodes[i].bytes_sent;
        packets += net->nodes[i].packets_sent;
    }
    uint32_t nodes = net->count > 0 ? net->count : 1;
    *ret_bytes = bytes / nodes / REST_S;
    *ret_packets = packets / nodes / REST_S;
}

static void measure_crashes(struct gossip_net *net, int64_t *ret_near_ms, int64_t *ret_all_ms)
{
    int64_t near_ms = 0, all_ms = 0;
    for (uint32_t i = 0; i < CRASHES; i++) {
        struct crash crash = {(i * 7 + 1) % net->count, true};
        gossip_net_crash(net, crash.node);
        int64_t ms = until(net, is_known, &crash);
        near_ms += ms;
        crash.near_only = false;
        all_ms += ms + until(net, is_known, &crash);
        gossip_net_restart(net, crash.node);
        (void)until(net, gossip_net_is_agreed, NULL);
        gossip_net_run(net, 10 * HR_NS_PER_S);
    }
    *ret_near_ms = near_ms / CRASHES;
    *ret_all_ms = all_ms / CRASHES;
}

static void measure(uint32_t nodes, uint64_t seed)
{
    struct gossip_net *net = gossip_net_new(seed);
    uint64_t bytes, packets;
    int64_t near_ms, all_ms;
    while (net->count < nodes - 1) {
        (void)add(net);
    }
    for (uint32_t i = 0; i < net->count; i++) {
        gossip_net_start(net, i);
    }
    int64_t start_ms = until(net, gossip_net_is_agreed, NULL);
    gossip_net_run(net, 30 * HR_NS_PER_S);
    gossip_net_start(net, add(net));
    int64_t join_ms = until(net, gossip_net_is_agreed, NULL);
    gossip_net_run(net, 30 * HR_NS_PER_S);
    measure_rest(net, &bytes, &packets);
    measure_crashes(net, &near_ms, &all_ms);
    printf("%6" PRIu32 "%10" PRId64 "%10" PRId64 "%12" PRIu64 "%12" PRIu64 "%14" PRId64 "%12" PRId64 "\n", nodes,
           start_ms, join_ms, bytes, packets, near_ms, all_ms);
    (void)fflush(stdout);
    gossip_net_free(net);
}

int main(int argc, char **argv)
{
    static const uint32_t nodes[] = {3, 10, 50, 200};
    bool is_smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    uint64_t seed = argc > (is_smoke ? 2 : 1) ? strtoull(argv[is_smoke ? 2 : 1], NULL, 10) : 1;
    printf("seed %" PRIu64 "\n", seed);
    printf(" nodes  start ms   join ms  rest B/s/n  rest pkt/s/n  crash near ms  crash ms\n");
    for (size_t i = 0; i < (is_smoke ? 2 : 4); i++) {
        measure(nodes[i], seed);
    }
    return 0;
}
