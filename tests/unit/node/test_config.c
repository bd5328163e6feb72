/* Node files: what each key reads to, what it is by default, and that every mistake is refused with its own place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/config_yaml.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define NODE "node: {name: eu-1, region: eu, data: /d}\n"
#define GOSSIP NODE "listen: {gossip: \"tcp://127.0.0.1:1\"}\n"
#define SECRET "cluster: {secret_file: s}\n"
#define JOIN "cluster: {secret_file: s, join: "

#define NAME_FORM " must be 1 to 64 of a-z, 0-9 and \"-\", not "
#define PLAIN_FORM " must be HOST:PORT, as 127.0.0.1:7400 or [::1]:7400, not "
#define URL_FORM " must be tcp://HOST:PORT, as tcp://10.0.0.1:7401 or tcp://[::1]:7401, not "
#define AMOUNT_FORM " must be a whole number, as 100, 10k or 2MiB, not "
#define A_65 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static struct hr_node_config parse_good(const char *text, const char *path)
{
    struct hr_problem problem = {0};
    struct hr_node_config config;
    if (!hr_node_config_parse(hr_span_of(text), path, &config, &problem)) {
        fail_msg("%s\nrefused: %s (%s)", text, problem.what, problem.where);
    }
    return config;
}

static void assert_address(const struct hr_address *address, const char *host, uint16_t port)
{
    assert_string_equal(address->host, host);
    assert_int_equal(address->port, port);
}

static const char full[] =
    "# every key\n"
    "node:      {name: eu-1, region: eu, data: /var/lib/headroom, workers: 1, host: rack_1.b, weight: 3}\n"
    "listen:    {rpc: \"0.0.0.0:7400\", gossip: \"tcp://0.0.0.0:7401\", http: \"127.0.0.1:7402\"}\n"
    "advertise: {rpc: \"10.0.0.1:7400\", gossip: \"tcp://[::1]:7401\"}\n"
    "cluster:   {name: prod, join: [\"tcp://10.0.0.1:7401\", \"tcp://us-1.example:7401\"], secret_file: /etc/s,\n"
    "  call_deadline: 35ms, tls: {ca: ca.pem, certificate: /c.pem, key: k/key.pem}}\n"
    "regions:   {eu: {weight: 2}, us: {}, ap: {weight: 1M}}\n"
    "limits:    limits.yaml\n"
    "memory:    {counters: 10M, leases: 1k, log_blocks: 2k, reserved: 128KiB}\n"
    "storage:   {flush_interval: 1s, map_max: 16 GiB}\n"
    "rpc:       {connections: 100, in_flight: 16, partial_max: 8MiB}\n"
    "log:       {format: json, level: debug}\n"
    "chaos:     true\n";

static void every_key_is_read(void **state)
{
    (void)state;
    struct hr_node_config config = parse_good(full, "f");
    assert_string_equal(config.name, "eu-1");
    assert_string_equal(config.region, "eu");
    assert_string_equal(config.data, "/var/lib/headroom");
    assert_int_equal(config.workers, 1);
    assert_string_equal(config.host, "rack_1.b");
    assert_int_equal(config.weight, 3);
    assert_address(&config.listen.rpc, "0.0.0.0", 7400);
    assert_address(&config.listen.gossip, "0.0.0.0", 7401);
    assert_address(&config.listen.http, "127.0.0.1", 7402);
    assert_address(&config.advertise.rpc, "10.0.0.1", 7400);
    assert_address(&config.advertise.gossip, "::1", 7401);
    assert_string_equal(config.cluster, "prod");
    assert_string_equal(config.secret_file, "/etc/s");
    assert_string_equal(config.tls.ca, "ca.pem");
    assert_string_equal(config.tls.certificate, "/c.pem");
    assert_string_equal(config.tls.key, "k/key.pem");
    assert_int_equal(config.call_deadline_ns, 35000000);
    assert_int_equal(config.join_count, 2);
    assert_address(&config.joins[0], "10.0.0.1", 7401);
    assert_address(&config.joins[1], "us-1.example", 7401);
    assert_string_equal(config.limits, "limits.yaml");
    assert_int_equal(config.counters_max, 10000000);
    assert_int_equal(config.leases_max, 1000);
    assert_int_equal(config.log_blocks_max, 2000);
    assert_int_equal(config.reserves_max, 131072);
    assert_int_equal(config.flush_interval_ns, 1000000000);
    assert_int_equal(config.map_bytes_max, UINT64_C(16) << 30);
    assert_int_equal(config.connections_max, 100);
    assert_int_equal(config.in_flight_max, 16);
    assert_int_equal(config.partial_bytes_max, 8 << 20);
    assert_int_equal(config.log_format, HR_LOG_JSON);
    assert_int_equal(config.log_level_min, HR_LOG_DEBUG);
    assert_true(config.chaos);
}

static void regions_keep_the_files_order_and_weights(void **state)
{
    (void)state;
    static const struct hr_region_config want[] = {{"eu", 2}, {"us", 1}, {"ap", 1000000}};
    struct hr_node_config config = parse_good(full, "f");
    assert_int_equal(config.region_count, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        assert_string_equal(config.regions[i].name, want[i].name);
        assert_int_equal(config.regions[i].weight, want[i].weight);
    }
}

static void assert_defaults(const struct hr_node_config *config)
{
    assert_int_equal(config->workers, 1);
    assert_string_equal(config->host, "");
    assert_int_equal(config->weight, 1);
    assert_string_equal(config->tls.ca, "");
    assert_int_equal(config->call_deadline_ns, 20000000);
    assert_address(&config->listen.rpc, "127.0.0.1", 7400);
    assert_address(&config->advertise.rpc, "127.0.0.1", 7400);
    assert_string_equal(config->listen.gossip.host, "");
    assert_string_equal(config->advertise.gossip.host, "");
    assert_string_equal(config->cluster, "headroom");
    assert_string_equal(config->secret_file, "");
    assert_string_equal(config->limits, "");
    assert_int_equal(config->join_count, 0);
    assert_int_equal(config->region_count, 1);
    assert_string_equal(config->regions[0].name, config->region);
    assert_int_equal(config->regions[0].weight, 1);
    assert_int_equal(config->counters_max, 1000000);
    assert_int_equal(config->leases_max, 64000);
    assert_int_equal(config->log_blocks_max, 64000);
    assert_int_equal(config->reserves_max, 64000);
    assert_int_equal(config->flush_interval_ns, 100000000);
    assert_int_equal(config->map_bytes_max, UINT64_C(64) << 30);
    assert_int_equal(config->connections_max, 16384);
    assert_int_equal(config->in_flight_max, 4096);
    assert_int_equal(config->partial_bytes_max, 256 << 20);
    assert_int_equal(config->log_format, HR_LOG_LOGFMT);
    assert_int_equal(config->log_level_min, HR_LOG_INFO);
    assert_false(config->chaos);
    assert_null(hr_node_config_doubt(config));
}

static void a_node_alone_may_have_several_workers(void **state)
{
    (void)state;
    struct hr_node_config config = parse_good("node: {name: a, region: a, data: d, workers: 8}\n", "f");
    assert_int_equal(config.workers, 8);
    config = parse_good("node: {name: a, region: a, data: d, workers: auto}\n", "f");
    assert_int_equal(config.workers, 0); /* as many as there are processors */
}

