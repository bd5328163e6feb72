#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "chaos/queue.h"

#define SEED 20260101

static void events_come_out_by_time_and_then_in_the_order_of_putting(void **state)
{
    (void)state;
    struct hr_queue queue = {0};
    struct hr_rng rng = {SEED};
    struct hr_sim_event event;
    print_message("seed %d\n", SEED);
    for (uint64_t i = 0; i < 5000; i++) {
        event = (struct hr_sim_event){.at = (hr_ns)hr_rng_below(&rng, 100), .what = i};
        assert_int_equal(hr_queue_put(&queue, event), HR_OK);
    }
    struct hr_sim_event last = {.at = -1};
    for (uint64_t i = 0; i < 5000; i++) {
        assert_true(hr_queue_take(&queue, &event));
        assert_true(event.at > last.at || (event.at == last.at && event.what > last.what));
        last = event;
    }
    assert_false(hr_queue_take(&queue, &event));
    hr_queue_deinit(&queue);
}

static void what_is_put_while_taking_comes_in_its_place(void **state)
{
    (void)state;
    struct hr_queue queue = {0};
    struct hr_sim_event event;
    assert_int_equal(hr_queue_put(&queue, (struct hr_sim_event){.at = 10}), HR_OK);
    assert_int_equal(hr_queue_put(&queue, (struct hr_sim_event){.at = 30}), HR_OK);
    assert_true(hr_queue_take(&queue, &event));
    assert_int_equal(hr_queue_put(&queue, (struct hr_sim_event){.at = 20}), HR_OK);
    assert_true(hr_queue_take(&queue, &event));
    assert_int_equal(event.at, 20);
    assert_true(hr_queue_take(&queue, &event));
    assert_int_equal(event.at, 30);
    hr_queue_deinit(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_out_by_time_and_then_in_the_order_of_putting),
        cmocka_unit_test(what_is_put_while_taking_comes_in_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
