#include "node/shard.h"

#include <string.h>

#include "base/bump.h"
#include "node/amount_text.h"
#include "storage/images.h"

/* A full pass of the sweep takes about this long. */
#define SWEEP_PASS_NS (10 * HR_NS_PER_S)
#define TICK_NS (10 * HR_NS_PER_MS)

/* After a batch that failed, the store gets this long before it is asked again. */
#define STORE_PAUSE_NS (100 * HR_NS_PER_MS)

/* A request that waits for the store. */
struct waiting {
    uint32_t next; /* of the queue, or of the free list; 0: none */
    bool is_ready; /* the store has answered since it was tried last */
    hr_ns since;
    struct hr_call call;
    uint32_t params_bytes;
    uint32_t done;       /* check_many: requests that are decided */
    bool has_claim;      /* the id of the request at hand is pending in its name (replies.h) */
    size_t answer_bytes; /* of their answers */
    char params[HR_WAITING_PARAMS_BYTES_MAX];
    char answer[HR_WAITING_ANSWER_BYTES_MAX];
};

struct hr_shard {
    struct hr_limiter *limiter;
    const struct hr_limit *limits; /* of the set in force */
    struct hr_origin origin;
    struct hr_hash_key id_secret, refund_secret; /* for the keys of idempotency ids: of checks, and of refunds */
    uint64_t serial;
    struct hr_shard_counts counts;
    struct hr_replies replies;
    struct hr_topk hot_keys;
    struct hr_decision decision;
    struct hr_params params, one; /* of the request at hand, and of one of a check_many */

    struct waiting *waiting; /* [0] is not used */
    uint32_t waiting_count, waiting_fresh, waiting_free;
    uint32_t queue_head, queue_tail;

    bool saves;
    struct hr_store_batch batch; /* on its way where in_flight */
    bool in_flight;
    uint64_t ticket;
    hr_ns flush_interval_ns, flush_at, store_pause_until;
    hr_ns changed_since,
        sent_since; /* the oldest change that is not in a batch yet, and in the one on its way; 0: none */
    hr_ns tick_at;
};

static bool config_is_valid(const struct hr_shard_config *config)
{
    return hr_limiter_bytes(&config->sizes) > 0 && config->waiting_max < UINT32_MAX / 2;
}

/* Lays the shard and what belongs to it out in order; while measuring, nothing is written but `parts`. */
static struct hr_shard *lay_out(const struct hr_shard_config *config, struct hr_shard *parts, void **ret_limiter,
                                struct hr_bump *bump)
{
    struct hr_shard *shard = hr_bump_take(bump, 1, sizeof(struct hr_shard), 64);
    const struct hr_replies_sizes replies = {.count_max = config->replies_max, .bytes_max = config->replies_bytes};
    hr_replies_init(&parts->replies, &replies, bump);
    hr_topk_init(&parts->hot_keys, config->hot_keys_max, 0, bump);
    void *batch = hr_bump_take(bump, 1, HR_SHARD_BATCH_BYTES, 64);
    hr_batch_init(&parts->batch, batch, HR_SHARD_BATCH_BYTES);
    parts->waiting = hr_bump_take(bump, (size_t)config->waiting_max + 1, sizeof(struct waiting), 64);
    *ret_limiter = hr_bump_take(bump, 1, hr_limiter_bytes(&config->sizes), 64);
    return shard;
}

size_t hr_shard_bytes(const struct hr_shard_config *config)
{
    struct hr_bump bump = {0};
    struct hr_shard parts;
    void *limiter;
    if (!config_is_valid(config)) {
        return 0;
    }
    (void)lay_out(config, &parts, &limiter, &bump);
    return bump.taken;
}

