/* Make: the data file of an empty store.
 *
 * It is built in a directory beside and moved into place whole. So a data file that is too short, or lacks its
 * identity, is never one half made, but always a damaged one. Thread: any, one at a time for a directory. Errors: as
 * LMDB's, 0 or a negative code of its own or an errno. */
#ifndef HR_STORAGE_MAKE_LMDB_H
#define HR_STORAGE_MAKE_LMDB_H

#include "base/err.h"
#include "storage/identity.h"

#define HR_STORE_DATA_NAME "data.mdb" /* LMDB's choice */

/* Makes dir, mode 0700, where it is missing; its entry is synced. Its parent must exist. */
HR_MUST int hr_store_make_dir(const char *dir);

/* Makes the data file in dir, which has none, with the identity in it, all synced. */
HR_MUST int hr_store_make_lmdb(const char *dir, const struct hr_saved_identity *identity);

#endif
