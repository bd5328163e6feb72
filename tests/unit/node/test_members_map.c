/* The members as `members` answers them, and which of them may be forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/members_map.h"
#include "node/value_text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct hr_member all[] = {
    {.id = 1,
     .incarnation = 3,
     .state = HR_MEMBER_ALIVE,
     .name = "a",
     .region = "eu",
     .rpc = "h:1",
     .gossip = "tcp://h:2"},
    {.id = 2, .incarnation = UINT64_MAX, .state = HR_MEMBER_SUSPECT, .name = "b", .region = "eu"},
    {.id = 3, .state = HR_MEMBER_DEAD, .name = "c", .region = "eu"},
    {.id = 4, .state = HR_MEMBER_LEFT, .name = "a", .region = "us"},
};
static const struct hr_members members = {.all = all, .count = COUNT(all), .count_max = COUNT(all), .view = 9};

static uint32_t owner(void *context, uint32_t partition)
{
    (void)context;
    return partition % 2;
}

static uint32_t standby(void *context, uint32_t partition)
{
    (void)context;
    return partition == 0 ? HR_MEMBER_NONE : 1 - partition % 2;
}

static const struct hr_cluster_view view = {
    .members = &members, .partition_count = 3, .owner = owner, .standby = standby};

static void assert_told(bool with_partitions, const char *want)
{
    char bytes[2048], json[2048] = "";
    struct hr_packer packer = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_members(&packer, &view, with_partitions);
    assert_true(hr_packer_fits(&packer));
    FILE *out = fmemopen(json, sizeof(json), "w");
    assert_non_null(out);
    assert_int_equal(hr_value_print_json(out, hr_packer_bytes(&packer)), HR_OK);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(json, want);
}

#define MEMBERS                                                                                             \
    "\"members\":["                                                                                         \
    "{\"name\":\"a\",\"region\":\"eu\",\"state\":\"alive\",\"rpc\":\"h:1\",\"gossip\":\"tcp://h:2\","       \
    "\"incarnation\":3},"                                                                                   \
    "{\"name\":\"b\",\"region\":\"eu\",\"state\":\"suspect\",\"rpc\":\"\",\"gossip\":\"\","                 \
    "\"incarnation\":9007199254740991},"                                                                    \
    "{\"name\":\"c\",\"region\":\"eu\",\"state\":\"dead\",\"rpc\":\"\",\"gossip\":\"\",\"incarnation\":0}," \
    "{\"name\":\"a\",\"region\":\"us\",\"state\":\"left\",\"rpc\":\"\",\"gossip\":\"\",\"incarnation\":0}]"

static void members_are_told_in_their_order(void **state)
{
    (void)state;
    assert_told(false, "{\"view\":9," MEMBERS "}");
}

static void partitions_name_members_by_their_place(void **state)
{
    (void)state;
    assert_told(true, "{\"view\":9," MEMBERS ",\"partitions\":{\"owners\":[0,1,0],\"standbys\":[-1,0,1]}}");
}

static void only_who_is_gone_may_be_forgotten(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum hr_err err;
        uint64_t id;
    } rows[] = {
        {"a", HR_OK, 4}, /* the one that left, not the one that lives */
        {"b", HR_E_INVALID, 0}, {"c", HR_OK, 3}, {"d", HR_E_NOT_FOUND, 0}, {"", HR_E_NOT_FOUND, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t id = 0;
        if (hr_members_find_gone(&members, hr_span_of(rows[i].name), &id) != rows[i].err || id != rows[i].id) {
            fail_msg("row %zu", i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_told_in_their_order),
        cmocka_unit_test(partitions_name_members_by_their_place),
        cmocka_unit_test(only_who_is_gone_may_be_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
