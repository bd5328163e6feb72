#include "storage/check_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/make_lmdb.h"
#include "storage/record.h"

/* No sound file takes so long to walk, of processor time: ten million records take three seconds. */
#define WALK_S_MAX 600

#define FREE_DBI 0 /* LMDB's own: the pages that each transaction freed */
#define META_PAGES 2

/* In each meta page, as LMDB 0.9 lays them out on a 64-bit machine. */
#define FREE_FLAGS_AT 44
#define MAIN_FLAGS_AT 92
#define LAST_PAGE_AT 136
#define TXN_AT 144
#define META_BYTES 152

/* How far the map reaches beyond the file: more than any key or value. One whose length is wrong then ends where
 * nothing is, which kills the child, and not in some other mapping, where it would look well. */
#define BEYOND_BYTES (1U << 20)

enum verdict { WHOLE, DAMAGED, UNKNOWN };

static bool ascends(struct hr_span before, struct hr_span after)
{
    size_t common = before.bytes < after.bytes ? before.bytes : after.bytes;
    int order = memcmp(before.at, after.at, common);
    return order < 0 || (order == 0 && before.bytes < after.bytes);
}

/* Reads every byte, so that a page that is not there is noticed. */
static uint8_t touch(MDB_val value)
{
    const uint8_t *at = value.mv_data;
    uint8_t sum = 0;
    for (size_t i = 0; i < value.mv_size; i++) {
        sum ^= at[i];
    }
    return sum;
}

/* In the head of each page, and how far a key lies behind its node's start, as LMDB 0.9 lays them out. */
#define FLAGS_AT 10
#define LOWER_AT 12
#define UPPER_AT 14
#define HEAD_BYTES 16
#define NODE_HEAD_BYTES 8
#define LEAF_FLAG 0x02U

static uint16_t read_u16(const char *at)
{
    uint16_t number;
    memcpy(&number, at, sizeof(number));
    return number;
}

/* Does the head of the leaf page that the key lies in tell the truth of its free space? LMDB believes it only when it
 * writes to the page, and then copies by it. */
static bool leaf_is_whole(MDB_val key)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)key.mv_data % page_bytes;
    const char *page = (const char *)key.mv_data - at;
    size_t node = at - NODE_HEAD_BYTES;
    uint16_t lower = read_u16(page + LOWER_AT), upper = read_u16(page + UPPER_AT);
    return at >= HEAD_BYTES + NODE_HEAD_BYTES && (read_u16(page + FLAGS_AT) & LEAF_FLAG) != 0 && lower > HEAD_BYTES &&
           lower <= upper && upper <= node;
}

/* The end of a walk that found this many: was it all? */
static int end_walk(int rc, size_t found, size_t wanted)
{
    return rc != MDB_NOTFOUND ? rc : found == wanted ? 0 : MDB_CORRUPTED;
}

static int walk_records(MDB_cursor *cursor, size_t wanted)
{
    struct hr_span before = {"", 0};
    MDB_val key, value;
    volatile uint8_t sum = 0;
    size_t found = 0;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; rc == 0; found++) {
        struct hr_span here = {key.mv_data, key.mv_size};
        if (here.bytes > HR_STORE_KEY_BYTES_MAX || value.mv_size > HR_RECORD_BYTES_MAX || !ascends(before, here) ||
            !leaf_is_whole(key)) {
            return MDB_CORRUPTED;
        }
        sum = (uint8_t)(sum ^ touch(value));
        before = here;
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    return end_walk(rc, found, wanted);
}

/* How many free pages, then their numbers, descending. */
static bool free_list_is_whole(MDB_val list, size_t last_page)
{
    size_t number, before = last_page + 1, count;
    if (list.mv_size < sizeof(count)) {
        return false;
    }
    memcpy(&count, list.mv_data, sizeof(count));
    if (count > list.mv_size / sizeof(number) - 1) {
        return false;
    }
    for (size_t i = 1; i <= count; i++) {
        memcpy(&number, (const char *)list.mv_data + i * sizeof(number), sizeof(number));
        if (number < META_PAGES || number >= before) {
            return false;
        }
        before = number;
    }
    return true;
}

static int walk_free_lists(MDB_cursor *cursor, size_t wanted, size_t last_page)
{
    MDB_val key, value;
    uint64_t txn, before = 0;
    size_t found = 0;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; rc == 0; found++) {
        if (key.mv_size != sizeof(txn) || !leaf_is_whole(key)) {
            return MDB_CORRUPTED;
        }
        memcpy(&txn, key.mv_data, sizeof(txn));
        if (txn <= before || !free_list_is_whole(value, last_page)) { /* pages in a circle would never end */
            return MDB_CORRUPTED;
        }
        before = txn;
        rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    return end_walk(rc, found, wanted);
}

