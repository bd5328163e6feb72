#include "node/config_yaml.h"

#include <string.h>

#include "limiter/limit.h"
#include "node/amount_text.h"

#define COUNT_OF(array) (uint32_t)(sizeof(array) / sizeof((array)[0]))

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define RPC_PORT_DEFAULT 7400

struct reader {
    const struct hr_doc *doc;
    const char *path;
    struct hr_problem *problem;
    struct hr_node_config *config;
    hr_doc_node workers, join, gossip, tls; /* node.workers, cluster.join, listen.gossip, cluster.tls; 0: not given */
};

enum section {
    SECTION_NODE,
    SECTION_LISTEN,
    SECTION_ADVERTISE,
    SECTION_CLUSTER,
    SECTION_REGIONS,
    SECTION_LIMITS,
    SECTION_MEMORY,
    SECTION_STORAGE,
    SECTION_RPC,
    SECTION_LOG,
    SECTION_CHAOS,
    SECTION_COUNT,
};

static const char *const section_names[SECTION_COUNT] = {
    "node", "listen", "advertise", "cluster", "regions", "limits", "memory", "storage", "rpc", "log", "chaos",
};

/* Values. */

/* what: which value it is. form: how it is written. */
static bool fault_of_form(struct reader *r, hr_doc_node node, const char *what, const char *form)
{
    struct hr_span text = hr_doc_text(r->doc, node);
    return hr_doc_fault(r->doc, node, r->problem, "%s must be %s, not \"%.*s\"", what, form, hr_doc_shown(text),
                        text.at);
}

static bool need(struct reader *r, hr_doc_node map, hr_doc_node value, const char *map_name, const char *key)
{
    return value != 0 || hr_doc_fault(r->doc, map, r->problem, "%s needs \"%s\"", map_name, key);
}

static bool read_name(struct reader *r, hr_doc_node node, const char *what, char ret_name[HR_CONFIG_NAME_BYTES_MAX + 1])
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    if (!hr_limit_name_is_valid(text)) { /* the same alphabet and length */
        return fault_of_form(r, node, what, "1 to 64 of a-z, 0-9 and \"-\"");
    }
    memcpy(ret_name, text.at, text.bytes);
    ret_name[text.bytes] = '\0';
    return true;
}

/* A relative path begins at the folder of the node file. */
static bool read_path(struct reader *r, hr_doc_node node, const char *what, char ret_path[HR_CONFIG_PATH_BYTES_MAX + 1])
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    if (text.bytes == 0 || memchr(text.at, '\0', text.bytes) != NULL) {
        return fault_of_form(r, node, what, "a path");
    }
    const char *slash = strrchr(r->path, '/');
    size_t folder_bytes = slash == NULL || text.at[0] == '/' ? 0 : (size_t)(slash - r->path) + 1;
    if (folder_bytes + text.bytes > HR_CONFIG_PATH_BYTES_MAX) {
        return hr_doc_fault(r->doc, node, r->problem, "%s is longer than a path can be: %zu bytes", what,
                            folder_bytes + text.bytes);
    }
    memcpy(ret_path, r->path, folder_bytes);
    memcpy(ret_path + folder_bytes, text.at, text.bytes);
    ret_path[folder_bytes + text.bytes] = '\0';
    return true;
}

/* How one kind of address is written. */
struct address_form {
    enum hr_err (*parse)(struct hr_span text, struct hr_address *ret_address);
    const char *form;
};

static const struct address_form plain_form = {hr_address_parse, "HOST:PORT, as 127.0.0.1:7400 or [::1]:7400"};
static const struct address_form url_form = {hr_address_parse_url,
                                             "tcp://HOST:PORT, as tcp://10.0.0.1:7401 or tcp://[::1]:7401"};

static bool read_address(struct reader *r, hr_doc_node node, const char *what, const struct address_form *form,
                         struct hr_address *ret_address)
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, what, &text, r->problem)) {
        return false;
    }
    enum hr_err err = form->parse(text, ret_address);
    if (err == HR_E_RANGE) {
        return fault_of_form(r, node, what, "an address with a port from 0 to 65535");
    }
    return err == HR_OK || fault_of_form(r, node, what, form->form);
}

/* An address that others connect to. */
static bool read_reachable(struct reader *r, hr_doc_node node, const char *what, const struct address_form *form,
                           struct hr_address *ret_address)
{
    return read_address(r, node, what, form, ret_address) &&
           (ret_address->port != 0 || fault_of_form(r, node, what, "an address with a port from 1 to 65535"));
}

