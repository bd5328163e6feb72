/* Catalog: what is put or deleted at run time stands over the limits file, and nothing that is wrong changes anything.
 * Limit maps: what a node says of a limit reads back as the same limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/catalog.h"
#include "node/limit_map.h"
#include "node/limits_yaml.h"
#include "node/temp_folder.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char folder[256], path[sizeof(folder) + 16];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static struct hr_catalog *open_catalog(const char *text)
{
    struct hr_problem problem;
    write_file(text);
    struct hr_catalog *catalog = hr_catalog_new(path, &problem);
    if (catalog == NULL) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    return catalog;
}

/* The set in force, as "name capacity, ...". */
static void assert_in_force(const struct hr_catalog *catalog, const char *wanted)
{
    char found[512] = "";
    const struct hr_limit_set *set = hr_catalog_set(catalog);
    for (uint32_t i = 0; i < set->limit_count; i++) {
        size_t used = strlen(found);
        (void)snprintf(found + used, sizeof(found) - used, "%s%.*s %d", i == 0 ? "" : ", ",
                       (int)set->limits[i].name.bytes, set->limits[i].name.at, (int)set->limits[i].rule.capacity);
    }
    assert_string_equal(found, wanted);
}

static uint64_t ordinal_of_puts;

static bool put(struct hr_catalog *catalog, const char *json)
{
    struct hr_problem problem;
    bool is_prepared = hr_catalog_prepare_put(catalog, ++ordinal_of_puts, hr_span_of(json), &problem) != NULL;
    if (is_prepared) {
        hr_catalog_commit(catalog);
    }
    return is_prepared;
}

static void delete_name(struct hr_catalog *catalog, const char *name)
{
    struct hr_problem problem;
    assert_non_null(hr_catalog_prepare_delete(catalog, ++ordinal_of_puts, hr_span_of(name), &problem));
    hr_catalog_commit(catalog);
}

#define TWO_LIMITS                                \
    "limits:\n"                                   \
    "  - {name: a, algorithm: gcra, rate: 1/s}\n" \
    "  - {name: b, algorithm: gcra, rate: 2/s}\n"

static void what_is_put_replaces_in_its_place_or_comes_last(void **state)
{
    (void)state;
    struct hr_catalog *catalog = open_catalog(TWO_LIMITS);
    assert_in_force(catalog, "a 1, b 2");
    assert_true(put(catalog, "{\"name\":\"a\",\"algorithm\":\"gcra\",\"rate\":\"7/s\"}"));
    assert_true(put(catalog, "{\"name\":\"c\",\"algorithm\":\"gcra\",\"rate\":\"3/s\"}"));
    assert_in_force(catalog, "a 7, b 2, c 3");
    assert_true(put(catalog, "{\"name\":\"a\",\"algorithm\":\"gcra\",\"rate\":\"8/s\"}"));
    assert_in_force(catalog, "a 8, b 2, c 3");
    hr_catalog_free(catalog);
}

static void what_is_deleted_stays_hidden_when_the_file_is_read_again(void **state)
{
    (void)state;
    struct hr_problem problem;
    struct hr_catalog *catalog = open_catalog(TWO_LIMITS);
    delete_name(catalog, "a");
    assert_in_force(catalog, "b 2");
    write_file("limits: [{name: a, algorithm: gcra, rate: 5/s}, {name: d, algorithm: gcra, rate: 4/s}]\n");
    assert_non_null(hr_catalog_prepare_reload(catalog, &problem));
    hr_catalog_commit(catalog);
    assert_in_force(catalog, "d 4");
    assert_true(put(catalog, "{\"name\":\"a\",\"algorithm\":\"gcra\",\"rate\":\"6/s\"}"));
    assert_in_force(catalog, "a 6, d 4");
    hr_catalog_free(catalog);
}

static void what_is_wrong_changes_nothing_and_says_why(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "{\"name\":\"a\",\"algorithm\":\"gcra\"}",
        "{\"name\":\"a\",\"algorithm\":\"gcra\",\"rate\":\"0/s\"}",
        "{\"name\":\"A\",\"algorithm\":\"gcra\",\"rate\":\"1/s\"}",
        "{\"name\":\"a\",\"algorithm\":\"gcra\",\"rate\":\"1/s\",\"more\":1}",
        "{\"name\":\"x\",\"algorithm\":\"gcra\",\"rate\":\"1/s\"},{}",
        "[]",
        "7",
    };
    struct hr_problem problem;
    struct hr_catalog *catalog = open_catalog(TWO_LIMITS);
    for (size_t i = 0; i < COUNT(rows); i++) {
        problem.what[0] = '\0';
        if (hr_catalog_prepare_put(catalog, 1, hr_span_of(rows[i]), &problem) != NULL || problem.what[0] == '\0') {
            fail_msg("row %zu", i);
        }
    }
    write_file("limits: [{name: a}]\n");
    assert_null(hr_catalog_prepare_reload(catalog, &problem));
    assert_in_force(catalog, "a 1, b 2");
    hr_catalog_free(catalog);
}

