/* Limit map: a limit as the map that limits.list, .get and .put speak of, with the keys and the texts of a limits file;
 * and such a map as JSON, which is how one that was put is kept, and how the limits file's own reader takes it: one
 * grammar for all.
 *
 * Thread: any. Pure. Memory: the caller's. */
#ifndef HR_NODE_LIMIT_MAP_H
#define HR_NODE_LIMIT_MAP_H

#include "base/err.h"
#include "base/span.h"
#include "limiter/limit.h"
#include "rpc/pack_msgpack.h"

/* Packs the limit as one map. Only what is not the default is in it, besides name and algorithm. */
void hr_pack_limit(struct hr_packer *packer, const struct hr_limit *limit);

/* Writes any MessagePack value as JSON, without spaces. Map keys must be text, and so must be UTF-8. The packer is used
 * as a bounded text. HR_E_INVALID: a value that JSON does not know, or text that is not UTF-8. HR_E_TOO_MANY: nested
 * too deep. */
HR_MUST enum hr_err hr_value_to_json(struct hr_span value, struct hr_packer *text);

#endif
