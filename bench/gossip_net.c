#include "bench/gossip_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTBOX_BYTES (1U << 20)
#define QUESTION_NS HR_NS_PER_MS /* between two questions: to ask after each packet would take too long */

struct gossip_net_packet {
    hr_ns at;
    uint64_t order; /* ties break as they were sent */
    uint32_t to;
    char *bytes;
    size_t count;
};

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "gossip_net: %s\n", what);
    abort();
}

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        give_up("out of memory");
    }
    return memory;
}

/* Packets on their way, the next to arrive on top. */

static bool is_before(const struct gossip_net_packet *a, const struct gossip_net_packet *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct gossip_net_packet *a, struct gossip_net_packet *b)
{
    struct gossip_net_packet c = *a;
    *a = *b;
    *b = c;
}

static void push(struct gossip_net *net, struct gossip_net_packet packet)
{
    if (net->heap_count == net->heap_max) {
        net->heap_max = net->heap_max == 0 ? 1024 : 2 * net->heap_max;
        net->heap = realloc(net->heap, net->heap_max * sizeof(*net->heap));
        if (net->heap == NULL) {
            give_up("out of memory");
        }
    }
    size_t at = net->heap_count++;
    net->heap[at] = packet;
    for (; at > 0 && is_before(&net->heap[at], &net->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        swap(&net->heap[at], &net->heap[(at - 1) / 2]);
    }
}

static struct gossip_net_packet pop(struct gossip_net *net)
{
    struct gossip_net_packet top = net->heap[0];
    net->heap[0] = net->heap[--net->heap_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < net->heap_count; child++) {
            least = is_before(&net->heap[child], &net->heap[least]) ? child : least;
        }
        if (least == at) {
            return top;
        }
        swap(&net->heap[at], &net->heap[least]);
        at = least;
    }
}

static void schedule(struct gossip_net *net, uint32_t to, struct hr_span packet, hr_ns at)
{
    char *bytes = take(packet.bytes + 1);
    memcpy(bytes, packet.at, packet.bytes);
    push(net, (struct gossip_net_packet){at, net->order++, to, bytes, packet.bytes});
}

/* Sending. */

static hr_ns draw_delay(struct gossip_net *net, uint32_t from, uint32_t to)
{
    bool is_near = strcmp(net->nodes[from].region, net->nodes[to].region) == 0;
    hr_ns least = is_near ? net->near_min : net->far_min, most = is_near ? net->near_max : net->far_max;
    return least + (hr_ns)hr_rng_below(&net->rng, (uint64_t)(most - least) + 1);
}

static void transmit(struct gossip_net *net, uint32_t from, uint32_t to, struct hr_span packet)
{
    struct gossip_net_node *node = &net->nodes[from];
    node->packets_sent++;
    node->bytes_sent += packet.bytes;
    if (net->tap != NULL) {
        net->tap(net->tap_user, from, to, packet);
    }
    if (net->is_cut[from][to]) {
        return;
    }
    if (!hr_rng_chance(&net->rng, net->loss_milli, 1000)) {
        schedule(net, to, packet, net->now + draw_delay(net, from, to));
    }
    if (hr_rng_chance(&net->rng, net->twice_milli, 1000)) {
        schedule(net, to, packet, net->now + draw_delay(net, from, to));
    }
}

/* GOSSIP_NET_NODES_MAX: nobody is there. */
static uint32_t node_at(const struct gossip_net *net, struct hr_span address)
{
    for (uint32_t i = 0; i < net->count; i++) {
        if (hr_span_equal(hr_span_of(net->nodes[i].address), address)) {
            return i;
        }
    }
    return GOSSIP_NET_NODES_MAX;
}

static void note_events(struct gossip_net_node *node)
{
    struct hr_swim_event event;
    while (hr_swim_next_event(node->swim, &event)) {
        node->events[event.kind]++;
    }
}

void gossip_net_flush(struct gossip_net *net, uint32_t index)
{
    static uint8_t packet[HR_PACKET_BYTES_MAX];
    struct gossip_net_node *node = &net->nodes[index];
    const struct hr_members *members = hr_swim_members(node->swim);
    struct hr_letter letter;
    while (hr_outbox_next(&node->outbox, &letter)) {
        struct hr_span address = letter.address;
        if (letter.to != 0) {
            address = hr_span_of(members->all[hr_members_find(members, letter.to)].gossip);
        }
        size_t bytes = hr_envelope_seal(&node->envelope, &letter, members, packet);
        uint32_t to = node_at(net, address);
        if (bytes > 0 && to != GOSSIP_NET_NODES_MAX) {
            transmit(net, index, to, (struct hr_span){(const char *)packet, bytes});
        }
    }
    note_events(node);
}

/* Nodes. */

