#include "node/core.h"

#include <assert.h>
#include <string.h>

#include "base/bump.h"
#include "rpc/message.h"

/* The connection of calls that the shard carries out for the router: no driver's. */
#define ROUTED UINT64_MAX

/* Tickets of the core's own batches, for the tenure; the shard's are small numbers. */
#define TENURE_TICKET (UINT64_C(1) << (HR_CORE_TICKET_BITS - 1))
#define CAPS_TICKET (UINT64_C(1) << (HR_CORE_TICKET_BITS - 2))

/* What the keeper of caps gives to the store at once. */
#define CAPS_BATCH_BYTES (512U << 10)

/* Counters of global caps that something goes on with between regions. */
#define CAPS_HOT_MAX 4096U

/* What goes with a partition: the keeper's messages first, then kept replies, each behind one byte. */
#define CURSOR_REPLIES (UINT64_C(1) << 63)
#define TAG_REPLY 0

/* A letter of the largest kind, and what else may come in one turn. */
#define OUTBOX_BYTES (8U << 20)

/* Between the cores of one node a request waits for as long as it takes: nobody dies there alone. Well below what a
 * call can tell, for the clock of a turn may be a little behind that of a request. */
#define CREW_DEADLINE_NS (5 * HR_NS_PER_S)
#define CREW_OUTBOX_BYTES (2U << 20)
#define CREW_CALLS_MAX 32768U
#define CREW_GATHERS_MAX 1024U

static_assert(HR_HOLD_BYTES_MAX <= HR_CORE_LETTER_BYTES_MAX, "letters between cores are bounded");
static_assert(HR_CALL_ANSWER_BYTES_MAX + HR_ANSWER_HEAD_BYTES < HR_CORE_LETTER_BYTES_MAX, "answers too");
static_assert(CREW_DEADLINE_NS / HR_NS_PER_US <= HR_CALL_LEFT_US_MAX, "a call tells its deadline");

/* The shard's answer to one call, and its head. */
#define ANSWER_BYTES (HR_CALL_ANSWER_BYTES_MAX + 64)

/* What is to be stored, and how far it has come. */
struct store {
    struct hr_store_batch batch; /* the tenure's */
    struct hr_store_batch caps_batch;
    bool is_caps_turn; /* they and the shard take turns */
    uint64_t ticket;   /* of the batch on its way; 0: none is */
    uint64_t tenure_mark, tenure_tickets;
    bool is_stored;  /* the shard's batch is; its standbys may not have it yet */
    bool is_ending;  /* nothing is spent any more: no standby is waited for, and all that changed is due */
    enum hr_err err; /* what the store said of it */
};

struct hr_core {
    struct hr_shard *shard;
    struct hr_shard_parts parts;
    bool is_alone, saves;
    struct hr_facts facts;
    struct hr_outbox outbox;
    struct hr_envelope envelope;
    struct hr_slice slice;
    struct hr_members crew; /* the node's cores, this one among them, where it has several */
    struct hr_swim *swim;
    const struct hr_members *members; /* NULL: the node is alone */
    uint64_t view;                    /* of the members that the tenure knows */
    struct hr_tenure *tenure;
    struct hr_holds *holds;
    struct hr_router *router;   /* NULL, and no holds: every counter is this core's */
    struct hr_cap_keeper *caps; /* NULL: there is no other region */
    struct store store;
    bool has_left;
    hr_ns now;               /* of the event at hand */
    struct hr_params params; /* scratch */
    struct hr_now now_both;  /* ... by both clocks */
    uint8_t reply[1 + HR_REPLY_MOVED_BYTES_MAX];
    char answer[ANSWER_BYTES];
    uint8_t packet[HR_PACKET_BYTES_MAX];
};

/* --- memory --- */

static struct hr_place place_of(const void *teller, uint32_t partition, hr_ns now)
{
    const struct hr_core *core = teller;
    uint32_t member = HR_MEMBER_NONE;
    switch (hr_tenure_standing(core->tenure, partition, now, &member)) {
    case HR_STANDING_MINE:
        return (struct hr_place){HR_PLACE_HERE, 0};
    case HR_STANDING_MOVING:
        return (struct hr_place){HR_PLACE_MOVING, 0};
    case HR_STANDING_AT:
        return (struct hr_place){HR_PLACE_AT, core->members->all[member].id};
    case HR_STANDING_NOBODY:
        break;
    }
    return (struct hr_place){HR_PLACE_NOBODY, 0};
}

static struct hr_heard heard_of(const void *teller, uint64_t member, hr_ns now)
{
    const struct hr_core *core = teller;
    (void)now;
    return hr_tenure_heard(core->tenure, member);
}

/* The same among the cores of one node: it never changes. */
static struct hr_place place_in_crew(const void *teller, uint32_t partition, hr_ns now)
{
    const struct hr_core *core = teller;
    (void)now;
    uint32_t slice = hr_slice_of(partition, core->slice.count);
    return slice == core->slice.number ? (struct hr_place){HR_PLACE_HERE, 0}
                                       : (struct hr_place){HR_PLACE_AT, core->crew.all[slice].id};
}

/* All cores of a node have one clock. */
static struct hr_heard heard_in_crew(const void *teller, uint64_t member, hr_ns now)
{
    (void)teller;
    (void)member;
    return (struct hr_heard){now, now};
}

/* --- what moves with a partition besides its counters (tenure.h) --- */

