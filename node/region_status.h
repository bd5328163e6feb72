/* Region status: what a node says of its part in the region, in its answer to `status`.
 *
 * Thread: the loop's. Memory: the packer's. Time: supplied. */
#ifndef HR_NODE_REGION_STATUS_H
#define HR_NODE_REGION_STATUS_H

#include "base/units.h"
#include "node/core.h"
#include "node/worker_uv.h"
#include "rpc/pack_msgpack.h"

/* The value of the key "cluster": a map, or nil where the node is alone. */
void hr_pack_region_status(const struct hr_core *core, struct hr_worker_traffic traffic, struct hr_now now,
                           struct hr_packer *out);

#endif
