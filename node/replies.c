#include "node/replies.h"

#include <stdalign.h>
#include <string.h>

#include "base/defect.h"
#include "storage/le.h"

void hr_replies_init(struct hr_replies *replies, const struct hr_replies_sizes *sizes, struct hr_bump *bump)
{
    *replies = (struct hr_replies){.sizes = *sizes, .oldest = HR_SLOT_NONE, .youngest = HR_SLOT_NONE};
    replies->slots = hr_bump_take(bump, sizes->count_max, sizeof(struct hr_reply_slot), alignof(struct hr_reply_slot));
    hr_id_index_init(&replies->index, sizes->count_max, bump);
    replies->files = hr_bump_take(bump, HR_PARTITIONS, sizeof(struct hr_reply_file), alignof(struct hr_reply_file));
    replies->ring = hr_bump_take(bump, sizes->bytes_max, 1, 1);
    for (uint32_t i = 0; replies->files != NULL && i < HR_PARTITIONS; i++) {
        replies->files[i] = (struct hr_reply_file){HR_SLOT_NONE, HR_SLOT_NONE};
    }
    for (uint32_t i = 0; replies->slots != NULL && i < sizes->count_max; i++) {
        replies->slots[i].next = i + 1 < sizes->count_max ? i + 1 : HR_SLOT_NONE;
    }
}

static void take_from_file(struct hr_replies *replies, uint32_t slot)
{
    struct hr_reply_slot *slots = replies->slots;
    struct hr_reply_slot *taken = &slots[slot];
    if (taken->partition == HR_REPLY_UNFILED) {
        return;
    }
    struct hr_reply_file *file = &replies->files[taken->partition];
    *(taken->before != HR_SLOT_NONE ? &slots[taken->before].after : &file->first) = taken->after;
    *(taken->after != HR_SLOT_NONE ? &slots[taken->after].before : &file->last) = taken->before;
    taken->partition = HR_REPLY_UNFILED;
}

static void free_slot(struct hr_replies *replies, uint32_t slot)
{
    take_from_file(replies, slot);
    hr_id_index_erase(&replies->index, replies->slots[slot].id);
    replies->slots[slot].next = replies->free;
    replies->free = slot;
}

void hr_replies_expire(struct hr_replies *replies, hr_ns now)
{
    while (replies->oldest != HR_SLOT_NONE && replies->slots[replies->oldest].expires_at <= now) {
        uint32_t slot = replies->oldest;
        replies->begin += replies->slots[slot].bytes;
        replies->oldest = replies->slots[slot].next;
        replies->known_count--;
        free_slot(replies, slot);
    }
    if (replies->oldest == HR_SLOT_NONE) {
        replies->youngest = HR_SLOT_NONE;
    }
}

static struct hr_reply reply_at(const struct hr_replies *replies, const struct hr_reply_slot *slot)
{
    uint64_t at = slot->begin % replies->sizes.bytes_max;
    uint64_t to_end = replies->sizes.bytes_max - at;
    size_t first = slot->bytes < to_end ? slot->bytes : (size_t)to_end;
    return (struct hr_reply){{{replies->ring + at, first}, {replies->ring, slot->bytes - first}}};
}

static bool has_room(const struct hr_replies *replies, uint32_t bytes)
{
    uint64_t taken = replies->end - replies->begin + replies->set_aside;
    return replies->free != HR_SLOT_NONE && bytes <= replies->sizes.bytes_max - taken;
}

static void claim(struct hr_replies *replies, struct hr_id128 id, uint32_t bytes_max)
{
    uint32_t slot = replies->free;
    replies->free = replies->slots[slot].next;
    replies->slots[slot] =
        (struct hr_reply_slot){.id = id, .bytes = bytes_max, .state = HR_REPLY_PENDING, .partition = HR_REPLY_UNFILED};
    replies->set_aside += bytes_max;
    replies->pending_count++;
    hr_id_index_insert(&replies->index, id, slot);
}

enum hr_err hr_replies_begin(struct hr_replies *replies, struct hr_id128 id, uint32_t bytes_max, hr_ns now,
                             enum hr_reply_state *ret_state, struct hr_reply *ret_reply)
{
    hr_replies_expire(replies, now);
    uint32_t slot = hr_id_index_find(&replies->index, id);
    if (slot == HR_SLOT_NONE) {
        if (!has_room(replies, bytes_max)) {
            return HR_E_FULL;
        }
        claim(replies, id, bytes_max);
        *ret_state = HR_REPLY_NEW;
        return HR_OK;
    }
    *ret_state = (enum hr_reply_state)replies->slots[slot].state;
    if (*ret_state == HR_REPLY_KNOWN) {
        *ret_reply = reply_at(replies, &replies->slots[slot]);
    }
    return HR_OK;
}