static bool next_reply(void *user, uint32_t partition, uint64_t *cursor, struct hr_span *ret_reply)
{
    struct hr_core *core = user;
    *ret_reply = (struct hr_span){(const char *)core->reply, 0};
    if (core->caps != NULL && *cursor < CURSOR_REPLIES) {
        ret_reply->bytes = hr_cap_keeper_next_message(core->caps, partition, cursor, core->reply, core->now_both);
        if (ret_reply->bytes > 0) {
            return true;
        }
    }
    uint64_t inner = *cursor < CURSOR_REPLIES ? 0 : *cursor - CURSOR_REPLIES;
    size_t bytes = hr_replies_next(core->parts.replies, partition, core->now, &inner, core->reply + 1);
    core->reply[0] = TAG_REPLY;
    *cursor = CURSOR_REPLIES + inner;
    ret_reply->bytes = bytes > 0 ? 1 + bytes : 0;
    return bytes > 0;
}

static void apply_reply(void *user, uint32_t partition, struct hr_span reply, hr_ns now)
{
    struct hr_core *core = user;
    if (hr_cap_keeper_is_message(reply)) {
        if (core->caps != NULL) {
            hr_cap_keeper_apply(core->caps, partition, reply, core->now_both);
        }
        return;
    }
    if (reply.bytes > 0 && reply.at[0] == TAG_REPLY) { /* without room for it a retry is decided afresh */
        reply = (struct hr_span){reply.at + 1, reply.bytes - 1};
        (void)hr_replies_apply(core->parts.replies, partition, reply, now);
    }
}

static bool is_busy(void *user, uint32_t partition)
{
    const struct hr_core *core = user;
    return hr_holds_of_partition(core->holds, partition);
}

/* The node, or the core, that asked may have gone on without a request that has waited for the store. */
static bool is_in_time(void *user, const struct hr_call *call, struct hr_now now)
{
    const struct hr_core *core = user;
    return call->connection != ROUTED || hr_router_is_in_time(core->router, call->msgid, now.steady);
}

/* And its partition may have moved meanwhile. */
static bool is_here(void *user, const struct hr_call *call, struct hr_now now)
{
    const struct hr_core *core = user;
    return is_in_time(user, call, now) && hr_router_is_here(core->router, call->method, call->params, now);
}

static struct hr_swim_config swim_config(const struct hr_core_config *config)
{
    struct hr_swim_config swim = {
        .self = config->self,
        .seed_count = config->seed_count,
        .seeds = config->seeds,
        .region_count = config->region_count,
        .rng_seed = config->rng_seed,
    };
    for (uint32_t i = 0; i < config->region_count && i < HR_SWIM_REGIONS_MAX; i++) {
        swim.regions[i] = config->regions[i].name;
    }
    return swim;
}

static struct hr_tenure_config tenure_config(const struct hr_core_config *config)
{
    return (struct hr_tenure_config){
        .life = config->self.incarnation,
        .lineage = config->rng_seed | 1,
        .has_seeds = config->seed_count > 0,
        .saves = config->shard.sizes.saves,
        .nodes_max = HR_REGION_NODES_MAX,
    };
}

/* The parts whose memory is asked for by size. */
struct memory {
    void *shard, *swim, *tenure;
    size_t shard_bytes, swim_bytes, tenure_bytes;
};

static struct hr_core *lay_out(const struct hr_core_config *config, struct memory *ret_memory, struct hr_bump *bump)
{
    const struct hr_swim_config swim = swim_config(config);
    const struct hr_tenure_config tenure = tenure_config(config);
    struct hr_core *core = hr_bump_take(bump, 1, sizeof(*core), 64);
    ret_memory->shard_bytes = hr_shard_bytes(&config->shard);
    ret_memory->shard = hr_bump_take(bump, 1, ret_memory->shard_bytes, 64);
    if (config->is_alone) {
        return core;
    }
    ret_memory->swim_bytes = hr_swim_bytes(&swim);
    ret_memory->swim = hr_bump_take(bump, 1, ret_memory->swim_bytes, 64);
    ret_memory->tenure_bytes = hr_tenure_bytes(&tenure);
    ret_memory->tenure = hr_bump_take(bump, 1, ret_memory->tenure_bytes, 64);
    return core;
}

static void lay_out_facts(const struct hr_core_config *config, struct hr_facts *facts, struct hr_bump *bump)
{
    uint64_t self = hr_member_id(hr_span_of(config->self.region), hr_span_of(config->self.name));
    hr_facts_init(facts, config->facts_max > 0 ? config->facts_max : HR_CORE_FACTS_MAX,
                  config->fact_bytes > 0 ? config->fact_bytes : HR_CORE_FACT_BYTES, self, config->rng_seed, bump);
}

static bool has_caps(const struct hr_core_config *config)
{
    return !config->is_alone && config->region_count >= 2 && config->region_count <= HR_REGIONS_MAX &&
           config->shard.sizes.shares_max > 0;
}

static struct hr_cap_regions cap_regions(const struct hr_core_config *config)
{
    struct hr_cap_regions regions = {.count = config->region_count};
    for (uint32_t k = 0; k < config->region_count; k++) {
        regions.names[k] = config->regions[k].name;
        regions.weights[k] = config->regions[k].weight;
        if (hr_span_equal(regions.names[k], hr_span_of(config->self.region))) {
            regions.self = k;
        }
    }
    return regions;
}

static void lay_out_caps(const struct hr_core_config *config, struct hr_core *core, struct hr_bump *bump,
                         struct hr_now now)
{
    struct hr_core measured = {0};
    struct hr_core *to = core == NULL ? &measured : core;
    const struct hr_cap_keeper_config keeper = {
        .limiter = core == NULL ? NULL : hr_shard_limiter(core->shard),
        .tenure = core == NULL ? NULL : core->tenure,
        .members = core == NULL ? NULL : core->members,
        .facts = &to->facts,
        .outbox = &to->outbox,
        .regions = cap_regions(config),
        .incarnation = config->self.incarnation,
        .hot_max = CAPS_HOT_MAX,
        .saves = config->shard.sizes.saves,
    };
    to->caps = hr_cap_keeper_init(&keeper, bump, now);
    void *batch = hr_bump_take(bump, 1, CAPS_BATCH_BYTES, 64);
    hr_batch_init(&to->store.caps_batch, batch, CAPS_BATCH_BYTES);
}

