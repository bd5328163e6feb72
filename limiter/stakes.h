/* Stakes: the stakes of a limiter (stake.h), for whoever moves shares between regions.
 *
 * Thread: the limiter's. Pure. `number` is that of a hr_cap. */
#ifndef HR_LIMITER_STAKES_H
#define HR_LIMITER_STAKES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/units.h"
#include "limiter/limiter.h"
#include "limiter/stake.h"

/* Called within a decision for a stake that has no price, or one of an earlier generation. It may call nothing of the
 * limiter but what stands here. */
void hr_limiter_set_pricer(struct hr_limiter *limiter, struct hr_pricer pricer);

/* Stakes priced before this call are priced anew before they are spent. */
void hr_limiter_reprice_stakes(struct hr_limiter *limiter);

/* A counter's stake, made if there is none, which counts as priced from here on. It stays where it is as long as
 * is_held is set. NULL: no limit of that number in force has such a stake, or there is no room. */
struct hr_share *hr_limiter_share(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now);
struct hr_escrow *hr_limiter_escrow(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now);

/* Where the clock of a limit stands; all 0: it has no windows, or there is no such limit. */
struct hr_stake_window hr_limiter_window(struct hr_limiter *limiter, uint32_t number, struct hr_now now);

/* Brings what a guard's escrow says of the counter's own use up to date. */
void hr_limiter_update_guard(struct hr_limiter *limiter, struct hr_id128 id, uint32_t number, struct hr_now now);

/* The next counter that wants help from other regions. False: none does. */
bool hr_limiter_next_notice(struct hr_limiter *limiter, struct hr_id128 *ret_id, uint32_t *ret_number);

/* Forgets what stakes say whose counters are another node's now: those for which is_gone says so. O(stakes). Requires:
 * nobody looks after them any more. */
void hr_limiter_drop_stakes(struct hr_limiter *limiter, bool (*is_gone)(void *context, struct hr_id128 id),
                            void *context, struct hr_now now);

/* The counters of a number that somebody looks after, one after another, from *cursor (0 at first) on; pointers to
 * stakes are not touched. False: no more. O(stakes). */
bool hr_limiter_next_stake(const struct hr_limiter *limiter, uint32_t number, uint32_t *cursor,
                           struct hr_id128 *ret_id);

/* The cap of a limit of the set in force; number 0: its counters have no stakes. */
const struct hr_cap *hr_limiter_cap(const struct hr_limiter *limiter, uint32_t limit);

#endif
