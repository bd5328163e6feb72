#include "rpc/message.h"

#include "rpc/frame.h"
#include "rpc/unpack.h"

/* Containers around the params' one map. */
#define CONTAINERS_AROUND 2

/* [type, ...: the head of any envelope. */
static enum hr_err read_type(struct hr_unpacker *in, uint32_t *ret_count, uint64_t *ret_type)
{
    if (hr_unpack_array(in, ret_count) != HR_OK || hr_unpack_whole(in, ret_type) != HR_OK) {
        return HR_E_INVALID;
    }
    return *ret_type <= HR_MESSAGE_NOTIFICATION ? HR_OK : HR_E_INVALID;
}

static enum hr_err read_msgid(struct hr_unpacker *in, uint64_t *ret_msgid)
{
    uint64_t msgid;
    if (hr_unpack_whole(in, &msgid) != HR_OK || msgid > HR_MSGID_MAX) {
        return HR_E_INVALID;
    }
    *ret_msgid = msgid;
    return HR_OK;
}

/* The params' one map, or what is wrong. */
static const char *read_params(struct hr_unpacker *in, struct hr_span *ret_params)
{
    uint32_t count;
    enum hr_kind kind;
    if (hr_unpack_array(in, &count) != HR_OK || count > 1) {
        return "params must be an array holding one map";
    }
    if (count == 0) {
        *ret_params = HR_SPAN("\x80"); /* how libraries call a method that takes nothing */
        return NULL;
    }
    if (hr_unpack_peek(in, &kind) != HR_OK || kind != HR_KIND_MAP) {
        return "params must be an array holding one map";
    }
    *ret_params = in->left; /* it is the frame's last value, and where that ends is known */
    return NULL;
}

static const char *read_call(struct hr_unpacker *in, struct hr_message *message)
{
    if (hr_unpack_text(in, &message->method) != HR_OK) {
        return "method must be text";
    }
    return read_params(in, &message->params);
}

static enum hr_err read_request(struct hr_unpacker *in, uint32_t count, struct hr_message *message)
{
    if (read_msgid(in, &message->msgid) != HR_OK) {
        return HR_E_INVALID;
    }
    message->fault = count == 4 ? read_call(in, message) : "a request must be [0, msgid, method, params]";
    return HR_OK;
}

static enum hr_err read_response(struct hr_unpacker *in, uint32_t count, struct hr_message *message)
{
    if (count != 4 || read_msgid(in, &message->msgid) != HR_OK || hr_unpack_skip(in, &message->error) != HR_OK) {
        return HR_E_INVALID;
    }
    message->result = in->left; /* the frame's last value */
    return HR_OK;
}

static void read_notification(struct hr_unpacker *in, uint32_t count, struct hr_message *message)
{
    if (count != 3 || read_call(in, message) != NULL) {
        message->method = message->params = HR_SPAN("");
    }
}

enum hr_err hr_message_decode(struct hr_span frame, struct hr_message *ret_message)
{
    struct hr_unpacker in = {frame};
    uint32_t count;
    uint64_t type;
    if (read_type(&in, &count, &type) != HR_OK) {
        return HR_E_INVALID;
    }
    struct hr_message message = {.kind = (enum hr_message_kind)type};
    enum hr_err err = HR_OK;
    switch (message.kind) {
    case HR_MESSAGE_REQUEST:
        err = read_request(&in, count, &message);
        break;
    case HR_MESSAGE_RESPONSE:
        err = read_response(&in, count, &message);
        break;
    case HR_MESSAGE_NOTIFICATION:
        read_notification(&in, count, &message);
        break;
    }
    if (err == HR_OK) {
        *ret_message = message;
    }
    return err;
}