struct bounds {
    const char *what;
    uint64_t min, max;
};

/* An amount; where none is given, *amount stays as it is. */
static bool read_amount(struct reader *r, hr_doc_node node, const struct bounds *bounds, uint64_t *amount)
{
    struct hr_span text;
    uint64_t number = 0; /* stays, where it is out of even the widest range */
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, bounds->what, &text, r->problem)) {
        return false;
    }
    if (hr_amount_parse(text, &number) == HR_E_INVALID) {
        return fault_of_form(r, node, bounds->what, "a whole number, as 100, 10k or 2MiB");
    }
    if (number < bounds->min || number > bounds->max) {
        return hr_doc_fault(r->doc, node, r->problem, "%s must be from %llu to %llu, not \"%.*s\"", bounds->what,
                            (unsigned long long)bounds->min, (unsigned long long)bounds->max, hr_doc_shown(text),
                            text.at);
    }
    *amount = number;
    return true;
}

struct duration_bounds {
    const char *what;
    uint64_t max_s;
    const char *range; /* the bounds in words */
};

/* A duration from 1 ms on; where none is given, *duration_ns stays as it is. */
static bool read_duration(struct reader *r, hr_doc_node node, const struct duration_bounds *bounds,
                          uint64_t *duration_ns)
{
    struct hr_span text;
    uint64_t ns = 0;
    if (node == 0) {
        return true;
    }
    if (!hr_doc_scalar(r->doc, node, bounds->what, &text, r->problem)) {
        return false;
    }
    enum hr_err err = hr_period_parse(text, &ns);
    if (err == HR_E_INVALID) {
        return fault_of_form(r, node, bounds->what, "a duration, as 100ms or 1s");
    }
    if (err != HR_OK || ns > bounds->max_s * (uint64_t)HR_NS_PER_S) {
        return fault_of_form(r, node, bounds->what, bounds->range);
    }
    *duration_ns = ns;
    return true;
}

/* A section of amounts alone: one for each key, in the order of the keys. */
static bool read_amounts(struct reader *r, hr_doc_node section, const struct hr_doc_keys *keys,
                         const struct bounds *bounds, uint64_t *amounts)
{
    hr_doc_node values[8];
    if (!hr_doc_fields(r->doc, section, keys, values, r->problem)) {
        return false;
    }
    for (uint32_t i = 0; i < keys->count; i++) {
        if (!read_amount(r, values[i], &bounds[i], &amounts[i])) {
            return false;
        }
    }
    return true;
}

/* Sections, in the order in which they are read: each may look at those above it. */

static bool read_workers(struct reader *r, hr_doc_node node)
{
    static const struct bounds bounds = {"node.workers", 1, HR_WORKERS_MAX};
    struct hr_span text;
    uint64_t workers = 0;
    if (!hr_doc_scalar(r->doc, node, bounds.what, &text, r->problem)) {
        return false;
    }
    if (hr_span_equal(text, HR_SPAN("auto"))) {
        r->config->workers = 0;
        return true;
    }
    if (hr_amount_parse(text, &workers) == HR_E_INVALID) {
        return fault_of_form(r, node, bounds.what, "auto or a whole number");
    }
    if (!read_amount(r, node, &bounds, &workers)) {
        return false;
    }
    r->config->workers = (uint32_t)workers;
    r->workers = node;
    return true;
}

static bool read_host(struct reader *r, hr_doc_node node)
{
    struct hr_span text;
    if (!hr_doc_scalar(r->doc, node, "node.host", &text, r->problem)) {
        return false;
    }
    if (!hr_attribute_name_is_valid(text)) { /* the same alphabet and length */
        return fault_of_form(r, node, "node.host", "1 to 64 of a-z, 0-9, \"_\", \".\" and \"-\"");
    }
    memcpy(r->config->host, text.at, text.bytes);
    r->config->host[text.bytes] = '\0';
    return true;
}

static bool read_node_weight(struct reader *r, hr_doc_node node)
{
    static const struct bounds bounds = {"node.weight", 1, HR_WEIGHT_MAX};
    uint64_t weight = r->config->weight;
    if (!read_amount(r, node, &bounds, &weight)) {
        return false;
    }
    r->config->weight = (uint32_t)weight;
    return true;
}

