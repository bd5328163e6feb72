/* What is saved of a limiter and put back: no image, whatever it holds, makes a counter fuller than it was, or breaks
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/limiter_state.h"
#include "limiter/save.h"
#include "tests/lib/limiter_fixture.h"

#define IMAGES_MAX 64

static void open_saving(struct fixture *fixture, uint32_t counters_max)
{
    fixture_open(fixture, (struct hr_limiter_sizes){.counters_max = counters_max,
                                                    .leases_max = 16,
                                                    .log_blocks_max = 64,
                                                    .limits_max = 8,
                                                    .reserves_max = 16,
                                                    .saves = true});
}

static void open_with(struct fixture *fixture, struct hr_rule rule)
{
    const struct fixture_limit limit = {.name = "l", .key = "user", .rule = rule};
    open_saving(fixture, 256);
    fixture_load(fixture, &limit, 1);
}

static uint32_t drain(struct fixture *fixture, struct hr_counter_image *images)
{
    uint32_t count = 0;
    while (hr_limiter_next_changed(fixture->limiter, fixture->now, &images[count])) {
        assert_true(++count < IMAGES_MAX);
    }
    return count;
}

static void what_changed_comes_out_once_and_again_if_it_was_not_stored(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_counter_image images[IMAGES_MAX];
    open_with(&fixture, any_rule(HR_TOKEN_BUCKET, 100));
    assert_true(fixture_take(&fixture, "user=a", 1));
    assert_true(fixture_take(&fixture, "user=b", 1));
    assert_true(fixture_take(&fixture, "user=a", 1));
    assert_int_equal(drain(&fixture, images), 2);
    assert_int_equal(drain(&fixture, images + 2), 0);
    hr_limiter_save_again(fixture.limiter, images[1].id);
    assert_int_equal(drain(&fixture, images + 2), 1);
    assert_true(hr_id128_equal(images[1].id, images[2].id));
    assert_true(fixture_peek(&fixture, "user=a", 1)); /* a look changes nothing */
    assert_int_equal(drain(&fixture, images), 0);
    fixture_close(&fixture);
}

static void a_stored_counter_that_is_dropped_has_its_record_deleted(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_counter_image images[IMAGES_MAX];
    struct hr_id128 forgotten;
    open_with(&fixture, any_rule(HR_TOKEN_BUCKET, 100));
    assert_true(fixture_take(&fixture, "user=a", 1));
    assert_int_equal(drain(&fixture, images), 1);
    assert_false(hr_limiter_next_forgotten(fixture.limiter, &forgotten));
    fixture_pass(&fixture, SECONDS(200));
    fixture_sweep(&fixture);
    assert_int_equal(fixture_counters(&fixture), 0);
    assert_true(hr_limiter_next_forgotten(fixture.limiter, &forgotten));
    assert_true(hr_id128_equal(forgotten, images[0].id));
    assert_false(hr_limiter_next_forgotten(fixture.limiter, &forgotten));
    fixture_close(&fixture);
}

/* Saved, put back later, and asked about ever later: never fuller than the one that went on. Both with units ahead and
 * without. */
static void put_back_it_is_never_fuller(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 700; seed++) {
        struct hr_rng rng = {seed};
        enum hr_algorithm algorithm = (enum hr_algorithm)(seed % HR_CONCURRENCY);
        struct fixture whole, back;
        struct hr_counter_image images[IMAGES_MAX];
        open_with(&whole, any_rule(algorithm, 100));
        open_with(&back, any_rule(algorithm, 100));
        for (int i = 0; i < 60; i++) {
            (void)fixture_take(&whole, "user=a", 1 + hr_rng_below(&rng, 9));
            fixture_pass(&whole, (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(8)));
        }
        (void)fixture_take(&whole, "user=a", 1);
        if (drain(&whole, images) == 1) {
            uint64_t spent = hr_rng_below(&rng, 4);
            images[0].ahead = spent;
            int64_t down_ns = (int64_t)hr_rng_below(&rng, (uint64_t)SECONDS(hr_rng_chance(&rng, 1, 2) ? 30 : 250));
            if (spent > 0) {
                (void)fixture_take(&whole, "user=a",
                                   spent); /* or it is denied: then nothing of what is ahead was spent */
            }
            fixture_pass(&whole, down_ns);
            back.now = whole.now;
            assert_int_equal(hr_limiter_restore(back.limiter, &images[0], down_ns, back.now), HR_OK);
            for (int i = 0; i < 20; i++) {
                uint64_t left = fixture_remaining(&back, "user=a", "l"),
                         left_whole = fixture_remaining(&whole, "user=a", "l");
                if (left > left_whole || (images[0].ahead == 0 && algorithm != HR_SLIDING_LOG && left != left_whole)) {
                    fail_msg("seed %lu look %d: %lu put back, %lu had it gone on", (unsigned long)seed, i,
                             (unsigned long)left, (unsigned long)left_whole);
                }
                fixture_pass(&whole, SECONDS(11));
                back.now = whole.now;
            }
        }
        fixture_close(&whole);
        fixture_close(&back);
    }
}