static void more_limits_that_all_touch_than_a_decision_has_rows_cannot_be_put(void **state)
{
    (void)state;
    struct hr_catalog *catalog = open_catalog("limits: []\n");
    for (int i = 0; i <= HR_TOUCHED_MAX; i++) {
        char json[128];
        (void)snprintf(json, sizeof(json), "{\"name\":\"l%d\",\"algorithm\":\"gcra\",\"rate\":\"1/s\"}", i);
        assert_int_equal(put(catalog, json), i < HR_TOUCHED_MAX);
    }
    assert_int_equal(hr_catalog_set(catalog)->limit_count, HR_TOUCHED_MAX);
    hr_catalog_free(catalog);
}

static void what_was_kept_is_in_force_again_and_what_no_longer_reads_is_left_out(void **state)
{
    (void)state;
    struct hr_problem problem;
    struct hr_catalog *catalog = open_catalog(TWO_LIMITS);
    struct hr_span c = HR_SPAN("{\"name\":\"c\",\"algorithm\":\"gcra\",\"rate\":\"3/s\"}");
    assert_true(hr_catalog_restore(catalog, 3, HR_SPAN("c"), c, &problem));
    assert_true(hr_catalog_restore(catalog, 1, HR_SPAN("a"), HR_SPAN(""), &problem));
    assert_false(hr_catalog_restore(catalog, 4, HR_SPAN("d"), HR_SPAN("{\"name\":\"d\"}"), &problem));
    assert_false(hr_catalog_restore(catalog, 5, HR_SPAN("NO"), HR_SPAN(""), &problem));
    assert_non_null(hr_catalog_prepare_restored(catalog, &problem));
    hr_catalog_commit(catalog);
    assert_in_force(catalog, "b 2, c 3");
    hr_catalog_free(catalog);
}

/* The store gives them in the order of hashes. */
static void what_was_put_comes_back_in_the_order_of_the_puts(void **state)
{
    (void)state;
    static const char *const names[] = {"n4", "n2", "n5", "n1", "n3"};
    struct hr_problem problem;
    struct hr_catalog *catalog = hr_catalog_new(NULL, &problem);
    assert_non_null(catalog);
    for (size_t i = 0; i < COUNT(names); i++) {
        char json[128];
        (void)snprintf(json, sizeof(json), "{\"name\":\"%s\",\"algorithm\":\"gcra\",\"rate\":\"%c/s\"}", names[i],
                       names[i][1]);
        uint64_t ordinal = (uint64_t)(names[i][1] - '0');
        assert_true(hr_catalog_restore(catalog, ordinal, hr_span_of(names[i]), hr_span_of(json), &problem));
    }
    assert_non_null(hr_catalog_prepare_restored(catalog, &problem));
    hr_catalog_commit(catalog);
    assert_in_force(catalog, "n1 1, n2 2, n3 3, n4 4, n5 5");
    assert_non_null(hr_catalog_prepare_put(
        catalog, 6, HR_SPAN("{\"name\":\"n0\",\"algorithm\":\"gcra\",\"rate\":\"9/s\"}"), &problem));
    hr_catalog_commit(catalog);
    assert_in_force(catalog, "n1 1, n2 2, n3 3, n4 4, n5 5, n0 9");
    assert_non_null(hr_catalog_prepare_put(
        catalog, 0, HR_SPAN("{\"name\":\"nx\",\"algorithm\":\"gcra\",\"rate\":\"8/s\"}"), &problem));
    hr_catalog_commit(catalog);
    assert_in_force(catalog, "nx 8, n1 1, n2 2, n3 3, n4 4, n5 5, n0 9"); /* put first, though it came last */
    hr_catalog_free(catalog);
}

