/* Gossip's way over the network: sealed packets to and from other nodes, over TCP, or TLS on TCP, by nng.
 *
 * One pull socket listens. For each address that is written to there is one push socket, which connects by itself,
 * again and again, and queues a bounded number of packets meanwhile. Sending never waits: what finds no room is dropped
 * and counted. No packet is answered on the connection that it came by.
 *
 * Over TLS both sides must show a certificate under the CA that is given. Names in certificates are not compared with
 * addresses: the CA is to be the cluster's own, and whoever has a key under it is a node. (TLS 1.2, RFC 5246.)
 *
 * Thread: all functions from one at a time; `take` is called on a thread of nng's, one packet at a time. Memory: the
 * heap's. The process must not fork between open and close. */
#ifndef HR_GOSSIP_GOSSIP_NNG_H
#define HR_GOSSIP_GOSSIP_NNG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "gossip/member.h"

#define HR_GOSSIP_PEERS_MAX                                                                         \
    (HR_MEMBERS_MAX + 64)        /* addresses at one time: the one not written to longest gives way \
                                  */
#define HR_GOSSIP_PIPES_MAX 2048 /* connections that others made to this node */
#define HR_GOSSIP_QUEUE_MAX 64   /* packets that wait for one peer */
#define HR_GOSSIP_PEM_BYTES_MAX (1U << 20)

struct hr_gossip;

/* A packet has come; its bytes are good for the call. It must be quick: the next one waits. */
typedef void hr_gossip_take(void *user, struct hr_span packet);

struct hr_gossip_config {
    const char *listen;                 /* "tcp://0.0.0.0:7401", "tls+tcp://[::1]:7401"; port 0: any */
    const char *ca, *certificate, *key; /* PEM files; all are needed for tls+tcp://, else NULL */
    hr_gossip_take *take;
    void *user;
};

struct hr_gossip_counts {
    uint64_t sent, received;
    uint64_t dropped;     /* the peer's queue was full */
    uint64_t unreachable; /* the address is none, or of another transport than this node's */
    uint64_t turned_away; /* connections beyond HR_GOSSIP_PIPES_MAX */
};

struct hr_gossip_problem {
    char what[256]; /* one line for the operator */
};

/* Listens. NULL: *ret_problem says why. Borrows nothing but user. */
struct hr_gossip *hr_gossip_open(const struct hr_gossip_config *config, struct hr_gossip_problem *ret_problem);

/* Queues a copy of the packet for an address of a member or a seed. False: it was dropped, and counted. */
bool hr_gossip_send(struct hr_gossip *gossip, struct hr_span address, struct hr_span packet);

/* The port that it listens on. */
uint16_t hr_gossip_port(const struct hr_gossip *gossip);

struct hr_gossip_counts hr_gossip_counts(struct hr_gossip *gossip);

/* When it returns `take` is not running and will not be called, and no connection, thread or descriptor is left
 * (threads of nng's own end with the last one that is closed). Packets still queued are lost. NULL is fine. */
void hr_gossip_close(struct hr_gossip *gossip);

/* For the end of a process: when it returns `take` is not running and will not be called. All else is left to the
 * system, for nng 1.5 can wait without end while it closes a socket that is just being connected. What is queued may
 * still go out. NULL is fine. */
void hr_gossip_leave(struct hr_gossip *gossip);

/* The addresses that a gossip address stands for, with numbers for names: a name may have many. Blocks on DNS, as long
 * as that takes. Returns how many of count_max; 0: the name is not known, or the address is none. */
uint32_t hr_gossip_resolve(struct hr_span address, char (*ret_addresses)[HR_MEMBER_ADDRESS_BYTES_MAX + 1],
                           uint32_t count_max);

#endif
