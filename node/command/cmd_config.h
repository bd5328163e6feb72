/* `headroom config check FILE`: is a node file, and the limits file that it names, or a limits file right, and if not,
 * what is wrong with it and where?
 * Thread: the main one. */
#ifndef HR_NODE_COMMAND_CMD_CONFIG_H
#define HR_NODE_COMMAND_CMD_CONFIG_H

/* argv[0] is "config". Gives the exit status. */
int hr_cmd_config(int argc, char **argv);

#endif