/* Every kind of limit, as it is written, packed as a map, turned into JSON, and read again. */
static void a_limit_reads_back_from_its_map(void **state)
{
    (void)state;
    static const char text[] =
        "limits:\n"
        "  - {name: a, key: [x, y], algorithm: token_bucket, rate: 7 per 3s, burst: 9, mode: shadow}\n"
        "  - {name: b, algorithm: leaky_bucket, rate: 50/m, durability: reserved, on_unavailable: deny}\n"
        "  - {name: c, algorithm: fixed_window, rate: 5 per 250ms, scope: global}\n"
        "  - {name: d, algorithm: sliding_log, rate: 5/h, durability: memory}\n"
        "  - {name: e, algorithm: quota, quota: 10/month, time_zone: Europe/Berlin, on_unavailable: allow}\n"
        "  - {name: f, algorithm: quota, quota: 10/week}\n"
        "  - {name: i, algorithm: gcra, rate: 5/s, scope: global, reserve: 0%, slack: 100%}\n"
        "  - {name: j, algorithm: gcra, rate: 5/s, scope: global, reserve: 0.0001%, slack: 12.034%}\n"
        "  - {name: k, algorithm: gcra, rate: 5/s, scope: global, reserve: 20%}\n"
        "  - {name: g, algorithm: concurrency, slots: 3, ttl: 90s}\n"
        "  - {name: h, algorithm: gcra, rate: 1 per 365d,\n"
        "     when: {r: 'p.*', s: [u, {not: v}, {cidr: 10.0.0.0/8}], t: {not: [q, \"w\\\\\\\"\\x01\"]}, n: {not: "
        "{cidr: '::/0'}}}}\n";
    struct hr_problem problem;
    struct hr_limits_file *file = hr_limits_file_parse(HR_SPAN(text), "test", &problem);
    if (file == NULL) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
    for (uint32_t i = 0; i < file->limit_count; i++) {
        char map[4096], again[4096], json[8192];
        struct hr_packer packer = {.at = map, .room = sizeof(map)}, copy = {.at = again, .room = sizeof(again)};
        struct hr_packer words = {.at = json, .room = sizeof(json)};
        hr_pack_limit(&packer, &file->limits[i]);
        hr_pack_raw(&words, "{\"limits\":[", 11);
        assert_int_equal(hr_value_to_json(hr_packer_bytes(&packer), &words), HR_OK);
        hr_pack_raw(&words, "]}", 2);
        struct hr_limits_file *read = hr_limits_file_parse(hr_packer_bytes(&words), "again", &problem);
        if (read == NULL) {
            fail_msg("limit %u: %s (%s) in %.*s", i, problem.what, problem.where, (int)words.wanted, json);
        }
        hr_pack_limit(&copy, &read->limits[0]);
        assert_true(hr_span_equal(hr_packer_bytes(&packer), hr_packer_bytes(&copy)));
        assert_int_equal(read->limits[0].rule.capacity, file->limits[i].rule.capacity);
        assert_int_equal(read->limits[0].rule.period_ns, file->limits[i].rule.period_ns);
        assert_int_equal(read->limits[0].rule.ttl_ns, file->limits[i].rule.ttl_ns);
        assert_int_equal(read->limits[0].reserve_ppm, file->limits[i].reserve_ppm);
        assert_int_equal(read->limits[0].slack_ppm, file->limits[i].slack_ppm);
        hr_limits_file_free(read);
    }
    hr_limits_file_free(file);
}

static void values_that_json_or_yaml_would_change_are_refused_or_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        size_t bytes;
        enum hr_err err;
        const char *json;
    } rows[] = {
        {"\244a\302\205z", 5, HR_OK, "\"a\\u0085z\""},
        {"\243\"\\\n", 4, HR_OK, "\"\\\"\\\\\\u000a\""},
        {"\xa1\xff", 2, HR_E_INVALID, NULL},
        {"\xca\x00\x00\x00\x00", 5, HR_E_INVALID, NULL},
        {"\x92\xc0\xc3", 3, HR_OK, "[null,true]"},
        {"\xff", 1, HR_OK, "-1"},
        {"\x81\x01\x02", 3, HR_E_INVALID, NULL},
        {"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9, HR_OK, "-9223372036854775808"},
        {"\xc0\xc0", 2, HR_E_CORRUPT, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[64];
        struct hr_packer text = {.at = json, .room = sizeof(json)};
        enum hr_err err = hr_value_to_json((struct hr_span){rows[i].value, rows[i].bytes}, &text);
        bool is_right = err == rows[i].err &&
                        (rows[i].json == NULL || hr_span_equal(hr_packer_bytes(&text), hr_span_of(rows[i].json)));
        if (!is_right) {
            fail_msg("row %zu: %d, %.*s", i, (int)err, (int)text.wanted, json);
        }
    }
}

static int make_path(void **state)
{
    (void)state;
    bool is_made = hr_temp_folder("catalog", folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/limits.yaml", folder);
    return is_made ? 0 : -1;
}

static int remove_path(void **state)
{
    (void)state;
    (void)unlink(path); /* the last test may have left none */
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_replaces_in_its_place_or_comes_last),
        cmocka_unit_test(what_is_deleted_stays_hidden_when_the_file_is_read_again),
        cmocka_unit_test(what_is_wrong_changes_nothing_and_says_why),
        cmocka_unit_test(more_limits_that_all_touch_than_a_decision_has_rows_cannot_be_put),
        cmocka_unit_test(what_was_kept_is_in_force_again_and_what_no_longer_reads_is_left_out),
        cmocka_unit_test(what_was_put_comes_back_in_the_order_of_the_puts),
        cmocka_unit_test(a_limit_reads_back_from_its_map),
        cmocka_unit_test(values_that_json_or_yaml_would_change_are_refused_or_escaped),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
