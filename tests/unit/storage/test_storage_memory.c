/* The store in memory: the suite, and the faults that it is there to inject. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "storage/storage_memory.h"
#include "tests/unit/storage/suite.h"

static void *new_disk(void)
{
    return hr_memory_disk_new();
}

static void free_disk(void *disk)
{
    hr_memory_disk_free(disk);
}

static struct hr_store *open_store(void *disk, uint64_t room_bytes, hr_store_done *done, void *user)
{
    hr_memory_disk_set_faults(disk, (struct hr_memory_faults){.bytes_max = room_bytes});
    return hr_store_memory_open(disk, done, user);
}

struct rig {
    struct hr_memory_disk *disk;
    struct hr_store *store;
    struct hr_store_batch batch;
    uint8_t memory[4096];
    size_t count;
    struct hr_store_result last;
};

static void note_results(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    rig->count += count;
    rig->last = results[count - 1];
}

static void open_rig(struct rig *rig)
{
    *rig = (struct rig){.disk = hr_memory_disk_new()};
    assert_non_null(rig->disk);
    hr_batch_init(&rig->batch, rig->memory, sizeof(rig->memory));
    rig->store = hr_store_memory_open(rig->disk, note_results, rig);
    assert_non_null(rig->store);
}

static void close_rig(struct rig *rig)
{
    hr_store_close(rig->store);
    hr_memory_disk_free(rig->disk);
}

static void put(struct rig *rig, uint64_t number)
{
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
    assert_int_equal(hr_batch_put(&rig->batch, &key, HR_SPAN("payload")), HR_OK);
}

static void commit(struct rig *rig)
{
    assert_int_equal(hr_store_commit(rig->store, rig->count + 1, &rig->batch), HR_OK);
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

static void nothing_takes_effect_before_it_is_run(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    for (uint64_t i = 0; i < 3; i++) {
        put(&rig, i);
        commit(&rig);
    }
    assert_int_equal(load(&rig).good, 0);
    assert_int_equal(rig.count, 0);
    assert_int_equal(hr_store_memory_run(rig.store, 2), 2);
    assert_int_equal(load(&rig).good, 2);
    assert_int_equal(rig.count, 2);
    close_rig(&rig);
    assert_int_equal(rig.count, 3);
}

static void a_crash_loses_what_was_not_run_and_keeps_the_rest(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig);
    put(&rig, 1);
    commit(&rig);
    hr_store_settle(rig.store);
    put(&rig, 2);
    commit(&rig);
    hr_store_memory_crash(rig.store);
    assert_int_equal(rig.count, 1);
    rig.store = hr_store_memory_open(rig.disk, note_results, &rig);
    assert_non_null(rig.store);
    assert_int_equal(load(&rig).good, 1);
    close_rig(&rig);
}

static void a_batch_fails_whole_whichever_of_its_operations_does(void **state)
{
    (void)state;
    for (uint64_t op = 1; op <= 6; op++) {
        struct rig rig;
        open_rig(&rig);
        put(&rig, 9);
        commit(&rig);
        hr_store_settle(rig.store);
        hr_memory_disk_set_faults(rig.disk, (struct hr_memory_faults){.fail_op = op, .fail_err = HR_E_IO});
        for (uint64_t i = 0; i < 5; i++) {
            put(&rig, i);
        }
        commit(&rig);
        hr_store_settle(rig.store);
        if (load(&rig).good != (op <= 5 ? 1U : 6U) || rig.last.err != (op <= 5 ? HR_E_IO : HR_OK)) {
            fail_msg("operation %d", (int)op);
        }
        put(&rig, 7); /* the fault, if it is still to come, comes now */
        commit(&rig);
        hr_store_settle(rig.store);
        assert_int_equal(rig.last.err, op == 6 ? HR_E_IO : HR_OK);
        close_rig(&rig);
    }
}

static void a_flipped_bit_is_found_by_the_next_load(void **state)
{
    (void)state;
    struct rig rig;
    struct hr_store_key key = hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, 1});
    open_rig(&rig);
    put(&rig, 1);
    commit(&rig);
    hr_store_settle(rig.store);
    size_t bits = 8 * (HR_RECORD_HEAD_BYTES + 7);
    for (size_t bit = 0; bit < bits; bit++) {
        assert_true(hr_memory_disk_flip(rig.disk, &key, bit));
        assert_int_equal(load(&rig).bad, 1);
        assert_true(hr_memory_disk_flip(rig.disk, &key, bit));
    }
    assert_false(hr_memory_disk_flip(rig.disk, &key, bits));
    assert_int_equal(load(&rig).good, 1);
    close_rig(&rig);
}

int main(void)
{
    static struct suite_driver driver = {"storage in memory", false, new_disk, free_disk, open_store};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_takes_effect_before_it_is_run),
        cmocka_unit_test(a_crash_loses_what_was_not_run_and_keeps_the_rest),
        cmocka_unit_test(a_batch_fails_whole_whichever_of_its_operations_does),
        cmocka_unit_test(a_flipped_bit_is_found_by_the_next_load),
    };
    int failed = suite_run(&driver);
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
