#include "rpc/unpack.h"

#include "rpc/frame.h"

/* Reads the head of a value that must be of this kind, and believes its length only if so much remains, at unit_bytes
 * for each of it. Consumes nothing. */
static enum hr_err expect(const struct hr_unpacker *unpacker, enum hr_kind kind, uint64_t unit_bytes,
                          struct hr_head *ret_head)
{
    struct hr_head head;
    enum hr_err err = hr_head_read(unpacker->left, &head);
    if (err != HR_OK) {
        return err;
    }
    if (head.kind != kind) {
        return HR_E_INVALID;
    }
    if (head.length * unit_bytes > unpacker->left.bytes - head.bytes) {
        return HR_E_TRUNCATED;
    }
    *ret_head = head;
    return HR_OK;
}

enum hr_err hr_unpack_peek(const struct hr_unpacker *unpacker, enum hr_kind *ret_kind)
{
    struct hr_head head;
    enum hr_err err = hr_head_read(unpacker->left, &head);
    if (err == HR_OK) {
        *ret_kind = head.kind;
    }
    return err;
}

enum hr_err hr_unpack_skip(struct hr_unpacker *unpacker, struct hr_span *ret_value)
{
    struct hr_frame frame;
    size_t left = unpacker->left.bytes;
    hr_frame_init(&frame, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX);
    enum hr_err err = hr_frame_scan(&frame, unpacker->left);
    if (err != HR_OK) {
        return err == HR_E_RANGE ? HR_E_TRUNCATED : err;
    }
    *ret_value = (struct hr_span){unpacker->left.at, frame.at};
    hr_unpack_step(unpacker, frame.at);
    return HR_OK;
}

enum hr_err hr_unpack_nil(struct hr_unpacker *unpacker)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, HR_KIND_NIL, 0, &head);
    if (err == HR_OK) {
        hr_unpack_step(unpacker, head.bytes);
    }
    return err;
}

enum hr_err hr_unpack_any_bool(struct hr_unpacker *unpacker, bool *ret_value)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, HR_KIND_BOOL, 0, &head);
    if (err == HR_OK) {
        *ret_value = head.number != 0;
        hr_unpack_step(unpacker, head.bytes);
    }
    return err;
}

enum hr_err hr_unpack_any_whole(struct hr_unpacker *unpacker, uint64_t *ret_value)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, HR_KIND_WHOLE, 0, &head);
    if (err == HR_OK) {
        *ret_value = head.number;
        hr_unpack_step(unpacker, head.bytes);
    }
    return err;
}

enum hr_err hr_unpack_signed(struct hr_unpacker *unpacker, int64_t *ret_value)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, HR_KIND_NEGATIVE, 0, &head);
    if (err == HR_E_INVALID) {
        err = expect(unpacker, HR_KIND_WHOLE, 0, &head);
        if (err == HR_OK && head.number > INT64_MAX) {
            err = HR_E_RANGE;
        }
    }
    if (err == HR_OK) {
        *ret_value = (int64_t)head.number;
        hr_unpack_step(unpacker, head.bytes);
    }
    return err;
}

enum hr_err hr_unpack_any_text(struct hr_unpacker *unpacker, struct hr_span *ret_text)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, HR_KIND_TEXT, 1, &head);
    if (err == HR_OK) {
        *ret_text = (struct hr_span){unpacker->left.at + head.bytes, head.length};
        hr_unpack_step(unpacker, (size_t)head.bytes + head.length);
    }
    return err;
}

static enum hr_err unpack_container(struct hr_unpacker *unpacker, enum hr_kind kind, uint64_t unit_bytes,
                                    uint32_t *ret_count)
{
    struct hr_head head;
    enum hr_err err = expect(unpacker, kind, unit_bytes, &head);
    if (err == HR_OK) {
        *ret_count = head.length;
        hr_unpack_step(unpacker, head.bytes);
    }
    return err;
}

enum hr_err hr_unpack_any_array(struct hr_unpacker *unpacker, uint32_t *ret_count)
{
    return unpack_container(unpacker, HR_KIND_ARRAY, 1, ret_count);
}

enum hr_err hr_unpack_any_map(struct hr_unpacker *unpacker, uint32_t *ret_count)
{
    return unpack_container(unpacker, HR_KIND_MAP, 2, ret_count);
}
