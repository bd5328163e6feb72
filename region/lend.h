/* LEND: one rate over all regions, so that every decision is local and what all admit together stays within the bound
 * of one central bucket. One struct for each hot counter in each region.
 *
 * Each region is at home with a fixed part of the rate and of the burst. What it does not need of its part it lends, to
 * whoever is short; a loan is a rate, a slice of depth, and the tokens that stand in that slice. It ends when the
 * borrower says that it let go, or when the lease of the link has surely lapsed (cap_link.h). Tokens that would
 * overflow an idle bucket are handed over in parcels. A part of every home, the reserve, is never lent.
 *
 *   rates   own + what others may use of a home <= home, at every instant; so all regions mint R at most
 *   tokens  level <= cap; tokens leave a bucket before they are told of, and are credited once; so all buckets and all
 * that is on its way hold B at most hence   admitted in any interval of length t <= R t + B, whatever is lost, late,
 * doubled, cut off or restarted
 *
 * Where the burst is too small to give each region two requests' worth (pooled), one region, chosen by the counter's
 * hash, is home to all of it and keeps no reserve; depth is lent in whole tokens to those who ask most. The bound is B
 * there too; what cannot be promised is a reserve. Where tokens come slowly too, parts of them in several buckets would
 * be of use to nobody: the home mints alone, deals whole tokens out in turn, and gets each slot back when it is spent.
 *
 * Thread: the owner's. Pure. Memory: in place. Units: limiter/share.h. */
#ifndef HR_REGION_LEND_H
#define HR_REGION_LEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/units.h"
#include "limiter/share.h"
#include "region/cap_link.h"
#include "region/waterfill.h"

/* One limit, in one config epoch. */
struct hr_lend_rule {
    struct hr_share_scale scale;
    int64_t rate, depth; /* R and B */
    int64_t token;       /* one token: the cost that every bucket should hold */
    uint32_t reserve_permille;
    uint32_t count;                  /* regions */
    int64_t weights[HR_REGIONS_MAX]; /* 0: not a member in this epoch */
    bool is_pooled;
    bool mints_at_home; /* pooled, and slow: the rate stays at home, and tokens are lent one by one */
};

/* The parts of one counter under a rule. */
struct hr_lend_homes {
    int64_t rate[HR_REGIONS_MAX], depth[HR_REGIONS_MAX];
};

/* What the record of a counter says, in one direction of a link. */
struct hr_lend_grant { /* the sender lends */
    uint32_t number;   /* of the grant; 0: none yet */
    int64_t rate, depth;
    int64_t tokens;         /* that stood in the depth: credited once for each number */
    uint64_t parcels;       /* tokens given in this session, all in all (modulo 2^64) */
    uint64_t parcels_known; /* ... that the receiver is known to have */
    bool wants_answer;      /* more may be in use there than is granted. A raise needs none: it has arrived or not */
};
struct hr_lend_answer {       /* the sender borrows */
    uint32_t session, number; /* what it answers */
    int64_t rate, depth;      /* in use: at most what was granted */
    int64_t tokens;           /* that came back with returned depth, under this number */
    uint64_t parcels;         /* credited so far */
};
struct hr_lend_record {
    int64_t demand;
    bool asks;    /* the sender is in quarantine: answer, whatever you hold */
    bool is_full; /* its bucket: more rate would be lost there now */
    bool has_grant, has_answer;
    struct hr_lend_grant grant;
    struct hr_lend_answer answer;
};

/* What is lent to one region. */
struct hr_lend_loan {
    uint32_t lives, session;
    struct hr_lend_grant grant;        /* as last granted */
    int64_t rate_top, depth_top;       /* the most that may be in force there */
    int64_t returned;                  /* tokens that came back under the number of the grant */
    int64_t zombie_rate, zombie_depth; /* what its dead lives may be using */
    hr_ns zombie_until;
    hr_ns large_since, recalled_at, changed_at; /* HR_CAP_LONG_AGO: not */
};

/* What is borrowed from one region, and what it reported. */
struct hr_lend_debt {
    uint32_t session, number;
    int64_t rate, depth;
    int64_t returned;
    uint64_t parcels;
    bool has_parcels; /* the count has been taken up */
    int64_t demand;
    bool is_full;
    uint32_t report; /* number of the letter they came in */
};

/* What the region was told last. */
struct hr_lend_told {
    struct hr_lend_record record;
    uint32_t letter;  /* its number; 0: nothing was told to this life */
    bool has_arrived; /* it has: links forget that after a while */
    bool is_repeated;
    bool owes_grant, owes_answer; /* it carried them, and before it has arrived the next one does */
    uint32_t session;             /* in which the grant was */
    hr_ns at;
    bool is_owed; /* it asked for an answer */
};

