#include "region/router.h"

#include <string.h>

#include "base/defect.h"
#include "region/blocks.h"
#include "region/call_wire.h"
#include "region/recent.h"
#include "rpc/message.h"
#include "rpc/params.h"

/* What is kept is looked at again so soon; or after so great a part of the time that it has waited, if that is more. */
#define AGAIN_NS (HR_NS_PER_MS / 2)
#define AGAIN_PARTS 16

/* Calls and answers of one letter together; one that is longer goes alone. */
#define LETTER_BYTES 65536U

/* Of what is left of a deadline the owner has one part of so many: the rest is for the answer's way. */
#define WAY_PARTS 2

/* What is to be sent is sorted roughly by where it goes, and answers by connection: each has one of so many lists. */
#define LISTS 32U

/* Calls of a letter that are read at a time. */
#define CALLS_AHEAD 16U

#define NONE UINT32_MAX

enum job_state { FREE, READY, KEPT, LOCAL, ASKING, ANSWERED, OVER };

/* One request on its way: a client's, one of a client's check_many, or another node's. */
struct job {
    enum job_state state;
    uint64_t id; /* names this use of the entry: its index is id modulo the count */
    enum hr_method method;
    uint8_t hops; /* how often it was sent before it came here; 0: it is a client's */
    enum hr_call_verdict verdict;
    bool is_out;
    struct hr_kept params, answer;
    hr_ns deadline, resume_at, keep_until;
    hr_ns expires_at;           /* of another node's: who waits for it waits no longer than until then */
    uint64_t origin, origin_id; /* of another node's: who waits, and its name there */
    uint64_t target, silent;    /* ASKING: who was asked; who has not answered before */
    uint64_t via;               /* of another node's: who sent it here */
    struct hr_asker asker;      /* of a client's */
    uint32_t gather;            /* of a check_many; NONE: it is a request by itself */
    uint32_t next_part;         /* of the same check_many */
    uint32_t next, next_out;    /* of the ready, answered or free list; of those that are to be sent */
    uint32_t place;             /* in `active` */
};

/* A client's check_many, whose parts are jobs. */
struct gather {
    struct hr_asker asker;
    uint32_t first, last; /* parts, in order */
    uint32_t count, left;
    uint32_t next; /* of the answered or free list */
};

struct list {
    uint32_t head, tail;
};

/* Lists, and which of them are not empty. */
struct lists {
    struct list all[LISTS];
    uint32_t mask;
};

struct hr_router {
    struct hr_router_config config;
    struct hr_blocks blocks;
    struct hr_recent seen; /* calls of other nodes */
    struct job *jobs;
    uint32_t *active;
    uint32_t active_count, job_fresh, job_free, gather_free, kept_count;
    struct gather *gathers;
    struct list ready, gathered;
    struct lists answered, out;
    hr_ns wake_at; /* nothing is to be done with time before */
    struct hr_router_counts counts;
    struct hr_params params, part; /* scratch */
    struct hr_touches touches;
    struct hr_decision decision;
    uint8_t letter[HR_LETTER_BYTES_MAX];
};

/* --- memory --- */

struct hr_router *hr_router_init(const struct hr_router_config *config, struct hr_bump *bump)
{
    struct hr_router parts = {.config = *config, .job_free = NONE, .wake_at = INT64_MAX};
    struct hr_router *router = hr_bump_take(bump, 1, sizeof(*router), 64);
    parts.config.deadline_ns = config->deadline_ns > 0 ? config->deadline_ns : HR_CALL_DEADLINE_NS;
    uint32_t gathers_max = config->gathers_max > 0 ? config->gathers_max : HR_ROUTER_GATHERS_MAX;
    hr_blocks_init(&parts.blocks, 2 * config->jobs_max, bump);
    uint32_t recent = 1024;
    while (recent < 2 * config->jobs_max) {
        recent *= 2;
    }
    hr_recent_init(&parts.seen, recent, bump);
    parts.jobs = hr_bump_take(bump, config->jobs_max, sizeof(struct job), 64);
    parts.active = hr_bump_take(bump, config->jobs_max, sizeof(uint32_t), 64);
    parts.gathers = hr_bump_take(bump, gathers_max, sizeof(struct gather), 64);
    parts.ready = parts.gathered = (struct list){NONE, NONE};
    for (uint32_t i = 0; i < LISTS; i++) {
        parts.answered.all[i] = parts.out.all[i] = parts.ready;
    }
    if (router == NULL) {
        return NULL;
    }
    *router = parts;
    for (uint32_t i = 0; i < gathers_max; i++) {
        router->gathers[i].next = i + 1 < gathers_max ? i + 1 : NONE;
    }
    return router;
}

static uint32_t index_of(const struct hr_router *router, const struct job *job)
{
    return (uint32_t)(job - router->jobs);
}

