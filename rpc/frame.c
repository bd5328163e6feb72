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
