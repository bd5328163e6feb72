/* Caps status: what a node says of global caps, in its answer to `status`.
 *
 * Thread: the loop's. Memory: the packer's. Time: supplied. */
#ifndef HR_NODE_CAPS_STATUS_H
#define HR_NODE_CAPS_STATUS_H

#include "base/units.h"
#include "limiter/limit_set.h"
#include "node/core.h"
#include "rpc/pack_msgpack.h"

/* The value of the key "caps": a map, or nil where there is no other region. */
void hr_pack_caps_status(const struct hr_core *core, const struct hr_limit_set *set, struct hr_now now,
                         struct hr_packer *out);

#endif
