#include "storage/pages.h"

#include <stdbool.h>
#include <string.h>

#include "storage/record.h"

/* The head of each page: its number, flags, and where its free space begins and ends; of a large value's first page how
 * many there are instead. Numbers of nodes follow, and the nodes themselves from the end of the page on. */
#define HEAD_BYTES 16
#define FLAGS_AT 10
#define LOWER_AT 12
#define UPPER_AT 14
#define COUNT_AT 12
#define BRANCH_FLAG 0x01
#define LEAF_FLAG 0x02
#define LARGE_FLAG 0x04
#define META_FLAG 0x08

/* A node: the size of its value, or with the flags the page below it; the size of its key; the key; the value, or the
 * number of the page where it begins. */
#define NODE_HEAD_BYTES 8
#define NODE_FLAGS_AT 4
#define KEY_BYTES_AT 6
#define NODE_IS_LARGE 0x01

/* A meta page behind its head. */
#define META_PAGES 2
#define META_MAGIC_AT 16
#define META_VERSION_AT 20
#define META_PAGE_BYTES_AT 40
#define META_FREE_AT 40 /* a tree's description each */
#define META_MAIN_AT 88
#define META_LAST_PAGE_AT 136
#define META_TXN_AT 144
#define META_BYTES 152
#define MAGIC 0xBEEFC0DE
#define VERSION 1

/* A tree's description. */
#define TREE_FLAGS_AT 4
#define TREE_DEPTH_AT 6
#define TREE_COUNTS_AT 8 /* branches, leaves, pages of large values, entries */
#define TREE_ROOT_AT 40
#define NUMBERS_AS_KEYS 0x08 /* in the tree of free pages */
#define NO_PAGE UINT64_MAX
#define DEPTH_MAX 32 /* LMDB's own bound */

struct tree {
    uint64_t depth, branches, leaves, large_pages, entries;
};

struct meta {
    const char *free_tree, *main_tree; /* descriptions, in the file */
    uint64_t last_page, txn;
};

/* A page on the way from the root to where a walk is. */
struct step {
    const char *page;
    size_t count, next; /* nodes: how many, and which comes next */
};

struct walk {
    const struct hr_pages *pages;
    const struct meta *meta;
    bool is_free_tree;
    struct tree told, found;
    struct hr_span before; /* the last key, or a branch's; at NULL: none yet */
    bool is_branch_key;    /* `before`: the key that follows may be the same */
    struct step steps[DEPTH_MAX];
    size_t depth;
};

/* Numbers lie in the file in the order of the machine that wrote it, which is the one that reads it. */
static uint16_t read_u16(const char *at)
{
    uint16_t number;
    memcpy(&number, at, sizeof(number));
    return number;
}

static uint32_t read_u32(const char *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof(number));
    return number;
}

static uint64_t read_u64(const char *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof(number));
    return number;
}

/* --- pages --- */

static uint64_t page_count(const struct hr_pages *pages)
{
    return pages->file.bytes / pages->page_bytes;
}

/* How many pages the meta page may count: the last ones need not have been written, where they are free. */
static uint64_t last_page_max(size_t file_bytes, size_t page_bytes)
{
    return 2 * (uint64_t)(file_bytes / page_bytes) + 1;
}

size_t hr_pages_seen_bytes(size_t file_bytes, size_t page_bytes)
{
    return (size_t)(last_page_max(file_bytes, page_bytes) / 8) + 1;
}

/* False: it is out of bounds, or was met before. */
static bool see(const struct walk *walk, uint64_t number)
{
    if (number < META_PAGES || number > walk->meta->last_page) {
        return false;
    }
    uint8_t *byte = &walk->pages->seen[number / 8], bit = (uint8_t)(1U << number % 8);
    bool is_new = (*byte & bit) == 0;
    *byte = (uint8_t)(*byte | bit);
    return is_new;
}

/* The page, or NULL: it is not in the file, was met before, or does not know its number or kind. */
static const char *see_page(const struct walk *walk, uint64_t number, uint16_t flags)
{
    if (number >= page_count(walk->pages) || !see(walk, number)) {
        return NULL;
    }
    const char *page = walk->pages->file.at + number * walk->pages->page_bytes;
    return read_u64(page) == number && read_u16(page + FLAGS_AT) == flags ? page : NULL;
}

/* --- nodes --- */

static const char *node_of(const struct step *step, size_t i)
{
    return step->page + read_u16(step->page + HEAD_BYTES + 2 * i);
}

static struct hr_span key_of(const char *node)
{
    return (struct hr_span){node + NODE_HEAD_BYTES, read_u16(node + KEY_BYTES_AT)};
}

static uint64_t value_bytes_of(const char *node)
{
    return read_u32(node);
}