/* Any bytes may come from a disk that a checksum let pass: refused, or a counter like any other. */
static void no_image_breaks_a_limiter(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 1, 100, HR_COST_MAX, HR_COST_MAX + 1, (uint64_t)INT64_MAX, UINT64_MAX};
    struct hr_rng rng = {77};
    uint32_t restored = 0;
    for (uint32_t round = 0; round < 20000; round++) {
        struct fixture fixture;
        struct hr_rule rule = any_rule((enum hr_algorithm)(round % ALGORITHM_COUNT), 100);
        struct hr_counter_image image;
        struct hr_counter_image images[IMAGES_MAX];
        open_with(&fixture, rule);
        (void)fixture_take(&fixture, "user=b", 1);
        image = drain(&fixture, images) == 1 ? images[0] : (struct hr_counter_image){.limit = {1, 1}};
        image.id.lo++;
        uint64_t *const fields[] = {&image.rate,     &image.period_ns, &image.ahead,
                                    &image.words[0], &image.words[1],  &image.words[2]};
        for (int i = 0; i < 3; i++) {
            *fields[hr_rng_below(&rng, COUNT(fields))] =
                hr_rng_chance(&rng, 1, 4) ? hr_rng_next(&rng) : numbers[hr_rng_below(&rng, COUNT(numbers))];
        }
        image.saved_at = hr_rng_chance(&rng, 1, 2) ? image.saved_at : (hr_ns)hr_rng_next(&rng);
        image.algorithm = hr_rng_chance(&rng, 1, 8) ? (uint8_t)hr_rng_next(&rng) : image.algorithm;
        image.entry_count = (uint32_t)hr_rng_below(&rng, HR_IMAGE_ENTRIES_MAX + 2);
        for (uint32_t i = 0; i < image.entry_count && i < HR_IMAGE_ENTRIES_MAX; i++) {
            image.entries[i] =
                (struct hr_entry_image){hr_rng_next(&rng) >> hr_rng_below(&rng, 64), (uint32_t)hr_rng_next(&rng)};
        }
        int64_t elapsed_ns = (int64_t)hr_rng_next(&rng) >> hr_rng_below(&rng, 64);
        enum hr_err err = hr_limiter_restore(fixture.limiter, &image, elapsed_ns, fixture.now);
        assert_true(err == HR_OK || err == HR_E_CORRUPT || err == HR_E_NOT_FOUND);
        restored += err == HR_OK;
        fixture_pass(&fixture, SECONDS(50));
        (void)drain(&fixture, images);
        fixture_sweep(&fixture);
        assert_true(fixture_remaining(&fixture, "user=c", "l") <= 100);
        fixture_close(&fixture);
    }
    assert_true(restored > 1000);
}

static void what_has_no_limit_any_more_or_no_room_is_left_out(void **state)
{
    (void)state;
    struct fixture fixture, small;
    struct hr_counter_image images[IMAGES_MAX];
    const struct fixture_limit other = {.name = "other", .key = "user", .rule = any_rule(HR_QUOTA, 5)};
    const struct fixture_limit same = {.name = "l", .key = "user", .rule = any_rule(HR_TOKEN_BUCKET, 100)};
    char user[] = "user=a";
    open_with(&fixture, any_rule(HR_TOKEN_BUCKET, 100));
    for (user[5] = 'a'; user[5] <= 'h'; user[5]++) {
        assert_true(fixture_take(&fixture, user, 1));
    }
    assert_int_equal(drain(&fixture, images), 8);
    open_saving(&small, 4);
    fixture_load(&small, &other, 1);
    assert_int_equal(hr_limiter_restore(small.limiter, &images[0], 0, small.now), HR_E_NOT_FOUND);
    fixture_load(&small, &same, 1);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(hr_limiter_restore(small.limiter, &images[i], 0, small.now), i < 4 ? HR_OK : HR_E_FULL);
    }
    assert_int_equal(hr_limiter_restore(small.limiter, &images[0], 0, small.now), HR_OK); /* it is there */
    fixture_close(&fixture);
    fixture_close(&small);
}

