/* Told: what a node has answered, read by those who asked it: the command, and other nodes.
 *
 * Nodes may be newer than their callers: keys that are not known are stepped over. Errors are those of rpc/unpack.h.
 *
 * Thread: any. Pure. Memory: the caller's; texts are borrowed from the bytes. */
#ifndef HR_RPC_TOLD_H
#define HR_RPC_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"
#include "limiter/limiter.h"
#include "rpc/fault.h"
#include "rpc/unpack.h"

/* One limit that the request touched. */
struct hr_told_row {
    struct hr_span name;
    bool allowed;
    bool has_lease;
    enum hr_mode mode;
    uint64_t limit, remaining;
    int64_t retry_after_ms, reset_after_ms;
    struct hr_id128 lease;
    bool wants_share; /* a global cap denies for want of this region's share of it */
};

struct hr_told_decision {
    bool allowed;
    bool degraded;
    enum hr_action action;
    struct hr_span decided_by; /* empty: nil */
    struct hr_span node, region;
    int64_t retry_after_ms, delay_ms;
    uint32_t row_count;
    struct hr_told_row rows[HR_TOUCHED_MAX];
};

/* Reads the decision that comes next. HR_E_INVALID: it is none, or a key is missing. HR_E_TOO_MANY: more than
 * HR_TOUCHED_MAX rows. After an error neither *ret_decision nor the unpacker is to be used. */
HR_MUST enum hr_err hr_unpack_decision(struct hr_unpacker *unpacker, struct hr_told_decision *ret_decision);

/* Reads what comes next in the answer to a check_many: a decision, or why there is none (*ret_is_fault). Errors are
 * those of hr_unpack_decision. */
HR_MUST enum hr_err hr_unpack_outcome(struct hr_unpacker *unpacker, struct hr_told_decision *ret_decision,
                                      struct hr_fault *ret_fault, bool *ret_is_fault);

/* The boolean, the number, or the text under this key of a map. HR_E_NOT_FOUND: there is no such key. */
HR_MUST enum hr_err hr_unpack_flag(struct hr_span map, struct hr_span key, bool *ret_flag);
HR_MUST enum hr_err hr_unpack_number(struct hr_span map, struct hr_span key, int64_t *ret_number);
HR_MUST enum hr_err hr_unpack_word(struct hr_span map, struct hr_span key, struct hr_span *ret_text);

#endif
