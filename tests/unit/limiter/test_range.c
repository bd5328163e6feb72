/* Ranges of ids: taken out of one limiter and put in place in another they are the same counters and leases, whatever
 * happens between two steps; what is dropped is gone, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/limiter_state.h"
#include "limiter/part.h"
#include "limiter/range.h"
#include "limiter/save.h"
#include "tests/lib/limiter_fixture.h"

#define USERS 60
#define CAPACITY 1000
#define CHUNK 64 /* what is raised for a first request of cost 1 */

static const struct hr_range all = {0, UINT64_MAX};

static void open_pair_member(struct fixture *fixture, enum hr_algorithm algorithm)
{
    const struct fixture_limit limit = {.name = "l", .key = "user", .rule = any_rule(algorithm, CAPACITY)};
    fixture_open(fixture, (struct hr_limiter_sizes){.counters_max = 512,
                                                    .leases_max = 1024,
                                                    .log_blocks_max = 1024,
                                                    .limits_max = 8,
                                                    .reserves_max = 64,
                                                    .saves = true});
    fixture_load(fixture, &limit, 1);
}

static const char *name_of(uint32_t user)
{
    static char text[32];
    snprintf(text, sizeof(text), "user=u%u", user);
    return text;
}

static uint64_t left_of(struct fixture *fixture, uint32_t user)
{
    return fixture_remaining(fixture, name_of(user), "l");
}

static struct hr_id128 counter_of(struct fixture *fixture, uint32_t user)
{
    assert_true(fixture_peek(fixture, name_of(user), 0));
    return fixture->decision.rows[0].counter;
}

/* Moves what is in a range; how many images that took. */
static uint32_t move(struct fixture *from, struct fixture *to, struct hr_range range)
{
    struct hr_range_cursor cursor;
    struct hr_counter_image counter;
    struct hr_lease_image lease;
    struct hr_id128 lease_counter = {0, 0};
    enum hr_range_kind kind;
    uint32_t count = 0;
    hr_range_cursor_init(&cursor, range);
    hr_limiter_range_begin(to->limiter, range);
    while ((kind = hr_limiter_range_next(from->limiter, &cursor, HR_RANGE_EXACT, from->now, &counter, &lease)) !=
           HR_RANGE_END) {
        uint64_t hi = kind == HR_RANGE_COUNTER ? counter.id.hi : lease.counter.hi;
        assert_true(hi >= range.first && hi <= range.last);
        if (kind == HR_RANGE_LEASE && !hr_id128_equal(lease.counter, lease_counter)) {
            lease_counter = lease.counter;
            hr_limiter_apply_forgotten(to->limiter, lease_counter, to->now);
        }
        assert_int_equal(kind == HR_RANGE_COUNTER ? hr_limiter_apply(to->limiter, &counter, 0, to->now)
                                                  : hr_limiter_apply_lease(to->limiter, &lease, 0, to->now),
                         HR_OK);
        assert_true(++count < 5000);
    }
    assert_true(hr_limiter_range_end(to->limiter, range, to->now));
    return count;
}

static void a_moved_range_is_the_same_range(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 40 * ALGORITHM_COUNT; seed++) {
        enum hr_algorithm algorithm = (enum hr_algorithm)(seed % ALGORITHM_COUNT);
        struct hr_rng rng = {seed};
        struct fixture from, to;
        open_pair_member(&from, algorithm);
        open_pair_member(&to, algorithm);
        for (int i = 0; i < 200; i++) {
            (void)fixture_take(&from, name_of((uint32_t)hr_rng_below(&rng, USERS)), 1 + hr_rng_below(&rng, 20));
            (void)fixture_take(&to, name_of((uint32_t)hr_rng_below(&rng, USERS)), 1 + hr_rng_below(&rng, 20));
            fixture_pass(&from, (int64_t)hr_rng_below(&rng, (uint64_t)MS(300)));
            to.now = from.now;
        }
        uint64_t a = hr_rng_next(&rng), b = hr_rng_next(&rng);
        struct hr_range range = hr_rng_chance(&rng, 1, 4) ? all : (struct hr_range){a < b ? a : b, a < b ? b : a};
        uint64_t before[USERS];
        for (uint32_t user = 0; user < USERS; user++) {
            before[user] = left_of(&to, user);
        }
        (void)move(&from, &to, range);
        for (uint32_t user = 0; user < USERS; user++) {
            uint64_t hi = counter_of(&from, user).hi;
            bool is_in = hi >= range.first && hi <= range.last;
            uint64_t expected = is_in ? left_of(&from, user) : before[user];
            if (left_of(&to, user) != expected) {
                fail_msg("seed %u user %u: %lu left, expected %lu", seed, user, (unsigned long)left_of(&to, user),
                         (unsigned long)expected);
            }
        }
        fixture_close(&from);
        fixture_close(&to);
    }
}

