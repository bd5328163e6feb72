/* Client: asks a node over one connection, one thing at a time, and waits for the answer: for the command, whose user
 * waits too.
 *
 * Opening, and each call, has the whole timeout. Looking a name up is the machine's own business and may take longer;
 * an address in digits is not looked up.
 *
 * Thread: the main one; every call blocks. Memory: heap, which grows with what arrives, up to the largest answer. */
#ifndef HR_NODE_COMMAND_CLIENT_H
#define HR_NODE_COMMAND_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "node/address_text.h"
#include "node/problem.h"
#include "rpc/fault.h"
#include "rpc/method.h"
#include "rpc/params.h"
#include "rpc/session.h"

/* A list of all limits may be larger than what clients may send. */
#define HR_CLIENT_ANSWER_BYTES_MAX (UINT32_C(16) << 20)

struct hr_client {
    int fd;
    uint32_t timeout_ms;
    int64_t deadline_ms; /* of what is being done, on the steady clock */
    uint64_t msgid;      /* of the last request */
    struct hr_session session;
    char *buffer;
    size_t room, arrived, consumed; /* bytes in the buffer; the first `consumed` are done with */
    char where[HR_ADDRESS_TEXT_BYTES];
    struct hr_fault fault;     /* why the node refused the last call */
    struct hr_problem problem; /* why the node cannot be reached */
};

/* False: it cannot be reached; client->problem says why, and there is nothing to close. */
HR_MUST bool hr_client_open(struct hr_client *client, const struct hr_address *node, uint32_t timeout_ms);

void hr_client_close(struct hr_client *client);

enum hr_client_end {
    HR_CLIENT_ANSWERED,    /* with a result */
    HR_CLIENT_REFUSED,     /* with an error: client->fault */
    HR_CLIENT_UNREACHABLE, /* no answer: client->problem. The connection is of no more use: close it */
};

/* The result is borrowed until the next call; it is one whole value, nested no deeper than HR_NESTING_MAX. */
HR_MUST enum hr_client_end hr_client_call(struct hr_client *client, enum hr_method method,
                                          const struct hr_params *params, struct hr_span *ret_result);

#endif
