#include "rpc/method.h"

static const struct hr_span names[] = {
#define X(method, name) [HR_METHOD_##method] = {(name), sizeof(name) - 1},
    HR_METHOD_LIST(X)
#undef X
        [HR_METHOD_UNKNOWN] = {"", 0},
};

/* A test holds it against the list. */
enum hr_method hr_method_find(struct hr_span name)
{
    switch (name.bytes) {
    case 4:
        return HR_SPAN_IS(name, "peer") ? HR_METHOD_PEER : HR_METHOD_UNKNOWN;
    case 5:
        return HR_SPAN_IS(name, "check")   ? HR_METHOD_CHECK
               : HR_SPAN_IS(name, "renew") ? HR_METHOD_RENEW
                                           : HR_METHOD_UNKNOWN;
    case 6:
        return HR_SPAN_IS(name, "refund")   ? HR_METHOD_REFUND
               : HR_SPAN_IS(name, "status") ? HR_METHOD_STATUS
                                            : HR_METHOD_UNKNOWN;
    case 7:
        return HR_SPAN_IS(name, "release")   ? HR_METHOD_RELEASE
               : HR_SPAN_IS(name, "members") ? HR_METHOD_MEMBERS
                                             : HR_METHOD_UNKNOWN;
    case 8:
        return HR_SPAN_IS(name, "throttle")   ? HR_METHOD_THROTTLE
               : HR_SPAN_IS(name, "hot_keys") ? HR_METHOD_HOT_KEYS
                                              : HR_METHOD_UNKNOWN;
    case 10:
        return HR_SPAN_IS(name, "check_many")   ? HR_METHOD_CHECK_MANY
               : HR_SPAN_IS(name, "limits.get") ? HR_METHOD_LIMITS_GET
               : HR_SPAN_IS(name, "limits.put") ? HR_METHOD_LIMITS_PUT
                                                : HR_METHOD_UNKNOWN;
    case 11:
        return HR_SPAN_IS(name, "limits.list")   ? HR_METHOD_LIMITS_LIST
               : HR_SPAN_IS(name, "chaos.clock") ? HR_METHOD_CHAOS_CLOCK
                                                 : HR_METHOD_UNKNOWN;
    case 13:
        return HR_SPAN_IS(name, "limits.delete") ? HR_METHOD_LIMITS_DELETE : HR_METHOD_UNKNOWN;
    case 14:
        return HR_SPAN_IS(name, "members.forget")   ? HR_METHOD_MEMBERS_FORGET
               : HR_SPAN_IS(name, "regions.remove") ? HR_METHOD_REGIONS_REMOVE
                                                    : HR_METHOD_UNKNOWN;
    default:
        return HR_METHOD_UNKNOWN;
    }
}

struct hr_span hr_method_name(enum hr_method method)
{
    return names[(unsigned)method < HR_METHOD_UNKNOWN ? method : HR_METHOD_UNKNOWN];
}
