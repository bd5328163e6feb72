/* A real full disk: a small tmpfs, which root alone may mount. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "storage/storage_lmdb.h"
#include "tests/lib/temp_dir.h"

#define DISK_OPTIONS "size=4m"
#define PAYLOAD_BYTES 30000
#define RECORDS_MAX 1000

struct rig {
    struct temp_dir dir;
    struct hr_store *store;
    struct hr_store_batch batch;
    uint8_t memory[64 << 10];
    enum hr_err last; /* read after settle only */
};

static void note_results(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    rig->last = results[count - 1].err;
}

static void open_store(struct rig *rig)
{
    struct hr_store_problem problem = {""};
    struct hr_store_lmdb_options options = {
        .dir = rig->dir.store, .cluster = HR_SPAN("prod"), .node = HR_SPAN("eu-1"), .done = note_results, .user = rig};
    if (hr_store_lmdb_open(&options, &rig->store, &problem) != HR_OK) {
        fail_msg("%s", problem.text);
    }
}

static enum hr_err commit(struct rig *rig)
{
    assert_int_equal(hr_store_commit(rig->store, 1, &rig->batch), HR_OK);
    hr_batch_clear(&rig->batch);
    hr_store_settle(rig->store);
    return rig->last;
}

static struct hr_store_key key_of(uint64_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

static enum hr_err put(struct rig *rig, uint64_t number)
{
    static const char payload[PAYLOAD_BYTES];
    struct hr_store_key key = key_of(number);
    assert_int_equal(hr_batch_put(&rig->batch, &key, (struct hr_span){payload, sizeof(payload)}), HR_OK);
    return commit(rig);
}

static enum hr_err drop(struct rig *rig, uint64_t number)
{
    struct hr_store_key key = key_of(number);
    assert_int_equal(hr_batch_delete(&rig->batch, &key), HR_OK);
    return commit(rig);
}

static enum hr_err accept_any(void *user, const struct hr_record *record)
{
    (void)user;
    (void)record;
    return HR_OK;
}

static uint64_t count_records(struct rig *rig)
{
    struct hr_store_loaded loaded;
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, accept_any, NULL, &loaded), HR_OK);
    assert_int_equal(loaded.bad, 0);
    return loaded.good;
}

/* Puts until the disk is full. Returns how many were taken. */
static uint64_t fill(struct rig *rig)
{
    for (uint64_t i = 0; i < RECORDS_MAX; i++) {
        enum hr_err err = put(rig, i);
        if (err != HR_OK) {
            assert_int_equal(err, HR_E_FULL);
            return i;
        }
    }
    fail_msg("the disk was never full");
    return 0;
}

static void a_full_disk_is_called_full_and_deletes_make_room(void **state)
{
    struct rig *rig = *state;
    open_store(rig);
    uint64_t taken = fill(rig);
    assert_true(taken > 50);
    assert_int_equal(put(rig, taken), HR_E_FULL);
    assert_int_equal(count_records(rig), taken);
    for (uint64_t i = 0; i < 10; i++) {
        assert_int_equal(drop(rig, i), HR_OK);
    }
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(put(rig, i), HR_OK);
    }
    hr_store_close(rig->store);
    open_store(rig);
    assert_int_equal(count_records(rig), taken - 5);
    hr_store_close(rig->store);
}

static void room_that_others_make_is_used(void **state)
{
    struct rig *rig = *state;
    char path[TEMP_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/other", rig->dir.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(posix_fallocate(fd, 0, 1 << 20), 0);
    assert_int_equal(close(fd), 0);
    open_store(rig);
    uint64_t taken = fill(rig);
    assert_int_equal(unlink(path), 0);
    for (uint64_t i = taken; i < taken + 10; i++) {
        assert_int_equal(put(rig, i), HR_OK);
    }
    assert_int_equal(count_records(rig), taken + 10);
    hr_store_close(rig->store);
}

static void a_store_that_cannot_be_made_for_want_of_room_says_so(void **state)
{
    struct rig *rig = *state;
    char path[TEMP_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/other", rig->dir.path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    static const char page[4096];
    while (write(fd, page, sizeof(page)) > 0) {
    }
    assert_int_equal(close(fd), 0);
    struct hr_store_problem problem = {""};
    struct hr_store_lmdb_options options = {
        .dir = rig->dir.store, .cluster = HR_SPAN("prod"), .node = HR_SPAN("eu-1"), .done = note_results, .user = rig};
    assert_int_not_equal(hr_store_lmdb_open(&options, &rig->store, &problem), HR_OK);
    assert_non_null(strstr(problem.text, rig->dir.store));
    assert_int_equal(unlink(path), 0);
    open_store(rig);
    assert_int_equal(put(rig, 1), HR_OK);
    hr_store_close(rig->store);
}

static struct rig the_rig;

/* In a mount namespace of its own, so that nothing stays mounted whatever happens. */
static int mount_disk(void **state)
{
    temp_dir_make(&the_rig.dir);
    if (mount("none", the_rig.dir.path, "tmpfs", MS_NOSUID | MS_NODEV, DISK_OPTIONS) != 0) {
        return -1;
    }
    hr_batch_init(&the_rig.batch, the_rig.memory, sizeof(the_rig.memory));
    *state = &the_rig;
    return 0;
}

static int unmount_disk(void **state)
{
    (void)state;
    int rc = umount(the_rig.dir.path);
    temp_dir_remove(&the_rig.dir);
    return rc;
}

static bool may_mount(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, mount_disk, unmount_disk)
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_is_called_full_and_deletes_make_room),
        TEST(room_that_others_make_is_used),
        TEST(a_store_that_cannot_be_made_for_want_of_room_says_so),
    };
#undef TEST
    if (!may_mount()) {
        print_message("skipped: only root can mount the small disk that this test fills\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
