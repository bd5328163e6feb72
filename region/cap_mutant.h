/* Mutants: rules of the global caps that the chaos tester breaks on purpose, one at a time, to show that its checks
 * would notice. Only a build with HEADROOM_MUTANTS has them; in the product each question is the constant false. */
#ifndef HR_REGION_CAP_MUTANT_H
#define HR_REGION_CAP_MUTANT_H

/* name, what is broken */
#define HR_CAP_MUTANT_LIST(X)                                                         \
    X(HR_MUTANT_NONE, "nothing")                                                      \
    X(HR_MUTANT_NO_ACK, "raise before the lowering is acknowledged")                  \
    X(HR_MUTANT_STAMP, "a lease counts from its receipt, not from the echoed stamp")  \
    X(HR_MUTANT_NO_QUARANTINE, "no quarantine after a restart")                       \
    X(HR_MUTANT_REVIVE, "a lapsed lease comes back by a late renewal")                \
    X(HR_MUTANT_FULL_DEPTH, "raised depth arrives full")                              \
    X(HR_MUTANT_OLD_GRANT, "an older grant may overwrite a newer one")                \
    X(HR_MUTANT_NO_ZOMBIE, "a restarted borrower's old loans are forgotten")          \
    X(HR_MUTANT_EARLY_RAISE, "a config is raised before all have lowered")            \
    X(HR_MUTANT_UNSETTLED, "quarantine ends on the word of a freshly restarted peer") \
    X(HR_MUTANT_PARCEL_TWICE, "a parcel is credited by each message")                 \
    X(HR_MUTANT_NO_ROOM, "no room is held for a parcel on its way")                   \
    X(HR_MUTANT_TELL_FIRST, "units are sent before that is durable")                  \
    X(HR_MUTANT_ADD, "received units are added, not merged by the largest")           \
    X(HR_MUTANT_OLD_LIFE, "rows of a dead life are accepted")                         \
    X(HR_MUTANT_MAX, "")

enum hr_cap_mutant {
#define X(name, text) name,
    HR_CAP_MUTANT_LIST(X)
#undef X
};

#ifdef HEADROOM_MUTANTS
extern enum hr_cap_mutant hr_cap_mutant; /* defined by the tester */
#define HR_IS_MUTANT(name) (hr_cap_mutant == (name))
#else
#define HR_IS_MUTANT(name) 0
#endif

#endif
