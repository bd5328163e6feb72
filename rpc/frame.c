#include "rpc/frame.h"

#include "rpc/head.h"

void hr_frame_init(struct hr_frame *frame, uint32_t bytes_max)
{
    frame->at = 0;
    frame->owed = 1;
    frame->bytes_max = bytes_max;
    frame->depth = 0;
}

static uint64_t values_in(const struct hr_head *head)
{
    if (head->kind == HR_KIND_MAP) {
        return (uint64_t)head->length * 2;
    }
    return head->kind == HR_KIND_ARRAY ? head->length : 0;
}

/* Opens a container of so many values, or where there are none, closes all that ended with this value. */
static void nest(struct hr_frame *frame, uint32_t values)
{
    if (frame->depth > 0) {
        frame->left[frame->depth - 1]--;
    }
    if (values > 0) {
        frame->left[frame->depth++] = values;
        return;
    }
    while (frame->depth > 0 && frame->left[frame->depth - 1] == 0) {
        frame->depth--;
    }
}

static enum hr_err take(struct hr_frame *frame, const struct hr_head *head)
{
    bool is_container = head->kind == HR_KIND_ARRAY || head->kind == HR_KIND_MAP;
    uint64_t values = values_in(head);
    uint64_t end = (uint64_t)frame->at + head->bytes + (is_container ? 0 : head->length);
    uint64_t owed = frame->owed - 1 + values;
    if (end + owed > frame->bytes_max) {
        return HR_E_RANGE;
    }
    if (is_container && frame->depth == HR_NESTING_MAX) {
        return HR_E_TOO_MANY;
    }
    frame->at = (size_t)end;
    frame->owed = owed;
    nest(frame, (uint32_t)values); /* below bytes_max */
    return HR_OK;
}

enum hr_err hr_frame_scan(struct hr_frame *frame, struct hr_span arrived)
{
    while (frame->owed > 0) {
        if (frame->at >= arrived.bytes) {
            return HR_E_TRUNCATED;
        }
        struct hr_head head;
        struct hr_span rest = {arrived.at + frame->at, arrived.bytes - frame->at};
        enum hr_err err = hr_head_read(rest, &head);
        if (err == HR_E_TRUNCATED && arrived.bytes >= frame->bytes_max) {
            return HR_E_RANGE; /* the head goes on where the frame has to end */
        }
        if (err == HR_OK) {
            err = take(frame, &head);
        }
        if (err != HR_OK) {
            return err;
        }
    }
    return frame->at <= arrived.bytes ? HR_OK : HR_E_TRUNCATED;
}

/* The size of a value that begins with 0xc0 to 0xdf; of a text's head. 0: it is not plain. */
static const uint8_t long_bytes[32] = {1, 0, 1, 1, 2, 0, 0, 0, 0, 0, 5, 9, 2, 3, 5, 9,
                                       2, 3, 5, 9, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0};

/* The size of a plain value that begins with 0xc0 to 0xdf; 0: it is none, or is cut off. */
static size_t long_plain_bytes(struct hr_span rest)
{
    uint8_t first = (uint8_t)rest.at[0];
    bool is_text = first == 0xc4 || first == 0xd9;
    size_t bytes = long_bytes[first - 0xc0];
    if (!is_text) {
        return bytes;
    }
    return rest.bytes < bytes ? 0 : bytes + (uint8_t)rest.at[1];
}

size_t hr_frame_plain_bytes(struct hr_span bytes, uint32_t containers_max)
{
    size_t at = 0, one;
    uint32_t owed = 1; /* at most 30 for each container */
    uint32_t containers = 0;
    for (; owed > 0 && at < bytes.bytes; at += one, owed--) {
        uint8_t first = (uint8_t)bytes.at[at];
        if ((first & 0xe0) == 0xa0) {
            one = 1 + (size_t)(first & 0x1f);
        } else if ((first & 0xe0) == 0xc0) {
            one = long_plain_bytes((struct hr_span){bytes.at + at, bytes.bytes - at});
        } else {
            one = 1;
        }
        if ((first & 0xe0) == 0x80) {
            owed += first < 0x90 ? 2U * (first & 0xfU) : first & 0xfU;
            containers++;
        }
        if (one == 0 || containers > containers_max) {
            return 0;
        }
    }
    return owed == 0 && at <= bytes.bytes ? at : 0;
}
