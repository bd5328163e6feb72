#include "storage/check_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/make_lmdb.h"
#include "storage/pages.h"

/* No sound file takes so long to walk, of processor time: ten million records take three seconds. */
#define WALK_S_MAX 600

enum verdict { WHOLE, DAMAGED, UNKNOWN };

static int open_data(const char *dir)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : openat(dir_fd, HR_STORE_DATA_NAME, O_RDONLY | O_CLOEXEC);
}

/* The child ends with its verdict: nothing here is closed or freed. */
static enum verdict judge(const char *dir)
{
    struct stat info;
    int fd = open_data(dir);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return UNKNOWN;
    }
    size_t bytes = (size_t)info.st_size, page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes < page_bytes) {
        return DAMAGED; /* and nothing to map */
    }
    const char *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    struct hr_pages pages = {{at, bytes}, page_bytes, calloc(hr_pages_seen_bytes(bytes, page_bytes), 1)};
    if (at == MAP_FAILED || pages.seen == NULL) {
        return UNKNOWN;
    }
    return hr_pages_check(&pages) == HR_OK ? WHOLE : DAMAGED;
}

/* A crash is an answer here: it is not to be reported, dumped, or handled by what the parent installed. */
static void expect_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    const struct rlimit none = {0, 0}, walk = {WALK_S_MAX, WALK_S_MAX + 1};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)setrlimit(RLIMIT_CPU, &walk);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_DFL);
    }
}

static enum hr_err err_of(int status)
{
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status) == WHOLE ? HR_OK : WEXITSTATUS(status) == DAMAGED ? HR_E_CORRUPT : HR_E_IO;
    }
    /* Killed from outside, for want of memory for instance, says nothing about the file. */
    return WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM ? HR_E_IO : HR_E_CORRUPT;
}

enum hr_err hr_store_check_lmdb(const char *dir)
{
    pid_t child = fork();
    if (child < 0) {
        return HR_E_IO;
    }
    if (child == 0) {
        expect_crashes();
        _exit((int)judge(dir));
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return HR_E_IO;
        }
    }
    return err_of(status);
}
