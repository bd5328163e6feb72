/* Local links: the ways between the regions of a cluster on loopback, which a program of its own delays and cuts:
 *
 *   headroom-chaos links FILE
 *
 * The file is text, an entry a line:
 *
 *   delay 80ms                             between regions, each way
 *   loss 20%                               of what goes between regions, each way; as late as a retransmission is
 *   region eu 127.0.1.1                    who connects from this address belongs to the region
 *   relay eu 127.0.1.1:4001 127.0.1.1:4002 of a node of the region: listen at the first, lead to the second
 *   cut us                                 nothing passes between the region and the others, either way
 *   mute us                                nothing that the region sends reaches the others
 *   deaf us                                nothing that the others send reaches the region
 *
 * Whoever connects to a relay is told from its region's address; within a region bytes pass at once. The file is
 * replaced as a whole, by a rename, when something is to change, and the program then goes by the new one.
 *
 * Thread: any. Memory: the stack; heap while a file is read or changed. */
#ifndef HR_NODE_COMMAND_LOCAL_LINKS_H
#define HR_NODE_COMMAND_LOCAL_LINKS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/units.h"
#include "node/command/local_plan.h"
#include "node/problem.h"

enum hr_local_cut { HR_LOCAL_HEALED, HR_LOCAL_CUT, HR_LOCAL_MUTE, HR_LOCAL_DEAF };

/* As written: "heal", "cut", "mute", "deaf". False: it is none of them. */
bool hr_local_cut_find(const char *word, enum hr_local_cut *ret_cut);

/* Whether all could be written is for the caller to ask of `out`. */
void hr_local_links_write(const struct hr_local_plan *plan, const char *delay, FILE *out);

/* Cuts a region off in one of the ways, instead of any before, or heals it, in the links file at `path`: at once, or
 * not at all. Where it is so already nothing changes. False: *ret_problem says why. */
HR_MUST bool hr_local_links_set(const char *path, const char *region, enum hr_local_cut cut,
                                struct hr_problem *ret_problem);

/* Sets "delay" or "loss", as the file has it, in the same way. */
HR_MUST bool hr_local_links_tune(const char *path, const char *what, const char *value, struct hr_problem *ret_problem);

/* What a file says. */
struct hr_local_links {
    hr_ns delay_ns;
    uint32_t loss_ppm;
    uint32_t region_count, relay_count;
    struct hr_local_region {
        char name[HR_CONFIG_NAME_BYTES_MAX + 1];
        struct in_addr at;
        enum hr_local_cut cut;
    } regions[HR_LOCAL_REGIONS_MAX];
    struct hr_local_relay {
        uint32_t region;
        struct sockaddr_in from, to;
    } relays[HR_LOCAL_NODES_MAX];
};

/* False: it cannot be read, or a line is none of the above; *ret_problem says why. */
HR_MUST bool hr_local_links_read(const char *path, struct hr_local_links *ret_links, struct hr_problem *ret_problem);

#endif