static void only_the_node_itself_must_be_given(void **state)
{
    (void)state;
    struct hr_node_config config = parse_good(NODE, "f");
    assert_defaults(&config);
    assert_string_equal(config.listen.http.host, "");
    config = parse_good("node: {name: eu-1, region: eu, data: /d, workers: 1}\n"
                        "listen: {}\nadvertise: {}\ncluster: {}\nmemory: {}\nstorage: {}\nrpc: {}\nlog: {}\n",
                        "f");
    assert_defaults(&config);
}

static void dev_needs_no_file(void **state)
{
    (void)state;
    struct hr_node_config config;
    hr_node_config_dev(&config);
    assert_defaults(&config);
    assert_string_equal(config.name, "dev");
    assert_string_equal(config.region, "local");
    assert_string_equal(config.data, "");
    assert_address(&config.listen.http, "127.0.0.1", 0);
}

static void sections_may_stand_in_any_order(void **state)
{
    (void)state;
    struct hr_node_config config = parse_good("advertise: {gossip: \"tcp://10.0.0.1:1\"}\n"
                                              "regions: {us: {}, eu: {}}\n"
                                              "listen: {gossip: \"tcp://0.0.0.0:1\"}\n" NODE SECRET,
                                              "f");
    assert_address(&config.advertise.gossip, "10.0.0.1", 1);
    assert_address(&config.advertise.rpc, "127.0.0.1", 7400);
    assert_int_equal(config.region_count, 2);
}

