#include "node/ring.h"

#include <assert.h>
#include <string.h>

/* A letter lies behind this, padded to a multiple of 8. */
struct head {
    uint32_t bytes;
    uint8_t kind;
    uint8_t skips; /* there is no letter here: the next one is at the memory's start */
    uint8_t unused[2];
};

static_assert(sizeof(struct head) == 8, "heads stay on multiples of 8, and one fits into any rest");

/* An empty ring that has come so far begins anew. */
#define LOOSE_BYTES 16384U

void hr_ring_init(struct hr_ring *ring, void *memory, uint32_t bytes_max)
{
    assert(bytes_max >= HR_RING_BYTES_MIN && (bytes_max & (bytes_max - 1)) == 0);
    ring->memory = memory;
    ring->bytes_max = bytes_max;
    ring->put = ring->free_from = ring->taken = ring->there_to = 0;
    atomic_init(&ring->published, 0);
    atomic_init(&ring->given_back, 0);
}

static uint64_t padded(size_t bytes)
{
    return (sizeof(struct head) + bytes + 7) & ~(uint64_t)7;
}

static uint64_t place_of(const struct hr_ring *ring, uint64_t position)
{
    return position & (ring->bytes_max - 1);
}

/* How much of the memory's end must be skipped before a letter that takes `need`. */
static uint64_t skip_of(const struct hr_ring *ring, uint64_t need)
{
    uint64_t place = place_of(ring, ring->put);
    bool is_loose = ring->free_from == ring->put && place >= LOOSE_BYTES && place >= need;
    return is_loose || ring->bytes_max - place < need ? ring->bytes_max - place : 0;
}

static bool has_room(const struct hr_ring *ring, uint64_t need)
{
    return ring->put - ring->free_from + skip_of(ring, need) + need <= ring->bytes_max;
}

bool hr_ring_has_room(struct hr_ring *ring, size_t bytes)
{
    if (bytes > hr_ring_letter_bytes_max((uint32_t)ring->bytes_max)) {
        return false;
    }
    if (!has_room(ring, padded(bytes))) {
        ring->free_from = atomic_load_explicit(&ring->given_back, memory_order_acquire);
    }
    return has_room(ring, padded(bytes));
}

bool hr_ring_put(struct hr_ring *ring, uint8_t kind, struct hr_span body)
{
    if (!hr_ring_has_room(ring, body.bytes)) {
        return false;
    }
    const struct head head = {.bytes = (uint32_t)body.bytes, .kind = kind}, skip = {.skips = 1};
    uint64_t skipped = skip_of(ring, padded(body.bytes));
    if (skipped > 0) {
        memcpy(ring->memory + place_of(ring, ring->put), &skip, sizeof(skip));
        ring->put += skipped;
    }
    uint8_t *at = ring->memory + place_of(ring, ring->put);
    memcpy(at, &head, sizeof(head));
    if (body.bytes > 0) {
        memcpy(at + sizeof(head), body.at, body.bytes);
    }
    ring->put += padded(body.bytes);
    return true;
}

bool hr_ring_publish(struct hr_ring *ring)
{
    if (atomic_load_explicit(&ring->published, memory_order_relaxed) == ring->put) {
        return false;
    }
    atomic_store_explicit(&ring->published, ring->put, memory_order_release);
    ring->free_from = atomic_load_explicit(&ring->given_back, memory_order_acquire);
    return true;
}

/* Is there anything more? Where not, all that was taken is given back. */
static bool look(struct hr_ring *ring)
{
    if (ring->taken != ring->there_to) {
        return true;
    }
    if (atomic_load_explicit(&ring->given_back, memory_order_relaxed) != ring->taken) {
        atomic_store_explicit(&ring->given_back, ring->taken, memory_order_release);
    }
    ring->there_to = atomic_load_explicit(&ring->published, memory_order_acquire);
    return ring->taken != ring->there_to;
}

bool hr_ring_next(struct hr_ring *ring, uint8_t *ret_kind, struct hr_span *ret_body)
{
    struct head head;
    if (!look(ring)) {
        return false;
    }
    memcpy(&head, ring->memory + place_of(ring, ring->taken), sizeof(head));
    if (head.skips != 0) { /* a letter follows it: both were published together */
        ring->taken += ring->bytes_max - place_of(ring, ring->taken);
        memcpy(&head, ring->memory, sizeof(head));
    }
    *ret_kind = head.kind;
    *ret_body = (struct hr_span){(const char *)ring->memory + place_of(ring, ring->taken) + sizeof(head), head.bytes};
    ring->taken += padded(head.bytes);
    return true;
}
