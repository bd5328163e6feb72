#include "region/handover.h"

#include <assert.h>
#include <string.h>

#include "base/defect.h"
#include "limiter/save.h"
#include "region/tenure_state.h"
#include "storage/images.h"
#include "storage/le.h"

/* A message of images holds about so much; a partition is begun only when no more than this is on its way, so that the
 * switch at its end comes soon. */
#define CHUNK_BYTES (16U << 10)
#define QUEUE_BYTES_MAX (64U << 10)

/* Partitions dropped in one go. */
#define DROPS_MAX 64

#define LEASE_PUT_BYTES (1 + 16 + HR_LEASE_BYTES)
#define LEASE_ID_BYTES (1 + 16)

static_assert(HR_HAND_HEAD_BYTES + 4 + HR_SEGMENT_BYTES_MAX + HR_HAND_LEASE_BYTES_MAX <= HR_STREAM_MESSAGE_BYTES_MAX,
              "a message of images");
static_assert(HR_HAND_HEAD_BYTES + HR_TENURE_REPLY_BYTES_MAX <= HR_STREAM_MESSAGE_BYTES_MAX, "a message of a reply");

struct head {
    uint8_t kind, flags;
    uint64_t lineage, version;
    uint32_t partition, epoch;
};

/* --- messages --- */

static void write_head(struct hr_le_writer *writer, const struct hr_tenure *tenure, enum hr_hand_kind kind,
                       const struct hr_departure *out)
{
    uint32_t flags = (out->is_give ? HR_HAND_GIVES : 0) | (out->is_empty ? HR_HAND_EMPTY : 0);
    hr_le_write_u8(writer, (uint8_t)kind);
    hr_le_write_u64(writer, tenure->current.lineage);
    hr_le_write_u64(writer, tenure->current.version);
    hr_le_write_u16(writer, (uint16_t)out->partition);
    hr_le_write_u32(writer, out->epoch);
    hr_le_write_u8(writer, (uint8_t)flags);
}

static bool read_head(struct hr_le_reader *reader, struct head *head)
{
    head->kind = hr_le_read_u8(reader);
    head->lineage = hr_le_read_u64(reader);
    head->version = hr_le_read_u64(reader);
    head->partition = hr_le_read_u16(reader);
    head->epoch = hr_le_read_u32(reader);
    head->flags = hr_le_read_u8(reader);
    return !reader->failed && head->kind >= HR_HAND_BEGIN && head->kind <= HR_HAND_CAP &&
           head->partition < HR_PARTITIONS && head->lineage != 0;
}

static uint64_t put(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_le_writer *writer)
{
    return hr_stream_put(&peer->stream, (struct hr_span){(char *)tenure->letter, writer->used},
                         (struct hr_span){"", 0});
}

static struct hr_le_writer begin_message(struct hr_tenure *tenure)
{
    return hr_le_writer_of(tenure->letter, HR_STREAM_MESSAGE_BYTES_MAX);
}

static void put_bare(struct hr_tenure *tenure, struct hr_peer *peer, enum hr_hand_kind kind)
{
    struct hr_le_writer writer = begin_message(tenure);
    write_head(&writer, tenure, kind, &peer->out);
    (void)put(tenure, peer, &writer);
}

static void clear_images(struct hr_handover_scratch *hand)
{
    hr_segment_clear(&hand->segment, hand->memory);
    hand->lease_bytes = 0;
}

/* Puts what was gathered, if anything was; the number of its message, or 0. */
static uint64_t put_images(struct hr_tenure *tenure, struct hr_peer *peer, enum hr_hand_kind kind,
                           const struct hr_departure *out)
{
    struct hr_handover_scratch *hand = &tenure->hand;
    if (hand->segment.used + hand->lease_bytes == 0) {
        return 0;
    }
    struct hr_le_writer writer = begin_message(tenure);
    write_head(&writer, tenure, kind, out);
    hr_le_write_u32(&writer, (uint32_t)hand->segment.used);
    hr_le_write_bytes(&writer, hand->memory, hand->segment.used);
    hr_le_write_bytes(&writer, hand->leases, hand->lease_bytes);
    clear_images(hand);
    return put(tenure, peer, &writer);
}

static bool has_lease_room(const struct hr_handover_scratch *hand)
{
    return hand->lease_bytes + LEASE_PUT_BYTES + LEASE_ID_BYTES <= HR_HAND_LEASE_BYTES_MAX;
}

