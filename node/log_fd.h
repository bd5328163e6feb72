/* A sink for log lines: a file descriptor, as standard error. One write for each line, so that lines of several
 * processes do not mix.
 *
 * Thread: any, also several at once. Memory: none. */
#ifndef HR_NODE_LOG_FD_H
#define HR_NODE_LOG_FD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct hr_log_fd {
    int fd;
    _Atomic uint64_t lost_lines; /* could not be written, or not as a whole */
};

/* For struct hr_log: context is a struct hr_log_fd. A line that cannot be written is counted, never waited for longer
 * than write itself does: a log must not stop a node. */
void hr_log_fd_sink(void *context, const char *line, size_t bytes);

#endif
