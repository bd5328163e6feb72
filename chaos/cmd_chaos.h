/* Commands of headroom-chaos. Each is run with its own name as argv[0] and returns the exit status (enum hr_exit).
 *
 * Thread: the main one. Answers go to standard output, one line about what went wrong to standard error. */
#ifndef HR_CHAOS_CMD_CHAOS_H
#define HR_CHAOS_CMD_CHAOS_H

#include "node/command/cmd.h"

int hr_chaos_links(int argc, char **argv);
int hr_chaos_list(int argc, char **argv);
int hr_chaos_report(int argc, char **argv);
int hr_chaos_run(int argc, char **argv);
int hr_chaos_sim(int argc, char **argv);

#endif
