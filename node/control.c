#include "node/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/caps_status.h"
#include "node/command/cmd.h"
#include "node/http_uv.h"
#include "node/limit_map.h"
#include "node/metrics_text.h"
#include "node/region_status.h"
#include "node/self.h"
#include "rpc/hex.h"
#include "storage/le.h"
#include "storage/record.h"

#define JSON_BYTES_MAX 32768U
#define HOT_KEYS_SHOWN 50

void hr_store_watch_result(struct hr_store_watch *watch, const struct hr_store_result *result)
{
    uv_mutex_lock(&watch->mutex);
    hr_histogram_add(&watch->commits, result->took_ns);
    watch->failures += result->err != HR_OK;
    watch->last = result->err;
    if (result->ticket >= HR_CONTROL_TICKETS) {
        watch->control_ticket = result->ticket;
        watch->control_err = result->err;
    }
    uv_mutex_unlock(&watch->mutex);
}

enum hr_err hr_store_watch_commit(struct hr_store_watch *watch, struct hr_store *store, uint64_t ticket,
                                  const struct hr_store_batch *batch)
{
    enum hr_err err = hr_store_commit(store, ticket, batch);
    if (err != HR_OK) {
        return err;
    }
    hr_store_settle(store);
    uv_mutex_lock(&watch->mutex);
    err = watch->control_ticket == ticket ? watch->control_err : HR_E_IO;
    uv_mutex_unlock(&watch->mutex);
    return err;
}

/* --- packing --- */

static void pack_key(struct hr_packer *out, const char *key)
{
    hr_pack_text(out, hr_span_of(key));
}

static void pack_number(struct hr_packer *out, const char *key, uint64_t number)
{
    pack_key(out, key);
    hr_pack_whole(out, number < (uint64_t)HR_ANSWER_MAX ? number : (uint64_t)HR_ANSWER_MAX);
}

static void pack_words(struct hr_packer *out, const char *key, const char *words)
{
    pack_key(out, key);
    hr_pack_text(out, hr_span_of(words));
}

/* A time span in milliseconds; none below 0, for the clocks may disagree. */
static uint64_t ms_between(hr_ns from, hr_ns to)
{
    return to > from ? (uint64_t)(to - from) / (uint64_t)HR_NS_PER_MS : 0;
}

static void pack_fault(struct hr_packer *out, uint64_t msgid, enum hr_code code, const char *words)
{
    struct hr_fault fault;
    hr_fault_begin(&fault, code);
    hr_fault_add_text(&fault, hr_span_of(words));
    out->wanted = 0;
    hr_pack_error(out, msgid, &fault);
}

/* --- all workers together --- */

/* Into every core, or, where one of them has no room, into none: the old set goes back into those that were first. */
static enum hr_err load(struct hr_control *control, const struct hr_limit_set *set, struct hr_now now)
{
    for (uint32_t i = 0; i < control->worker_count; i++) {
        enum hr_err err = hr_core_load(control->cores[i], set, now);
        for (uint32_t k = 0; err != HR_OK && k < i; k++) {
            enum hr_err old_err = hr_core_load(control->cores[k], hr_catalog_set(control->catalog), now);
            (void)old_err; /* there was room for it a moment ago */
        }
        if (err != HR_OK) {
            return err;
        }
    }
    return HR_OK;
}

static struct hr_shard *shard_of(const struct hr_control *control, uint32_t worker)
{
    return hr_core_shard(control->cores[worker]);
}

static struct hr_shard_counts sum_counts(const struct hr_control *control)
{
    struct hr_shard_counts sum = {0};
    for (uint32_t i = 0; i < control->worker_count; i++) {
        struct hr_shard_counts one = hr_shard_counts(shard_of(control, i));
        sum.decisions += one.decisions;
        sum.denied += one.denied;
        sum.peeks += one.peeks;
        sum.waited += one.waited;
        sum.repeated += one.repeated;
        sum.faults += one.faults;
        sum.batches += one.batches;
        sum.batches_failed += one.batches_failed;
        sum.records += one.records;
        sum.restored += one.restored;
        sum.restored_late += one.restored_late;
    }
    return sum;
}

