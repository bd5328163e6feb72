/* COVER: one count over all regions (a quota, a fixed window, or what is held at once), so that every decision is local
 * and the sum never passes Q. One struct for each hot counter in each region.
 *
 * Every unit of a window is owned by one region. Units move by cumulative counters, one for each pair of regions and
 * each direction, merged by the largest: a letter that is lost, doubled or late changes nothing. The giver subtracts
 * first, and where there is a log makes that durable, and only then tells. In the background regions even out for how
 * long what they own will last at their demand.
 *
 *   window  a calendar period or a fixed window, by its number: each region computes it from its own clock. The last,
 *           the current and the next are kept. What is held at once (slots, a sliding window) has the one window 0:
 *           there `used` comes from the algorithm and may fall, and the same permission moves for ever.
 *   life    of a region's rows for a window: the identity of its log, or where there is none its incarnation. Rows of a
 *           new life begin at 0; what was exchanged with the former one is folded away.
 *   charged what the log says was spent: never less than was. After a crash all of it counts as spent.
 *
 * Thread: the owner's. Pure. Memory: in place. Units: those of the limit. */
#ifndef HR_REGION_COVER_H
#define HR_REGION_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/share.h"
#include "region/cap_link.h"
#include "region/waterfill.h"

#define HR_COVER_WINDOWS 3U
#define HR_COVER_NO_LABEL INT64_MIN

/* Windows as short as this are evened out before they begin: there would be little time within them. */
#define HR_COVER_PREPARED_NS (60 * HR_NS_PER_S)

/* One limit, in one config epoch. */
struct hr_cover_rule {
    int64_t total; /* Q */
    uint32_t reserve_permille;
    bool reserve_decays; /* the reserve shrinks with what is left of the window */
    bool has_windows;    /* else only window 0 */
    bool has_log;        /* rows and charges are made durable */
    uint32_t count;      /* regions */
    int64_t weights[HR_REGIONS_MAX];
};

/* Where the region's own clock stands in the current window. length_ns 0: it has none. */
struct hr_cover_when {
    int64_t label;
    int64_t age_ns, length_ns;
};

struct hr_cover_record {
    int64_t label;
    uint64_t life, known_life; /* of the sender's rows; and of the receiver's as the sender knows it */
    int64_t spare, demand;     /* demand: units x 1024 in the horizon */
    int64_t out, received;     /* given to the receiver, and received from it, all in all */
    uint32_t epoch, low;
    bool is_down; /* the sender has come down in its current window too, and in those that it has prepared */
    bool asks;    /* the sender has begun anew: tell it your rows */
};

struct hr_cover_row {
    uint64_t life; /* the peer's; 0: not heard */
    int64_t out, out_base, in, in_base;
    int64_t out_durable; /* of out: may be told */
    int64_t out_writing;
    int64_t received;      /* of out_durable, as the peer says */
    int64_t spare, demand; /* reported; demand -1: nothing yet */
    uint32_t report;       /* number of the letter */
    uint32_t low;          /* the epoch to which the peer has come down in this window */
    hr_ns short_since;     /* HR_CAP_LONG_AGO: it is not */
    struct hr_cover_record told;
    uint32_t letter;  /* that told it; 0: none */
    bool has_arrived; /* it has: links forget that after a while */
    uint32_t lives;   /* of the link, then */
    hr_ns told_at;
    bool is_owed;
};

struct hr_cover_window {
    int64_t label; /* HR_COVER_NO_LABEL: none */
    uint64_t life;
    int64_t lost; /* of the home: forfeited by a crash without a log */
    int64_t used;
    int64_t charged, charged_writing, charged_wanted;
    uint32_t epoch_done;
    bool is_dirty, is_writing; /* it differs from what the log knows; a write is on its way */
    struct hr_cover_row rows[HR_REGIONS_MAX];
};

