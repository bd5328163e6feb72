#include "region/caps.h"

#include <string.h>

#include "region/caps_state.h"
#include "region/partition.h"

/* A chain for each counter, on average. */
static uint32_t heads_for(uint32_t counters_max)
{
    uint32_t heads = 16;
    while (heads < counters_max) {
        heads *= 2;
    }
    return heads;
}

static void lay_out(struct hr_caps *caps, const struct hr_caps_config *config, struct hr_bump *bump)
{
    struct hr_caps parts = {0};
    parts.limits = hr_bump_take(bump, config->limits_max, sizeof parts.limits[0], 8);
    parts.partners = hr_bump_take(bump, config->links_max, sizeof parts.partners[0], 8);
    parts.counters = hr_bump_take(bump, config->counters_max, sizeof parts.counters[0], 8);
    parts.head_count = heads_for(config->counters_max);
    parts.heads = hr_bump_take(bump, parts.head_count, sizeof parts.heads[0], 4);
    parts.owners = hr_bump_take(bump, (size_t)HR_REGIONS_MAX * HR_PARTITIONS, sizeof parts.owners[0], 2);
    parts.tenures = hr_bump_take(bump, HR_PARTITIONS, sizeof parts.tenures[0], 8);
    parts.letter = hr_bump_take(bump, HR_CAP_LETTER_BYTES_MAX, 1, 8);
    if (caps != NULL) {
        *caps = parts;
    }
}

struct hr_caps *hr_caps_init(const struct hr_caps_config *config, const struct hr_caps_host *host, struct hr_bump *bump,
                             hr_ns now)
{
    struct hr_caps *caps = hr_bump_take(bump, 1, sizeof *caps, 8);
    lay_out(caps, config, bump);
    if (caps == NULL) {
        return NULL;
    }
    caps->config = *config;
    caps->host = *host;
    caps->times = hr_cap_times_of(config->tick, config->lease);
    caps->incarnation = config->incarnation;
    caps->started_at = caps->tick_at = now;
    caps->push_at = INT64_MAX;
    caps->sent_at = HR_CAP_LONG_AGO;
    caps->is_adopted = caps->is_seated = true;
    caps->rng.state = config->incarnation;
    memset(caps->owners, 0, sizeof caps->owners[0] * HR_REGIONS_MAX * HR_PARTITIONS);
    memset(caps->heads, 0xff, sizeof caps->heads[0] * caps->head_count);
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        caps->tenures[p] = (struct hr_caps_tenure){.since = HR_CAP_LONG_AGO};
    }
    return caps;
}

struct hr_caps_partner *hr_caps_partner_of(const struct hr_caps *caps, uint32_t region, uint32_t partition)
{
    uint16_t owner = caps->owners[region * HR_PARTITIONS + partition];
    return owner == 0 ? NULL : &caps->partners[owner - 1];
}

void hr_caps_at(struct hr_caps *caps, const struct hr_caps_counter *counter, hr_ns now, struct hr_caps_at *ret_at)
{
    uint32_t partition = hr_partition_of(counter->id);
    for (uint32_t k = 0; k < caps->config.region_count; k++) {
        struct hr_caps_partner *partner = hr_caps_partner_of(caps, k, partition);
        ret_at->links[k] = partner == NULL ? NULL : &partner->link;
    }
    ret_at->lend = (struct hr_lend_context){&caps->times, ret_at->links, now};
    ret_at->cover = (struct hr_cover_context){&caps->times, ret_at->links, now};
}

static uint32_t chain_of(const struct hr_caps *caps, uint64_t id_hi)
{
    return (uint32_t)id_hi & (caps->head_count - 1); /* the high bits say the partition: these are as good as any */
}

struct hr_caps_counter *hr_caps_find(const struct hr_caps *caps, uint64_t id_hi)
{
    uint32_t at = caps->heads[chain_of(caps, id_hi)];
    while (at != HR_CAPS_NONE && caps->counters[at].id.hi != id_hi) {
        at = caps->counters[at].next;
    }
    return at == HR_CAPS_NONE ? NULL : &caps->counters[at];
}

struct hr_caps_limit *hr_caps_find_limit(const struct hr_caps *caps, uint32_t number)
{
    for (uint32_t i = 0; i < caps->limit_count; i++) {
        struct hr_caps_limit *limit = &caps->limits[i];
        if (limit->is_in[caps->bank] && limit->banks[caps->bank].number == number) {
            return limit;
        }
    }
    return NULL;
}

