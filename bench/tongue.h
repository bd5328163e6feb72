/* Tongue: a protocol as a load client speaks it: one request, encoded beforehand, of which each one sent is a copy with
 * its own number and keys; and answers, which are found in what arrives, told apart by number, and not looked at
 * further than to see that they are no errors.
 *
 *   fixed:N  answers of N bytes each, in the order of the requests (bench/echo_uv.c)
 *   rpc      MessagePack-RPC; the request's msgid must be written as 0xce and four bytes
 *   resp     Redis' protocol; answers in the order of the requests
 *   grpc     HTTP/2, each request a stream of its own; the request is all its frames, with any stream's number.
 *            Headers are stepped over: an answer is a stream that ended, and an error one that brought no data
 *
 * Thread: one. Memory: the structs; the request is the caller's. */
#ifndef BENCH_TONGUE_H
#define BENCH_TONGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "rpc/session.h"

#define TONGUE_FLIGHT_MAX 4096U /* requests of one connection, from the oldest to the newest that is not answered */
#define TONGUE_PLACES_MAX 16    /* where a request's number stands */

enum tongue_kind { TONGUE_FIXED, TONGUE_RPC, TONGUE_RESP, TONGUE_GRPC };

struct tongue {
    enum tongue_kind kind;
    size_t answer_bytes;   /* TONGUE_FIXED */
    uint32_t window_bytes; /* TONGUE_GRPC: of a request, what counts against the peer's window */
    uint32_t place_count;
    size_t places[TONGUE_PLACES_MAX]; /* of numbers, in the request */
};

/* One connection. */
struct tongue_wire {
    const struct tongue *tongue;
    struct hr_session session; /* TONGUE_RPC */
    uint32_t next;             /* the number of the next answer, where they come in order */
    int64_t window;            /* TONGUE_GRPC: what the peer will take */
    uint64_t unreturned;       /* TONGUE_GRPC: what we have taken and not said so */
    bool has_data[TONGUE_FLIGHT_MAX];
};

struct tongue_answer {
    bool is_answer; /* else something that is none, such as a setting */
    bool is_error;
    uint32_t number;         /* as the request's; from 0 on, one by one */
    size_t reply_bytes;      /* to be sent back, or 0 */
    unsigned char reply[32]; /* an acknowledgement */
};

enum tongue_took { TONGUE_TOOK, TONGUE_MORE, TONGUE_BROKEN };

/* name: as above. False: no such tongue, or the request is not one of it. */
bool tongue_init(struct tongue *tongue, const char *name, struct hr_span request);

/* What a connection begins with. */
struct hr_span tongue_hello(const struct tongue *tongue);

void tongue_wire_init(struct tongue_wire *wire, const struct tongue *tongue);

/* May the peer be sent one request more? If so, writes the number into the copy of the request. */
bool tongue_number(struct tongue_wire *wire, char *request, uint32_t number);

/* The next answer of what has arrived; *ret_consumed are its bytes. TONGUE_MORE: it is not whole yet. */
enum tongue_took tongue_take(struct tongue_wire *wire, struct hr_span arrived, size_t *ret_consumed,
                             struct tongue_answer *ret_answer);

#endif
