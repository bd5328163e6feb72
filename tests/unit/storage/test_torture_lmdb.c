/* Torture: every call that the store makes of LMDB, and every one that LMDB makes of the disk, is made to fail, each
 * time at one more place of one and the same script. After that, whatever was answered with HR_OK is on the disk, and
 * whatever was not is there whole or not at all; and the store serves on.
 *
 * LMDB's functions are caught by the linker's --wrap. The system's are caught by defining them here: the program's
 * own symbols come before those of the C library, for shared libraries too. */
#include <errno.h>
#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/le.h"
#include "storage/storage_lmdb.h"
#include "tests/lib/temp_dir.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TICKETS 10
#define CALLS_MAX 1000

enum site {
    NOWHERE,
    ENV_CREATE,
    ENV_SET_MAPSIZE,
    ENV_OPEN,
    DBI_OPEN,
    TXN_BEGIN,
    TXN_COMMIT,
    GET,
    PUT,
    DEL,
    CURSOR_OPEN,
    CURSOR_GET,
    PREAD,
    PWRITE,
    WRITEV,
    FDATASYNC,
    FSYNC,
};

/* Armed while no store is open, so the other fields need no lock. */
static enum site fault_site;
static int fault_code;
static bool fault_stays;     /* every later call at the site fails as well */
static struct fault_shared { /* with the child that checks the file */
    atomic_int calls_left;
    atomic_int count; /* how often it struck */
} * fault;

static void arm(enum site site, int call, int code, bool stays)
{
    fault_site = site;
    fault_code = code;
    fault_stays = stays;
    atomic_store(&fault->calls_left, call);
    atomic_store(&fault->count, 0);
}

/* The error that this call is to fail with, or 0. */
static int strike(enum site site)
{
    if (site != fault_site) {
        return 0;
    }
    int left = atomic_fetch_sub(&fault->calls_left, 1);
    if (left != 1 && !(left < 1 && fault_stays)) {
        return 0;
    }
    atomic_fetch_add(&fault->count, 1);
    return fault_code;
}

/* NOLINTBEGIN(bugprone-reserved-identifier, readability-inconsistent-declaration-parameter-name): the linker's names,
 * and the C library's functions under its own. */
#define WRAP(site, name, parameters, arguments)            \
    int __real_##name parameters;                          \
    int __wrap_##name parameters;                          \
    int __wrap_##name parameters                           \
    {                                                      \
        int code = strike(site);                           \
        return code != 0 ? code : __real_##name arguments; \
    }

WRAP(ENV_CREATE, mdb_env_create, (MDB_env * *env), (env))
WRAP(ENV_SET_MAPSIZE, mdb_env_set_mapsize, (MDB_env * env, size_t bytes), (env, bytes))
WRAP(ENV_OPEN, mdb_env_open, (MDB_env * env, const char *path, unsigned flags, mdb_mode_t mode),
     (env, path, flags, mode))
WRAP(DBI_OPEN, mdb_dbi_open, (MDB_txn * txn, const char *name, unsigned flags, MDB_dbi *dbi), (txn, name, flags, dbi))
WRAP(TXN_BEGIN, mdb_txn_begin, (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn),
     (env, parent, flags, txn))
WRAP(GET, mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *value), (txn, dbi, key, value))
WRAP(PUT, mdb_put, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *value, unsigned flags),
     (txn, dbi, key, value, flags))
WRAP(DEL, mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *value), (txn, dbi, key, value))
WRAP(CURSOR_OPEN, mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor), (txn, dbi, cursor))
WRAP(CURSOR_GET, mdb_cursor_get, (MDB_cursor * cursor, MDB_val *key, MDB_val *value, MDB_cursor_op op),
     (cursor, key, value, op))

int __real_mdb_txn_commit(MDB_txn *txn);
int __wrap_mdb_txn_commit(MDB_txn *txn);

/* A commit that fails ends its transaction all the same. */
int __wrap_mdb_txn_commit(MDB_txn *txn)
{
    int code = strike(TXN_COMMIT);
    if (code == 0) {
        return __real_mdb_txn_commit(txn);
    }
    mdb_txn_abort(txn);
    return code;
}

static bool system_fails(enum site site)
{
    int code = strike(site);
    if (code != 0) {
        errno = code;
    }
    return code != 0;
}

ssize_t pread(int fd, void *at, size_t bytes, off_t offset)
{
    return system_fails(PREAD) ? -1 : (ssize_t)syscall(SYS_pread64, fd, at, bytes, offset);
}

