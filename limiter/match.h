/* Match: does one condition of a limit's `when` hold for a value?
 * Thread: any. Pure. Memory: none. Bound: a glob takes at most pattern bytes x value bytes steps, both at most
 * HR_ATTRIBUTE_VALUE_BYTES_MAX. */
#ifndef HR_LIMITER_MATCH_H
#define HR_LIMITER_MATCH_H

#include <stdbool.h>

#include "base/span.h"
#include "limiter/limit.h"

/* value NULL: the request does not have the attribute. */
bool hr_condition_holds(const struct hr_condition *condition, const struct hr_span *value);

/* `*` matches any run of bytes, also none; every other byte matches itself. */
bool hr_glob_matches(struct hr_span pattern, struct hr_span value);

/* Is value the text of an address within the network? An IPv4 address written as IPv6 (::ffff:10.1.2.3) counts as IPv4.
 */
bool hr_cidr_matches(const struct hr_cidr *cidr, struct hr_span value);

#endif
