/* Load, driven: many connections to one node, or to all nodes of a region, in turn; each with a window of requests in
 * flight, on one libuv loop. With `owners` each connection asks for keys that its node owns, as soon as that is known.
 *
 * Closed loop (per_second 0): each answer makes room for the next request. Open loop: requests are due at a fixed rate,
 * wait where all windows are full, and count their latency from when they were due.
 *
 * Thread: the caller's, which is the loop's until it returns. Memory: heap, about 64 KiB and 100 bytes for each request
 * in flight for each connection, freed on return. */
#ifndef HR_NODE_COMMAND_LOADGEN_UV_H
#define HR_NODE_COMMAND_LOADGEN_UV_H

#include <stdint.h>

#include "base/err.h"
#include "node/command/load_nodes.h"
#include "node/command/loadgen.h"
#include "node/problem.h"

#define HR_LOAD_CONNECTIONS_MAX 10000
#define HR_LOAD_PIPELINE_MAX 4096

struct hr_load_plan {
    const struct hr_load_nodes *nodes;
    struct hr_load_owners *owners; /* NULL: any node is asked for any key */
    const struct hr_load_request *request;
    struct hr_load_keys *keys;
    uint32_t connections, pipeline; /* 1 to their bounds */
    uint64_t requests;              /* how many; UINT64_MAX: until the time is over */
    uint64_t duration_ns;           /* how long; UINT64_MAX: until all requests are answered */
    uint64_t per_second;            /* 0: as fast as answers come */
    uint64_t timeout_ns;            /* without any answer */
};

/* False: a connection failed, or closed, or no answer came for timeout_ns; *ret_problem says which. Then
 * *ret_result is not to be used. */
HR_MUST bool hr_load_run(const struct hr_load_plan *plan, struct hr_load_result *ret_result,
                         struct hr_problem *ret_problem);

#endif
