#include "chaos/net.h"

#include <stdlib.h>
#include <string.h>

#include "chaos/queue.h"

/* What one link holds at most, as a socket's buffers do: a clogged one must not eat the machine. */
#define LINK_BYTES_MAX (8U << 20)

/* What TCP takes to notice that a segment was lost and send it again (RFC 6298's minimum, as Linux has it). */
#define RETRANSMIT_NS (200 * HR_NS_PER_MS)

#define MILLION 1000000U

/* A packet under way. It lives in a slot whose number its event names. */
struct flight {
    struct flight *held; /* the next one that the clogged link holds back */
    uint32_t from, to;
    enum hr_lane lane;
    uint32_t bytes;
    hr_ns arrives;
    uint64_t order; /* in which they were launched */
    uint8_t at[];
};

struct path {
    struct hr_sim_link link;
    hr_ns free_at;  /* when the link's bandwidth has taken all that was sent */
    hr_ns in_order; /* the peer lane's latest arrival so far */
    uint32_t bytes; /* under way */
    struct flight *held, **held_end;
};

struct hr_net {
    uint32_t node_count;
    struct path *paths;
    struct hr_rng rng;
    struct hr_dice_waits waits;
    struct hr_queue queue;
    struct flight **slots; /* by number; NULL: free, or its packet was dropped */
    uint32_t slot_count, slots_room;
    uint32_t *free_slots, free_count;
    struct flight *handed_out;
    uint64_t launched;
    struct hr_sim_net_counts counts;
};

static struct path *path_of(const struct hr_net *net, uint32_t from, uint32_t to)
{
    return &net->paths[(size_t)from * net->node_count + to];
}

struct hr_net *hr_net_new(uint32_t node_count, uint64_t seed)
{
    struct hr_net *net = calloc(1, sizeof(*net));
    struct path *paths = calloc((size_t)node_count * node_count, sizeof(*paths));
    if (net == NULL || paths == NULL) {
        free(net);
        free(paths);
        return NULL;
    }
    *net = (struct hr_net){.node_count = node_count, .paths = paths, .rng = hr_dice_fork(seed, 5)};
    hr_dice_waits_init(&net->waits);
    for (size_t i = 0; i < (size_t)node_count * node_count; i++) {
        paths[i].held_end = &paths[i].held;
    }
    return net;
}

static void free_held(struct path *path)
{
    while (path->held != NULL) {
        struct flight *next = path->held->held;
        free(path->held);
        path->held = next;
    }
    path->held_end = &path->held;
}

void hr_net_free(struct hr_net *net)
{
    if (net == NULL) {
        return;
    }
    for (size_t i = 0; i < (size_t)net->node_count * net->node_count; i++) {
        free_held(&net->paths[i]);
    }
    for (uint32_t i = 0; i < net->slot_count; i++) {
        free(net->slots[i]);
    }
    free(net->handed_out);
    free(net->slots);
    free(net->free_slots);
    free(net->paths);
    hr_queue_deinit(&net->queue);
    free(net);
}

struct hr_sim_link *hr_net_link(struct hr_net *net, uint32_t from, uint32_t to)
{
    return &path_of(net, from, to)->link;
}