/* Requests over several owners take their way by these, whether the owners are nodes or cores of one node. */
static void lay_out_ways(const struct hr_core_config *config, struct hr_core *core, struct hr_bump *bump)
{
    struct hr_outbox outbox;
    bool is_crew = config->is_alone;
    uint32_t usual = is_crew ? CREW_CALLS_MAX : HR_CORE_CALLS_MAX;
    uint32_t calls = config->calls_max > 0 ? config->calls_max : usual;
    uint64_t first = config->rng_seed >> 12; /* message ids are below 2^53 */
    const struct hr_members *members = core == NULL ? NULL : is_crew ? &core->crew : core->members;
    const struct hr_places places = {is_crew ? place_in_crew : place_of, is_crew ? heard_in_crew : heard_of, core};
    const struct hr_holds_config holds = {
        .holds_max = calls / 4 + 1,
        .leads_max = calls / (is_crew ? 4 : 8) + 1,
        .limiter = core == NULL ? NULL : hr_shard_limiter(core->shard),
        .members = members,
        .places = places,
        .outbox = core == NULL ? NULL : &core->outbox,
        .request_serial = core == NULL ? NULL : core->parts.serial,
        .first_serial = first,
        .is_one_process = is_crew,
    };
    struct hr_holds *own_holds = hr_holds_init(&holds, bump);
    const struct hr_router_config router = {
        .jobs_max = calls,
        .gathers_max = is_crew ? CREW_GATHERS_MAX : 0,
        .deadline_ns = is_crew ? CREW_DEADLINE_NS : config->call_deadline_ns,
        .first_id = first,
        .limiter = holds.limiter,
        .members = holds.members,
        .places = places,
        .outbox = holds.outbox,
        .holds = own_holds,
        .is_one_process = is_crew,
    };
    struct hr_router *own_router = hr_router_init(&router, bump);
    hr_outbox_init(&outbox, is_crew ? CREW_OUTBOX_BYTES : OUTBOX_BYTES, bump);
    if (core != NULL) {
        core->outbox = outbox;
        core->holds = own_holds;
        core->router = own_router;
    }
}

/* What takes its memory as it is made; `core` is NULL while it is only measured. */
static void lay_out_protocols(const struct hr_core_config *config, struct hr_core *core, struct hr_bump *bump)
{
    struct hr_envelope opener;
    struct hr_store_batch records;
    const struct hr_envelope_config envelope = {
        &config->secret, config->cluster, hr_member_id(hr_span_of(config->self.region), hr_span_of(config->self.name)),
        config->self.incarnation};
    lay_out_ways(config, core, bump);
    hr_envelope_init(&opener, &envelope, bump);
    void *batch = hr_bump_take(bump, 1, HR_TENURE_BATCH_BYTES, 64);
    hr_batch_init(&records, batch, HR_TENURE_BATCH_BYTES);
    if (core != NULL) {
        core->envelope = opener;
        core->store.batch = records;
    }
}

static bool is_of_crew(const struct hr_core_config *config)
{
    return config->is_alone && config->shard.slice.count > 1;
}

/* The node's cores as each other's members; `core` is NULL while it is only measured. */
static void lay_out_crew(const struct hr_core_config *config, struct hr_core *core, struct hr_bump *bump)
{
    uint32_t count = config->shard.slice.count;
    struct hr_member *all = hr_bump_take(bump, count, sizeof(*all), 8);
    for (uint32_t i = 0; all != NULL && i < count; i++) {
        all[i] = (struct hr_member){.id = i + 1, .incarnation = 1, .state = HR_MEMBER_ALIVE, .weight = 1};
    }
    if (core != NULL) {
        core->crew = (struct hr_members){all, count, count, config->shard.slice.number, 1};
    }
    lay_out_ways(config, core, bump);
}

size_t hr_core_bytes(const struct hr_core_config *config)
{
    struct hr_bump bump = {0};
    struct memory memory = {0};
    struct hr_facts facts;
    (void)lay_out(config, &memory, &bump);
    lay_out_facts(config, &facts, &bump);
    if (memory.shard_bytes == 0 || (!config->is_alone && (memory.swim_bytes == 0 || memory.tenure_bytes == 0))) {
        return 0;
    }
    if (!config->is_alone) {
        lay_out_protocols(config, NULL, &bump);
    } else if (is_of_crew(config)) {
        lay_out_crew(config, NULL, &bump);
    }
    if (has_caps(config)) {
        lay_out_caps(config, NULL, &bump, (struct hr_now){0});
    }
    return bump.taken;
}

static bool init_protocols(struct hr_core *core, const struct hr_core_config *config, const struct memory *memory,
                           struct hr_bump *bump, struct hr_now now)
{
    const struct hr_swim_config swim = swim_config(config);
    struct hr_tenure_config tenure = tenure_config(config);
    core->swim = hr_swim_init(&swim, &core->outbox, memory->swim, memory->swim_bytes);
    if (core->swim == NULL) {
        return false;
    }
    core->members = hr_swim_members(core->swim);
    core->view = core->members->view;
    tenure.members = core->members;
    tenure.outbox = &core->outbox;
    tenure.limiter = hr_shard_limiter(core->shard);
    tenure.replies =
        (struct hr_tenure_replies){.next = next_reply, .apply = apply_reply, .is_busy = is_busy, .user = core};
    core->tenure = hr_tenure_init(&tenure, now.steady, memory->tenure, memory->tenure_bytes);
    lay_out_protocols(config, core, bump);
    hr_shard_set_is_here(core->shard, is_here, core);
    if (core->tenure != NULL && has_caps(config)) {
        lay_out_caps(config, core, bump, now);
    }
    return core->tenure != NULL;
}

