/* Kill: a child commits numbered batches, one after another and several at a time, and says on a pipe which were
 * answered; it is killed at a random moment. Whatever it said is there when the store is opened again, and no batch is
 * there in part.
 *
 * usage: test_kill_lmdb [SEED [ROUNDS]] */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "storage/le.h"
#include "storage/storage_lmdb.h"
#include "tests/lib/temp_dir.h"

#define ROUNDS 50
#define PARTS 3 /* records of a batch */

static struct hr_rng rng;
static unsigned rounds = ROUNDS;

/* In the child: tells the parent. Results are few bytes, and so written whole. */
static void tell(void *user, const struct hr_store_result *results, size_t count)
{
    const int *pipe_fd = user;
    for (size_t i = 0; i < count; i++) {
        if (results[i].err != HR_OK || write(*pipe_fd, &results[i].ticket, 8) != 8) {
            _exit(3);
        }
    }
}

static struct hr_store_key key_of(uint64_t part)
{
    return hr_store_key_of_id(HR_RECORD_COUNTER, (struct hr_id128){0, part});
}

/* Each batch overwrites all parts with its ticket, under one more key that it makes, and deletes the one before that.
 */
static void fill_batch(struct hr_store_batch *batch, uint64_t ticket)
{
    uint8_t payload[8];
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    struct hr_store_key old = key_of(PARTS + ticket - 1), new = key_of(PARTS + ticket);
    struct hr_span span = {(const char *)payload, sizeof(payload)};
    hr_le_write_u64(&writer, ticket);
    hr_batch_clear(batch);
    for (uint64_t part = 0; part < PARTS; part++) {
        struct hr_store_key key = key_of(part);
        if (hr_batch_put(batch, &key, span) != HR_OK) {
            _exit(4);
        }
    }
    if (hr_batch_delete(batch, &old) != HR_OK || hr_batch_put(batch, &new, span) != HR_OK) {
        _exit(4);
    }
}

static struct hr_store *open_store(const struct temp_dir *dir, hr_store_done *done, void *user)
{
    struct hr_store *store = NULL;
    struct hr_store_problem problem = {""};
    struct hr_store_lmdb_options options = {
        .dir = dir->store, .cluster = HR_SPAN("prod"), .node = HR_SPAN("eu-1"), .done = done, .user = user};
    return hr_store_lmdb_open(&options, &store, &problem) == HR_OK ? store : NULL;
}

static void commit_until_killed(const struct temp_dir *dir, int pipe_fd, uint64_t first)
{
    static uint8_t memory[4096];
    struct hr_store_batch batch;
    struct hr_store *store = open_store(dir, tell, &pipe_fd);
    if (store == NULL) {
        _exit(2);
    }
    hr_batch_init(&batch, memory, sizeof(memory));
    for (uint64_t ticket = first;; ticket++) {
        fill_batch(&batch, ticket);
        while (hr_store_commit(store, ticket, &batch) == HR_E_FULL) {
            hr_store_settle(store);
        }
        if (ticket % 7 == 0) {
            hr_store_settle(store);
        }
    }
}

/* The last ticket that arrives before the child is gone, which is killed after wait_us. */
static uint64_t listen_and_kill(pid_t child, int pipe_fd, uint64_t wait_us, uint64_t last)
{
    struct pollfd nothing = {.fd = -1};
    struct timespec wait = {.tv_nsec = (long)wait_us * 1000};
    uint64_t ticket;
    (void)ppoll(&nothing, 1, &wait, NULL); /* the moment is the point: there is no event to wait for */
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(pipe_fd, &ticket, 8) == 8) {
        assert_int_equal(ticket, last + 1);
        last = ticket;
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* else it stopped by itself, on an error */
    return last;
}

struct found {
    size_t count;
    uint64_t words[PARTS + 1];
};

static enum hr_err note_record(void *user, const struct hr_record *record)
{
    struct found *found = user;
    struct hr_le_reader reader = hr_le_reader_of(record->payload);
    assert_true(found->count <= PARTS);
    found->words[found->count++] = hr_le_read_u64(&reader);
    return HR_OK;
}

static void ignore_results(void *user, const struct hr_store_result *results, size_t count)
{
    (void)user;
    (void)results;
    (void)count;
}

/* The ticket that the store ends at; 0: it is empty. */
static uint64_t read_back(const struct temp_dir *dir)
{
    struct found found = {.count = 0};
    struct hr_store_loaded loaded;
    struct hr_store *store = open_store(dir, ignore_results, NULL);
    assert_non_null(store);
    assert_int_equal(hr_store_load(store, HR_RECORD_COUNTER, note_record, &found, &loaded), HR_OK);
    hr_store_close(store);
    assert_int_equal(loaded.bad, 0);
    assert_true(found.count == 0 || found.count == PARTS + 1);
    for (size_t i = 1; i < found.count; i++) {
        assert_int_equal(found.words[i], found.words[0]);
    }
    return found.words[0];
}

static void what_was_answered_survives_a_kill_at_any_moment(void **state)
{
    (void)state;
    struct temp_dir dir = {.path = ""};
    uint64_t last = 0, answered_count = 0;
    temp_dir_make(&dir);
    print_message("seed %llu\n", (unsigned long long)rng.state);
    for (unsigned round = 0; round < rounds; round++) {
        int pipe_fds[2];
        assert_int_equal(pipe(pipe_fds), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(pipe_fds[0]);
            commit_until_killed(&dir, pipe_fds[1], last + 1);
        }
        (void)close(pipe_fds[1]);
        uint64_t answered = listen_and_kill(child, pipe_fds[0], hr_rng_below(&rng, 60000), last);
        (void)close(pipe_fds[0]);
        uint64_t found = read_back(&dir);
        if (found < answered) {
            fail_msg("round %u: %llu was answered, %llu is there", round, (unsigned long long)answered,
                     (unsigned long long)found);
        }
        answered_count += answered - last;
        last = found;
    }
    print_message("%llu batches were answered\n", (unsigned long long)answered_count);
    assert_true(answered_count > 0);
    temp_dir_remove(&dir);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_answered_survives_a_kill_at_any_moment)};
    rng.state = (uint64_t)getpid();
    if (argc > 1) {
        rng.state = strtoull(argv[1], NULL, 10);
    }
    rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : ROUNDS;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
