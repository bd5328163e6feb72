/* Table: against a naive array in random runs, its order and homes after every step, and its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/table.h"
#include "tests/lib/limiter_fixture.h"

#define MODEL_MAX 400

struct model_entry {
    struct hr_id128 id;
    uint64_t mark; /* stands in the state, to see that it moves with its identity */
    uint16_t version;
};

struct model {
    size_t count;
    struct model_entry entries[MODEL_MAX];
};

struct tables {
    struct hr_table table;
    struct model model;
    void *memory;
};

static const struct hr_table_range whole = {0, UINT64_MAX}, part = {UINT64_C(5) << 52, (UINT64_C(9) << 52) - 1};

static void open_tables(struct tables *tables, uint32_t count_max, struct hr_table_range ids)
{
    struct hr_bump measure = {.taken = 0};
    tables->model.count = 0;
    hr_table_init(&tables->table, count_max, ids, &measure);
    tables->memory = aligned_alloc(64, (measure.taken + 63) & ~(size_t)63);
    assert_non_null(tables->memory);
    memset(tables->memory, 0, measure.taken);
    struct hr_bump bump = {.at = tables->memory};
    hr_table_init(&tables->table, count_max, ids, &bump);
    assert_int_equal(bump.taken, measure.taken);
}

static void close_tables(struct tables *tables)
{
    free(tables->memory);
}

static size_t model_find(const struct model *model, struct hr_id128 id)
{
    size_t i = 0;
    while (i < model->count && !hr_id128_equal(model->entries[i].id, id)) {
        i++;
    }
    return i;
}

static void insert_both(struct tables *tables, struct hr_id128 id, uint64_t mark)
{
    if (model_find(&tables->model, id) < tables->model.count) {
        return;
    }
    bool is_full = tables->model.count == tables->table.count_max;
    uint16_t version = (uint16_t)(1 + mark % 60000);
    struct hr_cell *cell = hr_table_insert(&tables->table, id, version);
    assert_int_equal(cell == NULL, is_full);
    if (cell != NULL) {
        assert_true(cell->state.gcra.arrival.hi == 0 && cell->state.gcra.arrival.lo == 0);
        cell->state.gcra.arrival.hi = mark;
        tables->model.entries[tables->model.count++] = (struct model_entry){id, mark, version};
    }
}

static void erase_both(struct tables *tables, size_t i)
{
    struct model *model = &tables->model;
    struct hr_cell *cell = hr_table_find(&tables->table, model->entries[i].id);
    assert_non_null(cell);
    hr_table_erase(&tables->table, cell);
    assert_null(hr_table_find(&tables->table, model->entries[i].id));
    model->entries[i] = model->entries[--model->count];
}

static void expect_all_found(const struct tables *tables)
{
    const struct model *model = &tables->model;
    assert_int_equal(tables->table.count, model->count);
    for (size_t i = 0; i < model->count; i++) {
        const struct hr_cell *cell = hr_table_find(&tables->table, model->entries[i].id);
        assert_non_null(cell);
        assert_true(hr_id128_equal(cell->id, model->entries[i].id));
        assert_int_equal(cell->version, model->entries[i].version);
        assert_int_equal(cell->state.gcra.arrival.hi, model->entries[i].mark);
    }
}

/* Its share of the range, in a range whose length is a power of two. */
static uint64_t expected_home(const struct hr_table *table, struct hr_table_range ids, uint64_t hi)
{
    if (hi < ids.first || hi > ids.last) {
        return hi < ids.first ? 0 : table->home_count - 1;
    }
    unsigned unused_bits = (unsigned)__builtin_clzll(ids.last - ids.first);
    return hr_u128_mul((hi - ids.first) << unused_bits, table->home_count).hi;
}

/* Cells stand in the order of the first word of their identities, with no gap between a home and its cell. */
static void expect_order(const struct hr_table *table, struct hr_table_range ids)
{
    uint64_t occupied = 0, run_begin = 0, last_hi = 0;
    for (uint64_t at = 0; at < hr_table_cell_count(table); at++) {
        const struct hr_cell *cell = &table->cells[at];
        if (cell->version == 0) {
            run_begin = at + 1;
            continue;
        }
        uint64_t home = expected_home(table, ids, cell->id.hi);
        assert_in_range(home, run_begin, at);
        assert_true(occupied == 0 || cell->id.hi >= last_hi);
        last_hi = cell->id.hi;
        occupied++;
    }
    assert_int_equal(occupied, table->count);
    assert_int_equal(table->cells[hr_table_cell_count(table) - 1].version, 0);
}

/* Identities in four fashions: spread evenly, crowded at both ends of all that there are, few that share their first
 * word, and spread evenly over a part. */
static struct hr_id128 draw_id(struct hr_rng *rng, uint64_t fashion)
{
    struct hr_id128 id = {hr_rng_next(rng), hr_rng_below(rng, 4)};
    if (fashion == 1) {
        id.hi = (hr_rng_chance(rng, 1, 2) ? UINT64_MAX : 40) - hr_rng_below(rng, 40);
    } else if (fashion == 2) {
        id.hi = hr_rng_below(rng, 100) * (UINT64_MAX / 99);
    } else if (fashion == 3) {
        id.hi = part.first + hr_rng_below(rng, part.last - part.first + 1);
    }
    return id;
}

