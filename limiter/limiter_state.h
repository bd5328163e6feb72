/* Limiter state: what the limiter's own files share. Nobody else includes this.
 *
 * limiter.c lays it out, loads limits, sweeps and ends leases; check.c decides requests. */
#ifndef HR_LIMITER_LIMITER_STATE_H
#define HR_LIMITER_LIMITER_STATE_H

#include "limiter/algorithm.h"
#include "limiter/journal.h"
#include "limiter/key_text.h"
#include "limiter/limiter.h"
#include "limiter/reserve.h"
#include "limiter/stake.h"
#include "limiter/table.h"
#include "limiter/version.h"

/* One limit that the request at hand touches. */
struct hr_touched {
    struct hr_version *version;
    struct hr_id128 id;
    struct hr_cell *cell;  /* NULL: the counter is not in the table */
    union hr_state fresh;  /* its state then; or the copy that is looked at until it is charged */
    union hr_state *state; /* in the cell, or fresh */
    const struct hr_limit *limit;
    struct hr_stake *stake; /* of a global cap; else NULL */
    bool fits;
    bool is_charged;
};

/* Stored counters that were forgotten, oldest first: a ring. */
#define HR_FORGOTTEN_MAX 65536

struct hr_forgotten {
    struct hr_id128 *ids;
    uint32_t first, count;
};

/* A refresh (save.h): while the sweep is in its pass, counters that do not bear the mark are saved anew. */
struct hr_refresh {
    uint16_t mark; /* HR_CELL_MARK or 0 */
    uint32_t pass;
    bool is_going;
};

struct hr_limiter {
    struct hr_limiter_sizes sizes;
    struct hr_hash_key counter_secret, lease_secret, spot_key;
    const struct hr_limit_set *set; /* NULL: none yet */
    hr_ns steady;                   /* the latest yet: time for rates never runs backwards */
    struct hr_wall wall;            /* the last that was told */
    struct hr_table table;
    struct hr_log_pool logs;
    struct hr_lease_pool leases;
    struct hr_reserve_pool reserves;
    struct hr_stake_pool stakes;
    struct hr_forgotten forgotten;
    struct hr_journal journal;
    struct hr_refresh refresh;
    struct hr_versions versions;
    uint64_t sweep_at;   /* the next cell */
    uint32_t sweep_pass; /* full passes so far */
    struct hr_match match;
    bool draws_room; /* the request at hand wants a new cell, a log block or a lease, were it charged */
    struct hr_touched touched[HR_TOUCHED_MAX];
    uint64_t key_words[HR_KEY_TEXT_WORDS];
};

/* The instant as the limiter takes it: within bounds, and for rates never before the latest. */
struct hr_now hr_limiter_settle_now(struct hr_limiter *limiter, struct hr_now now);

static inline struct hr_context hr_limiter_context(struct hr_limiter *limiter, struct hr_now now)
{
    return (struct hr_context){.now = now, .logs = &limiter->logs, .leases = &limiter->leases};
}

/* Turns the context to one version's counters. */
static inline void hr_limiter_face(struct hr_context *context, struct hr_version *version)
{
    if (version->rule.algorithm == HR_QUOTA) {
        hr_quota_clock_set(&version->clock, &version->rule, context->now.wall);
    }
    context->clock = &version->clock;
}

static inline uint16_t hr_limiter_version_number(const struct hr_limiter *limiter, const struct hr_version *version)
{
    return (uint16_t)(version - limiter->versions.versions);
}

/* Is a counter moved on by being charged alone? A quota is, so that no look at it while the wall clock is ahead can
 * leave its period. All others move on with the steady clock, which takes nothing back. */
static inline bool hr_limiter_moves_when_charged(const struct hr_version *version)
{
    return version->rule.algorithm == HR_QUOTA;
}

/* Restates a cell of a retired version under the one in force. NULL, with the cell as it was: its limit is gone. */
struct hr_version *hr_limiter_restate(struct hr_limiter *limiter, struct hr_cell *cell,
                                      const struct hr_context *context);

/* Brings a cell to the version in force and to now. NULL, with the cell as it was: its limit is gone. */
static inline struct hr_version *hr_limiter_bring_up_to_date(struct hr_limiter *limiter, struct hr_cell *cell,
                                                             struct hr_context *context)
{
    struct hr_version *version = &limiter->versions.versions[cell->version];
    if (version->is_retired) {
        version = hr_limiter_restate(limiter, cell, context);
        if (version == NULL) {
            return NULL;
        }
    }
    hr_limiter_face(context, version);
    if (!hr_limiter_moves_when_charged(version)) {
        hr_state_advance(&cell->state, &version->rule, context);
    }
    return version;
}

/* How a counter of this version is kept. */
static inline enum hr_durability hr_limiter_durability(const struct hr_limiter *limiter,
                                                       const struct hr_version *version)
{
    return limiter->sizes.saves ? version->durability : HR_MEMORY;
}

