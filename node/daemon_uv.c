#include "node/daemon_uv.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "node/clock.h"
#include "node/cluster_log.h"
#include "node/control.h"
#include "node/core_config.h"
#include "node/crew_uv.h"
#include "node/down_time.h"
#include "node/http_uv.h"
#include "node/layout.h"
#include "node/life.h"
#include "node/log_fd.h"
#include "node/secret.h"
#include "node/secret_mark.h"
#include "node/shard.h"
#include "node/temp_folder.h"
#include "node/worker_uv.h"
#include "storage/images.h"
#include "storage/segment.h"
#include "storage/storage_lmdb.h"

/* Of the batch that puts the store right at start; the records of the clock, life and secret are in it too. */
#define TIDY_BYTES 16384
#define CLOCK_BYTES 256

/* A store that has failed is well again when it has taken everything for so long: a full disk may take one batch and
 * not the next. */
#define STORE_CALM_NS (10 * HR_NS_PER_S)

/* Descriptors that no client gets: those of the store, of http and of the threads, more for each worker; in a cluster,
 * of the ways to and from each member too. */
#define DESCRIPTORS_ALONE 128U
#define DESCRIPTORS_WORKER 8U
#define DESCRIPTORS_CLUSTER (DESCRIPTORS_ALONE + 2U * HR_MEMBERS_MAX)

struct daemon;

/* One worker, and what is its own. The first runs on the thread that runs the daemon. */
struct hand {
    struct daemon *daemon;
    uint16_t number;
    bool has_loop;
    uv_loop_t loop;
    uv_thread_t thread;
    struct hr_core *core;
    void *core_memory;
    size_t core_bytes;
    struct hr_worker *_Atomic worker; /* read by the store's thread */
};

struct daemon {
    const struct hr_node_config *config;
    bool is_dev;
    char data[HR_CONFIG_PATH_BYTES_MAX + 1];
    bool owns_data; /* made by us, to be removed */
    struct hr_clock clock;
    struct hr_log log;
    struct hr_log_fd log_fd;
    struct hr_hash_key secret;
    struct hr_store_watch watch;
    struct hr_store *store;
    bool is_store_failing; /* as the log was told; the store's thread has these two */
    hr_ns store_failed;    /* when it did last */
    struct hr_core_draft draft;
    uint64_t life;
    uint32_t hand_count;
    uint32_t clients_max; /* of each worker */
    struct hand hands[HR_WORKERS_MAX];
    struct hr_crew *crew; /* NULL: there is one worker */
    struct hr_core *core; /* the first worker's */
    struct hr_cluster_view view;
    struct hr_cluster_log cluster_log;
    bool is_displaced; /* it stops because others say that it must */
    struct hr_control control;
    uv_signal_t signals[3];
    bool has_signals;
};

static void log_event(const struct daemon *daemon, enum hr_log_level level, const char *name, size_t count,
                      const struct hr_log_field *fields)
{
    struct hr_now now = hr_clock_now(&daemon->clock);
    hr_log_write(&daemon->log, &(struct hr_log_event){now.wall, level, name, count, fields});
}

/* --- the store --- */

/* On the store's thread. */
static void tell_of_store(struct daemon *daemon, enum hr_err err)
{
    hr_ns now = hr_clock_steady();
    if (err == HR_OK && daemon->is_store_failing && now - daemon->store_failed >= STORE_CALM_NS) {
        daemon->is_store_failing = false;
        log_event(daemon, HR_LOG_INFO, "store_recovered", 0, NULL);
    }
    if (err != HR_OK && !daemon->is_store_failing) {
        daemon->is_store_failing = true;
        log_event(daemon, HR_LOG_ERROR, "store_failing",
                  HR_LOG_FIELDS(hr_log_text("what", hr_span_of("what is spent is not stored")),
                                hr_log_text("why", hr_span_of(hr_err_text(err)))));
    }
    daemon->store_failed = err != HR_OK ? now : daemon->store_failed;
}

/* On the store's thread. */
static void store_done(void *user, const struct hr_store_result *results, size_t count)
{
    struct daemon *daemon = user;
    for (size_t i = 0; i < count; i++) {
        hr_store_watch_result(&daemon->watch, &results[i]);
        tell_of_store(daemon, results[i].err);
        uint16_t number = hr_worker_number_of(results[i].ticket);
        struct hr_worker *worker = number < daemon->hand_count ? daemon->hands[number].worker : NULL;
        if (worker != NULL) {
            hr_worker_persisted(worker, &results[i]);
        }
    }
}

static bool make_data_folder(struct daemon *daemon, struct hr_problem *problem)
{
    if (daemon->config->data[0] == '\0') {
        daemon->owns_data = hr_temp_folder("dev", daemon->data, sizeof(daemon->data));
    } else {
        (void)snprintf(daemon->data, sizeof(daemon->data), "%s", daemon->config->data);
    }
    if (daemon->owns_data || mkdir(daemon->data, 0700) == 0 || errno == EEXIST) {
        return true;
    }
    return hr_problem_errno(problem, daemon->data, "cannot make the data folder");
}

