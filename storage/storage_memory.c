#include "storage/storage_memory.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    char *at; /* NULL: absent */
    size_t bytes;
};

/* A record of the disk. A batch first sets what each of its keys is to become, which may fail, and then either makes
 * all of that so or forgets it, which cannot. */
struct item {
    struct bytes value, next;
    bool is_touched;
    struct item *touched; /* the next one that this batch touches */
    uint8_t key_bytes;
    char key[HR_STORE_KEY_BYTES_MAX];
};

struct hr_memory_disk {
    void *tree; /* of items, by key: glibc's red-black tree */
    uint64_t bytes;
    struct hr_memory_faults faults;
};

struct waiting {
    struct waiting *next;
    uint64_t ticket;
    struct hr_store_batch batch; /* its memory follows */
};

struct memory_store {
    struct hr_store base;
    struct hr_memory_disk *disk;
    hr_store_done *done;
    void *user;
    struct waiting *first, **end;
    size_t waiting_count, waiting_bytes;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    size_t common = x->key_bytes < y->key_bytes ? x->key_bytes : y->key_bytes;
    int order = memcmp(x->key, y->key, common);
    return order != 0 ? order : x->key_bytes - y->key_bytes;
}

static void set_key(struct item *item, struct hr_span key)
{
    item->key_bytes = (uint8_t)key.bytes;
    memcpy(item->key, key.at, key.bytes);
}

static struct item *find(const struct hr_memory_disk *disk, struct hr_span key)
{
    struct item wanted;
    set_key(&wanted, key);
    struct item *const *node = tfind(&wanted, &disk->tree, compare_items);
    return node == NULL ? NULL : *node;
}

static struct item *find_or_add(struct hr_memory_disk *disk, struct hr_span key)
{
    struct item *item = find(disk, key);
    if (item != NULL) {
        return item;
    }
    item = calloc(1, sizeof(*item));
    if (item == NULL) {
        return NULL;
    }
    set_key(item, key);
    if (tsearch(item, &disk->tree, compare_items) == NULL) {
        free(item);
        return NULL;
    }
    return item;
}

static void free_item(void *at)
{
    struct item *item = at;
    free(item->value.at);
    free(item->next.at);
    free(item);
}

struct hr_memory_disk *hr_memory_disk_new(void)
{
    return calloc(1, sizeof(struct hr_memory_disk));
}

void hr_memory_disk_free(struct hr_memory_disk *disk)
{
    if (disk != NULL) {
        tdestroy(disk->tree, free_item);
        free(disk);
    }
}

void hr_memory_disk_set_faults(struct hr_memory_disk *disk, struct hr_memory_faults faults)
{
    disk->faults = faults;
}

bool hr_memory_disk_flip(struct hr_memory_disk *disk, const struct hr_store_key *key, size_t bit)
{
    struct item *item = find(disk, hr_store_key_span(key));
    if (item == NULL || bit / 8 >= item->value.bytes) {
        return false;
    }
    item->value.at[bit / 8] = (char)(item->value.at[bit / 8] ^ (1 << bit % 8));
    return true;
}

static enum hr_err injected(struct hr_memory_faults *faults)
{
    if (faults->fail_op == 0) {
        return HR_OK;
    }
    faults->fail_op--;
    return faults->fail_op == 0 ? faults->fail_err : HR_OK;
}

/* Sets what op's key is to become, and notes the item in *touched. */
static enum hr_err stage(struct hr_memory_disk *disk, const struct hr_batch_op *op, struct item **touched)
{
    enum hr_err err = injected(&disk->faults);
    if (err != HR_OK) {
        return err;
    }
    struct bytes next = {NULL, 0};
    if (op->is_put) {
        next = (struct bytes){malloc(op->value.bytes), op->value.bytes};
        if (next.at == NULL) {
            return HR_E_IO;
        }
        memcpy(next.at, op->value.at, op->value.bytes);
    }
    struct item *item = find_or_add(disk, op->key);
    if (item == NULL) {
        free(next.at);
        return HR_E_IO;
    }
    free(item->next.at);
    item->next = next;
    if (!item->is_touched) {
        item->is_touched = true;
        item->touched = *touched;
        *touched = item;
    }
    return HR_OK;
}

static uint64_t size_of(const struct item *item, struct bytes value)
{
    return value.at == NULL ? 0 : item->key_bytes + value.bytes;
}

static uint64_t bytes_after(const struct hr_memory_disk *disk, const struct item *touched)
{
    uint64_t bytes = disk->bytes;
    for (const struct item *item = touched; item != NULL; item = item->touched) {
        bytes += size_of(item, item->next) - size_of(item, item->value);
    }
    return bytes;
}

