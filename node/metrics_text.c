#include "node/metrics_text.h"

#include <string.h>

#include "base/units.h"

#define DIGITS_MAX 20 /* of 2^64 - 1 */

/* Writes what fits and counts all. */
struct writer {
    char *at;
    size_t room, wanted;
};

static void put(struct writer *writer, const char *bytes, size_t count)
{
    if (writer->wanted <= writer->room && count <= writer->room - writer->wanted && count > 0) {
        memcpy(writer->at + writer->wanted, bytes, count);
    }
    writer->wanted += count;
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

/* In decimal, with leading zeros up to digits_min. */
static void put_number(struct writer *writer, uint64_t number, unsigned digits_min)
{
    char digits[DIGITS_MAX];
    unsigned at = DIGITS_MAX;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0 || DIGITS_MAX - at < digits_min);
    put(writer, digits + at, DIGITS_MAX - at);
}

/* Nanoseconds as seconds, without trailing zeros: 1500000000 is 1.5. */
static void put_seconds(struct writer *writer, uint64_t ns)
{
    uint64_t second = (uint64_t)HR_NS_PER_S, fraction = ns % second;
    unsigned digits = 9;
    put_number(writer, ns / second, 1);
    if (fraction == 0) {
        return;
    }
    for (; fraction % 10 == 0; fraction /= 10) {
        digits--;
    }
    put_text(writer, ".");
    put_number(writer, fraction, digits);
}

static void put_escaped(struct writer *writer, struct hr_span value)
{
    for (size_t i = 0; i < value.bytes; i++) {
        switch (value.at[i]) {
        case '\\':
            put_text(writer, "\\\\");
            break;
        case '"':
            put_text(writer, "\\\"");
            break;
        case '\n':
            put_text(writer, "\\n");
            break;
        default:
            put(writer, &value.at[i], 1);
        }
    }
}

static void put_family(struct writer *writer, const char *name, const char *type, const char *help)
{
    put_text(writer, "# HELP ");
    put_text(writer, name);
    put_text(writer, " ");
    put_text(writer, help);
    put_text(writer, "\n# TYPE ");
    put_text(writer, name);
    put_text(writer, " ");
    put_text(writer, type);
    put_text(writer, "\n");
}

/* Up to the value: NAME{label="value" */
static void put_label(struct writer *writer, const char *name, const char *label, struct hr_span value)
{
    put_text(writer, name);
    put_text(writer, "{");
    put_text(writer, label);
    put_text(writer, "=\"");
    put_escaped(writer, value);
    put_text(writer, "\"");
}

static void put_value(struct writer *writer, const char *before, uint64_t value)
{
    put_text(writer, before);
    put_number(writer, value, 1);
    put_text(writer, "\n");
}

static void put_labelled(struct writer *writer, const char *name, const char *label, struct hr_span label_value,
                         uint64_t value)
{
    put_label(writer, name, label, label_value);
    put_value(writer, "} ", value);
}

static void put_single(struct writer *writer, const char *name, const char *type, const char *help, uint64_t value)
{
    put_family(writer, name, type, help);
    put_text(writer, name);
    put_value(writer, " ", value);
}

static void put_single_seconds(struct writer *writer, const char *name, const char *help, uint64_t ns)
{
    put_family(writer, name, "gauge", help);
    put_text(writer, name);
    put_text(writer, " ");
    put_seconds(writer, ns);
    put_text(writer, "\n");
}

/* The type is what the name says: a counter's ends in _total. */
static void put_tallies(struct writer *writer, const char *name, const char *help, const char *label,
                        const struct hr_metrics_tallies *tallies)
{
    put_family(writer, name, strstr(name, "_total") != NULL ? "counter" : "gauge", help);
    for (uint32_t i = 0; i < tallies->count; i++) {
        put_labelled(writer, name, label, tallies->at[i].name, tallies->at[i].count);
    }
}

static void put_buckets(struct writer *writer, const char *name, const struct hr_histogram *histogram)
{
    uint64_t up_to = 0;
    for (unsigned i = 0; i < HR_HISTOGRAM_BOUNDS; i++) {
        up_to += histogram->between[i];
        put_text(writer, name);
        put_text(writer, "_bucket{le=\"");
        put_seconds(writer, hr_histogram_bounds_ns[i]);
        put_value(writer, "\"} ", up_to);
    }
    put_text(writer, name);
    put_value(writer, "_bucket{le=\"+Inf\"} ", histogram->count);
}

