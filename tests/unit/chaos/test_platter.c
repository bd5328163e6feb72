#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "chaos/disk.h"

#define SEED 5
#define KEYS 3000

struct expected {
    bool is_there[KEYS];
    uint32_t value[KEYS], next, good;
};

static struct hr_store_key key_of(uint32_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct expected *expected = user;
    while (expected->next < KEYS && !expected->is_there[expected->next]) {
        expected->next++;
    }
    assert_true(expected->next < KEYS);
    struct hr_store_key key = key_of(expected->next);
    uint32_t value;
    assert_true(hr_span_equal(record->key, hr_store_key_span(&key)));
    assert_true(record->payload.bytes >= sizeof(value));
    memcpy(&value, record->payload.at, sizeof(value));
    assert_int_equal(value, expected->value[expected->next]);
    expected->next++;
    return HR_OK;
}

static void check_all(const struct hr_platter *platter, struct expected *expected)
{
    struct hr_store_loaded loaded;
    expected->next = 0;
    assert_int_equal(hr_platter_load(platter, HR_RECORD_COUNTER, visit, expected, &loaded), HR_OK);
    while (expected->next < KEYS) {
        assert_false(expected->is_there[expected->next++]);
    }
    assert_int_equal(loaded.bad, 0);
}

/* Values of different lengths, so that some grow where they lie. */
static void put_some(struct hr_store_batch *batch, struct expected *expected, struct hr_rng *rng)
{
    for (int i = 0; i < 500; i++) {
        uint32_t number = (uint32_t)hr_rng_below(rng, KEYS);
        struct hr_store_key key = key_of(number);
        char value[100] = {0};
        uint32_t drawn = (uint32_t)hr_rng_next(rng);
        expected->is_there[number] = drawn % 3 != 0;
        expected->value[number] = drawn;
        memcpy(value, &drawn, sizeof(drawn));
        if (expected->is_there[number]) {
            struct hr_span payload = {value, 4 + drawn % 90};
            assert_int_equal(hr_batch_put(batch, &key, payload), HR_OK);
        } else {
            assert_int_equal(hr_batch_delete(batch, &key), HR_OK);
        }
    }
}

static void a_platter_holds_the_last_value_of_each_key_in_the_order_of_keys(void **state)
{
    (void)state;
    static uint8_t memory[1U << 20];
    struct hr_platter platter = {0};
    struct expected *expected = calloc(1, sizeof(*expected));
    struct hr_rng rng = {SEED};
    assert_non_null(expected);
    for (int round = 0; round < 60; round++) {
        struct hr_store_batch batch;
        hr_batch_init(&batch, memory, sizeof(memory));
        put_some(&batch, expected, &rng);
        assert_int_equal(hr_platter_apply(&platter, &batch), HR_OK);
        check_all(&platter, expected);
    }
    hr_platter_deinit(&platter);
    free(expected);
}

static enum hr_err count_one(void *user, const struct hr_record *record)
{
    (void)record;
    (*(uint32_t *)user)++;
    return HR_OK;
}

static uint32_t count_of(const struct hr_sim_disk *disk)
{
    struct hr_store_loaded loaded;
    uint32_t count = 0;
    assert_int_equal(hr_platter_load(&disk->platter, HR_RECORD_COUNTER, count_one, &count, &loaded), HR_OK);
    return count;
}

static void commit_one(struct hr_sim_disk *disk, uint32_t number)
{
    static uint8_t memory[1024];
    struct hr_store_batch batch;
    struct hr_store_key key = key_of(number);
    hr_ns took_ns;
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_batch_put(&batch, &key, HR_SPAN("value")), HR_OK);
    assert_int_equal(hr_sim_disk_commit(disk, number, &batch, &took_ns), HR_OK);
    assert_true(took_ns > 0);
}

static void what_was_synced_survives_a_crash_and_the_rest_at_most_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct hr_sim_disk disk;
        struct hr_store_result result;
        hr_sim_disk_init(&disk, seed);
        commit_one(&disk, 1);
        assert_true(hr_sim_disk_sync(&disk, &result));
        assert_int_equal(result.err, HR_OK);
        commit_one(&disk, 2);
        commit_one(&disk, 3);
        hr_sim_disk_crash(&disk);
        uint32_t count = count_of(&disk);
        assert_in_range(count, 1, 3);
        assert_int_equal(count + disk.lost, 3);
        assert_false(hr_sim_disk_sync(&disk, &result));
        hr_sim_disk_deinit(&disk);
    }
}

static void a_disk_that_is_full_or_fails_says_so_and_keeps_what_it_has(void **state)
{
    (void)state;
    struct hr_sim_disk disk;
    struct hr_store_result result;
    hr_sim_disk_init(&disk, SEED);
    disk.state.is_full = true;
    commit_one(&disk, 1);
    assert_true(hr_sim_disk_sync(&disk, &result));
    assert_int_equal(result.err, HR_E_FULL);
    disk.state = (struct hr_sim_disk_state){1, 1, false, true};
    commit_one(&disk, 2);
    assert_true(hr_sim_disk_sync(&disk, &result));
    assert_int_equal(result.err, HR_E_IO);
    assert_int_equal(count_of(&disk), 0);
    hr_sim_disk_deinit(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_platter_holds_the_last_value_of_each_key_in_the_order_of_keys),
        cmocka_unit_test(what_was_synced_survives_a_crash_and_the_rest_at_most_in_order),
        cmocka_unit_test(a_disk_that_is_full_or_fails_says_so_and_keeps_what_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
