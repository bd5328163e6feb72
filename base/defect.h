/* Defects: deliberate ones, so that the simulator can prove that it would find them. They exist only in builds with
 * HEADROOM_DEFECTS, which nobody installs; everywhere else hr_defect(NAME) is 0, and the compiler drops what it guards.
 *
 *     if (hr_defect(FREE_TOKENS)) {
 *         cost = 1;
 *     }
 *
 * Thread: chosen once, before any node starts. */
#ifndef HR_BASE_DEFECT_H
#define HR_BASE_DEFECT_H

/* HR_DEFECT_ before it in C, name, what is wrong */
#define HR_DEFECT_LIST(X)                                                                              \
    X(FREE_TOKENS, "free-tokens", "a bucket charges one token, whatever a request costs")              \
    X(WINDOW_FORGETS, "window-forgets", "a sliding window forgets what the window before it admitted") \
    X(LOG_FORGETS, "log-forgets", "a sliding log drops an entry after half of its period")             \
    X(QUOTA_REOPENS, "quota-reopens", "a clock that is stepped back reopens a spent period")           \
    X(WALL_RATES, "wall-rates", "rates run on the wall clock")                                         \
    X(SLOT_STAYS, "slot-stays", "a lease does not end with its ttl")                                   \
    X(SLOT_TWICE, "slot-twice", "a lease holds one slot less than it was granted")                     \
    X(ID_FORGETS, "id-forgets", "the answer to a request with an id is kept for one second")           \
    X(SYNC_BELIEVED, "sync-believed", "a batch whose sync failed is taken as stored")                  \
    X(MARK_EARLY, "mark-early", "units ahead are spent before the store knows of them")                \
    X(RESTORE_DRAINS, "restore-drains", "a counter that is restored has drained for twice its time")   \
    X(DENIED_CHARGES, "denied-charges", "a request that is denied is charged all the same")            \
    X(LEASE_ALONE, "lease-alone", "a node needs no majority for its lease")                            \
    X(EVICTS_EARLY, "evicts-early", "a node is replaced before its lease is over")                     \
    X(CHARTER_OLDER, "charter-older", "of two charters the older holds, if it is heard of later")      \
    X(HANDOVER_LOSES, "handover-loses", "a hand-over takes no counters with it")                       \
    X(COPY_DROPPED, "copy-dropped", "a standby gets no copies")                                        \
    X(HOLD_TWICE, "hold-twice", "a hold that is asked for again is taken again")                       \
    X(COMMIT_GIVES, "commit-gives", "a hold that is committed is given back")                          \
    X(SETTLE_LOST, "settle-lost", "a hold is said to be settled, and is not")                          \
    X(SILENCE_WAITS, "silence-waits", "a node that does not answer is waited for without end")         \
    X(SHARE_FREE, "share-free", "what a node decides alone charges nothing")                           \
    X(FACT_OLDER, "fact-older", "of two versions of a fact the older holds")                           \
    X(NEVER_REFUTES, "never-refutes", "a node does not deny that it is dead")                          \
    X(CAP_WHOLE, "cap-whole", "each region takes the whole of a global cap for its own")               \
    X(CAP_PART, "cap-part", "a region has an eighth of its part of a global cap")                      \
    X(CAP_LENT, "cap-lent", "a region lends its reserve too")

enum hr_defect {
    HR_DEFECT_NONE,
#define X(defect, name, text) HR_DEFECT_##defect,
    HR_DEFECT_LIST(X)
#undef X
        HR_DEFECT_COUNT,
};

#ifdef HEADROOM_DEFECTS
#include <stdbool.h>

struct hr_defect_form {
    const char *name, *text;
};
extern const struct hr_defect_form hr_defect_forms[HR_DEFECT_COUNT];
extern enum hr_defect hr_defect_chosen;

/* By name. False: there is no such defect. */
bool hr_defect_choose(const char *name);

#define hr_defect(defect) (hr_defect_chosen == HR_DEFECT_##defect)
#else
#define hr_defect(defect) 0
#endif

#endif