static bool open_store(struct daemon *daemon, struct hr_problem *problem)
{
    char path[HR_CONFIG_PATH_BYTES_MAX + 16];
    (void)snprintf(path, sizeof(path), "%s/store", daemon->data);
    struct hr_store_problem store_problem;
    const struct hr_store_lmdb_options options = {
        .dir = path,
        .cluster = hr_span_of(daemon->config->cluster),
        .node = hr_span_of(daemon->config->name),
        .map_bytes_max = daemon->config->map_bytes_max,
        .done = store_done,
        .user = daemon,
    };
    if (hr_store_lmdb_open(&options, &daemon->store, &store_problem) == HR_OK) {
        return true;
    }
    size_t prefix = strlen(path) + strlen(": "); /* it begins with the folder, which we say behind it */
    bool is_cut = strlen(store_problem.text) > prefix && strncmp(store_problem.text, path, strlen(path)) == 0;
    hr_problem_what(problem, "%s", store_problem.text + (is_cut ? prefix : 0));
    hr_problem_where(problem, "%s", path);
    return false;
}

/* A store is of use under the secret alone that it was written under: one made anew would find no counter in it, and
 * start all of them afresh. */
static bool take_secret(struct daemon *daemon, struct hr_problem *problem)
{
    char store[HR_CONFIG_PATH_BYTES_MAX + 16], secret[HR_CONFIG_PATH_BYTES_MAX + 16];
    if (daemon->config->secret_file[0] != '\0') {
        return hr_secret_read(daemon->config->secret_file, &daemon->secret, problem);
    }
    (void)snprintf(store, sizeof(store), "%s/store/data.mdb", daemon->data);
    (void)snprintf(secret, sizeof(secret), "%s/secret", daemon->data);
    if (access(store, F_OK) == 0 && access(secret, F_OK) != 0 && errno == ENOENT) {
        hr_problem_what(problem, "the store is there, but the secret that its counters are named under is gone");
        hr_problem_where(problem, "%s", secret);
        return false;
    }
    return hr_secret_keep(daemon->data, &daemon->secret, problem);
}

/* A node's own secret never changes by itself: the old one must come back. One that the cluster shares is changed on
 * purpose now and then, and its counters then begin afresh, but not without a word. */
static bool check_secret(struct daemon *daemon, struct hr_problem *problem)
{
    enum hr_secret_mark mark = HR_SECRET_UNMARKED;
    enum hr_err err = hr_secret_mark_read(daemon->store, &daemon->secret, &mark);
    bool is_own = daemon->config->secret_file[0] == '\0';
    if (err != HR_OK) {
        hr_problem_what(problem, "cannot read the store: %s", hr_err_text(err));
        hr_problem_where(problem, "the mark of its secret");
        return false;
    }
    if (mark == HR_SECRET_OTHER && is_own) {
        hr_problem_what(problem, "the store's counters are named under another secret than this one: bring that back, "
                                 "or move the store away");
        hr_problem_where(problem, "%s/secret", daemon->data);
        return false;
    }
    if (mark == HR_SECRET_OTHER) {
        log_event(daemon, HR_LOG_WARN, "secret_changed",
                  HR_LOG_FIELDS(hr_log_text("what", hr_span_of("no counter is found again: all begin afresh")),
                                hr_log_text("where", hr_span_of(daemon->config->secret_file))));
    }
    return true;
}

/* --- what was kept --- */

struct restoring {
    struct daemon *daemon;
    struct hr_now now;
    struct hr_down_time down;
    uint64_t left_out;
    bool is_moved; /* the store is laid out for another number of workers */
    struct hr_relayout relayout;
    struct hr_store_batch tidy; /* what is put right in the store when all has been read */
    uint8_t memory[TIDY_BYTES];
};

/* A limit that was deleted, and that the file has no longer either: there is nothing left that it could hide. Where
 * there are other nodes, one of them may have slept through the deletion. */
static void forget_deleted(struct restoring *restoring, struct hr_span name)
{
    struct hr_store_key key = hr_limit_record_key(name);
    enum hr_err err = hr_batch_delete(&restoring->tidy, &key);
    (void)err; /* where there is no room, the next start goes on */
}

static enum hr_err visit_limit(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    struct hr_catalog *catalog = restoring->daemon->control.catalog;
    struct hr_problem problem;
    struct hr_limit_record change;
    if (!hr_limit_record_decode(record->payload, &change)) {
        return HR_E_CORRUPT;
    }
    bool is_alone = restoring->daemon->config->listen.gossip.host[0] == '\0';
    if (change.json.bytes == 0 && is_alone && !hr_catalog_is_in_file(catalog, change.name)) {
        forget_deleted(restoring, change.name);
        return HR_OK;
    }
    if (!hr_catalog_restore(catalog, change.version.time, change.name, change.json, &problem)) {
        log_event(restoring->daemon, HR_LOG_ERROR, "limit_left_out",
                  HR_LOG_FIELDS(hr_log_text("what", hr_span_of(problem.what)),
                                hr_log_text("where", hr_span_of(problem.where))));
        restoring->left_out++;
    }
    return HR_OK;
}

