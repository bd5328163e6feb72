/* The shard under a virtual clock, on a store in memory that answers when a test says so, fails when it says so, and
 * outlives crashes. Nothing here sleeps, and every random schedule prints its seed where it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/rng.h"
#include "limiter/limiter_state.h"
#include "node/counter_log.h"
#include "node/shard.h"
#include "rpc/told.h"
#include "storage/images.h"
#include "storage/segment.h"
#include "storage/storage_memory.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS(n) ((n)*HR_NS_PER_MS)
#define START_NS (INT64_C(1700000000) * HR_NS_PER_S)
#define FLUSH_NS MS(100)
#define WAITING_MAX 16
#define LIMITS_MAX 8
#define QUOTA 3000

/* --- the rig --- */

struct rig {
    struct hr_memory_disk *disk;
    struct hr_store *store;
    struct hr_shard *shard;
    void *memory;
    size_t bytes;
    struct hr_limit limits[LIMITS_MAX];
    uint32_t limit_count;
    struct hr_limit_set set;
    void *set_memory;
    struct hr_now now;
    uint64_t lives;
    uint64_t ticket; /* on its way; 0: none */
    enum hr_err result;
    bool has_result;
    uint32_t batch_puts, batch_deletes; /* of the last batch */
    uint64_t batch_records;             /* each counter in it one, each lease one */
    uint64_t log_bytes;                 /* of counters, as this life found them */
    uint64_t msgid;
    char answer[HR_FRAME_BYTES_MAX + 65536];
    struct hr_packer out;
    char params[65536];
    struct hr_told_decision decision; /* the last */
    struct hr_fault fault;
};

static const struct hr_span user_key[] = {{"user", 4}};

/* A limit that every request with a user touches. */
static struct hr_limit limit_of(const char *name, struct hr_rule rule, enum hr_durability durability)
{
    return (struct hr_limit){
        .name = hr_span_of(name), .key = user_key, .key_count = 1, .rule = rule, .durability = durability};
}

static struct hr_rule quota_rule(uint64_t n)
{
    return (struct hr_rule){.algorithm = HR_QUOTA, .unit = HR_YEAR, .capacity = n};
}

static struct hr_rule bucket_rule(uint64_t n)
{
    return (struct hr_rule){
        .algorithm = HR_TOKEN_BUCKET, .capacity = n, .rate = n, .period_ns = (uint64_t)(100 * HR_NS_PER_S)};
}

static struct hr_rule rule_of(enum hr_algorithm algorithm, uint64_t n)
{
    struct hr_rule rule = {.algorithm = algorithm, .capacity = n, .period_ns = (uint64_t)(100 * HR_NS_PER_S)};
    if (algorithm == HR_TOKEN_BUCKET || algorithm == HR_GCRA || algorithm == HR_LEAKY_BUCKET) {
        rule.rate = n;
    }
    return algorithm == HR_QUOTA ? quota_rule(n) : rule;
}

static void on_done(void *user, const struct hr_store_result *results, size_t count)
{
    struct rig *rig = user;
    for (size_t i = 0; i < count; i++) {
        if (results[i].ticket == rig->ticket) {
            rig->result = results[i].err;
            rig->has_result = true;
        }
    }
}

static void load_limits(struct rig *rig, const struct hr_limit *limits, uint32_t count)
{
    free(rig->set_memory);
    memcpy(rig->limits, limits, count * sizeof(*limits));
    rig->limit_count = count;
    size_t bytes = hr_limit_set_bytes(rig->limits, count);
    rig->set_memory = malloc(bytes);
    assert_non_null(rig->set_memory);
    assert_int_equal(hr_limit_set_build(&rig->set, rig->limits, count, rig->set_memory, bytes), HR_OK);
    assert_int_equal(hr_shard_load(rig->shard, &rig->set, rig->now), HR_OK);
}

static enum hr_err visit_counter(void *user, const struct hr_record *record)
{
    struct rig *rig = user;
    struct hr_segment_reader reader;
    assert_int_equal(hr_segment_open(record, &reader), HR_OK);
    int64_t elapsed_ns = hr_clamp_time(rig->now.steady - reader.saved_at);
    rig->log_bytes += record->payload.bytes;
    return hr_shard_restore_counters(rig->shard, record, elapsed_ns, rig->now);
}

static enum hr_err visit_lease(void *user, const struct hr_record *record)
{
    struct rig *rig = user;
    struct hr_lease_image image;
    assert_int_equal(hr_lease_decode(record, &image), HR_OK);
    hr_shard_restore_lease(rig->shard, &image, hr_clamp_time(rig->now.steady - image.saved_at), rig->now);
    return HR_OK;
}

static enum hr_err accept_lease(void *user, const struct hr_record *record)
{
    (void)user;
    assert_int_equal(record->kind, HR_RECORD_LEASE);
    return HR_OK;
}

/* A life begins: a fresh shard with the limits, and what the disk has. */
static void begin_life(struct rig *rig)
{
    const struct hr_shard_config config = {
        .sizes = {.counters_max = 1024,
                  .leases_max = 256,
                  .log_blocks_max = 256,
                  .limits_max = LIMITS_MAX,
                  .reserves_max = 256,
                  .saves = true},
        .node = HR_SPAN("eu-1"),
        .region = HR_SPAN("eu"),
        .first_serial = ++rig->lives << 32,
        .flush_interval_ns = FLUSH_NS,
        .waiting_max = WAITING_MAX,
        .replies_bytes = 4U << 20,
        .replies_max = 64,
        .hot_keys_max = 8,
    };
    struct hr_store_loaded loaded;
    rig->bytes = hr_shard_bytes(&config);
    rig->memory = mmap(NULL, rig->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(rig->memory, MAP_FAILED);
    rig->shard = hr_shard_init(&config, rig->memory, rig->bytes);
    assert_non_null(rig->shard);
    rig->store = hr_store_memory_open(rig->disk, on_done, rig);
    assert_non_null(rig->store);
    rig->ticket = 0;
    rig->has_result = false;
    struct hr_limit limits[LIMITS_MAX];
    memcpy(limits, rig->limits, sizeof(limits));
    load_limits(rig, limits, rig->limit_count);
    rig->log_bytes = 0;
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_COUNTER, visit_counter, rig, &loaded), HR_OK);
    assert_int_equal(loaded.bad, 0);
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_LEASE, visit_lease, rig, &loaded), HR_OK);
    assert_int_equal(loaded.bad, 0);
}

static void end_life(struct rig *rig)
{
    (void)munmap(rig->memory, rig->bytes);
    rig->shard = NULL;
}

static struct rig *open_rig(const struct hr_limit *limits, uint32_t count)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    rig->disk = hr_memory_disk_new();
    assert_non_null(rig->disk);
    rig->now = (struct hr_now){START_NS, {START_NS}};
    memcpy(rig->limits, limits, count * sizeof(*limits));
    rig->limit_count = count;
    begin_life(rig);
    return rig;
}

static void close_rig(struct rig *rig)
{
    hr_store_memory_crash(rig->store);
    end_life(rig);
    hr_memory_disk_free(rig->disk);
    free(rig->set_memory);
    free(rig);
}

static void pass(struct rig *rig, int64_t ns)
{
    rig->now.steady += ns;
    rig->now.wall.ns += ns;
}

/* What was under way is lost, and the next life begins. */
static void crash(struct rig *rig)
{
    hr_store_memory_crash(rig->store);
    end_life(rig);
    begin_life(rig);
}

/* Gives the store what is due. True: it was given something. */
static bool commit(struct rig *rig, bool force)
{
    uint64_t ticket, before = hr_shard_counts(rig->shard).records;
    const struct hr_store_batch *batch = hr_shard_next_batch(rig->shard, rig->now, force, &ticket);
    if (batch == NULL) {
        return false;
    }
    rig->batch_records = hr_shard_counts(rig->shard).records - before;
    rig->batch_puts = batch->put_count;
    rig->batch_deletes = batch->count - batch->put_count;
    rig->ticket = ticket;
    rig->has_result = false;
    assert_int_equal(hr_store_commit(rig->store, ticket, batch), HR_OK);
    return true;
}

