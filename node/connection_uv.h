/* Connections: all TCP connections of one worker, from the bytes that arrive to the answers that leave.
 *
 *   read callback -> session (rpc/session.h) -> serve -> outbox -> one write
 *
 * All requests that one read brings are answered by one write. Two things wait for the end of the loop's turn: where a
 * read brings one small check alone, as from clients that do not pipeline, those of several connections are carried out
 * together; and where some requests of a read wait for other nodes or for the store, the answers to the rest leave with
 * what else has become ready by then. In a region those wait on, for HR_ANSWERS_HELD_NS_MAX, while the same connection
 * is owed more, which mostly comes from another node a moment later: one write then takes it all. A loop that nothing
 * else wakes counts in milliseconds, and so may be late by one.
 *
 * What is shared by all connections is held once: the buffer that is read into, and the outbox that answers are packed
 * into. A connection keeps bytes of its own only while a message is incomplete, or its peer reads too slowly; an idle
 * one is little more than libuv's handle.
 *
 * Back-pressure: from a peer that leaves more than HR_UNSENT_BYTES_HIGH of answers unread, or has as many requests in
 * flight as it may, nothing more is read until that is over. Answers to what was accepted before may still come; a peer
 * that lets them grow above HR_UNSENT_BYTES_MAX is closed.
 *
 * A peer that has sent a part of a message and then nothing for HR_PARTIAL_NS_MAX is closed; one that is idle between
 * messages stays.
 *
 * Ending: a connection whose peer does not speak the protocol is sent what is to be sent, then shut down, and what
 * still comes in is thrown away until the peer closes too, or HR_ENDING_NS_MAX has passed: closing at once would reset
 * it, and could cost the peer the last answer.
 *
 * Thread: the loop's. Memory: heap. The process ignores SIGPIPE. */
#ifndef HR_NODE_CONNECTION_UV_H
#define HR_NODE_CONNECTION_UV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/units.h"
#include "node/clock.h"
#include "node/histogram.h"
#include "node/shard.h"
#include "rpc/session.h"

#define HR_CONNECTIONS_BITS 20 /* of a connection's place, in its id */
#define HR_CONNECTIONS_MAX (UINT32_C(1) << HR_CONNECTIONS_BITS)

/* The longest answer. A longer one becomes an error. */
#define HR_ANSWER_BYTES_MAX (16U << 20)

#define HR_UNSENT_BYTES_LOW (64U << 10)
#define HR_UNSENT_BYTES_HIGH (256U << 10)
#define HR_UNSENT_BYTES_MAX (8U << 20)

/* Of all connections together. The one that would add more is closed. */
#define HR_UNSENT_BYTES_ALL_MAX (UINT64_C(512) << 20)

/* Messages that have arrived in part, of all connections together, by default. A connection whose message would add
 * more is told so and closed; what is small is not counted. Other nodes may fill all of it, clients three quarters. */
#define HR_PARTIAL_BYTES_ALL_MAX (UINT64_C(256) << 20)

/* In a region: so long answers wait for others to the same connection. */
#define HR_ANSWERS_HELD_NS_MAX (HR_NS_PER_MS / 5)

#define HR_ENDING_NS_MAX (10 * HR_NS_PER_S)
#define HR_PARTIAL_NS_MAX (10 * HR_NS_PER_S)

/* Carries out one request: as hr_shard_serve, but HR_SERVED_ELSEWHERE is no answer. */
typedef enum hr_served hr_connections_serve(void *user, const struct hr_call *call, struct hr_now now,
                                            struct hr_packer *out);

/* As hr_shard_prepare. */
typedef void hr_connections_prepare(void *user, struct hr_call *calls, uint32_t count);

/* Takes the params of a notification `peer`, which is a packet of another node (peer_wire.h). */
typedef void hr_connections_peer(void *user, struct hr_span params, struct hr_now now);

struct hr_connections_config {
    uv_loop_t *loop;
    const struct hr_clock *clock;     /* borrowed for life */
    uint32_t connections_max;         /* open at a time, 1 to HR_CONNECTIONS_MAX; others are accepted and closed */
    struct hr_session_limits session; /* of each */
    uint64_t partial_bytes_max;       /* 0: HR_PARTIAL_BYTES_ALL_MAX */
    hr_connections_serve *serve;
    hr_connections_prepare *prepare; /* NULL: nothing is prepared */
    hr_connections_peer *peer;       /* NULL: such notifications are ignored */
    void *user;                      /* of all three */
};

struct hr_connections_stats {
    uint32_t open;
    uint64_t total;   /* accepted, and served */
    uint64_t refused; /* too many */
    uint64_t accept_failures;
    uint64_t closed_slow;   /* peers that did not read, or stopped within a message */
    uint64_t closed_broken; /* that did not speak the protocol */
    uint64_t closed_full;   /* for whose message there was no room */
    uint64_t paused;        /* times that a connection was not read from for a while */
    uint64_t bytes_in, bytes_out;
    uint64_t requests[HR_METHOD_UNKNOWN + 1]; /* by method, notifications included; last: refused, unread */
    uint64_t answers_too_long;
    uint64_t unclaimed;          /* answers whose connection was gone */
    uint64_t unsent_bytes;       /* at present */
    uint64_t partial_bytes;      /* at present, the small ones not counted */
    struct hr_histogram latency; /* from read to written, of requests answered at once */
};

struct hr_connections;

/* NULL: no memory. */
HR_MUST struct hr_connections *hr_connections_new(const struct hr_connections_config *config);

/* Requires: hr_connections_are_gone. */
void hr_connections_free(struct hr_connections *connections);

/* In the connection callback of a listener, with the status that it was called with. */
void hr_connections_accept(struct hr_connections *connections, uv_stream_t *listener, int status);

/* An answer to a request that has waited: pack it into what begin gives, then call end with whose it is. The next
 * hr_connections_turn sends it, at the latest. Where nothing was packed, end is left out. */
struct hr_packer hr_connections_begin_answer(struct hr_connections *connections);
void hr_connections_end_answer(struct hr_connections *connections, const struct hr_call *call,
                               struct hr_packer *answer);

/* In each turn of the loop, before it waits, so long as it gives true: carries out the small checks that wait, and
 * reads on where that was stopped. Answers may be ready then. */
bool hr_connections_resume(struct hr_connections *connections, struct hr_now now);

/* To be called in each turn of the loop, before it waits: sends what waits in the outbox, and closes what ought to have
 * ended. */
void hr_connections_turn(struct hr_connections *connections, struct hr_now now);

/* When the loop is to turn again, if nothing happens before. */
hr_ns hr_connections_deadline(const struct hr_connections *connections);

/* For a clean stop, in this order: no more requests are read, but packets of other nodes are; nothing is read; each
 * connection is closed when its answers are sent; all are closed, sent or not. */
void hr_connections_stop_requests(struct hr_connections *connections);
void hr_connections_stop_reading(struct hr_connections *connections);
void hr_connections_end_all(struct hr_connections *connections, struct hr_now now);
void hr_connections_close_all(struct hr_connections *connections);

/* No handle is left on the loop. */
bool hr_connections_are_gone(const struct hr_connections *connections);

/* Borrowed, and kept up to date. */
const struct hr_connections_stats *hr_connections_stats(const struct hr_connections *connections);

#endif