static void gather_lease_id(struct hr_handover_scratch *hand, enum hr_hand_lease kind, struct hr_id128 id)
{
    struct hr_le_writer writer =
        hr_le_writer_of(hand->leases + hand->lease_bytes, HR_HAND_LEASE_BYTES_MAX - hand->lease_bytes);
    hr_le_write_u8(&writer, (uint8_t)kind);
    hr_le_write_id(&writer, id);
    hand->lease_bytes += writer.used;
}

static void gather_lease(struct hr_handover_scratch *hand, const struct hr_lease_image *lease)
{
    gather_lease_id(hand, HR_HAND_LEASE_PUT, lease->id);
    hand->lease_bytes += hr_lease_encode(lease, hand->leases + hand->lease_bytes);
}

/* --- a whole partition, out --- */

static const struct hr_seat *seat_of(const struct hr_tenure *tenure, uint32_t partition)
{
    return &tenure->current.seats[partition];
}

static bool holds(const struct hr_tenure *tenure, uint32_t partition)
{
    return (tenure->parts[partition] & HR_PART_HOLDS) != 0;
}

static bool is_to_be_given(const struct hr_tenure *tenure, const struct hr_peer *peer, uint32_t p)
{
    const struct hr_seat *seat = seat_of(tenure, p);
    return seat->giver == tenure->self && seat->owner == peer->node && !(tenure->parts[p] & HR_PART_GIVEN);
}

static bool is_to_be_copied(const struct hr_tenure *tenure, const struct hr_peer *peer, uint32_t p)
{
    return holds(tenure, p) && seat_of(tenure, p)->standby == peer->node && !(tenure->parts[p] & HR_PART_COPIED);
}

static void depart(struct hr_tenure *tenure, struct hr_peer *peer, uint32_t p, bool is_give)
{
    const struct hr_seat *seat = seat_of(tenure, p);
    peer->out = (struct hr_departure){
        .is_active = true,
        .is_give = is_give,
        .is_empty = is_give && !holds(tenure, p) && seat->mode == HR_GIVER_ASKED,
        .partition = p,
        .epoch = seat->epoch,
        .scan = p,
    };
    hr_range_cursor_init(&peer->out.cursor, hr_partition_range(p));
    tenure->parts[p] |= is_give && holds(tenure, p) ? HR_PART_FROZEN : 0;
    tenure->parts[p] |= is_give ? 0 : HR_PART_COPIED;
}

/* The next partition that is to go to a peer, from where the last one was. */
static bool find(struct hr_tenure *tenure, struct hr_peer *peer, bool is_give)
{
    for (uint32_t i = 0; i < HR_PARTITIONS; i++) {
        uint32_t p = (peer->out.scan + i) % HR_PARTITIONS;
        if (is_give ? is_to_be_given(tenure, peer, p) : is_to_be_copied(tenure, peer, p)) {
            depart(tenure, peer, p, is_give);
            return true;
        }
    }
    return false;
}

/* A newcomer has no lease until others have granted it one by the new charter: what it was given before that, nobody
 * could answer for. */
static bool can_answer(const struct hr_tenure *tenure, const struct hr_peer *peer)
{
    return peer->has_lease && peer->lineage == tenure->current.lineage && peer->version == tenure->current.version;
}

/* Those to be given go before those to be copied. What is given must be known to the own store, lest a restart took it
 * for its own again. */
static bool find_departure(struct hr_tenure *tenure, struct hr_peer *peer)
{
    bool may_give = tenure->saved_seq >= tenure->charter_seq && can_answer(tenure, peer);
    bool has_given = peer->out.has_given;
    if (may_give && !has_given && find(tenure, peer, true)) {
        return true;
    }
    has_given |= may_give;
    if (!find(tenure, peer, false)) {
        peer->out.is_idle = has_given;
        peer->out.has_given = has_given;
        return false;
    }
    peer->out.has_given = has_given;
    return true;
}

/* Something may be to do again. */
static void wake(struct hr_peer *peer)
{
    peer->out.has_given = peer->out.is_idle = false;
}

static bool is_valid(const struct hr_tenure *tenure, const struct hr_peer *peer)
{
    const struct hr_departure *out = &peer->out;
    const struct hr_seat *seat = seat_of(tenure, out->partition);
    if (seat->epoch != out->epoch) {
        return false;
    }
    return out->is_give ? is_to_be_given(tenure, peer, out->partition)
                        : holds(tenure, out->partition) && seat->standby == peer->node;
}

