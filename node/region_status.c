#include "node/region_status.h"

#include <stdint.h>

#define NUMBER_MAX ((UINT64_C(1) << 53) - 1)

static void pack_refused(const struct hr_envelope *envelope, struct hr_packer *out)
{
    uint64_t refused = 0;
    for (int reason = HR_REFUSED_NOT + 1; reason < HR_REFUSALS; reason++) {
        refused += envelope->refused[reason];
    }
    hr_pack_text(out, HR_SPAN("packets_refused"));
    hr_pack_whole(out, refused < NUMBER_MAX ? refused : NUMBER_MAX);
}

void hr_pack_region_status(const struct hr_core *core, struct hr_worker_traffic traffic, struct hr_now now,
                           struct hr_packer *out)
{
    if (hr_core_tenure(core) == NULL) {
        hr_pack_nil(out);
        return;
    }
    struct hr_tenure_counts tenure = hr_tenure_counts(hr_core_tenure(core), now.steady);
    struct hr_router_counts router = hr_router_counts(hr_core_router(core));
    struct hr_holds_counts holds = hr_holds_counts(hr_core_holds(core));
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {
        {"charter", tenure.version},
        {"partitions_held", tenure.held},
        {"partitions_taken", tenure.taken},
        {"partitions_given", tenure.given},
        {"partitions_inherited", tenure.inherited},
        {"lease_lapses", tenure.lapses},
        {"calls_sent", router.sent},
        {"calls_received", router.received},
        {"calls_unanswered", router.silent},
        {"calls_late", router.late},
        {"requests_kept", router.kept},
        {"requests_led", holds.led},
        {"requests_degraded", holds.degraded},
        {"gossip_sent", traffic.gossip_sent},
        {"gossip_received", traffic.gossip_received},
        {"peer_packets_sent", traffic.peer_sent},
        {"packets_dropped", traffic.dropped},
    };
    const uint32_t count = sizeof(numbers) / sizeof(numbers[0]);
    hr_pack_map(out, count + 2);
    hr_pack_text(out, HR_SPAN("has_lease"));
    hr_pack_bool(out, tenure.has_lease);
    for (uint32_t i = 0; i < count; i++) {
        hr_pack_text(out, hr_span_of(numbers[i].key));
        hr_pack_whole(out, numbers[i].number < NUMBER_MAX ? numbers[i].number : NUMBER_MAX);
    }
    pack_refused(hr_core_envelope(core), out);
}
