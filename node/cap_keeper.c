#include "node/cap_keeper.h"

#include <string.h>

#include "limiter/stakes.h"
#include "node/cap_keeper_state.h"

#define FACT_BEGUN ".begun."
#define FACT_STOPPED ".stopped."

/* Partitions are looked at this often, and when somebody asks for one that is not known. */
#define SYNC_NS (10 * HR_NS_PER_MS)

/* So long after a node of another region was first seen, facts of the past would have come. */
#define ORIGIN_NS (3 * HR_NS_PER_S)

#define LINKS_MAX ((HR_REGIONS_MAX - 1) * HR_REGION_NODES_MAX)

/* The lowest bit of a number says something to the regions alone (cap_rules.h). */
static uint32_t limit_of(uint32_t number)
{
    return number & ~UINT32_C(1);
}

/* --- what the caps ask of the limiter --- */

static struct hr_share *host_share(void *context, struct hr_id128 id, uint32_t number, hr_ns now)
{
    struct hr_cap_keeper *keeper = context;
    (void)now;
    return hr_limiter_share(keeper->config.limiter, id, limit_of(number), keeper->now);
}

/* A count is taken up with all that the log knows of it, or not at all. */
static struct hr_escrow *host_escrow(void *context, struct hr_id128 id, uint32_t number, hr_ns now)
{
    struct hr_cap_keeper *keeper = context;
    (void)now;
    if (!keeper->is_restoring && hr_cap_images_next_unrestored(&keeper->images, id, number) != NULL) {
        return NULL;
    }
    return hr_limiter_escrow(keeper->config.limiter, id, limit_of(number), keeper->now);
}

static struct hr_cover_when host_when(void *context, struct hr_id128 id, uint32_t number, hr_ns now)
{
    struct hr_cap_keeper *keeper = context;
    (void)now;
    hr_limiter_update_guard(keeper->config.limiter, id, limit_of(number), keeper->now);
    struct hr_stake_window window = hr_limiter_window(keeper->config.limiter, limit_of(number), keeper->now);
    return (struct hr_cover_when){window.label, hr_max(0, keeper->now.wall.ns - window.begin_ns),
                                  window.end_ns - window.begin_ns};
}

/* --- pricing --- */

/* The number under which the caps know a limit now; 0: they do not. */
static uint32_t number_in_force(const struct hr_cap_keeper *keeper, uint32_t limit)
{
    const struct hr_cap_rule *rule = hr_cap_rules_find(&keeper->current.rules, limit);
    struct hr_cap_limit filled;
    if (rule == NULL || keeper->current.number == 0) {
        return 0;
    }
    hr_cap_rule_fill(&keeper->current.rules, rule, &filled);
    return filled.number;
}

/* A bucket that the epoch in force does not know: the region spends its home, and lends nothing. A count would have to
 * be written down by rules that nobody agreed on: it waits. */
static void price_by_home(struct hr_cap_keeper *keeper, struct hr_id128 id, uint32_t limit)
{
    const struct hr_cap_rule *rule = hr_cap_rules_find(&keeper->local, limit);
    struct hr_cap_limit filled;
    struct hr_lend_homes homes;
    if (rule == NULL || rule->kind != HR_CAP_LEND || keeper->holding[hr_partition_of(id)] != HR_HOLDING) {
        return;
    }
    struct hr_share *share = hr_limiter_share(keeper->config.limiter, id, limit, keeper->now);
    if (share == NULL || share->is_held) {
        return;
    }
    hr_cap_rule_fill(&keeper->local, rule, &filled);
    hr_lend_homes_of(&filled.lend, id.lo, &homes);
    uint32_t self = keeper->config.regions.self;
    const struct hr_price price = {homes.rate[self], homes.depth[self]};
    hr_share_set_price(share, price, price, INT64_MAX);
    share->is_fresh = share->wants_notice = false;
}

