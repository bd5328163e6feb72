#include "tests/lib/region_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limiter_state.h"
#include "limiter/save.h"
#include "storage/images.h"
#include "storage/segment.h"

#define OUTBOX_BYTES (2U << 20)
#define BATCH_BYTES (1U << 20)
#define LETTERS_MAX 16384
#define COMMIT_NS_MAX (20 * HR_NS_PER_MS)
#define FAREWELL_NS (100 * HR_NS_PER_MS) /* the others are to hear from it */
#define FLUSH_NS (50 * HR_NS_PER_MS)

/* One on its way. */
struct sim_letter {
    uint32_t from, to;
    uint64_t from_life, to_life;
    enum hr_letter_kind kind;
    hr_ns at;
    uint64_t number;
    uint8_t *body;
    size_t bytes;
};

/* --- clocks --- */

static hr_ns clock_of(const struct sim *sim, const struct sim_node *node)
{
    return node->offset_ns + sim->now + sim->now / 1000000 * node->drift_ppm;
}

static struct hr_now now_of(const struct sim *sim, const struct sim_node *node)
{
    return (struct hr_now){clock_of(sim, node), {SECONDS(FIXTURE_START_S)}};
}

/* --- limits --- */

static const struct fixture_limit *limits_of_sim(void)
{
    static struct fixture_limit limits[2];
    limits[0] =
        (struct fixture_limit){.name = "slots", .key = "user", .when = "kind=s", .rule = slots(1000000, DAYS(30))};
    limits[1] =
        (struct fixture_limit){.name = "units", .key = "user", .when = "kind=q", .rule = quota(1000000, HR_YEAR, NULL)};
    return limits;
}

static void text_of(uint32_t user, char text[64])
{
    snprintf(text, 64, "user=u%u kind=%c", user, user < SIM_SLOT_USERS ? 's' : 'q');
}

static void open_limiter(const struct sim *sim, struct sim_node *node)
{
    fixture_open(&node->fixture, (struct hr_limiter_sizes){.counters_max = 256,
                                                           .leases_max = SIM_LEASES_MAX,
                                                           .log_blocks_max = 4,
                                                           .limits_max = 4,
                                                           .reserves_max = 4,
                                                           .saves = true});
    node->fixture.now = now_of(sim, node);
    fixture_load(&node->fixture, limits_of_sim(), 2);
}

uint64_t region_spent_at(struct sim *sim, uint32_t node, uint32_t user)
{
    struct hr_limiter *limiter = sim->nodes[node].fixture.limiter;
    const struct hr_cell *cell = hr_table_find(&limiter->table, sim->counters[user]);
    if (cell == NULL) {
        return 0;
    }
    return user < SIM_SLOT_USERS ? cell->state.concurrency.held : cell->state.quota.used;
}

/* --- the whole --- */

static struct hr_member member_of(uint32_t i, uint32_t hosts)
{
    struct hr_member member = {.id = UINT64_C(0x9e3779b97f4a7c15) * (i + 1), .incarnation = 1, .weight = 1};
    snprintf(member.name, sizeof(member.name), "n%u", i);
    snprintf(member.region, sizeof(member.region), "eu");
    if (hosts > 0) {
        snprintf(member.host, sizeof(member.host), "h%u", i % hosts);
    }
    return member;
}

/* Whose counter is whose: asked of a limiter that is thrown away. */
static void name_counters(struct sim *sim)
{
    struct sim_node probe = {.is_up = false};
    char text[64];
    open_limiter(sim, &probe);
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        text_of(user, text);
        assert_true(fixture_peek(&probe.fixture, text, 1));
        assert_int_equal(probe.fixture.decision.row_count, 1);
        sim->counters[user] = probe.fixture.decision.rows[0].counter;
    }
    fixture_close(&probe.fixture);
}

