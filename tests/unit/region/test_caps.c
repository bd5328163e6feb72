/* Two regions that hear each other at once, or not at all. The many-region runs are chaos/cap_sim. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "region/caps.h"

#define TICK (100 * HR_NS_PER_MS)
#define LEASE (5 * HR_NS_PER_S)
#define LIMIT 3U
static const struct hr_id128 ID = {1, 2};

struct region {
    struct hr_caps *caps;
    void *memory;
    struct hr_outbox outbox;
    struct hr_share share;
    struct hr_escrow escrow;
    bool has_share;
    uint32_t letters, records, introductions;
    uint32_t answers; /* to loans, before any parcel came */
};

struct pair {
    struct region regions[2];
    hr_ns now;
    bool is_cut;
    struct hr_cap_limit limit;
};

static struct hr_share *share_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct region *region = context;
    (void)id;
    (void)limit;
    if (!region->has_share) {
        hr_share_init(&region->share, now);
        region->has_share = true;
    }
    return &region->share;
}

static struct hr_escrow *escrow_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    (void)id;
    (void)limit;
    (void)now;
    return &((struct region *)context)->escrow;
}

static struct hr_cover_when when_of(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    (void)context;
    (void)id;
    (void)limit;
    return (struct hr_cover_when){.label = 4, .age_ns = now, .length_ns = 1000 * HR_NS_PER_S};
}

static void start(struct pair *pair, uint32_t k, uint64_t life, bool is_new)
{
    struct region *region = &pair->regions[k];
    struct hr_caps_config config = {.region_count = 2,
                                    .self = k,
                                    .counters_max = 4,
                                    .links_max = 2,
                                    .limits_max = 2,
                                    .tick = TICK,
                                    .lease = LEASE,
                                    .incarnation = life};
    struct hr_caps_host host = {region, share_of, escrow_of, when_of};
    struct hr_bump measure = {0}, bump = {0};
    (void)hr_caps_init(&config, &host, &measure, pair->now);
    hr_outbox_init(&region->outbox, 1 << 16, &measure);
    free(region->memory);
    *region = (struct region){.memory = calloc(1, measure.taken), .escrow = {.label = INT64_MIN}};
    assert_non_null(region->memory);
    bump.at = region->memory;
    region->caps = hr_caps_init(&config, &host, &bump, pair->now);
    hr_outbox_init(&region->outbox, 1 << 16, &bump);
    hr_caps_own(region->caps, 0, pair->now, is_new, 9);
    assert_int_equal(hr_caps_set_owner(region->caps, 1 - k, 0, 2 - k), HR_OK);
    assert_int_equal(hr_caps_configure(region->caps, 1, &pair->limit, 1, pair->now), HR_OK);
}

static void start_both(struct pair *pair)
{
    pair->now = 1000 * HR_NS_PER_S;
    for (uint32_t k = 0; k < 2; k++) {
        start(pair, k, 1, true);
    }
}

static struct hr_cap_limit weighted_limit(uint64_t rate, uint64_t burst, const uint32_t *weights)
{
    struct hr_lend_numbers numbers = {rate, (uint64_t)HR_NS_PER_S, burst, 200, 0};
    struct hr_cap_limit limit = {.number = LIMIT};
    hr_lend_rule_init(&limit.lend, &numbers, 2, weights);
    return limit;
}

static struct hr_cap_limit rate_limit(uint64_t rate, uint64_t burst)
{
    static const uint32_t weights[] = {1, 1};
    return weighted_limit(rate, burst, weights);
}

static struct hr_cap_limit quota_limit(bool has_log)
{
    return (struct hr_cap_limit){
        .number = LIMIT,
        .is_cover = true,
        .cover = {.total = 1000,
                  .reserve_permille = 200,
                  .has_windows = true,
                  .has_log = has_log,
                  .count = 2,
                  .weights = {1, 1}},
    };
}

static void stop(struct pair *pair)
{
    free(pair->regions[0].memory);
    free(pair->regions[1].memory);
}