/* The link that holds the place `place` in its chain: the head or a counter's next. */
static uint32_t *place_in_chain(struct hr_caps *caps, uint64_t id_hi, uint32_t at)
{
    uint32_t *place = &caps->heads[chain_of(caps, id_hi)];
    while (*place != at) {
        place = &caps->counters[*place].next;
    }
    return place;
}

void hr_caps_let_go(struct hr_caps *caps, struct hr_caps_counter *counter)
{
    uint32_t at = (uint32_t)(counter - caps->counters), last = caps->counter_count - 1;
    if (counter->is_cover) {
        counter->cover.escrow->is_held = false;
    } else {
        counter->lend.share->is_held = false;
    }
    *place_in_chain(caps, counter->id.hi, at) = counter->next;
    caps->counter_count--;
    if (at != last) { /* the last one moves into the gap */
        *place_in_chain(caps, caps->counters[last].id.hi, last) = at;
        *counter = caps->counters[last];
    }
}

/* Loans of a former life here, or of the node that had the partition before, may be in force until then. */
static hr_ns quarantine_of(const struct hr_caps *caps, const struct hr_caps_tenure *tenure, hr_ns now)
{
    hr_ns until = tenure->since + caps->times.lease_void;
    return tenure->is_new || until <= now ? HR_CAP_LONG_AGO : until;
}

/* A bucket that is new here begins with what would have come in since this node answers for it: whoever had it before
 * may have left it empty. */
static void fill_fresh(struct hr_share *share, const struct hr_lend *lend, const struct hr_caps_tenure *tenure,
                       hr_ns now)
{
    const struct hr_share_scale *scale = &lend->rule->scale;
    int64_t level = hr_mul_div(share->price.mint, hr_max(0, now - tenure->since), (int64_t)scale->period_ns);
    hr_share_add(share, tenure->is_new ? share->price.cap : level);
    share->is_fresh = false;
}

/* The limit as it was in the epoch before; NULL: there was none, or that one is long past. */
static const struct hr_cap_limit *rules_before(const struct hr_caps *caps, const struct hr_caps_counter *counter)
{
    const struct hr_caps_limit *limit = &caps->limits[counter->limit];
    return caps->is_adopted || !limit->is_in[caps->bank ^ 1] ? NULL : &limit->banks[caps->bank ^ 1];
}

static bool begin_lend(struct hr_caps *caps, struct hr_caps_counter *counter, const struct hr_lend_rule *rule,
                       hr_ns now)
{
    const struct hr_caps_tenure *tenure = &caps->tenures[hr_partition_of(counter->id)];
    uint32_t number = caps->limits[counter->limit].banks[caps->bank].number;
    struct hr_share *share = caps->host.share(caps->host.context, counter->id, number, now);
    struct hr_caps_at at;
    if (share == NULL) {
        return false;
    }
    hr_caps_at(caps, counter, now, &at);
    const struct hr_cap_limit *before = rules_before(caps, counter);
    struct hr_lend_begin begin = {
        .before = before == NULL ? rule : &before->lend,
        .rule = rule,
        .self = caps->config.self,
        .epoch = caps->epoch,
        .is_adopted = caps->is_adopted,
        .hash = counter->id.lo,
        .share = share,
        .quarantine_until = quarantine_of(caps, tenure, now),
    };
    hr_lend_init(&counter->lend, &begin, &at.lend);
    hr_share_advance(share, &rule->scale, now); /* at the new price: the one before may be of a config that is past */
    if (share->is_fresh) {
        fill_fresh(share, &counter->lend, tenure, now);
    }
    share->generation = caps->generation;
    share->is_held = true;
    return true;
}

/* The last window in which a former life may have spent or given units: the one in which it ended, and where windows
 * are prepared the next. Before the one at hand there is none of interest. */
static int64_t last_of_former_life(hr_ns since, const struct hr_cover_when *when, hr_ns now)
{
    hr_ns began = now - when->age_ns;
    bool is_prepared = when->length_ns > 0 && when->length_ns <= HR_COVER_PREPARED_NS;
    if (when->length_ns == 0 || began < since) {
        return when->label + is_prepared;
    }
    return is_prepared && began - when->length_ns < since ? when->label : HR_COVER_NO_LABEL;
}

