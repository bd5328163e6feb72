/* Message: the envelopes of MessagePack-RPC (the msgpack-rpc project's spec.md), which a frame must be:
 *
 *   [0, msgid, method, params]   request
 *   [1, msgid, error, result]    response
 *   [2, method, params]          notification
 *
 * Liberal in: any width of integers and arrays, text as str or bin. Plain out: an answer starts with 0x94 0x01.
 *
 * Thread: any. Pure. Memory: spans are borrowed from the frame. */
#ifndef HR_RPC_MESSAGE_H
#define HR_RPC_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "rpc/fault.h"
#include "rpc/pack_msgpack.h"

/* The largest msgid that can be answered: integers in answers stay below 2^53. */
#define HR_MSGID_MAX ((UINT64_C(1) << 53) - 1)

enum hr_message_kind {
    HR_MESSAGE_REQUEST,
    HR_MESSAGE_RESPONSE,
    HR_MESSAGE_NOTIFICATION
}; /* their numbers on the wire */

struct hr_message {
    enum hr_message_kind kind;
    uint64_t msgid;        /* request, response */
    struct hr_span method; /* request, notification; empty for a notification that cannot be read: to be ignored */
    struct hr_span params; /* request, notification: the one map in the array; an empty map for an empty array */
    struct hr_span error;  /* response: the value, whole */
    struct hr_span result; /* response: the value, whole */
    const char *fault;     /* request: what is wrong with it, and then only msgid is set; else NULL */
};

/* Decodes a frame, exactly as hr_frame_scan found it: one value, whole. HR_E_INVALID: it is none of the three, or who
 * asked cannot be told: the peer does not speak this protocol. */
HR_MUST enum hr_err hr_message_decode(struct hr_span frame, struct hr_message *ret_message);

/* A request at the start of what has arrived, if it is there whole and in the form that most have
 * (hr_frame_plain_bytes): what hr_frame_scan and hr_message_decode would find, in one go. False: they are to be asked.
 */
bool hr_message_read_plain(struct hr_span arrived, struct hr_message *ret_message, size_t *ret_bytes);

/* The msgid of a request of which only the first bytes are there. False: it is not among them, or it is no request. */
bool hr_message_find_msgid(struct hr_span beginning, uint64_t *ret_msgid);

/* What comes before a request's one map, and before an answer's result. */
void hr_pack_request_head(struct hr_packer *packer, uint64_t msgid, struct hr_span method);
void hr_pack_result_head(struct hr_packer *packer, uint64_t msgid);

/* A whole answer: the error `CODE: message`, and no result. */
void hr_pack_error(struct hr_packer *packer, uint64_t msgid, const struct hr_fault *fault);

/* Why there is no decision, in its place in check_many's array: `{error: "CODE: message"}`. */
void hr_pack_refusal(struct hr_packer *packer, const struct hr_fault *fault);

/* A response's error read back. False: it is nil, so there is a result. What is not of that form becomes INTERNAL. */
bool hr_unpack_error(struct hr_span error, struct hr_fault *ret_fault);

#endif
