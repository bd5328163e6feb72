/* Save: what of a limiter's counters and leases is to outlive its process, taken out piece by piece, and put back.
 *
 * A limiter with sizes.saves keeps note of what changed. Whoever stores it drains, in this order: the forgotten (delete
 * their records), the raises (durability reserved: store at once, a request may wait), the changed (durability
 * periodic: store each flush interval), the leases; and says of every record of a counter whether it came to the store.
 *
 * Thread: the limiter's. Pure. */
#ifndef HR_LIMITER_SAVE_H
#define HR_LIMITER_SAVE_H

#include <stdbool.h>

#include "base/err.h"
#include "limiter/image.h"
#include "limiter/limiter.h"

/* Each takes the next one out. False: there is none. */
bool hr_limiter_next_forgotten(struct hr_limiter *limiter, struct hr_id128 *ret_counter);
bool hr_limiter_next_raise(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image);
bool hr_limiter_next_changed(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image);

/* Before a clean stop, when no request will come any more and no record is on its way: all units ahead are given up, so
 * that the last records say just what was spent. */
void hr_limiter_end_reserves(struct hr_limiter *limiter);

/* The same for leases: granted or renewed, to be stored; or ended (*ret_ended), their record to be deleted. */
bool hr_limiter_next_lease(struct hr_limiter *limiter, struct hr_now now, struct hr_lease_image *ret_image,
                           bool *ret_ended);

/* The record of a counter came to the store, or did not: then it will be taken out again. */
void hr_limiter_saved(struct hr_limiter *limiter, struct hr_id128 counter, bool is_stored);

/* The record of a lease did not come to the store: it will be taken out again, if it still holds. */
void hr_limiter_save_lease_again(struct hr_limiter *limiter, struct hr_id128 lease);

/* Puts a counter or a lease back, `elapsed_ns` after it was saved. Leases after counters. One of a limit that is no
 * longer there, or of another algorithm now, is left out: HR_E_NOT_FOUND. HR_E_FULL: no room. */
HR_MUST enum hr_err hr_limiter_restore(struct hr_limiter *limiter, const struct hr_counter_image *image,
                                       int64_t elapsed_ns, struct hr_now now);
HR_MUST enum hr_err hr_limiter_restore_lease(struct hr_limiter *limiter, const struct hr_lease_image *image,
                                             int64_t elapsed_ns, struct hr_now now);

#endif
