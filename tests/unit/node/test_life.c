/* Lives: each start is above all before it, whatever the clock says; and a record that makes no sense is no life. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gossip/life.h"
#include "node/life.h"
#include "storage/storage_memory.h"

#define NOW_S UINT64_C(1700000000)

static void ignore(void *user, const struct hr_store_result *results, size_t count)
{
    (void)user;
    (void)results;
    (void)count;
}

static void put(struct hr_store *store, uint64_t life)
{
    uint8_t memory[256];
    struct hr_store_batch batch;
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_life_put(life, &batch), HR_OK);
    assert_int_equal(hr_store_commit(store, 1, &batch), HR_OK);
    hr_store_settle(store);
}

static uint64_t next(struct hr_store *store, uint64_t seconds)
{
    uint64_t life = 0;
    struct hr_wall wall = {(int64_t)seconds * HR_NS_PER_S};
    assert_int_equal(hr_life_read(store, wall, &life), HR_OK);
    return life;
}

static void a_life_is_above_those_before_and_no_less_than_the_clock(void **state)
{
    (void)state;
    static const struct {
        uint64_t before, seconds, life; /* before 0: there is no record */
    } rows[] = {
        {0, NOW_S, NOW_S},
        {NOW_S - 100, NOW_S, NOW_S},
        {NOW_S, NOW_S, NOW_S + 1},
        {NOW_S + 5000, NOW_S, NOW_S + 5001}, /* the clock went back */
        {1, 0, 2},
        {HR_LIFE_MAX, NOW_S, HR_LIFE_MAX}, /* no further */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hr_memory_disk *disk = hr_memory_disk_new();
        struct hr_store *store = hr_store_memory_open(disk, ignore, NULL);
        if (rows[i].before > 0) {
            put(store, rows[i].before);
        }
        if (next(store, rows[i].seconds) != rows[i].life) {
            fail_msg("row %zu", i);
        }
        hr_store_close(store);
        hr_memory_disk_free(disk);
    }
}

static void a_record_that_makes_no_sense_is_no_life(void **state)
{
    (void)state;
    struct hr_memory_disk *disk = hr_memory_disk_new();
    struct hr_store *store = hr_store_memory_open(disk, ignore, NULL);
    put(store, (uint64_t)HR_LIFE_MAX + 1);
    assert_int_equal(next(store, NOW_S), NOW_S);
    hr_store_close(store);
    hr_memory_disk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_is_above_those_before_and_no_less_than_the_clock),
        cmocka_unit_test(a_record_that_makes_no_sense_is_no_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