/* Notes that the cell's state has changed, for those who save it. The record of a counter with a reserve stays an upper
 * bound without that. A bucket is saved from its note, and so bears at once what it will bear when it has been. */
static inline void hr_limiter_note_change(struct hr_limiter *limiter, struct hr_cell *cell,
                                          const struct hr_version *version)
{
    if (cell->reserve != 0 || hr_limiter_durability(limiter, version) == HR_MEMORY ||
        (cell->flags & HR_CELL_DIRTY) != 0) {
        return;
    }
    if (hr_algorithm_is_bucket(version->rule.algorithm) && hr_journal_note(&limiter->journal, cell)) {
        cell->flags = (uint16_t)((cell->flags & ~HR_CELL_MARK) | HR_CELL_STORED | limiter->refresh.mark);
    } else {
        hr_table_mark_dirty(&limiter->table, cell);
    }
}

/* Marks in the table what was noted, as if there had been no journal. */
void hr_limiter_spill_notes(struct hr_limiter *limiter);

/* What was noted of a cell is not to be saved: it goes, or is another counter's state from now on. True: it was. */
static inline bool hr_limiter_drop_note(struct hr_limiter *limiter, const struct hr_cell *cell)
{
    struct hr_noted *noted = hr_journal_find(&limiter->journal, cell);
    if (noted != NULL) {
        noted->version = 0;
    }
    return noted != NULL;
}

/* The cell's state has been restated, or begun afresh. Its record was made under the old numbers; put back under the
 * new ones it would have run on those all the while, and say too little. So a new one is made, before which nothing
 * reserved is spent. */
void hr_limiter_note_restated(struct hr_limiter *limiter, struct hr_cell *cell, const struct hr_version *version);

/* Has a cell saved anew whose record is older than the refresh that is going on. */
static inline void hr_limiter_refresh_cell(struct hr_limiter *limiter, struct hr_cell *cell)
{
    const struct hr_refresh *refresh = &limiter->refresh;
    bool is_old = (cell->flags & HR_CELL_STORED) != 0 && (cell->flags & HR_CELL_MARK) != refresh->mark;
    if (refresh->is_going && limiter->sweep_pass == refresh->pass && is_old) {
        hr_table_mark_dirty(&limiter->table, cell);
    }
}

/* The cell's image, with no units ahead. False: the counter's limit is gone, or it is one that keeps nothing of its
 * own. */
bool hr_limiter_image_of(struct hr_limiter *limiter, struct hr_cell *cell, struct hr_context *context,
                         struct hr_counter_image *image);

/* Puts a counter back as its image says, without its units ahead: hr_limiter_restore in two steps. */
HR_MUST enum hr_err hr_limiter_restore_state(struct hr_limiter *limiter, const struct hr_counter_image *image,
                                             int64_t elapsed_ns, struct hr_context *context, struct hr_cell **ret_cell);

/* Charges units that may have been spent, at most all that there is, to a cell of the version in force. A log for which
 * there is no block stays as it is. */
void hr_limiter_charge_ahead(struct hr_cell *cell, struct hr_version *version, uint64_t units,
                             struct hr_context *context);

/* Frees idle ones among the next stakes. */
void hr_limiter_sweep_stakes(struct hr_limiter *limiter, uint32_t stakes, struct hr_now now);

/* Sweeps the next cells at a settled now. Pointers to cells end. */
void hr_limiter_sweep_cells(struct hr_limiter *limiter, uint64_t cells, struct hr_now now);

/* A touched counter with its stake. */
static inline struct hr_staked hr_limiter_staked(const struct hr_touched *touched, const struct hr_context *context)
{
    return (struct hr_staked){touched->stake, &touched->version->cap, &touched->version->rule, touched->state, context};
}

/* Is its stake all that there is of a counter of this version? Else it has a cell in the table. */
static inline bool hr_limiter_has_no_cell(const struct hr_version *version)
{
    return version->cap.kind == HR_STAKE_SHARE || version->cap.kind == HR_STAKE_ESCROW;
}

/* The name of the lease that a limit gives the request of this serial (lease.h). */
struct hr_id128 hr_limiter_lease_name(const struct hr_limiter *limiter, uint64_t serial,
                                      const struct hr_version *version);

/* The steps of a check and of a refund, for whoever leaves some of the counters out in between (part.h): touch fills
 * match.count and `touched` as the request has it; the others go by what stands there then. Errors as for the whole. */
HR_MUST enum hr_err hr_limiter_touch(struct hr_limiter *limiter, const struct hr_request *request);
HR_MUST enum hr_err hr_limiter_decide_touched(struct hr_limiter *limiter, const struct hr_request *request,
                                              struct hr_now now, struct hr_decision *ret_decision);
HR_MUST enum hr_err hr_limiter_refund_touched(struct hr_limiter *limiter, const struct hr_request *request,
                                              struct hr_now now);

#endif
