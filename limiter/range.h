/* Range: all counters and leases whose ids lie in one part of the range of ids, taken out as images, put in place at
 * another node, and dropped. So a partition moves, and so its copy is made.
 *
 * The cells of a range stand side by side in the table, so that all this costs what the range holds. Leases go with the
 * counter that gave them. Counters of rules given on the spot are taken out as well: what says which limit an image
 * belongs to then says the rule's capacity (hr_limiter_spot_mark). Those of a node's part of a limit (part.h) are in no
 * range: they are neither taken out nor dropped.
 *
 * Thread: the limiter's. Pure. Memory: the caller's. */
#ifndef HR_LIMITER_RANGE_H
#define HR_LIMITER_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "limiter/image.h"
#include "limiter/limiter.h"

/* Ids whose first word lies between the two, both included. */
struct hr_range {
    uint64_t first, last;
};

/* How far a walk has come. It says by ids where it goes on, so that anything may change between two steps: what is
 * there all the while comes out at least once. */
struct hr_range_cursor {
    struct hr_range range;
    bool is_begun;
    struct hr_id128 at;    /* the counter that came last, or whose leases come */
    bool is_amid;          /* in the leases of `at` */
    uint32_t lease_index;  /* the lease that came last, */
    struct hr_id128 lease; /* ... if it still stands there, */
    hr_ns expires_at;      /* ... else all that run out no earlier come (again) */
};

/* exact: what was spent, for whoever is to spend on; upper bound: with all units of durability reserved that may be
 * spent before the next copy is made. */
enum hr_range_purpose { HR_RANGE_EXACT, HR_RANGE_UPPER_BOUND };

enum hr_range_kind { HR_RANGE_END, HR_RANGE_COUNTER, HR_RANGE_LEASE };

void hr_range_cursor_init(struct hr_range_cursor *cursor, struct hr_range range);

/* The next one, and which of the two it is. Untouched counters do not come. The leases of one counter come one after
 * another: whoever puts them in place takes the counter out first (hr_limiter_apply_forgotten). */
enum hr_range_kind hr_limiter_range_next(struct hr_limiter *limiter, struct hr_range_cursor *cursor,
                                         enum hr_range_purpose purpose, struct hr_now now,
                                         struct hr_counter_image *ret_counter, struct hr_lease_image *ret_lease);

/* Put an image in place of whatever stands there, `elapsed_ns` after it was made. It is a copy: a counter is not saved
 * here (a lease is, so that its end is too), and its units ahead are charged when this node takes over. Errors as for
 * hr_limiter_restore, and then what stood there stands. */
HR_MUST enum hr_err hr_limiter_apply(struct hr_limiter *limiter, const struct hr_counter_image *image,
                                     int64_t elapsed_ns, struct hr_now now);
HR_MUST enum hr_err hr_limiter_apply_lease(struct hr_limiter *limiter, const struct hr_lease_image *image,
                                           int64_t elapsed_ns, struct hr_now now);

/* Around a whole copy of a range: what stands there and does not come with it is dropped at its end, not before, so
 * that a copy that breaks off leaves no gap. False: some of it could not go just now; call end again later. */
void hr_limiter_range_begin(struct hr_limiter *limiter, struct hr_range range);
bool hr_limiter_range_end(struct hr_limiter *limiter, struct hr_range range, struct hr_now now);

/* Take out what is over at the place that the copy is of. */
void hr_limiter_apply_forgotten(struct hr_limiter *limiter, struct hr_id128 counter, struct hr_now now);
void hr_limiter_apply_lease_end(struct hr_limiter *limiter, struct hr_id128 lease, struct hr_now now);

/* What is in the range is saved anew, all of it. */
void hr_limiter_range_own(struct hr_limiter *limiter, struct hr_range range);

/* From now on it is this node that spends of what is in the range: what another may have spent of it, ahead of the
 * copies that came here, is charged; and all of it is saved anew. */
void hr_limiter_range_take_over(struct hr_limiter *limiter, struct hr_range range, hr_ns now);

/* Drops all of the range, and has its records deleted. False: some of it could not go just now; call again later. */
bool hr_limiter_range_drop(struct hr_limiter *limiter, struct hr_range range, struct hr_now now);

#endif
