#include "tests/unit/storage/suite.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "storage/le.h"

#define ROOM_BYTES (1U << 20)
#define RESULTS_MAX 4096
#define SLOTS 64

/* A store at work, and every result that it gave. */
struct rig {
    const struct suite_driver *driver;
    void *disk;
    struct hr_store *store;
    struct hr_store_batch batch;
    uint64_t ticket; /* the last that was given */

    pthread_mutex_t lock; /* guards what follows: results come from another thread */
    pthread_cond_t changed;
    bool is_held, is_inside; /* the callback shall wait; it does */
    size_t count;
    struct hr_store_result results[RESULTS_MAX];
};

static void note_results(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    pthread_mutex_lock(&rig->lock);
    assert_true(rig->count + count <= RESULTS_MAX);
    memcpy(&rig->results[rig->count], results, count * sizeof(*results));
    rig->count += count;
    rig->is_inside = true;
    pthread_cond_broadcast(&rig->changed);
    while (rig->is_held) {
        pthread_cond_wait(&rig->changed, &rig->lock);
    }
    rig->is_inside = false;
    pthread_mutex_unlock(&rig->lock);
}

static void open_store(struct rig *rig, uint64_t room_bytes)
{
    rig->store = rig->driver->open(rig->disk, room_bytes, note_results, rig);
    assert_non_null(rig->store);
}

static void reopen_store(struct rig *rig)
{
    hr_store_close(rig->store);
    open_store(rig, 0);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    rig->driver = *state;
    pthread_mutex_init(&rig->lock, NULL);
    pthread_cond_init(&rig->changed, NULL);
    hr_batch_init(&rig->batch, malloc(HR_STORE_QUEUE_BYTES), HR_STORE_QUEUE_BYTES);
    assert_non_null(rig->batch.memory);
    rig->disk = rig->driver->new_disk();
    open_store(rig, 0);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    hr_store_close(rig->store);
    rig->driver->free_disk(rig->disk);
    pthread_cond_destroy(&rig->changed);
    pthread_mutex_destroy(&rig->lock);
    free(rig->batch.memory);
    free(rig);
    return 0;
}

static struct hr_store_key key_of(uint64_t number)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, number});
}

static void put(struct rig *rig, uint64_t number, const void *payload, size_t bytes)
{
    struct hr_store_key key = key_of(number);
    assert_int_equal(hr_batch_put(&rig->batch, &key, (struct hr_span){payload, bytes}), HR_OK);
}

static void put_word(struct rig *rig, uint64_t number, uint64_t word)
{
    uint8_t out[8];
    struct hr_le_writer writer = hr_le_writer_of(out, sizeof(out));
    hr_le_write_u64(&writer, word);
    put(rig, number, out, sizeof(out));
}

static void drop(struct rig *rig, uint64_t number)
{
    struct hr_store_key key = key_of(number);
    assert_int_equal(hr_batch_delete(&rig->batch, &key), HR_OK);
}

/* Commits what was put together, under the next ticket, and starts a new batch. */
static enum hr_err try_commit(struct rig *rig)
{
    enum hr_err err = hr_store_commit(rig->store, rig->ticket + 1, &rig->batch);
    rig->ticket += err == HR_OK;
    hr_batch_clear(&rig->batch);
    return err;
}

static void commit(struct rig *rig)
{
    assert_int_equal(try_commit(rig), HR_OK);
}

/* The result of the last ticket, once every ticket has one, in order. */
static enum hr_err settle(struct rig *rig)
{
    hr_store_settle(rig->store);
    assert_int_equal(rig->count, rig->ticket);
    for (size_t i = 0; i < rig->count; i++) {
        if (rig->results[i].ticket != i + 1) {
            fail_msg("result %zu is of ticket %llu", i, (unsigned long long)rig->results[i].ticket);
        }
    }
    return rig->results[rig->count - 1].err;
}

static enum hr_err commit_alone(struct rig *rig)
{
    commit(rig);
    return settle(rig);
}