/* A limit that is changed while it serves, and a crash before the counter is spent from again: the record was made
 * under the old numbers, and must still not give back what was spent. */
static void a_change_of_rate_before_a_crash_gives_nothing_back(void **state)
{
    (void)state;
    struct fixture fixture, back;
    struct hr_counter_image images[IMAGES_MAX];
    const struct fixture_limit slow = {.name = "l", .key = "user", .rule = bucket(HR_TOKEN_BUCKET, 1, SECONDS(1), 100)};
    const struct fixture_limit fast = {
        .name = "l", .key = "user", .rule = bucket(HR_TOKEN_BUCKET, 10, SECONDS(1), 100)};
    open_saving(&fixture, 64);
    fixture_load(&fixture, &slow, 1);
    assert_true(fixture_take(&fixture, "user=a", 90));
    assert_int_equal(drain(&fixture, images), 1);
    fixture_pass(&fixture, SECONDS(9));
    fixture_load(&fixture, &fast, 1);
    fixture_sweep(&fixture);
    fixture_sweep(&fixture);
    assert_int_equal(fixture_remaining(&fixture, "user=a", "l"), 19);
    (void)drain(&fixture, images); /* a counter that was restated is saved again */
    open_saving(&back, 64);
    fixture_load(&back, &fast, 1);
    back.now = fixture.now;
    assert_int_equal(hr_limiter_restore(back.limiter, &images[0], back.now.steady - images[0].saved_at, back.now),
                     HR_OK);
    assert_int_equal(fixture_remaining(&back, "user=a", "l"), 19);
    fixture_close(&fixture);
    fixture_close(&back);
}

/* A refresh: what has a record comes out once more, untouched ones and those saved meanwhile do not; again and again,
 * also while counters come and move others. */
static void a_refresh_brings_out_every_record_that_is_older(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_counter_image images[IMAGES_MAX];
    char user[8];
    open_with(&fixture, any_rule(HR_QUOTA, 100));
    for (int refresh = 0; refresh < 5; refresh++) {
        for (int i = 0; i < 10; i++) {
            (void)snprintf(user, sizeof(user), "user=%c", 'a' + 10 * (refresh % 2) + i);
            assert_true(fixture_take(&fixture, user, 1));
        }
        (void)drain(&fixture, images);
        hr_limiter_begin_refresh(fixture.limiter);
        assert_true(hr_limiter_is_refreshing(fixture.limiter));
        assert_true(fixture_take(&fixture, "user=a", 1));
        assert_int_equal(drain(&fixture, images), 1);
        fixture_sweep(&fixture); /* to the end of a pass */
        fixture_sweep(&fixture);
        fixture_sweep(&fixture);
        assert_false(hr_limiter_is_refreshing(fixture.limiter));
        assert_int_equal(drain(&fixture, images), refresh == 0 ? 9 : 19);
        fixture_sweep(&fixture);
        assert_int_equal(drain(&fixture, images), 0);
    }
    fixture_close(&fixture);
}

