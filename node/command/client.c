#include "node/command/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/clock.h"
#include "node/time_text.h"
#include "rpc/message.h"

#define BUFFER_BYTES_FIRST ((size_t)16 * 1024)

static bool fail(struct hr_client *client, const char *what)
{
    hr_problem_what(&client->problem, "%s", what);
    hr_problem_where(&client->problem, "%s", client->where);
    return false;
}

static bool fail_to_reach(struct hr_client *client, const char *why)
{
    hr_problem_what(&client->problem, "the node cannot be reached: %s", why);
    hr_problem_where(&client->problem, "%s", client->where);
    return false;
}

static bool fail_late(struct hr_client *client)
{
    char timeout[HR_WAIT_TEXT_BYTES];
    hr_wait_text(client->timeout_ms, timeout);
    hr_problem_what(&client->problem, "the node did not answer within %s", timeout);
    hr_problem_where(&client->problem, "%s", client->where);
    return false;
}

/* Waits until the socket can be read or written. */
static bool wait_for(struct hr_client *client, short events)
{
    for (;;) {
        int64_t left_ms = client->deadline_ms - hr_clock_steady() / HR_NS_PER_MS;
        if (left_ms <= 0) {
            return fail_late(client);
        }
        struct pollfd wanted = {.fd = client->fd, .events = events};
        int ready = poll(&wanted, 1, (int)left_ms);
        if (ready > 0) {
            return true;
        }
        if (ready < 0 && errno != EINTR) {
            return fail_to_reach(client, strerror(errno));
        }
    }
}

/* Opening */

static bool finish_connecting(struct hr_client *client)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (!wait_for(client, POLLOUT)) {
        return false;
    }
    if (getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) {
        error = errno;
    }
    return error == 0 || fail_to_reach(client, strerror(error));
}

static bool connect_to(struct hr_client *client, const struct addrinfo *address)
{
    const int on = 1;
    client->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0) {
        return fail_to_reach(client, strerror(errno));
    }
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* without it, it is only slower */
    int status = connect(client->fd, address->ai_addr, address->ai_addrlen);
    if (status != 0 && errno != EINPROGRESS) {
        (void)fail_to_reach(client, strerror(errno));
    } else if (status == 0 || finish_connecting(client)) {
        return true;
    }
    (void)close(client->fd);
    return false;
}

/* The first of the name's addresses that takes the connection. */
static bool connect_to_any(struct hr_client *client, const struct hr_address *node)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *addresses = NULL;
    char port[sizeof("65535")];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)node->port);
    int status = getaddrinfo(node->host, port, &hints, &addresses);
    if (status != 0) {
        return fail_to_reach(client, gai_strerror(status));
    }
    bool connected = false;
    for (const struct addrinfo *one = addresses; one != NULL && !connected; one = one->ai_next) {
        connected = connect_to(client, one);
    }
    freeaddrinfo(addresses);
    return connected;
}

bool hr_client_open(struct hr_client *client, const struct hr_address *node, uint32_t timeout_ms)
{
    const struct hr_session_limits limits = {.frame_bytes_max = HR_CLIENT_ANSWER_BYTES_MAX, .in_flight_max = 1};
    *client = (struct hr_client){
        .fd = -1, .timeout_ms = timeout_ms, .deadline_ms = hr_clock_steady() / HR_NS_PER_MS + timeout_ms};
    (void)hr_address_text(node, client->where);
    hr_session_init(&client->session, &limits);
    client->buffer = malloc(BUFFER_BYTES_FIRST);
    if (client->buffer == NULL) {
        return fail(client, "no memory");
    }
    client->room = BUFFER_BYTES_FIRST;
    if (!connect_to_any(client, node)) {
        free(client->buffer);
        return false;
    }
    return true;
}

void hr_client_close(struct hr_client *client)
{
    (void)close(client->fd); /* nothing is owed to it any more */
    free(client->buffer);
}

/* Asking */