static enum hr_err visit_fact(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    struct hr_limit_record change;
    if (!hr_limit_record_decode(record->payload, &change)) {
        return HR_E_CORRUPT;
    }
    enum hr_err err = hr_core_restore_fact(restoring->daemon->core, change.name, change.json, change.version);
    return err == HR_E_RANGE ? HR_E_CORRUPT : HR_OK; /* where there is no room, others will tell */
}

static enum hr_err visit_counters(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    struct hr_segment_reader reader;
    enum hr_err err = hr_segment_open(record, &reader);
    if (err != HR_OK) {
        return err;
    }
    int64_t elapsed_ns = hr_down_time_since(&restoring->down, reader.saved_at);
    for (uint32_t i = 0; i < restoring->daemon->hand_count && err == HR_OK; i++) {
        struct hr_shard *shard = hr_core_shard(restoring->daemon->hands[i].core);
        err = restoring->is_moved ? hr_shard_restore_moved(shard, record, elapsed_ns, restoring->now)
                                  : hr_shard_restore_counters(shard, record, elapsed_ns, restoring->now);
    }
    hr_relayout_note(&restoring->relayout, record);
    return err;
}

static enum hr_err visit_lease(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    struct hr_lease_image image;
    enum hr_err err = hr_lease_decode(record, &image);
    if (err == HR_OK) {
        int64_t elapsed_ns = hr_down_time_since(&restoring->down, image.saved_at);
        for (uint32_t i = 0; i < restoring->daemon->hand_count; i++) {
            struct hr_shard *shard = hr_core_shard(restoring->daemon->hands[i].core);
            hr_shard_restore_lease(shard, &image, elapsed_ns, restoring->now);
        }
    }
    return err;
}

static enum hr_err visit_tenure(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    return hr_core_restore_tenure(restoring->daemon->core, record, restoring->now);
}

static enum hr_err visit_cap(void *user, const struct hr_record *record)
{
    struct restoring *restoring = user;
    return hr_core_restore_cap(restoring->daemon->core, record);
}

/* How many counters were in a damaged segment nobody can tell any more, but how many there was room for. */
static void tell_of_damage(struct daemon *daemon, enum hr_record_kind kind, const char *what,
                           const struct hr_store_loaded *loaded)
{
    uint64_t counters = loaded->bad_bytes / HR_SEGMENT_COUNTER_BYTES_MIN;
    daemon->control.damaged_records += loaded->bad;
    daemon->control.damaged_bytes += loaded->bad_bytes;
    if (loaded->bad > 0) {
        log_event(daemon, HR_LOG_ERROR, "records_damaged",
                  HR_LOG_FIELDS(hr_log_text("kind", hr_span_of(what)), hr_log_uint("count", loaded->bad),
                                hr_log_uint("bytes", loaded->bad_bytes),
                                hr_log_uint("lost_at_most", kind == HR_RECORD_COUNTER ? counters : loaded->bad)));
    }
}

static bool load_kind(struct restoring *restoring, enum hr_record_kind kind, hr_store_visit *visit, const char *what,
                      struct hr_problem *problem)
{
    struct hr_store_loaded loaded;
    enum hr_err err = hr_store_load(restoring->daemon->store, kind, visit, restoring, &loaded);
    tell_of_damage(restoring->daemon, kind, what, &loaded);
    if (err == HR_OK) {
        return true;
    }
    hr_problem_what(problem,
                    err == HR_E_INVALID ? "the store was written by a newer version" : "cannot read the store: %s",
                    hr_err_text(err));
    hr_problem_where(problem, "%s", restoring->daemon->data);
    return false;
}

static bool restore_limits(struct restoring *restoring, struct hr_problem *problem)
{
    struct hr_catalog *catalog = restoring->daemon->control.catalog;
    if (!load_kind(restoring, HR_RECORD_LIMIT, visit_limit, "limit", problem) ||
        hr_catalog_prepare_restored(catalog, problem) == NULL) {
        return false;
    }
    hr_catalog_commit(catalog);
    return true;
}

static bool lay_out_anew(struct restoring *restoring, struct hr_problem *problem)
{
    struct daemon *daemon = restoring->daemon;
    struct hr_relayout *relayout = &restoring->relayout;
    relayout->store = daemon->store;
    relayout->watch = &daemon->watch;
    relayout->cores = daemon->control.cores;
    relayout->count = daemon->hand_count;
    relayout->ticket = &daemon->control.ticket;
    enum hr_err err = hr_relayout_run(relayout, restoring->now);
    if (err == HR_OK) {
        return true;
    }
    hr_problem_what(problem, "cannot lay the store out for %u workers: %s", daemon->hand_count, hr_err_text(err));
    hr_problem_where(problem, "%s", daemon->data);
    return false;
}