static void a_walk_survives_whatever_happens_between_its_steps(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        bool has_leases = seed % 2 == 0;
        struct hr_rng rng = {seed};
        struct fixture fixture;
        struct hr_range_cursor cursor;
        struct hr_counter_image counter;
        struct hr_lease_image lease;
        bool was_there[USERS] = {false}, came[USERS] = {false};
        struct hr_id128 ids[USERS];
        open_pair_member(&fixture, has_leases ? HR_CONCURRENCY : HR_FIXED_WINDOW);
        for (uint32_t user = 0; user < USERS; user++) {
            was_there[user] = hr_rng_chance(&rng, 2, 3) && fixture_take(&fixture, name_of(user), 1);
            ids[user] = counter_of(&fixture, user);
        }
        hr_range_cursor_init(&cursor, all);
        enum hr_range_kind kind;
        while ((kind = hr_limiter_range_next(fixture.limiter, &cursor, HR_RANGE_EXACT, fixture.now, &counter,
                                             &lease)) != HR_RANGE_END) {
            for (uint32_t user = 0; user < USERS; user++) {
                came[user] |= hr_id128_equal(kind == HR_RANGE_LEASE ? lease.counter : counter.id, ids[user]);
            }
            if (hr_rng_chance(&rng, 1, 3)) { /* others come, and are given more */
                (void)fixture_take(&fixture, name_of((uint32_t)hr_rng_below(&rng, 2 * USERS)), 1);
            }
            if (hr_rng_chance(&rng, 1, 3)) { /* and go: those that were not there at the start */
                uint32_t user = (uint32_t)hr_rng_below(&rng, USERS);
                if (!was_there[user]) {
                    hr_limiter_apply_forgotten(fixture.limiter, ids[user], fixture.now);
                }
            }
        }
        for (uint32_t user = 0; user < USERS; user++) {
            if (was_there[user] && !came[user]) {
                fail_msg("seed %u: the counter of user %u never came", seed, user);
            }
        }
        fixture_close(&fixture);
    }
}

static void ids_that_share_their_first_word_all_come_once(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_range_cursor cursor;
    struct hr_counter_image counter;
    struct hr_lease_image lease;
    open_pair_member(&fixture, HR_FIXED_WINDOW);
    assert_true(fixture_take(&fixture, "user=a", 1));
    struct hr_id128 id = counter_of(&fixture, 0);
    hr_range_cursor_init(&cursor, all);
    assert_int_equal(hr_limiter_range_next(fixture.limiter, &cursor, HR_RANGE_EXACT, fixture.now, &counter, &lease),
                     HR_RANGE_COUNTER);
    for (uint64_t lo = 9; lo > 0; lo--) {
        counter.id = (struct hr_id128){id.hi, lo};
        assert_int_equal(hr_limiter_apply(fixture.limiter, &counter, 0, fixture.now), HR_OK);
    }
    hr_range_cursor_init(&cursor, (struct hr_range){id.hi, id.hi});
    for (uint64_t lo = 1; lo < 10; lo++) {
        assert_int_equal(hr_limiter_range_next(fixture.limiter, &cursor, HR_RANGE_EXACT, fixture.now, &counter, &lease),
                         HR_RANGE_COUNTER);
        assert_int_equal(counter.id.lo, lo);
    }
    assert_int_equal(hr_limiter_range_next(fixture.limiter, &cursor, HR_RANGE_EXACT, fixture.now, &counter, &lease),
                     HR_RANGE_END);
    fixture_close(&fixture);
}

static void a_dropped_range_is_gone_and_nothing_else(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 10 * ALGORITHM_COUNT; seed++) {
        struct fixture fixture;
        uint64_t before[USERS];
        open_pair_member(&fixture, (enum hr_algorithm)(seed % ALGORITHM_COUNT));
        for (uint32_t user = 0; user < USERS; user++) {
            assert_true(fixture_take(&fixture, name_of(user), 1 + user % 3));
            before[user] = left_of(&fixture, user);
        }
        struct hr_range range = {(uint64_t)seed << 55, (uint64_t)seed << 55 | UINT64_C(1) << 62};
        assert_true(hr_limiter_range_drop(fixture.limiter, range, fixture.now));
        for (uint32_t user = 0; user < USERS; user++) {
            uint64_t hi = counter_of(&fixture, user).hi;
            bool is_in = hi >= range.first && hi <= range.last;
            assert_int_equal(left_of(&fixture, user), is_in ? CAPACITY : before[user]);
        }
        assert_true(hr_limiter_range_drop(fixture.limiter, all, fixture.now));
        assert_int_equal(fixture_counters(&fixture), 0);
        assert_int_equal(hr_limiter_usage(fixture.limiter).log_blocks, 0);
        fixture_close(&fixture);
    }
}

