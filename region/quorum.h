/* Quorum: who hears whom in the region, and the lease that every answer needs.
 *
 * Each node sends each other one a pulse every HR_PULSE_NS: a stamp of its own clock, and the newest stamp of the
 * receiver that it *granted*. A node has a lease while a majority of the charter's members, itself included, has
 * granted it stamps that it sent within the last HR_LEASE_NS, by its own clock. So a node that was stopped has none
 * when it wakes, and no clock is ever compared with another.
 *
 * A node grants a stamp as it arrives, if the sender hears it too, and unless it has voted for a charter that takes
 * something away from the sender (ballot.h). The answer says of which charter the granter knows; the sender counts it
 * only where that is not later than its own.
 *
 * Why a right that is taken away is not in use any more: a charter that evicts X is agreed on by a majority, of which
 * each member votes for it only when it has granted X nothing for HR_LAPSE_NS, and grants X nothing from its vote on. A
 * majority that gave X its lease shares a member with that one: what that member granted, it granted before its vote,
 * longer than HR_LEASE_NS ago even by the slowest clock. If members came or went in between, the two majorities may be
 * of different members. But then the vote that let the first of them come shares a member with the old majority, which
 * grants nobody anything from that vote on until it knows the outcome; and nobody votes to evict before HR_LAPSE_NS
 * have passed since it learned of a change of members.
 *
 * Clocks' rates may differ by 1000 ppm each way. A node that starts counts as if it had just granted everybody.
 * Thread: the owner's. Pure. */
#ifndef HR_REGION_QUORUM_H
#define HR_REGION_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "base/units.h"
#include "region/charter.h"

#define HR_PULSE_NS (100 * HR_NS_PER_MS)
#define HR_LEASE_NS HR_NS_PER_S

/* 2 x 1000 ppm, and some more. */
#define HR_LAPSE_NS (HR_LEASE_NS + HR_LEASE_NS / 100)

/* A node that was not heard for so long is not counted among those that hear. */
#define HR_HEARD_NS (500 * HR_NS_PER_MS)

#define HR_PARTITION_SET_BYTES (HR_PARTITIONS / 8)

struct hr_pulse {
    uint64_t life;             /* of the sender */
    hr_ns stamp;               /* the sender's clock */
    bool hears_receiver;       /* within HR_HEARD_NS */
    bool is_leaving;           /* wants to be given nothing, and its partitions to go elsewhere */
    bool is_stuck;             /* it sees a vote that did not come to an end */
    bool is_mute;              /* it votes on nothing, and so leads nothing */
    bool has_lease;            /* by that charter: what it is given it can answer for */
    uint64_t granted_life;     /* of the receiver; 0: nothing was granted */
    hr_ns granted;             /* the receiver's stamp */
    uint64_t lineage, version; /* of the sender's charter; 0: it has none */
    hr_node_set hears;         /* members of that charter that it has granted stamps within HR_HEARD_NS */
    const uint8_t *held;       /* HR_PARTITION_SET_BYTES: partitions that it holds, where some have a giver still; or
                                  NULL. Decoded, it points into the body. */
};

/* version 1, flags 1, life 8, stamp 8, granted life 8, granted 8, lineage 8, version 8, hears 8, held 0 or 512 */
#define HR_PULSE_BYTES_MAX (58 + HR_PARTITION_SET_BYTES)

size_t hr_pulse_encode(const struct hr_pulse *pulse, uint8_t out[HR_PULSE_BYTES_MAX]);

/* HR_E_CORRUPT: too short or too long, a flag or a version that is not known, a stamp that is no time. */
HR_MUST enum hr_err hr_pulse_decode(struct hr_span body, struct hr_pulse *ret_pulse);

/* Until when the lease holds: granted[i] is this node's newest stamp that member i has granted, itself included (it
 * grants itself INT64_MAX; before 0: none). INT64_MIN: it does not hold. INT64_MAX: this node alone is a majority.
 * Members in `gone` are not counted. */
hr_ns hr_quorum_lease(const struct hr_charter *charter, const hr_ns granted[HR_REGION_NODES_MAX], hr_node_set gone);

#endif
