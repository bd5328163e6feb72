#include "chaos/cap_sim/cap_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_NUMBER 7U
#define OUTBOX_BYTES (1U << 16)
#define WRITE_NS_MAX (20 * HR_NS_PER_MS)

/* ---- clocks and events ---- */

/* A clock of its own origin, and slightly of its own rate. */
hr_ns cap_world_clock(const struct cap_world *world, uint32_t k)
{
    const struct cap_region *region = &world->regions[k];
    return world->now + region->offset + world->now * region->rate_ppm / 1000000;
}

/* When a region's clock will show a time: at the earliest instant at which it does. */
static hr_ns when_shown(const struct cap_world *world, uint32_t k, hr_ns shown)
{
    hr_ns left = shown - cap_world_clock(world, k);
    if (left <= 0) {
        return world->now;
    }
    return world->now + left + left / 1000 + HR_NS_PER_US; /* a little late, whatever the clock's rate */
}

static bool is_before(const struct cap_event *a, const struct cap_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void push(struct cap_world *world, struct cap_event event)
{
    if (world->heap_count == world->heap_max) {
        world->heap_max = world->heap_max == 0 ? 256 : 2 * world->heap_max;
        world->heap = realloc(world->heap, world->heap_max * sizeof world->heap[0]);
        assert(world->heap != NULL);
    }
    event.order = world->order++;
    uint32_t i = world->heap_count++;
    while (i > 0 && is_before(&event, &world->heap[(i - 1) / 2])) {
        world->heap[i] = world->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    world->heap[i] = event;
}

static struct cap_event pop(struct cap_world *world)
{
    struct cap_event top = world->heap[0], last = world->heap[--world->heap_count];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count && is_before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (!is_before(&world->heap[child], &last)) {
            break;
        }
        world->heap[i] = world->heap[child];
        i = child;
    }
    world->heap[i] = last;
    return top;
}

void cap_world_note(struct cap_world *world, const char *what, int64_t by)
{
    if (world->violation[0] == '\0') {
        (void)snprintf(world->violation, sizeof world->violation, "%s", what);
        world->violated_at = world->now;
        world->violated_by = by;
    }
}

/* ---- the network ---- */

static bool is_cut(const struct cap_world *world, uint32_t from, uint32_t to)
{
    if (world->mute[from] > 0 || world->deaf[to] > 0) {
        return true;
    }
    for (uint32_t i = 0; i < world->scenario->fault_count; i++) {
        uint32_t side = world->scenario->faults[i].who;
        if (world->is_split[i] && ((side >> from ^ side >> to) & 1) != 0) {
            return true;
        }
    }
    return false;
}

static uint8_t *copy_of(const void *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes);
    assert(copy != NULL);
    memcpy(copy, data, bytes);
    return copy;
}

static void send_copy(struct cap_world *world, uint32_t from, uint32_t to, struct hr_span body)
{
    const struct cap_scenario *s = world->scenario;
    hr_ns way = world->ways[from][to];
    uint64_t swing = (uint64_t)way / 1000 * s->jitter_permille;
    way += (hr_ns)hr_rng_below(&world->net_rng, 2 * swing + 1) - (hr_ns)swing;
    if (world->now < s->duration && hr_rng_chance(&world->net_rng, s->reorder_permille, 1000)) {
        hr_ns most = hr_rng_chance(&world->net_rng, 3, 4) ? 4 * s->tick : 3 * s->lease;
        way += (hr_ns)hr_rng_below(&world->net_rng, (uint64_t)most);
    }
    push(world, (struct cap_event){.at = world->now + way,
                                   .kind = CAP_EVENT_LETTER,
                                   .who = to,
                                   .from = from,
                                   .body = copy_of(body.at, body.bytes),
                                   .body_bytes = body.bytes});
}

/* J4: no region tells of units that it has given before its log knows. */
static void check_log(struct cap_world *world, uint32_t from, uint32_t to, const struct hr_cover_record *told)
{
    const struct cap_region *region = &world->regions[from];
    int64_t logged = 0;
    for (uint32_t w = 0; w < HR_COVER_WINDOWS; w++) {
        const struct hr_cover_image *image = &region->disk[w].image;
        bool is_window = region->has_disk[w] && image->label == told->label && image->life == told->life;
        logged = is_window ? hr_max(logged, image->rows[to].out) : logged;
    }
    cap_world_fail(world, "J4 units were given that the log does not know of", told->out - logged);
}