static struct hr_limiter_usage sum_usage(const struct hr_control *control)
{
    struct hr_limiter_usage sum = {0};
    for (uint32_t i = 0; i < control->worker_count; i++) {
        struct hr_limiter_usage one = hr_limiter_usage(hr_shard_limiter(shard_of(control, i)));
        sum.counters += one.counters;
        sum.counters_max += one.counters_max;
        sum.leases += one.leases;
        sum.leases_max += one.leases_max;
        sum.log_blocks += one.log_blocks;
        sum.log_blocks_max += one.log_blocks_max;
    }
    return sum;
}

static struct hr_metrics_use sum_replies(const struct hr_control *control)
{
    struct hr_metrics_use sum = {0};
    for (uint32_t i = 0; i < control->worker_count; i++) {
        struct hr_metrics_use one = hr_shard_replies(shard_of(control, i));
        sum.used += one.used;
        sum.max += one.max;
    }
    return sum;
}

static struct hr_tally sum_tally(const struct hr_control *control, uint32_t limit)
{
    struct hr_tally sum = {0};
    for (uint32_t i = 0; i < control->worker_count; i++) {
        struct hr_tally one = hr_limiter_tally(hr_shard_limiter(shard_of(control, i)), limit);
        sum.admitted += one.admitted;
        sum.denied += one.denied;
    }
    return sum;
}

/* Since when the oldest change of any worker waits for the store. */
static hr_ns oldest_change(const struct hr_control *control, hr_ns now)
{
    hr_ns oldest = now;
    for (uint32_t i = 0; i < control->worker_count; i++) {
        hr_ns one = hr_shard_oldest_change(shard_of(control, i), now);
        oldest = one < oldest ? one : oldest;
    }
    return oldest;
}

/* Of what metrics and status show. */
static void sum_connections(const struct hr_control *control, struct hr_connections_stats *ret_sum)
{
    *ret_sum = (struct hr_connections_stats){0};
    for (uint32_t i = 0; i < control->worker_count && control->workers[i] != NULL; i++) {
        const struct hr_connections_stats *one = hr_worker_stats(control->workers[i]);
        ret_sum->open += one->open;
        ret_sum->total += one->total;
        ret_sum->refused += one->refused;
        for (int method = 0; method <= HR_METHOD_UNKNOWN; method++) {
            ret_sum->requests[method] += one->requests[method];
        }
        hr_histogram_merge(&ret_sum->latency, &one->latency);
    }
}

/* --- limits --- */

static const struct hr_limit *find_limit(const struct hr_limit_set *set, struct hr_span name)
{
    for (uint32_t i = 0; i < set->limit_count; i++) {
        if (hr_span_equal(set->limits[i].name, name)) {
            return &set->limits[i];
        }
    }
    return NULL;
}

static void list_limits(struct hr_control *control, uint64_t msgid, struct hr_packer *out)
{
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    hr_pack_result_head(out, msgid);
    hr_pack_array(out, set->limit_count);
    for (uint32_t i = 0; i < set->limit_count; i++) {
        hr_pack_limit(out, &set->limits[i]);
    }
}

static void get_limit(struct hr_control *control, const struct hr_params *params, uint64_t msgid, struct hr_packer *out)
{
    const struct hr_limit *limit = find_limit(hr_catalog_set(control->catalog), params->name);
    if (limit == NULL) {
        pack_fault(out, msgid, HR_CODE_NOT_FOUND, "there is no limit of that name");
        return;
    }
    hr_pack_result_head(out, msgid);
    hr_pack_limit(out, limit);
}

struct hr_store_key hr_limit_record_key(struct hr_span name)
{
    static const struct hr_hash_key no_secret = {{0}}; /* a node whose secret changes has its limits all the same */
    return hr_store_key_of_id(HR_RECORD_LIMIT, hr_keyed_hash(&no_secret, name.at, name.bytes));
}

bool hr_limit_record_decode(struct hr_span payload, struct hr_limit_record *ret_record)
{
    struct hr_le_reader reader = hr_le_reader_of(payload);
    ret_record->version.time = hr_le_read_u64(&reader);
    ret_record->version.writer = hr_le_read_u64(&reader);
    ret_record->name = hr_le_read_bytes(&reader, hr_le_read_u8(&reader));
    ret_record->json = hr_le_read_bytes(&reader, reader.bytes - reader.used);
    return hr_le_is_at_end(&reader);
}

