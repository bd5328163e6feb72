#include "rpc/pack_msgpack.h"

#include <msgpack/pack.h>

/* msgpack-c hands over what it has encoded. It stops at an error, but there is none: what does not fit is counted. */
static int write_bytes(void *data, const char *bytes, size_t count)
{
    hr_pack_raw(data, bytes, count);
    return 0;
}

static msgpack_packer to(struct hr_packer *packer)
{
    return (msgpack_packer){packer, write_bytes};
}

/* The packer's results are those of write_bytes, always 0. */
void hr_pack_long_whole(struct hr_packer *packer, uint64_t value)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_uint64(&pk, value);
}

void hr_pack_signed(struct hr_packer *packer, int64_t value)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_int64(&pk, value);
}

void hr_pack_long_text(struct hr_packer *packer, struct hr_span text)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_str(&pk, text.bytes);
    hr_pack_raw(packer, text.at, text.bytes);
}

void hr_pack_bin(struct hr_packer *packer, struct hr_span bytes)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_bin(&pk, bytes.bytes);
    hr_pack_raw(packer, bytes.at, bytes.bytes);
}

void hr_pack_array(struct hr_packer *packer, uint32_t count)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_array(&pk, count);
}

void hr_pack_map(struct hr_packer *packer, uint32_t count)
{
    msgpack_packer pk = to(packer);
    (void)msgpack_pack_map(&pk, count);
}
