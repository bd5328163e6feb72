#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defect.h"
#include "chaos/cmd_chaos.h"
#include "chaos/dice.h"
#include "chaos/limits_builtin.h"
#include "chaos/page.h"
#include "chaos/shrink.h"
#include "chaos/sim_text.h"
#include "node/amount_text.h"
#include "node/clock.h"
#include "node/file_bytes.h"

#define SCHEDULE_BYTES_MAX (4U << 20)
#define LASTS_DEFAULT_NS (300 * HR_NS_PER_S)

static const char help[] =
    "usage: headroom-chaos sim [OPTION...]\n"
    "\n"
    "Runs whole clusters in one thread under virtual time, strikes them with faults, and holds every\n"
    "answer against the invariants. What it prints is a function of its options alone.\n"
    "\n"
    "  --seed N         the first seed (default 1)\n"
    "  --seeds N        how many seeds, one after another (default 1)\n"
    "  --hours H        how long each runs, in hours of the cluster's time\n"
    "  --lasts D        the same as a duration: 90s, 10m (default 300s; at least 20s)\n"
    "  --limits FILE    the limits file (default: one limit of each algorithm)\n"
    "  --caps           without a file: limits with caps over all regions\n"
    "  --schedule FILE  the faults, instead of those that the seed draws\n"
    "  --faults LIST    only these kinds may be drawn, as in cut,crash; none: no faults at all\n"
    "  --report FILE    write the last run as a page of HTML\n"
    "  --json           print each run as a line of JSON\n"
    "  --no-shrink      do not make a failing schedule small\n"
#ifdef HEADROOM_DEFECTS
    "  --defect NAME    put this defect into every node\n"
#endif
    "\n"
    "Drawn for each seed, where they are not given:\n"
    "  --regions N      1 to 8\n"
    "  --nodes N        in each region, 1 to 20\n"
    "  --rps N          requests a second, of all clients\n"
    "  --keys N         different values of each attribute that tells counters apart\n"
    "  --flush D        the nodes' flush interval\n"
    "\n"
    "  --help           print this\n"
    "  --version        print the version\n"
    "\n"
    "Exit status: 0 every invariant held, 1 one was violated, 2 wrong usage or invalid input.\n";

/* 0 where it was not given. */
struct wishes {
    uint64_t seed, seeds;
    uint64_t regions, nodes, rps, keys;
    uint64_t lasts_ns, flush_ns;
    uint32_t strikes;
    const char *limits_path, *schedule_path, *report_path;
    bool json, no_shrink, caps;
};

struct run {
    struct wishes wishes;
    struct hr_limits_file *limits;
    struct hr_file_bytes schedule_text; /* at NULL: the seed draws it */
    uint64_t passed, failed;
    uint64_t strikes[HR_STRIKE_COUNT];
    hr_ns simulated_ns;
    struct hr_problem problem;
};

/* --- options --- */

static bool parse_whole(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < min || value > max) {
        return false;
    }
    *ret_value = value;
    return true;
}

static bool parse_duration(const char *text, uint64_t min_ns, uint64_t *ret_ns)
{
    return hr_period_parse(hr_span_of(text), ret_ns) == HR_OK && *ret_ns >= min_ns;
}

static bool parse_hours(const char *text, uint64_t *ret_ns)
{
    uint64_t hours;
    if (!parse_whole(text, 1, (uint64_t)(HR_SIM_NS_MAX / HR_NS_PER_S / 3600), &hours)) {
        return false;
    }
    *ret_ns = hours * 3600 * (uint64_t)HR_NS_PER_S;
    return true;
}

static bool parse_strikes(const char *text, uint32_t *ret_strikes)
{
    *ret_strikes = 0;
    if (strcmp(text, "none") == 0) {
        return true;
    }
    while (*text != '\0') {
        size_t bytes = strcspn(text, ",");
        enum hr_strike strike;
        if (!hr_strike_find((struct hr_span){text, bytes}, &strike)) {
            return false;
        }
        *ret_strikes |= 1U << strike;
        text += bytes + (text[bytes] == ',');
    }
    return true;
}

#ifdef HEADROOM_DEFECTS
static bool parse_defect(const char *text)
{
    return hr_defect_choose(text);
}
#else
static bool parse_defect(const char *text)
{
    (void)text;
    return false;
}
#endif

