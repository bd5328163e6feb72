/* Limits files: what each grammar reads to, and that every mistake is refused with its own line and place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/limits_yaml.h"
#include "node/temp_folder.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The beginnings of files. */
#define LIMIT "limits:\n  - name: a\n"
#define BUCKET LIMIT "    algorithm: token_bucket\n"
#define BUCKET_RATED BUCKET "    rate: 1/s\n"
#define GLOBAL BUCKET_RATED "    scope: global\n"
#define WINDOW LIMIT "    algorithm: fixed_window\n"
#define QUOTA LIMIT "    algorithm: quota\n"
#define CONCURRENCY LIMIT "    algorithm: concurrency\n"

/* The beginnings of messages. */
#define RATE_FORM "rate must be N/s, N/m, N/h, N/d or \"N per 10s\", not "
#define RATE_RANGE "rate must be from 1 to 2^53 - 1 per 1ms to 366d, not "
#define ATTRIBUTE_FORM "an attribute's name must be 1 to 64 of a-z, 0-9, \"_\", \".\" and \"-\", not "
#define NAME_FORM "name must be 1 to 64 of a-z, 0-9 and \"-\", not "
#define CIDR_FORM "cidr must be a network, as 10.0.0.0/8 or 2001:db8::/32, not "
#define BURST_FORM "burst must be a whole number, as 100, 10k or 2MiB, not "
#define NO_ZONE "this machine's zoneinfo has no time zone "
#define QUOTA_FORM "quota must be N/hour, N/day, N/week, N/month or N/year, not "

#define PERCENT_FORM " must be a percentage with at most four decimals, as 20% or 2.5%, not "

#define S UINT64_C(1000000000)
#define MAX HR_COST_MAX

static struct hr_limits_file *parse(struct hr_span text, struct hr_problem *ret_problem)
{
    *ret_problem = (struct hr_problem){0};
    return hr_limits_file_parse(text, "f", ret_problem);
}

static struct hr_limits_file *parse_good(const char *text)
{
    struct hr_problem problem;
    struct hr_limits_file *file = parse(hr_span_of(text), &problem);
    if (file == NULL) {
        fail_msg("%s\nrefused: %s (%s)", text, problem.what, problem.where);
    }
    return file;
}

static void assert_refused(size_t row, const char *text, const char *what, const char *where)
{
    struct hr_problem problem;
    struct hr_limits_file *file = parse(hr_span_of(text), &problem);
    if (file != NULL) {
        hr_limits_file_free(file);
        fail_msg("row %zu is accepted:\n%s", row, text);
    }
    if (strcmp(problem.what, what) != 0 || strcmp(problem.where, where) != 0) {
        fail_msg("row %zu:\n%s\nwanted: %s (%s)\ngot:    %s (%s)", row, text, what, where, problem.what, problem.where);
    }
}

static void assert_span(struct hr_span span, const char *text)
{
    assert_int_equal(span.bytes, strlen(text));
    assert_memory_equal(span.at, text, span.bytes);
}