static void put_histogram(struct writer *writer, const char *name, const char *help,
                          const struct hr_histogram *histogram)
{
    put_family(writer, name, "histogram", help);
    put_buckets(writer, name, histogram);
    put_text(writer, name);
    put_text(writer, "_sum ");
    put_seconds(writer, histogram->sum_ns);
    put_text(writer, "\n");
    put_text(writer, name);
    put_value(writer, "_count ", histogram->count);
}

static void put_build(struct writer *writer, const struct hr_metrics_source *source)
{
    put_family(writer, "headroom_build_info", "gauge", "Always 1; the label tells the version that runs.");
    put_labelled(writer, "headroom_build_info", "version", source->version, 1);
    put_single_seconds(writer, "headroom_start_timestamp_seconds", "Unix time at which the node started.",
                       source->started_at_unix_ns);
}

static void put_limit(struct writer *writer, const char *name, const struct hr_metrics_limit *limit)
{
    put_label(writer, name, "limit", limit->name);
    put_value(writer, ",result=\"allowed\"} ", limit->allowed);
    put_label(writer, name, "limit", limit->name);
    put_value(writer, ",result=\"denied\"} ", limit->denied);
    put_label(writer, name, "limit", limit->name);
    put_value(writer, ",result=\"shadow_denied\"} ", limit->shadow_denied);
}

static void put_decisions(struct writer *writer, const struct hr_metrics_source *source)
{
    put_family(writer, "headroom_decisions_total", "counter",
               "Requests that touched a limit, by what it alone would answer; shadow_denied never changed an answer.");
    for (uint32_t i = 0; i < source->limit_count; i++) {
        put_limit(writer, "headroom_decisions_total", &source->limits[i]);
    }
    put_single(writer, "headroom_degraded_decisions_total", "counter",
               "Decisions made by on_unavailable, because a counter's owner could not be asked.", source->degraded);
    put_histogram(writer, "headroom_decision_duration_seconds",
                  "How long requests took from their arrival to their answer.", source->decisions);
}

static void put_requests(struct writer *writer, const struct hr_metrics_source *source)
{
    put_tallies(writer, "headroom_requests_total", "RPC requests, by method.", "method", &source->methods);
    put_tallies(writer, "headroom_errors_total", "RPC requests answered by an error, by its code.", "code",
                &source->errors);
}

static void put_memory(struct writer *writer, const struct hr_metrics_source *source)
{
    static const char gauge[] = "gauge";
    put_single(writer, "headroom_counters", gauge, "Counters held in memory.", source->counters.used);
    put_single(writer, "headroom_counters_max", gauge, "Room for counters.", source->counters.max);
    put_single(writer, "headroom_leases", gauge, "Leases of concurrency limits that are held.", source->leases.used);
    put_single(writer, "headroom_leases_max", gauge, "Room for leases.", source->leases.max);
    put_single(writer, "headroom_log_blocks", gauge, "Blocks that sliding logs use.", source->log_blocks.used);
    put_single(writer, "headroom_log_blocks_max", gauge, "Room for blocks of sliding logs.", source->log_blocks.max);
    put_single(writer, "headroom_replies_bytes", gauge, "Answers kept for retries with the same id.",
               source->replies.used);
    put_single(writer, "headroom_replies_max_bytes", gauge, "Room for answers kept.", source->replies.max);
}

static void put_store(struct writer *writer, const struct hr_metrics_store *store)
{
    put_single_seconds(writer, "headroom_store_lag_seconds", "Age of the oldest change that is not committed to disk.",
                       store->lag_ns);
    put_histogram(writer, "headroom_store_commit_duration_seconds", "How long commits to disk took.", store->commits);
    put_single(writer, "headroom_store_failures_total", "counter", "Commits to disk that failed.", store->failures);
    put_single(writer, "headroom_store_damaged_records", "gauge", "Records that were found damaged at start.",
               store->damaged_records);
    put_single(writer, "headroom_store_damaged_bytes", "gauge", "Bytes of these.", store->damaged_bytes);
    put_single(writer, "headroom_store_map_bytes", "gauge", "Bytes of the store in use.", store->map_bytes);
    put_single(writer, "headroom_store_map_max_bytes", "gauge", "Bytes that the store may use.", store->map_bytes_max);
}

static void put_reload(struct writer *writer, const struct hr_metrics_reload *reload)
{
    put_single(writer, "headroom_limits_last_reload_successful", "gauge",
               "1 if the last load of the limits succeeded, 0 if it was refused.", reload->is_ok);
    put_single_seconds(writer, "headroom_limits_last_reload_success_timestamp_seconds",
                       "Unix time of the last load of the limits that succeeded.", reload->ok_at_unix_ns);
    put_single(writer, "headroom_limits_loaded", "gauge", "Limits in force.", reload->limits_loaded);
}

