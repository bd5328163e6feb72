/* Pages: a file of a branch with two leaves, a large value and a list of free pages, written here byte by byte; whole
 * it is taken, and with one thing wrong it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/pages.h"

#define PAGE 512 /* bytes */
#define PAGES 10
#define FILE_BYTES (PAGE * PAGES)

/* Which page is what. */
#define META_NOW 1
#define FREE_LEAF 2
#define BRANCH 3
#define LEFT 4
#define RIGHT 5
#define LARGE 6 /* and the page behind it */
#define UNUSED 8

#define BRANCH_FLAG 1
#define LEAF_FLAG 2
#define LARGE_FLAG 4
#define META_FLAG 8

static uint8_t good[FILE_BYTES];

static void put(size_t at, uint64_t value, size_t bytes)
{
    memcpy(good + at, &value,
           bytes); /* the low bytes come first on every machine that LMDB's files are moved between */
}

static void put_page(size_t page, uint16_t flags)
{
    put(page * PAGE, page, 8);
    put(page * PAGE + 10, flags, 2);
    put(page * PAGE + 12, 16, 2);
    put(page * PAGE + 14, PAGE, 2);
}

/* A node in front of those that the page has. `word`: size of the value and flags, or the child. */
static size_t put_node(size_t page, uint64_t word, struct hr_span key, size_t value_bytes)
{
    uint16_t lower, upper;
    uint8_t *head = good + page * PAGE;
    memcpy(&lower, head + 12, 2);
    memcpy(&upper, head + 14, 2);
    upper = (uint16_t)(upper - ((8 + key.bytes + value_bytes + 1) & ~(size_t)1));
    put(page * PAGE + lower, upper, 2);
    put(page * PAGE + 12, lower + 2U, 2);
    put(page * PAGE + 14, upper, 2);
    size_t at = page * PAGE + upper;
    put(at, word, 6);
    put(at + 6, key.bytes, 2);
    memcpy(good + at + 8, key.at, key.bytes);
    return at + 8 + key.bytes;
}

static void put_tree(size_t at, uint16_t flags, uint16_t depth, const uint64_t numbers[5])
{
    put(at, PAGE, 4);
    put(at + 4, flags, 2);
    put(at + 6, depth, 2);
    for (size_t i = 0; i < 5; i++) {
        put(at + 8 + 8 * i, numbers[i], 8);
    }
}

static void put_meta(size_t page, uint64_t txn)
{
    static const uint64_t free_numbers[] = {0, 1, 0, 1, FREE_LEAF}, main_numbers[] = {1, 2, 2, 4, BRANCH};
    put_page(page, META_FLAG);
    put(page * PAGE + 16, 0xBEEFC0DE, 4);
    put(page * PAGE + 20, 1, 4);
    put_tree(page * PAGE + 40, 8, 1, free_numbers);
    put_tree(page * PAGE + 88, 0, 2, main_numbers);
    put(page * PAGE + 136, PAGES - 1, 8);
    put(page * PAGE + 144, txn, 8);
}

static void put_free_list(void)
{
    uint64_t txn = 6;
    put_page(FREE_LEAF, LEAF_FLAG);
    size_t list = put_node(FREE_LEAF, 24, (struct hr_span){(const char *)&txn, 8}, 24);
    put(list, 2, 8);
    put(list + 8, UNUSED + 1, 8);
    put(list + 16, UNUSED, 8);
}

static int make_good(void **state)
{
    (void)state;
    memset(good, 0, sizeof(good));
    put_meta(0, 6);
    put_meta(META_NOW, 7);
    put_free_list();
    put_page(BRANCH, BRANCH_FLAG);
    (void)put_node(BRANCH, LEFT, HR_SPAN(""), 0);
    (void)put_node(BRANCH, RIGHT, HR_SPAN("m"), 0);
    put_page(LEFT, LEAF_FLAG);
    (void)put_node(LEFT, 3, HR_SPAN("a"), 3);
    (void)put_node(LEFT, 0, HR_SPAN("ab"), 0);
    put_page(RIGHT, LEAF_FLAG);
    (void)put_node(RIGHT, 5, HR_SPAN("m"), 5);
    size_t large = put_node(RIGHT, 600 | UINT64_C(1) << 32, HR_SPAN("z"), 8);
    put(large, LARGE, 8);
    put_page(LARGE, LARGE_FLAG);
    put(LARGE * PAGE + 12, 2, 4);
    return 0;
}

/* From memory that ends where the file does, so that a sanitizer sees what reads beyond. */
static enum hr_err check(size_t bytes)
{
    char *file = malloc(bytes + 1);
    uint8_t *seen = calloc(hr_pages_seen_bytes(bytes, PAGE), 1);
    assert_true(file != NULL && seen != NULL);
    memcpy(file + 1, good, bytes); /* nothing is where a machine likes it */
    const struct hr_pages pages = {{file + 1, bytes}, PAGE, seen};
    enum hr_err err = hr_pages_check(&pages);
    free(seen);
    free(file);
    return err;
}

static void a_whole_file_is_taken(void **state)
{
    (void)state;
    assert_int_equal(check(FILE_BYTES), HR_OK);
}