static void check_told(struct cap_world *world, uint32_t from, uint32_t to, struct hr_span letter)
{
    struct hr_cap_reader reader;
    struct hr_cap_header header;
    struct hr_cap_record record;
    enum hr_err err = hr_cap_read_header(letter, &reader, &header);
    assert(err == HR_OK);
    (void)err;
    while (hr_cap_read_record(&reader, &record)) {
        if (record.is_cover) {
            check_log(world, from, to, &record.cover);
        }
    }
}

static void send(struct cap_world *world, uint32_t from, const struct hr_letter *letter)
{
    const struct cap_scenario *s = world->scenario;
    uint32_t to = (uint32_t)letter->to - 1;
    uint32_t loss = world->now < s->duration ? s->loss_permille : 0;
    if (world->checks && s->has_log) {
        check_told(world, from, to, letter->body);
    }
    uint32_t copies = 1 + hr_rng_chance(&world->net_rng, s->double_permille, 1000);
    for (uint32_t i = 0; i < copies && !is_cut(world, from, to); i++) {
        if (!hr_rng_chance(&world->net_rng, loss, 1000)) {
            send_copy(world, from, to, letter->body);
        }
    }
}

/* ---- regions ---- */

static struct hr_share *host_share(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct cap_region *region = context;
    (void)id;
    (void)limit;
    if (!region->has_share) {
        hr_share_init(&region->share, now);
        region->has_share = true;
    }
    return &region->share;
}

static struct hr_escrow *host_escrow(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct cap_region *region = context;
    (void)id;
    (void)limit;
    (void)now;
    return &region->escrow;
}

static struct hr_cover_when host_when(void *context, struct hr_id128 id, uint32_t limit, hr_ns now)
{
    struct cap_region *region = context;
    const struct cap_scenario *s = region->world->scenario;
    hr_ns wall = region->world->now + region->wall_skew + 10 * HR_NS_PER_S;
    (void)id;
    (void)limit;
    (void)now;
    if (s->period_ns == 0) {
        return (struct hr_cover_when){0};
    }
    hr_ns length = (hr_ns)s->period_ns;
    return (struct hr_cover_when){.label = wall / length, .age_ns = wall % length, .length_ns = length};
}

static void configure(struct cap_world *world, uint32_t k, uint32_t epoch)
{
    struct cap_region *region = &world->regions[k];
    enum hr_err err = hr_caps_configure(region->caps, epoch, &world->limits[epoch - 1], 1, cap_world_clock(world, k));
    assert(err == HR_OK);
    (void)err;
}

static void restore_disk(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    for (uint32_t w = 0; w < HR_COVER_WINDOWS; w++) {
        if (region->has_disk[w]) {
            enum hr_err err = hr_caps_restore(region->caps, &region->disk[w], cap_world_clock(world, k));
            assert(err == HR_OK);
            (void)err;
        }
    }
}

static void start_region(struct cap_world *world, uint32_t k, bool is_first)
{
    const struct cap_scenario *s = world->scenario;
    struct cap_region *region = &world->regions[k];
    region->life++;
    region->is_up = true;
    region->offset = (int64_t)hr_rng_below(&world->net_rng, 1000) * HR_NS_PER_S;
    region->has_share = false;
    region->escrow = (struct hr_escrow){.label = INT64_MIN};
    hr_ns now = cap_world_clock(world, k);
    struct hr_caps_config config = {.region_count = s->regions,
                                    .self = k,
                                    .counters_max = 2,
                                    .links_max = 8,
                                    .limits_max = 2,
                                    .tick = s->tick,
                                    .lease = s->lease,
                                    .incarnation = region->life,
                                    .is_sole = s->is_sole};
    struct hr_caps_host host = {region, host_share, host_escrow, host_when};
    struct hr_bump measure = {0}, bump = {0};
    (void)hr_caps_init(&config, &host, &measure, now);
    hr_outbox_init(&region->outbox, OUTBOX_BYTES, &measure);
    if (region->memory == NULL) {
        region->memory = calloc(1, measure.taken);
        assert(region->memory != NULL);
    }
    bump.at = region->memory;
    region->caps = hr_caps_init(&config, &host, &bump, now);
    hr_outbox_init(&region->outbox, OUTBOX_BYTES, &bump);
    hr_caps_own(region->caps, 0, now, is_first, s->has_log ? 77 : 0);
    for (uint32_t j = 0; j < s->regions; j++) {
        if (j != k) {
            enum hr_err err = hr_caps_set_owner(region->caps, j, 0, j + 1);
            assert(err == HR_OK);
            (void)err;
        }
    }
    configure(world, k, 1);
    if (region->epoch == 2) {
        configure(world, k, 2);
    }
    restore_disk(world, k);
    enum hr_err touched = hr_caps_touch(region->caps, world->id, LIMIT_NUMBER, now);
    assert(touched == HR_OK);
    (void)touched;
}