/* From here to release, what is committed waits together. */
static void hold(struct rig *rig)
{
    if (!rig->driver->has_thread) {
        return;
    }
    pthread_mutex_lock(&rig->lock);
    rig->is_held = true;
    pthread_mutex_unlock(&rig->lock);
    commit(rig);
    pthread_mutex_lock(&rig->lock);
    while (!rig->is_inside) {
        pthread_cond_wait(&rig->changed, &rig->lock);
    }
    pthread_mutex_unlock(&rig->lock);
}

static void release(struct rig *rig)
{
    pthread_mutex_lock(&rig->lock);
    rig->is_held = false;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

/* What a load found: counters by number, 8-byte payloads as words, of others the length. */
struct found {
    struct hr_store_loaded loaded;
    uint64_t last;
    bool has[SLOTS];
    uint64_t words[SLOTS];
    enum hr_err stop_at_2;
};

static enum hr_err note_record(void *user, const struct hr_record *record)
{
    struct found *found = user;
    assert_int_equal(record->kind, HR_RECORD_COUNTER);
    assert_int_equal(record->key.bytes, 17);
    uint64_t number = (uint8_t)record->key.at[16];
    assert_true(number < SLOTS);
    assert_true(number > found->last || (number == 0 && !found->has[0]));
    found->last = number;
    if (number == 2 && found->stop_at_2 != HR_OK) {
        return found->stop_at_2;
    }
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    found->has[number] = true;
    found->words[number] = record->payload.bytes == 8 ? hr_le_read_u64(&reader) : record->payload.bytes;
    return HR_OK;
}

static struct found load(struct rig *rig)
{
    struct found found = {.last = 0};
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, note_record, &found, &found.loaded), HR_OK);
    return found;
}

static void tickets_are_answered_once_each_in_order(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 0; i < 500; i++) {
        put_word(rig, i % SLOTS, i);
        if (try_commit(rig) == HR_E_FULL) {
            settle(rig);
        }
    }
    assert_int_equal(settle(rig), HR_OK);
    for (size_t i = 0; i < rig->count; i++) {
        assert_int_equal(rig->results[i].err, HR_OK);
    }
}

static void a_batch_is_there_whole_after_reopening(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 0; i < SLOTS; i++) {
        put_word(rig, i, 1000 + i);
    }
    assert_int_equal(commit_alone(rig), HR_OK);
    reopen_store(rig);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, SLOTS);
    assert_int_equal(found.loaded.bad, 0);
    for (uint64_t i = 0; i < SLOTS; i++) {
        assert_int_equal(found.words[i], 1000 + i);
    }
}

static void the_later_write_of_a_key_holds(void **state)
{
    struct rig *rig = *state;
    put_word(rig, 1, 10);
    put_word(rig, 1, 11);
    put_word(rig, 2, 20);
    drop(rig, 2);
    drop(rig, 3);
    put_word(rig, 3, 30);
    put_word(rig, 4, 40);
    commit(rig);
    put_word(rig, 4, 41);
    put(rig, 5, NULL, 0);
    commit(rig);
    drop(rig, 1);
    drop(rig, 9);
    assert_int_equal(commit_alone(rig), HR_OK);
    reopen_store(rig);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, 3);
    assert_int_equal(found.words[3], 30);
    assert_int_equal(found.words[4], 41);
    assert_true(found.has[5]);
    assert_int_equal(found.words[5], 0);
}

static void a_load_visits_one_kind_only(void **state)
{
    struct rig *rig = *state;
    for (unsigned kind = HR_RECORD_META; kind <= HR_RECORD_REPLY; kind++) {
        struct hr_store_key longest;
        char which[HR_STORE_KEY_BYTES_MAX - 1];
        memset(which, 0xff, sizeof(which));
        assert_int_equal(hr_store_key_make((enum hr_record_kind)kind, (struct hr_span){which, sizeof(which)}, &longest),
                         HR_OK);
        if (kind != HR_RECORD_COUNTER) {
            assert_int_equal(hr_batch_put(&rig->batch, &longest, HR_SPAN("other")), HR_OK);
        }
    }
    put_word(rig, 0, 7);
    assert_int_equal(commit_alone(rig), HR_OK);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, 1);
    assert_int_equal(found.words[0], 7);
}

