#include <string.h>

#include "gossip/life.h"
#include "limiter/stakes.h"
#include "node/cap_keeper_state.h"
#include "storage/le.h"

/* Keys, behind the kind: marks come before images, which are not believed without. */
#define KEY_MARKS 'a'
#define KEY_IMAGE 'i'
#define KEY_RULES 'r'

#define MARK_HALVES 2U
#define MARKS_PER_RECORD (HR_PARTITIONS / MARK_HALVES)
#define MARK_OWN 1U
#define MARK_VIRGIN 2U

/* What goes with a partition: its mark, its images, and a word that those were all. */
#define TAG_BEGIN 'B'
#define TAG_END 'E'
#define CURSOR_IMAGES (UINT64_C(1) << 32)
#define CURSOR_END (UINT64_C(2) << 32)

/* Images looked at by one sweep. */
#define SWEEP_IMAGES 32U

/* --- keys --- */

static struct hr_store_key key_of_part(char what, uint8_t part)
{
    return (struct hr_store_key){.bytes = 3, .at = {HR_RECORD_CAP, (uint8_t)what, part}};
}

/* The id is big-endian here, so that a partition's images stand together, and its number at a known place. */
static struct hr_store_key key_of_image(const struct hr_caps_write *write)
{
    struct hr_store_key key = {.bytes = 23, .at = {HR_RECORD_CAP, KEY_IMAGE}};
    for (unsigned i = 0; i < 8; i++) {
        key.at[2 + i] = (uint8_t)(write->id.hi >> (56 - 8 * i));
        key.at[10 + i] = (uint8_t)(write->id.lo >> (56 - 8 * i));
    }
    for (unsigned i = 0; i < 4; i++) {
        key.at[18 + i] = (uint8_t)(write->limit >> (24 - 8 * i));
    }
    key.at[22] = (uint8_t)write->window;
    return key;
}

/* --- what is known of a partition's past --- */

/* Lives go up with the clock, as incarnations do, whichever node of the region begins them. */
static uint64_t next_log(const struct hr_cap_keeper *keeper)
{
    uint64_t since = (uint64_t)hr_max(0, keeper->now.steady - keeper->started_at);
    return keeper->config.incarnation + 1 + (since >> 10);
}

static bool is_trusted(const struct hr_cap_mark *mark, uint32_t epoch)
{
    return mark->trust == HR_CAP_TRUST_COPY || (mark->trust == HR_CAP_TRUST_OWN && mark->epoch == epoch);
}

/* Whoever founds a region's first charter has all of it, and knows of nothing before. */
static struct hr_cap_mark fresh_mark(const struct hr_cap_keeper *keeper)
{
    bool is_founded = hr_tenure_counts(keeper->config.tenure, keeper->now.steady).version == 1;
    return (struct hr_cap_mark){
        .log = next_log(keeper),
        .is_virgin = is_founded && keeper->origin != HR_CAP_ORIGIN_OLD,
        .is_founded = is_founded,
        .forgot_at_ns = hr_max(1, keeper->now.wall.ns),
    };
}

static void tell_caps(struct hr_cap_keeper *keeper, uint32_t partition)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    hr_ns now = keeper->now.steady;
    bool is_new = mark->is_founded && keeper->origin == HR_CAP_ORIGIN_NEW;
    hr_caps_own(keeper->caps, partition, now, is_new, mark->log);
    mark->is_founded &= !is_new; /* it is new but once */
    if (!is_new && mark->forgot_at_ns != 0) {
        hr_caps_forfeit(keeper->caps, partition, now - hr_max(0, keeper->now.wall.ns - mark->forgot_at_ns));
    }
    hr_cap_log_restore_partition(keeper, partition);
}

void hr_cap_log_own(struct hr_cap_keeper *keeper, uint32_t partition)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    uint32_t epoch = hr_tenure_epoch(keeper->config.tenure, partition);
    if (!is_trusted(mark, epoch)) {
        hr_cap_images_end(&keeper->images, partition);
        *mark = fresh_mark(keeper);
        if (mark->is_virgin && keeper->origin == HR_CAP_ORIGIN_NEW) {
            mark->is_virgin = false;
            mark->forgot_at_ns = 0;
        }
    } else if (mark->trust == HR_CAP_TRUST_COPY) {
        hr_cap_images_save(&keeper->images, partition);
    }
    mark->trust = HR_CAP_TRUST_OWN;
    mark->epoch = epoch;
    keeper->marks_are_unsaved = true;
    tell_caps(keeper, partition);
}