static void stop(struct hr_tenure *tenure, struct hr_peer *peer)
{
    struct hr_departure *out = &peer->out;
    if (out->is_active) { /* what it was is to go again, if it is to go at all */
        tenure->parts[out->partition] &= (uint8_t) ~(out->is_give ? HR_PART_FROZEN : HR_PART_COPIED);
    }
    out->is_active = false;
    wake(peer);
}

static bool is_busy(const struct hr_tenure *tenure, uint32_t partition)
{
    const struct hr_tenure_replies *replies = &tenure->config.replies;
    return replies->is_busy != NULL && holds(tenure, partition) && replies->is_busy(replies->user, partition);
}

/* As many images as go into one message. */
static void send_images(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_now now)
{
    struct hr_handover_scratch *hand = &tenure->hand;
    struct hr_departure *out = &peer->out;
    enum hr_range_purpose purpose = out->is_give ? HR_RANGE_EXACT : HR_RANGE_UPPER_BOUND;
    clear_images(hand);
    while (hand->segment.used < CHUNK_BYTES && has_lease_room(hand)) {
        enum hr_range_kind kind =
            hr_limiter_range_next(tenure->config.limiter, &out->cursor, purpose, now, &hand->counter, &hand->lease);
        if (kind == HR_RANGE_END) {
            out->has_images = true;
            break;
        }
        if (kind == HR_RANGE_COUNTER) {
            if (!hr_defect(HANDOVER_LOSES)) {
                hr_segment_put(&hand->segment, &hand->counter);
            }
            continue;
        }
        if (!hr_id128_equal(hand->lease.counter, out->lease_counter)) {
            out->lease_counter = hand->lease.counter;
            gather_lease_id(hand, HR_HAND_LEASE_NONE, hand->lease.counter); /* but those that follow */
        }
        gather_lease(hand, &hand->lease);
    }
    (void)put_images(tenure, peer, HR_HAND_IMAGES, out);
}

static bool send_reply(struct hr_tenure *tenure, struct hr_peer *peer)
{
    const struct hr_tenure_replies *replies = &tenure->config.replies;
    struct hr_departure *out = &peer->out;
    struct hr_span reply;
    if (replies->next == NULL || !replies->next(replies->user, out->partition, &out->reply_cursor, &reply)) {
        return false;
    }
    struct hr_le_writer writer = begin_message(tenure);
    write_head(&writer, tenure, HR_HAND_REPLY, out);
    hr_le_write_bytes(&writer, reply.at, reply.bytes);
    (void)put(tenure, peer, &writer);
    return true;
}

/* With the END of a give the partition is the other's: this node has ceased before the message can leave. */
static void end_departure(struct hr_tenure *tenure, struct hr_peer *peer)
{
    struct hr_departure *out = &peer->out;
    if (out->is_give) {
        tenure->counts.held -= holds(tenure, out->partition);
        tenure->counts.given += holds(tenure, out->partition);
        tenure->parts[out->partition] &= (uint8_t) ~(HR_PART_HOLDS | HR_PART_FROZEN | HR_PART_COPIED);
        tenure->parts[out->partition] |= HR_PART_GIVEN;
        hr_tenure_note_change(tenure, false);
    }
    put_bare(tenure, peer, HR_HAND_END);
    out->is_active = false;
}

/* One message of the partition on its way. False: it has to wait. */
static bool go_on(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_now now)
{
    struct hr_departure *out = &peer->out;
    if (!is_valid(tenure, peer)) {
        stop(tenure, peer);
        return true;
    }
    if (!out->is_begun) {
        if (hr_stream_used(&peer->stream) > QUEUE_BYTES_MAX || (out->is_give && is_busy(tenure, out->partition))) {
            return false;
        }
        out->is_begun = true;
        out->has_images = out->is_empty;
        put_bare(tenure, peer, HR_HAND_BEGIN);
        return true;
    }
    if (!out->has_images) {
        send_images(tenure, peer, now);
        return true;
    }
    if (out->is_empty || !send_reply(tenure, peer)) {
        end_departure(tenure, peer);
    }
    return true;
}