struct gossip_net *gossip_net_new(uint64_t seed)
{
    struct gossip_net *net = take(sizeof(*net));
    net->rng.state = seed;
    net->near_min = 200 * HR_NS_PER_US;
    net->near_max = 2 * HR_NS_PER_MS;
    net->far_min = 40 * HR_NS_PER_MS;
    net->far_max = 80 * HR_NS_PER_MS;
    return net;
}

void gossip_net_free(struct gossip_net *net)
{
    while (net->heap_count > 0) {
        free(pop(net).bytes);
    }
    for (uint32_t i = 0; i < net->count; i++) {
        free(net->nodes[i].memory);
    }
    free(net->heap);
    free(net);
}

uint32_t gossip_net_add(struct gossip_net *net, const char *region, const char *name)
{
    if (net->count == GOSSIP_NET_NODES_MAX) {
        give_up("too many nodes");
    }
    uint32_t index = net->count++;
    struct gossip_net_node *node = &net->nodes[index];
    (void)snprintf(node->region, sizeof(node->region), "%s", region);
    (void)snprintf(node->name, sizeof(node->name), "%s", name);
    (void)snprintf(node->cluster, sizeof(node->cluster), "test");
    (void)snprintf(node->secret, sizeof(node->secret), "0123456789abcdef");
    (void)snprintf(node->address, sizeof(node->address), "tcp://node-%u:7401", index);
    node->life = 1;
    node->clock_offset = (hr_ns)hr_rng_below(&net->rng, 1000000) * HR_NS_PER_S;
    return index;
}

void gossip_net_seed(struct gossip_net *net, uint32_t index, uint32_t seed)
{
    struct gossip_net_node *node = &net->nodes[index];
    for (uint32_t i = 0; i < 4; i++) {
        if (node->seeds[i][0] == '\0') {
            memcpy(node->seeds[i], net->nodes[seed].address, sizeof(node->seeds[i]));
            return;
        }
    }
    give_up("too many seeds");
}

hr_ns gossip_net_clock(const struct gossip_net *net, uint32_t index)
{
    return net->now + net->nodes[index].clock_offset;
}

static void make_swim(struct gossip_net *net, struct gossip_net_node *node, struct hr_bump *bump)
{
    struct hr_span seeds[4];
    struct hr_swim_config config = {.seeds = seeds, .rng_seed = hr_rng_next(&net->rng), .timings = net->timings};
    config.self.incarnation = node->life;
    config.self.weight = 1;
    (void)snprintf(config.self.name, sizeof(config.self.name), "%s", node->name);
    (void)snprintf(config.self.region, sizeof(config.self.region), "%s", node->region);
    (void)snprintf(config.self.gossip, sizeof(config.self.gossip), "%s", node->address);
    (void)snprintf(config.self.rpc, sizeof(config.self.rpc), "%s:7400", node->name);
    for (; config.seed_count < 4 && node->seeds[config.seed_count][0] != '\0'; config.seed_count++) {
        seeds[config.seed_count] = hr_span_of(node->seeds[config.seed_count]);
    }
    for (; config.region_count < 2 && node->regions[config.region_count] != NULL; config.region_count++) {
        config.regions[config.region_count] = hr_span_of(node->regions[config.region_count]);
    }
    size_t bytes = hr_swim_bytes(&config);
    void *memory = hr_bump_take(bump, bytes, 1, 64);
    if (memory != NULL) {
        node->swim = hr_swim_init(&config, &node->outbox, memory, bytes);
    }
}

static void lay_out(struct gossip_net *net, struct gossip_net_node *node, struct hr_bump *bump)
{
    struct hr_hash_key secret;
    memcpy(secret.bytes, node->secret, sizeof(secret.bytes));
    struct hr_envelope_config config = {
        .secret = &secret,
        .cluster = hr_span_of(node->cluster),
        .self = hr_member_id(hr_span_of(node->region), hr_span_of(node->name)),
        .life = node->life,
    };
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, bump);
    hr_envelope_init(&node->envelope, &config, bump);
    make_swim(net, node, bump);
}

void gossip_net_start(struct gossip_net *net, uint32_t index)
{
    struct gossip_net_node *node = &net->nodes[index];
    struct hr_bump measure = {NULL, 0};
    lay_out(net, node, &measure);
    free(node->memory);
    node->memory = take(measure.taken);
    struct hr_bump bump = {node->memory, 0};
    lay_out(net, node, &bump);
    if (node->swim == NULL) {
        give_up("a node's config is refused");
    }
    memset(node->events, 0, sizeof(node->events));
    node->is_up = true;
    hr_swim_tick(node->swim, gossip_net_clock(net, index));
    gossip_net_flush(net, index);
}

