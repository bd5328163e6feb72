/* Built-in limits: one of each algorithm, and of each durability, for runs that are given no limits file.
 *
 * Thread: any. Memory: static. */
#ifndef HR_CHAOS_LIMITS_BUILTIN_H
#define HR_CHAOS_LIMITS_BUILTIN_H

#include "base/span.h"

/* As a limits file has it. */
extern const struct hr_span hr_limits_builtin;

/* Global caps, and a few limits of each region beside them. */
extern const struct hr_span hr_limits_builtin_caps;

#endif
