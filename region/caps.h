/* Caps: the global caps of this node. Keeps what is hot, and writes and reads the letters between regions.
 *
 * The hot path spends shares (limiter/share.h) and never waits. It calls hr_caps_touch when a share wants notice, or
 * was priced under another generation. From there on the counter is looked after here, for as long as anything goes on
 * with it between regions; then it is let go, and its share goes on alone. Cold counters cost no letter.
 *
 * A counter's partner in another region is the owner of its partition there, as the core says (hr_caps_set_owner). All
 * counters that have the same partner share one link: one letter, one lease.
 *
 *   rates (token_bucket, gcra, leaky_bucket)           LEND, on a share
 *   quota, fixed_window                                COVER, on an escrow; label: the period's or the window's number
 *   concurrency, sliding_window                        COVER without windows, on an escrow whose `used` the host sets
 *                                                      before touch and tick: slots held, or the estimate rounded up
 *   sliding_log                                        refused: no region can know what falls out of another's log
 *
 * Regions have places 0 to region_count - 1, the same in every region: sorted by name. Thread: the shard's. Pure: time
 * and memory are handed in. Effects: letters into the outbox (HR_LETTER_CAPS, lane gossip), writes by
 * hr_caps_next_write. */
#ifndef HR_REGION_CAPS_H
#define HR_REGION_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "gossip/outbox.h"
#include "region/cap_link.h"
#include "region/cap_wire.h"
#include "region/cover.h"
#include "region/lend.h"
#include "region/partition.h"

/* Where the shares are. Borrowed for the life of the caps; pointers that it returns stay good while is_held is set. */
struct hr_caps_host {
    void *context;
    /* The counter's share, made if there is none; NULL: there is no room, or no such limit. */
    struct hr_share *(*share)(void *context, struct hr_id128 id, uint32_t limit, hr_ns now);
    struct hr_escrow *(*escrow)(void *context, struct hr_id128 id, uint32_t limit, hr_ns now);
    /* Where the limit's clock stands; and for counters without windows: brings `used` up to date. */
    struct hr_cover_when (*when)(void *context, struct hr_id128 id, uint32_t limit, hr_ns now);
};

struct hr_caps_config {
    uint32_t region_count, self; /* places: at most HR_REGIONS_MAX */
    uint32_t counters_max;       /* hot at one time */
    uint32_t links_max;          /* partners in other regions */
    uint32_t limits_max;
    hr_ns tick, lease;
    uint64_t incarnation; /* greater than in any former life */
    uint64_t log;         /* identity of the log: the same for as long as it lost nothing; 0: there is none */
    bool is_sole;         /* the former life of this process is known to be gone */
};

/* One global limit, in one epoch. */
struct hr_cap_limit {
    uint32_t number; /* its name for all regions, in every epoch: a hash of the limit's name, key and algorithm */
    bool is_cover;
    struct hr_lend_rule lend;
    struct hr_cover_rule cover;
};

struct hr_caps;

/* NULL while measuring. Requires: the config's numbers are in range. */
struct hr_caps *hr_caps_init(const struct hr_caps_config *config, const struct hr_caps_host *host, struct hr_bump *bump,
                             hr_ns now);

/* Puts limits in force as config epoch `epoch` (1 or more): at the first call at once, later as soon as every region
 * has come down to the smaller of both. So after a restart it is called twice, with the epoch before and with the one
 * that holds: whether all have adopted that is not known then. HR_E_PENDING: the epoch before is still being adopted;
 * or a limit of the same number has another scale (period, or size by a factor of a million): that needs another
 * number. HR_E_RANGE: the epoch is not greater. HR_E_TOO_MANY. The limits are copied. */
HR_MUST enum hr_err hr_caps_configure(struct hr_caps *caps, uint32_t epoch, const struct hr_cap_limit *limits,
                                      uint32_t count, hr_ns now);

/* This node answers for the partition since then. is_new: nobody has ever spent there (a new cluster): its counters
 * begin full, and without quarantine. `log`: as in the config, of the store that tells of this partition. */
void hr_caps_own(struct hr_caps *caps, uint32_t partition, hr_ns since, bool is_new, uint64_t log);

/* There is a log from now on, but what it held before `forgot_at` is lost: windows that began before that are
 * forfeited. Comes right after hr_caps_own. */
