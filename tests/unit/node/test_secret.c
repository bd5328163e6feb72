/* Secrets: one key for one secret, files that are refused, and the secret that a node makes for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/secret.h"
#include "node/temp_folder.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A fresh folder that is the working folder until the test ends. */
static int enter_folder(void **state)
{
    static char folder[256];
    *state = folder;
    return !hr_temp_folder("secret", folder, sizeof(folder)) || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    (void)unlink("secret"); /* where the test made none, there is none */
    return chdir("/") != 0 || rmdir(*state) != 0;
}

static void write_secret(const char *bytes, size_t count, mode_t mode)
{
    FILE *file = fopen("secret", "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod("secret", mode), 0);
}

static bool same(const struct hr_hash_key *a, const struct hr_hash_key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* `b2sum -l 128` of the same bytes, so that the key of a cluster never changes unnoticed. */
static void the_key_is_the_blake2b_hash_of_the_secret(void **state)
{
    (void)state;
    static const uint8_t want[HR_HASH_KEY_BYTES] = {0x7b, 0xe1, 0xfe, 0x5b, 0x9a, 0x3e, 0x23, 0x56,
                                                    0x6a, 0x4e, 0x18, 0x1f, 0xf2, 0xdb, 0xcb, 0xe7};
    struct hr_hash_key key = hr_secret_key(HR_SPAN("correct horse battery staple"));
    assert_memory_equal(key.bytes, want, sizeof(want));
}

static void one_end_of_line_is_no_part_of_a_secret(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_same;
    } rows[] = {
        {"0123456789abcdef", true},      {"0123456789abcdef\n", true}, {"0123456789abcdef\r\n", true},
        {"0123456789abcdef\n\n", false}, {"0123456789abcdef ", false}, {"0123456789abcdef\r", false},
        {"0123456789abcdeF", false},     {" 0123456789abcdef", false},
    };
    const struct hr_hash_key want = hr_secret_key(HR_SPAN("0123456789abcdef"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_hash_key key;
        struct hr_problem problem = {0};
        write_secret(rows[i].text, strlen(rows[i].text), 0600);
        if (!hr_secret_read("secret", &key, &problem) || same(&key, &want) != rows[i].is_same) {
            fail_msg("row %zu: %s", i, problem.what);
        }
    }
}

static void secrets_too_short_or_too_long_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        const char *what; /* NULL: it is read */
    } rows[] = {
        {0, "a secret must have 16 to 4096 bytes, not 0"},
        {15, "a secret must have 16 to 4096 bytes, not 15"},
        {16, NULL},
        {4096, NULL},
        {4097, "a secret must have 16 to 4096 bytes, not 4097"},
        {4099, "the file is too long: at most 4098 bytes are read"},
    };
    char bytes[4099];
    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_hash_key key;
        struct hr_problem problem = {0};
        write_secret(bytes, rows[i].bytes, 0600);
        bool is_read = hr_secret_read("secret", &key, &problem);
        if (is_read != (rows[i].what == NULL) ||
            (!is_read && (strcmp(problem.what, rows[i].what) != 0 || strcmp(problem.where, "secret") != 0))) {
            fail_msg("row %zu: %s (%s)", i, problem.what, problem.where);
        }
    }
}

static void a_secret_open_to_others_is_refused(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool is_good;
    } rows[] = {{0400, true}, {0600, true}, {0640, true}, {0660, true}, {0644, false}, {0604, false}, {0602, false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_hash_key key;
        struct hr_problem problem = {0};
        (void)unlink("secret"); /* one that may not be written to cannot be overwritten */
        write_secret("0123456789abcdef", 16, rows[i].mode);
        if (hr_secret_read("secret", &key, &problem) != rows[i].is_good ||
            (!rows[i].is_good && strstr(problem.what, "chmod o-rw") == NULL)) {
            fail_msg("row %zu: %s (%s)", i, problem.what, problem.where);
        }
    }
}