/* A store that takes nothing now does not keep the node from serving: it says so in its status. */
static bool restore_counters(struct restoring *restoring, struct hr_problem *problem)
{
    struct daemon *daemon = restoring->daemon;
    uint32_t laid_out_for;
    restoring->now = hr_clock_now(&daemon->clock);
    if (hr_layout_read(daemon->store, &laid_out_for) != HR_OK) {
        hr_problem_what(problem, "cannot read the store");
        hr_problem_where(problem, "%s", daemon->data);
        return false;
    }
    restoring->is_moved = laid_out_for != daemon->hand_count;
    if (!load_kind(restoring, HR_RECORD_LIMIT, visit_fact, "limit", problem) ||
        !load_kind(restoring, HR_RECORD_COUNTER, visit_counters, "counter", problem) ||
        !load_kind(restoring, HR_RECORD_LEASE, visit_lease, "lease", problem) ||
        !load_kind(restoring, HR_RECORD_TENURE, visit_tenure, "partition", problem) ||
        !load_kind(restoring, HR_RECORD_CAP, visit_cap, "cap", problem)) {
        return false;
    }
    if (restoring->is_moved && !lay_out_anew(restoring, problem)) {
        return false;
    }
    restoring->tidy.bytes_max = sizeof(restoring->memory);
    enum hr_err err = hr_down_time_put(&daemon->clock, &restoring->tidy);
    if (err == HR_OK) {
        err = hr_life_put(daemon->life, &restoring->tidy);
    }
    if (err == HR_OK) {
        err = hr_secret_mark_put(&daemon->secret, &restoring->tidy);
    }
    if (err == HR_OK) {
        err = hr_store_watch_commit(&daemon->watch, daemon->store, HR_CONTROL_TICKETS, &restoring->tidy);
    }
    if (err != HR_OK) {
        log_event(
            daemon, HR_LOG_ERROR, "store_failing",
            HR_LOG_FIELDS(hr_log_text("what", hr_span_of("the records of its clock, life and secret are not stored")),
                          hr_log_text("why", hr_span_of(hr_err_text(err)))));
    }
    return true;
}

/* --- the core --- */

/* A counter is one miss of the cache, and should not be one of the address cache too. Only the limiter, which stands
 * last: the places of requests that wait are large and mostly empty, and would be filled whole. */
static void wish_for_huge_pages(const struct hr_core_config *config, const struct hand *hand)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *begin = (char *)hr_shard_limiter(hr_core_shard(hand->core));
    char *end = begin + hr_limiter_bytes(&config->shard.sizes);
    begin += (page - (uintptr_t)begin % page) % page;
    if (begin < end) {
        (void)madvise(begin, (size_t)(end - begin), MADV_HUGEPAGE);
    }
}

static bool map_memory(const struct hr_core_config *config, struct hand *hand, struct hr_problem *problem)
{
    hand->core_bytes = hr_core_bytes(config);
    hand->core_memory =
        mmap(NULL, hand->core_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hand->core_bytes > 0 && hand->core_memory != MAP_FAILED) {
        return true;
    }
    hand->core_memory = NULL;
    hr_problem_what(problem, "cannot get %zu bytes of memory for the counters", hand->core_bytes);
    hr_problem_where(problem, "memory");
    return false;
}

static bool make_core(struct daemon *daemon, struct hand *hand, struct hr_now now, struct hr_problem *problem)
{
    const struct hr_slice slice = {hand->number, daemon->hand_count};
    const struct hr_core_config config = hr_core_slice(&daemon->draft.core, slice);
    if (!map_memory(&config, hand, problem)) {
        return false;
    }
    hand->core = hr_core_init(&config, now, hand->core_memory, hand->core_bytes);
    if (hand->core == NULL) {
        hr_problem_what(problem, "the node's name, region or addresses are not such as other nodes could use");
        hr_problem_where(problem, "node %s", daemon->config->name);
        return false;
    }
    wish_for_huge_pages(&config, hand);
    return true;
}

static bool make_crew(struct daemon *daemon, struct hr_problem *problem)
{
    if (daemon->hand_count > 1) {
        daemon->crew = hr_crew_new(daemon->hand_count);
        hr_problem_what(problem, "not enough memory for %u workers", daemon->hand_count);
        hr_problem_where(problem, "node.workers");
    }
    return daemon->crew != NULL || daemon->hand_count == 1;
}