static void others_are_told_what_is_listened_at(void **state)
{
    (void)state;
    struct hr_node_config config =
        parse_good(NODE SECRET "listen: {rpc: \"[::1]:0\", gossip: \"tcp://10.0.0.1:7401\"}\n", "f");
    assert_address(&config.advertise.rpc, "::1", 0);
    assert_address(&config.advertise.gossip, "10.0.0.1", 7401);
}

static void relative_paths_begin_at_the_files_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path, *limits, *want;
    } rows[] = {
        {"node.yaml", "limits.yaml", "limits.yaml"},
        {"/etc/headroom/node.yaml", "limits.yaml", "/etc/headroom/limits.yaml"},
        {"/etc/headroom/node.yaml", "../l.yaml", "/etc/headroom/../l.yaml"},
        {"/etc/headroom/node.yaml", "/srv/l.yaml", "/srv/l.yaml"},
        {"conf/node.yaml", "a/l.yaml", "conf/a/l.yaml"},
        {"/node.yaml", "l.yaml", "/l.yaml"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text),
                       "node: {name: a, region: a, data: %s}\nlimits: %s\ncluster: {secret_file: %s}\n", rows[i].limits,
                       rows[i].limits, rows[i].limits);
        struct hr_node_config config = parse_good(text, rows[i].path);
        if (strcmp(config.limits, rows[i].want) != 0 || strcmp(config.data, rows[i].want) != 0 ||
            strcmp(config.secret_file, rows[i].want) != 0) {
            fail_msg("row %zu: %s, %s, %s", i, config.limits, config.data, config.secret_file);
        }
    }
}