/* Free pages behind the last one in use need not be there. */
static void a_file_that_lacks_a_page_in_use_is_refused(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < FILE_BYTES; bytes++) {
        enum hr_err wanted = bytes / PAGE >= UNUSED ? HR_OK : HR_E_CORRUPT;
        if (check(bytes) != wanted) {
            fail_msg("%zu bytes: wanted %s", bytes, hr_err_text(wanted));
        }
    }
}

static void one_wrong_number_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t at;
        uint64_t value;
        size_t bytes;
    } rows[] = {
        {"magic", PAGE + 16, 1, 4},
        {"version", PAGE + 20, 2, 4},
        {"page size", PAGE + 40, 4096, 4},
        {"transactions that are not neighbours", PAGE + 144, 9, 8},
        {"more records than there are", PAGE + 88 + 32, 5, 8},
        {"fewer large pages than there are", PAGE + 88 + 24, 1, 8},
        {"a tree less deep", PAGE + 88 + 6, 1, 2},
        {"a tree too deep for LMDB", PAGE + 88 + 6, 33, 2},
        {"no root of a tree that has a depth", PAGE + 88 + 40, UINT64_MAX, 8},
        {"a root that is a meta page", PAGE + 88 + 40, 0, 8},
        {"a root beyond the file", PAGE + 88 + 40, PAGES, 8},
        {"a last page before one that is used", PAGE + 136, LARGE, 8},
        {"a page of another number", BRANCH * PAGE, LEFT, 8},
        {"a branch that says it is a leaf", BRANCH * PAGE + 10, LEAF_FLAG, 2},
        {"a branch of one child", BRANCH * PAGE + 12, 18, 2},
        {"free space that begins in the head", LEFT * PAGE + 12, 14, 2},
        {"free space of an odd beginning", LEFT * PAGE + 12, 21, 2},
        {"free space that ends before it begins", LEFT * PAGE + 14, 18, 2},
        {"free space up to beyond the page", LEFT * PAGE + 14, PAGE + 2, 2},
        {"free space over a node", LEFT * PAGE + 14, PAGE - 2, 2},
        {"free space that ends early", LEFT * PAGE + 14, PAGE - 40, 2},
        {"a node in the head", LEFT * PAGE + 16, 4, 2},
        {"a node beyond the page", LEFT * PAGE + 16, PAGE - 4, 2},
        {"a key beyond the page", LEFT * PAGE + PAGE - 12 + 6, 600, 2},
        {"a value beyond the page", LEFT * PAGE + PAGE - 12, 600, 4},
        {"a value of an unknown kind", LEFT * PAGE + PAGE - 12 + 4, 4, 2},
        {"keys that descend", LEFT * PAGE + PAGE - 12 + 8, 'b', 1},
        {"a branch's key that is too low", BRANCH * PAGE + PAGE - 18 + 8, 'a', 1},
        {"a branch's key that is too high", BRANCH * PAGE + PAGE - 18 + 8, 'n', 1},
        {"a child that is met twice", BRANCH * PAGE + PAGE - 18, LEFT, 4},
        {"a child that is its own parent", BRANCH * PAGE + PAGE - 18, BRANCH, 4},
        {"a child far beyond the file", BRANCH * PAGE + PAGE - 18 + 4, 1, 2},
        {"a large value of no pages", LARGE * PAGE + 12, 0, 4},
        {"a large value of too few pages", LARGE * PAGE + 12, 1, 4},
        {"a large value beyond the file", LARGE * PAGE + 12, 5, 4},
        {"a large value over a free page", LARGE * PAGE + 12, 3, 4},
        {"a free page that is in use", FREE_LEAF * PAGE + PAGE - 8, LEFT, 8},
        {"free pages that ascend", FREE_LEAF * PAGE + PAGE - 16, UNUSED - 1, 8},
        {"a free page beyond the last", FREE_LEAF * PAGE + PAGE - 16, PAGES, 8},
        {"more free pages than there is room for", FREE_LEAF * PAGE + PAGE - 24, 3, 8},
        {"pages freed later than now", FREE_LEAF * PAGE + PAGE - 32, 8, 8},
        {"pages freed before the first transaction", FREE_LEAF * PAGE + PAGE - 32, 0, 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(make_good(NULL), 0);
        put(rows[i].at, rows[i].value, rows[i].bytes);
        if (check(FILE_BYTES) != HR_E_CORRUPT) {
            fail_msg("row %zu: %s is taken", i, rows[i].what);
        }
    }
}

/* Whatever it answers: it comes back, and a sanitizer finds nothing. */
static void no_flipped_bit_leads_out_of_the_file(void **state)
{
    (void)state;
    unsigned refused = 0;
    for (size_t bit = 0; bit < 8 * (size_t)FILE_BYTES; bit++) {
        good[bit / 8] = (uint8_t)(good[bit / 8] ^ 1U << bit % 8);
        refused += check(FILE_BYTES) != HR_OK;
        good[bit / 8] = (uint8_t)(good[bit / 8] ^ 1U << bit % 8);
    }
    assert_true(refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_whole_file_is_taken, make_good),
        cmocka_unit_test_setup(a_file_that_lacks_a_page_in_use_is_refused, make_good),
        cmocka_unit_test_setup(one_wrong_number_is_refused, make_good),
        cmocka_unit_test_setup(no_flipped_bit_leads_out_of_the_file, make_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
