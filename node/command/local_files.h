/* Local files: what a local cluster needs on the disk before it can be started (node/command/local_run.h): its folder,
 * with the secret, a file for each node, and the links; and the programs.
 *
 * Each returns an exit status, and has printed its one line where that is not HR_EXIT_DONE.
 * Thread: the main one. */
#ifndef HR_NODE_COMMAND_LOCAL_FILES_H
#define HR_NODE_COMMAND_LOCAL_FILES_H

#include "base/err.h"
#include "node/command/local_run.h"

/* Finds headroomd, and headroom-chaos where there are links, beside the program that runs. */
HR_MUST int hr_local_find_programs(struct hr_local *local);

/* Takes a limits file that is good. NULL: none. */
HR_MUST int hr_local_take_limits(struct hr_local *local, const char *limits);

/* Makes the folder where it is not there. NULL: a fresh temporary one. */
HR_MUST int hr_local_make_folder(struct hr_local *local, const char *folder);

/* Finds ports, and writes all files. wan_delay: of the links, if there are any, as "80ms". */
HR_MUST int hr_local_write_files(struct hr_local *local, const char *wan_delay);

/* With all that is in it. */
void hr_local_remove_folder(const struct hr_local *local);

#endif