struct hr_core *hr_core_init(const struct hr_core_config *config, struct hr_now now, void *memory, size_t memory_bytes)
{
    size_t needed = hr_core_bytes(config);
    if (needed == 0 || memory_bytes < needed) {
        return NULL;
    }
    struct hr_bump bump = {.at = memory};
    struct memory parts = {0};
    struct hr_core *core = lay_out(config, &parts, &bump);
    core->is_alone = config->is_alone;
    core->slice = config->shard.slice;
    core->saves = config->shard.sizes.saves;
    core->shard = hr_shard_init(&config->shard, parts.shard, parts.shard_bytes);
    if (core->shard == NULL) {
        return NULL;
    }
    core->parts = hr_shard_parts(core->shard);
    lay_out_facts(config, &core->facts, &bump);
    if (is_of_crew(config)) {
        lay_out_crew(config, core, &bump);
        hr_shard_set_is_here(core->shard, is_in_time, core);
    }
    return config->is_alone || init_protocols(core, config, &parts, &bump, now) ? core : NULL;
}

enum hr_err hr_core_load(struct hr_core *core, const struct hr_limit_set *set, struct hr_now now)
{
    enum hr_err err = hr_shard_load(core->shard, set, now);
    if (err == HR_OK && core->caps != NULL) {
        hr_cap_keeper_load(core->caps, set, now);
    }
    return err;
}

/* --- what the router wants done here --- */

/* The result of a response that was packed for this job just now; false: it is a fault. */
static bool strip_head(uint64_t job, struct hr_span response, struct hr_span *ret_result)
{
    char bytes[16] = {0};
    struct hr_packer head = {.at = bytes, .room = sizeof(bytes)};
    hr_pack_result_head(&head, job);
    if (response.bytes <= head.wanted || memcmp(response.at, bytes, head.wanted) != 0) {
        return false;
    }
    *ret_result = (struct hr_span){response.at + head.wanted, response.bytes - head.wanted};
    return true;
}

/* The shard's answer, a whole response, becomes the router's. */
static void hand_over(struct hr_core *core, uint64_t job, struct hr_span response)
{
    struct hr_message message;
    struct hr_span text;
    if (strip_head(job, response, &text)) {
        hr_router_done(core->router, job, text, false);
        return;
    }
    if (hr_message_decode(response, &message) != HR_OK) {
        hr_router_fail(core->router, job, HR_CODE_INTERNAL, "an answer was longer than a message between nodes may be");
        return;
    }
    struct hr_unpacker error = {message.error};
    bool is_fault = hr_unpack_text(&error, &text) == HR_OK;
    hr_router_done(core->router, job, is_fault ? text : message.result, is_fault);
}

static void serve_local(struct hr_core *core, const struct hr_call *call, struct hr_now now)
{
    struct hr_packer out = {.at = core->answer, .room = sizeof(core->answer)};
    switch (hr_shard_serve(core->shard, call, now, &out)) {
    case HR_SERVED_ANSWERED:
        hand_over(core, call->msgid, hr_packer_fits(&out) ? hr_packer_bytes(&out) : HR_SPAN(""));
        return;
    case HR_SERVED_WAITING:
        return; /* for the store: it comes out of the shard's next_answer */
    case HR_SERVED_ELSEWHERE:
        hr_router_fail(core->router, call->msgid, HR_CODE_INTERNAL, "no such request goes to another node");
        return;
    }
}

/* The key of a request's idempotency id; false: it has none. */
static bool reply_key(struct hr_core *core, enum hr_hold_verb verb, struct hr_span params, struct hr_id128 *ret_key)
{
    struct hr_fault fault;
    enum hr_method method = verb == HR_HOLD_REFUND ? HR_METHOD_REFUND : HR_METHOD_CHECK;
    if (verb == HR_HOLD_PEEK || !hr_params_decode(method, params, &core->params, &fault) ||
        core->params.id.bytes == 0) {
        return false;
    }
    const struct hr_hash_key *secret = verb == HR_HOLD_REFUND ? core->parts.refund_secret : core->parts.id_secret;
    *ret_key = hr_keyed_hash(secret, core->params.id.at, core->params.id.bytes);
    return true;
}

static void pack_refunded(struct hr_packer *out, bool refunded)
{
    hr_pack_map(out, 1);
    hr_pack_text(out, HR_SPAN("refunded"));
    hr_pack_bool(out, refunded);
}

/* What a request of this id has been answered before. Of a refund nothing is kept but that it was one. */
static void repeat(struct hr_core *core, const struct hr_local *local, const struct hr_reply *reply)
{
    struct hr_packer out = {.at = core->answer, .room = sizeof(core->answer)};
    if (local->verb == HR_HOLD_REFUND) {
        pack_refunded(&out, true);
    } else {
        hr_pack_raw(&out, reply->parts[0].at, reply->parts[0].bytes);
        hr_pack_raw(&out, reply->parts[1].at, reply->parts[1].bytes);
    }
    core->parts.counts->repeated++;
    hr_router_done(core->router, local->job, hr_packer_bytes(&out), false);
}

/* True: the request may go on, and its id, if it has one, is pending in its name. */
static bool claim(struct hr_core *core, const struct hr_local *local, struct hr_now now)
{
    struct hr_id128 key;
    struct hr_reply reply;
    enum hr_reply_state state;
    if (!local->has_id || !reply_key(core, local->verb, local->params, &key)) {
        return true;
    }
    uint32_t bytes = local->verb == HR_HOLD_REFUND ? 0 : (uint32_t)HR_DECISION_BYTES_MAX;
    if (hr_replies_begin(core->parts.replies, key, bytes, now.steady, &state, &reply) != HR_OK) {
        hr_router_fail(core->router, local->job, HR_CODE_RESOURCE_EXHAUSTED,
                       "too many requests with an id within 60 s for this node to remember");
        return false;
    }
    if (state == HR_REPLY_KNOWN) {
        repeat(core, local, &reply);
    } else if (state == HR_REPLY_PENDING) {
        hr_router_keep(core->router, local->job, "the first request of its id is still being decided", now);
    }
    return state == HR_REPLY_NEW;
}

