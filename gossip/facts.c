#include "gossip/facts.h"

#include <string.h>

#include "base/defect.h"
#include "base/hash.h"
#include "storage/le.h"

/* Bodies, little-endian. Each begins with its type.
 *
 *   SUM     sum 8                                 a sum over all facts: equal sums, nothing to do
 *   RANGE   first 8, last 8, { hash 8, time 8, writer 8 }...   all facts whose hash lies in [first, last]
 *   WANT    { hash 8 }...                         send these
 *   FACT    time 8, writer 8, name bytes 1, value bytes 4, name, value */
enum letter_type { SUM = 1, RANGE = 2, WANT = 3, FACT = 4 };

#define RANGE_HEAD_BYTES (1 + 16)
#define RANGE_ENTRY_BYTES 24
#define RANGE_ENTRIES_MAX 2048
#define FACT_HEAD_BYTES (1 + 8 + 8 + 1 + 4)
#define LETTER_BYTES (FACT_HEAD_BYTES + HR_FACT_NAME_BYTES_MAX + HR_FACT_VALUE_BYTES_MAX)
#define TIME_SHIFT 16

_Static_assert(RANGE_HEAD_BYTES + RANGE_ENTRIES_MAX * RANGE_ENTRY_BYTES <= LETTER_BYTES, "a range is one letter");
_Static_assert(LETTER_BYTES <= HR_LETTER_BYTES_MAX, "a fact is one letter");

void hr_facts_init(struct hr_facts *facts, uint32_t count_max, size_t arena_bytes, uint64_t self, uint64_t rng_seed,
                   struct hr_bump *bump)
{
    struct hr_fact *all = hr_bump_take(bump, count_max, sizeof(struct hr_fact), 8);
    uint8_t *arena = hr_bump_take(bump, arena_bytes, 1, 8);
    uint8_t *letter = hr_bump_take(bump, LETTER_BYTES, 1, 8);
    *facts = (struct hr_facts){.all = all,
                               .count_max = count_max,
                               .arena = arena,
                               .arena_bytes = arena_bytes,
                               .letter = letter,
                               .self = self,
                               .rng = {rng_seed}};
}

/* --- the map --- */

static uint64_t hash_of(struct hr_span name)
{
    return hr_plain_hash(name.at, name.bytes, 0);
}

static bool is_newer(struct hr_fact_version a, struct hr_fact_version b)
{
    if (hr_defect(FACT_OLDER)) {
        return a.time < b.time;
    }
    return a.time != b.time ? a.time > b.time : a.writer > b.writer;
}

static struct hr_span name_of(const struct hr_facts *facts, const struct hr_fact *fact)
{
    return (struct hr_span){(const char *)facts->arena + fact->at, fact->name_bytes};
}

static struct hr_span value_of(const struct hr_facts *facts, const struct hr_fact *fact)
{
    return (struct hr_span){(const char *)facts->arena + fact->at + fact->name_bytes, fact->value_bytes};
}

