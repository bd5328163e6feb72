#include "rpc/method.h"

static const struct hr_span names[] = {
#define X(method, name) [HR_METHOD_##method] = {(name), sizeof(name) - 1},
    HR_METHOD_LIST(X)
#undef X
        [HR_METHOD_UNKNOWN] = {"", 0},
};

/* Is the text this literal? Its length is: compared in a few words, without a call. */
#define IS(text, literal) (memcmp((text).at, (literal), sizeof(literal) - 1) == 0)

/* A test holds it against the list. */
enum hr_method hr_method_find(struct hr_span name)
{
    switch (name.bytes) {
    case 4:
        return IS(name, "peer") ? HR_METHOD_PEER : HR_METHOD_UNKNOWN;
    case 5:
        return IS(name, "check") ? HR_METHOD_CHECK : IS(name, "renew") ? HR_METHOD_RENEW : HR_METHOD_UNKNOWN;
    case 6:
        return IS(name, "refund") ? HR_METHOD_REFUND : IS(name, "status") ? HR_METHOD_STATUS : HR_METHOD_UNKNOWN;
    case 7:
        return IS(name, "release") ? HR_METHOD_RELEASE : IS(name, "members") ? HR_METHOD_MEMBERS : HR_METHOD_UNKNOWN;
    case 8:
        return IS(name, "throttle")   ? HR_METHOD_THROTTLE
               : IS(name, "hot_keys") ? HR_METHOD_HOT_KEYS
                                      : HR_METHOD_UNKNOWN;
    case 10:
        return IS(name, "check_many")   ? HR_METHOD_CHECK_MANY
               : IS(name, "limits.get") ? HR_METHOD_LIMITS_GET
               : IS(name, "limits.put") ? HR_METHOD_LIMITS_PUT
                                        : HR_METHOD_UNKNOWN;
    case 11:
        return IS(name, "limits.list")   ? HR_METHOD_LIMITS_LIST
               : IS(name, "chaos.clock") ? HR_METHOD_CHAOS_CLOCK
                                         : HR_METHOD_UNKNOWN;
    case 13:
        return IS(name, "limits.delete") ? HR_METHOD_LIMITS_DELETE : HR_METHOD_UNKNOWN;
    case 14:
        return IS(name, "members.forget")   ? HR_METHOD_MEMBERS_FORGET
               : IS(name, "regions.remove") ? HR_METHOD_REGIONS_REMOVE
                                            : HR_METHOD_UNKNOWN;
    default:
        return HR_METHOD_UNKNOWN;
    }
}

struct hr_span hr_method_name(enum hr_method method)
{
    return names[(unsigned)method < HR_METHOD_UNKNOWN ? method : HR_METHOD_UNKNOWN];
}