/* Makes what was staged so, or forgets it. */
static void finish(struct hr_memory_disk *disk, struct item *touched, bool is_kept)
{
    while (touched != NULL) {
        struct item *item = touched;
        touched = item->touched;
        if (is_kept) {
            struct bytes old = item->value;
            item->value = item->next;
            item->next = old;
        }
        free(item->next.at);
        item->next = (struct bytes){NULL, 0};
        item->is_touched = false;
        if (item->value.at == NULL) {
            (void)tdelete(item, &disk->tree, compare_items); /* it is there: its parent is of no interest */
            free(item);
        }
    }
}

static enum hr_err apply(struct hr_memory_disk *disk, const struct hr_store_batch *batch)
{
    struct item *touched = NULL;
    struct hr_batch_op op;
    size_t offset = 0;
    enum hr_err err = HR_OK;
    while (err == HR_OK && hr_batch_next(batch, &offset, &op)) {
        err = stage(disk, &op, &touched);
    }
    uint64_t bytes = bytes_after(disk, touched);
    if (err == HR_OK && bytes > disk->bytes && disk->faults.bytes_max != 0 && bytes > disk->faults.bytes_max) {
        err = HR_E_FULL;
    }
    if (err == HR_OK) {
        disk->bytes = bytes;
    }
    finish(disk, touched, err == HR_OK);
    return err;
}

static enum hr_err commit(struct hr_store *base, uint64_t ticket, const struct hr_store_batch *batch)
{
    struct memory_store *store = (struct memory_store *)base;
    if (store->waiting_count == HR_STORE_TICKETS_MAX || batch->bytes > HR_STORE_QUEUE_BYTES - store->waiting_bytes) {
        return HR_E_FULL;
    }
    struct waiting *waiting = malloc(sizeof(*waiting) + batch->bytes);
    if (waiting == NULL) {
        return HR_E_FULL;
    }
    *waiting = (struct waiting){.ticket = ticket, .batch = *batch};
    waiting->batch.memory = (uint8_t *)(waiting + 1);
    if (batch->bytes > 0) {
        memcpy(waiting->batch.memory, batch->memory, batch->bytes);
    }
    *store->end = waiting;
    store->end = &waiting->next;
    store->waiting_count++;
    store->waiting_bytes += batch->bytes;
    return HR_OK;
}

static struct waiting *take_first(struct memory_store *store)
{
    struct waiting *waiting = store->first;
    store->first = waiting->next;
    if (store->first == NULL) {
        store->end = &store->first;
    }
    store->waiting_count--;
    store->waiting_bytes -= waiting->batch.bytes;
    return waiting;
}

size_t hr_store_memory_run(struct hr_store *store, size_t tickets_max)
{
    struct memory_store *memory = (struct memory_store *)store;
    size_t count = 0;
    for (; count < tickets_max && memory->first != NULL; count++) {
        struct waiting *waiting = take_first(memory);
        struct hr_store_result result = {.ticket = waiting->ticket, .err = apply(memory->disk, &waiting->batch)};
        free(waiting);
        memory->done(memory->user, &result, 1);
    }
    return count;
}

struct walk {
    enum hr_record_kind kind;
    hr_store_visit *visit;
    void *user;
    struct hr_store_loaded *loaded;
    enum hr_err err;
};

/* Called for each node before, between and after its children: between is the order of keys. */
static void walk_node(const void *node, VISIT order, void *user)
{
    struct walk *walk = user;
    const struct item *item = *(struct item *const *)node;
    if ((order != postorder && order != leaf) || walk->err != HR_OK || (uint8_t)item->key[0] != walk->kind) {
        return;
    }
    struct hr_span key = {item->key, item->key_bytes};
    struct hr_span value = {item->value.at, item->value.bytes};
    walk->err = hr_store_offer(key, value, walk->visit, walk->user, walk->loaded);
}

static enum hr_err load(struct hr_store *base, enum hr_record_kind kind, hr_store_visit *visit, void *user,
                        struct hr_store_loaded *loaded)
{
    const struct memory_store *store = (const struct memory_store *)base;
    struct walk walk = {kind, visit, user, loaded, HR_OK};
    twalk_r(store->disk->tree, walk_node, &walk);
    return walk.err;
}

static void settle(struct hr_store *base)
{
    while (hr_store_memory_run(base, SIZE_MAX) > 0) {
        /* A callback may have committed more. */
    }
}

static void close_store(struct hr_store *base)
{
    settle(base);
    free(base);
}

void hr_store_memory_crash(struct hr_store *store)
{
    struct memory_store *memory = (struct memory_store *)store;
    while (memory->first != NULL) {
        free(take_first(memory));
    }
    free(memory);
}

struct hr_store *hr_store_memory_open(struct hr_memory_disk *disk, hr_store_done *done, void *user)
{
    static const struct hr_store_ops ops = {commit, load, settle, close_store};
    struct memory_store *store = malloc(sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    *store = (struct memory_store){.base.ops = &ops, .disk = disk, .done = done, .user = user};
    store->end = &store->first;
    return &store->base;
}