static uint64_t child_of(const char *node)
{
    return read_u32(node) | (uint64_t)read_u16(node + NODE_FLAGS_AT) << 32;
}

/* What it takes of its page, which is an even number. Its head is in the page. */
static uint64_t node_bytes(const char *node, bool is_leaf)
{
    uint64_t bytes = NODE_HEAD_BYTES + (uint64_t)read_u16(node + KEY_BYTES_AT);
    if (is_leaf) {
        bytes += read_u16(node + NODE_FLAGS_AT) == NODE_IS_LARGE ? sizeof(uint64_t) : value_bytes_of(node);
    }
    return (bytes + 1) & ~UINT64_C(1);
}

/* All nodes lie behind the free space, and fill what is behind it: so none overlaps another one. */
static bool are_nodes_whole(const struct step *step, size_t page_bytes, bool is_leaf)
{
    uint64_t upper = read_u16(step->page + UPPER_AT), used = 0;
    for (size_t i = 0; i < step->count; i++) {
        uint64_t at = read_u16(step->page + HEAD_BYTES + 2 * i);
        if (at < upper || at + NODE_HEAD_BYTES > page_bytes || at % 2 != 0) {
            return false;
        }
        uint64_t bytes = node_bytes(step->page + at, is_leaf);
        if (bytes > page_bytes - at) {
            return false;
        }
        used += bytes;
    }
    return used == page_bytes - upper;
}

/* Goes down to a page. */
static bool step_down(struct walk *walk, uint64_t number)
{
    bool is_leaf = walk->depth + 1 == walk->told.depth;
    const char *page = see_page(walk, number, is_leaf ? LEAF_FLAG : BRANCH_FLAG);
    if (page == NULL) {
        return false;
    }
    size_t lower = read_u16(page + LOWER_AT), upper = read_u16(page + UPPER_AT), page_bytes = walk->pages->page_bytes;
    /* LMDB ends the process at a branch with one child, but in the tree of free pages. */
    size_t count_min = is_leaf || walk->is_free_tree ? 1 : 2;
    if (lower < HEAD_BYTES + 2 * count_min || lower % 2 != 0 || lower > upper || upper > page_bytes) {
        return false;
    }
    struct step *step = &walk->steps[walk->depth++];
    *step = (struct step){page, (lower - HEAD_BYTES) / 2, 0};
    walk->found.branches += !is_leaf;
    walk->found.leaves += is_leaf;
    return are_nodes_whole(step, page_bytes, is_leaf);
}

/* --- keys and values --- */