static void count_records(struct region *region, struct hr_span letter)
{
    struct hr_cap_reader reader;
    struct hr_cap_header header;
    struct hr_cap_record record;
    assert_int_equal(hr_cap_read_header(letter, &reader, &header), HR_OK);
    while (hr_cap_read_record(&reader, &record)) {
        region->records++;
        region->introductions += record.introduces;
        region->answers += !record.is_cover && record.lend.has_answer && record.lend.answer.parcels == 0;
    }
    region->letters++;
}

static void turn(struct pair *pair)
{
    for (uint32_t k = 0; k < 2; k++) {
        struct hr_letter letter;
        struct region *region = &pair->regions[k];
        hr_caps_tick(region->caps, pair->now, &region->outbox);
        while (hr_outbox_next(&region->outbox, &letter)) {
            count_records(region, letter.body);
            if (!pair->is_cut) {
                assert_int_equal(hr_caps_receive(pair->regions[1 - k].caps, k + 1, letter.body, pair->now), HR_OK);
            }
        }
    }
}

/* Lets time pass while region 0 is asked for `asked` tokens in each of `count` ticks. */
static uint64_t spend(struct pair *pair, uint32_t count, uint64_t asked)
{
    struct region *region = &pair->regions[0];
    uint64_t admitted = 0;
    for (uint32_t i = 0; i < count * 10; i++) {
        pair->now += TICK / 10;
        hr_share_advance(&region->share, &pair->limit.lend.scale, pair->now);
        for (uint64_t j = 0; j < asked / 10; j++) {
            hr_share_ask(&region->share, &pair->limit.lend.scale, 1);
            if (hr_share_fits(&region->share, &pair->limit.lend.scale, 1)) {
                hr_share_take(&region->share, &pair->limit.lend.scale, 1);
                admitted++;
            }
        }
        if (region->share.wants_notice) {
            assert_int_equal(hr_caps_touch(region->caps, ID, LIMIT, pair->now), HR_OK);
        }
        turn(pair);
    }
    return admitted;
}

static void begin_rate(struct pair *pair, uint64_t rate, uint64_t burst)
{
    *pair = (struct pair){.limit = rate_limit(rate, burst)};
    start_both(pair);
    assert_int_equal(hr_caps_touch(pair->regions[0].caps, ID, LIMIT, pair->now), HR_OK);
}

static int64_t mint(const struct pair *pair, uint32_t k)
{
    return pair->regions[k].share.price.mint >> pair->limit.lend.scale.shift;
}

static void a_new_counter_has_its_home_and_is_full(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    assert_int_equal(mint(&pair, 0), 500);
    assert_int_equal(hr_share_remaining(&pair.regions[0].share, &pair.limit.lend.scale), 500);
    stop(&pair);
}

static void a_cold_counter_sends_nothing_and_is_let_go(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 600, 20); /* 200 of 1000 a second */
    assert_int_equal(pair.regions[0].letters + pair.regions[1].letters, 0);
    assert_true(spend(&pair, 400, 0) == 0);
    assert_int_equal(hr_caps_hot_count(pair.regions[0].caps), 0);
    stop(&pair);
}

static void a_hot_region_borrows_all_but_the_reserve(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 100, 150);
    assert_int_equal(mint(&pair, 0), 900);
    assert_int_equal(mint(&pair, 1), 100);
    uint64_t admitted = spend(&pair, 100, 150); /* 10 s; the idle reserve comes in parcels */
    assert_in_range(admitted, 9800, 11000);     /* R t + B at most */
    stop(&pair);
}

static void a_raise_needs_no_answer_and_a_recall_does(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 4, 150);
    assert_int_equal(mint(&pair, 0), 900);
    assert_int_equal(pair.regions[0].answers, 0);
    assert_true(pair.regions[0].records > 0);
    struct hr_cap_limit less = rate_limit(400, 1000);
    assert_int_equal(hr_caps_configure(pair.regions[1].caps, 2, &less, 1, pair.now), HR_OK);
    (void)spend(&pair, 10, 150);
    assert_int_equal(mint(&pair, 0) + mint(&pair, 1), 500 + 200); /* what it lent has come down */
    stop(&pair);
}

