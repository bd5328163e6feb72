#include "region/recent.h"

#define BUCKETS_PER_ENTRY 4U

/* Entries in the ring's order are fetched so far ahead. */
#define FETCHED_AHEAD 16

void hr_recent_init(struct hr_recent *recent, uint32_t count_max, struct hr_bump *bump)
{
    *recent = (struct hr_recent){.count_max = count_max, .bucket_mask = BUCKETS_PER_ENTRY * count_max - 1};
    recent->entries = hr_bump_take(bump, (size_t)count_max + 1, sizeof(struct hr_recent_entry), 64);
    recent->buckets = hr_bump_take(bump, BUCKETS_PER_ENTRY * (size_t)count_max, sizeof(uint32_t), 64);
}

static uint32_t *bucket_of(const struct hr_recent *recent, uint64_t first, uint64_t second)
{
    uint64_t mixed = (first ^ first >> 32) * UINT64_C(0x9e3779b97f4a7c15) + second;
    mixed *= UINT64_C(0xd6e8feb86659fd93); /* odd, and its bits look random: the highest depend on all below */
    return &recent->buckets[mixed >> 32 & recent->bucket_mask];
}

void hr_recent_prefetch(const struct hr_recent *recent, uint64_t first, uint64_t second, uint32_t before)
{
    __builtin_prefetch(bucket_of(recent, first, second), 1);
    if (recent->count == recent->count_max) {
        uint32_t mask = recent->count_max - 1, place = recent->next + before;
        const struct hr_recent_entry *oldest = &recent->entries[(place & mask) + 1]; /* which makes way for it */
        __builtin_prefetch(bucket_of(recent, oldest->first, oldest->second), 1);
        __builtin_prefetch(&recent->entries[((place + FETCHED_AHEAD) & mask) + 1], 1);
    }
}

bool hr_recent_find(const struct hr_recent *recent, uint64_t first, uint64_t second, uint8_t *ret_value)
{
    uint32_t number = *bucket_of(recent, first, second);
    while (number != 0) {
        const struct hr_recent_entry *entry = &recent->entries[number];
        if (entry->first == first && entry->second == second) {
            *ret_value = entry->value;
            return true;
        }
        number = entry->chain;
    }
    return false;
}

static void unlink_entry(struct hr_recent *recent, uint32_t number)
{
    const struct hr_recent_entry *entry = &recent->entries[number];
    uint32_t *link = bucket_of(recent, entry->first, entry->second);
    while (*link != number) {
        link = &recent->entries[*link].chain;
    }
    *link = entry->chain;
}

void hr_recent_add(struct hr_recent *recent, uint64_t first, uint64_t second, uint8_t value)
{
    uint32_t number = recent->next + 1;
    if (recent->count == recent->count_max) {
        unlink_entry(recent, number);
    } else {
        recent->count++;
    }
    uint32_t *bucket = bucket_of(recent, first, second);
    recent->entries[number] = (struct hr_recent_entry){first, second, *bucket, value};
    *bucket = number;
    recent->next = number % recent->count_max;
}
