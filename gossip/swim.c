#include "gossip/swim.h"

#include <assert.h>
#include <string.h>

#include "base/bump.h"
#include "gossip/life.h"
#include "gossip/swim_state.h"

#define FAREWELLS_MAX 16 /* members that are told at once that this node leaves */

static const struct hr_swim_timings defaults = {
    .near = {200 * HR_NS_PER_MS, 100 * HR_NS_PER_MS, 800 * HR_NS_PER_MS},
    .far = {1000 * HR_NS_PER_MS, 600 * HR_NS_PER_MS, 5000 * HR_NS_PER_MS},
    .retry_interval_ns = 3 * HR_NS_PER_S,
    .exchange_interval_ns = 30 * HR_NS_PER_S,
};

/* A table's rumor must fit into a letter, a few into a probe's. */
static_assert(HR_SWIM_PROBE_BYTES_MAX > 32 + 3 * HR_MEMBER_NAME_BYTES_MAX + 2 * HR_MEMBER_ADDRESS_BYTES_MAX,
              "one fits");
static_assert(HR_SWIM_TABLE_BYTES_MAX <= HR_LETTER_BYTES_MAX, "a part of a table is a letter");

/* Start. */

static void choose_ns(hr_ns *ns, hr_ns fallback_ns)
{
    *ns = *ns > 0 ? *ns : fallback_ns;
}

static void choose_pace(struct hr_swim_pace *pace, const struct hr_swim_pace *fallback)
{
    choose_ns(&pace->period_ns, fallback->period_ns);
    choose_ns(&pace->timeout_ns, fallback->timeout_ns);
    choose_ns(&pace->suspicion_ns, fallback->suspicion_ns);
}

static bool pace_is_valid(const struct hr_swim_pace *pace)
{
    return pace->timeout_ns < pace->period_ns && pace->period_ns <= HR_SWIM_PERIOD_NS_MAX;
}

static struct hr_swim_timings choose_timings(const struct hr_swim_timings *wanted)
{
    struct hr_swim_timings timings = *wanted;
    choose_pace(&timings.near, &defaults.near);
    choose_pace(&timings.far, &defaults.far);
    choose_ns(&timings.retry_interval_ns, defaults.retry_interval_ns);
    choose_ns(&timings.exchange_interval_ns, defaults.exchange_interval_ns);
    return timings;
}

static uint32_t members_max_of(const struct hr_swim_config *config)
{
    return config->members_max == 0 ? HR_MEMBERS_MAX : config->members_max;
}

static struct hr_swim *lay_out(const struct hr_swim_config *config, struct hr_bump *bump)
{
    uint32_t max = members_max_of(config);
    struct hr_swim *swim = hr_bump_take(bump, 1, sizeof(*swim), 8);
    struct hr_member *all = hr_bump_take(bump, max, sizeof(*all), 8);
    struct hr_swim_peer *peers = hr_bump_take(bump, max, sizeof(*peers), 8);
    uint32_t *near_order = hr_bump_take(bump, max, sizeof(*near_order), 8);
    uint32_t *far_order = hr_bump_take(bump, max, sizeof(*far_order), 8);
    uint8_t *letter = hr_bump_take(bump, HR_SWIM_TABLE_BYTES_MAX, 1, 8);
    if (bump->at != NULL) {
        memset(swim, 0, sizeof(*swim));
        memset(peers, 0, max * sizeof(*peers));
        swim->members.all = all;
        swim->members.count_max = max;
        swim->peers = peers;
        swim->near.order = near_order;
        swim->far.order = far_order;
        swim->letter = letter;
    }
    return swim;
}

size_t hr_swim_bytes(const struct hr_swim_config *config)
{
    struct hr_bump bump = {NULL, 0};
    (void)lay_out(config, &bump);
    return bump.taken;
}

/* A text of a struct in which whoever filled it may have left no room for its end. */
static bool text_is_valid(const char *text, size_t bytes_min, size_t bytes_max)
{
    size_t bytes = strnlen(text, bytes_max + 1);
    return bytes >= bytes_min && bytes <= bytes_max &&
           hr_member_text_is_valid((struct hr_span){text, bytes}, bytes_max);
}