static void touch(struct hr_cap_keeper *keeper, struct hr_id128 id, uint32_t limit)
{
    uint32_t number = number_in_force(keeper, limit);
    enum hr_err err = HR_E_NOT_FOUND;
    if (number != 0 && hr_cap_log_restore_counter(keeper, id, number)) {
        err = hr_caps_touch(keeper->caps, id, number, keeper->now.steady);
    }
    keeper->may_write = true;
    if (err == HR_E_NOT_FOUND && number == 0) {
        price_by_home(keeper, id, limit);
    }
}

/* Within a decision: never waits, and looks at no other counter. */
static void price(void *context, struct hr_id128 id, uint32_t limit, struct hr_now now)
{
    struct hr_cap_keeper *keeper = context;
    uint32_t partition = hr_partition_of(id);
    keeper->now = now;
    if (keeper->holding[partition] != HR_HOLDING) {
        hr_cap_keeper_sync_partition(keeper, partition);
    }
    touch(keeper, id, limit);
    if (keeper->holding[partition] == HR_HOLDING) { /* one that the caps look after has its price without asking */
        (void)hr_limiter_share(keeper->config.limiter, id, limit, now);
    }
}

void hr_cap_keeper_serve(struct hr_cap_keeper *keeper, struct hr_now now)
{
    struct hr_id128 id;
    uint32_t limit;
    keeper->now = now;
    while (hr_limiter_next_notice(keeper->config.limiter, &id, &limit)) {
        if (keeper->holding[hr_partition_of(id)] == HR_HOLDING) {
            touch(keeper, id, limit);
        }
    }
}

static void note_generation(struct hr_cap_keeper *keeper)
{
    uint32_t generation = hr_caps_generation(keeper->caps);
    if (generation != keeper->generation) {
        keeper->generation = generation;
        hr_limiter_reprice_stakes(keeper->config.limiter);
    }
}

/* --- partitions of this node --- */

/* A copy may be believed only while this node is the standby, and nobody else has had the partition since. */
static void review_copy(struct hr_cap_keeper *keeper, uint32_t partition)
{
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    const struct hr_tenure *tenure = keeper->config.tenure;
    uint32_t self = keeper->config.members->self;
    bool is_close = hr_tenure_owner(tenure, partition) == self || hr_tenure_standby(tenure, partition) == self;
    if (mark->trust != HR_CAP_TRUST_NONE && !is_close && hr_tenure_lineage(tenure) != 0) {
        mark->trust = HR_CAP_TRUST_NONE;
        mark->is_coming = false;
        hr_cap_images_end(&keeper->images, partition);
        keeper->marks_are_unsaved = true;
    }
}

static void lose(struct hr_cap_keeper *keeper, uint32_t partition, enum hr_holding holding)
{
    if (keeper->holding[partition] == HR_HOLDING) {
        hr_cap_log_disown(keeper, partition);
    }
    keeper->images.marks[partition].is_founded = false;
    keeper->is_gone[partition] = keeper->has_drops = true;
    if (holding == HR_HOLDING_NOT) {
        keeper->images.marks[partition].trust = HR_CAP_TRUST_NONE;
        hr_cap_images_end(&keeper->images, partition);
        keeper->marks_are_unsaved = true;
    }
}

static bool is_gone(void *context, struct hr_id128 id)
{
    const struct hr_cap_keeper *keeper = context;
    return keeper->is_gone[hr_partition_of(id)];
}

static void drop_stakes(struct hr_cap_keeper *keeper)
{
    if (keeper->has_drops) {
        hr_limiter_drop_stakes(keeper->config.limiter, is_gone, keeper, keeper->now);
        memset(keeper->is_gone, 0, sizeof(keeper->is_gone));
        keeper->has_drops = false;
    }
}

