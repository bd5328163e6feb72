#include "storage/storage_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "storage/check_lmdb.h"
#include "storage/identity.h"
#include "storage/make_lmdb.h"

/* Copy-on-write wants room to delete. A batch of nothing but deletes may have this much above map_bytes_max. */
#define RESERVE_BYTES (UINT64_C(4) << 20)

/* A disk with less than this left is full, whatever a short write is called. */
#define DISK_FULL_BYTES 65536

#define LOCK_NAME "headroom.lock"

/* LMDB's table of readers, as long as it is by default: 126 of 64 bytes and a head. */
#define READERS_NAME "lock.mdb"
#define READERS_BYTES 8192

struct waiting {
    uint64_t ticket;
    struct hr_store_batch batch; /* its memory lies in the queue's */
};

struct queue {
    uint8_t *memory;
    size_t bytes;
    size_t count;
    struct waiting waiting[HR_STORE_TICKETS_MAX];
};

struct lmdb_store {
    struct hr_store base;
    char *dir;
    uint64_t map_bytes_max;
    hr_store_done *done;
    void *user;
    int dir_fd, lock_fd;

    /* Held by whoever reads in the environment, or replaces it; only the thread that commits replaces it. */
    pthread_mutex_t env_lock;
    MDB_env *env; /* NULL: could not be opened again; the next commit tries */
    MDB_dbi dbi;
    uint64_t map_bytes;

    /* Guards the queue that is being filled, and the flags. The other queue is the committing thread's, which swaps
     * them. */
    pthread_mutex_t queue_lock;
    pthread_cond_t queue_changed;
    struct queue queues[2];
    struct queue *filling, *committing;
    bool is_busy, is_closing;
    pthread_t thread;
    struct hr_store_result results[HR_STORE_TICKETS_MAX];
};

static enum hr_err err_of(int rc)
{
    switch (rc) {
    case MDB_SUCCESS:
        return HR_OK;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
    case ENOSPC:
    case EDQUOT:
        return HR_E_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return HR_E_CORRUPT;
    default:
        return HR_E_IO;
    }
}

/* The environment. */

static int open_dbi(MDB_env *env, MDB_dbi *ret_dbi)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_dbi_open(txn, NULL, 0, ret_dbi);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

static int open_env(struct lmdb_store *store, uint64_t map_bytes)
{
    MDB_env *env;
    int rc = mdb_env_create(&env);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_env_set_mapsize(env, map_bytes);
    if (rc == 0) {
        rc = mdb_env_open(env, store->dir, MDB_NOTLS, 0600);
    }
    if (rc == 0) {
        rc = open_dbi(env, &store->dbi);
    }
    if (rc != 0) {
        mdb_env_close(env);
        return rc;
    }
    store->env = env;
    store->map_bytes = map_bytes;
    return 0;
}

static void close_env(struct lmdb_store *store)
{
    if (store->env != NULL) {
        mdb_env_close(store->env);
        store->env = NULL;
    }
}

/* Growing, too, is opening anew: mdb_env_set_mapsize, where it fails on an open environment, leaves one without a map.
 */
static int reopen_env(struct lmdb_store *store, uint64_t map_bytes)
{
    uint64_t map_bytes_before = store->map_bytes;
    (void)pthread_mutex_lock(&store->env_lock);
    close_env(store);
    int rc = open_env(store, map_bytes);
    if (rc != 0 && map_bytes != map_bytes_before) {
        (void)open_env(store, map_bytes_before); /* if it fails as well, env stays NULL and says so */
    }
    (void)pthread_mutex_unlock(&store->env_lock);
    return rc;
}

/* Committing, on the store's thread. */

/* LMDB takes even what it only reads as no const. */
static MDB_val val_of(struct hr_span span)
{
    union {
        const char *in;
        void *out;
    } at = {.in = span.at};
    return (MDB_val){span.bytes, at.out};
}