static void pump_whole(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_now now)
{
    while (hr_stream_room(&peer->stream) == HR_STREAM_MESSAGE_BYTES_MAX) {
        bool has_one =
            peer->out.is_active || (!peer->out.is_idle && !peer->is_lost &&
                                    hr_stream_used(&peer->stream) <= QUEUE_BYTES_MAX && find_departure(tenure, peer));
        if (!has_one || !go_on(tenure, peer, now)) {
            return;
        }
    }
}

/* --- what changed, out --- */

static bool goes_to(const struct hr_tenure *tenure, const struct hr_peer *peer, uint32_t p)
{
    return holds(tenure, p) && (tenure->parts[p] & HR_PART_COPIED) && seat_of(tenure, p)->standby == peer->node &&
           !hr_defect(COPY_DROPPED);
}

static void flush_copy(struct hr_tenure *tenure, struct hr_peer *peer)
{
    const struct hr_departure none = {.partition = 0};
    uint64_t number = put_images(tenure, peer, HR_HAND_COPY, &none);
    peer->copy_number = number != 0 ? number : peer->copy_number;
}

static void copy_segment(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_record *record)
{
    struct hr_handover_scratch *hand = &tenure->hand;
    bool is_forgotten;
    flush_copy(tenure, peer); /* of one segment all were saved at one time */
    if (hr_segment_open(record, &hand->reader) != HR_OK) {
        return;
    }
    while (hr_segment_next(&hand->reader, &hand->counter, &is_forgotten) == HR_OK) {
        if (!goes_to(tenure, peer, hr_partition_of(hand->counter.id))) {
            continue;
        }
        if (!hr_segment_has_room(&hand->segment)) {
            flush_copy(tenure, peer);
        }
        if (is_forgotten) {
            hr_segment_forget(&hand->segment, hand->counter.id, hand->reader.saved_at);
        } else {
            hr_segment_put(&hand->segment, &hand->counter);
        }
    }
    flush_copy(tenure, peer);
}

/* Records of caps go by the id of their counter, behind one byte; others of that kind are the node's own affair. */
static void copy_cap(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_record *record)
{
    struct hr_le_reader reader = hr_le_reader_of(record->key);
    (void)hr_le_read_u16(&reader);
    uint8_t high = hr_le_read_u8(&reader), low = hr_le_read_u8(&reader);
    const struct hr_departure out = {.partition = (uint32_t)(high << 4 | low >> 4)};
    if (record->key.bytes < 18 || !goes_to(tenure, peer, out.partition)) {
        return;
    }
    flush_copy(tenure, peer);
    struct hr_le_writer writer = begin_message(tenure);
    write_head(&writer, tenure, HR_HAND_CAP, &out);
    hr_le_write_bytes(&writer, record->payload.at, record->payload.bytes);
    peer->copy_number = put(tenure, peer, &writer);
}

static void copy_op(struct hr_tenure *tenure, struct hr_peer *peer, const struct hr_batch_op *op)
{
    struct hr_handover_scratch *hand = &tenure->hand;
    struct hr_record record = {.key = {"", 0}};
    struct hr_id128 id;
    if (op->is_put && hr_record_decode(op->key, op->value, &record) != HR_OK) {
        return; /* not of this program */
    }
    if (op->is_put && record.kind == HR_RECORD_COUNTER) {
        copy_segment(tenure, peer, &record);
        return;
    }
    if (op->is_put && record.kind == HR_RECORD_CAP) {
        copy_cap(tenure, peer, &record);
        return;
    }
    if (!hr_batch_op_is_of(op, HR_RECORD_LEASE, &id)) {
        return;
    }
    if (!op->is_put) {
        if (goes_to(tenure, peer, hr_partition_of(id))) {
            gather_lease_id(hand, HR_HAND_LEASE_END, id);
        }
    } else if (hr_lease_decode(&record, &hand->lease) == HR_OK &&
               goes_to(tenure, peer, hr_partition_of(hand->lease.counter))) {
        gather_lease(hand, &hand->lease);
    }
    if (!has_lease_room(hand)) {
        flush_copy(tenure, peer);
    }
}

static bool has_all(const struct hr_tenure *tenure, const struct hr_peer *peer)
{
    return peer->id == 0 || peer->node == HR_NODE_NONE || peer->is_lost || peer->stream.peer_life == 0 ||
           peer->copy_offset >= tenure->batch->bytes;
}

