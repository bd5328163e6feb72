/* Layout: for how many workers the store's log of counters is laid out (counter_log.h), as the store keeps it; and how
 * it is laid out anew at the start of a node that has another number of them.
 *
 * Thread: one at a time, before the node serves. Reads and writes the store. */
#ifndef HR_NODE_LAYOUT_H
#define HR_NODE_LAYOUT_H

#include <stdint.h>

#include "base/err.h"
#include "base/units.h"
#include "node/control.h"
#include "node/core.h"
#include "storage/record.h"
#include "storage/storage.h"

/* 1 where nothing was kept; 0: for no number, a new layout was begun and not ended. Errors: of hr_store_load. */
HR_MUST enum hr_err hr_layout_read(struct hr_store *store, uint32_t *ret_workers);

struct hr_relayout {
    struct hr_store *store;
    struct hr_store_watch *watch;
    struct hr_core *const *cores; /* they have taken what is theirs as moved (shard.h) */
    uint32_t count;
    uint64_t *ticket;       /* the last of control's own */
    uint64_t first, beyond; /* numbers of the segments that the store was found with */
};

/* For each segment that is loaded, in order. */
void hr_relayout_note(struct hr_relayout *relayout, const struct hr_record *segment);

/* Has each core save what it holds, then deletes the old segments. Until that has ended the store says that it is laid
 * out for no number, and the next start does it again: of what it holds then, the greatest number is still the last
 * word. Errors: of the store; the node must not serve then, for its log would be neither the one nor the other. */
HR_MUST enum hr_err hr_relayout_run(struct hr_relayout *relayout, struct hr_now now);

#endif
