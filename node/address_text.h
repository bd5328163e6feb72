/* Addresses as people write them: HOST:PORT, where HOST is a name, an IPv4 address, or an IPv6 address in brackets.
 * Names are not looked up here.
 *
 * Thread: any. Memory: the caller's. Pure. */
#ifndef HR_NODE_ADDRESS_TEXT_H
#define HR_NODE_ADDRESS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define HR_HOST_BYTES_MAX 253 /* the longest name that DNS can hold */

struct hr_address {
    char host[HR_HOST_BYTES_MAX + 1]; /* as written, without brackets; empty: no address */
    uint16_t port;                    /* 0, where one listens: any that is free */
};

/* Room for "[HOST]:PORT" and a NUL. */
#define HR_ADDRESS_TEXT_BYTES (HR_HOST_BYTES_MAX + sizeof("[]:65535"))

/* "127.0.0.1:7400", "[::1]:7400", "eu-1.example:7400". HR_E_INVALID: it is not written like that. HR_E_RANGE: the port
 * is above 65535. */
HR_MUST enum hr_err hr_address_parse(struct hr_span text, struct hr_address *ret_address);

/* The same with "tcp://" before it, as gossip addresses are written. */
HR_MUST enum hr_err hr_address_parse_url(struct hr_span text, struct hr_address *ret_address);

/* Give back what the parsers read; how many bytes that is, without the NUL. */
size_t hr_address_text(const struct hr_address *address, char ret_text[HR_ADDRESS_TEXT_BYTES]);

/* Stands for all of a machine's addresses, so that one can listen there but nobody can connect to it: 0.0.0.0 or ::. */
bool hr_address_is_wildcard(const struct hr_address *address);

#endif
