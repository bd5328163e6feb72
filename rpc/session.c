#include "rpc/session.h"

void hr_session_init(struct hr_session *session, const struct hr_session_limits *limits)
{
    session->limits = *limits;
    session->in_flight = 0;
    session->is_broken = false;
    hr_frame_init(&session->frame, limits->frame_bytes_max);
}

void hr_session_answered(struct hr_session *session)
{
    if (session->in_flight > 0) {
        session->in_flight--;
    }
}

/* The words for what hr_frame_scan or hr_message_decode found. */
static void explain(enum hr_err err, uint32_t frame_bytes_max, struct hr_fault *ret_fault)
{
    if (err == HR_E_RANGE) {
        hr_fault_set(ret_fault, HR_CODE_RESOURCE_EXHAUSTED, "a message may hold at most ");
        hr_fault_add_number(ret_fault, frame_bytes_max);
        hr_fault_add(ret_fault, " bytes");
        return;
    }
    if (err == HR_E_TOO_MANY) {
        hr_fault_set(ret_fault, HR_CODE_INVALID_ARGUMENT, "a message may be nested at most ");
        hr_fault_add_number(ret_fault, HR_NESTING_MAX);
        hr_fault_add(ret_fault, " deep");
        return;
    }
    hr_fault_set(ret_fault, HR_CODE_INVALID_ARGUMENT,
                 err == HR_E_CORRUPT ? "not MessagePack" : "not a MessagePack-RPC message");
}

/* Who asked may stand in what was already scanned. Only there, so that pieces cannot change what is found. */
static void break_up(struct hr_session *session, struct hr_span arrived, struct hr_session_event *event)
{
    size_t scanned = session->frame.at < arrived.bytes ? session->frame.at : arrived.bytes;
    event->kind = HR_SESSION_BROKEN;
    event->has_msgid = hr_message_find_msgid((struct hr_span){arrived.at, scanned}, &event->msgid);
    session->is_broken = true;
}

static void take_request(struct hr_session *session, const struct hr_message *message, struct hr_session_event *event)
{
    event->has_msgid = true;
    event->msgid = message->msgid;
    event->kind = HR_SESSION_REFUSED;
    if (message->fault != NULL) {
        hr_fault_set(&event->fault, HR_CODE_INVALID_ARGUMENT, message->fault);
        return;
    }
    event->method = hr_method_find(message->method);
    if (event->method == HR_METHOD_UNKNOWN) {
        hr_fault_set(&event->fault, HR_CODE_UNIMPLEMENTED, "there is no method ");
        hr_fault_quote(&event->fault, message->method);
        return;
    }
    event->kind = HR_SESSION_REQUEST;
    event->params = message->params;
    session->in_flight++;
}

static void take_message(struct hr_session *session, const struct hr_message *message, struct hr_session_event *event)
{
    switch (message->kind) {
    case HR_MESSAGE_REQUEST:
        take_request(session, message, event);
        return;
    case HR_MESSAGE_NOTIFICATION:
        event->kind = HR_SESSION_NOTIFICATION;
        event->method = hr_method_find(message->method);
        event->params = message->params;
        return;
    case HR_MESSAGE_RESPONSE:
        event->kind = HR_SESSION_RESPONSE;
        event->has_msgid = true;
        event->msgid = message->msgid;
        event->error = message->error;
        event->result = message->result;
        return;
    }
}

/* False: what comes next is to be scanned. */
static bool read_plain(const struct hr_session *session, struct hr_span arrived, struct hr_message *message,
                       size_t *ret_bytes)
{
    size_t bytes;
    bool is_plain = hr_message_read_plain(arrived, message, &bytes) && bytes <= session->limits.frame_bytes_max;
    if (is_plain) {
        *ret_bytes = bytes;
    }
    return is_plain;
}

static void begin_event(struct hr_session_event *event, enum hr_session_event_kind kind)
{
    event->kind = kind;
    event->consumed = 0;
    event->has_msgid = false;
}

void hr_session_refuse(struct hr_session *session, struct hr_span arrived, const char *why,
                       struct hr_session_event *ret_event)
{
    begin_event(ret_event, HR_SESSION_BROKEN);
    break_up(session, arrived, ret_event);
    hr_fault_set(&ret_event->fault, HR_CODE_RESOURCE_EXHAUSTED, why);
}

void hr_session_next(struct hr_session *session, struct hr_span arrived, struct hr_session_event *ret_event)
{
    if (session->is_broken) {
        begin_event(ret_event, HR_SESSION_BROKEN);
        return;
    }
    if (session->in_flight >= session->limits.in_flight_max) {
        begin_event(ret_event, HR_SESSION_PAUSED);
        return;
    }
    begin_event(ret_event, HR_SESSION_MORE);
    struct hr_message message;
    if (session->frame.at == 0 && read_plain(session, arrived, &message, &ret_event->consumed)) {
        take_request(session, &message, ret_event);
        return;
    }
    enum hr_err err = hr_frame_scan(&session->frame, arrived);
    if (err == HR_E_TRUNCATED) {
        return;
    }
    if (err == HR_OK) {
        err = hr_message_decode((struct hr_span){arrived.at, session->frame.at}, &message);
    }
    if (err != HR_OK) {
        break_up(session, arrived, ret_event);
        explain(err, session->limits.frame_bytes_max, &ret_event->fault);
        return;
    }
    take_message(session, &message, ret_event);
    ret_event->consumed = session->frame.at;
    hr_frame_init(&session->frame, session->limits.frame_bytes_max);
}
