#include "chaos/limits_builtin.h"

static const char text[] = "limits:\n"
                           "  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 5/s, burst: 20}\n"
                           "  - {name: key-minute, key: [api_key], algorithm: sliding_window, rate: 200/m}\n"
                           "  - {name: route-rps, key: [route], when: {route: [payments.read, payments.write]},\n"
                           "     algorithm: gcra, rate: 40/s, burst: 80, durability: reserved}\n"
                           "  - {name: tenant-slow, key: [tenant], algorithm: token_bucket, rate: 100/m,\n"
                           "     burst: 200, durability: reserved}\n"
                           "  - {name: write-shape, when: {route: '*.write'}, algorithm: leaky_bucket, rate: 60/s,\n"
                           "     burst: 120, durability: memory}\n"
                           "  - {name: tenant-ten, key: [tenant], algorithm: fixed_window, rate: 100 per 10s}\n"
                           "  - {name: login-log, key: [api_key], when: {route: auth.login},\n"
                           "     algorithm: sliding_log, rate: 30/m}\n"
                           "  - {name: tenant-hour, key: [tenant], algorithm: quota, quota: 20k/hour}\n"
                           "  - {name: jobs, key: [tenant], when: {route: jobs.run}, algorithm: concurrency,\n"
                           "     slots: 20, ttl: 30s}\n";

/* The same limits under caps that hold over all regions: one that is often reached, one whose counters are many, and
 * one that a calendar refills. */
static const char text_with_caps[] =
    "limits:\n"
    "  - {name: cap-all, algorithm: token_bucket, rate: 60/s, burst: 120, scope: global, on_unavailable: deny}\n"
    "  - {name: cap-tenant, key: [tenant], algorithm: gcra, rate: 12/s, burst: 60, scope: global, reserve: 40%,\n"
    "     on_unavailable: deny}\n"
    "  - {name: cap-minute, key: [tenant], when: {route: payments.write}, algorithm: fixed_window, rate: 300/m,\n"
    "     scope: global, on_unavailable: deny}\n"
    "  - {name: key-rps, key: [api_key], algorithm: token_bucket, rate: 5/s, burst: 20}\n"
    "  - {name: route-rps, key: [route], when: {route: [payments.read, payments.write]},\n"
    "     algorithm: gcra, rate: 40/s, burst: 80, durability: reserved}\n";

const struct hr_span hr_limits_builtin = {text, sizeof(text) - 1};
const struct hr_span hr_limits_builtin_caps = {text_with_caps, sizeof(text_with_caps) - 1};
