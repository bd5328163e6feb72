#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "region/cap_link.h"

#define MS HR_NS_PER_MS

static struct hr_cap_times times;
static struct hr_cap_link a, b;

static void begin(void)
{
    times = hr_cap_times_of(100 * MS, 5000 * MS);
    hr_cap_link_init(&a, 10);
    hr_cap_link_init(&b, 20);
}

/* A letter from a to b at once; clocks are `skew` apart. */
static enum hr_cap_heard tell(struct hr_cap_link *from, struct hr_cap_link *to, hr_ns from_now, hr_ns to_now)
{
    hr_cap_link_advance(from, &times, from_now);
    hr_cap_link_advance(to, &times, to_now);
    struct hr_cap_header header = hr_cap_link_send(from, &times, from_now);
    return hr_cap_link_receive(to, &times, &header, to_now);
}

static void meet(hr_ns now, hr_ns skew)
{
    (void)tell(&a, &b, now, now + skew);
    (void)tell(&b, &a, now + skew, now);
    (void)tell(&a, &b, now + MS, now + skew + MS);
}

static void a_link_is_up_once_both_have_heard_each_other(void **state)
{
    (void)state;
    begin();
    assert_int_equal(tell(&a, &b, 1000 * MS, 9 * MS), HR_CAP_HEARD_HEADER);
    assert_false(hr_cap_link_is_up(&b, &times, 9 * MS));
    assert_int_equal(tell(&b, &a, 9 * MS, 1000 * MS), HR_CAP_HEARD_ALL);
    assert_true(hr_cap_link_is_up(&a, &times, 1000 * MS));
    assert_int_equal(tell(&a, &b, 1001 * MS, 10 * MS), HR_CAP_HEARD_ALL);
    assert_true(hr_cap_link_is_up(&b, &times, 10 * MS));
}

/* The lease ends before the lender takes the loan for void, though it learns nothing of that. */
static void a_lease_ends_before_its_session_does(void **state)
{
    hr_ns skew = 7777 * MS, now = 1000 * MS;
    (void)state;
    begin();
    meet(now, skew);
    b.lends = true;
    (void)tell(&b, &a, now + skew + 2 * MS, now + 2 * MS);
    hr_ns used_until = a.lease_until;
    assert_true(used_until <= now + 2 * MS + times.lease);
    hr_cap_link_advance(&a, &times, used_until);
    assert_false(hr_cap_link_may_use(&a, used_until));
    hr_cap_link_advance(&b, &times, used_until + skew);
    assert_int_equal(b.session, 1);
    hr_cap_link_advance(&b, &times, used_until + skew + times.lease_void);
    assert_int_equal(b.session, 2);
}

static void a_session_that_has_lapsed_is_never_revived(void **state)
{
    hr_ns now = 1000 * MS, later = now + 20000 * MS;
    (void)state;
    begin();
    meet(now, 0);
    b.lends = true;
    (void)tell(&b, &a, now + 2 * MS, now + 2 * MS);
    struct hr_cap_header late = hr_cap_link_send(&b, &times, now + 3 * MS);
    hr_cap_link_advance(&a, &times, later);
    (void)hr_cap_link_receive(&a, &times, &late, later);
    assert_false(hr_cap_link_may_use(&a, later));
    (void)tell(&a, &b, later, later); /* a says that it has lapsed */
    assert_int_equal(b.session, 2);
    (void)tell(&b, &a, later, later);
    assert_true(hr_cap_link_may_use(&a, later));
}

static void letters_of_a_dead_life_are_ignored_and_a_later_own_life_is_noticed(void **state)
{
    struct hr_cap_header header = {.incarnation = 20, .number = 1, .session = 1, .echo = HR_CAP_LONG_AGO};
    (void)state;
    begin();
    assert_int_equal(hr_cap_link_receive(&a, &times, &header, MS), HR_CAP_HEARD_HEADER);
    header.incarnation = 19;
    assert_int_equal(hr_cap_link_receive(&a, &times, &header, MS), HR_CAP_HEARD_OLD);
    header.incarnation = 20;
    header.known = 11;
    assert_int_equal(hr_cap_link_receive(&a, &times, &header, MS), HR_CAP_HEARD_OUTLIVED);
}

