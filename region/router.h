/* Router: takes each request to where it can be decided, and its answer back.
 *
 * A request whose counters are all answered for here is decided by the shard alone, at no cost. Else it goes to the
 * owner of the first counter that it touches (CALL), so that a retry of the same request, through whatever node, meets
 * the same memory of earlier answers. That node decides alone, where it owns all the counters, or leads a hold over
 * their owners (holds.h). The answer (ANSWER) goes straight to the node that was asked.
 *
 *  - A call is sent on at most HR_CALL_HOPS_MAX times; a call that came before is not carried out again.
 *  - A partition that is just moving keeps its requests for a moment.
 *  - Where the owner does not answer by the deadline, this node decides itself, with that owner's limits by their
 *    on_unavailable. Nothing is ever sent again that could charge twice at one counter, and no node carries out what
 *    came to it so late that its sender may have decided it: a letter says how old its calls are (call_wire.h).
 *  - Of a check_many each request goes its own way; all calls of one turn to one member leave in one letter.
 *
 * What is READY comes out of next_ready, several at a time, so that the node's core can read them together;
 * hr_router_go then says of each what is to be done on this node, if anything:
 *
 *   KEPT <---> READY ---> LOCAL (shard, or lead) ---> ANSWERED
 *                |                                        ^
 *                `-------> ASKING (another node) ---------'
 *
 * Whoever knows already which counters a request touches (limiter.h, hr_limiter_prepare) says so: it is then not read
 * again only to find its way.
 *
 * Thread: the owner's. Pure. Memory: handed in. Time: supplied. */
#ifndef HR_REGION_ROUTER_H
#define HR_REGION_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bump.h"
#include "base/units.h"
#include "gossip/member.h"
#include "gossip/outbox.h"
#include "limiter/limiter.h"
#include "region/holds.h"
#include "region/place.h"
#include "rpc/fault.h"
#include "rpc/method.h"
#include "rpc/pack_msgpack.h"

#define HR_CALL_DEADLINE_NS (20 * HR_NS_PER_MS)

#define HR_ROUTER_GATHERS_MAX 64U

/* Beyond its deadline a request is kept for at most so long while a partition of its counters moves. */
#define HR_CALL_KEPT_NS (500 * HR_NS_PER_MS)

struct hr_router_config {
    uint32_t jobs_max;          /* requests on their way; a check_many is as many as it holds */
    uint32_t gathers_max;       /* check_many on their way; 0: HR_ROUTER_GATHERS_MAX */
    hr_ns deadline_ns;          /* for another node's answer; 0: HR_CALL_DEADLINE_NS */
    uint64_t first_id;          /* random, so that calls of two lives never share an id */
    struct hr_limiter *limiter; /* this and all below is borrowed for the life of the router */
    const struct hr_members *members;
    struct hr_places places;
    struct hr_outbox *outbox;
    const struct hr_holds *holds; /* whose holds may be in a request's way */

    /* The members are: each letter arrives, once, and who asked waits. So what came is not looked for among what came
     * before, and a call for which there is no room is answered, not dropped. */
    bool is_one_process;
};

struct hr_router;

/* A client's request: whom to answer. */
struct hr_asker {
    uint64_t connection, msgid;
    enum hr_method method;
};

enum hr_local_kind {
    HR_LOCAL_SERVE, /* let the shard carry it out */
    HR_LOCAL_LEAD,  /* lead a hold over its owners */
};

/* A request whose way is to be found. */
struct hr_ready {
    uint64_t job;
    enum hr_method method;
    struct hr_span params; /* good until the job is done */
};

/* Something to be done here: hr_router_done says what came of it. */
struct hr_local {
    enum hr_local_kind kind;
    uint64_t job;
    enum hr_method method;
    struct hr_span params; /* good until done */
    hr_ns deadline;
    bool has_id;            /* of a lead; this and the next two */
    enum hr_hold_verb verb; /* of a lead; this and the next two */
    uint64_t silent;        /* as for hr_lead_request */
    hr_ns expires_at;
};

struct hr_router_counts {
    uint64_t here;      /* requests that the shard could decide at once */
    uint64_t sent;      /* calls to other nodes, those sent on included */
    uint64_t received;  /* calls of other nodes */
    uint64_t repeated;  /* calls that had come before */
    uint64_t late;      /* calls that came, or would have been carried out, after their time */
    uint64_t kept;      /* requests that waited for a partition, or for another's hold */
    uint64_t led;       /* handed to holds */
    uint64_t silent;    /* calls without an answer by the deadline */
    uint64_t refused;   /* requests for which there was no room */
    uint64_t malformed; /* letters that make no sense */
    uint64_t letters;   /* of calls and answers, written */
};

/* Takes its memory, zero-filled, from the bump; while that only measures, it returns NULL. */
struct hr_router *hr_router_init(const struct hr_router_config *config, struct hr_bump *bump);

/* May the shard decide this request at once? Also where it is not valid: the shard says so. */
bool hr_router_is_here(struct hr_router *router, enum hr_method method, struct hr_span params, struct hr_now now);

/* Takes a client's request on its way. `known`: the counters that it touches, by the limits in force; or NULL. False:
 * there is no room. */
bool hr_router_take(struct hr_router *router, const struct hr_asker *asker, struct hr_span params,
                    const struct hr_prepared *known, struct hr_now now);

/* A letter of kind CALL or ANSWER. */
void hr_router_receive(struct hr_router *router, uint64_t from, enum hr_letter_kind kind, struct hr_span body,
                       struct hr_now now);

/* The next requests whose way is to be found; returns how many. Each is to be handed to hr_router_go. */
uint32_t hr_router_next_ready(struct hr_router *router, struct hr_ready *ret_ready, uint32_t count_max);

/* Sends the request of that job where it can be decided. `known` as for take. True: that is here. */
bool hr_router_go(struct hr_router *router, uint64_t id, const struct hr_prepared *known, struct hr_now now,
                  struct hr_local *ret_local);

/* What came of the job of that id: a result, as MessagePack, or the text of a fault. One that is not known any more is
 * ignored. */
void hr_router_done(struct hr_router *router, uint64_t id, struct hr_span bytes, bool is_fault);
void hr_router_fail(struct hr_router *router, uint64_t id, enum hr_code code, const char *words);

/* May it still be carried out? Ask before what has waited is. */
bool hr_router_is_in_time(const struct hr_router *router, uint64_t id, hr_ns now);

/* It cannot be done just now: it comes again a little later, until it has been kept for long enough; `why` is what is
 * said then. */
void hr_router_keep(struct hr_router *router, uint64_t id, const char *why, struct hr_now now);

/* The next answer to a client, whole. Those to one connection come one after another. False: none is ready. */
bool hr_router_next_answer(struct hr_router *router, struct hr_packer *out, struct hr_asker *ret_asker);

/* Writes what is to go to other members into the outbox: after each turn, before its letters are sent. */
void hr_router_flush(struct hr_router *router, struct hr_now now);

/* The same for one letter at most, where the outbox has just been emptied: none is lost then. False: there was none. */
bool hr_router_flush_one(struct hr_router *router, struct hr_now now);

void hr_router_tick(struct hr_router *router, struct hr_now now);
hr_ns hr_router_deadline(const struct hr_router *router);

struct hr_router_counts hr_router_counts(const struct hr_router *router);
uint32_t hr_router_job_count(const struct hr_router *router);

#endif
