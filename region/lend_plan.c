#include "region/lend_plan.h"

#include <string.h>

static int64_t sum_of(uint32_t count, const int64_t *numbers)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < count; k++) {
        sum += numbers[k];
    }
    return sum;
}

/* Where not all of the rate is asked for, everybody who asks gets a quarter more, so that it need not ask at once
 * again. */
static void add_headroom(const struct hr_lend_view *view, int64_t left, int64_t *needs)
{
    int64_t wants[HR_REGIONS_MAX], weights[HR_REGIONS_MAX], added[HR_REGIONS_MAX];
    for (uint32_t k = 0; k < view->count; k++) {
        wants[k] = needs[k] / 4;
        weights[k] = needs[k];
    }
    hr_waterfill(view->count, wants, weights, left, added);
    for (uint32_t k = 0; k < view->count; k++) {
        needs[k] += added[k];
    }
}

/* A region that joins is at home with nothing yet, but may borrow. */
static void weigh(const struct hr_lend_view *view, int64_t whole, int64_t *ret_weights)
{
    for (uint32_t k = 0; k < view->count; k++) {
        bool is_guest = view->weights[k] == 0 && view->demands[k] > 0;
        ret_weights[k] = is_guest ? hr_max(1, whole / (16 * (int64_t)view->count)) : view->weights[k];
    }
}

void hr_lend_plan(const struct hr_lend_view *view, struct hr_lend_plan *ret_plan)
{
    uint32_t n = view->count;
    int64_t needs[HR_REGIONS_MAX] = {0}, weights[HR_REGIONS_MAX] = {0};
    int64_t over[HR_REGIONS_MAX] = {0}, lack[HR_REGIONS_MAX] = {0};
    int64_t whole = sum_of(n, view->homes), total_weight = sum_of(n, view->weights);
    memset(ret_plan, 0, sizeof *ret_plan);
    memcpy(needs, view->demands, n * sizeof needs[0]);
    int64_t asked = sum_of(n, needs);
    if (asked < whole) {
        add_headroom(view, whole - asked, needs);
    }
    weigh(view, total_weight, weights);
    hr_waterfill(n, needs, weights, whole, ret_plan->fair);
    for (uint32_t k = 0; k < n; k++) {
        int64_t keeps = hr_max(ret_plan->fair[k], hr_mul_div(view->homes[k], view->reserve_permille, 1000));
        over[k] = hr_max(0, view->homes[k] - keeps);
        lack[k] = view->demands[k] > view->homes[k] ? hr_max(0, ret_plan->fair[k] - view->homes[k]) : 0;
    }
    int64_t total_over = sum_of(n, over), total_lack = sum_of(n, lack);
    if (total_lack == 0) {
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        ret_plan->shortage[k] = total_over < total_lack ? lack[k] : 0;
        int64_t give = total_over >= total_lack ? hr_mul_div(over[k], total_lack, total_over) : over[k];
        ret_plan->gets[k] = hr_mul_div(give, lack[view->self], total_lack);
    }
    int64_t mine = over[view->self];
    int64_t give = total_over >= total_lack ? hr_mul_div(mine, total_lack, total_over) : mine;
    for (uint32_t k = 0; k < n; k++) {
        ret_plan->gives[k] = hr_mul_div(give, lack[k], total_lack);
    }
}
