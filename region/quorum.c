#include "region/quorum.h"

#include "base/defect.h"
#include "storage/le.h"

#define PULSE_VERSION 1
#define FLAG_HEARS 1U
#define FLAG_LEAVING 2U
#define FLAG_HELD 4U
#define FLAG_STUCK 8U
#define FLAG_MUTE 16U
#define FLAG_LEASE 32U
#define FLAGS_ALL 63U

size_t hr_pulse_encode(const struct hr_pulse *pulse, uint8_t out[HR_PULSE_BYTES_MAX])
{
    struct hr_le_writer writer = hr_le_writer_of(out, HR_PULSE_BYTES_MAX);
    uint32_t flags = (pulse->hears_receiver ? FLAG_HEARS : 0) | (pulse->is_leaving ? FLAG_LEAVING : 0) |
                     (pulse->held != NULL ? FLAG_HELD : 0) | (pulse->is_stuck ? FLAG_STUCK : 0) |
                     (pulse->is_mute ? FLAG_MUTE : 0) | (pulse->has_lease ? FLAG_LEASE : 0);
    hr_le_write_u8(&writer, PULSE_VERSION);
    hr_le_write_u8(&writer, (uint8_t)flags);
    hr_le_write_u64(&writer, pulse->life);
    hr_le_write_i64(&writer, pulse->stamp);
    hr_le_write_u64(&writer, pulse->granted_life);
    hr_le_write_i64(&writer, pulse->granted);
    hr_le_write_u64(&writer, pulse->lineage);
    hr_le_write_u64(&writer, pulse->version);
    hr_le_write_u64(&writer, pulse->hears);
    if (pulse->held != NULL) {
        hr_le_write_bytes(&writer, pulse->held, HR_PARTITION_SET_BYTES);
    }
    return writer.used;
}

static bool is_time(hr_ns at)
{
    return at >= 0 && at <= HR_TIME_NS_MAX;
}

enum hr_err hr_pulse_decode(struct hr_span body, struct hr_pulse *ret_pulse)
{
    struct hr_le_reader reader = hr_le_reader_of(body);
    uint8_t version = hr_le_read_u8(&reader), flags = hr_le_read_u8(&reader);
    struct hr_pulse pulse = {
        .life = hr_le_read_u64(&reader),
        .hears_receiver = (flags & FLAG_HEARS) != 0,
        .is_leaving = (flags & FLAG_LEAVING) != 0,
        .is_stuck = (flags & FLAG_STUCK) != 0,
        .is_mute = (flags & FLAG_MUTE) != 0,
        .has_lease = (flags & FLAG_LEASE) != 0,
    };
    pulse.stamp = hr_le_read_i64(&reader);
    pulse.granted_life = hr_le_read_u64(&reader);
    pulse.granted = hr_le_read_i64(&reader);
    pulse.lineage = hr_le_read_u64(&reader);
    pulse.version = hr_le_read_u64(&reader);
    pulse.hears = hr_le_read_u64(&reader);
    if (flags & FLAG_HELD) {
        pulse.held = (const uint8_t *)hr_le_read_bytes(&reader, HR_PARTITION_SET_BYTES).at;
    }
    bool is_known = version == PULSE_VERSION && (flags & ~FLAGS_ALL) == 0 && pulse.life != 0;
    bool has_charter = (pulse.lineage != 0) == (pulse.version != 0);
    if (!hr_le_is_at_end(&reader) || !is_known || !has_charter || !is_time(pulse.stamp) || !is_time(pulse.granted)) {
        return HR_E_CORRUPT;
    }
    *ret_pulse = pulse;
    return HR_OK;
}

static hr_node_set granters(const struct hr_charter *charter, const hr_ns *granted, hr_ns since)
{
    hr_node_set set = 0;
    for (uint32_t i = 0; i < charter->count; i++) {
        set |= (hr_node_set)(granted[i] >= since) << i;
    }
    return set;
}

/* The latest stamp that makes a majority with all that are as late. */
hr_ns hr_quorum_lease(const struct hr_charter *charter, const hr_ns granted[HR_REGION_NODES_MAX], hr_node_set gone)
{
    hr_ns best = hr_defect(LEASE_ALONE) ? INT64_MAX : -1;
    for (uint32_t i = 0; i < charter->count; i++) {
        if (granted[i] > best && hr_charter_is_majority(charter, granters(charter, granted, granted[i]), gone)) {
            best = granted[i];
        }
    }
    return best < 0 ? INT64_MIN : best == INT64_MAX ? INT64_MAX : best + HR_LEASE_NS;
}