static void unrestore(struct hr_cap_keeper *keeper, uint32_t partition)
{
    uint32_t cursor = 0;
    struct hr_cap_kept *kept;
    while (keeper->images.used > 0 && (kept = hr_cap_images_next(&keeper->images, partition, &cursor)) != NULL) {
        kept->is_restored = false;
    }
}

void hr_cap_log_disown(struct hr_cap_keeper *keeper, uint32_t partition)
{
    hr_caps_disown(keeper->caps, partition);
    unrestore(keeper, partition);
}

void hr_cap_log_settle_origin(struct hr_cap_keeper *keeper)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        struct hr_cap_mark *mark = &keeper->images.marks[p];
        if (!mark->is_virgin) {
            continue;
        }
        mark->is_virgin = false;
        mark->forgot_at_ns = keeper->origin == HR_CAP_ORIGIN_NEW ? 0 : mark->forgot_at_ns;
        if (keeper->holding[p] == HR_HOLDING) {
            hr_cap_log_disown(keeper, p);
            tell_caps(keeper, p);
        }
    }
    keeper->marks_are_unsaved = true;
}

/* --- images into the caps --- */

bool hr_cap_log_restore_counter(struct hr_cap_keeper *keeper, struct hr_id128 id, uint32_t limit)
{
    enum hr_err err = HR_OK;
    struct hr_cap_kept *kept;
    keeper->is_restoring = true;
    while (err == HR_OK && (kept = hr_cap_images_next_unrestored(&keeper->images, id, limit)) != NULL) {
        err = hr_caps_restore(keeper->caps, &kept->write, keeper->now.steady);
        kept->is_restored = err == HR_OK;
    }
    keeper->is_restoring = false;
    return err == HR_OK;
}

/* What finds no room now, or no limit, is put back as it is asked for. */
void hr_cap_log_restore_partition(struct hr_cap_keeper *keeper, uint32_t partition)
{
    uint32_t cursor = 0;
    struct hr_cap_kept *kept;
    while (keeper->images.used > 0 && (kept = hr_cap_images_next(&keeper->images, partition, &cursor)) != NULL) {
        if (!kept->is_restored) {
            (void)hr_cap_log_restore_counter(keeper, kept->write.id, kept->write.limit);
        }
    }
}

/* --- what goes with a partition --- */

bool hr_cap_keeper_is_message(struct hr_span bytes)
{
    return bytes.bytes > 0 && (bytes.at[0] == TAG_BEGIN || bytes.at[0] == TAG_END || bytes.at[0] == HR_CAP_IMAGE_TAG);
}

/* Instants do not travel: how long ago something was does. */
static size_t write_begin(const struct hr_cap_keeper *keeper, const struct hr_cap_mark *mark, uint8_t *out)
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_CAP_MESSAGE_BYTES_MAX);
    hr_le_write_u8(&writer, TAG_BEGIN);
    hr_le_write_u8(&writer, mark->is_virgin);
    hr_le_write_u64(&writer, mark->log);
    hr_le_write_i64(&writer, mark->forgot_at_ns == 0 ? -1 : hr_max(0, keeper->now.wall.ns - mark->forgot_at_ns));
    return writer.used;
}

/* A partition that is frozen is about to go: nothing may move any more. */
static void cease(struct hr_cap_keeper *keeper, uint32_t partition)
{
    bool is_going = hr_tenure_holding(keeper->config.tenure, partition) == HR_HOLDING_GIVING;
    if (is_going && keeper->holding[partition] == HR_HOLDING) {
        keeper->holding[partition] = HR_HOLDING_GIVING;
        hr_cap_log_disown(keeper, partition);
    }
}

size_t hr_cap_keeper_next_message(struct hr_cap_keeper *keeper, uint32_t partition, uint64_t *cursor,
                                  uint8_t out[HR_CAP_MESSAGE_BYTES_MAX], struct hr_now now)
{
    const struct hr_cap_mark *mark = &keeper->images.marks[partition];
    keeper->now = now;
    if (*cursor == 0) {
        cease(keeper, partition);
        *cursor = mark->trust == HR_CAP_TRUST_NONE ? CURSOR_END : CURSOR_IMAGES;
        return write_begin(keeper, mark, out);
    }
    if (*cursor >= CURSOR_END) {
        return 0;
    }
    uint32_t index = (uint32_t)(*cursor - CURSOR_IMAGES);
    const struct hr_cap_kept *kept = hr_cap_images_next(&keeper->images, partition, &index);
    *cursor = CURSOR_IMAGES + index;
    if (kept != NULL) {
        return hr_cap_image_encode(&kept->write, out);
    }
    *cursor = CURSOR_END;
    out[0] = TAG_END;
    return 1;
}

