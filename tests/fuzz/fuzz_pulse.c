/* Feeds arbitrary bytes to the decoders of pulses, votes and charters. What is accepted must encode to the same bytes
 * again. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "region/ballot.h"
#include "region/quorum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void require_same(struct hr_span body, const uint8_t *out, size_t bytes)
{
    require(body.bytes == bytes && memcmp(body.at, out, bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t out[HR_VOTE_BYTES_MAX];
    static struct hr_charter charter;
    const struct hr_span body = {(const char *)data, bytes};
    struct hr_pulse pulse;
    struct hr_vote vote;
    if (hr_pulse_decode(body, &pulse) == HR_OK) {
        require_same(body, out, hr_pulse_encode(&pulse, out));
    }
    if (hr_vote_decode(body, &vote) == HR_OK) {
        require_same(body, out, hr_vote_encode(&vote, out));
    }
    if (hr_charter_decode(body, &charter) == HR_OK) {
        require_same(body, out, hr_charter_encode(&charter, out));
        require(charter.count >= 1 && charter.count <= HR_REGION_NODES_MAX);
        require(hr_charter_is_majority(&charter, hr_charter_all(&charter), 0));
    }
    return 0;
}
