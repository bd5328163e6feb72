#include "node/members_map.h"

static void pack_words(struct hr_packer *packer, const char *key, const char *words)
{
    hr_pack_text(packer, hr_span_of(key));
    hr_pack_text(packer, hr_span_of(words));
}

/* Integers in answers stay below 2^53. */
static void pack_number(struct hr_packer *packer, const char *key, uint64_t number)
{
    const uint64_t max = (UINT64_C(1) << 53) - 1;
    hr_pack_text(packer, hr_span_of(key));
    hr_pack_whole(packer, number < max ? number : max);
}

static void pack_member(struct hr_packer *packer, const struct hr_member *member)
{
    hr_pack_map(packer, 6);
    pack_words(packer, "name", member->name);
    pack_words(packer, "region", member->region);
    pack_words(packer, "state", hr_member_state_name(member->state));
    pack_words(packer, "rpc", member->rpc);
    pack_words(packer, "gossip", member->gossip);
    pack_number(packer, "incarnation", member->incarnation);
}

static void pack_places(struct hr_packer *packer, const char *key, const struct hr_cluster_view *view,
                        uint32_t (*place)(void *context, uint32_t partition))
{
    hr_pack_text(packer, hr_span_of(key));
    hr_pack_array(packer, view->partition_count);
    for (uint32_t partition = 0; partition < view->partition_count; partition++) {
        uint32_t member = place(view->context, partition);
        hr_pack_signed(packer, member == HR_MEMBER_NONE ? -1 : (int64_t)member);
    }
}

void hr_pack_members(struct hr_packer *packer, const struct hr_cluster_view *view, bool with_partitions)
{
    const struct hr_members *members = view->members;
    hr_pack_map(packer, with_partitions ? 3 : 2);
    pack_number(packer, "view", members->view);
    hr_pack_text(packer, HR_SPAN("members"));
    hr_pack_array(packer, members->count);
    for (uint32_t i = 0; i < members->count; i++) {
        pack_member(packer, &members->all[i]);
    }
    if (with_partitions) {
        hr_pack_text(packer, HR_SPAN("partitions"));
        hr_pack_map(packer, 2);
        pack_places(packer, "owners", view, view->owner);
        pack_places(packer, "standbys", view, view->standby);
    }
}

enum hr_err hr_members_find_gone(const struct hr_members *members, struct hr_span name, uint64_t *ret_id)
{
    enum hr_err err = HR_E_NOT_FOUND;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct hr_member *member = &members->all[i];
        if (!hr_span_equal(hr_span_of(member->name), name)) {
            continue;
        }
        if (!hr_member_is_live(member)) {
            *ret_id = member->id;
            return HR_OK;
        }
        err = HR_E_INVALID;
    }
    return err;
}
