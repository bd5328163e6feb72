/* The map of partitions: the same for everybody, fair, and moved no more than it must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "region/partition.h"

#define COUNT_MAX 50

static void make(struct hr_candidate *candidates, uint32_t count, uint64_t seed)
{
    struct hr_rng rng = {seed};
    for (uint32_t i = 0; i < count; i++) {
        candidates[i] = (struct hr_candidate){.id = hr_rng_next(&rng), .weight = 1, .member = i};
    }
}

static void count_shares(const struct hr_partition_map *map, uint32_t shares[HR_REGION_NODES_MAX])
{
    memset(shares, 0, HR_REGION_NODES_MAX * sizeof(shares[0]));
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        assert_true(map->owner[p] < HR_REGION_NODES_MAX);
        shares[map->owner[p]]++;
    }
}

static void equal_nodes_have_equal_shares_within_ten_percent(void **state)
{
    (void)state;
    struct hr_candidate candidates[COUNT_MAX];
    struct hr_partition_map map;
    uint32_t shares[HR_REGION_NODES_MAX];
    for (uint32_t count = 1; count <= COUNT_MAX; count++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            make(candidates, count, seed * 1000 + count);
            hr_partition_map_build(&map, candidates, count);
            count_shares(&map, shares);
            for (uint32_t i = 0; i < count; i++) {
                if (shares[i] * count * 10 > HR_PARTITIONS * 11 || shares[i] * count * 10 < HR_PARTITIONS * 9) {
                    fail_msg("%u nodes, seed %lu: node %u has %u", count, (unsigned long)seed, i, shares[i]);
                }
            }
        }
    }
}

static void weights_are_respected(void **state)
{
    (void)state;
    static const uint32_t weights[][4] = {{1, 2, 3, 4}, {1, 1, 1, 13}, {100, 1, 50, 49}, {5, 5, 5, 1}};
    struct hr_candidate candidates[4];
    struct hr_partition_map map;
    uint32_t shares[HR_REGION_NODES_MAX];
    for (uint32_t row = 0; row < 4; row++) {
        uint32_t sum = 0;
        make(candidates, 4, row + 1);
        for (uint32_t i = 0; i < 4; i++) {
            candidates[i].weight = weights[row][i];
            sum += weights[row][i];
        }
        hr_partition_map_build(&map, candidates, 4);
        count_shares(&map, shares);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t fair = HR_PARTITIONS * weights[row][i] / sum, slack = fair / 10 + 2;
            if (shares[i] > fair + slack || shares[i] + slack < fair) {
                fail_msg("row %u: node %u has %u, fair are %u", row, i, shares[i], fair);
            }
        }
    }
}

/* Few nodes need no trimming: then exactly the share of the one that comes or goes moves, to it or from it. Among many,
 * at most two partitions in a hundred move besides. */
static void only_its_share_moves(void **state)
{
    (void)state;
    struct hr_candidate candidates[COUNT_MAX];
    struct hr_partition_map with, without;
    for (uint32_t count = 2; count <= COUNT_MAX; count++) {
        uint32_t others = 0;
        make(candidates, count, count);
        hr_partition_map_build(&with, candidates, count);
        hr_partition_map_build(&without, candidates, count - 1);
        for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
            others += with.owner[p] != without.owner[p] && with.owner[p] != count - 1;
        }
        uint32_t allowed = count <= 5 ? 0 : HR_PARTITIONS * 2 / 100;
        if (others > allowed) {
            fail_msg("%u nodes: %u partitions moved between others", count, others);
        }
    }
}

static void a_standby_is_another_and_on_another_host_where_there_is_one(void **state)
{
    (void)state;
    struct hr_candidate candidates[8];
    struct hr_partition_map map;
    for (uint32_t hosts = 0; hosts <= 4; hosts++) { /* 0: unknown */
        make(candidates, 8, hosts + 1);
        for (uint32_t i = 0; i < 8; i++) {
            candidates[i].host = hosts == 0 ? 0 : i % hosts + 1;
        }
        hr_partition_map_build(&map, candidates, 8);
        for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
            assert_true(map.standby[p] < 8);
            assert_int_not_equal(map.standby[p], map.owner[p]);
            if (hosts > 1) {
                assert_int_not_equal(candidates[map.standby[p]].host, candidates[map.owner[p]].host);
            }
        }
    }
}