static const struct {
    const char *text, *what, *where;
} bad[] = {
    {"", "the file is empty", "f:1:1"},
    {"[]\n", "a node file must be a map of keys and values, not a list", "f:1:1"},
    {"{}\n", "a node file needs \"node\"", "f:1:1"},
    {"listen: {}\n", "a node file needs \"node\"", "f:1:1"},
    {NODE "colour: red\n",
     "unknown key \"colour\" in a node file; expected: node, listen, advertise, cluster, regions, limits, memory, "
     "storage, rpc, log, chaos",
     "f:2:1"},
    {NODE NODE, "\"node\" is given twice; it stands already in line 1", "f:2:1"},
    {"node:\n", "node must be a map of keys and values, not nothing", "f:1:6"},
    {"node: eu-1\n", "node must be a map of keys and values, not a single value", "f:1:7"},
    {"node: {}\n", "node needs \"name\"", "f:1:7"},
    {"node: {name: a}\n", "node needs \"region\"", "f:1:7"},
    {"node: {name: a, region: a}\n", "node needs \"data\"", "f:1:7"},
    {"node: {nam: a}\n", "unknown key \"nam\" in node; expected: name, region, data, workers, host, weight", "f:1:8"},
    {"node: {name: A, region: a, data: d}\n", "node.name" NAME_FORM "\"A\"", "f:1:14"},
    {"node: {name: \"\", region: a, data: d}\n", "node.name" NAME_FORM "\"\"", "f:1:14"},
    {"node: {name: ~, region: a, data: d}\n", "node.name has no value", "f:1:14"},
    {"node: {name: [a], region: a, data: d}\n", "node.name must be a single value, not a list", "f:1:14"},
    {"node: {name: a.b, region: a, data: d}\n", "node.name" NAME_FORM "\"a.b\"", "f:1:14"},
    {"node: {name: " A_65 ", region: a, data: d}\n",
     "node.name" NAME_FORM "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "f:1:14"},
    {"node: {name: a, region: a_b, data: d}\n", "node.region" NAME_FORM "\"a_b\"", "f:1:25"},
    {"node: {name: a, region: a, data: }\n", "node.data has no value", "f:1:34"},
    {"node: {name: a, region: a, data: \"\"}\n", "node.data must be a path, not \"\"", "f:1:34"},
    {"node: {name: a, region: a, data: \"d\\0\"}\n", "node.data must be a path, not \"d\"", "f:1:34"},
    {"node: {name: a, region: a, data: d, workers: 0}\n", "node.workers must be from 1 to 64, not \"0\"", "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: 65}\n", "node.workers must be from 1 to 64, not \"65\"", "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: 99999999999999999999}\n",
     "node.workers must be from 1 to 64, not \"99999999999999999999\"", "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: 2}\n"
     "listen: {gossip: \"tcp://1.2.3.4:5\"}\ncluster: {secret_file: s}\n",
     "node.workers: several are for a node alone, without listen.gossip; not 2 here", "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: all}\n", "node.workers must be auto or a whole number, not \"all\"",
     "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: -1}\n", "node.workers must be auto or a whole number, not \"-1\"",
     "f:1:46"},
    {"node: {name: a, region: a, data: d, workers: ~}\n", "node.workers has no value", "f:1:46"},
    {"node: {name: a, region: a, data: d, host: A}\n",
     "node.host must be 1 to 64 of a-z, 0-9, \"_\", \".\" and \"-\", not \"A\"", "f:1:43"},
    {"node: {name: a, region: a, data: d, host: ~}\n", "node.host has no value", "f:1:43"},
    {"node: {name: a, region: a, data: d, weight: 0}\n", "node.weight must be from 1 to 1000000, not \"0\"", "f:1:45"},
    {"node: {name: a, region: a, data: d, weight: 1000001}\n", "node.weight must be from 1 to 1000000, not \"1000001\"",
     "f:1:45"},
    {"node: {name: a, region: a, data: d, weight: half}\n", "node.weight" AMOUNT_FORM "\"half\"", "f:1:45"},
    {NODE "listen:\n", "listen must be a map of keys and values, not nothing", "f:2:8"},
    {NODE "listen: {grpc: a}\n", "unknown key \"grpc\" in listen; expected: rpc, gossip, http", "f:2:10"},
    {NODE "listen: {rpc: 7400}\n", "listen.rpc" PLAIN_FORM "\"7400\"", "f:2:15"},
    {NODE "listen: {rpc: \":7400\"}\n", "listen.rpc" PLAIN_FORM "\":7400\"", "f:2:15"},
    {NODE "listen: {rpc: \"a:65536\"}\n", "listen.rpc must be an address with a port from 0 to 65535, not \"a:65536\"",
     "f:2:15"},
    {NODE "listen: {rpc: \"::1:7400\"}\n", "listen.rpc" PLAIN_FORM "\"::1:7400\"", "f:2:15"},
    {NODE "listen: {rpc: \"tcp://a:1\"}\n", "listen.rpc" PLAIN_FORM "\"tcp://a:1\"", "f:2:15"},
    {NODE "listen: {rpc: [a]}\n", "listen.rpc must be a single value, not a list", "f:2:15"},
    {NODE "listen: {rpc: }\n", "listen.rpc has no value", "f:2:15"},
    {NODE "listen: {gossip: \"a:1\"}\n", "listen.gossip" URL_FORM "\"a:1\"", "f:2:18"},
    {NODE "listen: {http: \"http://a:1\"}\n", "listen.http" PLAIN_FORM "\"http://a:1\"", "f:2:16"},
    {NODE "advertise: {http: \"a:1\"}\n", "unknown key \"http\" in advertise; expected: rpc, gossip", "f:2:13"},
    {NODE "advertise: {rpc: a}\n", "advertise.rpc" PLAIN_FORM "\"a\"", "f:2:18"},
    {NODE "advertise: {rpc: \"a:0\"}\n", "advertise.rpc must be an address with a port from 1 to 65535, not \"a:0\"",
     "f:2:18"},
    {NODE "advertise: {gossip: \"tcp://a:1\"}\n", "advertise.gossip needs listen.gossip", "f:2:21"},
    {GOSSIP "advertise: {gossip: \"a:1\"}\n", "advertise.gossip" URL_FORM "\"a:1\"", "f:3:21"},
    {NODE "cluster: {nam: a}\n",
     "unknown key \"nam\" in cluster; expected: name, join, secret_file, tls, call_deadline", "f:2:11"},
    {NODE "cluster: {name: Prod}\n", "cluster.name" NAME_FORM "\"Prod\"", "f:2:17"},
    {NODE "cluster: {join: \"tcp://a:1\"}\n", "cluster.join must be a list, not a single value", "f:2:17"},
    {NODE "cluster: {join: [a]}\n", "an address of cluster.join" URL_FORM "\"a\"", "f:2:18"},
    {NODE "cluster: {join: [\"tcp://a:0\"]}\n",
     "an address of cluster.join must be an address with a port from 1 to 65535, not \"tcp://a:0\"", "f:2:18"},
    {NODE JOIN "[\"tcp://a:1\"]}\n", "cluster.join needs listen.gossip", "f:2:33"},
    {GOSSIP "cluster: {join: [\"tcp://a:1\"]}\n",
     "listen.gossip needs cluster.secret_file: the nodes of a cluster share one secret", "f:2:18"},
    {GOSSIP, "listen.gossip needs cluster.secret_file: the nodes of a cluster share one secret", "f:2:18"},
    {NODE "cluster: {tls: a}\n", "cluster.tls must be a map of keys and values, not a single value", "f:2:16"},
    {NODE "cluster: {tls: {ca: a, certificate: b}}\n", "cluster.tls needs \"key\"", "f:2:16"},
    {NODE "cluster: {tls: {key: a, certificate: b}}\n", "cluster.tls needs \"ca\"", "f:2:16"},
    {NODE "cluster: {tls: {ca: a, key: b}}\n", "cluster.tls needs \"certificate\"", "f:2:16"},
    {NODE "cluster: {tls: {ca: \"\", certificate: b, key: c}}\n", "cluster.tls.ca must be a path, not \"\"", "f:2:21"},
    {NODE "cluster: {tls: {cert: a}}\n", "unknown key \"cert\" in cluster.tls; expected: ca, certificate, key",
     "f:2:17"},
    {NODE "cluster: {tls: {ca: a, certificate: b, key: c}}\n", "cluster.tls needs listen.gossip", "f:2:16"},
    {NODE "cluster: {call_deadline: 20}\n", "cluster.call_deadline must be a duration, as 100ms or 1s, not \"20\"",
     "f:2:26"},
    {NODE "cluster: {call_deadline: 11s}\n", "cluster.call_deadline must be from 1ms to 10s, not \"11s\"", "f:2:26"},
    {NODE "cluster: {call_deadline: 0ms}\n", "cluster.call_deadline must be from 1ms to 10s, not \"0ms\"", "f:2:26"},
    {NODE "cluster: {secret_file: ~}\n", "cluster.secret_file has no value", "f:2:24"},
    {NODE "regions: {}\n", "regions must have 1 to 8 entries, not 0", "f:2:10"},
    {NODE "regions: [eu]\n", "regions must be a map of keys and values, not a list", "f:2:10"},
    {NODE "regions: {us: {weight: 1}}\n", "regions must have this node's own region, \"eu\"", "f:2:10"},
    {NODE "regions: {EU: {}}\n", "a region's name" NAME_FORM "\"EU\"", "f:2:11"},
    {NODE "regions: {eu: {}, eu: {}}\n", "the region \"eu\" is given twice", "f:2:19"},
    {NODE "regions: {eu: 2}\n", "a region must be a map of keys and values, not a single value", "f:2:15"},
    {NODE "regions: {eu: }\n", "a region must be a map of keys and values, not nothing", "f:2:15"},
    {NODE "regions: {eu: {wait: 2}}\n", "unknown key \"wait\" in a region; expected: weight", "f:2:16"},
    {NODE "regions: {eu: {weight: 0}}\n", "regions must have one whose weight is above 0", "f:2:10"},
    {NODE "regions: {eu: {weight: 1000001}}\n", "weight must be from 0 to 1000000, not \"1000001\"", "f:2:24"},
    {NODE "regions: {eu: {weight: 1.5}}\n", "weight" AMOUNT_FORM "\"1.5\"", "f:2:24"},
    {NODE "limits:\n", "limits has no value", "f:2:8"},
    {NODE "limits: []\n", "limits must be a single value, not a list", "f:2:9"},
    {NODE "memory: {counter: 1M}\n",
     "unknown key \"counter\" in memory; expected: counters, leases, log_blocks, reserved", "f:2:10"},
    {NODE "memory: {counters: 999}\n", "memory.counters must be from 1000 to 1000000000, not \"999\"", "f:2:20"},
    {NODE "memory: {counters: 2G}\n", "memory.counters must be from 1000 to 1000000000, not \"2G\"", "f:2:20"},
    {NODE "memory: {counters: many}\n", "memory.counters" AMOUNT_FORM "\"many\"", "f:2:20"},
    {NODE "memory: {leases: 0}\n", "memory.leases must be from 1000 to 1000000000, not \"0\"", "f:2:18"},
    {NODE "memory: {log_blocks: -1}\n", "memory.log_blocks" AMOUNT_FORM "\"-1\"", "f:2:22"},
    {NODE "memory: {reserved: [1]}\n", "memory.reserved must be a single value, not a list", "f:2:20"},
    {NODE "storage: {flush: 1s}\n", "unknown key \"flush\" in storage; expected: flush_interval, map_max", "f:2:11"},
    {NODE "storage: {flush_interval: 100}\n", "storage.flush_interval must be a duration, as 100ms or 1s, not \"100\"",
     "f:2:27"},
    {NODE "storage: {flush_interval: 0ms}\n", "storage.flush_interval must be from 1ms to 60s, not \"0ms\"", "f:2:27"},
    {NODE "storage: {flush_interval: 2m}\n", "storage.flush_interval must be from 1ms to 60s, not \"2m\"", "f:2:27"},
    {NODE "storage: {map_max: 64GB}\n", "storage.map_max" AMOUNT_FORM "\"64GB\"", "f:2:20"},
    {NODE "storage: {map_max: 1MiB}\n", "storage.map_max must be from 16777216 to 17592186044416, not \"1MiB\"",
     "f:2:20"},
    {NODE "rpc: {port: 1}\n", "unknown key \"port\" in rpc; expected: connections, in_flight, partial_max", "f:2:7"},
    {NODE "rpc: {connections: 0}\n", "rpc.connections must be from 1 to 1000000, not \"0\"", "f:2:20"},
    {NODE "rpc: {partial_max: 1MiB}\n", "rpc.partial_max must be from 4194304 to 1099511627776, not \"1MiB\"",
     "f:2:20"},
    {NODE "rpc: {in_flight: 65537}\n", "rpc.in_flight must be from 1 to 65536, not \"65537\"", "f:2:18"},
    {NODE "log: {format: xml}\n", "log.format must be one of logfmt, json, not \"xml\"", "f:2:15"},
    {NODE "log: {level: trace}\n", "log.level must be one of debug, info, warn, error, not \"trace\"", "f:2:14"},
    {NODE "log: {colour: true}\n", "unknown key \"colour\" in log; expected: format, level", "f:2:7"},
    {NODE "chaos: yes\n", "chaos must be one of false, true, not \"yes\"", "f:2:8"},
    {NODE "chaos:\n", "chaos has no value", "f:2:7"},
};

static void every_mistake_is_named_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct hr_problem problem = {0};
        struct hr_node_config config = {.workers = 77};
        if (hr_node_config_parse(hr_span_of(bad[i].text), "f", &config, &problem) || config.workers != 77) {
            fail_msg("row %zu is accepted:\n%s", i, bad[i].text);
        }
        if (strcmp(problem.what, bad[i].what) != 0 || strcmp(problem.where, bad[i].where) != 0) {
            fail_msg("row %zu:\n%s\nwanted: %s (%s)\ngot:    %s (%s)", i, bad[i].text, bad[i].what, bad[i].where,
                     problem.what, problem.where);
        }
    }
}