/* Later records of a log overrule earlier ones, and so does it that one was forgotten. */
static void the_last_record_of_a_counter_counts(void **state)
{
    (void)state;
    for (int kind = 0; kind < HR_CONCURRENCY; kind++) {
        struct fixture fixture, back;
        struct hr_counter_image early[IMAGES_MAX], late[IMAGES_MAX];
        open_with(&fixture, any_rule((enum hr_algorithm)kind, 100));
        open_with(&back, any_rule((enum hr_algorithm)kind, 100));
        assert_true(fixture_take(&fixture, "user=a", 30));
        assert_int_equal(drain(&fixture, early), 1);
        assert_true(fixture_take(&fixture, "user=a", 20));
        assert_int_equal(drain(&fixture, late), 1);
        back.now = fixture.now;
        assert_int_equal(hr_limiter_restore(back.limiter, &early[0], 0, back.now), HR_OK);
        assert_int_equal(hr_limiter_restore(back.limiter, &late[0], 0, back.now), HR_OK);
        assert_int_equal(fixture_remaining(&back, "user=a", "l"), 50);
        hr_limiter_restore_forgotten(back.limiter, late[0].id, back.now);
        hr_limiter_restore_forgotten(back.limiter, late[0].id, back.now);
        assert_int_equal(fixture_remaining(&back, "user=a", "l"), 100);
        assert_int_equal(hr_limiter_usage(back.limiter).counters, 0);
        assert_int_equal(hr_limiter_usage(back.limiter).log_blocks, 0);
        fixture_close(&fixture);
        fixture_close(&back);
    }
}

/* What a store would know: the last record of each counter. */
struct known {
    struct hr_counter_image images[IMAGES_MAX];
    uint32_t count;
};

static struct hr_counter_image *known_of(struct known *known, struct hr_id128 id)
{
    for (uint32_t i = 0; i < known->count; i++) {
        if (hr_id128_equal(known->images[i].id, id)) {
            return &known->images[i];
        }
    }
    return NULL;
}

static void learn(struct known *known, const struct hr_counter_image *image)
{
    struct hr_counter_image *old = known_of(known, image->id);
    assert_true(old != NULL || known->count < IMAGES_MAX);
    *(old != NULL ? old : &known->images[known->count++]) = *image;
}

static void save(struct fixture *fixture, struct known *known, bool by_journal)
{
    struct hr_id128 forgotten;
    struct hr_counter_image image = {.entry_count = 0}, *old;
    struct hr_debt debts[HR_DEBTS_MAX];
    uint32_t count;
    while (hr_limiter_next_forgotten(fixture->limiter, &forgotten)) {
        if ((old = known_of(known, forgotten)) != NULL) {
            *old = known->images[--known->count];
        }
    }
    while (by_journal && (count = hr_limiter_next_debts(fixture->limiter, fixture->now, &image, debts)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            image.id = debts[i].id;
            image.words[1] = debts[i].debt;
            learn(known, &image);
        }
    }
    while (hr_limiter_next_changed(fixture->limiter, fixture->now, &image)) {
        learn(known, &image);
    }
}

static void load_two(struct fixture *fixture, uint64_t rate)
{
    const struct fixture_limit limits[] = {
        {.name = "user", .key = "user", .rule = bucket(HR_TOKEN_BUCKET, rate, SECONDS(1), 40)},
        {.name = "all", .key = "plan", .rule = bucket(HR_LEAKY_BUCKET, 30, SECONDS(1), 4000)},
    };
    fixture_load(fixture, limits, COUNT(limits));
}

static void pass_at_random(struct fixture *one, struct fixture *other, struct hr_rng *rng)
{
    static const char *const who[] = {"user=a",        "user=b",        "user=c", "user=d",
                                      "user=e plan=p", "user=a plan=q", "plan=p"};
    const char *attributes = who[hr_rng_below(rng, COUNT(who))];
    uint64_t cost = hr_rng_below(rng, 6), what = hr_rng_below(rng, 100), rate = 1 + hr_rng_below(rng, 3);
    assert_int_equal(fixture_take(one, attributes, cost), fixture_take(other, attributes, cost));
    fixture_pass(one, (int64_t)hr_rng_below(rng, (uint64_t)MS(400)));
    other->now = one->now;
    for (int i = 0; what < 4 && i < 2; i++) {
        struct fixture *fixture = i == 0 ? one : other;
        if (what < 2) {
            load_two(fixture, rate);
        } else if (what == 2) {
            fixture_sweep(fixture);
        } else {
            hr_limiter_begin_refresh(fixture->limiter);
        }
    }
}