static void a_counter_is_introduced_again_where_it_was_forgotten(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 20, 150);
    uint32_t introductions = pair.regions[0].introductions;
    assert_true(introductions > 0 && introductions < pair.regions[0].records);
    hr_caps_disown(pair.regions[1].caps, 0);
    hr_caps_own(pair.regions[1].caps, 0, pair.now, false, 9);
    assert_int_equal(hr_caps_hot_count(pair.regions[1].caps), 0);
    (void)spend(&pair, 20, 80);
    assert_int_equal(hr_caps_hot_count(pair.regions[1].caps), 1);
    assert_true(pair.regions[0].introductions > introductions);
    (void)spend(&pair, 100, 150);
    assert_int_equal(mint(&pair, 0), 900);
    stop(&pair);
}

static void what_was_lent_comes_home_when_the_link_is_cut(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 100, 150);
    pair.is_cut = true;
    (void)spend(&pair, 45, 150);
    assert_int_equal(mint(&pair, 0), 900); /* not yet */
    (void)spend(&pair, 15, 150);
    assert_int_equal(mint(&pair, 0), 500);
    assert_int_equal(mint(&pair, 1), 500);
    pair.is_cut = false;
    (void)spend(&pair, 20, 150);
    assert_int_equal(mint(&pair, 0), 900);
    stop(&pair);
}

static void a_lender_that_restarts_alone_mints_its_reserve_until_its_loans_have_lapsed(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 100, 150);
    pair.is_cut = true;
    start(&pair, 1, 2, false);
    assert_int_equal(hr_caps_touch(pair.regions[1].caps, ID, LIMIT, pair.now), HR_OK);
    assert_int_equal(mint(&pair, 1), 100);
    (void)spend(&pair, 45, 150);
    assert_int_equal(mint(&pair, 0) + mint(&pair, 1), 1000);
    (void)spend(&pair, 15, 150);
    assert_int_equal(mint(&pair, 1), 500);
    stop(&pair);
}

/* Its successor waits for as long as a lease is good for, and then mints the whole home. */
static void a_lender_without_its_seat_renews_and_lends_nothing(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 100, 150);
    hr_caps_set_seated(pair.regions[1].caps, false);
    (void)spend(&pair, 45, 150);
    assert_int_equal(mint(&pair, 0), 900); /* the lease of before */
    (void)spend(&pair, 5, 150);
    for (int i = 0; i < 300; i++) {
        (void)spend(&pair, 1, 150);
        assert_int_equal(mint(&pair, 0), 500);
    }
    hr_caps_set_seated(pair.regions[1].caps, true);
    (void)spend(&pair, 20, 150);
    assert_int_equal(mint(&pair, 0), 900);
    stop(&pair);
}

static void a_burst_of_one_token_is_held_by_one_region_only(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1, 1);
    assert_int_equal(hr_caps_touch(pair.regions[1].caps, ID, LIMIT, pair.now), HR_OK);
    for (int i = 0; i < 60; i++) {
        uint64_t held = 0;
        (void)spend(&pair, 5, 10);
        for (uint32_t k = 0; k < 2; k++) {
            held += (uint64_t)pair.regions[k].share.price.cap >> pair.limit.lend.scale.shift;
        }
        assert_true(held <= 1);
    }
    assert_int_equal(pair.regions[0].share.price.cap, pair.limit.lend.token); /* and it is the one that asks */
    stop(&pair);
}

