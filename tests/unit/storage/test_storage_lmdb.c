/* The store on LMDB: the suite, and what only a store on disk can get wrong: whose it is, who else has it open, growth,
 * and files that are not what they were. */
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/identity.h"
#include "storage/storage_lmdb.h"
#include "tests/lib/temp_dir.h"
#include "tests/unit/storage/suite.h"

#define MIB (UINT64_C(1) << 20)

static void *new_disk(void)
{
    struct temp_dir *dir = malloc(sizeof(*dir));
    assert_non_null(dir);
    temp_dir_make(dir);
    return dir;
}

static void free_disk(void *disk)
{
    temp_dir_remove(disk);
    free(disk);
}

static struct hr_store_lmdb_options options_of(const struct temp_dir *dir)
{
    return (struct hr_store_lmdb_options){.dir = dir->store, .cluster = HR_SPAN("prod"), .node = HR_SPAN("eu-1")};
}

static struct hr_store *open_for_suite(void *disk, uint64_t room_bytes, hr_store_done *done, void *user)
{
    struct hr_store_lmdb_options options = options_of(disk);
    struct hr_store *store;
    struct hr_store_problem problem = {""};
    options.map_bytes_max = room_bytes;
    options.map_bytes_start = MIB / 4; /* so that every test that writes much grows it */
    options.done = done;
    options.user = user;
    if (hr_store_lmdb_open(&options, &store, &problem) != HR_OK) {
        fail_msg("%s", problem.text);
    }
    return store;
}

/* A store with the last result. The lock: results come from another thread. */
struct rig {
    struct temp_dir dir;
    struct hr_store_lmdb_options options;
    struct hr_store *store;
    struct hr_store_batch batch;
    uint8_t memory[MIB];
    pthread_mutex_t lock;
    struct hr_store_result last;
};

static void note_results(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->lock);
    rig->last = results[count - 1];
    pthread_mutex_unlock(&rig->lock);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    temp_dir_make(&rig->dir);
    pthread_mutex_init(&rig->lock, NULL);
    hr_batch_init(&rig->batch, rig->memory, sizeof(rig->memory));
    rig->options = options_of(&rig->dir);
    rig->options.done = note_results;
    rig->options.user = rig;
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    temp_dir_remove(&rig->dir);
    pthread_mutex_destroy(&rig->lock);
    free(rig);
    return 0;
}

static void open_store(struct rig *rig)
{
    struct hr_store_problem problem = {""};
    if (hr_store_lmdb_open(&rig->options, &rig->store, &problem) != HR_OK) {
        fail_msg("%s", problem.text);
    }
}

/* Wants the store refused with this error, in words that hold this text and name the directory. */
static void expect_refusal(struct rig *rig, enum hr_err err, const char *text)
{
    struct hr_store *store = NULL;
    struct hr_store_problem problem = {""};
    assert_int_equal(hr_store_lmdb_open(&rig->options, &store, &problem), err);
    assert_null(store);
    if (strstr(problem.text, text) == NULL || strstr(problem.text, rig->options.dir) == NULL) {
        fail_msg("'%s' does not say '%s'", problem.text, text);
    }
}

static void put(struct rig *rig, uint64_t number, const void *payload, size_t bytes)
{
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
    assert_int_equal(hr_batch_put(&rig->batch, &key, (struct hr_span){payload, bytes}), HR_OK);
}

static void commit(struct rig *rig)
{
    while (hr_store_commit(rig->store, 1, &rig->batch) == HR_E_FULL) {
        hr_store_settle(rig->store);
    }
    hr_batch_clear(&rig->batch);
}

static enum hr_err accept_any(void *user, const struct hr_record *record)
{
    (void)user;
    (void)record;
    return HR_OK;
}

static struct hr_store_loaded load(struct rig *rig)
{
    struct hr_store_loaded loaded;
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, accept_any, NULL, &loaded), HR_OK);
    return loaded;
}

/* A store with `count` records of about 100 bytes, closed. */
static void make_store(struct rig *rig, uint64_t count)
{
    char payload[100] = "x";
    open_store(rig);
    for (uint64_t i = 0; i < count; i++) {
        put(rig, i, payload, sizeof(payload));
    }
    commit(rig);
    hr_store_close(rig->store);
    assert_int_equal(rig->last.err, HR_OK);
}