/* Half of it reaches the disk, then comes the error: the worst that a failed write can leave behind. */
ssize_t pwrite(int fd, const void *at, size_t bytes, off_t offset)
{
    if (system_fails(PWRITE)) {
        (void)syscall(SYS_pwrite64, fd, at, bytes / 2, offset);
        return -1;
    }
    return (ssize_t)syscall(SYS_pwrite64, fd, at, bytes, offset);
}

/* The first page is written and the rest is cut short, as on a disk that fills up. */
ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return (ssize_t)syscall(SYS_writev, fd, parts, system_fails(WRITEV) ? 1 : count);
}

int fdatasync(int fd)
{
    return system_fails(FDATASYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return system_fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

/* NOLINTEND(bugprone-reserved-identifier, readability-inconsistent-declaration-parameter-name) */

/* Ticket t puts its own number under keys 2t and 2t + 1; a failure of any lets `errs` say so. */
struct script {
    struct temp_dir dir;
    struct hr_store *store;
    enum hr_err errs[TICKETS];
    bool is_answered[TICKETS];
    uint64_t words[2 * TICKETS];
    bool has[2 * TICKETS];
};

static void note_results(void *user, const struct hr_store_result *results, size_t count)
{
    struct script *script = user;
    for (size_t i = 0; i < count; i++) {
        assert_true(results[i].ticket < TICKETS);
        assert_false(script->is_answered[results[i].ticket]);
        script->is_answered[results[i].ticket] = true;
        script->errs[results[i].ticket] = results[i].err;
    }
}

static enum hr_err open_store(struct script *script)
{
    struct hr_store_problem problem = {""};
    struct hr_store_lmdb_options options = {
        .dir = script->dir.store,
        .cluster = HR_SPAN("prod"),
        .node = HR_SPAN("eu-1"),
        .map_bytes_start = 128 << 10,
        .done = note_results,
        .user = script,
    };
    enum hr_err err = hr_store_lmdb_open(&options, &script->store, &problem);
    if (err != HR_OK && problem.text[0] == '\0') {
        fail_msg("refused without a word");
    }
    return err;
}

static struct hr_store_key key_of(uint64_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

static void commit(struct script *script, uint64_t ticket, size_t payload_bytes)
{
    static uint8_t memory[256 << 10], payload[HR_RECORD_PAYLOAD_BYTES_MAX];
    struct hr_store_batch batch;
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    struct hr_store_key first = key_of(2 * ticket), second = key_of(2 * ticket + 1), none = key_of(99);
    struct hr_span span = {(const char *)payload, payload_bytes};
    hr_le_write_u64(&writer, ticket);
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_batch_put(&batch, &first, span), HR_OK);
    assert_int_equal(hr_batch_delete(&batch, &none), HR_OK);
    assert_int_equal(hr_batch_put(&batch, &second, span), HR_OK);
    assert_int_equal(hr_store_commit(script->store, ticket, &batch), HR_OK);
}

static enum hr_err note_record(void *user, const struct hr_record *record)
{
    struct script *script = user;
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    size_t number = (uint8_t)record->key.at[16];
    assert_true(number < COUNT(script->has));
    script->has[number] = true;
    script->words[number] = hr_le_read_u64(&reader);
    return HR_OK;
}

static enum hr_err load(struct script *script)
{
    struct hr_store_loaded loaded;
    memset(script->has, 0, sizeof(script->has));
    enum hr_err err = hr_store_load(script->store, HR_RECORD_COUNTER, note_record, script, &loaded);
    assert_int_equal(loaded.bad, 0);
    return err;
}

/* Tickets one by one, then several at once, of which the large ones make the map grow; a load; and all of it once more
 * from a file that is there. Every fault falls somewhere in here. */
static void play(struct script *script)
{
    for (uint64_t ticket = 0; ticket < TICKETS; ticket += TICKETS / 2) {
        if (open_store(script) != HR_OK) {
            continue;
        }
        commit(script, ticket, 100);
        hr_store_settle(script->store);
        commit(script, ticket + 1, 60000);
        commit(script, ticket + 2, 100);
        commit(script, ticket + 3, 60000);
        hr_store_settle(script->store);
        (void)load(script); /* it may fail; what it may have lost is looked for at the end */
        commit(script, ticket + 4, 100);
        hr_store_close(script->store);
    }
}

static void check_aftermath(struct script *script)
{
    assert_int_equal(open_store(script), HR_OK);
    assert_int_equal(load(script), HR_OK);
    hr_store_close(script->store);
    for (size_t ticket = 0; ticket < TICKETS; ticket++) {
        bool is_there = script->has[2 * ticket];
        assert_int_equal(script->has[2 * ticket + 1], is_there);
        if (is_there) {
            assert_true(script->is_answered[ticket]);
            assert_int_equal(script->words[2 * ticket], ticket);
            assert_int_equal(script->words[2 * ticket + 1], ticket);
        } else {
            assert_true(!script->is_answered[ticket] || script->errs[ticket] != HR_OK);
        }
    }
}

static size_t count_failed(const struct script *script)
{
    size_t count = 0;
    for (size_t ticket = 0; ticket < TICKETS; ticket++) {
        count += script->is_answered[ticket] && script->errs[ticket] != HR_OK;
    }
    return count;
}

/* Runs the script with one fault. False: it never came to that call. */
static bool survive(const struct temp_dir *dir, enum site site, int call, int code, bool stays)
{
    struct script script = {.dir = *dir};
    arm(site, call, code, stays);
    play(&script);
    bool struck = atomic_load(&fault->count) > 0;
    arm(NOWHERE, 0, 0, false);
    check_aftermath(&script);
    assert_true(stays || count_failed(&script) <= 1); /* what shared its transaction was tried again */
    temp_dir_clear(dir);
    return struck;
}

static const struct {
    enum site site;
    const char *name;
    int codes[6];
} sites[] = {
    {ENV_CREATE, "mdb_env_create", {ENOMEM}},
    {ENV_SET_MAPSIZE, "mdb_env_set_mapsize", {ENOMEM, EINVAL}},
    {ENV_OPEN, "mdb_env_open", {ENOMEM, EIO, ENOSPC, EACCES, EAGAIN}},
    {DBI_OPEN, "mdb_dbi_open", {ENOMEM, EIO, MDB_BAD_TXN}},
    {TXN_BEGIN, "mdb_txn_begin", {ENOMEM, MDB_PANIC, MDB_READERS_FULL, MDB_MAP_RESIZED}},
    {TXN_COMMIT, "mdb_txn_commit", {ENOMEM, EIO, ENOSPC, MDB_MAP_FULL, MDB_PANIC, MDB_BAD_TXN}},
    {GET, "mdb_get", {ENOMEM, EIO, MDB_BAD_TXN}},
    {PUT, "mdb_put", {ENOMEM, EIO, ENOSPC, MDB_MAP_FULL, MDB_TXN_FULL, MDB_BAD_TXN}},
    {DEL, "mdb_del", {ENOMEM, EIO, ENOSPC, MDB_MAP_FULL, MDB_BAD_TXN}},
    {CURSOR_OPEN, "mdb_cursor_open", {ENOMEM}},
    {CURSOR_GET, "mdb_cursor_get", {EIO, MDB_CORRUPTED, MDB_PAGE_NOTFOUND}},
    {PREAD, "pread", {EIO}},
    {PWRITE, "pwrite", {EIO, ENOSPC}},
    {WRITEV, "writev", {EIO}},
    {FDATASYNC, "fdatasync", {EIO, ENOSPC}},
    {FSYNC, "fsync", {EIO}},
};

static void torture(bool stays)
{
    struct temp_dir dir = {.path = ""};
    temp_dir_make(&dir);
    for (size_t i = 0; i < COUNT(sites); i++) {
        int calls = 0;
        size_t codes = stays ? 1 : COUNT(sites[i].codes);
        for (size_t j = 0; j < codes && sites[i].codes[j] != 0; j++) {
            calls = 1;
            while (survive(&dir, sites[i].site, calls, sites[i].codes[j], stays)) {
                calls++;
                assert_true(calls < CALLS_MAX);
            }
        }
        print_message("%s: %d places\n", sites[i].name, calls - 1);
        assert_true(calls > 1); /* a site that is never reached tests nothing */
    }
    temp_dir_remove(&dir);
}

static void one_failure_anywhere_loses_nothing_that_was_answered(void **state)
{
    (void)state;
    torture(false);
}

static void a_failure_that_stays_loses_nothing_that_was_answered(void **state)
{
    (void)state;
    torture(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_anywhere_loses_nothing_that_was_answered),
        cmocka_unit_test(a_failure_that_stays_loses_nothing_that_was_answered),
    };
    fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fault == MAP_FAILED) {
        return 1;
    }
    if (access("/dev/shm", W_OK) == 0) {
        (void)setenv("TMPDIR", "/dev/shm",
                     0); /* what is synced is of no matter here, and thousands of syncs are slow */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
