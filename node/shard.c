#include "node/shard.h"

#include <string.h>

#include "base/bump.h"
#include "base/defect.h"
#include "node/amount_text.h"
#include "node/counter_log.h"
#include "region/place.h"
#include "storage/images.h"

/* A full pass of the sweep takes about this long. */
#define SWEEP_PASS_NS (10 * HR_NS_PER_S)

/* A table of few cells is swept in fewer goes, on the beat of region/tenure.c: none of them takes long. */
#define TICK_NS (10 * HR_NS_PER_MS)
#define TICK_SMALL_NS (25 * HR_NS_PER_MS)
#define SMALL_CELLS_MAX (UINT64_C(1) << 18)

/* While the log is folded the sweep goes so many times faster: what is written meanwhile stays in the log. */
#define FOLD_PACE 4

#define WAITING_MAX (UINT32_C(1) << 20)

/* A journal that fills up is emptied so many times in a flush interval at most: its counters may change again. */
#define DEBTS_PER_FLUSH 4

/* For so long raises that nobody waits for gather. Half a chunk, which is what is left then, lasts five times as long.
 */
#define RAISES_TOGETHER_NS (10 * HR_NS_PER_MS)

/* After a batch that failed, the store gets this long before it is asked again. */
#define STORE_PAUSE_NS (100 * HR_NS_PER_MS)

/* What a request asks, and what has been found out beforehand. */
struct asked {
    struct hr_params params;
    struct hr_prepared prepared; /* zero-filled: nothing */
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
    struct asked asked, one;                    /* of the request at hand, and of one of a check_many */
    struct asked together[HR_TOGETHER_MAX + 1]; /* the last is of one by itself */

    struct hr_waiting waiting;
    char *waiting_params; /* of the one that is tried again: HR_FRAME_BYTES_MAX */
    hr_shard_is_here *is_here;
    void *is_here_user;

    bool saves;
    bool has_regions; /* there are others, which global caps hold over as well */
    struct hr_counter_log *log;
    bool batch_ends_fold;        /* the batch holds all that there was to be saved, and the refresh has ended */
    struct hr_store_batch batch; /* on its way where in_flight */
    bool in_flight;
    uint64_t ticket;
    hr_ns flush_interval_ns, flush_at, debts_at, raises_at, store_pause_until;
    hr_ns changed_since,
        sent_since; /* the oldest change that is not in a batch yet, and in the one on its way; 0: none */
    hr_ns tick_at;
};

static bool config_is_valid(const struct hr_shard_config *config)
{
    return hr_limiter_bytes(&config->sizes) > 0 && config->waiting_max <= WAITING_MAX;
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
    size_t waiting_bytes = (size_t)config->waiting_max * HR_WAITING_BYTES_EACH + HR_WAITING_BYTES_MORE;
    hr_waiting_init(&parts->waiting, config->waiting_max, waiting_bytes, bump);
    parts->waiting_params = hr_bump_take(bump, 1, HR_FRAME_BYTES_MAX, 64);
    parts->log = hr_bump_take(bump, 1, sizeof(struct hr_counter_log), 64);
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
        .saves = config->sizes.saves,
        .has_regions = config->sizes.shares_max > 0,
        .flush_interval_ns = config->flush_interval_ns,
    };
    struct hr_shard *shard = lay_out(config, &parts, &limiter, &bump);
    *shard = parts;
    hr_counter_log_init(shard->log, config->slice);
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
static enum hr_err decide(struct hr_shard *shard, const struct asked *asked, struct hr_now now)
{
    const struct hr_params *params = &asked->params;
    struct hr_request request = hr_params_request(params, shard->serial);
    request.brief = !params->detail;
    enum hr_err err = hr_limiter_check_prepared(shard->limiter, &request, &asked->prepared, now, &shard->decision);
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
    } else if (shard->decision.row_count > 0) { /* requests go by the first counter that they touch */
        hr_replies_file(&shard->replies, key, hr_place_partition(shard->decision.rows[0].counter));
    }
}

/* Decides a check, or one of a check_many, and packs the decision. An id's answer has its place before anything is
 * consumed. HR_E_PENDING: it must wait for the store, or for the first request of its id. */
