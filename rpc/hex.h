/* Hex: a lease's 128-bit id as the 32 hexadecimal digits that callers hold. Written in small letters, read in any.
 * Thread: any. Pure. */
#ifndef HR_RPC_HEX_H
#define HR_RPC_HEX_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/span.h"

#define HR_LEASE_TEXT_BYTES 32

void hr_hex_write(struct hr_id128 id, char ret_digits[HR_LEASE_TEXT_BYTES]);

/* False: it is not 32 hexadecimal digits. */
bool hr_hex_read(struct hr_span digits, struct hr_id128 *ret_id);

#endif