static void begin_copy(struct hr_cap_keeper *keeper, uint32_t partition, struct hr_span message)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    struct hr_le_reader reader = hr_le_reader_of(message);
    (void)hr_le_read_u8(&reader);
    bool is_virgin = hr_le_read_u8(&reader) != 0;
    uint64_t log = hr_le_read_u64(&reader);
    int64_t ago_ns = hr_le_read_i64(&reader);
    hr_cap_images_end(&keeper->images, partition);
    *mark = (struct hr_cap_mark){.is_coming = hr_le_is_at_end(&reader) && log != 0, .is_virgin = is_virgin, .log = log};
    if (ago_ns >= 0) {
        mark->forgot_at_ns = hr_max(1, keeper->now.wall.ns - hr_clamp_time(ago_ns));
    }
}

/* One image, of a whole copy or of what changed since. Without the one before nothing is known to be whole. */
static void take_image(struct hr_cap_keeper *keeper, uint32_t partition, struct hr_span message)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    struct hr_caps_write write;
    if (hr_cap_image_decode(message, &write) != HR_OK || hr_partition_of(write.id) != partition) {
        mark->is_coming = false;
        mark->trust = HR_CAP_TRUST_NONE;
        return;
    }
    mark->is_coming &= hr_cap_images_put(&keeper->images, &write) != NULL;
}

void hr_cap_keeper_apply(struct hr_cap_keeper *keeper, uint32_t partition, struct hr_span message, struct hr_now now)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    keeper->now = now;
    hr_cap_keeper_sync_partition(keeper, partition);
    if (keeper->holding[partition] != HR_HOLDING_NOT) {
        return; /* it is this node's own: what others say of it is of the past */
    }
    if (message.at[0] == TAG_BEGIN) {
        begin_copy(keeper, partition, message);
    } else if (message.at[0] == HR_CAP_IMAGE_TAG) {
        take_image(keeper, partition, message);
    } else {
        mark->trust = mark->is_coming ? HR_CAP_TRUST_COPY : HR_CAP_TRUST_NONE;
        mark->is_coming = false;
    }
}

/* --- into the store --- */

static bool put(struct hr_store_batch *batch, const struct hr_store_key *key, const uint8_t *bytes, size_t count)
{
    return hr_batch_put(batch, key, (struct hr_span){(const char *)bytes, count}) == HR_OK;
}

static bool put_image(struct hr_store_batch *batch, const struct hr_caps_write *write)
{
    uint8_t bytes[HR_CAP_IMAGE_BYTES_MAX];
    struct hr_store_key key = key_of_image(write);
    return put(batch, &key, bytes, hr_cap_image_encode(write, bytes));
}

/* False: the batch is full. */
static bool put_work(struct hr_cap_keeper *keeper, struct hr_store_batch *batch)
{
    struct hr_cap_images *images = &keeper->images;
    for (uint32_t i = 1; images->has_work && i < images->fresh; i++) {
        struct hr_cap_kept *kept = &images->all[i];
        struct hr_store_key key = key_of_image(&kept->write);
        if (kept->write.limit != 0 && kept->is_over) {
            if (hr_batch_delete(batch, &key) != HR_OK) {
                return false;
            }
            hr_cap_images_free(images, kept);
        } else if (kept->write.limit != 0 && kept->is_unsaved) {
            if (!put_image(batch, &kept->write)) {
                return false;
            }
            kept->is_unsaved = false;
        }
    }
    images->has_work = false;
    return true;
}

static void put_writes(struct hr_cap_keeper *keeper, struct hr_store_batch *batch)
{
    struct hr_caps_write *write = &keeper->writes[0];
    keeper->write_count = 0;
    keeper->may_write = false;
    while (keeper->write_count < HR_CAP_WRITES_MAX && batch->bytes_max - batch->bytes > HR_CAP_IMAGE_BYTES_MAX + 256 &&
           hr_caps_next_write(keeper->caps, write)) {
        struct hr_cap_kept *kept = hr_cap_images_put(&keeper->images, write);
        if (kept != NULL) {
            kept->is_restored = true;
            kept->is_unsaved = false;
        }
        if (!put_image(batch, write)) {
            hr_caps_written(keeper->caps, write, false, keeper->now.steady);
            keeper->may_write = true;
            break;
        }
        write = &keeper->writes[++keeper->write_count];
    }
}

