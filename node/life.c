#include "node/life.h"

#include "gossip/life.h"
#include "storage/le.h"
#include "storage/record.h"

static struct hr_store_key own_key(void)
{
    return (struct hr_store_key){.bytes = 5, .at = {HR_RECORD_META, 'l', 'i', 'f', 'e'}};
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    uint64_t *last = user;
    struct hr_store_key key = own_key();
    if (!hr_span_equal(record->key, hr_store_key_span(&key))) {
        return HR_OK;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    uint64_t life = hr_le_read_uint(&reader, 8);
    if (!hr_le_is_at_end(&reader) || life > HR_LIFE_MAX) {
        return HR_E_CORRUPT;
    }
    *last = life;
    return HR_OK;
}

enum hr_err hr_life_read(struct hr_store *store, struct hr_wall now, uint64_t *ret_life)
{
    struct hr_store_loaded loaded;
    uint64_t last = 0, seconds = (uint64_t)(hr_clamp_time(now.ns) / HR_NS_PER_S);
    enum hr_err err = hr_store_load(store, HR_RECORD_META, visit, &last, &loaded);
    if (err != HR_OK) {
        return err;
    }
    uint64_t life = seconds > last ? seconds : last + 1;
    *ret_life = life < HR_LIFE_MAX ? life : HR_LIFE_MAX;
    return HR_OK;
}

enum hr_err hr_life_put(uint64_t life, struct hr_store_batch *batch)
{
    uint8_t payload[8];
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    hr_le_write_uint(&writer, life, 8);
    struct hr_store_key key = own_key();
    return hr_batch_put(batch, &key, (struct hr_span){(const char *)payload, writer.used});
}