void hr_cap_keeper_sync_partition(struct hr_cap_keeper *keeper, uint32_t partition)
{
    const struct hr_tenure *tenure = keeper->config.tenure;
    enum hr_holding holding = hr_tenure_holding(tenure, partition);
    struct hr_cap_mark *mark = &keeper->images.marks[partition];
    if (holding == keeper->holding[partition]) {
        if (holding == HR_HOLDING && mark->epoch != hr_tenure_epoch(tenure, partition)) {
            mark->epoch = hr_tenure_epoch(tenure, partition); /* it stays here all the same */
            keeper->marks_are_unsaved = true;
        }
        return;
    }
    if (holding == HR_HOLDING) {
        drop_stakes(keeper);
        if (keeper->holding[partition] == HR_HOLDING_GIVING) { /* it was not given after all */
            mark->epoch = hr_tenure_epoch(tenure, partition);
        }
        hr_cap_log_own(keeper, partition);
    } else {
        lose(keeper, partition, holding);
    }
    keeper->holding[partition] = (uint8_t)holding;
}

static void sync_partitions(struct hr_cap_keeper *keeper)
{
    keeper->sync_at = keeper->now.steady + SYNC_NS;
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        hr_cap_keeper_sync_partition(keeper, p);
        if (keeper->holding[p] == HR_HOLDING_NOT) {
            review_copy(keeper, p);
        }
    }
    drop_stakes(keeper);
}

/* --- partners in the other regions --- */

static uint64_t hash_candidates(const struct hr_candidate *candidates, uint32_t count)
{
    uint64_t hash = 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t words[] = {candidates[i].id, candidates[i].host, candidates[i].weight};
        hash = hr_plain_hash(words, sizeof(words), hash);
    }
    return hash;
}

static void set_owners(struct hr_cap_keeper *keeper, uint32_t region, const struct hr_candidate *candidates)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        uint8_t owner = keeper->map.owner[p];
        uint64_t member = owner == HR_CANDIDATE_NONE ? 0 : candidates[owner].id;
        enum hr_err err = hr_caps_set_owner(keeper->caps, region, p, member);
        (void)err; /* with more partners than a region may have nodes: the one before stays */
    }
}

static void follow_region(struct hr_cap_keeper *keeper, uint32_t region)
{
    struct hr_candidate candidates[HR_REGION_NODES_MAX];
    const struct hr_span *name = &keeper->config.regions.names[region];
    char text[HR_MEMBER_NAME_BYTES_MAX + 1] = "";
    memcpy(text, name->at, name->bytes < sizeof(text) ? name->bytes : sizeof(text) - 1);
    uint32_t count = hr_partition_candidates(keeper->config.members, text, candidates);
    uint64_t hash = hash_candidates(candidates, count);
    if (count == 0 || hash == keeper->candidates_hash[region]) {
        return; /* whoever was there last stays the partner: what it was lent is still its own */
    }
    keeper->candidates_hash[region] = hash;
    if (keeper->contact_at < 0) {
        keeper->contact_at = keeper->now.steady;
    }
    hr_partition_map_build(&keeper->map, candidates, count);
    set_owners(keeper, region, candidates);
}

static void follow_members(struct hr_cap_keeper *keeper)
{
    if (keeper->view == keeper->config.members->view) {
        return;
    }
    keeper->view = keeper->config.members->view;
    for (uint32_t k = 0; k < keeper->config.regions.count; k++) {
        if (k != keeper->config.regions.self) {
            follow_region(keeper, k);
        }
    }
}

/* --- facts about regions --- */

/* A fact's name: its kind and the region's name. False: too long for one. */
static bool fact_name(const char *kind, struct hr_span region, char *text, struct hr_span *ret_name)
{
    size_t bytes = strlen(kind);
    if (bytes + region.bytes > HR_FACT_NAME_BYTES_MAX) {
        return false;
    }
    memcpy(text, kind, bytes); /* NOLINT(bugprone-not-null-terminated-result): it is a span, with a length */
    memcpy(text + bytes, region.at, region.bytes);
    *ret_name = (struct hr_span){text, bytes + region.bytes};
    return true;
}