static void settle_claim(struct hr_core *core, const struct hr_lead_done *done, bool is_decided, struct hr_span answer,
                         hr_ns now)
{
    struct hr_id128 key;
    if (!done->has_id || !reply_key(core, done->verb, done->params, &key)) {
        return;
    }
    answer = done->verb == HR_HOLD_REFUND ? HR_SPAN("") : answer;
    if (!is_decided || hr_replies_finish(core->parts.replies, key, answer, now) != HR_OK) {
        hr_replies_abandon(core->parts.replies, key);
    } else if (done->first_counter.hi != 0) {
        hr_replies_file(core->parts.replies, key, hr_place_partition(done->first_counter));
    }
}

static void lead_local(struct hr_core *core, const struct hr_local *local, struct hr_now now)
{
    const struct hr_lead_request request = {
        .job = local->job,
        .verb = local->verb,
        .params = local->params,
        .deadline = local->deadline,
        .silent = local->silent,
        .has_id = local->has_id,
        .expires_at = local->expires_at,
    };
    if (!claim(core, local, now)) {
        return;
    }
    if (hr_holds_lead(core->holds, &request, now) != HR_OK) {
        const struct hr_lead_done none = {.verb = local->verb, .has_id = local->has_id, .params = local->params};
        settle_claim(core, &none, false, HR_SPAN(""), now.steady);
        hr_router_fail(core->router, local->job, HR_CODE_RESOURCE_EXHAUSTED,
                       "too many requests over several nodes at a time");
    }
    hr_shard_note_change(core->shard, now.steady);
}

static void count_led(struct hr_core *core, const struct hr_lead_done *done)
{
    struct hr_shard_counts *counts = core->parts.counts;
    counts->faults += done->is_fault;
    counts->peeks += done->verb == HR_HOLD_PEEK;
    bool is_decision = done->verb == HR_HOLD_TAKE && !done->is_fault;
    counts->decisions += is_decision;
    counts->denied += is_decision && !done->decision->allowed;
}

/* A request that was led has come to its end. */
static void answer_led(struct hr_core *core, const struct hr_lead_done *done, struct hr_now now)
{
    struct hr_packer out = {.at = core->answer, .room = sizeof(core->answer)};
    if (done->is_moving) {
        settle_claim(core, done, false, HR_SPAN(""), now.steady);
        hr_router_keep(core->router, done->job, "its counters are being moved", now);
        return;
    }
    count_led(core, done);
    if (done->is_fault) {
        settle_claim(core, done, false, HR_SPAN(""), now.steady);
        hr_router_fail(core->router, done->job, done->code, done->words);
        return;
    }
    if (done->verb == HR_HOLD_REFUND) {
        pack_refunded(&out, done->refunded);
    } else {
        const struct hr_decision_form form = {core->parts.origin, done->detail, done->degraded};
        hr_pack_decision(&out, done->decision, &form);
    }
    bool is_decided = done->verb != HR_HOLD_REFUND || done->refunded;
    settle_claim(core, done, is_decided, hr_packer_bytes(&out), now.steady);
    hr_router_done(core->router, done->job, hr_packer_bytes(&out), false);
}

static void begin_event(struct hr_core *core, struct hr_now now)
{
    core->now = now.steady;
    core->now_both = now;
}

/* Sends the next requests on their way, and carries out those that are for this node: they are read together, and once
 * each. False: there are none. */
static bool go_on(struct hr_core *core, struct hr_now now)
{
    struct hr_ready ready[HR_TOGETHER_MAX];
    struct hr_call calls[HR_TOGETHER_MAX];
    struct hr_local local;
    uint32_t count = hr_router_next_ready(core->router, ready, HR_TOGETHER_MAX);
    if (count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        calls[i] = (struct hr_call){
            .connection = ROUTED, .msgid = ready[i].job, .method = ready[i].method, .params = ready[i].params};
    }
    hr_shard_prepare(core->shard, calls, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct hr_prepared *known = hr_shard_prepared(core->shard, &calls[i]);
        if (!hr_router_go(core->router, ready[i].job, known, now, &local)) {
            continue;
        }
        if (local.kind == HR_LOCAL_SERVE) {
            serve_local(core, &calls[i], now);
        } else {
            lead_local(core, &local, now);
        }
    }
    return true;
}

/* Does all that is to be done here, until nothing is. */
static void turn(struct hr_core *core, struct hr_now now)
{
    struct hr_lead_done done;
    for (bool any = true; any;) {
        any = false;
        while (go_on(core, now)) {
            any = true;
        }
        while (hr_holds_next_done(core->holds, now, &done)) {
            any = true;
            answer_led(core, &done, now);
        }
    }
    if (core->caps != NULL) {
        hr_cap_keeper_serve(core->caps, now);
    }
}

/* --- requests --- */

void hr_core_prepare(struct hr_core *core, struct hr_call *calls, uint32_t count)
{
    hr_shard_prepare(core->shard, calls, count);
}

/* May the shard decide it at once? Where it is known what the call touches, that is seen without reading it again. */
static bool is_for_shard(const struct hr_core *core, const struct hr_call *call, const struct hr_prepared *known,
                         struct hr_now now)
{
    for (uint32_t i = 0; known != NULL && i < known->count; i++) {
        uint32_t partition = hr_place_partition(known->ids[i]);
        bool is_here = core->is_alone ? hr_slice_has(core->slice, partition)
                                      : place_of(core, partition, now.steady).kind == HR_PLACE_HERE;
        if (!is_here || hr_holds_has(core->holds, known->ids[i])) {
            return false;
        }
    }
    return known != NULL || hr_router_is_here(core->router, call->method, call->params, now);
}