/* The store does its work. True: the shard was told of a result. */
static bool settle(struct rig *rig)
{
    (void)hr_store_memory_run(rig->store, SIZE_MAX);
    if (!rig->has_result) {
        return false;
    }
    rig->has_result = false;
    hr_shard_persisted(rig->shard, rig->ticket, rig->result, rig->now);
    return true;
}

static void fail_next(struct rig *rig, enum hr_err err)
{
    hr_memory_disk_set_faults(rig->disk, (struct hr_memory_faults){.fail_op = 1, .fail_err = err});
}

static void stop_clean(struct rig *rig)
{
    (void)settle(rig);
    hr_shard_drain(rig->shard);
    for (int i = 0; commit(rig, true); i++) {
        assert_true(i < 10);
        (void)settle(rig);
    }
    hr_store_close(rig->store);
    end_life(rig);
}

/* --- requests --- */

struct ask {
    const char *user, *id;
    uint64_t cost;
    bool peek;
};

static void fill_params(const struct ask *ask, struct hr_params *params)
{
    *params = (struct hr_params){.present = HR_PARAM_BIT(HR_PARAM_ATTRIBUTES) | HR_PARAM_BIT(HR_PARAM_COST),
                                 .attribute_count = 1,
                                 .cost = ask->cost,
                                 .peek = ask->peek,
                                 .detail = true};
    params->attributes[0] = (struct hr_attribute){HR_SPAN("user"), hr_span_of(ask->user == NULL ? "ann" : ask->user)};
    params->present |= ask->peek ? HR_PARAM_BIT(HR_PARAM_PEEK) : 0;
    if (ask->id != NULL) {
        params->id = hr_span_of(ask->id);
        params->present |= HR_PARAM_BIT(HR_PARAM_ID);
    }
}

static struct hr_packer params_packer(struct rig *rig)
{
    return (struct hr_packer){.at = rig->params, .room = sizeof(rig->params)};
}

static enum hr_served serve(struct rig *rig, enum hr_method method, const struct hr_packer *params)
{
    assert_true(hr_packer_fits(params));
    const struct hr_call call = {
        .connection = 1, .msgid = ++rig->msgid, .method = method, .params = hr_packer_bytes(params)};
    rig->out = (struct hr_packer){.at = rig->answer, .room = sizeof(rig->answer)};
    return hr_shard_serve(rig->shard, &call, rig->now, &rig->out);
}

static enum hr_served send_as(struct rig *rig, enum hr_method method, struct ask ask)
{
    struct hr_packer packer = params_packer(rig);
    struct hr_params params;
    fill_params(&ask, &params);
    hr_params_encode(&params, &packer);
    return serve(rig, method, &packer);
}

static enum hr_served send(struct rig *rig, struct ask ask)
{
    return send_as(rig, HR_METHOD_CHECK, ask);
}

static struct hr_message answered(struct rig *rig)
{
    struct hr_message message;
    assert_true(hr_packer_fits(&rig->out));
    assert_int_equal(hr_message_decode(hr_packer_bytes(&rig->out), &message), HR_OK);
    return message;
}

/* Reads the answer at hand. False: it is an error, in rig->fault. */
static bool read_decision(struct rig *rig)
{
    struct hr_message message = answered(rig);
    if (hr_unpack_error(message.error, &rig->fault)) {
        return false;
    }
    struct hr_unpacker unpacker = {message.result};
    assert_int_equal(hr_unpack_decision(&unpacker, &rig->decision), HR_OK);
    return true;
}

static bool next_answer(struct rig *rig, uint64_t *ret_msgid)
{
    struct hr_call call;
    rig->out = (struct hr_packer){.at = rig->answer, .room = sizeof(rig->answer)};
    if (!hr_shard_next_answer(rig->shard, rig->now, &rig->out, &call)) {
        return false;
    }
    *ret_msgid = call.msgid;
    return true;
}

/* Asks, and waits for the store where need be, 5 ms for each commit. True: allowed. */
static bool take(struct rig *rig, struct ask ask)
{
    uint64_t msgid;
    if (send(rig, ask) == HR_SERVED_WAITING) {
        for (int i = 0; !next_answer(rig, &msgid); i++) {
            assert_true(i < 64);
            (void)commit(rig, false);
            pass(rig, MS(5));
            (void)settle(rig);
        }
    }
    assert_true(read_decision(rig));
    return rig->decision.allowed;
}

static uint64_t remaining(struct rig *rig, uint32_t row)
{
    assert_int_equal(send(rig, (struct ask){.cost = 1, .peek = true}), HR_SERVED_ANSWERED);
    assert_true(read_decision(rig));
    assert_true(row < rig->decision.row_count);
    return rig->decision.rows[row].remaining;
}

static bool end_lease(struct rig *rig, enum hr_method method, struct hr_id128 lease)
{
    struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_LEASE), .lease = lease};
    struct hr_packer packer = params_packer(rig);
    bool is_done = false;
    hr_params_encode(&params, &packer);
    assert_int_equal(serve(rig, method, &packer), HR_SERVED_ANSWERED);
    struct hr_span key = method == HR_METHOD_RENEW ? HR_SPAN("renewed") : HR_SPAN("released");
    assert_int_equal(hr_unpack_flag(answered(rig).result, key, &is_done), HR_OK);
    return is_done;
}

/* --- periodic --- */

static void periodic_writes_only_what_changed_each_interval(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("p", bucket_rule(1000), HR_PERIODIC);
    struct rig *rig = open_rig(&limit, 1);
    (void)commit(rig, false);
    static const char *const users[] = {"a", "b", "c"};
    for (size_t i = 0; i < COUNT(users); i++) {
        assert_true(take(rig, (struct ask){.user = users[i], .cost = 1}));
    }
    pass(rig, FLUSH_NS - 1);
    (void)settle(rig);
    pass(rig, 1);
    assert_true(commit(rig, false));
    assert_int_equal(rig->batch_records, 3);
    assert_int_equal(rig->batch_puts, 1);
    assert_false(commit(rig, true)); /* one at a time */
    assert_true(settle(rig));
    pass(rig, 10 * FLUSH_NS);
    assert_false(commit(rig, false)); /* nothing has changed */
    assert_true(take(rig, (struct ask){.user = "b", .cost = 1}));
    assert_true(take(rig, (struct ask){.user = "b", .cost = 1}));
    pass(rig, FLUSH_NS);
    assert_true(commit(rig, false));
    assert_int_equal(rig->batch_records, 1);
    fail_next(rig, HR_E_FULL);
    assert_true(settle(rig));
    assert_true(commit(rig, true)); /* what did not come to the store goes again */
    assert_int_equal(rig->batch_records, 1);
    close_rig(rig);
}

/* Restored counters are never fuller than those of a limiter that went on; and after a clean stop they are the same. */
static void a_restored_counter_is_never_fuller_than_one_that_went_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 420; seed++) {
        struct hr_rng rng = {seed};
        enum hr_algorithm algorithm = (enum hr_algorithm)(seed % HR_CONCURRENCY);
        struct hr_limit limits[] = {limit_of("kept", rule_of(algorithm, 100), seed % 2 ? HR_PERIODIC : HR_RESERVED),
                                    limit_of("whole", rule_of(algorithm, 100), HR_MEMORY)};
        struct rig *rig = open_rig(limits, 1);
        struct rig *whole = open_rig(&limits[1], 1);
        for (int step = 0; step < 120; step++) {
            uint64_t cost = 1 + hr_rng_below(&rng, 12);
            bool allowed = take(rig, (struct ask){.cost = cost});
            whole->now = rig->now;
            bool expected = take(whole, (struct ask){.cost = cost});
            if (allowed != expected) {
                fail_msg("seed %lu step %d: kept %d, whole %d", (unsigned long)seed, step, allowed, expected);
            }
            int64_t gap = (int64_t)hr_rng_below(&rng, (uint64_t)MS(hr_rng_chance(&rng, 1, 20) ? 90000 : 4000));
            bool crashes = seed % 2 == 0 && hr_rng_chance(&rng, 1, 30); /* where it is reserved */
            if (crashes) {
                pass(rig, gap);
                crash(rig);
            } else if (hr_rng_chance(&rng, 1, 10)) {
                stop_clean(rig);
                pass(rig, gap);
                begin_life(rig);
            } else {
                pass(rig, gap);
            }
            whole->now = rig->now;
            uint64_t left = remaining(rig, 0), left_whole = remaining(whole, 0);
            bool is_exact = algorithm != HR_SLIDING_LOG && !crashes; /* its neighbours are joined */
            if (left > left_whole || (is_exact && left != left_whole)) {
                fail_msg("seed %lu step %d algorithm %d: %lu restored, %lu had it gone on", (unsigned long)seed, step,
                         (int)algorithm, (unsigned long)left, (unsigned long)left_whole);
            }
            if (crashes || left != left_whole) { /* the two are not in one state any more */
                break;
            }
        }
        close_rig(rig);
        close_rig(whole);
    }
}

