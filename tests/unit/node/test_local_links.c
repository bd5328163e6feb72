/* The links of a local cluster: what is written is read again, changes replace what they should, mistakes are told. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/command/local_links.h"
#include "node/temp_folder.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define GOOD                                   \
    "delay 80ms\n"                             \
    "region eu 127.0.1.1\n"                    \
    "region us 127.0.2.1\n"                    \
    "relay eu 127.0.1.1:4001 127.0.1.1:4002\n" \
    "relay us 127.0.2.1:4003 127.0.2.1:4004\n"

struct folder {
    char path[256], links[272];
};

static struct hr_local_links links;

static void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    static struct folder folder;
    if (!hr_temp_folder("test", folder.path, sizeof(folder.path))) {
        return -1;
    }
    (void)snprintf(folder.links, sizeof(folder.links), "%s/links", folder.path);
    write_file(folder.links, GOOD, strlen(GOOD));
    *state = &folder;
    return 0;
}

static int tear_down(void **state)
{
    struct folder *folder = *state;
    (void)unlink(folder->links);
    return rmdir(folder->path);
}

static void must_read(const struct folder *folder)
{
    struct hr_problem problem;
    if (!hr_local_links_read(folder->links, &links, &problem)) {
        fail_msg("%s (%s)", problem.what, problem.where);
    }
}

static void what_a_plan_writes_is_read_again(void **state)
{
    static struct hr_local_plan plan;
    const struct folder *folder = *state;
    struct hr_problem problem;
    assert_true(hr_local_plan_init(&plan, "eu,us", 2, &problem));
    assert_true(hr_local_plan_find_ports(&plan, &problem));
    FILE *out = fopen(folder->links, "w");
    assert_non_null(out);
    hr_local_links_write(&plan, "80ms", out);
    assert_int_equal(fclose(out), 0);
    must_read(folder);
    assert_int_equal(links.delay_ns, 80 * HR_NS_PER_MS);
    assert_int_equal(links.loss_ppm, 0);
    assert_int_equal(links.region_count, 2);
    assert_int_equal(links.relay_count, 4);
    assert_string_equal(links.regions[1].name, "us");
    assert_int_equal(ntohl(links.regions[1].at.s_addr), 0x7f000201);
    assert_int_equal(links.relays[2].region, 1);
    assert_int_equal(ntohs(links.relays[2].from.sin_port), plan.nodes[2].relay.port);
    assert_int_equal(ntohs(links.relays[2].to.sin_port), plan.nodes[2].gossip.port);
    assert_int_equal(ntohl(links.relays[2].to.sin_addr.s_addr), 0x7f000201);
}

static void a_region_is_in_one_way_cut_off_at_most(void **state)
{
    static const struct {
        const char *region;
        enum hr_local_cut cut, eu, us;
    } rows[] = {
        {"us", HR_LOCAL_CUT, HR_LOCAL_HEALED, HR_LOCAL_CUT},
        {"us", HR_LOCAL_MUTE, HR_LOCAL_HEALED, HR_LOCAL_MUTE},
        {"eu", HR_LOCAL_DEAF, HR_LOCAL_DEAF, HR_LOCAL_MUTE},
        {"us", HR_LOCAL_HEALED, HR_LOCAL_DEAF, HR_LOCAL_HEALED},
        {"us", HR_LOCAL_HEALED, HR_LOCAL_DEAF, HR_LOCAL_HEALED},
        {"eu", HR_LOCAL_HEALED, HR_LOCAL_HEALED, HR_LOCAL_HEALED},
    };
    const struct folder *folder = *state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_problem problem;
        bool is_set = hr_local_links_set(folder->links, rows[i].region, rows[i].cut, &problem);
        must_read(folder);
        if (!is_set || links.regions[0].cut != rows[i].eu || links.regions[1].cut != rows[i].us) {
            fail_msg("row %zu", i);
        }
        assert_int_equal(links.relay_count, 2);
        assert_int_equal(links.delay_ns, 80 * HR_NS_PER_MS);
    }
}

static void delay_and_loss_are_set_anew(void **state)
{
    const struct folder *folder = *state;
    struct hr_problem problem;
    assert_true(hr_local_links_tune(folder->links, "loss", "20%", &problem));
    assert_true(hr_local_links_tune(folder->links, "delay", "1s", &problem));
    assert_true(hr_local_links_tune(folder->links, "loss", "2.5%", &problem));
    must_read(folder);
    assert_int_equal(links.loss_ppm, 25000);
    assert_int_equal(links.delay_ns, HR_NS_PER_S);
    assert_int_equal(links.region_count, 2);
}

static void an_unknown_region_changes_nothing(void **state)
{
    const struct folder *folder = *state;
    struct hr_problem problem;
    assert_false(hr_local_links_set(folder->links, "u", HR_LOCAL_CUT, &problem));
    assert_string_equal(problem.what, "the cluster has no region \"u\"");
    must_read(folder);
    assert_int_equal(links.regions[1].cut, HR_LOCAL_HEALED);
}

static void a_line_that_is_no_entry_is_told_by_its_number(void **state)
{
    static const char *const lines[] = {
        "delay",
        "delay 80",
        "delay 80ms 90ms",
        "loss 101%",
        "region ap",
        "region ap 127.0.0.x",
        "cut ap",
        "heal",
        "sever us",
        "relay ap 127.0.1.1:1 127.0.1.1:2",
        "relay us 1 2",
        "relay us 127.0.2.1:1 host:2",
        "cut us us",
        "relay us 127.0.2.1:1 127.0.2.1:2 x y",
        "",
    };
    const struct folder *folder = *state;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        char text[512], where[sizeof(folder->links) + 8];
        struct hr_problem problem;
        (void)snprintf(text, sizeof(text), GOOD "%s\n", lines[i]);
        (void)snprintf(where, sizeof(where), "%s:6", folder->links);
        write_file(folder->links, text, strlen(text));
        if (hr_local_links_read(folder->links, &links, &problem) || strcmp(problem.where, where) != 0) {
            fail_msg("line %zu: %s", i, lines[i]);
        }
    }
}

static void no_prefix_of_a_file_is_read_beyond_its_end(void **state)
{
    const struct folder *folder = *state;
    for (size_t bytes = 0; bytes < strlen(GOOD); bytes++) {
        struct hr_problem problem;
        write_file(folder->links, GOOD, bytes);
        if (hr_local_links_read(folder->links, &links, &problem) && links.relay_count > 2) {
            fail_msg("prefix of %zu bytes", bytes);
        }
    }
}

static void more_regions_or_relays_than_there_is_room_for_are_refused(void **state)
{
    const struct folder *folder = *state;
    for (int i = 0; i < 2; i++) {
        FILE *out = fopen(folder->links, "w");
        struct hr_problem problem;
        assert_non_null(out);
        assert_true(fputs(GOOD, out) >= 0);
        for (unsigned k = 1; k <= HR_LOCAL_NODES_MAX; k++) {
            assert_true(i == 0 ? fprintf(out, "region r%u 127.0.3.1\n", k) > 0
                               : fprintf(out, "relay us 127.0.2.1:%u 127.0.2.1:1\n", k) > 0);
        }
        assert_int_equal(fclose(out), 0);
        assert_false(hr_local_links_read(folder->links, &links, &problem));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_plan_writes_is_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_region_is_in_one_way_cut_off_at_most, set_up, tear_down),
        cmocka_unit_test_setup_teardown(delay_and_loss_are_set_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_unknown_region_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_that_is_no_entry_is_told_by_its_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_prefix_of_a_file_is_read_beyond_its_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_regions_or_relays_than_there_is_room_for_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
