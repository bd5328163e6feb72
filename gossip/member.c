#include "gossip/member.h"

#include "base/hash.h"

uint64_t hr_member_id(struct hr_span region, struct hr_span name)
{
    /* The region's hash is the seed of the name's, so that no letter can move from one to the other unnoticed. */
    uint64_t id = hr_plain_hash(name.at, name.bytes, hr_plain_hash(region.at, region.bytes, region.bytes));
    return id == 0 ? 1 : id;
}

uint32_t hr_members_find(const struct hr_members *members, uint64_t id)
{
    for (uint32_t i = 0; i < members->count; i++) {
        if (members->all[i].id == id) {
            return i;
        }
    }
    return HR_MEMBER_NONE;
}

const char *hr_member_state_name(enum hr_member_state state)
{
    switch (state) {
    case HR_MEMBER_ALIVE:
        return "alive";
    case HR_MEMBER_SUSPECT:
        return "suspect";
    case HR_MEMBER_DEAD:
        return "dead";
    case HR_MEMBER_LEFT:
        return "left";
    }
    return "unknown";
}