static const struct {
    const char *text, *what, *where;
} bad[] = {
    {"", "the file is empty", "f:1:1"},
    {"# only a comment\n", "the file is empty", "f:1:1"},
    {"null\n", "the file is empty", "f:1:1"},
    {"- a\n", "a limits file must be a map of keys and values, not a list", "f:1:1"},
    {"limits\n", "a limits file must be a map of keys and values, not a single value", "f:1:1"},
    {"{}\n", "a limits file needs \"limits\"", "f:1:1"},
    {"limits:\n", "limits must be a list, not nothing", "f:1:8"},
    {"limits: {}\n", "limits must be a list, not a map of keys and values", "f:1:9"},
    {"limits: 3\n", "limits must be a list, not a single value", "f:1:9"},
    {"limit: []\n", "unknown key \"limit\" in a limits file; expected: limits", "f:1:1"},
    {"limits: []\nversion: 1\n", "unknown key \"version\" in a limits file; expected: limits", "f:2:1"},
    {"limits: []\nlimits: []\n", "\"limits\" is given twice; it stands already in line 1", "f:2:1"},
    {"limits: []\n---\nlimits: []\n", "a second YAML document begins here; a file holds one", "f:2:1"},
    {"limits: &a []\nx: *a\n", "YAML aliases (*...) are not supported", "f:2:4"},
    {"limits: !!seq []\n", "YAML tags (!...) are not supported", "f:1:9"},
    {"limits: [\n", "not valid YAML: did not find expected node content while parsing a flow node", "f:2:1"},
    {"limits:\n\t- name: a\n", "not valid YAML: a tab where YAML wants spaces", "f:2:1"},
    {"limits: \"\\q\"\n", "not valid YAML: found unknown escape character while parsing a quoted scalar", "f:1:10"},
    {"limits: []\n  name: a\n", "not valid YAML: did not find expected key while parsing a block mapping", "f:2:3"},
    {"limits: [[[[[[[[[[[[[[[[[\n", "lists and maps are nested deeper than 16", "f:1:24"},
    {"? [a]\n: b\n", "a key must be text", "f:1:3"},
    {"limits: [a]\n", "a limit must be a map of keys and values, not a single value", "f:1:10"},
    {"limits: [[]]\n", "a limit must be a map of keys and values, not a list", "f:1:10"},
    {"limits:\n  -\n", "a limit must be a map of keys and values, not nothing", "f:2:4"},
    {"limits: [{}]\n", "a limit needs \"name\"", "f:1:10"},
    {LIMIT, "a limit needs \"algorithm\"", "f:2:5"},
    {LIMIT "    algorithm: leaky\n",
     "algorithm must be one of token_bucket, gcra, leaky_bucket, fixed_window, sliding_window, sliding_log, quota, "
     "concurrency, not \"leaky\"",
     "f:3:16"},
    {LIMIT "    algorithm:\n", "algorithm has no value", "f:3:15"},
    {LIMIT "    algorithm: [gcra]\n", "algorithm must be a single value, not a list", "f:3:16"},
    {"limits:\n  - algorithm: gcra\n    rate: 1/s\n", "a limit needs \"name\"", "f:2:5"},
    {"limits:\n  - name:\n    algorithm: gcra\n    rate: 1/s\n", "name has no value", "f:2:10"},
    {"limits:\n  - name: Key\n    algorithm: gcra\n    rate: 1/s\n", NAME_FORM "\"Key\"", "f:2:11"},
    {"limits:\n  - name: \"\"\n    algorithm: gcra\n    rate: 1/s\n", NAME_FORM "\"\"", "f:2:11"},
    {"limits:\n  - name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n    algorithm: gcra\n    "
     "rate: 1/s\n",
     NAME_FORM "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "f:2:11"},
    {"limits:\n  - name: a_b\n    algorithm: gcra\n    rate: 1/s\n", NAME_FORM "\"a_b\"", "f:2:11"},
    {BUCKET_RATED "    colour: red\n",
     "unknown key \"colour\" in a limit; expected: name, key, when, algorithm, rate, burst, quota, time_zone, slots, "
     "ttl, scope, reserve, slack, mode, durability, on_unavailable",
     "f:5:5"},
    {BUCKET_RATED "    rate: 2/s\n", "\"rate\" is given twice; it stands already in line 4", "f:5:5"},
    {BUCKET_RATED "  - name: b\n    algorithm: gcra\n    rate: 1/s\n  - name: a\n    algorithm: gcra\n    rate: 1/s\n",
     "the name \"a\" is already taken by the limit in line 2", "f:8:11"},
    {BUCKET, "token_bucket needs \"rate\"", "f:2:5"},
    {BUCKET "    rate:\n", "rate has no value", "f:4:10"},
    {BUCKET "    rate: [1]\n", "rate must be a single value, not a list", "f:4:11"},
    {BUCKET "    rate: 5\n", RATE_FORM "\"5\"", "f:4:11"},
    {BUCKET "    rate: 0/s\n", RATE_RANGE "\"0/s\"", "f:4:11"},
    {BUCKET "    rate: -1/s\n", RATE_FORM "\"-1/s\"", "f:4:11"},
    {BUCKET "    rate: 1.5/s\n", RATE_FORM "\"1.5/s\"", "f:4:11"},
    {BUCKET "    rate: 5/ms\n", RATE_FORM "\"5/ms\"", "f:4:11"},
    {BUCKET "    rate: 5/10s\n", RATE_FORM "\"5/10s\"", "f:4:11"},
    {BUCKET "    rate: 5/w\n", RATE_FORM "\"5/w\"", "f:4:11"},
    {BUCKET "    rate: 5/S\n", RATE_FORM "\"5/S\"", "f:4:11"},
    {BUCKET "    rate: /s\n", RATE_FORM "\"/s\"", "f:4:11"},
    {BUCKET "    rate: 5/\n", RATE_FORM "\"5/\"", "f:4:11"},
    {BUCKET "    rate: 5/s/s\n", RATE_FORM "\"5/s/s\"", "f:4:11"},
    {BUCKET "    rate: 010/s\n", RATE_FORM "\"010/s\"", "f:4:11"},
    {BUCKET "    rate: 1_000/s\n", RATE_FORM "\"1_000/s\"", "f:4:11"},
    {BUCKET "    rate: 0x10/s\n", RATE_FORM "\"0x10/s\"", "f:4:11"},
    {BUCKET "    rate: 1e3/s\n", RATE_FORM "\"1e3/s\"", "f:4:11"},
    {BUCKET "    rate: +5/s\n", RATE_FORM "\"+5/s\"", "f:4:11"},
    {BUCKET "    rate: 5K/s\n", RATE_FORM "\"5K/s\"", "f:4:11"},
    {BUCKET "    rate: 5kB/s\n", RATE_FORM "\"5kB/s\"", "f:4:11"},
    {BUCKET "    rate: 5 k k/s\n", RATE_FORM "\"5 k k/s\"", "f:4:11"},
    {BUCKET "    rate: 9007199254740992/s\n", RATE_RANGE "\"9007199254740992/s\"", "f:4:11"},
    {BUCKET "    rate: 99999999999999999999999999/s\n", RATE_RANGE "\"99999999999999999999999999/s\"", "f:4:11"},
    {BUCKET "    rate: 9007200G/s\n", RATE_RANGE "\"9007200G/s\"", "f:4:11"},
    {BUCKET "    rate: 5 per s\n", RATE_FORM "\"5 per s\"", "f:4:11"},
    {BUCKET "    rate: 5 per 0s\n", RATE_RANGE "\"5 per 0s\"", "f:4:11"},
    {BUCKET "    rate: 5 per 1.5s\n", RATE_FORM "\"5 per 1.5s\"", "f:4:11"},
    {BUCKET "    rate: 5 per 10\n", RATE_FORM "\"5 per 10\"", "f:4:11"},
    {BUCKET "    rate: 5 per 10us\n", RATE_FORM "\"5 per 10us\"", "f:4:11"},
    {BUCKET "    rate: 5 per 367d\n", RATE_RANGE "\"5 per 367d\"", "f:4:11"},
    {BUCKET "    rate: 5 per 99999999999999999999d\n", RATE_RANGE "\"5 per 99999999999999999999d\"", "f:4:11"},
    {BUCKET "    rate: 5 per10s\n", RATE_FORM "\"5 per10s\"", "f:4:11"},
    {BUCKET "    rate: 5  s\n", RATE_FORM "\"5  s\"", "f:4:11"},
    {BUCKET "    rate: \"5/s\\0\"\n", RATE_FORM "\"5/s\"", "f:4:11"},
    {BUCKET_RATED "    burst: 0\n", "burst must be from 1 to 2^53 - 1, not \"0\"", "f:5:12"},
    {BUCKET_RATED "    burst: -3\n", BURST_FORM "\"-3\"", "f:5:12"},
    {BUCKET_RATED "    burst: 1.5\n", BURST_FORM "\"1.5\"", "f:5:12"},
    {BUCKET_RATED "    burst: lots\n", BURST_FORM "\"lots\"", "f:5:12"},
    {BUCKET_RATED "    burst: [1]\n", "burst must be a single value, not a list", "f:5:12"},
    {BUCKET_RATED "    burst: {a: 1}\n", "burst must be a single value, not a map of keys and values", "f:5:12"},
    {BUCKET_RATED "    burst: ~\n", "burst has no value", "f:5:12"},
    {BUCKET_RATED "    burst: 9007199254740992\n", "burst must be from 1 to 2^53 - 1, not \"9007199254740992\"",
     "f:5:12"},
    {BUCKET_RATED "    burst: 9007199254740991k\n", "burst must be from 1 to 2^53 - 1, not \"9007199254740991k\"",
     "f:5:12"},
    {BUCKET_RATED "    burst: 10/s\n", BURST_FORM "\"10/s\"", "f:5:12"},
    {BUCKET_RATED "    quota: 3/day\n", "token_bucket takes no quota; it takes: rate, burst", "f:5:12"},
    {BUCKET_RATED "    slots: 3\n", "token_bucket takes no slots; it takes: rate, burst", "f:5:12"},
    {BUCKET_RATED "    ttl: 3s\n", "token_bucket takes no ttl; it takes: rate, burst", "f:5:10"},
    {BUCKET_RATED "    time_zone: UTC\n", "token_bucket takes no time_zone; it takes: rate, burst", "f:5:16"},
    {WINDOW "    rate: 1/s\n    burst: 5\n", "fixed_window takes no burst; it takes: rate", "f:5:12"},
    {WINDOW "    burst: 5\n", "fixed_window takes no burst; it takes: rate", "f:4:12"},
    {WINDOW, "fixed_window needs \"rate\"", "f:2:5"},
    {LIMIT "    algorithm: sliding_log\n    rate: 100001/s\n",
     "a sliding_log remembers each request: its rate may be at most 100000 per period", "f:4:11"},
    {LIMIT "    algorithm: sliding_log\n    rate: 1/s\n    burst: 2\n", "sliding_log takes no burst; it takes: rate",
     "f:5:12"},
    {LIMIT "    algorithm: sliding_window\n    rate: 0/s\n", RATE_RANGE "\"0/s\"", "f:4:11"},
    {QUOTA, "quota needs \"quota\"", "f:2:5"},
    {QUOTA "    quota: 3\n", QUOTA_FORM "\"3\"", "f:4:12"},
    {QUOTA "    quota: 3/s\n", QUOTA_FORM "\"3/s\"", "f:4:12"},
    {QUOTA "    quota: 0/day\n", "quota must be from 1 to 2^53 - 1 per period, not \"0/day\"", "f:4:12"},
    {QUOTA "    quota: 3/days\n", QUOTA_FORM "\"3/days\"", "f:4:12"},
    {QUOTA "    quota: 3 per day\n", QUOTA_FORM "\"3 per day\"", "f:4:12"},
    {QUOTA "    quota: 9007200G/day\n", "quota must be from 1 to 2^53 - 1 per period, not \"9007200G/day\"", "f:4:12"},
    {QUOTA "    quota: 3/day\n    rate: 1/s\n", "quota takes no rate; it takes: quota, time_zone", "f:5:11"},
    {QUOTA "    quota: 3/day\n    time_zone: Mars/Olympus\n", NO_ZONE "\"Mars/Olympus\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone: /etc/passwd\n", NO_ZONE "\"/etc/passwd\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone: ../zoneinfo/UTC\n", NO_ZONE "\"../zoneinfo/UTC\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone: \"\"\n", NO_ZONE "\"\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone: Europe\n", NO_ZONE "\"Europe\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone:\n", "time_zone has no value", "f:5:15"},
    {QUOTA "    quota: 3/day\n    time_zone: Europe/Berlin/\n", NO_ZONE "\"Europe/Berlin/\"", "f:5:16"},
    {QUOTA "    quota: 3/day\n    time_zone: \"Europe/Berlin\\0\"\n", NO_ZONE "\"Europe/Berlin\"", "f:5:16"},
    {CONCURRENCY, "concurrency needs \"slots\"", "f:2:5"},
    {CONCURRENCY "    slots: 0\n", "slots must be from 1 to 2^53 - 1, not \"0\"", "f:4:12"},
    {CONCURRENCY "    slots: none\n", "slots must be a whole number, as 100, 10k or 2MiB, not \"none\"", "f:4:12"},
    {CONCURRENCY "    slots: 3\n    ttl: 60\n", "ttl must be a duration, as 500ms, 60s, 5m, 1h or 1d, not \"60\"",
     "f:5:10"},
    {CONCURRENCY "    slots: 3\n    ttl: 0s\n", "ttl must be from 1ms to 366d, not \"0s\"", "f:5:10"},
    {CONCURRENCY "    slots: 3\n    ttl: 400d\n", "ttl must be from 1ms to 366d, not \"400d\"", "f:5:10"},
    {CONCURRENCY "    slots: 3\n    ttl: forever\n",
     "ttl must be a duration, as 500ms, 60s, 5m, 1h or 1d, not \"forever\"", "f:5:10"},
    {CONCURRENCY "    slots: 3\n    ttl:\n", "ttl has no value", "f:5:9"},
    {CONCURRENCY "    slots: 3\n    rate: 1/s\n", "concurrency takes no rate; it takes: slots, ttl", "f:5:11"},
    {BUCKET_RATED "    scope: world\n", "scope must be one of region, global, not \"world\"", "f:5:12"},
    {BUCKET_RATED "    reserve: 20%\n", "reserve needs \"scope: global\"", "f:5:14"},
    {BUCKET_RATED "    scope: region\n    slack: 0%\n", "slack needs \"scope: global\"", "f:6:12"},
    {GLOBAL "    reserve: 20\n", "reserve" PERCENT_FORM "\"20\"", "f:6:14"},
    {GLOBAL "    reserve: \"%\"\n", "reserve" PERCENT_FORM "\"%\"", "f:6:14"},
    {GLOBAL "    reserve: -1%\n", "reserve" PERCENT_FORM "\"-1%\"", "f:6:14"},
    {GLOBAL "    reserve: .5%\n", "reserve" PERCENT_FORM "\".5%\"", "f:6:14"},
    {GLOBAL "    reserve: 5.%\n", "reserve" PERCENT_FORM "\"5.%\"", "f:6:14"},
    {GLOBAL "    reserve: 05%\n", "reserve" PERCENT_FORM "\"05%\"", "f:6:14"},
    {GLOBAL "    reserve: 1.23456%\n", "reserve" PERCENT_FORM "\"1.23456%\"", "f:6:14"},
    {GLOBAL "    reserve: 1.2.3%\n", "reserve" PERCENT_FORM "\"1.2.3%\"", "f:6:14"},
    {GLOBAL "    reserve: 20%%\n", "reserve" PERCENT_FORM "\"20%%\"", "f:6:14"},
    {GLOBAL "    reserve: 101%\n", "reserve must be from 0% to 100%, not \"101%\"", "f:6:14"},
    {GLOBAL "    reserve: 100.0001%\n", "reserve must be from 0% to 100%, not \"100.0001%\"", "f:6:14"},
    {GLOBAL "    reserve: 99999999999999999999%\n", "reserve must be from 0% to 100%, not \"99999999999999999999%\"",
     "f:6:14"},
    {GLOBAL "    reserve:\n", "reserve has no value", "f:6:13"},
    {GLOBAL "    reserve: [20%]\n", "reserve must be a single value, not a list", "f:6:14"},
    {GLOBAL "    slack: much\n", "slack" PERCENT_FORM "\"much\"", "f:6:12"},
    {GLOBAL "    slack: 200%\n", "slack must be from 0% to 100%, not \"200%\"", "f:6:12"},
    {LIMIT "    algorithm: sliding_log\n    rate: 1/s\n    scope: global\n",
     "a sliding_log cannot be global: each region would need every request of the others; take sliding_window or "
     "token_bucket",
     "f:5:12"},
    {BUCKET_RATED "    mode: off\n", "mode must be one of enforce, shadow, not \"off\"", "f:5:11"},
    {BUCKET_RATED "    durability: disk\n", "durability must be one of periodic, memory, reserved, not \"disk\"",
     "f:5:17"},
    {BUCKET_RATED "    on_unavailable: retry\n", "on_unavailable must be one of local, allow, deny, not \"retry\"",
     "f:5:21"},
    {BUCKET_RATED "    mode:\n", "mode has no value", "f:5:10"},
    {BUCKET_RATED "    mode: [shadow]\n", "mode must be a single value, not a list", "f:5:11"},
    {BUCKET_RATED "    mode: Shadow\n", "mode must be one of enforce, shadow, not \"Shadow\"", "f:5:11"},
    {BUCKET_RATED "    key: api_key\n", "key must be a list, not a single value", "f:5:10"},
    {BUCKET_RATED "    key: []\n", "key must have 1 to 32 entries, not 0", "f:5:10"},
    {BUCKET_RATED "    key:\n", "key must be a list, not nothing", "f:5:9"},
    {BUCKET_RATED "    key: {a: b}\n", "key must be a list, not a map of keys and values", "f:5:10"},
    {BUCKET_RATED "    key: [a, b, a]\n", "\"a\" is given twice; it stands already in line 5", "f:5:17"},
    {BUCKET_RATED "    key: [Org]\n", ATTRIBUTE_FORM "\"Org\"", "f:5:11"},
    {BUCKET_RATED "    key: [\"\"]\n", ATTRIBUTE_FORM "\"\"", "f:5:11"},
    {BUCKET_RATED "    key: [[a]]\n", "an attribute's name must be a single value, not a list", "f:5:11"},
    {BUCKET_RATED "    key: [~]\n", "an attribute's name has no value", "f:5:11"},
    {BUCKET_RATED "    key: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]\n",
     ATTRIBUTE_FORM "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "f:5:11"},
    {BUCKET_RATED "    when: route\n", "when must be a map of keys and values, not a single value", "f:5:11"},
    {BUCKET_RATED "    when: []\n", "when must be a map of keys and values, not a list", "f:5:11"},
    {BUCKET_RATED "    when: {}\n", "when must have 1 to 32 entries, not 0", "f:5:11"},
    {BUCKET_RATED "    when:\n", "when must be a map of keys and values, not nothing", "f:5:10"},
    {BUCKET_RATED "    when: {route: }\n", "a condition on nothing: a value must be given, \"\" for an empty one",
     "f:5:19"},
    {BUCKET_RATED "    when: {route: ~}\n", "a condition on nothing: a value must be given, \"\" for an empty one",
     "f:5:19"},
    {BUCKET_RATED "    when: {route: []}\n", "a condition on nothing: the list is empty", "f:5:19"},
    {BUCKET_RATED "    when: {route: {}}\n", "a condition on nothing: a value, cidr or not must be given", "f:5:19"},
    {BUCKET_RATED "    when: {route: [a, ~]}\n", "a condition on nothing: a value must be given, \"\" for an empty one",
     "f:5:23"},
    {BUCKET_RATED "    when: {route: [[a]]}\n", "a list inside a list of a condition", "f:5:20"},
    {BUCKET_RATED "    when: {Route: a}\n", ATTRIBUTE_FORM "\"Route\"", "f:5:12"},
    {BUCKET_RATED "    when: {route: a, route: b}\n", "\"route\" is given twice; it stands already in line 5",
     "f:5:22"},
    {BUCKET_RATED "    when: {route: {glob: a}}\n", "unknown key \"glob\" in a condition; expected: cidr, not",
     "f:5:20"},
    {BUCKET_RATED "    when: {route: {not: }}\n",
     "a condition on nothing: a value must be given, \"\" for an empty one", "f:5:25"},
    {BUCKET_RATED "    when: {route: {not: []}}\n", "a condition on nothing: the list is empty", "f:5:25"},
    {BUCKET_RATED "    when: {route: {not: {}}}\n", "a condition on nothing: a value, cidr or not must be given",
     "f:5:25"},
    {BUCKET_RATED "    when: {route: [{not: [a]}]}\n", "a list inside a list of a condition", "f:5:26"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.0/8, not: a}}\n",
     "a condition is either cidr or not; use {not: {cidr: ...}}", "f:5:16"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.0/8, cidr: 10.0.0.0/8}}\n",
     "\"cidr\" is given twice; it stands already in line 5", "f:5:35"},
    {BUCKET_RATED "    when: {ip: {cidr: [10.0.0.0/8]}}\n", "cidr must be a single value, not a list", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: }}\n", "cidr has no value", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.0}}\n", CIDR_FORM "\"10.0.0.0\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.0/33}}\n", CIDR_FORM "\"10.0.0.0/33\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.0/08}}\n", CIDR_FORM "\"10.0.0.0/08\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0/8}}\n", CIDR_FORM "\"10.0.0/8\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.1.0.0/8}}\n",
     "\"10.1.0.0/8\" has bits set behind its prefix; the network is 10.0.0.0/8", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 10.0.0.1/31}}\n",
     "\"10.0.0.1/31\" has bits set behind its prefix; the network is 10.0.0.0/31", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: 1.2.3.4/0}}\n",
     "\"1.2.3.4/0\" has bits set behind its prefix; the network is 0.0.0.0/0", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: \"2001:db8::1/32\"}}\n",
     "\"2001:db8::1/32\" has bits set behind its prefix; the network is 2001:db8::/32", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: \"2001:db8::/129\"}}\n", CIDR_FORM "\"2001:db8::/129\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: \"::ffff:10.1.0.0/104\"}}\n",
     "\"::ffff:10.1.0.0/104\" has bits set behind its prefix; the network is ::ffff:10.0.0.0/104", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {cidr: example.com/8}}\n", CIDR_FORM "\"example.com/8\"", "f:5:23"},
    {BUCKET_RATED "    when: {ip: {not: {cidr: 10.1.0.0/8}}}\n",
     "\"10.1.0.0/8\" has bits set behind its prefix; the network is 10.0.0.0/8", "f:5:29"},
    {BUCKET_RATED "    when: {ip: [{cidr: 10.1.0.0/8}]}\n",
     "\"10.1.0.0/8\" has bits set behind its prefix; the network is 10.0.0.0/8", "f:5:24"},
    {BUCKET_RATED "    when: {route: \"a\\0b\"}\n", "a value must be at most 1024 bytes of UTF-8 without NUL",
     "f:5:19"},
};

