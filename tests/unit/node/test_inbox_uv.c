/* The inbox: packets come out as they went in, its room is never exceeded, and the loop is woken once for many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "node/inbox_uv.h"

#define ROOM 64

static struct hr_span text(const char *at)
{
    return (struct hr_span){at, strlen(at)};
}

static void packets_come_out_in_their_order_and_whole(void **state)
{
    (void)state;
    struct hr_inbox inbox;
    struct hr_span packet;
    assert_int_equal(hr_inbox_open(&inbox, ROOM), HR_OK);
    for (int round = 0; round < 3; round++) { /* both halves, and the first again */
        assert_false(hr_inbox_next(&inbox, &packet));
        (void)hr_inbox_put(&inbox, text("one"));
        (void)hr_inbox_put(&inbox, text("second"));
        assert_true(hr_inbox_next(&inbox, &packet));
        assert_true(hr_span_equal(packet, text("one")));
        (void)hr_inbox_put(&inbox, text("meanwhile"));
        assert_true(hr_inbox_next(&inbox, &packet));
        assert_true(hr_span_equal(packet, text("second")));
        assert_true(hr_inbox_next(&inbox, &packet));
        assert_true(hr_span_equal(packet, text("meanwhile")));
    }
    assert_int_equal(hr_inbox_dropped(&inbox), 0);
    hr_inbox_close(&inbox);
}

static void only_the_first_of_several_wakes_the_loop(void **state)
{
    (void)state;
    struct hr_inbox inbox;
    struct hr_span packet;
    assert_int_equal(hr_inbox_open(&inbox, ROOM), HR_OK);
    assert_true(hr_inbox_put(&inbox, text("a")));
    assert_false(hr_inbox_put(&inbox, text("b")));
    assert_true(hr_inbox_next(&inbox, &packet));
    assert_true(hr_inbox_put(&inbox, text("c"))); /* the others have been taken over already */
    hr_inbox_close(&inbox);
}

static void what_finds_no_room_is_dropped_and_counted(void **state)
{
    (void)state;
    static const char bytes[ROOM] = {0};
    struct hr_inbox inbox;
    struct hr_span packet;
    assert_int_equal(hr_inbox_open(&inbox, ROOM), HR_OK);
    assert_false(hr_inbox_put(&inbox, (struct hr_span){bytes, ROOM - 3})); /* its length takes four */
    assert_int_equal(hr_inbox_dropped(&inbox), 1);
    assert_false(hr_inbox_next(&inbox, &packet));
    assert_true(hr_inbox_put(&inbox, (struct hr_span){bytes, ROOM - 4}));
    assert_false(hr_inbox_put(&inbox, text("a")));
    assert_int_equal(hr_inbox_dropped(&inbox), 2);
    assert_true(hr_inbox_next(&inbox, &packet));
    assert_int_equal(packet.bytes, ROOM - 4);
    assert_true(hr_inbox_put(&inbox, text("a")));
    hr_inbox_close(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_come_out_in_their_order_and_whole),
        cmocka_unit_test(only_the_first_of_several_wakes_the_loop),
        cmocka_unit_test(what_finds_no_room_is_dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