/* head, `count` items with their numbers, tail. */
static char *repeat(const char *head, const char *before, const char *after, int count, const char *tail)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    (void)fputs(head, out);
    for (int i = 0; i < count; i++) {
        (void)fprintf(out, "%s%d%s", before, i, after);
    }
    (void)fputs(tail, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void as_many_as_allowed_are_read_and_one_more_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *before, *after, *tail, *what;
        int max;
    } rows[] = {
        {GOSSIP JOIN "[", "\"tcp://n", ":1\",", "]}\n", "cluster.join has at most 64 addresses, not 65", HR_JOINS_MAX},
        {NODE "regions: {eu: {},", "r", ": {},", "}\n", "regions must have 1 to 8 entries, not 9", HR_REGIONS_MAX - 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_node_config config;
        struct hr_problem problem = {0};
        char *good = repeat(rows[i].head, rows[i].before, rows[i].after, rows[i].max, rows[i].tail);
        char *more = repeat(rows[i].head, rows[i].before, rows[i].after, rows[i].max + 1, rows[i].tail);
        bool is_good = hr_node_config_parse(hr_span_of(good), "f", &config, &problem);
        if (!is_good || hr_node_config_parse(hr_span_of(more), "f", &config, &problem) ||
            strcmp(problem.what, rows[i].what) != 0) {
            fail_msg("row %zu: %s (%s)", i, problem.what, problem.where);
        }
        free(good);
        free(more);
    }
}