/* To where it can be decided. False: there is no room, and that is its answer. */
static bool send_off(struct hr_core *core, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    const struct hr_asker asker = {call->connection, call->msgid, call->method};
    if (hr_router_take(core->router, &asker, call->params, hr_shard_prepared(core->shard, call), now)) {
        return true;
    }
    struct hr_fault fault;
    hr_fault_set(&fault, HR_CODE_RESOURCE_EXHAUSTED, "too many requests are on their way to other nodes");
    hr_pack_error(out, call->msgid, &fault);
    core->parts.counts->faults++;
    return false;
}

static enum hr_served serve_in_region(struct hr_core *core, const struct hr_call *call, struct hr_now now,
                                      struct hr_packer *out)
{
    if (is_for_shard(core, call, hr_shard_prepared(core->shard, call), now)) {
        enum hr_served served = hr_shard_serve(core->shard, call, now, out);
        if (core->caps != NULL) {
            hr_cap_keeper_serve(core->caps, now);
        }
        return served;
    }
    if (!send_off(core, call, now, out)) {
        return HR_SERVED_ANSWERED;
    }
    return HR_SERVED_WAITING; /* next_answer goes on with it: what else has been prepared is not to be disturbed */
}

enum hr_served hr_core_serve(struct hr_core *core, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    if (core->router == NULL || call->method > HR_METHOD_REFUND) {
        return hr_shard_serve(core->shard, call, now, out);
    }
    if (call->method == HR_METHOD_CHECK && call->prepared == 0) {
        struct hr_call read = *call;
        hr_shard_prepare_one(core->shard, &read);
        return serve_in_region(core, &read, now, out);
    }
    return serve_in_region(core, call, now, out);
}

/* What the shard has to say of a request that waited: its answer, or that it is to go elsewhere. True: it is an answer
 * for a client. */
static bool take_answer(struct hr_core *core, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    bool is_routed = call->connection == ROUTED, is_let_go = out->wanted == 0;
    if (!is_routed) {
        return !is_let_go || !send_off(core, call, now, out);
    }
    if (is_let_go) {
        hr_router_keep(core->router, call->msgid, "its counters are being moved", now);
        return false;
    }
    hand_over(core, call->msgid, hr_packer_fits(out) ? hr_packer_bytes(out) : HR_SPAN(""));
    out->wanted = 0;
    return false;
}

bool hr_core_next_answer(struct hr_core *core, struct hr_now now, struct hr_packer *out, struct hr_call *ret_call)
{
    while (hr_shard_next_answer(core->shard, now, out, ret_call)) {
        if (take_answer(core, ret_call, now, out)) {
            return true;
        }
    }
    if (core->router == NULL) {
        return false;
    }
    struct hr_asker asker;
    turn(core, now);
    if (!hr_router_next_answer(core->router, out, &asker)) {
        return false;
    }
    *ret_call = (struct hr_call){.connection = asker.connection, .msgid = asker.msgid, .method = asker.method};
    return true;
}

/* --- packets --- */

static bool is_of_region(const struct hr_core *core, uint32_t member)
{
    const struct hr_members *members = core->members;
    return member != HR_MEMBER_NONE && strcmp(members->all[member].region, members->all[members->self].region) == 0;
}

static void note_members(struct hr_core *core, hr_ns now)
{
    if (core->view != core->members->view) {
        core->view = core->members->view;
        hr_tenure_members_changed(core->tenure, now);
    }
}

/* A letter among the nodes of one region. */
static void receive_of_region(struct hr_core *core, const struct hr_opened *letter, uint32_t from, struct hr_now now)
{
    switch ((int)letter->kind) {
    case HR_LETTER_PULSE:
    case HR_LETTER_STREAM:
    case HR_LETTER_TENURE:
        hr_tenure_receive(core->tenure, letter->kind, from, letter->body, now);
        break;
    case HR_LETTER_CALL:
    case HR_LETTER_ANSWER:
        hr_router_receive(core->router, letter->from, letter->kind, letter->body, now);
        break;
    case HR_LETTER_HOLD:
    case HR_LETTER_HELD:
    case HR_LETTER_SETTLE:
    case HR_LETTER_SETTLED:
        hr_holds_receive(core->holds, letter->from, letter->kind, letter->body, now);
        hr_shard_note_change(core->shard, now.steady);
        break;
    default:
        break; /* HR_LETTER_CAPS goes between regions */
    }
}

void hr_core_receive(struct hr_core *core, struct hr_span packet, struct hr_now now)
{
    struct hr_opened letter;
    begin_event(core, now);
    if (core->is_alone || hr_envelope_open(&core->envelope, packet, &letter) != HR_REFUSED_NOT) {
        return;
    }
    if (letter.kind == HR_LETTER_SWIM) {
        hr_swim_receive(core->swim, letter.from, letter.body, now.steady);
        note_members(core, now.steady);
        return;
    }
    uint32_t from = hr_members_find(core->members, letter.from);
    if (from == HR_MEMBER_NONE) {
        return; /* who is no member has no say, whatever secret it holds; one that becomes a member says it again */
    }
    if (letter.kind == HR_LETTER_CATALOG) {
        hr_facts_receive(&core->facts, letter.from, letter.body, &core->outbox);
    } else if (is_of_region(core, from)) {
        receive_of_region(core, &letter, from, now);
        turn(core, now);
    } else if (letter.kind == HR_LETTER_CAPS && core->caps != NULL) {
        hr_cap_keeper_receive(core->caps, letter.from, letter.body, now);
    }
}