static struct job *new_job(struct hr_router *router, enum hr_method method, struct hr_span params)
{
    uint32_t index = router->job_free;
    struct hr_kept kept;
    bool is_free = index != NONE || router->job_fresh < router->config.jobs_max;
    if (!is_free || params.bytes > HR_CALL_PARAMS_BYTES_MAX || !hr_blocks_keep(&router->blocks, params, &kept)) {
        router->counts.refused++;
        return NULL;
    }
    if (index != NONE) {
        router->job_free = router->jobs[index].next;
    } else {
        index = router->job_fresh++;
        router->jobs[index].id = router->config.first_id / router->config.jobs_max * router->config.jobs_max + index;
    }
    struct job *job = &router->jobs[index];
    uint64_t id = job->id + router->config.jobs_max;
    *job = (struct job){.id = id, .method = method, .params = kept, .gather = NONE, .next_part = NONE};
    job->expires_at = INT64_MAX;
    job->place = router->active_count;
    router->active[router->active_count++] = index;
    return job;
}

static void free_job(struct hr_router *router, struct job *job)
{
    hr_blocks_free(&router->blocks, &job->params);
    hr_blocks_free(&router->blocks, &job->answer);
    if (job->is_out) {
        job->state = OVER; /* flush frees it */
        return;
    }
    uint32_t last = router->active[--router->active_count];
    router->active[job->place] = last;
    router->jobs[last].place = job->place;
    job->state = FREE;
    job->next = router->job_free;
    router->job_free = index_of(router, job);
}

static struct job *find_job(struct hr_router *router, uint64_t id)
{
    struct job *job = &router->jobs[id % router->config.jobs_max];
    return job->state != FREE && job->state != OVER && job->id == id ? job : NULL;
}

static void push_job(struct hr_router *router, struct list *list, struct job *job)
{
    uint32_t index = index_of(router, job);
    job->next = NONE;
    if (list->tail == NONE) {
        list->head = index;
    } else {
        router->jobs[list->tail].next = index;
    }
    list->tail = index;
}

/* Requires: it is not empty. */
static struct job *pop_job(struct hr_router *router, struct list *list)
{
    struct job *job = &router->jobs[list->head];
    list->head = job->next;
    list->tail = list->head == NONE ? NONE : list->tail;
    return job;
}

static void make_ready(struct hr_router *router, struct job *job)
{
    router->kept_count -= job->state == KEPT;
    job->state = READY;
    push_job(router, &router->ready, job);
}

/* Which list, of the lowest bits of a number that tells two apart. */
static uint32_t list_of(uint64_t number)
{
    return (uint32_t)(number ^ number >> 32) % LISTS;
}

static void append_out(struct hr_router *router, struct list *list, struct job *job)
{
    uint32_t index = index_of(router, job);
    job->next_out = NONE;
    if (list->tail == NONE) {
        list->head = index;
    } else {
        router->jobs[list->tail].next_out = index;
    }
    list->tail = index;
}

static void put_out(struct hr_router *router, struct job *job)
{
    if (job->is_out) {
        return;
    }
    uint32_t list = list_of(2 * job->target + (job->state == ASKING));
    job->is_out = true;
    router->out.mask |= 1U << list;
    append_out(router, &router->out.all[list], job);
}

/* Something is to be done at that time. */
static void wake_by(struct hr_router *router, hr_ns at)
{
    router->wake_at = at < router->wake_at ? at : router->wake_at;
}

/* --- answers --- */

static void answer_part(struct hr_router *router, struct job *job)
{
    struct gather *gather = &router->gathers[job->gather];
    if (--gather->left > 0) {
        return;
    }
    gather->next = NONE;
    if (router->gathered.tail == NONE) {
        router->gathered.head = job->gather;
    } else {
        router->gathers[router->gathered.tail].next = job->gather;
    }
    router->gathered.tail = job->gather;
}

static void answer(struct hr_router *router, struct job *job, struct hr_span bytes, enum hr_call_verdict verdict)
{
    static const struct hr_span no_room = {"RESOURCE_EXHAUSTED: no room for an answer", 41};
    router->kept_count -= job->state == KEPT;
    job->state = ANSWERED;
    job->verdict = verdict;
    hr_blocks_free(&router->blocks, &job->params);
    hr_blocks_free(&router->blocks, &job->answer);
    if (!hr_blocks_keep(&router->blocks, bytes, &job->answer)) {
        job->verdict = HR_VERDICT_FAULT;
        (void)hr_blocks_keep(&router->blocks, no_room, &job->answer); /* the params have just made room */
    }
    if (job->hops > 0) {
        job->target = job->origin;
        put_out(router, job);
    } else if (job->gather != NONE) {
        answer_part(router, job);
    } else {
        uint32_t list = list_of(job->asker.connection);
        router->answered.mask |= 1U << list;
        push_job(router, &router->answered.all[list], job);
    }
}

static void fail(struct hr_router *router, struct job *job, enum hr_code code, const char *words)
{
    struct hr_fault fault;
    hr_fault_set(&fault, code, words);
    char text[HR_CODE_BYTES_MAX + 2 + HR_FAULT_BYTES_MAX];
    struct hr_packer out = {.at = text, .room = sizeof(text)};
    struct hr_span name = hr_code_name(code);
    hr_pack_raw(&out, name.at, name.bytes);
    hr_pack_raw(&out, ": ", 2);
    hr_pack_raw(&out, fault.text, fault.bytes);
    answer(router, job, hr_packer_bytes(&out), HR_VERDICT_FAULT);
}

/* What another node waits for, or waited, is not carried out any more. */
static bool is_late(const struct job *job, hr_ns now)
{
    return job->hops > 0 && now >= job->deadline;
}

