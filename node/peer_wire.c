#include "node/peer_wire.h"

#include "rpc/pairs.h"
#include "rpc/unpack.h"

void hr_pack_peer(struct hr_packer *packer, struct hr_span packet)
{
    hr_pack_array(packer, 3);
    hr_pack_whole(packer, 2);
    hr_pack_text(packer, HR_SPAN("peer"));
    hr_pack_array(packer, 1);
    hr_pack_map(packer, 1);
    hr_pack_text(packer, HR_SPAN("m"));
    hr_pack_bin(packer, packet);
}

enum hr_err hr_unpack_peer(struct hr_span params, struct hr_span *ret_packet)
{
    struct hr_pairs pairs;
    struct hr_pair pair;
    enum hr_err err = hr_pairs_begin(&pairs, params);
    while (err == HR_OK && (err = hr_pairs_next(&pairs, &pair)) == HR_OK) {
        struct hr_unpacker in = {pair.value};
        struct hr_span packet;
        if (!hr_span_equal(pair.key, HR_SPAN("m"))) {
            continue;
        }
        err = hr_unpack_text(&in, &packet);
        if (err == HR_OK && packet.bytes > HR_PEER_PACKET_BYTES_MAX) {
            return HR_E_RANGE;
        }
        if (err == HR_OK) {
            *ret_packet = packet;
        }
        return err;
    }
    return err;
}
