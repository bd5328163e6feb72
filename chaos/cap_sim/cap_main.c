/* cap_sim: the global caps under load and faults, in virtual time.
 *
 *   cap_sim table [ROW]             every scenario with its figures; exit 1 if one misses its goal
 *   cap_sim quick                   the same with one seed instead of three
 *   cap_sim chaos COUNT [SEED]      random fault schedules, invariants after every event; exit 1 if one breaks
 *   cap_sim seed rate|quota SEED    one schedule
 *   cap_sim mutants COUNT           each rule broken on purpose; exit 1 if one is not noticed (built with mutants) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/cap_sim/cap_table.h"
#include "region/cap_mutant.h"

#ifdef HEADROOM_MUTANTS
enum hr_cap_mutant hr_cap_mutant = HR_MUTANT_NONE;
#endif

static struct cap_world world;

static bool misses(const struct cap_result *result, const struct cap_goal *goal)
{
    return result->over_units > 0 || result->utilisation_permyriad < goal->utilisation_permyriad ||
           (goal->settle > 0 && (result->settle < 0 || result->settle > goal->settle)) ||
           (goal->record_bytes_per_s > 0 && result->record_bytes_per_s > goal->record_bytes_per_s);
}

static void print_row(const struct cap_scenario *s, const struct cap_result *result, bool is_missed)
{
    char settle[24] = "-";
    if (s->move_count > 0 && !s->is_cover) {
        (void)snprintf(settle, sizeof settle, "%.2f", (double)result->settle / 1e9);
    }
    (void)printf("| %s | %" PRIi64 " | %.2f | %s | %.1f | %" PRIu64 " | %" PRIu64 " |%s\n", s->name,
                 result->over_units > 0 ? result->over_units : 0, (double)result->utilisation_permyriad / 100, settle,
                 (double)result->records_per_s_x10 / 10, result->record_bytes_per_s, result->bytes_per_s,
                 is_missed ? " MISSED" : "");
}

/* Means over the seeds; the worst of what is over, and of what it took to settle. */
static struct cap_result run_seeds(const struct cap_scenario *scenario, uint64_t seeds, bool *ret_is_broken)
{
    struct cap_result sum = {.over_units = INT64_MIN};
    for (uint64_t seed = 11; seed < 11 + seeds; seed++) {
        cap_world_run(&world, scenario, seed, true);
        struct cap_result one = cap_world_result(&world);
        if (world.violation[0] != '\0') {
            (void)printf("%s: %s by %" PRIi64 " at %.3f s\n", scenario->name, world.violation, world.violated_by,
                         (double)world.violated_at / 1e9);
            *ret_is_broken = true;
        }
        sum.over_units = one.over_units > sum.over_units ? one.over_units : sum.over_units;
        sum.utilisation_permyriad += one.utilisation_permyriad;
        sum.records_per_s_x10 += one.records_per_s_x10;
        sum.record_bytes_per_s += one.record_bytes_per_s;
        sum.bytes_per_s += one.bytes_per_s;
        sum.settle = one.settle < 0 || sum.settle < 0 ? -1 : hr_max(one.settle, sum.settle);
    }
    sum.utilisation_permyriad /= seeds;
    sum.records_per_s_x10 /= seeds;
    sum.record_bytes_per_s /= seeds;
    sum.bytes_per_s /= seeds;
    return sum;
}

static int run_table(int only, uint64_t seeds)
{
    bool is_bad = false;
    (void)printf("| load or fault | over | utilisation %% | settles s | records/s | record bytes/s | bytes/s |\n"
                 "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (uint32_t i = 0; i < cap_table_count(); i++) {
        struct cap_row row;
        if (only >= 0 && i != (uint32_t)only) {
            continue;
        }
        cap_table_row(i, &row);
        struct cap_result result = run_seeds(&row.scenario, seeds, &is_bad);
        bool is_missed = misses(&result, &row.goal);
        print_row(&row.scenario, &result, is_missed);
        is_bad |= is_missed;
        (void)fflush(stdout);
    }
    return is_bad;
}

/* True: the schedule broke an invariant. */
static bool run_schedule(uint64_t seed, bool is_cover, bool is_told)
{
    struct cap_scenario scenario;
    cap_schedule(seed, is_cover, &scenario);
    cap_world_run(&world, &scenario, seed, true);
    bool is_broken = world.violation[0] != '\0';
    if (is_broken && is_told) {
        (void)printf("seed %s %" PRIu64 " (%u regions): %s by %" PRIi64 " at %.6f s\n", is_cover ? "quota" : "rate",
                     seed, scenario.regions, world.violation, world.violated_by, (double)world.violated_at / 1e9);
    }
    return is_broken;
}

static int run_chaos(uint64_t count, uint64_t first)
{
    uint64_t broken = 0;
    for (uint64_t i = 0; i < count && broken < 10; i++) {
        broken += run_schedule(first + i, i % 4 == 3, true);
        if (i % 1000 == 999) {
            (void)printf("%" PRIu64 " schedules, %" PRIu64 " broke an invariant\n", i + 1, broken);
            (void)fflush(stdout);
        }
    }
    (void)printf("%" PRIu64 " schedules from seed %" PRIu64 ": %" PRIu64 " broke an invariant\n", count, first, broken);
    return broken > 0;
}

#ifdef HEADROOM_MUTANTS
static const char *const MUTANTS[] = {
#define X(name, text) text,
    HR_CAP_MUTANT_LIST(X)
#undef X
};

static int run_mutants(uint64_t count)
{
    int missed = 0;
    for (int mutant = HR_MUTANT_NONE + 1; mutant < HR_MUTANT_MAX; mutant++) {
        bool is_cover = mutant >= HR_MUTANT_TELL_FIRST;
        uint64_t caught = 0, runs = 0;
        hr_cap_mutant = (enum hr_cap_mutant)mutant;
        while (runs < count && caught < 3) {
            caught += run_schedule(1 + runs++, is_cover, false);
        }
        (void)printf("%-55s caught in %" PRIu64 " of %" PRIu64 " schedules\n", MUTANTS[mutant], caught, runs);
        (void)fflush(stdout);
        missed += caught == 0;
    }
    return missed > 0;
}
#else
static int run_mutants(uint64_t count)
{
    (void)count;
    (void)fprintf(stderr, "cap_sim: built without mutants\n");
    return 2;
}
#endif

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "table";
    uint64_t number = argc > 2 ? strtoull(argv[argc > 3 && strcmp(what, "seed") == 0 ? 3 : 2], NULL, 10) : 0;
    int status = 2;
    if (strcmp(what, "table") == 0) {
        status = run_table(argc > 2 ? (int)number : -1, 3);
    } else if (strcmp(what, "quick") == 0) {
        status = run_table(-1, 1);
    } else if (strcmp(what, "chaos") == 0) {
        status = run_chaos(number, argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    } else if (strcmp(what, "seed") == 0 && argc > 3) {
        status = run_schedule(number, strcmp(argv[2], "quota") == 0, true);
    } else if (strcmp(what, "mutants") == 0) {
        status = run_mutants(number);
    }
    cap_world_free(&world);
    return status;
}