/* Where a letter goes. False: its receiver is not known any more. */
static bool address_letter(const struct hr_core *core, const struct hr_letter *letter, struct hr_packet *packet)
{
    packet->lane = letter->lane;
    packet->member = letter->to == 0 ? HR_MEMBER_NONE : hr_members_find(core->members, letter->to);
    if (packet->member == HR_MEMBER_NONE) {
        packet->address = letter->address;
        return letter->address.bytes > 0;
    }
    const struct hr_member *member = &core->members->all[packet->member];
    packet->address = hr_span_of(letter->lane == HR_LANE_PEER ? member->rpc : member->gossip);
    return true;
}

bool hr_core_next_packet(struct hr_core *core, struct hr_now now, struct hr_packet *ret_packet)
{
    struct hr_letter letter;
    if (core->is_alone) {
        return false;
    }
    hr_router_flush(core->router, now);
    while (hr_outbox_next(&core->outbox, &letter)) {
        size_t bytes = hr_envelope_seal(&core->envelope, &letter, core->members, core->packet);
        if (bytes > 0 && address_letter(core, &letter, ret_packet)) {
            ret_packet->bytes = (struct hr_span){(const char *)core->packet, bytes};
            return true;
        }
    }
    return false;
}

/* --- letters between the cores of one node --- */

bool hr_core_next_letter(struct hr_core *core, struct hr_now now, struct hr_core_letter *ret_letter)
{
    struct hr_letter letter;
    while (!hr_outbox_next(&core->outbox, &letter)) {
        if (!hr_router_flush_one(core->router, now)) {
            return false;
        }
    }
    *ret_letter = (struct hr_core_letter){(uint32_t)letter.to - 1, letter.kind, letter.body};
    return true;
}

void hr_core_receive_letter(struct hr_core *core, uint32_t from, enum hr_letter_kind kind, struct hr_span body,
                            struct hr_now now)
{
    begin_event(core, now);
    if (kind == HR_LETTER_CALL || kind == HR_LETTER_ANSWER) {
        hr_router_receive(core->router, core->crew.all[from].id, kind, body, now);
    } else {
        hr_holds_receive(core->holds, core->crew.all[from].id, kind, body, now);
        hr_shard_note_change(core->shard, now.steady);
    }
}

/* --- the store, and standbys --- */

/* Votes wait for the tenure's records: they go before the shard's. */
static const struct hr_store_batch *next_tenure_batch(struct hr_core *core, uint64_t *ret_ticket)
{
    struct store *store = &core->store;
    if (!store->is_ending && !hr_tenure_is_unsaved(core->tenure)) {
        return NULL;
    }
    hr_batch_clear(&store->batch);
    if (!hr_tenure_next_record(core->tenure, &store->batch, &store->tenure_mark)) {
        return NULL;
    }
    *ret_ticket = store->ticket = TENURE_TICKET | ++store->tenure_tickets;
    return &store->batch;
}

static const struct hr_store_batch *next_caps_batch(struct hr_core *core, struct hr_now now, uint64_t *ret_ticket)
{
    struct store *store = &core->store;
    hr_batch_clear(&store->caps_batch);
    if (core->caps == NULL || !hr_cap_keeper_next_batch(core->caps, &store->caps_batch, now)) {
        return NULL;
    }
    *ret_ticket = CAPS_TICKET | ++store->tenure_tickets;
    return &store->caps_batch;
}

/* The caps' and the shard's, in turns: neither waits for more than one of the other's. */
static const struct hr_store_batch *next_own_batch(struct hr_core *core, struct hr_now now, bool force,
                                                   uint64_t *ret_ticket)
{
    bool is_caps_turn = core->store.is_caps_turn;
    core->store.is_caps_turn = !is_caps_turn;
    for (int i = 0; i < 2; i++, is_caps_turn = !is_caps_turn) {
        const struct hr_store_batch *batch = is_caps_turn ? next_caps_batch(core, now, ret_ticket)
                                                          : hr_shard_next_batch(core->shard, now, force, ret_ticket);
        if (batch != NULL) {
            return batch;
        }
    }
    return NULL;
}

const struct hr_store_batch *hr_core_next_batch(struct hr_core *core, struct hr_now now, bool force,
                                                uint64_t *ret_ticket)
{
    if (core->is_alone) {
        return hr_shard_next_batch(core->shard, now, force, ret_ticket);
    }
    if (core->store.ticket != 0 || !core->saves) {
        return NULL;
    }
    begin_event(core, now);
    const struct hr_store_batch *batch = next_tenure_batch(core, ret_ticket);
    if (batch != NULL) {
        return batch;
    }
    batch = next_own_batch(core, now, force, ret_ticket);
    core->store.is_stored = false;
    if (batch != NULL) {
        core->store.ticket = *ret_ticket;
        hr_tenure_copy(core->tenure, batch, *ret_ticket, now);
    }
    return batch;
}

/* The shard hears of its batch when the store and the standbys have it: what it then spends outlives either. */
static void settle_batch(struct hr_core *core, struct hr_now now)
{
    struct store *store = &core->store;
    bool has_copies = store->is_ending || hr_tenure_copied(core->tenure, store->ticket);
    if (store->ticket == 0 || !store->is_stored || !has_copies) {
        return;
    }
    uint64_t ticket = store->ticket;
    store->ticket = 0;
    store->is_stored = false; /* the next one on its way is not: nobody but the store may say so */
    if ((ticket & CAPS_TICKET) != 0) {
        hr_cap_keeper_persisted(core->caps, store->err == HR_OK, now);
        hr_shard_wake(core->shard);
    } else {
        hr_shard_persisted(core->shard, ticket, store->err, now);
    }
    hr_holds_stir(core->holds, now);
    turn(core, now);
}