static size_t encode_marks(const struct hr_cap_keeper *keeper, uint32_t half, uint8_t *out)
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_RECORD_PAYLOAD_BYTES_MAX);
    hr_le_write_u8(&writer, (uint8_t)keeper->origin);
    hr_le_write_u32(&writer, keeper->stopped);
    for (uint32_t p = half * MARKS_PER_RECORD; p < (half + 1) * MARKS_PER_RECORD; p++) {
        const struct hr_cap_mark *mark = &keeper->images.marks[p];
        bool is_own = mark->trust == HR_CAP_TRUST_OWN;
        hr_le_write_u8(&writer, (uint8_t)((is_own ? MARK_OWN : 0) | (mark->is_virgin ? MARK_VIRGIN : 0)));
        hr_le_write_u32(&writer, mark->epoch);
        hr_le_write_u64(&writer, mark->log);
        hr_le_write_i64(&writer, mark->forgot_at_ns);
    }
    return writer.used;
}

static void put_marks(struct hr_cap_keeper *keeper, struct hr_store_batch *batch)
{
    bool is_put = true;
    for (uint32_t half = 0; half < MARK_HALVES && is_put; half++) {
        struct hr_store_key key = key_of_part(KEY_MARKS, (uint8_t)half);
        is_put = put(batch, &key, keeper->bytes, encode_marks(keeper, half, keeper->bytes));
    }
    keeper->marks_are_unsaved = !is_put;
    keeper->marks_are_writing = is_put;
}

static bool put_epoch(struct hr_cap_keeper *keeper, uint8_t slot, const struct hr_cap_epoch *epoch,
                      struct hr_store_batch *batch)
{
    struct hr_store_key key = key_of_part(KEY_RULES, slot);
    struct hr_le_writer writer = hr_le_writer_of(keeper->bytes, 4);
    hr_le_write_u32(&writer, epoch->number);
    size_t bytes = 4 + hr_cap_rules_encode(&epoch->rules, keeper->bytes + 4);
    return put(batch, &key, keeper->bytes, bytes);
}

bool hr_cap_keeper_next_batch(struct hr_cap_keeper *keeper, struct hr_store_batch *batch, struct hr_now now)
{
    keeper->now = now;
    if (keeper->next_is_unsaved && put_epoch(keeper, 1, &keeper->next, batch)) {
        keeper->next_is_unsaved = false;
        keeper->next_is_writing = true;
    }
    if (keeper->adopted_is_unsaved && put_epoch(keeper, 0, &keeper->adopted, batch)) {
        keeper->adopted_is_unsaved = false;
        keeper->adopted_is_writing = true;
    }
    bool has_all = put_work(keeper, batch);
    if (has_all && keeper->marks_are_unsaved) { /* a mark says that the images before it are there */
        put_marks(keeper, batch);
    }
    if (keeper->may_write) {
        put_writes(keeper, batch);
    }
    return batch->count > 0;
}

/* What did not come to the store goes again, all of it: the store that fails is rare. */
static void save_again(struct hr_cap_keeper *keeper)
{
    keeper->next_is_unsaved |= keeper->next_is_writing;
    keeper->adopted_is_unsaved |= keeper->adopted_is_writing;
    keeper->marks_are_unsaved |= keeper->marks_are_writing;
    keeper->next_is_writing = keeper->adopted_is_writing = keeper->marks_are_writing = false;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        if (keeper->holding[p] == HR_HOLDING) {
            hr_cap_images_save(&keeper->images, p);
        }
    }
}

void hr_cap_keeper_persisted(struct hr_cap_keeper *keeper, bool is_durable, struct hr_now now)
{
    keeper->now = now;
    for (uint32_t i = 0; i < keeper->write_count; i++) {
        hr_caps_written(keeper->caps, &keeper->writes[i], is_durable, now.steady);
    }
    keeper->may_write |= keeper->write_count > 0;
    keeper->write_count = 0;
    if (!is_durable) {
        save_again(keeper);
        return;
    }
    keeper->adopted_is_writing = keeper->marks_are_writing = false;
    if (keeper->next_is_writing) {
        hr_cap_epoch_written(keeper);
    }
}

/* --- out of the store --- */

