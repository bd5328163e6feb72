#include "node/temp_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool hr_temp_folder(const char *purpose, char *ret_path, size_t room)
{
    const char *parent = getenv("TMPDIR");
    int bytes = snprintf(ret_path, room, "%s/headroom-%s-XXXXXX", parent == NULL ? P_tmpdir : parent, purpose);
    if (bytes < 0 || (size_t)bytes >= room) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(ret_path) != NULL;
}