struct sim *region_new(uint64_t seed, uint32_t node_count)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    assert_non_null(sim);
    sim->seed = seed;
    sim->rng.state = seed;
    sim->node_count = node_count;
    sim->now = SECONDS(1000);
    sim->faults.delay_max = HR_NS_PER_MS;
    sim->letters = calloc(LETTERS_MAX, sizeof(*sim->letters));
    assert_non_null(sim->letters);
    name_counters(sim);
    for (uint32_t i = 0; i < node_count; i++) {
        struct sim_node *node = &sim->nodes[i];
        node->offset_ns = (int64_t)hr_rng_below(&sim->rng, (uint64_t)DAYS(100));
        node->drift_ppm = (int64_t)hr_rng_below(&sim->rng, 2001) - 1000;
        node->batch_memory = malloc(BATCH_BYTES);
        hr_batch_init(&node->disk.tenure, node->disk.tenure_memory, sizeof(node->disk.tenure_memory));
    }
    return sim;
}

void region_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->letter_count; i++) {
        free(sim->letters[i].body);
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (sim->nodes[i].is_up) {
            region_crash(sim, i);
        }
        free(sim->nodes[i].batch_memory);
    }
    free(sim->letters);
    free(sim);
}

/* --- a node's life --- */

static void load_disk(struct sim *sim, struct sim_node *node, hr_ns down_ns)
{
    struct hr_now now = now_of(sim, node);
    struct hr_batch_op op;
    struct hr_record record;
    size_t offset = 0;
    for (uint32_t i = 0; i < node->disk.counter_count; i++) {
        assert_int_equal(hr_limiter_restore(node->fixture.limiter, &node->disk.counters[i], down_ns, now), HR_OK);
    }
    for (uint32_t i = 0; i < node->disk.lease_count; i++) {
        assert_int_equal(hr_limiter_restore_lease(node->fixture.limiter, &node->disk.leases[i], 0, now), HR_OK);
    }
    while (hr_batch_next(&node->disk.tenure, &offset, &op)) {
        assert_int_equal(hr_record_decode(op.key, op.value, &record), HR_OK);
        assert_int_equal(hr_tenure_restore(node->tenure, &record, now.steady), HR_OK);
    }
}

void region_start(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    if (node->is_up) {
        return;
    }
    for (uint32_t i = 0; i < sim->node_count; i++) {
        node->all[i] = member_of(i, sim->hosts);
    }
    node->members = (struct hr_members){node->all, sim->node_count, sim->node_count, index, 1};
    memset(node->seen_life, 0, sizeof(node->seen_life));
    node->life = ++sim->life;
    node->outbox_memory = calloc(1, OUTBOX_BYTES + 64);
    struct hr_bump bump = {.at = node->outbox_memory};
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, &bump);
    open_limiter(sim, node);
    struct hr_tenure_config config = {
        .members = &node->members,
        .outbox = &node->outbox,
        .limiter = node->fixture.limiter,
        .life = node->life,
        .lineage = 1 + hr_rng_next(&sim->rng) / 2,
        .has_seeds = sim->node_count > 1,
        .saves = true,
        .nodes_max = SIM_NODES_MAX,
    };
    size_t bytes = (hr_tenure_bytes(&config) + 63) & ~(size_t)63;
    node->memory = aligned_alloc(64, bytes);
    assert_non_null(node->memory);
    memset(node->memory, 0, bytes);
    node->tenure = hr_tenure_init(&config, clock_of(sim, node), node->memory, bytes);
    assert_non_null(node->tenure);
    load_disk(sim, node, 0);
    node->is_up = true;
    node->is_paused = node->in_flight = node->has_mark = node->has_left = false;
    node->restart_at = node->farewell_until = 0;
    node->flush_at = clock_of(sim, node);
}

void region_crash(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    if (node->is_up) {
        fixture_close(&node->fixture);
        free(node->memory);
        free(node->outbox_memory);
        node->is_up = false;
        node->tenure = NULL;
    }
}

void region_wipe(struct sim *sim, uint32_t index)
{
    struct sim_disk *disk = &sim->nodes[index].disk;
    hr_batch_clear(&disk->tenure);
    disk->counter_count = disk->lease_count = 0;
}