/* The last window of which what was spent is not known here. */
static int64_t forfeits_until(const struct hr_caps_tenure *tenure, bool has_log, const struct hr_cover_when *when,
                              hr_ns now)
{
    if (tenure->is_new || (has_log && !tenure->is_forgetful)) {
        return HR_COVER_NO_LABEL;
    }
    return last_of_former_life(has_log ? tenure->forgot_at : tenure->since, when, now);
}

static bool begin_cover(struct hr_caps *caps, struct hr_caps_counter *counter, const struct hr_cover_rule *rule,
                        hr_ns now)
{
    const struct hr_caps_tenure *tenure = &caps->tenures[hr_partition_of(counter->id)];
    uint32_t number = caps->limits[counter->limit].banks[caps->bank].number;
    struct hr_escrow *escrow = caps->host.escrow(caps->host.context, counter->id, number, now);
    struct hr_caps_at at;
    if (escrow == NULL) {
        return false;
    }
    bool has_log = rule->has_log && tenure->log != 0;
    struct hr_cover_when when = caps->host.when(caps->host.context, counter->id, number, now);
    const struct hr_cap_limit *before = rules_before(caps, counter);
    struct hr_cover_begin begin = {
        .before = before == NULL ? rule : &before->cover,
        .rule = rule,
        .self = caps->config.self,
        .epoch = caps->epoch,
        .is_adopted = caps->is_adopted,
        .hash = counter->id.lo,
        .life = has_log ? tenure->log : caps->incarnation,
        .forfeits_until = forfeits_until(tenure, has_log, &when, now),
        .escrow = escrow,
        .when = when,
    };
    hr_caps_at(caps, counter, now, &at);
    hr_cover_init(&counter->cover, &begin, &at.cover);
    escrow->is_held = true;
    return true;
}

struct hr_caps_counter *hr_caps_attach(struct hr_caps *caps, struct hr_id128 id, struct hr_caps_limit *limit, hr_ns now)
{
    const struct hr_cap_limit *rules = &limit->banks[caps->bank];
    if (caps->counter_count == caps->config.counters_max) {
        caps->counts.counters_refused++;
        return NULL;
    }
    struct hr_caps_counter *counter = &caps->counters[caps->counter_count];
    memset(counter, 0, sizeof *counter);
    counter->id = id;
    counter->limit = (uint32_t)(limit - caps->limits);
    counter->is_cover = rules->is_cover;
    counter->seen_at = now;
    counter->hot_at = HR_CAP_LONG_AGO;
    for (uint32_t k = 0; k < HR_REGIONS_MAX; k++) {
        counter->introductions[k].at = HR_CAP_LONG_AGO;
    }
    bool has_begun =
        rules->is_cover ? begin_cover(caps, counter, &rules->cover, now) : begin_lend(caps, counter, &rules->lend, now);
    if (!has_begun) {
        caps->counts.counters_refused++;
        return NULL;
    }
    counter->next = caps->heads[chain_of(caps, id.hi)];
    caps->heads[chain_of(caps, id.hi)] = caps->counter_count++;
    return counter;
}

void hr_caps_make_due(struct hr_caps *caps, struct hr_caps_counter *counter, hr_ns now)
{
    counter->is_due = true;
    caps->push_at = hr_min(caps->push_at, hr_max(now, caps->sent_at + caps->times.gap));
}

void hr_caps_advance(struct hr_caps *caps, struct hr_caps_counter *counter, hr_ns now)
{
    struct hr_caps_at at;
    hr_caps_at(caps, counter, now, &at);
    if (!counter->is_cover) {
        hr_lend_advance(&counter->lend, &at.lend);
        return;
    }
    uint32_t number = caps->limits[counter->limit].banks[caps->bank].number;
    hr_cover_advance(&counter->cover, caps->host.when(caps->host.context, counter->id, number, now), &at.cover);
}

void hr_caps_advance_links(struct hr_caps *caps, hr_ns now)
{
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        hr_cap_link_advance(&caps->partners[i].link, &caps->times, now);
    }
}

