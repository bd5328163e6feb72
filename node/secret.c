#include "node/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/file_bytes.h"

#define PATH_BYTES 4096
#define RANDOM_BYTES 32
#define TEXT_BYTES (2 * RANDOM_BYTES + 1) /* hex and an end of line */

/* Reading. */

static struct hr_span without_line_end(struct hr_span text)
{
    if (text.bytes > 0 && text.at[text.bytes - 1] == '\n') {
        text.bytes--;
        text.bytes -= text.bytes > 0 && text.at[text.bytes - 1] == '\r';
    }
    return text;
}

static bool is_closed_to_others(const char *path, struct hr_problem *ret_problem)
{
    struct stat status;
    if (stat(path, &status) != 0) {
        return hr_problem_errno(ret_problem, path, "cannot open the secret");
    }
    if (S_ISREG(status.st_mode) && (status.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        return hr_problem_set(ret_problem, path,
                              "any user of this machine can read or change the secret; use chmod o-rw");
    }
    return true;
}

bool hr_secret_read(const char *path, struct hr_hash_key *ret_key, struct hr_problem *ret_problem)
{
    struct hr_file_bytes file;
    if (!is_closed_to_others(path, ret_problem) || !hr_file_read(path, HR_SECRET_BYTES_MAX + 2, &file, ret_problem)) {
        return false;
    }
    struct hr_span secret = without_line_end((struct hr_span){file.at, file.bytes});
    bool is_good = secret.bytes >= HR_SECRET_BYTES_MIN && secret.bytes <= HR_SECRET_BYTES_MAX;
    if (is_good) {
        *ret_key = hr_secret_key(secret);
    } else {
        hr_problem_what(ret_problem, "a secret must have %d to %d bytes, not %zu", HR_SECRET_BYTES_MIN,
                        HR_SECRET_BYTES_MAX, secret.bytes);
        hr_problem_where(ret_problem, "%s", path);
    }
    explicit_bzero(file.at, file.bytes);
    free(file.at);
    return is_good;
}

/* Making. */

static bool make_text(char ret_text[TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[RANDOM_BYTES];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) { /* so few bytes come all or not at all */
        return false;
    }
    for (size_t i = 0; i < sizeof(random); i++) {
        ret_text[2 * i] = digits[random[i] >> 4];
        ret_text[2 * i + 1] = digits[random[i] & 0xf];
    }
    ret_text[TEXT_BYTES - 1] = '\n';
    explicit_bzero(random, sizeof(random));
    return true;
}

/* Writes the text and has it on disk. Closes fd. */
static bool write_synced(int fd, const char *path, struct hr_problem *ret_problem)
{
    char text[TEXT_BYTES];
    bool is_made = make_text(text);
    if (!is_made) {
        (void)hr_problem_errno(ret_problem, path, "cannot get random bytes");
    }
    bool is_written = is_made && write(fd, text, sizeof(text)) == (ssize_t)sizeof(text) && fsync(fd) == 0;
    if (is_made && !is_written) {
        (void)hr_problem_errno(ret_problem, path, "cannot write the secret");
    }
    explicit_bzero(text, sizeof(text));
    (void)close(fd); /* all that could be lost was synced */
    return is_written;
}

/* A new name is only on disk when its folder is. */
static bool sync_folder(const char *folder, struct hr_problem *ret_problem)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_synced = fd >= 0 && fsync(fd) == 0;
    if (!is_synced) {
        (void)hr_problem_errno(ret_problem, folder, "cannot sync the folder");
    }
    if (fd >= 0) {
        (void)close(fd); /* it was not written to */
    }
    return is_synced;
}

/* The file gets its name only when it is whole and on disk, so that a crash leaves a secret or none, never a piece; and
 * link, unlike rename, leaves one that is already there alone. */
static bool make(const char *folder, const char *path, struct hr_problem *ret_problem)
{
    char draft[PATH_BYTES];
    (void)snprintf(draft, sizeof(draft), "%s/secret.XXXXXX", folder); /* as long as path is, which fitted */
    int fd = mkostemp(draft, O_CLOEXEC);                              /* with O_EXCL, and for its owner only */
    if (fd < 0) {
        return hr_problem_errno(ret_problem, path, "cannot create the secret");
    }
    bool is_made = write_synced(fd, path, ret_problem);
    if (is_made && link(draft, path) != 0 && errno != EEXIST) {
        is_made = hr_problem_errno(ret_problem, path, "cannot create the secret");
    }
    (void)unlink(draft); /* what remains after a failure is a file that nothing reads */
    return is_made && sync_folder(folder, ret_problem);
}

bool hr_secret_keep(const char *folder, struct hr_hash_key *ret_key, struct hr_problem *ret_problem)
{
    char path[PATH_BYTES];
    int count = snprintf(path, sizeof(path), "%s/secret", folder);
    if (count < 0 || (size_t)count + sizeof(".XXXXXX") > sizeof(path)) {
        return hr_problem_set(ret_problem, folder, "the folder's path is too long");
    }
    if (access(path, F_OK) != 0 && errno == ENOENT && !make(folder, path, ret_problem)) {
        return false;
    }
    return hr_secret_read(path, ret_key, ret_problem);
}