static void every_mistake_is_named_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_refused(i, bad[i].text, bad[i].what, bad[i].where);
    }
}

static const struct {
    const char *text;
    struct hr_rule rule;
} rules[] = {
    {BUCKET "    rate: 50/s\n", {HR_TOKEN_BUCKET, .capacity = 50, .rate = 50, .period_ns = S}},
    {BUCKET "    rate: 50/s\n    burst: 100\n", {HR_TOKEN_BUCKET, .capacity = 100, .rate = 50, .period_ns = S}},
    {BUCKET "    rate: 50/s\n    burst: 1\n", {HR_TOKEN_BUCKET, .capacity = 1, .rate = 50, .period_ns = S}},
    {BUCKET "    rate: 3/m\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 60 * S}},
    {BUCKET "    rate: 3/h\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 3600 * S}},
    {BUCKET "    rate: 3/d\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 86400 * S}},
    {BUCKET "    rate: 3 / d\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 86400 * S}},
    {BUCKET "    rate: 3 per 10s\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 10 * S}},
    {BUCKET "    rate: \"3 per 10 s\"\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 10 * S}},
    {BUCKET "    rate: 3  per  1ms\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = S / 1000}},
    {BUCKET "    rate: 3 per 366d\n", {HR_TOKEN_BUCKET, .capacity = 3, .rate = 3, .period_ns = 366 * 86400 * S}},
    {BUCKET "    rate: 2k/s\n", {HR_TOKEN_BUCKET, .capacity = 2000, .rate = 2000, .period_ns = S}},
    {BUCKET "    rate: 2 M/s\n", {HR_TOKEN_BUCKET, .capacity = 2000000, .rate = 2000000, .period_ns = S}},
    {BUCKET "    rate: 2G per 1s\n", {HR_TOKEN_BUCKET, .capacity = 2 * S, .rate = 2 * S, .period_ns = S}},
    {BUCKET "    rate: 1/s\n    burst: 3KiB\n", {HR_TOKEN_BUCKET, .capacity = 3 << 10, .rate = 1, .period_ns = S}},
    {BUCKET "    rate: 1/s\n    burst: 3 MiB\n", {HR_TOKEN_BUCKET, .capacity = 3 << 20, .rate = 1, .period_ns = S}},
    {BUCKET "    rate: 1/s\n    burst: 1GiB\n", {HR_TOKEN_BUCKET, .capacity = 1 << 30, .rate = 1, .period_ns = S}},
    {BUCKET "    rate: 9007199254740991/s\n", {HR_TOKEN_BUCKET, .capacity = MAX, .rate = MAX, .period_ns = S}},
    {BUCKET "    rate: 1/s\n    burst: 9007199G\n",
     {HR_TOKEN_BUCKET, .capacity = 9007199 * S, .rate = 1, .period_ns = S}},
    {LIMIT "    algorithm: gcra\n    rate: 7/s\n", {HR_GCRA, .capacity = 7, .rate = 7, .period_ns = S}},
    {LIMIT "    algorithm: leaky_bucket\n    rate: 7/s\n    burst: 2\n",
     {HR_LEAKY_BUCKET, .capacity = 2, .rate = 7, .period_ns = S}},
    {WINDOW "    rate: 7/m\n", {HR_FIXED_WINDOW, .capacity = 7, .period_ns = 60 * S}},
    {LIMIT "    algorithm: sliding_window\n    rate: 7/m\n", {HR_SLIDING_WINDOW, .capacity = 7, .period_ns = 60 * S}},
    {LIMIT "    algorithm: sliding_log\n    rate: 100k/m\n", {HR_SLIDING_LOG, .capacity = 100000, .period_ns = 60 * S}},
    {QUOTA "    quota: 5/hour\n", {HR_QUOTA, .unit = HR_HOUR, .capacity = 5}},
    {QUOTA "    quota: 5/day\n    time_zone: UTC\n", {HR_QUOTA, .unit = HR_DAY, .capacity = 5}},
    {QUOTA "    quota: 5 / week\n    time_zone: Etc/UTC\n", {HR_QUOTA, .unit = HR_WEEK, .capacity = 5}},
    {QUOTA "    quota: 5k/month\n", {HR_QUOTA, .unit = HR_MONTH, .capacity = 5000}},
    {QUOTA "    quota: 9007199254740991/year\n", {HR_QUOTA, .unit = HR_YEAR, .capacity = MAX}},
    {CONCURRENCY "    slots: 5\n", {HR_CONCURRENCY, .capacity = 5, .ttl_ns = 60 * S}},
    {CONCURRENCY "    slots: 1k\n    ttl: 1ms\n", {HR_CONCURRENCY, .capacity = 1000, .ttl_ns = S / 1000}},
    {CONCURRENCY "    slots: 5\n    ttl: 366d\n", {HR_CONCURRENCY, .capacity = 5, .ttl_ns = 366 * 86400 * S}},
};

static void every_algorithm_reads_its_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct hr_limits_file *file = parse_good(rules[i].text);
        const struct hr_rule *got = &file->limits[0].rule, *want = &rules[i].rule;
        if (file->limit_count != 1 || got->algorithm != want->algorithm || got->unit != want->unit ||
            got->capacity != want->capacity || got->rate != want->rate || got->period_ns != want->period_ns ||
            got->ttl_ns != want->ttl_ns || got->zone != want->zone) {
            fail_msg("row %zu:\n%s", i, rules[i].text);
        }
        hr_limits_file_free(file);
    }
}

/* One condition, as the pattern list it reads to: kinds e, g, c for exact, glob, cidr, capital where negated. */
static const struct {
    const char *when;
    bool negated;
    const char *kinds;
    const char *texts[3];
} conditions[] = {
    {"exact", false, "e", {"exact"}},
    {"\"\"", false, "e", {""}},
    {"3", false, "e", {"3"}},
    {"true", false, "e", {"true"}},
    {"1.50", false, "e", {"1.50"}},
    {"\"null\"", false, "e", {"null"}},
    {"\"payments.*\"", false, "g", {"payments.*"}},
    {"pay*s", false, "g", {"pay*s"}},
    {"[a, \"b*\", 10]", false, "ege", {"a", "b*", "10"}},
    {"{cidr: 10.0.0.0/8}", false, "c", {"10.0.0.0/8"}},
    {"{cidr: \"2001:db8::/32\"}", false, "c", {"2001:db8::/32"}},
    {"{not: a}", true, "e", {"a"}},
    {"{not: {not: a}}", false, "e", {"a"}},
    {"{not: {not: {not: \"a*\"}}}", true, "g", {"a*"}},
    {"{not: {cidr: 0.0.0.0/0}}", true, "c", {"0.0.0.0/0"}},
    {"{not: [a, b]}", true, "ee", {"a", "b"}},
    {"[{not: a}, {cidr: 10.0.0.0/8}, {not: {cidr: 10.1.0.0/16}}]", false, "EcC", {"a", "10.0.0.0/8", "10.1.0.0/16"}},
    {"{not: [{not: {not: \"x*\"}}, {not: y}]}", true, "gE", {"x*", "y"}},
};

static char kind_letter(const struct hr_pattern *pattern)
{
    static const char letters[2][3] = {{[HR_MATCH_EXACT] = 'e', [HR_MATCH_GLOB] = 'g', [HR_MATCH_CIDR] = 'c'},
                                       {[HR_MATCH_EXACT] = 'E', [HR_MATCH_GLOB] = 'G', [HR_MATCH_CIDR] = 'C'}};
    return letters[pattern->negated][pattern->kind];
}

static void percentages_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        uint32_t reserve_ppm, slack_ppm;
    } rows[] = {
        {BUCKET_RATED, 0, 0},
        {BUCKET_RATED "    scope: region\n", 0, 0},
        {GLOBAL, 200000, 0},
        {GLOBAL "    reserve: 0%\n", 0, 0},
        {GLOBAL "    reserve: 100%\n    slack: 100.0000%\n", 1000000, 1000000},
        {GLOBAL "    reserve: 0.0001%\n", 1, 0},
        {GLOBAL "    reserve: 33.3333%\n", 333333, 0},
        {GLOBAL "    slack: 2.5 %\n", 200000, 25000},
        {GLOBAL "    slack: 0.05%\n", 200000, 500},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_limits_file *file = parse_good(rows[i].lines);
        const struct hr_limit *limit = &file->limits[0];
        if (limit->reserve_ppm != rows[i].reserve_ppm || limit->slack_ppm != rows[i].slack_ppm) {
            fail_msg("row %zu: reserve %u, slack %u", i, limit->reserve_ppm, limit->slack_ppm);
        }
        hr_limits_file_free(file);
    }
}

static void every_shape_of_a_condition_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(conditions); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), BUCKET_RATED "    when: {attr.x: %s}\n", conditions[i].when);
        struct hr_limits_file *file = parse_good(text);
        assert_int_equal(file->limits[0].when_count, 1);
        const struct hr_condition *condition = &file->limits[0].when[0];
        assert_span(condition->attribute, "attr.x");
        if (condition->negated != conditions[i].negated || condition->pattern_count != strlen(conditions[i].kinds)) {
            fail_msg("row %zu: %s", i, conditions[i].when);
        }
        for (uint32_t k = 0; k < condition->pattern_count; k++) {
            if (kind_letter(&condition->patterns[k]) != conditions[i].kinds[k]) {
                fail_msg("row %zu: %s, pattern %u", i, conditions[i].when, k);
            }
            assert_span(condition->patterns[k].text, conditions[i].texts[k]);
        }
        hr_limits_file_free(file);
    }
}

