/* Check: is the structure of an LMDB file whole?
 *
 * LMDB trusts its pages, so before the file is trusted every page in use is looked at (pages.h). That is done in a
 * child process: a page that the disk cannot give ends whoever reads it. It costs one pass over the data.
 *
 * Thread: any. It forks. The file must not be written meanwhile. */
#ifndef HR_STORAGE_CHECK_LMDB_H
#define HR_STORAGE_CHECK_LMDB_H

#include "base/err.h"

/* HR_OK: whole. HR_E_CORRUPT: damaged. HR_E_IO: no answer: there was no child, or it was killed, or it
 * could not open the file for want of something. */
HR_MUST enum hr_err hr_store_check_lmdb(const char *dir);

#endif