enum {
    SEED = HR_OPTION_OWN,
    SEEDS,
    HOURS,
    LASTS,
    LIMITS,
    CAPS,
    SCHEDULE,
    FAULTS,
    REPORT,
    JSON,
    NO_SHRINK,
    DEFECT,
    REGIONS,
    NODES,
    RPS,
    KEYS,
    FLUSH
};

/* False: the value is none for this option. */
static bool take_option(struct wishes *wishes, int option)
{
    switch (option) {
    case SEED:
        return parse_whole(optarg, 0, UINT64_MAX, &wishes->seed);
    case SEEDS:
        return parse_whole(optarg, 1, UINT32_MAX, &wishes->seeds);
    case HOURS:
        return parse_hours(optarg, &wishes->lasts_ns);
    case LASTS:
        return parse_duration(optarg, (uint64_t)HR_SIM_NS_MIN, &wishes->lasts_ns);
    case LIMITS:
        wishes->limits_path = optarg;
        return true;
    case CAPS:
        wishes->caps = true;
        return true;
    case SCHEDULE:
        wishes->schedule_path = optarg;
        return true;
    case FAULTS:
        return parse_strikes(optarg, &wishes->strikes);
    case REPORT:
        wishes->report_path = optarg;
        return true;
    case JSON:
        wishes->json = true;
        return true;
    case NO_SHRINK:
        wishes->no_shrink = true;
        return true;
    case DEFECT:
        return parse_defect(optarg);
    case REGIONS:
        return parse_whole(optarg, 1, HR_SIM_REGIONS_MAX, &wishes->regions);
    case NODES:
        return parse_whole(optarg, 1, HR_SIM_REGION_NODES_MAX, &wishes->nodes);
    case RPS:
        return parse_whole(optarg, 1, HR_SIM_RPS_MAX, &wishes->rps);
    case KEYS:
        return parse_whole(optarg, 1, HR_SIM_KEYS_MAX, &wishes->keys);
    default:
        return parse_duration(optarg, 1, &wishes->flush_ns);
    }
}

/* False: the command ends here, with *ret_exit. */
static bool parse_arguments(int argc, char **argv, struct wishes *wishes, int *ret_exit)
{
    static const struct option table[] = {
        {"seed", required_argument, NULL, SEED},         {"seeds", required_argument, NULL, SEEDS},
        {"hours", required_argument, NULL, HOURS},       {"lasts", required_argument, NULL, LASTS},
        {"limits", required_argument, NULL, LIMITS},     {"caps", no_argument, NULL, CAPS},
        {"schedule", required_argument, NULL, SCHEDULE}, {"faults", required_argument, NULL, FAULTS},
        {"report", required_argument, NULL, REPORT},     {"json", no_argument, NULL, JSON},
        {"no-shrink", no_argument, NULL, NO_SHRINK},     {"defect", required_argument, NULL, DEFECT},
        {"regions", required_argument, NULL, REGIONS},   {"nodes", required_argument, NULL, NODES},
        {"rps", required_argument, NULL, RPS},           {"keys", required_argument, NULL, KEYS},
        {"flush", required_argument, NULL, FLUSH},       HR_OPTIONS_COMMON,
    };
    int option, index = 0;
    while ((option = hr_cmd_option(argc, argv, table, help, ret_exit)) != HR_OPTION_END) {
        if (option == HR_OPTION_EXIT) {
            return false;
        }
        for (index = 0; table[index].val != option; index++) {
        }
        if (!take_option(wishes, option)) {
            *ret_exit = hr_cmd_usage(argv[0], "--%s cannot be %s", table[index].name, optarg);
            return false;
        }
    }
    if (optind < argc) {
        *ret_exit = hr_cmd_usage(argv[0], "sim takes options only, not %s", argv[optind]);
        return false;
    }
    return true;
}

/* --- one seed --- */

static uint64_t wish_or(uint64_t wish, uint64_t drawn)
{
    return wish != 0 ? wish : drawn;
}

/* What was not asked for is drawn: runs of different seeds differ in kind. Everything is drawn in any case, so that
 * giving one option never changes another. */