static void a_table_holds_what_a_plain_array_holds(void **state)
{
    (void)state;
    static const uint32_t counts_max[] = {1, 2, 7, 60, MODEL_MAX};
    print_message("seeds 0 to 59\n");
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct hr_rng rng = {seed};
        struct tables tables;
        struct hr_table_range ids = seed % 2 == 0 ? whole : part;
        open_tables(&tables, counts_max[seed % COUNT(counts_max)], ids);
        for (uint64_t step = 0; step < 1500; step++) {
            bool growing = step / 500 % 2 == 0;
            if (tables.model.count == 0 || hr_rng_chance(&rng, growing ? 3 : 1, 4)) {
                insert_both(&tables, draw_id(&rng, seed / 5 % 4), hr_rng_next(&rng));
            } else {
                erase_both(&tables, hr_rng_below(&rng, tables.model.count));
            }
            assert_null(hr_table_find(&tables.table, (struct hr_id128){hr_rng_next(&rng), 9}));
            if (step % 16 == 0) {
                expect_order(&tables.table, ids);
                expect_all_found(&tables);
            }
        }
        close_tables(&tables);
    }
}

static void a_full_table_takes_none_and_keeps_all(void **state)
{
    (void)state;
    struct tables tables;
    struct hr_rng rng = {5};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    open_tables(&tables, MODEL_MAX, whole);
    for (uint64_t i = 0; i < MODEL_MAX; i++) {
        insert_both(&tables, draw_id(&rng, 0), i);
    }
    assert_null(hr_table_insert(&tables.table, draw_id(&rng, 0), 1));
    expect_order(&tables.table, whole);
    expect_all_found(&tables);
    close_tables(&tables);
}

/* One that is made for a part of the ids, and full of them, has each about where it looks for it. */
static void a_full_table_of_a_part_of_the_ids_has_none_far_from_its_home(void **state)
{
    (void)state;
    struct tables tables;
    struct hr_rng rng = {6};
    print_message("seed %llu\n", (unsigned long long)rng.state);
    open_tables(&tables, 40000, part);
    while (tables.table.count < tables.table.count_max) {
        assert_non_null(hr_table_insert(&tables.table, draw_id(&rng, 3), 1));
    }
    expect_order(&tables.table, part);
    for (uint64_t at = 0; at < hr_table_cell_count(&tables.table); at++) {
        const struct hr_cell *cell = &tables.table.cells[at];
        if (cell->version != 0) {
            assert_in_range(at - expected_home(&tables.table, part, cell->id.hi), 0, 150);
        }
    }
    close_tables(&tables);
}

/* More identities of the last home than there are cells behind it: what no longer fits is refused, not lost or
 * misplaced. */
static void a_run_that_reaches_the_end_says_full_and_breaks_nothing(void **state)
{
    (void)state;
    struct tables tables;
    open_tables(&tables, 4 * HR_TABLE_TAIL_CELLS, whole);
    uint64_t inserted = 0;
    while (hr_table_insert(&tables.table, (struct hr_id128){UINT64_MAX, inserted}, 1) != NULL) {
        inserted++;
    }
    assert_int_equal(inserted, HR_TABLE_TAIL_CELLS); /* the last home and the tail, less the cell that stays empty */
    expect_order(&tables.table, whole);
    assert_null(hr_table_find(&tables.table, (struct hr_id128){UINT64_MAX, inserted}));
    assert_non_null(hr_table_insert(&tables.table, (struct hr_id128){7, 7}, 1));
    for (uint64_t lo = 0; lo < inserted; lo++) {
        struct hr_cell *cell = hr_table_find(&tables.table, (struct hr_id128){UINT64_MAX, lo});
        assert_non_null(cell);
        hr_table_erase(&tables.table, cell);
    }
    assert_int_equal(tables.table.count, 1);
    expect_order(&tables.table, whole);
    close_tables(&tables);
}

/* A walk that looks again at a place it erased from sees every counter, whatever it erases on the way. */
static void a_sweep_that_erases_misses_no_cell(void **state)
{
    (void)state;
    print_message("seeds 100 to 139\n");
    for (uint64_t seed = 100; seed < 140; seed++) {
        struct hr_rng rng = {seed};
        struct tables tables;
        open_tables(&tables, MODEL_MAX, whole);
        for (uint64_t i = 0; i < 350; i++) {
            insert_both(&tables, draw_id(&rng, seed % 3), i);
        }
        size_t seen = 0, erased = 0, before = tables.table.count;
        for (uint64_t at = 0; at < hr_table_cell_count(&tables.table);) {
            struct hr_cell *cell = &tables.table.cells[at];
            seen += cell->version != 0;
            if (cell->version != 0 && hr_rng_chance(&rng, 1, 2)) {
                hr_table_erase(&tables.table, cell);
                erased++;
            } else {
                at++;
            }
        }
        assert_int_equal(seen, before);
        assert_int_equal(tables.table.count, before - erased);
        expect_order(&tables.table, whole);
        close_tables(&tables);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_holds_what_a_plain_array_holds),
        cmocka_unit_test(a_full_table_takes_none_and_keeps_all),
        cmocka_unit_test(a_full_table_of_a_part_of_the_ids_has_none_far_from_its_home),
        cmocka_unit_test(a_run_that_reaches_the_end_says_full_and_breaks_nothing),
        cmocka_unit_test(a_sweep_that_erases_misses_no_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
