/* Identity: the record that says whose store it is, and by which rules it is written.
 *
 * Encode and decode stand side by side. A decoder takes a record whose checksum held and says HR_E_CORRUPT where kind,
 * length or a bound is not as written here. Thread: any. Pure. */
#ifndef HR_STORAGE_IDENTITY_H
#define HR_STORAGE_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "storage/record.h"

/* Whose store it is, and by which rules it is written. A change of any rule that an older program would get wrong
 * raises HR_STORE_FORMAT.
 *   1  a record for each counter
 *   2  the log of counters, in segments */
#define HR_STORE_FORMAT 2
#define HR_STORE_NAME_BYTES_MAX 64
#define HR_SAVED_IDENTITY_BYTES_MAX (4 + 2 * (1 + HR_STORE_NAME_BYTES_MAX))

struct hr_saved_identity {
    uint32_t format;
    struct hr_span cluster, node; /* up to HR_STORE_NAME_BYTES_MAX each; decoded, they point into the record */
};

struct hr_store_key hr_saved_identity_key(void);

/* Returns 6 and the length of both names. Requires: the names are within their bound. */
size_t hr_saved_identity_encode(const struct hr_saved_identity *identity, uint8_t out[HR_SAVED_IDENTITY_BYTES_MAX]);
HR_MUST enum hr_err hr_saved_identity_decode(const struct hr_record *record, struct hr_saved_identity *ret_identity);

#endif
