#include "node/cap_images.h"

#include <stddef.h>

#include "storage/le.h"

#define UNITS_MAX (INT64_C(1) << 56)

void hr_cap_images_init(struct hr_cap_images *images, uint32_t count_max, struct hr_bump *bump)
{
    uint32_t heads = 16;
    while (heads < count_max) {
        heads *= 2;
    }
    images->count_max = count_max;
    images->all = hr_bump_take(bump, count_max + 1, sizeof(struct hr_cap_kept), 8);
    images->heads = hr_bump_take(bump, heads, sizeof(uint32_t), 8);
    images->head_mask = heads - 1;
    images->fresh = 1;
}

static uint32_t *head_of(struct hr_cap_images *images, struct hr_id128 id)
{
    return &images->heads[(uint32_t)id.lo & images->head_mask];
}

/* An image of a window is replaced by a later one, and by that of the window that takes its place. */
static bool is_of(const struct hr_cap_kept *kept, const struct hr_caps_write *write)
{
    return hr_id128_equal(kept->write.id, write->id) && kept->write.limit == write->limit &&
           kept->write.window == write->window;
}

static struct hr_cap_kept *find(struct hr_cap_images *images, const struct hr_caps_write *write)
{
    uint32_t index = *head_of(images, write->id);
    while (index != 0 && !is_of(&images->all[index], write)) {
        index = images->all[index].next;
    }
    return index == 0 ? NULL : &images->all[index];
}

struct hr_cap_kept *hr_cap_images_put(struct hr_cap_images *images, const struct hr_caps_write *write)
{
    struct hr_cap_kept *kept = find(images, write);
    if (kept != NULL) {
        kept->write = *write;
        kept->is_over = kept->is_restored = false;
        return kept;
    }
    uint32_t index = images->free_head;
    if (index != 0) {
        images->free_head = images->all[index].next;
    } else if (images->fresh <= images->count_max) {
        index = images->fresh++;
    } else {
        images->marks[hr_partition_of(write->id)].trust = HR_CAP_TRUST_NONE;
        return NULL;
    }
    uint32_t *head = head_of(images, write->id);
    kept = &images->all[index];
    *kept = (struct hr_cap_kept){.write = *write, .next = *head};
    *head = index;
    images->used++;
    return kept;
}

struct hr_cap_kept *hr_cap_images_next_unrestored(struct hr_cap_images *images, struct hr_id128 id, uint32_t limit)
{
    for (uint32_t i = *head_of(images, id); i != 0; i = images->all[i].next) {
        struct hr_cap_kept *kept = &images->all[i];
        if (hr_id128_equal(kept->write.id, id) && kept->write.limit == limit && !kept->is_restored && !kept->is_over) {
            return kept;
        }
    }
    return NULL;
}

/* Free ones have no limit. */
struct hr_cap_kept *hr_cap_images_next(struct hr_cap_images *images, uint32_t partition, uint32_t *cursor)
{
    for (uint32_t i = *cursor + 1; i < images->fresh; i++) {
        struct hr_cap_kept *kept = &images->all[i];
        if (kept->write.limit != 0 && !kept->is_over && hr_partition_of(kept->write.id) == partition) {
            *cursor = i;
            return kept;
        }
    }
    return NULL;
}

void hr_cap_images_free(struct hr_cap_images *images, struct hr_cap_kept *kept)
{
    uint32_t index = (uint32_t)(kept - images->all), *place = head_of(images, kept->write.id);
    while (*place != index) {
        place = &images->all[*place].next;
    }
    *place = kept->next;
    *kept = (struct hr_cap_kept){.next = images->free_head};
    images->free_head = index;
    images->used--;
}

void hr_cap_images_end(struct hr_cap_images *images, uint32_t partition)
{
    uint32_t cursor = 0;
    struct hr_cap_kept *kept;
    while (images->used > 0 && (kept = hr_cap_images_next(images, partition, &cursor)) != NULL) {
        kept->is_over = images->has_work = true;
    }
}

void hr_cap_images_save(struct hr_cap_images *images, uint32_t partition)
{
    uint32_t cursor = 0;
    struct hr_cap_kept *kept;
    while (images->used > 0 && (kept = hr_cap_images_next(images, partition, &cursor)) != NULL) {
        kept->is_unsaved = images->has_work = true;
    }
}

size_t hr_cap_image_encode(const struct hr_caps_write *write, uint8_t out[HR_CAP_IMAGE_BYTES_MAX])
{
    const struct hr_cover_image *image = &write->image;
    struct hr_le_writer writer = hr_le_writer_of(out, HR_CAP_IMAGE_BYTES_MAX);
    hr_le_write_u8(&writer, HR_CAP_IMAGE_TAG);
    hr_le_write_id(&writer, write->id);
    hr_le_write_u32(&writer, write->limit);
    hr_le_write_u8(&writer, (uint8_t)write->window);
    hr_le_write_i64(&writer, image->label);
    hr_le_write_u64(&writer, image->life);
    hr_le_write_i64(&writer, image->lost);
    hr_le_write_i64(&writer, image->charged);
    hr_le_write_u8(&writer, (uint8_t)image->count);
    for (uint32_t k = 0; k < image->count; k++) {
        hr_le_write_u64(&writer, image->rows[k].life);
        hr_le_write_i64(&writer, image->rows[k].out);
        hr_le_write_i64(&writer, image->rows[k].out_base);
        hr_le_write_i64(&writer, image->rows[k].in_base);
    }
    return writer.used;
}

static bool is_units(int64_t units)
{
    return units >= 0 && units <= UNITS_MAX;
}

/* Windows without a charge say so by the greatest number there is. */
static bool is_sound(const struct hr_caps_write *write)
{
    const struct hr_cover_image *image = &write->image;
    return write->limit != 0 && write->window < HR_COVER_WINDOWS && image->label != HR_COVER_NO_LABEL &&
           image->life != 0 && is_units(image->lost) && is_units(image->charged);
}

enum hr_err hr_cap_image_decode(struct hr_span bytes, struct hr_caps_write *ret_write)
{
    struct hr_le_reader reader = hr_le_reader_of(bytes);
    struct hr_cover_image *image = &ret_write->image;
    bool is_image = hr_le_read_u8(&reader) == HR_CAP_IMAGE_TAG;
    *ret_write = (struct hr_caps_write){.id = hr_le_read_id(&reader)};
    ret_write->limit = hr_le_read_u32(&reader);
    ret_write->window = hr_le_read_u8(&reader);
    image->label = hr_le_read_i64(&reader);
    image->life = hr_le_read_u64(&reader);
    image->lost = hr_le_read_i64(&reader);
    image->charged = hr_le_read_i64(&reader);
    image->count = hr_le_read_u8(&reader);
    bool is_valid = is_image && image->count <= HR_REGIONS_MAX && is_sound(ret_write);
    for (uint32_t k = 0; is_valid && k < image->count; k++) {
        struct hr_cover_image_row *row = &image->rows[k];
        row->life = hr_le_read_u64(&reader);
        row->out = hr_le_read_i64(&reader);
        row->out_base = hr_le_read_i64(&reader);
        row->in_base = hr_le_read_i64(&reader);
        is_valid = is_units(row->out) && is_units(row->out_base) && is_units(row->in_base);
    }
    return is_valid && hr_le_is_at_end(&reader) ? HR_OK : HR_E_CORRUPT;
}
