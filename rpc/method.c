#include "rpc/method.h"

static const struct hr_span names[] = {
#define X(method, name) [HR_METHOD_##method] = {(name), sizeof(name) - 1},
    HR_METHOD_LIST(X)
#undef X
        [HR_METHOD_UNKNOWN] = {"", 0},
};

/* The one method that a name of this length and letter can be. A test holds it against the list. */
static enum hr_method guess(struct hr_span name)
{
    switch (name.bytes) {
    case 4:
        return HR_METHOD_PEER;
    case 5:
        return name.at[0] == 'c' ? HR_METHOD_CHECK : HR_METHOD_RENEW;
    case 6:
        return name.at[0] == 'r' ? HR_METHOD_REFUND : HR_METHOD_STATUS;
    case 7:
        return name.at[0] == 'r' ? HR_METHOD_RELEASE : HR_METHOD_MEMBERS;
    case 8:
        return name.at[0] == 't' ? HR_METHOD_THROTTLE : HR_METHOD_HOT_KEYS;
    case 10:
        if (name.at[0] == 'c') {
            return HR_METHOD_CHECK_MANY;
        }
        return name.at[7] == 'g' ? HR_METHOD_LIMITS_GET : HR_METHOD_LIMITS_PUT;
    case 11:
        return name.at[0] == 'l' ? HR_METHOD_LIMITS_LIST : HR_METHOD_CHAOS_CLOCK;
    case 13:
        return HR_METHOD_LIMITS_DELETE;
    case 14:
        return name.at[0] == 'm' ? HR_METHOD_MEMBERS_FORGET : HR_METHOD_REGIONS_REMOVE;
    default:
        return HR_METHOD_UNKNOWN;
    }
}

enum hr_method hr_method_find(struct hr_span name)
{
    enum hr_method method = guess(name);
    return hr_span_equal(names[method], name) ? method : HR_METHOD_UNKNOWN;
}

struct hr_span hr_method_name(enum hr_method method)
{
    return names[(unsigned)method < HR_METHOD_UNKNOWN ? method : HR_METHOD_UNKNOWN];
}