static void it_is_known_which_of_the_last_letters_have_arrived(void **state)
{
    (void)state;
    begin();
    meet(1000 * MS, 0);
    for (uint32_t number = a.number + 1; number <= 200; number++) {
        struct hr_cap_header header = hr_cap_link_send(&a, &times, 1002 * MS);
        assert_int_equal(header.number, number);
        if (number % 3 != 0) {
            (void)hr_cap_link_receive(&b, &times, &header, 1002 * MS);
        }
    }
    (void)tell(&b, &a, 1003 * MS, 1003 * MS);
    for (uint32_t number = 136; number <= 200; number++) {
        if (hr_cap_link_has_arrived(&a, number) != (number % 3 != 0)) {
            fail_msg("letter %u", number);
        }
    }
    assert_false(hr_cap_link_has_arrived(&a, 201));
    assert_false(hr_cap_link_has_arrived(&a, 100)); /* forgotten */
}

/* Its records are not used, so they must come again. */
static void a_letter_whose_echo_is_too_old_has_not_arrived(void **state)
{
    hr_ns now = 1000 * MS, later = now + times.lease + 20000 * MS;
    (void)state;
    begin();
    meet(now, 0);
    uint32_t number = a.number + 1;
    assert_int_equal(tell(&a, &b, later, later), HR_CAP_HEARD_HEADER);
    assert_int_equal(tell(&b, &a, later, later), HR_CAP_HEARD_ALL);
    assert_false(hr_cap_link_has_arrived(&a, number));
    assert_int_equal(tell(&a, &b, later, later), HR_CAP_HEARD_ALL);
    assert_int_equal(tell(&b, &a, later, later), HR_CAP_HEARD_ALL);
    assert_false(hr_cap_link_has_arrived(&a, number));
    assert_true(hr_cap_link_has_arrived(&a, number + 1));
}

/* On a long way a record that was sent again too soon would never be known to have arrived. */
static void nothing_is_sent_again_before_word_of_it_can_have_come(void **state)
{
    hr_ns now = 1000 * MS, way = 400 * MS;
    (void)state;
    begin();
    assert_int_equal(hr_cap_link_retry(&a, &times), times.retry);
    for (uint32_t i = 0; i < 4; i++) {
        struct hr_cap_header header = hr_cap_link_send(&a, &times, now);
        (void)hr_cap_link_receive(&b, &times, &header, now + way);
        header = hr_cap_link_send(&b, &times, now + way);
        (void)hr_cap_link_receive(&a, &times, &header, now + 2 * way);
        now += 3 * way;
    }
    assert_true(hr_cap_link_retry(&a, &times) >= 2 * way);
    assert_true(hr_cap_link_retry(&a, &times) <= 3 * way);
}

static void a_link_that_loses_one_letter_in_five_is_lossy(void **state)
{
    (void)state;
    for (uint32_t kept = 4; kept <= 50; kept += 46) {
        begin();
        meet(1000 * MS, 0);
        for (uint32_t i = 0; i < 100; i++) {
            struct hr_cap_header header = hr_cap_link_send(&a, &times, 1002 * MS);
            if (i % (kept + 1) != 0) {
                (void)hr_cap_link_receive(&b, &times, &header, 1002 * MS);
            }
        }
        (void)tell(&b, &a, 1003 * MS, 1003 * MS);
        if (hr_cap_link_is_lossy(&a) != (kept == 4)) {
            fail_msg("one in %u", kept + 1);
        }
    }
}

static void a_cut_link_charges_what_is_out_until_it_has_lapsed(void **state)
{
    hr_ns now = 1000 * MS;
    (void)state;
    begin();
    meet(now, 0);
    b.lends = true;
    (void)tell(&b, &a, now + 2 * MS, now + 2 * MS);
    hr_cap_link_cut(&b, &times);
    assert_int_equal(b.session, 2);
    assert_true(b.zombie_until > a.lease_until);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_up_once_both_have_heard_each_other),
        cmocka_unit_test(a_lease_ends_before_its_session_does),
        cmocka_unit_test(a_session_that_has_lapsed_is_never_revived),
        cmocka_unit_test(letters_of_a_dead_life_are_ignored_and_a_later_own_life_is_noticed),
        cmocka_unit_test(it_is_known_which_of_the_last_letters_have_arrived),
        cmocka_unit_test(a_letter_whose_echo_is_too_old_has_not_arrived),
        cmocka_unit_test(nothing_is_sent_again_before_word_of_it_can_have_come),
        cmocka_unit_test(a_link_that_loses_one_letter_in_five_is_lossy),
        cmocka_unit_test(a_cut_link_charges_what_is_out_until_it_has_lapsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