struct hr_lend {
    const struct hr_lend_rule *before, *rule; /* of the epoch before and of this one: the same at rest */
    uint32_t epoch, epoch_done;
    uint32_t self;
    struct hr_share *share;
    struct hr_lend_homes homes_before, homes;
    int64_t demand;
    hr_ns demand_at;
    hr_ns quarantine_until; /* what former lives here have lent may be in force until then; LONG_AGO: no quarantine */
    uint32_t heard;         /* a bit for each region that has ended it for its part */
    struct hr_lend_loan loans[HR_REGIONS_MAX];
    struct hr_lend_debt debts[HR_REGIONS_MAX];
    struct hr_lend_told told[HR_REGIONS_MAX];
    int64_t turns[HR_REGIONS_MAX]; /* of a counter that mints at home: who has waited, in parts of a token */
    int64_t own_tokens;            /* ... and how many of those that are here are for this region */
};

/* All that a call needs to know beside the counter: links to the owners in the other regions (NULL: none is known). */
struct hr_lend_context {
    const struct hr_cap_times *times;
    struct hr_cap_link *const *links;
    hr_ns now;
};

/* Fills in a rule: rate N per period and burst as in limiter/limit.h, slack: by how much more than the burst all
 * buckets may hold, in permille (0: exact). Requires: the rule's numbers are valid, reserve at most 1000, count at most
 * HR_REGIONS_MAX, weights at most 2^31 each and one of them above 0. */
struct hr_lend_numbers {
    uint64_t rate, period_ns, burst;
    uint32_t reserve_permille, slack_permille;
};
void hr_lend_rule_init(struct hr_lend_rule *rule, const struct hr_lend_numbers *numbers, uint32_t count,
                       const uint32_t *weights);

/* A counter's parts under a rule: the odd units go round by its hash. */
void hr_lend_homes_of(const struct hr_lend_rule *rule, uint64_t hash, struct hr_lend_homes *ret_homes);

struct hr_lend_begin {
    const struct hr_lend_rule *before, *rule; /* of the epoch before, and of this one */
    uint32_t self, epoch;
    bool is_adopted; /* all regions have gone on to this epoch */
    uint64_t hash;
    struct hr_share *share; /* borrowed for the counter's life; its level is kept as far as there is room */
    hr_ns quarantine_until; /* HR_CAP_LONG_AGO: none */
};
void hr_lend_init(struct hr_lend *lend, const struct hr_lend_begin *begin, const struct hr_lend_context *context);

/* A new epoch is known: until all have come down to the smaller of both, nobody goes up. Requires: the last one is
 * done, and the scale is the same. */
void hr_lend_adopt(struct hr_lend *lend, const struct hr_lend_rule *rule, uint32_t epoch, uint64_t hash,
                   const struct hr_lend_context *context);

/* Brings the bucket, leases, loans and the quarantine to now. Comes before all that follows; links are advanced. */
void hr_lend_advance(struct hr_lend *lend, const struct hr_lend_context *context);

/* Another node has the counter in that region now. Comes after the link to the former one was cut and followed
 * (advance); `to` is the link to the new one. */
void hr_lend_switch(struct hr_lend *lend, uint32_t k, const struct hr_cap_link *to, hr_ns now);

/* Takes in the record that came in a letter of that number and lending session. True: the caller should move and send
 * soon. A record whose numbers are out of this counter's range is ignored. */
bool hr_lend_receive(struct hr_lend *lend, uint32_t from, const struct hr_lend_record *record, uint32_t letter,
                     uint32_t session, const struct hr_lend_context *context);

/* Decides what should move, and moves it as far as this region alone may: grants, recalls, returns, parcels. */
void hr_lend_move(struct hr_lend *lend, const struct hr_lend_context *context);

/* The region does not know what it was told last: it is to be told all again. */
void hr_lend_tell_again(struct hr_lend *lend, uint32_t to);

/* Is there something to tell the region? Then the record to send in the letter of that number. */
bool hr_lend_tell(struct hr_lend *lend, uint32_t to, uint32_t letter, const struct hr_lend_context *context,
                  struct hr_lend_record *ret_record);

/* Does anything go on with this counter between regions? If not it may be forgotten: the share alone does. */
bool hr_lend_is_hot(const struct hr_lend *lend, const struct hr_lend_context *context);

/* Has it come down to its epoch's smaller home, reserve and all? */
bool hr_lend_is_low(const struct hr_lend *lend);

/* Is something of this home lent on the link, and has a recall been unanswered for too long? For the link's flags. */
bool hr_lend_has_loan(const struct hr_lend *lend, uint32_t to);
bool hr_lend_is_stuck(const struct hr_lend *lend, uint32_t to, const struct hr_lend_context *context);

/* Numbers for people, and for the tester. */
struct hr_lend_state {
    int64_t home_rate, home_depth, reserve_rate, reserve_depth;
    int64_t lent_rate, lent_depth; /* that may be in force elsewhere; depth with parcels on their way */
    int64_t borrowed_rate, borrowed_depth;
    bool is_quarantined;
};
struct hr_lend_state hr_lend_state(const struct hr_lend *lend);

#endif