/* It is too late to carry it out, and nothing was done: who still waits for it may ask again. */
static void put_off(struct hr_router *router, struct job *job)
{
    router->counts.late++;
    answer(router, job, HR_SPAN(""), HR_VERDICT_NOT_NOW);
}

void hr_router_done(struct hr_router *router, uint64_t id, struct hr_span bytes, bool is_fault)
{
    struct job *job = find_job(router, id);
    if (job != NULL && job->state == LOCAL) {
        answer(router, job, bytes, is_fault ? HR_VERDICT_FAULT : HR_VERDICT_RESULT);
    }
}

void hr_router_fail(struct hr_router *router, uint64_t id, enum hr_code code, const char *words)
{
    struct job *job = find_job(router, id);
    if (job != NULL && job->state == LOCAL) {
        fail(router, job, code, words);
    }
}

bool hr_router_is_in_time(const struct hr_router *router, uint64_t id, hr_ns now)
{
    const struct job *job = &router->jobs[id % router->config.jobs_max];
    return job->id == id && job->state == LOCAL && !is_late(job, now);
}

/* The text `CODE: message` as a fault again. */
static void read_fault(struct hr_span text, struct hr_fault *fault)
{
    const char *colon = text.bytes > 0 ? memchr(text.at, ':', text.bytes) : NULL;
    size_t name_bytes = colon == NULL ? 0 : (size_t)(colon - text.at);
    enum hr_code code = HR_CODE_INTERNAL;
    if (colon == NULL || name_bytes + 2 > text.bytes || !hr_code_find((struct hr_span){text.at, name_bytes}, &code)) {
        hr_fault_set(fault, HR_CODE_INTERNAL, "another node's answer makes no sense");
        return;
    }
    hr_fault_begin(fault, code);
    hr_fault_add_text(fault, (struct hr_span){colon + 2, text.bytes - name_bytes - 2});
}

static void pack_answer(const struct hr_router *router, const struct job *job, struct hr_packer *out)
{
    struct hr_span bytes = hr_blocks_bytes(&router->blocks, job->answer);
    if (job->verdict == HR_VERDICT_RESULT) {
        hr_pack_result_head(out, job->asker.msgid);
        hr_pack_raw(out, bytes.at, bytes.bytes);
        return;
    }
    struct hr_fault fault;
    read_fault(bytes, &fault);
    hr_pack_error(out, job->asker.msgid, &fault);
}

static void pack_part(const struct hr_router *router, const struct job *job, struct hr_packer *out)
{
    struct hr_span bytes = hr_blocks_bytes(&router->blocks, job->answer);
    if (job->verdict == HR_VERDICT_RESULT) {
        hr_pack_raw(out, bytes.at, bytes.bytes);
        return;
    }
    struct hr_fault fault;
    read_fault(bytes, &fault);
    hr_pack_refusal(out, &fault);
}

static void free_gather(struct hr_router *router, uint32_t index)
{
    struct gather *gather = &router->gathers[index];
    for (uint32_t part = gather->first; part != NONE;) {
        uint32_t next = router->jobs[part].next_part;
        free_job(router, &router->jobs[part]);
        part = next;
    }
    gather->next = router->gather_free;
    router->gather_free = index;
}

static bool next_gathered(struct hr_router *router, struct hr_packer *out, struct hr_asker *ret_asker)
{
    uint32_t index = router->gathered.head;
    if (index == NONE) {
        return false;
    }
    struct gather *gather = &router->gathers[index];
    router->gathered.head = gather->next;
    router->gathered.tail = gather->next == NONE ? NONE : router->gathered.tail;
    *ret_asker = gather->asker;
    hr_pack_result_head(out, gather->asker.msgid);
    hr_pack_array(out, gather->count);
    for (uint32_t part = gather->first; part != NONE; part = router->jobs[part].next_part) {
        pack_part(router, &router->jobs[part], out);
    }
    if (!hr_packer_fits(out)) {
        struct hr_fault fault;
        hr_fault_set(&fault, HR_CODE_RESOURCE_EXHAUSTED, "the answer is longer than a message may be");
        out->wanted = 0;
        hr_pack_error(out, gather->asker.msgid, &fault);
    }
    free_gather(router, index);
    return true;
}

bool hr_router_next_answer(struct hr_router *router, struct hr_packer *out, struct hr_asker *ret_asker)
{
    if (router->answered.mask == 0) {
        return next_gathered(router, out, ret_asker);
    }
    uint32_t list = (uint32_t)__builtin_ctz(router->answered.mask);
    struct job *job = pop_job(router, &router->answered.all[list]);
    router->answered.mask &= ~((uint32_t)(router->answered.all[list].head == NONE) << list);
    *ret_asker = job->asker;
    pack_answer(router, job, out);
    free_job(router, job);
    return true;
}

/* --- which counters, and where --- */

enum touch { TOUCH_COUNTERS, TOUCH_ONE, TOUCH_NOTHING };

/* What decides where the request goes: touches, or the id of one counter or lease. TOUCH_NOTHING: it is not valid, and
 * the shard will say so. */
