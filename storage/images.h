/* Images on disk: the payload of a lease (limiter/image.h), and what of a batch it takes. Counters are kept in segments
 * (segment.h).
 *
 * Encode and decode stand side by side. Integers are little-endian and of fixed width; the id is in the key and not in
 * the payload again. A decoder takes a record whose checksum held and says HR_E_CORRUPT where kind, length or a bound
 * is not as written here. What the numbers mean is the limiter's to check, which knows the rule in force. Thread: any.
 * Pure. */
#ifndef HR_STORAGE_IMAGES_H
#define HR_STORAGE_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "limiter/image.h"
#include "storage/batch.h"
#include "storage/record.h"

/* counter 16, limit 16, slots 8, remaining 8, saved at 8 */
#define HR_LEASE_BYTES 56

/* What one image takes of a batch at most, with its key and the batch's own bookkeeping. */
#define HR_IMAGE_BATCH_BYTES_MAX 128

size_t hr_lease_encode(const struct hr_lease_image *image, uint8_t out[HR_LEASE_BYTES]);
HR_MUST enum hr_err hr_lease_decode(const struct hr_record *record, struct hr_lease_image *ret_image);

/* Add to a batch. Requires: it has HR_IMAGE_BATCH_BYTES_MAX of room, so that nothing can fail. */
void hr_batch_put_lease(struct hr_store_batch *batch, const struct hr_lease_image *image);
void hr_batch_delete_lease(struct hr_store_batch *batch, struct hr_id128 lease);

/* The id that an operation of a batch is about. False: it is of another kind. */
bool hr_batch_op_is_of(const struct hr_batch_op *op, enum hr_record_kind kind, struct hr_id128 *ret_id);

#endif
