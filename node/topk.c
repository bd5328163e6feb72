#include "node/topk.h"

#include <stdalign.h>

void hr_topk_init(struct hr_topk *topk, uint32_t capacity, hr_ns now, struct hr_bump *bump)
{
    topk->capacity = capacity;
    topk->halved_at = now;
    topk->entries = hr_bump_take(bump, capacity, sizeof(struct hr_topk_entry), alignof(struct hr_topk_entry));
    topk->heap = hr_bump_take(bump, capacity, sizeof(uint32_t), alignof(uint32_t));
    hr_id_index_init(&topk->index, capacity, bump);
    if (topk->entries != NULL) {
        hr_topk_clear(topk);
    }
}

void hr_topk_clear(struct hr_topk *topk)
{
    topk->count = 0;
    topk->total = 0;
    for (uint32_t i = 0; i < topk->capacity; i++) {
        topk->heap[i] = i;
    }
    hr_id_index_clear(&topk->index);
}

static uint64_t count_at(const struct hr_topk *topk, uint32_t at)
{
    return topk->entries[topk->heap[at]].count;
}

static void put_at(struct hr_topk *topk, uint32_t at, uint32_t slot)
{
    topk->heap[at] = slot;
    topk->entries[slot].heap_at = at;
}

/* The count at `at` has grown. */
static void sift_down(struct hr_topk *topk, uint32_t at)
{
    uint32_t slot = topk->heap[at];
    uint64_t count = topk->entries[slot].count;
    for (uint32_t child = 2 * at + 1; child < topk->count; child = 2 * at + 1) {
        if (child + 1 < topk->count && count_at(topk, child + 1) < count_at(topk, child)) {
            child++;
        }
        if (count <= count_at(topk, child)) {
            break;
        }
        put_at(topk, at, topk->heap[child]);
        at = child;
    }
    put_at(topk, at, slot);
}

/* The count at `at` may be below its parent's. */
static void sift_up(struct hr_topk *topk, uint32_t at)
{
    uint32_t slot = topk->heap[at];
    uint64_t count = topk->entries[slot].count;
    while (at > 0 && count < count_at(topk, (at - 1) / 2)) {
        put_at(topk, at, topk->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put_at(topk, at, slot);
}

/* A slot that was not in use, at the heap's end. */
static uint32_t take_free(struct hr_topk *topk)
{
    uint32_t slot = topk->heap[topk->count];
    topk->entries[slot] = (struct hr_topk_entry){.heap_at = topk->count++};
    sift_up(topk, topk->count - 1);
    return slot;
}

/* The slot of the least asked one, which is forgotten; its count stays, as count and as error. */
static uint32_t take_least(struct hr_topk *topk)
{
    uint32_t slot = topk->heap[0];
    struct hr_topk_entry *entry = &topk->entries[slot];
    hr_id_index_erase(&topk->index, entry->id);
    *entry = (struct hr_topk_entry){.count = entry->count, .error = entry->count, .heap_at = 0};
    return slot;
}

void hr_topk_add(struct hr_topk *topk, struct hr_id128 id, uint32_t limit, bool is_denied)
{
    uint32_t slot = hr_id_index_find(&topk->index, id);
    if (slot == HR_SLOT_NONE) {
        slot = topk->count < topk->capacity ? take_free(topk) : take_least(topk);
        hr_id_index_insert(&topk->index, id, slot);
        topk->entries[slot].id = id;
    }
    struct hr_topk_entry *entry = &topk->entries[slot];
    entry->limit = limit;
    entry->count++;
    entry->denied += is_denied;
    topk->total++;
    sift_down(topk, entry->heap_at);
}

static void halve_entry(struct hr_topk_entry *entry)
{
    uint64_t error = entry->error / 2 + entry->error % 2; /* up: the count may have been rounded down */
    entry->count /= 2;
    entry->error = error < entry->count ? error : entry->count;
    entry->denied /= 2;
}

/* Forgets those whose count is 0: all that is known of them is known of every stranger. They are the first of the heap.
 */
static void drop_zeros(struct hr_topk *topk)
{
    while (topk->count > 0 && count_at(topk, 0) == 0) {
        uint32_t slot = topk->heap[0];
        hr_id_index_erase(&topk->index, topk->entries[slot].id);
        put_at(topk, 0, topk->heap[--topk->count]);
        topk->heap[topk->count] = slot;
        if (topk->count > 0) {
            sift_down(topk, 0);
        }
    }
}

/* Halving keeps the order of any two counts, and so the heap. */
static void halve(struct hr_topk *topk)
{
    topk->total = 0;
    for (uint32_t at = 0; at < topk->count; at++) {
        struct hr_topk_entry *entry = &topk->entries[topk->heap[at]];
        halve_entry(entry);
        topk->total += entry->count;
    }
    drop_zeros(topk);
}

void hr_topk_tick(struct hr_topk *topk, hr_ns now)
{
    while (now - topk->halved_at >= HR_TOPK_HALF_LIFE_NS) {
        topk->halved_at += HR_TOPK_HALF_LIFE_NS;
        halve(topk);
        if (topk->count == 0) {
            topk->halved_at = now - (now - topk->halved_at) % HR_TOPK_HALF_LIFE_NS;
        }
    }
}

const struct hr_topk_entry *hr_topk_find(const struct hr_topk *topk, struct hr_id128 id)
{
    uint32_t slot = hr_id_index_find(&topk->index, id);
    return slot == HR_SLOT_NONE ? NULL : &topk->entries[slot];
}

static bool is_before(const struct hr_topk_entry *a, const struct hr_topk_entry *b)
{
    if (a->count != b->count) {
        return a->count > b->count;
    }
    return a->id.hi != b->id.hi ? a->id.hi < b->id.hi : a->id.lo < b->id.lo;
}

/* Insertion into a sorted list that drops its last one when full: lists are short, and asked for by people. */
uint32_t hr_topk_list(const struct hr_topk *topk, uint32_t count_max, uint32_t listed, struct hr_topk_entry *entries)
{
    for (uint32_t i = 0; i < topk->count; i++) {
        const struct hr_topk_entry *entry = &topk->entries[topk->heap[i]];
        if (listed == count_max && (count_max == 0 || !is_before(entry, &entries[listed - 1]))) {
            continue;
        }
        uint32_t at = listed < count_max ? listed++ : listed - 1;
        for (; at > 0 && is_before(entry, &entries[at - 1]); at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = *entry;
    }
    return listed;
}