static enum touch look_at(struct hr_router *router, enum hr_method method, const struct hr_params *params,
                          struct hr_id128 *ret_one)
{
    struct hr_request request = hr_params_request(params, 0);
    switch ((int)method) {
    case HR_METHOD_CHECK:
    case HR_METHOD_REFUND:
        return hr_limiter_touches(router->config.limiter, &request, &router->touches) == HR_OK ? TOUCH_COUNTERS
                                                                                               : TOUCH_NOTHING;
    case HR_METHOD_THROTTLE:
        *ret_one = hr_limiter_spot_counter(router->config.limiter, params->key);
        return TOUCH_ONE;
    case HR_METHOD_RELEASE:
    case HR_METHOD_RENEW:
        *ret_one = params->lease;
        return TOUCH_ONE;
    default:
        return TOUCH_NOTHING;
    }
}

static bool are_here(const struct hr_router *router, hr_ns now)
{
    for (uint32_t i = 0; i < router->touches.count; i++) {
        if (hr_place_of(&router->config.places, router->touches.at[i].counter, now).kind != HR_PLACE_HERE) {
            return false;
        }
    }
    return true;
}

static bool is_one_here(struct hr_router *router, enum hr_method method, const struct hr_params *params,
                        struct hr_now now)
{
    struct hr_id128 one = {0, 0};
    switch (look_at(router, method, params, &one)) {
    case TOUCH_COUNTERS:
        return are_here(router, now.steady) && !hr_holds_are_in_the_way(router->config.holds, &router->touches);
    case TOUCH_ONE:
        return hr_place_of(&router->config.places, one, now.steady).kind == HR_PLACE_HERE;
    case TOUCH_NOTHING:
        break;
    }
    return true;
}

bool hr_router_is_here(struct hr_router *router, enum hr_method method, struct hr_span params, struct hr_now now)
{
    struct hr_fault fault;
    bool is_here = true;
    if (method <= HR_METHOD_REFUND && hr_params_decode(method, params, &router->params, &fault)) {
        struct hr_requests requests = router->params.requests;
        is_here = method == HR_METHOD_CHECK_MANY || is_one_here(router, method, &router->params, now);
        while (method == HR_METHOD_CHECK_MANY && is_here && hr_requests_next(&requests, &router->part)) {
            is_here = is_one_here(router, HR_METHOD_CHECK, &router->part, now);
        }
    }
    router->counts.here += is_here;
    return is_here;
}

/* --- what to do with one --- */

/* What has waited for long waits a little longer, for it is read each time that it is looked at; and what is to be
 * looked at at about one time is looked at together, lest a crowd that waits takes a turn of the node for each. */
static void keep(struct hr_router *router, struct job *job, hr_ns now)
{
    hr_ns waited = now - (job->keep_until - HR_CALL_KEPT_NS);
    hr_ns wait = waited / AGAIN_PARTS > AGAIN_NS ? waited / AGAIN_PARTS : AGAIN_NS;
    job->state = KEPT;
    job->resume_at = (now + wait) / AGAIN_NS * AGAIN_NS;
    wake_by(router, job->resume_at);
    router->kept_count++;
    router->counts.kept++;
}

void hr_router_keep(struct hr_router *router, uint64_t id, const char *why, struct hr_now now)
{
    struct job *job = find_job(router, id);
    if (job == NULL || job->state != LOCAL) {
        return;
    }
    if (is_late(job, now.steady)) {
        put_off(router, job);
        return;
    }
    if (now.steady >= job->keep_until) {
        fail(router, job, HR_CODE_UNAVAILABLE, why);
        return;
    }
    job->deadline = job->hops == 0 ? now.steady + router->config.deadline_ns : job->deadline;
    keep(router, job, now.steady);
}

/* While a partition moves its requests wait, and no deadline runs but that of a node that waits for an answer. */
static void keep_moving(struct hr_router *router, struct job *job, hr_ns now)
{
    if (is_late(job, now)) {
        put_off(router, job);
        return;
    }
    if (now >= job->keep_until) {
        fail(router, job, HR_CODE_UNAVAILABLE, "its counters are being moved");
        return;
    }
    if (job->hops == 0) {
        job->deadline = now + router->config.deadline_ns;
    }
    keep(router, job, now);
}

static void ask(struct hr_router *router, struct job *job, uint64_t member, hr_ns now)
{
    if (is_late(job, now)) {
        put_off(router, job);
        return;
    }
    if (job->hops >= HR_CALL_HOPS_MAX || now >= job->deadline) {
        fail(router, job, HR_CODE_UNAVAILABLE, "the nodes do not agree yet on who owns its counters");
        return;
    }
    job->state = ASKING;
    job->target = member;
    wake_by(router, job->deadline);
    router->counts.sent++;
    put_out(router, job);
}

static uint64_t self_of(const struct hr_router *router)
{
    return router->config.members->all[router->config.members->self].id;
}

/* Where its counters are. */
struct course {
    bool is_moving, is_all_here;
    uint32_t count;
    uint64_t first; /* who owns the first that somebody who can be asked owns; this node; or 0: nobody */
};

