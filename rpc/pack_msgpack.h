/* Pack: writes MessagePack into a buffer that the caller owns, by msgpack-c's packer, which picks the shortest format.
 * What takes one byte is written right here.
 *
 * What does not fit is not written but still counted: hr_packer_fits() tells at the end, and `wanted` is then how much
 * room the same values need. A packer without room (NULL, 0) only measures.
 *
 * Thread: any. Pure. Memory: the caller's buffer alone. No call fails; callers keep to what readers can hold: texts
 * below 4 GiB, and integers below 2^53 on either side of 0. */
#ifndef HR_RPC_PACK_MSGPACK_H
#define HR_RPC_PACK_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

struct hr_packer {
    char *at;
    size_t room;
    size_t wanted; /* bytes so far, those that did not fit included */
};

static inline bool hr_packer_fits(const struct hr_packer *packer)
{
    return packer->wanted <= packer->room;
}

/* What was written. Requires: it fits. */
static inline struct hr_span hr_packer_bytes(const struct hr_packer *packer)
{
    return (struct hr_span){packer->at, packer->wanted};
}

/* Bytes that are MessagePack already. Here, and inline, because a decision is mostly made of them. */
static inline void hr_pack_raw(struct hr_packer *packer, const char *bytes, size_t count)
{
    if (packer->wanted <= packer->room && count <= packer->room - packer->wanted && count > 0) {
        memcpy(packer->at + packer->wanted, bytes, count);
    }
    packer->wanted += count;
}

static inline void hr_pack_byte(struct hr_packer *packer, uint8_t byte)
{
    if (packer->wanted < packer->room) {
        packer->at[packer->wanted] = (char)byte;
    }
    packer->wanted++;
}

static inline void hr_pack_nil(struct hr_packer *packer)
{
    hr_pack_byte(packer, 0xc0);
}

static inline void hr_pack_bool(struct hr_packer *packer, bool value)
{
    hr_pack_byte(packer, value ? 0xc3 : 0xc2);
}

/* What does not fit into one byte with its head. */
void hr_pack_long_whole(struct hr_packer *packer, uint64_t value);
void hr_pack_long_text(struct hr_packer *packer, struct hr_span text);

static inline void hr_pack_whole(struct hr_packer *packer, uint64_t value)
{
    if (value < 0x80) {
        hr_pack_byte(packer, (uint8_t)value);
    } else {
        hr_pack_long_whole(packer, value);
    }
}

/* As str: for what is UTF-8. */
static inline void hr_pack_text(struct hr_packer *packer, struct hr_span text)
{
    if (text.bytes < 0x20) {
        hr_pack_byte(packer, (uint8_t)(0xa0 | text.bytes));
        hr_pack_raw(packer, text.at, text.bytes);
    } else {
        hr_pack_long_text(packer, text);
    }
}

void hr_pack_signed(struct hr_packer *packer, int64_t value);
void hr_pack_bin(struct hr_packer *packer, struct hr_span bytes);
void hr_pack_array(struct hr_packer *packer, uint32_t count); /* its values come next */
void hr_pack_map(struct hr_packer *packer, uint32_t count);   /* its pairs, key and value in turn, come next */

#endif