/* One operation may come to a segment, in two messages at worst, and leases before and after it. */
static bool has_copy_room(const struct hr_stream *stream)
{
    return hr_stream_room(stream) > 0 &&
           stream->bytes_max - hr_stream_used(stream) >= HR_COPY_MESSAGES * (size_t)HR_STREAM_MESSAGE_BYTES_MAX &&
           stream->next - stream->first <= HR_STREAM_MESSAGES_MAX - HR_COPY_MESSAGES - 1;
}

static void pump_copy(struct hr_tenure *tenure, struct hr_peer *peer)
{
    struct hr_batch_op op;
    clear_images(&tenure->hand);
    while (!has_all(tenure, peer) && has_copy_room(&peer->stream) &&
           hr_batch_next(tenure->batch, &peer->copy_offset, &op)) {
        copy_op(tenure, peer, &op);
    }
    flush_copy(tenure, peer);
}

bool hr_handover_is_copied(const struct hr_tenure *tenure)
{
    for (uint32_t i = 0; i < tenure->peer_count && tenure->batch != NULL; i++) {
        const struct hr_peer *peer = &tenure->peers[i];
        bool is_taken = peer->copy_number == 0 || hr_stream_is_taken(&peer->stream, peer->copy_number);
        bool is_awaited = peer->id != 0 && peer->node != HR_NODE_NONE && !peer->is_lost;
        if (is_awaited && (!has_all(tenure, peer) || !is_taken)) {
            return false;
        }
    }
    return true;
}

void hr_handover_pump(struct hr_tenure *tenure, struct hr_now now)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        if (peer->id == 0 || peer->node == HR_NODE_NONE || tenure->self == HR_NODE_NONE) {
            continue;
        }
        if (tenure->batch != NULL) {
            pump_copy(tenure, peer);
        }
        pump_whole(tenure, peer, now);
    }
    if (hr_handover_is_copied(tenure)) {
        tenure->batch = NULL; /* it is the caller's again */
    }
}

/* --- in --- */

static bool is_wanted(const struct hr_tenure *tenure, const struct hr_peer *peer, uint32_t partition, uint32_t epoch,
                      bool is_give)
{
    const struct hr_seat *seat = seat_of(tenure, partition);
    if (tenure->self == HR_NODE_NONE || peer->node == HR_NODE_NONE || seat->epoch != epoch ||
        holds(tenure, partition)) {
        return false;
    }
    return is_give ? seat->owner == tenure->self && seat->giver == peer->node
                   : seat->standby == tenure->self && (seat->owner == peer->node || seat->giver == peer->node);
}

static bool goes_on(const struct hr_tenure *tenure, const struct hr_peer *peer, const struct head *head)
{
    const struct hr_arrival *in = &peer->in;
    return in->is_active && in->is_wanted && in->partition == head->partition && in->epoch == head->epoch &&
           in->flags == head->flags && is_wanted(tenure, peer, in->partition, in->epoch, in->flags & HR_HAND_GIVES);
}

/* May the peer say what of a partition changed? */
static bool is_copy_from(const struct hr_tenure *tenure, const struct hr_peer *peer, uint32_t partition)
{
    return is_wanted(tenure, peer, partition, seat_of(tenure, partition)->epoch, false);
}

/* Is this id's partition one that the message may speak of? */
static bool may_apply(const struct hr_tenure *tenure, const struct hr_peer *peer, const struct head *head,
                      struct hr_id128 id)
{
    uint32_t partition = hr_partition_of(id);
    return head->kind == HR_HAND_COPY ? is_copy_from(tenure, peer, partition) : partition == head->partition;
}

static void note_applied(struct hr_tenure *tenure, enum hr_err err)
{
    tenure->counts.left_out += err != HR_OK && err != HR_E_NOT_FOUND; /* without a limit it decides nothing */
}

/* What is a copy goes to this node's store, too: after a restart it is to be there, where the holder is out of reach.
 */
static void apply_counter(struct hr_tenure *tenure, const struct head *head, struct hr_now now)
{
    struct hr_limiter *limiter = tenure->config.limiter;
    const struct hr_counter_image *counter = &tenure->hand.counter;
    enum hr_err err = hr_limiter_apply(limiter, counter, 0, now);
    note_applied(tenure, err);
    if (err == HR_OK && head->kind == HR_HAND_COPY) { /* a whole one is saved when it is whole */
        hr_limiter_save_again(limiter, counter->id);
    }
}