static bool send_all(struct hr_client *client, struct hr_span bytes)
{
    while (bytes.bytes > 0) {
        ssize_t sent = send(client->fd, bytes.at, bytes.bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes = (struct hr_span){bytes.at + sent, bytes.bytes - (size_t)sent};
        } else if (errno == EAGAIN) {
            if (!wait_for(client, POLLOUT)) {
                return false;
            }
        } else if (errno != EINTR) {
            return fail_to_reach(client, strerror(errno));
        }
    }
    return true;
}

/* The largest limit as a map is a megabyte, so it is measured first. */
static bool send_request(struct hr_client *client, enum hr_method method, const struct hr_params *params)
{
    struct hr_packer measure = {0};
    hr_pack_request_head(&measure, client->msgid, hr_method_name(method));
    hr_params_encode(params, &measure);
    char *bytes = malloc(measure.wanted);
    if (bytes == NULL) {
        return fail(client, "no memory");
    }
    struct hr_packer packer = {.at = bytes, .room = measure.wanted};
    hr_pack_request_head(&packer, client->msgid, hr_method_name(method));
    hr_params_encode(params, &packer);
    bool sent = send_all(client, hr_packer_bytes(&packer));
    free(bytes);
    return sent;
}

/* Room for at least one byte more. Bounded: a frame that is larger than an answer may be breaks the session first. */
static bool make_room(struct hr_client *client)
{
    if (client->consumed > 0) {
        memmove(client->buffer, client->buffer + client->consumed, client->arrived - client->consumed);
        client->arrived -= client->consumed;
        client->consumed = 0;
    }
    if (client->arrived < client->room) {
        return true;
    }
    char *grown = realloc(client->buffer, client->room * 2);
    if (grown == NULL) {
        return fail(client, "no memory for the node's answer");
    }
    client->buffer = grown;
    client->room *= 2;
    return true;
}

static bool receive(struct hr_client *client)
{
    if (!make_room(client) || !wait_for(client, POLLIN)) {
        return false;
    }
    ssize_t received = recv(client->fd, client->buffer + client->arrived, client->room - client->arrived, 0);
    if (received == 0) {
        return fail(client, "the node closed the connection before it answered");
    }
    if (received > 0) {
        client->arrived += (size_t)received;
        return true;
    }
    return errno == EAGAIN || errno == EINTR || fail_to_reach(client, strerror(errno));
}

/* The answer to the last request. Whatever else the node says, it was not asked. */
static bool receive_answer(struct hr_client *client, struct hr_session_event *ret_answer)
{
    for (;;) {
        const struct hr_span arrived = {client->buffer + client->consumed, client->arrived - client->consumed};
        hr_session_next(&client->session, arrived, ret_answer);
        client->consumed += ret_answer->consumed;
        if (ret_answer->kind == HR_SESSION_RESPONSE && ret_answer->msgid == client->msgid) {
            return true;
        }
        if (ret_answer->kind == HR_SESSION_BROKEN) {
            return fail(client, "what answers does not speak the protocol of a node");
        }
        if (ret_answer->kind == HR_SESSION_REQUEST) {
            hr_session_answered(&client->session);
        }
        if (ret_answer->kind == HR_SESSION_MORE && !receive(client)) {
            return false;
        }
        if (hr_clock_steady() / HR_NS_PER_MS >= client->deadline_ms) {
            return fail_late(client);
        }
    }
}

enum hr_client_end hr_client_call(struct hr_client *client, enum hr_method method, const struct hr_params *params,
                                  struct hr_span *ret_result)
{
    struct hr_session_event answer;
    client->msgid++;
    client->deadline_ms = hr_clock_steady() / HR_NS_PER_MS + client->timeout_ms;
    if (!send_request(client, method, params) || !receive_answer(client, &answer)) {
        return HR_CLIENT_UNREACHABLE;
    }
    if (hr_unpack_error(answer.error, &client->fault)) {
        return HR_CLIENT_REFUSED;
    }
    *ret_result = answer.result;
    return HR_CLIENT_ANSWERED;
}
