#include "node/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/cmd.h"
#include "node/http_uv.h"
#include "node/limit_map.h"
#include "node/metrics_text.h"
#include "rpc/hex.h"
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

bool hr_limit_record_decode(struct hr_span payload, struct hr_span *ret_name, struct hr_span *ret_json)
{
    if (payload.bytes == 0 || (uint8_t)payload.at[0] > payload.bytes - 1) {
        return false;
    }
    size_t name_bytes = (uint8_t)payload.at[0];
    *ret_name = (struct hr_span){payload.at + 1, name_bytes};
    *ret_json = (struct hr_span){payload.at + 1 + name_bytes, payload.bytes - 1 - name_bytes};
    return true;
}

/* Gives one change to the store and waits for it: it must hold across restarts before anybody is told so. This holds
 * the loop for the time of a commit, which an operator's rare call may. */
static enum hr_err keep_change(struct hr_control *control, struct hr_span name, struct hr_span json)
{
    static char payload[1 + HR_LIMIT_NAME_BYTES_MAX + JSON_BYTES_MAX];
    static uint8_t memory[sizeof(payload) + 256];
    struct hr_store_batch batch;
    if (control->store == NULL) {
        return HR_OK;
    }
    payload[0] = (char)name.bytes;
    memcpy(payload + 1, name.at, name.bytes);
    memcpy(payload + 1 + name.bytes, json.at, json.bytes);
    struct hr_store_key key = hr_limit_record_key(name);
    hr_batch_init(&batch, memory, sizeof(memory));
    enum hr_err err = hr_batch_put(&batch, &key, (struct hr_span){payload, 1 + name.bytes + json.bytes});
    uint64_t ticket = HR_CONTROL_TICKETS | ++control->ticket;
    err = err == HR_OK ? hr_store_commit(control->store, ticket, &batch) : err;
    if (err != HR_OK) {
        return err;
    }
    hr_store_settle(control->store);
    uv_mutex_lock(&control->watch->mutex);
    err = control->watch->control_ticket == ticket ? control->watch->control_err : HR_E_IO;
    uv_mutex_unlock(&control->watch->mutex);
    return err;
}

