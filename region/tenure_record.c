/* What a node's store keeps of its tenure: two records.
 *
 * "charter", little-endian: version 1, partitions held, where the charter names a giver for them, 512, the charter.
 * "vote": version 1, lineage 8, version 8 of the charter that is voted on, promised 8, accepted 8, the charter that was
 * voted for, where accepted is not 0. */
#include <assert.h>

#include "region/tenure_state.h"
#include "storage/le.h"

#define RECORD_VERSION 1

static const struct hr_store_key charter_key = {.bytes = 8,
                                                .at = {HR_RECORD_TENURE, 'c', 'h', 'a', 'r', 't', 'e', 'r'}};
static const struct hr_store_key vote_key = {.bytes = 5, .at = {HR_RECORD_TENURE, 'v', 'o', 't', 'e'}};

#define RECORD_BYTES_MAX (64 + HR_PARTITION_SET_BYTES + HR_CHARTER_BYTES_MAX)

static void write_held(struct hr_le_writer *writer, const struct hr_tenure *tenure)
{
    for (uint32_t i = 0; i < HR_PARTITION_SET_BYTES; i++) {
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8; k++) {
            const struct hr_seat *seat = &tenure->current.seats[8 * i + k];
            bool counts = seat->owner == tenure->self && (tenure->parts[8 * i + k] & HR_PART_HOLDS);
            byte |= (uint32_t)counts << k;
        }
        hr_le_write_u8(writer, (uint8_t)byte);
    }
}

static void put(struct hr_store_batch *batch, const struct hr_store_key *key, const uint8_t *payload, size_t bytes)
{
    enum hr_err err = hr_batch_put(batch, key, (struct hr_span){(const char *)payload, bytes});
    (void)err; /* there is room */
}

static void put_charter(struct hr_tenure *tenure, struct hr_store_batch *batch)
{
    static_assert(sizeof(tenure->letter) >= RECORD_BYTES_MAX, "a record");
    struct hr_le_writer writer = hr_le_writer_of(tenure->letter, RECORD_BYTES_MAX);
    hr_le_write_u8(&writer, RECORD_VERSION);
    write_held(&writer, tenure);
    size_t bytes = writer.used + hr_charter_encode(&tenure->current, tenure->letter + writer.used);
    put(batch, &charter_key, tenure->letter, bytes);
}

static void put_vote(struct hr_tenure *tenure, struct hr_store_batch *batch)
{
    const struct hr_ballot *ballot = &tenure->ballot;
    struct hr_le_writer writer = hr_le_writer_of(tenure->letter, RECORD_BYTES_MAX);
    hr_le_write_u8(&writer, RECORD_VERSION);
    hr_le_write_u64(&writer, tenure->current.lineage);
    hr_le_write_u64(&writer, tenure->current.version + 1);
    hr_le_write_u64(&writer, ballot->promised);
    hr_le_write_u64(&writer, ballot->accepted);
    size_t bytes = writer.used;
    if (ballot->accepted != 0) {
        bytes += hr_charter_encode(&ballot->vote, tenure->letter + bytes);
    }
    put(batch, &vote_key, tenure->letter, bytes);
}

bool hr_tenure_next_record(struct hr_tenure *tenure, struct hr_store_batch *batch, uint64_t *ret_mark)
{
    bool has_news = tenure->written_seq < tenure->change_seq && tenure->current.lineage != 0;
    if (!has_news || batch->bytes_max - batch->bytes < HR_TENURE_BATCH_BYTES) {
        return false;
    }
    put_charter(tenure, batch);
    put_vote(tenure, batch);
    tenure->written_seq = tenure->change_seq;
    *ret_mark = tenure->change_seq;
    return true;
}

bool hr_tenure_is_unsaved(const struct hr_tenure *tenure)
{
    return tenure->written_seq < tenure->urgent_seq;
}

/* The counters were put back by whoever loads the store. What this node owned outright it holds again; of what was on
 * its way to it, what it had noted as held. */