bool hr_message_read_plain(struct hr_span arrived, struct hr_message *ret_message, size_t *ret_bytes)
{
    struct hr_unpacker in = {arrived};
    uint32_t count;
    uint64_t type;
    if (read_type(&in, &count, &type) != HR_OK || type != HR_MESSAGE_REQUEST ||
        read_request(&in, count, ret_message) != HR_OK || ret_message->fault != NULL ||
        ret_message->params.at != in.left.at) { /* it lies elsewhere where params were left out */
        return false;
    }
    ret_message->kind = HR_MESSAGE_REQUEST;
    ret_message->params.bytes = hr_frame_plain_bytes(in.left, HR_NESTING_MAX - CONTAINERS_AROUND);
    *ret_bytes = (size_t)(in.left.at - arrived.at) + ret_message->params.bytes;
    return ret_message->params.bytes > 0;
}

bool hr_message_find_msgid(struct hr_span beginning, uint64_t *ret_msgid)
{
    struct hr_unpacker in = {beginning};
    struct hr_head head;
    uint64_t type;
    /* The array's count cannot be held against the bytes, as they are only its beginning. It is not used either. */
    if (hr_head_read(beginning, &head) != HR_OK || head.kind != HR_KIND_ARRAY) {
        return false;
    }
    in.left = (struct hr_span){beginning.at + head.bytes, beginning.bytes - head.bytes};
    return hr_unpack_whole(&in, &type) == HR_OK && type == HR_MESSAGE_REQUEST && read_msgid(&in, ret_msgid) == HR_OK;
}

void hr_pack_request_head(struct hr_packer *packer, uint64_t msgid, struct hr_span method)
{
    hr_pack_raw(packer, "\x94\x00", 2);
    hr_pack_whole(packer, msgid);
    hr_pack_text(packer, method);
    hr_pack_array(packer, 1);
}

void hr_pack_result_head(struct hr_packer *packer, uint64_t msgid)
{
    hr_pack_raw(packer, "\x94\x01", 2);
    hr_pack_whole(packer, msgid);
    hr_pack_nil(packer);
}

/* `CODE: message` */
static void pack_words(struct hr_packer *packer, const struct hr_fault *fault)
{
    char text[HR_CODE_BYTES_MAX + 2 + HR_FAULT_BYTES_MAX];
    struct hr_span code = hr_code_name(fault->code);
    struct hr_packer words = {.at = text, .room = sizeof(text)};
    hr_pack_raw(&words, code.at, code.bytes);
    hr_pack_raw(&words, ": ", 2);
    hr_pack_raw(&words, fault->text, fault->bytes);
    hr_pack_text(packer, hr_packer_bytes(&words));
}

void hr_pack_error(struct hr_packer *packer, uint64_t msgid, const struct hr_fault *fault)
{
    hr_pack_raw(packer, "\x94\x01", 2);
    hr_pack_whole(packer, msgid);
    pack_words(packer, fault);
    hr_pack_nil(packer);
}

void hr_pack_refusal(struct hr_packer *packer, const struct hr_fault *fault)
{
    hr_pack_map(packer, 1);
    hr_pack_text(packer, HR_SPAN("error"));
    pack_words(packer, fault);
}

bool hr_unpack_error(struct hr_span error, struct hr_fault *ret_fault)
{
    struct hr_unpacker in = {error};
    struct hr_span text;
    if (hr_unpack_nil(&in) == HR_OK) {
        return false;
    }
    if (hr_unpack_text(&in, &text) != HR_OK) {
        hr_fault_set(ret_fault, HR_CODE_INTERNAL, "the node's error is no text");
        return true;
    }
    const char *colon = text.bytes > 0 ? memchr(text.at, ':', text.bytes) : NULL;
    size_t code_bytes = colon != NULL ? (size_t)(colon - text.at) : 0;
    hr_fault_begin(ret_fault, HR_CODE_INTERNAL);
    if (hr_code_find((struct hr_span){text.at, code_bytes}, &ret_fault->code)) {
        size_t begin = code_bytes + 1;
        begin += begin < text.bytes && text.at[begin] == ' ';
        text = (struct hr_span){text.at + begin, text.bytes - begin};
    }
    hr_fault_add_text(ret_fault, text);
    return true;
}
