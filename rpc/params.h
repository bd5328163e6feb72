/* Params: what a request says, decoded from its one map, and encoded into it for those who ask.
 *
 * One plain struct serves all methods; `present` tells which keys the map had, and a table which keys each method takes
 * and which it needs. An unknown key, a key twice, or a value out of bounds is a fault that names the key.
 *
 * Thread: any. Pure. Memory: the struct alone; spans are borrowed from the frame. */
#ifndef HR_RPC_PARAMS_H
#define HR_RPC_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/span.h"
#include "limiter/limit.h"
#include "rpc/fault.h"
#include "rpc/method.h"
#include "rpc/pack_msgpack.h"
#include "rpc/unpack.h"

/* Bounds of the contract, section 3. */
#define HR_REQUESTS_MAX 1000 /* in one check_many */

/* Bounds of our own. */
#define HR_ID_BYTES_MAX 128
#define HR_RATE_BYTES_MAX 64
#define HR_LIMIT_KEYS_MAX 32                               /* of a limit as a map */
#define HR_OFFSET_MS_MAX (HR_PERIOD_NS_MAX / HR_NS_PER_MS) /* of a clock, either way */

/* HR_PARAM_ before it in C, key on the wire */
#define HR_PARAM_LIST(X)                    \
    X(ATTRIBUTES, "attributes")             \
    X(COST, "cost")                         \
    X(ID, "id")                             \
    X(PEEK, "peek")                         \
    X(DETAIL, "detail")                     \
    X(REQUESTS, "requests")                 \
    X(KEY, "key")                           \
    X(RATE, "rate")                         \
    X(BURST, "burst")                       \
    X(ALGORITHM, "algorithm")               \
    X(SCOPE, "scope")                       \
    X(LEASE, "lease")                       \
    X(NAME, "name")                         \
    X(PARTITIONS, "partitions")             \
    X(STEADY_OFFSET_MS, "steady_offset_ms") \
    X(WALL_OFFSET_MS, "wall_offset_ms")

enum hr_param {
#define X(param, key) HR_PARAM_##param,
    HR_PARAM_LIST(X)
#undef X
        HR_PARAM_COUNT,
};

#define HR_PARAM_BIT(param) (1U << (param))

/* The requests of a check_many, one to be decoded at a time. */
struct hr_requests {
    struct hr_span values; /* not read yet */
    uint32_t count;        /* how many that is, 0 to HR_REQUESTS_MAX */
};

struct hr_params {
    unsigned
        present; /* HR_PARAM_BIT of each key that the map had. Of the rest, each is as empty as the next lines say */
    uint32_t attribute_count;
    struct hr_attribute attributes[HR_ATTRIBUTES_MAX]; /* valid, and their names unique */
    uint64_t cost;                                     /* 1, but where refund requires it */
    struct hr_span id;                                 /* 1 to HR_ID_BYTES_MAX bytes of any value; or none */
    bool peek;                                         /* false */
    bool detail;                                       /* true */
    bool partitions;                                   /* false */
    struct hr_requests requests;
    struct hr_span key;          /* a valid attribute value */
    struct hr_span rate;         /* as in a limits file, "50/s": 1 to HR_RATE_BYTES_MAX bytes, not parsed yet */
    uint64_t burst;              /* 1 to HR_COST_MAX; 0: none */
    enum hr_algorithm algorithm; /* one that has a rate; HR_TOKEN_BUCKET */
    enum hr_scope scope;         /* HR_SCOPE_REGION */
    struct hr_id128 lease;
    int64_t steady_offset_ms, wall_offset_ms; /* -HR_OFFSET_MS_MAX to HR_OFFSET_MS_MAX; 0 */
    struct hr_span name;                      /* a valid limit name */
    struct hr_span limit; /* limits.put: the limit, a map of unique text keys, for hr_pairs_begin; else empty */
};

/* Decodes the params of a request for this method. False: *ret_fault tells why, and *ret_params is not to be used.
 * The requests of a check_many are all decoded once here, so that either all of them are valid or nothing is done. */
HR_MUST bool hr_params_decode(enum hr_method method, struct hr_span map, struct hr_params *ret_params,
                              struct hr_fault *ret_fault);

/* The next request of a check_many that hr_params_decode has accepted. False: that was all. */
bool hr_requests_next(struct hr_requests *requests, struct hr_params *ret_params);

/* Writes the map again: the keys that are present, in the order of the list; requests and limit are copied as they are.
 */
void hr_params_encode(const struct hr_params *params, struct hr_packer *packer);

/* The map of a check_many up to its requests; so many maps of checks come next. */
void hr_pack_requests_head(struct hr_packer *packer, uint32_t count);

/* A check as the limiter takes it. The attributes stay where they are. */
struct hr_request hr_params_request(const struct hr_params *params, uint64_t serial);

#endif