static void a_secret_that_is_no_file_is_refused(void **state)
{
    (void)state;
    struct hr_hash_key key;
    struct hr_problem problem;
    assert_false(hr_secret_read("absent", &key, &problem));
    assert_string_equal(problem.what, "cannot open the secret: No such file or directory");
    assert_string_equal(problem.where, "absent");
    assert_false(hr_secret_read(".", &key, &problem));
    assert_string_equal(problem.what, "this is a folder, not a file");
}

static void a_kept_secret_is_made_once_and_for_its_owner(void **state)
{
    (void)state;
    struct hr_hash_key first, again, read;
    struct hr_problem problem = {0};
    struct stat status;
    if (!hr_secret_keep(".", &first, &problem) || !hr_secret_keep(".", &again, &problem) ||
        !hr_secret_read("secret", &read, &problem)) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    assert_true(same(&first, &again) && same(&first, &read));
    assert_int_equal(stat("secret", &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(status.st_size, 65);
    assert_int_equal(unlink("secret"), 0);
    assert_true(hr_secret_keep(".", &again, &problem));
    assert_false(same(&first, &again));
}

/* Each round, as many processes as may want it at once. */
static void all_that_make_a_secret_at_once_get_the_same(void **state)
{
    (void)state;
    enum { ROUNDS = 20, PROCESSES = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        int ends[2];
        struct hr_hash_key keys[PROCESSES];
        assert_int_equal(pipe(ends), 0);
        for (int i = 0; i < PROCESSES; i++) {
            struct hr_hash_key key = {0};
            struct hr_problem problem;
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                bool is_kept = hr_secret_keep(".", &key, &problem);
                _exit(!is_kept || write(ends[1], &key, sizeof(key)) != (ssize_t)sizeof(key));
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status = -1;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
            assert_int_equal(read(ends[0], &keys[i], sizeof(keys[i])), sizeof(keys[i]));
            assert_true(same(&keys[0], &keys[i]));
        }
        assert_int_equal(close(ends[0]), 0);
        assert_int_equal(close(ends[1]), 0);
        assert_int_equal(unlink("secret"), 0);
    }
}

static void a_kept_secret_that_is_damaged_is_not_replaced(void **state)
{
    (void)state;
    struct hr_hash_key key;
    struct hr_problem problem = {0};
    struct stat status;
    write_secret("short", 5, 0600);
    assert_false(hr_secret_keep(".", &key, &problem));
    assert_string_equal(problem.what, "a secret must have 16 to 4096 bytes, not 5");
    assert_string_equal(problem.where, "./secret");
    assert_int_equal(stat("secret", &status), 0);
    assert_int_equal(status.st_size, 5);
}

static void without_its_folder_no_secret_is_kept(void **state)
{
    (void)state;
    char folder[5000];
    struct hr_hash_key key;
    struct hr_problem problem = {0};
    assert_false(hr_secret_keep("absent", &key, &problem));
    assert_string_equal(problem.what, "cannot create the secret: No such file or directory");
    assert_string_equal(problem.where, "absent/secret");
    memset(folder, 'a', sizeof(folder) - 1);
    folder[sizeof(folder) - 1] = '\0';
    assert_false(hr_secret_keep(folder, &key, &problem));
    assert_string_equal(problem.what, "the folder's path is too long");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_the_blake2b_hash_of_the_secret),
        IN_FOLDER(one_end_of_line_is_no_part_of_a_secret),
        IN_FOLDER(secrets_too_short_or_too_long_are_refused),
        IN_FOLDER(a_secret_open_to_others_is_refused),
        IN_FOLDER(a_secret_that_is_no_file_is_refused),
        IN_FOLDER(a_kept_secret_is_made_once_and_for_its_owner),
        IN_FOLDER(all_that_make_a_secret_at_once_get_the_same),
        IN_FOLDER(a_kept_secret_that_is_damaged_is_not_replaced),
        IN_FOLDER(without_its_folder_no_secret_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