static void apply_counters(struct hr_tenure *tenure, const struct hr_peer *peer, const struct head *head,
                           struct hr_span payload, struct hr_now now)
{
    struct hr_handover_scratch *hand = &tenure->hand;
    struct hr_store_key key = hr_segment_key(0);
    const struct hr_record record = {HR_RECORD_COUNTER, hr_store_key_span(&key), payload};
    bool is_forgotten;
    if (payload.bytes == 0) {
        return;
    }
    enum hr_err err = hr_segment_open(&record, &hand->reader);
    while (err == HR_OK && (err = hr_segment_next(&hand->reader, &hand->counter, &is_forgotten)) == HR_OK) {
        if (!may_apply(tenure, peer, head, hand->counter.id)) {
            tenure->counts.refused += head->kind != HR_HAND_COPY;
        } else if (is_forgotten) {
            hr_limiter_apply_forgotten(tenure->config.limiter, hand->counter.id, now);
        } else {
            apply_counter(tenure, head, now);
        }
    }
    tenure->counts.refused += err == HR_E_CORRUPT;
}

static bool apply_lease(struct hr_tenure *tenure, const struct hr_peer *peer, const struct head *head,
                        struct hr_le_reader *reader, struct hr_now now)
{
    struct hr_lease_image *lease = &tenure->hand.lease;
    uint8_t kind = hr_le_read_u8(reader);
    struct hr_id128 id = hr_le_read_id(reader);
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_LEASE, id);
    struct hr_record record = {HR_RECORD_LEASE, hr_store_key_span(&key), {"", 0}};
    bool may = may_apply(tenure, peer, head, id);
    switch (reader->failed ? 0 : kind) {
    case HR_HAND_LEASE_PUT:
        record.payload = hr_le_read_bytes(reader, HR_LEASE_BYTES);
        if (hr_lease_decode(&record, lease) != HR_OK) {
            return false;
        }
        if (may_apply(tenure, peer, head, lease->counter)) {
            note_applied(tenure, hr_limiter_apply_lease(tenure->config.limiter, lease, 0, now));
        }
        return true;
    case HR_HAND_LEASE_END:
        if (may) {
            hr_limiter_apply_lease_end(tenure->config.limiter, id, now);
        }
        return true;
    case HR_HAND_LEASE_NONE:
        if (may) {
            hr_limiter_apply_forgotten(tenure->config.limiter, id, now);
        }
        return true;
    default:
        return false;
    }
}

static void take_images(struct hr_tenure *tenure, struct hr_peer *peer, const struct head *head,
                        struct hr_le_reader *reader, struct hr_now now)
{
    uint32_t bytes = hr_le_read_u32(reader);
    apply_counters(tenure, peer, head, hr_le_read_bytes(reader, bytes), now);
    while (!reader->failed && reader->used < reader->bytes) {
        if (!apply_lease(tenure, peer, head, reader, now)) {
            reader->failed = true;
        }
    }
    tenure->counts.refused += reader->failed;
}

static void begin_arrival(struct hr_tenure *tenure, struct hr_peer *peer, const struct head *head)
{
    bool is_give = (head->flags & HR_HAND_GIVES) != 0;
    peer->in = (struct hr_arrival){
        .is_active = true,
        .is_wanted = is_wanted(tenure, peer, head->partition, head->epoch, is_give),
        .flags = head->flags,
        .partition = head->partition,
        .epoch = head->epoch,
    };
    if (peer->in.is_wanted && !(head->flags & HR_HAND_EMPTY)) {
        hr_limiter_range_begin(tenure->config.limiter, hr_partition_range(head->partition));
    }
}

/* From here on the partition is this node's. Its standby gets a copy of what came. */
static void hold(struct hr_tenure *tenure, uint32_t partition, hr_ns now)
{
    tenure->parts[partition] = HR_PART_HOLDS;
    tenure->counts.held++;
    tenure->counts.taken++;
    hr_limiter_range_take_over(tenure->config.limiter, hr_partition_range(partition), now);
    hr_tenure_note_change(tenure, false);
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        wake(&tenure->peers[i]);
        tenure->peers[i].pulse_at = 0; /* so that the leader learns of it */
    }
}

static void end_arrival(struct hr_tenure *tenure, struct hr_peer *peer, const struct head *head, struct hr_now now)
{
    bool is_done = goes_on(tenure, peer, head);
    peer->in.is_active = false;
    if (!is_done) {
        return;
    }
    if (!(head->flags & HR_HAND_EMPTY)) { /* what cannot go just now says too much at worst */
        (void)hr_limiter_range_end(tenure->config.limiter, hr_partition_range(head->partition), now);
    }
    if (head->flags & HR_HAND_GIVES) {
        hold(tenure, head->partition, now.steady);
    } else {
        hr_limiter_range_own(tenure->config.limiter, hr_partition_range(head->partition));
    }
}