static void put_listeners(struct writer *writer, const struct hr_metrics_listener *listeners, uint32_t count)
{
    put_family(writer, "headroom_connections", "gauge", "Open connections, by listener.");
    for (uint32_t i = 0; i < count; i++) {
        put_labelled(writer, "headroom_connections", "listener", listeners[i].name, listeners[i].open);
    }
    put_family(writer, "headroom_connections_accepted_total", "counter", "Connections accepted, by listener.");
    for (uint32_t i = 0; i < count; i++) {
        put_labelled(writer, "headroom_connections_accepted_total", "listener", listeners[i].name,
                     listeners[i].accepted);
    }
    put_family(writer, "headroom_connections_refused_total", "counter",
               "Connections closed at once for lack of room, by listener.");
    for (uint32_t i = 0; i < count; i++) {
        put_labelled(writer, "headroom_connections_refused_total", "listener", listeners[i].name, listeners[i].refused);
    }
}

static void put_members(struct writer *writer, const struct hr_metrics_source *source)
{
    put_tallies(writer, "headroom_members", "Nodes of the cluster, of all regions, by their state.", "state",
                &source->members);
    put_single(writer, "headroom_members_view", "gauge", "Rises with each change of the members.", source->view);
}

static void put_cap(struct writer *writer, const struct hr_metrics_source *source, const char *name, const char *help,
                    uint64_t (*number)(const struct hr_metrics_limit *limit))
{
    put_family(writer, name, strstr(name, "_total") != NULL ? "counter" : "gauge", help);
    for (uint32_t i = 0; i < source->limit_count; i++) {
        if (source->limits[i].cap.is_global) {
            put_labelled(writer, name, "limit", source->limits[i].name, number(&source->limits[i]));
        }
    }
}

static uint64_t admitted_of(const struct hr_metrics_limit *limit)
{
    return limit->allowed;
}

static uint64_t share_of(const struct hr_metrics_limit *limit)
{
    return limit->cap.share;
}

static uint64_t reserve_of(const struct hr_metrics_limit *limit)
{
    return limit->cap.reserve;
}

static uint64_t lent_of(const struct hr_metrics_limit *limit)
{
    return limit->cap.lent;
}

static uint64_t borrowed_of(const struct hr_metrics_limit *limit)
{
    return limit->cap.borrowed;
}

/* There are other regions, heard or not: a limit says so before any of them does. */
static bool has_caps(const struct hr_metrics_source *source)
{
    bool has_caps = source->region_count > 0;
    for (uint32_t i = 0; i < source->limit_count; i++) {
        has_caps |= source->limits[i].cap.is_global;
    }
    return has_caps;
}

static void put_caps(struct writer *writer, const struct hr_metrics_source *source)
{
    put_cap(writer, source, "headroom_global_admitted_total", "Requests that a global limit admitted on this node.",
            admitted_of);
    put_cap(writer, source, "headroom_global_share",
            "What this node may spend of a global limit now, over its hot counters: tokens for each period, or units.",
            share_of);
    put_cap(writer, source, "headroom_global_reserve", "What the region may always spend of one counter of it.",
            reserve_of);
    put_cap(writer, source, "headroom_global_lent", "What other regions may be using of it.", lent_of);
    put_cap(writer, source, "headroom_global_borrowed", "What this node uses of other regions' parts.", borrowed_of);
    put_family(writer, "headroom_region_word_age_seconds", "gauge",
               "Time since another region was last heard about global limits.");
    for (uint32_t i = 0; i < source->region_count; i++) {
        put_label(writer, "headroom_region_word_age_seconds", "region", source->regions[i].name);
        put_text(writer, "} ");
        put_seconds(writer, source->regions[i].word_age_ns);
        put_text(writer, "\n");
    }
}

size_t hr_metrics_write(const struct hr_metrics_source *source, size_t room, char *ret_text)
{
    struct writer writer = {ret_text, room, 0};
    put_build(&writer, source);
    put_decisions(&writer, source);
    put_requests(&writer, source);
    put_memory(&writer, source);
    put_store(&writer, &source->store);
    put_reload(&writer, &source->reload);
    put_listeners(&writer, source->listeners, source->listener_count);
    put_members(&writer, source);
    if (has_caps(source)) {
        put_caps(&writer, source);
    }
    return writer.wanted;
}
