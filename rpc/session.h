/* Session: one connection's half of the protocol, without the connection. It is shown the bytes that have arrived and
 * says what they mean, one event at a time; the driver reads, writes and closes.
 *
 *   for (;;) {
 *       hr_session_next(&session, arrived, &event);
 *       act on event.kind; what the event points to lies in `arrived`
 *       drop the first event.consumed bytes of `arrived`
 *       leave the loop on HR_SESSION_MORE until more has arrived, on HR_SESSION_PAUSED until an answer was sent,
 *       and on HR_SESSION_BROKEN for good: send what is to be sent, then close
 *   }
 *
 * How the bytes were cut into pieces on their way never changes the events. Both ends of a connection use it: a server
 * ignores responses, a client ignores requests.
 *
 * Thread: any one at a time. Pure. Memory: the struct alone; the driver's buffer need never hold more than
 * frame_bytes_max bytes before an event consumes them. */
#ifndef HR_RPC_SESSION_H
#define HR_RPC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "rpc/fault.h"
#include "rpc/frame.h"
#include "rpc/message.h"
#include "rpc/method.h"

struct hr_session_limits {
    uint32_t frame_bytes_max; /* HR_FRAME_BYTES_MAX is the contract's, for what clients send */
    uint32_t in_flight_max;   /* requests that were handed over and are not answered yet, 1 or more */
};

struct hr_session {
    struct hr_session_limits limits;
    struct hr_frame frame; /* the one that is arriving */
    uint32_t in_flight;
    bool is_broken;
};

enum hr_session_event_kind {
    HR_SESSION_MORE,         /* no whole message yet */
    HR_SESSION_PAUSED,       /* as many requests in flight as may be: read on after hr_session_answered */
    HR_SESSION_REQUEST,      /* msgid, method, params: answer it, then call hr_session_answered */
    HR_SESSION_REFUSED,      /* msgid, fault: a request that cannot be carried out. Answer with the fault, and go on */
    HR_SESSION_NOTIFICATION, /* method, params: no answer. HR_METHOD_UNKNOWN: ignore it */
    HR_SESSION_RESPONSE,     /* msgid, error, result */
    HR_SESSION_BROKEN,       /* what comes in is not the protocol: answer with the fault if has_msgid, then close */
};

/* Fields that the kind does not have are not to be read. */
struct hr_session_event {
    enum hr_session_event_kind kind;
    size_t consumed; /* bytes at the start of `arrived` that the event stands for; 0 for MORE, PAUSED and BROKEN */
    bool has_msgid;
    uint64_t msgid;
    enum hr_method method;
    struct hr_span params; /* a map */
    struct hr_span error, result;
    struct hr_fault fault;
};

void hr_session_init(struct hr_session *session, const struct hr_session_limits *limits);

/* The next event. `arrived`: all that has arrived behind what earlier events consumed. Once broken, always broken, but
 * the fault is told once. O(heads that are new). */
void hr_session_next(struct hr_session *session, struct hr_span arrived, struct hr_session_event *ret_event);

/* The driver has no room for the message that has arrived in part: the event is as of a message that is too long, with
 * `why` (a literal) as its fault's text. */
void hr_session_refuse(struct hr_session *session, struct hr_span arrived, const char *why,
                       struct hr_session_event *ret_event);

/* One of the requests in flight has its answer. Requires: there is one. */
void hr_session_answered(struct hr_session *session);

#endif
