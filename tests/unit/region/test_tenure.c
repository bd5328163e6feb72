/* The region's part of several nodes, under virtual time and faults of every kind: no two ever answer for one
 * partition, everything is answered for again soon after it has healed, and what was spent goes where the partition
 * goes. Seeds: HEADROOM_SEEDS=FIRST:COUNT runs others than the few of every day. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/region_sim.h"

struct seeds {
    uint64_t first, count;
};

static struct seeds seeds_of(uint64_t first, uint64_t count)
{
    char *text = getenv("HEADROOM_SEEDS"), *end;
    if (text == NULL) {
        return (struct seeds){first, count};
    }
    struct seeds seeds = {.first = strtoull(text, &end, 10)};
    seeds.count = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
    return seeds;
}

static void start_all(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->node_count; i++) {
        region_start(sim, i);
    }
}

static void must_settle(struct sim *sim, const char *when)
{
    if (!region_settle(sim, SECONDS(20))) {
        fail_msg("seed %lu: %s, the region did not settle in 20 s", (unsigned long)sim->seed, when);
    }
    if (sim->violation != NULL) {
        fail_msg("seed %lu: %s: %s", (unsigned long)sim->seed, when, sim->violation);
    }
}

static void nodes_that_start_together_share_all_partitions(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= SIM_NODES_MAX; count++) {
        struct sim *sim = region_new(count, count);
        start_all(sim);
        must_settle(sim, "at the start");
        for (uint32_t i = 0; i < count; i++) {
            uint32_t held = hr_tenure_counts(sim->nodes[i].tenure, 0).held;
            assert_in_range(held, HR_PARTITIONS / count * 90 / 100, HR_PARTITIONS / count * 110 / 100 + 1);
        }
        region_free(sim);
    }
}

static void spend_some(struct sim *sim, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)region_spend(sim, (uint32_t)hr_rng_below(&sim->rng, SIM_USERS));
    }
}

static void run_spending(struct sim *sim, hr_ns ns)
{
    for (hr_ns end = sim->now + ns; sim->now < end;) {
        region_run(sim, SIM_STEP_NS);
        spend_some(sim, 2);
    }
}

/* Where nobody crashed, what stands at the owners is all that was spent, to the unit. */
static void all_must_be_there(struct sim *sim, const char *when)
{
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        uint32_t owner = region_owner(sim, hr_partition_of(sim->counters[user]));
        if (owner == UINT32_MAX || region_spent_at(sim, owner, user) != sim->spent[user]) {
            fail_msg("seed %lu: %s, user %u: %lu stand at node %u, %lu were spent", (unsigned long)sim->seed, when,
                     user, owner == UINT32_MAX ? 0UL : (unsigned long)region_spent_at(sim, owner, user), owner,
                     (unsigned long)sim->spent[user]);
        }
    }
}

/* Nodes come and go in good order, over a network that loses, doubles and reorders. */
static void planned_moves_neither_lose_nor_double_a_unit(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 12);
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 2 + (uint32_t)(seed % (SIM_NODES_MAX - 1)));
        struct hr_rng rng = {seed ^ 77};
        uint32_t first = 1 + (uint32_t)hr_rng_below(&rng, sim->node_count);
        for (uint32_t i = 0; i < first; i++) {
            region_start(sim, i);
        }
        must_settle(sim, "at the start");
        sim->faults = (struct sim_faults){.loss_percent = (uint32_t)hr_rng_below(&rng, 15),
                                          .double_percent = (uint32_t)hr_rng_below(&rng, 10),
                                          .delay_max = (hr_ns)hr_rng_below(&rng, MS(20)),
                                          .reorders = hr_rng_chance(&rng, 1, 2)};
        run_spending(sim, SECONDS(1));
        for (uint32_t round = 0; round < 4; round++) {
            uint32_t node = (uint32_t)hr_rng_below(&rng, sim->node_count);
            if (sim->nodes[node].is_up && !sim->nodes[node].has_left) {
                region_leave(sim, node);
            } else {
                region_start(sim, node);
            }
            run_spending(sim, SECONDS(1) + (hr_ns)hr_rng_below(&rng, SECONDS(2)));
            bool any_up = false;
            for (uint32_t i = 0; i < sim->node_count; i++) {
                any_up |= sim->nodes[i].is_up && !sim->nodes[i].has_left;
            }
            if (!any_up) {
                break;
            }
            must_settle(sim, "after a move");
            all_must_be_there(sim, "after a move");
        }
        assert_true(sim->answered > 100);
        region_free(sim);
    }
}