void hr_caps_forfeit(struct hr_caps *caps, uint32_t partition, hr_ns forgot_at);

/* Another answers now: its counters are let go. What they lent lapses by itself; what they borrowed is not used any
 * more. */
void hr_caps_disown(struct hr_caps *caps, uint32_t partition);

/* Has this node the right to answer for its partitions (at first: yes)? One that has not says nothing of its counters,
 * and renews no lease: whoever has taken them over waits for a lease's time from then on, and no longer. Comes before
 * each tick, after hr_caps_disown of what is gone. */
void hr_caps_set_seated(struct hr_caps *caps, bool is_seated);

/* Who answers for the partition in another region; member 0: not known. HR_E_FULL: there are too many partners. */
HR_MUST enum hr_err hr_caps_set_owner(struct hr_caps *caps, uint32_t region, uint32_t partition, uint64_t member);

/* Prices the share, and looks after it if need be. HR_E_FULL: there is no room for another hot counter (it keeps its
 * home). HR_E_NOT_FOUND: no such limit, or not this node's partition. */
HR_MUST enum hr_err hr_caps_touch(struct hr_caps *caps, struct hr_id128 id, uint32_t limit, hr_ns now);
uint32_t hr_caps_generation(const struct hr_caps *caps);

/* A letter from a member of another region. Anything but HR_OK: it was not read. */
HR_MUST enum hr_err hr_caps_receive(struct hr_caps *caps, uint64_t from, struct hr_span body, hr_ns now);

/* When to come back; and the work that is due then: what should move moves, and letters are written. */
hr_ns hr_caps_deadline(const struct hr_caps *caps);
void hr_caps_tick(struct hr_caps *caps, hr_ns now, struct hr_outbox *outbox);

/* What the log is to keep, one window at a time. False: nothing. Each is to be answered, in any order. */
struct hr_caps_write {
    struct hr_id128 id;
    uint32_t limit, window;
    struct hr_cover_image image;
};
bool hr_caps_next_write(struct hr_caps *caps, struct hr_caps_write *ret_write);
void hr_caps_written(struct hr_caps *caps, const struct hr_caps_write *write, bool is_durable, hr_ns now);

/* At start, after configure and own, before anything else: once for each image in the log. */
HR_MUST enum hr_err hr_caps_restore(struct hr_caps *caps, const struct hr_caps_write *write, hr_ns now);

/* Has everything here come down to the epoch, and has every region gone on to it? */
bool hr_caps_is_adopted(const struct hr_caps *caps, hr_ns now);

/* An operator's word: the region is gone, and all its nodes are stopped. It holds up no epoch any more. */
void hr_caps_declare_stopped(struct hr_caps *caps, uint32_t region);

struct hr_caps_counts {
    uint64_t letters_out, letters_in, bytes_out; /* bodies */
    uint64_t records_out, records_in, record_bytes_out;
    uint64_t letters_refused, letters_old;
    uint64_t counters_refused; /* for want of room */
};
struct hr_caps_counts hr_caps_counts(const struct hr_caps *caps);
uint32_t hr_caps_hot_count(const struct hr_caps *caps);

/* One hot counter, for status and the tester. False: it is not hot. */
struct hr_caps_counter_state {
    bool is_cover;
    struct hr_lend_state lend;
    struct hr_cover_state cover;
    struct hr_caps_region_state {
        uint64_t member;   /* 0: nobody is known */
        hr_ns word_age_ns; /* since the region was heard; -1: never */
        bool is_up;
        int64_t demand; /* as it reported */
        int64_t lent_rate, borrowed_rate;
        int64_t given, received;
    } regions[HR_REGIONS_MAX];
};
bool hr_caps_counter_state(const struct hr_caps *caps, struct hr_id128 id, hr_ns now,
                           struct hr_caps_counter_state *ret_state);

/* The state itself, for the tester's invariants; NULL: not hot, or not of that kind. */
struct hr_lend *hr_caps_lend(struct hr_caps *caps, struct hr_id128 id);
struct hr_cover *hr_caps_cover(struct hr_caps *caps, struct hr_id128 id);
const struct hr_cap_link *hr_caps_link(const struct hr_caps *caps, uint32_t region, uint32_t partition);

#endif