static bool make_cores(struct daemon *daemon, struct hr_problem *problem)
{
    struct hr_core_draws draws;
    struct hr_now now = hr_clock_now(&daemon->clock);
    hr_problem_what(problem, "cannot draw random numbers, or read the store");
    hr_problem_where(problem, "%s", daemon->data);
    if (getrandom(&draws, sizeof(draws), 0) != sizeof(draws) ||
        hr_life_read(daemon->store, now.wall, &daemon->life) != HR_OK ||
        !hr_core_draft_fill(&daemon->draft, daemon->config, &daemon->secret, daemon->life, draws, problem) ||
        !make_crew(daemon, problem)) {
        return false;
    }
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        if (!make_core(daemon, &daemon->hands[i], now, problem)) {
            return false;
        }
        daemon->control.cores[i] = daemon->hands[i].core;
    }
    daemon->core = daemon->hands[0].core;
    return true;
}

/* --- the cluster, as control tells it --- */

static uint32_t owner_of(void *context, uint32_t partition)
{
    const struct daemon *daemon = context;
    return hr_tenure_owner(hr_core_tenure(daemon->core), partition);
}

static uint32_t standby_of(void *context, uint32_t partition)
{
    const struct daemon *daemon = context;
    return hr_tenure_standby(hr_core_tenure(daemon->core), partition);
}

static enum hr_err forget(void *context, uint64_t id)
{
    struct daemon *daemon = context;
    const struct hr_members *members = hr_core_members(daemon->core);
    uint32_t i = hr_members_find(members, id);
    if (i == HR_MEMBER_NONE) {
        return HR_E_NOT_FOUND;
    }
    struct hr_span region = hr_span_of(members->all[i].region), name = hr_span_of(members->all[i].name);
    return hr_core_forget(daemon->core, region, name, hr_clock_now(&daemon->clock));
}

static void show_cluster(struct daemon *daemon)
{
    if (daemon->draft.core.is_alone) {
        return;
    }
    daemon->view = (struct hr_cluster_view){.members = hr_core_members(daemon->core),
                                            .partition_count = HR_PARTITIONS,
                                            .owner = owner_of,
                                            .standby = standby_of,
                                            .forget = forget,
                                            .context = daemon};
    daemon->control.cluster = &daemon->view;
}

/* Limits, store, core: all that must be there before anybody can be answered. */
static bool prepare(struct daemon *daemon, struct hr_problem *problem)
{
    const struct hr_node_config *config = daemon->config;
    struct restoring restoring = {.daemon = daemon};
    hr_batch_init(&restoring.tidy, restoring.memory, sizeof(restoring.memory) - CLOCK_BYTES);
    bool has_secret = take_secret(daemon, problem);
    daemon->control.catalog =
        has_secret ? hr_catalog_new(config->limits[0] == '\0' ? NULL : config->limits, problem) : NULL;
    if (daemon->control.catalog == NULL || !open_store(daemon, problem) || !check_secret(daemon, problem) ||
        !hr_down_time_read(daemon->store, &daemon->clock, &restoring.down, problem) ||
        !restore_limits(&restoring, problem) || !make_cores(daemon, problem)) {
        return false;
    }
    struct hr_now now = hr_clock_now(&daemon->clock);
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        if (hr_core_load(daemon->hands[i].core, hr_catalog_set(daemon->control.catalog), now) != HR_OK) {
            hr_problem_what(problem, "more limits than a node has room for");
            hr_problem_where(problem, "%s", config->limits);
            return false;
        }
    }
    return restore_counters(&restoring, problem);
}

/* --- what one worker does for all --- */

static void stop_others(const struct hand *hand)
{
    if (hand->daemon->crew != NULL) {
        hr_crew_stop(hand->daemon->crew, hand->number);
    }
}

static void let_others_go(const struct daemon *daemon)
{
    if (daemon->crew != NULL) {
        hr_crew_go(daemon->crew);
    }
}

static void answer(void *user, const struct hr_call *call, struct hr_now now, struct hr_packer *out)
{
    const struct hand *hand = user;
    stop_others(hand);
    hr_control_answer(&hand->daemon->control, call, now, out);
    let_others_go(hand->daemon);
}

static bool find_page(void *context, struct hr_span path, struct hr_http_page *ret_page)
{
    struct daemon *daemon = context;
    stop_others(&daemon->hands[0]);
    bool is_found = hr_control_find_page(&daemon->control, path, ret_page);
    let_others_go(daemon);
    return is_found;
}

/* --- signals and the end --- */