static void a_path_may_be_as_long_as_the_system_allows(void **state)
{
    (void)state;
    for (size_t bytes = HR_CONFIG_PATH_BYTES_MAX - 1; bytes <= HR_CONFIG_PATH_BYTES_MAX + 1; bytes++) {
        struct hr_node_config config;
        struct hr_problem problem = {0};
        char name[HR_CONFIG_PATH_BYTES_MAX + 2], text[HR_CONFIG_PATH_BYTES_MAX + 256];
        memset(name, 'x', sizeof(name));
        (void)snprintf(text, sizeof(text), NODE "limits: %.*s\n", (int)(bytes - strlen("folder/")), name);
        bool is_read = hr_node_config_parse(hr_span_of(text), "folder/f", &config, &problem);
        if (is_read != (bytes <= HR_CONFIG_PATH_BYTES_MAX) || (is_read && strlen(config.limits) != bytes)) {
            fail_msg("%zu bytes: %s (%s)", bytes, problem.what, problem.where);
        }
    }
}

/* A prefix is a file cut short: right or wrong, it says so in one line, and reads nothing beyond its end. */
static void every_prefix_is_read_or_refused_with_a_place(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < sizeof(full); bytes++) {
        struct hr_node_config config;
        struct hr_problem problem = {0};
        char *copy = malloc(bytes + 1); /* exact, so that a sanitizer sees a read behind it */
        assert_non_null(copy);
        memcpy(copy + 1, full, bytes);
        bool is_read = hr_node_config_parse((struct hr_span){copy + 1, bytes}, "f", &config, &problem);
        free(copy);
        if (!is_read && (problem.what[0] == '\0' || strncmp(problem.where, "f:", 2) != 0)) {
            fail_msg("%zu bytes: no reason is given", bytes);
        }
    }
}