/* Gives one change to the store and waits for it: it must hold across restarts before anybody is told so. This holds
 * the loop for the time of a commit, which an operator's rare call may. */
static enum hr_err keep_change(struct hr_control *control, const struct hr_limit_record *change)
{
    static uint8_t payload[16 + 1 + HR_LIMIT_NAME_BYTES_MAX + JSON_BYTES_MAX];
    static uint8_t memory[sizeof(payload) + 256];
    struct hr_le_writer writer = hr_le_writer_of(payload, sizeof(payload));
    struct hr_store_batch batch;
    if (control->store == NULL) {
        return HR_OK;
    }
    hr_le_write_u64(&writer, change->version.time);
    hr_le_write_u64(&writer, change->version.writer);
    hr_le_write_u8(&writer, (uint8_t)change->name.bytes);
    hr_le_write_bytes(&writer, change->name.at, change->name.bytes);
    hr_le_write_bytes(&writer, change->json.at, change->json.bytes);
    struct hr_store_key key = hr_limit_record_key(change->name);
    hr_batch_init(&batch, memory, sizeof(memory));
    enum hr_err err = hr_batch_put(&batch, &key, (struct hr_span){(const char *)payload, writer.used});
    uint64_t ticket = HR_CONTROL_TICKETS | ++control->ticket;
    return err == HR_OK ? hr_store_watch_commit(control->watch, control->store, ticket, &batch) : err;
}

/* Puts a prepared set in force, durably first, and tells the other nodes. Packs the fault where that fails. */
static bool put_in_force(struct hr_control *control, const struct hr_limit_set *set,
                         const struct hr_limit_record *change, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    enum hr_err err = keep_change(control, change);
    if (err != HR_OK) {
        pack_fault(out, msgid, HR_CODE_UNAVAILABLE, "the store did not take the change; nothing was changed");
        return false;
    }
    if (load(control, set, now) != HR_OK) {
        pack_fault(out, msgid, HR_CODE_RESOURCE_EXHAUSTED, "more limits than this node has room for");
        return false;
    }
    hr_catalog_commit(control->catalog);
    if (hr_core_write_fact(control->cores[0], change->name, change->json, change->version) != HR_OK) {
        pack_fault(out, msgid, HR_CODE_RESOURCE_EXHAUSTED,
                   "the limit holds on this node, which has no room to tell the others");
        return false;
    }
    return true;
}

/* What another node changed. One that cannot be put in force here, or kept, is said in the log: the node goes on, with
 * other limits than its neighbours until that is mended. */
void hr_control_turn(struct hr_control *control, struct hr_now now)
{
    struct hr_limit_record change;
    struct hr_problem problem;
    if (!hr_core_next_fact(control->cores[0], &change.name, &change.json, &change.version)) {
        return;
    }
    uint64_t ordinal = change.version.time;
    const struct hr_limit_set *set = change.json.bytes > 0
                                         ? hr_catalog_prepare_put(control->catalog, ordinal, change.json, &problem)
                                         : hr_catalog_prepare_delete(control->catalog, ordinal, change.name, &problem);
    bool is_kept = keep_change(control, &change) == HR_OK;
    if (set == NULL || load(control, set, now) != HR_OK) {
        hr_log_write(control->log, &(struct hr_log_event){now.wall, HR_LOG_ERROR, "limit_refused",
                                                          HR_LOG_FIELDS(hr_log_text("limit", change.name))});
        return;
    }
    hr_catalog_commit(control->catalog);
    hr_log_write(control->log, &(struct hr_log_event){
                                   now.wall, is_kept ? HR_LOG_INFO : HR_LOG_ERROR, "limit_changed",
                                   HR_LOG_FIELDS(hr_log_text("limit", change.name), hr_log_uint("is_kept", is_kept))});
}