static int order_of(struct hr_span a, struct hr_span b)
{
    size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = memcmp(a.at, b.at, common);
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static bool is_key(const struct walk *walk, struct hr_span key)
{
    if (!walk->is_free_tree) {
        return key.bytes > 0 && key.bytes <= HR_STORE_KEY_BYTES_MAX;
    }
    return key.bytes == sizeof(uint64_t) && read_u64(key.at) > 0 && read_u64(key.at) <= walk->meta->txn;
}

/* Does it come behind the key before it? */
static bool pass_key(struct walk *walk, struct hr_span key, bool is_branch_key)
{
    int order = -1;
    if (!is_key(walk, key)) {
        return false;
    }
    if (walk->before.at != NULL && walk->is_free_tree) {
        uint64_t before = read_u64(walk->before.at), here = read_u64(key.at);
        order = (before > here) - (before < here);
    } else if (walk->before.at != NULL) {
        order = order_of(walk->before, key);
    }
    bool is_behind = order < 0 || (order == 0 && walk->is_branch_key);
    walk->before = key;
    walk->is_branch_key = is_branch_key;
    return is_behind;
}

/* The pages of a large value; its first one has a head. Reads of each, so that one that cannot be read is noticed. */
static bool see_large(struct walk *walk, uint64_t first, uint64_t value_bytes, const char **ret_value)
{
    const char *page = see_page(walk, first, LARGE_FLAG);
    uint64_t count = page == NULL ? 0 : read_u32(page + COUNT_AT), page_bytes = walk->pages->page_bytes;
    if (count == 0 || count > page_count(walk->pages) - first || HEAD_BYTES + value_bytes > count * page_bytes) {
        return false;
    }
    for (uint64_t i = 1; i < count; i++) {
        (void)*(const volatile char *)(page + i * page_bytes);
        if (!see(walk, first + i)) {
            return false;
        }
    }
    walk->found.large_pages += count;
    *ret_value = page + HEAD_BYTES;
    return true;
}

/* How many free pages, then their numbers, descending. */
static bool see_free_pages(const struct walk *walk, const char *list, uint64_t bytes)
{
    uint64_t number, before = NO_PAGE, count = bytes < sizeof(number) ? UINT64_MAX : read_u64(list);
    if (count >= bytes / sizeof(number)) {
        return false;
    }
    for (uint64_t i = 1; i <= count; i++, before = number) {
        number = read_u64(list + i * sizeof(number));
        if (number >= before || !see(walk, number)) {
            return false;
        }
    }
    return true;
}

static bool pass_entry(struct walk *walk, const char *node)
{
    struct hr_span key = key_of(node);
    uint64_t bytes = value_bytes_of(node);
    uint16_t flags = read_u16(node + NODE_FLAGS_AT);
    const char *value = key.at + key.bytes;
    if (!pass_key(walk, key, false) || (flags != 0 && flags != NODE_IS_LARGE) ||
        (!walk->is_free_tree && bytes > HR_RECORD_BYTES_MAX)) {
        return false;
    }
    if (flags == NODE_IS_LARGE && !see_large(walk, read_u64(value), bytes, &value)) {
        return false;
    }
    walk->found.entries++;
    return !walk->is_free_tree || see_free_pages(walk, value, bytes);
}

/* The first child of a branch has no key of its own: it has all that is before the second's. */
static bool pass_branch(struct walk *walk, const char *node, bool is_first)
{
    return (is_first || pass_key(walk, key_of(node), true)) && step_down(walk, child_of(node));
}

/* --- trees --- */

static struct tree told_of(const char *description)
{
    const char *counts = description + TREE_COUNTS_AT;
    return (struct tree){read_u16(description + TREE_DEPTH_AT), read_u64(counts), read_u64(counts + 8),
                         read_u64(counts + 16), read_u64(counts + 24)};
}

static bool is_same(const struct tree *a, const struct tree *b)
{
    return a->branches == b->branches && a->leaves == b->leaves && a->large_pages == b->large_pages &&
           a->entries == b->entries;
}

static bool is_tree_whole(const struct hr_pages *pages, const struct meta *meta, const char *description)
{
    struct walk walk = {pages, meta, .is_free_tree = description == meta->free_tree, .told = told_of(description)};
    uint64_t root = read_u64(description + TREE_ROOT_AT);
    if (walk.told.depth > DEPTH_MAX || (walk.told.depth == 0) != (root == NO_PAGE) ||
        (root != NO_PAGE && !step_down(&walk, root))) {
        return false;
    }
    while (walk.depth > 0) {
        struct step *step = &walk.steps[walk.depth - 1];
        if (step->next == step->count) {
            walk.depth--;
            continue;
        }
        const char *node = node_of(step, step->next++);
        bool is_leaf = walk.depth == walk.told.depth;
        if (!(is_leaf ? pass_entry(&walk, node) : pass_branch(&walk, node, step->next == 1))) {
            return false;
        }
    }
    return is_same(&walk.told, &walk.found);
}

/* --- meta pages --- */

static bool read_meta(const struct hr_pages *pages, size_t number, struct meta *ret_meta)
{
    const char *page = pages->file.at + number * pages->page_bytes;
    *ret_meta = (struct meta){page + META_FREE_AT, page + META_MAIN_AT, read_u64(page + META_LAST_PAGE_AT),
                              read_u64(page + META_TXN_AT)};
    return read_u16(page + FLAGS_AT) == META_FLAG && read_u32(page + META_MAGIC_AT) == MAGIC &&
           read_u32(page + META_VERSION_AT) == VERSION && read_u32(page + META_PAGE_BYTES_AT) == pages->page_bytes &&
           read_u16(ret_meta->free_tree + TREE_FLAGS_AT) == NUMBERS_AS_KEYS &&
           read_u16(ret_meta->main_tree + TREE_FLAGS_AT) == 0 &&
           ret_meta->last_page <= last_page_max(pages->file.bytes, pages->page_bytes);
}

/* LMDB writes the two meta pages in turn and believes the one of the later transaction. Damage to that number would
 * make it go back to an older state, whole in itself, without a word; but then the two are not next to each other any
 * more. */
enum hr_err hr_pages_check(const struct hr_pages *pages)
{
    struct meta metas[META_PAGES];
    if (page_count(pages) < META_PAGES || !read_meta(pages, 0, &metas[0]) || !read_meta(pages, 1, &metas[1])) {
        return HR_E_CORRUPT;
    }
    if (metas[0].txn + 1 != metas[1].txn && metas[1].txn + 1 != metas[0].txn) {
        return HR_E_CORRUPT;
    }
    const struct meta *meta = &metas[metas[1].txn > metas[0].txn];
    bool is_whole = is_tree_whole(pages, meta, meta->free_tree) && is_tree_whole(pages, meta, meta->main_tree);
    return is_whole ? HR_OK : HR_E_CORRUPT;
}
