/* What a node believes of a partition's past as the partition comes to it, with a tenure that says what the test wants:
 * the real one gets there only where several nodes of a region are lost in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/cap_keeper_state.h"

#define PARTITION 5U
#define LOG 77U
#define NOW ((struct hr_now){.steady = 100 * HR_NS_PER_S, .wall = {1000 * HR_NS_PER_S}})

static struct {
    uint32_t epoch;
    uint64_t version;
} said;

enum hr_holding hr_tenure_holding(const struct hr_tenure *tenure, uint32_t partition)
{
    (void)tenure;
    return partition == PARTITION ? HR_HOLDING : HR_HOLDING_NOT;
}

uint32_t hr_tenure_epoch(const struct hr_tenure *tenure, uint32_t partition)
{
    (void)tenure;
    (void)partition;
    return said.epoch;
}

uint64_t hr_tenure_lineage(const struct hr_tenure *tenure)
{
    (void)tenure;
    return 1;
}

uint32_t hr_tenure_owner(const struct hr_tenure *tenure, uint32_t partition)
{
    (void)tenure;
    (void)partition;
    return 0;
}

uint32_t hr_tenure_standby(const struct hr_tenure *tenure, uint32_t partition)
{
    (void)tenure;
    (void)partition;
    return 0;
}

struct hr_tenure_counts hr_tenure_counts(const struct hr_tenure *tenure, hr_ns now)
{
    (void)tenure;
    (void)now;
    return (struct hr_tenure_counts){.version = said.version};
}

static struct hr_limiter *make_limiter(void **ret_memory)
{
    static const struct hr_limiter_sizes sizes = {
        .counters_max = 8, .leases_max = 1, .log_blocks_max = 1, .limits_max = 2, .shares_max = 8};
    static const struct hr_hash_key secret;
    size_t bytes = (hr_limiter_bytes(&sizes) + 63) / 64 * 64;
    *ret_memory = aligned_alloc(64, bytes);
    assert_non_null(*ret_memory);
    memset(*ret_memory, 0, bytes);
    return hr_limiter_init(&sizes, &secret, *ret_memory, bytes);
}

struct fixture {
    void *limiter_memory, *memory;
    struct hr_cap_keeper *keeper;
};

static void set_up(struct fixture *fixture)
{
    struct hr_cap_keeper_config config = {.limiter = make_limiter(&fixture->limiter_memory),
                                          .regions = {2, 0, {HR_SPAN("eu"), HR_SPAN("us")}, {1, 1}},
                                          .incarnation = 9,
                                          .hot_max = 4,
                                          .saves = true};
    struct hr_bump measure = {0}, bump = {0};
    assert_non_null(config.limiter);
    (void)hr_cap_keeper_init(&config, &measure, NOW);
    size_t bytes = (measure.taken + 63) / 64 * 64;
    fixture->memory = aligned_alloc(64, bytes);
    assert_non_null(fixture->memory);
    memset(fixture->memory, 0, bytes);
    bump.at = fixture->memory;
    fixture->keeper = hr_cap_keeper_init(&config, &bump, NOW);
    fixture->keeper->origin = HR_CAP_ORIGIN_OLD;
    said.version = 12;
}

static void tear_down(struct fixture *fixture)
{
    free(fixture->memory);
    free(fixture->limiter_memory);
}

/* An image of the partition, as the node wrote it while it had the seat of that epoch. */
static void keep_image(struct hr_cap_keeper *keeper, enum hr_cap_trust trust, uint32_t epoch)
{
    struct hr_caps_write write = {.id = {(uint64_t)PARTITION << 52, 1},
                                  .limit = 8,
                                  .image = {.label = 3, .life = LOG, .charged = 10, .count = 2}};
    assert_int_equal(hr_partition_of(write.id), PARTITION);
    assert_non_null(hr_cap_images_put(&keeper->images, &write));
    keeper->images.marks[PARTITION] = (struct hr_cap_mark){.trust = (uint8_t)trust, .epoch = epoch, .log = LOG};
}

static bool has_image(struct hr_cap_keeper *keeper)
{
    uint32_t cursor = 0;
    const struct hr_cap_kept *kept = hr_cap_images_next(&keeper->images, PARTITION, &cursor);
    return kept != NULL && !kept->is_over;
}

/* Between two seats of its own somebody else may have had the partition, and spent. */
static void what_a_node_wrote_is_believed_only_under_the_same_seat(void **state)
{
    static const struct {
        enum hr_cap_trust trust;
        uint32_t mark, seat;
        bool is_believed;
    } rows[] = {
        {HR_CAP_TRUST_OWN, 4, 4, true},   {HR_CAP_TRUST_OWN, 4, 5, false}, {HR_CAP_TRUST_OWN, 4, 6, false},
        {HR_CAP_TRUST_OWN, 4, 3, false},  {HR_CAP_TRUST_COPY, 0, 5, true}, {HR_CAP_TRUST_COPY, 4, 6, true},
        {HR_CAP_TRUST_NONE, 4, 4, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture fixture;
        set_up(&fixture);
        struct hr_cap_keeper *keeper = fixture.keeper;
        const struct hr_cap_mark *mark = &keeper->images.marks[PARTITION];
        keep_image(keeper, rows[i].trust, rows[i].mark);
        said.epoch = rows[i].seat;
        hr_cap_log_own(keeper, PARTITION);
        bool is_forfeit = mark->forgot_at_ns == NOW.wall.ns;
        if ((mark->log == LOG) != rows[i].is_believed || is_forfeit == rows[i].is_believed ||
            has_image(keeper) != rows[i].is_believed) {
            fail_msg("row %zu: log %llu, forgot at %lld", i, (unsigned long long)mark->log,
                     (long long)mark->forgot_at_ns);
        }
        assert_int_equal(mark->trust, HR_CAP_TRUST_OWN);
        assert_int_equal(mark->epoch, rows[i].seat);
        tear_down(&fixture);
    }
}

/* A region that is known to be new has forgotten nothing; one of which that is not known yet may have. */
static void only_a_new_region_begins_without_a_past(void **state)
{
    static const struct {
        enum hr_cap_origin origin;
        uint64_t version;
        bool forgets, is_virgin;
    } rows[] = {
        {HR_CAP_ORIGIN_NEW, 1, false, false},
        {HR_CAP_ORIGIN_OLD, 1, true, false},
        {HR_CAP_ORIGIN_UNKNOWN, 1, true, true},
        {HR_CAP_ORIGIN_NEW, 2, true, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture fixture;
        set_up(&fixture);
        const struct hr_cap_mark *mark = &fixture.keeper->images.marks[PARTITION];
        fixture.keeper->origin = rows[i].origin;
        said.version = rows[i].version;
        hr_cap_log_own(fixture.keeper, PARTITION);
        if ((mark->forgot_at_ns != 0) != rows[i].forgets || mark->is_virgin != rows[i].is_virgin) {
            fail_msg("row %zu: forgot at %lld, virgin %d", i, (long long)mark->forgot_at_ns, mark->is_virgin);
        }
        tear_down(&fixture);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_node_wrote_is_believed_only_under_the_same_seat),
        cmocka_unit_test(only_a_new_region_begins_without_a_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