static void every_node_draws_the_same_map(void **state)
{
    (void)state;
    struct hr_candidate a[20], b[20];
    struct hr_partition_map map_a, map_b;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct hr_rng rng = {seed};
        make(a, 20, seed);
        for (uint32_t i = 0; i < 20; i++) {
            a[i].weight = 1 + (uint32_t)hr_rng_below(&rng, 3);
        }
        memcpy(b, a, sizeof(a));
        for (uint32_t i = 19; i > 0; i--) {
            uint32_t k = (uint32_t)hr_rng_below(&rng, i + 1);
            struct hr_candidate held = b[i];
            b[i] = b[k];
            b[k] = held;
        }
        hr_partition_map_build(&map_a, a, 20);
        hr_partition_map_build(&map_b, b, 20);
        for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
            assert_true(a[map_a.owner[p]].id == b[map_b.owner[p]].id);
            assert_true(a[map_a.standby[p]].id == b[map_b.standby[p]].id);
        }
    }
}

static void few_or_no_nodes_have_a_map_too(void **state)
{
    (void)state;
    struct hr_candidate one = {.id = 5, .weight = 1};
    struct hr_partition_map map;
    hr_partition_map_build(&map, &one, 0);
    assert_int_equal(map.owner[7], HR_CANDIDATE_NONE);
    hr_partition_map_build(&map, &one, 1);
    assert_int_equal(map.owner[7], 0);
    assert_int_equal(map.standby[7], HR_CANDIDATE_NONE);
}

static void candidates_are_the_live_members_of_the_region(void **state)
{
    (void)state;
    static struct hr_member all[100];
    struct hr_members members = {all, 100, 100, 0, 1};
    struct hr_candidate candidates[HR_REGION_NODES_MAX];
    for (uint32_t i = 0; i < 100; i++) {
        all[i] = (struct hr_member){.id = 1000 - i, .state = HR_MEMBER_ALIVE, .weight = 2, .region = "eu"};
    }
    all[99].state = HR_MEMBER_DEAD;
    all[98].region[0] = 'u';
    all[97].state = HR_MEMBER_SUSPECT;
    assert_int_equal(hr_partition_candidates(&members, "eu", candidates), HR_REGION_NODES_MAX);
    for (uint32_t i = 0; i < HR_REGION_NODES_MAX; i++) { /* those of the least ids, in their order */
        assert_int_equal(candidates[i].id, 903 + i);
        assert_int_equal(candidates[i].member, 97 - i);
        assert_int_equal(candidates[i].weight, 2);
    }
}

static void partitions_cut_the_ids_into_equal_parts(void **state)
{
    (void)state;
    assert_int_equal(hr_partition_of((struct hr_id128){0, 0}), 0);
    assert_int_equal(hr_partition_of((struct hr_id128){UINT64_MAX, 0}), HR_PARTITIONS - 1);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        assert_int_equal(hr_partition_of((struct hr_id128){hr_partition_first(p), 0}), p);
        assert_int_equal(hr_partition_of((struct hr_id128){hr_partition_last(p), 0}), p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_nodes_have_equal_shares_within_ten_percent),
        cmocka_unit_test(weights_are_respected),
        cmocka_unit_test(only_its_share_moves),
        cmocka_unit_test(a_standby_is_another_and_on_another_host_where_there_is_one),
        cmocka_unit_test(every_node_draws_the_same_map),
        cmocka_unit_test(few_or_no_nodes_have_a_map_too),
        cmocka_unit_test(candidates_are_the_live_members_of_the_region),
        cmocka_unit_test(partitions_cut_the_ids_into_equal_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
