#include "tests/lib/temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

void temp_dir_make(struct temp_dir *ret_dir)
{
    const char *base = getenv("TMPDIR");
    int bytes = snprintf(ret_dir->path, sizeof(ret_dir->path), "%s/headroom-XXXXXX", base == NULL ? P_tmpdir : base);
    assert_true(bytes > 0 && (size_t)bytes < sizeof(ret_dir->path));
    assert_non_null(mkdtemp(ret_dir->path));
    (void)snprintf(ret_dir->store, sizeof(ret_dir->store), "%s/store", ret_dir->path);
    (void)snprintf(ret_dir->data, sizeof(ret_dir->data), "%s/data.mdb", ret_dir->store);
}

void temp_dir_clear(const struct temp_dir *dir)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "headroom.lock"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[TEMP_PATH_BYTES + 32];
        (void)snprintf(path, sizeof(path), "%s/%s", dir->store, names[i]);
        (void)unlink(path); /* not there: just as well */
    }
    (void)rmdir(dir->store);
}

void temp_dir_remove(const struct temp_dir *dir)
{
    temp_dir_clear(dir);
    (void)rmdir(dir->path);
}
