/* Feeds arbitrary bytes to the reader of packets between nodes. What it accepts lies within the input and its bound,
 * and reads back from what packing it gives. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "node/peer_wire.h"
#include "rpc/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_again(struct hr_span packet)
{
    const struct hr_session_limits limits = {.frame_bytes_max = HR_FRAME_BYTES_MAX, .in_flight_max = 1};
    struct hr_session session;
    struct hr_session_event event;
    struct hr_span again;
    struct hr_packer packer = {.room = 0};
    hr_pack_peer(&packer, packet);
    char *copy = malloc(packer.wanted);
    require(copy != NULL);
    packer = (struct hr_packer){.at = copy, .room = packer.wanted};
    hr_pack_peer(&packer, packet);
    hr_session_init(&session, &limits);
    hr_session_next(&session, hr_packer_bytes(&packer), &event);
    require(event.kind == HR_SESSION_NOTIFICATION && event.method == HR_METHOD_PEER);
    require(hr_unpack_peer(event.params, &again) == HR_OK && hr_span_equal(again, packet));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct hr_span params = {(const char *)data, bytes};
    struct hr_span packet = {NULL, 0};
    if (hr_unpack_peer(params, &packet) == HR_OK) {
        require(packet.bytes <= HR_PEER_PACKET_BYTES_MAX && packet.bytes < bytes);
        require(packet.at > params.at && packet.at + packet.bytes <= params.at + bytes);
        check_again(packet);
    }
    return 0;
}