static void an_empty_batch_gets_its_result_in_turn(void **state)
{
    struct rig *rig = *state;
    put_word(rig, 1, 1);
    commit(rig);
    commit(rig);
    put_word(rig, 2, 2);
    commit(rig);
    assert_int_equal(commit_alone(rig), HR_OK);
    assert_int_equal(load(rig).loaded.good, 2);
}

static void large_values_and_large_batches_fit(void **state)
{
    struct rig *rig = *state;
    static char payload[HR_RECORD_PAYLOAD_BYTES_MAX];
    memset(payload, 'x', sizeof(payload));
    for (uint64_t i = 0; i < SLOTS; i++) {
        put(rig, i, payload, sizeof(payload) - i);
    }
    assert_int_equal(commit_alone(rig), HR_OK);
    reopen_store(rig);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, SLOTS);
    for (uint64_t i = 0; i < SLOTS; i++) {
        assert_int_equal(found.words[i], sizeof(payload) - i);
    }
}

static void a_batch_larger_than_the_queue_is_refused(void **state)
{
    struct rig *rig = *state;
    struct hr_store_batch batch = rig->batch;
    batch.bytes = HR_STORE_QUEUE_BYTES + 1;
    assert_int_equal(hr_store_commit(rig->store, 1, &batch), HR_E_RANGE);
    assert_int_equal(commit_alone(rig), HR_OK);
}

/* Puts until the store is full, and returns how many were taken. */
static uint64_t fill(struct rig *rig, uint64_t begin)
{
    static const char payload[40000];
    for (uint64_t i = begin; i < SLOTS; i++) {
        put(rig, i, payload, sizeof(payload));
        enum hr_err err = commit_alone(rig);
        if (err != HR_OK) {
            assert_int_equal(err, HR_E_FULL);
            return i;
        }
    }
    fail_msg("the store was never full");
    return 0;
}

static void a_full_store_keeps_what_it_has_and_serves_again_once_there_is_room(void **state)
{
    struct rig *rig = *state;
    hr_store_close(rig->store);
    open_store(rig, ROOM_BYTES);
    uint64_t taken = fill(rig, 0);
    assert_true(taken > 4);
    assert_int_equal(load(rig).loaded.good, taken);
    for (uint64_t i = 0; i < taken / 2; i++) {
        drop(rig, i);
        assert_int_equal(commit_alone(rig), HR_OK);
    }
    assert_int_equal(load(rig).loaded.good, taken - taken / 2);
    static const char payload[40000];
    for (uint64_t i = 0; i + 3 < taken / 2; i++) {
        put(rig, i, payload, sizeof(payload));
        if (commit_alone(rig) != HR_OK) {
            fail_msg("put %llu of %llu", (unsigned long long)i, (unsigned long long)taken);
        }
    }
    uint64_t good = load(rig).loaded.good;
    reopen_store(rig);
    assert_int_equal(load(rig).loaded.good, good);
}

static void a_batch_that_fails_leaves_its_neighbours_alone(void **state)
{
    struct rig *rig = *state;
    static const char payload[60000];
    hr_store_close(rig->store);
    open_store(rig, ROOM_BYTES);
    hold(rig);
    put_word(rig, 40, 1);
    commit(rig);
    put_word(rig, 41, 2);
    for (uint64_t i = 0; i < 20; i++) {
        put(rig, i, payload, sizeof(payload));
    }
    commit(rig);
    uint64_t ticket = rig->ticket;
    put_word(rig, 42, 3);
    commit(rig);
    release(rig);
    assert_int_equal(settle(rig), HR_OK);
    assert_int_equal(rig->results[ticket - 2].err, HR_OK);
    assert_int_equal(rig->results[ticket - 1].err, HR_E_FULL);
    reopen_store(rig);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, 2);
    assert_int_equal(found.words[40], 1);
    assert_int_equal(found.words[42], 3);
}

