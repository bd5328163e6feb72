/* File bytes: a whole regular file in memory, bounded before it is read.
 *
 * Thread: any. Memory: heap; *ret_bytes is the caller's to free(). */
#ifndef HR_NODE_FILE_BYTES_H
#define HR_NODE_FILE_BYTES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "node/problem.h"

struct hr_file_bytes {
    char *at; /* never NULL after success */
    size_t bytes;
};

/* False: no such file, not a regular file, unreadable, or more than bytes_max; *ret_problem says which. */
HR_MUST bool hr_file_read(const char *path, size_t bytes_max, struct hr_file_bytes *ret_file,
                          struct hr_problem *ret_problem);

#endif