void region_set_pause(struct sim *sim, uint32_t node, bool is_paused)
{
    sim->nodes[node].is_paused = is_paused;
}

void region_cut(struct sim *sim, uint32_t from, uint32_t to, bool is_cut)
{
    sim->is_cut[from][to] = is_cut;
}

void region_heal(struct sim *sim)
{
    memset(sim->is_cut, 0, sizeof(sim->is_cut));
    sim->faults = (struct sim_faults){.delay_max = HR_NS_PER_MS};
    for (uint32_t i = 0; i < sim->node_count; i++) {
        sim->nodes[i].is_paused = false;
        if (!sim->nodes[i].is_up) {
            region_start(sim, i);
        }
    }
}

void region_leave(struct sim *sim, uint32_t index)
{
    sim->nodes[index].has_left = true;
}

/* --- the network --- */

static void post_one(struct sim *sim, uint32_t from, uint32_t to, const struct hr_letter *letter)
{
    if (sim->letter_count == LETTERS_MAX) {
        return; /* as if lost */
    }
    struct sim_letter *flight = &sim->letters[sim->letter_count++];
    hr_ns *last_at = &sim->last_at[from][to];
    hr_ns at = sim->now + (hr_ns)hr_rng_below(&sim->rng, (uint64_t)sim->faults.delay_max + 1);
    at = sim->faults.reorders || at > *last_at ? at : *last_at;
    *last_at = at;
    *flight = (struct sim_letter){.from = from,
                                  .to = to,
                                  .from_life = sim->nodes[from].life,
                                  .to_life = sim->nodes[to].life,
                                  .kind = letter->kind,
                                  .at = at,
                                  .number = sim->letters_posted++,
                                  .bytes = letter->body.bytes};
    flight->body = malloc(letter->body.bytes + 1);
    assert_non_null(flight->body);
    memcpy(flight->body, letter->body.at, letter->body.bytes);
}

static void post(struct sim *sim, uint32_t from)
{
    struct hr_letter letter;
    while (hr_outbox_next(&sim->nodes[from].outbox, &letter)) {
        for (uint32_t to = 0; to < sim->node_count; to++) {
            if (sim->nodes[from].all[to].id != letter.to || sim->is_cut[from][to] ||
                hr_rng_chance(&sim->rng, sim->faults.loss_percent, 100)) {
                continue;
            }
            post_one(sim, from, to, &letter);
            if (hr_rng_chance(&sim->rng, sim->faults.double_percent, 100)) {
                post_one(sim, from, to, &letter);
            }
        }
    }
}

static void deliver(struct sim *sim, const struct sim_letter *letter)
{
    struct sim_node *node = &sim->nodes[letter->to];
    bool is_refused = letter->to_life != node->life || letter->from_life < node->seen_life[letter->from];
    if (!node->is_up || is_refused || sim->is_cut[letter->from][letter->to]) {
        return;
    }
    node->seen_life[letter->from] = letter->from_life;
    uint8_t *body = malloc(letter->bytes + (letter->bytes == 0)); /* of its own size: no read beyond it goes unseen */
    assert_non_null(body);
    memcpy(body, letter->body, letter->bytes);
    hr_tenure_receive(node->tenure, letter->kind, letter->from, (struct hr_span){(char *)body, letter->bytes},
                      now_of(sim, node));
    free(body);
}

static int is_later(const void *a, const void *b)
{
    const struct sim_letter *x = a, *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->number < y->number ? -1 : 1;
}

/* Those that are due, in the order of their times. */
static void deliver_due(struct sim *sim)
{
    static struct sim_letter due[LETTERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->letter_count;) {
        if (sim->letters[i].at > sim->now || sim->nodes[sim->letters[i].to].is_paused) {
            i++;
            continue;
        }
        due[count++] = sim->letters[i];
        sim->letters[i] = sim->letters[--sim->letter_count];
    }
    qsort(due, count, sizeof(due[0]), is_later);
    for (uint32_t i = 0; i < count; i++) {
        deliver(sim, &due[i]);
        free(due[i].body);
    }
}

