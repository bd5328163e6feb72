/* Feeds arbitrary bytes to an envelope, as they are and sealed anew by a holder of the secret. As they are nothing may
 * open; what opens must lie within the packet, and opens once. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/envelope.h"
#include "storage/le.h"

#define SELF 0xb2
#define LIFE 5
#define INPUT_BYTES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void make(struct hr_envelope *envelope, struct hr_envelope_peer **ret_memory)
{
    static const struct hr_hash_key secret = {"a fuzzer's key.."};
    struct hr_envelope_config config = {&secret, HR_SPAN("prod"), SELF, LIFE};
    struct hr_bump measure = {NULL, 0};
    hr_envelope_init(envelope, &config, &measure);
    *ret_memory = malloc(measure.taken);
    require(*ret_memory != NULL);
    struct hr_bump bump = {(uint8_t *)*ret_memory, 0};
    hr_envelope_init(envelope, &config, &bump);
}

/* Makes the first bytes and the last right. */
static void reseal(const struct hr_envelope *envelope, uint8_t *packet, size_t bytes)
{
    struct hr_le_writer writer = hr_le_writer_of(packet, bytes);
    hr_le_write_bytes(&writer, "HRE\1", 4);
    writer.used = 8;
    hr_le_write_u64(&writer, envelope->cluster);
    writer.used = bytes - HR_ENVELOPE_MAC_BYTES;
    hr_le_write_id(&writer, hr_keyed_hash(&envelope->key, packet, writer.used));
}

static void open_sealed(struct hr_envelope *envelope, struct hr_span packet)
{
    struct hr_opened opened;
    if (hr_envelope_open(envelope, packet, &opened) != HR_REFUSED_NOT) {
        return;
    }
    require(opened.body.at == packet.at + HR_ENVELOPE_HEAD_BYTES);
    require(opened.body.bytes == packet.bytes - HR_ENVELOPE_BYTES);
    require(opened.from != 0 && opened.from != SELF && opened.from_life != 0);
    require(opened.kind >= 1 && opened.kind <= HR_LETTER_KIND_MAX && opened.lane <= HR_LANE_PEER);
    require(hr_envelope_open(envelope, packet, &opened) == HR_REFUSED_REPLAYED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t packet[INPUT_BYTES_MAX];
    struct hr_envelope envelope;
    struct hr_envelope_peer *memory;
    struct hr_opened opened;
    size_t used = bytes > INPUT_BYTES_MAX ? INPUT_BYTES_MAX : bytes;
    make(&envelope, &memory);
    require(hr_envelope_open(&envelope, (struct hr_span){(const char *)data, used}, &opened) != HR_REFUSED_NOT);
    if (used >= HR_ENVELOPE_BYTES) {
        memcpy(packet, data, used);
        reseal(&envelope, packet, used);
        open_sealed(&envelope, (struct hr_span){(const char *)packet, used});
    }
    free(memory);
    return 0;
}