static void node_files_are_told_from_limits_files(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_node;
    } rows[] = {
        {NODE, true},
        {NODE "limits: l.yaml\n", true},
        {"limits: l.yaml\nlisten: {}\n", true},
        {"chaos: true\n", true},
        {"limits: []\n", false},
        {"limits: l.yaml\n", false},
        {"limits: []\ncolour: red\n", false},
        {"{}\n", false},
        {"[node]\n", false},
        {"node\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_problem problem;
        struct hr_doc *doc = hr_doc_parse(hr_span_of(rows[i].text), "f", &problem);
        assert_non_null(doc);
        bool is_node = hr_doc_is_node_config(doc);
        hr_doc_free(doc);
        if (is_node != rows[i].is_node) {
            fail_msg("row %zu:\n%s", i, rows[i].text);
        }
    }
}

static void a_node_that_nobody_can_reach_is_doubted(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_doubted;
    } rows[] = {
        {"listen: {rpc: \"0.0.0.0:1\"}\n", false},
        {"listen: {gossip: \"tcp://0.0.0.0:1\"}\n", true},
        {"listen: {gossip: \"tcp://[::]:1\"}\n", true},
        {"listen: {gossip: \"tcp://10.0.0.1:1\", rpc: \"0.0.0.0:1\"}\n", true},
        {"listen: {gossip: \"tcp://10.0.0.1:1\", rpc: \"10.0.0.1:2\"}\n", false},
        {"listen: {gossip: \"tcp://0.0.0.0:1\"}\nadvertise: {gossip: \"tcp://10.0.0.1:1\"}\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), NODE SECRET "%s", rows[i].text);
        struct hr_node_config config = parse_good(text, "f");
        if ((hr_node_config_doubt(&config) != NULL) != rows[i].is_doubted) {
            fail_msg("row %zu:\n%s", i, text);
        }
    }
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct hr_node_config config;
    struct hr_problem problem = {0};
    assert_false(hr_node_config_load("no/such.yaml", &config, &problem));
    assert_string_equal(problem.what, "cannot open the file: No such file or directory");
    assert_string_equal(problem.where, "no/such.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(regions_keep_the_files_order_and_weights),
        cmocka_unit_test(a_node_alone_may_have_several_workers),
        cmocka_unit_test(only_the_node_itself_must_be_given),
        cmocka_unit_test(dev_needs_no_file),
        cmocka_unit_test(sections_may_stand_in_any_order),
        cmocka_unit_test(others_are_told_what_is_listened_at),
        cmocka_unit_test(relative_paths_begin_at_the_files_folder),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(as_many_as_allowed_are_read_and_one_more_refused),
        cmocka_unit_test(a_path_may_be_as_long_as_the_system_allows),
        cmocka_unit_test(every_prefix_is_read_or_refused_with_a_place),
        cmocka_unit_test(node_files_are_told_from_limits_files),
        cmocka_unit_test(a_node_that_nobody_can_reach_is_doubted),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