/* --- stores --- */

static void keep_counter(struct sim_disk *disk, const struct hr_counter_image *image, bool is_forgotten)
{
    uint32_t i = 0;
    while (i < disk->counter_count && !hr_id128_equal(disk->counters[i].id, image->id)) {
        i++;
    }
    if (is_forgotten && i < disk->counter_count) {
        disk->counters[i] = disk->counters[--disk->counter_count];
    } else if (!is_forgotten) {
        assert_true(i < 4 * SIM_USERS);
        disk->counters[i] = *image;
        disk->counter_count += i == disk->counter_count;
    }
}

static void keep_lease(struct sim_disk *disk, struct hr_id128 id, const struct hr_lease_image *image)
{
    uint32_t i = 0;
    while (i < disk->lease_count && !hr_id128_equal(disk->leases[i].id, id)) {
        i++;
    }
    if (image == NULL && i < disk->lease_count) {
        disk->leases[i] = disk->leases[--disk->lease_count];
    } else if (image != NULL) {
        assert_true(i < SIM_LEASES_MAX);
        disk->leases[i] = *image;
        disk->lease_count += i == disk->lease_count;
    }
}

static void commit_put(struct sim_disk *disk, const struct hr_batch_op *op)
{
    struct hr_record record;
    struct hr_segment_reader reader;
    struct hr_counter_image counter;
    struct hr_lease_image lease;
    bool is_forgotten;
    assert_int_equal(hr_record_decode(op->key, op->value, &record), HR_OK);
    if (record.kind == HR_RECORD_TENURE) {
        struct hr_store_key key = {.bytes = (uint8_t)op->key.bytes};
        memcpy(key.at, op->key.at, op->key.bytes);
        assert_int_equal(hr_batch_put(&disk->tenure, &key, record.payload), HR_OK);
    } else if (record.kind == HR_RECORD_COUNTER) {
        assert_int_equal(hr_segment_open(&record, &reader), HR_OK);
        while (hr_segment_next(&reader, &counter, &is_forgotten) == HR_OK) {
            keep_counter(disk, &counter, is_forgotten);
        }
    } else {
        assert_int_equal(hr_lease_decode(&record, &lease), HR_OK);
        keep_lease(disk, lease.id, &lease);
    }
}

static void commit(struct sim *sim, struct sim_node *node)
{
    struct hr_batch_op op;
    struct hr_id128 id;
    size_t offset = 0;
    if (node->has_mark) {
        hr_batch_clear(&node->disk.tenure);
    }
    while (hr_batch_next(&node->batch, &offset, &op)) {
        if (op.is_put) {
            commit_put(&node->disk, &op);
        } else if (hr_batch_op_is_of(&op, HR_RECORD_LEASE, &id)) {
            keep_lease(&node->disk, id, NULL);
        }
    }
    node->is_committed = true;
    if (node->has_mark) {
        hr_tenure_saved(node->tenure, node->mark, true, clock_of(sim, node));
    }
}

static void fill_batch(struct sim *sim, struct sim_node *node)
{
    static uint8_t memory[HR_SEGMENT_BYTES_MAX];
    struct hr_segment_writer writer;
    struct hr_counter_image counter;
    struct hr_lease_image lease;
    struct hr_id128 id;
    struct hr_now now = now_of(sim, node);
    bool has_ended;
    hr_segment_clear(&writer, memory);
    while (hr_limiter_next_forgotten(node->fixture.limiter, &id)) {
        hr_segment_forget(&writer, id, now.steady);
    }
    while (hr_limiter_next_changed(node->fixture.limiter, now, &counter)) {
        hr_segment_put(&writer, &counter);
    }
    if (writer.used > 0) {
        struct hr_store_key key = hr_segment_key(node->ticket);
        assert_int_equal(hr_batch_put(&node->batch, &key, (struct hr_span){(char *)memory, writer.used}), HR_OK);
    }
    while (hr_limiter_next_lease(node->fixture.limiter, now, &lease, &has_ended)) {
        if (has_ended) {
            hr_batch_delete_lease(&node->batch, lease.id);
        } else {
            hr_batch_put_lease(&node->batch, &lease);
        }
    }
}