static void take_reply(struct hr_tenure *tenure, const struct head *head, struct hr_le_reader *reader, hr_ns now)
{
    const struct hr_tenure_replies *replies = &tenure->config.replies;
    if (replies->apply != NULL) {
        struct hr_span reply = hr_le_read_bytes(reader, reader->bytes - reader->used);
        replies->apply(replies->user, head->partition, reply, now);
    }
}

bool hr_handover_take(struct hr_tenure *tenure, struct hr_peer *peer, struct hr_span message, struct hr_now now)
{
    const struct hr_charter *current = &tenure->current;
    struct hr_le_reader reader = hr_le_reader_of(message);
    struct head head;
    if (!read_head(&reader, &head)) {
        tenure->counts.refused++;
        return true;
    }
    if (hr_charter_outranks(head.lineage, head.version, current->lineage, current->version)) {
        return false;
    }
    if (head.lineage != current->lineage) {
        return true;
    }
    switch ((enum hr_hand_kind)head.kind) {
    case HR_HAND_BEGIN:
        begin_arrival(tenure, peer, &head);
        break;
    case HR_HAND_IMAGES:
        if (goes_on(tenure, peer, &head)) {
            take_images(tenure, peer, &head, &reader, now);
        }
        break;
    case HR_HAND_REPLY:
        if (goes_on(tenure, peer, &head)) {
            take_reply(tenure, &head, &reader, now.steady);
        }
        break;
    case HR_HAND_END:
        end_arrival(tenure, peer, &head, now);
        break;
    case HR_HAND_CAP:
        if (is_copy_from(tenure, peer, head.partition)) {
            take_reply(tenure, &head, &reader, now.steady);
        }
        break;
    case HR_HAND_COPY:
        take_images(tenure, peer, &head, &reader, now);
        break;
    }
    return true;
}

/* --- ends --- */

void hr_tenure_lose_copies(struct hr_tenure *tenure, struct hr_peer *peer)
{
    for (uint32_t p = 0; p < HR_PARTITIONS && peer->node != HR_NODE_NONE; p++) {
        if (seat_of(tenure, p)->standby == peer->node) {
            tenure->parts[p] &= (uint8_t)~HR_PART_COPIED;
        }
    }
    if (peer->out.is_active && !peer->out.is_give) {
        peer->out.is_active = false;
    }
    wake(peer);
    peer->copy_offset = SIZE_MAX;
    peer->copy_number = 0;
}

void hr_handover_restart(struct hr_tenure *tenure, struct hr_peer *peer)
{
    stop(tenure, peer);
    peer->in.is_active = false;
    for (uint32_t p = 0; p < HR_PARTITIONS && peer->node != HR_NODE_NONE; p++) {
        if (seat_of(tenure, p)->giver == tenure->self && seat_of(tenure, p)->owner == peer->node) {
            tenure->parts[p] &= (uint8_t)~HR_PART_GIVEN;
        }
    }
    hr_tenure_lose_copies(tenure, peer);
}

void hr_handover_review(struct hr_tenure *tenure)
{
    for (uint32_t i = 0; i < tenure->peer_count; i++) {
        struct hr_peer *peer = &tenure->peers[i];
        if (peer->out.is_active && (peer->node == HR_NODE_NONE || !is_valid(tenure, peer))) {
            stop(tenure, peer);
        }
        wake(peer);
    }
}

void hr_handover_drop(struct hr_tenure *tenure, struct hr_now now)
{
    const struct hr_tenure_replies *replies = &tenure->config.replies;
    uint32_t tries = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS && tenure->dropped_count > 0 && tries < DROPS_MAX; p++) {
        if (!(tenure->parts[p] & HR_PART_DROPPED)) {
            continue;
        }
        tries++;
        if (!hr_limiter_range_drop(tenure->config.limiter, hr_partition_range(p), now)) {
            continue;
        }
        if (replies->drop != NULL) {
            replies->drop(replies->user, p);
        }
        tenure->parts[p] &= (uint8_t)~HR_PART_DROPPED;
        tenure->dropped_count--;
    }
}