struct hr_cover {
    const struct hr_cover_rule *before, *rule;
    uint32_t epoch, epoch_settled; /* known; in force in every window that begins */
    uint32_t self;
    uint64_t hash, life;
    int64_t forfeits_until; /* windows up to this label belong to a former life, of which nothing is known here */
    struct hr_escrow *escrow;
    struct hr_cover_when when;
    int64_t demand; /* units x 1024 in the horizon */
    hr_ns demand_at, moved_at;
    hr_ns ask_again_at, back_off;
    bool is_asking;                      /* a denial, or low: everybody is told now */
    uint32_t low_inside[HR_REGIONS_MAX]; /* the epoch to which each has come down from its current window on */
    int64_t homes_before[HR_REGIONS_MAX], homes[HR_REGIONS_MAX];
    struct hr_cover_window windows[HR_COVER_WINDOWS];
};

/* As in lend.h. */
struct hr_cover_context {
    const struct hr_cap_times *times;
    struct hr_cap_link *const *links;
    hr_ns now;
};

struct hr_cover_begin {
    const struct hr_cover_rule *before, *rule; /* as in lend.h */
    uint32_t self, epoch;
    bool is_adopted;
    uint64_t hash, life;
    int64_t forfeits_until; /* HR_COVER_NO_LABEL: there was no former life, or the log tells of it */
    struct hr_escrow *escrow;
    struct hr_cover_when when;
};

void hr_cover_init(struct hr_cover *cover, const struct hr_cover_begin *begin, const struct hr_cover_context *context);
void hr_cover_adopt(struct hr_cover *cover, const struct hr_cover_rule *rule, uint32_t epoch,
                    const struct hr_cover_context *context);

/* Moves to the window in which the clock stands (never back), takes in what was spent, and says what may be. Comes
 * before what follows. */
void hr_cover_advance(struct hr_cover *cover, struct hr_cover_when when, const struct hr_cover_context *context);

/* Another node has the counter in that region now. */
void hr_cover_switch(struct hr_cover *cover, uint32_t region, const struct hr_cap_link *to);

/* True: the caller should move and send soon. */
bool hr_cover_receive(struct hr_cover *cover, uint32_t from, const struct hr_cover_record *record, uint32_t letter,
                      const struct hr_cover_context *context);

/* Gives units to those that are short, as far as this region alone may. */
void hr_cover_move(struct hr_cover *cover, const struct hr_cover_context *context);

/* Is there something to tell the region about a window (0 to HR_COVER_WINDOWS - 1)? */
bool hr_cover_tell(struct hr_cover *cover, uint32_t window, uint32_t to, uint32_t letter,
                   const struct hr_cover_context *context, struct hr_cover_record *ret_record);

/* What a log keeps of a window. */
struct hr_cover_image {
    int64_t label;
    uint64_t life;
    int64_t lost, charged;
    uint32_t count;
    struct hr_cover_image_row {
        uint64_t life;
        int64_t out, out_base, in_base;
    } rows[HR_REGIONS_MAX];
};

/* Has the window changed since the log was told, and is no write of it on its way? Then what to write. */
bool hr_cover_next_write(struct hr_cover *cover, uint32_t window, struct hr_cover_image *ret_image);

/* That write has ended. */
void hr_cover_written(struct hr_cover *cover, uint32_t place, int64_t label, bool is_durable,
                      const struct hr_cover_context *context);

/* At start, once for each image. Windows without one have not been touched: all that is spent is in the log before.
 * Requires: the rule has a log. */
void hr_cover_restore(struct hr_cover *cover, const struct hr_cover_image *image,
                      const struct hr_cover_context *context);

/* May be forgotten when it is not. */
bool hr_cover_is_hot(const struct hr_cover *cover, const struct hr_cover_context *context);
bool hr_cover_is_low(const struct hr_cover *cover);

struct hr_cover_state {
    int64_t home, reserve, used, permission; /* in the current window */
    int64_t given, received;
    int64_t lost;
};
struct hr_cover_state hr_cover_state(const struct hr_cover *cover);

#endif
