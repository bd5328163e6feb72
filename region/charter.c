#include "region/charter.h"

#include <string.h>

#include "base/defect.h"
#include "storage/le.h"

uint8_t hr_charter_find(const struct hr_charter *charter, uint64_t member)
{
    for (uint32_t i = 0; i < charter->count; i++) {
        if (charter->members[i] == member) {
            return (uint8_t)i;
        }
    }
    return HR_NODE_NONE;
}

static uint8_t least_of(const struct hr_charter *charter, hr_node_set nodes)
{
    uint8_t least = HR_NODE_NONE;
    for (uint8_t i = 0; i < charter->count; i++) {
        bool is_less = least == HR_NODE_NONE || charter->members[i] < charter->members[least];
        least = (nodes >> i & 1) && is_less ? i : least;
    }
    return least;
}

bool hr_charter_is_majority(const struct hr_charter *charter, hr_node_set nodes, hr_node_set gone)
{
    hr_node_set counted = hr_charter_all(charter) & ~gone;
    int all = __builtin_popcountll(counted), in_favour = __builtin_popcountll(nodes & counted);
    if (2 * in_favour != all) {
        return 2 * in_favour > all;
    }
    return all > 0 && (nodes & hr_node_bit(least_of(charter, counted))) != 0;
}

bool hr_charter_outranks(uint64_t lineage, uint64_t version, uint64_t other_lineage, uint64_t other_version)
{
    if (lineage == 0 || other_lineage == 0) {
        return lineage != 0 && other_lineage == 0;
    }
    if (hr_defect(CHARTER_OLDER)) {
        return version != other_version;
    }
    return version != other_version ? version > other_version : lineage < other_lineage;
}

void hr_charter_found(struct hr_charter *charter, uint64_t lineage, uint64_t member)
{
    charter->lineage = lineage;
    charter->version = 1;
    charter->evicted = 0;
    charter->has_other_members = true;
    charter->count = 1;
    charter->members[0] = member;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        charter->seats[p] = (struct hr_seat){.epoch = 1, .owner = 0, .giver = HR_NODE_NONE, .standby = HR_NODE_NONE};
    }
}

void hr_charter_copy(struct hr_charter *to, const struct hr_charter *from)
{
    memcpy(to, from, sizeof(*to));
}

size_t hr_charter_encode(const struct hr_charter *charter, uint8_t out[HR_CHARTER_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_CHARTER_BYTES_MAX);
    hr_le_write_u64(&writer, charter->lineage);
    hr_le_write_u64(&writer, charter->version);
    hr_le_write_u64(&writer, charter->evicted);
    hr_le_write_u8(&writer, charter->has_other_members);
    hr_le_write_u8(&writer, charter->count);
    for (uint32_t i = 0; i < charter->count; i++) {
        hr_le_write_u64(&writer, charter->members[i]);
    }
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        const struct hr_seat *seat = &charter->seats[p];
        const uint8_t names[4] = {seat->owner, seat->giver, seat->standby, seat->mode};
        hr_le_write_u32(&writer, seat->epoch);
        hr_le_write_bytes(&writer, names, sizeof(names));
    }
    return writer.used;
}

static bool is_name(const struct hr_charter *charter, uint8_t node)
{
    return node < charter->count || node == HR_NODE_NONE;
}

static bool is_sound(const struct hr_charter *charter, const struct hr_seat *seat)
{
    bool has_owner = seat->owner < charter->count;
    bool is_apart = seat->owner != seat->giver && seat->owner != seat->standby;
    bool has_mode = seat->giver == HR_NODE_NONE ? seat->mode == 0 : seat->mode < HR_GIVER_MODE_COUNT;
    return has_owner && is_apart && has_mode && is_name(charter, seat->giver) && is_name(charter, seat->standby);
}

static bool read_members(struct hr_le_reader *reader, struct hr_charter *charter)
{
    uint8_t count = hr_le_read_u8(reader);
    charter->count = 0;
    if (count < 1 || count > HR_REGION_NODES_MAX) {
        return false;
    }
    for (uint8_t i = 0; i < count; i++) {
        uint64_t member = hr_le_read_u64(reader);
        if (member == 0 || hr_charter_find(charter, member) != HR_NODE_NONE) {
            return false;
        }
        charter->members[charter->count++] = member;
    }
    return true;
}

static bool read_seats(struct hr_le_reader *reader, struct hr_charter *charter)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_seat *seat = &charter->seats[p];
        seat->epoch = hr_le_read_u32(reader);
        seat->owner = hr_le_read_u8(reader);
        seat->giver = hr_le_read_u8(reader);
        seat->standby = hr_le_read_u8(reader);
        seat->mode = hr_le_read_u8(reader);
        if (!is_sound(charter, seat)) {
            return false;
        }
    }
    return true;
}

enum hr_err hr_charter_decode(struct hr_span bytes, struct hr_charter *ret_charter)
{
    struct hr_le_reader reader = hr_le_reader_of(bytes);
    ret_charter->lineage = hr_le_read_u64(&reader);
    ret_charter->version = hr_le_read_u64(&reader);
    ret_charter->evicted = hr_le_read_u64(&reader);
    uint8_t has_other_members = hr_le_read_u8(&reader);
    ret_charter->has_other_members = has_other_members != 0;
    if (ret_charter->lineage == 0 || ret_charter->version == 0 || has_other_members > 1 ||
        !read_members(&reader, ret_charter) || !read_seats(&reader, ret_charter) || !hr_le_is_at_end(&reader)) {
        return HR_E_CORRUPT;
    }
    return HR_OK;
}