/* --- reserved --- */

static uint64_t units_ahead(const struct rig *rig)
{
    const struct hr_reserve_pool *pool = &hr_shard_limiter(rig->shard)->reserves;
    uint64_t ahead = 0;
    for (uint32_t i = 1; i < pool->fresh; i++) {
        ahead += pool->reserves[i].left + pool->reserves[i].asked;
    }
    return ahead;
}

/* A crash: nothing that was spent may be there again, and no more may be gone than was ahead. */
static void crash_and_compare(struct rig *rig, uint64_t seed)
{
    uint64_t before = QUOTA - remaining(rig, 0), ahead = units_ahead(rig);
    crash(rig);
    uint64_t after = QUOTA - remaining(rig, 0);
    if (after < before || after > before + ahead) {
        fail_msg("seed %lu: %lu spent and %lu ahead before a crash, %lu spent after it", (unsigned long)seed,
                 (unsigned long)before, (unsigned long)ahead, (unsigned long)after);
    }
}

/* One random event but for requests and crashes. */
static void random_event(struct rig *rig, struct hr_rng *rng)
{
    uint64_t what = hr_rng_below(rng, 10);
    if (what < 4) {
        (void)commit(rig, hr_rng_chance(rng, 1, 8));
    } else if (what < 8) {
        if (hr_rng_chance(rng, 1, 6)) {
            fail_next(rig, hr_rng_chance(rng, 1, 2) ? HR_E_FULL : HR_E_IO);
        }
        (void)settle(rig);
        hr_memory_disk_set_faults(rig->disk, (struct hr_memory_faults){0});
    } else {
        hr_shard_tick(rig->shard, rig->now);
    }
}

/* Random requests, commits that take their time or fail, ticks and crashes: what was admitted over all lives stays
 * within the quota, after each event. */
static void no_schedule_of_crashes_admits_more_than_the_quota(void **state)
{
    (void)state;
    uint64_t waited = 0, crashes = 0, exhausted = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct hr_rng rng = {seed};
        struct hr_limit limit = limit_of("q", quota_rule(QUOTA), HR_RESERVED);
        struct rig *rig = open_rig(&limit, 1);
        uint64_t admitted = 0, msgid, costs[4096] = {0};
        for (int step = 0; step < 1000; step++) {
            pass(rig, (int64_t)hr_rng_below(&rng, (uint64_t)MS(20)));
            if (hr_rng_chance(&rng, 1, 40)) {
                crash_and_compare(rig, seed);
                crashes++;
            } else if (hr_rng_chance(&rng, 1, 2)) {
                struct ask ask = {.cost = 1 + hr_rng_below(&rng, 16)};
                enum hr_served served = send(rig, ask);
                costs[rig->msgid % COUNT(costs)] = ask.cost;
                bool allowed = served == HR_SERVED_ANSWERED && read_decision(rig) && rig->decision.allowed;
                admitted += allowed ? ask.cost : 0;
                waited += served == HR_SERVED_WAITING;
            } else {
                random_event(rig, &rng);
            }
            while (next_answer(rig, &msgid)) {
                bool allowed = read_decision(rig) && rig->decision.allowed;
                admitted += allowed ? costs[msgid % COUNT(costs)] : 0;
            }
            uint64_t spent = QUOTA - remaining(rig, 0);
            if (admitted > spent) {
                fail_msg("seed %lu step %d: %lu admitted, %lu spent", (unsigned long)seed, step,
                         (unsigned long)admitted, (unsigned long)spent);
            }
        }
        assert_true(admitted > QUOTA / 4);
        exhausted += remaining(rig, 0) == 0;
        close_rig(rig);
    }
    assert_true(waited > 1000 && crashes > 1000 && exhausted > 0); /* the schedules are worth something */
}

static void a_steady_stream_waits_only_while_it_warms_up(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    uint64_t early = 0, msgid;
    hr_ns stored_at = 0;
    for (int ms = 0; ms < 5000; ms++) {
        pass(rig, MS(1));
        (void)send(rig, (struct ask){.cost = 3});
        if (stored_at == 0 && commit(rig, false)) {
            stored_at = rig->now.steady + MS(8);
        }
        if (stored_at != 0 && rig->now.steady >= stored_at) {
            (void)settle(rig);
            stored_at = 0;
        }
        while (next_answer(rig, &msgid)) {
        }
        early = ms == 500 ? hr_shard_counts(rig->shard).waited : early;
    }
    assert_true(early > 0);
    assert_true(early < 200);
    assert_int_equal(hr_shard_counts(rig->shard).waited, early);
    close_rig(rig);
}

/* The store takes what is due, and all that waited is answered. */
static void answer_all(struct rig *rig)
{
    uint64_t msgid;
    while (commit(rig, false)) {
        pass(rig, MS(5));
        (void)settle(rig);
        while (next_answer(rig, &msgid)) {
            assert_true(read_decision(rig));
        }
    }
}

static void a_raise_ahead_of_need_gathers_others_but_none_that_is_waited_for(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    assert_int_equal(send(rig, (struct ask){.cost = 1}), HR_SERVED_WAITING);
    answer_all(rig);
    assert_int_equal(send(rig, (struct ask){.cost = HR_RESERVE_CHUNK_REQUESTS - 10}), HR_SERVED_ANSWERED);
    assert_false(commit(rig, false));
    pass(rig, MS(10));
    assert_true(commit(rig, false));
    assert_true(settle(rig));
    assert_int_equal(send(rig, (struct ask){.cost = 100000}), HR_SERVED_WAITING);
    assert_true(commit(rig, false));
    close_rig(rig);
}

/* Counters that are forgotten one after another: a batch of its own for each would cost more than all the others. */
static void what_is_forgotten_waits_for_the_flush(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("b", bucket_rule(1000), HR_PERIODIC);
    struct rig *rig = open_rig(&limit, 1);
    char user[8];
    for (int i = 0; i < 400; i++) {
        (void)snprintf(user, sizeof(user), "u%d", i);
        assert_true(take(rig, (struct ask){.user = user, .cost = 1}));
    }
    pass(rig, FLUSH_NS);
    assert_true(commit(rig, false));
    assert_true(settle(rig));
    uint32_t batches = 0;
    for (int ms = 0; ms < 20000; ms += 10) {
        pass(rig, MS(10));
        hr_shard_tick(rig->shard, rig->now);
        batches += commit(rig, false);
        (void)settle(rig);
    }
    assert_int_equal(hr_limiter_usage(hr_shard_limiter(rig->shard)).counters, 0);
    assert_in_range(batches, 1, 20000 / 100);
    close_rig(rig);
}

/* Time goes by without a request, long enough for the sweep to come by each counter. */
static void stand_idle(struct rig *rig, int64_t ns)
{
    pass(rig, ns);
    for (int i = 0; i < 1500; i++) {
        pass(rig, MS(10));
        hr_shard_tick(rig->shard, rig->now);
    }
    answer_all(rig);
}

