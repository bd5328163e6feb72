/* Cap keeper: brings the global caps (region/caps.h) into a node: who the partners in the other regions are, which
 * partitions this node answers for and what of their past it knows, which config epoch holds, and what goes to the
 * store and to standbys.
 *
 *   epochs    What all regions must agree on about global limits (cap_rules.h) has a hash. An epoch is a number that
 *             rises, and the hash that it stands for: the fact `.caps` (gossip/facts.h). A node whose own limits change
 *             proposes the next epoch; one whose limits have the fact's hash goes on to it; one whose have not stays
 *             where it is, which keeps every region at the smaller of both (docs/adr/0005).
 *   images    What the log of a count must keep is written before it is told, here and at the standby (cap_images.h).
 *             A partition of which it is not known whether all of that is here forfeits the windows that had begun.
 *   begun     That a region has ever had a node is a fact too: without it a fresh store cannot be told from a lost one.
 *
 * Thread: the shard's. Pure. Memory: handed in. Time: supplied. */
#ifndef HR_NODE_CAP_KEEPER_H
#define HR_NODE_CAP_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/err.h"
#include "base/units.h"
#include "gossip/facts.h"
#include "gossip/member.h"
#include "gossip/outbox.h"
#include "limiter/limiter.h"
#include "node/cap_rules.h"
#include "region/caps.h"
#include "region/tenure.h"
#include "storage/batch.h"
#include "storage/record.h"

/* Names of facts that begin so are the keeper's own: no limit may have such a name. */
#define HR_CAP_FACT_MARK '.'

/* How often letters are sent, and how long what is lent may be used without a word (region/cap_link.h). */
#define HR_CAP_TICK_NS (100 * HR_NS_PER_MS)
#define HR_CAP_LEASE_NS (5 * HR_NS_PER_S)

struct hr_cap_keeper_config {
    struct hr_limiter *limiter; /* this and the next four are borrowed for life */
    const struct hr_tenure *tenure;
    const struct hr_members *members;
    struct hr_facts *facts;
    struct hr_outbox *outbox;
    struct hr_cap_regions regions;
    uint64_t incarnation; /* greater than in any former life of this node */
    uint32_t hot_max;     /* counters that something goes on with between regions */
    bool saves;
};

struct hr_cap_keeper;

/* NULL while measuring. Requires: two or more regions, at most HR_REGIONS_MAX. */
struct hr_cap_keeper *hr_cap_keeper_init(const struct hr_cap_keeper_config *config, struct hr_bump *bump,
                                         struct hr_now now);

/* The limiter has another set in force. */
void hr_cap_keeper_load(struct hr_cap_keeper *keeper, const struct hr_limit_set *set, struct hr_now now);

/* A letter of the kind CAPS. */
void hr_cap_keeper_receive(struct hr_cap_keeper *keeper, uint64_t from, struct hr_span body, struct hr_now now);

/* After requests: counters that want help are looked at. O(those). */
void hr_cap_keeper_serve(struct hr_cap_keeper *keeper, struct hr_now now);

hr_ns hr_cap_keeper_deadline(const struct hr_cap_keeper *keeper);
void hr_cap_keeper_tick(struct hr_cap_keeper *keeper, struct hr_now now);

/* What the store is to keep, put into an empty batch. False: nothing. Answered by persisted before it is asked again.
 * The batch goes to the standbys as well (hr_tenure_copy). */
bool hr_cap_keeper_next_batch(struct hr_cap_keeper *keeper, struct hr_store_batch *batch, struct hr_now now);
void hr_cap_keeper_persisted(struct hr_cap_keeper *keeper, bool is_durable, struct hr_now now);

/* At start, before the first tick: each record of the kind HR_RECORD_CAP, in the order of their keys. HR_E_CORRUPT: not
 * such a record. */
HR_MUST enum hr_err hr_cap_keeper_restore(struct hr_cap_keeper *keeper, const struct hr_record *record);

/* What goes with a partition to another node: the next message, from *cursor (0 at first) on, at most
 * HR_CAP_MESSAGE_BYTES_MAX bytes; 0: no more. And what came so. */
#define HR_CAP_MESSAGE_BYTES_MAX 512U
size_t hr_cap_keeper_next_message(struct hr_cap_keeper *keeper, uint32_t partition, uint64_t *cursor,
                                  uint8_t out[HR_CAP_MESSAGE_BYTES_MAX], struct hr_now now);
void hr_cap_keeper_apply(struct hr_cap_keeper *keeper, uint32_t partition, struct hr_span message, struct hr_now now);

/* Does the first byte of what came with a partition say that it is the keeper's? */
bool hr_cap_keeper_is_message(struct hr_span bytes);

/* An operator says that a region is gone, all its nodes stopped: every node comes to know. HR_E_NOT_FOUND: there is no
 * such region, or it is this one. HR_E_FULL: no room for the fact. */
HR_MUST enum hr_err hr_cap_keeper_remove_region(struct hr_cap_keeper *keeper, struct hr_span region, struct hr_now now);

/* Whether the region had nodes before this life of it. */
enum hr_cap_origin { HR_CAP_ORIGIN_UNKNOWN, HR_CAP_ORIGIN_NEW, HR_CAP_ORIGIN_OLD };

/* For status and metrics. */
struct hr_cap_status {
    enum hr_cap_origin origin;
    uint32_t epoch;        /* in force here */
    bool is_adopted;       /* by all regions */
    bool is_agreed;        /* this node's limits are those of the newest epoch */
    uint32_t hot, hot_max; /* counters */
    uint32_t region_count, self;
    struct hr_caps_counts counts;
    struct {
        struct hr_span name;
        bool is_stopped, is_up;
        hr_ns word_age_ns; /* of the node heard last; -1: none was */
    } regions[HR_REGIONS_MAX];
};
void hr_cap_keeper_status(const struct hr_cap_keeper *keeper, hr_ns now, struct hr_cap_status *ret_status);

/* Of one global limit: sums over its hot counters that are here; tokens for each period, or units. Where none is hot
 * the counters each have `home`. */
struct hr_cap_limit_status {
    bool is_global, is_known; /* known: to the epoch in force */
    bool is_cover;
    uint64_t home, reserve; /* of one counter */
    uint32_t hot;
    uint64_t share, lent, borrowed; /* COVER: permission; given and received, all in all */
};
void hr_cap_keeper_limit_status(struct hr_cap_keeper *keeper, uint32_t limit, struct hr_now now,
                                struct hr_cap_limit_status *ret_status);

#endif