static const char full[] = "# every key\n"
                           "limits:\n"
                           "  - name: key-rps\n"
                           "    key: [api_key, org]\n"
                           "    when: {route: \"payments.*\", ip: {not: {cidr: 10.0.0.0/8}}}\n"
                           "    algorithm: token_bucket\n"
                           "    rate: 50/s\n"
                           "    burst: 100\n"
                           "    scope: global\n"
                           "    reserve: 12.5%\n"
                           "    slack: 5%\n"
                           "    mode: shadow\n"
                           "    durability: reserved\n"
                           "    on_unavailable: deny\n"
                           "  - {name: berlin, algorithm: quota, quota: 1M/month, time_zone: Europe/Berlin}\n"
                           "  - {name: munich, algorithm: quota, quota: 3/day, time_zone: Europe/Berlin}\n"
                           "  - {name: jobs, key: [org], algorithm: concurrency, slots: 10, ttl: 1m}\n";

static void whole_file_reads_to_its_limits_in_order(void **state)
{
    (void)state;
    struct hr_limits_file *file = parse_good(full);
    assert_int_equal(file->limit_count, 4);
    const struct hr_limit *first = &file->limits[0], *berlin = &file->limits[1], *last = &file->limits[3];
    assert_span(first->name, "key-rps");
    assert_int_equal(first->key_count, 2);
    assert_span(first->key[0], "api_key");
    assert_span(first->key[1], "org");
    assert_int_equal(first->when_count, 2);
    assert_span(first->when[0].attribute, "route");
    assert_span(first->when[1].attribute, "ip");
    assert_int_equal(first->when[1].patterns[0].cidr.prefix_bits, 8);
    assert_int_equal(first->scope, HR_SCOPE_GLOBAL);
    assert_int_equal(first->reserve_ppm, 125000);
    assert_int_equal(first->slack_ppm, 50000);
    assert_int_equal(first->mode, HR_SHADOW);
    assert_int_equal(first->durability, HR_RESERVED);
    assert_int_equal(first->on_unavailable, HR_UNAVAILABLE_DENY);
    assert_non_null(berlin->rule.zone);
    assert_ptr_equal(berlin->rule.zone, file->limits[2].rule.zone);
    assert_span(last->name, "jobs");
    assert_int_equal(last->mode, HR_ENFORCE);
    assert_int_equal(last->scope, HR_SCOPE_REGION);
    assert_int_equal(last->durability, HR_PERIODIC);
    assert_int_equal(last->on_unavailable, HR_UNAVAILABLE_LOCAL);
    hr_limits_file_free(file);
}