static void who_comes_back_within_the_hour_does_not_wait_again(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("b", bucket_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    static const struct {
        int64_t idle_ns;
        enum hr_served served;
    } visits[] = {
        {0, HR_SERVED_WAITING}, {HR_RESERVE_KEPT_NS / 4, HR_SERVED_ANSWERED}, {HR_RESERVE_KEPT_NS, HR_SERVED_WAITING}};
    for (size_t i = 0; i < COUNT(visits); i++) {
        stand_idle(rig, visits[i].idle_ns);
        enum hr_served served = send(rig, (struct ask){.cost = 10});
        if (served != visits[i].served) {
            fail_msg("visit %zu: %d", i, (int)served);
        }
        answer_all(rig);
    }
    close_rig(rig);
}

/* What was put ahead of it is charged once, however often the node crashes, and then drains like anything else. */
static void crashes_cost_an_idle_counter_one_chunk_and_no_more(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("b", bucket_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    (void)send(rig, (struct ask){.cost = 1});
    answer_all(rig);
    stand_idle(rig, HR_RESERVE_KEPT_NS / 4);
    assert_int_equal(remaining(rig, 0), 1000);
    for (int i = 0; i < 3; i++) {
        crash(rig);
        assert_int_equal(remaining(rig, 0), 1000 - HR_RESERVE_CHUNK_REQUESTS);
    }
    stand_idle(rig, HR_RESERVE_KEPT_NS / 4);
    assert_int_equal(hr_limiter_usage(hr_shard_limiter(rig->shard)).counters, 0);
    assert_int_equal(remaining(rig, 0), 1000);
    close_rig(rig);
}

/* There is room for 256 reserves: a quarter is for those who come. */
static void counters_that_nobody_asks_for_leave_room_for_others(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("b", bucket_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    char user[8];
    for (int i = 0; i < 400; i++) {
        (void)snprintf(user, sizeof(user), "u%d", i);
        (void)send(rig, (struct ask){.user = user, .cost = 1});
        answer_all(rig);
        if (i % 32 == 31) {
            stand_idle(rig, 100 * HR_NS_PER_S);
            uint32_t kept = hr_limiter_usage(hr_shard_limiter(rig->shard)).counters;
            if (kept != (uint32_t)(i < 192 ? i + 1 : 192)) {
                fail_msg("%d came, %u are kept", i + 1, kept);
            }
        }
    }
    assert_int_equal(hr_shard_counts(rig->shard).faults, 0);
    close_rig(rig);
}

static bool is_nowhere(void *user, const struct hr_call *call, struct hr_now now)
{
    uint32_t *asked = user;
    (void)now;
    (*asked)++;
    return call->params.bytes == 0; /* none is so short */
}

/* Else the node that owns the counter now would know nothing of it. */
static void a_request_whose_counter_moves_while_it_waits_is_let_go_and_takes_nothing(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    uint32_t asked = 0, gone = 0;
    hr_shard_set_is_here(rig->shard, is_nowhere, &asked);
    assert_int_equal(send(rig, (struct ask){.cost = 10}), HR_SERVED_WAITING);
    for (int i = 0; i < 8; i++) {
        uint64_t msgid;
        (void)commit(rig, false);
        pass(rig, MS(5));
        (void)settle(rig);
        while (next_answer(rig, &msgid)) {
            assert_int_equal(msgid, rig->msgid);
            assert_int_equal(rig->out.wanted, 0);
            gone++;
        }
    }
    assert_int_equal(gone, 1);
    assert_int_equal(asked, 1);
    assert_int_equal(remaining(rig, 0), 1000);
    close_rig(rig);
}

static void those_who_wait_are_answered_in_their_order(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    uint64_t first = rig->msgid + 1, expected = first, msgid;
    for (int i = 0; i < WAITING_MAX; i++) {
        assert_int_equal(send(rig, (struct ask){.cost = 10}), HR_SERVED_WAITING);
    }
    assert_int_equal(send(rig, (struct ask){.cost = 10}), HR_SERVED_ANSWERED); /* no more may wait */
    assert_false(read_decision(rig));
    assert_int_equal(rig->fault.code, HR_CODE_UNAVAILABLE);
    for (int i = 0; i < 64 && expected < first + WAITING_MAX; i++) {
        (void)commit(rig, false);
        pass(rig, MS(5));
        (void)settle(rig);
        while (next_answer(rig, &msgid)) {
            assert_int_equal(msgid, expected++);
            assert_true(read_decision(rig));
            assert_true(rig->decision.allowed);
        }
    }
    assert_int_equal(expected, first + WAITING_MAX);
    assert_int_equal(remaining(rig, 0), 1000 - 10 * WAITING_MAX);
    close_rig(rig);
}

static void a_store_that_fails_makes_requests_unavailable_within_their_time(void **state)
{
    (void)state;
    struct hr_limit limits[] = {limit_of("q", quota_rule(1000), HR_RESERVED)};
    struct rig *rig = open_rig(limits, 1);
    uint64_t msgid, answers = 0;
    hr_ns asked[2] = {rig->now.steady, 0};
    assert_int_equal(send(rig, (struct ask){.cost = 5}), HR_SERVED_WAITING);
    for (int ms = 0; ms < 3000; ms += 10) {
        pass(rig, MS(10));
        if (ms == 500) {
            asked[1] = rig->now.steady;
            assert_int_equal(send(rig, (struct ask){.cost = 5}), HR_SERVED_WAITING);
        }
        (void)commit(rig, false);
        fail_next(rig, HR_E_FULL);
        (void)settle(rig);
        hr_shard_tick(rig->shard, rig->now);
        while (next_answer(rig, &msgid)) {
            assert_true(answers < 2);
            assert_false(read_decision(rig));
            assert_int_equal(rig->fault.code, HR_CODE_UNAVAILABLE);
            int64_t waited = rig->now.steady - asked[answers++];
            assert_true(waited >= HR_WAITING_NS_MAX);
            assert_true(waited <= HR_WAITING_NS_MAX + MS(30));
        }
    }
    assert_int_equal(answers, 2);
    hr_memory_disk_set_faults(rig->disk, (struct hr_memory_faults){0});
    pass(rig, MS(200));
    assert_true(take(rig, (struct ask){.cost = 5})); /* it recovers */
    assert_int_equal(remaining(rig, 0), 995);        /* and those refused have consumed nothing */
    close_rig(rig);
}

/* A limit may be changed to wait no longer while units are reserved; it is then saved all the same. */
static void a_change_of_durability_does_not_lose_what_was_spent(void **state)
{
    (void)state;
    static const enum hr_durability others[] = {HR_PERIODIC, HR_RESERVED};
    for (size_t i = 0; i < COUNT(others); i++) {
        struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
        struct rig *rig = open_rig(&limit, 1);
        assert_true(take(rig, (struct ask){.cost = 10}));
        limit.durability = others[i];
        limit.mode = others[i] == HR_RESERVED ? HR_SHADOW : HR_ENFORCE;
        load_limits(rig, &limit, 1);
        for (int k = 0; k < 10; k++) {
            assert_true(take(rig, (struct ask){.cost = 50}));
            pass(rig, FLUSH_NS);
            (void)commit(rig, false);
            (void)settle(rig);
        }
        limit.durability = HR_RESERVED;
        limit.mode = HR_ENFORCE;
        load_limits(rig, &limit, 1);
        for (int k = 0; k < 4; k++) {
            assert_true(take(rig, (struct ask){.cost = 20}));
        }
        crash(rig);
        uint64_t left = remaining(rig, 0);
        if (left > 1000 - 590 || left < 100) {
            fail_msg("row %zu: %lu left of 1000 with 590 spent", i, (unsigned long)left);
        }
        close_rig(rig);
    }
}

/* Units were reserved under other numbers: under the new ones nothing is spent that the store does not know. */
static void a_reload_spends_nothing_that_was_reserved_before_it(void **state)
{
    (void)state;
    const struct hr_rule rules[] = {rule_of(HR_FIXED_WINDOW, 1000), bucket_rule(500), quota_rule(1000)};
    for (size_t i = 0; i < COUNT(rules); i++) {
        struct hr_limit limit = limit_of("q", bucket_rule(1000), HR_RESERVED);
        struct rig *rig = open_rig(&limit, 1);
        for (int k = 0; k < 20; k++) {
            assert_true(take(rig, (struct ask){.cost = 10}));
        }
        while (commit(rig, false)) {
            (void)settle(rig);
        }
        assert_true(units_ahead(rig) > 1);
        limit.rule = rules[i];
        load_limits(rig, &limit, 1);
        assert_int_equal(send(rig, (struct ask){.cost = 1}), HR_SERVED_WAITING);
        uint64_t msgid;
        for (int k = 0; !next_answer(rig, &msgid); k++) {
            assert_true(k < 20);
            (void)commit(rig, false);
            (void)settle(rig);
        }
        uint64_t left = remaining(rig, 0);
        crash(rig);
        assert_true(remaining(rig, 0) <= left);
        close_rig(rig);
    }
}

/* Making the record of a raise brings its counter to the new rule, which wants a raise too. It stood in two queues at
 * once then, was raised twice in one batch, and the word that this was stored went round in a circle for ever. */
static void a_raise_that_a_reload_overtakes_is_made_once(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", bucket_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    assert_int_equal(send(rig, (struct ask){.cost = 1}), HR_SERVED_WAITING);
    limit.rule = bucket_rule(500);
    load_limits(rig, &limit, 1);
    assert_true(commit(rig, false));
    assert_int_equal(rig->batch_records, 1);
    (void)settle(rig);
    uint64_t msgid;
    assert_true(next_answer(rig, &msgid));
    assert_int_equal(remaining(rig, 0), 499);
    close_rig(rig);
}

static void a_clean_stop_loses_nothing(void **state)
{
    (void)state;
    struct hr_limit limits[] = {limit_of("r", quota_rule(1000), HR_RESERVED),
                                limit_of("p", quota_rule(1000), HR_PERIODIC)};
    struct rig *rig = open_rig(limits, 2);
    for (uint64_t spent = 0, life = 0; life < 5; life++) {
        for (int i = 0; i < 7; i++, spent += 3) {
            assert_true(take(rig, (struct ask){.cost = 3}));
        }
        stop_clean(rig);
        pass(rig, MS(1234));
        begin_life(rig);
        assert_int_equal(remaining(rig, 0), 1000 - spent);
        assert_int_equal(remaining(rig, 1), 1000 - spent);
    }
    close_rig(rig);
}

static void a_refund_gives_back_and_its_retry_does_not(void **state)
{
    (void)state;
    static const enum hr_durability kinds[] = {HR_MEMORY, HR_PERIODIC, HR_RESERVED};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct hr_limit limit = limit_of("q", quota_rule(100), kinds[i]);
        struct rig *rig = open_rig(&limit, 1);
        assert_true(take(rig, (struct ask){.cost = 30, .id = "one"}));
        assert_int_equal(send_as(rig, HR_METHOD_REFUND, (struct ask){.cost = 10, .id = "one"}), HR_SERVED_ANSWERED);
        assert_int_equal(remaining(rig, 0), 80);
        assert_int_equal(send_as(rig, HR_METHOD_REFUND, (struct ask){.cost = 10, .id = "one"}), HR_SERVED_ANSWERED);
        struct hr_fault fault;
        assert_false(hr_unpack_error(answered(rig).error, &fault));
        assert_int_equal(remaining(rig, 0), 80);
        assert_int_equal(send_as(rig, HR_METHOD_REFUND, (struct ask){.cost = 10}), HR_SERVED_ANSWERED);
        assert_int_equal(remaining(rig, 0), 90);
        assert_true(take(rig, (struct ask){.cost = 30, .id = "one"})); /* the first answer again */
        assert_int_equal(remaining(rig, 0), 90);
        stop_clean(rig);
        begin_life(rig);
        assert_int_equal(remaining(rig, 0), kinds[i] == HR_MEMORY ? 100 : 90);
        close_rig(rig);
    }
}

/* --- ids --- */

static void a_retry_gets_the_same_bytes_also_while_the_first_waits(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    char bytes[3][1024];
    size_t lengths[3];
    uint64_t msgid;
    assert_int_equal(send(rig, (struct ask){.cost = 5, .id = "x"}), HR_SERVED_WAITING);
    assert_int_equal(send(rig, (struct ask){.cost = 5, .id = "x"}), HR_SERVED_WAITING);
    assert_true(commit(rig, false));
    pass(rig, MS(5));
    assert_true(settle(rig));
    for (int i = 0; i < 3; i++) {
        if (i < 2) {
            assert_true(next_answer(rig, &msgid));
        } else {
            assert_int_equal(send(rig, (struct ask){.cost = 5, .id = "x"}), HR_SERVED_ANSWERED);
        }
        struct hr_message message = answered(rig);
        assert_true(message.result.bytes < sizeof(bytes[i]));
        lengths[i] = message.result.bytes;
        memcpy(bytes[i], message.result.at, lengths[i]);
        assert_int_equal(lengths[i], lengths[0]);
        assert_memory_equal(bytes[i], bytes[0], lengths[0]);
    }
    assert_int_equal(remaining(rig, 0), 995);
    assert_int_equal(hr_shard_counts(rig->shard).repeated, 2);
    pass(rig, HR_REPLY_KEPT_NS + 1);
    assert_true(take(rig, (struct ask){.cost = 5, .id = "x"})); /* forgotten by now */
    assert_int_equal(remaining(rig, 0), 990);
    close_rig(rig);
}

/* The first of an id is refused because the store fails: the id is free again, and nothing was consumed. */
static void an_id_that_was_refused_starts_afresh(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    uint64_t msgid;
    assert_int_equal(send(rig, (struct ask){.cost = 5, .id = "x"}), HR_SERVED_WAITING);
    assert_true(commit(rig, false));
    fail_next(rig, HR_E_IO);
    assert_true(settle(rig));
    pass(rig, HR_WAITING_NS_MAX + MS(20));
    hr_shard_tick(rig->shard, rig->now);
    assert_true(next_answer(rig, &msgid));
    assert_false(read_decision(rig));
    assert_true(take(rig, (struct ask){.cost = 5, .id = "x"}));
    assert_int_equal(remaining(rig, 0), 995);
    close_rig(rig);
}

static enum hr_served send_many(struct rig *rig, const struct ask *asks, uint32_t count)
{
    struct hr_packer packer = params_packer(rig);
    hr_pack_requests_head(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        struct hr_params params;
        fill_params(&asks[i], &params);
        hr_params_encode(&params, &packer);
    }
    return serve(rig, HR_METHOD_CHECK_MANY, &packer);
}

/* Each user has a counter of its own, and each waits; but what all would spend is asked of the store at once. Nothing
 * is done twice. */
static void a_check_many_that_waits_asks_for_all_at_once_and_decides_each_once(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(100), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    static const struct ask asks[] = {{.user = "a", .cost = 5},
                                      {.user = "b", .cost = 5, .id = "x"},
                                      {.user = "b", .cost = 5, .id = "x"},
                                      {.user = "c", .cost = 101},
                                      {.user = "a", .cost = 5},
                                      {.user = "ann", .cost = 7}};
    static const uint64_t lefts[] = {95, 95, 95, 100, 90, 93};
    uint64_t msgid;
    assert_int_equal(send_many(rig, asks, COUNT(asks)), HR_SERVED_WAITING);
    int commits = 0;
    while (!next_answer(rig, &msgid)) {
        assert_true(++commits < 20);
        (void)commit(rig, false);
        pass(rig, MS(5));
        (void)settle(rig);
    }
    assert_int_equal(commits, 1);
    assert_int_equal(msgid, rig->msgid);
    struct hr_unpacker unpacker = {answered(rig).result};
    uint32_t count = 0;
    assert_int_equal(hr_unpack_array(&unpacker, &count), HR_OK);
    assert_int_equal(count, COUNT(asks));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(hr_unpack_decision(&unpacker, &rig->decision), HR_OK);
        assert_int_equal(rig->decision.allowed, asks[i].cost <= 100);
        assert_int_equal(rig->decision.rows[0].remaining, lefts[i]);
    }
    assert_int_equal(remaining(rig, 0), 93);
    close_rig(rig);
}

/* One call of a random check: mostly good ones, of few users, some with an id, some that are refused. */
static struct hr_call random_call(struct hr_rng *rng, uint64_t msgid, char *bytes, size_t room)
{
    static const char *const users[] = {"a", "b", "c", "d", "e", "no valid \xff text"};
    static const char *const ids[] = {"x", "y", "z"};
    struct hr_packer packer = {.at = bytes, .room = room};
    struct hr_params params;
    const struct ask ask = {.user = users[hr_rng_below(rng, hr_rng_chance(rng, 1, 20) ? 6 : 5)],
                            .id = hr_rng_chance(rng, 1, 4) ? ids[hr_rng_below(rng, 3)] : NULL,
                            .cost = hr_rng_below(rng, 40),
                            .peek = hr_rng_chance(rng, 1, 8)};
    fill_params(&ask, &params);
    hr_params_encode(&params, &packer);
    assert_true(hr_packer_fits(&packer));
    return (struct hr_call){
        .connection = 1, .msgid = msgid, .method = HR_METHOD_CHECK, .params = hr_packer_bytes(&packer)};
}

static void assert_same_answers(const struct rig *a, const struct rig *b, uint64_t seed)
{
    if (a->out.wanted != b->out.wanted || memcmp(a->answer, b->answer, a->out.wanted) != 0) {
        fail_msg("seed %lu: prepared and not prepared differ", (unsigned long)seed);
    }
}

/* Serves the calls, which the first rig has prepared and the second has not. */
static void serve_both(struct rig **rigs, const struct hr_call *calls, uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        enum hr_served served[2];
        for (int k = 0; k < 2; k++) {
            struct hr_call call = calls[i];
            call.prepared = k == 0 ? call.prepared : 0;
            rigs[k]->out = (struct hr_packer){.at = rigs[k]->answer, .room = sizeof(rigs[k]->answer)};
            served[k] = hr_shard_serve(rigs[k]->shard, &call, rigs[k]->now, &rigs[k]->out);
        }
        assert_int_equal(served[0], served[1]);
        if (served[0] == HR_SERVED_ANSWERED) {
            assert_same_answers(rigs[0], rigs[1], seed);
        }
    }
}

