/* Times as people write and read them, exact to the microsecond.
 *
 * Thread: any. Memory: none. */
#ifndef HR_NODE_TIME_TEXT_H
#define HR_NODE_TIME_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

#define HR_WAIT_TEXT_BYTES 48

/* "1.1s", "250ms", "90m": a decimal number and one of us, ms, s, m, h, d. False: something else, no whole number of
 * microseconds, or beyond HR_TIME_NS_MAX. */
bool hr_duration_parse(struct hr_span text, int64_t *ret_us);

/* RFC 3339: "2024-01-01T00:00:00Z", "2024-03-31T01:59:59.5+01:00". From 1970 to HR_TIME_NS_MAX; no leap seconds. */
bool hr_instant_parse(struct hr_span text, int64_t *ret_unix_us);

/* A wait for people, in its largest two units, rounded up: "0", "250ms", "1.25s", "2m 5s", "3d 4h"; "never" for
 * HR_NEVER_MS. */
void hr_wait_text(int64_t wait_ms, char ret_text[HR_WAIT_TEXT_BYTES]);

#endif
