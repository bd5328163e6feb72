#include "storage/make_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/record.h"

#define NURSERY_NAME "new"

/* LMDB syncs its files, but not the entries that name them. */
static int sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int rc = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    return rc;
}

/* The entry of a directory that was made, in the one that holds it. */
static int sync_parent(const char *dir)
{
    char *path;
    if (asprintf(&path, "%s/..", dir) < 0) {
        return ENOMEM;
    }
    int rc = sync_dir(path);
    free(path);
    return rc;
}

int hr_store_make_dir(const char *dir)
{
    if (mkdir(dir, 0700) == 0) {
        return sync_parent(dir);
    }
    return errno == EEXIST ? 0 : errno;
}

static int put_identity(MDB_env *env, const struct hr_saved_identity *identity)
{
    uint8_t payload[HR_SAVED_IDENTITY_BYTES_MAX], memory[HR_RECORD_HEAD_BYTES + HR_SAVED_IDENTITY_BYTES_MAX];
    struct hr_store_key key = hr_saved_identity_key();
    size_t bytes = hr_saved_identity_encode(identity, payload);
    hr_record_encode(&key, (struct hr_span){(const char *)payload, bytes}, memory);
    MDB_val name = {key.bytes, key.at}, value = {HR_RECORD_HEAD_BYTES + bytes, memory};
    MDB_txn *txn;
    MDB_dbi dbi;
    int rc = mdb_txn_begin(env, NULL, 0, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_dbi_open(txn, NULL, 0, &dbi);
    if (rc == 0) {
        rc = mdb_put(txn, dbi, &name, &value, 0);
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

static int build_data(const char *dir, const struct hr_saved_identity *identity)
{
    MDB_env *env;
    int rc = mdb_env_create(&env);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_env_open(env, dir, MDB_NOLOCK, 0600); /* nobody else knows of it */
    if (rc == 0) {
        rc = put_identity(env, identity);
    }
    mdb_env_close(env);
    return rc;
}

/* Takes away what an attempt before this one may have left; as a rule there is nothing. */
static void clear_nursery(int dir_fd)
{
    (void)unlinkat(dir_fd, NURSERY_NAME "/" HR_STORE_DATA_NAME, 0);
    (void)unlinkat(dir_fd, NURSERY_NAME, AT_REMOVEDIR);
}

static int build_and_move(int dir_fd, const char *nursery, const struct hr_saved_identity *identity)
{
    clear_nursery(dir_fd);
    int rc = hr_store_make_dir(nursery);
    if (rc == 0) {
        rc = build_data(nursery, identity);
    }
    if (rc == 0 && renameat(dir_fd, NURSERY_NAME "/" HR_STORE_DATA_NAME, dir_fd, HR_STORE_DATA_NAME) != 0) {
        rc = errno;
    }
    clear_nursery(dir_fd);
    return rc != 0 || fsync(dir_fd) == 0 ? rc : errno;
}

int hr_store_make_lmdb(const char *dir, const struct hr_saved_identity *identity)
{
    char *nursery;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return errno;
    }
    int rc = ENOMEM;
    if (asprintf(&nursery, "%s/" NURSERY_NAME, dir) >= 0) {
        rc = build_and_move(dir_fd, nursery, identity);
        free(nursery);
    }
    (void)close(dir_fd);
    return rc;
}