static bool read_node(struct reader *r, hr_doc_node section)
{
    enum { NAME, REGION, DATA, WORKERS, HOST, WEIGHT, COUNT };
    static const char *const names[COUNT] = {"name", "region", "data", "workers", "host", "weight"};
    static const struct hr_doc_keys keys = {"node", COUNT, names};
    hr_doc_node values[COUNT];
    struct hr_node_config *config = r->config;
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem) ||
        !need(r, section, values[NAME], "node", names[NAME]) ||
        !need(r, section, values[REGION], "node", names[REGION]) ||
        !need(r, section, values[DATA], "node", names[DATA])) {
        return false;
    }
    return read_name(r, values[NAME], "node.name", config->name) &&
           read_name(r, values[REGION], "node.region", config->region) &&
           read_path(r, values[DATA], "node.data", config->data) &&
           (values[WORKERS] == 0 || read_workers(r, values[WORKERS])) &&
           (values[HOST] == 0 || read_host(r, values[HOST])) && read_node_weight(r, values[WEIGHT]);
}

static bool read_listen(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"rpc", "gossip", "http"};
    static const struct hr_doc_keys keys = {"listen", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    struct hr_endpoints *listen = &r->config->listen;
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem)) {
        return false;
    }
    r->gossip = values[1];
    return (values[0] == 0 || read_address(r, values[0], "listen.rpc", &plain_form, &listen->rpc)) &&
           (values[1] == 0 || read_address(r, values[1], "listen.gossip", &url_form, &listen->gossip)) &&
           (values[2] == 0 || read_address(r, values[2], "listen.http", &plain_form, &listen->http));
}

static bool read_advertise(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"rpc", "gossip"};
    static const struct hr_doc_keys keys = {"advertise", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    struct hr_endpoints *advertise = &r->config->advertise;
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem)) {
        return false;
    }
    if (values[1] != 0 && r->config->listen.gossip.host[0] == '\0') {
        return hr_doc_fault(r->doc, values[1], r->problem, "advertise.gossip needs listen.gossip");
    }
    return (values[0] == 0 || read_reachable(r, values[0], "advertise.rpc", &plain_form, &advertise->rpc)) &&
           (values[1] == 0 || read_reachable(r, values[1], "advertise.gossip", &url_form, &advertise->gossip));
}

static bool read_joins(struct reader *r, hr_doc_node list)
{
    struct hr_node_config *config = r->config;
    if (!hr_doc_expect(r->doc, list, HR_DOC_LIST, "cluster.join", r->problem)) {
        return false;
    }
    if (hr_doc_count(r->doc, list) > HR_JOINS_MAX) {
        return hr_doc_fault(r->doc, list, r->problem, "cluster.join has at most %d addresses, not %u", HR_JOINS_MAX,
                            hr_doc_count(r->doc, list));
    }
    for (hr_doc_node item = hr_doc_first(r->doc, list); item != 0; item = hr_doc_next(r->doc, item)) {
        if (!read_reachable(r, item, "an address of cluster.join", &url_form, &config->joins[config->join_count++])) {
            return false;
        }
    }
    return true;
}

/* Mutual: a node shows its own certificate and asks for those of the others. */
static bool read_tls(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"ca", "certificate", "key"};
    static const struct hr_doc_keys keys = {"cluster.tls", COUNT_OF(names), names};
    hr_doc_node values[COUNT_OF(names)];
    struct hr_tls_config *tls = &r->config->tls;
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem)) {
        return false;
    }
    for (uint32_t i = 0; i < COUNT_OF(names); i++) {
        if (!need(r, section, values[i], "cluster.tls", names[i])) {
            return false;
        }
    }
    return read_path(r, values[0], "cluster.tls.ca", tls->ca) &&
           read_path(r, values[1], "cluster.tls.certificate", tls->certificate) &&
           read_path(r, values[2], "cluster.tls.key", tls->key);
}