void gossip_net_crash(struct gossip_net *net, uint32_t index)
{
    net->nodes[index].is_up = false;
}

void gossip_net_restart(struct gossip_net *net, uint32_t index)
{
    net->nodes[index].life++;
    gossip_net_start(net, index);
}

void gossip_net_pause(struct gossip_net *net, uint32_t index, bool is_paused)
{
    net->nodes[index].is_paused = is_paused;
}

void gossip_net_cut(struct gossip_net *net, uint32_t a, uint32_t b, bool is_cut)
{
    net->is_cut[a][b] = is_cut;
    net->is_cut[b][a] = is_cut;
}

/* Time. */

static void deliver(struct gossip_net *net, uint32_t to, struct hr_span packet)
{
    struct gossip_net_node *node = &net->nodes[to];
    struct hr_opened opened;
    if (!node->is_up) {
        return;
    }
    if (node->is_paused) {
        schedule(net, to, packet, net->now + HR_NS_PER_MS); /* it waits in the kernel */
        return;
    }
    if (hr_envelope_open(&node->envelope, packet, &opened) == HR_REFUSED_NOT && opened.kind == HR_LETTER_SWIM) {
        hr_swim_receive(node->swim, opened.from, opened.body, gossip_net_clock(net, to));
        gossip_net_flush(net, to);
    }
}

void gossip_net_inject(struct gossip_net *net, uint32_t to, struct hr_span packet)
{
    deliver(net, to, packet);
}

/* The node whose time comes next; GOSSIP_NET_NODES_MAX: none. */
static uint32_t next_node(const struct gossip_net *net, hr_ns *ret_at)
{
    uint32_t next = GOSSIP_NET_NODES_MAX;
    for (uint32_t i = 0; i < net->count; i++) {
        const struct gossip_net_node *node = &net->nodes[i];
        if (!node->is_up || node->is_paused) {
            continue;
        }
        hr_ns deadline = hr_swim_deadline(node->swim);
        hr_ns at = deadline == INT64_MAX ? INT64_MAX : deadline - node->clock_offset;
        if (next == GOSSIP_NET_NODES_MAX || at < *ret_at) {
            next = i;
            *ret_at = at;
        }
    }
    return next;
}

/* The next event, if it is not after `until`. */
static bool step(struct gossip_net *net, hr_ns until)
{
    hr_ns node_at_ns = INT64_MAX;
    uint32_t index = next_node(net, &node_at_ns);
    hr_ns packet_at_ns = net->heap_count > 0 ? net->heap[0].at : INT64_MAX;
    hr_ns at = node_at_ns < packet_at_ns ? node_at_ns : packet_at_ns;
    if (at > until) {
        return false;
    }
    net->now = at > net->now ? at : net->now;
    if (packet_at_ns <= node_at_ns) {
        struct gossip_net_packet packet = pop(net);
        deliver(net, packet.to, (struct hr_span){packet.bytes, packet.count});
        free(packet.bytes);
        return true;
    }
    hr_swim_tick(net->nodes[index].swim, gossip_net_clock(net, index));
    gossip_net_flush(net, index);
    return true;
}

hr_ns gossip_net_run_until(struct gossip_net *net, gossip_net_question *question, void *user, hr_ns most)
{
    hr_ns begin = net->now;
    while (!question(net, user)) {
        hr_ns ask_at = net->now + QUESTION_NS;
        while (net->now < ask_at) {
            if (!step(net, begin + most)) {
                net->now = begin + most;
                return question(net, user) ? most : -1;
            }
        }
    }
    return net->now - begin;
}

static bool never(const struct gossip_net *net, void *unused)
{
    (void)net;
    (void)unused;
    return false;
}

void gossip_net_run(struct gossip_net *net, hr_ns ns)
{
    (void)gossip_net_run_until(net, never, NULL, ns);
}

unsigned gossip_net_view(const struct gossip_net *net, uint32_t viewer, uint32_t of)
{
    const struct hr_members *members = hr_swim_members(net->nodes[viewer].swim);
    const struct gossip_net_node *node = &net->nodes[of];
    uint32_t index = hr_members_find(members, hr_member_id(hr_span_of(node->region), hr_span_of(node->name)));
    return index == HR_MEMBER_NONE ? HR_MEMBER_LEFT + 1 : members->all[index].state;
}

bool gossip_net_is_agreed(const struct gossip_net *net, void *unused)
{
    (void)unused;
    for (uint32_t viewer = 0; viewer < net->count; viewer++) {
        for (uint32_t of = 0; of < net->count && net->nodes[viewer].is_up; of++) {
            if ((gossip_net_view(net, viewer, of) <= HR_MEMBER_SUSPECT) != net->nodes[of].is_up) {
                return false;
            }
        }
    }
    return true;
}