static bool config_is_valid(const struct hr_swim_config *config)
{
    const struct hr_member *self = &config->self;
    const struct hr_swim_timings timings = choose_timings(&config->timings);
    for (uint32_t i = 0; i < config->seed_count && i < HR_SWIM_SEEDS_MAX; i++) {
        if (!hr_member_text_is_valid(config->seeds[i], HR_MEMBER_ADDRESS_BYTES_MAX)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < config->region_count && i < HR_SWIM_REGIONS_MAX; i++) {
        if (!hr_member_text_is_valid(config->regions[i], HR_MEMBER_NAME_BYTES_MAX)) {
            return false;
        }
    }
    return self->incarnation >= 1 && self->incarnation <= HR_LIFE_MAX && self->weight >= 1 &&
           text_is_valid(self->name, 1, HR_MEMBER_NAME_BYTES_MAX) &&
           text_is_valid(self->region, 1, HR_MEMBER_NAME_BYTES_MAX) &&
           text_is_valid(self->host, 0, HR_MEMBER_HOST_BYTES_MAX) &&
           text_is_valid(self->rpc, 0, HR_MEMBER_ADDRESS_BYTES_MAX) &&
           text_is_valid(self->gossip, 1, HR_MEMBER_ADDRESS_BYTES_MAX) && config->seed_count <= HR_SWIM_SEEDS_MAX &&
           config->members_max <= HR_MEMBERS_MAX && config->region_count <= HR_SWIM_REGIONS_MAX &&
           pace_is_valid(&timings.near) && pace_is_valid(&timings.far);
}

static void add_self(struct hr_swim *swim, const struct hr_member *self)
{
    struct hr_member named = *self;
    named.id = hr_member_id(hr_span_of(self->region), hr_span_of(self->name));
    named.incarnation = hr_life_begin(self->incarnation);
    named.state = HR_MEMBER_ALIVE;
    struct hr_rumor rumor = hr_rumor_of(&named, 0, true);
    swim->members.self = hr_swim_add(swim, &rumor);
    swim->peers[swim->members.self].is_near = true;
}

static void copy_seeds(struct hr_swim *swim, const struct hr_swim_config *config)
{
    for (uint32_t i = 0; i < config->seed_count; i++) {
        if (config->seeds[i].bytes > 0) {
            memcpy(swim->seeds[swim->seed_count++], config->seeds[i].at, config->seeds[i].bytes);
        }
    }
}

static void copy_regions(struct hr_swim *swim, const struct hr_swim_config *config)
{
    for (uint32_t i = 0; i < config->region_count; i++) {
        memcpy(swim->regions[i], config->regions[i].at, config->regions[i].bytes);
    }
    swim->region_count = config->region_count;
}

struct hr_swim *hr_swim_init(const struct hr_swim_config *config, struct hr_outbox *outbox, void *memory,
                             size_t memory_bytes)
{
    if (!config_is_valid(config) || memory == NULL || (uintptr_t)memory % 8 != 0 ||
        memory_bytes < hr_swim_bytes(config)) {
        return NULL;
    }
    struct hr_bump bump = {memory, 0};
    struct hr_swim *swim = lay_out(config, &bump);
    swim->outbox = outbox;
    swim->timings = choose_timings(&config->timings);
    swim->near.pace = swim->timings.near;
    swim->far.pace = swim->timings.far;
    swim->near.urgent = HR_MEMBER_NONE;
    swim->far.urgent = HR_MEMBER_NONE;
    swim->near.question_at = INT64_MAX;
    swim->far.question_at = INT64_MAX;
    swim->rng.state = config->rng_seed;
    swim->seq = (uint32_t)hr_rng_next(&swim->rng);
    swim->answers_left = HR_SWIM_ANSWERS_MAX;
    add_self(swim, &config->self);
    copy_seeds(swim, config);
    copy_regions(swim, config);
    return swim;
}

/* Time. */

static hr_ns earlier(hr_ns a, hr_ns b)
{
    return a < b ? a : b;
}

static hr_ns next_deadline(const struct hr_swim *swim)
{
    if (swim->is_usurped) {
        return INT64_MAX;
    }
    hr_ns deadline = earlier(hr_swim_probes_deadline(swim), earlier(swim->retry_at, swim->exchange_at));
    uint32_t left = swim->suspect_count;
    for (uint32_t i = 0; i < swim->members.count && left > 0; i++) {
        if (swim->members.all[i].state == HR_MEMBER_SUSPECT) {
            deadline = earlier(deadline, hr_swim_suspicion_end(swim, i));
            left--;
        }
    }
    return deadline;
}

/* A node that stood still heard nothing meanwhile, so nobody's silence proves anything: all waits begin where they
 * stood. */
static void forgive_delay(struct hr_swim *swim, hr_ns now)
{
    hr_ns late_ns = now - swim->deadline;
    if (late_ns <= swim->near.pace.timeout_ns) {
        return;
    }
    hr_swim_postpone_probes(swim, late_ns);
    for (uint32_t i = 0; i < swim->members.count; i++) {
        swim->peers[i].suspected_at += late_ns;
    }
    hr_swim_worsen(swim, 1);
}

static void begin(struct hr_swim *swim, hr_ns now)
{
    swim->has_begun = true;
    swim->retry_at = now;
    swim->exchange_wait_ns = swim->timings.exchange_interval_ns;
    swim->exchange_at = now + swim->exchange_wait_ns;
    swim->deadline = now;
    hr_swim_begin_probes(swim, now);
}

void hr_swim_tick(struct hr_swim *swim, hr_ns now)
{
    if (swim->is_usurped) {
        return;
    }
    if (!swim->has_begun) {
        begin(swim, now);
    }
    forgive_delay(swim, now);
    hr_swim_expire_suspicions(swim, now);
    hr_swim_step_probes(swim, now);
    hr_swim_step_exchange(swim, now);
    swim->deadline = next_deadline(swim);
}

hr_ns hr_swim_deadline(const struct hr_swim *swim)
{
    return swim->deadline; /* 0, which has passed, before the first tick */
}

/* Letters. */

/* False: the sender speaks of itself in a life that is over. It is a namesake, or lost the number of its life; it is
 * told, and its letter counts for nothing. */
static bool hear_all(struct hr_swim *swim, uint64_t from, struct hr_le_reader *reader, uint16_t count, hr_ns now)
{
    struct hr_rumor rumor;
    for (uint16_t i = 0; i < count; i++) {
        if (!hr_rumor_read(reader, &rumor)) {
            swim->counts.malformed++;
            break;
        }
        if (rumor.id == from && hr_swim_tell_outlived(swim, &rumor)) {
            return false;
        }
        hr_swim_hear(swim, &rumor, now);
    }
    return true;
}

static void answer_ping(struct hr_swim *swim, uint32_t from, uint32_t seq)
{
    struct hr_swim_head head = {.type = HR_SWIM_ACK, .seq = seq};
    hr_swim_send(swim, from, &head, HR_MEMBER_NONE);
}

static void dispatch(struct hr_swim *swim, uint32_t from, const struct hr_swim_head *head, hr_ns now)
{
    switch (head->type) {
    case HR_SWIM_PING:
        answer_ping(swim, from, head->seq);
        break;
    case HR_SWIM_ACK:
        hr_swim_take_ack(swim, head->seq);
        break;
    case HR_SWIM_PING_REQ:
        hr_swim_take_ping_req(swim, from, head, now);
        break;
    case HR_SWIM_NACK:
        hr_swim_take_nack(swim, head->seq);
        break;
    case HR_SWIM_HELLO:
        hr_swim_take_hello(swim, from, head->digest);
        break;
    case HR_SWIM_TABLE:
        hr_swim_take_table(swim, from, head);
        break;
    case HR_SWIM_NEWS:
        swim->has_contact = true;
        break;
    }
}

void hr_swim_receive(struct hr_swim *swim, uint64_t from, struct hr_span body, hr_ns now)
{
    struct hr_le_reader reader = hr_le_reader_of(body);
    struct hr_swim_head head;
    uint16_t count;
    if (swim->is_usurped || !swim->has_begun) {
        return;
    }
    if (!hr_swim_read_head(&reader, &head, &count)) {
        swim->counts.malformed++;
        return;
    }
    bool counts = hear_all(swim, from, &reader, count, now);
    uint32_t index = hr_members_find(&swim->members, from); /* who is not known by now cannot be answered */
    if (counts && index != HR_MEMBER_NONE && index != swim->members.self && !swim->is_usurped) {
        dispatch(swim, index, &head, now);
    }
    swim->deadline = next_deadline(swim);
}

/* The operator. */

void hr_swim_leave(struct hr_swim *swim, hr_ns now)
{
    struct hr_member *self = hr_swim_self(swim);
    if (self->state == HR_MEMBER_LEFT || swim->is_usurped) {
        return;
    }
    self->state = HR_MEMBER_LEFT;
    swim->members.view++;
    hr_swim_tell(swim, swim->members.self);
    swim->deadline = now; /* what it waited for has changed */
    struct hr_swim_head head = {.type = HR_SWIM_NEWS};
    uint32_t first = (uint32_t)hr_rng_below(&swim->rng, swim->members.count), told = 0;
    for (uint32_t i = 0; i < swim->members.count && told < FAREWELLS_MAX; i++) {
        uint32_t index = (first + i) % swim->members.count;
        if (index != swim->members.self && hr_member_is_live(&swim->members.all[index])) {
            hr_swim_send(swim, index, &head, swim->members.self);
            told++;
        }
    }
}

enum hr_err hr_swim_forget(struct hr_swim *swim, struct hr_span region, struct hr_span name, hr_ns now)
{
    uint32_t found = HR_MEMBER_NONE;
    for (uint32_t i = 0; i < swim->members.count; i++) {
        const struct hr_member *member = &swim->members.all[i];
        if (!hr_span_equal(hr_span_of(member->name), name) ||
            (region.bytes > 0 && !hr_span_equal(hr_span_of(member->region), region))) {
            continue;
        }
        if (found != HR_MEMBER_NONE) {
            return HR_E_INVALID;
        }
        found = i;
    }
    if (found == HR_MEMBER_NONE) {
        return HR_E_NOT_FOUND;
    }
    const struct hr_member *member = &swim->members.all[found];
    if (hr_member_is_live(member)) {
        return HR_E_INVALID;
    }
    struct hr_rumor rumor = {.id = member->id, .incarnation = member->incarnation, .state = HR_MEMBER_LEFT};
    hr_swim_hear(swim, &rumor, now);
    return HR_OK;
}

/* What happened. */

void hr_swim_report(struct hr_swim *swim, enum hr_swim_event_kind kind, uint32_t member, uint64_t life)
{
    if (swim->event_count == HR_SWIM_EVENTS_MAX) {
        swim->event_first = (swim->event_first + 1) % HR_SWIM_EVENTS_MAX;
        swim->event_count--;
        swim->counts.events_lost++;
    }
    uint32_t place = (swim->event_first + swim->event_count++) % HR_SWIM_EVENTS_MAX;
    swim->events[place] = (struct hr_swim_event){kind, member, life};
}

bool hr_swim_next_event(struct hr_swim *swim, struct hr_swim_event *ret_event)
{
    if (swim->event_count == 0) {
        return false;
    }
    *ret_event = swim->events[swim->event_first];
    swim->event_first = (swim->event_first + 1) % HR_SWIM_EVENTS_MAX;
    swim->event_count--;
    return true;
}

const char *hr_swim_event_text(enum hr_swim_event_kind kind)
{
    static const char *const texts[] = {
        [HR_SWIM_JOINED] = "joined",
        [HR_SWIM_SUSPECTED] = "does not answer",
        [HR_SWIM_RECOVERED] = "answers again",
        [HR_SWIM_DIED] = "is dead",
        [HR_SWIM_LEFT] = "left",
        [HR_SWIM_REFUTED] = "this node was suspected, and denied it",
        [HR_SWIM_NAME_CONFLICT] = "another node has this member's region and name",
        [HR_SWIM_USURPED] = "another node took this node's region and name",
        [HR_SWIM_OUTLIVED] = "this node was known in a later life: its data or its clock was lost",
        [HR_SWIM_TABLE_FULL] = "there is no room for one more member",
    };
    return (unsigned)kind < sizeof(texts) / sizeof(texts[0]) ? texts[kind] : "unknown event";
}

const struct hr_members *hr_swim_members(const struct hr_swim *swim)
{
    return &swim->members;
}

const struct hr_swim_stranger *hr_swim_stranger(const struct hr_swim *swim)
{
    return &swim->stranger;
}

bool hr_swim_is_unanswered(const struct hr_swim *swim)
{
    const char *own = swim->members.all[swim->members.self].gossip;
    for (uint32_t i = 0; i < swim->seed_count && !swim->has_contact; i++) {
        if (strcmp(swim->seeds[i], own) != 0) {
            return true;
        }
    }
    return false;
}

struct hr_swim_counts hr_swim_counts(const struct hr_swim *swim)
{
    return swim->counts;
}
