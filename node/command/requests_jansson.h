/* Requests: one line of a requests file (contract, section 5) to a request. Strict: an unknown or repeated key, a wrong
 * type or a value out of its bounds is a problem in words; nothing half-read is ever returned.
 *
 * Thread: each decoder belongs to one. Memory: one block from the heap at the start, then none: whatever a line holds
 * is decoded inside that block, which is larger than any valid line needs. Reads no file. */
#ifndef HR_NODE_COMMAND_REQUESTS_JANSSON_H
#define HR_NODE_COMMAND_REQUESTS_JANSSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "limiter/limit.h"
#include "node/problem.h"

#define HR_REQUEST_LINE_BYTES_MAX ((size_t)1024 * 1024)

struct hr_request_decoder;

struct hr_request_line {
    int64_t at_us;             /* Unix time, 0 to HR_TIME_NS_MAX / 1000 */
    uint64_t release_line;     /* 1 to the line before this one, or 0: the line is a check */
    struct hr_request request; /* of a check; its serial is the line's number. Spans live until the next decode */
};

/* NULL: the heap is exhausted. Free accepts NULL. */
struct hr_request_decoder *hr_request_decoder_new(void);
void hr_request_decoder_free(struct hr_request_decoder *decoder);

/* Decodes the line of that number (1 or more), with or without its end of line. HR_E_INVALID: ret_problem says what is
 * wrong, but not where: the caller knows the file. */
HR_MUST enum hr_err hr_request_decode(struct hr_request_decoder *decoder, struct hr_span line, uint64_t number,
                                      struct hr_request_line *ret_line, struct hr_problem *ret_problem);

#endif