static void put_limit(struct hr_control *control, const struct hr_params *params, uint64_t msgid, struct hr_now now,
                      struct hr_packer *out)
{
    static char json[JSON_BYTES_MAX];
    struct hr_packer text = {.at = json, .room = sizeof(json)};
    struct hr_problem problem;
    if (hr_value_to_json(params->limit, &text) != HR_OK || !hr_packer_fits(&text)) {
        pack_fault(out, msgid, HR_CODE_INVALID_ARGUMENT, "the limit is too large, or holds what a limits file cannot");
        return;
    }
    struct hr_limit_record change = {hr_core_next_version(control->cores[0], now), .json = hr_packer_bytes(&text)};
    const struct hr_limit_set *set =
        hr_catalog_prepare_put(control->catalog, change.version.time, change.json, &problem);
    if (set == NULL) {
        pack_fault(out, msgid, HR_CODE_INVALID_ARGUMENT, problem.what);
        return;
    }
    change.name = hr_catalog_put_name(control->catalog);
    if (put_in_force(control, set, &change, msgid, now, out)) {
        get_limit(control, params, msgid, out);
    }
}

static void delete_limit(struct hr_control *control, const struct hr_params *params, uint64_t msgid, struct hr_now now,
                         struct hr_packer *out)
{
    struct hr_problem problem;
    if (find_limit(hr_catalog_set(control->catalog), params->name) == NULL) {
        pack_fault(out, msgid, HR_CODE_NOT_FOUND, "there is no limit of that name");
        return;
    }
    const struct hr_limit_record change = {hr_core_next_version(control->cores[0], now), params->name, HR_SPAN("")};
    const struct hr_limit_set *set =
        hr_catalog_prepare_delete(control->catalog, change.version.time, change.name, &problem);
    if (set == NULL) {
        pack_fault(out, msgid, HR_CODE_INTERNAL, problem.what);
        return;
    }
    if (put_in_force(control, set, &change, msgid, now, out)) {
        hr_pack_result_head(out, msgid);
        hr_pack_map(out, 1);
        pack_key(out, "deleted");
        hr_pack_bool(out, true);
    }
}

static void log_reload(struct hr_control *control, struct hr_now now)
{
    const struct hr_problem *fault = &control->reload_fault;
    if (control->has_reload_fault) {
        hr_log_write(control->log,
                     &(struct hr_log_event){now.wall, HR_LOG_ERROR, "reload_refused",
                                            HR_LOG_FIELDS(hr_log_text("what", hr_span_of(fault->what)),
                                                          hr_log_text("where", hr_span_of(fault->where)))});
        return;
    }
    uint32_t count = hr_catalog_set(control->catalog)->limit_count;
    hr_log_write(control->log, &(struct hr_log_event){now.wall, HR_LOG_INFO, "reloaded",
                                                      HR_LOG_FIELDS(hr_log_uint("limits", count))});
}

void hr_control_reload(struct hr_control *control, struct hr_now now)
{
    const struct hr_limit_set *set = hr_catalog_prepare_reload(control->catalog, &control->reload_fault);
    control->has_reload_fault = set == NULL;
    if (set != NULL && load(control, set, now) != HR_OK) {
        hr_problem_what(&control->reload_fault, "more limits than this node has room for");
        hr_problem_where(&control->reload_fault, "%s", control->config->limits);
        control->has_reload_fault = true;
    }
    if (!control->has_reload_fault) {
        hr_catalog_commit(control->catalog);
        control->reloaded = now;
    }
    log_reload(control, now);
}

/* --- status --- */

static void pack_limits_status(struct hr_control *control, struct hr_now now, struct hr_packer *out)
{
    pack_key(out, "limits");
    hr_pack_map(out, 3);
    pack_number(out, "count", hr_catalog_set(control->catalog)->limit_count);
    pack_number(out, "reloaded_ms_ago", ms_between(control->reloaded.steady, now.steady));
    pack_key(out, "error");
    if (control->has_reload_fault) {
        char line[sizeof(control->reload_fault.what) + sizeof(control->reload_fault.where) + 4];
        int bytes = snprintf(line, sizeof(line), "%s (%s)", control->reload_fault.what, control->reload_fault.where);
        hr_pack_text(out, (struct hr_span){line, bytes > 0 ? (size_t)bytes : 0});
    } else {
        hr_pack_nil(out);
    }
}