static void note_spent(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        bool is_owner = region_owner(sim, hr_partition_of(sim->counters[user])) == index;
        node->batch_spent[user] = is_owner ? region_spent_at(sim, index, user) : 0;
    }
}

static void begin_batch(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    bool is_due = clock_of(sim, node) >= node->flush_at;
    if (!is_due && !hr_tenure_is_unsaved(node->tenure)) {
        return;
    }
    node->ticket++;
    hr_batch_init(&node->batch, node->batch_memory, BATCH_BYTES);
    node->has_mark = hr_tenure_next_record(node->tenure, &node->batch, &node->mark);
    if (is_due) {
        node->flush_at = clock_of(sim, node) + FLUSH_NS;
        note_spent(sim, index);
        fill_batch(sim, node);
    }
    if (node->batch.count == 0) {
        return;
    }
    node->in_flight = true;
    node->is_committed = false;
    node->commit_at = sim->now + (hr_ns)hr_rng_below(&sim->rng, COMMIT_NS_MAX);
    hr_tenure_copy(node->tenure, &node->batch, node->ticket, now_of(sim, node));
}

static void run_store(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    if (node->in_flight && !node->is_committed && sim->now >= node->commit_at) {
        commit(sim, node);
    }
    if (node->in_flight && node->is_committed && hr_tenure_copied(node->tenure, node->ticket)) {
        node->in_flight = false;
        memcpy(node->safe_spent, node->batch_spent, sizeof(node->safe_spent));
    }
    if (!node->in_flight) {
        begin_batch(sim, index);
    }
}

/* --- steps --- */

static void violate(struct sim *sim, const char *what, uint32_t partition)
{
    if (sim->violation == NULL) {
        printf("seed %llu at %lld ms, partition %u: %s\n", (unsigned long long)sim->seed,
               (long long)((sim->now - SECONDS(1000)) / HR_NS_PER_MS), partition, what);
        sim->violation = what;
    }
}

static bool answers(const struct sim *sim, uint32_t index, uint32_t partition)
{
    const struct sim_node *node = &sim->nodes[index];
    uint32_t member;
    return node->is_up && hr_tenure_standing(node->tenure, partition, clock_of(sim, node), &member) == HR_STANDING_MINE;
}

uint32_t region_owner(struct sim *sim, uint32_t partition)
{
    uint32_t owner = UINT32_MAX;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (!answers(sim, i, partition)) {
            continue;
        }
        if (owner != UINT32_MAX) {
            violate(sim, "two nodes answer", partition);
        }
        owner = i;
    }
    return owner;
}

hr_ns region_age(const struct sim *sim, uint32_t from, uint32_t to)
{
    const struct sim_node *writer = &sim->nodes[from], *reader = &sim->nodes[to];
    struct hr_heard heard = hr_tenure_heard(writer->tenure, writer->all[to].id);
    return heard.stamp < 0 ? INT64_MAX
                           : hr_heard_age(heard.stamp, clock_of(sim, writer) - heard.at, clock_of(sim, reader));
}

static void check_ages(struct sim *sim)
{
    for (uint32_t from = 0; from < sim->node_count; from++) {
        for (uint32_t to = 0; to < sim->node_count; to++) {
            bool are_up = from != to && sim->nodes[from].is_up && sim->nodes[to].is_up;
            if (are_up && region_age(sim, from, to) < 0) {
                violate(sim, "a letter is taken for younger than it is", 0);
            }
        }
    }
}