static bool find_fact(const struct hr_cap_keeper *keeper, const char *kind, uint32_t region, struct hr_span *ret_value)
{
    char text[HR_FACT_NAME_BYTES_MAX];
    struct hr_span name;
    return fact_name(kind, keeper->config.regions.names[region], text, &name) &&
           hr_facts_find(keeper->config.facts, name, ret_value);
}

static enum hr_err write_fact(struct hr_cap_keeper *keeper, const char *kind, uint32_t region, uint64_t value)
{
    char text[HR_FACT_NAME_BYTES_MAX];
    struct hr_span name;
    uint8_t bytes[8];
    struct hr_le_writer writer = hr_le_writer_of(bytes, sizeof(bytes));
    struct hr_facts *facts = keeper->config.facts;
    if (!fact_name(kind, keeper->config.regions.names[region], text, &name)) {
        return HR_E_RANGE;
    }
    hr_le_write_u64(&writer, value);
    return hr_facts_write(facts, name, (struct hr_span){(const char *)bytes, writer.used},
                          hr_facts_next_version(facts, keeper->now), keeper->config.members, keeper->config.outbox);
}

/* The fact names the lineage of the region's first charter: of a region that was lost and founded anew it is another.
 */
static void learn_origin(struct hr_cap_keeper *keeper)
{
    uint32_t self = keeper->config.regions.self;
    uint64_t lineage = hr_tenure_lineage(keeper->config.tenure);
    struct hr_span value = HR_SPAN("");
    bool has_fact = find_fact(keeper, FACT_BEGUN, self, &value);
    if (lineage == 0 || (keeper->origin != HR_CAP_ORIGIN_UNKNOWN && has_fact)) {
        return;
    }
    if (keeper->origin != HR_CAP_ORIGIN_UNKNOWN) { /* nobody knows any more: this node does */
        (void)write_fact(keeper, FACT_BEGUN, self, lineage);
        return;
    }
    struct hr_le_reader reader = hr_le_reader_of(value);
    bool is_settled = has_fact || (keeper->contact_at >= 0 && keeper->now.steady - keeper->contact_at > ORIGIN_NS);
    if (!is_settled) {
        return;
    }
    bool is_new = !has_fact || hr_le_read_u64(&reader) == lineage;
    keeper->origin = is_new ? HR_CAP_ORIGIN_NEW : HR_CAP_ORIGIN_OLD;
    if (!has_fact) {
        (void)write_fact(keeper, FACT_BEGUN, self, lineage);
    }
    hr_cap_log_settle_origin(keeper);
}

static void learn_stopped(struct hr_cap_keeper *keeper)
{
    struct hr_span value;
    for (uint32_t k = 0; k < keeper->config.regions.count; k++) {
        bool is_known = (keeper->stopped >> k & 1) != 0;
        if (!is_known && k != keeper->config.regions.self && find_fact(keeper, FACT_STOPPED, k, &value) &&
            value.bytes > 0) {
            keeper->stopped |= UINT32_C(1) << k;
            hr_caps_declare_stopped(keeper->caps, k);
            keeper->marks_are_unsaved = true;
        }
    }
}

enum hr_err hr_cap_keeper_remove_region(struct hr_cap_keeper *keeper, struct hr_span region, struct hr_now now)
{
    const struct hr_cap_regions *regions = &keeper->config.regions;
    keeper->now = now;
    for (uint32_t k = 0; k < regions->count; k++) {
        if (k != regions->self && hr_span_equal(regions->names[k], region)) {
            enum hr_err err = write_fact(keeper, FACT_STOPPED, k, 1);
            learn_stopped(keeper);
            return err;
        }
    }
    return HR_E_NOT_FOUND;
}

/* --- the keeper --- */

static struct hr_caps_config caps_config(const struct hr_cap_keeper_config *config)
{
    return (struct hr_caps_config){
        .region_count = config->regions.count,
        .self = config->regions.self,
        .counters_max = config->hot_max,
        .links_max = LINKS_MAX,
        .limits_max = 2 * HR_CAP_RULES_MAX,
        .tick = HR_CAP_TICK_NS,
        .lease = HR_CAP_LEASE_NS,
        .incarnation = config->incarnation,
        .log = config->saves,
        .is_sole = config->saves, /* whoever has opened the store has it alone */
    };
}