/* What waits is answered, in both in the same order. */
static void finish_both(struct rig **rigs, uint64_t seed)
{
    uint64_t msgids[2] = {0, 0};
    for (bool is_ready = true; is_ready;) {
        for (int k = 0; k < 2; k++) {
            (void)commit(rigs[k], false);
            (void)settle(rigs[k]);
        }
        is_ready = next_answer(rigs[0], &msgids[0]);
        assert_int_equal(next_answer(rigs[1], &msgids[1]), is_ready);
        if (is_ready) {
            assert_int_equal(msgids[0], msgids[1]);
            assert_same_answers(rigs[0], rigs[1], seed);
        }
    }
}

static void requests_that_are_prepared_together_get_the_same_answers(void **state)
{
    (void)state;
    static char bytes[HR_TOGETHER_MAX][256];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct hr_rng rng = {seed};
        struct hr_limit limits[] = {limit_of("b", bucket_rule(300), HR_PERIODIC),
                                    limit_of("r", quota_rule(2000), seed % 2 ? HR_RESERVED : HR_MEMORY)};
        struct rig *rigs[2] = {open_rig(limits, 2), open_rig(limits, 2)};
        for (uint64_t round = 0; round < 60; round++) {
            struct hr_call calls[HR_TOGETHER_MAX];
            uint32_t count = 1 + (uint32_t)hr_rng_below(&rng, HR_TOGETHER_MAX);
            for (uint32_t i = 0; i < count; i++) {
                calls[i] = random_call(&rng, i, bytes[i], sizeof(bytes[i]));
            }
            hr_shard_prepare(rigs[0]->shard, calls, count);
            if (round % 16 == 7) { /* what was prepared is looked at afresh */
                limits[0].rule.capacity = 200 + round;
                load_limits(rigs[0], limits, 2);
                load_limits(rigs[1], limits, 2);
            }
            serve_both(rigs, calls, count, seed);
            finish_both(rigs, seed);
            pass(rigs[0], MS(300));
            pass(rigs[1], MS(300));
        }
        close_rig(rigs[0]);
        close_rig(rigs[1]);
    }
}