static void note_zombies(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    struct hr_lend *lend = hr_caps_lend(region->caps, world->id);
    for (uint32_t j = 0; j < world->scenario->regions && lend != NULL && !world->scenario->is_sole; j++) {
        const struct hr_cap_link *link = hr_caps_link(region->caps, j, 0);
        struct cap_zombie *zombie = &region->zombies[j];
        hr_ns now = cap_world_clock(world, k);
        if (link != NULL && hr_cap_link_may_use(link, now) && lend->debts[j].rate > 0 && zombie->until <= world->now) {
            hr_ns left = link->lease_until - now;
            *zombie = (struct cap_zombie){lend->debts[j].rate, lend->debts[j].depth,
                                          world->now + left - left / 1000000 * region->rate_ppm};
        }
    }
}

static void start_writes(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    struct hr_caps_write write;
    while (world->scenario->has_log && hr_caps_next_write(region->caps, &write)) {
        hr_ns took = 1 + (hr_ns)hr_rng_below(&world->net_rng, (uint64_t)WRITE_NS_MAX);
        push(world, (struct cap_event){.at = world->now + took,
                                       .kind = CAP_EVENT_WRITTEN,
                                       .who = k,
                                       .life = region->life,
                                       .body = copy_of(&write, sizeof write)});
    }
}

/* What is on the disk when a write ends; one that was on its way at a crash may or may not have got there. */
static void end_write(struct cap_world *world, const struct cap_event *event)
{
    struct cap_region *region = &world->regions[event->who];
    if (region->life != event->life || !region->is_up) {
        return;
    }
    struct hr_caps_write write;
    memcpy(&write, event->body, sizeof write);
    region->disk[write.window] = write;
    region->has_disk[write.window] = true;
    hr_caps_written(region->caps, &write, true, cap_world_clock(world, event->who));
}

static void turn(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    struct hr_letter letter;
    hr_ns now = cap_world_clock(world, k);
    if (now >= hr_caps_deadline(region->caps)) {
        hr_caps_tick(region->caps, now, &region->outbox);
    }
    while (hr_outbox_next(&region->outbox, &letter)) {
        send(world, k, &letter);
    }
    start_writes(world, k);
}

/* ---- faults ---- */

static void begin_fault(struct cap_world *world, uint32_t i)
{
    const struct cap_fault *fault = &world->scenario->faults[i];
    world->deaf[fault->who % HR_REGIONS_MAX] += fault->kind == CAP_CUT || fault->kind == CAP_DEAF;
    world->mute[fault->who % HR_REGIONS_MAX] += fault->kind == CAP_CUT || fault->kind == CAP_MUTE;
    world->is_split[i] = fault->kind == CAP_SPLIT;
    if (fault->kind == CAP_CRASH && world->regions[fault->who].is_up) {
        note_zombies(world, fault->who);
        world->regions[fault->who].is_up = false;
    }
    for (uint32_t k = 0; k < world->scenario->regions && fault->kind == CAP_NEW_EPOCH; k++) {
        hr_ns seen = (hr_ns)hr_rng_below(&world->net_rng, (uint64_t)(3 * HR_NS_PER_S));
        push(world, (struct cap_event){.at = world->now + seen, .kind = CAP_EVENT_EPOCH, .who = k});
    }
}