static struct hr_sim_options draw_options(const struct run *run, uint64_t seed)
{
    static const uint64_t keys[] = {1, 10, 100, 1000};
    static const uint64_t flushes_ms[] = {10, 100, 100, 1000};
    const struct wishes *wishes = &run->wishes;
    struct hr_rng rng = hr_dice_fork(seed, 8);
    uint64_t regions = 1 + hr_rng_below(&rng, 3), nodes = 1 + hr_rng_below(&rng, 3);
    uint64_t rps = 50 + hr_rng_below(&rng, 1000);
    uint64_t key_count = keys[hr_rng_below(&rng, 4)];
    uint64_t flush_ns = flushes_ms[hr_rng_below(&rng, 4)] * (uint64_t)HR_NS_PER_MS;
    return (struct hr_sim_options){
        .seed = seed,
        .shape = {(uint32_t)wish_or(wishes->regions, regions), (uint32_t)wish_or(wishes->nodes, nodes)},
        .lasts_ns = (hr_ns)wish_or(wishes->lasts_ns, (uint64_t)LASTS_DEFAULT_NS),
        .rps = (uint32_t)wish_or(wishes->rps, rps),
        .keys = (uint32_t)wish_or(wishes->keys, key_count),
        .flush_interval_ns = (hr_ns)wish_or(wishes->flush_ns, flush_ns),
        .limits = run->limits,
    };
}

static bool make_schedule(struct run *run, const struct hr_sim_options *options, struct hr_schedule *ret_schedule)
{
    *ret_schedule = (struct hr_schedule){0};
    if (run->schedule_text.at != NULL) {
        return hr_schedule_parse(ret_schedule, (struct hr_span){run->schedule_text.at, run->schedule_text.bytes},
                                 run->wishes.schedule_path, options->shape, &run->problem);
    }
    struct hr_sim_phases phases = hr_sim_phases(options->lasts_ns);
    const struct hr_schedule_wish wish = {options->shape, phases.faults_from, phases.healed_from, options->seed,
                                          run->wishes.strikes};
    hr_problem_what(&run->problem, "no memory for a schedule");
    return hr_schedule_draw(ret_schedule, &wish) == HR_OK;
}

static void write_command(const struct run *run, const struct hr_sim_options *options, char *text, size_t bytes)
{
    const struct wishes *wishes = &run->wishes;
    int used = snprintf(text, bytes,
                        "headroom-chaos sim --seed %" PRIu64 " --regions %u --nodes %u --lasts %" PRId64
                        "s --rps %u --keys %u --flush %" PRId64 "ms",
                        options->seed, options->shape.regions, options->shape.nodes, options->lasts_ns / HR_NS_PER_S,
                        options->rps, options->keys, options->flush_interval_ns / HR_NS_PER_MS);
    if (used > 0 && (size_t)used < bytes && wishes->limits_path != NULL) {
        used += snprintf(text + used, bytes - (size_t)used, " --limits %s", wishes->limits_path);
    }
    if (used > 0 && (size_t)used < bytes && wishes->limits_path == NULL && wishes->caps) {
        used += snprintf(text + used, bytes - (size_t)used, " --caps");
    }
    if (used > 0 && (size_t)used < bytes && wishes->schedule_path != NULL) {
        (void)snprintf(text + used, bytes - (size_t)used, " --schedule %s", wishes->schedule_path);
    }
}

static void print_shrunk(const struct hr_sim_options *options, const struct hr_sim_told *told)
{
    struct hr_shrunk shrunk;
    if (hr_shrink(options, told->schedule, told->outcome, &shrunk) == HR_OK) {
        (void)printf("\n# %s, violated at %" PRId64 " ms by %u of %u faults, after %u runs; repeat it with\n",
                     hr_check_forms[told->outcome->first].name, shrunk.violated_at / HR_NS_PER_MS,
                     shrunk.schedule.count, told->schedule->count, shrunk.runs);
        (void)printf("#   %s --schedule THIS-TEXT\n", told->command);
        hr_schedule_print(&shrunk.schedule, options->shape, stdout);
        (void)putchar('\n');
    }
    hr_schedule_deinit(&shrunk.schedule);
}

static void put_page(const void *of, FILE *out)
{
    hr_sim_print_html(of, out);
}

