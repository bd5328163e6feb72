/* Load: what `headroom bench` sends and when, and what it counted, without a socket or a clock.
 *
 * Floating point is used for the choice of keys alone: no decision hangs on it.
 * Thread: one. Pure. Memory: the structs. */
#ifndef HR_NODE_COMMAND_LOADGEN_H
#define HR_NODE_COMMAND_LOADGEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/span.h"
#include "node/histogram.h"

/* Keys: numbers in [0, count), 0 the most frequent: the k-th with a frequency in proportion to 1 / (k + 1)^skew (Zipf's
 * law), by rejection-inversion (Hoermann, Derflinger 1996): a few logarithms for each, whatever the count. Skew 0:
 * uniform, without any. */
#define HR_LOAD_KEYS_MAX UINT64_C(9999999999)
#define HR_LOAD_SKEW_MAX 10

struct hr_load_keys {
    struct hr_rng rng;
    uint64_t count;
    double skew;
    double area_first, area_last; /* of the hat: up to the first key, and up to the last */
    double sure;                  /* so near to its middle, a key needs no second look */
};

/* count: 1 to HR_LOAD_KEYS_MAX. skew: 0 to HR_LOAD_SKEW_MAX. */
void hr_load_keys_init(struct hr_load_keys *keys, uint64_t count, double skew, uint64_t seed);
uint64_t hr_load_keys_next(struct hr_load_keys *keys);

/* Request: a check, encoded once; each one sent is a copy with its own msgid and key. */
#define HR_LOAD_KEY_DIGITS 10
#define HR_LOAD_REQUEST_BYTES_MAX 256

struct hr_load_request {
    uint32_t bytes, key_at;
    char at[HR_LOAD_REQUEST_BYTES_MAX];
};

struct hr_load_check {
    struct hr_span attribute; /* its value is "k" and the key in ten digits */
    uint64_t cost;
    bool detail;
};

/* HR_E_RANGE: the attribute's name is longer than HR_ATTRIBUTE_NAME_BYTES_MAX. */
HR_MUST enum hr_err hr_load_request_init(struct hr_load_request *request, const struct hr_load_check *check);

/* Writes request->bytes bytes. key: at most HR_LOAD_KEYS_MAX. */
void hr_load_request_write(const struct hr_load_request *request, uint32_t msgid, uint64_t key, char *ret_bytes);

/* Schedule: when requests are to be sent at a fixed rate. A request that could not be sent then counts its latency from
 * then all the same: a node that stalls is charged for all who would have asked meanwhile. */
struct hr_load_schedule {
    uint64_t start_ns;
    uint64_t per_second; /* 1 to 10^9 */
};

/* The moment of the index-th request, index from 0. It never drifts: it is counted from the start. */
uint64_t hr_load_due_ns(const struct hr_load_schedule *schedule, uint64_t index);

/* How many requests are due by now, those sent already included. Requires: now_ns is not before the start. */
uint64_t hr_load_due_count(const struct hr_load_schedule *schedule, uint64_t now_ns);

/* Result */
struct hr_load_result {
    uint64_t elapsed_ns;
    uint64_t allowed, denied, errors;
    uint64_t elsewhere; /* answers that another node than the one asked decided; where nodes have names */
    uint64_t unsent;    /* due before the end, but no window ever had room for them: the node could not keep up */
    struct hr_histogram latency; /* of all answers */
};

/* Answers for each second, rounded down; 0 where no time has passed. */
uint64_t hr_load_per_second(const struct hr_load_result *result);

/* In microseconds, rounded up. per_mille: as hr_histogram_quantile. */
uint64_t hr_load_quantile_us(const struct hr_load_result *result, uint32_t per_mille);

#endif
