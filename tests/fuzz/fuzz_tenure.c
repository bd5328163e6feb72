/* Feeds a node's tenure letters of another node, and records of its store, that hold anything. It must not break, and
 * hold no partition but by a charter. The input: any number of parts, each behind a kind, one byte, and its length, two
 * bytes, little-endian: 0 a pulse, 1 a vote, 2 a letter of the stream, 3 a message within such a letter, whose head is
 * made valid; 4 and 5 a record's payload. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "region/tenure_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define OUTBOX_BYTES (1U << 18)
#define PARTS_MAX 24 /* those behind are not looked at: each costs a tick */
#define START_NS (1000 * HR_NS_PER_S)

struct world {
    struct hr_member all[2];
    struct hr_members members;
    struct hr_outbox outbox;
    struct hr_limiter *limiter;
    struct hr_tenure *tenure;
    void *outbox_memory, *limiter_memory, *tenure_memory;
    struct hr_now now;
};

static void *zeroed(size_t bytes)
{
    size_t rounded = (bytes + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, rounded);
    if (memory == NULL) {
        abort();
    }
    return memset(memory, 0, rounded);
}

/* The other node owns a half, and gives this one some of it. */
static void make_charter(struct hr_charter *charter)
{
    hr_charter_found(charter, 5, 1);
    charter->count = 2;
    charter->members[1] = 2;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_seat *seat = &charter->seats[p];
        seat->owner = p % 2;
        seat->standby = 1 - seat->owner;
        seat->giver = p % 4 == 0 ? 1 : HR_NODE_NONE;
    }
}

static void open_world(struct world *world)
{
    static const struct hr_hash_key secret = {"fuzz"};
    static struct hr_charter charter;
    const struct hr_limiter_sizes sizes = {
        .counters_max = 64, .leases_max = 8, .log_blocks_max = 8, .limits_max = 1, .reserves_max = 1, .saves = true};
    memset(world, 0, sizeof(*world));
    world->now = (struct hr_now){START_NS, {START_NS}};
    for (uint32_t i = 0; i < 2; i++) {
        world->all[i] = (struct hr_member){.id = i + 1, .region = "eu", .weight = 1};
    }
    world->members = (struct hr_members){world->all, 2, 2, 0, 1};
    world->outbox_memory = zeroed(OUTBOX_BYTES);
    struct hr_bump bump = {.at = world->outbox_memory};
    hr_outbox_init(&world->outbox, OUTBOX_BYTES, &bump);
    world->limiter_memory = zeroed(hr_limiter_bytes(&sizes));
    world->limiter = hr_limiter_init(&sizes, &secret, world->limiter_memory, hr_limiter_bytes(&sizes));
    const struct hr_tenure_config config = {.members = &world->members,
                                            .outbox = &world->outbox,
                                            .limiter = world->limiter,
                                            .life = 3,
                                            .lineage = 4,
                                            .has_seeds = true,
                                            .nodes_max = 2,
                                            .stream_bytes = 4 * HR_STREAM_MESSAGE_BYTES_MAX};
    world->tenure_memory = zeroed(hr_tenure_bytes(&config));
    world->tenure = hr_tenure_init(&config, START_NS, world->tenure_memory, hr_tenure_bytes(&config));
    make_charter(&charter);
    hr_tenure_adopt(world->tenure, &charter, START_NS);
    (void)hr_stream_open(&world->tenure->peers[0].stream, 6);
}

static void close_world(struct world *world)
{
    free(world->outbox_memory);
    free(world->limiter_memory);
    free(world->tenure_memory);
}

static void feed(struct world *world, enum hr_letter_kind kind, const uint8_t *body, size_t bytes)
{
    char *copy = malloc(bytes + 1); /* of its own size */
    memcpy(copy, body, bytes);
    hr_tenure_receive(world->tenure, kind, 1, (struct hr_span){copy, bytes}, world->now);
    free(copy);
}

/* One message in a letter of the stream as it should come next. */
static void feed_message(struct world *world, const uint8_t *message, size_t bytes)
{
    static uint8_t letter[HR_STREAM_HEAD_BYTES + 4 + UINT16_MAX];
    const struct hr_tenure *tenure = world->tenure;
    const uint64_t head[4] = {tenure->peers[0].stream.peer_life, 3, tenure->peers[0].stream.awaited, 1};
    const uint64_t charter[2] = {tenure->current.lineage, tenure->current.version};
    uint32_t length = (uint32_t)bytes;
    memcpy(letter, head, sizeof(head));
    memcpy(letter + HR_STREAM_HEAD_BYTES, &length, 4);
    memcpy(letter + HR_STREAM_HEAD_BYTES + 4, message, bytes);
    if (bytes >= HR_HAND_HEAD_BYTES) {
        memcpy(letter + HR_STREAM_HEAD_BYTES + 5, charter, sizeof(charter));
    }
    feed(world, HR_LETTER_STREAM, letter, HR_STREAM_HEAD_BYTES + 4 + bytes);
}

static void feed_record(struct world *world, const char *name, const uint8_t *payload, size_t bytes)
{
    struct hr_store_key key;
    if (hr_store_key_make(HR_RECORD_TENURE, hr_span_of(name), &key) == HR_OK) {
        const struct hr_record record = {HR_RECORD_TENURE, hr_store_key_span(&key), {(const char *)payload, bytes}};
        enum hr_err err = hr_tenure_restore(world->tenure, &record, world->now.steady);
        (void)err; /* whatever it says, it has to hold */
    }
}

static void feed_part(struct world *world, uint8_t kind, const uint8_t *part, size_t bytes)
{
    switch (kind % 6) {
    case 0:
        feed(world, HR_LETTER_PULSE, part, bytes);
        break;
    case 1:
        feed(world, HR_LETTER_TENURE, part, bytes);
        break;
    case 2:
        feed(world, HR_LETTER_STREAM, part, bytes);
        break;
    case 3:
        feed_message(world, part, bytes);
        break;
    case 4:
        feed_record(world, "charter", part, bytes);
        break;
    default:
        feed_record(world, "vote", part, bytes);
        break;
    }
}

static void check(const struct hr_tenure *tenure)
{
    uint32_t held = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        const struct hr_seat *seat = &tenure->current.seats[p];
        bool holds = (tenure->parts[p] & HR_PART_HOLDS) != 0;
        held += holds;
        if (holds && seat->owner != tenure->self && seat->giver != tenure->self) {
            abort();
        }
    }
    if (held != tenure->counts.held) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct world world;
    struct hr_letter letter;
    open_world(&world);
    for (uint32_t i = 0; i < PARTS_MAX && bytes >= 3; i++) {
        size_t length = data[1] | (size_t)data[2] << 8;
        length = length > bytes - 3 ? bytes - 3 : length;
        feed_part(&world, data[0], data + 3, length);
        world.now.steady += (hr_ns)data[0] * HR_NS_PER_MS;
        hr_tenure_tick(world.tenure, world.now);
        while (hr_outbox_next(&world.outbox, &letter)) {
        }
        data += 3 + length;
        bytes -= 3 + length;
    }
    check(world.tenure);
    close_world(&world);
    return 0;
}
