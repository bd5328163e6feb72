/* Check: the invariants of a simulated cluster, and the checker that holds every answer against them. It sees what
 * clients see (answers), what operators know (which node crashed when, what its disk acknowledged), and nothing from
 * inside a node.
 *
 * A domain is a set of nodes whose counters are one: a region, or a node that is alone. Each domain has a model of
 * every counter (model.h), kept in the time of the node that decided.
 *
 * A crash may make a node forget, so from then on a model is only a bound, until its counter is surely untouched again;
 * else it is exact, and an answer may differ from it neither way: that is what finds a request that was charged twice.
 *
 * Thread: one at a time. Memory: heap. */
#ifndef HR_CHAOS_CHECK_H
#define HR_CHAOS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/units.h"
#include "chaos/universe.h"
#include "rpc/told.h"

/* HR_CHECK_ before it in C, name, what must hold */
#define HR_CHECK_LIST(X)                                                                                            \
    X(ADMITS, "admits-no-more", "over no interval does a counter admit more than its definition")                   \
    X(DENIES, "denies-no-less", "a counter that has room admits: nothing is charged twice, lost, or held back")     \
    X(DURABLE, "crash-forgets-no-more", "after a crash a counter has forgotten no more than its durability allows") \
    X(CLOCKS, "clocks-mint-nothing", "no step of a wall clock and no drift makes a counter admit more")             \
    X(LEASES, "slots-held-once", "no more slots are held than there are, and none beyond its ttl")                  \
    X(ONCE, "charged-once", "a request that is sent again with its id gets its first answer again")                 \
    X(ANSWERS, "every-request-answered", "a node that runs answers every request, within its deadline")             \
    X(QUEUES, "queues-bounded", "no queue of a node grows beyond its bound")                                        \
    X(DEGRADED, "alone-no-more", "a node that cannot ask others admits no more by itself than twice the limit")     \
    X(OWNER, "one-owner", "at no instant do two nodes answer for one partition")                                    \
    X(VIEWS, "views-agree", "once all faults are over, members and owners are agreed on within a bound")            \
    X(HOLDS, "holds-end", "once all faults are over, no hold stays unsettled")                                      \
    X(FACTS, "facts-agree", "a fact never goes back, and once all faults are over every node has the latest")       \
    X(CAP, "cap-holds", "over no interval do all regions together admit more than a global cap")                    \
    X(RESERVE, "reserve-serves", "a region whose nodes are well admits as much as its reserve of a global cap")     \
    X(HEALS, "heals", "once all faults are over, every node answers, and every counter is what its model says it is")

enum hr_check {
#define X(check, name, text) HR_CHECK_##check,
    HR_CHECK_LIST(X)
#undef X
        HR_CHECK_COUNT,
};

struct hr_check_form {
    const char *name, *text;
};
extern const struct hr_check_form hr_check_forms[HR_CHECK_COUNT];

#define HR_VIOLATION_BYTES_MAX 256

struct hr_verdict {
    uint64_t checked, violated;
    hr_ns first_at; /* since the run began; where violated */
    char first[HR_VIOLATION_BYTES_MAX];
};

struct hr_checker;

struct hr_checker_config {
    const struct hr_universe *universe; /* borrowed */
    uint32_t domains;
    hr_ns flush_interval_ns; /* the bound of what a crash forgets: this, and the commit's time */
};

/* NULL: no memory. */
struct hr_checker *hr_checker_new(const struct hr_checker_config *config);
void hr_checker_free(struct hr_checker *checker);

struct hr_decided {
    uint32_t domain;
    const struct hr_shape *shape;
    struct hr_now now; /* of the node that decided */
    hr_ns at;          /* since the run began: for the reader of a violation */
};

/* A decision. The answer's rows are looked at where the shape holds leases. HR_E_MEMORY. */
HR_MUST enum hr_err hr_checker_decide(struct hr_checker *checker, const struct hr_decided *decided,
                                      const struct hr_told_decision *told);

/* A decision of a peek, with all its rows: what is left is held against the models. */
void hr_checker_audit(struct hr_checker *checker, const struct hr_decided *decided, const struct hr_told_decision *told,
                      enum hr_check check);

/* A lease was given back; was it there still? */
void hr_checker_release(struct hr_checker *checker, const struct hr_decided *decided, struct hr_id128 lease,
                        bool was_there);

/* The disk has acknowledged all that changed before this steady time of the domain's node. */
void hr_checker_durable(struct hr_checker *checker, uint32_t domain, hr_ns until);

/* The node of the domain of this index died. */
void hr_checker_crash(struct hr_checker *checker, uint32_t index, struct hr_now now);

/* It is there again. What its disk held as units ahead counts as spent now. */
void hr_checker_restart(struct hr_checker *checker, uint32_t index, struct hr_now now);

/* The domain's wall clock is stepped, or its steady clock changes its speed: called before, and after. */
void hr_checker_stepped(struct hr_checker *checker, uint32_t domain, struct hr_now now);

/* Whatever else is checked: counts, and where it does not hold notes the text. */
__attribute__((format(printf, 5, 6))) void hr_checker_note(struct hr_checker *checker, enum hr_check check, bool holds,
                                                           hr_ns at, const char *format, ...);

const struct hr_verdict *hr_checker_verdicts(const struct hr_checker *checker);

/* The invariant that was violated first; HR_CHECK_COUNT: none was. */
enum hr_check hr_checker_first(const struct hr_checker *checker);

#endif