static void worker_stopped(void *user)
{
    struct daemon *daemon = ((struct hand *)user)->daemon;
    if (daemon->control.http != NULL) {
        hr_http_server_close(daemon->control.http, NULL, NULL);
        daemon->control.http = NULL;
    }
    for (size_t i = 0; daemon->has_signals && i < 3; i++) {
        uv_close((uv_handle_t *)&daemon->signals[i], NULL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *daemon = handle->data;
    if (number == SIGHUP) {
        stop_others(&daemon->hands[0]);
        hr_control_reload(&daemon->control, hr_clock_now(&daemon->clock));
        let_others_go(daemon);
        return;
    }
    if (daemon->control.is_draining) {
        _exit(1); /* told twice: at once */
    }
    daemon->control.is_draining = true;
    log_event(daemon, HR_LOG_INFO, "draining", HR_LOG_FIELDS(hr_log_int("signal", number)));
    hr_worker_drain(daemon->control.workers[0]);
}

static bool listen_to_signals(struct daemon *daemon)
{
    static const int numbers[3] = {SIGHUP, SIGTERM, SIGINT};
    for (size_t i = 0; i < 3; i++) {
        if (uv_signal_init(&daemon->hands[0].loop, &daemon->signals[i]) != 0) {
            return false;
        }
        daemon->signals[i].data = daemon;
        if (uv_signal_start(&daemon->signals[i], on_signal, numbers[i]) != 0) {
            return false;
        }
    }
    daemon->has_signals = true;
    return true;
}

/* --- listeners --- */

/* The next start of this node is to be above the life that others know of it. */
static void keep_life(struct daemon *daemon, uint64_t life)
{
    uint8_t memory[CLOCK_BYTES];
    struct hr_store_batch batch;
    uint64_t ticket = HR_CONTROL_TICKETS | ++daemon->control.ticket;
    hr_batch_init(&batch, memory, sizeof(memory));
    if (hr_life_put(life, &batch) != HR_OK ||
        hr_store_watch_commit(&daemon->watch, daemon->store, ticket, &batch) != HR_OK) {
        log_event(daemon, HR_LOG_ERROR, "store_failing",
                  HR_LOG_FIELDS(hr_log_text("what", hr_span_of("the record of its life is not stored"))));
    }
}

static void turn(void *user, struct hr_now now)
{
    struct daemon *daemon = ((struct hand *)user)->daemon;
    uint64_t life = 0;
    enum hr_cluster_word word = hr_cluster_log_turn(&daemon->cluster_log, daemon->core, &daemon->log, now, &life);
    if (word == HR_CLUSTER_OUTLIVED) {
        keep_life(daemon, life);
    }
    if (word != HR_CLUSTER_FINE) {
        daemon->is_displaced = daemon->control.is_draining = true;
        hr_worker_drain(daemon->control.workers[0]);
    }
    hr_control_turn(&daemon->control, now);
}

static struct hr_gossip_config gossip_config(const struct daemon *daemon)
{
    const struct hr_tls_config *tls = &daemon->config->tls;
    bool has_tls = tls->ca[0] != '\0';
    return (struct hr_gossip_config){
        .listen = daemon->draft.core.is_alone ? NULL : daemon->draft.listen,
        .ca = has_tls ? tls->ca : NULL,
        .certificate = has_tls ? tls->certificate : NULL,
        .key = has_tls ? tls->key : NULL,
    };
}

/* How many clients there may be at a time. A process has 1,024 descriptors, as a rule, unless it asks for more. Where
 * it may not have enough, the clients are fewer: else they could take the store's, and cut the node off from the
 * others. */
static uint32_t clients_max(const struct daemon *daemon)
{
    uint32_t clients = daemon->config->connections_max;
    rlim_t own =
        daemon->draft.core.is_alone ? DESCRIPTORS_ALONE + DESCRIPTORS_WORKER * daemon->hand_count : DESCRIPTORS_CLUSTER;
    rlim_t wanted = own + clients;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return clients;
    }
    rlim_t half = limit.rlim_cur / 2 + 1, fewer = limit.rlim_cur > half + own ? limit.rlim_cur - own : half;
    clients = fewer < clients ? (uint32_t)fewer : clients;
    log_event(daemon, HR_LOG_WARN, "few_descriptors",
              HR_LOG_FIELDS(hr_log_uint("descriptors", limit.rlim_cur), hr_log_uint("wanted", wanted),
                            hr_log_uint("connections", clients)));
    return clients;
}

/* The first serves the whole node's business as well; all others listen where it does. */
static bool open_worker(struct daemon *daemon, struct hand *hand, struct hr_problem *problem)
{
    bool is_first = hand->number == 0;
    struct hr_worker_config config = {
        .loop = &hand->loop,
        .core = hand->core,
        .clock = &daemon->clock,
        .store = daemon->store,
        .number = hand->number,
        .shares_port = daemon->hand_count > 1,
        .crew = daemon->crew,
        .listen = daemon->config->listen.rpc,
        .gossip = gossip_config(daemon),
        .connections_max = daemon->clients_max,
        .session = {.frame_bytes_max = HR_FRAME_BYTES_MAX, .in_flight_max = daemon->config->in_flight_max},
        .partial_bytes_max = daemon->config->partial_bytes_max / daemon->hand_count,
        .control = answer,
        .turn = is_first ? turn : NULL,
        .stopped = is_first ? worker_stopped : NULL,
        .user = hand,
    };
    struct hr_worker *worker = NULL;
    if (!is_first) {
        config.listen.port = hr_worker_port(daemon->control.workers[0]);
    }
    if (hr_worker_open(&config, &worker, problem) != HR_OK) {
        return false;
    }
    hand->worker = daemon->control.workers[hand->number] = worker;
    return true;
}

/* Those that were opened drain without those that were not. */
static bool open_workers(struct daemon *daemon, struct hr_problem *problem)
{
    bool is_open = true;
    daemon->clients_max = (clients_max(daemon) - 1) / daemon->hand_count + 1;
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        is_open = is_open && open_worker(daemon, &daemon->hands[i], problem);
        if (!is_open && daemon->crew != NULL) {
            hr_crew_reach(daemon->crew, HR_CREW_ANSWERED);
            hr_crew_reach(daemon->crew, HR_CREW_SILENT);
        }
    }
    return is_open;
}

