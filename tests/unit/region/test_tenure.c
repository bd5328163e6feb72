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

/* Clocks differ, and run at different speeds. */
static void every_node_knows_how_old_letters_to_the_others_are(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct sim *sim = region_new(seed, 4);
        start_all(sim);
        must_settle(sim, "at the start");
        for (uint32_t i = 0; i < 300; i++) {
            region_run(sim, MS(10));
            for (uint32_t pair = 0; pair < 16; pair++) {
                hr_ns age = pair / 4 == pair % 4 ? 0 : region_age(sim, pair / 4, pair % 4);
                if (age < 0 || age > 2 * SIM_STEP_NS + MS(1)) {
                    fail_msg("seed %lu, from %u to %u: %ld ns", (unsigned long)seed, pair / 4, pair % 4, (long)age);
                }
            }
        }
        region_free(sim);
    }
}

static uint32_t owned_by(struct sim *sim, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        count += region_owner(sim, p) == node;
    }
    return count;
}

/* Neither can tell which of the two is cut off. The other half of all cuts, and its crash, the region does not survive
 * as an owner. */
static void of_two_nodes_the_one_of_the_lesser_id_goes_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct sim *sim = region_new(seed, 2);
        start_all(sim);
        must_settle(sim, "at the start");
        uint32_t lesser = sim->nodes[0].all[0].id < sim->nodes[0].all[1].id ? 0 : 1, other = 1 - lesser;
        region_cut(sim, lesser, other, true);
        region_cut(sim, other, lesser, true);
        region_run(sim, SECONDS(4));
        assert_int_equal(owned_by(sim, lesser), HR_PARTITIONS);
        region_heal(sim);
        must_settle(sim, "after the cut");
        assert_in_range(owned_by(sim, other), HR_PARTITIONS * 45 / 100, HR_PARTITIONS * 55 / 100);
        region_crash(sim, lesser);
        region_run(sim, SECONDS(10));
        assert_int_equal(owned_by(sim, other), 0);
        region_start(sim, lesser);
        must_settle(sim, "after the crash");
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

/* The longest time for which nobody answered for the partition of some user. */
struct pauses {
    hr_ns since[SIM_USERS]; /* 0: somebody answers */
    hr_ns longest;
};

static void note_pauses(struct sim *sim, struct pauses *pauses)
{
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        if (region_owner(sim, hr_partition_of(sim->counters[user])) != UINT32_MAX) {
            pauses->since[user] = 0;
            continue;
        }
        pauses->since[user] = pauses->since[user] == 0 ? sim->now - SIM_STEP_NS : pauses->since[user];
        hr_ns pause = sim->now - pauses->since[user];
        pauses->longest = pause > pauses->longest ? pause : pauses->longest;
    }
}

/* A message that had to wait until it was sent again would make a pause of 50 ms by itself. */
static void planned_moves_pause_no_partition_for_long(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 16);
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 4);
        struct pauses pauses = {.longest = 0};
        sim->faults.delay_max = MS(8);
        for (uint32_t i = 0; i < 3; i++) {
            region_start(sim, i);
        }
        must_settle(sim, "at the start");
        for (uint32_t move = 0; move < 6; move++) {
            uint32_t node = move % 2 == 0 ? 3 : (uint32_t)hr_rng_below(&sim->rng, 3);
            if (sim->nodes[node].is_up) {
                region_leave(sim, node);
            } else {
                region_start(sim, node);
            }
            for (hr_ns end = sim->now + SECONDS(4); sim->now < end;) {
                region_run(sim, SIM_STEP_NS);
                spend_some(sim, (uint32_t)hr_rng_below(&sim->rng, 2));
                note_pauses(sim, &pauses);
            }
        }
        if (pauses.longest > MS(20)) {
            fail_msg("seed %lu: a pause of %ld ms", (unsigned long)seed, (long)(pauses.longest / HR_NS_PER_MS));
        }
        region_free(sim);
    }
}

/* Nobody is there to hand anything over to; what was spent is in their stores. */
static void nodes_that_all_leave_together_are_down_at_once(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 12);
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 2 + (uint32_t)(seed % 4));
        start_all(sim);
        must_settle(sim, "at the start");
        run_spending(sim, SECONDS(1));
        region_run(sim, MS(500));
        for (uint32_t i = 0; i < sim->node_count; i++) {
            region_leave(sim, i);
            region_run(sim, SIM_STEP_NS * (hr_ns)hr_rng_below(&sim->rng, 4));
        }
        region_run(sim, MS(300));
        for (uint32_t i = 0; i < sim->node_count; i++) {
            if (sim->nodes[i].is_up) {
                fail_msg("seed %lu: node %u is still there", (unsigned long)seed, i);
            }
            region_start(sim, i);
        }
        must_settle(sim, "after all came back");
        all_must_be_there(sim, "after all came back");
        region_free(sim);
    }
}

