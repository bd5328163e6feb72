/* Check: is the structure of an LMDB file whole?
 *
 * LMDB trusts its pages: they have no checksum, and a damaged one makes it skip records without a word, or crash. So
 * before the file is trusted every page that is in use is walked once, in a child process, which may crash: keys must
 * ascend, be as many as the file says, and every value must be readable. Values that are whole pages but wrong inside
 * are no matter of this check: their own checksums find them (record.h). It costs one pass over the data.
 *
 * Thread: any. It forks. The file must not be written meanwhile. */
#ifndef HR_STORAGE_CHECK_LMDB_H
#define HR_STORAGE_CHECK_LMDB_H

#include "base/err.h"

/* HR_OK: whole. HR_E_CORRUPT: damaged. HR_E_IO: no answer: there was no child, or it was killed, or it
 * could not open the file for want of something. */
HR_MUST enum hr_err hr_store_check_lmdb(const char *dir);

#endif
