/* Ask: what the commands that ask a node share: which node, for how long, and how to say what went wrong.
 *
 * Functions that give an exit status have printed their one line where it is not HR_EXIT_DONE.
 * Thread: the main one. */
#ifndef HR_NODE_COMMAND_ASK_H
#define HR_NODE_COMMAND_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "node/command/client.h"
#include "node/command/cmd.h"
#include "rpc/params.h"

#define HR_ASK_TIMEOUT_MS 5000
#define HR_ASK_TIMEOUT_MS_MAX 3600000

/* Set all to zero, and timeout_ms to HR_ASK_TIMEOUT_MS. */
struct hr_ask {
    const char *command;
    const char *node; /* NULL: HEADROOM_NODE, and where that is not set, HR_ASK_NODE_DEFAULT */
    uint32_t timeout_ms;
    bool json;
};

#define HR_ASK_NODE_DEFAULT "127.0.0.1:7400"
#define HR_ASK_INIT(name)                                  \
    {                                                      \
        .command = (name), .timeout_ms = HR_ASK_TIMEOUT_MS \
    }

/* From HR_ASK_OWN on, options are a command's own. */
enum hr_ask_option { HR_ASK_NODE = HR_OPTION_OWN, HR_ASK_TIMEOUT, HR_ASK_JSON, HR_ASK_OWN };

#define HR_ASK_OPTIONS                                                                                    \
    {"node", required_argument, NULL, HR_ASK_NODE}, {"timeout", required_argument, NULL, HR_ASK_TIMEOUT}, \
        {"json", no_argument, NULL, HR_ASK_JSON}, HR_OPTIONS_COMMON

/* The part of their help that is the same. */
#define HR_ASK_HELP                                                                        \
    "  --node HOST:PORT  the node to ask (default: $HEADROOM_NODE, else 127.0.0.1:7400)\n" \
    "  --timeout TIME    how long to wait for it, as 250ms or 5s (default 5s)\n"           \
    "  --json            print the answer as JSON\n"                                       \
    "  --help            print this\n"                                                     \
    "  --version         print the version\n"

/* As hr_cmd_option, but takes the options above into *ask itself. */
int hr_ask_option(struct hr_ask *ask, int argc, char **argv, const struct option *options, const char *help,
                  int *ret_exit);

/* The node's address. HR_EXIT_INVALID: it is not written like one. */
HR_MUST int hr_ask_address(const struct hr_ask *ask, struct hr_address *ret_node);

/* Connects. HR_EXIT_UNREACHABLE: then there is nothing to close. */
HR_MUST int hr_ask_open(const struct hr_ask *ask, struct hr_client *client);

/* Calls. params NULL: none. HR_EXIT_INVALID: the node refused for what was asked; HR_EXIT_UNREACHABLE: for its own
 * reasons, or did not answer. */
HR_MUST int hr_ask_call(struct hr_client *client, enum hr_method method, const struct hr_params *params,
                        struct hr_span *ret_result);

/* The two in one, for a command that asks once. The client is to be closed after HR_EXIT_DONE only. */
HR_MUST int hr_ask_once(const struct hr_ask *ask, struct hr_client *client, enum hr_method method,
                        const struct hr_params *params, struct hr_span *ret_result);

/* Asks once for a thing that is answered by one boolean, prints the answer, and gives HR_EXIT_DONE for true and
 * HR_EXIT_FAILED for false. */
struct hr_ask_flag {
    enum hr_method method;
    const char *key;      /* of the boolean */
    const char *yes, *no; /* the answers in words */
};
HR_MUST int hr_ask_flag(const struct hr_ask *ask, const struct hr_params *params, const struct hr_ask_flag *flag);

/* Says that the node's answer is not what the method answers. HR_EXIT_UNREACHABLE. */
int hr_ask_garbage(const struct hr_client *client);

/* Says what client->problem, or client->fault, holds. */
int hr_ask_fail(const struct hr_client *client, enum hr_client_end end);

/* NAME=VALUE arguments, all that are left of argv, into params. HR_EXIT_INVALID: one is wrong, or there is none. */
HR_MUST int hr_ask_attributes(const struct hr_ask *ask, int argc, char **argv, struct hr_params *params);

/* A whole decimal number; HR_EXIT_INVALID with a line that names the option: "--cost must be ...". */
struct hr_ask_range {
    const char *option;
    uint64_t min, max;
};
HR_MUST int hr_ask_number(const struct hr_ask *ask, const char *text, const struct hr_ask_range *range,
                          uint64_t *ret_number);

#endif