static enum hr_err restore_marks(struct hr_cap_keeper *keeper, uint32_t half, struct hr_le_reader *reader)
{
    uint8_t origin = hr_le_read_u8(reader);
    uint32_t stopped = hr_le_read_u32(reader);
    if (half >= MARK_HALVES || origin > HR_CAP_ORIGIN_OLD) {
        return HR_E_CORRUPT;
    }
    for (uint32_t p = half * MARKS_PER_RECORD; p < (half + 1) * MARKS_PER_RECORD; p++) {
        struct hr_cap_mark *mark = &keeper->images.marks[p];
        uint8_t flags = hr_le_read_u8(reader);
        mark->trust = flags & MARK_OWN ? HR_CAP_TRUST_OWN : HR_CAP_TRUST_NONE;
        mark->is_virgin = (flags & MARK_VIRGIN) != 0;
        mark->epoch = hr_le_read_u32(reader);
        mark->log = hr_le_read_u64(reader);
        mark->forgot_at_ns = hr_le_read_i64(reader);
    }
    if (!hr_le_is_at_end(reader)) {
        memset(keeper->images.marks, 0, sizeof(keeper->images.marks));
        return HR_E_CORRUPT;
    }
    keeper->origin = (enum hr_cap_origin)origin;
    keeper->stopped = stopped;
    return HR_OK;
}

static enum hr_err restore_epoch(struct hr_cap_keeper *keeper, uint32_t slot, struct hr_span payload)
{
    struct hr_cap_epoch *epoch = slot == 0 ? &keeper->adopted : &keeper->current;
    struct hr_le_reader reader = hr_le_reader_of(payload);
    uint32_t number = hr_le_read_u32(&reader);
    struct hr_span rules = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    if (reader.failed || slot > 1 || number == 0 || hr_cap_rules_decode(rules, &epoch->rules) != HR_OK ||
        epoch->rules.names != hr_cap_names_hash(&keeper->config.regions)) {
        epoch->number = 0;
        keeper->has_changed = true;
        return reader.failed || slot > 1 ? HR_E_CORRUPT : HR_OK; /* of other regions: it holds no longer */
    }
    epoch->number = number;
    epoch->hash = hr_cap_rules_hash(&epoch->rules);
    return HR_OK;
}

static enum hr_err restore_image(struct hr_cap_keeper *keeper, struct hr_span payload)
{
    struct hr_caps_write write;
    if (hr_cap_image_decode(payload, &write) != HR_OK) {
        return HR_E_CORRUPT;
    }
    struct hr_cap_kept *kept = hr_cap_images_put(&keeper->images, &write);
    if (kept != NULL && keeper->images.marks[hr_partition_of(write.id)].trust != HR_CAP_TRUST_OWN) {
        kept->is_over = keeper->images.has_work = true;
    }
    return HR_OK;
}

enum hr_err hr_cap_keeper_restore(struct hr_cap_keeper *keeper, const struct hr_record *record)
{
    if (record->key.bytes < 3) {
        return HR_E_CORRUPT;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    switch (record->key.at[1]) {
    case KEY_MARKS:
        return restore_marks(keeper, (uint8_t)record->key.at[2], &reader);
    case KEY_RULES:
        return restore_epoch(keeper, (uint8_t)record->key.at[2], record->payload);
    case KEY_IMAGE:
        return restore_image(keeper, record->payload);
    default:
        return HR_E_CORRUPT;
    }
}

/* --- what says nothing any more --- */

/* Units that went from region to region are never forgotten; nor what was lost. */
static bool is_blank(const struct hr_cover_image *image)
{
    bool is_blank = image->lost == 0;
    for (uint32_t k = 0; k < image->count; k++) {
        const struct hr_cover_image_row *row = &image->rows[k];
        is_blank &= row->out == 0 && row->out_base == 0 && row->in_base == 0;
    }
    return is_blank;
}

static bool is_over(struct hr_cap_keeper *keeper, const struct hr_caps_write *write)
{
    const struct hr_cap_rule *rule = hr_cap_rules_find(&keeper->local, write->limit);
    bool is_known = rule != NULL || hr_cap_rules_find(&keeper->current.rules, write->limit) != NULL;
    if (rule == NULL) {
        return !is_known && keeper->is_begun;
    }
    if (rule->kind == HR_CAP_COVER_WINDOWS) {
        int64_t label = hr_limiter_window(keeper->config.limiter, write->limit, keeper->now).label;
        return write->image.label < label - 1;
    }
    return is_blank(&write->image) && hr_caps_cover(keeper->caps, write->id) == NULL;
}

void hr_cap_log_sweep(struct hr_cap_keeper *keeper)
{
    struct hr_cap_images *images = &keeper->images;
    for (uint32_t i = 0; i < SWEEP_IMAGES && images->used > 0; i++) {
        keeper->sweep_at = keeper->sweep_at + 1 >= images->fresh ? 1 : keeper->sweep_at + 1;
        struct hr_cap_kept *kept = &images->all[keeper->sweep_at];
        if (kept->write.limit != 0 && !kept->is_over && is_over(keeper, &kept->write)) {
            kept->is_over = images->has_work = true;
        }
    }
}
