/* Lend state: what the files of LEND share about a counter. Nobody else includes this. */
#ifndef HR_REGION_LEND_STATE_H
#define HR_REGION_LEND_STATE_H

#include "region/lend.h"

/* The home in force: while an epoch is being adopted, the smaller of both. */
int64_t hr_lend_home_rate(const struct hr_lend *lend, uint32_t region);
int64_t hr_lend_home_depth(const struct hr_lend *lend);

int64_t hr_lend_reserve(const struct hr_lend *lend);
int64_t hr_lend_kept(const struct hr_lend *lend);
int64_t hr_lend_room(const struct hr_lend *lend, const struct hr_cap_times *times);
int64_t hr_lend_on_its_way(const struct hr_lend_loan *loan);

/* All that others may be using of this home. */
struct hr_price hr_lend_lent(const struct hr_lend *lend);
void hr_lend_reprice(struct hr_lend *lend, const struct hr_lend_context *context);

/* What should be lent to each region, or by each to this one, in its view. */
struct hr_lend_wish {
    int64_t rate[HR_REGIONS_MAX], depth[HR_REGIONS_MAX]; /* to lend */
    int64_t gets[HR_REGIONS_MAX];                        /* rate to borrow */
    int64_t shortage[HR_REGIONS_MAX];
};
void hr_lend_wish(struct hr_lend *lend, const struct hr_lend_context *context, struct hr_lend_wish *ret_wish);

/* Of a pooled counter, by what each should have (hr_lend_plan): what to lend, and what to keep of a debt. */
void hr_lend_wish_pooled(struct hr_lend *lend, const int64_t *fair, struct hr_lend_wish *wish);
struct hr_price hr_lend_keep_pooled(const struct hr_lend *lend, const struct hr_lend_debt *debt);

/* ... who asks for less than this is not asking (any more). */
int64_t hr_lend_least_claim(const struct hr_lend *lend);

bool hr_lend_is_full(const struct hr_lend *lend);

/* How far a measured rate may be off by chance: two standard deviations. */
int64_t hr_lend_noise(const struct hr_lend *lend, int64_t rate);
hr_ns hr_lend_average_ns(const struct hr_lend *lend);

#endif