#define MANY 200

/* Reads an array of as many outcomes as were asked for: how many are decisions that admit, how many are faults. */
static void count_outcomes(struct rig *rig, uint32_t expected, enum hr_code code, uint32_t *ret_allowed,
                           uint32_t *ret_faults)
{
    struct hr_unpacker unpacker = {answered(rig).result};
    uint32_t count = 0;
    *ret_allowed = *ret_faults = 0;
    assert_int_equal(hr_unpack_array(&unpacker, &count), HR_OK);
    assert_int_equal(count, expected);
    for (uint32_t i = 0; i < count; i++) {
        bool is_fault;
        assert_int_equal(hr_unpack_outcome(&unpacker, &rig->decision, &rig->fault, &is_fault), HR_OK);
        assert_true(!is_fault || rig->fault.code == code);
        *ret_faults += is_fault;
        *ret_allowed += !is_fault && rig->decision.allowed;
    }
    assert_int_equal(unpacker.left.bytes, 0);
}

/* As many users as there are asks, each with a name of its own. */
static void name_users(struct ask *asks, char (*names)[12], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "u%u", (unsigned)i);
        asks[i] = (struct ask){.user = names[i], .cost = 1};
    }
}

static void many_new_counters_of_a_check_many_wait_for_two_commits_at_most(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(100), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    struct ask asks[MANY];
    char names[MANY][12];
    uint64_t msgid;
    uint32_t allowed, faults, commits = 0;
    name_users(asks, names, MANY);
    assert_int_equal(send_many(rig, asks, MANY), HR_SERVED_WAITING);
    for (; !next_answer(rig, &msgid); commits++) {
        assert_true(commits < 2);
        (void)commit(rig, false);
        pass(rig, MS(5));
        (void)settle(rig);
    }
    count_outcomes(rig, MANY, HR_CODE_UNAVAILABLE, &allowed, &faults);
    assert_int_equal(allowed, MANY);
    close_rig(rig);
}

/* There is room for 256 reserves: 200 of one check_many, and of the next only what is left. */
static void those_of_a_check_many_that_find_no_room_are_refused_alone(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(100), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    struct ask asks[2 * MANY];
    char names[2 * MANY][12];
    uint64_t msgid;
    uint32_t allowed, faults;
    name_users(asks, names, 2 * MANY);
    for (int half = 0; half < 2; half++) {
        assert_int_equal(send_many(rig, asks + half * MANY, MANY), HR_SERVED_WAITING);
        while (!next_answer(rig, &msgid)) {
            (void)commit(rig, false);
            (void)settle(rig);
        }
        count_outcomes(rig, MANY, HR_CODE_RESOURCE_EXHAUSTED, &allowed, &faults);
        assert_int_equal(allowed, half == 0 ? MANY : 256 - MANY);
        assert_int_equal(faults, MANY - allowed);
    }
    close_rig(rig);
}

/* The store fails: those that need not wait for it are decided, the others are told so, and nothing is undone. */
static void a_check_many_that_waits_too_long_still_answers_what_it_can(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(100), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    static const struct ask asks[] = {{.cost = 1}, {.user = "b", .cost = 1, .id = "x"}, {.cost = 1}};
    uint64_t msgid;
    uint32_t allowed, faults;
    assert_true(take(rig, (struct ask){.cost = 1}));
    assert_int_equal(send_many(rig, asks, COUNT(asks)), HR_SERVED_WAITING);
    pass(rig, HR_WAITING_NS_MAX + MS(20));
    hr_shard_tick(rig->shard, rig->now);
    assert_true(next_answer(rig, &msgid));
    count_outcomes(rig, COUNT(asks), HR_CODE_UNAVAILABLE, &allowed, &faults);
    assert_int_equal(allowed, 2);
    assert_int_equal(faults, 1);
    assert_int_equal(remaining(rig, 0), 97);
    assert_true(take(rig, (struct ask){.user = "b", .cost = 1, .id = "x"})); /* its id is free again */
    close_rig(rig);
}

/* --- chunks --- */

/* Once in half a minute: only its first request waits for the store, and the store is written to once in many. */
static void a_counter_that_is_asked_rarely_waits_once(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(1000), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    for (int i = 0; i < 500; i++) {
        assert_true(take(rig, (struct ask){.cost = 1}));
        (void)commit(rig, false);
        (void)settle(rig);
        pass(rig, MS(30000));
    }
    assert_int_equal(hr_shard_counts(rig->shard).waited, 1);
    assert_true(hr_shard_counts(rig->shard).records <= 500 / (HR_RESERVE_CHUNK_REQUESTS / 2) + 2);
    close_rig(rig);
}