/* Also where the journal is too small for all. */
static void what_comes_by_the_journal_is_what_comes_without(void **state)
{
    (void)state;
    static struct known by_journal, without;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct hr_rng rng = {seed};
        struct fixture one, other;
        open_saving(&one, 16);
        open_saving(&other, 16);
        one.limiter->journal.count_max = seed % 2 == 0 ? 16 : 2;
        load_two(&one, 1);
        load_two(&other, 1);
        by_journal.count = without.count = 0;
        for (int i = 0; i < 300; i++) {
            pass_at_random(&one, &other, &rng);
            if (i == 299 || hr_rng_chance(&rng, 1, 8)) {
                save(&one, &by_journal, true);
                save(&other, &without, false);
            }
        }
        assert_int_equal(by_journal.count, without.count);
        for (uint32_t i = 0; i < without.count; i++) {
            const struct hr_counter_image *expected = &without.images[i], *found = known_of(&by_journal, expected->id);
            if (found == NULL || found->words[1] != expected->words[1] || found->words[0] != expected->words[0] ||
                found->rate != expected->rate || found->saved_at != expected->saved_at ||
                !hr_id128_equal(found->limit, expected->limit)) {
                fail_msg("seed %d: counter %u is not the same", (int)seed, i);
            }
        }
        fixture_close(&one);
        fixture_close(&other);
    }
}

static void a_bucket_that_changes_again_keeps_its_place_in_the_journal(void **state)
{
    (void)state;
    struct fixture fixture;
    struct hr_counter_image shared;
    struct hr_debt debts[HR_DEBTS_MAX];
    open_with(&fixture, any_rule(HR_TOKEN_BUCKET, 100));
    for (int i = 0; i < 3; i++) {
        assert_true(fixture_take(&fixture, "user=a", 10));
    }
    assert_int_equal(hr_limiter_next_debts(fixture.limiter, fixture.now, &shared, debts), 1);
    assert_true(debts[0].debt == 30 * shared.period_ns);
    assert_int_equal(hr_limiter_next_debts(fixture.limiter, fixture.now, &shared, debts), 0);
    assert_true(fixture_take(&fixture, "user=a", 10)); /* taken out, it is noted anew */
    assert_int_equal(hr_limiter_next_debts(fixture.limiter, fixture.now, &shared, debts), 1);
    assert_true(debts[0].debt == 40 * shared.period_ns);
    fixture_close(&fixture);
}

/* It was spent by who had room for it. */
static void units_ahead_never_leave_a_counter_owing_more_than_it_holds(void **state)
{
    (void)state;
    for (enum hr_algorithm algorithm = HR_TOKEN_BUCKET; algorithm < HR_CONCURRENCY; algorithm++) {
        struct fixture from, to;
        struct hr_counter_image images[IMAGES_MAX];
        open_with(&from, any_rule(algorithm, 100));
        open_with(&to, any_rule(algorithm, 100));
        assert_true(fixture_take(&from, "user=a", 90));
        assert_int_equal(drain(&from, images), 1);
        images[0].ahead = 26;
        to.now = from.now;
        assert_int_equal(hr_limiter_restore(to.limiter, &images[0], 0, to.now), HR_OK);
        if (fixture_remaining(&to, "user=a", "l") != 0) {
            fail_msg("algorithm %u", algorithm);
        }
        fixture_pass(&to, algorithm == HR_QUOTA ? DAYS(1) : SECONDS(algorithm == HR_SLIDING_WINDOW ? 200 : 102));
        if (fixture_remaining(&to, "user=a", "l") != 100) {
            fail_msg("algorithm %u: %lu left", algorithm, (unsigned long)fixture_remaining(&to, "user=a", "l"));
        }
        fixture_close(&from);
        fixture_close(&to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_by_the_journal_is_what_comes_without),
        cmocka_unit_test(a_bucket_that_changes_again_keeps_its_place_in_the_journal),
        cmocka_unit_test(what_changed_comes_out_once_and_again_if_it_was_not_stored),
        cmocka_unit_test(a_stored_counter_that_is_dropped_has_its_record_deleted),
        cmocka_unit_test(put_back_it_is_never_fuller),
        cmocka_unit_test(no_image_breaks_a_limiter),
        cmocka_unit_test(what_has_no_limit_any_more_or_no_room_is_left_out),
        cmocka_unit_test(a_change_of_rate_before_a_crash_gives_nothing_back),
        cmocka_unit_test(a_refresh_brings_out_every_record_that_is_older),
        cmocka_unit_test(the_last_record_of_a_counter_counts),
        cmocka_unit_test(units_ahead_never_leave_a_counter_owing_more_than_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