static void end_fault(struct cap_world *world, uint32_t i)
{
    const struct cap_fault *fault = &world->scenario->faults[i];
    world->deaf[fault->who % HR_REGIONS_MAX] -= fault->kind == CAP_CUT || fault->kind == CAP_DEAF;
    world->mute[fault->who % HR_REGIONS_MAX] -= fault->kind == CAP_CUT || fault->kind == CAP_MUTE;
    world->is_split[i] = false;
    if (fault->kind == CAP_CRASH && !world->regions[fault->who].is_up) {
        start_region(world, fault->who, false);
    }
}

static void learn_epoch(struct cap_world *world, uint32_t k)
{
    struct cap_region *region = &world->regions[k];
    if (region->epoch == 2) {
        return;
    }
    region->epoch = 2;
    if (region->is_up) {
        configure(world, k, 2);
    }
}

/* ---- a run ---- */

static void set_limit(struct cap_world *world, uint32_t epoch, uint64_t rate, uint64_t burst, const uint32_t *weights)
{
    const struct cap_scenario *s = world->scenario;
    struct hr_cap_limit *limit = &world->limits[epoch - 1];
    *limit = (struct hr_cap_limit){.number = LIMIT_NUMBER, .is_cover = s->is_cover};
    if (!s->is_cover) {
        struct hr_lend_numbers numbers = {rate, s->period_ns, burst, s->reserve_permille, 0};
        hr_lend_rule_init(&limit->lend, &numbers, s->regions, weights);
        return;
    }
    limit->cover = (struct hr_cover_rule){.total = (int64_t)rate,
                                          .reserve_permille = s->reserve_permille,
                                          .reserve_decays = s->reserve_decays,
                                          .has_windows = s->period_ns > 0,
                                          .has_log = s->has_log,
                                          .count = s->regions};
    for (uint32_t k = 0; k < s->regions; k++) {
        limit->cover.weights[k] = weights[k];
    }
}

static void set_limits(struct cap_world *world, struct hr_rng *rng)
{
    const struct cap_scenario *s = world->scenario;
    uint32_t weights[2][HR_REGIONS_MAX] = {0}, divisor = 1;
    for (uint32_t k = 0; k < s->regions; k++) {
        weights[0][k] = s->is_uneven ? 200 + (uint32_t)hr_rng_below(rng, 1000) : 1;
        weights[1][k] = weights[0][k];
    }
    for (uint32_t i = 0; i < s->fault_count; i++) {
        if (s->faults[i].kind == CAP_NEW_EPOCH && s->faults[i].who < 2) {
            weights[s->faults[i].who][s->regions - 1] = 0;
        } else if (s->faults[i].kind == CAP_NEW_EPOCH) {
            divisor = 2;
        }
    }
    set_limit(world, 1, s->rate, s->burst, weights[0]);
    uint64_t rate = s->rate / divisor, burst = s->burst / divisor;
    set_limit(world, 2, rate == 0 ? 1 : rate, burst == 0 ? 1 : burst, weights[1]);
    if (world->limits[0].lend.is_pooled != world->limits[1].lend.is_pooled) {
        world->limits[1] = world->limits[0]; /* another shape would be another limit */
    }
    for (uint32_t e = 0; e < 2 && !s->is_cover; e++) {
        hr_lend_homes_of(&world->limits[e].lend, world->id.lo, &world->homes[e]);
    }
}

static void set_ways(struct cap_world *world, struct hr_rng *rng)
{
    const struct cap_scenario *s = world->scenario;
    for (uint32_t i = 0; i < s->regions; i++) {
        for (uint32_t j = 0; j < s->regions; j++) {
            uint64_t permille = s->is_uneven ? 200 + hr_rng_below(rng, 1600) : 1000;
            world->ways[i][j] = s->delay / 1000 * (hr_ns)permille;
        }
    }
}

