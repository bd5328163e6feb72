/* Lend plan: who should lend how much to whom, as one region sees it. Only ever a wish: what may be used is decided by
 * who said what to whom (lend.h), so views that differ cost utilisation and nothing else.
 *
 * Thread: the caller's. Pure. Rates in units per period. */
#ifndef HR_REGION_LEND_PLAN_H
#define HR_REGION_LEND_PLAN_H

#include <stdint.h>

#include "region/waterfill.h"

struct hr_lend_view {
    uint32_t count, self;
    uint32_t reserve_permille;
    int64_t homes[HR_REGIONS_MAX];   /* 0: out of reach, or at home with nothing */
    int64_t demands[HR_REGIONS_MAX]; /* 0: out of reach */
    int64_t weights[HR_REGIONS_MAX]; /* for fairness: at most 2^31 each */
};

struct hr_lend_plan {
    int64_t fair[HR_REGIONS_MAX];     /* what each should have */
    int64_t gives[HR_REGIONS_MAX];    /* what this region should lend to each */
    int64_t gets[HR_REGIONS_MAX];     /* what each should lend to this region */
    int64_t shortage[HR_REGIONS_MAX]; /* what each lacks where not all can have enough */
};

void hr_lend_plan(const struct hr_lend_view *view, struct hr_lend_plan *ret_plan);

#endif
