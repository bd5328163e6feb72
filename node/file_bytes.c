#include "node/file_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One byte of room more than is allowed tells a file that is too long, also one that grows meanwhile. */
static bool read_all(int fd, const char *path, size_t bytes_max, struct hr_file_bytes *file,
                     struct hr_problem *ret_problem)
{
    for (;;) {
        ssize_t count = read(fd, file->at + file->bytes, bytes_max + 1 - file->bytes);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return hr_problem_errno(ret_problem, path, "cannot read the file");
        }
        file->bytes += (size_t)count;
        if (file->bytes > bytes_max) {
            hr_problem_what(ret_problem, "the file is too long: at most %zu bytes are read", bytes_max);
            hr_problem_where(ret_problem, "%s", path);
            return false;
        }
        if (count == 0) {
            return true;
        }
    }
}

/* The kernel backs only the pages of the buffer that are written to. */
static bool read_open(int fd, const char *path, size_t bytes_max, struct hr_file_bytes *ret_file,
                      struct hr_problem *ret_problem)
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return hr_problem_errno(ret_problem, path, "cannot look at the file");
    }
    if (S_ISDIR(status.st_mode)) {
        return hr_problem_set(ret_problem, path, "this is a folder, not a file");
    }
    if (!S_ISREG(status.st_mode)) {
        return hr_problem_set(ret_problem, path, "this is not a regular file");
    }
    struct hr_file_bytes file = {malloc(bytes_max + 1), 0};
    if (file.at == NULL) {
        return hr_problem_set(ret_problem, path, "not enough memory to read the file");
    }
    if (!read_all(fd, path, bytes_max, &file, ret_problem)) {
        free(file.at);
        return false;
    }
    *ret_file = file;
    return true;
}

bool hr_file_read(const char *path, size_t bytes_max, struct hr_file_bytes *ret_file, struct hr_problem *ret_problem)
{
    /* Without O_NONBLOCK, opening a pipe would wait for someone to write to it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return hr_problem_errno(ret_problem, path, "cannot open the file");
    }
    bool is_read = read_open(fd, path, bytes_max, ret_file, ret_problem);
    (void)close(fd); /* it was only read from: nothing can be lost */
    return is_read;
}