static void empty_list_is_a_file_without_limits(void **state)
{
    (void)state;
    static const char *const texts[] = {"limits: []", "\xef\xbb\xbflimits: []\r\n", "---\nlimits:\n  []\n...\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct hr_limits_file *file = parse_good(texts[i]);
        assert_int_equal(file->limit_count, 0);
        hr_limits_file_free(file);
    }
}

/* A prefix is a file cut short: right or wrong, it says so in one line, and reads nothing beyond its end. */
static void every_prefix_is_read_or_refused_with_a_place(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < sizeof(full); bytes++) {
        struct hr_problem problem;
        char *copy = malloc(bytes + 1); /* exact, so that a sanitizer sees a read behind it */
        assert_non_null(copy);
        memcpy(copy + 1, full, bytes);
        struct hr_limits_file *file = parse((struct hr_span){copy + 1, bytes}, &problem);
        free(copy);
        if (file == NULL && (problem.what[0] == '\0' || strncmp(problem.where, "f:", 2) != 0)) {
            fail_msg("%zu bytes: no reason is given", bytes);
        }
        hr_limits_file_free(file);
    }
}

static void bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct hr_span text;
        const char *what, *where;
    } rows[] = {
        {{"limits:\n \0", 10}, "not valid YAML: control characters are not allowed", "f:2:2"},
        {{"a: \xff", 4}, "not valid YAML: invalid leading UTF-8 octet", "f:1:4"},
        {{"\xc3\xa9: \xc3", 5}, "not valid YAML: incomplete UTF-8 octet sequence", "f:1:4"},
        {{"\xff\xfe", 2}, "not valid YAML: invalid leading UTF-8 octet", "f:1:1"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct hr_problem problem;
        assert_null(parse(rows[i].text, &problem));
        if (strcmp(problem.what, rows[i].what) != 0 || strcmp(problem.where, rows[i].where) != 0) {
            fail_msg("row %zu: %s (%s)", i, problem.what, problem.where);
        }
    }
}

