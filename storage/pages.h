/* Pages: is the structure of an LMDB data file whole?
 *
 * LMDB trusts its pages: they have no checksum, and a damaged one makes it skip records without a word, write over what
 * is in use, or crash. This reads the file as LMDB 0.9 lays it out on a 64-bit machine, and believes none of it: the
 * two meta pages, the tree of records, that of free pages, and the pages of large values. Every number of a page,
 * offset and size must lie in its bounds; keys must ascend, and lie where the branches above them say; pages and
 * records must be as many as the meta page says; and no page may be reached twice, or be free and in use. Bytes inside
 * of values are no matter of this check: their own checksums find them (record.h).
 *
 * Thread: any. Pure. Time: one pass over the pages in use, one byte of each page of a large value. */
#ifndef HR_STORAGE_PAGES_H
#define HR_STORAGE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct hr_pages {
    struct hr_span file; /* all of it */
    size_t page_bytes;   /* a power of two, 512 to 32768 */
    uint8_t *seen;       /* hr_pages_seen_bytes of zeroes, borrowed: a bit for each page */
};

size_t hr_pages_seen_bytes(size_t file_bytes, size_t page_bytes);

/* HR_OK: whole. HR_E_CORRUPT: damaged. */
HR_MUST enum hr_err hr_pages_check(const struct hr_pages *pages);

#endif
