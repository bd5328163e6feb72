#include "node/log_fd.h"

#include <errno.h>
#include <unistd.h>

void hr_log_fd_sink(void *context, const char *line, size_t bytes)
{
    struct hr_log_fd *log = context;
    ssize_t count;
    do {
        count = write(log->fd, line, bytes);
    } while (count < 0 && errno == EINTR);
    if (count < 0 || (size_t)count < bytes) {
        atomic_fetch_add_explicit(&log->lost_lines, 1, memory_order_relaxed);
    }
}
