/* HTTP reader: finds the requests in the bytes of one connection, by llhttp, and bounds what it believes: a head of at
 * most HR_HTTP_HEAD_BYTES_MAX, and, for want of anything that takes one, a body of at most HR_HTTP_BODY_BYTES_MAX,
 * which is dropped. How the bytes were cut into pieces on their way never changes what is found.
 *
 * HTTP/1.0 and 1.1 (RFC 9112). Upgrades are not taken, which the RFC allows.
 *
 * Thread: any one at a time. Pure. Memory: the struct alone; it may be moved between calls. */
#ifndef HR_NODE_HTTP_LLHTTP_H
#define HR_NODE_HTTP_LLHTTP_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define HR_HTTP_HEAD_BYTES_MAX 8192  /* from a request's first byte to the empty line; also of empty lines ahead */
#define HR_HTTP_BODY_BYTES_MAX 1024  /* chunk heads and trailers included */
#define HR_HTTP_TARGET_BYTES_MAX 256 /* of a target, as much is looked at: no path of ours is nearly so long */

enum hr_http_method {
    HR_HTTP_GET,
    HR_HTTP_HEAD,
    HR_HTTP_OTHER,
};

enum hr_http_event {
    HR_HTTP_MORE,    /* no whole request yet */
    HR_HTTP_REQUEST, /* the reader's method, keeps_alive, is_1_0 and hr_http_reader_path tell of it until the next call
                      */
    HR_HTTP_FAULT,   /* the reader's status says what to answer; then close. The reader is of no use any more */
};

struct hr_http_reader {
    llhttp_t parser;
    enum hr_http_method method;
    bool keeps_alive;
    bool is_1_0;
    bool in_body;
    unsigned status;  /* of a fault */
    uint32_t used;    /* bytes so far of this head or body */
    uint32_t hosts;   /* Host fields in this head */
    uint32_t matched; /* bytes of the current field's name, while they spell Host */
    bool is_target_whole;
    uint32_t target_bytes;
    char target[HR_HTTP_TARGET_BYTES_MAX];
};

void hr_http_reader_init(struct hr_http_reader *reader);

/* Reads up to the end of the next request. How many bytes were taken: all of them for HR_HTTP_MORE. */
size_t hr_http_reader_next(struct hr_http_reader *reader, struct hr_span arrived, enum hr_http_event *ret_event);

/* The path of the request's target, without its query. Borrowed from the reader. */
struct hr_span hr_http_reader_path(const struct hr_http_reader *reader);

#endif