static bool tell(struct run *run, const struct hr_sim_told *told, bool is_last)
{
    bool has_failed = told->outcome->first != HR_CHECK_COUNT;
    run->failed += has_failed;
    run->passed += !has_failed;
    run->simulated_ns += told->options->lasts_ns;
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        run->strikes[strike] += told->outcome->strikes[strike];
    }
    if (run->wishes.json) {
        hr_sim_print_json(told, stdout);
    } else {
        hr_sim_print(told, stdout);
        if (has_failed && !run->wishes.no_shrink) {
            print_shrunk(told->options, told);
        }
    }
    (void)fflush(stdout); /* a long series is looked at while it goes on; main asks whether all could be written */
    const char *path = run->wishes.report_path;
    return path == NULL || !is_last || hr_page_write(path, put_page, told, &run->problem);
}

static bool run_seed(struct run *run, uint64_t seed, bool is_last)
{
    const struct hr_sim_options options = draw_options(run, seed);
    struct hr_schedule schedule;
    struct hr_sim_outcome outcome;
    char command[1024];
    bool is_good =
        make_schedule(run, &options, &schedule) && hr_sim_run(&options, &schedule, false, &outcome, &run->problem);
    if (is_good) {
        write_command(run, &options, command, sizeof(command));
        const char *built_in = run->wishes.caps ? "built in, with global caps" : "built in";
        const char *limits = run->wishes.limits_path == NULL ? built_in : run->wishes.limits_path;
        const struct hr_sim_told told = {&options, &schedule, &outcome, limits, command};
        is_good = tell(run, &told, is_last);
        hr_sim_outcome_deinit(&outcome);
    }
    hr_schedule_deinit(&schedule);
    return is_good;
}

/* --- all seeds --- */

static bool open_inputs(struct run *run)
{
    const struct wishes *wishes = &run->wishes;
    run->limits = wishes->limits_path == NULL
                      ? hr_limits_file_parse(wishes->caps ? hr_limits_builtin_caps : hr_limits_builtin,
                                             "built-in limits", &run->problem)
                      : hr_limits_file_load(wishes->limits_path, &run->problem);
    if (run->limits == NULL || wishes->schedule_path == NULL) {
        return run->limits != NULL;
    }
    return hr_file_read(wishes->schedule_path, SCHEDULE_BYTES_MAX, &run->schedule_text, &run->problem);
}

/* How quick it was is no part of the output: it differs from run to run. */
static void print_speed(const struct run *run, hr_ns began_at)
{
    int64_t took_ms = (hr_clock_steady() - began_at) / HR_NS_PER_MS;
    int64_t simulated_ms = run->simulated_ns / HR_NS_PER_MS;
    (void)fprintf(stderr, "%" PRId64 ".%03" PRId64 " s; %" PRId64 " times as fast as the cluster's time\n",
                  took_ms / 1000, took_ms % 1000, simulated_ms / (took_ms > 0 ? took_ms : 1));
}

static void print_sum(const struct run *run)
{
    if (run->wishes.json || run->wishes.seeds == 1) {
        return;
    }
    (void)printf("\n%" PRIu64 " seeds passed, %" PRIu64 " failed; faults that never struck:", run->passed, run->failed);
    bool struck_all = true;
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (run->strikes[strike] == 0) {
            (void)printf(" %s", hr_strike_forms[strike].name);
            struck_all = false;
        }
    }
    (void)puts(struck_all ? " none" : "");
}

int hr_chaos_sim(int argc, char **argv)
{
    struct run run = {.wishes = {.seed = 1, .seeds = 1, .strikes = (1U << HR_STRIKE_COUNT) - 1}};
    int status = HR_EXIT_DONE;
    if (!parse_arguments(argc, argv, &run.wishes, &status)) {
        return status;
    }
    hr_ns began_at = hr_clock_steady();
    bool is_good = open_inputs(&run);
    for (uint64_t i = 0; i < run.wishes.seeds && is_good; i++) {
        is_good = run_seed(&run, run.wishes.seed + i, i + 1 == run.wishes.seeds);
    }
    if (is_good) {
        print_sum(&run);
        print_speed(&run, began_at);
        status = run.failed > 0 ? HR_EXIT_FAILED : HR_EXIT_DONE;
    } else {
        status = hr_cmd_fail(&run.problem);
    }
    free(run.schedule_text.at);
    hr_limits_file_free(run.limits);
    return status;
}