/* The home mints alone, and has nothing asked of it: all that comes in there is spent in the other region. */
static void of_few_tokens_that_come_slowly_none_is_lost(void **state)
{
    static const uint32_t weights[] = {1, 3};
    struct pair pair = {.limit = weighted_limit(1, 7, weights)};
    (void)state;
    assert_true(pair.limit.lend.mints_at_home);
    start_both(&pair);
    assert_int_equal(hr_caps_touch(pair.regions[0].caps, ID, LIMIT, pair.now), HR_OK);
    assert_int_equal(hr_caps_touch(pair.regions[1].caps, ID, LIMIT, pair.now), HR_OK);
    assert_int_equal(mint(&pair, 1), 1);
    uint64_t admitted = 0;
    for (int i = 0; i < 60; i++) {
        admitted += spend(&pair, 10, 10);
        int64_t held = pair.regions[0].share.price.cap + pair.regions[1].share.price.cap;
        assert_true(held <= pair.limit.lend.depth);
        assert_int_equal(mint(&pair, 0), 0);
    }
    assert_in_range(admitted, 60 + 7 - 2, 60 + 7);
    stop(&pair);
}

static void a_cut_of_the_rate_holds_before_a_raise_elsewhere(void **state)
{
    struct pair pair;
    struct hr_cap_limit less = rate_limit(400, 1000);
    (void)state;
    begin_rate(&pair, 1000, 1000);
    (void)spend(&pair, 50, 150);
    pair.is_cut = true;
    assert_int_equal(hr_caps_configure(pair.regions[0].caps, 2, &less, 1, pair.now), HR_OK);
    assert_int_equal(hr_caps_configure(pair.regions[0].caps, 3, &less, 1, pair.now), HR_E_PENDING);
    (void)spend(&pair, 70, 150);
    assert_int_equal(mint(&pair, 0), 200);
    assert_false(hr_caps_is_adopted(pair.regions[0].caps, pair.now));
    pair.is_cut = false;
    assert_int_equal(hr_caps_configure(pair.regions[1].caps, 2, &less, 1, pair.now), HR_OK);
    (void)spend(&pair, 30, 150);
    assert_true(hr_caps_is_adopted(pair.regions[0].caps, pair.now));
    assert_int_equal(mint(&pair, 0) + mint(&pair, 1), 400);
    stop(&pair);
}

static uint64_t use_quota(struct pair *pair, uint32_t turns, uint64_t asked)
{
    struct region *region = &pair->regions[0];
    uint64_t admitted = 0;
    for (uint32_t i = 0; i < turns; i++) {
        pair->now += TICK;
        for (uint64_t j = 0; j < asked; j++) {
            hr_escrow_ask(&region->escrow, 1);
            if (hr_escrow_fits(&region->escrow, 1)) {
                hr_escrow_take(&region->escrow, 1);
                admitted++;
            }
        }
        for (uint32_t k = 0; k < 2; k++) {
            assert_int_equal(hr_caps_touch(pair->regions[k].caps, ID, LIMIT, pair->now), HR_OK);
        }
        turn(pair);
    }
    return admitted;
}

static void a_quota_goes_where_it_is_asked_for_all_but_the_reserve(void **state)
{
    struct pair pair = {.limit = quota_limit(false)};
    (void)state;
    start_both(&pair);
    (void)use_quota(&pair, 1, 0);
    assert_int_equal(use_quota(&pair, 600, 5), 900);
    stop(&pair);
}

static void a_lender_without_its_seat_gives_no_units(void **state)
{
    struct pair pair = {.limit = quota_limit(false)};
    (void)state;
    start_both(&pair);
    (void)use_quota(&pair, 1, 0);
    hr_caps_set_seated(pair.regions[1].caps, false);
    assert_int_equal(use_quota(&pair, 600, 5), 500);
    hr_caps_set_seated(pair.regions[1].caps, true);
    assert_int_equal(use_quota(&pair, 600, 5), 400); /* all but the reserve */
    stop(&pair);
}