static int walk(MDB_txn *txn, MDB_dbi dbi, size_t last_page)
{
    MDB_stat stat;
    MDB_cursor *cursor;
    int rc = mdb_stat(txn, dbi, &stat);
    if (rc == 0) {
        rc = mdb_cursor_open(txn, dbi, &cursor);
    }
    if (rc != 0) {
        return rc;
    }
    return dbi == FREE_DBI ? walk_free_lists(cursor, stat.ms_entries, last_page)
                           : walk_records(cursor, stat.ms_entries);
}

struct meta {
    uint16_t free_flags, main_flags; /* of the two databases: how they order their keys */
    uint64_t last_page, txn;
};

static bool read_meta(int fd, size_t page, struct meta *ret_meta)
{
    char bytes[META_BYTES];
    off_t at = (off_t)page * sysconf(_SC_PAGESIZE);
    if (pread(fd, bytes, sizeof(bytes), at) != (ssize_t)sizeof(bytes)) {
        return false;
    }
    memcpy(&ret_meta->free_flags, bytes + FREE_FLAGS_AT, sizeof(ret_meta->free_flags));
    memcpy(&ret_meta->main_flags, bytes + MAIN_FLAGS_AT, sizeof(ret_meta->main_flags));
    memcpy(&ret_meta->last_page, bytes + LAST_PAGE_AT, sizeof(ret_meta->last_page));
    memcpy(&ret_meta->txn, bytes + TXN_AT, sizeof(ret_meta->txn));
    return true;
}

/* LMDB writes the two meta pages in turn and believes the one of the later transaction. Damage to that number would
 * make it go back to an older state, whole in itself, without a word; but then the two are not next to each other any
 * more. A last page far beyond the file would only be noticed as a lack of memory. */
static bool metas_are_whole(int fd, uint64_t data_bytes)
{
    struct meta metas[META_PAGES];
    uint64_t pages = data_bytes / (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < META_PAGES; i++) {
        if (!read_meta(fd, i, &metas[i]) || metas[i].last_page / 2 > pages) {
            return false;
        }
        if (metas[i].free_flags != MDB_INTEGERKEY || metas[i].main_flags != 0) {
            return false;
        }
    }
    return metas[0].txn + 1 == metas[1].txn || metas[1].txn + 1 == metas[0].txn;
}

static int check_metas(const char *dir, size_t *ret_data_bytes)
{
    struct stat info;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir_fd < 0 ? -1 : openat(dir_fd, HR_STORE_DATA_NAME, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return EIO;
    }
    *ret_data_bytes = (size_t)info.st_size;
    return metas_are_whole(fd, *ret_data_bytes) ? 0 : MDB_CORRUPTED;
}

static int walk_all(MDB_env *env)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_envinfo info;
    int rc = mdb_env_info(env, &info);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_dbi_open(txn, NULL, 0, &dbi);
    if (rc != 0) {
        return rc;
    }
    rc = walk(txn, FREE_DBI, info.me_last_pgno);
    return rc != 0 ? rc : walk(txn, dbi, info.me_last_pgno);
}

/* The child ends with its verdict: nothing here is closed or freed. */
static enum verdict judge(const char *dir)
{
    MDB_env *env;
    size_t data_bytes;
    int rc = check_metas(dir, &data_bytes);
    if (rc == 0) {
        rc = mdb_env_create(&env);
    }
    if (rc == 0) {
        rc = mdb_env_set_mapsize(env, data_bytes + BEYOND_BYTES);
    }
    if (rc == 0) {
        rc = mdb_env_open(env, dir, MDB_RDONLY | MDB_NOLOCK, 0);
    }
    if (rc == 0) {
        rc = walk_all(env);
    }
    switch (rc) {
    case 0:
        return WHOLE;
    case ENOMEM:
    case EIO:
    case EACCES:
    case EMFILE:
    case ENFILE:
        return UNKNOWN;
    default:
        return DAMAGED; /* in the rest LMDB says what it found */
    }
}

/* A crash is an answer here: it is not to be reported, dumped, or handled by what the parent installed. */
static void expect_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    const struct rlimit none = {0, 0}, walk = {WALK_S_MAX, WALK_S_MAX + 1};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_CPU, &walk);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_DFL);
    }
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)dup2(fd, STDERR_FILENO); /* LMDB prints before it aborts */
    }
}

static enum hr_err err_of(int status)
{
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status) == WHOLE ? HR_OK : WEXITSTATUS(status) == DAMAGED ? HR_E_CORRUPT : HR_E_IO;
    }
    /* Killed from outside, for want of memory for instance, says nothing about the file. */
    return WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM ? HR_E_IO : HR_E_CORRUPT;
}

enum hr_err hr_store_check_lmdb(const char *dir)
{
    pid_t child = fork();
    if (child < 0) {
        return HR_E_IO;
    }
    if (child == 0) {
        expect_crashes();
        _exit((int)judge(dir));
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return HR_E_IO;
        }
    }
    return err_of(status);
}
