/* Down time: within one boot no step of the machine's clock changes what is known; after a reboot the clock is
 * believed, but never to say less than the time since boot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/control.h"
#include "node/down_time.h"
#include "storage/le.h"
#include "storage/storage_memory.h"

#define HOUR_NS (3600 * HR_NS_PER_S)
#define SLACK_NS (5 * HR_NS_PER_S) /* of a slow machine, between two readings of a clock */

static void on_done(void *user, const struct hr_store_result *results, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(results[i].err, HR_OK);
    }
}

static struct hr_store *open_store(struct hr_memory_disk **ret_disk)
{
    *ret_disk = hr_memory_disk_new();
    assert_non_null(*ret_disk);
    struct hr_store *store = hr_store_memory_open(*ret_disk, on_done, NULL);
    assert_non_null(store);
    return store;
}

/* What a process of another boot has left behind, or nonsense of some length. */
static void put_clock_record(struct hr_store *store, const char *boot_id, int64_t difference_ns, size_t bytes)
{
    uint8_t payload[64] = {0}, memory[512];
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    struct hr_store_key key;
    struct hr_store_batch batch;
    hr_le_write_bytes(&writer, boot_id, 36);
    hr_le_write_i64(&writer, difference_ns);
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_store_key_make(HR_RECORD_META, HR_SPAN("clock"), &key), HR_OK);
    assert_int_equal(hr_batch_put(&batch, &key, (struct hr_span){(const char *)payload, bytes}), HR_OK);
    assert_int_equal(hr_store_commit(store, 1, &batch), HR_OK);
    hr_store_settle(store);
}

static void put_own_record(struct hr_store *store, const struct hr_clock *clock)
{
    uint8_t memory[512];
    struct hr_store_batch batch;
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_down_time_put(clock, &batch), HR_OK);
    assert_int_equal(hr_store_commit(store, 1, &batch), HR_OK);
    hr_store_settle(store);
}

static void assert_near(int64_t is, int64_t wanted)
{
    if (is < wanted - SLACK_NS || is > wanted + SLACK_NS) {
        fail_msg("%ld, wanted %ld", (long)is, (long)wanted);
    }
}

/* The machine's clock was stepped while nobody ran: the next process would start with an anchor that is as far off. */
static void within_one_boot_a_stepped_clock_changes_nothing(void **state)
{
    static const int64_t steps[] = {0, HOUR_NS, -HOUR_NS, 24 * 365 * HOUR_NS};
    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct hr_memory_disk *disk;
        struct hr_store *store = open_store(&disk);
        struct hr_clock first, second;
        struct hr_down_time down;
        struct hr_problem problem;
        hr_clock_start(&first);
        put_own_record(store, &first);
        hr_ns saved_at = hr_clock_now(&first).steady;
        hr_clock_start(&second);
        second.anchor_ns += steps[i];
        assert_true(hr_down_time_read(store, &second, &down, &problem));
        assert_true(down.is_same_boot);
        assert_near(hr_down_time_since(&down, saved_at), 0);
        assert_near(hr_clock_now(&second).steady, hr_clock_now(&first).steady); /* one time for the records of both */
        assert_near(hr_down_time_since(&down, saved_at - HOUR_NS), HOUR_NS);
        assert_int_equal(hr_down_time_since(&down, saved_at + HOUR_NS), 0); /* never less than nothing */
        hr_store_close(store);
        hr_memory_disk_free(disk);
    }
}