static void pack_store_status(struct hr_control *control, struct hr_now now, struct hr_packer *out)
{
    struct hr_shard_counts counts = sum_counts(control);
    pack_key(out, "store");
    if (control->store == NULL) {
        hr_pack_nil(out);
        return;
    }
    uv_mutex_lock(&control->watch->mutex);
    enum hr_err last = control->watch->last;
    uint64_t commit_ns = hr_histogram_quantile(&control->watch->commits, 500), failures = control->watch->failures;
    uv_mutex_unlock(&control->watch->mutex);
    hr_pack_map(out, 9);
    pack_words(out, "state", last == HR_OK ? "ok" : "failing: serving from memory");
    pack_key(out, "error");
    if (last == HR_OK) {
        hr_pack_nil(out);
    } else {
        hr_pack_text(out, hr_span_of(hr_err_text(last)));
    }
    pack_number(out, "batches", counts.batches);
    pack_number(out, "batches_failed", failures);
    pack_number(out, "records", counts.records);
    pack_number(out, "lag_ms", ms_between(oldest_change(control, now.steady), now.steady));
    pack_number(out, "commit_us", commit_ns / 1000);
    pack_number(out, "damaged_records", control->damaged_records);
    pack_number(out, "damaged_bytes", control->damaged_bytes);
}

static void pack_by_limit(struct hr_control *control, struct hr_packer *out)
{
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    pack_key(out, "by_limit");
    hr_pack_array(out, set->limit_count);
    for (uint32_t i = 0; i < set->limit_count; i++) {
        struct hr_tally tally = sum_tally(control, i);
        hr_pack_map(out, 4);
        pack_key(out, "name");
        hr_pack_text(out, set->limits[i].name);
        pack_words(out, "mode", set->limits[i].mode == HR_ENFORCE ? "enforce" : "shadow");
        pack_number(out, "admitted", tally.admitted);
        pack_number(out, "denied", tally.denied);
    }
}

static void pack_status(struct hr_control *control, uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    struct hr_shard_counts counts = sum_counts(control);
    struct hr_limiter_usage usage = sum_usage(control);
    struct hr_connections_stats connections;
    sum_connections(control, &connections);
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {
        {"uptime_ms", ms_between(control->started.steady, now.steady)},
        {"connections", connections.open},
        {"counters", usage.counters},
        {"counters_max", usage.counters_max},
        {"leases", usage.leases},
        {"leases_max", usage.leases_max},
        {"log_blocks", usage.log_blocks},
        {"log_blocks_max", usage.log_blocks_max},
        {"decisions", counts.decisions},
        {"denied", counts.denied},
        {"waited_for_store", counts.waited},
        {"repeated_by_id", counts.repeated},
        {"errors", counts.faults},
        {"restored", counts.restored},
        {"restored_without_room", counts.restored_late},
        {"shards", control->worker_count},
    };
    const uint32_t number_count = sizeof(numbers) / sizeof(numbers[0]);
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, number_count + 9);
    pack_words(out, "node", control->config->name);
    pack_words(out, "region", control->config->region);
    pack_words(out, "version", hr_cmd_version_text());
    pack_words(out, "state", control->is_draining ? "draining" : "serving");
    for (uint32_t i = 0; i < number_count; i++) {
        pack_number(out, numbers[i].key, numbers[i].number);
    }
    pack_limits_status(control, now, out);
    pack_store_status(control, now, out);
    pack_key(out, "cluster");
    hr_pack_region_status(control->cores[0], hr_worker_traffic(control->workers[0]), now, out);
    pack_key(out, "caps");
    hr_pack_caps_status(control->cores[0], hr_catalog_set(control->catalog), now, out);
    pack_by_limit(control, out);
}

static uint32_t own_place(void *context, uint32_t partition)
{
    (void)context;
    (void)partition;
    return 0;
}

static uint32_t no_place(void *context, uint32_t partition)
{
    (void)context;
    (void)partition;
    return HR_MEMBER_NONE;
}

static void tell_members(struct hr_control *control, const struct hr_params *params, uint64_t msgid,
                         struct hr_packer *out)
{
    struct hr_member self = {.incarnation = 0};
    const struct hr_members alone_members = {.all = &self, .count = 1, .count_max = 1, .view = 1};
    const struct hr_cluster_view alone = {
        .members = &alone_members, .partition_count = HR_PARTITIONS, .owner = own_place, .standby = no_place};
    struct hr_self_ports ports = {.rpc = control->workers[0] == NULL ? 0 : hr_worker_port(control->workers[0])};
    if (control->cluster == NULL && !hr_self_describe(control->config, ports, &self)) {
        pack_fault(out, msgid, HR_CODE_INTERNAL, "this node's address is too long to be told");
        return;
    }
    hr_pack_result_head(out, msgid);
    hr_pack_members(out, control->cluster == NULL ? &alone : control->cluster, params->partitions);
}