/* However fast it was asked before, and whatever each cost. */
static void a_crash_loses_one_chunk_at_most(void **state)
{
    (void)state;
    static const uint64_t capacities[] = {1, 7, 100, 1000, 1000000};
    for (size_t i = 0; i < COUNT(capacities); i++) {
        struct hr_limit limit = limit_of("q", quota_rule(capacities[i]), HR_RESERVED);
        struct rig *rig = open_rig(&limit, 1);
        struct hr_rng rng = {i};
        for (int life = 0; life < 50; life++) {
            uint64_t largest = 1, before = remaining(rig, 0);
            for (int k = 0; k < 40; k++) {
                uint64_t left = remaining(rig, 0), cost = 1 + hr_rng_below(&rng, 1 + left / 64);
                largest = cost > largest ? cost : largest;
                before = take(rig, (struct ask){.cost = cost}) ? remaining(rig, 0) : left;
                (void)commit(rig, false);
                (void)settle(rig);
                pass(rig, (int64_t)hr_rng_below(&rng, (uint64_t)MS(10)));
            }
            crash(rig);
            uint64_t chunk = capacities[i] / HR_RESERVE_CHUNKS_PER_CAPACITY + 1;
            uint64_t lost = before - remaining(rig, 0);
            if (lost > (chunk > largest ? chunk : largest)) {
                fail_msg("row %zu life %d: %lu lost, a chunk is %lu", i, life, (unsigned long)lost,
                         (unsigned long)chunk);
            }
        }
        close_rig(rig);
    }
}

static void a_request_that_waits_takes_no_more_room_than_it_needs(void **state)
{
    (void)state;
    struct hr_shard_config config = {.sizes = {.counters_max = 16, .limits_max = 1, .reserves_max = 16, .saves = true},
                                     .waiting_max = 1,
                                     .replies_bytes = HR_REPLY_BYTES_MAX,
                                     .replies_max = 1,
                                     .hot_keys_max = 1};
    size_t one = hr_shard_bytes(&config);
    config.waiting_max = 10001;
    assert_true(hr_shard_bytes(&config) - one < (size_t)10000 * 1536);
}

/* --- the log --- */

#define LOG_USERS 600
#define LOG_ROUNDS 700

struct ledger {
    char names[LOG_USERS][12];
    uint64_t spent[LOG_USERS];                  /* by user, now */
    uint64_t least[LOG_USERS], most[LOG_USERS]; /* since the store answered last */
};

/* What was stored is there, and no more than was spent then or since is gone. */
static void compare_ledger(struct rig *rig, struct ledger *ledger, uint64_t seed)
{
    for (uint32_t i = 0; i < LOG_USERS; i++) {
        assert_int_equal(send(rig, (struct ask){.user = ledger->names[i], .peek = true}), HR_SERVED_ANSWERED);
        assert_true(read_decision(rig));
        uint64_t spent = 1000000 - rig->decision.rows[0].remaining;
        if (spent < ledger->least[i] || spent > ledger->most[i]) {
            fail_msg("seed %lu user %u: %lu to %lu spent before a crash, %lu after it", (unsigned long)seed, i,
                     (unsigned long)ledger->least[i], (unsigned long)ledger->most[i], (unsigned long)spent);
        }
        ledger->least[i] = ledger->most[i] = ledger->spent[i] = spent;
    }
}

/* Spends a little, or gives all back, so that the counter is untouched and forgotten. */
static void spend_or_refund(struct rig *rig, struct ledger *ledger, uint32_t user, struct hr_rng *rng)
{
    struct ask ask = {.user = ledger->names[user], .cost = 1 + hr_rng_below(rng, 50)};
    if (ledger->spent[user] > 0 && hr_rng_chance(rng, 1, 30)) {
        ask.cost = ledger->spent[user];
        assert_int_equal(send_as(rig, HR_METHOD_REFUND, ask), HR_SERVED_ANSWERED);
        ledger->spent[user] = ledger->least[user] = 0;
        return;
    }
    ledger->spent[user] += take(rig, ask) ? ask.cost : 0;
    ledger->most[user] = ledger->spent[user] > ledger->most[user] ? ledger->spent[user] : ledger->most[user];
}

/* Half of them change often, a quarter seldom, and a quarter never again. */
static void spend_of_many(struct rig *rig, struct ledger *ledger, int round, struct hr_rng *rng)
{
    uint32_t count = round == 0 ? LOG_USERS : round % 8 == 0 ? LOG_USERS / 4 * 3 : LOG_USERS / 2;
    for (uint32_t i = 0; i < count; i++) {
        spend_or_refund(rig, ledger, i, rng);
    }
}

/* One flush, which fails at times. True: old segments went with it. */
static bool flush_log(struct rig *rig, struct ledger *ledger, bool fails, struct hr_rng *rng)
{
    for (int k = 0; k < 10; k++) {
        pass(rig, MS(50));
        hr_shard_tick(rig->shard, rig->now);
    }
    if (!commit(rig, false)) {
        return false;
    }
    if (fails) {
        fail_next(rig, hr_rng_chance(rng, 1, 2) ? HR_E_FULL : HR_E_IO);
    }
    (void)settle(rig);
    hr_memory_disk_set_faults(rig->disk, (struct hr_memory_faults){0});
    if (rig->result == HR_OK) {
        memcpy(ledger->least, ledger->spent, sizeof(ledger->least));
        memcpy(ledger->most, ledger->spent, sizeof(ledger->most));
    }
    return rig->batch_deletes > 0;
}

/* Spends of many, gives some of it back, and has the store fail at times: what a crash at any moment leaves is what was
 * stored, though the log is folded again and again, and is never many times what is live. */
static void a_log_that_is_folded_stays_small_and_loses_nothing(void **state)
{
    (void)state;
    uint64_t folds = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct hr_rng rng = {seed};
        struct hr_limit limit = limit_of("q", quota_rule(1000000), HR_PERIODIC);
        struct rig *rig = open_rig(&limit, 1);
        struct ledger *ledger = calloc(1, sizeof(*ledger));
        assert_non_null(ledger);
        for (uint32_t i = 0; i < LOG_USERS; i++) {
            (void)snprintf(ledger->names[i], sizeof(ledger->names[i]), "u%u", (unsigned)i);
        }
        for (int round = 0; round < LOG_ROUNDS; round++) {
            spend_of_many(rig, ledger, round, &rng);
            folds += flush_log(rig, ledger, round > 0 && hr_rng_chance(&rng, 1, 20), &rng);
            if (hr_rng_chance(&rng, 1, 100) || round == LOG_ROUNDS - 1) {
                crash(rig);
                assert_true(rig->log_bytes < 6 * HR_COUNTER_LOG_BYTES_MIN);
                compare_ledger(rig, ledger, seed);
            }
        }
        close_rig(rig);
        free(ledger);
    }
    print_message("%lu batches deleted old segments\n", (unsigned long)folds);
    assert_true(folds > 3);
}

/* --- throttle, leases --- */

static void throttle_decides_by_the_rate_that_came_with_it_and_saves_nothing(void **state)
{
    (void)state;
    struct hr_limit limit = limit_of("q", quota_rule(100), HR_RESERVED);
    struct rig *rig = open_rig(&limit, 1);
    static const char *const rates[] = {"3/h", "3/h", "3/h", "3/h", "nonsense"};
    for (size_t i = 0; i < COUNT(rates); i++) {
        struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_KEY) | HR_PARAM_BIT(HR_PARAM_RATE),
                                   .cost = 1,
                                   .detail = true,
                                   .key = HR_SPAN("k"),
                                   .rate = hr_span_of(rates[i])};
        struct hr_packer packer = params_packer(rig);
        hr_params_encode(&params, &packer);
        assert_int_equal(serve(rig, HR_METHOD_THROTTLE, &packer), HR_SERVED_ANSWERED);
        assert_int_equal(read_decision(rig), i < 4);
        if (i < 4) {
            assert_int_equal(rig->decision.allowed, i < 3);
        } else {
            assert_int_equal(rig->fault.code, HR_CODE_INVALID_ARGUMENT);
        }
    }
    assert_false(commit(rig, true));
    close_rig(rig);
}

static struct hr_limit slots_limit(void)
{
    return limit_of("s", (struct hr_rule){.algorithm = HR_CONCURRENCY, .capacity = 10, .ttl_ns = (uint64_t)MS(60000)},
                    HR_PERIODIC);
}