static int apply_op(struct lmdb_store *store, MDB_txn *txn, const struct hr_batch_op *op)
{
    MDB_val key = val_of(op->key);
    if (op->is_put) {
        MDB_val value = val_of(op->value);
        return mdb_put(txn, store->dbi, &key, &value, 0);
    }
    int rc = mdb_del(txn, store->dbi, &key, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int apply_batch(struct lmdb_store *store, MDB_txn *txn, const struct hr_store_batch *batch)
{
    struct hr_batch_op op;
    size_t offset = 0;
    int rc = 0;
    while (rc == 0 && hr_batch_next(batch, &offset, &op)) {
        rc = apply_op(store, txn, &op);
    }
    return rc;
}

/* `count` batches in one transaction, once. */
static int transact(struct lmdb_store *store, const struct waiting *waiting, size_t count)
{
    MDB_txn *txn;
    int rc = store->env == NULL ? reopen_env(store, store->map_bytes) : 0;
    if (rc == 0) {
        rc = mdb_txn_begin(store->env, NULL, 0, &txn);
    }
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = apply_batch(store, txn, &waiting[i].batch);
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

static uint64_t ceiling_of(const struct lmdb_store *store, const struct waiting *waiting, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (waiting[i].batch.put_count > 0) {
            return store->map_bytes_max;
        }
    }
    return store->map_bytes_max + RESERVE_BYTES;
}

static bool grow(struct lmdb_store *store, uint64_t ceiling)
{
    if (store->map_bytes >= ceiling) {
        return false;
    }
    uint64_t map_bytes = store->map_bytes * 2;
    return reopen_env(store, map_bytes < ceiling ? map_bytes : ceiling) == 0;
}

/* A full disk cuts a write short before it refuses one, and LMDB calls the former EIO. */
static bool disk_is_full(const struct lmdb_store *store)
{
    struct statvfs info;
    return fstatvfs(store->dir_fd, &info) == 0 && (uint64_t)info.f_bavail * info.f_frsize < DISK_FULL_BYTES;
}

/* `count` batches in one transaction, with a larger map or a fresh environment where that may help. */
static int attempt(struct lmdb_store *store, const struct waiting *waiting, size_t count)
{
    uint64_t ceiling = ceiling_of(store, waiting, count);
    int rc = transact(store, waiting, count);
    if (rc == MDB_PANIC && reopen_env(store, store->map_bytes) == 0) {
        rc = transact(store, waiting, count);
    }
    while (rc == MDB_MAP_FULL && grow(store, ceiling)) {
        rc = transact(store, waiting, count);
    }
    if (store->map_bytes > store->map_bytes_max) {
        (void)reopen_env(store,
                         store->map_bytes_max); /* the reserve is for deletes; failing is the next commit's matter */
    }
    return rc == EIO && disk_is_full(store) ? ENOSPC : rc;
}

static uint64_t monotonic_ns(void)
{
    struct timespec at;
    if (clock_gettime(CLOCK_MONOTONIC, &at) != 0) {
        return 0;
    }
    return (uint64_t)at.tv_sec * (uint64_t)HR_NS_PER_S + (uint64_t)at.tv_nsec;
}

/* Commits waiting[first] and the count - 1 behind it together, and notes their results. */
static enum hr_err commit_together(struct lmdb_store *store, size_t first, size_t count)
{
    const struct waiting *waiting = &store->committing->waiting[first];
    uint64_t begin = monotonic_ns();
    enum hr_err err = err_of(attempt(store, waiting, count));
    uint64_t took_ns = monotonic_ns() - begin;
    for (size_t i = 0; i < count; i++) {
        store->results[first + i] = (struct hr_store_result){waiting[i].ticket, err, took_ns};
    }
    return err;
}

static void commit_group(struct lmdb_store *store)
{
    size_t count = store->committing->count;
    if (commit_together(store, 0, count) == HR_OK || count == 1) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (void)commit_together(store, i, 1); /* each has its own result */
    }
}

/* Waits for something to commit and makes it the committing queue. False: the store closes and nothing is left. */
static bool take_group(struct lmdb_store *store)
{
    (void)pthread_mutex_lock(&store->queue_lock);
    while (store->filling->count == 0 && !store->is_closing) {
        (void)pthread_cond_wait(&store->queue_changed, &store->queue_lock);
    }
    struct queue *taken = store->filling;
    bool has_work = taken->count > 0;
    if (has_work) {
        store->filling = store->committing;
        store->committing = taken;
        store->is_busy = true;
    }
    (void)pthread_mutex_unlock(&store->queue_lock);
    return has_work;
}

static void finish_group(struct lmdb_store *store)
{
    store->done(store->user, store->results, store->committing->count);
    store->committing->count = 0;
    store->committing->bytes = 0;
    (void)pthread_mutex_lock(&store->queue_lock);
    store->is_busy = false;
    (void)pthread_cond_broadcast(&store->queue_changed);
    (void)pthread_mutex_unlock(&store->queue_lock);
}

static void *commit_thread(void *user)
{
    struct lmdb_store *store = user;
    while (take_group(store)) {
        commit_group(store);
        finish_group(store);
    }
    return NULL;
}

/* What storage.h asks for. */

static bool enqueue(struct queue *queue, uint64_t ticket, const struct hr_store_batch *batch)
{
    if (queue->count == HR_STORE_TICKETS_MAX || batch->bytes > HR_STORE_QUEUE_BYTES - queue->bytes) {
        return false;
    }
    struct waiting *waiting = &queue->waiting[queue->count++];
    *waiting = (struct waiting){ticket, *batch};
    if (batch->is_lent) {
        return true;
    }
    waiting->batch.memory = queue->memory + queue->bytes;
    if (batch->bytes > 0) {
        memcpy(waiting->batch.memory, batch->memory, batch->bytes);
    }
    queue->bytes += batch->bytes;
    return true;
}

static enum hr_err commit(struct hr_store *base, uint64_t ticket, const struct hr_store_batch *batch)
{
    struct lmdb_store *store = (struct lmdb_store *)base;
    (void)pthread_mutex_lock(&store->queue_lock);
    bool has_room = enqueue(store->filling, ticket, batch);
    (void)pthread_cond_broadcast(&store->queue_changed);
    (void)pthread_mutex_unlock(&store->queue_lock);
    return has_room ? HR_OK : HR_E_FULL;
}

static struct hr_span span_of(MDB_val value)
{
    return (struct hr_span){value.mv_data, value.mv_size};
}

static enum hr_err visit_kind(MDB_cursor *cursor, uint8_t kind, hr_store_visit *visit, void *user,
                              struct hr_store_loaded *loaded)
{
    MDB_val key = {1, &kind}, value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0 && key.mv_size > 0 && *(const uint8_t *)key.mv_data == kind) {
        enum hr_err err = hr_store_offer(span_of(key), span_of(value), visit, user, loaded);
        if (err != HR_OK) {
            return err;
        }
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    return rc == MDB_NOTFOUND ? HR_OK : err_of(rc);
}

static enum hr_err load_locked(struct lmdb_store *store, uint8_t kind, hr_store_visit *visit, void *user,
                               struct hr_store_loaded *loaded)
{
    if (store->env == NULL) {
        return HR_E_IO;
    }
    MDB_txn *txn;
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return err_of(rc);
    }
    MDB_cursor *cursor;
    rc = mdb_cursor_open(txn, store->dbi, &cursor);
    enum hr_err err = err_of(rc);
    if (rc == 0) {
        err = visit_kind(cursor, kind, visit, user, loaded);
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn); /* it only read */
    return err;
}