static bool read_cluster(struct reader *r, hr_doc_node section)
{
    enum { NAME, JOIN, SECRET_FILE, TLS, CALL_DEADLINE, COUNT };
    static const char *const names[COUNT] = {"name", "join", "secret_file", "tls", "call_deadline"};
    static const struct duration_bounds deadline = {"cluster.call_deadline", 10, "from 1ms to 10s"};
    static const struct hr_doc_keys keys = {"cluster", COUNT, names};
    hr_doc_node values[COUNT];
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem)) {
        return false;
    }
    r->join = values[JOIN];
    r->tls = values[TLS];
    return (values[NAME] == 0 || read_name(r, values[NAME], "cluster.name", r->config->cluster)) &&
           (values[JOIN] == 0 || read_joins(r, values[JOIN])) &&
           (values[SECRET_FILE] == 0 ||
            read_path(r, values[SECRET_FILE], "cluster.secret_file", r->config->secret_file)) &&
           (values[TLS] == 0 || read_tls(r, values[TLS])) &&
           read_duration(r, values[CALL_DEADLINE], &deadline, &r->config->call_deadline_ns);
}

/* {weight: 2}; a region without is worth 1. */
static bool read_weight(struct reader *r, hr_doc_node region, uint32_t *ret_weight)
{
    static const char *const names[] = {"weight"};
    static const struct hr_doc_keys keys = {"a region", COUNT_OF(names), names};
    static const struct bounds bounds = {"weight", 0, HR_WEIGHT_MAX};
    uint64_t weight = 1;
    if (!read_amounts(r, region, &keys, &bounds, &weight)) {
        return false;
    }
    *ret_weight = (uint32_t)weight;
    return true;
}

static const struct hr_region_config *find_region(const struct hr_node_config *config, const char *name)
{
    for (uint32_t i = 0; i < config->region_count; i++) {
        if (strcmp(config->regions[i].name, name) == 0) {
            return &config->regions[i];
        }
    }
    return NULL;
}

static bool read_region(struct reader *r, hr_doc_node key)
{
    struct hr_node_config *config = r->config;
    struct hr_region_config *region = &config->regions[config->region_count];
    if (!read_name(r, key, "a region's name", region->name)) {
        return false;
    }
    if (find_region(config, region->name) != NULL) {
        return hr_doc_fault(r->doc, key, r->problem, "the region \"%s\" is given twice", region->name);
    }
    config->region_count++;
    return read_weight(r, hr_doc_value(r->doc, key), &region->weight);
}

/* A region that is about to come, or that has gone, weighs nothing; not all of them. */
static bool has_weight(const struct hr_node_config *config)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < config->region_count; i++) {
        sum += config->regions[i].weight;
    }
    return sum > 0;
}

static bool read_regions(struct reader *r, hr_doc_node section)
{
    if (!hr_doc_expect(r->doc, section, HR_DOC_MAP, "regions", r->problem)) {
        return false;
    }
    uint32_t count = hr_doc_count(r->doc, section);
    if (count < 1 || count > HR_REGIONS_MAX) {
        return hr_doc_fault(r->doc, section, r->problem, "regions must have 1 to %u entries, not %u", HR_REGIONS_MAX,
                            count);
    }
    for (hr_doc_node key = hr_doc_first(r->doc, section); key != 0; key = hr_doc_next(r->doc, key)) {
        if (!read_region(r, key)) {
            return false;
        }
    }
    if (!has_weight(r->config)) {
        return hr_doc_fault(r->doc, section, r->problem, "regions must have one whose weight is above 0");
    }
    return find_region(r->config, r->config->region) != NULL ||
           hr_doc_fault(r->doc, section, r->problem, "regions must have this node's own region, \"%s\"",
                        r->config->region);
}

static bool read_limits(struct reader *r, hr_doc_node section)
{
    return read_path(r, section, "limits", r->config->limits);
}

static bool read_memory(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"counters", "leases", "log_blocks", "reserved"};
    static const struct hr_doc_keys keys = {"memory", COUNT_OF(names), names};
    static const struct bounds bounds[] = {
        {"memory.counters", 1000, 1000000000},
        {"memory.leases", 1000, 1000000000},
        {"memory.log_blocks", 1000, 1000000000},
        {"memory.reserved", 1000, 1000000000},
    };
    struct hr_node_config *config = r->config;
    uint64_t amounts[] = {config->counters_max, config->leases_max, config->log_blocks_max, config->reserves_max};
    if (!read_amounts(r, section, &keys, bounds, amounts)) {
        return false;
    }
    config->counters_max = (uint32_t)amounts[0];
    config->leases_max = (uint32_t)amounts[1];
    config->log_blocks_max = (uint32_t)amounts[2];
    config->reserves_max = (uint32_t)amounts[3];
    return true;
}