static enum hr_err check_with_id(struct hr_shard *shard, const struct asked *asked, struct hr_now now,
                                 struct hr_progress *progress, struct hr_packer *out)
{
    const struct hr_params *params = &asked->params;
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
    enum hr_err err = decide(shard, asked, now);
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

static void abandon_claim(struct hr_shard *shard, const struct hr_params *params, struct hr_progress *progress)
{
    if (progress->has_claim) {
        hr_replies_abandon(&shard->replies, reply_key(shard, params));
        progress->has_claim = false;
    }
}

static enum hr_err check_one(struct hr_shard *shard, const struct asked *asked, struct hr_now now,
                             struct hr_progress *progress, struct hr_packer *out)
{
    const struct hr_params *params = &asked->params;
    if (params->id.bytes > 0 && !params->peek) {
        return check_with_id(shard, asked, now, progress, out);
    }
    enum hr_err err = decide(shard, asked, now);
    if (err == HR_OK) {
        pack_decision(shard, params, out);
    }
    return err;
}

/* --- methods --- */

/* One of a check_many that cannot be carried out: the others are. */
static void pack_refusal(struct hr_shard *shard, enum hr_err err, struct hr_packer *out)
{
    struct hr_fault fault;
    fault_of(err, &fault);
    shard->counts.faults++;
    hr_pack_refusal(out, &fault);
}

/* What the rest of a check_many would spend is asked of the store at once: else each of a thousand would wait for a
 * commit of its own. */
static void ask_ahead(struct hr_shard *shard, struct hr_requests rest, struct hr_now now)
{
    while (hr_requests_next(&rest, &shard->one.params)) {
        struct hr_request request = hr_params_request(&shard->one.params, 0);
        request.is_ahead = request.brief = true;
        enum hr_err err = hr_limiter_check(shard->limiter, &request, now, &shard->decision);
        (void)err; /* it is told when its turn comes */
    }
}

/* Decides those that are not decided yet, each on its own. HR_E_PENDING, where it may wait: one of them must. */
static enum hr_err check_many(struct hr_shard *shard, struct hr_now now, struct hr_progress *progress, bool may_wait,
                              struct hr_packer *out)
{
    struct hr_requests requests = shard->asked.params.requests;
    for (uint32_t i = 0; hr_requests_next(&requests, &shard->one.params); i++) {
        if (i < progress->done) {
            continue;
        }
        enum hr_err err = check_one(shard, &shard->one, now, progress, out);
        if (err == HR_E_PENDING && may_wait) {
            ask_ahead(shard, requests, now);
            return err;
        }
        if (err != HR_OK) {
            abandon_claim(shard, &shard->one.params, progress);
            pack_refusal(shard, err, out);
        }
        progress->done++;
    }
    return HR_OK;
}

static enum hr_err throttle(struct hr_shard *shard, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    struct hr_limit limit;
    if (shard->asked.params.scope == HR_SCOPE_GLOBAL && shard->has_regions) {
        struct hr_fault fault;
        hr_fault_set(&fault, HR_CODE_INVALID_ARGUMENT,
                     "a limit given on the spot cannot be global, for all regions must agree on those: put one");
        refuse(shard, msgid, &fault, out);
        return HR_OK;
    }
    enum hr_err err = decide_on_the_spot(shard, &shard->asked.params, now, &limit);
    if (err == HR_OK) {
        pack_decision(shard, &shard->asked.params, out);
    }
    return err;
}

/* HR_E_NOT_FOUND: there was nothing to give back, and the answer says so. */
static enum hr_err refund(struct hr_shard *shard, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    struct hr_request request = hr_params_request(&shard->asked.params, 0);
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
    struct hr_span id = shard->asked.params.id;
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

static const struct asked *asked_by(const struct hr_shard *shard, const struct hr_call *call)
{
    return call->prepared == 0 ? &shard->asked : &shard->together[call->prepared - 1];
}

static void prepare(struct hr_shard *shard, struct hr_call *call, uint32_t place)
{
    struct hr_fault fault;
    struct asked *asked = &shard->together[place];
    bool is_valid =
        call->method == HR_METHOD_CHECK && hr_params_decode(HR_METHOD_CHECK, call->params, &asked->params, &fault);
    if (is_valid) { /* else it is looked at again when its turn comes, and refused */
        struct hr_request request = hr_params_request(&asked->params, 0);
        hr_limiter_prepare(shard->limiter, &request, &asked->prepared);
        call->prepared = place + 1;
    }
}

void hr_shard_prepare_one(struct hr_shard *shard, struct hr_call *call)
{
    prepare(shard, call, HR_TOGETHER_MAX);
}

void hr_shard_prepare(struct hr_shard *shard, struct hr_call *calls, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < HR_TOGETHER_MAX; i++) {
        prepare(shard, &calls[i], i);
    }
    for (uint32_t i = 0; i < count && i < HR_TOGETHER_MAX; i++) {
        if (calls[i].prepared != 0) {
            hr_limiter_prepare_reserves(shard->limiter, &shard->together[i].prepared);
        }
    }
}

/* Carries out what was asked. What is packed before stays: the answers of a check_many that were there
 * already. */
static enum hr_err carry_out(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                             struct hr_progress *progress, bool may_wait, struct hr_packer *out)
{
    enum hr_err err;
    int64_t ttl_ms = 0;
    bool is_fresh = out->wanted == 0;
    switch ((int)call->method) {
    case HR_METHOD_CHECK:
        hr_pack_result_head(out, call->msgid);
        return check_one(shard, asked_by(shard, call), now, progress, out);
    case HR_METHOD_CHECK_MANY:
        if (is_fresh) {
            hr_pack_result_head(out, call->msgid);
            hr_pack_array(out, shard->asked.params.requests.count);
        }
        return check_many(shard, now, progress, may_wait, out);
    case HR_METHOD_THROTTLE:
        hr_pack_result_head(out, call->msgid);
        return throttle(shard, call->msgid, now, out);
    case HR_METHOD_RELEASE:
        hr_pack_released(out, call->msgid, hr_limiter_release(shard->limiter, shard->asked.params.lease, now));
        return HR_OK;
    case HR_METHOD_RENEW: {
        bool is_renewed = hr_limiter_renew(shard->limiter, shard->asked.params.lease, now, &ttl_ms);
        hr_pack_renewed(out, call->msgid, is_renewed, ttl_ms);
        return HR_OK;
    }
    case HR_METHOD_REFUND:
        err = shard->asked.params.id.bytes > 0 ? refund_once(shard, call->msgid, now, out)
                                               : refund(shard, call->msgid, now, out);
        return err == HR_E_NOT_FOUND ? HR_OK : err;
    default:
        return HR_E_NOT_FOUND;
    }
}

/* --- requests that wait for the store --- */

/* What of an answer there is, and is to be kept. */
static struct hr_span answer_so_far(const struct hr_call *call, const struct hr_packer *out)
{
    return (struct hr_span){out->at, call->method == HR_METHOD_CHECK_MANY ? out->wanted : 0};
}

/* False: there are too many already, or it is too large to be kept. */
static bool wait_for_store(struct hr_shard *shard, const struct hr_call *call, const struct hr_progress *progress,
                           const struct hr_packer *out, hr_ns now)
{
    if (!hr_packer_fits(out) || call->params.bytes > HR_FRAME_BYTES_MAX ||
        !hr_waiting_add(&shard->waiting, call, answer_so_far(call, out), progress, now)) {
        return false;
    }
    shard->counts.waited++;
    return true;
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

/* A request that must wait and cannot. Of a check_many those that need not wait are decided all the same. */
static enum hr_err give_up(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                           struct hr_progress *progress, struct hr_packer *out)
{
    if (call->method == HR_METHOD_CHECK_MANY) {
        return check_many(shard, now, progress, false, out);
    }
    abandon_claim(shard, &asked_by(shard, call)->params, progress);
    return HR_E_PENDING;
}

/* Brings a request that waited back to where it was. */
static enum hr_err resume(struct hr_shard *shard, const struct hr_waiting_request *waiting, struct hr_call *call,
                          struct hr_packer *out)
{
    struct hr_fault fault;
    hr_waiting_copy(&shard->waiting, waiting->params, shard->waiting_params);
    call->params = (struct hr_span){shard->waiting_params, waiting->params.bytes};
    call->prepared = 0;
    if (!hr_params_decode(call->method, call->params, &shard->asked.params, &fault)) {
        return HR_E_CORRUPT; /* it was valid before */
    }
    if (out->room < waiting->answer.bytes) {
        return HR_E_MEMORY;
    }
    hr_waiting_copy(&shard->waiting, waiting->answer, out->at);
    out->wanted = waiting->answer.bytes;
    return HR_OK;
}

enum hr_served hr_shard_serve(struct hr_shard *shard, const struct hr_call *call, struct hr_now now,
                              struct hr_packer *out)
{
    if (call->method > HR_METHOD_REFUND) {
        return HR_SERVED_ELSEWHERE;
    }
    struct hr_fault fault;
    if (call->prepared == 0 && !hr_params_decode(call->method, call->params, &shard->asked.params, &fault)) {
        refuse(shard, call->msgid, &fault, out);
        return HR_SERVED_ANSWERED;
    }
    struct hr_progress progress = {0};
    enum hr_err err = carry_out(shard, call, now, &progress, true, out);
    if (err == HR_E_PENDING) {
        if (wait_for_store(shard, call, &progress, out, now.steady)) {
            return HR_SERVED_WAITING;
        }
        err = give_up(shard, call, now, &progress, out);
    }
    if (err == HR_OK) {
        note_change(shard, now.steady);
    } else {
        refuse_for(shard, call->msgid, err, out);
    }
    return HR_SERVED_ANSWERED;
}

void hr_shard_set_is_here(struct hr_shard *shard, hr_shard_is_here *is_here, void *user)
{
    shard->is_here = is_here;
    shard->is_here_user = user;
}

/* Its counters have moved. What of a check_many is decided already was charged, and cannot go elsewhere once more. */
static void let_go(struct hr_shard *shard, const struct hr_call *call, struct hr_progress *progress,
                   struct hr_packer *out)
{
    if (out->wanted > 0) {
        refuse_for(shard, call->msgid, HR_E_PENDING, out);
    } else {
        abandon_claim(shard, &shard->asked.params, progress);
    }
}

/* Tries a request again. True: its answer has been packed, or it is let go. */
static bool try_again(struct hr_shard *shard, uint32_t index, struct hr_now now, struct hr_packer *out)
{
    struct hr_waiting_request *waiting = &shard->waiting.requests[index];
    struct hr_call call = waiting->call;
    struct hr_progress progress = waiting->progress;
    bool may_wait = now.steady - waiting->since <= HR_WAITING_NS_MAX;
    enum hr_err err = resume(shard, waiting, &call, out);
    if (err == HR_OK && shard->is_here != NULL && !shard->is_here(shard->is_here_user, &call, now)) {
        let_go(shard, &call, &progress, out);
        return true;
    }
    if (err == HR_OK) {
        err = carry_out(shard, &call, now, &progress, may_wait, out);
    }
    if (err == HR_E_PENDING) {
        bool can_wait = may_wait && hr_packer_fits(out);
        if (can_wait && hr_waiting_put_back(&shard->waiting, index, answer_so_far(&call, out), &progress)) {
            out->wanted = 0;
            return false;
        }
        err = give_up(shard, &call, now, &progress, out);
    }
    if (err == HR_OK) {
        note_change(shard, now.steady);
    } else {
        refuse_for(shard, call.msgid, err, out);
    }
    return true;
}

bool hr_shard_next_answer(struct hr_shard *shard, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call)
{
    uint32_t index;
    while ((index = hr_waiting_next_ready(&shard->waiting)) != 0) {
        if (try_again(shard, index, now, out)) {
            *ret_call = shard->waiting.requests[index].call;
            ret_call->params = (struct hr_span){shard->waiting_params, shard->waiting.requests[index].params.bytes};
            ret_call->prepared = 0;
            hr_waiting_drop(&shard->waiting, index);
            return true;
        }
    }
    return false;
}

/* --- what the store is to know --- */

/* Room for the largest thing that is put: what is taken out of the limiter must not be lost. */
static bool has_room(const struct hr_shard *shard)
{
    return hr_counter_log_has_room(shard->log, &shard->batch);
}

static void put_counter(struct hr_shard *shard, const struct hr_counter_image *image)
{
    hr_counter_log_put(shard->log, &shard->batch, image);
    shard->counts.records++;
}

/* What was forgotten comes first: it may have come to life again since, and its new record must be the last word. */
static void drain_forgotten(struct hr_shard *shard, struct hr_now now)
{
    struct hr_id128 counter;
    while (has_room(shard) && hr_limiter_next_forgotten(shard->limiter, &counter)) {
        hr_counter_log_forget(shard->log, &shard->batch, counter, now.steady);
        shard->counts.records++;
    }
}

static void drain_raises(struct hr_shard *shard, struct hr_now now)
{
    struct hr_counter_image image;
    while (has_room(shard) && hr_limiter_next_raise(shard->limiter, now, &image)) {
        put_counter(shard, &image);
    }
    shard->raises_at = now.steady + RAISES_TOGETHER_NS;
}

static void drain_leases(struct hr_shard *shard, struct hr_now now)
{
    struct hr_lease_image lease;
    bool is_ended;
    while (has_room(shard) && hr_limiter_next_lease(shard->limiter, now, &lease, &is_ended)) {
        if (is_ended) {
            hr_batch_delete_lease(&shard->batch, lease.id);
        } else {
            hr_batch_put_lease(&shard->batch, &lease);
        }
        shard->counts.records++;
    }
}

/* Changed buckets that stand in the journal. */
static void drain_debts(struct hr_shard *shard, struct hr_now now)
{
    struct hr_counter_image shared;
    struct hr_debt debts[HR_DEBTS_MAX];
    uint32_t count;
    while (has_room(shard) && (count = hr_limiter_next_debts(shard->limiter, now, &shared, debts)) > 0) {
        hr_counter_log_put_debts(shard->log, &shard->batch, &shared, debts, count);
        shard->counts.records += count;
    }
    shard->debts_at = now.steady + shard->flush_interval_ns / DEBTS_PER_FLUSH;
}

static void drain_changes(struct hr_shard *shard, struct hr_now now)
{
    struct hr_counter_image image;
    drain_leases(shard, now);
    drain_debts(shard, now);
    while (has_room(shard) && hr_limiter_next_changed(shard->limiter, now, &image)) {
        put_counter(shard, &image);
    }
    if (has_room(shard)) { /* that was all; else the rest goes as soon as this is stored */
        shard->flush_at = now.steady + shard->flush_interval_ns;
        shard->sent_since = shard->changed_since;
        shard->changed_since = 0;
        shard->batch_ends_fold = shard->log->is_folding && !hr_limiter_is_refreshing(shard->limiter);
    }
}

/* What was forgotten can wait for the next flush, unless something goes before, and raises that nobody waits for can
 * wait for one another: batches of their own would cost the store, and the standbys, more than all others. */
static void fill_batch(struct hr_shard *shard, struct hr_now now, bool force)
{
    bool is_due = force || now.steady >= shard->flush_at;
    bool may_raise = now.steady >= shard->raises_at && hr_limiter_has_raises(shard->limiter);
    bool has_many = now.steady >= shard->debts_at && hr_limiter_has_many_debts(shard->limiter);
    shard->batch_ends_fold = false;
    hr_counter_log_fold(shard->log, shard->limiter, &shard->batch);
    if (is_due || has_many || may_raise || hr_limiter_is_urgent(shard->limiter)) {
        drain_forgotten(shard, now);
        drain_raises(shard, now);
    }
    if (is_due) {
        drain_changes(shard, now);
    } else if (has_many) {
        drain_debts(shard, now);
    }
    hr_counter_log_close(shard->log, &shard->batch);
}

static void end_fold(struct hr_shard *shard)
{
    if (shard->batch_ends_fold) {
        hr_counter_log_end_fold(shard->log);
    }
    shard->batch_ends_fold = false;
}

const struct hr_store_batch *hr_shard_next_batch(struct hr_shard *shard, struct hr_now now, bool force,
                                                 uint64_t *ret_ticket)
{
    if (!shard->saves || shard->in_flight || (!force && now.steady < shard->store_pause_until)) {
        return NULL;
    }
    fill_batch(shard, now, force);
    if (shard->batch.count == 0) {
        shard->sent_since = 0;
        end_fold(shard);
        return NULL;
    }
    shard->in_flight = true;
    shard->counts.batches++;
    *ret_ticket = ++shard->ticket;
    return &shard->batch;
}

/* Has all that a segment held taken out of the limiter again. */
static void save_segment_again(struct hr_shard *shard, const struct hr_batch_op *op)
{
    struct hr_record record;
    struct hr_segment_reader reader;
    struct hr_counter_image image;
    bool is_forgotten;
    if (hr_record_decode(op->key, op->value, &record) != HR_OK || hr_segment_open(&record, &reader) != HR_OK) {
        return; /* it is of another kind: what we sealed is whole */
    }
    while (hr_segment_next(&reader, &image, &is_forgotten) == HR_OK) {
        if (is_forgotten) {
            hr_limiter_forget_again(shard->limiter, image.id);
        } else {
            hr_limiter_save_again(shard->limiter, image.id);
        }
    }
}

static void save_batch_again(struct hr_shard *shard)
{
    size_t offset = 0;
    struct hr_batch_op op;
    struct hr_id128 id;
    while (hr_batch_next(&shard->batch, &offset, &op)) {
        if (op.is_put && hr_batch_op_is_of(&op, HR_RECORD_COUNTER, &id)) {
            save_segment_again(shard, &op);
        } else if (op.is_put && hr_batch_op_is_of(&op, HR_RECORD_LEASE, &id)) {
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

static void note_failure(struct hr_shard *shard, hr_ns now)
{
    save_batch_again(shard);
    keep_deletes(&shard->batch);
    shard->changed_since = shard->sent_since != 0 ? shard->sent_since : shard->changed_since;
    shard->sent_since = 0;
    shard->counts.batches_failed++;
    shard->store_pause_until = now + STORE_PAUSE_NS;
}

void hr_shard_persisted(struct hr_shard *shard, uint64_t ticket, enum hr_err err, struct hr_now now)
{
    if (!shard->in_flight || ticket != shard->ticket) {
        return; /* not ours */
    }
    err = hr_defect(SYNC_BELIEVED) ? HR_OK : err;
    shard->in_flight = false;
    hr_limiter_settle_raises(shard->limiter, err == HR_OK);
    if (err != HR_OK) {
        note_failure(shard, now.steady);
        return;
    }
    shard->sent_since = 0;
    end_fold(shard);
    hr_batch_clear(&shard->batch);
    hr_waiting_wake(&shard->waiting);
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

void hr_shard_tick(struct hr_shard *shard, struct hr_now now)
{
    if (now.steady < shard->tick_at) {
        return;
    }
    uint64_t all = hr_limiter_cell_count(shard->limiter);
    hr_ns every = all <= SMALL_CELLS_MAX ? TICK_SMALL_NS : TICK_NS;
    uint64_t cells = all / (uint64_t)(SWEEP_PASS_NS / every) + 1;
    cells *= shard->log->is_folding ? FOLD_PACE : 1;
    hr_limiter_sweep(shard->limiter, (uint32_t)cells, now);
    hr_topk_tick(&shard->hot_keys, now.steady);
    hr_replies_expire(&shard->replies, now.steady);
    hr_waiting_wake_older(&shard->waiting, now.steady - HR_WAITING_NS_MAX); /* to be tried once more, then refused */
    shard->tick_at = hr_next_beat(now.steady, every);
}

void hr_shard_drain(struct hr_shard *shard)
{
    hr_limiter_end_reserves(shard->limiter);
}

/* --- at start --- */

/* Counters that are read before the first of them is put in its place: its memory is on its way meanwhile. */
#define RESTORED_TOGETHER 16

struct restored {
    struct hr_counter_image image;
    bool is_forgotten;
};

/* HR_OK: all were read, and there may be more. */
static enum hr_err read_some(const struct hr_shard *shard, struct hr_segment_reader *reader, struct restored *some,
                             uint32_t *ret_count)
{
    enum hr_err err = HR_OK;
    uint32_t count = 0;
    while (count < RESTORED_TOGETHER &&
           (err = hr_segment_next(reader, &some[count].image, &some[count].is_forgotten)) == HR_OK) {
        if (hr_slice_has(shard->log->slice, hr_place_partition(some[count].image.id))) {
            hr_limiter_prepare_restore(shard->limiter, some[count++].image.id);
        }
    }
    *ret_count = count;
    return err;
}

static void restore_one(struct hr_shard *shard, const struct restored *one, int64_t elapsed_ns, struct hr_now now)
{
    if (one->is_forgotten) {
        hr_limiter_restore_forgotten(shard->limiter, one->image.id, now);
    } else {
        enum hr_err err = hr_limiter_restore(shard->limiter, &one->image, elapsed_ns, now);
        shard->counts.restored_late += err == HR_E_FULL;
    }
}

static enum hr_err restore_segment(struct hr_shard *shard, const struct hr_record *segment, bool is_moved,
                                   int64_t elapsed_ns, struct hr_now now)
{
    struct hr_segment_reader reader;
    struct restored some[RESTORED_TOGETHER];
    uint32_t before = hr_limiter_usage(shard->limiter).counters;
    bool is_own = false;
    enum hr_err err = hr_segment_open(segment, &reader);
    err = err == HR_OK ? hr_counter_log_note_loaded(shard->log, segment, is_moved, &is_own) : err;
    if (err == HR_OK && !is_own && !is_moved) {
        return HR_OK; /* all in it is another shard's */
    }
    while (err == HR_OK) {
        uint32_t count;
        err = read_some(shard, &reader, some, &count);
        for (uint32_t i = 0; i < count; i++) {
            restore_one(shard, &some[i], elapsed_ns, now);
            if (is_moved) {
                hr_limiter_save_again(shard->limiter, some[i].image.id);
            }
        }
    }
    shard->counts.restored += (uint64_t)hr_limiter_usage(shard->limiter).counters - before;
    return err == HR_E_NOT_FOUND ? HR_OK : err;
}

enum hr_err hr_shard_restore_counters(struct hr_shard *shard, const struct hr_record *segment, int64_t elapsed_ns,
                                      struct hr_now now)
{
    return restore_segment(shard, segment, false, elapsed_ns, now);
}

enum hr_err hr_shard_restore_moved(struct hr_shard *shard, const struct hr_record *segment, int64_t elapsed_ns,
                                   struct hr_now now)
{
    return restore_segment(shard, segment, true, elapsed_ns, now);
}

void hr_shard_restore_lease(struct hr_shard *shard, const struct hr_lease_image *image, int64_t elapsed_ns,
                            struct hr_now now)
{
    if (!hr_slice_has(shard->log->slice, hr_place_partition(image->id))) {
        return;
    }
    if (image->remaining_ns <= elapsed_ns && has_room(shard)) {
        hr_batch_delete_lease(&shard->batch, image->id);
        shard->counts.records++;
        return;
    }
    enum hr_err err = hr_limiter_restore_lease(shard->limiter, image, elapsed_ns, now);
    shard->counts.restored += err == HR_OK;
    shard->counts.restored_late += err == HR_E_FULL;
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

/* --- for a node that decides together with others --- */

struct hr_shard_parts hr_shard_parts(struct hr_shard *shard)
{
    return (struct hr_shard_parts){
        .replies = &shard->replies,
        .id_secret = &shard->id_secret,
        .refund_secret = &shard->refund_secret,
        .origin = &shard->origin,
        .serial = &shard->serial,
        .counts = &shard->counts,
    };
}

const struct hr_prepared *hr_shard_prepared(const struct hr_shard *shard, const struct hr_call *call)
{
    const struct hr_prepared *prepared = call->prepared == 0 ? NULL : &shard->together[call->prepared - 1].prepared;
    return prepared != NULL && prepared->is_known ? prepared : NULL;
}

void hr_shard_wake(struct hr_shard *shard)
{
    hr_waiting_wake(&shard->waiting);
}

void hr_shard_note_change(struct hr_shard *shard, hr_ns now)
{
    note_change(shard, now);
}