/* `item`, with its number, `count` times after head. */
static char *repeat(const char *head, const char *item, unsigned count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    (void)fputs(head, out);
    for (unsigned i = 0; i < count; i++) {
        (void)fprintf(out, "%s%u\n", item, i);
    }
    assert_int_equal(fclose(out), 0);
    return text;
}

static void as_many_as_allowed_are_read_and_one_more_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *item, *what, *where;
        unsigned max;
    } rows[] = {
        {"limits:\n", "- algorithm: gcra\n  rate: 1/s\n  key: [a]\n  name: n",
         "a file has at most 16384 limits, not 16385", "f:2:1", HR_LIMITS_MAX},
        {"limits:\n  - {name: a, key: [a], algorithm: gcra, rate: 1/s}\n",
         "  - algorithm: gcra\n    rate: 1/s\n    name: n",
         "every request would touch more than 128 limits: this is one more without key and when", "f:387:5",
         HR_TOUCHED_MAX},
        {BUCKET_RATED "    key:\n", "    - a", "key must have 1 to 32 entries, not 33", "f:6:5", HR_ATTRIBUTES_MAX},
        {BUCKET_RATED "    when:\n      a:\n", "      - v", "a condition's list has at most 1024 entries, not 1025",
         "f:7:7", HR_PATTERNS_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *text = repeat(rows[i].head, rows[i].item, rows[i].max);
        hr_limits_file_free(parse_good(text));
        free(text);
        text = repeat(rows[i].head, rows[i].item, rows[i].max + 1);
        assert_refused(i, text, rows[i].what, rows[i].where);
        free(text);
    }
}