static void add_to_course(struct hr_router *router, const struct job *job, struct hr_id128 id, hr_ns now,
                          struct course *course)
{
    bool is_first = course->count++ == 0;
    struct hr_place place = hr_place_of(&router->config.places, id, now);
    /* Who sent this here, for its first counter, has just passed that on: the word of it is on its way. */
    bool is_passed_on = is_first && place.kind == HR_PLACE_AT && place.member == job->via;
    bool can_ask = place.kind == HR_PLACE_HERE || (place.kind == HR_PLACE_AT && place.member != job->silent);
    course->is_moving |= place.kind == HR_PLACE_MOVING || is_passed_on;
    course->is_all_here &= place.kind == HR_PLACE_HERE;
    if (can_ask && course->first == 0) {
        course->first = place.kind == HR_PLACE_HERE ? self_of(router) : place.member;
    }
}

/* A request that is denied now, but for another's hold would perhaps fit. */
static bool is_held_up(struct hr_router *router, const struct job *job, struct hr_now now)
{
    if (job->method != HR_METHOD_CHECK || !hr_holds_are_in_the_way(router->config.holds, &router->touches)) {
        return false;
    }
    struct hr_request request = hr_params_request(&router->params, 0);
    request.peek = request.brief = true;
    return hr_limiter_check(router->config.limiter, &request, now, &router->decision) == HR_OK &&
           !router->decision.allowed;
}

/* False: it comes too late. */
static bool hand_out(struct hr_router *router, struct job *job, enum hr_local_kind kind, hr_ns now,
                     struct hr_local *ret_local)
{
    if (is_late(job, now)) {
        put_off(router, job);
        return false;
    }
    job->state = LOCAL;
    *ret_local = (struct hr_local){
        .kind = kind,
        .job = job->id,
        .method = job->method,
        .params = hr_blocks_bytes(&router->blocks, job->params),
        .deadline = job->deadline,
        .silent = job->silent,
        .expires_at = job->expires_at,
    };
    return true;
}

/* Requires: router->params are the job's. */
static bool lead(struct hr_router *router, struct job *job, hr_ns now, struct hr_local *ret_local)
{
    if (!hand_out(router, job, HR_LOCAL_LEAD, now, ret_local)) {
        return false;
    }
    router->counts.led++;
    if (job->method == HR_METHOD_REFUND) {
        ret_local->verb = HR_HOLD_REFUND;
    } else {
        ret_local->verb = router->params.peek ? HR_HOLD_PEEK : HR_HOLD_TAKE;
    }
    ret_local->has_id = router->params.id.bytes > 0;
    return true;
}

/* All counters are here: the shard's. */
static bool serve(struct hr_router *router, struct job *job, struct hr_now now, struct hr_local *ret_local)
{
    if (is_held_up(router, job, now)) {
        if (now.steady < job->deadline) {
            keep(router, job, now.steady);
        } else {
            fail(router, job, HR_CODE_UNAVAILABLE, "other requests hold its counters");
        }
        return false;
    }
    return hand_out(router, job, HR_LOCAL_SERVE, now.steady, ret_local);
}

/* Another node leads, or decides alone. */
static bool goes_elsewhere(const struct hr_router *router, const struct course *course)
{
    return !course->is_moving && course->first != 0 && course->first != self_of(router);
}

/* Does any hold that is open keep it from being decided? Perhaps not, but then that is to be looked at more closely. */
static bool may_be_held_up(const struct hr_router *router, const struct hr_prepared *known)
{
    for (uint32_t i = 0; i < known->count; i++) {
        if (hr_holds_has(router->config.holds, known->ids[i])) {
            return true;
        }
    }
    return false;
}

/* Does without reading the request what can be done so. False: it must be read; where it is known, that is because
 * *ret_course leads over several owners, or a hold may be in the way. */
static bool go_by_known(struct hr_router *router, struct job *job, const struct hr_prepared *known, hr_ns now,
                        struct course *ret_course)
{
    struct course course = {.is_all_here = true};
    for (uint32_t i = 0; known != NULL && i < known->count; i++) {
        add_to_course(router, job, known->ids[i], now, &course);
    }
    *ret_course = course;
    if (known == NULL) {
        return false;
    }
    if (course.is_moving) {
        keep_moving(router, job, now);
        return true;
    }
    if (goes_elsewhere(router, &course)) {
        ask(router, job, course.first, now);
        return true;
    }
    return course.is_all_here && !may_be_held_up(router, known);
}

/* Reads a request, and finds out where its counters are. */
static enum touch explore(struct hr_router *router, const struct job *job, hr_ns now, struct course *course)
{
    struct hr_fault fault;
    struct hr_id128 one = {0, 0};
    struct hr_span params = hr_blocks_bytes(&router->blocks, job->params);
    enum touch touch = hr_params_decode(job->method, params, &router->params, &fault)
                           ? look_at(router, job->method, &router->params, &one)
                           : TOUCH_NOTHING;
    uint32_t count = touch == TOUCH_COUNTERS ? router->touches.count : 0;
    for (uint32_t i = 0; i < count; i++) {
        add_to_course(router, job, router->touches.at[i].counter, now, course);
    }
    if (touch == TOUCH_ONE) {
        add_to_course(router, job, one, now, course);
    }
    return touch;
}