static void nothing_is_spent_or_given_before_the_log_knows(void **state)
{
    struct pair pair = {.limit = quota_limit(true)};
    struct hr_caps_write write, kept = {0};
    (void)state;
    start_both(&pair);
    (void)use_quota(&pair, 1, 0);
    assert_int_equal(use_quota(&pair, 20, 5), 0);
    assert_int_equal(pair.regions[1].escrow.permission, 500);
    for (int i = 0; i < 600; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            while (hr_caps_next_write(pair.regions[k].caps, &write)) {
                hr_caps_written(pair.regions[k].caps, &write, true, pair.now);
                kept = k == 0 ? write : kept;
            }
        }
        (void)use_quota(&pair, 1, 5);
        assert_true(pair.regions[0].escrow.used <= (uint64_t)kept.image.charged);
    }
    assert_int_equal(pair.regions[0].escrow.used, 900);
    start(&pair, 0, 2, false); /* without memory, but with the log */
    assert_int_equal(hr_caps_restore(pair.regions[0].caps, &kept, pair.now), HR_OK);
    assert_int_equal(use_quota(&pair, 50, 5), 0);
    assert_int_equal(pair.regions[0].escrow.used, 900);
    stop(&pair);
}

static void what_is_no_letter_is_refused_and_counted(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    assert_int_equal(hr_caps_receive(pair.regions[0].caps, 2, HR_SPAN("nonsense"), pair.now), HR_E_TRUNCATED);
    assert_int_equal(hr_caps_receive(pair.regions[0].caps, 77, HR_SPAN("nonsense"), pair.now), HR_E_NOT_FOUND);
    assert_int_equal(hr_caps_counts(pair.regions[0].caps).letters_refused, 2);
    stop(&pair);
}

/* A clock was ahead in the life before: the peer knows a later incarnation than this one's. */
static void a_node_whose_clock_went_back_takes_a_later_life(void **state)
{
    struct pair pair = {.limit = rate_limit(1000, 1000)};
    (void)state;
    pair.now = 1000 * HR_NS_PER_S;
    start(&pair, 0, 9, true);
    start(&pair, 1, 9, true);
    (void)spend(&pair, 100, 150);
    assert_int_equal(mint(&pair, 0), 900);
    start(&pair, 0, 5, false);
    (void)spend(&pair, 100, 150);
    assert_int_equal(mint(&pair, 0), 900);
    assert_int_equal(mint(&pair, 1), 100);
    stop(&pair);
}

static void a_counter_without_room_keeps_its_home(void **state)
{
    struct pair pair;
    (void)state;
    begin_rate(&pair, 1000, 1000);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(hr_caps_touch(pair.regions[0].caps, (struct hr_id128){10 + i, i}, LIMIT, pair.now), HR_OK);
    }
    enum hr_err err = hr_caps_touch(pair.regions[0].caps, (struct hr_id128){20, 20}, LIMIT, pair.now);
    assert_int_equal(err, HR_E_FULL);
    assert_int_equal(mint(&pair, 0), 500);
    assert_int_equal(hr_caps_touch(pair.regions[0].caps, ID, LIMIT + 1, pair.now), HR_E_NOT_FOUND);
    stop(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_counter_has_its_home_and_is_full),
        cmocka_unit_test(a_cold_counter_sends_nothing_and_is_let_go),
        cmocka_unit_test(a_hot_region_borrows_all_but_the_reserve),
        cmocka_unit_test(a_raise_needs_no_answer_and_a_recall_does),
        cmocka_unit_test(a_counter_is_introduced_again_where_it_was_forgotten),
        cmocka_unit_test(what_was_lent_comes_home_when_the_link_is_cut),
        cmocka_unit_test(a_lender_that_restarts_alone_mints_its_reserve_until_its_loans_have_lapsed),
        cmocka_unit_test(a_lender_without_its_seat_renews_and_lends_nothing),
        cmocka_unit_test(a_burst_of_one_token_is_held_by_one_region_only),
        cmocka_unit_test(of_few_tokens_that_come_slowly_none_is_lost),
        cmocka_unit_test(a_cut_of_the_rate_holds_before_a_raise_elsewhere),
        cmocka_unit_test(a_quota_goes_where_it_is_asked_for_all_but_the_reserve),
        cmocka_unit_test(a_lender_without_its_seat_gives_no_units),
        cmocka_unit_test(nothing_is_spent_or_given_before_the_log_knows),
        cmocka_unit_test(what_is_no_letter_is_refused_and_counted),
        cmocka_unit_test(a_node_whose_clock_went_back_takes_a_later_life),
        cmocka_unit_test(a_counter_without_room_keeps_its_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
