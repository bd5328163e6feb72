/* Reply: the results that callers get (contract, section 3). rpc/told.h reads them back.
 *
 * What every decision of a node ends in, where it was made, is packed once, at start.
 *
 * Thread: any. Pure. Memory: the packer's. */
#ifndef HR_RPC_REPLY_H
#define HR_RPC_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limiter.h"
#include "rpc/pack_msgpack.h"

#define HR_NODE_NAME_BYTES_MAX 64 /* of a node or a region */

/* Room for one row and for any decision. */
#define HR_ROW_BYTES_MAX 256
#define HR_DECISION_BYTES_MAX ((size_t)HR_TOUCHED_MAX * HR_ROW_BYTES_MAX + 512)

/* Where a decision was made, packed: `node` and `region`. */
struct hr_origin {
    uint32_t bytes;
    char packed[2 * HR_NODE_NAME_BYTES_MAX + 32];
};

/* HR_E_RANGE: a name is longer than HR_NODE_NAME_BYTES_MAX. */
HR_MUST enum hr_err hr_origin_init(struct hr_origin *origin, struct hr_span node, struct hr_span region);

struct hr_decision_form {
    const struct hr_origin *origin;
    bool detail;   /* with `limits` */
    bool degraded; /* with `degraded: true`: a counter's owner could not be asked */
};

/* A decision, a value: the result of check and throttle, or one of check_many's array. */
void hr_pack_decision(struct hr_packer *packer, const struct hr_decision *decision,
                      const struct hr_decision_form *form);

/* Whole answers. ttl_ms is 0 where there was nothing to renew. */
void hr_pack_released(struct hr_packer *packer, uint64_t msgid, bool released);
void hr_pack_renewed(struct hr_packer *packer, uint64_t msgid, bool renewed, int64_t ttl_ms);
void hr_pack_refunded(struct hr_packer *packer, uint64_t msgid, bool refunded);

#endif