/* True: there is something to be done here. */
static bool go(struct hr_router *router, struct job *job, struct hr_now now, struct hr_local *ret_local)
{
    struct course course = {.is_all_here = true};
    enum touch touch = explore(router, job, now.steady, &course);
    if (course.is_moving) {
        keep_moving(router, job, now.steady);
        return false;
    }
    if (course.is_all_here) {
        return serve(router, job, now, ret_local);
    }
    if (goes_elsewhere(router, &course)) {
        ask(router, job, course.first, now.steady);
        return false;
    }
    if (touch == TOUCH_ONE) {
        fail(router, job, job->silent != 0 ? HR_CODE_DEADLINE_EXCEEDED : HR_CODE_UNAVAILABLE,
             "the node that owns it cannot be asked");
        return false;
    }
    return lead(router, job, now.steady, ret_local);
}

/* It is known to have several owners: it is read only for what else it says. */
static bool lead_known(struct hr_router *router, struct job *job, hr_ns now, struct hr_local *ret_local)
{
    struct hr_fault fault;
    struct hr_span params = hr_blocks_bytes(&router->blocks, job->params);
    return hr_params_decode(job->method, params, &router->params, &fault) && lead(router, job, now, ret_local);
}

bool hr_router_go(struct hr_router *router, uint64_t id, const struct hr_prepared *known, struct hr_now now,
                  struct hr_local *ret_local)
{
    struct course course;
    struct job *job = find_job(router, id);
    if (job == NULL || job->state != READY) {
        return false;
    }
    if (go_by_known(router, job, known, now.steady, &course)) {
        return course.is_all_here && hand_out(router, job, HR_LOCAL_SERVE, now.steady, ret_local);
    }
    bool is_led = known != NULL && !course.is_all_here;
    return is_led ? lead_known(router, job, now.steady, ret_local) : go(router, job, now, ret_local);
}

uint32_t hr_router_next_ready(struct hr_router *router, struct hr_ready *ret_ready, uint32_t count_max)
{
    uint32_t count = 0;
    while (count < count_max && router->ready.head != NONE) {
        const struct job *job = pop_job(router, &router->ready);
        ret_ready[count++] = (struct hr_ready){job->id, job->method, hr_blocks_bytes(&router->blocks, job->params)};
    }
    return count;
}

/* --- taking requests --- */

/* What is known to be for another node leaves at once. */
static void start(struct hr_router *router, struct job *job, const struct hr_prepared *known, hr_ns deadline, hr_ns now)
{
    struct course course;
    job->deadline = deadline;
    job->keep_until = deadline + HR_CALL_KEPT_NS;
    if (!go_by_known(router, job, known, now, &course) || course.is_all_here) {
        make_ready(router, job);
    }
}

/* False: there is no room for all of it, and none of it was taken. */
static bool take_many(struct hr_router *router, const struct hr_asker *asker, struct hr_span params, struct hr_now now)
{
    struct hr_fault fault;
    uint32_t index = router->gather_free;
    if (index == NONE || !hr_params_decode(HR_METHOD_CHECK_MANY, params, &router->params, &fault)) {
        return false;
    }
    uint32_t count = router->params.requests.count;
    struct hr_unpacker in = {router->params.requests.values};
    struct hr_span one;
    struct gather *gather = &router->gathers[index];
    router->gather_free = gather->next;
    *gather = (struct gather){.asker = *asker, .first = NONE, .last = NONE, .count = count, .left = count};
    for (uint32_t i = 0; i < count && hr_unpack_skip(&in, &one) == HR_OK; i++) { /* it has been read: it is whole */
        struct job *job = new_job(router, HR_METHOD_CHECK, one);
        if (job == NULL) {
            free_gather(router, index);
            return false;
        }
        job->gather = index;
        if (gather->last == NONE) {
            gather->first = index_of(router, job);
        } else {
            router->jobs[gather->last].next_part = index_of(router, job);
        }
        gather->last = index_of(router, job);
    }
    for (uint32_t part = gather->first; part != NONE; part = router->jobs[part].next_part) {
        start(router, &router->jobs[part], NULL, now.steady + router->config.deadline_ns, now.steady);
    }
    return true;
}

bool hr_router_take(struct hr_router *router, const struct hr_asker *asker, struct hr_span params,
                    const struct hr_prepared *known, struct hr_now now)
{
    if (asker->method == HR_METHOD_CHECK_MANY) {
        return take_many(router, asker, params, now);
    }
    struct job *job = new_job(router, asker->method, params);
    if (job == NULL) {
        return false;
    }
    job->asker = *asker;
    start(router, job, known, now.steady + router->config.deadline_ns, now.steady);
    return true;
}

/* --- letters --- */

/* There is no room for a call, nor to keep an answer to it: it is answered at once, in a letter of its own. */
static void refuse_call(struct hr_router *router, const struct hr_wire_call *call)
{
    static const struct hr_span no_room = {"RESOURCE_EXHAUSTED: too many requests are under way on this node", 64};
    const struct hr_wire_answer wire = {call->id, HR_VERDICT_FAULT, no_room};
    struct hr_le_writer out = hr_le_writer_of(router->letter, sizeof(router->letter));
    hr_wire_begin(&out);
    hr_wire_put_answer(&out, &wire);
    const struct hr_letter letter = {
        .to = call->origin, .lane = HR_LANE_PEER, .kind = HR_LETTER_ANSWER, .body = {(const char *)out.at, out.used}};
    (void)hr_outbox_put(router->config.outbox, &letter); /* one that finds no room is lost, as on the way */
}