/* Behind the bytes that are there; what was set aside guarantees the room. */
static void copy_in(struct hr_replies *replies, struct hr_span answer)
{
    uint64_t at = replies->end % replies->sizes.bytes_max;
    uint64_t to_end = replies->sizes.bytes_max - at;
    size_t first = answer.bytes < to_end ? answer.bytes : (size_t)to_end;
    if (answer.bytes > 0) {
        memcpy(replies->ring + at, answer.at, first);
        memcpy(replies->ring, answer.at + first, answer.bytes - first);
    }
    replies->end += answer.bytes;
}

static void append_known(struct hr_replies *replies, uint32_t slot)
{
    if (replies->youngest == HR_SLOT_NONE) {
        replies->oldest = slot;
    } else {
        replies->slots[replies->youngest].next = slot;
    }
    replies->youngest = slot;
    replies->known_count++;
}

enum hr_err hr_replies_finish(struct hr_replies *replies, struct hr_id128 id, struct hr_span answer, hr_ns now)
{
    uint32_t slot = hr_id_index_find(&replies->index, id);
    struct hr_reply_slot *pending = &replies->slots[slot];
    if (answer.bytes > pending->bytes) {
        return HR_E_RANGE;
    }
    hr_replies_expire(replies, now);
    replies->set_aside -= pending->bytes;
    replies->pending_count--;
    *pending = (struct hr_reply_slot){
        .id = id,
        .expires_at = now + (hr_defect(ID_FORGETS) ? HR_NS_PER_S : HR_REPLY_KEPT_NS),
        .begin = replies->end,
        .bytes = (uint32_t)answer.bytes,
        .state = HR_REPLY_KNOWN,
        .next = HR_SLOT_NONE,
        .partition = HR_REPLY_UNFILED,
    };
    copy_in(replies, answer);
    append_known(replies, slot);
    return HR_OK;
}

void hr_replies_abandon(struct hr_replies *replies, struct hr_id128 id)
{
    uint32_t slot = hr_id_index_find(&replies->index, id);
    replies->set_aside -= replies->slots[slot].bytes;
    replies->pending_count--;
    free_slot(replies, slot);
}

/* --- moving with their partition --- */

void hr_replies_file(struct hr_replies *replies, struct hr_id128 id, uint32_t partition)
{
    uint32_t slot = hr_id_index_find(&replies->index, id);
    if (slot == HR_SLOT_NONE || partition >= HR_PARTITIONS || replies->slots[slot].state != HR_REPLY_KNOWN) {
        return;
    }
    take_from_file(replies, slot);
    struct hr_reply_slot *filed = &replies->slots[slot];
    struct hr_reply_file *file = &replies->files[partition];
    filed->partition = partition;
    filed->number = ++replies->filed;
    filed->before = file->last;
    filed->after = HR_SLOT_NONE;
    *(file->last != HR_SLOT_NONE ? &replies->slots[file->last].after : &file->first) = slot;
    file->last = slot;
}

/* The cursor is the number of the one that came last. */
size_t hr_replies_next(struct hr_replies *replies, uint32_t partition, hr_ns now, uint64_t *cursor, uint8_t *out)
{
    uint32_t slot = partition < HR_PARTITIONS ? replies->files[partition].first : HR_SLOT_NONE;
    for (; slot != HR_SLOT_NONE; slot = replies->slots[slot].after) {
        const struct hr_reply_slot *filed = &replies->slots[slot];
        if (filed->number <= *cursor || filed->expires_at <= now || filed->bytes > HR_DECISION_BYTES_MAX) {
            continue;
        }
        *cursor = filed->number;
        struct hr_reply reply = reply_at(replies, filed);
        struct hr_le_writer writer = hr_le_writer_of(out, HR_REPLY_MOVED_BYTES_MAX);
        hr_le_write_id(&writer, filed->id);
        hr_le_write_bytes(&writer, reply.parts[0].at, reply.parts[0].bytes);
        hr_le_write_bytes(&writer, reply.parts[1].at, reply.parts[1].bytes);
        return writer.used;
    }
    return 0;
}

bool hr_replies_apply(struct hr_replies *replies, uint32_t partition, struct hr_span bytes, hr_ns now)
{
    enum hr_reply_state state;
    struct hr_reply reply;
    struct hr_le_reader in = hr_le_reader_of(bytes);
    struct hr_id128 id = hr_le_read_id(&in);
    if (in.failed || bytes.bytes > HR_REPLY_MOVED_BYTES_MAX) {
        return false;
    }
    struct hr_span answer = hr_le_read_bytes(&in, in.bytes - in.used);
    if (hr_replies_begin(replies, id, (uint32_t)answer.bytes, now, &state, &reply) != HR_OK) {
        return false;
    }
    if (state == HR_REPLY_NEW && hr_replies_finish(replies, id, answer, now) != HR_OK) {
        hr_replies_abandon(replies, id);
        return false;
    }
    if (state != HR_REPLY_PENDING) {
        hr_replies_file(replies, id, partition);
    }
    return true;
}