static void what_waits_is_bounded(void **state)
{
    struct rig *rig = *state;
    hold(rig);
    uint64_t begin = rig->ticket;
    while (rig->ticket < begin + HR_STORE_TICKETS_MAX) {
        commit(rig);
    }
    assert_int_equal(try_commit(rig), HR_E_FULL);
    release(rig);
    assert_int_equal(settle(rig), HR_OK);

    static const char payload[HR_RECORD_PAYLOAD_BYTES_MAX];
    hold(rig);
    enum hr_err err = HR_OK;
    size_t bytes = 0;
    while (err == HR_OK) {
        put(rig, 1, payload, sizeof(payload));
        bytes += rig->batch.bytes;
        err = try_commit(rig);
    }
    assert_int_equal(err, HR_E_FULL);
    assert_true(bytes > HR_STORE_QUEUE_BYTES);
    release(rig);
    assert_int_equal(settle(rig), HR_OK);
}

static void close_answers_what_still_waits(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 0; i < 20; i++) {
        put_word(rig, i, i);
        commit(rig);
    }
    hr_store_close(rig->store);
    assert_int_equal(rig->count, 20);
    open_store(rig, 0);
    assert_int_equal(load(rig).loaded.good, 20);
}

static void the_batch_is_the_callers_again_once_it_is_committed(void **state)
{
    struct rig *rig = *state;
    hold(rig);
    put_word(rig, 1, 77);
    commit(rig);
    memset(rig->batch.memory, 0xee, 4096);
    release(rig);
    assert_int_equal(settle(rig), HR_OK);
    assert_int_equal(load(rig).words[1], 77);
}

/* It may lie among others that are copies. */
static void a_lent_batch_is_the_callers_again_once_it_is_answered(void **state)
{
    struct rig *rig = *state;
    struct hr_store_batch copied = rig->batch;
    hold(rig);
    put_word(rig, 1, 76);
    put_word(rig, 2, 78);
    commit(rig);
    rig->batch.memory += ROOM_BYTES / 2;
    rig->batch.bytes_max = ROOM_BYTES / 2;
    put_word(rig, 1, 77);
    rig->batch.is_lent = true;
    assert_int_equal(hr_store_commit(rig->store, ++rig->ticket, &rig->batch), HR_OK);
    memset(copied.memory, 0xee, 4096);
    release(rig);
    assert_int_equal(settle(rig), HR_OK);
    memset(rig->batch.memory, 0xee, 4096);
    rig->batch = copied;
    struct found found = load(rig);
    assert_int_equal(found.words[1], 77);
    assert_int_equal(found.words[2], 78);
}

/* The last record's payload ends where the batch does. */
static void damage_last(struct rig *rig)
{
    rig->batch.memory[rig->batch.bytes - 1] ^= 0x10;
}

static void a_damaged_record_is_counted_and_skipped(void **state)
{
    struct rig *rig = *state;
    put_word(rig, 1, 1);
    put_word(rig, 2, 2);
    damage_last(rig);
    put_word(rig, 3, 3);
    assert_int_equal(commit_alone(rig), HR_OK);
    reopen_store(rig);
    struct found found = load(rig);
    assert_int_equal(found.loaded.good, 2);
    assert_int_equal(found.loaded.bad, 1);
    assert_false(found.has[2]);
    put_word(rig, 2, 22);
    assert_int_equal(commit_alone(rig), HR_OK);
    assert_int_equal(load(rig).words[2], 22);
}

/* Makes the last record of the batch, which holds 8 bytes, one of the next version, with a checksum that holds. */
static void make_last_newer(struct rig *rig, const struct hr_store_key *key)
{
    uint8_t *value = rig->batch.memory + rig->batch.bytes - 8 - HR_RECORD_HEAD_BYTES;
    value[0] = HR_RECORD_VERSION + 1;
    uint64_t sum = hr_plain_hash(value, 4, hr_plain_hash(key->at, key->bytes, 0));
    struct hr_le_writer writer = hr_le_writer_of(value + 4, 8);
    hr_le_write_u64(&writer, hr_plain_hash(value + HR_RECORD_HEAD_BYTES, 8, sum));
}