static void what_becomes_own_is_saved_and_a_copy_is_not(void **state)
{
    (void)state;
    struct fixture from, to;
    struct hr_counter_image counter;
    uint32_t count = 0;
    open_pair_member(&from, HR_TOKEN_BUCKET);
    open_pair_member(&to, HR_TOKEN_BUCKET);
    for (uint32_t user = 0; user < USERS; user++) {
        assert_true(fixture_take(&from, name_of(user), 1));
    }
    assert_int_equal(move(&from, &to, all), USERS);
    assert_false(hr_limiter_next_changed(to.limiter, to.now, &counter));
    hr_limiter_range_own(to.limiter, all);
    while (hr_limiter_next_changed(to.limiter, to.now, &counter)) {
        count++;
    }
    assert_int_equal(count, USERS);
    fixture_close(&from);
    fixture_close(&to);
}

/* --- units ahead --- */

static void open_reserved(struct fixture *fixture, enum hr_algorithm algorithm)
{
    const struct fixture_limit limit = {
        .name = "l", .key = "user", .rule = any_rule(algorithm, CAPACITY), .durability = HR_RESERVED};
    open_pair_member(fixture, algorithm);
    fixture_load(fixture, &limit, 1);
}

/* As one node's store and its standby would take them: a copy of each record, and then all are stored. */
static void store_raises(struct fixture *from, struct fixture *to)
{
    struct hr_counter_image image;
    while (hr_limiter_next_raise(from->limiter, from->now, &image)) {
        assert_int_equal(hr_limiter_apply(to->limiter, &image, 0, to->now), HR_OK);
    }
    hr_limiter_settle_raises(from->limiter, true);
}

static void pass_both(struct fixture *from, struct fixture *to, int64_t ns)
{
    fixture_pass(from, ns);
    fixture_pass(to, ns);
    fixture_sweep(from);
    fixture_sweep(to);
}

static const enum hr_algorithm reserved_ones[] = {HR_TOKEN_BUCKET,   HR_GCRA,        HR_LEAKY_BUCKET, HR_FIXED_WINDOW,
                                                  HR_SLIDING_WINDOW, HR_SLIDING_LOG, HR_QUOTA};

/* Spends one unit, which has a chunk raised; then, long after that is as if it had never been, half of that chunk, of
 * which the store and the copy hear nothing. */
static uint64_t spend_unheard(struct fixture *from, struct fixture *to)
{
    assert_int_equal(fixture_try(from, "user=a", 1), HR_E_PENDING);
    store_raises(from, to);
    assert_true(fixture_take(from, "user=a", 1));
    pass_both(from, to, SECONDS(2000));
    assert_true(fixture_take(from, "user=a", 20));
    pass_both(from, to, SECONDS(1));
    return fixture_remaining(from, "user=a", "l");
}

/* Of an owner that stood still just after it spent: whoever has the copy, and whoever it gives that to. */
static void who_takes_over_a_copy_has_no_more_left_than_who_spent_of_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(reserved_ones); i++) {
        enum hr_algorithm algorithm = reserved_ones[i / 2];
        struct fixture from, to, heir;
        struct hr_counter_image image;
        open_reserved(&from, algorithm);
        open_reserved(&to, algorithm);
        open_reserved(&heir, algorithm);
        uint64_t left = spend_unheard(&from, &to);
        heir.now = to.now;
        assert_false(hr_limiter_next_raise(to.limiter, to.now, &image)); /* it is not the copy that spends */
        if (i % 2 == 0) {
            hr_limiter_range_take_over(to.limiter, all, to.now.steady);
            assert_true(hr_limiter_next_raise(to.limiter, to.now, &image));
        } else {
            assert_int_equal(move(&to, &heir, all), 1);
            hr_limiter_range_take_over(heir.limiter, all, heir.now.steady);
        }
        uint64_t taken = fixture_remaining(i % 2 == 0 ? &to : &heir, "user=a", "l");
        if (taken > left || taken + CHUNK < left) {
            fail_msg("case %zu: %lu left, but it was %lu", i, (unsigned long)taken, (unsigned long)left);
        }
        fixture_close(&from);
        fixture_close(&to);
        fixture_close(&heir);
    }
}