/* What is stored and copied is known to whoever takes over, when one node dies for good. */
static void an_acknowledged_copy_outlives_its_owner(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 16);
    uint64_t lost_users = 0;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 3 + (uint32_t)(seed % (SIM_NODES_MAX - 2)));
        sim->hosts = (uint32_t)(seed % 3); /* so that the standby is not the next one by rank, either */
        start_all(sim);
        must_settle(sim, "at the start");
        sim->faults.loss_percent = (uint32_t)(seed % 10);
        run_spending(sim, SECONDS(2) + (hr_ns)hr_rng_below(&sim->rng, SECONDS(1)));
        uint32_t dead = (uint32_t)hr_rng_below(&sim->rng, sim->node_count);
        uint64_t safe[SIM_USERS];
        for (uint32_t user = 0; user < SIM_USERS; user++) {
            bool is_lost = region_owner(sim, hr_partition_of(sim->counters[user])) == dead;
            safe[user] = is_lost ? sim->nodes[dead].safe_spent[user] : 0;
            lost_users += is_lost && safe[user] > 0;
        }
        region_crash(sim, dead);
        hr_ns died_at = sim->now;
        while (!region_is_settled(sim) && sim->now - died_at < SECONDS(5)) {
            region_run(sim, SIM_STEP_NS);
        }
        if (sim->now - died_at > SECONDS(2)) {
            fail_msg("seed %lu: the dead node's partitions were not answered for within 2 s", (unsigned long)seed);
        }
        for (uint32_t user = 0; user < SIM_USERS; user++) {
            uint32_t owner = region_owner(sim, hr_partition_of(sim->counters[user]));
            uint64_t there = region_spent_at(sim, owner, user);
            if (there < safe[user] || there > sim->spent[user]) {
                fail_msg("seed %lu user %u: %lu stand at the heir, %lu were safe, %lu spent", (unsigned long)seed, user,
                         (unsigned long)there, (unsigned long)safe[user], (unsigned long)sim->spent[user]);
            }
        }
        assert_null(sim->violation);
        region_free(sim);
    }
    assert_true(lost_users > seeds.count);
}

/* --- faults of every kind --- */

static void cut_some(struct sim *sim, struct hr_rng *rng)
{
    uint32_t side = (uint32_t)hr_rng_below(rng, 1U << sim->node_count);
    bool is_one_way = hr_rng_chance(rng, 1, 3), is_whole = hr_rng_chance(rng, 1, 2);
    for (uint32_t a = 0; a < sim->node_count; a++) {
        for (uint32_t b = 0; b < sim->node_count; b++) {
            bool is_across = (side >> a & 1) != (side >> b & 1) && (!is_one_way || (side >> a & 1));
            region_cut(sim, a, b, is_across && (is_whole || hr_rng_chance(rng, 1, 2)));
        }
    }
}

static void mend(struct sim *sim)
{
    for (uint32_t a = 0; a < sim->node_count; a++) {
        for (uint32_t b = 0; b < sim->node_count; b++) {
            region_cut(sim, a, b, false);
        }
    }
}

static void strike(struct sim *sim, struct hr_rng *rng)
{
    uint32_t node = (uint32_t)hr_rng_below(rng, sim->node_count);
    switch (hr_rng_below(rng, 9)) {
    case 0:
    case 1:
        cut_some(sim, rng);
        break;
    case 2:
    case 3:
        mend(sim);
        break;
    case 4:
        region_set_pause(sim, node, true);
        break;
    case 5:
        for (uint32_t i = 0; i < sim->node_count; i++) {
            region_set_pause(sim, i, false);
        }
        break;
    case 6:
        region_crash(sim, node);
        sim->nodes[node].restart_at = sim->now + (hr_ns)hr_rng_below(rng, SECONDS(4));
        break;
    case 7:
        if (sim->nodes[node].is_up) {
            region_leave(sim, node);
        } else {
            region_start(sim, node);
        }
        break;
    default:
        sim->faults = (struct sim_faults){.loss_percent = (uint32_t)hr_rng_below(rng, 30),
                                          .double_percent = (uint32_t)hr_rng_below(rng, 20),
                                          .delay_max = (hr_ns)hr_rng_below(rng, MS(200)),
                                          .reorders = hr_rng_chance(rng, 1, 2)};
    }
}

static void no_two_nodes_ever_answer_for_one_partition(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 40);
    uint64_t answered = 0, unanswered = 0;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 2 + (uint32_t)(seed % (SIM_NODES_MAX - 1)));
        struct hr_rng rng = {seed * 31 + 7};
        sim->hosts = (uint32_t)hr_rng_below(&rng, 4);
        start_all(sim);
        must_settle(sim, "at the start");
        for (uint32_t round = 0; round < 24 && sim->violation == NULL; round++) {
            strike(sim, &rng);
            run_spending(sim, (hr_ns)hr_rng_below(&rng, hr_rng_chance(&rng, 1, 4) ? SECONDS(3) : MS(600)));
        }
        answered += sim->answered;
        unanswered += sim->unanswered;
        for (uint32_t i = 0; i < sim->node_count; i++) {
            sim->nodes[i].has_left = false;
        }
        region_heal(sim);
        must_settle(sim, "after all has healed");
        region_free(sim);
    }
    printf("%lu seeds: %lu spends answered, %lu not\n", (unsigned long)seeds.count, (unsigned long)answered,
           (unsigned long)unanswered);
    assert_true(answered > unanswered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_start_together_share_all_partitions),
        cmocka_unit_test(planned_moves_neither_lose_nor_double_a_unit),
        cmocka_unit_test(an_acknowledged_copy_outlives_its_owner),
        cmocka_unit_test(no_two_nodes_ever_answer_for_one_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