static void a_record_of_a_newer_version_stops_the_load(void **state)
{
    struct rig *rig = *state;
    struct hr_store_key key = key_of(2);
    put_word(rig, 1, 1);
    put_word(rig, 2, 2);
    make_last_newer(rig, &key);
    assert_int_equal(commit_alone(rig), HR_OK);
    struct found found = {.last = 0};
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, note_record, &found, &found.loaded), HR_E_INVALID);
    assert_int_equal(found.loaded.good, 1);
    assert_int_equal(found.loaded.bad, 0);
}

static void a_visitor_may_end_the_load_or_call_a_record_bad(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 1; i <= 3; i++) {
        put_word(rig, i, i);
    }
    assert_int_equal(commit_alone(rig), HR_OK);
    struct found found = {.stop_at_2 = HR_E_TOO_MANY};
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, note_record, &found, &found.loaded), HR_E_TOO_MANY);
    assert_false(found.has[3]);
    found = (struct found){.stop_at_2 = HR_E_CORRUPT};
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, note_record, &found, &found.loaded), HR_OK);
    assert_true(found.has[3]);
    assert_int_equal(found.loaded.good, 2);
    assert_int_equal(found.loaded.bad, 1);
}

/* Random batches on a store, and the same on plain arrays. */
static void random_batches_give_what_they_give_in_an_array(void **state)
{
    struct rig *rig = *state;
    struct hr_rng rng = {rig->driver->has_thread ? 7 : 8};
    struct found model = {.last = 0};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (unsigned i = 0; i < 400; i++) {
        for (uint64_t ops = hr_rng_below(&rng, 8); ops > 0; ops--) {
            uint64_t number = hr_rng_below(&rng, SLOTS);
            model.has[number] = hr_rng_chance(&rng, 2, 3);
            model.words[number] = model.has[number] ? hr_rng_next(&rng) : 0;
            if (model.has[number]) {
                put_word(rig, number, model.words[number]);
            } else {
                drop(rig, number);
            }
        }
        commit(rig);
        if (hr_rng_chance(&rng, 1, 40)) {
            reopen_store(rig);
            struct found found = load(rig);
            assert_memory_equal(found.has, model.has, sizeof(found.has));
            assert_memory_equal(found.words, model.words, sizeof(found.words));
        }
    }
    assert_int_equal(settle(rig), HR_OK);
}

int suite_run(struct suite_driver *driver)
{
#define TEST(function) cmocka_unit_test_prestate_setup_teardown(function, set_up, tear_down, driver)
    const struct CMUnitTest tests[] = {
        TEST(tickets_are_answered_once_each_in_order),
        TEST(a_batch_is_there_whole_after_reopening),
        TEST(the_later_write_of_a_key_holds),
        TEST(a_load_visits_one_kind_only),
        TEST(an_empty_batch_gets_its_result_in_turn),
        TEST(large_values_and_large_batches_fit),
        TEST(a_batch_larger_than_the_queue_is_refused),
        TEST(a_full_store_keeps_what_it_has_and_serves_again_once_there_is_room),
        TEST(a_batch_that_fails_leaves_its_neighbours_alone),
        TEST(what_waits_is_bounded),
        TEST(close_answers_what_still_waits),
        TEST(the_batch_is_the_callers_again_once_it_is_committed),
        TEST(a_lent_batch_is_the_callers_again_once_it_is_answered),
        TEST(a_damaged_record_is_counted_and_skipped),
        TEST(a_record_of_a_newer_version_stops_the_load),
        TEST(a_visitor_may_end_the_load_or_call_a_record_bad),
        TEST(random_batches_give_what_they_give_in_an_array),
    };
#undef TEST
    return cmocka_run_group_tests_name(driver->name, tests, NULL, NULL);
}
