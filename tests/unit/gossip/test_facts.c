/* Facts: every node comes to hold the newest of each, whatever order they come in and whatever is lost on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/facts.h"

#define NODES 5
#define FACTS_MAX 64
#define ARENA_BYTES 8192
#define OUTBOX_BYTES (1U << 20)

struct node {
    void *memory;
    struct hr_facts facts;
    struct hr_outbox outbox;
    struct hr_member all[NODES];
    struct hr_members members;
};

struct world {
    struct node nodes[NODES];
    struct hr_rng rng;
    uint32_t loss_percent;
    hr_ns now;
};

static void set_up_node(struct node *node, uint32_t self)
{
    struct hr_bump measure = {0}, bump = {0};
    hr_facts_init(&node->facts, FACTS_MAX, ARENA_BYTES, self + 1, self, &measure);
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, &measure);
    node->memory = bump.at = aligned_alloc(64, (measure.taken + 63) & ~(size_t)63);
    assert_non_null(bump.at);
    hr_facts_init(&node->facts, FACTS_MAX, ARENA_BYTES, self + 1, self, &bump);
    hr_outbox_init(&node->outbox, OUTBOX_BYTES, &bump);
    for (uint32_t i = 0; i < NODES; i++) {
        node->all[i] = (struct hr_member){.id = i + 1, .state = HR_MEMBER_ALIVE};
    }
    node->members = (struct hr_members){node->all, NODES, NODES, self, 1};
}

static void set_up(struct world *world, uint64_t seed, uint32_t loss_percent)
{
    *world = (struct world){.rng = {seed}, .loss_percent = loss_percent};
    for (uint32_t i = 0; i < NODES; i++) {
        set_up_node(&world->nodes[i], i);
    }
}

static void tear_down(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++) {
        free(world->nodes[i].memory);
    }
}

/* Delivers what there is, each letter twice in one case of ten. */
static void deliver(struct world *world)
{
    struct hr_letter letter;
    for (uint32_t i = 0; i < NODES; i++) {
        while (hr_outbox_next(&world->nodes[i].outbox, &letter)) {
            struct node *to = &world->nodes[letter.to - 1];
            for (uint32_t n = hr_rng_chance(&world->rng, 1, 10) ? 2 : 1; n > 0; n--) {
                if (!hr_rng_chance(&world->rng, world->loss_percent, 100)) {
                    hr_facts_receive(&to->facts, i + 1, letter.body, &to->outbox);
                }
            }
        }
    }
}

static void run(struct world *world, uint32_t seconds)
{
    for (uint32_t s = 0; s < seconds; s++) {
        world->now += HR_FACTS_COMPARE_NS;
        for (uint32_t i = 0; i < NODES; i++) {
            struct node *node = &world->nodes[i];
            hr_facts_tick(&node->facts, &node->members, &node->outbox, world->now);
        }
        for (uint32_t i = 0; i < 6; i++) {
            deliver(world);
        }
    }
}

static enum hr_err write_at(struct world *world, uint32_t node, const char *name, const char *value)
{
    struct node *at = &world->nodes[node];
    const struct hr_now now = {world->now, {world->now}};
    struct hr_fact_version version = hr_facts_next_version(&at->facts, now);
    return hr_facts_write(&at->facts, hr_span_of(name), hr_span_of(value), version, &at->members, &at->outbox);
}

/* The bytes of a fact at a node; NULL: it has none of that name. */
static const char *value_at(const struct world *world, uint32_t node, const char *name, char text[64])
{
    const struct hr_facts *facts = &world->nodes[node].facts;
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct hr_fact *fact = &facts->all[i];
        const char *at = (const char *)facts->arena + fact->at;
        if (fact->name_bytes == strlen(name) && memcmp(at, name, fact->name_bytes) == 0) {
            assert_true(fact->value_bytes < 64);
            memcpy(text, at + fact->name_bytes, fact->value_bytes);
            text[fact->value_bytes] = '\0';
            return text;
        }
    }
    return NULL;
}

static void a_write_reaches_every_node_at_once(void **state)
{
    (void)state;
    struct world world;
    char text[64];
    set_up(&world, 1, 0);
    assert_int_equal(write_at(&world, 2, "rate", "50/s"), HR_OK);
    deliver(&world);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_string_equal(value_at(&world, i, "rate", text), "50/s");
    }
    tear_down(&world);
}

