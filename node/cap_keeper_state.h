/* Cap keeper state: what the files of cap_keeper.h share. Nobody else includes this.
 *
 * cap_keeper.c composes; cap_epoch.c finds the epoch; cap_log.c is about what is kept, here and at standbys. */
#ifndef HR_NODE_CAP_KEEPER_STATE_H
#define HR_NODE_CAP_KEEPER_STATE_H

#include "node/cap_images.h"
#include "node/cap_keeper.h"

/* Images for each counter that may be hot. */
#define HR_CAP_IMAGES_PER_COUNTER 2U

/* Writes of the caps in one batch. */
#define HR_CAP_WRITES_MAX 256U

/* An epoch with its rules. The number is a count in the upper bits and part of the hash in the lower ones, so that two
 * nodes that propose different rules at the same time never give them one number. */
#define HR_CAP_EPOCH_HASH_BITS 12
struct hr_cap_epoch {
    uint32_t number; /* 0: none */
    uint64_t hash;
    struct hr_cap_rules rules;
};

struct hr_cap_keeper {
    struct hr_cap_keeper_config config;
    struct hr_caps *caps;
    struct hr_now now; /* of the event at hand */
    hr_ns started_at, next_at, sync_at;
    uint32_t generation; /* of the caps, as the limiter's stakes know it */

    /* epochs */
    struct hr_cap_epoch adopted, current, next; /* next: being written */
    struct hr_cap_rules local;                  /* of the limits in force here */
    uint64_t local_hash;
    bool is_loaded, is_begun, has_changed;
    bool adopted_is_unsaved, next_is_unsaved, next_is_writing, adopted_is_writing;
    struct hr_cap_limit limits[HR_CAP_RULES_MAX];
    uint32_t stopped; /* a bit for each region */

    /* who is where */
    uint64_t view; /* of the members */
    uint64_t candidates_hash[HR_REGIONS_MAX];
    struct hr_partition_map map;
    uint8_t holding[HR_PARTITIONS]; /* enum hr_holding, as the caps know it */
    bool has_drops;                 /* stakes of partitions that went are to be dropped */
    bool is_gone[HR_PARTITIONS];

    /* what is kept */
    enum hr_cap_origin origin;
    hr_ns contact_at; /* when a node of another region was first there; -1: not yet */
    struct hr_cap_images images;
    bool is_restoring;
    bool may_write; /* the caps may have something for the log */
    bool marks_are_unsaved, marks_are_writing;
    uint32_t sweep_at;
    struct hr_caps_write writes[HR_CAP_WRITES_MAX];
    uint32_t write_count;
    uint8_t bytes[HR_RECORD_PAYLOAD_BYTES_MAX];
};

/* cap_keeper.c: what has become of a partition since it was looked at last. */
void hr_cap_keeper_sync_partition(struct hr_cap_keeper *keeper, uint32_t partition);

/* cap_epoch.c */
void hr_cap_epoch_load(struct hr_cap_keeper *keeper, const struct hr_limit_set *set);
void hr_cap_epoch_tick(struct hr_cap_keeper *keeper);

/* The epoch that was being written is in the store: it is put in force. */
void hr_cap_epoch_written(struct hr_cap_keeper *keeper);

/* cap_log.c */

/* Marks what this node knows of a partition's past as it comes here, and tells the caps. */
void hr_cap_log_own(struct hr_cap_keeper *keeper, uint32_t partition);

/* The partition is no longer here, nor a copy of it. */
void hr_cap_log_disown(struct hr_cap_keeper *keeper, uint32_t partition);

/* Puts images back that the caps have not taken up. False: there was no room for one. */
bool hr_cap_log_restore_counter(struct hr_cap_keeper *keeper, struct hr_id128 id, uint32_t limit);
void hr_cap_log_restore_partition(struct hr_cap_keeper *keeper, uint32_t partition);

/* It is known now whether the region is new. */
void hr_cap_log_settle_origin(struct hr_cap_keeper *keeper);

/* Looks at some images, whether their windows are over. */
void hr_cap_log_sweep(struct hr_cap_keeper *keeper);

#endif
