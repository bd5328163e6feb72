/* Life: the number of this start of the node, as the store keeps it (gossip/life.h says what it is for).
 *
 * Thread: one at a time, before the node serves. Reads the store. */
#ifndef HR_NODE_LIFE_H
#define HR_NODE_LIFE_H

#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "storage/storage.h"

/* Greater than any that was put before, and than the wall clock's seconds. Errors: of hr_store_load. */
HR_MUST enum hr_err hr_life_read(struct hr_store *store, struct hr_wall now, uint64_t *ret_life);

/* Adds the record to a batch. It must be durable before another node hears of this life. */
HR_MUST enum hr_err hr_life_put(uint64_t life, struct hr_store_batch *batch);

#endif