struct hr_shard *hr_shard_init(const struct hr_shard_config *config, void *memory, size_t memory_bytes)
{
    size_t needed = hr_shard_bytes(config);
    if (needed == 0 || memory_bytes < needed) {
        return NULL;
    }
    struct hr_bump bump = {.at = memory};
    void *limiter;
    struct hr_shard parts = {
        .id_secret = hr_hash_subkey(&config->secret, "idempotency id", 14),
        .refund_secret = hr_hash_subkey(&config->secret, "refund id", 9),
        .serial = config->first_serial,
        .waiting_count = config->waiting_max + 1,
        .waiting_fresh = 1,
        .saves = config->sizes.saves,
        .flush_interval_ns = config->flush_interval_ns,
    };
    struct hr_shard *shard = lay_out(config, &parts, &limiter, &bump);
    *shard = parts;
    shard->limiter = hr_limiter_init(&config->sizes, &config->secret, limiter, hr_limiter_bytes(&config->sizes));
    return hr_origin_init(&shard->origin, config->node, config->region) == HR_OK ? shard : NULL;
}
enum hr_err hr_shard_load(struct hr_shard *shard, const struct hr_limit_set *set, struct hr_now now)
{
    enum hr_err err = hr_limiter_load(shard->limiter, set, now);
    if (err == HR_OK) {
        shard->limits = set->limits;
        hr_topk_clear(&shard->hot_keys);
    }
    return err;
}

/* --- decisions --- */

/* Why a request was not carried out. HR_E_MEMORY and HR_E_RANGE are this file's own: no room for an answer to keep, and
 * no room for another rule given on the spot. */
