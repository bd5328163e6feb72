/* Peer wire: one sealed packet of another node as the MessagePack-RPC notification [2, "peer", [{"m": packet}]].
 *
 * Thread: any. Pure. Memory: the caller's; a packet is borrowed from the bytes. */
#ifndef HR_NODE_PEER_WIRE_H
#define HR_NODE_PEER_WIRE_H

#include "base/err.h"
#include "base/span.h"
#include "rpc/pack_msgpack.h"

/* The longest packet that may be sent: it leaves room in a frame (HR_FRAME_BYTES_MAX) for what is around it. */
#define HR_PEER_PACKET_BYTES_MAX (1000U << 10)

void hr_pack_peer(struct hr_packer *packer, struct hr_span packet);

/* The packet out of a notification's params. Keys that are not known are stepped over. Errors of rpc/unpack.h;
 * HR_E_NOT_FOUND: there is none; HR_E_RANGE: it is too long. */
HR_MUST enum hr_err hr_unpack_peer(struct hr_span params, struct hr_span *ret_packet);

#endif