static enum hr_err load(struct hr_store *base, enum hr_record_kind kind, hr_store_visit *visit, void *user,
                        struct hr_store_loaded *loaded)
{
    struct lmdb_store *store = (struct lmdb_store *)base;
    (void)pthread_mutex_lock(&store->env_lock);
    enum hr_err err = load_locked(store, (uint8_t)kind, visit, user, loaded);
    (void)pthread_mutex_unlock(&store->env_lock);
    return err;
}

static void settle(struct hr_store *base)
{
    struct lmdb_store *store = (struct lmdb_store *)base;
    (void)pthread_mutex_lock(&store->queue_lock);
    while (store->filling->count > 0 || store->is_busy) {
        (void)pthread_cond_wait(&store->queue_changed, &store->queue_lock);
    }
    (void)pthread_mutex_unlock(&store->queue_lock);
}

/* Frees a store of which the thread does not run (any more), however much of the rest there is. */
static void free_store(struct lmdb_store *store)
{
    close_env(store);
    if (store->lock_fd >= 0) {
        (void)close(store->lock_fd); /* nothing was written to it; this gives up the lock */
    }
    if (store->dir_fd >= 0) {
        (void)close(store->dir_fd);
    }
    (void)pthread_cond_destroy(&store->queue_changed);
    (void)pthread_mutex_destroy(&store->queue_lock);
    (void)pthread_mutex_destroy(&store->env_lock);
    free(store->queues[0].memory);
    free(store->queues[1].memory);
    free(store->dir);
    free(store);
}

static void close_store(struct hr_store *base)
{
    struct lmdb_store *store = (struct lmdb_store *)base;
    (void)pthread_mutex_lock(&store->queue_lock);
    store->is_closing = true;
    (void)pthread_cond_broadcast(&store->queue_changed);
    (void)pthread_mutex_unlock(&store->queue_lock);
    (void)pthread_join(store->thread, NULL);
    free_store(store);
}

/* Opening. */

__attribute__((format(printf, 3, 4))) static enum hr_err refuse(struct hr_store_problem *problem, enum hr_err err,
                                                                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(problem->text, sizeof(problem->text), format, args); /* cut short where it is too long */
    va_end(args);
    return err;
}

