/* Feeds arbitrary bytes to the reader of segments. What it gives is written anew, and must then come back the same: so
 * a counter stays what it is however often the log is folded. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static bool is_same(const struct hr_counter_image *a, const struct hr_counter_image *b)
{
    bool same = hr_id128_equal(a->id, b->id) && hr_id128_equal(a->limit, b->limit) && a->algorithm == b->algorithm &&
                a->rate == b->rate && a->period_ns == b->period_ns && a->saved_at == b->saved_at &&
                a->ahead == b->ahead && memcmp(a->words, b->words, sizeof(a->words)) == 0 &&
                a->entry_count == b->entry_count;
    for (uint32_t i = 0; same && i < a->entry_count; i++) {
        same = a->entries[i].age_ns == b->entries[i].age_ns && a->entries[i].cost == b->entries[i].cost;
    }
    return same;
}

static void open_segment(const struct hr_store_key *key, struct hr_span payload, struct hr_segment_reader *ret_reader)
{
    const struct hr_record record = {HR_RECORD_COUNTER, hr_store_key_span(key), payload};
    require(hr_segment_open(&record, ret_reader) == HR_OK);
}

/* One counter written alone. */
static void require_comes_back(const struct hr_store_key *key, const struct hr_counter_image *image, bool is_forgotten)
{
    static uint8_t memory[HR_SEGMENT_BYTES_MAX];
    struct hr_segment_writer writer;
    struct hr_segment_reader reader;
    struct hr_counter_image back;
    bool was_forgotten;
    hr_segment_clear(&writer, memory);
    if (is_forgotten) {
        hr_segment_forget(&writer, image->id, 0);
    } else {
        hr_segment_put(&writer, image);
    }
    require(writer.used <= 8 + HR_SEGMENT_COUNTER_BYTES_MAX);
    open_segment(key, (struct hr_span){(const char *)memory, writer.used}, &reader);
    require(hr_segment_next(&reader, &back, &was_forgotten) == HR_OK && was_forgotten == is_forgotten);
    require(is_forgotten ? hr_id128_equal(back.id, image->id) : is_same(&back, image));
    require(hr_segment_next(&reader, &back, &was_forgotten) == HR_E_NOT_FOUND);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct hr_store_key key = hr_segment_key(1);
    const struct hr_record record = {HR_RECORD_COUNTER, hr_store_key_span(&key), {(const char *)data, bytes}};
    struct hr_segment_reader reader;
    struct hr_counter_image image;
    bool is_forgotten;
    if (bytes > HR_SEGMENT_BYTES_MAX || hr_segment_open(&record, &reader) != HR_OK) {
        return 0;
    }
    while (hr_segment_next(&reader, &image, &is_forgotten) == HR_OK) {
        require_comes_back(&key, &image, is_forgotten);
    }
    return 0;
}