static void remove_region(struct hr_control *control, const struct hr_params *params, uint64_t msgid, struct hr_now now,
                          struct hr_packer *out)
{
    enum hr_err err = hr_core_remove_region(control->cores[0], params->name, now);
    if (err == HR_E_NOT_FOUND) {
        pack_fault(out, msgid, HR_CODE_NOT_FOUND, "there is no other region of that name");
        return;
    }
    if (err != HR_OK) {
        pack_fault(out, msgid, HR_CODE_RESOURCE_EXHAUSTED, "this node has no room to tell the others");
        return;
    }
    hr_log_write(control->log, &(struct hr_log_event){now.wall, HR_LOG_WARN, "region_removed",
                                                      HR_LOG_FIELDS(hr_log_text("region", params->name))});
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, 1);
    pack_key(out, "removed");
    hr_pack_bool(out, true);
}

static void forget_member(struct hr_control *control, const struct hr_params *params, uint64_t msgid,
                          struct hr_packer *out)
{
    const struct hr_cluster_view *cluster = control->cluster;
    uint64_t id = 0;
    enum hr_err err = HR_E_NOT_FOUND;
    if (cluster != NULL && cluster->forget != NULL) {
        err = hr_members_find_gone(cluster->members, params->name, &id);
        err = err == HR_OK ? cluster->forget(cluster->context, id) : err;
    }
    if (err == HR_E_INVALID) {
        pack_fault(out, msgid, HR_CODE_INVALID_ARGUMENT, "that member is not dead and has not left: stop it first");
        return;
    }
    if (err != HR_OK) {
        pack_fault(out, msgid, HR_CODE_NOT_FOUND, "there is no member of that name that is dead or has left");
        return;
    }
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, 1);
    pack_key(out, "forgotten");
    hr_pack_bool(out, true);
}

/* The clocks of this node go wrong by so much from now on: only where its file allows that. */
static void set_clock(struct hr_control *control, const struct hr_params *params, uint64_t msgid, struct hr_packer *out)
{
    if (!control->config->chaos) {
        pack_fault(out, msgid, HR_CODE_PERMISSION_DENIED, "the node's file does not say chaos: true");
        return;
    }
    atomic_store(&control->clock->steady_offset_ns, params->steady_offset_ms * HR_NS_PER_MS);
    atomic_store(&control->clock->wall_offset_ns, params->wall_offset_ms * HR_NS_PER_MS);
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, 1);
    pack_key(out, "set");
    hr_pack_bool(out, true);
}

static void pack_hot_keys(struct hr_control *control, uint64_t msgid, struct hr_packer *out)
{
    struct hr_topk_entry entries[HOT_KEYS_SHOWN];
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    uint32_t count = 0;
    for (uint32_t i = 0; i < control->worker_count; i++) { /* a counter is one worker's */
        count = hr_topk_list(hr_shard_hot_keys(shard_of(control, i)), HOT_KEYS_SHOWN, count, entries);
    }
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, 1);
    pack_key(out, "keys");
    hr_pack_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        char hex[HR_LEASE_TEXT_BYTES];
        hr_hex_write(entries[i].id, hex);
        hr_pack_map(out, 5);
        pack_key(out, "counter");
        hr_pack_text(out, (struct hr_span){hex, sizeof(hex)});
        pack_key(out, "limit");
        hr_pack_text(out, entries[i].limit < set->limit_count ? set->limits[entries[i].limit].name : HR_SPAN(""));
        pack_number(out, "count", entries[i].count * HR_HOT_KEYS_SAMPLE);
        pack_number(out, "error", entries[i].error * HR_HOT_KEYS_SAMPLE);
        pack_number(out, "denied", entries[i].denied * HR_HOT_KEYS_SAMPLE);
    }
}

