#include "storage/storage.h"

enum hr_err hr_store_commit(struct hr_store *store, uint64_t ticket, const struct hr_store_batch *batch)
{
    if (batch->bytes > HR_STORE_QUEUE_BYTES) {
        return HR_E_RANGE;
    }
    return store->ops->commit(store, ticket, batch);
}

enum hr_err hr_store_load(struct hr_store *store, enum hr_record_kind kind, hr_store_visit *visit, void *user,
                          struct hr_store_loaded *ret_loaded)
{
    *ret_loaded = (struct hr_store_loaded){0};
    return store->ops->load(store, kind, visit, user, ret_loaded);
}

void hr_store_settle(struct hr_store *store)
{
    store->ops->settle(store);
}

void hr_store_close(struct hr_store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

enum hr_err hr_store_offer(struct hr_span key, struct hr_span value, hr_store_visit *visit, void *user,
                           struct hr_store_loaded *loaded)
{
    struct hr_record record;
    enum hr_err err = hr_record_decode(key, value, &record);
    if (err == HR_OK) {
        err = visit(user, &record);
    }
    loaded->good += err == HR_OK;
    loaded->bad += err == HR_E_CORRUPT;
    loaded->bad_bytes += err == HR_E_CORRUPT ? value.bytes : 0;
    return err == HR_E_CORRUPT ? HR_OK : err;
}