void hr_core_persisted(struct hr_core *core, uint64_t ticket, enum hr_err err, struct hr_now now)
{
    begin_event(core, now);
    if (core->is_alone) {
        hr_shard_persisted(core->shard, ticket, err, now);
        if (core->router != NULL) {
            hr_holds_stir(core->holds, now);
        }
        return;
    }
    if (ticket != core->store.ticket || ticket == 0) {
        return; /* not ours */
    }
    if ((ticket & TENURE_TICKET) != 0) {
        core->store.ticket = 0;
        hr_tenure_saved(core->tenure, core->store.tenure_mark, err == HR_OK, now.steady);
        return;
    }
    core->store.is_stored = true;
    core->store.err = err;
    settle_batch(core, now);
}

enum hr_err hr_core_restore_tenure(struct hr_core *core, const struct hr_record *record, struct hr_now now)
{
    return core->is_alone ? HR_OK : hr_tenure_restore(core->tenure, record, now.steady);
}

enum hr_err hr_core_restore_cap(struct hr_core *core, const struct hr_record *record)
{
    return core->caps == NULL ? HR_OK : hr_cap_keeper_restore(core->caps, record);
}

/* --- time --- */

static hr_ns sooner(hr_ns a, hr_ns b)
{
    return a < b ? a : b;
}

hr_ns hr_core_deadline(const struct hr_core *core)
{
    hr_ns first = hr_shard_deadline(core->shard);
    if (core->router == NULL) {
        return first;
    }
    first = sooner(first, hr_router_deadline(core->router));
    first = sooner(first, hr_holds_deadline(core->holds));
    if (core->is_alone) {
        return first;
    }
    first = sooner(first, hr_swim_deadline(core->swim));
    first = sooner(first, hr_tenure_deadline(core->tenure));
    return core->caps == NULL ? first : sooner(first, hr_cap_keeper_deadline(core->caps));
}

static void tick_ways(struct hr_core *core, struct hr_now now)
{
    hr_router_tick(core->router, now);
    if (hr_holds_open_count(core->holds) > 0) { /* one may be given back */
        hr_shard_note_change(core->shard, now.steady);
    }
    hr_holds_tick(core->holds, now);
    turn(core, now);
}

void hr_core_tick(struct hr_core *core, struct hr_now now)
{
    begin_event(core, now);
    hr_shard_tick(core->shard, now);
    if (core->is_alone) {
        if (core->router != NULL) {
            tick_ways(core, now);
        }
        return;
    }
    if (now.steady >= hr_swim_deadline(core->swim)) {
        hr_swim_tick(core->swim, now.steady);
    }
    note_members(core, now.steady);
    hr_facts_tick(&core->facts, core->members, &core->outbox, now.steady);
    if (now.steady >= hr_tenure_deadline(core->tenure)) {
        hr_tenure_tick(core->tenure, now);
    }
    if (core->caps != NULL) {
        hr_cap_keeper_tick(core->caps, now);
    }
    settle_batch(core, now);
    tick_ways(core, now);
}

bool hr_core_leave(struct hr_core *core, struct hr_now now)
{
    begin_event(core, now);
    if (core->is_alone || core->has_left) {
        return true;
    }
    if (!hr_tenure_leave(core->tenure, now.steady)) {
        return hr_tenure_is_last(core->tenure);
    }
    core->has_left = true;
    hr_swim_leave(core->swim, now.steady);
    return true;
}

/* A batch that only its standbys keep up is settled first: else none would come after it. */
void hr_core_drain(struct hr_core *core, struct hr_now now)
{
    begin_event(core, now);
    core->store.is_ending = true;
    if (!core->is_alone) {
        settle_batch(core, now);
    }
    hr_shard_drain(core->shard);
}

/* --- limits put at run time --- */

struct hr_fact_version hr_core_next_version(const struct hr_core *core, struct hr_now now)
{
    return hr_facts_next_version(&core->facts, now);
}

enum hr_err hr_core_write_fact(struct hr_core *core, struct hr_span name, struct hr_span value,
                               struct hr_fact_version version)
{
    return hr_facts_write(&core->facts, name, value, version, core->members, &core->outbox);
}

enum hr_err hr_core_restore_fact(struct hr_core *core, struct hr_span name, struct hr_span value,
                                 struct hr_fact_version version)
{
    return hr_facts_restore(&core->facts, name, value, version);
}

bool hr_core_next_fact(struct hr_core *core, struct hr_span *ret_name, struct hr_span *ret_value,
                       struct hr_fact_version *ret_version)
{
    while (hr_facts_next_change(&core->facts, ret_name, ret_value, ret_version)) {
        if (ret_name->at[0] != HR_CAP_FACT_MARK) {
            return true;
        }
    }
    return false;
}

/* --- parts --- */

enum hr_err hr_core_forget(struct hr_core *core, struct hr_span region, struct hr_span name, struct hr_now now)
{
    if (core->is_alone) {
        return HR_E_NOT_FOUND;
    }
    enum hr_err err = hr_swim_forget(core->swim, region, name, now.steady);
    note_members(core, now.steady);
    return err;
}

enum hr_err hr_core_remove_region(struct hr_core *core, struct hr_span region, struct hr_now now)
{
    return core->caps == NULL ? HR_E_NOT_FOUND : hr_cap_keeper_remove_region(core->caps, region, now);
}

struct hr_cap_keeper *hr_core_caps(const struct hr_core *core)
{
    return core->caps;
}

struct hr_shard *hr_core_shard(struct hr_core *core)
{
    return core->shard;
}

const struct hr_members *hr_core_members(const struct hr_core *core)
{
    return core->members;
}

struct hr_swim *hr_core_swim(struct hr_core *core)
{
    return core->swim;
}

const struct hr_tenure *hr_core_tenure(const struct hr_core *core)
{
    return core->tenure;
}

const struct hr_router *hr_core_router(const struct hr_core *core)
{
    return core->router;
}

const struct hr_holds *hr_core_holds(const struct hr_core *core)
{
    return core->holds;
}

const struct hr_envelope *hr_core_envelope(const struct hr_core *core)
{
    return core->is_alone ? NULL : &core->envelope;
}
