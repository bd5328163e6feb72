/* Save: what of a limiter's counters and leases is to outlive its process, taken out piece by piece, and put back.
 *
 * A limiter with sizes.saves keeps note of what changed. Whoever stores it drains, in this order: the forgotten (their
 * records hold no more), the raises (durability reserved: store at once, a request may wait), the changed (durability
 * periodic: store each flush interval), the leases; and says what came of it.
 *
 * The store may be a log, whose oldest records are to go some day. A refresh has every counter whose last record is
 * older than its beginning come out once more among the changed, as the sweep comes by.
 *
 * Thread: the limiter's. Pure. */
#ifndef HR_LIMITER_SAVE_H
#define HR_LIMITER_SAVE_H

#include <stdbool.h>

#include "base/err.h"
#include "limiter/image.h"
#include "limiter/limiter.h"

/* Should something be stored before the next flush? A raise that somebody waits for, or so many forgotten that there is
 * soon no room for more. */
bool hr_limiter_is_urgent(const struct hr_limiter *limiter);

/* Is there a raise to be stored, and be it ahead of need? */
bool hr_limiter_has_raises(const struct hr_limiter *limiter);

/* Each takes the next one out. False: there is none. */
bool hr_limiter_next_forgotten(struct hr_limiter *limiter, struct hr_id128 *ret_counter);
bool hr_limiter_next_raise(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image);
bool hr_limiter_next_changed(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_image);

/* Of the changed, buckets that stand in the journal (journal.h), some of one limit at a time, at a fraction of what
 * next_changed takes for each; whatever is left there comes out by that. What they share is in ret_shared: limit,
 * algorithm, rate, period_ns, saved_at. Returns how many; 0: there are none. */
#define HR_DEBTS_MAX 22
struct hr_debt {
    struct hr_id128 id;
    uint64_t debt; /* as the image's words[1], while words[0] and ahead are 0 */
};
uint32_t hr_limiter_next_debts(struct hr_limiter *limiter, struct hr_now now, struct hr_counter_image *ret_shared,
                               struct hr_debt ret_debts[HR_DEBTS_MAX]);

/* Is the journal filling up, so that its part of the changed should not wait for the flush interval? */
bool hr_limiter_has_many_debts(const struct hr_limiter *limiter);

/* Before a clean stop, when no request will come any more and no record is on its way: all units ahead are given up, so
 * that the last records say just what was spent. */
void hr_limiter_end_reserves(struct hr_limiter *limiter);

/* The same for leases: granted or renewed, to be stored; or ended (*ret_ended), their record to be deleted. */
bool hr_limiter_next_lease(struct hr_limiter *limiter, struct hr_now now, struct hr_lease_image *ret_image,
                           bool *ret_ended);

/* All raises that were taken out came to the store, or did not: then they will be taken out again. */
void hr_limiter_settle_raises(struct hr_limiter *limiter, bool is_stored);

/* What was taken out did not come to the store, and will be taken out again, as far as it still holds: the record of a
 * counter, of a lease; that a counter was forgotten. */
void hr_limiter_save_again(struct hr_limiter *limiter, struct hr_id128 counter);
void hr_limiter_save_lease_again(struct hr_limiter *limiter, struct hr_id128 lease);
void hr_limiter_forget_again(struct hr_limiter *limiter, struct hr_id128 counter);

/* Begins a refresh, and says when it has ended: when all counters have come out, of which the last may be among the
 * changed still. One at a time. */
void hr_limiter_begin_refresh(struct hr_limiter *limiter);
bool hr_limiter_is_refreshing(const struct hr_limiter *limiter);

/* Puts a counter or a lease back, `elapsed_ns` after it was saved; a later record of a counter overrules the earlier
 * one. Leases after counters. One of a limit that is no longer there, or of another algorithm now, is left out:
 * HR_E_NOT_FOUND. HR_E_FULL: no room. */
HR_MUST enum hr_err hr_limiter_restore(struct hr_limiter *limiter, const struct hr_counter_image *image,
                                       int64_t elapsed_ns, struct hr_now now);
HR_MUST enum hr_err hr_limiter_restore_lease(struct hr_limiter *limiter, const struct hr_lease_image *image,
                                             int64_t elapsed_ns, struct hr_now now);

/* What stands for the limit in the image of a counter whose rule was given on the spot. */
struct hr_id128 hr_limiter_spot_mark(uint64_t capacity);

/* At start: asks for the memory where a counter would stand, some while before it is restored. */
void hr_limiter_prepare_restore(const struct hr_limiter *limiter, struct hr_id128 counter);

/* At start: takes out again what an earlier record has put back. */
void hr_limiter_restore_forgotten(struct hr_limiter *limiter, struct hr_id128 counter, struct hr_now now);

#endif