/* A copy is given up as such where the owner says that it is over, and where its record says all. */
static void a_copy_ends_with_its_owners_word(void **state)
{
    (void)state;
    struct fixture from, to;
    struct hr_counter_image image;
    open_reserved(&from, HR_TOKEN_BUCKET);
    open_reserved(&to, HR_TOKEN_BUCKET);
    (void)spend_unheard(&from, &to);
    assert_int_equal(fixture_counters(&to), 1);
    assert_true(fixture_peek(&to, "user=a", 0));
    hr_limiter_save_again(to.limiter, to.decision.rows[0].counter);
    assert_true(hr_limiter_next_changed(to.limiter, to.now, &image));
    assert_int_equal(image.ahead, CHUNK); /* so that it outlives a restart */
    hr_limiter_apply_forgotten(to.limiter, image.id, to.now);
    assert_int_equal(fixture_counters(&to), 0);
    assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY);
    fixture_close(&from);
    fixture_close(&to);
}

static void a_stored_counter_that_is_dropped_has_its_record_forgotten(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_counter_image counter;
    struct hr_id128 id;
    open_pair_member(&fixture, HR_TOKEN_BUCKET);
    assert_true(fixture_take(&fixture, "user=a", 1));
    assert_true(hr_limiter_next_changed(fixture.limiter, fixture.now, &counter));
    assert_true(hr_limiter_range_drop(fixture.limiter, all, fixture.now));
    assert_true(hr_limiter_next_forgotten(fixture.limiter, &id));
    assert_true(hr_id128_equal(id, counter.id));
    fixture_close(&fixture);
}

static void leases_move_with_their_ids_and_what_is_left_of_their_time(void **state)
{
    (void)state;
    struct fixture from, to;
    struct hr_id128 leases[8];
    open_pair_member(&from, HR_CONCURRENCY);
    open_pair_member(&to, HR_CONCURRENCY);
    for (uint32_t i = 0; i < COUNT(leases); i++) {
        assert_true(fixture_take(&from, "user=a", 10));
        leases[i] = from.decision.rows[0].lease;
        fixture_pass(&from, SECONDS(10));
        to.now = from.now;
    }
    (void)move(&from, &to, all);
    (void)move(&from, &to, all);                 /* again: the same */
    assert_int_equal(left_of(&to, 0), CAPACITY); /* another user */
    assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY - 80);
    assert_true(hr_limiter_release(to.limiter, leases[3], to.now));
    assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY - 70);
    fixture_pass(&to, SECONDS(25)); /* the first ran out at 100 s, 80 have passed */
    assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY - 70 + 10);
    (void)hr_limiter_release(from.limiter, leases[5], from.now);
    hr_limiter_apply_lease_end(to.limiter, leases[5], to.now);
    assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY - 70 + 20);
    fixture_close(&from);
    fixture_close(&to);
}

/* The node that takes a copy may not have looked at the counter since its limit was of another algorithm, or was gone:
 * what its state says is then no list of leases. */
static void a_lease_comes_to_a_counter_that_was_of_another_algorithm(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * HR_CONCURRENCY; i++) {
        const struct fixture_limit limit = {.name = "l", .key = "user", .rule = any_rule(HR_CONCURRENCY, CAPACITY)};
        struct fixture from, to;
        open_pair_member(&from, HR_CONCURRENCY);
        open_pair_member(&to, (enum hr_algorithm)(i / 2));
        assert_true(fixture_take(&from, "user=a", 10));
        assert_true(fixture_take(&to, "user=a", 7));
        if (i % 2 == 1) {
            fixture_load(&to, &limit, 0);
        }
        fixture_load(&to, &limit, 1);
        struct hr_range_cursor cursor;
        struct hr_counter_image counter;
        struct hr_lease_image lease;
        hr_range_cursor_init(&cursor, all);
        assert_int_equal(hr_limiter_range_next(from.limiter, &cursor, HR_RANGE_EXACT, from.now, &counter, &lease),
                         HR_RANGE_LEASE);
        assert_int_equal(hr_limiter_apply_lease(to.limiter, &lease, 0, to.now), HR_OK);
        assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY - 10);
        assert_true(hr_limiter_release(to.limiter, lease.id, to.now));
        assert_int_equal(fixture_remaining(&to, "user=a", "l"), CAPACITY);
        fixture_close(&from);
        fixture_close(&to);
    }
}