static void value_of_1024_bytes_is_read_and_one_more_refused(void **state)
{
    (void)state;
    char value[HR_ATTRIBUTE_VALUE_BYTES_MAX + 2], text[sizeof(value) + 256];
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    (void)snprintf(text, sizeof(text), BUCKET_RATED "    when: {a: %s}\n", value + 1);
    hr_limits_file_free(parse_good(text));
    (void)snprintf(text, sizeof(text), BUCKET_RATED "    when: {a: %s}\n", value);
    assert_refused(0, text, "a value must be at most 1024 bytes of UTF-8 without NUL", "f:5:15");
}

/* Files that are no limits file at all: each is told by its path alone, for there is no line to name. */
struct folder {
    char path[256], file[272];
};

static void assert_load_refused(const char *path, const char *what)
{
    struct hr_problem problem = {0};
    assert_null(hr_limits_file_load(path, &problem));
    assert_string_equal(problem.what, what);
    assert_string_equal(problem.where, path);
}

static int make_folder(void **state)
{
    static struct folder folder;
    if (!hr_temp_folder("test", folder.path, sizeof(folder.path))) {
        return -1;
    }
    (void)snprintf(folder.file, sizeof(folder.file), "%s/limits.yaml", folder.path);
    *state = &folder;
    return 0;
}

