/* Pairs: the pairs of a map whose keys are text, one after another, for maps that are not known in full: a limit, a
 * status.
 *
 * Thread: any. Pure. Memory: the struct alone; spans are borrowed from the map's bytes. */
#ifndef HR_RPC_PAIRS_H
#define HR_RPC_PAIRS_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "rpc/unpack.h"

struct hr_pairs {
    struct hr_unpacker in;
    uint32_t left;
};

struct hr_pair {
    struct hr_span key;
    struct hr_span value; /* whole: start an hr_unpacker on it */
};

/* Errors as in rpc/unpack.h; HR_E_INVALID: no map, or a key that is no text. */
HR_MUST enum hr_err hr_pairs_begin(struct hr_pairs *pairs, struct hr_span map);

/* HR_E_NOT_FOUND: that was all. */
HR_MUST enum hr_err hr_pairs_next(struct hr_pairs *pairs, struct hr_pair *ret_pair);

#endif