static void a_counter_of_a_rule_given_on_the_spot_moves(void **state)
{
    (void)state;
    struct fixture from, to;
    struct fixture_request request;
    struct hr_decision decision;
    const struct hr_limit limit = {.name = HR_SPAN("throttle"), .rule = any_rule(HR_FIXED_WINDOW, 50)};
    open_pair_member(&from, HR_TOKEN_BUCKET);
    open_pair_member(&to, HR_TOKEN_BUCKET);
    fixture_request("", 7, &request);
    assert_int_equal(hr_limiter_throttle(from.limiter, &limit, HR_SPAN("k"), &request.request, from.now, &decision),
                     HR_OK);
    assert_int_equal(move(&from, &to, all), 1);
    assert_int_equal(hr_limiter_throttle(to.limiter, &limit, HR_SPAN("k"), &request.request, to.now, &decision), HR_OK);
    assert_int_equal(decision.rows[0].remaining, 50 - 14);
    fixture_close(&from);
    fixture_close(&to);
}

/* Takes from this node's half of the limit; what is left of it. Cost 0 takes nothing. */
static uint64_t take_half(struct fixture *fixture, uint64_t cost)
{
    static struct hr_touches touches;
    struct fixture_request request;
    struct hr_taken taken;
    uint32_t taken_count;
    fixture_request("user=a", cost, &request);
    request.request.serial = ++fixture->serial;
    assert_int_equal(hr_limiter_touches(fixture->limiter, &request.request, &touches), HR_OK);
    assert_int_equal(hr_limiter_take_share(fixture->limiter, &request.request, &touches.at[0], 2, fixture->now,
                                           &fixture->decision, &taken, &taken_count),
                     HR_OK);
    return fixture->decision.rows[0].remaining;
}

/* Else a node that is cut off now and then would have its part anew each time. */
static void a_node_s_part_stays_with_it_as_it_is_whatever_moves_and_is_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        struct fixture from, to;
        open_pair_member(&from, (enum hr_algorithm)i);
        open_pair_member(&to, (enum hr_algorithm)i);
        (void)take_half(&from, 3);
        (void)take_half(&to, 7);
        uint32_t count = move(&from, &to, all);
        assert_true(hr_limiter_range_drop(from.limiter, all, from.now));
        uint64_t left = take_half(&from, 0), left_there = take_half(&to, 0);
        if (count != 0 || left != CAPACITY / 2 - 3 || left_there != CAPACITY / 2 - 7) {
            fail_msg("algorithm %d: %u moved, %lu left here, %lu there", i, count, (unsigned long)left,
                     (unsigned long)left_there);
        }
        fixture_close(&from);
        fixture_close(&to);
    }
}

static void a_counter_of_a_rule_given_on_the_spot_moves_also_where_a_part_has_the_same_rule(void **state)
{
    (void)state;
    const struct hr_rule whole = any_rule(HR_TOKEN_BUCKET, CAPACITY);
    const struct hr_limit limit = {.name = HR_SPAN("throttle"), .rule = hr_rule_share(&whole, 2)};
    struct fixture from, to;
    struct fixture_request request;
    struct hr_decision decision;
    open_pair_member(&from, HR_TOKEN_BUCKET);
    open_pair_member(&to, HR_TOKEN_BUCKET);
    (void)take_half(&from, 1);
    fixture_request("", 1, &request);
    assert_int_equal(hr_limiter_throttle(from.limiter, &limit, HR_SPAN("k"), &request.request, from.now, &decision),
                     HR_OK);
    assert_int_equal(move(&from, &to, all), 1);
    fixture_close(&from);
    fixture_close(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moved_range_is_the_same_range),
        cmocka_unit_test(a_walk_survives_whatever_happens_between_its_steps),
        cmocka_unit_test(ids_that_share_their_first_word_all_come_once),
        cmocka_unit_test(a_dropped_range_is_gone_and_nothing_else),
        cmocka_unit_test(what_becomes_own_is_saved_and_a_copy_is_not),
        cmocka_unit_test(who_takes_over_a_copy_has_no_more_left_than_who_spent_of_it),
        cmocka_unit_test(a_copy_ends_with_its_owners_word),
        cmocka_unit_test(a_stored_counter_that_is_dropped_has_its_record_forgotten),
        cmocka_unit_test(leases_move_with_their_ids_and_what_is_left_of_their_time),
        cmocka_unit_test(a_lease_comes_to_a_counter_that_was_of_another_algorithm),
        cmocka_unit_test(a_counter_of_a_rule_given_on_the_spot_moves),
        cmocka_unit_test(a_node_s_part_stays_with_it_as_it_is_whatever_moves_and_is_dropped),
        cmocka_unit_test(a_counter_of_a_rule_given_on_the_spot_moves_also_where_a_part_has_the_same_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
