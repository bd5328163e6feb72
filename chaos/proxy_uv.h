/* Proxy: stands between two real nodes, as a bad network would: each connection that comes in is joined to one that
 * goes out, and what passes is delayed, held back, or comes to an end, each way by itself. No root is needed.
 *
 *     client  -- HR_PROXY_OUT -->  proxy  -- HR_PROXY_OUT -->  node
 *             <-- HR_PROXY_BACK --        <-- HR_PROXY_BACK --
 *
 * TCP loses no bytes, so a lossy network is, to those who use TCP, one that is late: a lost segment holds up all that
 * is behind it for a retransmission's time. That is how `loss` is played here. A cut holds everything back, as packets
 * that are dropped do; when it is healed, bytes go on where they were, unless somebody has given up meanwhile.
 *
 * Thread: the loop's. Memory: heap; what is held back for one direction of one connection is bounded, and then reading
 * stops, as it does behind a full window. */
#ifndef HR_CHAOS_PROXY_UV_H
#define HR_CHAOS_PROXY_UV_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/units.h"

/* Bytes that one direction of one connection holds back before it stops reading. */
#define HR_PROXY_HELD_BYTES_MAX (4U << 20)

/* Addresses whose connections have faults of their own. */
#define HR_PROXY_SOURCES_MAX 64

/* What a lost segment costs: Linux's least retransmission timeout. */
#define HR_PROXY_RETRANSMIT_NS (200 * HR_NS_PER_MS)

enum hr_proxy_way { HR_PROXY_OUT, HR_PROXY_BACK };

/* All zero: bytes pass as they come. */
struct hr_proxy_fault {
    hr_ns delay_ns;
    hr_ns jitter_ns;   /* added: anything up to this */
    uint32_t loss_ppm; /* of what is read at once */
    bool is_cut;
};

struct hr_proxy_config {
    uv_loop_t *loop;
    struct sockaddr_in listen, to; /* listen: port 0 takes any */
    uint32_t connections_max;
    uint64_t seed; /* of jitter and loss */
};

struct hr_proxy_counts {
    uint64_t accepted, refused; /* connections; refused: too many, or nobody listens behind */
    uint64_t bytes[2];          /* delivered, by enum hr_proxy_way */
    uint64_t lost[2];           /* retransmissions that were played */
};

struct hr_proxy;

/* HR_E_MEMORY; HR_E_IO: it cannot listen there. */
HR_MUST enum hr_err hr_proxy_open(const struct hr_proxy_config *config, struct hr_proxy **ret_proxy);

uint16_t hr_proxy_port(const struct hr_proxy *proxy);

/* From now on; what is under way already keeps its time, but a cut holds that back too. */
void hr_proxy_set(struct hr_proxy *proxy, enum hr_proxy_way way, struct hr_proxy_fault fault);

/* The same for the connections that come from one address, which hr_proxy_set means no longer. HR_E_FULL: of too many
 * addresses. */
HR_MUST enum hr_err hr_proxy_set_from(struct hr_proxy *proxy, struct in_addr from, enum hr_proxy_way way,
                                      struct hr_proxy_fault fault);

/* Every connection ends at once, with a reset, as when a machine dies. New ones are taken all the same. */
void hr_proxy_break(struct hr_proxy *proxy);

struct hr_proxy_counts hr_proxy_counts(const struct hr_proxy *proxy);

/* Ends everything; the proxy is freed in the loop's next turns, and then `closed` is called, where it is not NULL. */
void hr_proxy_close(struct hr_proxy *proxy, void (*closed)(void *user), void *user);

#endif
