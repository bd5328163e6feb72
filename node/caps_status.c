#include "node/caps_status.h"

static void pack_number(struct hr_packer *out, const char *key, uint64_t number)
{
    hr_pack_text(out, hr_span_of(key));
    hr_pack_whole(out, number < (uint64_t)HR_ANSWER_MAX ? number : (uint64_t)HR_ANSWER_MAX);
}

static void pack_flag(struct hr_packer *out, const char *key, bool flag)
{
    hr_pack_text(out, hr_span_of(key));
    hr_pack_bool(out, flag);
}

static void pack_regions(struct hr_packer *out, const struct hr_cap_status *status)
{
    hr_pack_text(out, HR_SPAN("regions"));
    hr_pack_array(out, status->region_count - 1);
    for (uint32_t k = 0; k < status->region_count; k++) {
        if (k == status->self) {
            continue;
        }
        hr_ns age = status->regions[k].word_age_ns;
        hr_pack_map(out, 4);
        hr_pack_text(out, HR_SPAN("name"));
        hr_pack_text(out, status->regions[k].name);
        pack_flag(out, "up", status->regions[k].is_up);
        pack_flag(out, "removed", status->regions[k].is_stopped);
        hr_pack_text(out, HR_SPAN("word_age_ms"));
        if (age < 0) {
            hr_pack_nil(out);
        } else {
            hr_pack_whole(out, (uint64_t)(age / HR_NS_PER_MS));
        }
    }
}

static void pack_limit(struct hr_packer *out, struct hr_span name, const struct hr_cap_limit_status *status)
{
    hr_pack_map(out, 8);
    hr_pack_text(out, HR_SPAN("name"));
    hr_pack_text(out, name);
    pack_flag(out, "known", status->is_known);
    pack_number(out, "home", status->home);
    pack_number(out, "reserve", status->reserve);
    pack_number(out, "hot", status->hot);
    pack_number(out, "share", status->share);
    pack_number(out, "lent", status->lent);
    pack_number(out, "borrowed", status->borrowed);
}

static void pack_limits(struct hr_cap_keeper *keeper, const struct hr_limit_set *set, struct hr_now now,
                        struct hr_packer *out)
{
    uint32_t count = 0;
    struct hr_cap_limit_status status;
    for (uint32_t i = 0; i < set->limit_count; i++) {
        count += set->limits[i].scope == HR_SCOPE_GLOBAL;
    }
    hr_pack_text(out, HR_SPAN("limits"));
    hr_pack_array(out, count);
    for (uint32_t i = 0; i < set->limit_count; i++) {
        if (set->limits[i].scope == HR_SCOPE_GLOBAL) {
            hr_cap_keeper_limit_status(keeper, i, now, &status);
            pack_limit(out, set->limits[i].name, &status);
        }
    }
}

void hr_pack_caps_status(const struct hr_core *core, const struct hr_limit_set *set, struct hr_now now,
                         struct hr_packer *out)
{
    static const char *const origins[] = {
        [HR_CAP_ORIGIN_UNKNOWN] = "unknown", [HR_CAP_ORIGIN_NEW] = "new", [HR_CAP_ORIGIN_OLD] = "old"};
    struct hr_cap_keeper *keeper = hr_core_caps(core);
    struct hr_cap_status status;
    if (keeper == NULL) {
        hr_pack_nil(out);
        return;
    }
    hr_cap_keeper_status(keeper, now.steady, &status);
    hr_pack_map(out, 11);
    pack_number(out, "epoch", status.epoch);
    pack_flag(out, "adopted", status.is_adopted);
    pack_flag(out, "agreed", status.is_agreed);
    hr_pack_text(out, HR_SPAN("origin"));
    hr_pack_text(out, hr_span_of(origins[status.origin]));
    pack_number(out, "hot", status.hot);
    pack_number(out, "hot_max", status.hot_max);
    pack_number(out, "letters_sent", status.counts.letters_out);
    pack_number(out, "letters_received", status.counts.letters_in);
    pack_number(out, "bytes_sent", status.counts.bytes_out);
    pack_regions(out, &status);
    pack_limits(keeper, set, now, out);
}