static void leases_outlive_a_crash_and_end_by_release_or_ttl(void **state)
{
    (void)state;
    struct hr_limit limit = slots_limit();
    struct rig *rig = open_rig(&limit, 1);
    struct hr_id128 leases[3];
    for (size_t i = 0; i < 3; i++) {
        assert_true(take(rig, (struct ask){.cost = 2}));
        leases[i] = rig->decision.rows[0].lease;
    }
    assert_true(commit(rig, true));
    assert_int_equal(rig->batch_puts, 3);
    assert_true(settle(rig));
    pass(rig, MS(30000));
    assert_true(end_lease(rig, HR_METHOD_RENEW, leases[1]));
    assert_true(end_lease(rig, HR_METHOD_RELEASE, leases[2]));
    assert_true(commit(rig, true));
    assert_int_equal(rig->batch_puts, 1);
    assert_int_equal(rig->batch_deletes, 1);
    assert_true(settle(rig));
    crash(rig);
    assert_int_equal(remaining(rig, 0), 6);
    assert_false(end_lease(rig, HR_METHOD_RELEASE, leases[2]));
    pass(rig, MS(30000)); /* the first has had its ttl */
    assert_int_equal(remaining(rig, 0), 8);
    assert_false(end_lease(rig, HR_METHOD_RENEW, leases[0]));
    assert_true(end_lease(rig, HR_METHOD_RELEASE, leases[1]));
    assert_int_equal(remaining(rig, 0), 10);
    close_rig(rig);
}

/* The store fails just when a lease's record is to be deleted: the lease must not come back. */
static void a_lease_that_was_released_stays_released_though_the_store_failed(void **state)
{
    (void)state;
    struct hr_limit limit = slots_limit();
    struct rig *rig = open_rig(&limit, 1);
    assert_true(take(rig, (struct ask){.cost = 2}));
    struct hr_id128 lease = rig->decision.rows[0].lease;
    assert_true(commit(rig, true));
    assert_true(settle(rig));
    assert_true(end_lease(rig, HR_METHOD_RELEASE, lease));
    for (int i = 0; i < 3; i++) {
        assert_true(commit(rig, true));
        assert_int_equal(rig->batch_deletes, 1);
        if (i < 2) {
            fail_next(rig, HR_E_FULL);
        }
        assert_true(settle(rig));
    }
    assert_false(commit(rig, true));
    crash(rig);
    assert_int_equal(remaining(rig, 0), 10);
    close_rig(rig);
}

/* Its record, too, must be one that can be read. */
static void a_lease_that_ran_out_before_it_was_saved_is_no_damage(void **state)
{
    (void)state;
    struct hr_limit limit = slots_limit();
    struct rig *rig = open_rig(&limit, 1);
    assert_true(take(rig, (struct ask){.cost = 2}));
    pass(rig, MS(60001));
    assert_true(commit(rig, true));
    assert_true(settle(rig));
    crash(rig); /* fails where a record cannot be decoded */
    assert_int_equal(remaining(rig, 0), 10);
    close_rig(rig);
}

static uint32_t lease_records(struct rig *rig)
{
    struct hr_store_loaded loaded;
    assert_int_equal(hr_store_load(rig->store, HR_RECORD_LEASE, accept_lease, NULL, &loaded), HR_OK);
    return (uint32_t)loaded.good;
}

/* Nobody else would ever delete its record. */
static void a_lease_that_is_over_at_start_is_deleted(void **state)
{
    (void)state;
    struct hr_limit limit = slots_limit();
    struct rig *rig = open_rig(&limit, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(take(rig, (struct ask){.cost = 1}));
        assert_true(commit(rig, true));
        assert_true(settle(rig));
        pass(rig, MS(25000));
    }
    assert_int_equal(lease_records(rig), 3);
    crash(rig); /* the first has had its ttl */
    assert_int_equal(remaining(rig, 0), 8);
    assert_true(commit(rig, false));
    assert_true(settle(rig));
    assert_int_equal(lease_records(rig), 2);
    close_rig(rig);
}

/* --- limits that change while the node is down --- */

static void limits_that_changed_while_it_was_down_are_restated(void **state)
{
    (void)state;
    static const enum hr_algorithm algorithms[] = {HR_FIXED_WINDOW, HR_SLIDING_WINDOW, HR_SLIDING_LOG, HR_QUOTA};
    for (size_t i = 0; i < COUNT(algorithms); i++) {
        struct hr_limit limit = limit_of("l", rule_of(algorithms[i], 100), HR_PERIODIC);
        struct rig *rig = open_rig(&limit, 1);
        assert_true(take(rig, (struct ask){.cost = 2}));
        static const uint64_t capacities[] = {10, 100, 1};
        static const uint64_t lefts[] = {8, 98, 0};
        for (size_t k = 0; k < COUNT(capacities); k++) {
            stop_clean(rig);
            rig->limits[0].rule.capacity = capacities[k];
            begin_life(rig);
            assert_int_equal(remaining(rig, 0), lefts[k]);
        }
        stop_clean(rig); /* a limit of another algorithm starts afresh */
        rig->limits[0].rule = bucket_rule(50);
        begin_life(rig);
        assert_int_equal(remaining(rig, 0), 50);
        close_rig(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(periodic_writes_only_what_changed_each_interval),
        cmocka_unit_test(a_restored_counter_is_never_fuller_than_one_that_went_on),
        cmocka_unit_test(no_schedule_of_crashes_admits_more_than_the_quota),
        cmocka_unit_test(a_steady_stream_waits_only_while_it_warms_up),
        cmocka_unit_test(a_raise_ahead_of_need_gathers_others_but_none_that_is_waited_for),
        cmocka_unit_test(what_is_forgotten_waits_for_the_flush),
        cmocka_unit_test(who_comes_back_within_the_hour_does_not_wait_again),
        cmocka_unit_test(crashes_cost_an_idle_counter_one_chunk_and_no_more),
        cmocka_unit_test(counters_that_nobody_asks_for_leave_room_for_others),
        cmocka_unit_test(a_request_whose_counter_moves_while_it_waits_is_let_go_and_takes_nothing),
        cmocka_unit_test(those_who_wait_are_answered_in_their_order),
        cmocka_unit_test(a_store_that_fails_makes_requests_unavailable_within_their_time),
        cmocka_unit_test(a_change_of_durability_does_not_lose_what_was_spent),
        cmocka_unit_test(a_reload_spends_nothing_that_was_reserved_before_it),
        cmocka_unit_test(a_raise_that_a_reload_overtakes_is_made_once),
        cmocka_unit_test(a_clean_stop_loses_nothing),
        cmocka_unit_test(a_refund_gives_back_and_its_retry_does_not),
        cmocka_unit_test(a_retry_gets_the_same_bytes_also_while_the_first_waits),
        cmocka_unit_test(an_id_that_was_refused_starts_afresh),
        cmocka_unit_test(a_check_many_that_waits_asks_for_all_at_once_and_decides_each_once),
        cmocka_unit_test(requests_that_are_prepared_together_get_the_same_answers),
        cmocka_unit_test(many_new_counters_of_a_check_many_wait_for_two_commits_at_most),
        cmocka_unit_test(those_of_a_check_many_that_find_no_room_are_refused_alone),
        cmocka_unit_test(a_check_many_that_waits_too_long_still_answers_what_it_can),
        cmocka_unit_test(a_counter_that_is_asked_rarely_waits_once),
        cmocka_unit_test(a_crash_loses_one_chunk_at_most),
        cmocka_unit_test(a_request_that_waits_takes_no_more_room_than_it_needs),
        cmocka_unit_test(a_log_that_is_folded_stays_small_and_loses_nothing),
        cmocka_unit_test(a_lease_that_is_over_at_start_is_deleted),
        cmocka_unit_test(throttle_decides_by_the_rate_that_came_with_it_and_saves_nothing),
        cmocka_unit_test(leases_outlive_a_crash_and_end_by_release_or_ttl),
        cmocka_unit_test(a_lease_that_was_released_stays_released_though_the_store_failed),
        cmocka_unit_test(a_lease_that_ran_out_before_it_was_saved_is_no_damage),
        cmocka_unit_test(limits_that_changed_while_it_was_down_are_restated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