static bool read_storage(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"flush_interval", "map_max"};
    static const struct hr_doc_keys keys = {"storage", COUNT_OF(names), names};
    static const struct bounds bounds = {"storage.map_max", 16 * MIB, 16384 * GIB};
    static const struct duration_bounds flush = {"storage.flush_interval", 60, "from 1ms to 60s"};
    hr_doc_node values[COUNT_OF(names)];
    return hr_doc_fields(r->doc, section, &keys, values, r->problem) &&
           read_duration(r, values[0], &flush, &r->config->flush_interval_ns) &&
           read_amount(r, values[1], &bounds, &r->config->map_bytes_max);
}

static bool read_rpc(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"connections", "in_flight", "partial_max"};
    static const struct hr_doc_keys keys = {"rpc", COUNT_OF(names), names};
    static const struct bounds bounds[] = {
        {"rpc.connections", 1, 1000000}, {"rpc.in_flight", 1, 65536}, {"rpc.partial_max", 4 * MIB, 1024 * GIB}};
    uint64_t amounts[] = {r->config->connections_max, r->config->in_flight_max, r->config->partial_bytes_max};
    if (!read_amounts(r, section, &keys, bounds, amounts)) {
        return false;
    }
    r->config->connections_max = (uint32_t)amounts[0];
    r->config->in_flight_max = (uint32_t)amounts[1];
    r->config->partial_bytes_max = amounts[2];
    return true;
}

static bool read_log(struct reader *r, hr_doc_node section)
{
    static const char *const names[] = {"format", "level"};
    static const struct hr_doc_keys keys = {"log", COUNT_OF(names), names};
    static const char *const formats[] = {[HR_LOG_LOGFMT] = "logfmt", [HR_LOG_JSON] = "json"};
    static const char *const levels[] = {
        [HR_LOG_DEBUG] = "debug", [HR_LOG_INFO] = "info", [HR_LOG_WARN] = "warn", [HR_LOG_ERROR] = "error"};
    static const struct hr_doc_keys format_words = {"log.format", COUNT_OF(formats), formats};
    static const struct hr_doc_keys level_words = {"log.level", COUNT_OF(levels), levels};
    hr_doc_node values[COUNT_OF(names)];
    uint32_t format = r->config->log_format, level = r->config->log_level_min;
    if (!hr_doc_fields(r->doc, section, &keys, values, r->problem) ||
        (values[0] != 0 && !hr_doc_choice(r->doc, values[0], &format_words, &format, r->problem)) ||
        (values[1] != 0 && !hr_doc_choice(r->doc, values[1], &level_words, &level, r->problem))) {
        return false;
    }
    r->config->log_format = (enum hr_log_format)format;
    r->config->log_level_min = (enum hr_log_level)level;
    return true;
}

static bool read_chaos(struct reader *r, hr_doc_node section)
{
    return hr_doc_bool(r->doc, section, "chaos", &r->config->chaos, r->problem);
}

/* The whole. */

static void fill_defaults(struct hr_node_config *config)
{
    *config = (struct hr_node_config){
        .listen = {.rpc = {.host = "127.0.0.1", .port = RPC_PORT_DEFAULT}},
        .workers = 1,
        .weight = 1,
        .cluster = "headroom",
        .call_deadline_ns = 20 * (uint64_t)HR_NS_PER_MS,
        .counters_max = 1000000,
        .leases_max = 64000,
        .log_blocks_max = 64000,
        .reserves_max = 64000,
        .flush_interval_ns = 100 * (uint64_t)HR_NS_PER_MS,
        .map_bytes_max = 64 * GIB,
        .connections_max = 16384,
        .in_flight_max = 4096,
        .partial_bytes_max = 256 * MIB,
        .log_format = HR_LOG_LOGFMT,
        .log_level_min = HR_LOG_INFO,
    };
}

/* What follows from other values, where nothing was given. */
static void fill_derived(struct hr_node_config *config)
{
    if (config->advertise.rpc.host[0] == '\0') {
        config->advertise.rpc = config->listen.rpc;
    }
    if (config->advertise.gossip.host[0] == '\0') {
        config->advertise.gossip = config->listen.gossip;
    }
    if (config->region_count == 0) {
        config->region_count = 1;
        config->regions[0].weight = 1;
        memcpy(config->regions[0].name, config->region, sizeof(config->region));
    }
}