static bool open_http(struct daemon *daemon, struct hr_problem *problem)
{
    const struct hr_address *listen = &daemon->config->listen.http;
    struct sockaddr_storage address;
    char text[HR_ADDRESS_TEXT_BYTES];
    if (listen->host[0] == '\0') {
        return true;
    }
    (void)hr_address_text(listen, text);
    hr_problem_where(problem, "listen.http %s", text);
    if (uv_ip4_addr(listen->host, listen->port, (struct sockaddr_in *)&address) != 0 &&
        uv_ip6_addr(listen->host, listen->port, (struct sockaddr_in6 *)&address) != 0) {
        hr_problem_what(problem, "expected a numeric address for http");
        return false;
    }
    const struct hr_http_server_options options = {.pages = {find_page, daemon},
                                                   .connections_max = HR_HTTP_CONNECTIONS_MAX,
                                                   .idle_ms = HR_HTTP_IDLE_MS,
                                                   .header_ms = HR_HTTP_HEADER_MS};
    if (hr_http_server_open(&daemon->hands[0].loop, (const struct sockaddr *)&address, &options,
                            &daemon->control.http) == HR_OK) {
        return true;
    }
    hr_problem_what(problem, "cannot listen: %s", strerror(errno));
    daemon->control.http = NULL;
    return false;
}

static void announce(struct daemon *daemon)
{
    struct hr_address rpc = daemon->config->listen.rpc, http = daemon->config->listen.http;
    char rpc_text[HR_ADDRESS_TEXT_BYTES], http_text[HR_ADDRESS_TEXT_BYTES] = "";
    rpc.port = hr_worker_port(daemon->control.workers[0]);
    (void)hr_address_text(&rpc, rpc_text);
    if (daemon->control.http != NULL) {
        http.port = hr_http_server_port(daemon->control.http);
        (void)hr_address_text(&http, http_text);
    }
    const char *doubt = hr_node_config_doubt(daemon->config);
    if (doubt != NULL) {
        log_event(daemon, HR_LOG_WARN, "config", HR_LOG_FIELDS(hr_log_text("doubt", hr_span_of(doubt))));
    }
    uint64_t restored = 0;
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        restored += hr_shard_counts(hr_core_shard(daemon->hands[i].core)).restored;
    }
    log_event(daemon, HR_LOG_INFO, "ready",
              HR_LOG_FIELDS(hr_log_text("node", hr_span_of(daemon->config->name)),
                            hr_log_text("rpc", hr_span_of(rpc_text)), hr_log_text("http", hr_span_of(http_text)),
                            hr_log_uint("limits", hr_catalog_set(daemon->control.catalog)->limit_count),
                            hr_log_uint("workers", daemon->hand_count), hr_log_uint("restored", restored)));
    if (daemon->is_dev) {
        (void)printf("headroomd: rpc %s, http http://%s, data %s\nstop it with Ctrl-C\n", rpc_text, http_text,
                     daemon->data);
        (void)fflush(stdout);
    }
}

/* --- from start to end --- */

static void run_hand(void *user)
{
    struct hand *hand = user;
    (void)uv_run(&hand->loop, UV_RUN_DEFAULT);
}

/* The first loop on this thread, the others on theirs, until all have ended. */
static void run_hands(struct daemon *daemon)
{
    for (uint32_t i = 1; i < daemon->hand_count; i++) {
        struct hand *hand = &daemon->hands[i];
        if (uv_thread_create(&hand->thread, run_hand, hand) != 0) {
            log_event(daemon, HR_LOG_ERROR, "no_thread", HR_LOG_FIELDS(hr_log_uint("worker", i)));
            _exit(1); /* nobody has been answered yet; the others would wait for this one for ever */
        }
    }
    run_hand(&daemon->hands[0]);
    for (uint32_t i = 1; i < daemon->hand_count; i++) {
        (void)uv_thread_join(&daemon->hands[i].thread); /* fails only for what is no thread */
    }
}