/* And from now on it has. */
static bool has_come_before(struct hr_router *router, const struct hr_wire_call *call)
{
    uint8_t seen;
    if (router->config.is_one_process) {
        return false;
    }
    bool has = hr_recent_find(&router->seen, call->origin, call->id, &seen);
    if (!has) {
        hr_recent_add(&router->seen, call->origin, call->id, 1);
    }
    return has;
}

static void receive_call(struct hr_router *router, uint64_t from, const struct hr_wire_call *call, hr_ns age,
                         struct hr_now now)
{
    hr_ns left = (hr_ns)call->left_us * HR_NS_PER_US - age;
    router->counts.received++;
    if (age < 0 || left <= 0) {
        router->counts.late++;
        return;
    }
    if (has_come_before(router, call)) {
        router->counts.repeated++;
        return;
    }
    struct job *job = new_job(router, call->method, call->params);
    if (job == NULL) {
        if (router->config.is_one_process) {
            refuse_call(router, call);
        }
        return; /* who waits for it will decide without this node */
    }
    job->hops = call->hops;
    job->origin = call->origin;
    job->origin_id = call->id;
    job->via = from;
    job->expires_at = now.steady + left;
    start(router, job, NULL, now.steady + left / WAY_PARTS, now.steady);
}

/* The call was not carried out, and will not be: another one, under another id, may be. After a call that was given up
 * it is not known which of the two this is about. */
static void ask_again(struct hr_router *router, struct job *job, hr_ns now)
{
    if (job->silent == 0) {
        job->id += router->config.jobs_max;
        keep_moving(router, job, now);
    }
}

static void receive_answer(struct hr_router *router, const struct hr_wire_answer *wire, hr_ns now)
{
    struct job *job = find_job(router, wire->id);
    if (job == NULL || job->state != ASKING || job->hops > 0) {
        return;
    }
    if (wire->verdict == HR_VERDICT_NOT_NOW) {
        ask_again(router, job, now);
    } else {
        answer(router, job, wire->bytes, wire->verdict);
    }
}

/* Some are read before the first of them is taken, so that memory which is needed for each comes meanwhile. */
static enum hr_err receive_calls(struct hr_router *router, uint64_t from, struct hr_span body, struct hr_now now)
{
    struct hr_wire_call calls[CALLS_AHEAD];
    struct hr_wire_age age;
    struct hr_le_reader in;
    enum hr_err err = hr_wire_open_calls(body, &in, &age);
    while (err == HR_OK && !hr_le_is_at_end(&in)) {
        uint32_t count = 0;
        while (count < CALLS_AHEAD && !hr_le_is_at_end(&in) && (err = hr_wire_get_call(&in, &calls[count])) == HR_OK) {
            if (!router->config.is_one_process) {
                hr_recent_prefetch(&router->seen, calls[count].origin, calls[count].id, count);
            }
            count++;
        }
        for (uint32_t i = 0; i < count; i++) {
            receive_call(router, from, &calls[i], hr_heard_age(age.stamp, age.ago_ns, now.steady), now);
        }
    }
    return err;
}

static enum hr_err receive_answers(struct hr_router *router, struct hr_span body, hr_ns now)
{
    struct hr_wire_answer wire;
    struct hr_le_reader in;
    enum hr_err err = hr_wire_open(body, &in);
    while (err == HR_OK && !hr_le_is_at_end(&in)) {
        err = hr_wire_get_answer(&in, &wire);
        if (err == HR_OK) {
            receive_answer(router, &wire, now);
        }
    }
    return err;
}

void hr_router_receive(struct hr_router *router, uint64_t from, enum hr_letter_kind kind, struct hr_span body,
                       struct hr_now now)
{
    enum hr_err err =
        kind == HR_LETTER_CALL ? receive_calls(router, from, body, now) : receive_answers(router, body, now.steady);
    router->counts.malformed += err != HR_OK;
}

static size_t bytes_of(const struct job *job)
{
    return job->state == ASKING ? HR_CALL_HEAD_BYTES + job->params.bytes : HR_ANSWER_HEAD_BYTES + job->answer.bytes;
}

static void write_job(struct hr_router *router, const struct job *job, hr_ns now, struct hr_le_writer *out)
{
    if (job->state == ANSWERED) {
        const struct hr_wire_answer wire = {job->origin_id, job->verdict,
                                            hr_blocks_bytes(&router->blocks, job->answer)};
        hr_wire_put_answer(out, &wire);
        return;
    }
    bool is_own = job->hops == 0;
    hr_ns left = job->deadline > now ? (job->deadline - now) / HR_NS_PER_US : 0;
    const struct hr_wire_call call = {
        .id = is_own ? job->id : job->origin_id,
        .origin = is_own ? self_of(router) : job->origin,
        .hops = (uint8_t)(job->hops + 1),
        .method = job->method,
        .left_us = left < HR_CALL_LEFT_US_MAX ? (uint32_t)left : HR_CALL_LEFT_US_MAX,
        .params = hr_blocks_bytes(&router->blocks, job->params),
    };
    hr_wire_put_call(out, &call);
}

/* What has been sent for another node is over: that node waits for the answer, not this one. */
static void sent(struct hr_router *router, struct job *job)
{
    job->is_out = false;
    if (job->hops > 0 || job->state == OVER) {
        free_job(router, job);
    }
}