static void the_newest_write_wins_at_every_node_whatever_is_lost(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world;
        char name[8], value[16], here[64], there[64];
        set_up(&world, seed, 40);
        for (uint32_t i = 0; i < 200; i++) {
            (void)snprintf(name, sizeof(name), "n%u", (unsigned)hr_rng_below(&world.rng, 20));
            (void)snprintf(value, sizeof(value), "v%u", (unsigned)i);
            assert_int_equal(write_at(&world, (uint32_t)hr_rng_below(&world.rng, NODES), name, i % 7 ? value : ""),
                             HR_OK);
            deliver(&world);
            world.now += HR_NS_PER_MS;
        }
        world.loss_percent = 0;
        run(&world, 30);
        for (uint32_t i = 1; i < NODES; i++) {
            if (world.nodes[i].facts.count != world.nodes[0].facts.count) {
                fail_msg("seed %u: node %u holds another number of facts", (unsigned)seed, i);
            }
            for (uint32_t n = 0; n < 20; n++) {
                (void)snprintf(name, sizeof(name), "n%u", n);
                const char *a = value_at(&world, 0, name, here), *b = value_at(&world, i, name, there);
                if ((a == NULL) != (b == NULL) || (a != NULL && strcmp(a, b) != 0)) {
                    fail_msg("seed %u: nodes 0 and %u differ in %s", (unsigned)seed, i, name);
                }
            }
        }
        tear_down(&world);
    }
}

static void a_later_write_wins_though_its_clock_is_behind(void **state)
{
    (void)state;
    struct world world;
    char text[64];
    set_up(&world, 1, 0);
    world.now = 1000 * HR_NS_PER_S;
    assert_int_equal(write_at(&world, 0, "rate", "old"), HR_OK);
    deliver(&world);
    world.now = 0;
    assert_int_equal(write_at(&world, 1, "rate", "new"), HR_OK);
    deliver(&world);
    assert_string_equal(value_at(&world, 0, "rate", text), "new");
    tear_down(&world);
}

static void what_another_node_wrote_is_told_once_and_own_writes_never(void **state)
{
    (void)state;
    struct world world;
    struct hr_span name, value;
    struct hr_fact_version version;
    set_up(&world, 1, 0);
    assert_int_equal(write_at(&world, 0, "rate", "50/s"), HR_OK);
    deliver(&world);
    run(&world, 5);
    assert_false(hr_facts_next_change(&world.nodes[0].facts, &name, &value, &version));
    assert_true(hr_facts_next_change(&world.nodes[1].facts, &name, &value, &version));
    assert_true(hr_span_equal(name, HR_SPAN("rate")) && hr_span_equal(value, HR_SPAN("50/s")));
    assert_int_equal(version.writer, 1);
    assert_false(hr_facts_next_change(&world.nodes[1].facts, &name, &value, &version));
    tear_down(&world);
}

static void bytes_of_replaced_facts_are_won_back(void **state)
{
    (void)state;
    struct world world;
    char value[512], name[8], text[64];
    set_up(&world, 1, 0);
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    assert_int_equal(write_at(&world, 0, "kept", "as it was"), HR_OK);
    for (uint32_t i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i % 10);
        if (write_at(&world, 0, name, value) != HR_OK) {
            fail_msg("write %u found no room", i);
        }
    }
    assert_string_equal(value_at(&world, 0, "kept", text), "as it was");
    tear_down(&world);
}

static void a_fact_too_many_is_refused_and_nothing_is_lost(void **state)
{
    (void)state;
    struct world world;
    char name[8], text[64];
    set_up(&world, 1, 0);
    for (uint32_t i = 0; i <= FACTS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        assert_int_equal(write_at(&world, 0, name, "v"), i < FACTS_MAX ? HR_OK : HR_E_FULL);
    }
    assert_string_equal(value_at(&world, 0, "n0", text), "v");
    tear_down(&world);
}

static void a_letter_that_is_cut_short_changes_nothing(void **state)
{
    (void)state;
    struct world world;
    struct hr_letter letter;
    static char body[4096];
    set_up(&world, 1, 0);
    assert_int_equal(write_at(&world, 0, "rate", "50/s"), HR_OK);
    assert_true(hr_outbox_next(&world.nodes[0].outbox, &letter));
    memcpy(body, letter.body.at, letter.body.bytes);
    struct node *to = &world.nodes[1];
    for (size_t bytes = 0; bytes < letter.body.bytes; bytes++) {
        hr_facts_receive(&to->facts, 1, (struct hr_span){body, bytes}, &to->outbox);
        assert_int_equal(to->facts.count, 0);
    }
    hr_facts_receive(&to->facts, 1, (struct hr_span){body, letter.body.bytes}, &to->outbox);
    assert_int_equal(to->facts.count, 1);
    tear_down(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_reaches_every_node_at_once),
        cmocka_unit_test(the_newest_write_wins_at_every_node_whatever_is_lost),
        cmocka_unit_test(a_later_write_wins_though_its_clock_is_behind),
        cmocka_unit_test(what_another_node_wrote_is_told_once_and_own_writes_never),
        cmocka_unit_test(bytes_of_replaced_facts_are_won_back),
        cmocka_unit_test(a_fact_too_many_is_refused_and_nothing_is_lost),
        cmocka_unit_test(a_letter_that_is_cut_short_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
