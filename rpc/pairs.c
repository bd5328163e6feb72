#include "rpc/pairs.h"

enum hr_err hr_pairs_begin(struct hr_pairs *pairs, struct hr_span map)
{
    pairs->in.left = map;
    return hr_unpack_map(&pairs->in, &pairs->left);
}

enum hr_err hr_pairs_next(struct hr_pairs *pairs, struct hr_pair *ret_pair)
{
    if (pairs->left == 0) {
        return HR_E_NOT_FOUND;
    }
    struct hr_pair pair;
    enum hr_err err = hr_unpack_text(&pairs->in, &pair.key);
    if (err == HR_OK) {
        err = hr_unpack_skip(&pairs->in, &pair.value);
    }
    if (err == HR_OK) {
        pairs->left--;
        *ret_pair = pair;
    }
    return err;
}