static void fault_of(enum hr_err err, struct hr_fault *fault)
{
    static const struct {
        enum hr_err err;
        enum hr_code code;
        const char *words;
    } faults[] = {
        {HR_E_FULL, HR_CODE_RESOURCE_EXHAUSTED, "no room for another counter, lease or log entry on this node"},
        {HR_E_TOO_MANY, HR_CODE_RESOURCE_EXHAUSTED, "the request touches more limits than one request may"},
        {HR_E_MEMORY, HR_CODE_RESOURCE_EXHAUSTED, "too many requests with an id within 60 s for this node to remember"},
        {HR_E_RANGE, HR_CODE_RESOURCE_EXHAUSTED, "too many different rates given on the spot at a time"},
        {HR_E_PENDING, HR_CODE_UNAVAILABLE, "the store does not answer, and the limit spends only what it knows"},
        {HR_E_INVALID, HR_CODE_INVALID_ARGUMENT,
         "rate: expected a rate as in a limits file, such as 50/s; a burst goes with buckets"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (faults[i].err == err) {
            hr_fault_set(fault, faults[i].code, faults[i].words);
            return;
        }
    }
    hr_fault_set(fault, HR_CODE_INTERNAL, hr_err_text(err));
}

static void refuse(struct hr_shard *shard, uint64_t msgid, const struct hr_fault *fault, struct hr_packer *out)
{
    shard->counts.faults++;
    out->wanted = 0; /* whatever of an answer was begun */
    hr_pack_error(out, msgid, fault);
}

static void note_hot_keys(struct hr_shard *shard)
{
    for (uint32_t i = 0; i < shard->decision.row_count; i++) {
        const struct hr_row *row = &shard->decision.rows[i];
        hr_topk_add(&shard->hot_keys, row->counter, (uint32_t)(row->limit - shard->limits), !row->allowed);
    }
}

static void count_decision(struct hr_shard *shard, const struct hr_params *params)
{
    if (params->peek) {
        shard->counts.peeks++;
        return;
    }
    shard->counts.decisions++;
    shard->counts.denied += !shard->decision.allowed;
}

/* One decision by the limits that the attributes touch, into shard->decision. */
static enum hr_err decide(struct hr_shard *shard, const struct hr_params *params, struct hr_now now)
{
    struct hr_request request = hr_params_request(params, shard->serial);
    request.brief = !params->detail;
    enum hr_err err = hr_limiter_check(shard->limiter, &request, now, &shard->decision);
    if (err == HR_OK) {
        shard->serial++;
        count_decision(shard, params);
        if (shard->serial % HR_HOT_KEYS_SAMPLE == 0 && !params->peek) {
            note_hot_keys(shard);
        }
    }
    return err;
}

static enum hr_err decide_on_the_spot(struct hr_shard *shard, const struct hr_params *params, struct hr_now now,
                                      struct hr_limit *limit)
{
    struct hr_rate rate;
    enum hr_err err = hr_rate_parse(params->rate, &rate);
    if (err != HR_OK) {
        return HR_E_INVALID;
    }
    bool is_bucket =
        params->algorithm == HR_TOKEN_BUCKET || params->algorithm == HR_GCRA || params->algorithm == HR_LEAKY_BUCKET;
    *limit = (struct hr_limit){.name = HR_SPAN("throttle"), .scope = params->scope, .durability = HR_MEMORY};
    limit->rule.algorithm = params->algorithm;
    limit->rule.capacity = is_bucket && params->burst > 0 ? params->burst : rate.amount;
    limit->rule.rate = is_bucket ? rate.amount : 0;
    limit->rule.period_ns = rate.period_ns;
    if (hr_rule_fault(&limit->rule) != NULL || (!is_bucket && params->burst > 0)) {
        return HR_E_INVALID;
    }
    struct hr_request request = hr_params_request(params, shard->serial++);
    err = hr_limiter_throttle(shard->limiter, limit, params->key, &request, now, &shard->decision);
    if (err == HR_OK) {
        count_decision(shard, params);
    }
    return err == HR_E_TOO_MANY ? HR_E_RANGE : err;
}

static void pack_decision(struct hr_shard *shard, const struct hr_params *params, struct hr_packer *out)
{
    const struct hr_decision_form form = {.origin = &shard->origin, .detail = params->detail};
    hr_pack_decision(out, &shard->decision, &form);
}

/* --- requests with an id: the first answer again --- */

/* What a request has come to when it is tried again: the same for one that is tried for the first time, zero-filled. */
struct progress {
    uint32_t done;
    bool has_claim;
};

static struct hr_id128 reply_key(const struct hr_shard *shard, const struct hr_params *params)
{
    return hr_keyed_hash(&shard->id_secret, params->id.at, params->id.bytes);
}

static void settle_claim(struct hr_shard *shard, const struct hr_params *params, struct hr_span answer, bool is_decided,
                         struct hr_now now)
{
    struct hr_id128 key = reply_key(shard, params);
    if (!is_decided || hr_replies_finish(&shard->replies, key, answer, now.steady) != HR_OK) {
        hr_replies_abandon(&shard->replies, key);
    }
}

/* Decides a check, or one of a check_many, and packs the decision. An id's answer has its place before anything is
 * consumed. HR_E_PENDING: it must wait for the store, or for the first request of its id. */
static enum hr_err check_with_id(struct hr_shard *shard, const struct hr_params *params, struct hr_now now,
                                 struct progress *progress, struct hr_packer *out)
{
    enum hr_reply_state state = HR_REPLY_NEW;
    struct hr_reply reply;
    if (!progress->has_claim) {
        enum hr_err err = hr_replies_begin(&shard->replies, reply_key(shard, params), HR_DECISION_BYTES_MAX, now.steady,
                                           &state, &reply);
        if (err != HR_OK || state == HR_REPLY_PENDING) {
            return err != HR_OK ? HR_E_MEMORY : HR_E_PENDING;
        }
    }
    if (state == HR_REPLY_KNOWN) {
        hr_pack_raw(out, reply.parts[0].at, reply.parts[0].bytes);
        hr_pack_raw(out, reply.parts[1].at, reply.parts[1].bytes);
        shard->counts.repeated++;
        return HR_OK;
    }
    enum hr_err err = decide(shard, params, now);
    progress->has_claim = err == HR_E_PENDING;
    if (progress->has_claim) {
        return err;
    }
    size_t begin = out->wanted;
    if (err == HR_OK) {
        pack_decision(shard, params, out);
    }
    bool is_decided = err == HR_OK && hr_packer_fits(out);
    settle_claim(shard, params, (struct hr_span){out->at + begin, out->wanted - begin}, is_decided, now);
    return err;
}

static enum hr_err check_one(struct hr_shard *shard, const struct hr_params *params, struct hr_now now,
                             struct progress *progress, struct hr_packer *out)
{
    if (params->id.bytes > 0 && !params->peek) {
        return check_with_id(shard, params, now, progress, out);
    }
    enum hr_err err = decide(shard, params, now);
    if (err == HR_OK) {
        pack_decision(shard, params, out);
    }
    return err;
}

/* --- methods --- */

static enum hr_err check_many(struct hr_shard *shard, struct hr_now now, struct progress *progress,
                              struct hr_packer *out)
{
    struct hr_requests requests = shard->params.requests;
    for (uint32_t i = 0; hr_requests_next(&requests, &shard->one); i++) {
        if (i < progress->done) {
            continue;
        }
        enum hr_err err = check_one(shard, &shard->one, now, progress, out);
        if (err != HR_OK) {
            return err;
        }
        progress->done++;
    }
    return HR_OK;
}

static enum hr_err throttle(struct hr_shard *shard, struct hr_now now, struct hr_packer *out)
{
    struct hr_limit limit;
    enum hr_err err = decide_on_the_spot(shard, &shard->params, now, &limit);
    if (err == HR_OK) {
        pack_decision(shard, &shard->params, out);
    }
    return err;
}

/* HR_E_NOT_FOUND: there was nothing to give back, and the answer says so. */
static enum hr_err refund(struct hr_shard *shard, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    struct hr_request request = hr_params_request(&shard->params, 0);
    enum hr_err err = hr_limiter_refund(shard->limiter, &request, now);
    if (err == HR_OK || err == HR_E_NOT_FOUND) {
        hr_pack_refunded(out, msgid, err == HR_OK);
    }
    return err;
}

/* A refund with an id gives back once, however often it is asked for. It never waits, so no claim outlives the call;
 * and an id may be that of the check whose cost is given back. */
static enum hr_err refund_once(struct hr_shard *shard, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    struct hr_span id = shard->params.id;
    struct hr_id128 key = hr_keyed_hash(&shard->refund_secret, id.at, id.bytes);
    enum hr_reply_state state;
    struct hr_reply reply;
    enum hr_err err = hr_replies_begin(&shard->replies, key, 0, now.steady, &state, &reply);
    if (err != HR_OK) {
        return HR_E_MEMORY;
    }
    if (state == HR_REPLY_KNOWN) {
        shard->counts.repeated++;
        hr_pack_refunded(out, msgid, true);
        return HR_OK;
    }
    err = refund(shard, msgid, now, out);
    if (err != HR_OK || hr_replies_finish(&shard->replies, key, (struct hr_span){"", 0}, now.steady) != HR_OK) {
        hr_replies_abandon(&shard->replies, key);
    }
    return err;
}

/* Carries out what shard->params says. What is packed before stays: the answers of a check_many that were there
 * already. */
static enum hr_err carry_out(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                             struct progress *progress, struct hr_packer *out)
{
    enum hr_err err;
    int64_t ttl_ms = 0;
    bool is_fresh = out->wanted == 0;
    switch ((int)call->method) {
    case HR_METHOD_CHECK:
        hr_pack_result_head(out, call->msgid);
        return check_one(shard, &shard->params, now, progress, out);
    case HR_METHOD_CHECK_MANY:
        if (is_fresh) {
            hr_pack_result_head(out, call->msgid);
            hr_pack_array(out, shard->params.requests.count);
        }
        return check_many(shard, now, progress, out);
    case HR_METHOD_THROTTLE:
        hr_pack_result_head(out, call->msgid);
        return throttle(shard, now, out);
    case HR_METHOD_RELEASE:
        hr_pack_released(out, call->msgid, hr_limiter_release(shard->limiter, shard->params.lease, now));
        return HR_OK;
    case HR_METHOD_RENEW: {
        bool is_renewed = hr_limiter_renew(shard->limiter, shard->params.lease, now, &ttl_ms);
        hr_pack_renewed(out, call->msgid, is_renewed, ttl_ms);
        return HR_OK;
    }
    case HR_METHOD_REFUND:
        err = shard->params.id.bytes > 0 ? refund_once(shard, call->msgid, now, out)
                                         : refund(shard, call->msgid, now, out);
        return err == HR_E_NOT_FOUND ? HR_OK : err;
    default:
        return HR_E_NOT_FOUND;
    }
}

/* --- requests that wait for the store --- */

static uint32_t take_waiting(struct hr_shard *shard)
{
    uint32_t index = shard->waiting_free;
    if (index != 0) {
        shard->waiting_free = shard->waiting[index].next;
    } else if (shard->waiting_fresh < shard->waiting_count) {
        index = shard->waiting_fresh++;
    }
    return index;
}

static void enqueue(struct hr_shard *shard, uint32_t index)
{
    shard->waiting[index].next = 0;
    if (shard->queue_tail == 0) {
        shard->queue_head = index;
    } else {
        shard->waiting[shard->queue_tail].next = index;
    }
    shard->queue_tail = index;
}

static void keep_progress(struct waiting *waiting, const struct progress *progress, bool is_many,
                          const struct hr_packer *out)
{
    waiting->done = progress->done;
    waiting->has_claim = progress->has_claim;
    waiting->is_ready = false;
    waiting->answer_bytes = is_many ? out->wanted : 0;
    memcpy(waiting->answer, out->at, waiting->answer_bytes);
}

/* False: there are too many already, or it is too large to be kept. */
static bool wait_for_store(struct hr_shard *shard, const struct hr_call *call, const struct progress *progress,
                           const struct hr_packer *out, hr_ns now)
{
    bool is_small = call->params.bytes <= HR_WAITING_PARAMS_BYTES_MAX && out->wanted <= HR_WAITING_ANSWER_BYTES_MAX;
    uint32_t index = is_small && hr_packer_fits(out) ? take_waiting(shard) : 0;
    if (index == 0) {
        return false;
    }
    struct waiting *waiting = &shard->waiting[index];
    waiting->call = *call;
    waiting->since = now;
    waiting->params_bytes = (uint32_t)call->params.bytes;
    memcpy(waiting->params, call->params.at, call->params.bytes);
    keep_progress(waiting, progress, call->method == HR_METHOD_CHECK_MANY, out);
    enqueue(shard, index);
    shard->counts.waited++;
    return true;
}

static void abandon_claim(struct hr_shard *shard, const struct hr_call *call, const struct progress *progress)
{
    if (progress->has_claim) {
        const struct hr_params *params = call->method == HR_METHOD_CHECK_MANY ? &shard->one : &shard->params;
        hr_replies_abandon(&shard->replies, reply_key(shard, params));
    }
}

static void refuse_for(struct hr_shard *shard, uint64_t msgid, enum hr_err err, struct hr_packer *out)
{
    struct hr_fault fault;
    fault_of(err, &fault);
    refuse(shard, msgid, &fault, out);
}

static void note_change(struct hr_shard *shard, hr_ns now)
{
    if (shard->saves && shard->changed_since == 0) {
        shard->changed_since = now;
    }
}

enum hr_served hr_shard_serve(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                              struct hr_packer *out)
{
    if (call->method > HR_METHOD_REFUND) {
        return HR_SERVED_ELSEWHERE;
    }
    struct hr_fault fault;
    if (!hr_params_decode(call->method, call->params, &shard->params, &fault)) {
        refuse(shard, call->msgid, &fault, out);
        return HR_SERVED_ANSWERED;
    }
    struct progress progress = {0};
    enum hr_err err = carry_out(shard, call, now, &progress, out);
    if (err == HR_OK) {
        note_change(shard, now.steady);
        return HR_SERVED_ANSWERED;
    }
    if (err == HR_E_PENDING && wait_for_store(shard, call, &progress, out, now.steady)) {
        return HR_SERVED_WAITING;
    }
    abandon_claim(shard, call, &progress);
    refuse_for(shard, call->msgid, err, out);
    return HR_SERVED_ANSWERED;
}

/* Tries a request again. True: its answer has been packed. */
static bool try_again(struct hr_shard *shard, struct waiting *waiting, struct hr_now now, struct hr_packer *out)
{
    struct hr_fault fault;
    struct hr_call call = waiting->call;
    call.params = (struct hr_span){waiting->params, waiting->params_bytes};
    if (!hr_params_decode(call.method, call.params, &shard->params, &fault)) {
        refuse(shard, call.msgid, &fault, out); /* it was valid before */
        return true;
    }
    hr_pack_raw(out, waiting->answer, waiting->answer_bytes);
    struct progress progress = {.done = waiting->done, .has_claim = waiting->has_claim};
    enum hr_err err = carry_out(shard, &call, now, &progress, out);
    if (err == HR_OK) {
        return true;
    }
    bool is_overdue = now.steady - waiting->since > HR_WAITING_NS_MAX;
    if (err == HR_E_PENDING && !is_overdue && hr_packer_fits(out) && out->wanted <= HR_WAITING_ANSWER_BYTES_MAX) {
        keep_progress(waiting, &progress, call.method == HR_METHOD_CHECK_MANY, out);
        out->wanted = 0;
        return false;
    }
    abandon_claim(shard, &call, &progress);
    refuse_for(shard, call.msgid, err, out);
    return true;
}

static void leave_queue(struct hr_shard *shard, uint32_t before, uint32_t index)
{
    uint32_t next = shard->waiting[index].next;
    if (before == 0) {
        shard->queue_head = next;
    } else {
        shard->waiting[before].next = next;
    }
    shard->queue_tail = shard->queue_tail == index ? before : shard->queue_tail;
    shard->waiting[index].next = shard->waiting_free;
    shard->waiting_free = index;
}

/* A request that must wait on keeps its place. */
bool hr_shard_next_answer(struct hr_shard *shard, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call)
{
    uint32_t before = 0;
    for (uint32_t index = shard->queue_head; index != 0; index = shard->waiting[index].next) {
        if (shard->waiting[index].is_ready && try_again(shard, &shard->waiting[index], now, out)) {
            *ret_call = shard->waiting[index].call;
            leave_queue(shard, before, index);
            return true;
        }
        before = index;
    }
    return false;
}

/* --- what the store is to know --- */

/* Room for the largest thing that is put: what is taken out of the limiter must not be lost. */
static bool has_room(const struct hr_shard *shard)
{
    return shard->batch.bytes_max - shard->batch.bytes >= HR_IMAGE_BATCH_BYTES_MAX;
}

/* Deletions first: what was forgotten may have come to life again since, and its new record must be the last word. */
static void drain_forgotten(struct hr_shard *shard)
{
    struct hr_id128 counter;
    while (has_room(shard) && hr_limiter_next_forgotten(shard->limiter, &counter)) {
        hr_batch_delete_counter(&shard->batch, counter);
    }
}

static void drain_raises(struct hr_shard *shard, struct hr_now now)
{
    struct hr_counter_image image;
    while (has_room(shard) && hr_limiter_next_raise(shard->limiter, now, &image)) {
        hr_batch_put_counter(&shard->batch, &image);
    }
}

static void drain_changes(struct hr_shard *shard, struct hr_now now)
{
    struct hr_counter_image image;
    struct hr_lease_image lease;
    bool is_ended;
    while (has_room(shard) && hr_limiter_next_lease(shard->limiter, now, &lease, &is_ended)) {
        if (is_ended) {
            hr_batch_delete_lease(&shard->batch, lease.id);
        } else {
            hr_batch_put_lease(&shard->batch, &lease);
        }
    }
    while (has_room(shard) && hr_limiter_next_changed(shard->limiter, now, &image)) {
        hr_batch_put_counter(&shard->batch, &image);
    }
    if (has_room(shard)) { /* that was all; else the rest goes as soon as this is stored */
        shard->flush_at = now.steady + shard->flush_interval_ns;
        shard->sent_since = shard->changed_since;
        shard->changed_since = 0;
    }
}

const struct hr_store_batch *hr_shard_next_batch(struct hr_shard *shard, struct hr_now now, bool force,
                                                 uint64_t *ret_ticket)
{
    if (!shard->saves || shard->in_flight || (!force && now.steady < shard->store_pause_until)) {
        return NULL;
    }
    drain_forgotten(shard);
    drain_raises(shard, now);
    if (force || now.steady >= shard->flush_at) {
        drain_changes(shard, now);
    }
    if (shard->batch.count == 0) {
        shard->sent_since = 0;
        return NULL;
    }
    shard->in_flight = true;
    shard->counts.batches++;
    shard->counts.records += shard->batch.count;
    *ret_ticket = ++shard->ticket;
    return &shard->batch;
}

/* Tells the limiter what came of each counter's record. */
static void settle_batch(struct hr_shard *shard, bool is_stored)
{
    size_t offset = 0;
    struct hr_batch_op op;
    struct hr_id128 id;
    while (hr_batch_next(&shard->batch, &offset, &op)) {
        if (op.is_put && hr_batch_op_is_of(&op, HR_RECORD_COUNTER, &id)) {
            hr_limiter_saved(shard->limiter, id, is_stored);
        } else if (op.is_put && hr_batch_op_is_of(&op, HR_RECORD_LEASE, &id) && !is_stored) {
            hr_limiter_save_lease_again(shard->limiter, id);
        }
    }
}

/* Nobody else remembers what was to be deleted: it stays, ahead of all that comes, and nothing else does. An operation
 * is written no further behind than where it was read. */
static void keep_deletes(struct hr_store_batch *batch)
{
    struct hr_store_batch all = *batch;
    size_t offset = 0;
    struct hr_batch_op op;
    hr_batch_clear(batch);
    while (hr_batch_next(&all, &offset, &op)) {
        struct hr_store_key key = {.bytes = (uint8_t)op.key.bytes};
        memcpy(key.at, op.key.at, op.key.bytes);
        if (!op.is_put && hr_batch_delete(batch, &key) != HR_OK) {
            return; /* it was there before, so there is room */
        }
    }
}

void hr_shard_persisted(struct hr_shard *shard, uint64_t ticket, enum hr_err err, struct hr_now now)
{
    if (!shard->in_flight || ticket != shard->ticket) {
        return; /* not ours */
    }
    shard->in_flight = false;
    settle_batch(shard, err == HR_OK);
    if (err != HR_OK && shard->sent_since != 0) {
        shard->changed_since = shard->sent_since;
    }
    shard->sent_since = 0;
    if (err != HR_OK) {
        keep_deletes(&shard->batch);
        shard->counts.batches_failed++;
        shard->store_pause_until = now.steady + STORE_PAUSE_NS;
        return;
    }
    hr_batch_clear(&shard->batch);
    for (uint32_t index = shard->queue_head; index != 0; index = shard->waiting[index].next) {
        shard->waiting[index].is_ready = true;
    }
}

hr_ns hr_shard_oldest_change(const struct hr_shard *shard, hr_ns now)
{
    if (shard->sent_since != 0) {
        return shard->sent_since;
    }
    return shard->changed_since == 0 ? now : shard->changed_since;
}

/* --- time --- */

hr_ns hr_shard_deadline(const struct hr_shard *shard)
{
    bool is_flush_first = shard->saves && !shard->in_flight && shard->flush_at < shard->tick_at;
    return is_flush_first ? shard->flush_at : shard->tick_at;
}

/* Requests that the store has kept waiting for too long are tried once more, and then refused. */
static void wake_overdue(struct hr_shard *shard, hr_ns now)
{
    for (uint32_t index = shard->queue_head; index != 0; index = shard->waiting[index].next) {
        shard->waiting[index].is_ready |= now - shard->waiting[index].since > HR_WAITING_NS_MAX;
    }
}

void hr_shard_tick(struct hr_shard *shard, struct hr_now now)
{
    if (now.steady < shard->tick_at) {
        return;
    }
    uint64_t cells = hr_limiter_cell_count(shard->limiter) / (SWEEP_PASS_NS / TICK_NS) + 1;
    hr_limiter_sweep(shard->limiter, (uint32_t)cells, now);
    hr_topk_tick(&shard->hot_keys, now.steady);
    hr_replies_expire(&shard->replies, now.steady);
    wake_overdue(shard, now.steady);
    shard->tick_at = now.steady + TICK_NS;
}

void hr_shard_drain(struct hr_shard *shard)
{
    hr_limiter_end_reserves(shard->limiter);
}

/* --- at start --- */

static void count_restored(struct hr_shard *shard, enum hr_err err)
{
    shard->counts.restored += err == HR_OK;
    shard->counts.restored_late += err == HR_E_FULL;
}

void hr_shard_restore_counter(struct hr_shard *shard, const struct hr_counter_image *image, int64_t elapsed_ns,
                              struct hr_now now)
{
    count_restored(shard, hr_limiter_restore(shard->limiter, image, elapsed_ns, now));
}

void hr_shard_restore_lease(struct hr_shard *shard, const struct hr_lease_image *image, int64_t elapsed_ns,
                            struct hr_now now)
{
    count_restored(shard, hr_limiter_restore_lease(shard->limiter, image, elapsed_ns, now));
}

/* --- for status --- */

struct hr_shard_counts hr_shard_counts(const struct hr_shard *shard)
{
    return shard->counts;
}

struct hr_limiter *hr_shard_limiter(struct hr_shard *shard)
{
    return shard->limiter;
}

struct hr_metrics_use hr_shard_replies(const struct hr_shard *shard)
{
    const struct hr_replies *replies = &shard->replies;
    return (struct hr_metrics_use){replies->end - replies->begin + replies->set_aside, replies->sizes.bytes_max};
}

const struct hr_topk *hr_shard_hot_keys(const struct hr_shard *shard)
{
    return &shard->hot_keys;
}
