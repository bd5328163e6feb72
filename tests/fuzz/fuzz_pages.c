/* Feeds arbitrary bytes, as a file of LMDB's pages, to what looks for damage in one. */
#include <stdint.h>
#include <string.h>

#include "storage/pages.h"

#define PAGE_BYTES 512
#define FILE_BYTES_MAX ((size_t)64 * PAGE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t seen[FILE_BYTES_MAX / PAGE_BYTES];
    if (bytes > FILE_BYTES_MAX) {
        return 0;
    }
    memset(seen, 0, sizeof(seen));
    const struct hr_pages pages = {{(const char *)data, bytes}, PAGE_BYTES, seen};
    (void)(hr_pages_check(&pages) == HR_OK); /* either is fine */
    return 0;
}