static void begin(struct cap_world *world)
{
    const struct cap_scenario *s = world->scenario;
    struct hr_rng rng = {world->seed * 31 + 5};
    world->load_rng.state = world->seed * 1000003 + 1;
    world->net_rng.state = world->seed * 7919 + 13;
    world->id = (struct hr_id128){world->seed % 1000, world->seed};
    set_limits(world, &rng);
    set_ways(world, &rng);
    world->central_level = s->is_cover ? 0 : world->limits[0].lend.depth;
    for (uint32_t k = 0; k < s->regions; k++) {
        struct cap_region *region = &world->regions[k];
        region->world = world;
        region->place = k;
        region->epoch = 1;
        region->rate_ppm = s->drift_ppm == 0 ? 0 : (int64_t)hr_rng_below(&rng, 2 * s->drift_ppm + 1) - s->drift_ppm;
        region->wall_skew = s->skew == 0 ? 0 : (hr_ns)hr_rng_below(&rng, (uint64_t)(2 * s->skew)) - s->skew;
        start_region(world, k, true);
    }
    push(world, (struct cap_event){.at = 0, .kind = CAP_EVENT_LOAD});
    for (uint32_t i = 0; i < s->fault_count; i++) {
        push(world, (struct cap_event){.at = s->faults[i].from, .kind = CAP_EVENT_FAULT, .who = i});
        push(world, (struct cap_event){.at = s->faults[i].until, .kind = CAP_EVENT_FAULT_END, .who = i});
    }
}

static void carry_out(struct cap_world *world, struct cap_event *event)
{
    switch (event->kind) {
    case CAP_EVENT_LOAD:
        cap_load_step(world);
        cap_rest_look(world);
        push(world, (struct cap_event){.at = world->now + cap_rest_step(world), .kind = CAP_EVENT_LOAD});
        break;
    case CAP_EVENT_LETTER:
        if (world->regions[event->who].is_up) {
            enum hr_err err = hr_caps_receive(world->regions[event->who].caps, event->from + 1,
                                              (struct hr_span){(const char *)event->body, event->body_bytes},
                                              cap_world_clock(world, event->who));
            assert(err == HR_OK);
            (void)err;
        }
        break;
    case CAP_EVENT_WRITTEN:
        end_write(world, event);
        break;
    case CAP_EVENT_FAULT:
        begin_fault(world, event->who);
        break;
    case CAP_EVENT_FAULT_END:
        end_fault(world, event->who);
        break;
    case CAP_EVENT_EPOCH:
        learn_epoch(world, event->who);
        break;
    }
}

/* The region whose next turn comes first, if that is before `until`. */
static uint32_t next_turn(const struct cap_world *world, hr_ns until, hr_ns *ret_at)
{
    uint32_t best = HR_REGIONS_MAX;
    hr_ns at = until;
    for (uint32_t k = 0; k < world->scenario->regions; k++) {
        if (world->regions[k].is_up) {
            hr_ns due = when_shown(world, k, hr_caps_deadline(world->regions[k].caps));
            if (due < at) {
                at = due;
                best = k;
            }
        }
    }
    *ret_at = at;
    return best;
}

void cap_world_run(struct cap_world *world, const struct cap_scenario *scenario, uint64_t seed, bool checks)
{
    cap_world_free(world);
    memset(world, 0, sizeof *world);
    world->scenario = scenario;
    world->seed = seed;
    world->checks = checks;
    begin(world);
    hr_ns end = cap_rest_end(scenario);
    while (world->heap_count > 0 && world->violation[0] == '\0') {
        hr_ns at = 0;
        uint32_t k = next_turn(world, world->heap[0].at, &at);
        if (at > end) {
            break;
        }
        world->now = hr_max(world->now, at);
        if (k < HR_REGIONS_MAX) {
            turn(world, k);
        } else {
            struct cap_event event = pop(world);
            carry_out(world, &event);
            free(event.body);
            for (uint32_t i = 0; i < scenario->regions && event.kind != CAP_EVENT_LOAD; i++) {
                if (world->regions[i].is_up) {
                    start_writes(world, i);
                }
            }
        }
        if (checks) {
            cap_audit(world);
        }
    }
}

void cap_world_free(struct cap_world *world)
{
    for (uint32_t i = 0; i < world->heap_count; i++) {
        free(world->heap[i].body);
    }
    free(world->heap);
    for (uint32_t k = 0; k < HR_REGIONS_MAX; k++) {
        free(world->regions[k].memory);
        world->regions[k].memory = NULL;
    }
    world->heap = NULL;
    world->heap_count = 0;
}