/* Puts a prepared set in force, durably first. Packs the fault where that fails. */
static bool put_in_force(struct hr_control *control, const struct hr_limit_set *set, struct hr_span json,
                         uint64_t msgid, struct hr_now now, struct hr_packer *out)
{
    enum hr_err err = keep_change(control, hr_catalog_put_name(control->catalog), json);
    if (err != HR_OK) {
        pack_fault(out, msgid, HR_CODE_UNAVAILABLE, "the store did not take the change; nothing was changed");
        return false;
    }
    if (hr_shard_load(control->shard, set, now) != HR_OK) {
        pack_fault(out, msgid, HR_CODE_RESOURCE_EXHAUSTED, "more limits than this node has room for");
        return false;
    }
    hr_catalog_commit(control->catalog);
    return true;
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
    const struct hr_limit_set *set = hr_catalog_prepare_put(control->catalog, hr_packer_bytes(&text), &problem);
    if (set == NULL) {
        pack_fault(out, msgid, HR_CODE_INVALID_ARGUMENT, problem.what);
        return;
    }
    if (put_in_force(control, set, hr_packer_bytes(&text), msgid, now, out)) {
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
    const struct hr_limit_set *set = hr_catalog_prepare_delete(control->catalog, params->name, &problem);
    if (set == NULL) {
        pack_fault(out, msgid, HR_CODE_INTERNAL, problem.what);
        return;
    }
    if (put_in_force(control, set, HR_SPAN(""), msgid, now, out)) {
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
    if (set != NULL && hr_shard_load(control->shard, set, now) != HR_OK) {
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
    struct hr_shard_counts counts = hr_shard_counts(control->shard);
    pack_key(out, "store");
    if (control->store == NULL) {
        hr_pack_nil(out);
        return;
    }
    uv_mutex_lock(&control->watch->mutex);
    enum hr_err last = control->watch->last;
    uint64_t commit_ns = hr_histogram_quantile(&control->watch->commits, 500), failures = control->watch->failures;
    uv_mutex_unlock(&control->watch->mutex);
    hr_pack_map(out, 7);
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
    pack_number(out, "lag_ms", ms_between(hr_shard_oldest_change(control->shard, now.steady), now.steady));
    pack_number(out, "commit_us", commit_ns / 1000);
}

static void pack_by_limit(struct hr_control *control, struct hr_packer *out)
{
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    pack_key(out, "by_limit");
    hr_pack_array(out, set->limit_count);
    for (uint32_t i = 0; i < set->limit_count; i++) {
        struct hr_tally tally = hr_limiter_tally(hr_shard_limiter(control->shard), i);
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
    struct hr_shard_counts counts = hr_shard_counts(control->shard);
    struct hr_limiter_usage usage = hr_limiter_usage(hr_shard_limiter(control->shard));
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {
        {"uptime_ms", ms_between(control->started.steady, now.steady)},
        {"connections", control->worker == NULL ? 0 : hr_worker_stats(control->worker)->open},
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
        {"shards", 1},
    };
    const uint32_t number_count = sizeof(numbers) / sizeof(numbers[0]);
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, number_count + 7);
    pack_words(out, "node", control->config->name);
    pack_words(out, "region", control->config->region);
    pack_words(out, "version", hr_cmd_version_text());
    pack_words(out, "state", control->is_draining ? "draining" : "serving");
    for (uint32_t i = 0; i < number_count; i++) {
        pack_number(out, numbers[i].key, numbers[i].number);
    }
    pack_limits_status(control, now, out);
    pack_store_status(control, now, out);
    pack_by_limit(control, out);
}

static void pack_members(struct hr_control *control, uint64_t msgid, struct hr_packer *out)
{
    char rpc[HR_ADDRESS_TEXT_BYTES], gossip[HR_ADDRESS_TEXT_BYTES];
    struct hr_address at = control->config->advertise.rpc;
    if (at.port == 0 && control->worker != NULL) {
        at.port = hr_worker_port(control->worker);
    }
    (void)hr_address_text(&at, rpc);
    gossip[0] = '\0';
    if (control->config->advertise.gossip.host[0] != '\0') {
        (void)hr_address_text(&control->config->advertise.gossip, gossip);
    }
    hr_pack_result_head(out, msgid);
    hr_pack_map(out, 2);
    pack_number(out, "view", 1);
    pack_key(out, "members");
    hr_pack_array(out, 1);
    hr_pack_map(out, 6);
    pack_words(out, "name", control->config->name);
    pack_words(out, "region", control->config->region);
    pack_words(out, "state", "alive");
    pack_words(out, "rpc", rpc);
    pack_words(out, "gossip", gossip);
    pack_number(out, "incarnation", 1);
}

static void pack_hot_keys(struct hr_control *control, uint64_t msgid, struct hr_packer *out)
{
    struct hr_topk_entry entries[HOT_KEYS_SHOWN];
    const struct hr_limit_set *set = hr_catalog_set(control->catalog);
    uint32_t count = hr_topk_list(hr_shard_hot_keys(control->shard), HOT_KEYS_SHOWN, entries);
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
        pack_members(control, call->msgid, out);
        return;
    case HR_METHOD_STATUS:
        pack_status(control, call->msgid, now, out);
        return;
    case HR_METHOD_HOT_KEYS:
        pack_hot_keys(control, call->msgid, out);
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
        struct hr_tally tally = hr_limiter_tally(hr_shard_limiter(control->shard), i);
        bool is_shadow = set->limits[i].mode == HR_SHADOW;
        limits[i] = (struct hr_metrics_limit){.name = set->limits[i].name, .allowed = tally.admitted};
        limits[i].denied = is_shadow ? 0 : tally.denied;
        limits[i].shadow_denied = is_shadow ? tally.denied : 0;
    }
    return limits;
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

static struct hr_span metrics_page(struct hr_control *control)
{
    struct hr_now now = hr_clock_now(control->clock);
    const struct hr_connections_stats *stats = hr_worker_stats(control->worker);
    struct hr_limiter_usage usage = hr_limiter_usage(hr_shard_limiter(control->shard));
    struct hr_shard_counts counts = hr_shard_counts(control->shard);
    struct hr_metrics_tally methods[HR_METHOD_UNKNOWN], errors[1] = {{HR_SPAN("any"), counts.faults}};
    for (int i = 0; i < HR_METHOD_UNKNOWN; i++) {
        methods[i] = (struct hr_metrics_tally){hr_method_name((enum hr_method)i), stats->requests[i]};
    }
    const struct hr_metrics_listener listeners[] = {
        {HR_SPAN("rpc"), stats->open, stats->total, stats->refused},
        {HR_SPAN("http"), hr_http_server_open_count(control->http), hr_http_server_accepted_count(control->http), 0},
    };
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
        .decisions = &stats->latency,
        .methods = {methods, HR_METHOD_UNKNOWN},
        .errors = {errors, 1},
        .counters = {usage.counters, usage.counters_max},
        .leases = {usage.leases, usage.leases_max},
        .log_blocks = {usage.log_blocks, usage.log_blocks_max},
        .replies = hr_shard_replies(control->shard),
        .store = {.lag_ns = ms_between(hr_shard_oldest_change(control->shard, now.steady), now.steady) * 1000000,
                  .commits = &commits,
                  .failures = failures,
                  .map_bytes_max = control->config->map_bytes_max},
        .reload = {!control->has_reload_fault, (uint64_t)control->reloaded.wall.ns, limit_count},
        .listeners = listeners,
        .listener_count = 2,
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
        bool is_ready = control->worker != NULL && !control->is_draining;
        ret_page->status = is_ready ? 200 : 503;
        ret_page->body = is_ready ? HR_SPAN("ok\n") : HR_SPAN("not ready\n");
        return true;
    }
    if (hr_span_equal(path, HR_SPAN("/metrics")) && control->worker != NULL) {
        ret_page->content_type = HR_METRICS_CONTENT_TYPE;
        ret_page->body = metrics_page(control);
        return true;
    }
    return false;
}