/* The first fact at or behind hash. */
static uint32_t lower_bound(const struct hr_facts *facts, uint64_t hash)
{
    uint32_t low = 0, high = facts->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (facts->all[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct hr_fact *find(const struct hr_facts *facts, uint64_t hash)
{
    uint32_t i = lower_bound(facts, hash);
    return i < facts->count && facts->all[i].hash == hash ? &facts->all[i] : NULL;
}

bool hr_facts_find(const struct hr_facts *facts, struct hr_span name, struct hr_span *ret_value)
{
    const struct hr_fact *fact = find(facts, hash_of(name));
    if (fact == NULL || !hr_span_equal(name_of(facts, fact), name)) {
        return false;
    }
    *ret_value = value_of(facts, fact);
    return true;
}

/* Moves all facts' bytes together, lowest first, so that no byte is overwritten before it has moved. Each pass finds
 * the lowest that has not moved: it is rare, and the facts are few. */
static void compact(struct hr_facts *facts)
{
    size_t to = 0;
    for (size_t floor = 0;;) {
        struct hr_fact *lowest = NULL;
        for (uint32_t i = 0; i < facts->count; i++) {
            struct hr_fact *fact = &facts->all[i];
            if (fact->at >= floor && (lowest == NULL || fact->at < lowest->at)) {
                lowest = fact;
            }
        }
        if (lowest == NULL) {
            break;
        }
        size_t bytes = lowest->name_bytes + (size_t)lowest->value_bytes;
        floor = lowest->at + bytes;
        memmove(facts->arena + to, facts->arena + lowest->at, bytes);
        lowest->at = to;
        to += bytes;
    }
    facts->arena_used = to;
}

/* Room for so many bytes behind what is used, where there is any to be had. */
static bool make_room(struct hr_facts *facts, size_t bytes)
{
    if (bytes > facts->arena_bytes - facts->arena_used && bytes <= facts->arena_bytes - facts->arena_live) {
        compact(facts);
    }
    return bytes <= facts->arena_bytes - facts->arena_used;
}

static struct hr_fact *insert(struct hr_facts *facts, uint64_t hash)
{
    uint32_t i = lower_bound(facts, hash);
    memmove(&facts->all[i + 1], &facts->all[i], (facts->count - i) * sizeof(struct hr_fact));
    facts->count++;
    facts->all[i] = (struct hr_fact){.hash = hash, .at = facts->arena_used};
    return &facts->all[i];
}

/* Puts a fact over the older one of its name, if there is one. HR_E_INVALID: what is there is newer, or the same. */
static enum hr_err put(struct hr_facts *facts, struct hr_span name, struct hr_span value,
                       struct hr_fact_version version, bool is_foreign)
{
    uint64_t hash = hash_of(name);
    const struct hr_fact *old = find(facts, hash);
    if (old != NULL && (!is_newer(version, old->version) || !hr_span_equal(name_of(facts, old), name))) {
        return HR_E_INVALID;
    }
    size_t bytes = name.bytes + value.bytes;
    if ((old == NULL && facts->count == facts->count_max) || !make_room(facts, bytes)) {
        return HR_E_FULL;
    }
    struct hr_fact *fact = find(facts, hash);
    fact = fact != NULL ? fact : insert(facts, hash);
    memcpy(facts->arena + facts->arena_used, name.at, name.bytes);
    if (value.bytes > 0) {
        memcpy(facts->arena + facts->arena_used + name.bytes, value.at, value.bytes);
    }
    facts->arena_live += bytes - fact->name_bytes - fact->value_bytes;
    facts->changed_count += is_foreign && !fact->is_changed;
    *fact = (struct hr_fact){.hash = hash,
                             .version = version,
                             .value_bytes = (uint32_t)value.bytes,
                             .name_bytes = (uint8_t)name.bytes,
                             .is_changed = is_foreign || fact->is_changed,
                             .at = facts->arena_used};
    facts->arena_used += bytes;
    facts->latest = version.time > facts->latest ? version.time : facts->latest;
    return HR_OK;
}

static bool is_in_bounds(struct hr_span name, struct hr_span value)
{
    return name.bytes >= 1 && name.bytes <= HR_FACT_NAME_BYTES_MAX && value.bytes <= HR_FACT_VALUE_BYTES_MAX;
}

/* --- letters --- */

static void send(struct hr_outbox *outbox, uint64_t to, const struct hr_le_writer *writer)
{
    const struct hr_letter letter = {
        .to = to, .lane = HR_LANE_GOSSIP, .kind = HR_LETTER_CATALOG, .body = {(const char *)writer->at, writer->used}};
    (void)hr_outbox_put(outbox, &letter); /* what is dropped, the next comparison finds */
}

static struct hr_le_writer begin(struct hr_facts *facts, enum letter_type type)
{
    struct hr_le_writer writer = hr_le_writer_of(facts->letter, LETTER_BYTES);
    hr_le_write_uint(&writer, type, 1);
    return writer;
}

static void send_fact(struct hr_facts *facts, const struct hr_fact *fact, uint64_t to, struct hr_outbox *outbox)
{
    struct hr_le_writer writer = begin(facts, FACT);
    hr_le_write_uint(&writer, fact->version.time, 8);
    hr_le_write_uint(&writer, fact->version.writer, 8);
    hr_le_write_uint(&writer, fact->name_bytes, 1);
    hr_le_write_uint(&writer, fact->value_bytes, 4);
    hr_le_write_bytes(&writer, name_of(facts, fact).at, fact->name_bytes);
    hr_le_write_bytes(&writer, value_of(facts, fact).at, fact->value_bytes);
    send(outbox, to, &writer);
}

static uint64_t sum_of(const struct hr_facts *facts)
{
    uint64_t sum = facts->count;
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct hr_fact *fact = &facts->all[i];
        const uint64_t words[3] = {fact->hash, fact->version.time, fact->version.writer};
        sum += hr_plain_hash(words, sizeof(words), 1);
    }
    return sum;
}

/* All versions, in as many letters as they take; together their ranges cover every hash. */
static void send_ranges(struct hr_facts *facts, uint64_t to, struct hr_outbox *outbox)
{
    uint64_t first = 0;
    for (uint32_t from = 0;;) {
        uint32_t left = facts->count - from;
        uint32_t count = left < RANGE_ENTRIES_MAX ? left : RANGE_ENTRIES_MAX;
        bool is_last = count == left;
        uint64_t last = is_last ? UINT64_MAX : facts->all[from + count - 1].hash;
        struct hr_le_writer writer = begin(facts, RANGE);
        hr_le_write_uint(&writer, first, 8);
        hr_le_write_uint(&writer, last, 8);
        for (uint32_t i = from; i < from + count; i++) {
            hr_le_write_uint(&writer, facts->all[i].hash, 8);
            hr_le_write_uint(&writer, facts->all[i].version.time, 8);
            hr_le_write_uint(&writer, facts->all[i].version.writer, 8);
        }
        send(outbox, to, &writer);
        if (is_last) {
            return;
        }
        from += count;
        first = last + 1;
    }
}

static void take_sum(struct hr_facts *facts, uint64_t from, struct hr_le_reader *reader, struct hr_outbox *outbox)
{
    uint64_t sum = hr_le_read_uint(reader, 8);
    if (hr_le_is_at_end(reader) && sum != sum_of(facts)) {
        send_ranges(facts, from, outbox);
    }
}

/* Sends what the other lacks of the range, and asks for what is newer there. Both sides are sorted. */
static void take_range(struct hr_facts *facts, uint64_t from, struct hr_le_reader *reader, struct hr_outbox *outbox)
{
    uint64_t first = hr_le_read_uint(reader, 8), last = hr_le_read_uint(reader, 8);
    if (reader->failed || (reader->bytes - reader->used) % RANGE_ENTRY_BYTES != 0) {
        facts->refused++;
        return;
    }
    uint32_t entries = (uint32_t)((reader->bytes - reader->used) / RANGE_ENTRY_BYTES);
    uint64_t wanted[RANGE_ENTRIES_MAX];
    uint32_t wanted_count = 0, at = lower_bound(facts, first);
    for (uint32_t i = 0; i < entries && i < RANGE_ENTRIES_MAX; i++) {
        uint64_t hash = hr_le_read_uint(reader, 8);
        struct hr_fact_version version = {.time = hr_le_read_uint(reader, 8)};
        version.writer = hr_le_read_uint(reader, 8);
        for (; at < facts->count && facts->all[at].hash < hash; at++) {
            send_fact(facts, &facts->all[at], from, outbox);
        }
        bool is_here = at < facts->count && facts->all[at].hash == hash;
        if (is_here && is_newer(facts->all[at].version, version)) {
            send_fact(facts, &facts->all[at], from, outbox);
        }
        if (!is_here || is_newer(version, facts->all[at].version)) {
            wanted[wanted_count++] = hash;
        }
        at += is_here;
    }
    for (; at < facts->count && facts->all[at].hash <= last; at++) {
        send_fact(facts, &facts->all[at], from, outbox);
    }
    struct hr_le_writer writer = begin(facts, WANT);
    for (uint32_t i = 0; i < wanted_count; i++) {
        hr_le_write_uint(&writer, wanted[i], 8);
    }
    if (wanted_count > 0) {
        send(outbox, from, &writer);
    }
}

static void take_want(struct hr_facts *facts, uint64_t from, struct hr_le_reader *reader, struct hr_outbox *outbox)
{
    for (uint32_t i = 0; i < RANGE_ENTRIES_MAX && !hr_le_is_at_end(reader); i++) {
        const struct hr_fact *fact = find(facts, hr_le_read_uint(reader, 8));
        if (reader->failed) {
            facts->refused++;
            return;
        }
        if (fact != NULL) {
            send_fact(facts, fact, from, outbox);
        }
    }
}

static void take_fact(struct hr_facts *facts, struct hr_le_reader *reader)
{
    struct hr_fact_version version = {.time = hr_le_read_uint(reader, 8)};
    version.writer = hr_le_read_uint(reader, 8);
    size_t name_bytes = hr_le_read_uint(reader, 1), value_bytes = hr_le_read_uint(reader, 4);
    struct hr_span name = hr_le_read_bytes(reader, name_bytes), value = hr_le_read_bytes(reader, value_bytes);
    if (!hr_le_is_at_end(reader) || !is_in_bounds(name, value) || put(facts, name, value, version, true) == HR_E_FULL) {
        facts->refused++;
    }
}

void hr_facts_receive(struct hr_facts *facts, uint64_t from, struct hr_span body, struct hr_outbox *outbox)
{
    struct hr_le_reader reader = hr_le_reader_of(body);
    switch (hr_le_read_uint(&reader, 1)) {
    case SUM:
        take_sum(facts, from, &reader, outbox);
        return;
    case RANGE:
        take_range(facts, from, &reader, outbox);
        return;
    case WANT:
        take_want(facts, from, &reader, outbox);
        return;
    case FACT:
        take_fact(facts, &reader);
        return;
    default:
        facts->refused++;
    }
}

/* --- writes, and time --- */

struct hr_fact_version hr_facts_next_version(const struct hr_facts *facts, struct hr_now now)
{
    uint64_t time = (uint64_t)(hr_clamp_time(now.wall.ns) / HR_NS_PER_MS) << TIME_SHIFT;
    return (struct hr_fact_version){time > facts->latest ? time : facts->latest + 1, facts->self};
}

enum hr_err hr_facts_write(struct hr_facts *facts, struct hr_span name, struct hr_span value,
                           struct hr_fact_version version, const struct hr_members *members, struct hr_outbox *outbox)
{
    if (!is_in_bounds(name, value)) {
        return HR_E_RANGE;
    }
    enum hr_err err = put(facts, name, value, version, false);
    if (err != HR_OK) {
        return err;
    }
    const struct hr_fact *fact = find(facts, hash_of(name));
    for (uint32_t i = 0; members != NULL && i < members->count; i++) {
        if (i != members->self && hr_member_is_live(&members->all[i])) {
            send_fact(facts, fact, members->all[i].id, outbox);
        }
    }
    return HR_OK;
}

enum hr_err hr_facts_restore(struct hr_facts *facts, struct hr_span name, struct hr_span value,
                             struct hr_fact_version version)
{
    return is_in_bounds(name, value) ? put(facts, name, value, version, false) : HR_E_RANGE;
}

/* A live member but this one, drawn at random; HR_MEMBER_NONE: there is none. */
static uint32_t draw_member(struct hr_facts *facts, const struct hr_members *members)
{
    uint32_t chosen = HR_MEMBER_NONE, seen = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        if (i != members->self && hr_member_is_live(&members->all[i]) && hr_rng_below(&facts->rng, ++seen) == 0) {
            chosen = i;
        }
    }
    return chosen;
}

void hr_facts_tick(struct hr_facts *facts, const struct hr_members *members, struct hr_outbox *outbox, hr_ns now)
{
    if (now < facts->compare_at) {
        return;
    }
    facts->compare_at = now + HR_FACTS_COMPARE_NS;
    uint32_t member = draw_member(facts, members);
    if (member != HR_MEMBER_NONE) {
        struct hr_le_writer writer = begin(facts, SUM);
        hr_le_write_uint(&writer, sum_of(facts), 8);
        send(outbox, members->all[member].id, &writer);
    }
}

bool hr_facts_next_change(struct hr_facts *facts, struct hr_span *ret_name, struct hr_span *ret_value,
                          struct hr_fact_version *ret_version)
{
    for (uint32_t i = 0; facts->changed_count > 0 && i < facts->count; i++) {
        struct hr_fact *fact = &facts->all[i];
        if (fact->is_changed) {
            fact->is_changed = false;
            facts->changed_count--;
            *ret_name = name_of(facts, fact);
            *ret_value = value_of(facts, fact);
            *ret_version = fact->version;
            return true;
        }
    }
    return false;
}