static enum hr_err refuse_rc(const struct lmdb_store *store, struct hr_store_problem *problem, int rc)
{
    enum hr_err err = err_of(rc);
    if (err == HR_E_CORRUPT) {
        return refuse(problem, err, "%s: the store is damaged (%s): move it away or restore it", store->dir,
                      mdb_strerror(rc));
    }
    return refuse(problem, err == HR_E_FULL ? err : HR_E_IO, "%s: the store cannot be used: %s", store->dir,
                  mdb_strerror(rc));
}

/* The lock is on a file of its own: LMDB's admits two processes that write in turn, each unaware of what the other
 * counts. */
static enum hr_err take_lock(struct lmdb_store *store, struct hr_store_problem *problem)
{
    int rc = hr_store_make_dir(store->dir);
    if (rc != 0) {
        return refuse_rc(store, problem, rc);
    }
    store->dir_fd = open(store->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd >= 0) {
        store->lock_fd = openat(store->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    if (store->lock_fd < 0) {
        return refuse_rc(store, problem, errno);
    }
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) == 0) {
        return HR_OK;
    }
    if (errno == EWOULDBLOCK) {
        return refuse(problem, HR_E_IO, "%s: the store is open in another process", store->dir);
    }
    return refuse_rc(store, problem, errno);
}

static enum hr_err check_identity(const struct lmdb_store *store, const struct hr_saved_identity *wanted, MDB_val value,
                                  struct hr_store_problem *problem)
{
    struct hr_store_key key = hr_saved_identity_key();
    struct hr_record record;
    struct hr_saved_identity found = {0, {"", 0}, {"", 0}};
    enum hr_err err = hr_record_decode(hr_store_key_span(&key), span_of(value), &record);
    if (err == HR_OK) {
        err = hr_saved_identity_decode(&record, &found);
    }
    if (err == HR_E_CORRUPT) {
        return refuse(problem, err, "%s: the store is damaged (its identity): move it away or restore it", store->dir);
    }
    if (err != HR_OK || found.format > HR_STORE_FORMAT) {
        return refuse(problem, HR_E_INVALID, "%s: the store was written by a newer version of this program",
                      store->dir);
    }
    if (found.format < HR_STORE_FORMAT) { /* read by other rules, its counters would be forgotten */
        return refuse(problem, HR_E_INVALID,
                      "%s: the store was written by an older version of this program (format %u, not %u): start that "
                      "version, or move the store away",
                      store->dir, (unsigned)found.format, (unsigned)HR_STORE_FORMAT);
    }
    if (!hr_span_equal(found.cluster, wanted->cluster) || !hr_span_equal(found.node, wanted->node)) {
        return refuse(problem, HR_E_NOT_FOUND, "%s: the store belongs to node %.*s of cluster %.*s", store->dir,
                      (int)found.node.bytes, found.node.at, (int)found.cluster.bytes, found.cluster.at);
    }
    return HR_OK;
}

static enum hr_err open_identity(const struct lmdb_store *store, const struct hr_saved_identity *identity,
                                 struct hr_store_problem *problem)
{
    struct hr_store_key key = hr_saved_identity_key();
    MDB_val name = {key.bytes, key.at}, value;
    MDB_txn *txn;
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return refuse_rc(store, problem, rc);
    }
    rc = mdb_get(txn, store->dbi, &name, &value);
    enum hr_err err = rc == 0              ? check_identity(store, identity, value, problem)
                      : rc == MDB_NOTFOUND ? refuse_rc(store, problem, MDB_CORRUPTED)
                                           : refuse_rc(store, problem, rc);
    mdb_txn_abort(txn); /* it only read */
    return err;
}

static enum hr_err open_data(struct lmdb_store *store, uint64_t map_bytes_start, uint64_t data_bytes,
                             struct hr_store_problem *problem)
{
    enum hr_err err = hr_store_check_lmdb(store->dir);
    if (err == HR_E_CORRUPT) {
        return refuse_rc(store, problem, MDB_CORRUPTED);
    }
    if (err != HR_OK) {
        return refuse(problem, err, "%s: the store could not be checked for damage", store->dir);
    }
    int rc = open_env(store, data_bytes > map_bytes_start ? data_bytes : map_bytes_start);
    return rc == 0 ? HR_OK : refuse_rc(store, problem, rc);
}

/* LMDB maps its table of readers and writes there as to memory. On a full disk that would be the end of the process, so
 * the blocks are asked for beforehand, where the answer can be no. */