struct hr_cap_keeper *hr_cap_keeper_init(const struct hr_cap_keeper_config *config, struct hr_bump *bump,
                                         struct hr_now now)
{
    struct hr_cap_keeper *keeper = hr_bump_take(bump, 1, sizeof(*keeper), 64);
    const struct hr_caps_config caps = caps_config(config);
    const struct hr_caps_host host = {keeper, host_share, host_escrow, host_when};
    struct hr_cap_images images = {0};
    struct hr_caps *made = hr_caps_init(&caps, &host, bump, now.steady);
    hr_cap_images_init(keeper == NULL ? &images : &keeper->images, config->hot_max * HR_CAP_IMAGES_PER_COUNTER, bump);
    if (keeper == NULL) {
        return NULL;
    }
    keeper->config = *config;
    keeper->caps = made;
    keeper->now = now;
    keeper->started_at = now.steady;
    keeper->contact_at = -1;
    keeper->generation = hr_caps_generation(made);
    hr_limiter_set_pricer(config->limiter, (struct hr_pricer){price, keeper});
    return keeper;
}

void hr_cap_keeper_load(struct hr_cap_keeper *keeper, const struct hr_limit_set *set, struct hr_now now)
{
    keeper->now = now;
    hr_cap_epoch_load(keeper, set);
    hr_limiter_reprice_stakes(keeper->config.limiter); /* those of a new version are to be found by their prices */
}

/* Where the caps have begun anew, all that the log knows goes into them again. */
static void restore_again(struct hr_cap_keeper *keeper)
{
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        if (keeper->holding[p] == HR_HOLDING) {
            keeper->images.marks[p].is_founded = false;
            hr_cap_log_disown(keeper, p);
            hr_cap_log_own(keeper, p);
        }
    }
}

void hr_cap_keeper_receive(struct hr_cap_keeper *keeper, uint64_t from, struct hr_span body, struct hr_now now)
{
    keeper->now = now;
    uint32_t hot = hr_caps_hot_count(keeper->caps), generation = hr_caps_generation(keeper->caps);
    enum hr_err err = hr_caps_receive(keeper->caps, from, body, now.steady);
    (void)err; /* counted there */
    keeper->may_write = true;
    bool has_begun_anew =
        hot > 0 && hr_caps_hot_count(keeper->caps) < hot && hr_caps_generation(keeper->caps) != generation;
    if (has_begun_anew) {
        restore_again(keeper);
    }
    note_generation(keeper);
}

hr_ns hr_cap_keeper_deadline(const struct hr_cap_keeper *keeper)
{
    return hr_min(keeper->sync_at, hr_caps_deadline(keeper->caps));
}

/* A node without a lease may have been replaced without knowing, so it speaks for no partition; and when it has one
 * again, what was taken from it meanwhile goes first. */
static void tell_regions(struct hr_cap_keeper *keeper)
{
    hr_ns now = keeper->now.steady;
    sync_partitions(keeper);
    hr_caps_set_seated(keeper->caps, hr_tenure_counts(keeper->config.tenure, now).has_lease);
    hr_caps_tick(keeper->caps, now, keeper->config.outbox);
    keeper->may_write = true;
}

void hr_cap_keeper_tick(struct hr_cap_keeper *keeper, struct hr_now now)
{
    keeper->now = now;
    bool is_due = now.steady >= keeper->sync_at;
    if (is_due) {
        sync_partitions(keeper);
        follow_members(keeper);
        hr_cap_epoch_tick(keeper);
        learn_origin(keeper);
        learn_stopped(keeper);
        hr_cap_log_sweep(keeper);
    }
    hr_cap_keeper_serve(keeper, now);
    if (now.steady >= hr_caps_deadline(keeper->caps)) {
        tell_regions(keeper);
    }
    note_generation(keeper);
}