/* Asked of the node itself: does it say of a partition that nobody can be asked? */
static bool knows_nobody(const struct sim *sim, uint32_t index, uint32_t partition)
{
    const struct sim_node *node = &sim->nodes[index];
    uint32_t member;
    return hr_tenure_standing(node->tenure, partition, node->fixture.now.steady, &member) == HR_STANDING_NOBODY;
}

static void a_node_that_has_just_started_gives_nobody_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sim *sim = region_new(seed, 4);
        for (uint32_t i = 0; i < 3; i++) {
            region_start(sim, i);
        }
        must_settle(sim, "at the start");
        uint32_t node = (uint32_t)(seed % 4);
        region_crash(sim, node);
        region_start(sim, node);
        for (uint32_t i = 0; i < 20; i++) {
            region_run(sim, SIM_STEP_NS);
            for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
                if (knows_nobody(sim, node, p)) {
                    fail_msg("seed %lu: %u steps after its start", (unsigned long)seed, i);
                }
            }
        }
        region_free(sim);
    }
}

static void a_node_that_finds_nobody_says_so_before_long(void **state)
{
    (void)state;
    struct sim *sim = region_new(1, 3);
    region_start(sim, 0);
    region_run(sim, MS(50));
    assert_false(knows_nobody(sim, 0, 5));
    region_run(sim, MS(450));
    assert_true(knows_nobody(sim, 0, 5));
    region_free(sim);
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

/* The owner is out of reach, and meanwhile its standby is started anew, and takes over: what it had been told, and its
 * store had had the time to take, is there. */
static void a_copy_outlives_a_restart_of_its_standby(void **state)
{
    (void)state;
    struct seeds seeds = seeds_of(1, 12);
    uint64_t kept_users = 0;
    for (uint64_t seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
        struct sim *sim = region_new(seed, 3 + (uint32_t)(seed % 3));
        start_all(sim);
        must_settle(sim, "at the start");
        run_spending(sim, SECONDS(2));
        region_run(sim, MS(400));
        uint32_t owner = (uint32_t)hr_rng_below(&sim->rng, sim->node_count);
        bool is_owned[SIM_USERS];
        for (uint32_t user = 0; user < SIM_USERS; user++) {
            is_owned[user] = region_owner(sim, hr_partition_of(sim->counters[user])) == owner;
        }
        for (uint32_t i = 0; i < sim->node_count; i++) {
            region_cut(sim, owner, i, true);
            region_cut(sim, i, owner, true);
        }
        for (uint32_t i = 0; i < sim->node_count; i++) {
            if (i != owner) {
                region_crash(sim, i);
                region_start(sim, i);
            }
        }
        region_run(sim, SECONDS(8));
        for (uint32_t user = 0; user < SIM_USERS; user++) {
            uint32_t heir = region_owner(sim, hr_partition_of(sim->counters[user]));
            if (!is_owned[user] || heir == UINT32_MAX) {
                continue;
            }
            kept_users++;
            if (heir == owner || region_spent_at(sim, heir, user) != sim->spent[user]) {
                fail_msg("seed %lu user %u: %lu stand at node %u, %lu were spent", (unsigned long)seed, user,
                         (unsigned long)region_spent_at(sim, heir, user), heir, (unsigned long)sim->spent[user]);
            }
        }
        assert_null(sim->violation);
        region_free(sim);
    }
    assert_true(kept_users > seeds.count);
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
        cmocka_unit_test(every_node_knows_how_old_letters_to_the_others_are),
        cmocka_unit_test(of_two_nodes_the_one_of_the_lesser_id_goes_on),
        cmocka_unit_test(planned_moves_neither_lose_nor_double_a_unit),
        cmocka_unit_test(planned_moves_pause_no_partition_for_long),
        cmocka_unit_test(nodes_that_all_leave_together_are_down_at_once),
        cmocka_unit_test(a_node_that_has_just_started_gives_nobody_up),
        cmocka_unit_test(a_node_that_finds_nobody_says_so_before_long),
        cmocka_unit_test(an_acknowledged_copy_outlives_its_owner),
        cmocka_unit_test(a_copy_outlives_a_restart_of_its_standby),
        cmocka_unit_test(no_two_nodes_ever_answer_for_one_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