/* Prices a share that cannot be looked after: its home, and nothing from others. */
static void price_alone(struct hr_caps *caps, struct hr_id128 id, const struct hr_caps_limit *limit, hr_ns now)
{
    struct hr_caps_counter alone = {.id = id, .limit = (uint32_t)(limit - caps->limits)};
    const struct hr_cap_limit *rules = &limit->banks[caps->bank];
    if (!rules->is_cover && begin_lend(caps, &alone, &rules->lend, now)) {
        alone.lend.share->is_held = alone.lend.share->wants_notice = false;
    }
}

enum hr_err hr_caps_touch(struct hr_caps *caps, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct hr_caps_limit *found = hr_caps_find_limit(caps, limit);
    if (found == NULL || caps->tenures[hr_partition_of(id)].since == HR_CAP_LONG_AGO) {
        return HR_E_NOT_FOUND;
    }
    hr_caps_advance_links(caps, now);
    struct hr_caps_counter *counter = hr_caps_find(caps, id.hi);
    if (counter == NULL) {
        counter = hr_caps_attach(caps, id, found, now);
    }
    if (counter == NULL) {
        price_alone(caps, id, found, now);
        return HR_E_FULL;
    }
    counter->seen_at = now;
    hr_caps_advance(caps, counter, now);
    if (!counter->is_cover) {
        counter->lend.share->wants_notice = false;
    }
    hr_caps_make_due(caps, counter, now);
    return HR_OK;
}

uint32_t hr_caps_generation(const struct hr_caps *caps)
{
    return caps->generation;
}

void hr_caps_own(struct hr_caps *caps, uint32_t partition, hr_ns since, bool is_new, uint64_t log)
{
    caps->tenures[partition] = (struct hr_caps_tenure){.since = since, .is_new = is_new, .log = log};
    caps->generation++; /* shares that are known here from earlier are priced anew */
}

void hr_caps_forfeit(struct hr_caps *caps, uint32_t partition, hr_ns forgot_at)
{
    caps->tenures[partition].is_forgetful = true;
    caps->tenures[partition].forgot_at = forgot_at;
}

/* Stops lending on the links of a counter that is about to leave: the partners drop what they hold of it. */
static void cut_links(struct hr_caps *caps, const struct hr_caps_counter *counter)
{
    for (uint32_t k = 0; k < caps->config.region_count && !counter->is_cover; k++) {
        struct hr_caps_partner *partner = hr_caps_partner_of(caps, k, hr_partition_of(counter->id));
        if (partner != NULL && hr_lend_has_loan(&counter->lend, k)) {
            hr_cap_link_cut(&partner->link, &caps->times);
        }
    }
}

void hr_caps_disown(struct hr_caps *caps, uint32_t partition)
{
    caps->tenures[partition] = (struct hr_caps_tenure){.since = HR_CAP_LONG_AGO};
    for (uint32_t i = caps->counter_count; i > 0; i--) {
        struct hr_caps_counter *counter = &caps->counters[i - 1];
        if (hr_partition_of(counter->id) == partition) {
            cut_links(caps, counter);
            hr_caps_let_go(caps, counter);
        }
    }
}

void hr_caps_set_seated(struct hr_caps *caps, bool is_seated)
{
    caps->is_seated = is_seated;
}

static struct hr_caps_partner *find_partner(struct hr_caps *caps, uint64_t member)
{
    for (uint32_t i = 0; i < caps->partner_count; i++) {
        if (caps->partners[i].member == member) {
            return &caps->partners[i];
        }
    }
    return NULL;
}

/* The counters of a partition leave the partner that they had in a region. Nobody may be using what it was lent, or the
 * link is cut and that is charged until it has lapsed. */
static void leave_partner(struct hr_caps *caps, uint32_t region, uint32_t partition, const struct hr_caps_partner *to,
                          hr_ns now)
{
    struct hr_caps_partner *from = hr_caps_partner_of(caps, region, partition);
    for (uint32_t i = 0; i < caps->counter_count; i++) {
        struct hr_caps_counter *counter = &caps->counters[i];
        if (hr_partition_of(counter->id) != partition) {
            continue;
        }
        if (from != NULL && !counter->is_cover && hr_lend_has_loan(&counter->lend, region)) {
            hr_cap_link_cut(&from->link, &caps->times);
        }
        hr_caps_advance(caps, counter, now);
        counter->introductions[region].at = HR_CAP_LONG_AGO;
        if (counter->is_cover) {
            hr_cover_switch(&counter->cover, region, &to->link);
        } else {
            hr_lend_switch(&counter->lend, region, &to->link, now);
        }
        hr_caps_make_due(caps, counter, now);
    }
}