static int reserve_readers(const struct lmdb_store *store)
{
    int fd = openat(store->dir_fd, READERS_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    int rc = posix_fallocate(fd, 0, READERS_BYTES);
    (void)close(fd); /* before LMDB takes its own lock on it, which a close would give up */
    return rc;
}

/* The size of the data file, which is made where it is missing. */
static int find_or_make_data(const struct lmdb_store *store, const struct hr_saved_identity *identity,
                             uint64_t *ret_bytes)
{
    struct stat info;
    int rc = fstatat(store->dir_fd, HR_STORE_DATA_NAME, &info, 0) == 0 ? 0 : errno;
    if (rc == ENOENT) {
        rc = hr_store_make_lmdb(store->dir, identity);
        if (rc == 0) {
            rc = fstatat(store->dir_fd, HR_STORE_DATA_NAME, &info, 0) == 0 ? 0 : errno;
        }
    }
    if (rc == 0) {
        *ret_bytes = (uint64_t)info.st_size;
    }
    return rc;
}

/* Signals are for the threads that know what to do with them. */
static int start_thread(struct lmdb_store *store)
{
    sigset_t all, before;
    (void)sigfillset(&all); /* cannot fail on a set of our own */
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(&store->thread, NULL, commit_thread, store);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static enum hr_err start(struct lmdb_store *store, const struct hr_store_lmdb_options *options,
                         struct hr_store_problem *problem)
{
    struct hr_saved_identity identity = {HR_STORE_FORMAT, options->cluster, options->node};
    uint64_t map_bytes_start = options->map_bytes_start != 0 ? options->map_bytes_start : HR_STORE_MAP_BYTES_START;
    if (map_bytes_start > store->map_bytes_max) {
        map_bytes_start = store->map_bytes_max;
    }
    enum hr_err err = take_lock(store, problem);
    if (err != HR_OK) {
        return err;
    }
    uint64_t data_bytes;
    int rc = reserve_readers(store);
    if (rc == 0) {
        rc = find_or_make_data(store, &identity, &data_bytes);
    }
    if (rc != 0) {
        return refuse_rc(store, problem, rc);
    }
    err = open_data(store, map_bytes_start, data_bytes, problem);
    if (err == HR_OK) {
        err = open_identity(store, &identity, problem);
    }
    if (err != HR_OK) {
        return err;
    }
    rc = start_thread(store);
    return rc == 0 ? HR_OK : refuse_rc(store, problem, rc);
}

/* A store that holds nothing but memory; NULL where there is not enough. */
static struct lmdb_store *new_store(const struct hr_store_lmdb_options *options)
{
    static const struct hr_store_ops ops = {commit, load, settle, close_store};
    struct lmdb_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->base.ops = &ops;
    store->map_bytes_max = options->map_bytes_max != 0 ? options->map_bytes_max : HR_STORE_MAP_BYTES_MAX;
    store->done = options->done;
    store->user = options->user;
    store->dir_fd = -1;
    store->lock_fd = -1;
    store->filling = &store->queues[0];
    store->committing = &store->queues[1];
    (void)pthread_mutex_init(&store->env_lock, NULL); /* none of the three can fail on Linux with no attributes */
    (void)pthread_mutex_init(&store->queue_lock, NULL);
    (void)pthread_cond_init(&store->queue_changed, NULL);
    store->dir = strdup(options->dir);
    store->queues[0].memory = malloc(HR_STORE_QUEUE_BYTES);
    store->queues[1].memory = malloc(HR_STORE_QUEUE_BYTES);
    if (store->dir == NULL || store->queues[0].memory == NULL || store->queues[1].memory == NULL) {
        free_store(store);
        return NULL;
    }
    return store;
}

enum hr_err hr_store_lmdb_open(const struct hr_store_lmdb_options *options, struct hr_store **ret_store,
                               struct hr_store_problem *ret_problem)
{
    if (options->cluster.bytes > HR_STORE_NAME_BYTES_MAX || options->node.bytes > HR_STORE_NAME_BYTES_MAX) {
        return refuse(ret_problem, HR_E_RANGE, "a name of more than %d bytes", HR_STORE_NAME_BYTES_MAX);
    }
    struct lmdb_store *store = new_store(options);
    if (store == NULL) {
        return refuse(ret_problem, HR_E_MEMORY, "%s: no memory for the store", options->dir);
    }
    enum hr_err err = start(store, options, ret_problem);
    if (err != HR_OK) {
        free_store(store);
        return err;
    }
    *ret_store = &store->base;
    return HR_OK;
}
