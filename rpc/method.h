/* Method: what a request may ask for (contract, section 3), by name.
 * Thread: any. Pure. */
#ifndef HR_RPC_METHOD_H
#define HR_RPC_METHOD_H

#include "base/span.h"

/* HR_METHOD_ before it in C, name on the wire */
#define HR_METHOD_LIST(X)               \
    X(CHECK, "check")                   \
    X(CHECK_MANY, "check_many")         \
    X(THROTTLE, "throttle")             \
    X(RELEASE, "release")               \
    X(RENEW, "renew")                   \
    X(REFUND, "refund")                 \
    X(LIMITS_LIST, "limits.list")       \
    X(LIMITS_GET, "limits.get")         \
    X(LIMITS_PUT, "limits.put")         \
    X(LIMITS_DELETE, "limits.delete")   \
    X(MEMBERS, "members")               \
    X(MEMBERS_FORGET, "members.forget") \
    X(REGIONS_REMOVE, "regions.remove") \
    X(STATUS, "status")                 \
    X(HOT_KEYS, "hot_keys")             \
    X(CHAOS_CLOCK, "chaos.clock")       \
    X(PEER, "peer") /* a notification between nodes: node/peer_wire.h */

enum hr_method {
#define X(method, name) HR_METHOD_##method,
    HR_METHOD_LIST(X)
#undef X
        HR_METHOD_UNKNOWN, /* and how many there are */
};

/* HR_METHOD_UNKNOWN: there is none of that name. A few comparisons, whatever the name. */
enum hr_method hr_method_find(struct hr_span name);

/* Empty for HR_METHOD_UNKNOWN. */
struct hr_span hr_method_name(enum hr_method method);

#endif