static void check(struct sim *sim)
{
    check_ages(sim);
    uint32_t step = (uint32_t)(sim->now / SIM_STEP_NS);
    for (uint32_t p = step % 16; p < HR_PARTITIONS; p += 16) {
        (void)region_owner(sim, p);
    }
    for (uint32_t user = 0; user < SIM_USERS; user++) {
        uint32_t partition = hr_partition_of(sim->counters[user]), owner = region_owner(sim, partition);
        if (owner != UINT32_MAX && region_spent_at(sim, owner, user) > sim->spent[user]) {
            violate(sim, "more stands there than was spent", partition);
        }
    }
}

static void go_on_leaving(struct sim *sim, uint32_t index, hr_ns now)
{
    struct sim_node *node = &sim->nodes[index];
    bool has_left = hr_tenure_leave(node->tenure, now);
    bool is_last = hr_tenure_is_last(node->tenure);
    node->farewell_until = !is_last ? 0 : node->farewell_until == 0 ? now + FAREWELL_NS : node->farewell_until;
    if (has_left || (is_last && now >= node->farewell_until)) {
        region_crash(sim, index);
    }
}

static void step_node(struct sim *sim, uint32_t index)
{
    struct sim_node *node = &sim->nodes[index];
    if (!node->is_up && node->restart_at != 0 && sim->now >= node->restart_at) {
        region_start(sim, index);
    }
    if (!node->is_up || node->is_paused) {
        return;
    }
    hr_ns now = clock_of(sim, node);
    node->fixture.now = now_of(sim, node);
    if (hr_tenure_deadline(node->tenure) <= now) {
        hr_tenure_tick(node->tenure, now_of(sim, node));
    }
    run_store(sim, index);
    post(sim, index);
    if (node->has_left) {
        go_on_leaving(sim, index, now);
    }
}

static void step(struct sim *sim)
{
    sim->now += SIM_STEP_NS;
    deliver_due(sim);
    for (uint32_t i = 0; i < sim->node_count; i++) {
        step_node(sim, i);
    }
    check(sim);
}

void region_run(struct sim *sim, hr_ns ns)
{
    for (hr_ns end = sim->now + ns; sim->now < end;) {
        step(sim);
    }
}

bool region_is_settled(struct sim *sim)
{
    uint64_t version = 0;
    for (uint32_t i = 0; i < sim->node_count; i++) {
        if (!sim->nodes[i].is_up) {
            continue;
        }
        struct hr_tenure_counts counts = hr_tenure_counts(sim->nodes[i].tenure, clock_of(sim, &sim->nodes[i]));
        if (version != 0 && counts.version != version) {
            return false;
        }
        version = counts.version;
    }
    for (uint32_t p = 0; p < HR_PARTITIONS; p++) {
        if (region_owner(sim, p) == UINT32_MAX) {
            return false;
        }
    }
    return true;
}

bool region_settle(struct sim *sim, hr_ns ns)
{
    hr_ns end = sim->now + ns, calm_since = sim->now;
    uint64_t version = 0;
    while (sim->now < end) {
        step(sim);
        uint64_t now_version = 0;
        for (uint32_t i = 0; i < sim->node_count; i++) {
            if (sim->nodes[i].is_up) {
                now_version += hr_tenure_counts(sim->nodes[i].tenure, 0).version;
            }
        }
        calm_since = now_version == version ? calm_since : sim->now;
        version = now_version;
        if (sim->now - calm_since >= SECONDS(2) && region_is_settled(sim)) {
            return true;
        }
    }
    return false;
}

bool region_spend(struct sim *sim, uint32_t user)
{
    char text[64];
    uint32_t owner = region_owner(sim, hr_partition_of(sim->counters[user]));
    if (owner == UINT32_MAX || sim->nodes[owner].is_paused) {
        sim->unanswered++;
        return false;
    }
    struct fixture *fixture = &sim->nodes[owner].fixture;
    fixture->now = now_of(sim, &sim->nodes[owner]);
    fixture->serial = hr_rng_next(&sim->rng); /* a lease of each is named by its own */
    text_of(user, text);
    assert_true(fixture_take(fixture, text, 1));
    sim->spent[user]++;
    sim->answered++;
    return true;
}