static bool serve(struct daemon *daemon, struct hr_problem *problem)
{
    struct hr_control *control = &daemon->control;
    control->started = control->reloaded = hr_clock_now(&daemon->clock);
    show_cluster(daemon);
    bool is_up = open_workers(daemon, problem) && open_http(daemon, problem);
    if (is_up && !listen_to_signals(daemon)) {
        hr_problem_what(problem, "cannot listen to signals");
        hr_problem_where(problem, "start");
        is_up = false;
    }
    if (is_up) {
        announce(daemon);
    } else if (control->workers[0] != NULL) {
        hr_worker_drain(control->workers[0]);
    }
    run_hands(daemon);
    if (daemon->is_displaced) {
        hr_problem_what(problem, "another node, or another life of this one, has its name: see the log");
        hr_problem_where(problem, "node %s", daemon->config->name);
    }
    return is_up && !daemon->is_displaced;
}

static void remove_own_data(const struct daemon *daemon)
{
    static const char *const files[] = {"store/data.mdb", "store/lock.mdb", "store/headroom.lock", "store", "secret"};
    char path[sizeof(daemon->data) + 32];
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", daemon->data, files[i]);
        (void)remove(path); /* what is not there need not be removed */
    }
    (void)rmdir(daemon->data);
}

static void free_hand(struct hand *hand, struct hr_worker *worker)
{
    if (worker != NULL) {
        hr_worker_free(worker);
    }
    if (hand->core_memory != NULL) {
        (void)munmap(hand->core_memory, hand->core_bytes);
    }
}

static void close_all(struct daemon *daemon)
{
    hr_store_close(daemon->store); /* answers all tickets first */
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        free_hand(&daemon->hands[i], daemon->hands[i].worker);
    }
    hr_crew_free(daemon->crew);
    hr_catalog_free(daemon->control.catalog);
    free(daemon->control.page);
    if (daemon->owns_data) {
        remove_own_data(daemon);
    }
}

static bool make_loops(struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->hand_count; i++) {
        struct hand *hand = &daemon->hands[i];
        hand->daemon = daemon;
        hand->number = (uint16_t)i;
        hand->has_loop = uv_loop_init(&hand->loop) == 0;
        if (!hand->has_loop) {
            return false;
        }
    }
    return true;
}

/* False: handles were left open. */
static bool close_loops(struct daemon *daemon)
{
    bool are_closed = true;
    for (uint32_t i = 0; i < daemon->hand_count && daemon->hands[i].has_loop; i++) {
        are_closed &= uv_loop_close(&daemon->hands[i].loop) == 0;
    }
    return are_closed;
}

static struct daemon *new_daemon(const struct hr_daemon_options *options)
{
    struct daemon *daemon = calloc(1, sizeof(*daemon));
    if (daemon == NULL) {
        return NULL;
    }
    daemon->config = options->config;
    daemon->is_dev = options->is_dev;
    daemon->hand_count = hr_core_worker_count(options->config);
    daemon->log_fd.fd = STDERR_FILENO;
    daemon->log =
        (struct hr_log){options->config->log_format, options->config->log_level_min, hr_log_fd_sink, &daemon->log_fd};
    daemon->control.config = options->config;
    daemon->control.log = &daemon->log;
    daemon->control.clock = &daemon->clock;
    daemon->control.watch = &daemon->watch;
    daemon->control.worker_count = daemon->hand_count;
    hr_clock_start(&daemon->clock);
    if (!make_loops(daemon)) {
        (void)close_loops(daemon); /* they hold nothing */
        free(daemon);
        return NULL;
    }
    return daemon;
}

bool hr_daemon_run(const struct hr_daemon_options *options, struct hr_problem *ret_problem)
{
    struct daemon *daemon = new_daemon(options);
    if (daemon == NULL) {
        hr_problem_what(ret_problem, "not enough memory");
        hr_problem_where(ret_problem, "start");
        return false;
    }
    bool is_done = uv_mutex_init(&daemon->watch.mutex) == 0 && make_data_folder(daemon, ret_problem) &&
                   prepare(daemon, ret_problem);
    daemon->control.store = daemon->store;
    is_done = is_done && serve(daemon, ret_problem);
    close_all(daemon);
    if (is_done && daemon->watch.last != HR_OK) {
        log_event(daemon, HR_LOG_ERROR, "not_saved",
                  HR_LOG_FIELDS(hr_log_text("why", hr_span_of(hr_err_text(daemon->watch.last)))));
    }
    uv_mutex_destroy(&daemon->watch.mutex);
    if (!close_loops(daemon)) {
        log_event(daemon, HR_LOG_ERROR, "handles_left_open", 0, NULL);
    } else if (is_done) {
        log_event(daemon, HR_LOG_INFO, "stopped", 0, NULL);
    }
    free(daemon);
    return is_done;
}