static bool is_whole(struct reader *r)
{
    const struct hr_node_config *config = r->config;
    bool is_alone = config->listen.gossip.host[0] == '\0';
    if (!is_alone && config->workers > 1) {
        return hr_doc_fault(r->doc, r->workers, r->problem,
                            "node.workers: several are for a node alone, without listen.gossip; not %u here",
                            config->workers);
    }
    if (!is_alone) {
        return config->secret_file[0] != '\0' ||
               hr_doc_fault(r->doc, r->gossip, r->problem,
                            "listen.gossip needs cluster.secret_file: the nodes of a cluster share one secret");
    }
    if (config->join_count > 0) {
        return hr_doc_fault(r->doc, r->join, r->problem, "cluster.join needs listen.gossip");
    }
    return r->tls == 0 || hr_doc_fault(r->doc, r->tls, r->problem, "cluster.tls needs listen.gossip");
}

static bool read_file(struct reader *r)
{
    static const struct hr_doc_keys keys = {"a node file", SECTION_COUNT, section_names};
    static bool (*const readers[SECTION_COUNT])(struct reader * r, hr_doc_node section) = {
        read_node,   read_listen,  read_advertise, read_cluster, read_regions, read_limits,
        read_memory, read_storage, read_rpc,       read_log,     read_chaos,
    };
    hr_doc_node sections[SECTION_COUNT], root = hr_doc_root(r->doc);
    if (!hr_doc_fields(r->doc, root, &keys, sections, r->problem) ||
        !need(r, root, sections[SECTION_NODE], "a node file", "node")) {
        return false;
    }
    fill_defaults(r->config);
    for (uint32_t i = 0; i < SECTION_COUNT; i++) {
        if (sections[i] != 0 && !readers[i](r, sections[i])) {
            return false;
        }
    }
    fill_derived(r->config);
    return is_whole(r);
}

/* Takes the doc, which may be NULL. */
static bool from_doc(struct hr_doc *doc, const char *path, struct hr_node_config *ret_config,
                     struct hr_problem *ret_problem)
{
    if (doc == NULL) {
        return false;
    }
    struct hr_node_config config = {.workers = 0};
    struct reader reader = {.doc = doc, .path = path, .problem = ret_problem, .config = &config};
    bool is_read = read_file(&reader);
    hr_doc_free(doc);
    if (is_read) {
        *ret_config = config;
    }
    return is_read;
}

bool hr_node_config_load(const char *path, struct hr_node_config *ret_config, struct hr_problem *ret_problem)
{
    return from_doc(hr_doc_load(path, ret_problem), path, ret_config, ret_problem);
}

bool hr_node_config_parse(struct hr_span text, const char *path, struct hr_node_config *ret_config,
                          struct hr_problem *ret_problem)
{
    return from_doc(hr_doc_parse(text, path, ret_problem), path, ret_config, ret_problem);
}

void hr_node_config_dev(struct hr_node_config *ret_config)
{
    fill_defaults(ret_config);
    memcpy(ret_config->name, "dev", sizeof("dev"));
    memcpy(ret_config->region, "local", sizeof("local"));
    ret_config->listen.http = (struct hr_address){.host = "127.0.0.1", .port = 0};
    fill_derived(ret_config);
}

static bool is_node_section(struct hr_span key)
{
    for (uint32_t i = 0; i < SECTION_COUNT; i++) {
        if (i != SECTION_LIMITS && hr_span_equal(key, hr_span_of(section_names[i]))) {
            return true;
        }
    }
    return false;
}

bool hr_doc_is_node_config(const struct hr_doc *doc)
{
    hr_doc_node root = hr_doc_root(doc);
    if (hr_doc_kind(doc, root) != HR_DOC_MAP) {
        return false;
    }
    for (hr_doc_node key = hr_doc_first(doc, root); key != 0; key = hr_doc_next(doc, key)) {
        if (is_node_section(hr_doc_text(doc, key))) {
            return true;
        }
    }
    return false;
}

const char *hr_node_config_doubt(const struct hr_node_config *config)
{
    if (config->listen.gossip.host[0] == '\0') {
        return NULL;
    }
    if (hr_address_is_wildcard(&config->advertise.gossip) || hr_address_is_wildcard(&config->advertise.rpc)) {
        return "nodes on other machines cannot reach this one at 0.0.0.0 or ::; give its addresses in advertise";
    }
    return NULL;
}