static bool grow_slots(struct hr_net *net)
{
    uint32_t room = net->slots_room == 0 ? 64 : net->slots_room * 2;
    struct flight **slots = reallocarray(net->slots, room, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    net->slots = slots;
    uint32_t *free_slots = reallocarray(net->free_slots, room, sizeof(*free_slots));
    if (free_slots == NULL) {
        return false;
    }
    net->free_slots = free_slots;
    net->slots_room = room;
    return true;
}

/* Puts it into the queue, or frees it where there is no memory, which is one more way of being lost. */
static void launch(struct hr_net *net, struct flight *flight, hr_ns at)
{
    bool has_slot = net->free_count > 0 || net->slot_count < net->slots_room || grow_slots(net);
    if (!has_slot) {
        path_of(net, flight->from, flight->to)->bytes -= flight->bytes;
        free(flight);
        net->counts.refused++;
        return;
    }
    uint32_t slot = net->free_count > 0 ? net->free_slots[--net->free_count] : net->slot_count++;
    net->slots[slot] = flight;
    flight->arrives = at;
    flight->order = net->launched++;
    if (hr_queue_put(&net->queue, (struct hr_sim_event){.at = at, .what = slot}) != HR_OK) {
        path_of(net, flight->from, flight->to)->bytes -= flight->bytes;
        net->slots[slot] = NULL;
        net->free_slots[net->free_count++] = slot;
        free(flight);
        net->counts.refused++;
    }
}

static bool strikes(struct hr_net *net, uint32_t ppm)
{
    return ppm > 0 && hr_rng_chance(&net->rng, ppm, MILLION);
}

static hr_ns draw_delay(struct hr_net *net, const struct hr_sim_link *link)
{
    return link->delay_ns + (link->jitter_ns > 0 ? hr_dice_wait(&net->waits, &net->rng, link->jitter_ns) : 0);
}

/* When a packet that leaves now has left, which a narrow link takes its time for. */
static hr_ns departure(struct path *path, uint32_t bytes, hr_ns now)
{
    if (path->link.bytes_per_s == 0) {
        return now;
    }
    hr_ns begin = path->free_at > now ? path->free_at : now;
    path->free_at = begin + (hr_ns)((uint64_t)bytes * (uint64_t)HR_NS_PER_S / path->link.bytes_per_s);
    return path->free_at;
}

/* False: it is lost. */
static bool draw_arrival(struct hr_net *net, struct path *path, enum hr_lane lane, uint32_t bytes, hr_ns now,
                         hr_ns *ret_at)
{
    const struct hr_sim_link *link = &path->link;
    bool is_lost = strikes(net, link->loss_ppm);
    if (is_lost && lane == HR_LANE_GOSSIP) {
        return false;
    }
    hr_ns at = departure(path, bytes, now) + draw_delay(net, link);
    if (lane == HR_LANE_GOSSIP) {
        bool is_held_back = strikes(net, link->overtake_ppm);
        *ret_at = at + (is_held_back ? hr_dice_between(&net->rng, 0, 10 * (link->delay_ns + link->jitter_ns)) : 0);
        return true;
    }
    at += is_lost ? RETRANSMIT_NS : 0;
    path->in_order = at > path->in_order ? at : path->in_order;
    *ret_at = path->in_order;
    return true;
}

static struct flight *copy(const struct hr_sim_packet *packet)
{
    struct flight *flight = malloc(sizeof(*flight) + packet->bytes.bytes);
    if (flight != NULL) {
        *flight = (struct flight){
            .from = packet->from, .to = packet->to, .lane = packet->lane, .bytes = (uint32_t)packet->bytes.bytes};
        if (packet->bytes.bytes > 0) {
            memcpy(flight->at, packet->bytes.at, packet->bytes.bytes);
        }
    }
    return flight;
}

static void send_one(struct hr_net *net, struct path *path, const struct hr_sim_packet *packet, hr_ns now)
{
    hr_ns at = now;
    if (path->link.clogs == 0 && !draw_arrival(net, path, packet->lane, (uint32_t)packet->bytes.bytes, now, &at)) {
        net->counts.lost++;
        return;
    }
    struct flight *flight = path->bytes + packet->bytes.bytes > LINK_BYTES_MAX ? NULL : copy(packet);
    if (flight == NULL) {
        net->counts.refused++;
        return;
    }
    path->bytes += flight->bytes;
    if (path->link.clogs > 0) {
        *path->held_end = flight;
        path->held_end = &flight->held;
        return;
    }
    launch(net, flight, at);
}

void hr_net_send(struct hr_net *net, const struct hr_sim_packet *packet, hr_ns now)
{
    struct path *path = path_of(net, packet->from, packet->to);
    net->counts.sent++;
    if (path->link.cuts > 0) {
        net->counts.cut++;
        return;
    }
    send_one(net, path, packet, now);
    if (packet->lane == HR_LANE_GOSSIP && strikes(net, path->link.twice_ppm)) {
        net->counts.doubled++;
        send_one(net, path, packet, now + draw_delay(net, &path->link));
    }
}

hr_ns hr_net_deadline(const struct hr_net *net)
{
    return net->queue.count == 0 ? INT64_MAX : net->queue.heap[0].at;
}

static struct flight *land(struct hr_net *net, uint64_t slot)
{
    struct flight *flight = net->slots[slot];
    net->slots[slot] = NULL;
    net->free_slots[net->free_count++] = (uint32_t)slot;
    if (flight != NULL) {
        path_of(net, flight->from, flight->to)->bytes -= flight->bytes;
    }
    return flight;
}

bool hr_net_receive(struct hr_net *net, hr_ns now, struct hr_sim_packet *ret_packet)
{
    struct hr_sim_event event;
    while (hr_net_deadline(net) <= now && hr_queue_take(&net->queue, &event)) {
        struct flight *flight = land(net, event.what);
        if (flight == NULL) {
            continue; /* dropped while it was under way */
        }
        free(net->handed_out);
        net->handed_out = flight;
        if (path_of(net, flight->from, flight->to)->link.cuts > 0) {
            net->counts.cut++;
            continue;
        }
        net->counts.delivered++;
        *ret_packet =
            (struct hr_sim_packet){flight->from, flight->to, flight->lane, {(const char *)flight->at, flight->bytes}};
        return true;
    }
    return false;
}

void hr_net_unclog(struct hr_net *net, uint32_t from, uint32_t to, hr_ns now)
{
    struct path *path = path_of(net, from, to);
    struct flight *flight = path->held;
    path->held = NULL;
    path->held_end = &path->held;
    while (flight != NULL) {
        struct flight *next = flight->held;
        hr_ns at;
        flight->held = NULL;
        if (draw_arrival(net, path, flight->lane, flight->bytes, now, &at)) {
            launch(net, flight, at);
        } else {
            path->bytes -= flight->bytes;
            free(flight);
            net->counts.lost++;
        }
        flight = next;
    }
}

static int by_arrival(const void *left, const void *right)
{
    const struct flight *a = *(const struct flight *const *)left, *b = *(const struct flight *const *)right;
    if (a->arrives != b->arrives) {
        return a->arrives < b->arrives ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

/* Takes those of the path that a healthy link would have delivered by then out of their slots, in their order. */
static uint32_t take_late(struct hr_net *net, uint32_t from, uint32_t to, hr_ns by, struct flight **ret_late)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct flight *flight = net->slots[i];
        if (flight != NULL && flight->from == from && flight->to == to && flight->arrives > by) {
            ret_late[count++] = flight;
            net->slots[i] = NULL; /* its event finds nothing, and frees the slot */
        }
    }
    qsort(ret_late, count, sizeof(struct flight *), by_arrival);
    return count;
}

void hr_net_widen(struct hr_net *net, uint32_t from, uint32_t to, hr_ns now)
{
    struct path *path = path_of(net, from, to);
    struct flight **late = calloc((size_t)net->slot_count + 1, sizeof(struct flight *));
    if (late == NULL) {
        return; /* they come when they would have come */
    }
    uint32_t count = take_late(net, from, to, now + path->link.delay_ns + path->link.jitter_ns, late);
    path->free_at = path->in_order = now;
    for (uint32_t i = 0; i < count; i++) {
        hr_ns at = departure(path, late[i]->bytes, now) + draw_delay(net, &path->link);
        if (late[i]->lane != HR_LANE_GOSSIP) {
            path->in_order = at = at > path->in_order ? at : path->in_order;
        }
        launch(net, late[i], at);
    }
    free(late);
}

static void drop_held(struct hr_net *net, uint32_t from, uint32_t to)
{
    struct path *path = path_of(net, from, to);
    for (struct flight *flight = path->held; flight != NULL; flight = flight->held) {
        path->bytes -= flight->bytes;
        net->counts.cut++;
    }
    free_held(path);
}

void hr_net_drop_node(struct hr_net *net, uint32_t node)
{
    for (uint32_t other = 0; other < net->node_count; other++) {
        drop_held(net, node, other);
        drop_held(net, other, node);
    }
    for (uint32_t i = 0; i < net->slot_count; i++) {
        struct flight *flight = net->slots[i];
        if (flight != NULL && (flight->from == node || flight->to == node)) {
            path_of(net, flight->from, flight->to)->bytes -= flight->bytes;
            net->counts.cut++;
            free(flight);
            net->slots[i] = NULL; /* its event finds nothing, and frees the slot */
        }
    }
}

struct hr_sim_net_counts hr_net_counts(const struct hr_net *net)
{
    return net->counts;
}
