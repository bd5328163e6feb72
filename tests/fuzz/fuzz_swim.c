/* Feeds letters that were sealed, and say anything, to a node among others, with time in between. Whatever they say the
 * table keeps its bounds, the node takes itself for alive, and what it sends is within bounds, too.
 *
 * The input is a sequence of letters: whom from u8, milliseconds since the one before u8, length u16, body. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/life.h"
#include "gossip/swim.h"
#include "gossip/swim_wire.h"
#include "storage/le.h"

#define OUTBOX_BYTES (1U << 18)
#define OTHERS 4
#define MEMBERS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct node {
    struct hr_swim *swim;
    struct hr_outbox outbox;
    void *memory, *ring;
};

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static struct hr_member member_of(unsigned number)
{
    struct hr_member member = {.incarnation = hr_life_begin(1), .weight = 1};
    (void)snprintf(member.name, sizeof(member.name), "n%u", number);
    (void)snprintf(member.region, sizeof(member.region), number % 2 == 0 ? "eu" : "us");
    (void)snprintf(member.gossip, sizeof(member.gossip), "tcp://10.0.0.%u:7401", number);
    member.id = hr_member_id(hr_span_of(member.region), hr_span_of(member.name));
    return member;
}

static void make(struct node *node)
{
    static const struct hr_span seeds[] = {{"tcp://10.0.0.1:7401", 19}};
    struct hr_swim_config config = {
        .self = member_of(0), .members_max = MEMBERS_MAX, .seed_count = 1, .seeds = seeds, .rng_seed = 1};
    config.self.incarnation = 1;
    size_t bytes = hr_swim_bytes(&config);
    node->memory = malloc(bytes);
    node->ring = malloc(OUTBOX_BYTES);
    require(node->memory != NULL && node->ring != NULL);
    struct hr_bump bump = {node->ring, 0};
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, &bump);
    node->swim = hr_swim_init(&config, &node->outbox, node->memory, bytes);
    require(node->swim != NULL);
}

/* Every other is a member before the input begins. */
static void introduce(struct node *node, unsigned number)
{
    uint8_t letter[512];
    struct hr_member member = member_of(number);
    struct hr_rumor rumor = hr_rumor_of(&member, 0, true);
    struct hr_swim_head head = {.type = HR_SWIM_NEWS};
    struct hr_le_writer writer = hr_le_writer_of(letter, sizeof(letter));
    hr_swim_write_head(&writer, &head);
    hr_le_write_u16(&writer, 1);
    hr_rumor_write(&writer, &rumor);
    hr_swim_receive(node->swim, member.id, (struct hr_span){(const char *)letter, writer.used}, 0);
}

static void check_letters(struct node *node)
{
    struct hr_letter letter;
    while (hr_outbox_next(&node->outbox, &letter)) {
        struct hr_le_reader reader = hr_le_reader_of(letter.body);
        struct hr_swim_head head;
        struct hr_rumor rumor;
        uint16_t count;
        require(letter.kind == HR_LETTER_SWIM);
        require((letter.to == 0) == (letter.address.bytes > 0));
        require(hr_swim_read_head(&reader, &head, &count));
        require(letter.lane == HR_LANE_GOSSIP || (head.type == HR_SWIM_TABLE && letter.to != 0));
        for (uint16_t i = 0; i < count; i++) {
            require(hr_rumor_read(&reader, &rumor));
        }
        require(hr_le_is_at_end(&reader));
    }
}

static void check_members(const struct node *node)
{
    const struct hr_members *members = hr_swim_members(node->swim);
    require(members->count >= 1 + OTHERS && members->count <= MEMBERS_MAX);
    require(members->all[members->self].state == HR_MEMBER_ALIVE);
    for (uint32_t i = 0; i < members->count; i++) {
        const struct hr_member *member = &members->all[i];
        require(member->id == hr_member_id(hr_span_of(member->region), hr_span_of(member->name)));
        require(member->state <= HR_MEMBER_LEFT && member->weight >= 1);
        require(hr_members_find(members, member->id) == i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_le_reader reader = hr_le_reader_of((struct hr_span){(const char *)data, bytes});
    struct hr_swim_event event;
    struct node node;
    hr_ns now = 0;
    make(&node);
    hr_swim_tick(node.swim, now);
    for (unsigned i = 1; i <= OTHERS; i++) {
        introduce(&node, i);
    }
    while (reader.used < reader.bytes && !reader.failed) {
        uint64_t from = member_of(hr_le_read_u8(&reader) % (OTHERS + 2)).id;
        now += hr_le_read_u8(&reader) * HR_NS_PER_MS;
        struct hr_span body = hr_le_read_bytes(&reader, hr_le_read_u16(&reader));
        uint64_t view = hr_swim_members(node.swim)->view;
        hr_swim_tick(node.swim, now);
        hr_swim_receive(node.swim, from, body, now);
        require(hr_swim_members(node.swim)->view >= view);
        check_letters(&node);
        check_members(&node);
        while (hr_swim_next_event(node.swim, &event)) {
            require(strcmp(hr_swim_event_text(event.kind), "unknown event") != 0);
        }
    }
    free(node.memory);
    free(node.ring);
    return 0;
}