void hr_control_answer(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    struct hr_control *control = user;
    static struct hr_params params;
    struct hr_fault fault;
    if (!hr_params_decode(call->method, call->params, &params, &fault)) {
        hr_pack_error(out, call->msgid, &fault);
        return;
    }
    switch ((int)call->method) {
    case HR_METHOD_LIMITS_LIST:
        list_limits(control, call->msgid, out);
        return;
    case HR_METHOD_LIMITS_GET:
        get_limit(control, &params, call->msgid, out);
        return;
    case HR_METHOD_LIMITS_PUT:
        put_limit(control, &params, call->msgid, now, out);
        return;
    case HR_METHOD_LIMITS_DELETE:
        delete_limit(control, &params, call->msgid, now, out);
        return;
    case HR_METHOD_MEMBERS:
        tell_members(control, &params, call->msgid, out);
        return;
    case HR_METHOD_MEMBERS_FORGET:
        forget_member(control, &params, call->msgid, out);
        return;
    case HR_METHOD_REGIONS_REMOVE:
        remove_region(control, &params, call->msgid, now, out);
        return;
    case HR_METHOD_STATUS:
        pack_status(control, call->msgid, now, out);
        return;
    case HR_METHOD_HOT_KEYS:
        pack_hot_keys(control, call->msgid, out);
        return;
    case HR_METHOD_CHAOS_CLOCK:
        set_clock(control, &params, call->msgid, out);
        return;
    default:
        return; /* whoever asks us says UNIMPLEMENTED */
    }
}

/* --- pages --- */

/* The metrics of the limits; NULL: no memory. */
static struct hr_metrics_limit *limit_metrics(struct hr_control *control, uint32_t count)
{
    struct hr_metrics_limit *limits = calloc((size_t)count + 1, sizeof(*limits));
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    for (uint32_t i = 0; limits != NULL && i < count; i++) {
        struct hr_tally tally = sum_tally(control, i);
        bool is_shadow = set->limits[i].mode == HR_SHADOW;
        limits[i] = (struct hr_metrics_limit){.name = set->limits[i].name, .allowed = tally.admitted};
        limits[i].denied = is_shadow ? 0 : tally.denied;
        limits[i].shadow_denied = is_shadow ? tally.denied : 0;
        if (hr_core_caps(control->cores[0]) != NULL && set->limits[i].scope == HR_SCOPE_GLOBAL) {
            struct hr_cap_limit_status status;
            hr_cap_keeper_limit_status(hr_core_caps(control->cores[0]), i, hr_clock_now(control->clock), &status);
            limits[i].cap = (struct hr_metrics_cap){true, status.share, status.reserve, status.lent, status.borrowed};
        }
    }
    return limits;
}

/* How many members are in each state, in the order of the states. A node that is alone is one that is alive. */
static void count_members(const struct hr_control *control, struct hr_metrics_tally tallies[HR_MEMBER_LEFT + 1])
{
    for (int state = HR_MEMBER_ALIVE; state <= HR_MEMBER_LEFT; state++) {
        const char *name = hr_member_state_name((enum hr_member_state)state);
        tallies[state] = (struct hr_metrics_tally){.name = hr_span_of(name)};
    }
    if (control->cluster == NULL) {
        tallies[HR_MEMBER_ALIVE].count = 1;
        return;
    }
    const struct hr_members *members = control->cluster->members;
    for (uint32_t i = 0; i < members->count; i++) {
        tallies[members->all[i].state].count++;
    }
}

static void write_page(struct hr_control *control, const struct hr_metrics_source *source)
{
    size_t bytes = hr_metrics_write(source, control->page_room, control->page);
    if (bytes <= control->page_room) {
        return;
    }
    char *page = realloc(control->page, bytes * 2);
    if (page != NULL) {
        control->page = page;
        control->page_room = bytes * 2;
        (void)hr_metrics_write(source, control->page_room, control->page);
    }
}

/* What is known of the other regions. */
static uint32_t region_metrics(const struct hr_control *control, struct hr_now now, struct hr_metrics_region *regions)
{
    struct hr_cap_status status;
    uint32_t count = 0;
    if (hr_core_caps(control->cores[0]) == NULL) {
        return 0;
    }
    hr_cap_keeper_status(hr_core_caps(control->cores[0]), now.steady, &status);
    for (uint32_t k = 0; k < status.region_count; k++) {
        if (k != status.self && status.regions[k].word_age_ns >= 0) {
            regions[count++] =
                (struct hr_metrics_region){status.regions[k].name, (uint64_t)status.regions[k].word_age_ns};
        }
    }
    return count;
}