static void after_a_reboot_the_clock_is_believed_but_not_below_the_time_since_boot(void **state)
{
    (void)state;
    struct hr_memory_disk *disk;
    struct hr_store *store = open_store(&disk);
    struct hr_clock clock;
    struct hr_down_time down;
    struct hr_problem problem;
    put_clock_record(store, "00000000-0000-4000-8000-000000000000", 123456789, 44);
    hr_clock_start(&clock);
    struct hr_now now = hr_clock_now(&clock);
    assert_true(hr_down_time_read(store, &clock, &down, &problem));
    assert_false(down.is_same_boot);
    assert_near(hr_clock_now(&clock).steady, now.steady);
    assert_true(down.since_boot_ns > 0);
    int64_t long_ago = down.since_boot_ns + HOUR_NS;
    assert_near(hr_down_time_since(&down, now.wall.ns - long_ago), long_ago);
    assert_int_equal(hr_down_time_since(&down, now.wall.ns + HOUR_NS), down.since_boot_ns);
    hr_store_close(store);
    hr_memory_disk_free(disk);
}

static void where_nothing_or_nonsense_is_written_it_is_as_after_a_reboot(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 46; bytes++) {
        struct hr_memory_disk *disk;
        struct hr_store *store = open_store(&disk);
        struct hr_clock clock;
        struct hr_down_time down;
        struct hr_problem problem;
        if (bytes > 0 && bytes != 44) {
            put_clock_record(store, "00000000-0000-4000-8000-000000000000", 0, bytes);
        }
        hr_clock_start(&clock);
        assert_true(hr_down_time_read(store, &clock, &down, &problem));
        assert_false(down.is_same_boot);
        hr_store_close(store);
        hr_memory_disk_free(disk);
    }
}

static void no_number_in_the_record_overflows(void **state)
{
    static const int64_t differences[] = {INT64_MIN, -1, 0, INT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++) {
        struct hr_memory_disk *disk;
        struct hr_store *store = open_store(&disk);
        struct hr_clock clock;
        struct hr_down_time down;
        struct hr_problem problem;
        put_clock_record(store, "00000000-0000-4000-8000-000000000000", differences[i], 44);
        hr_clock_start(&clock);
        assert_true(hr_down_time_read(store, &clock, &down, &problem));
        assert_true(down.old_now >= 0 && down.old_now <= HR_TIME_NS_MAX);
        assert_true(hr_down_time_since(&down, INT64_MIN) >= 0);
        assert_true(hr_down_time_since(&down, INT64_MAX) >= 0);
        hr_store_close(store);
        hr_memory_disk_free(disk);
    }
}

static void on_watched(void *user, const struct hr_store_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hr_store_watch_result(user, &results[i]);
    }
}

/* That a commit was answered is not enough: it must have been answered well. */
static void a_record_that_did_not_come_to_the_store_is_told(void **state)
{
    (void)state;
    static const enum hr_err errs[] = {HR_OK, HR_E_IO, HR_E_FULL, HR_OK};
    struct hr_store_watch watch = {0};
    struct hr_memory_disk *disk = hr_memory_disk_new();
    assert_non_null(disk);
    assert_int_equal(uv_mutex_init(&watch.mutex), 0);
    struct hr_store *store = hr_store_memory_open(disk, on_watched, &watch);
    assert_non_null(store);
    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
        uint8_t memory[512];
        struct hr_store_batch batch;
        struct hr_clock clock;
        hr_clock_start(&clock);
        hr_batch_init(&batch, memory, sizeof(memory));
        assert_int_equal(hr_down_time_put(&clock, &batch), HR_OK);
        hr_memory_disk_set_faults(disk, (struct hr_memory_faults){.fail_op = errs[i] != HR_OK, .fail_err = errs[i]});
        assert_int_equal(hr_store_watch_commit(&watch, store, HR_CONTROL_TICKETS | i, &batch), errs[i]);
    }
    hr_store_close(store);
    hr_memory_disk_free(disk);
    uv_mutex_destroy(&watch.mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_one_boot_a_stepped_clock_changes_nothing),
        cmocka_unit_test(after_a_reboot_the_clock_is_believed_but_not_below_the_time_since_boot),
        cmocka_unit_test(where_nothing_or_nonsense_is_written_it_is_as_after_a_reboot),
        cmocka_unit_test(no_number_in_the_record_overflows),
        cmocka_unit_test(a_record_that_did_not_come_to_the_store_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
