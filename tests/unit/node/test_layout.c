/* Layout: a store that is laid out for another number of workers, broken off at each write that this takes, and begun
 * again for one more number: nothing that was spent is lost, and nothing is charged twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "node/core_config.h"
#include "node/layout.h"
#include "rpc/told.h"
#include "storage/storage_memory.h"

#define CORES_MAX 5
#define USERS 300U
#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define CAPACITY 1000000U

/* One life of a node. */
struct life {
    uint32_t count;
    struct hr_core *cores[CORES_MAX];
    void *memory[CORES_MAX];
    size_t bytes;
    struct hr_store *store;
    struct hr_store_watch watch;
    uint64_t ticket;
    bool is_moved;
    struct hr_relayout relayout;
    struct hr_limit_set set;
    void *set_memory;
};

static const struct hr_now start = {START_NS, {START_NS}};
static const struct hr_span user_key = {"user", 4};
static const struct hr_limit limit = {.name = {"user", 4},
                                      .key = &user_key,
                                      .key_count = 1,
                                      .rule = {.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = CAPACITY},
                                      .durability = HR_PERIODIC};

static void on_done(void *user, const struct hr_store_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hr_store_watch_result(user, &results[i]);
    }
}

static void open_core(struct life *life, uint32_t number)
{
    const struct hr_core_config whole = {
        .shard = {.sizes = {.counters_max = 2048, .leases_max = 8, .log_blocks_max = 8, .limits_max = 4, .saves = true},
                  .secret = {{1}},
                  .node = HR_SPAN("eu-1"),
                  .region = HR_SPAN("eu"),
                  .flush_interval_ns = HR_NS_PER_S,
                  .waiting_max = 64,
                  .replies_bytes = 1U << 20,
                  .replies_max = 64,
                  .hot_keys_max = 8},
        .secret = {{1}},
        .is_alone = true,
        .rng_seed = 1,
    };
    struct hr_core_config config = hr_core_slice(&whole, (struct hr_slice){number, life->count});
    life->bytes = hr_core_bytes(&config);
    life->memory[number] =
        mmap(NULL, life->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(life->memory[number], MAP_FAILED);
    life->cores[number] = hr_core_init(&config, start, life->memory[number], life->bytes);
    assert_non_null(life->cores[number]);
    assert_int_equal(hr_core_load(life->cores[number], &life->set, start), HR_OK);
}

static enum hr_err visit(void *user, const struct hr_record *record)
{
    struct life *life = user;
    for (uint32_t i = 0; i < life->count; i++) {
        struct hr_shard *shard = hr_core_shard(life->cores[i]);
        assert_int_equal(life->is_moved ? hr_shard_restore_moved(shard, record, 0, start)
                                        : hr_shard_restore_counters(shard, record, 0, start),
                         HR_OK);
    }
    hr_relayout_note(&life->relayout, record);
    return HR_OK;
}

/* Restores what the disk holds, as the daemon does, and lays it out anew where that is for another number. */
static struct life *begin_life(struct hr_memory_disk *disk, uint32_t count, enum hr_err *ret_err)
{
    struct hr_store_loaded loaded;
    uint32_t laid_out_for;
    struct life *life = calloc(1, sizeof(*life));
    assert_non_null(life);
    life->count = count;
    assert_int_equal(uv_mutex_init(&life->watch.mutex), 0);
    life->store = hr_store_memory_open(disk, on_done, &life->watch);
    assert_non_null(life->store);
    size_t bytes = hr_limit_set_bytes(&limit, 1);
    life->set_memory = malloc(bytes);
    assert_int_equal(hr_limit_set_build(&life->set, &limit, 1, life->set_memory, bytes), HR_OK);
    for (uint32_t i = 0; i < count; i++) {
        open_core(life, i);
    }
    life->relayout = (struct hr_relayout){life->store, &life->watch, life->cores, count, &life->ticket, 0, 0};
    assert_int_equal(hr_layout_read(life->store, &laid_out_for), HR_OK);
    life->is_moved = laid_out_for != count;
    assert_int_equal(hr_store_load(life->store, HR_RECORD_COUNTER, visit, life, &loaded), HR_OK);
    assert_int_equal(loaded.bad, 0);
    *ret_err = life->is_moved ? hr_relayout_run(&life->relayout, start) : HR_OK;
    return life;
}

/* The process dies. */
static void end_life(struct life *life)
{
    hr_store_memory_crash(life->store);
    for (uint32_t i = 0; i < life->count; i++) {
        (void)munmap(life->memory[i], life->bytes);
    }
    uv_mutex_destroy(&life->watch.mutex);
    free(life->set_memory);
    free(life);
}

/* Asks the core that has the counter: the others say that they wait. Returns what is left after that cost. */
static uint64_t left_after(struct life *life, uint32_t user, uint64_t cost)
{
    static struct hr_params params;
    static struct hr_told_decision decision;
    char name[16], bytes[256], answer[4096];
    (void)snprintf(name, sizeof(name), "u%u", user);
    params = (struct hr_params){.cost = cost, .peek = cost == 0, .detail = true, .attribute_count = 1};
    params.present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(cost == 0 ? HR_PARAM_PEEK : HR_PARAM_COST);
    params.attributes[0] = (struct hr_attribute){user_key, hr_span_of(name)};
    params.cost = cost == 0 ? 1 : cost;
    struct hr_packer encoded = {.at = bytes, .room = sizeof(bytes)};
    hr_params_encode(&params, &encoded);
    const struct hr_call call = {.connection = 1, .method = HR_METHOD_CHECK, .params = hr_packer_bytes(&encoded)};
    for (uint32_t i = 0; i < life->count; i++) {
        struct hr_packer out = {.at = answer, .room = sizeof(answer)};
        struct hr_message message;
        if (hr_core_serve(life->cores[i], &call, start, &out) != HR_SERVED_ANSWERED) {
            continue;
        }
        assert_int_equal(hr_message_decode(hr_packer_bytes(&out), &message), HR_OK);
        struct hr_unpacker in = {message.result};
        assert_int_equal(hr_unpack_decision(&in, &decision), HR_OK);
        return decision.rows[0].remaining;
    }
    fail_msg("no core has user %u", user);
    return 0;
}

static void save_all(struct life *life)
{
    for (uint32_t i = 0; i < life->count; i++) {
        const struct hr_store_batch *batch;
        uint64_t ticket;
        while ((batch = hr_core_next_batch(life->cores[i], start, true, &ticket)) != NULL) {
            enum hr_err err =
                hr_store_watch_commit(&life->watch, life->store, HR_CONTROL_TICKETS | ++life->ticket, batch);
            assert_int_equal(err, HR_OK);
            hr_core_persisted(life->cores[i], ticket, err, start);
        }
    }
}

/* A disk on which `count` workers have saved that each user spent one more than the one before. */
static struct hr_memory_disk *disk_of(uint32_t count)
{
    enum hr_err err;
    struct hr_memory_disk *disk = hr_memory_disk_new();
    assert_non_null(disk);
    struct life *life = begin_life(disk, count, &err);
    assert_int_equal(err, HR_OK);
    for (uint32_t round = 0; round < 2; round++) { /* so that the log holds words that are not the last */
        for (uint32_t user = 0; user < USERS; user++) {
            (void)left_after(life, user, round == 0 ? 1 : user + 1);
        }
        save_all(life);
    }
    end_life(life);
    return disk;
}

static void expect_all_spent(struct life *life, unsigned number)
{
    for (uint32_t user = 0; user < USERS; user++) {
        uint64_t left = left_after(life, user, 0);
        if (left != CAPACITY - user - 2) {
            fail_msg("broken off at write %u: user %u has %llu left", number, user, (unsigned long long)left);
        }
    }
}

/* Returns whether it was broken off. */
static bool break_off(uint32_t before, uint32_t between, uint32_t after, unsigned number)
{
    enum hr_err err, again;
    struct hr_memory_disk *disk = disk_of(before);
    hr_memory_disk_set_faults(disk, (struct hr_memory_faults){.fail_op = number, .fail_err = HR_E_IO});
    end_life(begin_life(disk, between, &err));
    hr_memory_disk_set_faults(disk, (struct hr_memory_faults){0});
    struct life *life = begin_life(disk, after, &again);
    assert_int_equal(again, HR_OK);
    expect_all_spent(life, number);
    end_life(life);
    life = begin_life(disk, after, &again);
    assert_false(life->is_moved);
    expect_all_spent(life, number);
    end_life(life);
    hr_memory_disk_free(disk);
    return err != HR_OK;
}

static void a_layout_that_is_broken_off_at_any_write_loses_nothing(void **state)
{
    (void)state;
    static const uint32_t counts[][3] = {{1, 2, 2}, {1, 3, 1}, {2, 1, 1}, {2, 1, 2}, {2, 3, 2}, {4, 2, 5}, {3, 4, 1}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        unsigned number = 1;
        print_message("from %u workers to %u, then %u\n", counts[i][0], counts[i][1], counts[i][2]);
        while (break_off(counts[i][0], counts[i][1], counts[i][2], number)) {
            number++;
        }
        assert_true(number > 4); /* two words of the layout, a segment of each core, and an old one */
    }
}

static enum hr_err kept(void *user, const struct hr_record *record)
{
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    *(uint64_t *)user = hr_le_read_uint(&reader, 4);
    return HR_OK;
}

/* On the disk, a number alone is that of a layout of another kind. */
static void a_layout_of_several_workers_that_is_kept_as_a_bare_number_is_not_taken_for_ours(void **state)
{
    (void)state;
    uint8_t memory[256];
    struct hr_store_loaded loaded;
    struct hr_store_batch batch;
    uint64_t number = 0;
    uint32_t workers;
    enum hr_err err;
    struct hr_memory_disk *disk = disk_of(2);
    struct life *life = begin_life(disk, 2, &err);
    assert_int_equal(hr_store_load(life->store, HR_RECORD_META, kept, &number, &loaded), HR_OK);
    assert_int_equal(number, 0x102);
    const struct hr_store_key key = {.bytes = 7, .at = {HR_RECORD_META, 'l', 'a', 'y', 'o', 'u', 't'}};
    hr_batch_init(&batch, memory, sizeof(memory));
    assert_int_equal(hr_batch_put(&batch, &key, (struct hr_span){"\2\0\0\0", 4}), HR_OK);
    assert_int_equal(hr_store_watch_commit(&life->watch, life->store, HR_CONTROL_TICKETS | ++life->ticket, &batch),
                     HR_OK);
    assert_int_equal(hr_layout_read(life->store, &workers), HR_OK);
    assert_int_equal(workers, 0);
    end_life(life);
    hr_memory_disk_free(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_that_is_broken_off_at_any_write_loses_nothing),
        cmocka_unit_test(a_layout_of_several_workers_that_is_kept_as_a_bare_number_is_not_taken_for_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