/* Puts, or deletes where value is NULL, behind the store's back. */
static void write_raw(struct rig *rig, const struct hr_store_key *key, void *value, size_t bytes)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    struct hr_store_key copy = *key;
    MDB_val name = {copy.bytes, copy.at}, data = {bytes, value};
    assert_int_equal(mdb_env_create(&env), 0);
    assert_int_equal(mdb_env_open(env, rig->dir.store, 0, 0600), 0);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
    assert_int_equal(value == NULL ? mdb_del(txn, dbi, &name, NULL) : mdb_put(txn, dbi, &name, &data, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void the_directory_is_made_for_its_owner_alone(void **state)
{
    struct rig *rig = *state;
    struct stat info;
    make_store(rig, 1);
    assert_int_equal(stat(rig->dir.store, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(rig->dir.data, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void a_directory_that_cannot_be_made_or_used_is_named(void **state)
{
    struct rig *rig = *state;
    char path[TEMP_PATH_BYTES + 32];
    (void)snprintf(path, sizeof(path), "%s/missing/store", rig->dir.path);
    rig->options.dir = path;
    expect_refusal(rig, HR_E_IO, "No such file");
    rig->options.dir = rig->dir.store;
    make_store(rig, 1);
    rig->options.dir = rig->dir.data;
    expect_refusal(rig, HR_E_IO, "Not a directory");
}

static void a_store_that_is_open_is_not_opened_again(void **state)
{
    struct rig *rig = *state;
    open_store(rig);
    expect_refusal(rig, HR_E_IO, "is open in another process");
    pid_t pid = fork();
    if (pid == 0) {
        struct hr_store *store;
        struct hr_store_problem problem = {""};
        _exit(hr_store_lmdb_open(&rig->options, &store, &problem) == HR_E_IO ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    hr_store_close(rig->store);
    make_store(rig, 1); /* and once it is closed, it is */
}

static void a_store_of_another_node_or_cluster_is_refused(void **state)
{
    struct rig *rig = *state;
    make_store(rig, 1);
    rig->options.node = HR_SPAN("eu-2");
    expect_refusal(rig, HR_E_NOT_FOUND, "belongs to node eu-1 of cluster prod");
    rig->options.node = HR_SPAN("eu-1");
    rig->options.cluster = HR_SPAN("test");
    expect_refusal(rig, HR_E_NOT_FOUND, "belongs to node eu-1 of cluster prod");
}

static void a_name_that_is_too_long_is_refused(void **state)
{
    struct rig *rig = *state;
    char name[HR_STORE_NAME_BYTES_MAX + 1];
    memset(name, 'n', sizeof(name));
    struct hr_store *store;
    struct hr_store_problem problem = {""};
    rig->options.node = (struct hr_span){name, sizeof(name)};
    assert_int_equal(hr_store_lmdb_open(&rig->options, &store, &problem), HR_E_RANGE);
    rig->options.node.bytes--;
    make_store(rig, 1);
    make_store(rig, 2);
}

static void write_format(struct rig *rig, uint32_t format)
{
    struct hr_saved_identity identity = {format, HR_SPAN("prod"), HR_SPAN("eu-1")};
    struct hr_store_key key = hr_saved_identity_key();
    uint8_t payload[HR_SAVED_IDENTITY_BYTES_MAX], value[HR_RECORD_HEAD_BYTES + sizeof(payload)];
    size_t bytes = hr_saved_identity_encode(&identity, payload);
    hr_record_encode(&key, (struct hr_span){(const char *)payload, bytes}, value);
    write_raw(rig, &key, value, HR_RECORD_HEAD_BYTES + bytes);
}

static void a_store_of_another_format_is_refused(void **state)
{
    struct rig *rig = *state;
    make_store(rig, 1);
    write_format(rig, HR_STORE_FORMAT + 1);
    expect_refusal(rig, HR_E_INVALID, "newer version");
    write_format(rig, HR_STORE_FORMAT - 1);
    expect_refusal(rig, HR_E_INVALID, "older version of this program (format 1, not 2)");
}

static void a_store_without_a_whole_identity_is_damaged(void **state)
{
    struct rig *rig = *state;
    struct hr_store_key key = hr_saved_identity_key();
    make_store(rig, 1);
    char value[] = "no record at all";
    write_raw(rig, &key, value, sizeof(value));
    expect_refusal(rig, HR_E_CORRUPT, "damaged (its identity): move it away or restore it");
    write_raw(rig, &key, NULL, 0);
    expect_refusal(rig, HR_E_CORRUPT, "damaged");
}

static void a_file_that_is_no_store_is_damaged(void **state)
{
    struct rig *rig = *state;
    static char garbage[65536];
    make_store(rig, 1);
    memset(garbage, 0x5a, sizeof(garbage));
    int fd = open(rig->dir.data, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
    assert_int_equal(close(fd), 0);
    expect_refusal(rig, HR_E_CORRUPT, "is damaged");
}

static void the_map_grows_while_others_commit_and_load(void **state)
{
    struct rig *rig = *state;
    static const char payload[60000];
    rig->options.map_bytes_start = MIB / 4;
    open_store(rig);
    for (uint64_t i = 0; i < 400; i++) {
        put(rig, i, payload, sizeof(payload));
        commit(rig);
        if (i % 20 == 0) {
            assert_true(load(rig).good <= i + 1);
        }
    }
    hr_store_settle(rig->store);
    assert_int_equal(load(rig).good, 400);
    hr_store_close(rig->store);
    assert_int_equal(rig->last.err, HR_OK);
    open_store(rig); /* the file is larger than the map's start */
    assert_int_equal(load(rig).good, 400);
    hr_store_close(rig->store);
}

static void a_commit_says_how_long_it_took(void **state)
{
    struct rig *rig = *state;
    make_store(rig, 1);
    assert_true(rig->last.took_ns > 0);
}

int main(void)
{
    static struct suite_driver driver = {"storage on LMDB", true, new_disk, free_disk, open_for_suite};
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_directory_is_made_for_its_owner_alone),   TEST(a_directory_that_cannot_be_made_or_used_is_named),
        TEST(a_store_that_is_open_is_not_opened_again),    TEST(a_store_of_another_node_or_cluster_is_refused),
        TEST(a_name_that_is_too_long_is_refused),          TEST(a_store_of_another_format_is_refused),
        TEST(a_store_without_a_whole_identity_is_damaged), TEST(a_file_that_is_no_store_is_damaged),
        TEST(the_map_grows_while_others_commit_and_load),  TEST(a_commit_says_how_long_it_took),
    };
#undef TEST
    int failed = suite_run(&driver);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