static int drop_folder(void **state)
{
    const struct folder *folder = *state;
    (void)unlink(folder->file);
    return rmdir(folder->path);
}

static void what_is_no_readable_file_is_refused_with_its_path(void **state)
{
    const struct folder *folder = *state;
    assert_load_refused(folder->file, "cannot open the file: No such file or directory");
    assert_load_refused(folder->path, "this is a folder, not a file");
    assert_load_refused("/dev/null", "this is not a regular file");
    assert_int_equal(mkfifo(folder->file, 0600), 0);
    assert_load_refused(folder->file, "this is not a regular file"); /* and nobody waits for its writer */
    assert_int_equal(unlink(folder->file), 0);
}

static void file_of_the_greatest_size_is_read_and_a_longer_one_refused(void **state)
{
    const struct folder *folder = *state;
    static const char head[] = "limits: []\n#";
    FILE *out = fopen(folder->file, "w");
    assert_non_null(out);
    (void)fputs(head, out);
    for (size_t i = sizeof(head) - 1; i < HR_LIMITS_FILE_BYTES_MAX; i++) {
        (void)putc('x', out);
    }
    assert_int_equal(fflush(out), 0);
    struct hr_problem problem = {0};
    struct hr_limits_file *file = hr_limits_file_load(folder->file, &problem);
    assert_string_equal(problem.what, "");
    assert_non_null(file);
    hr_limits_file_free(file);
    (void)putc('x', out);
    assert_int_equal(fclose(out), 0);
    assert_load_refused(folder->file, "the file is too long: at most 16777216 bytes are read");
}

static void zones_come_from_the_folder_that_tzdir_names(void **state)
{
    const struct folder *folder = *state;
    assert_int_equal(setenv("TZDIR", folder->path, 1), 0);
    assert_refused(0, QUOTA "    quota: 3/day\n    time_zone: Europe/Berlin\n", NO_ZONE "\"Europe/Berlin\"", "f:5:16");
    hr_limits_file_free(parse_good(QUOTA "    quota: 3/day\n    time_zone: UTC\n")); /* needs no file */
    assert_int_equal(unsetenv("TZDIR"), 0);
}

static void damaged_zone_file_is_refused(void **state)
{
    const struct folder *folder = *state;
    char path[sizeof(folder->path) + 8];
    (void)snprintf(path, sizeof(path), "%s/Torn", folder->path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs("TZif2", out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(setenv("TZDIR", folder->path, 1), 0);
    assert_refused(0, QUOTA "    quota: 3/day\n    time_zone: Torn\n",
                   "cannot read the time zone \"Torn\": input ends early", "f:5:16");
    assert_int_equal(unsetenv("TZDIR"), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(every_algorithm_reads_its_numbers),
        cmocka_unit_test(percentages_are_read_exactly),
        cmocka_unit_test(every_shape_of_a_condition_is_read),
        cmocka_unit_test(whole_file_reads_to_its_limits_in_order),
        cmocka_unit_test(empty_list_is_a_file_without_limits),
        cmocka_unit_test(every_prefix_is_read_or_refused_with_a_place),
        cmocka_unit_test(bytes_that_are_no_text_are_refused),
        cmocka_unit_test(as_many_as_allowed_are_read_and_one_more_refused),
        cmocka_unit_test(value_of_1024_bytes_is_read_and_one_more_refused),
        cmocka_unit_test_setup_teardown(what_is_no_readable_file_is_refused_with_its_path, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(file_of_the_greatest_size_is_read_and_a_longer_one_refused, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(zones_come_from_the_folder_that_tzdir_names, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(damaged_zone_file_is_refused, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