/* Takes all that may go with the first of the list into one letter: of its kind, to the same member. What is left of
 * the list: what goes elsewhere, or finds no room. */
static struct list fill_letter(struct hr_router *router, struct list list, hr_ns now, struct hr_le_writer *out)
{
    const struct job first = router->jobs[list.head];
    struct list left = {NONE, NONE};
    bool is_empty = true;
    for (uint32_t index = list.head, next; index != NONE; index = next) {
        struct job *job = &router->jobs[index];
        next = job->next_out;
        bool is_stale = job->state != ASKING && !(job->state == ANSWERED && job->hops > 0);
        bool goes = !is_stale && job->state == first.state && job->target == first.target &&
                    (is_empty || out->used + bytes_of(job) <= LETTER_BYTES);
        if (goes) {
            write_job(router, job, now, out);
            is_empty = false;
        }
        if (goes || is_stale) {
            sent(router, job);
        } else {
            append_out(router, &left, job);
        }
    }
    return left;
}

/* Without a word of the receiver's clock nothing can be said of the age; it then takes the calls for too old. */
static void begin_letter(const struct hr_router *router, const struct hr_letter *letter, hr_ns now,
                         struct hr_le_writer *out)
{
    if (letter->kind == HR_LETTER_ANSWER) {
        hr_wire_begin(out);
        return;
    }
    const struct hr_places *places = &router->config.places;
    struct hr_heard heard = places->heard(places->teller, letter->to, now);
    bool is_known = heard.stamp >= 0 && heard.at <= now;
    hr_wire_begin_calls(out, is_known ? (struct hr_wire_age){heard.stamp, now - heard.at} : (struct hr_wire_age){0, 0});
}

static void flush_letter(struct hr_router *router, struct list *list, hr_ns now)
{
    const struct job *first = &router->jobs[list->head];
    struct hr_letter letter = {
        .to = first->target,
        .lane = HR_LANE_PEER,
        .kind = first->state == ASKING ? HR_LETTER_CALL : HR_LETTER_ANSWER,
    };
    struct hr_le_writer out = hr_le_writer_of(router->letter, sizeof(router->letter));
    begin_letter(router, &letter, now, &out);
    size_t head_bytes = out.used;
    *list = fill_letter(router, *list, now, &out);
    letter.body = (struct hr_span){(const char *)out.at, out.used};
    if (out.used > head_bytes) {
        router->counts.letters++;
        (void)hr_outbox_put(router->config.outbox, &letter); /* one that finds no room is lost, as on the way */
    }
}

void hr_router_flush(struct hr_router *router, struct hr_now now)
{
    for (; router->out.mask != 0; router->out.mask &= router->out.mask - 1) {
        struct list *list = &router->out.all[__builtin_ctz(router->out.mask)];
        while (list->head != NONE) {
            flush_letter(router, list, now.steady);
        }
    }
}

bool hr_router_flush_one(struct hr_router *router, struct hr_now now)
{
    uint64_t letters = router->counts.letters;
    while (router->out.mask != 0 && router->counts.letters == letters) {
        struct list *list = &router->out.all[__builtin_ctz(router->out.mask)];
        if (list->head != NONE) { /* what is in it may be stale, and no letter come of it */
            flush_letter(router, list, now.steady);
        }
        router->out.mask &= list->head == NONE ? router->out.mask - 1 : UINT32_MAX;
    }
    return router->counts.letters != letters;
}

/* --- time --- */

/* The node that was asked is silent: this one decides without it. */
static void give_up_on(struct hr_router *router, struct job *job, hr_ns now)
{
    router->counts.silent++;
    if (job->silent != 0) {
        fail(router, job, HR_CODE_DEADLINE_EXCEEDED, "the nodes that own its counters did not answer in time");
        return;
    }
    job->silent = job->target;
    job->deadline = now + router->config.deadline_ns;
    make_ready(router, job);
}

static void tend(struct hr_router *router, struct job *job, hr_ns now)
{
    if (job->state == KEPT && now >= job->resume_at) {
        make_ready(router, job);
    } else if (job->state == ASKING && job->hops == 0 && now >= job->deadline && !hr_defect(SILENCE_WAITS)) {
        give_up_on(router, job, now);
    }
}

static hr_ns wake_of(const struct job *job)
{
    return job->state == KEPT ? job->resume_at : job->state == ASKING ? job->deadline : INT64_MAX;
}

/* Mostly nothing is due: answers come long before their deadline. */
void hr_router_tick(struct hr_router *router, struct hr_now now)
{
    if (now.steady < router->wake_at) {
        return;
    }
    router->wake_at = INT64_MAX;
    for (uint32_t i = router->active_count; i-- > 0;) {
        struct job *job = &router->jobs[router->active[i]];
        tend(router, job, now.steady);
        wake_by(router, wake_of(job));
    }
}

/* It may be too early: that of a job that has been answered meanwhile. */
hr_ns hr_router_deadline(const struct hr_router *router)
{
    return router->active_count == 0 ? INT64_MAX : router->wake_at;
}

struct hr_router_counts hr_router_counts(const struct hr_router *router)
{
    return router->counts;
}

uint32_t hr_router_job_count(const struct hr_router *router)
{
    return router->active_count;
}
