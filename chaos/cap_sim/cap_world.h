/* Cap world: one global counter over N regions in virtual time. Each region runs the product's own code (region/caps.h)
 * behind its own clock; the network loses, doubles, delays and cuts; processes restart without memory; disks forget
 * what was not synced. Everything follows from the scenario and the seed.
 *
 * Thread: one. Memory: from the heap, at init. */
#ifndef HR_CHAOS_CAP_WORLD_H
#define HR_CHAOS_CAP_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "region/caps.h"

#define CAP_FAULTS_MAX 24
#define CAP_LABELS_MAX 64

enum cap_load {
    CAP_BALANCED,
    CAP_SKEW,
    CAP_ONE,
    CAP_SUN,
    CAP_FLIP,
    CAP_FLASH_ONE,
    CAP_FLASH_ALL,
    CAP_ON_OFF,
    CAP_RANDOM
};

enum cap_fault_kind {
    CAP_CUT,      /* region `who` from all, both ways */
    CAP_DEAF,     /* it cannot hear */
    CAP_MUTE,     /* it cannot be heard */
    CAP_SPLIT,    /* the regions in the bits of `who` from the others */
    CAP_CRASH,    /* its process ends at `from`, another begins at `until` */
    CAP_NEW_EPOCH /* config changes at `from`, seen by each region within 3 s. who: 0 last joins, 1 last leaves, 2
                     halved */
};

struct cap_fault {
    enum cap_fault_kind kind;
    uint32_t who;
    hr_ns from, until;
};

struct cap_scenario {
    const char *name;
    uint32_t regions;
    bool is_cover;
    uint64_t rate, period_ns, burst; /* cover: `rate` is Q and period_ns the window's length; 0: no windows */
    uint32_t reserve_permille;
    bool reserve_decays, has_log;
    hr_ns delay, tick, lease, duration, step; /* one way; G; T; of the run; between looks at the load */
    bool comes_to_rest;                       /* after that: everything is to heal, to serve, and to fall silent */
    uint32_t jitter_permille, loss_permille, double_permille, reorder_permille;
    uint32_t drift_ppm; /* clocks' rates differ by at most that */
    hr_ns skew;         /* cover: the wall clocks */
    bool is_uneven;     /* random weights and ways */
    bool is_sole;
    enum cap_load load;
    uint32_t offered_permille; /* of the cap */
    uint32_t hot_permille;     /* what the hot region has of that; on-off: of the cap, while on */
    uint32_t fault_count;
    struct cap_fault faults[CAP_FAULTS_MAX];
    uint32_t move_count;
    hr_ns moves[4]; /* when the load moves */
};

enum cap_event_kind {
    CAP_EVENT_LOAD,
    CAP_EVENT_LETTER,
    CAP_EVENT_WRITTEN,
    CAP_EVENT_FAULT,
    CAP_EVENT_FAULT_END,
    CAP_EVENT_EPOCH
};

struct cap_event {
    hr_ns at;
    uint64_t order;
    enum cap_event_kind kind;
    uint32_t who, from, life; /* a region, or a fault's place; of a letter: its sender */
    uint8_t *body;            /* of a letter; or the write that has ended. From the heap */
    size_t body_bytes;
};

/* What a dead life may still be using: for the invariants. */
struct cap_zombie {
    int64_t rate, depth;
    hr_ns until;
};

struct cap_world;

struct cap_region {
    struct cap_world *world;
    uint32_t place;
    bool is_up;
    uint32_t life;
    int64_t offset; /* of its clock */
    int64_t rate_ppm;
    hr_ns wall_skew;
    struct hr_caps *caps;
    void *memory;
    struct hr_outbox outbox;
    struct hr_share share;
    bool has_share;
    struct hr_escrow escrow;
    uint32_t epoch; /* known */
    struct hr_caps_write disk[HR_COVER_WINDOWS];
    bool has_disk[HR_COVER_WINDOWS];
    uint64_t lambda; /* offered, micro-requests a second */
    bool is_on;
    hr_ns switch_at;
    /* the bucket of the reserve alone, for I7 */
    int64_t private_level, private_rate, private_rest;
    hr_ns private_at;
    uint32_t private_life, private_epoch;
    bool private_is_void;
    struct cap_zombie zombies[HR_REGIONS_MAX];
    uint64_t offered, admitted, ideal;
    uint64_t denied_in_reserve;
    uint64_t waiting; /* requests that wait for the log */
};

struct cap_world {
    const struct cap_scenario *scenario;
    uint64_t seed;
    hr_ns now;
    struct hr_rng load_rng, net_rng;
    struct hr_id128 id;
    struct hr_cap_limit limits[2]; /* by epoch, 1 and 2 */
    struct hr_lend_homes homes[2];
    struct cap_region regions[HR_REGIONS_MAX];
    hr_ns ways[HR_REGIONS_MAX][HR_REGIONS_MAX];
    uint32_t deaf[HR_REGIONS_MAX], mute[HR_REGIONS_MAX];
    bool is_split[CAP_FAULTS_MAX];
    struct cap_event *heap;
    uint32_t heap_count, heap_max;
    uint64_t order;
    /* the ideal central bucket, and the backlog that shows what was admitted too much */
    int64_t central_level, central_rest, backlog, backlog_rest, backlog_peak;
    hr_ns counted_at;
    uint64_t label_spent[CAP_LABELS_MAX], label_ideal[CAP_LABELS_MAX];
    uint64_t bin_admitted[16384], bin_ideal[16384]; /* of 50 ms */
    bool checks;
    uint64_t letters_at_rest; /* when the world was to be silent */
    char violation[120];      /* empty: none */
    hr_ns violated_at;
    int64_t violated_by;
};

void cap_world_run(struct cap_world *world, const struct cap_scenario *scenario, uint64_t seed, bool checks);
void cap_world_free(struct cap_world *world);

hr_ns cap_world_clock(const struct cap_world *world, uint32_t k);

/* Notes the first violation: where something is too much by more than 0. */
void cap_world_note(struct cap_world *world, const char *what, int64_t by);
static inline void cap_world_fail(struct cap_world *world, const char *what, int64_t by)
{
    if (by > 0) {
        cap_world_note(world, what, by);
    }
}

/* cap_audit.c: the invariants, after an event. */
void cap_audit(struct cap_world *world);
void cap_audit_private(struct cap_world *world, uint32_t k);

/* cap_rest.c: what comes after the last fault. When the run ends; what is asked for of each region then, in
 * micro-requests a second; and whether all that was promised for a calm world has come true. */
hr_ns cap_rest_end(const struct cap_scenario *scenario);
uint64_t cap_rest_offered(const struct cap_world *world);
void cap_rest_look(struct cap_world *world);
hr_ns cap_rest_step(const struct cap_world *world); /* until the next look at the load */

/* cap_load.c */
void cap_load_step(struct cap_world *world);
uint64_t cap_load_cap(const struct cap_scenario *scenario);
uint64_t cap_load_draw(struct hr_rng *rng, uint64_t micro_expected);

/* What a run came to. */
struct cap_result {
    uint64_t utilisation_permyriad; /* of the ideal central limiter */
    int64_t over_units;             /* above the bound: peak backlog less B, or spent less Q */
    hr_ns settle;                   /* after the worst move, until half a second has 90 % of the ideal; -1: never */
    uint64_t records_per_s_x10, record_bytes_per_s, bytes_per_s;
    uint64_t worst_region_permyriad; /* admitted to ideal of the worst served region: not max-min */
    uint64_t denied_in_reserve;
};
struct cap_result cap_world_result(const struct cap_world *world);

#endif