/* --- for status --- */

void hr_cap_keeper_status(const struct hr_cap_keeper *keeper, hr_ns now, struct hr_cap_status *ret_status)
{
    const struct hr_cap_regions *regions = &keeper->config.regions;
    *ret_status = (struct hr_cap_status){
        .origin = keeper->origin,
        .epoch = keeper->current.number >> HR_CAP_EPOCH_HASH_BITS,
        .is_adopted = hr_caps_is_adopted(keeper->caps, now),
        .is_agreed = keeper->current.hash == keeper->local_hash,
        .hot = hr_caps_hot_count(keeper->caps),
        .hot_max = keeper->config.hot_max,
        .region_count = regions->count,
        .self = regions->self,
        .counts = hr_caps_counts(keeper->caps),
    };
    for (uint32_t k = 0; k < regions->count; k++) {
        ret_status->regions[k].name = regions->names[k];
        ret_status->regions[k].is_stopped = (keeper->stopped >> k & 1) != 0;
        ret_status->regions[k].word_age_ns = -1;
        for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
            const struct hr_cap_link *link = hr_caps_link(keeper->caps, k, p);
            if (link != NULL && link->peer != 0) {
                hr_ns age = now - link->stamp_at, *shown = &ret_status->regions[k].word_age_ns;
                *shown = *shown < 0 || age < *shown ? age : *shown;
                ret_status->regions[k].is_up |= age < HR_CAP_LEASE_NS && now - link->heard_at < HR_CAP_LEASE_NS;
            }
        }
    }
}

/* Units of a bucket as tokens. */
static uint64_t tokens(const struct hr_cap *cap, int64_t units)
{
    return (uint64_t)hr_max(0, units) >> cap->scale.shift;
}

static void add_counter(const struct hr_cap *cap, const struct hr_caps_counter_state *state,
                        struct hr_cap_limit_status *status)
{
    status->hot++;
    if (state->is_cover) {
        status->share += (uint64_t)state->cover.permission;
        status->lent += (uint64_t)state->cover.given;
        status->borrowed += (uint64_t)state->cover.received;
        return;
    }
    status->share += tokens(cap, state->lend.home_rate - state->lend.lent_rate + state->lend.borrowed_rate);
    status->lent += tokens(cap, state->lend.lent_rate);
    status->borrowed += tokens(cap, state->lend.borrowed_rate);
}

void hr_cap_keeper_limit_status(struct hr_cap_keeper *keeper, uint32_t limit, struct hr_now now,
                                struct hr_cap_limit_status *ret_status)
{
    const struct hr_cap *cap = hr_limiter_cap(keeper->config.limiter, limit);
    *ret_status = (struct hr_cap_limit_status){.is_global = cap->number != 0};
    const struct hr_cap_rule *rule = hr_cap_rules_find(&keeper->current.rules, cap->number);
    if (rule == NULL || cap->number == 0) {
        return;
    }
    const struct hr_cap_regions *regions = &keeper->config.regions;
    uint64_t whole = rule->kind == HR_CAP_LEND ? rule->rate : rule->total, sum = 0;
    for (uint32_t k = 0; k < regions->count; k++) {
        sum += regions->weights[k];
    }
    ret_status->is_known = true;
    ret_status->is_cover = rule->kind != HR_CAP_LEND;
    sum = sum > 0 ? sum : 1;
    ret_status->home = (uint64_t)hr_mul_div((int64_t)whole, regions->weights[regions->self], (int64_t)sum);
    ret_status->reserve = (uint64_t)hr_mul_div((int64_t)ret_status->home, rule->reserve_permille, 1000);
    struct hr_id128 id;
    struct hr_caps_counter_state state;
    uint32_t cursor = 0;
    while (hr_limiter_next_stake(keeper->config.limiter, cap->number, &cursor, &id)) {
        if (hr_caps_counter_state(keeper->caps, id, now.steady, &state)) {
            add_counter(cap, &state, ret_status);
        }
    }
}