enum hr_err hr_caps_set_owner(struct hr_caps *caps, uint32_t region, uint32_t partition, uint64_t member)
{
    uint16_t *owner = &caps->owners[region * HR_PARTITIONS + partition];
    struct hr_caps_partner *partner = find_partner(caps, member);
    if (member == 0) {
        return HR_OK; /* the last one known stays the partner: what it was lent is still its own */
    }
    if (partner == NULL) {
        if (caps->partner_count == caps->config.links_max) {
            return HR_E_FULL;
        }
        partner = &caps->partners[caps->partner_count++];
        *partner = (struct hr_caps_partner){.member = member, .region = region};
        hr_cap_link_init(&partner->link, caps->incarnation);
    }
    uint16_t place = (uint16_t)(partner - caps->partners + 1);
    if (*owner != place) {
        leave_partner(caps, region, partition, partner, caps->tick_at);
        *owner = place;
    }
    return HR_OK;
}

struct hr_caps_counts hr_caps_counts(const struct hr_caps *caps)
{
    return caps->counts;
}

uint32_t hr_caps_hot_count(const struct hr_caps *caps)
{
    return caps->counter_count;
}

struct hr_lend *hr_caps_lend(struct hr_caps *caps, struct hr_id128 id)
{
    struct hr_caps_counter *counter = hr_caps_find(caps, id.hi);
    return counter == NULL || counter->is_cover ? NULL : &counter->lend;
}

struct hr_cover *hr_caps_cover(struct hr_caps *caps, struct hr_id128 id)
{
    struct hr_caps_counter *counter = hr_caps_find(caps, id.hi);
    return counter == NULL || !counter->is_cover ? NULL : &counter->cover;
}

const struct hr_cap_link *hr_caps_link(const struct hr_caps *caps, uint32_t region, uint32_t partition)
{
    const struct hr_caps_partner *partner = hr_caps_partner_of(caps, region, partition);
    return partner == NULL ? NULL : &partner->link;
}

static void describe_region(const struct hr_caps *caps, const struct hr_caps_counter *counter, uint32_t k, hr_ns now,
                            struct hr_caps_region_state *ret_region)
{
    const struct hr_caps_partner *partner = hr_caps_partner_of(caps, k, hr_partition_of(counter->id));
    *ret_region = (struct hr_caps_region_state){.word_age_ns = -1};
    if (partner == NULL) {
        return;
    }
    ret_region->member = partner->member;
    ret_region->is_up = hr_cap_link_is_up(&partner->link, &caps->times, now);
    ret_region->word_age_ns = partner->link.peer == 0 ? -1 : now - partner->link.stamp_at;
    if (!counter->is_cover) {
        ret_region->demand = counter->lend.debts[k].demand;
        ret_region->lent_rate = counter->lend.loans[k].rate_top + counter->lend.loans[k].zombie_rate;
        ret_region->borrowed_rate = counter->lend.debts[k].rate;
        return;
    }
    for (uint32_t i = 0; i < HR_COVER_WINDOWS; i++) {
        const struct hr_cover_window *window = &counter->cover.windows[i];
        if (window->label == counter->cover.when.label) {
            ret_region->demand = window->rows[k].demand;
            ret_region->given = window->rows[k].out + window->rows[k].out_base;
            ret_region->received = window->rows[k].in + window->rows[k].in_base;
        }
    }
}

bool hr_caps_counter_state(const struct hr_caps *caps, struct hr_id128 id, hr_ns now,
                           struct hr_caps_counter_state *ret_state)
{
    const struct hr_caps_counter *counter = hr_caps_find(caps, id.hi);
    if (counter == NULL) {
        return false;
    }
    *ret_state = (struct hr_caps_counter_state){.is_cover = counter->is_cover};
    if (counter->is_cover) {
        ret_state->cover = hr_cover_state(&counter->cover);
    } else {
        ret_state->lend = hr_lend_state(&counter->lend);
    }
    for (uint32_t k = 0; k < caps->config.region_count; k++) {
        describe_region(caps, counter, k, now, &ret_state->regions[k]);
    }
    return true;
}
