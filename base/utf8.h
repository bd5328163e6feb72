/* UTF-8 (RFC 3629).
 * Thread: any. Pure. */
#ifndef HR_BASE_UTF8_H
#define HR_BASE_UTF8_H

#include <stdbool.h>

#include "base/span.h"

/* No overlong form, no surrogate, nothing above U+10FFFF, nothing cut off. NUL is valid. */
bool hr_utf8_is_valid(struct hr_span text);

#endif