static struct hr_span metrics_page(struct hr_control *control)
{
    struct hr_now now = hr_clock_now(control->clock);
    struct hr_connections_stats stats;
    sum_connections(control, &stats);
    struct hr_limiter_usage usage = sum_usage(control);
    struct hr_shard_counts counts = sum_counts(control);
    struct hr_metrics_tally methods[HR_METHOD_UNKNOWN], errors[1] = {{HR_SPAN("any"), counts.faults}};
    for (int i = 0; i < HR_METHOD_UNKNOWN; i++) {
        methods[i] = (struct hr_metrics_tally){hr_method_name((enum hr_method)i), stats.requests[i]};
    }
    const struct hr_metrics_listener listeners[] = {
        {HR_SPAN("rpc"), stats.open, stats.total, stats.refused},
        {HR_SPAN("http"), hr_http_server_open_count(control->http), hr_http_server_accepted_count(control->http), 0},
    };
    struct hr_metrics_tally members[HR_MEMBER_LEFT + 1];
    count_members(control, members);
    struct hr_metrics_region regions[HR_REGIONS_MAX];
    struct hr_histogram commits = {0};
    uint64_t failures = 0;
    if (control->store != NULL) {
        uv_mutex_lock(&control->watch->mutex);
        commits = control->watch->commits;
        failures = control->watch->failures;
        uv_mutex_unlock(&control->watch->mutex);
    }
    uint32_t limit_count = hr_catalog_set(control->catalog)->limit_count;
    struct hr_metrics_limit *limits = limit_metrics(control, limit_count);
    const struct hr_metrics_source source = {
        .version = hr_span_of(hr_cmd_version_text()),
        .started_at_unix_ns = (uint64_t)control->started.wall.ns,
        .limits = limits,
        .limit_count = limits == NULL ? 0 : limit_count,
        .decisions = &stats.latency,
        .methods = {methods, HR_METHOD_UNKNOWN},
        .errors = {errors, 1},
        .counters = {usage.counters, usage.counters_max},
        .leases = {usage.leases, usage.leases_max},
        .log_blocks = {usage.log_blocks, usage.log_blocks_max},
        .replies = sum_replies(control),
        .store = {.lag_ns = ms_between(oldest_change(control, now.steady), now.steady) * 1000000,
                  .commits = &commits,
                  .failures = failures,
                  .damaged_records = control->damaged_records,
                  .damaged_bytes = control->damaged_bytes,
                  .map_bytes_max = control->config->map_bytes_max},
        .reload = {!control->has_reload_fault, (uint64_t)control->reloaded.wall.ns, limit_count},
        .listeners = listeners,
        .listener_count = 2,
        .members = {members, HR_MEMBER_LEFT + 1},
        .regions = regions,
        .region_count = region_metrics(control, now, regions),
        .view = control->cluster == NULL ? 1 : control->cluster->members->view,
    };
    write_page(control, &source);
    size_t bytes = hr_metrics_write(&source, 0, NULL);
    free(limits);
    return (struct hr_span){control->page, bytes <= control->page_room ? bytes : 0};
}

bool hr_control_find_page(void *context, struct hr_span path, struct hr_http_page *ret_page)
{
    struct hr_control *control = context;
    *ret_page = (struct hr_http_page){.status = 200, .content_type = "text/plain; charset=utf-8"};
    if (hr_span_equal(path, HR_SPAN("/livez"))) {
        ret_page->body = HR_SPAN("ok\n");
        return true;
    }
    if (hr_span_equal(path, HR_SPAN("/readyz"))) {
        bool is_ready = control->workers[0] != NULL && !control->is_draining;
        ret_page->status = is_ready ? 200 : 503;
        ret_page->body = is_ready ? HR_SPAN("ok\n") : HR_SPAN("not ready\n");
        return true;
    }
    if (hr_span_equal(path, HR_SPAN("/metrics")) && control->workers[0] != NULL) {
        ret_page->content_type = HR_METRICS_CONTENT_TYPE;
        ret_page->body = metrics_page(control);
        return true;
    }
    return false;
}
