/* Secret mark: which secret a store's counters are named under, without a word of it.
 *
 * Under another secret no counter would be found again, and all would start afresh without a word. So the store holds a
 * keyed hash of a fixed text: who has the secret can tell that it is the same, and nobody else learns anything.
 *
 * Thread: any, one at a time for a store. */
#ifndef HR_NODE_SECRET_MARK_H
#define HR_NODE_SECRET_MARK_H

#include "base/err.h"
#include "base/hash.h"
#include "storage/storage.h"

enum hr_secret_mark {
    HR_SECRET_UNMARKED, /* a new store, or one of a version that left no mark */
    HR_SECRET_SAME,
    HR_SECRET_OTHER,
};

/* HR_E_CORRUPT: the mark has a wrong length. Else as hr_store_load. */
HR_MUST enum hr_err hr_secret_mark_read(struct hr_store *store, const struct hr_hash_key *secret,
                                        enum hr_secret_mark *ret_mark);

/* Puts the mark into a batch. HR_E_FULL: no room there. */
HR_MUST enum hr_err hr_secret_mark_put(const struct hr_hash_key *secret, struct hr_store_batch *batch);

#endif
