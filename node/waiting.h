/* Waiting: requests that wait for the store, in the order in which they came, each with what of its answer there is
 * already.
 *
 * Their bytes lie in blocks of one pool, so that a short request takes a few hundred bytes and a long one what it
 * needs. There are two queues: what waits, and what is ready to be tried again because the store has answered. A
 * request that is tried and must wait on goes back to the first.
 *
 * Thread: the caller's. Pure. Memory: handed in. Every call is O(1), besides copying. */
#ifndef HR_NODE_WAITING_H
#define HR_NODE_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/span.h"
#include "base/units.h"
#include "rpc/method.h"

#define HR_WAITING_BLOCK_BYTES 252

/* A request, and whom to answer. */
struct hr_call {
    uint64_t connection; /* the driver's name for it, never used twice */
    uint64_t msgid;
    enum hr_method method;
    struct hr_span params; /* a whole map; borrowed for the call */
    uint32_t prepared;     /* set by hr_shard_prepare; else 0 */
};

/* What a request has come to when it is tried again: the same for one that is tried for the first time, zero-filled. */
struct hr_progress {
    uint32_t done;  /* check_many: requests that are decided */
    bool has_claim; /* the id of the request at hand is pending in its name (replies.h) */
};

struct hr_block {
    uint32_t next; /* of the same text, or of the free list; 0: none */
    char bytes[HR_WAITING_BLOCK_BYTES];
};

/* Bytes in blocks. */
struct hr_text {
    uint32_t first, bytes;
};

struct hr_waiting_request {
    uint32_t next; /* of its queue, or of the free list; 0: none */
    hr_ns since;
    struct hr_call call; /* its params are not to be looked at */
    struct hr_progress progress;
    struct hr_text params, answer;
};

struct hr_waiting_queue {
    uint32_t head, tail;
};

struct hr_waiting {
    struct hr_waiting_request *requests; /* [0] is not used, nor is the first block */
    struct hr_block *blocks;
    uint32_t request_count, block_count; /* with [0] */
    uint32_t request_fresh, request_free, block_fresh, block_free;
    uint32_t blocks_left;
    struct hr_waiting_queue waiting, ready;
};

/* At most count_max requests, whose texts take at most bytes_max together. */
void hr_waiting_init(struct hr_waiting *waiting, uint32_t count_max, size_t bytes_max, struct hr_bump *bump);

/* Keeps a request, with copies of its params and of the answer so far. False: there is no room. */
bool hr_waiting_add(struct hr_waiting *waiting, const struct hr_call *call, struct hr_span answer,
                    const struct hr_progress *progress, hr_ns now);

/* The store has answered: all that wait are ready. */
void hr_waiting_wake(struct hr_waiting *waiting);

/* Those that have waited since before `since` are ready. */
void hr_waiting_wake_older(struct hr_waiting *waiting, hr_ns since);

/* Takes the next that is ready out of its queue; 0: none is. Then it is dropped, or put back. */
uint32_t hr_waiting_next_ready(struct hr_waiting *waiting);
void hr_waiting_drop(struct hr_waiting *waiting, uint32_t index);

/* Waits on, with a longer answer. False: there is no room for that; it is still the caller's. */
bool hr_waiting_put_back(struct hr_waiting *waiting, uint32_t index, struct hr_span answer,
                         const struct hr_progress *progress);

/* Copies a text out; there is room for it. */
void hr_waiting_copy(const struct hr_waiting *waiting, struct hr_text text, char *ret_bytes);

#endif