static void restore_parts(struct hr_tenure *tenure, const uint8_t *held)
{
    tenure->dropped_count = tenure->counts.held = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        const struct hr_seat *seat = &tenure->current.seats[p];
        uint8_t self = tenure->self;
        bool is_owner = self != HR_NODE_NONE && seat->owner == self;
        bool has_part = self != HR_NODE_NONE && (is_owner || seat->giver == self || seat->standby == self);
        bool had = (held[p / 8] >> (p % 8) & 1) != 0;
        bool holds = is_owner && (seat->giver == HR_NODE_NONE || had);
        tenure->parts[p] = holds ? HR_PART_HOLDS : has_part ? 0 : HR_PART_DROPPED;
        tenure->counts.held += holds;
        tenure->dropped_count += !has_part;
    }
}

static enum hr_err restore_charter(struct hr_tenure *tenure, struct hr_span payload, hr_ns now)
{
    struct hr_le_reader reader = hr_le_reader_of(payload);
    uint8_t version = hr_le_read_u8(&reader);
    struct hr_span held = hr_le_read_bytes(&reader, HR_PARTITION_SET_BYTES);
    struct hr_span bytes = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    if (reader.failed || version != RECORD_VERSION || hr_charter_decode(bytes, &tenure->scratch) != HR_OK) {
        return HR_E_CORRUPT;
    }
    hr_charter_copy(&tenure->current, &tenure->scratch);
    tenure->remade_at = tenure->adopted_at = now;
    hr_tenure_seat_peers(tenure);
    restore_parts(tenure, (const uint8_t *)held.at);
    return HR_OK;
}

/* A vote on another charter than the next one is over. */
static enum hr_err restore_vote(struct hr_tenure *tenure, struct hr_span payload, hr_ns now)
{
    struct hr_le_reader reader = hr_le_reader_of(payload);
    uint8_t version = hr_le_read_u8(&reader);
    uint64_t lineage = hr_le_read_u64(&reader), charter_version = hr_le_read_u64(&reader);
    uint64_t promised = hr_le_read_u64(&reader), accepted = hr_le_read_u64(&reader);
    struct hr_span bytes = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    if (reader.failed || version != RECORD_VERSION || (accepted != 0) != (bytes.bytes > 0) || accepted > promised) {
        return HR_E_CORRUPT;
    }
    if (accepted != 0 && hr_charter_decode(bytes, &tenure->scratch) != HR_OK) {
        return HR_E_CORRUPT;
    }
    if (lineage != tenure->current.lineage || charter_version != tenure->current.version + 1) {
        return HR_OK;
    }
    tenure->ballot.promised = promised;
    tenure->ballot.accepted = accepted;
    if (accepted != 0) {
        hr_charter_copy(&tenure->ballot.vote, &tenure->scratch);
        tenure->ballot.accepted_at = now;
        bool is_denied = (hr_ballot_denied(&tenure->ballot) & hr_node_bit(tenure->self)) != 0;
        tenure->self_granted = is_denied ? -1 : tenure->self_granted;
    }
    return HR_OK;
}

static bool is_key(struct hr_span key, const struct hr_store_key *of)
{
    return hr_span_equal(key, hr_store_key_span(of));
}

enum hr_err hr_tenure_restore(struct hr_tenure *tenure, const struct hr_record *record, hr_ns now)
{
    enum hr_err err = HR_E_CORRUPT;
    if (record->kind == HR_RECORD_TENURE && is_key(record->key, &charter_key)) {
        err = restore_charter(tenure, record->payload, now);
    } else if (record->kind == HR_RECORD_TENURE && is_key(record->key, &vote_key)) {
        err = restore_vote(tenure, record->payload, now);
    }
    hr_tenure_renew_lease(tenure);
    return err;
}

void hr_tenure_note_change(struct hr_tenure *tenure, bool is_urgent)
{
    tenure->change_seq++;
    tenure->urgent_seq = is_urgent ? tenure->change_seq : tenure->urgent_seq;
    if (!tenure->config.saves) {
        tenure->written_seq = tenure->saved_seq = tenure->change_seq;
    }
}

void hr_tenure_saved(struct hr_tenure *tenure, uint64_t mark, bool is_stored, hr_ns now)
{
    if (!is_stored) {
        tenure->written_seq = tenure->saved_seq;
        return;
    }
    tenure->saved_seq = mark > tenure->saved_seq ? mark : tenure->saved_seq;
    hr_tenure_pay_owed(tenure, now);
}
