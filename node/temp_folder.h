/* Temp folder: a fresh folder of one's own under TMPDIR, or where the system keeps such. Thread: the main one. */
#ifndef HR_NODE_TEMP_FOLDER_H
#define HR_NODE_TEMP_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Makes headroom-PURPOSE-xxxxxx and writes its path. False, with errno: it could not be made. */
bool hr_temp_folder(const char *purpose, char *ret_path, size_t room);

#endif
