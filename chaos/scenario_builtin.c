#include "chaos/scenario.h"

/* A cluster of two regions of three nodes: one of them may be gone, and the others are still a majority. */
#define THREE "cluster: {regions: [eu, us], nodes: 3, delay: 80ms}\n"

static const char partition[] = "name: partition\n"
                                "about: one region of three is cut off from the others, and healed\n"
                                "cluster: {regions: [eu, us, ap], nodes: 2, delay: 80ms}\n"
                                "cap: {rate: 900/s, burst: 900, reserve: 20%}\n"
                                "load: 600/s\n"
                                "lasts: 60s\n"
                                "faults:\n"
                                "  - {at: 15s, for: 30s, cut: us}\n"
                                "expect: {reserve: 90%, answers: 99%, heals: 30s}\n";

static const char one_way[] = "name: one-way\n"
                              "about: nothing that one region says is heard by the others, though it hears them\n"
                              "lasts: 60s\n"
                              "faults:\n"
                              "  - {at: 15s, for: 30s, mute: us}\n"
                              "expect: {reserve: 90%, answers: 99%, heals: 30s}\n";

static const char clock_skew[] = "name: clock-skew\n"
                                 "about: the machine's clock of one node is 5 s ahead, 5 s behind, and an hour ahead\n"
                                 "lasts: 60s\n"
                                 "faults:\n"
                                 "  - {at: 10s, for: 10s, clock: {node: us-owner, wall: 5s}}\n"
                                 "  - {at: 25s, for: 10s, clock: {node: us-owner, wall: -5s}}\n"
                                 "  - {at: 40s, for: 10s, clock: {node: us-owner, wall: 1h}}\n"
                                 "expect: {reserve: 90%, answers: 99%, heals: 30s}\n";

static const char clock_jump[] = "name: clock-jump\n"
                                 "about: the clock that rates go by jumps 5 s ahead on one node, and back\n"
                                 "lasts: 60s\n"
                                 "faults:\n"
                                 "  - {at: 15s, for: 20s, clock: {node: us-owner, steady: 5s}}\n"
                                 "expect: {answers: 95%, heals: 30s}\n";

static const char clock_drift[] = "name: clock-drift\n"
                                  "about: both clocks of one node run 200 ppm too fast, and of another too slow\n"
                                  "lasts: 60s\n"
                                  "faults:\n"
                                  "  - {at: 5s, for: 50s, clock: {node: us-owner, drift: 200ppm}}\n"
                                  "  - {at: 5s, for: 50s, clock: {node: eu-owner, drift: -200ppm}}\n"
                                  "expect: {reserve: 90%, answers: 99%, heals: 30s}\n";

static const char disk_full[] =
    "name: disk-full\n"
    "about: the disk of the node that answers for the cap in one region is full for 20 s (as root)\n"
    "lasts: 60s\n"
    "faults:\n"
    "  - {at: 15s, for: 20s, fill: us-owner}\n"
    "expect: {reserve: 90%, answers: 95%, heals: 30s}\n";

static const char kill_owner[] =
    "name: kill-owner\n"
    "about: the node that answers for the cap in one region is killed every 2 s for a minute\n"
    "" THREE "lasts: 90s\n"
    "faults:\n"
    "  - {at: 10s, every: 2s, until: 70s, for: 1s, kill: us-owner}\n"
    "expect: {answers: 60%, heals: 30s}\n";

static const char standstill[] =
    "name: standstill\n"
    "about: the node that answers for the cap in one region stands still for 10 s (SIGSTOP)\n"
    "" THREE "lasts: 50s\n"
    "faults:\n"
    "  - {at: 15s, for: 10s, pause: us-owner}\n"
    "expect: {answers: 85%, heals: 30s}\n";

static const char rolling[] = "name: rolling-restart\n"
                              "about: the nodes of one region are stopped and started again, one after another\n"
                              "" THREE "lasts: 75s\n"
                              "faults:\n"
                              "  - {at: 10s, for: 2s, stop: us-1}\n"
                              "  - {at: 30s, for: 2s, stop: us-2}\n"
                              "  - {at: 50s, for: 2s, stop: us-3}\n"
                              "expect: {answers: 85%, heals: 30s}\n";

static const char lossy[] = "name: lossy\n"
                            "about: a fifth of all that goes between regions is lost, at a delay of 80 ms each way\n"
                            "lasts: 60s\n"
                            "faults:\n"
                            "  - {at: 10s, for: 40s, loss: 20%}\n"
                            "expect: {reserve: 90%, answers: 99%, heals: 30s}\n";

#define TEXT(name, text)             \
    {                                \
        (name),                      \
        {                            \
            (text), sizeof(text) - 1 \
        }                            \
    }

const struct hr_scenario_text hr_scenarios[] = {
    TEXT("partition", partition),     TEXT("one-way", one_way),       TEXT("clock-skew", clock_skew),
    TEXT("clock-jump", clock_jump),   TEXT("kill-owner", kill_owner), TEXT("standstill", standstill),
    TEXT("rolling-restart", rolling), TEXT("lossy", lossy),           TEXT("clock-drift", clock_drift),
    TEXT("disk-full", disk_full),
};
const uint32_t hr_scenario_count = sizeof(hr_scenarios) / sizeof(hr_scenarios[0]);
